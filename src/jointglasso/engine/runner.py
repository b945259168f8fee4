"""Solving all groups of one partition, one piece of work after another or several at a time."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from threading import Lock
from typing import Any

import numpy as np

from jointglasso._threads import available_cores, single_threaded_blas, work_alone
from jointglasso._typing import FloatArray, IntArray
from jointglasso.blocks import BlockSystem, build_system
from jointglasso.certificate import bound_groups, certain_edges
from jointglasso.engine.assemble import flat_from_precisions, without_forbidden
from jointglasso.engine.checkpoint import Checkpoint
from jointglasso.engine.items import BATCHED_BLOCK, gap_shares, group_sums, start_objectives, work_items
from jointglasso.engine.outcome import Nonzeros, Opened, Outcome
from jointglasso.engine.progress import Control, Progress
from jointglasso.engine.recheck import groups_with_unproved_cuts, violated_pairs
from jointglasso.engine.solvable import require_minimum
from jointglasso.problem import JointProblem
from jointglasso.screening.dynamic import WaitingPairs
from jointglasso.screening.groups import ClassBlocks
from jointglasso.solvers import GroupSolver, SolverResult, SolverTask
from jointglasso.solvers.base import diagonal_start
from jointglasso.validation import indefinite_start, not_semidefinite, semidefinite

#: Solved blocks are kept at hand up to this many bytes, in case they are needed again.
_KEPT_BYTES = 2**30

#: Iterations of the attempts to prove the cuts of a dynamic screen by a sharper solution, of which one is nearly always
#: enough; so few groups, with less than this share of all entries, are sharpened one by one.
_SHARPENINGS, _FEW_GROUPS, _SMALL_SHARE = (1, 100, 100), 4, 0.25


@dataclass(frozen=True)
class Options:
    """How to solve: everything that does not change the problem."""

    method: GroupSolver
    tol: float
    max_iter: int
    n_jobs: int | None
    control: Control
    max_memory: float | None = None
    checkpoint: Checkpoint | None = None

    def allowed_gap(self, objective: float) -> float:
        """Gap allowed to the whole problem: `tol` is relative to its objective."""
        return self.tol * max(1.0, abs(objective))


@dataclass(frozen=True)
class WarmStart:
    """Precision matrices to start from."""

    precision: Sequence[Any]
    trusted: bool
    """Whether they come from a solve, so that they, and any blocks of them, are known to be definite."""


class GroupRunner:
    """Solves the groups of one partition; `settled` is the objective of what is solved in closed form outside them."""

    def __init__(
        self,
        problem: JointProblem,
        blocks: ClassBlocks,
        settled: float,
        options: Options,
        waiting: WaitingPairs,
        warm_start: WarmStart | None,
    ) -> None:
        self.problem, self.blocks, self.settled, self.options = problem, blocks, settled, options
        self.waiting, self.warm_start = waiting, warm_start
        self.covariance_seconds = 0.0
        self.items = work_items(
            blocks,
            together=options.method.lockstep,
            n_batches=options.n_jobs or 1,
            saved=options.checkpoint is not None,
        )
        starts = start_objectives(problem, blocks)
        self.start_objective = settled + float(starts.sum())
        self.item_starts = [float(starts[item].sum()) for item in self.items]
        self.shares = gap_shares(blocks)
        self.n_iter = 0
        cost = group_sums(blocks, 3)
        item_costs = [float(cost[item].sum()) for item in self.items]
        item_groups = [len(item) for item in self.items]
        self.progress = Progress(options.control, settled, self.item_starts, item_groups, item_costs)
        self._kept_bytes = 0
        self._lock = Lock()

    def run(self) -> list[Outcome]:
        """Solve all groups until their gaps add up to no more than the whole problem allows."""
        rest = [self.start_objective - start for start in self.item_starts]
        outcomes = self._run_items(rest, [None] * len(self.items))
        while len(outcomes) > 1 and self.n_iter < self.options.max_iter:
            objectives = [float(o.objective.sum()) for o in outcomes]
            objective = self.settled + math.fsum(objectives)
            gap = math.fsum(float(o.gap.sum()) for o in outcomes)
            allowed = self.options.allowed_gap(objective)
            unfinished = any(o.stopped_by != "tolerance" for o in outcomes)
            if gap <= allowed or unfinished or allowed >= self.options.allowed_gap(self.start_objective):
                break
            # The objective at the start, which set the limits, was larger than the optimum turned out to be.
            self.start_objective = objective
            rest = [objective - own for own in objectives]
            outcomes = self._run_items(rest, [o.nonzeros for o in outcomes])
        return outcomes

    def reopen(self, outcomes: Sequence[Outcome]) -> Iterator[Opened]:
        """The blocks of finished pieces of work, one after another, built again where they were given back."""
        for outcome in outcomes:
            if outcome.opened is not None:
                yield outcome.opened
                continue
            system, spent = self._build(outcome.number)
            theta = outcome.nonzeros.flat(len(system.S))
            bounds = bound_groups(system, theta, self.problem.penalty, self.problem.diagonal_penalty, rescue=True)
            yield Opened(system, theta, bounds, spent)

    def _run_items(self, rest: Sequence[float], starts: Sequence[Nonzeros | None]) -> list[Outcome]:
        self._kept_bytes = 0
        outcomes = self._run_all(rest, starts)
        self.n_iter += max((o.n_iter for o in outcomes), default=0)
        return outcomes

    def _run_all(self, rest: Sequence[float], starts: Sequence[Nonzeros | None]) -> list[Outcome]:
        jobs = self.options.n_jobs or 1
        numbers = range(len(self.items))
        if jobs == 1 or len(self.items) == 1:
            return [self._run_item(n, rest[n], starts[n]) for n in numbers]
        # One BLAS thread per worker: the workers themselves keep the cores busy.
        with single_threaded_blas(), ThreadPoolExecutor(jobs, initializer=work_alone) as pool:
            futures = [pool.submit(self._run_item, n, rest[n], starts[n]) for n in numbers]
            try:
                return [future.result() for future in futures]
            except BaseException:
                self.options.control.stop("interrupt")
                for future in futures:
                    future.cancel()
                raise

    @property
    def _n_threads(self) -> int:
        """Threads that one piece of work may use of its own."""
        return available_cores() if (self.options.n_jobs or 1) == 1 or len(self.items) == 1 else 1

    def _run_item(self, number: int, rest: float, start: Nonzeros | None) -> Outcome:
        """Build the blocks of one piece of work, solve them, see what that proves, and let the blocks go."""
        system, spent = self._build(number)
        require_solvable(self.problem, system)
        task = self._task(number, system, rest, start)
        task, result = self._resume(task)
        if result is None:
            stopped = self.options.control.stopped_by is not None
            result = _unsolved(task) if stopped else self.options.method.solve(task)
        result, violated, proved = self._check_cuts(task, result, spent)
        self.progress.finish(number)
        outcome = self._outcome(number, system, result, spent, violated, proved)
        if self.options.checkpoint is not None:
            self.options.checkpoint.keep(system, result)
        return outcome

    def _build(self, number: int) -> tuple[BlockSystem, FloatArray]:
        """Blocks of one piece of work, and the dual budget of its pairs that is used elsewhere."""
        began = time.perf_counter()
        problem, blocks = self.problem, self.blocks.select(self.items[number])
        system = build_system(problem.source, blocks, problem.weights, problem.pair_weights, self._n_threads)
        spent = self._spent(system)
        with self._lock:
            self.covariance_seconds += time.perf_counter() - began
        return system, spent

    def _spent(self, system: BlockSystem) -> FloatArray:
        """Part of the dual budget of each pair that is used by classes where it is cut."""
        waiting, spent = self.waiting, np.zeros(system.n_pairs)
        here = np.zeros(self.problem.source.n_variables, dtype=bool)
        here[system.members] = True
        near = np.flatnonzero(here[waiting.rows] & here[waiting.columns])
        pair = system.find_pairs(waiting.rows[near], waiting.columns[near])
        spent[pair[pair >= 0]] = waiting.spent[near[pair >= 0]]
        return spent

    def _resume(self, task: SolverTask) -> tuple[SolverTask, SolverResult | None]:
        """Take up what an earlier run has left: its result if that is good enough, else as a start.

        What was saved is believed only as far as its gap, computed anew, shows.
        """
        checkpoint = self.options.checkpoint
        if checkpoint is None:
            return task, None
        saved = checkpoint.find(task.system)
        if saved is not None:
            bounds = task.bounds(saved.theta)
            definite = np.isfinite(bounds.objective).all()
            if definite and not task.unsolved(bounds).any():
                return task, SolverResult(saved.theta, bounds, saved.n_iter, "tolerance", saved.methods)
            if definite:
                task = replace(task, start=saved.theta, warm=True)
        return replace(task, keep=lambda theta: checkpoint.keep_unfinished(task.system, theta)), None

    def _check_cuts(
        self, task: SolverTask, result: SolverResult, spent: FloatArray
    ) -> tuple[SolverResult, tuple[IntArray, IntArray], bool]:
        """Which waiting pairs fail the optimality conditions, and whether the gap proves that none does.

        Where nothing fails but the gap is too wide to prove it, the groups in question are solved more sharply. Big
        groups are not: there it would cost as much again as the solve itself, for a proof about single entries; the
        gap of the whole problem is certified without.
        """
        system, penalty = task.system, task.penalty
        violated = violated_pairs(system, result.theta, result.bounds, spent, penalty)
        blurred = groups_with_unproved_cuts(system, result.bounds, spent, penalty)
        worth_it = system.size.max(initial=0) <= BATCHED_BLOCK and not self.options.method.lockstep
        for most in _SHARPENINGS:
            left = task.max_iter - result.n_iter
            stopped = self.options.control.stopped_by is not None or left <= 0
            if not len(blurred) or len(violated[0]) or stopped or not worth_it:
                break
            sharper = self._sharpen(task, result, blurred, min(most, left))
            if sharper is result:
                continue
            result = sharper
            violated = violated_pairs(system, result.theta, result.bounds, spent, penalty)
            blurred = groups_with_unproved_cuts(system, result.bounds, spent, penalty)
        return result, violated, not len(blurred)

    def _sharpen(self, task: SolverTask, result: SolverResult, groups: IntArray, max_iter: int) -> SolverResult:
        """Solve some groups again, from where they are, to a far smaller gap."""
        limits = np.full(task.system.n_groups, np.inf)
        limits[groups] = 1e-7 * result.bounds.gap[groups]
        sharp = replace(
            task, start=result.theta, known=result.bounds, warm=True, share=limits, tol=1.0, absolute=True,
            max_iter=max_iter, keep=lambda theta: None,
            report=lambda objective, gap: self.options.control.stopped_by is not None,
        )  # fmt: skip
        area = task.system.sum_per_group(task.system.size.astype(float) ** 2)
        if len(groups) <= _FEW_GROUPS and area[groups].sum() < _SMALL_SHARE * area.sum():
            return self._sharpen_one_by_one(sharp, result, groups)
        again = self.options.method.solve(sharp)
        if not (again.bounds.gap <= result.bounds.gap).all():
            return result
        return replace(again, n_iter=result.n_iter, stopped_by=result.stopped_by, methods=result.methods)

    def _sharpen_one_by_one(self, sharp: SolverTask, result: SolverResult, groups: IntArray) -> SolverResult:
        """As `_sharpen`, without another look at all the other groups."""
        theta, bounds = result.theta.copy(), result.bounds
        for group in groups.tolist():
            if self.options.control.stopped_by is not None:
                break
            system, inside = sharp.system.only_group(group)
            blocks = sharp.system.block_group == group
            known = bounds.of_group(group, blocks, inside)
            alone = replace(sharp, system=system, start=theta[inside], known=known, share=sharp.share[[group]])
            again = self.options.method.solve(alone)
            if again.bounds.gap[0] < bounds.gap[group]:
                theta[inside] = again.theta
                bounds = bounds.with_group(group, blocks, inside, again.bounds)
        return result if bounds is result.bounds else replace(result, theta=theta, bounds=bounds)

    def _outcome(
        self,
        number: int,
        system: BlockSystem,
        result: SolverResult,
        spent: FloatArray,
        violated: tuple[IntArray, IntArray],
        proved: bool,
    ) -> Outcome:
        present = absent = np.zeros(len(system.upper), dtype=bool)
        if proved:  # otherwise nothing can be said before the gap of the whole is known
            dual, gap = result.bounds.dual, result.bounds.gap
            edges = certain_edges(system, result.theta, dual, gap, self.problem.penalty)
            present, absent = edges.present, edges.absent
        opened = Opened(system, result.theta, result.bounds, spent)
        with self._lock:
            roomy = self._kept_bytes + opened.n_bytes <= _KEPT_BYTES
            self._kept_bytes += opened.n_bytes if roomy else 0
        return Outcome(
            number=number,
            objective=result.bounds.objective,
            gap=result.bounds.gap,
            n_iter=result.n_iter,
            stopped_by=result.stopped_by,
            methods=result.methods,
            nonzeros=Nonzeros.of(system, result.theta, present),
            n_entries=len(system.upper),
            n_present=int(present.sum()),
            n_absent=int(absent.sum()),
            violated=violated,
            proved=proved,
            opened=opened if roomy else None,
        )

    def _task(self, number: int, system: BlockSystem, rest: float, start: Nonzeros | None) -> SolverTask:
        problem = self.problem
        warm = start is not None or self.warm_start is not None
        if start is not None:
            theta = start.flat(len(system.S))
        elif self.warm_start is not None:
            theta = flat_from_precisions(system, self.warm_start.precision, problem.source.n_variables)
            if not self.warm_start.trusted:
                require_definite_start(problem, system, theta)
            theta = without_forbidden(system, theta)
        else:
            theta = diagonal_start(system, problem.diagonal_penalty)
        return SolverTask(
            system=system,
            penalty=problem.penalty,
            diagonal_penalty=problem.diagonal_penalty,
            share=self.shares[self.items[number]],
            tol=self.options.tol,
            rest=rest,
            max_iter=self.options.max_iter - self.n_iter,
            start=theta,
            warm=warm,
            n_threads=self._n_threads,
            report=lambda objective, gap: self.progress.report(number, objective, gap),
        )


def _unsolved(task: SolverTask) -> SolverResult:
    """What is left of a piece of work that is not begun any more: its start, with an honest bound."""
    bounds = bound_groups(task.system, task.start, task.penalty, task.diagonal_penalty, rescue=True)
    return SolverResult(task.start, bounds, 0, "interrupt", ["unsolved"] * task.system.n_groups)


def require_solvable(problem: JointProblem, system: BlockSystem) -> None:
    """Refuse blocks whose S is not a covariance matrix, and unpenalised problems without a minimum."""
    if not getattr(problem.source, "is_semidefinite", False):
        for block in np.flatnonzero(~semidefinite(system.S, system.offset, system.size)):
            name = problem.source.class_names[system.block_class[block]]
            raise not_semidefinite(name, f"in a block of {system.size[block]} of its variables")
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
