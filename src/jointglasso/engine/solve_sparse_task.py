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
from jointglasso._typing import BoolArray, FloatArray, IntArray
from jointglasso.blocks.big_group import BigGroup, GroupSupport, SomePairs
from jointglasso.blocks.linalg import Factorization
from jointglasso.blocks.sparse_factor import FactorSparsity
from jointglasso.blocks.sparse_group import SparseGroup
from jointglasso.data.checks import indefinite_start
from jointglasso.duality import CertifiedEdges, DualityGap, gap_radii
from jointglasso.engine.equalities import NO_PROOFS, EqualityProofs, certified_equalities
from jointglasso.engine.executors import TaskProgress
from jointglasso.engine.recheck import NO_INFEASIBILITY, DualInfeasibility, KKTViolations, ScreeningCheck
from jointglasso.engine.solve_big_task import (
    deferred_pairs,
    from_checkpoint,
    from_matrices,
    nonzeros_of,
    require_semidefinite,
    support_of,
)
from jointglasso.engine.task_result import Nonzeros, TaskResult
from jointglasso.engine.tasks import Task, TaskContext
from jointglasso.problem import JointProblem
from jointglasso.screening.groups import ClassBlocks, block_index
from jointglasso.screening.pairs import PairTable, scan_slack
from jointglasso.solvers.base import remaining_iterations
from jointglasso.solvers.sparse import SparseTask, point_of, solve_sparse, to_recheck
from jointglasso.solvers.sparse_check import Examined
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

    It requires the default solver, a penalty of each pair by itself (no fused diagonal, no missing variables, equal
    pair weights), and a scan with slack.
    """
    penalty = problem.penalty
    plain = not penalty.has_missing_variables and penalty.fused_diagonal_penalty is None
    if scanned is None or not scanned.thresholds or problem.pair_weights is not None or not plain or method != "auto":
        return False
    slack, box = scan_slack(penalty, scanned.thresholds)
    return slack >= 0.5 * config.SCAN_SLACK * box > 0.0


def sparse_costs(problem: JointProblem, method: str, blocks: ClassBlocks, scanned: PairTable | None) -> SparseCosts:
    """Expected costs of each group, from the elimination order of the pairs outside the dual ball."""
    costs = SparseCosts(np.full(blocks.n_groups, np.inf), np.full(blocks.n_groups, np.inf))
    large = np.flatnonzero(blocks.group_largest >= config.SPARSE_BLOCK)
    if scanned is None or not len(large) or not may_be_sparse(problem, method, scanned):
        return costs
    shape = problem.source.n_classes, problem.source.n_variables
    block_of, slot_of = block_index(blocks.block_class, blocks.sizes, blocks.members, shape)
    outside = problem.penalty.violates_global_condition(scanned.weighted)
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
                sparsity = FactorSparsity.of(int(blocks.sizes[b]), np.minimum(i, j), np.maximum(i, j), limit)
            if sparsity is None:
                seconds = np.inf
                break
            (in_columns, _), m = sparsity.work, float(sparsity.n_tail)
            rates = multiplication_rates()
            seconds += _FACTORIZATIONS * (4.0 * in_columns / rates[0] + m**3 / rates[1])
            memory += sparsity.memory
        costs.seconds[group], costs.memory[group] = seconds, memory if np.isfinite(seconds) else np.inf
    return costs


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
            diagonal, best = np.ones(len(one.order)), np.inf  # type: ignore[union-attr]
            for _ in range(4):
                began = time.perf_counter()
                one.factor(diagonal, entries).invert()  # type: ignore[union-attr]
                best = min(best, time.perf_counter() - began)
            seconds.append(best)
    return 4.0 * sparsity.work[0] / seconds[0], 500.0**3 / seconds[1]  # type: ignore[union-attr]


def solve_sparse_task(item: Task, shared: TaskContext, progress: TaskProgress) -> TaskResult | Task:
    """Solve a group in sparse storage and certify the result; returns a task for dense blocks if steps are many."""
    began = time.perf_counter()
    problem, layout = shared.problem, BigGroup.build(shared.problem.source, item.blocks, shared.problem.weights)
    require_semidefinite(problem, layout)
    group = _group(item, shared, layout)
    task = SparseTask(
        group=group,
        limit=lambda objective: float(item.gap_budget[0]) * shared.tol * max(problem.unit, abs(item.rest + objective)),
        max_iter=item.max_iter if item.max_iter < shared.method.default_max_iter else max(item.max_iter, _MAX_STEPS),
        start=_start(group, item, shared),
        deferred=deferred_pairs(layout, item, shared),
        may_give_up=shared.memory_for_dense,
        prove=shared.prove,
        report=progress,
    )
    if shared.checkpoint is not None:
        task = replace(task, keep=shared.checkpoint.snapshots(item.blocks, lambda theta: _nonzeros(layout, theta)))
    dual, point, n_iter, stopped_by = solve_sparse(task)
    remaining = remaining_iterations(shared.method, item.max_iter, n_iter)
    unsolved = shared.memory_for_dense and remaining > 0 and stopped_by in ("rounding", "max_iter")
    if dual is None or unsolved:
        start = _nonzeros(layout, point.support)
        return replace(item, start=start, saved=None, is_sparse=False, max_iter=max(1, remaining))
    cached_blocks = CachedSparseBlocks.of(dual, item, shared)
    violated, proved = cached_blocks.checked()
    gap = float(cached_blocks.bounds.gap[0])
    result = TaskResult(
        number=item.number,
        objective=cached_blocks.bounds.objective,
        gap=cached_blocks.bounds.gap,
        rounding=cached_blocks.bounds.rounding,
        raised=np.array([dual.raised]),
        n_iter=n_iter,
        stopped_by=stopped_by,
        methods=["sparse" if n_iter else "warm start"],
        nonzeros=_nonzeros(layout, cached_blocks.support),
        n_entries=layout.n_entries,
        n_present=0,
        n_absent=0,
        edge_gap=dual.edge_gap,
        certified_equal=NO_PROOFS,
        violated=violated,
        proved=proved,
        cached_blocks=cached_blocks if item.keep_blocks else None,
        is_big=True,
        is_sparse=True,
        build_seconds=0.0,
        seconds=0.0,
    )
    if proved:
        result = cached_blocks.with_edges(result, gap, screening_proved=True)
    return replace(result, seconds=time.perf_counter() - began)


def rebuild_sparse(outcome: TaskResult, item: Task, shared: TaskContext) -> CachedSparseBlocks:
    """Rebuild a group solved in sparse storage."""
    layout = BigGroup.build(shared.problem.source, item.blocks, shared.problem.weights)
    point = point_of(_group(item, shared, layout), support_of(layout, outcome.nonzeros))
    if point is None:
        raise ArithmeticError("a solved group is not positive definite")
    dual = SparseDual.of(point.inverted(), to_recheck(point.group, deferred_pairs(layout, item, shared)))
    return CachedSparseBlocks.of(dual, item, shared)


def _group(item: Task, shared: TaskContext, layout: BigGroup) -> SparseGroup:
    """The group with the pairs of the scan inside its blocks as candidates."""
    scanned, penalty = shared.scanned, shared.problem.penalty
    if scanned is None:
        raise RuntimeError("sparse storage needs the pairs of a scan")
    selected = np.zeros(scanned.n_variables, dtype=bool)
    selected[layout.variables] = True
    index = np.flatnonzero(selected[scanned.rows] & selected[scanned.columns])
    i, j = (np.searchsorted(layout.variables, ends[index]) for ends in (scanned.rows, scanned.columns))
    in_block = layout.class_mask(i, j).any(axis=1)
    order = np.lexsort((j[in_block], i[in_block]))
    slack = scan_slack(penalty, scanned.thresholds)[0] * (1.0 - 1e-9)
    return SparseGroup(
        layout, penalty, shared.problem.diagonal_penalty, i[in_block][order], j[in_block][order], slack, item.n_threads
    )


def _start(group: SparseGroup, item: Task, shared: TaskContext) -> GroupSupport | None:
    """Theta to start from: an earlier attempt, a checkpoint or the warm start; None for a diagonal start."""
    layout = group.layout
    if item.saved is not None and (saved := from_checkpoint(layout, item.saved)) is not None:
        return saved if point_of(group, saved) is not None else None
    if item.start is not None:
        return support_of(layout, item.start)
    if shared.warm_start is None:
        return None
    start = from_matrices(layout, replace(shared.warm_start, trusted=True))
    if not shared.warm_start.trusted and point_of(group, start) is None:
        names = [layout.source.class_names[k] for k in group.classes]
        raise indefinite_start(" or ".join(names), "positive definite")
    return start


def _nonzeros(layout: BigGroup, theta: GroupSupport, present: BoolArray | None = None) -> Nonzeros:
    return nonzeros_of(layout, theta, np.zeros(theta.value.shape, dtype=bool) if present is None else present)


@dataclass
class CachedSparseBlocks:
    """A solved group in sparse storage, in memory."""

    dual: SparseDual
    screening_check: ScreeningCheck | None
    theta: FloatArray
    bounds: DualityGap
    """Bounds at the pairs to recheck, in the storage of a `SomePairs` system."""
    point = None

    @classmethod
    def of(cls, dual: SparseDual, item: Task, shared: TaskContext) -> CachedSparseBlocks:
        """From a dual point; the bounds include the rounding error."""
        group, layout = dual.point.group, dual.point.group.layout
        pairs = _rechecked(dual, deferred_pairs(layout, item, shared))
        system = SomePairs.of(layout, pairs.i, pairs.j)
        variance, mask = layout.optimal_variance(group.diagonal_penalty), pairs.in_block
        weight = group.weights[np.nonzero(mask)[1]]
        inverse = np.concatenate([variance, pairs.W[mask]])
        values = np.concatenate([variance, pairs.S[mask] + pairs.u[mask] / weight])
        objective, rounding = dual.objective
        proved = np.isfinite(rounding) and np.isfinite(dual.gap)
        factor = Factorization(inverse, np.zeros(len(layout.size)), np.ones(len(layout.size), dtype=bool))
        bounds = DualityGap(
            np.array([objective]), np.array([dual.gap if proved else np.inf]), values, factor,
            np.array([rounding if proved else 0.0]),
        )  # fmt: skip
        theta = np.concatenate([dual.point.diagonal, pairs.theta[mask]])
        check = None if shared.deferred is None else ScreeningCheck(shared.problem, system, np.arange(system.n_pairs))
        return cls(dual, check, theta, bounds)

    @property
    def support(self) -> GroupSupport:
        """Theta at the candidates."""
        part = self.dual.candidates
        return GroupSupport(part.i, part.j, part.theta, self.dual.point.diagonal)

    def checked(self) -> tuple[KKTViolations, bool]:
        """KKT violations at screened-out entries, and whether the gap certifies that there are none."""
        if self.screening_check is None:
            empty = np.empty(0, dtype=np.int64)
            return (empty, empty, np.empty((0, len(self.dual.point.group.weights)), dtype=bool)), True
        violated, unproved = self.screening_check.kkt_check(self.theta, self.bounds)
        return violated, not len(unproved) and self._others_proved()

    def _others_proved(self) -> bool:
        """Whether pairs that are not examined have subgradients below the thresholds of all classes at the solution.

        Penalties that do not depend on the class need this for deferred pairs only, which are examined.
        """
        group = self.dual.point.group
        if not group.penalty.class_dependent:
            return True
        weights = group.weights[group.classes]
        return group.slack_exceeds(float(gap_radii(np.full(len(weights), self.bounds.gap[0]), weights)[0].max()))

    def with_cuts(self) -> tuple[DualityGap, DualInfeasibility]:
        """Bounds from a dual point over all classes, and its infeasibility at screened-out entries."""
        if self.screening_check is None:
            return self.bounds, NO_INFEASIBILITY
        entries, values, infeasibility = self.screening_check.subgradient(self.theta, self.bounds)
        if len(infeasibility.value) or not self.screening_check.holds_already(self.bounds, entries, values):
            row, column = self.screening_check.system.entry_members(entries)
            self.dual = self.dual.with_subgradients(row, column, values)
            self.bounds = replace(self.bounds, gap=np.array([self.dual.gap]))
        return self.bounds, infeasibility

    def with_radius(self, outcome: TaskResult, gap: FloatArray, radius: float) -> TaskResult:
        """An outcome with its gap, and the edges certified by `radius`, the gap of the full problem."""
        return self.with_edges(replace(outcome, gap=gap), radius, screening_proved=False)

    def with_edges(self, outcome: TaskResult, radius: float, *, screening_proved: bool) -> TaskResult:
        """An outcome with the edges certified by `radius`."""
        present, layout = self.dual.present(radius), self.dual.point.group.layout
        return replace(
            outcome,
            nonzeros=_nonzeros(layout, self.support, present),
            n_present=int(present.sum()),
            n_absent=self.dual.n_absent(radius, screening_proved=screening_proved),
            certified_equal=self._equalities(radius, screening_proved),
        )

    def _equalities(self, radius: float, screening_proved: bool) -> EqualityProofs:
        part, group = self.dual.candidates, self.dual.point.group
        if not len(group.penalty.fused_class_pairs) or not np.isfinite(radius):
            return NO_PROOFS
        absent, equal, radii = self.dual.certified(radius)
        system = SomePairs.of(group.layout, part.i, part.j)
        theta = np.concatenate([self.dual.point.diagonal, part.theta[part.in_block]])
        edges = CertifiedEdges(np.abs(part.theta[part.in_block]) > radii, absent, equal, radii)
        return certified_equalities(system, theta, edges, group.penalty, screening_proved=screening_proved)


def _rechecked(dual: SparseDual, deferred: tuple[IntArray, IntArray]) -> Examined:
    """Pairs whose screening is rechecked."""
    marked = to_recheck(dual.point.group, deferred)
    parts = [dual.candidates.take(marked)]
    if dual.point.group.penalty.class_dependent:
        parts.append(dual.listed.take(~dual.listed.in_block.all(axis=1)))
    return Examined.join(parts)
