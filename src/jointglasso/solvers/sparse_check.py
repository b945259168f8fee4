"""Optimality conditions of all pairs at a point in sparse storage, and the dual point they give.

Pairs that are neither candidates nor *listed* have ``w_k |W_k,ij| <= slack`` in each class, which proves that they are
inside the dual ball. The list comes from columns of W by local relaxation (`kernels/sparse_columns.py`), or, where
these do not converge, from columns solved for with the factor. Candidates and listed pairs are examined one by one:
the dual point is S + u / w with u the subgradient nearest to the negative gradient g = w (W - S), and equals W at all
pairs where g is a subgradient. R, its difference from W, is then non-zero at few entries.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from jointglasso._cached_property import cached_property
from jointglasso._typing import BoolArray, FloatArray, IntArray
from jointglasso.blocks.sparse_factor import SparseInverse
from jointglasso.blocks.sparse_group import LISTED_SLACK, SparsePoint
from jointglasso.penalties.base import l1_weights, times
from jointglasso.rounding import sum_error

_UNIT = np.finfo(np.float64).eps / 2.0

#: Columns of W solved for at a time; listed pairs aimed at in one pass over the columns, and pairs examined at a time.
_COLUMNS, _LISTED, _EXAMINED = 32, 500_000, 1_000_000

#: Fractions of the slack to which columns of W are computed, at first and where that leaves a doubt; largest relative
#: error of W that is accepted on the sparsity.
_COLUMN_SLACK, _ENTRY_SLACK, _MAX_ERROR = 0.02, 2e-11, 0.04

#: Steps of the power method for the least eigenvalue of Theta.
_POWER_STEPS = 30

#: Fractions of the estimated least eigenvalue that are tried as a proved lower bound.
_FRACTIONS = (0.9, 0.7, 0.5, 0.3, 0.1, 0.01, 1e-4)


class ClassInverse:
    """W of one class with error bounds: on the sparsity of the factor, by local relaxation, or solved for."""

    def __init__(self, inverse: SparseInverse, matrix: Any, entries: FloatArray, slack: float) -> None:
        """Theta by its non-zero entries (`matrix`), and by its entries (E,) on the sparsity; the slack is that of W."""
        from jointglasso.kernels.sparse_columns import RelaxationLimits

        self.inverse, self.matrix, self.slack, sparsity = inverse, matrix, slack, inverse.sparsity
        off = sparse.csr_array((matrix.value, matrix.other, matrix.start), shape=2 * (len(matrix.diagonal),))
        self.theta = sparse.csr_array(off + sparse.diags_array(matrix.diagonal))
        self.mu = least_eigenvalue(inverse, matrix.diagonal, entries)
        column_work = len(sparsity.rows) + sparsity.n_tail**2 // 16  # as long as a column by the factor takes
        self.limits = RelaxationLimits(self.mu, _COLUMN_SLACK * slack, column_work + 1000)

    @classmethod
    def of(cls, point: SparsePoint, k: int) -> ClassInverse:
        """W of class k of a point with inverses."""
        working_set, slack = point.working_set, point.group.slack / point.group.weights[k]
        matrix = working_set.matrix(k, point.theta, point.diagonal)
        return cls(point.inverses[k], matrix, point.theta[working_set.of_class[k]], slack)

    @cached_property
    def error(self) -> tuple[float, float]:
        """Bounds on ``|X - W|_ij / sqrt(W_ii W_jj)`` on the sparsity, X as computed, and on the error of log det Theta.

        X is the exact inverse, on the sparsity, of a matrix ``Theta + F`` (theorem C11): F contains the backward error
        of the factor, that of the columns of Takahashi's recursion and that of the inverse of the tail. Infinite if the
        bound on |W^(1/2) F W^(1/2)| is not small.
        """
        sparsity = self.inverse.sparsity
        norm, relative = self.inverse.factor.backward_error
        if not self.mu > 0.0:
            return np.inf, np.inf
        largest = float(abs(self.theta).sum(axis=1).max())
        condition, longest = largest / self.mu, float(np.diff(sparsity.offset).max(initial=1))
        trace = float(self.matrix.diagonal.sum())
        columns = 5.0 * sum_error(longest + 4.0) * condition * np.sqrt(longest * trace * largest) / self.mu
        m = float(sparsity.n_tail)
        tail = sum_error(m + 1.0) * 4.0 * m * np.sqrt(m) * condition
        total = 1.25 * (norm / self.mu + columns + tail)
        if not total <= _MAX_ERROR:
            return np.inf, np.inf
        error, variance = total / (1.0 - total), self.inverse.diagonal
        n_entries = 2.0 * len(sparsity.rows) + m * m + len(variance)
        scaled = self.inverse.scaled_sum(np.sqrt(self.matrix.diagonal))
        scaled += 2.0 * error * n_entries * float((variance * self.matrix.diagonal).max())
        return error, 1.1 * relative * scaled

    def columns(self, variables: IntArray) -> tuple[FloatArray, FloatArray]:
        """(n, c), (c,): columns solved for, and bounds on their errors from their residuals."""
        X = self.inverse.columns(variables)
        residual = self.theta @ X
        residual[variables, np.arange(len(variables))] -= 1.0
        chain = 4.0 + float(np.diff(self.matrix.start).max(initial=0))
        rounding = 1.1 * chain * _UNIT * float(abs(self.theta).sum(axis=1).max()) * np.sqrt((X * X).sum(axis=0))
        return X, (np.sqrt((residual * residual).sum(axis=0)) * (1.0 + 1e-9) + rounding) / self.mu

    def values(self, i: IntArray, j: IntArray, accuracy: float) -> tuple[FloatArray, FloatArray]:
        """W at pairs of variables, with bounds on the errors; 0 for entries on the sparsity of the factor.

        The error of those is `error`.
        """
        from jointglasso.kernels.sparse_columns import entries_of_inverse

        value, known = self.inverse.at(i, j)
        error = np.zeros(len(i))
        rest = np.flatnonzero(~known)
        if not self.mu > 0.0:
            error[rest] = np.inf
            return value, error
        order = rest[np.argsort(j[rest], kind="stable")]
        near, bound = np.empty(len(order)), np.empty(len(order))
        limits = self.limits._replace(tolerance=accuracy * self.slack)
        entries_of_inverse(i[order], j[order], self.matrix, limits, near, bound)
        value[order], error[order] = near, bound
        failed = order[~np.isfinite(bound)]
        for columns in _pieces(np.unique(j[failed]), _COLUMNS):
            X, bounds = self.columns(columns)
            first, last = np.searchsorted(j[failed], [columns[0], columns[-1] + 1])
            here = failed[first:last]
            column = np.searchsorted(columns, j[here])
            value[here], error[here] = X[i[here], column], bounds[column]
        return value, error

    def large(self, columns: IntArray) -> tuple[IntArray, IntArray]:
        """Entries of columns, rows above columns, that may exceed the fraction of the slack for listing."""
        from jointglasso.kernels.sparse_columns import list_large_entries

        limit = LISTED_SLACK * self.slack
        row, column, failed = list_large_entries(columns, self.matrix, self.limits, limit)
        rows, found = [row], [column]
        for piece in _pieces(failed, _COLUMNS):
            X, bounds = self.columns(piece)
            i, c = np.nonzero(np.abs(X) + bounds > limit)
            lower = i > piece[c]
            rows.append(i[lower])
            found.append(piece[c[lower]])
        return np.concatenate(rows), np.concatenate(found)


def _pieces(items: IntArray, size: int) -> list[IntArray]:
    return [items[first : first + size] for first in range(0, len(items), size)]


def least_eigenvalue(inverse: SparseInverse, diagonal: FloatArray, entries: FloatArray) -> float:
    """Proved lower bound on the least eigenvalue of Theta, given by its diagonal and entries; 0 if there is none.

    If Theta - mu I has a computed Cholesky factor, ``L L' = Theta - mu I + E`` is positive semidefinite, so that the
    least eigenvalue of Theta is at least mu - |E|_inf, less the rounding of the shift.
    """
    largest, x = float(inverse.diagonal.max()), inverse.diagonal
    for _ in range(_POWER_STEPS):  # estimate of the largest eigenvalue of W
        x = inverse.multiply(x / np.sqrt((x * x).sum()))
        largest = max(largest, float(np.sqrt((x * x).sum())))
    for fraction in _FRACTIONS:
        mu = fraction / largest
        factor = inverse.sparsity.factor(diagonal - mu, entries)
        if factor is not None:
            proved = mu - factor.backward_error[0] - 2.0 * _UNIT * float(diagonal.max())
            return max(0.0, proved * (1.0 - 4.0 * _UNIT))
    return 0.0


@dataclass(frozen=True)
class Examined:
    """Pairs examined one by one; all arrays (P, K) are zero outside the blocks."""

    i: IntArray
    j: IntArray
    in_block: BoolArray
    theta: FloatArray
    S: FloatArray
    W: FloatArray
    error: FloatArray
    """Bounds on the errors of W: 0 on the sparsity of the factor."""
    u: FloatArray
    """Subgradient of the dual point, S + u / w; equal to w (W - S) where R = 0."""
    has_residual: BoolArray
    """(P, K): entries at which R is not proved to be zero, or is to be rechecked."""
    inside: BoolArray
    """(P,): pairs of zeros proved to be inside the dual ball."""
    margin: FloatArray
    """(P,): bound on the change of the entries of w W that keeps a pair of zeros inside the dual ball."""

    def gradient(self, weights: FloatArray) -> FloatArray:
        """(P, K): negative gradients w (W - S)."""
        return np.where(self.in_block, weights * (self.W - self.S), 0.0)

    def take(self, index: Any) -> Examined:
        return Examined(*(getattr(self, name)[index] for name in self.__dataclass_fields__))

    @staticmethod
    def join(parts: list[Examined]) -> Examined:
        return Examined(*(np.concatenate([getattr(p, name) for p in parts]) for name in Examined.__dataclass_fields__))


class PairCheck:
    """Check of all pairs of a group at a point with inverses."""

    def __init__(self, point: SparsePoint) -> None:
        self.point, self.group = point, point.group
        self.box = self.group.penalty.box_radius(self.group.layout.n_classes)
        self.inverses = self.group.map_classes(lambda k: ClassInverse.of(point, k))
        layout = self.group.layout
        self.root_error = np.zeros((layout.n_classes, len(layout.variables)))
        """(K, U): products of two are bounds on the errors of W on the sparsity."""
        for k, inverse in self.inverses.items():
            eps, _ = inverse.error
            if np.isfinite(eps):
                variable = layout.local[self.group.members_of[k]]
                self.root_error[k, variable] = np.sqrt(eps * (1.0 + 2.0 * eps) * inverse.inverse.diagonal)

    @property
    def proved(self) -> bool:
        """Whether the least eigenvalue of each class is proved positive, without which no pair is."""
        return all(inverse.mu > 0.0 for inverse in self.inverses.values())

    def candidates(self, to_recheck: BoolArray) -> Examined:
        """The candidates of the group; of those in `to_recheck` (P,) W is computed accurately and R kept."""
        group, entries = self.group, self.point.working_set
        theta = np.zeros(group.in_block.shape)
        theta[entries.active] = self.point.theta
        return self.examine(group.i, group.j, group.in_block, theta, group.S, to_recheck)

    def examine(
        self, i: IntArray, j: IntArray, in_block: BoolArray, theta: FloatArray, S: FloatArray, to_recheck: BoolArray,
    ) -> Examined:  # fmt: skip
        """Subgradients of pairs; entries of W that leave a doubt are computed more accurately."""
        W, error = self._inverse(i, j, in_block, _COLUMN_SLACK)
        rounding = (self.root_error[:, i] * self.root_error[:, j]).T
        g, inside, exact, margin = self._decide(i, j, in_block, theta, S, W, error + rounding)
        unresolved = (error > 0.0) & (to_recheck[:, None] | (~exact & ~inside[:, None]))
        index = np.flatnonzero(unresolved.any(axis=1))
        if len(index):
            W[index], error[index] = self._inverse(i[index], j[index], in_block[index], _ENTRY_SLACK)
            g, inside, exact, margin = self._decide(i, j, in_block, theta, S, W, error + rounding)
        u, rest = g.copy(), np.flatnonzero(~inside)
        mask = in_block[rest]
        nearest = np.zeros(mask.shape)
        entries = self.group.layout.entries(self.group.penalty, i[rest], j[rest], mask)
        nearest[mask] = self.group.penalty.nearest_subgradient(theta[rest][mask], g[rest][mask], entries)
        u[rest] = nearest
        uncertain = (error + rounding > 0.0) & ~exact & ~inside[:, None]
        has_residual = in_block & ((u != g) | uncertain | to_recheck[:, None])
        return Examined(i, j, in_block, theta, S, W, error, u, has_residual, inside, margin)

    def _inverse(self, i: IntArray, j: IntArray, in_block: BoolArray, accuracy: float) -> tuple[FloatArray, FloatArray]:
        """(P, K), (P, K): W at pairs inside the blocks, and bounds on its errors; zero elsewhere."""
        group, member_of = self.group, self.group.layout.member_of
        W, error, by_row = np.zeros(in_block.shape), np.zeros(in_block.shape), np.argsort(i, kind="stable")

        def fill(piece: tuple[int, IntArray]) -> None:
            k, pairs = piece
            row, column = group.slot[member_of[k, j[pairs]]], group.slot[member_of[k, i[pairs]]]
            W[pairs, k], error[pairs, k] = self.inverses[k].values(row, column, accuracy)

        group.map_pieces(fill, [(k, by_row[in_block[by_row, k]]) for k in group.classes], group.n_threads)
        return W, error

    def _decide(
        self, i: IntArray, j: IntArray, in_block: BoolArray,
        theta: FloatArray, S: FloatArray, W: FloatArray, error: FloatArray,
    ) -> tuple[FloatArray, BoolArray, BoolArray, FloatArray]:  # fmt: skip
        """Negative gradients g; pairs proved inside the dual ball; entries proved to have R = 0; margins of the pairs.

        The gauge of the dual ball is sublinear and at most |d| / box_radius at d, so that a pair is inside for all
        changes of g up to (1 - gauge) box_radius, times the least weight of the pair. An entry of a pair that is
        non-zero elsewhere may have any value up to the threshold of its class, for penalties that do not depend on the
        class.
        """
        layout, penalty = self.group.layout, self.group.penalty
        weights, factor = self.group.weights, layout.factors(i, j)
        g = np.where(in_block, weights * (W - S), 0.0)
        spread = (weights * error).max(axis=1, initial=0.0)
        gauge = penalty.gauge(g[in_block], layout.entries(penalty, i, j, in_block))
        box = self.box * factor.reshape(len(i), -1).min(axis=1) if len(factor) else self.box
        margin = (1.0 - np.where(box > 0.0, gauge, 1.0) * (1.0 + 64.0 * _UNIT)) * box - spread
        inside = (theta == 0.0).all(axis=1) & (margin > 0.0)
        threshold = np.array([penalty.threshold(k) for k in range(in_block.shape[1])]) * (1.0 - 64.0 * _UNIT)
        exact = in_block & (theta == 0.0)
        exact &= np.abs(g) + weights * error < times(threshold, l1_weights(factor))
        return g, inside, exact & (not penalty.class_dependent), margin

    def listed(self) -> tuple[Examined, FloatArray, IntArray]:
        """Listed pairs with R != 0 or to be rechecked; margins of all others, and the number of their entries.

        Margins are in units of r in `gap_radii`. Pairs are listed where ``w_k |W_k,ij|`` may exceed a fraction of the
        slack in some class.
        """
        group, n = self.group, len(self.group.layout.variables)
        found, margins, counts = [self._empty()], [np.empty(0)], [np.empty(0, dtype=np.int64)]
        root = self._root_variance()
        first, width = 0 if self.proved else n, 4096
        while first < n:
            last = min(n, first + width)
            i, j = self._large(first, last)
            new = (group.find(i, j) < 0) & group.layout.class_mask(i, j).any(axis=1)
            i, j = i[new], j[new]
            for piece in _pieces(np.arange(len(i)), _EXAMINED):
                examined = self._examine_new(i[piece], j[piece])
                mask = examined.has_residual.any(axis=1)
                found.append(examined.take(mask))
                others = examined.take(~mask)
                largest = (group.weights * root[:, others.i].T * root[:, others.j].T * others.in_block).max(axis=1)
                margins.append(others.margin / largest)
                counts.append(others.in_block.sum(axis=1))
            width = max(64, min(2**16, int(width * min(4.0, _LISTED / (len(i) + 1.0)))))
            first = last
        return Examined.join(found), np.concatenate(margins), np.concatenate(counts)

    def _examine_new(self, i: IntArray, j: IntArray) -> Examined:
        in_block = self.group.layout.class_mask(i, j)
        S = self.group.covariances(i, j, in_block)
        partly = self.group.penalty.class_dependent & (in_block.sum(axis=1) < in_block.shape[1])
        return self.examine(i, j, in_block, np.zeros(in_block.shape), S, partly)

    def _empty(self) -> Examined:
        none = np.empty(0, dtype=np.int64)
        return self._examine_new(none, none)

    def _root_variance(self) -> FloatArray:
        """(K, U): square roots of the optimal variances of the members; 0 where a class lacks the variable."""
        layout = self.group.layout
        root = np.zeros((layout.n_classes, len(layout.variables)))
        root[self.group.member_class, layout.local] = np.sqrt(layout.optimal_variance(self.group.diagonal_penalty))
        return root

    def _large(self, first: int, last: int) -> tuple[IntArray, IntArray]:
        """Pairs i < j of variables, first <= i < last, whose W may exceed the slack for listing in some class."""
        group, n = self.group, len(self.group.layout.variables)

        def one(piece: tuple[int, IntArray]) -> IntArray:
            k, members = piece
            row, column = self.inverses[k].large(group.slot[members])
            variable = group.layout.local[group.members_of[k]]
            return variable[column] * n + variable[row]

        members = group.layout.member_of[:, first:last]
        of_class = [(k, members[k][members[k] >= 0]) for k in group.classes]
        key = np.unique(np.concatenate([self.group.i[:0], *group.map_pieces(one, of_class, 4 * group.n_threads)]))
        return key // n, key % n
