"""Relaxed estimates: maximum likelihood on the edges that were found, without the shrinkage of the penalty.

For each class, ``min -log det Theta + <S, Theta>`` over the matrices that are zero off the support. At the minimum
``W = Theta^{-1}`` agrees with S on the support: that is checked and reported. The problem falls apart into the
connected components of the support.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from scipy.linalg import cho_factor, cho_solve

from jointglasso._typing import BoolArray, FloatArray, IntArray
from jointglasso.covariance import CovarianceSource, as_source
from jointglasso.selection.likelihood import components_of
from jointglasso.solution import Solution
from jointglasso.validation import check_choice, check_count, check_nonnegative, check_positive


@dataclass(frozen=True)
class RefitFailure:
    """A component of a class whose likelihood has no maximum, or none that was found."""

    class_name: str
    variables: tuple[str, ...]
    reason: str

    def __str__(self) -> str:
        named = ", ".join(repr(name) for name in self.variables[:5]) + (", ..." if len(self.variables) > 5 else "")
        return (
            f"The refit of class {self.class_name!r} failed on a component of {len(self.variables)} variables "
            f"({named}): {self.reason}"
        )


@dataclass(frozen=True)
class Refit:
    """Maximum likelihood estimates on a given support.

    Attributes
    ----------
    precision : list of K scipy.sparse.csc_array
        Estimates; penalised values are kept in the components listed in `failures`.
    residual : array (K,)
        Largest ``|W_ij - S_ij|`` on the support, on the scale of correlations, over the components that did not fail.
    failures : tuple of RefitFailure
        Components without an estimate; empty if all is well.
    """

    precision: list[Any]
    residual: FloatArray
    failures: tuple[RefitFailure, ...]


def refit(
    S: Any,
    support: Solution | Sequence[Any],
    *,
    ridge: float = 0.0,
    on_failure: str = "raise",
    tol: float = 1e-8,
    max_iter: int = 200,
) -> Refit:
    """Maximum likelihood estimate on the support of a solution.

    Parameters
    ----------
    S : CovarianceSource, or what `jointglasso.solve` takes
        Covariances that the solution was computed from.
    support : Solution or sequence of K matrices
        Its non-zero entries are the support.
    ridge : float, default 0.0
        Added to the diagonal of S, as a share of each variance. Above 0 the estimate always exists.
    on_failure : {"raise", "keep"}
        Where the likelihood has no maximum (fewer samples than the largest clique of the support is the usual cause),
        raise ValueError, or keep the given matrix on that component and list it in `failures`.
    tol : float, default 1e-8
        Largest ``|W_ij - S_ij|`` accepted on the support, on the scale of correlations.
    max_iter : int, default 200
        Newton iterations for each component.

    Returns
    -------
    Refit
        Estimates with the residual of their optimality conditions.
    """
    source = as_source(S)
    check_choice("on_failure", on_failure, ("raise", "keep"))
    limits = check_nonnegative("ridge", ridge), check_positive("tol", tol), check_count("max_iter", max_iter)
    matrices = support.precision if isinstance(support, Solution) else list(support)
    if len(matrices) != source.n_classes:
        raise ValueError(f"support has {len(matrices)} matrices, but there are {source.n_classes} classes.")
    precision, residual, failures = [], np.zeros(source.n_classes), []
    for k, matrix in enumerate(matrices):
        Theta, residual[k], failed = _refit_class(source, k, sparse.csr_array(matrix), *limits)
        precision.append(Theta)
        failures += failed
    if failures and on_failure == "raise":
        raise ValueError(f"{failures[0]} Set ridge above 0, or on_failure='keep' to leave it as it is.")
    return Refit(precision, residual, tuple(failures))


def _refit_class(
    source: CovarianceSource, k: int, given: Any, ridge: float, tol: float, max_iter: int
) -> tuple[Any, float, list[RefitFailure]]:
    deviation = np.sqrt(source.diagonal(k))
    if (deviation <= 0).any():
        name = source.variable_names[int(np.argmin(deviation))]
        raise ValueError(f"Variable {name!r} has zero variance in class {source.class_names[k]!r}: leave it out.")
    out = sparse.lil_array(sparse.diags_array(1.0 / ((1.0 + ridge) * deviation**2)))
    worst = 0.0
    failures = []
    for members in components_of(given):
        start = given[members][:, members].toarray().astype(float)
        scale = np.outer(deviation[members], deviation[members])
        R = source.block(k, members) / scale
        np.fill_diagonal(R, 1.0 + ridge)
        Theta, residual, reason = maximum_likelihood(R, start != 0, tol, max_iter)
        if reason:
            names = tuple(source.variable_names[i] for i in members)
            failures.append(RefitFailure(source.class_names[k], names, reason))
            _put(out, members, start)
        else:
            worst = max(worst, residual)
            _put(out, members, Theta / scale)
    return sparse.csc_array(out), worst, failures


def _put(out: Any, members: IntArray, block: FloatArray) -> None:
    rows, columns = np.nonzero(block)
    out[members[rows], members[columns]] = block[rows, columns]


def maximum_likelihood(R: FloatArray, support: BoolArray, tol: float, max_iter: int) -> tuple[FloatArray, float, str]:
    """Newton's method for one component on the scale of correlations: estimate, residual, reason of failure or "".

    ``f(Theta) = -log det Theta + <R, Theta>`` is self-concordant. Hence a Newton decrement below 1 proves that the
    minimum exists, and where none exists the decrement never falls below 1, however long one goes on.
    """
    support = support | np.eye(len(R), dtype=bool)
    twins = np.argwhere(np.triu(support & (np.abs(R) >= np.sqrt(np.outer(R.diagonal(), R.diagonal())) - 1e-12), 1))
    if len(twins):
        return R, np.inf, "two variables joined by an edge are perfectly correlated."
    Theta = np.diag(1.0 / R.diagonal())
    factor, value = _evaluate(Theta, R)
    decrement = np.inf
    for _ in range(max_iter):
        W = cho_solve(factor, np.eye(len(R)))
        gradient = np.where(support, R - W, 0.0)
        residual = float(np.abs(gradient).max())
        if residual <= tol:
            return Theta, residual, ""
        direction = _newton_direction(W, gradient, support)
        decrement = float(np.sqrt(max(-(gradient * direction).sum(), 0.0)))
        if decrement >= 1.0 and Theta.diagonal().max() > 1e10:
            break
        Theta, factor, value = _step(Theta, direction, decrement, R, value)
    if decrement < 1.0:
        return Theta, residual, f"{max_iter} iterations left a residual of {residual:.1e}: raise max_iter or tol."
    return Theta, residual, "its likelihood has no maximum: there are too few samples for so dense a support."


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


def _newton_direction(W: FloatArray, gradient: FloatArray, support: BoolArray) -> FloatArray:
    """Conjugate gradients for ``(W D W) = -gradient`` on the support, scaled by the diagonal of the Hessian."""
    variance = W.diagonal()
    curvature = np.outer(variance, variance) + W * W
    np.fill_diagonal(curvature, variance**2)
    D = np.zeros_like(W)
    rest = -gradient
    scaled = rest / curvature
    search = scaled.copy()
    size = first = float((rest * scaled).sum())
    for _ in range(10 * len(W) + 50):
        product = np.where(support, W @ search @ W, 0.0)
        step = size / float((search * product).sum())
        D += step * search
        rest = rest - step * product
        scaled = rest / curvature
        new = float((rest * scaled).sum())
        # Forcing term: few iterations far out, quadratic convergence at the end.
        if new <= first * min(1e-4, first):
            break
        search = scaled + (new / size) * search
        size = new
    return D
