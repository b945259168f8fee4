"""Missing values by the EM algorithm under a sparse Gaussian graphical model of each class.

The steps are those of Städler and Bühlmann (2012), for K classes. E-step: given the mean and the precision matrix of
its class, the missing values of a sample have a conditional mean and covariance; they complete the second moments.
M-step: the joint graphical lasso at the universal penalty ``lambda1 + lambda2 = sqrt(log p / mean n)`` with ``lambda1 =
lambda2``, followed by maximum likelihood on its support. Values must be missing at random.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from jointglasso._typing import FloatArray, IntArray
from jointglasso.data import CovarianceSource
from jointglasso.data.checks import InputError
from jointglasso.data.kinds import LATENT
from jointglasso.data.missing import effective_sizes
from jointglasso.data.prepare import Preparation, PreparedSamples
from jointglasso.data.ranks import NormalScores
from jointglasso.data.samples import Samples
from jointglasso.data.source import DenseCovariance
from jointglasso.engine import solve
from jointglasso.errors import argument
from jointglasso.selection.relaxed import refit
from jointglasso.selection.solves import quiet_solves

#: Maximum number of EM iterations, and the largest change of a correlation at which they stop.
_MAX_ROUNDS, _TOL = 30, 1e-3


def prepared(preparation: Preparation, samples: Samples) -> PreparedSamples:
    """Covariances of samples by `preparation`; with ``missing="em"`` and incomplete samples by EM."""
    if preparation.missing != "em" or not any(np.isnan(X).any() for X in samples.matrices):
        return preparation(samples)
    if preparation.association in ("spearman", *LATENT):
        raise InputError(
            f"{argument('missing', 'em')} needs Gaussian scores: set {argument('association', 'nonparanormal')} "
            f"instead of {preparation.association!r}, or {argument('missing', 'pairwise')}.",
            "missing",
        )
    initial, Z = _standardised(preparation, samples)
    means, S, _ = _moments(Z, _dense(initial.source))
    scales = np.sqrt(np.stack([np.diagonal(matrix) for matrix in S]))
    location = initial.location + initial.deviation * means
    deviation = initial.deviation * scales
    units = 1.0 / scales if preparation.scale == "correlation" else initial.deviation
    source = DenseCovariance(
        [matrix * np.outer(unit, unit) for matrix, unit in zip(S, units, strict=True)],
        class_names=samples.class_names,
        variable_names=samples.variable_names,
        sample_sizes=effective_sizes(samples),
    )
    source.absent = samples.absent
    return replace(initial, source=source, location=location, deviation=deviation, scale=preparation.scale)


def imputed(preparation: Preparation, samples: Samples, copies: int) -> list[FloatArray]:
    """Multiple imputation: standardised samples or normal scores (copies n_k, p) of each class, row i repeated in turn.

    Missing values are drawn, with a fixed seed, from their conditional distribution given the observed values of the
    sample under the final EM estimate.
    """
    initial, Z = _standardised(preparation, samples)
    means, _, precision = _moments(Z, _dense(initial.source))
    rng = np.random.default_rng(0)
    out = []
    for rows, mean, Theta in zip(Z, means, precision, strict=True):
        drawn = np.repeat(rows, copies, axis=0)
        for members, m, expected, C in _missing_patterns(drawn, mean, Theta):
            noise = rng.standard_normal((len(members), len(m))) @ np.linalg.cholesky(C).T
            drawn[np.ix_(members, m)] = expected + noise
        drawn -= drawn.mean(axis=0)
        out.append(drawn / drawn.std(axis=0))
    return out


def _standardised(preparation: Preparation, samples: Samples) -> tuple[PreparedSamples, list[FloatArray]]:
    """Pairwise-complete correlations (initial estimate), and the standardised samples with NaN at missing values."""
    initial = replace(preparation, missing="pairwise", scale="correlation")(samples)
    if preparation.association == "pearson":
        margins = zip(initial.samples.matrices, initial.location, initial.deviation, strict=True)
        return initial, [(X - m) / d for X, m, d in margins]
    return initial, [NormalScores(X).scores for X in initial.samples.matrices]


def _dense(source: CovarianceSource) -> FloatArray:
    return np.stack([source.block(k, np.arange(source.n_variables)) for k in range(source.n_classes)])


def _moments(Z: Sequence[FloatArray], S: FloatArray) -> tuple[FloatArray, FloatArray, list[FloatArray]]:
    """EM from the initial covariances S (K, p, p): means (K, p), covariances (K, p, p) and K precision matrices."""
    sizes = np.array([len(rows) for rows in Z])
    p = S.shape[1]
    lambda_half = 0.5 * np.sqrt(np.log(max(p, 2)) / sizes.mean())
    means = np.zeros((len(Z), p))
    for _ in range(_MAX_ROUNDS):
        source = DenseCovariance(list(S), sample_sizes=sizes)
        with quiet_solves():
            solution = solve(source, lambda_half, lambda_half, weights="sqrt_sample_size", penalize_diagonal=False)
        Theta = [matrix.toarray() for matrix in refit(source, solution, on_failure="ridge").precision]
        steps = [_expected(rows, mean, T) for rows, mean, T in zip(Z, means, Theta, strict=True)]
        change = max(float(np.abs(new - old).max()) for (_, new), old in zip(steps, S, strict=True))
        means, S = np.stack([mean for mean, _ in steps]), np.stack([matrix for _, matrix in steps])
        if change <= _TOL:
            break
    return means, S, Theta


def _expected(rows: FloatArray, mean: FloatArray, Theta: FloatArray) -> tuple[FloatArray, FloatArray]:
    """E-step of one class: mean (p,) and covariance (p, p) with the conditional moments of the missing values."""
    filled = rows.copy()
    conditional = np.zeros_like(Theta)
    for members, m, expected, C in _missing_patterns(rows, mean, Theta):
        filled[np.ix_(members, m)] = expected
        conditional[np.ix_(m, m)] += len(members) * C
    new_mean = filled.mean(axis=0)
    centred = filled - new_mean
    return new_mean, (centred.T @ centred + conditional) / len(rows)


def _missing_patterns(
    rows: FloatArray, mean: FloatArray, Theta: FloatArray
) -> Iterator[tuple[IntArray, IntArray, FloatArray, FloatArray]]:
    """For each missingness pattern: its rows, missing variables m, conditional means and conditional covariance.

    Given the others, missing values m of a sample x have mean ``mean_m - Theta_mm^{-1} Theta_mo (x_o - mean_o)`` and
    covariance ``Theta_mm^{-1}``.
    """
    patterns, which = np.unique(np.isnan(rows), axis=0, return_inverse=True)
    for number, pattern in enumerate(patterns):
        if pattern.any():
            members = np.flatnonzero(which.ravel() == number)
            m, o = np.flatnonzero(pattern), np.flatnonzero(~pattern)
            C = np.asarray(np.linalg.inv(Theta[np.ix_(m, m)]), dtype=float)
            yield members, m, mean[m] - (rows[np.ix_(members, o)] - mean[o]) @ Theta[np.ix_(o, m)] @ C, C
