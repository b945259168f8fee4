"""Edge clusters: classes in which an edge has equal values under a fused penalty, and certified equalities."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

from jointglasso._cached_property import cached_property
from jointglasso._typing import BoolArray, FloatArray, IntArray


@dataclass(frozen=True)
class EdgeClusters:
    """Comparison of the values of each pair of variables between neighbouring classes.

    Attributes
    ----------
    rows, columns : int arrays (m,)
        Pairs i < j of variables that are an edge in some class, sorted.
    neighbours : int array (T, 2)
        Edges k < l of the class graph.
    equal : bool array (m, T)
        Whether the entry of the pair is equal in both classes, zero included.
    proved : bool array (m, T)
        Whether the value of `equal` is certified for the exact solution.
    n_classes : int
        Number of classes K.
    compared : bool array (m, T), optional
        Whether both classes have the pair; None if all classes have all variables. Other pairs count neither as equal
        nor as different.
    """

    rows: IntArray
    columns: IntArray
    neighbours: IntArray
    equal: BoolArray
    proved: BoolArray
    n_classes: int
    compared: BoolArray | None = None

    @classmethod
    def of(cls, precision: Sequence[Any], neighbours: IntArray, absent: BoolArray | None = None) -> EdgeClusters:
        """Compare K precision matrices, without the missing variables `absent` (K, p); nothing is certified yet."""
        p, n_classes = precision[0].shape[0], len(precision)
        matrices = [Theta if isinstance(Theta, sparse.csc_array) else sparse.csc_array(Theta) for Theta in precision]
        row = np.concatenate([Theta.indices for Theta in matrices]).astype(np.int64)
        counts = np.concatenate([np.diff(Theta.indptr) for Theta in matrices])
        k, column = np.divmod(np.repeat(np.arange(n_classes * p), counts), p)
        above = row < column
        pairs, pair = np.unique(row[above] * p + column[above], return_inverse=True)
        values = np.zeros((len(pairs), n_classes))
        values[pair, k[above]] = np.concatenate([Theta.data for Theta in matrices])[above]
        equal = values[:, neighbours[:, 0]] == values[:, neighbours[:, 1]]
        rows, columns = np.divmod(pairs, p)
        clusters = cls(rows, columns, neighbours, equal, np.zeros_like(equal), n_classes)
        return clusters if absent is None else clusters.without(absent)

    def without(self, absent: BoolArray) -> EdgeClusters:
        """Exclude comparisons in which a class does not have the pair; `absent` (K, p) are the missing variables."""
        present = ~(absent[:, self.rows] | absent[:, self.columns]).T
        compared = present[:, self.neighbours[:, 0]] & present[:, self.neighbours[:, 1]]
        return replace(self, equal=self.equal & compared, proved=self.proved & compared, compared=compared)

    @property
    def different(self) -> BoolArray:
        """(m, T): whether the values of the pair differ between the two classes."""
        return ~self.equal if self.compared is None else self.compared & ~self.equal

    def _take(self, which: IntArray, rows: IntArray, columns: IntArray) -> EdgeClusters:
        """The pairs selected by an index array, with new variable indices."""
        compared = None if self.compared is None else self.compared[which]
        return replace(
            self, rows=rows, columns=columns, equal=self.equal[which], proved=self.proved[which], compared=compared
        )

    def with_proofs(self, rows: IntArray, columns: IntArray, proved: BoolArray) -> EdgeClusters:
        """Add certified comparisons (m, T) of pairs; pairs that are not in the list are ignored."""
        index, known = self.find(rows, columns)
        out = self.proved.copy()
        claims = proved[known] if self.compared is None else proved[known] & self.compared[index[known]]
        np.logical_or.at(out, index[known], claims)  # a pair may be in groups of several sets of classes
        return replace(self, proved=out)

    def find(self, rows: IntArray, columns: IntArray) -> tuple[IntArray, BoolArray]:
        """Position of pairs in the list, and a mask of those that are in it."""
        size = 1 + max((int(part.max(initial=0)) for part in (self.columns, columns)), default=0)
        keys, wanted = self.rows * size + self.columns, rows * size + columns
        position = np.minimum(np.searchsorted(keys, wanted), max(len(keys) - 1, 0))
        return position, keys[position] == wanted if len(keys) else np.zeros(len(wanted), dtype=bool)

    def restricted_to(self, variables: IntArray) -> EdgeClusters:
        """The pairs of `variables`, with indices into `variables`."""
        new_index = np.full(1 + int(max(self.columns.max(initial=0), variables.max(initial=0))), -1, dtype=np.int64)
        new_index[variables] = np.arange(len(variables))
        first, second = new_index[self.rows], new_index[self.columns]
        rows, columns = np.minimum(first, second), np.maximum(first, second)
        inside = np.flatnonzero(rows >= 0)
        inside = inside[np.lexsort((columns[inside], rows[inside]))]
        return self._take(inside, rows[inside], columns[inside])

    def lookup(self, rows: IntArray, columns: IntArray) -> EdgeClusters:
        """The comparisons of given pairs i < j, in their order; pairs that are not in the list are not compared."""
        position, known = self.find(rows, columns)
        if not len(self.rows):
            none = np.zeros((len(rows), len(self.neighbours)), dtype=bool)
            return replace(self, rows=rows, columns=columns, equal=none, proved=none, compared=none)
        taken = self._take(position, rows, columns)
        if known.all():
            return taken
        compared = np.repeat(known[:, None], len(self.neighbours), axis=1)
        compared = compared if taken.compared is None else compared & taken.compared
        return replace(taken, equal=taken.equal & compared, proved=taken.proved & compared, compared=compared)

    @cached_property
    def clusters(self) -> IntArray:
        """(m, K): cluster label of each class, the smallest class connected to it by equalities of neighbours."""
        label = np.tile(np.arange(self.n_classes), (len(self.rows), 1))
        changed = True
        while changed:
            before = label.copy()
            for t, (one, two) in enumerate(self.neighbours):
                alike = self.equal[:, t]
                lowest = np.minimum(label[alike, one], label[alike, two])
                label[alike, one] = lowest
                label[alike, two] = lowest
            changed = bool((label != before).any())
        return label

    @cached_property
    def proved_clusters(self) -> BoolArray:
        """(m, K): whether all equalities within the cluster of each class are certified."""
        label = self.clusters
        # A cluster is certified if certified equalities connect it: then all its members keep its label.
        proved = np.ones(label.shape, dtype=bool)
        for k in range(self.n_classes):
            broken = (label == k) & (self._proved_parts != k)
            proved &= ~((label == k) & broken.any(axis=1, keepdims=True))
        return proved

    @cached_property
    def _proved_parts(self) -> IntArray:
        """(m, K): `clusters` by the certified equalities."""
        return replace(self, equal=self.equal & self.proved, proved=self.proved).clusters

    @cached_property
    def changes(self) -> BoolArray:
        """(m,): whether the values of each pair differ between some neighbours."""
        return np.asarray(self.different.any(axis=1))

    @cached_property
    def changes_proved(self) -> BoolArray:
        """(m,): whether the value of `changes` is certified: one difference, or equality in all classes."""
        differs, stays = (self.different & self.proved).any(axis=1), self.proved_clusters.all(axis=1)
        return (self.changes & differs) | (~self.changes & stays)

    def differ_for_certain(self, one: int, two: int) -> BoolArray:
        """(m,): pairs certified to differ between two classes, by one difference and chains of equalities."""
        part, out = self._proved_parts, np.zeros(len(self.rows), dtype=bool)
        for t, (k, other) in enumerate(self.neighbours):
            differs = self.different[:, t] & self.proved[:, t]
            for a, b in ((k, other), (other, k)):
                out |= differs & (part[:, a] == part[:, one]) & (part[:, b] == part[:, two])
        return out

    def present(self, precision: Sequence[Any]) -> BoolArray:
        """(m, K): whether each pair is an edge in each class."""
        if len(self.rows) == 0:
            return np.zeros((0, self.n_classes), dtype=bool)
        return np.stack(
            [np.asarray(sparse.csr_array(Theta)[self.rows, self.columns]).ravel() != 0 for Theta in precision], axis=1
        )

    def sum_over_clusters(
        self, precision: Sequence[Any], pairs: Sequence[IntArray], values: Sequence[FloatArray]
    ) -> FloatArray:
        """(E,): sums of `values` over the classes of each cluster, one entry per distinct non-zero parameter.

        ``pairs[k]`` are the keys ``i p + j`` of the edges of class k, ``values[k]`` one value for each of them.
        """
        p = precision[0].shape[0]
        key = self.rows * p + self.columns
        pooled, n_members = np.zeros((2, len(self.rows), self.n_classes))
        for k, (edges, value) in enumerate(zip(pairs, values, strict=True)):
            index = np.searchsorted(key, edges)
            cell = (index, self.clusters[index, k])
            np.add.at(pooled, cell, value)
            np.add.at(n_members, cell, 1.0)
        return pooled[n_members > 0]

    def count(self) -> dict[str, int]:
        """Numbers of equal and different comparisons, in total and certified."""
        return {
            "same": int(self.equal.sum()),
            "same_proved": int((self.equal & self.proved).sum()),
            "different": int(self.different.sum()),
            "different_proved": int((self.different & self.proved).sum()),
        }

    def __repr__(self) -> str:
        n = self.count()
        return (
            f"EdgeClusters({len(self.rows)} edges, {len(self.neighbours)} pairs of classes; same: {n['same']} "
            f"({n['same_proved']} proved), different: {n['different']} ({n['different_proved']} proved))"
        )
