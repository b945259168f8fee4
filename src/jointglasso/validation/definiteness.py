"""Whether matrices have negative eigenvalues."""

from __future__ import annotations

import numpy as np

from jointglasso._lapack import factor_in_place
from jointglasso._threads import map_on_cores
from jointglasso._typing import BoolArray, FloatArray


def semidefinite(stack: FloatArray) -> BoolArray:
    """Which of a stack (m, b, b) of symmetric matrices have no eigenvalue below zero beyond rounding.

    Judged on the scale of correlations, so that the units of the variables do not matter. The shift forgives the
    rounding of covariances computed in single precision.
    """
    from jointglasso.kernels.small_blocks import factor_and_invert

    b = stack.shape[1]
    if b > 32:
        return np.array(map_on_cores(_is_semidefinite, list(stack)), dtype=bool)
    deviation = np.sqrt(np.einsum("mii->mi", stack))
    deviation[deviation == 0] = 1.0
    scaled = stack / (deviation[:, :, None] * deviation[:, None, :]) + _forgiven(b) * np.eye(b)
    return factor_and_invert(scaled)[2]


def _is_semidefinite(matrix: FloatArray) -> bool:
    """As above, for one matrix that may be big: with one copy of it."""
    deviation = np.sqrt(np.diagonal(matrix))
    deviation[deviation == 0] = 1.0
    scaled = matrix / deviation
    scaled /= deviation[:, None]
    scaled.flat[:: len(matrix) + 1] += _forgiven(len(matrix))
    return factor_in_place(scaled)


def _forgiven(b: int) -> float:
    return 1e-8 + 1e-7 * b
