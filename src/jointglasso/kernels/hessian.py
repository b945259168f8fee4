"""Hessian-vector products of the likelihood, ``D -> w (W D W)``, for sparse D, evaluated on the sparsity of D only.

W is stored in single precision as column tiles of width 32: a tile with all rows stays in cache while the sparse rows
of D select from it. Single precision suffices: the products only determine a search direction, and the line search
checks the objective.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from jointglasso._typing import FloatArray, IntArray
from jointglasso.kernels.jit import njit
from jointglasso.kernels.lanes import ROW, Dots, add_four_dots, add_one_dot, add_rows, transpose_square

TILE = ROW


class Tiles(NamedTuple):
    """Matrices of the components, one after another, as tiles of 32 columns."""

    component: IntArray
    number: IntArray
    """Component of each tile, and its number within the component."""
    start: IntArray
    """First node of each component."""
    offset: IntArray
    """Start of the tiles of each component."""
    packed: Any
    """``packed[tile][row][32]``: W in single precision, zero padded."""
    product: Any
    """``product[tile of m][j][32] = (D W)[m, j]``."""


@njit
def pack_tiles(
    first: int,
    last: int,
    tiles: Tiles,
    slot: IntArray,
    base: IntArray,
    block_size: IntArray,
    scale: float,
    W: FloatArray,
) -> None:
    """Write the tiles first..last-1 of ``W / scale``.

    Negligible values become zero: W decays geometrically along the paths of a sparse graph, and arithmetic on denormal
    numbers is many times slower. `slot` is the row of each node within its block; `base` and `block_size` locate the
    block of each component.
    """
    packed = tiles.packed
    for tile in range(first, last):
        c = tiles.component[tile]
        begin = tiles.start[c]
        size = tiles.start[c + 1] - begin
        first_column = tiles.number[tile] * TILE
        width = min(TILE, size - first_column)
        out = tiles.offset[c] + tiles.number[tile] * size * TILE
        for i in range(size):
            row_start = base[c] + slot[begin + i] * block_size[c]
            for j in range(width):
                value = W[row_start + slot[begin + first_column + j]] / scale
                packed[out + i * TILE + j] = value if abs(value) > 1e-15 else 0.0
            for j in range(width, TILE):
                packed[out + i * TILE + j] = 0.0


@njit
def multiply_tiles(first: int, last: int, tiles: Tiles, start: IntArray, column: IntArray, values: FloatArray) -> None:
    """Write ``D W`` from the tiles first..last-1, transposed within tiles for `sample_tiles`; D in CSR format."""
    packed, product, entries = tiles.packed, tiles.product, (column, values)
    buffer = np.zeros(TILE * TILE + 16, np.float32)
    square = buffer[-buffer.ctypes.data % 64 // 4 :]
    for tile in range(first, last):
        c = tiles.component[tile]
        size = tiles.start[c + 1] - tiles.start[c]
        first_column = tiles.number[tile] * TILE
        width = min(TILE, size - first_column)
        begin = tiles.offset[c] + tiles.number[tile] * size * TILE
        for first_row in range(0, size, TILE):
            rows = min(TILE, size - first_row)
            node = tiles.start[c] + first_row
            for m in range(rows):
                add_rows(square, m * TILE, packed, begin, entries, start[node + m], start[node + m + 1])
            square[rows * TILE : TILE * TILE] = 0.0
            out = tiles.offset[c] + (first_row // TILE) * size * TILE + first_column * TILE
            if width == TILE:
                transpose_square(square, product, out)
            else:
                for j in range(width):
                    for m in range(TILE):
                        product[out + j * TILE + m] = square[m * TILE + j]


@njit
def sample_tiles(
    first: int,
    last: int,
    tiles: Tiles,
    component: IntArray,
    pattern: tuple[IntArray, IntArray, IntArray],
    weight: FloatArray,
    out: FloatArray,
) -> None:
    """Write ``w (W D W)_ij = w sum_m W_im (D W)_mj`` for the unknowns in rows first..last-1 of the upper triangle.

    `component` is that of each node; `pattern` has the start of each row, local columns and unknowns. Tiles are
    processed in twos: their number must be even, with zeros in the last one if needed.
    """
    start, column, unknown = pattern
    for position in range(start[first], start[last]):
        out[unknown[position]] = 0.0
    top = first
    while top < last:
        c = component[top]
        begin = tiles.start[c]
        size = tiles.start[c + 1] - begin
        bottom = min(last, tiles.start[c + 1])
        dots = Dots(tiles.packed, tiles.product, size * TILE, column, unknown, out)
        for first_column in range(0, size, 2 * TILE):
            tile_start = tiles.offset[c] + first_column * size
            for node in range(top, bottom):
                row_start = tile_start + (node - begin) * TILE
                position = start[node]
                end = start[node + 1]
                while position + 4 <= end:
                    add_four_dots(dots, row_start, tile_start, position)
                    position += 4
                while position < end:
                    add_one_dot(dots, row_start, tile_start, position)
                    position += 1
        top = bottom
    for position in range(start[first], start[last]):
        out[unknown[position]] *= weight[unknown[position]]
