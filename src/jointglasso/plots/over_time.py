"""Changes of edges over consecutive classes."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure

from jointglasso.data.checks import InputError, check_count
from jointglasso.networks import JointNetworks
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
        canvas.message(ax, "nothing changes")
    ax.set_ylabel("partial correlation", fontsize=8)
    canvas.tidy(ax)
