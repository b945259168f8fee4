"""Differences of partial correlations between two classes."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from scipy import sparse

from jointglasso._typing import BoolArray, FloatArray, IntArray
from jointglasso.data.checks import InputError, check_count
from jointglasso.inference.result import check_rate
from jointglasso.networks import JointNetworks
from jointglasso.networks.comparisons import class_pairs, difference_table, values_by_class
from jointglasso.networks.layout import common_layout
from jointglasso.plots import canvas
from jointglasso.plots.node_labels import Scene, place_labels

#: Maximum number of rows of the list beside the network.
MAX_LISTED = 20


@canvas.documented
def plot_differences(
    networks: JointNetworks,
    class1: str | None = None,
    class2: str | None = None,
    *,
    tested: Any = None,
    fdr: float = 0.1,
    top: int = 30,
    path: canvas.SavePath = None,
) -> Figure:
    """Draw one class minus another: a network of the largest differences of the estimates, and their values.

    Without `tested` the title says that the differences are not tested.

    Parameters
    ----------
    networks : JointNetworks
        Networks to draw.
    class1, class2 : str, optional
        The classes; may be left out where there are two.
    tested : result of `infer`, or DataFrame, optional
        Tests of the differences, as in `JointNetworks.differences`: the pairs with the smallest p-values are drawn, and
        those that are not significant in grey.
    fdr : float, default 0.1
        False discovery rate up to which a tested difference is significant.
    top : int, default 30
        Pairs of variables to draw, those with the largest differences, or with the smallest p-values.
    {saved}
        Left a line for each pair, blue where the partial correlation is higher in the first class, orange where it
        is lower, as thick as the difference is large. Right the values of the largest differences in both classes.

    Examples
    --------
    >>> figure = jgl.plots.plot_differences(networks, "ill", "well")
    """
    pairs = class_pairs(networks, class1, class2)
    if len(pairs) > 1:
        raise InputError(
            f"There are {networks.n_classes} classes: name the two to compare, class1 and class2.", "class1"
        )
    one, two = pairs[0]
    values = values_by_class(networks)[:, [one, two]]
    size = np.abs(values[:, 0] - values[:, 1])
    p, q = _tests_of_pairs(networks, one, two, tested)
    chosen = np.lexsort((-size, p))[: check_count("top", top)]
    chosen = chosen[size[chosen] > 0]
    significant = q <= check_rate(fdr)
    names = (canvas.plain(networks.class_names[one]), canvas.plain(networks.class_names[two]))
    figure = canvas.new_figure(10.5, 5.4)
    left_ax, right_ax = figure.subplots(1, 2, width_ratios=(1.35, 1))
    said = "estimates, not tested" if tested is None else f"{significant[size > 0].sum()} significant at FDR {fdr:g}"
    left_ax.set_title(f"{names[0]} minus {names[1]} ({said})", fontsize=10, color=canvas.INK)
    if len(chosen) == 0:
        canvas.message(left_ax, "no difference")
        right_ax.set_visible(False)
    else:
        _draw_values(right_ax, networks, chosen[:MAX_LISTED], values, names, None if tested is None else q)
        coloured = np.ones(len(q), dtype=bool) if tested is None else significant
        _draw_network(left_ax, networks, chosen, values[:, 0] - values[:, 1], names, coloured)
    left_ax.set(xticks=[], yticks=[])
    left_ax.spines[:].set(color="#DDDDDD", linewidth=0.6)
    return canvas.finish(figure, path)


def _tests_of_pairs(networks: JointNetworks, one: int, two: int, tested: Any) -> tuple[FloatArray, FloatArray]:
    """P- and q-values of all pairs of the networks; 1 where there is no test."""
    p, q = np.ones(networks.edge_list.n_pairs), np.ones(networks.edge_list.n_pairs)
    if tested is not None:
        table = difference_table(networks, [(one, two)], tested)
        p[table["pair"]] = table["p_value"].fillna(1.0)
        q[table["pair"]] = table["q_value" if "q_value" in table else "p_value"].fillna(1.0)
    return p, q


def _draw_network(
    ax: Any, networks: JointNetworks, chosen: IntArray, difference: FloatArray, names: Any, coloured: BoolArray
) -> None:
    edges = networks.edge_list
    ends = np.stack([edges.first[edges.starts[chosen]], edges.second[edges.starts[chosen]]], axis=1)
    shown, place_of = np.unique(ends, return_inverse=True)
    ends = place_of.reshape(ends.shape)
    size = np.abs(difference[chosen])
    places = _places(len(shown), ends, size)
    lines = places[ends]
    signs = zip(difference[chosen], coloured[chosen], strict=True)
    colours = [
        (canvas.BLUE if value > 0 else canvas.VERMILION) if shown_in_colour else canvas.PALE
        for value, shown_in_colour in signs
    ]
    widths = 0.8 + 3.2 * size / size.max()
    canvas.draw_lines(ax, lines, colors=colours, linewidths=widths, alpha=0.85, zorder=1)
    ax.scatter(*places.T, s=34, facecolors="#3B3B3B", edgecolors="white", linewidths=0.6, zorder=3)
    low, high = places.min(axis=0), places.max(axis=0)
    margin = 0.12 * np.maximum(high - low, 1.0) + 0.3
    ax.set(xlim=(low[0] - margin[0], high[0] + margin[0]), ylim=(low[1] - margin[1], high[1] + margin[1]))
    ax.figure.draw_without_rendering()  # labels are placed in pixels, so the constrained layout must be applied first
    scene = Scene(
        places, np.full(len(shown), 3.0), lines, [networks.variable_names[i] for i in shown],
        np.ones((len(shown), 1), dtype=bool),
    )  # fmt: skip
    by_size = np.argsort(-np.bincount(ends.ravel(), np.repeat(size, 2), len(shown)), kind="stable")
    place_labels([ax], scene, by_size, 7.0, len(shown) <= 30)
    handles = [
        Line2D([], [], color=colour, linewidth=2.5, label=f"higher in {name}")
        for colour, name in zip((canvas.BLUE, canvas.VERMILION), names, strict=True)
    ]
    if not coloured[chosen].all():
        handles.append(Line2D([], [], color=canvas.PALE, linewidth=2.5, label="not significant"))
    ax.legend(handles=handles, frameon=False, fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.01), ncols=3)


def _places(n: int, ends: IntArray, size: FloatArray) -> FloatArray:
    """Positions (n, 2) of the variables in the network whose edges are the differences."""
    # Nearly equal weights: with small ones triangles would become degenerate.
    weights = sparse.coo_array((0.5 + 0.4 * size / size.max(), ends.T), shape=(n, n))
    # The second coordinate of the layout points downwards.
    return common_layout([sparse.csc_array(weights + weights.T + sparse.eye_array(n))]) * (1.0, -1.0)


def _draw_values(
    ax: Any, networks: JointNetworks, chosen: IntArray, values: FloatArray, names: Any, q: FloatArray | None
) -> None:
    """Lines between the values in the two classes, the largest difference, or the smallest p-value, on top."""
    row = np.arange(len(chosen))[::-1]
    ax.axvline(0.0, color="#CCCCCC", linewidth=0.8, zorder=0)
    ax.hlines(row, values[chosen].min(axis=1), values[chosen].max(axis=1), color=canvas.FAINT, linewidth=1.0, zorder=1)
    for k, (colour, marker) in enumerate(((canvas.BLUE, "o"), (canvas.VERMILION, "s"))):
        has_edge = values[chosen, k] != 0
        for mask, face in ((has_edge, colour), (~has_edge, "white")):
            ax.scatter(
                values[chosen, k][mask], row[mask], s=26, marker=marker, facecolors=face, edgecolors=colour, zorder=2
            )  # fmt: skip
        ax.scatter([], [], s=26, marker=marker, color=colour, label=names[k])
    ax.scatter([], [], s=26, marker="o", facecolors="white", edgecolors=canvas.INK, label="no edge")
    labels = canvas.pair_names(networks, chosen)
    if q is not None:
        labels = [f"{name}  (q = {value:.2g})" for name, value in zip(labels, q[chosen], strict=True)]
    ax.set_yticks(row, labels, fontsize=7)
    ax.set_xlabel("partial correlation", fontsize=8)
    title = (
        "largest differences of the estimates, not tested" if q is None else "estimates, by p-value of the difference"
    )
    ax.set_title(title, fontsize=10, color=canvas.INK)
    ax.legend(frameon=False, fontsize=8, ncols=3, loc="upper center", bbox_to_anchor=(0.5, -0.1))
    canvas.tidy(ax)
    ax.tick_params(axis="y", labelsize=7, length=0)
