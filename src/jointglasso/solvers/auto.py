"""The default solver: choice of the method for each group.

Closed form where the class graphs are forests; block coordinate ascent by columns for all others; Newton's method where
its gap is above the limit; ADMM where Newton's method fails or is too expensive, as in densely correlated groups with
unpenalised pairs (weight zero), to which column sweeps do not apply.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from jointglasso import config
from jointglasso._threads import Workers
from jointglasso._typing import BoolArray, FloatArray
from jointglasso.duality import DualityGap, diagonal_bounds
from jointglasso.solvers.admm import ADMM
from jointglasso.solvers.base import SolverResult, SolverTask
from jointglasso.solvers.closed_form import forest_solution, strong_pairs
from jointglasso.solvers.column_ascent import suits_columns
from jointglasso.solvers.newton import Newton, improve
from jointglasso.solvers.small_groups import dense_groups, extract_group, sweep_groups
from jointglasso.solvers.sweeping import solve_by_sweeps, sweep_large_group

#: ``improve(theta, bounds, todo, n_iter)``: improves Theta in place on the groups in `todo`, after `n_iter` iterations;
#: returns the iterations taken and the new bounds.
Improve = Callable[[FloatArray, DualityGap, BoolArray, int], tuple[int, DualityGap]]


@dataclass(frozen=True)
class Auto:
    """Default solver of `solve`."""

    name = "auto"
    default_max_iter = 100
    include_isolated = False
    lockstep = False
    bytes_per_entry = Newton.bytes_per_entry
    requires = frozenset({"prox"})

    def solve(self, task: SolverTask) -> SolverResult:
        """Solve every group; penalties that do not support Newton's method are solved by `solve_by_sweeps`."""
        if "forest" not in task.penalty.supports:
            return solve_by_sweeps(task)
        violates_global = strong_pairs(task.system, task.penalty)
        theta, methods = _begin(task, violates_global)
        dense = dense_groups(task.system, violates_global)
        largest = task.system.size.max(initial=0)
        if task.system.n_groups == 1 and (dense[0] or largest > config.SWEPT_BLOCK):
            return _solve_big(task, theta, methods, bool(dense[0]))
        work = _GroupImprovement(task, methods, dense)
        known = _known_at_start(task, theta, violates_global)
        return _improve_to_limits(task, theta, methods, work.improve, known, _admm_iterations(task))


def _begin(task: SolverTask, violates_global: BoolArray) -> tuple[FloatArray, FloatArray]:
    """Initial Theta, and (G,) the method to report for each group if it is already the solution."""
    system = task.system
    methods = np.full(system.n_groups, "warm start" if task.warm else "closed form", dtype=object)
    if task.absolute:
        return task.start.copy(), methods
    # A start on a spanning forest does not accelerate column sweeps.
    theta, forest = forest_solution(
        system, task.penalty, task.diagonal_penalty, violates_global, task.n_threads, only_forests=suits_columns(task)
    )
    if task.warm:
        keep = np.repeat(~forest[system.block_group], system.size**2)
        theta[keep] = task.start[keep]
    methods[forest] = "closed form"
    return theta, methods


def _known_at_start(task: SolverTask, theta: FloatArray, violates_global: BoolArray) -> DualityGap | None:
    """Bounds of a diagonal start without gaps, if every group has strong pairs and will be improved anyway."""
    system = task.system
    n_strong = system.sum_pairs_per_group(violates_global.astype(float))
    if task.warm or task.absolute or task.max_iter == 0 or not n_strong.all() or system.gather(theta).any():
        return None
    return diagonal_bounds(system, theta, task.penalty, task.diagonal_penalty)


def _solve_big(task: SolverTask, theta: FloatArray, methods: FloatArray, dense: bool) -> SolverResult:
    """One large group: column sweeps and Newton's method, or ADMM where that exceeds its work limit."""
    taken, sweeps = 0, suits_columns(task) and (dense or not task.absolute)
    if sweeps:
        result = sweep_large_group(replace(task, start=theta), "columns, newton")
        if result.stopped_by != "work":
            return result if result.n_iter else replace(result, methods=list(methods))
        theta, taken = result.theta, result.n_iter
    elif not dense:
        limit = config.ADMM_WORK if task.memory_for_admm else np.inf
        state, taken, reason = improve(task, theta, max_iter=task.max_iter, work_limit=limit)
        if reason != "work":
            return SolverResult(
                state.theta, state.final_bounds(), taken, reason, ["newton"] if taken else list(methods)
            )
        theta = state.theta
    n_remaining = _admm_iterations(task) - taken
    result = ADMM().solve(replace(task, start=theta, warm=task.warm or taken > 0, max_iter=n_remaining))
    return replace(result, n_iter=taken + result.n_iter)


@dataclass
class _GroupImprovement:
    """Improvement of small groups by column sweeps, Newton's method and ADMM."""

    task: SolverTask
    methods: FloatArray
    dense: BoolArray

    def improve(self, theta: FloatArray, bounds: DualityGap, todo: BoolArray, n_iter: int) -> tuple[int, DualityGap]:
        """Sweeps, Newton's method, ADMM: each on the groups that the previous method did not solve."""
        task, limits, largest = self.task, self.task.limits(bounds), self.task.system.largest_block
        warm = task.absolute or n_iter > 0
        self.methods[todo] = "columns, newton" if _sweeps_first(task) else "newton"
        for_newton = todo & (suits_columns(task) | ~self.dense)
        taken, after, unsolved = self._sweep(theta, bounds, for_newton, limits, task.max_iter - n_iter, warm)
        n_remaining = task.max_iter - n_iter - taken
        if unsolved.any() and n_remaining > 0:
            sweeps = unsolved & (self.dense | ((largest > config.SWEPT_BLOCK) & (not warm))) & suits_columns(task)
            newton, steps, _ = improve(
                task, theta, max_iter=n_remaining, todo=unsolved & ~sweeps, work_limit=config.ADMM_WORK
            )
            theta[:] = newton.theta
            for group in np.flatnonzero(sweeps):
                subtask, positions = extract_group(task, theta, int(group), limits, n_remaining)
                result = sweep_large_group(subtask, "columns, newton")
                theta[positions], steps = result.theta, max(steps, result.n_iter)
            taken += steps
        task.keep(lambda: theta)
        if unsolved.any() or not np.isfinite(after.gap).all():
            after = task.bounds(theta, scale_to_feasible=True)
        # Groups within `limits` are excluded even if the limits have decreased since; the next round solves them.
        unconverged = ~(after.gap <= limits) & (after.gap > config.ROUNDING_GAP * (task.unit + np.abs(after.objective)))
        cut_short = n_iter + taken >= task.max_iter and task.max_iter < Auto.default_max_iter
        if unconverged.any() and not cut_short:
            taken += _admm_on_groups(
                task, theta, unconverged, task.limits(after), _admm_iterations(task) - n_iter - taken
            )
            self.methods[unconverged] = "admm"
            after = task.bounds(theta, scale_to_feasible=True)
        return taken, after

    def _sweep(
        self, theta: FloatArray, bounds: DualityGap, todo: BoolArray, limits: FloatArray, max_iter: int, warm: bool
    ) -> tuple[int, DualityGap, BoolArray]:
        """Sweep over the columns of small groups, with smaller tolerances until they are within their limits.

        Returns the maximal number of sweeps, the final bounds, and the groups above their limits.
        """
        task, taken = self.task, 0
        if not suits_columns(task):
            return 0, bounds, todo
        swept = todo & (task.system.largest_block <= config.SWEPT_BLOCK) & ~self.dense
        for limit_factor in config.REFINE_FACTORS:
            if not swept.any() or taken >= max_iter:
                break
            before, inverse = theta.copy(), bounds.inverse if warm else np.empty(0)
            n_sweeps = min(max_iter - taken, config.FEW_SWEEPS)
            taken += sweep_groups(task, theta, inverse, swept, limit_factor * limits, n_sweeps)
            after = task.bounds(theta)
            todo = todo & ~(after.gap <= limits)
            # Badly conditioned groups are reset to the previous point if it was better.
            worse = todo & swept & ~(after.objective <= bounds.objective)
            restored = np.repeat(worse[task.system.block_group], task.system.size**2)
            theta[restored] = before[restored]
            bounds, warm, swept = after, True, swept & todo & ~worse
        return taken, bounds, todo


def _improve_to_limits(
    task: SolverTask,
    theta: FloatArray,
    methods: FloatArray,
    improve: Improve,
    bounds: DualityGap | None = None,
    max_iter: int | None = None,
) -> SolverResult:
    """Improve the groups whose gap exceeds its limit, usually once.

    Repeated only if the limits, which are relative to the objective, have decreased with it, and up to `max_iter`
    iterations (default: the limit of the task).
    """
    max_iter = task.max_iter if max_iter is None else max_iter
    if bounds is None:
        bounds = task.bounds(theta) if task.known is None or not task.absolute else task.known
    n_iter, before, todo = 0, np.full(task.system.n_groups, np.inf), task.unsolved(bounds)
    while n_iter < max_iter and (todo & (task.limits(bounds) < before)).any():
        before = task.limits(bounds)
        taken, bounds = improve(theta, bounds, todo, n_iter)
        n_iter += taken
        todo = task.unsolved(bounds)
    task.report(bounds.total_objective, bounds.total_gap)
    stopped_by = "max_iter" if n_iter >= max_iter else "rounding"
    return SolverResult(theta, bounds, n_iter, stopped_by if todo.any() else "tolerance", list(methods))


def _admm_on_groups(task: SolverTask, theta: FloatArray, todo: BoolArray, limits: FloatArray, max_iter: int) -> int:
    """Improve `theta` in place by ADMM on the groups in `todo`; return the maximal number of iterations.

    The last resort: slow, but reliable in groups so badly conditioned that Newton's quadratic model is useless.
    """
    groups = np.flatnonzero(todo)
    n_threads = task.n_threads if len(groups) == 1 else 1

    def solve(group: int) -> int:
        subtask, positions = extract_group(task, theta, group, limits, max_iter)
        result = ADMM().solve(replace(subtask, n_threads=n_threads))
        theta[positions] = result.theta  # never worse than the start
        task.keep(lambda: theta)
        return result.n_iter

    # Several groups share the cores; a single group uses all of them.
    workers = Workers(task.n_threads if len(groups) > 1 else 1)
    return max(workers.map(solve, [int(group) for group in groups]))


def _admm_iterations(task: SolverTask) -> int:
    """Iteration limit of ADMM: its own default, which is larger, unless the caller lowered the limit."""
    return ADMM.default_max_iter if task.max_iter >= Auto.default_max_iter else task.max_iter


def _sweeps_first(task: SolverTask) -> bool:
    """Whether column sweeps precede Newton's method; not in a refinement to an absolute gap."""
    return suits_columns(task) and not task.absolute
