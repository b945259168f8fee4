"""Rank-based correlations: Spearman's, and normal scores (the nonparanormal model).

In the nonparanormal model (Liu, Lafferty and Wasserman, 2009) unknown increasing functions of the variables are jointly
Gaussian. Both estimate the correlations of those Gaussian variables and are robust to outliers and skewed margins.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.special import ndtri

from jointglasso._cached_property import cached_property
from jointglasso._typing import FloatArray


def ranks(X: FloatArray) -> FloatArray:
    """Average ranks within each column; NaN at missing values, which are not ranked."""
    if np.isnan(X).any():
        from scipy.stats import rankdata  # takes a quarter of a second to import

        return np.asarray(rankdata(X, axis=0, nan_policy="omit"), dtype=float)
    return _by_rank(X, lambda rank: rank)


def _by_rank(X: FloatArray, function: Callable[[FloatArray], FloatArray]) -> FloatArray:
    """`function` of the average ranks within each column, evaluated once for all columns without ties."""
    Y = np.array(X.T, order="C")
    order = np.argsort(Y, axis=1)
    out = np.empty(Y.shape)
    np.put_along_axis(out, order, function(np.arange(1.0, Y.shape[1] + 1.0))[None], axis=1)
    Y.sort(axis=1)
    has_ties = (Y[:, 1:] == Y[:, :-1]).any(axis=1)
    if has_ties.any():
        from scipy.stats import rankdata

        out[has_ties] = function(rankdata(X.T[has_ties], axis=1))
    return out.T


def latent_from_spearman(rho: FloatArray) -> FloatArray:
    """Pearson correlation ``2 sin(pi rho / 6)`` of a Gaussian pair whose Spearman correlation is `rho`."""
    R: FloatArray = 2.0 * np.sin(np.pi / 6.0 * rho)
    np.fill_diagonal(R, 1.0)
    return R


class NormalScores:
    """Winsorised normal scores by the empirical distribution of each column of a table.

    A value with average rank r among n becomes the normal quantile of r / (n + 1), clipped to
    ``[delta, 1 - delta]`` with ``delta = 1 / (4 n^(1/4) sqrt(pi log n))``, the truncation of Liu, Lafferty and
    Wasserman. `scores`, the scores of the table itself, are scaled to mean 0 and variance 1 by column. Missing values
    are NaN.
    """

    def __init__(self, X: FloatArray) -> None:
        self._table = X
        self._count = (~np.isnan(X)).sum(axis=0)
        incomplete = (self._count < len(X)).any()
        raw = self._raw(X) if incomplete else _by_rank(X, lambda rank: _normal(rank, len(X)))
        self._mean = np.nanmean(raw, axis=0) if incomplete else raw.mean(axis=0)
        deviation = np.nanstd(raw, axis=0) if incomplete else raw.std(axis=0)
        self._deviation = np.where(deviation > 0, deviation, 1.0)
        self.scores: FloatArray = (raw - self._mean) / self._deviation

    @cached_property
    def _sorted(self) -> FloatArray:
        return np.sort(self._table, axis=0)  # NaN last

    def __call__(self, X: FloatArray) -> FloatArray:
        """Scores of samples by the empirical distribution functions of the table."""
        scores: FloatArray = (self._raw(X) - self._mean) / self._deviation
        return scores

    def _raw(self, X: FloatArray) -> FloatArray:
        out = np.full(X.shape, np.nan)
        for j, n in enumerate(self._count):
            column, known = X[:, j], self._sorted[:n, j]
            below = np.searchsorted(known, column, side="left")
            upto = np.searchsorted(known, column, side="right")
            out[:, j] = np.where(np.isnan(column), np.nan, _normal((below + upto) / 2.0 + 0.5, int(n)))
        return out


def _normal(rank: FloatArray, n: int) -> FloatArray:
    """Winsorised normal quantiles of ranks among n."""
    delta = winsorisation(n)
    quantiles: FloatArray = ndtri(np.clip(rank / (n + 1.0), delta, 1.0 - delta))
    return quantiles


def winsorisation(n: int) -> float:
    """Winsorised fraction delta of each tail for n samples."""
    return 1.0 / (4.0 * n**0.25 * np.sqrt(np.pi * np.log(n))) if n > 1 else 0.25
