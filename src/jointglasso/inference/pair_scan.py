"""Scan of all pairs for those that can be significant: the screening pass with residuals in place of samples.

Moderated standard errors are at least the Gaussian ones, so that pairs not significant by Gaussian tests can be
skipped. With ``a_k = |z_k| sqrt(n_k - 3)`` the squared statistic of every test, of an edge, a difference,
heterogeneity or a common effect, is at most ``sum_k a_k^2``. The scan keeps the pairs with ``max_k a_k`` large enough
for this sum to exceed the threshold; then the exact sum is tested, and the remaining pairs are estimated in full.
"""

from __future__ import annotations

import numpy as np
from scipy import stats

from jointglasso._threads import map_on_threads
from jointglasso._typing import FloatArray, IntArray
from jointglasso.data import SampleCovariance
from jointglasso.inference.data import InferenceData
from jointglasso.inference.desparsified import Residuals, inside
from jointglasso.penalties import GroupPenalty
from jointglasso.screening.pairs import scan_pairs


def pairs_beyond(
    data: InferenceData, residuals: list[Residuals], limit: float
) -> tuple[IntArray, IntArray, FloatArray]:
    """All pairs whose p-value in some test can be at most `limit`, with their z (m, K)."""
    threshold = np.tanh(smallest_deviate(limit) / np.sqrt(len(residuals) * (data.sizes - 3.0)))
    # Off the support partial correlations are inner products of residuals, which the scan computes; the support is
    # added.
    source = SampleCovariance([part.scaled.T for part in residuals], assume_centered=True)
    weights = threshold.min() / threshold * [part.n_samples for part in residuals]  # the source divides by them
    table = scan_pairs(source, GroupPenalty(float(threshold.min()), 0.0), weights)
    p = data.n_variables
    support = np.unique(np.concatenate([part.rows * p + part.columns for part in residuals]))
    keys = table.rows * p + table.columns
    off_support = ~np.isin(keys, support)
    rho = np.column_stack(map_on_threads(lambda part: part.pairs(support // p, support % p), residuals))
    keys, rho = (
        np.append(keys[off_support], support),
        np.concatenate([table.weighted[off_support] * (threshold / threshold.min()), rho]),
    )
    z = np.arctanh(inside(rho))
    upper_bound = (z**2 * (data.sizes - 3.0)).sum(axis=1)
    selected = np.flatnonzero(upper_bound >= smallest_deviate(limit) ** 2)
    selected = selected[np.argsort(keys[selected])]
    return keys[selected] // p, keys[selected] % p, z[selected]


def smallest_deviate(limit: float) -> float:
    """Normal quantile of the two-sided p-value `limit`, reduced by 1e-9 for rounding.

    The critical values of Student's t and of chi-square with more degrees of freedom are larger.
    """
    return float(stats.norm.isf(limit / 2.0)) * (1.0 - 1e-9)


def sampled_pairs(n_variables: int, number: int) -> tuple[IntArray, IntArray]:
    """Fixed random sample of `number` pairs i < j (all pairs if there are fewer), to estimate means over pairs."""
    if n_variables * (n_variables - 1) // 2 <= number:
        rows, columns = np.triu_indices(n_variables, 1)
        return rows, columns
    rng = np.random.default_rng(0)
    i = rng.integers(0, n_variables, number)
    j = (i + rng.integers(1, n_variables, number)) % n_variables
    return np.minimum(i, j), np.maximum(i, j)
