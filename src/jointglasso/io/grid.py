"""What readers hand over: a grid of cells whose layout is to be found out, or a draft whose rows are samples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from jointglasso._typing import FloatArray
from jointglasso._wording import nearest
from jointglasso.errors import argument
from jointglasso.io.cells import NumberFormat
from jointglasso.validation import InputError


@dataclass(frozen=True, eq=False)
class Grid:
    """Cells by row and column; numbers as numbers, the rest as it was written."""

    path: str
    header: list[str]
    named: bool
    """Whether the header comes from the file."""
    values: FloatArray
    """(rows, columns): numbers; NaN where a cell is missing or a word."""
    words: dict[tuple[int, int], str]
    """Text of the cells (row, column) that are words."""
    columns: dict[int, list[str]]
    """Columns that are also kept as they were written, since numbers can be names."""
    rows: dict[int, list[str]]
    """The same for rows."""
    lines: list[int]
    """Line of the file where each row begins."""
    unit: str = "line"
    """"line" or "row", as one counts in such files."""
    format: NumberFormat = field(default_factory=NumberFormat)
    notes: list[str] = field(default_factory=list)
    """What was found out about the file, in words."""

    def at(self, row: int) -> str:
        """Say where a row is in the file."""
        return f"{self.path}, {self.unit} {self.lines[row]}"


class GridBuilder:
    """Collects rows of text into a grid without keeping the text of every number."""

    def __init__(self, header: Sequence[str], number_format: NumberFormat, annotations: Sequence[str]) -> None:
        self.header = [name.strip() for name in header]
        self.format = number_format
        self.annotations = frozenset(annotations)
        kept = {0, *(i for i, name in enumerate(self.header) if name in self.annotations)}
        self.columns: dict[int, list[str]] = {i: [] for i in sorted(kept)}
        self.rows: dict[int, list[str]] = {}
        self.lines: list[int] = []
        self._pieces: list[FloatArray] = []
        self._words: dict[tuple[int, int], str] = {}

    def add(self, cells: Sequence[str], line: int) -> None:
        """Add one row with as many cells as the header has names."""
        row = len(self.lines)
        self.lines.append(line)
        for column, kept in self.columns.items():
            kept.append(cells[column].strip())
        # The first cell is often a name; converted apart, it does not slow down the numbers beside it.
        for start, part in ((0, cells[:1]), (1, cells[1:])):
            values, words = self.format.row(part)
            self._pieces.append(values)
            self._words.update({(row, start + i): word for i, word in words.items()})
        if any(cells[column].strip() in self.annotations for column in self.columns):
            self.rows[row] = [cell.strip() for cell in cells]

    def build(self, path: str, *, named: bool, unit: str, notes: list[str]) -> Grid:
        """Put the rows together."""
        shape = (len(self.lines), len(self.header))
        values = np.concatenate(self._pieces).reshape(shape) if self._pieces else np.empty(shape)
        self._pieces.clear()
        return Grid(
            path, self.header, named, values, self._words, self.columns, self.rows, self.lines, unit, self.format, notes
        )


@dataclass(eq=False)
class TableDraft:
    """A table whose samples are not labelled, selected or checked yet."""

    path: str
    X: FloatArray
    """Samples in rows, missing = NaN."""
    variables: list[str]
    """Names, which need not be unique yet."""
    samples: list[str]
    samples_named: bool
    """Whether the names of the samples come from the file (else they are running numbers)."""
    annotations: dict[str, list[str | None]] = field(default_factory=dict)
    """Words that describe the samples, by what they tell; None where unknown."""
    label: str | None = None
    """The annotation that tells the classes."""
    notes: list[str] = field(default_factory=list)

    def annotation(self, name: str, option: str) -> list[str | None]:
        """Words of one annotation; `option` asked for it."""
        if name not in self.annotations:
            if not self.annotations:
                raise InputError(
                    f"{self.path} has no labels, so {argument(option, name)} cannot be found: give them with "
                    f"{argument('labels', ...)}.",
                    option,
                )
            known = nearest(name, list(self.annotations))
            raise InputError(
                f"{self.path} does not tell {name!r} of its samples ({known}): correct {argument(option)}.", option
            )
        return self.annotations[name]


def numbered(prefix: str, number: int) -> list[str]:
    """Give running numbers as names."""
    return [f"{prefix}{i + 1}" for i in range(number)]
