"""The fused penalty: ``phi(t) = lambda1 |t|_1 + lambda2 sum_{k<l} b_kl |t_k - t_l|`` over a graph b of the classes.

Neighbours in the graph are drawn to the same value, exactly: an edge is then the same in a *cluster* of classes.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from jointglasso._typing import BoolArray, FloatArray, IntArray
from jointglasso.kernels.pair_types import FusedPair
from jointglasso.penalties.base import UNIFORM
from jointglasso.penalties.class_graph import forest_of, masses_of


@dataclass(frozen=True, eq=False)
class FusedPenalty:
    """Fused penalty on the entries of a pair over the classes.

    Its subdifferential at zero, the dual ball, is ``{u : |u(Q)| <= l1(Q) + cut(Q) for all sets Q of classes}``.
    """

    lambda1: float
    lambda2: float
    graph: FloatArray
    """(K, K) symmetric weights b >= 0 of the differences between classes; zero where classes are not neighbours."""

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

    @cached_property
    def tied_classes(self) -> IntArray:
        """(ties, 2): the neighbours k < l that `proves` compares."""
        return np.argwhere(np.triu(self.ties)).astype(np.int64)

    @cached_property
    def pair(self) -> FusedPair:
        """The penalty of one pair, for compiled code."""
        from jointglasso.kernels.best_sets import COMPLETE, FOREST, GENERAL

        coefficients = np.ascontiguousarray(self.lambda2 * self.graph, dtype=np.float64)
        masses = masses_of(coefficients)
        forest = forest_of(coefficients)
        none = np.zeros(self.n_classes, dtype=np.int64)
        parent, order = (none, none) if forest is None else forest
        # A forest is cheaper than a sort where it is both, as with two classes or none tied.
        shape = FOREST if forest is not None else GENERAL if masses is None else COMPLETE
        return FusedPair(
            self.l1, coefficients, shape, np.ones(self.n_classes) if masses is None else masses, parent, order
        )

    def times(self, factor: float) -> FusedPenalty:
        """The penalty with all coefficients multiplied."""
        return FusedPenalty(factor * self.lambda1, factor * self.lambda2, self.graph)

    def pattern(self, rows: FloatArray, factor: FloatArray = UNIFORM) -> IntArray:
        """(m, K) signs of theta, were each pair of variables alone; `rows` are weighted covariances."""
        from jointglasso.kernels import fused_rows

        return fused_rows.pattern(self.pair, np.ascontiguousarray(rows), factor, *self._room())

    def closure(self, rows: FloatArray, joined: BoolArray, factor: FloatArray = UNIFORM) -> BoolArray:
        """(m, K) smallest set around `joined` outside of which each pair may be cut, whatever the data inside."""
        from jointglasso.kernels import fused_rows

        return fused_rows.closure(
            self.pair, np.ascontiguousarray(rows), np.ascontiguousarray(joined), factor, *self._room()
        )

    def forced(self, rows: FloatArray, factor: FloatArray = UNIFORM) -> BoolArray:
        """(m, K) classes that every solution joins: above the l1 weight and all ties together."""
        limit = self.l1 + self.lambda2 * self.graph.sum(axis=1)
        scaled = limit if len(factor) == 0 else factor[:, None] * limit
        above: BoolArray = np.abs(rows) > scaled * (1.0 + 1e-12)
        return above

    def proves(
        self,
        theta: FloatArray,
        u: FloatArray,
        u_reach: FloatArray,
        theta_reach: FloatArray,
        factor: FloatArray = UNIFORM,
    ) -> tuple[BoolArray, BoolArray]:
        """Zeros (m, K) and equalities (m, ties) of every point within reach of rows (m, K) of theta and its dual u."""
        from jointglasso.kernels import fused_rows

        rows, reach = np.ascontiguousarray(u), np.ascontiguousarray(u_reach)
        return fused_rows.proves(self.pair, rows, reach, self.tied_classes, factor, *self._room())

    def _room(self) -> tuple[FloatArray, IntArray]:
        from jointglasso.kernels import fused_pair

        size = fused_pair.room(self.n_classes)
        return np.empty(size), np.empty(size, dtype=np.int64)
