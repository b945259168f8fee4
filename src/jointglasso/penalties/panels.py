"""Classes that do not have all variables: a pair exists in the classes that hold both of them, and nowhere else.

A class that has *cut* a pair has a zero there and pulls at its neighbours towards it. A class that *lacks* one of the
variables has nothing there: its ties are dropped, and the penalty of the pair is that of the other classes alone. To
the group penalty this makes no difference, since a zero pulls at nobody; penalties that compare classes are taken
apart by the classes that a pair exists in, each part with the class graph among these.

Entries tell which classes there are by their labels, ``number of the set of classes * K + class``, -1 for a class that
lacks the pair; rows (m, K) by a number that is none (NaN) in a class that lacks it.
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

#: Pairs of some rows or entries to which one penalty applies: it, the pairs, the chosen places and them as entries.
_Part = tuple[TiedPenalty, IntArray, IntArray, Entries]


@dataclass(frozen=True, eq=False)
class Panels:
    """Which classes lack which variables, (K, p)."""

    absent: BoolArray

    @cached_property
    def _kinds(self) -> tuple[BoolArray, IntArray]:
        """The sets (n, K) of classes that have a variable, and the number of the set of each variable."""
        sets, of = np.unique(~self.absent.T, axis=0, return_inverse=True)
        return sets, of.ravel()

    @cached_property
    def _intersections(self) -> tuple[BoolArray, IntArray]:
        """The sets (m, K) of classes that have both variables of some pair, and their number by two kinds (n, n)."""
        kinds = self._kinds[0]
        both = (kinds[:, None, :] & kinds[None, :, :]).reshape(-1, kinds.shape[1])
        sets, of = np.unique(both, axis=0, return_inverse=True)
        return sets, of.reshape(len(kinds), len(kinds))

    @property
    def sets(self) -> BoolArray:
        """(m, K): classes that have both variables of a pair, for all pairs."""
        return self._intersections[0]

    def set_of(self, i: IntArray, j: IntArray) -> IntArray:
        """Number of the set of classes in which each pair exists."""
        kind = self._kinds[1]
        return self._intersections[1][kind[i], kind[j]]

    def number(self, present: BoolArray) -> IntArray:
        """Number of given sets (m, K)."""
        known = {row.tobytes(): at for at, row in enumerate(self.sets)}
        rows, which = np.unique(present, axis=0, return_inverse=True)
        return np.array([known[row.tobytes()] for row in rows], dtype=np.int64)[which.ravel()]


@dataclass(frozen=True, eq=False)
class PanelPenalty(PairPenalty):
    """A penalty that compares classes, on pairs that some classes lack."""

    offers: ClassVar[frozenset[str]] = frozenset({"prox"})
    lacking: ClassVar[bool] = True

    whole: TiedPenalty
    """The penalty of a pair that all classes have."""
    panels: Panels
    _restricted: dict[int, TiedPenalty] = field(default_factory=dict, repr=False)

    @property
    def name(self) -> str:  # type: ignore[override]
        return self.whole.name

    @property
    def lambda1(self) -> float:  # type: ignore[override]
        return self.whole.lambda1

    @property
    def lambda2(self) -> float:  # type: ignore[override]
        return self.whole.lambda2

    @property
    def pair(self) -> Any:
        return self.whole.pair

    @property
    def scale(self) -> float:
        return self.whole.scale

    @property
    def ties(self) -> BoolArray:
        return self.whole.ties

    @property
    def tied_classes(self) -> IntArray:
        return self.whole.tied_classes

    @property
    def of_diagonal(self) -> PanelPenalty | None:
        whole = self.whole.of_diagonal
        return None if whole is None else PanelPenalty(whole, self.panels)

    def threshold(self, k: int) -> float:
        return self.whole.threshold(k)

    def reach(self, n_classes: int) -> float:
        return self.whole.reach(n_classes)

    def times(self, factor: float) -> PanelPenalty:
        return PanelPenalty(self.whole.times(factor), self.panels)

    def parameters(self) -> dict[str, Any]:
        return self.whole.parameters()

    # Which classes a pair exists in

    def labels(self, cls: IntArray, i: IntArray, j: IntArray) -> IntArray:
        return self.panels.set_of(i, j) * self.whole.n_classes + cls

    def marked(self, rows: FloatArray, i: IntArray, j: IntArray) -> FloatArray:
        return np.where(self.panels.sets[self.panels.set_of(i, j)], rows, np.nan)

    def among(self, number: int) -> TiedPenalty:
        """The penalty of the pairs that one set of classes has."""
        if number not in self._restricted:
            self._restricted[number] = self.whole.among(np.flatnonzero(self.panels.sets[number]))
        return self._restricted[number]

    def as_entries(self, rows: FloatArray, factor: FloatArray = UNIFORM) -> tuple[FloatArray, Entries]:
        values, entries = super().as_entries(rows, factor)
        present = ~np.isnan(rows)
        number = np.repeat(self.panels.number(present), rows.shape[1])
        cls = np.where(present.ravel(), number * rows.shape[1] + entries.cls, -1)
        return np.where(present.ravel(), values, 0.0), entries._replace(cls=cls)

    def _parts(self, entries: Entries) -> Iterator[_Part]:
        """The pairs by the classes that have them, those classes numbered anew."""
        K, size = self.whole.n_classes, np.diff(entries.start)
        pair = np.repeat(np.arange(len(size)), size)
        number = np.full(len(size), -1, dtype=np.int64)
        there = entries.cls >= 0
        number[pair[there]] = entries.cls[there] // K
        for which in np.unique(number[number >= 0]):
            mine = number == which
            pairs, chosen = np.flatnonzero(mine), np.flatnonzero(there & mine[pair])
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
        return self._of_pairs(lambda penalty, at, part: penalty.value(theta[at], part), entries, out)

    def inside(self, u: FloatArray, entries: Entries) -> BoolArray:
        out = np.ones(len(entries.start) - 1, dtype=bool)
        return self._of_pairs(lambda penalty, at, part: penalty.inside(u[at], part), entries, out)

    def gauge(self, u: FloatArray, entries: Entries) -> FloatArray:
        out = np.zeros(len(entries.start) - 1)
        return self._of_pairs(lambda penalty, at, part: penalty.gauge(u[at], part), entries, out)

    def prox(self, values: FloatArray, step: FloatArray, entries: Entries) -> FloatArray:
        out = np.zeros_like(values)
        for penalty, pairs, chosen, part in self._parts(entries):
            out[chosen] = penalty.prox(values[chosen], step[pairs], part)
        return out

    def update(self, curvature: FloatArray, linear: FloatArray, entries: Entries) -> FloatArray:
        return self._of_entries(
            lambda penalty, at, part: penalty.update(curvature[at], linear[at], part), entries, np.zeros_like(linear)
        )

    def nearest_subgradient(self, theta: FloatArray, wanted: FloatArray, entries: Entries) -> FloatArray:
        return self._of_entries(
            lambda penalty, at, part: penalty.nearest_subgradient(theta[at], wanted[at], part),
            entries,
            np.zeros_like(wanted),
        )

    def certain_zeros(
        self, theta: FloatArray, u: FloatArray, u_reach: FloatArray, theta_reach: FloatArray, entries: Entries
    ) -> BoolArray:
        return self.proves(theta, u, u_reach, theta_reach, entries)[0]

    def proves(
        self, theta: FloatArray, u: FloatArray, u_reach: FloatArray, theta_reach: FloatArray, entries: Entries
    ) -> tuple[BoolArray, BoolArray]:
        tied = self.tied_classes
        zero, equal = np.zeros(len(theta), dtype=bool), np.zeros((len(entries.start) - 1, len(tied)), dtype=bool)
        for penalty, pairs, at, part in self._parts(entries):
            zero[at], found = penalty.proves(theta[at], u[at], u_reach[at], theta_reach[at], part)
            number = entries.cls[at[0]] // self.whole.n_classes
            there = self.panels.sets[number][tied].all(axis=1) if len(tied) else np.empty(0, dtype=bool)
            equal[np.ix_(pairs, np.flatnonzero(there))] = found
        return zero, equal

    # Rows

    def _rows(
        self, what: Callable[[TiedPenalty, IntArray, IntArray, FloatArray], Any], rows: FloatArray, factor: FloatArray,
        out: _Array,
    ) -> _Array:  # fmt: skip
        """Apply a function of penalty, rows, their classes and weights to the rows of each set of classes."""
        number = self.panels.number(~np.isnan(rows)) if len(rows) else np.empty(0, dtype=np.int64)
        for which in np.unique(number):
            mine, classes = np.flatnonzero(number == which), np.flatnonzero(self.panels.sets[which])
            if len(classes):
                weight = factor[mine] if len(factor) else UNIFORM
                at = np.ix_(mine, classes) if out.ndim == 2 else mine
                out[at] = what(self.among(int(which)), mine, classes, weight)
        return out

    def strong(self, rows: FloatArray, factor: FloatArray = UNIFORM) -> BoolArray:
        out = np.zeros(len(rows), dtype=bool)
        return self._rows(lambda p, m, c, v: p.strong(rows[np.ix_(m, c)], v), rows, factor, out)

    def pattern(self, rows: FloatArray, factor: FloatArray = UNIFORM) -> IntArray:
        out = np.zeros(rows.shape, dtype=np.int64)
        return self._rows(lambda p, m, c, v: p.pattern(rows[np.ix_(m, c)], v), rows, factor, out)

    def closure(self, rows: FloatArray, joined: BoolArray, factor: FloatArray = UNIFORM) -> BoolArray:
        def part(penalty: TiedPenalty, mine: IntArray, classes: IntArray, weight: FloatArray) -> BoolArray:
            at = np.ix_(mine, classes)
            return penalty.closure(rows[at], joined[at], weight)

        return self._rows(part, rows, factor, np.zeros(rows.shape, dtype=bool))

    def wants(self, theta: FloatArray, u: FloatArray, factor: FloatArray = UNIFORM) -> BoolArray:
        def part(penalty: TiedPenalty, mine: IntArray, classes: IntArray, weight: FloatArray) -> BoolArray:
            at = np.ix_(mine, classes)
            return penalty.wants(theta[at], u[at], weight)

        return self._rows(part, u, factor, np.zeros(u.shape, dtype=bool))

    def cuts_hold(
        self,
        theta: FloatArray,
        u: FloatArray,
        u_reach: FloatArray,
        theta_reach: FloatArray,
        held: BoolArray,
        factor: FloatArray = UNIFORM,
    ) -> BoolArray:
        def part(penalty: TiedPenalty, mine: IntArray, classes: IntArray, weight: FloatArray) -> BoolArray:
            at = np.ix_(mine, classes)
            return penalty.cuts_hold(theta[at], u[at], u_reach[at], theta_reach[at], held[at], weight)

        return self._rows(part, u, factor, np.ones(len(u), dtype=bool))
