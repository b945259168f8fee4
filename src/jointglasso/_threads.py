"""Distribution of the cores: threads of this package over blocks, or BLAS threads inside one large block."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from threading import Lock, local
from typing import Any, TypeVar

import numpy as np
from threadpoolctl import ThreadpoolController

from jointglasso import config
from jointglasso._typing import FloatArray, IntArray

Item = TypeVar("Item")
Result = TypeVar("Result")


#: Block size up to which BLAS libraries use one thread by themselves (OpenBLAS inverts triangles of 24 rows on several,
#: at up to a hundred times the processor time); setting the limit takes longer than a product.
_SINGLE_THREADED_ANYWAY = 16

_limit_lock = Lock()
_n_limits = 0
_default_threads: list[int | None] = []
"""Thread count of each BLAS library before it was limited to one."""


def available_cores() -> int:
    """Cores this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@cache
def _blas() -> list[Any]:
    """The loaded BLAS libraries, cached: the search takes longer than a small solve."""
    import scipy.linalg  # noqa: F401  its BLAS must be loaded to be found

    libraries: list[Any] = ThreadpoolController().select(user_api="blas").lib_controllers
    return libraries


@cache
def _helpers() -> ThreadPoolExecutor:
    """Persistent thread pool; starting threads for each call takes longer than a small solve."""
    return ThreadPoolExecutor(max(1, available_cores() - 1), thread_name_prefix="jointglasso")


def _after_fork() -> None:
    """Forget the threads, which do not survive a fork, and a lock that one of them may have held."""
    global _limit_lock
    _helpers.cache_clear()
    _limit_lock = Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


_thread_state = local()


@contextmanager
def single_core() -> Iterator[None]:
    """Restrict this thread to one core, because several threads or processes share the cores."""
    before = getattr(_thread_state, "single_core", False)
    _thread_state.single_core = True
    try:
        yield
    finally:
        _thread_state.single_core = before


def cores_here() -> int:
    """Number of cores this thread may use: 1 inside `single_core`, else all."""
    return 1 if getattr(_thread_state, "single_core", False) else available_cores()


def _map_shared(function: Callable[[Any], Result], items: Sequence[Any] | IntArray, n_threads: int) -> list[Result]:
    """Apply a function that releases the interpreter lock to every item, on several threads, this one included.

    The calling thread processes items that no pool thread has started, so that it never waits for a busy pool. Of
    several errors the one of the first item is raised. The number of threads is at most the number of cores.
    """
    n_threads = min(n_threads, available_cores())
    results: list[Any] = [None] * len(items)
    errors: dict[int, BaseException] = {}
    pending = iter(range(len(items)))  # advanced by one thread at a time, so that each item is taken once

    def process_items() -> None:
        n = -1
        try:
            with single_core():
                for n in pending:
                    results[n] = function(items[n])
        except BaseException as error:
            errors[n] = error
        finally:
            _exhaust(pending)

    job = [process_items]  # cleared at the end: a late pool thread finds it empty and keeps no reference
    futures: list[Future[None]] = []
    try:
        with suppress(RuntimeError):  # no further thread can be started: this one and the others take the items
            for _ in range(min(n_threads, len(items)) - 1):
                futures.append(_helpers().submit(_run_job, job))
        process_items()
    finally:
        _exhaust(pending)
        wait([future for future in futures if not future.cancel()])  # running futures still write to `results`
        job.clear()
    try:
        for n in sorted(errors, key=lambda n: (isinstance(errors[n], Exception), n)):  # an interrupt before all others
            raise errors[n]
    finally:
        errors.clear()  # breaks the reference cycle through the traceback
    return results


def _run_job(job: list[Callable[[], None]]) -> None:
    for process_items in tuple(job):
        process_items()


def _exhaust(pending: Iterator[int]) -> None:
    """Consume the remaining items, so that no thread starts another one after an error."""
    for _ in pending:
        pass


def map_on_threads(
    function: Callable[[Item], Result], items: Sequence[Item], *, work: float = config.MIN_ENTRIES_FOR_THREADS
) -> list[Result]:
    """Apply a function that releases the interpreter lock to every item, on all cores, with single-threaded BLAS.

    `work` is the number of array elements to process; below `config.MIN_ENTRIES_FOR_THREADS` the calling thread does it
    all.
    """
    if len(items) <= 1 or work < config.MIN_ENTRIES_FOR_THREADS:
        return list(map(function, items))
    with single_threaded_blas():
        return _map_shared(function, items, available_cores())


def map_on_cores(
    function: Callable[[Item], Result], items: Sequence[Item], *, work: float = config.MIN_ENTRIES_FOR_THREADS
) -> list[Result]:
    """As `map_on_threads`, but sequential in a thread that is restricted to one core."""
    return map_on_threads(function, items, work=0.0 if getattr(_thread_state, "single_core", False) else work)


def balanced_bounds(cost: FloatArray, parts: int) -> IntArray:
    """(parts + 1,): boundaries of consecutive ranges of tasks with about equal total cost."""
    reached = np.cumsum(cost)
    total = reached[-1] if len(cost) else 0.0
    inner = np.searchsorted(reached, total * np.arange(1, parts) / parts) + 1
    return np.concatenate([[0], np.minimum(inner, len(cost)), [len(cost)]])


@dataclass(frozen=True)
class Workers:
    """Up to `n_threads` threads, the calling one included."""

    n_threads: int

    def run(self, kernel: Callable[..., None], bounds: IntArray, *arguments: object) -> None:
        """Run ``kernel(first, last, *arguments)`` on every range between consecutive bounds."""
        self.map(lambda piece: kernel(*piece, *arguments), list(pairwise(bounds)))

    def map(self, function: Callable[[Any], Result], items: Sequence[Any] | IntArray) -> list[Result]:
        """Apply a function that releases the interpreter lock to every item."""
        if self.n_threads == 1 or len(items) <= 1:
            return list(map(function, items))
        return _map_shared(function, items, self.n_threads)


def _set_threads(n_threads: Sequence[int | None]) -> None:
    """Set the thread count of each BLAS library from any thread.

    threadpoolctl accepts changes only from the thread that made the first one; this restriction is cleared.
    """
    for library, before, count in zip(_blas(), _default_threads, n_threads, strict=True):
        if before is not None and before > 1:
            release = getattr(library, "clear_controlling_thread", lambda force: None)
            release(force=True)
            library.set_num_threads(count)
            release(force=True)


@contextmanager
def single_threaded_blas() -> Iterator[None]:
    """Limit BLAS to one thread; the previous limit is restored when the last such context ends.

    The limit is global to the process, and several solves may run concurrently.
    """
    global _n_limits, _default_threads
    with _limit_lock:
        if _n_limits == 0:
            _default_threads = [library.num_threads for library in _blas()]
            _set_threads([1] * len(_default_threads))
        _n_limits += 1
    try:
        yield
    finally:
        with _limit_lock:
            _n_limits -= 1
            if _n_limits == 0:
                _set_threads(_default_threads)


@contextmanager
def blas_threads_for(block_size: int) -> Iterator[None]:
    """Multi-threaded BLAS for blocks of `config.HUGE` variables or more, else one thread."""
    if block_size >= config.HUGE or block_size <= _SINGLE_THREADED_ANYWAY:
        yield
    else:
        with single_threaded_blas():
            yield
