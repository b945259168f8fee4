"""Inverses and log-determinants of many small matrices in one call.

For blocks of a few variables the overhead of a LAPACK call exceeds its arithmetic, and a Python loop over thousands of
blocks costs more still.
"""

from __future__ import annotations

import numpy as np

from jointglasso._typing import BoolArray, FloatArray, IntArray
from jointglasso.kernels.dense import block_of, cholesky, invert
from jointglasso.kernels.jit import njit

#: Largest block for which a compiled loop over the blocks is faster than one LAPACK call for each.
SMALL = 32


@njit
def factor_and_invert(
    flat: FloatArray,
    offset: IntArray,
    size: IntArray,
    selected: BoolArray,
    inverse: FloatArray,
    logdet: FloatArray,
    definite: BoolArray,
) -> None:
    """Write inverse and log-determinant of the `selected` blocks, and which are positive definite.

    The inverse of a block that is not positive definite is left unchanged.
    """
    b = 0
    for block in range(selected.shape[0]):
        if not selected[block]:
            continue
        if size[block] != b:  # blocks are sorted by size
            b = size[block]
            L, scratch = np.zeros((b, b)), np.zeros((b, b))
        log_determinant = cholesky(block_of(flat, offset, size, block), L)
        definite[block] = log_determinant < np.inf
        if definite[block]:
            logdet[block] = log_determinant
            invert(L, block_of(inverse, offset, size, block), scratch)


@njit
def trace_and_squares(
    R: FloatArray, Theta: FloatArray, offset: IntArray, size: IntArray, trace: FloatArray, squares: FloatArray
) -> None:
    """Write ``tr(R Theta)`` and ``tr(R Theta R Theta)`` of each block; zeros of R are skipped."""
    buffer = np.empty(size[-1] * size[-1] if size.shape[0] else 0)  # blocks are sorted by size
    for block in range(size.shape[0]):
        b = size[block]
        R_block, Theta_block = block_of(R, offset, size, block), block_of(Theta, offset, size, block)
        product = buffer[: b * b].reshape((b, b))
        product[:] = 0.0
        for i in range(b):
            row = product[i]
            for j in range(b):
                if R_block[i, j] != 0.0:
                    other = Theta_block[j]
                    for t in range(b):
                        row[t] += R_block[i, j] * other[t]
        trace[block] = 0.0
        squares[block] = 0.0
        for i in range(b):
            trace[block] += product[i, i]
            squares[block] += product[i, i] * product[i, i]
            for j in range(i):
                squares[block] += 2.0 * product[i, j] * product[j, i]
