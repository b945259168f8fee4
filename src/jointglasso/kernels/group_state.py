"""Pieces of the compiled Newton method: small factorisations, objective, expected decrease, duality gap of a group."""

from __future__ import annotations

import numpy as np

from jointglasso._typing import FloatArray, IntArray
from jointglasso.kernels.cache import njit
from jointglasso.kernels.group_pair import of_pair, soft
from jointglasso.kernels.pair_types import GroupPair


@njit(cache=True, nogil=True)
def cholesky(A: FloatArray, L: FloatArray) -> float:
    """Lower factor of A into L; the log-determinant, or infinity if A is not positive definite."""
    logdet = 0.0
    for i in range(A.shape[0]):
        for j in range(i + 1):
            total = A[i, j]
            for t in range(j):
                total -= L[i, t] * L[j, t]
            if i > j:
                L[i, j] = total / L[j, j]
            elif total > 0.0:
                L[i, i] = np.sqrt(total)
                logdet += np.log(total)
            else:
                return np.inf
    return logdet


@njit(cache=True, nogil=True)
def invert(L: FloatArray, W: FloatArray, scratch: FloatArray) -> None:
    """Inverse of L L' into W."""
    b = L.shape[0]
    for i in range(b):
        scratch[i, i] = 1.0 / L[i, i]
        for j in range(i):
            total = 0.0
            for t in range(j, i):
                total += L[i, t] * scratch[t, j]
            scratch[i, j] = -total / L[i, i]
    for i in range(b):
        for j in range(i + 1):
            total = 0.0
            for t in range(i, b):
                total += scratch[t, i] * scratch[t, j]
            W[i, j] = total
            W[j, i] = total


@njit(cache=True, nogil=True)
def block_of(flat: FloatArray, offset: IntArray, size: IntArray, block: int) -> FloatArray:
    """View of one block of a flat vector as a matrix."""
    b = size[block]
    return flat[offset[block] : offset[block] + b * b].reshape(b, b)


@njit(cache=True, nogil=True)
def group_objective(
    blocks: IntArray,
    pairs: IntArray,
    start: IntArray,
    factor: FloatArray,
    upper: IntArray,
    offset: IntArray,
    size: IntArray,
    weight: FloatArray,
    S: FloatArray,
    theta: FloatArray,
    L: FloatArray,
    penalty: GroupPair,
    lambda_d: float,
) -> float:
    """Objective of the group at theta, whose Cholesky factors go into L; infinite if not definite."""
    total = 0.0
    for block in blocks:
        A = block_of(theta, offset, size, block)
        logdet = cholesky(A, block_of(L, offset, size, block))
        if logdet == np.inf:
            return np.inf
        trace = 0.0
        for at in range(offset[block], offset[block + 1]):
            trace += S[at] * theta[at]
        total += weight[block] * (trace - logdet)
        for i in range(size[block]):
            total += lambda_d * A[i, i]
    for pair in pairs:
        absolute = 0.0
        squares = 0.0
        for entry in range(start[pair], start[pair + 1]):
            value = theta[upper[entry]]
            absolute += abs(value)
            squares += value * value
        l1, l2 = of_pair(penalty, factor, pair)
        total += 2.0 * (l1 * absolute + l2 * np.sqrt(squares))
    return total


@njit(cache=True, nogil=True)
def expected_change(
    blocks: IntArray,
    active: IntArray,
    start: IntArray,
    factor: FloatArray,
    upper: IntArray,
    offset: IntArray,
    size: IntArray,
    weight: FloatArray,
    S: FloatArray,
    W: FloatArray,
    theta: FloatArray,
    D: FloatArray,
    penalty: GroupPair,
    lambda_d: float,
) -> float:
    """First-order change of the objective along D, the penalty taken at the full step; never positive."""
    change = 0.0
    for block in blocks:
        for at in range(offset[block], offset[block + 1]):
            change += weight[block] * (S[at] - W[at]) * D[at]
        for i in range(size[block]):
            change += lambda_d * D[offset[block] + i * (size[block] + 1)]
    for pair in active:
        before = 0.0
        after = 0.0
        squares_before = 0.0
        squares_after = 0.0
        for entry in range(start[pair], start[pair + 1]):
            old = theta[upper[entry]]
            new = old + D[upper[entry]]
            before += abs(old)
            after += abs(new)
            squares_before += old * old
            squares_after += new * new
        l1, l2 = of_pair(penalty, factor, pair)
        change += 2.0 * (l1 * (after - before) + l2 * (np.sqrt(squares_after) - np.sqrt(squares_before)))
    return change


@njit(cache=True, nogil=True)
def group_gap(
    blocks: IntArray,
    pairs: IntArray,
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
    L: FloatArray,
    R: FloatArray,
    scratch: FloatArray,
    penalty: GroupPair,
    lambda_d: float,
) -> float:
    """Upper bound on the duality gap of the group (see `certificate`); infinite unless close to the optimum."""
    for pair in pairs:
        first = start[pair]
        last = start[pair + 1]
        l1, l2 = of_pair(penalty, factor, pair)
        squares = 0.0
        used = 0.0
        for entry in range(first, last):
            at = upper[entry]
            squares += theta[at] * theta[at]
            excess = soft(weight[entry_block[entry]] * (W[at] - S[at]), l1)
            used += excess * excess
        norm = np.sqrt(squares)
        outside = 1.0 - l2 / np.sqrt(used) if used > l2 * l2 else 0.0
        for entry in range(first, last):
            at = upper[entry]
            w = weight[entry_block[entry]]
            u = w * (W[at] - S[at])
            if norm == 0.0:
                shift = -outside * soft(u, l1)
            elif theta[at] == 0.0:
                shift = -soft(u, l1)
            else:
                shift = l1 * np.sign(theta[at]) + l2 * theta[at] / norm - u
            block = entry_block[entry]
            R[at] = shift / w
            R[offset[block] + column[entry] * size[block] + row[entry]] = shift / w
    total = 0.0
    for block in blocks:
        b = size[block]
        A = block_of(R, offset, size, block)
        lower = block_of(L, offset, size, block)
        for i in range(b):
            at = offset[block] + i * (b + 1)
            A[i, i] = S[at] + lambda_d / weight[block] - W[at]
        # M = L' R L, L lower triangular
        for i in range(b):
            for j in range(b):
                value = 0.0
                for t in range(j, b):
                    value += A[i, t] * lower[t, j]
                scratch[i, j] = value
        squares = 0.0
        for i in range(b):
            for j in range(b):
                value = 0.0
                for t in range(i, b):
                    value += lower[t, i] * scratch[t, j]
                squares += value * value
        norm = np.sqrt(squares)
        if not norm < 0.5:
            return np.inf
        total += weight[block] * 0.5 * squares / (1.0 - norm)
    return total
