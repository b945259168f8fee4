"""In-place Cholesky factorisation (potrf) and inversion (potri) that release the interpreter lock.

SciPy's wrappers of these routines hold the lock, which serialises threads that factor one block each; the same
routines called by address do not.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cython_lapack

from jointglasso._typing import FloatArray


def factor_in_place(matrix: FloatArray | NDArray[np.float32]) -> bool:
    """Replace the upper triangle of a square row-major matrix by its Cholesky factor; False if it is not definite."""
    return _call("spotrf" if matrix.dtype == np.float32 else "dpotrf", matrix) == 0


def invert_factor_in_place(matrix: FloatArray) -> bool:
    """Replace the factor of `factor_in_place` by the upper triangle of the inverse of the factored matrix."""
    return _call("dpotri", matrix) == 0


def log_determinant(factor: FloatArray) -> float:
    """Log-determinant of the factored matrix, from its Cholesky factor."""
    return 2.0 * float(np.log(np.diagonal(factor)).sum())


def _call(name: str, matrix: FloatArray | NDArray[np.float32]) -> int:
    kind = np.float32 if name[0] == "s" else np.float64
    if not (matrix.flags.c_contiguous and matrix.dtype == kind and matrix.shape[0] == matrix.shape[1]):
        raise ValueError(f"a contiguous square matrix of {kind.__name__} numbers is needed")
    size, status = ctypes.c_int(len(matrix)), ctypes.c_int(0)
    # LAPACK is column-major: the upper triangle of a row-major matrix is its lower triangle.
    _routine(name)(
        b"L",
        ctypes.byref(size),
        matrix.ctypes.data,
        ctypes.byref(ctypes.c_int(max(1, len(matrix)))),
        ctypes.byref(status),
    )
    return status.value


@cache
def _routine(name: str) -> Callable[..., None]:
    """The LAPACK routine of SciPy's build; calls through ctypes release the interpreter lock."""
    capsule = cython_lapack.__pyx_capi__[name]
    name_of, pointer_of = ctypes.pythonapi.PyCapsule_GetName, ctypes.pythonapi.PyCapsule_GetPointer
    name_of.restype, name_of.argtypes = ctypes.c_char_p, [ctypes.py_object]
    pointer_of.restype, pointer_of.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    integer, result = ctypes.POINTER(ctypes.c_int), None
    kind = ctypes.CFUNCTYPE(result, ctypes.c_char_p, integer, ctypes.c_void_p, integer, integer)
    return kind(pointer_of(capsule, name_of(capsule)))
