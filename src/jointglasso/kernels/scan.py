"""One pass over the entries of a covariance matrix: pairs above a threshold, and input checks."""

from __future__ import annotations

import numpy as np

from jointglasso._typing import BoolArray, FloatArray, IntArray
from jointglasso.kernels.jit import njit, njit_internal

#: Entries are counted in runs of this length, a loop that vectorises; only runs with a hit are searched entry by entry.
_RUN = 128

#: Side of the tiles in which a matrix is compared with its transpose: rows long enough for the hardware prefetcher.
_SIDE = 128


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


@njit
def first_asymmetry(matrix: FloatArray, scale: FloatArray) -> tuple[int, int, int]:
    """First fault of a square matrix as (code, row, column): 1 not finite, 2 not symmetric, 0 none.

    Entries i, j may differ by ``scale[i] * scale[j]``. Tiles are transposed before they are compared with their mirror
    images, so that both are read along rows and the comparison vectorises.
    """
    p = matrix.shape[0]
    transposed = np.empty((_SIDE, _SIDE + 8))  # padded against cache set conflicts
    for first_row in range(0, p, _SIDE):
        height = min(_SIDE, p - first_row)
        for first_column in range(first_row, p, _SIDE):
            width = min(_SIDE, p - first_column)
            for j in range(width):
                values = matrix[first_column + j, first_row : first_row + height]
                for i in range(height):
                    transposed[i, j] = values[i]
            count = 0
            for i in range(height):
                values, mirrored = matrix[first_row + i, first_column : first_column + width], transposed[i, :width]
                allowed = scale[first_column : first_column + width]
                for j in range(width):
                    # A NaN fails every comparison, so that the negation of one test detects both faults.
                    count += not abs(values[j] - mirrored[j]) <= scale[first_row + i] * allowed[j]
            if count > 0:
                return _first_fault(matrix, scale, first_row, first_column)
    return 0, 0, 0


@njit_internal
def _first_fault(matrix: FloatArray, scale: FloatArray, first_row: int, first_column: int) -> tuple[int, int, int]:
    """First fault of a tile that has one."""
    p = matrix.shape[0]
    for i in range(first_row, min(first_row + _SIDE, p)):
        for j in range(max(first_column, i), min(first_column + _SIDE, p)):
            a, b = matrix[i, j], matrix[j, i]
            if not abs(a - b) <= scale[i] * scale[j]:
                if not np.isfinite(a):
                    return 1, i, j
                if not np.isfinite(b):
                    return 1, j, i
                return 2, i, j
    return 0, 0, 0
