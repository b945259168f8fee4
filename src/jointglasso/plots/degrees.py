"""Degree distributions and centrality, class by class."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from jointglasso.data.checks import check_count
from jointglasso.networks import JointNetworks
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
        Variables to show, those of largest strength, averaged over the classes.
    {saved}
        A panel for each measure (betweenness where igraph is installed) and a line for each class; see
        `JointNetworks.centrality` for definitions.

    Examples
    --------
    >>> figure = jgl.plots.plot_centrality(networks)
    """
    table = networks.centrality()
    shape = (networks.n_variables, networks.n_classes)
    values = {name: table[name].to_numpy().reshape(shape) for name in MEASURES if table[name].notna().any()}
    mean = values["strength"].mean(axis=1)
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
