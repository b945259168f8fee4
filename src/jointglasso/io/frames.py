"""Excel sheets and Parquet files, read by pandas."""

from __future__ import annotations

import zipfile
from datetime import date, time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from jointglasso._optional import require
from jointglasso._wording import listed, nearest
from jointglasso.data.checks import InputError
from jointglasso.errors import argument
from jointglasso.io.delimited import grid_of_rows
from jointglasso.io.grid import Grid, NumberFormat
from jointglasso.io.opening import foreign_reader, require_memory
from jointglasso.io.reading_options import ReadOptions

wrong = partial(InputError, parameter="sheet")

#: Bytes of memory that a sheet takes for each byte of its text.
_CELL_TO_TEXT = 2


def read_excel(file: Path, options: ReadOptions) -> Grid:
    """Read one sheet; numbers stored as text are read like those of a text table."""
    path, number_format = str(file), _number_format(options)
    import pandas as pd

    require("openpyxl", "tables")
    with foreign_reader(f"{path} is not an Excel file or is damaged: save it again, or export it as .csv."):
        with zipfile.ZipFile(file) as archive:
            require_memory(_CELL_TO_TEXT * sum(entry.file_size for entry in archive.infolist()), path)
        with pd.ExcelFile(file, engine="openpyxl") as book:
            sheet = _sheet(book.sheet_names, options.sheet, path)
            frame = pd.read_excel(book, sheet_name=sheet, header=None, dtype=object, na_filter=False)
    rows = [[cell_text(value, number_format.decimal) for value in row] for row in frame.to_numpy().tolist()]
    filled = [(line, cells) for line, cells in enumerate(rows, start=1) if any(cells)]
    if not filled:
        raise wrong(f"{path}: sheet {sheet!r} is empty: choose another one with {argument('sheet', ...)}.")
    grid = grid_of_rows(path, filled, options, number_format, sheet=f": sheet {sheet!r}")
    grid.unit, grid.notes = "row", [f"Excel sheet {sheet!r}"]
    return grid


def read_parquet(file: Path, options: ReadOptions) -> Grid:
    """Read a data frame; an index with names becomes the first column."""
    path, number_format = str(file), _number_format(options)
    import pandas as pd

    require("pyarrow", "tables")
    parquet = require("pyarrow.parquet", "tables")
    with foreign_reader(f"{path} is not a Parquet file or is damaged: write it again."):
        declared = parquet.read_metadata(file)
        require_memory(8.0 * declared.num_rows * declared.num_columns, path)
        frame = pd.read_parquet(file, engine="pyarrow")
    if 0 in frame.shape:
        size = f"{frame.shape[0]} rows and {frame.shape[1]} columns"
        raise InputError(f"{path} has {size}: write it again with data.", "path")
    header = [str(name).strip() for name in frame.columns]
    columns = [frame.iloc[:, j] for j in range(len(header))]
    if not isinstance(frame.index, pd.RangeIndex):
        header, columns = [str(frame.index.name or ""), *header], [frame.index.astype(str), *columns]
    names, words = set(options.named_cells), {}
    values, texts = np.empty((len(frame), len(header))), {}
    for j, column in enumerate(columns):
        numeric = column.dtype.kind in "iuf" and not number_format.missing_markers
        values[:, j] = column.to_numpy(dtype=np.float64, na_value=np.nan) if numeric else np.inf
        if np.isinf(values[:, j]).any() or j == 0 or header[j] in names:
            cells = [cell_text(value, number_format.decimal) for value in column.tolist()]
            values[:, j], in_column = number_format.row(cells)
            words.update({(i, j): word for i, word in in_column.items()})
            texts[j] = [cell.strip() for cell in cells]
    named_rows = sorted({i for column in texts.values() for i, text in enumerate(column) if text in names})
    rows = {i: [cell_text(column.tolist()[i], ".").strip() for column in columns] for i in named_rows}
    lines = range(1, len(frame) + 1)
    return Grid(path, header, values, words, texts, rows, lines, number_format, unit="row", notes=["Parquet"])


def _number_format(options: ReadOptions) -> NumberFormat:
    return NumberFormat(options.decimal or ".", options.thousands, options.missing_markers)


def _sheet(sheets: list[str], choice: str | int | None, path: str) -> str:
    if choice is None:
        if len(sheets) > 1:
            raise wrong(f"{path} has {len(sheets)} sheets ({listed(sheets)}): say which with {argument('sheet', ...)}.")
        choice = 0
    if isinstance(choice, int) and 0 <= choice < len(sheets):
        return sheets[choice]
    if choice not in sheets:
        raise wrong(f"{path} has no sheet {choice!r} ({nearest(str(choice), sheets)}): correct {argument('sheet')}.")
    return str(choice)


def cell_text(value: Any, decimal: str) -> str:
    """A cell as text: empty where missing, integers without a point, dates in the ISO form."""
    if value is None or value != value or type(value).__name__ == "NAType":
        return ""
    if isinstance(value, float | np.floating):
        return repr(float(value)).removesuffix(".0").replace(".", decimal)
    if isinstance(value, bool | np.bool_):
        return str(value).upper()
    return value.isoformat() if isinstance(value, date | time) else str(value)
