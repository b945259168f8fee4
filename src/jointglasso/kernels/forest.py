"""Closed form on forests: where the edges of each class form trees, every edge is a problem in two variables."""

from __future__ import annotations

import numpy as np

from jointglasso._typing import BoolArray, FloatArray, IntArray
from jointglasso.kernels.jit import njit, njit_internal
from jointglasso.kernels.pair_types import GroupPair


@njit_internal
def _covariance_at(r: float, c: float, weight: float, product: float, lambda2: float) -> float:
    """Root m in [0, c] of ``m (1 + a / (d - m^2)) = c`` with a = lambda2 / (weight r), d = product.

    The left side is increasing and convex in m, so that Newton's method decreases monotonically from the right end.
    """
    a = lambda2 / (weight * r)
    m = min(c, np.sqrt(product) * (1.0 - 1e-9))  # there is a pole at correlation 1
    if m * (1.0 + a / (product - m * m)) <= c:
        return m
    for _ in range(100):
        determinant = product - m * m
        value = m * (1.0 + a / determinant) - c
        derivative = 1.0 + a / determinant + 2.0 * a * m * m / (determinant * determinant)
        step = value / derivative
        m -= step
        if abs(step) <= 1e-15 * c:  # a few units in the last place
            break
    return max(m, 0.0)


@njit_internal
def _norm_ratio(
    r: float, c: FloatArray, weight: FloatArray, product: FloatArray, lambda2: float, m: FloatArray
) -> float:
    """``|theta|_2 / r - 1`` for an assumed norm r, decreasing in r; writes the covariances m (n,)."""
    squares = 0.0
    for k in range(c.shape[0]):
        m[k] = _covariance_at(r, c[k], weight[k], product[k], lambda2)
        theta = m[k] / (product[k] - m[k] * m[k])
        squares += theta * theta
    return np.sqrt(squares) / r - 1.0


@njit_internal
def pair_covariance(
    S: FloatArray, weight: FloatArray, product: FloatArray, l1: FloatArray, lambda2: float
) -> FloatArray:
    """Optimal W_ij (n,) of a two-variable problem in n classes, all with ``weight |S_ij| > l1``.

    `product` (n,) is W_ii W_jj, `l1` (n,) the weight of |theta|. With c = |S| - l1 / w the KKT conditions are
    |W_k| = c_k - (lambda2 / w_k) |theta_k| / |theta| and |theta_k| = |W_k| / (W_ii W_jj - W_k^2). For given r = |theta|
    each class is a scalar equation; r is the root of |theta(r)| / r = 1, found by bracketing and the Illinois secant
    method.
    """
    n = S.shape[0]
    c = np.empty(n)
    m = np.zeros(n)
    squared_norm = 0.0
    low = 0.0
    for k in range(n):
        c[k] = abs(S[k]) - l1[k] / weight[k]
        squared_norm += (weight[k] * c[k]) ** 2
        low += (c[k] / product[k]) ** 2
    if squared_norm <= lambda2 * lambda2:
        return m
    if n == 1 or lambda2 == 0.0:
        for k in range(n):
            m[k] = np.sign(S[k]) * (c[k] - lambda2 / weight[k])
        return m
    low = high = np.sqrt(low)
    value_low = value_high = _norm_ratio(low, c, weight, product, lambda2, m)
    while value_low < 0.0:
        high, value_high = low, value_low
        low *= 0.25
        value_low = _norm_ratio(low, c, weight, product, lambda2, m)
    while value_high >= 0.0:
        low, value_low = high, value_high
        high *= 4.0
        value_high = _norm_ratio(high, c, weight, product, lambda2, m)
    last_side = 0
    for _ in range(200):
        r = low - value_low * (high - low) / (value_high - value_low) if value_high != value_low else low
        value = _norm_ratio(r, c, weight, product, lambda2, m)
        # Illinois: halve the value at an end that is retained twice in a row, so that both ends converge.
        if value > 0.0:
            low, value_low = r, value
            value_high *= 0.5 if last_side == 1 else 1.0
            last_side = 1
        else:
            high, value_high = r, value
            value_low *= 0.5 if last_side == -1 else 1.0
            last_side = -1
        if abs(value) <= 4e-16 or high - low <= 4e-16 * high:
            break
    for k in range(n):
        m[k] *= np.sign(S[k])
    return m


@njit
def forest_covariances(
    first: int,
    last: int,
    start: IntArray,
    factor: FloatArray,
    taken: BoolArray,
    entry_data: tuple[FloatArray, FloatArray, FloatArray, FloatArray],
    penalty: GroupPair,
    W: FloatArray,
) -> None:
    """Write W_ij of the taken entries of pairs first..last-1.

    `entry_data` is (S_ij, weight, W_ii W_jj, weight of |theta_ij|), (E,) each; `factor` (P,) weighs the coupling terms
    and is empty where all are 1.
    """
    S, weight, product, threshold = entry_data
    for pair in range(first, last):
        n = 0
        for entry in range(start[pair], start[pair + 1]):
            if taken[entry]:
                n += 1
        if n == 0:
            continue
        s, w, d, l1 = np.empty(n), np.empty(n), np.empty(n), np.empty(n)
        n = 0
        for entry in range(start[pair], start[pair + 1]):
            if taken[entry]:
                s[n], w[n], d[n], l1[n] = S[entry], weight[entry], product[entry], threshold[entry]
                n += 1
        v = 1.0 if factor.shape[0] == 0 else factor[pair]
        covariances = pair_covariance(s, w, d, l1, v * penalty.lambda2)
        n = 0
        for entry in range(start[pair], start[pair + 1]):
            if taken[entry]:
                W[entry] = covariances[n]
                n += 1
