"""What a solve returns: the precision matrices, the proof, and how it went."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, overload

import numpy as np

from jointglasso._typing import FloatArray
from jointglasso.screening.partition import Partition


class ConvergenceWarning(UserWarning):
    """The tolerance was not reached; the solution's gap still bounds how far it is from the optimum."""


@dataclass(frozen=True)
class Certificate:
    """Proof of optimality: a dual feasible point of the whole problem, screened pairs included.

    The true optimum F* satisfies ``dual_objective <= F* <= objective``; `gap` is their difference.
    """

    objective: float
    gap: float
    group_gaps: FloatArray
    """Gap of each independent group, in the order of ``partition.groups()``; they add up to `gap`."""
    edges_present: int
    """Entries i < j, over all classes, proved to be non-zero in the exact solution."""
    edges_absent: int
    """Entries proved to be zero in the exact solution, those cut by the screen included."""
    edges_undetermined: int
    """Entries that this gap is too wide to decide."""

    @property
    def dual_objective(self) -> float:
        """Lower bound on the optimum."""
        return self.objective - self.gap

    @property
    def relative_gap(self) -> float:
        """``gap / max(1, |objective|)``: what `tol` bounds."""
        return self.gap / max(1.0, abs(self.objective))


@dataclass(frozen=True)
class Status:
    """How a solve ended."""

    converged: bool
    reason: str
    remedy: str = ""

    def __bool__(self) -> bool:
        return self.converged

    def __str__(self) -> str:
        return f"{self.reason} {self.remedy}".strip()


@dataclass(frozen=True)
class Iteration:
    """State after one iteration.

    `gap` is that of the problem as cut by the current screen, None where it was not computed; only the certificate of
    the solution bounds the whole problem, the checks after a dynamic screen included.
    """

    number: int
    objective: float
    gap: float | None
    seconds: float
    groups_done: int = 0
    n_groups: int = 0
    share_done: float = 0.0
    """Estimated share of the work that is in finished groups, 0 to 1."""


#: Called after each iteration; a true return value asks the solve to stop.
Callback = Callable[[Iteration], object]


class History(Sequence[Iteration]):
    """Iterations of a solve, in order."""

    def __init__(self, iterations: Sequence[Iteration] = ()) -> None:
        self._iterations = tuple(iterations)

    @property
    def objective(self) -> FloatArray:
        """Objective of each iteration."""
        return np.array([step.objective for step in self._iterations])

    @property
    def gap(self) -> list[float | None]:
        """Duality gap of each iteration, None where it was not computed."""
        return [step.gap for step in self._iterations]

    @overload
    def __getitem__(self, index: int) -> Iteration: ...
    @overload
    def __getitem__(self, index: slice) -> History: ...
    def __getitem__(self, index: int | slice) -> Iteration | History:
        if isinstance(index, slice):
            return History(self._iterations[index])
        return self._iterations[index]

    def __len__(self) -> int:
        return len(self._iterations)

    def __iter__(self) -> Iterator[Iteration]:
        return iter(self._iterations)

    def __repr__(self) -> str:
        return f"History({len(self)} iterations)"


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

    @property
    def n_edges(self) -> list[int]:
        """Number of non-zero pairs i < j in each class."""
        return [(Theta.nnz - Theta.shape[0]) // 2 for Theta in self.precision]

    def __repr__(self) -> str:
        return (
            f"Solution(n_classes={len(self.precision)}, n_variables={len(self.variable_names)}, edges={self.n_edges}, "
            f"objective={self.objective:.6g}, relative_gap={self.certificate.relative_gap:.1e}, "
            f"converged={self.status.converged})"
        )
