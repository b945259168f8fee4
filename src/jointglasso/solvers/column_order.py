"""The variables of a big group in the order in which sweeps visit their columns."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
from scipy import sparse

from jointglasso._typing import FloatArray, IntArray
from jointglasso.kernels.pair_types import SparseColumns, Stack
from jointglasso.screening.groups import places_in_blocks


class ClassBlocksInStorage(Protocol):
    """The class blocks of one group, one after another."""

    @property
    def n_classes(self) -> int: ...
    @property
    def block_class(self) -> IntArray: ...
    @property
    def block_weight(self) -> FloatArray: ...
    @property
    def size(self) -> IntArray: ...
    @property
    def offset(self) -> IntArray: ...
    @property
    def member_start(self) -> IntArray: ...
    @property
    def members(self) -> IntArray: ...


@dataclass(frozen=True)
class Order:
    """The members of the blocks in some order of the variables."""

    blocks: ClassBlocksInStorage
    variable: IntArray
    """Variable of each member, ascending within a block."""
    member: IntArray
    """Member of the blocks, as these store them, behind each member."""

    @classmethod
    def by(cls, blocks: ClassBlocksInStorage, rank: IntArray) -> Order:
        """The order in which the members of a block have ascending ranks, those of their variables."""
        block = np.repeat(np.arange(len(blocks.size)), blocks.size)
        member = np.lexsort((rank, block))
        return cls(blocks, rank[member], member)

    @property
    def slots(self) -> list[IntArray]:
        """Place in the blocks' own order, for each block."""
        return [self.member[a:b] - a for a, b in pairwise(self.blocks.member_start)]

    def places(self) -> tuple[IntArray, IntArray]:
        """(K, U): block of each variable in each class and its place there, -1: in none."""
        shape = self.blocks.n_classes, int(self.variable.max(initial=-1)) + 1
        return places_in_blocks(self.blocks.block_class, self.blocks.size, self.variable, shape)

    def stack(self, S: Any, factor: Any) -> Stack:
        """The blocks in this order, with their covariances and the weights of the pairs."""
        b = self.blocks
        return Stack(*self.places(), self.variable, b.offset, b.size, b.member_start, b.block_weight, S, factor)


def as_columns(n_variables: int, row: IntArray, other: IntArray, value: FloatArray) -> SparseColumns:
    """Columns with the given numbers (n, K), each of them once, sorted."""
    order = sparse.coo_array((np.arange(len(row)), (row, other)), shape=(n_variables, n_variables)).tocsr()
    order.sort_indices()
    return SparseColumns(order.indptr.astype(np.int64), order.indices.astype(np.int64), value[order.data])
