"""Who may use the cores: our own threads, or those of BLAS inside one big block."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from threading import Lock, local
from typing import Any, TypeVar

import numpy as np
from threadpoolctl import ThreadpoolController

from jointglasso import tuning
from jointglasso._typing import FloatArray, IntArray

Item = TypeVar("Item")
Result = TypeVar("Result")


_limit_lock = Lock()
_n_limits = 0
_default_threads: list[int | None] = []
"""Threads that each library had before it was held to one."""


def available_cores() -> int:
    """Cores this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@cache
def _blas() -> list[Any]:
    """The loaded BLAS libraries, found once; looking for them takes longer than solving a small problem."""
    import scipy.linalg  # noqa: F401  its BLAS must be loaded to be found

    libraries: list[Any] = ThreadpoolController().select(user_api="blas").lib_controllers
    return libraries


@cache
def _helpers() -> ThreadPoolExecutor:
    """Threads that wait for work as long as the process lives; starting them anew takes longer than a small problem."""
    return ThreadPoolExecutor(max(1, available_cores() - 1), thread_name_prefix="jointglasso")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_helpers.cache_clear)  # threads stay behind when a process is split


_thread_state = local()


def work_alone() -> None:
    """Note that this thread is one of several that have the cores between them: it will not ask for more."""
    _thread_state.single_core = True


def cores_here() -> int:
    """Cores that this thread may use: all, or its own where several threads or processes have them between them."""
    return 1 if getattr(_thread_state, "single_core", False) else available_cores()


def _map_shared(function: Callable[[Any], Result], items: Sequence[Any] | IntArray, n_threads: int) -> list[Result]:
    """Apply a function that releases the interpreter lock to every item, on several threads, this one included.

    This thread takes what no helper has begun, so that it never waits for one that is busy elsewhere. Of several errors
    the one of the first item is raised. There are never more threads than cores, since all of them compute.
    """
    n_threads = min(n_threads, available_cores())
    results: list[Any] = [None] * len(items)
    errors: dict[int, BaseException] = {}
    pending = iter(range(len(items)))  # advanced by one thread at a time, so that each item is taken once

    def process_items() -> None:
        before = getattr(_thread_state, "single_core", False)
        work_alone()
        try:
            for n in pending:
                try:
                    results[n] = function(items[n])
                except BaseException as error:
                    errors[n] = error
                    break
        finally:
            _exhaust(pending)
            _thread_state.single_core = before

    job = [process_items]  # given back in the end: a helper that is busy elsewhere may find it empty, but holds nothing
    futures: list[Future[None]] = []
    try:
        for _ in range(min(n_threads, len(items)) - 1):
            futures.append(_helpers().submit(_run_job, job))
        process_items()
    finally:
        _exhaust(pending)
        wait([future for future in futures if not future.cancel()])  # they write where the caller looks
        job.clear()
    try:
        for n in sorted(errors, key=lambda n: (isinstance(errors[n], Exception), n)):  # an interrupt before all others
            raise errors[n]
    finally:
        errors.clear()  # which would keep itself alive, by way of its own frame
    return results


def _run_job(job: list[Callable[[], None]]) -> None:
    for process_items in tuple(job):
        process_items()


def _exhaust(pending: Iterator[int]) -> None:
    """Take what is left, so that nobody begins another item after an error."""
    for _ in pending:
        pass


def map_on_threads(
    function: Callable[[Item], Result], items: Sequence[Item], *, work: float = tuning.WORTH_SHARING
) -> list[Result]:
    """Apply a function that releases the interpreter lock to every item, on all cores, BLAS held to one thread each.

    `work`, where the caller knows it, is how many numbers are looked at: where they are few this thread does it all.
    """
    if len(items) <= 1 or work < tuning.WORTH_SHARING:
        return [function(item) for item in items]
    with single_threaded_blas():
        return _map_shared(function, items, available_cores())


def map_on_cores(
    function: Callable[[Item], Result], items: Sequence[Item], *, work: float = tuning.WORTH_SHARING
) -> list[Result]:
    """As `map_on_threads`, but one after another where the cores are shared out already."""
    return map_on_threads(function, items, work=0.0 if getattr(_thread_state, "single_core", False) else work)


def balanced_bounds(cost: FloatArray, parts: int) -> IntArray:
    """Boundaries that cut tasks into consecutive parts of about equal cost."""
    reached = np.cumsum(cost)
    total = reached[-1] if len(cost) else 0.0
    inner = np.searchsorted(reached, total * np.arange(1, parts) / parts) + 1
    return np.concatenate([[0], np.minimum(inner, len(cost)), [len(cost)]])


@dataclass(frozen=True)
class Workers:
    """A few threads, the calling one among them."""

    n_threads: int

    def run(self, kernel: Callable[..., None], bounds: IntArray, *arguments: object) -> None:
        """Run ``kernel(first, last, *arguments)`` on every range between two bounds."""
        self.map(lambda piece: kernel(*piece, *arguments), list(pairwise(bounds)))

    def map(self, function: Callable[[Any], Result], items: Sequence[Any] | IntArray) -> list[Result]:
        """Apply a function that releases the interpreter lock to every item."""
        if self.n_threads == 1 or len(items) <= 1:
            return [function(item) for item in items]
        return _map_shared(function, items, self.n_threads)


def _set_threads(n_threads: Sequence[int | None]) -> None:
    """Set the threads of each library, whoever set them last: threadpoolctl obeys the first thread that did, alone."""
    for library, before, count in zip(_blas(), _default_threads, n_threads, strict=True):
        if before is not None and before > 1:
            release = getattr(library, "clear_controlling_thread", lambda force: None)
            release(force=True)
            library.set_num_threads(count)
            release(force=True)


@contextmanager
def single_threaded_blas() -> Iterator[None]:
    """Hold BLAS to one thread, and restore what was allowed before when the last holder lets go.

    The limit is one for the whole process, and several solves may run at once.
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
    """Let BLAS use its threads only where the blocks are big enough."""
    if block_size >= tuning.WORTH_BLAS_THREADS:
        yield
    else:
        with single_threaded_blas():
            yield
