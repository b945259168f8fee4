"""Block coordinate ascent on the dual problem, one column of all classes at a time: the graphical lasso for K classes.

With W_11 of every class fixed, the column w_12 = -W_11 beta that maximises the dual objective solves a lasso in beta.
Its penalty is that of theta_12 = theta_22 beta, the entries of one pair in all classes together; theta_22 is known from
the last sweep. Only the active pairs are solved for, on their own small matrix; one product with the whole of W_11 then
gives the column and shows which other pairs must join.

A new column is written at once into the row that mirrors it, and into the other rows a few columns at a time: one by
one, each number would cost a line of the cache. Until then the columns lo..hi-1 of the other rows are out of date, and
are read from rows lo..hi-1.
"""

from __future__ import annotations

import numpy as np

from jointglasso._typing import BoolArray, FloatArray, IntArray
from jointglasso.kernels.cache import njit
from jointglasso.kernels.group_state import block_of
from jointglasso.kernels.newton import minimise_pair

#: Most passes over the active pairs of a column, and most times that pairs may join them, in one visit.
_PASSES, _JOINS = 300, 20

#: Columns that are written together.
_PANEL = 16


@njit(cache=True, nogil=True, error_model="numpy")
def columns_of(
    blocks: IntArray,
    theta: FloatArray,
    offset: IntArray,
    size: IntArray,
    member_start: IntArray,
    beta: FloatArray,
    precision: FloatArray,
) -> None:
    """Write the columns of theta, divided by their diagonal entries, into `beta`, zero before, and the latter apart."""
    for block in blocks:
        Theta, columns = block_of(theta, offset, size, block), block_of(beta, offset, size, block)
        for i in range(size[block]):
            precision[member_start[block] + i] = Theta[i, i]
            for j in range(size[block]):
                if Theta[i, j] != 0.0 and j != i:
                    columns[i, j] = Theta[i, j] / Theta[i, i]


@njit(cache=True, nogil=True)
def theta_of(
    beta: FloatArray, precision: FloatArray, offset: IntArray, size: IntArray, member_start: IntArray, theta: FloatArray
) -> None:
    """Write the mean of what two columns say of an entry into `theta`, zero before."""
    for block in range(size.shape[0]):
        Theta, columns = block_of(theta, offset, size, block), block_of(beta, offset, size, block)
        for i in range(size[block]):
            half = 0.5 * precision[member_start[block] + i]
            for j in range(size[block]):
                if columns[i, j] != 0.0:
                    Theta[i, j] += half * columns[i, j]
                    Theta[j, i] += half * columns[i, j]
            Theta[i, i] = 2.0 * half


@njit(cache=True, nogil=True, error_model="numpy")
def ascend_columns(
    block_of: IntArray,
    slot_of: IntArray,
    variable: IntArray,
    member_start: IntArray,
    offset: IntArray,
    size: IntArray,
    weight: FloatArray,
    S: FloatArray,
    lambda1: float,
    lambda2: float,
    tolerance: float,
    W: FloatArray,
    beta: FloatArray,
    precision: FloatArray,
) -> tuple[float, float]:
    """One sweep over the columns; the change of W, or infinity if W is lost, and the gap that goes with it.

    `block_of` and `slot_of` (K, U) place the variables in the blocks of each class (-1: in none); block B holds those
    of ``variable[member_start[B]:]``. W, beta (row j: the column of variable j, divided by theta_jj) and `precision`,
    the theta_jj in the same order as `variable`, are updated in place. W must be positive definite and dual feasible,
    or at least feasible where it is fixed; it stays so.

    The change is the mean relative to the mean size. With R what is missing from W, the gap is tr(R Theta R Theta) / 2
    to second order; the estimate takes the steps of this sweep for R, and of Theta the diagonal.
    """
    n_classes, n_variables = block_of.shape
    y = np.zeros((n_classes, size.max()))
    excess = np.zeros(size.max())
    used = np.zeros(n_variables)
    is_active = np.zeros(n_variables, np.bool_)
    fresh_block = np.full(n_classes, -1)
    lo = np.zeros(n_classes, np.int64)
    hi = np.zeros(n_classes, np.int64)
    changed = 0.0
    total = 0.0
    gap = 0.0
    for j in range(n_variables):
        blocks = block_of[:, j]
        rows = np.empty(n_classes, np.int64)
        own_precision = np.empty(n_classes)
        for k in range(n_classes):
            if blocks[k] >= 0:
                own_precision[k] = precision[member_start[blocks[k]] + slot_of[k, j]]
                rows[k] = offset[blocks[k]] + slot_of[k, j] * size[blocks[k]]
                goes_on = fresh_block[k] == blocks[k] and hi[k] == slot_of[k, j] and hi[k] - lo[k] < _PANEL
                if not goes_on:
                    _write_columns(fresh_block[k], lo[k], hi[k], offset, size, W)
                    fresh_block[k] = blocks[k]
                    lo[k] = hi[k] = slot_of[k, j]
        active = _nonzero_pairs(blocks, rows, variable, member_start, size, beta, is_active)
        y[:] = 0.0
        x = np.zeros((n_classes, 0))
        gram = np.zeros((n_classes, 0, 0))
        done = 0
        for _ in range(_JOINS):
            slot = _slots(active, blocks, block_of, slot_of)
            x = _widened(x, slot, rows, beta)
            before = np.zeros_like(x)
            before[:, :done] = x[:, :done]
            gram = _grown_gram(gram, slot, blocks, offset, size, W, lo, hi)
            _descend(gram, slot, blocks, rows, weight, own_precision, S, lambda1, lambda2, tolerance, x)
            for k in range(n_classes):
                if blocks[k] >= 0:
                    _add_rows(slot[k], x[k], before[k], offset[blocks[k]], size[blocks[k]], W, lo[k], hi[k], y[k])
            done = active.shape[0]
            joined = _violators(
                j, blocks, rows, variable, member_start, size, weight, S, y, lambda1, lambda2, is_active, used, excess
            )
            if joined.shape[0] == 0:
                break
            active = np.concatenate((active, joined))
        for k in range(n_classes):
            if blocks[k] >= 0:
                own = slot_of[k, j]
                rest = W[rows[k] + own] - _store_beta(slot[k, :done], x[k], y[k], rows[k], beta)
                if not rest > 0.0:
                    return np.inf, np.inf
                members = precision[member_start[blocks[k]] : member_start[blocks[k]] + size[blocks[k]]]
                members[own] = 1.0 / rest
                step, length, square = _store_column(own, offset[blocks[k]], lo[k], hi[k], y[k], members, W)
                changed += step
                total += length
                gap += 0.5 * weight[blocks[k]] * square / rest
                hi[k] = own + 1
        for a in range(active.shape[0]):
            is_active[active[a]] = False
    for k in range(n_classes):
        _write_columns(fresh_block[k], lo[k], hi[k], offset, size, W)
    return changed / total if total > 0.0 else 0.0, gap


@njit(cache=True, nogil=True)
def _store_beta(slot: IntArray, x: FloatArray, y: FloatArray, row: int, beta: FloatArray) -> float:
    """Keep the solved part of a column, and return ``beta' W_11 beta``."""
    square = 0.0
    for a in range(slot.shape[0]):
        if slot[a] >= 0:
            beta[row + slot[a]] = x[a]
            square += x[a] * y[slot[a]]
    return square


@njit(cache=True, nogil=True, fastmath={"contract", "reassoc"})
def _store_column(
    own: int, base: int, lo: int, hi: int, y: FloatArray, precision: FloatArray, W: FloatArray
) -> tuple[float, float, float]:
    """Write the column -y into its own row and into those that are up to date.

    The sums of its changes, of its size, and of its squared changes times `precision`.
    """
    changed = 0.0
    total = 0.0
    square = 0.0
    b = precision.shape[0]
    row, y = W[base + own * b : base + (own + 1) * b], y[:b]
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
    blocks: IntArray,
    rows: IntArray,
    variable: IntArray,
    member_start: IntArray,
    size: IntArray,
    beta: FloatArray,
    is_active: BoolArray,
) -> IntArray:
    """Variables with which a column has a non-zero entry in some class, in ascending order; they are marked."""
    found = np.empty(is_active.shape[0], np.int64)
    n = 0
    for k in range(blocks.shape[0]):
        if blocks[k] >= 0:
            members = variable[member_start[blocks[k]] :]
            row = beta[rows[k] : rows[k] + size[blocks[k]]]
            for i in range(row.shape[0]):
                if row[i] != 0.0 and not is_active[members[i]]:
                    found[n] = members[i]
                    n += 1
                    is_active[members[i]] = True
    return np.sort(found[:n])


@njit(cache=True, nogil=True)
def _violators(
    j: int,
    blocks: IntArray,
    rows: IntArray,
    variable: IntArray,
    member_start: IntArray,
    size: IntArray,
    weight: FloatArray,
    S: FloatArray,
    y: FloatArray,
    lambda1: float,
    lambda2: float,
    is_active: BoolArray,
    used: FloatArray,
    excess: FloatArray,
) -> IntArray:
    """Variables whose pair with j lies outside the dual ball although it is zero; they are marked.

    `used`, zero before and after, and `excess` are room to work in.
    """
    found = np.empty(used.shape[0], np.int64)
    touched = 0
    for k in range(blocks.shape[0]):
        if blocks[k] >= 0:
            members = variable[member_start[blocks[k]] :]
            covariance = S[rows[k] : rows[k] + size[blocks[k]]]
            product = y[k, : size[blocks[k]]]
            for i in range(covariance.shape[0]):
                excess[i] = weight[blocks[k]] * abs(covariance[i] + product[i]) - lambda1
            for i in range(covariance.shape[0]):
                if excess[i] > 0.0 and members[i] != j and not is_active[members[i]]:
                    if used[members[i]] == 0.0:
                        found[touched] = members[i]
                        touched += 1
                    used[members[i]] += excess[i] * excess[i]
    n = 0
    for m in range(touched):
        i = found[m]
        if used[i] > lambda2 * lambda2:
            found[n] = i
            n += 1
            is_active[i] = True
        used[i] = 0.0
    return np.sort(found[:n])


@njit(cache=True, nogil=True)
def _slots(active: IntArray, blocks: IntArray, block_of: IntArray, slot_of: IntArray) -> IntArray:
    """Place of each active variable in the block that the column has in each class; -1 where it is not there."""
    slot = np.full((blocks.shape[0], active.shape[0]), -1)
    for k in range(blocks.shape[0]):
        if blocks[k] >= 0:
            for a in range(active.shape[0]):
                if block_of[k, active[a]] == blocks[k]:
                    slot[k, a] = slot_of[k, active[a]]
    return slot


@njit(cache=True, nogil=True)
def _widened(x: FloatArray, slot: IntArray, rows: IntArray, beta: FloatArray) -> FloatArray:
    """The column's beta on the active pairs: as solved so far, and as stored for those that are new."""
    out = np.zeros(slot.shape)
    known = x.shape[1]
    out[:, :known] = x
    for k in range(slot.shape[0]):
        for a in range(known, slot.shape[1]):
            if slot[k, a] >= 0:
                out[k, a] = beta[rows[k] + slot[k, a]]
    return out


@njit(cache=True, nogil=True)
def _grown_gram(
    known: FloatArray,
    slot: IntArray,
    blocks: IntArray,
    offset: IntArray,
    size: IntArray,
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
            base = offset[blocks[k]]
            b = size[blocks[k]]
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
    gram: FloatArray,
    slot: IntArray,
    blocks: IntArray,
    rows: IntArray,
    weight: FloatArray,
    precision: FloatArray,
    S: FloatArray,
    lambda1: float,
    lambda2: float,
    tolerance: float,
    x: FloatArray,
) -> None:
    """Coordinate descent on the active pairs of a column, on their own part of W, until x settles."""
    n_classes, n = slot.shape
    slope = np.zeros((n_classes, n))
    for k in range(n_classes):
        for a in range(n):
            if slot[k, a] >= 0:
                slope[k, a] += S[rows[k] + slot[k, a]]
                _add_multiple(x[k, a], gram[k, a], slope[k])
    target, curvature, new = np.empty(n_classes), np.empty(n_classes), np.empty(n_classes)
    which = np.empty(n_classes, np.int64)
    for _ in range(_PASSES):
        biggest = 0.0
        for a in range(n):
            m = 0
            for k in range(n_classes):
                if slot[k, a] >= 0:
                    w = weight[blocks[k]]
                    curvature[m] = w * gram[k, a, a] / precision[k]
                    target[m] = precision[k] * x[k, a] - w * slope[k, a] / curvature[m]
                    which[m] = k
                    m += 1
            minimise_pair(target, curvature, lambda1, lambda2, new, m)
            for e in range(m):
                k = which[e]
                step = new[e] / precision[k] - x[k, a]
                if step != 0.0:
                    x[k, a] += step
                    _add_multiple(step, gram[k, a], slope[k])
                    biggest = max(biggest, abs(step) * gram[k, a, a])
        if biggest <= tolerance:
            break


@njit(cache=True, nogil=True)
def _add_multiple(factor: float, row: FloatArray, out: FloatArray) -> None:
    if factor != 0.0:
        for c in range(row.shape[0]):
            out[c] += factor * row[c]
