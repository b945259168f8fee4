"""Estimates of the memory of tasks, and the speed of this machine."""

from __future__ import annotations

import time
from functools import cache

import numpy as np

from jointglasso import config
from jointglasso._lapack import factor_in_place, invert_factor_in_place
from jointglasso._threads import available_cores, single_threaded_blas
from jointglasso._typing import BoolArray, FloatArray, IntArray
from jointglasso.engine.tasks import task_groups
from jointglasso.screening.groups import ClassBlocks, block_index
from jointglasso.screening.pairs import PairTable
from jointglasso.solvers import ADMM, GroupSolver

#: Peak bytes per entry of a group without stored blocks (W and S in single precision, one matrix in double precision),
#: and bytes per entry of a solved task whose blocks are kept: properties of the storage.
_BIG_BYTES, _BYTES_PER_CACHED_ENTRY = 16.0, 50.0


def group_memory(
    blocks: ClassBlocks, method: GroupSolver, dense: BoolArray | bool, big: BoolArray | bool = False
) -> FloatArray:
    """(G,): bytes needed to solve each group.

    `dense` groups are solved by ADMM if the method is "auto", `big` groups without stored blocks.
    """
    bytes_per_entry = getattr(method, "bytes_per_entry", ADMM.bytes_per_entry)  # absent in user-defined solvers
    per_entry = np.where(dense if method.name == "auto" else False, ADMM.bytes_per_entry, bytes_per_entry)
    return np.asarray(np.where(big, _BIG_BYTES, per_entry) * blocks.group_area)


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


def kept_in_memory(area: FloatArray, big: BoolArray, free_bytes: float) -> BoolArray:
    """(T,): tasks whose blocks stay in memory after their solve, from their numbers of entries, largest task first.

    Blocks are kept up to `CACHED_BYTES` in all. W of a large group (`big`), which the next round continues from, is
    kept wherever it fits: it is a quarter of what the solve of the group needs, which is free again by then.
    """
    blocks = np.cumsum(np.where(big, 0.0, _BYTES_PER_CACHED_ENTRY * area))
    W = np.cumsum(np.where(big, float(np.dtype(np.float32).itemsize) * area, 0.0))
    next_area = np.append(area[1:], 0.0)
    released = _BIG_BYTES * np.maximum(area[:1] - next_area, 0.0)  # by the largest task, less the next one's need
    return np.where(big, free_bytes + released >= W, blocks + W <= min(free_bytes, config.CACHED_BYTES))


def dense_groups(blocks: ClassBlocks, pairs: PairTable | None) -> BoolArray:
    """(G,): groups with most pairs outside the dual ball, which may be solved by ADMM; all groups without a scan."""
    if pairs is None:
        return np.ones(blocks.n_groups, dtype=bool)
    largest = blocks.group_largest
    n_pairs = np.maximum(largest * (largest - 1) // 2, 1)  # a lower bound if blocks differ between classes
    n_strong = strong_per_group(blocks, pairs)
    return np.asarray((n_strong > config.DENSE_FRACTION * n_pairs) & (largest >= config.SMALL))


def strong_per_group(blocks: ClassBlocks, pairs: PairTable) -> IntArray:
    """(G,): number of pairs outside the dual ball."""
    shape = int(blocks.block_class.max(initial=0)) + 1, pairs.n_variables
    block_of, _ = block_index(blocks.block_class, blocks.sizes, blocks.members, shape)
    i, j = pairs.rows[pairs.violates_global_condition], pairs.columns[pairs.violates_global_condition]
    group = np.full(len(i), -1, dtype=np.int64)
    for of_class in block_of:
        together = (of_class[i] == of_class[j]) & (of_class[i] >= 0)
        group[together] = blocks.group[of_class[i[together]]]
    return np.bincount(group[group >= 0], minlength=blocks.n_groups)


@cache
def factorization_rate() -> float:
    """Speed of Cholesky factorization and inversion on this machine, in b^3 per second; measured once."""
    b, best = 400, np.inf
    matrix = np.eye(b) + 0.5 / b
    with single_threaded_blas():
        for _ in range(5):
            work = matrix.copy()
            began = time.perf_counter()
            factor_in_place(work)
            invert_factor_in_place(work)
            best = min(best, time.perf_counter() - began)
    return available_cores() * float(b) ** 3 / best
