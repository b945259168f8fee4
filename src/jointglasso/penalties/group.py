"""Group penalties: that of the paper's Eq. (3)-(4), ``lambda1 |theta|_1 + lambda2 |theta|_2``, and the maximum penalty.

The maximum penalty (l1/l-infinity group) is ``lambda1 |theta|_1 + lambda2 max_k |theta_k|``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from jointglasso._typing import BoolArray, FloatArray, IntArray
from jointglasso.kernels.pair_types import Entries, GroupPair, MaximumPair
from jointglasso.penalties.base import UNIFORM, PairPenalty, SafeRegion, coupling_weights, l1_weights, times

#: Relative rounding error of a sum of a few squares.
_ROUNDING = 16.0 * float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class GroupPenalty(PairPenalty):
    """Sparse-group penalty on the entries of a pair over the classes.

    Its subdifferential at zero, the dual ball, is ``{u : sum_k (|u_k| - lambda1)_+^2 <= lambda2^2}``: the
    global rule (8a). A single class may be screened out where ``|u_k| <= lambda1``: the class rule (8b).
    """

    lambda1: float
    lambda2: float

    name: ClassVar[str] = "group"
    supports: ClassVar[frozenset[str]] = frozenset({"prox", "columns", "forest", "newton"})
    class_dependent: ClassVar[bool] = False

    @property
    def pair(self) -> GroupPair:
        return GroupPair(float(self.lambda1), float(self.lambda2))

    @property
    def scale(self) -> float:
        return self.lambda1 + self.lambda2

    @property
    def class_graph(self) -> None:
        return None

    def threshold(self, k: int) -> float:
        return self.lambda1

    def box_radius(self, n_classes: int) -> float:
        return float(self.lambda1 + self.lambda2 / np.sqrt(n_classes))

    def scaled(self, factor: float) -> GroupPenalty:
        return GroupPenalty(factor * self.lambda1, factor * self.lambda2)

    @staticmethod
    def _ball_terms(excess: Any) -> Any:
        """Terms of the sum that defines the dual ball, from ``(|u_k| - lambda1)_+``: squares."""
        return excess * excess

    def certified_zeros(self, region: SafeRegion, entries: Entries) -> BoolArray:
        """Entries with ``|u| + u_radius < lambda1``, and all entries of pairs that stay inside the dual ball."""
        counts = np.diff(entries.start)
        factor = entries.l1 if len(entries.l1) else np.repeat(entries.factor, counts) if len(entries.factor) else 1.0
        largest = np.abs(region.u) + region.u_radius
        over = self._ball_terms(np.maximum(largest - factor * self.lambda1, 0.0))
        used = np.add.reduceat(over, entries.start[:-1]) if len(over) else over
        budget = self._ball_terms(self._of_pairs(self.lambda2, entries.factor))
        ball = used * (1.0 + (1.0 + counts) * _ROUNDING) < budget
        return np.asarray((largest < factor * self.lambda1) | np.repeat(ball, counts))

    def violates_global_condition(self, rows: FloatArray, factor: FloatArray = UNIFORM) -> BoolArray:
        # One expression, summed in class order, so that borderline pairs are decided consistently everywhere.
        used = np.zeros(rows.shape[0])
        limits = times(self.lambda1, l1_weights(factor)) if len(factor) else None
        for k in range(rows.shape[1]):
            limit = self.lambda1 if limits is None else limits[:, min(k, limits.shape[1] - 1)]
            used += self._ball_terms(np.maximum(np.abs(rows[:, k]) - limit, 0.0))
        return np.asarray(used > self._ball_terms(self._of_pairs(self.lambda2, coupling_weights(factor))))

    def signs(self, rows: FloatArray, factor: FloatArray = UNIFORM) -> IntArray:
        joined = self.exceeds_lambda1(rows, factor) & self.violates_global_condition(rows, factor)[:, None]
        return np.where(joined, -np.sign(rows), 0.0).astype(np.int64)

    def closure(self, rows: FloatArray, joined: BoolArray, factor: FloatArray = UNIFORM) -> BoolArray:
        active = self.violates_global_condition(rows, factor) | joined.any(axis=1)
        return joined | (self.exceeds_lambda1(rows, factor) & active[:, None])

    def screening_certified(self, region: SafeRegion, in_block: BoolArray, factor: FloatArray = UNIFORM) -> BoolArray:
        """Pairs certified to be zero in the classes outside `in_block`.

        Either each of these classes has ``|u_k| <= lambda1``, or the entries inside blocks are certified zeros and u
        over all classes lies in the dual ball.
        """
        lambda1 = times(self.lambda1, l1_weights(factor)) if len(factor) else self.lambda1
        lambda2 = np.reshape(self._of_pairs(self.lambda2, coupling_weights(factor)), (-1, 1))
        largest = np.abs(region.u) + region.u_radius
        over = self._ball_terms(np.maximum(largest - lambda1, 0.0))
        rounding = 1.0 + (1.0 + largest.shape[1]) * _ROUNDING
        budget = self._ball_terms(lambda2).ravel()
        small = ((largest < lambda1) | ~in_block).all(axis=1)
        zero = small | ((over * in_block).sum(axis=1) * rounding < budget)
        fits = over.sum(axis=1) * rounding <= budget
        free = ((largest <= lambda1) | in_block).all(axis=1)
        return np.asarray(free | (zero & fits))

    def _of_pairs(self, penalty: float, factor: FloatArray) -> FloatArray | float:
        return penalty if len(factor) == 0 else penalty * factor


@dataclass(frozen=True)
class MaximumPenalty(GroupPenalty):
    """Penalty of Honorio and Samaras (2010): entries of a pair below the largest one cost lambda1 alone.

    The dual ball is ``{u : sum_k (|u_k| - lambda1)_+ <= lambda2}``. Beside a non-zero entry a class is screened out
    where ``|u_k| <= lambda1``, as with the group penalty.
    """

    name: ClassVar[str] = "maximum"
    supports: ClassVar[frozenset[str]] = frozenset({"prox", "columns", "newton"})

    @property
    def pair(self) -> MaximumPair:  # type: ignore[override]
        return MaximumPair(float(self.lambda1), float(self.lambda2))

    def box_radius(self, n_classes: int) -> float:
        return float(self.lambda1 + self.lambda2 / n_classes)

    def scaled(self, factor: float) -> MaximumPenalty:
        return MaximumPenalty(factor * self.lambda1, factor * self.lambda2)

    def face(self, theta: FloatArray, entries: Entries) -> tuple[IntArray, FloatArray]:
        variable, gradient = super().face(theta, entries)
        if self.lambda2 == 0.0 or not len(theta):
            return variable, gradient
        # Entries of maximum size are one cluster, of both signs.
        size = np.diff(entries.start)
        top = np.repeat(np.maximum.reduceat(np.abs(theta), entries.start[:-1]), size)
        at_top = np.flatnonzero((np.abs(theta) == top) & (theta != 0.0))
        _, first, which = np.unique(
            np.repeat(np.arange(len(size)), size)[at_top], return_index=True, return_inverse=True
        )
        variable[at_top] = variable[at_top[first[which]]]
        return variable, gradient

    @staticmethod
    def _ball_terms(excess: Any) -> Any:
        """Terms of the sum that defines the dual ball: the excesses themselves."""
        return excess
