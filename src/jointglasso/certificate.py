"""Proof of optimality: a dual feasible point and the duality gap it gives.

The dual problem (W_k = inverse of Theta_k at the optimum, B the subdifferential of the penalty at zero) is::

    max  sum_k w_k (log det W_k + p)   s.t.   w_k (W_k - S_k)_ij in B for i != j,  (W_k)_ii = S_k,ii + penalty_ii / w_k

(where the diagonals of classes are compared, plus a subgradient of that over w_k).

From a primal point Theta we take the u in the subdifferential of the penalty at Theta nearest to the gradient and
set W = S + u / w. Then the penalty's own gap vanishes and what is left is, with R = W - Theta^{-1}, a sparse matrix,

    gap = sum_k w_k [ tr(R_k Theta_k) - log det(I + R_k Theta_k) ],

second order in R: rounding in R hardly shows and nothing cancels. Entries between blocks have W = 0, which
condition (8) makes feasible, so the gaps of the groups add up to a gap of the whole problem.

With weights of pairs B is scaled pair by pair. A forbidden pair, zero in Theta, puts no constraint on W: there W is the
inverse of Theta and R is zero.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy import sparse

from jointglasso import tuning
from jointglasso._typing import BoolArray, FloatArray, IntArray
from jointglasso.blocks.diagonal import FusedDiagonal
from jointglasso.blocks.linalg import Factorization, factorize, log_determinants
from jointglasso.blocks.system import BlockSystem, bincount
from jointglasso.penalties import PairPenalty

#: No norm above this is near.
LARGEST_NEAR = max(tuning.NEAR, tuning.NEAR_IF_BIG)

#: What rounding adds to a subgradient, in units of the numbers it is the difference of, and to the budget it uses.
ROUNDING = 16.0 * float(np.finfo(np.float64).eps)

#: Farther than anything is from the optimum, in units of its size: what a gap that says nothing allows. Finite, because
#: sums over sets of classes are compared, and differences of infinite ones are no numbers.
_ANYWHERE = 1e50


@dataclass(frozen=True)
class Bounds:
    """Objective and duality gap of each group at a primal point, with the dual point behind them."""

    objective: FloatArray
    gap: FloatArray
    dual: FloatArray
    """W in flat storage."""
    factor: Factorization
    """Of Theta; its inverse is near the dual point when near the optimum."""
    rounding: FloatArray = field(default_factory=lambda: np.zeros(0))
    """How far the objective of each group may be off, once that is known; the gap has its own share in it then."""

    @property
    def inverse(self) -> FloatArray:
        """Inverse of Theta in flat storage."""
        return self.factor.inverse

    def of_group(self, group: int, blocks: BoolArray, inside: IntArray | slice) -> Bounds:
        """Bounds of one group alone, given its blocks and their places in flat storage."""
        factor = self.factor
        alone = Factorization(factor.inverse[inside], factor.logdet[blocks], factor.definite[blocks])
        return Bounds(self.objective[[group]], self.gap[[group]], self.dual[inside], alone)

    def with_group(self, group: int, blocks: BoolArray, inside: IntArray | slice, other: Bounds) -> Bounds:
        """With the bounds of one group, found apart: its blocks, and their places in flat storage."""
        if len(self.gap) == 1:
            return replace(other, rounding=self.rounding)
        factor = Factorization(self.inverse.copy(), self.factor.logdet.copy(), self.factor.definite.copy())
        own = Bounds(self.objective.copy(), self.gap.copy(), self.dual.copy(), factor)
        own.take_over(group, blocks, inside, other)
        return own

    def take_over(self, group: int, blocks: BoolArray, inside: IntArray | slice, other: Bounds) -> None:
        """As `with_group`, in place: for who holds these bounds alone."""
        self.objective[group], self.gap[group], self.dual[inside] = other.objective[0], other.gap[0], other.dual
        self.inverse[inside] = other.inverse
        self.factor.logdet[blocks], self.factor.definite[blocks] = other.factor.logdet, other.factor.definite

    @property
    def total_gap(self) -> float:
        return float(self.gap.sum())

    @property
    def total_objective(self) -> float:
        return float(self.objective.sum())


@dataclass(frozen=True)
class CertainEdges:
    """What the gap proves about the entries i < j inside the blocks."""

    present: BoolArray
    """Proved to be non-zero in the exact solution."""
    absent: BoolArray
    """Proved to be zero in the exact solution."""
    equal: BoolArray
    """(P, T) of each pair: whether its values in two classes that are compared, equal here, are proved equal."""
    reach: FloatArray
    """How far each entry of the exact solution may be."""


def bound_groups(
    system: BlockSystem,
    theta: FloatArray,
    penalty: PairPenalty,
    diagonal_penalty: float,
    *,
    factor: Factorization | None = None,
    instead: tuple[IntArray, FloatArray] | None = None,
    rescue: bool = False,
) -> Bounds:
    """Objective and gap of each group at `theta`; infinite where Theta or the dual point is not definite.

    `factor` is the factorization of `theta`, where the caller has it. The bounds are those of the problem restricted to
    the blocks, which is the whole problem where the cuts are right. `instead` gives subgradients of some entries to be
    taken in place of the nearest ones, because classes that have cut their pairs have a say in them. With `rescue`,
    groups whose dual point is not definite get one that is, by mixing in a safe interior point; worth its price only
    far from the optimum, when a finite bound is wanted all the same.
    """
    factor = factorize(system, theta) if factor is None else factor
    entries = system.gather(theta)
    objective = _objective(system, theta, entries, factor, penalty, diagonal_penalty)
    # In place: the entries of a group of genome size are gigabytes.
    weight = None if system.unit_weights else system.block_weight[system.entry_block]
    wanted = system.gather(factor.inverse)
    wanted -= system.gather(system.S)
    if weight is not None:
        wanted *= weight
    subgradient = penalty.nearest_subgradient(entries, wanted, system.entries(penalty))
    if instead is not None:
        subgradient[instead[0]] = instead[1]
    # Computed as a difference of subgradients R is an exact zero wherever the gradient is one already.
    residual = np.subtract(subgradient, wanted, out=wanted)
    if weight is not None:
        residual /= weight
        subgradient /= weight
    variance = _dual_variance(system, theta, factor, penalty, diagonal_penalty)
    dual = _dual_point(system, subgradient, factor.inverse[system.forbidden], variance)
    del subgradient
    gap = system.sum_per_group(system.block_weight * _block_gaps(system, theta, entries, factor, dual, residual))
    bounds = Bounds(objective, gap, dual, factor)
    if rescue and np.isinf(gap[np.isfinite(objective)]).any():
        return _rescue(system, theta, entries, factor, penalty, diagonal_penalty, bounds)
    return bounds


def diagonal_bounds(system: BlockSystem, theta: FloatArray, penalty: PairPenalty, diagonal_penalty: float) -> Bounds:
    """Objective of each group at a diagonal `theta`, for who does not ask for its gap: that counts as infinite."""
    diagonal, own, fused = theta[system.diagonal], system.diagonal_block, FusedDiagonal.of(system, penalty)
    logdet = bincount(own, np.log(diagonal), system.n_blocks)
    factor = Factorization(np.empty(0), logdet, np.ones(system.n_blocks, dtype=bool))
    likelihood = bincount(own, system.S[system.diagonal] * diagonal, system.n_blocks) - logdet
    penalties = diagonal_penalty * bincount(own, diagonal, system.n_blocks)
    objective = system.sum_per_group(system.block_weight * likelihood + penalties)
    objective = objective if fused is None else objective + fused.value(diagonal)
    return Bounds(objective, np.full(system.n_groups, np.inf), np.empty(0), factor)


def gap_of_squares(squares: FloatArray) -> FloatArray:
    """Bound on ``tr(R Theta) - log det(I + R Theta)`` by ``tr(R Theta R Theta)``, which must be less than 1.

    The eigenvalues m of R Theta satisfy sum m^2 = squares, so that |m| <= s, the root of that. For |m| < 1
    m - log(1 + m) <= m^2 / 2 + |m|^3 / (3 (1 - |m|)), which is at most m^2 / 2 * (1 + 2 s / (3 (1 - s))).
    """
    root = np.sqrt(squares)
    return np.asarray(0.5 * squares * (1.0 + root / (1.5 * (1.0 - root))))


def gap_radii(gap: FloatArray, weight: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Solve ``r - log(1 + r) = gap / weight`` and ``-s - log(1 - s) = gap / weight``, rounded upwards.

    Then ``Theta / (1 + r) <= Theta* <= Theta / (1 - s)`` in the order of definite matrices.
    """
    x = np.asarray(gap / weight, dtype=float)
    # Upper bounds that hold for every x; below the range of Newton's method they are all there is to gain.
    r = np.sqrt(2.0 * x) + x
    s = np.minimum(np.sqrt(2.0 * x), 1.0)
    usable = (x > 1e-10) & np.isfinite(x)
    r[usable] = _newton_from_the_right(r[usable], x[usable], 1.0)
    usable &= x < 30.0  # beyond, s is 1 to within rounding
    start = np.minimum(s[usable], -np.expm1(-1.0 - x[usable]))
    s[usable] = _newton_from_the_right(start, x[usable], -1.0)
    return r, s


def precision_radius(gap: FloatArray, weight: FloatArray) -> FloatArray:
    """Radius e of the optimal precision matrix: ``|Theta - Theta*|_ij <= e sqrt(theta_ii theta_jj)``.

    The eigenvalues of ``Theta^(-1/2) Theta* Theta^(-1/2) - I`` lie between ``-r / (1 + r)`` and ``s / (1 - s)``
    (`gap_radii`). The second is the larger in size: with ``g(x) = 1/x - 1 + log x``, both ends of the interval have the
    same g, and ``g(1 - t) >= g(1 + t)`` because the derivatives are ``t / (1 - t)^2`` and ``t / (1 + t)^2``.
    """
    _, s = gap_radii(gap, weight)
    with np.errstate(divide="ignore"):
        return np.asarray(s / (1.0 - s))


def _newton_from_the_right(root: FloatArray, x: FloatArray, sign: float) -> FloatArray:
    """Solve ``sign t - log(1 + sign t) = x`` from above.

    The function is convex and increasing in t, so Newton's method stays above the root, up to rounding, for which a
    millionth is added.
    """
    start = root
    for _ in range(60):
        before = root
        root = root - (sign * root - np.log1p(sign * root) - x) * (1.0 + sign * root) / root
        if (before - root <= 1e-9 * root).all():
            break
    return np.minimum(start, root * (1.0 + 1e-6))


def certain_edges(
    system: BlockSystem,
    theta: FloatArray,
    dual: FloatArray,
    gap: FloatArray,
    penalty: PairPenalty,
    *,
    cuts_proved: bool = True,
) -> CertainEdges:
    """Entries that the gap (G,) of their group proves non-zero, or zero, in the exact solution.

    Unless the cuts of a dynamic screen are proved, a pair may be non-zero in classes that are not looked at here: then
    only those that all classes hold are proved zero.

    ``|Theta - Theta*|_ij <= s / (1 - s) sqrt(theta_ii theta_jj)`` proves entries present; the reach of the dual point
    proves them absent where even its far end lies inside the dual ball.
    """
    radius = precision_radius(gap[system.block_group], system.block_weight)
    with np.errstate(invalid="ignore"):
        reach = system.products_of_members(np.sqrt(theta[system.diagonal]), radius)
    entries = system.gather(theta)
    present = np.abs(entries) > (1.0 + ROUNDING) * reach
    u, u_reach = subgradient_within(system, dual, gap, penalty)
    absent, equal = penalty.proves(entries, u, u_reach, reach, system.entries(penalty))
    if not cuts_proved:
        absent &= system.of_entries(np.diff(system.pair_start) == system.n_classes)
    # An edge lies on the boundary of the dual ball: no rounding may decide on which side.
    absent &= entries == 0.0
    return CertainEdges(present, absent, equal, reach)


def subgradient_within(
    system: BlockSystem,
    dual: FloatArray,
    gap: FloatArray,
    penalty: PairPenalty,
    entries: IntArray | slice = slice(None),
) -> tuple[FloatArray, FloatArray]:
    """Subgradients ``w (W - S)`` of some entries, and how far those of the optimum may be, given the gap (G,).

    ``|W - W*|_ij <= r sqrt(W*_ii W*_jj)``, and the diagonal of W* is known; where the diagonals of classes are compared
    it is at most that of W over 1 - s. Raised by what rounding may do to it.
    """
    r, s = gap_radii(gap[system.block_group], system.block_weight)
    variance = dual[system.diagonal]
    if penalty.of_diagonal is not None:
        r, variance = r / np.maximum(1.0 - s, 1.0 / _ANYWHERE), np.abs(variance)  # no definite W: no finite gap either
    reach = system.products_of_members(np.sqrt(variance), np.minimum(r, _ANYWHERE), entries)
    at = system.upper[entries]
    W, S = dual[at], system.S[at]
    u = W - S
    reach += ROUNDING * (np.abs(W, out=W) + np.abs(S, out=S))
    return system.weigh(u, entries), system.weigh(reach, entries)


def _objective(
    system: BlockSystem,
    theta: FloatArray,
    entries: FloatArray,
    factor: Factorization,
    penalty: PairPenalty,
    diagonal_penalty: float,
) -> FloatArray:
    """Objective of each group, infinite where a block is not positive definite."""
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
    """Diagonal of the dual point: the known one, or where those of classes are compared, by the nearest subgradient."""
    variance, fused = system.optimal_variance(diagonal_penalty), FusedDiagonal.of(system, penalty)
    if fused is None:
        return variance
    weight, at = system.block_weight[system.diagonal_block], system.diagonal
    wanted = np.where(factor.definite[system.diagonal_block], weight * (factor.inverse[at] - variance), 0.0)
    return variance + fused.nearest_subgradient(theta[at], wanted) / weight


def _dual_point(system: BlockSystem, shift: FloatArray, forbidden: FloatArray, variance: FloatArray) -> FloatArray:
    """W = S + shift off the diagonal, with the given diagonal, and what is given at forbidden places."""
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
    """``tr(R Theta) - log det(I + R Theta)`` of each block, or somewhat more; infinite where W is not definite.

    R is given where Theta may be non-zero. Where it is not zero at forbidden places either it must be done `exactly`,
    by a second factorisation: the trace alone does not see them.
    """
    diagonal = dual[system.diagonal] - factor.inverse[system.diagonal]
    trace, squares = _trace_and_squares(system, theta, entries, residual, diagonal, factor.definite)
    near = (np.sqrt(squares) < _nearness(system)) & factor.definite & (not exactly)
    gaps = np.where(near, gap_of_squares(np.where(near, squares, 0.0)), np.inf)
    far = factor.definite & ~near
    if far.any():
        exact = trace - log_determinants(system, dual, far) - factor.logdet
        usable = np.isfinite(exact)
        root = np.maximum(np.sqrt(squares[usable]), tuning.NEAR)
        # All of the squares in one eigenvalue would give the smallest gap; what is below it is rounding.
        gaps[usable] = np.maximum(exact[usable], root - np.log1p(root))
    return gaps


def _nearness(system: BlockSystem) -> FloatArray:
    """Norm of R Theta of each block below which its gap is found by squares."""
    return np.where(system.size > tuning.NEAR_BIG, tuning.NEAR_IF_BIG, tuning.NEAR)


def surely_near(system: BlockSystem) -> FloatArray:
    """Gap of each block, its weight taken off, below which it can only have been found by squares."""
    norm = np.full(system.n_blocks, tuning.NEAR) if len(system.forbidden) else _nearness(system)
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
    from jointglasso.kernels.small_blocks import trace_and_squares

    if not definite.all():
        residual = np.where(definite[system.entry_block], residual, 0.0)
        diagonal = np.where(definite[system.diagonal_block], diagonal, 0.0)
    n_members = max(1, len(system.members))
    sparse_work = (n_members + 2.0 * np.count_nonzero(residual)) * (1.0 + 2.0 * np.count_nonzero(entries) / n_members)
    trace, squares = np.empty(system.n_blocks), np.empty(system.n_blocks)
    worth_it = sparse_work < tuning.DENSE_ADVANTAGE * float((system.size.astype(float) ** 3).sum())
    if system.n_blocks and system.size[-1] <= (tuning.MEDIUM_PRODUCT if worth_it else tuning.SMALL_PRODUCT):
        trace_and_squares(system.scatter(residual, diagonal), theta, system.offset, system.size, trace, squares)
        return trace, np.maximum(squares, 0.0)
    if worth_it:
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
    """All blocks as one sparse block-diagonal matrix over the members."""
    kept = np.flatnonzero(entries)
    row, column = system.entry_members(kept)
    everyone = np.arange(len(diagonal))
    coordinates = (np.concatenate([row, column, everyone]), np.concatenate([column, row, everyone]))
    data = np.concatenate([entries[kept], entries[kept], diagonal])
    return sparse.csr_array((data, coordinates), shape=(len(diagonal), len(diagonal)))


def _rescue(
    system: BlockSystem,
    theta: FloatArray,
    entries: FloatArray,
    factor: Factorization,
    penalty: PairPenalty,
    diagonal_penalty: float,
    bounds: Bounds,
) -> Bounds:
    """Replace dual points that are no use by mixtures with a safe one; B is convex, so they stay feasible."""
    S = system.gather(system.S)
    weight = system.block_weight[system.entry_block]
    safe_shift, safe_forbidden = _safe_point(system, S, weight, penalty)
    face_forbidden = bounds.dual[system.forbidden]
    face_shift = system.gather(bounds.dual) - S
    face_variance, safe_variance = bounds.dual[system.diagonal], system.optimal_variance(diagonal_penalty)
    # What the safe point lacks to be a subgradient at theta; a mixture lacks no more than its share of that.
    lacking = _fenchel_gap(system, theta, entries, weight * safe_shift, penalty)
    gap, dual = bounds.gap.copy(), bounds.dual.copy()
    for share in (0.9, 0.5, 0.1, 0.0):
        bad = np.isinf(gap) & np.isfinite(bounds.objective)
        if not bad.any():
            break
        shift = share * face_shift + (1.0 - share) * safe_shift
        forbidden = share * face_forbidden + (1.0 - share) * safe_forbidden
        W = _dual_point(system, shift, forbidden, share * face_variance + (1.0 - share) * safe_variance)
        residual = S + shift - system.gather(factor.inverse)
        exactly = len(system.forbidden) > 0
        block_gap = system.block_weight * _block_gaps(system, theta, entries, factor, W, residual, exactly=exactly)
        group_gap = system.sum_per_group(block_gap) + (1.0 - share) * lacking
        better = bad & np.isfinite(group_gap)
        gap[better] = group_gap[better]
        inside = np.repeat(better[system.block_group], system.size**2)
        dual[inside] = W[inside]
    return Bounds(bounds.objective, gap, dual, bounds.factor)


def _safe_point(
    system: BlockSystem, S: FloatArray, weight: FloatArray, penalty: PairPenalty
) -> tuple[FloatArray, FloatArray]:
    """A definite dual point: its shift from S on the entries, and itself at forbidden places.

    Shrinking what is off the diagonal of S towards zero brings it into the dual ball and makes it definite. Unpenalised
    entries may not be touched: between the components that they form, S is shrunk instead.
    """
    component = _unpenalised_components(system, penalty)
    row, column = system.entry_members()
    between = component[row] != component[column]
    worst = np.ones(system.n_groups)
    gauge = penalty.gauge(np.where(between, weight * S, 0.0), system.entries(penalty))
    np.maximum.at(worst, system.pair_group, gauge)
    shift = np.where(between, -S / system.of_entries(worst[system.pair_group]), 0.0)
    row, column = system.forbidden_members()
    shrunk = 1.0 - 1.0 / worst[system.block_group[system.forbidden_block]]
    factor = np.where(component[row] != component[column], shrunk, 1.0)
    return shift, factor * system.S[system.forbidden]


def _unpenalised_components(system: BlockSystem, penalty: PairPenalty) -> IntArray:
    """Component of each member in the graph of the unpenalised pairs."""
    from jointglasso.kernels.components import components

    return components(len(system.members), *system.entry_members(unpenalised_entries(system, penalty)))


def unpenalised_entries(system: BlockSystem, penalty: PairPenalty) -> IntArray:
    """Entries of pairs that are not penalised at all."""
    if penalty.scale == 0.0:
        return np.arange(len(system.upper))
    return np.flatnonzero(system.entry_factor == 0.0)


def _fenchel_gap(
    system: BlockSystem, theta: FloatArray, entries: FloatArray, u: FloatArray, penalty: PairPenalty
) -> FloatArray:
    """``2 (phi(theta) - <u, theta>)`` of each group for a u in the dual ball; differences of diagonals count whole."""
    value = penalty.value(entries, system.entries(penalty))
    loss = value - system.sum_per_pair(u * entries)
    lacking = system.sum_pairs_per_group(2.0 * np.maximum(loss, 0.0))
    fused = FusedDiagonal.of(system, penalty)
    return lacking if fused is None else lacking + fused.value(theta[system.diagonal])
