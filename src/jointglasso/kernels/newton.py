"""Proximal Newton on small groups, compiled from end to end: no Python between the iterations of a group.

Per outer iteration: invert Theta; minimise the second-order model plus penalty by coordinate descent over the K-vectors
of the active pairs; search along the direction with a Cholesky factor as the test of definiteness; bound the gap.
All matrices are in flat block storage, described in `blocks.system`.
"""

from __future__ import annotations

import numpy as np

from jointglasso._typing import BoolArray, FloatArray, IntArray
from jointglasso.kernels.cache import njit
from jointglasso.kernels.face import solve_on_face
from jointglasso.kernels.group_pair import of_pair, soft, update
from jointglasso.kernels.group_state import block_of, expected_change, group_gap, group_objective, invert
from jointglasso.kernels.pair_types import GroupPair

_MAX_HALVINGS = 40
_ARMIJO = 1e-3


@njit(cache=True, nogil=True)
def _active_pairs(
    pairs: IntArray,
    start: IntArray,
    factor: FloatArray,
    upper: IntArray,
    entry_block: IntArray,
    weight: FloatArray,
    S: FloatArray,
    W: FloatArray,
    theta: FloatArray,
    penalty: GroupPair,
) -> IntArray:
    """Pairs that are not zero, or not allowed to stay zero: the others keep their zeros in this iteration."""
    kept = np.empty(pairs.shape[0], np.int64)
    n = 0
    for pair in pairs:
        l1, l2 = of_pair(penalty, factor, pair)
        used = 0.0
        nonzero = False
        for entry in range(start[pair], start[pair + 1]):
            at = upper[entry]
            nonzero = nonzero or theta[at] != 0.0
            excess = soft(weight[entry_block[entry]] * (S[at] - W[at]), l1)
            used += excess * excess
        if nonzero or used > l2 * l2:
            kept[n] = pair
            n += 1
    return kept[:n]


@njit(cache=True, nogil=True)
def _sweep(
    blocks: IntArray,
    active: IntArray,
    start: IntArray,
    factor: FloatArray,
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
    penalty: GroupPair,
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
    linear, curvatures, x = scratch[0], scratch[1], scratch[2]
    classes = np.empty(0, np.int64)
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
            linear[k] = curvatures[k] * (theta[at] + D[at]) - w * (S[at] - W[at] + product)
        v = 1.0 if factor.shape[0] == 0 else factor[pair]
        update(penalty, curvatures, linear, classes, n, v, x, scratch[2], classes)
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
def _direction(
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
    face: FloatArray,
    vectors: FloatArray,
    number: int,
    penalty: GroupPair,
    lambda_d: float,
) -> None:
    """Minimise the model into D: a few sweeps find the face (support and signs), conjugate gradients solve on it.

    Coordinate descent alone needs as many sweeps as the squared condition number of Theta. The inner accuracy follows
    the outer iteration.
    """
    for block in blocks:
        D[offset[block] : offset[block + 1]] = 0.0
        DW[offset[block] : offset[block + 1]] = 0.0
    wanted = 0.1 ** min(16, 1 + number)
    first = 0.0
    for _ in range(min(2 + number, 8)):
        for _ in range(5):
            decrease = _sweep(
                blocks, active, start, factor, entry_block, row, column, offset, size, weight, S, W, theta, D, DW,
                penalty, lambda_d, vectors,
            )  # fmt: skip
            first = max(first, decrease)
            if decrease <= first * wanted:
                return
        solve_on_face(
            blocks, active, start, factor, upper, entry_block, row, column, offset, size, weight, S, W, theta, D, DW,
            face, wanted, penalty, lambda_d,
        )  # fmt: skip


@njit(cache=True, nogil=True)
def solve_groups(
    block_start: IntArray,
    group_blocks: IntArray,
    pairs_start: IntArray,
    group_pairs: IntArray,
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
    theta: FloatArray,
    todo: BoolArray,
    gap_limit: FloatArray,
    max_iter: int,
    penalty: GroupPair,
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
    face = np.zeros((8, theta.shape[0]))
    trial = theta.copy()
    largest = size.max() if size.shape[0] else 0
    square = np.zeros((largest, largest))
    vectors = np.empty((3, max(1, (start[1:] - start[:-1]).max() if start.shape[0] > 1 else 1)))
    for group in range(n_groups):
        if not todo[group]:
            continue
        blocks = group_blocks[block_start[group] : block_start[group + 1]]
        pairs = group_pairs[pairs_start[group] : pairs_start[group + 1]]
        objective = group_objective(
            blocks, pairs, start, factor, upper, offset, size, weight, S, theta, L, penalty, lambda_d
        )
        idle = 0
        for number in range(max_iter + 1):
            for block in blocks:
                b = size[block]
                invert(block_of(L, offset, size, block), block_of(W, offset, size, block), square[:b, :b])
            gaps[group] = group_gap(
                blocks, pairs, start, factor, upper, entry_block, row, column, offset, size, weight, S, W, theta, L, D,
                square, penalty, lambda_d,
            )  # fmt: skip
            if gaps[group] <= gap_limit[group] or number == max_iter:
                break
            iterations[group] = number + 1
            active = _active_pairs(pairs, start, factor, upper, entry_block, weight, S, W, theta, penalty)
            _direction(
                blocks, active, start, factor, upper, entry_block, row, column, offset, size, weight, S, W, theta, D,
                DW, face, vectors, number, penalty, lambda_d,
            )  # fmt: skip
            change = expected_change(
                blocks, active, start, factor, upper, offset, size, weight, S, W, theta, D, penalty, lambda_d
            )
            step = 1.0
            moved = False
            for _ in range(_MAX_HALVINGS):
                for block in blocks:
                    for at in range(offset[block], offset[block + 1]):
                        trial[at] = theta[at] + step * D[at]
                value = group_objective(
                    blocks, pairs, start, factor, upper, offset, size, weight, S, trial, L, penalty, lambda_d
                )
                if value <= objective + _ARMIJO * step * change + 1e-13 * abs(objective):
                    moved = True
                    idle = idle + 1 if objective - value <= 1e-14 * abs(objective) else 0
                    break
                step *= 0.5
            if not moved or idle == 3:  # nothing but rounding is left to gain
                break
            for block in blocks:
                theta[offset[block] : offset[block + 1]] = trial[offset[block] : offset[block + 1]]
            objective = value
    return iterations, gaps
