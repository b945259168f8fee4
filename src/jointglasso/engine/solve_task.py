"""Solution of one task: some independent groups, built, validated, solved and rechecked by a top-level function.

`solve_task` depends on its arguments only, and its result is small. Both can be pickled, so that a thread, another
process or another machine can run it; `subset.py` reduces the shared data to what one task needs.
"""

from __future__ import annotations

import time
from dataclasses import replace
from functools import partial
from typing import cast

import numpy as np

from jointglasso._threads import blas_threads_for
from jointglasso._typing import BoolArray, FloatArray, IntArray
from jointglasso.blocks import BlockSystem, build_system
from jointglasso.blocks.linalg import factorize
from jointglasso.data.checks import indefinite_start, no_common_minimum, no_minimum, not_semidefinite
from jointglasso.data.source import semidefinite
from jointglasso.duality import bound_groups, certified_edges, unpenalised_entries
from jointglasso.engine.checkpoint import Saved
from jointglasso.engine.equalities import NO_PROOFS, certified_equalities
from jointglasso.engine.executors import TaskProgress, no_progress
from jointglasso.engine.nonzeros import Nonzeros, without_forbidden
from jointglasso.engine.recession import is_unbounded
from jointglasso.engine.recheck import ScreeningCheck, certify_screening, edge_gaps, prove_edges
from jointglasso.engine.solve_big_task import is_big, rebuild_big, solve_big_task
from jointglasso.engine.solve_sparse_task import rebuild_sparse, solve_sparse_task
from jointglasso.engine.task_result import CachedBlocks, TaskResult, UnstoredBlocks
from jointglasso.engine.tasks import Task, TaskContext, deferred_within
from jointglasso.penalties.base import Coupling
from jointglasso.problem import JointProblem
from jointglasso.rounding import with_rounding
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
        if is_big(item, shared):
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
            cached_blocks=CachedBlocks(shared.problem, system, result.theta, bounds, check)
            if item.keep_blocks
            else None,
            build_seconds=built - began,
            seconds=time.perf_counter() - began,
        )


def rebuild(outcome: TaskResult, item: Task, shared: TaskContext) -> CachedBlocks | UnstoredBlocks:
    """The blocks of a solved task, rebuilt if they were freed."""
    if outcome.cached_blocks is not None:
        return outcome.cached_blocks
    if outcome.is_sparse:
        return rebuild_sparse(outcome, item, shared)
    if outcome.is_big:
        return rebuild_big(outcome, item, shared)
    problem, (system, check) = shared.problem, build(item, shared)
    theta = outcome.nonzeros.flat(system)
    bounds = bound_groups(system, theta, problem.penalty, problem.diagonal_penalty, scale_to_feasible=True)
    bounds = with_rounding(system, theta, problem.penalty, problem.diagonal_penalty, bounds)
    return CachedBlocks(problem, system, theta, bounds, check)


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


def require_solvable(problem: JointProblem, system: BlockSystem) -> None:
    """Refuse blocks whose S is not a covariance matrix, and unpenalised problems without a minimum."""
    if not problem.source.is_semidefinite:
        for block in np.flatnonzero(~semidefinite(system.S, system.offset, system.size)):
            name = problem.source.class_names[system.block_class[block]]
            raise not_semidefinite(name, f"in a block of {system.size[block]} of its variables")
    require_minimum(problem, system)


def require_definite_start(problem: JointProblem, system: BlockSystem, start: FloatArray) -> None:
    """Refuse a warm start that is not positive definite."""
    bad = np.flatnonzero(~factorize(system, start).definite)
    if len(bad):
        name = problem.source.class_names[system.block_class[bad[0]]]
        raise indefinite_start(name, "positive definite")


def require_minimum(problem: JointProblem, system: BlockSystem) -> None:
    """Refuse a class whose S is singular on variables of which neither a pair nor the diagonal is penalised.

    The objective would be unbounded below. Single pairs are checked, and sets of variables with all pairs unpenalised;
    if some pairs of a set are penalised or forbidden, the minimum may or may not exist, which the solver detects.
    """
    if problem.diagonal_penalty > 0:
        return
    if problem.penalty.class_graph is not None and problem.penalty.box_radius(system.n_classes) == 0.0:
        _require_definite_together(problem, system)
    entries = unpenalised_entries(system, problem.penalty)
    if not len(entries):
        return
    from jointglasso.kernels.components import components

    row, column = system.entry_members(entries)
    variance = system.S[system.diagonal]
    perfect = system.S[system.upper[entries]] ** 2 >= variance[row] * variance[column] * (1.0 - 1e-12)
    for e in np.flatnonzero(perfect):
        _require_definite(problem, system, np.array([row[e], column[e]]))
    component = components(len(system.members), row, column)
    size = np.bincount(component)
    n_pairs = np.bincount(component[row], minlength=len(size))
    by_component = np.split(np.argsort(component, kind="stable"), np.cumsum(size)[:-1])
    for c in np.flatnonzero((size > 2) & (n_pairs == size * (size - 1) // 2)):
        _require_definite(problem, system, by_component[c])


def _require_definite_together(problem: JointProblem, system: BlockSystem) -> None:
    """Refuse groups whose objective decreases without end along matrices that differ in no penalised entry.

    Differences between classes are all that is penalised, and they do not change (theory, theorem P2). Groups whose
    classes have different variables are not checked.
    """
    coupling = cast(Coupling, problem.penalty.coupling)
    component = coupling.parts.argmax(axis=1)  # the first class of each component of the class graph
    for group in range(system.n_groups):
        in_group = np.flatnonzero(system.block_group == group)
        members = [system.members[system.member_start[n] : system.member_start[n + 1]] for n in in_group]
        if len(members[0]) < 2 or not all(np.array_equal(members[0], one) for one in members[1:]):
            continue
        penalised, forbidden = _difference_masks(problem, system, in_group)
        for number in np.unique(component[system.block_class[in_group]]):
            blocks = in_group[component[system.block_class[in_group]] == number]
            b = len(members[0])
            S = np.stack([system.S[system.offset[n] : system.offset[n + 1]].reshape(b, b) for n in blocks])
            scale = np.sqrt(np.einsum("kii->i", S))  # one for all classes, so that equal entries remain equal
            S = S / scale / scale[:, None]
            names = [problem.source.class_names[k] for k in system.block_class[blocks]]
            # A sum of semidefinite matrices has their common null space.
            common = np.sum([matrix / np.diagonal(matrix).max() for matrix in S], axis=0)
            rank = int(np.linalg.matrix_rank(common, hermitian=True))
            if rank < b and not forbidden.any():
                raise no_common_minimum(names, f"on {b} variables their covariance matrices have rank {rank} together")
            if is_unbounded(S, penalised, forbidden):
                raise no_common_minimum(names, "their covariance matrices are singular in directions that share them")


def _difference_masks(problem: JointProblem, system: BlockSystem, blocks: IntArray) -> tuple[BoolArray, BoolArray]:
    """(b, b) both: entries whose differences between classes are penalised, and those forbidden in a class.

    The blocks are those of a group, all of the same variables.
    """
    b, first = int(system.size[blocks[0]]), int(system.offset[blocks[0]])
    penalised, forbidden = np.zeros((b, b), dtype=bool), np.zeros((b, b), dtype=bool)
    entries = np.flatnonzero(system.entry_block == blocks[0])
    if len(system.pair_factor):
        entries = entries[system.of_entries(system.pair_coupling)[entries] > 0.0]
    for positions in (system.upper[entries], system.lower[entries]):
        penalised.flat[positions - first] = True
    for block in blocks:
        positions = system.forbidden[system.forbidden_block == block]
        forbidden.flat[positions - system.offset[block]] = True
    np.fill_diagonal(penalised, problem.penalty.fused_diagonal_penalty is not None)
    return penalised, forbidden


def _require_definite(problem: JointProblem, system: BlockSystem, members: IntArray) -> None:
    """Refuse members of one block on which S is singular."""
    block = system.diagonal_block[members[0]]
    slots = members - system.member_start[block]
    b = system.size[block]
    S = system.S[system.offset[block] : system.offset[block + 1]].reshape(b, b)[np.ix_(slots, slots)]
    deviation = np.sqrt(np.diagonal(S))
    # Rank of the correlation matrix: the numerical rank of the covariance matrix depends on the units.
    if np.linalg.matrix_rank(S / deviation / deviation[:, None], hermitian=True) < len(members):
        raise no_minimum(problem.source.class_names[system.block_class[block]])
