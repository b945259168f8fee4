"""Penalty functions over many pairs: loops that apply the functions of one pair.

Entries are stored pair by pair: those of pair q, one for each class that contains it, are ``values[start[q]:start[q +
1]]``. They are copied to scratch arrays, which is cheaper than slicing a few numbers.
"""

from __future__ import annotations

import numpy as np

from jointglasso._typing import BoolArray, FloatArray, IntArray
from jointglasso.kernels.group_pair import times
from jointglasso.kernels.jit import njit, njit_no_refcount
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


@njit_no_refcount
def _load_classes(penalty: Penalty, entries: Entries, pair: int, cls: IntArray, l1: FloatArray) -> float:
    """Write the classes of the entries of a pair and their weights; the weight of its coupling term."""
    first, has_classes = entries.start[pair], entries.cls.shape[0] > 0
    for k in range(entries.start[pair + 1] - first):
        if has_classes:
            cls[k] = entries.cls[first + k]
        l1[k] = pair_threshold(penalty, cls[k] if has_classes else 0)
        if entries.l1.shape[0] > 0:
            l1[k] = times(l1[k], entries.l1[first + k])
        elif entries.factor.shape[0] > 0:
            l1[k] *= entries.factor[pair]
    return 1.0 if entries.factor.shape[0] == 0 else entries.factor[pair]


@njit
def value(penalty: Penalty, theta: FloatArray, entries: Entries, work: PenaltyWorkspace, out: FloatArray) -> None:
    """Write the penalty (P,) of each pair."""
    K = entries.n_classes
    t, cls, l1 = np.empty(K), np.empty(K, np.int64), np.empty(K)
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
            out[pair] = pair_value(
                penalty, t, PairClasses(cls, n, _load_classes(penalty, entries, pair, cls, l1), l1, work)
            )


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
    K = entries.n_classes
    t, g, u, cls, l1 = np.empty(K), np.empty(K), np.empty(K), np.empty(K, np.int64), np.empty(K)
    for pair in range(entries.start.shape[0] - 1):
        first = entries.start[pair]
        n = entries.start[pair + 1] - first
        v = _load_classes(penalty, entries, pair, cls, l1)
        inside_ball = True  # theta is zero, and target below the threshold of each class
        for k in range(n):
            t[k] = theta[first + k]
            u[k] = g[k] = target[first + k]
            inside_ball = inside_ball and t[k] == 0.0 and abs(g[k]) <= l1[k]
        if not inside_ball:
            pair_subgradient(penalty, t, g, PairClasses(cls, n, v, l1, work), u)
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
    """Write the minimiser (E,) of ``sum curvature x^2 / 2 - linear x`` plus the penalty of each pair."""
    K = entries.n_classes
    a, b, x, cls, l1 = np.empty(K), np.empty(K), np.empty(K), np.empty(K, np.int64), np.empty(K)
    for pair in range(entries.start.shape[0] - 1):
        first = entries.start[pair]
        n = entries.start[pair + 1] - first
        v = _load_classes(penalty, entries, pair, cls, l1)
        inside_ball = True  # below the threshold of each class, as most pairs: the minimiser is zero
        for k in range(n):
            a[k] = curvature[first + k]
            b[k] = linear[first + k]
            x[k] = 0.0
            inside_ball = inside_ball and abs(b[k]) <= l1[k]
        if not inside_ball:
            pair_update(penalty, a, b, PairClasses(cls, n, v, l1, work), x)
        for k in range(n):
            out[first + k] = x[k]


@njit
def is_dual_feasible(
    penalty: Penalty, values: FloatArray, entries: Entries, work: PenaltyWorkspace, out: BoolArray
) -> None:
    """Write (P,) whether the entries of each pair are in its dual ball."""
    u, cls, l1 = np.empty(entries.n_classes), np.empty(entries.n_classes, np.int64), np.empty(entries.n_classes)
    for pair in range(entries.start.shape[0] - 1):
        n = entries.start[pair + 1] - entries.start[pair]
        classes = PairClasses(cls, n, _load_classes(penalty, entries, pair, cls, l1), l1, work)
        for k in range(n):
            u[k] = values[entries.start[pair] + k]
        out[pair] = pair_is_dual_feasible(penalty, u, classes)


@njit
def gauge(penalty: Penalty, values: FloatArray, entries: Entries, work: PenaltyWorkspace, out: FloatArray) -> None:
    """Write the gauge (P,) of the dual ball of each pair: the smallest g with its values in g times the ball."""
    u, cls, l1 = np.empty(entries.n_classes), np.empty(entries.n_classes, np.int64), np.empty(entries.n_classes)
    for pair in range(entries.start.shape[0] - 1):
        n = entries.start[pair + 1] - entries.start[pair]
        classes = PairClasses(cls, n, _load_classes(penalty, entries, pair, cls, l1), l1, work)
        for k in range(n):
            u[k] = values[entries.start[pair] + k]
        out[pair] = pair_gauge(penalty, u, classes)


@njit
def face(
    penalty: Penalty,
    theta: FloatArray,
    entries: Entries,
    work: PenaltyWorkspace,
    variable: IntArray,
    gradient: FloatArray,
) -> None:
    """Write the cluster (E,) of each entry, numbered through all pairs, -1 at zeros, and the gradient on the face."""
    K = entries.n_classes
    t, g, cls, number, l1 = np.empty(K), np.empty(K), np.empty(K, np.int64), np.empty(K, np.int64), np.empty(K)
    count = 0
    for pair in range(entries.start.shape[0] - 1):
        first, n = entries.start[pair], entries.start[pair + 1] - entries.start[pair]
        classes = PairClasses(cls, n, _load_classes(penalty, entries, pair, cls, l1), l1, work)
        for k in range(n):
            t[k] = theta[first + k]
        pair_gradient(penalty, t, classes, g)
        n_clusters = pair_clusters(penalty, t, classes, number)
        for k in range(n):
            variable[first + k] = number[k] + count if number[k] >= 0 else -1
            gradient[first + k] = g[k]
        count += n_clusters


@njit
def hvp(
    penalty: Penalty, theta: FloatArray, step: FloatArray, entries: Entries, work: PenaltyWorkspace, out: FloatArray
) -> None:
    """Write the Hessian-vector product (E,) of the penalty on the face of `theta` with `step`, zero at zeros."""
    K = entries.n_classes
    t, s, product, cls, l1 = np.empty(K), np.empty(K), np.empty(K), np.empty(K, np.int64), np.empty(K)
    for pair in range(entries.start.shape[0] - 1):
        first, n = entries.start[pair], entries.start[pair + 1] - entries.start[pair]
        classes = PairClasses(cls, n, _load_classes(penalty, entries, pair, cls, l1), l1, work)
        for k in range(n):
            t[k] = theta[first + k]
            s[k] = step[first + k] if t[k] != 0.0 else 0.0
            product[k] = 0.0
        pair_hvp(penalty, t, classes, s, product)
        for k in range(n):
            out[first + k] = product[k] if t[k] != 0.0 else 0.0


@njit
def retract(penalty: Penalty, theta: FloatArray, entries: Entries, work: PenaltyWorkspace, out: FloatArray) -> None:
    """Move `out` (E,) to the closure of the face of `theta` (E,), pair by pair."""
    K = entries.n_classes
    t, new, cls, l1 = np.empty(K), np.empty(K), np.empty(K, np.int64), np.empty(K)
    for pair in range(entries.start.shape[0] - 1):
        first, n = entries.start[pair], entries.start[pair + 1] - entries.start[pair]
        classes = PairClasses(cls, n, _load_classes(penalty, entries, pair, cls, l1), l1, work)
        for k in range(n):
            t[k] = theta[first + k]
            new[k] = out[first + k]
        pair_retract(penalty, t, classes, new)
        for k in range(n):
            out[first + k] = new[k]
