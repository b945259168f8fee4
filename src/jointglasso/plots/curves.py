"""Curves over the penalty: block sizes, scores of model selection, regularisation path."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.colors import SymLogNorm
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

from jointglasso._typing import FloatArray
from jointglasso.data.checks import InputError, check_count
from jointglasso.networks import JointNetworks
from jointglasso.networks.comparisons import values_by_class
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
    points = [str(number) for number in range(len(solutions))]
    path = JointNetworks([solution.precision[k] for solution in solutions], points, solutions[0].variable_names)
    values = values_by_class(path)
    order = np.argsort(-np.abs(values[:, -1]), kind="stable")[:400]
    for pair in order[: top - 1 : -1]:
        ax.plot(lambda1, values[pair], color=canvas.PALE, linewidth=0.5, zorder=2)
    names = canvas.pair_names(path, order[:top])
    for rank, name in reversed([*enumerate(names)]):
        colour = canvas.class_style(rank, top)["color"]
        ax.plot(lambda1, values[order[rank]], color=colour, linewidth=1.4, label=name, zorder=3)
    ax.axhline(0.0, color=canvas.PALE, linewidth=0.8)
    handles, labels = ax.get_legend_handles_labels()
    if handles:
        ax.legend(handles[::-1], labels[::-1], frameon=False, fontsize=7, loc="center left", bbox_to_anchor=(1.0, 0.5))


#: Number of lines that can be told apart.
MAX_LINES = 5


@canvas.documented
def plot_selection(result: Any, *, path: canvas.SavePath = None) -> Figure:
    """Draw the score of every pair of penalties and mark the chosen one.

    Parameters
    ----------
    result : object with a data frame `table`, `best` and `criterion`
        The table has the columns `lambda1`, `lambda2` and `score`; `best` is the row label of the choice.
    {saved}
        A line for each ratio lambda2 / lambda1 or for each lambda2, whichever are fewer, up to five; else, as after a
        search, a map of the points by the sum lambda1 + lambda2 and the fraction lambda2 / (lambda1 + lambda2),
        coloured by score.

    Examples
    --------
    >>> figure = jgl.plots.plot_selection(chosen)
    """
    table = result.table
    missing = [name for name in ("lambda1", "lambda2", "score") if name not in table]
    if missing:
        raise InputError(
            f"The table of the result has no column {missing[0]!r}, so there is nothing to draw.", "result"
        )
    lambda1, lambda2, score = (table[name].to_numpy(dtype=np.float64) for name in ("lambda1", "lambda2", "score"))
    best = table.index.get_loc(result.best)
    figure = canvas.new_figure(5.6, 4.0)
    ax = figure.subplots()
    columns, criterion = (lambda1, lambda2, score), str(result.criterion)
    key, word = _lines_by(lambda1, lambda2)
    if len(np.unique(key)) <= MAX_LINES:
        _draw_lines(ax, columns, best, criterion, (key, word))
    else:
        _draw_map(figure, ax, columns, best, criterion)
    ax.set_title(f"chosen: lambda1 = {lambda1[best]:.3g}, lambda2 = {lambda2[best]:.3g}", fontsize=9, color=canvas.INK)
    canvas.tidy(ax)
    return canvas.finish(figure, path)


def _lines_by(lambda1: FloatArray, lambda2: FloatArray) -> tuple[FloatArray, str]:
    """Value that is constant along a line: the ratio, or lambda2 where it has fewer values."""
    ratio = np.full_like(lambda1, np.inf)
    ratio[lambda1 > 0] = np.round(lambda2[lambda1 > 0] / lambda1[lambda1 > 0], 6)
    by_ratio = len(np.unique(ratio)) <= len(np.unique(lambda2))
    return (ratio, "lambda2 / lambda1") if by_ratio else (lambda2, "lambda2")


def _draw_lines(
    ax: Any, columns: tuple[FloatArray, ...], best: int, criterion: str, by: tuple[FloatArray, str]
) -> None:
    lambda1, _, score = columns
    key, word = by
    values = np.unique(key)
    for i, value in enumerate(values):
        indices = np.flatnonzero((key == value) & np.isfinite(score))
        indices = indices[np.argsort(lambda1[indices], kind="stable")]
        style = {**canvas.class_style(i, len(values)), "markersize": 3.5, "linewidth": 1.2}
        ax.plot(lambda1[indices], score[indices], **style, label=f"{word} = {value:.3g}")
    _star(ax, lambda1[best], score[best])
    ax.set(xlabel="lambda1", ylabel=criterion)
    ax.legend(frameon=False, fontsize=8)


def _draw_map(figure: Any, ax: Any, columns: tuple[FloatArray, ...], best: int, criterion: str) -> None:
    lambda1, lambda2, score = columns
    total = lambda1 + lambda2
    fraction = np.divide(lambda2, total, out=np.zeros_like(total), where=total > 0)
    excess = score - score[best]
    drawn = np.isfinite(excess) & (total > 0)
    # Scores near the best differ least and matter most: their logarithm is coloured.
    colours = SymLogNorm(10.0, vmin=0.0, vmax=max(float(excess[drawn].max()), 20))
    points = ax.scatter(
        total[drawn], fraction[drawn], c=excess[drawn], norm=colours, cmap="viridis_r", s=70, edgecolor="white"
    )
    ax.plot(total[~drawn], fraction[~drawn], "x", color=canvas.PALE, markersize=5)
    canvas.colour_bar(figure, points, ax, f"{criterion} above the smallest")
    ax.set_xscale("log")
    ticks = np.unique(np.geomspace(total[drawn].min(), total[drawn].max(), 6))
    ax.set_xticks(ticks, [f"{tick:.2g}" for tick in ticks])
    ax.minorticks_off()
    _star(ax, total[best], fraction[best])
    ax.set(xlabel="strength of the penalty: lambda1 + lambda2", ylim=(-0.06, 1.06))
    ax.set_ylabel("similarity: lambda2 / (lambda1 + lambda2)", fontsize=9)


def _star(ax: Any, x: float, y: float) -> None:
    """Mark the chosen point with a star."""
    ax.plot(x, y, "*", markersize=15, color=canvas.VERMILION, markeredgecolor="white", zorder=5)
