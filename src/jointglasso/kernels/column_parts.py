"""Column update shared by the sweeps over large and small groups: coordinate descent, diagonal entry, rescaling.

For column j, in every class: x = t the column of Theta off the diagonal, tau = Theta_jj, W_11 the other rows and
columns of W (see `kernels.columns` for the problem).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from jointglasso._typing import FloatArray, IntArray
from jointglasso.kernels.group_pair import times
from jointglasso.kernels.group_state import block_of
from jointglasso.kernels.jit import njit_internal, njit_no_refcount
from jointglasso.kernels.pair import Penalty, pair_homogeneous, pair_separable, pair_threshold, pair_update
from jointglasso.kernels.pair_types import N_INTEGER_ROWS, Blocks, Columns, PairClasses, PenaltyWorkspace

#: Reciprocal of the largest factor by which one update rescales a column: beyond what single precision resolves. Any
#: smaller step than that to the minimum along the ray leaves W outside the dual ball: with 0.05, sweeps over highly
#: correlated variables at a small penalty diverged.
_LEAST_REST = 1e-4


class PairWorkspace(NamedTuple):
    """Scratch arrays for one pair in K classes."""

    a: FloatArray
    b: FloatArray
    """(K,) both: curvature and linear coefficient of the pair problem."""
    new: FloatArray
    """(K,): values of the pair."""
    cls: IntArray
    """(K,): classes that contain the pair."""
    l1: FloatArray
    """(K,): weight of |t| in these classes."""
    work: PenaltyWorkspace


class ColumnDiagonal(NamedTuple):
    """Diagonal data of column j, (K,) each: class weight w_k, W_jj and tau = Theta_jj."""

    weight: FloatArray
    variance: FloatArray
    tau: FloatArray


class Column(NamedTuple):
    """A column during its update, in all classes, with W and S as full blocks or restricted to the active pairs."""

    x: FloatArray
    """(K, b): t, the column of Theta off the diagonal."""
    product: FloatArray
    """(K, b): W_11 t."""
    diagonal: ColumnDiagonal
    block: IntArray
    """(K,): block of the column, -1 for none."""
    square: FloatArray
    """(K,): t' W_11 t."""
    ray: FloatArray
    """(K,): last rescaling factor of t and tau."""
    W: Any
    S: Any
    base: IntArray
    """(K,): start of the matrix of each class in W; then its side length, and the start of the column in S."""
    side: IntArray
    row: IntArray
    slot: IntArray
    """(n, K): row of each active pair in each class, -1 where a class does not contain it."""
    variance: FloatArray
    """(n, K): W_ii at that row."""
    factor: FloatArray
    """(n,): weight of the coupling term of each active pair."""
    l1: FloatArray
    """(K, n): weight of |t| of each active pair in each class."""


@njit_internal
def allocate_workspace(n_classes: int, workspace_size: int) -> PairWorkspace:
    """Allocate scratch arrays for one pair in `n_classes` classes; the penalty needs `workspace_size` rows."""
    reals, integers = np.empty((workspace_size, n_classes)), np.empty((N_INTEGER_ROWS, n_classes), np.int64)
    a, b, new, cls = np.empty(n_classes), np.empty(n_classes), np.empty(n_classes), np.empty(n_classes, np.int64)
    return PairWorkspace(a, b, new, cls, np.empty(n_classes), PenaltyWorkspace(reals, integers))


@njit_no_refcount
def descend_once(penalty: Penalty, n_active: int, column: Column, workspace: PairWorkspace) -> float:
    """One pass of coordinate descent over the active pairs of a column at fixed tau; the largest change of w_12."""
    x, product, W, S = column.x, column.product, column.W, column.S
    weight, tau = column.diagonal.weight, column.diagonal.tau
    slots, variance, factor, l1 = column.slot, column.variance, column.factor, column.l1
    base, side, row = column.base, column.side, column.row
    a_pair, b_pair, new, l1_pair = workspace.a, workspace.b, workspace.new, workspace.l1
    cls, work = workspace.cls, workspace.work
    max_change = 0.0
    for a in range(n_active):
        m = 0
        for k in range(slots.shape[1]):
            slot = slots[a, k]
            if slot >= 0:
                a_pair[m] = weight[k] * variance[a, k] / tau[k]
                slope = S[row[k] + slot] + product[k, slot] / tau[k]
                b_pair[m] = a_pair[m] * x[k, slot] - weight[k] * slope
                new[m] = x[k, slot]
                l1_pair[m] = l1[k, a]
                cls[m] = k
                m += 1
        pair_update(penalty, a_pair, b_pair, PairClasses(cls, m, factor[a], l1_pair), new, work)
        for e in range(m):
            k = cls[e]
            slot = slots[a, k]
            step = new[e] - x[k, slot]
            if step != 0.0:
                x[k, slot] = new[e]
                axpy(step, W[base[k] + slot * side[k] : base[k] + (slot + 1) * side[k]], product[k])
                max_change = max(max_change, abs(step) * variance[a, k] / tau[k])
    return max_change


@njit_no_refcount
def update_diagonal(penalty: Penalty, n_active: int, converged: bool, column: Column) -> float:
    """Update the diagonal entry tau_k of the column (closed form); the largest change of w_12 on the active pairs.

    If x has converged for the present tau, both are first rescaled to the minimum along their ray.
    """
    x, product, diagonal = column.x, column.product, column.diagonal
    slots, square, ray = column.slot, column.square, column.ray
    for k in range(slots.shape[1]):
        square[k] = 0.0
        ray[k] = 1.0
        for a in range(n_active):
            if slots[a, k] >= 0:
                square[k] += x[k, slots[a, k]] * product[k, slots[a, k]]
    if converged:
        rescale(penalty, column.block, diagonal, square, ray)
    max_change = 0.0
    for k in range(slots.shape[1]):
        if column.block[k] < 0:
            continue
        if ray[k] != 1.0:
            for t in range(column.side[k]):
                x[k, t] *= ray[k]
                product[k, t] *= ray[k]
        largest = 0.0
        for a in range(n_active):
            if slots[a, k] >= 0:
                largest = max(largest, abs(product[k, slots[a, k]]))
        diagonal.tau[k] *= ray[k]
        tau = diagonal_entry(diagonal.variance[k], ray[k] * ray[k] * square[k])
        max_change = max(max_change, largest * abs(1.0 / tau - 1.0 / diagonal.tau[k]))
        diagonal.tau[k] = tau
    return max_change


@njit_no_refcount
def diagonal_entry(variance: float, square: float) -> float:
    """Diagonal entry ``tau = (1 + sqrt(1 + 4 c h)) / (2 c)`` for c = W_jj and ``h = t' W_11 t``."""
    return (1.0 + np.sqrt(1.0 + 4.0 * variance * square)) / (2.0 * variance)


@njit_no_refcount
def rescale(
    penalty: Penalty, blocks: IntArray, diagonal: ColumnDiagonal, square: FloatArray, scale: FloatArray
) -> None:
    """Write the factors (K,) that minimise the objective along the ray through (t, tau), t being optimal for this tau.

    At such a t the derivative along the ray is known without evaluating the penalty. The factor is one for each class
    where the penalty couples the classes weakly, and a common one otherwise.
    """
    weight = 0.0
    total = 0.0
    for k in range(blocks.shape[0]):
        scale[k] = 1.0
        if blocks[k] >= 0:
            ratio = diagonal.variance[k] * diagonal.tau[k] - square[k] / diagonal.tau[k]
            weight += diagonal.weight[k]
            total += diagonal.weight[k] * ratio
            if pair_separable(penalty) and ratio > 0.0:
                scale[k] = 1.0 / max(ratio, _LEAST_REST)
    if pair_homogeneous(penalty) and not pair_separable(penalty) and total > 0.0:
        scale[:] = weight / max(total, _LEAST_REST * weight)


@njit_no_refcount(forceinline=True)
def read_weights(penalty: Penalty, k: int, blocks: Any, position: int, l1: FloatArray, e: int) -> float:
    """Write the weight of |t| of the entry of class k at a position to ``l1[e]``; the weight of the coupling term.

    The latter is infinite if the class forbids the entry: it is that of the other classes then.
    """
    l1[e] = pair_threshold(penalty, k)
    if blocks.factor.shape[0] == 0:
        return 1.0
    weight = blocks.factor[position]
    l1[e] = times(l1[e], weight)
    return blocks.coupling[position] if blocks.coupling.shape[0] > 0 and weight < np.inf else weight


@njit_no_refcount
def axpy(factor: float, row: FloatArray, out: FloatArray) -> None:
    """``out += factor * row``."""
    if factor != 0.0:
        for c in range(row.shape[0]):
            out[c] += factor * row[c]


@njit_internal
def columns_of(blocks: Blocks, chosen: IntArray, theta: FloatArray, columns: Columns) -> None:
    """Write the off-diagonal columns of Theta for the chosen blocks, zero before, and its diagonal."""
    for block in chosen:
        Theta = block_of(theta, blocks.offset, blocks.size, block)
        out = block_of(columns.theta, blocks.offset, blocks.size, block)
        for i in range(blocks.size[block]):
            columns.precision[blocks.member_start[block] + i] = Theta[i, i]
            for j in range(blocks.size[block]):
                if Theta[i, j] != 0.0 and j != i:
                    out[i, j] = Theta[i, j]
