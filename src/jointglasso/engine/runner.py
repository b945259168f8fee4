"""Solution of all groups of one partition, task by task, to a total gap within the tolerance; and the solve status."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

import numpy as np

from jointglasso._threads import cores_here
from jointglasso._typing import FloatArray
from jointglasso.engine.executors import TaskBatch, run_tasks
from jointglasso.engine.nonzeros import Nonzeros, starts_of_tasks
from jointglasso.engine.options import RunnerOptions
from jointglasso.engine.planning import kept_in_memory
from jointglasso.engine.progress import Progress
from jointglasso.engine.screening import Screen
from jointglasso.engine.solve_big_task import is_big
from jointglasso.engine.solve_task import rebuild, solve_task
from jointglasso.engine.task_result import SolvedBlocks, TaskResult
from jointglasso.engine.tasks import (
    MemoryPlan,
    Task,
    TaskContext,
    WarmStart,
    gap_fractions,
    start_objectives,
    subset_for,
    task_groups,
)
from jointglasso.errors import argument
from jointglasso.problem import JointProblem
from jointglasso.screening.groups import ClassBlocks
from jointglasso.solution import Certificate, Status


class GroupRunner:
    """Solves the groups of one partition; `isolated_objective` is the closed-form objective of the singletons.

    `n_iter` counts the iterations of all rounds.
    """

    def __init__(
        self,
        problem: JointProblem,
        blocks: ClassBlocks,
        isolated_objective: float,
        options: RunnerOptions,
        screen: Screen,
        warm_start: WarmStart | None,
        memory: MemoryPlan | None = None,
        *,
        n_iter: int = 0,
    ) -> None:
        self.blocks, self.options = blocks, options
        self.isolated_objective, self.covariance_seconds, self.n_iter = isolated_objective, 0.0, n_iter
        self.shared = TaskContext(
            problem, options.method, options.tol, screen.deferred, options.prove,
            warm_start.points if warm_start else {}, options.checkpoint, memory or MemoryPlan(), screen.scanned,
        )  # fmt: skip
        self.groups = task_groups(blocks, together=options.method.lockstep)
        starts = start_objectives(problem, blocks)
        self.start_objective = isolated_objective + float(starts.sum())
        item_starts = [float(starts[groups].sum()) for groups in self.groups]
        self.items = self._items(item_starts, warm_start)
        costs = [float(blocks.group_cost[groups].sum()) for groups in self.groups]
        self.progress = Progress(options.control, isolated_objective, item_starts, [len(g) for g in self.groups], costs)

    def _items(self, objectives: Sequence[float], warm_start: WarmStart | None) -> list[Task]:
        """Tasks; `objectives` are those of their diagonal starts."""
        shares, area = gap_fractions(self.blocks), self.blocks.group_area
        starts: Sequence[Nonzeros | None] = [None] * len(self.groups)
        if warm_start is not None:
            starts = starts_of_tasks(warm_start.precision, self.blocks, self.groups)
        concurrent = self.options.executor is not None or min(self.shared.memory.n_jobs or 1, len(self.groups)) > 1
        n_threads = 1 if concurrent else cores_here()
        sparse = self.shared.memory.sparse
        selected = [self.blocks.select(groups) for groups in self.groups]
        is_sparse = [sparse is not None and len(groups) == 1 and bool(sparse[groups[0]]) for groups in self.groups]
        keep: Sequence[bool] = [False] * len(self.groups)
        if self.options.executor is None:
            entries = np.array([float(area[groups].sum()) for groups in self.groups])
            entries[is_sparse] = 0.0  # no block is stored
            big = np.array([is_big(blocks, self.shared) for blocks in selected], dtype=bool)
            keep = kept_in_memory(entries, big, self.shared.memory.free_bytes).tolist()
        return [
            Task(
                number=number,
                blocks=blocks,
                gap_budget=shares[groups],
                rest=self.start_objective - objectives[number],
                max_iter=self.options.remaining(self.n_iter),
                n_threads=n_threads,
                start=starts[number],
                is_trusted=warm_start is None or warm_start.trusted,
                saved=None if self.options.checkpoint is None else self.options.checkpoint.find(blocks),
                keep_blocks=keep[number],
                is_sparse=is_sparse[number],
            )
            for number, (groups, blocks) in enumerate(zip(self.groups, selected, strict=True))
        ]

    def run(self) -> list[TaskResult]:
        """Solve all groups until the sum of their gaps is within the tolerance of the full problem."""
        while True:
            outcomes: list[TaskResult] = run_tasks(self._batch(), self.options.executor, self.shared.memory.n_jobs)
            self.covariance_seconds += sum(o.build_seconds for o in outcomes)
            self.n_iter += max((o.n_iter for o in outcomes), default=0)
            objectives = [float(o.objective.sum()) for o in outcomes]
            objective = self.isolated_objective + math.fsum(objectives)
            gap, allowed = math.fsum(float(o.gap.sum()) for o in outcomes), self._allowed_gap(objective)
            remaining, converged = (
                self.options.remaining(self.n_iter),
                all(o.stopped_by == "tolerance" for o in outcomes),
            )
            lower_limit = allowed < self._allowed_gap(self.start_objective)
            if len(outcomes) <= 1 or gap <= allowed or not (remaining and converged and lower_limit):
                return outcomes
            # The limits were based on the objective at the start, which was larger than the optimum.
            self.start_objective = objective
            self.items = [
                item.starting_at(outcome.nonzeros, remaining, rest=objective - value)
                for item, value, outcome in zip(self.items, objectives, outcomes, strict=True)
            ]

    def _allowed_gap(self, objective: float) -> float:
        """Gap allowed to the full problem: `tol` is relative to its objective."""
        return self.options.tol * max(self.shared.problem.unit, abs(objective))

    def rebuild(self, outcomes: Sequence[TaskResult]) -> Iterator[SolvedBlocks]:
        """The blocks of finished tasks, one after another, rebuilt if they were freed."""
        for outcome in outcomes:
            yield rebuild(outcome, replace(self.items[outcome.number], n_threads=cores_here()), self.shared)

    def _batch(self) -> TaskBatch:
        control = self.options.control
        return TaskBatch(
            function=solve_task,
            items=self.items,
            shared=self.shared,
            subset_for=subset_for,
            broadcast=False,
            progress=lambda number, *news: (
                self.progress.report(number, *news) if news else control.stopped_by is not None
            ),
            finish=self._finish,
            give_up=lambda: control.stop("interrupt"),
        )

    def _finish(self, number: int, outcome: TaskResult) -> TaskResult:
        """Write a result to the checkpoint and count its task as done."""
        if self.options.checkpoint is not None:
            self.options.checkpoint.keep(self.items[number].blocks, outcome)
        self.progress.finish(number)
        return outcome


#: Ratio of the largest to the smallest class weight above which it is named as what limits the accuracy.
_SPREAD_WEIGHTS = 1e6


def _remedies() -> dict[str, str]:
    go_on = "Solve again with warm_start=this solution to go on."
    tol, max_iter = argument("tol"), argument("max_iter")
    return {
        "interrupt": go_on,
        "callback": go_on,
        "max_iter": f"Raise {max_iter}, warm-start from this solution, raise lambda1, or accept the gap by raising "
        f"{tol}.",
        "paper's rule": 'Use stopping="gap" to reach the tolerance.',
        "rounding": f"The limit of the arithmetic is reached (single precision in large groups): raise {tol}, or "
        "rescale badly scaled data.",
        "tolerance": "The groups met their limits but not their sum: solve again with warm_start=this solution.",
    }


def status_of(
    certificate: Certificate, n_iter: int, ended: Collection[str], options: RunnerOptions, weights: FloatArray
) -> Status:
    """The status of a solve, from the stopping reasons of its tasks; `weights` (K,) are those of the classes."""
    reached = f"relative duality gap {certificate.relative_gap:.1e}, tolerance {options.tol:.1e}"
    if certificate.relative_gap <= options.tol:
        return Status(True, f"Converged after {n_iter} iterations: {reached}.", code="converged")
    remedies = _remedies()
    why = options.control.stopped_by or next(reason for reason in remedies if reason in ended)
    computed = 0.0 if np.isinf(certificate.rounding) else certificate.gap - certificate.rounding
    if why == "tolerance" and certificate.relative(computed) <= options.tol:
        why = "rounding"  # the solver reached the tolerance, but rounding errors exceed it
    code = "paper_rule" if why == "paper's rule" else why
    remedy, ratio = remedies[why], weights.max() / weights.min()
    if why in ("max_iter", "rounding") and ratio > _SPREAD_WEIGHTS:
        remedy += (
            f" The class weights differ by a factor of {ratio:.0e}, and what acts on a class is the penalty divided by "
            "its weight: weights closer to each other make the problem better conditioned."
        )
    return Status(False, f"Stopped by {why} after {n_iter} iterations: {reached}.", remedy, code)
