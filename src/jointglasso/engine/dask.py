"""A Dask client as an executor: its own `get_executor`, one `scatter` of shared data, and readable errors."""

from __future__ import annotations

import uuid
import warnings
from collections import Counter
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from importlib.metadata import version
from typing import Any
from urllib.parse import urlsplit

from jointglasso._version import __version__
from jointglasso.data.checks import InputTypeError

#: Packages whose versions affect the last digits of the results.
_ARITHMETIC = ("numpy", "scipy", "numba")
_VERSIONS_OF_WORKER = (
    "[__import__('jointglasso').__version__, "
    f"*(__import__('importlib.metadata').metadata.version(name) for name in {_ARITHMETIC})]"
)

_NO_WORKER = "The Dask cluster has no worker that takes data: start one, or wait for it (client.wait_for_workers(1))."

_LOST = (
    "The connection to the Dask scheduler was lost: start it again and solve again. With checkpoint= what was finished "
    "is found there."
)


def is_client(executor: Any) -> bool:
    """Whether `executor` is a `distributed.Client`, without importing distributed."""
    return type(executor).__module__.partition(".")[0] == "distributed" and hasattr(executor, "scatter")


class DaskExecutor:
    """The workers of a `distributed.Client`; futures are those of `concurrent.futures`."""

    def __init__(self, client: Any) -> None:
        if client.asynchronous:
            raise InputTypeError(
                "executor is an asynchronous distributed.Client: give one made with asynchronous=False.", "executor"
            )
        _require_same_version(client)
        self._client, self._executor = client, client.get_executor(pure=False)
        self._shared: tuple[Any, Any] = None, None

    def submit(self, function: Callable[..., Any], /, *arguments: Any, machine: str = "") -> Future[Any]:
        """Submit a task; the dashboard shows the name of its first argument, the function that does the work.

        Workers of other machines take the task if all of the preferred `machine` are lost.
        """
        name = getattr(arguments[0], "__name__", "task").strip("_")
        with warnings.catch_warnings():
            # The data of a task is part of the graph, so that it survives the loss of a worker.
            warnings.filterwarnings("ignore", message="Sending large graph")
            future: Future[Any] = self._executor.submit(
                function, *arguments, key=f"{name}-{uuid.uuid4().hex}",
                workers=machine or None, allow_other_workers=bool(machine),
            )  # fmt: skip
        return future

    def scatter(self, shared: Any) -> Any:
        """Send the shared data to every worker once; it stays there until other data is sent."""
        if self._shared[0] is not shared:
            try:
                self._shared = shared, self._client.scatter([shared], broadcast=True, hash=False)[0]
            except TimeoutError:
                raise RuntimeError(_NO_WORKER) from None
        return self._shared[1]

    def machines(self) -> dict[str, float]:
        """Number of concurrent tasks of each machine, by its name."""
        counts: Counter[str] = Counter()
        for address, threads in self._client.nthreads().items():
            counts[urlsplit(address).hostname or ""] += threads
        return {name: float(count) for name, count in counts.items()}

    def require_scheduler(self) -> None:
        """Raise an error if the scheduler is unreachable."""
        if self._client.status not in ("running", "connecting", "newly-created"):
            raise ConnectionError(_LOST) from None

    def has_lost(self, error: Exception) -> bool:
        """Whether a task was lost with its workers or with data that they held; an error if the scheduler was lost."""
        from distributed import KilledWorker

        if isinstance(error, CancelledError) and self._client.status != "running":
            raise ConnectionError(_LOST) from None
        return isinstance(error, KilledWorker | CancelledError)


def _require_same_version(client: Any) -> None:
    """Refuse workers that have another version of this package, or cannot import it."""
    from distributed.comm import CommClosedError

    if client.status != "running":
        raise ConnectionError("The distributed.Client is closed, or has lost its scheduler: make another one.")
    answers = client.run(eval, _VERSIONS_OF_WORKER, on_error="return")
    versions = {
        worker: installed for worker, installed in answers.items() if not isinstance(installed, CommClosedError)
    }
    if not versions:
        raise RuntimeError(_NO_WORKER)
    wanted = dict(zip(("jointglasso", *_ARITHMETIC), (__version__, *map(version, _ARITHMETIC)), strict=True))
    for worker, installed in versions.items():
        if isinstance(installed, Exception):
            raise RuntimeError(f"The Dask worker {worker} cannot import jointglasso ({installed}): install it there.")
        if installed[0] != __version__:
            raise RuntimeError(
                f"The Dask worker {worker} has version {installed[0]} of jointglasso, and this process {__version__}: "
                "install the same version everywhere."
            )
    for worker, installed in versions.items():
        other = [
            f"{name} {v} (here {wanted[name]})" for name, v in zip(wanted, installed, strict=True) if v != wanted[name]
        ]
        if other:
            warnings.warn(
                f"The Dask worker {worker} has {' and '.join(other)}: last digits may differ; install the same "
                "versions everywhere.",
                RuntimeWarning,
                stacklevel=2,
            )
            break
