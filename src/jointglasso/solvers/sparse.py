"""Solution of a large group in sparse storage: steps on a working set, and a check of all pairs between them.

Each check covers all pairs outside the working set, so that zeros may leave it: the sparsity of the factor shrinks, and
the check finds them again where they are needed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from jointglasso._typing import BoolArray, FloatArray, IntArray
from jointglasso.blocks.big_group import GroupSupport
from jointglasso.blocks.sparse_group import ActiveEntries, SparseGroup
from jointglasso.duality import EDGE_GAP
from jointglasso.solvers.base import Report
from jointglasso.solvers.sparse_check import Examined
from jointglasso.solvers.sparse_dual import SparseDual
from jointglasso.solvers.sparse_gradient import ProximalSteps, SparsePoint
from jointglasso.solvers.sparse_newton import newton_step

#: Estimated gap, relative to the objective, at which all pairs are checked for the first time; factor of the target
#: between two checks while pairs violate the conditions; target in units of the gap limit.
_FIRST_CHECK, _NEXT_CHECK, _TARGET = 1e-4, 0.03, 0.3

#: Proximal steps after which a Newton step is tried, if they have not reduced the estimated gap to this fraction.
_SLOW_STEPS, _SLOW = 10, 0.2

#: Steps on a working set are many, and dense blocks are tried, after this number of steps with more than the second
#: value of factorisations each, or after the third number of steps.
_TRIAL_STEPS, _TRIALS, _MAX_STEPS = 10, 4.0, 300

#: New pairs of a working set per variable, at most; target of the gap, relative to the objective, at the level of
#: rounding.
_NEW_PAIRS, _ROUNDING_TARGET = 4, 1e-15


@dataclass(frozen=True)
class SparseTask:
    """A group in sparse storage, and the limit on its duality gap as a function of its objective."""

    group: SparseGroup
    limit: Callable[[float], float]
    max_iter: int
    start: GroupSupport | None = None
    deferred: tuple[IntArray, IntArray] = (np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64))
    """Pairs whose W must be known for the recheck of the screening."""
    may_give_up: bool = True
    """Whether another storage can take over if steps are many."""
    prove: bool = False
    """Whether to continue until the gap certifies all edges."""
    report: Report = field(default=lambda objective, gap: False)
    keep: Callable[[Callable[[], GroupSupport]], None] = field(default=lambda theta: None)
    """Checkpoint callback: receives a function that returns the current Theta, evaluated only when it is saved."""


def descend(
    point: SparsePoint,
    target: float,
    max_iter: int,
    report: Callable[[SparsePoint, float], bool],
    *,
    may_give_up: bool = True,
) -> tuple[SparsePoint, int, str]:
    """Steps until the estimated gap is at most `target`: last point, number of steps, stopping reason.

    A Newton step is tried after every few proximal steps that together have not reduced the estimate much.
    """
    steps, reason = ProximalSteps(point), "max_iter"
    estimates, n_failed = [steps.gap_estimate], 0
    while True:
        if steps.gap_estimate <= target:
            reason = "tolerance"
            break
        if steps.n_iter >= max_iter:
            break
        if report(steps.point, steps.objective):
            reason = "callback"
            break
        is_slow = len(estimates) > _SLOW_STEPS and estimates[-1] > _SLOW * estimates[-1 - _SLOW_STEPS]
        if is_slow:
            before = steps.gap_estimate
            n_failed += not (newton_step(steps) and steps.gap_estimate < before)
            estimates.clear()
        else:
            steps.step()
        estimates.append(steps.gap_estimate)
        if steps.stuck:
            reason = "rounding"
            break
        many = steps.n_iter >= _TRIAL_STEPS and steps.n_trials > _TRIALS * steps.n_iter
        if may_give_up and (many or n_failed > 1 or steps.n_iter >= _MAX_STEPS):
            reason = "slow"
            break
    return steps.point, steps.n_iter, reason


def solve_sparse(task: SparseTask) -> tuple[SparseDual | None, SparsePoint, int, str]:
    """Dual point (None if given up), last point, number of steps, and stopping reason."""
    point = _start(task)

    def report(current: SparsePoint, objective: float) -> bool:
        task.keep(lambda: current.support)
        return task.report(objective, None)

    n_iter, target = 0, max(_FIRST_CHECK * abs(point.objective), _TARGET * task.limit(point.objective))
    if task.start is not None:
        target = _TARGET * task.limit(point.objective)
    while True:
        point, steps, reason = descend(point, target, task.max_iter - n_iter, report, may_give_up=task.may_give_up)
        n_iter += steps
        if reason == "slow":
            return None, point, n_iter, reason
        dual = SparseDual.of(point, to_recheck(point.group, task.deferred))
        if not dual.proved and task.may_give_up:
            return None, point, n_iter, "slow"
        objective, gap = point.objective, dual.gap
        limit = min(task.limit(objective), EDGE_GAP * dual.edge_gap if task.prove else np.inf)
        stopped = task.report(objective, gap)
        if gap <= limit:
            return dual, point, n_iter, "tolerance"
        if reason != "tolerance" or stopped or n_iter >= task.max_iter:
            why = "callback" if stopped else reason if reason != "tolerance" else "max_iter"
            return dual, point, n_iter, "tolerance" if gap <= task.limit(objective) else why
        if dual.n_violations and target > _TARGET * limit:
            target = max(_TARGET * limit, _NEXT_CHECK * target)
        elif target > _TARGET * limit:
            target = _TARGET * limit
        else:
            target *= _TARGET
        if target < _ROUNDING_TARGET * abs(objective):
            return dual, point, n_iter, "tolerance" if gap <= task.limit(objective) else "rounding"
        point = _next_point(dual)


def to_recheck(group: SparseGroup, deferred: tuple[IntArray, IntArray]) -> BoolArray:
    """(P,): candidates whose screening is rechecked: deferred ones, and all that some class lacks if classes differ."""
    marked = np.zeros(len(group.i) + 1, dtype=bool)
    marked[group.find(*deferred)] = True
    if group.penalty.class_dependent:
        marked[:-1] |= ~group.in_block.all(axis=1)
    return marked[:-1]


def _start(task: SparseTask) -> SparsePoint:
    """Working set of the pairs outside the dual ball and of the support of the start, at the start or a diagonal."""
    group = task.group
    diagonal = 1.0 / group.layout.optimal_variance(group.diagonal_penalty)
    if task.start is not None:
        nonzero = (task.start.value != 0.0).any(axis=1)
        group = group.with_pairs(task.start.i[nonzero], task.start.j[nonzero])
    zeros = np.zeros(group.in_block.shape)
    active = group.activated(zeros, -group.weights * group.S, group.in_block)
    if task.start is not None:
        rows = _rows(group, task.start)
        active |= group.activated(rows, zeros, group.in_block)
        point = SparsePoint.of(ActiveEntries(group, active), rows[active], task.start.diagonal)
        if point is not None:
            return point
    working_set = ActiveEntries(group, active)
    point = SparsePoint.of(working_set, np.zeros(int(active.sum())), diagonal)
    if point is None:
        raise ArithmeticError("the diagonal start is not positive definite")
    return point


def _next_point(dual: SparseDual) -> SparsePoint:
    """The point on a working set of its support and of the entries that violate the conditions."""
    support, group, listed = dual.point.support, dual.point.group, _strongest(dual)
    larger = group.with_pairs(listed.i, listed.j)
    place = larger.find(group.i, group.j)
    theta, g = np.zeros(larger.in_block.shape), np.zeros(larger.in_block.shape)
    for part, index in ((dual.candidates, place), (listed, larger.find(listed.i, listed.j))):
        theta[index] = part.theta
        g[index] = np.where(part.in_block, group.weights * (part.W - part.S), 0.0)
    active = larger.activated(theta, g, larger.in_block)
    working_set = ActiveEntries(larger, active)
    point = SparsePoint.of(working_set, working_set.theta_of(support), dual.point.diagonal)
    if point is None:
        raise ArithmeticError("Theta is not positive definite on another working set")
    return point


def _strongest(dual: SparseDual) -> Examined:
    """Listed pairs that violate the conditions most, relative to their curvature: a few for each variable."""
    part, group = dual.listed, dual.point.group
    cap = _NEW_PAIRS * len(group.layout.variables)
    if len(part.i) <= cap:
        return part
    violation = ((part.u - group.weights * (part.W - part.S)) ** 2 * part.in_block).sum(axis=1)
    strongest = np.argpartition(-violation, cap)[:cap]
    return part.take(np.sort(strongest))


def point_of(group: SparseGroup, support: GroupSupport) -> SparsePoint | None:
    """The point of a given Theta; None if it is not positive definite."""
    nonzero = (support.value != 0.0).any(axis=1)
    larger = group.with_pairs(support.i[nonzero], support.j[nonzero])
    rows = _rows(larger, support)
    active = larger.activated(rows, np.zeros(rows.shape), larger.in_block)
    return SparsePoint.of(ActiveEntries(larger, active), rows[active], support.diagonal)


def _rows(group: SparseGroup, support: GroupSupport) -> FloatArray:
    """(P, K): Theta at the candidates, zero where `support` does not have them or outside the blocks."""
    rows = np.zeros((len(group.i) + 1, group.in_block.shape[1]))
    rows[group.find(support.i, support.j)] = support.value
    return rows[:-1] * group.in_block
