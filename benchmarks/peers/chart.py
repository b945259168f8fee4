"""Time against accuracy: one panel for each problem, one line for each peer."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from peers.adapters import PEERS, peer_at
from peers.judge import TARGET

#: Told apart by all eyes (Okabe and Ito), and by the markers in print.
COLOURS = ("#D55E00", "#E69F00", "#0072B2", "#009E73", "#CC79A7", "#56B4E9", "#000000")
MARKERS = "osD^vP*"

#: Gaps below this are rounding, and drawn here.
FLOOR = 1e-11


def panels(log: Path, only: list[str]) -> dict[str, list[dict]]:
    """Rows by problem: those named, or those measured beyond the target. The latest row of a peer counts."""
    found: dict[str, dict[str, dict]] = {}
    for line in log.read_text().splitlines():
        row = json.loads(line)
        if row["curve"] or only:
            found.setdefault(row["problem"], {})[row["peer"]] = row
    names = [name for text in only for name in found if text in name] if only else list(found)
    return {name: list(found[name].values()) for name in names}


def points(row: dict) -> np.ndarray:
    """Seconds and gap of each attempt that gave an answer."""
    pairs = [(a["seconds"], a["gap"]) for a in row["attempts"] if np.isfinite(a.get("gap", np.inf))]
    return np.array(pairs).reshape(-1, 2)


def draw(log: Path, out: Path, only: list[str]) -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    shown = panels(log, only)
    if not shown:
        raise SystemExit(
            f"{log}: no problem to draw; measure one of those marked for the plot, or name some by --only."
        )
    n_columns = min(len(shown), 2 if len(shown) <= 4 else 3)
    n_rows = -(-len(shown) // n_columns)
    figure = Figure(figsize=(4.3 * n_columns, 3.5 * n_rows + 1.0), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(n_rows, n_columns, squeeze=False, sharey=True).ravel()
    handles = {}
    for axis, (name, rows) in zip(axes, shown.items(), strict=False):
        handles |= panel(axis, name, rows)
    axes[0].set_ylim(bottom=FLOOR / 300)  # of all panels; room for the names of those that are missing
    handles["target"] = axes[0].lines[-1]
    for axis in axes[len(shown) :]:
        axis.set_visible(False)
    for axis in axes[::n_columns]:
        axis.set_ylabel("relative gap, by the judge")
    for axis in axes[max(0, len(shown) - n_columns) : len(shown)]:
        axis.set_xlabel("seconds of one solve (compilation excluded)")
    figure.suptitle("Time to a given accuracy: lower left is better", fontsize=13)
    figure.legend(
        handles.values(), handles.keys(), loc="outside lower center", ncols=min(4, len(handles)), frameon=False
    )
    out.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(out, dpi=150)


def panel(axis, name: str, rows: list[dict]) -> dict[str, object]:
    """Draw one problem; gives a handle for the legend by peer. Who is missing is named."""
    handles, missing = {}, []
    order = [peer_at(place).name for place in PEERS]
    for row in rows:
        where = points(row)
        if not len(where):
            if not row["status"].startswith("not comparable"):
                missing.append(f"{row['peer']}: {row['status'].removeprefix('not available: ')[:40]}")
            continue
        style = order.index(row["peer"])
        (handles[row["peer"]],) = axis.loglog(where[:, 0], np.maximum(where[:, 1], FLOOR), color=COLOURS[style],
            marker=MARKERS[style], markersize=5, linewidth=2.2 if style == 0 else 1.4)  # fmt: skip
    axis.axhline(TARGET, color="0.4", linestyle="--", linewidth=1)
    left, right = np.log10(axis.get_xlim())
    axis.set_xlim(10 ** np.floor(left), 10 ** np.ceil(right))
    axis.tick_params(labelleft=True)
    axis.set_title(name, fontsize=11)
    axis.grid(True, which="major", color="0.9")
    axis.set_axisbelow(True)
    if missing:
        axis.text(0.02, 0.02, "not drawn: " + "; ".join(missing), transform=axis.transAxes, fontsize=7, color="0.35")
    return handles
