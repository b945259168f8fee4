"""Who may use the cores: our own threads, or those of BLAS inside one big block."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from itertools import pairwise
from threading import Lock
from typing import Any, TypeVar

from threadpoolctl import ThreadpoolController

from jointglasso._typing import IntArray

Item = TypeVar("Item")
Result = TypeVar("Result")

#: Below this block size the threads of BLAS cost more in waiting for each other than they gain, above all on a machine
#: that is shared; our own threads, one block each, do better.
_WORTH_THREADS = 1500


_limit_lock = Lock()
_holders = 0
_limit: Any = None


def available_cores() -> int:
    """Cores this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@cache
def _controller() -> ThreadpoolController:
    """Find the loaded BLAS libraries once; looking for them takes longer than solving a small problem."""
    import scipy.linalg  # noqa: F401  its BLAS must be loaded to be found

    return ThreadpoolController()


def map_on_threads(function: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
    """Apply a function that releases the interpreter lock to every item, on all cores, BLAS held to one thread each."""
    if len(items) <= 1:
        return [function(item) for item in items]
    with single_threaded_blas(), ThreadPoolExecutor(available_cores()) as pool:
        return list(pool.map(function, items))


def map_on_cores(function: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
    """As `map_on_threads`, but one after another where the caller shares the cores out already."""
    if _holders:
        return [function(item) for item in items]
    return map_on_threads(function, items)


class Workers:
    """A few threads for kernels that work on a range: ``kernel(first, last, *arguments)``."""

    def __init__(self, n_threads: int) -> None:
        self.n_threads = n_threads
        self._pool = ThreadPoolExecutor(n_threads - 1) if n_threads > 1 else None

    def run(self, kernel: Callable[..., None], bounds: IntArray, *arguments: object) -> None:
        """Run the kernel on every range between two bounds, one of them on this thread."""
        ranges = list(pairwise(bounds))
        if self._pool is None:
            for first, last in ranges:
                kernel(first, last, *arguments)
            return
        others = [self._pool.submit(kernel, first, last, *arguments) for first, last in ranges[1:]]
        kernel(*ranges[0], *arguments)
        for other in others:
            other.result()

    def map(self, function: Callable[[Any], Result], items: Sequence[Any] | IntArray) -> list[Result]:
        """Apply a function that releases the interpreter lock to every item."""
        if self._pool is None or len(items) <= 1:
            return [function(item) for item in items]
        waiting = iter(range(len(items)))  # advanced by one thread at a time, so that each item is taken once
        results: list[Any] = [None] * len(items)

        def take_turns() -> None:
            for n in waiting:
                results[n] = function(items[n])

        others = [self._pool.submit(take_turns) for _ in range(self.n_threads - 1)]
        take_turns()
        for other in others:
            other.result()
        return results

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *error: object) -> None:
        if self._pool is not None:
            self._pool.shutdown()


@contextmanager
def single_threaded_blas() -> Iterator[None]:
    """Hold BLAS to one thread, and restore what was allowed before when the last holder lets go.

    The limit is one for the whole process, and several solves may run at once.
    """
    global _holders, _limit
    with _limit_lock:
        if _holders == 0:
            _limit = _controller().limit(limits=1, user_api="blas")
        _holders += 1
    try:
        yield
    finally:
        with _limit_lock:
            _holders -= 1
            if _holders == 0:
                _limit.restore_original_limits()


@contextmanager
def blas_threads_for(block_size: int) -> Iterator[None]:
    """Let BLAS use its threads only where the blocks are big enough."""
    if block_size >= _WORTH_THREADS:
        yield
    else:
        with single_threaded_blas():
            yield
