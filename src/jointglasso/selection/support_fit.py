"""Maximum likelihood of a Gaussian whose precision matrix is zero off a given support: one connected component.

``f(Theta) = -log det Theta + <R, Theta>`` is self-concordant. Hence a Newton decrement below 1 proves that the minimum
exists; where none exists it never falls below 1, however long one goes on, although the gradient vanishes.

Sweeps over the columns, from R itself, get to the minimum in a fraction of the time that Newton's method takes from
afar; it is tried where they do not settle, and takes over where the gradient that they leave is not small enough.
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
from jointglasso.kernels.support import newton_direction, sweep_support
from jointglasso.solvers.face import Pattern

#: Precision, on the scale of correlations, beyond which a diverging estimate is given up. Newton's method about doubles
#: a diverging estimate in every iteration.
DIVERGED = 1e8

#: Conjugate gradients of one Newton direction.
_STEPS = 200

#: Most sweeps over the columns, and the change of a covariance at which they end, unless more is asked for.
_SWEEPS, _SETTLED = 200, 1e-6


@dataclass(frozen=True)
class SupportFit:
    """Estimate on one component; `failure` is a reason in words, or empty."""

    Theta: FloatArray
    residual: float
    """Largest ``|W_ij - R_ij|`` on the support."""
    failure: str = ""


@dataclass(frozen=True)
class Limits:
    """When a fit ends."""

    tol: float
    """Largest ``|W_ij - R_ij|`` on the support."""
    max_iter: int
    decrement: float = 0.1
    """Newton decrement; the minimum is then less than its square away."""
    diverged: float = DIVERGED
    """Largest diagonal entry of a diverging estimate before it is given up."""


def fit_support(R: FloatArray, support: BoolArray, start: FloatArray | None, limits: Limits) -> SupportFit:
    """Sweeps over the columns, or Newton's method from `start`, or from the diagonal if that is lower.

    Parameters
    ----------
    R : array (b, b)
        Correlation matrix, or one with a ridge on its diagonal.
    support : array (b, b)
        Entries that may differ from zero; the diagonal always may.
    start : array (b, b) or None
        A positive definite matrix on the support; a multiple of it is used.
    limits : Limits
        Accuracy and effort.
    """
    pattern = Pattern(support)
    deviation = np.sqrt(R.diagonal())
    if (np.abs(R)[pattern.edges] >= (np.outer(deviation, deviation) - 1e-12)[pattern.edges]).any():
        return SupportFit(R, np.inf, "two variables joined by an edge are perfectly correlated.")
    Theta, factor, value = _start(R, pattern, [_swept(R, pattern, limits), start])
    decrement = residual = np.inf
    for _ in range(limits.max_iter):
        W = inverse(factor)
        gradient = pattern.take(R - W)
        residual = float(np.abs(gradient).max())
        # On a full support this is the squared decrement, and on others no less.
        if residual <= limits.tol and pattern.dot(gradient, pattern.curved(Theta, gradient)) <= limits.decrement**2:
            return SupportFit(Theta, residual)
        direction = newton_direction(pattern.rows, pattern.columns, W, Theta, gradient, _STEPS)
        decrement = float(np.sqrt(max(-pattern.dot(gradient, direction), 0.0)))
        if residual <= limits.tol and decrement <= limits.decrement:
            return SupportFit(Theta, residual)
        if decrement > 0.5 and Theta.diagonal().max() > limits.diverged:
            break
        try:
            Theta, factor, value = _step(Theta, pattern.matrix(direction), decrement, R, value)
        except np.linalg.LinAlgError:  # a safe step can only fail by rounding, on a matrix that is all but singular
            break
    if decrement <= 0.5:
        reason = f"{limits.max_iter} iterations left a residual of {residual:.1e}: raise {argument('max_iter')}."
        return SupportFit(Theta, residual, reason)
    reason = "its likelihood has no maximum, since there are too few samples for so dense a support."
    return SupportFit(Theta, residual, reason)


def _swept(R: FloatArray, pattern: Pattern, limits: Limits) -> FloatArray | None:
    """Where sweeps over the columns settle; None if they do not."""
    W, Theta = R.copy(), np.zeros_like(R)
    first, neighbours = pattern.neighbours
    tolerance = min(_SETTLED, 0.1 * limits.tol)
    settled = sweep_support(R, first, neighbours, tolerance, _SWEEPS, limits.diverged, W, Theta)
    return 0.5 * (Theta + Theta.T) if settled else None


def _start(R: FloatArray, pattern: Pattern, given: Sequence[FloatArray | None]) -> tuple[FloatArray, Any, float]:
    """The first of some matrices that is better than a diagonal one."""
    diagonal = np.diag(1.0 / R.diagonal())
    found = (diagonal, *_evaluate(diagonal, R))
    for matrix in given:
        if matrix is None:
            continue
        scaled = best_multiple(pattern.matrix(pattern.take(matrix)), R)
        try:
            factor, value = _evaluate(scaled, R)
        except np.linalg.LinAlgError:
            continue
        if value < found[2]:
            return scaled, factor, value
    return found


def best_multiple(Theta: FloatArray, R: FloatArray) -> FloatArray:
    """Multiple of a precision matrix with the largest likelihood: it undoes most of the shrinkage of a penalty."""
    multiple: FloatArray = Theta * (len(R) / float((R * Theta).sum()))
    return multiple


def inverse(factor: Any) -> FloatArray:
    """Inverse of a matrix from its lower Cholesky factor."""
    lower, _ = dpotri(factor[0], lower=1)
    return np.tril(lower) + np.tril(lower, -1).T


def _evaluate(Theta: FloatArray, R: FloatArray) -> tuple[Any, float]:
    """Cholesky factor and objective."""
    factor = cho_factor(Theta, lower=True)
    return factor, float((R * Theta).sum() - 2.0 * np.log(np.diagonal(factor[0])).sum())


def _step(
    Theta: FloatArray, direction: FloatArray, decrement: float, R: FloatArray, value: float
) -> tuple[FloatArray, Any, float]:
    """Longest of 1, 1/2, ... with sufficient decrease; 1 / (1 + decrement) is always safe by self-concordance."""
    length, safe = 1.0, 1.0 / (1.0 + decrement)
    while length > safe:
        trial = Theta + length * direction
        try:
            factor, new = _evaluate(trial, R)
        except np.linalg.LinAlgError:
            new = np.inf
        # So near the minimum that the decrease is lost in rounding, a full step is always right.
        enough = new <= value - 1e-4 * length * decrement**2 or decrement < 1e-4
        if enough and np.isfinite(new):
            return trial, factor, new
        length /= 2.0
    trial = Theta + safe * direction
    return trial, *_evaluate(trial, R)
