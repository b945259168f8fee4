"""One pass over the entries of a covariance matrix: pairs above a threshold."""

from __future__ import annotations

import numpy as np

from jointglasso._typing import BoolArray, FloatArray, IntArray
from jointglasso.kernels.jit import njit

#: Entries are counted in runs of this length, a loop that vectorises; only runs with a hit are searched entry by entry.
_RUN = 128


@njit
def mark_above(
    tile: FloatArray,
    weight: float,
    threshold: float,
    upper_only: bool,
    seen: BoolArray,
    hits: IntArray,
    n_hits: int,
) -> int:
    """Append the flat position of every entry with ``weight*|x| > threshold`` not `seen` yet.

    `seen` and `hits` are scratch arrays of at least the tile's size; the new number of hits is returned.
    """
    n_rows, n_columns = tile.shape
    for row in range(n_rows):
        values = tile[row]
        for first in range(row + 1 if upper_only else 0, n_columns, _RUN):
            run = values[first : min(first + _RUN, n_columns)]
            count = 0
            for slot in range(run.shape[0]):
                count += weight * abs(run[slot]) > threshold
            if count == 0:
                continue
            for slot in range(run.shape[0]):
                position = row * n_columns + first + slot
                if weight * abs(run[slot]) > threshold and not seen[position]:
                    seen[position] = True
                    hits[n_hits] = position
                    n_hits += 1
    return n_hits


@njit
def mark_possibly_above(
    tile: FloatArray,
    scale: tuple[FloatArray, FloatArray],
    error: float,
    threshold: float,
    upper_only: bool,
    seen: BoolArray,
    hits: IntArray,
    n_hits: int,
) -> int:
    """As `mark_above` for approximate values: mark every entry whose exact value may be above the threshold.

    The exact value is x, with an error of at most `error`, times the scales of its row and of its column. Runs without
    a hit, nearly all of them, are skipped by a test in single precision with a relative margin of 1e-6, which covers
    its rounding errors.
    """
    n_rows, n_columns = tile.shape
    row_scale, column_scale = scale
    column_threshold = np.empty(n_columns, np.float32)
    for column in range(n_columns):
        column_threshold[column] = threshold / column_scale[column] if column_scale[column] > 0.0 else np.inf
    slack = np.float32(error * (1.0 + 1e-6))
    for row in range(n_rows):
        values = tile[row]
        scale_of_row = row_scale[row] * (1.0 + 1e-12)
        if scale_of_row <= 0.0:
            continue
        inverse = np.float32((1.0 - 1e-6) / scale_of_row)
        for first in range(row + 1 if upper_only else 0, n_columns, _RUN):
            run = values[first : min(first + _RUN, n_columns)]
            run_scale = column_scale[first : first + run.shape[0]]
            run_threshold = column_threshold[first : first + run.shape[0]]
            count = np.int32(0)  # 32 bits, as the operands: twice as many lanes
            for slot in range(run.shape[0]):
                count += np.int32(abs(run[slot]) + slack > inverse * run_threshold[slot])
            if count == 0:
                continue
            for slot in range(run.shape[0]):
                position = row * n_columns + first + slot
                largest = scale_of_row * run_scale[slot] * (abs(np.float64(run[slot])) + error)
                if largest > threshold and not seen[position]:
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
