"""The meaning of the kernels in plain NumPy: slow, short, and the oracle the compiled versions are tested against."""

from __future__ import annotations

import numpy as np

from jointglasso._typing import BoolArray, FloatArray, IntArray


def mark_above(tile: FloatArray, weight: float, threshold: float, upper_only: bool) -> IntArray:
    """Flat positions of the entries with ``weight*|x| > threshold``, in row order."""
    above = weight * np.abs(tile) > threshold
    return np.flatnonzero(np.triu(above, 1) if upper_only else above)


def mark_possibly_above(
    tile: FloatArray,
    row_scale: FloatArray,
    column_scale: FloatArray,
    error: float,
    threshold: float,
    upper_only: bool,
) -> IntArray:
    """Flat positions of the entries whose true value, within `error` of the rough one, may be above."""
    largest = np.multiply.outer(row_scale, column_scale) * (np.abs(tile.astype(float)) + error)
    above = largest * (1.0 + 1e-12) > threshold
    return np.flatnonzero(np.triu(above, 1) if upper_only else above)


def components(n_nodes: int, rows: IntArray, columns: IntArray) -> IntArray:
    """Number the connected components by their smallest member: spread the smallest label until nothing changes."""
    labels = np.arange(n_nodes)
    while True:
        spread = labels.copy()
        np.minimum.at(spread, rows, labels[columns])
        np.minimum.at(spread, columns, labels[rows])
        if np.array_equal(spread, labels):
            return np.unique(labels, return_inverse=True)[1]
        labels = spread


def class_components(n_variables: int, rows: IntArray, columns: IntArray, in_class: BoolArray) -> IntArray:
    """Components of each class's own edges."""
    return np.stack([components(n_variables, rows[e], columns[e]) for e in in_class.T])


def hybrid_closure(
    n_variables: int, rows: IntArray, columns: IntArray, above: BoolArray, strong: BoolArray
) -> IntArray:
    """Algorithm 1 in passes: join the active pairs, activate the pairs whose ends met in some class, repeat."""
    active = strong.copy()
    while True:
        labels = class_components(n_variables, rows, columns, above & active[:, None])
        met = (labels[:, rows] == labels[:, columns]).any(axis=0)
        if not (met & ~active).any():
            return labels
        active |= met


def couple_blocks(block_members: list[set[int]], block_class: list[int], coupled: BoolArray) -> IntArray:
    """Tie blocks of different classes that are coupled and share a pair of variables into groups."""
    n = len(block_members)
    ties = [
        (a, b)
        for a in range(n)
        for b in range(a + 1, n)
        if block_class[a] != block_class[b]
        and coupled[block_class[a], block_class[b]]
        and len(block_members[a] & block_members[b]) >= 2
    ]
    rows, columns = np.array(ties, dtype=np.int64).reshape(-1, 2).T
    return components(n, rows, columns)


def _pair_of_entry(start: IntArray) -> IntArray:
    return np.repeat(np.arange(len(start) - 1), np.diff(start))


def _pair_norm(values: FloatArray, start: IntArray) -> FloatArray:
    return np.sqrt(np.bincount(_pair_of_entry(start), values**2, minlength=len(start) - 1))


def soft(values: FloatArray, threshold: FloatArray | float) -> FloatArray:
    """Soft-threshold: shrink towards zero by `threshold`."""
    shrunk: FloatArray = np.sign(values) * np.maximum(np.abs(values) - threshold, 0.0)
    return shrunk


def _factors(factor: FloatArray, start: IntArray) -> FloatArray:
    """Weight of each pair; an empty array stands for ones."""
    return factor if len(factor) else np.ones(len(start) - 1)


def of_pair(factor: FloatArray, pair: int, lambda1: float, lambda2: float) -> tuple[float, float]:
    """Penalties of one pair."""
    v = float(factor[pair]) if len(factor) else 1.0
    return v * lambda1, v * lambda2


def penalty_value(
    values: FloatArray, start: IntArray, factor: FloatArray, lambda1: float, lambda2: float
) -> FloatArray:
    """``factor * (lambda1*|x|_1 + lambda2*|x|_2)`` of each pair."""
    absolute = np.bincount(_pair_of_entry(start), np.abs(values), minlength=len(start) - 1)
    total: FloatArray = _factors(factor, start) * (lambda1 * absolute + lambda2 * _pair_norm(values, start))
    return total


def penalty_prox(
    values: FloatArray, start: IntArray, factor: FloatArray, step: FloatArray, lambda1: float, lambda2: float
) -> FloatArray:
    """Soft-threshold every entry, then shrink the norm of every pair."""
    pair = _pair_of_entry(start)
    length = step * _factors(factor, start)
    shrunk = soft(values, length[pair] * lambda1)
    norm = _pair_norm(shrunk, start)
    limit = length * lambda2
    shrink = np.where(norm > limit, 1.0 - limit / np.where(norm > 0, norm, 1.0), 0.0)
    result: FloatArray = shrunk * shrink[pair]
    return result


def nearest_subgradient(
    theta: FloatArray,
    wanted: FloatArray,
    start: IntArray,
    factor: FloatArray,
    lambda1: float,
    lambda2: float,
) -> FloatArray:
    """Nearest point of the subdifferential of the penalty at `theta`."""
    pair = _pair_of_entry(start)
    v = _factors(factor, start)
    norm = _pair_norm(theta, start)[pair]
    gradient = v[pair] * (lambda1 * np.sign(theta) + lambda2 * theta / np.where(norm > 0, norm, 1.0))
    on_nonzero_pair = np.where(theta != 0, gradient, np.clip(wanted, -v[pair] * lambda1, v[pair] * lambda1))
    excess = soft(wanted, v[pair] * lambda1)
    excess_norm = _pair_norm(excess, start)
    radius = v * lambda2
    outside = np.where(excess_norm > radius, 1.0 - radius / np.where(excess_norm > 0, excess_norm, 1.0), 0.0)
    return np.where(norm > 0, on_nonzero_pair, wanted - outside[pair] * excess)


def gauge(values: FloatArray, start: IntArray, factor: FloatArray, lambda1: float, lambda2: float) -> FloatArray:
    """Smallest g with the values of each pair inside g times the dual ball, by bisection."""
    result = np.zeros(len(start) - 1)
    for pair in range(len(start) - 1):
        u = np.abs(values[start[pair] : start[pair + 1]])
        l1, l2 = of_pair(factor, pair, lambda1, lambda2)
        # Inside the ball as soon as every entry is below g lambda1, or their norm below g lambda2.
        enough = [u.max(initial=0.0) / l1] if l1 else []
        enough += [float(np.linalg.norm(u)) / l2] if l2 else []
        low, high = 0.0, min(enough, default=np.inf if u.any() else 0.0)
        if not np.isfinite(high):
            result[pair] = high
            continue
        for _ in range(200):
            middle = 0.5 * (low + high)
            inside = np.sum(np.maximum(u - middle * l1, 0.0) ** 2) <= (middle * l2) ** 2
            low, high = (low, middle) if inside else (middle, high)
        result[pair] = high
    return result


def factor_and_invert(stack: FloatArray) -> tuple[FloatArray, FloatArray, BoolArray]:
    """Inverses, log-determinants, and which matrices are positive definite."""
    ok = np.array([np.linalg.eigvalsh(matrix).min() > 0 for matrix in stack], dtype=bool)
    safe = np.where(ok[:, None, None], stack, np.eye(stack.shape[1]))
    return np.linalg.inv(safe), np.linalg.slogdet(safe)[1], ok
