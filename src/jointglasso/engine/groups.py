"""Solving all groups of one partition, one piece of work after another or several at a time."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from jointglasso._threads import single_threaded_blas
from jointglasso._typing import FloatArray, IntArray
from jointglasso.blocks import BlockSystem, build_system
from jointglasso.certificate import bound_groups
from jointglasso.engine.assemble import flat_from_precisions
from jointglasso.engine.plan import gap_shares, start_objectives, work_items
from jointglasso.engine.progress import Progress
from jointglasso.problem import JointProblem
from jointglasso.screening.groups import ClassBlocks
from jointglasso.solution import Callback
from jointglasso.solvers import GroupSolver, SolverResult, SolverTask
from jointglasso.solvers.base import diagonal_start
from jointglasso.validation import indefinite_start, no_minimum, not_semidefinite, semidefinite

#: Tells, for pairs of variables i < j, the part of their dual budget used by classes where they are cut.
SpentBudget = Callable[[IntArray, IntArray], FloatArray]


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
    spent: FloatArray
    """(P,): part of the dual budget of each pair used by classes where a dynamic screen cut it."""


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
        self.item_starts = [float(starts[item].sum()) for item in self.items]
        self.shares = gap_shares(blocks)
        self.n_iter = 0
        cost = np.bincount(blocks.group, blocks.sizes.astype(float) ** 3, minlength=blocks.n_groups)
        item_costs = [float(cost[item].sum()) for item in self.items]
        item_groups = [len(item) for item in self.items]
        self.progress = Progress(settled, self.item_starts, item_groups, item_costs, options.callback)

    def run(self) -> list[Outcome]:
        """Solve all groups until their gaps add up to no more than the whole problem allows."""
        rest = [self.start_objective - start for start in self.item_starts]
        outcomes = self._run_items(rest, [None] * len(self.items))
        while len(outcomes) > 1 and self.n_iter < self.options.max_iter:
            objectives = [o.result.bounds.total_objective for o in outcomes]
            objective = self.settled + math.fsum(objectives)
            gap = math.fsum(o.result.bounds.total_gap for o in outcomes)
            allowed = self.options.allowed_gap(objective)
            unfinished = any(o.result.stopped_by != "tolerance" for o in outcomes)
            if gap <= allowed or unfinished or allowed >= self.options.allowed_gap(self.start_objective):
                break
            # The objective at the start, which set the limits, was larger than the optimum turned out to be.
            self.start_objective = objective
            rest = [objective - own for own in objectives]
            outcomes = self._run_items(rest, [o.result.theta for o in outcomes])
        return outcomes

    def _run_items(self, rest: Sequence[float], starts: Sequence[FloatArray | None]) -> list[Outcome]:
        outcomes = self._run_all(rest, starts)
        self.n_iter += max((o.result.n_iter for o in outcomes), default=0)
        return outcomes

    def _run_all(self, rest: Sequence[float], starts: Sequence[FloatArray | None]) -> list[Outcome]:
        jobs = self.options.n_jobs or 1
        numbers = range(len(self.items))
        if jobs == 1 or len(self.items) == 1:
            return [self._run_item(n, rest[n], starts[n]) for n in numbers]
        # One BLAS thread per worker: the workers themselves keep the cores busy.
        with single_threaded_blas(), ThreadPoolExecutor(jobs) as pool:
            futures = [pool.submit(self._run_item, n, rest[n], starts[n]) for n in numbers]
            try:
                return [future.result() for future in futures]
            except KeyboardInterrupt:
                self.progress.request_stop()
                if not self.options.return_on_interrupt:
                    raise
                return [future.result() for future in futures]

    def _run_item(self, number: int, rest: float, start: FloatArray | None) -> Outcome:
        groups = self.items[number]
        began = time.perf_counter()
        system = build_system(self.problem.source, self.blocks.select(groups), self.problem.weights)
        spent = np.zeros(system.n_pairs) if self.spent is None else self.spent(*system.pair_variables)
        require_solvable(self.problem, system)
        self.covariance_seconds += time.perf_counter() - began
        task = self._task(number, system, rest, start)
        if self.progress.stop:
            return Outcome(system, _unsolved(task), spent)
        try:
            result = self.options.method.solve(task)
        except KeyboardInterrupt:
            self.progress.request_stop()
            if not self.options.return_on_interrupt:
                raise
            result = _unsolved(task)
        self.progress.finish(number)
        return Outcome(system, result, spent)

    def _task(self, number: int, system: BlockSystem, rest: float, start: FloatArray | None) -> SolverTask:
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
            share=self.shares[self.items[number]],
            tol=self.options.tol,
            rest=rest,
            max_iter=self.options.max_iter - self.n_iter,
            start=start,
            warm=warm,
            n_threads=(os.cpu_count() or 1) if (self.options.n_jobs or 1) == 1 else 1,
            report=lambda objective, gap: self.progress.report(number, objective, gap),
        )


def _unsolved(task: SolverTask) -> SolverResult:
    """What is left when a piece of work is interrupted: its start, with an honest bound."""
    bounds = bound_groups(task.system, task.start, task.penalty, task.diagonal_penalty, rescue=True)
    return SolverResult(task.start, bounds, 0, "interrupt", ["unsolved"] * task.system.n_groups)


def require_solvable(problem: JointProblem, system: BlockSystem) -> None:
    """Refuse blocks whose S is not a covariance matrix, and unpenalised problems without a minimum."""
    unpenalised = problem.penalty.lambda1 == 0 and problem.penalty.lambda2 == 0
    names = problem.source.class_names
    for blocks, (stack,) in system.stacks(system.S):
        for m in np.flatnonzero(~semidefinite(stack)):
            name = names[system.block_class[blocks.start + m]]
            raise not_semidefinite(name, f"in a block of {stack.shape[1]} of its variables")
        for m in np.arange(len(stack) if unpenalised else 0):
            if np.linalg.matrix_rank(stack[m], hermitian=True) < stack.shape[1]:
                raise no_minimum(names[system.block_class[blocks.start + m]])


def require_definite_start(problem: JointProblem, system: BlockSystem, start: FloatArray) -> None:
    """Refuse a warm start that is not symmetric and positive definite."""
    from jointglasso.blocks.linalg import factorize

    names = problem.source.class_names
    wild = np.flatnonzero(~np.isfinite(start))
    if len(wild):
        block = np.searchsorted(system.offset, wild[0], side="right") - 1
        raise indefinite_start(names[system.block_class[block]], "finite")
    crooked = np.flatnonzero(~np.isclose(start[system.upper], start[system.lower], rtol=1e-8, atol=0.0))
    if len(crooked):
        raise indefinite_start(names[system.block_class[system.entry_block[crooked[0]]]], "symmetric")
    bad = np.flatnonzero(~factorize(system, start).definite)
    if len(bad):
        raise indefinite_start(names[system.block_class[bad[0]]], "positive definite")
