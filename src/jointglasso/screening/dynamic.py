"""Dynamic screening: cut boldly, solve, check what was cut, merge only what the check asks for.

Algorithm 1 merges a waiting pair as soon as its ends meet in another class, because the pair *might* be non-zero there;
one merge can set off an avalanche of others. Here the search starts from the strong pairs alone, each joined in the
classes in which it would be non-zero if its two variables were alone. After the groups are solved, the optimality
conditions of what was cut can be read off the solution (`engine/recheck.py`). Only what violates them is merged, and
every one of these merges Algorithm 1 would have made as well: the result is exact and never coarser than the hybrid
partition.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from jointglasso._typing import BoolArray, IntArray
from jointglasso.penalties import PairPenalty
from jointglasso.screening.pairs import PairTable
from jointglasso.screening.partition import Partition


@dataclass(frozen=True)
class WaitingPairs:
    """Pairs i < j that some class joins while others, in which they are above the threshold, keep them cut."""

    rows: IntArray
    columns: IntArray


class DynamicScreen:
    """The current partition, the pairs waiting outside it, and the merges made so far."""

    def __init__(self, pairs: PairTable, penalty: PairPenalty, absent: BoolArray | None = None) -> None:
        self.pairs, self.penalty, self.absent = pairs, penalty, absent
        joined = start_edges(pairs, penalty)
        chosen = np.flatnonzero(joined.any(axis=1))
        self._edges = pairs.rows[chosen], pairs.columns[chosen], joined[chosen]
        self._update()

    def _update(self) -> None:
        """Components of the edges so far, and the pairs that wait in a class while another class joins them."""
        from jointglasso.kernels.components import class_components

        rows, columns = self.pairs.rows, self.pairs.columns
        labels = class_components(self.pairs.n_variables, *self._edges)
        self.partition = Partition(labels, self.penalty.coupling, self.absent)
        joined = (labels[:, rows] == labels[:, columns]).T
        waits = (self.pairs.above & ~joined).any(axis=1) & joined.any(axis=1)
        self.waiting = WaitingPairs(rows[waits], columns[waits])

    def merge(self, i: IntArray, j: IntArray, classes: BoolArray) -> None:
        """Join the given pairs, each in the classes (m, K) that are marked."""
        rows, columns, joined = self._edges
        self._edges = np.concatenate([rows, i]), np.concatenate([columns, j]), np.concatenate([joined, classes])
        self._update()


def start_edges(pairs: PairTable, penalty: PairPenalty) -> BoolArray:
    """(m, K) classes in which each strong pair would be non-zero if its two variables were alone."""
    joined = np.zeros(pairs.above.shape, dtype=bool)
    strong = np.flatnonzero(pairs.strong)
    factor = pairs.factor[strong] if len(pairs.factor) else pairs.factor
    joined[strong] = penalty.pattern(pairs.weighted[strong], factor) != 0
    return joined
