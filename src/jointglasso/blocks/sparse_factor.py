"""Sparse Theta of one class: elimination order, Cholesky factor, entries of the inverse, columns on demand.

Theta has n variables, a diagonal, and entries i < j on a given sparsity. Nothing of size n^2 is stored: the factor has
the sparsity of `minimum_degree` and a dense tail of m variables, (m, m).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import blas

from jointglasso._lapack import factor_in_place, invert_factor_in_place
from jointglasso._typing import BoolArray, FloatArray, IntArray

_UNIT = np.finfo(np.float64).eps / 2.0

#: Elimination stops, and the variables left over are factored as a dense matrix, when the least degree reaches this
#: fraction of their number: dense multiplications are about twenty times as fast as sparse ones.
_TAIL_FRACTION = 0.25


def neighbours(n: int, i: IntArray, j: IntArray) -> tuple[IntArray, IntArray, IntArray]:
    """Symmetric graph of the edges (i, j): offsets (n + 1,), neighbours, and the edge of each neighbour."""
    row, edge = np.concatenate([i, j]), np.tile(np.arange(len(i)), 2)
    order = np.argsort(row, kind="stable")
    start = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=n))])
    return start, np.concatenate([j, i])[order], edge[order]


@dataclass(frozen=True)
class FactorSparsity:
    """Elimination order and sparsity of the factor of a matrix with entries at (i, j), i < j."""

    order: IntArray
    """(n,): variable of each column of the factor."""
    n_columns: int
    """Number n_1 of sparse columns; the others are the dense tail."""
    offset: IntArray
    rows: NDArray[np.int32]
    position: IntArray
    """(E,): position of each entry in the sparse columns, or -1 in the tail."""
    tail_position: IntArray
    """(T,): flat position in the tail, (m, m), of the entries with position -1."""

    @classmethod
    def of(cls, n: int, i: IntArray, j: IntArray, limit: float = np.inf) -> FactorSparsity | None:
        """Order and sparsity; None if the sum of squared column lengths exceeds `limit`."""
        from jointglasso.kernels.sparse_factor import positions_of
        from jointglasso.kernels.sparse_order import minimum_degree

        start, other, _ = neighbours(n, i, j)
        order, n_columns, offset, rows = minimum_degree(start, other, _TAIL_FRACTION, float(limit))
        if n_columns < 0:
            return None
        self = cls(order, n_columns, offset, rows, np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64))
        row, column = np.maximum(self.rank[i], self.rank[j]), np.minimum(self.rank[i], self.rank[j])
        position, sparse = np.full(len(i), -1), column < n_columns
        found = np.empty(int(sparse.sum()), dtype=np.int64)
        positions_of(self.kernel, row[sparse], column[sparse], found)
        position[sparse] = found
        m = n - n_columns
        tail_position = (column[~sparse] - n_columns) * m + row[~sparse] - n_columns
        return cls(order, n_columns, offset, rows, position, tail_position)

    @cached_property
    def rank(self) -> IntArray:
        """(n,): column of each variable."""
        rank = np.empty_like(self.order)
        rank[self.order] = np.arange(len(self.order))
        return rank

    @cached_property
    def kernel(self) -> Any:
        """The sparsity as an argument of compiled code: a named tuple of `kernels`, which loads numba."""
        from jointglasso.kernels.sparse_factor import Sparsity, tail_starts

        starts = tail_starts(self.n_columns, self.offset, self.rows)
        return Sparsity(len(self.order), self.offset, self.rows, starts)

    @property
    def n_tail(self) -> int:
        """Size m of the dense tail."""
        return len(self.order) - self.n_columns

    @property
    def work(self) -> tuple[float, float]:
        """Multiplications of a factorisation: in sparse columns, and in the tail."""
        return 0.5 * float((np.diff(self.offset).astype(float) ** 2).sum()), self.n_tail**3 / 6.0

    @property
    def memory(self) -> float:
        """Bytes of the sparsity, two factors and the inverse."""
        return 28.0 * len(self.rows) + 24.0 * float(self.n_tail) ** 2

    def factor(self, diagonal: FloatArray, entries: FloatArray) -> SparseFactor | None:
        """Factor of the matrix with this diagonal (n,) and these entries (E,); None if it is not definite."""
        from jointglasso.kernels.sparse_factor import factor_columns

        m = self.n_tail
        value, pivot, tail = np.zeros(len(self.rows)), np.empty(self.n_columns), np.zeros((m, m))
        sparse = self.position >= 0
        value[self.position[sparse]] = entries[sparse]
        tail.ravel()[self.tail_position] = entries[~sparse]
        if not factor_columns(self.kernel, diagonal[self.order], value, pivot, tail):
            return None
        if m and not (np.diagonal(tail) > 0.0).all():
            return None
        return SparseFactor(self, value, pivot, tail) if not m or factor_in_place(tail) else None


@dataclass(frozen=True)
class SparseFactor:
    """Cholesky factor of a sparse matrix."""

    sparsity: FactorSparsity
    value: FloatArray
    pivot: FloatArray
    tail: FloatArray

    @property
    def logdet(self) -> float:
        """Log-determinant of the matrix."""
        return 2.0 * float(np.log(self.pivot).sum() + np.log(np.diagonal(self.tail)).sum())

    @cached_property
    def backward_error(self) -> tuple[float, float]:
        """Bounds on |E|_inf, and on max_ij |E_ij| / sqrt(a_ii a_jj), of ``L L' = A + E``, A the matrix as stored.

        ``|E| <= g(c + 1) |L| |L'|``, c the number of entries of the longest row of L (Higham, theorem 10.3, counting
        only products that are not zero); the row sums of |L| |L'| are computed, and enlarged for their own rounding.
        The rows of L have the norms sqrt(a_ii) up to that error.
        """
        from jointglasso.kernels.sparse_factor import backward_error_sums

        sums, length = backward_error_sums(self.sparsity.kernel, self.value, self.pivot, self.tail)
        longest = float(length.max(initial=1))
        g = (longest + 2.0) * _UNIT / (1.0 - (longest + 2.0) * _UNIT)
        return g * float(sums.max(initial=0.0)) * (1.0 + 1e-6), g * (1.0 + 1e-6)

    def invert(self) -> SparseInverse:
        """Entries of the inverse on the sparsity of the factor."""
        from jointglasso.kernels.sparse_factor import invert_on_sparsity

        tail = self.tail.copy()
        if len(tail):
            invert_factor_in_place(tail)
        diagonal = np.empty(len(self.sparsity.order))
        diagonal[self.sparsity.n_columns :] = np.diagonal(tail)
        value = np.empty_like(self.value)
        invert_on_sparsity(self.sparsity.kernel, self.value, self.pivot, tail, value, diagonal)
        return SparseInverse(self, value, diagonal, tail)


@dataclass(frozen=True)
class SparseInverse:
    """Entries of the inverse W of a factored matrix."""

    factor: SparseFactor
    value: FloatArray
    ordered_diagonal: FloatArray
    tail: FloatArray

    @property
    def diagonal(self) -> FloatArray:
        """(n,): diagonal of W."""
        return self.ordered_diagonal[self.factor.sparsity.rank]

    @property
    def entries(self) -> FloatArray:
        """(E,): W at the entries of the matrix."""
        sparsity = self.factor.sparsity
        sparse = sparsity.position >= 0
        out = np.empty(len(sparsity.position))
        out[sparse] = self.value[sparsity.position[sparse]]
        out[~sparse] = self.tail.ravel()[sparsity.tail_position]
        return out

    def at(self, i: IntArray, j: IntArray) -> tuple[FloatArray, BoolArray]:
        """W at pairs i != j of variables, and whether they are on the sparsity; zero where not."""
        from jointglasso.kernels.sparse_factor import positions_of

        sparsity = self.factor.sparsity
        row = np.maximum(sparsity.rank[i], sparsity.rank[j])
        column = np.minimum(sparsity.rank[i], sparsity.rank[j])
        out, known, sparse = np.zeros(len(i)), np.ones(len(i), dtype=bool), column < sparsity.n_columns
        found = np.empty(int(sparse.sum()), dtype=np.int64)
        positions_of(sparsity.kernel, row[sparse], column[sparse], found)
        out[sparse] = np.where(found >= 0, np.append(self.value, 0.0)[found], 0.0)
        known[sparse] = found >= 0
        out[~sparse] = self.tail[column[~sparse] - sparsity.n_columns, row[~sparse] - sparsity.n_columns]
        return out, known

    def columns(self, variables: IntArray) -> FloatArray:
        """(n, c): columns of W, solved for with the factor."""
        X = np.zeros((len(self.factor.sparsity.order), len(variables)))
        X[variables, np.arange(len(variables))] = 1.0
        return self.multiply(X)

    def multiply(self, X: FloatArray) -> FloatArray:
        """W X for a vector (n,) or a matrix (n, c)."""
        from jointglasso.kernels.sparse_factor import solve_backward, solve_forward

        sparsity, factor, shape = self.factor.sparsity, self.factor, X.shape
        X = X.reshape(len(X), -1)[sparsity.order]
        solve_forward(sparsity.kernel, factor.value, factor.pivot, X)
        if sparsity.n_tail:  # the upper triangle of a row-major matrix is the lower one of its transpose
            X[sparsity.n_columns :] = blas.dsymm(1.0, self.tail.T, X[sparsity.n_columns :], lower=1)
        solve_backward(sparsity.kernel, factor.value, factor.pivot, X)
        return X[sparsity.rank].reshape(shape)

    def scaled_sum(self, root: FloatArray) -> float:
        """Sum of ``|W_ij| root_i root_j`` over the sparsity of the factor."""
        from jointglasso.kernels.sparse_factor import scaled_sum

        ordered = root[self.factor.sparsity.order]
        off = scaled_sum(self.factor.sparsity.kernel, self.value, self.tail, ordered)
        return off + float((np.abs(self.ordered_diagonal) * ordered**2).sum())
