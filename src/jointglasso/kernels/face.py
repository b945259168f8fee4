"""Products ``W D W`` with a sparse symmetric D, evaluated at the entries of D only: the Hessian of the log-determinant.

Rows of all blocks are numbered through. A product has two passes, each over ranges of rows, so that threads share it:
``D W`` row by row, stored transposed, then one inner product for each entry.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from jointglasso._typing import BoolArray, FloatArray, IntArray
from jointglasso.kernels.dense import add_four_rows
from jointglasso.kernels.jit import njit

#: Rows and columns of ``D W`` that are computed and transposed together.
_ROWS, _COLUMNS = 32, 256


class SupportIndex(NamedTuple):
    """Sparsity of D in CSR form over the M rows of all blocks, columns numbered within blocks."""

    base: IntArray
    """(M,): flat position of the block of each row."""
    width: IntArray
    """(M,): size of the block of each row."""
    slot: IntArray
    """(M,): row number within the block."""
    start: IntArray
    column: IntArray
    entry: IntArray
    """Both triangles: (M + 1,) start of each row, column and index of the entry."""


@njit
def multiply_rows(
    first: int, last: int, index: SupportIndex, W: FloatArray, values: FloatArray, product: FloatArray
) -> None:
    """Write rows first..last-1 of ``D W`` as columns of `product`, in flat storage like W.

    Tiles of columns of W stay in cache while the rows of D select from them.
    """
    tile = np.empty((_ROWS, _COLUMNS), W.dtype)
    n_others = 4
    for row in range(first, last):
        n_others = max(n_others, index.start[row + 1] - index.start[row] + 4)
    others, factors = np.empty(n_others, np.int64), np.empty(n_others, W.dtype)
    begin = first
    while begin < last:
        base, width, slot = index.base[begin], index.width[begin], index.slot[begin]
        end = min(last, begin + width - slot)  # rows of one block
        for left in range(0, width, _COLUMNS):
            n_columns = min(_COLUMNS, width - left)
            for row in range(begin, end, _ROWS):
                n_rows = min(_ROWS, end - row)
                for m in range(n_rows):
                    for j in range(n_columns):
                        tile[m, j] = 0.0
                    n = 0
                    for position in range(index.start[row + m], index.start[row + m + 1]):
                        value = values[index.entry[position]]
                        if value != 0.0:
                            others[n] = base + index.column[position] * width + left
                            factors[n] = value
                            n += 1
                    for i in range(n, n + 4):  # to a multiple of four
                        others[i] = base + left
                        factors[i] = 0.0
                    for i in range(0, n, 4):
                        add_four_rows(factors[i : i + 4], others[i : i + 4], n_columns, W, tile[m])
                corner = base + left * width + slot + row - begin
                for j in range(n_columns):
                    for m in range(n_rows):
                        product[corner + j * width + m] = tile[m, j]
        begin = end


@njit
def sample_rows(
    first: int,
    last: int,
    index: SupportIndex,
    W: FloatArray,
    product: FloatArray,
    wanted: BoolArray,
    out: FloatArray,
) -> None:
    """Write ``W D W`` at the entries j >= i of rows first..last-1 that are marked in `wanted`."""
    for row in range(first, last):
        base, width, slot = index.base[row], index.width[row], index.slot[row]
        W_row = W[base + slot * width : base + (slot + 1) * width]
        for position in range(index.start[row], index.start[row + 1]):
            column, entry = index.column[position], index.entry[position]
            if column >= slot and wanted[entry]:
                other = base + column * width
                out[entry] = np.dot(W_row, product[other : other + width])
