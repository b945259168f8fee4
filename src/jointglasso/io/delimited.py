"""Text tables: comma, tab, semicolon or any other single character between the cells."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from pathlib import Path

from jointglasso._files import original
from jointglasso._wording import count, listed
from jointglasso.errors import argument
from jointglasso.io.grid import COMMA_NUMBER, THOUSANDS, Grid, NumberFormat, build_grid, numbered
from jointglasso.io.opening import ReadOptions, read_text, wrong

#: Delimiters that are detected, with their names in messages.
DELIMITERS = {",": "comma", "\t": "tab", ";": "semicolon", "|": "vertical bar"}

_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")

#: Number of rows, and of cells in each, from which the delimiter is detected.
_SNIFFED = 30


def read_delimited(file: Path, options: ReadOptions) -> Grid:
    """Read a text table into a grid."""
    path, text = str(file), read_text(file, options.encoding)
    delimiter = options.delimiter or detect_delimiter(text, path, options.comment)
    source = DelimitedRows(text, delimiter, path, options.comment)
    number_format = _number_format(text, delimiter, path, options)
    grid = grid_of_rows(path, source, options, number_format, delimiter)
    grid.notes = [f"cells separated by {DELIMITERS.get(delimiter, repr(delimiter))}", *source.notes(len(grid.header))]
    grid.notes += ["decimal comma"] * (number_format.decimal == ",")
    return grid


def grid_of_rows(
    path: str,
    rows: Iterable[tuple[int, list[str]]],
    options: ReadOptions,
    number_format: NumberFormat,
    delimiter: str = "",
    sheet: str = "",
) -> Grid:
    """Grid of rows of text with their lines; the first names the columns unless `header` denies it."""
    rows = iter(rows)
    ahead = list(islice(rows, 3))
    header = first_row(ahead, path)
    named = has_header(header, number_format, path, options.header)
    if named:
        ahead = ahead[1:]
        if not ahead:
            raise wrong(f"{path}{sheet} has a header but no rows below it: add the samples.")
        if _has_row_names(header, [cells for _, cells in ahead], number_format):
            header = ["", *header]
    else:
        header = numbered("x", len(header))
    checked = _same_length(chain(ahead, rows), header, path, delimiter)
    grid = build_grid(path, header, checked, options.named_cells, number_format)
    grid.named = named
    return grid


def first_row(rows: list[tuple[int, list[str]]], path: str) -> list[str]:
    """Cells of the first row; a file without rows is refused."""
    if not rows:
        raise wrong(f"{path} has no lines besides blank and comment lines: copy or download it again.")
    return rows[0][1]


class DelimitedRows:
    """Rows of a text table with the line in which each begins; blank and comment lines are skipped."""

    def __init__(self, text: str, delimiter: str, path: str, comment: str | bool | None) -> None:
        self._text, self._delimiter, self._path = text, delimiter, path
        self._explicit = comment is not None
        self._mark = "#" if comment is None or comment is True else comment
        self._line, self._first_line, self._between_rows = 0, 0, True
        self.comments: list[tuple[int, str]] = []

    def __iter__(self) -> Iterator[tuple[int, list[str]]]:
        reader = csv.reader(self._table_lines(), delimiter=self._delimiter, strict=True)
        may_be_protected = "'" in self._text  # words that spreadsheets would take for formulas
        while True:
            self._between_rows = True
            try:
                cells = next(reader)
            except StopIteration:
                return
            except csv.Error as error:
                remedy = f"close the quote, or say {argument('delimiter', ...)} if it is another one"
                cell = f"{self._path}, line {self._line_of_row}: a cell does not end properly ({error})"
                raise wrong(f"{cell}: {remedy}.") from error
            self._first_line = self._first_line or self._line_of_row
            yield self._line_of_row, [original(cell) for cell in cells] if may_be_protected else cells

    def _table_lines(self) -> Iterator[str]:
        """Lines for the csv module; inside a quoted cell no line is a comment."""
        for match in _LINE.finditer(self._text):  # one by one: no second copy of a large text
            line = match[0]
            self._line += 1
            if self._between_rows:
                if not line.strip(" \r\n\ufeff"):
                    continue
                if self._mark and line.startswith(self._mark):
                    self.comments.append((self._line, line))
                    continue
                self._line_of_row, self._between_rows = self._line, False
            yield line

    def notes(self, width: int) -> list[str]:
        """Number of comment lines; one below the header with as many cells as a row is refused."""
        for line, text in self.comments:
            like_a_row = width > 1 and text.count(self._delimiter) == width - 1
            if like_a_row and line > self._first_line and not self._explicit:
                remedy = (
                    f"{argument('comment', False)} if it is one, {argument('comment', '#')} if it is to be left out"
                )
                row = f"line {line} begins with '#' but has {width} cells like a row of the table"
                raise wrong(f"{self._path}, {row}: say {remedy}.")
        return [f"{count(len(self.comments), 'comment line')} left out"] if self.comments else []


def detect_delimiter(text: str, path: str, comment: str | bool | None, *, wordy: bool = False) -> str:
    """The delimiter that splits the first rows into equally many cells, and most of them into numbers.

    In a `wordy` file, blanks in a single column are part of the words.
    """
    scores: dict[str, tuple[bool, float]] = {}
    for delimiter in DELIMITERS:
        try:
            rows = [cells for _, cells in islice(DelimitedRows(text, delimiter, path, comment), _SNIFFED)]
        except ValueError:
            continue
        if rows and max(map(len, rows)) > 1:
            scores[delimiter] = _score(rows)
    if not scores:
        rows = [cells for _, cells in islice(DelimitedRows(text, ",", path, comment), 1, _SNIFFED)]
        words = [cell for cells in rows for cell in cells if NumberFormat().number(cell) is None]
        if not wordy and any(len(word.split()) > 1 for word in words):
            problem = "no comma, tab, semicolon or vertical bar separates its cells"
            raise wrong(f"{path}: {problem}: say {argument('delimiter', ' ')} or what it is.")
        return ","
    best = [delimiter for delimiter, score in scores.items() if score == max(scores.values())]
    if len(best) > 1:
        names = " and ".join(DELIMITERS[delimiter] for delimiter in best)
        raise wrong(f"{path}: the cells can be separated by {names}: say which with {argument('delimiter', ...)}.")
    return best[0]


def _score(rows: list[list[str]]) -> tuple[bool, float]:
    """Whether all rows are equally long (the header may be one shorter), and the fraction of numbers below it."""
    widths = {len(row) for row in rows[1:]} or {len(rows[0])}
    equal = len(widths) == 1 and next(iter(widths)) - len(rows[0]) in (0, 1)
    formats = (NumberFormat(), NumberFormat(decimal=","), NumberFormat(thousands=","))
    body = [cell for row in rows[1:] or rows for cell in row[:_SNIFFED]]
    numbers = sum(any(form.number(cell) is not None for form in formats) for cell in body)
    return equal, numbers / max(len(body), 1)


def _number_format(text: str, delimiter: str, path: str, options: ReadOptions) -> NumberFormat:
    """Format of the numbers; a decimal comma is detected where commas do not separate cells."""
    ambiguous = ""
    if options.decimal is None and delimiter != "," and options.thousands is None and "," in text:
        for _, row in DelimitedRows(text, delimiter, path, options.comment):
            for cell in filter(COMMA_NUMBER.fullmatch, map(str.strip, row)):
                if not THOUSANDS.fullmatch(cell):
                    return NumberFormat(",", None, options.missing_markers)
                ambiguous = ambiguous or cell
    if ambiguous:
        readings = f"{ambiguous.replace(',', '.')} or {ambiguous.replace(',', '')}"
        remedy = f"say {argument('decimal', ',')} or {argument('thousands', ',')}"
        raise wrong(f"{path}: {ambiguous!r} can mean {readings}: {remedy}.")
    return options.number_format


def has_header(cells: list[str], number_format: NumberFormat, path: str, header: bool | None) -> bool:
    """Whether the first row names the columns; one that is mostly numbers needs the option `header`."""
    if header is not None:
        return header
    names = [cell for cell in cells[1:] or cells if not number_format.is_missing(cell)]
    numbers = [cell for cell in names if number_format.number(cell) is not None]
    if len(numbers) > len(names) / 2:
        problem = f"the first line holds numbers ({listed(numbers, 3)}) where names of columns are expected"
        remedy = f"{argument('header', False)} if it is data, {argument('header', True)} if these are names"
        raise wrong(f"{path}: {problem}: say {remedy}.")
    return True


def _has_row_names(header: list[str], rows: list[list[str]], number_format: NumberFormat) -> bool:
    """Whether the header has no cell for the first column, as R writes row names: words, or 1, 2, ..."""
    if any(len(cells) != len(header) + 1 for cells in rows):
        return False
    first = [cells[0].strip() for cells in rows]
    return all(number_format.number(cell) is None for cell in first) or first == ["1", "2"][: len(first)]


def _same_length(
    rows: Iterator[tuple[int, list[str]]], header: list[str], path: str, delimiter: str
) -> Iterator[tuple[int, list[str]]]:
    """The rows, each as long as the header."""
    for line, cells in rows:
        if len(cells) != len(header):
            sign = DELIMITERS.get(delimiter, repr(delimiter))
            problem = f"line {line} has {count(len(cells), 'cell')}, the header {len(header):,} (separated by {sign})"
            title = "remove the first line if it is a title, " if len(header) == 1 else ""
            remedy = f"{title}correct that line, or say {argument('delimiter', ...)} if it is another one"
            raise wrong(f"{path}, {problem}: {remedy}.")
        yield line, cells
