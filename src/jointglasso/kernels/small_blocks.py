"""Inverse and log-determinant of many small matrices in one call.

LAPACK is made for matrices that fill a cache; on blocks of a few variables its call costs more than its
arithmetic, and a Python loop over thousands of blocks more still.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from jointglasso._typing import BoolArray, FloatArray
from jointglasso.kernels.group_state import cholesky, invert


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
        logdet[m] = cholesky(stack[m], L)
        ok[m] = logdet[m] < np.inf
        if ok[m]:
            invert(L, inverse[m], inverse_lower)
    return inverse, logdet, ok
