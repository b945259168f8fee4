"""Permutation of the variables of a large group into the order of the column sweeps."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import sparse

from jointglasso._typing import FloatArray, IntArray
from jointglasso.blocks import BlockSystem
from jointglasso.blocks.big_group import BigGroup
from jointglasso.kernels.pair_types import PermutedBlocks, SparseColumns
from jointglasso.penalties import UNIFORM
from jointglasso.screening.groups import block_index

#: Layout of the class blocks of one group in flat storage.
ClassBlocksInStorage = BlockSystem | BigGroup


@dataclass(frozen=True)
class Permutation:
    """Members (rows of the class blocks) sorted by a permutation of the variables."""

    blocks: ClassBlocksInStorage
    variable: IntArray
    """(M,): rank of each member's variable in the permutation, ascending within a block."""
    member: IntArray
    """(M,): index of each member in the original storage."""

    @classmethod
    def by(cls, blocks: ClassBlocksInStorage, rank: IntArray) -> Permutation:
        """Sort the members of each block by `rank` (M,), the rank of their variables."""
        block = np.repeat(np.arange(len(blocks.size)), blocks.size)
        member = np.lexsort((rank, block))
        return cls(blocks, rank[member], member)

    @property
    def slots(self) -> list[IntArray]:
        """For each block, the original rows in permuted order."""
        return [self.member[a:b] - a for a, b in pairwise(self.blocks.member_start)]

    def places(self) -> tuple[IntArray, IntArray]:
        """(K, U), (K, U): block of each variable in each class and its row there; -1 if it is in none."""
        shape = self.blocks.n_classes, int(self.variable.max(initial=-1)) + 1
        return block_index(self.blocks.block_class, self.blocks.size, self.variable, shape)

    def apply(self, S: Any, l1_weight: Any, coupling: Any = UNIFORM) -> PermutedBlocks:
        """The permuted blocks with their covariances and weights, in flat storage."""
        b = self.blocks
        return PermutedBlocks(
            *self.places(), self.variable, b.offset, b.size, b.member_start, b.block_weight, S, l1_weight, coupling
        )


def as_columns(n_variables: int, row: IntArray, other: IntArray, value: FloatArray) -> SparseColumns:
    """Sparse columns with values (n, K) at the distinct positions (row, other), sorted."""
    order = sparse.coo_array((np.arange(len(row)), (row, other)), shape=(n_variables, n_variables)).tocsr()
    order.sort_indices()
    return SparseColumns(order.indptr.astype(np.int64), order.indices.astype(np.int64), value[order.data])
