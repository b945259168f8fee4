"""In-place Cholesky factorisation (potrf) and inversion (potri) that release the interpreter lock; triangles.

SciPy's wrappers of these routines hold the lock, which serialises threads that factor one block each; the same
routines called by address do not.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable
from functools import cache

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cython_lapack, lapack

from jointglasso._typing import FloatArray

#: Side of the tiles that are transposed at a time.
_TILE = 64


def factor_in_place(matrix: FloatArray | NDArray[np.float32]) -> bool:
    """Replace the upper triangle of a square row-major matrix by its Cholesky factor; False if it is not definite."""
    return _call("spotrf" if matrix.dtype == np.float32 else "dpotrf", matrix) == 0


def invert_factor_in_place(matrix: FloatArray) -> bool:
    """Replace the factor of `factor_in_place` by the upper triangle of the inverse of the factored matrix."""
    return _call("dpotri", matrix) == 0


def mirror_upper(matrix: FloatArray) -> None:
    """Copy the upper triangle of a square matrix onto the lower one, in place."""
    below = np.tri(min(_TILE, len(matrix)), k=-1, dtype=bool)
    for first in range(0, len(matrix), _TILE):
        last = min(first + _TILE, len(matrix))
        matrix[last:, first:last] = matrix[first:last, last:].T
        tile = matrix[first:last, first:last]
        np.copyto(tile, tile.T.copy(), where=below[: last - first, : last - first])


def log_determinant(factor: FloatArray) -> float:
    """Log-determinant of the factored matrix, from its Cholesky factor."""
    return 2.0 * float(np.log(np.diagonal(factor)).sum())


def _call(name: str, matrix: FloatArray | NDArray[np.float32]) -> int:
    kind = np.float32 if name[0] == "s" else np.float64
    if not (matrix.flags.c_contiguous and matrix.dtype == kind and matrix.shape[0] == matrix.shape[1]):
        raise ValueError(f"a contiguous square matrix of {kind.__name__} numbers is needed")
    routine = _routine(name)
    # LAPACK is column-major: the upper triangle of a row-major matrix is its lower triangle.
    if routine is None:
        options = {"clean": 0, "overwrite_a": 1} if name.endswith("potrf") else {"overwrite_c": 1}
        result, code = lapack.__dict__[name](matrix.T, lower=1, **options)
        if not np.shares_memory(result, matrix):
            matrix.T[...] = result
        return int(code)
    size, leading, status = ctypes.c_int(len(matrix)), ctypes.c_int(max(1, len(matrix))), ctypes.c_int(0)
    routine(b"L", ctypes.byref(size), matrix.ctypes.data, ctypes.byref(leading), ctypes.byref(status))
    return status.value


@cache
def _routine(name: str) -> Callable[..., None] | None:
    """The LAPACK routine of SciPy's build, or None if its integers are not C's int (ILP64 builds).

    Calls through ctypes release the interpreter lock.
    """
    from numba.extending import get_cython_function_address

    if not _takes_int(repr(cython_lapack.__pyx_capi__[name]), name[0]):
        return None
    integer, result = ctypes.POINTER(ctypes.c_int), None
    kind = ctypes.CFUNCTYPE(result, ctypes.c_char_p, integer, ctypes.c_void_p, integer, integer)
    return kind(get_cython_function_address("scipy.linalg.cython_lapack", name))


def _takes_int(capsule: str, precision: str) -> bool:
    """Whether a capsule, whose name is the C signature, has the arguments (uplo, n, matrix, leading, status)."""
    number = rf"(?:\w*_{precision}|{'float' if precision == 's' else 'double'})"
    return re.search(rf'"void \(char \*, int \*, {number} \*, int \*, int \*\)"', capsule) is not None
