"""Latent variable graphical lasso: ``Theta_k = A_k - L_k``, A_k sparse and L_k positive semidefinite of low rank.

Marginalising over unobserved variables adds a low-rank term to the precision matrix; A is the network conditional on
them. The penalty of the problem acts on A, and ``mu sum_k tr L_k`` is added. The dual problem is
``max sum_k w_k (log det W_k + p)`` over W_k = S_k + U_k / w_k with U in the dual ball, as without latent variables, and
the additional constraint ``-U_k <= mu I`` in the Loewner order. If the dual optimum of the problem without latent
variables satisfies it, L = 0 is optimal.

The solver is ADMM in the product space: a proximal step each for likelihood, penalty and trace, followed by the
projection of the three matrices to Theta = A - L.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from jointglasso._typing import FloatArray
from jointglasso.blocks import BlockSystem
from jointglasso.blocks.linalg import Factorization, eigh_stack, factorize
from jointglasso.duality import dual_radius
from jointglasso.penalties import PairPenalty
from jointglasso.rounding import log_determinant_error, sum_error
from jointglasso.solvers.base import Best, IterativeMethod, State, run

#: Iterations between two gap checks, over-relaxation (the usual value of ADMM), and the ratio of the residuals above
#: which rho is adapted.
_LATENT_GAP_CHECK, _LATENT_RELAXATION, _LATENT_BALANCE = 10, 1.6, 3.0


@dataclass(frozen=True)
class LatentProblem:
    """Problem with one block per class that contains all variables, and the trace penalty mu."""

    system: BlockSystem
    penalty: PairPenalty
    diagonal_penalty: float
    mu: float

    def stack(self, flat: FloatArray) -> FloatArray:
        """The class blocks as an array (K, p, p)."""
        b = int(self.system.size[0])
        return flat.reshape(-1, b, b)


@dataclass(frozen=True)
class LatentPoint:
    """A in flat storage and a factor F (p, r) of ``L = F F'`` for each block, with objective, gap and dual point."""

    A: FloatArray
    factors: list[FloatArray]
    objective: float
    gap: float
    dual: FloatArray
    rounding: float


def low_rank_is_zero(problem: LatentProblem, dual: FloatArray, gap: float) -> bool:
    """Whether the gap of the problem without latent variables proves that L = 0 is optimal.

    W* >= W / (1 + r) in the Loewner order, which bounds the largest eigenvalue of w (S - W*) from above.
    """
    if not np.isfinite(gap):
        return False
    system = problem.system
    weight = system.block_weight
    r = dual_radius(np.full(system.n_blocks, gap), weight)
    S, W = problem.stack(system.S), problem.stack(dual)
    return all(
        _largest_eigenvalue(w * (one - two / (1.0 + far))) <= problem.mu
        for w, one, two, far in zip(weight, S, W, r, strict=True)
    )


def solve_latent(
    problem: LatentProblem,
    start: tuple[FloatArray, list[FloatArray]],
    allowed: Callable[[float], float],
    max_iter: int,
    report: Callable[..., bool],
) -> tuple[LatentPoint, int, str]:
    """Iterate from `start`, A in flat storage and the factors of L, until the gap is at most `allowed(objective)`."""
    method = _LatentIteration(problem, start)
    state = method.init(None)
    start_point = bound(problem, *start, state.dual)
    best = _BestLatent(start_point, allowed, report)
    n_iter, reason = run(method, best, max_iter)
    return best.point, n_iter, reason


@dataclass
class _BestLatent(Best[LatentPoint]):
    """Point with the smallest gap so far."""

    point: LatentPoint
    allowed: Callable[[float], float]
    report: Callable[..., bool]

    @property
    def objective(self) -> float:
        return self.point.objective

    @property
    def gap(self) -> float:
        return self.point.gap

    @property
    def limit(self) -> float:
        return self.allowed(self.objective)

    def update(self, candidate: LatentPoint) -> None:
        self.point = min(self.point, candidate, key=lambda point: (point.gap, point.objective))

    def keep(self, candidate: Callable[[], LatentPoint]) -> None:
        """No snapshots: the checkpoint holds the solution without latent variables."""


class _LatentIteration(IterativeMethod["_LatentState", LatentPoint]):
    """ADMM on full matrices from `start`, A and the factors of L."""

    def __init__(self, problem: LatentProblem, start: tuple[FloatArray, list[FloatArray]]) -> None:
        self.problem, self.start = problem, start

    def init(self, best: _BestLatent | None) -> _LatentState:
        return _LatentState(self.problem, *self.start)

    def step(self, state: _LatentState) -> _LatentState:
        if state.n_iter > 0:
            state.balance(state.n_iter)
        state.iterate()
        state.n_iter += 1
        return state

    def theta(self, state: _LatentState) -> LatentPoint:
        return bound(self.problem, state.A_flat, state.factors(), state.dual)

    def gap_check_due(self, state: _LatentState, limit: float) -> bool:
        return state.n_iter > 0 and state.n_iter % _LATENT_GAP_CHECK == 0


class _LatentState(State):
    """Iterates (Theta, A, L) of ADMM, their projections to Theta = A - L, and the scaled multiplier V.

    All are in the units of ``s_i s_j Theta_ij``, s_i being the fourth root of the mean variance of variable i over the
    classes. The likelihood would have the square root (correlations), the trace of L none: halfway between them, data
    whose variances spread over decades take a tenth of the iterations. `A_flat`, `dual` and `factors` are scaled back.
    """

    def __init__(self, problem: LatentProblem, A: FloatArray, factors: list[FloatArray]) -> None:
        super().__init__()
        system = problem.system
        variance = system.optimal_variance(problem.diagonal_penalty).reshape(system.n_blocks, -1).mean(axis=0)
        self.scale: FloatArray = variance**0.25
        self.products = np.outer(self.scale, self.scale)
        self.problem, self.S = problem, problem.stack(system.S) / self.products
        self.weight = system.block_weight[:, None, None]
        self.rho = float(system.block_weight.mean() * np.sqrt(variance).mean() ** 2)
        L = np.stack([F @ F.T for F in factors])
        theta = problem.stack(A) - L
        inverse = problem.stack(factorize(system, theta.ravel()).inverse) / self.products
        self.V = self.weight * (inverse - self.S) / self.rho
        self.Y = np.stack([theta, problem.stack(A), L]) * self.products
        self.X, self.Y_before, self.A_flat = self.Y, self.Y, A
        self.values, self.vectors = np.zeros(theta.shape[:2]), np.zeros_like(theta)

    @property
    def dual(self) -> FloatArray:
        """Unscaled multiplier; converges to w (W - S)."""
        return self.rho * self.V * self.products

    def iterate(self) -> None:
        """Three proximal steps and the projection."""
        problem, rho, V, w = self.problem, self.rho, self.V, self.weight
        Y1, Y2, Y3 = self.Y
        d, Q = eigh_stack(rho * (Y1 - V) - w * self.S)
        w = w[:, :, 0]
        root = np.sqrt(d * d + 4.0 * rho * w)
        x = np.where(d > 0, (d + root) / (2.0 * rho), 2.0 * w / (root - np.minimum(d, 0.0)))
        Theta = np.matmul(Q * x[:, None, :], np.swapaxes(Q, 1, 2))
        self.A_flat = self._sparse_part(((Y2 + V) / self.products).ravel())
        # In these units tr L is <diag(1 / s^2), L>, a linear term, which shifts the point that is projected.
        e, self.vectors = eigh_stack(Y3 - V - np.diag(problem.mu / (rho * self.scale**2)))
        self.values = np.maximum(e, 0.0)
        L = np.matmul(self.vectors * self.values[:, None, :], np.swapaxes(self.vectors, 1, 2))
        self.X = np.stack([Theta, problem.stack(self.A_flat) * self.products, L])
        Z = _LATENT_RELAXATION * self.X + (1.0 - _LATENT_RELAXATION) * self.Y + np.stack([V, -V, V])
        self.V = (Z[0] - Z[1] + Z[2]) / 3.0
        self.Y_before, self.Y = self.Y, Z - np.stack([self.V, -self.V, self.V])

    def _sparse_part(self, point: FloatArray) -> FloatArray:
        """Proximal step of the penalty at `point`, in the units of the problem."""
        system, problem = self.problem.system, self.problem
        i, j = system.pair_variables
        step = 1.0 / (self.rho * (self.scale[i] * self.scale[j]) ** 2)
        entries = problem.penalty.prox(system.gather(point), step, system.entries(problem.penalty))
        shift = problem.diagonal_penalty / (self.rho * np.tile(self.scale, system.n_blocks) ** 4)
        return system.scatter(entries, np.maximum(point[system.diagonal] - shift, 0.0))

    def factors(self) -> list[FloatArray]:
        """F (p, r) of each class, ``L = F F'``, with a column per non-zero eigenvalue in decreasing order."""
        return [
            (Q * np.sqrt(values) / self.scale[:, None])[:, values > 0.0][:, ::-1]
            for Q, values in zip(self.vectors, self.values, strict=True)
        ]

    def balance(self, number: int) -> None:
        """Residual balancing: double or halve rho, at decreasing frequency."""
        if number & (number - 1) and (number % 10 or number > 300):
            return
        primal = _length(self.X - self.Y) / max(_length(self.Y), 1e-300)
        dual = _length(self.Y - self.Y_before) / max(np.sqrt(3.0) * _length(self.V), 1e-300)
        factor = 2.0 if primal > _LATENT_BALANCE * dual else 0.5 if dual > _LATENT_BALANCE * primal else 1.0
        self.rho *= factor
        self.V = self.V / factor


def bound(problem: LatentProblem, A: FloatArray, factors: list[FloatArray], multiplier: FloatArray) -> LatentPoint:
    """Objective and gap at A and ``L = F F'``, rounding included, with the better of two dual points.

    The negative gradient at Theta, or the multiplier of ADMM, is projected to the nearest subgradient of the penalty at
    A and scaled towards zero until ``-U <= mu I``; both dual sets are convex and contain zero.
    """
    system, penalty = problem.system, problem.penalty
    L = np.stack([F @ F.T for F in factors]).ravel()
    theta = A - L
    factor = factorize(system, theta)
    if not factor.definite.all():
        return LatentPoint(A, factors, np.inf, np.inf, system.S, 0.0)
    objective, rounding = _objective(problem, A, factors, L, theta, factor)
    best, best_dual = -np.inf, system.S
    entries = system.gather(A)
    weight = np.repeat(system.block_weight, system.size**2)
    for candidate in (weight * (factor.inverse - system.S), multiplier.ravel()):
        u = penalty.nearest_subgradient(entries, system.gather(candidate), system.entries(penalty))
        U = system.scatter(u, np.full(len(system.members), problem.diagonal_penalty))
        U[system.forbidden] = candidate[system.forbidden]
        largest = max(_largest_eigenvalue(-one) for one in problem.stack(U))
        share = min(1.0, problem.mu / largest) if largest > 0.0 else 1.0
        # Conjugate of the penalty at U: zero for a norm, and at the scaled U at most `gap_budget` of it by convexity.
        conjugate = 2.0 * float((u * entries).sum() - penalty.value(entries, system.entries(penalty)).sum())
        value, error, W = _dual_value(problem, share * U / weight)
        value -= share * max(conjugate, 0.0)
        if value - error > best:
            best, best_dual = value - error, W
    return LatentPoint(A, factors, objective + rounding, objective + rounding - best, best_dual, rounding)


def _objective(
    problem: LatentProblem,
    A: FloatArray,
    factors: list[FloatArray],
    L: FloatArray,
    theta: FloatArray,
    factor: Factorization,
) -> tuple[float, float]:
    """Objective and its rounding error."""
    system, penalty = problem.system, problem.penalty
    w = system.block_weight
    trace = float(w @ system.sum_per_block(system.S * theta))
    pairs = 2.0 * float(penalty.value(system.gather(A), system.entries(penalty)).sum())
    diagonal = problem.diagonal_penalty * float(A[system.diagonal].sum())
    latent = problem.mu * sum(float((F * F).sum()) for F in factors)
    objective = trace - float(w @ factor.logdet) + pairs + diagonal + latent
    # The error of F F' is g(r + 1) |F| |F|' <= g(r + 1) (L_ii L_jj)^(1/2), and so is that of Theta.
    scale = np.sqrt(problem.stack(L).diagonal(axis1=1, axis2=2))
    spread = sum_error(2 + max(F.shape[1] for F in factors))
    around = np.abs(problem.stack(factor.inverse)) + np.abs(problem.stack(system.S))
    of_product = spread * np.einsum("ki,kij,kj->k", scale, around, scale)
    of_difference = sum_error(2) * (around * np.abs(problem.stack(theta))).sum(axis=(1, 2))
    terms = float(w @ system.sum_per_block(np.abs(system.S * theta))) + pairs + diagonal + latent
    logs = log_determinant_error(system, theta, factor)
    error = float(w @ (of_product + of_difference + logs)) + sum_error(4 * system.size.max() + 256) * terms
    return objective, error


def _dual_value(problem: LatentProblem, shift: FloatArray) -> tuple[float, float, FloatArray]:
    """Dual objective at W = S + shift (minus infinity if not definite), its rounding error, and W."""
    system = problem.system
    W = system.S + shift
    factor = factorize(system, W)
    if not factor.definite.all():
        return -np.inf, 0.0, W
    w, p = system.block_weight, system.size
    around = np.abs(problem.stack(factor.inverse)) * (np.abs(problem.stack(system.S)) + np.abs(problem.stack(shift)))
    error = log_determinant_error(system, W, factor) + sum_error(4) * around.sum(axis=(1, 2))
    size = float(w @ (np.abs(factor.logdet) + p))
    return float(w @ (factor.logdet + p)), float(w @ error) + sum_error(256) * size, W


def _length(stack: FloatArray) -> float:
    return float(np.sqrt((stack * stack).sum()))


def _largest_eigenvalue(matrix: FloatArray) -> float:
    """Upper bound on the largest eigenvalue: computed value plus rounding error."""
    b = len(matrix)
    return float(np.linalg.eigvalsh(matrix)[-1]) + sum_error(8 * b) * float(np.linalg.norm(matrix))
