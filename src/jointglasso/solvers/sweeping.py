"""Column sweeps as the main method, for penalties without Newton's method (maximum, fused, Laplacian).

The two column estimates of an entry agree on zeros and equal values long before they agree on the value, so that their
mean has the right zeros and equalities but for a few pairs. The gap is checked at this mean and, if it is too large, at
a proximal step from it (`prox_step`), which repairs these pairs; in large groups with interacting pairs it can worsen
others. The last digits come from Newton's method on the face. Groups above their gap limit are solved by ADMM.
"""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import numpy as np

from jointglasso import config
from jointglasso._typing import BoolArray, FloatArray, IntArray
from jointglasso.blocks.diagonal import FusedDiagonal
from jointglasso.blocks.linalg import Factorization
from jointglasso.duality import DualityGap, diagonal_bounds
from jointglasso.penalties.class_graph_penalty import ClassGraphPenalty
from jointglasso.solvers.admm import ADMM
from jointglasso.solvers.base import SolverResult, SolverTask
from jointglasso.solvers.column_ascent import ColumnAscent, next_gap_check, suits_columns
from jointglasso.solvers.newton import improve
from jointglasso.solvers.small_groups import dense_groups, extract_group, sweep_groups


def solve_by_sweeps(task: SolverTask) -> SolverResult:
    """Column sweeps over all groups above their gap limit, then ADMM on the groups that remain above it."""
    if task.system.n_groups > 1 and task.system.size.max(initial=0) > config.SWEPT_BLOCK:
        return _solve_one_by_one(task)
    state = _BestPoints(task)
    if task.penalty.fused_diagonal_penalty is None:
        _sweep(state)
    elif "columns" in task.penalty.supports:
        _sweep_with_fixed_diagonals(state)
    n_remaining = ADMM.default_max_iter if task.max_iter >= 100 else task.max_iter - state.n_iter
    stopped = task.report(state.bounds.total_objective, state.bounds.total_gap)
    before = np.full(task.system.n_groups, np.inf)
    for _ in range(config.ADMM_ROUNDS if n_remaining > 0 and not stopped else 0):
        todo = state.unsolved() & (state.limits() < before)
        before = state.limits()
        for group in np.flatnonzero(todo):
            subtask, positions = extract_group(task, state.theta, int(group), state.limits(), n_remaining)
            result = ADMM().solve(subtask)
            state.update_group(int(group), positions, result.theta, result.bounds)
            state.n_iter += result.n_iter
            state.methods[group] = "admm"
    bounds = state.bounds
    if np.isinf(bounds.gap).any():
        bounds = task.bounds(state.theta, scale_to_feasible=True)
    unsolved = task.unsolved(bounds).any()
    reason = "tolerance" if not unsolved else "callback" if stopped else "max_iter" if n_remaining <= 0 else "rounding"
    return SolverResult(state.theta, bounds, state.n_iter, reason, list(state.methods))


def _solve_one_by_one(task: SolverTask) -> SolverResult:
    """Solve groups separately if one of them is large, so that its gap checks do not delay the others."""
    system, theta = task.system, task.start.copy()
    bounds = task.bounds(theta) if task.warm else _bounds_of_diagonal(task)
    n_iter, reason, methods = 0, "tolerance", np.full(system.n_groups, "start", dtype=object)
    before = np.full(system.n_groups, np.inf)
    while reason == "tolerance":
        # Repeated only for groups whose limit has decreased with the objective.
        todo = np.flatnonzero(task.unsolved(bounds) & (task.limits(bounds) < 0.99 * before))
        before = task.limits(bounds)
        if not len(todo):
            break
        for group in todo.tolist():
            subtask, positions = extract_group(task, theta, group, before, task.max_iter)
            result = solve_by_sweeps(replace(subtask, warm=task.warm or methods[group] != "start"))
            blocks = system.block_group == group
            theta[positions], (methods[group],) = result.theta, result.methods
            bounds.update_group(group, blocks, positions, result.bounds)
            n_iter, reason = (
                max(n_iter, result.n_iter),
                reason if result.stopped_by == "tolerance" else result.stopped_by,
            )
            task.keep(lambda: theta)
            if task.report(bounds.total_objective, None):
                reason = "callback"
                break
    if np.isinf(bounds.gap).any():
        bounds = task.bounds(theta, scale_to_feasible=True)
    return SolverResult(theta, bounds, n_iter, reason, list(methods))


def _bounds_of_diagonal(task: SolverTask) -> DualityGap:
    """Objective of a diagonal start; the gap is not computed and set to infinity.

    For large groups `inverse` and `dual` are uninitialised buffers; the first gap check fills them.
    """
    system = task.system
    known = diagonal_bounds(system, task.start, task.penalty, task.diagonal_penalty)
    inverse, dual = np.empty_like(task.start), np.empty_like(task.start)
    if system.size.max(initial=0) <= config.SWEPT_BLOCK or task.penalty.fused_diagonal_penalty is not None:
        inverse.fill(0.0)
        inverse[system.diagonal] = 1.0 / task.start[system.diagonal]
        dual[:] = inverse
    return replace(known, dual=dual, factor=replace(known.factor, inverse=inverse))


class _BestPoints:
    """Best point of each group so far, with its bounds."""

    def __init__(self, task: SolverTask) -> None:
        self.task, self.theta, self.n_iter = task, task.start.copy(), 0
        if task.known is not None and task.absolute:
            self.bounds = task.known
        else:
            is_diagonal = not (task.warm or task.system.gather(self.theta).any())
            self.bounds = _bounds_of_diagonal(task) if is_diagonal else task.bounds(self.theta)
        start = "warm start" if task.warm else "start"
        self.methods = np.full(task.system.n_groups, start, dtype=object)

    def limits(self) -> FloatArray:
        return self.task.limits(self.bounds)

    def unsolved(self) -> BoolArray:
        return self.task.unsolved(self.bounds)

    def update(self, theta: FloatArray, groups: BoolArray) -> DualityGap:
        """Adopt `theta` in those of `groups` where its gap is smaller; return its bounds."""
        system, new, old = self.task.system, self.task.bounds(theta), self.bounds
        better = groups & (new.gap < old.gap)
        if better.all():
            self.theta, self.bounds = theta, new
            return new
        blocks = better[system.block_group]
        positions = np.repeat(blocks, system.size**2)
        self.theta = np.where(positions, theta, self.theta)
        factor = Factorization(
            np.where(positions, new.inverse, old.inverse),
            np.where(blocks, new.factor.logdet, old.factor.logdet),
            np.where(blocks, new.factor.definite, old.factor.definite),
        )
        objective, gap = np.where(better, new.objective, old.objective), np.where(better, new.gap, old.gap)
        self.bounds = DualityGap(objective, gap, np.where(positions, new.dual, old.dual), factor)
        return new

    def update_group(self, group: int, positions: IntArray | slice, theta: FloatArray, bounds: DualityGap) -> None:
        """Adopt another point of one group if its gap is smaller, or if neither is finite, its objective."""
        old, unknown = self.bounds, np.isinf(bounds.gap[0]) and np.isinf(self.bounds.gap[group])
        if bounds.gap[0] < old.gap[group] or (unknown and bounds.objective[0] < old.objective[group]):
            self.theta[positions] = theta
            blocks = self.task.system.block_group == group
            self.bounds = self.bounds.with_group(group, blocks, positions, bounds)


def _sweep(state: _BestPoints) -> None:
    """Column sweeps over all groups: small groups in one call, large groups separately."""
    if suits_columns(state.task):
        _sweep_small(state, state.task.system.largest_block)
        for group in np.flatnonzero(state.unsolved() & (state.task.system.largest_block > config.SWEPT_BLOCK)):
            _sweep_big(state, int(group))


def _sweep_with_fixed_diagonals(state: _BestPoints) -> None:
    """Column sweeps for a fused diagonal, where the optimal diagonal of W is not known in advance.

    Fixed-point iteration: sweeps with the diagonal of W fixed at that of the current dual point, then a proximal step
    and Newton's method on the face (with clusters of diagonal entries), which update the diagonal.
    """
    task, system = state.task, state.task.system
    penalty = replace(cast(ClassGraphPenalty, task.penalty), fuse_diagonal=False)
    for _ in range(config.DIAGONALS):
        todo = state.unsolved()
        if not todo.any() or state.n_iter >= task.max_iter:
            return
        S = system.S.copy()
        S[system.diagonal] += state.bounds.dual[system.diagonal] - system.optimal_variance(task.diagonal_penalty)
        fixed = replace(task, system=replace(system, S=S), penalty=penalty, start=state.theta, known=None, warm=True)
        inner = _BestPoints(fixed)
        _sweep(inner)
        state.n_iter += inner.n_iter
        state.methods[todo] = "columns"
        state.update(prox_step(task, inner.theta, inner.bounds.inverse), todo)
        for group in np.flatnonzero(state.unsolved() & np.isfinite(state.bounds.gap)):
            _step_on_face(state, int(group))


def _sweep_small(state: _BestPoints, largest: IntArray) -> None:
    """Column sweeps over small groups; `largest` (G,) is the size of their largest block.

    Groups above their limit continue with Newton's method on the face and sweeps with smaller tolerances.
    """
    task, warm = state.task, state.task.warm
    slow, first_factor = (
        _slow_groups(task),
        min(1.0, max(config.FIRST_REFINE_FACTOR, config.FIRST_REFINE_GAP / task.tol)),
    )
    for number, limit_factor in enumerate(config.REFINE_FACTORS):
        if (task.absolute and task.warm) or number > 0:
            is_medium = (largest > config.TINY_BLOCK) & (largest <= config.SWEPT_BLOCK)
            for group in np.flatnonzero(state.unsolved() & is_medium):
                _step_on_face(state, int(group))
        todo, n_remaining = state.unsolved() & (largest <= config.SWEPT_BLOCK) & ~slow, task.max_iter - state.n_iter
        if not todo.any() or n_remaining <= 0:
            return
        theta = state.theta.copy()
        inverse = state.bounds.inverse if warm and state.bounds.factor.definite.all() else np.empty(0)
        limits = (limit_factor if task.absolute or number > 0 else first_factor) * state.limits()
        taken = sweep_groups(task, theta, inverse, todo, limits, min(n_remaining, config.COMPARING_SWEEPS))
        state.n_iter += taken
        state.methods[todo] = "columns"
        inverse = state.update(theta, todo).inverse
        todo &= state.unsolved()
        if todo.any():
            state.update(prox_step(task, theta, inverse), todo)
        warm = True
        if taken == config.COMPARING_SWEEPS:  # further sweeps hardly reduce a gap that is still large
            slow |= state.unsolved() & (state.bounds.gap > config.FAR_GAP * state.limits())


def _slow_groups(task: SolverTask) -> BoolArray:
    """(G,): groups in which most covariances exceed their thresholds in most classes, where ADMM is faster.

    Their column subproblems take about a hundred passes. For penalties with exact equalities the limit is twice the
    threshold, because ADMM needs more iterations the closer the covariances are to it.
    """
    system, penalty = task.system, task.penalty
    if system.size.max(initial=0) < config.DENSE_BLOCK:
        return np.zeros(system.n_groups, dtype=bool)
    factor = system.entry_factor if len(system.pair_factor) else 1.0
    limit = (2.0 if penalty.homogeneous else 1.0) * penalty.threshold(0)
    above = (np.abs(system.weigh(system.gather(system.S))) > limit * factor).astype(float)
    return dense_groups(system, 2.0 * system.sum_per_pair(above) > np.diff(system.pair_start))


def prox_step(task: SolverTask, theta: FloatArray, W: FloatArray) -> FloatArray:
    """One proximal step from `theta`, W being close to its inverse; gives exact zeros and exactly equal values."""
    system = task.system
    upper = system.upper
    products = system.products_of_members(W[system.diagonal], np.ones(system.n_blocks))
    curvature = system.weigh(products + W[upper] ** 2)
    linear = curvature * theta[upper] + system.weigh(W[upper] - system.S[upper])
    entries = task.penalty.update(curvature, linear, system.entries(task.penalty))
    diagonal, fused = theta[system.diagonal], FusedDiagonal.of(system, task.penalty)
    if fused is not None:
        variance, weight = W[system.diagonal], system.block_weight[system.diagonal_block]
        slope = weight * (variance - system.optimal_variance(task.diagonal_penalty))
        diagonal = fused.update(weight * variance**2, weight * variance**2 * diagonal + slope)
    return system.scatter(entries, diagonal)


def _step_on_face(state: _BestPoints, group: int, max_iter: int = config.TINY_STEPS) -> str:
    """Newton's method on one group, close to its solution; the reason of its end."""
    subtask, positions = extract_group(state.task, state.theta, group, state.limits(), state.task.max_iter)
    blocks = state.task.system.block_group == group
    start = state.bounds.of_group(group, blocks, positions)
    limit = config.ADMM_WORK if state.task.memory_for_admm else np.inf
    newton, taken, reason = improve(
        replace(subtask, warm=True), subtask.start, bounds=start, max_iter=max_iter, work_limit=limit
    )
    state.update_group(group, positions, newton.theta, newton.final_bounds())
    state.n_iter += taken
    return reason


def sweep_large_group(task: SolverTask, name: str) -> SolverResult:
    """Column sweeps and Newton's method on the only group of a task."""
    state, reason = _BestPoints(task), "max_iter"
    if state.unsolved()[0]:
        _sweep_big(state, 0)
    if state.unsolved()[0] and state.n_iter < task.max_iter:
        reason = _step_on_face(state, 0, task.max_iter - state.n_iter)
    bounds = state.bounds if np.isfinite(state.bounds.gap[0]) else task.bounds(state.theta, scale_to_feasible=True)
    reason = reason if task.unsolved(bounds)[0] else "tolerance"
    return SolverResult(state.theta, bounds, state.n_iter, reason, [name] if state.n_iter else list(state.methods))


def _sweep_big(state: _BestPoints, group: int) -> None:
    """Column sweeps over a large group until its gap is within its limit or stagnates."""
    task = state.task
    subtask, positions = extract_group(task, state.theta, group, state.limits(), task.max_iter)
    known = state.bounds.of_group(group, task.system.block_group == group, positions).inverse if task.warm else None
    ascent = ColumnAscent.begin(subtask, subtask.start, known)
    idle, threshold, checked = 0, config.FIRST_GAP_CHECK * subtask.tol, False
    for _ in range(min(config.COMPARING_MOST, task.max_iter)):
        ascent.sweep()
        state.n_iter, checked = state.n_iter + 1, False
        if task.report(state.bounds.total_objective, None) or not np.isfinite(ascent.change):
            break
        converged = ascent.change <= config.ROUNDING_CHANGE
        if ascent.gap_estimate > threshold and not converged:
            subtask.keep(ascent.theta)
            continue
        checked = True
        before, theta = state.bounds.gap[group], ascent.theta()
        bounds = subtask.bounds(theta)
        threshold = next_gap_check(ascent.gap_estimate, subtask.tol, float(bounds.gap[0]))
        state.update_group(group, positions, theta, bounds)
        state.methods[group] = "columns"
        if state.bounds.gap[group] > subtask.tol and (converged or not state.bounds.gap[group] < before):
            theta = prox_step(subtask, theta, ascent.W.astype(np.float64))
            state.update_group(group, positions, theta, subtask.bounds(theta))
        idle = 0 if state.bounds.gap[group] < before else idle + 1
        if state.bounds.gap[group] > subtask.tol and (converged or idle == 1):
            _step_on_face(state, group)
        if state.bounds.gap[group] <= subtask.tol or converged or idle == config.IDLE_GAP_CHECKS:
            return
    if not checked and np.isfinite(ascent.change):  # stopped early: the last sweeps count
        theta = ascent.theta()
        state.update_group(group, positions, theta, subtask.bounds(theta))
