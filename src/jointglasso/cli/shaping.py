"""Transformations of a table between reading and estimation: classes, time windows, variables, scale."""

from __future__ import annotations

import warnings
from contextlib import suppress
from dataclasses import replace
from itertools import compress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from jointglasso._wording import count, listed, nearest
from jointglasso.cli.options import assignments, split
from jointglasso.errors import InputError

if TYPE_CHECKING:
    from jointglasso.io import LabelledTable


def shape(table: LabelledTable, options: dict[str, Any]) -> tuple[LabelledTable, dict[str, float]]:
    """Table after the transformations of the options, and the rank of the covariates in each class."""
    ranks: dict[str, float] = {}
    table = _rename(table, options)
    if options["log"]:
        table = _log(table)
    if options["constant"] == "drop":
        table = _drop_constant(table)
    if covariates := split(options["covariates"]):
        table, ranks = _regress_out(table, covariates, options["association"])
    if options["top_variance"]:
        table = _top_variance(table, options["top_variance"])
    if not options["log"]:
        _warn_about_scale(table, options["association"])
    return table, ranks


def _new_names(options: dict[str, Any]) -> dict[str, str]:
    return dict(assignments("--rename", split(options["rename"]), "OLD=NEW"))


def class_order(table: LabelledTable, options: dict[str, Any]) -> list[str] | None:
    """Classes in the order of --classes, or else of --rename; None for the default order."""
    renamed = _new_names(options)
    order = [renamed.get(name, name) for name in split(options["classes"])] or list(dict.fromkeys(renamed.values()))
    if not order:
        return None
    return [name for name in order if name in table.classes] + [name for name in table.classes if name not in order]


def one_class_each(tables: dict[Path, LabelledTable], *, union: bool = False) -> LabelledTable:
    """Merge several tables into one, each a class named after its file.

    Variables are the intersection over the files, or with `union` all of them, NaN where a file lacks one.
    """
    import pandas as pd

    from jointglasso.io import LabelledTable

    names = [path.name.split(".")[0] for path in tables]
    if len(set(names)) < len(names):
        names = [str(path) for path in tables]
    for path, table in tables.items():
        if table.y is not None:
            raise InputError(
                f"{path.name} is one of several files, each a class: leave --label and --labels out.", "label"
            )
    files, parts = listed([path.name for path in tables]), list(tables.values())
    merged = pd.concat([part.to_frame() for part in parts], join="outer" if union else "inner")
    if not merged.shape[1]:
        raise InputError(f"{files} have no variable in common: each file is read as a class.", "files")
    for path, table in tables.items():
        if (left_out := len(table.variable_names) - merged.shape[1]) > 0:
            what = f"{count(left_out, 'variable')} of {path.name}"
            warnings.warn(f"{what} left out, which not all files have.", UserWarning, stacklevel=2)
    return LabelledTable(
        merged.to_numpy(),
        np.repeat(names, [len(part.X) for part in parts]),
        tuple(merged.columns),
        tuple(f"{name}/{sample}" for name, part in zip(names, parts, strict=True) for sample in part.sample_names),
        f"{len(parts)} files, each a class: {files}",
        {name: np.concatenate([part.annotations[name] for part in parts]) for name in parts[0].annotations},
    )


def _rename(table: LabelledTable, options: dict[str, Any]) -> LabelledTable:
    new_names = _new_names(options)
    if not new_names:
        return table
    if table.y is None:
        raise InputError("--rename names classes, but the file was read without a label: add --label.", "rename")
    for old in new_names:
        if old not in table.classes:
            raise InputError(
                f"--rename: there is no class {old!r} ({nearest(old, list(table.classes))}).", "rename", class_name=old
            )
    return replace(table, y=np.array([new_names.get(name, name) for name in table.y.tolist()]))


def _log(table: LabelledTable) -> LabelledTable:
    low = np.nanmin(table.X)
    if low < 0:
        raise InputError(
            f"--log needs values from 0 on, but the least is {low:.4g}: leave it out, or shift the data.", "log"
        )
    return replace(table, X=np.log1p(table.X), source=f"{table.source}; log(1 + value)")


def _by_class(table: LabelledTable) -> list[Any]:
    if table.y is None:
        return [np.arange(len(table.X))]
    return [np.flatnonzero(table.y == name) for name in table.classes]


def _keep(table: LabelledTable, mask: Any, reason: str) -> LabelledTable:
    kept = table.select(variables=list(compress(table.variable_names, mask)))
    return replace(kept, source=f"{table.source}; {reason}")


def _drop_constant(table: LabelledTable) -> LabelledTable:
    spread = np.array(
        [np.nanmax(table.X[rows], axis=0) - np.nanmin(table.X[rows], axis=0) for rows in _by_class(table)]
    )
    varies = (spread > 0).all(axis=0)
    if varies.sum() < 2:
        raise InputError("--constant drop leaves no two variables: nearly all are constant in some class.", "constant")
    dropped = int((~varies).sum())
    return _keep(table, varies, f"{count(dropped, 'variable')} constant in a class dropped") if dropped else table


def _top_variance(table: LabelledTable, n: int) -> LabelledTable:
    """Keep the `n` variables of largest within-class variance, in the order of the table."""
    if n >= len(table.variable_names):
        return table
    within = sum(len(rows) * np.nanvar(table.X[rows], axis=0) for rows in _by_class(table))
    mask = np.zeros(len(table.variable_names), dtype=bool)
    mask[np.argsort(-np.nan_to_num(np.asarray(within)), kind="stable")[:n]] = True
    return _keep(table, mask, f"the {n:,} variables of largest variance")


def _regress_out(
    table: LabelledTable, covariates: list[str], association: str
) -> tuple[LabelledTable, dict[str, float]]:
    """Table at the mean of the covariates of each class, and the rank of the covariates by class."""
    import pandas as pd

    from jointglasso.data.effects import adjusted

    columns = pd.DataFrame({name: table.annotations[name] for name in covariates})
    X, ranks = table.X.copy(), {}
    for name, rows in zip(table.classes or ["all"], _by_class(table), strict=True):
        X[rows], ranks[name] = adjusted(X[rows], columns.iloc[rows], name, association)
    return replace(table, X=X, source=f"{table.source}; {listed(covariates)} regressed out"), ranks


def _warn_about_scale(table: LabelledTable, association: str) -> None:
    """Warn where most variables appear ordinal, or all values appear to be raw counts."""
    sample = table.X[:: max(1, len(table.X) // 200), :: max(1, table.X.shape[1] // 200)]
    values = sample[np.isfinite(sample)]
    if 2 * sum(map(_looks_ordinal, sample.T)) >= sample.shape[1]:
        if association == "pearson":
            text = "Most variables take few whole numbers, as ordinal answers do: --association mixed estimates "
            warnings.warn(f"{text}polychoric correlations.", UserWarning, stacklevel=2)
    elif len(values) == 0 or values.min() < 0 or (values != np.round(values)).any():
        return
    elif values.max() > 50 and values.max() > 8 * max(1.0, float(np.median(values))):
        warnings.warn(
            "The values look like raw counts, whose correlations are dominated by a few large values: --log, or "
            "--association nonparanormal, is robust to them.",
            UserWarning,
            stacklevel=2,
        )


def _looks_ordinal(column: Any) -> bool:
    """Whether a variable takes three to nine whole numbers and is not mostly zero, as rare counts are."""
    values = column[np.isfinite(column)]
    few = len(values) >= 30 and 3 <= len(np.unique(values)) <= 9 and np.abs(values).max() <= 20
    return bool(few and (values == np.round(values)).all() and 2 * (values == 0).sum() < len(values))


def in_windows(table: LabelledTable, options: dict[str, Any]) -> tuple[LabelledTable, float]:
    """Table with the windows of --time as classes, and the weight of a sample in each; unchanged without --time."""
    from jointglasso.data.windows import time_windows, warn_of_trends

    arguments = {name: options[name] for name in ("windows", "width", "overlap")}
    if options["time"] is None:
        return table, 1.0
    with suppress(TypeError, ValueError):  # the width of windows by date is a string, such as 30D
        arguments["width"] = float(arguments["width"])
    time = [] if table.y is None else table.y.tolist()
    windows = time_windows(time, **arguments)
    warn_of_trends(table.X, time)
    return replace(
        table.take(np.concatenate(windows.rows)),
        y=np.repeat(np.array(windows.names), [len(rows) for rows in windows.rows]),
        source=f"{table.source}; {len(windows.names)} windows by {options['time']}",
    ), windows.sample_fraction


def check_time(options: dict[str, Any]) -> None:
    """Reject options that conflict with the classes of --time."""
    clash = [f"--{name}" for name in ("label", "labels", "classes", "rename") if options[name]]
    if options["time"] is not None and clash:
        raise click.UsageError(f"--time makes windows the classes: leave {' and '.join(clash)} out.")
    if options["time"] is not None and len(options["file"]) > 1:
        raise click.UsageError("--time makes windows the classes, and several files would be classes too: give one.")
    if options["time"] is None and any(options[name] not in (None, 0.0) for name in ("windows", "width", "overlap")):
        raise click.UsageError("--windows, --width and --overlap need --time, the column with the time of each sample.")
