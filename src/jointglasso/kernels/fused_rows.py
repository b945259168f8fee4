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
def _size(row: FloatArray) -> float:
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
        _pattern(penalty, rows[q], Held(classes, K, factor[q] if factor.shape[0] else 1.0), l1, work, out[q])
    return out


@leaf
def _pattern(penalty: FusedPair, row: FloatArray, pair: Held, l1: FloatArray, work: Work, out: IntArray) -> None:
    """Write the signs of one pair; `out` is zero, and l1 room."""
    K, scale = pair.n, _size(row)
    least = np.inf
    below = True
    for k in range(K):
        l1[k] = pair.v * penalty.l1[k] - _MARGIN * scale
        least = min(least, l1[k])
        below = below and abs(row[k]) <= l1[k]
    if below or (least >= 0.0 and stays_zero(penalty, row, l1, pair, SLACK * scale, work)):
        return
    graph = graph_of(penalty, pair, work)
    for half in range(2):
        sign = 1 - 2 * half
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
        _close(penalty, rows[q], Held(classes, K, factor[q] if factor.shape[0] else 1.0), work, out[q])
    return out


@leaf
def _close(penalty: FusedPair, row: FloatArray, pair: Held, work: Work, out: BoolArray) -> None:
    """Add to the classes of one pair those that may not be cut."""
    K, scale = pair.n, _size(row)
    graph = graph_of(penalty, pair, work)
    grown = True
    while grown:
        grown = False
        for half in range(2):
            sign = 1.0 - 2.0 * half
            for k in range(K):
                graph.label[k] = 0 if out[k] else 1
                graph.gain[k] = sign * row[k] - graph.l1[k] + _MARGIN * scale
                for other in range(K):
                    if out[other]:
                        graph.gain[k] += pair.v * penalty.ties[k, other]
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
    reach: FloatArray,
    entries: Entries,
    tied: IntArray,
    work: Work,
) -> tuple[BoolArray, BoolArray]:
    """Zeros of `theta`, and its equalities (P, ties), in all points whose dual is within `reach` of `u`.

    At the optimum every level set is tight: ``|u(Q)| = l1(Q) + cut(Q)``. A class in no set that may be tight is zero,
    and two classes that no such set separates are equal. `tied` (ties, 2) holds the classes to compare; those that do
    not hold a pair are zero there. What is neither zero nor equal at `theta` is not asked about.
    """
    n_pairs = entries.start.shape[0] - 1
    zero = np.zeros(u.shape[0], dtype=np.bool_)
    equal = np.zeros((n_pairs, tied.shape[0]), dtype=np.bool_)
    place = np.empty(penalty.l1.shape[0], dtype=np.int64)
    _prove(penalty, (theta, u, reach), entries, tied, (work, place), (zero, equal))
    return zero, equal


@leaf
def _prove(
    penalty: FusedPair,
    found: tuple[FloatArray, FloatArray, FloatArray],
    entries: Entries,
    tied: IntArray,
    room: tuple[Work, IntArray],
    out: tuple[BoolArray, BoolArray],
) -> None:
    """Write zeros and equalities."""
    (theta, u, reach), (work, place), (zero, equal) = found, room, out
    for q in range(entries.start.shape[0] - 1):
        first, last = entries.start[q], entries.start[q + 1]
        v = entries.factor[q] if entries.factor.shape[0] else 1.0
        loose = True
        for at in range(first, last):  # nearly all are below the thresholds of their classes by far
            loose = loose and abs(u[at]) + reach[at] < (1.0 - 1e-9) * v * penalty.l1[entries.cls[at]]
        here, near, pair = u[first:last], reach[first:last], Held(entries.cls[first:last], last - first, v)
        if loose or _all_loose(penalty, here, near, pair, work):
            zero[first:last] = True
            equal[q] = True
            continue
        graph = graph_of(penalty, pair, work)
        margin = _MARGIN * (_size(here) + _size(graph.l1))
        place[:] = -1
        for at in range(pair.n):
            place[pair.cls[at]] = at
            if theta[first + at] == 0.0:
                zero[first + at] = not _may_be_tight(graph, here, near, margin, at, -1)
        for t in range(tied.shape[0]):
            one, two = place[tied[t, 0]], place[tied[t, 1]]
            if one < 0 or two < 0:
                equal[q, t] = max(one, two) < 0 or zero[first + max(one, two)]
            elif theta[first + one] == theta[first + two]:
                equal[q, t] = not (
                    _may_be_tight(graph, here, near, margin, one, two)
                    or _may_be_tight(graph, here, near, margin, two, one)
                )


@leaf
def _all_loose(penalty: FusedPair, u: FloatArray, reach: FloatArray, pair: Held, work: Work) -> bool:
    """Whether no set at all may be tight."""
    n = pair.n
    l1 = work.real[work.real.shape[0] - n :]
    held_weights(penalty, pair, l1)
    margin = _MARGIN * (_size(u) + _size(l1))
    surely = True
    least = np.inf
    for k in range(n):
        l1[k] -= reach[k] + margin
        least = min(least, l1[k])
        surely = surely and abs(u[k]) <= l1[k]
    if surely:
        return True
    if least >= 0.0:
        return stays_zero(penalty, u, l1, pair, 0.0, work)
    graph = graph_of(penalty, pair, work)
    for k in range(n):
        graph.l1[k] = l1[k]
    return not outside(graph, u, 1.0, 0.0)


@leaf
def _may_be_tight(graph: Graph, u: FloatArray, reach: FloatArray, margin: float, member: int, stranger: int) -> bool:
    """Whether a set with `member`, but without `stranger` (if not negative), may be tight."""
    for half in range(2):
        sign = 1.0 - 2.0 * half
        enough = 1.0
        most = 0.0
        for k in range(graph.n):
            graph.label[k] = 1
            graph.gain[k] = sign * u[k] + reach[k] - graph.l1[k] + margin
            enough += abs(graph.gain[k])
            most += graph.gain[k] if k == member else max(graph.gain[k], 0.0)
        # More than all other gains and ties could be worth decides about one class.
        enough += _total_ties(graph)
        if most < -1e-12 * enough:  # no set is worth more, whatever the ties
            continue
        graph.gain[member] += enough
        if stranger >= 0:
            graph.gain[stranger] -= enough
        if best(graph, graph.gain, 1, 0.0) - enough > -1e-13 * enough:
            return True
    return False


@leaf
def _total_ties(graph: Graph) -> float:
    """At least the sum of all ties."""
    total = 0.0
    if graph.shape == GENERAL:
        for k in range(graph.n):
            for other in range(k):
                total += graph.ties[k, other]
    elif graph.shape == COMPLETE:
        for k in range(graph.n):
            total += graph.mass[k]
        total *= total
    else:
        for k in range(graph.n):
            total += graph.mass[k]
    return total
