"""Optimality of a candidate face of the fused penalty for one pair: cheaper to check than to find the face.

On a face the signs of the values t_k and of their differences are fixed, and the minimiser is a weighted mean in each
cluster of equal values. It is the global minimiser if the signs and the order are those assumed and no subset leaves
its cluster: ``residual(Q) <= cut(Q)`` for all subsets Q of a cluster, plus ``l1(Q)`` on the right in the cluster at
zero.
"""

from __future__ import annotations

from jointglasso._typing import FloatArray
from jointglasso.kernels.jit import njit_no_refcount
from jointglasso.kernels.pair_types import FOREST, FusedPair, PairClasses
from jointglasso.kernels.submodular import (
    ALL,
    FIRST,
    GAIN,
    L1,
    LABEL,
    LEVEL,
    LINEAR,
    ORDER,
    POSITION,
    SECOND,
    X,
    load_graph,
    load_weights,
    max_cut_set,
)

#: Rows of the workspace. Real: negative gradient at `LEVEL`, the minimiser on the face, without the terms inside a
#: cluster; `X`: values with the signs and clusters of the face. Integer: first class of each cluster.
RESIDUAL, ROOT = LINEAR, ORDER


@njit_no_refcount
def face_is_optimal(
    penalty: FusedPair, a: FloatArray, b: FloatArray, pair: PairClasses, slack: float, x: FloatArray
) -> bool:
    """Whether the minimiser of ``sum a x^2 / 2 - b x + phi(x)`` lies on the face of x; x is then replaced by it.

    Writes the weights of the pair into the workspace.
    """
    real, integer, n = pair.work.real, pair.work.integer, pair.n
    load_weights(penalty, pair)
    for i in range(n):
        real[X, i] = x[i]
        real[RESIDUAL, i] = b[i] - (real[L1, i] if x[i] > 0.0 else -real[L1, i] if x[i] < 0.0 else 0.0)
        real[FIRST, i] = 0.0
        real[SECOND, i] = 0.0
        integer[ROOT, i] = i
    if penalty.shape == FOREST:
        _subtract_differences_forest(penalty, pair)
    else:
        _subtract_differences_general(penalty, pair)
    for i in range(n):
        real[FIRST, integer[ROOT, i]] += a[i]
        real[SECOND, integer[ROOT, i]] += real[RESIDUAL, i]
    for i in range(n):
        level = real[SECOND, integer[ROOT, i]] / real[FIRST, integer[ROOT, i]] if x[i] != 0.0 else 0.0
        if level * x[i] <= 0.0 and x[i] != 0.0:
            return False
        real[LEVEL, i] = level
        real[RESIDUAL, i] -= a[i] * level
    if penalty.shape == FOREST:
        optimal = _is_optimal_forest(penalty, pair, slack)
    else:
        optimal = _is_optimal_general(penalty, pair, slack)
    if optimal:
        for i in range(n):
            x[i] = real[LEVEL, i]
    return optimal


@njit_no_refcount
def _subtract_differences_forest(penalty: FusedPair, pair: PairClasses) -> None:
    """Subtract the derivative of ``g_kl |x_k - x_l|`` from the residual where values differ; else join the roots."""
    order, parents, class_graph = penalty.order, penalty.parent, penalty.class_graph
    real, integer = pair.work.real, pair.work.integer
    for step in range(order.shape[0]):
        k = order[step]
        i = integer[POSITION, k]
        j = integer[POSITION, parents[k]] if parents[k] >= 0 else -1
        if i >= 0 and j >= 0:
            if real[X, i] == real[X, j]:
                integer[ROOT, i] = integer[ROOT, j]
            else:
                derivative = pair.v * class_graph[k, parents[k]]
                derivative = derivative if real[X, i] > real[X, j] else -derivative
                real[RESIDUAL, i] -= derivative
                real[RESIDUAL, j] += derivative


@njit_no_refcount
def _subtract_differences_general(penalty: FusedPair, pair: PairClasses) -> None:
    """As `_subtract_differences_forest`, for any graph."""
    cls, class_graph = pair.cls, penalty.class_graph
    real, integer = pair.work.real, pair.work.integer
    for i in range(1, pair.n):
        for j in range(i):
            if real[X, i] == real[X, j]:
                integer[ROOT, i] = min(integer[ROOT, i], integer[ROOT, j])
            else:
                derivative = pair.v * class_graph[cls[i], cls[j]]
                derivative = derivative if real[X, i] > real[X, j] else -derivative
                real[RESIDUAL, i] -= derivative
                real[RESIDUAL, j] += derivative


@njit_no_refcount
def _is_optimal_forest(penalty: FusedPair, pair: PairClasses, slack: float) -> bool:
    """Whether the levels have the order of x and a feasible flow within the clusters carries the residual.

    From the leaves to the root, each class passes on an interval of flows (rows FIRST and SECOND): a single number, or
    more at zero, where the l1 weight absorbs a part.
    """
    order, parents, class_graph = penalty.order, penalty.parent, penalty.class_graph
    real, integer = pair.work.real, pair.work.integer
    for i in range(pair.n):
        free = real[L1, i] if real[X, i] == 0.0 else 0.0
        real[FIRST, i] = real[RESIDUAL, i] - free
        real[SECOND, i] = real[RESIDUAL, i] + free
    for step in range(order.shape[0] - 1, -1, -1):
        k = order[step]
        i = integer[POSITION, k]
        if i < 0:
            continue
        parent_class = parents[k]
        parent = integer[POSITION, parent_class] if parent_class >= 0 else -1
        edge_weight = 0.0
        if parent >= 0:
            if real[X, i] == real[X, parent]:
                edge_weight = pair.v * class_graph[k, parent_class]
            elif (real[LEVEL, i] - real[LEVEL, parent]) * (real[X, i] - real[X, parent]) <= 0.0:
                return False
        if real[FIRST, i] > edge_weight + slack or real[SECOND, i] < -edge_weight - slack:
            return False
        if edge_weight > 0.0:
            real[FIRST, parent] += max(real[FIRST, i], -edge_weight)
            real[SECOND, parent] += min(real[SECOND, i], edge_weight)
    return True


@njit_no_refcount
def _is_optimal_general(penalty: FusedPair, pair: PairClasses, slack: float) -> bool:
    """As `_is_optimal_forest`, for any graph: no subset of a cluster has a residual above its cut, plus l1 at zero."""
    cls, n, class_graph = pair.cls, pair.n, penalty.class_graph
    real, integer = pair.work.real, pair.work.integer
    for i in range(1, n):
        for j in range(i):
            dx, d_level = real[X, i] - real[X, j], real[LEVEL, i] - real[LEVEL, j]
            if dx != 0.0 and d_level * dx <= 0.0 and class_graph[cls[i], cls[j]] > 0.0:
                return False
    load_graph(penalty, pair)
    for first in range(n):
        if integer[ROOT, first] != first:
            continue
        size = 0
        at_zero = real[X, first] == 0.0
        within_l1 = at_zero
        for i in range(n):
            integer[LABEL, i] = 1 if integer[ROOT, i] == first else 0
            size += integer[LABEL, i]
            within_l1 = within_l1 and (integer[LABEL, i] == 0 or abs(real[RESIDUAL, i]) <= real[L1, i])
        if within_l1 or (size == 1 and not at_zero):
            continue
        for side in range(2 if at_zero else 1):  # the residuals of another cluster add up to zero
            for i in range(n):
                real[GAIN, i] = (1.0 - 2.0 * side) * real[RESIDUAL, i] - (real[L1, i] if at_zero else 0.0)
            if max_cut_set(penalty.shape, n, ALL, slack, pair.work) > slack:
                return False
    return True
