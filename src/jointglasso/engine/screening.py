"""The partition of one solve: static, or dynamic and merged until the solution satisfies the KKT conditions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jointglasso.engine.dask import DaskExecutor
from jointglasso.engine.executors import Executor, TaskBatch, run_tasks
from jointglasso.engine.recheck import KKTViolations
from jointglasso.penalties import PairPenalty, PairWeights
from jointglasso.problem import JointProblem
from jointglasso.screening import Partition
from jointglasso.screening.hybrid import weighted_covariances
from jointglasso.screening.pairs import PairTable, scan_pairs, wider_penalty
from jointglasso.screening.partition import class_components
from jointglasso.screening.rules import DeferredPairs, partition_of_pairs, start_edges

SCREENING = ("dynamic", "hybrid", "global", "class", "none")


_EPS = float(np.finfo(np.float64).eps)


def scan_on(
    executor: Executor | None, problem: JointProblem, penalty: PairPenalty, *, strong_only: bool = False
) -> PairTable:
    """Scan the covariances of a problem in this process, or on remote workers to which the samples are broadcast."""

    def map_tiles(function: Callable[..., Any], items: Sequence[Any], shared: Any) -> list[Any]:
        return run_tasks(TaskBatch(function, items, shared), executor)

    arguments = problem.source, penalty, problem.weights, problem.pair_weights
    return scan_pairs(
        *arguments, strong_only=strong_only, map_tiles=map_tiles if isinstance(executor, DaskExecutor) else None
    )


class Screen:
    """The current partition of a problem; `pairs` is the scan of its covariances, if already done."""

    partition: Partition
    deferred: DeferredPairs | None = None
    """Deferred pairs: above the threshold of a class in which they are screened out; None if static."""

    def __init__(
        self, problem: JointProblem, rule: str, pairs: PairTable | None = None, executor: Executor | None = None
    ) -> None:
        self.rule, self.pair_weights, self.penalty = rule, problem.pair_weights, problem.penalty
        self.pairs = self.scanned = pairs
        self.absent = problem.source.absent
        source, penalty = problem.source, problem.penalty
        if rule == "none":
            labels = np.zeros((source.n_classes, source.n_variables), dtype=np.int64)
            self.partition = Partition(labels, penalty.coupling).with_isolated(self.absent)
            return
        if self.pairs is None:
            wider = penalty if rule == "global" else wider_penalty(source, penalty, problem.weights, self.pair_weights)
            self.pairs = scan_on(executor, problem, wider, strong_only=rule == "global")
        #: All pairs of the scan; a superset of `pairs`.
        self.scanned = self.pairs
        if self.pairs.thresholds and self.pairs.thresholds != tuple(map(penalty.threshold, range(source.n_classes))):
            self.pairs = self.pairs.for_penalty(penalty)
        if rule == "dynamic":
            joined = start_edges(self.pairs, penalty)
            chosen = np.flatnonzero(joined.any(axis=1))
            self._join(self.pairs.rows[chosen], self.pairs.columns[chosen], joined[chosen])
        else:
            covariances = weighted_covariances(source, problem.weights, problem.pair_weights, penalty)
            self.partition = partition_of_pairs(rule, self.pairs, penalty, covariances).with_isolated(self.absent)

    def _join(self, *edges: Any) -> None:
        """Partition of the pairs `edges` joined in the classes of a mask (m, K), and the pairs it defers."""
        if self.pairs is None:
            raise RuntimeError("dynamic screening needs a scan")
        self._edges = edges
        self.partition = Partition(class_components(self.pairs.n_variables, *edges), self.penalty.coupling, self.absent)
        self.deferred = DeferredPairs.of(self.pairs, self.partition)

    def merge(self, violated: Sequence[KKTViolations]) -> bool:
        """Merge pairs that violate the optimality conditions, each in its classes; returns whether there were any."""
        if self.deferred is None or not any(len(i) for i, _, _ in violated):
            return False
        self._join(*(np.concatenate(part) for part in zip(self._edges, *violated, strict=True)))
        return True

    def n_unverified(self) -> int:
        """Number of entries that dynamic screening removed, but a static rule would not."""
        if self.deferred is None:
            return 0
        return _n_inside(self.safe_partition(), self.pair_weights) - _n_inside(self.partition, self.pair_weights)

    def safe_partition(self) -> Partition:
        """Partition of a static rule, which needs no recheck."""
        if self.deferred is None or self.pairs is None:
            return self.partition
        rule = "global" if self.penalty.class_dependent else "hybrid"
        return partition_of_pairs(rule, self.pairs, self.penalty).with_isolated(self.absent)

    def n_borderline(self) -> int:
        """Number of borderline entries: screened out, but within a rounding error of the boundary of the dual ball.

        They are not certified to be zero. Scaling the covariances by a few units in the last place bounds the rounding
        error.
        """
        pairs, penalty = self.pairs, self.penalty
        if pairs is None:
            return 0
        weak = np.flatnonzero(~pairs.violates_global_condition)
        raised = pairs.weighted[weak] * (1.0 + (8.0 + self.partition.n_classes) * _EPS)
        factor = pairs.factor[weak] if len(pairs.factor) else pairs.factor
        borderline = penalty.violates_global_condition(raised, factor)
        if not borderline.any():
            return 0
        factor = factor[borderline] if len(factor) else factor
        i, j, labels = pairs.rows[weak[borderline]], pairs.columns[weak[borderline]], self.partition.labels
        return int((penalty.exceeds_lambda1(raised[borderline], factor) & (labels[:, i] != labels[:, j]).T).sum())

    def first_partition_at(self, penalty: PairPenalty) -> Partition | None:
        """First partition of a solve at a larger penalty; None without screening."""
        if self.pairs is None:
            return None
        return partition_of_pairs(self.rule, self.pairs.for_penalty(penalty), penalty)


def _n_inside(partition: Partition, pair_weights: PairWeights | None) -> int:
    """Number of entries i < j inside the blocks, without the forbidden ones."""
    sizes = map(partition.block_sizes, range(partition.n_classes))
    inside = sum(int((size * (size - 1) // 2).sum()) for size in sizes)
    if pair_weights is None:
        return inside
    i, j, classes = pair_weights.forbidden_entries
    return inside - int(((partition.labels[:, i] == partition.labels[:, j]) & classes.T).sum())
