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


@dataclass(frozen=True)
class DeferredPairs:
    """Pairs i < j joined in some class and screened out in another one in which they exceed the threshold.

    Algorithm 1 would merge them; dynamic screening defers that until their optimality conditions are violated.
    """

    rows: IntArray
    columns: IntArray

    @classmethod
    def of(cls, pairs: PairTable, labels: IntArray) -> DeferredPairs:
        """The deferred pairs of a table in the partition `labels` (K, p)."""
        in_block = np.any([np.bincount(row)[row] > 1 for row in labels], axis=0)
        inside = np.flatnonzero(in_block[pairs.rows] & in_block[pairs.columns])
        rows, columns = pairs.rows[inside], pairs.columns[inside]
        joined = (labels[:, rows] == labels[:, columns]).T
        waits = (pairs.exceeds_lambda1[inside] & ~joined).any(axis=1) & joined.any(axis=1)
        return cls(rows[waits], columns[waits])


def start_edges(pairs: PairTable, penalty: PairPenalty) -> BoolArray:
    """(m, K) classes in which each pair outside the dual ball is non-zero in the problem of its two variables."""
    joined = np.zeros(pairs.exceeds_lambda1.shape, dtype=bool)
    strong = np.flatnonzero(pairs.violates_global_condition)
    factor = pairs.factor[strong] if len(pairs.factor) else pairs.factor
    joined[strong] = penalty.signs(pairs.weighted[strong], factor) != 0
    return joined
