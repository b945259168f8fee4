"""How central the variables are, class by class."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import numpy as np

from jointglasso.networks import JointNetworks
from jointglasso.plots.canvas import INK, class_style, finish, new_figure, plain, tidy
from jointglasso.validation import check_count

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MEASURES = {"strength": "strength", "expected_influence": "expected influence", "betweenness": "betweenness"}


def plot_centrality(networks: JointNetworks, *, top: int = 25, path: str | os.PathLike[str] | None = None) -> Figure:
    """Draw strength, expected influence and betweenness of the most central variables.

    Parameters
    ----------
    networks : JointNetworks
        What to draw.
    top : int, default 25
        Variables to show, those whose strength is largest in the mean over the classes.
    path : str or path, optional
        Save the picture there; the ending tells the format.

    Returns
    -------
    matplotlib.figure.Figure
        A panel for each measure and a line for each class; `JointNetworks.centrality` says what they mean.

    Examples
    --------
    >>> import jointglasso as jgl
    >>> one = [[2.0, -0.8, 0.0], [-0.8, 2.0, 0.5], [0.0, 0.5, 2.0]]
    >>> two = [[2.0, -0.3, 0.0], [-0.3, 2.0, 0.0], [0.0, 0.0, 2.0]]
    >>> networks = jgl.JointNetworks([one, two], ["ill", "well"], ["a", "b", "c"])
    >>> figure = jgl.plots.plot_centrality(networks)
    >>> len(figure.axes) > 0
    True
    """
    table = networks.centrality()
    shape = (networks.n_variables, networks.n_classes)
    values = {name: table[name].to_numpy().reshape(shape) for name in MEASURES}
    mean = values["strength"].mean(axis=1)
    chosen = np.argsort(-mean, kind="stable")[: check_count("top", top)]
    chosen = chosen[mean[chosen] > 0]
    figure = new_figure(9.0, 1.6 + 0.2 * max(6, len(chosen)))
    panels = figure.subplots(1, len(MEASURES), sharey=True)
    height = np.arange(len(chosen))[::-1]
    for ax, (name, words) in zip(panels, MEASURES.items(), strict=True):
        for k, class_name in enumerate(networks.class_names):
            colour, marker = class_style(k, networks.n_classes)
            ax.plot(
                values[name][chosen, k], height, color=colour, marker=marker, markersize=3.5, linewidth=0.9,
                label=plain(class_name),
            )  # fmt: skip
        ax.set_xlabel(words, fontsize=9)
        ax.grid(axis="y", color="#EEEEEE", linewidth=0.6)
        tidy(ax)
    panels[0].set_yticks(height, [plain(networks.variable_names[i]) for i in chosen], fontsize=7)
    if len(chosen) == 0:
        panels[1].text(0.5, 0.5, "no edges", ha="center", va="center", color=INK, transform=panels[1].transAxes)
    if networks.n_classes > 1:
        handles = panels[0].get_legend_handles_labels()
        columns = min(6, networks.n_classes)
        figure.legend(*handles, loc="outside lower center", ncols=columns, frameon=False, fontsize=8)
    return finish(figure, path)
