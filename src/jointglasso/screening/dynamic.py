"""Dynamic screening: start from a partition finer than Algorithm 1's, solve, and merge only where KKT is violated.

Algorithm 1 merges a pair above lambda1 in a class as soon as its two variables are joined in another class, because the
entry *might* be non-zero; one merge can trigger many others. Dynamic screening starts from the pairs outside the dual
ball, each joined in the classes in which it is non-zero in the problem of its two variables. After the groups are
solved, the optimality conditions of the screened-out entries are checked (`engine/recheck.py`), and only violations are
merged. Algorithm 1 would make each of these merges too: the result is exact and never coarser than the hybrid
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
class DeferredPairs:
    """Pairs i < j joined in some class and screened out in another one in which they exceed the threshold.

    Algorithm 1 would merge them; dynamic screening defers that until their optimality conditions are violated.
    """

    rows: IntArray
    columns: IntArray


class DynamicScreen:
    """The current partition, the deferred pairs, and the edges joined so far."""

    def __init__(self, pairs: PairTable, penalty: PairPenalty, absent: BoolArray | None = None) -> None:
        self.pairs, self.penalty, self.absent = pairs, penalty, absent
        joined = start_edges(pairs, penalty)
        chosen = np.flatnonzero(joined.any(axis=1))
        self._edges = pairs.rows[chosen], pairs.columns[chosen], joined[chosen]
        self._update()

    def _update(self) -> None:
        """Recompute the connected components of the joined edges, and the deferred pairs."""
        from jointglasso.kernels.components import class_components

        labels = class_components(self.pairs.n_variables, *self._edges)
        self.partition = Partition(labels, self.penalty.coupling, self.absent)
        in_block = np.any([np.bincount(row)[row] > 1 for row in labels], axis=0)
        inside = np.flatnonzero(in_block[self.pairs.rows] & in_block[self.pairs.columns])
        rows, columns = self.pairs.rows[inside], self.pairs.columns[inside]
        joined = (labels[:, rows] == labels[:, columns]).T
        waits = (self.pairs.exceeds_lambda1[inside] & ~joined).any(axis=1) & joined.any(axis=1)
        self.deferred = DeferredPairs(rows[waits], columns[waits])

    def merge(self, i: IntArray, j: IntArray, classes: BoolArray) -> None:
        """Join the pairs (i, j), each in the classes of its row of the mask `classes` (m, K)."""
        rows, columns, joined = self._edges
        self._edges = np.concatenate([rows, i]), np.concatenate([columns, j]), np.concatenate([joined, classes])
        self._update()


def start_edges(pairs: PairTable, penalty: PairPenalty) -> BoolArray:
    """(m, K) classes in which each pair outside the dual ball is non-zero in the problem of its two variables."""
    joined = np.zeros(pairs.exceeds_lambda1.shape, dtype=bool)
    strong = np.flatnonzero(pairs.violates_global_condition)
    factor = pairs.factor[strong] if len(pairs.factor) else pairs.factor
    joined[strong] = penalty.signs(pairs.weighted[strong], factor) != 0
    return joined
