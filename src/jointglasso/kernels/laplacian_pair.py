"""Laplacian penalty of one pair: ``phi(t) = sum_k l1_k |t_k| + sum_{k<l} g_kl (t_k - t_l)^2``.

Arguments as in `fused_pair`, with the same penalty type and the shape LAPLACIAN. A class l in which the pair is
screened out adds the ridge term ``g_kl t_k^2``.
"""

from __future__ import annotations

import numpy as np

from jointglasso._typing import FloatArray, IntArray
from jointglasso.kernels.jit import njit_no_refcount
from jointglasso.kernels.pair_types import FusedPair, PairClasses, PenaltyWorkspace

#: Coordinate descent sweeps over the classes of a pair before its support is solved directly; most rounds of both.
_SWEEPS, _MAX_ROUNDS = 4, 500


#: The squared differences are not positively homogeneous of degree one.
HOMOGENEOUS = False


def workspace_size(n_classes: int) -> int:
    """Length of each of the two workspace arrays for K classes."""
    return n_classes * n_classes + 3 * n_classes


@njit_no_refcount
def _degree(penalty: FusedPair, k: int) -> float:
    """Degree ``sum_l g_kl`` of class k in the class graph, over all K classes."""
    total = 0.0
    for j in range(penalty.class_graph.shape[0]):
        total += penalty.class_graph[k, j]
    return total


@njit_no_refcount
def value(penalty: FusedPair, theta: FloatArray, pair: PairClasses) -> float:
    """``v phi(theta)`` for the values in the classes that contain the pair and zero in the others."""
    cls, n, v = pair
    total = 0.0
    for i in range(n):
        degree_present = 0.0
        for j in range(n):
            edge_weight = penalty.class_graph[cls[i], cls[j]]
            degree_present += edge_weight
            if j < i:
                total += edge_weight * (theta[i] - theta[j]) ** 2
        total += penalty.l1[cls[i]] * abs(theta[i])
        if n < penalty.l1.shape[0]:
            total += (_degree(penalty, cls[i]) - degree_present) * theta[i] * theta[i]
    return v * total


@njit_no_refcount(forceinline=True)
def update(
    penalty: FusedPair, a: FloatArray, b: FloatArray, pair: PairClasses, out: FloatArray, work: PenaltyWorkspace
) -> None:
    """Write the minimiser (n,) of ``sum_k a_k x_k^2 / 2 - b_k x_k + v phi(x)``, a > 0; `out` holds a warm start.

    Coordinate descent identifies the support, on which the equations are linear. It continues where the solution of
    these has other signs.
    """
    cls, n, v = pair
    degree = work.real[:n]
    for i in range(n):
        degree[i] = a[i] + 2.0 * v * _degree(penalty, cls[i])
    for _ in range(_MAX_ROUNDS):
        moved = False
        for _ in range(_SWEEPS):
            moved = False
            for i in range(n):
                linear = b[i] + _neighbour_term(penalty, out, pair, i)
                before = out[i]
                out[i] = _soft(linear, v * penalty.l1[cls[i]]) / degree[i]
                moved = moved or out[i] != before
            if not moved or n == 1:
                return
        if _solve_on_support(penalty, a, b, pair, out, work):
            return


@njit_no_refcount
def _neighbour_term(penalty: FusedPair, x: FloatArray, pair: PairClasses, i: int) -> float:
    """``2 v sum_l g_kl x_l`` over the classes that contain the pair, k the class at position `i`."""
    cls, n, v = pair
    total = 0.0
    for j in range(n):
        total += penalty.class_graph[cls[i], cls[j]] * x[j]
    return 2.0 * v * total


@njit_no_refcount
def _soft(value: float, threshold: float) -> float:
    """Soft-thresholding ``sign(value) (|value| - threshold)_+``."""
    if value > threshold:
        return value - threshold
    if value < -threshold:
        return value + threshold
    return 0.0


@njit_no_refcount
def _solve_on_support(
    penalty: FusedPair, a: FloatArray, b: FloatArray, pair: PairClasses, x: FloatArray, work: PenaltyWorkspace
) -> bool:
    """Solve the linear equations on the support and signs of `x`; accept the solution if the KKT conditions hold."""
    cls, n, v = pair
    reals = work.real
    rhs = reals[n : 2 * n]
    matrix = reals[2 * n : 2 * n + n * n].reshape(n, n)
    support = work.integer[:n]
    free = work.integer[n : n + penalty.l1.shape[0]]
    free[:] = 0
    size = 0
    for i in range(n):
        if x[i] != 0.0:
            support[size] = i
            free[cls[i]] = 1
            size += 1
    for row in range(size):
        i = support[row]
        rhs[row] = b[i] - v * penalty.l1[cls[i]] * np.sign(x[i])
        matrix[row, row] = a[i]
        for j in range(free.shape[0]):
            if free[j] == 0:  # g_kl (t_k - 0)^2 is a ridge term
                matrix[row, row] += 2.0 * v * penalty.class_graph[cls[i], j]
        for column in range(size):
            if column != row:
                matrix[row, column] = 2.0 * v * penalty.class_graph[cls[i], cls[support[column]]]
    _solve_laplacian(matrix, rhs, size)
    for row in range(size):
        if rhs[row] * x[support[row]] <= 0.0:
            return False
    # KKT conditions at the zeros, for the new values, which are scattered behind the matrix.
    solution = reals[2 * n + n * n : 3 * n + n * n]
    for i in range(n):
        solution[i] = 0.0
    for row in range(size):
        solution[support[row]] = rhs[row]
    for i in range(n):
        if solution[i] == 0.0 and abs(b[i] + _neighbour_term(penalty, solution, pair, i)) > v * penalty.l1[cls[i]]:
            return False
    for i in range(n):
        x[i] = solution[i]
    return True


@njit_no_refcount
def _solve_laplacian(matrix: FloatArray, rhs: FloatArray, size: int) -> None:
    """Solve ``(e_i + sum_j g_ij) x_i - sum_j g_ij x_j = rhs_i`` in place; the diagonal of `matrix` is e > 0.

    Gaussian elimination without subtractions: the Schur complement has the same form, with g and e that are sums of
    positive numbers. With an explicit diagonal, an e much smaller than g would be lost to cancellation.
    """
    for row in range(size):
        pivot = matrix[row, row]
        for column in range(row + 1, size):
            pivot += matrix[row, column]
        for below in range(row + 1, size):
            multiplier = matrix[below, row] / pivot
            matrix[below, below] += multiplier * matrix[row, row]
            rhs[below] += multiplier * rhs[row]
            for column in range(row + 1, size):
                if column != below:
                    matrix[below, column] += multiplier * matrix[row, column]
        matrix[row, row] = pivot
    for row in range(size - 1, -1, -1):
        for column in range(row + 1, size):
            rhs[row] += matrix[row, column] * rhs[column]
        rhs[row] /= matrix[row, row]


@njit_no_refcount(forceinline=True)
def threshold(penalty: FusedPair, k: int) -> float:
    """l1 weight of class k: a pair with ``|u_k| <= v l1_k`` in every class is in the dual ball."""
    limit: float = penalty.l1[k]
    return limit


@njit_no_refcount(forceinline=True)
def is_dual_feasible(penalty: FusedPair, u: FloatArray, pair: PairClasses, work: PenaltyWorkspace) -> bool:
    """Whether `u` (n,) is in the subdifferential of ``v phi`` at zero: ``|u_k| <= v l1_k``."""
    cls, n, v = pair
    below_threshold = True
    for i in range(n):
        below_threshold = below_threshold and abs(u[i]) <= v * penalty.l1[cls[i]]
    return below_threshold


@njit_no_refcount
def gauge(penalty: FusedPair, u: FloatArray, pair: PairClasses, work: PenaltyWorkspace) -> float:
    """Gauge of the dual ball: the largest ``|u_k| / (v l1_k)``."""
    cls, n, v = pair
    ratio = 0.0
    for i in range(n):
        if u[i] != 0.0:
            weight = v * penalty.l1[cls[i]]
            ratio = max(ratio, abs(u[i]) / weight if weight > 0.0 else np.inf)
    return ratio


@njit_no_refcount
def subgradient(
    penalty: FusedPair,
    theta: FloatArray,
    target: FloatArray,
    a: FloatArray,
    pair: PairClasses,
    out: FloatArray,
    work: PenaltyWorkspace,
) -> None:
    """Write the subgradient of ``v phi`` at `theta` nearest to `target`: clipped to [-l1, l1] at zeros."""
    cls, n, v = pair
    gradient(penalty, theta, pair, out)
    for i in range(n):
        if theta[i] == 0.0:
            limit = v * penalty.l1[cls[i]]
            out[i] += min(max(target[i] - out[i], -limit), limit)


@njit_no_refcount
def gradient(penalty: FusedPair, theta: FloatArray, pair: PairClasses, out: FloatArray) -> None:
    """Write the gradient (n,) of ``v phi`` on the face of `theta`: smooth part and signs of the l1 part."""
    cls, n, v = pair
    for i in range(n):
        smooth_term = v * 2.0 * _degree(penalty, cls[i]) * theta[i] - _neighbour_term(penalty, theta, pair, i)
        out[i] = smooth_term + v * penalty.l1[cls[i]] * np.sign(theta[i])


@njit_no_refcount
def clusters(penalty: FusedPair, theta: FloatArray, pair: PairClasses, out: IntArray) -> int:
    """Number the non-zero entries of a pair, -1 at zeros; returns their number. Equal values are not favoured."""
    n = pair.n
    count = 0
    for i in range(n):
        out[i] = -1
        if theta[i] != 0.0:
            out[i] = count
            count += 1
    return count


@njit_no_refcount
def hvp(penalty: FusedPair, theta: FloatArray, pair: PairClasses, step: FloatArray, out: FloatArray) -> None:
    """Add the Hessian-vector product of the smooth part with `step`."""
    cls, n, v = pair
    for i in range(n):
        out[i] += v * 2.0 * _degree(penalty, cls[i]) * step[i] - _neighbour_term(penalty, step, pair, i)


@njit_no_refcount
def retract(penalty: FusedPair, theta: FloatArray, pair: PairClasses, out: FloatArray) -> None:
    """Set the values of `out` (n,) to zero that have the opposite sign of `theta`."""
    for k in range(pair.n):
        if theta[k] * out[k] < 0.0 and penalty.l1[pair.cls[k]] * pair.v > 0.0:
            out[k] = 0.0
