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
def _split_level_sets(graph: Graph, a: FloatArray, sign: float, slack: float, x: FloatArray) -> None:
    """Minimise ``sum a x^2 / 2 - shifted x`` plus the ties over the classes labelled 1; write `sign` times that.

    A piece gets one value, unless a part of it wants a higher one: then it falls in two.
    """
    label = 1
    n_labels = 1
    while label <= n_labels:
        weight = 0.0
        total = 0.0
        size = 0
        for i in range(graph.n):
            if graph.label[i] == label:
                weight += a[i]
                total += graph.shifted[i]
                size += 1
        level = total / weight
        for i in range(graph.n):
            graph.gain[i] = graph.shifted[i] - a[i] * level
        n_chosen = 0
        if size > 1 and best(graph, graph.gain, label, slack) > slack:
            for i in range(graph.n):
                n_chosen += graph.chosen[i]
        if n_chosen == 0 or n_chosen == size:
            for i in range(graph.n):
                if graph.label[i] == label:
                    x[i] = sign * level
            label += 1
        else:
            part(graph, label, graph.shifted)
            n_labels += 1
            for i in range(graph.n):
                if graph.chosen[i] == 1:
                    graph.label[i] = n_labels


@leaf
def _minimise_over_labelled(graph: Graph, a: FloatArray, b: FloatArray, slack: float, x: FloatArray) -> None:
    """Minimise ``sum a x^2 / 2 - b x + phi`` over the classes labelled 1: those above zero, those below, the rest zero.

    Labels are 0 and 1 before and afterwards.
    """
    for i in range(graph.n):
        if graph.label[i] == 1:
            x[i] = 0.0
        graph.label[i] = -graph.label[i]
    for half in range(2):
        sign = 1.0 - 2.0 * half
        for i in range(graph.n):
            graph.label[i] = 1 if graph.label[i] != 0 else 0
            graph.shifted[i] = sign * b[i] - graph.l1[i]
        if best(graph, graph.shifted, 1, slack) > slack:
            part(graph, 1, graph.shifted)
            for i in range(graph.n):
                graph.label[i] = (1 if graph.chosen[i] == 1 else -1) if graph.label[i] == 1 else 0
            _split_level_sets(graph, a, sign, slack, x)
    for i in range(graph.n):
        graph.label[i] = 1 if graph.label[i] != 0 else 0


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
    below_threshold = True
    scale = 0.0
    for i in range(n):
        below_threshold = below_threshold and abs(b[i]) <= v * penalty.l1[cls[i]]
        scale += abs(b[i])
    if below_threshold:
        for i in range(n):
            out[i] = 0.0
    elif n <= 2:
        if n == 1:
            out[0] = _soft(b[0], v * held_l1(penalty, cls, 1, 0)) / a[0]
        else:
            _update_two_classes(penalty, a, b, cls, v, out)
        for i in range(n):
            if abs(out[i]) * a[i] <= SLACK * scale:
                out[i] = 0.0
    elif not stays_on_face(penalty, a, b, pair, SLACK * scale, out, work):
        graph = graph_of(penalty, pair, work)
        for i in range(n):
            graph.label[i] = 1
        _minimise_over_labelled(graph, a, b, SLACK * scale, out)


@leaf
def _update_two_classes(
    penalty: FusedPair, a: FloatArray, b: FloatArray, cls: IntArray, v: float, out: FloatArray
) -> None:
    """Two classes: the first above, the second above, or both alike."""
    l1_first = v * held_l1(penalty, cls, 2, 0)
    l1_second = v * held_l1(penalty, cls, 2, 1)
    edge_weight = v * penalty.ties[cls[0], cls[1]]
    for side in range(2):
        shift = edge_weight if side == 0 else -edge_weight
        first = _soft(b[0] - shift, l1_first) / a[0]
        second = _soft(b[1] + shift, l1_second) / a[1]
        if (side == 0 and first > second) or (side == 1 and first < second):
            out[0] = first
            out[1] = second
            return
    out[0] = _soft(b[0] + b[1], l1_first + l1_second) / (a[0] + a[1])
    out[1] = out[0]


# The penalty, its dual ball and its subgradients


@leaf
def value(penalty: FusedPair, theta: FloatArray, pair: Held) -> float:
    """``v phi`` of the values in the classes that hold the pair, zero in the others."""
    cls, n, v = pair
    total = 0.0
    for i in range(n):
        total += held_l1(penalty, cls, n, i) * abs(theta[i])
        for j in range(i):
            total += penalty.ties[cls[i], cls[j]] * abs(theta[i] - theta[j])
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
    below_threshold = True
    scale = 0.0
    for i in range(n):
        below_threshold = below_threshold and abs(u[i]) <= v * penalty.l1[cls[i]]
        scale += abs(u[i])
    if below_threshold:
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
    for i in range(n):
        graph.label[i] = 1
        scale += abs(u[i])
    if scale == 0.0:
        return 0.0
    ratio = 0.0
    for i in range(n):
        for j in range(n):
            graph.chosen[j] = 1 if j == i else 0
        ratio = max(ratio, _set_ratio(graph, u))
    for j in range(n):
        graph.chosen[j] = 1
    ratio = max(ratio, _set_ratio(graph, u))
    while ratio < np.inf and outside(graph, u, 1.0 / ratio, SLACK * scale / ratio):
        higher = _set_ratio(graph, u)
        if higher <= ratio:
            break
        ratio = higher
    return ratio


@leaf
def _set_ratio(graph: Graph, u: FloatArray) -> float:
    """``|u(Q)| / (l1(Q) + cut(Q))`` of the chosen set."""
    total = 0.0
    weight = 0.0
    for i in range(graph.n):
        graph.gain[i] = 0.0
    part(graph, 1, graph.gain)
    for i in range(graph.n):
        if graph.chosen[i] == 1:
            total += u[i]
            weight += graph.l1[i] - graph.gain[i]
    if total == 0.0:
        return 0.0
    return abs(total) / weight if weight > 0.0 else np.inf


@leaf
def subgradient(
    penalty: FusedPair, theta: FloatArray, target: FloatArray, a: FloatArray, pair: Held, out: FloatArray, work: Work
) -> None:
    """Write the subgradient of ``v phi`` at `theta` nearest to `target` in the metric 1/a.

    Between different values the ties pull with all they have. What is left of `target` is projected cluster by
    cluster: the residual of the projection minimises a penalty of the cluster alone (Moreau).
    """
    n = pair.n
    nonzero = False
    for i in range(n):
        nonzero = nonzero or theta[i] != 0.0
        out[i] = target[i]
    if not nonzero and inside(penalty, target, pair, work):
        return
    K = penalty.l1.shape[0]
    slope(penalty, theta, pair, out)
    graph = graph_of(penalty, pair, work)
    residual = work.real[2 * K * K + 6 * K : 2 * K * K + 6 * K + n]
    x = work.real[2 * K * K + 7 * K : 2 * K * K + 7 * K + n]
    scale = 0.0
    for i in range(n):
        scale += abs(target[i]) + abs(out[i])
        residual[i] = target[i] - out[i]
    for i in range(n):
        size = 0
        is_repeated = False
        for j in range(n):
            graph.label[j] = 1 if theta[j] == theta[i] else 0
            size += graph.label[j]
            is_repeated = is_repeated or (j < i and graph.label[j] == 1)
        if is_repeated or (size == 1 and theta[i] != 0.0):
            continue
        if theta[i] == 0.0:
            _minimise_over_labelled(graph, a, residual, SLACK * scale, x)
        else:
            for j in range(n):
                graph.shifted[j] = residual[j]
            _split_level_sets(graph, a, 1.0, SLACK * scale, x)
        for j in range(n):
            if theta[j] == theta[i]:
                out[j] += residual[j] - a[j] * x[j]


@leaf
def slope(penalty: FusedPair, theta: FloatArray, pair: Held, out: FloatArray) -> None:
    """Write the part of the subgradients at `theta` that is the same in all: the signs of values and differences.

    It is the slope of ``v phi`` on the face of `theta`, where zeros stay zero and equal values equal.
    """
    cls, n, v = pair
    for i in range(n):
        out[i] = v * held_l1(penalty, cls, n, i) * np.sign(theta[i])
        for j in range(n):
            if theta[j] != theta[i]:
                out[i] += v * penalty.ties[cls[i], cls[j]] * np.sign(theta[i] - theta[j])


@leaf
def clusters(penalty: FusedPair, theta: FloatArray, pair: Held, out: IntArray) -> int:
    """Number the non-zero clusters of a pair, tied classes of equal value, and return how many; -1 at zeros."""
    cls, n = pair.cls, pair.n
    count = 0
    for i in range(n):
        out[i] = -1
    for root in range(n):
        if theta[root] == 0.0 or out[root] >= 0:
            continue
        out[root] = count
        grown = True
        while grown:
            grown = False
            for i in range(n):
                if out[i] < 0 and theta[i] == theta[root]:
                    for j in range(n):
                        if out[j] == count and penalty.ties[cls[i], cls[j]] > 0.0:
                            out[i] = count
                            grown = True
                            break
        count += 1
    return count


@leaf
def bend(penalty: FusedPair, theta: FloatArray, pair: Held, step: FloatArray, out: FloatArray) -> None:
    """Add nothing: the penalty is linear on a face."""
