"""The solver interface, the convergence criterion (duality gap), and the one loop that decides when a solve ends.

A method is an `IterativeMethod`: `init`, `step`, `theta`, `gap_check_due`. `run` calls it, evaluates the gap where a
check is due, and decides about tolerance, callback, iteration limit, rounding and snapshots. The best point so far is
in a `Best`: `BestSoFar` for the groups of a `BlockSystem`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

import numpy as np

from jointglasso._typing import BoolArray, FloatArray
from jointglasso.blocks import BlockSystem
from jointglasso.blocks.diagonal import FusedDiagonal, variance_without_edges
from jointglasso.blocks.linalg import Factorization
from jointglasso.blocks.system import bincount
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


@dataclass
class State:
    """State of an iteration; methods derive from it."""

    n_iter: int = 0
    """Iterations so far."""
    objective: float | None = None
    """Objective of the current iterate, to be reported; None for that of the best point."""
    ended: str = ""
    """Reason to end that the method itself found: "rounding" if no step can improve the iterate, "paper's rule", or
    "work" for a limit of its own; empty to continue."""


StateT = TypeVar("StateT", bound=State)
Candidate = TypeVar("Candidate")


class Best(ABC, Generic[Candidate]):
    """Best point so far, and the limit on its gap; `report` reports an iteration and returns whether to stop."""

    report: Report

    @property
    @abstractmethod
    def objective(self) -> float:
        """Objective of the best point."""

    @property
    @abstractmethod
    def gap(self) -> float:
        """Its duality gap."""

    @property
    @abstractmethod
    def limit(self) -> float:
        """Limit on the gap at this objective."""

    @property
    def solved(self) -> bool:
        """Whether the gap is within its limit."""
        return self.gap <= self.limit

    @abstractmethod
    def update(self, candidate: Candidate) -> None:
        """Evaluate the gap at a candidate, and adopt it where it is better."""

    @abstractmethod
    def keep(self, candidate: Callable[[], Candidate]) -> None:
        """Write a snapshot of the current iterate, if one is due."""


class IterativeMethod(Generic[StateT, Candidate]):
    """An iterative method on given blocks, as `run` calls it."""

    def init(self, best: Any) -> StateT:
        """State at the best point so far."""
        raise NotImplementedError

    def step(self, state: StateT) -> StateT:
        """The state after one iteration, which may be the same object."""
        raise NotImplementedError

    def theta(self, state: StateT) -> Candidate:
        """Theta of the current iterate, in the representation that `Best.update` evaluates."""
        raise NotImplementedError

    def gap_check_due(self, state: StateT, limit: float) -> bool:
        """Whether the gap is to be evaluated now: every time, unless a check costs more than a step."""
        return True

    def refine(self, state: StateT, best: Any) -> None:
        """Improve the best point after a check above the limit; by default nothing."""


def run(method: IterativeMethod[StateT, Candidate], best: Best[Candidate], max_iter: int) -> tuple[int, str]:
    """Iterate until the gap is within its limit, or a reason to stop; the number of iterations and the reason.

    The reason is the first that holds: "tolerance", the method's own (`State.ended`), "callback", "max_iter". The best
    point is evaluated in any case.
    """
    state = method.init(best)
    while True:
        last = state.n_iter >= max_iter
        due = last or bool(state.ended) or method.gap_check_due(state, best.limit)
        if due:
            best.update(method.theta(state))
            if not (best.solved or last):
                method.refine(state, best)
        stop = False
        if due or state.n_iter > 0:
            objective = best.objective if state.objective is None else state.objective
            stop = best.report(objective, best.gap if due else None)
        reasons = [("tolerance", due and best.solved), (state.ended, True), ("callback", stop), ("max_iter", last)]
        reason = next((name for name, holds in reasons if name and holds), "")
        if reason:
            if not due:
                best.update(method.theta(state))
            return state.n_iter, reason
        if state.n_iter > 0:  # the start needs no snapshot
            best.keep(lambda: method.theta(state))  # noqa: B023  # called at once or not at all
        state = method.step(state)


@dataclass
class Evaluated:
    """Theta in flat storage, not modified afterwards; with bounds or Cholesky factors where a method has them."""

    theta: FloatArray
    bounds: DualityGap | None = None
    factor: Factorization | None = None


class BestSoFar(Best[Evaluated]):
    """Best Theta of each group of a task so far, with its bounds: later iterates can be worse or indefinite."""

    def __init__(self, task: SolverTask, start: FloatArray | None = None, bounds: DualityGap | None = None) -> None:
        self.task = task
        self.theta = task.start.copy() if start is None else start
        self._bounds = self._last = bounds
        self._limits: tuple[DualityGap, FloatArray] | None = None
        self.report = task.report

    @property
    def bounds(self) -> DualityGap:
        """Bounds at `theta`, evaluated at first use."""
        if self._bounds is None:
            self._bounds = self.task.bounds(self.theta)
        return self._bounds

    @property
    def last_bounds(self) -> DualityGap:
        """Bounds at the last candidate."""
        return self.bounds if self._last is None else self._last

    @property
    def objective(self) -> float:
        return self.bounds.total_objective

    @property
    def gap(self) -> float:
        return self.bounds.total_gap

    @property
    def limit(self) -> float:
        return float(self.limits.sum())

    @property
    def limits(self) -> FloatArray:
        """(G,): gap limit of each group."""
        if self._limits is None or self._limits[0] is not self.bounds:
            self._limits = self.bounds, self.task.limits(self.bounds)
        return self._limits[1]

    @property
    def unsolved(self) -> BoolArray:
        """(G,): groups above their limit; convergence is decided by the gap alone."""
        return ~(self.bounds.gap <= self.limits)

    @property
    def solved(self) -> bool:
        return not self.unsolved.any()

    def update(self, candidate: Evaluated, groups: BoolArray | None = None) -> None:
        """Adopt the candidate in those of `groups` (default: all) where its gap is smaller.

        If neither gap is finite, a positive definite point, whose objective is finite, is preferred.
        """
        new, old, system = candidate.bounds, self.bounds, self.task.system
        if new is None:
            new = self.task.bounds(candidate.theta, factor=candidate.factor)
        self._last = new
        unknown = np.isinf(new.gap) & np.isinf(old.gap)
        better = np.where(unknown, new.objective < old.objective, new.gap <= old.gap)
        if groups is not None:
            better &= groups
        if not better.any():
            return
        self.theta = system.where(better, candidate.theta, self.theta)
        objective, gap = np.where(better, new.objective, old.objective), np.where(better, new.gap, old.gap)
        dual, factor = system.where(better, new.dual, old.dual), old.factor.replaced(system, better, new.factor)
        self._bounds = new if better.all() else DualityGap(objective, gap, dual, factor)

    def update_group(self, group: int, positions: Any, theta: FloatArray, bounds: DualityGap) -> None:
        """Adopt another point of one group if its gap is smaller; of two without a finite gap the smaller objective."""
        gap, objective = self.bounds.gap[group], self.bounds.objective[group]
        if bounds.gap[0] < gap or (np.isinf(gap) and bounds.objective[0] < objective):
            self.theta[positions] = theta
            self._bounds = self.bounds.with_groups(
                np.array([group]), self.task.system.block_group == group, positions, bounds
            )

    def keep(self, candidate: Callable[[], Evaluated]) -> None:
        """Offer Theta of the current iterate to the checkpoint."""
        self.task.keep(lambda: candidate().theta)

    def result(self, n_iter: int, reason: str, methods: list[str]) -> SolverResult:
        """The result, with a finite gap wherever there is a feasible dual point."""
        bounds = self.bounds
        if np.isinf(bounds.gap).any():
            bounds = self.task.bounds(self.theta, scale_to_feasible=True)
        return SolverResult(self.theta, bounds, n_iter, reason, methods)


class BestTogether(BestSoFar):
    """For methods that iterate all groups together: the sum of the gaps counts."""

    @property
    def solved(self) -> bool:
        return self.gap <= self.limit

    def keep(self, candidate: Callable[[], Evaluated]) -> None:
        """Offer the best Theta so far, since the current one may be indefinite."""
        self.task.keep(lambda: self.theta)


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


def remaining_iterations(method: GroupSolver, max_iter: int, used: int) -> int:
    """Iterations that the next call of a method may take after `used` of them.

    A limit below the default is for the entire solve. Any other applies to every call: the default solver ends with
    ADMM, whose iterations are cheaper and have their own limit.
    """
    return max(0, max_iter - used) if max_iter < method.default_max_iter else max_iter


def diagonal_start(system: BlockSystem, penalty: PairPenalty, diagonal_penalty: float) -> FloatArray:
    """Diagonal Theta, optimal if there were no edges; its variances are those of the optimum unless they are fused."""
    start = np.zeros(system.S.shape)
    start[system.diagonal] = 1.0 / variance_without_edges(system, penalty, diagonal_penalty)
    return start


def bounds_of_diagonal(task: SolverTask, theta: FloatArray) -> DualityGap:
    """Objective of a diagonal start; the gap is not computed and set to infinity.

    For a single group `inverse` and `dual` are uninitialised buffers: the first gap check replaces them.
    """
    system, penalty = task.system, task.penalty
    diagonal, block, fused = theta[system.diagonal], system.diagonal_block, FusedDiagonal.of(system, penalty)
    logdet = bincount(block, np.log(diagonal), system.n_blocks)
    likelihood = bincount(block, system.S[system.diagonal] * diagonal, system.n_blocks) - logdet
    penalties = task.diagonal_penalty * bincount(block, diagonal, system.n_blocks)
    objective = system.sum_per_group(system.block_weight * likelihood + penalties)
    inverse = np.empty_like(theta)
    if system.n_groups > 1 or fused is not None:
        inverse = np.zeros_like(theta)
        inverse[system.diagonal] = 1.0 / diagonal
    return DualityGap(
        objective if fused is None else objective + fused.value(diagonal),
        np.full(system.n_groups, np.inf),
        inverse.copy(),
        Factorization(inverse, logdet, np.ones(system.n_blocks, dtype=bool)),
    )
