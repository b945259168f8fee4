"""Figures of inference: confidence intervals, volcano plots of differences, centrality."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from jointglasso._typing import BoolArray, FloatArray
from jointglasso.data.checks import check_count
from jointglasso.inference import Inference, NetworkBootstrap
from jointglasso.plots import canvas


@canvas.documented
def plot_intervals(
    result: Inference,
    *,
    fdr: float = 0.1,
    n_edges: int = 25,
    level: float = 0.95,
    path: canvas.SavePath = None,
) -> Figure:
    """Draw the partial correlations with their intervals, class by class (a forest plot).

    Shown are the pairs that are significant at the false discovery rate `fdr` in at least one class, smallest p-value
    first; the marker is filled in the classes where the pair is significant.

    Parameters
    ----------
    result : Inference
        Result of `jointglasso.infer`.
    fdr : float, default 0.1
        False discovery rate.
    n_edges : int, default 25
        Maximum number of pairs.
    level : float, default 0.95
        Confidence level.
    {saved}

    Examples
    --------
    >>> figure = jgl.plots.plot_intervals(jgl.infer(X, y))
    """
    pairs = result.leading(fdr, check_count("n_edges", n_edges))
    figure = canvas.new_figure(6.5, max(2.4, 1.3 + 0.3 * len(pairs)))
    ax = figure.subplots()
    if len(pairs) == 0:
        canvas.message(ax, f"no edge at a false discovery rate of {fdr:g}")
        return canvas.finish(figure, path)
    ends = result.estimates.rows[pairs], result.estimates.columns[pairs]
    names = [f"{result.variable_names[i]} \u2013 {result.variable_names[j]}" for i, j in zip(*ends, strict=True)]
    numbers = np.stack([values[pairs] for values in result.intervals(level)])
    ax.axvline(0.0, color=canvas.PALE, linewidth=1.0, zorder=0)
    _draw_intervals(ax, names, result.class_names, numbers, result.q_values[pairs] <= fdr)
    ax.set_xlabel(f"partial correlation, {100 * level:g} % interval", fontsize=9)
    return canvas.finish(figure, path)


@canvas.documented
def plot_volcano(result: Inference, *, fdr: float = 0.1, n_named: int = 8, path: canvas.SavePath = None) -> Figure:
    """Draw every difference between two classes against its p-value (a volcano plot), one panel a comparison.

    Parameters
    ----------
    result : Inference
        Result of `jointglasso.infer` for at least two classes.
    fdr : float, default 0.1
        Differences with a q-value up to this are coloured.
    n_named : int, default 8
        Number of differences to label in each panel, those with the smallest p-values.
    {saved}

    Examples
    --------
    >>> figure = jgl.plots.plot_volcano(jgl.infer(X, y))
    """
    table = result.differences()
    figure, axes = canvas.panels(result.n_classes * (result.n_classes - 1) // 2, 5.6, 3.8)
    for ax, (a, b) in zip(axes, combinations(result.class_names, 2), strict=True):
        comparison = table[(table.class1 == a) & (table.class2 == b)]
        height = -np.log10(np.maximum(comparison.p_value.to_numpy(), 1e-300))
        significant = (comparison.q_value <= fdr).to_numpy()
        for mask, style in (
            (~significant, {"s": 8, "color": canvas.FAINT, "alpha": 0.5, "rasterized": True}),
            (significant, {"s": 16, "color": canvas.VERMILION}),
        ):
            ax.scatter(comparison.difference[mask], height[mask], linewidths=0, **style)
        ax.axvline(0.0, color=canvas.PALE, linewidth=1.0, zorder=0)
        widest = 1.9 * float(comparison.difference.abs().max())
        ax.set(xlabel=canvas.plain(f"difference, {a} \u2212 {b}"), ylabel="\u2212log10 p", xlim=(-widest, widest))
        ax.set_title(f"{int(significant.sum())} at FDR {fdr:g}", fontsize=9, color=canvas.INK)
        ax.set_ylim(bottom=0.0)
        _name_points(ax, comparison[significant].head(n_named), height[significant][:n_named])
        for axis in (ax.xaxis, ax.yaxis):
            axis.label.set(fontsize=9)
        canvas.tidy(ax)
    return canvas.finish(figure, path)


@canvas.documented
def plot_bootstrap(
    result: NetworkBootstrap,
    *,
    measure: str = "strength",
    n_variables: int = 25,
    path: canvas.SavePath = None,
) -> Figure:
    """Draw strength or expected influence of the variables with bootstrap intervals, class by class.

    Parameters
    ----------
    result : NetworkBootstrap
        Result of `jointglasso.bootstrap_network`.
    measure : {"strength", "expected_influence"}
        Centrality measure.
    n_variables : int, default 25
        Maximum number of variables, the most central first.
    {saved}

    Examples
    --------
    >>> figure = jgl.plots.plot_bootstrap(jgl.bootstrap_network(X, y, n_resamples=20, random_state=0))
    """
    table = result.centrality(measure)
    largest = table.groupby("variable", sort=False)[measure].apply(lambda values: values.abs().max())
    shown = list(largest.sort_values(ascending=False, kind="stable").index[: check_count("n_variables", n_variables)])
    wide = table.pivot(index="variable", columns="class").loc[shown]
    numbers = np.stack([wide[name][list(result.class_names)].to_numpy() for name in (measure, "low", "high")])
    figure = canvas.new_figure(5.5, max(2.4, 1.3 + 0.26 * len(shown)))
    ax = figure.subplots()
    if measure == "expected_influence":
        ax.axvline(0.0, color=canvas.PALE, linewidth=1.0, zorder=0)
    _draw_intervals(ax, shown, result.class_names, numbers, np.ones(numbers.shape[1:], dtype=bool))
    ax.set_xlabel(f"{measure.replace('_', ' ')}, 95 % bootstrap interval", fontsize=9)
    return canvas.finish(figure, path)


def _draw_intervals(
    ax: Any, names: Sequence[str], class_names: Sequence[str], numbers: FloatArray, filled: BoolArray
) -> None:
    """Rows of intervals with a marker for each class: estimate, low and high are `numbers` (3, m, K)."""
    n_classes, height = len(class_names), np.arange(len(names))[::-1]
    shift = np.linspace(0.24, -0.24, n_classes) if n_classes > 1 else np.zeros(1)
    for k, name in enumerate(class_names):
        colour, marker = canvas.class_style(k, n_classes).values()
        (estimate, low, high), y = numbers[:, :, k], height + shift[k]
        ax.hlines(y, low, high, color=colour, linewidth=1.3, alpha=0.85)
        face = [colour if fill else "white" for fill in filled[:, k]]
        ax.scatter(estimate, y, marker=marker, s=24, facecolors=face, edgecolors=[colour], linewidths=1.1, zorder=3)
        ax.scatter([], [], marker=marker, s=24, color=colour, label=canvas.plain(name))
    ax.set_yticks(height, [canvas.plain(name) for name in names])
    ax.set_ylim(-0.7, len(names) - 0.3)
    ax.legend(frameon=False, fontsize=8, loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=4)
    canvas.tidy(ax)


def _name_points(ax: Any, table: Any, height: Any) -> None:
    """Label points on their side of zero, labels stacked vertically with a line to each point."""
    top = ax.get_ylim()[1]
    for side, align in ((-1, "right"), (1, "left")):
        on_side = np.flatnonzero(np.sign(table.difference.to_numpy()) == side)
        below = np.inf  # labels are placed from the top down without overlap
        for index in on_side[np.argsort(-height[on_side], kind="stable")]:
            a, b, x = table[["variable1", "variable2", "difference"]].iloc[index]
            below = min(height[index], below - 0.055 * top)
            ax.annotate(
                canvas.plain(f"{a} \u2013 {b}"), (x, height[index]), xytext=(x + side * 0.04 * ax.get_xlim()[1], below),
                ha=align, va="center", fontsize=7, color=canvas.INK,
                arrowprops={"arrowstyle": "-", "color": canvas.PALE, "linewidth": 0.6, "shrinkA": 1, "shrinkB": 2},
            )  # fmt: skip
