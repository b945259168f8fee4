"""The sparse-group penalty on pairs: value, proximal operator, subgradient, gauge.

Every function sees the entries pair by pair: the copies of pair q, one per class that may hold it, are
``values[start[q]:start[q + 1]]``. The penalty of one pair is ``factor[q] * (lambda1*|x|_1 + lambda2*|x|_2)``; an
empty `factor` stands for ones.
"""

from __future__ import annotations

import numpy as np

from jointglasso._typing import FloatArray, IntArray
from jointglasso.kernels.cache import njit


@njit(cache=True, nogil=True)
def soft(value: float, threshold: float) -> float:
    """Soft-threshold one number."""
    if value > threshold:
        return value - threshold
    if value < -threshold:
        return value + threshold
    return 0.0


@njit(cache=True, nogil=True)
def of_pair(factor: FloatArray, pair: int, lambda1: float, lambda2: float) -> tuple[float, float]:
    """Penalties of one pair."""
    if factor.shape[0] == 0:
        return lambda1, lambda2
    return factor[pair] * lambda1, factor[pair] * lambda2


@njit(cache=True, nogil=True)
def value(values: FloatArray, start: IntArray, factor: FloatArray, lambda1: float, lambda2: float) -> FloatArray:
    """Penalty of each pair."""
    n_pairs = start.shape[0] - 1
    out = np.empty(n_pairs)
    for pair in range(n_pairs):
        absolute = 0.0
        squares = 0.0
        for entry in range(start[pair], start[pair + 1]):
            absolute += abs(values[entry])
            squares += values[entry] * values[entry]
        l1, l2 = of_pair(factor, pair, lambda1, lambda2)
        out[pair] = l1 * absolute + l2 * np.sqrt(squares)
    return out


@njit(cache=True, nogil=True)
def used(
    values: FloatArray, start: IntArray, factor: FloatArray, lambda1: float, lambda2: float, out: FloatArray
) -> None:
    """Write the part of the dual budget of each pair that its entries use, added up in the order of the classes."""
    for pair in range(start.shape[0] - 1):
        l1, _ = of_pair(factor, pair, lambda1, lambda2)
        out[pair] = 0.0
        for entry in range(start[pair], start[pair + 1]):
            over = max(abs(values[entry]) - l1, 0.0)
            out[pair] += over * over


@njit(cache=True, nogil=True)
def prox(
    values: FloatArray, start: IntArray, factor: FloatArray, step: FloatArray, lambda1: float, lambda2: float
) -> FloatArray:
    """Proximal operator of ``step[q]`` times the penalty, pair by pair: soft-threshold, then shrink the norm."""
    out = np.empty_like(values)
    for pair in range(start.shape[0] - 1):
        l1, l2 = of_pair(factor, pair, lambda1, lambda2)
        squares = 0.0
        for entry in range(start[pair], start[pair + 1]):
            shrunk = soft(values[entry], step[pair] * l1)
            out[entry] = shrunk
            squares += shrunk * shrunk
        norm = np.sqrt(squares)
        limit = step[pair] * l2
        shrink = 1.0 - limit / norm if norm > limit else 0.0
        for entry in range(start[pair], start[pair + 1]):
            out[entry] *= shrink
    return out


@njit(cache=True, nogil=True)
def nearest_subgradient(
    theta: FloatArray,
    wanted: FloatArray,
    start: IntArray,
    factor: FloatArray,
    lambda1: float,
    lambda2: float,
    spent: FloatArray,
) -> FloatArray:
    """Point of the subdifferential at `theta` nearest to `wanted`, pair by pair.

    ``spent[q]`` is the part of lambda2**2 already used up by classes that may not hold pair q (zero under
    condition (8)); only what remains is left for the entries of an all-zero pair.
    """
    out = np.empty_like(wanted)
    for pair in range(start.shape[0] - 1):
        first = start[pair]
        last = start[pair + 1]
        l1, l2 = of_pair(factor, pair, lambda1, lambda2)
        squares = 0.0
        for entry in range(first, last):
            squares += theta[entry] * theta[entry]
        if squares > 0.0:
            norm = np.sqrt(squares)
            for entry in range(first, last):
                if theta[entry] != 0.0:
                    out[entry] = l1 * np.sign(theta[entry]) + l2 * theta[entry] / norm
                else:
                    out[entry] = min(max(wanted[entry], -l1), l1)
        else:
            for entry in range(first, last):
                excess = soft(wanted[entry], l1)
                squares += excess * excess
            norm = np.sqrt(squares)
            radius = np.sqrt(max(l2 * l2 - spent[pair], 0.0))
            outside = 1.0 - radius / norm if norm > radius else 0.0
            for entry in range(first, last):
                out[entry] = wanted[entry] - outside * soft(wanted[entry], l1)
    return out


@njit(cache=True, nogil=True)
def gauge(values: FloatArray, start: IntArray, factor: FloatArray, lambda1: float, lambda2: float) -> FloatArray:
    """Smallest g >= 0 for each pair with its values in g times the dual ball.

    The dual ball is ``{u : sum_k (|u_k| - lambda1)_+^2 <= lambda2^2}``. With the m largest |u_k| above g*lambda1
    the boundary is the quadratic (m lambda1^2 - lambda2^2) g^2 - 2 lambda1 A g + Q = 0, A and Q their sum and
    sum of squares; the smaller root is the one with every excess positive.
    """
    n_pairs = start.shape[0] - 1
    out = np.zeros(n_pairs)
    for pair in range(n_pairs):
        ordered = np.sort(np.abs(values[start[pair] : start[pair + 1]]))[::-1]
        if ordered.shape[0] == 0 or ordered[0] == 0.0:
            continue
        l1, l2 = of_pair(factor, pair, lambda1, lambda2)
        if l1 + l2 == 0.0:
            out[pair] = np.inf
            continue
        total = 0.0
        squares = 0.0
        for m in range(1, ordered.shape[0] + 1):
            total += ordered[m - 1]
            squares += ordered[m - 1] * ordered[m - 1]
            quadratic = m * l1 * l1 - l2 * l2
            discriminant = (l1 * total) ** 2 - quadratic * squares
            # The stable form of the smaller root never divides by a vanishing leading coefficient.
            root = squares / (l1 * total + np.sqrt(max(discriminant, 0.0)))
            following = ordered[m] if m < ordered.shape[0] else 0.0
            if root * l1 >= following:
                out[pair] = root
                break
    return out
