"""Missing values by expectation and maximisation: what is missing is expected under the network found so far.

The steps are those of Städler and Bühlmann (2012), for K classes. E-step: given the mean and the precision matrix of
its class, the missing values of a sample have a conditional mean and covariance; they complete the second moments.
M-step: the joint graphical lasso at a penalty of the size of the noise, ``lambda1 + lambda2 = sqrt(log p / mean n)``,
shared evenly, and the maximum likelihood on its edges. Values have to be missing at random.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from jointglasso._typing import FloatArray, IntArray
from jointglasso.covariance import CovarianceSource
from jointglasso.covariance.classes import Samples
from jointglasso.covariance.dense import DenseCovariance
from jointglasso.covariance.missing import effective_sizes
from jointglasso.covariance.prepare import Preparation, PreparedSamples
from jointglasso.covariance.ranks import NormalScores
from jointglasso.engine import solve
from jointglasso.errors import argument
from jointglasso.selection.relaxed import refit
from jointglasso.selection.solves import quiet_solves
from jointglasso.validation import InputError

#: Rounds at most, and the change of a correlation that ends them.
_ROUNDS, _TOL = 30, 1e-3


def prepared(preparation: Preparation, samples: Samples) -> PreparedSamples:
    """Covariances of samples, as `Preparation` says; with ``missing="em"`` those of incomplete samples by EM."""
    if preparation.missing != "em" or not any(np.isnan(X).any() for X in samples.matrices):
        return preparation(samples)
    if preparation.association in ("spearman", "mixed"):
        raise InputError(
            f"{argument('missing', 'em')} needs Gaussian scores: set {argument('association', 'nonparanormal')} "
            f"instead of {preparation.association!r}, or {argument('missing', 'pairwise')}.",
            "missing",
        )
    rough, Z = _standardised(preparation, samples)
    means, S, _ = _moments(Z, _dense(rough.source))
    scales = np.sqrt(np.stack([np.diagonal(matrix) for matrix in S]))
    location = rough.location + rough.deviation * means
    deviation = rough.deviation * scales
    units = 1.0 / scales if preparation.scale == "correlation" else rough.deviation
    source = DenseCovariance(
        [matrix * np.outer(unit, unit) for matrix, unit in zip(S, units, strict=True)],
        class_names=samples.class_names,
        variable_names=samples.variable_names,
        sample_sizes=effective_sizes(samples),
    )
    source.absent = samples.absent
    return PreparedSamples(
        source, rough.samples, location, deviation, preparation.scale, preparation.association, rough.largest_change
    )


def imputed(preparation: Preparation, samples: Samples, copies: int) -> list[FloatArray]:
    """Standardised samples or normal scores of each class, each sample so many times, one after another.

    Where a value is missing the copies hold draws, with a fixed seed, from its distribution given the sample's other
    values under the network that EM ends with.
    """
    rough, Z = _standardised(preparation, samples)
    means, _, precision = _moments(Z, _dense(rough.source))
    rng = np.random.default_rng(0)
    out = []
    for rows, mean, Theta in zip(Z, means, precision, strict=True):
        drawn = np.repeat(rows, copies, axis=0)
        for mine, m, expected, C in _patterns(drawn, mean, Theta):
            noise = rng.standard_normal((len(mine), len(m))) @ np.linalg.cholesky(C).T
            drawn[np.ix_(mine, m)] = expected + noise
        drawn -= drawn.mean(axis=0)
        out.append(drawn / drawn.std(axis=0))
    return out


def _standardised(preparation: Preparation, samples: Samples) -> tuple[PreparedSamples, list[FloatArray]]:
    """Pairwise correlations to begin with, and the samples on that scale, NaN where values are missing."""
    rough = replace(preparation, missing="pairwise", scale="correlation")(samples)
    if preparation.association == "pearson":
        margins = zip(rough.samples.matrices, rough.location, rough.deviation, strict=True)
        return rough, [(X - m) / d for X, m, d in margins]
    return rough, [NormalScores(X).own for X in rough.samples.matrices]


def _dense(source: CovarianceSource) -> FloatArray:
    return np.stack([source.block(k, np.arange(source.n_variables)) for k in range(source.n_classes)])


def _moments(Z: Sequence[FloatArray], S: FloatArray) -> tuple[FloatArray, FloatArray, list[FloatArray]]:
    """Means (K, p), covariances and precisions (K, p, p) of standardised samples with missing values, from a guess."""
    sizes = np.array([len(rows) for rows in Z])
    p = S.shape[1]
    half = 0.5 * np.sqrt(np.log(max(p, 2)) / sizes.mean())
    means = np.zeros((len(Z), p))
    for _ in range(_ROUNDS):
        source = DenseCovariance(list(S), sample_sizes=sizes)
        with quiet_solves():
            found = solve(source, half, half, weights="sqrt_sample_size", penalize_diagonal=False)
        Theta = [matrix.toarray() for matrix in refit(source, found, on_failure="ridge").precision]
        steps = [_expected(rows, mean, T) for rows, mean, T in zip(Z, means, Theta, strict=True)]
        change = max(float(np.abs(new - old).max()) for (_, new), old in zip(steps, S, strict=True))
        means, S = np.stack([mean for mean, _ in steps]), np.stack([matrix for _, matrix in steps])
        if change <= _TOL:
            break
    return means, S, Theta


def _expected(rows: FloatArray, mean: FloatArray, Theta: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Mean and covariance of samples whose missing values are replaced by their expected first and second moments."""
    filled = rows.copy()
    added = np.zeros_like(Theta)
    for mine, m, expected, C in _patterns(rows, mean, Theta):
        filled[np.ix_(mine, m)] = expected
        added[np.ix_(m, m)] += len(mine) * C
    new = filled.mean(axis=0)
    centred = filled - new
    return new, (centred.T @ centred + added) / len(rows)


def _patterns(
    rows: FloatArray, mean: FloatArray, Theta: FloatArray
) -> Iterator[tuple[IntArray, IntArray, FloatArray, FloatArray]]:
    """Samples that lack the same variables: which, the variables m, and their means and covariance given the others.

    Given the others, missing values m of a sample x have mean ``mean_m - Theta_mm^{-1} Theta_mo (x_o - mean_o)`` and
    covariance ``Theta_mm^{-1}``.
    """
    patterns, which = np.unique(np.isnan(rows), axis=0, return_inverse=True)
    for number, pattern in enumerate(patterns):
        if pattern.any():
            mine = np.flatnonzero(which.ravel() == number)
            m, o = np.flatnonzero(pattern), np.flatnonzero(~pattern)
            C = np.asarray(np.linalg.inv(Theta[np.ix_(m, m)]), dtype=float)
            yield mine, m, mean[m] - (rows[np.ix_(mine, o)] - mean[o]) @ Theta[np.ix_(o, m)] @ C, C
