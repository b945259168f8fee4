"""The fused penalty: ``phi(t) = lambda1 |t|_1 + lambda2 sum_{k<l} b_kl |t_k - t_l|`` over a class graph b.

Values of neighbouring classes become exactly equal: an edge then has one value in a *cluster* of classes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from jointglasso._cached_property import cached_property
from jointglasso._typing import BoolArray, FloatArray, IntArray
from jointglasso.kernels.pair_types import COMPLETE, FOREST, GENERAL, Entries, FusedPair
from jointglasso.penalties.base import UNIFORM, SafeRegion, coupling_weights, l1_weights, on_cores, times
from jointglasso.penalties.class_graph import ClassGraphPenalty, forest_of, masses_of


@dataclass(frozen=True, eq=False)
class FusedPenalty(ClassGraphPenalty):
    """Fused penalty on the entries of a pair over the classes.

    Its subdifferential at zero, the dual ball, is ``{u : |u(Q)| <= l1(Q) + cut(Q) for all sets Q of classes}``.
    """

    name: ClassVar[str] = "fused"

    @cached_property
    def pair(self) -> FusedPair:
        """The penalty of one pair, for compiled code."""
        coefficients = np.ascontiguousarray(self.lambda2 * self.graph, dtype=np.float64)
        masses = masses_of(coefficients)
        forest = forest_of(coefficients)
        none = np.zeros(self.n_classes, dtype=np.int64)
        parent, order = (none, none) if forest is None else forest
        # Where both apply, the algorithm for forests is cheaper than the sort of complete graphs.
        shape = FOREST if forest is not None else GENERAL if masses is None else COMPLETE
        return FusedPair(
            self.l1, coefficients, shape, np.ones(self.n_classes) if masses is None else masses, parent, order
        )

    @cached_property
    def fused_class_pairs(self) -> IntArray:
        """(T, 2): edges k < l of the class graph."""
        return np.argwhere(np.triu(self.class_graph)).astype(np.int64, order="C")

    def violates_global_condition(self, rows: FloatArray, factor: FloatArray = UNIFORM) -> BoolArray:
        # By `signs`, with its slack, so that a pair with a non-zero sign counts as outside the dual ball.
        return np.asarray(self.signs(rows, factor).any(axis=1))

    def signs(self, rows: FloatArray, factor: FloatArray = UNIFORM) -> IntArray:
        from jointglasso.kernels import fused_rows

        return fused_rows.signs(
            self.pair, np.ascontiguousarray(rows), *self._limits(factor), self._work(self.n_classes)
        )

    def closure(self, rows: FloatArray, joined: BoolArray, factor: FloatArray = UNIFORM) -> BoolArray:
        from jointglasso.kernels import fused_rows

        weighted, start = np.ascontiguousarray(rows), np.ascontiguousarray(joined)
        return fused_rows.closure(self.pair, weighted, start, *self._limits(factor), self._work(self.n_classes))

    def certified_zeros(self, region: SafeRegion, entries: Entries) -> BoolArray:
        return self._prove(region, entries, self.fused_class_pairs[:0])[0]

    def certified_zeros_and_equal(self, region: SafeRegion, entries: Entries) -> tuple[BoolArray, BoolArray]:
        return self._prove(region, entries, self.fused_class_pairs)

    def _limits(self, factor: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Weights of the coupling terms and of |t| by class, as `fused_rows.signs` takes them."""
        by_class = times(self.l1, l1_weights(factor))
        return np.ascontiguousarray(coupling_weights(factor)), np.ascontiguousarray(by_class)

    def _prove(self, region: SafeRegion, entries: Entries, class_pairs: IntArray) -> tuple[BoolArray, BoolArray]:
        from jointglasso.kernels import fused_rows

        def one(span: slice, part: Entries) -> tuple[BoolArray, BoolArray]:
            bounds = (values[span] for values in (region.theta, region.u, region.u_radius))
            return fused_rows.certified_zeros_and_equal(
                self.pair, *bounds, part, class_pairs, self._work(self.n_classes)
            )

        zero, equal = zip(*on_cores(one, entries), strict=True)
        return np.concatenate(zero), np.concatenate(equal)
