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
from jointglasso.kernels.column_face import step_on_face
from jointglasso.kernels.column_parts import (
    BASE,
    BLOCK,
    COVARIANCE,
    L1,
    PRODUCT,
    SCALE,
    SOLVED,
    TAU,
    VARIANCE,
    WEIGHT,
    Column,
    X,
    axpy,
    descend_once,
    read_weights,
    update_diagonal,
)
from jointglasso.kernels.dense import add_four_rows
from jointglasso.kernels.jit import njit_no_refcount
from jointglasso.kernels.pair import Penalty, pair_is_dual_feasible, pair_threshold, pair_weakly_coupled
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

    @classmethod
    def allocate(cls, n_classes: int, n_variables: int, max_batch: int) -> ColumnUpdates:
        """Allocate the results of a batch of at most `max_batch` columns."""
        return cls(
            np.zeros(max_batch, np.int64), np.empty((max_batch, n_variables), np.int64),
            np.empty((max_batch, n_variables, n_classes)), np.ones((max_batch, n_classes)), np.zeros((max_batch, 3)),
            np.zeros((n_classes, max_batch, max_batch)), np.zeros(max_batch, np.bool_),
        )  # fmt: skip


class Sweep(NamedTuple):
    """Problem, state and results of one sweep."""

    blocks: PermutedBlocks
    state: DualState
    tolerance: float
    """Change of w_12 within a column at which its coordinate descent stops."""
    updates: ColumnUpdates
    sums: FloatArray
    """(3,): sum of the `sums` of the column updates over the finished batches."""


@njit_no_refcount
def update_column(penalty: Penalty, faces: bool | None, c: int, batch: Batch, column: Column, sweep: Sweep) -> None:
    """Update column c of a batch and write it into its row of W outside the batch.

    Pairs inside the batch may not join the active set: the columns of a batch are updated independently. With `faces`
    True conjugate gradient steps on the face accelerate the descent; with None they are not compiled.
    """
    n_before, n = 0, _load_column(batch.begin + c, batch, column, sweep)
    for joins in range(_MAX_JOINS):
        _load_pairs(penalty, n_before, n, column, sweep)
        _descend(penalty, faces, n, sweep.tolerance, column)
        _multiply(n, column, sweep)
        n_free = column.variable.shape[0] - n if joins + 1 < _MAX_JOINS else 0
        n_joined = _kkt_violations(penalty, min(max(_MIN_JOIN, n), n_free), sweep.blocks, column)
        if n_joined == 0:
            break
        n_before, n = n, n + n_joined
        for a in range(n_before, n):
            column.variable[a] = column.candidates[a - n_before]
            for k in range(column.t.shape[1]):
                column.t[X, k, a] = 0.0
    _store_column(penalty, c, n, batch, column, sweep)


@njit_no_refcount
def _load_column(j: int, batch: Batch, column: Column, sweep: Sweep) -> int:
    """Read the diagonal and the pairs of column j, and exclude the variables of the batch; the number of pairs."""
    blocks, state, diagonal, place = sweep.blocks, sweep.state, column.diagonal, column.place
    for i in range(batch.begin, batch.end):
        column.is_active[i] = True
    for k in range(place.shape[1]):
        place[BLOCK, k] = block = blocks.block_of[k, j]
        if block >= 0:
            slot_j = blocks.slot_of[k, j]
            place[BASE, k] = blocks.offset[block] + slot_j * blocks.size[block]
            diagonal[WEIGHT, k], diagonal[SCALE, k] = blocks.weight[block], 1.0
            diagonal[VARIANCE, k] = state.W[place[BASE, k] + slot_j]
            diagonal[TAU, k] = state.tau[blocks.member_start[block] + slot_j]
            for i in range(blocks.size[block]):
                column.y[k, i] = 0.0
    first = state.columns.start[j]
    n = state.columns.start[j + 1] - first
    for a in range(n):
        column.variable[a] = state.columns.other[first + a]
        column.is_active[column.variable[a]] = True
        for k in range(place.shape[1]):
            column.t[X, k, a] = state.columns.value[first + a, k]
    return n


@njit_no_refcount
def _load_pairs(penalty: Penalty, first: int, n: int, column: Column, sweep: Sweep) -> None:
    """Read rows, weights, covariances and the principal submatrix of W of the active pairs from `first` on."""
    blocks, W, slot, gram, t = sweep.blocks, sweep.state.W, column.slot, column.gram, column.t
    n_classes = slot.shape[0]
    for row in range(n_classes * first - 1, -1, -1):  # move the Gram matrices apart, from the last element on
        new = (row // first * n + row % first) * n
        for e in range(first - 1, -1, -1):
            gram[new + e] = gram[row * first + e]
    for a in range(first, n):
        column.coupling[a] = np.inf
    for k in range(n_classes):
        block = column.place[BLOCK, k]
        for a in range(first, n):
            i = column.variable[a]
            present = block >= 0 and blocks.block_of[k, i] == block
            slot[k, a] = blocks.slot_of[k, i] if present else -1
            position = column.place[BASE, k] + slot[k, a]
            t[COVARIANCE, k, a] = blocks.S[position] if present else 0.0
            t[PRODUCT, k, a] = 0.0
            t[SOLVED, k, a] = 0.0
            if present:
                weight = read_weights(penalty, k, blocks, position, t[L1, k], a)
                column.coupling[a] = min(column.coupling[a], weight)
            base = blocks.offset[block] + slot[k, a] * blocks.size[block] if present else 0
            for e in range(a + 1):
                value = W[base + slot[k, e]] if present and slot[k, e] >= 0 else 0.0
                gram[(k * n + a) * n + e] = value
                gram[(k * n + e) * n + a] = value
        for a in range(n):
            axpy(t[X, k, a], gram[(k * n + a) * n + first : (k * n + a + 1) * n], t[PRODUCT, k, first:])


@njit_no_refcount
def _descend(penalty: Penalty, faces: bool | None, n: int, tolerance: float, column: Column) -> None:
    """Coordinate descent on the active pairs of a column, with their principal submatrix of W, until t converges.

    After the first passes, conjugate gradient steps on the face accelerate it, unless `faces` is None. If the penalty
    couples the classes strongly, tau is updated in every pass and the rescaling of t is accumulated in `SCALE`;
    otherwise tau is updated at the end.
    """
    for number in range(1, _MAX_PASSES + 1):
        max_change = descend_once(penalty, n, column)
        if not pair_weakly_coupled(penalty):
            max_change = max(max_change, update_diagonal(penalty, n, max_change <= 10.0 * tolerance, column))
        if max_change <= tolerance:
            break
        if faces is not None and number >= _PLAIN_PASSES:
            step_on_face(penalty, n, tolerance, column)


@njit_no_refcount(fastmath={"contract"})
def _multiply(n: int, column: Column, sweep: Sweep) -> None:
    """Update ``y = W_11 t`` after a change of t from ``SCALE * SOLVED``."""
    blocks, W, t, factor, start = sweep.blocks, sweep.state.W, column.t, column.coefficient, column.start
    for k in range(column.place.shape[1]):
        block = column.place[BLOCK, k]
        if block < 0:
            continue
        size, scale, y = blocks.size[block], column.diagonal[SCALE, k], column.y[k]
        if scale != 1.0:
            for i in range(size):
                y[i] *= scale
        m = 0
        for a in range(n):
            change = t[X, k, a] - scale * t[SOLVED, k, a]
            if change != 0.0:
                factor[m] = change
                start[m] = blocks.offset[block] + column.slot[k, a] * size
                m += 1
            t[SOLVED, k, a] = t[X, k, a]
        column.diagonal[SCALE, k] = 1.0
        for a in range(m, m + 3):  # padded with zero factors to a multiple of four
            factor[a] = 0.0
            start[a] = blocks.offset[block]
        for a in range(0, m, 4):
            add_four_rows(factor[a : a + 4], start[a : a + 4], size, W, y)


@njit_no_refcount
def _store_column(penalty: Penalty, c: int, n: int, batch: Batch, column: Column, sweep: Sweep) -> None:
    """Compute tau of column c, store its non-zero pairs, write its row ``-W_11 t / tau`` of W outside the batch.

    ``n_pairs = -1`` if tau fails.
    """
    blocks, state, updates, diagonal, t = sweep.blocks, sweep.state, sweep.updates, column.diagonal, column.t
    n_classes = diagonal.shape[1]
    for i in range(batch.begin, batch.end):
        column.is_active[i] = False
    for a in range(n):
        column.is_active[column.variable[a]] = False
    update_diagonal(penalty, n, True, column)
    updates.n_pairs[c] = -1
    for k in range(n_classes):
        updates.tau[c, k] = diagonal[TAU, k]
        if column.place[BLOCK, k] >= 0 and not diagonal[TAU, k] > 0.0:
            return
    m = 0
    for a in range(n):
        nonzero = False
        for k in range(n_classes):
            updates.value[c, m, k] = t[X, k, a]
            nonzero = nonzero or t[X, k, a] != 0.0
        if nonzero:
            updates.other[c, m] = column.variable[a]
            m += 1
    updates.n_pairs[c] = m
    for e in range(3):
        updates.sums[c, e] = 0.0
    for k in range(n_classes):
        block = column.place[BLOCK, k]
        if block >= 0:
            row_tau = state.tau[blocks.member_start[block] : blocks.member_start[block + 1]]
            row = state.W[column.place[BASE, k] : column.place[BASE, k] + blocks.size[block]]
            tau = updates.tau[c, k]
            for side in range(2):
                first, last = (0, batch.lo[block]) if side == 0 else (batch.hi[block], blocks.size[block])
                changed, total, squares = _write_row_part(
                    -diagonal[SCALE, k] / tau, column.y[k, first:last], row_tau[first:last], row[first:last]
                )
                updates.sums[c, 0] += changed
                updates.sums[c, 1] += total
                updates.sums[c, 2] += 0.5 * diagonal[WEIGHT, k] * squares * tau


@njit_no_refcount(fastmath={"contract", "reassoc"})
def _write_row_part(factor: float, y: FloatArray, tau: FloatArray, row: FloatArray) -> tuple[float, float, float]:
    """Write ``factor * y``; sums of |change|, of |value|, and of the squared changes weighted by `tau`."""
    changed = 0.0
    total = 0.0
    square = 0.0
    for i in range(y.shape[0]):
        new = factor * y[i]
        step = new - row[i]
        changed += abs(step)
        total += abs(new)
        square += tau[i] * step * step
        row[i] = new
    return changed, total, square


@njit_no_refcount
def _kkt_violations(penalty: Penalty, max_count: int, blocks: PermutedBlocks, column: Column) -> int:
    """Number of zero pairs of the column outside their dual ball; lists and marks their variables.

    At most `max_count`, those with the largest violation: many pairs violate the KKT conditions at the start of a
    column update, but few still do once the largest violations are in the active set.
    """
    diagonal, place, y, pair = column.diagonal, column.place, column.y, column.pair
    candidates, violation, is_active = column.candidates, column.violation, column.is_active
    weighted = blocks.l1_weight.shape[0] > 0
    n_candidates = 0
    for k in range(place.shape[1]):
        block, base = place[BLOCK, k], place[BASE, k]
        if block >= 0:
            b, members = blocks.size[block], blocks.variable[blocks.member_start[block] :]
            covariance, product = blocks.S[base : base + b], y[k, : blocks.size[block]]
            weight, inverse, threshold = diagonal[WEIGHT, k], 1.0 / diagonal[TAU, k], pair_threshold(penalty, k)
            for i in range(b):
                violation[i] = weight * abs(covariance[i] + inverse * product[i]) - threshold
            if weighted:
                for i in range(b):
                    violation[i] += threshold - blocks.l1_weight[base + i] * threshold
            for i in range(b):
                if violation[i] > 0.0 and not is_active[members[i]]:
                    is_active[members[i]] = True
                    candidates[n_candidates] = members[i]
                    n_candidates += 1
    n = 0
    for m in range(n_candidates):
        i = candidates[m]
        n_present = 0
        v = np.inf  # forbidden, unless a class allows the pair
        for k in range(place.shape[1]):
            if place[BLOCK, k] >= 0 and blocks.block_of[k, i] == place[BLOCK, k]:
                slot = blocks.slot_of[k, i]
                slope = blocks.S[place[BASE, k] + slot] + y[k, slot] / diagonal[TAU, k]
                pair.a[n_present] = diagonal[WEIGHT, k] * slope
                pair.cls[n_present] = k
                v = min(v, read_weights(penalty, k, blocks, place[BASE, k] + slot, pair.l1, n_present))
                n_present += 1
        classes = PairClasses(pair.cls, n_present, v, pair.l1, pair.work)
        if v < np.inf and not pair_is_dual_feasible(penalty, pair.a, classes):
            candidates[n] = i
            violation[n] = 0.0
            for e in range(n_present):
                violation[n] = max(violation[n], abs(pair.a[e]) - pair.l1[e])
            n += 1
        else:
            is_active[i] = False
    if n > max_count:
        if max_count > 0:
            _partition_largest(max_count, violation[:n], candidates)
        for m in range(max_count, n):
            is_active[candidates[m]] = False
    return min(n, max_count)


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
