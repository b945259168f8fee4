"""Coordinate descent on the active pairs of one column, its diagonal entry, and its rescaling.

For column j, in every class: x = t the column of Theta off the diagonal, tau = Theta_jj, W_11 the other rows and
columns of W (see `kernels.columns` for the problem).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from jointglasso._typing import BoolArray, FloatArray, IntArray
from jointglasso.kernels.group_pair import times
from jointglasso.kernels.jit import njit_internal, njit_no_refcount
from jointglasso.kernels.pair import Penalty, pair_homogeneous, pair_threshold, pair_update, pair_weakly_coupled
from jointglasso.kernels.pair_types import N_INTEGER_ROWS, PairClasses, PenaltyWorkspace

#: Reciprocal of the largest factor by which one update rescales a column, beyond what single precision resolves. Where
#: a factor is cut off, (t, tau) is not the minimum along its ray and W leaves the dual ball: with 0.05, sweeps over
#: highly correlated variables at a small penalty diverged.
_MIN_RATIO = 1e-4

#: Rows of `Column.t`: t, W_11 t, the column of S and the weight of |t| at the active pairs, and the t for which
#: `Column.y` was computed.
X, PRODUCT, COVARIANCE, L1, SOLVED = range(5)

#: Rows of `Column.diagonal`: class weight w_k, W_jj, tau_k, w_k / tau_k, t' W_11 t, the last factor by which t and tau
#: were rescaled, and the product of these factors since `Column.y` was computed.
WEIGHT, VARIANCE, TAU, RATIO, SQUARE, RAY, SCALE = range(7)

#: Rows of `Column.place`: block of the column in each class, -1 for none, and start of its row in flat storage.
BLOCK, BASE = range(2)


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


class Column(NamedTuple):
    """A column during its update, with at most N active pairs: the workspace of one thread.

    The n active pairs come first in each array. Where a class does not contain a pair, its numbers are zero.
    """

    diagonal: FloatArray
    """(7, K)."""
    place: IntArray
    """(2, K)."""
    variable: IntArray
    """(N,): variable of each active pair."""
    slot: IntArray
    """(K, N): its row in the block of each class, -1 where the class does not contain the pair."""
    coupling: FloatArray
    """(N,): weight of the coupling term of each pair."""
    t: FloatArray
    """(5, K, N)."""
    gram: FloatArray | NDArray[np.float32]
    """(K N N,), of which the first K n n elements are the principal submatrices (K, n, n) of W on the active pairs."""
    y: FloatArray
    """(K, b): W_11 t."""
    is_active: BoolArray
    """(U,): variables in the active set, or excluded from it."""
    candidates: IntArray
    violation: FloatArray
    """(U,) both: candidate variables, and their KKT violations."""
    coefficient: Any
    start: IntArray
    """(N + 3,) both: coefficients of rows of W in a sum of rows, and the starts of these rows in their block."""
    pair: PairWorkspace

    @classmethod
    def allocate(
        cls, n_classes: int, n_variables: int, widest: int, workspace_size: int, capacity: int, W: Any
    ) -> Column:
        """Allocate the workspace for columns of up to `capacity` active pairs in blocks of up to `widest` variables.

        The penalty needs `workspace_size` rows. The Gram matrices are as precise as W, and 10^8 elements for a hub.
        Not compiled: each way of making an array takes as long to compile as a function.
        """
        K, N = n_classes, capacity
        a, b, new, l1 = np.empty((4, K))
        work = PenaltyWorkspace(np.empty((workspace_size, K)), np.empty((N_INTEGER_ROWS, K), np.int64))
        pair = PairWorkspace(a, b, new, np.empty(K, np.int64), l1, work)
        return cls(
            np.ones((7, K)), np.zeros((2, K), np.int64), np.empty(N, np.int64), np.empty((K, N), np.int64), np.empty(N),
            np.empty((5, K, N)), np.empty(K * N * N, W.dtype), np.empty((K, widest)), np.zeros(n_variables, np.bool_),
            np.empty(n_variables, np.int64), np.empty(max(n_variables, widest)), np.empty(N + 3, W.dtype),
            np.empty(N + 3, np.int64), pair,
        )  # fmt: skip


@njit_internal
def allocate_workspace(n_classes: int, workspace_size: int) -> PairWorkspace:
    """Allocate scratch arrays for one pair in `n_classes` classes; the penalty needs `workspace_size` rows."""
    reals, integers = np.empty((workspace_size, n_classes)), np.empty((N_INTEGER_ROWS, n_classes), np.int64)
    a, b, new, cls = np.empty(n_classes), np.empty(n_classes), np.empty(n_classes), np.empty(n_classes, np.int64)
    return PairWorkspace(a, b, new, cls, np.empty(n_classes), PenaltyWorkspace(reals, integers))


@njit_no_refcount
def descend_once(penalty: Penalty, n: int, column: Column) -> float:
    """One pass of coordinate descent over the n active pairs of a column at fixed tau; the largest change of w_12."""
    diagonal, t, slot, gram, pair = column.diagonal, column.t, column.slot, column.gram, column.pair
    n_classes = diagonal.shape[1]
    for k in range(n_classes):
        diagonal[RATIO, k] = diagonal[WEIGHT, k] / diagonal[TAU, k]
    max_change = 0.0
    for a in range(n):
        m = 0
        for k in range(n_classes):
            if slot[k, a] >= 0:
                pair.a[m] = diagonal[RATIO, k] * gram[(k * n + a) * n + a]
                slope = diagonal[WEIGHT, k] * t[COVARIANCE, k, a] + diagonal[RATIO, k] * t[PRODUCT, k, a]
                pair.b[m] = pair.a[m] * t[X, k, a] - slope
                pair.new[m] = t[X, k, a]
                pair.l1[m] = t[L1, k, a]
                pair.cls[m] = k
                m += 1
        classes = PairClasses(pair.cls, m, column.coupling[a], pair.l1, pair.work)
        pair_update(penalty, pair.a, pair.b, classes, pair.new)
        for e in range(m):
            k = pair.cls[e]
            step = pair.new[e] - t[X, k, a]
            if step != 0.0:
                row = gram[(k * n + a) * n : (k * n + a + 1) * n]
                t[X, k, a] = pair.new[e]
                axpy(step, row, t[PRODUCT, k])
                max_change = max(max_change, abs(step) * row[a] / diagonal[TAU, k])
    return max_change


@njit_no_refcount
def update_diagonal(penalty: Penalty, n: int, converged: bool, column: Column) -> float:
    """Update the diagonal entry tau_k of the column (closed form); the largest change of w_12 on the active pairs.

    If t has converged for the present tau, both are first rescaled to the minimum along their ray.
    """
    diagonal, t = column.diagonal, column.t
    for k in range(diagonal.shape[1]):
        diagonal[SQUARE, k] = 0.0
        diagonal[RAY, k] = 1.0
        for a in range(n):
            diagonal[SQUARE, k] += t[X, k, a] * t[PRODUCT, k, a]
    if converged:
        rescale(penalty, column)
    max_change = 0.0
    for k in range(diagonal.shape[1]):
        if column.place[BLOCK, k] < 0:
            continue
        ray = diagonal[RAY, k]
        largest = 0.0
        for a in range(n):
            t[X, k, a] *= ray
            t[PRODUCT, k, a] *= ray
            largest = max(largest, abs(t[PRODUCT, k, a]))
        tau = diagonal_entry(diagonal[VARIANCE, k], ray * ray * diagonal[SQUARE, k])
        max_change = max(max_change, largest * abs(1.0 / tau - 1.0 / (ray * diagonal[TAU, k])))
        diagonal[SCALE, k] *= ray
        diagonal[TAU, k] = tau
    return max_change


@njit_no_refcount
def diagonal_entry(variance: float, square: float) -> float:
    """Diagonal entry ``tau = (1 + sqrt(1 + 4 c h)) / (2 c)`` for c = W_jj and ``h = t' W_11 t``."""
    return (1.0 + np.sqrt(1.0 + 4.0 * variance * square)) / (2.0 * variance)


@njit_no_refcount
def rescale(penalty: Penalty, column: Column) -> None:
    """Write the factors (K,) that minimise the objective along the ray through (t, tau), t being optimal for this tau.

    At such a t the derivative along the ray is known without evaluating the penalty. Each class has its own factor
    where the penalty couples the classes weakly; otherwise all classes share one.
    """
    diagonal, weakly_coupled = column.diagonal, pair_weakly_coupled(penalty)
    weight = 0.0
    total = 0.0
    for k in range(diagonal.shape[1]):
        diagonal[RAY, k] = 1.0
        if column.place[BLOCK, k] >= 0:
            ratio = diagonal[VARIANCE, k] * diagonal[TAU, k] - diagonal[SQUARE, k] / diagonal[TAU, k]
            weight += diagonal[WEIGHT, k]
            total += diagonal[WEIGHT, k] * ratio
            if weakly_coupled and ratio > 0.0:
                diagonal[RAY, k] = 1.0 / max(ratio, _MIN_RATIO)
    if pair_homogeneous(penalty) and not weakly_coupled and total > 0.0:
        for k in range(diagonal.shape[1]):
            diagonal[RAY, k] = weight / max(total, _MIN_RATIO * weight)


@njit_no_refcount(forceinline=True)
def read_weights(penalty: Penalty, k: int, blocks: Any, position: int, l1: FloatArray, e: int) -> float:
    """Write the weight of |t| of the entry of class k at a position to ``l1[e]``; the weight of the coupling term.

    The latter is infinite if the class forbids the entry: it is that of the other classes then.
    """
    l1[e] = pair_threshold(penalty, k)
    if blocks.l1_weight.shape[0] == 0:
        return 1.0
    weight = blocks.l1_weight[position]
    l1[e] = times(l1[e], weight)
    return blocks.coupling[position] if blocks.coupling.shape[0] > 0 and weight < np.inf else weight


@njit_no_refcount
def axpy(factor: float, row: FloatArray, out: FloatArray) -> None:
    """``out += factor * row``."""
    if factor != 0.0:
        for c in range(row.shape[0]):
            out[c] += factor * row[c]
