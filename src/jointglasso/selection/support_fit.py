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
class Fit:
    """Estimate on one component, or on several that share values; `failure` is a reason in words, or empty."""

    Theta: Any
    """A matrix, or a list with those of all components."""
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


def maximise(f: Any, start: tuple[FloatArray, Any, float], limits: Limits) -> tuple[FloatArray, float, str]:
    """Newton's method from a point with its factors and objective: the last point, its residual, and what failed.

    `f` is a likelihood, `_OneComponent` or alike: its points are matrices, or vectors of the values that they share.
    """
    point, factors, value = start
    decrement = residual = np.inf
    for _ in range(limits.max_iter):
        W, gradient, residual = f.slope(factors)
        settled = residual <= limits.tol
        direction, decrement = f.direction(point, W, gradient, limits.decrement if settled else 0.0)
        if settled and decrement <= limits.decrement:
            return point, residual, ""
        if decrement > 0.5 and f.largest(point) > limits.diverged:
            break
        try:
            point, factors, value = _step(f, point, direction, decrement, value)
        except np.linalg.LinAlgError:  # a safe step can only fail by rounding, on a matrix that is all but singular
            break
    if decrement <= 0.5:
        reason = f"{limits.max_iter} iterations left a residual of {residual:.1e}: raise {argument('max_iter')}."
    else:
        reason = "its likelihood has no maximum, since there are too few samples for so dense a support."
    return point, residual, reason


def _step(
    f: Any, point: FloatArray, direction: FloatArray, decrement: float, value: float
) -> tuple[FloatArray, Any, float]:
    """Longest of 1, 1/2, ... with sufficient decrease; 1 / (1 + decrement) is always safe by self-concordance."""
    length, safe = 1.0, 1.0 / (1.0 + decrement)
    while length > safe:
        trial = point + length * direction
        try:
            factors, new = f.evaluate(trial)
        except np.linalg.LinAlgError:
            new = np.inf
        # So near the minimum that the decrease is lost in rounding, a full step is always right.
        enough = new <= value - 1e-4 * length * decrement**2 or decrement < 1e-4
        if enough and np.isfinite(new):
            return trial, factors, new
        length /= 2.0
    trial = point + safe * direction
    return trial, *f.evaluate(trial)


class _OneComponent:
    """Likelihood of the precision matrix of one component, R being its correlations."""

    def __init__(self, R: FloatArray, pattern: Pattern) -> None:
        self.R, self.pattern = R, pattern

    def evaluate(self, point: FloatArray) -> tuple[Any, float]:
        """Cholesky factor and objective; LinAlgError where the matrix is not definite."""
        factor = cho_factor(point, lower=True)
        return factor, float((self.R * point).sum() - 2.0 * np.log(np.diagonal(factor[0])).sum())

    def slope(self, factors: Any) -> tuple[Any, FloatArray, float]:
        """Inverse W, gradient, and the largest ``|W_ij - R_ij|``."""
        W = inverse(factors)
        gradient = self.pattern.take(self.R - W)
        return W, gradient, float(np.abs(gradient).max())

    def direction(self, point: FloatArray, W: Any, gradient: FloatArray, enough: float) -> tuple[FloatArray, float]:
        """Newton's direction and its decrement; none where the decrement is `enough`."""
        if enough:  # on a full support this is the squared decrement, and on others no less
            bound = self.pattern.dot(gradient, self.pattern.curved(point, gradient))
            if bound <= enough**2:
                return point, max(bound, 0.0) ** 0.5
        found = newton_direction(self.pattern.rows, self.pattern.columns, W, point, gradient, _STEPS)
        return self.pattern.matrix(found), float(np.sqrt(max(-self.pattern.dot(gradient, found), 0.0)))

    def largest(self, point: FloatArray) -> float:
        """Largest diagonal entry on the scale of correlations."""
        return float(point.diagonal().max())


def fit_support(R: FloatArray, support: BoolArray, start: FloatArray | None, limits: Limits) -> Fit:
    """Sweeps over the columns, or Newton's method from a multiple of `start`, or from the diagonal if that is lower.

    R is a correlation matrix, perhaps with a ridge on its diagonal; the diagonal always belongs to the support.
    """
    f = _OneComponent(R, Pattern(support))
    deviation, edges = np.sqrt(R.diagonal()), f.pattern.edges
    if (np.abs(R)[edges] >= (np.outer(deviation, deviation) - 1e-12)[edges]).any():
        return Fit(R, np.inf, "two variables joined by an edge are perfectly correlated.")
    return Fit(*maximise(f, _start(f, [_swept(R, f.pattern, limits), start]), limits))


def _swept(R: FloatArray, pattern: Pattern, limits: Limits) -> FloatArray | None:
    """Where sweeps over the columns settle; None if they do not."""
    W, Theta = R.copy(), np.zeros_like(R)
    first, neighbours = pattern.neighbours
    tolerance = min(_SETTLED, 0.1 * limits.tol)
    settled = sweep_support(R, first, neighbours, tolerance, _SWEEPS, limits.diverged, W, Theta)
    return 0.5 * (Theta + Theta.T) if settled else None


def _start(f: _OneComponent, given: Sequence[FloatArray | None]) -> tuple[FloatArray, Any, float]:
    """The first of some matrices that is better than a diagonal one."""
    diagonal = np.diag(1.0 / f.R.diagonal())
    found = (diagonal, *f.evaluate(diagonal))
    for matrix in given:
        if matrix is None:
            continue
        scaled = best_multiple(f.pattern.matrix(f.pattern.take(matrix)), f.R)
        try:
            factor, value = f.evaluate(scaled)
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
