"""The certificate of the full problem, from the duality gaps of the groups."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from jointglasso import config
from jointglasso._typing import FloatArray, IntArray
from jointglasso.blocks import build_system
from jointglasso.duality import DualityGap, bound_groups, certified_edges, gap_radii
from jointglasso.engine.equalities import certified_equalities
from jointglasso.engine.recheck import NO_INFEASIBILITY, DualInfeasibility
from jointglasso.engine.runner import GroupRunner
from jointglasso.engine.screening import Screen
from jointglasso.engine.solve_big_task import AnyCachedBlocks, CachedBigBlocks
from jointglasso.engine.solve_sparse_task import CachedSparseBlocks
from jointglasso.engine.task_result import TaskResult, flat_from_precisions, sparse_matrices
from jointglasso.problem import JointProblem
from jointglasso.rounding import with_rounding
from jointglasso.solution import Certificate

#: Relative rounding error of NumPy's pairwise sums of logarithms.
_SUMS = 32 * float(np.finfo(np.float64).eps)


def certify(
    problem: JointProblem, runner: GroupRunner, outcomes: list[TaskResult], screen: Screen
) -> tuple[list[TaskResult], Certificate]:
    """Sum the gaps of the groups; entries outside the blocks are certified zeros if the screening is certified.

    Also returns the outcomes, updated with the edges that the certificate proves.
    """
    n_uncertified = screen.n_borderline()
    if not all(outcome.proved for outcome in outcomes):
        outcomes = _bound_full_problem(problem, runner, outcomes)
        if not np.isfinite([o.gap.sum() for o in outcomes]).all():
            outcomes = _bound_on_safe_partition(problem, outcomes, screen)
        n_uncertified += screen.n_unverified()
    inside = sum(o.n_entries for o in outcomes)
    present, absent = sum(o.n_present for o in outcomes), sum(o.n_absent for o in outcomes)
    cut = _n_possible_edges(problem) - inside
    n_uncertified = min(n_uncertified, cut)  # some may be counted twice
    group_gaps = np.zeros(runner.blocks.n_groups)
    for outcome in outcomes:
        # The objective may be too small by its rounding error, and the dual value too large by as much.
        group_gaps[runner.groups[outcome.number]] = outcome.gap + 2.0 * outcome.rounding
    objective = runner.isolated_objective + math.fsum(float(o.objective.sum()) for o in outcomes)
    rounding = math.fsum(float(o.rounding.sum()) for o in outcomes) + _rounding_of_sums(problem, outcomes)
    certificate = Certificate(
        objective=objective + rounding,
        gap=math.fsum(float(o.gap.sum()) for o in outcomes) + 2.0 * rounding,
        rounding=math.fsum(float(o.raised.sum()) for o in outcomes) + 2.0 * rounding,
        group_gaps=group_gaps[runner.blocks.by_cost],
        unit=problem.unit,
        edges_present=present,
        edges_absent=absent + cut - n_uncertified,
        edges_undetermined=inside - present - absent + n_uncertified,
    )
    return outcomes, certificate


def _n_possible_edges(problem: JointProblem) -> int:
    """Number of possible edges: pairs of variables present in a class, summed over the classes."""
    source, absent = problem.source, problem.source.absent
    lacking = [0] * source.n_classes if absent is None else absent.sum(axis=1).tolist()
    return sum((source.n_variables - n) * (source.n_variables - n - 1) // 2 for n in lacking)


def _rounding_of_sums(problem: JointProblem, outcomes: list[TaskResult]) -> float:
    """Bound on the rounding error of the objective of the singletons, and of the sum over the groups."""
    terms = sum(float(np.abs(o.objective).sum()) for o in outcomes)
    for k, weight in enumerate(problem.weights):
        terms += weight * float((1.0 + np.abs(np.log(problem.optimal_variance(k)))).sum())
    return _SUMS * float(terms)


def _bound_full_problem(problem: JointProblem, runner: GroupRunner, outcomes: list[TaskResult]) -> list[TaskResult]:
    """Bounds of the full problem from a dual point over all classes, without certified screening.

    A non-zero dual entry at a screened-out position is infeasible. It is charged to the gap to second order and couples
    the groups: only the total gap then bounds single entries.
    """
    gaps: list[FloatArray] = []
    infeasible: list[DualInfeasibility] = []
    cached: list[
        tuple[AnyCachedBlocks, DualityGap] | None
    ] = []  # None if the blocks are not in memory: not all would fit
    for outcome, cached_blocks in zip(outcomes, runner.rebuild(outcomes), strict=True):
        bounds, infeasibility = _bounds_with_cuts(problem, cached_blocks)
        cached.append(None if outcome.cached_blocks is None else (cached_blocks, bounds))
        gaps.append(bounds.gap)
        infeasible.append(infeasibility)
    gaps = _with_leaks(problem, outcomes, gaps, infeasible)
    total = math.fsum(float(gap.sum()) for gap in gaps)
    updated = []
    for outcome, gap, blocks_and_bounds in zip(outcomes, gaps, cached, strict=True):
        if blocks_and_bounds is None:
            cached_blocks = next(runner.rebuild([outcome]))
            blocks_and_bounds = cached_blocks, _bounds_with_cuts(problem, cached_blocks)[0]
        updated.append(_with_radius(problem, outcome, blocks_and_bounds[0], gap, blocks_and_bounds[1].dual, total))
    return updated


def _bound_on_safe_partition(problem: JointProblem, outcomes: list[TaskResult], screen: Screen) -> list[TaskResult]:
    """Bounds for iterates far from the optimum, on a statically screened partition, which has a feasible dual point.

    Its total gap is divided equally among the groups. Skipped if its blocks are large.
    """
    blocks = screen.safe_partition().class_blocks
    if float((blocks.sizes.astype(float) ** 2).sum()) > config.SAFE_ENTRIES:
        return outcomes
    system = build_system(problem.source, blocks, problem.weights, problem.pair_weights)
    theta = np.zeros(system.S.shape)
    theta[system.diagonal] = 1.0 / system.optimal_variance(problem.diagonal_penalty)
    no_singletons: list[IntArray] = [np.empty(0, dtype=np.int64)] * problem.source.n_classes
    precision = sparse_matrices(problem, [o.nonzeros for o in outcomes], no_singletons)[0]
    inside = flat_from_precisions(system, precision, problem.source.n_variables)
    theta = np.where(inside != 0.0, inside, theta)
    bounds = bound_groups(system, theta, problem.penalty, problem.diagonal_penalty, scale_to_feasible=True)
    bounds = with_rounding(system, theta, problem.penalty, problem.diagonal_penalty, bounds)
    n_groups = sum(len(o.gap) for o in outcomes)
    return [replace(o, gap=np.full(len(o.gap), bounds.total_gap / n_groups)) for o in outcomes]


def _with_leaks(
    problem: JointProblem, outcomes: list[TaskResult], gaps: list[FloatArray], infeasible: list[DualInfeasibility]
) -> list[FloatArray]:
    """Gaps of the groups, increased by the dual infeasibility between the blocks of each class.

    Let D = Theta^(1/2) R Theta^(1/2) be the block-diagonal residual of a class, and E the contribution of the
    infeasible entries, which lie between blocks. The gap is the sum of f(m) = m - log(1 + m) over the eigenvalues m of
    D + E; its derivative at D along E vanishes, and its second derivative is at most (1 - |D + t E|)^-2. No eigenvalue
    of D is below -s, with s from the gaps (`gap_radii`), so that the gap grows by at most |E|^2 / 2 / (1 - s - |E|)^2.
    |E| is at most the sum over the infeasible entries of sqrt(2 theta_ii theta_jj) times their absolute value.
    """
    diagonal = 1.0 / np.stack([problem.optimal_variance(k) for k in range(problem.source.n_classes)])
    for outcome in outcomes:
        n = outcome.nonzeros
        on_diagonal = n.row == n.column
        diagonal[n.block_class[on_diagonal], n.row[on_diagonal]] = n.value[on_diagonal]
    sizes = [np.abs(e.value) * np.sqrt(2.0 * diagonal[e.cls, e.i] * diagonal[e.cls, e.j]) for e in infeasible]
    largest = max((float(gap.max(initial=0.0)) for gap in gaps), default=0.0)
    gaps = [gap.copy() for gap in gaps]
    for k, weight in enumerate(problem.weights):
        norm = math.fsum(float(size[e.cls == k].sum()) for size, e in zip(sizes, infeasible, strict=True))
        if norm == 0.0:
            continue
        _, s = gap_radii(np.array([largest]), np.array([weight]))
        slack = 1.0 - float(s[0]) - norm
        increase = weight * 0.5 * (norm / slack) ** 2 * (1.0 + 1e-9) if slack > 0.0 else np.inf
        for gap, size, e in zip(gaps, sizes, infeasible, strict=True):
            of_class = e.cls == k
            np.add.at(gap, e.group[of_class], increase * (size[of_class] / norm))
    return gaps


def _with_radius(
    problem: JointProblem,
    outcome: TaskResult,
    cached_blocks: AnyCachedBlocks,
    gap: FloatArray,
    dual: FloatArray,
    radius: float,
) -> TaskResult:
    """An outcome with the gap of each of its groups, and the edges certified by `radius`, the total gap."""
    if isinstance(cached_blocks, CachedBigBlocks | CachedSparseBlocks):
        return cached_blocks.with_radius(outcome, gap, radius)
    system, theta = cached_blocks.system, cached_blocks.theta
    radii = np.full_like(gap, radius)
    edges = certified_edges(system, theta, dual, radii, problem.penalty, screening_proved=False)
    entries = np.flatnonzero(system.gather(theta))
    proved = np.concatenate([edges.present[entries], np.zeros(len(system.members), dtype=bool)])
    return replace(
        outcome,
        gap=gap,
        nonzeros=replace(outcome.nonzeros, proved=proved),
        n_present=int(edges.present.sum()),
        n_absent=int(edges.absent.sum()),
        certified_equal=certified_equalities(system, theta, edges, problem.penalty, screening_proved=False),
    )


def _bounds_with_cuts(problem: JointProblem, cached_blocks: AnyCachedBlocks) -> tuple[DualityGap, DualInfeasibility]:
    """Bounds of the groups from a dual point over all classes, and its infeasibility at screened-out entries."""
    if isinstance(cached_blocks, CachedBigBlocks | CachedSparseBlocks):
        return cached_blocks.with_cuts()
    system, theta, bounds = cached_blocks.system, cached_blocks.theta, cached_blocks.bounds
    if cached_blocks.screening_check is None:
        return bounds, NO_INFEASIBILITY
    entries, values, infeasible = cached_blocks.screening_check.subgradient(theta, bounds)
    if not len(infeasible.value) and cached_blocks.screening_check.holds_already(bounds, entries, values):
        return bounds, infeasible
    bounds = bound_groups(
        system,
        theta,
        problem.penalty,
        problem.diagonal_penalty,
        factor=bounds.factor,
        subgradient_override=(entries, values),
    )
    return with_rounding(system, theta, problem.penalty, problem.diagonal_penalty, bounds), infeasible
