"""Columns of the inverse of a sparse matrix by local relaxation, with a bound on their error.

For any x, with r = e_j - Theta x and mu at most the least eigenvalue of Theta, ``|W_ij - x_i| <= |r|_2 / mu`` for all
i. Starting from x = 0, the largest residuals are relaxed one by one (Gauss-Southwell: ``x_i += r_i / theta_ii``), which
changes residuals of neighbours only. Where W decays away from the diagonal, a few dozen updates bound a whole column.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from jointglasso._typing import FloatArray, IntArray
from jointglasso.kernels.jit import njit, njit_internal

#: Factor between two successive thresholds of the residuals that are relaxed.
_REFINE = 0.3


class SparseMatrix(NamedTuple):
    """Symmetric matrix: diagonal, and the off-diagonal entries of each row."""

    diagonal: FloatArray
    start: IntArray
    other: IntArray
    value: FloatArray


class RelaxationLimits(NamedTuple):
    """Limits of the relaxation of a column, and the eigenvalue bound behind its error bound."""

    mu: float
    """Lower bound on the least eigenvalue of the matrix."""
    tolerance: float
    """Bound on the error of the column at which the relaxation ends."""
    max_work: int
    """Number of entries of the matrix read after which a column is given up."""


class _Workspace(NamedTuple):
    x: FloatArray
    r: FloatArray
    queue: IntArray
    queued: IntArray
    touched: IntArray


@njit_internal
def _workspace(n: int) -> _Workspace:
    return _Workspace(
        np.zeros(n), np.zeros(n), np.empty(n, dtype=np.int64), np.zeros(n, dtype=np.int64), np.empty(n, dtype=np.int64)
    )


@njit_internal
def _relax(j: int, matrix: SparseMatrix, limits: RelaxationLimits, work: _Workspace) -> tuple[int, float]:
    """Relax column j in the workspace; returns the number of touched variables and the bound on the error.

    The bound is infinite if the column was given up. It includes rounding: each residual is a sum of products, with an
    error of at most (number of updates + 2) units in the last place of the sum of their absolute values.
    """
    x, r, queue, queued, touched = work
    diagonal, start, other, value = matrix
    n, n_touched, updates, absolute_sum = x.shape[0], 1, 0, 1.0
    touched[0], r[j], queued[j] = j, 1.0, 2
    first, n_queued, square, work_done = 0, 0, 1.0, 0
    target = (limits.mu * limits.tolerance) ** 2
    threshold = 0.5
    while True:
        if n_queued == 0:
            square, largest = 0.0, 0.0
            for t in range(n_touched):
                square += r[touched[t]] ** 2
                largest = max(largest, abs(r[touched[t]]))
            if square <= target:
                break
            threshold = min(_REFINE * threshold, 0.9 * largest)
            for t in range(n_touched):
                i = touched[t]
                if abs(r[i]) > threshold:
                    queue[(first + n_queued) % n], queued[i] = i, 1
                    n_queued += 1
        if work_done > limits.max_work:
            return n_touched, np.inf
        i = queue[first]
        first, n_queued = (first + 1) % n, n_queued - 1
        queued[i] = 2
        if abs(r[i]) <= threshold:
            continue
        step = r[i] / diagonal[i]
        x[i] += step
        r[i] = 0.0
        absolute_sum += abs(step) * diagonal[i]
        for t in range(start[i], start[i + 1]):
            v = other[t]
            if queued[v] == 0:
                touched[n_touched], queued[v] = v, 2
                n_touched += 1
            r[v] -= value[t] * step
            absolute_sum += abs(value[t] * step)
            if queued[v] == 2 and abs(r[v]) > threshold:
                queue[(first + n_queued) % n], queued[v] = v, 1
                n_queued += 1
        updates += 1
        work_done += start[i + 1] - start[i] + 1
    rounding = (updates + 2.0) * 2.3e-16 * absolute_sum
    return n_touched, (np.sqrt(square) * (1.0 + 1e-9) + rounding) / limits.mu


@njit_internal
def _clear(n_touched: int, work: _Workspace) -> None:
    for t in range(n_touched):
        i = work.touched[t]
        work.x[i], work.r[i], work.queued[i] = 0.0, 0.0, 0


@njit
def list_large_entries(
    columns: IntArray, matrix: SparseMatrix, limits: RelaxationLimits, limit: float
) -> tuple[IntArray, IntArray, IntArray]:
    """Entries of columns of W that may exceed `limit` in size: rows and columns; and the columns that were given up.

    Of each pair only the one with the larger row is listed. The bound holds for all other entries of the columns that
    were not given up.
    """
    work = _workspace(matrix.diagonal.shape[0])
    row, column, n_listed = np.empty(1024, dtype=np.int64), np.empty(1024, dtype=np.int64), 0
    given_up, n_given_up = np.empty(columns.shape[0], dtype=np.int64), 0
    for c in range(columns.shape[0]):
        j = columns[c]
        n_touched, error = _relax(j, matrix, limits, work)
        if not error < limit:
            given_up[n_given_up] = j
            n_given_up += 1
        else:
            if n_listed + n_touched > row.shape[0]:
                larger = max(2 * row.shape[0], n_listed + n_touched)
                grown = np.empty(larger, dtype=np.int64)
                grown[:n_listed] = row[:n_listed]
                row = grown
                grown = np.empty(larger, dtype=np.int64)
                grown[:n_listed] = column[:n_listed]
                column = grown
            for t in range(n_touched):
                i = work.touched[t]
                if i > j and abs(work.x[i]) + error > limit:
                    row[n_listed], column[n_listed] = i, j
                    n_listed += 1
        _clear(n_touched, work)
    return row[:n_listed], column[:n_listed], given_up[:n_given_up]


@njit
def entries_of_inverse(
    row: IntArray, column: IntArray, matrix: SparseMatrix, limits: RelaxationLimits, out: FloatArray, error: FloatArray
) -> None:
    """Write W at entries sorted by column, and a bound on the error of each; infinite where a column was given up."""
    work, e = _workspace(matrix.diagonal.shape[0]), 0
    while e < row.shape[0]:
        j = column[e]
        n_touched, bound = _relax(j, matrix, limits, work)
        while e < row.shape[0] and column[e] == j:
            out[e], error[e] = work.x[row[e]], bound
            e += 1
        _clear(n_touched, work)
