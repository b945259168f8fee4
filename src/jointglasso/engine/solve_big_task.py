"""The task of one large group, solved without stored double-precision blocks.

Its result is a `TaskResult` as for any other task. The check of the entries that dynamic screening removed needs single
pairs only: a `SomePairs` system holds the diagonal and the pairs to check.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from jointglasso import config
from jointglasso._typing import BoolArray, FloatArray, IntArray
from jointglasso.blocks.big_group import BigGroup, GroupSupport, SomePairs
from jointglasso.blocks.linalg import Factorization
from jointglasso.data.checks import indefinite_start, not_semidefinite
from jointglasso.data.source import semidefinite
from jointglasso.duality import EDGE_GAP, DualityGap
from jointglasso.engine.checkpoint import Saved
from jointglasso.engine.equalities import NO_PROOFS
from jointglasso.engine.executors import TaskProgress
from jointglasso.engine.recheck import NO_INFEASIBILITY, DualInfeasibility, KKTViolations, ScreeningCheck
from jointglasso.engine.task_result import Nonzeros, TaskResult
from jointglasso.engine.tasks import Task, TaskContext, WarmStart, deferred_within
from jointglasso.problem import JointProblem
from jointglasso.solvers.big_sweeps import BigTask, at_inverse, solve_big
from jointglasso.solvers.dual_point import DualPoint


def is_big(item: Task, shared: TaskContext) -> bool:
    """Whether a task is a single group to be solved without stored blocks."""
    largest = int(item.blocks.sizes.max(initial=0))
    wanted = largest >= config.HUGE or (not shared.memory_for_blocks and largest > config.BATCHED_BLOCK)
    return wanted and item.blocks.n_groups == 1 and may_be_big(shared.problem, shared.method.name)


def may_be_big(problem: JointProblem, method: str) -> bool:
    """Whether column sweeps without stored blocks can solve groups of the problem.

    They require the default solver and the group penalty with equal pair weights and no missing variables.
    """
    penalty = problem.penalty
    plain = "forest" in penalty.supports and not penalty.has_missing_variables and problem.pair_weights is None
    return method == "auto" and plain and penalty.scale > 0.0


@dataclass
class CachedBigBlocks:
    """A solved large group with its W (estimate of the inverse of Theta, float32) in memory."""

    point: DualPoint
    screening_check: ScreeningCheck | None
    theta: FloatArray
    bounds: DualityGap
    """Bounds at the pairs to check, with W in place of the inverse of `theta`."""

    @classmethod
    def of(cls, point: DualPoint, item: Task, shared: TaskContext) -> CachedBigBlocks:
        """From a dual point; the bounds include the rounding error."""
        objective, rounding, gap = point.with_rounding()
        group, pairs = point.group, deferred_pairs(point.group, item, shared)
        system = SomePairs.of(group, *pairs)
        W, dual = point.entries_at(system.row, system.column)
        variance = group.optimal_variance(point.diagonal_penalty)
        inverse, dual_entries = np.concatenate([variance, W]), np.concatenate([variance, dual])
        factor = Factorization(inverse, point.logdets[0], np.isfinite(point.logdets[0]))
        bounds = DualityGap(np.array([objective]), np.array([gap]), dual_entries, factor, np.array([rounding]))
        theta = np.concatenate([point.theta_support.diagonal, _values(point.theta_support, group, system)])
        screening_check = (
            None if shared.deferred is None else ScreeningCheck(shared.problem, system, np.arange(system.n_pairs))
        )
        return cls(point, screening_check, theta, bounds)

    def checked(self) -> tuple[KKTViolations, bool]:
        """KKT violations at screened-out entries, and whether the gap certifies that there are none."""
        if self.screening_check is None:
            empty = np.empty(0, dtype=np.int64)
            return (empty, empty, np.empty((0, self.point.group.n_classes), dtype=bool)), True
        violated, unproved = self.screening_check.kkt_check(self.theta, self.bounds)
        return violated, not len(unproved)

    def with_cuts(self) -> tuple[DualityGap, DualInfeasibility]:
        """Bounds from a dual point over all classes, and its infeasibility at screened-out entries."""
        if self.screening_check is None:
            return self.bounds, NO_INFEASIBILITY
        entries, values, infeasibility = self.screening_check.subgradient(self.theta, self.bounds)
        if len(infeasibility.value) or not self.screening_check.holds_already(self.bounds, entries, values):
            row, column = self.screening_check.system.entry_members(entries)
            self.point = self.point.with_subgradients(row, column, values)
            objective, error, gap = self.point.with_rounding()
            self.bounds = replace(
                self.bounds, objective=np.array([objective]), gap=np.array([gap]), rounding=np.array([error])
            )
        return self.bounds, infeasibility

    def with_radius(self, outcome: TaskResult, gap: FloatArray, radius: float) -> TaskResult:
        """An outcome with its gap, and the edges certified by `radius`, the gap of the full problem."""
        present = self.point.present(radius)
        return replace(
            outcome,
            gap=gap,
            nonzeros=nonzeros_of(self.point.group, self.point.theta_support, present),
            n_present=int(present.sum()),
            n_absent=self.point.n_absent(radius, screening_proved=False),
        )


def solve_big_task(item: Task, shared: TaskContext, progress: TaskProgress) -> TaskResult:
    """Solve a large group by column sweeps and certify the result."""
    began = time.perf_counter()
    problem = shared.problem
    group = BigGroup.build(problem.source, item.blocks, problem.weights)
    require_semidefinite(problem, group)
    task = _task(item, shared, group, progress)
    point, n_iter, stopped_by = solve_big(task)
    cached_blocks = CachedBigBlocks.of(point, item, shared)
    violated, proved = cached_blocks.checked()
    gap = float(cached_blocks.bounds.gap[0])
    present = point.present(gap) if proved else np.zeros(point.theta_support.value.shape, dtype=bool)
    return TaskResult(
        number=item.number,
        objective=cached_blocks.bounds.objective,
        gap=cached_blocks.bounds.gap,
        rounding=cached_blocks.bounds.rounding,
        raised=np.array([gap - point.gap if np.isfinite(point.gap) else 0.0]),
        n_iter=n_iter,
        stopped_by=stopped_by,
        methods=["columns" if n_iter else "warm start"],
        nonzeros=nonzeros_of(group, point.theta_support, present),
        n_entries=group.n_entries,
        n_present=int(present.sum()),
        n_absent=point.n_absent(gap) if proved else 0,
        edge_gap=point.edge_gap,
        certified_equal=NO_PROOFS,
        violated=violated,
        proved=proved,
        cached_blocks=cached_blocks if item.keep_blocks else None,
        is_big=True,
        build_seconds=0.0,
        seconds=time.perf_counter() - began,
    )


def rebuild_big(outcome: TaskResult, item: Task, shared: TaskContext) -> CachedBigBlocks:
    """Rebuild a solved large group, with the inverse of its Theta as W; if its gap is too large, with W of new sweeps.

    In single precision the inverse of a badly conditioned Theta need not be definite.
    """
    group = BigGroup.build(shared.problem.source, item.blocks, shared.problem.weights)
    task = _task(replace(item, saved=None, start=outcome.nonzeros), shared, group, lambda *news: False)
    theta = support_of(group, outcome.nonzeros)
    point = at_inverse(task, theta)
    if point.gap > max(float(outcome.gap[0]), task.limit(point.objective)):
        swept = replace(solve_big(task)[0], theta_support=theta)
        point = min(point, swept, key=lambda candidate: candidate.gap)
    return CachedBigBlocks.of(point, item, shared)


def _task(item: Task, shared: TaskContext, group: BigGroup, progress: TaskProgress) -> BigTask:
    problem = shared.problem

    def limit(value: float) -> float:
        return float(item.gap_budget[0]) * shared.tol * max(problem.unit, abs(item.rest + value))

    start, W, known, objective = None, None, None, None
    if item.saved is not None:
        start = from_checkpoint(group, item.saved)
    if start is None and item.start is not None:
        start = support_of(group, item.start)
    if start is None and shared.warm_start is not None:
        start = from_matrices(group, shared.warm_start)
        points = _points_inside(group, shared.warm_start.points)
        if (
            len(points) == 1
            and group.has_blocks_of(points[0].group)
            and points[0].gap
            <= min(limit(points[0].objective), EDGE_GAP * points[0].edge_gap if shared.prove else np.inf)
        ):
            known = points[0]
        elif points:
            W, objective = _carried(group, points, problem.diagonal_penalty)
    task = BigTask(
        group=group,
        penalty=problem.penalty,
        diagonal_penalty=problem.diagonal_penalty,
        limit=limit,
        max_iter=item.max_iter,
        n_threads=item.n_threads,
        start=start,
        W=W,
        known=known,
        prove=shared.prove,
        objective=objective,
        report=progress,
    )
    if shared.checkpoint is None:
        return task

    def pick(theta: GroupSupport) -> Nonzeros:
        return nonzeros_of(group, theta, np.zeros(theta.value.shape, dtype=bool))

    return replace(task, keep=shared.checkpoint.snapshots(item.blocks, pick))


def require_semidefinite(problem: JointProblem, group: BigGroup) -> None:
    """Refuse blocks whose S is not a covariance matrix."""
    if problem.source.is_semidefinite:
        return
    for block, k in enumerate(group.block_class):
        variables = group.members[group.member_start[block] : group.member_start[block + 1]]
        S = problem.source.block(int(k), variables).ravel()
        if not semidefinite(S, np.zeros(1, dtype=np.int64), group.size[[block]]).all():
            where = f"in a block of {group.size[block]} of its variables"
            raise not_semidefinite(problem.source.class_names[k], where)


def deferred_pairs(group: BigGroup, item: Task, shared: TaskContext) -> tuple[IntArray, IntArray]:
    """Deferred pairs with an entry in some block of the group, as indices of variables in the group."""
    empty = np.empty(0, dtype=np.int64)
    if shared.deferred is None:
        return empty, empty
    candidates = deferred_within(shared.deferred, group.members, shared.problem.source.n_variables)
    i, j = (
        np.searchsorted(group.variables, end[candidates]) for end in (shared.deferred.rows, shared.deferred.columns)
    )
    in_block = group.class_mask(i, j).any(axis=1)
    return i[in_block], j[in_block]


def nonzeros_of(group: BigGroup, theta: GroupSupport, present: BoolArray) -> Nonzeros:
    """Diagonal and non-zero entries of `theta`; `present` (P, K) marks those certified to be non-zero."""
    pair, k = np.nonzero(theta.value)
    row, column = group.member_of[k, theta.i[pair]], group.member_of[k, theta.j[pair]]
    diagonal_member = np.arange(len(group.members))
    diagonal, members = group.positions(diagonal_member, diagonal_member), group.members
    return Nonzeros(
        position=np.concatenate([group.positions(row, column), diagonal]),
        mirror=np.concatenate([group.positions(column, row), diagonal]),
        block_class=group.block_class[group.member_block[np.concatenate([row, diagonal_member])]],
        row=np.concatenate([members[row], members]),
        column=np.concatenate([members[column], members]),
        value=np.concatenate([theta.value[pair, k], theta.diagonal]),
        proved=np.concatenate([present[pair, k], np.zeros(len(diagonal_member), dtype=bool)]),
    )


def support_of(group: BigGroup, nonzeros: Nonzeros) -> GroupSupport:
    """Inverse of `nonzeros_of`: Theta by pairs of the group."""
    off = nonzeros.row != nonzeros.column
    return _support(
        group, nonzeros.block_class[off], nonzeros.row[off], nonzeros.column[off], nonzeros.value[off],
        nonzeros.value[~off],
    )  # fmt: skip


def _support(
    group: BigGroup, cls: IntArray, i: IntArray, j: IntArray, value: FloatArray, diagonal: FloatArray
) -> GroupSupport:
    """Theta from its entries at variables i < j, with their classes `cls`, and its diagonal by block member."""
    n = len(group.variables)
    first, second = (np.searchsorted(group.variables, end) for end in (i, j))
    key, pair = np.unique(first * n + second, return_inverse=True)
    values = np.zeros((len(key), group.n_classes))
    values[pair, cls] = value
    return GroupSupport(key // n, key % n, values, diagonal)


def from_checkpoint(group: BigGroup, saved: Saved) -> GroupSupport | None:
    """Theta from a checkpoint; None if it does not match the blocks."""
    fits = len(saved.position) == len(saved.value) and len(saved.diagonal) == len(group.members)
    if not fits or ((saved.position < 0) | (saved.position >= group.offset[-1])).any():
        return None
    block = np.searchsorted(group.offset, saved.position, side="right") - 1
    row, column = np.divmod(saved.position - group.offset[block], group.size[block])
    numbers = np.concatenate([saved.value, saved.diagonal])
    if not (row < column).all() or not np.isfinite(numbers).all() or not (saved.diagonal > 0.0).all():
        return None
    i, j = (group.members[group.member_start[block] + end] for end in (row, column))
    return _support(group, group.block_class[block], i, j, saved.value, saved.diagonal)


def from_matrices(group: BigGroup, start: WarmStart) -> GroupSupport:
    """Entries of the warm start inside the blocks; an error unless they are positive definite."""
    cls, rows, columns, values = [], [], [], []
    diagonal, p = np.zeros(len(group.members)), group.source.n_variables
    for k, matrix in enumerate(start.precision):
        Theta, member = sparse.coo_array(matrix), np.full(p, -1, dtype=np.int64)
        of_class = group.block_class[group.member_block] == k
        member[group.members[of_class]] = np.flatnonzero(of_class)
        row, column = member[Theta.row], member[Theta.col]
        inside = (row >= 0) & (column >= row)
        inside[inside] = group.member_block[row[inside]] == group.member_block[column[inside]]
        row, column, value = row[inside], column[inside], Theta.data[inside]
        upper = row < column
        diagonal[row[~upper]] = value[~upper]
        cls.append(np.full(int(upper.sum()), k))
        rows.append(group.members[row[upper]])
        columns.append(group.members[column[upper]])
        values.append(value[upper])
    i, j = np.concatenate(rows), np.concatenate(columns)
    support = _support(group, np.concatenate(cls), i, j, np.concatenate(values), diagonal)
    if not start.trusted:
        _require_definite(group, support)
    return support


def _points_inside(group: BigGroup, points: dict[int, DualPoint]) -> list[DualPoint]:
    """Remove and return the points of the previous round whose groups are part of this group."""
    keys, inside = group.class_variables, []
    for number, point in list(points.items()):
        if np.isin(point.group.class_variables, keys).all():
            inside.append(number)
    return [points.pop(number) for number in inside]


def _carried(group: BigGroup, points: list[DualPoint], diagonal_penalty: float) -> tuple[NDArray[np.float32], float]:
    """W from `points`, which it empties, and diagonal otherwise; the objective of their Theta.

    Variables outside the points count with the objective of the diagonal Theta.
    """
    diagonal_member, variance = np.arange(len(group.members)), group.optimal_variance(diagonal_penalty)
    W = np.zeros(int(group.offset[-1]), dtype=np.float32)
    W[group.positions(diagonal_member, diagonal_member)] = variance
    per_member, objective = group.block_weight[group.member_block] * (1.0 + np.log(variance)), 0.0
    while points:
        point = points.pop()
        old, objective = point.group, objective + point.objective
        for block, b in enumerate(old.size):
            variables = old.members[point.permuted.member[old.member_start[block] : old.member_start[block + 1]]]
            member = group.member_of[old.block_class[block], np.searchsorted(group.variables, variables)]
            into = group.member_block[member[0]]
            slot = member - group.member_start[into]
            matrix = W[group.offset[into] : group.offset[into + 1]].reshape(group.size[into], -1)
            matrix[np.ix_(slot, slot)] = point.W[old.offset[block] : old.offset[block + 1]].reshape(b, b)
            per_member[member] = 0.0
    return W, objective + float(per_member.sum())


def _require_definite(group: BigGroup, theta: GroupSupport) -> None:
    """Refuse a warm start that is not positive definite."""
    from jointglasso._lapack import factor_in_place

    pair, k = np.nonzero(theta.value)
    row, column = group.member_of[k, theta.i[pair]], group.member_of[k, theta.j[pair]]
    for block, b in enumerate(group.size):
        first, in_block = group.member_start[block], group.member_block[row] == block
        matrix = np.diag(theta.diagonal[first : first + b])
        matrix[row[in_block] - first, column[in_block] - first] = theta.value[pair[in_block], k[in_block]]
        if not factor_in_place(matrix):
            raise indefinite_start(group.source.class_names[group.block_class[block]], "positive definite")


def _values(theta: GroupSupport, group: BigGroup, system: SomePairs) -> FloatArray:
    """Theta at the entries of a system."""
    n = len(group.variables)
    if not len(theta.i):
        return np.zeros(len(system.row))
    key = theta.i * n + theta.j
    order = np.argsort(key)
    wanted_key = group.local[system.row] * n + group.local[system.column]
    index = order[np.minimum(np.searchsorted(key, wanted_key, sorter=order), len(key) - 1)]
    return np.where(key[index] == wanted_key, theta.value[index, system.entry_class], 0.0)
