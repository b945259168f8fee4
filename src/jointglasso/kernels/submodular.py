"""Maximisers of a modular function minus a cut function: the set problem behind the fused penalty.

For gains m (n,) on a set C of classes and the class graph with edge weights g_kl >= 0, find the smallest Q that
maximises ``m(Q) - cut_C(Q)``, where cut_C(Q) is the sum of g_kl over k in Q and l in C outside Q: minus a submodular
function. The level sets of the minimiser of a separable convex function plus ``sum g_kl |t_k - t_l|`` are such sets,
and membership in the dual ball is decided by them. Algorithms: a sort on complete graphs with product weights, dynamic
programming on chains, trees and forests, and a maximum flow on general graphs.

Indices i, j = 0..n-1 count the classes that contain the pair.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from jointglasso._typing import FloatArray, IntArray
from jointglasso.kernels.jit import njit_no_refcount
from jointglasso.kernels.pair_types import COMPLETE, FOREST, GENERAL, FusedPair, PairClasses, PenaltyWorkspace


class Graph(NamedTuple):
    """Class graph restricted to the n classes that contain one pair, and workspace for its maximising sets."""

    shape: int
    """COMPLETE, FOREST or GENERAL: the algorithm."""
    n: int
    """Number of classes that contain the pair."""
    l1: FloatArray
    """(n,): weight of |t_i|, including the edges to the classes in which the pair is screened out."""
    class_graph: FloatArray
    """(n, n): edge weights g_ij; filled for GENERAL."""
    mass: FloatArray
    """(n,): COMPLETE: g_ij = mass_i mass_j; FOREST: weight of the edge to the parent."""
    parent: IntArray
    """(n,): FOREST: parent of each class, -1 at a root."""
    order: IntArray
    """(n,): FOREST: classes in topological order, parents first."""
    flow: FloatArray
    """(n, n): GENERAL: residual capacities."""
    first: FloatArray
    second: FloatArray
    """(n,): `first` and `second` are scratch: sort keys, values of subtrees, or residual supply and demand."""
    queue: IntArray
    previous: IntArray
    """(n,): GENERAL: `queue` and predecessor of the breadth-first search."""
    gain: FloatArray
    """(n,): gains m."""
    shifted: FloatArray
    """(n,): linear coefficients, reduced by the derivative of the penalty between different levels."""
    label: IntArray
    """(n,): the subset of classes that a set problem is restricted to: those with one label."""
    chosen: IntArray
    """(n,): 1 in the maximising set Q, 0 outside."""


@njit_no_refcount
def graph_of(penalty: FusedPair, pair: PairClasses, work: PenaltyWorkspace) -> Graph:
    """Class graph of one pair, in the arrays of `work`."""
    n, reals, integers = pair.n, work.real, work.integer
    K = penalty.l1.shape[0]
    full = K * K
    graph = Graph(
        penalty.shape,
        n,
        reals[2 * full : 2 * full + n],
        reals[: n * n].reshape(n, n),
        reals[2 * full + K : 2 * full + K + n],
        integers[:n],
        integers[K : K + n],
        reals[full : full + n * n].reshape(n, n),
        reals[2 * full + 2 * K : 2 * full + 2 * K + n],
        reals[2 * full + 3 * K : 2 * full + 3 * K + n],
        integers[2 * K : 2 * K + n],
        integers[3 * K : 3 * K + n],
        reals[2 * full + 4 * K : 2 * full + 4 * K + n],
        reals[2 * full + 5 * K : 2 * full + 5 * K + n],
        integers[4 * K : 4 * K + n],
        integers[5 * K : 5 * K + n],
    )
    _restrict_to_pair(penalty, pair, graph, integers[6 * K : 7 * K])
    return graph


@njit_no_refcount
def _restrict_to_pair(penalty: FusedPair, pair: PairClasses, graph: Graph, position: IntArray) -> None:
    """Fill weights and edges of the classes that contain the pair; `position` (K,) is scratch: their inverse index."""
    cls, n, v = pair
    K = penalty.l1.shape[0]
    for k in range(K):
        position[k] = -1
    for i in range(n):
        position[cls[i]] = i
    for i in range(n):
        graph.l1[i] = v * class_l1(penalty, cls, n, i)
    if penalty.shape == GENERAL:
        for i in range(n):
            for j in range(n):
                graph.class_graph[i, j] = v * penalty.class_graph[cls[i], cls[j]]
    elif penalty.shape == COMPLETE:
        for i in range(n):
            graph.mass[i] = np.sqrt(v) * penalty.mass[cls[i]]
    else:
        count = 0
        for step in range(K):
            i = position[penalty.order[step]]
            if i >= 0:
                graph.order[count] = i
                count += 1
                parent = penalty.parent[cls[i]]
                graph.parent[i] = position[parent] if parent >= 0 else -1
                # `mass` holds the weight of the edge to the parent.
                graph.mass[i] = v * penalty.class_graph[cls[i], parent] if parent >= 0 else 0.0


@njit_no_refcount
def class_l1(penalty: FusedPair, cls: IntArray, n: int, i: int) -> float:
    """Weight of |t| in class ``cls[i]``: its l1 weight plus its edges to classes in which the pair is screened out."""
    k = cls[i]
    total = penalty.l1[k]
    if n < penalty.l1.shape[0]:
        following = 0
        for j in range(penalty.l1.shape[0]):
            if following < n and cls[following] == j:
                following += 1
            else:
                total += penalty.class_graph[k, j]
    return total


@njit_no_refcount
def max_cut_set(graph: Graph, gain: FloatArray, label: int, slack: float) -> float:
    """Value of ``max_Q gain(Q) - cut(Q)`` over the classes with this label; the smallest maximiser is ``graph.chosen``.

    Sets with a value of at most `slack` count as empty.
    """
    for i in range(graph.n):
        graph.chosen[i] = 0
    if graph.shape == COMPLETE:
        return _max_cut_set_complete(graph, gain, label, slack)
    if graph.shape == FOREST:
        return _max_cut_set_forest(graph, gain, label, slack)
    return _max_cut_set_general(graph, gain, label, slack)


@njit_no_refcount
def _max_cut_set_complete(graph: Graph, gain: FloatArray, label: int, slack: float) -> float:
    """Complete graph with product weights: Q is a prefix of the classes in decreasing order of gain per mass."""
    count = 0
    total = 0.0
    for i in range(graph.n):
        if graph.label[i] != label:
            continue
        total += graph.mass[i]
        if graph.mass[i] > 0.0:
            graph.first[i] = gain[i] / graph.mass[i]
        else:  # no edges, as in an unpenalised pair
            graph.first[i] = np.inf if gain[i] > 0.0 else -np.inf
        slot = count
        while slot > 0 and graph.first[graph.queue[slot - 1]] < graph.first[i]:
            graph.queue[slot] = graph.queue[slot - 1]
            slot -= 1
        graph.queue[slot] = i
        count += 1
    highest = 0.0
    size = 0
    gained = 0.0
    mass = 0.0
    for rank in range(count):
        i = graph.queue[rank]
        gained += gain[i]
        mass += graph.mass[i]
        value = gained - mass * (total - mass) if rank < count - 1 else gained
        if value > highest + slack:
            highest = value
            size = rank + 1
    for rank in range(size):
        graph.chosen[graph.queue[rank]] = 1
    return highest


@njit_no_refcount
def _max_cut_set_forest(graph: Graph, gain: FloatArray, label: int, slack: float) -> float:
    """Forest: dynamic programming over the best value of each subtree without and with its root; then backtracking."""
    without_root = graph.first
    with_root = graph.second
    for i in range(graph.n):
        without_root[i] = 0.0
        with_root[i] = gain[i]
    for step in range(graph.n - 1, -1, -1):
        i = graph.order[step]
        parent = graph.parent[i]
        if graph.label[i] == label and parent >= 0 and graph.label[parent] == label:
            without_root[parent] += max(without_root[i], with_root[i] - graph.mass[i])
            with_root[parent] += max(with_root[i], without_root[i] - graph.mass[i])
    value = 0.0
    for step in range(graph.n):
        i = graph.order[step]
        if graph.label[i] != label:
            continue
        parent = graph.parent[i]
        if parent >= 0 and graph.label[parent] == label:
            edge_weight = graph.mass[i] if graph.chosen[parent] == 1 else -graph.mass[i]
            graph.chosen[i] = 1 if with_root[i] + edge_weight > without_root[i] + slack else 0
        else:
            graph.chosen[i] = 1 if with_root[i] > without_root[i] + slack else 0
            value += with_root[i] if graph.chosen[i] == 1 else without_root[i]
    return value


@njit_no_refcount
def _max_cut_set_general(graph: Graph, gain: FloatArray, label: int, slack: float) -> float:
    """General graph: Q is the source side of a minimum cut, from positive gains (sources) to negative ones (sinks)."""
    supply = graph.first
    demand = graph.second
    tiny = slack / (4 * graph.n * graph.n)
    for i in range(graph.n):
        supply[i] = max(gain[i], 0.0)
        demand[i] = max(-gain[i], 0.0)
        for j in range(graph.n):
            graph.flow[i, j] = graph.class_graph[i, j]
    while True:
        end = _augmenting_path(graph, label, tiny)
        if end < 0:
            break
        _augment(graph, end)
    value = 0.0
    for i in range(graph.n):
        graph.chosen[i] = 1 if graph.label[i] == label and graph.previous[i] >= -1 else 0
    for i in range(graph.n):
        if graph.chosen[i] == 1:
            value += gain[i]
            for j in range(graph.n):
                if graph.chosen[j] == 0 and graph.label[j] == label:
                    value -= graph.class_graph[i, j]
    if value <= slack:
        for i in range(graph.n):
            graph.chosen[i] = 0
        return 0.0
    return value


@njit_no_refcount
def _augmenting_path(graph: Graph, label: int, tiny: float) -> int:
    """Sink at the end of a shortest augmenting path, or -1. Writes ``previous``: -1 at sources, -2 if not reachable."""
    head = 0
    tail = 0
    for i in range(graph.n):
        graph.previous[i] = -2
        if graph.label[i] == label and graph.first[i] > tiny:
            graph.previous[i] = -1
            graph.queue[tail] = i
            tail += 1
    while head < tail:
        i = graph.queue[head]
        head += 1
        if graph.second[i] > tiny:
            return i
        for j in range(graph.n):
            if graph.label[j] == label and graph.previous[j] == -2 and graph.flow[i, j] > tiny:
                graph.previous[j] = i
                graph.queue[tail] = j
                tail += 1
    return -1


@njit_no_refcount
def _augment(graph: Graph, end: int) -> None:
    """Push the bottleneck capacity along the augmenting path to `end`."""
    amount = graph.second[end]
    i = end
    while graph.previous[i] >= 0:
        amount = min(amount, graph.flow[graph.previous[i], i])
        i = graph.previous[i]
    amount = min(amount, graph.first[i])
    graph.first[i] -= amount
    graph.second[end] -= amount
    i = end
    while graph.previous[i] >= 0:
        graph.flow[graph.previous[i], i] -= amount
        graph.flow[i, graph.previous[i]] += amount
        i = graph.previous[i]


@njit_no_refcount
def split_at_cut(graph: Graph, label: int, values: FloatArray) -> None:
    """Subtract from `values` the derivative of the cut between the chosen classes, the higher level, and the others.

    Only classes with this label count.
    """
    if graph.shape == COMPLETE:
        high = 0.0
        low = 0.0
        for i in range(graph.n):
            if graph.label[i] == label:
                if graph.chosen[i] == 1:
                    high += graph.mass[i]
                else:
                    low += graph.mass[i]
        for i in range(graph.n):
            if graph.label[i] == label:
                values[i] += -graph.mass[i] * low if graph.chosen[i] == 1 else graph.mass[i] * high
    elif graph.shape == FOREST:
        for i in range(graph.n):
            parent = graph.parent[i]
            if graph.label[i] == label and parent >= 0 and graph.label[parent] == label:
                step = (graph.chosen[i] - graph.chosen[parent]) * graph.mass[i]
                values[i] -= step
                values[parent] += step
    else:
        for i in range(graph.n):
            for j in range(graph.n):
                if graph.label[i] == label and graph.label[j] == label:
                    values[i] -= (graph.chosen[i] - graph.chosen[j]) * graph.class_graph[i, j]
