"""Gaussian maximum likelihood on a given support of the precision matrix, for one connected component.

``f(Theta) = -log det Theta + <R, Theta>`` is self-concordant. Hence a Newton decrement below 1 proves that the minimum
exists; where none exists the decrement stays at 1 or above in all iterations, although the gradient vanishes.

Column sweeps (Hastie, Tibshirani and Friedman, algorithm 17.1), from R, reach the neighbourhood of the minimum in a
fraction of the time of Newton's method. Newton's method refines their result, and replaces them where they do not
converge.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import cho_factor
from scipy.linalg.lapack import dpotri

from jointglasso._typing import BoolArray, FloatArray
from jointglasso.errors import argument
from jointglasso.kernels.support_newton import newton_direction, sweep_support
from jointglasso.solvers.face import Pattern

#: Diagonal precision, on the scale of correlations, above which a diverging fit stops. Newton's method about doubles a
#: diverging estimate in every iteration.
DIVERGED = 1e8

#: Maximum number of conjugate gradient steps of a Newton direction.
_MAX_CG_STEPS = 200

#: Maximum number of column sweeps, and the change of W at which they stop (or 0.1 tol, if smaller).
_SWEEPS, _SWEEP_TOL = 200, 1e-6


@dataclass(frozen=True)
class Fit:
    """Estimate of one component, or of several that share values; `failure` is the reason, or empty."""

    Theta: Any
    """Matrix of the component, or list of matrices of coupled components."""
    residual: float
    """Largest ``|W_ij - R_ij|`` on the support."""
    failure: str = ""


@dataclass(frozen=True)
class Limits:
    """Stopping rule of a fit."""

    tol: float
    """Largest ``|W_ij - R_ij|`` on the support."""
    max_iter: int
    decrement: float = 0.1
    """Newton decrement; the objective is then within its square of the minimum."""
    diverged: float = DIVERGED
    """Diagonal entry above which an estimate counts as diverging."""


def maximise(f: Any, start: tuple[FloatArray, Any, float], limits: Limits) -> tuple[FloatArray, float, str]:
    """Damped Newton from ``start = (point, factors, objective)``: last point, residual, and reason of failure or "".

    `f` is a likelihood such as `_OneComponent`; its points are matrices, or vectors of parameters.
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
    f: Any, point: FloatArray, direction: FloatArray, decrement: float, value: float
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


class _OneComponent:
    """Likelihood of the precision matrix of one component, R being its correlations."""

    def __init__(self, R: FloatArray, pattern: Pattern) -> None:
        self.R, self.sparsity = R, pattern

    def evaluate(self, point: FloatArray) -> tuple[Any, float]:
        """Cholesky factor and objective; LinAlgError where the matrix is not positive definite."""
        factor = cho_factor(point, lower=True)
        return factor, float((self.R * point).sum() - 2.0 * np.log(np.diagonal(factor[0])).sum())

    def gradient(self, factors: Any) -> tuple[Any, FloatArray, float]:
        """Inverse W, gradient, and the largest ``|W_ij - R_ij|``."""
        W = inverse(factors)
        gradient = self.sparsity.take(self.R - W)
        return W, gradient, float(np.abs(gradient).max())

    def direction(self, point: FloatArray, W: Any, gradient: FloatArray, target: float) -> tuple[FloatArray, float]:
        """Newton direction and decrement; the direction is skipped if a bound on the decrement is at most `target`."""
        if target:  # the squared decrement on a full support, an upper bound on others
            bound = self.sparsity.dot(gradient, self.sparsity.curved(point, gradient))
            if bound <= target**2:
                return point, max(bound, 0.0) ** 0.5
        direction = newton_direction(self.sparsity.rows, self.sparsity.columns, W, point, gradient, _MAX_CG_STEPS)
        return self.sparsity.matrix(direction), float(np.sqrt(max(-self.sparsity.dot(gradient, direction), 0.0)))

    def largest(self, point: FloatArray) -> float:
        """Largest diagonal entry on the scale of correlations."""
        return float(point.diagonal().max())


def fit_support(R: FloatArray, support: BoolArray, start: FloatArray | None, limits: Limits) -> Fit:
    """Column sweeps, then Newton's method; without convergence of the sweeps, Newton from a multiple of `start`.

    R is a correlation matrix, perhaps with a ridge on its diagonal; the diagonal always belongs to the support.
    """
    f = _OneComponent(R, Pattern(support))
    deviation, edges = np.sqrt(R.diagonal()), f.sparsity.edges
    if (np.abs(R)[edges] >= (np.outer(deviation, deviation) - 1e-12)[edges]).any():
        return Fit(R, np.inf, "two variables joined by an edge are perfectly correlated.")
    return Fit(*maximise(f, _start(f, [_column_sweeps(R, f.sparsity, limits), start]), limits))


def _column_sweeps(R: FloatArray, pattern: Pattern, limits: Limits) -> FloatArray | None:
    """Estimate by column sweeps; None without convergence."""
    W, Theta = R.copy(), np.zeros_like(R)
    first, neighbours = pattern.neighbours
    tolerance = min(_SWEEP_TOL, 0.1 * limits.tol)
    converged = sweep_support(R, first, neighbours, tolerance, _SWEEPS, limits.diverged, W, Theta)
    return 0.5 * (Theta + Theta.T) if converged else None


def _start(f: _OneComponent, candidates: Sequence[FloatArray | None]) -> tuple[FloatArray, Any, float]:
    """First candidate, scaled, with a lower objective than the diagonal estimate; else the diagonal estimate."""
    diagonal = np.diag(1.0 / f.R.diagonal())
    fallback = (diagonal, *f.evaluate(diagonal))
    for matrix in candidates:
        if matrix is None:
            continue
        scaled = best_multiple(f.sparsity.matrix(f.sparsity.take(matrix)), f.R)
        try:
            factor, value = f.evaluate(scaled)
        except np.linalg.LinAlgError:
            continue
        if value < fallback[2]:
            return scaled, factor, value
    return fallback


def best_multiple(Theta: FloatArray, R: FloatArray) -> FloatArray:
    """Multiple of a precision matrix with the largest likelihood; removes most of the shrinkage of a penalty."""
    multiple: FloatArray = Theta * (len(R) / float((R * Theta).sum()))
    return multiple


def inverse(factor: Any) -> FloatArray:
    """Inverse of a matrix from its lower Cholesky factor."""
    lower, _ = dpotri(factor[0], lower=1)
    return np.tril(lower) + np.tril(lower, -1).T
