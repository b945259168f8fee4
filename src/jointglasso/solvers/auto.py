"""The default solver: a sequence of methods, each on the groups that the previous ones left above their gap limits.

Closed form where the class graphs are forests; block coordinate ascent by columns for all others, small groups in one
compiled call, large groups one by one; Newton's method where the gap is above the limit, and again along a path of
class weights where these differ by decades; ADMM where Newton's method fails or is too expensive, as in densely
correlated groups with unpenalised pairs (weight zero), to which column sweeps do not apply.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from jointglasso import config
from jointglasso._threads import Workers
from jointglasso._typing import BoolArray
from jointglasso.penalties.class_graph import ClassGraphPenalty
from jointglasso.solvers.admm import ADMM
from jointglasso.solvers.base import (
    BestSoFar,
    Evaluated,
    IterativeMethod,
    SolverResult,
    SolverTask,
    State,
    bounds_of_diagonal,
    diagonal_start,
    run,
)
from jointglasso.solvers.closed_form import forest_solution, strong_pairs
from jointglasso.solvers.column_ascent import suits_columns
from jointglasso.solvers.column_sweeps import (
    SmallColumns,
    StoredColumns,
    dense_groups,
    extract_group,
    prox_step,
    slow_groups,
    step_on_face,
    uses_faces,
)
from jointglasso.solvers.newton import Newton, NewtonOnFaces

#: Maximal number of outer iterations over the diagonal of W for a fused diagonal: those that converge need fewer.
_DIAGONALS = 8

#: Rounds of ADMM on groups that other methods leave above their limits.
_ADMM_ROUNDS = 5

#: Ratio of the class weights of a group above which it is solved along a path of weights; factors between its levels,
#: tried in this order, of which the first nearly always suffices; gap at a level, in units of its weight.
_SPREAD, _LEVEL_STEPS, _LEVEL_GAP = 1e3, (10.0, 100.0, 5.0), 0.1

#: Relative gap above which a failure of Newton's method is not attributed to rounding.
_ROUNDING_GAP = 1e-10


@dataclass(frozen=True)
class Auto:
    """Default solver of `solve`."""

    name = "auto"
    default_max_iter = 100
    include_isolated = False
    lockstep = False
    bytes_per_entry = Newton.bytes_per_entry
    requires = frozenset({"prox"})

    def solve(self, task: SolverTask) -> SolverResult:
        """Run the stages in order until every group is within its limit."""
        strong = np.empty(0, dtype=bool) if uses_faces(task) else strong_pairs(task.system, task.penalty)
        best, methods = _begin(task, strong)
        n_iter, reason = 0, "tolerance"
        for stage in () if best.solved else _stages(task, methods, strong):
            remaining, rounds = task.max_iter - n_iter, 1
            if isinstance(stage, _AdmmOnGroups) and task.max_iter >= Auto.default_max_iter:  # not lowered by the caller
                remaining, rounds = max(ADMM.default_max_iter, task.max_iter), _ADMM_ROUNDS
            if isinstance(stage, _WeightPath) and task.max_iter >= Auto.default_max_iter:
                remaining = task.max_iter
            if isinstance(stage, _PerGroup):
                stage.max_iter = remaining
            taken, reason = run(stage, best, rounds * remaining)
            n_iter += taken
            if reason in ("tolerance", "callback"):
                break
        if not n_iter:
            task.report(best.objective, best.gap)
        if reason == "rounding" and n_iter >= task.max_iter:
            reason = "max_iter"
        return best.result(n_iter, reason, list(methods))


def _stages(task: SolverTask, methods: Any, strong: BoolArray) -> Iterator[IterativeMethod[Any, Evaluated]]:
    """Methods in the order of their use."""
    columns, faces, fused = suits_columns(task), uses_faces(task), task.penalty.fused_diagonal_penalty is not None
    dense = slow_groups(task) if faces else dense_groups(task.system, strong)
    if fused and "columns" in task.penalty.supports and not task.absolute:
        yield _FixedDiagonals(task, methods)
    elif columns:
        yield from _column_stages(task, methods, dense, strong)
    work_limit = config.ADMM_WORK if task.memory_for_admm else np.inf
    yield NewtonOnFaces(task, methods, dense & (faces or not columns), work_limit)
    if faces:
        yield _WeightPath(task, methods)
    yield _AdmmOnGroups(task, methods)


def _column_stages(
    task: SolverTask, methods: Any, dense: BoolArray, strong: BoolArray
) -> Iterator[IterativeMethod[Any, Evaluated]]:
    """Column sweeps over the small groups in one call, then over each large or dense one."""
    is_large, faces = task.system.largest_block > config.LARGE, uses_faces(task)
    if (~is_large).any():
        yield SmallColumns(task, methods, dense & ~is_large)
    one_by_one = is_large if faces else dense | (is_large & (not task.absolute))
    if one_by_one.any():
        yield _ColumnsOnGroups(task, methods, one_by_one, strong)


def _begin(task: SolverTask, strong: BoolArray) -> tuple[BestSoFar, Any]:
    """Best point at the start, and (G,) the method to report for each group that it solves."""
    system = task.system
    methods = np.full(system.n_groups, "warm start" if task.warm else "closed form", dtype=object)
    if task.absolute:
        return BestSoFar(task, bounds=task.known), methods
    if uses_faces(task):
        methods[:] = "warm start" if task.warm else "start"
        return BestSoFar(task, bounds=None if task.warm else bounds_of_diagonal(task, task.start)), methods
    large = int(system.size.max(initial=0)) > config.LARGE
    # A start on a spanning forest does not accelerate column sweeps over small groups.
    theta, forest = forest_solution(
        system, task.penalty, task.diagonal_penalty, strong, task.n_threads,
        only_forests=suits_columns(task) and not large,
    )  # fmt: skip
    if task.warm:
        keep = system.per_element_of_groups(~forest)
        theta[keep] = task.start[keep]
    methods[forest] = "closed form"
    if task.warm or task.max_iter == 0:
        return BestSoFar(task, theta), methods
    if system.n_groups == 1 and large:  # far from the solution: a bound without two factors
        return BestSoFar(task, theta, bounds_of_diagonal(task, task.start)), methods
    n_strong = system.sum_pairs_per_group(strong.astype(float))
    unknown = not n_strong.all() or bool(system.gather(theta).any())
    return BestSoFar(task, theta, None if unknown else bounds_of_diagonal(task, theta)), methods


class _PerGroup(IterativeMethod[State, Evaluated]):
    """A method applied to some groups; repeated for groups whose limits have decreased with the objective."""

    def __init__(self, task: SolverTask, methods: Any) -> None:
        self.task, self.methods, self.max_iter = task, methods, task.max_iter

    def init(self, best: BestSoFar) -> State:
        self.best, self.limits = best, np.full(self.task.system.n_groups, np.inf)
        return State(ended="" if self._todo().any() else "rounding")

    def step(self, state: State) -> State:
        todo, self.limits = self._todo(), self.best.limits
        if not todo.any():  # the point has changed between the iterations
            state.ended = "rounding"
            return state
        state.n_iter += self.improve(todo)
        state.ended = "" if self._todo().any() else "rounding"
        return state

    def theta(self, state: State) -> Evaluated:
        return Evaluated(self.best.theta, self.best.bounds)

    def gap_check_due(self, state: State, limit: float) -> bool:
        return state.n_iter > 0

    def _todo(self) -> BoolArray:
        return np.asarray(self.best.unsolved & self.suitable() & (self.best.limits < 0.99 * self.limits))

    def suitable(self) -> BoolArray:
        """(G,): groups to which the method applies."""
        return np.ones(self.task.system.n_groups, dtype=bool)

    def improve(self, todo: BoolArray) -> int:
        """Improve the best point on the groups in `todo`; the number of iterations."""
        raise NotImplementedError


class _ColumnsOnGroups(_PerGroup):
    """Column sweeps over large groups, one after another."""

    def __init__(self, task: SolverTask, methods: Any, groups: BoolArray, strong: BoolArray) -> None:
        super().__init__(task, methods)
        self.groups, self.strong = groups, strong

    def suitable(self) -> BoolArray:
        return self.groups

    def improve(self, todo: BoolArray) -> int:
        best, taken, max_iter = self.best, [0], min(self.max_iter, 2 * config.FUSION_SWEEPS)
        for group in np.flatnonzero(todo).tolist():
            subtask, positions = extract_group(self.task, best.theta, group, best.limits, self.task.max_iter)
            single = self.task.system.n_groups == 1
            known = best.bounds.of_groups(np.array([group]), self.task.system.block_group == group, positions)
            inner = BestSoFar(subtask, bounds=known)
            strong = self.strong if single and len(self.strong) else None
            n_iter, reason = run(StoredColumns(subtask, strong), inner, max_iter)
            best.update_group(group, positions, inner.theta, inner.bounds)
            taken.append(n_iter)
            self.methods[group] = "columns" if uses_faces(self.task) else "columns, newton"
            if reason == "callback" or (not single and self.task.report(best.objective, None)):
                break  # `run` asks again
        return max(taken)


class _AdmmOnGroups(_PerGroup):
    """ADMM, the last resort: slow, but reliable in groups so badly conditioned that other methods fail.

    Repeated for groups whose limit has decreased with the objective, and for small ones that still improve.
    """

    def __init__(self, task: SolverTask, methods: Any) -> None:
        super().__init__(task, methods)
        self.gap = self.objective = np.full(task.system.n_groups, np.inf)
        self.n_rounds, self.cut_short = 0, False

    def suitable(self) -> BoolArray:
        bounds, task = self.best.bounds, self.task
        rounding = bounds.gap <= _ROUNDING_GAP * (task.unit + np.abs(bounds.objective))
        return np.asarray(~rounding | uses_faces(task))

    def step(self, state: State) -> State:
        state = super().step(state)
        if state.ended and self.cut_short:
            state.ended = "max_iter"
        return state

    def _todo(self) -> BoolArray:
        if self.n_rounds >= _ADMM_ROUNDS:
            return np.zeros(self.task.system.n_groups, dtype=bool)
        bounds = self.best.bounds
        improving = (bounds.gap < 0.5 * self.gap) | (np.isinf(bounds.gap) & (bounds.objective < self.objective))
        improving &= (self.task.system.largest_block <= config.LARGE) & uses_faces(self.task)
        repeat = (self.best.limits < 0.99 * self.limits) | (improving & (self.n_rounds > 0))
        return np.asarray(self.best.unsolved & self.suitable() & repeat)

    def improve(self, todo: BoolArray) -> int:
        task, best, groups = self.task, self.best, np.flatnonzero(todo).tolist()
        n_threads, max_iter = task.n_threads if len(groups) == 1 else 1, self.max_iter
        faces = uses_faces(task)
        warm = task.warm or self.n_rounds > 0 or not faces
        self.gap, self.objective = best.bounds.gap.copy(), best.bounds.objective.copy()

        def solve(group: int) -> tuple[Any, SolverResult]:
            subtask, positions = extract_group(task, best.theta, group, self.limits, max_iter)
            return positions, ADMM().solve(replace(subtask, n_threads=n_threads, warm=warm))

        # Several groups share the cores; a single group uses all of them.
        results = Workers(task.n_threads if len(groups) > 1 else 1).map(solve, groups)
        for group, (positions, result) in zip(groups, results, strict=True):
            best.update_group(group, positions, result.theta, result.bounds)
            self.methods[group] = "admm"
            self.cut_short |= faces and result.stopped_by == "max_iter"
            if faces and np.isfinite(best.bounds.gap[group]):
                step_on_face(best, group)
        self.n_rounds += 1
        return max((result.n_iter for _, result in results), default=0)


class _WeightPath(_PerGroup):
    """Solutions along a path of class weights, where these differ by many decades.

    The weight of a class is the parameter of the barrier -log det of its Theta: with weights raised to a level that
    decreases from the largest to the smallest, each solution is a start from which Newton's method converges, as in
    interior-point methods. The diagonal start is off by the ratio of the weights.
    """

    def suitable(self) -> BoolArray:
        system = self.task.system
        largest, smallest = np.zeros(system.n_groups), np.full(system.n_groups, np.inf)
        np.maximum.at(largest, system.block_group, system.block_weight)
        np.minimum.at(smallest, system.block_group, system.block_weight)
        return np.asarray((largest > _SPREAD * smallest) & (system.largest_block <= config.LARGE))

    def improve(self, todo: BoolArray) -> int:
        best, taken = self.best, 0
        for group in np.flatnonzero(todo).tolist():
            subtask, positions = extract_group(self.task, best.theta, group, best.limits, self.max_iter)
            for step in _LEVEL_STEPS:
                end, n_iter = _along_weights(subtask, step)
                taken += n_iter
                best.update_group(group, positions, end.theta, end.bounds)
                if not best.unsolved[group]:
                    self.methods[group] = "newton"
                    break
        return taken


def _along_weights(task: SolverTask, step: float) -> tuple[BestSoFar, int]:
    """Best point at the end of the path of one group whose levels decrease by the factor `step`; the iterations."""
    weight, start, taken = task.system.block_weight, None, 0
    level = float(weight.max())
    while True:
        level = max(level / step, float(weight.min()))
        system = replace(task.system, block_weight=np.maximum(weight, level))
        start = diagonal_start(system, task.penalty, task.diagonal_penalty) if start is None else start
        # A dual point is definite in every class only at a gap below the smallest weight.
        tol = min(task.tol, max(_LEVEL_GAP * level, _ROUNDING_GAP * task.unit))
        inner = BestSoFar(replace(
            task, system=system, start=start, warm=True, tol=tol,
            report=lambda objective, gap: False, keep=lambda theta: None,
        ))  # fmt: skip
        none, methods = np.zeros(1, dtype=bool), np.array([""], dtype=object)
        taken += run(SmallColumns(inner.task, methods, none), inner, task.max_iter)[0]
        taken += 0 if inner.solved else run(NewtonOnFaces(inner.task, methods), inner, task.max_iter)[0]
        if level == weight.min():
            return inner, taken
        start = inner.theta


class _FixedDiagonals(_PerGroup):
    """Column sweeps for a fused diagonal, where the optimal diagonal of W is not known in advance.

    Fixed-point iteration: sweeps with the diagonal of W fixed at that of the current dual point, then a proximal step
    and Newton's method on the face (with clusters of diagonal entries), which update the diagonal.
    """

    def improve(self, todo: BoolArray) -> int:
        task, best, system = self.task, self.best, self.task.system
        penalty = replace(cast(ClassGraphPenalty, task.penalty), fuse_diagonal=False)
        S = system.S.copy()
        variance = best.bounds.dual[system.diagonal]
        variance = np.where(variance > 0.0, variance, best.bounds.inverse[system.diagonal])  # an indefinite dual point
        S[system.diagonal] += variance - system.optimal_variance(task.diagonal_penalty)
        fixed = replace(
            task, system=replace(system, S=S), penalty=penalty, start=best.theta, known=None, warm=True,
            report=lambda objective, gap: False, keep=lambda theta: None,
        )  # fmt: skip
        inner, taken = BestSoFar(fixed), 0
        for stage in _column_stages(fixed, self.methods, slow_groups(fixed), np.empty(0, dtype=bool)):
            taken += run(stage, inner, task.max_iter)[0]
        self.methods[todo] = "columns"
        best.update(Evaluated(prox_step(task, inner.theta, inner.bounds.inverse)), todo)
        for group in np.flatnonzero(best.unsolved & np.isfinite(best.bounds.gap)):
            taken += step_on_face(best, int(group))
        self.n_rounds += 1
        return max(taken, 1)

    n_rounds = 0

    def _todo(self) -> BoolArray:
        return self.best.unsolved & (self.n_rounds < _DIAGONALS)
