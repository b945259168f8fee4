"""Proof of optimality: a dual feasible point and the duality gap it gives.

The dual problem (W_k = inverse of Theta_k at the optimum, B the subdifferential of the penalty at zero) is::

    max  sum_k w_k (log det W_k + p)   s.t.   w_k (W_k - S_k)_ij in B for i != j,  (W_k)_ii = S_k,ii + penalty_ii / w_k

(with a fused diagonal, plus a subgradient of its penalty over w_k). At a primal point Theta, u is the element of the
subdifferential of the penalty at Theta nearest to the negative gradient, and W = S + u / w. The Fenchel gap of the
penalty is then zero and, with the sparse matrix R = W - Theta^{-1},

    gap = sum_k w_k [ tr(R_k Theta_k) - log det(I + R_k Theta_k) ],

which is second order in R: rounding errors of R have little effect and there is no cancellation. Entries between
blocks have W = 0, which condition (8) makes feasible, so the gaps of the groups add up to a gap of the full problem.
With pair weights, B is scaled pair by pair. A forbidden pair (zero in Theta) does not constrain W: there W equals the
inverse of Theta, and R is zero.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy import sparse

from jointglasso import config
from jointglasso._typing import BoolArray, FloatArray, IntArray
from jointglasso.blocks.diagonal import FusedDiagonal
from jointglasso.blocks.linalg import Factorization, factorize, log_determinants
from jointglasso.blocks.system import BlockSystem, bincount
from jointglasso.penalties import PairPenalty, SafeRegion

#: Norm of R Theta below which `gap_of_squares` bounds the gap, here to within a percent; above it a second factor is
#: computed. Blocks above `config.LARGE`, where that is expensive, use the second value, with a bound to within a sixth.
_QUADRATIC_NORM, _QUADRATIC_NORM_LARGE = 0.01, 0.2

#: Time of a multiplication in a dense product relative to one in a sparse product; largest block that compiled code
#: multiplies if R is sparse.
_DENSE_ADVANTAGE, _MEDIUM_PRODUCT = 0.01, 512

#: Fraction of `gap_to_certify` at which a solve with ``prove=True`` aims, since rounding errors are added to the gap.
EDGE_GAP = 0.5

#: Largest norm of R Theta at which the quadratic bound on the gap is used, over all block sizes.
MAX_QUADRATIC_NORM = max(_QUADRATIC_NORM, _QUADRATIC_NORM_LARGE)

#: Relative rounding error of a subgradient, in units of the numbers it is the difference of.
ROUNDING = 16.0 * float(np.finfo(np.float64).eps)

#: Radius in place of infinity where the gap gives no bound: sums over sets of classes are compared, and the difference
#: of two infinities is NaN.
_NO_BOUND = 1e50


@dataclass(frozen=True)
class DualityGap:
    """Objective (G,) and duality gap (G,) of each group at a primal point, with the dual point W."""

    objective: FloatArray
    gap: FloatArray
    dual: FloatArray
    """W in flat storage."""
    factor: Factorization
    """Factorization of Theta; its inverse is close to the dual point near the optimum."""
    rounding: FloatArray = field(default_factory=lambda: np.zeros(0))
    """(G,): rounding error of the objective, empty before `with_rounding`, which also raises the gap."""

    @property
    def inverse(self) -> FloatArray:
        """Inverse of Theta in flat storage."""
        return self.factor.inverse

    def of_groups(self, groups: IntArray, blocks: BoolArray, positions: IntArray | slice) -> DualityGap:
        """Bounds of some groups; `blocks` (B,) marks their blocks, `positions` are these in flat storage."""
        factor = self.factor
        group_factor = Factorization(factor.inverse[positions], factor.logdet[blocks], factor.definite[blocks])
        return DualityGap(self.objective[groups], self.gap[groups], self.dual[positions], group_factor)

    def with_groups(
        self, groups: IntArray, blocks: BoolArray, positions: IntArray | slice, other: DualityGap
    ) -> DualityGap:
        """Copy with the bounds of some groups replaced by `other`; `blocks` and `positions` as in `of_groups`."""
        if len(self.gap) == len(groups):
            return replace(other, rounding=self.rounding)
        factor = Factorization(self.inverse.copy(), self.factor.logdet.copy(), self.factor.definite.copy())
        merged = DualityGap(self.objective.copy(), self.gap.copy(), self.dual.copy(), factor)
        merged.objective[groups], merged.gap[groups] = other.objective, other.gap
        merged.dual[positions], factor.inverse[positions] = other.dual, other.inverse
        factor.logdet[blocks], factor.definite[blocks] = other.factor.logdet, other.factor.definite
        return merged

    @property
    def total_gap(self) -> float:
        return float(self.gap.sum())

    @property
    def total_objective(self) -> float:
        return float(self.objective.sum())


@dataclass(frozen=True)
class CertifiedEdges:
    """Entries i < j inside the blocks that the duality gap proves zero, non-zero or equal."""

    present: BoolArray
    """(E,): proved non-zero in the exact solution."""
    absent: BoolArray
    """(E,): proved zero in the exact solution."""
    equal: BoolArray
    """(P, T): for each pair and each edge of the class graph, values proved equal in the two classes."""
    gap_radius: FloatArray
    """(E,): bound on |Theta - Theta*| of each entry."""


def bound_groups(
    system: BlockSystem,
    theta: FloatArray,
    penalty: PairPenalty,
    diagonal_penalty: float,
    *,
    factor: Factorization | None = None,
    subgradient_override: tuple[IntArray, FloatArray] | None = None,
    scale_to_feasible: bool = False,
) -> DualityGap:
    """Objective and gap of each group at `theta`; infinite where Theta or the dual point is not definite.

    `factor` is the factorization of `theta`, if available. The bounds are those of the problem restricted to the
    blocks, which is the full problem where the screening is exact. `subgradient_override` (entries, values) overrides
    the nearest subgradient where a pair is coupled to classes in which it was screened out. With `scale_to_feasible`,
    an indefinite dual point is replaced by a convex combination with a feasible interior point; useful only far from
    the optimum, where a finite bound is needed.
    """
    factor = factorize(system, theta) if factor is None else factor
    entries = system.gather(theta)
    objective = objectives(system, theta, entries, factor, penalty, diagonal_penalty)
    # In place: the entries of a genome-scale group take gigabytes.
    weight = None if system.unit_weights else system.block_weight[system.entry_block]
    negative_gradient = system.gather(factor.inverse)
    negative_gradient -= system.gather(system.S)
    if weight is not None:
        negative_gradient *= weight
    subgradient = penalty.nearest_subgradient(entries, negative_gradient, system.entries(penalty))
    if subgradient_override is not None:
        subgradient[subgradient_override[0]] = subgradient_override[1]
    # As a difference of subgradients, R is exactly zero wherever the negative gradient is a subgradient.
    residual = np.subtract(subgradient, negative_gradient, out=negative_gradient)
    if weight is not None:
        residual /= weight
        subgradient /= weight
    variance = _dual_variance(system, theta, factor, penalty, diagonal_penalty)
    dual = _dual_point(system, subgradient, factor.inverse[system.forbidden], variance)
    del subgradient
    gap = system.sum_per_group(system.block_weight * _block_gaps(system, theta, entries, factor, dual, residual))
    bounds = DualityGap(objective, gap, dual, factor)
    if scale_to_feasible and np.isinf(gap[np.isfinite(objective)]).any():
        return _combine_with_interior_point(system, theta, entries, factor, penalty, diagonal_penalty, bounds)
    return bounds


def gap_of_squares(squares: FloatArray, radius: FloatArray | None = None) -> FloatArray:
    """Upper bound on ``tr(R Theta) - log det(I + R Theta)`` from ``squares = tr(R Theta R Theta)``.

    `radius` < 1 bounds all |m|, m an eigenvalue of R Theta; by default the root of ``squares = sum m^2``. Then
    m - log(1 + m) <= m^2 / 2 + |m|^3 / (3 (1 - |m|)), which is at most m^2 / 2 * (1 + 2 radius / (3 (1 - radius))).
    """
    radius = np.sqrt(squares) if radius is None else radius
    return np.asarray(0.5 * squares * (1.0 + radius / (1.5 * (1.0 - radius))))


def gap_radii(gap: FloatArray, weight: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Solve ``r - log(1 + r) = gap / weight`` and ``-s - log(1 - s) = gap / weight``, rounded upwards.

    Then ``Theta / (1 + r) <= Theta* <= Theta / (1 - s)`` in the Loewner order.
    """
    return dual_radius(gap, weight), _shrinkage(gap, weight)


def dual_radius(gap: FloatArray, weight: FloatArray) -> FloatArray:
    """The first of `gap_radii`."""
    x = np.asarray(gap / weight, dtype=float)
    return _root(np.sqrt(2.0 * x) + x, x, 1.0)


def _shrinkage(gap: FloatArray, weight: FloatArray) -> FloatArray:
    """The second of `gap_radii`."""
    x = np.asarray(gap / weight, dtype=float)
    return _root(np.minimum(np.sqrt(2.0 * x), 1.0), x, -1.0)


def precision_radius(gap: FloatArray, weight: FloatArray) -> FloatArray:
    """Radius e of the optimal precision matrix: ``|Theta - Theta*|_ij <= e sqrt(theta_ii theta_jj)``.

    The eigenvalues of ``Theta^(-1/2) Theta* Theta^(-1/2) - I`` lie between ``-r / (1 + r)`` and ``s / (1 - s)``
    (`gap_radii`). The second is the larger in size: with ``g(x) = 1/x - 1 + log x``, both ends of the interval have the
    same g, and ``g(1 - t) >= g(1 + t)`` because the derivatives are ``t / (1 - t)^2`` and ``t / (1 + t)^2``.
    """
    s = _shrinkage(gap, weight)
    with np.errstate(divide="ignore"):
        return np.asarray(s / (1.0 - s))


def theta_radius(
    system: BlockSystem, theta: FloatArray, gap: FloatArray, entries: IntArray | slice = slice(None)
) -> FloatArray:
    """(E,): bounds on ``|Theta - Theta*|_ij`` at the given entries, from the gap (G,) of each group."""
    radius = precision_radius(gap[system.block_group], system.block_weight)
    with np.errstate(invalid="ignore"):
        return system.products_of_members(np.sqrt(theta[system.diagonal]), radius, entries)


def gap_to_certify(value: FloatArray, root: FloatArray, weight: FloatArray) -> FloatArray:
    """(E,): gap below which `precision_radius` excludes zero for an entry of Theta.

    `value` is the entry, `root` the square root of the product of the two diagonal entries. Inverse of
    `precision_radius`: with ``e = |value| / root = s / (1 - s)``, the gap is ``weight * (log(1 + e) - e / (1 + e))``.
    """
    e = np.abs(value) / ((1.0 + ROUNDING) * root)
    return np.asarray(weight * (np.log1p(e) - e / (1.0 + e)))


def _root(bound: FloatArray, x: FloatArray, sign: float) -> FloatArray:
    """Solve ``sign t - log(1 + sign t) = x`` by Newton's method from an upper bound, which is tight for small x.

    The function is convex and increasing in t, so Newton's method stays above the root up to rounding, which the
    relative margin of 1e-6 covers.
    """
    usable = (x > 1e-10) & (x < (np.inf if sign > 0.0 else 30.0))  # beyond, s is 1 to within rounding
    if not usable.any():
        return bound
    x, root = x[usable], bound[usable]
    start = root = root if sign > 0.0 else np.minimum(root, -np.expm1(-1.0 - x))
    for _ in range(60):
        before = root
        root = root - (sign * root - np.log1p(sign * root) - x) * (1.0 + sign * root) / root
        if (before - root <= 1e-9 * root).all():
            break
    bound[usable] = np.minimum(start, root * (1.0 + 1e-6))
    return bound


def certified_edges(
    system: BlockSystem,
    theta: FloatArray,
    dual: FloatArray,
    gap: FloatArray,
    penalty: PairPenalty,
    *,
    screening_proved: bool = True,
) -> CertifiedEdges:
    """Entries that the duality gap (G,) of their group proves non-zero, or zero, in the exact solution.

    Unless the zeros of dynamic screening are certified (`screening_proved`), a pair may be non-zero in classes outside
    its blocks: then only pairs inside a block in every class are proved zero.

    ``|Theta - Theta*|_ij <= s / (1 - s) sqrt(theta_ii theta_jj)`` proves entries non-zero. They are proved zero where
    the neighbourhood of the subgradient that the gap allows lies inside the dual ball.
    """
    radius = theta_radius(system, theta, gap)
    entries = system.gather(theta)
    present = np.abs(entries) > (1.0 + ROUNDING) * radius
    u, u_radius = subgradient_within(system, dual, gap, penalty)
    absent, equal = penalty.certified_zeros_and_equal(SafeRegion(entries, u, u_radius, radius), system.entries(penalty))
    if not screening_proved:
        absent &= system.of_entries(np.diff(system.pair_start) == system.n_classes)
    # The subgradient of an edge lies on the boundary of the dual ball, where rounding must not decide.
    absent &= entries == 0.0
    return CertifiedEdges(present, absent, equal, radius)


def subgradient_within(
    system: BlockSystem,
    dual: FloatArray,
    gap: FloatArray,
    penalty: PairPenalty,
    entries: IntArray | slice = slice(None),
) -> tuple[FloatArray, FloatArray]:
    """Subgradients ``u = w (W - S)`` of entries, and bounds on ``|u - u*|`` from the duality gap (G,).

    ``|W - W*|_ij <= r sqrt(W*_ii W*_jj)``, and the diagonal of W* is known; with a fused diagonal it is at most that of
    W over 1 - s. The bounds include rounding.
    """
    r, variance = dual_radius(gap[system.block_group], system.block_weight), dual[system.diagonal]
    if penalty.fused_diagonal_penalty is not None:
        s = _shrinkage(gap[system.block_group], system.block_weight)
        r, variance = r / np.maximum(1.0 - s, 1.0 / _NO_BOUND), np.abs(variance)  # an indefinite W has an infinite gap
    radius = system.products_of_members(np.sqrt(variance), np.minimum(r, _NO_BOUND), entries)
    W, S = (values[system.upper[entries]] for values in (dual, system.S))
    u = W - S
    radius += ROUNDING * (np.abs(W, out=W) + np.abs(S, out=S))
    return system.weigh(u, entries), system.weigh(radius, entries)


def objectives(
    system: BlockSystem,
    theta: FloatArray,
    entries: FloatArray,
    factor: Factorization,
    penalty: PairPenalty,
    diagonal_penalty: float,
) -> FloatArray:
    """(G,): objective of each group at `theta` with its `entries`, infinite where a block is not positive definite."""
    likelihood = system.block_weight * (system.sum_per_block(system.S * theta) - factor.logdet)
    diagonal = bincount(system.diagonal_block, np.abs(theta[system.diagonal]), system.n_blocks)
    per_block = np.where(factor.definite, likelihood + diagonal_penalty * diagonal, np.inf)
    pairs = 2.0 * penalty.value(entries, system.entries(penalty))
    total = system.sum_per_group(per_block) + system.sum_pairs_per_group(pairs)
    fused = FusedDiagonal.of(system, penalty)
    return total if fused is None else total + fused.value(theta[system.diagonal])


def _dual_variance(
    system: BlockSystem, theta: FloatArray, factor: Factorization, penalty: PairPenalty, diagonal_penalty: float
) -> FloatArray:
    """Diagonal of the dual point: fixed in advance, or with a fused diagonal from the nearest subgradient."""
    variance, fused = system.optimal_variance(diagonal_penalty), FusedDiagonal.of(system, penalty)
    if fused is None:
        return variance
    weight, positions = system.block_weight[system.diagonal_block], system.diagonal
    definite = factor.definite[system.diagonal_block]
    negative_gradient = np.where(definite, weight * (factor.inverse[positions] - variance), 0.0)
    return variance + fused.nearest_subgradient(theta[positions], negative_gradient) / weight


def _dual_point(system: BlockSystem, shift: FloatArray, forbidden: FloatArray, variance: FloatArray) -> FloatArray:
    """W = S + shift off the diagonal, `variance` on it, and `forbidden` at the forbidden positions."""
    entries = system.gather(system.S)
    entries += shift
    W = system.scatter(entries, variance)
    W[system.forbidden] = forbidden
    return W


def _block_gaps(
    system: BlockSystem,
    theta: FloatArray,
    entries: FloatArray,
    factor: Factorization,
    dual: FloatArray,
    residual: FloatArray,
    *,
    exactly: bool = False,
) -> FloatArray:
    """(B,): upper bound on ``tr(R Theta) - log det(I + R Theta)``; infinite where W is not definite.

    `residual` holds R on the entries, where Theta may be non-zero. If R is non-zero at forbidden positions too, set
    `exactly` to use a second factorisation: ``tr(R Theta)`` does not depend on them, the determinant does.
    """
    diagonal = dual[system.diagonal] - factor.inverse[system.diagonal]
    trace, squares = _trace_and_squares(system, theta, entries, residual, diagonal, factor.definite)
    is_small = (np.sqrt(squares) < _quadratic_norm(system)) & factor.definite & (not exactly)
    gaps = np.where(is_small, gap_of_squares(np.where(is_small, squares, 0.0)), np.inf)
    is_large = factor.definite & ~is_small
    if is_large.any():
        exact = trace - log_determinants(system, dual, is_large) - factor.logdet
        usable = np.isfinite(exact)
        root = np.maximum(np.sqrt(squares[usable]), _QUADRATIC_NORM)
        # The gap is smallest with a single non-zero eigenvalue of R Theta; lower values are rounding.
        gaps[usable] = np.maximum(exact[usable], root - np.log1p(root))
    return gaps


def _quadratic_norm(system: BlockSystem) -> FloatArray:
    """(B,): norm of R Theta below which `gap_of_squares` bounds the gap of a block."""
    return np.where(system.size > config.LARGE, _QUADRATIC_NORM_LARGE, _QUADRATIC_NORM)


def small_gap_threshold(system: BlockSystem) -> FloatArray:
    """(B,): gap of a block over its weight below which it is certainly the bound of `gap_of_squares`."""
    norm = np.full(system.n_blocks, _QUADRATIC_NORM) if len(system.forbidden) else _quadratic_norm(system)
    return norm - np.log1p(norm)


def _trace_and_squares(
    system: BlockSystem,
    theta: FloatArray,
    entries: FloatArray,
    residual: FloatArray,
    diagonal: FloatArray,
    definite: BoolArray,
) -> tuple[FloatArray, FloatArray]:
    """``tr(R Theta)`` and ``tr(R Theta R Theta)`` of each block, by sparse or dense products, whichever is cheaper."""
    from jointglasso.kernels.dense import trace_and_squares

    if not definite.all():
        residual = np.where(definite[system.entry_block], residual, 0.0)
        diagonal = np.where(definite[system.diagonal_block], diagonal, 0.0)
    n_members = max(1, len(system.members))
    sparse_work = (n_members + 2.0 * np.count_nonzero(residual)) * (1.0 + 2.0 * np.count_nonzero(entries) / n_members)
    trace, squares = np.empty(system.n_blocks), np.empty(system.n_blocks)
    sparse_is_cheaper = sparse_work < _DENSE_ADVANTAGE * float((system.size.astype(float) ** 3).sum())
    if system.n_blocks and system.size[-1] <= (_MEDIUM_PRODUCT if sparse_is_cheaper else config.SMALL):
        trace_and_squares(system.scatter(residual, diagonal), theta, system.offset, system.size, trace, squares)
        return trace, np.maximum(squares, 0.0)
    if sparse_is_cheaper:
        product = _sparse_blocks(system, residual, diagonal) @ _sparse_blocks(system, entries, theta[system.diagonal])
        per_member = np.asarray(product.multiply(product.T).sum(axis=1)).ravel()
        trace = bincount(system.diagonal_block, product.diagonal(), system.n_blocks)
        return trace, np.maximum(bincount(system.diagonal_block, per_member, system.n_blocks), 0.0)
    for blocks, (R, Theta) in system.stacks(system.scatter(residual, diagonal), theta):
        dense_product = R @ Theta
        trace[blocks] = np.einsum("mii->m", dense_product)
        squares[blocks] = np.einsum("mij,mji->m", dense_product, dense_product)
    return trace, np.maximum(squares, 0.0)


def _sparse_blocks(system: BlockSystem, entries: FloatArray, diagonal: FloatArray) -> Any:
    """All blocks as one sparse block-diagonal matrix over the members (class-block rows)."""
    nonzero = np.flatnonzero(entries)
    row, column = system.entry_members(nonzero)
    members = np.arange(len(diagonal))
    coordinates = (np.concatenate([row, column, members]), np.concatenate([column, row, members]))
    data = np.concatenate([entries[nonzero], entries[nonzero], diagonal])
    return sparse.csr_array((data, coordinates), shape=(len(diagonal), len(diagonal)))


def _combine_with_interior_point(
    system: BlockSystem,
    theta: FloatArray,
    entries: FloatArray,
    factor: Factorization,
    penalty: PairPenalty,
    diagonal_penalty: float,
    bounds: DualityGap,
) -> DualityGap:
    """Replace dual points without a finite gap by convex combinations with an interior point (B is convex)."""
    S = system.gather(system.S)
    weight = system.block_weight[system.entry_block]
    interior_shift, interior_forbidden = _interior_point(system, S, weight, penalty)
    dual_forbidden = bounds.dual[system.forbidden]
    dual_shift = system.gather(bounds.dual) - S
    dual_variance, interior_variance = bounds.dual[system.diagonal], system.optimal_variance(diagonal_penalty)
    # Fenchel gap of the interior point at theta; by convexity a combination has at most its fraction of it.
    fenchel_gap = _fenchel_gap(system, theta, entries, weight * interior_shift, penalty)
    gap, dual = bounds.gap.copy(), bounds.dual.copy()
    for fraction in (0.9, 0.5, 0.1, 0.0):
        unbounded = np.isinf(gap) & np.isfinite(bounds.objective)
        if not unbounded.any():
            break
        shift = fraction * dual_shift + (1.0 - fraction) * interior_shift
        forbidden = fraction * dual_forbidden + (1.0 - fraction) * interior_forbidden
        W = _dual_point(system, shift, forbidden, fraction * dual_variance + (1.0 - fraction) * interior_variance)
        residual = S + shift - system.gather(factor.inverse)
        exactly = len(system.forbidden) > 0
        block_gap = system.block_weight * _block_gaps(system, theta, entries, factor, W, residual, exactly=exactly)
        group_gap = system.sum_per_group(block_gap) + (1.0 - fraction) * fenchel_gap
        better = unbounded & np.isfinite(group_gap)
        gap[better] = group_gap[better]
        positions = system.per_element_of_groups(better)
        dual[positions] = W[positions]
    return DualityGap(bounds.objective, gap, dual, bounds.factor)


def _interior_point(
    system: BlockSystem, S: FloatArray, weight: FloatArray, penalty: PairPenalty
) -> tuple[FloatArray, FloatArray]:
    """A definite dual feasible point: its shift from S on the entries, and its values at forbidden positions.

    Shrinking the off-diagonal of S towards zero reaches the dual ball and a definite matrix. W = S at unpenalised
    entries, so only the entries between the components of the unpenalised graph are shrunk.
    """
    component = _unpenalised_components(system, penalty)
    row, column = system.entry_members()
    between = component[row] != component[column]
    worst = np.ones(system.n_groups)
    gauge = penalty.gauge(np.where(between, weight * S, 0.0), system.entries(penalty))
    np.maximum.at(worst, system.pair_group, gauge)
    shift = np.where(between, -S / system.of_entries(worst[system.pair_group]), 0.0)
    row, column = system.forbidden_members()
    shrinkage = 1.0 - 1.0 / worst[system.block_group[system.forbidden_block]]
    factor = np.where(component[row] != component[column], shrinkage, 1.0)
    return shift, factor * system.S[system.forbidden]


def _unpenalised_components(system: BlockSystem, penalty: PairPenalty) -> IntArray:
    """Component of each member in the graph of the unpenalised pairs."""
    from jointglasso.kernels.components import components

    return components(len(system.members), *system.entry_members(unpenalised_entries(system, penalty)))[0]


def unpenalised_entries(system: BlockSystem, penalty: PairPenalty) -> IntArray:
    """Indices of the entries without any penalty."""
    if penalty.scale == 0.0:
        return np.arange(len(system.upper))
    if not len(system.pair_factor):
        return np.empty(0, dtype=np.int64)
    return np.flatnonzero(~penalty.penalises(system.entry_factor, system.of_entries(system.pair_coupling)))


def _fenchel_gap(
    system: BlockSystem, theta: FloatArray, entries: FloatArray, u: FloatArray, penalty: PairPenalty
) -> FloatArray:
    """(G,): Fenchel gap ``2 (phi(theta) - <u, theta>)`` for u in the dual ball, plus the fused diagonal penalty."""
    value = penalty.value(entries, system.entries(penalty))
    loss = value - system.sum_per_pair(u * entries)
    gap = system.sum_pairs_per_group(2.0 * np.maximum(loss, 0.0))
    fused = FusedDiagonal.of(system, penalty)
    return gap if fused is None else gap + fused.value(theta[system.diagonal])
