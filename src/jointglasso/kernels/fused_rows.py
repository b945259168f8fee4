"""Screening and certificates of the fused penalty, pair by pair, for rows (m, K) with one number for each class.

Where rounding could decide, the gains of sets are increased by the fraction `_MARGIN` of the row: classes are joined
rather than screened out, and no zero or equality is certified.
"""

from __future__ import annotations

import numpy as np

from jointglasso._typing import BoolArray, FloatArray, IntArray
from jointglasso.kernels.fused_face import class_l1_weights, outside, zero_is_optimal
from jointglasso.kernels.fused_pair import SLACK
from jointglasso.kernels.jit import njit, njit_no_refcount
from jointglasso.kernels.pair_types import COMPLETE, FOREST, GENERAL, Entries, FusedPair, PairClasses, PenaltyWorkspace
from jointglasso.kernels.submodular import Graph, graph_of, max_cut_set

_MARGIN = 1e-12


@njit_no_refcount
def _l1_norm(row: FloatArray) -> float:
    """``sum_k |row_k|``."""
    total = 0.0
    for k in range(row.shape[0]):
        total += abs(row[k])
    return total


@njit
def signs(penalty: FusedPair, rows: FloatArray, factor: FloatArray, work: PenaltyWorkspace) -> IntArray:
    """Signs (m, K) of Theta if each pair were a problem of its own; `rows` are the weighted covariances w_k S_k,ij.

    The classes with Theta > 0 maximise the gains -wS - l1 less the cut, those with Theta < 0 the gains wS - l1. The
    curvatures do not enter.
    """
    m, K = rows.shape
    out = np.zeros((m, K), dtype=np.int64)
    classes = np.arange(K)
    l1 = np.empty(K)
    for q in range(m):
        _pair_signs(penalty, rows[q], PairClasses(classes, K, factor[q] if factor.shape[0] else 1.0), l1, work, out[q])
    return out


@njit_no_refcount
def _pair_signs(
    penalty: FusedPair, row: FloatArray, pair: PairClasses, l1: FloatArray, work: PenaltyWorkspace, out: IntArray
) -> None:
    """Write the signs (K,) of one pair into `out`, zero before; `l1` (K,) is scratch."""
    K, scale = pair.n, _l1_norm(row)
    min_l1 = np.inf
    below = True
    for k in range(K):
        l1[k] = pair.v * penalty.l1[k] - _MARGIN * scale
        min_l1 = min(min_l1, l1[k])
        below = below and abs(row[k]) <= l1[k]
    if below or (min_l1 >= 0.0 and zero_is_optimal(penalty, row, l1, pair, SLACK * scale, work)):
        return
    graph = graph_of(penalty, pair, work)
    for side in range(2):
        sign = 1 - 2 * side
        for k in range(K):
            graph.label[k] = 1
            graph.gain[k] = -sign * row[k] - graph.l1[k] + _MARGIN * scale
        max_cut_set(graph, graph.gain, 1, SLACK * scale)
        for k in range(K):
            if graph.chosen[k] == 1 and out[k] == 0:
                out[k] = sign


@njit
def closure(
    penalty: FusedPair, rows: FloatArray, joined: BoolArray, factor: FloatArray, work: PenaltyWorkspace
) -> BoolArray:
    """Smallest superset (m, K) of the `joined` classes outside of which the entry is zero for any data inside.

    The other classes may be screened out if each set Q of them has ``|wS(Q)| <= l1(Q) + cut(Q, others) - cut(Q,
    joined)``: the sufficient condition with the largest possible derivative from the joined classes.
    """
    m, K = rows.shape
    out = joined.copy()
    classes = np.arange(K)
    for q in range(m):
        _pair_closure(penalty, rows[q], PairClasses(classes, K, factor[q] if factor.shape[0] else 1.0), work, out[q])
    return out


@njit_no_refcount
def _pair_closure(
    penalty: FusedPair, row: FloatArray, pair: PairClasses, work: PenaltyWorkspace, out: BoolArray
) -> None:
    """Add to the joined classes (K,) of one pair those that may not be screened out."""
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
                        graph.gain[k] += pair.v * penalty.class_graph[k, j]
            max_cut_set(graph, graph.gain, 1, SLACK * scale)
            for k in range(K):
                if graph.chosen[k] == 1:
                    out[k] = True
                    grown = True


@njit
def certified_zeros_and_equal(
    penalty: FusedPair,
    theta: FloatArray,
    u: FloatArray,
    radius: FloatArray,
    entries: Entries,
    class_pairs: IntArray,
    work: PenaltyWorkspace,
) -> tuple[BoolArray, BoolArray]:
    """Certified zeros (E,) of `theta` and certified equalities (P, C), from a dual point `u` (E,) within `radius` (E,).

    At the optimum every level set Q is tight: ``|u(Q)| = l1(Q) + cut(Q)``. A class in no set that may be tight has a
    zero entry, and two classes that no such set separates have equal entries. `class_pairs` (C, 2) are the classes to
    compare; a class in which the pair is screened out counts as zero. Only entries that are zero or equal at `theta`
    are tested.
    """
    n_pairs = entries.start.shape[0] - 1
    zero = np.zeros(u.shape[0], dtype=np.bool_)
    equal = np.zeros((n_pairs, class_pairs.shape[0]), dtype=np.bool_)
    n_classes = penalty.l1.shape[0]
    scratch = work, np.empty(n_classes, dtype=np.int64), np.empty((6, n_classes))
    _certify_pairs(penalty, (theta, u, radius), entries, class_pairs, scratch, (zero, equal))
    return zero, equal


@njit_no_refcount
def _certify_pairs(
    penalty: FusedPair,
    dual_point: tuple[FloatArray, FloatArray, FloatArray],
    entries: Entries,
    class_pairs: IntArray,
    scratch: tuple[PenaltyWorkspace, IntArray, FloatArray],
    out: tuple[BoolArray, BoolArray],
) -> None:
    """Write the zeros and equalities of all pairs."""
    (theta, u, radius), (work, position, values), (zero, equal) = dual_point, scratch, out
    for q in range(entries.start.shape[0] - 1):
        first, last = entries.start[q], entries.start[q + 1]
        v = entries.factor[q] if entries.factor.shape[0] else 1.0
        all_below = True
        for i in range(first, last):  # nearly all entries are far below the threshold of their class
            all_below = all_below and abs(u[i]) + radius[i] < (1.0 - 1e-9) * v * penalty.l1[entries.cls[i]]
        u_pair, radius_pair, pair = (
            u[first:last],
            radius[first:last],
            PairClasses(entries.cls[first:last], last - first, v),
        )
        if all_below or _no_tight_set(penalty, u_pair, radius_pair, pair, work):
            zero[first:last] = True
            equal[q] = True
            continue
        graph = graph_of(penalty, pair, work)
        margin = _MARGIN * (_l1_norm(u_pair) + _l1_norm(graph.l1))
        position[:] = -1
        is_forest = graph.shape == FOREST
        if is_forest:
            _largest_in_forest(graph, u_pair, radius_pair, margin, values)
        for i in range(pair.n):
            position[pair.cls[i]] = i
            if theta[first + i] == 0.0:
                tight = values[4, i] > 0.0 if is_forest else _may_be_tight(graph, u_pair, radius_pair, margin, i, -1)
                zero[first + i] = not tight
        for t in range(class_pairs.shape[0]):
            first_class, second_class = position[class_pairs[t, 0]], position[class_pairs[t, 1]]
            if first_class < 0 or second_class < 0:
                equal[q, t] = max(first_class, second_class) < 0 or zero[first + max(first_class, second_class)]
            elif theta[first + first_class] == theta[first + second_class] and is_forest:
                child = first_class if graph.parent[first_class] == second_class else second_class
                equal[q, t] = not values[5, child] > 0.0
            elif theta[first + first_class] == theta[first + second_class]:
                equal[q, t] = not (
                    _may_be_tight(graph, u_pair, radius_pair, margin, first_class, second_class)
                    or _may_be_tight(graph, u_pair, radius_pair, margin, second_class, first_class)
                )


@njit_no_refcount
def _no_tight_set(
    penalty: FusedPair, u: FloatArray, radius: FloatArray, pair: PairClasses, work: PenaltyWorkspace
) -> bool:
    """Whether no set Q may be tight for any dual point within `radius` of u."""
    n = pair.n
    l1 = work.real[work.real.shape[0] - n :]
    class_l1_weights(penalty, pair, l1)
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
        return zero_is_optimal(penalty, u, l1, pair, 0.0, work)
    graph = graph_of(penalty, pair, work)
    for k in range(n):
        graph.l1[k] = l1[k]
    return not outside(graph, u, 1.0, 0.0)


@njit_no_refcount
def _may_be_tight(graph: Graph, u: FloatArray, radius: FloatArray, margin: float, included: int, excluded: int) -> bool:
    """Whether a set that contains `included`, and not `excluded` (unless negative), may be tight."""
    for side in range(2):
        sign = 1.0 - 2.0 * side
        big_m = 1.0
        max_gain = 0.0
        for k in range(graph.n):
            graph.label[k] = 1
            graph.gain[k] = sign * u[k] + radius[k] - graph.l1[k] + margin
            big_m += abs(graph.gain[k])
            max_gain += graph.gain[k] if k == included else max(graph.gain[k], 0.0)
        # A gain above the sum of all other gains and edge weights forces one class into Q, or out of it.
        big_m += _class_graph_bound(graph)
        if max_gain < -1e-12 * big_m:  # an upper bound for every set, whatever the edge weights
            continue
        graph.gain[included] += big_m
        if excluded >= 0:
            graph.gain[excluded] -= big_m
        if max_cut_set(graph, graph.gain, 1, 0.0) - big_m > -1e-13 * big_m:
            return True
    return False


@njit_no_refcount
def _largest_in_forest(graph: Graph, u: FloatArray, radius: FloatArray, margin: float, values: FloatArray) -> None:
    """Whether a set that contains a class, or separates it from its parent, may be tight: rows 4 and 5 of `values`.

    They are the largest gain less cut of such a set, plus a bound on the rounding error. Dynamic programming: rows 0
    and 1 are the best values in the subtree of a class outside or inside of the set, rows 2 and 3 in the forest.
    """
    below, whole, gain, parent = values[:2], values[2:4], graph.gain, graph.parent
    values[4:] = -np.inf
    for side in range(2):
        sign = 1.0 - 2.0 * side
        rest, size = 0.0, 0.0
        for i in range(graph.n):
            gain[i] = sign * u[i] + radius[i] - graph.l1[i] + margin
            below[0, i], below[1, i] = 0.0, gain[i]
            size += abs(gain[i]) + graph.mass[i]
        for step in range(graph.n - 1, -1, -1):
            i = graph.order[step]
            if parent[i] < 0:
                rest += max(below[0, i], below[1, i])
            else:
                for state in range(2):
                    below[state, parent[i]] += max(below[state, i], below[1 - state, i] - graph.mass[i])
        for step in range(graph.n):
            i, edge = graph.order[step], graph.mass[graph.order[step]]
            for state in range(2):
                if parent[i] < 0:
                    whole[state, i] = below[state, i] + rest - max(below[0, i], below[1, i])
                    continue
                same = whole[state, parent[i]] - max(below[state, i], below[1 - state, i] - edge)
                other = whole[1 - state, parent[i]] - max(below[1 - state, i], below[state, i] - edge) - edge
                whole[state, i] = below[state, i] + max(same, other)
                values[5, i] = max(values[5, i], below[state, i] + other + 1e-12 * size)
            values[4, i] = max(values[4, i], whole[1, i] + 1e-12 * size)


@njit_no_refcount
def _class_graph_bound(graph: Graph) -> float:
    """Upper bound on the sum of all edge weights."""
    total = 0.0
    if graph.shape == GENERAL:
        for k in range(graph.n):
            for j in range(k):
                total += graph.class_graph[k, j]
    elif graph.shape == COMPLETE:
        for k in range(graph.n):
            total += graph.mass[k]
        total *= total
    else:
        for k in range(graph.n):
            total += graph.mass[k]
    return total
