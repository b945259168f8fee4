"""Cholesky factors and inverses, in place, while other threads run.

SciPy's wrappers of these two routines keep the interpreter's lock, so that threads with a block each would wait for one
another; the same routines, called by address, do not.
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
    """Replace the upper triangle of a square row-major matrix by its Cholesky factor; whether it is definite."""
    return _call("spotrf" if matrix.dtype == np.float32 else "dpotrf", matrix) == 0


def invert_factor_in_place(matrix: FloatArray) -> bool:
    """Replace such a factor by the upper triangle of the inverse of what was factored."""
    return _call("dpotri", matrix) == 0


def log_determinant(factor: FloatArray) -> float:
    """Log-determinant of what was factored."""
    return 2.0 * float(np.log(np.diagonal(factor)).sum())


def _call(name: str, matrix: FloatArray | NDArray[np.float32]) -> int:
    kind = np.float32 if name[0] == "s" else np.float64
    if not (matrix.flags.c_contiguous and matrix.dtype == kind and matrix.shape[0] == matrix.shape[1]):
        raise ValueError(f"a contiguous square matrix of {kind.__name__} numbers is needed")
    size, status = ctypes.c_int(len(matrix)), ctypes.c_int(0)
    # LAPACK reads columns: what is an upper triangle to us is a lower one to it.
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
    """The LAPACK routine that SciPy was built with; calls through ctypes give up the interpreter's lock."""
    capsule = cython_lapack.__pyx_capi__[name]
    name_of, pointer_of = ctypes.pythonapi.PyCapsule_GetName, ctypes.pythonapi.PyCapsule_GetPointer
    name_of.restype, name_of.argtypes = ctypes.c_char_p, [ctypes.py_object]
    pointer_of.restype, pointer_of.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    integer, result = ctypes.POINTER(ctypes.c_int), None
    kind = ctypes.CFUNCTYPE(result, ctypes.c_char_p, integer, ctypes.c_void_p, integer, integer)
    return kind(pointer_of(capsule, name_of(capsule)))
