"""Screening and proofs of the fused penalty, pair by pair: rows (m, K) with a number for every class.

Where rounding could decide, sets count as better than they are, by a share `_MARGIN` of the row: classes are joined
rather than cut, and nothing is proved.
"""

from __future__ import annotations

import numpy as np

from jointglasso._typing import BoolArray, FloatArray, IntArray
from jointglasso.kernels.best_sets import Graph, best, graph_of
from jointglasso.kernels.cache import leaf, njit
from jointglasso.kernels.fused_face import held_weights, outside, stays_zero
from jointglasso.kernels.fused_pair import SLACK
from jointglasso.kernels.pair_types import COMPLETE, GENERAL, Entries, FusedPair, Held, Work

_MARGIN = 1e-12


@leaf
def _l1_norm(row: FloatArray) -> float:
    total = 0.0
    for k in range(row.shape[0]):
        total += abs(row[k])
    return total


@njit
def pattern(penalty: FusedPair, rows: FloatArray, factor: FloatArray, work: Work) -> IntArray:
    """Signs of theta, were each pair of variables alone; `rows` are weighted covariances.

    The classes above zero are the best set of the gains -wS - l1, those below that of wS - l1. Curvatures play no part.
    """
    m, K = rows.shape
    out = np.zeros((m, K), dtype=np.int64)
    classes = np.arange(K)
    l1 = np.empty(K)
    for q in range(m):
        _pair_signs(penalty, rows[q], Held(classes, K, factor[q] if factor.shape[0] else 1.0), l1, work, out[q])
    return out


@leaf
def _pair_signs(penalty: FusedPair, row: FloatArray, pair: Held, l1: FloatArray, work: Work, out: IntArray) -> None:
    """Write the signs of one pair; `out` is zero, and l1 room."""
    K, scale = pair.n, _l1_norm(row)
    min_l1 = np.inf
    below = True
    for k in range(K):
        l1[k] = pair.v * penalty.l1[k] - _MARGIN * scale
        min_l1 = min(min_l1, l1[k])
        below = below and abs(row[k]) <= l1[k]
    if below or (min_l1 >= 0.0 and stays_zero(penalty, row, l1, pair, SLACK * scale, work)):
        return
    graph = graph_of(penalty, pair, work)
    for side in range(2):
        sign = 1 - 2 * side
        for k in range(K):
            graph.label[k] = 1
            graph.gain[k] = -sign * row[k] - graph.l1[k] + _MARGIN * scale
        best(graph, graph.gain, 1, SLACK * scale)
        for k in range(K):
            if graph.chosen[k] == 1 and out[k] == 0:
                out[k] = sign


@njit
def closure(penalty: FusedPair, rows: FloatArray, joined: BoolArray, factor: FloatArray, work: Work) -> BoolArray:
    """Smallest set of classes, around those joined, outside of which each pair may be cut whatever the data inside.

    The other classes may be cut if each set Q of them has ``|wS(Q)| <= l1(Q) + cut(Q, others) - cut(Q, joined)``: what
    keeps it at zero is stronger than its covariances and the pull of the joined classes together.
    """
    m, K = rows.shape
    out = joined.copy()
    classes = np.arange(K)
    for q in range(m):
        _pair_closure(penalty, rows[q], Held(classes, K, factor[q] if factor.shape[0] else 1.0), work, out[q])
    return out


@leaf
def _pair_closure(penalty: FusedPair, row: FloatArray, pair: Held, work: Work, out: BoolArray) -> None:
    """Add to the classes of one pair those that may not be cut."""
    K, scale = pair.n, _l1_norm(row)
    graph = graph_of(penalty, pair, work)
    grown = True
    while grown:
        grown = False
        for side in range(2):
            sign = 1.0 - 2.0 * side
            for k in range(K):
                graph.label[k] = 0 if out[k] else 1
                graph.gain[k] = sign * row[k] - graph.l1[k] + _MARGIN * scale
                for j in range(K):
                    if out[j]:
                        graph.gain[k] += pair.v * penalty.ties[k, j]
            best(graph, graph.gain, 1, SLACK * scale)
            for k in range(K):
                if graph.chosen[k] == 1:
                    out[k] = True
                    grown = True


@njit
def proves(
    penalty: FusedPair,
    theta: FloatArray,
    u: FloatArray,
    radius: FloatArray,
    entries: Entries,
    class_pairs: IntArray,
    work: Work,
) -> tuple[BoolArray, BoolArray]:
    """Zeros of `theta`, and its equalities (P, ties), in all points whose dual is within `radius` of `u`.

    At the optimum every level set is tight: ``|u(Q)| = l1(Q) + cut(Q)``. A class in no set that may be tight is zero,
    and two classes that no such set separates are equal. `class_pairs` (ties, 2) holds the classes to compare; those that do
    not hold a pair are zero there. What is neither zero nor equal at `theta` is not asked about.
    """
    n_pairs = entries.start.shape[0] - 1
    zero = np.zeros(u.shape[0], dtype=np.bool_)
    equal = np.zeros((n_pairs, class_pairs.shape[0]), dtype=np.bool_)
    position = np.empty(penalty.l1.shape[0], dtype=np.int64)
    _certify_pairs(penalty, (theta, u, radius), entries, class_pairs, (work, position), (zero, equal))
    return zero, equal


@leaf
def _certify_pairs(
    penalty: FusedPair,
    dual_point: tuple[FloatArray, FloatArray, FloatArray],
    entries: Entries,
    class_pairs: IntArray,
    scratch: tuple[Work, IntArray],
    out: tuple[BoolArray, BoolArray],
) -> None:
    """Write zeros and equalities."""
    (theta, u, radius), (work, position), (zero, equal) = dual_point, scratch, out
    for q in range(entries.start.shape[0] - 1):
        first, last = entries.start[q], entries.start[q + 1]
        v = entries.factor[q] if entries.factor.shape[0] else 1.0
        all_below = True
        for i in range(first, last):  # nearly all are below the thresholds of their classes by far
            all_below = all_below and abs(u[i]) + radius[i] < (1.0 - 1e-9) * v * penalty.l1[entries.cls[i]]
        u_pair, radius_pair, pair = u[first:last], radius[first:last], Held(entries.cls[first:last], last - first, v)
        if all_below or _no_tight_set(penalty, u_pair, radius_pair, pair, work):
            zero[first:last] = True
            equal[q] = True
            continue
        graph = graph_of(penalty, pair, work)
        margin = _MARGIN * (_l1_norm(u_pair) + _l1_norm(graph.l1))
        position[:] = -1
        for i in range(pair.n):
            position[pair.cls[i]] = i
            if theta[first + i] == 0.0:
                zero[first + i] = not _may_be_tight(graph, u_pair, radius_pair, margin, i, -1)
        for t in range(class_pairs.shape[0]):
            first_class, second_class = position[class_pairs[t, 0]], position[class_pairs[t, 1]]
            if first_class < 0 or second_class < 0:
                equal[q, t] = max(first_class, second_class) < 0 or zero[first + max(first_class, second_class)]
            elif theta[first + first_class] == theta[first + second_class]:
                equal[q, t] = not (
                    _may_be_tight(graph, u_pair, radius_pair, margin, first_class, second_class)
                    or _may_be_tight(graph, u_pair, radius_pair, margin, second_class, first_class)
                )


@leaf
def _no_tight_set(penalty: FusedPair, u: FloatArray, radius: FloatArray, pair: Held, work: Work) -> bool:
    """Whether no set at all may be tight."""
    n = pair.n
    l1 = work.real[work.real.shape[0] - n :]
    held_weights(penalty, pair, l1)
    margin = _MARGIN * (_l1_norm(u) + _l1_norm(l1))
    all_below = True
    min_l1 = np.inf
    for k in range(n):
        l1[k] -= radius[k] + margin
        min_l1 = min(min_l1, l1[k])
        all_below = all_below and abs(u[k]) <= l1[k]
    if all_below:
        return True
    if min_l1 >= 0.0:
        return stays_zero(penalty, u, l1, pair, 0.0, work)
    graph = graph_of(penalty, pair, work)
    for k in range(n):
        graph.l1[k] = l1[k]
    return not outside(graph, u, 1.0, 0.0)


@leaf
def _may_be_tight(graph: Graph, u: FloatArray, radius: FloatArray, margin: float, included: int, excluded: int) -> bool:
    """Whether a set with `included`, but without `excluded` (if not negative), may be tight."""
    for side in range(2):
        sign = 1.0 - 2.0 * side
        big_m = 1.0
        max_gain = 0.0
        for k in range(graph.n):
            graph.label[k] = 1
            graph.gain[k] = sign * u[k] + radius[k] - graph.l1[k] + margin
            big_m += abs(graph.gain[k])
            max_gain += graph.gain[k] if k == included else max(graph.gain[k], 0.0)
        # More than all other gains and ties could be worth decides about one class.
        big_m += _class_graph_bound(graph)
        if max_gain < -1e-12 * big_m:  # no set is worth more, whatever the ties
            continue
        graph.gain[included] += big_m
        if excluded >= 0:
            graph.gain[excluded] -= big_m
        if best(graph, graph.gain, 1, 0.0) - big_m > -1e-13 * big_m:
            return True
    return False


@leaf
def _class_graph_bound(graph: Graph) -> float:
    """At least the sum of all ties."""
    total = 0.0
    if graph.shape == GENERAL:
        for k in range(graph.n):
            for j in range(k):
                total += graph.ties[k, j]
    elif graph.shape == COMPLETE:
        for k in range(graph.n):
            total += graph.mass[k]
        total *= total
    else:
        for k in range(graph.n):
            total += graph.mass[k]
    return total
