"""The task of one large group, solved without stored double-precision blocks.

Its result is a `TaskResult` as for any other task. The check of the entries that dynamic screening removed needs single
pairs only: a `SomePairs` system holds the diagonal and the pairs to check.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from jointglasso import config
from jointglasso._typing import IntArray
from jointglasso.blocks.big_group import BigGroup, GroupSupport
from jointglasso.data.checks import indefinite_start, not_semidefinite
from jointglasso.data.source import semidefinite
from jointglasso.duality import EDGE_GAP
from jointglasso.engine.executors import TaskProgress
from jointglasso.engine.nonzeros import Nonzeros
from jointglasso.engine.task_result import TaskResult, UnstoredBlocks
from jointglasso.engine.tasks import Task, TaskContext, deferred_within
from jointglasso.problem import JointProblem
from jointglasso.screening.groups import ClassBlocks
from jointglasso.solvers.big_sweeps import BigTask, at_inverse, solve_big
from jointglasso.solvers.dual_point import DualPoint


def is_big(blocks: ClassBlocks, shared: TaskContext) -> bool:
    """Whether the blocks of a task are a single group to be solved without stored blocks."""
    largest = int(blocks.sizes.max(initial=0))
    wanted = largest >= config.HUGE or (not shared.memory.for_blocks and largest > config.BATCHED_BLOCK)
    return wanted and blocks.n_groups == 1 and may_be_big(shared.problem, shared.method.name)


def may_be_big(problem: JointProblem, method: str) -> bool:
    """Whether column sweeps without stored blocks can solve groups of the problem.

    They require the default solver and the group penalty with equal pair weights and no missing variables.
    """
    penalty = problem.penalty
    plain = "forest" in penalty.supports and not penalty.has_missing_variables and problem.pair_weights is None
    return method == "auto" and plain and penalty.scale > 0.0


def solve_big_task(item: Task, shared: TaskContext, progress: TaskProgress) -> TaskResult:
    """Solve a large group by column sweeps and certify the result."""
    began = time.perf_counter()
    group = BigGroup.build(shared.problem.source, item.blocks, shared.problem.weights)
    require_semidefinite(shared.problem, group)
    point, n_iter, stopped_by = solve_big(_task(item, shared, group, progress))
    solved = UnstoredBlocks.of(point, shared.problem, deferred_pairs(group, item, shared))
    return solved.result(item.number, n_iter, stopped_by, began, keep=item.keep_blocks)


def rebuild_big(outcome: TaskResult, item: Task, shared: TaskContext) -> UnstoredBlocks:
    """Rebuild a solved large group, with the inverse of its Theta as W; if its gap is too large, with W of new sweeps.

    In single precision the inverse of a badly conditioned Theta need not be definite.
    """
    group = BigGroup.build(shared.problem.source, item.blocks, shared.problem.weights)
    restarted = item.starting_at(outcome.nonzeros, item.max_iter)
    task = _task(restarted, replace(shared, points={}), group, lambda *news: False)
    theta = outcome.nonzeros.support(group)
    point = at_inverse(task, theta)
    if point.gap > max(float(outcome.gap[0]), task.limit(point.objective)):
        swept = replace(solve_big(task)[0], theta_support=theta)
        point = min(point, swept, key=lambda candidate: candidate.gap)
    return UnstoredBlocks.of(point, shared.problem, deferred_pairs(group, item, shared))


def gap_limit(item: Task, shared: TaskContext) -> Callable[[float], float]:
    """Limit on the gap of a task of one group, as a function of its objective."""
    unit = shared.problem.unit
    return lambda objective: float(item.gap_budget[0]) * shared.tol * max(unit, abs(item.rest + objective))


def snapshots_of(group: BigGroup, item: Task, shared: TaskContext) -> Callable[[Callable[[], GroupSupport]], None]:
    """Callback that writes snapshots of Theta to the checkpoint, if there is one."""
    if shared.checkpoint is None:
        return lambda theta: None
    return shared.checkpoint.snapshots(item.blocks, partial(Nonzeros.of_support, group))


def _task(item: Task, shared: TaskContext, group: BigGroup, progress: TaskProgress) -> BigTask:
    problem, limit = shared.problem, gap_limit(item, shared)
    start, W, known, objective = None, None, None, None
    if item.saved is not None:
        start = item.saved.nonzeros.support(group)
    elif item.start is not None:
        start = item.start.support(group)
        if not item.is_trusted:
            _require_definite(group, start)
        points = _points_inside(group, shared.points)
        if (
            len(points) == 1
            and group.has_blocks_of(points[0].group)
            and points[0].gap
            <= min(limit(points[0].objective), EDGE_GAP * points[0].edge_gap if shared.prove else np.inf)
        ):
            known = points[0]
        elif points:
            W, objective = _carried(group, points, problem.diagonal_penalty)
    return BigTask(
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
        keep=snapshots_of(group, item, shared),
    )


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


def deferred_pairs(group: BigGroup, item: Task, shared: TaskContext) -> tuple[IntArray, IntArray] | None:
    """Deferred pairs with an entry in some block of the group, as indices within it; None for static screening."""
    if shared.deferred is None:
        return None
    candidates = deferred_within(shared.deferred, group.members, shared.problem.source.n_variables)
    i, j = (
        np.searchsorted(group.variables, end[candidates]) for end in (shared.deferred.rows, shared.deferred.columns)
    )
    in_block = group.class_mask(i, j).any(axis=1)
    return i[in_block], j[in_block]


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
