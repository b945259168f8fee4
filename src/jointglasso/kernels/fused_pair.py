"""Fused penalty of one pair: ``phi(t) = sum_k l1_k |t_k| + v sum_{k<l} g_kl |t_k - t_l|``, for any class graph g.

A pair is described by the n classes that contain it, ``cls[:n]``, in ascending order. In the other classes it is
screened out: t_l = 0 there, and the edge v g_kl adds to the l1 weight of class k.
The workspace has `workspace_size(K)` rows of real numbers.
"""

from __future__ import annotations

import numpy as np

from jointglasso._typing import FloatArray, IntArray
from jointglasso.kernels.fused_face import face_is_optimal
from jointglasso.kernels.group_pair import soft
from jointglasso.kernels.jit import njit_no_refcount
from jointglasso.kernels.laplacian_pair import threshold
from jointglasso.kernels.maximum_pair import hvp
from jointglasso.kernels.pair_types import FusedPair, PairClasses, PenaltyWorkspace
from jointglasso.kernels.submodular import (
    ALL,
    CHOSEN,
    GAIN,
    GRAPH,
    L1,
    LABEL,
    LEVEL,
    LINEAR,
    SHIFTED,
    X,
    cut_edges,
    load_graph,
    load_weights,
    max_cut_set,
    outside,
    split_at_cut,
)

__all__ = ["hvp", "threshold"]

#: Gains below this fraction of the input are rounding errors: they neither make a value non-zero nor split a cluster.
SLACK = 1e-14

#: Row of the workspace with the curvatures a of a minimisation; `face_is_optimal` uses it before.
CURVATURE = LEVEL

#: Positive homogeneity: ``phi(c t) = c phi(t)`` for c > 0.
HOMOGENEOUS = True


def workspace_size(n_classes: int) -> int:
    """Number of rows of the real workspace for K classes."""
    return GRAPH + 2 * n_classes


@njit_no_refcount
def _split_level_sets(shape: int, n: int, sign: float, slack: float, work: PenaltyWorkspace) -> None:
    """Minimise ``sum a x^2 / 2 - shifted x`` plus the fused terms over the classes labelled 1; row X: `sign` times it.

    Divide and conquer over level sets: the classes of a label share their mean, unless a subset has a higher level;
    then the label is split in two.
    """
    real, integer = work.real, work.integer
    label = 1
    n_labels = 1
    while label <= n_labels:
        weight = 0.0
        total = 0.0
        size = 0
        for i in range(n):
            if integer[LABEL, i] == label:
                weight += real[CURVATURE, i]
                total += real[SHIFTED, i]
                size += 1
        level = total / weight
        for i in range(n):
            real[GAIN, i] = real[SHIFTED, i] - real[CURVATURE, i] * level
        n_chosen = 0
        if size > 1 and max_cut_set(shape, n, label, slack, work) > slack:
            for i in range(n):
                n_chosen += integer[CHOSEN, i]
        if n_chosen == 0 or n_chosen == size:
            for i in range(n):
                if integer[LABEL, i] == label:
                    real[X, i] = sign * level
            label += 1
        else:
            split_at_cut(shape, n, label, work)
            n_labels += 1
            for i in range(n):
                if integer[CHOSEN, i] == 1:
                    integer[LABEL, i] = n_labels


@njit_no_refcount
def _minimise_over_labelled(shape: int, n: int, slack: float, work: PenaltyWorkspace) -> None:
    """Minimise ``sum a x^2 / 2 - b x + phi(x)`` over the classes labelled 1: positive values, negative ones, zeros.

    b is row LINEAR, x row X. Labels are 0 and 1 before and afterwards.
    """
    real, integer = work.real, work.integer
    for i in range(n):
        if integer[LABEL, i] == 1:
            real[X, i] = 0.0
        integer[LABEL, i] = -integer[LABEL, i]
    for half in range(2):
        sign = 1.0 - 2.0 * half
        for i in range(n):
            integer[LABEL, i] = 1 if integer[LABEL, i] != 0 else 0
            real[GAIN, i] = sign * real[LINEAR, i] - real[L1, i]
            real[SHIFTED, i] = real[GAIN, i]
        if max_cut_set(shape, n, ALL, slack, work) > slack:
            split_at_cut(shape, n, ALL, work)
            for i in range(n):
                integer[LABEL, i] = (1 if integer[CHOSEN, i] == 1 else -1) if integer[LABEL, i] == 1 else 0
            _split_level_sets(shape, n, sign, slack, work)
    for i in range(n):
        integer[LABEL, i] = 1 if integer[LABEL, i] != 0 else 0


@njit_no_refcount
def update(penalty: FusedPair, a: FloatArray, b: FloatArray, pair: PairClasses, out: FloatArray) -> None:
    """Write the minimiser (n,) of ``sum_k a_k x_k^2 / 2 - b_k x_k + phi(x)``, a > 0.

    `out` holds a warm start, whose face is tried first.
    """
    cls, n, v = pair.cls, pair.n, pair.v
    below_threshold = True
    scale = 0.0
    for i in range(n):
        below_threshold = below_threshold and abs(b[i]) <= pair.l1[i]
        scale += abs(b[i])
    if below_threshold:
        for i in range(n):
            out[i] = 0.0
    elif n <= 2:
        load_weights(penalty, pair)
        if n == 1:
            out[0] = soft(b[0], pair.work.real[L1, 0]) / a[0]
        else:
            _update_two_classes(v * penalty.class_graph[cls[0], cls[1]], a, b, out, pair.work)
        for i in range(n):
            if abs(out[i]) * a[i] <= SLACK * scale:
                out[i] = 0.0
    elif not face_is_optimal(penalty, a, b, pair, SLACK * scale, out):
        load_graph(penalty, pair)
        for i in range(n):
            pair.work.integer[LABEL, i] = 1
            pair.work.real[LINEAR, i] = b[i]
            pair.work.real[CURVATURE, i] = a[i]
        _minimise_over_labelled(penalty.shape, n, SLACK * scale, pair.work)
        for i in range(n):
            out[i] = pair.work.real[X, i]


@njit_no_refcount
def _update_two_classes(
    edge_weight: float, a: FloatArray, b: FloatArray, out: FloatArray, work: PenaltyWorkspace
) -> None:
    """Two classes in closed form: x_0 > x_1, x_0 < x_1, or x_0 = x_1."""
    l1_first, l1_second = work.real[L1, 0], work.real[L1, 1]
    for side in range(2):
        shift = edge_weight if side == 0 else -edge_weight
        first = soft(b[0] - shift, l1_first) / a[0]
        second = soft(b[1] + shift, l1_second) / a[1]
        if (side == 0 and first > second) or (side == 1 and first < second):
            out[0] = first
            out[1] = second
            return
    out[0] = soft(b[0] + b[1], l1_first + l1_second) / (a[0] + a[1])
    out[1] = out[0]


# The penalty, its dual ball and its subgradients


@njit_no_refcount
def value(penalty: FusedPair, theta: FloatArray, pair: PairClasses) -> float:
    """``phi(theta)`` for the values in the classes that contain the pair and zero in the others."""
    cls, n = pair.cls, pair.n
    total = 0.0
    absolute = 0.0
    for i in range(n):
        if theta[i] != 0.0:
            absolute += pair.l1[i] * abs(theta[i])
            total += cut_edges(penalty, cls, n, i) * abs(theta[i])
        for j in range(i):
            total += penalty.class_graph[cls[i], cls[j]] * abs(theta[i] - theta[j])
    return absolute + pair.v * total


@njit_no_refcount
def is_dual_feasible(penalty: FusedPair, u: FloatArray, pair: PairClasses) -> bool:
    """Whether `u` (n,) is in the dual ball, the subdifferential of phi at zero.

    That is ``|u(Q)| <= l1(Q) + cut(Q)`` for all sets Q of classes.
    """
    below_threshold = True
    scale = 0.0
    for i in range(pair.n):
        below_threshold = below_threshold and abs(u[i]) <= pair.l1[i]
        scale += abs(u[i])
    if below_threshold:
        return True
    load_graph(penalty, pair)
    return not outside(penalty.shape, pair.n, u, 1.0, SLACK * scale, pair.work)


@njit_no_refcount
def gauge(penalty: FusedPair, u: FloatArray, pair: PairClasses) -> float:
    """Gauge of the dual ball: the largest ``|u(Q)| / (l1(Q) + cut(Q))``, by Dinkelbach's method over violated sets."""
    n, shape = pair.n, penalty.shape
    load_graph(penalty, pair)
    scale = 0.0
    for i in range(n):
        pair.work.integer[LABEL, i] = 1
        scale += abs(u[i])
    if scale == 0.0:
        return 0.0
    ratio = 0.0
    for i in range(n + 1):  # single classes, and all of them
        for j in range(n):
            pair.work.integer[CHOSEN, j] = 1 if j == i or i == n else 0
        ratio = max(ratio, _set_ratio(shape, n, u, pair.work))
    while ratio < np.inf and outside(shape, n, u, 1.0 / ratio, SLACK * scale / ratio, pair.work):
        higher = _set_ratio(shape, n, u, pair.work)
        if higher <= ratio:
            break
        ratio = higher
    return ratio


@njit_no_refcount
def _set_ratio(shape: int, n: int, u: FloatArray, work: PenaltyWorkspace) -> float:
    """``|u(Q)| / (l1(Q) + cut(Q))`` of the chosen set Q."""
    total = 0.0
    weight = 0.0
    for i in range(n):
        work.real[SHIFTED, i] = 0.0
    split_at_cut(shape, n, ALL, work)
    for i in range(n):
        if work.integer[CHOSEN, i] == 1:
            total += u[i]
            weight += work.real[L1, i] - work.real[SHIFTED, i]
    if total == 0.0:
        return 0.0
    return abs(total) / weight if weight > 0.0 else np.inf


@njit_no_refcount
def subgradient(penalty: FusedPair, theta: FloatArray, target: FloatArray, pair: PairClasses, out: FloatArray) -> None:
    """Write the subgradient of phi at `theta` nearest to `target`.

    Between different values the subgradient is fixed. The residual is projected cluster by cluster: by Moreau's
    decomposition, target minus projection is a minimiser with the penalty restricted to the cluster.
    """
    n, real, integer = pair.n, pair.work.real, pair.work.integer
    is_zero = True
    for i in range(n):
        is_zero = is_zero and theta[i] == 0.0
        out[i] = 0.0
    if not is_zero:
        gradient(penalty, theta, pair, out)
    load_graph(penalty, pair)
    scale = 0.0
    for i in range(n):
        real[CURVATURE, i] = 1.0
        scale += abs(target[i]) + abs(out[i])
        real[LINEAR, i] = target[i] - out[i]
    for i in range(n):
        size = 0
        is_repeated = False
        for j in range(n):
            integer[LABEL, j] = 1 if theta[j] == theta[i] else 0
            size += integer[LABEL, j]
            is_repeated = is_repeated or (j < i and integer[LABEL, j] == 1)
        if is_repeated or (size == 1 and theta[i] != 0.0):
            continue
        if theta[i] == 0.0:
            _minimise_over_labelled(penalty.shape, n, SLACK * scale, pair.work)
        else:
            for j in range(n):
                real[SHIFTED, j] = real[LINEAR, j]
            _split_level_sets(penalty.shape, n, 1.0, SLACK * scale, pair.work)
        for j in range(n):
            if theta[j] == theta[i]:
                out[j] += real[LINEAR, j] - real[X, j]


@njit_no_refcount
def gradient(penalty: FusedPair, theta: FloatArray, pair: PairClasses, out: FloatArray) -> None:
    """Write the gradient (n,) of phi on the face of `theta`, where zeros stay zero and equal values stay equal.

    It is the part that all subgradients at `theta` share: the signs of values and of differences.
    """
    cls, n, v = pair.cls, pair.n, pair.v
    for i in range(n):
        out[i] = 0.0
        if theta[i] != 0.0:
            out[i] = (pair.l1[i] + v * cut_edges(penalty, cls, n, i)) * np.sign(theta[i])
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
                        if out[j] == count and pair.v * penalty.class_graph[cls[i], cls[j]] > 0.0:
                            out[i] = count
                            grown = True
                            break
        count += 1
    return count


@njit_no_refcount
def retract(penalty: FusedPair, theta: FloatArray, pair: PairClasses, out: FloatArray) -> None:
    """Set values of `out` (n,) that changed sign to zero, and neighbours whose order changed to their mean."""
    cls, n, v = pair.cls, pair.n, pair.v
    for i in range(n):
        if theta[i] * out[i] < 0.0 and pair.l1[i] + v * cut_edges(penalty, cls, n, i) > 0.0:
            out[i] = 0.0
    if v == 0.0:
        return
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
