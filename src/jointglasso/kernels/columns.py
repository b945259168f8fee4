"""Block coordinate ascent on the dual of the joint graphical lasso: one column of all K classes at a time.

With W_11 of every class fixed and c = W_jj known, the column that maximises the dual objective is given by the
minimiser (t, tau) of the jointly convex problem::

   sum_k w_k [ (c_k tau_k - log tau_k + t_k' W_11 t_k / tau_k) / 2 + s_k' t_k ] + penalty of all pairs (t_1i, ..., t_Ki)

where t is column j of Theta off the diagonal, tau = Theta_jj and s the column of S: w_12 = -W_11 t / tau. Coordinate
descent runs over the pairs, all classes of a pair jointly, and tau = (1 + sqrt(1 + 4 c h)) / (2 c) with h = t' W_11 t.
The Schur complement c - h / tau^2 is then 1 / tau > 0: W stays positive definite however inexact t is. Only the active
pairs are solved for, on the principal submatrix of W that they form; one product with W_11 then gives the column and
the KKT violations among the other pairs.

The columns of a batch, consecutive variables without non-zero entries among them, are updated in parallel from the same
W: each thread writes only its row and reads none of the others'. `kernels.column_batches` couples them into one matrix.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from jointglasso._typing import BoolArray, FloatArray, IntArray
from jointglasso.kernels.column_face import ActivePairs, Gram, step_on_face
from jointglasso.kernels.column_parts import (
    Column,
    ColumnDiagonal,
    PairWorkspace,
    allocate_workspace,
    axpy,
    descend_once,
    diagonal_entry,
    read_weights,
    rescale,
    update_diagonal,
)
from jointglasso.kernels.group_state import copy
from jointglasso.kernels.jit import njit, njit_internal, njit_no_refcount
from jointglasso.kernels.pair import Penalty, pair_is_dual_feasible, pair_separable, pair_threshold
from jointglasso.kernels.pair_types import DualState, PairClasses, PermutedBlocks

#: In one column update: most passes over the active pairs, and most extensions of the active set.
_MAX_PASSES, _MAX_JOINS = 300, 20

#: Pairs that may join the active set of a column at a time: this many, or as many as are in it.
_MIN_JOIN = 32

#: Passes of coordinate descent before each further pass is followed by a conjugate gradient step on the face.
_PLAIN_PASSES = 2


class Batch(NamedTuple):
    """Batch of columns: variables begin..end-1, which are the rows lo[b]..hi[b]-1 of block b."""

    begin: int
    end: int
    lo: IntArray
    hi: IntArray


class ColumnUpdates(NamedTuple):
    """Results of the column updates of a batch of m columns."""

    n_pairs: IntArray
    """(m,): number of pairs of the new column; -1 where the update failed and the column is unchanged."""
    other: IntArray
    value: FloatArray
    """(m, U) and (m, U, K): variable and entries of each pair."""
    tau: FloatArray
    """(m, K): diagonal entry of Theta."""
    sums: FloatArray
    """(m, 3): sum of |change of W|, sum of |W|, and the second-order estimate of the gap that the change closes."""
    shift: FloatArray
    """(K, m, m): change of a pair inside the batch, later column first, by the projection onto the dual ball."""
    shifted: BoolArray
    """(m,): whether a pair of the column with an earlier one was projected."""


class Sweep(NamedTuple):
    """Problem, state and results of one sweep."""

    stack: PermutedBlocks
    ascent: DualState
    tolerance: float
    """Change of w_12 within a column at which its coordinate descent stops."""
    updates: ColumnUpdates
    sums: FloatArray
    """(3,): sum of the `sums` of the column updates over the finished batches."""


class ColumnWorkspace(NamedTuple):
    """Workspace of one thread for column updates."""

    y: FloatArray
    """(K, b): W_11 t."""
    is_active: BoolArray
    """(U,): variables in the active set, or excluded from it."""
    candidates: IntArray
    violation: FloatArray
    """(U,) both: candidate variables, and their KKT violations."""
    diagonal: ColumnDiagonal
    pair_workspace: PairWorkspace
    block: IntArray
    base: IntArray
    """(K,) both: block of the column, -1 for none, and start of its row in flat storage."""
    scale: FloatArray
    square: FloatArray
    """(K,) both: factor by which x was rescaled, and x' W_11 x."""


@njit
def allocate_column_workspace(n_classes: int, n_variables: int, widest: int, workspace_size: int) -> ColumnWorkspace:
    """Allocate the workspace for columns of `n_variables` pairs in blocks of at most `widest` variables."""
    diagonal = ColumnDiagonal(np.ones(n_classes), np.ones(n_classes), np.ones(n_classes))
    ints = np.empty((2, n_classes), np.int64)
    reals = np.ones((2, n_classes))
    y, is_active = np.zeros((n_classes, widest)), np.zeros(n_variables, np.bool_)
    candidates, violation = np.empty(n_variables, np.int64), np.empty(n_variables)
    return ColumnWorkspace(
        y,
        is_active,
        candidates,
        violation,
        diagonal,
        allocate_workspace(n_classes, workspace_size),
        ints[0],
        ints[1],
        reals[0],
        reals[1],
    )


@njit_internal
def update_column(penalty: Penalty, c: int, batch: Batch, workspace: ColumnWorkspace, sweep: Sweep) -> None:
    """Update column c of a batch and write it into its row of W outside the batch.

    Pairs inside the batch may not join the active set: the columns of a batch are updated independently.
    """
    blocks, state, updates = sweep.stack, sweep.ascent, sweep.updates
    diagonal, column_block, j = workspace.diagonal, workspace.block, batch.begin + c
    workspace.is_active[batch.begin : batch.end] = True
    for k in range(column_block.shape[0]):
        block = blocks.block_of[k, j]
        column_block[k] = block
        if block >= 0:
            slot_j = blocks.slot_of[k, j]
            workspace.base[k] = blocks.offset[block] + slot_j * blocks.size[block]
            diagonal.weight[k] = blocks.weight[block]
            diagonal.variance[k] = state.W[workspace.base[k] + slot_j]
            diagonal.tau[k] = state.precision[blocks.member_start[block] + slot_j]
            workspace.y[k, : blocks.size[block]] = 0.0
    active, slot, x = _solve(penalty, j, blocks, state, sweep.tolerance, workspace)
    _store_column(penalty, c, active, slot, x, workspace, updates)
    if updates.n_pairs[c] >= 0:
        _write_row(c, blocks, batch, state, workspace, updates)
    workspace.is_active[batch.begin : batch.end] = False


@njit_internal
def _solve(
    penalty: Penalty, j: int, blocks: PermutedBlocks, state: DualState, tolerance: float, workspace: ColumnWorkspace
) -> tuple[IntArray, IntArray, FloatArray]:
    """Active pairs (n,) of column j, their rows (K, n) in the blocks, and t (K, n); W_11 t is left in the workspace."""
    column_block, y = workspace.block, workspace.y
    scale, W = workspace.scale, state.W
    first, last = state.columns.start[j], state.columns.start[j + 1]
    active = state.columns.other[first:last].copy()
    x = np.empty((column_block.shape[0], last - first))
    for a in range(last - first):
        for k in range(column_block.shape[0]):
            x[k, a] = state.columns.value[first + a, k]
    for i in active:
        workspace.is_active[i] = True
    gram = np.zeros((column_block.shape[0], 0, 0), np.float32)  # as W is: 10^8 elements for a hub variable
    slot = np.zeros((column_block.shape[0], 0), np.int64)
    n_solved = 0
    for _ in range(_MAX_JOINS):
        slot = _active_slots(active, column_block, blocks)
        x = _pad_columns(x, slot.shape[1])
        before = _pad_columns(x[:, :n_solved], slot.shape[1])
        gram = _extend_gram(gram, slot, blocks, workspace, W)
        _descend(penalty, gram, slot, blocks, tolerance, x, workspace)
        for k in range(column_block.shape[0]):
            if column_block[k] >= 0:
                if scale[k] != 1.0:
                    _scale(scale[k], before[k])
                    _scale(scale[k], y[k])
                block = W[blocks.offset[column_block[k]] : blocks.offset[column_block[k] + 1]]
                _add_rows(slot[k], x[k], before[k], blocks.size[column_block[k]], block, y[k])
        n_solved = slot.shape[1]
        n_joined = _kkt_violations(penalty, max(_MIN_JOIN, n_solved), blocks, workspace)
        if n_joined == 0:
            break
        extended = np.empty(active.shape[0] + n_joined, np.int64)
        copy(active, extended)
        sort(workspace.candidates[:n_joined])
        copy(workspace.candidates[:n_joined], extended[active.shape[0] :])
        active = extended
    for i in active:
        workspace.is_active[i] = False
    return active, slot, x


@njit_no_refcount
def _store_column(
    penalty: Penalty, c: int, active: IntArray, slot: IntArray, x: FloatArray, workspace: ColumnWorkspace,
    updates: ColumnUpdates,
) -> None:  # fmt: skip
    """Compute tau of column c and store its non-zero pairs; ``n_pairs = -1`` if tau is not positive."""
    column_block, diagonal = workspace.block, workspace.diagonal
    scale, square = workspace.scale, workspace.square
    n_classes, n = slot.shape
    for k in range(n_classes):
        square[k] = 0.0
        for a in range(n):
            if slot[k, a] >= 0:
                square[k] += x[k, a] * workspace.y[k, slot[k, a]]
    scale[:] = 1.0
    if pair_separable(penalty):  # otherwise rescaled during the descent
        rescale(penalty, column_block, diagonal, square, scale)
    updates.n_pairs[c] = 0
    for k in range(n_classes):
        if column_block[k] >= 0:
            updates.tau[c, k] = diagonal_entry(diagonal.variance[k], scale[k] * scale[k] * square[k])
            if not updates.tau[c, k] > 0.0:
                updates.n_pairs[c] = -1
                return
    m = 0
    for a in range(n):
        nonzero = False
        for k in range(n_classes):
            updates.value[c, m, k] = scale[k] * x[k, a]
            nonzero = nonzero or x[k, a] != 0.0
        if nonzero:
            updates.other[c, m] = active[a]
            m += 1
    updates.n_pairs[c] = m


@njit_no_refcount
def _write_row(
    c: int, blocks: PermutedBlocks, batch: Batch, state: DualState, workspace: ColumnWorkspace, updates: ColumnUpdates
) -> None:
    """Write ``w_12 = -W_11 t / tau`` into the row of W outside the batch, and sum up the changes."""
    updates.sums[c, :] = 0.0
    for k in range(workspace.block.shape[0]):
        block = workspace.block[k]
        if block >= 0:
            members = state.precision[blocks.member_start[block] : blocks.member_start[block + 1]]
            row = state.W[workspace.base[k] : workspace.base[k] + blocks.size[block]]
            tau = updates.tau[c, k]
            for side in range(2):
                first, last = (0, batch.lo[block]) if side == 0 else (batch.hi[block], blocks.size[block])
                changed, total, squares = _write_row_part(
                    -workspace.scale[k] / tau, workspace.y[k, first:last], members[first:last], row[first:last]
                )
                updates.sums[c, 0] += changed
                updates.sums[c, 1] += total
                updates.sums[c, 2] += 0.5 * workspace.diagonal.weight[k] * squares * tau


@njit_no_refcount(fastmath={"contract", "reassoc"})
def _write_row_part(factor: float, y: FloatArray, precision: FloatArray, row: FloatArray) -> tuple[float, float, float]:
    """Write ``factor * y``; sums of |change|, of |value|, and of the squared changes weighted by `precision`."""
    changed = 0.0
    total = 0.0
    square = 0.0
    for i in range(y.shape[0]):
        new = factor * y[i]
        step = new - row[i]
        changed += abs(step)
        total += abs(new)
        square += precision[i] * step * step
        row[i] = new
    return changed, total, square


@njit_no_refcount
def _kkt_violations(penalty: Penalty, max_count: int, blocks: PermutedBlocks, workspace: ColumnWorkspace) -> int:
    """Number of zero pairs of the column outside their dual ball; lists and marks their variables.

    At most `max_count`, those with the largest violation: many pairs violate the KKT conditions at the start of a
    column update, but few still do once the largest violations are in the active set.
    """
    diagonal, column_block, y = workspace.diagonal, workspace.block, workspace.y
    candidates, violation, scratch = workspace.candidates, workspace.violation, workspace.pair_workspace
    weighted = blocks.factor.shape[0] > 0
    n_candidates = 0
    for k in range(column_block.shape[0]):
        if column_block[k] >= 0:
            b = blocks.size[column_block[k]]
            members = blocks.variable[blocks.member_start[column_block[k]] : blocks.member_start[column_block[k]] + b]
            covariance = blocks.S[workspace.base[k] : workspace.base[k] + b]
            product = y[k, :b]
            inverse = 1.0 / diagonal.tau[k]
            threshold = pair_threshold(penalty, k)
            for i in range(b):
                violation[i] = diagonal.weight[k] * abs(covariance[i] + inverse * product[i]) - threshold
            if weighted:
                for i in range(b):
                    violation[i] += threshold - blocks.factor[workspace.base[k] + i] * threshold
            for i in range(b):
                if violation[i] > 0.0 and not workspace.is_active[members[i]]:
                    workspace.is_active[members[i]] = True
                    candidates[n_candidates] = members[i]
                    n_candidates += 1
    n = 0
    for m in range(n_candidates):
        i = candidates[m]
        n_present = 0
        v = np.inf  # forbidden, unless a class allows the pair
        for k in range(column_block.shape[0]):
            if column_block[k] >= 0 and blocks.block_of[k, i] == column_block[k]:
                slot = blocks.slot_of[k, i]
                scratch.a[n_present] = diagonal.weight[k] * (
                    blocks.S[workspace.base[k] + slot] + y[k, slot] / diagonal.tau[k]
                )
                scratch.cls[n_present] = k
                v = min(v, read_weights(penalty, k, blocks, workspace.base[k] + slot, scratch.l1, n_present))
                n_present += 1
        if v < np.inf and not pair_is_dual_feasible(
            penalty, scratch.a, PairClasses(scratch.cls, n_present, v, scratch.l1), scratch.work
        ):
            candidates[n] = i
            violation[n] = 0.0
            for e in range(n_present):
                violation[n] = max(violation[n], abs(scratch.a[e]) - scratch.l1[e])
            n += 1
        else:
            workspace.is_active[i] = False
    if n > max_count:
        _partition_largest(max_count, violation[:n], candidates)
        for m in range(max_count, n):
            workspace.is_active[candidates[m]] = False
    return min(n, max_count)


@njit_internal
def _active_slots(active: IntArray, column_block: IntArray, blocks: PermutedBlocks) -> IntArray:
    """Row (K, n) of each active variable in the block of the column, -1 where a class does not contain the pair."""
    slot = np.full((column_block.shape[0], active.shape[0]), -1)
    for k in range(column_block.shape[0]):
        if column_block[k] >= 0:
            for a in range(active.shape[0]):
                if blocks.block_of[k, active[a]] == column_block[k]:
                    slot[k, a] = blocks.slot_of[k, active[a]]
    return slot


@njit_no_refcount
def sort(numbers: IntArray) -> None:
    """Shell sort in place: NumPy's sort would add a second of compile time."""
    distance = numbers.shape[0] // 2
    while distance > 0:
        for start in range(distance, numbers.shape[0]):
            number = numbers[start]
            position = start
            while position >= distance and numbers[position - distance] > number:
                numbers[position] = numbers[position - distance]
                position -= distance
            numbers[position] = number
        distance = 1 if distance == 2 else distance * 5 // 11


@njit_no_refcount
def _partition_largest(count: int, numbers: FloatArray, items: IntArray) -> None:
    """Move the `count` largest numbers, with their items, to the front in any order (Hoare's quickselect)."""
    first, last = 0, numbers.shape[0] - 1
    while first < last:
        pivot = numbers[count - 1]
        i, j = first, last
        while i <= j:
            while numbers[i] > pivot:
                i += 1
            while numbers[j] < pivot:
                j -= 1
            if i <= j:
                numbers[i], numbers[j] = numbers[j], numbers[i]
                items[i], items[j] = items[j], items[i]
                i += 1
                j -= 1
        if j < count - 1:
            first = i
        if i > count - 1:
            last = j


@njit_no_refcount
def _scale(factor: float, row: FloatArray) -> None:
    """Scale a row in place."""
    for i in range(row.shape[0]):
        row[i] *= factor


@njit_internal
def _pad_columns(x: FloatArray, width: int) -> FloatArray:
    """Pad x (K, n) with zeros to `width` columns."""
    out = np.zeros((x.shape[0], width))
    for k in range(x.shape[0]):
        for a in range(x.shape[1]):
            out[k, a] = x[k, a]
    return out


@njit_internal
def _extend_gram(
    gram_before: Gram, slot: IntArray, blocks: PermutedBlocks, workspace: ColumnWorkspace, W: FloatArray
) -> Gram:
    """Principal submatrix (K, n, n) of W on the active pairs, from its leading part; zero for absent variables."""
    n_classes, n = slot.shape
    first = gram_before.shape[1]
    gram = np.zeros((n_classes, n, n), np.float32)
    for k in range(n_classes):
        for a in range(first):
            copy(gram_before[k, a], gram[k, a])
        block = workspace.block[k]
        for a in range(first, n):
            if slot[k, a] >= 0:
                base = blocks.offset[block] + slot[k, a] * blocks.size[block]
                row = W[base : base + blocks.size[block]]
                for e in range(a + 1):
                    if slot[k, e] >= 0:
                        gram[k, a, e] = row[slot[k, e]]
                        gram[k, e, a] = gram[k, a, e]
    return gram


@njit_internal(fastmath={"contract"})
def _add_rows(slot: IntArray, x: FloatArray, before: FloatArray, size: int, block: FloatArray, y: FloatArray) -> None:
    """Update ``y = sum_a x[a] block[slot[a]]`` after a change of x from `before`."""
    factor = np.zeros(slot.shape[0] + 3)
    base = np.zeros(slot.shape[0] + 3, np.int64)  # padded with zero factors to a multiple of four
    n = 0
    for a in range(slot.shape[0]):
        if slot[a] >= 0 and x[a] != before[a]:
            factor[n] = x[a] - before[a]
            base[n] = slot[a] * size
            n += 1
    y = y[:size]
    # Four rows at a time, as slices: this form vectorises and is ten times as fast. The sum of four is computed in
    # single precision, as W is, with twice as many elements per instruction.
    for m in range(0, n, 4):
        row0, row1 = block[base[m] : base[m] + size], block[base[m + 1] : base[m + 1] + size]
        row2, row3 = block[base[m + 2] : base[m + 2] + size], block[base[m + 3] : base[m + 3] + size]
        factor0, factor1 = np.float32(factor[m]), np.float32(factor[m + 1])
        factor2, factor3 = np.float32(factor[m + 2]), np.float32(factor[m + 3])
        for i in range(size):
            y[i] += factor0 * row0[i] + factor1 * row1[i] + factor2 * row2[i] + factor3 * row3[i]


@njit_internal
def _descend(
    penalty: Penalty, gram: Gram, slot: IntArray, blocks: PermutedBlocks, tolerance: float, x: FloatArray,
    workspace: ColumnWorkspace,
) -> None:  # fmt: skip
    """Coordinate descent on the active pairs of a column, with their principal submatrix of W, until x converges.

    After the first passes, conjugate gradient steps on the face accelerate it. If the penalty couples the classes
    strongly, tau is updated in every pass and the rescaling of x is accumulated in `scale`; otherwise tau is updated at
    the end.
    """
    n_classes, n = slot.shape
    diagonal, scratch = workspace.diagonal, workspace.pair_workspace
    product, covariance = np.zeros((n_classes, n)), np.zeros((n_classes, n))
    slots, variance = np.full((n, n_classes), -1), np.zeros((n, n_classes))
    v, l1, place = np.full(n, np.inf), np.empty((n_classes, n)), np.full((3, n_classes), n)
    workspace.scale[:] = 1.0
    for k in range(n_classes):
        place[0, k], place[1, k] = k * n * n, k * n
        for a in range(n):
            if slot[k, a] >= 0:
                slots[a, k] = a
                axpy(x[k, a], gram[k, a], product[k])
                variance[a, k] = gram[k, a, a]
                covariance[k, a] = blocks.S[workspace.base[k] + slot[k, a]]
                v[a] = min(v[a], read_weights(penalty, k, blocks, workspace.base[k] + slot[k, a], l1[k], a))
    pairs = ActivePairs(gram, covariance, slots, v, l1)
    column = Column(
        x, product, diagonal, workspace.block, workspace.square, np.ones(n_classes), gram.reshape(n_classes * n * n),
        covariance.reshape(n_classes * n), place[0], place[2], place[1], slots, variance, v, l1,
    )  # fmt: skip
    for number in range(1, _MAX_PASSES + 1):
        max_change = descend_once(penalty, n, column, scratch)
        if not pair_separable(penalty):
            max_change = max(max_change, update_diagonal(penalty, n, max_change <= 10.0 * tolerance, column))
            for k in range(n_classes):
                workspace.scale[k] *= column.ray[k]
        if max_change <= tolerance:
            break
        if number >= _PLAIN_PASSES:
            step_on_face(penalty, pairs, diagonal, tolerance, x, product, scratch)
