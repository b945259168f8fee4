"""Newton's method on a face of the penalty: support, signs and clusters of equal values fixed.

One iteration at Theta with inverse W:

1. A proximal step with the diagonal of the Hessian as metric identifies the face: exact zeros, signs and clusters. Its
   non-zero pairs and those of Theta are the working set.
2. On the face the quadratic model of the likelihood plus the penalty is smooth; conjugate gradients minimise it with
   products ``W D W``. A result outside the closure of the face is retracted to it: entries that changed sign become
   zero, clusters that changed order equal. Conjugate gradients continue on the smaller face.
3. A line search along the direction keeps Theta positive definite and decreases the objective.

A Levenberg-Marquardt term grows while the decrease falls short of the prediction of the model. All groups of a system
are iterated together, with step length, damping and line search of their own. The duality gap decides convergence.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from jointglasso import config
from jointglasso._typing import BoolArray, FloatArray, IntArray
from jointglasso.blocks.diagonal import FusedDiagonal
from jointglasso.blocks.linalg import Factorization, factorize
from jointglasso.blocks.system import bincount
from jointglasso.duality import DualityGap
from jointglasso.solvers.base import SolverResult, SolverTask, diagonal_start, reason_to_end
from jointglasso.solvers.face_model import FaceModel


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
    default_max_iter = 1000
    include_isolated = False
    lockstep = False
    bytes_per_entry = 135.0
    requires = frozenset({"newton"})

    def solve(self, task: SolverTask) -> SolverResult:
        """Iterate on every group whose gap exceeds its limit."""
        state, n_iter, stopped_by = improve(task, task.start.copy(), max_iter=task.max_iter)
        started = "warm start" if task.warm else "start"
        methods = [self.name if moved else started for moved in state.moved]
        return SolverResult(state.theta, state.final_bounds(), n_iter, stopped_by, methods)


def improve(
    task: SolverTask,
    theta: FloatArray,
    *,
    max_iter: int,
    bounds: DualityGap | None = None,
    todo: BoolArray | None = None,
    work_limit: float = np.inf,
) -> tuple[NewtonState, int, str]:
    """Newton's method from `theta` on the groups in `todo` (default: all) until their gaps are within their limits.

    `bounds` are those of `theta`, if known. Returns the last state, the number of iterations and the reason of the end:
    "tolerance", "rounding", "callback", "max_iter", or "work" if the products cost more than `work_limit` times the sum
    of cubed block sizes.
    """
    state = NewtonState.at(task, theta, bounds)
    if todo is not None:
        state.moving &= todo
    max_work = work_limit * float((task.system.size.astype(float) ** 3).sum())
    for number in range(max_iter + 1):
        if state.gap_check_due():
            state.check_gap()
        stop = task.report(state.total_objective, None if state.bounds is None else state.bounds.total_gap)
        last, stuck = number == max_iter, not state.moving.any()
        reason = reason_to_end(solved=state.solved(todo), stuck=stuck, stop=stop, last=last)
        if reason or state.work > max_work:
            return state, number, reason or "work"
        state.step()
        task.keep(lambda: state.theta)
    return state, max_iter, "max_iter"


@dataclass
class NewtonState:
    """Theta with its factorization; (G,) each: objective, damping and the decrease that the last step predicted."""

    task: SolverTask
    theta: FloatArray
    factor: Factorization
    objective: FloatArray
    damping: FloatArray
    metric_scale: FloatArray
    """Factor of the metric of proximal steps, such that it majorises the Hessian."""
    predicted: FloatArray
    moving: BoolArray
    """Groups above their gap limit that still improve."""
    idle: IntArray
    moved: BoolArray
    bounds: DualityGap | None = None
    work: float = 0.0
    """Floating point operations of all products so far."""
    n_threads: int = field(default=1)

    @classmethod
    def at(cls, task: SolverTask, theta: FloatArray, bounds: DualityGap | None = None) -> NewtonState:
        """State at `theta`, with its bounds if known; a group that is not definite there starts from its diagonal."""
        system, G = task.system, task.system.n_groups
        if bounds is not None and not np.isfinite(bounds.gap).all():
            bounds = None
        factor = factorize(system, theta) if bounds is None else bounds.factor
        if not factor.definite.all():
            group_definite = bincount(system.block_group, ~factor.definite, G) == 0
            keep = np.repeat(group_definite[system.block_group], system.size**2)
            theta = np.where(keep, theta, diagonal_start(system, task.penalty, task.diagonal_penalty))
            factor = factorize(system, theta)
        n_threads = task.n_threads if len(system.S) >= config.MIN_ENTRIES_FOR_THREADS else 1
        damping, predicted = (0.0, 0.0) if task.warm else (0.1, np.inf)  # no gap check at a cold start
        state = cls(
            task, theta, factor, np.zeros(G), np.full(G, damping), np.ones(G), np.full(G, predicted),
            np.ones(G, dtype=bool), np.zeros(G, dtype=np.int64), np.zeros(G, dtype=bool), n_threads=n_threads,
        )  # fmt: skip
        state.objective = state.smooth(theta, factor) + state.penalty_value(theta)
        if bounds is not None:
            state.bounds = bounds
            state.moving &= task.unsolved(bounds)
        return state

    # Objective

    def smooth(self, theta: FloatArray, factor: Factorization) -> FloatArray:
        """(G,): likelihood and diagonal penalty; infinite where a block is not definite."""
        system = self.task.system
        value = system.block_weight * (system.sum_per_block(system.S * theta) - factor.logdet)
        value += self.task.diagonal_penalty * bincount(system.diagonal_block, theta[system.diagonal], system.n_blocks)
        return system.sum_per_group(np.where(factor.definite, value, np.inf))

    def penalty_value(self, theta: FloatArray) -> FloatArray:
        """(G,): penalty of the pairs, and of a fused diagonal."""
        system, penalty = self.task.system, self.task.penalty
        pairs = 2.0 * penalty.value(system.gather(theta), system.entries(penalty))
        fused = FusedDiagonal.of(system, penalty)
        total = system.sum_pairs_per_group(pairs)
        return total if fused is None else total + fused.value(theta[system.diagonal])

    @property
    def total_objective(self) -> float:
        return float(self.objective.sum())

    # Gap

    def gap_check_due(self) -> bool:
        """Whether the decrease that the last step predicted makes a gap within its limit likely."""
        limits = self.task.gap_budget * self.task.allowed_gap(self.total_objective)
        # Convergence is quadratic: the gap is about the square of the predicted decrease.
        due = self.predicted <= np.maximum(config.GAP_CHECK_AFTER * limits, np.sqrt(10.0 * limits * self.task.unit))
        return self.bounds is None and bool((due | ~self.moving).all())

    def check_gap(self) -> None:
        """Compute the bounds; groups within their limits stop moving."""
        self.bounds = self.task.bounds(self.theta, factor=self.factor)
        self.moving &= self.task.unsolved(self.bounds)

    def solved(self, todo: BoolArray | None = None) -> bool:
        """Whether the gaps of the groups in `todo` (default: all) are within their limits."""
        if self.bounds is None:
            return False
        unsolved = self.task.unsolved(self.bounds)
        return not (unsolved if todo is None else unsolved & todo).any()

    def final_bounds(self) -> DualityGap:
        """Bounds at Theta, finite wherever possible."""
        if self.bounds is None:
            self.check_gap()
        if self.bounds is not None and np.isfinite(self.bounds.gap).all():
            return self.bounds
        return self.task.bounds(self.theta, factor=self.factor, scale_to_feasible=True)

    # Steps

    def step(self) -> None:
        """One Newton iteration on the groups that still move."""
        model = FaceModel(self)
        direction, predicted = model.minimise()
        self.work += model.work
        self.predicted = np.where(self.moving, -predicted, self.predicted)
        self._line_search(model, direction, predicted)
        self.bounds = None

    def _line_search(self, model: FaceModel, direction: FloatArray, predicted: FloatArray) -> None:
        """Armijo line search with halved steps in each group; definiteness is tested by Cholesky factors."""
        system = self.task.system
        slope = model.sums(model.gradient * direction)
        slope += model.penalty_value(model.x + direction) - model.penalty_value(model.x)
        pending = self.moving & (predicted < 0.0)
        failed = self.moving & ~pending
        length = np.ones(system.n_groups)
        theta, inverse, logdet = self.theta, self.factor.inverse, self.factor.logdet.copy()
        gain = np.zeros(system.n_groups)
        slack = 1e-13 * (self.task.unit + np.abs(self.objective))
        while pending.any():
            step = np.where(pending, length, 0.0)[model.group] * direction
            trial = model.moved(step)
            factor = factorize(system, trial, only=pending[system.block_group])
            value = model.objective(model.x + step, factor)
            accepted = pending & (value <= self.objective + config.ARMIJO * length * slope + slack)
            if accepted.any():
                blocks = accepted[system.block_group]
                if blocks.all():
                    theta, inverse, logdet = trial, factor.inverse, factor.logdet
                else:
                    positions = np.repeat(blocks, system.size**2)
                    theta, inverse = np.where(positions, trial, theta), np.where(positions, factor.inverse, inverse)
                    logdet = np.where(blocks, factor.logdet, logdet)
                gain[accepted] = (self.objective - value)[accepted]
                self.objective = np.where(accepted, value, self.objective)
                self.moved |= accepted
            pending &= ~accepted
            length[pending] *= 0.5
            failed |= pending & (length < config.SHORTEST_STEP)
            pending &= ~failed
        self.theta = theta
        self.factor = Factorization(inverse, logdet, np.ones(system.n_blocks, dtype=bool))
        self._adapt(length, gain, predicted, failed)

    def _adapt(self, length: FloatArray, gain: FloatArray, predicted: FloatArray, failed: BoolArray) -> None:
        """Adapt the damping to the accuracy of the model; groups without progress in several steps stop."""
        ratio = gain / np.where(predicted < 0.0, -predicted, 1.0)
        worse = (length < 1.0) | (ratio < 0.25) | failed
        better = ~worse & (ratio > 0.7)
        raised = np.maximum(4.0 * self.damping, 0.1)
        lowered = np.where(self.damping > 5e-3, self.damping / 5.0, 0.0)
        tiny = -predicted <= 1e-13 * (self.task.unit + np.abs(self.objective))
        self.damping = np.where(worse & ~(tiny & (predicted < 0.0)), raised, np.where(better, lowered, self.damping))
        # Without a descent direction the damping grows first.
        no_gain = np.where(predicted < 0.0, gain <= 1e-14 * np.abs(self.objective), self.damping > config.MAX_DAMPING)
        self.idle = np.where(self.moving & no_gain, self.idle + 1, 0)
        self.moving &= self.idle < config.IDLE_STEPS
