"""Independent groups: connected components of class blocks that share a pair of variables."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, cast

import numpy as np

from jointglasso._cached_property import cached_property
from jointglasso._typing import BoolArray, FloatArray, IntArray

if TYPE_CHECKING:
    from jointglasso.penalties.base import Coupling


@dataclass(frozen=True)
class Group:
    """Class blocks that are coupled by the penalty: one independent subproblem."""

    blocks: tuple[tuple[int, IntArray], ...]
    """(class, sorted variables) of each block."""

    @property
    def variables(self) -> IntArray:
        """All variables of the group, sorted."""
        return np.unique(np.concatenate([members for _, members in self.blocks]))

    @property
    def classes(self) -> tuple[int, ...]:
        """Classes that have a block in the group."""
        return tuple(sorted({k for k, _ in self.blocks}))


@dataclass(frozen=True)
class ClassBlocks:
    """All blocks of two or more variables in flat arrays: block b is ``members[start[b]:start[b + 1]]``."""

    block_class: IntArray
    start: IntArray
    members: IntArray
    group: IntArray
    """Independent group of each block."""
    recheck_group: IntArray | None = None
    """(G,): label of the set of groups that are checked together after solving. Groups with one label share pairs of
    variables in classes that are connected in the class graph only through classes that screened these pairs out. They
    are solved independently, but the optimality conditions of the pairs involve all of them. None: each group is
    checked on its own."""

    @property
    def n_blocks(self) -> int:
        return len(self.block_class)

    @cached_property
    def n_groups(self) -> int:
        return int(self.group.max(initial=-1)) + 1

    @cached_property
    def sizes(self) -> IntArray:
        return np.diff(self.start)

    @cached_property
    def member_class(self) -> IntArray:
        """Class of each of `members`."""
        return np.repeat(self.block_class, self.sizes)

    @property
    def group_members(self) -> IntArray:
        """(G,): number of variables, summed over the blocks of each group."""
        return np.bincount(self.group, self.sizes, minlength=self.n_groups).astype(np.int64)

    @cached_property
    def group_area(self) -> FloatArray:
        """(G,): number of matrix entries, the sum of squared block sizes."""
        return self._group_sums(2)

    @cached_property
    def group_cost(self) -> FloatArray:
        """(G,): work estimate, the sum of cubed block sizes."""
        return self._group_sums(3)

    def _group_sums(self, power: int) -> FloatArray:
        return np.bincount(self.group, self.sizes.astype(float) ** power, minlength=self.n_groups).astype(float)

    @cached_property
    def group_largest(self) -> IntArray:
        """(G,): size of the largest block."""
        largest = np.zeros(self.n_groups, dtype=np.int64)
        np.maximum.at(largest, self.group, self.sizes)
        return largest

    def select(self, groups: IntArray) -> ClassBlocks:
        """Blocks of the groups with these indices, which are renumbered 0, 1, ... in the order of `groups`."""
        if len(groups) == self.n_groups and np.array_equal(groups, np.arange(self.n_groups)):
            return self if self.recheck_group is None else replace(self, recheck_group=None)
        number = np.full(self.n_groups, -1, dtype=np.int64)
        number[groups] = np.arange(len(groups))
        selected = np.flatnonzero(number[self.group] >= 0)
        size = self.sizes[selected]
        slot = np.arange(size.sum()) - np.repeat(np.cumsum(size) - size, size)
        return ClassBlocks(
            self.block_class[selected],
            np.concatenate([[0], np.cumsum(size)]),
            self.members[np.repeat(self.start[selected], size) + slot],
            number[self.group[selected]],
        )

    def pairs(self, n_variables: int) -> tuple[IntArray, IntArray]:
        """All pairs i < j with both variables in one block, sorted."""
        keys = [np.empty(0, dtype=np.int64)]
        for first, last in pairwise(self.start):
            members = self.members[first:last]
            i, j = np.triu_indices(len(members), 1)
            keys.append(members[i] * n_variables + members[j])
        return np.divmod(np.unique(np.concatenate(keys)), n_variables)

    @property
    def by_cost(self) -> IntArray:
        """Indices of the groups by decreasing `group_cost`."""
        return np.argsort(-self.group_cost, kind="stable")

    def groups(self) -> list[Group]:
        """The groups as `Group` objects, by decreasing cost."""
        by_group = np.argsort(self.group, kind="stable")
        bounds = np.searchsorted(self.group[by_group], np.arange(self.n_groups + 1))
        groups = []
        for g in self.by_cost:
            blocks = by_group[bounds[g] : bounds[g + 1]]
            groups.append(
                Group(
                    tuple((int(self.block_class[b]), self.members[self.start[b] : self.start[b + 1]]) for b in blocks)
                )
            )
        return groups


def class_blocks(
    labels: IntArray, *, smallest: int = 2, coupled: Coupling | None = None, absent: BoolArray | None = None
) -> ClassBlocks:
    """Blocks of at least `smallest` variables, and their independent groups.

    The penalty couples classes through pairs of variables, and the diagonal is penalised per class. Two blocks of
    different classes that share at most one variable are therefore not coupled; neither are blocks of classes that are
    not neighbours in the class graph, since an entry screened out in a class between them is fixed at zero. If the
    diagonals are coupled (`Coupling.diagonal`), one common variable is enough, and singletons are blocks as well.
    Variables missing from a class, `absent` (K, p), belong to no block.
    """
    diagonal = coupled is not None and coupled.diagonal
    smallest = 1 if diagonal else smallest
    (n_classes, p), n_labels = labels.shape, int(labels.max()) + 1
    label = labels + n_labels * np.arange(n_classes)[:, None]  # distinct in all classes
    size = np.bincount(label.ravel(), minlength=n_classes * n_labels)
    if absent is not None:
        size[label[absent]] = 0
    selected = np.flatnonzero(size >= smallest)
    number = np.full(len(size), -1)
    number[selected] = np.arange(len(selected))
    block_of = number[label]
    order = np.argsort(block_of, axis=None, kind="stable")
    flat, block_class = order[np.count_nonzero(block_of < 0) :] % p, selected // n_labels
    start = np.concatenate([[0], np.cumsum(size[selected])])
    if diagonal:
        group = _coupled(block_of, cast("Coupling", coupled).class_graph, len(selected), n_common=1)
        return ClassBlocks(block_class, start, flat, group)
    group = _coupled(block_of, None if coupled is None else coupled.class_graph, len(selected))
    if coupled is None or np.array_equal(coupled.class_graph, coupled.parts):
        return ClassBlocks(block_class, start, flat, group)
    recheck_group = _coupled(block_of, coupled.parts, len(selected))
    recheck_of_group = np.empty(int(group.max(initial=-1)) + 1, dtype=np.int64)
    recheck_of_group[group] = recheck_group
    return ClassBlocks(block_class, start, flat, group, recheck_of_group)


def block_index(
    block_class: IntArray, size: IntArray, members: IntArray, shape: tuple[int, int]
) -> tuple[IntArray, IntArray]:
    """Two arrays (K, p): block of each variable in each class, and its position in the block; -1 if in none."""
    block = np.repeat(np.arange(len(size)), size)
    block_of = np.full(shape, -1, dtype=np.int64)
    slot_of = np.full_like(block_of, -1)
    block_of[block_class[block], members] = block
    slot_of[block_class[block], members] = np.arange(len(block)) - (np.cumsum(size) - size)[block]
    return block_of, slot_of


def _coupled(block_of: IntArray, class_graph: BoolArray | None, n_blocks: int, *, n_common: int = 2) -> IntArray:
    """Group (B,) of each block: blocks of neighbouring classes that share 2 variables, or one, are coupled.

    `block_of` (K, p) is the block of each variable, -1 if in none; without `class_graph` all classes are neighbours.
    """
    from jointglasso.kernels.components import components

    links = [np.empty(0, dtype=np.int64)]
    for k in range(len(block_of) - 1):
        one, two = block_of[k], block_of[k + 1 :]
        if class_graph is not None:
            two = two[class_graph[k, k + 1 :]]
        common = np.sort((one * n_blocks + two)[(one >= 0) & (two >= 0)])  # an element for each common variable
        links.append(common if n_common == 1 else common[1:][common[1:] == common[:-1]])
    return components(n_blocks, *np.divmod(np.concatenate(links), max(n_blocks, 1)))[0]
