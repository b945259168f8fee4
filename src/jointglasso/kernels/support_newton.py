"""Gaussian likelihood with a precision matrix supported on a graph: regression sweeps and Newton's direction.

For Newton's method a symmetric matrix on the support is the vector of its entries i <= j; in inner products the
off-diagonal ones count twice.
"""

from __future__ import annotations

import numpy as np

from jointglasso._typing import FloatArray, IntArray
from jointglasso.kernels.jit import njit, njit_internal


@njit
def sweep_support(
    S: FloatArray,
    first: IntArray,
    neighbours: IntArray,
    tolerance: float,
    n_sweeps: int,
    diverged: float,
    W: FloatArray,
    Theta: FloatArray,
) -> bool:
    """Maximum likelihood on a support by regressions (Hastie, Tibshirani and Friedman, algorithm 17.1).

    Each column of W is replaced by that of the largest determinant among those that agree with S on the support. From a
    positive definite W that agrees with S there, such as a positive definite S, no step can fail; from others it may.

    Parameters
    ----------
    S : array (b, b)
        Covariances.
    first, neighbours : array (b + 1,), array
        Neighbours of variable j: ``neighbours[first[j] : first[j + 1]]``.
    tolerance : float
        Largest change of a covariance in a sweep at which W has converged.
    n_sweeps, diverged : int, float
        Most sweeps, and the diagonal entry of Theta above which the likelihood counts as unbounded.
    W : array (b, b)
        Starting point with the diagonal of S; output: the fitted covariances.
    Theta : array (b, b)
        Zeros; output: the precision matrix, each row from the regression of its variable.

    Returns
    -------
    bool
        Whether W converged.
    """
    b = S.shape[0]
    max_degree = 0
    for j in range(b):
        max_degree = max(max_degree, first[j + 1] - first[j])
    factor, x, column = np.empty((max_degree, max_degree)), np.empty(max_degree), np.empty(b)
    for _ in range(n_sweeps):
        change = 0.0
        for j in range(b):
            adjacent = neighbours[first[j] : first[j + 1]]
            if not _regress(adjacent, S[j], W, factor, x):
                return False
            column[:] = 0.0
            residual_variance = S[j, j]
            for e in range(len(adjacent)):
                _add(column, x[e], W[adjacent[e]])
                residual_variance -= x[e] * S[j, adjacent[e]]
            if not residual_variance * diverged > 1.0:
                return False
            for i in range(b):
                if i != j:
                    change = max(change, abs(column[i] - W[j, i]))
                    W[i, j] = W[j, i] = column[i]
            Theta[j, j] = 1.0 / residual_variance
            for e in range(len(adjacent)):
                Theta[j, adjacent[e]] = -x[e] / residual_variance
        if change <= tolerance:
            return True
    return False


@njit_internal
def _regress(neighbours: IntArray, covariance: FloatArray, W: FloatArray, factor: FloatArray, x: FloatArray) -> bool:
    """Solve ``W x = covariance`` on the neighbours by Cholesky; False if that part of W is not positive definite."""
    n = neighbours.shape[0]
    for a in range(n):
        for b in range(a + 1):
            value = W[neighbours[a], neighbours[b]]
            for c in range(b):
                value -= factor[a, c] * factor[b, c]
            if a == b:
                if not value > 1e-12:
                    return False
                factor[a, a] = np.sqrt(value)
            else:
                factor[a, b] = value / factor[b, b]
    for a in range(n):
        value = covariance[neighbours[a]]
        for c in range(a):
            value -= factor[a, c] * x[c]
        x[a] = value / factor[a, a]
    for a in range(n - 1, -1, -1):
        value = x[a]
        for c in range(a + 1, n):
            value -= factor[c, a] * x[c]
        x[a] = value / factor[a, a]
    return True


@njit
def newton_direction(
    rows: IntArray, columns: IntArray, W: FloatArray, Theta: FloatArray, gradient: FloatArray, n_steps: int
) -> FloatArray:
    """Newton's direction D: conjugate gradients on ``W D W = -gradient`` on the support.

    The preconditioner ``G -> Theta G Theta`` on the support is the inverse Hessian on a full support; on correlated
    data it takes a sixth of the steps of the diagonal preconditioner. Whenever the iteration stops, the decrement of
    the direction is that of Newton's method in the Krylov space searched.
    """
    n = len(rows)
    D = np.zeros(n)
    residual = np.zeros(n)
    for e in range(n):
        residual[e] = -gradient[e]
    preconditioned, product, half = np.empty(n), np.empty(n), np.empty_like(W)
    _on_support(rows, columns, Theta, residual, half, preconditioned)
    search = preconditioned.copy()
    size = _inner(rows, columns, residual, preconditioned)
    # Forcing term: few iterations far from the solution, quadratic convergence near it.
    threshold = size * min(1e-2, size)
    for _ in range(n_steps):
        if size <= threshold:
            break
        _on_support(rows, columns, W, search, half, product)
        length = size / _inner(rows, columns, search, product)
        for e in range(n):
            D[e] += length * search[e]
            residual[e] -= length * product[e]
        _on_support(rows, columns, Theta, residual, half, preconditioned)
        before, size = size, _inner(rows, columns, residual, preconditioned)
        for e in range(n):
            search[e] = preconditioned[e] + size / before * search[e]
    return D


@njit_internal
def _inner(rows: IntArray, columns: IntArray, first: FloatArray, second: FloatArray) -> float:
    """Inner product of two symmetric matrices on the support."""
    total = 0.0
    for e in range(len(rows)):
        total += first[e] * second[e] * (1.0 if rows[e] == columns[e] else 2.0)
    return total


@njit_internal
def _on_support(
    rows: IntArray, columns: IntArray, W: FloatArray, entries: FloatArray, half: FloatArray, product: FloatArray
) -> None:
    """Write the entries of ``W D W`` on the support, for a symmetric W; `half` (b, b) is scratch for ``D W``."""
    b, n = len(W), len(rows)
    if 16 * n > b * b:  # on a dense support matrix products are faster
        D = np.zeros((b, b))
        for e in range(n):
            D[rows[e], columns[e]] = D[columns[e], rows[e]] = entries[e]
        dense_product = np.dot(np.dot(W, D), W)
        for e in range(n):
            product[e] = dense_product[rows[e], columns[e]]
        return
    half[:] = 0.0
    for e in range(n):
        i, j, d = rows[e], columns[e], entries[e]
        _add(half[i], d, W[j])
        if i != j:
            _add(half[j], d, W[i])
    transposed = half.T.copy()
    for e in range(n):
        product[e] = np.dot(W[rows[e]], transposed[columns[e]])


@njit_internal
def _add(row: FloatArray, factor: float, other: FloatArray) -> None:
    """``row += factor * other``."""
    for i in range(len(row)):
        row[i] += factor * other[i]


@njit
def sandwiched(rows: IntArray, columns: IntArray, W: FloatArray, entries: FloatArray) -> FloatArray:
    """Entries of ``W D W`` on the support, for a symmetric W."""
    product = np.empty(len(rows))
    _on_support(rows, columns, W, entries, np.empty_like(W), product)
    return product
