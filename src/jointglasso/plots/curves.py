"""Numbers along a solve or along a penalty."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np

from jointglasso._typing import FloatArray
from jointglasso.plots.canvas import BLUE, GREEN, INK, PURPLE, VERMILION, finish, new_figure, tidy

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from jointglasso.solution import Solution


def plot_convergence(solution: Solution, *, path: str | os.PathLike[str] | None = None) -> Figure:
    """Draw the objective and the duality gap against the iteration.

    Parameters
    ----------
    solution : Solution
        What `jointglasso.solve` returned.
    path : str or path, optional
        Save the picture there; the ending tells the format.

    Returns
    -------
    matplotlib.figure.Figure
        Left the objective; right, on a logarithmic axis, its distance from the lower bound that the certificate
        proves, the gap of each iteration where it was computed, and the gap of the final certificate.

    Examples
    --------
    >>> import numpy as np
    >>> import jointglasso as jgl
    >>> rng = np.random.default_rng(0)
    >>> X, y = rng.normal(size=(80, 4)), np.repeat(["ill", "well"], 40)
    >>> X[:, 1] += X[:, 0]
    >>> source = jgl.SampleCovariance.from_labels(X, y)
    >>> figure = jgl.plots.plot_convergence(jgl.solve(source, 0.01, 0.01, solver="admm"))
    >>> len(figure.axes) > 0
    True
    """
    figure = new_figure(8.0, 3.2)
    left, right = figure.subplots(1, 2)
    steps = np.array([step.number for step in solution.history])
    objective = solution.history.objective
    gap = np.array([np.nan if value is None else value for value in solution.history.gap], dtype=np.float64)
    if len(steps) == 0:
        steps, objective, gap = np.array([0]), np.array([solution.objective]), np.array([np.nan])
    left.plot(steps, objective, color=BLUE, marker="o", markersize=3, linewidth=1.2)
    left.set(xlabel="iteration", ylabel="objective")
    left.ticklabel_format(axis="y", useOffset=False)
    certificate = solution.certificate
    _draw_log(right, steps, objective - certificate.dual_objective, BLUE, "o", "objective − proved lower bound")
    _draw_log(right, steps, gap, VERMILION, "s", "gap of the iteration")
    if certificate.gap > 0:
        right.axhline(certificate.gap, color=INK, linestyle=":", linewidth=1, label="gap of the certificate")
    right.set(xlabel="iteration")
    if right.lines:
        right.set_yscale("log")
        right.legend(frameon=False, fontsize=8)
    else:
        right.text(0.5, 0.5, "exact: the gap is zero", ha="center", va="center", color=INK, transform=right.transAxes)
    for ax in (left, right):
        ax.xaxis.get_major_locator().set_params(integer=True)
        tidy(ax)
    figure.suptitle(str(solution.status.reason), fontsize=9, color=INK)
    return finish(figure, path)


def _draw_log(ax: Any, steps: Any, values: FloatArray, colour: str, marker: str, label: str) -> None:
    shown = np.isfinite(values) & (values > 0)
    if shown.any():
        ax.plot(
            steps[shown], values[shown], color=colour, marker=marker, markersize=3, linewidth=1.2, label=label
        )  # fmt: skip


def plot_component_curve(curve: Any, *, path: str | os.PathLike[str] | None = None) -> Figure:
    """Draw how the problem falls apart as lambda1 grows.

    Parameters
    ----------
    curve : object with arrays `lambda1`, `largest`, `n_edges`, `cost` and floats `lambda_max`, `percolation`
        Such as `jointglasso.component_curve` returns: size of the largest block, entries above their thresholds and
        work at each lambda1; `percolation`, the lambda1 below which pure noise would tie most variables together, may
        be None.
    path : str or path, optional
        Save the picture there; the ending tells the format.

    Returns
    -------
    matplotlib.figure.Figure

    Examples
    --------
    >>> import jointglasso as jgl
    >>> curve = jgl.component_curve([[[1.0, 0.5, 0.1], [0.5, 1.0, 0.2], [0.1, 0.2, 1.0]]], 0.0)
    >>> figure = jgl.plots.plot_component_curve(curve)
    >>> len(figure.axes) > 0
    True
    """
    figure = new_figure(5.5, 5.6)
    panels = figure.subplots(3, 1, sharex=True)
    order = np.argsort(np.asarray(curve.lambda1))
    lambda1 = np.asarray(curve.lambda1, dtype=np.float64)[order]
    columns = (
        (curve.largest, "largest block", BLUE),
        (curve.n_edges, "entries above\nthreshold", GREEN),
        (curve.cost, "work\n(sum of cubed sizes)", PURPLE),
    )
    for ax, (values, label, colour) in zip(panels, columns, strict=True):
        heights = np.asarray(values, dtype=np.float64)[order]
        ax.plot(lambda1, heights, color=colour, linewidth=1.5, marker="." if len(lambda1) <= 60 else "")
        if (heights > 0).any():
            ax.set_yscale("log" if (heights > 0).all() else "symlog")
        ax.set_ylabel(label, fontsize=9)
        tidy(ax)
    panels[-1].set_xlabel("lambda1", fontsize=9)
    _mark(panels, curve.lambda_max, "--", "no edge above")
    _mark(panels, curve.percolation, ":", "noise alone ties most variables below")
    if panels[0].get_legend_handles_labels()[0]:
        figure.legend(
            *panels[0].get_legend_handles_labels(), loc="outside upper center", ncols=2, frameon=False, fontsize=8
        )
    return finish(figure, path)


def _mark(panels: Any, value: float | None, style: str, label: str) -> None:
    if value is None or not np.isfinite(value):
        return
    for ax in panels:
        ax.axvline(value, color=INK, linestyle=style, linewidth=1, label=f"{label}: {value:.3g}")
