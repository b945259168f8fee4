"""How many neighbours the variables have, class by class."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np

from jointglasso.networks import JointNetworks
from jointglasso.plots.canvas import INK, class_style, finish, new_figure, plain, tidy

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def plot_degrees(networks: JointNetworks, *, n_hubs: int = 20, path: str | os.PathLike[str] | None = None) -> Figure:
    """Draw the distribution of degrees in each class, and the degrees of the hubs.

    The left panel shows the share of variables with at least so many neighbours, on logarithmic axes; the right one
    compares the classes at the variables with most edges.

    Parameters
    ----------
    networks : JointNetworks
        What to draw.
    n_hubs : int, default 20
        Number of hubs to compare at most.
    path : str or path, optional
        Save the picture there; the ending tells the format.

    Returns
    -------
    matplotlib.figure.Figure

    Examples
    --------
    >>> import jointglasso as jgl
    >>> one = [[2.0, -0.8, 0.0], [-0.8, 2.0, 0.5], [0.0, 0.5, 2.0]]
    >>> two = [[2.0, -0.3, 0.0], [-0.3, 2.0, 0.0], [0.0, 0.0, 2.0]]
    >>> networks = jgl.JointNetworks([one, two], ["ill", "well"], ["a", "b", "c"])
    >>> figure = jgl.plots.plot_degrees(networks)
    >>> len(figure.axes) > 0
    True
    """
    hubs = networks.hub_positions(n_hubs)
    figure = new_figure(9.0, max(3.6, 1.2 + 0.2 * len(hubs)))
    left, right = figure.subplots(1, 2)
    _draw_distribution(left, networks)
    _draw_hubs(right, networks, hubs)
    return finish(figure, path)


def _draw_distribution(ax: Any, networks: JointNetworks) -> None:
    for k, name in enumerate(networks.class_names):
        colour, marker = class_style(k, networks.n_classes)
        degree = networks.degree_table[:, k]
        values = np.unique(degree[degree > 0])
        share = [(degree >= value).mean() for value in values]
        ax.plot(values, share, color=colour, marker=marker, markersize=4, linewidth=1.2, alpha=0.9, label=plain(name))
    ax.set(xscale="log", xlabel="neighbours", ylabel="share of variables with at least so many")
    if networks.degree_table.any():
        ax.set_yscale("log")
        ticks = [tick for tick in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000) if tick <= networks.degree_table.max()]
        ax.set_xticks(ticks, [str(tick) for tick in ticks], minor=False)
        ax.minorticks_off()
    ax.legend(frameon=False, fontsize=8)
    tidy(ax)


def _draw_hubs(ax: Any, networks: JointNetworks, hubs: Any) -> None:
    if len(hubs) == 0:
        ax.text(0.5, 0.5, "no edges", ha="center", va="center", color=INK, transform=ax.transAxes)
        ax.set(xticks=[], yticks=[])
        tidy(ax)
        return
    height = np.arange(len(hubs))[::-1]
    degree = networks.degree_table[hubs]
    ax.hlines(height, degree.min(axis=1), degree.max(axis=1), color="#CCCCCC", linewidth=1.5, zorder=1)
    # Classes that agree would hide one another: each has its own height within the line.
    shift = np.linspace(0.18, -0.18, networks.n_classes) if networks.n_classes > 1 else np.zeros(1)
    for k in range(networks.n_classes):
        colour, marker = class_style(k, networks.n_classes)
        ax.scatter(degree[:, k], height + shift[k], color=colour, marker=marker, s=22, linewidths=0, zorder=2)
    ax.set_yticks(height, [plain(networks.variable_names[i]) for i in hubs])
    ax.set(xlabel="neighbours", ylim=(-0.7, len(hubs) - 0.3))
    ax.set_title("variables with most edges", fontsize=9, color=INK)
    ax.set_xlim(left=min(0.0, -0.02 * degree.max()))
    tidy(ax)
