"""Dense blocks in flat storage: factors, inverses and products of many small ones in one call; row sums.

For blocks of a few variables the overhead of a LAPACK call exceeds its arithmetic, and a Python loop over thousands of
blocks costs more still.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from jointglasso._typing import BoolArray, FloatArray, IntArray
from jointglasso.kernels.jit import njit, njit_internal, njit_no_refcount

#: Largest block for which a compiled loop over the blocks is faster than one LAPACK call for each.
SMALL = 32


@njit_internal
def cholesky(A: FloatArray, L: FloatArray) -> float:
    """Write the lower Cholesky factor of A into L; log-determinant of A, infinite if A is not positive definite."""
    logdet = 0.0
    for i in range(A.shape[0]):
        for j in range(i + 1):
            total = A[i, j]
            for t in range(j):
                total -= L[i, t] * L[j, t]
            if i > j:
                L[i, j] = total / L[j, j]
            elif total > 0.0:
                L[i, i] = np.sqrt(total)
                logdet += np.log(total)
            else:
                return np.inf
    return logdet


@njit_internal
def invert(L: FloatArray, W: FloatArray, scratch: FloatArray) -> None:
    """Write ``W = (L L')^-1``; `scratch` has the shape of L."""
    b = L.shape[0]
    for i in range(b):
        scratch[i, i] = 1.0 / L[i, i]
        for j in range(i):
            total = 0.0
            for t in range(j, i):
                total += L[i, t] * scratch[t, j]
            scratch[i, j] = -total / L[i, i]
    for i in range(b):
        for j in range(i + 1):
            total = 0.0
            for t in range(i, b):
                total += scratch[t, i] * scratch[t, j]
            W[i, j] = total
            W[j, i] = total


@njit_internal
def block_of(flat: FloatArray, offset: IntArray, size: IntArray, block: int) -> FloatArray:
    """View of one block of a flat vector as a square matrix."""
    b = size[block]
    return flat[offset[block] : offset[block] + b * b].reshape(b, b)


@njit_no_refcount
def copy(row: FloatArray, out: FloatArray) -> None:
    """Copy a row to the beginning of another; slice assignment takes longer to compile, because of its shape checks."""
    for i in range(row.shape[0]):
        out[i] = row[i]


@njit_no_refcount(fastmath={"contract"})
def add_four_rows(factors: FloatArray, starts: IntArray, n: int, flat: Any, out: FloatArray) -> None:
    """Add four rows of length n, from the positions `starts` on in a flat matrix, times their factors to `out`.

    Four at a time, as slices: this form vectorises, with a quarter of the stores, and is ten times as fast. The sum of
    four is computed in the precision of the matrix, in single precision with twice as many elements per instruction.
    """
    f0, f1, f2, f3 = factors[0], factors[1], factors[2], factors[3]
    row0, row1 = flat[starts[0] : starts[0] + n], flat[starts[1] : starts[1] + n]
    row2, row3 = flat[starts[2] : starts[2] + n], flat[starts[3] : starts[3] + n]
    for i in range(n):
        out[i] += f0 * row0[i] + f1 * row1[i] + f2 * row2[i] + f3 * row3[i]


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


@njit
def scaled_row_sums(flat: FloatArray, size: IntArray, scale: FloatArray, out: FloatArray) -> None:
    """Write ``scale_i sum_j |A_ij| scale_j`` for each row i of all blocks A in flat storage."""
    position, first = 0, 0
    for block in range(size.shape[0]):
        for i in range(first, first + size[block]):
            total = 0.0
            for j in range(first, first + size[block]):
                total += abs(flat[position]) * scale[j]
                position += 1
            out[i] = total * scale[i]
        first += size[block]
