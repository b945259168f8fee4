"""Variables missing from some classes: the penalty of a pair covers only the classes that have both variables.

A pair that is *screened out* in a class has theta = 0 there, which enters the coupling term. A pair with a variable
*missing* from a class has no entry there: the edges of this class are removed from the class graph of the pair. For the
group penalty the two are equivalent, since a zero adds nothing to either norm. For penalties over a class graph, pairs
are grouped by the set of classes that have them, and each set has its own penalty, on the induced subgraph.

The set of classes of a pair is encoded in `Entries.cls` as ``index of the set * K + class``, -1 for a class without the
pair; rows (m, K) have NaN in classes without the pair.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from jointglasso._typing import BoolArray, FloatArray, IntArray
from jointglasso.kernels.pair_types import Entries
from jointglasso.penalties.base import UNIFORM, PairPenalty
from jointglasso.penalties.tied import TiedPenalty

_Array = TypeVar("_Array", bound=NDArray[Any])

#: One set of classes: its penalty, the indices of its pairs, the indices of their entries, and these as `Entries`.
_Part = tuple[TiedPenalty, IntArray, IntArray, Entries]


@dataclass(frozen=True, eq=False)
class Panels:
    """Mask (K, p) of variables missing from a class, and the distinct sets of classes that have a pair."""

    absent: BoolArray

    @cached_property
    def _kinds(self) -> tuple[BoolArray, IntArray]:
        """Distinct sets (n, K) of classes that have a variable, and (p,) the index of the set of each variable."""
        sets, of = np.unique(~self.absent.T, axis=0, return_inverse=True)
        return sets, of.ravel()

    @cached_property
    def _intersections(self) -> tuple[BoolArray, IntArray]:
        """Distinct intersections (m, K) of two of these sets, and (n, n) the index of each intersection."""
        kinds = self._kinds[0]
        both = (kinds[:, None, :] & kinds[None, :, :]).reshape(-1, kinds.shape[1])
        sets, of = np.unique(both, axis=0, return_inverse=True)
        return sets, of.reshape(len(kinds), len(kinds))

    @property
    def sets(self) -> BoolArray:
        """(m, K): distinct sets of classes that have both variables of a pair."""
        return self._intersections[0]

    def set_of(self, i: IntArray, j: IntArray) -> IntArray:
        """Index in `sets` of the classes that have both variables of each pair (i, j)."""
        kind = self._kinds[1]
        return self._intersections[1][kind[i], kind[j]]

    def number(self, present: BoolArray) -> IntArray:
        """Indices in `sets` of the sets given as masks (m, K)."""
        known = {row.tobytes(): index for index, row in enumerate(self.sets)}
        rows, which = np.unique(present, axis=0, return_inverse=True)
        return np.array([known[row.tobytes()] for row in rows], dtype=np.int64)[which.ravel()]


@dataclass(frozen=True, eq=False)
class PanelPenalty(PairPenalty):
    """A penalty over a class graph, restricted for each pair to the classes that have both variables."""

    offers: ClassVar[frozenset[str]] = frozenset({"prox"})
    lacking: ClassVar[bool] = True

    full: TiedPenalty
    """The penalty of a pair that is present in all classes."""
    panels: Panels
    _restricted: dict[int, TiedPenalty] = field(default_factory=dict, repr=False)

    @property
    def name(self) -> str:  # type: ignore[override]
        return self.full.name

    @property
    def lambda1(self) -> float:  # type: ignore[override]
        return self.full.lambda1

    @property
    def lambda2(self) -> float:  # type: ignore[override]
        return self.full.lambda2

    @property
    def pair(self) -> Any:
        return self.full.pair

    @property
    def scale(self) -> float:
        return self.full.scale

    @property
    def ties(self) -> BoolArray:
        return self.full.ties

    @property
    def tied_classes(self) -> IntArray:
        return self.full.tied_classes

    @property
    def of_diagonal(self) -> PanelPenalty | None:
        full = self.full.of_diagonal
        return None if full is None else PanelPenalty(full, self.panels)

    def threshold(self, k: int) -> float:
        return self.full.threshold(k)

    def reach(self, n_classes: int) -> float:
        return self.full.reach(n_classes)

    def times(self, factor: float) -> PanelPenalty:
        return PanelPenalty(self.full.times(factor), self.panels)

    def parameters(self) -> dict[str, Any]:
        return self.full.parameters()

    # Classes that have a pair

    def labels(self, cls: IntArray, i: IntArray, j: IntArray) -> IntArray:
        return self.panels.set_of(i, j) * self.full.n_classes + cls

    def marked(self, rows: FloatArray, i: IntArray, j: IntArray) -> FloatArray:
        return np.where(self.panels.sets[self.panels.set_of(i, j)], rows, np.nan)

    def among(self, number: int) -> TiedPenalty:
        """The penalty of the pairs that are present in the classes of set `number`."""
        if number not in self._restricted:
            self._restricted[number] = self.full.among(np.flatnonzero(self.panels.sets[number]))
        return self._restricted[number]

    def as_entries(self, rows: FloatArray, factor: FloatArray = UNIFORM) -> tuple[FloatArray, Entries]:
        values, entries = super().as_entries(rows, factor)
        present = ~np.isnan(rows)
        number = np.repeat(self.panels.number(present), rows.shape[1])
        cls = np.where(present.ravel(), number * rows.shape[1] + entries.cls, -1)
        return np.where(present.ravel(), values, 0.0), entries._replace(cls=cls)

    def _parts(self, entries: Entries) -> Iterator[_Part]:
        """Split the pairs by their set of classes; the classes of each set are renumbered 0, 1, ..."""
        K, size = self.full.n_classes, np.diff(entries.start)
        pair = np.repeat(np.arange(len(size)), size)
        number = np.full(len(size), -1, dtype=np.int64)
        present = entries.cls >= 0
        number[pair[present]] = entries.cls[present] // K
        for which in np.unique(number[number >= 0]):
            selected = number == which
            pairs, chosen = np.flatnonzero(selected), np.flatnonzero(present & selected[pair])
            place = np.cumsum(self.panels.sets[which]) - 1
            start = np.concatenate([[0], np.cumsum(np.bincount(pair[chosen], minlength=len(size))[pairs])])
            factor = entries.factor[pairs] if len(entries.factor) else UNIFORM
            penalty = self.among(int(which))
            part = Entries(start, place[entries.cls[chosen] - which * K], factor, penalty.n_classes)
            yield penalty, pairs, chosen, part

    # Entries

    def _of_pairs(self, what: Callable[[TiedPenalty, IntArray, Entries], Any], entries: Entries, out: _Array) -> _Array:
        for penalty, pairs, chosen, part in self._parts(entries):
            out[pairs] = what(penalty, chosen, part)
        return out

    def _of_entries(
        self, what: Callable[[TiedPenalty, IntArray, Entries], Any], entries: Entries, out: _Array
    ) -> _Array:
        for penalty, _, chosen, part in self._parts(entries):
            out[chosen] = what(penalty, chosen, part)
        return out

    def value(self, theta: FloatArray, entries: Entries) -> FloatArray:
        out = np.zeros(len(entries.start) - 1)
        return self._of_pairs(lambda penalty, chosen, part: penalty.value(theta[chosen], part), entries, out)

    def inside(self, u: FloatArray, entries: Entries) -> BoolArray:
        out = np.ones(len(entries.start) - 1, dtype=bool)
        return self._of_pairs(lambda penalty, chosen, part: penalty.inside(u[chosen], part), entries, out)

    def gauge(self, u: FloatArray, entries: Entries) -> FloatArray:
        out = np.zeros(len(entries.start) - 1)
        return self._of_pairs(lambda penalty, chosen, part: penalty.gauge(u[chosen], part), entries, out)

    def prox(self, values: FloatArray, step: FloatArray, entries: Entries) -> FloatArray:
        out = np.zeros_like(values)
        for penalty, pairs, chosen, part in self._parts(entries):
            out[chosen] = penalty.prox(values[chosen], step[pairs], part)
        return out

    def update(self, curvature: FloatArray, linear: FloatArray, entries: Entries) -> FloatArray:
        return self._of_entries(
            lambda penalty, chosen, part: penalty.update(curvature[chosen], linear[chosen], part),
            entries,
            np.zeros_like(linear),
        )

    def nearest_subgradient(self, theta: FloatArray, wanted: FloatArray, entries: Entries) -> FloatArray:
        return self._of_entries(
            lambda penalty, chosen, part: penalty.nearest_subgradient(theta[chosen], wanted[chosen], part),
            entries,
            np.zeros_like(wanted),
        )

    def certain_zeros(
        self, theta: FloatArray, u: FloatArray, u_radius: FloatArray, theta_radius: FloatArray, entries: Entries
    ) -> BoolArray:
        return self.proves(theta, u, u_radius, theta_radius, entries)[0]

    def proves(
        self, theta: FloatArray, u: FloatArray, u_radius: FloatArray, theta_radius: FloatArray, entries: Entries
    ) -> tuple[BoolArray, BoolArray]:
        class_pairs = self.tied_classes
        zero, equal = np.zeros(len(theta), dtype=bool), np.zeros((len(entries.start) - 1, len(class_pairs)), dtype=bool)
        for penalty, pairs, index, part in self._parts(entries):
            zero[index], certified = penalty.proves(theta[index], u[index], u_radius[index], theta_radius[index], part)
            number = entries.cls[index[0]] // self.full.n_classes
            present = self.panels.sets[number][class_pairs].all(axis=1) if len(class_pairs) else np.empty(0, dtype=bool)
            equal[np.ix_(pairs, np.flatnonzero(present))] = certified
        return zero, equal

    # Rows

    def _rows(
        self, what: Callable[[TiedPenalty, IntArray, IntArray, FloatArray], Any], rows: FloatArray, factor: FloatArray,
        out: _Array,
    ) -> _Array:  # fmt: skip
        """Apply a function of penalty, rows, their classes and weights to the rows of each set of classes."""
        number = self.panels.number(~np.isnan(rows)) if len(rows) else np.empty(0, dtype=np.int64)
        for which in np.unique(number):
            pairs, classes = np.flatnonzero(number == which), np.flatnonzero(self.panels.sets[which])
            if len(classes):
                weight = factor[pairs] if len(factor) else UNIFORM
                index = np.ix_(pairs, classes) if out.ndim == 2 else pairs
                out[index] = what(self.among(int(which)), pairs, classes, weight)
        return out

    def strong(self, rows: FloatArray, factor: FloatArray = UNIFORM) -> BoolArray:
        out = np.zeros(len(rows), dtype=bool)
        return self._rows(lambda p, m, c, v: p.strong(rows[np.ix_(m, c)], v), rows, factor, out)

    def pattern(self, rows: FloatArray, factor: FloatArray = UNIFORM) -> IntArray:
        out = np.zeros(rows.shape, dtype=np.int64)
        return self._rows(lambda p, m, c, v: p.pattern(rows[np.ix_(m, c)], v), rows, factor, out)

    def closure(self, rows: FloatArray, joined: BoolArray, factor: FloatArray = UNIFORM) -> BoolArray:
        def part(penalty: TiedPenalty, pairs: IntArray, classes: IntArray, weight: FloatArray) -> BoolArray:
            index = np.ix_(pairs, classes)
            return penalty.closure(rows[index], joined[index], weight)

        return self._rows(part, rows, factor, np.zeros(rows.shape, dtype=bool))

    def wants(self, theta: FloatArray, u: FloatArray, factor: FloatArray = UNIFORM) -> BoolArray:
        def part(penalty: TiedPenalty, pairs: IntArray, classes: IntArray, weight: FloatArray) -> BoolArray:
            index = np.ix_(pairs, classes)
            return penalty.wants(theta[index], u[index], weight)

        return self._rows(part, u, factor, np.zeros(u.shape, dtype=bool))

    def cuts_hold(
        self,
        theta: FloatArray,
        u: FloatArray,
        u_radius: FloatArray,
        theta_radius: FloatArray,
        in_block: BoolArray,
        factor: FloatArray = UNIFORM,
    ) -> BoolArray:
        def part(penalty: TiedPenalty, pairs: IntArray, classes: IntArray, weight: FloatArray) -> BoolArray:
            index = np.ix_(pairs, classes)
            return penalty.cuts_hold(
                theta[index], u[index], u_radius[index], theta_radius[index], in_block[index], weight
            )

        return self._rows(part, u, factor, np.ones(len(u), dtype=bool))
