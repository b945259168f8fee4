"""The certificate of the full problem, from the duality gaps of the groups."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from jointglasso._typing import FloatArray
from jointglasso.blocks import build_system
from jointglasso.duality import gap_radii
from jointglasso.engine.recheck import DualInfeasibility
from jointglasso.engine.runner import GroupRunner
from jointglasso.engine.screening import Screen
from jointglasso.engine.task_result import TaskResult
from jointglasso.problem import JointProblem
from jointglasso.rounding import rounded_bounds
from jointglasso.solution import Certificate

#: Block entries up to which a final attempt at a finite gap is made: a second.
_SAFE_ENTRIES = 2e6

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
    n_screened_out = _n_possible_edges(problem) - inside
    n_uncertified = min(n_uncertified, n_screened_out)  # some may be counted twice
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
        edge_gap=min((o.edge_gap for o in outcomes), default=np.inf),
        edges_present=present,
        edges_absent=absent + n_screened_out - n_uncertified,
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
    of_classes = problem.weights * (1.0 + np.abs(problem.log_variances)).sum(axis=1)
    return _SUMS * float(sum(of_classes, start=terms))


def _bound_full_problem(problem: JointProblem, runner: GroupRunner, outcomes: list[TaskResult]) -> list[TaskResult]:
    """Bounds of the full problem from a dual point over all classes, without certified screening.

    A non-zero dual entry at a screened-out position is infeasible. It raises the gap to second order and couples
    the groups: only the total gap then bounds single entries.
    """
    gaps: list[FloatArray] = []
    infeasible: list[DualInfeasibility] = []
    for blocks in runner.rebuild(outcomes):
        bounds, infeasibility = blocks.full_bounds
        gaps.append(bounds.gap)
        infeasible.append(infeasibility)
    gaps = _with_infeasibility(problem, outcomes, gaps, infeasible)
    total = math.fsum(float(gap.sum()) for gap in gaps)
    # Blocks that do not all fit into memory are built again.
    return [
        next(runner.rebuild([outcome])).with_radius(outcome, gap, total)
        for outcome, gap in zip(outcomes, gaps, strict=True)
    ]


def _bound_on_safe_partition(problem: JointProblem, outcomes: list[TaskResult], screen: Screen) -> list[TaskResult]:
    """Bounds for iterates far from the optimum, on a statically screened partition, which has a feasible dual point.

    Its total gap is divided equally among the groups. Skipped if its blocks are large.
    """
    blocks = screen.safe_partition().class_blocks
    if float((blocks.sizes.astype(float) ** 2).sum()) > _SAFE_ENTRIES:
        return outcomes
    system = build_system(problem.source, blocks, problem.weights, problem.pair_weights)
    theta = np.zeros(system.S.shape)
    theta[system.diagonal] = 1.0 / system.optimal_variance(problem.diagonal_penalty)
    for outcome in outcomes:
        inside = outcome.nonzeros.flat(system)
        theta = np.where(inside != 0.0, inside, theta)
    bounds = rounded_bounds(system, theta, problem.penalty, problem.diagonal_penalty, scale_to_feasible=True)
    n_groups = sum(len(o.gap) for o in outcomes)
    return [replace(o, gap=np.full(len(o.gap), bounds.total_gap / n_groups)) for o in outcomes]


def _with_infeasibility(
    problem: JointProblem, outcomes: list[TaskResult], gaps: list[FloatArray], infeasible: list[DualInfeasibility]
) -> list[FloatArray]:
    """Gaps of the groups, increased by the dual infeasibility between the blocks of each class.

    Let D = Theta^(1/2) R Theta^(1/2) be the block-diagonal residual of a class, and E the contribution of the
    infeasible entries, which lie between blocks. The gap is the sum of f(m) = m - log(1 + m) over the eigenvalues m of
    D + E; its derivative at D along E vanishes, and its second derivative is at most (1 - |D + t E|)^-2. No eigenvalue
    of D is below -s, with s from the gaps (`gap_radii`), so that the gap grows by at most |E|^2 / 2 / (1 - s - |E|)^2.
    |E| is at most the sum over the infeasible entries of sqrt(2 theta_ii theta_jj) times their absolute value.
    """
    diagonal = 1.0 / problem.optimal_variances
    for outcome in outcomes:
        n = outcome.nonzeros
        on_diagonal = n.row == n.column
        diagonal[n.cls[on_diagonal], n.row[on_diagonal]] = n.value[on_diagonal]
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
