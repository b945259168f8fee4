"""The fused penalty of one pair: ``phi(t) = sum_k l1_k |t_k| + sum_{k<l} ties_kl |t_k - t_l|``, any graph of classes.

One pair is given by the classes that hold it: ``cls[:n]``, ascending. The others are cut: their value is zero and they
pull through their ties, which is more l1 weight for the classes that hold the pair. `v` multiplies the whole penalty.
The two arrays of `Work` have `room(K)` numbers each.
"""

from __future__ import annotations

import numpy as np

from jointglasso._typing import FloatArray, IntArray
from jointglasso.kernels.best_sets import Graph, best, graph_of, held_l1, part
from jointglasso.kernels.cache import leaf
from jointglasso.kernels.fused_face import held_weights, outside, stays_on_face, stays_zero
from jointglasso.kernels.pair_types import FusedPair, Held, Work

#: Gains below this share of the data are rounding: they neither move a class off zero nor away from its neighbours.
SLACK = 1e-14

#: The penalty of t times a positive number is that number times the penalty of t.
HOMOGENEOUS = True


def room(n_classes: int) -> int:
    """Length of each of the two work arrays."""
    return 2 * n_classes * n_classes + 9 * n_classes


@leaf
def _split(graph: Graph, a: FloatArray, sign: float, slack: float, x: FloatArray) -> None:
    """Minimise ``sum a x^2 / 2 - shifted x`` plus the ties over the classes labelled 1; write `sign` times that.

    A piece gets one value, unless a part of it wants a higher one: then it falls in two.
    """
    piece = 1
    n_pieces = 1
    while piece <= n_pieces:
        weight = 0.0
        total = 0.0
        size = 0
        for at in range(graph.n):
            if graph.label[at] == piece:
                weight += a[at]
                total += graph.shifted[at]
                size += 1
        level = total / weight
        for at in range(graph.n):
            graph.gain[at] = graph.shifted[at] - a[at] * level
        n_chosen = 0
        if size > 1 and best(graph, graph.gain, piece, slack) > slack:
            for at in range(graph.n):
                n_chosen += graph.chosen[at]
        if n_chosen == 0 or n_chosen == size:
            for at in range(graph.n):
                if graph.label[at] == piece:
                    x[at] = sign * level
            piece += 1
        else:
            part(graph, piece, graph.shifted)
            n_pieces += 1
            for at in range(graph.n):
                if graph.chosen[at] == 1:
                    graph.label[at] = n_pieces


@leaf
def _minimise(graph: Graph, a: FloatArray, b: FloatArray, slack: float, x: FloatArray) -> None:
    """Minimise ``sum a x^2 / 2 - b x + phi`` over the classes labelled 1: those above zero, those below, the rest zero.

    Labels are 0 and 1 before and afterwards.
    """
    for at in range(graph.n):
        if graph.label[at] == 1:
            x[at] = 0.0
        graph.label[at] = -graph.label[at]
    for half in range(2):
        sign = 1.0 - 2.0 * half
        for at in range(graph.n):
            graph.label[at] = 1 if graph.label[at] != 0 else 0
            graph.shifted[at] = sign * b[at] - graph.l1[at]
        if best(graph, graph.shifted, 1, slack) > slack:
            part(graph, 1, graph.shifted)
            for at in range(graph.n):
                graph.label[at] = (1 if graph.chosen[at] == 1 else -1) if graph.label[at] == 1 else 0
            _split(graph, a, sign, slack, x)
    for at in range(graph.n):
        graph.label[at] = 1 if graph.label[at] != 0 else 0


@leaf
def _soft(value: float, threshold: float) -> float:
    if value > threshold:
        return value - threshold
    if value < -threshold:
        return value + threshold
    return 0.0


@leaf(forceinline=True)
def update(penalty: FusedPair, a: FloatArray, b: FloatArray, pair: Held, out: FloatArray, work: Work) -> None:
    """Write the minimiser of ``sum_k a_k x_k^2 / 2 - b_k x_k + v phi(x)``, a > 0; `out` holds a guess at its face."""
    cls, n, v = pair
    small = True
    scale = 0.0
    for at in range(n):
        small = small and abs(b[at]) <= v * penalty.l1[cls[at]]
        scale += abs(b[at])
    if small:
        for at in range(n):
            out[at] = 0.0
    elif n <= 2:
        if n == 1:
            out[0] = _soft(b[0], v * held_l1(penalty, cls, 1, 0)) / a[0]
        else:
            _update_two(penalty, a, b, cls, v, out)
        for at in range(n):
            if abs(out[at]) * a[at] <= SLACK * scale:
                out[at] = 0.0
    elif not stays_on_face(penalty, a, b, pair, SLACK * scale, out, work):
        graph = graph_of(penalty, pair, work)
        for at in range(n):
            graph.label[at] = 1
        _minimise(graph, a, b, SLACK * scale, out)


@leaf
def _update_two(penalty: FusedPair, a: FloatArray, b: FloatArray, cls: IntArray, v: float, out: FloatArray) -> None:
    """Two classes: the first above, the second above, or both alike."""
    l1 = v * held_l1(penalty, cls, 2, 0)
    other = v * held_l1(penalty, cls, 2, 1)
    tie = v * penalty.ties[cls[0], cls[1]]
    for half in range(2):
        pull = tie if half == 0 else -tie
        one = _soft(b[0] - pull, l1) / a[0]
        two = _soft(b[1] + pull, other) / a[1]
        if (half == 0 and one > two) or (half == 1 and one < two):
            out[0] = one
            out[1] = two
            return
    out[0] = _soft(b[0] + b[1], l1 + other) / (a[0] + a[1])
    out[1] = out[0]


# The penalty, its dual ball and its subgradients


@leaf
def value(penalty: FusedPair, theta: FloatArray, pair: Held) -> float:
    """``v phi`` of the values in the classes that hold the pair, zero in the others."""
    cls, n, v = pair
    total = 0.0
    for at in range(n):
        total += held_l1(penalty, cls, n, at) * abs(theta[at])
        for other in range(at):
            total += penalty.ties[cls[at], cls[other]] * abs(theta[at] - theta[other])
    return v * total


@leaf(forceinline=True)
def threshold(penalty: FusedPair, k: int) -> float:
    """A pair none of whose classes exceeds it, times the weight of the pair, is inside the dual ball."""
    limit: float = penalty.l1[k]
    return limit


@leaf(forceinline=True)
def inside(penalty: FusedPair, u: FloatArray, pair: Held, work: Work) -> bool:
    """Whether `u` is a subgradient of ``v phi`` at zero: no set Q has ``|u(Q)| > l1(Q) + cut(Q)``."""
    cls, n, v = pair
    small = True
    scale = 0.0
    for at in range(n):
        small = small and abs(u[at]) <= v * penalty.l1[cls[at]]
        scale += abs(u[at])
    if small:
        return True
    l1 = work.real[work.real.shape[0] - n :]
    held_weights(penalty, pair, l1)
    return stays_zero(penalty, u, l1, pair, SLACK * scale, work)


@leaf
def gauge(penalty: FusedPair, u: FloatArray, pair: Held, work: Work) -> float:
    """Largest ``|u(Q)| / (l1(Q) + cut(Q))``, by Dinkelbach's method: on to the ratio of the set that exceeds most."""
    n = pair.n
    graph = graph_of(penalty, pair, work)
    scale = 0.0
    for at in range(n):
        graph.label[at] = 1
        scale += abs(u[at])
    if scale == 0.0:
        return 0.0
    ratio = 0.0
    for at in range(n):
        for other in range(n):
            graph.chosen[other] = 1 if other == at else 0
        ratio = max(ratio, _ratio(graph, u))
    for other in range(n):
        graph.chosen[other] = 1
    ratio = max(ratio, _ratio(graph, u))
    while ratio < np.inf and outside(graph, u, 1.0 / ratio, SLACK * scale / ratio):
        higher = _ratio(graph, u)
        if higher <= ratio:
            break
        ratio = higher
    return ratio


@leaf
def _ratio(graph: Graph, u: FloatArray) -> float:
    """``|u(Q)| / (l1(Q) + cut(Q))`` of the chosen set."""
    total = 0.0
    weight = 0.0
    for at in range(graph.n):
        graph.gain[at] = 0.0
    part(graph, 1, graph.gain)
    for at in range(graph.n):
        if graph.chosen[at] == 1:
            total += u[at]
            weight += graph.l1[at] - graph.gain[at]
    if total == 0.0:
        return 0.0
    return abs(total) / weight if weight > 0.0 else np.inf


@leaf
def subgradient(
    penalty: FusedPair, theta: FloatArray, wanted: FloatArray, a: FloatArray, pair: Held, out: FloatArray, work: Work
) -> None:
    """Write the subgradient of ``v phi`` at `theta` nearest to `wanted` in the metric 1/a.

    Between different values the ties pull with all they have. What is left of `wanted` is projected cluster by
    cluster: the residual of the projection minimises a penalty of the cluster alone (Moreau).
    """
    n = pair.n
    nonzero = False
    for at in range(n):
        nonzero = nonzero or theta[at] != 0.0
        out[at] = wanted[at]
    if not nonzero and inside(penalty, wanted, pair, work):
        return
    K = penalty.l1.shape[0]
    slope(penalty, theta, pair, out)
    graph = graph_of(penalty, pair, work)
    rest = work.real[2 * K * K + 6 * K : 2 * K * K + 6 * K + n]
    x = work.real[2 * K * K + 7 * K : 2 * K * K + 7 * K + n]
    scale = 0.0
    for at in range(n):
        scale += abs(wanted[at]) + abs(out[at])
        rest[at] = wanted[at] - out[at]
    for at in range(n):
        size = 0
        seen = False
        for other in range(n):
            graph.label[other] = 1 if theta[other] == theta[at] else 0
            size += graph.label[other]
            seen = seen or (other < at and graph.label[other] == 1)
        if seen or (size == 1 and theta[at] != 0.0):
            continue
        if theta[at] == 0.0:
            _minimise(graph, a, rest, SLACK * scale, x)
        else:
            for other in range(n):
                graph.shifted[other] = rest[other]
            _split(graph, a, 1.0, SLACK * scale, x)
        for other in range(n):
            if theta[other] == theta[at]:
                out[other] += rest[other] - a[other] * x[other]


@leaf
def slope(penalty: FusedPair, theta: FloatArray, pair: Held, out: FloatArray) -> None:
    """Write the part of the subgradients at `theta` that is the same in all: the signs of values and differences.

    It is the slope of ``v phi`` on the face of `theta`, where zeros stay zero and equal values equal.
    """
    cls, n, v = pair
    for at in range(n):
        out[at] = v * held_l1(penalty, cls, n, at) * np.sign(theta[at])
        for other in range(n):
            if theta[other] != theta[at]:
                out[at] += v * penalty.ties[cls[at], cls[other]] * np.sign(theta[at] - theta[other])


@leaf
def clusters(penalty: FusedPair, theta: FloatArray, pair: Held, out: IntArray) -> int:
    """Number the non-zero clusters of a pair, tied classes of equal value, and return how many; -1 at zeros."""
    cls, n = pair.cls, pair.n
    count = 0
    for at in range(n):
        out[at] = -1
    for root in range(n):
        if theta[root] == 0.0 or out[root] >= 0:
            continue
        out[root] = count
        grown = True
        while grown:
            grown = False
            for at in range(n):
                if out[at] < 0 and theta[at] == theta[root]:
                    for other in range(n):
                        if out[other] == count and penalty.ties[cls[at], cls[other]] > 0.0:
                            out[at] = count
                            grown = True
                            break
        count += 1
    return count


@leaf
def bend(penalty: FusedPair, theta: FloatArray, pair: Held, step: FloatArray, out: FloatArray) -> None:
    """Add nothing: the penalty is linear on a face."""
