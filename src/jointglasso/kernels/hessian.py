"""Products with the Hessian of the likelihood, ``D -> w (W D W)``, D sparse and the result wanted on its pattern only.

W is packed, in single precision, as column tiles of 64: a tile of all rows stays in cache while the sparse rows of D
pick from it. Single precision is enough: the products only shape a search direction, which the line search judges.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from jointglasso._typing import FloatArray, IntArray

TILE = 64


@njit(cache=True, nogil=True)
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
    """Tiles first..last-1 of ``W / scale``: ``packed[tile][row][64]``, zero padded.

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


# A product and a sum in one instruction, which is rounded once instead of twice.
@njit(cache=True, nogil=True, fastmath={"contract"})
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
    """``D W``, transposed within tiles for `sample_tiles`: ``product[tile of m][j][64] = (D W)[m, j]``."""
    square = np.zeros((TILE, TILE), np.float32)
    for task in range(first, last):
        c = task_component[task]
        size = component_start[c + 1] - component_start[c]
        left = task_tile[task] * TILE
        width = min(TILE, size - left)
        begin = tile_offset[c] + task_tile[task] * size * TILE
        W = packed[begin : begin + size * TILE].reshape(size, TILE)
        for top in range(0, size, TILE):
            rows = min(TILE, size - top)
            for m in range(rows):
                node = component_start[c] + top + m
                total = square[m]
                total[:] = 0.0
                place = start[node]
                end = start[node + 1]
                # Four rows of W at a time: one load and store of the sum for four products.
                while place + 4 <= end:
                    x0, x1, x2, x3 = values[place], values[place + 1], values[place + 2], values[place + 3]
                    w0, w1 = W[column[place]], W[column[place + 1]]
                    w2, w3 = W[column[place + 2]], W[column[place + 3]]
                    for k in range(TILE):
                        total[k] += (x0 * w0[k] + x1 * w1[k]) + (x2 * w2[k] + x3 * w3[k])
                    place += 4
                while place < end:
                    x0 = values[place]
                    w0 = W[column[place]]
                    for k in range(TILE):
                        total[k] += x0 * w0[k]
                    place += 1
            out = tile_offset[c] + (top // TILE) * size * TILE + left * TILE
            for j in range(width):
                for m in range(rows):
                    product[out + j * TILE + m] = square[m, j]
                for m in range(rows, TILE):
                    product[out + j * TILE + m] = 0.0


# The order of these sums does not matter, and only reordered do they vectorise.
@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
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
    """``w (W D W)_ij = w sum_m W_im (D W)_mj`` of the unknowns in rows first..last-1 of the upper pattern."""
    for place in range(start[first], start[last]):
        out[unknown[place]] = 0.0
    top = first
    while top < last:
        c = component[top]
        begin = component_start[c]
        size = component_start[c + 1] - begin
        bottom = min(last, component_start[c + 1])
        for tile in range((size + TILE - 1) // TILE):
            at = tile_offset[c] + tile * size * TILE
            W = packed[at : at + size * TILE].reshape(size, TILE)
            DW = product[at : at + size * TILE].reshape(size, TILE)
            for node in range(top, bottom):
                w = W[node - begin]
                place = start[node]
                end = start[node + 1]
                while place + 4 <= end:
                    y0, y1 = DW[column[place]], DW[column[place + 1]]
                    y2, y3 = DW[column[place + 2]], DW[column[place + 3]]
                    s0 = s1 = s2 = s3 = np.float32(0.0)
                    for k in range(TILE):
                        s0 += w[k] * y0[k]
                        s1 += w[k] * y1[k]
                        s2 += w[k] * y2[k]
                        s3 += w[k] * y3[k]
                    out[unknown[place]] += s0
                    out[unknown[place + 1]] += s1
                    out[unknown[place + 2]] += s2
                    out[unknown[place + 3]] += s3
                    place += 4
                while place < end:
                    y0 = DW[column[place]]
                    s0 = np.float32(0.0)
                    for k in range(TILE):
                        s0 += w[k] * y0[k]
                    out[unknown[place]] += s0
                    place += 1
        top = bottom
    for place in range(start[first], start[last]):
        out[unknown[place]] *= weight[unknown[place]]


@njit(cache=True, nogil=True)
def balanced_bounds(cost: FloatArray, parts: int) -> IntArray:
    """Boundaries that cut tasks into consecutive parts of about equal cost."""
    total = cost.sum()
    bounds = np.zeros(parts + 1, np.int64)
    so_far = 0.0
    part = 1
    for task in range(cost.shape[0]):
        so_far += cost[task]
        while part < parts and so_far >= total * part / parts:
            bounds[part] = task + 1
            part += 1
    bounds[parts] = cost.shape[0]
    return bounds
