"""How the independent groups are cut into pieces of work."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from jointglasso import tuning
from jointglasso._typing import FloatArray, IntArray
from jointglasso.problem import JointProblem
from jointglasso.screening.groups import ClassBlocks


def work_items(blocks: ClassBlocks, *, together: bool) -> list[IntArray]:
    """Groups of each piece of work: every big bundle alone, largest first, then the small ones in batches.

    They do not depend on who does them, so that the solution does not, and what was saved of them is found again.
    """
    if together or blocks.n_groups == 0:
        return [np.arange(blocks.n_groups)]
    if blocks.bundle is not None:
        bundles = replace(blocks, group=blocks.bundle[blocks.group], bundle=None)
        return [np.flatnonzero(np.isin(blocks.bundle, item)) for item in work_items(bundles, together=False)]
    area, cost, alone = blocks.group_area, blocks.group_cost, blocks.group_largest > tuning.BATCHED_BLOCK
    big, small = np.flatnonzero(alone), np.flatnonzero(~alone)
    items: list[IntArray] = [big[[g]] for g in np.argsort(-cost[big], kind="stable")]
    by_cost = small[np.argsort(-cost[small], kind="stable")]
    batch = np.maximum(_full(area[by_cost], tuning.BATCH_ENTRIES), _full(cost[by_cost], tuning.BATCH_COST))
    pieces = np.split(by_cost, np.flatnonzero(np.diff(batch)) + 1)
    return items + [np.sort(piece) for piece in pieces if len(piece)]


def _full(amounts: FloatArray, limit: float) -> FloatArray:
    """How many batches of a size were filled before each of some amounts."""
    filled: FloatArray = (np.cumsum(amounts) - amounts) // limit
    return filled


def gap_shares(blocks: ClassBlocks) -> FloatArray:
    """Share of each group in the gap allowed to the whole problem, by number of variables; they add up to 1."""
    members = blocks.group_members
    return members / max(1, int(members.sum()))


def start_objectives(problem: JointProblem, blocks: ClassBlocks) -> FloatArray:
    """Objective of each group at the diagonal start, an upper bound on its optimum."""
    variance = np.stack([problem.optimal_variance(k) for k in range(problem.source.n_classes)])
    member_class = np.repeat(blocks.block_class, blocks.sizes)
    per_member = problem.weights[member_class] * (1.0 + np.log(variance[member_class, blocks.members]))
    return np.bincount(np.repeat(blocks.group, blocks.sizes), per_member, minlength=blocks.n_groups).astype(float)
