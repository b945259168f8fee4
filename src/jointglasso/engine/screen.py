"""The screen of one solve: a static partition, or a dynamic one that grows until the solution passes the check."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from jointglasso._typing import IntArray
from jointglasso.penalties import GroupPenalty, PairWeights
from jointglasso.problem import JointProblem
from jointglasso.screening import Partition
from jointglasso.screening.dynamic import NOBODY_WAITS, DynamicScreen, WaitingPairs
from jointglasso.screening.hybrid import hybrid_partition
from jointglasso.screening.pairs import PairTable, scan_pairs
from jointglasso.screening.rules import partition_of_pairs

SCREENING = ("dynamic", "hybrid", "global", "class", "none")


_EPS = float(np.finfo(np.float64).eps)


class Screen:
    """The current partition of a problem; `pairs` is the scan of its covariances, where that was done before."""

    def __init__(self, problem: JointProblem, rule: str, pairs: PairTable | None = None) -> None:
        self.rule, self.pair_weights, self.penalty = rule, problem.pair_weights, problem.penalty
        self.dynamic: DynamicScreen | None = None
        self.pairs = pairs
        source, penalty = problem.source, problem.penalty
        if rule == "none":
            self._partition = Partition.single_block(source.n_classes, source.n_variables)
            return
        if self.pairs is None:
            self.pairs = scan_pairs(
                source, penalty, problem.weights, problem.pair_weights, strong_only=rule == "global"
            )
        if rule == "dynamic":
            self.dynamic = DynamicScreen(self.pairs, penalty)
        else:
            self._partition = partition_of_pairs(rule, self.pairs)

    @property
    def partition(self) -> Partition:
        return self._partition if self.dynamic is None else self.dynamic.partition

    @property
    def waiting(self) -> WaitingPairs:
        """Pairs that are joined in some class and cut in another, where they use up dual budget."""
        return NOBODY_WAITS if self.dynamic is None else self.dynamic.waiting

    def merge(self, violated: Sequence[tuple[IntArray, IntArray]]) -> bool:
        """Merge the pairs that failed the check; whether there were any."""
        if self.dynamic is None or not violated:
            return False
        i, j = (np.concatenate(part) for part in zip(*violated, strict=True))
        if len(i):
            self.dynamic.merge(i, j)
        return bool(len(i))

    def doubtful_cuts(self) -> int:
        """Entries cut by the dynamic screen but not by Algorithm 1, whose cuts need no check."""
        if self.dynamic is None:
            return 0
        safe = hybrid_partition(self.dynamic.pairs)
        return _n_inside(safe, self.pair_weights) - _n_inside(self.partition, self.pair_weights)

    def ties(self) -> int:
        """Entries that were cut although rounding alone kept their pair inside the dual ball: not proved to be zero.

        Scaling the covariances of a pair up by a few units of the last place is more than rounding can do to them.
        """
        pairs, penalty = self.pairs, self.penalty
        if pairs is None:
            return 0
        weak = np.flatnonzero(~pairs.strong)
        raised = pairs.weighted[weak] * (1.0 + (8.0 + self.partition.n_classes) * _EPS)
        factor = pairs.factor[weak] if len(pairs.factor) else pairs.factor
        tied = penalty.strong(raised, factor)
        factor = factor[tied] if len(factor) else factor
        i, j, labels = pairs.rows[weak[tied]], pairs.columns[weak[tied]], self.partition.labels
        return int((penalty.above(raised[tied], factor) & (labels[:, i] != labels[:, j]).T).sum())

    def first_partition_at(self, penalty: GroupPenalty) -> Partition | None:
        """Partition with which a solve at a larger penalty would begin; None where nothing is screened."""
        if self.pairs is None:
            return None
        rule = "strong" if self.rule == "dynamic" else self.rule
        return partition_of_pairs(rule, self.pairs.at(penalty))


def _n_inside(partition: Partition, pair_weights: PairWeights | None) -> int:
    """Number of entries i < j inside the blocks, without the forbidden ones."""
    sizes = map(partition.block_sizes, range(partition.n_classes))
    inside = sum(int((size * (size - 1) // 2).sum()) for size in sizes)
    if pair_weights is None:
        return inside
    i, j = pair_weights.forbidden
    return inside - int((partition.labels[:, i] == partition.labels[:, j]).sum())
