"""The desparsified estimate ``T = 2 Theta - Theta S Theta`` of one class, pair by pair.

With residuals ``U = Z Theta`` it is ``T_ij = 2 theta_ij - u_i' u_j / n``: one sparse product and an inner product per
pair, without a p x p matrix. Off the support ``T_ij = -u_i' u_j / n``.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from jointglasso._typing import FloatArray, IntArray

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
    gain : array (p, p), optional
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

    @cached_property
    def _entries(self) -> tuple[IntArray, FloatArray]:
        """Linear indices ``i p + j`` of the support, sorted, and the values of Theta there."""
        keys = self.rows * self.n_variables + self.columns
        order = np.argsort(keys)
        return keys[order], self.theta[order]

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
        """Partial correlations from T as a (p, p) matrix; its diagonal is meaningless."""
        scaled = self.scaled
        rho: FloatArray = scaled @ scaled.T
        step: float | FloatArray = 1.0
        if self.dilution is not None:
            rho *= self.dilution
            step = self.dilution[self.rows, self.columns]
        shift = (1.0 + step) * self.theta / np.sqrt(self.diagonal[self.rows] * self.diagonal[self.columns])
        rho[self.rows, self.columns] -= shift
        rho[self.columns, self.rows] -= shift
        return inside(rho)

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
        return inside(out)

    def theta_of(self, rows: IntArray, columns: IntArray) -> FloatArray:
        """Off-diagonal entries of Theta at (rows, columns)."""
        requested = np.minimum(rows, columns) * self.n_variables + np.maximum(rows, columns)
        keys, values = self._entries
        index = np.minimum(np.searchsorted(keys, requested), len(keys) - 1)
        return np.where(keys[index] == requested, values[index], 0.0) if len(keys) else np.zeros(len(rows))


def inside(rho: FloatArray) -> FloatArray:
    """Clip estimates to (-1, 1) in place; T is not constrained to it."""
    limit = 1.0 - 1e-12
    return np.clip(rho, -limit, limit, out=rho)
