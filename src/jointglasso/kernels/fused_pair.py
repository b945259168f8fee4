"""Fused penalty of one pair: ``phi(t) = sum_k l1_k |t_k| + sum_{k<l} g_kl |t_k - t_l|``, for any class graph g.

A pair is described by the n classes that contain it, ``cls[:n]``, in ascending order. In the other classes it is
screened out: t_l = 0 there, and the edge g_kl adds to the l1 weight of class k. `v` multiplies the penalty of the pair.
Both workspace arrays have `workspace_size(K)` elements.
"""

from __future__ import annotations

import numpy as np

from jointglasso._typing import FloatArray, IntArray
from jointglasso.kernels.fused_face import class_l1_weights, face_is_optimal, outside, zero_is_optimal
from jointglasso.kernels.jit import njit_no_refcount
from jointglasso.kernels.pair_types import FusedPair, PairClasses, PenaltyWorkspace
from jointglasso.kernels.submodular import Graph, class_l1, graph_of, max_cut_set, split_at_cut

#: Gains below this fraction of the data are rounding errors: they neither make a value non-zero nor split a cluster.
SLACK = 1e-14

#: Positive homogeneity: ``phi(c t) = c phi(t)`` for c > 0.
HOMOGENEOUS = True


def workspace_size(n_classes: int) -> int:
    """Length of each of the two workspace arrays for K classes."""
    return 2 * n_classes * n_classes + 9 * n_classes


@njit_no_refcount
def _split_level_sets(graph: Graph, a: FloatArray, sign: float, slack: float, x: FloatArray) -> None:
    """Minimise ``sum a x^2 / 2 - shifted x`` plus the fused terms over the classes labelled 1; write `sign` times that.

    Divide and conquer over level sets: the classes of a label share their mean, unless a subset has a higher level;
    then the label is split in two.
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
        if size > 1 and max_cut_set(graph, graph.gain, label, slack) > slack:
            for i in range(graph.n):
                n_chosen += graph.chosen[i]
        if n_chosen == 0 or n_chosen == size:
            for i in range(graph.n):
                if graph.label[i] == label:
                    x[i] = sign * level
            label += 1
        else:
            split_at_cut(graph, label, graph.shifted)
            n_labels += 1
            for i in range(graph.n):
                if graph.chosen[i] == 1:
                    graph.label[i] = n_labels


@njit_no_refcount
def _minimise_over_labelled(graph: Graph, a: FloatArray, b: FloatArray, slack: float, x: FloatArray) -> None:
    """Minimise ``sum a x^2 / 2 - b x + phi(x)`` over the classes labelled 1: positive values, negative ones, zeros.

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
        if max_cut_set(graph, graph.shifted, 1, slack) > slack:
            split_at_cut(graph, 1, graph.shifted)
            for i in range(graph.n):
                graph.label[i] = (1 if graph.chosen[i] == 1 else -1) if graph.label[i] == 1 else 0
            _split_level_sets(graph, a, sign, slack, x)
    for i in range(graph.n):
        graph.label[i] = 1 if graph.label[i] != 0 else 0


@njit_no_refcount
def _soft(value: float, threshold: float) -> float:
    """Soft-thresholding ``sign(value) (|value| - threshold)_+``."""
    if value > threshold:
        return value - threshold
    if value < -threshold:
        return value + threshold
    return 0.0


@njit_no_refcount(forceinline=True)
def update(
    penalty: FusedPair, a: FloatArray, b: FloatArray, pair: PairClasses, out: FloatArray, work: PenaltyWorkspace
) -> None:
    """Write the minimiser (n,) of ``sum_k a_k x_k^2 / 2 - b_k x_k + v phi(x)``, a > 0.

    `out` holds a warm start, whose face is tried first.
    """
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
            out[0] = _soft(b[0], v * class_l1(penalty, cls, 1, 0)) / a[0]
        else:
            _update_two_classes(penalty, a, b, cls, v, out)
        for i in range(n):
            if abs(out[i]) * a[i] <= SLACK * scale:
                out[i] = 0.0
    elif not face_is_optimal(penalty, a, b, pair, SLACK * scale, out, work):
        graph = graph_of(penalty, pair, work)
        for i in range(n):
            graph.label[i] = 1
        _minimise_over_labelled(graph, a, b, SLACK * scale, out)


@njit_no_refcount
def _update_two_classes(
    penalty: FusedPair, a: FloatArray, b: FloatArray, cls: IntArray, v: float, out: FloatArray
) -> None:
    """Two classes in closed form: x_0 > x_1, x_0 < x_1, or x_0 = x_1."""
    l1_first = v * class_l1(penalty, cls, 2, 0)
    l1_second = v * class_l1(penalty, cls, 2, 1)
    edge_weight = v * penalty.class_graph[cls[0], cls[1]]
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


@njit_no_refcount
def value(penalty: FusedPair, theta: FloatArray, pair: PairClasses) -> float:
    """``v phi(theta)`` for the values in the classes that contain the pair and zero in the others."""
    cls, n, v = pair
    total = 0.0
    for i in range(n):
        total += class_l1(penalty, cls, n, i) * abs(theta[i])
        for j in range(i):
            total += penalty.class_graph[cls[i], cls[j]] * abs(theta[i] - theta[j])
    return v * total


@njit_no_refcount(forceinline=True)
def threshold(penalty: FusedPair, k: int) -> float:
    """l1 weight of class k: a pair with ``|u_k| <= v l1_k`` in every class is in the dual ball."""
    limit: float = penalty.l1[k]
    return limit


@njit_no_refcount(forceinline=True)
def is_dual_feasible(penalty: FusedPair, u: FloatArray, pair: PairClasses, work: PenaltyWorkspace) -> bool:
    """Whether `u` (n,) is in the dual ball, the subdifferential of ``v phi`` at zero.

    That is ``|u(Q)| <= l1(Q) + cut(Q)`` for all sets Q of classes.
    """
    cls, n, v = pair
    below_threshold = True
    scale = 0.0
    for i in range(n):
        below_threshold = below_threshold and abs(u[i]) <= v * penalty.l1[cls[i]]
        scale += abs(u[i])
    if below_threshold:
        return True
    l1 = work.real[work.real.shape[0] - n :]
    class_l1_weights(penalty, pair, l1)
    return zero_is_optimal(penalty, u, l1, pair, SLACK * scale, work)


@njit_no_refcount
def gauge(penalty: FusedPair, u: FloatArray, pair: PairClasses, work: PenaltyWorkspace) -> float:
    """Gauge of the dual ball: the largest ``|u(Q)| / (l1(Q) + cut(Q))``, by Dinkelbach's method over violated sets."""
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


@njit_no_refcount
def _set_ratio(graph: Graph, u: FloatArray) -> float:
    """``|u(Q)| / (l1(Q) + cut(Q))`` of the chosen set Q."""
    total = 0.0
    weight = 0.0
    for i in range(graph.n):
        graph.gain[i] = 0.0
    split_at_cut(graph, 1, graph.gain)
    for i in range(graph.n):
        if graph.chosen[i] == 1:
            total += u[i]
            weight += graph.l1[i] - graph.gain[i]
    if total == 0.0:
        return 0.0
    return abs(total) / weight if weight > 0.0 else np.inf


@njit_no_refcount
def subgradient(
    penalty: FusedPair,
    theta: FloatArray,
    target: FloatArray,
    a: FloatArray,
    pair: PairClasses,
    out: FloatArray,
    work: PenaltyWorkspace,
) -> None:
    """Write the subgradient of ``v phi`` at `theta` nearest to `target` in the metric 1/a.

    Between different values the subgradient is fixed. The residual is projected cluster by cluster: by Moreau's
    decomposition, target minus projection is a minimiser with the penalty restricted to the cluster.
    """
    n = pair.n
    nonzero = False
    for i in range(n):
        nonzero = nonzero or theta[i] != 0.0
        out[i] = target[i]
    if not nonzero and is_dual_feasible(penalty, target, pair, work):
        return
    K = penalty.l1.shape[0]
    gradient(penalty, theta, pair, out)
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


@njit_no_refcount
def gradient(penalty: FusedPair, theta: FloatArray, pair: PairClasses, out: FloatArray) -> None:
    """Write the gradient (n,) of ``v phi`` on the face of `theta`, where zeros stay zero and equal values stay equal.

    It is the part that all subgradients at `theta` share: the signs of values and of differences.
    """
    cls, n, v = pair
    for i in range(n):
        out[i] = v * class_l1(penalty, cls, n, i) * np.sign(theta[i])
        for j in range(n):
            if theta[j] != theta[i]:
                out[i] += v * penalty.class_graph[cls[i], cls[j]] * np.sign(theta[i] - theta[j])


@njit_no_refcount
def clusters(penalty: FusedPair, theta: FloatArray, pair: PairClasses, out: IntArray) -> int:
    """Write the cluster of each class, -1 at zeros; returns their number. A cluster is connected, of equal values."""
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
                        if out[j] == count and penalty.class_graph[cls[i], cls[j]] > 0.0:
                            out[i] = count
                            grown = True
                            break
        count += 1
    return count


@njit_no_refcount
def hvp(penalty: FusedPair, theta: FloatArray, pair: PairClasses, step: FloatArray, out: FloatArray) -> None:
    """Hessian-vector product on the face: adds nothing, since the penalty is linear there."""


@njit_no_refcount
def retract(penalty: FusedPair, theta: FloatArray, pair: PairClasses, out: FloatArray) -> None:
    """Set values of `out` (n,) that changed sign to zero, and neighbours whose order changed to their mean."""
    cls, n, v = pair
    if v == 0.0:
        return
    for i in range(n):
        if theta[i] * out[i] < 0.0 and class_l1(penalty, cls, n, i) > 0.0:
            out[i] = 0.0
    for _ in range(n):  # a merged value may cross a third one
        crossed = False
        for i in range(1, n):
            for j in range(i):
                if (theta[i] - theta[j]) * (out[i] - out[j]) < 0.0 and penalty.class_graph[cls[i], cls[j]] > 0.0:
                    _merge(theta, n, i, j, out)
                    crossed = True
        if not crossed:
            break


@njit_no_refcount
def _merge(theta: FloatArray, n: int, i: int, j: int, out: FloatArray) -> None:
    """Replace the values of the clusters of i and j by their mean, or by zero if one of them is there."""
    first, second = out[i], out[j]
    total = 0.0
    count = 0
    for k in range(n):
        if (out[k] == first and theta[k] == theta[i]) or (out[k] == second and theta[k] == theta[j]):
            total += out[k]
            count += 1
    mean = 0.0 if first == 0.0 or second == 0.0 else total / count
    for k in range(n):
        if (out[k] == first and theta[k] == theta[i]) or (out[k] == second and theta[k] == theta[j]):
            out[k] = mean
