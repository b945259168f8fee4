"""Tests of one class and across classes, from z = atanh(partial correlation) and its standard error; q-values.

Standard errors are estimated with finite degrees of freedom in each class, which Student's t and Welch's F account
for. Arguments are arrays (m, K), results arrays (m,) or (m, K).
"""

from __future__ import annotations

import numpy as np
from scipy import stats

from jointglasso._typing import FloatArray

#: Standard error of estimates that left (-1, 1): significant nowhere, and finite for weights 1 / error^2.
UNKNOWN = 1e8


def edge_p_values(z: FloatArray, error: FloatArray, degrees: FloatArray, *, gaussian: bool) -> FloatArray:
    """Two-sided p-values of partial correlation 0.

    Gaussian standard errors: ``rho sqrt((n - 2) / (1 - rho^2))`` against t with n - 2 `degrees` of freedom, since
    the normal approximation of z is anti-conservative. Others: z by its standard error against t.
    """
    # rho / sqrt(1 - rho^2) is sinh(z).
    known = error < UNKNOWN
    statistic = known * np.abs(np.sinh(z)) * np.sqrt(degrees) if gaussian else np.abs(z) / error
    p: FloatArray = 2.0 * stats.t.sf(statistic, degrees)
    return p


def difference_p_values(z: FloatArray, error: FloatArray, degrees: FloatArray) -> FloatArray:
    """Two-sided p-values that two classes (m, 2) have the same partial correlation, by Welch and Satterthwaite."""
    return contrast(z, error, degrees, np.array([1.0, -1.0]))[2]


def contrast(
    z: FloatArray, error: FloatArray, degrees: FloatArray, coefficients: FloatArray, level: float = 0.95
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Contrast ``sum_k c_k z_k`` of independent classes, the half-width of its interval, and the p-value of 0.

    Variances add: the standard error is ``sqrt(sum_k c_k^2 error_k^2)``, with degrees of freedom by Satterthwaite.
    """
    square = (coefficients * error) ** 2
    total = square.sum(axis=1)
    with np.errstate(divide="ignore"):
        freedom = total**2 / (square**2 / degrees).sum(axis=1)
    value, standard_error = z @ coefficients, np.sqrt(total)
    p: FloatArray = 2.0 * stats.t.sf(np.abs(value) / standard_error, freedom)
    return value, half_width(level, freedom) * standard_error, p


def difference_interval(
    estimate: FloatArray, low: FloatArray, high: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Difference of the estimates of two classes (m, 2), and its interval from the ends of theirs.

    MOVER interval of Zou (2007): the distance to each limit is the root of the sum of squares of the distances of the
    corresponding limits of the two classes.
    """
    difference = estimate[:, 0] - estimate[:, 1]
    down = np.hypot(estimate[:, 0] - low[:, 0], high[:, 1] - estimate[:, 1])
    up = np.hypot(high[:, 0] - estimate[:, 0], estimate[:, 1] - low[:, 1])
    return difference, difference - down, difference + up


def heterogeneity(z: FloatArray, error: FloatArray, degrees: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Statistic Q of K equal partial correlations, and its p-value by Welch's analysis of variance (1951).

    For two classes that is Welch's t-test of their difference, for infinite degrees of freedom chi-square with K - 1.
    """
    Q, K = spread(z, error), z.shape[1]
    weight_fraction = error**-2 / (error**-2).sum(axis=1, keepdims=True)
    # For estimated standard errors; 0 if these are known.
    correction = ((1.0 - weight_fraction) ** 2 / degrees).sum(axis=1)
    if not correction.any():
        return Q, stats.chi2.sf(Q, K - 1)
    F = Q / (K - 1) / (1.0 + 2.0 * (K - 2) / (K**2 - 1) * correction)
    return Q, stats.f.sf(F, K - 1, (K**2 - 1) / (3.0 * correction))


def spread(z: FloatArray, error: FloatArray) -> FloatArray:
    """Weighted sum of squares ``Q = sum_k W_k (z_k - mean)^2`` of each pair, W_k = 1 / error^2."""
    weight = 1.0 / error**2
    mean = (weight * z).sum(axis=1, keepdims=True) / weight.sum(axis=1, keepdims=True)
    Q: FloatArray = (weight * (z - mean) ** 2).sum(axis=1)
    return Q


def omnibus(z: FloatArray, error: FloatArray, degrees: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Statistic of partial correlation 0 in all K classes, and its p-value from chi-square with K degrees.

    It is the sum of squares of the normal deviates that have the p-values of Student's t of each class.
    """
    tail = stats.t.sf(np.abs(z / error), degrees)
    total = (stats.norm.isf(np.maximum(tail, 1e-300)) ** 2).sum(axis=1)
    return total, stats.chi2.sf(total, z.shape[1])


def pooled_effect(z: FloatArray, error: FloatArray, degrees: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Signed statistic of the pooled effect over the classes, and its two-sided p-value from Student's t.

    The degrees are those of Satterthwaite, for a mean weighted by ``1 / error^2``.
    """
    weight = 1.0 / error**2
    total = weight.sum(axis=1)
    statistic = (weight * z).sum(axis=1) / np.sqrt(total)
    with np.errstate(divide="ignore"):
        freedom = total**2 / (weight**2 / degrees).sum(axis=1)
    return statistic, 2.0 * stats.t.sf(np.abs(statistic), freedom)


def q_values(p_values: FloatArray, n_tests: int) -> FloatArray:
    """Smallest false discovery rate at which each of the smallest of `n_tests` p-values would be a discovery.

    By Benjamini and Hochberg (1995). p-values that are not passed count as 1, which makes the q-values conservative.
    """
    of_passed: FloatArray = stats.false_discovery_control(p_values) * (n_tests / max(len(p_values), 1))
    return np.minimum(of_passed, 1.0)


def half_width(level: float, degrees: FloatArray) -> FloatArray:
    """Half-width of a two-sided interval of `level`, in standard errors."""
    quantile: FloatArray = stats.t.ppf(0.5 + level / 2.0, degrees)
    return quantile
