"""Relaxed estimates: maximum likelihood on the edges that were found, without the shrinkage of the penalty.

For each class, ``min -log det Theta + <S, Theta>`` over the matrices that are zero off the support. At the minimum
``W = Theta^{-1}`` agrees with S on the support: that is checked and reported. The problem falls apart into the
connected components of the support.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
from scipy import sparse

from jointglasso._threads import blas_threads_for, map_on_cores
from jointglasso._typing import BoolArray, FloatArray, IntArray
from jointglasso.covariance import CovarianceSource, as_source
from jointglasso.selection.face_fit import Block, coupled_blocks, fit_face, given_block
from jointglasso.selection.likelihood import deviances, diagonal_blocks
from jointglasso.selection.support_fit import Fit, Limits, best_multiple, fit_support
from jointglasso.solution import Refit, RefitFailure, RefitWarning, Sameness, Solution
from jointglasso.validation import InputError, check_choice, check_count, check_nonnegative, check_positive

#: Largest component that is refitted for the sake of a score.
LARGEST = 1000

#: Share of each variance that is added to it where the likelihood has no maximum otherwise.
RIDGE = 1e-2


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
        Its non-zero entries are the support. Where a solution with a fused penalty has the same value in several
        classes, the estimate has too: these classes are then fitted together, weighted by their sample sizes.
    ridge : float, default 0.0
        Added to the diagonal of S, as a share of each variance. Above 0 the estimate always exists.
    on_failure : {"raise", "keep", "ridge"}
        Where the likelihood has no maximum (fewer samples than the largest clique of the support is the usual cause),
        raise ValueError, keep the given matrix on that component, or fit it with a ridge of 1e-2; such components are
        listed in `failures`.
    tol : float, default 1e-8
        Largest ``|W_ij - S_ij|`` accepted on the support, on the scale of correlations.
    max_iter : int, default 200
        Newton iterations for each component.

    Returns
    -------
    Refit
        Estimates with the residual of their optimality conditions.

    Examples
    --------
    >>> import jointglasso as jgl
    >>> S = [[[1.0, 0.5], [0.5, 1.0]], [[1.0, 0.4], [0.4, 1.0]]]
    >>> solution = jgl.solve(S, 0.1, 0.1)
    >>> jgl.refit(S, solution).precision[0].toarray().round(3)
    array([[ 1.333, -0.667],
           [-0.667,  1.333]])
    """
    source = as_source(S)
    check_choice("on_failure", on_failure, ("raise", "keep", "ridge"))
    limits = Limits(check_positive("tol", tol), check_count("max_iter", max_iter))
    matrices = support.precision if isinstance(support, Solution) else list(support)
    if isinstance(support, Solution) and support.has_latent:
        raise InputError(
            "The solution has latent variables, without which its edges have no maximum likelihood of their own: solve "
            "without latent=, or give support=solution.precision to fit these edges as if there were none.",
            "S",
        )
    if len(matrices) != source.n_classes:
        raise InputError(f"support has {len(matrices)} matrices, but there are {source.n_classes} classes.", "support")
    plan = _Plan(check_nonnegative("ridge", ridge), RIDGE if on_failure == "ridge" else 0.0)
    sameness = support.sameness if isinstance(support, Solution) else None
    found = _refit_classes(source, matrices, plan, [limits] * source.n_classes, sameness)
    if found.failures and on_failure == "raise":
        raise InputError(
            f"{found.failures[0]} Set ridge above 0, or on_failure='ridge' for a ridge of {RIDGE:g} there alone, or "
            "'keep' to leave it as it is.",
            "ridge",
        )
    return found


def with_refit(source: CovarianceSource, solution: Solution) -> Solution:
    """The same solution with maximum likelihood values beside it; a ridge where there is no maximum, with a warning.

    Beside latent variables the values stay penalised.
    """
    if solution.has_latent:
        return solution
    found = refit(source, solution, on_failure="ridge")
    if found.failures:
        warnings.warn(found.describe(), RefitWarning, stacklevel=3)
    return replace(solution, refit=found)


def relaxed_deviances(source: CovarianceSource, solution: Solution, sizes: FloatArray) -> FloatArray | None:
    """``<S_k, Theta_k> - log det Theta_k`` of each class at its maximum likelihood on the support; None without one.

    As accurate as a criterion needs it: n_k times the deviance is within about 0.1 of the minimum. A precision of 1e4
    or more, on the scale of correlations, counts as infinite. Components of more than `LARGEST` variables are not
    refitted: there the best multiple of the penalised matrix is taken, whose deviance is higher.
    """
    limits = [Limits(tol=np.inf, max_iter=30, decrement=min(0.1, 0.3 * n**-0.5), diverged=1e4) for n in sizes]
    found = _refit_classes(source, solution.precision, _Plan(largest=LARGEST), limits, solution.sameness)
    return None if found.failures else deviances(source, found.precision)


@dataclass(frozen=True)
class _Plan:
    """What is done with each component."""

    ridge: float = 0.0
    """Share of each variance that is added to it everywhere."""
    fallback: float = 0.0
    """The same for components whose likelihood has no maximum; 0 keeps what was given there."""
    largest: float = np.inf
    """Components of more variables are only scaled."""


def _refit_classes(
    source: CovarianceSource,
    matrices: Sequence[Any],
    plan: _Plan,
    limits: Sequence[Limits],
    sameness: Sameness | None = None,
) -> Refit:
    """Components that share the values of edges, fitted together; what is alone, class by class."""
    given = [sparse.csr_array(matrix).astype(float) for matrix in matrices]
    shared = [] if sameness is None else [blocks for blocks in coupled_blocks(given, sameness) if len(blocks) > 1]
    residual, failures = np.zeros(source.n_classes), list[RefitFailure]()
    fitted: list[_Pieces] = [[] for _ in given]
    together = np.zeros((source.n_classes, source.n_variables), dtype=bool)
    for blocks in shared:
        strict = min((limits[block.k] for block in blocks), key=lambda limit: limit.decrement)
        fit = _fit_together(source, blocks, given, cast(Sameness, sameness), plan, strict)
        for block, Theta in zip(blocks, fit.Theta, strict=True):
            together[block.k, block.members] = True
            _put(fitted[block.k], block.members, Theta)
            if fit.failure:
                names = tuple(source.variable_names[i] for i in block.members)
                failures.append(RefitFailure(source.class_names[block.k], names, fit.failure))
            else:
                residual[block.k] = max(residual[block.k], fit.residual)
    done = map_on_cores(
        lambda k: _refit_class(source, k, given[k], together[k], plan, limits[k]),
        range(source.n_classes),
        work=float(source.n_classes * source.n_variables**2),
    )
    precision = []
    for k, (pieces, worst, failed) in enumerate(done):
        failures += [failure for failure in failed if failure not in failures]
        residual[k] = max(residual[k], worst)
        values, rows, columns = (np.concatenate(part) for part in zip(*pieces, *fitted[k], strict=True))
        precision.append(sparse.csc_array((values, (rows, columns)), shape=given[k].shape))
    return Refit(precision, residual, tuple(failures), plan.fallback if failures else 0.0)


def _fit_together(
    source: CovarianceSource, blocks: list[Block], given: Sequence[Any], sameness: Sameness, plan: _Plan, limits: Limits
) -> Fit:
    """Estimates of components that share values."""

    def fit(ridge: float, limits: Limits | None) -> Fit:
        return fit_face(source, blocks, given, sameness, ridge, limits)

    kept = [given_block(given, block) for block in blocks]
    return _fit_or_way_out(fit, max(len(block.members) for block in blocks), kept, plan, limits)


def _fit_or_way_out(
    fit: Callable[[float, Limits | None], Fit], size: int, kept: Any, plan: _Plan, limits: Limits
) -> Fit:
    """What ``fit(ridge, limits)`` gives; where that is too big or there is no maximum, the plan's way out."""
    with blas_threads_for(size):
        if size > plan.largest:
            return fit(plan.ridge, None)
        found = fit(plan.ridge, limits)
        if not found.failure:
            return found
        if not plan.fallback:
            return replace(found, Theta=kept)
        return replace(fit(plan.fallback, limits), failure=found.failure)


def _refit_class(
    source: CovarianceSource, k: int, given: Any, elsewhere: BoolArray, plan: _Plan, limits: Limits
) -> tuple[_Pieces, float, list[RefitFailure]]:
    """Entries of one class but for the variables fitted `elsewhere`, with its largest residual and what failed."""
    deviation = np.sqrt(source.diagonal(k))
    failures = []
    for i in np.flatnonzero(deviation <= 0):
        names = (source.variable_names[i],)
        failures.append(RefitFailure(source.class_names[k], names, f"{names[0]!r} has zero variance."))
        deviation[i] = given[i, i] ** -0.5  # a variable without variance has no edges and keeps its value
    variance = (1.0 + plan.ridge) * deviation**2
    upper = sparse.triu(given, 1).tocoo()
    rows, columns = upper.row[~elsewhere[upper.row]], upper.col[~elsewhere[upper.row]]
    ((diagonal, at, _), *edges), done = forest_fit(source.entries(k, rows, columns), rows, columns, variance)
    here, done = ~elsewhere[at], done | elsewhere
    out: _Pieces = [(diagonal[here], at[here], at[here]), *edges]
    worst = 0.0
    for members, start in diagonal_blocks(given):
        if done[members[0]]:
            continue
        scale = np.outer(deviation[members], deviation[members])
        R = source.block(k, members) / scale
        fit = _fit_component(R, start * scale, plan, limits)
        _put(out, members, fit.Theta / scale)
        if fit.failure:
            names = tuple(source.variable_names[i] for i in members)
            failures.append(RefitFailure(source.class_names[k], names, fit.failure))
        else:
            worst = max(worst, fit.residual)
    return out, worst, failures


def _fit_component(R: FloatArray, start: FloatArray, plan: _Plan, limits: Limits) -> Fit:
    """Estimate on one component, on the scale of correlations."""

    def fit(ridge: float, limits: Limits | None) -> Fit:
        np.fill_diagonal(R, 1.0 + ridge)
        return Fit(best_multiple(start, R), 0.0) if limits is None else fit_support(R, start != 0, start, limits)

    return _fit_or_way_out(fit, len(R), start, plan, limits)


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
