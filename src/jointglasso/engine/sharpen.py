"""Proving the cuts of a dynamic screen, if need be by a sharper solution."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from jointglasso import tuning
from jointglasso._typing import IntArray
from jointglasso.certificate import Bounds
from jointglasso.engine.executors import Tell
from jointglasso.engine.recheck import Cuts, Violated
from jointglasso.rounding import with_rounding
from jointglasso.solvers import GroupSolver, SolverResult, SolverTask


def prove_cuts(
    task: SolverTask, method: GroupSolver, result: SolverResult, cuts: Cuts | None, tell: Tell
) -> tuple[SolverResult, Bounds, Violated, bool]:
    """Which waiting pairs fail the optimality conditions, and whether the gap proves that none does.

    Also the bounds of the result with what rounding may add to them: they are what the proof stands on. Where nothing
    fails but the gap is too wide to prove it, the groups in question are solved more sharply. Big groups are not: there
    it would cost as much again as the solve itself, for a proof about single entries; the gap of the whole problem is
    certified without.
    """
    system, bounds = task.system, _rounded(task, result)
    if cuts is None:
        nothing = np.empty(0, dtype=np.int64)
        return result, bounds, (nothing, nothing, np.empty((0, system.n_classes), dtype=bool)), True
    violated, blurred = cuts.violated(result.theta, bounds), cuts.groups_unproved(result.theta, bounds)
    worth_it = system.size.max(initial=0) <= tuning.BATCHED_BLOCK and not method.lockstep
    for most in tuning.SHARPENINGS:
        left = task.max_iter - result.n_iter
        if not len(blurred) or len(violated[0]) or not worth_it or left <= 0 or tell():
            break
        sharper = _sharpened(task, method, result, blurred, min(most, left), tell)
        if sharper is result:
            continue
        result, bounds = sharper, _rounded(task, sharper)
        violated, blurred = cuts.violated(result.theta, bounds), cuts.groups_unproved(result.theta, bounds)
    return result, bounds, violated, not len(blurred)


def _rounded(task: SolverTask, result: SolverResult) -> Bounds:
    return with_rounding(task.system, result.theta, task.penalty, task.diagonal_penalty, result.bounds)


def _sharpened(
    task: SolverTask, method: GroupSolver, result: SolverResult, groups: IntArray, max_iter: int, tell: Tell
) -> SolverResult:
    """Solve some groups again, from where they are, to a far smaller gap."""
    limits = np.full(task.system.n_groups, np.inf)
    limits[groups] = 1e-7 * result.bounds.gap[groups]
    sharp = replace(
        task, start=result.theta, known=result.bounds, warm=True, share=limits, tol=1.0, absolute=True,
        max_iter=max_iter, keep=lambda theta: None, report=lambda objective, gap: tell(),
    )  # fmt: skip
    area = task.system.sum_per_group(task.system.size.astype(float) ** 2)
    if len(groups) <= tuning.FEW_GROUPS and area[groups].sum() < tuning.SMALL_SHARE * area.sum():
        return _sharpened_one_by_one(sharp, method, result, groups, tell)
    again = method.solve(sharp)
    if not (again.bounds.gap <= result.bounds.gap).all():
        return result
    return replace(again, n_iter=result.n_iter, stopped_by=result.stopped_by, methods=result.methods)


def _sharpened_one_by_one(
    sharp: SolverTask, method: GroupSolver, result: SolverResult, groups: IntArray, tell: Tell
) -> SolverResult:
    """As `_sharpened`, without another look at all the other groups."""
    theta, bounds = result.theta.copy(), result.bounds
    for group in groups.tolist():
        if tell():
            break
        system, inside = sharp.system.only_group(group)
        blocks = sharp.system.block_group == group
        known = bounds.of_group(group, blocks, inside)
        alone = replace(sharp, system=system, start=theta[inside], known=known, share=sharp.share[[group]])
        again = method.solve(alone)
        if again.bounds.gap[0] < bounds.gap[group]:
            theta[inside] = again.theta
            bounds = bounds.with_group(group, blocks, inside, again.bounds)
    return result if bounds is result.bounds else replace(result, theta=theta, bounds=bounds)
