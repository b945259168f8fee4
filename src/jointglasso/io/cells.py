"""One cell of a text table: a number, a missing value, or a word."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from jointglasso._typing import FloatArray
from jointglasso.errors import argument
from jointglasso.validation import InputError

#: Cells read as missing, in upper or lower case, with or without blanks around them.
MISSING_MARKERS = ("", "NA", "N/A", "#N/A", "NaN", "null", "None", "-", "?", ".")

#: A character that no table has inside its cells; where one has, its cells are read one by one.
_SEPARATOR = "\x1f"

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_GROUPED = {mark: re.compile(rf"[+-]?[1-9]\d{{0,2}}({re.escape(mark)}\d{{3}})+(?!\d)", re.ASCII) for mark in ",. '"}
_COMMA_NUMBER = re.compile(r"[+-]?\d*,\d+([eE][+-]?\d+)?", re.ASCII)
_THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}(,\d{3})+", re.ASCII)


@dataclass(frozen=True)
class NumberFormat:
    """How numbers and missing values are written."""

    decimal: str = "."
    thousands: str | None = None
    missing: tuple[str, ...] = ()
    """Markers besides `MISSING_MARKERS`."""

    @cached_property
    def _markers(self) -> frozenset[str]:
        return frozenset(marker.strip().casefold() for marker in (*MISSING_MARKERS, *self.missing))

    @cached_property
    def _needs_care(self) -> bool:
        """Whether float() could take a cell for a number that is none, or another one."""
        numeric = any(self._number(marker.strip()) is not None for marker in self.missing)  # such as -999
        return self.thousands is not None or numeric

    def _readable(self, cells: Sequence[str]) -> Sequence[str]:
        """Cells that float() reads as `number` does; words in place of those that it must not read."""
        joined = _SEPARATOR.join(cells)
        # float() is fast and almost strict, but takes 1_000 and digits of other scripts for numbers.
        if self._needs_care or "_" in joined or not joined.isascii() or (self.decimal == "," and "." in joined):
            return ["word"] * len(cells)
        if self.decimal == "." or joined.count(_SEPARATOR) != len(cells) - 1:
            return cells
        return joined.replace(",", ".").split(_SEPARATOR)

    def is_missing(self, cell: str) -> bool:
        """Whether the cell is one of the missing markers."""
        return cell.strip().casefold() in self._markers

    def number(self, cell: str) -> float | None:
        """Value of a cell, NaN where missing, None where it is neither number nor missing (or infinite)."""
        text = cell.strip()
        return math.nan if text.casefold() in self._markers else self._number(text)

    def _number(self, text: str) -> float | None:
        if self.thousands is not None and (grouped := _GROUPED[self.thousands].match(text)):
            whole, rest = grouped[0], text[grouped.end() :]
            if self.thousands in rest:
                return None
            text = whole.replace(self.thousands, "") + rest
        if self.decimal == ",":
            if "." in text:
                return None
            text = text.replace(",", ".")
        if not _NUMBER.fullmatch(text):
            return None
        value = float(text)
        return value if math.isfinite(value) else None

    def row(self, cells: Sequence[str]) -> tuple[FloatArray, dict[int, str]]:
        """Values of many cells, and the cells that are words by position; words have the value NaN."""
        readable = self._readable(cells)
        try:
            values = np.array(list(map(float, readable)))
        except ValueError:
            values = np.array([_float_or_infinity(cell) for cell in readable])
        words: dict[int, str] = {}
        for i in np.flatnonzero(~np.isfinite(values)).tolist():  # also what float() refused
            number = self.number(cells[i])
            if number is None:
                words[i] = cells[i].strip()
            values[i] = np.nan if number is None else number
        return values, words


def _float_or_infinity(cell: str) -> float:
    try:
        return float(cell)
    except ValueError:
        return math.inf


def looks_grouped(cell: str) -> bool:
    """Whether the cell is a whole number with commas between its thousands, such as 1,234."""
    return _THOUSANDS.fullmatch(cell.strip()) is not None


def detect_decimal(cells: Iterable[str], where: str) -> str:
    """Tell the decimal sign of a table whose cells are not separated by commas."""
    ambiguous: str | None = None
    for cell in cells:
        if "," in cell and _COMMA_NUMBER.fullmatch(cell.strip()):
            if not looks_grouped(cell):
                return ","
            ambiguous = ambiguous or cell.strip()
    if ambiguous is not None:
        whole = ambiguous.replace(",", "")
        raise InputError(
            f"{where}: {ambiguous!r} can mean {ambiguous.replace(',', '.')} or {whole}: say {argument('decimal', ',')} "
            f"or {argument('thousands', ',')}.",
            "path",
        )
    return "."
