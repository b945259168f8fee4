"""Gaussian log-likelihoods of sparse precision matrices, and their maximum with latent variables.

``Theta = A - L`` for a given support of A and rank of L is parametrised by the entries of A on its support and a factor
F with ``L = F F'``; quasi-Newton steps (L-BFGS) start at the penalised estimate, on the scale of correlations.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import sparse
from scipy.optimize import minimize

from jointglasso._sparse import diagonal_blocks, logdet
from jointglasso._threads import single_threaded_blas
from jointglasso._typing import FloatArray
from jointglasso.data import CovarianceSource
from jointglasso.data.checks import InputError
from jointglasso.data.missing import pairwise_products
from jointglasso.duality import precision_radius
from jointglasso.solution import Solution


def deviances(source: CovarianceSource, precision: Sequence[Any]) -> FloatArray:
    """``<S_k, Theta_k> - log det Theta_k`` of each class: minus two log-likelihoods per sample, up to a constant."""
    out = np.empty(len(precision))
    for k, matrix in enumerate(precision):
        Theta = sparse.coo_array(matrix)
        out[k] = float(source.entries(k, Theta.row, Theta.col) @ Theta.data) - logdet(matrix)
    return out


def deviance_error(source: CovarianceSource, solution: Solution, sizes: FloatArray) -> float:
    """How much smaller ``sum_k n_k d_k`` of the exact solution may be, d_k the deviances of its penalised matrices.

    d is convex with gradient ``G = S - W`` at Theta, hence ``d(Theta*) >= d - |Theta^(1/2) G Theta^(1/2)|_F t`` with t
    the distance of Theta* in the metric of Theta. With ``f(t) = log(1 + t) - t / (1 + t) >= t^2 / 2 / (1 + t)^2`` the
    gaps of the classes, whose weighted sum is at most the gap, bound t.
    """
    gap, weights = solution.certificate.gap, np.asarray(solution.parameters["weights"], dtype=float)
    if not np.isfinite(gap):
        return np.inf
    slopes = np.empty(len(weights))
    for k, matrix in enumerate(solution.precision):
        Theta = sparse.csr_array(matrix)
        square = (Theta.diagonal() * source.diagonal(k) - 1.0) ** 2
        total = 0.0
        for members, block in diagonal_blocks(Theta):
            square[members] = 0.0
            root = np.linalg.cholesky(block)
            total += float(((root.T @ source.block(k, members) @ root - np.eye(len(members))) ** 2).sum())
        slopes[k] = total + square.sum()
    largest = precision_radius(np.full(len(weights), gap), weights).max()
    return float((1.0 + largest) * np.sqrt(2.0 * gap * (sizes**2 * slopes / weights).sum()))


def held_out_loss(scores: FloatArray, Theta: Any) -> float:
    """``n (<S, Theta> - log det Theta)`` with S the mean of z z' over n samples z, the rows of `scores`.

    With missing values S holds for each pair the mean over the samples that have both.
    """
    n = len(scores)
    if n == 0:
        return 0.0
    if np.isnan(scores).any():
        entries = sparse.coo_array(Theta)
        S, _ = pairwise_products(scores)
        trace = float(S[entries.row, entries.col] @ entries.data)
    else:
        trace = float(np.einsum("ij,ij->", scores @ Theta, scores)) / n
    return n * (trace - logdet(Theta))


def mean_log_likelihood(
    matrices: Sequence[FloatArray], locations: Sequence[FloatArray], precision: Sequence[Any]
) -> float:
    """Mean over all samples of their log-density; missing values (NaN) are integrated out."""
    total, count = 0.0, 0
    for X, location, Theta in zip(matrices, locations, precision, strict=True):
        centred = X - location
        complete = ~np.isnan(centred).any(axis=1)
        n, p = int(complete.sum()), X.shape[1]
        total -= 0.5 * (held_out_loss(centred[complete], Theta) + n * p * np.log(2.0 * np.pi))
        if not complete.all():
            total += _marginal_log_likelihood(centred[~complete], np.linalg.inv(Theta.toarray()))
        count += len(X)
    if count == 0:
        raise InputError("X holds no complete sample, so there is no likelihood: fill the missing values in.", "X")
    return total / count


def _marginal_log_likelihood(centred: FloatArray, Sigma: FloatArray) -> float:
    """Sum over samples of the log-density of their observed variables (marginal Gaussian)."""
    total = 0.0
    for row in centred:
        observed = np.flatnonzero(~np.isnan(row))
        factor = np.linalg.cholesky(Sigma[np.ix_(observed, observed)])
        z = np.linalg.solve(factor, row[observed])
        total -= 0.5 * (len(observed) * np.log(2.0 * np.pi) + float(z @ z)) + float(np.log(np.diagonal(factor)).sum())
    return total


#: Iterations; decrease of ``n d`` in one at which they end; diagonal entry above which an estimate counts as diverging.
_MAX_ITER, _TOL, _DIVERGED = 1000, 1e-5, 1e4


def measured_precision(solution: Solution) -> list[Any]:
    """Precision matrices ``Theta_k = A_k - L_k`` (p, p) of the measured variables, sparse without latent variables."""
    if solution.low_rank is None or not solution.has_latent:
        return solution.precision
    pairs = zip(solution.precision, solution.low_rank.factors, strict=True)
    return [sparse.csc_array(A.toarray() - F @ F.T) for A, F in pairs]


def degrees_of_freedom(n_variables: int, ranks: FloatArray) -> FloatArray:
    """Free parameters ``p r - r (r - 1) / 2`` of symmetric matrices of rank r."""
    return n_variables * ranks - ranks * (ranks - 1.0) / 2.0


def low_rank_deviances(source: CovarianceSource, solution: Solution, sizes: FloatArray) -> FloatArray | None:
    """``<S_k, Theta_k> - log det Theta_k`` (K,) of the fit; None where the likelihood has no maximum."""
    factors = [] if solution.low_rank is None else solution.low_rank.factors
    out = []
    for k, F in enumerate(factors):
        S = source.block(k, np.arange(source.n_variables))
        deviance = _fit(S, solution.precision[k].toarray(), F, float(sizes[k]))
        if deviance is None:
            return None
        out.append(deviance)
    return np.array(out)


def _fit(S: FloatArray, A: FloatArray, F: FloatArray, n: float) -> float | None:
    """Deviance of one class from the penalised A (p, p) and F (p, r); None where it diverges."""
    deviation = np.sqrt(np.diagonal(S))
    R = S / np.outer(deviation, deviation)
    i, j = np.nonzero(np.triu(A))
    multiplicity = np.where(i == j, 1.0, 2.0)

    def parts(z: FloatArray) -> tuple[FloatArray, FloatArray]:
        A = np.zeros_like(R)
        A[i, j] = A[j, i] = z[: len(i)]
        return A, z[len(i) :].reshape(F.shape)

    def evaluate(z: FloatArray) -> tuple[float, FloatArray]:
        A, F = parts(z)
        Theta = A - F @ F.T
        try:
            logdet = 2.0 * float(np.log(np.diagonal(np.linalg.cholesky(Theta))).sum())
        except np.linalg.LinAlgError:  # the line search returns to shorter steps
            return 1e10, np.zeros_like(z)
        gradient = R - np.linalg.inv(Theta)
        slopes = multiplicity * gradient[i, j], -2.0 * gradient @ F
        return float((R * Theta).sum()) - logdet, np.concatenate([part.ravel() for part in slopes])

    start = np.concatenate([(A * np.outer(deviation, deviation))[i, j], (F * deviation[:, None]).ravel()])
    options = {"maxiter": _MAX_ITER, "maxfun": 2 * _MAX_ITER, "ftol": _TOL / n, "gtol": 0.0, "maxcor": 20}
    with single_threaded_blas():
        found = minimize(evaluate, start, jac=True, method="L-BFGS-B", options=options)
    if np.diagonal(parts(found.x)[0]).max() > _DIVERGED:
        return None
    return float(found.fun) + 2.0 * float(np.log(deviation).sum())
