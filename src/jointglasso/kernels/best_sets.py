"""Best sets of classes: what every question about a fused penalty comes down to.

For gains m_k on some classes C the best set is the smallest Q that maximises ``m(Q) - cut_C(Q)``, cut_C(Q) being the
ties between Q and the rest of C. Level sets of the minimiser of a separable convex function plus the penalty are such
sets, and so are the tests of its dual ball. A sort finds them where all classes are tied, a recursion over two states
where the ties form a chain, tree or forest, and a maximal flow in any other graph.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from jointglasso._typing import FloatArray, IntArray
from jointglasso.kernels.cache import leaf
from jointglasso.kernels.pair_types import COMPLETE, FOREST, GENERAL, FusedPair, Held, Work


class Graph(NamedTuple):
    """The graph of the classes that hold one pair, numbered as there, and room to find best sets in it."""

    shape: int
    n: int
    l1: FloatArray
    """l1 weight, the pull of the cut classes included."""
    ties: FloatArray
    mass: FloatArray
    parent: IntArray
    order: IntArray
    flow: FloatArray
    first: FloatArray
    second: FloatArray
    queue: IntArray
    previous: IntArray
    gain: FloatArray
    shifted: FloatArray
    label: IntArray
    chosen: IntArray


@leaf
def graph_of(penalty: FusedPair, pair: Held, work: Work) -> Graph:
    """The graph of the classes that hold a pair."""
    n, room, iroom = pair.n, work.real, work.whole
    K = penalty.l1.shape[0]
    full = K * K
    graph = Graph(
        penalty.shape,
        n,
        room[2 * full : 2 * full + n],
        room[: n * n].reshape(n, n),
        room[2 * full + K : 2 * full + K + n],
        iroom[:n],
        iroom[K : K + n],
        room[full : full + n * n].reshape(n, n),
        room[2 * full + 2 * K : 2 * full + 2 * K + n],
        room[2 * full + 3 * K : 2 * full + 3 * K + n],
        iroom[2 * K : 2 * K + n],
        iroom[3 * K : 3 * K + n],
        room[2 * full + 4 * K : 2 * full + 4 * K + n],
        room[2 * full + 5 * K : 2 * full + 5 * K + n],
        iroom[4 * K : 4 * K + n],
        iroom[5 * K : 5 * K + n],
    )
    _restrict(penalty, pair, graph, iroom[6 * K : 7 * K])
    return graph


@leaf
def _restrict(penalty: FusedPair, pair: Held, graph: Graph, place: IntArray) -> None:
    cls, n, v = pair
    K = penalty.l1.shape[0]
    for k in range(K):
        place[k] = -1
    for at in range(n):
        place[cls[at]] = at
    for at in range(n):
        graph.l1[at] = v * held_l1(penalty, cls, n, at)
    if penalty.shape == GENERAL:
        for at in range(n):
            for other in range(n):
                graph.ties[at, other] = v * penalty.ties[cls[at], cls[other]]
    elif penalty.shape == COMPLETE:
        for at in range(n):
            graph.mass[at] = np.sqrt(v) * penalty.mass[cls[at]]
    else:
        count = 0
        for step in range(K):
            at = place[penalty.order[step]]
            if at >= 0:
                graph.order[count] = at
                count += 1
                up = penalty.parent[cls[at]]
                graph.parent[at] = place[up] if up >= 0 else -1
                # `mass` holds the tie to the parent.
                graph.mass[at] = v * penalty.ties[cls[at], up] if up >= 0 else 0.0


@leaf
def held_l1(penalty: FusedPair, cls: IntArray, n: int, at: int) -> float:
    """Weight of |t| in the class ``cls[at]``: its own, and its ties to the classes that are cut."""
    k = cls[at]
    total = penalty.l1[k]
    if n < penalty.l1.shape[0]:
        following = 0
        for other in range(penalty.l1.shape[0]):
            if following < n and cls[following] == other:
                following += 1
            else:
                total += penalty.ties[k, other]
    return total


@leaf
def best(graph: Graph, gain: FloatArray, piece: int, slack: float) -> float:
    """Mark in ``graph.chosen`` the smallest set of the classes labelled `piece` that maximises its gain less its cut.

    Sets that gain no more than `slack` count as empty.
    """
    for at in range(graph.n):
        graph.chosen[at] = 0
    if graph.shape == COMPLETE:
        return _best_by_sorting(graph, gain, piece, slack)
    if graph.shape == FOREST:
        return _best_in_forest(graph, gain, piece, slack)
    return _best_by_flow(graph, gain, piece, slack)


@leaf
def _best_by_sorting(graph: Graph, gain: FloatArray, piece: int, slack: float) -> float:
    """All classes tied by products of masses: the best set is a beginning of the order by gain per mass."""
    count = 0
    total = 0.0
    for at in range(graph.n):
        if graph.label[at] != piece:
            continue
        total += graph.mass[at]
        if graph.mass[at] > 0.0:
            graph.first[at] = gain[at] / graph.mass[at]
        else:  # tied to nothing, as all classes of an unpenalised pair are
            graph.first[at] = np.inf if gain[at] > 0.0 else -np.inf
        slot = count
        while slot > 0 and graph.first[graph.queue[slot - 1]] < graph.first[at]:
            graph.queue[slot] = graph.queue[slot - 1]
            slot -= 1
        graph.queue[slot] = at
        count += 1
    highest = 0.0
    size = 0
    gained = 0.0
    mass = 0.0
    for taken in range(count):
        at = graph.queue[taken]
        gained += gain[at]
        mass += graph.mass[at]
        value = gained - mass * (total - mass) if taken < count - 1 else gained
        if value > highest + slack:
            highest = value
            size = taken + 1
    for taken in range(size):
        graph.chosen[graph.queue[taken]] = 1
    return highest


@leaf
def _best_in_forest(graph: Graph, gain: FloatArray, piece: int, slack: float) -> float:
    """Forests: the best value of each subtree without and with its root, from the leaves up; then the choice down."""
    out = graph.first
    within = graph.second
    for at in range(graph.n):
        out[at] = 0.0
        within[at] = gain[at]
    for step in range(graph.n - 1, -1, -1):
        at = graph.order[step]
        up = graph.parent[at]
        if graph.label[at] == piece and up >= 0 and graph.label[up] == piece:
            out[up] += max(out[at], within[at] - graph.mass[at])
            within[up] += max(within[at], out[at] - graph.mass[at])
    value = 0.0
    for step in range(graph.n):
        at = graph.order[step]
        if graph.label[at] != piece:
            continue
        up = graph.parent[at]
        if up >= 0 and graph.label[up] == piece:
            tie = graph.mass[at] if graph.chosen[up] == 1 else -graph.mass[at]
            graph.chosen[at] = 1 if within[at] + tie > out[at] + slack else 0
        else:
            graph.chosen[at] = 1 if within[at] > out[at] + slack else 0
            value += within[at] if graph.chosen[at] == 1 else out[at]
    return value


@leaf
def _best_by_flow(graph: Graph, gain: FloatArray, piece: int, slack: float) -> float:
    """Any graph: the classes that a maximal flow from positive to negative gains leaves within reach of a source."""
    left = graph.first
    wanted = graph.second
    tiny = slack / (4 * graph.n * graph.n)
    for at in range(graph.n):
        left[at] = max(gain[at], 0.0)
        wanted[at] = max(-gain[at], 0.0)
        for other in range(graph.n):
            graph.flow[at, other] = graph.ties[at, other]
    while True:
        end = _reach(graph, piece, tiny)
        if end < 0:
            break
        _push(graph, end)
    value = 0.0
    for at in range(graph.n):
        graph.chosen[at] = 1 if graph.label[at] == piece and graph.previous[at] >= -1 else 0
    for at in range(graph.n):
        if graph.chosen[at] == 1:
            value += gain[at]
            for other in range(graph.n):
                if graph.chosen[other] == 0 and graph.label[other] == piece:
                    value -= graph.ties[at, other]
    if value <= slack:
        for at in range(graph.n):
            graph.chosen[at] = 0
        return 0.0
    return value


@leaf
def _reach(graph: Graph, piece: int, tiny: float) -> int:
    """First class in reach of a source that wants flow, or -1; ``previous`` is -2 out of reach and -1 at a source."""
    head = 0
    tail = 0
    for at in range(graph.n):
        graph.previous[at] = -2
        if graph.label[at] == piece and graph.first[at] > tiny:
            graph.previous[at] = -1
            graph.queue[tail] = at
            tail += 1
    while head < tail:
        at = graph.queue[head]
        head += 1
        if graph.second[at] > tiny:
            return at
        for other in range(graph.n):
            if graph.label[other] == piece and graph.previous[other] == -2 and graph.flow[at, other] > tiny:
                graph.previous[other] = at
                graph.queue[tail] = other
                tail += 1
    return -1


@leaf
def _push(graph: Graph, end: int) -> None:
    """Send as much as the path that `_reach` found to `end` takes."""
    amount = graph.second[end]
    at = end
    while graph.previous[at] >= 0:
        amount = min(amount, graph.flow[graph.previous[at], at])
        at = graph.previous[at]
    amount = min(amount, graph.first[at])
    graph.first[at] -= amount
    graph.second[end] -= amount
    at = end
    while graph.previous[at] >= 0:
        graph.flow[graph.previous[at], at] -= amount
        graph.flow[at, graph.previous[at]] += amount
        at = graph.previous[at]


@leaf
def part(graph: Graph, piece: int, values: FloatArray) -> None:
    """Add to `values` the pull of the ties between the chosen classes of a piece, which lie higher, and its others."""
    if graph.shape == COMPLETE:
        high = 0.0
        low = 0.0
        for at in range(graph.n):
            if graph.label[at] == piece:
                if graph.chosen[at] == 1:
                    high += graph.mass[at]
                else:
                    low += graph.mass[at]
        for at in range(graph.n):
            if graph.label[at] == piece:
                values[at] += -graph.mass[at] * low if graph.chosen[at] == 1 else graph.mass[at] * high
    elif graph.shape == FOREST:
        for at in range(graph.n):
            up = graph.parent[at]
            if graph.label[at] == piece and up >= 0 and graph.label[up] == piece:
                step = (graph.chosen[at] - graph.chosen[up]) * graph.mass[at]
                values[at] -= step
                values[up] += step
    else:
        for at in range(graph.n):
            for other in range(graph.n):
                if graph.label[at] == piece and graph.label[other] == piece:
                    values[at] -= (graph.chosen[at] - graph.chosen[other]) * graph.ties[at, other]
