"""Optimality of a candidate face of the fused penalty for one pair: cheaper to check than to find the face.

On a face the signs of the values t_k and of their differences are fixed, and the minimiser is a weighted mean in each
cluster of equal values. It is the global minimiser if the signs and the order are those assumed and no subset leaves
its cluster: ``residual(Q) <= cut(Q)`` for all subsets Q of a cluster, plus ``l1(Q)`` on the right in the cluster at
zero.
"""

from __future__ import annotations

from typing import NamedTuple

from jointglasso._typing import FloatArray, IntArray
from jointglasso.kernels.jit import njit_no_refcount
from jointglasso.kernels.pair_types import COMPLETE, FOREST, GENERAL, FusedPair, PairClasses, PenaltyWorkspace
from jointglasso.kernels.submodular import Graph, class_l1, graph_of, max_cut_set


class FaceCandidate(NamedTuple):
    """Candidate face of a pair, (n,) each: one number for each class that contains it."""

    x: FloatArray
    """Values with the signs and clusters of the face."""
    level: FloatArray
    """Minimiser on the face: the mean of the cluster of each class, zero in the zero cluster."""
    residual: FloatArray
    """Negative gradient at `level`, without the terms inside a cluster."""
    l1: FloatArray
    """Weight of |t|: the bound on the subgradient at zero."""


@njit_no_refcount(forceinline=True)
def face_is_optimal(
    penalty: FusedPair,
    a: FloatArray,
    b: FloatArray,
    pair: PairClasses,
    slack: float,
    x: FloatArray,
    work: PenaltyWorkspace,
) -> bool:
    """Whether the minimiser of ``sum a x^2 / 2 - b x + v phi(x)`` lies on the face of x; x is then replaced by it.

    False also where the check is not implemented: clusters of several classes in graphs neither complete nor forests.
    """
    K, (cls, n, v), (reals, integers) = penalty.l1.shape[0], pair, work
    residual, l1, level = reals[:n], reals[K : K + n], reals[2 * K : 2 * K + n]
    weight, total = reals[3 * K : 3 * K + n], reals[4 * K : 4 * K + n]
    root, position = integers[:n], integers[K : 2 * K]
    for i in range(n):
        l1[i] = v * class_l1(penalty, cls, n, i)
        residual[i] = b[i] - (l1[i] if x[i] > 0.0 else -l1[i] if x[i] < 0.0 else 0.0)
        weight[i] = 0.0
        total[i] = 0.0
        root[i] = i
    if penalty.shape == FOREST:
        _class_positions(cls, n, position)
        _subtract_differences_forest(penalty, v, x, position, residual, root)
    else:
        _subtract_differences_general(penalty, pair, x, residual, root)
    for i in range(n):
        weight[root[i]] += a[i]
        total[root[i]] += residual[i]
    for i in range(n):
        level[i] = total[root[i]] / weight[root[i]] if x[i] != 0.0 else 0.0
        if level[i] * x[i] <= 0.0 and x[i] != 0.0:
            return False
        residual[i] -= a[i] * level[i]
    if penalty.shape == FOREST:
        optimal = _is_optimal_forest(penalty, v, slack, FaceCandidate(x, level, residual, l1), position, reals[5 * K :])
    else:
        optimal = _is_optimal_general(
            penalty, pair, slack, FaceCandidate(x, level, residual, l1), root, integers[2 * K :]
        )
    if optimal:
        for i in range(n):
            x[i] = level[i]
    return optimal


@njit_no_refcount
def zero_is_optimal(
    penalty: FusedPair, u: FloatArray, l1: FloatArray, pair: PairClasses, slack: float, work: PenaltyWorkspace
) -> bool:
    """Whether u is dual feasible: no set Q has ``|u(Q)| > l1(Q) + cut(Q) + slack``. `l1` lies at the end of `work`."""
    K, (cls, n, v), (reals, integers) = penalty.l1.shape[0], pair, work
    if penalty.shape == GENERAL:
        graph = graph_of(penalty, pair, work)
        for i in range(n):
            graph.l1[i] = l1[i]
        return not outside(graph, u, 1.0, slack)
    if penalty.shape == FOREST:
        zero, position = reals[:n], integers[:K]
        for i in range(n):
            zero[i] = 0.0
        _class_positions(cls, n, position)
        return _is_optimal_forest(penalty, v, slack, FaceCandidate(zero, zero, u, l1), position, reals[K:])
    order = integers[:n]
    for side in range(2):
        for i in range(n):
            order[i] = i
        if not _prefix_sets_feasible(penalty, pair, slack, 1.0 - 2.0 * side, True, u, l1, order):
            return False
    return True


@njit_no_refcount
def class_l1_weights(penalty: FusedPair, pair: PairClasses, l1: FloatArray) -> None:
    """Write the l1 weights (n,) of the classes that contain the pair, edges to screened-out classes included."""
    cls, n, v = pair
    for i in range(n):
        l1[i] = v * class_l1(penalty, cls, n, i)


@njit_no_refcount
def outside(graph: Graph, u: FloatArray, factor: float, slack: float) -> bool:
    """Whether a set has ``factor |u(Q)| > l1(Q) + cut(Q) + slack``; the most violated one is then chosen."""
    for side in range(2):
        sign = (1.0 - 2.0 * side) * factor
        for i in range(graph.n):
            graph.label[i] = 1
            graph.gain[i] = sign * u[i] - graph.l1[i]
        if max_cut_set(graph, graph.gain, 1, slack) > slack:
            return True
    return False


@njit_no_refcount
def _class_positions(cls: IntArray, n: int, position: IntArray) -> None:
    """Write the inverse index (K,) of ``cls[:n]``: position of each class, -1 where the pair is screened out."""
    position[:] = -1
    for i in range(n):
        position[cls[i]] = i


@njit_no_refcount
def _subtract_differences_forest(
    penalty: FusedPair, v: float, x: FloatArray, position: IntArray, residual: FloatArray, root: IntArray
) -> None:
    """Subtract the derivative of ``g_kl |x_k - x_l|`` from `residual` where values differ; else join the roots."""
    for k in penalty.order:
        i = position[k]
        parent = position[penalty.parent[k]] if penalty.parent[k] >= 0 else -1
        if i >= 0 and parent >= 0:
            if x[i] == x[parent]:
                root[i] = root[parent]
            else:
                derivative = v * penalty.class_graph[k, penalty.parent[k]]
                derivative = derivative if x[i] > x[parent] else -derivative
                residual[i] -= derivative
                residual[parent] += derivative


@njit_no_refcount
def _is_optimal_forest(
    penalty: FusedPair, v: float, slack: float, candidate: FaceCandidate, position: IntArray, reals: FloatArray
) -> bool:
    """Whether the levels have the order of x and a feasible flow within the clusters carries the residual.

    From the leaves to the root, each class passes on an interval of flows: a single number, or more at zero, where the
    l1 weight absorbs a part.
    """
    x, level, residual, l1 = candidate
    n = l1.shape[0]
    low, high = reals[:n], reals[n : 2 * n]
    for i in range(n):
        free = l1[i] if x[i] == 0.0 else 0.0
        low[i] = residual[i] - free
        high[i] = residual[i] + free
    for step in range(penalty.order.shape[0] - 1, -1, -1):
        k = penalty.order[step]
        i = position[k]
        if i < 0:
            continue
        parent = position[penalty.parent[k]] if penalty.parent[k] >= 0 else -1
        edge_weight = 0.0
        if parent >= 0:
            if x[i] == x[parent]:
                edge_weight = v * penalty.class_graph[k, penalty.parent[k]]
            elif (level[i] - level[parent]) * (x[i] - x[parent]) <= 0.0:
                return False
        if low[i] > edge_weight + slack or high[i] < -edge_weight - slack:
            return False
        if edge_weight > 0.0:
            low[parent] += max(low[i], -edge_weight)
            high[parent] += min(high[i], edge_weight)
    return True


@njit_no_refcount
def _subtract_differences_general(
    penalty: FusedPair, pair: PairClasses, x: FloatArray, residual: FloatArray, root: IntArray
) -> None:
    """As `_subtract_differences_forest`, for any graph."""
    cls, n, v = pair
    for i in range(1, n):
        for j in range(i):
            if x[i] == x[j]:
                root[i] = min(root[i], root[j])
            else:
                derivative = v * penalty.class_graph[cls[i], cls[j]]
                derivative = derivative if x[i] > x[j] else -derivative
                residual[i] -= derivative
                residual[j] += derivative


@njit_no_refcount
def _is_optimal_general(
    penalty: FusedPair, pair: PairClasses, slack: float, candidate: FaceCandidate, root: IntArray, order: IntArray
) -> bool:
    """As `_is_optimal_forest`, on complete graphs; on others only for single classes or residuals within l1."""
    cls, n = pair.cls, pair.n
    x, level, residual, l1 = candidate
    for i in range(1, n):
        for j in range(i):
            order_reversed = x[i] != x[j] and (level[i] - level[j]) * (x[i] - x[j]) <= 0.0
            if order_reversed and penalty.class_graph[cls[i], cls[j]] > 0.0:
                return False
    for first in range(n):
        if root[first] != first:
            continue
        size = 0
        within_l1 = x[first] == 0.0
        for i in range(first, n):
            if root[i] == first:
                order[size] = i
                size += 1
                within_l1 = within_l1 and abs(residual[i]) <= l1[i]
        if within_l1 or (size == 1 and x[first] != 0.0):
            continue
        if penalty.shape != COMPLETE:
            return False
        edge_signs = 2 if x[first] == 0.0 else 1
        for side in range(edge_signs):
            sign = 1.0 - 2.0 * side
            if not _prefix_sets_feasible(penalty, pair, slack, sign, edge_signs == 2, residual, l1, order[:size]):
                return False
    return True


@njit_no_refcount
def _prefix_sets_feasible(
    penalty: FusedPair,
    pair: PairClasses,
    slack: float,
    sign: float,
    at_zero: bool,
    residual: FloatArray,
    l1: FloatArray,
    order: IntArray,
) -> bool:
    """Complete graph: whether no subset of a cluster has ``sign residual(Q) > l1(Q) + cut(Q)``; l1 counts at zero only.

    The most violated sets are prefixes of the order by gain per mass, so that only these are tested.
    """
    size, cls, v = order.shape[0], pair.cls, pair.v
    total_mass = 0.0
    for slot in range(size):
        i = order[slot]
        mass = penalty.mass[cls[i]]
        total_mass += mass
        gain = sign * residual[i] - (l1[i] if at_zero else 0.0)
        insert_slot = slot
        while insert_slot > 0:
            j = order[insert_slot - 1]
            gain_j = sign * residual[j] - (l1[j] if at_zero else 0.0)
            if gain_j * mass >= gain * penalty.mass[cls[j]]:
                break
            order[insert_slot] = j
            insert_slot -= 1
        order[insert_slot] = i
    gained = 0.0
    mass = 0.0
    for slot in range(size):
        i = order[slot]
        gained += sign * residual[i] - (l1[i] if at_zero else 0.0)
        mass += penalty.mass[cls[i]]
        if gained > v * mass * max(total_mass - mass, 0.0) + slack:
            return False
    return True
