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
from numba import njit

from jointglasso._typing import BoolArray, FloatArray, IntArray
from jointglasso.kernels.newton import minimise_pair

#: Most passes over the active pairs of a column, and most times that pairs may join them, in one visit.
_PASSES, _JOINS = 300, 20

#: Columns that are written together.
_PANEL = 16


@njit(cache=True, nogil=True)
def ascend_columns(
    block_of: IntArray,
    slot_of: IntArray,
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
) -> float:
    """One sweep over the columns; the mean change of W relative to its mean size, or infinity if W is lost.

    `block_of` and `slot_of` (K, U) place the variables in the blocks of each class (-1: in none). W, beta (row j: the
    column of variable j, divided by theta_jj) and `precision` (K, U), the theta_jj, are updated in place. W must be
    positive definite and dual feasible, or at least feasible where it is fixed; it stays so.
    """
    n_classes, n_variables = block_of.shape
    y = np.zeros((n_classes, size.max()))
    is_active = np.zeros(n_variables, np.bool_)
    fresh_block = np.full(n_classes, -1)
    lo = np.zeros(n_classes, np.int64)
    hi = np.zeros(n_classes, np.int64)
    changed = 0.0
    total = 0.0
    for j in range(n_variables):
        blocks = block_of[:, j]
        rows = np.empty(n_classes, np.int64)
        for k in range(n_classes):
            if blocks[k] >= 0:
                rows[k] = offset[blocks[k]] + slot_of[k, j] * size[blocks[k]]
                goes_on = fresh_block[k] == blocks[k] and hi[k] == slot_of[k, j] and hi[k] - lo[k] < _PANEL
                if not goes_on:
                    _write_columns(fresh_block[k], lo[k], hi[k], offset, size, W)
                    fresh_block[k] = blocks[k]
                    lo[k] = hi[k] = slot_of[k, j]
        active = _nonzero_pairs(j, block_of, slot_of, rows, beta, is_active)
        y[:] = 0.0
        x = np.zeros((n_classes, 0))
        done = 0
        for _ in range(_JOINS):
            slot = _slots(active, blocks, block_of, slot_of)
            x = _widened(x, slot, rows, beta)
            before = np.zeros_like(x)
            before[:, :done] = x[:, :done]
            _descend(
                slot, blocks, rows, offset, size, weight, precision[:, j], S, W, lo, hi, lambda1, lambda2, tolerance, x
            )
            for k in range(n_classes):
                if blocks[k] >= 0:
                    _add_rows(slot[k], x[k], before[k], offset[blocks[k]], size[blocks[k]], W, lo[k], hi[k], y[k])
            done = active.shape[0]
            joined = _violators(j, block_of, slot_of, rows, weight, S, y, lambda1, lambda2, is_active)
            if joined.shape[0] == 0:
                break
            active = np.concatenate((active, joined))
        for k in range(n_classes):
            if blocks[k] >= 0:
                own = slot_of[k, j]
                rest = W[rows[k] + own] - _store_beta(slot[k, :done], x[k], y[k], rows[k], beta)
                if not rest > 0.0:
                    return np.inf
                precision[k, j] = 1.0 / rest
                step, length = _store_column(own, offset[blocks[k]], size[blocks[k]], lo[k], hi[k], y[k], W)
                changed += step
                total += length
                hi[k] = own + 1
        for a in range(active.shape[0]):
            is_active[active[a]] = False
    for k in range(n_classes):
        _write_columns(fresh_block[k], lo[k], hi[k], offset, size, W)
    return changed / total if total > 0.0 else 0.0


@njit(cache=True, nogil=True)
def _store_beta(slot: IntArray, x: FloatArray, y: FloatArray, row: int, beta: FloatArray) -> float:
    """Keep the solved part of a column, and return ``beta' W_11 beta``."""
    square = 0.0
    for a in range(slot.shape[0]):
        if slot[a] >= 0:
            beta[row + slot[a]] = x[a]
            square += x[a] * y[slot[a]]
    return square


@njit(cache=True, nogil=True)
def _store_column(own: int, base: int, b: int, lo: int, hi: int, y: FloatArray, W: FloatArray) -> tuple[float, float]:
    """Write the column -y into its own row and into those that are up to date; its change and its size, summed."""
    changed = 0.0
    total = 0.0
    row = base + own * b
    for i in range(b):
        if i != own:
            changed += abs(W[row + i] + y[i])
            total += abs(y[i])
            W[row + i] = -y[i]
    for i in range(lo, hi):
        W[base + i * b + own] = -y[i]
    return changed, total


@njit(cache=True, nogil=True)
def _write_columns(block: int, lo: int, hi: int, offset: IntArray, size: IntArray, W: FloatArray) -> None:
    """Copy the rows lo..hi-1 of a block into its columns."""
    if block < 0:
        return
    base = offset[block]
    b = size[block]
    for i in range(b):
        if i < lo or i >= hi:
            for c in range(lo, hi):
                W[base + i * b + c] = W[base + c * b + i]


@njit(cache=True, nogil=True)
def _nonzero_pairs(
    j: int, block_of: IntArray, slot_of: IntArray, rows: IntArray, beta: FloatArray, is_active: BoolArray
) -> IntArray:
    """Variables with which j has a non-zero entry in some class; they are marked."""
    found = np.empty(block_of.shape[1], np.int64)
    n = 0
    for i in range(block_of.shape[1]):
        for k in range(block_of.shape[0]):
            if block_of[k, i] >= 0 and block_of[k, i] == block_of[k, j] and beta[rows[k] + slot_of[k, i]] != 0.0:
                found[n] = i
                n += 1
                is_active[i] = True
                break
    return found[:n].copy()


@njit(cache=True, nogil=True)
def _violators(
    j: int,
    block_of: IntArray,
    slot_of: IntArray,
    rows: IntArray,
    weight: FloatArray,
    S: FloatArray,
    y: FloatArray,
    lambda1: float,
    lambda2: float,
    is_active: BoolArray,
) -> IntArray:
    """Variables whose pair with j lies outside the dual ball although it is zero; they are marked."""
    found = np.empty(block_of.shape[1], np.int64)
    n = 0
    for i in range(block_of.shape[1]):
        if i == j or is_active[i]:
            continue
        used = 0.0
        for k in range(block_of.shape[0]):
            block = block_of[k, i]
            if block >= 0 and block == block_of[k, j]:
                excess = weight[block] * abs(S[rows[k] + slot_of[k, i]] + y[k, slot_of[k, i]]) - lambda1
                if excess > 0.0:
                    used += excess * excess
        if used > lambda2 * lambda2:
            found[n] = i
            n += 1
            is_active[i] = True
    return found[:n].copy()


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
    for a in range(slot.shape[0]):
        factor = x[a] - before[a]
        if slot[a] >= 0 and factor != 0.0:
            base = offset + slot[a] * size
            for i in range(size):
                y[i] += factor * W[base + i]
    for i in range(lo, hi):
        y[i] = 0.0
        for a in range(slot.shape[0]):
            if slot[a] >= 0:
                y[i] += x[a] * W[offset + i * size + slot[a]]


@njit(cache=True, nogil=True)
def _descend(
    slot: IntArray,
    blocks: IntArray,
    rows: IntArray,
    offset: IntArray,
    size: IntArray,
    weight: FloatArray,
    precision: FloatArray,
    S: FloatArray,
    W: FloatArray,
    lo: IntArray,
    hi: IntArray,
    lambda1: float,
    lambda2: float,
    tolerance: float,
    x: FloatArray,
) -> None:
    """Coordinate descent on the active pairs of a column, on their own part of W, until x settles."""
    n_classes, n = slot.shape
    gram = np.zeros((n_classes, n, n))
    slope = np.zeros((n_classes, n))
    for k in range(n_classes):
        for a in range(n):
            if slot[k, a] < 0:
                continue
            base = offset[blocks[k]]
            b = size[blocks[k]]
            total = S[rows[k] + slot[k, a]]
            for c in range(n):
                if slot[k, c] >= 0:
                    fresh = lo[k] <= slot[k, c] < hi[k]
                    row, column = (slot[k, c], slot[k, a]) if fresh else (slot[k, a], slot[k, c])
                    gram[k, a, c] = W[base + row * b + column]
                    total += gram[k, a, c] * x[k, c]
            slope[k, a] = total
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
                    for c in range(n):
                        slope[k, c] += step * gram[k, a, c]
                    biggest = max(biggest, abs(step) * gram[k, a, a])
        if biggest <= tolerance:
            break
