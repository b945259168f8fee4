"""Transformations of tables (classes, time windows) and samples (variables, scale) between reading and estimation."""

from __future__ import annotations

import warnings
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from jointglasso._wording import count, listed, nearest
from jointglasso.cli.options import assignments, split
from jointglasso.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

    from jointglasso._typing import FloatArray
    from jointglasso.data.samples import Samples
    from jointglasso.io import LabelledTable


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


def rename(table: LabelledTable, options: dict[str, Any]) -> LabelledTable:
    """Table with the names of its classes changed by --rename."""
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


def shape(samples: Samples, options: dict[str, Any], covariates: pd.DataFrame) -> tuple[Samples, list[str]]:
    """Samples after the transformations of the options, and what was done, in words.

    `covariates` has a row for each sample, in the order of the table, and no columns if there are none.
    """
    from jointglasso.data.effects import without_covariates

    done = []
    if options["log"]:
        samples = _log(samples)
        done.append("log(1 + value)")
    if options["constant"] == "drop":
        varies = samples.varying
        if varies.sum() < 2:
            raise InputError(
                "--constant drop leaves no two variables: nearly all are constant in some class.", "constant"
            )
        samples, dropped = samples.restricted_to(np.flatnonzero(varies)), int((~varies).sum())
        done += [f"{count(dropped, 'variable')} constant in a class dropped"] if dropped else []
    if covariates.shape[1]:
        samples = without_covariates(samples, covariates, options["association"])
        done.append(f"{listed(covariates.columns)} regressed out")
    n = options["top_variance"] or samples.n_variables
    if n < samples.n_variables:
        within = np.sum([len(X) * np.nanvar(X, axis=0) for X in samples.matrices], axis=0)
        largest = np.argsort(-np.nan_to_num(within), kind="stable")[:n]
        samples = samples.restricted_to(np.sort(largest))
        done.append(f"the {n:,} variables of largest variance")
    if not options["log"]:
        _warn_about_scale(np.concatenate(samples.matrices), options["association"])
    return samples, done


def _log(samples: Samples) -> Samples:
    low = min(float(np.nanmin(X)) for X in samples.matrices)
    if low < 0:
        raise InputError(
            f"--log needs values from 0 on, but the least is {low:.4g}: leave it out, or shift the data.", "log"
        )
    return replace(samples, parts=[np.log1p(X) for X in samples.matrices], computed={})


def _warn_about_scale(X: FloatArray, association: str) -> None:
    """Warn where most variables appear ordinal, or all values appear to be raw counts."""
    sample = X[:: max(1, len(X) // 200), :: max(1, X.shape[1] // 200)]
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
