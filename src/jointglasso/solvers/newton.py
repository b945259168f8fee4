"""Proximal Newton (QUIC for K classes), with the closed form on forests and sweeps over the columns before it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from jointglasso._threads import Workers
from jointglasso._typing import BoolArray, FloatArray, IntArray
from jointglasso.blocks import BlockSystem
from jointglasso.certificate import Bounds
from jointglasso.solvers.admm import ADMM
from jointglasso.solvers.base import SolverResult, SolverTask
from jointglasso.solvers.big_newton import solve_big_group
from jointglasso.solvers.closed_form import forest_solution, strong_pairs
from jointglasso.solvers.columns import suits_columns
from jointglasso.solvers.small_groups import SWEPT_BLOCK, alone, by_group, hands, sweep_groups
from jointglasso.solvers.sweeping import solve_by_sweeps

#: Relative gap down to which a failure of Newton's method is not the fault of rounding.
_HOPE = 1e-10

#: Sweeps, and iterations of the compiled method, which has no damping, before a group is handed to the other one.
FEW_ITERATIONS = 25

#: Groups of blocks up to this size are solved by compiled code from end to end.
SMALL_BLOCK = 48

#: Groups with a block of at least this size, and at least this share of strong pairs, count as correlated throughout.
DENSE_BLOCK, DENSE_SHARE = 24, 0.5

#: Work of Newton's products, in cubed block sizes, at which ADMM would have been half done.
ADMM_WORK = 1200.0


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
    bytes_per_entry = 135.0

    @property
    def name(self) -> str:
        """Name by which `solve` knows the method."""
        return "auto" if self.closed_form else "newton"

    @property
    def requires(self) -> frozenset[str]:
        """What a penalty must offer: with the closed form, sweeps or ADMM can stand in for Newton's method."""
        return frozenset({"prox"} if self.closed_form else {"newton"})

    def solve(self, task: SolverTask) -> SolverResult:
        """Closed form first, if wanted; then Newton on every group whose gap is still too wide.

        Where the penalty is none that Newton's method knows, sweeps over the columns do it all.
        """
        if "newton" not in task.penalty.offers:
            return solve_by_sweeps(task)
        strong = strong_pairs(task.system, task.penalty) if self.closed_form else np.zeros(0, dtype=bool)
        theta, methods = self._begin(task, strong)
        if task.system.n_groups == 1 and task.system.size.max() > (SWEPT_BLOCK if task.absolute else SMALL_BLOCK):
            return self._solve_one(task, theta, methods, strong)
        bounds = task.bounds(theta) if task.known is None or not task.absolute else task.known
        todo = task.unsolved(bounds)
        n_iter, before = 0, np.full(task.system.n_groups, np.inf)
        # Once as a rule; again only where the objective fell so far in size that the limits did, too.
        while n_iter < task.max_iter and (todo & (task.limits(bounds) < before)).any():
            before = task.limits(bounds)
            dense = _dense_groups(task.system, strong) if self.closed_form else None
            near = task.absolute or n_iter > 0
            taken, found = _improve_groups(task, theta, bounds, near, todo, before, task.max_iter - n_iter, dense)
            n_iter += taken
            methods[todo] = "columns, newton" if self.closed_form and _starts_anew(task) else "newton"
            task.keep(lambda: theta)
            bounds = task.bounds(theta, rescue=True) if found is None else found
            todo = task.unsolved(bounds)
            desperate = todo & (bounds.gap > _HOPE * (task.unit + np.abs(bounds.objective)))
            cut_short = n_iter >= task.max_iter and task.max_iter < self.default_max_iter
            if desperate.any() and self.closed_form and not cut_short:
                left = self._admm_iterations(task) - n_iter
                n_iter += _admm_on_groups(task, theta, desperate, task.limits(bounds), left)
                methods[desperate] = "admm"
                bounds = task.bounds(theta, rescue=True)
                todo = task.unsolved(bounds)
        task.report(bounds.total_objective, bounds.total_gap)
        if not task.unsolved(bounds).any():
            stopped_by = "tolerance"
        else:
            stopped_by = "max_iter" if n_iter >= task.max_iter else "rounding"
        return SolverResult(theta, bounds, n_iter, stopped_by, list(methods))

    def _solve_one(self, task: SolverTask, theta: FloatArray, methods: IntArray, strong: BoolArray) -> SolverResult:
        """One group with a big block: sweeps and Newton, or ADMM where Newton finds it hard."""
        if not self.closed_form:
            theta, bounds, n_iter, stopped_by = solve_big_group(task, theta)
            return SolverResult(theta, bounds, n_iter, stopped_by, ["newton"] if n_iter else list(methods))
        taken = 0
        dense = _dense_groups(task.system, strong)[0]
        sweeps = suits_columns(task) and (dense or not task.absolute)
        if sweeps or not dense:
            limit = ADMM_WORK if task.room_for_admm else np.inf
            theta, bounds, taken, stopped_by = solve_big_group(
                task, theta, work_limit=limit, sweeps=sweeps, strong=strong
            )
            if stopped_by != "work":
                name = "columns, newton" if sweeps else "newton"
                return SolverResult(theta, bounds, taken, stopped_by, [name] if taken else list(methods))
        result = ADMM().solve(
            replace(task, start=theta, warm=task.warm or taken > 0, max_iter=self._admm_iterations(task) - taken)
        )
        return replace(result, n_iter=taken + result.n_iter)

    def _admm_iterations(self, task: SolverTask) -> int:
        """Iterations of ADMM are many and cheap: a limit that the caller left alone is not meant for them."""
        return ADMM.default_max_iter if task.max_iter >= self.default_max_iter else task.max_iter

    def _begin(self, task: SolverTask, strong: BoolArray) -> tuple[FloatArray, IntArray]:
        """Theta to begin with, and how each group would be solved if that already were the solution."""
        system = task.system
        start_name = "warm start" if task.warm else "closed form" if self.closed_form else "start"
        methods = np.full(system.n_groups, start_name, dtype=object)
        if not self.closed_form or task.absolute:
            return task.start.copy(), methods
        # In small groups, sweeps over the columns gain nothing from a start on a spanning forest.
        swept = _starts_anew(task) and system.size.max(initial=0) <= SMALL_BLOCK
        theta, forest = forest_solution(
            system, task.penalty, task.diagonal_penalty, strong, task.n_threads, only_forests=swept
        )
        if task.warm:
            keep = np.repeat(~forest[system.block_group], system.size**2)
            theta[keep] = task.start[keep]
        methods[forest] = "closed form"
        return theta, methods


def _dense_groups(system: BlockSystem, strong: BoolArray) -> BoolArray:
    """Groups of some size most of whose pairs are strong: correlated throughout, with a dense solution.

    There Newton's active set is everything and its faces change all the time. Sweeps over the columns, which step on a
    face of one column at a time, do not mind; where they cannot be made, and in small groups, the few dozen
    eigendecompositions of ADMM cost less.
    """
    if system.size.max(initial=0) < DENSE_BLOCK:
        return np.zeros(system.n_groups, dtype=bool)
    n_pairs = system.sum_pairs_per_group(np.ones(system.n_pairs))
    share = system.sum_pairs_per_group(strong.astype(float)) / np.maximum(n_pairs, 1.0)
    largest = np.zeros(system.n_groups, dtype=np.int64)
    np.maximum.at(largest, system.block_group, system.size)
    return np.asarray((share > DENSE_SHARE) & (largest >= DENSE_BLOCK))


def _improve_groups(
    task: SolverTask,
    theta: FloatArray,
    bounds: Bounds,
    near: bool,
    todo: BoolArray,
    limits: FloatArray,
    max_iter: int,
    dense: BoolArray | None,
) -> tuple[int, Bounds | None]:
    """Improve `theta`, of which `bounds` are known, in place on the groups in `todo`.

    The most iterations any took, and the bounds in the end, where they are known. `near` tells that it is near the
    solution. If it is known which groups are `dense`, sweeps over the columns come first, and groups that cost ADMM
    less are left unfinished.
    """
    system = task.system
    largest = np.zeros(system.n_groups, dtype=np.int64)
    np.maximum.at(largest, system.block_group, system.size)
    limited = dense is not None
    if dense is None:
        dense = np.zeros_like(todo)
    sweeps = limited and suits_columns(task)
    todo = todo & ~(dense & (largest <= SMALL_BLOCK)) if sweeps else todo & ~dense
    small = todo & (largest <= SMALL_BLOCK)
    # A sharper solution of a small group is one or two steps of Newton's method away.
    swept = todo & (largest <= SWEPT_BLOCK) & ~dense & ~(small & near) if sweeps else np.zeros_like(todo)
    taken, before, found = 0, theta.copy(), None
    if swept.any():
        inverse = bounds.inverse if near else np.empty(0)
        taken = sweep_groups(task, theta, inverse, swept, limits, min(max_iter, FEW_ITERATIONS))
    if small.any():
        taken += newton_on_small_groups(task, theta, small, limits, min(max_iter - taken, FEW_ITERATIONS))
    if (swept | small).any():
        after = task.bounds(theta)
        # Badly conditioned groups that want more get the damped method, from where they were if that was better.
        todo = todo & (after.gap > limits)
        worse = todo & swept & (after.objective > bounds.objective)
        back = np.repeat(worse[system.block_group], system.size**2)
        theta[back] = before[back]
        if not todo.any() and np.isfinite(after.gap).all():
            found = after
    most = taken
    for group in np.flatnonzero(todo) if taken < max_iter else ():
        piece, inside = alone(task, theta, int(group), limits, max_iter - taken)
        work_limit = ADMM_WORK if limited else np.inf
        theta[inside], _, n_iter, _ = solve_big_group(
            piece, piece.start, work_limit=work_limit, sweeps=sweeps and (dense[group] or not (swept[group] or near))
        )
        most = max(most, taken + n_iter)
        task.keep(lambda: theta)
    return most, found


def _admm_on_groups(task: SolverTask, theta: FloatArray, todo: BoolArray, limits: FloatArray, max_iter: int) -> int:
    """Improve `theta` in place on dense groups and on those that Newton left unfinished; the most iterations any took.

    Also the last resort for groups so badly conditioned that Newton's model holds nowhere: sure, if slow.
    """
    groups = np.flatnonzero(todo)
    n_threads = task.n_threads if len(groups) == 1 else 1

    def solve(group: int) -> int:
        piece, inside = alone(task, theta, group, limits, max_iter)
        result = ADMM().solve(replace(piece, n_threads=n_threads))
        theta[inside] = result.theta  # never worse than the start
        task.keep(lambda: theta)
        return result.n_iter

    # Several groups share the cores between them; one has them all to itself.
    workers = Workers(task.n_threads if len(groups) > 1 else 1)
    return max(workers.map(solve, [int(group) for group in groups]))


def _starts_anew(task: SolverTask) -> bool:
    """Whether groups are far enough from their gap to be worth sweeps over their columns before Newton's method."""
    return suits_columns(task) and not task.absolute


def newton_on_small_groups(
    task: SolverTask, theta: FloatArray, todo: BoolArray, limits: FloatArray, max_iter: int
) -> int:
    """Run the compiled solver on the groups in `todo`, improving `theta` in place; the most iterations any took."""
    from jointglasso.kernels.newton import solve_groups

    system, penalty = task.system, task.penalty
    block_start, group_blocks = by_group(system.block_group, system.n_groups)
    pair_start, group_pairs = by_group(system.pair_group, system.n_groups)
    row, column = _entry_slots(system)

    def solve(some: BoolArray) -> int:
        iterations, _ = solve_groups(
            block_start, group_blocks, pair_start, group_pairs, system.pair_start, system.pair_factor, system.upper,
            system.entry_block, row, column, system.offset, system.size, system.block_weight, system.S, theta, some,
            limits, max_iter, penalty.pair, float(task.diagonal_penalty),
        )  # fmt: skip
        return int(iterations.max(initial=0))

    return max(Workers(task.n_threads).map(solve, hands(system, todo, task.n_threads)))


def _entry_slots(system: BlockSystem) -> tuple[IntArray, IntArray]:
    """Row and column of each entry within its block."""
    row, column = system.entry_members()
    first = system.member_start[system.entry_block]
    return row - first, column - first
