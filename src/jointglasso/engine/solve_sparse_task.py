"""The task of one large group in sparse storage, and the rule that chooses it.

Sparse storage holds Theta, its Cholesky factor and the entries of its inverse on the sparsity of the factor
(`blocks/sparse_factor.py`); nothing has the size of a block. It is chosen where its factorisations are expected to take
less time than the solve with dense blocks, or where dense blocks do not fit into memory. If it takes many steps,
`solve_task` goes on with dense blocks from the point reached.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from jointglasso import config
from jointglasso._typing import FloatArray
from jointglasso.blocks.big_group import BigGroup, GroupSupport
from jointglasso.blocks.sparse_factor import FactorSparsity
from jointglasso.blocks.sparse_group import SparseGroup
from jointglasso.data.checks import indefinite_start
from jointglasso.engine.executors import TaskProgress
from jointglasso.engine.nonzeros import Nonzeros
from jointglasso.engine.recheck import NO_PAIRS
from jointglasso.engine.solve_big_task import deferred_pairs, gap_limit, require_semidefinite, snapshots_of
from jointglasso.engine.task_result import TaskResult, UnstoredBlocks
from jointglasso.engine.tasks import Task, TaskContext
from jointglasso.problem import JointProblem
from jointglasso.screening.groups import ClassBlocks, block_index
from jointglasso.screening.pairs import PairTable, few_lighter, scan_slack
from jointglasso.solvers.base import remaining_iterations
from jointglasso.solvers.sparse import SparseTask, point_of, solve_sparse
from jointglasso.solvers.sparse_dual import SparseDual

#: Largest group of a source that is not known to be semidefinite, which is tested as a dense matrix.
_UNTESTED = 20_000

#: Steps of a solve whose iteration limit is not lowered.
_MAX_STEPS = 1000

#: Expected factorisations with inversion of a solve in sparse storage; seconds per variable for the rest of it.
_FACTORIZATIONS, _SECONDS = 40.0, 2e-5


@dataclass(frozen=True)
class SparseCosts:
    """Expected seconds and bytes (G,) of groups in sparse storage; infinite where it is not possible."""

    seconds: FloatArray
    memory: FloatArray


def may_be_sparse(problem: JointProblem, method: str, scanned: PairTable | None) -> bool:
    """Whether groups of the problem can be solved in sparse storage.

    It requires the default solver, a penalty of each pair by itself (no fused diagonal), few pairs of weights below 1
    and, where the diagonal is not penalised, none of weight 0, and a scan with slack.
    """
    penalty, weights, p = problem.penalty, problem.pair_weights, problem.source.n_variables
    plain = penalty.fused_diagonal_penalty is None and few_lighter(weights, p)
    if weights is not None and not problem.diagonal_penalty > 0.0:
        plain &= bool((weights.exceptions[2] > 0.0).all())
    if scanned is None or not scanned.thresholds or not plain or method != "auto":
        return False
    slack, box = scan_slack(penalty, scanned.thresholds)
    return slack >= 0.5 * config.SCAN_SLACK * box > 0.0


def sparse_costs(
    problem: JointProblem, method: str, blocks: ClassBlocks, scanned: PairTable | None
) -> SparseCosts | None:
    """Expected costs of each group, from the elimination order of the pairs outside the dual ball; None without any."""
    large = np.flatnonzero(blocks.group_largest >= config.SPARSE_BLOCK)
    if scanned is None or not len(large) or not may_be_sparse(problem, method, scanned):
        return None
    costs = SparseCosts(np.full(blocks.n_groups, np.inf), np.full(blocks.n_groups, np.inf))
    shape = problem.source.n_classes, problem.source.n_variables
    block_of, slot_of = block_index(blocks.block_class, blocks.sizes, blocks.members, shape)
    outside = problem.penalty.violates_global_condition(scanned.weighted, scanned.factor)
    for group in large.tolist():
        sizes = blocks.sizes[blocks.group == group]
        if not problem.source.is_semidefinite and sizes.max() > _UNTESTED:
            continue
        seconds, memory = _SECONDS * float(sizes.sum()), 400.0 * float(sizes.sum())
        for b in np.flatnonzero(blocks.group == group):
            block, slot = block_of[blocks.block_class[b]], slot_of[blocks.block_class[b]]
            inside = np.flatnonzero((block[scanned.rows] == b) & (block[scanned.columns] == b))
            memory += 100.0 * len(inside)
            inside = inside[outside[inside]]
            sparsity = None
            if len(inside) <= config.SPARSE_PAIRS * blocks.sizes[b]:
                limit = 3.0 * float(blocks.sizes[b]) ** 3
                i, j = slot[scanned.rows[inside]], slot[scanned.columns[inside]]
                sparsity = FactorSparsity.within(limit, int(blocks.sizes[b]), np.minimum(i, j), np.maximum(i, j))
            if sparsity is None:
                seconds = np.inf
                break
            (in_columns, _), m = sparsity.work, float(sparsity.n_tail)
            rates = multiplication_rates()
            seconds += _FACTORIZATIONS * (4.0 * in_columns / rates[0] + m**3 / rates[1])
            memory += sparsity.memory
        costs.seconds[group], costs.memory[group] = seconds, memory if np.isfinite(seconds) else np.inf
    return costs if np.isfinite(costs.seconds).any() else None


@cache
def multiplication_rates() -> tuple[float, float]:
    """Multiplications a second of sparse columns, and m^3 a second of a dense tail; measured once, on one core."""
    from jointglasso._threads import single_threaded_blas

    side = 60
    index = np.arange(side * side).reshape(side, side)
    i = np.concatenate([index[:, :-1].ravel(), index[:-1].ravel()])
    j = np.concatenate([index[:, 1:].ravel(), index[1:].ravel()])
    sparsity = FactorSparsity.of(side * side, i, j)
    dense = FactorSparsity(np.arange(500), 0, np.zeros(1, dtype=np.int64), np.empty(0, dtype=np.int32), i[:0])
    seconds = []
    with single_threaded_blas():
        for one, entries in ((sparsity, np.full(len(i), -0.1)), (dense, np.empty(0))):
            diagonal, best = np.ones(len(one.order)), np.inf
            for _ in range(4):
                began = time.perf_counter()
                one.factor(diagonal, entries).invert()  # type: ignore[union-attr]
                best = min(best, time.perf_counter() - began)
            seconds.append(best)
    return 4.0 * sparsity.work[0] / seconds[0], 500.0**3 / seconds[1]


def solve_sparse_task(item: Task, shared: TaskContext, progress: TaskProgress) -> TaskResult | Task:
    """Solve a group in sparse storage and certify the result; returns a task for dense blocks if steps are many."""
    began = time.perf_counter()
    problem, group = shared.problem, _group(item, shared)
    layout, deferred = group.layout, deferred_pairs(group.layout, item, shared)
    require_semidefinite(problem, layout)
    task = SparseTask(
        group=group,
        limit=gap_limit(item, shared),
        max_iter=item.max_iter if item.max_iter < shared.method.default_max_iter else max(item.max_iter, _MAX_STEPS),
        start=_start(group, item),
        deferred=deferred or NO_PAIRS,
        may_give_up=shared.memory.for_dense,
        prove=shared.prove,
        report=progress,
        keep=snapshots_of(layout, item, shared),
    )
    dual, point, n_iter, stopped_by = solve_sparse(task)
    remaining = remaining_iterations(shared.method, item.max_iter, n_iter)
    unsolved = shared.memory.for_dense and remaining > 0 and stopped_by in ("rounding", "max_iter")
    if dual is None or unsolved:
        return item.starting_at(Nonzeros.of_support(layout, point.support), max(1, remaining), is_sparse=False)
    solved = UnstoredBlocks.of(dual, problem, deferred)
    return solved.result(item.number, n_iter, stopped_by, began, keep=item.keep_blocks)


def rebuild_sparse(outcome: TaskResult, item: Task, shared: TaskContext) -> UnstoredBlocks:
    """Rebuild a group solved in sparse storage."""
    group = _group(item, shared)
    point = point_of(group, outcome.nonzeros.support(group.layout))
    if point is None:
        raise ArithmeticError("a solved group is not positive definite")
    deferred = deferred_pairs(group.layout, item, shared)
    dual = SparseDual.of(point.inverted(), point.group.to_recheck(*deferred or NO_PAIRS))
    return UnstoredBlocks.of(dual, shared.problem, deferred)


def _group(item: Task, shared: TaskContext) -> SparseGroup:
    """The group with the pairs of the scan, and those of weights below 1, inside its blocks as candidates."""
    problem, scanned = shared.problem, shared.scanned
    if scanned is None:
        raise RuntimeError("sparse storage needs the pairs of a scan")
    layout = BigGroup.build(problem.source, item.blocks, problem.weights, problem.pair_weights)
    selected = np.zeros(scanned.n_variables, dtype=bool)
    selected[layout.variables] = True
    index = np.flatnonzero(selected[scanned.rows] & selected[scanned.columns])
    candidates = [(scanned.rows[index], scanned.columns[index])]
    if layout.pair_weights is not None:
        candidates.append(layout.pair_weights.lighter)
    slack, none = scan_slack(problem.penalty, scanned.thresholds)[0] * (1.0 - 1e-9), NO_PAIRS[0]
    group = SparseGroup(layout, problem.penalty, problem.diagonal_penalty, none, none, slack, item.n_threads)
    for pairs in candidates:
        i, j = (np.searchsorted(layout.variables, ends) for ends in pairs)
        in_block = layout.class_mask(i, j).any(axis=1)
        group = group.with_pairs(i[in_block], j[in_block])
    return group


def _start(group: SparseGroup, item: Task) -> GroupSupport | None:
    """Theta to start from: a checkpoint, an earlier attempt or a warm start; None for a diagonal start."""
    layout = group.layout
    if item.saved is not None:
        saved = item.saved.nonzeros.support(layout)
        return saved if point_of(group, saved) is not None else None
    start = None if item.start is None else item.start.support(layout)
    if start is None or item.is_trusted:
        return start
    if layout.pair_weights is not None:  # judged as it is given, with values at forbidden entries
        group = replace(group, layout=replace(layout, pair_weights=None))
    if point_of(group, start) is None:
        names = [layout.source.class_names[k] for k in group.classes]
        raise indefinite_start(" or ".join(names), "positive definite")
    return start
