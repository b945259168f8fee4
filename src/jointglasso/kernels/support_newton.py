"""Gaussian likelihood with a precision matrix supported on a graph: regression sweeps."""

from __future__ import annotations

import numpy as np

from jointglasso._typing import FloatArray, IntArray
from jointglasso.kernels.column_parts import axpy
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
    The neighbours of variable j are ``neighbours[first[j] : first[j + 1]]``. W begins with the diagonal of S and ends
    as the fitted covariances; Theta, zeros before, has each row from the regression of its variable. Returns whether
    the largest change of a covariance in a sweep fell to `tolerance`; a diagonal entry of Theta above `diverged` counts
    as an unbounded likelihood.
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
                axpy(x[e], W[adjacent[e]], column)
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
