"""Proximal Newton (QUIC for K classes), with the closed form on forests before it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from jointglasso._typing import BoolArray, FloatArray, IntArray
from jointglasso.blocks import BlockSystem
from jointglasso.solvers.base import SolverResult, SolverTask
from jointglasso.solvers.big_newton import solve_big_group
from jointglasso.solvers.closed_form import forest_solution

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
        if task.system.size.max(initial=0) > SMALL_BLOCK and task.system.n_groups == 1:
            theta, bounds, n_iter, stopped_by = solve_big_group(task, theta)
            return SolverResult(theta, bounds, n_iter, stopped_by, ["newton"] if n_iter else list(methods))
        bounds = task.bounds(theta)
        todo = task.unsolved(bounds)
        n_iter = 0
        while todo.any() and n_iter < task.max_iter:
            # Once as a rule; again only where the objective fell so far in size that the limits did, too.
            taken = newton_on_small_groups(task, theta, todo, task.limits(bounds), task.max_iter - n_iter)
            methods[todo] = "newton"
            bounds = task.bounds(theta, rescue=True)
            todo = task.unsolved(bounds)
            n_iter += taken
            if taken == 0:
                break
        task.report(bounds.total_objective, bounds.total_gap)
        if not task.unsolved(bounds).any():
            stopped_by = "tolerance"
        else:
            stopped_by = "max_iter" if n_iter >= task.max_iter else "rounding"
        return SolverResult(theta, bounds, n_iter, stopped_by, list(methods))

    def _begin(self, task: SolverTask) -> tuple[FloatArray, IntArray]:
        """Theta to begin with, and how each group would be solved if that already were the solution."""
        system = task.system
        methods = np.full(system.n_groups, "warm start" if task.warm else "start", dtype=object)
        if not self.closed_form:
            return task.start.copy(), methods
        theta, forest = forest_solution(system, task.penalty, task.diagonal_penalty)
        if task.warm:
            keep = np.repeat(~forest[system.block_group], system.size**2)
            theta[keep] = task.start[keep]
        methods[forest] = "closed form"
        return theta, methods


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
