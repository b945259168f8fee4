"""Label files: sample and label in two columns, or labels only, in the order of the samples."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass
from functools import partial

from jointglasso._wording import count, listed, nearest
from jointglasso.errors import argument
from jointglasso.io.delimited import DelimitedRows, detect_delimiter
from jointglasso.io.opening import kind_of, read_text, require_file
from jointglasso.io.reading_options import ReadOptions
from jointglasso.validation import InputError

wrong = partial(InputError, parameter="labels")

#: Cells that mean "no label", case ignored. Fewer than for numbers: "none" and "-" can be names of a class.
NO_LABEL = frozenset({"", "na", "n/a", "#n/a", "nan", "null"})


def as_label(cell: str) -> str | None:
    """Return the label in a cell, None where there is none."""
    text = cell.strip()
    return None if text.casefold() in NO_LABEL else text


@dataclass(frozen=True)
class LabelFile:
    """Rows of a label file, the header possibly among them."""

    path: str
    rows: list[list[str]]

    @property
    def width(self) -> int:
        """Number of columns."""
        return len(self.rows[0])

    @property
    def first_column(self) -> list[str]:
        """Sample names, where there are two columns or more; a header may be the first of them."""
        return [row[0] for row in self.rows]

    def labels_of(self, samples: list[str], samples_named: bool, label: str | None, unmatched: str) -> list[str | None]:
        """Label of each sample, in the order of the samples."""
        if self.width == 1:
            return self._in_order(len(samples), label)
        if not samples_named:
            raise wrong(
                f"{self.path} gives labels by sample name, but the table has no sample names: name them in its first "
                "column, or give a label file of one column in the order of the samples."
            )
        by_sample = self._by_sample(set(samples), label)
        repeated = [name for name, number in Counter(samples).items() if number > 1]
        if repeated:
            raise wrong(f"Sample {repeated[0]!r} occurs twice in the table, so labels cannot be matched: rename it.")
        self._require_matched(samples, by_sample, unmatched)
        return [by_sample.get(sample) for sample in samples]

    def _in_order(self, n_samples: int, label: str | None) -> list[str | None]:
        cells = self.first_column
        if len(cells) not in (n_samples, n_samples + 1):
            raise wrong(
                f"{self.path} has {count(len(cells), 'label')} for {count(n_samples, 'sample')}: give one label per "
                "sample, or two columns with the sample names first."
            )
        header = cells[0] if len(cells) > n_samples else None
        if label is not None and label != header:
            actual = "no header" if header is None else f"the header {header!r}"
            raise wrong(f"{self.path} has {actual}, not {label!r}: correct {argument('label')}, or leave it out.")
        return [as_label(cell) for cell in cells[len(cells) - n_samples :]]

    def _by_sample(self, samples: set[str], label: str | None) -> dict[str, str | None]:
        header = self.rows[0]
        column, body = 1, self.rows[1:]
        if self.width > 2 or label is not None:
            if label is None:
                raise InputError(
                    f"{self.path} has {self.width} columns: say which with {argument('label', ...)} "
                    f"({listed(header[1:])}).",
                    "label",
                )
            if label not in header[1:]:
                raise InputError(
                    f"{self.path} has no column {label!r} ({nearest(label, header[1:])}): correct {argument('label')}.",
                    "label",
                )
            column = header.index(label, 1)
        elif header[0] in samples or header[1] in {row[1] for row in body}:
            body = self.rows  # the first row is a sample like the others: no header
        by_sample: dict[str, str | None] = {}
        for row in body:
            if row[0] in by_sample:
                raise wrong(f"{self.path} has sample {row[0]!r} twice: leave one of them out.")
            by_sample[row[0]] = as_label(row[column])
        return by_sample

    def _require_matched(self, samples: list[str], by_sample: dict[str, str | None], unmatched: str) -> None:
        known = set(samples)
        unlabelled = [sample for sample in samples if sample not in by_sample]
        unknown = [sample for sample in by_sample if sample not in known]
        if len(unlabelled) == len(samples):
            raise wrong(
                f"None of the samples ({listed(samples, 2)}) is in {self.path} ({listed(by_sample, 2)}): give the "
                f"label file of this table, or say {argument('samples_in', ...)} if the other side of the table holds "
                "the samples."
            )
        if unmatched == "drop":
            return
        remedy = f"or leave them out with {argument('unmatched', 'drop')}"
        if unlabelled:
            names = f"{count(len(unlabelled), 'sample')} without a label in {self.path} ({listed(unlabelled, 3)})"
            raise wrong(f"{names}: add them, {remedy}.")
        if unknown:
            names = f"{count(len(unknown), 'sample')} that the table does not have ({listed(unknown, 3)})"
            raise wrong(f"{self.path} labels {names}: check that the files belong together, {remedy}.")


def read_label_file(path: str | os.PathLike[str], options: ReadOptions) -> LabelFile:
    """Read a label file; it must be a text table."""
    try:
        file = require_file(path)
    except FileNotFoundError as error:
        column = argument("label", str(path))
        raise FileNotFoundError(f"{str(error)[:-1]}; or say {column} if it is a column of the table.") from None
    if kind_of(file) != "text":
        raise wrong(f"{file}: labels are read from text tables only: save them as .csv or .tsv.")
    text = read_text(file, options.encoding)
    source = DelimitedRows(
        text, detect_delimiter(text, str(file), options.comment, wordy=True), str(file), options.comment
    )
    rows: list[list[str]] = []
    for line, cells in source:
        if rows and len(cells) != len(rows[0]):
            length = count(len(rows[0]), "cell")
            raise wrong(f"{file}, line {line} has {count(len(cells), 'cell')}, the first line {length}: correct it.")
        rows.append([cell.strip() for cell in cells])
    source.require_rows(bool(rows))
    return LabelFile(str(file), rows)
