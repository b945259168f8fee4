"""Maximum likelihood of ``Theta = A - L`` for a given support of A and rank of L, and its degrees of freedom.

The parameters are the entries of A on its support and a factor F with ``L = F F'``; quasi-Newton steps (L-BFGS) start
at the penalised estimate, on the scale of correlations.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from scipy.optimize import minimize

from jointglasso._threads import single_threaded_blas
from jointglasso._typing import FloatArray
from jointglasso.data import CovarianceSource
from jointglasso.solution import Solution

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
