"""Inverse and log-determinant of many small matrices in one call.

LAPACK is made for matrices that fill a cache; on blocks of a few variables its call costs more than its
arithmetic, and a Python loop over thousands of blocks more still.
"""

from __future__ import annotations

import numpy as np

from jointglasso._typing import BoolArray, FloatArray, IntArray
from jointglasso.kernels.cache import njit
from jointglasso.kernels.group_state import block_of, cholesky, copy_row, invert

#: Up to this size a compiled loop over the blocks beats one LAPACK call for each.
SMALL = 32

#: What is forgiven to a variance, relative to it, before a matrix counts as indefinite, and more for each variable: the
#: rounding of covariances computed in single precision.
FORGIVEN, FORGIVEN_EACH = 1e-8, 1e-7


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
    """Write the inverses and log-determinants of the first blocks, as far as `selected`, and which are definite.

    Where a block is not positive definite its inverse is left as it is.
    """
    b = 0
    for block in range(selected.shape[0]):
        if not selected[block]:
            continue
        if size[block] != b:  # they come sorted by size
            b = size[block]
            L, scratch = np.zeros((b, b)), np.zeros((b, b))
        log_determinant = cholesky(block_of(flat, offset, size, block), L)
        definite[block] = log_determinant < np.inf
        if definite[block]:
            logdet[block] = log_determinant
            invert(L, block_of(inverse, offset, size, block), scratch)


@njit
def semidefinite_blocks(flat: FloatArray, offset: IntArray, size: IntArray, n_blocks: int) -> BoolArray:
    """Which of the first blocks have no eigenvalue below zero beyond rounding, on the scale of correlations."""
    semidefinite = np.empty(n_blocks, np.bool_)
    b = 0
    for block in range(n_blocks):
        if size[block] != b:
            b = size[block]
            raised, L = np.zeros((b, b)), np.zeros((b, b))
        matrix = block_of(flat, offset, size, block)
        for i in range(b):
            copy_row(matrix[i], raised[i])
            raised[i, i] += (FORGIVEN + FORGIVEN_EACH * b) * (raised[i, i] if raised[i, i] != 0.0 else 1.0)
        semidefinite[block] = cholesky(raised, L) < np.inf
    return semidefinite


@njit
def trace_and_squares(
    R: FloatArray, Theta: FloatArray, offset: IntArray, size: IntArray, trace: FloatArray, squares: FloatArray
) -> None:
    """Write ``tr(R Theta)`` and ``tr(R Theta R Theta)`` of each block; the zeros of R cost nothing."""
    buffer = np.empty(size[-1] * size[-1] if size.shape[0] else 0)  # they come sorted by size
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
