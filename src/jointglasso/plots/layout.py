"""Positions for the variables of a network: every component by itself, then packed side by side.

A component is laid out by sparse stress (distances in the picture near to those in the graph): a start from the
distances to a few pivots, then each node is moved to where its neighbours and the pivots want it. Everything is
deterministic.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from jointglasso._typing import FloatArray, IntArray

#: Nodes that stand for all the others in the long distances of a component: so many, or fewer in a very big one.
N_PIVOTS = 120
LEAST_PIVOTS = 30
MOST_DISTANCES = 400_000
N_ITERATIONS = 80

#: Room around a component, and width of the columns in which components are packed.
MARGIN = 0.8
STEP = 0.4


def network_layout(first: IntArray, second: IntArray, n_nodes: int, aspect: float = 1.3) -> FloatArray:
    """Lay out a graph.

    Parameters
    ----------
    first, second : int arrays
        Ends of the edges, each pair once.
    n_nodes : int
        Number of nodes, those without edges included.
    aspect : float
        Wanted width by height of the whole picture.

    Returns
    -------
    array (n_nodes, 2)
        Positions; neighbouring nodes are about 1 apart.
    """
    from scipy import sparse
    from scipy.sparse import csgraph

    lengths = sparse.coo_array((edge_lengths(first, second, n_nodes), (first, second)), shape=(n_nodes, n_nodes))
    graph = sparse.csr_array(lengths + lengths.T)
    _, label = csgraph.connected_components(graph, directed=False)
    order = np.argsort(label, kind="stable")
    members = np.split(order, np.flatnonzero(np.diff(label[order])) + 1)
    pieces = [component_layout(graph[nodes][:, nodes]) if len(nodes) > 1 else np.zeros((1, 2)) for nodes in members]
    corners = pack(pieces, aspect)
    positions = np.empty((n_nodes, 2))
    for nodes, piece, corner in zip(members, pieces, corners, strict=True):
        positions[nodes] = piece - piece.min(axis=0) + corner + MARGIN
    return positions


def edge_lengths(first: IntArray, second: IntArray, n_nodes: int) -> FloatArray:
    """Wanted length of each edge: longer where the ends have many neighbours that are not common to both.

    With equal lengths the neighbours of a hub would all have to sit at the same distance from it, one on another.
    """
    from scipy import sparse

    ones = np.ones(len(first))
    upper = sparse.coo_array((ones, (first, second)), shape=(n_nodes, n_nodes))
    adjacency = sparse.csr_array(upper + upper.T)
    degree = np.asarray(adjacency.sum(axis=0))
    common = np.asarray(adjacency[first].multiply(adjacency[second]).sum(axis=1)).ravel() if len(first) else ones
    return np.sqrt(np.maximum(1.0, degree[first] + degree[second] - 2.0 * common - 1.0))


def component_layout(graph: Any) -> FloatArray:
    """Positions of the nodes of one connected graph whose weights are lengths, the long side lying flat."""
    n = graph.shape[0]
    if n == 2:
        return np.array([[0.0, 0.0], [1.0, 0.0]])
    n_pivots = min(n, N_PIVOTS, max(LEAST_PIVOTS, MOST_DISTANCES // n))
    distance, pivots = pivot_distances(graph, n_pivots)
    X = _pivot_scaling(distance)
    X = _reduce_stress(X, graph, distance, pivots)
    X = _spread_to_scale(X)
    return _lying_flat(_push_apart(X))


def pivot_distances(graph: Any, n_pivots: int) -> tuple[FloatArray, IntArray]:
    """Distances (n, n_pivots) in the graph from pivots, each the node farthest from those before it."""
    from scipy.sparse import csgraph

    n = graph.shape[0]
    pivots = np.zeros(n_pivots, dtype=np.int64)
    pivots[0] = int(np.argmax(np.diff(graph.indptr)))
    distance = np.empty((n, n_pivots))
    nearest = np.full(n, np.inf)
    for k in range(n_pivots):
        if k:
            pivots[k] = int(np.argmax(nearest))
        distance[:, k] = csgraph.dijkstra(graph, directed=False, indices=pivots[k])
        nearest = np.minimum(nearest, distance[:, k])
    return distance, pivots


def _pivot_scaling(distance: FloatArray) -> FloatArray:
    """Classical scaling of the distances to pivots; the start of the iteration."""
    squared = distance**2
    centred = squared - squared.mean(axis=0) - squared.mean(axis=1, keepdims=True) + squared.mean()
    _, vectors = np.linalg.eigh(centred.T @ centred)
    X = -0.5 * centred @ vectors[:, -2:][:, ::-1]
    X *= distance.mean() / max(np.abs(X).mean(), 1e-12)
    # Nodes that no pivot tells apart would stay on one another for ever.
    noise = np.random.default_rng(0).normal(size=X.shape)
    return X + 0.05 * distance.mean() * noise


def _reduce_stress(X: FloatArray, graph: Any, distance: FloatArray, pivots: IntArray) -> FloatArray:
    """Move every node to the weighted mean of the places its neighbours and the pivots want it at.

    A pivot speaks for the nodes nearest to it: its weight is the number of those that are not farther from it than
    half way (the sparse stress model of Ortmann, Klimenta and Brandes, 2017).
    """
    edges = graph.tocoo()
    row, column, length = edges.row, edges.col, edges.data
    n = len(X)
    region = np.argmin(distance, axis=1)
    weight = np.empty_like(distance)
    for k in range(len(pivots)):
        own = np.sort(distance[region == k, k])
        weight[:, k] = np.searchsorted(own, distance[:, k] / 2, side="right")
    weight /= np.maximum(distance, 1e-12) ** 2
    weight[distance == 0] = 0.0
    tie = 1.0 / length**2
    total = weight.sum(axis=1) + np.bincount(row, weights=tie, minlength=n)
    for step in range(N_ITERATIONS):
        moved = np.empty_like(X)
        toward = X[:, None, :] - X[pivots]
        stretch = distance / np.maximum(np.hypot(toward[..., 0], toward[..., 1]), 1e-9)
        across = X[row] - X[column]
        pull = length / np.maximum(np.hypot(across[:, 0], across[:, 1]), 1e-9)
        for axis in range(2):
            wanted = (weight * (X[pivots, axis] + stretch * toward[..., axis])).sum(axis=1)
            near = tie * (X[column, axis] + pull * across[:, axis])
            moved[:, axis] = (wanted + np.bincount(row, weights=near, minlength=n)) / total
        damping = 0.5 if step < N_ITERATIONS - 20 else 0.3
        X = X + (1 - damping) * (moved - X)
    return X


def _spread_to_scale(X: FloatArray) -> FloatArray:
    """Make the typical distance to the nearest node about 1."""
    from scipy.spatial import cKDTree

    nearest = cKDTree(X).query(X, k=2)[0][:, 1]
    return (X - X.mean(axis=0)) / max(np.median(nearest), 1e-9)


def _push_apart(X: FloatArray, least: float = 1.1) -> FloatArray:
    """Separate nodes that lie nearly on one another, a little in each round."""
    from scipy.spatial import cKDTree

    X = X.copy()
    for _ in range(60):
        pairs = cKDTree(X).query_pairs(least, output_type="ndarray")
        if len(pairs) == 0:
            break
        one, two = pairs[np.lexsort((pairs[:, 1], pairs[:, 0]))].T
        across = X[one] - X[two]
        gap = np.maximum(np.hypot(*across.T), 1e-9)
        push = (0.5 * (least - gap) / gap)[:, None] * across
        np.add.at(X, one, 0.6 * push)
        np.add.at(X, two, -0.6 * push)
    return X


def _lying_flat(X: FloatArray) -> FloatArray:
    """Turn so that the longest direction is horizontal, and choose among mirror images by a rule."""
    X = X - X.mean(axis=0)
    _, vectors = np.linalg.eigh(X.T @ X)
    X = X @ vectors[:, ::-1]
    return X * np.where((X**3).sum(axis=0) < 0, -1.0, 1.0)


def pack(pieces: list[FloatArray], aspect: float) -> FloatArray:
    """Corners for the pieces, biggest first, each as low as its lower outline fits on what lies there already."""
    sizes = np.array([np.ptp(piece, axis=0) + 2 * MARGIN for piece in pieces])
    wanted = np.sqrt(1.05 * sizes.prod(axis=1).sum() * aspect)
    n_columns = int(np.ceil(max(sizes[:, 0].max(), wanted) / STEP)) + 1
    skyline = np.zeros(n_columns)
    corners = np.empty((len(pieces), 2))
    for i in np.lexsort((np.arange(len(pieces)), -sizes.prod(axis=1))):
        bottom, top = _outline(pieces[i])
        span = len(bottom)
        windows = np.lib.stride_tricks.sliding_window_view(skyline, span)
        heights = (windows - bottom).max(axis=1)
        at = int(np.argmin(heights))
        corners[i] = (at * STEP, heights[at])
        skyline[at : at + span] = heights[at] + top
    return corners


def _outline(piece: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Lower and upper edge of the convex hull of a piece with its margin, column by column.

    The hull, not the nodes: lines between nodes stay within it.
    """
    shifted = piece - piece.min(axis=0) + MARGIN
    square = MARGIN * np.array([[-1, -1], [-1, 1], [1, -1], [1, 1]])
    points = (shifted[:, None, :] + square).reshape(-1, 2)
    at = (np.arange(int(np.ceil(points[:, 0].max() / STEP))) + 0.5) * STEP
    lower, upper = _lower_hull(points), _lower_hull(points * (1, -1)) * (1, -1)
    return np.interp(at, *lower.T), np.interp(at, *upper.T)


def _lower_hull(points: FloatArray) -> FloatArray:
    """Corners of the lower side of the convex hull, from left to right (Andrew's monotone chain)."""
    hull: list[FloatArray] = []
    for point in points[np.lexsort((points[:, 1], points[:, 0]))]:
        while len(hull) > 1 and _turns_right(hull[-2], hull[-1], point):
            hull.pop()
        hull.append(point)
    # Of the points above one another at either end only the lowest is a corner.
    corners = np.array(hull)
    keep = np.concatenate([[True], np.diff(corners[:, 0]) > 0])
    return corners[keep]


def _turns_right(one: FloatArray, two: FloatArray, three: FloatArray) -> bool:
    return bool((two[0] - one[0]) * (three[1] - one[1]) - (two[1] - one[1]) * (three[0] - one[0]) <= 0)
