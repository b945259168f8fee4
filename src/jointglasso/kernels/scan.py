"""Entries of covariance matrices: one pass for the pairs above a threshold, and rows read from the upper triangle."""

from __future__ import annotations

from typing import Any

import numpy as np

from jointglasso._typing import BoolArray, FloatArray, IntArray
from jointglasso.kernels.jit import njit

#: Entries are counted in runs of this length, a loop that vectorises; only runs with a hit are searched entry by entry.
_RUN = 128


@njit
def mark_above(
    tile: Any,
    row_limit: Any,
    column_limit: Any,
    slack: Any,
    upper_only: bool,
    seen: BoolArray,
    hits: IntArray,
    n_hits: int,
) -> int:
    """Append the flat position of every entry with ``|x_ij| + slack > row_limit_i column_limit_j`` not `seen` yet.

    `seen` and `hits` are scratch arrays of at least the tile's size; the new number of hits is returned. Values and
    limits have one precision, single or double.
    """
    n_rows, n_columns = tile.shape
    for row in range(n_rows):
        values, limit = tile[row], row_limit[row]
        for first in range(row + 1 if upper_only else 0, n_columns, _RUN):
            run = values[first : min(first + _RUN, n_columns)]
            run_limit = column_limit[first : first + run.shape[0]]
            count = np.int32(0)  # 32 bits: as many lanes as operands in single precision
            for slot in range(run.shape[0]):
                count += np.int32(abs(run[slot]) + slack > limit * run_limit[slot])
            if count == 0:
                continue
            for slot in range(run.shape[0]):
                position = row * n_columns + first + slot
                if abs(run[slot]) + slack > limit * run_limit[slot] and not seen[position]:
                    seen[position] = True
                    hits[n_hits] = position
                    n_hits += 1
    return n_hits


@njit
def take_upper(matrix: FloatArray, rows: IntArray, columns: IntArray, out: FloatArray) -> None:
    """``out[a, b] = matrix[rows[a], columns[b]]``, read from the upper triangle."""
    for a in range(rows.shape[0]):
        row = matrix[rows[a]]
        for b in range(columns.shape[0]):
            out[a, b] = row[columns[b]] if rows[a] <= columns[b] else matrix[columns[b], rows[a]]
