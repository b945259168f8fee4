"""Independent cases of an experiment, one after the other or in several processes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

from threadpoolctl import threadpool_limits


def run_cases(function: Callable[..., Any], cases: Iterable[tuple[Any, ...]], n_workers: int) -> list[Any]:
    """Results of ``function(*case)`` in the order of the cases, which are begun in this order.

    `function` runs with one BLAS thread, so that processor times can be compared, whatever the number of workers.
    """
    if n_workers == 1:
        return [_single_threaded(function, case) for case in cases]
    with ProcessPoolExecutor(n_workers, mp_context=get_context("spawn")) as pool:
        return [future.result() for future in [pool.submit(_single_threaded, function, case) for case in cases]]


def _single_threaded(function: Callable[..., Any], case: tuple[Any, ...]) -> Any:
    with threadpool_limits(1):
        return function(*case)
