"""Styles of the edges and nodes of a network figure, and their legend."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from jointglasso._typing import FloatArray, IntArray
from jointglasso.networks import JointNetworks
from jointglasso.networks.clusters import compared_pairs
from jointglasso.networks.communities import VariableGroups
from jointglasso.networks.edge_list import PARTLY_SHARED, SHARED, SPECIFIC
from jointglasso.plots import canvas

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
            ax.add_collection(
                LineCollection(
                    list(lines),
                    colors=_SIGNS[negative] if colour == "sign" else style.colour,
                    linewidths=widest * (1.0 if colour == "sign" else style.strength) * (0.25 + 0.75 * strength[mask]),
                    linestyles=_DASHES[negative],
                    alpha=opacity * (0.25 + 0.7 * strength[mask]),
                    zorder=1 + 0.1 * style.group,
                ),
                autolim=False,
            )


def draw_rings(ax: Any, places: FloatArray, radius: FloatArray, share: FloatArray) -> None:
    """Draw a pale circle around each place, and a share of it dark, clockwise from the top; nothing where it is NaN."""
    angle = np.linspace(0.0, 2.0 * np.pi, 60)
    for part, colour, order in ((np.ones_like(share), canvas.PALE, 3.1), (share, canvas.INK, 3.2)):
        turn = np.multiply.outer(part, angle)
        arcs = places[:, None] + radius[:, None, None] * np.stack([np.sin(turn), np.cos(turn)], axis=-1)
        ax.add_collection(
            LineCollection(list(arcs[np.isfinite(share)]), colors=colour, linewidths=1.6, zorder=order), autolim=False
        )


def draw_legend(
    figure: Figure, part: JointNetworks, colour: str, groups: VariableGroups | None, *, rings: bool = False
) -> None:
    """Legend of colours, dashes and rings, and below it of the groups of variables."""
    edges = part.edge_list
    groups_of_edges, styles = _groups(part, colour)
    present = set(groups_of_edges.tolist())
    handles = []
    if colour != "sign":
        for style in styles:
            if style.group in present:
                handles.append(Line2D([], [], color=style.colour, linewidth=2.0 * style.strength, label=style.label))
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
