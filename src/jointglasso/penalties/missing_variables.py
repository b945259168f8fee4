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
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from jointglasso._cached_property import cached_property
from jointglasso._typing import BoolArray, FloatArray, IntArray
from jointglasso.kernels.pair_types import Entries
from jointglasso.penalties.base import UNIFORM, PairPenalty, SafeRegion
from jointglasso.penalties.class_graph import ClassGraphPenalty

_Array = TypeVar("_Array", bound=NDArray[Any])

#: One set of classes: its penalty, the indices of its pairs, the indices of their entries, and these as `Entries`.
_Part = tuple[ClassGraphPenalty, IntArray, IntArray, Entries]


@dataclass(frozen=True, eq=False)
class MissingVariables:
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
class PartialClassPenalty(PairPenalty):
    """A penalty over a class graph, restricted for each pair to the classes that have both variables."""

    supports: ClassVar[frozenset[str]] = frozenset({"prox", "newton"})
    has_missing_variables: ClassVar[bool] = True

    full: ClassGraphPenalty
    """The penalty of a pair that is present in all classes."""
    missing_variables: MissingVariables
    _restricted: dict[int, ClassGraphPenalty] = field(default_factory=dict, repr=False)

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
    def class_graph(self) -> BoolArray:
        return self.full.class_graph

    @property
    def fused_class_pairs(self) -> IntArray:
        return self.full.fused_class_pairs

    @property
    def fused_diagonal_penalty(self) -> PartialClassPenalty | None:
        full = self.full.fused_diagonal_penalty
        return None if full is None else PartialClassPenalty(full, self.missing_variables)

    def threshold(self, k: int) -> float:
        return self.full.threshold(k)

    def box_radius(self, n_classes: int) -> float:
        return self.full.box_radius(n_classes)

    def scaled(self, factor: float) -> PartialClassPenalty:
        return PartialClassPenalty(self.full.scaled(factor), self.missing_variables)

    def parameters(self) -> dict[str, Any]:
        return self.full.parameters()

    # Classes that have a pair

    def labels(self, cls: IntArray, i: IntArray, j: IntArray) -> IntArray:
        return self.missing_variables.set_of(i, j) * self.full.n_classes + cls

    def mask_missing(self, rows: FloatArray, i: IntArray, j: IntArray) -> FloatArray:
        return np.where(self.missing_variables.sets[self.missing_variables.set_of(i, j)], rows, np.nan)

    def restricted_to(self, number: int) -> ClassGraphPenalty:
        """The penalty of the pairs that are present in the classes of set `number`."""
        if number not in self._restricted:
            self._restricted[number] = self.full.restricted_to(np.flatnonzero(self.missing_variables.sets[number]))
        return self._restricted[number]

    def as_entries(self, rows: FloatArray, factor: FloatArray = UNIFORM) -> tuple[FloatArray, Entries]:
        values, entries = super().as_entries(rows, factor)
        present = ~np.isnan(rows)
        number = np.repeat(self.missing_variables.number(present), rows.shape[1])
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
            place = np.cumsum(self.missing_variables.sets[which]) - 1
            start = np.concatenate([[0], np.cumsum(np.bincount(pair[chosen], minlength=len(size))[pairs])])
            factor = entries.factor[pairs] if len(entries.factor) else UNIFORM
            penalty = self.restricted_to(int(which))
            l1 = entries.l1[chosen] if len(entries.l1) else UNIFORM
            part = Entries(start, place[entries.cls[chosen] - which * K], factor, penalty.n_classes, l1)
            yield penalty, pairs, chosen, part

    # Entries

    def _map(
        self, what: Callable[..., Any], entries: Entries, out: _Array, *arrays: FloatArray, by_pair: bool = False
    ) -> _Array:
        """Write ``what(penalty, *arrays, entries)`` of each set of classes into `out`, (E,) or `by_pair` (P,)."""
        for penalty, pairs, chosen, part in self._parts(entries):
            out[pairs if by_pair else chosen] = what(penalty, *(array[chosen] for array in arrays), part)
        return out

    def value(self, theta: FloatArray, entries: Entries) -> FloatArray:
        out = np.zeros(len(entries.start) - 1)
        return self._map(lambda penalty, *x: penalty.value(*x), entries, out, theta, by_pair=True)

    def is_dual_feasible(self, u: FloatArray, entries: Entries) -> BoolArray:
        out = np.ones(len(entries.start) - 1, dtype=bool)
        return self._map(lambda penalty, *x: penalty.is_dual_feasible(*x), entries, out, u, by_pair=True)

    def gauge(self, u: FloatArray, entries: Entries) -> FloatArray:
        out = np.zeros(len(entries.start) - 1)
        return self._map(lambda penalty, *x: penalty.gauge(*x), entries, out, u, by_pair=True)

    def update(self, curvature: FloatArray, linear: FloatArray, entries: Entries) -> FloatArray:
        out = np.zeros_like(linear)
        return self._map(lambda penalty, *x: penalty.update(*x), entries, out, curvature, linear)

    def nearest_subgradient(self, theta: FloatArray, wanted: FloatArray, entries: Entries) -> FloatArray:
        out = np.zeros_like(wanted)
        return self._map(lambda penalty, *x: penalty.nearest_subgradient(*x), entries, out, theta, wanted)

    def face(self, theta: FloatArray, entries: Entries) -> tuple[IntArray, FloatArray]:
        variable, gradient, count = np.full(len(theta), -1, dtype=np.int64), np.zeros_like(theta), 0
        for penalty, _, chosen, part in self._parts(entries):
            cluster, gradient[chosen] = penalty.face(theta[chosen], part)
            variable[chosen] = np.where(cluster >= 0, cluster + count, -1)
            count += int(cluster.max(initial=-1)) + 1
        return variable, gradient

    def hvp(self, theta: FloatArray, step: FloatArray, entries: Entries) -> FloatArray:
        return self._map(lambda penalty, *x: penalty.hvp(*x), entries, np.zeros_like(step), theta, step)

    def hessian_diagonal(self, theta: FloatArray, entries: Entries) -> FloatArray:
        return self._map(lambda penalty, *x: penalty.hessian_diagonal(*x), entries, np.zeros_like(theta), theta)

    def retract(self, theta: FloatArray, trial: FloatArray, entries: Entries) -> FloatArray:
        return self._map(lambda penalty, *x: penalty.retract(*x), entries, trial.copy(), theta, trial)

    def certified_zeros(self, region: SafeRegion, entries: Entries) -> BoolArray:
        return self.certified_zeros_and_equal(region, entries)[0]

    def certified_zeros_and_equal(self, region: SafeRegion, entries: Entries) -> tuple[BoolArray, BoolArray]:
        class_pairs, zero = self.fused_class_pairs, np.zeros(len(region.u), dtype=bool)
        equal = np.zeros((len(entries.start) - 1, len(class_pairs)), dtype=bool)
        for penalty, pairs, index, part in self._parts(entries):
            inside = SafeRegion(*(values[index] for values in region))
            zero[index], certified = penalty.certified_zeros_and_equal(inside, part)
            number = entries.cls[index[0]] // self.full.n_classes
            present = (
                self.missing_variables.sets[number][class_pairs].all(axis=1)
                if len(class_pairs)
                else np.empty(0, dtype=bool)
            )
            equal[np.ix_(pairs, np.flatnonzero(present))] = certified
        return zero, equal

    # Rows

    def _map_rows(self, what: Callable[..., Any], factor: FloatArray, out: _Array, *arrays: Any) -> _Array:
        """Write ``what(penalty, *rows, weights)`` of each set of classes into `out`, (m, K) or (m,).

        The first of `arrays` (m, K) has NaN in classes without the pair.
        """
        number = self.missing_variables.number(~np.isnan(arrays[0])) if len(out) else np.empty(0, dtype=np.int64)
        for which in np.unique(number):
            pairs, classes = np.flatnonzero(number == which), np.flatnonzero(self.missing_variables.sets[which])
            if len(classes):
                weight, index = factor[pairs] if len(factor) else UNIFORM, np.ix_(pairs, classes)
                if weight.ndim == 2:
                    weight = weight[:, np.append(0, classes + 1)]
                value = what(self.restricted_to(int(which)), *(rows[index] for rows in arrays), weight)
                out[index if out.ndim == 2 else pairs] = value
        return out

    def violates_global_condition(self, rows: FloatArray, factor: FloatArray = UNIFORM) -> BoolArray:
        out = np.zeros(len(rows), dtype=bool)
        return self._map_rows(lambda penalty, *x: penalty.violates_global_condition(*x), factor, out, rows)

    def signs(self, rows: FloatArray, factor: FloatArray = UNIFORM) -> IntArray:
        out = np.zeros(rows.shape, dtype=np.int64)
        return self._map_rows(lambda penalty, *x: penalty.signs(*x), factor, out, rows)

    def closure(self, rows: FloatArray, joined: BoolArray, factor: FloatArray = UNIFORM) -> BoolArray:
        out = np.zeros(rows.shape, dtype=bool)
        return self._map_rows(lambda penalty, *x: penalty.closure(*x), factor, out, rows, joined)

    def kkt_violated(self, theta: FloatArray, u: FloatArray, factor: FloatArray = UNIFORM) -> BoolArray:
        out = np.zeros(u.shape, dtype=bool)
        return self._map_rows(lambda penalty, v, t, w: penalty.kkt_violated(t, v, w), factor, out, u, theta)

    def screening_certified(self, region: SafeRegion, in_block: BoolArray, factor: FloatArray = UNIFORM) -> BoolArray:
        def certified(penalty: ClassGraphPenalty, u: FloatArray, theta: FloatArray, *bounds: Any) -> BoolArray:
            *radii, mask, weight = bounds
            return penalty.screening_certified(SafeRegion(theta, u, *radii), mask, weight)

        theta, u, *radii = region
        return self._map_rows(certified, factor, np.ones(len(u), dtype=bool), u, theta, *radii, in_block)
