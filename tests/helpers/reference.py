"""The meaning of the kernels in plain NumPy: slow, short, and the oracle the compiled versions are tested against."""

from __future__ import annotations

import numpy as np

from jointglasso._typing import BoolArray, FloatArray, IntArray
from jointglasso.kernels.pair_types import SparseColumns


def mark_above(
    tile: FloatArray, row_limit: FloatArray, column_limit: FloatArray, slack: float, upper_only: bool
) -> IntArray:
    """Flat positions of the entries with ``|x_ij| + slack > row_limit_i column_limit_j``, in row order."""
    above = np.abs(tile) + slack > np.multiply.outer(row_limit, column_limit)
    return np.flatnonzero(np.triu(above, 1) if upper_only else above)


def components(n_nodes: int, rows: IntArray, columns: IntArray) -> tuple[IntArray, BoolArray]:
    """Labels of the components, and the edges whose ends are in different components of the edges before them."""
    labels = [_components(n_nodes, rows[:e], columns[:e]) for e in range(len(rows) + 1)]
    return labels[-1], np.array([at[i] != at[j] for at, i, j in zip(labels, rows, columns, strict=False)], dtype=bool)


def _components(n_nodes: int, rows: IntArray, columns: IntArray) -> IntArray:
    """Number the connected components by their smallest member: spread the smallest label until nothing changes."""
    labels = np.arange(n_nodes)
    while True:
        spread = labels.copy()
        np.minimum.at(spread, rows, labels[columns])
        np.minimum.at(spread, columns, labels[rows])
        if np.array_equal(spread, labels):
            return np.unique(labels, return_inverse=True)[1]
        labels = spread


def _class_components(n_variables: int, rows: IntArray, columns: IntArray, in_class: BoolArray) -> IntArray:
    """Components of each class's own edges."""
    return np.stack([_components(n_variables, rows[e], columns[e]) for e in in_class.T])


def hybrid_closure(
    n_variables: int, rows: IntArray, columns: IntArray, above: BoolArray, strong: BoolArray
) -> BoolArray:
    """Algorithm 1 in passes: join the active pairs, activate the pairs whose ends met in some class, repeat."""
    active = strong.copy()
    while True:
        labels = _class_components(n_variables, rows, columns, above & active[:, None])
        met = (labels[:, rows] == labels[:, columns]).any(axis=0)
        if not (met & ~active).any():
            return active
        active |= met


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


def times(threshold: float, weight: float) -> float:
    """``threshold * weight``, infinite for an infinite weight."""
    return threshold * weight if np.isfinite(weight) else np.inf


def _of_pair(factor: FloatArray, pair: int, lambda1: float, lambda2: float) -> tuple[float, float]:
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
        l1, l2 = _of_pair(factor, pair, lambda1, lambda2)
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


def trace_and_squares(R: FloatArray, Theta: FloatArray) -> tuple[float, float]:
    """``tr(R Theta)`` and ``tr(R Theta R Theta)``."""
    return np.trace(R @ Theta), np.trace(R @ Theta @ R @ Theta)


def scaled_row_sums(A: FloatArray, scale: FloatArray) -> FloatArray:
    """Row sums of ``|A|``, rows and columns scaled."""
    return np.sum(np.abs(A) * np.multiply.outer(scale, scale), axis=1)


def block_of(flat: FloatArray, offset: IntArray, size: IntArray, block: int) -> FloatArray:
    """One block of flat storage."""
    return np.split(flat, offset[1:-1])[block].reshape(size[block], size[block])


def cholesky(A: FloatArray) -> tuple[FloatArray, float]:
    """Cholesky factor and log-determinant."""
    return np.linalg.cholesky(A), np.linalg.slogdet(A)[1]


def invert(L: FloatArray) -> FloatArray:
    """Inverse of ``L L'``."""
    return np.linalg.inv(L @ L.T)


def copy(row: FloatArray, out: FloatArray) -> FloatArray:
    """`out` with the row at its beginning."""
    return np.concatenate([row, out[len(row) :]])


def axpy(factor: float, row: FloatArray, out: FloatArray) -> FloatArray:
    """``out + factor * row``."""
    return out + factor * row


def diagonal_entry(variance: float, square: float) -> float:
    """Positive root tau of ``variance tau^2 - tau - square = 0``."""
    return max(np.roots([variance, -1.0, -square]))


def members_of_entries(within: IntArray, size: IntArray, start: IntArray) -> tuple[IntArray, IntArray]:
    """Members in row and column of positions within blocks, given size and first member of the block of each."""
    row, column = np.divmod(within, size)
    return start + row, start + column


def index_pairs(block_of: IntArray, slot_of: IntArray, offset: IntArray, size: IntArray) -> list[list[int]]:
    """CSR start, upper and lower positions and blocks of the entries of all pairs that share a block."""
    start, upper, lower, blocks = [0], [], [], []
    for i, j in zip(*np.triu_indices(block_of.shape[1], 1), strict=True):
        for k in np.flatnonzero((block_of[:, i] >= 0) & (block_of[:, i] == block_of[:, j])):
            b, row, column = block_of[k, i], slot_of[k, i], slot_of[k, j]
            upper.append(offset[b] + row * size[b] + column)
            lower.append(offset[b] + column * size[b] + row)
            blocks.append(b)
        if len(upper) > start[-1]:
            start.append(len(upper))
    return [start, upper, lower, blocks]


def pair_covariance(
    S: FloatArray, weight: FloatArray, product: FloatArray, lambda1: float, lambda2: float
) -> FloatArray:
    """W_ij of a two-variable problem: bisection on r = |theta|, a cubic equation in each class for given r."""
    c, low, high = np.abs(S) - lambda1 / weight, 1e-12, 1e12
    if ((weight * c) ** 2).sum() <= lambda2**2:
        return np.zeros_like(S)
    for _ in range(200):
        r = np.sqrt(low * high)
        cubics = [
            np.roots([1.0, -x, -d - lambda2 / (w * r), x * d]) for x, w, d in zip(c, weight, product, strict=True)
        ]
        m = np.array([min(x for x in cubic.real if x >= 0.0) for cubic in cubics])
        low, high = (r, high) if np.linalg.norm(m / (product - m * m)) > r else (low, r)
    return np.sign(S) * m


def forest_covariances(
    start: IntArray, factor: FloatArray, taken: BoolArray, entry_data: FloatArray, lambda1: float, lambda2: float
) -> FloatArray:
    """W_ij of the taken entries, pair by pair, zero elsewhere; `entry_data` (3, E) is S_ij, weight and W_ii W_jj."""
    W = np.zeros(len(taken))
    for pair in range(len(start) - 1):
        entries = start[pair] + np.flatnonzero(taken[start[pair] : start[pair + 1]])
        if len(entries):
            W[entries] = pair_covariance(*entry_data[:, entries], *_of_pair(factor, pair, lambda1, lambda2))
    return W


def colours(adjacency: BoolArray, order: IntArray, max_size: int) -> IntArray:
    """Each variable in turn gets the first colour that none of its neighbours and fewer than `max_size` have."""
    colour = np.full(len(order), -1)
    for j in order:
        free = (c for c in range(len(order)) if c not in colour[adjacency[j]] and (colour == c).sum() < max_size)
        colour[j] = next(free)
    return colour


def cut_batches(adjacency: BoolArray, max_size: int) -> list[int]:
    """Bounds of runs of variables, each as long as `max_size` and the edges among its variables permit."""
    bounds = [0]
    for j in range(len(adjacency)):
        if j - bounds[-1] >= max_size or adjacency[j, bounds[-1] : j].any():
            bounds.append(j)
    return [*bounds, len(adjacency)]


def is_dual_feasible(
    values: FloatArray, start: IntArray, factor: FloatArray, lambda1: float, lambda2: float
) -> BoolArray:
    """Whether the excess over lambda1 of each pair has a norm of at most lambda2."""
    v = _factors(factor, start)
    excess = soft(values, (v * lambda1)[_pair_of_entry(start)])
    return np.bincount(_pair_of_entry(start), excess**2, minlength=len(v)) <= (v * lambda2) ** 2


def penalty_update(
    a: FloatArray, b: FloatArray, start: IntArray, factor: FloatArray, lambda1: float, lambda2: float
) -> FloatArray:
    """Minimiser of ``sum a x^2 / 2 - b x`` plus the penalty: x = s r / (a r + lambda2), bisection on r = |x|."""
    out = np.zeros(len(a))
    for pair in range(len(start) - 1):
        s, (l1, l2) = slice(start[pair], start[pair + 1]), _of_pair(factor, pair, lambda1, lambda2)
        shrunk, low, high = soft(b[s], l1), 1e-15, 1e15
        for _ in range(300 if np.linalg.norm(shrunk) > l2 else 0):
            r = np.sqrt(low * high)
            low, high = (r, high) if np.linalg.norm(shrunk / (a[s] * r + l2)) > 1.0 else (low, r)
            out[s] = shrunk / a[s] if l2 == 0.0 else shrunk * r / (a[s] * r + l2)
    return out


def subgradient(theta: FloatArray, target: FloatArray, v: float, lambda1: float, lambda2: float) -> FloatArray:
    """Nearest subgradient of one pair."""
    return nearest_subgradient(theta, target, np.array([0, len(theta)]), np.array([v]), lambda1, lambda2)


def gradient(theta: FloatArray, v: float, lambda1: float, lambda2: float) -> FloatArray:
    """Gradient of one pair on its face, zero at zeros."""
    norm = np.linalg.norm(theta)
    return v * (lambda1 * np.sign(theta) + lambda2 * theta / (norm if norm > 0.0 else 1.0))


def clusters(theta: FloatArray) -> IntArray:
    """Number of each non-zero entry, -1 at zeros."""
    return np.where(theta != 0.0, np.cumsum(theta != 0.0) - 1, -1)


def hvp(theta: FloatArray, v: float, lambda2: float, step: FloatArray) -> FloatArray:
    """Product of the Hessian of ``v lambda2 |theta|`` and a step."""
    norm = np.linalg.norm(theta)
    direction = theta / norm
    return v * lambda2 / norm * (step - direction * (direction @ step))


def sort_by_ratio(u: FloatArray, l1: FloatArray) -> FloatArray:
    """|u| and l1, (2, m), by decreasing ratio, without the entries that are zero or forbidden."""
    bounding = np.stack([np.abs(u), l1])[:, (u != 0.0) & (l1 < np.inf)]
    with np.errstate(divide="ignore"):
        return bounding[:, np.argsort(-(bounding[0] / bounding[1]), kind="stable")]


def take_upper(matrix: FloatArray, rows: IntArray, columns: IntArray) -> FloatArray:
    """Rows and columns of the symmetric matrix with this upper triangle."""
    return (np.triu(matrix) + np.triu(matrix, 1).T)[np.ix_(rows, columns)]


def hessian_diagonal(theta: FloatArray, v: float, lambda2: float) -> FloatArray:
    """Diagonal of the Hessian of one pair on its face, zero at zeros."""
    return np.array(
        [hvp(theta, v, lambda2, unit) @ unit if t else 0.0 for t, unit in zip(theta, np.eye(len(theta)), strict=True)]
    )


def retract(theta: FloatArray, l1: FloatArray | float, values: FloatArray) -> FloatArray:
    """`values` without those whose sign is the opposite of that of `theta`, where the L1 part has a weight."""
    return np.where((l1 > 0.0) & (theta * values < 0.0), 0.0, values)


def threshold(lambda1: float) -> float:
    """Size of a covariance up to which its class is not reason enough for an edge."""
    return lambda1


def rescale(weight: FloatArray, variance: FloatArray, tau: FloatArray, square: FloatArray, coupled: bool) -> FloatArray:
    """Minimiser ``1 / (c tau - h / tau)`` along the ray of (t, tau) in each class, or the one of all classes."""
    ratio = variance * tau - square / tau
    if coupled:
        mean = np.sum(weight * ratio) / np.sum(weight)
        return np.full(len(tau), 1.0 / max(mean, 1e-4) if mean > 0.0 else 1.0)
    return np.where(ratio > 0.0, 1.0 / np.maximum(ratio, 1e-4), 1.0)


def add_four_rows(factors: FloatArray, starts: IntArray, n: int, flat: FloatArray, out: FloatArray) -> FloatArray:
    """Four rows of length n of a flat matrix, times their factors, added to `out`."""
    return out + factors @ np.stack([flat[start : start + n] for start in starts])


def multiply_rows(D: FloatArray, W: FloatArray) -> FloatArray:
    """Rows of ``D W``, as columns."""
    return (D @ W).T


def sample_rows(D: FloatArray, W: FloatArray, wanted: BoolArray) -> FloatArray:
    """``W D W`` at the wanted entries."""
    return np.where(wanted, W @ D @ W, 0.0)


def face(
    theta: FloatArray, start: IntArray, factor: FloatArray, lambda1: float, lambda2: float
) -> tuple[IntArray, FloatArray]:
    """Numbers of the non-zero entries through all pairs, and the gradient of each pair on its face."""
    pairs = [theta[start[pair] : start[pair + 1]] for pair in range(len(start) - 1)]
    gradients = [gradient(t, v, lambda1, lambda2) for t, v in zip(pairs, _factors(factor, start), strict=True)]
    return clusters(theta), np.concatenate([*gradients, np.empty(0)])


def append_column(other: IntArray, value: FloatArray, n: int, columns: SparseColumns) -> None:
    """Pairs of a column after the first n, in place."""
    columns.other[n : n + len(other)] = other
    columns.value[n : n + len(other)] = value[: len(other)]


def with_capacity(n_needed: int, n: int, columns: SparseColumns) -> SparseColumns:
    """The columns with room for `n_needed` pairs, of which the first n are kept."""
    missing = max(0, n_needed - len(columns.other))
    other, value = np.pad(columns.other, (0, missing)), np.pad(columns.value, ((0, missing), (0, 0)))
    return columns._replace(other=other, value=value)
