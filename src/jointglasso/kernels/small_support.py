"""Support estimation and refit of many small problems of one size, compiled as one kernel.

A permutation test or a bootstrap solves the same small problem a thousand times, and the overhead of the engine would
dominate. All classes have all variables, and there is neither screening nor a certificate: problems that do not
converge are marked, for the caller to solve with the full solver.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from jointglasso._typing import BoolArray, FloatArray
from jointglasso.kernels.group_pair import update
from jointglasso.kernels.group_state import copy
from jointglasso.kernels.jit import njit, njit_internal
from jointglasso.kernels.pair_types import GroupPair, PairClasses, PenaltyWorkspace
from jointglasso.kernels.support_newton import sweep_support

#: Most passes over the pairs in one column update.
_MAX_PASSES = 50

#: Most sweeps over the columns for the support, and for the refit.
_MAX_SWEEPS, _MAX_REFIT_SWEEPS = 100, 400

#: Diagonal entry of Theta, on the scale of correlations, above which an estimate counts as diverging.
_DIVERGED = 1e6


class PairBuffers(NamedTuple):
    """Arrays of a column update: gradients (K, p); linear coefficients, curvatures and values (K,) of one pair."""

    slope: FloatArray
    linear: FloatArray
    curvature: FloatArray
    new: FloatArray


@njit
def fit_supports(
    S: FloatArray,
    weight: FloatArray,
    lambda1: float,
    lambda2: float,
    tolerance: float,
    theta: FloatArray,
    converged: BoolArray,
) -> None:
    """Fit B problems: joint graphical lasso with unpenalised diagonal, then maximum likelihood on its support.

    Parameters
    ----------
    S : array (B, K, p, p)
        Correlation matrices of K classes in B problems.
    weight : array (K,)
        Weights of the classes.
    lambda1, lambda2, tolerance : float
        Penalties, and the change of a covariance in a sweep at which a problem has converged.
    theta : array (B, K, p, p)
        Output: the maximum likelihood estimates.
    converged : array (B,)
        Output: whether each problem converged.
    """
    n_problems, n_classes, p, _ = S.shape
    W = np.empty((n_classes, p, p))
    beta = np.empty((n_classes, p, p))
    precision = np.empty((n_classes, p))
    for problem in range(n_problems):
        converged[problem] = _solve_penalised(
            S[problem], weight, GroupPair(lambda1, lambda2), tolerance, W, beta, precision
        ) and _refit(S[problem], tolerance, W, beta, theta[problem])
        for k in range(n_classes):
            for i in range(p):
                for j in range(i):
                    value = 0.5 * (theta[problem, k, i, j] + theta[problem, k, j, i])
                    theta[problem, k, i, j] = theta[problem, k, j, i] = value


@njit_internal
def _solve_penalised(
    S: FloatArray,
    weight: FloatArray,
    penalty: GroupPair,
    tolerance: float,
    W: FloatArray,
    beta: FloatArray,
    precision: FloatArray,
) -> bool:
    """Block coordinate ascent on the dual, one column of all classes at a time, as in `kernels.small_columns`.

    Writes W, the regression coefficients beta (K, p, p) and the diagonal of Theta (K, p); whether it converged.
    """
    n_classes, p, _ = S.shape
    _initial_covariance(S, weight, penalty.lambda1 + penalty.lambda2 / np.sqrt(n_classes), W)
    beta[:] = 0.0
    for k in range(n_classes):
        for i in range(p):
            precision[k, i] = 1.0 / S[k, i, i]
    gradient, numbers = np.empty((n_classes, p)), np.empty((3, n_classes))
    buffers = PairBuffers(gradient, numbers[0], numbers[1], numbers[2])
    for _ in range(_MAX_SWEEPS):
        change = 0.0
        for j in range(p):
            for k in range(n_classes):
                gradient[k] = S[k, j]
                for t in range(p):
                    if beta[k, j, t] != 0.0:
                        gradient[k] += beta[k, j, t] * W[k, t]
            _solve_column(j, weight, penalty, 0.1 * tolerance, W, beta, precision, buffers)
            for k in range(n_classes):
                step = _store(j, S[k, j], gradient[k], W[k], beta[k, j], precision[k])
                if step < 0.0:
                    return False
                change = max(change, step)
        if change <= tolerance:
            return True
    return False


@njit_internal
def _initial_covariance(S: FloatArray, weight: FloatArray, box_radius: float, W: FloatArray) -> None:
    """Start W from S, shrunk towards its diagonal as far as the penalty allows."""
    n_classes, p, _ = S.shape
    largest = 0.0
    for k in range(n_classes):
        for i in range(p):
            for j in range(i):
                largest = max(largest, weight[k] * abs(S[k, i, j]))
    shrink = 1.0 - min(1.0, box_radius / largest) if largest > 0.0 else 1.0
    for k in range(n_classes):
        for i in range(p):
            for j in range(p):
                W[k, i, j] = S[k, i, j] if i == j else shrink * S[k, i, j]


@njit_internal
def _solve_column(
    j: int,
    weight: FloatArray,
    penalty: GroupPair,
    tolerance: float,
    W: FloatArray,
    beta: FloatArray,
    precision: FloatArray,
    buffers: PairBuffers,
) -> None:
    """Coordinate descent on column j until convergence: alternating passes over all pairs and the non-zero ones."""
    n_classes, p, _ = W.shape
    gradient, linear, curvature, new = buffers
    classes = np.empty(0, np.int64)
    pair, work = PairClasses(classes, n_classes, 1.0), PenaltyWorkspace(new, classes)
    all_pairs = True
    for _ in range(_MAX_PASSES):
        max_change = 0.0
        for i in range(p):
            if i == j or not _is_active(i, j, weight, penalty, beta, gradient, all_pairs):
                continue
            for k in range(n_classes):
                curvature[k] = weight[k] * W[k, i, i] / precision[k, j]
                linear[k] = curvature[k] * precision[k, j] * beta[k, j, i] - weight[k] * gradient[k, i]
            update(penalty, curvature, linear, pair, new, work)
            for k in range(n_classes):
                step = new[k] / precision[k, j] - beta[k, j, i]
                if step != 0.0:
                    beta[k, j, i] += step
                    gradient[k] += step * W[k, i]
                    max_change = max(max_change, abs(step) * W[k, i, i])
        if max_change <= tolerance and all_pairs:
            return
        all_pairs = max_change <= tolerance


@njit_internal
def _is_active(
    i: int, j: int, weight: FloatArray, penalty: GroupPair, beta: FloatArray, gradient: FloatArray, all_pairs: bool
) -> bool:
    """Whether a pair is non-zero or, if `all_pairs`, violates the KKT conditions at zero."""
    total = 0.0
    for k in range(weight.shape[0]):
        if beta[k, j, i] != 0.0:
            return True
        violation = weight[k] * abs(gradient[k, i]) - penalty.lambda1
        total += violation * violation if violation > 0.0 else 0.0
    return all_pairs and total > penalty.lambda2 * penalty.lambda2


@njit_internal
def _store(
    j: int, covariance: FloatArray, gradient: FloatArray, W: FloatArray, x: FloatArray, precision: FloatArray
) -> float:
    """Write the column ``covariance - gradient`` into W; its largest change, or -1 if W is not positive definite."""
    residual_variance = W[j, j]
    change = 0.0
    for t in range(x.shape[0]):
        if t != j:
            value = covariance[t] - gradient[t]
            residual_variance += x[t] * value
            change = max(change, abs(value - W[j, t]))
            W[j, t] = value
            W[t, j] = value
    if not residual_variance > 0.0:
        return -1.0
    precision[j] = 1.0 / residual_variance
    return change


@njit_internal
def _refit(S: FloatArray, tolerance: float, W: FloatArray, beta: FloatArray, theta: FloatArray) -> bool:
    """Maximum likelihood on the support of beta, class by class; whether it converged.

    From the penalised W it takes few sweeps, but may lose definiteness; from a positive definite S it cannot.
    """
    n_classes, p, _ = S.shape
    first, neighbours = np.zeros(p + 1, np.int64), np.empty(p * p, np.int64)
    for k in range(n_classes):
        n = 0
        for j in range(p):
            for i in range(p):
                theta[k, j, i] = 0.0
                if i != j and (beta[k, i, j] != 0.0 or beta[k, j, i] != 0.0):
                    neighbours[n] = i
                    n += 1
            first[j + 1] = n
        if not sweep_support(S[k], first, neighbours, 0.01 * tolerance, _MAX_REFIT_SWEEPS, _DIVERGED, W[k], theta[k]):
            for j in range(p):
                copy(S[k, j], W[k, j])
            if not sweep_support(
                S[k], first, neighbours, 0.01 * tolerance, _MAX_REFIT_SWEEPS, _DIVERGED, W[k], theta[k]
            ):
                return False
    return True
