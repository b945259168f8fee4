"""What a piece of work is made of, values that can be pickled, and how the independent groups are cut into pieces."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from jointglasso import tuning
from jointglasso._typing import FloatArray, IntArray
from jointglasso.engine.checkpoint import Checkpoint, Saved
from jointglasso.engine.outcome import Nonzeros
from jointglasso.problem import JointProblem
from jointglasso.screening.dynamic import WaitingPairs
from jointglasso.screening.groups import ClassBlocks
from jointglasso.solvers import GroupSolver


@dataclass(frozen=True)
class WarmStart:
    """Precision matrices to start from."""

    precision: Sequence[Any]
    trusted: bool
    """Whether they come from a solve, so that they, and any blocks of them, are known to be definite."""
    points: Sequence[Any] = ()
    """Dual points of big groups, which hold their W, of the round before."""


@dataclass(frozen=True)
class Shared:
    """What all pieces of work of one round have in common."""

    problem: JointProblem
    method: GroupSolver
    tol: float
    waiting: WaitingPairs | None
    """Pairs cut by a dynamic screen, to be looked at again; None for other screens, whose cuts are right."""
    warm_start: WarmStart | None = None
    checkpoint: Checkpoint | None = None
    """Where long solves leave snapshots."""
    room_for_admm: bool = True
    """Whether big groups may be handed to ADMM, which takes twice the memory."""
    room_for_blocks: bool = True
    """Whether the blocks of every group fit into memory in double precision."""


@dataclass(frozen=True)
class Item:
    """Independent groups to be solved together, each to its share of the gap allowed to the whole problem."""

    number: int
    blocks: ClassBlocks
    share: FloatArray
    rest: float
    """Objective of the rest of the problem, as far as it is known."""
    max_iter: int
    start: Nonzeros | None = None
    """Where an earlier attempt, to a wider gap, ended."""
    saved: Saved | None = None
    """What an earlier run left of it."""
    stays_open: bool = False
    """Whether its blocks are kept at hand when it is solved."""


def waiting_among(deferred: WaitingPairs, members: IntArray, n_variables: int) -> IntArray:
    """Waiting pairs of which both variables are among the members."""
    selected = np.zeros(n_variables, dtype=bool)
    selected[members] = True
    return np.flatnonzero(selected[deferred.rows] & selected[deferred.columns])


def work_items(blocks: ClassBlocks, *, together: bool) -> list[IntArray]:
    """Groups of each piece of work: every big bundle alone, largest first, then the small ones in batches.

    They do not depend on who does them, so that the solution does not, and what was saved of them is found again.
    """
    if together or blocks.n_groups == 0:
        return [np.arange(blocks.n_groups)]
    if blocks.bundle is not None:
        bundles = replace(blocks, group=blocks.bundle[blocks.group], bundle=None)
        return [np.flatnonzero(np.isin(blocks.bundle, item)) for item in work_items(bundles, together=False)]
    area, cost, is_large = blocks.group_area, blocks.group_cost, blocks.group_largest > tuning.BATCHED_BLOCK
    big, small = np.flatnonzero(is_large), np.flatnonzero(~is_large)
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
