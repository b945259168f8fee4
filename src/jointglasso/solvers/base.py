"""The contract of a solver, and the one meaning of "converged"."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from jointglasso._typing import BoolArray, FloatArray
from jointglasso.blocks import BlockSystem
from jointglasso.blocks.diagonal import variance_without_edges
from jointglasso.blocks.linalg import Factorization
from jointglasso.certificate import Bounds, bound_groups
from jointglasso.penalties import PairPenalty

#: Called by a solver after each iteration with the objective of its system and the gap where known; true means stop.
Report = Callable[[float, float | None], bool]


@dataclass(frozen=True)
class SolverTask:
    """A system of independent groups to solve, each to its own share of the gap allowed to the whole problem."""

    system: BlockSystem
    penalty: PairPenalty
    diagonal_penalty: float
    share: FloatArray
    """(G,): share of each group in the gap allowed to the whole problem."""
    tol: float
    """Gap allowed to the whole problem, relative to its objective."""
    rest: float
    """Objective of the rest of the problem, as far as it is known."""
    max_iter: int
    start: FloatArray
    """Positive definite Theta in flat storage."""
    unit: float = 1.0
    """Mean weight of the classes: an objective smaller in size counts as this."""
    known: Bounds | None = None
    """Bounds of `start`, where they are known."""
    warm: bool = False
    """Whether `start` carries knowledge, rather than being the diagonal start."""
    absolute: bool = False
    """Whether `tol` is a gap rather than relative to the objective."""
    n_threads: int = 1
    """Threads that a solver may use of its own."""
    room_for_admm: bool = True
    """Whether there is memory for ADMM, should another method find a big group hard."""
    report: Report = field(default=lambda objective, gap: False)
    keep: Callable[[Callable[[], FloatArray]], None] = field(default=lambda theta: None)
    """Called by methods that take long on one group, with a way to a Theta worth going on from, if it is wanted."""

    def bounds(self, theta: FloatArray, *, factor: Factorization | None = None, rescue: bool = False) -> Bounds:
        """Objective and duality gap of each group at `theta`."""
        return bound_groups(self.system, theta, self.penalty, self.diagonal_penalty, factor=factor, rescue=rescue)

    def allowed_gap(self, objective: float) -> float:
        """Gap allowed to the whole problem when the objective of this system is as given."""
        return self.tol if self.absolute else self.tol * max(self.unit, abs(self.rest + objective))

    def limits(self, bounds: Bounds) -> FloatArray:
        """Largest duality gap allowed to each group, given the objective reached so far."""
        return self.share * self.allowed_gap(bounds.total_objective)

    def unsolved(self, bounds: Bounds) -> BoolArray:
        """House rule: converged means the duality gap and nothing else."""
        return ~(bounds.gap <= self.limits(bounds))


@dataclass(frozen=True)
class SolverResult:
    """Where a solver ended: a sparse, positive definite Theta in flat storage with its bounds."""

    theta: FloatArray
    bounds: Bounds
    n_iter: int
    stopped_by: str
    """"tolerance", "paper's rule", "max_iter", "callback" or "rounding"."""
    methods: list[str]
    """How each group was solved."""


def reason_to_end(*, solved: bool, stop: bool, last: bool, stuck: bool = False) -> str:
    """What ends an iteration, the first that holds: the gap, rounding, somebody's wish, the limit; empty if nothing."""
    reasons = {"tolerance": solved, "rounding": stuck, "callback": stop, "max_iter": last}
    return next((reason for reason, holds in reasons.items() if holds), "")


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

    @property
    def lockstep(self) -> bool:
        """Whether all groups are to be given as one system and iterated together."""

    @property
    def bytes_per_entry(self) -> float:
        """Peak bytes for each entry b^2 of the blocks that are solved together: matrices, their pair index, scratch."""

    @property
    def requires(self) -> frozenset[str]:
        """What a penalty must offer (`PairPenalty.offers`)."""

    def solve(self, task: SolverTask) -> SolverResult:
        """Solve to the task's gap limits."""


def diagonal_start(system: BlockSystem, penalty: PairPenalty, diagonal_penalty: float) -> FloatArray:
    """Optimal Theta if there were no edges: diagonal, as a rule with the variances that the optimum has anyway."""
    start = np.zeros(system.S.shape)
    start[system.diagonal] = 1.0 / variance_without_edges(system, penalty, diagonal_penalty)
    return start
