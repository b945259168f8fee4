"""Proximal Newton method with an active set on one large group.

An iteration works on the active entries and the connected components they form, so that its cost depends on the
support. The direction minimises the quadratic model plus penalty by conjugate gradients on a face of the penalty
(support and signs fixed); entries that change sign leave the face, which is repeated a few times. Correlated data give
W a few very large eigenvalues, which cost conjugate gradients one step each, whereas coordinate descent slows down with
the condition number. A Levenberg-Marquardt damping term grows while the decrease falls short of the model's prediction.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from jointglasso import config
from jointglasso._threads import Workers, balanced_bounds, single_threaded_blas
from jointglasso._typing import BoolArray, FloatArray
from jointglasso.blocks.linalg import Factorization
from jointglasso.blocks.system import bincount
from jointglasso.duality import DualityGap, gap_of_squares
from jointglasso.kernels.pair_types import Entries, GroupPair
from jointglasso.penalties import ANY_CLASS
from jointglasso.solvers.base import SolverTask, diagonal_start, reason_to_end
from jointglasso.solvers.column_ascent import ColumnAscent, next_gap_check
from jointglasso.solvers.working_set import HessianProduct, WorkingSet, build_working_set, point_of

Product = Callable[[FloatArray], FloatArray]


def solve_big_group(
    task: SolverTask,
    start: FloatArray,
    *,
    work_limit: float = np.inf,
    sweeps: bool = False,
    violates_global: BoolArray | None = None,
) -> tuple[FloatArray, DualityGap, int, str]:
    """Iterate from `start`; return Theta, its bounds, the number of iterations and the stopping reason.

    The reason is "work" when the Hessian-vector products cost more than `work_limit` times the sum of cubed block
    sizes. With `sweeps`, column sweeps come first and count as iterations; `violates_global` (P,) marks the pairs
    outside the dual ball, if known.
    """
    max_work = work_limit * float((task.system.size.astype(float) ** 3).sum())
    work = 0.0
    # Several blocks: one thread each; a single block: multi-threaded BLAS.
    blas = single_threaded_blas() if task.system.n_blocks > 1 else nullcontext()
    workers = Workers(task.n_threads if len(task.system.S) >= config.MIN_ENTRIES_FOR_THREADS else 1)
    with blas:
        state, swept = (
            _warm_up_by_columns(task, start, workers, violates_global)
            if sweeps
            else (_NewtonState.begin(task, start, workers), 0)
        )
        for number in range(swept, task.max_iter + 1):
            working = state.working_set()
            bounds = state.near_bounds(working)
            stop = task.report(state.objective, None if bounds is None else bounds.total_gap)
            solved = bounds is not None and not task.unsolved(bounds).any()
            reason = reason_to_end(solved=solved, stop=stop, last=number == task.max_iter)
            if reason or work > max_work:
                reason = "work" if work > max_work and not solved else reason
                return state.theta, bounds if bounds is not None and solved else state.bounds(), number, reason
            product = HessianProduct(working, state.W, workers)
            direction, predicted = state.direction(working, product)
            work += product.work
            if not state.step(working, direction, predicted):
                if state.complete:
                    break
                state.max_pairs = np.inf
            task.keep(lambda: state.theta)
        return state.theta, state.bounds(), number, "rounding"


def _warm_up_by_columns(
    task: SolverTask, start: FloatArray, workers: Workers, violates_global: BoolArray | None
) -> tuple[_NewtonState, int]:
    """Column sweeps until the gap estimate is within its limit or stagnates; the state and the number of sweeps."""
    system = task.system
    state = _NewtonState.from_theta(task, start.copy(), workers) if task.warm else None
    if state is not None and state.near_bounds(state.working_set()) is not None:
        return state, 0
    ascent = ColumnAscent.begin(task, start, None if state is None else state.W, violates_global)
    # Objective of the best known point, initially that of the diagonal start.
    variance = system.optimal_variance(task.diagonal_penalty)
    objective = float(system.block_weight[system.diagonal_block] @ (1.0 + np.log(variance)))
    if state is not None:
        objective = state.objective
    number, fraction, threshold, checked, unchecked_cost = 0, float(task.gap_budget.sum()), np.inf, True, -np.inf
    while number < min(task.max_iter, config.NEWTON_SWEEPS) and config.ROUNDING_CHANGE < ascent.change < np.inf:
        if task.report(objective, None):
            break
        number += 1
        ascent.sweep()
        limit = fraction * task.allowed_gap(objective)
        # The estimate may stagnate although the gap is small: also check once the sweeps have cost as much as a check.
        unchecked_cost += ascent.cost
        checked = ascent.gap_estimate <= min(limit, threshold) or unchecked_cost > ascent.gap_check_cost
        if not checked:
            task.keep(ascent.theta)
            continue
        unchecked_cost, threshold = 0.0, next_gap_check(ascent.gap_estimate, limit, np.inf)
        state = _better_state(task, state, ascent, workers)
        if state is not None:
            objective = state.objective
            if state.near_bounds(state.working_set()) is not None:
                break
            threshold = next_gap_check(ascent.gap_estimate, limit, state.expected_gap)
    if not checked:
        state = _better_state(task, state, ascent, workers)
    return (_NewtonState.begin(task, start, workers) if state is None else state), number


def _better_state(
    task: SolverTask, state: _NewtonState | None, ascent: ColumnAscent, workers: Workers
) -> _NewtonState | None:
    """State at Theta of the column sweeps if it is definite and has a smaller objective, else `state`."""
    if not np.isfinite(ascent.change):
        return state
    candidate = _NewtonState.from_theta(task, ascent.theta(), workers)
    return state if candidate is None or (state is not None and candidate.objective > state.objective) else candidate


@dataclass
class _NewtonState:
    """Current Theta with its inverse W, log-determinants (B,) and objective, and the damping parameter."""

    task: SolverTask
    workers: Workers
    theta: FloatArray
    W: FloatArray
    logdet: FloatArray
    objective: float = np.inf
    damping: float = 0.1
    last_gain: float = 0.0
    idle: int = 0
    """Number of consecutive steps without a decrease above rounding."""
    max_pairs: float = 0.0
    """Maximal number of pairs of the next working set."""
    complete: bool = True
    """Whether the working set contained every pair that violates the optimality conditions."""
    expected_gap: float = np.inf
    """Second-order estimate of the gap at Theta; infinite before it is computed."""
    known_bounds: DualityGap | None = None
    """Bounds at Theta, once computed."""

    @classmethod
    def begin(cls, task: SolverTask, start: FloatArray, workers: Workers) -> _NewtonState:
        """State at `start`, or at the diagonal start if it is indefinite (by rounding, for perfect correlations)."""
        state = cls.from_theta(task, start.copy(), workers)
        if state is not None:
            return state
        return cls.begin(task, diagonal_start(task.system, task.penalty, task.diagonal_penalty), workers)

    @classmethod
    def from_theta(cls, task: SolverTask, start: FloatArray, workers: Workers) -> _NewtonState | None:
        """State at `start` (not copied), inverted by connected components of its support; None if not definite."""
        system = task.system
        state = cls(task, workers, start, np.zeros_like(start), np.zeros(system.n_blocks))
        nonzero = system.sum_per_pair(np.abs(system.gather(start))) > 0
        working = build_working_set(
            system, nonzero, point_of(system, system.S, start), task.penalty.scaled(np.inf).pair
        )
        x = state._set_isolated(working)
        factors = working.cholesky(x, workers)
        if factors is None:
            return None
        state._accept(working, x, *factors)
        state.max_pairs = config.GROWTH * (np.count_nonzero(nonzero) + len(system.members) / system.n_blocks)
        return state

    @property
    def penalties(self) -> tuple[GroupPair, float]:
        return self.task.penalty.pair, self.task.diagonal_penalty

    @property
    def variance(self) -> FloatArray:
        """Diagonal of the optimal W, which the optimality conditions fix in advance."""
        return self.task.system.optimal_variance(self.task.diagonal_penalty)

    def near_bounds(self, working: WorkingSet) -> DualityGap | None:
        """Bounds at Theta if the second-order estimate of the gap is within its limit, else None.

        Off the working set the dual point equals W, so that the residual R of the certificate is supported on it, and
        tr(R Theta R Theta) / 2 is the gap to second order.
        """
        if self.known_bounds is not None:
            return self.known_bounds
        limit = self.task.allowed_gap(self.objective) * float(self.task.gap_budget.sum())
        if not self.complete:
            return None
        if self.last_gain > 100.0 * limit:  # the gap is never far below what the last step gained
            return None
        residual = self._residual(working)
        product = working.sparse(residual) @ working.sparse(self.theta[working.position])
        squares = np.asarray(product.multiply(product.T).sum(axis=1)).ravel()
        self.expected_gap = 0.5 * float(working.weight[working.n_entries :] @ squares)
        if self.expected_gap > limit:
            return None
        per_block = bincount(working.component_block[working.component], squares, len(self.logdet))
        gap = self.task.system.block_weight @ gap_of_squares(np.clip(per_block, 0.0, config.NEAR_IF_BIG**2))
        if (per_block > config.NEAR_IF_BIG**2).any() or gap > limit:
            self.known_bounds = self.bounds()
            return self.known_bounds
        dual = self.W.copy()
        dual[working.position] += residual
        dual[working.mirror] = dual[working.position[: working.n_entries]]
        self.known_bounds = DualityGap(np.array([self.objective]), np.array([float(gap)]), dual, self._factor)
        return self.known_bounds

    def bounds(self) -> DualityGap:
        """Bounds at Theta at any distance from the optimum."""
        return self.task.bounds(self.theta, factor=self._factor, scale_to_feasible=True)

    @property
    def _factor(self) -> Factorization:
        return Factorization(self.W, self.logdet, np.ones(len(self.logdet), dtype=bool))

    def _residual(self, working: WorkingSet) -> FloatArray:
        """R = dual point - W on the unknowns of the working set."""
        n_entries = working.n_entries
        x, negative_gradient = self.theta[working.position], -self._gradient(working)
        entries = Entries(working.start, ANY_CLASS, working.factor, self.task.system.n_classes)
        nearest = self.task.penalty.nearest_subgradient(x[:n_entries], negative_gradient[:n_entries], entries)
        diagonal = np.full(len(x) - n_entries, self.task.diagonal_penalty)
        return (np.concatenate([nearest, diagonal]) - negative_gradient) / working.weight

    def working_set(self) -> WorkingSet:
        """Pairs that are non-zero or violate the optimality conditions, with their connected components.

        Far from the solution many more pairs violate the conditions than are non-zero at the optimum. Then only the
        largest violations enter, selected by a raised penalty, so that the set grows by a bounded factor.
        """
        from jointglasso.kernels.newton_set import mark_active

        system = self.task.system
        mark = np.empty(system.n_pairs, dtype=bool)
        bounds = balanced_bounds(np.ones(system.n_pairs), self.workers.n_threads)
        point, multiplier = point_of(system, self.W, self.theta), 1.0
        while True:
            self.workers.run(mark_active, bounds, point, self.task.penalty.scaled(multiplier).pair, mark)
            if np.count_nonzero(mark) <= self.max_pairs:
                break
            multiplier *= config.RAISE
        self.complete = multiplier == 1.0
        self.max_pairs = min(self.max_pairs * config.GROWTH, float(system.n_pairs))
        working = build_working_set(system, mark, point, self.task.penalty.pair)
        self._set_isolated(working)
        return working

    def direction(self, working: WorkingSet, product: HessianProduct) -> tuple[FloatArray, float]:
        """Minimiser of the damped model, and the change of the objective that the model predicts (negative)."""
        from jointglasso.kernels.faces import curvature_of

        x, gradient = self.theta[working.position], self._gradient(working)
        curvature = curvature_of(working.weight, working.end_i, working.end_j, self.W[working.position])
        while True:
            extra = self.damping * curvature
            damped = partial(_damped_product, product, extra)
            d, predicted = _direction_by_faces(
                working, damped, product.restrict, x, gradient, curvature + extra, self.penalties, self.damping == 0.0
            )
            if predicted < 0.0 or self.damping > 1e8:
                return d, predicted
            self.damping = max(4.0 * self.damping, 0.1)

    def step(self, working: WorkingSet, d: FloatArray, predicted: float) -> bool:
        """Armijo line search along d, with definiteness tested by Cholesky factors; False if no step decreases."""
        from jointglasso.kernels.faces import inner, penalty_of

        x, n_entries = self.theta[working.position], working.n_entries
        linear = working.weight * self.task.system.S[working.position]
        penalty = penalty_of(working.start, working.factor, x, *self.penalties)
        directional = inner(n_entries, self._gradient(working), d)
        directional += penalty_of(working.start, working.factor, x + d, *self.penalties) - penalty
        before = inner(n_entries, linear, x) - self._weighted_logdet(working) + penalty
        length = 1.0
        while length > 1e-8:
            trial = x + length * d
            factors = working.cholesky(trial, self.workers)
            if factors is not None:
                logdet = float(self.task.system.block_weight @ factors[1])
                after = (
                    inner(n_entries, linear, trial)
                    - logdet
                    + penalty_of(working.start, working.factor, trial, *self.penalties)
                )
                if after <= before + config.ARMIJO * length * directional + 1e-13 * abs(before):
                    self._adapt_damping(length, before - after, predicted)
                    self._accept(working, trial, *factors)
                    self.idle = self.idle + 1 if before - after <= 1e-14 * abs(before) else 0
                    return self.idle < 3
            length *= 0.5
        return False

    def _gradient(self, working: WorkingSet) -> FloatArray:
        position = working.position
        return np.asarray(working.weight * (self.task.system.S[position] - self.W[position]))

    def _set_isolated(self, working: WorkingSet) -> FloatArray:
        """Set isolated variables to their closed form; return the values of the unknowns."""
        position = self.task.system.diagonal[working.isolated]
        variance = self.variance[working.isolated]
        change = -np.log(variance) - np.log(self.theta[position])
        block = self.task.system.diagonal_block[working.isolated]
        self.logdet += bincount(block, change, len(self.logdet))
        self.theta[position], self.W[position] = 1.0 / variance, variance
        return self.theta[working.position]

    def _weighted_logdet(self, working: WorkingSet) -> float:
        """Weighted log-determinant of the components, isolated variables excluded."""
        system = self.task.system
        weight = system.block_weight[system.diagonal_block[working.isolated]]
        isolated = -float(weight @ np.log(self.variance[working.isolated]))
        return float(system.block_weight @ self.logdet) - isolated

    def _accept(self, working: WorkingSet, x: FloatArray, dense: FloatArray, logdet: FloatArray) -> None:
        """Move to x; update inverse, log-determinants and objective."""
        from jointglasso.kernels.faces import inner, penalty_of

        system, n_entries = self.task.system, working.n_entries
        self.known_bounds, self.expected_gap = None, np.inf
        self.theta[working.position] = x
        self.theta[working.mirror] = x[:n_entries]
        variance = self.variance[working.isolated]
        block = system.diagonal_block[working.isolated]
        self.logdet = logdet - bincount(block, np.log(variance), len(logdet))
        smooth = inner(n_entries, working.weight * system.S[working.position], x) - system.block_weight @ logdet
        isolated = system.block_weight[block] @ (1.0 + np.log(variance))
        self.objective = float(smooth + isolated + penalty_of(working.start, working.factor, x, *self.penalties))
        working.invert_into(dense, self.W, self.workers)
        self.W[system.diagonal[working.isolated]] = variance

    def _adapt_damping(self, length: float, gain: float, predicted: float) -> None:
        self.last_gain = gain
        ratio = gain / -predicted if predicted < 0 else 0.0
        if length < 1.0 or ratio < 0.25:
            self.damping = max(4.0 * self.damping, 0.1)
        elif ratio > 0.7:
            self.damping = self.damping / 5.0 if self.damping > 5e-3 else 0.0


def _damped_product(product: Product, extra: FloatArray, v: FloatArray) -> FloatArray:
    return product(v) + extra * v


def _direction_by_faces(
    working: WorkingSet,
    product: Product,
    restrict: Callable[[BoolArray], None],
    x: FloatArray,
    gradient: FloatArray,
    curvature: FloatArray,
    penalties: tuple[GroupPair, float],
    thorough: bool,
) -> tuple[FloatArray, float]:
    """Minimise the model: solve on the face, remove entries that change sign, repeat; direction and model change.

    Entries set to zero are excluded from the products; they can re-enter through the next active set.
    """
    from jointglasso.kernels.faces import enter_face, face_residual, step_on_face, update_face

    n_entries, (penalty, lambda_d) = working.n_entries, penalties
    face = enter_face(working.start, working.factor, x, gradient, curvature, penalty)
    z, model_gradient, best, model_change = x.copy(), gradient.copy(), 0.0, 0.0
    for _ in range(config.NEWTON_THOROUGH if thorough else config.NEWTON_ROUNDS):
        restrict(face[0] > 0.0)
        residual = face_residual(working.start, working.factor, model_gradient, penalty, lambda_d, face)
        v, product_v, steps = _on_face(working, product, residual, face, curvature, best)
        was_free = face[0] > 0.0
        trial, crossed = step_on_face(n_entries, z, v, face)
        product_step = product(trial - z) if crossed else product_v
        decrease = -_model_change(working, model_gradient, product_step, z, trial, penalties)
        if crossed and decrease < 0.0:
            # Entries far beyond zero distort the others: set only them to zero.
            trial = np.where(was_free & (face[0] == 0.0), 0.0, z)
            product_step = product(trial - z)
            decrease = -_model_change(working, model_gradient, product_step, z, trial, penalties)
        best = max(best, decrease)
        model_change -= decrease
        model_gradient += product_step
        z = trial
        if crossed > config.FEW_CROSSINGS * n_entries or (crossed > 0 and steps > 3):
            update_face(working.start, working.factor, z, penalty, face)
            continue
        if not thorough:
            break
        # The face is solved: do zeros off the face violate the optimality conditions?
        restrict(np.ones(len(z), dtype=bool))
        model_gradient = gradient + product(z - x)
        wider = enter_face(working.start, working.factor, z, model_gradient, curvature, penalty)
        if np.count_nonzero(wider[0] > face[0]) <= config.FEW_CROSSINGS * n_entries:
            break
        face = wider
    return z - x, model_change


def _model_change(
    working: WorkingSet,
    model_gradient: FloatArray,
    product_step: FloatArray,
    z: FloatArray,
    trial: FloatArray,
    penalties: tuple[GroupPair, float],
) -> float:
    """Change of model plus penalty from z to `trial`; `product_step` is the Hessian times their difference."""
    from jointglasso.kernels.faces import inner, penalty_of

    step, n_entries = trial - z, working.n_entries
    before, after = (penalty_of(working.start, working.factor, point, *penalties) for point in (z, trial))
    return inner(n_entries, model_gradient, step) + 0.5 * inner(n_entries, product_step, step) + after - before


def _on_face(
    working: WorkingSet,
    product: Product,
    residual: FloatArray,
    face: FloatArray,
    curvature: FloatArray,
    best_decrease: float,
) -> tuple[FloatArray, FloatArray, int]:
    """Solve Newton's equations on the face: solution, its Hessian-vector product, and number of CG steps."""
    from jointglasso.kernels.faces import add_group_curvature, inner

    def products(p: FloatArray) -> tuple[FloatArray, FloatArray]:
        product_p = product(p)
        return product_p, add_group_curvature(working.start, face, p, product_p)

    diagonal = curvature + face[3] * (1.0 - face[2] * face[2])
    limits = config.NEWTON_STEPS, config.NEWTON_TOLERANCE, best_decrease
    return conjugate_gradients(products, partial(inner, working.n_entries), residual, diagonal, *limits)


def conjugate_gradients(
    products: Callable[[Any], tuple[Any, Any]],
    inner: Callable[[Any, Any], float],
    residual: Any,
    diagonal: Any,
    max_steps: int,
    tolerance: float,
    best: float,
) -> tuple[Any, Any, int]:
    """Preconditioned conjugate gradients until a step decreases the model by less than `tolerance` times the total.

    The total is the larger of the decrease so far and `best`. `products(p)` returns the Hessian-vector product of the
    smooth part and the one including the penalty. Returns the solution, its product of the first kind, and the steps.
    """
    v, product_v = np.zeros_like(residual), np.zeros_like(residual)
    r, p = residual.copy(), residual / diagonal
    rho = inner(r, p)
    decrease, steps = 0.0, 0
    while rho > 0.0 and steps < max_steps:
        product_p, hessian_p = products(p)
        length = rho / inner(p, hessian_p)
        v += length * p
        product_v += length * product_p
        r -= length * hessian_p
        step_decrease = 0.5 * length * rho
        decrease += step_decrease
        steps += 1
        if steps > 1 and step_decrease <= tolerance * max(decrease, best):
            break
        z = r / diagonal
        rho, previous = inner(r, z), rho
        p = z + (rho / previous) * p
    return v, product_v, steps
