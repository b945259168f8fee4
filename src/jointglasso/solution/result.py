"""What a solve returns: the precision matrices, the proof, and how it went."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jointglasso._display import html_of
from jointglasso._typing import BoolArray
from jointglasso.screening.partition import Partition
from jointglasso.solution.certificate import Certificate, History, Status
from jointglasso.solution.low_rank import LowRank
from jointglasso.solution.refit import Refit
from jointglasso.solution.sameness import Sameness


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
        Bound on the suboptimality of the whole problem, and what it proves about single edges.
    partition : Partition
        The partition the solve ended with.
    status : Status
        Whether the tolerance was reached, why it ended, and what to change if not.
    n_iter : int
        Iterations of the solver.
    timings : dict
        Seconds by stage: covariance, screening, solve, certificate, total.
    history : History
        Objective, and gap where known, of each iteration.
    solver, screening : str
        Names of the solver and of the screening rule asked for.
    methods : dict
        Number of independent groups by the method that solved them.
    class_names, variable_names : tuple of str
        Names of the classes and variables, in the order of `precision` and of its rows.
    certified : list of K scipy.sparse.csc_array of bool
        The off-diagonal entries that the gap proves to be non-zero in the exact solution.
    parameters : dict
        What was asked for: lambda1, lambda2, penalty, weights, penalize_diagonal, tol.
    refit : Refit or None
        Maximum likelihood on the edges of `precision`, where it was computed: by `select`, the estimators and the
        command line, not by `solve`.
    sameness : Sameness or None
        With a fused penalty ("fused", "chain", "graph"): in which classes each edge is the same, and what is proved.
    absent : bool array (K, p) or None
        Variables that a class lacks; `precision` is that of a variable without an edge there. None where every class
        has all variables.
    low_rank : LowRank or None
        With `latent`: what latent variables explain, ``Theta = precision - low_rank``.

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
    sameness: Sameness | None = None
    absent: BoolArray | None = None
    low_rank: LowRank | None = None

    @property
    def estimate(self) -> list[Any]:
        """Matrices to read values from: those of `refit` where it was computed, else the penalised `precision`."""
        return self.precision if self.refit is None else self.refit.precision

    @property
    def has_latent(self) -> bool:
        """Whether latent variables were found."""
        return self.low_rank is not None and any(self.low_rank.ranks)

    @property
    def n_edges(self) -> list[int]:
        """Number of non-zero pairs i < j in each class."""
        return [(Theta.nnz - Theta.shape[0]) // 2 for Theta in self.precision]

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the solution to one file, in one step; `jointglasso.load` reads it back.

        The format is open: one `.npz` archive of NumPy arrays and JSON metadata, see `jointglasso.solution.file`.
        """
        from jointglasso.solution.file import save

        return save(self, path)

    def __str__(self) -> str:
        edges = ", ".join(f"{name} {count:,}" for name, count in zip(self.class_names, self.n_edges, strict=True))
        found = self.certificate
        latent = "" if self.low_rank is None else f"latent       {self.low_rank.describe(self.class_names)}\n"
        return (
            f"Solution of {len(self.variable_names):,} variables in {len(self.class_names)} classes\n"
            f"edges        {edges}\n"
            f"{latent}"
            f"objective    {self.objective:.8g}, proved to within {found.relative_gap:.1e} of itself\n"
            f"proved       {found.edges_present:,} edges present, {found.edges_absent:,} absent, "
            f"{found.edges_undetermined:,} undecided\n"
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
