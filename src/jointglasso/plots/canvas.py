"""Creation and saving of figures without changes to the global state of matplotlib; colours and styles."""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from inspect import cleandoc
from pathlib import Path
from typing import Any, ParamSpec

import matplotlib
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

from jointglasso._files import atomic_write
from jointglasso._typing import FloatArray, IntArray
from jointglasso.data.checks import InputError, known_arguments
from jointglasso.networks import JointNetworks

#: File to save a figure to, or None.
SavePath = str | os.PathLike[str] | None

#: Colours that are distinct for all kinds of colour vision (Okabe and Ito).
BLACK, ORANGE, SKY, GREEN, YELLOW, BLUE, VERMILION, PURPLE = (
    "#000000", "#E69F00", "#56B4E9", "#009E73", "#F0E442", "#0072B2", "#D55E00", "#CC79A7",
)  # fmt: skip
CLASS_COLOURS = (BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY, BLACK)
CLASS_MARKERS = "osD^vPX"
#: Colours of groups of variables, distinct from those of edges and classes.
GROUP_COLOURS = (
    "#1b9e77", "#7a5fc4", "#e0559b", "#8aa800", "#e0a800", "#a6611a", "#17a2c6", "#c43c39", "#4b6cb7", "#7d7d33",
    "#c98bd0", "#2f6f4f",
)  # fmt: skip
INK = "#333333"
FAINT = "#9A9A9A"
PALE = "#BBBBBB"


#: End of the parameters of every figure, and what is returned.
_SAVED = """\
path : str or path, optional
    File to save the figure to; the suffix determines the format.

Returns
-------
matplotlib.figure.Figure"""

P = ParamSpec("P")


def documented(draw: Callable[P, Figure]) -> Callable[P, Figure]:
    """Decorator of the public figures: checked names of arguments, ``{saved}`` replaced in the docstring."""
    draw.__doc__ = cleandoc(draw.__doc__ or "").replace("{saved}", _SAVED)
    return known_arguments()(draw)


class NotebookFigure(Figure):
    """Figure with a PNG representation, which a notebook displays; ``%matplotlib inline`` is not needed."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        FigureCanvasAgg(self)

    def _repr_png_(self) -> bytes:
        picture = io.BytesIO()
        self.savefig(picture, format="png", dpi=110)
        return picture.getvalue()


def new_figure(width: float, height: float, layout: str | None = "constrained") -> Figure:
    """Create a figure, size in inches, that is not registered with pyplot and that notebooks display."""
    return NotebookFigure(figsize=(width, height), layout=layout)


def panels(n: int, width: float, height: float, beside: float = 0.0, below: float = 0.0) -> tuple[Figure, list[Any]]:
    """Figure with n panels in rows of at most three, with margins `beside` and `below` in inches."""
    columns = min(n, 3)
    rows = -(-n // columns)
    figure = new_figure(columns * width + beside, rows * height + below)
    axes = figure.subplots(rows, columns, squeeze=False).ravel().tolist()
    for ax in axes[n:]:
        ax.set_visible(False)
    return figure, axes[:n]


def name_cells(ax: Any, names: list[str], size: float) -> None:
    """Label the sides of a matrix whose cells are one unit wide, in font size `size`."""
    shown = [plain(name if len(name) <= 20 else f"{name[:19]}…") for name in names]
    middle = [place + 0.5 for place in range(len(names))]
    ax.set_xticks(middle, shown, rotation=90, fontsize=size)
    ax.set_yticks(middle, shown, fontsize=size)
    ax.tick_params(length=0, pad=1)


def class_style(k: int, n_classes: int) -> dict[str, Any]:
    """`color` and `marker` of class `k`, as matplotlib takes them."""
    if n_classes <= len(CLASS_COLOURS):
        colour: Any = CLASS_COLOURS[k]
    else:
        colour = matplotlib.colormaps["viridis"](k / (n_classes - 1) * 0.95)
    return {"color": colour, "marker": CLASS_MARKERS[k % len(CLASS_MARKERS)]}


def legend_of_classes(figure: Figure, axes: Any, n_classes: int) -> None:
    """Legend of the classes drawn in a panel, below the figure."""
    handles = axes.get_legend_handles_labels()
    figure.legend(*handles, loc="outside lower center", ncols=min(6, n_classes), frameon=False, fontsize=8)


def colour_bar(figure: Figure, image: Any, axes: Any, label: str, size: float = 9, **options: Any) -> None:
    """Colour bar beside panels."""
    bar = figure.colorbar(image, ax=axes, pad=0.02, **options)
    bar.set_label(label, fontsize=size)
    bar.ax.tick_params(labelsize=7)


def message(axes: Any, text: str) -> None:
    """Centred text in a panel without data or ticks."""
    axes.set(xticks=[], yticks=[])
    axes.text(0.5, 0.5, text, ha="center", va="center", color=INK, transform=axes.transAxes)


def pair_names(networks: JointNetworks, pairs: IntArray) -> list[str]:
    """Labels of pairs of the edge list."""
    edges, names = networks.edge_list, networks.variable_names
    ends = zip(edges.first[edges.starts[pairs]], edges.second[edges.starts[pairs]], strict=True)
    return [plain(f"{names[i]} \u2013 {names[j]}") for i, j in ends]


def draw_lines(axes: Any, lines: FloatArray, **style: Any) -> None:
    """Draw lines through points (m, points, 2), which leave the limits of the panel as they are."""
    axes.add_collection(LineCollection(list(lines), **style), autolim=False)


def tidy(axes: Any) -> None:
    """Remove the top and right spines."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=8)


def plain(text: str) -> str:
    """Escape text for matplotlib: dollar signs (math mode) and a leading underscore (hidden legend entries)."""
    shown = text.replace("$", r"\$")
    return f"\u200b{shown}" if shown.startswith("_") else shown


def finish(figure: Figure, path: SavePath, dpi: int = 200) -> Figure:
    """Save the figure atomically if `path` is given, in the format of its suffix, and return the figure."""
    if path is None:
        return figure
    target = Path(path)
    known = figure.canvas.get_supported_filetypes()
    format = target.suffix.lower().lstrip(".")
    if format not in known:
        raise InputError(
            f"{target.name!r} has the ending {target.suffix!r}, which is not a figure format: use .png, .pdf or .svg.",
            "path",
        )
    # Text stays text in vector files, as journals and editors require.
    letters = {"pdf.fonttype": 42, "svg.fonttype": "none"}
    with matplotlib.rc_context(letters), atomic_write(target) as file:
        figure.savefig(file, format=format, dpi=dpi)
    return figure
