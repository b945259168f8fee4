"""Sparse Cholesky factor, entries of the inverse on its sparsity (Takahashi), and exact columns of the inverse.

A matrix of n variables in elimination order is split into n_1 sparse columns and a dense tail of m = n - n_1. Column j
of the factor has the diagonal entry ``pivot[j]`` and the entries ``value[offset[j]:offset[j + 1]]`` in the ascending
rows ``rows[...]``; rows of n_1 and more belong to the tail, whose factor and inverse are upper triangles of (m, m)
matrices. `tail_start[j]` is the first position of column j in a tail row.

With I the rows of column j and x = L_Ij / l_jj, the identity ``L' W = L^{-1}`` gives the entries of W = (L L')^{-1}
on the sparsity of L, last column first, because all pairs of I are on the sparsity of later columns::

    W_Ij = -W_II x,    W_jj = 1 / l_jj^2 - x' W_Ij.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from jointglasso._typing import FloatArray, IntArray
from jointglasso.kernels.jit import njit


class Sparsity(NamedTuple):
    """Sparsity of the first n_1 columns of a factor of n variables."""

    n: int
    offset: IntArray
    rows: NDArray[np.int32]
    tail_start: IntArray


@njit
def factor_columns(
    sparsity: Sparsity, diagonal: FloatArray, value: FloatArray, pivot: FloatArray, tail: FloatArray
) -> bool:
    """Left-looking Cholesky factorisation of the sparse columns; the tail becomes its Schur complement.

    `value` and `tail` hold the entries of the matrix on entry, `diagonal` (n,) its diagonal. Returns False if a pivot
    is not positive.
    """
    n, offset, rows, tail_start = sparsity
    n_columns = offset.shape[0] - 1
    head, following = np.full(n_columns + 1, -1), np.full(n_columns, -1)
    current = offset[:-1].copy()  # position of the next row of each column that has been factored
    work = np.zeros(n)
    for j in range(n_columns):
        begin, end = offset[j], offset[j + 1]
        d = diagonal[j]
        for t in range(begin, end):
            work[rows[t]] = value[t]
        k = head[j]
        while k >= 0:  # columns k < j with an entry in row j
            after = following[k]
            t, last = current[k], offset[k + 1]
            factor = value[t]
            d -= factor * factor
            t += 1
            for s in range(t, last):
                work[rows[s]] -= factor * value[s]
            current[k] = t
            if t < tail_start[k]:
                following[k] = head[rows[t]]
                head[rows[t]] = k
            k = after
        if not d > 0.0:
            return False
        root = np.sqrt(d)
        pivot[j] = root
        for t in range(begin, end):
            value[t] = work[rows[t]] / root
        if begin < tail_start[j]:
            following[j] = head[rows[begin]]
            head[rows[begin]] = j
    for i in range(n - n_columns):
        tail[i, i] = diagonal[n_columns + i]
    for j in range(n_columns):
        for a in range(tail_start[j], offset[j + 1]):
            factor, row = value[a], rows[a] - n_columns
            for b in range(a, offset[j + 1]):
                tail[row, rows[b] - n_columns] -= factor * value[b]
    return True


@njit
def invert_on_sparsity(
    sparsity: Sparsity,
    value: FloatArray,
    pivot: FloatArray,
    tail: FloatArray,
    inverse: FloatArray,
    diagonal: FloatArray,
) -> None:
    """Entries of W on the sparsity of the factor: `inverse` (nnz,), and `diagonal` (n,), of which the tail is given.

    `tail` is the upper triangle of the inverse of the Schur complement, the block of W of the tail.
    """
    n, offset, rows, tail_start = sparsity
    n_columns = offset.shape[0] - 1
    x, y = np.zeros(n), np.zeros(n)
    for j in range(n_columns - 1, -1, -1):
        begin, middle, end = offset[j], tail_start[j], offset[j + 1]
        scale = 1.0 / pivot[j]
        for t in range(begin, end):
            x[rows[t]] = value[t] * scale
        for t in range(begin, middle):
            a = rows[t]
            factor, total = x[a], diagonal[a] * x[a]
            for s in range(offset[a], offset[a + 1]):
                b = rows[s]
                total += inverse[s] * x[b]
                y[b] += inverse[s] * factor
            y[a] += total
        for t in range(middle, end):
            a = rows[t]
            row = a - n_columns
            factor, total = x[a], diagonal[a] * x[a]
            for s in range(t + 1, end):
                b = rows[s]
                entry = tail[row, b - n_columns]
                total += entry * x[b]
                y[b] += entry * factor
            y[a] += total
        square = 0.0
        for t in range(begin, end):
            inverse[t] = -y[rows[t]]
            square += x[rows[t]] * y[rows[t]]
        diagonal[j] = scale * scale + square
        for t in range(begin, middle):  # rows of column a that column j does not have were written to as well
            for s in range(offset[rows[t]], offset[rows[t] + 1]):
                y[rows[s]] = 0.0
        for t in range(begin, end):
            x[rows[t]], y[rows[t]] = 0.0, 0.0


@njit
def solve_forward(sparsity: Sparsity, value: FloatArray, pivot: FloatArray, X: FloatArray) -> None:
    """Solve with the sparse columns of L in place, for right-hand sides X (n, c)."""
    _, offset, rows, _ = sparsity
    c = X.shape[1]
    for j in range(offset.shape[0] - 1):
        empty = True
        for s in range(c):
            X[j, s] /= pivot[j]
            empty &= X[j, s] == 0.0
        if not empty:
            for t in range(offset[j], offset[j + 1]):
                factor, i = value[t], rows[t]
                for s in range(c):
                    X[i, s] -= factor * X[j, s]


@njit
def solve_backward(sparsity: Sparsity, value: FloatArray, pivot: FloatArray, X: FloatArray) -> None:
    """Solve with the transpose of the sparse columns of L in place; the rows of the tail are known."""
    _, offset, rows, _ = sparsity
    c = X.shape[1]
    for j in range(offset.shape[0] - 2, -1, -1):
        for t in range(offset[j], offset[j + 1]):
            factor, i = value[t], rows[t]
            for s in range(c):
                X[j, s] -= factor * X[i, s]
        for s in range(c):
            X[j, s] /= pivot[j]
