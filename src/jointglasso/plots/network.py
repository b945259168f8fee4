"""Networks of all classes side by side, with a common layout."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from jointglasso._typing import FloatArray, IntArray
from jointglasso._wording import count
from jointglasso.data.checks import InputError, check_choice, check_count
from jointglasso.networks import JointNetworks
from jointglasso.networks.communities import VariableGroups, node_groups
from jointglasso.networks.edge_list import READABLE
from jointglasso.networks.layout import common_layout
from jointglasso.plots import canvas
from jointglasso.plots.node_labels import Scene, place_labels
from jointglasso.plots.strokes import draw_edges, draw_legend, draw_rings, node_colours

#: Maximum number of variables that are all labelled; of more, the hubs.
ALL_NAMED = 45

#: Width of a panel by its height.
ASPECT = 1.2


@canvas.documented
def plot_networks(
    networks: JointNetworks,
    *,
    variables: Sequence[str | int] | None = None,
    top: int | None = None,
    pairs: int | str = "auto",
    isolated: bool = False,
    labels: str | Sequence[str | int] | int = "auto",
    groups: Any = "auto",
    colour: str = "sign",
    layout: str = "spring",
    positions: Any = None,
    rings: Any = None,
    path: canvas.SavePath = None,
) -> Figure:
    """Draw the network of each class, all with one layout.

    Colours and dashes encode the sign of the partial correlation, the width of a line its absolute value, the size of a
    node its degree in that class. Variables of degree 0 in a class are pale there. Titles give the number of edges of a
    class, and the number drawn where that is smaller.

    Parameters
    ----------
    networks : JointNetworks
        Networks to draw.
    variables : sequence of str or int, optional
        Draw only these variables, by name or position, and the edges among them.
    top : int, optional
        Draw only the variables with most edges.
    pairs : int or "all", optional
        Pairs of variables to draw, the strongest among `variables`; by default as many as can be read, about 150.
    isolated : bool, default False
        Include variables without an edge in any class.
    labels : {"auto", "all", "none"}, int, or sequence of str or int
        Variables to name: all when they are few and otherwise hubs ("auto"), all, none, that many hubs, or those given.
    groups : mapping, sequence, "communities", "none" or "auto"
        Groups of the variables, as colours of the nodes; see `write_report`.
    colour : {"sign", "kind", "same"}
        Colour edges by sign; by the number of classes that have the edge (all, several, one); or by whether the value
        is equal in all classes, which needs a solution with a fused penalty.
    layout : {"spring", "circle"}
        Force-directed layout, or all variables on a circle, group by group.
    positions : array (n_variables, 2), optional
        Positions of all variables of `networks`, instead of a computed layout.
    rings : data frame, optional
        Shares from 0 to 1, with variables in rows and classes in columns, drawn as arcs around the variables, clockwise
        from the top: ``networks.predictability()``, or ``jgl.predictability(X, y).table``.
    {saved}

    Examples
    --------
    >>> figure = jgl.plots.plot_networks(networks, groups={"x0": "early", "x1": "early", "x2": "late"})
    """
    check_choice("colour", colour, ("sign", "kind", "same"))
    check_choice("layout", layout, ("spring", "circle"))
    among = _among(networks, variables, top)
    drawn = _strong(networks.subnetwork(among), pairs)
    joined = np.arange(len(among)) if isolated else np.flatnonzero(drawn.degree_table.any(axis=1))
    if len(joined) == 0:
        return canvas.finish(_empty_figure(networks), path)
    part, shown = drawn.subnetwork(joined), among[joined]
    grouping = node_groups(networks, groups)  # of the complete network
    if grouping is not None:
        grouping = replace(grouping, of=grouping.of[shown])
    places = _places(part, shown, positions, networks.n_variables, layout, grouping)
    figure, panels = _panels(part.n_classes, two_lines=grouping is not None)
    _set_limits(panels, places)
    unit = _points_per_unit(panels[0])
    radii = _radii(part, unit)
    colours = node_colours(grouping, part.n_variables)
    for k, ax in enumerate(panels):
        draw_edges(ax, part, k, places, colour)
        present = np.ones(part.n_variables, dtype=bool) if part.absent is None else ~part.absent[k]
        joined = part.degree_table[present, k] > 0
        _draw_nodes(ax, places[present], radii[present, k], joined, colours[present])
        if rings is not None:
            draw_rings(ax, places, (radii[:, k] + 2.0) / unit, _shares(rings, part)[:, k])
        ax.set_title(_title(part, networks, k), fontsize=10, color=canvas.INK)
    chosen, must = _chosen_labels(labels, part, networks, shown)
    taken = radii.max(axis=1) + (0.0 if rings is None else 3.0)
    size = 7.5 if len(chosen) <= 30 else 6.0
    lines = np.stack([places[part.edge_list.first], places[part.edge_list.second]], axis=1)
    place_labels(panels, Scene(places, taken, lines, part.variable_names, part.degree_table > 0), chosen, size, must)
    draw_legend(figure, part, colour, grouping, rings=rings is not None)
    return canvas.finish(figure, path)


def _strong(networks: JointNetworks, pairs: int | str) -> JointNetworks:
    """Networks of the strongest pairs: the requested number, or as many as are readable."""
    if not isinstance(pairs, str):
        return networks.strongest(pairs)
    check_choice("pairs", pairs, ("auto", "all"))
    readable = pairs == "all" or networks.edge_list.readable_strength() == 0.0
    return networks if readable else networks.strongest(READABLE)


def _title(part: JointNetworks, networks: JointNetworks, k: int) -> str:
    drawn, total = part.n_edges[k], networks.n_edges[k]
    counted = count(total, "edge") if drawn == total else f"{drawn:,} of {count(total, 'edge')}"
    return canvas.plain(f"{part.class_names[k]} ({counted})")


def _among(networks: JointNetworks, variables: Sequence[str | int] | None, top: int | None) -> IntArray:
    """Indices of the variables to draw, sorted; the strongest pairs are chosen among these."""
    among = np.arange(networks.n_variables) if variables is None else np.sort(networks.positions(variables))
    if top is None:
        return among
    return among[np.sort(networks.subnetwork(among).hub_positions(check_count("top", top)))]


def _empty_figure(networks: JointNetworks) -> Figure:
    figure, panels = _panels(networks.n_classes)
    for ax, name in zip(panels, networks.class_names, strict=True):
        ax.set_title(canvas.plain(f"{name} (0 edges)"), fontsize=10, color=canvas.INK)
        canvas.message(ax, "no edges")
    return figure


def _places(
    part: JointNetworks, shown: IntArray, positions: Any, n_variables: int, layout: str, groups: VariableGroups | None
) -> FloatArray:
    if positions is None and layout == "circle":
        return _circle(part, groups)
    if positions is None:
        # The second coordinate of the layout points downwards.
        return _fit_aspect(common_layout(part.precision) * (1.0, -1.0))
    coordinates = np.asarray(positions, dtype=np.float64)
    if coordinates.shape != (n_variables, 2):
        raise InputError(
            f"positions has shape {coordinates.shape}: give one place for each variable, {(n_variables, 2)}.",
            "positions",
        )
    return coordinates[shown]


def _circle(part: JointNetworks, groups: VariableGroups | None) -> FloatArray:
    """Positions (p, 2) on a circle, clockwise from the top, variables of a group adjacent, gaps between groups."""
    of = np.zeros(part.n_variables, dtype=np.int64) if groups is None else groups.of
    order = np.lexsort((np.arange(part.n_variables), np.where(of < 0, of.max() + 1, of)))
    gap = np.diff(of[order], prepend=of[order[:1]]) != 0
    step = np.arange(part.n_variables) + np.cumsum(gap)
    angle = np.empty(part.n_variables)
    angle[order] = 2 * np.pi * step / (step[-1] + 1 + (gap.any() and 1))
    radius = max(1.0, part.n_variables / (2 * np.pi))
    return np.column_stack([ASPECT * radius * np.sin(angle), radius * np.cos(angle)])


def _fit_aspect(places: FloatArray) -> FloatArray:
    """Scale the first coordinate, by a factor of at most 1.6, towards the aspect ratio of a panel."""
    width, height = np.maximum(np.ptp(places, axis=0), 1.0)
    aspect_scale = float(np.clip(ASPECT * height / width, 1 / 1.6, 1.6))
    return places * (aspect_scale, 1.0)


def _panels(n_classes: int, two_lines: bool = False) -> tuple[Figure, list[Any]]:
    """Figure and panels in rows of at most three, with space for one or two lines of legend below."""
    columns = {1: 1, 2: 2, 4: 2}.get(n_classes, 3)
    rows = -(-n_classes // columns)
    width = {1: 7.0, 2: 5.2}.get(columns, 4.2)
    height = width / ASPECT + 0.3
    below = 0.6 if two_lines else 0.4
    total = rows * height + below
    figure = canvas.new_figure(columns * width, total, layout=None)
    margins = {"left": 0.01, "right": 0.99, "bottom": below / total, "top": 1 - 0.3 / total}
    grid = figure.add_gridspec(rows, columns, wspace=0.03, hspace=0.3 * ASPECT / width, **margins)
    panels = [figure.add_subplot(grid[k // columns, k % columns]) for k in range(n_classes)]
    for ax in panels:
        ax.set(xticks=[], yticks=[])
        for spine in ax.spines.values():
            spine.set(color="#DDDDDD", linewidth=0.6)
    return figure, panels


def _set_limits(panels: list[Any], places: FloatArray) -> None:
    """Set equal limits with margins for labels, at equal scale on both axes."""
    low, high = places.min(axis=0), places.max(axis=0)
    extent = panels[0].get_window_extent()
    half = 0.5 * (high - low) * (1.14, 1.1) + 0.6
    half = np.maximum(half, (half[1] * extent.width / extent.height, half[0] * extent.height / extent.width))
    x_min, y_min = 0.5 * (low + high) - half
    x_max, y_max = 0.5 * (low + high) + half
    for ax in panels:
        ax.set(xlim=(x_min, x_max), ylim=(y_min, y_max))


def _points_per_unit(ax: Any) -> float:
    pixels = ax.get_window_extent().height / (ax.get_ylim()[1] - ax.get_ylim()[0])
    return float(pixels * 72.0 / ax.figure.dpi)


def _radii(part: JointNetworks, unit: float) -> FloatArray:
    """Radii (p, K) of the nodes in points; the area is affine in the degree.

    `unit` is the typical distance of neighbouring nodes in points and bounds the radii of small networks.
    """
    degree = part.degree_table
    density_scale = 1.0 / np.sqrt(part.n_variables) / (1 + 0.08 * part.n_classes)
    largest = float(np.clip(min(75.0 * density_scale, 0.22 * unit), 2.6, 7.0))
    smallest = float(np.clip(28.0 * density_scale, 0.7, 0.46 * largest))
    return np.sqrt(smallest**2 + (largest**2 - smallest**2) * degree / max(1, degree.max()))


def _shares(rings: Any, part: JointNetworks) -> FloatArray:
    """Shares (p, K) of a data frame with the variables and classes of `part`."""
    try:
        shares = rings.loc[list(part.variable_names), list(part.class_names)].to_numpy(dtype=np.float64)
    except (AttributeError, KeyError, TypeError, ValueError):
        shares = np.full(1, np.inf)
    if ((shares < 0) | (shares > 1)).any():
        raise InputError(
            "rings must be a data frame of numbers from 0 to 1, with the names of the variables as its index and those "
            "of the classes as its columns, such as networks.predictability().",
            "rings",
        )
    return shares


def _draw_nodes(ax: Any, places: FloatArray, radii: FloatArray, joined: Any, colours: Any) -> None:
    # Areas are in points squared. Two calls, so that pale nodes are drawn behind the lines.
    for mask, face, edge, order in (
        (~joined, "white", canvas.PALE, 0.5),
        (joined, list(colours[joined]), "white", 3.0),
    ):
        style = {"linewidths": np.clip(0.16 * radii[mask], 0.2, 0.7), "edgecolors": edge, "zorder": order}
        if mask.any():
            ax.scatter(*places[mask].T, s=(2 * radii[mask]) ** 2, facecolors=face, **style)


def _chosen_labels(
    labels: str | Sequence[str | int] | int, part: JointNetworks, networks: JointNetworks, shown: IntArray
) -> tuple[IntArray, bool]:
    """Indices within `part` of the variables to label, most important first, and whether all must be labelled."""
    hubs = np.argsort(-part.degree_table.sum(axis=1), kind="stable")
    if isinstance(labels, str):
        if labels not in ("auto", "all", "none"):
            raise InputError(
                f"labels={labels!r} is not known; choose 'auto', 'all', 'none', a number or names.", "labels"
            )
        if labels == "none":
            return hubs[:0], False
        if labels == "all" or part.n_variables <= ALL_NAMED:
            return hubs, True
        return hubs[: 80 if part.n_classes <= 2 else 50], False
    if isinstance(labels, int | np.integer):
        return hubs[: max(0, int(labels))], False
    wanted = set(networks.positions(labels).tolist())
    return np.array([i for i in hubs if int(shown[i]) in wanted], dtype=np.int64), True
