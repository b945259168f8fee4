"""One pass over all pairs, by the tiles of the screening pass with residuals in place of samples.

Moderated standard errors are never below the Gaussian ones, so a pair that no Gaussian test can find is found by
none: with ``a_k = |z_k| sqrt(n_k - 3)`` below tau in every class, the statistic of an edge is below tau, that of a
difference below ``sqrt(2) tau``, and those of K classes below ``sqrt(K) tau``. The pass keeps the pairs with some a_k
above the smallest tau that matters, and they alone are estimated in full.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from jointglasso._typing import FloatArray, IntArray
from jointglasso.inference.data import InferenceData
from jointglasso.inference.desparsified import Residuals
from jointglasso.penalties import GroupPenalty
from jointglasso.screening.pairs import scan_pairs


class _PartialCorrelations:
    """Desparsified partial correlations as a source that the screening pass can read.

    They are those off the support; on it the scan is not asked.
    """

    def __init__(self, data: InferenceData, residuals: list[Residuals]) -> None:
        self._residuals = residuals
        self._scaled = [part.scaled for part in residuals]
        self._diagonals = [np.einsum("in,in->i", U, U) for U in self._scaled]
        self._rough: list[NDArray[np.float32]] = [
            (U / np.sqrt(np.where(d > 0, d, 1.0))[:, None]).astype(np.float32)
            for U, d in zip(self._scaled, self._diagonals, strict=True)
        ]
        self.n_classes, self.n_variables = len(residuals), data.n_variables
        self.class_names, self.variable_names = data.class_names, data.source.variable_names
        self.sample_sizes = data.source.sample_sizes

    def tile(self, k: int, rows: slice, columns: slice) -> FloatArray:
        """Partial correlations of a tile."""
        return self._scaled[k][rows] @ self._scaled[k][columns].T

    def block(self, k: int, variables: IntArray) -> FloatArray:
        """Partial correlations among some variables."""
        U = self._scaled[k][variables]
        return U @ U.T

    def entries(self, k: int, rows: IntArray, columns: IntArray) -> FloatArray:
        """Partial correlations of some pairs."""
        U = self._scaled[k]
        out = np.empty(len(rows))
        step = max(1, 400_000 // U.shape[1])
        for first in range(0, len(rows), step):
            piece = slice(first, first + step)
            out[piece] = np.einsum("ij,ij->i", np.take(U, rows[piece], axis=0), np.take(U, columns[piece], axis=0))
        return out

    def diagonal(self, k: int) -> FloatArray:
        """Squared length of the rows that are multiplied."""
        return self._diagonals[k]

    def rough_correlations(
        self, k: int, rows: slice, columns: slice, out: NDArray[np.float32] | None = None
    ) -> NDArray[np.float32]:
        """Scalar products of unit vectors in single precision."""
        return np.matmul(self._rough[k][rows], self._rough[k][columns].T, out=out)

    def correlation_error(self, k: int) -> float:
        """Bound on their rounding, as for samples."""
        u = (self._scaled[k].shape[1] + 4) * 2.0**-24
        return u / (1.0 - u) if u < 0.5 else np.inf


def pairs_beyond(data: InferenceData, residuals: list[Residuals], limit: float) -> tuple[IntArray, IntArray]:
    """All pairs whose p-value in some test can be at most `limit`, and those of the support, sorted."""
    tau = smallest_deviate(limit, len(residuals))
    least = np.tanh(tau / np.sqrt(data.sizes - 3.0))
    source = _PartialCorrelations(data, residuals)
    table = scan_pairs(source, GroupPenalty(float(least.min()), 0.0), least.min() / least)
    p = data.n_variables
    keys = [table.rows * p + table.columns, *(part.rows * p + part.columns for part in residuals)]
    found = np.unique(np.concatenate(keys))
    return found // p, found % p


def smallest_deviate(limit: float, n_classes: int) -> float:
    """Largest tau such that a pair with all ``a_k < tau`` has a p-value above `limit` in every test.

    Student's t and its degrees make p-values larger still than the normal ones used here.
    """
    normal = float(stats.norm.isf(limit / 2.0))
    if n_classes == 1:
        return normal
    together = [stats.chi2.isf(limit, n_classes - 1), stats.chi2.isf(limit, n_classes), normal**2]
    return min(normal / np.sqrt(2.0), float(np.sqrt(min(together) / n_classes)))


def sampled_pairs(n_variables: int, number: int) -> tuple[IntArray, IntArray]:
    """A fixed random sample of pairs i < j, for means over all pairs; all of them where they are no more."""
    if n_variables * (n_variables - 1) // 2 <= number:
        rows, columns = np.triu_indices(n_variables, 1)
        return rows, columns
    rng = np.random.default_rng(0)
    i = rng.integers(0, n_variables, number)
    j = (i + rng.integers(1, n_variables, number)) % n_variables
    return np.minimum(i, j), np.maximum(i, j)
