"""The solution: precision matrices, certificate, partition, status and history."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse.csgraph import connected_components

from jointglasso._display import html_of
from jointglasso._typing import BoolArray
from jointglasso.screening.partition import Partition
from jointglasso.solution.certificate import Certificate, History, Status
from jointglasso.solution.edge_clusters import EdgeClusters
from jointglasso.solution.low_rank import LowRank
from jointglasso.solution.refit import Refit


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
            f"objective    {self.objective:.8g}, proved to within {certificate.relative_gap:.1e} of itself\n"
            f"proved       {certificate.edges_present:,} edges present, {certificate.edges_absent:,} absent, "
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
