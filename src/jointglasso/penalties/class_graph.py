"""The class graph: symmetric weights b_kl >= 0 of the differences between classes, from user input; its shape.

`ClassGraphPenalty` is the common part of the penalties over it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from numbers import Integral, Real
from typing import Any, ClassVar, Self, cast

import numpy as np
from scipy import sparse

from jointglasso._cached_property import cached_property
from jointglasso._optional import is_from
from jointglasso._typing import BoolArray, FloatArray, IntArray
from jointglasso.data.checks import InputError, InputTypeError
from jointglasso.data.naming import matrix_by_name
from jointglasso.penalties.base import UNIFORM, Coupling, PairPenalty, SafeRegion

#: Errors of this module are about one argument.
wrong = partial(InputError, parameter="class_graph")

#: Graphs that have a name.
_NAMED = ("complete", "chain", "sample_size")

_FORMS = (
    "an array (K, K), a list of edges such as [('a', 'b'), ('b', 'c', 0.5)], a dict {('a', 'b'): weight} or "
    "{'a': ['b', 'c']}, a list of all classes in their order, 'complete', 'chain' or 'sample_size'"
)


def read_class_graph(graph: Any, class_names: Sequence[str], sample_sizes: IntArray | None = None) -> FloatArray:
    """Symmetric weights (K, K) of the differences between classes, from any form that `jointglasso.solve` takes."""
    names = [str(name) for name in class_names]
    if isinstance(graph, str):
        return _named(graph, names, sample_sizes)
    if is_from(graph, "pandas") and graph.ndim == 2:
        graph = matrix_by_name(graph, names)
        if graph is None:
            raise wrong(f"The rows and columns of class_graph must be named by the classes {names}, each once.")
    if is_from(graph, "networkx"):
        return _from_edges(graph.edges(data="weight", default=1.0), names)
    if isinstance(graph, Mapping):
        return _from_edges(_edges_of(graph), names)
    if sparse.issparse(graph):
        return _from_matrix(graph.toarray(), names)
    if isinstance(graph, np.ndarray) and graph.ndim == 2:
        return _from_matrix(graph, names)
    if not isinstance(graph, Iterable):
        raise InputTypeError(f"class_graph must be {_FORMS}, not {type(graph).__name__} {graph!r}.", "class_graph")
    items = list(graph)
    if all(isinstance(item, list | np.ndarray) for item in items) and len(items) == len(names):
        return _from_matrix(items, names)
    if all(isinstance(item, str | Integral) for item in items):
        return chain_of(_order(items, names))
    return _from_edges(items, names)


def chain_of(order: Sequence[int]) -> FloatArray:
    """Path graph: each class of `order` is a neighbour of the next."""
    graph = np.zeros((len(order), len(order)))
    for one, two in pairwise(order):
        graph[one, two] = graph[two, one] = 1.0
    return graph


def complete_of(n_classes: int) -> FloatArray:
    """Complete graph with unit weights."""
    return np.ones((n_classes, n_classes)) - np.eye(n_classes)


def _named(name: str, names: list[str], sample_sizes: IntArray | None) -> FloatArray:
    if name not in _NAMED:
        raise wrong(f"class_graph={name!r} is not known: give {_FORMS}.")
    if name == "chain":
        return chain_of(range(len(names)))
    if name == "complete":
        return complete_of(len(names))
    if sample_sizes is None:
        raise wrong(
            "class_graph='sample_size' needs the sample sizes: give samples (SampleCovariance) or "
            "DenseCovariance(..., sample_sizes=[...])."
        )
    sizes = np.asarray(sample_sizes, dtype=float) / np.mean(sample_sizes)
    return np.outer(sizes, sizes) * complete_of(len(names))


def _order(items: list[Any], names: list[str]) -> list[int]:
    order = _numbers(items, names)
    missing = [name for index, name in enumerate(names) if index not in order]
    twice = next((names[index] for index in order if order.count(index) > 1), None)
    if missing or twice is not None:
        fault = f"leaves out {missing[0]!r}" if missing else f"names {twice!r} twice"
        raise wrong(f"class_graph gives the classes in order, but {fault}: name each of the {len(names)} once.")
    return order


def _numbers(labels: Iterable[Any], names: list[str]) -> list[int]:
    """Indices of classes given by name, or by index from 0 unless all labels are names."""
    classes = list(labels)
    named = all(str(item) in names for item in classes)
    out = []
    for item in classes:
        if str(item) in names and (named or not isinstance(item, Integral)):
            out.append(names.index(str(item)))
        elif isinstance(item, Integral) and 0 <= int(item) < len(names):
            out.append(int(item))
        else:
            raise InputError(
                f"class_graph names the class {item!r}, which the data does not have: its classes are {names}.",
                "class_graph",
                class_name=str(item),
            )
    return out


def _edges_of(mapping: Mapping[Any, Any]) -> Iterable[tuple[Any, Any, Any]]:
    """Edges of a dict of pairs, or of the neighbours of each class."""
    for key, value in mapping.items():
        if isinstance(key, tuple) and len(key) == 2:
            yield *key, value
        elif isinstance(value, Mapping):
            yield from ((key, other, weight) for other, weight in value.items())
        elif isinstance(value, Iterable) and not isinstance(value, str):
            yield from ((key, other, 1.0) for other in value)
        else:
            yield key, value, 1.0


def _from_edges(edges: Iterable[Any], names: list[str]) -> FloatArray:
    graph = np.zeros((len(names), len(names)))
    seen: dict[tuple[int, int], float] = {}
    edge_list = list(edges)
    for edge in edge_list:
        if not isinstance(edge, tuple | list) or len(edge) not in (2, 3):
            raise InputTypeError(
                f"class_graph must be {_FORMS}; {edge!r} is no edge (class, class[, weight]).", "class_graph"
            )
    ends = np.reshape(_numbers([end for edge in edge_list for end in edge[:2]], names), (-1, 2)).tolist()
    for edge, (one, two) in zip(edge_list, ends, strict=True):
        weight = _weight(edge[2] if len(edge) == 3 else 1.0, names[one], names[two])
        if one == two:
            raise InputError(
                f"class_graph ties the class {names[one]!r} to itself: leave that edge out.",
                "class_graph",
                class_name=names[one],
            )
        key = (min(one, two), max(one, two))
        if seen.setdefault(key, weight) != weight:
            raise wrong(
                f"class_graph gives two weights to the classes {names[one]!r}, {names[two]!r} ({seen[key]:g} and "
                f"{weight:g}): give one."
            )
        graph[one, two] = graph[two, one] = weight
    return graph


def _weight(value: Any, one: str, two: str) -> float:
    if isinstance(value, bool) or not isinstance(value, Real):
        raise InputTypeError(
            f"The class_graph weight of {one!r}, {two!r} must be a number >= 0, not {value!r}.", "class_graph"
        )
    weight = float(value)
    if not np.isfinite(weight) or weight < 0:
        raise wrong(f"The class_graph weight of {one!r}, {two!r} is {weight:g}; it must be a finite number >= 0.")
    return weight


def _from_matrix(matrix: Any, names: list[str]) -> FloatArray:
    try:
        graph = np.array(matrix, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputTypeError(f"class_graph must be {_FORMS}.", "class_graph") from None
    if graph.shape != (len(names), len(names)):
        raise wrong(f"class_graph has shape {graph.shape}, but there are {len(names)} classes: give one row each.")
    for one, two in zip(*np.nonzero(~np.isfinite(graph) | (graph < 0)), strict=True):
        _weight(float(graph[one, two]), names[one], names[two])
    asymmetric = np.argwhere(np.abs(graph - graph.T) > 1e-12 * np.maximum(graph, graph.T))
    if len(asymmetric):
        one, two = asymmetric[0]
        raise wrong(
            f"class_graph is not symmetric: {graph[one, two]:g} and {graph[two, one]:g} between {names[one]!r} and "
            f"{names[two]!r}."
        )
    np.fill_diagonal(graph, 0.0)
    return np.asarray(np.maximum(graph, graph.T))


# Shape


def forest_of(coefficients: FloatArray) -> tuple[IntArray, IntArray] | None:
    """Parent of each class (-1 for roots) and a topological order, parents first; None if the graph has a cycle."""
    n_classes = len(coefficients)
    neighbours = [np.flatnonzero(row).tolist() for row in coefficients > 0]
    parent = np.full(n_classes, -1, dtype=np.int64)
    order: list[int] = []
    seen = [False] * n_classes
    for root in range(n_classes):
        first = len(order)
        if not seen[root]:
            order.append(root)
            seen[root] = True
        while first < len(order):
            node, first = order[first], first + 1
            for other in neighbours[node]:
                if not seen[other]:
                    parent[other], seen[other] = node, True
                    order.append(other)
    n_edges = sum(len(adjacent) for adjacent in neighbours) // 2
    return (parent, np.array(order, dtype=np.int64)) if n_edges == (parent >= 0).sum() else None


def masses_of(coefficients: FloatArray) -> FloatArray | None:
    """Masses m > 0 with ``b_kl = m_k m_l`` for all k != l, for three classes or more; None if there are none."""
    n_classes = len(coefficients)
    off = ~np.eye(n_classes, dtype=bool)
    if n_classes < 3 or not (coefficients[off] > 0).all():
        return None
    masses = np.empty(n_classes)
    for k in range(n_classes):
        one, two = [other for other in range(3) if other != k][:2]
        masses[k] = np.sqrt(coefficients[k, one] * coefficients[k, two] / coefficients[one, two])
    product = np.outer(masses, masses)
    return masses if np.allclose(product[off], coefficients[off], rtol=1e-14, atol=0.0) else None


def edges_of(graph: FloatArray) -> list[tuple[int, int, float]]:
    """Edges k < l of the class graph with their weights."""
    one, two = np.nonzero(np.triu(graph, 1))
    return [(int(k), int(other), float(graph[k, other])) for k, other in zip(one, two, strict=True)]


@dataclass(frozen=True, eq=False)
class ClassGraphPenalty(PairPenalty):
    """``lambda1 |t|_1 + lambda2 sum_{k<l} b_kl psi(t_k - t_l)`` over a class graph b, for a convex function psi."""

    supports: ClassVar[frozenset[str]] = frozenset({"prox", "columns", "newton"})

    lambda1: float
    lambda2: float
    graph: FloatArray
    """(K, K) symmetric weights b >= 0 of the class graph; zero where classes are not neighbours."""
    alias: str = ""
    """Value of the `penalty` argument if it differs from `name`: "chain", "graph"."""
    fuse_diagonal: bool = False
    """Whether diagonal entries of neighbours are coupled as well."""

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return len(self.graph)

    @cached_property
    def l1(self) -> FloatArray:
        """(K,): weight of the absolute value in each class."""
        return np.full(self.n_classes, float(self.lambda1))

    @cached_property
    def class_graph(self) -> BoolArray:
        compared: BoolArray = self.lambda2 * self.graph > 0
        return compared

    @cached_property
    def coupling(self) -> Coupling:
        return cast(Coupling, super().coupling)

    @cached_property
    def fused_diagonal_penalty(self) -> Self | None:
        compared = self.fuse_diagonal and bool(self.class_graph.any())
        return replace(self, lambda1=0.0, fuse_diagonal=False) if compared else None

    @property
    def scale(self) -> float:
        return self.lambda1 + self.lambda2 * float(self.graph.sum(axis=1).max(initial=0.0))

    def threshold(self, k: int) -> float:
        return self.lambda1

    def box_radius(self, n_classes: int) -> float:
        return self.lambda1

    def scaled(self, factor: float) -> Self:
        return replace(self, lambda1=factor * self.lambda1, lambda2=factor * self.lambda2)

    def restricted_to(self, classes: IntArray) -> Self:
        """The penalty on the subgraph induced by `classes`, for pairs that are missing in all others."""
        return replace(self, graph=self.graph[np.ix_(classes, classes)])

    def parameters(self) -> dict[str, Any]:
        graph = [list(edge) for edge in edges_of(self.graph)]
        fused = {"fuse_diagonal": True} if self.fuse_diagonal else {}
        return {**super().parameters(), "penalty": self.alias or self.name, "class_graph": graph, **fused}

    def screening_certified(self, region: SafeRegion, in_block: BoolArray, factor: FloatArray = UNIFORM) -> BoolArray:
        # A screened-out entry must be a certified zero of the full problem.
        flat, entries = zip(*(self.as_entries(rows, factor) for rows in region), strict=True)
        zero = self.certified_zeros(SafeRegion(*flat), entries[0]).reshape(region.theta.shape)
        return np.asarray((zero | in_block).all(axis=1))
