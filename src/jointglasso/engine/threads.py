"""Who may use the cores: our own threads, or those of BLAS inside one big block."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from threadpoolctl import ThreadpoolController

#: Below this block size the threads of BLAS cost more in waiting for each other than they gain.
_WORTH_THREADS = 256


@cache
def _controller() -> ThreadpoolController:
    """Find the loaded BLAS libraries once; looking for them takes longer than solving a small problem."""
    import scipy.linalg  # noqa: F401  its BLAS must be loaded to be found

    return ThreadpoolController()


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
