"""Read the data arguments of a command into samples and covariances."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jointglasso._wording import count
from jointglasso.cli.options import assignments, read_arguments, split
from jointglasso.cli.session import Session, say_if_compiling
from jointglasso.cli.shaping import check_time, class_order, in_windows, one_class_each, rename, shape
from jointglasso.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

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
    """Samples of a table, with its classes in the order that the options ask for."""
    from jointglasso.data.samples import Samples

    samples = Samples.from_labels(table.X, table.y, table.variable_names).loaded()
    order = class_order(table, options)
    return samples if order is None else samples.in_order(order)


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
    session.say(data.describe())
    say_if_compiling(session)
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
