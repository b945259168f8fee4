"""Faces of the group penalty on the vector x of unknowns of one Newton iteration (see `working_set` for its layout).

On a face the support and the signs are fixed and the penalty is smooth. Its gradient is ``lambda1 sign + lambda2 u``,
times the weight of the pair, and its Hessian ``curve (I - u u')`` in every pair, u = x / |x| being the unit vector of
the pair. A face is an array with four rows: free (1 or 0), sign, u, curve. Unpenalised pairs, which have no kink at
zero, have sign 0 and may change it.
"""

from __future__ import annotations

import numpy as np

from jointglasso._typing import FloatArray, IntArray
from jointglasso.kernels.group_pair import of_pair, update
from jointglasso.kernels.jit import njit
from jointglasso.kernels.pair_types import GroupPair, PairClasses, PenaltyWorkspace


@njit
def inner(n_entries: int, a: FloatArray, b: FloatArray) -> float:
    """Inner product of two symmetric matrices given by their unknowns: the off-diagonal ones count twice."""
    off_diagonal = 0.0
    for e in range(n_entries):
        off_diagonal += a[e] * b[e]
    diagonal = 0.0
    for e in range(n_entries, a.shape[0]):
        diagonal += a[e] * b[e]
    return 2.0 * off_diagonal + diagonal


@njit
def penalty_of(start: IntArray, factor: FloatArray, x: FloatArray, penalty: GroupPair, lambda_d: float) -> float:
    """Penalty of all unknowns, each pair counted twice, and `lambda_d` times the diagonal."""
    total = 0.0
    for pair in range(start.shape[0] - 1):
        absolute = 0.0
        squares = 0.0
        for e in range(start[pair], start[pair + 1]):
            absolute += abs(x[e])
            squares += x[e] * x[e]
        l1, l2 = of_pair(penalty, factor, pair)
        total += 2.0 * (l1 * absolute + l2 * np.sqrt(squares))
    for e in range(start[-1], x.shape[0]):
        total += lambda_d * x[e]
    return total


@njit
def curvature_of(weight: FloatArray, end_i: IntArray, end_j: IntArray, w: FloatArray) -> FloatArray:
    """Diagonal of the Hessian: ``weight (W_ij^2 + W_ii W_jj)`` and ``weight W_ii^2``, from W on the unknowns."""
    n_entries = end_i.shape[0]
    out = np.empty_like(w)
    for e in range(n_entries):
        out[e] = weight[e] * (w[e] * w[e] + w[n_entries + end_i[e]] * w[n_entries + end_j[e]])
    for e in range(n_entries, w.shape[0]):
        out[e] = weight[e] * w[e] * w[e]
    return out


@njit
def enter_face(
    start: IntArray,
    factor: FloatArray,
    x: FloatArray,
    gradient: FloatArray,
    curvature: FloatArray,
    penalty: GroupPair,
) -> FloatArray:
    """Face (4, E + V) at x. A zero pair enters with the direction and size of the minimiser of its one-pair problem."""
    n_entries = start[-1]
    face = np.zeros((4, x.shape[0]))
    widest = 1
    for pair in range(start.shape[0] - 1):
        widest = max(widest, start[pair + 1] - start[pair])
    a, b, y = np.empty(widest), np.empty(widest), np.empty(widest)
    classes, work = np.empty(0, np.int64), PenaltyWorkspace(a, np.empty(0, np.int64))  # unused by the group penalty
    for pair in range(start.shape[0] - 1):
        first = start[pair]
        n = start[pair + 1] - first
        l1, l2 = of_pair(penalty, factor, pair)
        has_kink = factor.shape[0] == 0 or factor[pair] > 0.0
        squares = 0.0
        for k in range(n):
            y[k] = x[first + k]
            squares += y[k] * y[k]
        if squares == 0.0:
            for k in range(n):
                a[k] = curvature[first + k]
                b[k] = -gradient[first + k]
            v = 1.0 if factor.shape[0] == 0 else factor[pair]
            update(penalty, a, b, PairClasses(classes, n, v), y, work)
            for k in range(n):
                squares += y[k] * y[k]
        norm = np.sqrt(squares)
        if norm == 0.0:
            continue
        for k in range(n):
            e = first + k
            if y[k] != 0.0 or abs(gradient[e]) > l1:
                face[0, e] = 1.0
                if has_kink:
                    face[1, e] = 1.0 if y[k] > 0.0 or (y[k] == 0.0 and gradient[e] < 0.0) else -1.0
                face[2, e] = y[k] / norm
                face[3, e] = l2 / norm
    face[0, n_entries:] = 1.0
    return face


@njit
def update_face(start: IntArray, factor: FloatArray, z: FloatArray, penalty: GroupPair, face: FloatArray) -> None:
    """Update unit vectors and curvatures at z; pairs still at zero keep those of `enter_face`."""
    for pair in range(start.shape[0] - 1):
        squares = 0.0
        for e in range(start[pair], start[pair + 1]):
            squares += z[e] * z[e]
        norm = np.sqrt(squares)
        _, l2 = of_pair(penalty, factor, pair)
        for e in range(start[pair], start[pair + 1]):
            if face[0, e] == 0.0:
                face[2, e] = 0.0
                face[3, e] = 0.0
            elif norm > 0.0:
                face[2, e] = z[e] / norm
                face[3, e] = l2 / norm


@njit
def face_residual(
    start: IntArray,
    factor: FloatArray,
    gradient: FloatArray,
    penalty: GroupPair,
    lambda_d: float,
    face: FloatArray,
) -> FloatArray:
    """Negative gradient of the quadratic model plus penalty on the face, zero off it."""
    out = np.empty_like(gradient)
    for pair in range(start.shape[0] - 1):
        l1, l2 = of_pair(penalty, factor, pair)
        for e in range(start[pair], start[pair + 1]):
            out[e] = -face[0, e] * (gradient[e] + l1 * face[1, e] + l2 * face[2, e])
    for e in range(start[-1], gradient.shape[0]):
        out[e] = -(gradient[e] + lambda_d)
    return out


@njit
def add_group_curvature(start: IntArray, face: FloatArray, v: FloatArray, product: FloatArray) -> FloatArray:
    """Hessian-vector product on the face: ``free (product + curve (I - u u') v)``, `product` that of the likelihood."""
    out = np.empty_like(v)
    for pair in range(start.shape[0] - 1):
        along = 0.0
        for e in range(start[pair], start[pair + 1]):
            along += face[2, e] * v[e]
        for e in range(start[pair], start[pair + 1]):
            out[e] = face[0, e] * (product[e] + face[3, e] * (v[e] - face[2, e] * along))
    for e in range(start[-1], v.shape[0]):
        out[e] = product[e]
    return out


@njit
def step_on_face(n_entries: int, z: FloatArray, v: FloatArray, face: FloatArray) -> tuple[FloatArray, int]:
    """``z + v``; entries that would change their sign stop at zero and leave the face. Also their number."""
    out = np.empty_like(z)
    crossed = 0
    for e in range(z.shape[0]):
        moved = z[e] + face[0, e] * v[e]
        if e < n_entries and face[0, e] != 0.0 and face[1, e] != 0.0 and moved * face[1, e] <= 0.0:
            moved = 0.0
            face[0, e] = 0.0
            crossed += 1
        out[e] = moved
    return out, crossed
