"""Solution of a large group by column sweeps only, with at most sixteen bytes per block entry.

The sweeps read the covariances once, in single precision; the certificate (`dual_point.py`) reads them again in double
precision, a block of rows at a time.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from jointglasso import config
from jointglasso._lapack import mirror_upper
from jointglasso._threads import Workers, single_threaded_blas
from jointglasso._typing import IntArray
from jointglasso.blocks.big_group import BigGroup, GroupSupport, entries_in_classes
from jointglasso.kernels.pair_types import DualState
from jointglasso.penalties import UNIFORM, PairPenalty
from jointglasso.solvers.base import run
from jointglasso.solvers.column_ascent import (
    NEAR_CHANGE,
    WARM_CHANGE,
    ColumnAscent,
    Permutation,
    as_columns,
    point_near_covariance,
)
from jointglasso.solvers.column_sweeps import LargeColumns, SweepState
from jointglasso.solvers.dual_point import DualPoint, rows_per_pass
from jointglasso.solvers.unstored import BestUnstored, UnstoredTask


@dataclass(frozen=True, kw_only=True)
class BigTask(UnstoredTask):
    """A large group to be solved by column sweeps."""

    group: BigGroup
    penalty: PairPenalty
    diagonal_penalty: float
    n_threads: int
    W: NDArray[np.float32] | None = None
    """W of earlier sweeps at `start`, in the storage order of the blocks; else the inverse of `start` is computed."""
    known: DualPoint | None = None
    """Result of an earlier solve of the same group with a gap within the limit."""
    objective: float | None = None
    """Objective of `start`, if known."""


def solve_big(task: BigTask) -> tuple[DualPoint, int, str]:
    """Best point, number of sweeps and stopping reason."""
    if task.known is not None:
        return task.known, 0, "tolerance"
    start = None
    if task.start is not None and task.W is None:
        start = at_inverse(task, task.start)
    best = _BestPoint(task, start)
    if best.solved:
        return best.final, 0, "tolerance"
    n_iter, reason = run(_OutOfCoreColumns(task, start), best, task.max_iter)
    return best.final, n_iter, best.reason(reason)


class _OutOfCoreColumns(LargeColumns[DualPoint]):
    """Sweeps over a large group without stored blocks."""

    def __init__(self, task: BigTask, start: DualPoint | None) -> None:
        self.task, self.start = task, start

    def begin(self, best: _BestPoint) -> ColumnAscent:
        return _start_ascent(self.task, self.start)

    def theta(self, state: SweepState) -> DualPoint:
        return _point(self.task, state.ascent)


class _BestPoint(BestUnstored[DualPoint]):
    """Theta with the smallest objective so far, with the current W as dual point."""

    task: BigTask

    def __init__(self, task: BigTask, start: DualPoint | None) -> None:
        super().__init__(task)
        self.point = self._candidate = start
        self._start_objective = _diagonal_objective(task) if task.objective is None else task.objective

    @property
    def objective(self) -> float:
        return self._start_objective if self.point is None else min(self._start_objective, self.point.objective)

    @property
    def gap(self) -> float:
        return np.inf if self.point is None else self.point.gap

    @property
    def edge_gap(self) -> float:
        return np.inf if self.point is None else self.point.edge_gap

    def update(self, candidate: DualPoint) -> None:
        """Adopt the candidate, or keep Theta of the best point with W of the candidate."""
        self._candidate = candidate
        if self.point is None:
            self.point = candidate if candidate.definite else None
        elif candidate.definite and candidate.objective <= self.point.objective:
            self.point = candidate
        else:
            self.point = replace(candidate, theta_support=self.point.theta_support)

    def keep(self, candidate: Callable[[], DualPoint]) -> None:
        """Offer Theta of the current sweep to the checkpoint."""
        self.task.keep(lambda: candidate().theta_support)

    @property
    def final(self) -> DualPoint:
        """The best point, or Theta of the start with the last W if no sweep gave a definite one."""
        if self.point is not None:
            return self.point
        if self._candidate is None:
            raise RuntimeError("No sweep has been evaluated.")
        task, no_pairs = self.task, np.empty(0, dtype=np.int64)
        theta = task.start
        if theta is None or task.W is None:
            variance = task.group.optimal_variance(task.diagonal_penalty)
            theta = GroupSupport(no_pairs, no_pairs, np.empty((0, task.group.n_classes)), 1.0 / variance)
        return replace(self._candidate, theta_support=theta)


def _diagonal_objective(task: BigTask) -> float:
    """Objective of the optimal diagonal Theta."""
    group, variance = task.group, task.group.optimal_variance(task.diagonal_penalty)
    return float(group.block_weight[group.member_block] @ (1.0 + np.log(variance)))


def _point(task: BigTask, ascent: ColumnAscent) -> DualPoint:
    """The current W with Theta computed from it."""
    return DualPoint(
        task.group, task.penalty, task.diagonal_penalty, ascent.order, ascent.permuted,
        _theta(task.penalty, ascent), ascent.state.W, task.n_threads,
    )  # fmt: skip


def at_inverse(task: BigTask, theta: GroupSupport) -> DualPoint:
    """A given Theta with its inverse as dual point; NaN where it is not definite."""
    group = task.group
    order = np.arange(len(group.variables))
    W = np.full(int(group.offset[-1]), np.nan, dtype=np.float32)
    point = DualPoint(
        group, task.penalty, task.diagonal_penalty, order, Permutation.by(group, group.local), theta, W, task.n_threads,
    )  # fmt: skip
    for block, b in enumerate(group.size):
        matrix = point.inverse(point.dense_theta(block))
        if matrix is not None:
            W[group.offset[block] : group.offset[block + 1]] = matrix.ravel()
            del matrix
        else:
            W[group.offset[block] : group.offset[block] + b] = np.nan
    return point


def _start_ascent(task: BigTask, warm: DualPoint | None) -> ColumnAscent:
    """Initial W: that of earlier sweeps, the dual point of a definite warm start, or S with the optimal diagonal.

    In the last case the off-diagonal is shrunk within the dual ball if the diagonal penalty is small.
    """
    group, penalty = task.group, task.penalty
    n, variance = len(group.variables), group.optimal_variance(task.diagonal_penalty)
    workers = Workers(task.n_threads)
    S = _read_covariances(group, workers)
    no_pairs = np.empty(0, dtype=np.int64)
    start = GroupSupport(no_pairs, no_pairs, np.empty((0, group.n_classes)), 1.0 / variance)
    if task.start is not None and task.W is not None:
        start, W, conflicts, change = task.start, task.W, (task.start.i, task.start.j), NEAR_CHANGE
    elif warm is not None and np.isfinite(warm.gap):
        start, W, change = warm.theta_support, warm.W, WARM_CHANGE
        conflicts = start.i, start.j
        for block in range(len(group.size)):
            dual = warm.dense_dual(block)
            mirror_upper(dual)
            W[group.offset[block] : group.offset[block + 1]] = dual.ravel()
    else:
        members = np.arange(len(group.members))
        conflicts, change = _strong_pairs(group, penalty, S, workers), 1.0
        W = point_near_covariance(group, penalty, task.diagonal_penalty, S.copy(), group.positions(members, members))
    ends = np.concatenate([start.i, start.j]), np.concatenate([start.j, start.i])
    columns = as_columns(n, *ends, np.concatenate([start.value, start.value]))
    state = DualState(W, start.diagonal, columns)
    return ColumnAscent.over(group, penalty, group.local, state, (S, UNIFORM), conflicts, change, task.n_threads)


def _read_covariances(group: BigGroup, workers: Workers) -> NDArray[np.float32]:
    """Covariances of all blocks in flat storage, single precision."""
    S = np.empty(int(group.offset[-1]), dtype=np.float32)

    def read_rows(tile: tuple[int, int]) -> None:
        block, first = tile
        b, rows = group.size[block], slice(first, first + config.ROWS_AT_ONCE)
        variables = group.members[group.member_start[block] : group.member_start[block + 1]]
        matrix = S[group.offset[block] : group.offset[block + 1]].reshape(b, b)
        matrix[rows] = group.covariances(block, variables[rows], variables)

    tiles = [(block, first) for block, b in enumerate(group.size) for first in range(0, b, config.ROWS_AT_ONCE)]
    with single_threaded_blas() if workers.n_threads > 1 else nullcontext():
        workers.map(read_rows, tiles)
    return S


def _strong_pairs(
    group: BigGroup, penalty: PairPenalty, S: NDArray[np.float32], workers: Workers
) -> tuple[IntArray, IntArray]:
    """Pairs (i, j) with w S outside the dual ball; their columns should not share a batch in the first sweep."""
    from jointglasso.kernels.dual_rows import GapRadius, RowBlock, count_certified_zeros

    n, n_classes, step = len(group.variables), group.n_classes, rows_per_pass(len(group.variables))
    stack = Permutation.by(group, group.local).apply(np.zeros(n), UNIFORM)  # S takes the place of W
    exact = GapRadius(np.zeros(n_classes), np.zeros((n_classes, n)), 0.0, True)

    def mark_rows(first: int) -> IntArray:
        mark = np.zeros((min(first + step, n) - first, n), dtype=bool)
        rows = RowBlock(first, np.zeros((n_classes, len(mark)), dtype=np.int64))
        count_certified_zeros(penalty.pair, rows, stack, S, exact, penalty.workspace_size(n_classes), mark)
        return first * n + np.flatnonzero(mark)

    return np.divmod(np.concatenate(workers.map(mark_rows, range(0, n, step))), n)


def _theta(penalty: PairPenalty, ascent: ColumnAscent) -> GroupSupport:
    """Theta from the columns: one proximal step from the mean of the two column estimates of each pair.

    The two estimates agree only in the limit; the step sets pairs inside their dual ball to zero.
    """
    i, j, value = ascent.pairs()
    rank = np.empty_like(ascent.order)
    rank[ascent.order] = np.arange(len(rank))
    block_of, slot_of = ascent.permuted_blocks.block_of[:, rank], ascent.permuted_blocks.slot_of[:, rank]
    in_block = (block_of[:, i] == block_of[:, j]).T & (block_of[:, i] >= 0).T
    pair, k = np.nonzero(in_block)
    block, a, b = block_of[k, i[pair]], slot_of[k, i[pair]], slot_of[k, j[pair]]
    size, base, weight = ascent.blocks.size[block], ascent.blocks.offset[block], ascent.blocks.block_weight[block]
    W, S = ascent.state.W, ascent.permuted_blocks.S
    w_ii, w_jj, w_ij = (W[base + index].astype(float) for index in (a * (size + 1), b * (size + 1), a * size + b))
    curvature = weight * (w_ii * w_jj + w_ij * w_ij)
    linear = curvature * value[in_block] + weight * (w_ij - S[base + a * size + b])
    value = np.zeros_like(value)
    value[in_block] = penalty.update(curvature, linear, entries_in_classes(penalty, in_block))
    nonzero = (value != 0.0).any(axis=1)
    return GroupSupport(i[nonzero], j[nonzero], value[nonzero], ascent.theta_diagonal)
