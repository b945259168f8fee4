"""The Laplacian penalty of one pair: ``phi(t) = sum_k l1_k |t_k| + sum_{k<l} ties_kl (t_k - t_l)^2``.

The arguments are those of `fused_pair`, of whose type this is one shape. A class that is cut pulls here as a ridge:
``ties_kl t_k^2``.
"""

from __future__ import annotations

import numpy as np

from jointglasso._typing import FloatArray, IntArray
from jointglasso.kernels.cache import leaf
from jointglasso.kernels.pair_types import FusedPair, Held, Work

#: Sweeps over the classes of a pair before its support is solved for directly, and how often that is tried.
_SWEEPS, _TRIES = 4, 500


#: The squares of the ties grow faster than their argument.
HOMOGENEOUS = False


def room(n_classes: int) -> int:
    """Length of each of the two work arrays."""
    return n_classes * n_classes + 3 * n_classes


@leaf
def _degree(penalty: FusedPair, k: int) -> float:
    """Sum of the ties of a class, to cut classes too."""
    total = 0.0
    for other in range(penalty.ties.shape[0]):
        total += penalty.ties[k, other]
    return total


@leaf
def value(penalty: FusedPair, theta: FloatArray, pair: Held) -> float:
    """``v phi`` of the values in the classes that hold the pair, zero in the others."""
    cls, n, v = pair
    total = 0.0
    for at in range(n):
        held = 0.0
        for other in range(n):
            tie = penalty.ties[cls[at], cls[other]]
            held += tie
            if other < at:
                total += tie * (theta[at] - theta[other]) ** 2
        total += penalty.l1[cls[at]] * abs(theta[at])
        if n < penalty.l1.shape[0]:
            total += (_degree(penalty, cls[at]) - held) * theta[at] * theta[at]
    return v * total


@leaf(forceinline=True)
def update(penalty: FusedPair, a: FloatArray, b: FloatArray, pair: Held, out: FloatArray, work: Work) -> None:
    """Write the minimiser of ``sum_k a_k x_k^2 / 2 - b_k x_k + v phi(x)``, a > 0; `out` holds a guess at it.

    Sweeps find the support; on it the equations are linear. Sweeps go on while their solution has other signs.
    """
    cls, n, v = pair
    degree = work.real[:n]
    for at in range(n):
        degree[at] = a[at] + 2.0 * v * _degree(penalty, cls[at])
    for _ in range(_TRIES):
        moved = False
        for _ in range(_SWEEPS):
            moved = False
            for at in range(n):
                slope = b[at] + _pull(penalty, out, pair, at)
                before = out[at]
                out[at] = _soft(slope, v * penalty.l1[cls[at]]) / degree[at]
                moved = moved or out[at] != before
            if not moved or n == 1:
                return
        if _solve_on_support(penalty, a, b, pair, out, work):
            return


@leaf
def _pull(penalty: FusedPair, x: FloatArray, pair: Held, at: int) -> float:
    """``2 v sum_l ties_kl x_l`` over the classes that hold the pair."""
    cls, n, v = pair
    total = 0.0
    for other in range(n):
        total += penalty.ties[cls[at], cls[other]] * x[other]
    return 2.0 * v * total


@leaf
def _soft(value: float, threshold: float) -> float:
    if value > threshold:
        return value - threshold
    if value < -threshold:
        return value + threshold
    return 0.0


@leaf
def _solve_on_support(penalty: FusedPair, a: FloatArray, b: FloatArray, pair: Held, x: FloatArray, work: Work) -> bool:
    """Solve the linear equations on the support and signs of `x`; keep the solution if it is the minimiser."""
    cls, n, v = pair
    room = work.real
    right = room[n : 2 * n]
    matrix = room[2 * n : 2 * n + n * n].reshape(n, n)
    support = work.whole[:n]
    free = work.whole[n : n + penalty.l1.shape[0]]
    free[:] = 0
    size = 0
    for at in range(n):
        if x[at] != 0.0:
            support[size] = at
            free[cls[at]] = 1
            size += 1
    for row in range(size):
        at = support[row]
        right[row] = b[at] - v * penalty.l1[cls[at]] * np.sign(x[at])
        matrix[row, row] = a[at]
        for other in range(free.shape[0]):
            if free[other] == 0:  # what is zero pulls towards it
                matrix[row, row] += 2.0 * v * penalty.ties[cls[at], other]
        for column in range(size):
            if column != row:
                matrix[row, column] = 2.0 * v * penalty.ties[cls[at], cls[support[column]]]
    _solve(matrix, right, size)
    for row in range(size):
        if right[row] * x[support[row]] <= 0.0:
            return False
    # The conditions at the zeros, at the new values: scattered behind the matrix.
    full = room[2 * n + n * n : 3 * n + n * n]
    for at in range(n):
        full[at] = 0.0
    for row in range(size):
        full[support[row]] = right[row]
    for at in range(n):
        if full[at] == 0.0 and abs(b[at] + _pull(penalty, full, pair, at)) > v * penalty.l1[cls[at]]:
            return False
    for at in range(n):
        x[at] = full[at]
    return True


@leaf
def _solve(matrix: FloatArray, right: FloatArray, size: int) -> None:
    """Solve ``(e_i + sum_j t_ij) x_i - sum_j t_ij x_j = right_i`` in place; the diagonal of `matrix` is e > 0.

    Eliminated without a difference: what is left has ties and e of its own, sums of positive numbers. With the diagonal
    written out instead, ties in units far from those of e would leave nothing of e.
    """
    for row in range(size):
        pivot = matrix[row, row]
        for column in range(row + 1, size):
            pivot += matrix[row, column]
        for below in range(row + 1, size):
            share = matrix[below, row] / pivot
            matrix[below, below] += share * matrix[row, row]
            right[below] += share * right[row]
            for column in range(row + 1, size):
                if column != below:
                    matrix[below, column] += share * matrix[row, column]
        matrix[row, row] = pivot
    for row in range(size - 1, -1, -1):
        for column in range(row + 1, size):
            right[row] += matrix[row, column] * right[column]
        right[row] /= matrix[row, row]


@leaf(forceinline=True)
def threshold(penalty: FusedPair, k: int) -> float:
    """A pair none of whose classes exceeds it, times the weight of the pair, is inside the dual ball."""
    limit: float = penalty.l1[k]
    return limit


@leaf(forceinline=True)
def inside(penalty: FusedPair, u: FloatArray, pair: Held, work: Work) -> bool:
    """Whether `u` is a subgradient of ``v phi`` at zero; the ties are smooth there and play no part."""
    cls, n, v = pair
    small = True
    for at in range(n):
        small = small and abs(u[at]) <= v * penalty.l1[cls[at]]
    return small


@leaf
def gauge(penalty: FusedPair, u: FloatArray, pair: Held, work: Work) -> float:
    """Largest ``|u_k| / l1_k``."""
    cls, n, v = pair
    ratio = 0.0
    for at in range(n):
        if u[at] != 0.0:
            weight = v * penalty.l1[cls[at]]
            ratio = max(ratio, abs(u[at]) / weight if weight > 0.0 else np.inf)
    return ratio


@leaf
def subgradient(
    penalty: FusedPair, theta: FloatArray, wanted: FloatArray, a: FloatArray, pair: Held, out: FloatArray, work: Work
) -> None:
    """Write the subgradient of ``v phi`` at `theta` nearest to `wanted`: within l1 of the ties' where theta is zero."""
    cls, n, v = pair
    slope(penalty, theta, pair, out)
    for at in range(n):
        if theta[at] == 0.0:
            limit = v * penalty.l1[cls[at]]
            out[at] += min(max(wanted[at] - out[at], -limit), limit)


@leaf
def slope(penalty: FusedPair, theta: FloatArray, pair: Held, out: FloatArray) -> None:
    """Write the part of the subgradients at `theta` that is the same in all: the slope of ``v phi`` on its face."""
    cls, n, v = pair
    for at in range(n):
        pull = v * 2.0 * _degree(penalty, cls[at]) * theta[at] - _pull(penalty, theta, pair, at)
        out[at] = pull + v * penalty.l1[cls[at]] * np.sign(theta[at])


@leaf
def clusters(penalty: FusedPair, theta: FloatArray, pair: Held, out: IntArray) -> int:
    """Number the non-zero entries of a pair and return how many; -1 at zeros. Values are equal by chance only."""
    n = pair.n
    count = 0
    for at in range(n):
        out[at] = -1
        if theta[at] != 0.0:
            out[at] = count
            count += 1
    return count


@leaf
def bend(penalty: FusedPair, theta: FloatArray, pair: Held, step: FloatArray, out: FloatArray) -> None:
    """Add the change of the slope along a step."""
    cls, n, v = pair
    for at in range(n):
        out[at] += v * 2.0 * _degree(penalty, cls[at]) * step[at] - _pull(penalty, step, pair, at)
