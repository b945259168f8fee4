"""From the gaps of the groups to the certificate of the whole problem."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from jointglasso._typing import FloatArray
from jointglasso.certificate import Bounds, bound_groups, certain_edges
from jointglasso.engine.outcome import Opened, Outcome
from jointglasso.engine.recheck import respects_cuts
from jointglasso.engine.runner import GroupRunner
from jointglasso.engine.screen import Screen
from jointglasso.problem import JointProblem
from jointglasso.rounding import with_rounding
from jointglasso.solution import Certificate

#: Relative rounding of NumPy's pairwise sums of logarithms.
_SUMS = 32 * float(np.finfo(np.float64).eps)


def certify(
    problem: JointProblem, runner: GroupRunner, outcomes: list[Outcome], screen: Screen
) -> tuple[list[Outcome], Certificate]:
    """Add up the groups' gaps; entries outside the blocks are proved zero by the screen, if that is proved right.

    The outcomes come back with what the certificate proves about their entries.
    """
    doubtful = screen.ties()
    if not all(outcome.proved for outcome in outcomes):
        outcomes = _bound_whole(problem, runner, outcomes)
        doubtful += screen.doubtful_cuts()
    n_classes, p = problem.source.n_classes, problem.source.n_variables
    inside = sum(o.n_entries for o in outcomes)
    present, absent = sum(o.n_present for o in outcomes), sum(o.n_absent for o in outcomes)
    cut = n_classes * p * (p - 1) // 2 - inside
    doubtful = min(doubtful, cut)  # some may be counted twice
    group_gaps = np.zeros(runner.blocks.n_groups)
    for outcome in outcomes:
        # The objective may be as much too small as the dual value too large.
        group_gaps[runner.groups[outcome.number]] = outcome.gap + 2.0 * outcome.rounding
    objective = runner.settled + math.fsum(float(o.objective.sum()) for o in outcomes)
    rounding = math.fsum(float(o.rounding.sum()) for o in outcomes) + _rounding_of_sums(problem, outcomes)
    certificate = Certificate(
        objective=objective + rounding,
        gap=math.fsum(float(o.gap.sum()) for o in outcomes) + 2.0 * rounding,
        rounding=math.fsum(float(o.raised.sum()) for o in outcomes) + 2.0 * rounding,
        group_gaps=group_gaps[runner.blocks.by_cost],
        unit=problem.unit,
        edges_present=present,
        edges_absent=absent + cut - doubtful,
        edges_undetermined=inside - present - absent + doubtful,
    )
    return outcomes, certificate


def _rounding_of_sums(problem: JointProblem, outcomes: list[Outcome]) -> float:
    """Bound on the rounding of the variables that are alone in their class, and of the sum over the groups."""
    terms = sum(float(np.abs(o.objective).sum()) for o in outcomes)
    for k, weight in enumerate(problem.weights):
        terms += weight * float((1.0 + np.abs(np.log(problem.optimal_variance(k)))).sum())
    return _SUMS * float(terms)


def _bound_whole(problem: JointProblem, runner: GroupRunner, outcomes: list[Outcome]) -> list[Outcome]:
    """Bounds by a dual point that respects the pairs cut by a dynamic screen, without any proof about the cuts.

    Groups may yet be tied together, so only the gap of the whole bounds anything about single entries.
    """
    gaps: list[FloatArray] = []
    at_hand: tuple[Opened, Bounds] | None = None  # of the last outcome: blocks are too big to keep them all
    for opened in runner.reopen(outcomes):
        at_hand = opened, _bounds_with_cuts(problem, opened)
        gaps.append(at_hand[1].gap)
    total = math.fsum(float(gap.sum()) for gap in gaps)
    weakened = []
    for outcome, gap in zip(reversed(outcomes), reversed(gaps), strict=True):
        if at_hand is None:
            opened = next(runner.reopen([outcome]))
            at_hand = opened, _bounds_with_cuts(problem, opened)
        weakened.append(_with_radius(problem, outcome, at_hand[0], gap, at_hand[1].dual, total))
        at_hand = None
    return weakened[::-1]


def _with_radius(
    problem: JointProblem, outcome: Outcome, opened: Opened, gap: FloatArray, dual: FloatArray, radius: float
) -> Outcome:
    """An outcome with the gap of each of its groups, and what a gap of the whole proves about its entries."""
    system, theta = opened.system, opened.theta
    edges = certain_edges(system, theta, dual, np.full_like(gap, radius), problem.penalty, cuts_proved=False)
    entries = np.flatnonzero(system.gather(theta))
    proved = np.concatenate([edges.present[entries], np.zeros(len(system.members), dtype=bool)])
    return replace(
        outcome,
        gap=gap,
        nonzeros=replace(outcome.nonzeros, proved=proved),
        n_present=int(edges.present.sum()),
        n_absent=int(edges.absent.sum()),
    )


def _bounds_with_cuts(problem: JointProblem, opened: Opened) -> Bounds:
    system, theta, bounds, spent = opened.system, opened.theta, opened.bounds, opened.spent
    if spent.any() and not respects_cuts(system, theta, bounds.dual, spent, problem.penalty):
        bounds = bound_groups(
            system, theta, problem.penalty, problem.diagonal_penalty, factor=bounds.factor, spent=spent, rescue=True
        )
    return with_rounding(system, theta, problem.penalty, problem.diagonal_penalty, bounds)
