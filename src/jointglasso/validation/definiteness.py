"""Whether matrices have negative eigenvalues."""

from __future__ import annotations

import numpy as np

from jointglasso._typing import BoolArray, FloatArray


def semidefinite(stack: FloatArray) -> BoolArray:
    """Which of a stack (m, b, b) of symmetric matrices have no eigenvalue below zero beyond rounding.

    Judged on the scale of correlations, so that the units of the variables do not matter. The shift forgives the
    rounding of covariances computed in single precision.
    """
    from jointglasso.kernels.small_blocks import factor_and_invert

    b = stack.shape[1]
    deviation = np.sqrt(np.einsum("mii->mi", stack))
    deviation[deviation == 0] = 1.0
    scaled = stack / (deviation[:, :, None] * deviation[:, None, :]) + (1e-8 + 1e-7 * b) * np.eye(b)
    if b <= 32:
        return factor_and_invert(scaled)[2]
    return np.array([_has_cholesky(matrix) for matrix in scaled], dtype=bool)


def _has_cholesky(matrix: FloatArray) -> bool:
    try:
        np.linalg.cholesky(matrix)
    except np.linalg.LinAlgError:
        return False
    return True
