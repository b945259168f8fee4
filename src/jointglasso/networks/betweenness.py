"""Betweenness of variables: by igraph where it is installed, else by SciPy's shortest paths."""

from __future__ import annotations

from importlib.util import find_spec

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import dijkstra

from jointglasso._optional import require
from jointglasso._typing import FloatArray, IntArray

#: Relative difference below which two paths have one length, as in igraph.
_PATH_TOLERANCE = 1e-10

#: Sources that are treated at once, in arrays (sources, p).
_SOURCES = 512


def betweenness(p: int, first: IntArray, second: IntArray, length: FloatArray) -> FloatArray:
    """Fraction (p,) of the shortest paths between two other variables that pass through each variable.

    `first`, `second` and `length` (m,) are the ends and the lengths of the edges. By igraph where it is installed.
    """
    if len(first) == 0 or p < 3:
        return np.zeros(p)
    if find_spec("igraph") is not None:
        igraph = require("igraph", "igraph")
        graph = igraph.Graph(n=p, edges=np.column_stack([first, second]).tolist())
        passing = np.array(graph.betweenness(weights=length.tolist()))
    else:
        passing = _brandes(p, first, second, length)
    return passing * (2.0 / ((p - 1) * (p - 2)))


def _brandes(p: int, first: IntArray, second: IntArray, length: FloatArray) -> FloatArray:
    """Number of shortest paths through each variable, by the algorithm of Brandes for blocks of sources at once.

    Step r treats the r-th nearest variable of every source.
    """
    edges = sparse.csr_array((np.tile(length, 2), (np.r_[first, second], np.r_[second, first])), shape=(p, p))
    passing = np.zeros(p)
    for start in range(0, p, _SOURCES):
        sources = np.arange(start, min(start + _SOURCES, p))
        distance = dijkstra(edges, indices=sources)
        order = np.argsort(distance, axis=1, kind="stable")
        n_paths, dependency = np.zeros(distance.shape), np.zeros(distance.shape)
        n_paths[np.arange(len(sources)), sources] = 1.0
        n_reached = np.isfinite(distance).sum(axis=1)
        steps = range(int(n_reached.max()))
        for rank in steps:
            row, node, target = _successors(edges, distance, np.flatnonzero(n_reached > rank), order[:, rank])
            n_paths[row, target] += n_paths[row, node]
        for rank in reversed(steps[1:]):
            row, node, target = _successors(edges, distance, np.flatnonzero(n_reached > rank), order[:, rank])
            fraction = n_paths[row, node] / n_paths[row, target] * (1.0 + dependency[row, target])
            dependency[np.arange(len(sources)), order[:, rank]] += np.bincount(row, fraction, len(sources))
        passing += dependency.sum(axis=0)
    return passing / 2.0


def _successors(
    edges: sparse.csr_array, distance: FloatArray, rows: IntArray, nodes: IntArray
) -> tuple[IntArray, IntArray, IntArray]:
    """Row, node and neighbour of the edges on which a shortest path leaves the node of each row."""
    degree = np.diff(edges.indptr)[nodes[rows]]
    row = np.repeat(rows, degree)
    entry = np.arange(len(row)) + np.repeat(edges.indptr[nodes[rows]] - np.cumsum(degree) + degree, degree)
    node, target = nodes[row], edges.indices[entry]
    reached = distance[row, target]
    on_path = np.abs(distance[row, node] + edges.data[entry] - reached) <= _PATH_TOLERANCE * reached
    return row[on_path], node[on_path], target[on_path]
