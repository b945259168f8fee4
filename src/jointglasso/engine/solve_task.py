"""Solution of one task: some independent groups, built, validated, solved and rechecked by a top-level function.

`solve_task` depends on its arguments only, and its result is small. Both can be pickled, so that a thread, another
process or another machine can run it; `tasks.subset_for` reduces the shared data to what one
task needs.
"""

from __future__ import annotations

import time
from dataclasses import replace
from functools import partial

import numpy as np

from jointglasso._threads import blas_threads_for
from jointglasso._typing import FloatArray
from jointglasso.blocks import BlockSystem, build_system
from jointglasso.blocks.linalg import factorize
from jointglasso.data.checks import indefinite_start
from jointglasso.duality import bound_groups, certified_edges
from jointglasso.engine.checkpoint import Saved
from jointglasso.engine.executors import TaskProgress, no_progress
from jointglasso.engine.minimum import require_solvable
from jointglasso.engine.nonzeros import Nonzeros, without_forbidden
from jointglasso.engine.recheck import ScreeningCheck, certify_screening, edge_gaps, prove_edges
from jointglasso.engine.solve_big_task import is_big, rebuild_big, solve_big_task
from jointglasso.engine.solve_sparse_task import rebuild_sparse, solve_sparse_task
from jointglasso.engine.task_result import NO_PROOFS, CachedBlocks, SolvedBlocks, TaskResult, certified_equalities
from jointglasso.engine.tasks import Task, TaskContext, deferred_within
from jointglasso.problem import JointProblem
from jointglasso.rounding import rounded_bounds
from jointglasso.solvers import SolverResult, SolverTask
from jointglasso.solvers.base import diagonal_start, remaining_iterations


def solve_task(item: Task, shared: TaskContext, progress: TaskProgress = no_progress) -> TaskResult:
    """Build the blocks of a task, solve them, certify the result, and free the blocks.

    `progress(objective, gap)` is called after every iteration, and `progress()` at other times; if it returns True, the
    solve ends with the current iterate.
    """
    began = time.perf_counter()
    with blas_threads_for(int(item.blocks.sizes.max(initial=0))):  # small blocks beside a large one: one thread
        if item.is_sparse:
            attempt = solve_sparse_task(item, shared, progress)
            if isinstance(attempt, TaskResult):
                return attempt
            item = attempt
        if is_big(item.blocks, shared):
            outcome = solve_big_task(item, shared, progress)
            remaining = remaining_iterations(shared.method, item.max_iter, outcome.n_iter)
            unfinished = outcome.stopped_by == "rounding" or (outcome.stopped_by == "max_iter" and remaining > 0)
            if not unfinished or not shared.memory.for_blocks:
                return outcome
            item = item.starting_at(outcome.nonzeros, max(1, remaining))
        system, check = build(item, shared)
        built = time.perf_counter()
        require_solvable(shared.problem, system)
        task, result = _resumed(_task(item, shared, system, progress), item.saved)
        if result is None:
            result = _unsolved(task) if progress() else shared.method.solve(task)
        result, bounds, violated, proved = certify_screening(task, shared.method, result, check, progress)
        if shared.prove:
            result, bounds = prove_edges(task, shared.method, result, bounds, progress)
        finite = np.isfinite(result.bounds.gap)
        present = absent = np.zeros(len(system.upper), dtype=bool)
        equalities = NO_PROOFS
        if proved:  # otherwise single entries can be certified only by the total gap
            edges = certified_edges(system, result.theta, bounds.dual, bounds.gap, shared.problem.penalty)
            present, absent = edges.present, edges.absent
            equalities = certified_equalities(system, result.theta, edges, shared.problem.penalty)
        return TaskResult(
            number=item.number,
            objective=bounds.objective,
            gap=bounds.gap,
            rounding=bounds.rounding,
            raised=np.subtract(bounds.gap, result.bounds.gap, where=finite, out=np.zeros(len(finite))),
            n_iter=result.n_iter,
            stopped_by=result.stopped_by,
            methods=result.methods,
            nonzeros=Nonzeros.of(system, result.theta, present),
            n_entries=len(system.upper),
            n_present=int(present.sum()),
            n_absent=int(absent.sum()),
            edge_gap=float(edge_gaps(system, result.theta).min(initial=np.inf)),
            certified_equal=equalities,
            violated=violated,
            proved=proved,
            cached_blocks=CachedBlocks(result.theta, bounds, check, shared.problem, system)
            if item.keep_blocks
            else None,
            build_seconds=built - began,
            seconds=time.perf_counter() - began,
        )


def rebuild(outcome: TaskResult, item: Task, shared: TaskContext) -> SolvedBlocks:
    """The blocks of a solved task, rebuilt if they were freed."""
    if outcome.cached_blocks is not None:
        return outcome.cached_blocks
    if outcome.is_sparse:
        return rebuild_sparse(outcome, item, shared)
    if outcome.is_big:
        return rebuild_big(outcome, item, shared)
    problem, (system, check) = shared.problem, build(item, shared)
    theta = outcome.nonzeros.flat(system)
    bounds = rounded_bounds(system, theta, problem.penalty, problem.diagonal_penalty, scale_to_feasible=True)
    return CachedBlocks(theta, bounds, check, problem, system)


def build(item: Task, shared: TaskContext) -> tuple[BlockSystem, ScreeningCheck | None]:
    """Blocks of a task, and the check of their screened-out entries (None for static screening)."""
    problem, deferred = shared.problem, shared.deferred
    system = build_system(problem.source, item.blocks, problem.weights, problem.pair_weights, item.n_threads)
    if deferred is None:
        return system, None
    candidates = deferred_within(deferred, system.members, problem.source.n_variables)
    pairs = system.find_pairs(deferred.rows[candidates], deferred.columns[candidates])
    return system, ScreeningCheck(problem, system, pairs)


def _task(item: Task, shared: TaskContext, system: BlockSystem, progress: TaskProgress) -> SolverTask:
    problem = shared.problem
    if item.start is None:
        theta = diagonal_start(system, problem.penalty, problem.diagonal_penalty)
    else:
        theta = item.start.flat(system)
        if not item.is_trusted:
            require_definite_start(problem, system, theta)
        theta = without_forbidden(system, theta)
    task = SolverTask(
        system=system,
        penalty=problem.penalty,
        diagonal_penalty=problem.diagonal_penalty,
        gap_budget=item.gap_budget,
        tol=shared.tol,
        rest=item.rest,
        unit=problem.unit,
        max_iter=item.max_iter,
        start=theta,
        warm=item.start is not None,
        n_threads=item.n_threads,
        report=progress,
        memory_for_admm=shared.memory.for_admm,
    )
    if shared.checkpoint is None:
        return task
    return replace(task, keep=shared.checkpoint.snapshots(item.blocks, partial(Nonzeros.of, system)))


def _resumed(task: SolverTask, saved: Saved | None) -> tuple[SolverTask, SolverResult | None]:
    """Resume from a checkpoint: use it as the result if its gap is within the limit, else as the start.

    The gap is recomputed, so that the checkpoint need not be trusted.
    """
    if saved is None:
        return task, None
    theta = without_forbidden(task.system, saved.nonzeros.flat(task.system))
    bounds = task.bounds(theta)
    if not np.isfinite(bounds.objective).all():
        return task, None
    if not task.unsolved(bounds).any():
        return task, SolverResult(theta, bounds, saved.n_iter, "tolerance", saved.methods)
    return replace(task, start=theta, warm=True), None


def _unsolved(task: SolverTask) -> SolverResult:
    """Result of a task that is not started because of a stop request: its start, with its duality gap."""
    bounds = bound_groups(task.system, task.start, task.penalty, task.diagonal_penalty, scale_to_feasible=True)
    return SolverResult(task.start, bounds, 0, "interrupt", ["unsolved"] * task.system.n_groups)


def require_definite_start(problem: JointProblem, system: BlockSystem, start: FloatArray) -> None:
    """Refuse a warm start that is not positive definite."""
    bad = np.flatnonzero(~factorize(system, start).definite)
    if len(bad):
        name = problem.source.class_names[system.block_class[bad[0]]]
        raise indefinite_start(name, "positive definite")
