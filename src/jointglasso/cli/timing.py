"""`--time`: samples with time stamps become classes, the windows of `jointglasso.covariance.windows`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click
import numpy as np

if TYPE_CHECKING:
    from jointglasso import JointNetworks
    from jointglasso.io import LabelledTable

#: Steps told on the screen.
TOLD = 5


def in_windows(table: LabelledTable, options: dict[str, Any]) -> tuple[LabelledTable, float]:
    """The samples window by window, and what each counts for there; as they are where there is no --time."""
    from jointglasso.covariance.windows import time_windows

    given = {name: options[name] for name in ("windows", "width", "overlap")}
    if options["time"] is None:
        return table, 1.0
    if isinstance(given["width"], str):
        given["width"] = _number(given["width"])
    found = time_windows([] if table.y is None else table.y.tolist(), **given)
    rows = np.concatenate(found.rows)
    return replace(
        table,
        X=table.X[rows],
        y=np.repeat(np.array(found.names), [len(mine) for mine in found.rows]),
        sample_names=tuple(table.sample_names[i] for i in rows),
        source=f"{table.source}; {len(found.names)} windows by {options['time']}",
    ), found.share


def check_time(options: dict[str, Any]) -> None:
    """Refuse options that say something else about the classes than --time."""
    clash = [f"--{name}" for name in ("label", "labels", "classes", "rename") if options[name]]
    if options["time"] is not None and clash:
        raise click.UsageError(f"--time makes windows the classes: leave {' and '.join(clash)} out.")
    if options["time"] is not None and len(options["file"]) > 1:
        raise click.UsageError("--time makes windows the classes, and several files would be classes too: give one.")
    if options["time"] is None and any(options[name] not in (None, 0.0) for name in ("windows", "width", "overlap")):
        raise click.UsageError("--windows, --width and --overlap need --time, the column that tells the time.")


def _number(word: str) -> Any:
    try:
        return float(word)
    except ValueError:
        return word


def steps_told(networks: JointNetworks) -> str:
    """Where the networks change most, in a sentence."""
    steps = networks.steps()
    what = "changed" if "changed" in steps else "size"
    most = steps[steps[what] > 0].sort_values(what, ascending=False, kind="stable").head(TOLD)
    if not len(most):
        return "Nothing changes from one window to the next."
    told = [
        f"from {row.before} to {row.after} "
        + (f"{row.changed:,} pairs ({row.certified:,} proved)" if what == "changed" else f"{row.size:.2f}")
        for row in most.itertuples()
    ]
    return f"Most changes: {'; '.join(told)}."
