"""Group penalty of one pair: ``sum_k l1_k |t_k| + v lambda2 |t|_2``, t the n entries in the classes that contain it.

l1_k is lambda1 times the weight of the entry. The class numbers of the pair are not used.
"""

from __future__ import annotations

import numpy as np

from jointglasso._typing import FloatArray, IntArray
from jointglasso.kernels.jit import njit_no_refcount
from jointglasso.kernels.pair_types import GroupPair, PairClasses

#: Positive homogeneity: ``phi(c t) = c phi(t)`` for c > 0.
HOMOGENEOUS = True


def workspace_size(n_classes: int) -> int:
    """Number of rows of the real workspace for K classes."""
    return 2


@njit_no_refcount(forceinline=True)
def soft(value: float, threshold: float) -> float:
    """Soft-thresholding ``sign(value) (|value| - threshold)_+``."""
    if value > threshold:
        return value - threshold
    if value < -threshold:
        return value + threshold
    return 0.0


@njit_no_refcount(forceinline=True)
def times(threshold: float, weight: float) -> float:
    """``threshold * weight``, infinite for an infinite weight also where the threshold is zero."""
    return threshold * weight if weight < np.inf else np.inf


@njit_no_refcount(forceinline=True)
def threshold(penalty: GroupPair, k: int) -> float:
    """lambda1: a pair with ``|u_k| <= lambda1 * weight of the entry`` in every class is dual feasible."""
    return penalty.lambda1


@njit_no_refcount(forceinline=True)
def value(penalty: GroupPair, theta: FloatArray, pair: PairClasses) -> float:
    """Penalty of the n entries `theta` of the pair."""
    absolute = 0.0
    squares = 0.0
    for k in range(pair.n):
        if theta[k] != 0.0:
            absolute += pair.l1[k] * abs(theta[k])
            squares += theta[k] * theta[k]
    return absolute + pair.v * penalty.lambda2 * np.sqrt(squares)


@njit_no_refcount(forceinline=True)
def update(penalty: GroupPair, a: FloatArray, b: FloatArray, pair: PairClasses, out: FloatArray) -> None:
    """Write the minimiser (n,) of ``sum_k a_k x_k^2 / 2 - b_k x_k`` plus the penalty, a > 0.

    With s = soft(b, l1) the solution is x_k = s_k r / (a_k r + lambda2), where r = |x|_2 is the root of
    ``sum_k s_k^2 / (a_k r + lambda2)^2 = 1``. Newton's method on the reciprocal square root of that sum, concave and
    increasing in r, converges monotonically from the left end of the bracket.
    """
    n = pair.n
    lambda2 = pair.v * penalty.lambda2
    squares = 0.0
    max_curvature = 0.0
    for k in range(n):
        out[k] = soft(b[k], pair.l1[k])
        squares += out[k] * out[k]
        if out[k] != 0.0:
            max_curvature = max(max_curvature, a[k])
    if squares <= lambda2 * lambda2:
        for k in range(n):
            out[k] = 0.0
        return
    if lambda2 == 0.0:
        for k in range(n):
            out[k] /= a[k]
        return
    r = (np.sqrt(squares) - lambda2) / max_curvature
    for _ in range(50):
        total = 0.0
        gradient = 0.0
        for k in range(n):
            scale = a[k] * r + lambda2
            term = (out[k] / scale) ** 2
            total += term
            gradient += term * a[k] / scale
        step = total * (np.sqrt(total) - 1.0) / gradient
        r += step
        if abs(step) <= 1e-8 * r:  # quadratic convergence: the next relative step would be about 1e-16
            break
    for k in range(n):
        out[k] *= r / (a[k] * r + lambda2)


@njit_no_refcount(forceinline=True)
def is_dual_feasible(penalty: GroupPair, u: FloatArray, pair: PairClasses) -> bool:
    """Whether u (n,) is in the dual ball, the subdifferential at zero.

    That is ``sum_k (|u_k| - l1_k)_+^2 <= (v lambda2)^2``.
    """
    lambda2 = pair.v * penalty.lambda2
    squares = 0.0
    for k in range(pair.n):
        violation = max(abs(u[k]) - pair.l1[k], 0.0)
        squares += violation * violation
    return squares <= lambda2 * lambda2


@njit_no_refcount(forceinline=True)
def subgradient(penalty: GroupPair, theta: FloatArray, target: FloatArray, pair: PairClasses, out: FloatArray) -> None:
    """Write the subgradient (n,) of the penalty at `theta` nearest to `target`."""
    n, l1 = pair.n, pair.l1
    lambda2 = pair.v * penalty.lambda2
    squares = 0.0
    for k in range(n):
        squares += theta[k] * theta[k]
    if squares > 0.0:
        norm = np.sqrt(squares)
        for k in range(n):
            if theta[k] != 0.0:
                out[k] = l1[k] * np.sign(theta[k]) + lambda2 * theta[k] / norm
            else:
                out[k] = min(max(target[k], -l1[k]), l1[k])
        return
    for k in range(n):
        shrunk = soft(target[k], l1[k])
        squares += shrunk * shrunk
    norm = np.sqrt(squares)
    reduction = 1.0 - lambda2 / norm if norm > lambda2 else 0.0
    for k in range(n):
        out[k] = target[k] - reduction * soft(target[k], l1[k])


@njit_no_refcount(forceinline=True)
def gauge(penalty: GroupPair, u: FloatArray, pair: PairClasses) -> float:
    """Gauge of the dual ball: smallest g >= 0 with ``sum_k (|u_k| - g l1_k)_+^2 <= (g v lambda2)^2``.

    With the classes of the m largest ratios |u_k| / l1_k above g the boundary is the quadratic
    (sum l1_k^2 - (v lambda2)^2) g^2 - 2 A g + Q = 0, A the sum of ``l1_k |u_k|`` and Q that of squares; the smaller
    root is the one at which every ``|u_k| - g l1_k`` is positive. By Lagrange's identity its discriminant is
    ``(v lambda2)^2 Q`` less the sum of ``(l1_i |u_j| - l1_j |u_i|)^2``; as A^2 less a product, cancellation would leave
    half of the digits of g where lambda2 is 0.
    """
    n, l1, size = sort_by_ratio(u, pair), pair.work.real[1], pair.work.real[0]
    lambda2 = pair.v * penalty.lambda2
    total = 0.0
    squares = 0.0
    crossed = 0.0
    root = 0.0
    for m in range(n):
        total += l1[m] * size[m]
        squares += size[m] * size[m]
        for i in range(m):
            crossed += (l1[i] * size[m] - l1[m] * size[i]) ** 2
        # The stable form of the smaller root never divides by a vanishing leading coefficient.
        denominator = total + np.sqrt(max(lambda2 * lambda2 * squares - crossed, 0.0))
        if denominator == 0.0:
            return np.inf
        root = squares / denominator
        if m == n - 1 or root * l1[m + 1] >= size[m + 1]:
            break
    return root


@njit_no_refcount(forceinline=True)
def sort_by_ratio(u: FloatArray, pair: PairClasses) -> int:
    """Write |u_k| and l1_k into rows 0 and 1 of the workspace by decreasing ratio; returns their number.

    Entries that are zero or forbidden are left out: they do not bound the gauge.
    """
    real = pair.work.real
    n = 0
    for k in range(pair.n):  # insertion sort
        size, l1 = abs(u[k]), pair.l1[k]
        if size > 0.0 and l1 < np.inf:
            slot = n
            while slot > 0 and real[0, slot - 1] * l1 < size * real[1, slot - 1]:
                real[0, slot], real[1, slot] = real[0, slot - 1], real[1, slot - 1]
                slot -= 1
            real[0, slot], real[1, slot] = size, l1
            n += 1
    return n


@njit_no_refcount
def gradient(penalty: GroupPair, theta: FloatArray, pair: PairClasses, out: FloatArray) -> None:
    """Write the gradient (n,) of the penalty on the face of `theta`, where zeros stay zero; zero there."""
    n, v = pair.n, pair.v
    squares = 0.0
    for k in range(n):
        squares += theta[k] * theta[k]
    norm = np.sqrt(squares)
    for k in range(n):
        out[k] = 0.0
        if theta[k] != 0.0:
            out[k] = pair.l1[k] * np.sign(theta[k]) + v * penalty.lambda2 * theta[k] / norm


@njit_no_refcount
def clusters(penalty: GroupPair, theta: FloatArray, pair: PairClasses, out: IntArray) -> int:
    """Number the non-zero entries of a pair, -1 at zeros; returns their number. Each is a cluster of its own."""
    return number_clusters(theta, pair.n, 0.0, 0.0, out)


@njit_no_refcount
def number_clusters(theta: FloatArray, n: int, one: float, other: float, out: IntArray) -> int:
    """Number the non-zero entries, -1 at zeros: those equal to `one` are a cluster, and those equal to `other`."""
    count = 0
    for k in range(n):
        out[k] = -1
        if theta[k] == one or theta[k] == other:
            for j in range(k):
                if theta[j] == theta[k]:
                    out[k] = out[j]
        if theta[k] != 0.0 and out[k] < 0:
            out[k] = count
            count += 1
    return count


@njit_no_refcount
def hvp(penalty: GroupPair, theta: FloatArray, pair: PairClasses, step: FloatArray, out: FloatArray) -> None:
    """Add the Hessian-vector product on the face: ``v lambda2 (step - t t' step / |t|^2) / |t|``."""
    n, v = pair.n, pair.v
    if penalty.lambda2 == 0.0:
        return
    squares = 0.0
    along = 0.0
    for k in range(n):
        squares += theta[k] * theta[k]
        along += theta[k] * step[k]
    if squares > 0.0:
        curvature = v * penalty.lambda2 / np.sqrt(squares)
        for k in range(n):
            out[k] += curvature * (step[k] - along / squares * theta[k])


@njit_no_refcount
def retract(penalty: GroupPair, theta: FloatArray, pair: PairClasses, out: FloatArray) -> None:
    """Set the values of `out` (n,) to zero that have the opposite sign of `theta`."""
    for k in range(pair.n):
        if theta[k] * out[k] < 0.0 and pair.l1[k] > 0.0:
            out[k] = 0.0
