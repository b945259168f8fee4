"""The fused penalty: ``phi(t) = lambda1 |t|_1 + lambda2 sum_{k<l} b_kl |t_k - t_l|`` over a class graph b.

Values of neighbouring classes become exactly equal: an edge then has one value in a *cluster* of classes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from jointglasso._cached_property import cached_property
from jointglasso._typing import BoolArray, FloatArray, IntArray
from jointglasso.kernels.pair_types import COMPLETE, FOREST, GENERAL, Entries, FusedPair
from jointglasso.penalties.base import UNIFORM, SafeRegion, coupling_weights, l1_weights, times
from jointglasso.penalties.class_graph import ClassGraphPenalty, forest_of, masses_of

#: Where rounding could decide, the gains of sets are increased by this fraction of the row: classes are joined rather
#: than screened out, and no zero or equality is certified.
_MARGIN = 1e-12


class _Pairs(NamedTuple):
    """Pairs as `fused_rows.extreme_sets` takes them."""

    present: BoolArray
    """(m, K): classes that have the pair."""
    factor: FloatArray
    """(m,): weights of the coupling terms; empty where all are 1."""
    limits: FloatArray
    """(m, K), or (1, K) where those of all pairs are equal: weights of |t|."""


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
        pairs = self._pairs(np.ones(rows.shape, dtype=bool), factor)
        margin = _MARGIN * np.abs(rows).sum(axis=1, keepdims=True)
        positive, negative = self._extreme_sets(-rows, margin + np.zeros_like(rows), pairs)
        return positive.astype(np.int64) - (negative & ~positive)

    def closure(self, rows: FloatArray, joined: BoolArray, factor: FloatArray = UNIFORM) -> BoolArray:
        """Smallest superset (m, K) of the `joined` classes outside of which the entry is zero for any data inside.

        The other classes may be screened out if each set Q of them has ``|wS(Q)| <= l1(Q) + cut(Q, others) - cut(Q,
        joined)``: the sufficient condition with the largest possible derivative from the joined classes.
        """
        out, changed = joined.copy(), np.arange(len(rows))
        margin = _MARGIN * np.abs(rows).sum(axis=1, keepdims=True)
        while len(changed):
            before = out[changed]
            pairs = self._pairs(~before, factor[changed] if len(factor) else factor)
            # Twice the edges to joined classes: once they add to l1, as edges to all classes that are not present.
            pull = margin[changed] + 2.0 * _as_column(pairs.factor) * (before @ self.pair.class_graph)
            positive, negative = self._extreme_sets(rows[changed], pull, pairs)
            out[changed] |= positive | negative
            changed = changed[(positive | negative).any(axis=1)]
        return out

    def certified_zeros(self, region: SafeRegion, entries: Entries) -> BoolArray:
        return self._prove(region, entries, self.fused_class_pairs[:0])[0]

    def certified_zeros_and_equal(self, region: SafeRegion, entries: Entries) -> tuple[BoolArray, BoolArray]:
        return self._prove(region, entries, self.fused_class_pairs)

    def _pairs(self, present: BoolArray, factor: FloatArray) -> _Pairs:
        limits = times(self.l1, l1_weights(factor))
        return _Pairs(present, np.ascontiguousarray(coupling_weights(factor)), np.ascontiguousarray(limits))

    def _extreme_sets(self, u: FloatArray, radius: FloatArray, pairs: _Pairs) -> BoolArray:
        """(2, m, K): where the minimiser of ``sum x^2 / 2 - b x + phi(x)`` can be positive, negative with b near u."""
        from jointglasso.kernels.fused_rows import extreme_sets

        ball = np.ascontiguousarray(u), np.ascontiguousarray(radius)
        sets: BoolArray = extreme_sets(self.pair, *ball, *pairs, self._work(self.n_classes))
        return sets

    def _prove(self, region: SafeRegion, entries: Entries, class_pairs: IntArray) -> tuple[BoolArray, BoolArray]:
        """Certified zeros (E,), and equalities (P, C) of the classes `class_pairs` (C, 2)."""
        start, u, radius = entries.start, region.u, region.u_radius
        weight = entries.l1
        if not len(weight):
            weight = np.repeat(entries.factor, np.diff(start)) if len(entries.factor) else np.ones(1)
        l1 = times(self.l1[entries.cls], weight)
        zero, equal = np.ones(len(u), dtype=bool), np.ones((len(start) - 1, len(class_pairs)), dtype=bool)
        # All entries of the other pairs are below the threshold of their class.
        above = np.flatnonzero(~(np.abs(u) + radius < (1.0 - 1e-9) * l1))
        near = np.unique(np.searchsorted(start, above, side="right") - 1)
        if not len(near):
            return zero, equal
        counts = start[near + 1] - start[near]
        row = np.repeat(np.arange(len(near)), counts)
        index = np.arange(len(row)) + np.repeat(start[near] - np.cumsum(counts) + counts, counts)
        place, present = (row, entries.cls[index]), np.zeros((len(near), self.n_classes), dtype=bool)
        rows = np.zeros((4, *present.shape))
        for target, values in zip(rows, (region.theta, u, radius, l1), strict=True):
            target[place] = values[index]
        present[place] = True
        pairs = _Pairs(present, entries.factor[near] if len(entries.factor) else UNIFORM, rows[3])
        zero_rows, equal[near] = self._prove_rows(rows[0], rows[1], rows[2], pairs, class_pairs)
        zero[index] = zero_rows[place]
        return zero, equal

    def _prove_rows(
        self, theta: FloatArray, u: FloatArray, radius: FloatArray, pairs: _Pairs, class_pairs: IntArray
    ) -> tuple[BoolArray, BoolArray]:
        """Certified zeros (m, K) and equalities (m, C) of pairs with a dual point `u` (m, K) within `radius` (m, K).

        The classes with a positive value at the optimum maximise ``u(Q) - l1(Q) - cut(Q)`` at the optimal u. The
        largest maximiser grows with u: at the upper ends of all intervals it contains every class whose value may be
        positive. A level set with class k and without class l is a maximiser where class l is removed. Equalities are
        tested where the values are equal at `theta`.
        """
        forbidden = np.isinf(pairs.limits)
        limits = np.where(forbidden, 0.0, pairs.limits)
        edges = _as_column(pairs.factor) * self.pair.class_graph.sum(axis=1)
        known = ~(np.isnan(u + radius) | forbidden)
        u = np.where(known, u, 0.0)
        # A gain above all edges of a class decides as an infinite one does.
        radius = np.minimum(np.where(known, radius, np.inf), 2.0 * (np.abs(u) + limits + edges))
        scale = np.abs(u) + radius + limits + 0.01 * edges
        radius += _MARGIN * scale.sum(axis=1, keepdims=True) + np.finfo(np.float64).tiny
        one, other = class_pairs.T
        is_equal = theta[:, one] == theta[:, other]
        if self.pair.shape == FOREST:
            gains = np.where(pairs.present & ~forbidden, np.stack([radius + u, radius - u]) - limits, -np.inf)
            zero, separated = self._prove_on_forest(gains, pairs.factor)
            child = np.where(self.pair.parent[one] == other, one, other)
            return zero, is_equal & ~separated[:, child]
        positive, negative = self._extreme_sets(u, radius, pairs)
        zero = ~(positive | negative)
        for k in np.unique(class_pairs):
            of_k = np.flatnonzero((one == k) | (other == k))
            rest = np.flatnonzero(is_equal[:, of_k].any(axis=1) & ~zero.all(axis=1))
            present = pairs.present[rest]
            present[:, k] = False
            without = _Pairs(present, pairs.factor[rest] if len(pairs.factor) else UNIFORM, pairs.limits[rest])
            positive, negative = self._extreme_sets(u[rest], radius[rest], without)
            neighbours = np.where(one[of_k] == k, other[of_k], one[of_k])
            is_equal[rest[:, None], of_k] &= ~(positive | negative)[:, neighbours]
        return zero, is_equal

    def _prove_on_forest(self, gains: FloatArray, factor: FloatArray) -> tuple[BoolArray, BoolArray]:
        """(m, K): classes in no maximising set with the `gains` (2, m, K), and classes that one separates from parents.

        Of each tree and of the two parts on the sides of each edge, the largest value of a set with a class less that
        without it: the gain of the class, plus the same of every neighbour beyond, limited by the weight of its edge.
        """
        parent, order = self.pair.parent, self.pair.order
        children = [int(k) for k in order if parent[k] >= 0]
        edge = np.where(parent >= 0, self.pair.class_graph[np.arange(len(parent)), parent], 0.0)[:, None, None]
        edge = edge * (factor if len(factor) else np.ones(1))  # (K, 1, m)
        below = np.moveaxis(gains, 2, 0).copy()
        above, message = np.full(below.shape, -np.inf), np.zeros(below.shape)
        for k in reversed(children):
            message[k] = np.minimum(np.maximum(below[k], -edge[k]), edge[k])
            below[parent[k]] += message[k]
        total = below.copy()
        for k in children:
            above[k] = total[parent[k]] - message[k]
            total[k] += np.minimum(np.maximum(above[k], -edge[k]), edge[k])
        zero, separated = (total <= 0.0).all(axis=1), ((below > edge) | (above > edge)).any(axis=1)
        return np.asarray(zero.T), np.asarray(separated.T)


def _as_column(factor: FloatArray) -> FloatArray | float:
    """Weights (m, 1) of pairs."""
    return factor[:, None] if len(factor) else 1.0
