"""What readers return: a grid of cells whose orientation is unknown, or samples with their annotations."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from jointglasso._typing import BoolArray, FloatArray
from jointglasso._wording import nearest
from jointglasso.errors import argument
from jointglasso.io.cells import NumberFormat
from jointglasso.validation import InputError


@dataclass(eq=False)
class Grid:
    """Cells by row and column: numbers as float64, words and names as text."""

    path: str
    header: list[str]
    named: bool
    """Whether the header comes from the file."""
    values: FloatArray
    """(rows, columns): numbers; NaN where a cell is missing or a word."""
    words: dict[tuple[int, int], str]
    """Text of the cells (row, column) that are words."""
    columns: dict[int, list[str]]
    """Text of the first column and of those that options name, since numbers can be names."""
    rows: dict[int, list[str]]
    """Text of the rows that options name."""
    lines: Sequence[int]
    """Line of the file in which each row begins."""
    unit: str = "line"
    """"line" or "row", as the kind of file counts."""
    format: NumberFormat = field(default_factory=NumberFormat)
    notes: list[str] = field(default_factory=list)
    """How the file was read, in words."""

    @cached_property
    def is_word(self) -> BoolArray:
        """(rows, columns): whether the cell is a word."""
        mask = np.zeros(self.values.shape, dtype=bool)
        if self.words:
            mask[tuple(np.array(list(self.words)).T)] = True
        return mask

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
        # The first cell is often a name; converted separately, it does not slow down the numbers beside it.
        for start, part in ((0, cells[:1]), (1, cells[1:])):
            numbers, in_part = number_format.row(part)
            values.append(numbers)
            words.update({(i, start + j): word for j, word in in_part.items()})
        if names and any(column[i] in names for column in columns.values()):
            text_rows[i] = [cell.strip() for cell in cells]
    matrix = np.concatenate(values).reshape(len(lines), len(header))
    return Grid(path, header, True, matrix, words, columns, text_rows, lines, format=number_format)


@dataclass(eq=False)
class AnnotatedSamples:
    """Samples in rows, before labels are attached and samples selected."""

    path: str
    X: FloatArray
    """(n, p), missing = NaN."""
    variables: list[str]
    """Names, possibly repeated."""
    samples: list[str]
    samples_named: bool
    """Whether the names of the samples come from the file; otherwise they are numbers."""
    annotations: dict[str, list[str | None]] = field(default_factory=dict)
    """Words that describe the samples, by the name of the annotation; None where unknown."""
    label: str | None = None
    """The annotation that holds the classes."""
    notes: list[str] = field(default_factory=list)

    def annotation(self, name: str, option: str) -> list[str | None]:
        """Words of one annotation, required by `option`."""
        if not self.annotations:
            raise InputError(
                f"{self.path} has no labels, so {argument(option, name)} cannot be found: give them with "
                f"{argument('labels', ...)}.",
                option,
            )
        if name not in self.annotations:
            raise InputError(
                f"{self.path} does not tell {name!r} of its samples ({nearest(name, list(self.annotations))}): correct "
                f"{argument(option)}.",
                option,
            )
        return self.annotations[name]


def numbered(prefix: str, number: int) -> list[str]:
    """Names made of a prefix and 1, 2, ..."""
    return [f"{prefix}{i + 1}" for i in range(number)]
