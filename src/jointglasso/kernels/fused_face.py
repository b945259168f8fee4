"""Which face of the fused penalty the minimiser of a pair lies on: a guess is far cheaper to check than to find.

On a face the signs of the values and of their differences are fixed: the minimiser is a mean in each cluster of equal
values. It is the minimiser over all if signs and order come out as assumed, and if in no cluster a set of classes wants
to leave: ``rest(Q) <= cut(Q)`` for all of its sets Q, where a cluster at zero has its l1 weight besides to hold it.
"""

from __future__ import annotations

from typing import NamedTuple

from jointglasso._typing import FloatArray, IntArray
from jointglasso.kernels.best_sets import Graph, best, graph_of, held_l1
from jointglasso.kernels.cache import leaf
from jointglasso.kernels.pair_types import COMPLETE, FOREST, GENERAL, FusedPair, Held, Work


class Guess(NamedTuple):
    """A guess at the face of a pair, class by class."""

    x: FloatArray
    """Values that have its signs and clusters."""
    level: FloatArray
    """Mean of the cluster of each class: what the minimiser on the face is."""
    rest: FloatArray
    """What wants to leave the cluster."""
    l1: FloatArray
    """What holds a class at zero besides."""


@leaf(forceinline=True)
def stays_on_face(
    penalty: FusedPair,
    a: FloatArray,
    b: FloatArray,
    pair: Held,
    slack: float,
    x: FloatArray,
    work: Work,
) -> bool:
    """Whether the minimiser of ``sum a x^2 / 2 - b x + v phi`` has the signs and clusters of x; then write it there.

    In graphs that are neither complete nor forests, clusters of several classes are not looked into: no answer.
    """
    K, (cls, n, v), (room, iroom) = penalty.l1.shape[0], pair, work
    rest, l1, level = room[:n], room[K : K + n], room[2 * K : 2 * K + n]
    weight, total = room[3 * K : 3 * K + n], room[4 * K : 4 * K + n]
    root, place = iroom[:n], iroom[K : 2 * K]
    for at in range(n):
        l1[at] = v * held_l1(penalty, cls, n, at)
        rest[at] = b[at] - (l1[at] if x[at] > 0.0 else -l1[at] if x[at] < 0.0 else 0.0)
        weight[at] = 0.0
        total[at] = 0.0
        root[at] = at
    if penalty.shape == FOREST:
        _find_places(cls, n, place)
        _pull_in_forest(penalty, v, x, place, rest, root)
    else:
        _pull_in_graph(penalty, pair, x, rest, root)
    for at in range(n):
        weight[root[at]] += a[at]
        total[root[at]] += rest[at]
    for at in range(n):
        level[at] = total[root[at]] / weight[root[at]] if x[at] != 0.0 else 0.0
        if level[at] * x[at] <= 0.0 and x[at] != 0.0:
            return False
        rest[at] -= a[at] * level[at]
    if penalty.shape == FOREST:
        held = _held_in_forest(penalty, v, slack, Guess(x, level, rest, l1), place, room[5 * K :])
    else:
        held = _held_in_graph(penalty, pair, slack, Guess(x, level, rest, l1), root, iroom[2 * K :])
    if held:
        for at in range(n):
            x[at] = level[at]
    return held


@leaf
def stays_zero(penalty: FusedPair, u: FloatArray, l1: FloatArray, pair: Held, slack: float, work: Work) -> bool:
    """Whether no set Q has ``|u(Q)| > l1(Q) + cut(Q) + slack``, for weights l1 >= 0 kept at the end of `work`."""
    K, (cls, n, v), (room, iroom) = penalty.l1.shape[0], pair, work
    if penalty.shape == GENERAL:
        graph = graph_of(penalty, pair, work)
        for at in range(n):
            graph.l1[at] = l1[at]
        return not outside(graph, u, 1.0, slack)
    if penalty.shape == FOREST:
        zero, place = room[:n], iroom[:K]
        for at in range(n):
            zero[at] = 0.0
        _find_places(cls, n, place)
        return _held_in_forest(penalty, v, slack, Guess(zero, zero, u, l1), place, room[K:])
    order = iroom[:n]
    for half in range(2):
        for at in range(n):
            order[at] = at
        if not _beginnings_held(penalty, pair, slack, 1.0 - 2.0 * half, True, u, l1, order):
            return False
    return True


@leaf
def held_weights(penalty: FusedPair, pair: Held, l1: FloatArray) -> None:
    """Write the l1 weights of the classes that hold the pair, the pull of the others included."""
    cls, n, v = pair
    for at in range(n):
        l1[at] = v * held_l1(penalty, cls, n, at)


@leaf
def outside(graph: Graph, u: FloatArray, factor: float, slack: float) -> bool:
    """Whether some set has ``factor * |u(Q)| > l1(Q) + cut(Q)``; the worst one found is then chosen."""
    for half in range(2):
        sign = (1.0 - 2.0 * half) * factor
        for at in range(graph.n):
            graph.label[at] = 1
            graph.gain[at] = sign * u[at] - graph.l1[at]
        if best(graph, graph.gain, 1, slack) > slack:
            return True
    return False


@leaf
def _find_places(cls: IntArray, n: int, place: IntArray) -> None:
    """Where each class is among those that hold the pair, or -1."""
    place[:] = -1
    for at in range(n):
        place[cls[at]] = at


@leaf
def _pull_in_forest(
    penalty: FusedPair, v: float, x: FloatArray, place: IntArray, rest: FloatArray, root: IntArray
) -> None:
    """Take from `rest` the pull between different values, and give equal neighbours one root."""
    for k in penalty.order:
        at = place[k]
        up = place[penalty.parent[k]] if penalty.parent[k] >= 0 else -1
        if at >= 0 and up >= 0:
            if x[at] == x[up]:
                root[at] = root[up]
            else:
                pull = v * penalty.ties[k, penalty.parent[k]]
                pull = pull if x[at] > x[up] else -pull
                rest[at] -= pull
                rest[up] += pull


@leaf
def _held_in_forest(
    penalty: FusedPair, v: float, slack: float, guess: Guess, place: IntArray, room: FloatArray
) -> bool:
    """Whether the order of the levels is that of x, and the ties inside the clusters can carry what is left.

    From the leaves up, each class may hand on an interval of flow: one number, unless its l1 weight takes some at zero.
    """
    x, level, rest, l1 = guess
    n = l1.shape[0]
    low, high = room[:n], room[n : 2 * n]
    for at in range(n):
        free = l1[at] if x[at] == 0.0 else 0.0
        low[at] = rest[at] - free
        high[at] = rest[at] + free
    for step in range(penalty.order.shape[0] - 1, -1, -1):
        k = penalty.order[step]
        at = place[k]
        if at < 0:
            continue
        up = place[penalty.parent[k]] if penalty.parent[k] >= 0 else -1
        tie = 0.0
        if up >= 0:
            if x[at] == x[up]:
                tie = v * penalty.ties[k, penalty.parent[k]]
            elif (level[at] - level[up]) * (x[at] - x[up]) <= 0.0:
                return False
        if low[at] > tie + slack or high[at] < -tie - slack:
            return False
        if tie > 0.0:
            low[up] += max(low[at], -tie)
            high[up] += min(high[at], tie)
    return True


@leaf
def _pull_in_graph(penalty: FusedPair, pair: Held, x: FloatArray, rest: FloatArray, root: IntArray) -> None:
    """As `_pull_in_forest`, for any graph."""
    cls, n, v = pair
    for at in range(1, n):
        for other in range(at):
            if x[at] == x[other]:
                root[at] = min(root[at], root[other])
            else:
                pull = v * penalty.ties[cls[at], cls[other]]
                pull = pull if x[at] > x[other] else -pull
                rest[at] -= pull
                rest[other] += pull


@leaf
def _held_in_graph(penalty: FusedPair, pair: Held, slack: float, guess: Guess, root: IntArray, order: IntArray) -> bool:
    """As `_held_in_forest`, where all classes are tied, and in other graphs for clusters of a few classes."""
    cls, n = pair.cls, pair.n
    x, level, rest, l1 = guess
    for at in range(1, n):
        for other in range(at):
            turned = x[at] != x[other] and (level[at] - level[other]) * (x[at] - x[other]) <= 0.0
            if turned and penalty.ties[cls[at], cls[other]] > 0.0:
                return False
    for first in range(n):
        if root[first] != first:
            continue
        size = 0
        loose = x[first] == 0.0
        for at in range(first, n):
            if root[at] == first:
                order[size] = at
                size += 1
                loose = loose and abs(rest[at]) <= l1[at]
        if loose or (size == 1 and x[first] != 0.0):
            continue
        if penalty.shape != COMPLETE:
            return False
        signs = 2 if x[first] == 0.0 else 1
        for half in range(signs):
            sign = 1.0 - 2.0 * half
            if not _beginnings_held(penalty, pair, slack, sign, signs == 2, rest, l1, order[:size]):
                return False
    return True


@leaf
def _beginnings_held(
    penalty: FusedPair,
    pair: Held,
    slack: float,
    sign: float,
    at_zero: bool,
    rest: FloatArray,
    l1: FloatArray,
    order: IntArray,
) -> bool:
    """Complete graph: whether no set of a cluster wants to leave upwards; the worst are beginnings by gain per mass."""
    size, cls, v = order.shape[0], pair.cls, pair.v
    whole = 0.0
    for slot in range(size):
        at = order[slot]
        mass = penalty.mass[cls[at]]
        whole += mass
        gain = sign * rest[at] - (l1[at] if at_zero else 0.0)
        before = slot
        while before > 0:
            other = order[before - 1]
            its = sign * rest[other] - (l1[other] if at_zero else 0.0)
            if its * mass >= gain * penalty.mass[cls[other]]:
                break
            order[before] = other
            before -= 1
        order[before] = at
    gained = 0.0
    mass = 0.0
    for slot in range(size):
        at = order[slot]
        gained += sign * rest[at] - (l1[at] if at_zero else 0.0)
        mass += penalty.mass[cls[at]]
        if gained > v * mass * max(whole - mass, 0.0) + slack:
            return False
    return True
