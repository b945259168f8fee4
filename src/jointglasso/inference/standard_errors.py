"""Standard errors of desparsified partial correlations, without the assumption of Gaussian data.

For a pair with residuals e_i, e_j given all other variables (each of mean square 1) and partial correlation rho, the
influence of a sample on the estimate is ``e_i e_j - rho/2 (e_i^2 + e_j^2)``. Its variance, relative to that of Gaussian
data, ``(1 - rho^2)^2``, is the variance factor g of the pair. A single g has about n/4 degrees of freedom and is
noisy; it is shrunken towards the mean over all pairs of the class, with that mean and 1 as lower bounds.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from jointglasso._typing import FloatArray, IntArray
from jointglasso.inference.desparsified import PIECE, Residuals

#: Partial correlations beyond this are left out of the mean factor of a class.
LARGEST_RHO = 0.99


def all_factors(residuals: Residuals, rho: FloatArray, subjects: IntArray | None = None) -> FloatArray:
    """Factor g of every pair (p, p): by matrix products off the support, from influences on it.

    With missing values it is relative to Gaussian data of the samples that have both values.
    """
    g = _by_moments(residuals.standard, rho) if subjects is None else _by_subjects(residuals.standard, rho, subjects)
    if residuals.dilution is not None:
        g *= residuals.dilution / residuals.copies
    i, j = residuals.rows, residuals.columns
    g[i, j] = g[j, i] = factors(residuals, i, j, rho[i, j], subjects)
    return g


def resampled_factors(residuals: Residuals, rho: FloatArray, changes: FloatArray, n: float) -> FloatArray:
    """Factor g of every pair (p, p) from bootstrap deviations dR (B, p, p) of the correlations of `n` samples.

    The first-order change of T is ``-Theta dR Theta``; that of Theta contributes to second order only.
    """
    Theta, scale = residuals.Theta.toarray(), 1.0 / np.sqrt(residuals.diagonal)
    shift = -(Theta @ changes @ Theta) * np.outer(scale, scale)
    diagonal_shift = np.einsum("bii->bi", shift)
    shift = -shift - 0.5 * rho * (diagonal_shift[:, :, None] + diagonal_shift[:, None, :])
    g: FloatArray = n * (shift**2).sum(axis=0) / (len(changes) - 1.0) / (1.0 - rho**2) ** 2
    return g


def at_least_of_its_variables(g: FloatArray) -> FloatArray:
    """Maximum of each factor g_ij (p, p), the multiplicative fit ``a_i a_j`` with one number per variable, and 1.

    Binary variables carry far less information than continuous ones: shrinkage to the mean over all pairs would make
    some factors too small and others too large. log a is the least squares fit to the log factors.
    """
    p, y = len(g), np.log(np.maximum(g, 1e-2))
    np.fill_diagonal(y, 0.0)
    total = y.sum(axis=1)
    variable_factor = np.exp((total - total.sum() / (2.0 * (p - 1))) / max(1, p - 2))
    return np.maximum(np.maximum(g, np.outer(variable_factor, variable_factor)), 1.0)


def factors(
    residuals: Residuals, rows: IntArray, columns: IntArray, rho: FloatArray, subjects: IntArray | None = None
) -> FloatArray:
    """Factor g (m,) of the pairs (rows, columns), from the influence of every sample."""
    r = -residuals.theta_of(rows, columns)
    theta = residuals.Theta.diagonal()
    r /= np.sqrt(theta[rows] * theta[columns])
    out = np.empty(len(rows))
    step = max(1, PIECE // residuals.n_samples)
    standard = residuals.standard
    variance = _variance_function(subjects)
    for first in range(0, len(rows), step):
        piece = slice(first, first + step)
        values = influence(standard[rows[piece]], standard[columns[piece]], r[piece], rho[piece])
        out[piece] = variance(values)
    if residuals.dilution is not None:
        out *= residuals.dilution[rows, columns] / residuals.copies
    return out / (1.0 - rho**2) ** 2


def influence(v_i: FloatArray, v_j: FloatArray, r: FloatArray, rho: FloatArray) -> FloatArray:
    """Influence (m, n) of every sample on m partial correlations.

    Parameters
    ----------
    v_i, v_j : array (m, n)
        Residuals given all variables, with mean square 1.
    r : array (m,)
        Partial correlation of Theta, 0 off the support: ``v_i + r v_j`` is the residual of i given all but j.
    rho : array (m,)
        Partial correlation from T.
    """
    e_i, e_j = v_i + r[:, None] * v_j, v_j + r[:, None] * v_i
    for e in (e_i, e_j):
        size = np.sqrt(np.einsum("mn,mn->m", e, e) / e.shape[1])
        e /= np.where(size > 0, size, 1.0)[:, None]
    values: FloatArray = e_i * e_j - 0.5 * rho[:, None] * (e_i**2 + e_j**2)
    return values


def mean_of_factors(g: FloatArray, rho: FloatArray) -> float:
    """Mean factor over the pairs (m,) whose estimate lies well inside (-1, 1).

    With far fewer samples than variables single estimates leave (-1, 1); their factors, divided by ``(1 - rho^2)^2``,
    are without bound, and with them every standard error of the class would be.
    """
    inside = np.abs(rho) < LARGEST_RHO
    return float(g[inside].mean()) if inside.any() else float(g.mean())


def moderated(g: FloatArray, mean: float) -> FloatArray:
    """``(g + mean) / 2``, bounded below by the mean and by 1.

    With heavy tails a factor below the mean is mostly chance: without the bound such pairs give false differences
    (t5, two classes of 100: a false discovery rate of 0.12 instead of 0.10).
    """
    return np.maximum(max(1.0, mean), 0.5 * (g + mean))


def _variance_function(subjects: IntArray | None) -> Callable[[FloatArray], FloatArray]:
    """Variance of the influences (m, n): of single samples, or of the sums over the samples of each subject."""
    if subjects is None:
        return lambda values: np.asarray(values.var(axis=1))
    order = np.argsort(subjects, kind="stable")
    start = np.flatnonzero(np.diff(subjects[order], prepend=-1))
    n_subjects = len(start)

    def variance(values: FloatArray) -> FloatArray:
        centred = values - values.mean(axis=1, keepdims=True)
        sums = np.add.reduceat(centred[:, order], start, axis=1)
        total: FloatArray = (sums**2).sum(axis=1) / values.shape[1] * n_subjects / (n_subjects - 1.0)
        return total

    return variance


def _by_moments(V: FloatArray, rho: FloatArray) -> FloatArray:
    """Factor g of all pairs (p, p) as if off the support, where e = v."""
    n = V.shape[1]
    square = V * V
    m22, m31, m = square @ square.T / n, (square * V) @ V.T / n, V @ V.T / n
    m4 = np.diagonal(m22)
    variance = m22 - rho * (m31 + m31.T) + rho**2 / 4.0 * (m4[:, None] + m4 + 2.0 * m22) - (m - rho) ** 2
    g: FloatArray = variance / (1.0 - rho**2) ** 2
    return g


def _by_subjects(V: FloatArray, rho: FloatArray, subjects: IntArray) -> FloatArray:
    """As `_by_moments`, with the influences summed over the samples of each subject (cluster-robust)."""
    n, n_subjects = V.shape[1], int(subjects.max()) + 1
    mean = V @ V.T / n - rho  # of the influence: v has mean square 1
    total = np.zeros_like(rho)
    for subject in range(n_subjects):
        V_subject = V[:, subjects == subject]
        square = np.einsum("in,in->i", V_subject, V_subject)
        total += (V_subject @ V_subject.T - 0.5 * rho * (square[:, None] + square) - V_subject.shape[1] * mean) ** 2
    g: FloatArray = total / n * n_subjects / (n_subjects - 1.0) / (1.0 - rho**2) ** 2
    return g
