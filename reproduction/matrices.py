"""Matrices coloured by block, and graphs with fixed places, for the small examples."""

from __future__ import annotations

from typing import Any

import numpy as np

from jointglasso._typing import FloatArray, IntArray
from jointglasso.plots.canvas import BLUE, GREEN, INK, ORANGE, PURPLE, SKY, VERMILION, YELLOW

BLOCK_COLOURS = (BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY, YELLOW)


def draw_blocks(ax: Any, labels: IntArray, values: FloatArray | None = None) -> None:
    """Colour the entries within blocks, white between them; print `values` into the entries if given."""
    p = len(labels)
    image = np.ones((p, p, 4))
    for block in range(int(labels.max()) + 1):
        members = np.flatnonzero(labels == block)
        colour = BLOCK_COLOURS[block % len(BLOCK_COLOURS)]
        image[np.ix_(members, members)] = [*(int(colour[n : n + 2], 16) / 255 for n in (1, 3, 5)), 0.55]
    ax.imshow(image, interpolation="nearest")
    ax.set_xticks(range(p), [str(i + 1) for i in range(p)], fontsize=7)
    ax.set_yticks(range(p), [str(i + 1) for i in range(p)], fontsize=7)
    ax.set_xticks(np.arange(p + 1) - 0.5, minor=True)
    ax.set_yticks(np.arange(p + 1) - 0.5, minor=True)
    ax.grid(which="minor", color="white" if values is None else "#DDDDDD", linewidth=0.8)
    ax.tick_params(which="both", length=0)
    if values is not None:
        for i, j in np.ndindex(p, p):
            ax.text(j, i, f"{values[i, j]:.2f}".replace("0.", ".", 1), ha="center", va="center", fontsize=7, color=INK)


def draw_graph(ax: Any, edges: FloatArray, labels: IntArray) -> None:
    """Draw a graph on a circle, its components in different colours."""
    p = len(edges)
    angle = np.pi / 2 - 2 * np.pi * np.arange(p) / p
    x, y = np.cos(angle), np.sin(angle)
    for i, j in zip(*np.nonzero(np.triu(edges, 1)), strict=True):
        ax.plot(x[[i, j]], y[[i, j]], color=INK, linewidth=1.2, zorder=1)
    colours = [BLOCK_COLOURS[label % len(BLOCK_COLOURS)] for label in labels]
    ax.scatter(x, y, s=230, c=colours, edgecolors="white", zorder=2)
    for i in range(p):
        ax.text(x[i], y[i], str(i + 1), ha="center", va="center", fontsize=8, color="white", zorder=3)
    ax.set(xlim=(-1.35, 1.35), ylim=(-1.35, 1.35), aspect="equal")
    ax.set_axis_off()


def set_notation(labels: IntArray) -> str:
    """Write a partition as {1,2} {3}."""
    blocks = [np.flatnonzero(labels == block) + 1 for block in range(int(labels.max()) + 1)]
    return " ".join("{" + ",".join(map(str, members)) + "}" for members in blocks)


def with_edges(p: int, edges: dict[tuple[int, int], float]) -> FloatArray:
    """Unit variances, and the covariances given for pairs of variables counted from 1."""
    matrix = np.eye(p)
    for (i, j), value in edges.items():
        matrix[i - 1, j - 1] = matrix[j - 1, i - 1] = value
    return matrix
