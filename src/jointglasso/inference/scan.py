"""One pass over all pairs, by the tiles of the screening pass with residuals in place of samples.

Moderated standard errors are never below the Gaussian ones, so a pair that no Gaussian test can find is found by none.
With ``a_k = |z_k| sqrt(n_k - 3)`` the squared statistic of every test, of an edge, a difference, heterogeneity or a
common effect, is at most ``sum_k a_k^2``. The pass keeps the pairs whose largest a_k allows that sum to matter; of
those the exact sum decides, and what is left is estimated in full.
"""

from __future__ import annotations

import numpy as np
from scipy import stats

from jointglasso._threads import map_on_threads
from jointglasso._typing import FloatArray, IntArray
from jointglasso.covariance import SampleCovariance
from jointglasso.inference.data import InferenceData
from jointglasso.inference.desparsified import Residuals, inside
from jointglasso.penalties import GroupPenalty
from jointglasso.screening.pairs import scan_pairs


def pairs_beyond(
    data: InferenceData, residuals: list[Residuals], limit: float
) -> tuple[IntArray, IntArray, FloatArray]:
    """All pairs whose p-value in some test can be at most `limit`, with their z (m, K)."""
    least = np.tanh(smallest_deviate(limit) / np.sqrt(len(residuals) * (data.sizes - 3.0)))
    # Off the support partial correlations are scalar products of residuals: the scan has them; on it it is not asked.
    source = SampleCovariance([part.scaled.T for part in residuals], assume_centered=True)
    weights = least.min() / least * [part.n_samples for part in residuals]  # the source divides by them
    table = scan_pairs(source, GroupPenalty(float(least.min()), 0.0), weights)
    p = data.n_variables
    support = np.unique(np.concatenate([part.rows * p + part.columns for part in residuals]))
    keys = table.rows * p + table.columns
    off = ~np.isin(keys, support)
    rho = np.column_stack(map_on_threads(lambda part: part.pairs(support // p, support % p), residuals))
    keys, rho = np.append(keys[off], support), np.concatenate([table.weighted[off] * (least / least.min()), rho])
    z = np.arctanh(inside(rho))
    total = (z**2 * (data.sizes - 3.0)).sum(axis=1)
    kept = np.flatnonzero(total >= smallest_deviate(limit) ** 2)
    kept = kept[np.argsort(keys[kept])]
    return keys[kept] // p, keys[kept] % p, z[kept]


def smallest_deviate(limit: float) -> float:
    """Normal deviate with the two-sided p-value `limit`, less a little for rounding.

    Student's t, and chi-square with more degrees of freedom, ask for more.
    """
    return float(stats.norm.isf(limit / 2.0)) * (1.0 - 1e-9)


def sampled_pairs(n_variables: int, number: int) -> tuple[IntArray, IntArray]:
    """A fixed random sample of pairs i < j, for means over all pairs; all of them where they are no more."""
    if n_variables * (n_variables - 1) // 2 <= number:
        rows, columns = np.triu_indices(n_variables, 1)
        return rows, columns
    rng = np.random.default_rng(0)
    i = rng.integers(0, n_variables, number)
    j = (i + rng.integers(1, n_variables, number)) % n_variables
    return np.minimum(i, j), np.maximum(i, j)
