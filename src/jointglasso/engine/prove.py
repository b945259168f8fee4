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
from jointglasso.solution import Certificate


def certify(
    problem: JointProblem, runner: GroupRunner, outcomes: list[Outcome], screen: Screen
) -> tuple[list[Outcome], Certificate]:
    """Add up the groups' gaps; entries outside the blocks are proved zero by the screen, if that is proved right.

    The outcomes come back with what the certificate proves about their entries.
    """
    doubtful = 0
    if not all(outcome.proved for outcome in outcomes):
        outcomes = _bound_whole(problem, runner, outcomes)
        doubtful = screen.doubtful_cuts()
    n_classes, p = problem.source.n_classes, problem.source.n_variables
    inside = sum(o.n_entries for o in outcomes)
    present, absent = sum(o.n_present for o in outcomes), sum(o.n_absent for o in outcomes)
    group_gaps = np.zeros(runner.blocks.n_groups)
    for outcome in outcomes:
        group_gaps[runner.groups[outcome.number]] = outcome.gap
    certificate = Certificate(
        objective=runner.settled + math.fsum(float(o.objective.sum()) for o in outcomes),
        gap=math.fsum(float(o.gap.sum()) for o in outcomes),
        group_gaps=group_gaps[runner.blocks.by_cost],
        edges_present=present,
        edges_absent=absent + n_classes * p * (p - 1) // 2 - inside - doubtful,
        edges_undetermined=inside - present - absent + doubtful,
    )
    return outcomes, certificate


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
    system, theta, dual, spent = opened.system, opened.theta, opened.bounds.dual, opened.spent
    if not spent.any() or respects_cuts(system, theta, dual, spent, problem.penalty):
        return opened.bounds
    return bound_groups(
        system,
        theta,
        problem.penalty,
        problem.diagonal_penalty,
        factor=opened.bounds.factor,
        spent=spent,
        rescue=True,
    )
