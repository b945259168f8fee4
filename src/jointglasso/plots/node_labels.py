"""Greedy placement of node labels without overlap."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.patheffects import withStroke

from jointglasso._typing import BoolArray, FloatArray, IntArray
from jointglasso.plots import canvas

#: Positions of a label relative to its node, in order of preference: horizontal and vertical side.
PLACES = ((0, 1), (0, -1), (1, 0), (-1, 0), (1, 1), (-1, 1), (1, -1), (-1, -1))
_ALIGN_H = {-1: "right", 0: "center", 1: "left"}
_ALIGN_V = {-1: "top", 0: "center", 1: "bottom"}


@dataclass(frozen=True)
class Scene:
    """Drawn objects to avoid: nodes with positions (data units) and radii (points), and lines (m, 2, 2) in data units.

    `joined` (p, K) is True where a node has a neighbour in a panel; elsewhere its label is pale.
    """

    positions: FloatArray
    radii: FloatArray
    lines: FloatArray
    names: Sequence[str]
    joined: BoolArray


def place_labels(axes: Sequence[Any], scene: Scene, chosen: IntArray, size: float, must: bool) -> int:
    """Label the nodes `chosen`, most important first, at the same positions in every panel; return their number.

    The panels have equal limits and size; `scene` holds the nodes and lines of all of them. Unless `must` is set, a
    label that would cover another label or a node is left out.
    """
    panel = axes[0]
    per_point = panel.figure.dpi / 72.0
    discs = np.column_stack([panel.transData.transform(scene.positions), scene.radii * per_point])
    lines = panel.transData.transform(scene.lines.reshape(-1, 2)).reshape(-1, 2, 2)
    frame = panel.get_window_extent()
    written: list[FloatArray] = []
    for node in chosen:
        width, height = _extent(panel.figure, scene.names[node], size)
        boxes = [_box(discs[node], place, width, height, per_point) for place in PLACES]
        covered = np.array([_covered(box, written, frame) for box in boxes])
        hidden = np.array([_hidden_nodes(box, discs, int(node)) for box in boxes])
        crossed = np.array([_crossed_lines(box, lines) for box in boxes])
        best = int(np.argmin(1e3 * covered + 6.0 * hidden + crossed + 0.3 * np.arange(len(PLACES))))
        if not must and (covered[best] > 0 or hidden[best] > 0):
            continue
        written.append(boxes[best])
        for k, ax in enumerate(axes):
            style = {"fontsize": size, "color": canvas.INK if scene.joined[node, k] else canvas.FAINT}
            _write(ax, scene.positions[node], scene.names[node], PLACES[best], scene.radii[node] + 1.0, style)
    return len(written)


def _extent(figure: Any, name: str, size: float) -> tuple[float, float]:
    text = figure.text(0, 0, canvas.plain(name), fontsize=size)
    box = text.get_window_extent()
    text.remove()
    return box.width, box.height


def _box(disc: FloatArray, place: tuple[int, int], width: float, height: float, per_point: float) -> FloatArray:
    """Left, bottom, right and top of a label beside a disc, in pixels."""
    offset = disc[2] + per_point
    diagonal = 0.7 if 0 not in place else 1.0
    x = disc[0] + place[0] * offset * diagonal + (place[0] - 1) / 2 * width
    y = disc[1] + place[1] * offset * diagonal + (place[1] - 1) / 2 * height
    return np.array([x, y, x + width, y + height])


def _covered(box: FloatArray, written: list[FloatArray], frame: Any) -> float:
    """Overlap of a box with earlier labels (with a margin), plus its overhang beyond the panel, in pixels."""
    outside = max(frame.x0 - box[0], box[2] - frame.x1, frame.y0 - box[1], box[3] - frame.y1, 0.0)
    if not written:
        return outside
    others = np.array(written)
    across = np.minimum(others[:, 2], box[2]) - np.maximum(others[:, 0], box[0]) + 2.0
    along = np.minimum(others[:, 3], box[3]) - np.maximum(others[:, 1], box[1])
    return outside + float((np.maximum(across, 0) * np.maximum(along, 0)).sum())


def _hidden_nodes(box: FloatArray, discs: FloatArray, node: int) -> int:
    x = np.clip(discs[:, 0], box[0], box[2]) - discs[:, 0]
    y = np.clip(discs[:, 1], box[1], box[3]) - discs[:, 1]
    hidden = np.hypot(x, y) < discs[:, 2]
    hidden[node] = False
    return int(hidden.sum())


def _crossed_lines(box: FloatArray, lines: FloatArray) -> int:
    """Number of lines that cross a box (clipping by Liang and Barsky)."""
    start, along = lines[:, 0], lines[:, 1] - lines[:, 0]
    along = np.where(np.abs(along) < 1e-9, 1e-9, along)
    one, two = (box[:2] - start) / along, (box[2:] - start) / along
    enters = np.minimum(one, two).max(axis=1)
    leaves = np.maximum(one, two).min(axis=1)
    return int(((enters <= leaves) & (leaves >= 0) & (enters <= 1)).sum())


def _write(ax: Any, position: FloatArray, name: str, place: tuple[int, int], offset: float, style: Any) -> None:
    diagonal = 0.7 if 0 not in place else 1.0
    ax.annotate(
        canvas.plain(name),
        position,
        xytext=(place[0] * offset * diagonal, place[1] * offset * diagonal),
        textcoords="offset points",
        ha=_ALIGN_H[place[0]],
        va=_ALIGN_V[place[1]],
        zorder=5,
        annotation_clip=False,
        path_effects=[withStroke(linewidth=1.6, foreground="white", alpha=0.85)],
        **style,
    )
