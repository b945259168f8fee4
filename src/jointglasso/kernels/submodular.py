"""Maximisers of a modular function minus a cut function: the set problem behind the fused penalty.

For gains m (n,) on a set C of classes and the class graph with edge weights g_kl >= 0, find the smallest Q that
maximises ``m(Q) - cut_C(Q)``, where cut_C(Q) is the sum of g_kl over k in Q and l in C outside Q: minus a submodular
function. The level sets of the minimiser of a separable convex function plus ``sum g_kl |t_k - t_l|`` are such sets,
and membership in the dual ball is decided by them. Algorithms: a sort on complete graphs with product weights, dynamic
programming on chains, trees and forests, and a maximum flow on general graphs.

Indices i, j = 0..n-1 count the classes that contain the pair. All intermediate results are rows of the workspace, which
is indexed and never sliced: a slice is an array whose references are counted.
"""

from __future__ import annotations

import numpy as np

from jointglasso._typing import FloatArray, IntArray
from jointglasso.kernels.jit import njit_no_refcount
from jointglasso.kernels.pair_types import (
    COMPLETE,
    FOREST,
    GENERAL,
    N_INTEGER_ROWS,
    FusedPair,
    PairClasses,
    PenaltyWorkspace,
)

#: Rows of the real workspace: weights of |t_i|, with the edges to the classes in which the pair is screened out; for
#: complete graphs the masses (g_ij = mass_i mass_j), for forests the weights of the edges to the parents; two rows of
#: scratch (sort keys, values of subtrees, residual supply and demand); gains m; linear coefficients, reduced by the
#: derivative of the penalty between different levels; linear coefficients; means of clusters; minimiser. From `GRAPH`
#: on: edge weights g_ij and residual capacities of general graphs, n rows each.
L1, MASS, FIRST, SECOND, GAIN, SHIFTED, LINEAR, LEVEL, X, GRAPH = range(10)

#: Rows of the integer workspace. Forests: parent of each class, -1 at a root, and the classes in topological order.
#: Queue and predecessors of a search. Label of each class: a set problem is restricted to the classes with one label.
#: Whether a class is in the maximising set Q. Inverse index (K,) of the classes that contain the pair.
PARENT, ORDER, QUEUE, PREVIOUS, LABEL, CHOSEN, POSITION = range(N_INTEGER_ROWS)

#: Label of all classes, before they are split. Not a literal integer: code would be compiled for it separately.
ALL = np.int64(1)


@njit_no_refcount
def cut_edges(penalty: FusedPair, cls: IntArray, n: int, i: int) -> float:
    """Sum of the edges of class ``cls[i]`` to classes in which the pair is screened out."""
    k = cls[i]
    total = 0.0
    if n < penalty.l1.shape[0]:
        following = 0
        for j in range(penalty.l1.shape[0]):
            if following < n and cls[following] == j:
                following += 1
            else:
                total += penalty.class_graph[k, j]
    return total


@njit_no_refcount
def load_weights(penalty: FusedPair, pair: PairClasses) -> None:
    """Write the l1 weights of the classes that contain a pair, and their positions."""
    cls, class_graph = pair.cls, penalty.class_graph
    real, integer = pair.work.real, pair.work.integer
    n_classes = penalty.l1.shape[0]
    for k in range(n_classes):
        integer[POSITION, k] = -1
    for i in range(pair.n):
        integer[POSITION, cls[i]] = i
    for i in range(pair.n):
        total = 0.0
        if pair.n < n_classes:
            for k in range(n_classes):
                if integer[POSITION, k] < 0:
                    total += class_graph[cls[i], k]
        real[L1, i] = pair.l1[i] + pair.v * total


@njit_no_refcount
def load_graph(penalty: FusedPair, pair: PairClasses) -> None:
    """Write the edges of the class graph among the classes that contain a pair, and their weights."""
    load_weights(penalty, pair)
    cls, class_graph, mass = pair.cls, penalty.class_graph, penalty.mass
    order, parents = penalty.order, penalty.parent
    real, integer = pair.work.real, pair.work.integer
    if penalty.shape == GENERAL:
        for i in range(pair.n):
            for j in range(pair.n):
                real[GRAPH + i, j] = pair.v * class_graph[cls[i], cls[j]]
    elif penalty.shape == COMPLETE:
        for i in range(pair.n):
            real[MASS, i] = np.sqrt(pair.v) * mass[cls[i]]
    else:
        count = 0
        for step in range(order.shape[0]):
            k = order[step]
            i = integer[POSITION, k]
            if i >= 0:
                integer[ORDER, count] = i
                count += 1
                parent = parents[k]
                integer[PARENT, i] = integer[POSITION, parent] if parent >= 0 else -1
                real[MASS, i] = pair.v * class_graph[k, parent] if parent >= 0 else 0.0


@njit_no_refcount
def max_cut_set(shape: int, n: int, label: int, slack: float, work: PenaltyWorkspace) -> float:
    """Value of ``max_Q gain(Q) - cut(Q)`` over the classes with this label; row CHOSEN is the smallest maximiser.

    The gains are row GAIN. Sets with a value of at most `slack` count as empty.
    """
    integer = work.integer
    for i in range(n):
        integer[CHOSEN, i] = 0
    if shape == COMPLETE:
        return _max_cut_set_complete(n, label, slack, work)
    if shape == FOREST:
        return _max_cut_set_forest(n, label, slack, work)
    return _max_cut_set_general(n, label, slack, work)


@njit_no_refcount
def _max_cut_set_complete(n: int, label: int, slack: float, work: PenaltyWorkspace) -> float:
    """Complete graph with product weights: Q is a prefix of the classes in decreasing order of gain per mass."""
    real, integer = work.real, work.integer
    count = 0
    total = 0.0
    for i in range(n):
        if integer[LABEL, i] != label:
            continue
        total += real[MASS, i]
        if real[MASS, i] > 0.0:
            real[FIRST, i] = real[GAIN, i] / real[MASS, i]
        else:  # no edges, as in an unpenalised pair
            real[FIRST, i] = np.inf if real[GAIN, i] > 0.0 else -np.inf
        slot = count
        while slot > 0 and real[FIRST, integer[QUEUE, slot - 1]] < real[FIRST, i]:
            integer[QUEUE, slot] = integer[QUEUE, slot - 1]
            slot -= 1
        integer[QUEUE, slot] = i
        count += 1
    highest = 0.0
    size = 0
    gained = 0.0
    mass = 0.0
    for rank in range(count):
        i = integer[QUEUE, rank]
        gained += real[GAIN, i]
        mass += real[MASS, i]
        value = gained - mass * (total - mass) if rank < count - 1 else gained
        if value > highest + slack:
            highest = value
            size = rank + 1
    for rank in range(size):
        integer[CHOSEN, integer[QUEUE, rank]] = 1
    return highest


@njit_no_refcount
def _max_cut_set_forest(n: int, label: int, slack: float, work: PenaltyWorkspace) -> float:
    """Forest: dynamic programming over the best value of each subtree without and with its root; then backtracking."""
    real, integer = work.real, work.integer
    for i in range(n):
        real[FIRST, i] = 0.0
        real[SECOND, i] = real[GAIN, i]
    for step in range(n - 1, -1, -1):
        i = integer[ORDER, step]
        parent = integer[PARENT, i]
        if integer[LABEL, i] == label and parent >= 0 and integer[LABEL, parent] == label:
            real[FIRST, parent] += max(real[FIRST, i], real[SECOND, i] - real[MASS, i])
            real[SECOND, parent] += max(real[SECOND, i], real[FIRST, i] - real[MASS, i])
    value = 0.0
    for step in range(n):
        i = integer[ORDER, step]
        if integer[LABEL, i] != label:
            continue
        parent = integer[PARENT, i]
        if parent >= 0 and integer[LABEL, parent] == label:
            edge_weight = real[MASS, i] if integer[CHOSEN, parent] == 1 else -real[MASS, i]
            integer[CHOSEN, i] = 1 if real[SECOND, i] + edge_weight > real[FIRST, i] + slack else 0
        else:
            integer[CHOSEN, i] = 1 if real[SECOND, i] > real[FIRST, i] + slack else 0
            value += real[SECOND, i] if integer[CHOSEN, i] == 1 else real[FIRST, i]
    return value


@njit_no_refcount
def _max_cut_set_general(n: int, label: int, slack: float, work: PenaltyWorkspace) -> float:
    """General graph: Q is the source side of a minimum cut, from positive gains (sources) to negative ones (sinks)."""
    real, integer = work.real, work.integer
    flow = GRAPH + real.shape[1]
    for i in range(n):
        real[FIRST, i] = max(real[GAIN, i], 0.0)
        real[SECOND, i] = max(-real[GAIN, i], 0.0)
        for j in range(n):
            real[flow + i, j] = real[GRAPH + i, j]
    while True:
        end = _augmenting_path(n, label, slack / (4 * n * n), work)
        if end < 0:
            break
        amount = real[SECOND, end]
        i = end
        while integer[PREVIOUS, i] >= 0:
            amount = min(amount, real[flow + integer[PREVIOUS, i], i])
            i = integer[PREVIOUS, i]
        amount = min(amount, real[FIRST, i])
        real[FIRST, i] -= amount
        real[SECOND, end] -= amount
        i = end
        while integer[PREVIOUS, i] >= 0:
            real[flow + integer[PREVIOUS, i], i] -= amount
            real[flow + i, integer[PREVIOUS, i]] += amount
            i = integer[PREVIOUS, i]
    value = 0.0
    for i in range(n):
        integer[CHOSEN, i] = 1 if integer[LABEL, i] == label and integer[PREVIOUS, i] >= -1 else 0
    for i in range(n):
        if integer[CHOSEN, i] == 1:
            value += real[GAIN, i]
            for j in range(n):
                if integer[CHOSEN, j] == 0 and integer[LABEL, j] == label:
                    value -= real[GRAPH + i, j]
    if value <= slack:
        for i in range(n):
            integer[CHOSEN, i] = 0
        return 0.0
    return value


@njit_no_refcount
def _augmenting_path(n: int, label: int, tiny: float, work: PenaltyWorkspace) -> int:
    """Sink at the end of a shortest augmenting path, or -1. Row PREVIOUS: -1 at sources, -2 if not reachable."""
    real, integer = work.real, work.integer
    flow = GRAPH + real.shape[1]
    head = 0
    tail = 0
    for i in range(n):
        integer[PREVIOUS, i] = -2
        if integer[LABEL, i] == label and real[FIRST, i] > tiny:
            integer[PREVIOUS, i] = -1
            integer[QUEUE, tail] = i
            tail += 1
    while head < tail:
        i = integer[QUEUE, head]
        head += 1
        if real[SECOND, i] > tiny:
            return i
        for j in range(n):
            if integer[LABEL, j] == label and integer[PREVIOUS, j] == -2 and real[flow + i, j] > tiny:
                integer[PREVIOUS, j] = i
                integer[QUEUE, tail] = j
                tail += 1
    return -1


@njit_no_refcount
def split_at_cut(shape: int, n: int, label: int, work: PenaltyWorkspace) -> None:
    """Subtract from row SHIFTED the derivative of the cut between the chosen classes, the higher level, and the others.

    Only classes with this label count.
    """
    real, integer = work.real, work.integer
    if shape == COMPLETE:
        high = 0.0
        low = 0.0
        for i in range(n):
            if integer[LABEL, i] == label:
                if integer[CHOSEN, i] == 1:
                    high += real[MASS, i]
                else:
                    low += real[MASS, i]
        for i in range(n):
            if integer[LABEL, i] == label:
                real[SHIFTED, i] += -real[MASS, i] * low if integer[CHOSEN, i] == 1 else real[MASS, i] * high
    elif shape == FOREST:
        for i in range(n):
            parent = integer[PARENT, i]
            if integer[LABEL, i] == label and parent >= 0 and integer[LABEL, parent] == label:
                step = (integer[CHOSEN, i] - integer[CHOSEN, parent]) * real[MASS, i]
                real[SHIFTED, i] -= step
                real[SHIFTED, parent] += step
    else:
        for i in range(n):
            for j in range(n):
                if integer[LABEL, i] == label and integer[LABEL, j] == label:
                    real[SHIFTED, i] -= (integer[CHOSEN, i] - integer[CHOSEN, j]) * real[GRAPH + i, j]


@njit_no_refcount
def outside(shape: int, n: int, u: FloatArray, factor: float, slack: float, work: PenaltyWorkspace) -> bool:
    """Whether a set has ``factor |u(Q)| > l1(Q) + cut(Q) + slack``; the most violated one is then chosen."""
    real, integer = work.real, work.integer
    for side in range(2):
        sign = (1.0 - 2.0 * side) * factor
        for i in range(n):
            integer[LABEL, i] = 1
            real[GAIN, i] = sign * u[i] - real[L1, i]
        if max_cut_set(shape, n, ALL, slack, work) > slack:
            return True
    return False
