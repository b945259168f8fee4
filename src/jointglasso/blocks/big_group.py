"""One large group without dense matrices in double precision.

A `BlockSystem` takes a hundred bytes per block entry, most of them for the pair index. Here the covariances are read
from the source on demand, a block of rows at a time, and Theta is stored as a list of non-zero pairs; only the matrix W
of the sweeps, in single precision, is dense.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from jointglasso._cached_property import cached_property
from jointglasso._typing import BoolArray, FloatArray, IntArray
from jointglasso.blocks.system import BlockLayout, BlockSystem, find_keys
from jointglasso.data import CovarianceSource
from jointglasso.kernels.pair_types import Entries
from jointglasso.penalties import ANY_CLASS, UNIFORM, PairPenalty, PairWeights
from jointglasso.penalties.base import coupling_weights, l1_weights
from jointglasso.screening.groups import ClassBlocks


@dataclass(frozen=True)
class BigGroup(BlockLayout):
    """Layout of the class blocks of one group, and the source of its covariances."""

    source: CovarianceSource
    pair_weights: PairWeights | None = None

    @classmethod
    def build(
        cls, source: CovarianceSource, blocks: ClassBlocks, weights: FloatArray, pair_weights: PairWeights | None = None
    ) -> BigGroup:
        """Layout of the class blocks of a group."""
        self = cls(**vars(BlockLayout.sorted(blocks, weights)[0]), source=source)
        restricted = None if pair_weights is None else pair_weights.restricted_to(self.variables)
        return replace(self, pair_weights=restricted)

    def has_blocks_of(self, other: BigGroup) -> bool:
        """Whether the class blocks are the same."""
        return np.array_equal(self.size, other.size) and np.array_equal(self.class_variables, other.class_variables)

    @property
    def n_entries(self) -> int:
        """Number of entries i < j inside the blocks, without the forbidden ones."""
        n_inside = int((self.size * (self.size - 1) // 2).sum())
        if self.pair_weights is None:
            return n_inside
        *ends, forbidden = self.pair_weights.forbidden_entries
        i, j = np.searchsorted(self.variables, ends)
        return n_inside - int((forbidden & replace(self, pair_weights=None).class_mask(i, j)).sum())

    @cached_property
    def variables(self) -> IntArray:
        """(U,): the variables of the group, sorted."""
        return np.unique(self.members)

    @cached_property
    def class_variables(self) -> IntArray:
        """(M,): class and variable of each member as one number."""
        return np.asarray(self.block_class[self.member_block] * self.source.n_variables + self.members)

    @cached_property
    def local(self) -> IntArray:
        """(M,): index within the group of each member's variable."""
        return np.searchsorted(self.variables, self.members)

    @cached_property
    def member_block(self) -> IntArray:
        """(M,): block of each member."""
        return np.repeat(np.arange(len(self.size)), self.size)

    @cached_property
    def member_of(self) -> IntArray:
        """(K, U): member of each variable of the group in each class; -1 if none."""
        member = np.full((self.n_classes, len(self.variables)), -1, dtype=np.int64)
        member[self.block_class[self.member_block], self.local] = np.arange(len(self.members))
        return member

    def class_mask(self, i: IntArray, j: IntArray) -> BoolArray:
        """(P, K): whether pairs, given by indices within the group, lie inside a block of a class that allows them."""
        block = np.append(self.member_block, -1)  # for member -1
        row, column = self.member_of[:, i].T, self.member_of[:, j].T
        return np.asarray((row >= 0) & (block[row] == block[column]) & np.isfinite(l1_weights(self.factors(i, j))))

    def factors(self, i: IntArray, j: IntArray) -> FloatArray:
        """Weights of pairs, given by indices within the group; empty if all are 1."""
        return UNIFORM if self.pair_weights is None else self.pair_weights.factors(self.variables[i], self.variables[j])

    def entries(self, penalty: PairPenalty, i: IntArray, j: IntArray, in_block: BoolArray) -> Entries:
        """Argument of penalty methods: the entries of pairs (i, j) in the classes marked in `in_block` (P, K)."""
        entries, factor = entries_in_classes(penalty, in_block), self.factors(i, j)
        if penalty.has_missing_variables:
            pair, k = np.nonzero(in_block)
            entries = entries._replace(cls=penalty.labels(k, self.variables[i[pair]], self.variables[j[pair]]))
        if not len(factor):
            return entries
        l1 = l1_weights(factor)[in_block] if factor.ndim == 2 else UNIFORM
        return entries._replace(factor=coupling_weights(factor).copy(), l1=l1)

    def positions(self, row: IntArray, column: IntArray) -> IntArray:
        """Flat positions of entries given by the members of their row and column."""
        block = self.member_block[row]
        first = self.member_start[block]
        return np.asarray(self.offset[block] + (row - first) * self.size[block] + column - first)

    def optimal_variance(self, diagonal_penalty: float) -> FloatArray:
        """(M,): diagonal of the optimal W, which the optimality conditions fix in advance."""
        weight = self.block_weight[self.member_block]
        return np.asarray(self.diagonal() + diagonal_penalty / weight)

    def diagonal(self) -> FloatArray:
        """(M,): diagonal of S."""
        by_class = np.stack([self.source.diagonal(k) for k in range(self.n_classes)])
        return np.asarray(by_class[self.block_class[self.member_block], self.members])

    def covariances(self, block: int, rows: IntArray, columns: IntArray) -> FloatArray:
        """(m, n): covariances of the variables `rows` and `columns` in the class of a block."""
        k = int(self.block_class[block])
        return self.source.rows(k, rows, columns)


@dataclass(frozen=True)
class GroupSupport:
    """Sparse Theta: pairs i < j (indices within the group) with their values in all classes, and the diagonal."""

    i: IntArray
    j: IntArray
    value: FloatArray
    """(P, K): values of each pair."""
    diagonal: FloatArray
    """(M,): diagonal entry of each member."""

    def at(self, i: IntArray, j: IntArray, k: IntArray) -> FloatArray:
        """Theta at entries i != j (indices within the group) of the classes k."""
        n = 1 + max(int(ends.max(initial=0)) for ends in (self.j, i, j))
        place = find_keys(self.i * n + self.j, np.minimum(i, j) * n + np.maximum(i, j))
        value = np.zeros(len(i))
        value[place >= 0] = self.value[place[place >= 0], k[place >= 0]]
        return value

    def in_order(self, order: IntArray, member: IntArray) -> GroupSupport:
        """Theta permuted to `order` (U,) of the variables; `member` (M,) is the matching permutation of the members."""
        rank = np.empty_like(order)
        rank[order] = np.arange(len(order))
        i, j = np.minimum(rank[self.i], rank[self.j]), np.maximum(rank[self.i], rank[self.j])
        sort = np.lexsort((j, i))
        return GroupSupport(i[sort], j[sort], self.value[sort], self.diagonal[member])


def entries_in_classes(penalty: PairPenalty, in_block: BoolArray) -> Entries:
    """Argument of penalty methods: the entries of P pairs in the classes marked in `in_block` (P, K)."""
    start = np.concatenate([[0], np.cumsum(in_block.sum(axis=1))])
    return Entries(
        start, np.nonzero(in_block)[1].copy() if penalty.class_dependent else ANY_CLASS, UNIFORM, in_block.shape[1]
    )


_NONE = np.empty(0, dtype=np.int64)


@dataclass(frozen=True)
class SomePairs(BlockSystem):
    """System restricted to some pairs of its blocks; flat storage holds the diagonal, then these entries."""

    row: IntArray = field(default_factory=lambda: _NONE)
    column: IntArray = field(default_factory=lambda: _NONE)
    """(E,), (E,): members of the row and the column of each entry."""

    @classmethod
    def of(cls, group: BigGroup, i: IntArray, j: IntArray) -> SomePairs:
        """Restriction to pairs i < j (indices within the group), each inside a block of at least one class."""
        in_block = group.class_mask(i, j)
        pair, k = np.nonzero(in_block)
        row, column = group.member_of[k, i[pair]], group.member_of[k, j[pair]]
        S = np.empty(len(row))
        for c in range(group.n_classes):
            in_class = k == c
            S[in_class] = group.source.entries(c, group.members[row[in_class]], group.members[column[in_class]])
        positions = len(group.members) + np.arange(len(row))
        return cls(
            n_classes=group.n_classes,
            block_class=group.block_class,
            block_group=np.zeros(len(group.size), dtype=np.int64),
            block_weight=group.block_weight,
            size=group.size,
            offset=group.offset,
            member_start=group.member_start,
            members=group.members,
            S=np.concatenate([group.diagonal(), S]),
            pair_start=np.concatenate([[0], np.cumsum(in_block.sum(axis=1))]),
            upper=positions,
            lower=positions,
            entry_block=group.member_block[row],
            pair_factor=group.factors(i, j),
            row=row,
            column=column,
        )

    @cached_property
    def diagonal(self) -> IntArray:
        """(M,): flat positions of the diagonal entries."""
        return np.arange(len(self.members))

    def entry_members(self, entries: IntArray | slice = slice(None)) -> tuple[IntArray, IntArray]:
        """Members (indices into `members`) of the row and the column of off-diagonal entries."""
        return self.row[entries], self.column[entries]
