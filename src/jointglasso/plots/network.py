"""The networks of all classes side by side, every variable at the same place in each."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from jointglasso._optional import require
from jointglasso._typing import FloatArray, IntArray
from jointglasso.networks import JointNetworks
from jointglasso.networks.edge_list import PARTLY_SHARED, SHARED, SPECIFIC, EdgeList
from jointglasso.networks.layout import common_layout
from jointglasso.plots.canvas import BLUE, INK, PALE, PURPLE, VERMILION, finish, new_figure, plain
from jointglasso.plots.labels import Scene, place_labels
from jointglasso.validation import check_count

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Up to this many variables all are named, beyond it the hubs.
ALL_NAMED = 45

#: Width of a panel by its height.
ASPECT = 1.2

FLIPPED = 3
"""Group of the edges that are in all classes with different signs, after those of the kinds."""


@dataclass(frozen=True)
class EdgeStyle:
    """How one group of edges is drawn; the later a group, the farther in front."""

    group: int
    colour: str
    strength: float
    label: str


STYLES = (
    EdgeStyle(SHARED, "#7F7F7F", 0.8, "in all classes"),
    EdgeStyle(PARTLY_SHARED, BLUE, 1.0, "in several classes"),
    EdgeStyle(SPECIFIC, VERMILION, 1.15, "in one class only"),
    EdgeStyle(FLIPPED, PURPLE, 1.3, "in all classes, sign differs"),
)


def plot_networks(
    networks: JointNetworks,
    *,
    variables: Sequence[str | int] | None = None,
    top: int | None = None,
    isolated: bool = False,
    labels: str | Sequence[str | int] | int = "auto",
    positions: Any = None,
    path: str | os.PathLike[str] | None = None,
) -> Figure:
    """Draw the network of each class, all with one layout.

    Colours tell edges of all classes, of several, and of one class apart, dashes mark negative partial correlations,
    the width of a line is the strength of the partial correlation and the size of a node its number of neighbours in
    that class. Variables without a neighbour in one class are pale there.

    Parameters
    ----------
    networks : JointNetworks
        What to draw.
    variables : sequence of str or int, optional
        Draw only these variables, by name or position, and the edges among them.
    top : int, optional
        Draw only the variables with most edges.
    isolated : bool, default False
        Draw variables that have no edge in any class too.
    labels : {"auto", "all", "none"}, int, or sequence of str or int
        Variables to name: all when they are few and otherwise hubs ("auto"), all, none, that many hubs, or those given.
    positions : array (n_variables, 2), optional
        Places of all variables of `networks`, instead of computed ones.
    path : str or path, optional
        Save the picture there; the ending tells the format.

    Returns
    -------
    matplotlib.figure.Figure
    """
    shown = _restricted(networks, variables, top, isolated)
    if shown is None:
        return finish(_empty_figure(networks), path)
    part = networks.subnetwork(shown)
    places = _places(part, shown, positions, networks.n_variables)
    figure, panels = _panels(part.n_classes)
    _set_limits(panels, places)
    radii = _radii(part, _points_per_unit(panels[0]))
    widest = _widest_line(part)
    for k, ax in enumerate(panels):
        _draw_edges(ax, part, k, places, widest)
        _draw_nodes(ax, places, radii[:, k], part.degree_table[:, k] > 0)
        ax.set_title(plain(f"{part.class_names[k]} ({_counted(part.n_edges[k], 'edge')})"), fontsize=10, color=INK)
    chosen, must = _chosen_labels(labels, part, networks, shown)
    size = 7.5 if len(chosen) <= 30 else 6.0
    lines = np.stack([places[part.edge_list.first], places[part.edge_list.second]], axis=1)
    place_labels(
        panels, Scene(places, radii.max(axis=1), lines, part.variable_names, part.degree_table > 0), chosen, size, must
    )
    _legend(figure, part)
    return finish(figure, path)


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def _restricted(
    networks: JointNetworks, variables: Sequence[str | int] | None, top: int | None, isolated: bool
) -> IntArray | None:
    """Positions of the variables to draw, in order; None when there are none."""
    keep = np.arange(networks.n_variables) if variables is None else np.sort(networks.positions(variables))
    if top is not None:
        within = networks.subnetwork(keep)
        keep = keep[np.sort(within.hub_positions(check_count("top", top)))]
    if len(keep) and not isolated:
        keep = keep[networks.subnetwork(keep).degree_table.any(axis=1)]
    return keep if len(keep) else None


def _empty_figure(networks: JointNetworks) -> Figure:
    figure, panels = _panels(networks.n_classes)
    for ax, name in zip(panels, networks.class_names, strict=True):
        ax.set_title(plain(f"{name} (0 edges)"), fontsize=10, color=INK)
        ax.text(0.5, 0.5, "no edges", ha="center", va="center", color=INK, transform=ax.transAxes)
    return figure


def _places(part: JointNetworks, shown: IntArray, positions: Any, n_variables: int) -> FloatArray:
    if positions is None:
        # The layout counts downwards, as screens do.
        return _filling(common_layout(part.precision) * (1.0, -1.0))
    given = np.asarray(positions, dtype=np.float64)
    if given.shape != (n_variables, 2):
        raise ValueError(f"positions has shape {given.shape}: give one place for each variable, {(n_variables, 2)}.")
    return given[shown]


def _filling(places: FloatArray) -> FloatArray:
    """Stretch the picture in one direction, within reason, to the shape of a panel."""
    width, height = np.maximum(np.ptp(places, axis=0), 1.0)
    stretch = float(np.clip(ASPECT * height / width, 1 / 1.6, 1.6))
    return places * (stretch, 1.0)


def _panels(n_classes: int) -> tuple[Figure, list[Any]]:
    """Panels in rows of at most three; room for the legend below."""
    columns = {1: 1, 2: 2, 4: 2}.get(n_classes, 3)
    rows = -(-n_classes // columns)
    width = {1: 7.0, 2: 5.2}.get(columns, 4.2)
    height = width / ASPECT + 0.3
    figure = new_figure(columns * width, rows * height + 0.45, layout=None)
    total = rows * height + 0.45
    grid = figure.add_gridspec(
        rows,
        columns,
        left=0.01,
        right=0.99,
        bottom=0.45 / total,
        top=1 - 0.3 / total,
        wspace=0.03,
        hspace=0.3 * ASPECT / width,
    )
    panels = [figure.add_subplot(grid[k // columns, k % columns]) for k in range(n_classes)]
    for ax in panels:
        ax.set(xticks=[], yticks=[])
        for spine in ax.spines.values():
            spine.set(color="#DDDDDD", linewidth=0.6)
    return figure, panels


def _set_limits(panels: list[Any], places: FloatArray) -> None:
    """Show all places with room for names at the sides, one unit being as long across as upwards."""
    low, high = places.min(axis=0), places.max(axis=0)
    extent = panels[0].get_window_extent()
    half = 0.5 * (high - low) * (1.14, 1.1) + 0.6
    half = np.maximum(half, (half[1] * extent.width / extent.height, half[0] * extent.height / extent.width))
    left, bottom = 0.5 * (low + high) - half
    right, top = 0.5 * (low + high) + half
    for ax in panels:
        ax.set(xlim=(left, right), ylim=(bottom, top))


def _points_per_unit(ax: Any) -> float:
    pixels = ax.get_window_extent().height / (ax.get_ylim()[1] - ax.get_ylim()[0])
    return float(pixels * 72.0 / ax.figure.dpi)


def _radii(part: JointNetworks, unit: float) -> FloatArray:
    """Radius (p, K) of the nodes in points: a node's area grows with its number of neighbours.

    `unit`, the usual distance of neighbouring nodes in points, keeps small networks from covering their lines.
    """
    degree = part.degree_table
    room = 1.0 / np.sqrt(part.n_variables) / (1 + 0.08 * part.n_classes)
    most = float(np.clip(min(75.0 * room, 0.22 * unit), 2.6, 7.0))
    least = float(np.clip(28.0 * room, 0.7, 0.46 * most))
    return np.sqrt(least**2 + (most**2 - least**2) * degree / max(1, degree.max()))


def _widest_line(part: JointNetworks) -> float:
    return float(np.clip(3.0 * (60.0 / max(60, *part.n_edges)) ** 0.35, 0.7, 3.0))


def _groups(edges: EdgeList) -> IntArray:
    """Group of each edge: its kind, or that of a changing sign."""
    return np.where((edges.kind == SHARED) & edges.sign_differs[edges.pair], FLIPPED, edges.kind)


def _draw_edges(ax: Any, part: JointNetworks, k: int, places: FloatArray, widest: float) -> None:
    edges = part.edge_list
    groups = _groups(edges)
    strength = np.abs(edges.partial_correlation)
    strength = strength / max(strength.max(), 1e-300)
    # Of several thousand lines each has to let the others be seen.
    opacity = float(np.clip(0.95 * (1500 / max(1500, *part.n_edges)) ** 0.4, 0.4, 0.95))
    for style in STYLES:
        for negative in (False, True):
            mine = (edges.class_index == k) & (groups == style.group) & ((edges.partial_correlation < 0) == negative)
            if not mine.any():
                continue
            lines = np.stack([places[edges.first[mine]], places[edges.second[mine]]], axis=1)
            ax.add_collection(
                require("matplotlib.collections", "plots").LineCollection(
                    lines,
                    colors=_colour(style, negative, part.n_classes),
                    linewidths=widest * style.strength * (0.3 + 0.7 * np.sqrt(strength[mine])),
                    linestyles=_dashes(negative),
                    alpha=opacity,
                    zorder=1 + 0.1 * style.group,
                ),
                autolim=False,
            )


def _colour(style: EdgeStyle, negative: bool, n_classes: int) -> str:
    """With one class there is nothing to share, and colour can help the dashes to tell the sign."""
    if n_classes == 1:
        return VERMILION if negative else BLUE
    return style.colour


def _dashes(negative: bool) -> Any:
    return (0, (2.2, 1.4)) if negative else "solid"


def _draw_nodes(ax: Any, places: FloatArray, radii: FloatArray, joined: Any) -> None:
    # Areas are in points squared. Two calls, so that pale nodes lie behind lines that pass them.
    for mask, face, edge, order in ((~joined, "white", PALE, 0.5), (joined, "#3B3B3B", "white", 3.0)):
        if mask.any():
            ax.scatter(
                *places[mask].T,
                s=(2 * radii[mask]) ** 2,
                facecolors=face,
                edgecolors=edge,
                linewidths=np.clip(0.16 * radii[mask], 0.2, 0.7),
                zorder=order,
            )


def _chosen_labels(
    labels: str | Sequence[str | int] | int, part: JointNetworks, networks: JointNetworks, shown: IntArray
) -> tuple[IntArray, bool]:
    """Positions within `part` of the variables to name, most important first, and whether all must be."""
    hubs = np.argsort(-part.degree_table.sum(axis=1), kind="stable")
    if isinstance(labels, str):
        if labels not in ("auto", "all", "none"):
            raise ValueError(f"labels={labels!r} is not known; choose 'auto', 'all', 'none', a number or names.")
        if labels == "none":
            return hubs[:0], False
        if labels == "all" or part.n_variables <= ALL_NAMED:
            return hubs, True
        return hubs[: 25 if part.n_classes <= 2 else 15], False
    if isinstance(labels, int | np.integer):
        return hubs[: max(0, int(labels))], False
    wanted = set(networks.positions(labels).tolist())
    return np.array([i for i in hubs if int(shown[i]) in wanted], dtype=np.int64), True


def _legend(figure: Figure, part: JointNetworks) -> None:
    line = require("matplotlib.lines", "plots").Line2D
    edges = part.edge_list
    present = set(_groups(edges).tolist())
    handles = []
    if part.n_classes > 1:
        for style in STYLES:
            if style.group in present:
                handles.append(line([], [], color=style.colour, linewidth=2.0 * style.strength, label=style.label))
    for negative, label in ((False, "positive partial correlation"), (True, "negative")):
        if ((edges.partial_correlation < 0) == negative).any():
            colour = _colour(STYLES[0], negative, part.n_classes) if part.n_classes == 1 else INK
            handles.append(line([], [], color=colour, linestyle=_dashes(negative), linewidth=1.5, label=label))
    if handles:
        figure.legend(handles=handles, loc="lower center", ncols=len(handles), frameon=False, fontsize=8)
