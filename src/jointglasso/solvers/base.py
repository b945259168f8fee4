"""The contract of a solver, and the one meaning of "converged"."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from jointglasso._typing import FloatArray
from jointglasso.blocks import BlockSystem
from jointglasso.certificate import Bounds, bound_groups
from jointglasso.penalties import PairPenalty
from jointglasso.solution import Iteration

#: Called after each iteration; a true return value asks the solver to stop.
Callback = Callable[[Iteration], object]


@dataclass(frozen=True)
class SolverTask:
    """A system to solve, to a relative gap of the whole problem."""

    system: BlockSystem
    penalty: PairPenalty
    diagonal_penalty: float
    tol: float
    max_iter: int
    start: FloatArray
    """Positive definite Theta in flat storage."""
    settled_objective: float = 0.0
    """Objective of the part of the problem that is solved in closed form outside this system."""
    callback: Callback | None = None
    started: float = field(default_factory=time.perf_counter)

    def bounds(self, theta: FloatArray, *, rescue: bool = False) -> Bounds:
        """Objective and duality gap of each group at `theta`."""
        return bound_groups(self.system, theta, self.penalty, self.diagonal_penalty, rescue=rescue)

    def converged(self, bounds: Bounds) -> bool:
        """House rule: converged means the duality gap, relative to the whole problem, and nothing else."""
        objective = self.settled_objective + bounds.total_objective
        return bool(bounds.total_gap <= self.tol * max(1.0, abs(objective)))

    def report(self, number: int, objective: float, gap: float | None) -> tuple[Iteration, bool]:
        """Record one iteration and ask the caller whether to go on; the objective is that of the whole problem."""
        seconds = time.perf_counter() - self.started
        known_gap = gap if gap is not None and np.isfinite(gap) else None
        iteration = Iteration(number, self.settled_objective + objective, known_gap, seconds)
        return iteration, bool(self.callback(iteration)) if self.callback is not None else False


@dataclass(frozen=True)
class SolverResult:
    """Where a solver ended: a sparse, positive definite Theta in flat storage with its bounds."""

    theta: FloatArray
    bounds: Bounds
    n_iter: int
    history: list[Iteration]
    stopped_by: str
    """"tolerance", "paper's rule", "max_iter" or "callback"."""


class GroupSolver(Protocol):
    """A method that solves a system of class blocks."""

    @property
    def name(self) -> str:
        """Name by which `solve` knows the method."""

    @property
    def default_max_iter(self) -> int:
        """Iterations allowed when the caller sets no limit."""

    @property
    def include_isolated(self) -> bool:
        """Whether variables alone in their class are iterated too, instead of solved in closed form."""

    def solve(self, task: SolverTask) -> SolverResult:
        """Solve to the task's tolerance."""


def diagonal_start(system: BlockSystem, diagonal_penalty: float) -> FloatArray:
    """Optimal Theta if there were no edges: diagonal, with the variances that the optimum has anyway."""
    variance = system.S[system.diagonal] + diagonal_penalty / system.block_weight[system.diagonal_block]
    return system.scatter(np.zeros(len(system.upper)), 1.0 / variance)
