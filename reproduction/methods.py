"""The paper's four methods, in its plain form, with a limit on the time they may take."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from scipy import sparse
from threadpoolctl import threadpool_limits

from jointglasso._memory import available_memory
from jointglasso.data import as_source
from jointglasso.engine import NotEnoughMemory, solve
from jointglasso.screening import Partition, screen
from jointglasso.solution import ConvergenceWarning, Iteration, Solution
from jointglasso.solvers import ADMM

#: Screening rule of each of the paper's methods.
METHODS = {"ADMM": "none", "GADMM": "global", "LADMM": "class", "HADMM": "hybrid"}

#: The paper says neither; with this step and a start at zero the values of its table 1 come out within 1 %.
PAPER_RHO, PAPER_START = 1.0, 1e-9

PLAIN_NOTE = (
    "ADMM in the paper's plain form: no relaxation, rho = 1 kept fixed, start at zero. The paper does not tell rho "
    "and the start; with these the values of its table 1 come out within 1 % for ten blocks."
)

#: Iterations after which a run to the paper's stopping rule is given up.
_MAX_ITER = 5000

#: Block on which the rate of an update is measured.
_PROBE = 600


@dataclass(frozen=True)
class Timing:
    """Seconds, and how they were found: "run", "stopped" (a lower bound), or "estimated" from the block sizes."""

    seconds: float
    how: str


def run_admm(
    S: Any,
    lambda1: float,
    lambda2: float,
    screening: str,
    max_iter: int,
    *,
    seconds: float = math.inf,
    stamps: list[float] | None = None,
) -> Solution:
    """Run the plain ADMM of the paper until its stopping rule, `max_iter`, or once three iterations took `seconds`.

    The processor time after each iteration is appended to `stamps`.
    """
    source = as_source(S)
    start = PAPER_START * sparse.eye_array(source.n_variables, format="csc")
    method = ADMM(
        rho=PAPER_RHO, adapt_rho=False, relaxation=1.0, stopping="paper", include_isolated=True, warm_dual=False
    )
    return _quietly(
        lambda: solve(
            source,
            lambda1,
            lambda2,
            screening=screening,
            solver=method,
            max_iter=max_iter,
            warm_start=[start] * source.n_classes,
            callback=_limit(seconds, stamps),
        )
    )


def run_default(
    S: Any, lambda1: float, lambda2: float, *, seconds: float = math.inf, **options: Any
) -> Solution | None:
    """Solve as `jointglasso.solve` does by default; None if it does not fit into memory."""
    try:
        return _quietly(lambda: solve(S, lambda1, lambda2, callback=_limit(seconds), **options))
    except NotEnoughMemory:
        return None


def time_iteration(
    S: Any, lambda1: float, lambda2: float, method: str, *, n_iter: int, budget: float
) -> tuple[Timing, Partition]:
    """Processor seconds of one iteration with one BLAS thread: median of up to `n_iter`, or estimated.

    It is estimated if three iterations would take more than `budget` seconds, or do not fit into memory.
    """
    partition = screen(S, lambda1, lambda2, rule=METHODS[method])
    estimate = estimated_seconds(partition.cost)
    if 3.0 * estimate > budget or not _has_room(partition):
        return Timing(estimate, "estimated"), partition
    stamps = [time.process_time()]
    with threadpool_limits(1):
        run_admm(S, lambda1, lambda2, METHODS[method], n_iter, seconds=budget, stamps=stamps)
    steps = np.diff(stamps)  # the first includes screening and compilation
    return Timing(float(np.median(steps[1:] if len(steps) > 1 else steps)), "run"), partition


def time_to_stop(S: Any, lambda1: float, lambda2: float, method: str, *, limit: float) -> tuple[Timing, int]:
    """Processor seconds to the paper's stopping rule, screening included, and the number of iterations.

    Processor time, because other programs may use the machine. A run that is not at its end after `limit` seconds on
    the clock is "stopped": its time is a lower bound. None is extrapolated.
    """
    if not _has_room(screen(S, lambda1, lambda2, rule=METHODS[method])):
        return Timing(math.nan, "does not fit into memory"), 0
    began = time.process_time()
    solution = run_admm(S, lambda1, lambda2, METHODS[method], _MAX_ITER, seconds=limit)
    taken = time.process_time() - began
    ended = solution.history[-1].seconds <= limit and solution.n_iter < _MAX_ITER
    return Timing(taken, "run" if ended else "stopped"), solution.n_iter


def estimated_seconds(cost: float) -> float:
    """Processor seconds of the eigendecompositions of Eq. (10) for blocks with this sum of cubed sizes, by one rate."""
    return _update_seconds(_PROBE) * cost / _PROBE**3


def rate_note() -> str:
    """The rate behind the estimated times of a page, and its error on a block four times as large."""
    larger = 4 * _PROBE
    error = _update_seconds(larger) / (_update_seconds(_PROBE) * 64.0)
    return (
        f"Estimated times have one rate: {_update_seconds(_PROBE):.3g} processor seconds of one thread for the update "
        f"of a block of {_PROBE} variables, scaled by the sums of cubed sizes. An update of {larger:,} variables "
        f"took {error:.2f} times what this rate says, and nothing larger was checked."
    )


def _limit(seconds: float, stamps: list[float] | None = None) -> Callable[[Iteration], bool]:
    def after_iteration(step: Iteration) -> bool:
        if stamps is not None:
            stamps.append(time.process_time())
        return step.number >= 3 and step.seconds > seconds

    return after_iteration


def _quietly(work: Callable[[], Solution]) -> Solution:
    """Stopping early is what was asked for here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return work()


def _has_room(partition: Partition) -> bool:
    entries = sum(float((partition.block_sizes(k).astype(float) ** 2).sum()) for k in range(partition.n_classes))
    available = available_memory()
    return available is None or ADMM.bytes_per_entry * entries < available


@cache
def _update_seconds(b: int) -> float:
    """Processor seconds of one update of a block, an eigendecomposition and a product; the best of three if small."""
    root = np.random.default_rng(0).standard_normal((b, 2 * b))
    block = root @ root.T
    best = math.inf
    with threadpool_limits(1):
        for _ in range(3 if b <= _PROBE else 1):
            began = time.process_time()
            values, vectors = np.linalg.eigh(block)
            np.matmul(vectors * values, vectors.T)
            best = min(best, time.process_time() - began)
    return best
