"""ADMM on any partition: the solver of the paper (section "Hybrid ADMM").

Scaled augmented Lagrangian, Eq. (9)::

    sum_k w_k L(Theta_k) + rho/2 sum_k |Theta_k - Y_k + U_k|_F^2 + P(Y)

Theta is updated block by block through an eigendecomposition, Eq. (10); Y by the proximal operator of the penalty,
pair by pair; U by the residual. All three are in the flat storage of the blocks, so that time and memory per iteration
depend on the partition. ADMM, GADMM, LADMM and HADMM of the paper are this solver with `screening=` "none", "global",
"class" and "hybrid", and `accelerate=False`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass

import numpy as np

from jointglasso._threads import Workers, single_threaded_blas
from jointglasso._typing import FloatArray
from jointglasso.blocks import BlockSystem
from jointglasso.blocks.diagonal import shrunk_diagonal
from jointglasso.blocks.linalg import Factorization, eigh_stack, factorize
from jointglasso.data.checks import InputError, check_choice, check_count, check_positive, check_switch
from jointglasso.solvers.anderson import Anderson
from jointglasso.solvers.base import (
    BestSoFar,
    BestTogether,
    Evaluated,
    IterativeMethod,
    SolverResult,
    SolverTask,
    State,
    run,
)

#: Block size above which each block is a piece of work for a thread of its own.
_ADMM_THREADED = 100

#: Number of entries of all blocks up to which the memory of the acceleration, twenty copies of them, is allocated.
_ACCELERATED = 250_000

#: Stopping rule of the paper: both residuals, summed over the classes, below this.
PAPER_TOLERANCE = 1e-6


@dataclass(frozen=True)
class ADMM:
    """Alternating direction method of multipliers.

    Parameters
    ----------
    rho : float, optional
        Step parameter. By default it starts, for each independent group, at the squared mean variance times the weight
        of the class, the scale of the likelihood's curvature, which makes it invariant to the units of the data.
    adapt_rho : bool, default True
        Double or halve rho of a group while its primal and dual residuals are out of balance.
    relaxation : float, default 1.6
        Over-relaxation, in (0, 2); 1 is the plain method of the paper.
    stopping : {"gap", "paper"}
        Stop at the relative duality gap `tol`, or by the paper's rule: sum_k |Theta_k - Y_k| and sum_k |Y_k+ - Y_k|
        both below 1e-6.
    check_every : int, default 5
        Iterations between two computations of the gap.
    include_isolated : bool, default False
        Iterate on isolated variables as well, as the paper's implementation seems to do, instead of using their closed
        form.
    warm_dual : bool, default True
        Start U of a warm start at the value it would have at the solution; False starts from zero.
    accelerate : bool, default True
        Anderson acceleration (`solvers/anderson.py`) of groups with up to 250,000 entries in their blocks, unless
        stopped by the paper's rule. It needs a tenth of the iterations where the solution is badly conditioned.

    Examples
    --------
    >>> import jointglasso as jgl
    >>> S = [[[1.0, 0.5], [0.5, 1.0]], [[1.0, 0.4], [0.4, 1.0]]]
    >>> jgl.solve(S, 0.1, 0.1, solver=jgl.ADMM(rho=1.0)).status.converged
    True
    """

    rho: float | None = None
    adapt_rho: bool = True
    relaxation: float = 1.6
    stopping: str = "gap"
    check_every: int = 5
    include_isolated: bool = False
    warm_dual: bool = True
    accelerate: bool = True

    name = "admm"
    requires = frozenset({"prox"})
    default_max_iter = 2000
    lockstep = True
    bytes_per_entry = 250.0

    def __post_init__(self) -> None:
        check_choice("stopping", self.stopping, ("gap", "paper"))
        check_count("check_every", self.check_every)
        check_switch("adapt_rho", self.adapt_rho)
        check_switch("include_isolated", self.include_isolated)
        check_switch("warm_dual", self.warm_dual)
        check_switch("accelerate", self.accelerate)
        if self.rho is not None:
            check_positive("rho", self.rho)
        if not 0.0 < check_positive("relaxation", self.relaxation) < 2.0:
            raise InputError(f"relaxation={self.relaxation:g} must lie between 0 and 2.", "relaxation")

    def solve(self, task: SolverTask) -> SolverResult:
        """Iterate Eq. (9)-(10) until the stopping rule holds."""
        # Several blocks: one thread each; a single block: multi-threaded BLAS.
        blas = single_threaded_blas() if task.system.n_blocks > 1 else nullcontext()
        best = BestTogether(task)
        with blas:
            n_iter, reason = run(_AdmmIteration(task, self), best, task.max_iter)
        return best.result(n_iter, reason, [self.name] * task.system.n_groups)


class _AdmmIteration(IterativeMethod["_AdmmState", Evaluated]):
    """Iterations of ADMM on the groups of a task."""

    def __init__(self, task: SolverTask, options: ADMM) -> None:
        self.task, self.options = task, options

    def init(self, best: BestSoFar) -> _AdmmState:
        options, task = self.options, self.task
        state = _AdmmState.begin(task, options.rho, Workers(task.n_threads), task.warm and options.warm_dual)
        if options.accelerate and options.stopping == "gap" and task.system.S.size <= _ACCELERATED:
            state.acceleration = Anderson(task.system)
        return state

    def step(self, state: _AdmmState) -> _AdmmState:
        if self.options.adapt_rho:
            state.balance(state.n_iter)
        try:
            state.objective = state.update_theta()
        except np.linalg.LinAlgError:  # overflow to NaN for variables in extremely different units
            state.ended = "rounding"
            return state
        state.update_y(self.options.relaxation)
        state.update_u()
        state.n_iter += 1
        if self.options.stopping == "paper" and state.paper_residual() < PAPER_TOLERANCE:
            state.ended = "paper's rule"
        return state

    def theta(self, state: _AdmmState) -> Evaluated:
        return Evaluated(state.Y)

    def gap_check_due(self, state: _AdmmState, limit: float) -> bool:
        return self.options.stopping == "gap" and state.n_iter > 0 and state.n_iter % self.options.check_every == 0


@dataclass(kw_only=True)
class _AdmmState(State):
    """Iterates Theta, Y and U in flat storage, and rho (B,) of each block.

    Those of a group differ only if its classes have different weights, and so likelihoods of different curvature.
    """

    task: SolverTask
    workers: Workers
    Theta: FloatArray
    Y: FloatArray
    U: FloatArray
    rho: FloatArray
    Y_before: FloatArray
    acceleration: Anderson | None = None

    @classmethod
    def begin(cls, task: SolverTask, rho: float | None, workers: Workers, with_dual: bool) -> _AdmmState:
        system, Y = task.system, task.start.copy()
        factor = factorize(system, Y) if with_dual else None
        start_rho = _start_rho(task, factor) if rho is None else np.full(system.n_blocks, float(rho))
        # At the solution Theta = Y, and Eq. (10) reads ``rho U = w (Theta^{-1} - S)``.
        scale = system.per_element(system.block_weight / start_rho)
        U = np.zeros_like(Y) if factor is None else scale * (factor.inverse - system.S)
        return cls(task=task, workers=workers, Theta=Y, Y=Y, U=U, rho=start_rho, Y_before=Y)

    @property
    def system(self) -> BlockSystem:
        return self.task.system

    def update_theta(self) -> float:
        """Solve Eq. (10), ``w Theta^{-1} = w S + rho (Theta - Y + U)``, in every block; return the objective."""
        system = self.system
        self.Theta = np.empty_like(self.Y)
        rho, weight = self.rho, system.block_weight
        logdet = np.empty(system.n_blocks)

        def update(stack: tuple[slice, list[FloatArray]]) -> None:
            blocks, (S, Y, U, Theta) = stack
            r, w = rho[blocks, None], weight[blocks, None]
            d, V = eigh_stack(r[:, :, None] * (Y - U) - w[:, :, None] * S)
            # rho x - w / x = d has the positive root below, written without cancellation for d < 0.
            root = np.sqrt(d * d + 4.0 * r * w)
            x = np.where(d > 0, (d + root) / (2.0 * r), 2.0 * w / (root - np.minimum(d, 0.0)))
            np.matmul(V * x[:, None, :], np.swapaxes(V, 1, 2), out=Theta)
            logdet[blocks] = np.log(x).sum(axis=1)

        self.workers.map(update, list(_stacks(system, system.S, self.Y, self.U, self.Theta)))
        return self._objective(logdet)

    def update_y(self, relaxation: float) -> None:
        """Proximal step on every pair and on the diagonal."""
        system, task = self.system, self.task
        relaxed = relaxation * self.Theta + (1.0 - relaxation) * self.Y if relaxation != 1.0 else self.Theta
        point = relaxed + self.U
        if self.acceleration is not None:  # the iteration maps Y + U to this point
            point = self.acceleration.next_point(self.Y + self.U, point, self.rho)
        self.point = point
        step = 1.0 / self.rho
        rho = self.rho[system.entry_block]
        entries = task.penalty.update(rho, rho * system.gather(point), system.entries(task.penalty))
        length = step[system.diagonal_block]
        diagonal = shrunk_diagonal(system, task.penalty, task.diagonal_penalty, point[system.diagonal], length)
        self.Y_before = self.Y
        self.Y = system.scatter(entries, np.maximum(diagonal, 0.0))

    def update_u(self) -> None:
        """Add the residual to the scaled dual variable: what the proximal step removed."""
        self.U = self.point - self.Y

    def paper_residual(self) -> float:
        """Larger of the two residuals of the paper: Frobenius norms per class, summed over the classes."""
        return max(self._sum_of_class_norms(self.Theta - self.Y), self._sum_of_class_norms(self.Y - self.Y_before))

    def balance(self, number: int) -> None:
        """Residual balancing per group: double or halve rho, at decreasing frequency to preserve convergence."""
        if number < 2 or (number & (number - 1) and (number % 10 or number > 200)):
            return
        norm = self._group_norm
        scale = np.maximum(np.maximum(norm(self.Theta), norm(self.Y)), 1e-300)
        primal = norm(self.Theta - self.Y) / scale
        dual = norm(self.Y - self.Y_before) / np.maximum(norm(self.U), 1e-300)
        factor = np.where(primal > 5.0 * dual, 2.0, np.where(dual > 5.0 * primal, 0.5, 1.0))
        factor[np.maximum(primal, dual) < 1e-14] = 1.0
        self.rho = self.rho * factor[self.system.block_group]
        self.U /= self.system.per_element_of_groups(factor)

    def _group_norm(self, flat: FloatArray) -> FloatArray:
        return np.sqrt(self.system.sum_per_group(self.system.sum_per_block(flat * flat)))

    def _sum_of_class_norms(self, flat: FloatArray) -> float:
        squares = np.bincount(self.system.block_class, self.system.sum_per_block(flat * flat))
        return float(np.sqrt(squares).sum())

    def _objective(self, logdet: FloatArray) -> float:
        """Objective at Theta, which is positive definite at every iteration (Y need not be).

        Forbidden entries are zero in Y but only in the limit in Theta; they are not penalised.
        """
        system, task = self.system, self.task
        likelihood = system.block_weight @ (system.sum_per_block(system.S * self.Theta) - logdet)
        diagonal = task.diagonal_penalty * self.Theta[system.diagonal].sum()
        pairs = 2.0 * task.penalty.value(system.gather(self.Theta), system.entries(task.penalty)).sum()
        return float(likelihood + diagonal + pairs)


def _stacks(system: BlockSystem, *flats: FloatArray) -> Iterator[tuple[slice, list[FloatArray]]]:
    """Stacks (m, b, b) of small blocks of equal size, and every large block separately."""
    for blocks, stacks in system.stacks(*flats):
        if stacks[0].shape[1] < _ADMM_THREADED:
            yield blocks, stacks
        else:
            for m in range(blocks.stop - blocks.start):
                yield slice(blocks.start + m, blocks.start + m + 1), [stack[m : m + 1] for stack in stacks]


def _start_rho(task: SolverTask, factor: Factorization | None) -> FloatArray:
    """(B,): curvature of the likelihood, the class weight times the square of the geometric mean eigenvalue of W.

    W is the inverse of a warm start with this factorization; otherwise its diagonal is known and its mean is taken. The
    blocks of a group have one value, unless classes have different weights.
    """
    system = task.system
    equal = (system.block_weight == system.block_weight[:1]).all()
    level = system.block_group if equal else np.arange(system.n_blocks)
    size = np.bincount(level, system.size)
    if factor is None:
        mean = np.bincount(level[system.diagonal_block], system.optimal_variance(task.diagonal_penalty)) / size
    else:
        mean = np.exp(-np.bincount(level, factor.logdet) / size)
    return np.asarray(system.block_weight * (mean**2)[level])
