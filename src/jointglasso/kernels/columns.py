"""Block coordinate ascent on the dual problem, one column of all classes at a time: the graphical lasso for K classes.

With W_11 of every class fixed and c = W_jj known, the column that maximises the dual objective is given by the
minimiser (t, tau) of the jointly convex problem::

   sum_k w_k [ (c_k tau_k - log tau_k + t_k' W_11 t_k / tau_k) / 2 + s_k' t_k ] + penalty of all pairs (t_1i, ..., t_Ki)

where t is the column of Theta off the diagonal, tau the diagonal entry and s the column of S: w_12 = -W_11 t / tau. The
pairs are minimised one after another, all classes of a pair together, and tau = (1 + sqrt(1 + 4 c h)) / (2 c) with
h = t' W_11 t. What then is left of the variance, c - h / tau^2, is 1 / tau > 0: W stays definite however roughly t was
solved. Only the active pairs are solved for, on their own small matrix; one product with the whole of W_11 then gives
the column and shows which other pairs must join.

A new column is written at once into the row that mirrors it, and into the other rows a few columns at a time: one by
one, each number would cost a line of the cache. Until then the columns lo..hi-1 of the other rows are out of date, and
are read from rows lo..hi-1.
"""

from __future__ import annotations

import numpy as np

from jointglasso._typing import BoolArray, FloatArray, IntArray
from jointglasso.kernels.cache import njit
from jointglasso.kernels.column_face import ActivePairs, step_on_face
from jointglasso.kernels.column_parts import Own, Room, add_multiple, make_room, own_step, rescale
from jointglasso.kernels.group_state import block_of
from jointglasso.kernels.pair import Penalty, pair_apart, pair_inside, pair_threshold, pair_update
from jointglasso.kernels.pair_types import Blocks, Columns, Places

#: Most passes over the active pairs of a column, and most times that pairs may join them, in one visit.
_PASSES, _JOINS = 300, 20

#: Passes after which a column that has not settled takes a step on its face after each.
_PLAIN_PASSES = 2

#: Columns that are written together.
_PANEL = 16


@njit(cache=True, nogil=True)
def columns_of(blocks: Blocks, chosen: IntArray, theta: FloatArray, columns: Columns) -> None:
    """Write the columns of theta of the chosen blocks, zero before, and its diagonal."""
    for block in chosen:
        Theta = block_of(theta, blocks.offset, blocks.size, block)
        out = block_of(columns.theta, blocks.offset, blocks.size, block)
        for i in range(blocks.size[block]):
            columns.precision[blocks.member_start[block] + i] = Theta[i, i]
            for j in range(blocks.size[block]):
                if Theta[i, j] != 0.0 and j != i:
                    out[i, j] = Theta[i, j]


@njit(cache=True, nogil=True)
def theta_of(blocks: Blocks, columns: Columns, theta: FloatArray) -> None:
    """Write the mean of what two columns say of an entry into `theta`, zero before."""
    for block in range(blocks.size.shape[0]):
        Theta = block_of(theta, blocks.offset, blocks.size, block)
        given = block_of(columns.theta, blocks.offset, blocks.size, block)
        for i in range(blocks.size[block]):
            for j in range(blocks.size[block]):
                if given[i, j] != 0.0:
                    Theta[i, j] += 0.5 * given[i, j]
                    Theta[j, i] += 0.5 * given[i, j]
            Theta[i, i] = columns.precision[blocks.member_start[block] + i]


@njit(cache=True, nogil=True, error_model="numpy")
def ascend_columns(
    penalty: Penalty, places: Places, blocks: Blocks, tolerance: float, n_room: int, columns: Columns
) -> tuple[float, float]:
    """One sweep over the columns; the change of W, or infinity if W is lost, and the gap that goes with it.

    The columns are updated in place. W must be positive definite and dual feasible, or at least feasible where it is
    fixed; it stays so.

    The change is the mean relative to the mean size. With R what is missing from W, the gap is tr(R Theta R Theta) / 2
    to second order; the estimate takes the steps of this sweep for R, and of Theta the diagonal.
    """
    n_classes, n_variables = places.block_of.shape
    W, offset, size = columns.W, blocks.offset, blocks.size
    y = np.zeros((n_classes, size.max()))
    is_active = np.zeros(n_variables, np.bool_)
    room = make_room(n_classes, n_room)
    own = Own(np.ones(n_classes), np.ones(n_classes), np.ones(n_classes))
    square, scale = np.zeros(n_classes), np.ones(n_classes)
    found, excess = np.empty(n_variables, np.int64), np.empty(size.max())
    fresh_block = np.full(n_classes, -1)
    lo = np.zeros(n_classes, np.int64)
    hi = np.zeros(n_classes, np.int64)
    rows = np.empty(n_classes, np.int64)
    changed = 0.0
    total = 0.0
    gap = 0.0
    for j in range(n_variables):
        here = places.block_of[:, j]
        for k in range(n_classes):
            if here[k] >= 0:
                at = places.slot_of[k, j]
                rows[k] = offset[here[k]] + at * size[here[k]]
                own.weight[k] = blocks.weight[here[k]]
                own.variance[k] = W[rows[k] + at]
                own.tau[k] = columns.precision[blocks.member_start[here[k]] + at]
                goes_on = fresh_block[k] == here[k] and hi[k] == at and hi[k] - lo[k] < _PANEL
                if not goes_on:
                    _write_columns(fresh_block[k], lo[k], hi[k], offset, size, W)
                    fresh_block[k] = here[k]
                    lo[k] = hi[k] = at
        active = _nonzero_pairs(here, rows, places, blocks, columns.theta, is_active)
        y[:] = 0.0
        x = np.zeros((n_classes, 0))
        gram = np.zeros((n_classes, 0, 0))
        done = 0
        slot = np.zeros((n_classes, 0), np.int64)
        for _ in range(_JOINS):
            slot = _slots(active, here, places)
            x = _widened(x, slot, rows, columns.theta)
            before = np.zeros_like(x)
            before[:, :done] = x[:, :done]
            gram = _grown_gram(gram, slot, here, blocks, W, lo, hi)
            _descend(penalty, gram, slot, rows, blocks, own, tolerance, x, scale, room)
            for k in range(n_classes):
                if here[k] >= 0:
                    if scale[k] != 1.0:
                        before[k] *= scale[k]
                        y[k] *= scale[k]
                    _add_rows(slot[k], x[k], before[k], offset[here[k]], size[here[k]], W, lo[k], hi[k], y[k])
            done = active.shape[0]
            n_joined = _violators(penalty, j, here, rows, places, blocks, own, y, is_active, found, excess, room)
            if n_joined == 0:
                break
            active = np.concatenate((active, np.sort(found[:n_joined])))
        for k in range(n_classes):
            if here[k] >= 0:
                square[k] = _square(slot[k, :done], x[k], y[k])
        scale[:] = 1.0
        if pair_apart(penalty):  # otherwise the descent has seen to it
            rescale(penalty, here, own, square, scale)
        for k in range(n_classes):
            if here[k] >= 0:
                at = places.slot_of[k, j]
                tau = own_step(own.variance[k], scale[k] * scale[k] * square[k])
                if not tau > 0.0:
                    return np.inf, np.inf
                for a in range(done):
                    if slot[k, a] >= 0:
                        columns.theta[rows[k] + slot[k, a]] = scale[k] * x[k, a]
                members = columns.precision[blocks.member_start[here[k]] : blocks.member_start[here[k]] + size[here[k]]]
                members[at] = tau
                step, length, squares = _store_column(
                    at, offset[here[k]], lo[k], hi[k], scale[k] / tau, y[k], members, W
                )
                changed += step
                total += length
                gap += 0.5 * own.weight[k] * squares * tau
                hi[k] = at + 1
        for a in range(active.shape[0]):
            is_active[active[a]] = False
    for k in range(n_classes):
        _write_columns(fresh_block[k], lo[k], hi[k], offset, size, W)
    return changed / total if total > 0.0 else 0.0, gap


@njit(cache=True, nogil=True)
def _square(slot: IntArray, x: FloatArray, y: FloatArray) -> float:
    """``t' W_11 t`` of one class, given y = W_11 t."""
    square = 0.0
    for a in range(slot.shape[0]):
        if slot[a] >= 0:
            square += x[a] * y[slot[a]]
    return square


@njit(cache=True, nogil=True, fastmath={"contract", "reassoc"})
def _store_column(
    own: int, base: int, lo: int, hi: int, factor: float, y: FloatArray, precision: FloatArray, W: FloatArray
) -> tuple[float, float, float]:
    """Write the column -factor y into its own row and into those that are up to date.

    The sums of its changes, of its size, and of its squared changes times `precision`.
    """
    changed = 0.0
    total = 0.0
    square = 0.0
    b = precision.shape[0]
    row, y = W[base + own * b : base + (own + 1) * b], y[:b]
    for i in range(b):
        y[i] *= factor
    y[own] = -row[own]  # which the column does not change
    for i in range(b):
        step = row[i] + y[i]
        changed += abs(step)
        total += abs(y[i])
        square += precision[i] * step * step
        row[i] = -y[i]
    for i in range(lo, hi):
        W[base + i * b + own] = -y[i]
    return changed, total - abs(y[own]), square


@njit(cache=True, nogil=True)
def _write_columns(block: int, lo: int, hi: int, offset: IntArray, size: IntArray, W: FloatArray) -> None:
    """Copy the rows lo..hi-1 of a block into its columns."""
    if block < 0:
        return
    b = size[block]
    whole = W[offset[block] : offset[block] + b * b].reshape((b, b))
    for i in range(b):
        if i < lo or i >= hi:
            whole[i, lo:hi] = whole[lo:hi, i]


@njit(cache=True, nogil=True)
def _nonzero_pairs(
    here: IntArray, rows: IntArray, places: Places, blocks: Blocks, theta: FloatArray, is_active: BoolArray
) -> IntArray:
    """Variables with which a column has a non-zero entry in some class, in ascending order; they are marked."""
    found = np.empty(is_active.shape[0], np.int64)
    n = 0
    for k in range(here.shape[0]):
        if here[k] >= 0:
            members = places.variable[blocks.member_start[here[k]] :]
            row = theta[rows[k] : rows[k] + blocks.size[here[k]]]
            for i in range(row.shape[0]):
                if row[i] != 0.0 and not is_active[members[i]]:
                    found[n] = members[i]
                    n += 1
                    is_active[members[i]] = True
    return np.sort(found[:n])


@njit(cache=True, nogil=True, error_model="numpy")
def _violators(
    penalty: Penalty,
    j: int,
    here: IntArray,
    rows: IntArray,
    places: Places,
    blocks: Blocks,
    own: Own,
    y: FloatArray,
    is_active: BoolArray,
    found: IntArray,
    excess: FloatArray,
    room: Room,
) -> int:
    """List the variables whose pair with j lies outside the dual ball although it is zero, and mark them; how many."""
    touched = 0
    for k in range(here.shape[0]):
        if here[k] >= 0:
            members = places.variable[blocks.member_start[here[k]] :]
            covariance = blocks.S[rows[k] : rows[k] + blocks.size[here[k]]]
            product = y[k, : blocks.size[here[k]]]
            inverse = 1.0 / own.tau[k]
            least = pair_threshold(penalty, k)
            weighted = blocks.factor.shape[0] > 0
            for i in range(covariance.shape[0]):
                excess[i] = own.weight[k] * abs(covariance[i] + inverse * product[i]) - least
            if weighted:
                for i in range(covariance.shape[0]):
                    excess[i] += least - blocks.factor[rows[k] + i] * least
            for i in range(covariance.shape[0]):
                if excess[i] > 0.0 and members[i] != j and not is_active[members[i]]:
                    is_active[members[i]] = True
                    found[touched] = members[i]
                    touched += 1
    n = 0
    for m in range(touched):
        i = found[m]
        held = 0
        v = 1.0
        for k in range(here.shape[0]):
            if here[k] >= 0 and places.block_of[k, i] == here[k]:
                at = places.slot_of[k, i]
                room.a[held] = own.weight[k] * (blocks.S[rows[k] + at] + y[k, at] / own.tau[k])
                room.cls[held] = k
                if blocks.factor.shape[0] > 0:
                    v = blocks.factor[rows[k] + at]
                held += 1
        if v < np.inf and not pair_inside(penalty, room.a, room.cls, held, v, room.real, room.whole):
            found[n] = i
            n += 1
        else:
            is_active[i] = False
    return n


@njit(cache=True, nogil=True)
def _slots(active: IntArray, here: IntArray, places: Places) -> IntArray:
    """Place of each active variable in the block that the column has in each class; -1 where it is not there."""
    slot = np.full((here.shape[0], active.shape[0]), -1)
    for k in range(here.shape[0]):
        if here[k] >= 0:
            for a in range(active.shape[0]):
                if places.block_of[k, active[a]] == here[k]:
                    slot[k, a] = places.slot_of[k, active[a]]
    return slot


@njit(cache=True, nogil=True)
def _widened(x: FloatArray, slot: IntArray, rows: IntArray, theta: FloatArray) -> FloatArray:
    """The column on the active pairs: as solved so far, and as stored for those that are new."""
    out = np.zeros(slot.shape)
    known = x.shape[1]
    out[:, :known] = x
    for k in range(slot.shape[0]):
        for a in range(known, slot.shape[1]):
            if slot[k, a] >= 0:
                out[k, a] = theta[rows[k] + slot[k, a]]
    return out


@njit(cache=True, nogil=True)
def _grown_gram(
    known: FloatArray,
    slot: IntArray,
    here: IntArray,
    blocks: Blocks,
    W: FloatArray,
    lo: IntArray,
    hi: IntArray,
) -> FloatArray:
    """The active part of W in each class, given its first rows and columns; zero where a class lacks a variable."""
    n_classes, n = slot.shape
    first = known.shape[1]
    gram = np.zeros((n_classes, n, n))
    for k in range(n_classes):
        gram[k, :first, :first] = known[k]
        for a in range(first, n):
            if slot[k, a] < 0:
                continue
            base = blocks.offset[here[k]]
            b = blocks.size[here[k]]
            row = W[base + slot[k, a] * b : base + (slot[k, a] + 1) * b]
            for c in range(a + 1):
                at = slot[k, c]
                if at >= 0:
                    gram[k, a, c] = W[base + at * b + slot[k, a]] if lo[k] <= at < hi[k] else row[at]
                    gram[k, c, a] = gram[k, a, c]
    return gram


@njit(cache=True, nogil=True, fastmath={"contract"})
def _add_rows(
    slot: IntArray,
    x: FloatArray,
    before: FloatArray,
    offset: int,
    size: int,
    W: FloatArray,
    lo: int,
    hi: int,
    y: FloatArray,
) -> None:
    """Make ``y = sum of x[a] W[slot[a]]`` of what was that sum for x as it was before."""
    factor = np.zeros(slot.shape[0] + 3)
    base = np.zeros(slot.shape[0] + 3, np.int64)
    n = 0
    for a in range(slot.shape[0]):
        if slot[a] >= 0 and x[a] != before[a]:
            factor[n] = x[a] - before[a]
            base[n] = offset + slot[a] * size
            n += 1
    base[n:] = offset  # with factor zero, to make their number a multiple of four
    y = y[:size]
    # Four rows at a time, as slices: that is what the compiler turns into vector instructions, ten times as fast.
    for m in range(0, n, 4):
        row0, row1 = W[base[m] : base[m] + size], W[base[m + 1] : base[m + 1] + size]
        row2, row3 = W[base[m + 2] : base[m + 2] + size], W[base[m + 3] : base[m + 3] + size]
        factor0, factor1, factor2, factor3 = factor[m], factor[m + 1], factor[m + 2], factor[m + 3]
        for i in range(size):
            y[i] += factor0 * row0[i] + factor1 * row1[i] + factor2 * row2[i] + factor3 * row3[i]
    for i in range(lo, hi):
        y[i] = 0.0
        for a in range(slot.shape[0]):
            if slot[a] >= 0:
                y[i] += x[a] * W[offset + i * size + slot[a]]


@njit(cache=True, nogil=True, error_model="numpy")
def _descend(
    penalty: Penalty,
    gram: FloatArray,
    slot: IntArray,
    rows: IntArray,
    blocks: Blocks,
    own: Own,
    tolerance: float,
    x: FloatArray,
    scale: FloatArray,
    room: Room,
) -> None:
    """Coordinate descent on the active pairs of a column, on their own part of W, until x settles.

    After a few passes, steps on the face help. Where the penalty compares the classes, tau goes along from pass to
    pass, and what x was multiplied by on the way goes into `scale`; elsewhere tau is left to the end.
    """
    n_classes, n = slot.shape
    product, covariance, v = np.zeros((n_classes, n)), np.zeros((n_classes, n)), np.ones(n)
    scale[:] = 1.0
    here = np.full(n_classes, -1)
    for k in range(n_classes):
        for a in range(n):
            if slot[k, a] >= 0:
                here[k] = 0
                add_multiple(x[k, a], gram[k, a], product[k])
                covariance[k, a] = blocks.S[rows[k] + slot[k, a]]
                if blocks.factor.shape[0] > 0:
                    v[a] = blocks.factor[rows[k] + slot[k, a]]
    pairs = ActivePairs(gram, covariance, slot >= 0, v)
    for number in range(1, _PASSES + 1):
        biggest = 0.0
        for a in range(n):
            m = 0
            for k in range(n_classes):
                if slot[k, a] >= 0:
                    w = own.weight[k]
                    room.a[m] = w * gram[k, a, a] / own.tau[k]
                    slope = product[k, a] / own.tau[k] + covariance[k, a]
                    room.b[m] = room.a[m] * x[k, a] - w * slope
                    room.cls[m] = k
                    m += 1
            pair_update(penalty, room.a, room.b, room.cls, m, v[a], room.new, room.real, room.whole)
            for e in range(m):
                k = room.cls[e]
                step = room.new[e] - x[k, a]
                if step != 0.0:
                    x[k, a] = room.new[e]
                    add_multiple(step, gram[k, a], product[k])
                    biggest = max(biggest, abs(step) * gram[k, a, a] / own.tau[k])
        if not pair_apart(penalty):
            biggest = max(biggest, _move_own(penalty, here, biggest <= 10.0 * tolerance, own, x, product, scale))
        if biggest <= tolerance:
            break
        if number >= _PLAIN_PASSES:
            step_on_face(penalty, pairs, own, tolerance, x, product, room)


@njit(cache=True, nogil=True, error_model="numpy")
def _move_own(
    penalty: Penalty, here: IntArray, settled: bool, own: Own, x: FloatArray, product: FloatArray, scale: FloatArray
) -> float:
    """Bring tau of each class to where it belongs, given the product W_11 x; the largest change of the column w_12.

    If x has settled for the tau that there was, the best multiple of both is taken first.
    """
    n_classes, n = x.shape
    square, ray = np.zeros(n_classes), np.ones(n_classes)
    for k in range(n_classes):
        for a in range(n):
            square[k] += x[k, a] * product[k, a]
    if settled:
        rescale(penalty, here, own, square, ray)
    biggest = 0.0
    for k in range(n_classes):
        if here[k] < 0:
            continue
        largest = 0.0
        for a in range(n):
            x[k, a] *= ray[k]
            product[k, a] *= ray[k]
            largest = max(largest, abs(product[k, a]))
        scale[k] *= ray[k]
        own.tau[k] *= ray[k]
        tau = own_step(own.variance[k], ray[k] * ray[k] * square[k])
        biggest = max(biggest, largest * abs(1.0 / tau - 1.0 / own.tau[k]))
        own.tau[k] = tau
    return biggest
