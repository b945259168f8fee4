"""From data arguments to samples and covariances."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jointglasso.cli.options import split
from jointglasso.cli.shaping import check_time, class_order, in_windows, one_class_each, shape
from jointglasso.errors import InputError, argument

if TYPE_CHECKING:
    from jointglasso.covariance import CovarianceSource
    from jointglasso.covariance.classes import Samples
    from jointglasso.io import LabelledTable

#: Options that `jointglasso.io.read_table` takes as they are.
_READING = (
    "label", "labels", "time", "samples_in", "sheet", "delimiter", "layer", "decimal", "thousands", "encoding",
    "unmatched", "format", "header",
)  # fmt: skip

#: Of more classes than this only the first are named.
NAMED = 8


@dataclass(frozen=True)
class Data:
    """What was read, and how the covariances come from it."""

    samples: Samples
    source: CovarianceSource
    preparation: dict[str, Any]
    """Keyword arguments by which `select` and `edge_stability` compute the same covariances."""
    origin: str
    facts: dict[str, Any]
    """What names the data in parameters.json."""
    notes: tuple[str, ...] = ()
    """What a reader must know of the correlations."""

    def describe(self) -> str:
        """Say what was read."""
        from jointglasso._wording import count
        from jointglasso.covariance.classes import ONE_CLASS

        sizes = dict(zip(self.samples.class_names, self.samples.sizes.tolist(), strict=True))
        named = [f"{name} ({size:,})" for name, size in sizes.items()]
        more = f" and {len(named) - NAMED + 1} more" if len(named) > NAMED else ""
        classes = ", ".join(named[: NAMED - 1] if more else named) + more
        total = count(round(self.samples.share * sum(sizes.values())), "sample")  # each once, windows may overlap
        alone = self.samples.class_names == (ONE_CLASS,)
        told = ", one class (no label)." if alone else f" in {count(len(sizes), 'class')}: {classes}."
        text = f"{self.origin}\n{total} of {count(self.samples.n_variables, 'variable')}{told}"
        return " ".join([text, *self.notes])


def read_data(options: dict[str, Any]) -> Data:
    """Read the file and compute what the options ask for."""
    table, preparation = read_labelled(options)
    return prepare(table, preparation, options["file"], class_order(table, options))


def read_labelled(options: dict[str, Any]) -> tuple[LabelledTable, dict[str, Any]]:
    """Read the file, and how covariances are to be computed from it."""
    from jointglasso.io import read_table

    check_time(options)
    files: tuple[Path, ...] = options["file"]
    beside = None
    if len(files) > 1:
        given = {**_reading(options), "subset": _conditions(options["subset"]) or None}
        tables = {file: read_table(file, **given) for file in files}
        table = one_class_each(tables, union=options["variables"] == "union")
        if options["classes"]:
            table = table.select(classes=split(options["classes"]))
    else:
        table, beside = _read_one(files[0], options)
    classes = split(options["classes"])
    if classes and options["subset"]:  # otherwise the reader has kept them already
        table = table.select(classes=classes)
    table, share = in_windows(table, options)
    panels = options["variables"] if options["variables"] in ("union", "intersection") else "same"
    if options["variables"] and panels == "same":
        table = table.select(variables=_variables(options["variables"]))
    missing = options["missing"]
    if missing == "drop-variables":
        table, missing = table.drop_missing("variables"), "refuse"
    table = shape(table, options, beside)
    constant = "refuse" if options["constant"] == "drop" else options["constant"]
    chosen = {name: options[name] for name in ("scale", "association", "weights")}
    return table, {**chosen, "constant": constant, "missing": missing, "variables": panels, "share": share}


def _read_one(file: Path, options: dict[str, Any]) -> tuple[LabelledTable, Any]:
    """The table of a file, and its covariates as a data frame where some of them are words, which no variable is."""
    from jointglasso.io import read_table

    covariates = split(options["covariates"])
    try:
        return read_table(file, **_reading(options)), None
    except ValueError as error:
        words = getattr(error, "variable", None)
        if not covariates and words and options["label"] and f"column {words!r} holds words" in str(error):
            way = f"{str(error)[:-1]}, or have its effect taken out of the variables with --covariates {words}."
            raise InputError(way, "path", variable=words) from None
        if not covariates:
            raise
    try:
        without = read_table(file, **_reading({**options, "drop": (*options["drop"], *covariates)}))
    except ValueError as error:
        raise about(error, "covariates") from None
    return without, read_beside(options, covariates)


def about(error: ValueError, option: str) -> InputError:
    """The same error, said of the option whose columns are left out of the variables."""
    return InputError(str(error).replace(f"correct {argument('drop')}", f"correct --{option}"), option)


def read_beside(options: dict[str, Any], names: Sequence[str]) -> Any:
    """Columns of the file that say something else about the samples, as a data frame."""
    from jointglasso._optional import require

    return require("pandas", "pandas").DataFrame({name: _column(options, name, names) for name in names})


def _column(options: dict[str, Any], name: str, names: Sequence[str]) -> Any:
    """Numbers of a column, as if it were a variable, or else its words, as if they were labels."""
    from jointglasso.io import read_table

    if len(options["file"]) > 1:
        raise InputError(
            f"Column {name!r} is looked for in one file, but there are several: put them into one.", "label"
        )
    file, reading = options["file"][0], _reading(options)
    dropped = [*(reading["drop"] or []), *(other for other in names if other != name)]
    try:
        table = read_table(file, **{**reading, "drop": dropped or None})
        if name in table.variable_names:
            return table.X[:, table.variable_names.index(name)]
    except ValueError:  # a column of words is no variable
        pass
    if options["label"] is not None:
        dropped.append(options["label"])
    if isinstance(reading["subset"], list):  # of classes, which only the label can tell
        reading["subset"] = {options["label"]: reading["subset"]}
    return read_table(file, **{**reading, "label": name, "drop": dropped or None}).y


def prepare(
    table: LabelledTable, preparation: dict[str, Any], files: Sequence[Path] = (), order: Sequence[str] | None = None
) -> Data:
    """Covariances of a table, its classes in some order, with what identifies it."""
    from jointglasso.covariance import fingerprint
    from jointglasso.covariance.classes import Samples
    from jointglasso.covariance.prepare import Preparation
    from jointglasso.selection.em import prepared

    preparation = dict(preparation)
    share = preparation.pop("share", 1.0)
    samples = replace(Samples.from_labels(table.X, table.y, table.variable_names).loaded(), share=share)
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
    """Which classes do not have all variables, in a sentence."""
    if samples.absent is None:
        return []
    counts = zip(samples.class_names, samples.absent.sum(axis=1).tolist(), strict=True)
    named = [f"{name} {lacks:,}" for name, lacks in counts if lacks]
    return [f"Not all classes have all variables; lacking: {', '.join(named[:NAMED])}{' ...' * (len(named) > NAMED)}."]


def _reading(options: dict[str, Any]) -> dict[str, Any]:
    """Arguments of `read_table`."""
    given = {name: options[name] for name in _READING if options[name] is not None}
    if options["delimiter"] == "tab":
        given["delimiter"] = "\t"
    if (options["sheet"] or "").isdigit():
        given["sheet"] = int(options["sheet"])
    given["subset"] = _conditions(options["subset"]) or split(options["classes"]) or None
    given["names"] = False if options["no_names"] else options["names"]
    given["comment"] = False if options["no_comment"] else options["comment"]
    given["drop"] = split(options["drop"]) or None
    given["missing_markers"] = split(options["missing_marker"]) or None
    return given


def _conditions(given: Sequence[str]) -> dict[str, list[str]]:
    conditions = {}
    for text in given:
        name, equals, values = text.partition("=")
        if not equals or not split([values]):
            raise InputError(f"--subset {text!r} is no condition: write NAME=VALUE or NAME=VALUE,VALUE.", "subset")
        conditions[name.strip()] = split([values])
    return conditions


def _variables(given: str) -> list[str]:
    file = Path(given)
    if not file.is_file():
        return split([given])
    names = [line.strip() for line in file.read_text(encoding="utf-8-sig").splitlines() if line.strip()]
    if not names:
        raise InputError(f"{file} names no variable: write one name on each line.", "variables")
    return names


def _sha256(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
