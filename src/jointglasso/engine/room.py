"""How much memory pieces of work take, and what that leaves."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from jointglasso import tuning
from jointglasso._typing import BoolArray, FloatArray
from jointglasso.engine.pieces import work_items
from jointglasso.screening.groups import ClassBlocks, places_in_blocks
from jointglasso.screening.pairs import PairTable
from jointglasso.solvers import ADMM, GroupSolver


@dataclass(frozen=True)
class Room:
    """What a solve may do with the memory there is."""

    n_jobs: int | None = None
    """Pieces of work at a time."""
    kept_entries: float = tuning.KEPT_ENTRIES
    """Entries of solved blocks that may be kept at hand."""
    for_admm: bool = True
    """Whether a big group that Newton's method finds hard may be handed to ADMM, which takes twice the memory."""
    for_blocks: bool = True
    """Whether the blocks of every group fit in double precision."""


#: More than anybody needs.
AMPLE = Room()


def group_memory(
    blocks: ClassBlocks, method: GroupSolver, dense: BoolArray | bool, big: BoolArray | bool = False
) -> FloatArray:
    """Bytes needed while each group is solved.

    `dense` ones are left to ADMM where the method does so, `big` ones are solved without their blocks.
    """
    bytes_per_entry = getattr(method, "bytes_per_entry", ADMM.bytes_per_entry)  # a method of somebody else may not know
    per_entry = np.where(dense if method.name == "auto" else False, ADMM.bytes_per_entry, bytes_per_entry)
    return np.asarray(np.where(big, tuning.BIG_BYTES, per_entry) * blocks.group_area)


def work_memory(blocks: ClassBlocks, method: GroupSolver, memory: FloatArray) -> FloatArray:
    """Bytes needed for each piece of work, largest first, from those of its groups."""
    if blocks.n_groups == 0:
        return np.zeros(1)
    pieces = work_items(blocks, together=method.lockstep)
    return np.sort([float(memory[groups].sum()) for groups in pieces])[::-1]


def share_out(pieces: FloatArray, n_jobs: int, available: float) -> tuple[int, float]:
    """How many pieces of work, one at least, fit side by side, and the bytes that are left over."""
    needed = np.cumsum(pieces)[: max(1, n_jobs)]
    jobs = max(1, int((needed <= available).sum()))
    return jobs, available - float(needed[jobs - 1])


def kept_entries(free_bytes: float) -> float:
    """Entries of solved blocks for which so many bytes are enough."""
    return min(tuning.KEPT_ENTRIES, max(0.0, free_bytes) / tuning.KEPT_BYTES)


def dense_groups(blocks: ClassBlocks, pairs: PairTable | None) -> BoolArray:
    """Groups most of whose pairs are strong, so that they may be left to ADMM; all, where nothing was scanned."""
    if pairs is None:
        return np.ones(blocks.n_groups, dtype=bool)
    shape = int(blocks.block_class.max(initial=0)) + 1, pairs.n_variables
    block_of, _ = places_in_blocks(blocks.block_class, blocks.sizes, blocks.members, shape)
    i, j = pairs.rows[pairs.strong], pairs.columns[pairs.strong]
    group = np.full(len(i), -1, dtype=np.int64)
    for of_class in block_of:
        together = (of_class[i] == of_class[j]) & (of_class[i] >= 0)
        group[together] = blocks.group[of_class[i[together]]]
    n_strong = np.bincount(group[group >= 0], minlength=blocks.n_groups)
    largest = blocks.group_largest
    n_pairs = np.maximum(largest * (largest - 1) // 2, 1)  # there are more where classes have different blocks
    return np.asarray((n_strong > tuning.DENSE_SHARE * n_pairs) & (largest >= tuning.DENSE_BLOCK))
