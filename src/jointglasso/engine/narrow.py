"""What a piece of work needs of all that is shared, so that no more of it has to travel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from jointglasso._threads import cores_here
from jointglasso._typing import FloatArray, IntArray
from jointglasso.blocks.system import read_blocks
from jointglasso.covariance import CovarianceSource
from jointglasso.engine.work import Item, Shared, waiting_among
from jointglasso.screening.dynamic import WaitingPairs
from jointglasso.screening.groups import ClassBlocks


def narrowed(item: Item, shared: Shared) -> Shared:
    """The part of what is shared that `solve_item` looks at for this item; it gives the same outcome, to the bit."""
    problem, p = shared.problem, shared.problem.source.n_variables
    waiting, blocks = shared.waiting, item.blocks
    if waiting is not None:
        near = waiting_among(waiting, blocks.members, p)
        waiting = WaitingPairs(waiting.rows[near], waiting.columns[near])
        if len(near) or problem.penalty.by_class:  # then the check of the cuts reads covariances between blocks
            blocks = _everywhere(blocks, problem.source.n_classes)
    weights = None if problem.pair_weights is None else problem.pair_weights.among(item.blocks.members)
    start = shared.warm_start if item.start is None else None
    if start is not None:
        start = replace(start, precision=_inside(start.precision, item.blocks))
    source = BlockCovariance(problem.source, blocks)
    return replace(
        shared, problem=replace(problem, source=source, pair_weights=weights), waiting=waiting, warm_start=start
    )


def _everywhere(blocks: ClassBlocks, n_classes: int) -> ClassBlocks:
    """One block in every class, of all variables that the given ones have anywhere."""
    members = np.unique(blocks.members)
    start = np.arange(0, n_classes * len(members) + 1, len(members))
    nothing = np.zeros(n_classes, dtype=np.int64)
    return ClassBlocks(np.arange(n_classes), start, np.tile(members, n_classes), nothing)


def _inside(precision: Sequence[Any], blocks: ClassBlocks) -> list[Any]:
    """Entries of K matrices between the variables that their classes have in these blocks."""
    kept = []
    member_class = np.repeat(blocks.block_class, blocks.sizes)
    for k, matrix in enumerate(precision):
        Theta = sparse.coo_array(matrix)
        here = np.zeros(Theta.shape[0], dtype=bool)
        here[blocks.members[member_class == k]] = True
        inside = here[Theta.row] & here[Theta.col]
        entries = Theta.data[inside], (Theta.row[inside], Theta.col[inside])
        kept.append(sparse.coo_array(entries, shape=Theta.shape))
    return kept


class BlockCovariance:
    """Covariances of some class blocks, cut out of a source; what lies between blocks is not there."""

    def __init__(self, source: CovarianceSource, blocks: ClassBlocks) -> None:
        self.n_classes, self.n_variables = source.n_classes, source.n_variables
        self.class_names, self.sample_sizes = source.class_names, source.sample_sizes
        self.is_semidefinite = bool(getattr(source, "is_semidefinite", False))
        self._names = {int(i): source.variable_names[i] for i in np.unique(blocks.members)}
        self._blocks = blocks
        self._offset = np.concatenate([[0], np.cumsum(blocks.sizes**2)])
        self._S = read_blocks(
            source, blocks.block_class, blocks.sizes, self._offset, blocks.start, blocks.members, cores_here()
        )

    @property
    def variable_names(self) -> tuple[str, ...]:
        """Names of the variables in the blocks; the others are called by their number."""
        return tuple(self._names.get(i, str(i)) for i in range(self.n_variables))

    @cached_property
    def _places(self) -> tuple[IntArray, IntArray]:
        """Block and place there, (K, p), of every variable in each class; -1: none."""
        blocks = self._blocks
        block_of = np.full((self.n_classes, self.n_variables), -1, dtype=np.int64)
        slot_of = np.full_like(block_of, -1)
        own_class = np.repeat(blocks.block_class, blocks.sizes)
        block_of[own_class, blocks.members] = np.repeat(np.arange(blocks.n_blocks), blocks.sizes)
        slot_of[own_class, blocks.members] = np.arange(len(blocks.members)) - np.repeat(blocks.start[:-1], blocks.sizes)
        return block_of, slot_of

    def entries(self, k: int, rows: IntArray, columns: IntArray) -> FloatArray:
        """``S_k[rows[e], columns[e]]`` for every e; an error where the two are not in one block."""
        block_of, slot_of = self._places
        block = block_of[k, rows]
        if (block < 0).any() or (block != block_of[k, columns]).any():
            raise IndexError("a covariance between blocks was asked for, of which only the blocks are here.")
        size = self._blocks.sizes[block]
        found: FloatArray = self._S[self._offset[block] + slot_of[k, rows] * size + slot_of[k, columns]]
        return found

    def block(self, k: int, variables: IntArray) -> FloatArray:
        """``S_k[variables, variables]``, a fresh array."""
        b = len(variables)
        return self.entries(k, np.repeat(variables, b), np.tile(variables, b)).reshape(b, b)

    def tile(self, k: int, rows: slice, columns: slice) -> FloatArray:
        """``S_k[rows, columns]`` inside a block."""
        i, j = np.arange(self.n_variables)[rows], np.arange(self.n_variables)[columns]
        return self.entries(k, np.repeat(i, len(j)), np.tile(j, len(i))).reshape(len(i), len(j))

    def diagonal(self, k: int) -> FloatArray:
        """Diagonal of ``S_k``; not a number where a variable is in no block of the class."""
        variables = np.flatnonzero(self._places[0][k] >= 0)
        diagonal = np.full(self.n_variables, np.nan)
        diagonal[variables] = self.entries(k, variables, variables)
        return diagonal
