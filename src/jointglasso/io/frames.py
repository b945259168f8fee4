"""Excel sheets and Parquet files, read by pandas."""

from __future__ import annotations

import datetime
import zipfile
from functools import partial
from numbers import Integral, Real
from pathlib import Path
from typing import Any

import numpy as np

from jointglasso._optional import require
from jointglasso._typing import FloatArray
from jointglasso._wording import listed, nearest
from jointglasso.errors import argument
from jointglasso.io.cells import NumberFormat
from jointglasso.io.delimited import has_header
from jointglasso.io.grid import Grid, GridBuilder, numbered
from jointglasso.io.opening import foreign_reader, require_memory
from jointglasso.io.options import Options
from jointglasso.validation import InputError

#: Errors of this module are about one argument.
wrong = partial(InputError, parameter="sheet")

#: Bytes of memory that a sheet takes for each byte of its text.
_CELL_TO_TEXT = 2


def read_excel(file: Path, options: Options) -> Grid:
    """Read one sheet; numbers stored as text are read like those of a text table."""
    path = str(file)
    pandas = require("pandas", "tables")
    require("openpyxl", "tables")
    damaged = f"{path} is not an Excel file or is damaged: save it again, or export it as .csv."
    with foreign_reader(damaged), zipfile.ZipFile(file) as archive:
        require_memory(_CELL_TO_TEXT * sum(entry.file_size for entry in archive.infolist()), path)
    with foreign_reader(damaged):
        book = pandas.ExcelFile(file, engine="openpyxl")
    with book:
        sheet = _sheet(book.sheet_names, options.sheet, path)
        with foreign_reader(damaged):
            frame = pandas.read_excel(book, sheet_name=sheet, header=None, dtype=object, na_filter=False)
    number_format = NumberFormat(options.decimal or ".", options.thousands, options.missing_markers)
    rows = [[cell_text(value, number_format.decimal) for value in row] for row in frame.to_numpy().tolist()]
    filled = [(line, cells) for line, cells in enumerate(rows, start=1) if any(cells)]
    if not filled:
        raise wrong(f"{path}: sheet {sheet!r} is empty: choose another one with {argument('sheet', ...)}.")
    first = filled[0][1]
    named = has_header(first, number_format, path, options.header)
    body = filled[1:] if named else filled
    if not body:
        raise wrong(f"{path}: sheet {sheet!r} has a header but no rows below it: add the samples.")
    names = (options.names,) if isinstance(options.names, str) else ()
    header = first if named else numbered("x", len(first))
    builder = GridBuilder(header, number_format, (*options.annotations, *names, *options.drop))
    for line, cells in body:
        builder.add(cells, line)
    return builder.build(path, named=named, unit="row", notes=[f"Excel sheet {sheet!r}"])


def read_parquet(file: Path, options: Options) -> Grid:
    """Read a data frame; an index with names becomes the first column."""
    path = str(file)
    pandas = require("pandas", "tables")
    require("pyarrow", "tables")
    parquet = require("pyarrow.parquet", "tables")
    with foreign_reader(f"{path} is not a Parquet file or is damaged: write it again."):
        declared = parquet.read_metadata(file)
        require_memory(8.0 * declared.num_rows * declared.num_columns, path)
        frame = pandas.read_parquet(file, engine="pyarrow")
    if 0 in frame.shape:
        raise InputError(
            f"{path} has {frame.shape[0]} rows and {frame.shape[1]} columns: write it again with data.", "path"
        )
    if not isinstance(frame.index, pandas.RangeIndex):
        title = "" if frame.index.name is None else str(frame.index.name)
        frame = frame.set_axis([str(name) for name in frame.columns], axis=1)
        frame.insert(0, title, frame.index.astype(str), allow_duplicates=True)
    number_format = NumberFormat(options.decimal or ".", options.thousands, options.missing_markers)
    return _grid(frame, path, number_format, options)


def _grid(frame: Any, path: str, number_format: NumberFormat, options: Options) -> Grid:
    header = [str(name).strip() for name in frame.columns]
    names = (options.names,) if isinstance(options.names, str) else ()
    asked = {*options.annotations, *names, *options.drop}
    values = np.empty(frame.shape)
    words: dict[tuple[int, int], str] = {}
    kept: dict[int, list[str]] = {}
    for j, name in enumerate(header):
        column = frame.iloc[:, j]
        values[:, j], wordy = _column(column, number_format)
        words.update({(i, j): word for i, word in wordy.items()})
        if j == 0 or name in asked:
            kept[j] = [cell_text(value, ".").strip() for value in column.tolist()]
    asked_rows = {i for texts in kept.values() for i, text in enumerate(texts) if text in asked}
    rows = {i: [cell_text(value, ".").strip() for value in frame.iloc[i].tolist()] for i in sorted(asked_rows)}
    lines = list(range(1, len(frame) + 1))
    return Grid(path, header, True, values, words, kept, rows, lines, "row", number_format, ["Parquet"])


def _column(column: Any, number_format: NumberFormat) -> tuple[FloatArray, dict[int, str]]:
    """Values of one column, read cell by cell only where it does not hold plain numbers."""
    if column.dtype.kind in "iuf" and not number_format.missing:
        values = column.to_numpy(dtype=np.float64, na_value=np.nan)
        if not np.isinf(values).any():
            return values, {}
    return number_format.row([cell_text(value, number_format.decimal) for value in column.tolist()])


def _sheet(sheets: list[str], asked: str | int | None, path: str) -> str:
    if not sheets:
        raise InputError(f"{path} has no sheets: save it again, or export it as .csv.", "path")
    if asked is None:
        if len(sheets) > 1:
            raise wrong(f"{path} has {len(sheets)} sheets ({listed(sheets)}): say which with {argument('sheet', ...)}.")
        return sheets[0]
    if isinstance(asked, int) and 0 <= asked < len(sheets):
        return sheets[asked]
    if asked not in sheets:
        raise wrong(f"{path} has no sheet {asked!r} ({nearest(str(asked), sheets)}): correct {argument('sheet')}.")
    return str(asked)


def cell_text(value: Any, decimal: str) -> str:
    """Write a cell as it would stand in a text table."""
    if value is None or (isinstance(value, Real) and value != value) or type(value).__name__ in ("NAType", "NaTType"):
        return ""
    if isinstance(value, bool | np.bool_):
        return "TRUE" if value else "FALSE"
    if isinstance(value, Integral):
        return str(int(value))
    if isinstance(value, Real):
        number = float(value)
        return str(int(number)) if number.is_integer() else repr(number).replace(".", decimal)
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    return str(value)
