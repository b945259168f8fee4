"""Tasks: picklable inputs of one solve of some independent groups, and the assignment of groups to tasks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from jointglasso import config
from jointglasso._typing import BoolArray, FloatArray, IntArray
from jointglasso.engine.checkpoint import Checkpoint, Saved
from jointglasso.engine.nonzeros import Nonzeros
from jointglasso.problem import JointProblem
from jointglasso.screening.groups import ClassBlocks
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
    variance = np.stack([problem.optimal_variance(k) for k in range(problem.source.n_classes)])
    member_class = np.repeat(blocks.block_class, blocks.sizes)
    per_member = problem.weights[member_class] * (1.0 + np.log(variance[member_class, blocks.members]))
    return np.bincount(np.repeat(blocks.group, blocks.sizes), per_member, minlength=blocks.n_groups).astype(float)
