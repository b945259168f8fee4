"""Curves over the penalty: block sizes, regularisation path."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

from jointglasso.data.checks import InputError, check_count
from jointglasso.networks import JointNetworks
from jointglasso.networks.edge_list import upper_entries
from jointglasso.plots import canvas
from jointglasso.solution import Solution


@canvas.documented
def plot_component_curve(curve: Any, *, path: canvas.SavePath = None) -> Figure:
    """Draw block sizes, number of edges and cost of the screened problem against lambda1.

    Parameters
    ----------
    curve : object with arrays `lambda1`, `largest`, `n_edges`, `cost` and floats `lambda_max`, `percolation`
        Such as `jointglasso.component_curve` returns: size of the largest block, entries above their thresholds and
        work at each lambda1; `percolation`, the lambda1 below which pure noise would connect most variables, may be
        None.
    {saved}

    Examples
    --------
    >>> import jointglasso as jgl
    >>> curve = jgl.component_curve([[[1.0, 0.5, 0.1], [0.5, 1.0, 0.2], [0.1, 0.2, 1.0]]], 0.0)
    >>> figure = jgl.plots.plot_component_curve(curve)
    >>> len(figure.axes) > 0
    True
    """
    figure = canvas.new_figure(5.5, 5.6)
    panels = figure.subplots(3, 1, sharex=True)
    order = np.argsort(np.asarray(curve.lambda1))
    lambda1 = np.asarray(curve.lambda1, dtype=np.float64)[order]
    columns = (
        (curve.largest, "largest block", canvas.BLUE),
        (curve.n_edges, "entries above\nthreshold", canvas.GREEN),
        (curve.cost, "work\n(sum of cubed sizes)", canvas.PURPLE),
    )
    for ax, (values, label, colour) in zip(panels, columns, strict=True):
        heights = np.asarray(values, dtype=np.float64)[order]
        ax.plot(lambda1, heights, color=colour, linewidth=1.5, marker="." if len(lambda1) <= 60 else "")
        if (heights > 0).any():
            ax.set_yscale("log" if (heights > 0).all() else "symlog")
            if 0 < heights.max() < 1000 * heights.min():
                ax.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
                ax.yaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
            ax.yaxis.set_minor_formatter(NullFormatter())
        ax.set_ylabel(label, fontsize=9)
        canvas.tidy(ax)
    panels[-1].set_xlabel("lambda1", fontsize=9)
    _mark(panels, curve.lambda_max, "--", "no edge above")
    _mark(panels, curve.percolation, ":", "pure noise percolates below")
    if panels[0].get_legend_handles_labels()[0]:
        figure.legend(
            *panels[0].get_legend_handles_labels(), loc="outside upper center", ncols=2, frameon=False, fontsize=8
        )
    return canvas.finish(figure, path)


def _mark(panels: Any, value: float | None, style: str, label: str) -> None:
    if value is None or not np.isfinite(value):
        return
    for ax in panels:
        ax.axvline(value, color=canvas.INK, linestyle=style, linewidth=1, label=f"{label}: {value:.3g}")


@canvas.documented
def plot_path(
    solutions: Sequence[Solution],
    *,
    class_name: str | None = None,
    top: int = 12,
    path: canvas.SavePath = None,
) -> Figure:
    """Draw the number of edges and the partial correlations along a path of penalties.

    Parameters
    ----------
    solutions : sequence of Solution
        What `jointglasso.solve_path` returned, at least two; with different lambda1.
    class_name : str, optional
        Class whose partial correlations are drawn; the first by default.
    top : int, default 12
        Pairs of variables to draw in colour and name, the strongest at the smallest penalty; others are grey.
    {saved}

    Examples
    --------
    >>> import jointglasso as jgl
    >>> S = [[[1.0, 0.5], [0.5, 1.0]], [[1.0, 0.4], [0.4, 1.0]]]
    >>> figure = jgl.plots.plot_path(jgl.solve_path(S, [(0.5, 0.1), (0.2, 0.1), (0.1, 0.1)]))
    >>> len(figure.axes) > 0
    True
    """
    ordered = sorted(solutions, key=lambda solution: -solution.parameters["lambda1"])
    if len(ordered) < 2:
        raise InputError(f"A path needs at least two solutions, not {len(ordered)}.", "solutions")
    lambda1 = np.array([solution.parameters["lambda1"] for solution in ordered])
    last = JointNetworks.from_solution(ordered[-1])
    k = 0 if class_name is None else last.class_index(class_name)
    figure = canvas.new_figure(10.0, 4.2)
    left_ax, right_ax = figure.subplots(1, 2, width_ratios=(1, 1.4))
    for c, name in enumerate(last.class_names):
        counts, style = [solution.n_edges[c] for solution in ordered], canvas.class_style(c, last.n_classes)
        left_ax.plot(lambda1, counts, **style, markersize=3.5, linewidth=1.2, label=canvas.plain(name))
    left_ax.set(ylabel="edges")
    left_ax.legend(frameon=False, fontsize=8)
    _draw_values(right_ax, ordered, lambda1, k, check_count("top", top))
    right_ax.set_ylabel(f"partial correlation in {canvas.plain(last.class_names[k])}", fontsize=9)
    for ax in (left_ax, right_ax):
        ax.set(xscale="log", xlabel="lambda1 (decreasing)")
        ax.invert_xaxis()
        canvas.tidy(ax)
    return canvas.finish(figure, path)


def _draw_values(ax: Any, solutions: Sequence[Solution], lambda1: Any, k: int, top: int) -> None:
    names, entries = solutions[0].variable_names, [upper_entries(solution.precision[k]) for solution in solutions]
    keys = [rows * len(names) + columns for rows, columns, _, _ in entries]
    pairs = np.unique(np.concatenate(keys))
    values = np.zeros((len(solutions), len(pairs)))
    for n, (key, (_, _, _, partial)) in enumerate(zip(keys, entries, strict=True)):
        values[n, np.searchsorted(pairs, key)] = partial
    order = np.argsort(-np.abs(values[-1]), kind="stable")[:400].tolist()
    for pair in order[: top - 1 : -1]:
        ax.plot(lambda1, values[:, pair], color=canvas.PALE, linewidth=0.5, zorder=2)
    for rank, pair in reversed([*enumerate(order[:top])]):
        label = canvas.plain(f"{names[pairs[pair] // len(names)]} – {names[pairs[pair] % len(names)]}")
        colour = canvas.class_style(rank, top)["color"]
        ax.plot(lambda1, values[:, pair], color=colour, linewidth=1.4, label=label, zorder=3)
    ax.axhline(0.0, color=canvas.PALE, linewidth=0.8)
    handles, labels = ax.get_legend_handles_labels()
    if handles:
        ax.legend(handles[::-1], labels[::-1], frameon=False, fontsize=7, loc="center left", bbox_to_anchor=(1.0, 0.5))
