"""The diagonals of several classes, compared like the pairs: what `fuse_diagonal=True` adds.

A penalty that compares the values of classes then acts on the K-vector of every diagonal entry as well: on differences
only, and once, where a pair counts twice. The diagonal of the optimal W is no longer known in advance: it is
``S + (penalty + u) / w`` with u a subgradient of the differences.
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
    """The diagonal entries of a system, variable by variable; vectors are in the order of the system's members."""

    system: BlockSystem
    penalty: PairPenalty
    """Of the K-vector of one variable."""
    order: IntArray
    """Members by variable and class."""
    entries: Entries

    @classmethod
    def of(cls, system: BlockSystem, penalty: PairPenalty) -> FusedDiagonal | None:
        """None where the diagonals of the classes have nothing to do with one another."""
        if penalty.of_diagonal is None:
            return None
        group, classes = (of[system.diagonal_block] for of in (system.block_group, system.block_class))
        order = np.lexsort((classes, system.members, group))
        variable, group, classes = system.members[order], group[order], classes[order]
        new = (np.diff(variable, prepend=-1) != 0) | (np.diff(group, prepend=-1) != 0)
        start = np.append(np.flatnonzero(new), len(order))
        labels = penalty.labels(classes, variable, variable)
        return cls(system, penalty.of_diagonal, order, Entries(start, labels, UNIFORM, system.n_classes))

    def value(self, diagonal: FloatArray) -> FloatArray:
        """Penalty of the differences in each group."""
        group = self.system.block_group[self.system.diagonal_block[self.order[self.entries.start[:-1]]]]
        return bincount(group, self.penalty.value(diagonal[self.order], self.entries), self.system.n_groups)

    def update(self, curvature: FloatArray, linear: FloatArray) -> FloatArray:
        """Minimiser of ``sum curvature x^2 / 2 - linear x`` plus the penalty."""
        return self._back(self.penalty.update(curvature[self.order], linear[self.order], self.entries))

    def nearest_subgradient(self, diagonal: FloatArray, wanted: FloatArray) -> FloatArray:
        """Subgradient of the penalty at `diagonal` nearest to `wanted`."""
        return self._back(self.penalty.nearest_subgradient(diagonal[self.order], wanted[self.order], self.entries))

    def face(self, diagonal: FloatArray) -> tuple[IntArray, FloatArray]:
        """Number of the cluster of neighbours with equal values of each entry, and the slope of the penalty there."""
        cluster, slope = self.penalty.face(diagonal[self.order], self.entries)
        return self._back(cluster), self._back(slope)

    def _back(self, values: AnyArray) -> AnyArray:
        out = np.empty_like(values)
        out[self.order] = values
        return out


def shrunk_diagonal(
    system: BlockSystem, penalty: PairPenalty, diagonal_penalty: float, point: FloatArray, step: FloatArray
) -> FloatArray:
    """Proximal step of the diagonal penalties from `point`, with the step of each group."""
    length = step[system.block_group[system.diagonal_block]]
    shrunk = point - diagonal_penalty * length
    fused = FusedDiagonal.of(system, penalty)
    return shrunk if fused is None else fused.update(1.0 / length, shrunk / length)


def variance_without_edges(system: BlockSystem, penalty: PairPenalty, diagonal_penalty: float) -> FloatArray:
    """Diagonal of the optimal W if no variable had an edge; unless diagonals are compared, it is that of every W."""
    variance, fused = system.optimal_variance(diagonal_penalty), FusedDiagonal.of(system, penalty)
    if fused is None:
        return variance
    weight = system.block_weight[system.diagonal_block]
    return fused.update(weight, weight * variance)
