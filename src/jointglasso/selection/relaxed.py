"""Refit: Gaussian maximum likelihood on a given support, for S or for a covariance nearer to the penalised estimate.

For each class, ``min -log det Theta + <S, Theta>`` over the matrices that are zero off the support. At the minimum
``W = Theta^{-1}`` equals S on the support; the residual of this condition is reported. The problem separates over
the connected components of the support.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
from scipy import sparse

from jointglasso._sparse import diagonal_blocks
from jointglasso._threads import blas_threads_for, map_on_cores
from jointglasso._typing import BoolArray, FloatArray, IntArray
from jointglasso.data import CovarianceSource, as_source
from jointglasso.data.checks import InputError, check_choice, check_count, check_nonnegative, check_positive
from jointglasso.errors import argument, warn_caller
from jointglasso.selection.likelihood import deviances
from jointglasso.selection.support_fit import Fit, Likelihood, Limits, best_multiple, fit_support
from jointglasso.solution import EdgeClusters, Refit, RefitFailure, RefitWarning, Solution

#: Largest component that is refitted to compute a criterion.
LARGEST = 1000

#: Ridge, as a fraction of each variance, where the likelihood has no maximum otherwise.
RIDGE = 1e-2


def refit(
    S: Any,
    support: Solution | Sequence[Any],
    *,
    relaxation: Any = 1.0,
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
    relaxation : float or array (K,), default 1.0
        phi_k between 0 and 1: the estimate is the maximum likelihood on the support for ``phi_k S_k + (1 - phi_k) W_k``
        with W_k the inverse of the given matrix. 1 is the maximum likelihood for S_k, 0 the given (penalised) matrix.
        Below 1 the estimate always exists.
    ridge : float, default 0.0
        Added to the diagonal of S, as a fraction of each variance. Above 0 the estimate always exists.
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
    phi = np.broadcast_to(np.asarray(relaxation, dtype=float), source.n_classes)
    if not ((phi >= 0.0) & (phi <= 1.0)).all():
        raise InputError(f"{argument('relaxation', relaxation)} must be between 0 and 1.", "relaxation")
    if (phi < 1.0).any():
        source = cast(CovarianceSource, InterpolatedCovariance(source, matrices, phi))
    limits = replace(limits, ridge=check_nonnegative("ridge", ridge), fallback=RIDGE if on_failure == "ridge" else 0.0)
    edge_clusters = support.edge_clusters if isinstance(support, Solution) else None
    fitted = _refit_classes(source, matrices, limits, edge_clusters)
    if fitted.failures and on_failure == "raise":
        raise InputError(
            f"{fitted.failures[0]} Set ridge above 0, or on_failure='ridge' for a ridge of {RIDGE:g} there alone, or "
            "'keep' to leave it as it is.",
            "ridge",
        )
    return replace(fitted, relaxation=tuple(phi.tolist()))


def default_relaxation(source: CovarianceSource) -> FloatArray:
    """phi_k = n_k / (n_k + 10 log p) (K,), the relaxation of the values that are shown; 1 where n_k is unknown.

    The maximum likelihood on edges that the same samples selected overestimates them, the more the fewer samples and
    the more candidate pairs there are; the penalised values underestimate them. Over n = 20 to 1,000 and p = 20 to 300
    the expected loss at this phi is close to that of the best phi (docs/selection.md).
    """
    if source.sample_sizes is None:
        return np.ones(source.n_classes)
    n = np.asarray(source.sample_sizes, dtype=float)
    phi: FloatArray = n / (n + 10.0 * np.log(max(source.n_variables, 2)))
    return phi


def with_refit(source: CovarianceSource, solution: Solution, relaxation: FloatArray | None = None) -> Solution:
    """Solution with its `refit` at `relaxation` (K,), `default_relaxation` if None.

    Without sample sizes it is the maximum likelihood, with a ridge and a warning where that does not exist. Solutions
    with latent variables are returned unchanged.
    """
    if solution.has_latent:
        return solution
    phi = default_relaxation(source) if relaxation is None else relaxation
    fitted = refit(source, solution, relaxation=phi, on_failure="ridge")
    if fitted.failures:
        warn_caller(fitted.describe(), RefitWarning)
    return replace(solution, refit=fitted)


def relaxed_deviances(source: CovarianceSource, solution: Solution, sizes: FloatArray) -> FloatArray | None:
    """``<S_k, Theta_k> - log det Theta_k`` (K,) at the maximum likelihood on the support; None if it does not exist.

    n_k times the deviance is within about 0.1 of the minimum, which suffices for a criterion. A diagonal precision of
    1e4 or more, on the scale of correlations, counts as divergence. Components of more than `LARGEST` variables use
    the best multiple of the penalised matrix, an upper bound of the minimum.
    """
    decrement = np.minimum(0.1, 0.3 * sizes**-0.5)
    limits = Limits(tol=np.inf, max_iter=30, decrement=decrement, diverged=1e4, largest=LARGEST)
    fitted = _refit_classes(source, solution.precision, limits, solution.edge_clusters)
    return None if fitted.failures else deviances(source, fitted.precision)


@dataclass(frozen=True)
class _Component:
    """Connected component of one class: class index `k`, variable indices `members`, and penalised matrix `start`."""

    k: int
    members: IntArray
    start: FloatArray


def _grouped(precision: Sequence[Any], edge_clusters: EdgeClusters | None) -> list[list[_Component]]:
    """Components (two or more variables) of all classes; those that share the value of an edge first, in one group."""
    components, owner = list[_Component](), np.full((len(precision), precision[0].shape[0]), -1)
    for k, Theta in enumerate(precision):
        for members, start in diagonal_blocks(Theta):
            owner[k, members] = len(components)
            components.append(_Component(k, members, start))
    if edge_clusters is None:
        return [[component] for component in components]
    present = edge_clusters.present(precision)
    ends = [np.empty((2, 0), dtype=np.int64)]
    for class_pair, (one, two) in enumerate(edge_clusters.neighbours):
        shared = edge_clusters.rows[edge_clusters.equal[:, class_pair] & present[:, one] & present[:, two]]
        ends.append(owner[[[one], [two]], shared])
    i, j = np.concatenate(ends, axis=1)
    graph = sparse.coo_array((np.ones(len(i)), (i, j)), shape=(len(components), len(components)))
    groups: dict[int, list[_Component]] = {}
    for component, number in zip(
        components, sparse.csgraph.connected_components(graph, directed=False)[1], strict=True
    ):
        groups.setdefault(int(number), []).append(component)
    return sorted(groups.values(), key=lambda group: len(group) == 1)


def _refit_classes(
    source: CovarianceSource, matrices: Sequence[Any], limits: Limits, edge_clusters: EdgeClusters | None = None
) -> Refit:
    """Refit all components: trees in closed form, those that share edge values together, the others one by one."""
    penalised = [sparse.csr_array(matrix).astype(float) for matrix in matrices]
    groups = _grouped(penalised, edge_clusters)
    is_open = np.ones((source.n_classes, source.n_variables), dtype=bool)
    for component in (component for group in groups if len(group) > 1 for component in group):
        is_open[component.k, component.members] = False
    failures, entries, deviations = list[RefitFailure](), list[_Entries](), list[FloatArray]()
    on_tree = np.zeros_like(is_open)
    for k, Theta in enumerate(penalised):
        deviation = np.sqrt(source.diagonal(k))
        for i in np.flatnonzero(deviation <= 0):
            name = source.variable_names[i]
            failures.append(RefitFailure(source.class_names[k], (name,), f"{name!r} has zero variance."))
            deviation[i] = Theta[i, i] ** -0.5  # a variable without variance has no edges and keeps its value
        upper = sparse.triu(Theta, 1).tocoo()
        rows, columns = upper.row[is_open[k, upper.row]], upper.col[is_open[k, upper.row]]
        covariance = source.entries(k, rows, columns)
        trees, on_tree[k] = forest_fit(covariance, rows, columns, (1.0 + limits.ridge) * deviation**2, is_open[k])
        entries.append(trees)
        deviations.append(deviation)
    groups = [group for group in groups if not on_tree[group[0].k, group[0].members[0]]]
    fits = map_on_cores(
        lambda group: _fit_group(source, group, deviations, edge_clusters, limits),
        groups,
        work=float(source.n_classes * source.n_variables**2),
    )
    residual = np.zeros(source.n_classes)
    for group, (fitted, worst, failure) in zip(groups, fits, strict=True):
        for component, part in zip(group, fitted, strict=True):
            k = component.k
            entries[k].append(part)
            if failure:
                names = tuple(source.variable_names[i] for i in component.members)
                failures.append(RefitFailure(source.class_names[k], names, failure))
            else:
                residual[k] = max(residual[k], worst)
    precision = []
    for parts, Theta in zip(entries, penalised, strict=True):
        values, rows, columns = (np.concatenate(part) for part in zip(*parts, strict=True))
        precision.append(sparse.csc_array((values, (rows, columns)), shape=Theta.shape))
    return Refit(precision, residual, tuple(failures), limits.fallback if failures else 0.0)


def _fit_group(
    source: CovarianceSource,
    group: list[_Component],
    deviations: Sequence[FloatArray],
    edge_clusters: EdgeClusters | None,
    limits: Limits,
) -> tuple[_Entries, float, str]:
    """Entries of each component, residual, and reason of failure; by `limits` if large or without a maximum.

    A single component is fitted on the scale of correlations.
    """
    k, sizes = [component.k for component in group], source.sample_sizes
    largest = max(len(component.members) for component in group)
    limits = replace(limits, decrement=np.broadcast_to(limits.decrement, source.n_classes)[k].min())
    S, start = [source.block(c.k, c.members) for c in group], [c.start for c in group]
    scale: Any = 1.0
    if len(group) == 1:
        deviation = deviations[k[0]][group[0].members]
        scale = np.outer(deviation, deviation)
        S, start = [S[0] / scale], [start[0] * scale]
        np.fill_diagonal(S[0], 1.0)
    n = np.ones(source.n_classes) if sizes is None else np.asarray(sizes, dtype=float)
    weight = n[k] / n[k].min()  # at least 1, so that the sum of self-concordant functions is one

    def fit(ridge: float) -> Fit:
        ridged = [matrix * (1.0 + ridge * np.eye(len(matrix))) for matrix in S] if ridge else S
        if largest > limits.largest:
            return Fit([best_multiple(ridged, weight, start) * Theta for Theta in start], 0.0)
        f = Likelihood(ridged, weight, [Theta != 0 for Theta in start])
        if len(group) > 1:
            _share_values(f, group, cast(EdgeClusters, edge_clusters))
        return fit_support(f, start, limits)

    with blas_threads_for(largest):
        fitted = fit(limits.ridge)
        if fitted.failure:
            fitted = replace(fit(limits.fallback) if limits.fallback else Fit(start, np.inf), failure=fitted.failure)
    parts = []
    for component, Theta in zip(group, fitted.Theta, strict=True):
        rows, columns = np.nonzero(Theta)
        parts.append(((Theta / scale)[rows, columns], component.members[rows], component.members[columns]))
    return parts, fitted.residual, fitted.failure


def _share_values(f: Likelihood, group: list[_Component], edge_clusters: EdgeClusters) -> None:
    """Let entries that are equal in several classes share a parameter."""
    keys = []
    for component, ends in zip(group, f.ends, strict=True):
        i, j = (component.members[end] for end in ends)
        index, is_listed = edge_clusters.find(i, j)
        label = np.where(is_listed, edge_clusters.clusters[index, component.k], component.k)
        keys.append(np.stack([i, j, label]))
    unique, variable = np.unique(np.concatenate(keys, axis=1), axis=1, return_inverse=True)
    f.share_parameters(variable.ravel(), unique.shape[1])


#: Parts of a sparse matrix in coordinate form: values, rows, columns.
_Entries = list[tuple[FloatArray, IntArray, IntArray]]


def forest_fit(
    covariance: FloatArray, rows: IntArray, columns: IntArray, variance: FloatArray, among: BoolArray
) -> tuple[_Entries, BoolArray]:
    """Closed-form estimate of all components that are trees, and the mask (p,) of their variables, `among` those given.

    On a tree ``Theta_ij = -s_ij / (s_ii s_jj - s_ij^2)`` for every edge and ``Theta_ii`` is 1 / s_ii plus
    ``s_ij^2 / (s_ii (s_ii s_jj - s_ij^2))`` for each of its edges. Components with a perfect correlation are left to
    the iterative method, which reports the failure.
    """
    p = len(variance)
    graph = sparse.coo_array((np.ones(len(rows)), (rows, columns)), shape=(p, p))
    n_components, label = sparse.csgraph.connected_components(graph, directed=False)
    minor = variance[rows] * variance[columns] - covariance**2
    singular = minor <= 1e-12 * variance[rows] * variance[columns]
    general = np.bincount(label[rows], minlength=n_components) != np.bincount(label, minlength=n_components) - 1
    general[label[rows[singular]]] = True
    on_tree = among & ~general[label]
    edge_mask = on_tree[rows]
    i, j, s, minor = rows[edge_mask], columns[edge_mask], covariance[edge_mask], minor[edge_mask]
    diagonal = 1.0 / variance
    diagonal += np.bincount(i, s**2 / (variance[i] * minor), minlength=p)
    diagonal += np.bincount(j, s**2 / (variance[j] * minor), minlength=p)
    members = np.flatnonzero(on_tree)
    return [(diagonal[members], members, members), (-s / minor, i, j), (-s / minor, j, i)], on_tree


class InterpolatedCovariance(CovarianceSource):
    """``phi_k S_k + (1 - phi_k) W_k`` with W_k the inverses of K sparse matrices, as far as a refit reads it.

    `block` takes the variables of whole connected components, `entries` positions on the support.
    """

    def __init__(self, source: CovarianceSource, precision: Sequence[Any], phi: FloatArray) -> None:
        self._source, self._phi = source, phi
        super().__init__(source.class_names, source.variable_names, source.sample_sizes)
        self._precision = [sparse.csr_array(Theta) for Theta in precision]
        self._W = [_inverse_on_support(Theta) for Theta in self._precision]

    def block(self, k: int, variables: IntArray) -> FloatArray:
        Theta = self._precision[k][variables][:, variables].toarray()
        return self._phi[k] * self._source.block(k, variables) + (1.0 - self._phi[k]) * np.linalg.inv(Theta)

    def entries(self, k: int, rows: IntArray, columns: IntArray) -> FloatArray:
        W = np.asarray(self._W[k][rows, columns]).ravel() if len(rows) else np.zeros(0)
        return self._phi[k] * self._source.entries(k, rows, columns) + (1.0 - self._phi[k]) * W

    def diagonal(self, k: int) -> FloatArray:
        return self._phi[k] * self._source.diagonal(k) + (1.0 - self._phi[k]) * self._W[k].diagonal()


def _inverse_on_support(Theta: Any) -> Any:
    """Entries of the inverse of a sparse matrix at its non-zeros, as a CSR matrix."""
    p = Theta.shape[0]
    isolated = np.ones(p, dtype=bool)
    pieces: list[tuple[Any, IntArray, IntArray]] = []
    for members, block in diagonal_blocks(Theta):
        isolated[members] = False
        rows, columns = np.nonzero(block)
        pieces.append((np.linalg.inv(block)[rows, columns], members[rows], members[columns]))
    single = np.flatnonzero(isolated)
    pieces.append((1.0 / Theta.diagonal()[single], single, single))
    values, rows, columns = (np.concatenate(part) for part in zip(*pieces, strict=True))
    return sparse.csr_array((values, (rows, columns)), shape=(p, p))
