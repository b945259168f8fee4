"""Sweeps over batches of columns that are updated from the same W, and the coupling of a batch into one matrix.

Let C be the variables of a batch and R the others. Theta has no non-zero entries among the columns of C, so that the
new columns are w_j = -W_RR b_j with b_j = t_j / tau_j on R, and the new W is positive definite if and only if the Schur
complement of W_RR is. Its diagonal is 1 / tau_j. A pair i, j of C gets the value b_i' W_RR b_j that sequential updates
would give it: the Schur complement is then diagonal and W positive definite. Where that value lies outside the dual
ball it is moved towards its projection onto the ball, as far as the Schur complement stays diagonally dominant. Such a
pair violates the KKT conditions at zero and becomes an active pair of one of its columns, so that the two are in
different batches afterwards.
"""

from __future__ import annotations

import numpy as np

from jointglasso._typing import FloatArray, IntArray
from jointglasso.kernels.column_parts import Column, axpy, read_weights
from jointglasso.kernels.columns import Batch, ColumnUpdates, Sweep, update_column
from jointglasso.kernels.dense import copy
from jointglasso.kernels.jit import njit, njit_internal, njit_no_refcount
from jointglasso.kernels.pair import Penalty, pair_is_dual_feasible, pair_subgradient
from jointglasso.kernels.pair_types import PairClasses, PermutedBlocks, SparseColumns
from jointglasso.kernels.team import DONE, ENDED, NEXT, Team, add, post, take, wait_until

#: Bound on the off-diagonal row sums of the Schur complement, scaled to a diagonal of 1: diagonal dominance.
_MAX_ROW_SUM = 0.9

#: Parallel steps of a batch, and the number of tasks of the second.
_UPDATE, _MIRROR, _COUPLE = range(3)
_N_MIRROR_TASKS = 64


@njit
def colours(start: IntArray, other: IntArray, order: IntArray, max_size: int) -> IntArray:
    """Greedy colouring (n,) of a symmetric graph (CSR) in the given order, at most `max_size` variables of a colour."""
    n = start.shape[0] - 1
    colour = np.full(n, -1)
    filled = np.zeros(n + 1, np.int64)
    barred = np.full(n + 1, -1)
    lowest = 0
    for j in order:
        for e in range(start[j], start[j + 1]):
            if colour[other[e]] >= 0:
                barred[colour[other[e]]] = j
        c = lowest
        while barred[c] == j or filled[c] >= max_size:
            c += 1
        colour[j] = c
        filled[c] += 1
        while filled[lowest] >= max_size:
            lowest += 1
    return colour


@njit
def cut_batches(start: IntArray, other: IntArray, max_size: int) -> IntArray:
    """Bounds of the batches: runs of at most `max_size` consecutive variables without an edge among them."""
    n = start.shape[0] - 1
    batch_bounds = np.empty(n + 1, np.int64)
    batch_bounds[0] = 0
    count = 1
    begin = 0
    conflict_batch = np.full(n, -1)
    for j in range(n):
        conflict = conflict_batch[j] == begin or j - begin >= max_size
        for e in range(start[j], start[j + 1]):
            conflict = conflict or begin <= other[e] < j
        if conflict:
            begin = j
            batch_bounds[count] = j
            count += 1
        for e in range(start[j], start[j + 1]):
            conflict_batch[other[e]] = begin
    batch_bounds[count] = n
    return batch_bounds[: count + 1].copy()


@njit_internal
def _locate_batch(blocks: PermutedBlocks, batch: Batch) -> None:
    """Write the rows lo..hi-1 of the variables of a batch in each block."""
    lo, hi = batch.lo, batch.hi
    lo[:] = 0
    hi[:] = 0
    for j in range(batch.begin, batch.end):
        for k in range(blocks.block_of.shape[0]):
            block = blocks.block_of[k, j]
            if block >= 0:
                if lo[block] == hi[block]:
                    lo[block] = blocks.slot_of[k, j]
                hi[block] = blocks.slot_of[k, j] + 1


@njit_internal
def _couple_batch_column(penalty: Penalty, d: int, batch: Batch, column: Column, sweep: Sweep) -> None:
    """Write the entries of W between column d of a batch and the earlier ones, in both rows.

    The columns of the batch must have been mirrored into all other rows.
    """
    blocks, updates, W = sweep.blocks, sweep.updates, sweep.state.W
    n_classes = blocks.block_of.shape[0]
    zero = np.zeros(n_classes)
    updates.shifted[d] = False
    updates.shift[:, d, :d] = 0.0  # values of an earlier batch
    if updates.n_pairs[d] < 0:
        return
    for k in range(n_classes):
        block = blocks.block_of[k, batch.begin + d]
        if block >= 0:
            implied = column.y[k, : batch.hi[block] - batch.lo[block]]
            implied[:] = 0.0
            for a in range(updates.n_pairs[d]):
                x = updates.value[d, a, k]
                if x != 0.0:
                    base = blocks.offset[block] + blocks.slot_of[k, updates.other[d, a]] * blocks.size[block]
                    axpy(-x / updates.tau[d, k], W[base + batch.lo[block] : base + batch.hi[block]], implied)
    for c in range(d):
        if updates.n_pairs[c] >= 0:
            _couple_batch_pair(penalty, c, d, batch, column, zero, sweep)


@njit_internal
def _couple_batch_pair(
    penalty: Penalty, c: int, d: int, batch: Batch, column: Column, zero: FloatArray, sweep: Sweep
) -> None:
    """Write the entries of W of a pair inside the batch, projected onto the dual ball, and note the shift."""
    i, j = batch.begin + c, batch.begin + d
    blocks, updates, W = sweep.blocks, sweep.updates, sweep.state.W
    u, new, cls = column.pair.a, column.pair.new, column.pair.cls
    n_present = 0
    l1 = column.pair.l1
    v = np.inf
    outside = False
    for k in range(blocks.block_of.shape[0]):
        block = blocks.block_of[k, i]
        if block >= 0 and block == blocks.block_of[k, j]:
            position = blocks.offset[block] + blocks.slot_of[k, j] * blocks.size[block] + blocks.slot_of[k, i]
            u[n_present] = blocks.weight[block] * (
                column.y[k, blocks.slot_of[k, i] - batch.lo[block]] - blocks.S[position]
            )
            cls[n_present] = k
            v = min(v, read_weights(penalty, k, blocks, position, l1, n_present))
            outside = outside or abs(u[n_present]) > l1[n_present]
            n_present += 1
    pair = PairClasses(cls, n_present, v, l1, column.pair.work)
    outside = outside and not pair_is_dual_feasible(penalty, u, pair)
    if outside:
        pair_subgradient(penalty, zero, u, pair, new)
        updates.shifted[d] = True
        # An explicit zero: active in the next sweep, and an edge between the two columns.
        updates.other[d, updates.n_pairs[d]] = i
        updates.value[d, updates.n_pairs[d]] = 0.0
        updates.n_pairs[d] += 1
    for e in range(n_present):
        k = cls[e]
        block = blocks.block_of[k, i]
        updates.shift[k, d, c] = (new[e] - u[e]) / blocks.weight[block] if outside else 0.0
        value = column.y[k, blocks.slot_of[k, i] - batch.lo[block]] + updates.shift[k, d, c]
        base, b = blocks.offset[block], blocks.size[block]
        W[base + blocks.slot_of[k, i] * b + blocks.slot_of[k, j]] = value
        W[base + blocks.slot_of[k, j] * b + blocks.slot_of[k, i]] = value


@njit_internal
def _restore_diagonal_dominance(blocks: PermutedBlocks, batch: Batch, W: FloatArray, updates: ColumnUpdates) -> None:
    """Undo a part of the shifts where they could exceed the diagonal of the Schur complement."""
    n_classes, m = blocks.block_of.shape[0], batch.end - batch.begin
    row_sum = np.zeros((n_classes, m))
    for k in range(n_classes):
        for d in range(m):
            for c in range(d if updates.shifted[d] else 0):
                size = abs(updates.shift[k, d, c]) * np.sqrt(updates.tau[c, k] * updates.tau[d, k])
                row_sum[k, c] += size
                row_sum[k, d] += size
    for k in range(n_classes):
        for d in range(m):
            for c in range(d if updates.shifted[d] else 0):
                largest = max(row_sum[k, c], row_sum[k, d])
                if updates.shift[k, d, c] != 0.0 and largest > _MAX_ROW_SUM:
                    i, j = batch.begin + c, batch.begin + d
                    base, b = blocks.offset[blocks.block_of[k, i]], blocks.size[blocks.block_of[k, i]]
                    excess = (1.0 - _MAX_ROW_SUM / largest) * updates.shift[k, d, c]
                    W[base + blocks.slot_of[k, i] * b + blocks.slot_of[k, j]] -= excess
                    W[base + blocks.slot_of[k, j] * b + blocks.slot_of[k, i]] -= excess


@njit_internal
def _mirror_rows(first: int, last: int, blocks: PermutedBlocks, batch: Batch, W: FloatArray) -> None:
    """Copy the rows of a batch into its columns, for the members first..last-1 of all blocks."""
    for block in range(blocks.size.shape[0]):
        lo, hi, b = batch.lo[block], batch.hi[block], blocks.size[block]
        if lo < hi:
            rows = W[blocks.offset[block] : blocks.offset[block + 1]].reshape((b, b))
            for i in range(max(0, first - blocks.member_start[block]), min(b, last - blocks.member_start[block])):
                if i < lo or i >= hi:
                    copy(rows[lo:hi, i], rows[i, lo:hi])


@njit_internal
def _finish_batch(batch: Batch, sweep: Sweep, new: SparseColumns) -> SparseColumns:
    """Restore definiteness, update the diagonal of Theta, sum up the changes; the columns with those of the batch."""
    blocks, state, updates = sweep.blocks, sweep.state, sweep.updates
    old = state.columns
    n = new.start[batch.begin]
    m = batch.end - batch.begin
    n_needed = n
    for c in range(m):
        j = batch.begin + c
        n_needed += updates.n_pairs[c] if updates.n_pairs[c] >= 0 else old.start[j + 1] - old.start[j]
    new = with_capacity(n_needed, n, new)
    for c in range(m):
        if updates.shifted[c]:
            _restore_diagonal_dominance(blocks, batch, state.W, updates)
            break
    for c in range(m):
        j = batch.begin + c
        count = updates.n_pairs[c]
        if count >= 0:
            axpy(1.0, updates.sums[c], sweep.sums)
            append_column(updates.other[c, :count], updates.value[c], n, new)
            for k in range(blocks.block_of.shape[0]):
                block = blocks.block_of[k, j]
                if block >= 0:
                    state.tau[blocks.member_start[block] + blocks.slot_of[k, j]] = updates.tau[c, k]
        else:
            count = old.start[j + 1] - old.start[j]
            append_column(old.other[old.start[j] : old.start[j + 1]], old.value[old.start[j] :], n, new)
        n += count
        new.start[j + 1] = n
    return new


@njit_internal
def with_capacity(n_needed: int, n: int, columns: SparseColumns) -> SparseColumns:
    """The first n pairs of the columns, reallocated if the capacity is below `n_needed`."""
    if n_needed <= columns.other.shape[0]:
        return columns
    other, value = np.empty(2 * n_needed, np.int64), np.empty((2 * n_needed, columns.value.shape[1]))
    grown = SparseColumns(columns.start, other, value)
    append_column(columns.other[:n], columns.value, 0, grown)
    return grown


@njit_no_refcount
def append_column(other: IntArray, value: FloatArray, n: int, columns: SparseColumns) -> None:
    """Write the pairs of a column after the first n."""
    copy(other, columns.other[n:])
    for a in range(other.shape[0]):
        copy(value[a], columns.value[n + a])


@njit
def sweep_columns(
    penalty: Penalty,
    is_leader: bool,
    batch_bounds: IntArray,
    column_order: IntArray,
    column: Column,
    sweep: Sweep,
    team: Team,
) -> SparseColumns:
    """Columns of Theta after one sweep over the batches between `batch_bounds`; W and diagonal are updated in place.

    Called once by every thread of a team: the leader posts the steps of each batch, the others execute tasks.
    `column_order` lists the columns of each batch, numbered within it, in the order of their execution.
    """
    blocks, new = sweep.blocks, sweep.state.columns
    if not is_leader:
        while wait_until(team, NEXT, True):
            _run_tasks(penalty, column_order, column, sweep, team)
        return new
    capacity = 2 * new.other.shape[0] + 16 * blocks.block_of.shape[1]
    new = SparseColumns(
        np.zeros_like(new.start), np.empty(capacity, np.int64), np.empty((capacity, new.value.shape[1]))
    )
    for n in range(batch_bounds.shape[0] - 1):
        batch = Batch(batch_bounds[n], batch_bounds[n + 1], team.lo, team.hi)
        m = batch.end - batch.begin
        _locate_batch(blocks, batch)
        for step in (_UPDATE, _MIRROR, _COUPLE):
            post(team, step, batch.begin, batch.end, _N_MIRROR_TASKS if step == _MIRROR else m)
            _run_tasks(penalty, column_order, column, sweep, team)
            if not wait_until(team, DONE, False):
                return new
        new = _finish_batch(batch, sweep, new)
    add(team.counters, ENDED, 1)
    return new


@njit_internal
def _run_tasks(penalty: Penalty, column_order: IntArray, column: Column, sweep: Sweep, team: Team) -> None:
    """Execute tasks of the current step of a batch until none remains."""
    n_members = sweep.blocks.variable.shape[0]
    while True:
        task = take(team)
        if task < 0:
            return
        batch = Batch(team.job[1], team.job[2], team.lo, team.hi)
        if team.job[0] == _UPDATE:
            update_column(penalty, True, column_order[batch.begin + task], batch, column, sweep)
        elif team.job[0] == _MIRROR:
            first, last = task * n_members // _N_MIRROR_TASKS, (task + 1) * n_members // _N_MIRROR_TASKS
            _mirror_rows(first, last, sweep.blocks, batch, sweep.state.W)
        else:
            _couple_batch_column(penalty, batch.end - batch.begin - 1 - task, batch, column, sweep)
        add(team.counters, DONE, 1)
