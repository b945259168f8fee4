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

from jointglasso._typing import BoolArray, FloatArray, IntArray
from jointglasso.covariance import CovarianceSource, as_source
from jointglasso.selection.likelihood import components_of, deviances
from jointglasso.selection.support_fit import Limits, best_multiple, fit_support
from jointglasso.solution import Solution
from jointglasso.validation import check_choice, check_count, check_nonnegative, check_positive

#: Largest component that is refitted for the sake of a score.
LARGEST = 500


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
    limits = Limits(check_positive("tol", tol), check_count("max_iter", max_iter))
    matrices = support.precision if isinstance(support, Solution) else list(support)
    if len(matrices) != source.n_classes:
        raise ValueError(f"support has {len(matrices)} matrices, but there are {source.n_classes} classes.")
    found = _refit_classes(source, matrices, check_nonnegative("ridge", ridge), [limits] * source.n_classes)
    if found.failures and on_failure == "raise":
        raise ValueError(f"{found.failures[0]} Set ridge above 0, or on_failure='keep' to leave it as it is.")
    return found


def relaxed_deviances(source: CovarianceSource, solution: Solution, sizes: FloatArray) -> FloatArray | None:
    """``<S_k, Theta_k> - log det Theta_k`` of each class at its maximum likelihood on the support; None without one.

    As accurate as a criterion needs it: n_k times the deviance is within about 0.1 of the minimum. A precision of 1e4
    or more, on the scale of correlations, counts as infinite. Components of more than `LARGEST` variables are not
    refitted: there the best multiple of the penalised matrix is taken, whose deviance is higher.
    """
    limits = [Limits(tol=np.inf, max_iter=30, decrement=min(0.1, 0.3 * n**-0.5), diverged=1e4) for n in sizes]
    found = _refit_classes(source, solution.precision, 0.0, limits, largest=LARGEST)
    return None if found.failures else deviances(source, found.precision)


def _refit_classes(
    source: CovarianceSource,
    matrices: Sequence[Any],
    ridge: float,
    limits: Sequence[Limits],
    largest: float = np.inf,
) -> Refit:
    precision, residual, failures = [], np.zeros(source.n_classes), []
    for k, matrix in enumerate(matrices):
        Theta, residual[k], failed = _refit_class(source, k, sparse.csr_array(matrix), ridge, limits[k], largest)
        precision.append(Theta)
        failures += failed
    return Refit(precision, residual, tuple(failures))


def _refit_class(
    source: CovarianceSource, k: int, given: Any, ridge: float, limits: Limits, largest: float
) -> tuple[Any, float, list[RefitFailure]]:
    deviation = np.sqrt(source.diagonal(k))
    if (deviation <= 0).any():
        name = source.variable_names[int(np.argmin(deviation))]
        raise ValueError(f"Variable {name!r} has zero variance in class {source.class_names[k]!r}: leave it out.")
    variance = (1.0 + ridge) * deviation**2
    upper = sparse.triu(given, 1).tocoo()
    out, on_tree = forest_fit(source.entries(k, upper.row, upper.col), upper.row, upper.col, variance)
    worst = 0.0
    failures = []
    for members in components_of(given):
        if on_tree[members[0]]:
            continue
        start = given[members][:, members].toarray().astype(float)
        scale = np.outer(deviation[members], deviation[members])
        R = source.block(k, members) / scale
        np.fill_diagonal(R, 1.0 + ridge)
        if len(members) > largest:
            _put(out, members, best_multiple(start * scale, R) / scale)
            continue
        fit = fit_support(R, start != 0, start * scale, limits)
        if fit.failure:
            names = tuple(source.variable_names[i] for i in members)
            failures.append(RefitFailure(source.class_names[k], names, fit.failure))
            _put(out, members, start)
        else:
            worst = max(worst, fit.residual)
            _put(out, members, fit.Theta / scale)
    values, rows, columns = (np.concatenate(part) for part in zip(*out, strict=True))
    return sparse.csc_array((values, (rows, columns)), shape=given.shape), worst, failures


#: Entries of a matrix in pieces: values, rows, columns.
_Pieces = list[tuple[FloatArray, IntArray, IntArray]]


def _put(out: _Pieces, members: IntArray, block: FloatArray) -> None:
    rows, columns = np.nonzero(block)
    out.append((block[rows, columns], members[rows], members[columns]))


def forest_fit(
    covariance: FloatArray, rows: IntArray, columns: IntArray, variance: FloatArray
) -> tuple[_Pieces, BoolArray]:
    """Estimates of all components that are trees, in closed form, and which variables lie on one.

    On a tree ``Theta_ij = -s_ij / (s_ii s_jj - s_ij^2)`` for every edge and ``Theta_ii`` is 1 / s_ii plus
    ``s_ij^2 / (s_ii (s_ii s_jj - s_ij^2))`` for each of its edges. A perfect correlation is left to the general method,
    which says so.
    """
    p = len(variance)
    graph = sparse.coo_array((np.ones(len(rows)), (rows, columns)), shape=(p, p))
    n_components, label = sparse.csgraph.connected_components(graph, directed=False)
    minor = variance[rows] * variance[columns] - covariance**2
    singular = minor <= 1e-12 * variance[rows] * variance[columns]
    general = np.bincount(label[rows], minlength=n_components) != np.bincount(label, minlength=n_components) - 1
    general[label[rows[singular]]] = True
    on_tree = ~general[label]
    mine = on_tree[rows]
    i, j, s, minor = rows[mine], columns[mine], covariance[mine], minor[mine]
    diagonal = 1.0 / variance
    diagonal += np.bincount(i, s**2 / (variance[i] * minor), minlength=p)
    diagonal += np.bincount(j, s**2 / (variance[j] * minor), minlength=p)
    members = np.flatnonzero(on_tree)
    return [(diagonal[members], members, members), (-s / minor, i, j), (-s / minor, j, i)], on_tree
