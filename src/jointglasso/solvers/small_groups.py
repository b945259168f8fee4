"""Extraction of groups from a system, their schedule on threads, and column sweeps over small groups."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from jointglasso import config
from jointglasso._threads import Workers
from jointglasso._typing import BoolArray, FloatArray, IntArray
from jointglasso.blocks import BlockSystem
from jointglasso.solvers.base import Report, SolverTask


def extract_group(
    task: SolverTask, theta: FloatArray, group: int, limits: FloatArray, max_iter: int
) -> tuple[SolverTask, IntArray | slice]:
    """One group as a separate task with an absolute gap limit, and its positions in flat storage."""
    system, positions = task.system.only_groups(np.array([group]))
    report: Report = task.report if task.system.n_groups == 1 else lambda objective, gap: False

    def keep(group_theta: Callable[[], FloatArray]) -> None:
        def full_theta() -> FloatArray:
            full = theta.copy()
            full[positions] = group_theta()
            return full

        task.keep(full_theta)

    start = theta[positions].copy() if isinstance(positions, slice) else theta[positions]
    subtask = replace(
        task, system=system, start=start, known=None, gap_budget=np.ones(1), tol=float(limits[group]),
        rest=0.0, max_iter=max_iter, absolute=True, report=report, keep=keep,
    )  # fmt: skip
    return subtask, positions


def dense_groups(system: BlockSystem, violates_global: BoolArray) -> BoolArray:
    """(G,): groups of at least `config.SMALL` variables in which most pairs are strong, with dense solutions.

    Newton's active set then contains nearly all pairs, and its face changes in every iteration. Column sweeps, which
    use the face of one column at a time, are not affected; where they do not apply, ADMM costs less.
    """
    if system.size.max(initial=0) < config.SMALL:
        return np.zeros(system.n_groups, dtype=bool)
    n_pairs = system.sum_pairs_per_group(np.ones(system.n_pairs))
    share = system.sum_pairs_per_group(violates_global.astype(float)) / np.maximum(n_pairs, 1.0)
    return np.asarray((share > config.DENSE_FRACTION) & (system.largest_block >= config.SMALL))


def sweep_groups(
    task: SolverTask, theta: FloatArray, inverse: FloatArray, todo: BoolArray, limits: FloatArray, max_sweeps: int
) -> int:
    """Column sweeps over the groups in `todo`, improving `theta` in place; return the maximal number of sweeps."""
    from jointglasso.kernels.small_columns import GroupIndex, SweepLimits, SweepWorkspace, ascend_small_groups

    system, penalty = task.system, task.penalty
    block_start, group_blocks = by_group(system.block_group, system.n_groups)
    n_variables = int(system.members.max()) + 1
    groups = GroupIndex(block_start, group_blocks, system.block_class, system.members, n_variables, system.n_classes)
    box_radius, workspace_size = penalty.box_radius(system.n_classes), penalty.workspace_size(system.n_classes)
    diagonal_penalty, blocks = float(task.diagonal_penalty), system.compiled
    stop = SweepLimits(limits, max_sweeps, penalty.scale, box_radius, diagonal_penalty, *config.COLUMN_TOLERANCE)

    def sweep(selected: BoolArray) -> int:
        workspace = SweepWorkspace.allocate(groups, blocks, workspace_size)
        sweeps = ascend_small_groups(penalty.pair, groups, blocks, stop, theta, inverse, selected, workspace)
        return int(sweeps.max(initial=0))

    return max(Workers(task.n_threads).map(sweep, schedule_groups(system, todo, task.n_threads)))


def schedule_groups(system: BlockSystem, todo: BoolArray, n_threads: int) -> list[BoolArray]:
    """Masks (G,) of the groups of each thread, dealt in order of decreasing cost; one mask if the work is small."""
    cost = system.sum_per_group(system.size.astype(float) ** 4) * todo
    if n_threads == 1 or cost.sum() < config.MIN_COST_FOR_THREADS:
        return [todo]
    order = np.argsort(-cost, kind="stable")
    schedule = []
    for thread in range(n_threads):
        mask = np.zeros_like(todo)
        mask[order[thread::n_threads]] = True
        schedule.append(todo & mask)
    return [share for share in schedule if share.any()]


def by_group(group: IntArray, n_groups: int) -> tuple[IntArray, IntArray]:
    """Items of each group in CSR form: start (G + 1,) and item indices."""
    order = np.argsort(group, kind="stable")
    return np.searchsorted(group[order], np.arange(n_groups + 1)), order
