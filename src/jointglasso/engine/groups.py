"""Solving all groups of one partition, one piece of work after another or several at a time."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from threading import Lock
from typing import Any

import numpy as np

from jointglasso._threads import available_cores, single_threaded_blas
from jointglasso._typing import FloatArray, IntArray
from jointglasso.blocks import BlockSystem, build_system
from jointglasso.certificate import bound_groups
from jointglasso.engine.assemble import flat_from_precisions, without_forbidden
from jointglasso.engine.plan import BATCHED_BLOCK, gap_shares, start_objectives, work_items
from jointglasso.engine.progress import Control, Progress
from jointglasso.engine.recheck import groups_with_unproved_cuts
from jointglasso.engine.solvable import require_minimum
from jointglasso.problem import JointProblem
from jointglasso.screening.groups import ClassBlocks
from jointglasso.solvers import GroupSolver, SolverResult, SolverTask
from jointglasso.solvers.base import diagonal_start
from jointglasso.validation import indefinite_start, not_semidefinite, semidefinite

#: Tells, for pairs of variables i < j, the part of their dual budget used by classes where they are cut.
SpentBudget = Callable[[IntArray, IntArray], FloatArray]


@dataclass(frozen=True)
class Options:
    """How to solve: everything that does not change the problem."""

    method: GroupSolver
    tol: float
    max_iter: int
    n_jobs: int | None
    control: Control

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
        self.progress = Progress(options.control, settled, self.item_starts, item_groups, item_costs)
        self._lock = Lock()

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

    def sharpen(self, outcomes: list[Outcome]) -> list[Outcome]:
        """Solve groups with unproved cuts again, from where they are, to a far smaller gap.

        Big groups are left alone: there it would cost as much again as the solve itself, for a proof about single
        entries; the gap of the whole problem is certified without.
        """
        return [self._sharpen_one(outcome) for outcome in outcomes]

    def _sharpen_one(self, outcome: Outcome) -> Outcome:
        system, result = outcome.system, outcome.result
        if system.size.max(initial=0) > BATCHED_BLOCK:
            return outcome
        blurred = groups_with_unproved_cuts(system, result.bounds, outcome.spent, self.problem.penalty)
        if not len(blurred):
            return outcome
        limits = np.full(system.n_groups, np.inf)
        limits[blurred] = 1e-7 * result.bounds.gap[blurred]
        task = replace(
            self._task(0, system, 0.0, result.theta), share=limits, tol=1.0, absolute=True,
            report=lambda objective, gap: self.options.control.stopped_by is not None,
        )  # fmt: skip
        again = self.options.method.solve(task)
        better = again.bounds.gap <= result.bounds.gap
        if not better.all():
            return outcome
        ended = replace(again, n_iter=result.n_iter, stopped_by=result.stopped_by, methods=result.methods)
        return replace(outcome, result=ended)

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
            except BaseException:
                self.options.control.stop("interrupt")
                for future in futures:
                    future.cancel()
                raise

    def _run_item(self, number: int, rest: float, start: FloatArray | None) -> Outcome:
        groups = self.items[number]
        began = time.perf_counter()
        problem = self.problem
        system = build_system(problem.source, self.blocks.select(groups), problem.weights, problem.pair_weights)
        spent = np.zeros(system.n_pairs) if self.spent is None else self.spent(*system.pair_variables)
        require_solvable(self.problem, system)
        with self._lock:
            self.covariance_seconds += time.perf_counter() - began
        task = self._task(number, system, rest, start)
        stopped = self.options.control.stopped_by is not None
        result = _unsolved(task) if stopped else self.options.method.solve(task)
        self.progress.finish(number)
        return Outcome(system, result, spent)

    def _task(self, number: int, system: BlockSystem, rest: float, start: FloatArray | None) -> SolverTask:
        problem = self.problem
        warm = start is not None or self.warm_start is not None
        if start is None and self.warm_start is not None:
            start = flat_from_precisions(system, self.warm_start, problem.source.n_variables)
            require_definite_start(problem, system, start)
            start = without_forbidden(system, start)
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
            n_threads=available_cores() if (self.options.n_jobs or 1) == 1 or len(self.items) == 1 else 1,
            report=lambda objective, gap: self.progress.report(number, objective, gap),
        )


def _unsolved(task: SolverTask) -> SolverResult:
    """What is left of a piece of work that is not begun any more: its start, with an honest bound."""
    bounds = bound_groups(task.system, task.start, task.penalty, task.diagonal_penalty, rescue=True)
    return SolverResult(task.start, bounds, 0, "interrupt", ["unsolved"] * task.system.n_groups)


def require_solvable(problem: JointProblem, system: BlockSystem) -> None:
    """Refuse blocks whose S is not a covariance matrix, and unpenalised problems without a minimum."""
    names = problem.source.class_names
    for blocks, (stack,) in system.stacks(system.S):
        for m in np.flatnonzero(~semidefinite(stack)):
            name = names[system.block_class[blocks.start + m]]
            raise not_semidefinite(name, f"in a block of {stack.shape[1]} of its variables")
    require_minimum(problem, system)


def require_definite_start(problem: JointProblem, system: BlockSystem, start: FloatArray) -> None:
    """Refuse a warm start that is not symmetric and positive definite."""
    from jointglasso.blocks.linalg import factorize

    names = problem.source.class_names
    wild = np.flatnonzero(~np.isfinite(start))
    if len(wild):
        block = np.searchsorted(system.offset, wild[0], side="right") - 1
        raise indefinite_start(names[system.block_class[block]], "finite")
    row, column = system.entry_members()
    root = np.sqrt(np.abs(start[system.diagonal]))
    apart = np.abs(start[system.upper] - start[system.lower])
    crooked = np.flatnonzero(apart > 1e-6 * root[row] * root[column])
    if len(crooked):
        raise indefinite_start(names[system.block_class[system.entry_block[crooked[0]]]], "symmetric")
    start[system.lower] = start[system.upper]
    bad = np.flatnonzero(~factorize(system, start).definite)
    if len(bad):
        raise indefinite_start(names[system.block_class[bad[0]]], "positive definite")
