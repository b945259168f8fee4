"""Networks of all classes side by side, with a common layout."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from jointglasso._typing import FloatArray, IntArray
from jointglasso._wording import count
from jointglasso.data.checks import InputError, check_choice, check_count
from jointglasso.networks import JointNetworks
from jointglasso.networks.communities import VariableGroups, node_groups
from jointglasso.networks.comparisons import compared_pairs
from jointglasso.networks.edge_list import PARTLY_SHARED, READABLE, SHARED, SPECIFIC
from jointglasso.networks.layout import common_layout
from jointglasso.plots import canvas
from jointglasso.plots.node_labels import Scene, place_labels

#: Maximum number of variables that are all labelled; of more, the hubs.
ALL_NAMED = 45

#: Width of a panel by its height.
ASPECT = 1.2

FLIPPED = 3
"""Code of edges in all classes with different signs, following the codes of the kinds."""


@dataclass(frozen=True)
class EdgeStyle:
    """Style of a group of edges; groups of larger code are drawn in front."""

    group: int
    colour: str
    strength: float
    label: str


STYLES = (
    EdgeStyle(SHARED, "#7F7F7F", 0.8, "in all classes"),
    EdgeStyle(PARTLY_SHARED, canvas.BLUE, 1.0, "in several classes"),
    EdgeStyle(SPECIFIC, canvas.VERMILION, 1.15, "in one class only"),
    EdgeStyle(FLIPPED, canvas.PURPLE, 1.3, "in all classes, sign differs"),
)


STAYS, CHANGES, MAY_CHANGE = range(3)

#: Styles by equality of the values across classes, from a fused penalty.
SAME_STYLES = (
    EdgeStyle(STAYS, "#7F7F7F", 0.8, "one value in all classes"),
    EdgeStyle(MAY_CHANGE, canvas.ORANGE, 1.0, "value changes, not certified"),
    EdgeStyle(CHANGES, canvas.VERMILION, 1.15, "value changes"),
)


#: Colours and dashes of positive and negative edges.
_SIGNS, _DASHES = (canvas.BLUE, canvas.VERMILION), ("solid", (0, (2.2, 1.4)))


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


def _groups(part: JointNetworks, colour: str) -> tuple[IntArray, tuple[EdgeStyle, ...]]:
    """Group of each edge and the styles of the groups: by kind and sign change, or by equality of values."""
    edges = part.edge_list
    if colour == "same":
        edge_clusters = compared_pairs(part)
        of_pair = np.where(edge_clusters.changes, np.where(edge_clusters.changes_proved, CHANGES, MAY_CHANGE), STAYS)
        return of_pair[edges.pair], SAME_STYLES
    return np.where((edges.kind == SHARED) & edges.sign_differs[edges.pair], FLIPPED, edges.kind), STYLES


def draw_edges(ax: Any, part: JointNetworks, k: int, places: FloatArray, colour: str) -> None:
    """Draw the edges of class `k`; width and opacity increase with the partial correlation."""
    edges = part.edge_list
    groups, styles = _groups(part, colour)
    widest = float(np.clip(3.4 * (60.0 / max(60, *part.n_edges)) ** 0.35, 0.7, 3.4))  # in points
    strength = np.abs(edges.partial_correlation)
    strength = np.sqrt(strength / max(strength.max(), 1e-300))
    # Thousands of lines are drawn with transparency.
    opacity = float(np.clip((1500 / max(1500, *part.n_edges)) ** 0.4, 0.4, 1.0))
    for style in styles:
        for negative in (False, True):
            mask = (edges.class_index == k) & (groups == style.group) & ((edges.partial_correlation < 0) == negative)
            if not mask.any():
                continue
            lines = np.stack([places[edges.first[mask]], places[edges.second[mask]]], axis=1)
            canvas.draw_lines(
                ax,
                lines,
                colors=_SIGNS[negative] if colour == "sign" else style.colour,
                linewidths=widest * (1.0 if colour == "sign" else style.strength) * (0.25 + 0.75 * strength[mask]),
                linestyles=_DASHES[negative],
                alpha=opacity * (0.25 + 0.7 * strength[mask]),
                zorder=1 + 0.1 * style.group,
            )


def draw_rings(ax: Any, places: FloatArray, radius: FloatArray, share: FloatArray) -> None:
    """Draw a pale circle around each place, and a share of it dark, clockwise from the top; nothing where it is NaN."""
    angle = np.linspace(0.0, 2.0 * np.pi, 60)
    for part, colour, order in ((np.ones_like(share), canvas.PALE, 3.1), (share, canvas.INK, 3.2)):
        turn = np.multiply.outer(part, angle)
        arcs = places[:, None] + radius[:, None, None] * np.stack([np.sin(turn), np.cos(turn)], axis=-1)
        canvas.draw_lines(ax, arcs[np.isfinite(share)], colors=colour, linewidths=1.6, zorder=order)


def draw_legend(
    figure: Figure, part: JointNetworks, colour: str, groups: VariableGroups | None, *, rings: bool = False
) -> None:
    """Legend of colours, dashes and rings, and below it of the groups of variables."""
    edges = part.edge_list
    groups_of_edges, styles = _groups(part, colour)
    present = set(groups_of_edges.tolist())
    handles = [
        Line2D([], [], color=style.colour, linewidth=2.0 * style.strength, label=style.label)
        for style in styles
        if colour != "sign" and style.group in present
    ]
    for negative, label in ((False, "positive partial correlation"), (True, "negative")):
        if ((edges.partial_correlation < 0) == negative).any():
            ink = _SIGNS[negative] if colour == "sign" else canvas.INK
            handles.append(Line2D([], [], color=ink, linestyle=_DASHES[negative], linewidth=1.5, label=label))
    if handles:
        handles.append(Line2D([], [], linestyle="none", label="thicker: stronger"))
    if rings:
        handle = Line2D([], [], linestyle="none", marker="o", markersize=6, color=canvas.INK, fillstyle="none")
        handle.set_label("ring: variance explained by the others")
        handles.append(handle)
    if handles:
        height = 0.02 if groups is None else 0.245
        figure.legend(
            handles=handles, loc="lower center", ncols=len(handles), frameon=False, fontsize=8,
            bbox_to_anchor=(0.5, height / figure.get_figheight()),
        )  # fmt: skip
    if groups is not None:
        _group_legend(figure, groups)


def _group_legend(figure: Figure, groups: VariableGroups) -> None:
    named = [
        (colour, name if k else f"{groups.title}: {name}")
        for k, (colour, name) in enumerate(zip(canvas.GROUP_COLOURS, groups.names, strict=False))
    ]
    if (groups.of < 0).any() or len(groups.names) > len(canvas.GROUP_COLOURS):
        named.append(("#3B3B3B", "other"))
    handles = [
        Line2D([], [], color=colour, marker="o", markersize=5, linestyle="none", label=canvas.plain(name))
        for colour, name in named
    ]
    figure.legend(
        handles=handles, loc="lower center", ncols=len(handles), frameon=False, fontsize=8, handletextpad=0.1,
        columnspacing=1.2, bbox_to_anchor=(0.5, 0.02 / figure.get_figheight()),
    )  # fmt: skip


def node_colours(groups: VariableGroups | None, n_variables: int) -> Any:
    """Colour of each variable."""
    colours = np.full(n_variables, "#3B3B3B", dtype=object)
    if groups is not None:
        for k, colour in enumerate(canvas.GROUP_COLOURS):
            colours[groups.of == k] = colour
    return colours
