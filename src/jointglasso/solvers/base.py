"""The solver interface, and the convergence criterion (duality gap) that all solvers share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from jointglasso._typing import BoolArray, FloatArray
from jointglasso.blocks import BlockSystem
from jointglasso.blocks.diagonal import variance_without_edges
from jointglasso.blocks.linalg import Factorization
from jointglasso.duality import DualityGap, bound_groups
from jointglasso.penalties import PairPenalty

#: Progress callback ``report(objective, gap or None) -> stop``, called by a solver after each iteration.
Report = Callable[[float, float | None], bool]


@dataclass(frozen=True)
class SolverTask:
    """A system of independent groups, and the limit on the duality gap of each of them."""

    system: BlockSystem
    penalty: PairPenalty
    diagonal_penalty: float
    gap_budget: FloatArray
    """(G,): fraction of the gap limit of the full problem that each group may use."""
    tol: float
    """Gap limit of the full problem, relative to its objective."""
    rest: float
    """Current objective of the groups outside this system."""
    max_iter: int
    start: FloatArray
    """Positive definite Theta in flat storage."""
    unit: float = 1.0
    """Mean class weight: lower bound on the magnitude of the objective in relative gaps."""
    known: DualityGap | None = None
    """Bounds of `start`, if known."""
    warm: bool = False
    """Whether `start` is a warm start rather than the diagonal start."""
    absolute: bool = False
    """Whether `tol` is an absolute gap rather than relative to the objective."""
    n_threads: int = 1
    """Number of threads the solver may use."""
    memory_for_admm: bool = True
    """Whether there is enough memory to fall back to ADMM on a large group."""
    report: Report = field(default=lambda objective, gap: False)
    keep: Callable[[Callable[[], FloatArray]], None] = field(default=lambda theta: None)
    """Checkpoint callback: receives a function that returns the current Theta, evaluated only when it is saved."""

    def bounds(
        self, theta: FloatArray, *, factor: Factorization | None = None, scale_to_feasible: bool = False
    ) -> DualityGap:
        """Objective and duality gap of each group at `theta`."""
        return bound_groups(
            self.system, theta, self.penalty, self.diagonal_penalty, factor=factor, scale_to_feasible=scale_to_feasible
        )

    def allowed_gap(self, objective: float) -> float:
        """Gap limit of the full problem if this system has the given objective."""
        return self.tol if self.absolute else self.tol * max(self.unit, abs(self.rest + objective))

    def limits(self, bounds: DualityGap) -> FloatArray:
        """(G,): gap limit of each group at the current objective."""
        return self.gap_budget * self.allowed_gap(bounds.total_objective)

    def unsolved(self, bounds: DualityGap) -> BoolArray:
        """(G,): groups whose duality gap exceeds its limit; convergence is decided by the gap alone."""
        return ~(bounds.gap <= self.limits(bounds))


@dataclass(frozen=True)
class SolverResult:
    """Final iterate of a solver: a sparse, positive definite Theta in flat storage with its bounds."""

    theta: FloatArray
    bounds: DualityGap
    n_iter: int
    stopped_by: str
    """"tolerance", "paper's rule", "max_iter", "callback" or "rounding"."""
    methods: list[str]
    """(G,): name of the method that solved each group."""


def reason_to_end(*, solved: bool, stop: bool, last: bool, stuck: bool = False) -> str:
    """Stopping reason, the first that applies: tolerance, rounding, callback, iteration limit; empty to continue."""
    reasons = {"tolerance": solved, "rounding": stuck, "callback": stop, "max_iter": last}
    return next((reason for reason, holds in reasons.items() if holds), "")


class GroupSolver(Protocol):
    """Protocol of a method that solves a system of class blocks."""

    @property
    def name(self) -> str:
        """Name of the method in ``solve(solver=...)``."""

    @property
    def default_max_iter(self) -> int:
        """Default iteration limit."""

    @property
    def include_isolated(self) -> bool:
        """Whether isolated variables are iterated too, instead of solved in closed form."""

    @property
    def lockstep(self) -> bool:
        """Whether all groups are passed as one system and iterated together."""

    @property
    def bytes_per_entry(self) -> float:
        """Peak bytes per block entry (b^2 of them per block): matrices, pair index and workspace."""

    @property
    def requires(self) -> frozenset[str]:
        """Capabilities that a penalty must support (`PairPenalty.supports`)."""

    def solve(self, task: SolverTask) -> SolverResult:
        """Solve to the gap limits of the task."""


def diagonal_start(system: BlockSystem, penalty: PairPenalty, diagonal_penalty: float) -> FloatArray:
    """Diagonal Theta, optimal if there were no edges; its variances are those of the optimum unless they are fused."""
    start = np.zeros(system.S.shape)
    start[system.diagonal] = 1.0 / variance_without_edges(system, penalty, diagonal_penalty)
    return start
