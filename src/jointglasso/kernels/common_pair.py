"""Common substructure penalty of one pair: ``v min_c (rho |c| + gamma sum_k |t_k - c|)`` over the K classes.

Classes that screen the pair out have t_k = 0 and add ``gamma |c|``: for the n entries of a pair rho is raised by
``(K - n) gamma``. c is a weighted median of the entries and zero. `group_pair` documents the functions.
One weight v multiplies the penalty of a pair; it has no weights by class.
"""

from __future__ import annotations

import numpy as np

from jointglasso._typing import FloatArray, IntArray
from jointglasso.kernels.group_pair import number_clusters
from jointglasso.kernels.jit import njit_no_refcount
from jointglasso.kernels.maximum_pair import hvp
from jointglasso.kernels.pair_types import CommonPair, PairClasses

__all__ = ["hvp"]  # the penalty is linear on a face

#: Positive homogeneity: ``phi(c t) = c phi(t)`` for c > 0.
HOMOGENEOUS = True


def workspace_size(n_classes: int) -> int:
    """Number of rows of the real workspace for K classes."""
    return 2


@njit_no_refcount(forceinline=True)
def threshold(penalty: CommonPair, k: int) -> float:
    """Threshold: a pair with ``|u_k| <= v threshold`` in every class is dual feasible."""
    return min(penalty.gamma, penalty.rho / penalty.n_classes)


@njit_no_refcount(forceinline=True)
def coefficients(penalty: CommonPair, pair: PairClasses) -> tuple[float, float]:
    """(gamma, rho) of the n entries of a pair, times its weight."""
    return pair.v * penalty.gamma, pair.v * (penalty.rho + (penalty.n_classes - pair.n) * penalty.gamma)


@njit_no_refcount
def shared_value(theta: FloatArray, n: int, gamma: float, rho: float) -> float:
    """Smallest |c| that minimises ``rho |c| + gamma sum_k |t_k - c|``, with its sign."""
    positive = 0
    negative = 0
    for k in range(n):
        positive += theta[k] > 0.0
        negative += theta[k] < 0.0
    sign = 0.0
    if gamma * (2 * positive - n) > rho:
        sign = 1.0
    elif gamma * (2 * negative - n) > rho:
        sign = -1.0
    size = 0.0
    beyond = max(positive, negative)  # entries t_k sign > size
    while sign != 0.0 and gamma * (2 * beyond - n) > rho:
        larger = np.inf
        for k in range(n):
            if sign * theta[k] > size:
                larger = min(larger, sign * theta[k])
        size = larger
        beyond = 0
        for k in range(n):
            beyond += sign * theta[k] > size
    return sign * size


@njit_no_refcount
def clipped_sum(a: FloatArray, b: FloatArray, n: int, gamma: float, c: float) -> float:
    """``sum_k clip(b_k - a_k c, -gamma, gamma)``."""
    total = 0.0
    for k in range(n):
        total += min(max(b[k] - a[k] * c, -gamma), gamma)
    return total


@njit_no_refcount
def root_of_clipped_sum(a: FloatArray, b: FloatArray, n: int, gamma: float, level: float) -> float:
    """Root c of ``sum_k clip(b_k - a_k c, -gamma, gamma) = level``, with ``|level| <= n gamma`` and a > 0.

    The sum decreases and is linear between the points ``(b_k -+ gamma) / a_k``: the nearest two around the root are
    searched, and the root between them is that of a line.
    """
    low = -np.inf
    high = np.inf
    for k in range(n):
        for side in range(2):
            c = (b[k] + (2 * side - 1) * gamma) / a[k]
            if low < c < high:
                total = clipped_sum(a, b, n, gamma, c)
                if total == level:
                    return c
                if total > level:
                    low = c
                else:
                    high = c
    if not low > -np.inf:
        return high
    if not high < np.inf:
        return low
    curvature = 0.0
    middle = 0.5 * (low + high)
    for k in range(n):
        if abs(b[k] - a[k] * middle) < gamma:
            curvature += a[k]
    if curvature == 0.0:
        return low
    return min(max(low + (clipped_sum(a, b, n, gamma, low) - level) / curvature, low), high)


@njit_no_refcount
def value(penalty: CommonPair, theta: FloatArray, pair: PairClasses) -> float:
    """Penalty of the n entries `theta` of the pair."""
    gamma, rho = coefficients(penalty, pair)
    c = shared_value(theta, pair.n, gamma, rho)
    total = rho * abs(c)
    for k in range(pair.n):
        total += gamma * abs(theta[k] - c)
    return total


@njit_no_refcount
def update(penalty: CommonPair, a: FloatArray, b: FloatArray, pair: PairClasses, out: FloatArray) -> None:
    """Write the minimiser (n,) of ``sum_k a_k x_k^2 / 2 - b_k x_k`` plus the penalty, a > 0.

    Given c the minimiser is ``x_k = c``, or ``(b_k -+ gamma) / a_k`` where ``b_k - a_k c`` exceeds gamma in size; c is
    zero where ``|sum_k clip(b_k, -gamma, gamma)| <= rho``, and else ``sum_k clip(b_k - a_k c, -gamma, gamma) = +-rho``.
    """
    n = pair.n
    gamma, rho = coefficients(penalty, pair)
    total = clipped_sum(a, b, n, gamma, 0.0)
    c = 0.0
    if abs(total) > rho:
        c = root_of_clipped_sum(a, b, n, gamma, rho if total > 0.0 else -rho)
    for k in range(n):
        residual = b[k] - a[k] * c
        if residual > gamma:
            out[k] = (b[k] - gamma) / a[k]
        elif residual < -gamma:
            out[k] = (b[k] + gamma) / a[k]
        else:
            out[k] = c


@njit_no_refcount
def is_dual_feasible(penalty: CommonPair, u: FloatArray, pair: PairClasses) -> bool:
    """Whether u (n,) is in the dual ball: ``|u_k| <= gamma`` and ``|sum_k u_k| <= rho``."""
    gamma, rho = coefficients(penalty, pair)
    total = 0.0
    inside = True
    for k in range(pair.n):
        total += u[k]
        inside = inside and abs(u[k]) <= gamma
    return inside and abs(total) <= rho


@njit_no_refcount
def subgradient(penalty: CommonPair, theta: FloatArray, target: FloatArray, pair: PairClasses, out: FloatArray) -> None:
    """Write the subgradient (n,) of the penalty at `theta` nearest to `target`.

    It is ``gamma sign(t_k - c)`` where t_k is not c, of size at most gamma elsewhere, and adds up to ``rho sign(c)``,
    to at most rho in size where c = 0.
    """
    n = pair.n
    gamma, rho = coefficients(penalty, pair)
    c = shared_value(theta, n, gamma, rho)
    free, unit = pair.work.real[0], pair.work.real[1]
    m = 0
    fixed = 0.0
    for k in range(n):
        if theta[k] == c:
            free[m] = target[k]
            unit[m] = 1.0
            m += 1
        else:
            fixed += gamma if theta[k] > c else -gamma
    total = clipped_sum(unit, free, m, gamma, 0.0)
    least = (rho if c > 0.0 else -rho) - fixed
    most = (-rho if c < 0.0 else rho) - fixed
    shift = 0.0
    if m and total < least:
        shift = root_of_clipped_sum(unit, free, m, gamma, min(least, m * gamma))
    elif m and total > most:
        shift = root_of_clipped_sum(unit, free, m, gamma, max(most, -m * gamma))
    for k in range(n):
        if theta[k] == c:
            out[k] = min(max(target[k] - shift, -gamma), gamma)
        else:
            out[k] = gamma if theta[k] > c else -gamma


@njit_no_refcount
def gauge(penalty: CommonPair, u: FloatArray, pair: PairClasses) -> float:
    """Gauge of the dual ball: smallest g >= 0 with ``|u_k| <= g gamma`` and ``|sum_k u_k| <= g rho``."""
    gamma, rho = coefficients(penalty, pair)
    total = 0.0
    peak = 0.0
    for k in range(pair.n):
        total += u[k]
        peak = max(peak, abs(u[k]))
    if peak == 0.0:
        return 0.0
    if gamma == 0.0 or (rho == 0.0 and total != 0.0):
        return np.inf
    return max(peak / gamma, abs(total) / rho if rho > 0.0 else 0.0)


@njit_no_refcount
def gradient(penalty: CommonPair, theta: FloatArray, pair: PairClasses, out: FloatArray) -> None:
    """Write the gradient (n,) of the penalty on the face of `theta`: entries equal to c share one value."""
    n = pair.n
    gamma, rho = coefficients(penalty, pair)
    c = shared_value(theta, n, gamma, rho)
    m = 0
    fixed = 0.0
    for k in range(n):
        if theta[k] == c:
            m += 1
        else:
            out[k] = gamma if theta[k] > c else -gamma
            fixed += out[k]
    for k in range(n):
        if theta[k] == c:
            out[k] = (np.sign(c) * rho - fixed) / m if c != 0.0 else 0.0


@njit_no_refcount
def clusters(penalty: CommonPair, theta: FloatArray, pair: PairClasses, out: IntArray) -> int:
    """Number the non-zero entries of a pair, -1 at zeros; those equal to c are one cluster. Returns their number."""
    gamma, rho = coefficients(penalty, pair)
    c = shared_value(theta, pair.n, gamma, rho)
    return number_clusters(theta, pair.n, c, c, out)


@njit_no_refcount
def retract(penalty: CommonPair, theta: FloatArray, pair: PairClasses, out: FloatArray) -> None:
    """Keep the sign of c, and move values of `out` (n,) that crossed c to it."""
    gamma, rho = coefficients(penalty, pair)
    c = shared_value(theta, pair.n, gamma, rho)
    moved = 0.0
    for k in range(pair.n):
        if theta[k] == c and c * out[k] > 0.0:
            moved = out[k]
    for k in range(pair.n):
        if theta[k] == c or (theta[k] - c) * (out[k] - moved) < 0.0:
            out[k] = moved
