"""Feasibility of a point (lambda1, lambda2): predicted memory and time of its solve against the limits.

Points that exceed a limit are left out before they are solved, so that a choice among the others remains.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from jointglasso._memory import available_memory
from jointglasso._typing import FloatArray
from jointglasso.data import CovarianceSource
from jointglasso.data.checks import check_weights
from jointglasso.engine import SolveOptions
from jointglasso.engine.options import choose_method
from jointglasso.engine.planning import plan_problem
from jointglasso.screening.curve import drawn_covariances, reachable_floor
from jointglasso.screening.pairs import known_pairs

#: Up to this number of variables every point is solved, and each by its own scan of the covariances.
SCANNED_ONCE = 1000

#: Maximum number of pairs with a weighted covariance above lambda1 in a screening pass.
_MAX_PAIRS = 20_000_000

#: Maximum number of pairs listed by the scan that all points share.
_MAX_LISTED = 5_000_000

#: Maximum mean number of pairs of a variable that have an edge when isolated, in units of n - 3 of the largest class:
#: fewer neighbours can be estimated, and strongly correlated data have about ten such pairs for each edge.
_MAX_STRONG = 10

#: Pairs drawn at random to estimate the numbers of pairs.
_N_DRAWN = 200_000


@contextmanager
def scanned_once(source: CovarianceSource, options: SolveOptions) -> Iterator[None]:
    """Scan the covariances once for all plans and solves inside the context (more than `SCANNED_ONCE` variables).

    The scan lists the pairs that fit into 5 % of the memory, `_MAX_LISTED` at most; penalties below the threshold that
    this implies scan again.
    """
    weighted = options.weights_of_pairs(source) is not None
    if source.n_variables <= SCANNED_ONCE or weighted or options.screening == "none":
        yield
        return
    memory_budget = options.max_memory or available_memory() or np.inf
    w = check_weights(options.weights, source.class_names, source.sample_sizes)
    floor = reachable_floor(
        source, w, None, int(min(_MAX_LISTED, 0.05 * memory_budget / (17.0 + 9.0 * source.n_classes)))
    )
    with known_pairs(source, options.problem(source, floor, 0.0).penalty, w):
        yield


class Budget:
    """Checks by its plan whether a point fits into memory and into `max_seconds` per solve (None: no limit)."""

    def __init__(self, source: CovarianceSource, max_seconds: float | None, options: SolveOptions) -> None:
        self._source, self._max_seconds, self._options = source, max_seconds, options
        self._drawn = self._draw() if source.n_variables > SCANNED_ONCE else None
        self._infeasible: dict[tuple[float, float], str] = {}
        self._is_group = options.penalty == "group"

    def why_infeasible(self, lambda1: float, lambda2: float) -> str:
        """Why the point cannot be solved; empty if it can.

        A point with no larger lambda1, and a dual ball inside that of an infeasible point, has more pairs above lambda1
        and outside the ball: it needs no plan. The balls of group penalties are nested where lambda1 + lambda2 is not
        larger either.
        """
        for (first, second), reason in self._infeasible.items():
            limit = first + second - lambda1 if self._is_group else second
            if lambda1 <= first and lambda2 <= limit:
                return reason
        reason = self._planned(lambda1, lambda2)
        if reason:
            self._infeasible[lambda1, lambda2] = reason
        return reason

    def _planned(self, lambda1: float, lambda2: float) -> str:
        if self._drawn is None:
            return ""
        p, sizes, options = self._source.n_variables, self._source.sample_sizes, self._options
        if (np.abs(self._drawn).max(axis=1) > lambda1).mean() * p * (p - 1) / 2 > _MAX_PAIRS:
            return "too many pairs above lambda1"
        problem = options.problem(self._source, lambda1, lambda2)
        is_strong = problem.penalty.violates_global_condition(self._drawn)
        weighted = problem.pair_weights is not None
        if sizes is not None and not weighted and is_strong.mean() * (p - 1) > _MAX_STRONG * max(max(sizes) - 3, 1):
            return "more neighbours than the samples can support"
        estimate = plan_problem(problem, options.screening, choose_method("auto"))
        memory_budget = available_memory() if options.max_memory is None else options.max_memory
        if memory_budget is not None and estimate.memory > 0.8 * memory_budget:
            return "memory"
        if self._max_seconds is not None and estimate.seconds > self._max_seconds:
            return f"a solve of more than {self._max_seconds:g} s"
        return ""

    def _draw(self) -> FloatArray:
        """``w_k S_k,ij`` (m, K) of `_N_DRAWN` random pairs."""
        source = self._source
        w = check_weights(self._options.weights, source.class_names, source.sample_sizes)
        return np.nan_to_num(drawn_covariances(source, w, _N_DRAWN))  # NaN in a class without the pair


def describe_left_out(left_out: dict[tuple[float, float], str]) -> str:
    """Sentence about the points left out and the reasons; empty if there are none."""
    if not left_out:
        return ""
    reasons = "; ".join(sorted(set(left_out.values())))
    strongest = max(left_out, key=sum)
    return (
        f"{len(left_out)} weaker points were left out beforehand because they cannot be afforded ({reasons}), from "
        f"lambda1 = {strongest[0]:.4g}, lambda2 = {strongest[1]:.4g} on: the choice is among the others."
    )
