"""One set of coordinates for all classes: a variable has one position in the figures of every network.

Components of the union of the networks are laid out one by one and packed in rows, largest first. Within a component,
classical scaling of graph distances to a few pivots gives the start and a force model (springs on edges, repulsion
between all variables) the final positions. The jitter is seeded: equal networks give equal figures.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import dijkstra
from scipy.spatial import cKDTree

from jointglasso._sparse import components_of
from jointglasso._typing import FloatArray, IntArray
from jointglasso.networks.edge_list import partial_correlation_matrix

#: Largest component whose repulsion is summed over all pairs.
_EXACT_LIMIT = 400

#: Variables whose graph distances to all others give the start.
_N_PIVOTS = 50

#: Distance between neighbouring variables, the unit of the layout.
_SPACING = 1.0

#: Width of the packed figure divided by its height.
_ASPECT = 1.25


def common_layout(precision: Sequence[Any], strength: float = 0.0) -> FloatArray:
    """Coordinates (p, 2) of the variables, equal for all classes, from their precision matrices.

    Neighbouring variables have a distance of about 1; variables without an edge form rows below the rest, where the
    second coordinate counts downwards as on screens. Edges whose partial correlation is below `strength` in every class
    exert no force, except the strongest edge of a variable.
    """
    springs = union_weights(precision)
    if strength > 0:
        springs = _shaping(springs, precision, strength)
    connected = sorted(components_of(springs), key=lambda nodes: (-len(nodes), nodes[0]))
    isolated = np.setdiff1d(np.arange(springs.shape[0]), np.concatenate([*connected, []]))
    pieces = [_layout_component(springs[nodes][:, nodes]) for nodes in connected]
    return _pack(springs.shape[0], connected, pieces, isolated)


def union_weights(precision: Sequence[Any]) -> Any:
    """Sum over the classes of |partial correlation|, a sparse matrix (p, p) without diagonal."""
    empty = sparse.csr_array(precision[0].shape)
    return sparse.csr_array(sum((abs(partial_correlation_matrix(Theta)) for Theta in precision), empty))


def _shaping(weights: Any, precision: Sequence[Any], strength: float) -> Any:
    """Weights of the pairs whose largest |partial correlation| over the classes is at least `strength`.

    Of a variable without such a pair the strongest one stays.
    """
    by_class = (abs(partial_correlation_matrix(Theta)) for Theta in precision)
    strongest = reduce(lambda one, other: one.maximum(other), by_class).tocoo()
    largest = strongest.max(axis=1).toarray()
    limit = np.minimum(strength, np.minimum(largest[strongest.row], largest[strongest.col]))
    strongest.data = (strongest.data >= limit).astype(np.float64)
    strong = sparse.csr_array(weights.multiply(strongest))
    strong.eliminate_zeros()
    return strong


def _layout_component(weights: Any) -> FloatArray:
    """Coordinates of a connected component, centred at zero."""
    n = weights.shape[0]
    if n == 2:
        return np.array([[-0.5, 0.0], [0.5, 0.0]]) * _SPACING
    # The root evens the weights: the strongest edges would otherwise pull their ends onto each other.
    springs = sparse.csr_array(weights)
    springs.data = np.sqrt(springs.data / springs.data.max())
    position = _relax(_distance_start(springs) * math.sqrt(n) * _SPACING, springs)
    nearest = cKDTree(position).query(position, k=2)[0][:, 1]
    position = position * (_SPACING / max(float(np.quantile(nearest, 0.8)), 1e-9))
    position = _separate(position, 40 if n <= _EXACT_LIMIT else 12)
    # The longest direction becomes the horizontal and is stretched, since screens are wider than high.
    centred = position - position.mean(axis=0)
    return np.asarray(centred @ _signed(np.linalg.eigh(centred.T @ centred)[1][:, ::-1]) * [_ASPECT, 1.0])


def _distance_start(springs: Any) -> FloatArray:
    """Classical scaling of the numbers of edges between each variable and pivots far from one another."""
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
    start = centred @ _signed(np.linalg.eigh(centred.T @ centred)[1][:, [-1, -2]])
    jitter = np.random.default_rng(0).normal(scale=0.02, size=(n, 2))
    return np.asarray(start / max(float(np.abs(start).max()), 1e-12) + jitter)


def _signed(vectors: FloatArray) -> FloatArray:
    """Fix the free sign of eigenvectors, which would otherwise depend on the linear algebra library."""
    return np.asarray(vectors * np.where(vectors[np.abs(vectors).argmax(axis=0), [0, 1]] < 0, -1.0, 1.0))


def _relax(position: FloatArray, springs: Any) -> FloatArray:
    """Force model: steps along springs and repulsion, their length bounded by a shrinking limit."""
    n = len(position)
    edges = sparse.coo_array(sparse.triu(springs, k=1))
    row, column, strength = edges.row, edges.col, edges.data
    # Hubs repel more, so that leaves surround them rather than crowd together.
    mass = 1.0 + np.sqrt(np.bincount(np.concatenate([row, column]), minlength=n))
    n_steps = 180 if n <= _EXACT_LIMIT else 110 if n <= 5000 else 60
    for step in range(n_steps):
        limit = 0.12 * math.sqrt(n) * _SPACING * (1.0 - step / n_steps) ** 1.5 + 0.01
        exact = n <= _EXACT_LIMIT
        force = _repulsion(position, mass, position, mass, 1e-3) if exact else _repulsion_by_cells(position, mass)
        force += _net_sums(row, column, strength[:, None] * (position[column] - position[row]), n)
        force -= 0.02 * mass[:, None] * position  # a weak pull to the centre keeps long arms on the page
        length = np.sqrt((force**2).sum(axis=1))
        position = position + force * (np.minimum(length, limit) / np.maximum(length, 1e-12))[:, None]
    return position


def _net_sums(first: IntArray, second: IntArray, vectors: FloatArray, n: int) -> FloatArray:
    """Sums (n, 2) over pairs of their vectors, positive for the first variable and negative for the second."""
    sums = [np.bincount(first, vectors[:, axis], n) - np.bincount(second, vectors[:, axis], n) for axis in range(2)]
    return np.stack(sums, axis=1)


def _repulsion(
    position: FloatArray, mass: FloatArray, source: FloatArray, source_mass: FloatArray, softening: float
) -> FloatArray:
    """Force ``mass_i mass_j delta / (|delta|^2 + softening)`` on each position, summed over the sources."""
    # Single precision suffices for a figure and is twice as fast.
    target, origin = position.astype(np.float32), source.astype(np.float32)
    squared = (target**2).sum(axis=1)[:, None] + (origin**2).sum(axis=1) - 2 * target @ origin.T
    factor = source_mass.astype(np.float32) / (np.maximum(squared, 0) + np.float32(softening))
    return np.asarray(mass[:, None] * (target * factor.sum(axis=1)[:, None] - factor @ origin), dtype=np.float64)


def _repulsion_by_cells(position: FloatArray, mass: FloatArray) -> FloatArray:
    """Repulsion by the centres of mass of grid cells, and by single variables within a short distance."""
    low, high = position.min(axis=0), position.max(axis=0)
    n_side = 16
    width = np.maximum((high - low) / n_side, 1e-9)
    cell = np.minimum(((position - low) / width).astype(np.int64), n_side - 1) @ np.array([n_side, 1])
    used, cell = np.unique(cell, return_inverse=True)
    cell_mass: FloatArray = np.bincount(cell, mass, len(used)).astype(float)
    centre = np.stack([np.bincount(cell, mass * position[:, d], len(used)) / cell_mass for d in range(2)], axis=1)
    force = _repulsion(position, mass, centre, cell_mass, 0.25 * float(width @ width))
    first, second = cKDTree(position).query_pairs(1.5 * _SPACING, output_type="ndarray").reshape(-1, 2).T
    delta = position[first] - position[second]
    factor = mass[first] * mass[second] / ((delta**2).sum(axis=1) + 1e-3)
    return force + _net_sums(first, second, delta * factor[:, None], len(mass))


def _separate(position: FloatArray, n_rounds: int) -> FloatArray:
    """Move pairs nearer than the spacing away from each other."""
    for _ in range(n_rounds):
        close = cKDTree(position).query_pairs(_SPACING, output_type="ndarray")
        if not len(close):
            break
        first, second = close.T
        delta = position[first] - position[second]
        length = np.sqrt((delta**2).sum(axis=1))
        shift = delta * (0.35 * (_SPACING - length) / np.maximum(length, 1e-6))[:, None]
        position = position + _net_sums(first, second, shift, len(position))
    return position


def _pack(n_variables: int, members: Sequence[IntArray], pieces: list[FloatArray], isolated: IntArray) -> FloatArray:
    """Arrange the pieces in rows of one page, and the variables without edges below them."""
    sizes = [np.ptp(piece, axis=0) + 2.0 * _SPACING for piece in pieces]
    area = sum(float(size.prod()) for size in sizes) + len(isolated) * _SPACING**2
    page = max([math.sqrt(1.3 * _ASPECT * area), *(float(size[0]) for size in sizes)])
    position = np.zeros((n_variables, 2))
    x = y = row_height = 0.0
    for nodes, piece, (width, height) in zip(members, pieces, sizes, strict=True):
        if x > 0 and x + width > page:
            x, y, row_height = 0.0, y + row_height, 0.0
        position[nodes] = piece - piece.min(axis=0) + [x, y] + _SPACING
        x, row_height = x + float(width), max(row_height, float(height))
    row, column = np.divmod(np.arange(len(isolated)), max(1, int(page / _SPACING)))
    position[isolated] = np.stack([(column + 0.5) * _SPACING, y + row_height + (row + 1.0) * _SPACING], axis=1)
    return position
