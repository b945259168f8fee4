"""Class blocks in flat storage, with an index of the variable pairs they share.

Symbols in shapes: K classes, G groups, B blocks, M members (rows of all blocks), P pairs, E entries.

* **Flat storage.** A matrix variable (S, Theta, W, ...) is one vector: the class blocks concatenated, row by row,
  sorted by size, so that blocks of equal size form a stack (m, b, b) without a copy. Nothing is stored between blocks.
* **Entries.** Penalties act on the upper off-diagonal elements gathered pair by pair, the copies of a pair in different
  classes adjacent (`pair_start` is their CSR index). `gather` and `scatter` convert between the two. Forbidden pairs
  are not indexed and hence always zero; only their flat positions are stored.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TypeVar

import numpy as np

from jointglasso import config
from jointglasso._cached_property import cached_property
from jointglasso._threads import Workers
from jointglasso._typing import BoolArray, FloatArray, IntArray
from jointglasso.data import CovarianceSource
from jointglasso.kernels.pair_types import Blocks, Entries
from jointglasso.penalties import ANY_CLASS, UNIFORM, PairPenalty, PairWeights
from jointglasso.penalties.base import coupling_weights, l1_weights
from jointglasso.screening.groups import ClassBlocks, block_index


def bincount(label: IntArray, values: FloatArray, length: int) -> FloatArray:
    """(length,): sums of `values` by `label`, in float64 also for empty input."""
    return np.bincount(label, values, minlength=length).astype(np.float64, copy=False)


def find_keys(keys: IntArray, wanted: IntArray) -> IntArray:
    """Position in `keys`, which are distinct, of each of `wanted`; -1 where it is none of them."""
    if not len(keys):
        return np.full(len(wanted), -1)
    order = np.argsort(keys, kind="stable")
    place = order[np.minimum(np.searchsorted(keys, wanted, sorter=order), len(keys) - 1)]
    return np.where(keys[place] == wanted, place, -1)


AnyArray = TypeVar("AnyArray", FloatArray, BoolArray)


@dataclass(frozen=True)
class BlockLayout:
    """Class blocks in flat storage, sorted by size; `block_class`, `block_weight` and `size` (B,) describe them."""

    n_classes: int
    block_class: IntArray
    block_weight: FloatArray
    size: IntArray
    offset: IntArray
    """(B + 1,): offset of each block in flat storage."""
    member_start: IntArray
    members: IntArray
    """Variables of block b: ``members[member_start[b]:member_start[b + 1]]``, sorted."""

    @classmethod
    def sorted(cls, blocks: ClassBlocks, weights: FloatArray) -> tuple[BlockLayout, IntArray]:
        """Layout of class blocks, given the class weights, and the order of the blocks in it."""
        order = np.argsort(blocks.sizes, kind="stable")
        size, block_class = blocks.sizes[order], blocks.block_class[order]
        member_start = np.concatenate([[0], np.cumsum(size)])
        slot = np.arange(member_start[-1]) - np.repeat(member_start[:-1], size)
        members = blocks.members[np.repeat(blocks.start[order], size) + slot]
        offset = np.concatenate([[0], np.cumsum(size * size)])
        layout = BlockLayout(len(weights), block_class, weights[block_class], size, offset, member_start, members)
        return layout, order


@dataclass(frozen=True)
class BlockSystem(BlockLayout):
    """One or several independent groups of class blocks with their covariances and pair index.

    `block_group` (B,) is the group of each block; `upper` and `lower` (E,) are the flat positions of each entry in the
    two triangles, and `entry_block` (E,) is its block.
    """

    block_group: IntArray
    S: FloatArray
    pair_start: IntArray
    upper: IntArray
    lower: IntArray
    entry_block: IntArray
    pair_factor: FloatArray = field(default_factory=lambda: UNIFORM)
    """(P,): weight of each pair in the penalty, or (P, K + 1) with weights by class (`penalties/base.py`); empty where
    all are 1."""
    forbidden: IntArray = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    """Flat positions, in both triangles, of the forbidden pairs."""

    @property
    def n_blocks(self) -> int:
        return len(self.size)

    @cached_property
    def n_groups(self) -> int:
        return int(self.block_group.max(initial=-1)) + 1

    @property
    def n_pairs(self) -> int:
        return len(self.pair_start) - 1

    @cached_property
    def diagonal(self) -> IntArray:
        """(M,): flat positions of the diagonal entries, in the order of `members`."""
        slot = np.arange(len(self.members)) - np.repeat(self.member_start[:-1], self.size)
        return np.repeat(self.offset[:-1], self.size) + slot * (np.repeat(self.size, self.size) + 1)

    @cached_property
    def diagonal_block(self) -> IntArray:
        """(M,): block of each diagonal entry."""
        return np.repeat(np.arange(self.n_blocks), self.size)

    def optimal_variance(self, diagonal_penalty: float) -> FloatArray:
        """(M,): diagonal of the optimal W, which the optimality conditions fix in advance."""
        return np.asarray(self.S[self.diagonal] + diagonal_penalty / self.block_weight[self.diagonal_block])

    @cached_property
    def entry_class(self) -> IntArray:
        """(E,): class of each entry."""
        return self.block_class[self.entry_block]

    def entries(self, penalty: PairPenalty, pairs: IntArray | None = None) -> Entries:
        """Argument of penalty methods: the entries of all pairs, or of `pairs` (see `entries_of`)."""
        cls = self.entry_class if penalty.class_dependent else ANY_CLASS
        if penalty.has_missing_variables:
            pair = np.repeat(np.arange(self.n_pairs), np.diff(self.pair_start))
            cls = penalty.labels(cls, *(ends[pair] for ends in self.pair_variables))
        l1 = self.entry_factor if self.pair_factor.ndim == 2 else UNIFORM
        if pairs is None:
            return Entries(self.pair_start, cls, self.pair_coupling, self.n_classes, l1)
        chosen, start = self.entries_of(pairs)
        factor = self.pair_coupling[pairs] if len(self.pair_factor) else UNIFORM
        cls = cls[chosen] if penalty.class_dependent else ANY_CLASS
        return Entries(start, cls, factor, self.n_classes, l1[chosen] if len(l1) else l1)

    @cached_property
    def compiled(self) -> Blocks:
        """The blocks as argument of compiled code."""
        factor, coupling = UNIFORM, UNIFORM
        if len(self.pair_factor) or len(self.forbidden):
            factor = self._in_flat_storage(self.entry_factor)
        if self.pair_factor.ndim == 2:
            coupling = self._in_flat_storage(self.of_entries(self.pair_coupling))
        return Blocks(self.offset, self.size, self.member_start, self.block_weight, self.S, factor, coupling)

    def _in_flat_storage(self, weights: FloatArray) -> FloatArray:
        """Weights of the entries in flat storage, infinite at forbidden positions."""
        flat = np.ones(self.S.shape)
        if len(weights):
            flat[self.upper] = flat[self.lower] = weights
        flat[self.forbidden] = np.inf
        return flat

    @cached_property
    def entry_factor(self) -> FloatArray:
        """(E,): weight of each entry in the L1 part; empty where all are 1."""
        if self.pair_factor.ndim == 2:
            pair = np.repeat(np.arange(self.n_pairs), np.diff(self.pair_start))
            return np.asarray(self.pair_factor[pair, 1 + self.entry_class])
        return self.of_entries(self.pair_factor) if len(self.pair_factor) else UNIFORM

    @cached_property
    def pair_coupling(self) -> FloatArray:
        """(P,): weight of the coupling term of each pair; empty where all are 1."""
        return np.ascontiguousarray(coupling_weights(self.pair_factor))

    @cached_property
    def forbidden_block(self) -> IntArray:
        """Block of each forbidden position."""
        return np.searchsorted(self.offset, self.forbidden, side="right") - 1

    @cached_property
    def pair_group(self) -> IntArray:
        """(P,): group of each pair."""
        return self.block_group[self.entry_block[self.pair_start[:-1]]]

    @cached_property
    def pair_variables(self) -> tuple[IntArray, IntArray]:
        """(P,), (P,): variables i < j of each pair; pairs are sorted by (i, j)."""
        row, column = self.entry_members(self.pair_start[:-1])
        return self.members[row], self.members[column]

    @cached_property
    def members_by_variable(self) -> tuple[IntArray, IntArray]:
        """(M,): members sorted by group, variable and class; and the first of each variable in a group, then M."""
        group, classes = (of[self.diagonal_block] for of in (self.block_group, self.block_class))
        order = np.lexsort((classes, self.members, group))
        new = (np.diff(self.members[order], prepend=-1) != 0) | (np.diff(group[order], prepend=-1) != 0)
        return order, np.append(np.flatnonzero(new), len(order))

    @cached_property
    def same_variables(self) -> IntArray | None:
        """(P,): index of the variable pair (i, j), equal for pairs of several groups; None if all are distinct."""
        if self.n_groups <= 1:
            return None
        i, j = self.pair_variables
        new = (np.diff(i, prepend=-1) != 0) | (np.diff(j, prepend=-1) != 0)
        return None if new.all() else np.cumsum(new) - 1

    def find_pairs(self, i: IntArray, j: IntArray) -> IntArray:
        """Indices of the pairs of variables i < j that lie in a block, each in one or several groups; ascending."""
        if not len(i):
            return np.empty(0, dtype=np.int64)
        row, column = self.entry_members(self.pair_start[:-1])
        n = 1 + max(int(j.max()), int(self.members.max(initial=0)))
        keys, wanted = self.members[row] * n + self.members[column], i.astype(np.int64) * n + j
        first, last = (np.searchsorted(keys, wanted, side) for side in ("left", "right"))
        marks = np.bincount(first, minlength=len(keys) + 1) - np.bincount(last, minlength=len(keys) + 1)
        return np.flatnonzero(np.cumsum(marks))

    @cached_property
    def batches(self) -> list[tuple[int, int, int]]:
        """(first block, last block + 1, size) of each run of equal sizes."""
        bounds = np.flatnonzero(np.diff(self.size, prepend=-1, append=-1))
        return [(int(a), int(b), int(self.size[a])) for a, b in itertools.pairwise(bounds)]

    @cached_property
    def largest_block(self) -> IntArray:
        """(G,): size of the largest block of each group."""
        largest = np.zeros(self.n_groups, dtype=np.int64)
        np.maximum.at(largest, self.block_group, self.size)
        return largest

    def only_groups(self, groups: IntArray) -> tuple[BlockSystem, IntArray | slice]:
        """Some groups, in ascending order, as a separate system, and the flat positions of its blocks in this one."""
        if self.n_groups == len(groups):
            return self, slice(None)
        new_group = np.full(self.n_groups, -1, dtype=np.int64)
        new_group[groups] = np.arange(len(groups))
        blocks = np.flatnonzero(new_group[self.block_group] >= 0)
        size = self.size[blocks]
        offset = np.concatenate([[0], np.cumsum(size * size)])
        positions: IntArray | slice = slice(int(self.offset[blocks[0]]), int(self.offset[blocks[-1] + 1]))
        if len(blocks) <= blocks[-1] - blocks[0]:  # not contiguous
            positions = np.concatenate([np.arange(self.offset[b], self.offset[b + 1]) for b in blocks])
        pairs = np.flatnonzero(new_group[self.pair_group] >= 0)
        entries, pair_start = self.entries_of(pairs)
        number = np.full(self.n_blocks, -1, dtype=np.int64)
        number[blocks] = np.arange(len(blocks))
        entry_block = number[self.entry_block[entries]]
        shift = (offset[:-1] - self.offset[blocks])[entry_block]
        members = [np.arange(self.member_start[b], self.member_start[b + 1]) for b in blocks]
        forbidden_block = number[self.forbidden_block]
        in_groups = forbidden_block >= 0
        system = BlockSystem(
            n_classes=self.n_classes,
            block_class=self.block_class[blocks],
            block_group=new_group[self.block_group[blocks]],
            block_weight=self.block_weight[blocks],
            size=size,
            offset=offset,
            member_start=np.concatenate([[0], np.cumsum(size)]),
            members=self.members[np.concatenate(members)],
            S=self.S[positions],
            pair_start=pair_start,
            upper=self.upper[entries] + shift,
            lower=self.lower[entries] + shift,
            entry_block=entry_block,
            pair_factor=self.pair_factor[pairs] if len(self.pair_factor) else UNIFORM,
            forbidden=self.forbidden[in_groups] + (offset[:-1] - self.offset[blocks])[forbidden_block[in_groups]],
        )
        return system, positions

    def entries_of(self, pairs: IntArray) -> tuple[IntArray, IntArray]:
        """Indices of the entries of `pairs`, pair by pair, and their CSR start."""
        counts = self.pair_start[pairs + 1] - self.pair_start[pairs]
        start = np.concatenate([[0], np.cumsum(counts)])
        return np.repeat(self.pair_start[pairs] - start[:-1], counts) + np.arange(start[-1]), start

    def stacks(self, *flats: FloatArray) -> Iterator[tuple[slice, list[FloatArray]]]:
        """For each block size b, the slice of its m blocks and the views (m, b, b) of the flat vectors."""
        for first, last, b in self.batches:
            positions = slice(int(self.offset[first]), int(self.offset[last]))
            yield slice(first, last), [flat[positions].reshape(last - first, b, b) for flat in flats]

    def entry_members(self, entries: IntArray | slice = slice(None)) -> tuple[IntArray, IntArray]:
        """Members (indices into `members`) of the row and the column of off-diagonal entries."""
        from jointglasso.kernels.pair_index import members_of_entries

        upper, block = self.upper[entries], self.entry_block[entries]
        row, column = np.empty_like(upper), np.empty_like(upper)
        members_of_entries(upper, block, self.offset, self.size, self.member_start, row, column)
        return row, column

    def products_of_members(
        self, of_member: FloatArray, of_block: FloatArray, entries: IntArray | slice = slice(None)
    ) -> FloatArray:
        """``of_block * of_member[row] * of_member[column]`` of off-diagonal entries."""
        row, column = self.entry_members(entries)
        return np.asarray(of_block[self.entry_block[entries]] * of_member[row] * of_member[column])

    def forbidden_members(self) -> tuple[IntArray, IntArray]:
        """Members (indices into `members`) of the row and the column of each forbidden position."""
        block = self.forbidden_block
        row, column = np.divmod(self.forbidden - self.offset[block], self.size[block])
        return self.member_start[block] + row, self.member_start[block] + column

    def gather(self, flat: FloatArray) -> FloatArray:
        """(E,): upper off-diagonal entries, pair by pair."""
        return flat[self.upper]

    def scatter(self, entries: FloatArray, diagonal: FloatArray) -> FloatArray:
        """Flat symmetric blocks with the given entries and diagonal, zero at forbidden positions."""
        flat = np.empty(self.S.shape)
        flat[self.upper] = entries
        flat[self.lower] = entries
        flat[self.diagonal] = diagonal
        flat[self.forbidden] = 0.0
        return flat

    @cached_property
    def unit_weights(self) -> bool:
        """Whether all class weights are 1."""
        return bool((self.block_weight == 1.0).all())

    def weigh(self, values: FloatArray, entries: IntArray | slice = slice(None)) -> FloatArray:
        """`values` of entries times their class weights; not copied if these are all 1."""
        return values if self.unit_weights else values * self.block_weight[self.entry_block[entries]]

    def sum_per_pair(self, entries: FloatArray) -> FloatArray:
        """(P,): sum over the entries of each pair; not copied if each pair has one entry."""
        return entries if len(entries) == self.n_pairs else np.add.reduceat(entries, self.pair_start[:-1])

    def of_entries(self, per_pair: AnyArray) -> AnyArray:
        """(E,): values (P,) per pair, repeated for each entry."""
        return per_pair if len(self.upper) == self.n_pairs else np.repeat(per_pair, np.diff(self.pair_start))

    def sum_pairs_per_group(self, per_pair: FloatArray) -> FloatArray:
        """(G,): sum of values (P,) over the pairs of each group."""
        if self.n_groups == 1:
            return np.array([per_pair.sum()])
        return bincount(self.pair_group, per_pair, self.n_groups)

    def per_element(self, per_block: AnyArray) -> AnyArray:
        """Values (B,) per block, repeated for each element of flat storage."""
        return np.repeat(per_block, self.size**2)

    def per_element_of_groups(self, per_group: AnyArray) -> AnyArray:
        """Values (G,) per group, repeated for each element of flat storage."""
        return np.repeat(per_group[self.block_group], self.size**2)

    def where(self, groups: BoolArray, flat: FloatArray, otherwise: FloatArray) -> FloatArray:
        """Elements of the marked groups (G,) from `flat`, all others from `otherwise`."""
        return flat if groups.all() else np.where(self.per_element_of_groups(groups), flat, otherwise)

    def sum_per_block(self, flat: FloatArray) -> FloatArray:
        """(B,): sum over the elements of each block."""
        return np.add.reduceat(flat, self.offset[:-1]) if self.n_blocks else np.zeros(0)

    def sum_per_group(self, per_block: FloatArray) -> FloatArray:
        """(G,): sum of values (B,) over the blocks of each group."""
        return bincount(self.block_group, per_block, self.n_groups)


def build_system(
    source: CovarianceSource,
    blocks: ClassBlocks,
    weights: FloatArray,
    pair_weights: PairWeights | None = None,
    n_threads: int = 1,
) -> BlockSystem:
    """Lay out the class blocks and read their covariances from the source, one class per thread."""
    from jointglasso.kernels.pair_index import index_pairs

    layout, order = BlockLayout.sorted(blocks, weights)
    size, offset, member_start, members = layout.size, layout.offset, layout.member_start, layout.members
    shape = source.n_classes, source.n_variables
    block_of, slot_of = block_index(layout.block_class, size, members, shape)
    n_entries = int((size * (size - 1) // 2).sum())
    entries, scratch = (np.empty((3, n), dtype=np.int64) for n in (n_entries, source.n_classes))
    pair_start = np.empty(n_entries + 1, dtype=np.int64)  # upper bound on the length: classes share pairs
    n_pairs = index_pairs(block_of, slot_of, member_start, members, offset, scratch, pair_start, entries)
    upper, lower, entry_block = entries
    S = read_blocks(source, layout, n_threads)
    S[lower] = S[upper]  # input matrices may be asymmetric by rounding
    system = BlockSystem(
        **vars(layout),
        block_group=blocks.group[order],
        S=S,
        pair_start=pair_start[: n_pairs + 1],
        upper=upper,
        lower=lower,
        entry_block=entry_block,
    )
    system = _split_pairs_by_group(system)
    return system if pair_weights is None else _with_pair_weights(system, pair_weights)


def _split_pairs_by_group(system: BlockSystem) -> BlockSystem:
    """Split pairs whose classes belong to several groups, between which the penalty does not act."""
    if system.n_groups == 1:
        return system
    group = system.block_group[system.entry_block]
    pair = np.repeat(np.arange(system.n_pairs), np.diff(system.pair_start))
    if np.array_equal(group, system.pair_group[pair]):
        return system
    order = np.lexsort((group, pair))  # stable: classes stay in ascending order
    pair, group = pair[order], group[order]
    first = np.flatnonzero((np.diff(pair, prepend=-1) != 0) | (np.diff(group, prepend=-1) != 0))
    return replace(
        system,
        pair_start=np.append(first, len(order)),
        upper=system.upper[order],
        lower=system.lower[order],
        entry_block=system.entry_block[order],
    )


def _with_pair_weights(system: BlockSystem, pair_weights: PairWeights) -> BlockSystem:
    """Set the pair weights and remove forbidden entries from the index."""
    factor = pair_weights.factors(*system.pair_variables)
    pair = np.repeat(np.arange(system.n_pairs), np.diff(system.pair_start))
    by_class = np.broadcast_to(l1_weights(factor), (system.n_pairs, system.n_classes))
    entry_allowed: BoolArray = np.isfinite(by_class[pair, system.entry_class])
    counts = np.bincount(pair[entry_allowed], minlength=system.n_pairs)
    allowed, counts = counts > 0, counts[counts > 0]
    return replace(
        system,
        pair_start=np.concatenate([[0], np.cumsum(counts)]),
        upper=system.upper[entry_allowed],
        lower=system.lower[entry_allowed],
        entry_block=system.entry_block[entry_allowed],
        pair_factor=factor[allowed] if (factor[allowed] != 1.0).any() else UNIFORM,
        forbidden=np.concatenate([system.upper[~entry_allowed], system.lower[~entry_allowed]]),
    )


def read_blocks(source: CovarianceSource, layout: BlockLayout, n_threads: int, small: int = 32) -> FloatArray:
    """S of every block in flat storage: small blocks of a class in one gather, large blocks separately."""
    size, offset, member_start, members = layout.size, layout.offset, layout.member_start, layout.members
    S = np.empty(offset[-1])
    n_small = int(np.searchsorted(size, small, side="right"))
    by_class = np.argsort(layout.block_class[:n_small], kind="stable")
    last = np.concatenate([[0], np.cumsum(size[by_class] ** 2)])  # their elements, class after class
    block = np.repeat(by_class, np.diff(last))
    within = np.arange(last[-1]) - np.repeat(last[:-1], np.diff(last))
    i, j = (members[member_start[block] + end] for end in np.divmod(within, size[block]))
    target = offset[block] + within
    bounds = last[np.searchsorted(layout.block_class[by_class], np.arange(source.n_classes + 1))]

    def read_class(k: int) -> None:
        piece = slice(bounds[k], bounds[k + 1])
        if bounds[k] < bounds[k + 1]:
            S[target[piece]] = source.entries(k, i[piece], j[piece])
        for block in n_small + np.flatnonzero(layout.block_class[n_small:] == k):
            variables = members[member_start[block] : member_start[block + 1]]
            S[offset[block] : offset[block + 1]] = source.block(k, variables).ravel()

    # Covariances of large blocks use multi-threaded BLAS.
    shared = offset[-1] >= config.MIN_ENTRIES_FOR_THREADS and size.max(initial=0) < config.HUGE
    Workers(n_threads if shared else 1).map(read_class, range(source.n_classes))
    return S
