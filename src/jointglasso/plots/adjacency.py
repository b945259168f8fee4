"""Adjacency matrices of all classes, with variables ordered by blocks."""

from __future__ import annotations

from typing import Any

import matplotlib
import numpy as np
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from scipy import sparse
from scipy.sparse.csgraph import connected_components, reverse_cuthill_mckee

from jointglasso._typing import BoolArray, FloatArray, IntArray
from jointglasso._wording import count
from jointglasso.data.checks import InputError
from jointglasso.networks import JointNetworks
from jointglasso.plots import canvas
from jointglasso.screening import Partition

#: Maximum number of cells along a side; with more variables a cell shows the strongest of several entries.
N_CELLS = 250

#: Colour of the blocks of a partition.
_GREY = "#E9E9E9"

#: Maximum number of variables whose names are drawn at the sides.
NAMED = 45

#: Maximum number of variables of a block that are ordered by clustering, whose cost is quadratic.
MAX_CLUSTERED = 4000


@canvas.documented
def plot_adjacency(
    networks: JointNetworks,
    partition: Partition | None = None,
    *,
    isolated: bool = False,
    path: canvas.SavePath = None,
) -> Figure:
    """Draw the partial correlations of each class as a matrix ordered by blocks.

    Parameters
    ----------
    networks : JointNetworks
        Networks to draw.
    partition : Partition, optional
        Blocks of each class, such as ``solution.partition``, which are shaded grey: entries outside them were
        set to zero by screening, before the solve.
    isolated : bool, default False
        Include variables without an edge in any class.
    {saved}

    Examples
    --------
    >>> import jointglasso as jgl
    >>> one = [[2.0, -0.8, 0.0], [-0.8, 2.0, 0.5], [0.0, 0.5, 2.0]]
    >>> two = [[2.0, -0.3, 0.0], [-0.3, 2.0, 0.0], [0.0, 0.0, 2.0]]
    >>> networks = jgl.JointNetworks([one, two], ["ill", "well"], ["a", "b", "c"])
    >>> figure = jgl.plots.plot_adjacency(networks)
    >>> [axes.get_title().splitlines() for axes in figure.axes][:2]
    [['ill', '2 edges'], ['well', '1 edge']]
    """
    labels = None if partition is None else np.asarray(partition.labels)
    if labels is not None and labels.shape != (networks.n_classes, networks.n_variables):
        raise InputError(
            f"partition is of {labels.shape[0]} classes and {labels.shape[1]} variables, the networks of "
            f"{networks.n_classes} and {networks.n_variables}: give the partition of the same problem.",
            "partition",
        )
    order = block_order(networks, labels)
    if not isolated:
        order = order[networks.degree_table[order].any(axis=1)]
    named = 0 < len(order) <= NAMED
    side = (4.2, 4.3) if named else (3.2, 3.35)
    figure, axes = canvas.panels(networks.n_classes, *side, beside=0.8, below=0.2)
    strongest = float(np.abs(networks.edge_list.partial_correlation).max(initial=0.0)) or 1.0
    for k, ax in enumerate(axes):
        image = _draw_matrix(ax, networks, k, order, None if labels is None else labels[k], strongest)
        if named:
            canvas.name_cells(ax, [networks.variable_names[i] for i in order], 7.0 if len(order) <= 20 else 5.0)
            ax.set_xlabel("")
    if labels is not None and len(order):
        patch = Patch(facecolor=_GREY, label="same block in the screening")
        figure.legend(handles=[patch], loc="outside lower center", frameon=False, fontsize=8)
    canvas.colour_bar(figure, image, figure.axes, "partial correlation", 8, shrink=0.6, aspect=30)
    return canvas.finish(figure, path)


def block_order(networks: JointNetworks, labels: IntArray | None = None) -> IntArray:
    """Order of the variables (p,) by connected components and, within these, by hierarchical clustering.

    Connected components of the union of all classes are sorted by size, largest first. Within a component, variables
    with similar neighbours, and in the same blocks (`labels`, (K, p)), are adjacent.
    """
    p = networks.n_variables
    edges = networks.edge_list
    weight = np.abs(edges.partial_correlation)
    upper = sparse.coo_array((weight, (edges.first, edges.second)), shape=(p, p))
    tables = [sparse.csr_array(upper + upper.T + weight.max(initial=1e-12) * sparse.eye_array(p))]
    if labels is not None:
        for row in labels:
            member = (np.ones(p), (np.arange(p), row))
            tables.append(sparse.csr_array(member, shape=(p, int(row.max()) + 1)) * weight.max(initial=1e-12))
    features = sparse.csr_array(sparse.hstack(tables))
    _, outer = connected_components(features @ features.T, directed=False)
    sizes = np.bincount(outer)
    pieces = [np.flatnonzero(outer == block) for block in np.argsort(-sizes, kind="stable") if sizes[block] > 1]
    singletons = np.flatnonzero(sizes[outer] == 1)
    return np.concatenate([*(piece[_similarity_order(features[piece])] for piece in pieces), singletons]).astype(
        np.int64
    )


def _similarity_order(features: Any) -> IntArray:
    """Order of the rows by clustering of their cosines; reverse Cuthill-McKee where there are very many."""
    products = features @ features.T
    if products.shape[0] > MAX_CLUSTERED:
        return np.asarray(reverse_cuthill_mckee(products.tocsr(), symmetric_mode=True))
    scale = 1.0 / np.sqrt(products.diagonal())
    return cluster_order(np.maximum(0.0, 1.0 - products.toarray() * scale[:, None] * scale))


def cluster_order(distance: FloatArray) -> IntArray:
    """Leaf order (p,) of an average-linkage clustering by distances (p, p); the given order where all are equal."""
    from scipy.cluster.hierarchy import leaves_list, linkage
    from scipy.spatial.distance import squareform

    condensed = squareform(distance, checks=False)  # without the diagonal
    if len(distance) < 3 or np.ptp(condensed) == 0:
        return np.arange(len(distance))
    return np.asarray(leaves_list(linkage(condensed, "average")))


def _draw_matrix(
    ax: Any, networks: JointNetworks, k: int, order: IntArray, labels: IntArray | None, strongest: float
) -> Any:
    cells = _cells(networks, k, order)
    n = max(1, len(order))
    shown = {"extent": (0, n, n, 0), "interpolation": "nearest"}
    scale = {"vmin": -strongest, "vmax": strongest, "zorder": 2}
    image = ax.imshow(np.ma.masked_equal(cells, 0.0), cmap=_two_sided_colours(), **scale, **shown)
    if labels is not None and len(order):
        ax.imshow(np.ma.masked_equal(_blocks(labels[order]), False), cmap=ListedColormap([_GREY]), zorder=1, **shown)
    ax.set(xlim=(0, n), ylim=(n, 0), xticks=[], yticks=[], xlabel=f"{len(order):,} variables")
    ax.xaxis.label.set(size=8, color=canvas.INK)
    # On two lines, so that the titles of neighbouring panels cannot run into each other.
    name = networks.class_names[k]
    name = name if len(name) <= 36 else f"{name[:35]}…"
    ax.set_title(canvas.plain(f"{name}\n{count(networks.n_edges[k], 'edge')}"), fontsize=9, color=canvas.INK)
    for spine in ax.spines.values():
        spine.set(color="#BBBBBB", linewidth=0.6)
    return image


def _two_sided_colours() -> Any:
    """Diverging colour map, red to blue, without the pale middle, so that weak entries are visible."""
    colours = matplotlib.colormaps["RdBu"]
    sides = np.concatenate([np.linspace(0.0, 0.3, 64), np.linspace(0.7, 1.0, 64)])
    return ListedColormap(colours(sides))


def _cells(networks: JointNetworks, k: int, order: IntArray) -> FloatArray:
    """Image (n, n) of one class: in each cell the partial correlation of largest absolute value."""
    edges = networks.edge_list
    in_class = edges.class_index == k
    rank = np.full(networks.n_variables, -1)
    rank[order] = np.arange(len(order))
    n_cells = max(1, min(len(order), N_CELLS))
    row = rank[edges.first[in_class]] * n_cells // max(1, len(order))
    column = rank[edges.second[in_class]] * n_cells // max(1, len(order))
    value = edges.partial_correlation[in_class]
    by_size = np.argsort(np.abs(value), kind="stable")  # the strongest is assigned last
    cells = np.zeros((n_cells, n_cells))
    cells[row[by_size], column[by_size]] = value[by_size]
    mirrored = cells.T
    return np.where(np.abs(mirrored) > np.abs(cells), mirrored, cells)


def _blocks(labels: IntArray) -> BoolArray:
    """Image (n, n): pairs of variables within a block of a class; of several variables in a cell the middle one."""
    n_cells = min(len(labels), N_CELLS)
    _, block, size = np.unique(labels, return_inverse=True, return_counts=True)
    shown = block[((np.arange(n_cells) + 0.5) * len(labels) / n_cells).astype(np.int64)]
    return (shown[:, None] == shown) & (size[shown] > 1)
