"""Proof of optimality of a big group: the W of the sweeps, projected, is the dual point; class by class.

W is kept in single precision, but its numbers, read as double precision ones, are as good a dual point as any once each
pair of them is moved to the subgradient of the penalty at Theta that is nearest to it: S + u / w. Nearly all are there
already, so that the others are a list. With the penalty's own gap gone, what is left is

    gap = sum_k w_k [ tr(W_k Theta_k) - p - log det W_k - log det Theta_k ],

two Cholesky factors for each block, of which one is in memory at a time. Rounding is bounded as in `rounding.py`; where
the gap is large that needs the inverses, too, one at a time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from jointglasso import tuning
from jointglasso._lapack import factor_in_place, invert_factor_in_place, log_determinant
from jointglasso._threads import Workers
from jointglasso._typing import BoolArray, FloatArray, IntArray
from jointglasso.backends.matrices import DeviceMatrices
from jointglasso.blocks.big_group import BigGroup, Support, entries_held
from jointglasso.blocks.system import bincount
from jointglasso.certificate import ROUNDING, gap_radii
from jointglasso.penalties import PairPenalty
from jointglasso.rounding import Conditioning, error_of_sums, far_error, near_errors, sum_error
from jointglasso.solvers.column_order import Order

Result = TypeVar("Result")


class Listed(NamedTuple):
    """Entries of the dual point that are not those of W."""

    block: IntArray
    row: IntArray
    column: IntArray
    """Places in the block, row < column."""
    value: FloatArray


class Sums(NamedTuple):
    """Sums over the pairs of each block, both triangles."""

    dual: FloatArray
    """Of the dual point times Theta."""
    covariance: FloatArray
    """Of S times Theta."""
    size: FloatArray
    """Of the absolute values of the last."""


@dataclass(frozen=True)
class Tile:
    """Some rows of all pairs i < j, in all classes: (K, m, U), zero where a class does not hold the pair."""

    first: int
    held: BoolArray
    S: FloatArray
    W: FloatArray
    theta: FloatArray


@dataclass(frozen=True)
class DualPoint:
    """Theta and W of a big group in the order of its sweeps, and what they prove."""

    group: BigGroup
    penalty: PairPenalty
    diagonal_penalty: float
    order: IntArray
    """Variable, by its number within the group, at each place in the order of W."""
    arranged: Order
    found: Support
    W: NDArray[np.float32]
    n_threads: int = 1
    instead: tuple[IntArray, IntArray, IntArray, FloatArray] | None = None
    """Class, places i < j and subgradient of entries at which it is not the nearest: other classes have a say there."""
    matrices: DeviceMatrices | None = None
    """Where matrices are factored and inverted, if not here."""

    @cached_property
    def theta(self) -> Support:
        """Theta in the order of W."""
        return self.found.in_order(self.order, self.arranged.member)

    @cached_property
    def places(self) -> tuple[IntArray, IntArray]:
        """(K, U): block of each variable and its place there."""
        return self.arranged.places()

    @cached_property
    def variance(self) -> FloatArray:
        """Diagonal of the dual point, by member."""
        return self.group.optimal_variance(self.diagonal_penalty)[self.arranged.member]

    @property
    def n_variables(self) -> int:
        return int(self.places[0].shape[1])

    @cached_property
    def _row_start(self) -> IntArray:
        return np.searchsorted(self.theta.i, np.arange(self.n_variables + 1))

    def tile(self, first: int, last: int) -> Tile:
        """Rows first..last-1."""
        group, shape = self.group, (self.group.n_classes, last - first, self.n_variables)
        held, S, W = np.zeros(shape, dtype=bool), np.zeros(shape), np.zeros(shape)
        for block, (k, b) in enumerate(zip(group.block_class, group.size, strict=True)):
            inside = slice(group.member_start[block], group.member_start[block + 1])
            place, variable = self.arranged.variable[inside], group.members[self.arranged.member[inside]]
            lo, hi = np.searchsorted(place, [first, last])
            if lo == hi:
                continue
            at = (k, slice(None), slice(None)) if b == self.n_variables else (k, *np.ix_(place[lo:hi] - first, place))
            S[at] = group.covariances(block, variable[lo:hi], variable)
            base = group.offset[block]
            W[at] = self.W[base + lo * b : base + hi * b].reshape(hi - lo, b)
            held[at] = True
        held &= np.arange(self.n_variables) > np.arange(first, last)[:, None]
        theta = np.zeros(shape)
        mine = slice(self._row_start[first], self._row_start[last])
        theta[:, self.theta.i[mine] - first, self.theta.j[mine]] = self.theta.value[mine].T
        return Tile(first, held, S, W, theta)

    def over_tiles(self, function: Callable[[Tile], Result]) -> list[Result]:
        """Results of a function of all tiles."""
        firsts = range(0, self.n_variables, self._rows_of_tile)
        return Workers(self.n_threads).map(
            lambda first: function(self.tile(first, min(first + self._rows_of_tile, self.n_variables))), firsts
        )

    @property
    def _rows_of_tile(self) -> int:
        return max(1, int(tuning.DUAL_TILE // self.n_variables))

    def _project(self, tile: Tile) -> tuple[Listed, Sums]:
        """Entries of a tile that the projection moves, and sums over its pairs."""
        weight = self._class_weight[:, None, None]
        wanted = weight * (tile.W - tile.S)
        limit = np.array([self.penalty.threshold(k) for k in range(self.group.n_classes)])
        outside = (np.abs(wanted) > limit[:, None, None]) | (tile.theta != 0.0)
        if self.instead is not None:
            cls, i, j, _ = self.instead
            here = (i >= tile.first) & (i < tile.first + outside.shape[1])
            outside[cls[here], i[here] - tile.first, j[here]] = True
        outside &= tile.held
        r, c = np.nonzero(outside.any(axis=0))
        held = tile.held[:, r, c].T
        theta, S = tile.theta[:, r, c].T[held], tile.S[:, r, c].T[held]
        u = self.penalty.nearest_subgradient(theta, wanted[:, r, c].T[held], entries_held(self.penalty, held))
        pair, k = np.nonzero(held)
        u = self._instead(tile, r[pair], c[pair], k, u)
        value = S + u / self._class_weight[k]
        block_of, slot_of = self.places
        i, j = tile.first + r[pair], c[pair]
        listed = Listed(block_of[k, i], slot_of[k, i], slot_of[k, j], value)

        def summed(x: FloatArray) -> FloatArray:
            return 2.0 * bincount(listed.block, x, len(self.group.size))

        return listed, Sums(summed(value * theta), summed(S * theta), summed(np.abs(S * theta)))

    def _instead(self, tile: Tile, r: IntArray, c: IntArray, k: IntArray, u: FloatArray) -> FloatArray:
        """Subgradients of which some are given."""
        if self.instead is None:
            return u
        n, (cls, i, j, value) = self.n_variables, self.instead
        key = (k * n + tile.first + r) * n + c
        given = (cls * n + i) * n + j
        order = np.argsort(given)
        at = np.minimum(np.searchsorted(given[order], key), max(0, len(given) - 1))
        hit = given[order][at] == key if len(given) else np.zeros(len(key), dtype=bool)
        u[hit] = value[order][at[hit]]
        return u

    @cached_property
    def _class_weight(self) -> FloatArray:
        weight = np.ones(self.group.n_classes)
        weight[self.group.block_class] = self.group.block_weight
        return weight

    @cached_property
    def projected(self) -> tuple[Listed, Sums]:
        """The entries at which the dual point differs from W, and sums over all pairs."""
        found = self._projected_tiles
        listed = Listed(*(np.concatenate(parts) for parts in zip(*(one for one, _ in found), strict=True)))
        return listed, Sums(*(np.sum(parts, axis=0) for parts in zip(*(two for _, two in found), strict=True)))

    @cached_property
    def _projected_tiles(self) -> list[tuple[Listed, Sums]]:
        return self.over_tiles(self._project)

    def dense_theta(self, block: int) -> FloatArray:
        """Upper triangle of Theta of a block."""
        group, (block_of, slot_of), k = self.group, self.places, self.group.block_class[block]
        matrix = np.zeros((group.size[block], group.size[block]))
        i, j, value = self.theta.i, self.theta.j, self.theta.value[:, k]
        here = np.flatnonzero((block_of[k, i] == block) & (value != 0.0))
        matrix[slot_of[k, i[here]], slot_of[k, j[here]]] = value[here]
        np.fill_diagonal(matrix, self.theta.diagonal[group.member_start[block] : group.member_start[block + 1]])
        return matrix

    def dense_dual(self, block: int) -> FloatArray:
        """Upper triangle, and more, of the dual point of a block."""
        group, (listed, _) = self.group, self.projected
        b = group.size[block]
        matrix = self.W[group.offset[block] : group.offset[block + 1]].reshape(b, b).astype(np.float64)
        here = np.flatnonzero(listed.block == block)
        matrix[listed.row[here], listed.column[here]] = listed.value[here]
        np.fill_diagonal(matrix, self.variance[group.member_start[block] : group.member_start[block + 1]])
        return matrix

    @property
    def definite(self) -> bool:
        """Whether Theta is."""
        return bool(np.isfinite(self._logdets_of_theta).all())

    @cached_property
    def _logdets_of_theta(self) -> FloatArray:
        """Log-determinants of the blocks; not a number from the first one on that is not definite."""
        found = np.full(len(self.group.size), np.nan)
        for block in range(len(found)):
            found[block] = self._logdet(self.dense_theta(block))
            if np.isnan(found[block]):
                break
        return found

    @cached_property
    def logdets(self) -> tuple[FloatArray, FloatArray]:
        """Log-determinants of Theta and of the dual point, by block; not a number where one is not definite."""
        dual = [self._logdet(self.dense_dual(block)) for block in range(len(self.group.size))]
        return self._logdets_of_theta, np.array(dual)

    def _logdet(self, matrix: FloatArray) -> float:
        """Log-determinant of a matrix given by its upper triangle, which is overwritten; not a number: not definite."""
        if self.matrices is not None and self.matrices.works:
            with self.matrices.or_here():
                return self.matrices.log_determinant(matrix, sum_error(len(matrix) + 1))
        return log_determinant(matrix) if factor_in_place(matrix) else np.nan

    def inverse(self, matrix: FloatArray) -> FloatArray | None:
        """Inverse of a matrix given by its upper triangle, which is overwritten; None if it is not definite."""
        if self.matrices is not None and self.matrices.works:
            with self.matrices.or_here():
                return self.matrices.inverse(matrix)
        if not factor_in_place(matrix):
            return None
        invert_factor_in_place(matrix)
        mirror(matrix)
        return matrix

    def _known(self, matrix: FloatArray) -> FloatArray:
        """The inverse of a matrix that was factored before."""
        found = self.inverse(matrix)
        if found is None:
            raise ArithmeticError("A matrix that was definite is no longer so.")
        return found

    @property
    def objective(self) -> float:
        """Objective at Theta; infinite where it is not definite."""
        likelihood = self._traces[1] - self._logdets_of_theta
        whole = float(self.group.block_weight @ likelihood) + self._penalties
        return whole if np.isfinite(whole) else np.inf

    @property
    def gap(self) -> float:
        """Duality gap; infinite where Theta or the dual point is not definite."""
        theta, dual = self.logdets
        gap = float(self.group.block_weight @ (self._traces[0] - self.group.size - theta - dual))
        return max(gap, 0.0) if np.isfinite(gap) else np.inf

    @cached_property
    def _traces(self) -> tuple[FloatArray, FloatArray]:
        """Traces of the dual point times Theta, and of S times Theta, by block."""
        first, (_, sums) = self.group.member_start[:-1], self.projected
        S = self.group.diagonal()[self.arranged.member]
        of_diagonal = (np.add.reduceat(x * self.theta.diagonal, first) for x in (self.variance, S))
        dual, covariance = of_diagonal
        return dual + sums.dual, covariance + sums.covariance

    @cached_property
    def _penalties(self) -> float:
        held = self.theta.value != 0.0
        pairs = self.penalty.value(self.theta.value[held], entries_held(self.penalty, held))
        return float(self.diagonal_penalty * self.theta.diagonal.sum() + 2.0 * pairs.sum())

    def with_rounding(self) -> tuple[float, float, float]:
        """Objective, how far it may be off, and gap, with what rounding may add to them; see `rounding.py`."""
        group, first, weight = self.group, self.group.member_start[:-1], self.group.block_weight
        if not np.isfinite(self.gap):
            return self.objective, 0.0, np.inf
        p, d, v = group.size.astype(np.float64), np.sqrt(self.theta.diagonal), np.sqrt(self.variance)
        # Numbers on the diagonal of a factor are at most d, and the sum of their logarithms is known.
        logs, of_dual = (
            4.0 * np.add.reduceat(np.maximum(np.log(x), 0.0), first) + np.abs(logdet)
            for x, logdet in zip((d, v), self.logdets, strict=True)
        )
        chain = 2.0 * p.max() + 4.0 * group.n_classes + len(p) + self.n_variables + len(self.theta.i)
        b = np.add.reduceat(self._scaled_theta(v), first)
        sums = error_of_sums(chain, 1.0) * (3.0 * b + logs + of_dual)
        h = self._traces[0] - p - self.logdets[0] - self.logdets[1] + sums
        p *= 1 if self.matrices is None else 2  # factors made elsewhere, see there
        g = np.array([sum_error(n + 1.0) for n in p])
        theta, dual = near_errors(h, g, b, self._scaled_dual(d))
        if not np.isfinite(theta + dual).all():
            theta, dual = self._errors_by_inverses(p)
        gap = self.gap + float(weight @ (theta + dual + sums))
        sizes = np.add.reduceat(np.abs(group.diagonal()[self.arranged.member] * self.theta.diagonal), first)
        largest = float(weight @ (sizes + logs + self.projected[1].size)) + self._penalties
        error = float(weight @ theta) + error_of_sums(chain, largest)
        proved = np.isfinite(error) and np.isfinite(gap)
        return (self.objective, error, gap) if proved else (np.inf, 0.0, np.inf)

    def _errors_by_inverses(self, p: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Errors of the log-determinants of Theta and of a dual point that is far from its inverse."""
        first = self.group.member_start[:-1]
        e, (theta_a, dual_a, dual_b) = self._sums_of_inverses()
        rows_b = self._scaled_theta(np.maximum(e, np.sqrt(self.variance)))
        theta_b = np.maximum.reduceat(rows_b, first), np.add.reduceat(rows_b, first)
        theta, dual = Conditioning(theta_a, theta_b, p), Conditioning(dual_a, dual_b, p)
        return theta.logdet_error, far_error(theta, dual, p) - theta.logdet_error

    def _sums_of_inverses(self) -> tuple[FloatArray, list[tuple[FloatArray, FloatArray]]]:
        """Roots of the diagonal of the inverse of Theta; a of Theta, a and b of the dual point, with their sums."""
        found = np.empty((3, 2, len(self.group.size)))
        roots = []
        for block in range(len(self.group.size)):
            inside = slice(self.group.member_start[block], self.group.member_start[block + 1])
            matrix = self._known(self.dense_theta(block))
            roots.append(np.sqrt(np.diagonal(matrix)))
            found[0, :, block] = _row_sums(matrix, np.sqrt(self.theta.diagonal[inside]))
            matrix = self._known(self.dense_dual(block))
            found[1, :, block] = _row_sums(matrix, np.sqrt(self.variance[inside]))
            own = np.sqrt(np.diagonal(matrix))
            matrix = self.dense_dual(block)
            mirror(matrix)
            found[2, :, block] = _row_sums(matrix, own)
        return np.concatenate(roots), [(most, total) for most, total in found]

    def _scaled_dual(self, scale: FloatArray) -> FloatArray:
        """``sum_ij scale_i |dual_ij| scale_j`` of each block."""
        found = np.empty(len(self.group.size))
        for block in range(len(found)):
            matrix = self.dense_dual(block)
            mirror(matrix)
            found[block] = _row_sums(
                matrix, scale[self.group.member_start[block] : self.group.member_start[block + 1]]
            )[1]
        return found

    def _scaled_theta(self, scale: FloatArray) -> FloatArray:
        """``scale_i sum_j |theta_ij| scale_j`` of each member."""
        group, (block_of, slot_of) = self.group, self.places
        rows = scale * self.theta.diagonal * scale
        for k in range(group.n_classes):
            here = np.flatnonzero(self.theta.value[:, k])
            block = block_of[k, self.theta.i[here]]
            i, j = (group.member_start[block] + slot_of[k, end[here]] for end in (self.theta.i, self.theta.j))
            size = scale[i] * np.abs(self.theta.value[here, k]) * scale[j]
            rows += bincount(i, size, len(rows)) + bincount(j, size, len(rows))
        return rows

    def present(self, gap: float) -> BoolArray:
        """(P, K): entries of Theta, as it was found, that a gap of the whole proves non-zero."""
        group, found = self.group, self.found
        r, s = gap_radii(np.full(len(group.size), gap), group.block_weight)
        with np.errstate(divide="ignore", invalid="ignore"):
            factor = np.maximum(r, s) / (1.0 - s)
        pair, k = np.nonzero(found.value)
        row, column = group.member_of[k, found.i[pair]], group.member_of[k, found.j[pair]]
        root = np.sqrt(found.diagonal)
        present = np.zeros(found.value.shape, dtype=bool)
        reach = (1.0 + ROUNDING) * factor[group.member_block[row]] * root[row] * root[column]
        present[pair, k] = np.abs(found.value[pair, k]) > reach
        return present

    def at(self, row: IntArray, column: IntArray) -> tuple[FloatArray, FloatArray]:
        """W and the dual point at entries that are given by their members."""
        group = self.group
        place = np.empty_like(self.arranged.member)
        place[self.arranged.member] = np.arange(len(place))
        row, column = np.minimum(place[row], place[column]), np.maximum(place[row], place[column])
        position = group.positions(row, column)
        listed = self.projected[0]
        moved = group.offset[listed.block] + listed.row * group.size[listed.block] + listed.column
        order = np.argsort(moved)
        W = self.W[position].astype(np.float64)
        dual = W.copy()
        if len(moved):
            nearest = order[np.minimum(np.searchsorted(moved, position, sorter=order), len(moved) - 1)]
            hit = moved[nearest] == position
            dual[hit] = listed.value[nearest[hit]]
        return W, dual

    def n_absent(self, gap: float, *, cuts_proved: bool = True) -> int:
        """Number of zero entries that a gap of the whole proves zero; see `certificate.certain_edges`."""
        group = self.group
        r, _ = gap_radii(np.full(len(group.size), gap), group.block_weight)
        root = np.zeros((group.n_classes, self.n_variables))
        block = group.member_block
        root[group.block_class[block], self.arranged.variable] = np.sqrt(self.variance)
        radius = np.zeros(group.n_classes)
        radius[group.block_class] = r
        limit = np.array([self.penalty.threshold(k) for k in range(group.n_classes)])[:, None, None]

        def count(tile: Tile) -> int:
            listed, _ = self._projected_tiles[tile.first // self._rows_of_tile]
            W = tile.W
            k = group.block_class[listed.block]
            i, j = (
                self.arranged.variable[group.member_start[listed.block] + end] for end in (listed.row, listed.column)
            )
            W[k, i - tile.first, j] = listed.value
            weight = self._class_weight[:, None, None]
            reach = radius[:, None, None] * root[:, tile.first : tile.first + W.shape[1], None] * root[:, None]
            reach += ROUNDING * (np.abs(W) + np.abs(tile.S))
            u, reach = weight * (W - tile.S), weight * reach
            candidates = tile.held.all(axis=0) if not cuts_proved else tile.held.any(axis=0)
            near = candidates & ((np.abs(u) + reach >= limit) & tile.held).any(axis=0)
            absent = int((tile.held & candidates & ~near & (tile.theta == 0.0)).sum())
            a, b = np.nonzero(near)
            held = tile.held[:, a, b].T
            theta, entries = tile.theta[:, a, b].T[held], entries_held(self.penalty, held)
            u, reach = u[:, a, b].T[held], reach[:, a, b].T[held]
            zeros = self.penalty.certain_zeros(theta, u, reach, reach, entries)
            return absent + int((zeros & (theta == 0.0)).sum())

        return sum(self.over_tiles(count))

    def with_subgradients(self, row: IntArray, column: IntArray, value: FloatArray) -> DualPoint:
        """With other subgradients at entries that are given by their members."""
        place = np.empty_like(self.order)
        place[self.order] = np.arange(len(place))
        ends = place[self.group.local[row]], place[self.group.local[column]]
        cls = self.group.block_class[self.group.member_block[row]]
        return replace(self, instead=(cls, np.minimum(*ends), np.maximum(*ends), value))


def _row_sums(matrix: FloatArray, scale: FloatArray) -> tuple[float, float]:
    """The largest row sum ``scale_i sum_j |a_ij| scale_j`` of a matrix, and the sum of all."""
    from jointglasso.kernels.row_sums import scaled_row_sums

    b = len(matrix)
    most, total = scaled_row_sums(matrix.ravel(), np.array([0, b * b]), np.array([b]), np.array([0, b]), scale)
    return most[0], total[0]


def mirror(matrix: FloatArray) -> None:
    """Copy the upper triangle into the lower one."""
    from jointglasso.kernels.pair_index import mirror_upper

    mirror_upper(matrix)
