"""The set problem of the fused penalty for many pairs, one for each row: screening and certificates consist of it."""

from __future__ import annotations

import numpy as np

from jointglasso._typing import BoolArray, FloatArray
from jointglasso.kernels.jit import njit
from jointglasso.kernels.pair_types import FusedPair, PairClasses, PenaltyWorkspace
from jointglasso.kernels.submodular import ALL, CHOSEN, GAIN, L1, LABEL, load_graph, max_cut_set


@njit
def extreme_sets(
    penalty: FusedPair,
    u: FloatArray,
    radius: FloatArray,
    present: BoolArray,
    factor: FloatArray,
    limits: FloatArray,
    work: PenaltyWorkspace,
) -> BoolArray:
    """Smallest sets Q (2, m, K) of each pair that maximise ``linear(Q) - l1(Q) - cut(Q)``, linear = radius +- u.

    The minimisers of ``sum a x^2 / 2 - b x + phi(x)`` at b = u + radius and u - radius are positive in the one and
    negative in the other, for any a > 0. The pairs exist in the classes `present` (m, K). `factor` (m,) weighs the
    coupling terms, empty where all are 1; `limits` are the weights of |t| of each class, (m, K), or (1, K) where those
    of all pairs are equal.
    """
    m, K = u.shape
    out, cls, l1 = np.zeros((2, m, K), dtype=np.bool_), np.empty(K, np.int64), np.empty(K)
    for q in range(m):
        n = 0
        is_below = True
        for k in range(K):
            if present[q, k]:
                cls[n], l1[n] = k, limits[q if limits.shape[0] > 1 else 0, k]
                is_below = is_below and abs(u[q, k]) + radius[q, k] <= l1[n]
                n += 1
        if is_below:
            continue
        load_graph(penalty, PairClasses(cls, n, factor[q] if factor.shape[0] else 1.0, l1, work))
        for side in range(2):
            for i in range(n):
                k = cls[i]
                work.integer[LABEL, i] = ALL
                work.real[GAIN, i] = radius[q, k] + (1.0 - 2.0 * side) * u[q, k] - work.real[L1, i]
            max_cut_set(penalty.shape, n, ALL, 0.0, work)
            for i in range(n):
                out[side, q, cls[i]] = work.integer[CHOSEN, i] == 1
    return out
