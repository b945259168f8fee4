"""Proximal gradient method (G-ISTA for K classes) with a Barzilai-Borwein step length per group.

One iteration is a gradient step on the likelihood, ``G = w (S - Theta^{-1})``, followed by the proximal operator of the
penalty. The Cholesky factor of the trial point tests definiteness and gives the log-determinant; its inverse gives the
next gradient. Iterations are cheap, but many are needed if Theta is badly conditioned.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from jointglasso._typing import BoolArray, FloatArray
from jointglasso.blocks import BlockSystem
from jointglasso.blocks.diagonal import shrunk_diagonal
from jointglasso.blocks.linalg import Factorization, factorize
from jointglasso.blocks.system import bincount
from jointglasso.data.checks import check_count
from jointglasso.solvers.base import BestSoFar, Evaluated, IterativeMethod, SolverResult, SolverTask, State, run

#: Maximal halvings of a step: 2^-60 is below the rounding unit, beyond which no step makes progress.
_HALVINGS = 60


@dataclass(frozen=True)
class ProximalGradient:
    """Proximal gradient method with Barzilai-Borwein steps.

    Parameters
    ----------
    check_every : int, default 5
        Iterations between two computations of the gap.

    Examples
    --------
    >>> import jointglasso as jgl
    >>> S = [[[1.0, 0.5], [0.5, 1.0]], [[1.0, 0.4], [0.4, 1.0]]]
    >>> jgl.solve(S, 0.1, 0.1, solver=jgl.ProximalGradient()).status.converged
    True
    """

    check_every: int = 5

    name = "proximal_gradient"
    requires = frozenset({"prox"})
    default_max_iter = 5000
    include_isolated = False
    lockstep = False
    bytes_per_entry = 165.0

    def __post_init__(self) -> None:
        check_count("check_every", self.check_every)

    def solve(self, task: SolverTask) -> SolverResult:
        """Iterate, with a gap check every `check_every` iterations, until every group is within its limit."""
        best = BestSoFar(task)
        n_iter, reason = run(_ProximalIteration(task, self.check_every), best, task.max_iter)
        return best.result(n_iter, reason, [self.name] * task.system.n_groups)


class _ProximalIteration(IterativeMethod["_ProximalState", Evaluated]):
    """Proximal gradient steps on the groups of a task that are above their limits."""

    def __init__(self, task: SolverTask, check_every: int) -> None:
        self.task, self.check_every = task, check_every

    def init(self, best: BestSoFar) -> _ProximalState:
        state = _ProximalState.begin(self.task)
        best.update(self.theta(state))
        self._best = best
        return state

    def step(self, state: _ProximalState) -> _ProximalState:
        state.moving = self._best.unsolved & ~state.stuck
        if state.moving.any():
            state.move()
            state.n_iter += 1
        state.ended = "" if (self._best.unsolved & ~state.stuck).any() else "rounding"
        return state

    def theta(self, state: _ProximalState) -> Evaluated:
        return Evaluated(state.theta, factor=state.factor)

    def gap_check_due(self, state: _ProximalState, limit: float) -> bool:
        return state.n_iter % self.check_every == 0


@dataclass(kw_only=True)
class _ProximalState(State):
    """Theta with its inverse and smooth objective, step length (G,), and masks (G,) of moving and stuck groups."""

    task: SolverTask
    theta: FloatArray
    factor: Factorization
    smooth: FloatArray
    length: FloatArray
    moving: BoolArray
    stuck: BoolArray

    @classmethod
    def begin(cls, task: SolverTask) -> _ProximalState:
        system = task.system
        factor = factorize(system, task.start)
        # The Hessian of the likelihood scales as w W^2; the largest diagonal entry of W gives the first step length.
        spread = np.zeros(system.n_groups)
        largest = np.zeros(system.n_blocks)
        np.maximum.at(largest, system.diagonal_block, factor.inverse[system.diagonal])
        np.maximum.at(spread, system.block_group, system.block_weight * largest**2)
        smooth = _smooth_objective(system, task.start, factor)
        everyone = np.ones(system.n_groups, dtype=bool)
        return cls(
            task=task, theta=task.start.copy(), factor=factor, smooth=smooth, length=1.0 / spread, moving=everyone,
            stuck=~everyone,
        )  # fmt: skip

    @property
    def system(self) -> BlockSystem:
        return self.task.system

    def move(self) -> None:
        """Move every unfinished group by one accepted proximal gradient step."""
        system = self.system
        gradient = system.per_element(system.block_weight) * (system.S - self.factor.inverse)
        pending = self.moving.copy()
        theta, new_factor, smooth = self.theta, self.factor, self.smooth
        for _ in range(_HALVINGS):
            trial = self._trial(gradient)
            factor = factorize(system, trial, only=pending[system.block_group])
            value, accepted = self._accept(trial, gradient, factor, pending)
            theta = system.where(accepted, trial, theta)
            new_factor = new_factor.replaced(system, accepted, factor)
            smooth = np.where(accepted, value, smooth)
            pending &= ~accepted
            if not pending.any():
                break
            self.length[pending] *= 0.5
        self.stuck |= pending  # no step length decreases the objective: limit of rounding
        self.moving &= ~pending
        self._finish_step(theta, new_factor, smooth)

    def _trial(self, gradient: FloatArray) -> FloatArray:
        system, task = self.system, self.task
        point = self.theta - system.per_element_of_groups(self.length) * gradient
        step = self.length[system.pair_group]
        entries = task.penalty.prox(system.gather(point), step, system.entries(task.penalty))
        diagonal, length = point[system.diagonal], self.length[system.block_group[system.diagonal_block]]
        return system.scatter(entries, shrunk_diagonal(system, task.penalty, task.diagonal_penalty, diagonal, length))

    def _accept(
        self, trial: FloatArray, gradient: FloatArray, factor: Factorization, pending: BoolArray
    ) -> tuple[FloatArray, BoolArray]:
        """(G,), (G,): smooth objective at the trial point, and whether it is below the quadratic model."""
        system = self.system
        change = trial - self.theta
        linear = self._group_sum(gradient * change)
        quadratic = self._group_sum(change * change) / (2.0 * self.length)
        value = _smooth_objective(system, trial, factor)
        rounding = 1e-14 * (self.task.unit + np.abs(self.smooth))
        return value, pending & (value <= self.smooth + linear + quadratic + rounding)

    def _finish_step(self, theta: FloatArray, factor: Factorization, smooth: FloatArray) -> None:
        """Barzilai-Borwein: the next step length is <change, change> / <change, change of the gradient>."""
        system = self.system
        change = theta - self.theta
        curved = system.per_element(system.block_weight) * (self.factor.inverse - factor.inverse)
        length, curvature = self._group_sum(change * change), self._group_sum(change * curved)
        usable = (length > 0) & (curvature > 0)
        self.length[usable] = length[usable] / curvature[usable]
        self.theta, self.factor, self.smooth = theta, factor, smooth

    def _group_sum(self, flat: FloatArray) -> FloatArray:
        return self.system.sum_per_group(self.system.sum_per_block(flat))


def _smooth_objective(system: BlockSystem, theta: FloatArray, factor: Factorization) -> FloatArray:
    """(G,): negative log-likelihood of each group; infinite where a block is not definite."""
    value = system.block_weight * (system.sum_per_block(system.S * theta) - factor.logdet)
    return bincount(system.block_group, np.where(factor.definite, value, np.inf), system.n_groups)
