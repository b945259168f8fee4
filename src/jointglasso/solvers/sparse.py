"""Solution of a large group in sparse storage: proximal steps on a working set, and a check of all pairs between them.

A step is one of proximal gradient in the metric of the diagonal of the Hessian. At Theta with inverse W the Hessian of
``-w log det Theta`` has the diagonal entries ``h_ij = w (W_ii W_jj + W_ij^2)`` for a pair and ``h_ii = w W_ii^2``. The
step minimises ``h / (2 alpha) (x - theta)^2 - g x + phi(x)`` for each pair, g = w (W - S) being the negative gradient;
alpha is Barzilai and Borwein's step length in that metric, and the largest of the last objectives must fall (Grippo,
Lampariello and Lucidi). A trial costs one sparse factorisation, an accepted step the entries of the inverse on the
sparsity of the factor as well.

Once the gap estimated in the metric reaches a target, all pairs outside the working set are checked. Therefore zeros
may leave the working set: the sparsity of the factor shrinks, and the check finds them again where they are needed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from jointglasso._typing import FloatArray, IntArray
from jointglasso.blocks.big_group import GroupSupport
from jointglasso.blocks.sparse_group import ActiveEntries, SparseGroup, SparsePoint
from jointglasso.solvers.base import IterativeMethod, State, run
from jointglasso.solvers.sparse_check import Examined
from jointglasso.solvers.sparse_dual import SparseDual
from jointglasso.solvers.unstored import BestUnstored, UnstoredTask

#: Limits of the step length; number of objectives of which the largest must fall, and by which fraction of the model.
_STEPS, _MEMORY, _DECREASE = (1e-4, 20.0), 5, 1e-4

#: Maximal halvings of a step; beyond, rounding prevents progress.
_HALVINGS = 60

#: Relative rounding error of an objective, by which it may rise.
_ROUNDING = 1e-14

#: Estimated gap, relative to the objective, at which all pairs are checked for the first time; factor of the target
#: between two checks while pairs violate the conditions; target in units of the gap limit.
_FIRST_CHECK, _NEXT_CHECK, _TARGET = 1e-4, 0.03, 0.3

#: Steps on a working set are many, and dense blocks are tried, after this number of steps with more than the second
#: value of factorisations each, or after the third number of steps.
_TRIAL_STEPS, _TRIALS, _MAX_STEPS = 10, 4.0, 300

#: New pairs of a working set per variable, at most; target of the gap, relative to the objective, at the level of
#: rounding.
_NEW_PAIRS, _ROUNDING_TARGET = 4, 1e-15


class ProximalState(State):
    """Iterate on a working set: a point with inverses, its negative gradient g, the metric h, and the step length."""

    def __init__(self, point: SparsePoint, target: float) -> None:
        super().__init__()
        self.restart(point, target)

    def restart(self, point: SparsePoint, target: float) -> None:
        """Start at a point on any working set; all pairs are checked once the estimated gap is at most `target`."""
        self.target, self.alpha, self.objectives = target, 1.0, list[float]()
        self.n_steps, self.n_trials = 0, 0
        self._enter(point)

    def _enter(self, point: SparsePoint) -> None:
        """Continue from another point of the working set."""
        self.point = point = point.inverted()
        self.objective = point.objective
        self.objectives.append(self.objective)
        entries, group = point.working_set, point.group
        W, variance = entries.gather(point.inverses)
        row, column = entries.members
        weight = group.weights[group.member_class]
        self.h = entries.weight * (variance[row] * variance[column] + W * W)
        self.h_diagonal = weight * variance * variance
        self.g = entries.weight * (W - entries.S)
        self.g_diagonal = weight * (variance - group.diagonal) - group.diagonal_penalty
        u = group.penalty.nearest_subgradient(point.theta, self.g, entries.entries)
        #: Duality gap to second order in the metric.
        self.gap_estimate = float(
            ((u - self.g) ** 2 / self.h).sum() + 0.5 * (self.g_diagonal**2 / self.h_diagonal).sum()
        )

    def _trial(self) -> tuple[SparsePoint | None, float]:
        """The point after a step, if definite, and the squared length of the step in the metric."""
        point, curvature = self.point, self.h / self.alpha
        entries = point.working_set
        theta = point.group.penalty.update(curvature, curvature * point.theta + self.g, entries.entries)
        diagonal = point.diagonal + self.alpha * self.g_diagonal / self.h_diagonal
        self.n_trials += 1
        trial = SparsePoint.of(entries, theta, diagonal)
        return trial, _sums(self.h * (theta - point.theta) ** 2, self.h_diagonal * (diagonal - point.diagonal) ** 2)

    def step(self) -> None:
        """One accepted step; ends with "rounding" if none decreases the objective."""
        reference = max(self.objectives[-_MEMORY:])
        reference += _ROUNDING * abs(reference)
        for _ in range(_HALVINGS):
            trial, length = self._trial()
            if trial is not None and trial.objective <= reference - _DECREASE * length / self.alpha:
                break
            self.alpha *= 0.5
        else:
            self.ended = "rounding"
            return
        before, g, g_diagonal = self.point, self.g, self.g_diagonal
        self._enter(trial)
        self.n_iter, self.n_steps = self.n_iter + 1, self.n_steps + 1
        moved, moved_diagonal = trial.theta - before.theta, trial.diagonal - before.diagonal
        change = _sums(moved * (g - self.g), moved_diagonal * (g_diagonal - self.g_diagonal))
        self.alpha = float(np.clip(length / change if change > 0.0 else _STEPS[1], *_STEPS))


def _sums(of_entries: FloatArray, of_diagonal: FloatArray) -> float:
    """Sum over a symmetric matrix, given by its entries above the diagonal and its diagonal."""
    return 2.0 * float(of_entries.sum()) + float(of_diagonal.sum())


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
