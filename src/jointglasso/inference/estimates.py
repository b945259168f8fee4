"""Estimates and standard errors of all pairs or, with very many, of those that can be significant.

With very many pairs a scan with residuals in place of samples finds those that can be significant. Moderated standard
errors are at least the Gaussian ones, so that pairs not significant by Gaussian tests can be skipped. With
``a_k = |z_k| sqrt(n_k - 3)`` the squared statistic of every test, of an edge, a difference, heterogeneity or a common
effect, is at most ``sum_k a_k^2``. The scan keeps the pairs with ``max_k a_k`` large enough for this sum to exceed the
threshold; then the exact sum is tested, and the remaining pairs are estimated in full.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import stats

from jointglasso._threads import map_on_threads
from jointglasso._typing import FloatArray, IntArray
from jointglasso.data import SampleCovariance
from jointglasso.inference.data import InferenceData
from jointglasso.inference.standard_errors import (
    LARGEST_Z,
    Residuals,
    at_least_of_its_variables,
    clipped,
    factors,
    mean_of_factors,
    moderated,
    moderated_factors,
    resampled_factors,
)
from jointglasso.inference.tests import UNKNOWN
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
    rho = np.concatenate([table.weighted[off_support] * (threshold / threshold.min()), rho])
    keys = np.append(keys[off_support], support)
    z = np.arctanh(clipped(rho))
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


#: Up to this number of pairs all are kept.
ALL_PAIRS = 2_000_000

#: Expected number of null pairs kept where not all are.
BY_CHANCE = 1_000

#: Random pairs for the mean variance factor of a class where not all are evaluated: accurate to 1 % with heavy tails.
SAMPLED = 10_000


@dataclass(frozen=True)
class Estimates:
    """z = atanh(partial correlation) of m pairs in every class."""

    rows: IntArray
    columns: IntArray
    """(m,): variables of each pair, rows < columns."""
    z: FloatArray
    error: FloatArray
    """(m, K): estimate and standard error."""
    degrees: FloatArray
    """(K,): degrees of freedom of the standard errors."""
    limit: float
    """All pairs with a p-value up to this in any test are included; 1 if every pair is."""


def estimate(data: InferenceData, residuals: list[Residuals], se: str, keep: float | None) -> Estimates:
    """Estimate all pairs, or those whose p-value can be at most `keep`."""
    rows: IntArray
    columns: IntArray
    if keep is None:
        rows, columns = np.triu_indices(data.n_variables, 1)
        by_class = [_all_pairs_of_class(data, part, k, se) for k, part in enumerate(residuals)]
        z = np.column_stack([np.arctanh(rho[rows, columns]) for rho, _ in by_class])
        g = np.column_stack([factor[rows, columns] for _, factor in by_class])
    else:
        rows, columns, z = pairs_beyond(data, residuals, keep)
        classes = range(len(residuals))
        g = np.column_stack(
            map_on_threads(lambda k: _factors(data, residuals[k], k, se, rows, columns, z[:, k]), classes)
        )
    error = np.where(np.abs(z) < LARGEST_Z, np.sqrt(g / (data.sizes - 3.0)), UNKNOWN)
    return Estimates(rows, columns, z, error, degrees_of_freedom(data, se), 1.0 if keep is None else keep)


def degrees_of_freedom(data: InferenceData, se: str) -> FloatArray:
    """(K,): n - 2 for Gaussian standard errors, n / 2 for moderated ones, the number of subjects less 1 where given.

    For ordinal data n is the effective sample size.
    """
    if data.subjects is not None and data.dilution is None:
        return data.units - 1.0
    if se == "gaussian":
        return data.sizes - 2.0
    return (data.sizes if data.bootstrap_deviations is None else data.effective_sample_size) / 2.0


def mean_factor(residuals: Residuals, subjects: IntArray | None) -> float:
    """Mean variance factor g (relative to Gaussian data) of a class, over a random sample of pairs."""
    i, j = sampled_pairs(residuals.n_variables, SAMPLED)
    rho = residuals.pairs(i, j)
    return mean_of_factors(factors(residuals, i, j, rho, subjects), rho)


def choose_limit(data: InferenceData, residuals: list[Residuals]) -> float | None:
    """P-value up to which pairs are kept; None (all pairs) if there are at most `ALL_PAIRS`.

    The threshold of Benjamini and Hochberg's procedure at a false discovery rate of 0.2 with Gaussian standard errors,
    if all discoveries were on the support, and at least the level at which `BY_CHANCE` null pairs are expected.
    """
    n_pairs = data.n_variables * (data.n_variables - 1) // 2
    if n_pairs <= ALL_PAIRS or data.dilution is not None:
        return None
    limit = BY_CHANCE / n_pairs
    for k, part in enumerate(residuals):
        z = np.arctanh(part.pairs(part.rows, part.columns))
        p = np.sort(2.0 * stats.norm.sf(np.abs(z) * np.sqrt(data.sizes[k] - 3.0)))
        # In addition to the support pairs, p n_pairs null pairs are expected below p.
        below = p * n_pairs <= 0.2 * (np.arange(1, len(p) + 1) + p * n_pairs)
        limit = max(limit, float(p[below].max(initial=0.0)))
    return limit


def _all_pairs_of_class(data: InferenceData, residuals: Residuals, k: int, se: str) -> tuple[FloatArray, FloatArray]:
    """Partial correlations (p, p) and variance factors (p, p) of class k."""
    rho = residuals.all_pairs()
    lower_bound = np.ones_like(rho) if residuals.dilution is None else residuals.dilution
    if se == "gaussian":
        return rho, lower_bound
    if data.bootstrap_deviations is not None:
        g = resampled_factors(residuals, rho, data.bootstrap_deviations[k], data.sizes[k])
        return rho, at_least_of_its_variables(g) * lower_bound
    g = moderated_factors(residuals, rho, None if data.subjects is None else data.subjects[k])
    return rho, g * lower_bound


def _factors(
    data: InferenceData, residuals: Residuals, k: int, se: str, rows: IntArray, columns: IntArray, z: FloatArray
) -> FloatArray:
    """Moderated variance factors of the pairs (rows, columns) in class k."""
    if se == "gaussian":
        return np.ones_like(z)
    subjects = None if data.subjects is None else data.subjects[k]
    return moderated(factors(residuals, rows, columns, np.tanh(z), subjects), mean_factor(residuals, subjects))
