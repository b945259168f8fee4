"""What the figures of the experiments share."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jointglasso._optional import require
from jointglasso.plots.canvas import BLACK, BLUE, GREEN, INK, ORANGE, PURPLE, VERMILION, new_figure, tidy
from reproduction.designs import shown_lambdas
from reproduction.result import Row

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Colour, marker and line of each method, the same in all figures.
STYLES: dict[str, tuple[str, str, str]] = {
    "HADMM": (BLUE, "o", "-"),
    "LADMM": (VERMILION, "s", "-"),
    "GADMM": (GREEN, "^", "-"),
    "ADMM": (PURPLE, "v", "-"),
    "hybrid": (BLUE, "o", "-"),
    "class": (VERMILION, "s", "-"),
    "global": (GREEN, "^", "-"),
    "dynamic": (BLACK, "D", "-"),
    "jointglasso default": (BLACK, "D", "-"),
    "solution's own blocks": (ORANGE, "x", "--"),
}


@dataclass(frozen=True)
class Curve:
    """Values over the number of classes; open markers where `measured` is false."""

    x: Sequence[float]
    y: Sequence[float]
    measured: Sequence[bool] | None = None


def panels(
    rows: Sequence[Row], p: int, curves: Callable[[list[Row]], dict[str, Curve]], kind: str = ""
) -> dict[tuple[str, str], dict[str, Curve]]:
    """Curves of each design and pair of penalties, made from its rows; `kind` is added to the name of the design."""
    chosen: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        chosen.setdefault((str(row["design"]), str(row["lambdas"])), []).append(row)
    return {(f"type {d}{kind}", shown_lambdas(name, p)): curves(group) for (d, name), group in chosen.items()}


def curve_of(rows: Sequence[Row], column: str) -> Curve:
    """A column over the number of classes."""
    return Curve([row["K"] for row in rows], [row[column] for row in rows])


def caption(figure: Figure, title: str, claim: str) -> None:
    """Title above, the paper's claim below, in lines as long as the figure is wide."""
    width = int(14 * figure.get_figwidth())
    figure.suptitle(title, fontsize=11, color=INK)
    figure.supxlabel(textwrap.fill(f"Paper: {claim}", width), fontsize=8, color=INK)


def crown(figure: Figure, title: str, claim: str) -> None:
    """Put title and claim above a finished figure, which is left as it is and only gets higher."""
    width, height = figure.get_size_inches()
    lines = textwrap.wrap(f"Paper: {claim}", int(14 * width))
    taller = height + 0.35 + 0.17 * len(lines)
    for ax in figure.axes:
        place = ax.get_position()
        ax.set_position((place.x0, place.y0 * height / taller, place.width, place.height * height / taller))
    figure.set_size_inches(width, taller)
    figure.text(0.5, 1.0 - 0.08 / taller, title, ha="center", va="top", fontsize=11, color=INK)
    figure.text(0.5, 1.0 - 0.31 / taller, "\n".join(lines), ha="center", va="top", fontsize=8, color=INK)


def curve_grid(
    cells: Mapping[tuple[str, str], Mapping[str, Curve]], ylabels: Mapping[str, str], title: str, claim: str
) -> Figure:
    """Draw one panel for each (row, column), with curves by method on a logarithmic axis.

    A single column is laid out as a line. `ylabels` holds the label of each row, or one for all under the empty name.
    """
    rows, columns = (list(dict.fromkeys(key[n] for key in cells)) for n in (0, 1))
    n_lines, n_across = (1, len(rows)) if len(columns) == 1 else (len(rows), len(columns))
    figure = new_figure(max(7.5, 3.0 * n_across + 1.6), 2.0 * n_lines + 1.6)
    panels = figure.subplots(n_lines, n_across, sharex=True, sharey="row" if n_lines > 1 else False, squeeze=False)
    for ((row, column), curves), ax in zip(cells.items(), panels.flat, strict=True):
        for label, curve in curves.items():
            draw_curve(ax, label, curve)
        ax.set_yscale("log")
        ax.xaxis.get_major_locator().set_params(integer=True)
        ax.set_title(f"{row}: {column}", fontsize=8, color=INK)
        tidy(ax)
        ax.tick_params(which="both", labelsize=7)
        if n_lines == 1 or column == columns[0]:
            ax.set_ylabel(ylabels.get(row, ylabels.get("", "")), fontsize=8)
    for ax in panels[-1]:
        ax.set_xlabel("number of classes K", fontsize=8)
    _legend(figure, list(dict.fromkeys(label for curves in cells.values() for label in curves)))
    caption(figure, title, claim)
    return figure


def draw_curve(ax: Any, label: str, curve: Curve) -> None:
    """Draw one curve; values that were not measured get open markers."""
    colour, marker, line = STYLES[label]
    ax.plot(curve.x, curve.y, color=colour, linestyle=line, linewidth=1.2, zorder=2)
    measured = [True] * len(curve.x) if curve.measured is None else curve.measured
    for full in (True, False):
        points = [(x, y) for x, y, known in zip(curve.x, curve.y, measured, strict=True) if known == full]
        if points:
            ax.plot(
                *zip(*points, strict=True), color=colour, marker=marker, markersize=4.5, linestyle="none", zorder=3,
                markerfacecolor=colour if full else "white",
            )  # fmt: skip


def _legend(figure: Figure, labels: Sequence[str]) -> None:
    """One legend for all panels."""
    line = require("matplotlib.lines", "plots").Line2D
    handles = [
        line([], [], color=colour, marker=marker, linestyle=style, markersize=4.5)
        for colour, marker, style in (STYLES[label] for label in labels)
    ]
    figure.legend(handles, labels, loc="outside right center", frameon=False, fontsize=8)
