"""Index of the variable pairs inside class blocks, and copies between the two triangles of a block.

Long results are written into arrays allocated by NumPy, which uses huge pages where compiled allocation does not: page
faults would take half of the time.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from jointglasso._typing import FloatArray, IntArray
from jointglasso.kernels.jit import njit


class PairIndex(NamedTuple):
    """Pairs of variables that share a block in some class, and the positions of their entries in flat block storage."""

    start: IntArray
    """(P + 1,): CSR start of the entries of each pair."""
    upper: IntArray
    lower: IntArray
    """(E,) both: flat position of each entry in the upper and the lower triangle."""
    block: IntArray
    """(E,): block of each entry."""


@njit
def index_pairs(
    block_of: IntArray,
    slot_of: IntArray,
    start: IntArray,
    members: IntArray,
    offset: IntArray,
    index: PairIndex,
) -> int:
    """Write the `index` of all pairs of variables that share a block, in the order of (i, j); the number of pairs.

    `block_of` and `slot_of` (K, p) are the block of each variable and its row there (-1: isolated). For every variable
    i the sorted members j > i of its blocks in all classes are merged.
    """
    n_classes, p = block_of.shape
    pair_start, upper, lower, entry_block = index
    size = start[1:] - start[:-1]
    pair_start[0] = 0
    open_blocks, cursor, row = np.empty((3, n_classes), np.int64)
    n_pairs = 0
    n_entries = 0
    for i in range(p):
        n_open = 0
        for k in range(n_classes):
            block = block_of[k, i]
            if block >= 0 and slot_of[k, i] + 1 < size[block]:
                open_blocks[n_open] = block
                row[n_open] = slot_of[k, i]
                cursor[n_open] = start[block] + slot_of[k, i] + 1
                n_open += 1
        while n_open > 0:
            j = members[cursor[0]]
            for h in range(1, n_open):
                j = min(j, members[cursor[h]])
            n_remaining = 0
            for h in range(n_open):
                block = open_blocks[h]
                if members[cursor[h]] == j:
                    column = cursor[h] - start[block]
                    upper[n_entries] = offset[block] + row[h] * size[block] + column
                    lower[n_entries] = offset[block] + column * size[block] + row[h]
                    entry_block[n_entries] = block
                    n_entries += 1
                    cursor[h] += 1
                if cursor[h] < start[block + 1]:  # exhausted blocks drop out
                    open_blocks[n_remaining], row[n_remaining], cursor[n_remaining] = block, row[h], cursor[h]
                    n_remaining += 1
            n_open = n_remaining
            n_pairs += 1
            pair_start[n_pairs] = n_entries
    return n_pairs


@njit
def members_of_entries(
    position: IntArray,
    block: IntArray,
    offset: IntArray,
    size: IntArray,
    member_start: IntArray,
    row: IntArray,
    column: IntArray,
) -> None:
    """Write the members in the row and the column of flat positions (E,), given the block of each."""
    for entry in range(position.shape[0]):
        b = block[entry]
        within = position[entry] - offset[b]
        # 32-bit division is several times faster.
        r = np.int64(np.uint32(within) // np.uint32(size[b])) if size[b] < 65536 else within // size[b]
        row[entry] = member_start[b] + r
        column[entry] = member_start[b] + within - r * size[b]


@njit
def mirror_upper(matrix: FloatArray) -> None:
    """Copy the upper triangle of a square matrix onto the lower one, tile by tile, in place."""
    n = matrix.shape[0]
    side = 64
    for first_row in range(0, n, side):
        for first_column in range(first_row, n, side):
            for i in range(first_row, min(first_row + side, n)):
                for j in range(max(first_column, i + 1), min(first_column + side, n)):
                    matrix[j, i] = matrix[i, j]
