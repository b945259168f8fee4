"""Tables as CSV that a spreadsheet shows and does not run.

A spreadsheet takes a cell that begins with =, +, - or @ for a formula, which can call programs. Names come from other
people's files, so such a word gets an apostrophe in front, as spreadsheets do to say "this is text". A word that begins
with apostrophes and one of these signs gets one more, so that `original` takes back exactly what `harmless` did.
Numbers stay numbers.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Mapping
from typing import Any, TextIO

#: Beginnings of cells that spreadsheets take for formulas, with apostrophes before them or not.
_FORMULA = re.compile(r"'*[=+\-@\t\r\n]")


def harmless(cell: Any) -> Any:
    """Return a word that could be a formula with an apostrophe in front; anything else as it is."""
    return f"'{cell}" if isinstance(cell, str) and _FORMULA.match(cell) else cell


def original(cell: str) -> str:
    """Return the word that `harmless` changed."""
    return cell[1:] if cell.startswith("'") and _FORMULA.match(cell) else cell


def write_columns(stream: TextIO, columns: Mapping[str, Iterable[Any]]) -> None:
    """Write columns of equal length as CSV, with their names in the first line."""
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(map(harmless, columns))
    writer.writerows(map(harmless, row) for row in zip(*columns.values(), strict=True))
