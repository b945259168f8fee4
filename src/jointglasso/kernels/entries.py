"""Penalty functions over many pairs: loops that apply the functions of one pair.

Entries are stored pair by pair: those of pair q, one for each class that contains it, are ``values[start[q]:start[q +
1]]``. They are copied to scratch arrays, which is cheaper than slicing a few numbers.
"""

from __future__ import annotations

import numpy as np

from jointglasso._typing import BoolArray, FloatArray, IntArray
from jointglasso.kernels.jit import njit, njit_internal
from jointglasso.kernels.pair import (
    Penalty,
    pair_clusters,
    pair_gauge,
    pair_gradient,
    pair_hvp,
    pair_is_dual_feasible,
    pair_retract,
    pair_subgradient,
    pair_threshold,
    pair_update,
    pair_value,
)
from jointglasso.kernels.pair_types import Entries, PairClasses, PenaltyWorkspace


@njit_internal
def of_pair(factor: FloatArray, pair: int) -> float:
    """Weight of one pair in the penalty; 1 if `factor` is empty."""
    return 1.0 if factor.shape[0] == 0 else factor[pair]


@njit_internal
def _copy_classes(entries: Entries, first: int, n: int, cls: IntArray) -> None:
    """Copy the classes of the n entries of a pair."""
    if entries.cls.shape[0] > 0:
        for k in range(n):
            cls[k] = entries.cls[first + k]


@njit
def value(penalty: Penalty, theta: FloatArray, entries: Entries, out: FloatArray) -> None:
    """Write the penalty (P,) of each pair."""
    t, cls = np.empty(entries.n_classes), np.empty(entries.n_classes, np.int64)
    for pair in range(entries.start.shape[0] - 1):
        first = entries.start[pair]
        n = entries.start[pair + 1] - first
        zero = True
        for k in range(n):
            t[k] = theta[first + k]
            zero = zero and t[k] == 0.0
        if zero:  # most pairs
            out[pair] = 0.0
        else:
            _copy_classes(entries, first, n, cls)
            out[pair] = pair_value(penalty, t, PairClasses(cls, n, of_pair(entries.factor, pair)))


@njit
def nearest_subgradient(
    penalty: Penalty,
    theta: FloatArray,
    target: FloatArray,
    entries: Entries,
    work: PenaltyWorkspace,
    out: FloatArray,
) -> None:
    """Write the subgradient (E,) of the penalty at `theta` (E,) nearest to `target` (E,), pair by pair."""
    ones, t, g, u = (
        np.ones(entries.n_classes),
        np.empty(entries.n_classes),
        np.empty(entries.n_classes),
        np.empty(entries.n_classes),
    )
    cls = np.empty(entries.n_classes, np.int64)
    for pair in range(entries.start.shape[0] - 1):
        first = entries.start[pair]
        n = entries.start[pair + 1] - first
        v = of_pair(entries.factor, pair)
        inside_ball = True  # theta is zero, and target below the threshold of each class
        for k in range(n):
            t[k] = theta[first + k]
            g[k] = target[first + k]
            class_index = entries.cls[first + k] if entries.cls.shape[0] > 0 else 0
            inside_ball = inside_ball and t[k] == 0.0 and abs(g[k]) <= v * pair_threshold(penalty, class_index)
        if inside_ball:
            for k in range(n):
                out[first + k] = g[k]
        else:
            _copy_classes(entries, first, n, cls)
            pair_subgradient(penalty, t, g, ones, PairClasses(cls, n, v), u, work)
            for k in range(n):
                out[first + k] = u[k]


@njit
def update(
    penalty: Penalty,
    curvature: FloatArray,
    linear: FloatArray,
    entries: Entries,
    work: PenaltyWorkspace,
    out: FloatArray,
) -> None:
    """Write the minimiser (E,) of ``sum curvature x^2 / 2 - linear x`` plus the penalty of each pair.

    An empty `curvature` stands for ones: the proximal operator.
    """
    a, b, x, cls = (
        np.empty(entries.n_classes),
        np.empty(entries.n_classes),
        np.empty(entries.n_classes),
        np.empty(entries.n_classes, np.int64),
    )
    for pair in range(entries.start.shape[0] - 1):
        first = entries.start[pair]
        n = entries.start[pair + 1] - first
        v = of_pair(entries.factor, pair)
        inside_ball = True  # below the threshold of each class, as most pairs: the minimiser is zero
        for k in range(n):
            a[k] = curvature[first + k] if curvature.shape[0] > 0 else 1.0
            b[k] = linear[first + k]
            x[k] = 0.0
            class_index = entries.cls[first + k] if entries.cls.shape[0] > 0 else 0
            inside_ball = inside_ball and abs(b[k]) <= v * pair_threshold(penalty, class_index)
        if not inside_ball:
            _copy_classes(entries, first, n, cls)
            pair_update(penalty, a, b, PairClasses(cls, n, v), x, work)
        for k in range(n):
            out[first + k] = x[k]


@njit
def is_dual_feasible(
    penalty: Penalty, values: FloatArray, entries: Entries, work: PenaltyWorkspace, out: BoolArray
) -> None:
    """Write (P,) whether the entries of each pair are in its dual ball."""
    u, cls = np.empty(entries.n_classes), np.empty(entries.n_classes, np.int64)
    for pair in range(entries.start.shape[0] - 1):
        first = entries.start[pair]
        n = entries.start[pair + 1] - first
        for k in range(n):
            u[k] = values[first + k]
        _copy_classes(entries, first, n, cls)
        out[pair] = pair_is_dual_feasible(penalty, u, PairClasses(cls, n, of_pair(entries.factor, pair)), work)


@njit
def gauge(penalty: Penalty, values: FloatArray, entries: Entries, work: PenaltyWorkspace, out: FloatArray) -> None:
    """Write the gauge (P,) of the dual ball of each pair: the smallest g with its values in g times the ball."""
    u, cls = np.empty(entries.n_classes), np.empty(entries.n_classes, np.int64)
    for pair in range(entries.start.shape[0] - 1):
        first = entries.start[pair]
        n = entries.start[pair + 1] - first
        for k in range(n):
            u[k] = values[first + k]
        _copy_classes(entries, first, n, cls)
        out[pair] = pair_gauge(penalty, u, PairClasses(cls, n, of_pair(entries.factor, pair)), work)


@njit
def face(penalty: Penalty, theta: FloatArray, entries: Entries, variable: IntArray, gradient: FloatArray) -> None:
    """Write the cluster (E,) of each entry, numbered through all pairs, -1 at zeros, and the gradient on the face."""
    K = entries.n_classes
    t, g, cls, number = np.empty(K), np.empty(K), np.empty(K, np.int64), np.empty(K, np.int64)
    count = 0
    for pair in range(entries.start.shape[0] - 1):
        first = entries.start[pair]
        n = entries.start[pair + 1] - first
        for k in range(n):
            t[k] = theta[first + k]
        _copy_classes(entries, first, n, cls)
        pair_classes = PairClasses(cls, n, of_pair(entries.factor, pair))
        pair_gradient(penalty, t, pair_classes, g)
        n_clusters = pair_clusters(penalty, t, pair_classes, number)
        for k in range(n):
            variable[first + k] = number[k] + count if number[k] >= 0 else -1
            gradient[first + k] = g[k]
        count += n_clusters


@njit
def hvp(penalty: Penalty, theta: FloatArray, step: FloatArray, entries: Entries, out: FloatArray) -> None:
    """Write the Hessian-vector product (E,) of the penalty on the face of `theta` with `step`, zero at zeros."""
    K = entries.n_classes
    t, s, product, cls = np.empty(K), np.empty(K), np.empty(K), np.empty(K, np.int64)
    for pair in range(entries.start.shape[0] - 1):
        first = entries.start[pair]
        n = entries.start[pair + 1] - first
        for k in range(n):
            t[k] = theta[first + k]
            s[k] = step[first + k] if t[k] != 0.0 else 0.0
            product[k] = 0.0
        _copy_classes(entries, first, n, cls)
        pair_hvp(penalty, t, PairClasses(cls, n, of_pair(entries.factor, pair)), s, product)
        for k in range(n):
            out[first + k] = product[k] if t[k] != 0.0 else 0.0


@njit
def hessian_diagonal(penalty: Penalty, theta: FloatArray, entries: Entries, out: FloatArray) -> None:
    """Write the diagonal (E,) of the Hessian of the penalty on the face of `theta`; zero where `theta` is."""
    K = entries.n_classes
    t, unit, product, cls = np.empty(K), np.zeros(K), np.empty(K), np.empty(K, np.int64)
    for pair in range(entries.start.shape[0] - 1):
        first = entries.start[pair]
        n = entries.start[pair + 1] - first
        for k in range(n):
            t[k] = theta[first + k]
        _copy_classes(entries, first, n, cls)
        for k in range(n):
            out[first + k] = 0.0
            if t[k] != 0.0:
                product[:] = 0.0
                unit[k] = 1.0
                pair_hvp(penalty, t, PairClasses(cls, n, of_pair(entries.factor, pair)), unit, product)
                unit[k] = 0.0
                out[first + k] = product[k]


@njit
def retract(penalty: Penalty, theta: FloatArray, entries: Entries, out: FloatArray) -> None:
    """Move `out` (E,) to the closure of the face of `theta` (E,), pair by pair."""
    t, new, cls = np.empty(entries.n_classes), np.empty(entries.n_classes), np.empty(entries.n_classes, np.int64)
    for pair in range(entries.start.shape[0] - 1):
        first = entries.start[pair]
        n = entries.start[pair + 1] - first
        for k in range(n):
            t[k] = theta[first + k]
            new[k] = out[first + k]
        _copy_classes(entries, first, n, cls)
        pair_retract(penalty, t, PairClasses(cls, n, of_pair(entries.factor, pair)), new)
        for k in range(n):
            out[first + k] = new[k]
