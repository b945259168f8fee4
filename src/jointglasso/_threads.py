"""Who may use the cores: our own threads, or those of BLAS inside one big block."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from typing import TypeVar

from threadpoolctl import ThreadpoolController

Item = TypeVar("Item")
Result = TypeVar("Result")

#: Below this block size the threads of BLAS cost more in waiting for each other than they gain.
_WORTH_THREADS = 256


@cache
def _controller() -> ThreadpoolController:
    """Find the loaded BLAS libraries once; looking for them takes longer than solving a small problem."""
    import scipy.linalg  # noqa: F401  its BLAS must be loaded to be found

    return ThreadpoolController()


def map_on_threads(function: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
    """Apply a function that releases the interpreter lock to every item, on all cores, BLAS held to one thread each."""
    if len(items) <= 1:
        return [function(item) for item in items]
    with single_threaded_blas(), ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(function, items))


@contextmanager
def single_threaded_blas() -> Iterator[None]:
    """Hold BLAS to one thread, and restore what was allowed before."""
    with _controller().limit(limits=1, user_api="blas"):
        yield


@contextmanager
def blas_threads_for(block_size: int) -> Iterator[None]:
    """Let BLAS use its threads only where the blocks are big enough."""
    if block_size >= _WORTH_THREADS:
        yield
    else:
        with single_threaded_blas():
            yield
