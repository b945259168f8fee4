"""Whether matrices have negative eigenvalues."""

from __future__ import annotations

from typing import Any

import numpy as np

from jointglasso._lapack import factor_in_place
from jointglasso._threads import map_on_cores
from jointglasso._typing import BoolArray, FloatArray, IntArray


def semidefinite(flat: FloatArray, offset: IntArray, size: IntArray) -> BoolArray:
    """Which symmetric matrices, laid flat one after another and sorted by size, have no eigenvalue below zero.

    Judged on the scale of correlations, so that the units of the variables do not matter: variances are raised by a
    part of themselves, which forgives rounding.
    """
    from jointglasso.kernels.small_blocks import SMALL, semidefinite_blocks

    n_small = int(np.searchsorted(size, SMALL, side="right"))
    big = [
        flat[first : first + b * b].reshape(b, b) for first, b in zip(offset[n_small:], size[n_small:], strict=False)
    ]
    small = semidefinite_blocks(flat, offset, size, n_small)
    found = map_on_cores(_is_semidefinite, big, work=sum(matrix.size for matrix in big))
    return np.concatenate([small, np.array(found, dtype=bool)])


def is_semidefinite(matrix: FloatArray) -> bool:
    """Whether one symmetric matrix has no eigenvalue below zero beyond rounding."""
    flat, size = np.ascontiguousarray(matrix).ravel(), np.array([len(matrix)])
    return bool(semidefinite(flat, np.zeros(1, dtype=np.int64), size)[0])


def _is_semidefinite(matrix: FloatArray) -> bool:
    """For a matrix that may be big: with one copy of it, and in single precision if that can tell."""
    from jointglasso.kernels.small_blocks import FORGIVEN, FORGIVEN_EACH

    variance, b = np.diagonal(matrix), len(matrix)
    raised_variance = variance + (FORGIVEN + FORGIVEN_EACH * b) * np.where(variance == 0.0, 1.0, variance)
    for kind in (np.float32, np.float64):
        with np.errstate(over="ignore", under="ignore"):
            raised: Any = matrix.astype(kind)
            raised.flat[:: b + 1] = raised_variance
        if factor_in_place(raised) and np.isfinite(np.diagonal(raised)).all():  # LAPACK does not mind infinities
            return True
        del raised
    return False
