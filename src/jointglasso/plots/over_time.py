"""Changes of edges over consecutive classes, and patterns of equal values across classes."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure

from jointglasso._typing import IntArray
from jointglasso.data.checks import InputError, check_count
from jointglasso.networks import JointNetworks
from jointglasso.networks.clusters import LACKS, compared_pairs, pattern_codes
from jointglasso.networks.differences import values_by_class
from jointglasso.plots import canvas


@canvas.documented
def plot_over_time(networks: JointNetworks, *, time: Any = None, top: int = 8, path: canvas.SavePath = None) -> Figure:
    """Draw how many edges change from each class to the next, and the edges that change most.

    Parameters
    ----------
    networks : JointNetworks
        Networks of classes in temporal order, such as ``TimeVaryingGraphicalLasso(...).networks_``.
    time : sequence of K numbers or datetimes, optional
        Time of each class; equally spaced by default.
    top : int, default 8
        Number of pairs of variables to draw, those of largest total variation.
    {saved}
        Above the number of pairs that change at each step, the certified changes darker; with a penalty that does not
        fuse values, edges that appear or vanish. Below the partial correlations over time, missing where a class
        lacks a variable.

    Examples
    --------
    >>> figure = jgl.plots.plot_over_time(networks)
    """
    place = np.arange(networks.n_classes) if time is None else np.asarray(time)
    if place.shape != (networks.n_classes,):
        raise InputError(f"time has shape {place.shape}: give one number or datetime for each of the classes.", "time")
    figure = canvas.new_figure(9.0, 5.6)
    above, below = figure.subplots(2, 1, height_ratios=(1, 1.7), sharex=True)
    _draw_steps(above, networks, place)
    _draw_edges(below, networks, place, check_count("top", top))
    if time is None:
        step = max(1, -(-networks.n_classes // 16))
        names = [canvas.plain(name) for name in networks.class_names[::step]]
        slanted = sum(map(len, names)) > 90
        below.set_xticks(place[::step], names, rotation=35 if slanted else 0, ha="right" if slanted else "center")
    return canvas.finish(figure, path)


def _draw_steps(ax: Any, networks: JointNetworks, place: Any) -> None:
    steps = networks.steps()
    width = np.diff(place)
    middle = place[:-1] + width / 2
    label = "pairs that change"
    if "changed" in steps:
        ax.bar(middle, steps["changed"], width=0.7 * width, color=canvas.BLUE, alpha=0.3, label="not certified")
        ax.bar(middle, steps["certified"], width=0.7 * width, color=canvas.BLUE, label="certified")
        ax.legend(frameon=False, fontsize=8)
    else:
        label = "edges that appear or vanish"
        ax.bar(middle, steps["appeared"] + steps["vanished"], width=0.7 * width, color=canvas.BLUE)
    ax.set_ylabel(label, fontsize=8)
    canvas.tidy(ax)


def _draw_edges(ax: Any, networks: JointNetworks, place: Any, top: int) -> None:
    values = values_by_class(networks)
    moved = np.nansum(np.abs(np.diff(values, axis=1)), axis=1)  # total variation of each pair
    chosen = np.argsort(-moved, kind="stable")[:top]
    chosen = chosen[moved[chosen] > 0]
    names = canvas.pair_names(networks, chosen)
    ax.axhline(0.0, color="#CCCCCC", linewidth=0.8, zorder=0)
    for rank, pair in enumerate(chosen):
        style = canvas.class_style(rank, max(2, len(chosen)))
        ax.plot(place, values[pair], **style, markersize=3.5, linewidth=1.4, label=names[rank])
    if len(chosen):
        ax.legend(frameon=False, fontsize=7, loc="center left", bbox_to_anchor=(1.0, 0.5))
    else:
        canvas.say(ax, "nothing changes")
    ax.set_ylabel("partial correlation", fontsize=8)
    canvas.tidy(ax)


@canvas.documented
def plot_edge_clusters(networks: JointNetworks, *, top: int = 12, path: canvas.SavePath = None) -> Figure:
    """Draw the patterns of classes in which edges have equal values, and the number of edges of each pattern.

    Parameters
    ----------
    networks : JointNetworks
        Networks of a solution with a fused, chain or graph penalty.
    top : int, default 12
        Number of patterns to draw, the most frequent.
    {saved}
        A row for each pattern. Left a square for each class: equal colours are equal values, empty squares are absent
        edges. Right the number of pairs with that pattern, those whose equality or change is certified darker.

    Examples
    --------
    >>> import jointglasso as jgl
    >>> S = [[[1.0, 0.5], [0.5, 1.0]], [[1.0, 0.4], [0.4, 1.0]]]
    >>> solution = jgl.solve(S, 0.05, 0.02, penalty="fused")
    >>> figure = jgl.plots.plot_edge_clusters(jgl.JointNetworks.from_solution(solution))
    >>> len(figure.axes) > 0
    True
    """
    edge_clusters = compared_pairs(networks)
    codes, patterns = pattern_codes(networks)
    shown = patterns[: check_count("top", top)]
    width = min(9.0, 1.2 + 0.3 * networks.n_classes)
    figure = canvas.new_figure(width + 4.2, 1.4 + 0.32 * max(3, len(shown)))
    left_ax, right_ax = figure.subplots(1, 2, width_ratios=(width, 4.2), sharey=True)
    if len(shown) == 0:
        canvas.say(left_ax, "no edges")
        right_ax.set_visible(False)
        return canvas.finish(figure, path)
    _draw_patterns(left_ax, networks, shown)
    counts = np.bincount(codes, minlength=len(patterns))[: len(shown)]
    certified = np.bincount(codes, edge_clusters.changes_proved, minlength=len(patterns))[: len(shown)]
    _draw_counts(right_ax, counts, certified)
    beyond = len(patterns) - len(shown)
    rest = f"; {beyond} rarer patterns are not shown" if beyond else ""
    figure.suptitle(
        f"{len(edge_clusters.rows):,} joined pairs, {int(edge_clusters.changes.sum()):,} of them change{rest}",
        fontsize=10,
    )
    return canvas.finish(figure, path)


def _draw_patterns(ax: Any, networks: JointNetworks, patterns: IntArray) -> None:
    n = networks.n_classes
    for row, pattern in enumerate(patterns):
        constant = len(np.unique(pattern[pattern != LACKS])) == 1
        for k, cluster in enumerate(pattern.tolist()):
            if cluster == LACKS:
                continue
            face = "white" if cluster < 0 else canvas.FAINT if constant else canvas.class_style(cluster, n)["color"]
            edge = "#CCCCCC" if cluster < 0 else face
            ax.scatter(k, row, marker="s", s=min(90.0, 2600.0 / n), facecolors=[face], edgecolors=[edge])
    step = max(1, n // 25)
    names = [canvas.plain(networks.class_names[k]) for k in range(0, n, step)]
    slanted = max(map(len, names)) > 3
    ax.set_xticks(
        range(0, n, step), names, rotation=45 * slanted, ha="right" if slanted else "center", rotation_mode="anchor",
        fontsize=8,
    )  # fmt: skip
    ax.set(xlim=(-0.6, n - 0.4), ylim=(len(patterns) - 0.4, -0.6), yticks=[])
    ax.set_title("one colour, one value; empty: no edge", fontsize=9, color=canvas.INK)
    canvas.tidy(ax)
    ax.spines[:].set_visible(False)


def _draw_counts(ax: Any, counts: IntArray, certified: Any) -> None:
    rows = np.arange(len(counts))
    ax.barh(rows, counts, height=0.7, color=canvas.BLUE, alpha=0.3, label="not certified")
    ax.barh(rows, certified, height=0.7, color=canvas.BLUE, label="certified")
    for row, count in enumerate(counts.tolist()):
        ax.annotate(f"{count:,}", (count, row), xytext=(3, 0), textcoords="offset points", va="center", fontsize=8)
    ax.set_xlim(0, 1.15 * counts.max())
    ax.set_xlabel("pairs of variables", fontsize=8)
    ax.tick_params(axis="y", length=0)
    handles, labels = ax.get_legend_handles_labels()
    ax.legend(handles[::-1], labels[::-1], frameon=False, fontsize=8, loc="lower right")
    canvas.tidy(ax)
