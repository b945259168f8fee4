"""The Laplacian penalty: ``phi(t) = lambda1 |t|_1 + lambda2 sum_{k<l} b_kl (t_k - t_l)^2``, b a graph of the classes.

Neighbours in the graph are drawn towards one another, but stay different: networks that drift.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import sparse

from jointglasso._typing import BoolArray, FloatArray, IntArray
from jointglasso.kernels.pair_types import LaplacianPair
from jointglasso.penalties.base import UNIFORM


@dataclass(frozen=True, eq=False)
class LaplacianPenalty:
    """Laplacian penalty on the entries of a pair over the classes.

    Its subdifferential at zero is ``{u : |u_k| <= lambda1}``. Where one class holds a pair its pull on a neighbour has
    no bound, so that only what is known of the solution lets a class be cut alone.
    """

    lambda1: float
    lambda2: float
    graph: FloatArray
    """(K, K) symmetric weights b >= 0 of the squared differences; zero where classes are not neighbours."""

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return len(self.graph)

    @cached_property
    def l1(self) -> FloatArray:
        """Weight of each class's absolute value."""
        return np.full(self.n_classes, float(self.lambda1))

    @cached_property
    def ties(self) -> BoolArray:
        """Which classes are drawn to one another."""
        tied: BoolArray = self.lambda2 * self.graph > 0
        return tied

    @property
    def tied_classes(self) -> IntArray:
        """No neighbours: equal values are never the rule."""
        return np.empty((0, 2), dtype=np.int64)

    @cached_property
    def pair(self) -> LaplacianPair:
        """The penalty of one pair, for compiled code."""
        return LaplacianPair(self.l1, np.ascontiguousarray(self.lambda2 * self.graph, dtype=np.float64))

    def times(self, factor: float) -> LaplacianPenalty:
        """The penalty with all coefficients multiplied."""
        return LaplacianPenalty(factor * self.lambda1, factor * self.lambda2, self.graph)

    def closure(self, rows: FloatArray, joined: BoolArray, factor: FloatArray = UNIFORM) -> BoolArray:
        """(m, K) classes to join whatever the data of those joined already: all that are connected to one."""
        out: BoolArray = joined | (np.abs(rows) >= _per_row(self.l1, factor) * (1.0 - 1e-12))
        _, part = sparse.csgraph.connected_components(sparse.csr_array(self.ties), directed=False)
        for number in range(part.max() + 1):
            members = part == number
            out[:, members] = out[:, members].any(axis=1, keepdims=True)
        return out

    def forced(self, rows: FloatArray, factor: FloatArray = UNIFORM) -> BoolArray:
        """(m, K) classes that every solution joins: those without neighbours that exceed their l1 weight."""
        above: BoolArray = np.abs(rows) > _per_row(self.l1, factor) * (1.0 + 1e-12)
        return above & ~self.ties.any(axis=1)

    def proves(
        self,
        theta: FloatArray,
        u: FloatArray,
        u_reach: FloatArray,
        theta_reach: FloatArray,
        factor: FloatArray = UNIFORM,
    ) -> tuple[BoolArray, BoolArray]:
        """Zeros (m, K) of every point within reach of rows (m, K) of theta and its dual u; equalities (m, 0): none."""
        pull = 2.0 * self.lambda2 * self.graph
        scale = np.ones((len(u), 1)) if len(factor) == 0 else factor[:, None]
        largest = np.abs(u + scale * (theta @ pull)) + u_reach + scale * (theta_reach @ pull)
        zero: BoolArray = largest < scale * self.l1 * (1.0 - 1e-12)
        return zero, np.empty((len(u), 0), dtype=bool)


def _per_row(l1: FloatArray, factor: FloatArray) -> FloatArray:
    return l1 if len(factor) == 0 else factor[:, None] * l1
