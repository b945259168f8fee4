"""Maximum penalty of one pair: ``sum_k l1_k |t_k| + v lambda2 max_k |t_k|``, t the n entries in its classes.

l1_k is lambda1 times the weight of the entry. The class numbers of the pair are not used. `group_pair` documents
the functions.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from jointglasso._typing import FloatArray, IntArray
from jointglasso.kernels.group_pair import number_clusters, soft, sort_by_ratio, threshold
from jointglasso.kernels.jit import njit_no_refcount
from jointglasso.kernels.pair_types import MaximumPair, PairClasses

__all__ = ["threshold"]

#: Positive homogeneity: ``phi(c t) = c phi(t)`` for c > 0.
HOMOGENEOUS = True


def workspace_size(n_classes: int) -> int:
    """Number of rows of the real workspace for K classes."""
    return 2


@njit_no_refcount(forceinline=True)
def largest(theta: FloatArray, n: int) -> float:
    """``max_k |t_k|``."""
    top = 0.0
    for k in range(n):
        top = max(top, abs(theta[k]))
    return top


@njit_no_refcount(forceinline=True)
def value(penalty: MaximumPair, theta: FloatArray, pair: PairClasses) -> float:
    """Penalty of the n entries `theta` of the pair."""
    absolute = 0.0
    for k in range(pair.n):
        if theta[k] != 0.0:
            absolute += pair.l1[k] * abs(theta[k])
    return absolute + pair.v * penalty.lambda2 * largest(theta, pair.n)


@njit_no_refcount(forceinline=True)
def update(penalty: MaximumPair, a: FloatArray, b: FloatArray, pair: PairClasses, out: FloatArray) -> None:
    """Write the minimiser (n,) of ``sum_k a_k x_k^2 / 2 - b_k x_k`` plus the penalty, a > 0.

    With s = soft(b, l1) the solution is ``|x_k| = min(|s_k| / a_k, top)``, where top is the root of
    ``sum_k (|s_k| - a_k top)_+ = v lambda2``, or 0 if that sum is smaller at 0. The sum is convex, decreasing and
    piecewise linear: Newton's method from 0 increases monotonically and ends after at most n steps.
    """
    n = pair.n
    lambda2 = pair.v * penalty.lambda2
    total = 0.0
    for k in range(n):
        out[k] = soft(b[k], pair.l1[k])
        total += abs(out[k])
    if total <= lambda2:
        for k in range(n):
            out[k] = 0.0
        return
    top = np.inf if lambda2 == 0.0 else 0.0
    for _ in range(n if lambda2 > 0.0 else 0):
        total = -lambda2
        curvature = 0.0
        for k in range(n):
            if abs(out[k]) > a[k] * top:
                total += abs(out[k])
                curvature += a[k]
        root = total / curvature
        if not root > top:
            break
        top = root
    for k in range(n):
        size = min(abs(out[k]) / a[k], top)
        out[k] = size if out[k] > 0.0 else -size if out[k] < 0.0 else 0.0


@njit_no_refcount(forceinline=True)
def is_dual_feasible(penalty: MaximumPair, u: FloatArray, pair: PairClasses) -> bool:
    """Whether u (n,) is in the dual ball, the subdifferential at zero: ``sum_k (|u_k| - l1_k)_+ <= v lambda2``."""
    total = 0.0
    for k in range(pair.n):
        total += max(abs(u[k]) - pair.l1[k], 0.0)
    return total <= pair.v * penalty.lambda2


@njit_no_refcount(forceinline=True)
def simplex_shift(values: FloatArray, m: int, radius: float) -> float:
    """Shift tau with ``sum_k (y_k - tau)_+ = radius``: the projection of y onto the simplex is ``(y - tau)_+``.

    y are the first m entries of row 1 of `values`; row 0 is overwritten.
    """
    for k in range(m):  # insertion sort, descending
        slot = k
        while slot > 0 and values[0, slot - 1] < values[1, k]:
            values[0, slot] = values[0, slot - 1]
            slot -= 1
        values[0, slot] = values[1, k]
    total = -radius
    tau = 0.0
    for k in range(m):
        total += values[0, k]
        tau = total / (k + 1)
        if k + 1 == m or values[0, k + 1] <= tau:
            break
    return tau


@njit_no_refcount(forceinline=True)
def subgradient(
    penalty: MaximumPair, theta: FloatArray, target: FloatArray, pair: PairClasses, out: FloatArray
) -> None:
    """Write the subgradient (n,) of the penalty at `theta` nearest to `target`.

    It is ``|u_k| <= l1_k`` at zeros and ``sign(t_k) (l1_k + share_k)`` elsewhere: the shares of the entries of maximum
    size add up to v lambda2, others have none. At t = 0 excesses over l1_k add up to at most v lambda2.
    """
    n, l1, values = pair.n, pair.l1, pair.work.real
    lambda2 = pair.v * penalty.lambda2
    top = largest(theta, n)
    m = 0
    total = 0.0
    for k in range(n):
        if abs(theta[k]) == top:
            values[1, m] = (abs(target[k]) if top == 0.0 else np.sign(theta[k]) * target[k]) - l1[k]
            total += max(values[1, m], 0.0)
            m += 1
    tau = 0.0 if top == 0.0 and total <= lambda2 else simplex_shift(values, m, lambda2)
    m = 0
    for k in range(n):
        share = 0.0
        if abs(theta[k]) == top:
            share = max(values[1, m] - tau, 0.0)
            m += 1
        if theta[k] != 0.0:
            out[k] = np.sign(theta[k]) * (l1[k] + share)
        else:
            limit = l1[k] + share
            out[k] = min(max(target[k], -limit), limit)


@njit_no_refcount(forceinline=True)
def gauge(penalty: MaximumPair, u: FloatArray, pair: PairClasses) -> float:
    """Gauge of the dual ball: smallest g >= 0 with ``sum_k (|u_k| - g l1_k)_+ <= g v lambda2``.

    With the m largest ratios |u_k| / l1_k above g it is the sum of these |u_k| by that of their l1_k plus v lambda2.
    """
    n, l1, size = sort_by_ratio(u, pair), pair.work.real[1], pair.work.real[0]
    total = 0.0
    limit = pair.v * penalty.lambda2
    root = 0.0
    for m in range(n):
        total += size[m]
        limit += l1[m]
        if limit == 0.0:
            return np.inf
        root = total / limit
        if m == n - 1 or root * l1[m + 1] >= size[m + 1]:
            break
    return root


@njit_no_refcount
def gradient(penalty: MaximumPair, theta: FloatArray, pair: PairClasses, out: FloatArray) -> None:
    """Write the gradient (n,) of the penalty on the face of `theta`, with its zeros; zero there."""
    n, v = pair.n, pair.v
    top = largest(theta, n)
    n_top = 0
    for k in range(n):
        if abs(theta[k]) == top:
            n_top += 1
    for k in range(n):
        share = v * penalty.lambda2 / n_top if abs(theta[k]) == top else 0.0
        out[k] = (pair.l1[k] + share) * np.sign(theta[k]) if theta[k] != 0.0 else 0.0


@njit_no_refcount
def clusters(penalty: MaximumPair, theta: FloatArray, pair: PairClasses, out: IntArray) -> int:
    """Number the non-zero entries of a pair, -1 at zeros; returns the number of clusters.

    Entries of maximum size and the same sign are one cluster. Of opposite signs they are two, since a cluster moves by
    one step: a step that separates them increases the objective and is not taken.
    """
    top = largest(theta, pair.n) if penalty.lambda2 > 0.0 else 0.0
    return number_clusters(theta, pair.n, top, -top, out)


@njit_no_refcount
def hvp(penalty: Any, theta: FloatArray, pair: PairClasses, step: FloatArray, out: FloatArray) -> None:
    """Add the Hessian-vector product on the face: zero, since the penalty is linear there."""


@njit_no_refcount
def retract(penalty: MaximumPair, theta: FloatArray, pair: PairClasses, out: FloatArray) -> None:
    """Set values of `out` (n,) that changed sign to zero, and bound those below the maximum of `theta` by it."""
    n = pair.n
    top = largest(theta, n)
    bound = 0.0
    for k in range(n):
        if theta[k] * out[k] < 0.0 and pair.l1[k] > 0.0:
            out[k] = 0.0
        if abs(theta[k]) == top:
            bound = max(bound, abs(out[k]))
    if penalty.lambda2 * pair.v > 0.0:
        for k in range(n):
            if abs(theta[k]) == top and theta[k] != 0.0:
                out[k] = bound if theta[k] > 0.0 else -bound
            elif abs(out[k]) > bound:
                out[k] = bound if out[k] > 0.0 else -bound
