"""What is done to a table between reading and learning: classes (windows in time, too), variables, scale."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from jointglasso._wording import count, listed, nearest
from jointglasso.cli.options import split
from jointglasso.errors import InputError

if TYPE_CHECKING:
    from jointglasso.io import LabelledTable


def shape(table: LabelledTable, options: dict[str, Any], beside: Any = None) -> LabelledTable:
    """Do what the options ask for, in the order in which it makes sense; `beside` has covariates that are words."""
    table = _rename(table, split(options["rename"]))
    if options["log"]:
        table = _log(table)
    if options["constant"] == "drop":
        table = _drop_constant(table)
    if covariates := split(options["covariates"]):
        table = _without_effects(*_apart(table, covariates, beside))
    if options["top_variance"]:
        table = _most_varying(table, options["top_variance"])
    if not options["log"]:
        _warn_of_scale(table, options["association"])
    return table


def class_order(table: LabelledTable, options: dict[str, Any]) -> list[str] | None:
    """Classes in the order in which --classes, or else --rename, names them; None for the usual order."""
    renamed = dict(_pairs(split(options["rename"])))
    wanted = [renamed.get(name, name) for name in split(options["classes"])] or list(dict.fromkeys(renamed.values()))
    if not wanted:
        return None
    return [name for name in wanted if name in table.classes] + [name for name in table.classes if name not in wanted]


def one_class_each(tables: dict[Path, LabelledTable], *, union: bool = False) -> LabelledTable:
    """One table of several files, each a class named like its file.

    Variables are those that all have, or all of them; what a file does not have is missing there.
    """
    from jointglasso.io import LabelledTable

    names = [path.name.split(".")[0] for path in tables]
    if len(set(names)) < len(names):
        names = [str(path) for path in tables]
    first = next(iter(tables.values()))
    common = [name for name in first.variable_names if all(name in set(t.variable_names) for t in tables.values())]
    if union:
        common = list(dict.fromkeys(name for table in tables.values() for name in table.variable_names))
    if not common:
        raise InputError(
            f"{listed([path.name for path in tables])} have no variable in common: one file is a class.", "files"
        )
    for path, table in tables.items():
        if table.y is not None:
            raise InputError(
                f"{path.name} is one of several files, each a class: leave --label and --labels out.", "label"
            )
        left_out = len(table.variable_names) - len(common)
        if left_out > 0:
            what = f"{count(left_out, 'variable')} of {path.name}"
            warnings.warn(f"{what} left out, which not all files have.", UserWarning, stacklevel=2)
    parts = [_on(table, common) for table in tables.values()]
    labels = np.repeat(names, [len(part.X) for part in parts])
    samples = tuple(f"{name}/{sample}" for name, part in zip(names, parts, strict=True) for sample in part.sample_names)
    source = f"{len(parts)} files, each a class: {listed([path.name for path in tables])}"
    return LabelledTable(np.concatenate([part.X for part in parts]), labels, tuple(common), samples, source)


def _on(table: LabelledTable, variables: list[str]) -> LabelledTable:
    """A table with these variables, without values where it does not have one."""
    position = {name: at for at, name in enumerate(table.variable_names)}
    X = np.full((len(table.X), len(variables)), np.nan)
    for at, name in enumerate(variables):
        if name in position:
            X[:, at] = table.X[:, position[name]]
    return replace(table, X=X, variable_names=tuple(variables))


def _pairs(given: Sequence[str]) -> list[tuple[str, str]]:
    pairs = []
    for text in given:
        old, equals, new = (part.strip() for part in text.partition("="))
        if not (old and equals and new):
            raise InputError(f"--rename {text!r} is no new name: write OLD=NEW, such as 1=men,2=women.", "rename")
        pairs.append((old, new))
    return pairs


def _rename(table: LabelledTable, given: Sequence[str]) -> LabelledTable:
    if not given:
        return table
    if table.y is None:
        raise InputError("--rename names classes, but the file was read without a label: add --label.", "rename")
    new_names = dict(_pairs(given))
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


def _keep(table: LabelledTable, kept: Any, why: str) -> LabelledTable:
    names = tuple(name for name, here in zip(table.variable_names, kept.tolist(), strict=True) if here)
    return replace(table, X=table.X[:, kept], variable_names=names, source=f"{table.source}; {why}")


def _drop_constant(table: LabelledTable) -> LabelledTable:
    spread = np.array(
        [np.nanmax(table.X[rows], axis=0) - np.nanmin(table.X[rows], axis=0) for rows in _by_class(table)]
    )
    kept = (spread > 0).all(axis=0)
    if kept.sum() < 2:
        raise InputError("--constant drop leaves no two variables: nearly all are constant in some class.", "constant")
    dropped = int((~kept).sum())
    return _keep(table, kept, f"{count(dropped, 'variable')} constant in a class dropped") if dropped else table


def _most_varying(table: LabelledTable, n: int) -> LabelledTable:
    """Variables of the largest variance within the classes, in the order of the table."""
    if n >= len(table.variable_names):
        return table
    within = sum(len(rows) * np.nanvar(table.X[rows], axis=0) for rows in _by_class(table))
    kept = np.zeros(len(table.variable_names), dtype=bool)
    kept[np.argsort(-np.nan_to_num(np.asarray(within)), kind="stable")[:n]] = True
    return _keep(table, kept, f"the {n:,} variables that vary most")


def _apart(table: LabelledTable, covariates: list[str], beside: Any) -> tuple[LabelledTable, Any]:
    """The table without the covariates, and these as a data frame."""
    import pandas as pd

    if beside is not None:
        if len(beside) != len(table.X):
            raise InputError(
                "--covariates with words cannot go together with --classes and --subset at once.", "covariates"
            )
        return table, beside
    names = list(table.variable_names)
    for name in covariates:
        if name not in names:
            raise InputError(f"--covariates: there is no column {name!r} ({nearest(name, names)}).", "covariates")
    columns = pd.DataFrame({name: table.X[:, names.index(name)] for name in covariates})
    return table.select(variables=[name for name in names if name not in columns]), columns


def _without_effects(table: LabelledTable, covariates: Any) -> LabelledTable:
    """Residuals after a regression on the covariates, class by class."""
    from jointglasso.covariance.effects import without_effects

    named = listed([str(name) for name in covariates])
    X = table.X.copy()
    for name, rows in zip(table.classes or ["all"], _by_class(table), strict=True):
        X[rows], lost = without_effects(X[rows], covariates.iloc[rows], name)
        if len(rows) <= lost + 2:
            raise InputError(f"A class of {len(rows)} samples is too small for the covariates {named}.", "covariates")
    return replace(table, X=X, source=f"{table.source}; effects of {named} taken out")


def _warn_of_scale(table: LabelledTable, association: str) -> None:
    """Warn where most variables look like answers to questions, or all values like raw counts."""
    sample = table.X[:: max(1, len(table.X) // 200), :: max(1, table.X.shape[1] // 200)]
    values = sample[np.isfinite(sample)]
    if 2 * sum(map(_like_answers, sample.T)) >= sample.shape[1]:
        if association == "pearson":
            text = "Most variables take few whole numbers, as answers to questions do: --association mixed correlates "
            warnings.warn(f"{text}what lies behind such answers.", UserWarning, stacklevel=2)
    elif len(values) == 0 or values.min() < 0 or (values != np.round(values)).any():
        return
    elif values.max() > 50 and values.max() > 8 * max(1.0, float(np.median(values))):
        warnings.warn(
            "The values look like raw counts, whose correlations follow a few large values: --log, or --association "
            "nonparanormal, gives networks of what most samples say.",
            UserWarning,
            stacklevel=2,
        )


def _like_answers(column: Any) -> bool:
    """Whether a variable takes three to nine whole numbers, zero not in most samples as in counts of something rare."""
    given = column[np.isfinite(column)]
    few = len(given) >= 30 and 3 <= len(np.unique(given)) <= 9 and np.abs(given).max() <= 20
    return bool(few and (given == np.round(given)).all() and 2 * (given == 0).sum() < len(given))


def in_windows(table: LabelledTable, options: dict[str, Any]) -> tuple[LabelledTable, float]:
    """The samples window by window, and what each counts for there; as they are where there is no --time."""
    from jointglasso.covariance.windows import time_windows

    given = {name: options[name] for name in ("windows", "width", "overlap")}
    if options["time"] is None:
        return table, 1.0
    with suppress(TypeError, ValueError):  # the length of windows by date is a word
        given["width"] = float(given["width"])
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
