"""Which edges are the same in which classes: what a fused penalty finds out, and what is proved of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from jointglasso._typing import BoolArray, FloatArray, IntArray


@dataclass(frozen=True)
class Sameness:
    """Comparison of neighbouring classes, pair of variables by pair of variables.

    Attributes
    ----------
    rows, columns : int arrays (m,)
        The pairs i < j of variables that are an edge in some class, sorted.
    neighbours : int array (T, 2)
        The classes k < l that the penalty compares.
    same : bool array (m, T)
        Whether the entry of the pair is the same number in both classes, zero included.
    proved : bool array (m, T)
        Whether what `same` says is proved of the exact solution.
    n_classes : int
    compared : bool array (m, T), optional
        Whether both classes have the pair; None where all classes have all variables. What is not compared is neither
        the same nor different.
    """

    rows: IntArray
    columns: IntArray
    neighbours: IntArray
    same: BoolArray
    proved: BoolArray
    n_classes: int
    compared: BoolArray | None = None

    @classmethod
    def of(cls, precision: Sequence[Any], neighbours: IntArray, absent: BoolArray | None = None) -> Sameness:
        """Compare K precision matrices, but for the variables (K, p) that a class lacks; nothing is proved yet."""
        p = precision[0].shape[0]
        uppers = [_upper(sparse.csc_array(Theta), p) for Theta in precision]
        pairs = np.unique(np.concatenate([key for key, _ in uppers])) if uppers else np.empty(0, dtype=np.int64)
        values = np.zeros((len(pairs), len(uppers)))
        for k, (key, value) in enumerate(uppers):
            values[np.searchsorted(pairs, key), k] = value
        same = values[:, neighbours[:, 0]] == values[:, neighbours[:, 1]]
        rows, columns = np.divmod(pairs, p)
        found = cls(rows, columns, neighbours, same, np.zeros_like(same), len(uppers))
        return found if absent is None else found.without(absent)

    def without(self, absent: BoolArray) -> Sameness:
        """Leave out what two classes cannot be compared in because one of them lacks (K, p) a variable."""
        there = ~(absent[:, self.rows] | absent[:, self.columns]).T
        compared = there[:, self.neighbours[:, 0]] & there[:, self.neighbours[:, 1]]
        return replace(self, same=self.same & compared, proved=self.proved & compared, compared=compared)

    @property
    def different(self) -> BoolArray:
        """(m, T): whether the pair has different values in both classes."""
        return ~self.same if self.compared is None else self.compared & ~self.same

    def _take(self, at: IntArray, rows: IntArray, columns: IntArray) -> Sameness:
        """Some of the pairs, under other numbers."""
        compared = None if self.compared is None else self.compared[at]
        return replace(self, rows=rows, columns=columns, same=self.same[at], proved=self.proved[at], compared=compared)

    def with_proofs(self, rows: IntArray, columns: IntArray, proved: BoolArray) -> Sameness:
        """What is proved, given pair by pair; pairs that are no edge are left out."""
        place, known = self.find(rows, columns)
        out = self.proved.copy()
        out[place[known]] |= proved[known] if self.compared is None else proved[known] & self.compared[place[known]]
        return replace(self, proved=out)

    def find(self, rows: IntArray, columns: IntArray) -> tuple[IntArray, BoolArray]:
        """Where some pairs are in the list, and whether they are."""
        size = 1 + max((int(part.max(initial=0)) for part in (self.columns, columns)), default=0)
        mine, given = self.rows * size + self.columns, rows * size + columns
        place = np.minimum(np.searchsorted(mine, given), max(len(mine) - 1, 0))
        return place, mine[place] == given if len(mine) else np.zeros(len(given), dtype=bool)

    def among(self, variables: IntArray) -> Sameness:
        """The pairs of some variables, which are numbered anew in the order given."""
        number = np.full(1 + int(max(self.columns.max(initial=0), variables.max(initial=0))), -1, dtype=np.int64)
        number[variables] = np.arange(len(variables))
        one, two = number[self.rows], number[self.columns]
        rows, columns = np.minimum(one, two), np.maximum(one, two)
        kept = np.flatnonzero(rows >= 0)
        kept = kept[np.lexsort((columns[kept], rows[kept]))]
        return self._take(kept, rows[kept], columns[kept])

    def at(self, rows: IntArray, columns: IntArray) -> Sameness:
        """The comparisons of some pairs i < j, in their order; of a pair not in the list nothing is the same."""
        place, known = self.find(rows, columns)
        if not len(self.rows):
            nothing = np.zeros((len(rows), len(self.neighbours)), dtype=bool)
            return replace(self, rows=rows, columns=columns, same=nothing, proved=nothing, compared=nothing)
        found = self._take(place, rows, columns)
        if known.all():
            return found
        compared = np.repeat(known[:, None], len(self.neighbours), axis=1)
        compared = compared if found.compared is None else compared & found.compared
        return replace(found, same=found.same & compared, proved=found.proved & compared, compared=compared)

    @cached_property
    def clusters(self) -> IntArray:
        """(m, K): number of the first class with which each class shares its value, through neighbours."""
        label = np.tile(np.arange(self.n_classes), (len(self.rows), 1))
        changed = True
        while changed:
            before = label.copy()
            for tie, (one, two) in enumerate(self.neighbours):
                alike = self.same[:, tie]
                lowest = np.minimum(label[alike, one], label[alike, two])
                label[alike, one] = lowest
                label[alike, two] = lowest
            changed = bool((label != before).any())
        return label

    @cached_property
    def proved_clusters(self) -> BoolArray:
        """(m, K): whether the classes that share the value of each class are proved to do so, all of them."""
        label = self.clusters
        # A cluster is proved if proved ties alone hold it together: then all its members keep its number.
        proved = np.ones(label.shape, dtype=bool)
        for k in range(self.n_classes):
            broken = (label == k) & (self._proved_parts != k)
            proved &= ~((label == k) & broken.any(axis=1, keepdims=True))
        return proved

    @cached_property
    def _proved_parts(self) -> IntArray:
        """(m, K): `clusters` by the equalities that are proved alone."""
        return replace(self, same=self.same & self.proved, proved=self.proved).clusters

    @cached_property
    def changes(self) -> BoolArray:
        """(m,): whether the value of each pair differs between some neighbours; else it stays the same."""
        return np.asarray(self.different.any(axis=1))

    @cached_property
    def changes_proved(self) -> BoolArray:
        """(m,): whether what `changes` says is proved: one difference, or the equality of all."""
        differs, stays = (self.different & self.proved).any(axis=1), self.proved_clusters.all(axis=1)
        return (self.changes & differs) | (~self.changes & stays)

    def differ_for_certain(self, one: int, two: int) -> BoolArray:
        """(m,): pairs proved to differ between two classes, through one difference and equalities that are proved."""
        part, found = self._proved_parts, np.zeros(len(self.rows), dtype=bool)
        for tie, (k, other) in enumerate(self.neighbours):
            apart = self.different[:, tie] & self.proved[:, tie]
            for a, b in ((k, other), (other, k)):
                found |= apart & (part[:, a] == part[:, one]) & (part[:, b] == part[:, two])
        return found

    def present(self, precision: Sequence[Any]) -> BoolArray:
        """(m, K): which of the pairs are an edge in each class."""
        if len(self.rows) == 0:
            return np.zeros((0, self.n_classes), dtype=bool)
        return np.stack(
            [np.asarray(sparse.csr_array(Theta)[self.rows, self.columns]).ravel() != 0 for Theta in precision], axis=1
        )

    def samples_of_clusters(self, precision: Sequence[Any], sizes: Any) -> FloatArray:
        """Number of samples behind each value that is not zero: those of all the classes that share it."""
        present = self.present(precision)
        pooled = np.zeros((len(self.rows), self.n_classes))
        for k in range(self.n_classes):
            np.add.at(pooled, (np.arange(len(self.rows)), self.clusters[:, k]), present[:, k] * float(sizes[k]))
        return pooled[pooled > 0]

    def count(self) -> dict[str, int]:
        """How many comparisons of edges are the same and different, and how many of them are proved."""
        return {
            "same": int(self.same.sum()),
            "same_proved": int((self.same & self.proved).sum()),
            "different": int(self.different.sum()),
            "different_proved": int((self.different & self.proved).sum()),
        }

    def __repr__(self) -> str:
        n = self.count()
        return (
            f"Sameness({len(self.rows)} edges, {len(self.neighbours)} pairs of classes; same: {n['same']} "
            f"({n['same_proved']} proved), different: {n['different']} ({n['different_proved']} proved))"
        )


def _upper(Theta: Any, p: int) -> tuple[IntArray, FloatArray]:
    """Entries above the diagonal: row times p plus column, and values."""
    row, column = Theta.indices.astype(np.int64), np.repeat(np.arange(p), np.diff(Theta.indptr))
    above = row < column
    return row[above] * p + column[above], Theta.data[above]
