"""Products with the Hessian of the likelihood, ``D -> w (W D W)``, D sparse and the result wanted on its pattern only.

W is packed, in single precision, as column tiles of 32: a tile of all rows stays in cache while the sparse rows of D
pick from it. Single precision is enough: the products only shape a search direction, which the line search judges.
"""

from __future__ import annotations

import numpy as np

from jointglasso._typing import FloatArray, IntArray
from jointglasso.kernels.cache import njit
from jointglasso.kernels.lanes import ROW, add_four_dots, add_one_dot, add_rows, transpose_square

TILE = ROW


@njit
def pack_tiles(
    first: int,
    last: int,
    task_component: IntArray,
    task_tile: IntArray,
    component_start: IntArray,
    tile_offset: IntArray,
    slot: IntArray,
    base: IntArray,
    block_size: IntArray,
    scale: float,
    W: FloatArray,
    packed: FloatArray,
) -> None:
    """Tiles first..last-1 of ``W / scale``: ``packed[tile][row][32]``, zero padded.

    Numbers too small to matter become zero: W decays geometrically along the paths of a sparse graph, and arithmetic
    on denormal numbers is many times slower. `slot` is the row of each node within its block, `base` and `block_size`
    place the block of each component.
    """
    for task in range(first, last):
        c = task_component[task]
        begin = component_start[c]
        size = component_start[c + 1] - begin
        left = task_tile[task] * TILE
        width = min(TILE, size - left)
        out = tile_offset[c] + task_tile[task] * size * TILE
        for i in range(size):
            at = base[c] + slot[begin + i] * block_size[c]
            for j in range(width):
                value = W[at + slot[begin + left + j]] / scale
                packed[out + i * TILE + j] = value if abs(value) > 1e-15 else 0.0
            for j in range(width, TILE):
                packed[out + i * TILE + j] = 0.0


@njit
def multiply_tiles(
    first: int,
    last: int,
    task_component: IntArray,
    task_tile: IntArray,
    component_start: IntArray,
    tile_offset: IntArray,
    start: IntArray,
    column: IntArray,
    values: FloatArray,
    packed: FloatArray,
    product: FloatArray,
) -> None:
    """``D W``, transposed within tiles for `sample_tiles`: ``product[tile of m][j][32] = (D W)[m, j]``."""
    room = np.zeros(TILE * TILE + 16, np.float32)
    square = room[-room.ctypes.data % 64 // 4 :]
    for task in range(first, last):
        c = task_component[task]
        size = component_start[c + 1] - component_start[c]
        left = task_tile[task] * TILE
        width = min(TILE, size - left)
        begin = tile_offset[c] + task_tile[task] * size * TILE
        for top in range(0, size, TILE):
            rows = min(TILE, size - top)
            node = component_start[c] + top
            for m in range(rows):
                add_rows(square, m * TILE, packed, begin, column, values, start[node + m], start[node + m + 1])
            square[rows * TILE : TILE * TILE] = 0.0
            out = tile_offset[c] + (top // TILE) * size * TILE + left * TILE
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
    component: IntArray,
    component_start: IntArray,
    tile_offset: IntArray,
    start: IntArray,
    column: IntArray,
    unknown: IntArray,
    weight: FloatArray,
    packed: FloatArray,
    product: FloatArray,
    out: FloatArray,
) -> None:
    """``w (W D W)_ij = w sum_m W_im (D W)_mj`` of the unknowns in rows first..last-1 of the upper pattern.

    Tiles are taken two at a time: their number must be even, the last one zero where there is nothing to fill it.
    """
    for place in range(start[first], start[last]):
        out[unknown[place]] = 0.0
    top = first
    while top < last:
        c = component[top]
        begin = component_start[c]
        size = component_start[c + 1] - begin
        bottom = min(last, component_start[c + 1])
        for left in range(0, size, 2 * TILE):
            at = tile_offset[c] + left * size
            for node in range(top, bottom):
                mine = at + (node - begin) * TILE
                place = start[node]
                end = start[node + 1]
                while place + 4 <= end:
                    add_four_dots(packed, mine, product, at, size * TILE, column, place, out, unknown)
                    place += 4
                while place < end:
                    add_one_dot(packed, mine, product, at, size * TILE, column, place, out, unknown)
                    place += 1
        top = bottom
    for place in range(start[first], start[last]):
        out[unknown[place]] *= weight[unknown[place]]
