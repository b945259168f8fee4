"""Index of the variable pairs inside class blocks, and copies between a block's two triangles."""

from __future__ import annotations

import numpy as np
from numba import njit

from jointglasso._typing import FloatArray, IntArray


@njit(cache=True, nogil=True)
def _walk(
    block_of: IntArray,
    slot_of: IntArray,
    start: IntArray,
    members: IntArray,
    offset: IntArray,
    pair_start: IntArray,
    upper: IntArray,
    lower: IntArray,
    entry_block: IntArray,
    fill: bool,
) -> tuple[int, int]:
    """Merge, for every variable i, the sorted members j > i of its blocks in all classes."""
    n_classes, p = block_of.shape
    cursor = np.empty(n_classes, np.int64)
    n_pairs = 0
    n_entries = 0
    for i in range(p):
        for k in range(n_classes):
            block = block_of[k, i]
            cursor[k] = start[block] + slot_of[k, i] + 1 if block >= 0 else -1
        while True:
            j = p
            for k in range(n_classes):
                if cursor[k] >= 0 and cursor[k] < start[block_of[k, i] + 1]:
                    j = min(j, members[cursor[k]])
            if j == p:
                break
            for k in range(n_classes):
                if cursor[k] >= 0:
                    block = block_of[k, i]
                    if cursor[k] < start[block + 1] and members[cursor[k]] == j:
                        if fill:
                            size = start[block + 1] - start[block]
                            row = slot_of[k, i]
                            column = cursor[k] - start[block]
                            upper[n_entries] = offset[block] + row * size + column
                            lower[n_entries] = offset[block] + column * size + row
                            entry_block[n_entries] = block
                        n_entries += 1
                        cursor[k] += 1
            n_pairs += 1
            if fill:
                pair_start[n_pairs] = n_entries
    return n_pairs, n_entries


@njit(cache=True, nogil=True)
def index_pairs(
    block_of: IntArray, slot_of: IntArray, start: IntArray, members: IntArray, offset: IntArray
) -> tuple[IntArray, IntArray, IntArray, IntArray]:
    """Pairs of variables that share a block, with the place of each copy in flat block storage.

    `block_of` and `slot_of` (K, p) tell the block of each variable and its position there (-1: alone). Returned
    are the CSR start of each pair, the flat positions of its copies in the upper and lower triangles, and the block of
    each copy. Pairs come in the order of (i, j).
    """
    empty = np.empty(0, np.int64)
    n_pairs, n_entries = _walk(block_of, slot_of, start, members, offset, empty, empty, empty, empty, False)
    pair_start = np.zeros(n_pairs + 1, np.int64)
    upper = np.empty(n_entries, np.int64)
    lower = np.empty(n_entries, np.int64)
    entry_block = np.empty(n_entries, np.int64)
    _walk(block_of, slot_of, start, members, offset, pair_start, upper, lower, entry_block, True)
    return pair_start, upper, lower, entry_block


@njit(cache=True, nogil=True)
def _row_of(within: int, size: int) -> int:
    """Row of a place in a block; short integers are divided several times faster."""
    if size < 65536:
        return np.int64(np.uint32(within) // np.uint32(size))  # type: ignore[return-value]
    return within // size


@njit(cache=True, nogil=True)
def members_of_entries(
    position: IntArray, block: IntArray, offset: IntArray, size: IntArray, member_start: IntArray
) -> tuple[IntArray, IntArray]:
    """Members in the row and the column of flat positions, given the block of each."""
    row = np.empty_like(position)
    column = np.empty_like(position)
    for entry in range(position.shape[0]):
        b = block[entry]
        within = position[entry] - offset[b]
        r = _row_of(within, size[b])
        row[entry] = member_start[b] + r
        column[entry] = member_start[b] + within - r * size[b]
    return row, column


@njit(cache=True, nogil=True)
def products_of_members(
    position: IntArray,
    block: IntArray,
    offset: IntArray,
    size: IntArray,
    member_start: IntArray,
    of_member: FloatArray,
    of_block: FloatArray,
) -> FloatArray:
    """``of_block * of_member[row] * of_member[column]`` at flat positions, given the block of each."""
    out = np.empty(position.shape[0])
    for entry in range(position.shape[0]):
        b = block[entry]
        within = position[entry] - offset[b]
        r = _row_of(within, size[b])
        first = member_start[b]
        out[entry] = of_block[b] * of_member[first + r] * of_member[first + within - r * size[b]]
    return out


@njit(cache=True, nogil=True)
def mirror_upper(matrix: FloatArray) -> None:
    """Copy the upper triangle of a square matrix onto the lower one, tile by tile, in place."""
    n = matrix.shape[0]
    side = 64
    for top in range(0, n, side):
        for left in range(top, n, side):
            for i in range(top, min(top + side, n)):
                for j in range(max(left, i + 1), min(left + side, n)):
                    matrix[j, i] = matrix[i, j]
