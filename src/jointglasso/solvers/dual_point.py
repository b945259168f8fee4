"""Duality gap of a large group: the dual point is the projection of the W of the column sweeps.

W is stored in single precision. Converted to double precision and projected pair by pair onto S + u / w, u being the
nearest subgradient of the penalty at Theta, it is a dual feasible point. Nearly all entries are feasible already; the
others are stored as a list. The Fenchel gap of the penalty is then zero, and the gap of a group is
``sum_k w_k [ tr(W_k Theta_k) - p - log det W_k - log det Theta_k ]``: two Cholesky factors per block, one of them in
memory at a time. Rounding is bounded as in `rounding.py`; if the gap is large this needs the inverses as well.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from jointglasso import config
from jointglasso._cached_property import cached_property
from jointglasso._lapack import factor_in_place, invert_factor_in_place, log_determinant, mirror_upper
from jointglasso._threads import Workers, single_threaded_blas
from jointglasso._typing import BoolArray, FloatArray, IntArray
from jointglasso.blocks.big_group import BigGroup, GroupSupport, SomePairs, entries_in_classes
from jointglasso.blocks.system import bincount, find_keys
from jointglasso.duality import ROUNDING, dual_radius
from jointglasso.kernels.pair_types import PermutedBlocks
from jointglasso.penalties import UNIFORM, PairPenalty, SafeRegion
from jointglasso.rounding import Conditioning, direct_gap_error, error_of_sums, logdet_errors, sum_error
from jointglasso.solvers.column_ascent import Permutation
from jointglasso.solvers.unstored import UnstoredDual

if TYPE_CHECKING:
    from jointglasso.kernels.dual_rows import RowBlock

Result = TypeVar("Result")


#: Smallest number of row blocks: enough for all threads.
_DUAL_PIECES = 32


class DualEntries(NamedTuple):
    """Entries of the dual point that differ from W, row < column being positions within the block."""

    block: IntArray
    row: IntArray
    column: IntArray
    value: FloatArray


class Sums(NamedTuple):
    """(B,) each: sums over both triangles of dual point times Theta, S times Theta, and |S times Theta|."""

    dual: FloatArray
    covariance: FloatArray
    size: FloatArray


class ProjectedRows(NamedTuple):
    """Projected pairs of a block of rows; Theta, subgradient u and dual point at the entries marked in `in_block`."""

    i: IntArray
    j: IntArray
    in_block: BoolArray
    """(P, K): whether the pair lies inside a block of each class."""
    theta: FloatArray
    u: FloatArray
    listed: DualEntries
    sums: Sums


@dataclass(frozen=True)
class DualPoint(UnstoredDual):
    """Theta and W of a large group in sweep order, with the objective, the duality gap and the entries it certifies."""

    group: BigGroup
    penalty: PairPenalty
    diagonal_penalty: float
    order: IntArray
    """(U,): variable (index within the group) at each position of the order of W."""
    permuted: Permutation
    theta_support: GroupSupport
    W: NDArray[np.float32]
    n_threads: int = 1
    subgradient_override: tuple[IntArray, IntArray, IntArray, FloatArray] | None = None
    """Class, i < j and value of subgradients that override the nearest ones: pairs coupled to classes outside."""

    @cached_property
    def theta(self) -> GroupSupport:
        """Theta in the order of W."""
        return self.theta_support.in_order(self.order, self.permuted.member)

    @cached_property
    def places(self) -> tuple[IntArray, IntArray]:
        """(K, U), (K, U): block of each variable and its row there."""
        return self.permuted.places()

    @cached_property
    def variance(self) -> FloatArray:
        """(M,): diagonal of the dual point."""
        return self.group.optimal_variance(self.diagonal_penalty)[self.permuted.member]

    @property
    def n_variables(self) -> int:
        return int(self.places[0].shape[1])

    def over_rows(self, function: Callable[[int, int], Result]) -> list[Result]:
        """Map ``function(first, last)`` over blocks of rows, on threads."""
        n, step = self.n_variables, rows_per_pass(self.n_variables)
        with self._one_thread_each():
            return Workers(self.n_threads).map(lambda first: function(first, min(first + step, n)), range(0, n, step))

    def _one_thread_each(self) -> AbstractContextManager[None]:
        return single_threaded_blas() if self.n_threads > 1 else nullcontext()

    @cached_property
    def _stack(self) -> PermutedBlocks:
        """The permuted blocks without covariances."""
        return self.permuted.apply(UNIFORM, UNIFORM)

    @cached_property
    def _pairs_of(self) -> tuple[IntArray, IntArray]:
        """(U + 1,): start of the pairs i < j of each i in Theta; (M,): keys of the members by block and variable."""
        n = self.n_variables
        return np.searchsorted(self.theta.i, np.arange(n + 1)), self.group.member_block * n + self.permuted.variable

    def _covariances(self, first: int, last: int) -> tuple[RowBlock, PermutedBlocks]:
        """Covariances of the variables first..last-1 with the later ones, and their row index."""
        from jointglasso.kernels.dual_rows import RowBlock

        group, n, (_, keys) = self.group, self.n_variables, self._pairs_of
        blocks = np.arange(len(group.size))
        lo, hi = (np.searchsorted(keys, blocks * n + end) - group.member_start[:-1] for end in (first, last))
        row_base, rows_of_blocks, length = np.zeros((group.n_classes, last - first), dtype=np.int64), [], 0
        for block in np.flatnonzero(lo < hi):
            start, width = group.member_start[block], group.size[block] - lo[block]
            members = slice(start + lo[block], start + group.size[block])
            variable, m = group.members[self.permuted.member[members]], hi[block] - lo[block]
            row = self.permuted.variable[members][:m] - first
            row_base[group.block_class[block], row] = length - lo[block] + width * np.arange(m)
            rows_of_blocks.append(group.covariances(int(block), variable[:m], variable).ravel())
            length += m * width
        return RowBlock(first, row_base), self._stack._replace(S=np.concatenate(rows_of_blocks))

    def _project(self, first: int, last: int) -> ProjectedRows:
        """Project the rows first..last-1: pairs that are non-zero in Theta or lie outside their dual ball."""
        from jointglasso.kernels.dual_rows import GapRadius, count_certified_zeros

        group, n, theta = self.group, self.n_variables, self.theta
        (rows, stack), (block_of, slot_of), start = self._covariances(first, last), self.places, self._pairs_of[0]
        mark, span = np.zeros((last - first, n), dtype=bool), slice(start[first], start[last])
        mark[theta.i[span] - first, theta.j[span]] = True
        if self.subgradient_override is not None:
            _, i, j, _ = self.subgradient_override
            in_rows = (i >= first) & (i < last)
            mark[i[in_rows] - first, j[in_rows]] = True
        exact = GapRadius(np.zeros(group.n_classes), np.zeros(block_of.shape), 0.0, True)
        count_certified_zeros(
            self.penalty.pair, rows, stack, self.W, exact, self.penalty.workspace_size(group.n_classes), mark
        )
        mask_missing = np.flatnonzero(mark)
        i, j = first + mask_missing // n, mask_missing % n
        in_block = ((block_of[:, i] == block_of[:, j]) & (block_of[:, i] >= 0)).T
        values = np.zeros(in_block.shape)
        values[np.searchsorted(mask_missing, (theta.i[span] - first) * n + theta.j[span])] = theta.value[span]
        pair, k = np.nonzero(in_block)
        block, row, column = block_of[k, i[pair]], slot_of[k, i[pair]], slot_of[k, j[pair]]
        W = self.W[group.offset[block] + row * group.size[block] + column]
        x, S, weight = values[in_block], stack.S[rows.row_start[k, i[pair] - first] + column], group.block_weight[block]
        u = self.penalty.nearest_subgradient(x, weight * (W - S), entries_in_classes(self.penalty, in_block))
        u = self._override_subgradients(i[pair], j[pair], k, u)
        value = S + u / weight

        def summed(numbers: FloatArray) -> FloatArray:
            return 2.0 * bincount(block, numbers, len(group.size))

        sums = Sums(summed(value * x), summed(S * x), summed(np.abs(S * x)))
        return ProjectedRows(i, j, in_block, x, u, DualEntries(block, row, column, value), sums)

    def _override_subgradients(self, i: IntArray, j: IntArray, k: IntArray, u: FloatArray) -> FloatArray:
        """Subgradients u with the values of `subgradient_override` at the entries (i, j, k) it lists."""
        if self.subgradient_override is None:
            return u
        n, (cls, *ends, value) = self.n_variables, self.subgradient_override
        place = find_keys((cls * n + ends[0]) * n + ends[1], (k * n + i) * n + j)
        u[place >= 0] = value[place[place >= 0]]
        return u

    @cached_property
    def _projected(self) -> list[ProjectedRows]:
        return self.over_rows(self._project)

    @cached_property
    def projected(self) -> tuple[DualEntries, Sums]:
        """Entries at which the dual point differs from W, sorted by block, and sums over all pairs."""
        listed, sums = (zip(*parts, strict=True) for parts in zip(*(one[-2:] for one in self._projected), strict=True))
        return _by_block(DualEntries(*map(np.concatenate, listed))), Sums(*(np.sum(parts, axis=0) for parts in sums))

    @cached_property
    def _theta_entries(self) -> DualEntries:
        """Non-zero entries of Theta, sorted by block."""
        block_of, slot_of = self.places
        pair, k = np.nonzero(self.theta.value)
        i, j = self.theta.i[pair], self.theta.j[pair]
        return _by_block(DualEntries(block_of[k, i], slot_of[k, i], slot_of[k, j], self.theta.value[pair, k]))

    def dense_theta(self, block: int) -> FloatArray:
        """(b, b): upper triangle of Theta of a block."""
        group = self.group
        matrix = np.zeros((group.size[block], group.size[block]))
        _write(self._theta_entries, block, matrix)
        np.fill_diagonal(matrix, self.theta.diagonal[group.member_start[block] : group.member_start[block + 1]])
        return matrix

    def dense_dual(self, block: int) -> FloatArray:
        """(b, b): upper triangle of the dual point of a block; the lower triangle is not valid."""
        group, (listed, _) = self.group, self.projected
        b, step = group.size[block], config.ROWS_AT_ONCE
        matrix, W = np.empty((b, b)), self.W[group.offset[block] : group.offset[block + 1]].reshape(b, b)

        def copy(first: int) -> None:
            matrix[first : first + step, first:] = W[first : first + step, first:]

        Workers(self.n_threads).map(copy, range(0, b, step))
        _write(listed, block, matrix)
        np.fill_diagonal(matrix, self.variance[group.member_start[block] : group.member_start[block + 1]])
        return matrix

    @property
    def definite(self) -> bool:
        """Whether Theta is positive definite."""
        return bool(np.isfinite(self._logdets_of_theta).all())

    @cached_property
    def _logdets_of_theta(self) -> FloatArray:
        """(B,): log-determinants of Theta; NaN from the first indefinite block on."""
        logdets = np.full(len(self.group.size), np.nan)
        for block in range(len(logdets)):
            logdets[block] = self._logdet(self.dense_theta(block))
            if np.isnan(logdets[block]):
                break
        return logdets

    @cached_property
    def logdets(self) -> tuple[FloatArray, FloatArray]:
        """(B,), (B,): log-determinants of Theta and of the dual point; NaN where not definite."""
        dual = [self._logdet(self.dense_dual(block)) for block in range(len(self.group.size))]
        return self._logdets_of_theta, np.array(dual)

    def _logdet(self, matrix: FloatArray) -> float:
        """Log-determinant of a matrix given by its upper triangle, which is overwritten; NaN if not definite."""
        return log_determinant(matrix) if factor_in_place(matrix) else np.nan

    def inverse(self, matrix: FloatArray) -> FloatArray | None:
        """Inverse of a matrix given by its upper triangle, which is overwritten; None if it is not definite."""
        if not factor_in_place(matrix):
            return None
        invert_factor_in_place(matrix)
        mirror_upper(matrix)
        return matrix

    def _inverse_of_definite(self, matrix: FloatArray) -> FloatArray:
        """Inverse of a matrix whose factor has been computed before; it is overwritten as by `inverse`."""
        inverse = self.inverse(matrix)
        if inverse is None:
            raise ArithmeticError("A matrix that was definite is no longer so.")
        return inverse

    @property
    def objective(self) -> float:
        """Objective at Theta; infinite if it is not definite."""
        likelihood = self._traces[1] - self._logdets_of_theta
        objective = float(self.group.block_weight @ likelihood) + self._penalties
        return objective if np.isfinite(objective) else np.inf

    @property
    def computed_gap(self) -> float:
        """Duality gap without rounding errors."""
        return self.gap

    @property
    def gap(self) -> float:
        """Duality gap; infinite if Theta or the dual point is not definite."""
        theta, dual = self.logdets
        gap = float(self.group.block_weight @ (self._traces[0] - self.group.size - theta - dual))
        return max(gap, 0.0) if np.isfinite(gap) else np.inf

    @cached_property
    def _traces(self) -> tuple[FloatArray, FloatArray]:
        """(B,), (B,): traces of the dual point times Theta and of S times Theta."""
        first, (_, sums) = self.group.member_start[:-1], self.projected
        S = self.group.diagonal()[self.permuted.member]
        diagonal_terms = (np.add.reduceat(x * self.theta.diagonal, first) for x in (self.variance, S))
        dual, covariance = diagonal_terms
        return dual + sums.dual, covariance + sums.covariance

    @cached_property
    def _penalties(self) -> float:
        nonzero = self.theta.value != 0.0
        pairs = self.penalty.value(self.theta.value[nonzero], entries_in_classes(self.penalty, nonzero))
        return float(self.diagonal_penalty * self.theta.diagonal.sum() + 2.0 * pairs.sum())

    def with_rounding(self) -> tuple[float, float, float]:
        """Objective, its rounding error, and the gap including rounding; see `rounding.py`."""
        group, first, weight = self.group, self.group.member_start[:-1], self.group.block_weight
        if not np.isfinite(self.gap):
            return self.objective, 0.0, np.inf
        p, d, v = group.size.astype(np.float64), np.sqrt(self.theta.diagonal), np.sqrt(self.variance)
        # Diagonal entries of a factor are at most d, and the sum of their logarithms is known.
        logs, of_dual = (
            4.0 * np.add.reduceat(np.maximum(np.log(x), 0.0), first) + np.abs(logdet)
            for x, logdet in zip((d, v), self.logdets, strict=True)
        )
        chain = 2.0 * p.max() + 4.0 * group.n_classes + len(p) + self.n_variables + len(self.theta.i)
        b = np.add.reduceat(self._scaled_theta(v), first)
        sums = error_of_sums(chain, 1.0) * (3.0 * b + logs + of_dual)
        h = self._traces[0] - p - self.logdets[0] - self.logdets[1] + sums
        g = np.array([sum_error(n + 1.0) for n in p])
        theta, dual = logdet_errors(h, g, b, self._scaled_dual(d))
        if not np.isfinite(theta + dual).all():
            theta, dual = self._errors_by_inverses(p)
        gap = self.gap + float(weight @ (theta + dual + sums))
        sizes = np.add.reduceat(np.abs(group.diagonal()[self.permuted.member] * self.theta.diagonal), first)
        largest = float(weight @ (sizes + logs + self.projected[1].size)) + self._penalties
        error = float(weight @ theta) + error_of_sums(chain, largest)
        proved = np.isfinite(error) and np.isfinite(gap)
        return (self.objective, error, gap) if proved else (np.inf, 0.0, np.inf)

    def _errors_by_inverses(self, p: FloatArray) -> tuple[FloatArray, FloatArray]:
        """(B,), (B,): errors of the log-determinants of Theta and of a dual point far from its inverse."""
        first = self.group.member_start[:-1]
        e, (theta_a, dual_a, dual_b) = self._sums_of_inverses()
        rows_b = self._scaled_theta(np.maximum(e, np.sqrt(self.variance)))
        theta_b = np.maximum.reduceat(rows_b, first), np.add.reduceat(rows_b, first)
        theta, dual = Conditioning(theta_a, theta_b, p), Conditioning(dual_a, dual_b, p)
        return theta.logdet_error, direct_gap_error(theta, dual, p) - theta.logdet_error

    def _sums_of_inverses(self) -> tuple[FloatArray, list[tuple[FloatArray, FloatArray]]]:
        """Square roots of diag(Theta^-1); measure a of Theta, a and b of the dual point (see `rounding.py`)."""
        sums = np.empty((3, 2, len(self.group.size)))
        roots = []
        for block in range(len(self.group.size)):
            members = slice(self.group.member_start[block], self.group.member_start[block + 1])
            matrix = self._inverse_of_definite(self.dense_theta(block))
            roots.append(np.sqrt(np.diagonal(matrix)))
            sums[0, :, block] = _row_sums(matrix, np.sqrt(self.theta.diagonal[members]))
            matrix = self._inverse_of_definite(self.dense_dual(block))
            sums[1, :, block] = _row_sums(matrix, np.sqrt(self.variance[members]))
            root = np.sqrt(np.diagonal(matrix))
            matrix = self.dense_dual(block)
            mirror_upper(matrix)
            sums[2, :, block] = _row_sums(matrix, root)
        return np.concatenate(roots), [(largest, total) for largest, total in sums]

    def _scaled_dual(self, scale: FloatArray) -> FloatArray:
        """(B,): ``sum_ij scale_i |dual_ij| scale_j`` of each block."""
        group, (listed, _), step = self.group, self.projected, config.ROWS_AT_ONCE
        totals, start = bincount(group.member_block, scale * self.variance * scale, len(group.size)), group.member_start
        W = self.W[group.offset[listed.block] + listed.row * group.size[listed.block] + listed.column]
        ends = scale[start[listed.block] + listed.row] * scale[start[listed.block] + listed.column]
        totals += 2.0 * bincount(listed.block, ends * (np.abs(listed.value) - np.abs(W)), len(totals))

        def tile_sum(tile: tuple[int, int]) -> float:
            block, first = tile
            b, block_scale = group.size[block], scale[start[block] : start[block + 1]]
            rows = self.W[group.offset[block] + first * b : group.offset[block] + min(first + step, b) * b]
            above = np.triu(np.abs(rows, dtype=np.float64).reshape(-1, b)[:, first:], 1)
            return 2.0 * float(block_scale[first : first + step] @ above @ block_scale[first:])

        tiles = [(block, first) for block, b in enumerate(group.size) for first in range(0, b, step)]
        with self._one_thread_each():
            sums = Workers(self.n_threads).map(tile_sum, tiles)
        return totals + bincount(np.array([block for block, _ in tiles]), np.array(sums), len(totals))

    def _scaled_theta(self, scale: FloatArray) -> FloatArray:
        """(M,): ``scale_i sum_j |theta_ij| scale_j`` of each member."""
        group, (block_of, slot_of) = self.group, self.places
        rows = scale * self.theta.diagonal * scale
        for k in range(group.n_classes):
            nonzero = np.flatnonzero(self.theta.value[:, k])
            block = block_of[k, self.theta.i[nonzero]]
            i, j = (group.member_start[block] + slot_of[k, end[nonzero]] for end in (self.theta.i, self.theta.j))
            size = scale[i] * np.abs(self.theta.value[nonzero, k]) * scale[j]
            rows += bincount(i, size, len(rows)) + bincount(j, size, len(rows))
        return rows

    def entries_at(self, row: IntArray, column: IntArray) -> tuple[FloatArray, FloatArray]:
        """W and the dual point at entries given by the members of their row and column."""
        group = self.group
        rank = np.argsort(self.permuted.member)  # inverse permutation
        row, column = np.minimum(rank[row], rank[column]), np.maximum(rank[row], rank[column])
        position = group.positions(row, column)
        listed = self.projected[0]
        moved = group.offset[listed.block] + listed.row * group.size[listed.block] + listed.column
        W = self.W[position].astype(np.float64)
        dual, place = W.copy(), find_keys(moved, position)
        dual[place >= 0] = listed.value[place[place >= 0]]
        return W, dual

    def at_pairs(self, i: IntArray, j: IntArray) -> tuple[SomePairs, FloatArray, FloatArray, FloatArray]:
        """System of pairs (indices within the group), with Theta, W and the dual point in its storage."""
        group, theta = self.group, self.theta_support
        system = SomePairs.of(group, i, j)
        W, dual = self.entries_at(system.row, system.column)
        variance = group.optimal_variance(self.diagonal_penalty)
        entries = theta.at(group.local[system.row], group.local[system.column], system.entry_class)
        columns = (theta.diagonal, entries), (variance, W), (variance, dual)
        at_entries, inverse, dual = (np.concatenate(column) for column in columns)
        return system, at_entries, inverse, dual

    def others_proved(self, gap: float) -> bool:
        """Whether the gap certifies the zeros of pairs that are not deferred, as for every group penalty."""
        return True

    def n_absent(self, gap: float, *, screening_proved: bool = True) -> int:
        """Number of zero entries that a gap of the full problem proves zero; see `certificate.certified_edges`."""
        from jointglasso.kernels.dual_rows import GapRadius, count_certified_zeros

        group, n, n_classes = self.group, self.n_variables, self.group.n_classes
        r = dual_radius(np.full(len(group.size), gap), group.block_weight)
        if not np.isfinite(r).all():
            return 0
        root, radius, cls = np.zeros((n_classes, n)), np.zeros(n_classes), group.block_class
        root[cls[group.member_block], self.permuted.variable] = np.sqrt(self.variance)
        radius[cls] = r
        radii = GapRadius(radius, root, ROUNDING, screening_proved)
        size, step = self.penalty.workspace_size(n_classes), rows_per_pass(n)

        def count(first: int, last: int) -> int:
            known = self._projected[first // step]
            mark = np.zeros((last - first, n), dtype=bool)
            mark[known.i - first, known.j] = True
            rows, stack = self._covariances(first, last)
            absent = int(count_certified_zeros(self.penalty.pair, rows, stack, self.W, radii, size, mark))
            pair, k = np.nonzero(known.in_block)
            weight, value = group.block_weight[known.listed.block], np.abs(known.listed.value)
            bound = weight * radius[k] * root[k, known.i[pair]] * root[k, known.j[pair]]
            bound += ROUNDING * (2.0 * weight * value + np.abs(known.u))  # |S| is at most the sum of |W| and |u| / w
            entries = entries_in_classes(self.penalty, known.in_block)
            zeros = self.penalty.certified_zeros(SafeRegion(known.theta, known.u, bound, bound), entries)
            countable = np.full(len(pair), screening_proved) | (known.in_block.sum(axis=1)[pair] == n_classes)
            return absent + int((zeros & countable & (known.theta == 0.0)).sum())

        return sum(self.over_rows(count))

    def with_subgradients(self, row: IntArray, column: IntArray, value: FloatArray) -> DualPoint:
        """Copy with given subgradients at entries given by the members of their row and column."""
        rank = np.argsort(self.order)  # inverse permutation
        ends = rank[self.group.local[row]], rank[self.group.local[column]]
        cls = self.group.block_class[self.group.member_block[row]]
        other = replace(self, subgradient_override=(cls, np.minimum(*ends), np.maximum(*ends), value))
        other.__dict__["_logdets_of_theta"] = self._logdets_of_theta  # the factors of a large Theta take seconds
        return other


def _by_block(listed: DualEntries) -> DualEntries:
    order = np.argsort(listed.block, kind="stable")
    return DualEntries(listed.block[order], listed.row[order], listed.column[order], listed.value[order])


def _write(listed: DualEntries, block: int, matrix: FloatArray) -> None:
    """Write the entries of one block into its matrix; `listed` is sorted by block."""
    selected = slice(*np.searchsorted(listed.block, [block, block + 1]))
    matrix[listed.row[selected], listed.column[selected]] = listed.value[selected]


def rows_per_pass(n: int) -> int:
    """Rows per row block for n variables: enough work for a thread, in at least `_DUAL_PIECES` blocks."""
    return max(1, min(int(config.DUAL_ROWS // n), -(-n // _DUAL_PIECES)))


def _row_sums(matrix: FloatArray, scale: FloatArray) -> tuple[float, float]:
    """Largest row sum ``scale_i sum_j |a_ij| scale_j`` of a matrix, and the sum of all row sums."""
    from jointglasso.kernels.dense import scaled_row_sums

    sums = np.empty_like(scale)
    scaled_row_sums(matrix.ravel(), np.array([len(matrix)]), scale, sums)
    return sums.max(), sums.sum()
