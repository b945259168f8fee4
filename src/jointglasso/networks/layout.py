"""One set of coordinates for all classes: a variable stands at the same place in every network.

Components of the union of the networks are laid out one by one and packed beside each other, biggest first. Within a
component an embedding gives the rough shape and a force model (springs on edges, repulsion between all variables) the
final one. The embedding is by distances in the graph where that is nearly a tree, which unfolds it, and spectral
elsewhere, which parts modules. Nothing is random but a fixed tiny jitter, so the same networks give the same picture.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components, dijkstra
from scipy.spatial import cKDTree

from jointglasso._typing import FloatArray, IntArray
from jointglasso.networks.edge_list import upper_entries

#: Biggest component whose repulsion is summed over all pairs, and whose eigenvectors come from a dense solver.
_EXACT_LIMIT = 400

#: Edges per variable up to which a component counts as nearly a tree.
_TREE_LIKE = 1.5

#: Variables whose distances to all others place a component that is nearly a tree.
_N_PIVOTS = 50

#: Distance that variables near each other keep, the unit of the layout.
_SPACING = 1.0

#: Width of the packed picture divided by its height.
_ASPECT = 1.25


def common_layout(precision: Sequence[Any], strength: float = 0.0) -> FloatArray:
    """Coordinates (p, 2) of the variables, the same for all classes, from their precision matrices.

    Variables near each other are about 1 apart; variables without an edge stand in rows below the rest, where the
    second coordinate counts downwards as on screens. Edges whose partial correlation is smaller than `strength` in
    every class do not shape the picture: variables that have only such edges stand near their neighbours.
    """
    everything = union_weights(precision)
    weights = _strong(everything, precision, strength) if strength > 0 else everything
    _, component = connected_components(weights, directed=False)
    order = np.argsort(component, kind="stable")
    members = np.split(order, np.flatnonzero(np.diff(component[order])) + 1)
    members.sort(key=lambda nodes: (-len(nodes), nodes[0]))
    connected = [nodes for nodes in members if len(nodes) > 1]
    pieces = [_layout_component(weights[nodes][:, nodes]) for nodes in connected]
    alone = np.array([nodes[0] for nodes in members if len(nodes) == 1], dtype=np.int64)
    linked = np.diff(everything.indptr)[alone] > 0
    place = _pack(weights.shape[0], connected, pieces, alone[~linked])
    return _beside_neighbours(place, alone[linked], everything) if linked.any() else place


def union_weights(precision: Sequence[Any]) -> Any:
    """Sum over the classes of |partial correlation|, a sparse matrix without diagonal."""
    n_variables = precision[0].shape[0]
    total = sparse.csr_array((n_variables, n_variables))
    for matrix in precision:
        total = total + _strengths(matrix)
    return sparse.csr_array(total)


def _strengths(matrix: Any) -> Any:
    """|partial correlation| of one class, a sparse matrix without diagonal."""
    row, column, _, partial = upper_entries(sparse.coo_array(matrix))
    upper = sparse.csr_array((np.abs(partial), (row, column)), shape=matrix.shape)
    return upper + upper.T


def _strong(weights: Any, precision: Sequence[Any], strength: float) -> Any:
    """Keep the weights of pairs that are strong in some class."""
    strongest = _strengths(precision[0])
    for matrix in precision[1:]:
        strongest = strongest.maximum(_strengths(matrix))
    strongest.data = (strongest.data >= strength).astype(np.float64)
    kept = sparse.csr_array(weights.multiply(strongest))
    kept.eliminate_zeros()
    return kept


def _beside_neighbours(place: FloatArray, loose: IntArray, weights: Any) -> FloatArray:
    """Place the loose variables among their neighbours, then push apart."""
    placed = np.ones(len(place), dtype=bool)
    placed[loose] = False
    middle = place[placed].mean(axis=0) if placed.any() else np.zeros(2)
    pending = loose
    while len(pending):
        links = weights[pending] * placed
        total = np.asarray(links.sum(axis=1)).ravel()
        ready = total > 0
        if not ready.any():  # tied to one another only
            place[pending] = middle
            break
        place[pending[ready]] = (links @ place)[ready] / total[ready, None]
        placed[pending[ready]] = True
        pending = pending[~ready]
    place[loose] += np.random.default_rng(0).normal(scale=0.7 * _SPACING, size=(len(loose), 2))
    free = np.zeros(len(place))
    free[loose] = 1.0
    return _parted(place, free, n_rounds=30)


def _layout_component(weights: Any) -> FloatArray:
    """Coordinates of a connected component, centred at zero."""
    n = weights.shape[0]
    if n == 2:
        return np.array([[-0.5, 0.0], [0.5, 0.0]]) * _SPACING
    # The strongest edges would pull their ends onto each other and the weakest not count; the root evens them.
    springs = sparse.csr_array(weights)
    springs.data = np.sqrt(springs.data / springs.data.max())
    tree_like = springs.nnz / 2 <= _TREE_LIKE * n
    start = _distance_start(springs) if tree_like else _spectral_start(springs)
    position = _relax(start * math.sqrt(n) * _SPACING, springs)
    return _lying_down(_spaced(position if tree_like else _evened(position)))


def _distance_start(springs: Any) -> FloatArray:
    """Classical scaling of the numbers of edges between each variable and a few pivots far from one another."""
    n = springs.shape[0]
    n_pivots = min(n, _N_PIVOTS)
    steps = np.empty((n, n_pivots))
    pivot, nearest = int(np.diff(springs.indptr).argmax()), np.full(n, np.inf)
    for k in range(n_pivots):
        steps[:, k] = dijkstra(springs, unweighted=True, indices=pivot)
        nearest = np.minimum(nearest, steps[:, k])
        pivot = int(nearest.argmax())
    squared = steps**2
    centred = squared - squared.mean(axis=0) - squared.mean(axis=1, keepdims=True) + squared.mean()
    vectors = np.linalg.eigh(centred.T @ centred)[1][:, [-1, -2]]
    place = centred @ _signed(vectors)
    return _jittered(place / max(float(np.abs(place).max()), 1e-12))


def _spectral_start(springs: Any) -> FloatArray:
    """Second and third eigenvector of the normalised adjacency."""
    n = springs.shape[0]
    root_degree = np.sqrt(np.asarray(springs.sum(axis=1)).ravel())
    scaling = sparse.diags_array(1.0 / root_degree)
    normalised = scaling @ springs @ scaling
    if n <= _EXACT_LIMIT:
        vectors = np.linalg.eigh(normalised.toarray())[1][:, [-2, -3]]
    else:
        values, found = sparse.linalg.eigsh(normalised, k=3, which="LA", v0=root_degree, tol=1e-3)
        vectors = found[:, np.argsort(values)[[1, 0]]]
    vectors = vectors / root_degree[:, None]
    vectors = _signed(vectors)
    # Ranks, mixed in, keep a few far leaves from squeezing all others into one point.
    ranks = vectors.argsort(axis=0, kind="stable").argsort(axis=0, kind="stable") / n - 0.5
    vectors = 0.5 * vectors / np.maximum(np.abs(vectors).max(axis=0), 1e-12) + 0.5 * ranks
    return _jittered(vectors)


def _signed(vectors: FloatArray) -> FloatArray:
    """Fix the free sign of eigenvectors, which would otherwise depend on the linear algebra library."""
    return np.asarray(vectors * np.where(vectors[np.abs(vectors).argmax(axis=0), [0, 1]] < 0, -1.0, 1.0))


def _jittered(place: FloatArray) -> FloatArray:
    """Part what coincides by a little noise, always the same."""
    return np.asarray(place + np.random.default_rng(0).normal(scale=0.02, size=place.shape))


def _relax(position: FloatArray, springs: Any) -> FloatArray:
    """Force model: steps along springs and repulsion whose length is limited, and the limit shrinks."""
    n = len(position)
    edges = sparse.coo_array(sparse.triu(springs, k=1))
    row, column, strength = edges.row, edges.col, edges.data
    degree = np.bincount(np.concatenate([row, column]), minlength=n)
    # Hubs push harder, so that leaves stand around them instead of inside a knot.
    mass = 1.0 + np.sqrt(degree)
    n_steps = 180 if n <= _EXACT_LIMIT else 110 if n <= 5000 else 60
    for step in range(n_steps):
        limit = 0.12 * math.sqrt(n) * _SPACING * (1.0 - step / n_steps) ** 1.5 + 0.01
        exact = n <= _EXACT_LIMIT
        force = _push_from(position, mass, position, mass, 1e-3) if exact else _repulsion_by_cells(position, mass)
        pull = strength[:, None] * (position[column] - position[row])
        force += _opposite_sums(row, column, pull, n)
        force -= 0.02 * mass[:, None] * position  # a weak pull to the middle keeps long arms on the page
        length = np.sqrt((force**2).sum(axis=1))
        position = position + force * (np.minimum(length, limit) / np.maximum(length, 1e-12))[:, None]
    return position


def _opposite_sums(first: IntArray, second: IntArray, arrow: FloatArray, n: int) -> FloatArray:
    """Sum for each of n variables the arrows of its pairs: as they are where it is first, reversed where second."""
    along = [np.bincount(first, arrow[:, axis], n) - np.bincount(second, arrow[:, axis], n) for axis in range(2)]
    return np.stack(along, axis=1)


def _push_from(
    position: FloatArray, mass: FloatArray, source: FloatArray, source_mass: FloatArray, softening: float
) -> FloatArray:
    """Force ``mass_i mass_j delta / (|delta|^2 + softening)`` on each position, summed over the sources."""
    # Single precision is plenty for a picture and twice as fast.
    here, there = position.astype(np.float32), source.astype(np.float32)
    squared = (here**2).sum(axis=1)[:, None] + (there**2).sum(axis=1) - 2 * here @ there.T
    share = source_mass.astype(np.float32) / (np.maximum(squared, 0) + np.float32(softening))
    return np.asarray(mass[:, None] * (here * share.sum(axis=1)[:, None] - share @ there), dtype=np.float64)


def _repulsion_by_cells(position: FloatArray, mass: FloatArray) -> FloatArray:
    """Far away the centres of mass of grid cells act, nearby single variables."""
    low, high = position.min(axis=0), position.max(axis=0)
    n_side = 16
    width = np.maximum((high - low) / n_side, 1e-9)
    cell = np.minimum(((position - low) / width).astype(np.int64), n_side - 1) @ np.array([n_side, 1])
    used, cell = np.unique(cell, return_inverse=True)
    cell_mass: FloatArray = np.bincount(cell, mass, len(used)).astype(float)
    centre = np.stack([np.bincount(cell, mass * position[:, d], len(used)) / cell_mass for d in range(2)], axis=1)
    force = _push_from(position, mass, centre, cell_mass, 0.25 * float(width @ width))
    near = cKDTree(position).query_pairs(1.5 * _SPACING, output_type="ndarray")
    if len(near):
        first, second = near.T
        gap = position[first] - position[second]
        push = gap * (mass[first] * mass[second] / ((gap**2).sum(axis=1) + 1e-3))[:, None]
        force += _opposite_sums(first, second, push, len(mass))
    return force


def _spaced(position: FloatArray) -> FloatArray:
    """Scale to the usual distance between neighbours, then push apart the pairs that are still too near."""
    nearest = cKDTree(position).query(position, k=2)[0][:, 1]
    position = position * (_SPACING / max(float(np.quantile(nearest, 0.8)), 1e-9))
    # Leaves crowd around their hubs while the rest of the page is empty: take some of that room.
    n_rounds = 40 if len(position) <= _EXACT_LIMIT else 12
    return _parted(position, np.ones(len(position)), n_rounds)


def _parted(position: FloatArray, free: FloatArray, n_rounds: int) -> FloatArray:
    """Push apart pairs nearer than the usual distance; variables of which `free` is 0 stay where they are."""
    for _ in range(n_rounds):
        close = cKDTree(position).query_pairs(_SPACING, output_type="ndarray")
        if not len(close):
            break
        first, second = close.T
        gap = position[first] - position[second]
        length = np.sqrt((gap**2).sum(axis=1))
        shift = gap * (0.35 * (_SPACING - length) / np.maximum(length, 1e-6))[:, None]
        position = position + free[:, None] * _opposite_sums(first, second, shift, len(position))
    return position


def _evened(position: FloatArray) -> FloatArray:
    """Centre, and move half of the way to an evenly filled disc, so that a few far leaves do not shrink the rest."""
    centred = position - np.median(position, axis=0)
    radius = np.sqrt((centred**2).sum(axis=1))
    rank = radius.argsort(kind="stable").argsort(kind="stable")
    even = radius.max() * np.sqrt((rank + 1.0) / len(rank))
    return np.asarray(centred * (0.5 * (1.0 + even / np.maximum(radius, 1e-9)))[:, None])


def _lying_down(position: FloatArray) -> FloatArray:
    """Turn the longest direction to the horizontal and stretch it, since screens are wider than high."""
    centred = position - position.mean(axis=0)
    axes = _signed(np.linalg.eigh(centred.T @ centred)[1][:, ::-1])
    return np.asarray(centred @ axes * [_ASPECT, 1.0])


def _pack(n_variables: int, members: Sequence[IntArray], pieces: list[FloatArray], alone: IntArray) -> FloatArray:
    """Put the pieces into rows, left to right and top to bottom, and the variables without edges below them."""
    sizes = [np.ptp(piece, axis=0) + 2.0 * _SPACING for piece in pieces]
    area = sum(float(size.prod()) for size in sizes) + len(alone) * _SPACING**2
    narrowest = max([math.sqrt(_ASPECT * area), *(float(size[0]) for size in sizes)])
    # Of pages somewhat wider than the area asks for, the one whose rows leave least of a panel empty.
    pages = [narrowest * factor for factor in (1.0, 1.15, 1.3, 1.5, 1.75, 2.0)]
    page = min(pages, key=lambda width: max(_extent(sizes, width) * (1.0, _ASPECT)))
    result = np.zeros((n_variables, 2))
    corners = _corners(sizes, page)
    for nodes, piece, corner in zip(members, pieces, corners, strict=True):
        result[nodes] = piece - piece.min(axis=0) + corner + _SPACING
    per_row = max(1, int(page / _SPACING))
    number = np.arange(len(alone))
    below = float(_extent(sizes, page)[1])
    result[alone, 0] = (number % per_row + 0.5) * _SPACING
    result[alone, 1] = below + (number // per_row + 1.0) * _SPACING
    return result


def _corners(sizes: Sequence[FloatArray], page: float) -> list[tuple[float, float]]:
    """Upper left corners of rectangles in rows that are at most as wide as the page."""
    corners = []
    x = y = row_height = 0.0
    for width, height in sizes:
        if x > 0 and x + width > page:
            x, y, row_height = 0.0, y + row_height, 0.0
        corners.append((x, y))
        x, row_height = x + float(width), max(row_height, float(height))
    return corners


def _extent(sizes: Sequence[FloatArray], page: float) -> FloatArray:
    """Width and height that the rows take."""
    corners = _corners(sizes, page)
    if not corners:
        return np.zeros(2)
    return np.asarray((np.array(corners) + np.array(sizes)).max(axis=0))
