"""The graph of the classes: which classes are compared, how strongly, and what shape that has."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from numbers import Integral, Real
from typing import Any

import numpy as np
from scipy import sparse

from jointglasso._typing import FloatArray, IntArray
from jointglasso.validation import InputError, InputTypeError

#: Errors of this module are about one argument.
wrong = partial(InputError, parameter="class_graph")

#: Graphs that have a name.
_NAMED = ("complete", "chain", "sample_size")

_FORMS = (
    "an array (K, K), a list of edges such as [('a', 'b'), ('b', 'c', 0.5)], a dict {('a', 'b'): weight} or "
    "{'a': ['b', 'c']}, a list of all classes in their order, 'complete', 'chain' or 'sample_size'"
)


def read_class_graph(given: Any, class_names: Sequence[str], sample_sizes: IntArray | None = None) -> FloatArray:
    """Symmetric weights (K, K) of the differences between classes, from any form that `jointglasso.solve` takes."""
    names = [str(name) for name in class_names]
    if isinstance(given, str):
        return _named(given, names, sample_sizes)
    if hasattr(given, "columns") and hasattr(given, "index"):
        return _from_frame(given, names)
    if hasattr(given, "nodes") and callable(getattr(given, "edges", None)):
        return _from_edges(given.edges(data="weight", default=1.0), names)
    if isinstance(given, Mapping):
        return _from_edges(_edges_of(given), names)
    if sparse.issparse(given):
        return _from_matrix(given.toarray(), names)
    if isinstance(given, np.ndarray) and given.ndim == 2:
        return _from_matrix(given, names)
    if not isinstance(given, Iterable):
        raise InputTypeError(f"class_graph must be {_FORMS}, not {type(given).__name__} {given!r}.", "class_graph")
    items = list(given)
    if all(isinstance(item, list | np.ndarray) for item in items) and len(items) == len(names):
        return _from_matrix(items, names)
    if all(isinstance(item, str | Integral) for item in items):
        return chain_of(_order(items, names))
    return _from_edges(items, names)


def chain_of(order: Sequence[int]) -> FloatArray:
    """Each class tied to the next one of an order."""
    graph = np.zeros((len(order), len(order)))
    for one, two in pairwise(order):
        graph[one, two] = graph[two, one] = 1.0
    return graph


def complete_of(n_classes: int) -> FloatArray:
    """Every class tied to every other."""
    return np.ones((n_classes, n_classes)) - np.eye(n_classes)


def _named(word: str, names: list[str], sample_sizes: IntArray | None) -> FloatArray:
    if word not in _NAMED:
        raise wrong(f"class_graph={word!r} is not known: give {_FORMS}.")
    if word == "chain":
        return chain_of(range(len(names)))
    if word == "complete":
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
    missing = [name for at, name in enumerate(names) if at not in order]
    twice = next((names[at] for at in order if order.count(at) > 1), None)
    if missing or twice is not None:
        fault = f"leaves out {missing[0]!r}" if missing else f"names {twice!r} twice"
        raise wrong(f"class_graph gives the classes in order, but {fault}: name each of the {len(names)} once.")
    return order


def _numbers(given: Iterable[Any], names: list[str]) -> list[int]:
    """Numbers of classes given by name, or counted from 0 unless all of them are names."""
    classes = list(given)
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


def _edges_of(given: Mapping[Any, Any]) -> Iterable[tuple[Any, Any, Any]]:
    """Edges of a dict of pairs, or of the neighbours of each class."""
    for key, value in given.items():
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
    given = list(edges)
    for edge in given:
        if not isinstance(edge, tuple | list) or len(edge) not in (2, 3):
            raise InputTypeError(
                f"class_graph must be {_FORMS}; {edge!r} is no edge (class, class[, weight]).", "class_graph"
            )
    ends = np.reshape(_numbers([end for edge in given for end in edge[:2]], names), (-1, 2)).tolist()
    for edge, (one, two) in zip(given, ends, strict=True):
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


def _weight(given: Any, one: str, two: str) -> float:
    if isinstance(given, bool) or not isinstance(given, Real):
        raise InputTypeError(
            f"The class_graph weight of {one!r}, {two!r} must be a number >= 0, not {given!r}.", "class_graph"
        )
    weight = float(given)
    if not np.isfinite(weight) or weight < 0:
        raise wrong(f"The class_graph weight of {one!r}, {two!r} is {weight:g}; it must be a finite number >= 0.")
    return weight


def _from_frame(given: Any, names: list[str]) -> FloatArray:
    rows, columns = [str(name) for name in given.index], [str(name) for name in given.columns]
    if sorted(rows) != sorted(names) or sorted(columns) != sorted(names):
        raise wrong(f"The rows and columns of class_graph must be named by the classes {names}, each once.")
    values = given.to_numpy()
    return _from_matrix(values[np.ix_([rows.index(n) for n in names], [columns.index(n) for n in names])], names)


def _from_matrix(given: Any, names: list[str]) -> FloatArray:
    try:
        graph = np.array(given, dtype=np.float64)
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


def forest_of(ties: FloatArray) -> tuple[IntArray, IntArray] | None:
    """Parent of each class, -1 for roots, and an order with parents first, if the ties form no cycle."""
    n_classes = len(ties)
    neighbours = [np.flatnonzero(row).tolist() for row in ties > 0]
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
    n_edges = sum(len(tied) for tied in neighbours) // 2
    return (parent, np.array(order, dtype=np.int64)) if n_edges == (parent >= 0).sum() else None


def masses_of(ties: FloatArray) -> FloatArray | None:
    """Masses m > 0 with ties ``m_k m_l`` between all classes, if there are any; three classes or more."""
    n_classes = len(ties)
    off = ~np.eye(n_classes, dtype=bool)
    if n_classes < 3 or not (ties[off] > 0).all():
        return None
    masses = np.empty(n_classes)
    for k in range(n_classes):
        one, two = [other for other in range(3) if other != k][:2]
        masses[k] = np.sqrt(ties[k, one] * ties[k, two] / ties[one, two])
    product = np.outer(masses, masses)
    return masses if np.allclose(product[off], ties[off], rtol=1e-14, atol=0.0) else None


def edges_of(graph: FloatArray) -> list[tuple[int, int, float]]:
    """The ties k < l and their weights."""
    one, two = np.nonzero(np.triu(graph, 1))
    return [(int(k), int(other), float(graph[k, other])) for k, other in zip(one, two, strict=True)]
