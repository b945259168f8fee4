"""Dynamic screening: cut boldly, solve, check what was cut, merge only what the check asks for.

Algorithm 1 merges a waiting pair as soon as its ends meet in another class, because the pair *might* be non-zero there;
one merge can set off an avalanche of others. Here the search starts from the strong edges alone. After the groups are
solved, the optimality conditions of the waiting pairs can be read off the solution: a pair (i, j), cut in class x
though ``w_x |S_x,ij| > lambda1``, is violated if it is non-zero in some class, or if the classes that hold it leave too
little of its dual budget lambda2^2. Only violated pairs are merged, and every one of them Algorithm 1 would have merged
as well: the result is exact and never coarser than the hybrid partition.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from jointglasso._typing import BoolArray, FloatArray, IntArray
from jointglasso.penalties import PairPenalty
from jointglasso.screening.pairs import PairTable
from jointglasso.screening.partition import Partition


@dataclass(frozen=True)
class WaitingPairs:
    """Pairs i < j that some class joins while others, where they are above lambda1, keep them cut."""

    rows: IntArray
    columns: IntArray
    spent: FloatArray
    """Part of the dual budget of each pair that is used by the classes where it is cut."""


#: Of a screen that is not dynamic.
NOBODY_WAITS = WaitingPairs(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64), np.empty(0))


class DynamicScreen:
    """The current partition, the pairs waiting outside it, and the merges made so far."""

    def __init__(self, pairs: PairTable, penalty: PairPenalty) -> None:
        self.pairs, self.penalty = pairs, penalty
        self._edges = self.pairs.above & self.pairs.strong[:, None]
        self._update()

    def _update(self) -> None:
        """Components of the edges so far, and the pairs that wait in a class while another class joins them."""
        from jointglasso.kernels.components import class_components

        rows, columns, above = self.pairs.rows, self.pairs.columns, self.pairs.above
        labels = class_components(self.pairs.n_variables, rows, columns, self._edges)
        self.partition = Partition(labels)
        joined = (labels[:, rows] == labels[:, columns]).T
        waits = above & ~joined & joined.any(axis=1)[:, None]
        waiting = np.flatnonzero(waits.any(axis=1))
        key = self._key(rows[waiting], columns[waiting])
        order = np.argsort(key)
        self._waiting, self._waiting_key = waiting[order], key[order]
        spent = self._spent_budget(waits[self._waiting])
        self.waiting = WaitingPairs(rows[self._waiting], columns[self._waiting], spent)

    def _key(self, i: IntArray, j: IntArray) -> IntArray:
        return i.astype(np.int64) * self.pairs.n_variables + j

    def _spent_budget(self, waits: BoolArray) -> FloatArray:
        """Dual budget that the classes where a waiting pair is cut use up."""
        factor = self.pairs.factor[self._waiting] if len(self.pairs.factor) else self.pairs.factor
        weighted = np.where(waits, self.pairs.weighted[self._waiting], 0.0)
        spent: FloatArray = self.penalty.excess(weighted, factor).sum(axis=1)
        return spent

    def merge(self, i: IntArray, j: IntArray) -> None:
        """Join the given waiting pairs in every class where they are above lambda1."""
        pair = self._waiting[np.searchsorted(self._waiting_key, self._key(i, j))]
        self._edges[pair] |= self.pairs.above[pair]
        self._update()
