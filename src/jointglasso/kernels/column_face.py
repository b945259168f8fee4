"""Conjugate gradient step of one column update on the current face: support, signs and equal values are fixed.

Coordinate descent identifies the face of a column in a few passes and then converges slowly if all variables are
correlated: a hundred passes are common. On the face the problem is smooth, and conjugate gradients need about one
product with the active part of W for each of its distinct eigenvalues. Coordinate descent continues from there.

Arrays have shape (K, n): a row for each class and a column for each active pair. The Gram matrix and x are zero where a
class does not contain a pair.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from jointglasso._typing import FloatArray, IntArray
from jointglasso.kernels.column_parts import COVARIANCE, L1, PRODUCT, TAU, WEIGHT, Column, X, axpy
from jointglasso.kernels.jit import njit_internal, njit_no_refcount
from jointglasso.kernels.pair import Penalty, pair_clusters, pair_gradient, pair_hvp, pair_value
from jointglasso.kernels.pair_types import PairClasses

#: Most conjugate gradient steps; they end at this fraction of the squared residual, or this fraction of the tolerance.
_MAX_STEPS, _REDUCTION, _TOLERANCE_FRACTION = 60, 1e-3, 0.3

#: Step lengths of the backtracking line search.
_LENGTHS = (1.0, 0.3, 0.1)


class ColumnFace(NamedTuple):
    """Face of a column: zeros stay zero, signs are kept, clusters stay equal."""

    leader: IntArray
    """(K, n): first class of the cluster of each entry, -1 at zeros."""
    merged: bool
    """Whether a cluster has several classes."""
    gram: FloatArray | NDArray[np.float32]
    """(K, n, n): principal submatrix of W on the active pairs."""
    residual: FloatArray
    """(K, n): negative gradient on the face; updated to the residual of conjugate gradients."""
    inverse: FloatArray
    """(K, n): inverse diagonal of the Hessian (Jacobi preconditioner), zero off the face."""


@njit_internal
def step_on_face(penalty: Penalty, n: int, tolerance: float, column: Column) -> bool:
    """Move t and W_11 t at the n active pairs to the minimum on the face of t, if that decreases the objective.

    Entries that would change their sign become zero. Returns whether t moved.
    """
    n_classes, x, product = column.slot.shape[0], column.t[X], column.t[PRODUCT]
    face = _face_of(penalty, n, column)
    step = _conjugate_gradients(penalty, tolerance, face, column)
    before = _value(penalty, n, x, product, column)
    trial, trial_product = np.zeros((n_classes, n)), np.zeros((n_classes, n))
    for length in _LENGTHS:
        for k in range(n_classes):
            trial_product[k] = 0.0
            for a in range(n):
                new = x[k, a] + length * step[k, a]
                trial[k, a] = new if new * x[k, a] > 0.0 else 0.0
                axpy(trial[k, a], face.gram[k, a], trial_product[k])
        if _value(penalty, n, trial, trial_product, column) < before:
            for k in range(n_classes):
                for a in range(n):
                    x[k, a] = trial[k, a]
                    product[k, a] = trial_product[k, a]
            return True
    return False


@njit_internal
def _face_of(penalty: Penalty, n: int, column: Column) -> ColumnFace:
    """Face of t, with the negative gradient and the preconditioner there."""
    n_classes, diagonal, pair = column.slot.shape[0], column.diagonal, column.pair
    gram = column.gram[: n_classes * n * n].reshape((n_classes, n, n))
    leader = np.full((n_classes, n), -1)
    residual, inverse = np.zeros((n_classes, n)), np.zeros((n_classes, n))
    gradient, number, unit = np.empty(n_classes), np.empty(n_classes, np.int64), np.zeros(n_classes)
    merged = False
    for a in range(n):
        pair_classes = _gather(column, a, column.t[X], pair.new)
        pair_gradient(penalty, pair.new, pair_classes, gradient)
        n_clusters = pair_clusters(penalty, pair.new, pair_classes, number)
        nonzero = 0
        for e in range(pair_classes.n):
            if number[e] < 0:
                continue
            nonzero += 1
            k = pair.cls[e]
            for other in range(e, -1, -1):
                if number[other] == number[e]:
                    leader[k, a] = pair.cls[other]
            weight, tau = diagonal[WEIGHT, k], diagonal[TAU, k]
            residual[k, a] = -weight * (column.t[PRODUCT, k, a] / tau + column.t[COVARIANCE, k, a]) - gradient[e]
            unit[:] = 0.0
            unit[e] = 1.0
            pair.b[:] = 0.0
            pair_hvp(penalty, pair.new, pair_classes, unit, pair.b)
            inverse[k, a] = weight * gram[k, a, a] / tau + pair.b[e]
        merged = merged or n_clusters < nonzero
    if merged:
        _average(leader, residual)
        _average(leader, inverse)
    for k in range(n_classes):
        for a in range(n):
            inverse[k, a] = 1.0 / inverse[k, a] if leader[k, a] >= 0 else 0.0
    return ColumnFace(leader, merged, gram, residual, inverse)


@njit_internal
def _conjugate_gradients(penalty: Penalty, tolerance: float, face: ColumnFace, column: Column) -> FloatArray:
    """Step (K, n) on the face: approximate solution of Hessian times step = negative gradient."""
    residual, inverse = face.residual, face.inverse
    step, hvp, direction = np.zeros_like(residual), np.zeros_like(residual), np.zeros_like(residual)
    squared = first = _update_direction(0.0, inverse, residual, direction)
    for _ in range(_MAX_STEPS):
        _hvp(penalty, face, direction, hvp, column)
        curvature = 0.0
        for k in range(residual.shape[0]):
            for a in range(residual.shape[1]):
                curvature += direction[k, a] * hvp[k, a]
        if not curvature > 0.0:
            break
        length = squared / curvature
        largest = 0.0
        before, squared = squared, 0.0
        for k in range(residual.shape[0]):
            for a in range(residual.shape[1]):
                step[k, a] += length * direction[k, a]
                residual[k, a] -= length * hvp[k, a]
                largest = max(largest, abs(residual[k, a]) / column.diagonal[WEIGHT, k])
                squared += residual[k, a] * inverse[k, a] * residual[k, a]
        if largest <= _TOLERANCE_FRACTION * tolerance or squared <= _REDUCTION * first:
            break
        _update_direction(squared / before, inverse, residual, direction)
    return step


@njit_internal
def _hvp(penalty: Penalty, face: ColumnFace, direction: FloatArray, out: FloatArray, column: Column) -> None:
    """Write the Hessian-vector product with a direction on the face."""
    n_classes, n = direction.shape
    pair = column.pair
    for k in range(n_classes):
        row = out[k]
        row[:] = 0.0
        for a in range(n):
            axpy(direction[k, a], face.gram[k, a], row)
        for a in range(n):
            row[a] *= column.diagonal[WEIGHT, k] / column.diagonal[TAU, k]
    for a in range(n):
        _gather(column, a, direction, pair.a)
        _gather(column, a, out, pair.b)
        pair_classes = _gather(column, a, column.t[X], pair.new)
        pair_hvp(penalty, pair.new, pair_classes, pair.a, pair.b)
        for e in range(pair_classes.n):
            k = pair.cls[e]
            out[k, a] = pair.b[e] if face.leader[k, a] >= 0 else 0.0
    if face.merged:
        _average(face.leader, out)


@njit_internal
def _value(penalty: Penalty, n: int, x: FloatArray, product: FloatArray, column: Column) -> float:
    """Objective of the column at x and W_11 x, at this tau, up to a constant."""
    total = 0.0
    for k in range(x.shape[0]):
        weight, tau = column.diagonal[WEIGHT, k], column.diagonal[TAU, k]
        for a in range(n):
            total += weight * x[k, a] * (0.5 * product[k, a] / tau + column.t[COVARIANCE, k, a])
    for a in range(n):
        pair_classes = _gather(column, a, x, column.pair.new)
        total += pair_value(penalty, column.pair.new, pair_classes)
    return total


@njit_internal
def _gather(column: Column, a: int, values: FloatArray, out: FloatArray) -> PairClasses:
    """Copy the values of pair a in the classes that contain it; returns these classes."""
    m = 0
    for k in range(values.shape[0]):
        if column.slot[k, a] >= 0:
            out[m] = values[k, a]
            column.pair.l1[m] = column.t[L1, k, a]
            column.pair.cls[m] = k
            m += 1
    return PairClasses(column.pair.cls, m, column.coupling[a], column.pair.l1, column.pair.work)


@njit_internal
def _average(leader: IntArray, values: FloatArray) -> None:
    """Replace the values of each cluster by their mean: the projection onto the face."""
    n_classes, n = values.shape
    total, count = np.zeros(n_classes), np.zeros(n_classes)
    for a in range(n):
        total[:] = 0.0
        count[:] = 0.0
        for k in range(n_classes):
            if leader[k, a] >= 0:
                total[leader[k, a]] += values[k, a]
                count[leader[k, a]] += 1.0
        for k in range(n_classes):
            if leader[k, a] >= 0:
                values[k, a] = total[leader[k, a]] / count[leader[k, a]]


@njit_no_refcount
def _update_direction(beta: float, inverse: FloatArray, residual: FloatArray, direction: FloatArray) -> float:
    """``direction = inverse * residual + beta * direction``; returns its inner product with `residual`."""
    along = 0.0
    for k in range(residual.shape[0]):
        for a in range(residual.shape[1]):
            direction[k, a] = inverse[k, a] * residual[k, a] + beta * direction[k, a]
            along += residual[k, a] * direction[k, a]
    return along
