"""Text tables: comma, tab, semicolon or any other single character between the cells."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from functools import partial
from itertools import islice
from pathlib import Path

from jointglasso._files import original
from jointglasso._wording import count, listed
from jointglasso.errors import argument
from jointglasso.io.cells import NumberFormat, detect_decimal, looks_grouped
from jointglasso.io.grid import Grid, GridBuilder
from jointglasso.io.opening import read_text
from jointglasso.io.options import Options
from jointglasso.validation import InputError

#: Errors of this module are about one argument.
wrong = partial(InputError, parameter="path")

#: Delimiters that are looked for, with their names in messages.
DELIMITERS = {",": "comma", "\t": "tab", ";": "semicolon", "|": "vertical bar"}

_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")

#: Number of rows, and of cells in each, that decide about the delimiter.
_SNIFFED = 30


def read_delimited(file: Path, options: Options) -> Grid:
    """Read a text table into a grid."""
    text = read_text(file, options.encoding)
    path = str(file)
    delimiter = options.delimiter or detect_delimiter(text, path, options.comment)
    source = Records(text, delimiter, path, options.comment)
    rows = iter(source)
    first = next(rows, None)
    if first is None:
        raise wrong(f"{path} has no lines besides blank and comment lines: copy or download it again.")
    number_format = _number_format(text, delimiter, path, options)
    ahead = list(islice(rows, 2))
    named = has_header(first[1], number_format, path, options.header)
    if not named:
        ahead = [first, *ahead]
        header = [f"x{i + 1}" for i in range(len(first[1]))]
    elif not ahead:
        raise wrong(f"{path} has a header line but no rows below it: add the samples.")
    else:
        header = first[1]
        if _has_row_names(header, [cells for _, cells in ahead], number_format):
            header = ["", *header]
    names = (options.names,) if isinstance(options.names, str) else ()
    builder = GridBuilder(header, number_format, (*options.annotations, *names, *options.drop))
    for line, cells in (*ahead, *rows):
        if len(cells) != len(header):
            raise wrong(_ragged(path, line, len(cells), len(header), delimiter))
        builder.add(cells, line)
    notes = [f"cells separated by {DELIMITERS.get(delimiter, repr(delimiter))}", *source.notes(len(header))]
    if number_format.decimal == ",":
        notes.append("decimal comma")
    return builder.build(path, named=named, unit="line", notes=notes)


class Records:
    """Rows of a text table with the line they begin on; blank and comment lines are left out."""

    def __init__(self, text: str, delimiter: str, path: str, comment: str | bool | None) -> None:
        self._lines = (match[0] for match in _LINE.finditer(text))  # one by one: no second copy of a big text
        self._apostrophes = "'" in text  # perhaps in front of words that could be formulas
        self._delimiter = delimiter
        self._path = path
        self._told = comment is not None
        self._mark = "#" if comment is None or comment is True else comment
        self._line = 0
        self._start = 0
        self._at_start = True
        self.comments: list[tuple[int, str]] = []
        self._first_row: int | None = None

    def __iter__(self) -> Iterator[tuple[int, list[str]]]:
        reader = csv.reader(self._unread(), delimiter=self._delimiter, strict=True)
        while True:
            self._at_start = True
            try:
                cells = next(reader)
            except StopIteration:
                return
            except csv.Error as error:
                raise wrong(
                    f"{self._path}, line {self._start}: a cell does not end properly ({error}): close the quote, or "
                    f"say {argument('delimiter', ...)} if it is another one."
                ) from error
            if self._first_row is None:
                self._first_row = self._start
            yield self._start, [original(cell) for cell in cells] if self._apostrophes else cells

    def _unread(self) -> Iterator[str]:
        """Lines for the csv module; inside a quoted cell every line counts, whatever it looks like."""
        for line in self._lines:
            self._line += 1
            if self._at_start:
                if not line.strip(" \r\n\ufeff"):
                    continue
                if self._mark and line.startswith(self._mark):
                    self.comments.append((self._line, line))
                    continue
                self._start = self._line
                self._at_start = False
            yield line

    def notes(self, width: int) -> list[str]:
        """Say how many comment lines were left out; refuse those that look like rows of the table."""
        for line, text in self.comments:
            below = self._first_row is not None and line > self._first_row
            if below and not self._told and width > 1 and text.count(self._delimiter) == width - 1:
                raise wrong(
                    f"{self._path}, line {line} begins with '#' but has {width} cells like a row of the table: say "
                    f"{argument('comment', False)} if it is one, {argument('comment', '#')} if it is to be left out."
                )
        return [f"{count(len(self.comments), 'comment line')} left out"] if self.comments else []


def detect_delimiter(text: str, path: str, comment: str | bool | None, *, wordy: bool = False) -> str:
    """Find the one delimiter that cuts the first rows into equally many cells, most of them numbers.

    In a `wordy` file, blanks in a single column are part of the words.
    """
    scores: dict[str, tuple[bool, float]] = {}
    for delimiter in DELIMITERS:
        try:
            rows = [cells for _, cells in islice(Records(text, delimiter, path, comment), _SNIFFED)]
        except ValueError:
            continue
        if rows and max(map(len, rows)) > 1:
            scores[delimiter] = _score(rows)
    if not scores:
        return "," if wordy else _single_column(text, path, comment)
    best = max(scores.values())
    winners = [delimiter for delimiter, score in scores.items() if score == best]
    if len(winners) > 1:
        found = " and ".join(DELIMITERS[delimiter] for delimiter in winners)
        raise wrong(f"{path}: the cells can be separated by {found}: say which with {argument('delimiter', ...)}.")
    return winners[0]


def _score(rows: list[list[str]]) -> tuple[bool, float]:
    """Whether all rows are equally long (the header may be one shorter), and the share of numbers below the header."""
    widths = {len(row) for row in rows[1:]} or {len(rows[0])}
    equal = len(widths) == 1 and next(iter(widths)) - len(rows[0]) in (0, 1)
    formats = (NumberFormat(), NumberFormat(decimal=","), NumberFormat(thousands=","))
    body = [cell for row in rows[1:] or rows for cell in row[:_SNIFFED]]
    numbers = sum(any(form.number(cell) is not None for form in formats) for cell in body)
    return equal, numbers / max(len(body), 1)


def _single_column(text: str, path: str, comment: str | bool | None) -> str:
    """Accept one column without any delimiter, unless blanks or a damaged quote suggest that there are more."""
    rows = [cells for _, cells in islice(Records(text, ",", path, comment), _SNIFFED)]
    if any(len(cell.split()) > 1 for cells in rows[1:] for cell in cells if NumberFormat().number(cell) is None):
        raise wrong(
            f"{path}: no comma, tab, semicolon or vertical bar separates its cells: say {argument('delimiter', ' ')} "
            "or what it is."
        )
    return ","


def _number_format(text: str, delimiter: str, path: str, options: Options) -> NumberFormat:
    decimal = options.decimal
    if decimal is None:
        decimal = "."
        if delimiter != "," and options.thousands is None and "," in text:
            cells = (cell for _, row in Records(text, delimiter, path, options.comment) for cell in row)
            decimal = detect_decimal(cells, path)
    return NumberFormat(decimal, options.thousands, options.missing_markers)


def has_header(cells: list[str], number_format: NumberFormat, path: str, told: bool | None) -> bool:
    """Whether the first row names the columns; the caller has to explain one that is mostly numbers."""
    if told is not None:
        return told
    names = [cell for cell in cells[1:] or cells if not number_format.is_missing(cell)]
    numbers = [cell for cell in names if number_format.number(cell) is not None]
    if len(numbers) > len(names) / 2:
        raise wrong(
            f"{path}: the first line holds numbers ({listed(numbers, 3)}) where names of columns are expected: say "
            f"{argument('header', False)} if it is data, {argument('header', True)} if these are names."
        )
    return True


def _has_row_names(header: list[str], rows: list[list[str]], number_format: NumberFormat) -> bool:
    """Whether the first column has no place in the header, as R writes row names: words, or 1, 2, ...

    Anything else, such as a delimiter too many at the end of each row, is a row of a wrong length.
    """
    if any(len(cells) != len(header) + 1 for cells in rows):
        return False
    first = [cells[0].strip() for cells in rows]
    return all(number_format.number(cell) is None for cell in first) or first == ["1", "2"][: len(first)]


def _ragged(path: str, line: int, found: int, wanted: int, delimiter: str) -> str:
    sign = DELIMITERS.get(delimiter, repr(delimiter))
    message = f"{path}, line {line} has {count(found, 'cell')}, the header {wanted:,} (separated by {sign})"
    title = "remove the first line if it is a title, " if wanted == 1 else ""
    return f"{message}: {title}correct that line, or say {argument('delimiter', ...)} if it is another one."


def explain_word(word: str, number_format: NumberFormat) -> str:
    """Say what to do about a cell that should be a number."""
    if number_format.thousands is None and looks_grouped(word):
        return f"say {argument('thousands', ',')} if that comma separates thousands"
    if number_format.decimal == "," and "." in word and NumberFormat().number(word) is not None:
        return f"the other numbers have a decimal comma; correct it, or say {argument('decimal', '.')}"
    return f"correct it, or say {argument('missing_markers', [word])} if it stands for a missing value"
