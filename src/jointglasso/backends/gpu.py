"""The scan for pairs above a threshold on a CUDA device: tile products, comparison and compaction run on the device.

Only pairs that single precision cannot rule out are copied back; the caller evaluates them in double precision. The
result is therefore that of the CPU, provided that the device's products satisfy the float32 error bound. Tensor cores
that round to fewer bits would not: the first product is compared with its exact value, and a device that fails is
refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jointglasso._optional import require
from jointglasso._typing import FloatArray, IntArray
from jointglasso.backends import DeviceFailed

#: Rows and columns of a tile on the device: a quarter of a GiB of products, and half a GiB for all its pairs.
SIDE = 8192

#: Rows of one column of a tile that each device thread compares.
_ROWS_A_THREAD = 64

#: Appends ``(row << 32) + column`` of every entry that may be above; rows and columns count from the matrix's corner.
_MARK = r"""
extern "C" __global__ void mark(const float* tile, const float* least_of_row, const float* least_of_column,
                                const float slack, const int n_rows, const int n_columns, const int rows_a_thread,
                                const long long top, const long long left, unsigned long long* found, int* n_found)
{
    const int column = blockIdx.x * blockDim.x + threadIdx.x;
    if (column >= n_columns) return;
    const float least = least_of_column[column];
    const int first = blockIdx.y * rows_a_thread;
    const int last = min(first + rows_a_thread, n_rows);
    for (int row = first; row < last; ++row) {
        const float value = tile[(size_t)row * n_columns + column];
        if (fabsf(value) + slack > least_of_row[row] * least && left + column > top + row)
            found[atomicAdd(n_found, 1)] = ((unsigned long long)(top + row) << 32) + (left + column);
    }
}
"""


@cache
def available() -> bool:
    """Whether CuPy is installed and a CUDA device is present."""
    try:
        return bool(require("cupy", "gpu").cuda.runtime.getDeviceCount() > 0)
    except Exception:  # package, driver or device missing
        return False


def require_device() -> None:
    """Raise an error that names the missing package or device."""
    require("cupy", "gpu")
    if not available():
        raise DeviceFailed('device="cuda" needs a CUDA device and its driver, and CuPy sees none: use device="cpu".')


def possible_pairs(
    units: list[NDArray[np.float32]],
    least_of_row: list[FloatArray],
    least_of_column: list[FloatArray],
    errors: list[float],
) -> tuple[IntArray, IntArray]:
    """Pairs i < j with ``|u_i'u_j| + error > least_of_row[i] * least_of_column[j]`` in some class; a superset.

    Parameters
    ----------
    units : list of K arrays (p, n_k)
        Unit vectors of the variables in single precision; zero for a variable without variance.
    least_of_row, least_of_column : list of K arrays (p,)
        Factors of the correlation threshold of each pair; infinite for variables to be excluded.
    errors : list of K floats
        Bound on the rounding error of a product in single precision.
    """
    cupy = require("cupy", "gpu")
    try:
        scan = _DeviceScan(cupy, units, least_of_row, least_of_column, errors)
        keys = np.concatenate([np.empty(0, dtype=np.uint64), *scan.tiles()])
    except cupy.cuda.memory.OutOfMemoryError as error:
        raise DeviceFailed("the device has too little memory for the samples") from error
    finally:
        cupy.get_default_memory_pool().free_all_blocks()
    return (keys >> np.uint64(32)).astype(np.int64), (keys & np.uint64(0xFFFFFFFF)).astype(np.int64)


class _DeviceScan:
    """The samples on the device, and buffers for one tile."""

    def __init__(
        self,
        cupy: Any,
        units: list[NDArray[np.float32]],
        least_of_row: list[FloatArray],
        least_of_column: list[FloatArray],
        errors: list[float],
    ) -> None:
        self.cupy = cupy
        self.units = [cupy.asarray(U) for U in units]
        # A relative slack of 1e-6, as on the CPU, so that rounding in the comparison never loses a pair.
        self.rows = [cupy.asarray(((1.0 - 1e-6) * least).astype(np.float32)) for least in least_of_row]
        self.columns = [cupy.asarray(least.astype(np.float32)) for least in least_of_column]
        self.slack = [np.float32(error * (1.0 + 1e-6)) for error in errors]
        for k, U in enumerate(units):
            self._require_single_precision(k, U, errors[k])
        side = min(SIDE, len(units[0]))
        self.tile = cupy.empty(side * side, dtype=np.float32)
        self.hits = cupy.empty(side * side, dtype=np.uint64)  # large enough for every pair of a tile
        self.n_hits = cupy.zeros(1, dtype=np.int32)
        self.mark = cupy.RawKernel(_MARK, "mark")

    def _require_single_precision(self, k: int, U: NDArray[np.float32], error: float) -> None:
        head = slice(0, min(256, len(U)))
        product = self.cupy.asnumpy(self.cupy.matmul(self.units[k][head], self.units[k][head].T)).astype(float)
        exact = U[head].astype(float) @ U[head].astype(float).T
        if not np.abs(product - exact).max(initial=0.0) <= error:
            raise DeviceFailed("the device's products are less exact than single precision")

    def tiles(self) -> Iterator[NDArray[np.uint64]]:
        """Pairs of each tile of the upper triangle, as row << 32 + column."""
        p = len(self.units[0])
        for i in range(0, p, SIDE):
            for j in range(i, p, SIDE):
                yield self._scan(slice(i, min(i + SIDE, p)), slice(j, min(j + SIDE, p)))

    def _scan(self, rows: slice, columns: slice) -> NDArray[np.uint64]:
        shape = rows.stop - rows.start, columns.stop - columns.start
        tile = self.tile[: shape[0] * shape[1]].reshape(shape)
        grid = (-(-shape[1] // 256), -(-shape[0] // _ROWS_A_THREAD))
        parts = []
        for k, U in enumerate(self.units):
            self.n_hits.fill(0)
            self.cupy.matmul(U[rows], U[columns].T, out=tile)
            least = self.rows[k][rows], self.columns[k][columns]
            size = np.int32(shape[0]), np.int32(shape[1]), np.int32(_ROWS_A_THREAD)
            corner = np.int64(rows.start), np.int64(columns.start)
            self.mark(grid, (256,), (tile, *least, self.slack[k], *size, *corner, self.hits, self.n_hits))
            parts.append(self.cupy.asnumpy(self.hits[: int(self.n_hits[0])]))
        return np.unique(np.concatenate(parts))
