"""Rigorous bounds on the rounding errors of an objective and a duality gap; proofs in docs/theory/certificate.md.

Notation: u = 2^-53, g(n) = n u / (1 - n u). Theta is a stored block of p variables, d_i = theta_ii^(1/2), X its
computed inverse, W the exact one, e_i = max(X_ii, known optimal variance)^(1/2). Two vectors of row sums measure the
conditioning, independently of the units of the variables::

    a_i = d_i sum_j |W_ij| d_j,    b_i = e_i sum_j |theta_ij| e_j,    a = max a_i,  b = max b_i.

**Factor and inverse** (lemma C7, theorem C8). The error of the log-determinant is at most g(p+1) sum a_i, and
``|Theta^(1/2) (X - W) Theta^(1/2)|_F`` at most ``eta = g(p+1) p (a^(1/2) + b^(1/2))^2``, both to first order; raised by
a tenth they cover all orders while eta p^(1/2) is at most 1/20, and are infinite beyond. The residual R = S + u/w - X
is a difference of a few numbers, none above 2 e_i e_j: its rounding adds 16 u p b to eta.

**The gap** of a block is h(M) = tr M - log det(I + M) at M = Theta^(1/2) R Theta^(1/2), which is wrong by a matrix of
norm eta at most. No eigenvalue of M lies below -s, -s - log(1 - s) = h, and with delta = eta / (1 - s)::

    h(M + N) <= h + (2 h)^(1/2) delta + delta^2.

The products behind h add a relative error of at most ``2 u (p b)^(3/2) p + u p^3 b`` ("Products" in the page). Far
from the optimum h is tr M less two log-determinants: errors of ``p^(1/2) eta + (16 u + 2 g(2p)) sum b_i`` in the trace,
those of the log-determinants as above, and of the dual point behind one of them, which counts 16-fold for that.

**Large groups** (`logdet_errors`, theorem C13) need no inverses where the gap is small: their dual point D is factored
like Theta. With v_i = D_ii^(1/2), b = sum |theta_ij| v_i v_j and c = sum |D_ij| d_i d_j, the errors
of the two log-determinants are at most g c / (1 - s) and g b / (1 - s), higher orders apart; rounding of D, 16 u v_i
v_j in entry ij, is added to its g.

**The objective** is a log-determinant and a sum of products, logarithms and penalties, with an error of at most g(n)
times the sum of the absolute values of its terms, n being the length of the longest chain of additions.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from jointglasso._typing import BoolArray, FloatArray
from jointglasso.blocks import BlockSystem
from jointglasso.blocks.diagonal import FusedDiagonal
from jointglasso.blocks.linalg import Factorization, factorize
from jointglasso.duality import MAX_QUADRATIC_NORM, DualityGap, bound_groups, gap_radii, small_gap_threshold
from jointglasso.penalties import PairPenalty

_UNIT = np.finfo(np.float64).eps / 2.0

#: Largest eta p^(1/2) at which terms of higher order are below a tenth, and the factor that covers them.
_FIRST_ORDER, _HIGHER_ORDERS = 0.05, 1.1

#: Longest chain of additions in NumPy's pairwise sums: 16 in each of eight lanes, then halving.
_PAIRWISE = 64


def with_rounding(
    system: BlockSystem, theta: FloatArray, penalty: PairPenalty, diagonal_penalty: float, bounds: DualityGap
) -> DualityGap:
    """Bounds that hold in exact arithmetic for `theta` as it is stored.

    The gap is raised by its error bound, the objective is recomputed, and `rounding` is the error bound of the
    objective. Gap and objective are infinite where the conditioning is too bad for a bound.
    """
    if not system.n_blocks:
        return replace(bounds, rounding=np.zeros_like(bounds.gap))
    factor = bounds.factor
    variance = np.maximum(factor.inverse[system.diagonal], bounds.dual[system.diagonal])
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        conditioning = Conditioning.of(system, theta, factor, variance)
        gap = bounds.gap + _gap_error(system, bounds, conditioning)
        objective, error = _objective(system, theta, penalty, diagonal_penalty, factor, conditioning.logdet_error)
    proved = np.isfinite(bounds.objective) & np.isfinite(objective) & np.isfinite(error)
    return replace(
        bounds,
        objective=np.where(proved, objective, np.inf),
        gap=np.where(proved & ~np.isnan(gap), gap, np.inf),
        rounding=np.where(proved, error, 0.0),
    )


def rounded_bounds(
    system: BlockSystem, theta: FloatArray, penalty: PairPenalty, diagonal_penalty: float, **options: Any
) -> DualityGap:
    """`bound_groups`, whose keywords are `options`, with rounding errors included."""
    bounds = bound_groups(system, theta, penalty, diagonal_penalty, **options)
    return with_rounding(system, theta, penalty, diagonal_penalty, bounds)


def _g(n: FloatArray) -> FloatArray:
    return np.asarray(n * _UNIT / (1.0 - n * _UNIT))


class Conditioning:
    """Error bounds of factored blocks of p variables, from their condition measures a and b.

    `a` and `b` are pairs of arrays (B,): the largest row sum of each block and the sum of all row sums.
    """

    def __init__(
        self,
        a: tuple[FloatArray, FloatArray],
        b: tuple[FloatArray, FloatArray],
        p: FloatArray,
        definite: BoolArray | bool = True,
    ) -> None:
        (a_max, sum_a), (b_max, self.sum_b) = a, b
        eta = _g(p + 1.0) * p * (np.sqrt(a_max) + np.sqrt(b_max)) ** 2 + 16.0 * _UNIT * p * b_max
        eta = _HIGHER_ORDERS * eta
        self.eta = np.where((eta * np.sqrt(p) <= _FIRST_ORDER) & definite, eta, np.inf)
        self.logdet_error = _HIGHER_ORDERS * _g(p + 1.0) * (sum_a + p * a_max * self.eta)
        self.products = _HIGHER_ORDERS * _UNIT * (2.0 * p * (p * b_max) ** 1.5 + p**3 * b_max)

    @classmethod
    def of(cls, system: BlockSystem, matrix: FloatArray, factor: Factorization, variance: FloatArray) -> Conditioning:
        """Condition measures of a matrix in flat storage."""
        from jointglasso.kernels.dense import scaled_row_sums

        measures = []
        for flat, scale in ((factor.inverse, np.sqrt(matrix[system.diagonal])), (matrix, np.sqrt(variance))):
            sums, first = np.empty_like(scale), system.member_start[:-1]
            scaled_row_sums(flat, system.size, scale, sums)
            measures.append((np.maximum.reduceat(sums, first), np.add.reduceat(sums, first)))
        a, b = measures
        return cls(a, b, system.size.astype(float), factor.definite)


def logdet_errors(h: FloatArray, g: FloatArray, b: FloatArray, c: FloatArray) -> tuple[FloatArray, FloatArray]:
    """(B,), (B,): errors of the log-determinants of Theta and of a dual point close to its inverse; infinite otherwise.

    ``b = sum |theta_ij| v_i v_j`` and ``c = sum |D_ij| d_i d_j`` as in the section on large groups above.
    """
    g = _HIGHER_ORDERS * g
    _, s = gap_radii(_HIGHER_ORDERS * (np.maximum(h, 0.0) + g * (b + c)), np.ones_like(h))
    with np.errstate(divide="ignore", invalid="ignore"):
        both = g * c / (1.0 - s), (g + 16.0 * _UNIT) * b / (1.0 - s)
    theta, dual = (np.where(nu <= _FIRST_ORDER, _HIGHER_ORDERS * nu, np.inf) for nu in both)
    return theta, dual


def direct_gap_error(theta: Conditioning, dual: Conditioning, p: FloatArray) -> FloatArray:
    """(B,): error of ``tr M - log det(I + M)`` computed directly, as a trace less two log-determinants."""
    trace = np.sqrt(p) * theta.eta + (16.0 * _UNIT + 2.0 * _g(2.0 * p)) * theta.sum_b
    return np.asarray(theta.logdet_error + 17.0 * dual.logdet_error + trace)


def error_of_sums(chain: float, largest: float) -> float:
    """Error of a sum with absolute terms adding up to `largest`: pairwise summation, then `chain` additions."""
    return float(_g(np.asarray(_PAIRWISE + chain + 16.0)) * largest)


def _gap_error(system: BlockSystem, bounds: DualityGap, conditioning: Conditioning) -> FloatArray:
    """(G,): upper bound on the rounding error of the gap of each group."""
    weight, p = system.block_weight, system.size.astype(float)
    h = bounds.gap[system.block_group] / weight
    # The quadratic bound is used for blocks with small gaps only, whatever the gap of the group.
    small_gap, lowest = np.minimum(h, MAX_QUADRATIC_NORM**2), 1.0 - MAX_QUADRATIC_NORM
    delta = conditioning.eta / lowest
    error = (
        conditioning.products * small_gap + np.sqrt(2.0 * (1.0 + conditioning.products) * small_gap) * delta + delta**2
    )
    error = np.where((delta <= 0.5) & (conditioning.products <= 0.5), error, np.inf)
    is_large = np.isfinite(h) & (h >= 0.99 * small_gap_threshold(system))
    if is_large.any():
        factor = factorize(system, bounds.dual, only=is_large)
        dual = Conditioning.of(system, bounds.dual, factor, np.abs(factor.inverse[system.diagonal]))
        error = np.where(is_large, error + direct_gap_error(conditioning, dual, p), error)
    return system.sum_per_group(weight * error)


def _objective(
    system: BlockSystem,
    theta: FloatArray,
    penalty: PairPenalty,
    diagonal_penalty: float,
    factor: Factorization,
    logdet_error: FloatArray,
) -> tuple[FloatArray, FloatArray]:
    """(G,), (G,): objective of each group and its rounding error."""
    weight, first, diagonal = system.block_weight, system.member_start[:-1], theta[system.diagonal]
    # Sums of rows, then of blocks: chains of at most two block sizes, in any order.
    width, product = np.repeat(system.size, system.size), system.S * theta
    row = np.cumsum(width) - width
    trace = np.add.reduceat(np.add.reduceat(product, row), first)
    terms = np.add.reduceat(np.add.reduceat(np.abs(product, out=product), row), first)
    logs = np.abs(np.log(diagonal)) + np.abs(np.log(factor.inverse[system.diagonal]))
    terms += np.add.reduceat(logs, first)
    penalties = diagonal_penalty * np.add.reduceat(diagonal, first)
    pair_values = 2.0 * penalty.value(system.gather(theta), system.entries(penalty))
    pairs = system.sum_pairs_per_group(pair_values)
    fused = FusedDiagonal.of(system, penalty)
    if fused is not None:
        pairs = pairs + fused.value(diagonal)
    objective = system.sum_per_group(weight * (trace - factor.logdet) + penalties) + pairs
    # Pairs of several groups are summed sequentially, those of a single group pairwise; zeros add no error.
    chain = system.sum_pairs_per_group((pair_values != 0.0).astype(float)) if system.n_groups > 1 else _PAIRWISE
    if fused is not None:
        chain = chain + system.sum_per_group(system.size.astype(float))  # terms of the diagonal are added sequentially
    chain = chain + 2.0 * system.size.max() + 4.0 * system.n_classes + np.bincount(system.block_group) + 16.0
    largest = system.sum_per_group(weight * terms + penalties) + pairs
    return objective, system.sum_per_group(weight * logdet_error) + _g(chain) * largest


def log_determinant_error(system: BlockSystem, matrix: FloatArray, factor: Factorization) -> FloatArray:
    """(B,): rounding error of the log-determinant of each block of a factored matrix."""
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        return Conditioning.of(system, matrix, factor, np.abs(factor.inverse[system.diagonal])).logdet_error


def sum_error(n: float) -> float:
    """g(n): error of a chain of n operations, relative to the sum of the absolute values of its terms."""
    return float(_g(np.asarray(float(n))))
