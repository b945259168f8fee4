"""Laplacian penalty of one pair: ``phi(t) = sum_k l1_k |t_k| + v sum_{k<l} g_kl (t_k - t_l)^2``.

Arguments as in `fused_pair`. A class l in which the pair is screened out adds the ridge term ``g_kl t_k^2``.
"""

from __future__ import annotations

import numpy as np

from jointglasso._typing import FloatArray
from jointglasso.kernels.group_pair import clusters, retract, soft
from jointglasso.kernels.jit import njit_no_refcount
from jointglasso.kernels.pair_types import LaplacianPair, PairClasses

__all__ = ["clusters", "retract"]  # no clusters of equal values, as with the group penalty

#: Coordinate descent sweeps over the classes of a pair before its support is solved directly; most rounds of both.
_SWEEPS, _MAX_ROUNDS = 4, 500

#: Rows of the workspace. Real: diagonal of the Hessian, right-hand side, values before; from `MATRIX` on n rows of a
#: matrix. Integer: classes of the support, and whether a class belongs to it.
DEGREE, RHS, BEFORE, MATRIX = range(4)
SUPPORT, FREE = range(2)


#: The squared differences are not positively homogeneous of degree one.
HOMOGENEOUS = False


def workspace_size(n_classes: int) -> int:
    """Number of rows of the real workspace for K classes."""
    return MATRIX + n_classes


@njit_no_refcount
def _degree(penalty: LaplacianPair, k: int) -> float:
    """Degree ``sum_l g_kl`` of class k in the class graph, over all K classes."""
    total = 0.0
    for j in range(penalty.class_graph.shape[0]):
        total += penalty.class_graph[k, j]
    return total


@njit_no_refcount
def value(penalty: LaplacianPair, theta: FloatArray, pair: PairClasses) -> float:
    """``phi(theta)`` for the values in the classes that contain the pair and zero in the others."""
    cls, n = pair.cls, pair.n
    total = 0.0
    absolute = 0.0
    for i in range(n):
        degree_present = 0.0
        for j in range(n):
            edge_weight = penalty.class_graph[cls[i], cls[j]]
            degree_present += edge_weight
            if j < i:
                total += edge_weight * (theta[i] - theta[j]) ** 2
        absolute += pair.l1[i] * abs(theta[i]) if theta[i] != 0.0 else 0.0
        if n < penalty.l1.shape[0]:
            total += (_degree(penalty, cls[i]) - degree_present) * theta[i] * theta[i]
    return absolute + pair.v * total


@njit_no_refcount
def update(penalty: LaplacianPair, a: FloatArray, b: FloatArray, pair: PairClasses, out: FloatArray) -> None:
    """Write the minimiser (n,) of ``sum_k a_k x_k^2 / 2 - b_k x_k + phi(x)``, a > 0; `out` holds a warm start.

    Coordinate descent identifies the support, on which the equations are linear. It continues where the solution of
    these has other signs.
    """
    cls, n, v = pair.cls, pair.n, pair.v
    for i in range(n):
        pair.work.real[DEGREE, i] = a[i] + 2.0 * v * _degree(penalty, cls[i])
    for _ in range(_MAX_ROUNDS):
        moved = False
        for _ in range(_SWEEPS):
            moved = False
            for i in range(n):
                linear = b[i] + _neighbour_term(penalty, out, pair, i)
                before = out[i]
                out[i] = soft(linear, pair.l1[i]) / pair.work.real[DEGREE, i]
                moved = moved or out[i] != before
            if not moved or n == 1:
                return
        if _solve_on_support(penalty, a, b, pair, out):
            return


@njit_no_refcount
def _neighbour_term(penalty: LaplacianPair, x: FloatArray, pair: PairClasses, i: int) -> float:
    """``2 v sum_l g_kl x_l`` over the classes that contain the pair, k the class at position `i`."""
    cls, n, v = pair.cls, pair.n, pair.v
    total = 0.0
    for j in range(n):
        total += penalty.class_graph[cls[i], cls[j]] * x[j]
    return 2.0 * v * total


@njit_no_refcount
def _solve_on_support(penalty: LaplacianPair, a: FloatArray, b: FloatArray, pair: PairClasses, x: FloatArray) -> bool:
    """Solve the linear equations on the support and signs of `x`; accept the solution if the KKT conditions hold."""
    cls, n, v, real, integer = pair.cls, pair.n, pair.v, pair.work.real, pair.work.integer
    for k in range(penalty.l1.shape[0]):
        integer[FREE, k] = 0
    size = 0
    for i in range(n):
        if x[i] != 0.0:
            integer[SUPPORT, size] = i
            integer[FREE, cls[i]] = 1
            size += 1
    for row in range(size):
        i = integer[SUPPORT, row]
        real[RHS, row] = b[i] - pair.l1[i] * np.sign(x[i])
        real[MATRIX + row, row] = a[i]
        for j in range(penalty.l1.shape[0]):
            if integer[FREE, j] == 0:  # g_kl (t_k - 0)^2 is a ridge term
                real[MATRIX + row, row] += 2.0 * v * penalty.class_graph[cls[i], j]
        for column in range(size):
            if column != row:
                real[MATRIX + row, column] = 2.0 * v * penalty.class_graph[cls[i], cls[integer[SUPPORT, column]]]
    _solve_laplacian(real, size)
    for i in range(n):
        real[BEFORE, i] = x[i]
    accepted = True
    for row in range(size):
        x[integer[SUPPORT, row]] = real[RHS, row]
        accepted = accepted and real[RHS, row] * real[BEFORE, integer[SUPPORT, row]] > 0.0
    for i in range(n):
        if accepted and x[i] == 0.0:
            accepted = not abs(b[i] + _neighbour_term(penalty, x, pair, i)) > pair.l1[i]
    if not accepted:
        for i in range(n):
            x[i] = real[BEFORE, i]
    return accepted


@njit_no_refcount
def _solve_laplacian(real: FloatArray, size: int) -> None:
    """Solve ``(e_i + sum_j g_ij) x_i - sum_j g_ij x_j = rhs_i`` in the workspace; the diagonal of the matrix is e > 0.

    Gaussian elimination without subtractions: the Schur complement has the same form, with g and e that are sums of
    positive numbers. With an explicit diagonal, an e much smaller than g would be lost to cancellation.
    """
    for row in range(size):
        pivot = real[MATRIX + row, row]
        for column in range(row + 1, size):
            pivot += real[MATRIX + row, column]
        for below in range(row + 1, size):
            multiplier = real[MATRIX + below, row] / pivot
            real[MATRIX + below, below] += multiplier * real[MATRIX + row, row]
            real[RHS, below] += multiplier * real[RHS, row]
            for column in range(row + 1, size):
                if column != below:
                    real[MATRIX + below, column] += multiplier * real[MATRIX + row, column]
        real[MATRIX + row, row] = pivot
    for row in range(size - 1, -1, -1):
        for column in range(row + 1, size):
            real[RHS, row] += real[MATRIX + row, column] * real[RHS, column]
        real[RHS, row] /= real[MATRIX + row, row]


@njit_no_refcount
def threshold(penalty: LaplacianPair, k: int) -> float:
    """l1_k: a pair with ``|u_k| <= l1_k * weight of the entry`` in every class is dual feasible."""
    limit: float = penalty.l1[k]
    return limit


@njit_no_refcount
def is_dual_feasible(penalty: LaplacianPair, u: FloatArray, pair: PairClasses) -> bool:
    """Whether `u` (n,) is in the subdifferential of phi at zero: ``|u_k| <= l1_k``."""
    below_threshold = True
    for i in range(pair.n):
        below_threshold = below_threshold and abs(u[i]) <= pair.l1[i]
    return below_threshold


@njit_no_refcount
def gauge(penalty: LaplacianPair, u: FloatArray, pair: PairClasses) -> float:
    """Gauge of the dual ball: the largest ``|u_k| / l1_k``."""
    ratio = 0.0
    for i in range(pair.n):
        if u[i] != 0.0:
            ratio = max(ratio, abs(u[i]) / pair.l1[i] if pair.l1[i] > 0.0 else np.inf)
    return ratio


@njit_no_refcount
def subgradient(
    penalty: LaplacianPair, theta: FloatArray, target: FloatArray, pair: PairClasses, out: FloatArray
) -> None:
    """Write the subgradient of phi at `theta` nearest to `target`: clipped to [-l1, l1] at zeros."""
    gradient(penalty, theta, pair, out)
    for i in range(pair.n):
        if theta[i] == 0.0:
            limit = pair.l1[i]
            out[i] += min(max(target[i] - out[i], -limit), limit)


@njit_no_refcount
def _laplacian_term(penalty: LaplacianPair, x: FloatArray, pair: PairClasses, i: int) -> float:
    """``2 v sum_l g_kl (x_k - x_l)``, k the class at position `i`.

    Differences are added, not products: with a large v, a gradient that has lost the last digit of nearly equal values
    to cancellation would give a gap without the penalty of their difference.
    """
    cls, n = pair.cls, pair.n
    total, degree_present = 0.0, 0.0
    for j in range(n):
        edge_weight = penalty.class_graph[cls[i], cls[j]]
        degree_present += edge_weight
        total += edge_weight * (x[i] - x[j])
    if n < penalty.l1.shape[0]:
        total += (_degree(penalty, cls[i]) - degree_present) * x[i]
    return 2.0 * pair.v * total


@njit_no_refcount
def gradient(penalty: LaplacianPair, theta: FloatArray, pair: PairClasses, out: FloatArray) -> None:
    """Write the gradient (n,) of phi on the face of `theta`: smooth part and signs of the l1 part."""
    for i in range(pair.n):
        out[i] = _laplacian_term(penalty, theta, pair, i)
        if theta[i] != 0.0:
            out[i] += pair.l1[i] * np.sign(theta[i])


@njit_no_refcount
def hvp(penalty: LaplacianPair, theta: FloatArray, pair: PairClasses, step: FloatArray, out: FloatArray) -> None:
    """Add the Hessian-vector product of the smooth part with `step`."""
    for i in range(pair.n):
        out[i] += _laplacian_term(penalty, step, pair, i)
