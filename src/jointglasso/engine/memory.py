"""Memory estimates of tasks, and the memory budget of a solve."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from jointglasso import config
from jointglasso._typing import BoolArray, FloatArray
from jointglasso.engine.tasks import task_groups
from jointglasso.screening.groups import ClassBlocks, block_index
from jointglasso.screening.pairs import PairTable
from jointglasso.solvers import ADMM, GroupSolver


@dataclass(frozen=True)
class MemoryPlan:
    """Concurrency and storage that the available memory permits."""

    n_jobs: int | None = None
    """Number of concurrent tasks."""
    cached_entries: float = config.CACHED_ENTRIES
    """Number of entries of solved blocks that may stay in memory."""
    for_admm: bool = True
    """Whether a large group on which Newton's method is slow may be solved by ADMM, which takes twice the memory."""
    for_blocks: bool = True
    """Whether the blocks of every group fit in double precision."""
    sparse: BoolArray | None = None
    """(G,): groups to be solved in sparse storage; None if there are none."""
    for_dense: bool = True
    """Whether these groups fit as dense blocks, too."""


#: No memory limit.
UNLIMITED = MemoryPlan()


def group_memory(
    blocks: ClassBlocks, method: GroupSolver, dense: BoolArray | bool, big: BoolArray | bool = False
) -> FloatArray:
    """(G,): bytes needed to solve each group.

    `dense` groups are solved by ADMM if the method is "auto", `big` groups without stored blocks.
    """
    bytes_per_entry = getattr(method, "bytes_per_entry", ADMM.bytes_per_entry)  # absent in user-defined solvers
    per_entry = np.where(dense if method.name == "auto" else False, ADMM.bytes_per_entry, bytes_per_entry)
    return np.asarray(np.where(big, config.BIG_BYTES, per_entry) * blocks.group_area)


def work_memory(blocks: ClassBlocks, method: GroupSolver, memory: FloatArray) -> FloatArray:
    """Bytes needed by each task, in decreasing order, from the `memory` (G,) of its groups."""
    if blocks.n_groups == 0:
        return np.zeros(1)
    pieces = task_groups(blocks, together=method.lockstep)
    return np.sort([float(memory[groups].sum()) for groups in pieces])[::-1]


def n_concurrent(pieces: FloatArray, n_jobs: int, available: float) -> tuple[int, float]:
    """Number of tasks, at least one, that fit into memory concurrently, and the remaining bytes."""
    needed = np.cumsum(pieces)[: max(1, n_jobs)]
    jobs = max(1, int((needed <= available).sum()))
    return jobs, available - float(needed[jobs - 1])


def cached_entries(free_bytes: float) -> float:
    """Number of entries of solved blocks that fit into `free_bytes`."""
    return min(config.CACHED_ENTRIES, max(0.0, free_bytes) / config.CACHED_BYTES)


def dense_groups(blocks: ClassBlocks, pairs: PairTable | None) -> BoolArray:
    """(G,): groups with most pairs outside the dual ball, which may be solved by ADMM; all groups without a scan."""
    if pairs is None:
        return np.ones(blocks.n_groups, dtype=bool)
    shape = int(blocks.block_class.max(initial=0)) + 1, pairs.n_variables
    block_of, _ = block_index(blocks.block_class, blocks.sizes, blocks.members, shape)
    i, j = pairs.rows[pairs.violates_global_condition], pairs.columns[pairs.violates_global_condition]
    group = np.full(len(i), -1, dtype=np.int64)
    for of_class in block_of:
        together = (of_class[i] == of_class[j]) & (of_class[i] >= 0)
        group[together] = blocks.group[of_class[i[together]]]
    n_strong = np.bincount(group[group >= 0], minlength=blocks.n_groups)
    largest = blocks.group_largest
    n_pairs = np.maximum(largest * (largest - 1) // 2, 1)  # a lower bound if blocks differ between classes
    return np.asarray((n_strong > config.DENSE_FRACTION * n_pairs) & (largest >= config.DENSE_BLOCK))
