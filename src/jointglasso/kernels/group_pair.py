"""Group penalty of one pair: ``v (lambda1 |t|_1 + lambda2 |t|_2)``, t the n entries in the classes that contain it.

All classes are alike, so that the class numbers of the pair are not used.
"""

from __future__ import annotations

import numpy as np

from jointglasso._typing import FloatArray, IntArray
from jointglasso.kernels.jit import njit_no_refcount
from jointglasso.kernels.pair_types import GroupPair, PairClasses, PenaltyWorkspace

#: Positive homogeneity: ``phi(c t) = c phi(t)`` for c > 0.
HOMOGENEOUS = True


def workspace_size(n_classes: int) -> int:
    """Number of rows of the real workspace for K classes."""
    return 1


@njit_no_refcount(forceinline=True)
def soft(value: float, threshold: float) -> float:
    """Soft-thresholding ``sign(value) (|value| - threshold)_+``."""
    if value > threshold:
        return value - threshold
    if value < -threshold:
        return value + threshold
    return 0.0


@njit_no_refcount(forceinline=True)
def of_pair(penalty: GroupPair, factor: FloatArray, pair: int) -> tuple[float, float]:
    """(lambda1, lambda2) times the weight of one pair; an empty `factor` stands for ones."""
    if factor.shape[0] == 0:
        return penalty.lambda1, penalty.lambda2
    return factor[pair] * penalty.lambda1, factor[pair] * penalty.lambda2


@njit_no_refcount(forceinline=True)
def threshold(penalty: GroupPair, k: int) -> float:
    """lambda1: a pair with ``|u_k| <= v lambda1`` in every class is in the dual ball."""
    return penalty.lambda1


@njit_no_refcount(forceinline=True)
def value(penalty: GroupPair, theta: FloatArray, pair: PairClasses) -> float:
    """Penalty of the n entries `theta` of the pair."""
    n, v = pair.n, pair.v
    absolute = 0.0
    squares = 0.0
    for k in range(n):
        absolute += abs(theta[k])
        squares += theta[k] * theta[k]
    return v * (penalty.lambda1 * absolute + penalty.lambda2 * np.sqrt(squares))


@njit_no_refcount(forceinline=True)
def update(
    penalty: GroupPair, a: FloatArray, b: FloatArray, pair: PairClasses, out: FloatArray, work: PenaltyWorkspace
) -> None:
    """Write the minimiser (n,) of ``sum_k a_k x_k^2 / 2 - b_k x_k`` plus the penalty, a > 0.

    With s = soft(b, lambda1) the solution is x_k = s_k r / (a_k r + lambda2), where r = |x|_2 is the root of
    ``sum_k s_k^2 / (a_k r + lambda2)^2 = 1``. Newton's method on the reciprocal square root of that sum, concave and
    increasing in r, converges monotonically from the left end of the bracket.
    """
    n, v = pair.n, pair.v
    lambda1 = v * penalty.lambda1
    lambda2 = v * penalty.lambda2
    squares = 0.0
    max_curvature = 0.0
    for k in range(n):
        out[k] = soft(b[k], lambda1)
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
def is_dual_feasible(penalty: GroupPair, u: FloatArray, pair: PairClasses, work: PenaltyWorkspace) -> bool:
    """Whether u (n,) is in the dual ball, the subdifferential at zero: ``sum_k (|u_k| - lambda1)_+^2 <= lambda2^2``."""
    n, v = pair.n, pair.v
    lambda1 = v * penalty.lambda1
    lambda2 = v * penalty.lambda2
    squares = 0.0
    for k in range(n):
        violation = max(abs(u[k]) - lambda1, 0.0)
        squares += violation * violation
    return squares <= lambda2 * lambda2


@njit_no_refcount(forceinline=True)
def subgradient(
    penalty: GroupPair,
    theta: FloatArray,
    target: FloatArray,
    a: FloatArray,
    pair: PairClasses,
    out: FloatArray,
    work: PenaltyWorkspace,
) -> None:
    """Write the subgradient (n,) of the penalty at `theta` nearest to `target` (Euclidean metric); `a` is unused."""
    n, v = pair.n, pair.v
    lambda1 = v * penalty.lambda1
    lambda2 = v * penalty.lambda2
    squares = 0.0
    for k in range(n):
        squares += theta[k] * theta[k]
    if squares > 0.0:
        norm = np.sqrt(squares)
        for k in range(n):
            if theta[k] != 0.0:
                out[k] = lambda1 * np.sign(theta[k]) + lambda2 * theta[k] / norm
            else:
                out[k] = min(max(target[k], -lambda1), lambda1)
        return
    for k in range(n):
        shrunk = soft(target[k], lambda1)
        squares += shrunk * shrunk
    norm = np.sqrt(squares)
    reduction = 1.0 - lambda2 / norm if norm > lambda2 else 0.0
    for k in range(n):
        out[k] = target[k] - reduction * soft(target[k], lambda1)


@njit_no_refcount(forceinline=True)
def gauge(penalty: GroupPair, u: FloatArray, pair: PairClasses, work: PenaltyWorkspace) -> float:
    """Gauge of the dual ball: smallest g >= 0 with ``sum_k (|u_k| - g lambda1)_+^2 <= (g lambda2)^2``.

    With the m largest |u_k| above g lambda1 the boundary is the quadratic
    (m lambda1^2 - lambda2^2) g^2 - 2 lambda1 A g + Q = 0, A and Q their sum and sum of squares; the smaller root is the
    one at which every |u_k| - g lambda1 is positive.
    """
    n, v, magnitudes = pair.n, pair.v, work.real
    for k in range(n):  # insertion sort, descending
        slot = k
        while slot > 0 and magnitudes[0, slot - 1] < abs(u[k]):
            magnitudes[0, slot] = magnitudes[0, slot - 1]
            slot -= 1
        magnitudes[0, slot] = abs(u[k])
    if n == 0 or magnitudes[0, 0] == 0.0:
        return 0.0
    l1 = v * penalty.lambda1
    l2 = v * penalty.lambda2
    if l1 + l2 == 0.0:
        return np.inf
    total = 0.0
    squares = 0.0
    root = 0.0
    for m in range(1, n + 1):
        total += magnitudes[0, m - 1]
        squares += magnitudes[0, m - 1] * magnitudes[0, m - 1]
        quadratic = m * l1 * l1 - l2 * l2
        discriminant = (l1 * total) ** 2 - quadratic * squares
        # The stable form of the smaller root never divides by a vanishing leading coefficient.
        root = squares / (l1 * total + np.sqrt(max(discriminant, 0.0)))
        if m == n or root * l1 >= magnitudes[0, m]:
            break
    return root


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
            out[k] = v * (penalty.lambda1 * np.sign(theta[k]) + penalty.lambda2 * theta[k] / norm)


@njit_no_refcount
def clusters(penalty: GroupPair, theta: FloatArray, pair: PairClasses, out: IntArray) -> int:
    """Number the non-zero entries of a pair, -1 at zeros; returns their number. Equal values are not favoured."""
    n = pair.n
    count = 0
    for k in range(n):
        out[k] = -1
        if theta[k] != 0.0:
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
    if penalty.lambda1 * pair.v > 0.0:
        for k in range(pair.n):
            if theta[k] * out[k] < 0.0:
                out[k] = 0.0
