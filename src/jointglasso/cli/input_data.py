"""From the data arguments of a command to samples and covariances: reading, classes, windows, variables, scale."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from jointglasso._wording import count, listed, nearest
from jointglasso.cli.options import assignments, read_arguments, split
from jointglasso.cli.session import Session, note_compilation
from jointglasso.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

    from jointglasso._typing import FloatArray
    from jointglasso.data import CovarianceSource
    from jointglasso.data.samples import Samples
    from jointglasso.io import LabelledTable

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
        from jointglasso.data.samples import ONE_CLASS

        sizes = dict(zip(self.samples.class_names, self.samples.sizes.tolist(), strict=True))
        named = [f"{name} ({size:,})" for name, size in sizes.items()]
        more = f" and {len(named) - NAMED + 1} more" if len(named) > NAMED else ""
        classes = ", ".join(named[: NAMED - 1] if more else named) + more
        # Each sample counts once; windows may overlap.
        total = count(round(self.samples.sample_fraction * sum(sizes.values())), "sample")
        unlabelled = self.samples.class_names == (ONE_CLASS,)
        class_text = ", one class (no label)." if unlabelled else f" in {count(len(sizes), 'class')}: {classes}."
        text = f"{self.origin}\n{total} of {count(self.samples.n_variables, 'variable')}{class_text}"
        return " ".join([text, *self.notes])


def read_data(session: Session, options: dict[str, Any]) -> Data:
    """Read the files, compute the covariances that the options ask for, and describe the data."""
    table, preparation, fraction = read_labelled(options)
    samples, done = shape(samples_of(table, options), options, covariates_of(table, options))
    samples = replace(samples, sample_fraction=fraction, is_ordered=options["time"] is not None)
    return prepare(session, samples, preparation, "; ".join([table.source, *done]), options["file"])


def read_labelled(
    options: dict[str, Any], annotations: Sequence[str] = ()
) -> tuple[LabelledTable, dict[str, Any], float]:
    """Table of the samples, the keyword arguments for computing covariances, and the weight of a sample in a class.

    `annotations` are kept beside the covariates.
    """
    from jointglasso.io import read_table

    check_time(options)
    files: tuple[Path, ...] = options["file"]
    classes = split(options["classes"])
    conditions = {name: split([values]) for name, values in assignments("--subset", options["subset"], "NAME=VALUE")}
    by_table = not conditions and len(files) == 1  # whether `read_table` selects the classes
    arguments = {name: options[name] for name in ("label", "labels", "time")} | read_arguments(options["read"])
    arguments |= {"subset": conditions or (classes if by_table else None) or None, "drop": split(options["drop"])}
    arguments["annotations"] = [*split(options["covariates"]), *annotations]
    tables = {file: read_table(file, **arguments) for file in files}
    table = tables[files[0]] if len(files) == 1 else one_class_each(tables, union=options["variables"] == "union")
    if classes and not by_table:
        table = table.select(classes=classes)
    table, fraction = in_windows(table, options)
    chosen = {name: options[name] for name in ("scale", "association", "weights", "missing", "constant")}
    chosen["variables"] = options["variables"] if options["variables"] in ("union", "intersection") else "same"
    if options["variables"] and chosen["variables"] == "same":
        table = table.select(variables=_variables(options["variables"]))
    if chosen["missing"] == "drop-variables":
        table, chosen["missing"] = table.drop_missing("variables"), "refuse"
    if chosen["constant"] == "drop":
        chosen["constant"] = "refuse"
    return rename(table, options), chosen, fraction


def samples_of(table: LabelledTable, options: dict[str, Any]) -> Samples:
    """Samples of a table, with its classes in the order of --classes, or else of --rename."""
    from jointglasso.data.samples import Samples

    samples, new_names = Samples.from_labels(table.X, table.y, table.variable_names).loaded(), _new_names(options)
    first = [new_names.get(name, name) for name in split(options["classes"])] or list(new_names.values())
    order = [name for name in dict.fromkeys([*first, *table.classes]) if name in table.classes]
    return samples.in_order(order) if first else samples


def covariates_of(table: LabelledTable, options: dict[str, Any]) -> pd.DataFrame:
    """Columns of --covariates, with a row for each sample."""
    import pandas as pd

    return pd.DataFrame({name: table.annotations[name] for name in split(options["covariates"])})


def prepare(
    session: Session, samples: Samples, preparation: dict[str, Any], origin: str, files: Sequence[Path] = ()
) -> Data:
    """Covariances of samples, and the identification of the data; prints the description of the data."""
    from jointglasso.data import fingerprint
    from jointglasso.data.prepare import Preparation
    from jointglasso.selection.em import prepared

    how = {name: value for name, value in preparation.items() if name != "weights"}
    samples = samples.with_variables(how.get("variables", "same"))
    ready = prepared(Preparation(**how), samples)
    facts = {
        "source": origin,
        "fingerprint": fingerprint(ready.source),
        "n_variables": ready.samples.n_variables,
        "classes": dict(zip(samples.class_names, ready.samples.sizes.tolist(), strict=True)),
    }
    read = [{"file": str(file.resolve()), "bytes": file.stat().st_size, "sha256": _sha256(file)} for file in files]
    facts |= read[0] if len(read) == 1 else {"files": read} if read else {}
    data = Data(ready.samples, ready.source, preparation, origin, facts, (*ready.notes, *_lacking(samples)))
    session.echo(data.describe())
    note_compilation(session)
    return data


def _lacking(samples: Samples) -> list[str]:
    """Sentence on the classes that do not have all variables, as a list of at most one."""
    if samples.absent is None:
        return []
    counts = zip(samples.class_names, samples.absent.sum(axis=1).tolist(), strict=True)
    named = [f"{name} {lacks:,}" for name, lacks in counts if lacks]
    return [f"Not all classes have all variables; lacking: {', '.join(named[:NAMED])}{' ...' * (len(named) > NAMED)}."]


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


def _new_names(options: dict[str, Any]) -> dict[str, str]:
    return dict(assignments("--rename", split(options["rename"]), "OLD=NEW"))


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
