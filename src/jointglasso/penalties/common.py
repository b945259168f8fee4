"""Common substructure penalty of Hara and Washio (2013): a graph C that all classes share, and one of each class.

``Theta_k = C + I_k`` off the diagonal, at the cost ``phi(t) = min_c rho |c| + gamma sum_k |t_k - c|`` of a pair: the
fused penalty of a star of the classes around one that is not observed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from jointglasso._cached_property import cached_property
from jointglasso._typing import BoolArray, FloatArray, IntArray
from jointglasso.kernels.pair_types import CommonPair, Entries
from jointglasso.penalties.base import UNIFORM, SafeRegion
from jointglasso.penalties.class_graph import ClassGraphPenalty

#: Relative slack of the rules, towards joining a pair.
_SLACK = 1.0 - 1e-12


@dataclass(frozen=True, eq=False)
class CommonPenalty(ClassGraphPenalty):
    """Common substructure penalty with ``gamma = lambda1 + lambda2`` and ``rho = K lambda1 + lambda2``.

    lambda2 = 0 gives separate classes; with lambda1 = 0 a class-specific edge costs as much as one that all share. The
    dual ball is ``{u : |u_k| <= gamma, |sum_k u_k| <= rho}``; `graph` joins all classes.
    """

    name: ClassVar[str] = "common"

    @property
    def gamma(self) -> float:
        """Penalty of a class-specific entry."""
        return float(self.lambda1 + self.lambda2)

    @property
    def rho(self) -> float:
        """Penalty of a shared entry."""
        return float(self.n_classes * self.lambda1 + self.lambda2)

    @cached_property
    def pair(self) -> CommonPair:
        """The penalty of one pair, for compiled code."""
        return CommonPair(self.gamma, self.rho, self.n_classes)

    @property
    def scale(self) -> float:
        return self.gamma

    @cached_property
    def fused_class_pairs(self) -> IntArray:
        """(T, 2): classes k < l."""
        return np.argwhere(np.triu(self.class_graph)).astype(np.int64, order="C")

    def threshold(self, k: int) -> float:
        return min(self.gamma, self.rho / self.n_classes)

    def box_radius(self, n_classes: int) -> float:
        return self.threshold(0)

    def parameters(self) -> dict[str, Any]:
        return {name: value for name, value in super().parameters().items() if name != "class_graph"}

    def violates_global_condition(self, rows: FloatArray, factor: FloatArray = UNIFORM) -> BoolArray:
        # By `signs`, with its slack, so that a pair with a non-zero sign counts as outside the dual ball.
        return np.asarray(self.signs(rows, factor).any(axis=1))

    def signs(self, rows: FloatArray, factor: FloatArray = UNIFORM) -> IntArray:
        gamma, rho = self._of_rows(factor)
        total = np.clip(rows, -gamma, gamma).sum(axis=1, keepdims=True)
        shared = np.where(np.abs(total) > rho * _SLACK, np.sign(total), 0.0)
        alone = np.where(np.abs(rows) > gamma * _SLACK, np.sign(rows), 0.0)
        # Beside a shared value only a class with an effect below -gamma has the other sign.
        return -np.where((shared == 0.0) | (shared * rows < -gamma), alone, shared).astype(np.int64)

    def closure(self, rows: FloatArray, joined: BoolArray, factor: FloatArray = UNIFORM) -> BoolArray:
        """Classes above gamma; all of them where the subgradients of joined classes can add up to rho with the rest."""
        gamma, rho = self._of_rows(factor)
        out = joined | (np.abs(rows) > gamma * _SLACK)
        rest = np.where(out, 0.0, rows).sum(axis=1, keepdims=True)
        largest_sum = gamma * out.sum(axis=1, keepdims=True) + np.abs(rest)
        return np.asarray(out | (largest_sum > rho * _SLACK))

    def certified_zeros(self, region: SafeRegion, entries: Entries) -> BoolArray:
        return self.certified_zeros_and_equal(region, entries)[0]

    def certified_zeros_and_equal(self, region: SafeRegion, entries: Entries) -> tuple[BoolArray, BoolArray]:
        """An entry is c where ``|u_k| < gamma``, and c is zero where ``|sum_k u_k| < rho``."""
        u, u_radius = region.u, region.u_radius
        size, first = np.diff(entries.start), entries.start[:-1]
        pair = np.repeat(np.arange(len(size)), size)
        v = entries.factor if len(entries.factor) else np.ones(len(size))
        is_shared = np.abs(u) + u_radius < (v * self.gamma)[pair] * _SLACK
        total = np.abs(np.add.reduceat(u, first)) + np.add.reduceat(u_radius, first) if len(u) else np.zeros(0)
        rho = v * (self.rho + (self.n_classes - size) * self.gamma)
        zero = is_shared & (total * (1.0 + 1e-12) < rho * _SLACK)[pair]
        # A class without an entry is zero: it equals another one that is.
        at_shared, at_zero = np.zeros((2, len(size), self.n_classes), dtype=bool)
        at_shared[pair, entries.cls], at_zero[pair, entries.cls] = is_shared, zero
        present = np.zeros_like(at_zero)
        present[pair, entries.cls] = True
        at_zero |= ~present
        one, two = self.fused_class_pairs.T
        return zero, (at_shared[:, one] & at_shared[:, two]) | (at_zero[:, one] & at_zero[:, two])

    def _of_rows(self, factor: FloatArray) -> tuple[Any, Any]:
        """Gamma and rho, (m, 1) arrays with pair weights."""
        v = factor[:, None] if len(factor) else 1.0
        return v * self.gamma, v * self.rho


def shared_values(rows: FloatArray, penalty: CommonPenalty) -> FloatArray:
    """Shared value c (m,) of pairs with the entries `rows` (m, K).

    It minimises ``rho |c| + gamma sum_k |t_k - c|`` and is the smallest such value in size: one of the entries or zero.
    """
    candidates = np.concatenate([np.zeros((len(rows), 1)), rows], axis=1)
    costs = penalty.rho * np.abs(candidates) + penalty.gamma * np.abs(candidates[:, :, None] - rows[:, None]).sum(
        axis=2
    )
    smallest = costs <= costs.min(axis=1, keepdims=True) * (1.0 + 1e-12)
    which = np.where(smallest, np.abs(candidates), np.inf).argmin(axis=1)
    return np.asarray(candidates[np.arange(len(rows)), which])
