"""Dense and sparse matrix work of Newton's method on one big group: NumPy here, CuPy on a CUDA device.

`HostArrays` is the meaning, and what the tests run; `DeviceArrays` does the same on a device. Solvers are written once,
on the functions that NumPy and CuPy share (`xp`) and the few below that they do not.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from scipy.linalg import lapack

from jointglasso._optional import require
from jointglasso.backends.gpu import DeviceFailed

#: Threads of a block; columns that each of them adds up in `rows_times`.
_THREADS, _COLUMNS = 256, 4

#: ``out = D W`` for a sparse D by rows. Blocks of one stretch of columns run together: that part of W stays in cache.
#: ``out[e] = sum_l A[i_e, l] B[j_e, l]``, one warp for an entry.
_PRODUCTS = r"""
extern "C" __global__ void rows_times(const int* start, const int* other, const float* value, const float* W,
                                      const int n, float* out)
{
    const int row = blockIdx.x, first = blockIdx.y * blockDim.x * 4 + threadIdx.x;
    float sum[4] = {0.f, 0.f, 0.f, 0.f};
    for (int e = start[row]; e < start[row + 1]; ++e) {
        const float d = value[e];
        const float* from = W + (size_t)other[e] * n;
        #pragma unroll
        for (int c = 0; c < 4; ++c) {
            const int column = first + c * blockDim.x;
            if (column < n) sum[c] += d * from[column];
        }
    }
    #pragma unroll
    for (int c = 0; c < 4; ++c) {
        const int column = first + c * blockDim.x;
        if (column < n) out[(size_t)row * n + column] = sum[c];
    }
}

extern "C" __global__ void dots(const float* A, const float* B, const int* i, const int* j, const long long n_entries,
                                const int n, float* out)
{
    const long long e = (long long)blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
    if (e >= n_entries) return;
    const float* a = A + (size_t)i[e] * n;
    const float* b = B + (size_t)j[e] * n;
    float sum = 0.f;
    for (int l = threadIdx.x % 32; l < n; l += 32) sum += a[l] * b[l];
    for (int step = 16; step > 0; step /= 2) sum += __shfl_down_sync(0xffffffff, sum, step);
    if (threadIdx.x % 32 == 0) out[e] = sum;
}
"""


class Pattern(NamedTuple):
    """Where the numbers of a sparse matrix are."""

    start: Any
    """Where each row begins."""
    other: Any
    """Column of each number."""
    order: Any
    """The numbers, as they are given, in this order."""


class HostArrays:
    """On this processor."""

    xp: Any = np
    errors: tuple[type[Exception], ...] = ()
    """What is raised where memory is too short."""

    def array(self, x: Any) -> Any:
        """A NumPy array over there."""
        return np.asarray(x)

    def numpy(self, x: Any) -> Any:
        """An array from over there as one of NumPy's."""
        return np.asarray(x)

    def factor(self, matrix: Any) -> Any:
        """Lower Cholesky factor of a symmetric matrix, None if it is not definite; the matrix may be overwritten."""
        L, info = lapack.dpotrf(matrix.T, lower=0, clean=1, overwrite_a=1)
        return None if info else L.T

    def inverse(self, L: Any) -> Any:
        """Inverse of the matrix with a factor; the factor may be overwritten."""
        half, _ = lapack.dpotri(L.T, lower=0, overwrite_c=1)
        half = half.T
        return half + np.tril(half, -1).T

    def pattern(self, i: Any, j: Any, n: int) -> Pattern:
        """Places of the non-zero numbers of a sparse matrix, sorted by rows."""
        order = self.xp.argsort(i * n + j)
        start = self.xp.searchsorted(i[order], self.xp.arange(n + 1)).astype(np.int32)
        return Pattern(start, j[order].astype(np.int32), order)

    def rows_times(self, pattern: Pattern, value: Any, W: Any) -> Any:
        """``D W`` with the given numbers in a sparse D, W in single precision."""
        start, other, order = pattern
        return sparse.csr_array((value[order].astype(np.float32), other, start), shape=W.shape) @ W

    def dots(self, A: Any, B: Any, i: Any, j: Any) -> Any:
        """Inner products of rows i of A with rows j of B."""
        out = np.empty(len(i), dtype=np.float32)
        for first in range(0, len(i), 4096):
            some = slice(first, first + 4096)
            out[some] = np.einsum("el,el->e", A[i[some]], B[j[some]])
        return out

    def let_go(self) -> None:
        """Give memory back."""


class DeviceArrays(HostArrays):
    """On a CUDA device, by way of CuPy."""

    def __init__(self) -> None:
        self.xp = require("cupy", "gpu")
        self.errors = (self.xp.cuda.memory.OutOfMemoryError,)
        self._triangular = require("cupyx.scipy.linalg", "gpu").solve_triangular
        self._checked = require("cupyx", "gpu").errstate
        module = self.xp.RawModule(code=_PRODUCTS)
        self._rows_times, self._dots = module.get_function("rows_times"), module.get_function("dots")

    def array(self, x: Any) -> Any:
        return self.xp.asarray(x)

    def numpy(self, x: Any) -> Any:
        return self.xp.asnumpy(x)

    def factor(self, matrix: Any) -> Any:
        try:
            with self._checked(linalg="raise"):
                return self.xp.linalg.cholesky(matrix)
        except np.linalg.LinAlgError:
            return None

    def inverse(self, L: Any) -> Any:
        half = self._triangular(L, self.xp.eye(len(L)), lower=True, overwrite_b=True, check_finite=False)
        return half.T @ half

    def rows_times(self, pattern: Pattern, value: Any, W: Any) -> Any:
        n, (start, other, order) = len(W), pattern
        out = self.xp.empty((n, n), dtype=np.float32)
        grid = (n, -(-n // (_THREADS * _COLUMNS)))
        self._rows_times(grid, (_THREADS,), (start, other, value[order].astype(np.float32), W, np.int32(n), out))
        return out

    def dots(self, A: Any, B: Any, i: Any, j: Any) -> Any:
        out = self.xp.empty(len(i), dtype=np.float32)
        if len(i):
            ends = i.astype(np.int32), j.astype(np.int32)
            grid = (-(-len(i) // (_THREADS // 32)),)
            self._dots(grid, (_THREADS,), (A, B, *ends, np.int64(len(i)), np.int32(len(A)), out))
        return out

    def let_go(self) -> None:
        self.xp.get_default_memory_pool().free_all_blocks()


def arrays_on(device: str) -> HostArrays:
    """The array work of a device: "cuda", or "cpu"."""
    if device == "cpu":
        return HostArrays()
    try:
        return DeviceArrays()
    except Exception as error:  # no package, no driver, no device, no compiler
        raise DeviceFailed(f"the device cannot be used: {error}") from error
