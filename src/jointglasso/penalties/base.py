"""The penalty interface used by solvers, screening and the certificate.

A penalty phi acts on one pair of variables (i, j) at a time, on the K-vector of its entries over the classes. There are
two forms of argument:

* *entries*: a flat vector of the entries inside blocks, grouped by pair. An `Entries` holds the offset of each pair and
  the class of each entry (solvers, certificate). A class that has both variables, but in different blocks, has a zero
  entry there that still enters the coupling term;
* *rows*: an array (m, K) with one value per class for each of m pairs (screening, recheck).

The factor 2 of the paper's 2 sum_{i<j} belongs to the objective, not to the penalty.

Weights: `factor` (m,) holds a v >= 0 for every pair, whose penalty is then ``v phi``, or is empty (`UNIFORM`) where all
are 1. With weights by class it has shape (m, K + 1): the weight b of the coupling term of each pair, then the weights
a_k of its L1 part (`coupling_weights`, `l1_weights`). An entry of infinite weight is zero. Entries have them as
`Entries.factor` and `Entries.l1`; callers leave forbidden entries out of these.

To add a penalty, see "A penalty" in CONTRIBUTING.md.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from types import ModuleType
from typing import Any, ClassVar, NamedTuple, TypeVar

import numpy as np

from jointglasso import config
from jointglasso._threads import map_on_cores
from jointglasso._typing import BoolArray, FloatArray, IntArray
from jointglasso.kernels.pair_types import N_INTEGER_ROWS, Entries, PenaltyWorkspace

Result = TypeVar("Result")

#: Number of parts into which long lists of pairs are split for the threads.
_PARTS = 16

#: Empty array: all pair weights are 1.
UNIFORM: FloatArray = np.empty(0)

#: Empty array in place of `Entries.cls`, for penalties that are symmetric in the classes.
ANY_CLASS: IntArray = np.empty(0, dtype=np.int64)


def on_cores(function: Callable[[slice, Entries], Result], entries: Entries) -> list[Result]:
    """Apply ``function(slice of the flat entries, their Entries)`` to parts of the pairs, on threads.

    `function` must release the interpreter lock.
    """
    start, cls, factor, n_classes, l1 = entries
    if start[-1] < config.MIN_ENTRIES_FOR_THREADS:
        return [function(slice(0, int(start[-1])), entries)]
    bounds = np.linspace(0, len(start) - 1, _PARTS + 1).astype(np.int64)

    def one(number: int) -> Result:
        first, last = bounds[number], bounds[number + 1]
        span = slice(int(start[first]), int(start[last]))
        labels, weights = cls[span] if len(cls) else cls, factor[first:last] if len(factor) else factor
        of_entries = l1[span] if len(l1) else l1
        return function(span, Entries(start[first : last + 1] - span.start, labels, weights, n_classes, of_entries))

    return map_on_cores(one, range(_PARTS))


def coupling_weights(factor: FloatArray) -> FloatArray:
    """(m,): weight of the coupling term of each pair; empty where all are 1."""
    return factor if factor.ndim == 1 else factor[:, 0]


def l1_weights(factor: FloatArray) -> FloatArray:
    """(m, K), or (m, 1) where one weight is for all classes: weights of the L1 part; (1, 1) where all are 1."""
    if factor.ndim == 2:
        return factor[:, 1:]
    return factor[:, None] if len(factor) else np.ones((1, 1))


def times(threshold: Any, weight: FloatArray) -> FloatArray:
    """``threshold * weight``, infinite for an infinite weight also where the threshold is zero."""
    with np.errstate(invalid="ignore"):
        return np.where(np.isinf(weight), np.inf, threshold * weight)


def _entry_kernels() -> ModuleType:
    """`jointglasso.kernels.entries`, which takes long to import."""
    from jointglasso.kernels import entries

    return entries


class Coupling(NamedTuple):
    """Pairs of classes that a penalty couples."""

    class_graph: BoolArray
    """(K, K): adjacency of the class graph."""
    parts: BoolArray
    """(K, K): whether two classes lie in one connected component of the class graph."""
    diagonal: bool = False
    """Whether diagonal entries are coupled as well."""


class SafeRegion(NamedTuple):
    """The solution lies within `theta_radius` of `theta`, its subgradient within `u_radius` of `u`, entry by entry."""

    theta: FloatArray
    u: FloatArray
    u_radius: FloatArray
    theta_radius: FloatArray


class PairPenalty(ABC):
    """A convex penalty ``phi`` on the K-vector of one pair, with its minimum phi(0) = 0."""

    name: ClassVar[str]
    """Value of the `penalty` argument of `solve`."""
    supports: ClassVar[frozenset[str]]
    """Operations that the compiled functions support: "prox", "columns", "forest", "newton". A solver lists those that
    it requires."""
    class_dependent: ClassVar[bool] = True
    """Whether phi depends on which classes the entries belong to; False if it is symmetric in the classes."""

    lambda1: float
    """Weight of the L1 part; also the penalty of the diagonal, where it is penalised."""
    lambda2: float
    """Weight of the term that couples the classes."""

    # Properties

    @property
    @abstractmethod
    def pair(self) -> Any:
        """The penalty of one pair, for compiled code: one of the named tuples of `kernels.pair_types`."""

    @property
    @abstractmethod
    def scale(self) -> float:
        """Magnitude of the subgradients; zero only if nothing is penalised."""

    @property
    @abstractmethod
    def class_graph(self) -> BoolArray | None:
        """(K, K): adjacency of the class graph; None: all classes are coupled."""

    @property
    def coupling(self) -> Coupling | None:
        """Pairs of classes that are coupled; None: all of them, through each pair of variables."""
        if self.class_graph is None:
            return None
        from jointglasso.kernels.components import components

        component = components(len(self.class_graph), *(ends.copy() for ends in np.nonzero(self.class_graph)))[0]
        return Coupling(
            self.class_graph, np.asarray(component[:, None] == component), self.fused_diagonal_penalty is not None
        )

    @property
    def fused_class_pairs(self) -> IntArray:
        """(T, 2): classes k < l with a non-smooth term in theta_k - theta_l, which makes values exactly equal."""
        return np.empty((0, 2), dtype=np.int64)

    def certified_zeros_and_equal(self, region: SafeRegion, entries: Entries) -> tuple[BoolArray, BoolArray]:
        """Entries certified to be zero, and (P, T) which of `fused_class_pairs` are certified to be equal."""
        zero = self.certified_zeros(region, entries)
        return zero, np.empty((len(entries.start) - 1, 0), dtype=bool)

    @property
    def fused_diagonal_penalty(self) -> PairPenalty | None:
        """Penalty on the K-vector of a diagonal entry, counted once; None if diagonal entries are not coupled."""
        return None

    @property
    def homogeneous(self) -> bool:
        """Whether phi is positively homogeneous of degree one."""
        from jointglasso.kernels.pair import module_of

        return bool(module_of(self.pair).HOMOGENEOUS)

    # Variables missing from some classes (`penalties/missing_variables.py`)

    has_missing_variables: ClassVar[bool] = False
    """Whether the penalty of a pair depends on which classes have both variables; `labels` then encodes that."""

    def labels(self, cls: IntArray, i: IntArray, j: IntArray) -> IntArray:
        """Value of `Entries.cls` for entries of pairs (i, j) in the classes `cls`."""
        return cls

    def mask_missing(self, rows: FloatArray, i: IntArray, j: IntArray) -> FloatArray:
        """Rows (m, K) of pairs (i, j), with NaN in classes without both variables if the penalty depends on that."""
        return rows

    def penalises(self, l1: FloatArray, coupling: FloatArray) -> BoolArray:
        """Whether entries with these weights of the two terms are penalised."""
        return np.asarray((self.lambda1 * l1 > 0.0) | (self.lambda2 * coupling > 0.0))

    @abstractmethod
    def threshold(self, k: int) -> float:
        """Threshold of class k: a pair with ``w |S| <= threshold`` in every class lies in the dual ball."""

    @abstractmethod
    def box_radius(self, n_classes: int) -> float:
        """Largest r with the box ``{|u_k| <= r for all k}`` of `n_classes` classes inside the dual ball."""

    @abstractmethod
    def scaled(self, factor: float) -> PairPenalty:
        """The penalty ``factor * phi``."""

    def parameters(self) -> dict[str, Any]:
        """Arguments that define the penalty, as stored in `Solution.parameters`."""
        return {"lambda1": self.lambda1, "lambda2": self.lambda2, "penalty": self.name}

    def workspace_size(self, n_classes: int) -> int:
        """Number of rows of scratch that the compiled functions of one pair need."""
        from jointglasso.kernels.pair import module_of

        size: int = module_of(self.pair).workspace_size(n_classes)
        return size

    # Entries

    def value(self, theta: FloatArray, entries: Entries) -> FloatArray:
        """``phi`` of each pair."""
        return self._by_pair("VALUE", theta, entries)

    def prox(self, values: FloatArray, step: FloatArray, entries: Entries) -> FloatArray:
        """Minimiser of ``|x - values|^2 / 2 + step[q] phi(x)`` for each pair; steps are positive."""
        curvature = np.repeat(1.0 / step, np.diff(entries.start))
        return self.update(curvature, curvature * values, entries)

    def update(self, curvature: FloatArray, linear: FloatArray, entries: Entries) -> FloatArray:
        """Minimiser of ``sum curvature x^2 / 2 - linear x`` plus ``phi`` for each pair; curvatures are positive."""
        return self._by_entry("UPDATE", curvature, linear, entries)

    def nearest_subgradient(self, theta: FloatArray, wanted: FloatArray, entries: Entries) -> FloatArray:
        """Projection of `wanted` onto the subdifferential of ``phi`` at `theta`."""
        return self._by_entry("SUBGRADIENT", theta, wanted, entries)

    def is_dual_feasible(self, u: FloatArray, entries: Entries) -> BoolArray:
        """(P,) whether the values of each pair lie in its dual ball, the subdifferential of ``phi`` at zero."""
        return self._by_pair("IS_DUAL_FEASIBLE", u, entries) != 0.0

    def gauge(self, u: FloatArray, entries: Entries) -> FloatArray:
        """Gauge of the dual ball: smallest g with the values of a pair in g times the ball; infinite if none exists."""
        return self._by_pair("GAUGE", u, entries)

    def _by_pair(self, operation: str, values: FloatArray, entries: Entries) -> FloatArray:
        """(P,): result of an operation of `entries.apply`."""
        out, kernels = np.empty(len(entries.start) - 1), _entry_kernels()
        work = self._work(entries.n_classes)
        kernels.apply(self.pair, getattr(kernels, operation), values, values, entries, work, out)
        return out

    def _by_entry(self, operation: str, x: FloatArray, y: FloatArray, entries: Entries) -> FloatArray:
        """(E,): result of an operation of `entries.apply`, on threads."""
        out, kernels = np.empty_like(y), _entry_kernels()
        number = getattr(kernels, operation)

        def one(span: slice, part: Entries) -> None:
            kernels.apply(self.pair, number, x[span], y[span], part, self._work(part.n_classes), out[span])

        on_cores(one, entries)
        return out

    def _on_face(self, operation: str, theta: FloatArray, x: FloatArray, entries: Entries) -> FloatArray:
        """(E,): result of an operation of `entries.apply_on_face`."""
        out, kernels = np.empty_like(theta), _entry_kernels()
        work = self._work(entries.n_classes)
        kernels.apply_on_face(self.pair, getattr(kernels, operation), theta, x, entries, work, out)
        return out

    def face(self, theta: FloatArray, entries: Entries) -> tuple[IntArray, FloatArray]:
        """Face of phi at `theta`: index of the free variable of each entry (-1 at zeros), and the gradient of phi.

        On the face zeros stay zero and equal values of neighbouring classes stay equal: one free variable per cluster
        of equal values, numbered through all pairs.
        """
        variable = self._on_face("CLUSTERS", theta, theta, entries).astype(np.int64)
        return variable, self._on_face("GRADIENT", theta, theta, entries)

    def hvp(self, theta: FloatArray, step: FloatArray, entries: Entries) -> FloatArray:
        """Hessian-vector product of phi on the face of `theta`; zero for penalties that are linear there."""
        return self._on_face("HVP", theta, step, entries)

    def hessian_diagonal(self, theta: FloatArray, entries: Entries) -> FloatArray:
        """Diagonal of the Hessian of phi on the face of `theta`."""
        return self._on_face("HESSIAN_DIAGONAL", theta, theta, entries)

    def retract(self, theta: FloatArray, trial: FloatArray, entries: Entries) -> FloatArray:
        """`trial` moved to the closure of the face of `theta`: no value changes its sign, no cluster its order."""
        return self._on_face("RETRACT", theta, trial, entries)

    @abstractmethod
    def certified_zeros(self, region: SafeRegion, entries: Entries) -> BoolArray:
        """Entries certified to be zero at the solution."""

    # Rows

    def exceeds_lambda1(self, rows: FloatArray, factor: FloatArray = UNIFORM) -> BoolArray:
        """(m, K) whether ``w |S|`` exceeds the threshold of its class."""
        limit = np.array([self.threshold(k) for k in range(rows.shape[1])])
        above: BoolArray = np.abs(rows) > (limit if len(factor) == 0 else times(limit, l1_weights(factor)))
        return above

    def violates_global_condition(self, rows: FloatArray, factor: FloatArray = UNIFORM) -> BoolArray:
        """(m,) pairs outside the dual ball: the problem of these two variables alone has an edge in some class."""
        return ~self.is_dual_feasible(*self.as_entries(rows, factor))

    def lambda_max(self, rows: FloatArray, factor: FloatArray = UNIFORM) -> float:
        """Largest multiple of the penalty at which one of the pairs is outside the dual ball.

        Infinite if an unpenalised pair has a non-zero covariance.
        """
        return float(self.gauge(*self.as_entries(rows, factor)).max(initial=0.0))

    def kkt_violated(self, theta: FloatArray, u: FloatArray, factor: FloatArray = UNIFORM) -> BoolArray:
        """(m, K) where ``prox(theta + u)`` is not zero.

        At an entry that was screened out this violates the optimality conditions: u is not a subgradient at theta.
        """
        values, entries = self.as_entries(theta + u, factor)
        return (self.prox(values, np.ones(len(theta)), entries) != 0.0).reshape(theta.shape)

    @abstractmethod
    def signs(self, rows: FloatArray, factor: FloatArray = UNIFORM) -> IntArray:
        """(m, K) signs of theta in the problem of the two variables by themselves; zero for pairs in the dual ball."""

    @abstractmethod
    def closure(self, rows: FloatArray, joined: BoolArray, factor: FloatArray = UNIFORM) -> BoolArray:
        """(m, K) classes in which a pair must not be screened out, for any values in the classes `joined` (a subset).

        With an empty `joined`: the classes of pairs outside the dual ball.
        """

    @abstractmethod
    def screening_certified(self, region: SafeRegion, in_block: BoolArray, factor: FloatArray = UNIFORM) -> BoolArray:
        """(m,) pairs certified to be zero in the classes outside `in_block`.

        At screened-out entries theta is zero, u is exactly minus the weighted covariance, and the radii are zero.
        """

    def _work(self, n_classes: int) -> PenaltyWorkspace:
        return PenaltyWorkspace(
            np.empty((self.workspace_size(n_classes), n_classes)), np.empty((N_INTEGER_ROWS, n_classes), dtype=np.int64)
        )

    def as_entries(self, rows: FloatArray, factor: FloatArray = UNIFORM) -> tuple[FloatArray, Entries]:
        """Rows (m, K) as a flat vector of entries, all K classes of every pair included."""
        m, n_classes = rows.shape
        cls = np.tile(np.arange(n_classes), m) if self.class_dependent else ANY_CLASS
        start = np.arange(0, m * n_classes + 1, n_classes)
        l1 = l1_weights(factor).ravel() if factor.ndim == 2 else UNIFORM
        entries = Entries(start, cls, coupling_weights(factor).copy(), n_classes, l1)
        return np.ascontiguousarray(rows, dtype=np.float64).ravel(), entries
