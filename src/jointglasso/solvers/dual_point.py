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
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from jointglasso import tuning
from jointglasso._lapack import factor_in_place, invert_factor_in_place, log_determinant
from jointglasso._threads import Workers, single_threaded_blas
from jointglasso._typing import BoolArray, FloatArray, IntArray
from jointglasso.backends.matrices import DeviceMatrices
from jointglasso.blocks.big_group import BigGroup, Support, entries_held
from jointglasso.blocks.system import bincount
from jointglasso.certificate import ROUNDING, gap_radii, precision_radius
from jointglasso.kernels.pair_types import Stack
from jointglasso.penalties import UNIFORM, PairPenalty
from jointglasso.rounding import Conditioning, error_of_sums, far_error, near_errors, sum_error
from jointglasso.solvers.column_order import Order

if TYPE_CHECKING:
    from jointglasso.kernels.dual_rows import Rows

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


class Projected(NamedTuple):
    """What the projection moves in some rows, pair by pair."""

    i: IntArray
    j: IntArray
    held: BoolArray
    """(P, K)."""
    theta: FloatArray
    u: FloatArray
    listed: Listed
    """Of the entries held: Theta, the subgradient, and where the dual point is."""
    sums: Sums


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

    def over_rows(self, function: Callable[[int, int], Result]) -> list[Result]:
        """Results of a function of the first and the last row, for some rows at a time."""
        n, step = self.n_variables, rows_at_once(self.n_variables)
        with self._one_thread_each():
            return Workers(self.n_threads).map(lambda first: function(first, min(first + step, n)), range(0, n, step))

    def _one_thread_each(self) -> AbstractContextManager[None]:
        return single_threaded_blas() if self.n_threads > 1 else nullcontext()

    @cached_property
    def _stack(self) -> Stack:
        """The blocks in the order of W, without covariances."""
        return self.arranged.stack(UNIFORM, UNIFORM)

    @cached_property
    def _pairs_of(self) -> tuple[IntArray, IntArray]:
        """Where the pairs of each variable with those after it begin in Theta; the members, by block and variable."""
        n = self.n_variables
        return np.searchsorted(self.theta.i, np.arange(n + 1)), self.group.member_block * n + self.arranged.variable

    def _covariances(self, first: int, last: int) -> tuple[Rows, Stack]:
        """Covariances of the variables first..last-1 with those after them."""
        from jointglasso.kernels.dual_rows import Rows

        group, n, (_, keys) = self.group, self.n_variables, self._pairs_of
        blocks = np.arange(len(group.size))
        lo, hi = (np.searchsorted(keys, blocks * n + end) - group.member_start[:-1] for end in (first, last))
        at, parts, length = np.zeros((group.n_classes, last - first), dtype=np.int64), [], 0
        for block in np.flatnonzero(lo < hi):
            start, width = group.member_start[block], group.size[block] - lo[block]
            inside = slice(start + lo[block], start + group.size[block])
            variable, m = group.members[self.arranged.member[inside]], hi[block] - lo[block]
            place = self.arranged.variable[inside][:m] - first
            at[group.block_class[block], place] = length - lo[block] + width * np.arange(m)
            parts.append(group.covariances(int(block), variable[:m], variable).ravel())
            length += m * width
        return Rows(first, at), self._stack._replace(S=np.concatenate(parts))

    def _project(self, first: int, last: int) -> Projected:
        """What the projection moves in the rows first..last-1: pairs of Theta, and those outside their dual ball."""
        from jointglasso.kernels.dual_rows import Reach, count_inside

        group, n, theta = self.group, self.n_variables, self.theta
        (rows, stack), (block_of, slot_of), start = self._covariances(first, last), self.places, self._pairs_of[0]
        mark, mine = np.zeros((last - first, n), dtype=bool), slice(start[first], start[last])
        mark[theta.i[mine] - first, theta.j[mine]] = True
        if self.instead is not None:
            _, i, j, _ = self.instead
            here = (i >= first) & (i < last)
            mark[i[here] - first, j[here]] = True
        exact = Reach(np.zeros(group.n_classes), np.zeros(block_of.shape), 0.0, True)
        count_inside(self.penalty.pair, rows, stack, self.W, exact, self.penalty.room(group.n_classes), mark)
        at = np.flatnonzero(mark)
        i, j = first + at // n, at % n
        held = ((block_of[:, i] == block_of[:, j]) & (block_of[:, i] >= 0)).T
        values = np.zeros(held.shape)
        values[np.searchsorted(at, (theta.i[mine] - first) * n + theta.j[mine])] = theta.value[mine]
        pair, k = np.nonzero(held)
        block, row, column = block_of[k, i[pair]], slot_of[k, i[pair]], slot_of[k, j[pair]]
        W = self.W[group.offset[block] + row * group.size[block] + column]
        x, S, weight = values[held], stack.S[rows.at[k, i[pair] - first] + column], group.block_weight[block]
        u = self.penalty.nearest_subgradient(x, weight * (W - S), entries_held(self.penalty, held))
        u = self._instead(i[pair], j[pair], k, u)
        value = S + u / weight

        def summed(numbers: FloatArray) -> FloatArray:
            return 2.0 * bincount(block, numbers, len(group.size))

        sums = Sums(summed(value * x), summed(S * x), summed(np.abs(S * x)))
        return Projected(i, j, held, x, u, Listed(block, row, column, value), sums)

    def _instead(self, i: IntArray, j: IntArray, k: IntArray, u: FloatArray) -> FloatArray:
        """Subgradients of which some are given."""
        if self.instead is None:
            return u
        n, (cls, *ends, value) = self.n_variables, self.instead
        key, given = (k * n + i) * n + j, (cls * n + ends[0]) * n + ends[1]
        order = np.argsort(given)
        at = np.minimum(np.searchsorted(given[order], key), max(0, len(given) - 1))
        hit = given[order][at] == key if len(given) else np.zeros(len(key), dtype=bool)
        u[hit] = value[order][at[hit]]
        return u

    @cached_property
    def _projected(self) -> list[Projected]:
        return self.over_rows(self._project)

    @cached_property
    def projected(self) -> tuple[Listed, Sums]:
        """The entries at which the dual point differs from W, block by block, and sums over all pairs."""
        listed, sums = (zip(*parts, strict=True) for parts in zip(*(one[-2:] for one in self._projected), strict=True))
        return _by_block(Listed(*map(np.concatenate, listed))), Sums(*(np.sum(parts, axis=0) for parts in sums))

    @cached_property
    def _theta_entries(self) -> Listed:
        """Entries of Theta, block by block."""
        block_of, slot_of = self.places
        pair, k = np.nonzero(self.theta.value)
        i, j = self.theta.i[pair], self.theta.j[pair]
        return _by_block(Listed(block_of[k, i], slot_of[k, i], slot_of[k, j], self.theta.value[pair, k]))

    def dense_theta(self, block: int) -> FloatArray:
        """Upper triangle of Theta of a block."""
        group = self.group
        matrix = np.zeros((group.size[block], group.size[block]))
        _write(self._theta_entries, block, matrix)
        np.fill_diagonal(matrix, self.theta.diagonal[group.member_start[block] : group.member_start[block + 1]])
        return matrix

    def dense_dual(self, block: int) -> FloatArray:
        """Upper triangle, and more, of the dual point of a block."""
        group, (listed, _) = self.group, self.projected
        b, step = group.size[block], tuning.ROWS_AT_ONCE
        matrix, W = np.empty((b, b)), self.W[group.offset[block] : group.offset[block + 1]].reshape(b, b)

        def copy(first: int) -> None:
            matrix[first : first + step, first:] = W[first : first + step, first:]

        Workers(self.n_threads).map(copy, range(0, b, step))
        _write(listed, block, matrix)
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
        group, (listed, _), step = self.group, self.projected, tuning.ROWS_AT_ONCE
        found, start = bincount(group.member_block, scale * self.variance * scale, len(group.size)), group.member_start
        W = self.W[group.offset[listed.block] + listed.row * group.size[listed.block] + listed.column]
        ends = scale[start[listed.block] + listed.row] * scale[start[listed.block] + listed.column]
        found += 2.0 * bincount(listed.block, ends * (np.abs(listed.value) - np.abs(W)), len(found))

        def some(at: tuple[int, int]) -> float:
            block, first = at
            b, mine = group.size[block], scale[start[block] : start[block + 1]]
            rows = self.W[group.offset[block] + first * b : group.offset[block] + min(first + step, b) * b]
            above = np.triu(np.abs(rows, dtype=np.float64).reshape(-1, b)[:, first:], 1)
            return 2.0 * float(mine[first : first + step] @ above @ mine[first:])

        pieces = [(block, first) for block, b in enumerate(group.size) for first in range(0, b, step)]
        with self._one_thread_each():
            sums = Workers(self.n_threads).map(some, pieces)
        return found + bincount(np.array([block for block, _ in pieces]), np.array(sums), len(found))

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
        factor = precision_radius(np.full(len(group.size), gap), group.block_weight)
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
        from jointglasso.kernels.dual_rows import Reach, count_inside

        group, n, n_classes = self.group, self.n_variables, self.group.n_classes
        r, _ = gap_radii(np.full(len(group.size), gap), group.block_weight)
        if not np.isfinite(r).all():
            return 0
        root, radius, cls = np.zeros((n_classes, n)), np.zeros(n_classes), group.block_class
        root[cls[group.member_block], self.arranged.variable] = np.sqrt(self.variance)
        radius[cls] = r
        reach, n_room, step = Reach(radius, root, ROUNDING, cuts_proved), self.penalty.room(n_classes), rows_at_once(n)

        def count(first: int, last: int) -> int:
            known = self._projected[first // step]
            mark = np.zeros((last - first, n), dtype=bool)
            mark[known.i - first, known.j] = True
            rows, stack = self._covariances(first, last)
            absent = int(count_inside(self.penalty.pair, rows, stack, self.W, reach, n_room, mark))
            pair, k = np.nonzero(known.held)
            weight, value = group.block_weight[known.listed.block], np.abs(known.listed.value)
            far = weight * radius[k] * root[k, known.i[pair]] * root[k, known.j[pair]]
            far += ROUNDING * (2.0 * weight * value + np.abs(known.u))  # S is at most as large as both
            zeros = self.penalty.certain_zeros(known.theta, known.u, far, far, entries_held(self.penalty, known.held))
            counts = np.full(len(pair), cuts_proved) | (known.held.sum(axis=1)[pair] == n_classes)
            return absent + int((zeros & counts & (known.theta == 0.0)).sum())

        return sum(self.over_rows(count))

    def with_subgradients(self, row: IntArray, column: IntArray, value: FloatArray) -> DualPoint:
        """With other subgradients at entries that are given by their members."""
        place = np.empty_like(self.order)
        place[self.order] = np.arange(len(place))
        ends = place[self.group.local[row]], place[self.group.local[column]]
        cls = self.group.block_class[self.group.member_block[row]]
        other = replace(self, instead=(cls, np.minimum(*ends), np.maximum(*ends), value))
        other.__dict__["_logdets_of_theta"] = self._logdets_of_theta  # the factors of a large Theta take seconds
        return other


def _by_block(listed: Listed) -> Listed:
    order = np.argsort(listed.block, kind="stable")
    return Listed(listed.block[order], listed.row[order], listed.column[order], listed.value[order])


def _write(listed: Listed, block: int, matrix: FloatArray) -> None:
    """Write the entries of one block, of entries block by block, into its matrix."""
    here = slice(*np.searchsorted(listed.block, [block, block + 1]))
    matrix[listed.row[here], listed.column[here]] = listed.value[here]


def rows_at_once(n: int) -> int:
    """Rows of n variables that are looked at at once: enough to be worth a thread, and never all."""
    return max(1, min(int(tuning.DUAL_ROWS // n), -(-n // tuning.DUAL_PIECES)))


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
