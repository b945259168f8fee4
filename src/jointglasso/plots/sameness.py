"""Which edges stay the same across the classes and which change, by the patterns that occur."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np

from jointglasso._typing import IntArray
from jointglasso.networks import JointNetworks
from jointglasso.networks.same import LACKS, compared_pairs, pattern_codes
from jointglasso.plots.canvas import BLUE, FAINT, INK, class_style, finish, new_figure, plain, tidy
from jointglasso.validation import check_count

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def plot_sameness(networks: JointNetworks, *, top: int = 12, path: str | os.PathLike[str] | None = None) -> Figure:
    """Draw in which classes edges have the same value, and how many edges there are of each such pattern.

    Parameters
    ----------
    networks : JointNetworks
        Networks of a solution with a fused, chain or graph penalty.
    top : int, default 12
        Patterns to draw, the most frequent.
    path : str or path, optional
        Save the picture there; the ending tells the format.

    Returns
    -------
    matplotlib.figure.Figure
        A row for each pattern. Left a square for each class: one colour is one value, an empty square is no edge.
        Right the number of pairs with that pattern, the darker part being proved to stay the same or to change.

    Examples
    --------
    >>> import jointglasso as jgl
    >>> S = [[[1.0, 0.5], [0.5, 1.0]], [[1.0, 0.4], [0.4, 1.0]]]
    >>> solution = jgl.solve(S, 0.05, 0.02, penalty="fused")
    >>> figure = jgl.plots.plot_sameness(jgl.JointNetworks.from_solution(solution))
    >>> len(figure.axes) > 0
    True
    """
    same = compared_pairs(networks)
    codes, patterns = pattern_codes(networks)
    shown = patterns[: check_count("top", top)]
    width = min(9.0, 1.2 + 0.3 * networks.n_classes)
    figure = new_figure(width + 4.2, 1.4 + 0.32 * max(3, len(shown)))
    left, right = figure.subplots(1, 2, width_ratios=(width, 4.2), sharey=True)
    if len(shown) == 0:
        left.text(0.5, 0.5, "no edges", ha="center", va="center", color=INK, transform=left.transAxes)
        right.set_visible(False)
        left.set(xticks=[], yticks=[])
        return finish(figure, path)
    _draw_patterns(left, networks, shown)
    counts = np.bincount(codes, minlength=len(patterns))[: len(shown)]
    proved = np.bincount(codes, same.changes_proved, minlength=len(patterns))[: len(shown)]
    _draw_counts(right, counts, proved)
    beyond = len(patterns) - len(shown)
    rest = f"; {beyond} rarer patterns are not shown" if beyond else ""
    figure.suptitle(f"{len(same.rows):,} joined pairs, {int(same.changes.sum()):,} of them change{rest}", fontsize=10)
    return finish(figure, path)


def _draw_patterns(ax: Any, networks: JointNetworks, patterns: IntArray) -> None:
    n = networks.n_classes
    for row, pattern in enumerate(patterns):
        whole = len(np.unique(pattern[pattern != LACKS])) == 1
        for k, cluster in enumerate(pattern.tolist()):
            if cluster == LACKS:
                continue
            face = "white" if cluster < 0 else FAINT if whole else class_style(cluster, n)[0]
            edge = "#CCCCCC" if cluster < 0 else face
            ax.scatter(k, row, marker="s", s=min(90.0, 2600.0 / n), facecolors=[face], edgecolors=[edge])
    step = max(1, n // 25)
    names = [plain(networks.class_names[k]) for k in range(0, n, step)]
    slanted = max(map(len, names)) > 3
    ax.set_xticks(
        range(0, n, step), names, rotation=45 * slanted, ha="right" if slanted else "center", rotation_mode="anchor",
        fontsize=8,
    )  # fmt: skip
    ax.set(xlim=(-0.6, n - 0.4), ylim=(len(patterns) - 0.4, -0.6), yticks=[])
    ax.set_title("one colour, one value; empty: no edge", fontsize=9, color=INK)
    tidy(ax)
    ax.spines[:].set_visible(False)


def _draw_counts(ax: Any, counts: IntArray, proved: Any) -> None:
    rows = np.arange(len(counts))
    ax.barh(rows, counts, height=0.7, color=BLUE, alpha=0.3, label="not proved")
    ax.barh(rows, proved, height=0.7, color=BLUE, label="proved")
    for row, count in enumerate(counts.tolist()):
        ax.annotate(f"{count:,}", (count, row), xytext=(3, 0), textcoords="offset points", va="center", fontsize=8)
    ax.set_xlim(0, 1.15 * counts.max())
    ax.set_xlabel("pairs of variables", fontsize=8)
    ax.tick_params(axis="y", length=0)
    handles, labels = ax.get_legend_handles_labels()
    ax.legend(handles[::-1], labels[::-1], frameon=False, fontsize=8, loc="lower right")
    tidy(ax)
