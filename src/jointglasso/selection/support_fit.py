"""Gaussian maximum likelihood with precision matrices on a face: given supports, and values equal in several classes.

``sum_k w_k [-log det Theta_k + <S_k, Theta_k>]`` with weights of at least 1 is self-concordant. Hence a Newton
decrement below 1 proves that the minimum exists; where none exists the decrement stays at 1 or above in all iterations,
although the gradient vanishes.

Column sweeps (Hastie, Tibshirani and Friedman, algorithm 17.1), from R, reach the neighbourhood of the minimum in a
fraction of the time of Newton's method on one component. Newton's method refines their result, and replaces them where
they do not converge.

On the face of a fused solution the free parameters are the diagonals and one value for each cluster of classes with
equal entries; the weights of the classes are their sample sizes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.linalg import cho_factor
from scipy.linalg.lapack import dpotri

from jointglasso._typing import BoolArray, FloatArray, IntArray
from jointglasso.blocks.support import SymmetricSupport, conjugate_gradients
from jointglasso.blocks.system import bincount
from jointglasso.errors import argument
from jointglasso.kernels.support_newton import sweep_support

#: Diagonal precision, on the scale of correlations, above which a diverging fit stops. Newton's method about doubles a
#: diverging estimate in every iteration.
DIVERGED = 1e8

#: Squared correlation from which two variables count as perfectly correlated.
PERFECT = 1.0 - 2e-12
_EQUAL = "two variables joined by an edge are perfectly correlated."

#: An estimate may have diagonal entries this many times larger than ``1 / (1 - r^2)`` of the most correlated pair with
#: an edge: near duplicates have large entries although the maximum exists.
NEAR = 100.0

#: Maximum number of conjugate gradient steps of a Newton direction.
_MAX_CG_STEPS = 200

#: Maximum number of column sweeps, and the change of W at which they stop (or 0.1 tol, if smaller).
_SWEEPS, _SWEEP_TOL = 200, 1e-6


@dataclass(frozen=True)
class Fit:
    """Estimate of one component, or of several that share values; `failure` is the reason, or empty."""

    Theta: Sequence[FloatArray]
    """Matrix of each component."""
    residual: float
    """Largest ``|W_ij - R_ij|`` on the support."""
    failure: str = ""


@dataclass(frozen=True)
class Limits:
    """Stopping rule of a fit, and what is done where it cannot succeed."""

    tol: float
    """Largest ``|W_ij - R_ij|`` on the support."""
    max_iter: int
    decrement: Any = 0.1
    """Newton decrement, perhaps by class (K,); the objective is then within its square of the minimum."""
    diverged: float = DIVERGED
    """Diagonal entry above which an estimate counts as diverging, or `NEAR` times that of its closest pair."""
    ridge: float = 0.0
    """Fraction of each variance added to it, in all components."""
    fallback: float = 0.0
    """Ridge of components whose likelihood has no maximum; 0 keeps the penalised matrix there."""
    largest: float = np.inf
    """Components of more variables are scaled, not refitted."""


class Likelihood:
    """Weighted negative log-likelihood of precision matrices on a face, parametrised by z, one value per cluster.

    S, weights and supports are those of one or several blocks; entries of several blocks may share a parameter.
    """

    def __init__(self, S: Sequence[FloatArray], weight: FloatArray, supports: Sequence[BoolArray]) -> None:
        self.S, self.weight = S, weight
        full = [mask | mask.T | np.eye(len(mask), dtype=bool) for mask in supports]
        self.ends = [np.nonzero(np.triu(mask)) for mask in full]
        size = np.array([len(mask) for mask in full])
        first = np.concatenate([[0], np.cumsum(size)])
        row, column = (
            np.concatenate([start + ends[side] for start, ends in zip(first, self.ends, strict=False)])
            for side in (0, 1)
        )
        self.support = SymmetricSupport(np.concatenate([[0], np.cumsum(size**2)]), size, row, column)
        self.bounds = np.cumsum([len(ends[0]) for ends in self.ends])[:-1]
        counts = [len(ends[0]) for ends in self.ends]
        self.measure = np.repeat(weight, counts) * np.where(row != column, 2.0, 1.0)
        self.share_parameters(np.arange(len(row)), len(row))

    def share_parameters(self, variable: IntArray, n_variables: int) -> None:
        """Set the parameter of each entry, the entries being those of `ends`, block after block."""
        self.variable, self.n_variables = variable, n_variables
        deviations = [np.sqrt(S.diagonal()) for S in self.S]
        scale = [d[i] * d[j] for d, (i, j) in zip(deviations, self.ends, strict=True)]
        self._variances = [d**2 for d in deviations]
        self._size = self._sum(np.concatenate(scale))

    def _sum(self, entries: FloatArray) -> FloatArray:
        """(n_variables,): weighted sums over the entries of each cluster, off-diagonal entries counted twice."""
        return bincount(self.variable, self.measure * entries, self.n_variables)

    def entries(self, matrices: Sequence[FloatArray]) -> FloatArray:
        """Entries of symmetric matrices on the supports."""
        return np.concatenate([matrix[ends] for matrix, ends in zip(matrices, self.ends, strict=True)])

    def parameters(self, matrices: Sequence[FloatArray]) -> FloatArray:
        """Parameters z of matrices on the face."""
        z = np.zeros(self.n_variables)
        z[self.variable] = self.entries(matrices)
        return z

    def matrices(self, z: FloatArray) -> list[FloatArray]:
        """Dense matrices with the parameters z."""
        out = []
        for values, (i, j), S in zip(np.split(z[self.variable], self.bounds), self.ends, self.S, strict=True):
            matrix = np.zeros(S.shape)
            matrix[i, j] = matrix[j, i] = values
            out.append(matrix)
        return out

    def closest_pair(self) -> float:
        """Largest squared correlation of two variables with an edge."""
        squares = [
            S[i, j] ** 2 / (S.diagonal()[i] * S.diagonal()[j]) * (i != j)
            for S, (i, j) in zip(self.S, self.ends, strict=True)
        ]
        return float(np.concatenate(squares).max())

    def largest(self, z: FloatArray) -> float:
        """Largest diagonal entry on the scale of correlations."""
        pairs = zip(self.matrices(z), self._variances, strict=True)
        return max(float((Theta.diagonal() * variance).max()) for Theta, variance in pairs)

    def evaluate(self, z: FloatArray) -> tuple[list[Any], float]:
        """Cholesky factors and objective; LinAlgError where a matrix is not positive definite."""
        factors, total = [], 0.0
        for weight, S, Theta in zip(self.weight, self.S, self.matrices(z), strict=True):
            factors.append(cho_factor(Theta, lower=True))
            total += weight * float((S * Theta).sum() - 2.0 * np.log(np.diagonal(factors[-1][0])).sum())
        return factors, total

    def gradient(self, factors: list[Any]) -> tuple[FloatArray, FloatArray, float]:
        """Inverses in flat storage, gradient, and its largest entry on the scale of correlations."""
        W = [inverse(factor) for factor in factors]
        gradient = self._sum(self.entries([S - w for S, w in zip(self.S, W, strict=True)]))
        flat = np.concatenate([w.ravel() for w in W])
        return flat, gradient, float(np.abs(gradient / self._size).max(initial=0.0))

    def direction(self, z: FloatArray, W: FloatArray, gradient: FloatArray, target: float) -> tuple[FloatArray, float]:
        """Newton direction and decrement; the direction is skipped if a bound on the decrement is at most `target`.

        The preconditioner ``G -> Theta G Theta`` on the support, averaged over the entries of a parameter, is the
        inverse Hessian on a full support; on correlated data it takes a sixth of the steps of the diagonal one.
        """
        everywhere = np.ones(len(self.variable), dtype=bool)
        product, count = self.support.product, self._sum(everywhere.astype(float))
        Theta = np.concatenate([matrix.ravel() for matrix in self.matrices(z)])

        def precondition(r: FloatArray) -> FloatArray:
            return self._sum(product(Theta, (r / count)[self.variable], everywhere)) / count

        # The squared decrement on a full support, an upper bound on others.
        if target and self.n_variables == len(self.variable):
            bound = float(gradient @ precondition(gradient))
            if bound <= target**2:
                return z, max(bound, 0.0) ** 0.5
        step, _ = conjugate_gradients(
            lambda d: self._sum(product(W, d[self.variable], everywhere)), precondition, -gradient,
            lambda values: values.sum(keepdims=True), lambda length: length, np.zeros(1), _MAX_CG_STEPS,
        )  # fmt: skip
        return step, max(-float(gradient @ step), 0.0) ** 0.5


def maximise(f: Likelihood, start: tuple[FloatArray, Any, float], limits: Limits) -> tuple[FloatArray, float, str]:
    """Damped Newton from ``start = (point, factors, objective)``: last point, residual, and reason of failure or "".

    Points are parameters of the face.
    """
    point, factors, value = start
    decrement = residual = np.inf
    for _ in range(limits.max_iter):
        W, gradient, residual = f.gradient(factors)
        is_stationary = residual <= limits.tol
        direction, decrement = f.direction(point, W, gradient, limits.decrement if is_stationary else 0.0)
        if is_stationary and decrement <= limits.decrement:
            return point, residual, ""
        if decrement > 0.5 and f.largest(point) > limits.diverged:
            break
        try:
            point, factors, value = _step(f, point, direction, decrement, value)
        except np.linalg.LinAlgError:  # the damped step fails only by rounding, on a nearly singular matrix
            break
    if decrement <= 0.5:
        reason = f"{limits.max_iter} iterations left a residual of {residual:.1e}: raise {argument('max_iter')}."
    else:
        reason = "its likelihood has no maximum, since there are too few samples for so dense a support."
    return point, residual, reason


def _step(
    f: Likelihood, point: FloatArray, direction: FloatArray, decrement: float, value: float
) -> tuple[FloatArray, Any, float]:
    """Largest step of 1, 1/2, ... with sufficient decrease; 1 / (1 + decrement) is feasible by self-concordance."""
    length, safe = 1.0, 1.0 / (1.0 + decrement)
    while length > safe:
        trial = point + length * direction
        try:
            factors, new_value = f.evaluate(trial)
        except np.linalg.LinAlgError:
            new_value = np.inf
        # Near the minimum the decrease is below rounding: accept the full step.
        accepted = new_value <= value - 1e-4 * length * decrement**2 or decrement < 1e-4
        if accepted and np.isfinite(new_value):
            return trial, factors, new_value
        length /= 2.0
    trial = point + safe * direction
    return trial, *f.evaluate(trial)


def fit_support(f: Likelihood, start: Sequence[FloatArray], limits: Limits) -> Fit:
    """Newton's method from column sweeps (one component), from the best multiple of `start`, or from the variances."""
    closest = f.closest_pair()
    if closest >= PERFECT:
        return Fit(start, np.inf, _EQUAL)
    limits = replace(limits, diverged=max(limits.diverged, NEAR / (1.0 - closest)))
    z, residual, failure = maximise(f, _start(f, [_column_sweeps(f, limits), start]), limits)
    return Fit(f.matrices(z), residual, failure)


def _column_sweeps(f: Likelihood, limits: Limits) -> list[FloatArray]:
    """Estimate by column sweeps from R; empty without convergence, or for several components."""
    if len(f.S) > 1:
        return []
    (R,) = f.S
    swept = sweep(R, *f.support.neighbours, min(_SWEEP_TOL, 0.1 * limits.tol), _SWEEPS, limits.diverged, R.copy())
    return [] if swept is None else [swept]


def sweep(
    R: FloatArray,
    first: IntArray,
    neighbours: IntArray,
    tolerance: float,
    n_sweeps: int,
    diverged: float,
    W: FloatArray,
) -> FloatArray | None:
    """Estimate by column sweeps from W, which is overwritten (see `sweep_support`); None without convergence."""
    Theta = np.zeros_like(R)
    converged = sweep_support(R, first, neighbours, tolerance, n_sweeps, diverged, W, Theta)
    return 0.5 * (Theta + Theta.T) if converged else None


def _start(f: Likelihood, candidates: Sequence[Sequence[FloatArray]]) -> tuple[FloatArray, Any, float]:
    """First candidate, scaled, with a lower objective than the diagonal estimate; else the diagonal estimate."""
    variances = f.parameters([np.diag(1.0 / S.diagonal()) for S in f.S])
    fallback = (variances, *f.evaluate(variances))
    for matrices in candidates:
        if not matrices:
            continue
        z = f.parameters(matrices)
        scaled = z * best_multiple(f.S, f.weight, f.matrices(z))
        try:
            factor, value = f.evaluate(scaled)
        except np.linalg.LinAlgError:
            continue
        if value < fallback[2]:
            return scaled, factor, value
    return fallback


def best_multiple(S: Sequence[FloatArray], weight: FloatArray, matrices: Sequence[FloatArray]) -> float:
    """Factor c with the largest likelihood of ``c * matrices``, which removes most of the shrinkage of a penalty."""
    trace = sum(w * float((R * Theta).sum()) for w, R, Theta in zip(weight, S, matrices, strict=True))
    size = sum(w * len(Theta) for w, Theta in zip(weight, matrices, strict=True))
    return float(size / trace)


def inverse(factor: Any) -> FloatArray:
    """Inverse of a matrix from its lower Cholesky factor."""
    lower, _ = dpotri(factor[0], lower=1)
    return np.tril(lower) + np.tril(lower, -1).T
