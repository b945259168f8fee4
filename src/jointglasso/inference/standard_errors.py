"""How sure a desparsified partial correlation is, for data that need not be Gaussian.

Of a pair with residuals e_i, e_j given all other variables (each of mean square 1) and partial correlation rho, the
influence of a sample on the estimate is ``e_i e_j - rho/2 (e_i^2 + e_j^2)``. Its variance, relative to that of Gaussian
data, ``(1 - rho^2)^2``, is the factor g of the pair. A single g rests on about n/4 degrees of freedom and is unsafe
alone; it is moderated by the mean over all pairs of the class, and never taken below that mean nor below 1.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from jointglasso._typing import FloatArray, IntArray
from jointglasso.inference.desparsified import PIECE, Residuals


def all_factors(residuals: Residuals, rho: FloatArray, subjects: IntArray | None = None) -> FloatArray:
    """Factor g of every pair as a p x p matrix: tile products off the support, sample by sample on it.

    Where values are missing it is relative to Gaussian data of the samples that have both.
    """
    g = _by_moments(residuals.standard, rho) if subjects is None else _by_subjects(residuals.standard, rho, subjects)
    if residuals.gain is not None:
        g *= residuals.gain / residuals.copies
    i, j = residuals.rows, residuals.columns
    g[i, j] = g[j, i] = factors(residuals, i, j, rho[i, j], subjects)
    return g


def resampled_factors(residuals: Residuals, rho: FloatArray, changes: FloatArray, n: float) -> FloatArray:
    """Factor g of every pair from correlations (B, p, p) of resamples, less their mean, of `n` samples.

    T moves by ``-Theta dR Theta`` where the correlations move by dR; that Theta moves too is of second order.
    """
    Theta, scale = residuals.Theta.toarray(), 1.0 / np.sqrt(residuals.diagonal)
    moved = -(Theta @ changes @ Theta) * np.outer(scale, scale)
    own = np.einsum("bii->bi", moved)
    moved = -moved - 0.5 * rho * (own[:, :, None] + own[:, None, :])
    g: FloatArray = n * (moved**2).sum(axis=0) / (len(changes) - 1.0) / (1.0 - rho**2) ** 2
    return g


def at_least_of_its_variables(g: FloatArray) -> FloatArray:
    """The larger of each factor (p, p) and what its two variables say: a product of one number for each, and 1.

    Answers in two categories tell far less than numbers do: towards the mean over all pairs the factors of some would
    be too small, those of others too large. The numbers fit the logarithms of all factors by least squares.
    """
    p, y = len(g), np.log(np.maximum(g, 1e-2))
    np.fill_diagonal(y, 0.0)
    total = y.sum(axis=1)
    share = np.exp((total - total.sum() / (2.0 * (p - 1))) / max(1, p - 2))
    return np.maximum(np.maximum(g, np.outer(share, share)), 1.0)


def factors(
    residuals: Residuals, rows: IntArray, columns: IntArray, rho: FloatArray, subjects: IntArray | None = None
) -> FloatArray:
    """Factor g of some pairs, from the influence of every sample."""
    r = -residuals.theta_of(rows, columns)
    theta = residuals.Theta.diagonal()
    r /= np.sqrt(theta[rows] * theta[columns])
    out = np.empty(len(rows))
    step = max(1, PIECE // residuals.n_samples)
    standard = residuals.standard
    variance = _summed(subjects)
    for first in range(0, len(rows), step):
        piece = slice(first, first + step)
        values = influence(standard[rows[piece]], standard[columns[piece]], r[piece], rho[piece])
        out[piece] = variance(values)
    if residuals.gain is not None:
        out *= residuals.gain[rows, columns] / residuals.copies
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


def moderated(g: FloatArray, mean: float) -> FloatArray:
    """Half of the way from each factor to their mean, at least that mean, and at least 1.

    With heavy tails a pair that looks surer than the others is so by chance: below the mean they would make differences
    out of noise (t5, two classes of 100: a false discovery rate of 0.12 instead of 0.10).
    """
    return np.maximum(max(1.0, mean), 0.5 * (g + mean))


def _summed(subjects: IntArray | None) -> Callable[[FloatArray], FloatArray]:
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
    """Factor g of all pairs, as if all were off the support: there e = v."""
    n = V.shape[1]
    square = V * V
    m22, m31, m = square @ square.T / n, (square * V) @ V.T / n, V @ V.T / n
    m4 = np.diagonal(m22)
    variance = m22 - rho * (m31 + m31.T) + rho**2 / 4.0 * (m4[:, None] + m4 + 2.0 * m22) - (m - rho) ** 2
    g: FloatArray = variance / (1.0 - rho**2) ** 2
    return g


def _by_subjects(V: FloatArray, rho: FloatArray, subjects: IntArray) -> FloatArray:
    """As `_by_moments`, summed over the samples of each subject before they are squared."""
    n, n_subjects = V.shape[1], int(subjects.max()) + 1
    mean = V @ V.T / n - rho  # of the influence: v has mean square 1
    total = np.zeros_like(rho)
    for subject in range(n_subjects):
        mine = V[:, subjects == subject]
        square = np.einsum("in,in->i", mine, mine)
        total += (mine @ mine.T - 0.5 * rho * (square[:, None] + square) - mine.shape[1] * mean) ** 2
    g: FloatArray = total / n * n_subjects / (n_subjects - 1.0) / (1.0 - rho**2) ** 2
    return g
