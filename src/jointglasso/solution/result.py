"""The solution: precision matrices with their refit and low-rank part, certificate, partition, status and history."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse.csgraph import connected_components

from jointglasso._display import ReprMixin, html_of
from jointglasso._typing import BoolArray, FloatArray
from jointglasso._wording import count, listed
from jointglasso.screening.partition import Partition
from jointglasso.solution.certificate import Certificate, History, Status
from jointglasso.solution.edge_clusters import EdgeClusters


@dataclass(frozen=True, repr=False)
class LowRank(ReprMixin):
    """The part L_k of ``Theta_k = A_k - L_k``, ``Solution.precision`` being the sparse A_k.

    Attributes
    ----------
    mu : float
        Penalty on the traces of L.
    factors : list of K arrays (p, r_k)
        ``L_k = F_k F_k'``: the effect of each latent variable on the measured ones, strongest first, up to sign.
    proved_zero : bool
        Whether the gap certifies that L = 0 in the exact solution.

    Examples
    --------
    >>> import numpy as np
    >>> import jointglasso as jgl
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 8)) + rng.normal(size=(200, 1))  # one latent factor
    >>> S = jgl.SampleCovariance([X], scale="correlation")
    >>> found = jgl.solve(S, 0.2, 0.0, penalize_diagonal=False, latent=0.4)
    >>> found.low_rank.ranks, found.low_rank.factors[0].shape
    ([1], (8, 1))
    """

    mu: float
    factors: list[FloatArray]
    proved_zero: bool = False

    @property
    def ranks(self) -> list[int]:
        """Number of latent variables of each class."""
        return [factor.shape[1] for factor in self.factors]

    @property
    def matrices(self) -> FloatArray:
        """(K, p, p): the matrices L_k."""
        return np.stack([factor @ factor.T for factor in self.factors])

    def _parts(self) -> list[Any]:
        text = self.describe([f"class {k + 1}" for k in range(len(self.factors))])
        strongest = [float((factor[:, 0] ** 2).sum()) if factor.shape[1] else 0.0 for factor in self.factors]
        table = {"class": range(1, len(self.factors) + 1), "latent variables": self.ranks, "strongest": strongest}
        return [f"Latent variables at mu = {self.mu:.4g}: {text}", table]

    def describe(self, class_names: Sequence[str]) -> str:
        """Number of latent variables of each class, as text."""
        if self.proved_zero:
            return "none, proved"
        return ", ".join(f"{name} {rank}" for name, rank in zip(class_names, self.ranks, strict=True))


class RefitWarning(UserWarning):
    """The likelihood has no maximum on the support of some components; a ridge was added there."""


@dataclass(frozen=True)
class RefitFailure:
    """A component of a class whose likelihood has no maximum, or whose refit did not converge."""

    class_name: str
    variables: tuple[str, ...]
    reason: str

    def __str__(self) -> str:
        return (
            f"The refit of class {self.class_name!r} failed on a component of {count(len(self.variables), 'variable')} "
            f"({listed(self.variables, 5)}): {self.reason}"
        )


@dataclass(frozen=True, repr=False)
class Refit(ReprMixin):
    """Maximum likelihood on a given support for ``phi_k S_k + (1 - phi_k) W_k``, see `relaxation`.

    Attributes
    ----------
    precision : list of K scipy.sparse.csc_array
        Estimates; zero outside the support.
    residual : array (K,)
        Largest ``|W_ij - S_ij|`` on the support, on the scale of correlations, over the components that did not fail.
    failures : tuple of RefitFailure
        Components whose likelihood has no maximum; empty if every component was refitted.
    ridge : float
        Fraction of each variance added to the diagonal in the components listed in `failures`, so that a maximum
        exists; 0 if the values of the solution were kept there.
    relaxation : tuple of K floats
        phi_k: the fit is to ``phi_k S_k + (1 - phi_k) W_k`` with W_k the inverse of the penalised matrix; 1 is the
        maximum likelihood for S_k.

    Examples
    --------
    >>> import jointglasso as jgl
    >>> S = [[[1.0, 0.5], [0.5, 1.0]], [[1.0, 0.4], [0.4, 1.0]]]
    >>> found = jgl.refit(S, jgl.solve(S, 0.1, 0.1))
    >>> found.failures, bool(found.residual.max() < 1e-8)
    ((), True)
    """

    precision: list[Any]
    residual: FloatArray
    failures: tuple[RefitFailure, ...]
    ridge: float = 0.0
    relaxation: tuple[float, ...] = ()

    def _parts(self) -> list[Any]:
        edges = [(Theta.count_nonzero() - Theta.shape[0]) // 2 for Theta in self.precision]
        table = {"class": range(1, len(edges) + 1), "edges": edges, "residual": self.residual}
        return [self.describe(), table, *map(str, self.failures[:5])]

    def describe(self) -> str:
        """Description of the values, as text."""
        text = "Values are those of the maximum likelihood on the edges found, without the shrinkage of the penalties."
        if self.relaxation and min(self.relaxation) < 1.0:
            phi = "/".join(dict.fromkeys(f"{value:.2f}" for value in self.relaxation))
            text = (
                f"Values are between the penalised estimate (0) and the maximum likelihood on its edges (1), at {phi}."
            )
        if not self.failures:
            return text
        remedy = f"a ridge of {self.ridge:g} of each variance was added" if self.ridge else "given values were kept"
        sizes: dict[str, int] = {}
        for failure in self.failures:
            sizes[failure.class_name] = sizes.get(failure.class_name, 0) + len(failure.variables)
        where = ", ".join(f"{name} ({size} variables)" for name, size in sizes.items())
        return f"{text} The likelihood has no maximum in parts of {where}: there {remedy}."


@dataclass(frozen=True)
class Solution:
    """Solution of a joint graphical lasso.

    Attributes
    ----------
    precision : list of K scipy.sparse.csc_array
        Symmetric positive definite precision matrices with exact zeros.
    objective : float
        Value of the objective (see `jointglasso.problem`) at `precision`.
    certificate : Certificate
        Bound on the suboptimality of the full problem, and the edges that it certifies.
    partition : Partition
        The final partition.
    status : Status
        Whether the tolerance was reached, the stopping reason, and a remedy if not.
    n_iter : int
        Iterations of the solver.
    timings : dict
        Seconds by stage: covariance, screening, solve, certificate, total.
    history : History
        Objective, and gap if computed, of each iteration.
    solver, screening : str
        Names of the solver and of the screening rule.
    methods : dict
        Number of independent groups by the method that solved them.
    class_names, variable_names : tuple of str
        Names of the classes and variables, in the order of `precision` and of its rows.
    certified : list of K scipy.sparse.csc_array of bool
        Off-diagonal entries that the gap certifies to be non-zero in the exact solution.
    parameters : dict
        Arguments: lambda1, lambda2, penalty, weights, penalize_diagonal, tol.
    refit : Refit or None
        Relaxed estimate on the edges of `precision` (`Refit.relaxation`); computed by `select`, the estimators and the
        command line, not by `solve`.
    edge_clusters : EdgeClusters or None
        With a fused penalty ("fused", "chain", "graph"): classes with equal values of each edge, and certified
        comparisons.
    absent : bool array (K, p) or None
        Variables missing from a class; `precision` treats them as variables without edges. None if every class has all
        variables.
    low_rank : LowRank or None
        With `latent`: the low-rank part, ``Theta = precision - low_rank``.

    Examples
    --------
    >>> import jointglasso as jgl
    >>> S = [[[1.0, 0.5], [0.5, 1.0]], [[1.0, 0.4], [0.4, 1.0]]]
    >>> solution = jgl.solve(S, 0.1, 0.1)
    >>> solution.n_edges, solution.class_names
    ([1, 1], ('1', '2'))
    >>> print(str(solution).splitlines()[0])
    Solution of 2 variables in 2 classes
    """

    precision: list[Any]
    objective: float
    certificate: Certificate
    partition: Partition
    status: Status
    n_iter: int
    timings: dict[str, float]
    history: History
    solver: str
    screening: str
    methods: dict[str, int]
    class_names: tuple[str, ...]
    variable_names: tuple[str, ...]
    certified: list[Any]
    parameters: dict[str, Any]
    refit: Refit | None = None
    edge_clusters: EdgeClusters | None = None
    absent: BoolArray | None = None
    low_rank: LowRank | None = None

    def __post_init__(self) -> None:
        self.partition.named(self.class_names)

    @property
    def estimate(self) -> list[Any]:
        """Matrices of edge values: those of `refit` if it was computed, else the penalised `precision`."""
        return self.precision if self.refit is None else self.refit.precision

    @property
    def has_latent(self) -> bool:
        """Whether some L_k is not zero."""
        return self.low_rank is not None and any(self.low_rank.ranks)

    @property
    def n_edges(self) -> list[int]:
        """Number of non-zero pairs i < j in each class."""
        return [(Theta.nnz - Theta.shape[0]) // 2 for Theta in self.precision]

    def components(self) -> Partition:
        """Connected components of the estimated graph of each class: the partition of the paper's section 2.

        It refines `partition` and every other feasible partition. With variables that a class lacks, each of these is
        a component by itself.
        """
        labels = [connected_components(Theta, directed=False)[1] for Theta in self.precision]
        return Partition(np.stack(labels), self.partition.coupled, self.absent).named(self.class_names)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the solution to one file, atomically; `jointglasso.load` reads it back.

        The format is open: one `.npz` archive of NumPy arrays and JSON metadata, see `jointglasso.solution.file`.
        """
        from jointglasso.solution.file import save

        return save(self, path)

    def __str__(self) -> str:
        edges = ", ".join(f"{name} {count:,}" for name, count in zip(self.class_names, self.n_edges, strict=True))
        certificate = self.certificate
        latent = "" if self.low_rank is None else f"latent       {self.low_rank.describe(self.class_names)}\n"
        return (
            f"Solution of {len(self.variable_names):,} variables in {len(self.class_names)} classes\n"
            f"edges        {edges}\n"
            f"{latent}"
            f"objective    {self.objective:.8g}, at most {certificate.gap:.1e} above the minimum\n"
            f"certified    {certificate.edges_present:,} edges of the optimum, {certificate.edges_absent:,} absent, "
            f"{certificate.edges_undetermined:,} undecided\n"
            f"status       {self.status}"
        )

    def _repr_html_(self) -> str:
        return html_of(self)

    def __repr__(self) -> str:
        return (
            f"Solution(n_classes={len(self.precision)}, n_variables={len(self.variable_names)}, edges={self.n_edges}, "
            f"objective={self.objective:.6g}, relative_gap={self.certificate.relative_gap:.1e}, "
            f"converged={self.status.converged})"
        )
