"""Cells of tables, and what readers return: a grid of unknown orientation, or samples with their annotations."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jointglasso._cached_property import cached_property
from jointglasso._typing import BoolArray, FloatArray
from jointglasso._wording import nearest
from jointglasso.data.checks import InputError
from jointglasso.errors import argument

#: Cells read as missing, in upper or lower case, with or without blanks around them.
MISSING_MARKERS = ("", "NA", "N/A", "#N/A", "NaN", "null", "None", "-", "?", ".")

#: Cells that mean "no label", case ignored. Fewer than for numbers: "none" and "-" can be names of a class.
NO_LABEL = frozenset({"", "na", "n/a", "#n/a", "nan", "null"})

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
COMMA_NUMBER = re.compile(r"[+-]?\d*,\d+([eE][+-]?\d+)?", re.ASCII)
THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}(,\d{3})+", re.ASCII)


def as_label(cell: str) -> str | None:
    """The label in a cell, None where there is none."""
    return None if cell.strip().casefold() in NO_LABEL else cell.strip()


def numbered(prefix: str, number: int) -> list[str]:
    """Names made of a prefix and 1, 2, ..."""
    return [f"{prefix}{i + 1}" for i in range(number)]


@dataclass(frozen=True)
class NumberFormat:
    """Decimal sign, sign between thousands, and missing markers besides `MISSING_MARKERS`."""

    decimal: str = "."
    thousands: str | None = None
    missing_markers: tuple[str, ...] = ()

    @cached_property
    def _markers(self) -> frozenset[str]:
        return frozenset(marker.strip().casefold() for marker in (*MISSING_MARKERS, *self.missing_markers))

    @cached_property
    def _needs_care(self) -> bool:
        """Whether float() would misread thousands, or a marker such as -999."""
        numeric = any(_NUMBER.fullmatch(marker.strip().replace(",", ".")) for marker in self.missing_markers)
        return self.thousands is not None or numeric

    def is_missing(self, cell: str) -> bool:
        """Whether the cell is one of the missing markers."""
        return cell.strip().casefold() in self._markers

    def number(self, cell: str) -> float | None:
        """Value of a cell, NaN where missing, None for a word (also what is infinite)."""
        text = cell.strip()
        if text.casefold() in self._markers:
            return math.nan
        if self.thousands is not None:
            mark = re.escape(self.thousands)
            if grouped := re.match(rf"[+-]?[1-9]\d{{0,2}}({mark}\d{{3}})+(?![\d{mark}])", text, re.ASCII):
                text = grouped[0].replace(self.thousands, "") + text[grouped.end() :]
        if self.decimal == ",":
            text = text.replace(".", "word").replace(",", ".")
        value = float(text) if _NUMBER.fullmatch(text) else math.inf
        return value if math.isfinite(value) else None

    def row(self, cells: Sequence[str], text_columns: Iterable[int] = ()) -> tuple[FloatArray, dict[int, str]]:
        """Values of many cells, and the words by position; words have the value NaN.

        Words are expected in `text_columns`, and do not slow down the conversion of the others there.
        """
        readable = list(cells)
        for j in text_columns:
            readable[j] = "nan"
        joined = "".join(readable)
        if self.decimal == ",":
            readable = [cell.replace(",", ".") for cell in readable]
        # float() is fast, but takes 1_000 and digits of other scripts for numbers.
        if self._needs_care or "_" in joined or not joined.isascii() or (self.decimal == "," and "." in joined):
            readable = ["inf"] * len(cells)
        try:
            values = np.fromiter(map(float, readable), np.float64, len(cells))
        except ValueError:
            values = np.fromiter(map(_float_or_infinity, readable), np.float64, len(cells))
        words: dict[int, str] = {}
        for i in np.flatnonzero(~np.isfinite(values)).tolist():  # also what float() refused
            number = self.number(cells[i])
            if number is None:
                words[i] = cells[i].strip()
            values[i] = np.nan if number is None else number
        return values, words

    def explain(self, word: str) -> str:
        """What to do about a cell that should be a number."""
        if self.thousands is None and THOUSANDS.fullmatch(word):
            return f"say {argument('thousands', ',')} if that comma separates thousands"
        if self.decimal == "," and NumberFormat().number(word) is not None:
            return f"the other numbers have a decimal comma; correct it, or say {argument('decimal', '.')}"
        return f"correct it, or say {argument('missing_markers', [word])} if it stands for a missing value"


def _float_or_infinity(cell: str) -> float:
    try:
        return float(cell)
    except ValueError:
        return math.inf


@dataclass(eq=False)
class Grid:
    """Cells by row and column: numbers as float64, words and names as text."""

    path: str
    header: list[str]
    values: FloatArray  # (rows, columns): numbers; NaN where a cell is missing or a word
    words: dict[tuple[int, int], str]  # text of the cells (row, column) that are words
    columns: dict[int, list[str]]  # text of the first column and of those that options name: numbers can be names
    rows: dict[int, list[str]]  # text of the rows that options name
    lines: Sequence[int]  # line of the file in which each row begins
    format: NumberFormat
    named: bool = True  # whether the header comes from the file
    names_column: int | None = None  # the column that holds the names of the rows; None if the rows have no names
    unit: str = "line"  # "line" or "row", as the kind of file counts
    notes: list[str] = field(default_factory=list)  # how the file was read, in words

    @cached_property
    def is_word(self) -> BoolArray:
        """(rows, columns): whether the cell is a word."""
        mask = np.zeros(self.values.shape, dtype=bool)
        mask[tuple(np.array(list(self.words), dtype=int).reshape(-1, 2).T)] = True
        return mask

    @property
    def row_names(self) -> list[str]:
        """Names of the rows, empty if the rows have no names."""
        return [] if self.names_column is None else self.columns[self.names_column]

    @property
    def column_names(self) -> list[str]:
        """Names of the columns without that of the row names."""
        return [name for j, name in enumerate(self.header) if j != self.names_column]

    def require_number(self, row: int, column: int) -> None:
        """Refuse a cell that is a word."""
        if word := self.words.get((row, column)):
            name = self.header[column]
            message = f"column {name!r}: {word!r} is not a finite number: {self.format.explain(word)}."
            raise InputError(f"{self.where(row)}, {message}", "path", variable=name)

    def where(self, row: int) -> str:
        """The file and the line of a row, for messages."""
        return f"{self.path}, {self.unit} {self.lines[row]}"


def build_grid(
    path: str,
    header: Sequence[str],
    rows: Iterable[tuple[int, Sequence[str]]],
    named_cells: Iterable[str],
    number_format: NumberFormat,
) -> Grid:
    """Collect rows of text, with their lines, into a grid; the text of numbers is not stored.

    `named_cells` are names of columns and rows whose text is needed.
    """
    header, names = [name.strip() for name in header], frozenset(named_cells)
    columns: dict[int, list[str]] = {j: [] for j, name in enumerate(header) if j == 0 or name in names}
    values, words, text_rows, lines = [], {}, {}, []
    for i, (line, cells) in enumerate(rows):
        lines.append(line)
        for j, column in columns.items():
            column.append(cells[j].strip())
        numbers, in_row = number_format.row(cells, columns)
        values.append(numbers)
        words.update({(i, j): word for j, word in in_row.items()})
        if names and any(column[i] in names for column in columns.values()):
            text_rows[i] = [cell.strip() for cell in cells]
    matrix = np.concatenate(values).reshape(len(lines), len(header))
    return Grid(path, header, matrix, words, columns, text_rows, lines, number_format)


@dataclass(eq=False)
class AnnotatedSamples:
    """Samples in rows, before labels are attached and samples selected."""

    path: str
    X: FloatArray  # (n, p), missing = NaN
    variables: list[str]  # possibly repeated
    samples: list[str]
    samples_named: bool  # whether the names of the samples come from the file; otherwise they are numbers
    annotations: dict[str, list[str | None]]  # words that describe the samples; None where unknown; [] if not read
    label: str | None  # the annotation that holds the classes
    notes: list[str]  # how the file was read, in words
    format: NumberFormat = NumberFormat()
    annotation_words: str = "annotation {}"  # an annotation in messages

    def annotation_values(self, name: str, rows: list[int]) -> NDArray[Any]:
        """One annotation of some samples: numbers if all known values are, else words (None where unknown)."""
        words = [self.annotations[name][i] for i in rows]
        numbers = [math.nan if word is None else self.format.number(word) for word in words]
        return np.array(words, dtype=object) if None in numbers else np.array(numbers, dtype=np.float64)

    def require_annotation(self, name: str, option: str) -> None:
        """Refuse the name of an annotation, given by `option`, that the file does not have."""
        if name not in self.annotations:
            what, hint = self.annotation_words.format(repr(name)), nearest(name, list(self.annotations))
            raise InputError(f"{self.path} has no {what} ({hint}): correct {argument(option)}.", option)
