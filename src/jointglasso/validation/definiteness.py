"""Whether matrices have negative eigenvalues."""

from __future__ import annotations

from typing import Any

import numpy as np

from jointglasso._lapack import factor_in_place
from jointglasso._threads import map_on_cores
from jointglasso._typing import BoolArray, FloatArray


def semidefinite(stack: FloatArray) -> BoolArray:
    """Which of a stack (m, b, b) of symmetric matrices have no eigenvalue below zero beyond rounding.

    Judged on the scale of correlations, so that the units of the variables do not matter: variances are raised by a
    part of themselves, which forgives the rounding of covariances computed in single precision.
    """
    from jointglasso.kernels.small_blocks import factor_and_invert

    b = stack.shape[1]
    if b > 32:
        return np.array(map_on_cores(_is_semidefinite, list(stack)), dtype=bool)
    raised = stack.copy()
    diagonal = np.einsum("mii->mi", raised)
    diagonal[:] = _raised(diagonal)
    return factor_and_invert(raised)[2]


def _is_semidefinite(matrix: FloatArray) -> bool:
    """As above, for one matrix that may be big: with one copy of it, and in single precision if that can tell."""
    diagonal = _raised(np.diagonal(matrix))
    for kind in (np.float32, np.float64):
        with np.errstate(over="ignore"):
            raised: Any = matrix.astype(kind)
            raised.flat[:: len(matrix) + 1] = diagonal
        if factor_in_place(raised) and np.isfinite(np.diagonal(raised)).all():  # LAPACK does not mind infinities
            return True
        del raised
    return False


def _raised(variance: FloatArray) -> FloatArray:
    """Variances (..., b) with what is forgiven added; to that of a constant as if it were 1."""
    forgiven = 1e-8 + 1e-7 * variance.shape[-1]
    return variance + forgiven * np.where(variance == 0.0, 1.0, variance)
