"""Optimality of a candidate face of the fused penalty for one pair: cheaper to check than to find the face.

On a face the signs of the values t_k and of their differences are fixed, and the minimiser is a weighted mean in each
cluster of equal values. It is the global minimiser if the signs and the order are those assumed and no subset leaves
its cluster: ``residual(Q) <= cut(Q)`` for all subsets Q of a cluster, plus ``l1(Q)`` on the right in the cluster at
zero.
"""

from __future__ import annotations

from jointglasso._typing import FloatArray
from jointglasso.kernels.jit import njit_no_refcount
from jointglasso.kernels.pair_types import COMPLETE, FOREST, GENERAL, FusedPair, PairClasses, PenaltyWorkspace
from jointglasso.kernels.submodular import (
    FIRST,
    L1,
    LABEL,
    LEVEL,
    LINEAR,
    POSITION,
    QUEUE,
    SECOND,
    X,
    load_graph,
    load_weights,
    outside,
)

#: Rows of the workspace. Real: negative gradient at `LEVEL`, the minimiser on the face, without the terms inside a
#: cluster; `X`: values with the signs and clusters of the face. Integer: first class of each cluster, and scratch.
RESIDUAL, ROOT, CLUSTER = LINEAR, LABEL, QUEUE


@njit_no_refcount
def face_is_optimal(
    penalty: FusedPair,
    a: FloatArray,
    b: FloatArray,
    pair: PairClasses,
    slack: float,
    x: FloatArray,
    work: PenaltyWorkspace,
) -> bool:
    """Whether the minimiser of ``sum a x^2 / 2 - b x + phi(x)`` lies on the face of x; x is then replaced by it.

    False also where the check is not implemented: clusters of several classes in graphs neither complete nor forests.
    Writes the weights of the pair into the workspace.
    """
    real, integer, n = work.real, work.integer, pair.n
    load_weights(penalty, pair, work)
    for i in range(n):
        real[X, i] = x[i]
        real[RESIDUAL, i] = b[i] - (real[L1, i] if x[i] > 0.0 else -real[L1, i] if x[i] < 0.0 else 0.0)
        real[FIRST, i] = 0.0
        real[SECOND, i] = 0.0
        integer[ROOT, i] = i
    if penalty.shape == FOREST:
        _subtract_differences_forest(penalty, pair, work)
    else:
        _subtract_differences_general(penalty, pair, work)
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
        optimal = _is_optimal_forest(penalty, pair, slack, work)
    else:
        optimal = _is_optimal_general(penalty, pair, slack, work)
    if optimal:
        for i in range(n):
            x[i] = real[LEVEL, i]
    return optimal


@njit_no_refcount
def zero_is_optimal(penalty: FusedPair, u: FloatArray, pair: PairClasses, slack: float, work: PenaltyWorkspace) -> bool:
    """Whether u is dual feasible: no set Q has ``|u(Q)| > l1(Q) + cut(Q) + slack``; after `load_weights`."""
    real, integer, n = work.real, work.integer, pair.n
    if penalty.shape == GENERAL:
        load_graph(penalty, pair, work)
        return not outside(penalty.shape, n, u, 1.0, slack, work)
    for i in range(n):
        real[X, i] = 0.0
        real[LEVEL, i] = 0.0
        real[RESIDUAL, i] = u[i]
    if penalty.shape == FOREST:
        return _is_optimal_forest(penalty, pair, slack, work)
    for side in range(2):
        for i in range(n):
            integer[CLUSTER, i] = i
        if not _prefix_sets_feasible(penalty, pair, slack, 1.0 - 2.0 * side, True, n, work):
            return False
    return True


@njit_no_refcount
def _subtract_differences_forest(penalty: FusedPair, pair: PairClasses, work: PenaltyWorkspace) -> None:
    """Subtract the derivative of ``g_kl |x_k - x_l|`` from the residual where values differ; else join the roots."""
    order, parents, class_graph = penalty.order, penalty.parent, penalty.class_graph
    real, integer = work.real, work.integer
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
def _subtract_differences_general(penalty: FusedPair, pair: PairClasses, work: PenaltyWorkspace) -> None:
    """As `_subtract_differences_forest`, for any graph."""
    cls, class_graph = pair.cls, penalty.class_graph
    real, integer = work.real, work.integer
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
def _is_optimal_forest(penalty: FusedPair, pair: PairClasses, slack: float, work: PenaltyWorkspace) -> bool:
    """Whether the levels have the order of x and a feasible flow within the clusters carries the residual.

    From the leaves to the root, each class passes on an interval of flows (rows FIRST and SECOND): a single number, or
    more at zero, where the l1 weight absorbs a part.
    """
    order, parents, class_graph = penalty.order, penalty.parent, penalty.class_graph
    real, integer = work.real, work.integer
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
def _is_optimal_general(penalty: FusedPair, pair: PairClasses, slack: float, work: PenaltyWorkspace) -> bool:
    """As `_is_optimal_forest`, on complete graphs; on others only for single classes or residuals within l1."""
    cls, n, class_graph = pair.cls, pair.n, penalty.class_graph
    real, integer = work.real, work.integer
    for i in range(1, n):
        for j in range(i):
            dx, d_level = real[X, i] - real[X, j], real[LEVEL, i] - real[LEVEL, j]
            if dx != 0.0 and d_level * dx <= 0.0 and class_graph[cls[i], cls[j]] > 0.0:
                return False
    for first in range(n):
        if integer[ROOT, first] != first:
            continue
        size = 0
        within_l1 = real[X, first] == 0.0
        for i in range(first, n):
            if integer[ROOT, i] == first:
                integer[CLUSTER, size] = i
                size += 1
                within_l1 = within_l1 and abs(real[RESIDUAL, i]) <= real[L1, i]
        if within_l1 or (size == 1 and real[X, first] != 0.0):
            continue
        if penalty.shape != COMPLETE:
            return False
        n_sides = 2 if real[X, first] == 0.0 else 1
        for side in range(n_sides):
            if not _prefix_sets_feasible(penalty, pair, slack, 1.0 - 2.0 * side, n_sides == 2, size, work):
                return False
    return True


@njit_no_refcount
def _prefix_sets_feasible(
    penalty: FusedPair, pair: PairClasses, slack: float, sign: float, at_zero: bool, size: int, work: PenaltyWorkspace
) -> bool:
    """Complete graph: whether no subset of a cluster has ``sign residual(Q) > l1(Q) + cut(Q)``; l1 counts at zero only.

    The most violated sets are prefixes of the order by gain per mass, so that only these are tested.
    """
    cls, v, masses = pair.cls, pair.v, penalty.mass
    real, integer = work.real, work.integer
    total_mass = 0.0
    for slot in range(size):
        i = integer[CLUSTER, slot]
        mass = masses[cls[i]]
        total_mass += mass
        gain = sign * real[RESIDUAL, i] - (real[L1, i] if at_zero else 0.0)
        insert_slot = slot
        while insert_slot > 0:
            j = integer[CLUSTER, insert_slot - 1]
            gain_j = sign * real[RESIDUAL, j] - (real[L1, j] if at_zero else 0.0)
            if gain_j * mass >= gain * masses[cls[j]]:
                break
            integer[CLUSTER, insert_slot] = j
            insert_slot -= 1
        integer[CLUSTER, insert_slot] = i
    gained = 0.0
    mass = 0.0
    for slot in range(size):
        i = integer[CLUSTER, slot]
        gained += sign * real[RESIDUAL, i] - (real[L1, i] if at_zero else 0.0)
        mass += masses[cls[i]]
        if gained > v * mass * max(total_mass - mass, 0.0) + slack:
            return False
    return True
