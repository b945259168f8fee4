"""A Dask client as an executor: its own `get_executor`, one `scatter` of shared data, and readable errors."""

from __future__ import annotations

import uuid
import warnings
from collections import Counter
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

from jointglasso.data.checks import InputTypeError

#: Packages whose versions affect the last digits of the results.
_ARITHMETIC = ("numpy", "scipy", "numba")

_NO_WORKER = "The Dask cluster has no worker that takes data: start one, or wait for it (client.wait_for_workers(1))."

_LOST = (
    "The connection to the Dask scheduler was lost: start it again and solve again. With checkpoint= what was finished "
    "is found there."
)


_DYING = (
    "Workers of the Dask cluster died each time that data was sent to them: look at their logs (often too little "
    "memory), and start the cluster again."
)

#: Attempts to send the shared data, and seconds to wait until every worker has a copy.
_ATTEMPTS, _COPY_SECONDS = 3, 60.0


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
        self._shared: tuple[Any, Any] | None = None

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
        """Send the shared data to every worker once; it stays there until other data is sent.

        `Client.scatter(broadcast=True)` is not used: the scheduler's replication never ends if a worker dies during it
        (distributed issue 5704), and all later ones wait for its lock. One task per worker fetches a copy instead.
        """
        if self._shared is not None and self._shared[0] is shared and self._shared[1].status == "finished":
            return self._shared[1]
        for _ in range(_ATTEMPTS):
            try:
                (data,) = self._client.scatter([shared], hash=False)
                self._copy_to_workers(data)
            except TimeoutError:
                raise RuntimeError(_NO_WORKER) from None
            except (OSError, CancelledError):  # a worker died that was to take the data, or that alone held it
                self.require_scheduler()
                continue
            self._shared = shared, data
            return data
        raise RuntimeError(_DYING)

    def _copy_to_workers(self, data: Any) -> None:
        """Let every worker fetch `data`; those that take longer than `_COPY_SECONDS` fetch it with their first task."""
        from distributed import wait

        copies = [
            self._client.submit(_hold, data, key=f"copy-{uuid.uuid4().hex}", workers=[worker], allow_other_workers=True)
            for worker in self._client.nthreads()
        ]
        with suppress(TimeoutError):
            wait(copies, timeout=_COPY_SECONDS)

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


def _hold(data: Any) -> None:
    """Task that needs `data` on the worker it runs on."""


def _require_same_version(client: Any) -> None:
    """Refuse workers that have another version of this package, or none; warn of other versions of `_ARITHMETIC`."""
    if client.status != "running":
        raise ConnectionError("The distributed.Client is closed, or has lost its scheduler: make another one.")
    versions = client.get_versions(packages=["jointglasso", *_ARITHMETIC])
    wanted = versions["client"]["packages"]
    workers = {worker: answer["packages"] for worker, answer in versions["workers"].items()}
    if not workers:
        raise RuntimeError(_NO_WORKER)
    for worker, installed in workers.items():
        if installed["jointglasso"] != wanted["jointglasso"]:
            raise RuntimeError(
                f"The Dask worker {worker} has version {installed['jointglasso']} of jointglasso, and this process "
                f"{wanted['jointglasso']}: install the same version everywhere."
            )
    for worker, installed in workers.items():
        other = [f"{n} {installed[n]} (here {wanted[n]})" for n in _ARITHMETIC if installed[n] != wanted[n]]
        if other:
            warnings.warn(
                f"The Dask worker {worker} has {' and '.join(other)}: last digits may differ; install the same "
                "versions everywhere.",
                RuntimeWarning,
                stacklevel=2,
            )
            break
