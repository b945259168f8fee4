"""Degrees, centrality and selection frequencies, class by class, and changes of the edges over consecutive classes."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure

from jointglasso.data.checks import InputError, check_count
from jointglasso.networks import JointNetworks
from jointglasso.networks.comparisons import values_by_class
from jointglasso.plots import canvas


@canvas.documented
def plot_degrees(networks: JointNetworks, *, path: canvas.SavePath = None) -> Figure:
    """Draw the complementary cumulative distribution of the degrees of each class, on logarithmic axes.

    `plot_centrality` compares the classes at single variables.

    Parameters
    ----------
    networks : JointNetworks
        Networks to draw.
    {saved}

    Examples
    --------
    >>> figure = jgl.plots.plot_degrees(networks)
    """
    figure = canvas.new_figure(4.8, 3.6)
    ax = figure.subplots()
    for k, name in enumerate(networks.class_names):
        degree, style = networks.degree_table[:, k], canvas.class_style(k, networks.n_classes)
        values = np.unique(degree[degree > 0])
        fraction = [(degree >= value).mean() for value in values]
        ax.plot(values, fraction, **style, markersize=4, linewidth=1.2, alpha=0.9, label=canvas.plain(name))
    ax.set(xscale="log", xlabel="neighbours", ylabel="fraction of variables with at least as many")
    if networks.degree_table.any():
        ax.set_yscale("log")
        ticks = [tick for tick in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000) if tick <= networks.degree_table.max()]
        ax.set_xticks(ticks, [str(tick) for tick in ticks], minor=False)
        ax.minorticks_off()
    ax.legend(frameon=False, fontsize=8)
    canvas.tidy(ax)
    return canvas.finish(figure, path)


MEASURES = ("strength", "expected_influence", "betweenness")


@canvas.documented
def plot_centrality(networks: JointNetworks, *, top: int = 25, path: canvas.SavePath = None) -> Figure:
    """Draw strength, expected influence and betweenness of the most central variables.

    Parameters
    ----------
    networks : JointNetworks
        Networks to draw.
    top : int, default 25
        Variables to show, those of largest strength, averaged over the classes that have them.
    {saved}
        A panel for each measure (betweenness where igraph is installed) and a line for each class; see
        `JointNetworks.centrality` for definitions.

    Examples
    --------
    >>> figure = jgl.plots.plot_centrality(networks)
    """
    table, shape = networks.centrality(), (networks.n_variables, networks.n_classes)
    present = np.ones(shape, dtype=bool) if networks.absent is None else ~networks.absent.T
    values = {name: np.full(shape, np.nan) for name in MEASURES if table[name].notna().any()}
    for name, of_classes in values.items():
        of_classes[present] = table[name]
    mean = np.nanmean(values["strength"], axis=1)
    chosen = np.argsort(-mean, kind="stable")[: check_count("top", top)]
    chosen = chosen[mean[chosen] > 0]
    figure = canvas.new_figure(9.0, 1.6 + 0.2 * max(6, len(chosen)))
    panels = figure.subplots(1, len(values), sharey=True)
    height = np.arange(len(chosen))[::-1]
    for ax, name in zip(panels, values, strict=True):
        for k, class_name in enumerate(networks.class_names):
            style = {**canvas.class_style(k, networks.n_classes), "markersize": 3.5, "linewidth": 0.9}
            ax.plot(values[name][chosen, k], height, **style, label=canvas.plain(class_name))
        ax.set_xlabel(name.replace("_", " "), fontsize=9)
        ax.grid(axis="y", color="#EEEEEE", linewidth=0.6)
        canvas.tidy(ax)
    panels[0].set_yticks(height, [canvas.plain(networks.variable_names[i]) for i in chosen], fontsize=7)
    if len(chosen) == 0:
        canvas.message(panels[1], "no edges")
    if networks.n_classes > 1:
        canvas.legend_of_classes(figure, panels[0], networks.n_classes)
    return canvas.finish(figure, path)


#: Conventional threshold on the selection frequency of a stable edge.
STABLE = 0.75


@canvas.documented
def plot_stability(networks: JointNetworks, *, top: int = 25, path: canvas.SavePath = None) -> Figure:
    """Draw the selection frequencies of the edges.

    Parameters
    ----------
    networks : JointNetworks
        Networks with selection frequencies, such as
        ``JointNetworks.from_solution(solution, stability=edge_stability(...).frequencies)``.
    top : int, default 25
        Number of pairs to list, the strongest.
    {saved}
        Left selection frequency against absolute partial correlation of every edge, right the strongest pairs; the
        dotted line is at 75 %.

    Examples
    --------
    >>> figure = jgl.plots.plot_stability(networks)
    """
    if not networks.has_stability:
        raise InputError(
            "The networks have no stability: give stability= to JointNetworks, see edge_stability.", "networks"
        )
    edges = networks.edge_list
    chosen = np.argsort(-edges.strength_of_pair, kind="stable")[: check_count("top", top)]
    figure = canvas.new_figure(9.5, 1.6 + 0.2 * max(10, len(chosen)))
    left_ax, right_ax = figure.subplots(1, 2, width_ratios=(1, 1.1))
    for k, name in enumerate(networks.class_names):
        in_class = edges.class_index == k
        style = {**canvas.class_style(k, networks.n_classes), "linewidths": 0}
        strength = np.abs(edges.partial_correlation[in_class])
        left_ax.scatter(strength, networks.edge_stability[in_class], s=14, alpha=0.6, label=canvas.plain(name), **style)
        rows = np.flatnonzero(in_class & np.isin(edges.pair, chosen))
        rank = np.empty(max(1, edges.n_pairs))
        rank[chosen] = np.arange(len(chosen))[::-1]
        right_ax.scatter(networks.edge_stability[rows], rank[edges.pair[rows]], s=20, alpha=0.85, **style)
    left_ax.set(xlabel="|partial correlation|", ylabel="selection frequency", ylim=(-0.03, 1.03))
    left_ax.axhline(STABLE, color=canvas.INK, linestyle=":", linewidth=1)
    right_ax.axvline(STABLE, color=canvas.INK, linestyle=":", linewidth=1)
    right_ax.set_yticks(np.arange(len(chosen))[::-1], canvas.pair_names(networks, chosen), fontsize=7)
    right_ax.set(xlabel="selection frequency", xlim=(-0.03, 1.03))
    right_ax.set_title(f"the {len(chosen)} strongest pairs", fontsize=9, color=canvas.INK)
    right_ax.grid(axis="y", color="#EEEEEE", linewidth=0.6)
    for ax in (left_ax, right_ax):
        canvas.tidy(ax)
    right_ax.tick_params(axis="y", labelsize=7, length=0)
    canvas.legend_of_classes(figure, left_ax, networks.n_classes)
    return canvas.finish(figure, path)


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
        canvas.message(ax, "nothing changes")
    ax.set_ylabel("partial correlation", fontsize=8)
    canvas.tidy(ax)
