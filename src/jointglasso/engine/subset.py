"""The part of the shared data that one task needs, so that only this is sent to its worker."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from jointglasso._cached_property import cached_property
from jointglasso._threads import cores_here
from jointglasso._typing import FloatArray, IntArray
from jointglasso.blocks.system import BlockLayout, find_keys, read_blocks
from jointglasso.data import CovarianceSource
from jointglasso.engine.tasks import Task, TaskContext, deferred_within
from jointglasso.screening.groups import ClassBlocks, block_index
from jointglasso.screening.rules import DeferredPairs

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
        pairs = item.blocks.pairs(p) if problem.penalty.class_dependent else (deferred.rows, deferred.columns)
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


class BlockCovariance(CovarianceSource):
    """Covariances of given class blocks, and of given pairs in all classes, copied from a source."""

    def __init__(
        self, source: CovarianceSource, blocks: ClassBlocks, rows: IntArray = _NONE, columns: IntArray = _NONE
    ) -> None:
        self.n_classes, self.n_variables = source.n_classes, source.n_variables
        self.class_names, self.sample_sizes = source.class_names, source.sample_sizes
        self.is_semidefinite = source.is_semidefinite
        self._names = {int(i): source.variable_names[i] for i in np.unique(blocks.members)}
        self._layout, _ = BlockLayout.sorted(blocks, np.ones(self.n_classes))
        self._S = read_blocks(source, self._layout, cores_here())
        self._key = rows * self.n_variables + columns
        self._between = [source.entries(k, rows, columns) for k in range(self.n_classes)]

    @property
    def variable_names(self) -> tuple[str, ...]:  # type: ignore[override]
        """Names of the variables in the blocks; indices for all others."""
        return tuple(self._names.get(i, str(i)) for i in range(self.n_variables))

    @cached_property
    def _places(self) -> tuple[IntArray, IntArray]:
        """Two arrays (K, p): block of each variable in each class, and its position in the block; -1 if in none."""
        shape = self.n_classes, self.n_variables
        return block_index(self._layout.block_class, self._layout.size, self._layout.members, shape)

    def entries(self, k: int, rows: IntArray, columns: IntArray) -> FloatArray:
        """``S_k[rows[e], columns[e]]`` for every e; an error for entries that were not copied."""
        (block_of, slot_of), layout = self._places, self._layout
        block = block_of[k, rows]
        together = (block >= 0) & (block == block_of[k, columns])
        position = layout.offset[block] + slot_of[k, rows] * layout.size[block] + slot_of[k, columns]
        values = self._S[np.where(together, position, 0)]
        if not together.all():
            i, j = rows[~together], columns[~together]
            place = find_keys(self._key, np.minimum(i, j) * self.n_variables + np.maximum(i, j))
            if (place < 0).any():
                raise IndexError("a covariance between blocks was asked for that did not come with them.")
            values[~together] = self._between[k][place]
        return np.asarray(values)

    def diagonal(self, k: int) -> FloatArray:
        """Diagonal of ``S_k``; NaN for variables in no block of the class."""
        variables = np.flatnonzero(self._places[0][k] >= 0)
        diagonal = np.full(self.n_variables, np.nan)
        diagonal[variables] = self.entries(k, variables, variables)
        return diagonal
