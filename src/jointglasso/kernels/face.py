"""Conjugate gradients on a face of the penalty: where support and signs are fixed, the Newton model is smooth.

Matrices are symmetric blocks in flat storage, zero off the face, so that the inner product of two of them is a plain
sum.
"""

from __future__ import annotations

import numpy as np

from jointglasso._typing import FloatArray, IntArray
from jointglasso.kernels.cache import njit
from jointglasso.kernels.group_pair import of_pair
from jointglasso.kernels.pair_types import GroupPair


@njit(cache=True, nogil=True)
def _curve(
    blocks: IntArray,
    active: IntArray,
    start: IntArray,
    upper: IntArray,
    entry_block: IntArray,
    row: IntArray,
    column: IntArray,
    offset: IntArray,
    size: IntArray,
    weight: FloatArray,
    W: FloatArray,
    z: FloatArray,
    P: FloatArray,
    product: FloatArray,
    out: FloatArray,
) -> None:
    """``w (W P W)`` on the diagonal and on the non-zeros of z; `product` receives P W."""
    for block in blocks:
        b = size[block]
        base = offset[block]
        out[base : base + b * b] = 0.0
        for i in range(b):
            target = product[base + i * b : base + (i + 1) * b]
            target[:] = 0.0
            for t in range(b):
                value = P[base + i * b + t]
                if value != 0.0:
                    source = W[base + t * b : base + (t + 1) * b]
                    for j in range(b):
                        target[j] += value * source[j]
        for i in range(b):
            total = 0.0
            for t in range(b):
                total += W[base + i * b + t] * product[base + t * b + i]
            out[base + i * (b + 1)] = weight[block] * total
    for pair in active:
        for entry in range(start[pair], start[pair + 1]):
            if z[upper[entry]] == 0.0:
                continue
            block = entry_block[entry]
            b = size[block]
            base = offset[block]
            i = row[entry]
            j = column[entry]
            total = 0.0
            for t in range(b):
                total += W[base + i * b + t] * product[base + t * b + j]
            out[upper[entry]] = weight[block] * total
            out[base + j * b + i] = weight[block] * total


@njit(cache=True, nogil=True)
def _add_group_curvature(
    active: IntArray,
    start: IntArray,
    factor: FloatArray,
    upper: IntArray,
    entry_block: IntArray,
    row: IntArray,
    column: IntArray,
    offset: IntArray,
    size: IntArray,
    z: FloatArray,
    P: FloatArray,
    penalty: GroupPair,
    out: FloatArray,
) -> None:
    """Add the second derivative of ``lambda2 |z|_2`` of every pair, applied to P."""
    for pair in active:
        squares = 0.0
        along = 0.0
        for entry in range(start[pair], start[pair + 1]):
            squares += z[upper[entry]] ** 2
            along += z[upper[entry]] * P[upper[entry]]
        if squares == 0.0:
            continue
        norm = np.sqrt(squares)
        _, l2 = of_pair(penalty, factor, pair)
        for entry in range(start[pair], start[pair + 1]):
            at = upper[entry]
            if z[at] != 0.0:
                block = entry_block[entry]
                value = l2 / norm * (P[at] - z[at] * along / squares)
                out[at] += value
                out[offset[block] + column[entry] * size[block] + row[entry]] += value


@njit(cache=True, nogil=True)
def _dot(blocks: IntArray, offset: IntArray, a: FloatArray, b: FloatArray) -> float:
    total = 0.0
    for block in blocks:
        for at in range(offset[block], offset[block + 1]):
            total += a[at] * b[at]
    return total


@njit(cache=True, nogil=True)
def _slope(
    blocks: IntArray,
    active: IntArray,
    start: IntArray,
    factor: FloatArray,
    upper: IntArray,
    entry_block: IntArray,
    row: IntArray,
    column: IntArray,
    offset: IntArray,
    size: IntArray,
    weight: FloatArray,
    S: FloatArray,
    W: FloatArray,
    z: FloatArray,
    curved: FloatArray,
    penalty: GroupPair,
    lambda_d: float,
    out: FloatArray,
) -> None:
    """Minus the gradient of model plus penalty at z, on the face; `curved` holds ``w (W D W)``."""
    for block in blocks:
        b = size[block]
        out[offset[block] : offset[block + 1]] = 0.0
        for i in range(b):
            at = offset[block] + i * (b + 1)
            out[at] = -(weight[block] * (S[at] - W[at]) + curved[at] + lambda_d)
    for pair in active:
        squares = 0.0
        for entry in range(start[pair], start[pair + 1]):
            squares += z[upper[entry]] ** 2
        norm = np.sqrt(squares)
        l1, l2 = of_pair(penalty, factor, pair)
        for entry in range(start[pair], start[pair + 1]):
            at = upper[entry]
            if z[at] != 0.0:
                block = entry_block[entry]
                smooth = weight[block] * (S[at] - W[at]) + curved[at]
                value = -(smooth + l1 * np.sign(z[at]) + l2 * z[at] / norm)
                out[at] = value
                out[offset[block] + column[entry] * size[block] + row[entry]] = value


@njit(cache=True, nogil=True)
def _precondition(
    blocks: IntArray,
    offset: IntArray,
    size: IntArray,
    weight: FloatArray,
    W: FloatArray,
    R: FloatArray,
    out: FloatArray,
) -> None:
    """Divide by the diagonal of the likelihood's curvature, ``w (W_ij^2 + W_ii W_jj)``, half of it on the diagonal."""
    for block in blocks:
        b = size[block]
        base = offset[block]
        for i in range(b):
            for j in range(b):
                at = base + i * b + j
                if R[at] != 0.0:
                    curvature = W[at] ** 2
                    if i != j:
                        curvature += W[base + i * (b + 1)] * W[base + j * (b + 1)]
                    out[at] = R[at] / (weight[block] * curvature)
                else:
                    out[at] = 0.0


@njit(cache=True, nogil=True)
def _penalty(
    active: IntArray,
    start: IntArray,
    factor: FloatArray,
    upper: IntArray,
    z: FloatArray,
    penalty: GroupPair,
) -> float:
    total = 0.0
    for pair in active:
        absolute = 0.0
        squares = 0.0
        for entry in range(start[pair], start[pair + 1]):
            absolute += abs(z[upper[entry]])
            squares += z[upper[entry]] ** 2
        l1, l2 = of_pair(penalty, factor, pair)
        total += 2.0 * (l1 * absolute + l2 * np.sqrt(squares))
    return total


@njit(cache=True, nogil=True)
def _trial(
    blocks: IntArray,
    offset: IntArray,
    size: IntArray,
    z: FloatArray,
    step: FloatArray,
    change: FloatArray,
    target: FloatArray,
) -> None:
    """Go from z along `step`, entries that would change their sign stopping at zero: where to, and by how much."""
    for block in blocks:
        b = size[block]
        for i in range(b):
            for j in range(b):
                at = offset[block] + i * b + j
                moved = z[at] + step[at]
                target[at] = 0.0 if i != j and moved * z[at] < 0.0 else moved
                change[at] = target[at] - z[at]


@njit(cache=True, nogil=True)
def _linear_change(
    blocks: IntArray,
    active: IntArray,
    start: IntArray,
    factor: FloatArray,
    upper: IntArray,
    offset: IntArray,
    size: IntArray,
    z: FloatArray,
    slope: FloatArray,
    change: FloatArray,
    penalty: GroupPair,
) -> float:
    """First-order change of the smooth part of the model; `slope` is minus the gradient, penalty included."""
    total = 0.0
    for block in blocks:
        for i in range(size[block]):
            at = offset[block] + i * (size[block] + 1)
            total -= slope[at] * change[at]
    for pair in active:
        squares = 0.0
        for entry in range(start[pair], start[pair + 1]):
            squares += z[upper[entry]] ** 2
        norm = np.sqrt(squares)
        l1, l2 = of_pair(penalty, factor, pair)
        for entry in range(start[pair], start[pair + 1]):
            at = upper[entry]
            if z[at] != 0.0:
                smooth = -slope[at] - l1 * np.sign(z[at]) - l2 * z[at] / norm
                total += 2.0 * smooth * change[at]
    return total


@njit(cache=True, nogil=True)
def solve_on_face(
    blocks: IntArray,
    active: IntArray,
    start: IntArray,
    factor: FloatArray,
    upper: IntArray,
    entry_block: IntArray,
    row: IntArray,
    column: IntArray,
    offset: IntArray,
    size: IntArray,
    weight: FloatArray,
    S: FloatArray,
    W: FloatArray,
    theta: FloatArray,
    D: FloatArray,
    DW: FloatArray,
    scratch: FloatArray,
    wanted: float,
    penalty: GroupPair,
    lambda_d: float,
) -> None:
    """Improve D on its own face by conjugate gradients, stopping at zero where a sign would flip.

    The step is kept only where it lowers the model; D and DW = D W are updated together.
    """
    z, R, P, step, curved = scratch[0], scratch[1], scratch[2], scratch[3], scratch[4]
    product, conditioned, slope = scratch[5], scratch[6], scratch[7]
    for block in blocks:
        for at in range(offset[block], offset[block + 1]):
            z[at] = theta[at] + D[at]
            step[at] = 0.0
    _curve(blocks, active, start, upper, entry_block, row, column, offset, size, weight, W, z, D, product, curved)
    _slope(
        blocks, active, start, factor, upper, entry_block, row, column, offset, size, weight, S, W, z, curved,
        penalty, lambda_d, R,
    )  # fmt: skip
    for block in blocks:
        slope[offset[block] : offset[block + 1]] = R[offset[block] : offset[block + 1]]
    _precondition(blocks, offset, size, weight, W, R, conditioned)
    rho = _dot(blocks, offset, R, conditioned)
    first = rho
    for block in blocks:
        P[offset[block] : offset[block + 1]] = conditioned[offset[block] : offset[block + 1]]
    for _ in range(300):
        if not rho > first * wanted:
            break
        _curve(blocks, active, start, upper, entry_block, row, column, offset, size, weight, W, z, P, product, curved)
        _add_group_curvature(
            active, start, factor, upper, entry_block, row, column, offset, size, z, P, penalty, curved
        )
        curvature = _dot(blocks, offset, P, curved)
        if not curvature > 0.0:  # W is singular to within rounding
            break
        length = rho / curvature
        for block in blocks:
            for at in range(offset[block], offset[block + 1]):
                step[at] += length * P[at]
                R[at] -= length * curved[at]
        _precondition(blocks, offset, size, weight, W, R, conditioned)
        previous = rho
        rho = _dot(blocks, offset, R, conditioned)
        for block in blocks:
            for at in range(offset[block], offset[block + 1]):
                P[at] = conditioned[at] + rho / previous * P[at]
    before = _penalty(active, start, factor, upper, z, penalty)
    for _ in range(20):
        _trial(blocks, offset, size, z, step, P, conditioned)
        _curve(blocks, active, start, upper, entry_block, row, column, offset, size, weight, W, z, P, product, curved)
        change = _linear_change(blocks, active, start, factor, upper, offset, size, z, slope, P, penalty)
        change += 0.5 * _dot(blocks, offset, P, curved)
        change += _penalty(active, start, factor, upper, conditioned, penalty) - before
        if change < 0.0:
            for block in blocks:
                for at in range(offset[block], offset[block + 1]):
                    D[at] = conditioned[at] - theta[at]
                    DW[at] += product[at]
            return
        for block in blocks:
            step[offset[block] : offset[block + 1]] *= 0.5
