"""Independent groups: class blocks tied only where they share a pair of variables."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, cast

import numpy as np
from scipy import sparse

from jointglasso._typing import BoolArray, FloatArray, IntArray

if TYPE_CHECKING:
    from jointglasso.penalties.base import Coupling


@dataclass(frozen=True)
class Group:
    """Class blocks that must be solved together, and together with nothing else."""

    blocks: tuple[tuple[int, IntArray], ...]
    """(class, sorted variables) of each block."""

    @property
    def variables(self) -> IntArray:
        """All variables of the group, sorted."""
        return np.unique(np.concatenate([members for _, members in self.blocks]))

    @property
    def classes(self) -> tuple[int, ...]:
        """Classes that own a block of the group."""
        return tuple(sorted({k for k, _ in self.blocks}))


@dataclass(frozen=True)
class ClassBlocks:
    """All blocks of two or more variables, flat: block b holds ``members[start[b]:start[b + 1]]``."""

    block_class: IntArray
    start: IntArray
    members: IntArray
    group: IntArray
    """Independent group of each block."""
    bundle: IntArray | None = None
    """(G,): groups of one bundle hold pairs of the same variables, in classes between which others have cut them: they
    are solved apart and looked at together when the cuts are checked. None: every group is a bundle."""

    @property
    def n_blocks(self) -> int:
        return len(self.block_class)

    @cached_property
    def n_groups(self) -> int:
        return int(self.group.max(initial=-1)) + 1

    @cached_property
    def sizes(self) -> IntArray:
        return np.diff(self.start)

    @property
    def group_members(self) -> IntArray:
        """Number of variables, added up over the blocks, of each group."""
        return np.bincount(self.group, self.sizes, minlength=self.n_groups).astype(np.int64)

    @cached_property
    def group_area(self) -> FloatArray:
        """Entries, the sum of squared block sizes, of each group."""
        return self._group_sums(2)

    @cached_property
    def group_cost(self) -> FloatArray:
        """Work, in cubed block sizes, of each group."""
        return self._group_sums(3)

    def _group_sums(self, power: int) -> FloatArray:
        return np.bincount(self.group, self.sizes.astype(float) ** power, minlength=self.n_groups).astype(float)

    @cached_property
    def group_largest(self) -> IntArray:
        """Size of the biggest block of each group."""
        largest = np.zeros(self.n_groups, dtype=np.int64)
        np.maximum.at(largest, self.group, self.sizes)
        return largest

    def select(self, groups: IntArray) -> ClassBlocks:
        """Only the blocks of the given groups, which are renumbered in their order."""
        number = np.full(self.n_groups, -1, dtype=np.int64)
        number[groups] = np.arange(len(groups))
        kept = np.flatnonzero(number[self.group] >= 0)
        size = self.sizes[kept]
        slot = np.arange(size.sum()) - np.repeat(np.cumsum(size) - size, size)
        return ClassBlocks(
            self.block_class[kept],
            np.concatenate([[0], np.cumsum(size)]),
            self.members[np.repeat(self.start[kept], size) + slot],
            number[self.group[kept]],
        )

    @property
    def by_cost(self) -> IntArray:
        """Numbers of the groups, the most expensive first."""
        return np.argsort(-self.group_cost, kind="stable")

    def groups(self) -> list[Group]:
        """List the groups as objects, the most expensive first."""
        by_group = np.argsort(self.group, kind="stable")
        bounds = np.searchsorted(self.group[by_group], np.arange(self.n_groups + 1))
        found = []
        for g in self.by_cost:
            blocks = by_group[bounds[g] : bounds[g + 1]]
            found.append(
                Group(
                    tuple((int(self.block_class[b]), self.members[self.start[b] : self.start[b + 1]]) for b in blocks)
                )
            )
        return found


def class_blocks(
    labels: IntArray, *, smallest: int = 2, coupled: Coupling | None = None, absent: BoolArray | None = None
) -> ClassBlocks:
    """List the blocks of at least `smallest` variables and tie them into groups.

    The penalty couples classes pair by pair and the diagonal is penalised per class, so two blocks of different classes
    that share at most one variable have nothing in common in the objective. Nor have blocks of classes that are not
    compared: a pair that a class between them has cut is zero there, whatever they do. Where the diagonals are compared
    (`Coupling.diagonal`), one variable in common is enough, and those that are alone are blocks, too. Variables that a
    class lacks, `absent`, are not.
    """
    from jointglasso.kernels.components import couple_blocks

    diagonal = coupled is not None and coupled.diagonal
    smallest = 1 if diagonal else smallest
    classes, sizes, members = [], [], []
    block_of = np.full(labels.shape, -1, dtype=np.int64)
    count = 0
    for k, row in enumerate(labels):
        size = np.bincount(row)
        order = np.argsort(row, kind="stable")
        kept = order[size[row[order]] >= smallest]
        if absent is not None:
            kept = kept[~absent[k, kept]]
            size[row[absent[k]]] = 0
        big = np.flatnonzero(size >= smallest)
        number = np.full(len(size), -1, dtype=np.int64)
        number[big] = count + np.arange(len(big))
        block_of[k] = number[row]
        count += len(big)
        classes.append(np.full(len(big), k))
        sizes.append(size[big])
        members.append(kept)
    block_class = np.concatenate(classes)
    start = np.concatenate([[0], np.cumsum(np.concatenate(sizes))])
    flat = np.concatenate(members)
    if diagonal:
        group = _with_a_common_variable(block_of, np.argwhere(np.triu(cast("Coupling", coupled).ties)), count)
        return ClassBlocks(block_class, start, flat, group)
    everywhere = np.ones((len(labels), len(labels)), dtype=bool)
    group = couple_blocks(block_of, start, flat, block_class, everywhere if coupled is None else coupled.ties)
    if coupled is None or np.array_equal(coupled.ties, coupled.parts):
        return ClassBlocks(block_class, start, flat, group)
    beside = couple_blocks(block_of, start, flat, block_class, coupled.parts)
    bundle = np.empty(int(group.max(initial=-1)) + 1, dtype=np.int64)
    bundle[group] = beside
    return ClassBlocks(block_class, start, flat, group, bundle)


def places_in_blocks(
    block_class: IntArray, size: IntArray, members: IntArray, shape: tuple[int, int]
) -> tuple[IntArray, IntArray]:
    """(K, p): block of each variable in each class and its place there, -1: in none."""
    block = np.repeat(np.arange(len(size)), size)
    block_of = np.full(shape, -1, dtype=np.int64)
    slot_of = np.full_like(block_of, -1)
    block_of[block_class[block], members] = block
    slot_of[block_class[block], members] = np.arange(len(block)) - (np.cumsum(size) - size)[block]
    return block_of, slot_of


def _with_a_common_variable(block_of: IntArray, tied: IntArray, n_blocks: int) -> IntArray:
    """Label the groups of blocks of tied classes that have a variable in common; `block_of` (K, p) is -1 outside."""
    one, two = (block_of[tied[:, end]].ravel() for end in (0, 1))
    one, two = (ends[(one >= 0) & (two >= 0)] for ends in (one, two))
    graph = sparse.coo_array((np.ones(len(one), dtype=bool), (one, two)), shape=(n_blocks, n_blocks))
    return sparse.csgraph.connected_components(graph, directed=False)[1].astype(np.int64)
