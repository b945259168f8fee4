"""Solving all groups of one partition, one piece of work after another or several at a time."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from jointglasso._threads import single_threaded_blas
from jointglasso._typing import FloatArray, IntArray
from jointglasso.blocks import BlockSystem, build_system
from jointglasso.blocks.system import SpentBudget
from jointglasso.certificate import bound_groups
from jointglasso.engine.assemble import flat_from_precisions
from jointglasso.engine.plan import gap_limits, start_objectives, work_items
from jointglasso.engine.progress import Progress
from jointglasso.problem import JointProblem
from jointglasso.screening.groups import ClassBlocks
from jointglasso.solution import Callback
from jointglasso.solvers import GroupSolver, SolverResult, SolverTask
from jointglasso.solvers.base import diagonal_start
from jointglasso.validation import indefinite_start, is_semidefinite, no_minimum, not_semidefinite


@dataclass(frozen=True)
class Options:
    """How to solve: everything that does not change the problem."""

    method: GroupSolver
    tol: float
    max_iter: int
    n_jobs: int | None
    callback: Callback | None
    return_on_interrupt: bool

    def allowed_gap(self, objective: float) -> float:
        """Gap allowed to the whole problem: `tol` is relative to its objective."""
        return self.tol * max(1.0, abs(objective))


@dataclass(frozen=True)
class Outcome:
    """One piece of work, solved as far as it was."""

    system: BlockSystem
    result: SolverResult


class GroupRunner:
    """Solves the groups of one partition; `settled` is the objective of what is solved in closed form outside them."""

    def __init__(
        self,
        problem: JointProblem,
        blocks: ClassBlocks,
        settled: float,
        options: Options,
        spent: SpentBudget | None,
        warm_start: Sequence[Any] | None,
    ) -> None:
        self.problem, self.blocks, self.settled, self.options = problem, blocks, settled, options
        self.spent, self.warm_start = spent, warm_start
        self.covariance_seconds = 0.0
        self.items = work_items(blocks, together=options.method.lockstep, n_batches=options.n_jobs or 1)
        starts = start_objectives(problem, blocks)
        self.start_objective = settled + float(starts.sum())
        item_starts = [float(starts[item].sum()) for item in self.items]
        cost = np.bincount(blocks.group, blocks.sizes.astype(float) ** 3, minlength=blocks.n_groups)
        item_costs = [float(cost[item].sum()) for item in self.items]
        item_groups = [len(item) for item in self.items]
        self.progress = Progress(settled, item_starts, item_groups, item_costs, options.callback)

    def run(self) -> list[Outcome]:
        """Solve all groups until their gaps add up to no more than the whole problem allows."""
        allowed = self.options.allowed_gap(self.start_objective)
        outcomes = self._run_items(allowed, [None] * len(self.items))
        for _ in range(3):
            objective = self.settled + math.fsum(o.result.bounds.total_objective for o in outcomes)
            gap = math.fsum(o.result.bounds.total_gap for o in outcomes)
            wanted = self.options.allowed_gap(objective)
            if gap <= wanted or allowed <= wanted or any(o.result.stopped_by != "tolerance" for o in outcomes):
                break
            # The objective at the start, which set the limits, was larger than the optimum turned out to be.
            allowed = wanted
            outcomes = self._run_items(allowed, [o.result.theta for o in outcomes])
        return outcomes

    def _run_items(self, allowed: float, starts: Sequence[FloatArray | None]) -> list[Outcome]:
        limits = gap_limits(self.blocks, allowed)
        jobs = self.options.n_jobs or 1
        numbers = range(len(self.items))
        if jobs == 1 or len(self.items) == 1:
            return [self._run_item(n, limits, starts[n]) for n in numbers]
        # One BLAS thread per worker: the workers themselves keep the cores busy.
        with single_threaded_blas(), ThreadPoolExecutor(jobs) as pool:
            futures = [pool.submit(self._run_item, n, limits, starts[n]) for n in numbers]
            try:
                return [future.result() for future in futures]
            except KeyboardInterrupt:
                self.progress.request_stop()
                if not self.options.return_on_interrupt:
                    raise
                return [future.result() for future in futures]

    def _run_item(self, number: int, limits: FloatArray, start: FloatArray | None) -> Outcome:
        groups = self.items[number]
        began = time.perf_counter()
        system = build_system(self.problem.source, self.blocks.select(groups), self.problem.weights, self.spent)
        require_solvable(self.problem, system)
        self.covariance_seconds += time.perf_counter() - began
        task = self._task(number, system, limits[groups], start)
        if self.progress.stop:
            return Outcome(system, _unsolved(task))
        try:
            result = self.options.method.solve(task)
        except KeyboardInterrupt:
            self.progress.request_stop()
            if not self.options.return_on_interrupt:
                raise
            result = _unsolved(task)
        self.progress.finish(number)
        return Outcome(system, result)

    def _task(self, number: int, system: BlockSystem, limits: FloatArray, start: FloatArray | None) -> SolverTask:
        problem = self.problem
        warm = start is not None or self.warm_start is not None
        if start is None and self.warm_start is not None:
            start = flat_from_precisions(system, self.warm_start, problem.source.n_variables)
            require_definite_start(problem, system, start)
        elif start is None:
            start = diagonal_start(system, problem.diagonal_penalty)
        return SolverTask(
            system=system,
            penalty=problem.penalty,
            diagonal_penalty=problem.diagonal_penalty,
            gap_limit=limits,
            max_iter=self.options.max_iter,
            start=start,
            warm=warm,
            report=lambda objective, gap: self.progress.report(number, objective, gap),
        )


def _unsolved(task: SolverTask) -> SolverResult:
    """What is left when a piece of work is interrupted: its start, with an honest bound."""
    bounds = bound_groups(task.system, task.start, task.penalty, task.diagonal_penalty, rescue=True)
    return SolverResult(task.start, bounds, 0, "interrupt", ["unsolved"] * task.system.n_groups)


def require_solvable(problem: JointProblem, system: BlockSystem) -> None:
    """Refuse blocks whose S is not a covariance matrix, and unpenalised problems without a minimum."""
    from jointglasso.kernels.small_blocks import factor_and_invert

    unpenalised = problem.penalty.lambda1 == 0 and problem.penalty.lambda2 == 0
    names = problem.source.class_names
    for blocks, (stack,) in system.stacks(system.S):
        suspects: IntArray = np.arange(len(stack))
        if not unpenalised and stack.shape[1] <= 64:
            shifted = stack + 1e-8 * np.einsum("mii->m", stack)[:, None, None] * np.eye(stack.shape[1])
            suspects = np.flatnonzero(~factor_and_invert(shifted)[2])
        for m in suspects:
            name = names[system.block_class[blocks.start + m]]
            if not is_semidefinite(stack[m]):
                raise not_semidefinite(name, f"in a block of {stack.shape[1]} of its variables")
            if unpenalised and np.linalg.matrix_rank(stack[m], hermitian=True) < stack.shape[1]:
                raise no_minimum(name)


def require_definite_start(problem: JointProblem, system: BlockSystem, start: FloatArray) -> None:
    """Refuse a warm start that is not positive definite."""
    from jointglasso.blocks.linalg import factorize

    bad = np.flatnonzero(~factorize(system, start).definite)
    if len(bad):
        raise indefinite_start(problem.source.class_names[system.block_class[bad[0]]])
