"""Networks over time: where they change, and how the edges that change most do."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np

from jointglasso._typing import FloatArray
from jointglasso.networks import JointNetworks
from jointglasso.networks.differences import values_by_class
from jointglasso.plots.canvas import BLUE, INK, class_style, finish, new_figure, plain, tidy
from jointglasso.validation import InputError, check_count

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def plot_over_time(
    networks: JointNetworks, *, time: Any = None, top: int = 8, path: str | os.PathLike[str] | None = None
) -> Figure:
    """Draw how many edges change from each class to the next, and the edges that change most.

    Parameters
    ----------
    networks : JointNetworks
        Networks of classes in the order of time, such as ``TimeVaryingGraphicalLasso(...).networks_``.
    time : sequence of K numbers or datetimes, optional
        Where each class stands in time; one after another by default.
    top : int, default 8
        Pairs of variables to draw, those whose partial correlation moves most.
    path : str or path, optional
        Save the picture there; the ending tells the format.

    Returns
    -------
    matplotlib.figure.Figure
        Above the number of pairs that change at each step, the darker part being proved to; with a penalty that does
        not compare values, edges that appear or vanish. Below the partial correlations over time, empty where a class
        lacks a variable.

    Examples
    --------
    >>> import jointglasso as jgl
    >>> one = [[2.0, -0.8, 0.0], [-0.8, 2.0, 0.5], [0.0, 0.5, 2.0]]
    >>> two = [[2.0, -0.3, 0.0], [-0.3, 2.0, 0.0], [0.0, 0.0, 2.0]]
    >>> networks = jgl.JointNetworks([one, two], ["ill", "well"], ["a", "b", "c"])
    >>> figure = jgl.plots.plot_over_time(networks)
    >>> len(figure.axes) > 0
    True
    """
    place = np.arange(networks.n_classes) if time is None else np.asarray(time)
    if place.shape != (networks.n_classes,):
        raise InputError(f"time has shape {place.shape}: give one number or datetime for each of the classes.", "time")
    figure = new_figure(9.0, 5.6)
    above, below = figure.subplots(2, 1, height_ratios=(1, 1.7), sharex=True)
    _draw_steps(above, networks, place)
    _draw_edges(below, networks, place, check_count("top", top))
    if time is None:
        step = max(1, -(-networks.n_classes // 16))
        names = [plain(name) for name in networks.class_names[::step]]
        slanted = sum(map(len, names)) > 90
        below.set_xticks(place[::step], names, rotation=35 if slanted else 0, ha="right" if slanted else "center")
    return finish(figure, path)


def _draw_steps(ax: Any, networks: JointNetworks, place: Any) -> None:
    steps = networks.steps()
    width = np.diff(place)
    middle = place[:-1] + width / 2
    words = "pairs that change"
    if "changed" in steps:
        ax.bar(middle, steps["changed"], width=0.7 * width, color=BLUE, alpha=0.3, label="not proved")
        ax.bar(middle, steps["certified"], width=0.7 * width, color=BLUE, label="proved")
        ax.legend(frameon=False, fontsize=8)
    else:
        words = "edges that appear or vanish"
        ax.bar(middle, steps["appeared"] + steps["vanished"], width=0.7 * width, color=BLUE)
    ax.set_ylabel(words, fontsize=8)
    tidy(ax)


def _draw_edges(ax: Any, networks: JointNetworks, place: Any, top: int) -> None:
    values, edges = values_by_class(networks), networks.edge_list
    moved = _moved(values)
    chosen = np.argsort(-moved, kind="stable")[:top]
    chosen = chosen[moved[chosen] > 0]
    ax.axhline(0.0, color="#CCCCCC", linewidth=0.8, zorder=0)
    for rank, pair in enumerate(chosen):
        colour, marker = class_style(rank, max(2, len(chosen)))
        ends = (networks.variable_names[part[edges.starts[pair]]] for part in (edges.first, edges.second))
        label = plain(" – ".join(ends))
        ax.plot(place, values[pair], color=colour, marker=marker, markersize=3.5, linewidth=1.4, label=label)
    if len(chosen):
        ax.legend(frameon=False, fontsize=7, loc="center left", bbox_to_anchor=(1.0, 0.5))
    else:
        ax.text(0.5, 0.5, "nothing changes", ha="center", va="center", color=INK, transform=ax.transAxes)
    ax.set_ylabel("partial correlation", fontsize=8)
    tidy(ax)


def _moved(values: FloatArray) -> FloatArray:
    """How far each pair goes in all its steps together."""
    return np.asarray(np.nansum(np.abs(np.diff(values, axis=1)), axis=1))
