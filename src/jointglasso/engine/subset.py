"""The part of the shared data that one task needs, so that only this is sent to its worker."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np

from jointglasso._cached_property import cached_property
from jointglasso._threads import cores_here
from jointglasso._typing import FloatArray, IntArray
from jointglasso.blocks.system import read_blocks
from jointglasso.data import CovarianceSource
from jointglasso.engine.tasks import Task, TaskContext, deferred_within
from jointglasso.screening.dynamic import DeferredPairs
from jointglasso.screening.groups import ClassBlocks, block_index

_NONE = np.empty(0, dtype=np.int64)


def subset_for(item: Task, shared: TaskContext) -> TaskContext:
    """The part of the shared data that `solve_task` reads for this task; the outcome is bit-identical."""
    problem, p = shared.problem, shared.problem.source.n_variables
    deferred = shared.deferred
    pairs: tuple[IntArray, IntArray] = _NONE, _NONE
    if deferred is not None:
        candidates = deferred_within(deferred, item.blocks.members, p)
        deferred = DeferredPairs(deferred.rows[candidates], deferred.columns[candidates])
    if deferred is not None and not item.is_sparse:
        # The check of the screened-out entries also needs the covariances of these pairs outside the blocks.
        pairs = _pairs_of(item.blocks, p) if problem.penalty.class_dependent else (deferred.rows, deferred.columns)
    weights = None if problem.pair_weights is None else problem.pair_weights.restricted_to(item.blocks.members)
    if item.is_sparse and shared.scanned is not None:
        # Any covariance of the group may be needed, and its blocks are too large to be sent: the source is sent.
        selected = np.isin(np.arange(p), item.blocks.members)
        scanned = shared.scanned.take(selected[shared.scanned.rows] & selected[shared.scanned.columns])
        return replace(shared, deferred=deferred, scanned=scanned)
    source = BlockCovariance(problem.source, item.blocks, *pairs)
    return replace(
        shared,
        problem=replace(problem, source=source, pair_weights=weights),
        deferred=deferred,
        scanned=None,
    )


def _pairs_of(blocks: ClassBlocks, n_variables: int) -> tuple[IntArray, IntArray]:
    """All pairs i < j with both variables in one block."""
    keys = [_NONE]
    for first, last in pairwise(blocks.start):
        members = blocks.members[first:last]
        i, j = np.triu_indices(len(members), 1)
        keys.append(members[i] * n_variables + members[j])
    return np.divmod(np.unique(np.concatenate(keys)), n_variables)


class BlockCovariance(CovarianceSource):
    """Covariances of given class blocks, and of given pairs in all classes, copied from a source."""

    def __init__(
        self, source: CovarianceSource, blocks: ClassBlocks, rows: IntArray = _NONE, columns: IntArray = _NONE
    ) -> None:
        self.n_classes, self.n_variables = source.n_classes, source.n_variables
        self.class_names, self.sample_sizes = source.class_names, source.sample_sizes
        self.is_semidefinite = source.is_semidefinite
        self._names = {int(i): source.variable_names[i] for i in np.unique(blocks.members)}
        self._blocks = blocks
        self._offset = np.concatenate([[0], np.cumsum(blocks.sizes**2)])
        self._S = read_blocks(
            source, blocks.block_class, blocks.sizes, self._offset, blocks.start, blocks.members, cores_here()
        )
        key = rows * self.n_variables + columns
        order = np.argsort(key, kind="stable")
        self._key = key[order]
        self._between = [source.entries(k, rows[order], columns[order]) for k in range(self.n_classes)]

    @property
    def variable_names(self) -> tuple[str, ...]:  # type: ignore[override]
        """Names of the variables in the blocks; indices for all others."""
        return tuple(self._names.get(i, str(i)) for i in range(self.n_variables))

    @cached_property
    def _places(self) -> tuple[IntArray, IntArray]:
        """Two arrays (K, p): block of each variable in each class, and its position in the block; -1 if in none."""
        blocks = self._blocks
        shape = self.n_classes, self.n_variables
        return block_index(blocks.block_class, blocks.sizes, blocks.members, shape)

    def entries(self, k: int, rows: IntArray, columns: IntArray) -> FloatArray:
        """``S_k[rows[e], columns[e]]`` for every e; an error for entries that were not copied."""
        block_of, slot_of = self._places
        block = block_of[k, rows]
        together = (block >= 0) & (block == block_of[k, columns])
        size = self._blocks.sizes[block]
        values = self._S[np.where(together, self._offset[block] + slot_of[k, rows] * size + slot_of[k, columns], 0)]
        if not together.all():
            outside = np.flatnonzero(~together)
            first, second = np.minimum(rows[outside], columns[outside]), np.maximum(rows[outside], columns[outside])
            key = first * self.n_variables + second
            place = np.minimum(np.searchsorted(self._key, key), max(0, len(self._key) - 1))
            if not len(self._key) or (self._key[place] != key).any():
                raise IndexError("a covariance between blocks was asked for that did not come with them.")
            values[outside] = self._between[k][place]
        return np.asarray(values)

    def block(self, k: int, variables: IntArray) -> FloatArray:
        """``S_k[variables, variables]``, a fresh array."""
        b = len(variables)
        return self.entries(k, np.repeat(variables, b), np.tile(variables, b)).reshape(b, b)

    def tile(self, k: int, rows: slice, columns: slice) -> FloatArray:
        """``S_k[rows, columns]`` inside a block."""
        i, j = np.arange(self.n_variables)[rows], np.arange(self.n_variables)[columns]
        return self.entries(k, np.repeat(i, len(j)), np.tile(j, len(i))).reshape(len(i), len(j))

    def diagonal(self, k: int) -> FloatArray:
        """Diagonal of ``S_k``; NaN for variables in no block of the class."""
        variables = np.flatnonzero(self._places[0][k] >= 0)
        diagonal = np.full(self.n_variables, np.nan)
        diagonal[variables] = self.entries(k, variables, variables)
        return diagonal
