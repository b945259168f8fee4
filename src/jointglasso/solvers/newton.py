"""Proximal Newton (QUIC for K classes), with the closed form on forests before it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from jointglasso._typing import BoolArray, FloatArray, IntArray
from jointglasso.blocks import BlockSystem
from jointglasso.solvers.admm import ADMM
from jointglasso.solvers.base import SolverResult, SolverTask
from jointglasso.solvers.big_newton import solve_big_group
from jointglasso.solvers.closed_form import forest_solution

#: Relative gap down to which a failure of Newton's method is not the fault of rounding.
_HOPE = 1e-10

#: Iterations of the compiled method, which has no damping, before a group is handed to the other one.
FEW_ITERATIONS = 25

#: Groups of blocks up to this size are solved by compiled code from end to end.
SMALL_BLOCK = 48


@dataclass(frozen=True)
class Newton:
    """Proximal Newton method.

    Parameters
    ----------
    closed_form : bool, default False
        Take the closed form where the class graphs of a group are forests, and start the other groups from it.
    """

    closed_form: bool = False

    default_max_iter = 100
    include_isolated = False
    lockstep = False

    @property
    def name(self) -> str:
        """Name by which `solve` knows the method."""
        return "auto" if self.closed_form else "newton"

    def solve(self, task: SolverTask) -> SolverResult:
        """Closed form first, if wanted; then Newton on every group whose gap is still too wide."""
        theta, methods = self._begin(task)
        if task.system.n_groups == 1 and task.system.size.max() > SMALL_BLOCK:
            theta, bounds, n_iter, stopped_by = solve_big_group(task, theta)
            return SolverResult(theta, bounds, n_iter, stopped_by, ["newton"] if n_iter else list(methods))
        bounds = task.bounds(theta)
        todo = task.unsolved(bounds)
        n_iter, before = 0, np.full(task.system.n_groups, np.inf)
        # Once as a rule; again only where the objective fell so far in size that the limits did, too.
        while n_iter < task.max_iter and (todo & (task.limits(bounds) < before)).any():
            before = task.limits(bounds)
            n_iter += _newton_on_groups(task, theta, todo, before, task.max_iter - n_iter)
            methods[todo] = "newton"
            bounds = task.bounds(theta, rescue=True)
            todo = task.unsolved(bounds)
        desperate = todo & (bounds.gap > _HOPE * (1.0 + np.abs(bounds.objective)))
        cut_short = n_iter >= task.max_iter and task.max_iter < self.default_max_iter
        if desperate.any() and self.closed_form and not cut_short:
            _admm_on_groups(task, theta, desperate, task.limits(bounds))
            methods[desperate] = "admm"
            bounds = task.bounds(theta, rescue=True)
        task.report(bounds.total_objective, bounds.total_gap)
        if not task.unsolved(bounds).any():
            stopped_by = "tolerance"
        else:
            stopped_by = "max_iter" if n_iter >= task.max_iter else "rounding"
        return SolverResult(theta, bounds, n_iter, stopped_by, list(methods))

    def _begin(self, task: SolverTask) -> tuple[FloatArray, IntArray]:
        """Theta to begin with, and how each group would be solved if that already were the solution."""
        system = task.system
        start_name = "warm start" if task.warm else "closed form" if self.closed_form else "start"
        methods = np.full(system.n_groups, start_name, dtype=object)
        if not self.closed_form:
            return task.start.copy(), methods
        theta, forest = forest_solution(system, task.penalty, task.diagonal_penalty)
        if task.warm:
            keep = np.repeat(~forest[system.block_group], system.size**2)
            theta[keep] = task.start[keep]
        methods[forest] = "closed form"
        return theta, methods


def _newton_on_groups(task: SolverTask, theta: FloatArray, todo: BoolArray, limits: FloatArray, max_iter: int) -> int:
    """Improve `theta` in place on the groups in `todo`; the most iterations any took."""
    system = task.system
    largest = np.zeros(system.n_groups, dtype=np.int64)
    np.maximum.at(largest, system.block_group, system.size)
    small = todo & (largest <= SMALL_BLOCK)
    taken = 0
    if small.any():
        taken = newton_on_small_groups(task, theta, small, limits, min(max_iter, FEW_ITERATIONS))
        # Badly conditioned groups that want more get the damped method.
        small &= task.bounds(theta).gap <= limits
    for group in np.flatnonzero(todo & ~small):
        alone, inside = _alone(task, theta, int(group), limits, max_iter)
        theta[inside], _, n_iter, _ = solve_big_group(alone, alone.start)
        taken = max(taken, n_iter)
    return taken


def _alone(
    task: SolverTask, theta: FloatArray, group: int, limits: FloatArray, max_iter: int
) -> tuple[SolverTask, IntArray]:
    """One group as a task of its own, with an absolute limit on its gap, and where its blocks are."""
    system, inside = task.system.only_group(group)
    alone = replace(
        task, system=system, start=theta[inside], share=np.ones(1), tol=float(limits[group]), rest=0.0,
        max_iter=max_iter, absolute=True, report=lambda objective, gap: False, keep=lambda theta: None,
    )  # fmt: skip
    return alone, inside


def _admm_on_groups(task: SolverTask, theta: FloatArray, todo: BoolArray, limits: FloatArray) -> None:
    """Last resort for groups so badly conditioned that Newton's model holds nowhere: slow but sure."""
    method = ADMM()
    for group in np.flatnonzero(todo):
        alone, inside = _alone(task, theta, int(group), limits, method.default_max_iter)
        result = method.solve(alone)
        if result.bounds.total_gap < task.bounds(theta).gap[group]:
            theta[inside] = result.theta


def newton_on_small_groups(
    task: SolverTask, theta: FloatArray, todo: BoolArray, limits: FloatArray, max_iter: int
) -> int:
    """Run the compiled solver on the groups in `todo`, improving `theta` in place; the most iterations any took."""
    from jointglasso.kernels.newton import solve_groups

    system, penalty = task.system, task.penalty
    block_start, group_blocks = _by_group(system.block_group, system.n_groups)
    pair_start, group_pairs = _by_group(system.pair_group, system.n_groups)
    row, column = _entry_slots(system)
    iterations, _ = solve_groups(
        block_start,
        group_blocks,
        pair_start,
        group_pairs,
        system.pair_start,
        system.pair_factor,
        system.upper,
        system.entry_block,
        row,
        column,
        system.offset,
        system.size,
        system.block_weight,
        system.S,
        theta,
        todo,
        limits,
        max_iter,
        penalty.lambda1,
        penalty.lambda2,
        task.diagonal_penalty,
    )
    return int(iterations.max(initial=0))


def _by_group(group: IntArray, n_groups: int) -> tuple[IntArray, IntArray]:
    """CSR lists of the items of each group."""
    order = np.argsort(group, kind="stable")
    return np.searchsorted(group[order], np.arange(n_groups + 1)), order


def _entry_slots(system: BlockSystem) -> tuple[IntArray, IntArray]:
    """Row and column of each entry within its block."""
    row, column = system.entry_members()
    first = system.member_start[system.entry_block]
    return row - first, column - first
