"""Read the data arguments of a command into samples and covariances."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from jointglasso.cli.options import split
from jointglasso.cli.shaping import check_time, class_order, in_windows, one_class_each, shape
from jointglasso.errors import InputError, argument

if TYPE_CHECKING:
    from jointglasso.data import CovarianceSource
    from jointglasso.data.samples import Samples
    from jointglasso.io import LabelledTable

#: Options that are passed to `jointglasso.io.read_table` unchanged.
_READING = (
    "label", "labels", "time", "samples_in", "sheet", "delimiter", "layer", "decimal", "thousands", "encoding",
    "unmatched", "format", "header",
)  # fmt: skip

#: Number of classes that are named; of more, only the first.
NAMED = 8


@dataclass(frozen=True)
class Data:
    """Samples read from the files, and their covariance source."""

    samples: Samples
    source: CovarianceSource
    preparation: dict[str, Any]
    """Keyword arguments with which `select` and `edge_stability` compute the same covariances."""
    origin: str
    facts: dict[str, Any]
    """Identification of the data in parameters.json."""
    notes: tuple[str, ...] = ()
    """Remarks on how the correlations were computed."""

    def describe(self) -> str:
        """Summary of the data: source, number of samples, variables and classes."""
        from jointglasso._wording import count
        from jointglasso.data.samples import ONE_CLASS

        sizes = dict(zip(self.samples.class_names, self.samples.sizes.tolist(), strict=True))
        named = [f"{name} ({size:,})" for name, size in sizes.items()]
        more = f" and {len(named) - NAMED + 1} more" if len(named) > NAMED else ""
        classes = ", ".join(named[: NAMED - 1] if more else named) + more
        total = count(
            round(self.samples.sample_fraction * sum(sizes.values())), "sample"
        )  # each sample once; windows may overlap
        unlabelled = self.samples.class_names == (ONE_CLASS,)
        class_text = ", one class (no label)." if unlabelled else f" in {count(len(sizes), 'class')}: {classes}."
        text = f"{self.origin}\n{total} of {count(self.samples.n_variables, 'variable')}{class_text}"
        return " ".join([text, *self.notes])


def read_data(options: dict[str, Any]) -> Data:
    """Read the file and compute the covariances that the options ask for."""
    table, preparation = read_labelled(options)
    return prepare(table, preparation, options["file"], class_order(table, options))


def read_labelled(options: dict[str, Any]) -> tuple[LabelledTable, dict[str, Any]]:
    """Table of the samples, and the keyword arguments for computing covariances from it."""
    from jointglasso.io import read_table

    check_time(options)
    files: tuple[Path, ...] = options["file"]
    covariate_columns = None
    if len(files) > 1:
        arguments = {**_reading(options), "subset": _conditions(options["subset"]) or None}
        tables = {file: read_table(file, **arguments) for file in files}
        table = one_class_each(tables, union=options["variables"] == "union")
        if options["classes"]:
            table = table.select(classes=split(options["classes"]))
    else:
        table, covariate_columns = _read_one(files[0], options)
    classes = split(options["classes"])
    if classes and options["subset"]:  # otherwise `read_table` has selected them
        table = table.select(classes=classes)
    table, share = in_windows(table, options)
    panels = options["variables"] if options["variables"] in ("union", "intersection") else "same"
    if options["variables"] and panels == "same":
        table = table.select(variables=_variables(options["variables"]))
    missing = options["missing"]
    if missing == "drop-variables":
        table, missing = table.drop_missing("variables"), "refuse"
    table, ranks = shape(table, options, covariate_columns)
    constant = "refuse" if options["constant"] == "drop" else options["constant"]
    chosen = {name: options[name] for name in ("scale", "association", "weights")}
    treatment = {"constant": constant, "missing": missing, "variables": panels}
    return table, {**chosen, **treatment, "sample_fraction": share, "ranks": ranks}


def _read_one(file: Path, options: dict[str, Any]) -> tuple[LabelledTable, Any]:
    """Table of a file, and its covariates as a data frame where some of them are categorical, else None."""
    from jointglasso.io import read_table

    covariates = split(options["covariates"])
    try:
        return read_table(file, **_reading(options)), None
    except ValueError as error:
        column = error.variable if isinstance(error, InputError) else None
        if not covariates and column and options["label"] and f"column {column!r} holds words" in str(error):
            message = f"{str(error)[:-1]}, or have its effect taken out of the variables with --covariates {column}."
            raise InputError(message, "path", variable=column) from None
        if not covariates:
            raise
    try:
        without = read_table(file, **_reading({**options, "drop": (*options["drop"], *covariates)}))
    except ValueError as error:
        raise about(error, "covariates") from None
    return without, read_annotations(options, covariates)


def about(error: ValueError, option: str) -> InputError:
    """Error about `drop`, reworded for the option whose columns were dropped from the variables."""
    return InputError(str(error).replace(f"correct {argument('drop')}", f"correct --{option}"), option)


def read_annotations(options: dict[str, Any], names: Sequence[str]) -> Any:
    """Annotation columns of the samples (groups, covariates) as a data frame; they are not variables."""
    import pandas as pd

    return pd.DataFrame({name: _column(options, name, names) for name in names})


def _column(options: dict[str, Any], name: str, names: Sequence[str]) -> Any:
    """Values of a column: numbers, read as a variable, or categories, read as labels."""
    from jointglasso.io import read_table

    if len(options["file"]) > 1:
        raise InputError(
            f"Column {name!r} can be read from one file only, but several were given: merge them into one.", "label"
        )
    file, reading = options["file"][0], _reading(options)
    dropped = [*(reading["drop"] or []), *(other for other in names if other != name)]
    try:
        table = read_table(file, **{**reading, "drop": dropped or None})
        if name in table.variable_names:
            return table.X[:, table.variable_names.index(name)]
    except ValueError:  # categorical columns cannot be read as variables
        pass
    if options["label"] is not None:
        dropped.append(options["label"])
    if isinstance(reading["subset"], list):  # of class labels: turn into a condition on the label column
        reading["subset"] = {options["label"]: reading["subset"]}
    return read_table(file, **{**reading, "label": name, "drop": dropped or None}).y


def prepare(
    table: LabelledTable, preparation: dict[str, Any], files: Sequence[Path] = (), order: Sequence[str] | None = None
) -> Data:
    """Covariances of a table, with its classes in the given order, and the identification of the data."""
    from jointglasso.data import fingerprint
    from jointglasso.data.prepare import Preparation
    from jointglasso.data.samples import Samples
    from jointglasso.selection.em import prepared

    preparation = dict(preparation)
    share = preparation.pop("sample_fraction", 1.0)
    ranks = preparation.pop("ranks", None)
    samples = replace(Samples.from_labels(table.X, table.y, table.variable_names).loaded(), sample_fraction=share)
    if ranks:
        lost = np.array([ranks[name] for name in samples.class_names])
        samples = replace(samples, size_fraction=1.0 - lost / samples.sizes)
    if order is not None:
        samples = samples.in_order(order)
    how = {name: value for name, value in preparation.items() if name != "weights"}
    samples = samples.with_variables(how.get("variables", "same"))
    ready = prepared(Preparation(**how), samples)
    facts = {
        "source": table.source,
        "fingerprint": fingerprint(ready.source),
        "n_variables": ready.samples.n_variables,
        "classes": dict(zip(samples.class_names, ready.samples.sizes.tolist(), strict=True)),
    }
    read = [{"file": str(file.resolve()), "bytes": file.stat().st_size, "sha256": _sha256(file)} for file in files]
    facts |= read[0] if len(read) == 1 else {"files": read} if read else {}
    return Data(ready.samples, ready.source, preparation, table.source, facts, (*ready.notes, *_lacking(samples)))


def _lacking(samples: Samples) -> list[str]:
    """Sentence on the classes that do not have all variables, as a list of at most one."""
    if samples.absent is None:
        return []
    counts = zip(samples.class_names, samples.absent.sum(axis=1).tolist(), strict=True)
    named = [f"{name} {lacks:,}" for name, lacks in counts if lacks]
    return [f"Not all classes have all variables; lacking: {', '.join(named[:NAMED])}{' ...' * (len(named) > NAMED)}."]


def _reading(options: dict[str, Any]) -> dict[str, Any]:
    """Keyword arguments of `read_table`."""
    arguments = {name: options[name] for name in _READING if options[name] is not None}
    if options["delimiter"] == "tab":
        arguments["delimiter"] = "\t"
    if (options["sheet"] or "").isdigit():
        arguments["sheet"] = int(options["sheet"])
    arguments["subset"] = _conditions(options["subset"]) or split(options["classes"]) or None
    arguments["names"] = False if options["no_names"] else options["names"]
    arguments["comment"] = False if options["no_comment"] else options["comment"]
    arguments["drop"] = split(options["drop"]) or None
    arguments["missing_markers"] = split(options["missing_marker"]) or None
    return arguments


def _conditions(texts: Sequence[str]) -> dict[str, list[str]]:
    conditions = {}
    for text in texts:
        name, equals, values = text.partition("=")
        if not equals or not split([values]):
            raise InputError(f"--subset {text!r} is no condition: write NAME=VALUE or NAME=VALUE,VALUE.", "subset")
        conditions[name.strip()] = split([values])
    return conditions


def _variables(text: str) -> list[str]:
    file = Path(text)
    if not file.is_file():
        return split([text])
    names = [line.strip() for line in file.read_text(encoding="utf-8-sig").splitlines() if line.strip()]
    if not names:
        raise InputError(f"{file} names no variable: write one name on each line.", "variables")
    return names


def _sha256(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
