"""The desparsified estimate of one class, pair by pair, and its standard errors, without assuming Gaussian data.

The estimate is ``T = 2 Theta - Theta S Theta``, with residuals ``U = Z Theta`` also ``2 theta_ij - u_i' u_j / n``: one
sparse product and an inner product per pair, without a p x p matrix. Off the support ``T_ij = -u_i' u_j / n``.

For a pair with residuals e_i, e_j given all other variables (each of mean square 1) and partial correlation rho, the
influence of a sample on the estimate is ``e_i e_j - rho/2 (e_i^2 + e_j^2)``. Its variance, relative to that of Gaussian
data, ``(1 - rho^2)^2``, is the variance factor g of the pair. A single g has about n/4 degrees of freedom and is
noisy; it is shrunken towards the mean over all pairs of the class, with that mean and 1 as lower bounds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from scipy import sparse

from jointglasso._typing import FloatArray, IntArray
from jointglasso.networks.edge_list import values_at

#: Lower bound of T_ii as a fraction of theta_ii, so that partial correlations exist.
SMALLEST = 0.1

#: Residuals (pairs times samples) gathered at a time.
PIECE = 200_000


class Residuals:
    """Residuals U (p, n) of one class, and the desparsified partial correlations.

    Parameters
    ----------
    scores : array (n, p)
        Centred samples with ``S = scores' scores / n``.
    Theta : sparse matrix (p, p)
        Maximum likelihood estimate on the support.
    dilution : array (p, p), optional
        Factor of the correction from Theta to T for each pair, 1 by default; above 1 where values are missing.
    copies : int, default 1
        Rows of `scores` for each sample.
    """

    def __init__(self, scores: FloatArray, Theta: Any, dilution: FloatArray | None = None, copies: int = 1) -> None:
        self.dilution, self.copies = dilution, copies
        self.Theta = sparse.csr_array(Theta)
        self.U: FloatArray = np.asarray(sparse.csr_array(Theta.T) @ np.ascontiguousarray(scores.T))
        square = np.einsum("in,in->i", self.U, self.U) / self.n_samples
        theta = self.Theta.diagonal()
        unfloored = 2.0 * theta - square
        self.floored: IntArray = np.flatnonzero(unfloored < SMALLEST * theta)
        self.diagonal: FloatArray = np.maximum(unfloored, SMALLEST * theta)
        """T_ii of each variable."""
        self.rms: FloatArray = np.sqrt(square)
        upper = sparse.triu(self.Theta, 1).tocoo()
        self.rows, self.columns = upper.row.astype(np.int64), upper.col.astype(np.int64)
        self.theta: FloatArray = upper.data
        """Theta_ij at the pairs `rows`, `columns` of the support."""

    @property
    def n_samples(self) -> int:
        """Number of samples n."""
        return int(self.U.shape[1])

    @property
    def n_variables(self) -> int:
        """Number of variables p."""
        return int(self.U.shape[0])

    @property
    def scaled(self) -> FloatArray:
        """Rows (p, n) whose inner products are the partial correlations of the pairs off the support."""
        scaled: FloatArray = self.U / np.sqrt(self.n_samples * self.diagonal)[:, None]
        return scaled

    @property
    def standard(self) -> FloatArray:
        """Residuals with root mean square 1."""
        return np.divide(self.U, self.rms[:, None], out=np.zeros_like(self.U), where=self.rms[:, None] > 0)

    def all_pairs(self) -> FloatArray:
        """Partial correlations from T as a (p, p) matrix with zeros on its diagonal."""
        scaled = self.scaled
        rho: FloatArray = scaled @ scaled.T
        step: float | FloatArray = 1.0
        if self.dilution is not None:
            rho *= self.dilution
            step = self.dilution[self.rows, self.columns]
        shift = (1.0 + step) * self.theta / np.sqrt(self.diagonal[self.rows] * self.diagonal[self.columns])
        rho[self.rows, self.columns] -= shift
        rho[self.columns, self.rows] -= shift
        np.fill_diagonal(rho, 0.0)
        return clipped(rho)

    def pairs(self, rows: IntArray, columns: IntArray) -> FloatArray:
        """Partial correlations from T of the pairs (rows, columns)."""
        scale = 1.0 / np.sqrt(self.diagonal)
        out = np.empty(len(rows))
        step = max(1, PIECE // self.n_samples)
        for first in range(0, len(rows), step):
            i, j = rows[first : first + step], columns[first : first + step]
            product = np.einsum("en,en->e", self.U[i], self.U[j]) / self.n_samples
            dilution = 1.0 if self.dilution is None else self.dilution[i, j]
            out[first : first + step] = (
                (dilution * product - (1.0 + dilution) * self.theta_of(i, j)) * scale[i] * scale[j]
            )
        return clipped(out)

    def theta_of(self, rows: IntArray, columns: IntArray) -> FloatArray:
        """Off-diagonal entries of Theta at (rows, columns)."""
        return values_at(self.Theta, np.minimum(rows, columns), np.maximum(rows, columns))


#: Bound on the partial correlations, and on their z; estimates there left (-1, 1), to which T is not constrained.
_LIMIT = 1.0 - 1e-12
LARGEST_Z = float(np.arctanh(_LIMIT)) * (1.0 - 1e-9)


def clipped(rho: FloatArray) -> FloatArray:
    """Clip estimates to (-1, 1) in place."""
    return np.clip(rho, -_LIMIT, _LIMIT, out=rho)


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


def moderated_factors(residuals: Residuals, rho: FloatArray, subjects: IntArray | None = None) -> FloatArray:
    """Factor g of every pair (p, p), moderated towards the mean over all pairs."""
    g = all_factors(residuals, rho, subjects)
    upper = np.triu_indices(len(g), 1)
    return moderated(g, mean_of_factors(g[upper], rho[upper]))


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
    out = np.empty(len(rows))
    variance = variance_by_unit(subjects)
    for piece, values in _influences(residuals, rows, columns, rho):
        out[piece] = variance(values)
    if residuals.dilution is not None:
        out *= residuals.dilution[rows, columns] / residuals.copies
    return out / (1.0 - rho**2) ** 2


def variance_of_sum(residuals: Residuals, rows: IntArray, columns: IntArray, rho: FloatArray, w: FloatArray) -> float:
    """Variance of ``sum w atanh(rho)`` over pairs, times n, with the covariances of their estimates."""
    total = np.zeros(residuals.n_samples)
    for piece, values in _influences(residuals, rows, columns, rho):
        total += (w[piece] / (1.0 - rho[piece] ** 2)) @ values
    return float(total.var())


def _influences(
    residuals: Residuals, rows: IntArray, columns: IntArray, rho: FloatArray
) -> Iterator[tuple[slice, FloatArray]]:
    """Influences (m', n) of the pairs (rows, columns), some pairs at a time."""
    theta, standard = residuals.Theta.diagonal(), residuals.standard
    r = -residuals.theta_of(rows, columns) / np.sqrt(theta[rows] * theta[columns])
    step = max(1, PIECE // residuals.n_samples)
    for first in range(0, len(rows), step):
        piece = slice(first, first + step)
        yield piece, influence(standard[rows[piece]], standard[columns[piece]], r[piece], rho[piece])


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


def variance_by_unit(subjects: IntArray | None) -> Callable[[FloatArray], FloatArray]:
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
