"""Fused diagonal (`fuse_diagonal=True`): the fusion penalty acts on the diagonal entries as well.

Only the differences between the classes are penalised, and each K-vector of diagonal entries counts once, whereas an
off-diagonal pair counts twice. The diagonal of the optimal W is then not known in advance: it is
``S + (penalty + u) / w`` with u a subgradient of the fusion penalty.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from jointglasso._typing import FloatArray, IntArray
from jointglasso.blocks.system import BlockSystem, bincount
from jointglasso.kernels.pair_types import Entries
from jointglasso.penalties import UNIFORM, PairPenalty

AnyArray = TypeVar("AnyArray", FloatArray, IntArray)


@dataclass(frozen=True)
class FusedDiagonal:
    """Fusion penalty of the diagonal entries of a system; vectors (M,) are in the order of the system's members."""

    system: BlockSystem
    penalty: PairPenalty
    """Penalty of the K-vector of diagonal entries of one variable."""
    order: IntArray
    """(M,): members sorted by group, variable and class."""
    entries: Entries

    @classmethod
    def of(cls, system: BlockSystem, penalty: PairPenalty) -> FusedDiagonal | None:
        """The fused diagonal of a system; None if the penalty does not couple the diagonals."""
        if penalty.fused_diagonal_penalty is None:
            return None
        order, start = system.members_by_variable
        variable, classes = system.members[order], system.block_class[system.diagonal_block[order]]
        labels = penalty.labels(classes, variable, variable)
        return cls(system, penalty.fused_diagonal_penalty, order, Entries(start, labels, UNIFORM, system.n_classes))

    def value(self, diagonal: FloatArray) -> FloatArray:
        """(G,): penalty of the diagonal in each group."""
        group = self.system.block_group[self.system.diagonal_block[self.order[self.entries.start[:-1]]]]
        return bincount(group, self.penalty.value(diagonal[self.order], self.entries), self.system.n_groups)

    def update(self, curvature: FloatArray, linear: FloatArray) -> FloatArray:
        """Minimiser of ``sum curvature x^2 / 2 - linear x`` plus the penalty."""
        return self._to_member_order(self.penalty.update(curvature[self.order], linear[self.order], self.entries))

    def nearest_subgradient(self, diagonal: FloatArray, target: FloatArray) -> FloatArray:
        """Subgradient of the penalty at `diagonal` nearest to `target`."""
        return self._to_member_order(
            self.penalty.nearest_subgradient(diagonal[self.order], target[self.order], self.entries)
        )

    def face(self, diagonal: FloatArray) -> tuple[IntArray, FloatArray]:
        """(M,), (M,): cluster (connected classes with equal values) of each entry, and the gradient of the penalty."""
        cluster, slope = self.penalty.face(diagonal[self.order], self.entries)
        return self._to_member_order(cluster), self._to_member_order(slope)

    def retract(self, diagonal: FloatArray, trial: FloatArray) -> FloatArray:
        """`trial` with the order of clusters of `diagonal`: those that crossed become equal."""
        return self._to_member_order(self.penalty.retract(diagonal[self.order], trial[self.order], self.entries))

    def _to_member_order(self, values: AnyArray) -> AnyArray:
        out = np.empty_like(values)
        out[self.order] = values
        return out


def shrunk_diagonal(
    system: BlockSystem, penalty: PairPenalty, diagonal_penalty: float, point: FloatArray, step: FloatArray
) -> FloatArray:
    """(M,): proximal step of the diagonal penalties from `point`, with step length (M,) of each entry."""
    shrunk = point - diagonal_penalty * step
    fused = FusedDiagonal.of(system, penalty)
    return shrunk if fused is None else fused.update(1.0 / step, shrunk / step)


def variance_without_edges(system: BlockSystem, penalty: PairPenalty, diagonal_penalty: float) -> FloatArray:
    """(M,): diagonal of the optimal W if there were no edges; without a fused diagonal, the optimal one in any case."""
    variance, fused = system.optimal_variance(diagonal_penalty), FusedDiagonal.of(system, penalty)
    if fused is None:
        return variance
    weight = system.block_weight[system.diagonal_block]
    return fused.update(weight, weight * variance)
