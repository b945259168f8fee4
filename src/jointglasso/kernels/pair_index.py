"""Index of the variable pairs inside class blocks.

Long results are written into arrays allocated by NumPy, which uses huge pages where compiled allocation does not: page
faults would take half of the time.
"""

from __future__ import annotations

import numpy as np

from jointglasso._typing import IntArray
from jointglasso.kernels.jit import njit


@njit
def index_pairs(
    block_of: IntArray,
    slot_of: IntArray,
    start: IntArray,
    members: IntArray,
    offset: IntArray,
    scratch: IntArray,
    pair_start: IntArray,
    entries: IntArray,
) -> int:
    """Index all pairs of variables that share a block, in the order of (i, j); returns their number P.

    `block_of` and `slot_of` (K, p) are the block of each variable and its row there (-1: isolated); `scratch` is
    (3, K). For every variable i the sorted members j > i of its blocks in all classes are merged. Written are
    `pair_start` (P + 1,), the CSR start of the entries of each pair, and for each of the E entries its flat positions
    in the upper and the lower triangle and its block: `entries` (3, E).
    """
    n_classes, p = block_of.shape
    open_blocks, cursor, row = scratch[0], scratch[1], scratch[2]
    upper, lower, entry_block = entries[0], entries[1], entries[2]
    pair_start[0] = 0
    n_pairs = 0
    n_entries = 0
    for i in range(p):
        n_open = 0
        for k in range(n_classes):
            block = block_of[k, i]
            if block >= 0 and start[block] + slot_of[k, i] + 1 < start[block + 1]:
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
                    column, width = cursor[h] - start[block], start[block + 1] - start[block]
                    upper[n_entries] = offset[block] + row[h] * width + column
                    lower[n_entries] = offset[block] + column * width + row[h]
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
