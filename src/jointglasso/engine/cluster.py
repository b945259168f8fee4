"""A Dask client as an executor: named tasks, broadcast of shared data, and readable errors."""

from __future__ import annotations

import asyncio
import concurrent.futures
import itertools
import math
import time
import uuid
import warnings
from collections import Counter
from collections.abc import Callable
from importlib.metadata import version
from typing import Any
from urllib.parse import urlsplit

from jointglasso import config
from jointglasso._version import __version__
from jointglasso.data.checks import InputTypeError

#: Packages whose versions affect the last digits of the results.
_ARITHMETIC = ("numpy", "scipy", "numba")
_VERSIONS_OF_WORKER = (
    "[__import__('jointglasso').__version__, "
    f"*(__import__('importlib.metadata').metadata.version(name) for name in {_ARITHMETIC})]"
)

_NO_WORKER = "The Dask cluster has no worker: start one, or wait for it (client.wait_for_workers(1))."

_LOST = (
    "The connection to the Dask scheduler was lost: start it again and solve again. With checkpoint= what was finished "
    "is found there."
)

_FULL = (
    "All Dask workers are paused, since their memory is full, and none will begin what waits for it: start them anew "
    "(client.restart()) with a larger memory_limit, and solve again. With checkpoint= what was finished is found there."
)


def is_client(executor: Any) -> bool:
    """Whether `executor` is a `distributed.Client`, without importing distributed."""
    return type(executor).__module__.partition(".")[0] == "distributed" and hasattr(executor, "scatter")


class Cluster:
    """The workers of a `distributed.Client`."""

    def __init__(self, client: Any) -> None:
        if client.asynchronous:
            raise InputTypeError(
                "executor is an asynchronous distributed.Client: give one made with asynchronous=False.", "executor"
            )
        self._client = client
        self._run, self._numbers = uuid.uuid4().hex, itertools.count()
        self._broadcast: _Broadcast | None = None
        self._checked_at, self._idle_since = time.monotonic(), math.inf
        self.pace: dict[Any, float] = {}
        """Last measured seconds per unit of cost, by function."""
        _require_same_version(client)

    def submit(self, function: Callable[..., Any], /, *arguments: Any, workers: str | None = None) -> _Task:
        """Submit a task; the dashboard shows the name of its first argument, the function that does the work.

        `workers` is the preferred machine; other workers take the task if all of its workers are lost.
        """
        return _Task(self, function, arguments, workers)

    def send(self, function: Callable[..., Any], arguments: tuple[Any, ...], workers: str | None) -> Any:
        """Submit to Dask and return its future."""
        name = getattr(arguments[0], "__name__", "work").strip("_")
        with warnings.catch_warnings():
            # Items are part of the graph, so that they survive the loss of a worker.
            warnings.filterwarnings("ignore", message="Sending large graph")
            return self._client.submit(
                function, *arguments, key=f"{name}-{self._run}-{next(self._numbers)}", pure=False,
                workers=workers, allow_other_workers=workers is not None,
            )  # fmt: skip

    def broadcast(self, shared: Any) -> Any:
        """Broadcast the shared data to every worker once; it stays there until other data is broadcast."""
        if self._broadcast is None or self._broadcast.value is not shared:
            try:
                self._broadcast = _Broadcast(shared, self._client.scatter([shared], broadcast=True, hash=False)[0])
            except TimeoutError:  # no worker accepted it
                raise RuntimeError(_FULL if self.machines() else _NO_WORKER) from None
        return self._broadcast

    def require_scheduler(self) -> None:
        """Raise an error if the scheduler is unreachable."""
        if self._client.status not in ("running", "connecting", "newly-created"):
            raise ConnectionError(_LOST) from None

    def check_workers(self) -> None:
        """Raise an error if the scheduler is unreachable, or if all workers have been paused for a while."""
        self.require_scheduler()
        now = time.monotonic()
        if now - self._checked_at < config.IDLE_SECONDS:
            return
        self._checked_at, workers = now, self._client.scheduler_info(n_workers=-1)["workers"].values()
        if any(w["status"] != "paused" or w["metrics"]["task_counts"].get("executing") for w in workers):
            self.worker_active()
        elif self._idle_since < now and workers:
            raise RuntimeError(_FULL)
        elif self._idle_since == math.inf:
            self._idle_since = now
            if not workers:
                warnings.warn("No Dask worker is left: the work waits until one comes.", RuntimeWarning, stacklevel=2)

    def worker_active(self) -> None:
        """Record that the workers are active."""
        self._idle_since = math.inf

    def machines(self) -> Counter[str]:
        """Number of concurrent tasks of each machine, by its name."""
        counts: Counter[str] = Counter()
        for address, threads in self._client.nthreads().items():
            counts[urlsplit(address).hostname or ""] += threads
        return counts

    @property
    def _max_workers(self) -> int:
        """Total number of concurrent tasks; the attribute name of `concurrent.futures` executors."""
        return self.machines().total() or 1

    @property
    def is_there(self) -> bool:
        """Whether the scheduler is reachable."""
        return bool(self._client.status == "running")


class _Broadcast:
    """A value that was broadcast to the workers, and its Dask future."""

    def __init__(self, value: Any, future: Any) -> None:
        self.value, self.future = value, future


class _Task:
    """A Dask future with the interface of `concurrent.futures.Future`."""

    def __init__(
        self, cluster: Cluster, function: Callable[..., Any], arguments: tuple[Any, ...], workers: str | None
    ) -> None:
        self._cluster, self._function, self._workers = cluster, function, workers
        self._arguments = tuple(a.value if isinstance(a, _Broadcast) else a for a in arguments)
        sent = tuple(a.future if isinstance(a, _Broadcast) else a for a in arguments)
        self._future = cluster.send(function, sent, workers)

    def add_done_callback(self, callback: Callable[[Any], object]) -> None:
        self._future.add_done_callback(lambda _: callback(self))

    def cancel(self) -> bool:
        if self._future.done():
            return False
        self._future.cancel()
        return True

    def result(self) -> Any:
        """The result; a task whose data was lost with a worker is submitted once more, with all its data."""
        from distributed import KilledWorker
        from distributed.comm import CommClosedError

        self._cluster.worker_active()
        lost = asyncio.CancelledError, concurrent.futures.CancelledError, CommClosedError
        try:
            try:
                return self._future.result()
            except lost:
                if not self._cluster.is_there:
                    raise ConnectionError(_LOST) from None
            try:
                return self._cluster.send(self._function, self._arguments, self._workers).result()
            except lost:  # the scheduler, not a worker, was lost
                raise ConnectionError(_LOST) from None
        except KilledWorker as error:
            raise RuntimeError(
                "A task was lost with every worker that tried it, of too little memory or by a signal: give "
                f"the workers more memory, or solve on one machine ({error.task})."
            ) from None


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
