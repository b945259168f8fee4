"""Row sums of blocks: of elementwise products, and of absolute values as bounds on norms."""

from __future__ import annotations

import numpy as np

from jointglasso._typing import FloatArray, IntArray
from jointglasso.kernels.dense import block_of
from jointglasso.kernels.jit import njit


@njit
def scaled_row_sums(
    flat: FloatArray, offset: IntArray, size: IntArray, member_start: IntArray, scale: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Maximum and sum, for each block A, of the row sums ``scale_i sum_j |A_ij| scale_j``."""
    largest, sums = np.zeros(size.shape[0]), np.zeros(size.shape[0])
    for block in range(size.shape[0]):
        matrix = block_of(flat, offset, size, block)
        first = member_start[block]
        block_scale = scale[first : first + size[block]]
        for i in range(size[block]):
            row = matrix[i]
            total = 0.0
            for j in range(size[block]):
                total += abs(row[j]) * block_scale[j]
            total *= block_scale[i]
            largest[block] = max(largest[block], total)
            sums[block] += total
        if np.isnan(sums[block]):  # max() ignores NaN
            largest[block] = np.nan
    return largest, sums


@njit
def product_row_sums(
    a_flat: FloatArray, b_flat: FloatArray, offset: IntArray, size: IntArray
) -> tuple[FloatArray, FloatArray]:
    """``sum_ij A_ij B_ij`` of each block, summed row by row, and the same sum of absolute values."""
    sums, absolute = np.zeros(size.shape[0]), np.zeros(size.shape[0])
    for block in range(size.shape[0]):
        A, B = block_of(a_flat, offset, size, block), block_of(b_flat, offset, size, block)
        for i in range(size[block]):
            a, b = A[i], B[i]
            total, largest = 0.0, 0.0
            for j in range(size[block]):
                product = a[j] * b[j]
                total += product
                largest += abs(product)
            sums[block] += total
            absolute[block] += largest
    return sums, absolute
