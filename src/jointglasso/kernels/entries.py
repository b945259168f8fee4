"""Penalty functions over many pairs: two loops that apply the functions of one pair.

Entries are stored pair by pair: those of pair q, one for each class that contains it, are ``values[start[q]:start[q +
1]]``. They are copied to scratch arrays, which is cheaper than slicing a few numbers. A kernel has several
operations, since those of a penalty call the same functions, which would be compiled into each kernel again. The
loops are functions of their own without reference counts, which would take as long as the operations.
"""

from __future__ import annotations

import numpy as np

from jointglasso._typing import FloatArray, IntArray
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

#: Operations of `apply`: a number for each pair, or for each entry.
VALUE, IS_DUAL_FEASIBLE, GAUGE, UPDATE, SUBGRADIENT = range(5)

#: Operations of `apply_on_face`.
GRADIENT, CLUSTERS, HVP, HESSIAN_DIAGONAL, RETRACT = range(5)


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
def apply(
    penalty: Penalty,
    operation: int,
    x: FloatArray,
    y: FloatArray,
    entries: Entries,
    work: PenaltyWorkspace,
    out: FloatArray,
) -> None:
    """Write the result of an operation on the entries `x` and `y` (E,), pair by pair.

    VALUE: penalty (P,) of x. IS_DUAL_FEASIBLE, GAUGE (P,): whether y is in the dual ball, and the smallest g with y in
    g times the ball. UPDATE: minimiser (E,) of ``sum x t^2 / 2 - y t`` plus the penalty of t. SUBGRADIENT: subgradient
    (E,) at x nearest to y.
    """
    K = entries.n_classes
    scratch = PenaltyWorkspace(np.empty((4, K)), np.empty((1, K), np.int64))
    _apply(penalty, operation, x, y, entries, work, scratch, out)


@njit_no_refcount
def _apply(
    penalty: Penalty,
    operation: int,
    x: FloatArray,
    y: FloatArray,
    entries: Entries,
    work: PenaltyWorkspace,
    scratch: PenaltyWorkspace,
    out: FloatArray,
) -> None:
    """The loop of `apply`, with scratch arrays (4, K) and (1, K)."""
    s, t, result, l1, cls = scratch.real[0], scratch.real[1], scratch.real[2], scratch.real[3], scratch.integer[0]
    for pair in range(entries.start.shape[0] - 1):
        first = entries.start[pair]
        n = entries.start[pair + 1] - first
        v = _load_classes(penalty, entries, pair, cls, l1)
        is_zero, is_below = True, True
        for k in range(n):
            s[k], t[k], result[k] = x[first + k], y[first + k], 0.0
            is_zero = is_zero and s[k] == 0.0
            is_below = is_below and abs(t[k]) <= l1[k]
        if operation == VALUE and is_zero:  # most pairs
            out[pair] = 0.0
            continue
        if is_below and (operation == UPDATE or (operation == SUBGRADIENT and is_zero)):  # most pairs
            for k in range(n):
                out[first + k] = 0.0 if operation == UPDATE else t[k]
            continue
        classes = PairClasses(cls, n, v, l1, work)
        if operation == VALUE:
            out[pair] = pair_value(penalty, s, classes)
        elif operation == IS_DUAL_FEASIBLE:
            out[pair] = pair_is_dual_feasible(penalty, t, classes)
        elif operation == GAUGE:
            out[pair] = pair_gauge(penalty, t, classes)
        else:
            if operation == UPDATE:
                pair_update(penalty, s, t, classes, result)
            else:
                pair_subgradient(penalty, s, t, classes, result)
            for k in range(n):
                out[first + k] = result[k]


@njit
def apply_on_face(
    penalty: Penalty,
    operation: int,
    theta: FloatArray,
    x: FloatArray,
    entries: Entries,
    work: PenaltyWorkspace,
    out: FloatArray,
) -> None:
    """Write the result (E,) of an operation on the face of `theta` (E,), pair by pair.

    GRADIENT of the penalty. CLUSTERS: number of the cluster of each entry, through all pairs, -1 at zeros. HVP:
    Hessian-vector product with x, and HESSIAN_DIAGONAL, both zero at zeros. RETRACT: x moved to the closure of
    the face.
    """
    K = entries.n_classes
    scratch = PenaltyWorkspace(np.empty((5, K)), np.empty((2, K), np.int64))
    _apply_on_face(penalty, operation, theta, x, entries, work, scratch, out)


@njit_no_refcount
def _apply_on_face(
    penalty: Penalty,
    operation: int,
    theta: FloatArray,
    x: FloatArray,
    entries: Entries,
    work: PenaltyWorkspace,
    scratch: PenaltyWorkspace,
    out: FloatArray,
) -> None:
    """The loop of `apply_on_face`, with scratch arrays (5, K) and (2, K)."""
    t, s, product, result, l1 = scratch.real[0], scratch.real[1], scratch.real[2], scratch.real[3], scratch.real[4]
    cls, number = scratch.integer[0], scratch.integer[1]
    count = 0
    for pair in range(entries.start.shape[0] - 1):
        first, n = entries.start[pair], entries.start[pair + 1] - entries.start[pair]
        classes = PairClasses(cls, n, _load_classes(penalty, entries, pair, cls, l1), l1, work)
        for k in range(n):
            t[k] = theta[first + k]
            s[k] = x[first + k] if t[k] != 0.0 else 0.0
            result[k] = x[first + k] if operation == RETRACT else 0.0
        if operation == GRADIENT:
            pair_gradient(penalty, t, classes, result)
        elif operation == HVP:
            pair_hvp(penalty, t, classes, s, result)
        elif operation == HESSIAN_DIAGONAL:
            for k in range(n):
                if t[k] != 0.0:
                    for j in range(n):
                        s[j], product[j] = 1.0 if j == k else 0.0, 0.0
                    pair_hvp(penalty, t, classes, s, product)
                    result[k] = product[k]
        elif operation == RETRACT:
            pair_retract(penalty, t, classes, result)
        else:
            n_clusters = pair_clusters(penalty, t, classes, number)
            for k in range(n):
                result[k] = number[k] + count if number[k] >= 0 else -1
            count += n_clusters
        for k in range(n):
            out[first + k] = result[k] if operation != HVP or t[k] != 0.0 else 0.0
