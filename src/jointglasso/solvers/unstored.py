"""One large group without stored blocks, out of core or in sparse storage: its task, best point and certified edges."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from jointglasso._cached_property import cached_property
from jointglasso._typing import BoolArray, FloatArray, IntArray
from jointglasso.blocks.big_group import BigGroup, GroupSupport
from jointglasso.duality import EDGE_GAP, ROUNDING, gap_to_certify, precision_radius
from jointglasso.penalties import PairPenalty
from jointglasso.solvers.base import Best, Candidate, Report


@dataclass(frozen=True, kw_only=True)
class UnstoredTask:
    """A large group without stored blocks, and the limit on its duality gap as a function of its objective."""

    limit: Callable[[float], float]
    max_iter: int
    start: GroupSupport | None = None
    """Warm start; None for the diagonal start."""
    prove: bool = False
    """Whether to continue until the gap certifies every edge, as far as the arithmetic permits."""
    report: Report = field(default=lambda objective, gap: False)
    keep: Callable[[Callable[[], GroupSupport]], None] = field(default=lambda theta: None)
    """Checkpoint callback: receives a function that returns the current Theta, evaluated only when it is saved."""


class BestUnstored(Best[Candidate]):
    """Best point so far of an `UnstoredTask`."""

    def __init__(self, task: UnstoredTask) -> None:
        self.task, self.report = task, task.report

    @property
    def edge_gap(self) -> float:
        """Gap below which every edge of the best point is certified; infinite if unknown."""
        raise NotImplementedError

    @property
    def limit(self) -> float:
        """Limit on the gap, which certifies all edges if the task asks for it."""
        limit = self.task.limit(self.objective)
        return min(limit, EDGE_GAP * self.edge_gap) if self.task.prove else limit

    def reason(self, reason: str) -> str:
        """Reason to end, "tolerance" if the gap is within its limit although not all edges are certified."""
        return "tolerance" if self.gap <= self.task.limit(self.objective) else reason


class UnstoredDual:
    """Dual point of a group without stored blocks: the edges that a duality gap certifies."""

    group: BigGroup
    penalty: PairPenalty
    theta_support: GroupSupport

    @cached_property
    def _edges(self) -> tuple[IntArray, IntArray, FloatArray, IntArray]:
        """Pair and class of each non-zero entry, ``sqrt(theta_ii theta_jj)`` there, and its block."""
        group, support = self.group, self.theta_support
        pair, k = np.nonzero(support.value)
        row, column = group.member_of[k, support.i[pair]], group.member_of[k, support.j[pair]]
        root = np.sqrt(support.diagonal)
        return pair, k, root[row] * root[column], group.member_block[row]

    def present(self, gap: float) -> BoolArray:
        """(P, K): entries of `theta_support` that a duality gap of the full problem proves non-zero."""
        factor = precision_radius(np.full(len(self.group.size), gap), self.group.block_weight)
        pair, k, root, block = self._edges
        present = np.zeros(self.theta_support.value.shape, dtype=bool)
        present[pair, k] = np.abs(self.theta_support.value[pair, k]) > (1.0 + ROUNDING) * factor[block] * root
        return present

    @cached_property
    def edge_gap(self) -> float:
        """Gap below which every edge of Theta is certified; infinite without edges."""
        pair, k, root, block = self._edges
        gaps = gap_to_certify(self.theta_support.value[pair, k], root, self.group.block_weight[block])
        return float(gaps.min(initial=np.inf))
