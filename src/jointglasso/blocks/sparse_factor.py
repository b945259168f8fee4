"""Sparse Theta of one class: elimination order, Cholesky factor, entries of the inverse, columns on demand.

Theta has n variables, a diagonal, and entries i < j on a given sparsity. Nothing of size n^2 is stored: the factor has
the sparsity of `minimum_degree` and a dense tail of m variables, (m, m).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.linalg import blas

from jointglasso._cached_property import cached_property
from jointglasso._lapack import factor_in_place, invert_factor_in_place
from jointglasso._threads import blas_threads_for
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
    """(E,): position of each entry in the sparse columns, or beyond them in the tail, (m, m)."""

    @classmethod
    def of(cls, n: int, i: IntArray, j: IntArray) -> FactorSparsity:
        """Order and sparsity of a matrix of n variables."""
        return cast(FactorSparsity, cls.within(np.inf, n, i, j))

    @classmethod
    def within(cls, limit: float, n: int, i: IntArray, j: IntArray) -> FactorSparsity | None:
        """Order and sparsity; None if the sum of squared column lengths exceeds `limit`."""
        from jointglasso.kernels.sparse_order import minimum_degree

        start, other, _ = neighbours(n, i, j)
        order, n_columns, offset, variables = minimum_degree(start, other, _TAIL_FRACTION, limit)
        if n_columns < 0:
            return None
        self = cls(order, n_columns, offset, variables, np.empty(0, dtype=np.int64))
        self = replace(self, rows=self.rank.astype(np.int32)[variables])
        columns = self.absolute(np.empty(len(variables)))
        columns.sort_indices()
        self = replace(self, rows=columns.indices.astype(np.int32))
        return replace(self, position=self.find(i, j))

    def find(self, i: IntArray, j: IntArray) -> IntArray:
        """Positions of entries i != j: in the sparse columns, then, from `len(rows)` on, in the tail; -1 if in none."""
        row, column = np.maximum(self.rank[i], self.rank[j]), np.minimum(self.rank[i], self.rank[j])
        n, first, n_sparse = len(self.order), self.n_columns, len(self.rows)
        wanted = column * n + row
        place = np.searchsorted(self._keys, wanted)
        place[self._keys[place] != wanted] = -1
        return np.where(column < first, place, n_sparse + (column - first) * self.n_tail + row - first)

    @cached_property
    def _keys(self) -> IntArray:
        """(nnz + 1,): column and row of each entry of the sparse columns as one number, ascending, and a last one."""
        column = np.repeat(np.arange(self.n_columns), np.diff(self.offset))
        return np.append(column * len(self.order) + self.rows, np.iinfo(np.int64).max)

    @cached_property
    def rank(self) -> IntArray:
        """(n,): column of each variable."""
        rank = np.empty_like(self.order)
        rank[self.order] = np.arange(len(self.order))
        return rank

    @cached_property
    def kernel(self) -> Any:
        """The sparsity as an argument of compiled code: a named tuple of `kernels`, which loads numba."""
        from jointglasso.kernels.sparse_factor import Sparsity

        in_tail = np.concatenate([[0], np.cumsum(self.rows >= self.n_columns)])[self.offset]
        return Sparsity(len(self.order), self.offset, self.rows, self.offset[1:] - np.diff(in_tail))

    def absolute(self, value: FloatArray) -> Any:
        """(n, n_1): the absolute values of sparse columns below the diagonal, as a matrix of SciPy."""
        return sparse.csc_array((np.abs(value), self.rows, self.offset), shape=(len(self.order), self.n_columns))

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

        stored = np.zeros(len(self.rows) + self.n_tail**2)
        stored[self.position] = entries
        factor = SparseFactor(self, stored, np.empty(self.n_columns))
        if not factor_columns(self.kernel, diagonal[self.order], factor.value, factor.pivot, factor.tail):
            return None
        if not (np.diagonal(factor.tail) > 0.0).all():
            return None
        with blas_threads_for(self.n_tail):
            return factor if not self.n_tail or factor_in_place(factor.tail) else None


@dataclass(frozen=True)
class _Stored:
    """Entries on the sparsity of a factor, without the diagonal of the sparse columns."""

    sparsity: FactorSparsity
    stored: FloatArray
    """(nnz + m^2,): entries of the sparse columns, and upper triangle of the tail."""

    @property
    def value(self) -> FloatArray:
        """(nnz,): entries of the sparse columns."""
        return self.stored[: len(self.sparsity.rows)]

    @property
    def tail(self) -> FloatArray:
        """(m, m): upper triangle of the tail."""
        m = self.sparsity.n_tail
        return self.stored[len(self.sparsity.rows) :].reshape(m, m)


@dataclass(frozen=True)
class SparseFactor(_Stored):
    """Cholesky factor of a sparse matrix."""

    pivot: FloatArray
    """(n_1,): diagonal of the sparse columns."""

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
        sparsity, tail = self.sparsity, np.abs(self.tail)
        n_columns, L = sparsity.n_columns, sparsity.absolute(self.value)
        length = np.bincount(sparsity.rows, minlength=len(sparsity.order))
        length[n_columns:] += np.arange(len(tail))
        chain = float(length.max(initial=0)) + 3.0
        g = chain * _UNIT / (1.0 - chain * _UNIT) * (1.0 + 1e-6)
        column_sum = L.sum(axis=0) + self.pivot
        sums = L @ column_sum
        sums[:n_columns] += self.pivot * column_sum
        sums[n_columns:] += np.einsum("ab,a", tail, tail.sum(axis=1))  # BLAS would start threads for so little
        return g * float(sums.max(initial=0.0)), g

    def invert(self) -> SparseInverse:
        """Entries of the inverse on the sparsity of the factor."""
        from jointglasso.kernels.sparse_factor import invert_on_sparsity

        inverse = SparseInverse(self.sparsity, self.stored.copy(), np.empty(len(self.sparsity.order)), self)
        if self.sparsity.n_tail:
            with blas_threads_for(self.sparsity.n_tail):
                invert_factor_in_place(inverse.tail)
        inverse.ordered_diagonal[self.sparsity.n_columns :] = np.diagonal(inverse.tail)
        arguments = self.value, self.pivot, inverse.tail, inverse.value, inverse.ordered_diagonal
        invert_on_sparsity(self.sparsity.kernel, *arguments)
        return inverse


@dataclass(frozen=True)
class SparseInverse(_Stored):
    """Entries of the inverse W of a factored matrix."""

    ordered_diagonal: FloatArray
    """(n,): diagonal of W in elimination order."""
    factor: SparseFactor

    @property
    def diagonal(self) -> FloatArray:
        """(n,): diagonal of W."""
        return self.ordered_diagonal[self.sparsity.rank]

    @property
    def entries(self) -> FloatArray:
        """(E,): W at the entries of the matrix."""
        return self.stored[self.sparsity.position]

    def at(self, i: IntArray, j: IntArray) -> tuple[FloatArray, BoolArray]:
        """W at pairs i != j of variables, and whether they are on the sparsity; zero where not."""
        position = self.sparsity.find(i, j)
        return np.append(self.stored, 0.0)[position], position >= 0

    def columns(self, variables: IntArray) -> FloatArray:
        """(n, c): columns of W, solved for with the factor."""
        X = np.zeros((len(self.sparsity.order), len(variables)))
        X[variables, np.arange(len(variables))] = 1.0
        return self.multiply(X)

    def multiply(self, X: FloatArray) -> FloatArray:
        """W X for a vector (n,) or a matrix (n, c)."""
        from jointglasso.kernels.sparse_factor import solve_backward, solve_forward

        sparsity, factor, shape = self.sparsity, self.factor, X.shape
        X = X.reshape(len(X), -1)[sparsity.order]
        solve_forward(sparsity.kernel, factor.value, factor.pivot, X)
        if sparsity.n_tail:  # the upper triangle of a row-major matrix is the lower one of its transpose
            with blas_threads_for(sparsity.n_tail):
                X[sparsity.n_columns :] = blas.dsymm(1.0, self.tail.T, X[sparsity.n_columns :], lower=1)
        solve_backward(sparsity.kernel, factor.value, factor.pivot, X)
        return X[sparsity.rank].reshape(shape)

    def scaled_sum(self, root: FloatArray) -> float:
        """Sum of ``|W_ij| root_i root_j`` over the sparsity of the factor."""
        sparsity, tail = self.sparsity, np.abs(self.tail)
        ordered, first = root[sparsity.order], sparsity.n_columns
        total = (ordered * (sparsity.absolute(self.value) @ ordered[:first])).sum()
        total += np.einsum("ab,a,b", tail, ordered[first:], ordered[first:])
        return float(2.0 * total + (np.abs(self.ordered_diagonal[:first]) * ordered[:first] ** 2).sum())
