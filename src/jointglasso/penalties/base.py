"""What solvers, screening and the certificate ask of a penalty.

A penalty acts on one pair of variables (i, j) at a time, on the vector of its entries over the classes. Two forms of
argument occur:

* *entries*: a flat vector, the entries of the classes that hold a pair side by side, with an `Entries` that says where
  each pair begins and which class an entry belongs to (solvers, certificate). A class that does not hold a pair has a
  zero there, and may still pull at the others;
* *rows*: an array (m, K) with a number of every class for each of m pairs (screening, recheck).

The paper counts every pair twice (2 sum_{i<j}); so does the objective, not the penalty.

Each pair may have a weight of its own: `factor` holds a finite number v >= 0 for every pair, whose penalty is then
``v phi``, or is empty (`UNIFORM`) where all weights are 1. Pairs of infinite weight are no unknowns and get no penalty:
whoever lists pairs leaves them out.

A penalty is added by a class derived from `PairPenalty`, a module of compiled functions of one pair
(`kernels/group_pair.py` shows which) and a line in `kernels/pair.py`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple, TypeVar

import numpy as np

from jointglasso import tuning
from jointglasso._threads import map_on_cores
from jointglasso._typing import BoolArray, FloatArray, IntArray
from jointglasso.kernels.pair_types import Entries, Work

Result = TypeVar("Result")

#: Parts into which many pairs are cut, for as many threads as there are.
_PARTS = 16

#: No weights: every pair has the penalty as it is.
UNIFORM: FloatArray = np.empty(0)

#: Classes of the entries, for penalties that treat all classes alike.
ANY_CLASS: IntArray = np.empty(0, dtype=np.int64)


def on_cores(function: Callable[[slice, Entries], Result], entries: Entries) -> list[Result]:
    """Apply a function that releases the interpreter lock to parts of the pairs, on all cores: places, and entries."""
    start, cls, factor, n_classes = entries
    if start[-1] < tuning.WORTH_SHARING:
        return [function(slice(0, int(start[-1])), entries)]
    bounds = np.linspace(0, len(start) - 1, _PARTS + 1).astype(np.int64)

    def one(number: int) -> Result:
        first, last = bounds[number], bounds[number + 1]
        at = slice(int(start[first]), int(start[last]))
        labels, weights = cls[at] if len(cls) else cls, factor[first:last] if len(factor) else factor
        return function(at, Entries(start[first : last + 1] - at.start, labels, weights, n_classes))

    return map_on_cores(one, range(_PARTS))


class Coupling(NamedTuple):
    """Between which classes a penalty acts."""

    ties: BoolArray
    """(K, K): classes that are compared with one another."""
    parts: BoolArray
    """(K, K): those, and others that a path of them connects."""
    diagonal: bool = False
    """Whether their diagonals are compared, too."""


class PairPenalty(ABC):
    """A penalty ``phi`` on the vector of one pair, convex, with its minimum phi(0) = 0."""

    name: ClassVar[str]
    """As `solve` knows it."""
    offers: ClassVar[frozenset[str]]
    """What methods can do with it: "prox", "columns", "forest", "newton"; solvers say what they require."""
    by_class: ClassVar[bool] = True
    """Whether it matters which of the classes hold a pair."""

    lambda1: float
    """Weight of the L1 part; also the penalty of the diagonal, where it is penalised."""
    lambda2: float
    """Weight of the part that ties the classes together."""

    # What it is

    @property
    @abstractmethod
    def pair(self) -> Any:
        """The penalty of one pair, for compiled code: one of the named tuples of `kernels.pair_types`."""

    @property
    @abstractmethod
    def scale(self) -> float:
        """Size of the subgradients; zero only if nothing is penalised."""

    @property
    @abstractmethod
    def ties(self) -> BoolArray | None:
        """(K, K): classes that are compared with one another; None: all of them."""

    @property
    def coupling(self) -> Coupling | None:
        """Between which classes it acts; None: between all of them, pair by pair."""
        if self.ties is None:
            return None
        from jointglasso.kernels.components import components

        part = components(len(self.ties), *(ends.copy() for ends in np.nonzero(self.ties)))
        return Coupling(self.ties, np.asarray(part[:, None] == part), self.of_diagonal is not None)

    @property
    def tied_classes(self) -> IntArray:
        """(T, 2): classes k < l between which values are drawn to be exactly equal; for a group penalty none."""
        return np.empty((0, 2), dtype=np.int64)

    def proves(
        self, theta: FloatArray, u: FloatArray, u_reach: FloatArray, theta_reach: FloatArray, entries: Entries
    ) -> tuple[BoolArray, BoolArray]:
        """Entries that are zero, and `tied_classes` (P, T) that are equal, at every solution within reach."""
        zero = self.certain_zeros(theta, u, u_reach, theta_reach, entries)
        return zero, np.empty((len(entries.start) - 1, 0), dtype=bool)

    @property
    def of_diagonal(self) -> PairPenalty | None:
        """What acts on the K-vector of a diagonal entry, once; None where the diagonals of classes are not compared."""
        return None

    @property
    def homogeneous(self) -> bool:
        """Whether twice the argument costs twice as much."""
        from jointglasso.kernels.pair import module_of

        return bool(module_of(self.pair).HOMOGENEOUS)

    # Classes that lack a variable (`penalties/panels.py`)

    lacking: ClassVar[bool] = False
    """Whether classes may lack a pair and that matters to the penalty: it must then be told of each entry."""

    def labels(self, cls: IntArray, i: IntArray, j: IntArray) -> IntArray:
        """What `Entries.cls` holds of the entries of pairs (i, j) in the classes `cls`."""
        return cls

    def marked(self, rows: FloatArray, i: IntArray, j: IntArray) -> FloatArray:
        """Rows (m, K) of pairs (i, j), not a number where a class lacks the pair and that matters."""
        return rows

    @abstractmethod
    def threshold(self, k: int) -> float:
        """A pair that is no larger than this in any class lies in the dual ball."""

    @abstractmethod
    def reach(self, n_classes: int) -> float:
        """Entries no larger than this, in all of `n_classes` classes, are inside the dual ball."""

    @abstractmethod
    def times(self, factor: float) -> PairPenalty:
        """All coefficients multiplied."""

    def parameters(self) -> dict[str, Any]:
        """What a solution keeps of it."""
        return {"lambda1": self.lambda1, "lambda2": self.lambda2, "penalty": self.name}

    def room(self, n_classes: int) -> int:
        """Numbers that the functions of one pair need as room to work in."""
        from jointglasso.kernels.pair import module_of

        size: int = module_of(self.pair).room(n_classes)
        return size

    # Entries

    def value(self, theta: FloatArray, entries: Entries) -> FloatArray:
        """``phi`` of each pair."""
        from jointglasso.kernels import entries as kernels

        out = np.empty(len(entries.start) - 1)
        kernels.value(self.pair, theta, entries, out)
        return out

    def prox(self, values: FloatArray, step: FloatArray, entries: Entries) -> FloatArray:
        """Minimiser of ``|x - values|^2 / 2 + step[q] phi(x)`` for each pair."""
        factor = step * entries.factor if len(entries.factor) else step
        return self._minimiser(np.empty(0), values, entries._replace(factor=factor))

    def update(self, curvature: FloatArray, linear: FloatArray, entries: Entries) -> FloatArray:
        """Minimiser of ``sum curvature x^2 / 2 - linear x`` plus ``phi`` for each pair; curvatures are positive."""
        return self._minimiser(curvature, linear, entries)

    def _minimiser(self, curvature: FloatArray, linear: FloatArray, entries: Entries) -> FloatArray:
        from jointglasso.kernels import entries as kernels

        out = np.empty_like(linear)

        def one(at: slice, part: Entries) -> None:
            kernels.update(self.pair, curvature[at], linear[at], part, self._work(part.n_classes), out[at])

        on_cores(one, entries)
        return out

    def nearest_subgradient(self, theta: FloatArray, wanted: FloatArray, entries: Entries) -> FloatArray:
        """Subgradient of ``phi`` at `theta` nearest to `wanted`."""
        from jointglasso.kernels import entries as kernels

        out = np.empty_like(wanted)

        def one(at: slice, part: Entries) -> None:
            kernels.nearest_subgradient(self.pair, theta[at], wanted[at], part, self._work(part.n_classes), out[at])

        on_cores(one, entries)
        return out

    def inside(self, u: FloatArray, entries: Entries) -> BoolArray:
        """Pairs in their dual ball, the subdifferential of ``phi`` at zero."""
        from jointglasso.kernels import entries as kernels

        out = np.empty(len(entries.start) - 1, dtype=bool)
        kernels.inside(self.pair, u, entries, self._work(entries.n_classes), out)
        return out

    def gauge(self, u: FloatArray, entries: Entries) -> FloatArray:
        """Smallest g with the values of each pair in g times its dual ball; infinite if there is none."""
        from jointglasso.kernels import entries as kernels

        out = np.empty(len(entries.start) - 1)
        kernels.gauge(self.pair, u, entries, self._work(entries.n_classes), out)
        return out

    def face(self, theta: FloatArray, entries: Entries) -> tuple[IntArray, FloatArray]:
        """Number of the free variable of each entry, -1 at zeros, and the slope of the penalty at each entry.

        Zeros stay zero, and equal values of tied classes equal: one variable a cluster, numbered through all pairs.
        """
        from jointglasso.kernels import entries as kernels

        variable, slope = np.empty(len(theta), dtype=np.int64), np.empty_like(theta)
        kernels.face(self.pair, theta, entries, variable, slope)
        return variable, slope

    def bend(self, step: FloatArray, entries: Entries) -> FloatArray:
        """By how much the slope changes along a step on the face: not at all, unless a penalty says otherwise."""
        return np.zeros_like(step)

    @abstractmethod
    def certain_zeros(
        self, theta: FloatArray, u: FloatArray, u_reach: FloatArray, theta_reach: FloatArray, entries: Entries
    ) -> BoolArray:
        """Entries that are zero at every solution within reach of `theta` and of its dual point `u`."""

    # Rows

    def above(self, rows: FloatArray, factor: FloatArray = UNIFORM) -> BoolArray:
        """(m, K) weighted covariances above the threshold of their class."""
        limit = np.array([self.threshold(k) for k in range(rows.shape[1])])
        above: BoolArray = np.abs(rows) > (limit if len(factor) == 0 else factor[:, None] * limit)
        return above

    def strong(self, rows: FloatArray, factor: FloatArray = UNIFORM) -> BoolArray:
        """(m,) pairs that are not zero in all classes at once when isolated: outside the dual ball."""
        return ~self.inside(*self.as_entries(rows, factor))

    def lambda_max(self, rows: FloatArray, factor: FloatArray = UNIFORM) -> float:
        """Largest factor on the penalty at which one of the pairs is still strong.

        Infinite if an unpenalised pair has a covariance: it never vanishes.
        """
        return float(self.gauge(*self.as_entries(rows, factor)).max(initial=0.0))

    def wants(self, theta: FloatArray, u: FloatArray, factor: FloatArray = UNIFORM) -> BoolArray:
        """(m, K) classes of which ``prox(theta + u)`` is not zero: u is no subgradient where one of them was cut."""
        values, entries = self.as_entries(theta + u, factor)
        return (self.prox(values, np.ones(len(theta)), entries) != 0.0).reshape(theta.shape)

    @abstractmethod
    def pattern(self, rows: FloatArray, factor: FloatArray = UNIFORM) -> IntArray:
        """(m, K) signs of theta, were each pair of variables alone; zero in all classes unless the pair is strong."""

    @abstractmethod
    def closure(self, rows: FloatArray, joined: BoolArray, factor: FloatArray = UNIFORM) -> BoolArray:
        """(m, K) classes that may not be cut, whatever the data of those in `joined`, which are among them.

        Where nothing is joined: the classes of strong pairs.
        """

    @abstractmethod
    def cuts_hold(
        self,
        theta: FloatArray,
        u: FloatArray,
        u_reach: FloatArray,
        theta_reach: FloatArray,
        held: BoolArray,
        factor: FloatArray = UNIFORM,
    ) -> BoolArray:
        """(m,) pairs that may be cut where they are not held, whatever the exact solution within reach.

        Where a pair is cut, theta is zero, u is exactly minus the weighted covariance, and the reaches are zero.
        """

    def _work(self, n_classes: int) -> Work:
        size = self.room(n_classes)
        return Work(np.empty(size), np.empty(size, dtype=np.int64))

    def as_entries(self, rows: FloatArray, factor: FloatArray = UNIFORM) -> tuple[FloatArray, Entries]:
        """Rows as entries of pairs that all classes hold."""
        m, n_classes = rows.shape
        cls = np.tile(np.arange(n_classes), m) if self.by_class else ANY_CLASS
        entries = Entries(np.arange(0, m * n_classes + 1, n_classes), cls, factor, n_classes)
        return np.ascontiguousarray(rows, dtype=np.float64).ravel(), entries
