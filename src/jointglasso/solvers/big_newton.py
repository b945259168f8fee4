"""Proximal Newton on a big group.

Every iteration looks at the active entries only, and at the components they form: the work follows the support. The
direction minimises the second-order model plus penalty by conjugate gradients on a face of the penalty (support and
signs fixed), dropping what changes its sign, a few times over. Correlated data give W a few very large eigenvalues;
they cost conjugate gradients one step each, where coordinate descent would slow down by the whole condition number. A
damping term, as in Levenberg and Marquardt's method, grows while the model promises more than it keeps.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from jointglasso._threads import Workers
from jointglasso._typing import FloatArray
from jointglasso.blocks.linalg import Factorization
from jointglasso.blocks.system import bincount
from jointglasso.certificate import Bounds
from jointglasso.solvers.base import SolverTask
from jointglasso.solvers.working_set import HessianProduct, WorkingSet, build_working_set

_ROUNDS = 6
_MAX_STEPS = 30
_STEP_TOLERANCE = 0.03
_FEW_CROSSINGS = 2e-3
_ARMIJO = 1e-3

Product = Callable[[FloatArray], FloatArray]


def solve_big_group(task: SolverTask, start: FloatArray, *, may_be_solved: bool) -> tuple[FloatArray, Bounds, int, str]:
    """Iterate from `start`: the solution, its bounds, the iterations taken, and what ended them.

    Where the start may be the solution already its gap is looked at before the first step.
    """
    with Workers(task.n_threads) as workers:
        state = _State.begin(task, start, workers)
        state.last_gain = 0.0 if may_be_solved else np.inf
        for number in range(task.max_iter + 1):
            bounds = state.bounds() if state.is_near() or number == task.max_iter else None
            stop = task.report(state.objective, None if bounds is None else bounds.total_gap)
            if bounds is not None and not task.unsolved(bounds).any():
                return state.theta, bounds, number, "tolerance"
            if stop or number == task.max_iter:
                return state.theta, state.bounds(rescue=True), number, "callback" if stop else "max_iter"
            working = state.working_set()
            product = HessianProduct(working, state.W, workers)
            direction, promised = state.direction(working, product)
            if not state.step(working, direction, promised):
                break
        return state.theta, state.bounds(rescue=True), number, "rounding"


@dataclass
class _State:
    """Theta with its inverse and log-determinants, the damping, and what the last step gained."""

    task: SolverTask
    workers: Workers
    theta: FloatArray
    W: FloatArray
    logdet: FloatArray
    objective: float = np.inf
    damping: float = 0.1
    last_gain: float = np.inf

    @classmethod
    def begin(cls, task: SolverTask, start: FloatArray, workers: Workers) -> _State:
        """Invert the start, component by component of its support."""
        system = task.system
        state = cls(task, workers, start.copy(), np.zeros_like(start), np.zeros(system.n_blocks))
        nonzero = bincount(system.pair_of_entry, np.abs(system.gather(start)), system.n_pairs) > 0
        working = build_working_set(system, nonzero, system.S, start, np.inf)
        x = state._settle(working)
        factors = working.cholesky(x, workers)
        if factors is None:
            raise ValueError("The start of the Newton method is not positive definite.")
        state._accept(working, x, *factors)
        return state

    @property
    def penalties(self) -> tuple[float, float, float]:
        return self.task.penalty.lambda1, self.task.penalty.lambda2, self.task.diagonal_penalty

    @property
    def variance(self) -> FloatArray:
        """Diagonal of the optimal W, known in advance."""
        system = self.task.system
        return system.S[system.diagonal] + self.task.diagonal_penalty / system.block_weight[system.diagonal_block]

    def is_near(self) -> bool:
        """Whether the gap may have come within its limit: it cannot while a step still gains much more than that."""
        limit = self.task.tol * max(1.0, abs(self.task.rest + self.objective)) * float(self.task.share.sum())
        return self.last_gain <= 20.0 * limit

    def bounds(self, *, rescue: bool = False) -> Bounds:
        factor = Factorization(self.W, self.logdet, np.ones(len(self.logdet), dtype=bool))
        return self.task.bounds(self.theta, factor=factor, rescue=rescue)

    def working_set(self) -> WorkingSet:
        """Pairs that are not zero or may not stay zero, and what they form."""
        from jointglasso.kernels.hessian import balanced_bounds
        from jointglasso.kernels.working_set import mark_active

        system = self.task.system
        lambda1, lambda2, _ = self.penalties
        mark = np.empty(system.n_pairs, dtype=bool)
        self.workers.run(
            mark_active, balanced_bounds(np.ones(system.n_pairs), self.workers.n_threads), system.pair_start,
            system.upper, system.entry_block, system.block_weight, system.S, self.W, self.theta, lambda1, lambda2, mark,
        )  # fmt: skip
        working = build_working_set(system, mark, self.W, self.theta, lambda1)
        self._settle(working)
        return working

    def direction(self, working: WorkingSet, product: Product) -> tuple[FloatArray, float]:
        """Direction that lowers the damped model, and by how much it promises to lower the objective."""
        from jointglasso.kernels.faces import curvature_of

        x, gradient = self.theta[working.position], self._gradient(working)
        curvature = curvature_of(working.weight, working.end_i, working.end_j, self.W[working.position])
        while True:
            extra = self.damping * curvature
            damped = partial(_damped_product, product, extra)
            d, promised = _direction_by_faces(working, damped, x, gradient, curvature + extra, self.penalties)
            if promised < 0.0 or self.damping > 1e8:
                return d, promised
            self.damping = max(4.0 * self.damping, 0.1)

    def step(self, working: WorkingSet, d: FloatArray, promised: float) -> bool:
        """Search along d, a Cholesky factor being the test of definiteness; whether any step helped."""
        from jointglasso.kernels.faces import inner, penalty_of

        x, n_entries = self.theta[working.position], working.n_entries
        linear = working.weight * self.task.system.S[working.position]
        penalty = penalty_of(working.start, x, *self.penalties)
        slope = inner(n_entries, self._gradient(working), d)
        slope += penalty_of(working.start, x + d, *self.penalties) - penalty
        before = inner(n_entries, linear, x) - self._weighted_logdet(working) + penalty
        length = 1.0
        while length > 1e-8:
            trial = x + length * d
            factors = working.cholesky(trial, self.workers)
            if factors is not None:
                logdet = float(self.task.system.block_weight @ factors[1])
                after = inner(n_entries, linear, trial) - logdet + penalty_of(working.start, trial, *self.penalties)
                if after <= before + _ARMIJO * length * slope + 1e-13 * abs(before):
                    self._adapt_damping(length, before - after, promised)
                    self._accept(working, trial, *factors)
                    return True
            length *= 0.5
        return False

    def _gradient(self, working: WorkingSet) -> FloatArray:
        at = working.position
        return np.asarray(working.weight * (self.task.system.S[at] - self.W[at]))

    def _settle(self, working: WorkingSet) -> FloatArray:
        """Give isolated variables their closed form; return the unknowns of the others."""
        at = self.task.system.diagonal[working.isolated]
        variance = self.variance[working.isolated]
        change = -np.log(variance) - np.log(self.theta[at])
        block = self.task.system.diagonal_block[working.isolated]
        self.logdet += bincount(block, change, len(self.logdet))
        self.theta[at], self.W[at] = 1.0 / variance, variance
        return self.theta[working.position]

    def _weighted_logdet(self, working: WorkingSet) -> float:
        """Weighted log-determinant of the components alone, without the isolated variables."""
        system = self.task.system
        weight = system.block_weight[system.diagonal_block[working.isolated]]
        alone = -float(weight @ np.log(self.variance[working.isolated]))
        return float(system.block_weight @ self.logdet) - alone

    def _accept(self, working: WorkingSet, x: FloatArray, dense: FloatArray, logdet: FloatArray) -> None:
        """Take over x with its inverse, log-determinants and objective."""
        from jointglasso.kernels.faces import inner, penalty_of

        system, n_entries = self.task.system, working.n_entries
        self.theta[working.position] = x
        self.theta[working.mirror] = x[:n_entries]
        variance = self.variance[working.isolated]
        block = system.diagonal_block[working.isolated]
        self.logdet = logdet - bincount(block, np.log(variance), len(logdet))
        smooth = inner(n_entries, working.weight * system.S[working.position], x) - system.block_weight @ logdet
        alone = system.block_weight[block] @ (1.0 + np.log(variance))
        self.objective = float(smooth + alone + penalty_of(working.start, x, *self.penalties))
        working.invert_into(dense, self.W, self.workers)
        self.W[system.diagonal[working.isolated]] = variance

    def _adapt_damping(self, length: float, gain: float, promised: float) -> None:
        self.last_gain = gain
        kept = gain / -promised if promised < 0 else 0.0
        if length < 1.0 or kept < 0.25:
            self.damping = max(4.0 * self.damping, 0.1)
        elif kept > 0.7:
            self.damping = self.damping / 5.0 if self.damping > 5e-3 else 0.0


def _damped_product(product: Product, extra: FloatArray, v: FloatArray) -> FloatArray:
    return product(v) + extra * v


def _direction_by_faces(
    working: WorkingSet,
    product: Product,
    x: FloatArray,
    gradient: FloatArray,
    curvature: FloatArray,
    penalties: tuple[float, float, float],
) -> tuple[FloatArray, float]:
    """Minimise the model: solve on the face, drop what changes sign, repeat; the direction and the model's change.

    Zeros that should come back do so through the active set of the next iteration.
    """
    from jointglasso.kernels.faces import enter_face, face_residual, inner, penalty_of, step_on_face, update_face

    n_entries, (lambda1, lambda2, lambda_d) = working.n_entries, penalties
    face = enter_face(working.start, x, gradient, curvature, lambda1, lambda2)
    z, slope, best = x.copy(), gradient.copy(), 0.0
    for _ in range(_ROUNDS):
        residual = face_residual(n_entries, slope, lambda1, lambda2, lambda_d, face)
        v, product_v, decrease, steps = _conjugate_gradients(working, product, residual, face, curvature, best)
        best = max(best, decrease)
        moved, crossed = step_on_face(n_entries, z, v, face)
        slope += product(moved - z) if crossed else product_v
        z = moved
        if crossed == 0 or (crossed <= _FEW_CROSSINGS * n_entries and steps <= 3):
            break
        update_face(working.start, z, lambda2, face)
    d = z - x
    change = inner(n_entries, gradient, d) + 0.5 * inner(n_entries, slope - gradient, d)
    change += penalty_of(working.start, z, *penalties) - penalty_of(working.start, x, *penalties)
    return d, change


def _conjugate_gradients(
    working: WorkingSet,
    product: Product,
    residual: FloatArray,
    face: FloatArray,
    curvature: FloatArray,
    best: float,
) -> tuple[FloatArray, FloatArray, float, int]:
    """Newton's equations on the face, until a step lowers the model by a small part of what was gained so far.

    Also the product with the solution, the decrease, and the steps taken.
    """
    from jointglasso.kernels.faces import add_group_curvature, inner

    n_entries = working.n_entries
    diagonal = curvature + face[3] * (1.0 - face[2] * face[2])
    v, product_v = np.zeros_like(residual), np.zeros_like(residual)
    r, p = residual.copy(), residual / diagonal
    rho = inner(n_entries, r, p)
    decrease, steps = 0.0, 0
    while rho > 0.0 and steps < _MAX_STEPS:
        product_p = product(p)
        whole = add_group_curvature(working.start, face, p, product_p)
        length = rho / inner(n_entries, p, whole)
        v += length * p
        product_v += length * product_p
        r -= length * whole
        gained = 0.5 * length * rho
        decrease += gained
        steps += 1
        if steps > 1 and gained <= _STEP_TOLERANCE * max(decrease, best):
            break
        z = r / diagonal
        rho, previous = inner(n_entries, r, z), rho
        p = z + (rho / previous) * p
    return v, product_v, decrease, steps
