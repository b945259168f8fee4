"""Betweenness of variables: by igraph where it is installed, else by SciPy's shortest paths."""

from __future__ import annotations

from importlib.util import find_spec

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import dijkstra

from jointglasso._optional import require
from jointglasso._typing import BoolArray, FloatArray, IntArray

#: Relative difference below which two paths have one length, as in igraph.
_PATH_TOLERANCE = 1e-10

#: Sources that are treated at once, in arrays (sources, p).
_SOURCES = 256


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

    Step r treats the r-th nearest variable of every source. Neighbours (p, d) are padded with the index p, whose
    distance is infinite.
    """
    edges = sparse.csr_array((np.tile(length, 2), (np.r_[first, second], np.r_[second, first])), shape=(p, p))
    degree = np.diff(edges.indptr)
    slot = np.arange(edges.nnz) - np.repeat(edges.indptr[:-1], degree)
    neighbour, weight = np.full((p, degree.max()), p), np.full((p, degree.max()), np.inf)
    ends = np.repeat(np.arange(p), degree)
    neighbour[ends, slot], weight[ends, slot] = edges.indices, edges.data
    passing = np.zeros(p)
    for start in range(0, p, _SOURCES):
        sources = np.arange(start, min(start + _SOURCES, p))
        row = np.arange(len(sources))
        distance = np.pad(dijkstra(edges, indices=sources), ((0, 0), (0, 1)), constant_values=np.inf)
        order = np.argsort(distance[:, :p], axis=1, kind="stable")
        n_paths, dependency = np.zeros(distance.shape), np.zeros(distance.shape)
        n_paths[row, sources] = 1.0
        n_reached = int(np.isfinite(distance).sum(axis=1).max())
        for rank in range(n_reached):
            node = order[:, rank]
            target, on_path = neighbour[node], _on_path(distance, row, node, neighbour, weight)
            n_paths[row[:, None], target] += np.where(on_path, n_paths[row, node][:, None], 0.0)
        for rank in range(n_reached - 1, 0, -1):
            node = order[:, rank]
            target, on_path = neighbour[node], _on_path(distance, row, node, neighbour, weight)
            behind = (1.0 + dependency[row[:, None], target]) / np.maximum(n_paths[row[:, None], target], 1.0)
            dependency[row, node] = n_paths[row, node] * np.where(on_path, behind, 0.0).sum(axis=1)
        passing += dependency[:, :p].sum(axis=0)
    return passing / 2.0


def _on_path(distance: FloatArray, row: IntArray, node: IntArray, neighbour: IntArray, weight: FloatArray) -> BoolArray:
    """Whether a shortest path of each source leads from its node to each neighbour (sources, d)."""
    reached = distance[row[:, None], neighbour[node]]
    with np.errstate(invalid="ignore"):  # infinite minus infinite, where no path leads
        detour = distance[row, node][:, None] + weight[node] - reached
        return np.asarray((np.abs(detour) <= _PATH_TOLERANCE * reached) & np.isfinite(reached))
