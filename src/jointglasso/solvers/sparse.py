"""Solution of a large group in sparse storage: steps on a working set, and a check of all pairs between them.

Each check covers all pairs outside the working set, so that zeros may leave it: the sparsity of the factor shrinks, and
the check finds them again where they are needed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from jointglasso._typing import FloatArray, IntArray
from jointglasso.blocks.big_group import GroupSupport
from jointglasso.blocks.sparse_group import ActiveEntries, SparseGroup
from jointglasso.solvers.base import IterativeMethod, run
from jointglasso.solvers.sparse_check import Examined
from jointglasso.solvers.sparse_dual import SparseDual
from jointglasso.solvers.sparse_gradient import ProximalState, SparsePoint
from jointglasso.solvers.unstored import BestUnstored, UnstoredTask

#: Estimated gap, relative to the objective, at which all pairs are checked for the first time; factor of the target
#: between two checks while pairs violate the conditions; target in units of the gap limit.
_FIRST_CHECK, _NEXT_CHECK, _TARGET = 1e-4, 0.03, 0.3

#: Steps on a working set are many, and dense blocks are tried, after this number of steps with more than the second
#: value of factorisations each, or after the third number of steps.
_TRIAL_STEPS, _TRIALS, _MAX_STEPS = 10, 4.0, 300

#: New pairs of a working set per variable, at most; target of the gap, relative to the objective, at the level of
#: rounding.
_NEW_PAIRS, _ROUNDING_TARGET = 4, 1e-15


@dataclass(frozen=True, kw_only=True)
class SparseTask(UnstoredTask):
    """A group in sparse storage."""

    group: SparseGroup
    deferred: tuple[IntArray, IntArray] = (np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64))
    """Pairs whose W must be known for the recheck of the screening."""
    may_give_up: bool = True
    """Whether another storage can take over if steps are many."""


class LatestDual(BestUnstored[ProximalState]):
    """The last point that was checked, with its dual point."""

    task: SparseTask
    point: SparsePoint
    dual: SparseDual | None = None

    @property
    def objective(self) -> float:
        return self.point.objective

    @property
    def gap(self) -> float:
        return np.inf if self.dual is None else self.dual.gap

    @property
    def edge_gap(self) -> float:
        return np.inf if self.dual is None else self.dual.edge_gap

    def update(self, candidate: ProximalState) -> None:
        """Check all pairs, unless the state was given up."""
        self.point = candidate.point
        if candidate.ended != "slow":
            self.dual = SparseDual.of(candidate.point, candidate.point.group.to_recheck(*self.task.deferred))

    def keep(self, candidate: Callable[[], ProximalState]) -> None:
        """Offer Theta of the current iterate to the checkpoint."""
        self.task.keep(lambda: candidate().point.support)


class WorkingSets(IterativeMethod[ProximalState, ProximalState]):
    """Proximal steps until the estimated gap reaches a target; after a check another working set and target."""

    def __init__(self, task: SparseTask) -> None:
        self.task = task

    def init(self, best: LatestDual) -> ProximalState:
        task, group = self.task, self.task.group
        diagonal = 1.0 / group.layout.optimal_variance(group.diagonal_penalty)
        start = GroupSupport(group.i[:0], group.j[:0], np.empty((0, len(group.weights))), diagonal)
        point = None if task.start is None else point_of(group, task.start, _gradient_at_zero)
        if point is None:
            point = point_of(group, start, _gradient_at_zero)
        if point is None:
            raise ArithmeticError("the diagonal start is not positive definite")
        best.point = point
        first = 0.0 if task.start is not None else _FIRST_CHECK * abs(point.objective)
        return ProximalState(point, max(first, _TARGET * task.limit(point.objective)))

    def step(self, state: ProximalState) -> ProximalState:
        state.step()
        many = state.n_steps >= _TRIAL_STEPS and state.n_trials > _TRIALS * state.n_steps
        if self.task.may_give_up and not self.gap_check_due(state, 0.0) and (many or state.n_steps >= _MAX_STEPS):
            state.ended = "slow"
        return state

    def theta(self, state: ProximalState) -> ProximalState:
        return state

    def gap_check_due(self, state: ProximalState, limit: float) -> bool:
        return state.gap_estimate <= state.target

    def refine(self, state: ProximalState, best: LatestDual) -> None:
        """Another working set, of the support and of the entries that violate the conditions, and the next target."""
        dual = best.dual
        if state.ended or dual is None:
            return
        if not dual.proved and self.task.may_give_up:
            state.ended = "slow"
            return
        aim = _TARGET * best.limit
        target = _TARGET * state.target if state.target <= aim else aim
        if dual.n_violations and state.target > aim:
            target = max(aim, _NEXT_CHECK * state.target)
        if target < _ROUNDING_TARGET * abs(dual.point.objective):
            state.ended = "rounding"
        else:
            state.restart(_next_point(dual), target)


def solve_sparse(task: SparseTask) -> tuple[SparseDual | None, SparsePoint, int, str]:
    """Dual point (None if given up), last point, number of steps, and stopping reason."""
    best = LatestDual(task)
    n_iter, reason = run(WorkingSets(task), best, task.max_iter)
    if reason == "slow":
        return None, best.point, n_iter, reason
    return best.dual, best.point, n_iter, best.reason(reason)


def point_of(
    group: SparseGroup, support: GroupSupport, gradient: Callable[[SparseGroup], FloatArray] | None = None
) -> SparsePoint | None:
    """The point of a given Theta, None if it is not positive definite, on its support and entries that would move.

    `gradient` returns the negative gradient (P, K) at the candidates of a group.
    """
    nonzero = (support.value != 0.0).any(axis=1)
    larger = group.with_pairs(support.i[nonzero], support.j[nonzero])
    rows = np.zeros((len(larger.i) + 1, larger.in_block.shape[1]))
    rows[larger.find(support.i, support.j)] = support.value
    rows = rows[:-1] * larger.in_block
    g = np.zeros(rows.shape) if gradient is None else gradient(larger)
    active = larger.activated(rows, g)
    return SparsePoint.of(ActiveEntries(larger, active), rows[active], support.diagonal)


def _gradient_at_zero(group: SparseGroup) -> FloatArray:
    return np.asarray(-group.weights * group.S)


def _next_point(dual: SparseDual) -> SparsePoint:
    """The point on a working set of its support and of the entries that violate the conditions."""
    listed = _most_violating(dual)

    def gradient(group: SparseGroup) -> FloatArray:
        g = np.zeros(group.in_block.shape)
        for part in (dual.candidates, listed):
            g[group.find(part.i, part.j)] = part.gradient(group.weights)
        return g

    point = point_of(dual.point.group.with_pairs(listed.i, listed.j), dual.point.support, gradient)
    if point is None:
        raise ArithmeticError("Theta is not positive definite on another working set")
    return point


def _most_violating(dual: SparseDual) -> Examined:
    """Listed pairs that violate the conditions most: a few for each variable."""
    part, group = dual.listed, dual.point.group
    cap = _NEW_PAIRS * len(group.layout.variables)
    if len(part.i) <= cap:
        return part
    violation = ((part.u - part.gradient(group.weights)) ** 2).sum(axis=1)
    return part.take(np.sort(np.argpartition(-violation, cap)[:cap]))
