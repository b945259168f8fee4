"""What is left of a piece of work when it is solved: light enough that all of them can be kept.

The blocks themselves, a hundred bytes an entry, are given back as soon as their piece of work is done. They are built
again from the source in the rare case that they are needed once more.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from jointglasso._typing import BoolArray, FloatArray, IntArray
from jointglasso.blocks import BlockSystem
from jointglasso.certificate import Bounds
from jointglasso.engine.recheck import Cuts, Violated
from jointglasso.engine.sameness import TieProofs


@dataclass(frozen=True)
class Nonzeros:
    """Diagonal and non-zero entries i < j of the blocks of a system."""

    position: IntArray
    """In flat storage: the entries first, then the diagonal."""
    mirror: IntArray
    """Position of the lower copy; for the diagonal, the same."""
    block_class: IntArray
    row: IntArray
    column: IntArray
    value: FloatArray
    proved: BoolArray
    """Proved to be non-zero; false on the diagonal."""

    @classmethod
    def of(cls, system: BlockSystem, theta: FloatArray, present: BoolArray) -> Nonzeros:
        """Pick them from flat storage."""
        entries = system.gather(theta)
        kept = np.flatnonzero(entries)
        row, column = system.entry_members(kept)
        block = np.concatenate([system.entry_block[kept], system.diagonal_block])
        diagonal = system.diagonal
        return cls(
            position=np.concatenate([system.upper[kept], diagonal]),
            mirror=np.concatenate([system.lower[kept], diagonal]),
            block_class=system.block_class[block],
            row=np.concatenate([system.members[row], system.members]),
            column=np.concatenate([system.members[column], system.members]),
            value=np.concatenate([entries[kept], theta[diagonal]]),
            proved=np.concatenate([present[kept], np.zeros(len(diagonal), dtype=bool)]),
        )

    def flat(self, size: int) -> FloatArray:
        """Theta in flat storage."""
        theta = np.zeros(size)
        theta[self.position] = self.value
        theta[self.mirror] = self.value
        return theta


@dataclass(frozen=True)
class Opened:
    """A piece of work with its blocks at hand."""

    system: BlockSystem
    theta: FloatArray
    bounds: Bounds
    cuts: Cuts | None
    """What a dynamic screen has cut of the pairs."""


@dataclass(frozen=True)
class Outcome:
    """One piece of work, solved as far as it was."""

    number: int
    objective: FloatArray
    """(G,): objective of each of its groups."""
    gap: FloatArray
    """(G,): gap of each group as a problem of its own."""
    rounding: FloatArray
    """(G,): how far the objective of each group may be off."""
    raised: FloatArray
    """(G,): part of the gap that is there because of rounding."""
    n_iter: int
    stopped_by: str
    methods: list[str]
    nonzeros: Nonzeros
    n_entries: int
    """Entries i < j inside the blocks."""
    n_present: int
    n_absent: int
    """Entries proved to be non-zero, and zero, provided that all cuts are proved right."""
    ties: TieProofs
    """What is proved about the same edge in two classes, where the penalty compares them."""
    violated: Violated
    """Pairs that a dynamic screen must merge, and in which classes."""
    proved: bool
    """Whether the gap proves that no pair cut by a dynamic screen has to be merged."""
    build_seconds: float
    """Of `seconds`, for reading the covariances and laying out the blocks."""
    seconds: float
    opened: Any = None
    """Its blocks, `Opened` or `OpenedBig`, kept while there is room for them."""
    is_big: bool = False
    """Whether it was solved without its blocks in double precision."""
