"""Symmetric matrices on a fixed support in the blocks of flat storage, and linear systems with the Hessian on it.

A matrix on the support is the vector of its entries i <= j. The Hessian of ``-log det Theta`` maps D to ``W D W``,
restricted to the support, with ``W = Theta^{-1}``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse

from jointglasso import config
from jointglasso._cached_property import cached_property
from jointglasso._threads import Workers, balanced_bounds
from jointglasso._typing import BoolArray, FloatArray, IntArray

#: Smallest divisor.
_TINY = 1e-300


class SymmetricSupport:
    """Entries (row, column), members of blocks numbered through all blocks, row <= column.

    `offset` (B + 1,) and `size` (B,) describe the blocks in flat storage.
    """

    def __init__(self, offset: IntArray, size: IntArray, row: IntArray, column: IntArray, n_threads: int = 1) -> None:
        from jointglasso.kernels.face import SupportIndex

        self.size, self.row, self.column = size, row, column
        self.workers = Workers(n_threads)
        first, n = np.concatenate([[0], np.cumsum(size)]), len(row)
        self._first_member, self._offset = first, offset
        off = np.flatnonzero(row != column)
        ends = np.concatenate([row, column[off]]), np.concatenate([column, row[off]])
        number = np.concatenate([np.arange(n), off])
        shape = int(first[-1]), int(first[-1])
        csr = sparse.coo_array((number + 1, ends), shape=shape).tocsr()  # index + 1: explicit zeros are kept anyway
        width = np.repeat(size, size)
        begin = np.repeat(first[:-1], size)
        start = csr.indptr.astype(np.int64)
        columns = csr.indices - np.repeat(begin, np.diff(start))
        self.index = SupportIndex(
            np.repeat(offset[:-1], size), width, np.arange(shape[0]) - begin, start, columns, csr.data - 1
        )
        cost = np.diff(start) * width.astype(float)
        self.work = 3.0 * float(cost.sum())
        """Approximate floating point operations of a product."""
        self._half: Any = np.empty(0)
        self._bounds = balanced_bounds(cost + width, 4 * n_threads if n_threads > 1 else 1)

    def product(self, W: Any, entries: FloatArray, wanted: BoolArray) -> FloatArray:
        """Entries of ``W D W`` that are marked in `wanted`, D given by `entries`; zero elsewhere."""
        from jointglasso.kernels.face import multiply_rows, sample_rows

        if self.is_dense:
            return self._dense_product(W, entries) * wanted
        if self._half.dtype != W.dtype or self._half.shape != W.shape:
            self._half = np.empty_like(W)
        scale = float(np.abs(entries).max(initial=0.0)) or 1.0  # single precision has a small range
        values, out = (entries / scale).astype(W.dtype), np.zeros(len(entries), dtype=W.dtype)
        self.workers.run(multiply_rows, self._bounds, self.index, W, values, self._half)
        self.workers.run(sample_rows, self._bounds, self.index, W, self._half, wanted, out)
        return scale * out.astype(np.float64)

    @property
    def neighbours(self) -> tuple[IntArray, IntArray]:
        """Adjacency lists in CSR form: start (M + 1,) and neighbours."""
        start, column = self.index.start, self.index.column
        other = column != np.repeat(self.index.slot, np.diff(start))
        return np.concatenate([[0], np.cumsum(other)])[start], column[other]

    @cached_property
    def is_dense(self) -> bool:
        """Whether dense matrix products take less time."""
        return (
            len(self.row) * config.DENSE_SUPPORT > float((self.size.astype(float) ** 2).sum()) and len(self.size) < 20
        )

    def _dense_product(self, W: FloatArray, entries: FloatArray) -> FloatArray:
        out = np.empty(len(entries))
        for begin, first, b in zip(self._offset[:-1], self._first_member[:-1], self.size, strict=True):
            chosen = np.flatnonzero((self.row >= first) & (self.row < first + b))
            i, j = self.row[chosen] - first, self.column[chosen] - first
            D, block = np.zeros((b, b)), W[begin : begin + b * b].reshape(b, b)
            D[i, j] = D[j, i] = entries[chosen]
            out[chosen] = (block @ D.astype(W.dtype) @ block)[i, j]
        return out


def conjugate_gradients(
    hvp: Callable[[FloatArray], FloatArray],
    preconditioner: Callable[[FloatArray], FloatArray],
    residual: FloatArray,
    sums: Callable[[FloatArray], FloatArray],
    spread: Callable[[FloatArray], FloatArray],
    tolerance: FloatArray,
    max_steps: int,
) -> tuple[FloatArray, int]:
    """Solution of ``H x = residual`` in several independent groups at a time, and the number of steps.

    `sums` adds up a vector within each group, (G,), and `spread` maps (G,) to vectors. A group ends when the squared
    norm of its residual, in the metric of the preconditioner, is below `tolerance` (G,) or the forcing term, a fraction
    of the first one that decreases with it, for quadratic convergence near the solution; but not before it has fallen
    by `config.FORCING`, since that norm underestimates the error of a badly conditioned system.
    """
    x = np.zeros_like(residual)
    scaled = preconditioner(residual)
    search, norm = scaled, sums(residual * scaled)
    limit = norm * np.minimum(config.FORCING, np.maximum(norm, tolerance / np.maximum(norm, _TINY)))
    for step in range(max_steps):
        active = norm > limit
        if not active.any():
            return x, step
        product = hvp(search)
        curvature = sums(search * product)
        active &= curvature > 0.0
        length = spread(np.where(active, norm / np.where(active, curvature, 1.0), 0.0))
        x = x + length * search
        residual = residual - length * product
        scaled = preconditioner(residual)
        before, norm = norm, np.where(active, sums(residual * scaled), 0.0)
        search = scaled + spread(np.where(before > 0.0, norm / np.where(before > 0.0, before, 1.0), 0.0)) * search
    return x, max_steps
