"""Proximal Newton on small groups, compiled from end to end: no Python between the iterations of a group.

Per outer iteration: invert Theta; minimise the second-order model plus penalty by coordinate descent over the K-vectors
of the active pairs; search along the direction with a Cholesky factor as the test of definiteness; bound the gap.
All matrices are in flat block storage (see `blocks.system`).
"""

from __future__ import annotations

import numpy as np
from numba import njit

from jointglasso._typing import BoolArray, FloatArray, IntArray
from jointglasso.kernels.group_penalty import soft

_MAX_HALVINGS = 40
_ARMIJO = 1e-3


@njit(cache=True, nogil=True)
def minimise_pair(
    target: FloatArray, curvature: FloatArray, lambda1: float, lambda2: float, x: FloatArray, n: int
) -> None:
    """Minimise ``sum_k a_k (x_k - c_k)^2 / 2 + lambda1 |x|_1 + lambda2 |x|_2`` over the first n coordinates, into x.

    With s = soft(a c, lambda1) the solution is x_k = s_k r / (a_k r + lambda2), r = |x| the root of
    ``sum_k s_k^2 / (a_k r + lambda2)^2 = 1``; Newton on one over the root of that sum, which is concave and
    increasing in r, climbs to it from the left end of its bracket.
    """
    squares = 0.0
    steepest = 0.0
    for k in range(n):
        x[k] = soft(curvature[k] * target[k], lambda1)
        squares += x[k] * x[k]
        if x[k] != 0.0:
            steepest = max(steepest, curvature[k])
    if squares <= lambda2 * lambda2:
        x[:n] = 0.0
        return
    if lambda2 == 0.0:
        for k in range(n):
            x[k] /= curvature[k]
        return
    r = (np.sqrt(squares) - lambda2) / steepest
    for _ in range(50):
        total = 0.0
        slope = 0.0
        for k in range(n):
            scale = curvature[k] * r + lambda2
            part = (x[k] / scale) ** 2
            total += part
            slope += part * curvature[k] / scale
        step = total * (np.sqrt(total) - 1.0) / slope
        r += step
        if abs(step) <= 1e-15 * r:
            break
    for k in range(n):
        x[k] *= r / (curvature[k] * r + lambda2)


@njit(cache=True, nogil=True)
def _cholesky(A: FloatArray, L: FloatArray) -> float:
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
def _invert(L: FloatArray, W: FloatArray, scratch: FloatArray) -> None:
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
def _block(flat: FloatArray, offset: IntArray, size: IntArray, block: int) -> FloatArray:
    b = size[block]
    return flat[offset[block] : offset[block] + b * b].reshape(b, b)


@njit(cache=True, nogil=True)
def _active_pairs(
    pairs: IntArray,
    start: IntArray,
    upper: IntArray,
    entry_block: IntArray,
    weight: FloatArray,
    S: FloatArray,
    W: FloatArray,
    theta: FloatArray,
    lambda1: float,
    lambda2: float,
) -> IntArray:
    """Pairs that are not zero, or not allowed to stay zero: the others keep their zeros in this iteration."""
    kept = np.empty(pairs.shape[0], np.int64)
    n = 0
    for pair in pairs:
        used = 0.0
        nonzero = False
        for entry in range(start[pair], start[pair + 1]):
            at = upper[entry]
            nonzero = nonzero or theta[at] != 0.0
            excess = soft(weight[entry_block[entry]] * (S[at] - W[at]), lambda1)
            used += excess * excess
        if nonzero or used > lambda2 * lambda2:
            kept[n] = pair
            n += 1
    return kept[:n]


@njit(cache=True, nogil=True)
def _sweep(
    blocks: IntArray,
    active: IntArray,
    start: IntArray,
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
    lambda1: float,
    lambda2: float,
    lambda_d: float,
    scratch: FloatArray,
) -> float:
    """One pass of coordinate descent on the model at D; the decrease it made, up to a factor."""
    decrease = 0.0
    for block in blocks:
        b = size[block]
        base = offset[block]
        for i in range(b):
            product = 0.0
            for t in range(b):
                product += W[base + i * b + t] * DW[base + t * b + i]
            at = base + i * b + i
            w = weight[block]
            curvature = w * W[at] * W[at]
            move = -(w * (S[at] - W[at] + product) + lambda_d) / curvature
            decrease += curvature * move * move
            D[at] += move
            for t in range(b):
                DW[base + i * b + t] += move * W[base + i * b + t]
    target, curvatures, x = scratch[0], scratch[1], scratch[2]
    for pair in active:
        first = start[pair]
        n = start[pair + 1] - first
        for k in range(n):
            entry = first + k
            block = entry_block[entry]
            b = size[block]
            base = offset[block]
            i = row[entry]
            j = column[entry]
            at = base + i * b + j
            product = 0.0
            for t in range(b):
                product += W[base + i * b + t] * DW[base + t * b + j]
            w = weight[block]
            curvatures[k] = w * (W[at] * W[at] + W[base + i * b + i] * W[base + j * b + j])
            target[k] = theta[at] + D[at] - w * (S[at] - W[at] + product) / curvatures[k]
        minimise_pair(target, curvatures, lambda1, lambda2, x, n)
        for k in range(n):
            entry = first + k
            block = entry_block[entry]
            b = size[block]
            base = offset[block]
            i = row[entry]
            j = column[entry]
            at = base + i * b + j
            wanted = x[k] - theta[at]  # so that theta + D is an exact zero where x is
            move = wanted - D[at]
            if move != 0.0:
                decrease += 2.0 * curvatures[k] * move * move
                D[at] = wanted
                D[base + j * b + i] = wanted
                for t in range(b):
                    DW[base + i * b + t] += move * W[base + j * b + t]
                    DW[base + j * b + t] += move * W[base + i * b + t]
    return decrease


@njit(cache=True, nogil=True)
def _objective(
    blocks: IntArray,
    pairs: IntArray,
    start: IntArray,
    upper: IntArray,
    offset: IntArray,
    size: IntArray,
    weight: FloatArray,
    S: FloatArray,
    theta: FloatArray,
    L: FloatArray,
    lambda1: float,
    lambda2: float,
    lambda_d: float,
) -> float:
    """Objective of the group at theta, whose Cholesky factors go into L; infinite if not definite."""
    total = 0.0
    for block in blocks:
        A = _block(theta, offset, size, block)
        logdet = _cholesky(A, _block(L, offset, size, block))
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
        total += 2.0 * (lambda1 * absolute + lambda2 * np.sqrt(squares))
    return total


@njit(cache=True, nogil=True)
def _expected_change(
    blocks: IntArray,
    active: IntArray,
    start: IntArray,
    upper: IntArray,
    offset: IntArray,
    size: IntArray,
    weight: FloatArray,
    S: FloatArray,
    W: FloatArray,
    theta: FloatArray,
    D: FloatArray,
    lambda1: float,
    lambda2: float,
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
        change += 2.0 * (lambda1 * (after - before) + lambda2 * (np.sqrt(squares_after) - np.sqrt(squares_before)))
    return change


@njit(cache=True, nogil=True)
def _gap(
    blocks: IntArray,
    pairs: IntArray,
    start: IntArray,
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
    lambda1: float,
    lambda2: float,
    lambda_d: float,
) -> float:
    """Upper bound on the duality gap of the group (see `certificate`); infinite unless close to the optimum."""
    for pair in pairs:
        first = start[pair]
        last = start[pair + 1]
        squares = 0.0
        used = 0.0
        for entry in range(first, last):
            at = upper[entry]
            squares += theta[at] * theta[at]
            excess = soft(weight[entry_block[entry]] * (W[at] - S[at]), lambda1)
            used += excess * excess
        norm = np.sqrt(squares)
        outside = 1.0 - lambda2 / np.sqrt(used) if used > lambda2 * lambda2 else 0.0
        for entry in range(first, last):
            at = upper[entry]
            w = weight[entry_block[entry]]
            u = w * (W[at] - S[at])
            if norm == 0.0:
                shift = -outside * soft(u, lambda1)
            elif theta[at] == 0.0:
                shift = -soft(u, lambda1)
            else:
                shift = lambda1 * np.sign(theta[at]) + lambda2 * theta[at] / norm - u
            block = entry_block[entry]
            R[at] = shift / w
            R[offset[block] + column[entry] * size[block] + row[entry]] = shift / w
    total = 0.0
    for block in blocks:
        b = size[block]
        A = _block(R, offset, size, block)
        factor = _block(L, offset, size, block)
        for i in range(b):
            at = offset[block] + i * (b + 1)
            A[i, i] = S[at] + lambda_d / weight[block] - W[at]
        # M = L' R L, L lower triangular
        for i in range(b):
            for j in range(b):
                value = 0.0
                for t in range(j, b):
                    value += A[i, t] * factor[t, j]
                scratch[i, j] = value
        squares = 0.0
        for i in range(b):
            for j in range(b):
                value = 0.0
                for t in range(i, b):
                    value += factor[t, i] * scratch[t, j]
                squares += value * value
        norm = np.sqrt(squares)
        if not norm < 0.5:
            return np.inf
        total += weight[block] * 0.5 * squares / (1.0 - norm)
    return total


@njit(cache=True, nogil=True)
def solve_groups(
    block_start: IntArray,
    group_blocks: IntArray,
    pairs_start: IntArray,
    group_pairs: IntArray,
    start: IntArray,
    upper: IntArray,
    entry_block: IntArray,
    row: IntArray,
    column: IntArray,
    offset: IntArray,
    size: IntArray,
    weight: FloatArray,
    S: FloatArray,
    theta: FloatArray,
    todo: BoolArray,
    gap_limit: FloatArray,
    max_iter: int,
    lambda1: float,
    lambda2: float,
    lambda_d: float,
) -> tuple[IntArray, FloatArray]:
    """Solve the groups marked in `todo` in place; the iterations each took and its gap.

    Blocks of group g are ``group_blocks[block_start[g]:block_start[g + 1]]``, its pairs likewise.
    """
    n_groups = todo.shape[0]
    iterations = np.zeros(n_groups, np.int64)
    gaps = np.full(n_groups, np.inf)
    W = np.zeros_like(theta)
    L = np.zeros_like(theta)
    D = np.zeros_like(theta)
    DW = np.zeros_like(theta)
    trial = theta.copy()
    largest = size.max() if size.shape[0] else 0
    square = np.zeros((largest, largest))
    vectors = np.empty((3, max(1, (start[1:] - start[:-1]).max() if start.shape[0] > 1 else 1)))
    for group in range(n_groups):
        if not todo[group]:
            continue
        blocks = group_blocks[block_start[group] : block_start[group + 1]]
        pairs = group_pairs[pairs_start[group] : pairs_start[group + 1]]
        objective = _objective(
            blocks, pairs, start, upper, offset, size, weight, S, theta, L, lambda1, lambda2, lambda_d
        )
        for number in range(max_iter + 1):
            for block in blocks:
                b = size[block]
                _invert(_block(L, offset, size, block), _block(W, offset, size, block), square[:b, :b])
            gaps[group] = _gap(
                blocks, pairs, start, upper, entry_block, row, column, offset, size, weight, S, W, theta, L, D,
                square, lambda1, lambda2, lambda_d,
            )  # fmt: skip
            if gaps[group] <= gap_limit[group] or number == max_iter:
                break
            iterations[group] = number + 1
            active = _active_pairs(pairs, start, upper, entry_block, weight, S, W, theta, lambda1, lambda2)
            for block in blocks:
                D[offset[block] : offset[block + 1]] = 0.0
                DW[offset[block] : offset[block + 1]] = 0.0
            first = 0.0
            for _ in range(min(500, 5 + 5 * number)):
                decrease = _sweep(
                    blocks, active, start, entry_block, row, column, offset, size, weight, S, W, theta, D, DW,
                    lambda1, lambda2, lambda_d, vectors,
                )  # fmt: skip
                first = max(first, decrease)
                if decrease <= first * 0.1 ** min(16, 4 + 2 * number):
                    break
            change = _expected_change(
                blocks, active, start, upper, offset, size, weight, S, W, theta, D, lambda1, lambda2, lambda_d
            )
            step = 1.0
            moved = False
            for _ in range(_MAX_HALVINGS):
                for block in blocks:
                    for at in range(offset[block], offset[block + 1]):
                        trial[at] = theta[at] + step * D[at]
                value = _objective(
                    blocks, pairs, start, upper, offset, size, weight, S, trial, L, lambda1, lambda2, lambda_d
                )
                if value <= objective + _ARMIJO * step * change + 1e-13 * abs(objective):
                    moved = True
                    break
                step *= 0.5
            if not moved:
                break
            for block in blocks:
                theta[offset[block] : offset[block + 1]] = trial[offset[block] : offset[block + 1]]
            objective = value
    return iterations, gaps
