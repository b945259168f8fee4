"""Proximal Newton method (QUIC for K classes) on all groups of a system."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from jointglasso import config
from jointglasso._typing import BoolArray, FloatArray
from jointglasso.duality import DualityGap
from jointglasso.solvers.base import SolverResult, SolverTask
from jointglasso.solvers.big_newton import solve_big_group
from jointglasso.solvers.small_groups import extract_group, extract_groups

#: ``improve(theta, bounds, todo, n_iter)``: improves Theta in place on the groups in `todo`, after `n_iter` iterations;
#: returns the iterations taken and the new bounds.
Improve = Callable[[FloatArray, DualityGap, BoolArray, int], tuple[int, DualityGap]]


@dataclass(frozen=True)
class Newton:
    """Proximal Newton method; `solver="auto"` uses it after methods that are faster far from the solution.

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
        """Newton's method on every group whose gap exceeds its limit."""
        methods = np.full(task.system.n_groups, "warm start" if task.warm else "start", dtype=object)
        if task.system.n_groups == 1:
            theta, bounds, n_iter, stopped_by = solve_big_group(task, task.start.copy())
            return SolverResult(theta, bounds, n_iter, stopped_by, ["newton"] if n_iter else list(methods))

        def improve(theta: FloatArray, bounds: DualityGap, todo: BoolArray, n_iter: int) -> tuple[int, DualityGap]:
            methods[todo] = "newton"
            taken = newton_on_groups(task, theta, todo, task.limits(bounds), task.max_iter - n_iter)
            return taken, task.bounds(theta, scale_to_feasible=True)

        return improve_to_limits(task, task.start.copy(), methods, improve)


def improve_to_limits(
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


def newton_on_groups(
    task: SolverTask,
    theta: FloatArray,
    todo: BoolArray,
    limits: FloatArray,
    max_iter: int,
    *,
    work_limit: float = np.inf,
    sweeps: BoolArray | bool = False,
) -> int:
    """Newton's method on the groups in `todo`, improving `theta` in place; return the maximal number of iterations.

    Small groups are merged into one task, and solved one by one only if their gap remains too large. Groups marked in
    `sweeps` start with column sweeps; groups that exceed `work_limit` are not finished.
    """
    sweeps = np.broadcast_to(sweeps, todo.shape)
    small = np.flatnonzero(todo & ~sweeps & (task.system.largest_block <= config.LARGE))
    taken = 0
    if len(small) > 1:
        subtask, positions = extract_groups(task, theta, small, limits, max_iter)
        theta[positions], _, taken, _ = solve_big_group(subtask, subtask.start, work_limit=work_limit)
        todo = todo & ~(task.bounds(theta).gap <= limits)
    max_taken = taken
    for group in np.flatnonzero(todo) if taken < max_iter else ():
        subtask, positions = extract_group(task, theta, int(group), limits, max_iter - taken)
        theta[positions], _, n_iter, _ = solve_big_group(
            subtask, subtask.start, work_limit=work_limit, sweeps=bool(sweeps[group])
        )
        max_taken = max(max_taken, taken + n_iter)
        task.keep(lambda: theta)
    return max_taken
