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
from jointglasso.kernels.column_parts import ColumnDiagonal, PairWorkspace, axpy
from jointglasso.kernels.group_state import copy
from jointglasso.kernels.jit import njit_internal, njit_no_refcount
from jointglasso.kernels.pair import Penalty, pair_clusters, pair_gradient, pair_hvp, pair_value
from jointglasso.kernels.pair_types import PairClasses

#: Most conjugate gradient steps; they end at this fraction of the squared residual, or this fraction of the tolerance.
_MAX_STEPS, _REDUCTION, _TOLERANCE_FRACTION = 60, 1e-3, 0.3

#: Step lengths of the backtracking line search.
_LENGTHS = (1.0, 0.3, 0.1)


Gram = FloatArray | NDArray[np.float32]


class ActivePairs(NamedTuple):
    """Problem of a column on its n active pairs, at fixed tau."""

    gram: Gram
    """(K, n, n): principal submatrix of W on the active pairs."""
    covariance: FloatArray
    """(K, n): column of S on the active pairs."""
    slot: IntArray
    """(n, K): index of each pair in the arrays of each class, -1 where a class does not contain it."""
    factor: FloatArray
    """(n,): weight of the coupling term of each pair."""
    l1: FloatArray
    """(K, n): weight of |t| of each pair in each class."""


class ColumnFace(NamedTuple):
    """Face of a column: zeros stay zero, signs are kept, clusters stay equal."""

    leader: IntArray
    """(K, n): first class of the cluster of each entry, -1 at zeros."""
    merged: bool
    """Whether a cluster has several classes."""
    residual: FloatArray
    """(K, n): negative gradient on the face; updated to the residual of conjugate gradients."""
    inverse: FloatArray
    """(K, n): inverse diagonal of the Hessian (Jacobi preconditioner), zero off the face."""


@njit_internal
def step_on_face(
    penalty: Penalty,
    pairs: ActivePairs,
    diagonal: ColumnDiagonal,
    tolerance: float,
    x: FloatArray,
    product: FloatArray,
    workspace: PairWorkspace,
) -> bool:
    """Move x (K, n) and W x to the minimum on the face of x, if that decreases the objective; whether x moved.

    Entries that would change their sign become zero.
    """
    n_classes, n = x.shape
    face = _face_of(penalty, pairs, diagonal, x, product, workspace)
    step = _conjugate_gradients(penalty, pairs, diagonal, tolerance, x, face, workspace)
    before = _value(penalty, pairs, diagonal, x, product, workspace)
    trial, trial_product = np.zeros((n_classes, n)), np.zeros((n_classes, n))
    for length in _LENGTHS:
        for k in range(n_classes):
            trial_product[k] = 0.0
            for a in range(n):
                new = x[k, a] + length * step[k, a]
                trial[k, a] = new if new * x[k, a] > 0.0 else 0.0
                axpy(trial[k, a], pairs.gram[k, a], trial_product[k])
        if _value(penalty, pairs, diagonal, trial, trial_product, workspace) < before:
            for k in range(n_classes):
                copy(trial[k], x[k])
                copy(trial_product[k], product[k])
            return True
    return False


@njit_internal
def _face_of(
    penalty: Penalty,
    pairs: ActivePairs,
    diagonal: ColumnDiagonal,
    x: FloatArray,
    product: FloatArray,
    workspace: PairWorkspace,
) -> ColumnFace:
    """Face of x, with the negative gradient and the preconditioner there."""
    n_classes, n = x.shape
    leader = np.full((n_classes, n), -1)
    residual, inverse = np.zeros((n_classes, n)), np.zeros((n_classes, n))
    gradient, number, unit = np.empty(n_classes), np.empty(n_classes, np.int64), np.zeros(n_classes)
    merged = False
    for a in range(n):
        m = _gather(pairs.slot, a, x, workspace.new, workspace.cls)
        _gather(pairs.slot, a, pairs.l1, workspace.l1, workspace.cls)
        pair_classes = PairClasses(workspace.cls, m, pairs.factor[a], workspace.l1)
        pair_gradient(penalty, workspace.new, pair_classes, gradient)
        n_clusters = pair_clusters(penalty, workspace.new, pair_classes, number)
        nonzero = 0
        for e in range(m):
            if number[e] < 0:
                continue
            nonzero += 1
            k = workspace.cls[e]
            for other in range(e, -1, -1):
                if number[other] == number[e]:
                    leader[k, a] = workspace.cls[other]
            w = diagonal.weight[k]
            residual[k, a] = -w * (product[k, a] / diagonal.tau[k] + pairs.covariance[k, a]) - gradient[e]
            unit[:] = 0.0
            unit[e] = 1.0
            workspace.b[:] = 0.0
            pair_hvp(penalty, workspace.new, pair_classes, unit, workspace.b)
            inverse[k, a] = w * pairs.gram[k, a, a] / diagonal.tau[k] + workspace.b[e]
        merged = merged or n_clusters < nonzero
    if merged:
        _average(leader, residual)
        _average(leader, inverse)
    for k in range(n_classes):
        for a in range(n):
            inverse[k, a] = 1.0 / inverse[k, a] if leader[k, a] >= 0 else 0.0
    return ColumnFace(leader, merged, residual, inverse)


@njit_internal
def _conjugate_gradients(
    penalty: Penalty,
    pairs: ActivePairs,
    diagonal: ColumnDiagonal,
    tolerance: float,
    x: FloatArray,
    face: ColumnFace,
    workspace: PairWorkspace,
) -> FloatArray:
    """Step (K, n) on the face: approximate solution of Hessian times step = negative gradient."""
    residual, inverse = face.residual, face.inverse
    step, hvp, direction = np.zeros_like(x), np.zeros_like(x), np.zeros_like(x)
    squared = first = _update_direction(0.0, inverse, residual, direction)
    for _ in range(_MAX_STEPS):
        _hvp(penalty, pairs, diagonal, x, face, direction, hvp, workspace)
        curvature = 0.0
        for k in range(x.shape[0]):
            for a in range(x.shape[1]):
                curvature += direction[k, a] * hvp[k, a]
        if not curvature > 0.0:
            break
        length = squared / curvature
        largest = 0.0
        for k in range(x.shape[0]):
            for a in range(x.shape[1]):
                step[k, a] += length * direction[k, a]
                residual[k, a] -= length * hvp[k, a]
                largest = max(largest, abs(residual[k, a]) / diagonal.weight[k])
        before, squared = squared, 0.0
        for k in range(x.shape[0]):
            for a in range(x.shape[1]):
                squared += residual[k, a] * inverse[k, a] * residual[k, a]
        if largest <= _TOLERANCE_FRACTION * tolerance or squared <= _REDUCTION * first:
            break
        _update_direction(squared / before, inverse, residual, direction)
    return step


@njit_internal
def _hvp(
    penalty: Penalty,
    pairs: ActivePairs,
    diagonal: ColumnDiagonal,
    x: FloatArray,
    face: ColumnFace,
    direction: FloatArray,
    out: FloatArray,
    workspace: PairWorkspace,
) -> None:
    """Write the Hessian-vector product with a direction on the face."""
    n_classes, n = x.shape
    for k in range(n_classes):
        row = out[k]
        row[:] = 0.0
        for a in range(n):
            axpy(direction[k, a], pairs.gram[k, a], row)
        for a in range(n):
            row[a] *= diagonal.weight[k] / diagonal.tau[k]
    for a in range(n):
        m = _gather(pairs.slot, a, x, workspace.new, workspace.cls)
        _gather(pairs.slot, a, pairs.l1, workspace.l1, workspace.cls)
        pair_classes = PairClasses(workspace.cls, m, pairs.factor[a], workspace.l1)
        _gather(pairs.slot, a, direction, workspace.a, workspace.cls)
        _gather(pairs.slot, a, out, workspace.b, workspace.cls)
        pair_hvp(penalty, workspace.new, pair_classes, workspace.a, workspace.b)
        for e in range(m):
            k = workspace.cls[e]
            out[k, a] = workspace.b[e] if face.leader[k, a] >= 0 else 0.0
    if face.merged:
        _average(face.leader, out)


@njit_no_refcount
def _value(
    penalty: Penalty,
    pairs: ActivePairs,
    diagonal: ColumnDiagonal,
    x: FloatArray,
    product: FloatArray,
    workspace: PairWorkspace,
) -> float:
    """Objective of the column at this tau, up to a constant."""
    total = 0.0
    for k in range(x.shape[0]):
        for a in range(x.shape[1]):
            total += diagonal.weight[k] * x[k, a] * (0.5 * product[k, a] / diagonal.tau[k] + pairs.covariance[k, a])
    for a in range(x.shape[1]):
        m = _gather(pairs.slot, a, x, workspace.new, workspace.cls)
        _gather(pairs.slot, a, pairs.l1, workspace.l1, workspace.cls)
        total += pair_value(penalty, workspace.new, PairClasses(workspace.cls, m, pairs.factor[a], workspace.l1))
    return total


@njit_no_refcount
def _gather(slots: IntArray, a: int, values: FloatArray, out: FloatArray, cls: IntArray) -> int:
    """Copy the values of pair a in the classes that contain it, and these classes; returns their number."""
    m = 0
    for k in range(values.shape[0]):
        if slots[a, k] >= 0:
            out[m] = values[k, a]
            cls[m] = k
            m += 1
    return m


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
