"""Tasks: picklable inputs of one solve of some independent groups, and the assignment of groups to tasks.

`subset_for` reduces the data that all tasks share to what one task reads, so that only this is sent to its worker.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from jointglasso import config
from jointglasso._cached_property import cached_property
from jointglasso._threads import cores_here
from jointglasso._typing import BoolArray, FloatArray, IntArray
from jointglasso.blocks.system import BlockLayout, find_keys, read_blocks
from jointglasso.data import CovarianceSource
from jointglasso.engine.checkpoint import Checkpoint, Saved
from jointglasso.engine.nonzeros import Nonzeros
from jointglasso.problem import JointProblem
from jointglasso.screening.groups import ClassBlocks, block_index
from jointglasso.screening.pairs import PairTable
from jointglasso.screening.rules import DeferredPairs
from jointglasso.solvers import GroupSolver
from jointglasso.solvers.dual_point import DualPoint


@dataclass(frozen=True)
class WarmStart:
    """Precision matrices to start from."""

    precision: Sequence[Any]
    trusted: bool
    """Whether they come from a solve, so that they and their principal submatrices are positive definite."""
    points: dict[int, DualPoint] = field(default_factory=dict)
    """Dual points of the large groups of the previous round, with their W; a task removes those it continues from."""


@dataclass(frozen=True)
class MemoryPlan:
    """Concurrency and storage that the available memory permits."""

    n_jobs: int | None = None
    """Number of concurrent tasks."""
    free_bytes: float = np.inf
    """Bytes that the concurrent tasks leave free."""
    for_admm: bool = True
    """Whether a large group on which Newton's method is slow may be solved by ADMM, which takes twice the memory."""
    for_blocks: bool = True
    """Whether the blocks of every group fit in double precision."""
    sparse: BoolArray | None = None
    """(G,): groups to be solved in sparse storage; None if there are none."""
    for_dense: bool = True
    """Whether these groups fit as dense blocks, too."""


@dataclass(frozen=True)
class TaskContext:
    """Inputs that all tasks of one round share."""

    problem: JointProblem
    method: GroupSolver
    tol: float
    deferred: DeferredPairs | None
    """Deferred pairs of dynamic screening, to be rechecked; None for the other rules, which need no check."""
    prove: bool = False
    """Whether to continue until the gap of a group certifies all of its edges."""
    points: dict[int, DualPoint] = field(default_factory=dict)
    """`WarmStart.points`."""
    checkpoint: Checkpoint | None = None
    """Destination of snapshots of long solves."""
    memory: MemoryPlan = field(default_factory=MemoryPlan)
    scanned: PairTable | None = None
    """Pairs of the scan, for groups in sparse storage."""


@dataclass(frozen=True)
class Task:
    """A task: independent groups solved together, each to its share of the gap allowed to the full problem."""

    number: int
    blocks: ClassBlocks
    gap_budget: FloatArray
    rest: float
    """Current estimate of the objective of all other tasks; the tolerance is relative to the total."""
    max_iter: int
    n_threads: int = 1
    """Threads that the task may use."""
    start: Nonzeros | None = None
    """Theta to start from: a warm start, or the result of an earlier attempt with a larger gap."""
    is_trusted: bool = True
    """Whether `start` comes from a solve, so that it is positive definite."""
    saved: Saved | None = None
    """State from a checkpoint, which is preferred to `start`."""
    keep_blocks: bool = False
    """Whether its blocks are kept in memory after the solve."""
    is_sparse: bool = False
    """Whether it is one group to be solved in sparse storage."""

    def starting_at(self, start: Nonzeros, max_iter: int, **changes: Any) -> Task:
        """The task, to go on from the result of an attempt."""
        return replace(self, start=start, is_trusted=True, saved=None, max_iter=max_iter, **changes)


def deferred_within(deferred: DeferredPairs, members: IntArray, n_variables: int) -> IntArray:
    """Indices of the deferred pairs with both variables in `members`."""
    selected = np.zeros(n_variables, dtype=bool)
    selected[members] = True
    return np.flatnonzero(selected[deferred.rows] & selected[deferred.columns])


def task_groups(blocks: ClassBlocks, *, together: bool) -> list[IntArray]:
    """Groups of each task: one task per large group, largest first, then batches of small ones.

    Groups that are checked together (`ClassBlocks.recheck_group`) are in one task. The assignment does not depend on
    the executor: neither does the solution, and checkpoints are found again.
    """
    if together or blocks.n_groups == 0:
        return [np.arange(blocks.n_groups)]
    if blocks.recheck_group is not None:
        recheck_groups = replace(blocks, group=blocks.recheck_group[blocks.group], recheck_group=None)
        return [
            np.flatnonzero(np.isin(blocks.recheck_group, item)) for item in task_groups(recheck_groups, together=False)
        ]
    area, cost, is_large = blocks.group_area, blocks.group_cost, blocks.group_largest > config.BATCHED_BLOCK
    if not is_large.any() and area.sum() <= config.BATCH_ENTRIES and cost.sum() <= config.BATCH_COST:
        return [np.arange(blocks.n_groups)]
    big, small = np.flatnonzero(is_large), np.flatnonzero(~is_large)
    items: list[IntArray] = [big[[g]] for g in np.argsort(-cost[big], kind="stable")]
    by_cost = small[np.argsort(-cost[small], kind="stable")]
    batch = np.maximum(_batch(area[by_cost], config.BATCH_ENTRIES), _batch(cost[by_cost], config.BATCH_COST))
    pieces = np.split(by_cost, np.flatnonzero(np.diff(batch)) + 1)
    return items + [np.sort(piece) for piece in pieces if len(piece)]


def _batch(amounts: FloatArray, limit: float) -> FloatArray:
    """Batch index of each item if consecutive `amounts` are packed into batches of size `limit`."""
    filled: FloatArray = (np.cumsum(amounts) - amounts) // limit
    return filled


def gap_fractions(blocks: ClassBlocks) -> FloatArray:
    """(G,): share of each group in the gap allowed to the full problem, proportional to its size; the sum is 1."""
    members = blocks.group_members
    return members / max(1, int(members.sum()))


def start_objectives(problem: JointProblem, blocks: ClassBlocks) -> FloatArray:
    """(G,): objective of each group at the diagonal start, an upper bound on its optimum."""
    k = blocks.member_class
    per_member = problem.weights[k] * (1.0 + problem.log_variances[k, blocks.members])
    return np.bincount(np.repeat(blocks.group, blocks.sizes), per_member, minlength=blocks.n_groups).astype(float)


_NONE = np.empty(0, dtype=np.int64)


def subset_for(item: Task, shared: TaskContext) -> TaskContext:
    """The part of the shared data that `solve_task` reads for this task; the outcome is bit-identical."""
    problem, p = shared.problem, shared.problem.source.n_variables
    deferred = shared.deferred
    pairs: tuple[IntArray, IntArray] = _NONE, _NONE
    if deferred is not None:
        candidates = deferred_within(deferred, item.blocks.members, p)
        deferred = DeferredPairs(deferred.rows[candidates], deferred.columns[candidates])
    if deferred is not None and not item.is_sparse:
        # The check of the screened-out entries also needs the covariances of these pairs outside the blocks.
        pairs = item.blocks.pairs(p) if problem.penalty.class_dependent else (deferred.rows, deferred.columns)
    weights = None if problem.pair_weights is None else problem.pair_weights.restricted_to(item.blocks.members)
    if item.is_sparse and shared.scanned is not None:
        # Any covariance of the group may be needed, and its blocks are too large to be sent: the source is sent.
        selected = np.isin(np.arange(p), item.blocks.members)
        scanned = shared.scanned.take(selected[shared.scanned.rows] & selected[shared.scanned.columns])
        return replace(shared, problem=replace(problem, pair_weights=weights), deferred=deferred, scanned=scanned)
    source = BlockCovariance(problem.source, item.blocks, *pairs)
    return replace(
        shared,
        problem=replace(problem, source=source, pair_weights=weights),
        deferred=deferred,
        scanned=None,
    )


class BlockCovariance(CovarianceSource):
    """Covariances of given class blocks, and of given pairs in all classes, copied from a source."""

    def __init__(
        self, source: CovarianceSource, blocks: ClassBlocks, rows: IntArray = _NONE, columns: IntArray = _NONE
    ) -> None:
        self.n_classes, self.n_variables = source.n_classes, source.n_variables
        self.class_names, self.sample_sizes = source.class_names, source.sample_sizes
        self.is_semidefinite = source.is_semidefinite
        self._names = {int(i): source.variable_names[i] for i in np.unique(blocks.members)}
        self._layout, _ = BlockLayout.sorted(blocks, np.ones(self.n_classes))
        self._S = read_blocks(source, self._layout, cores_here())
        self._key = rows * self.n_variables + columns
        self._between = [source.entries(k, rows, columns) for k in range(self.n_classes)]

    @property
    def variable_names(self) -> tuple[str, ...]:  # type: ignore[override]
        """Names of the variables in the blocks; indices for all others."""
        return tuple(self._names.get(i, str(i)) for i in range(self.n_variables))

    @cached_property
    def _places(self) -> tuple[IntArray, IntArray]:
        """Two arrays (K, p): block of each variable in each class, and its position in the block; -1 if in none."""
        shape = self.n_classes, self.n_variables
        return block_index(self._layout.block_class, self._layout.size, self._layout.members, shape)

    def entries(self, k: int, rows: IntArray, columns: IntArray) -> FloatArray:
        """``S_k[rows[e], columns[e]]`` for every e; an error for entries that were not copied."""
        (block_of, slot_of), layout = self._places, self._layout
        block = block_of[k, rows]
        together = (block >= 0) & (block == block_of[k, columns])
        position = layout.offset[block] + slot_of[k, rows] * layout.size[block] + slot_of[k, columns]
        values = self._S[np.where(together, position, 0)]
        if not together.all():
            i, j = rows[~together], columns[~together]
            place = find_keys(self._key, np.minimum(i, j) * self.n_variables + np.maximum(i, j))
            if (place < 0).any():
                raise IndexError("a covariance between blocks was asked for that did not come with them.")
            values[~together] = self._between[k][place]
        return np.asarray(values)

    def diagonal(self, k: int) -> FloatArray:
        """Diagonal of ``S_k``; NaN for variables in no block of the class."""
        variables = np.flatnonzero(self._places[0][k] >= 0)
        diagonal = np.full(self.n_variables, np.nan)
        diagonal[variables] = self.entries(k, variables, variables)
        return diagonal
