"""Newton's method on a face of the penalty: support, signs and clusters of equal values fixed.

One iteration at Theta with inverse W:

1. A proximal step with the diagonal of the Hessian as metric identifies the face: exact zeros, signs and clusters. Its
   non-zero pairs and those of Theta are the working set.
2. On the face the quadratic model of the likelihood plus the penalty is smooth; conjugate gradients minimise it with
   products ``W D W``. A result outside the closure of the face is retracted to it: entries that changed sign become
   zero, clusters that changed order equal; a step that increases the model is halved. Conjugate gradients continue on
   the smaller face.
3. A line search along the direction keeps Theta positive definite and decreases the objective.

A Levenberg-Marquardt term grows while the decrease falls short of the prediction of the model. All groups of a system
are iterated together, with step length, damping and line search of their own. The duality gap decides convergence.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from jointglasso import config
from jointglasso._typing import BoolArray, FloatArray, IntArray
from jointglasso.blocks.linalg import Factorization, factorize
from jointglasso.blocks.system import bincount
from jointglasso.duality import DualityGap, objectives
from jointglasso.solvers.base import (
    BestSoFar,
    Evaluated,
    IterativeMethod,
    SolverResult,
    SolverTask,
    State,
    bounds_of_diagonal,
    diagonal_start,
    run,
)
from jointglasso.solvers.face_model import FaceModel

#: Armijo constant of the line search, and its shortest step.
_ARMIJO, _SHORTEST_STEP = 1e-3, 1e-8

#: Iterations without progress after which a group stops at rounding, and the largest damping.
_IDLE_STEPS, _MAX_DAMPING = 3, 1e6

#: The gap is checked once the predicted decrease is at most this multiple of its limit.
_GAP_CHECK_AFTER = 100.0


@dataclass(frozen=True)
class Newton:
    """Newton's method on the face; `solver="auto"` uses it after methods that are faster far from the solution.

    Examples
    --------
    >>> import jointglasso as jgl
    >>> S = [[[1.0, 0.5], [0.5, 1.0]], [[1.0, 0.4], [0.4, 1.0]]]
    >>> jgl.solve(S, 0.1, 0.1, solver=jgl.Newton()).status.converged
    True
    """

    name = "newton"
    default_max_iter = 200
    include_isolated = False
    lockstep = False
    bytes_per_entry = 135.0
    requires = frozenset({"newton"})

    def solve(self, task: SolverTask) -> SolverResult:
        """Iterate on every group whose gap exceeds its limit."""
        known = task.known if task.absolute else None if task.warm else bounds_of_diagonal(task, task.start)
        best = BestSoFar(task, bounds=known)
        methods = np.full(task.system.n_groups, "warm start" if task.warm else "start", dtype=object)
        n_iter, reason = run(NewtonOnFaces(task, methods), best, task.max_iter)
        return best.result(n_iter, reason, list(methods))


class NewtonOnFaces(IterativeMethod["NewtonState", Evaluated]):
    """Newton's method on the groups above their limits, except `excluded` (G,); notes "newton" in `methods` (G,).

    It ends with "work" if the products cost more than `work_limit` times the sum of cubed block sizes.
    """

    def __init__(
        self, task: SolverTask, methods: Any, excluded: BoolArray | None = None, work_limit: float = np.inf
    ) -> None:
        self.task, self.methods = task, methods
        self.included = np.ones(task.system.n_groups, dtype=bool) if excluded is None else ~excluded
        self.max_work = work_limit * float((task.system.size.astype(float) ** 3).sum())

    def init(self, best: BestSoFar) -> NewtonState:
        state = NewtonState.at(self.task, best.theta, best.bounds)
        # The limit of an indefinite start is infinite, as its gap.
        state.restrict(self.included & (best.unsolved | ~np.isfinite(best.bounds.gap)))
        return state

    def step(self, state: NewtonState) -> NewtonState:
        self.methods[state.moving] = [
            "columns, newton" if str(name).startswith("columns") else "newton" for name in self.methods[state.moving]
        ]
        state.step()
        state.n_iter += 1
        if state.work > self.max_work:
            state.ended = "work"
        return state

    def theta(self, state: NewtonState) -> Evaluated:
        return Evaluated(state.theta, state.bounds, state.factor)

    def gap_check_due(self, state: NewtonState, limit: float) -> bool:
        return state.gap_check_due()

    def refine(self, state: NewtonState, best: BestSoFar) -> None:
        """Groups within their limits stop, and move again if the limits have decreased with the objective."""
        state.bounds = best.last_bounds
        state.restrict(self.included & self.task.unsolved(state.bounds))


@dataclass(kw_only=True)
class NewtonState(State):
    """Theta with its factorization; (G,) each: objectives, damping and the decrease that the last step predicted."""

    task: SolverTask
    theta: FloatArray
    factor: Factorization
    damping: FloatArray
    predicted: FloatArray
    moving: BoolArray
    """Groups above their gap limit that still improve."""
    metric_scale: FloatArray
    """Factor of the metric of proximal steps, such that it majorises the Hessian."""
    idle: IntArray
    objectives: FloatArray = field(default_factory=lambda: np.zeros(0))
    bounds: DualityGap | None = None
    """Bounds at Theta, if known."""
    work: float = 0.0
    """Floating point operations of all products so far."""
    n_threads: int = 1

    @classmethod
    def at(cls, task: SolverTask, theta: FloatArray, bounds: DualityGap) -> NewtonState:
        """State at `theta` with its bounds; a group that is not definite there starts from its diagonal."""
        system, G, known = task.system, task.system.n_groups, np.isfinite(bounds.gap)
        factor = bounds.factor if known.all() else factorize(system, theta)
        if not factor.definite.all():
            group_definite = bincount(system.block_group, (~factor.definite).astype(float), G) == 0
            theta = system.where(group_definite, theta, diagonal_start(system, task.penalty, task.diagonal_penalty))
            factor = factorize(system, theta)
        n_threads = task.n_threads if len(system.S) >= config.MIN_ENTRIES_FOR_THREADS else 1
        # Far from the solution, where the gap is not known, the first steps are damped and not checked.
        state = cls(
            task=task, theta=theta, factor=factor, damping=np.where(known, 0.0, 0.1),
            predicted=np.where(known, 0.0, np.inf), moving=np.ones(G, dtype=bool), metric_scale=np.ones(G),
            idle=np.zeros(G, dtype=np.int64), bounds=bounds if known.all() else None, n_threads=n_threads,
        )  # fmt: skip
        state.objectives = objectives(system, theta, system.gather(theta), factor, task.penalty, task.diagonal_penalty)
        state.objective = float(state.objectives.sum())
        return state

    def restrict(self, groups: BoolArray) -> None:
        """Move only `groups` (G,), and of them only those that still improve."""
        self.moving = groups & (self.idle < _IDLE_STEPS)
        if not self.moving.any():
            self.ended = "rounding"

    # Steps

    def gap_check_due(self) -> bool:
        """Whether the gap is known, or the decrease that the last step predicted makes one within its limit likely."""
        if self.bounds is not None or not self.moving.any():
            return True
        limits = self.limits
        # Convergence is quadratic: the gap is about the square of the predicted decrease.
        due = self.predicted <= np.maximum(_GAP_CHECK_AFTER * limits, np.sqrt(10.0 * limits * self.task.unit))
        return bool((due | ~self.moving).all())

    @property
    def limits(self) -> FloatArray:
        """(G,): gap limit of each group at the current objective."""
        return self.task.gap_budget * self.task.allowed_gap(float(self.objectives.sum()))

    def step(self) -> None:
        """One Newton iteration on the groups that still move."""
        # Far from the solution of a badly conditioned group values may overflow: the line search rejects such a step.
        with np.errstate(over="ignore", invalid="ignore"):
            model = FaceModel(self)
            direction, predicted = model.minimise()
            self.work += model.work
            self.predicted = np.where(self.moving, -predicted, self.predicted)
            self._line_search(model, direction, predicted)
        self.bounds, self.objective = None, float(self.objectives.sum())

    def _line_search(self, model: FaceModel, direction: FloatArray, predicted: FloatArray) -> None:
        """Armijo line search with halved steps in each group; definiteness is tested by Cholesky factors."""
        system = self.task.system
        slope = model.sums(model.gradient * direction)
        slope += model.penalty_value(model.x + direction) - model.penalty_value(model.x)
        pending = self.moving & (predicted < 0.0)
        failed = self.moving & ~pending
        length = np.ones(system.n_groups)
        theta, new_factor = self.theta, self.factor
        gain = np.zeros(system.n_groups)
        slack = 1e-13 * (self.task.unit + np.abs(self.objectives))
        while pending.any():
            step = np.where(pending, length, 0.0)[model.group] * direction
            trial = model.moved(step)
            factor = factorize(system, trial, only=pending[system.block_group])
            value = model.objective(model.x + step, factor)
            accepted = pending & (value <= self.objectives + _ARMIJO * length * slope + slack)
            if accepted.any():
                theta = system.where(accepted, trial, theta)
                new_factor = new_factor.replaced(system, accepted, factor)
                gain[accepted] = (self.objectives - value)[accepted]
                self.objectives = np.where(accepted, value, self.objectives)
            pending &= ~accepted
            length[pending] *= 0.5
            failed |= pending & (length < _SHORTEST_STEP)
            pending &= ~failed
        self.theta, self.factor = theta, new_factor
        self._adapt(length, gain, predicted, failed)

    def _adapt(self, length: FloatArray, gain: FloatArray, predicted: FloatArray, failed: BoolArray) -> None:
        """Adapt the damping to the accuracy of the model; groups without progress in several steps stop."""
        ratio = gain / np.where(predicted < 0.0, -predicted, 1.0)
        worse = (length < 1.0) | (ratio < 0.25) | failed
        better = ~worse & (ratio > 0.7)
        raised = np.maximum(4.0 * self.damping, 0.1)
        lowered = np.where(self.damping > 5e-3, self.damping / 5.0, 0.0)
        tiny = -predicted <= 1e-13 * (self.task.unit + np.abs(self.objectives))
        self.damping = np.where(worse & ~(tiny & (predicted < 0.0)), raised, np.where(better, lowered, self.damping))
        # Without a descent direction the damping grows first.
        no_gain = np.where(predicted < 0.0, gain <= 1e-14 * np.abs(self.objectives), self.damping > _MAX_DAMPING)
        self.idle = np.where(self.moving, np.where(no_gain, self.idle + 1, 0), self.idle)
        self.moving &= self.idle < _IDLE_STEPS
