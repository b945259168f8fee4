"""Edges entering as the penalties fall."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from jointglasso.networks import JointNetworks
from jointglasso.networks.differences import values_by_class
from jointglasso.plots.canvas import PALE, class_style, finish, new_figure, plain, tidy
from jointglasso.validation import InputError, check_count

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from jointglasso.solution import Solution


def plot_path(
    solutions: Sequence[Solution],
    *,
    class_name: str | None = None,
    top: int = 12,
    path: str | os.PathLike[str] | None = None,
) -> Figure:
    """Draw the number of edges and the partial correlations along a path of penalties.

    Parameters
    ----------
    solutions : sequence of Solution
        What `jointglasso.solve_path` returned, at least two; one lambda1 should not come twice.
    class_name : str, optional
        Class whose partial correlations are drawn; the first by default.
    top : int, default 12
        Pairs of variables to draw in colour and name, the strongest at the smallest penalty; others are grey.
    path : str or path, optional
        Save the picture there; the ending tells the format.

    Returns
    -------
    matplotlib.figure.Figure

    Examples
    --------
    >>> import jointglasso as jgl
    >>> S = [[[1.0, 0.5], [0.5, 1.0]], [[1.0, 0.4], [0.4, 1.0]]]
    >>> figure = jgl.plots.plot_path(jgl.solve_path(S, [(0.5, 0.1), (0.2, 0.1), (0.1, 0.1)]))
    >>> len(figure.axes) > 0
    True
    """
    found = sorted(solutions, key=lambda solution: -solution.parameters["lambda1"])
    if len(found) < 2:
        raise InputError(f"A path needs at least two solutions, not {len(found)}.", "solutions")
    lambda1 = np.array([solution.parameters["lambda1"] for solution in found])
    last = JointNetworks.from_solution(found[-1])
    k = 0 if class_name is None else last.class_index(class_name)
    figure = new_figure(10.0, 4.2)
    left, right = figure.subplots(1, 2, width_ratios=(1, 1.4))
    for c, name in enumerate(last.class_names):
        colour, marker = class_style(c, last.n_classes)
        counts = [solution.n_edges[c] for solution in found]
        left.plot(lambda1, counts, color=colour, marker=marker, markersize=3.5, linewidth=1.2, label=plain(name))
    left.set(ylabel="edges")
    left.legend(frameon=False, fontsize=8)
    _draw_values(right, found, lambda1, k, check_count("top", top))
    right.set_ylabel(f"partial correlation in {plain(last.class_names[k])}", fontsize=9)
    for ax in (left, right):
        ax.set(xscale="log", xlabel="lambda1 (falling)")
        ax.invert_xaxis()
        tidy(ax)
    return finish(figure, path)


def _draw_values(ax: Any, found: Sequence[Solution], lambda1: Any, k: int, top: int) -> None:
    tables = [_values(solution, k) for solution in found]
    pairs = sorted({pair for table in tables for pair in table}, key=lambda pair: -abs(tables[-1].get(pair, 0.0)))
    names = found[0].variable_names
    # Grey lines first; beyond some hundred they say nothing new.
    for rank in [*range(min(len(pairs), 400) - 1, top - 1, -1), *range(min(top, len(pairs)) - 1, -1, -1)]:
        values = np.array([table.get(pairs[rank], 0.0) for table in tables])
        coloured = rank < top
        colour, label = PALE, None
        if coloured:
            colour = class_style(rank, top)[0]
            label = plain(f"{names[pairs[rank][0]]} – {names[pairs[rank][1]]}")
        ax.plot(lambda1, values, color=colour, linewidth=1.4 if coloured else 0.5, label=label, zorder=2 + coloured)
    ax.axhline(0.0, color=PALE, linewidth=0.8)
    handles, labels = ax.get_legend_handles_labels()
    if handles:
        ax.legend(handles[::-1], labels[::-1], frameon=False, fontsize=7, loc="center left", bbox_to_anchor=(1.0, 0.5))


def _values(solution: Solution, k: int) -> dict[tuple[int, int], float]:
    """Partial correlations of one class by pair."""
    networks = JointNetworks(solution.precision, solution.class_names, solution.variable_names)
    edges = networks.edge_list
    value = values_by_class(networks)[:, k]
    first, second = edges.first[edges.starts], edges.second[edges.starts]
    return {(int(i), int(j)): float(v) for i, j, v in zip(first, second, value, strict=True) if v}
