"""Scores of model selection over the grid of penalties, and selection frequencies of the edges."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.colors import SymLogNorm
from matplotlib.figure import Figure

from jointglasso._typing import FloatArray
from jointglasso.data.checks import InputError, check_count
from jointglasso.networks import JointNetworks
from jointglasso.plots import canvas

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
    _mark(ax, lambda1[best], score[best])
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
    _mark(ax, total[best], fraction[best])
    ax.set(xlabel="strength of the penalty: lambda1 + lambda2", ylim=(-0.06, 1.06))
    ax.set_ylabel("similarity: lambda2 / (lambda1 + lambda2)", fontsize=9)


def _mark(ax: Any, x: float, y: float) -> None:
    """Mark the chosen point with a star."""
    ax.plot(x, y, "*", markersize=15, color=canvas.VERMILION, markeredgecolor="white", zorder=5)


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
