"""Screening and certificates of the fused penalty, pair by pair, for rows (m, K) with one number for each class.

Where rounding could decide, the gains of sets are increased by the fraction `_MARGIN` of the row: classes are joined
rather than screened out, and no zero or equality is certified.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from jointglasso._typing import BoolArray, FloatArray, IntArray
from jointglasso.kernels.fused_pair import SLACK
from jointglasso.kernels.group_pair import times
from jointglasso.kernels.jit import njit, njit_no_refcount
from jointglasso.kernels.pair_types import COMPLETE, FOREST, GENERAL, Entries, FusedPair, PairClasses, PenaltyWorkspace
from jointglasso.kernels.submodular import (
    ALL,
    CHOSEN,
    FIRST,
    GAIN,
    GRAPH,
    L1,
    LABEL,
    LINEAR,
    MASS,
    ORDER,
    PARENT,
    POSITION,
    SHIFTED,
    X,
    load_graph,
    max_cut_set,
)

_MARGIN = 1e-12

#: Rows of the workspace in `_largest_in_forest`.
BELOW, WHOLE, CONTAINED, SEPARATED = FIRST, LINEAR, SHIFTED, X


class DualBall(NamedTuple):
    """Dual points of one pair: within `radius` (n,) of u (n,); `margin` covers rounding errors."""

    u: FloatArray
    radius: FloatArray
    margin: float


@njit_no_refcount
def _l1_norm(row: FloatArray) -> float:
    """``sum_k |row_k|``."""
    total = 0.0
    for k in range(row.shape[0]):
        total += abs(row[k])
    return total


@njit
def signs(
    penalty: FusedPair, rows: FloatArray, factor: FloatArray, limits: FloatArray, work: PenaltyWorkspace
) -> IntArray:
    """Signs (m, K) of Theta if each pair were a problem of its own; `rows` are the weighted covariances w_k S_k,ij.

    The classes with Theta > 0 maximise the gains -wS - l1 less the cut, those with Theta < 0 the gains wS - l1. The
    curvatures do not enter. `factor` (m,) weighs the coupling terms, empty where all are 1; `limits` are the weights of
    |t| of each class, (m, K), or (1, K) where those of all pairs are equal.
    """
    m, K = rows.shape
    out, classes = np.zeros((m, K), dtype=np.int64), np.arange(K)
    for q in range(m):
        row, limit = rows[q], limits[q if limits.shape[0] > 1 else 0]
        scale = _l1_norm(row)
        below = True
        for k in range(K):
            below = below and abs(row[k]) <= limit[k] - _MARGIN * scale
        if below:
            continue
        pair = PairClasses(classes, K, factor[q] if factor.shape[0] else 1.0, limit, work)
        load_graph(penalty, pair)
        for side in range(2):
            sign = 1 - 2 * side
            for k in range(K):
                work.integer[LABEL, k] = 1
                work.real[GAIN, k] = -sign * row[k] - limit[k] + _MARGIN * scale
            max_cut_set(penalty.shape, K, ALL, SLACK * scale, work)
            for k in range(K):
                if work.integer[CHOSEN, k] == 1 and out[q, k] == 0:
                    out[q, k] = sign
    return out


@njit
def closure(
    penalty: FusedPair,
    rows: FloatArray,
    joined: BoolArray,
    factor: FloatArray,
    limits: FloatArray,
    work: PenaltyWorkspace,
) -> BoolArray:
    """Smallest superset (m, K) of the `joined` classes outside of which the entry is zero for any data inside.

    The other classes may be screened out if each set Q of them has ``|wS(Q)| <= l1(Q) + cut(Q, others) - cut(Q,
    joined)``: the sufficient condition with the largest possible derivative from the joined classes. `factor` and
    `limits` as in `signs`.
    """
    m, K = rows.shape
    out, classes = joined.copy(), np.arange(K)
    for q in range(m):
        limit, scale = limits[q if limits.shape[0] > 1 else 0], _l1_norm(rows[q])
        pair = PairClasses(classes, K, factor[q] if factor.shape[0] else 1.0, limit, work)
        load_graph(penalty, pair)
        grown = True
        while grown:
            grown = False
            for side in range(2):
                sign = 1.0 - 2.0 * side
                for k in range(K):
                    work.integer[LABEL, k] = 0 if out[q, k] else 1
                    gain = sign * rows[q, k] - work.real[L1, k] + _MARGIN * scale
                    for j in range(K):
                        if out[q, j]:
                            gain += pair.v * penalty.class_graph[k, j]
                    work.real[GAIN, k] = gain
                max_cut_set(penalty.shape, K, ALL, SLACK * scale, work)
                for k in range(K):
                    if work.integer[CHOSEN, k] == 1:
                        out[q, k] = True
                        grown = True
    return out


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
    n_pairs, n_class_pairs = entries.start.shape[0] - 1, class_pairs.shape[0]
    zero, equal = np.zeros(u.shape[0], dtype=np.bool_), np.zeros((n_pairs, n_class_pairs), dtype=np.bool_)
    position, l1 = work.integer, np.empty(entries.n_classes)
    for q in range(n_pairs):
        first, last = entries.start[q], entries.start[q + 1]
        v = entries.factor[q] if entries.factor.shape[0] else 1.0
        all_below = True
        for i in range(first, last):  # nearly all entries are far below the threshold of their class
            weight = entries.l1[i] if entries.l1.shape[0] else v
            l1[i - first] = times(penalty.l1[entries.cls[i]], weight)
            all_below = all_below and abs(u[i]) + radius[i] < (1.0 - 1e-9) * l1[i - first]
        zero[first:last] = True
        equal[q] = True
        if all_below:
            continue
        pair = PairClasses(entries.cls[first:last], last - first, v, l1, work)
        load_graph(penalty, pair)
        margin = _l1_norm(u[first:last])
        for i in range(pair.n):
            if work.real[L1, i] < np.inf:  # else forbidden in this class
                margin += work.real[L1, i]
        ball = DualBall(u[first:last], radius[first:last], _MARGIN * margin)
        if _no_tight_set(penalty.shape, ball, work):
            continue
        zero[first:last] = False
        equal[q] = False
        if penalty.shape == FOREST:
            _largest_in_forest(ball, work)
        for i in range(pair.n):
            if theta[first + i] == 0.0:
                if penalty.shape == FOREST:
                    zero[first + i] = not work.real[CONTAINED, i] > 0.0
                else:
                    zero[first + i] = not _may_be_tight(penalty.shape, ball, i, -1, work)
        for t in range(n_class_pairs):
            i, j = position[POSITION, class_pairs[t, 0]], position[POSITION, class_pairs[t, 1]]
            if i < 0 or j < 0:
                equal[q, t] = max(i, j) < 0 or zero[first + max(i, j)]
            elif theta[first + i] == theta[first + j] and penalty.shape == FOREST:
                child = i if position[PARENT, i] == j else j
                equal[q, t] = not work.real[SEPARATED, child] > 0.0
            elif theta[first + i] == theta[first + j]:
                equal[q, t] = not (
                    _may_be_tight(penalty.shape, ball, i, j, work) or _may_be_tight(penalty.shape, ball, j, i, work)
                )
    return zero, equal


@njit_no_refcount
def _no_tight_set(shape: int, ball: DualBall, work: PenaltyWorkspace) -> bool:
    """Whether no set Q may be tight for any dual point in the ball."""
    for side in range(2):
        for k in range(ball.u.shape[0]):
            work.integer[LABEL, k] = 1
            work.real[GAIN, k] = (1.0 - 2.0 * side) * ball.u[k] + ball.radius[k] - work.real[L1, k] + ball.margin
        if max_cut_set(shape, ball.u.shape[0], ALL, 0.0, work) > 0.0:
            return False
    return True


@njit_no_refcount
def _may_be_tight(shape: int, ball: DualBall, included: int, excluded: int, work: PenaltyWorkspace) -> bool:
    """Whether a set that contains `included`, and not `excluded` (unless negative), may be tight."""
    u, real, n = ball.u, work.real, ball.u.shape[0]
    if real[L1, included] == np.inf:  # a forbidden entry is in no tight set
        return False
    total = 0.0  # upper bound on the sum of all edge weights
    for k in range(n):
        if shape == GENERAL:
            for j in range(k):
                total += real[GRAPH + k, j]
        else:
            total += real[MASS, k]
    if shape == COMPLETE:
        total *= total
    for side in range(2):
        sign = 1.0 - 2.0 * side
        big_m = 1.0
        max_gain = 0.0
        for k in range(n):
            work.integer[LABEL, k] = 1
            gain = sign * u[k] + ball.radius[k] - real[L1, k] + ball.margin
            real[GAIN, k] = gain
            big_m += abs(gain) if gain > -np.inf else 0.0
            max_gain += gain if k == included else max(gain, 0.0)
        # A gain above the sum of all other gains and edge weights forces one class into Q, or out of it.
        big_m += total
        if max_gain < -1e-12 * big_m:  # an upper bound for every set, whatever the edge weights
            continue
        real[GAIN, included] += big_m
        if excluded >= 0:
            real[GAIN, excluded] -= big_m
        if max_cut_set(shape, n, ALL, 0.0, work) - big_m > -1e-13 * big_m:
            return True
    return False


@njit_no_refcount
def _largest_in_forest(ball: DualBall, work: PenaltyWorkspace) -> None:
    """Whether a set that contains a class, or separates it from its parent, may be tight: rows CONTAINED, SEPARATED.

    They are the largest gain less cut of such a set, plus a bound on the rounding error. Dynamic programming: two rows
    from BELOW on are the best values in the subtree of a class outside or inside of the set, from WHOLE on in the
    forest.
    """
    u, radius, real, integer, n = ball.u, ball.radius, work.real, work.integer, ball.u.shape[0]
    for i in range(n):
        real[CONTAINED, i], real[SEPARATED, i] = -np.inf, -np.inf
    for side in range(2):
        sign = 1.0 - 2.0 * side
        rest, size = 0.0, 0.0
        for i in range(n):
            gain = sign * u[i] + radius[i] - real[L1, i] + ball.margin
            real[BELOW, i], real[BELOW + 1, i] = 0.0, gain
            size += (abs(gain) if gain > -np.inf else 0.0) + real[MASS, i]
        for step in range(n - 1, -1, -1):
            i = integer[ORDER, step]
            parent, edge = integer[PARENT, i], real[MASS, i]
            if parent < 0:
                rest += max(real[BELOW, i], real[BELOW + 1, i])
            else:
                for state in range(2):
                    real[BELOW + state, parent] += max(real[BELOW + state, i], real[BELOW + 1 - state, i] - edge)
        for step in range(n):
            i = integer[ORDER, step]
            parent, edge = integer[PARENT, i], real[MASS, i]
            for state in range(2):
                own, flipped = real[BELOW + state, i], real[BELOW + 1 - state, i]
                if parent < 0:
                    real[WHOLE + state, i] = own + rest - max(real[BELOW, i], real[BELOW + 1, i])
                    continue
                same = real[WHOLE + state, parent] - max(own, flipped - edge)
                other = real[WHOLE + 1 - state, parent] - max(flipped, own - edge) - edge
                real[WHOLE + state, i] = own + max(same, other)
                real[SEPARATED, i] = max(real[SEPARATED, i], own + other + 1e-12 * size)
            real[CONTAINED, i] = max(real[CONTAINED, i], real[WHOLE + 1, i] + 1e-12 * size)
