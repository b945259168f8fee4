"""Cells of a table: a number, a missing value, or a word."""

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

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_COMMA_NUMBER = re.compile(r"[+-]?\d*,\d+([eE][+-]?\d+)?", re.ASCII)
_THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}(,\d{3})+", re.ASCII)


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

    def row(self, cells: Sequence[str]) -> tuple[FloatArray, dict[int, str]]:
        """Values of many cells, and the words by position; words have the value NaN."""
        joined = "".join(cells)
        # float() is fast, but takes 1_000 and digits of other scripts for numbers.
        if self._needs_care or "_" in joined or not joined.isascii() or (self.decimal == "," and "." in joined):
            values = np.full(len(cells), np.inf)
        else:
            readable = cells if self.decimal == "." else [cell.replace(",", ".") for cell in cells]
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

    def explain(self, word: str) -> str:
        """What to do about a cell that should be a number."""
        if self.thousands is None and looks_grouped(word):
            return f"say {argument('thousands', ',')} if that comma separates thousands"
        if self.decimal == "," and NumberFormat().number(word) is not None:
            return f"the other numbers have a decimal comma; correct it, or say {argument('decimal', '.')}"
        return f"correct it, or say {argument('missing_markers', [word])} if it stands for a missing value"


def _float_or_infinity(cell: str) -> float:
    try:
        return float(cell)
    except ValueError:
        return math.inf


def looks_grouped(cell: str) -> bool:
    """Whether the cell is an integer with commas between its thousands, such as 1,234."""
    return _THOUSANDS.fullmatch(cell.strip()) is not None


def detect_decimal(cells: Iterable[str], path: str) -> str:
    """Decimal sign of a table whose cells are not separated by commas."""
    ambiguous = ""
    for cell in cells:
        if "," in cell and _COMMA_NUMBER.fullmatch(cell.strip()):
            if not looks_grouped(cell):
                return ","
            ambiguous = ambiguous or cell.strip()
    if ambiguous:
        raise InputError(
            f"{path}: {ambiguous!r} can mean {ambiguous.replace(',', '.')} or {ambiguous.replace(',', '')}: say "
            f"{argument('decimal', ',')} or {argument('thousands', ',')}.",
            "path",
        )
    return "."
