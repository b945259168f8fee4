"""The desparsified estimate ``T = 2 Theta - Theta S Theta`` of one class, pair by pair.

With residuals ``U = Z Theta`` it is ``T_ij = 2 theta_ij - u_i' u_j / n``: a sparse product, then scalar products of the
columns wanted, and no p x p matrix. Off the support only ``u_i' u_j`` is left.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from jointglasso._typing import FloatArray, IntArray

#: T_ii is kept above this share of theta_ii, so that a partial correlation exists.
SMALLEST = 0.1

#: Numbers of residuals that are gathered together.
PIECE = 200_000


class Residuals:
    """Residuals of one class, one row a variable, and what follows from them.

    Parameters
    ----------
    scores : array (n, p)
        Centred samples with ``S = scores' scores / n``.
    Theta : sparse matrix (p, p)
        Maximum likelihood estimate on the support.
    gain : array (p, p), optional
        Factor of the step from Theta to T for each pair, 1 by default: more where samples lack one of the values.
    copies : int, default 1
        Rows of `scores` for each sample.
    """

    def __init__(self, scores: FloatArray, Theta: Any, gain: FloatArray | None = None, copies: int = 1) -> None:
        self.gain, self.copies = gain, copies
        self.Theta = sparse.csr_array(Theta)
        self.U: FloatArray = np.asarray(sparse.csr_array(Theta.T) @ np.ascontiguousarray(scores.T))
        square = np.einsum("in,in->i", self.U, self.U) / self.n_samples
        theta = self.Theta.diagonal()
        plain = 2.0 * theta - square
        self.floored: IntArray = np.flatnonzero(plain < SMALLEST * theta)
        self.diagonal: FloatArray = np.maximum(plain, SMALLEST * theta)
        """T_ii of each variable."""
        self.rms: FloatArray = np.sqrt(square)
        upper = sparse.triu(self.Theta, 1).tocoo()
        self.rows, self.columns = upper.row.astype(np.int64), upper.col.astype(np.int64)
        self.theta: FloatArray = upper.data
        """Partial correlations of Theta at the pairs `rows`, `columns` of the support."""

    @cached_property
    def _entries(self) -> tuple[IntArray, FloatArray]:
        """Pairs of the support by their number in the matrix, sorted, and their values."""
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
        """Rows whose scalar products are the partial correlations of all pairs off the support."""
        scaled: FloatArray = self.U / np.sqrt(self.n_samples * self.diagonal)[:, None]
        return scaled

    @property
    def standard(self) -> FloatArray:
        """Residuals with root mean square 1."""
        return np.divide(self.U, self.rms[:, None], out=np.zeros_like(self.U), where=self.rms[:, None] > 0)

    def all_pairs(self) -> FloatArray:
        """Partial correlations from T as a p x p matrix; the diagonal means nothing."""
        scaled = self.scaled
        rho: FloatArray = scaled @ scaled.T
        step: float | FloatArray = 1.0
        if self.gain is not None:
            rho *= self.gain
            step = self.gain[self.rows, self.columns]
        shift = (1.0 + step) * self.theta / np.sqrt(self.diagonal[self.rows] * self.diagonal[self.columns])
        rho[self.rows, self.columns] -= shift
        rho[self.columns, self.rows] -= shift
        return inside(rho)

    def pairs(self, rows: IntArray, columns: IntArray) -> FloatArray:
        """Partial correlations from T of some pairs."""
        scale = 1.0 / np.sqrt(self.diagonal)
        out = np.empty(len(rows))
        step = max(1, PIECE // self.n_samples)
        for first in range(0, len(rows), step):
            i, j = rows[first : first + step], columns[first : first + step]
            product = np.einsum("en,en->e", self.U[i], self.U[j]) / self.n_samples
            gain = 1.0 if self.gain is None else self.gain[i, j]
            out[first : first + step] = (gain * product - (1.0 + gain) * self.theta_of(i, j)) * scale[i] * scale[j]
        return inside(out)

    def theta_of(self, rows: IntArray, columns: IntArray) -> FloatArray:
        """Entries of Theta off its diagonal."""
        wanted = np.minimum(rows, columns) * self.n_variables + np.maximum(rows, columns)
        keys, values = self._entries
        place = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
        return np.where(keys[place] == wanted, values[place], 0.0) if len(keys) else np.zeros(len(rows))


def inside(rho: FloatArray) -> FloatArray:
    """Keep estimates within (-1, 1), which sampling can take T out of."""
    limit = 1.0 - 1e-12
    return np.clip(rho, -limit, limit, out=rho)
