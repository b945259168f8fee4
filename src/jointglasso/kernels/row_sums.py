"""Row sums over blocks: of products, and of absolute values as bounds on norms."""

from __future__ import annotations

import numpy as np

from jointglasso._typing import FloatArray, IntArray
from jointglasso.kernels.cache import njit
from jointglasso.kernels.group_state import block_of


@njit(cache=True, nogil=True)
def scaled_row_sums(
    flat: FloatArray, offset: IntArray, size: IntArray, member_start: IntArray, scale: FloatArray
) -> FloatArray:
    """``scale_i sum_j |a_ij| scale_j`` of every row of all blocks, in the order of their members."""
    out = np.empty(scale.shape[0])
    for block in range(size.shape[0]):
        matrix = block_of(flat, offset, size, block)
        first = member_start[block]
        here = scale[first : first + size[block]]
        for i in range(size[block]):
            row = matrix[i]
            total = 0.0
            for j in range(size[block]):
                total += abs(row[j]) * here[j]
            out[first + i] = here[i] * total
    return out


@njit(cache=True, nogil=True)
def product_row_sums(
    left: FloatArray, right: FloatArray, offset: IntArray, size: IntArray, member_start: IntArray
) -> tuple[FloatArray, FloatArray]:
    """``sum_j a_ij b_ij`` of every row of all blocks, and the same sums of absolute values."""
    sums, absolute = np.empty(member_start[-1]), np.empty(member_start[-1])
    for block in range(size.shape[0]):
        A, B = block_of(left, offset, size, block), block_of(right, offset, size, block)
        for i in range(size[block]):
            a, b = A[i], B[i]
            total, largest = 0.0, 0.0
            for j in range(size[block]):
                product = a[j] * b[j]
                total += product
                largest += abs(product)
            sums[member_start[block] + i] = total
            absolute[member_start[block] + i] = largest
    return sums, absolute
