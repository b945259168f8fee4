"""Column sweeps as iterative methods: many small groups in one compiled call, or one large group with stored blocks.

The two column estimates of an entry agree on zeros and equal values long before they agree on the value, so that their
mean has the right zeros and equalities but for a few pairs. For penalties with clusters of equal values (maximum,
fused) and the Laplacian, a proximal step from the mean repairs these pairs, and a few Newton steps between the sweeps
give the last digits. In large groups with interacting pairs the proximal step can worsen others: the better point
counts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from jointglasso import config
from jointglasso._threads import Workers
from jointglasso._typing import BoolArray, FloatArray, IntArray
from jointglasso.blocks import BlockSystem
from jointglasso.blocks.diagonal import FusedDiagonal
from jointglasso.solvers.base import BestSoFar, Candidate, Evaluated, IterativeMethod, Report, SolverTask, State, run
from jointglasso.solvers.column_ascent import ColumnAscent, next_gap_check, point_near_covariance, point_near_inverse
from jointglasso.solvers.newton import NewtonOnFaces

#: Consecutive gap checks without improvement after which sweeps end; gap after a full round of sweeps, in units of the
#: gap limit, above which a group is not swept again; maximal Newton steps on a face.
_IDLE_GAP_CHECKS, _FAR_GAP, _TINY_STEPS = 4, 100.0, 6

#: Target gap of the first round for fusion penalties, in units of the gap limit, and the smallest relative target: a
#: few more sweeps cost less than the Newton step that certifies dynamic screening (300 connected variables in three
#: classes: 0.75 of the time).
_FIRST_REFINE_FACTOR, _FIRST_REFINE_GAP = 1e-2, 1e-8

#: Relative change of W in a sweep at the level of single precision rounding: the sweeps have converged.
_ROUNDING_CHANGE = 2e-6

#: Fraction of the gap limit at which the first gap check over a large group is made for fusion penalties.
_FIRST_GAP_CHECK = 0.5


def uses_faces(task: SolverTask) -> bool:
    """Whether sweeps alternate with proximal and Newton steps: for every penalty but the group penalty."""
    return "forest" not in task.penalty.supports


def extract_group(
    task: SolverTask, theta: FloatArray, group: int, limits: FloatArray, max_iter: int
) -> tuple[SolverTask, IntArray | slice]:
    """One group as a separate task with an absolute gap limit, and its positions in flat storage."""
    system, positions = task.system.only_groups(np.array([group]))
    report: Report = task.report if task.system.n_groups == 1 else lambda objective, gap: False

    def keep(group_theta: Callable[[], FloatArray]) -> None:
        def full_theta() -> FloatArray:
            full = theta.copy()
            full[positions] = group_theta()
            return full

        task.keep(full_theta)

    start = theta[positions].copy() if isinstance(positions, slice) else theta[positions]
    subtask = replace(
        task, system=system, start=start, known=None, gap_budget=np.ones(1), tol=float(limits[group]),
        rest=0.0, max_iter=max_iter, absolute=True, report=report, keep=keep,
    )  # fmt: skip
    return subtask, positions


def step_on_face(best: BestSoFar, group: int) -> int:
    """A few Newton steps on one group, close to its solution; their number."""
    task, blocks = best.task, best.task.system.block_group == group
    subtask, positions = extract_group(task, best.theta, group, best.limits, task.max_iter)
    inner = BestSoFar(subtask, bounds=best.bounds.of_groups(np.array([group]), blocks, positions))
    work_limit = config.ADMM_WORK if task.memory_for_admm else np.inf
    taken, _ = run(NewtonOnFaces(subtask, np.array([""], dtype=object), work_limit=work_limit), inner, _TINY_STEPS)
    best.update_group(group, positions, inner.theta, inner.bounds)
    return taken


def prox_step(task: SolverTask, theta: FloatArray, W: FloatArray) -> FloatArray:
    """One proximal step from `theta`, W being close to its inverse; gives exact zeros and exactly equal values."""
    system = task.system
    upper = system.upper
    products = system.products_of_members(W[system.diagonal], np.ones(system.n_blocks))
    curvature = system.weigh(products + W[upper] ** 2)
    linear = curvature * theta[upper] + system.weigh(W[upper] - system.S[upper])
    entries = task.penalty.update(curvature, linear, system.entries(task.penalty))
    diagonal, fused = theta[system.diagonal], FusedDiagonal.of(system, task.penalty)
    if fused is not None:
        variance, weight = W[system.diagonal], system.block_weight[system.diagonal_block]
        slope = weight * (variance - system.optimal_variance(task.diagonal_penalty))
        diagonal = fused.update(weight * variance**2, weight * variance**2 * diagonal + slope)
    return system.scatter(entries, diagonal)


def sweep_groups(
    task: SolverTask, theta: FloatArray, W: FloatArray, todo: BoolArray, limits: FloatArray, max_sweeps: int
) -> int:
    """Column sweeps over the groups in `todo`, improving `theta` and W in place; the maximal number of sweeps."""
    from jointglasso.kernels.small_columns import GroupIndex, SweepLimits, SweepWorkspace, ascend_small_groups

    system, penalty = task.system, task.penalty
    by_group, n_variables = np.argsort(system.block_group, kind="stable"), int(system.members.max()) + 1
    start = np.searchsorted(system.block_group[by_group], np.arange(system.n_groups + 1))
    groups = GroupIndex(start, by_group, system.block_class, system.members, n_variables, system.n_classes)
    stop = SweepLimits(limits, max_sweeps, penalty.scale, *config.COLUMN_TOLERANCE)
    sizes = int(np.count_nonzero(theta)), penalty.workspace_size(system.n_classes)

    def sweep(selected: BoolArray) -> int:
        workspace = SweepWorkspace.allocate(groups, system.compiled, *sizes)
        sweeps = ascend_small_groups(penalty.pair, groups, system.compiled, stop, theta, W, selected, workspace)
        return int(sweeps.max(initial=0))

    return max(Workers(task.n_threads).map(sweep, schedule_groups(system, todo, task.n_threads)))


def schedule_groups(system: BlockSystem, todo: BoolArray, n_threads: int) -> list[BoolArray]:
    """Masks (G,) of the groups of each thread, assigned in order of decreasing cost; one mask if the work is small."""
    cost = system.sum_per_group(system.size.astype(float) ** 4) * todo
    if n_threads == 1 or cost.sum() < config.MIN_COST_FOR_THREADS:
        return [todo]
    order = np.argsort(-cost, kind="stable")
    schedule = []
    for thread in range(n_threads):
        mask = np.zeros_like(todo)
        mask[order[thread::n_threads]] = True
        schedule.append(todo & mask)
    return [share for share in schedule if share.any()]


@dataclass(kw_only=True)
class SmallState(State):
    """Theta of the last round of sweeps, and the number of rounds."""

    theta: FloatArray
    slow: BoolArray
    """(G,): groups that further sweeps hardly improve."""
    n_rounds: int = 0


class SmallColumns(IterativeMethod[SmallState, Evaluated]):
    """Rounds of column sweeps over all small groups above their limits, each to a smaller target gap."""

    def __init__(self, task: SolverTask, methods: Any, excluded: BoolArray) -> None:
        self.task, self.methods, self.faces = task, methods, uses_faces(task)
        self.small, self.excluded = task.system.largest_block <= config.LARGE, excluded
        self.max_sweeps = config.FUSION_SWEEPS if self.faces else config.SMALL_SWEEPS

    def init(self, best: BestSoFar) -> SmallState:
        self.best, self.warm = best, self.task.absolute or (self.task.warm and self.faces)
        state = SmallState(theta=best.theta, slow=self.excluded.copy())
        if self.faces and self.task.absolute and self.task.warm:
            self._step_on_faces(state)
        state.ended = self._ended(state)
        return state

    def step(self, state: SmallState) -> SmallState:
        task, best, todo = self.task, self.best, self._todo(state)
        theta = best.theta.copy()
        if self.warm and best.bounds.factor.definite.all():
            W = point_near_inverse(task, best.bounds.inverse)
        else:
            W = point_near_covariance(
                task.system, task.penalty, task.diagonal_penalty, task.system.S.copy(), task.system.diagonal
            )
        n_sweeps = min(task.max_iter - state.n_iter, self.max_sweeps)
        taken = sweep_groups(task, theta, W, todo, self._target(state) * best.limits, n_sweeps)
        self.methods[todo] = "columns" if self.faces else "columns, newton"
        self.warm, self.last = True, todo
        state.n_iter, state.n_rounds, state.theta = state.n_iter + taken, state.n_rounds + 1, theta
        state.slow = state.slow | (todo & (taken == self.max_sweeps) & self.faces)
        return state

    def theta(self, state: SmallState) -> Evaluated:
        return Evaluated(state.theta, None if state.n_rounds else self.best.bounds)

    def gap_check_due(self, state: SmallState, limit: float) -> bool:
        return state.n_rounds > 0

    def refine(self, state: SmallState, best: BestSoFar) -> None:
        if state.n_rounds == 0:
            return
        if self.faces:
            inverse = best.last_bounds.inverse
            best.update(Evaluated(prox_step(self.task, state.theta, inverse)), self.last & best.unsolved)
            far = best.bounds.gap > _FAR_GAP * best.limits
            state.slow &= far | self.excluded
            if state.n_rounds < len(config.REFINE_FACTORS):
                self._step_on_faces(state)
        state.ended = self._ended(state)

    def _step_on_faces(self, state: SmallState) -> None:
        medium = self.small & (self.task.system.largest_block > config.SMALL)
        for group in np.flatnonzero(self.best.unsolved & medium & np.isfinite(self.best.bounds.gap)):
            state.n_iter += step_on_face(self.best, int(group))

    def _todo(self, state: SmallState) -> BoolArray:
        return self.best.unsolved & self.small & ~state.slow

    def _ended(self, state: SmallState) -> str:
        left = self._todo(state).any() and state.n_rounds < len(config.REFINE_FACTORS)
        return "" if left else "rounding"

    def _target(self, state: SmallState) -> float:
        """Target gap of the next round, in units of the gap limit."""
        if self.faces and state.n_rounds == 0 and not self.task.absolute:
            return min(1.0, max(_FIRST_REFINE_FACTOR, _FIRST_REFINE_GAP / self.task.tol))
        return config.REFINE_FACTORS[state.n_rounds]


def dense_groups(system: BlockSystem, violates_global: BoolArray) -> BoolArray:
    """(G,): groups of at least `config.SMALL` variables in which most pairs are strong, with dense solutions.

    Newton's active set then contains nearly all pairs, and its face changes in every iteration. Column sweeps, which
    use the face of one column at a time, are not affected; where they do not apply, ADMM costs less.
    """
    if system.size.max(initial=0) < config.SMALL:
        return np.zeros(system.n_groups, dtype=bool)
    n_pairs = system.sum_pairs_per_group(np.ones(system.n_pairs))
    share = system.sum_pairs_per_group(violates_global.astype(float)) / np.maximum(n_pairs, 1.0)
    return np.asarray((share > config.DENSE_FRACTION) & (system.largest_block >= config.SMALL))


def slow_groups(task: SolverTask) -> BoolArray:
    """(G,): groups in which most covariances exceed their thresholds in most classes, where ADMM is faster.

    Their column subproblems take about a hundred passes. For penalties with exact equalities the limit is twice the
    threshold, because ADMM needs more iterations the closer the covariances are to it.
    """
    system, penalty = task.system, task.penalty
    if system.size.max(initial=0) < config.SMALL:
        return np.zeros(system.n_groups, dtype=bool)
    factor = system.entry_factor if len(system.pair_factor) else 1.0
    limit = (2.0 if penalty.homogeneous else 1.0) * penalty.threshold(0)
    above = (np.abs(system.weigh(system.gather(system.S))) > limit * factor).astype(float)
    return dense_groups(system, 2.0 * system.sum_per_pair(above) > np.diff(system.pair_start))


@dataclass(kw_only=True)
class SweepState(State):
    """Column ascent over one large group, and when its gap is to be checked."""

    ascent: ColumnAscent
    threshold: float = np.inf
    """Gap estimate below which the next check is due."""
    unchecked_cost: float = -np.inf
    """Cost of the sweeps since the last check; a check is due when they have cost as much, but not before the first."""
    theta: FloatArray = field(default_factory=lambda: np.empty(0))
    """Theta at the last check."""
    last_gap: float = np.inf
    idle: int = 0
    """Consecutive checks without improvement."""


class LargeColumns(IterativeMethod[SweepState, Candidate]):
    """Sweeps over one large group; the storage defines how it begins and how Theta is read from the columns."""

    def begin(self, best: Any) -> ColumnAscent:
        raise NotImplementedError

    def init(self, best: Any) -> SweepState:
        return SweepState(ascent=self.begin(best))

    def step(self, state: SweepState) -> SweepState:
        state.ascent.sweep()
        state.n_iter += 1
        state.unchecked_cost += state.ascent.cost
        if not state.ascent.change > _ROUNDING_CHANGE:  # NaN after a breakdown
            state.ended = "rounding"
        return state

    def gap_check_due(self, state: SweepState, limit: float) -> bool:
        # The estimate may stagnate although the gap is small.
        overdue = state.unchecked_cost > state.ascent.gap_check_cost
        return state.n_iter > 0 and (state.ascent.gap_estimate <= min(limit, state.threshold) or overdue)

    def refine(self, state: SweepState, best: Any) -> None:
        state.unchecked_cost = 0.0
        state.threshold = next_gap_check(state.ascent.gap_estimate, best.limit, best.gap)


class StoredColumns(LargeColumns[Evaluated]):
    """Sweeps over one large group with stored blocks."""

    def __init__(self, task: SolverTask, strong: BoolArray | None = None) -> None:
        self.task, self.faces, self.strong = task, uses_faces(task), strong

    def begin(self, best: BestSoFar) -> ColumnAscent:
        inverse = best.bounds.inverse if self.task.warm and best.bounds.factor.definite.all() else None
        return ColumnAscent.begin(self.task, best.theta, inverse, self.strong)

    def init(self, best: BestSoFar) -> SweepState:
        state = super().init(best)
        if self.faces:
            state.threshold = _FIRST_GAP_CHECK * best.limit
        return state

    def theta(self, state: SweepState) -> Evaluated:
        state.theta = state.ascent.theta()
        return Evaluated(state.theta)

    def gap_check_due(self, state: SweepState, limit: float) -> bool:
        if self.faces:  # a check costs less than a sweep of these penalties, but seldom succeeds early
            return state.n_iter > 0 and state.ascent.gap_estimate <= state.threshold
        return super().gap_check_due(state, limit)

    def refine(self, state: SweepState, best: BestSoFar) -> None:
        super().refine(state, best)
        if not self.faces or not np.isfinite(state.ascent.change):
            return
        state.threshold = next_gap_check(state.ascent.gap_estimate, best.limit, best.last_bounds.total_gap)
        converged = bool(state.ended)
        if converged or not best.gap < state.last_gap:
            best.update(Evaluated(prox_step(self.task, state.theta, state.ascent.W.astype(np.float64))))
        state.idle = 0 if best.gap < state.last_gap else state.idle + 1
        if not best.solved and (converged or state.idle == 1) and np.isfinite(best.gap):
            state.n_iter += step_on_face(best, 0)
        state.last_gap = best.gap
        if state.idle == _IDLE_GAP_CHECKS:
            state.ended = "rounding"
