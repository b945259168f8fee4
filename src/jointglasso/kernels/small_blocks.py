"""Inverse and log-determinant of many small matrices in one call.

LAPACK is made for matrices that fill a cache; on blocks of a few variables its call costs more than its
arithmetic, and a Python loop over thousands of blocks more still.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from jointglasso._typing import BoolArray, FloatArray


@njit(cache=True, nogil=True)
def factor_and_invert(stack: FloatArray) -> tuple[FloatArray, FloatArray, BoolArray]:
    """Inverses and log-determinants of a stack (m, b, b) by Cholesky factors; `ok` tells which are definite.

    Where a matrix is not positive definite its rows of the outputs are meaningless.
    """
    n_matrices, b, _ = stack.shape
    inverse = np.zeros((n_matrices, b, b))
    logdet = np.zeros(n_matrices)
    ok = np.ones(n_matrices, np.bool_)
    L = np.zeros((b, b))
    inverse_lower = np.zeros((b, b))
    for m in range(n_matrices):
        for i in range(b):
            for j in range(i + 1):
                total = stack[m, i, j]
                for k in range(j):
                    total -= L[i, k] * L[j, k]
                if i > j:
                    L[i, j] = total / L[j, j]
                elif total > 0.0:
                    L[i, i] = np.sqrt(total)
                    logdet[m] += np.log(total)
                else:
                    ok[m] = False
                    break
            if not ok[m]:
                break
        if not ok[m]:
            continue
        for i in range(b):
            inverse_lower[i, i] = 1.0 / L[i, i]
            for j in range(i):
                total = 0.0
                for k in range(j, i):
                    total += L[i, k] * inverse_lower[k, j]
                inverse_lower[i, j] = -total / L[i, i]
        for i in range(b):
            for j in range(i + 1):
                total = 0.0
                for k in range(i, b):
                    total += inverse_lower[k, i] * inverse_lower[k, j]
                inverse[m, i, j] = total
                inverse[m, j, i] = total
    return inverse, logdet, ok
