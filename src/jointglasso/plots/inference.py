"""Pictures of inference: intervals of edges, differences against their p-values, q-values of all pairs, centrality."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from jointglasso._optional import require
from jointglasso._typing import BoolArray, FloatArray
from jointglasso.inference import Inference, NetworkBootstrap
from jointglasso.plots.canvas import (
    FAINT,
    INK,
    PALE,
    VERMILION,
    class_style,
    finish,
    name_cells,
    new_figure,
    panels,
    plain,
    say,
    tidy,
)
from jointglasso.validation import check_count

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Matrices of more variables than this are drawn without names.
_NAMED = 60


def plot_intervals(
    found: Inference,
    *,
    fdr: float = 0.1,
    n_edges: int = 25,
    level: float = 0.95,
    path: str | os.PathLike[str] | None = None,
) -> Figure:
    """Draw the partial correlations with their intervals, class by class (a forest plot).

    Shown are the pairs that are an edge at the false discovery rate `fdr` in some class, smallest p-value first; where
    they are an edge the mark is filled.

    Parameters
    ----------
    found : Inference
        What to draw.
    fdr : float, default 0.1
        False discovery rate.
    n_edges : int, default 25
        Pairs to show at most.
    level : float, default 0.95
        Level of the intervals.
    path : str or path, optional
        Save the picture there; the ending tells the format.

    Returns
    -------
    matplotlib.figure.Figure

    Examples
    --------
    >>> import numpy as np
    >>> import jointglasso as jgl
    >>> rng = np.random.default_rng(0)
    >>> X, y = rng.normal(size=(80, 4)), np.repeat(["ill", "well"], 40)
    >>> X[:, 1] += X[:, 0]
    >>> figure = jgl.plots.plot_intervals(jgl.infer(X, y))
    >>> len(figure.axes) > 0
    True
    """
    pairs = found.leading(fdr, check_count("n_edges", n_edges))
    figure = new_figure(6.5, max(2.4, 1.3 + 0.3 * len(pairs)))
    ax = figure.subplots()
    if len(pairs) == 0:
        say(ax, f"no edge at a false discovery rate of {fdr:g}")
        ax.set(xticks=[], yticks=[])
        return finish(figure, path)
    ends = found.estimates.rows[pairs], found.estimates.columns[pairs]
    names = [f"{found.variable_names[i]} \u2013 {found.variable_names[j]}" for i, j in zip(*ends, strict=True)]
    numbers = np.stack([values[pairs] for values in found.intervals(level)])
    ax.axvline(0.0, color=PALE, linewidth=1.0, zorder=0)
    _draw_intervals(ax, names, found.class_names, numbers, found.q_values[pairs] <= fdr)
    ax.set_xlabel(f"partial correlation, {100 * level:g} % interval", fontsize=9)
    return finish(figure, path)


def plot_volcano(
    found: Inference, *, fdr: float = 0.1, n_named: int = 8, path: str | os.PathLike[str] | None = None
) -> Figure:
    """Draw every difference between two classes against its p-value (a volcano plot), one panel a comparison.

    Parameters
    ----------
    found : Inference
        What to draw; at least two classes.
    fdr : float, default 0.1
        Differences with a q-value up to this are coloured.
    n_named : int, default 8
        Name so many of those with the smallest p-values in each panel.
    path : str or path, optional
        Save the picture there; the ending tells the format.

    Returns
    -------
    matplotlib.figure.Figure

    Examples
    --------
    >>> import numpy as np
    >>> import jointglasso as jgl
    >>> rng = np.random.default_rng(0)
    >>> X, y = rng.normal(size=(80, 4)), np.repeat(["ill", "well"], 40)
    >>> X[:, 1] += X[:, 0]
    >>> figure = jgl.plots.plot_volcano(jgl.infer(X, y))
    >>> len(figure.axes) > 0
    True
    """
    table = found.differences()
    comparisons = [(a, b) for n, a in enumerate(found.class_names) for b in found.class_names[n + 1 :]]
    figure, axes = panels(len(comparisons), 5.6, 3.8)
    for ax, (a, b) in zip(axes, comparisons, strict=True):
        mine = table[(table.class1 == a) & (table.class2 == b)]
        height = -np.log10(np.maximum(mine.p_value.to_numpy(), 1e-300))
        hit = (mine.q_value <= fdr).to_numpy()
        ax.scatter(mine.difference[~hit], height[~hit], s=8, color=FAINT, linewidths=0, alpha=0.5, rasterized=True)
        ax.scatter(mine.difference[hit], height[hit], s=16, color=VERMILION, linewidths=0)
        ax.axvline(0.0, color=PALE, linewidth=1.0, zorder=0)
        widest = 1.9 * float(mine.difference.abs().max())
        ax.set(xlabel=plain(f"difference, {a} \u2212 {b}"), ylabel="\u2212log10 p", xlim=(-widest, widest))
        ax.set_title(f"{int(hit.sum())} at FDR {fdr:g}", fontsize=9, color=INK)
        ax.set_ylim(bottom=0.0)
        _name_points(ax, mine[hit].head(n_named), height[hit][:n_named])
        ax.xaxis.label.set_fontsize(9)
        ax.yaxis.label.set_fontsize(9)
        tidy(ax)
    return finish(figure, path)


def plot_q_values(found: Inference, *, path: str | os.PathLike[str] | None = None) -> Figure:
    """Draw the q-values of all pairs as a matrix for each class, signed by the partial correlation.

    Colour tells ``-log10 q``, red for positive and blue for negative partial correlations, up to q = 0.001; white is
    q = 1. Variables are ordered so that those with edges to each other stand together.

    Parameters
    ----------
    found : Inference
        What to draw.
    path : str or path, optional
        Save the picture there; the ending tells the format.

    Returns
    -------
    matplotlib.figure.Figure

    Examples
    --------
    >>> import numpy as np
    >>> import jointglasso as jgl
    >>> rng = np.random.default_rng(0)
    >>> X, y = rng.normal(size=(80, 4)), np.repeat(["ill", "well"], 40)
    >>> X[:, 1] += X[:, 0]
    >>> figure = jgl.plots.plot_q_values(jgl.infer(X, y))
    >>> len(figure.axes) > 0
    True
    """
    p, n_classes = len(found.variable_names), found.n_classes
    matrices = [np.zeros((p, p)) for _ in range(n_classes)]
    rows, columns = found.estimates.rows, found.estimates.columns
    for k, matrix in enumerate(matrices):
        signed = -np.log10(np.maximum(found.q_values[:, k], 1e-3)) * np.sign(found.estimates.z[:, k])
        matrix[rows, columns] = matrix[columns, rows] = signed
    order = _order(matrices)
    figure, axes = panels(n_classes, 3.4, 3.4, beside=0.8)
    shown = {"cmap": "RdBu_r", "vmin": -3, "vmax": 3, "interpolation": "nearest", "extent": (0, p, p, 0)}
    for ax, matrix, name in zip(axes, matrices, found.class_names, strict=True):
        image = ax.imshow(matrix[np.ix_(order, order)], **shown)
        ax.set_title(plain(name), fontsize=9, color=INK)
        ax.set(xticks=[], yticks=[])
        if p <= _NAMED:
            name_cells(ax, [found.variable_names[i] for i in order], min(8.0, 170.0 / p))
    bar = figure.colorbar(image, ax=figure.axes, shrink=0.7, ticks=[-3, -2, -1, 0, 1, 2, 3])
    bar.ax.set_yticklabels(["0.001", "0.01", "0.1", "1", "0.1", "0.01", "0.001"], fontsize=8)
    bar.set_label("q-value (blue: negative, red: positive)", fontsize=8)
    return finish(figure, path)


def plot_bootstrap(
    found: NetworkBootstrap,
    *,
    measure: str = "strength",
    n_variables: int = 25,
    path: str | os.PathLike[str] | None = None,
) -> Figure:
    """Draw strength or expected influence of the variables with bootstrap intervals, class by class.

    Parameters
    ----------
    found : NetworkBootstrap
        Result of `jointglasso.bootstrap_network`.
    measure : {"strength", "expected_influence"}
        What to draw.
    n_variables : int, default 25
        Variables to show at most, the most central first.
    path : str or path, optional
        Save the picture there; the ending tells the format.

    Returns
    -------
    matplotlib.figure.Figure

    Examples
    --------
    >>> import numpy as np
    >>> import jointglasso as jgl
    >>> rng = np.random.default_rng(0)
    >>> X, y = rng.normal(size=(80, 4)), np.repeat(["ill", "well"], 40)
    >>> X[:, 1] += X[:, 0]
    >>> again = jgl.bootstrap_network(X, y, n_resamples=20, random_state=0)
    >>> figure = jgl.plots.plot_bootstrap(again)
    >>> len(figure.axes) > 0
    True
    """
    table = found.centrality(measure)
    largest = table.groupby("variable", sort=False)[measure].apply(lambda values: values.abs().max())
    shown = list(largest.sort_values(ascending=False, kind="stable").index[: check_count("n_variables", n_variables)])
    wide = table.pivot(index="variable", columns="class").loc[shown]
    numbers = np.stack([wide[name][list(found.class_names)].to_numpy() for name in (measure, "low", "high")])
    figure = new_figure(5.5, max(2.4, 1.3 + 0.26 * len(shown)))
    ax = figure.subplots()
    if measure == "expected_influence":
        ax.axvline(0.0, color=PALE, linewidth=1.0, zorder=0)
    _draw_intervals(ax, shown, found.class_names, numbers, np.ones(numbers.shape[1:], dtype=bool))
    ax.set_xlabel(f"{measure.replace('_', ' ')}, 95 % bootstrap interval", fontsize=9)
    return finish(figure, path)


def _draw_intervals(
    ax: Any, names: Sequence[str], class_names: Sequence[str], numbers: FloatArray, filled: BoolArray
) -> None:
    """A row for each name and a mark in it for each class: estimate, low and high are `numbers` (3, m, K)."""
    n_classes, height = len(class_names), np.arange(len(names))[::-1]
    shift = np.linspace(0.24, -0.24, n_classes) if n_classes > 1 else np.zeros(1)
    for k, name in enumerate(class_names):
        colour, marker = class_style(k, n_classes)
        (estimate, low, high), at = numbers[:, :, k], height + shift[k]
        ax.hlines(at, low, high, color=colour, linewidth=1.3, alpha=0.85)
        fill = np.where(filled[:, [k]], _rgba(colour), _rgba("white"))
        ax.scatter(estimate, at, marker=marker, s=24, c=fill, edgecolors=[colour], linewidths=1.1, zorder=3)
        ax.scatter([], [], marker=marker, s=24, color=colour, label=plain(name))
    ax.set_yticks(height, [plain(name) for name in names])
    ax.set_ylim(-0.7, len(names) - 0.3)
    ax.legend(frameon=False, fontsize=8, loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=4)
    tidy(ax)


def _order(matrices: list[Any]) -> Any:
    """Variables in the order of a hierarchical clustering of all classes together."""
    hierarchy = require("scipy.cluster.hierarchy", "plots")
    squareform = require("scipy.spatial.distance", "plots").squareform
    near = np.sum([np.abs(matrix) for matrix in matrices], axis=0)
    far = near.max() - near
    np.fill_diagonal(far, 0.0)
    if len(far) < 3 or not near.any():
        return np.arange(len(far))
    return hierarchy.leaves_list(hierarchy.linkage(squareform(far, checks=False), "average"))


def _name_points(ax: Any, table: Any, height: Any) -> None:
    """Name points beside them, on their own side of zero, one name above another with a line to its point."""
    top = ax.get_ylim()[1]
    for side, align in ((-1, "right"), (1, "left")):
        mine = np.flatnonzero(np.sign(table.difference.to_numpy()) == side)
        below = np.inf  # names go down from the highest point and never touch
        for n in mine[np.argsort(-height[mine], kind="stable")]:
            a, b, x = table[["variable1", "variable2", "difference"]].iloc[n]
            below = min(height[n], below - 0.055 * top)
            ax.annotate(
                plain(f"{a} \u2013 {b}"), (x, height[n]), xytext=(x + side * 0.04 * ax.get_xlim()[1], below), ha=align,
                va="center", fontsize=7, color=INK,
                arrowprops={"arrowstyle": "-", "color": PALE, "linewidth": 0.6, "shrinkA": 1, "shrinkB": 2},
            )  # fmt: skip


def _rgba(colour: Any) -> Any:
    return np.array([require("matplotlib.colors", "plots").to_rgba(colour)])
