"""Files other than text tables: Excel and Parquet (by pandas), NumPy archives, AnnData, and GEO DataSets (`.soft`)."""

from __future__ import annotations

import io
import re
import warnings
import zipfile
from collections import Counter
from collections.abc import Iterator
from datetime import date, time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from jointglasso._optional import require
from jointglasso._typing import FloatArray
from jointglasso._wording import count, listed, nearest
from jointglasso.data.checks import InputError
from jointglasso.errors import argument
from jointglasso.io.delimited import grid_of_rows
from jointglasso.io.grid import AnnotatedSamples, Grid, NumberFormat, as_label, build_grid, numbered
from jointglasso.io.opening import ReadOptions, foreign_reader, read_bytes, read_text, require_memory, wrong

wrong_sheet = partial(InputError, parameter="sheet")

#: Bytes of memory that a sheet takes for each byte of its text.
_CELL_TO_TEXT = 2


def read_excel(file: Path, options: ReadOptions) -> Grid:
    """Read one sheet; numbers stored as text are read like those of a text table."""
    path, number_format = str(file), options.number_format
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
        raise wrong_sheet(f"{path}: sheet {sheet!r} is empty: choose another one with {argument('sheet', ...)}.")
    grid = grid_of_rows(path, filled, options, number_format, sheet=f": sheet {sheet!r}")
    grid.unit, grid.notes = "row", [f"Excel sheet {sheet!r}"]
    return grid


def read_parquet(file: Path, options: ReadOptions) -> Grid:
    """Read a data frame; an index with names becomes the first column."""
    path, number_format = str(file), options.number_format
    import pandas as pd

    require("pyarrow", "tables")
    parquet = require("pyarrow.parquet", "tables")
    with foreign_reader(f"{path} is not a Parquet file or is damaged: write it again."):
        declared = parquet.read_metadata(file)
        require_memory(8.0 * declared.num_rows * declared.num_columns, path)
        frame = pd.read_parquet(file, engine="pyarrow")
    if 0 in frame.shape:
        size = f"{frame.shape[0]} rows and {frame.shape[1]} columns"
        raise wrong(f"{path} has {size}: write it again with data.")
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


def _sheet(sheets: list[str], choice: str | int | None, path: str) -> str:
    if choice is None:
        if len(sheets) > 1:
            raise wrong_sheet(
                f"{path} has {len(sheets)} sheets ({listed(sheets)}): say which with {argument('sheet', ...)}."
            )
        choice = 0
    if isinstance(choice, int) and 0 <= choice < len(sheets):
        return sheets[choice]
    if choice not in sheets:
        raise wrong_sheet(
            f"{path} has no sheet {choice!r} ({nearest(str(choice), sheets)}): correct {argument('sheet')}."
        )
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


def read_npz(file: Path, options: ReadOptions) -> AnnotatedSamples:
    """Read the arrays X, y, features and samples; only X is required, others can be labels.

    An array that no option names is not read.
    """
    path, content = str(file), read_bytes(file)
    with foreign_reader(_DAMAGED.format(path)):
        archive = np.load(io.BytesIO(content), allow_pickle=False)
        sizes = {entry.filename.removesuffix(".npy"): entry.file_size for entry in archive.zip.infolist()}
    read = partial(_member, archive, sizes, path)
    if "X" not in sizes:
        raise wrong(f"{path} has no array 'X' (it has {listed(sizes)}): store the samples x variables under that name.")
    X = read("X")
    if X.ndim != 2 or 0 in X.shape or X.dtype.kind not in "fiub":
        problem = f"the array 'X' has shape {X.shape} and type {X.dtype}"
        raise wrong(f"{path}: {problem}: it must be a table of numbers, samples x variables.")
    X = np.ascontiguousarray(X.T if options.samples_in == "columns" else X, dtype=np.float64)
    names = {"samples": numbered("", X.shape[0]), "features": numbered("x", X.shape[1])}
    for key in set(names) & set(sizes):
        array = read(key)
        if array.shape != (len(names[key]),):
            what = f"{len(names[key])} {'variables' if key == 'features' else 'samples'}"
            remedy = f"give one name each, or say {argument('samples_in', ...)} if X is the other way round"
            raise wrong(f"{path}: {key!r} has shape {array.shape}, but X has {what}: {remedy}.")
        names[key] = [str(name) for name in array.tolist()]
    annotations: dict[str, list[str | None]] = {key: [] for key in sizes if key not in ("X", *names)}
    for key in {*options.annotation_names, "y"} & set(annotations):
        array = read(key)
        if array.shape != X.shape[:1]:
            problem = f"{key!r} has shape {array.shape}, but there are {len(X)} samples"
            raise wrong(f"{path}: {problem}: give one label each.")
        annotations[key] = [as_label(str(word)) for word in array.tolist()]
    label = options.inner_label or ("y" if "y" in annotations and options.labels is None else None)
    notes = ["NumPy archive", f"samples in {options.samples_in or 'rows'}"]
    finite = require_no_infinity(X, path)
    return AnnotatedSamples(
        path, finite, names["features"], names["samples"], "samples" in sizes, annotations, label, notes
    )


_DAMAGED = "{} is not a NumPy archive or is damaged: write it again with numpy.savez."


def _member(archive: Any, sizes: dict[str, int], path: str, key: str) -> NDArray[Any]:
    """One array, if it fits into memory; Python objects, which could run code when loaded, are refused."""
    require_memory(sizes[key], f"{path}: the array {key!r}")
    with foreign_reader(_DAMAGED.format(path)):
        try:
            array: NDArray[Any] = archive[key]
        except ValueError as error:
            if "Object arrays" not in str(error):
                raise
            problem = f"{key!r} holds Python objects, which are not loaded for safety"
            raise wrong(f"{path}: {problem}: store names as arrays of strings.") from error
    return array


def require_no_infinity(X: FloatArray, path: str) -> FloatArray:
    """X, when none of its values is infinite."""
    infinite = np.isinf(X)
    if infinite.any():
        row, column = np.argwhere(infinite)[0]
        cell, number = f"sample {row + 1}, variable {column + 1}", count(int(infinite.sum()), "such value")
        remedy = "correct it, or make it NaN if it is missing"
        raise wrong(f"{path}: {cell} is {X[row, column]} ({number}): {remedy}.")
    return X


def read_h5ad(file: Path, options: ReadOptions) -> AnnotatedSamples:
    """Read observations as samples; the columns of `obs` are the annotations."""
    path = str(file)
    anndata, h5py = require("anndata", "anndata"), require("h5py", "anndata")
    sizes = [0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about older versions of the format
        with foreign_reader(f"{path} is not an AnnData file or is damaged: write it again with write_h5ad."):
            with h5py.File(file, "r") as stored:
                stored.visititems(lambda _, item: sizes.append(item.nbytes if isinstance(item, h5py.Dataset) else 0))
            require_memory(sum(sizes), path)
            data = anndata.read_h5ad(file)
        names, values = _layer(data, options.layer, path)
        require_memory(8.0 * values.shape[0] * values.shape[1], path)
        dense = values.toarray() if sparse.issparse(values) else values
        X = require_no_infinity(np.asarray(dense, dtype=np.float64), path)
    annotations: dict[str, list[str | None]] = {str(column): [] for column in data.obs.columns}
    for name in set(options.annotation_names) & set(annotations):
        cells = zip(data.obs[name].tolist(), data.obs[name].isna().tolist(), strict=True)
        annotations[name] = [None if missing else as_label(str(value)) for value, missing in cells]
    samples = [str(name) for name in data.obs_names]
    notes = ["AnnData", "X" if options.layer is None else f"layer {options.layer!r}"]
    return AnnotatedSamples(
        path, X, [str(n) for n in names], samples, True, annotations, options.inner_label, notes,
        annotation_words="column {} in obs",
    )  # fmt: skip


def _layer(data: Any, layer: str | None, path: str) -> tuple[Any, Any]:
    """Names of the variables and the values: X, one of the layers, or the raw counts."""
    if layer == "raw" and data.raw is not None:
        return data.raw.var_names, data.raw.X
    values = data.X if layer is None else data.layers.get(layer)
    if values is None:
        layers = [name for name in data.layers if name is not None]  # None is X, from anndata 0.13 on
        known = nearest(layer or "", [*layers, *(["raw"] if data.raw is not None else [])])
        missing = "X" if layer is None else f"layer {layer!r}"
        raise InputError(f"{path} has no {missing} ({known}): choose with {argument('layer', ...)}.", "layer")
    return data.var_names, values


_BEGIN, _END = "!dataset_table_begin", "!dataset_table_end"


def read_soft(file: Path, options: ReadOptions) -> AnnotatedSamples:
    """Read a GDS file; probes of one gene symbol are distinguished by their probe id."""
    path = str(file)
    lines = read_text(file, None).replace("\r\n", "\n").split("\n")
    begin, end = _table_bounds(lines, path)
    header = lines[begin].split("\t")
    samples = [name for name in header if name.startswith("GSM")]
    if header[:2] != ["ID_REF", "IDENTIFIER"] or not samples:
        columns = f"the columns {listed(header, 3)} instead of ID_REF, IDENTIFIER and samples"
        raise wrong(f"{path}: the table begins with {columns}: download the GDS file again.")
    if not any(lines[begin + 1 : end]):
        raise wrong(f"{path}: the table has no probes: download it again.")
    chosen = [0, *(j for j, name in enumerate(header) if name.startswith("GSM"))]
    genes: list[str] = []

    def rows() -> Iterator[tuple[int, list[str]]]:
        for line, text in enumerate(lines[begin + 1 : end], start=begin + 2):
            cells = text.split("\t")
            if text and len(cells) != len(header):
                length = count(len(cells), "cell")
                raise wrong(f"{path}, line {line} has {length}, the header {len(header)}: download it again.")
            if text:
                genes.append(cells[1].strip())
                yield line, [cells[j] for j in chosen]

    grid = build_grid(path, [header[j] for j in chosen], rows(), (), options.number_format)
    for row, column in np.argwhere(grid.is_word[:, 1:]).tolist():
        grid.require_number(row, column + 1)
    title, annotations = _annotations("\n".join(lines[:begin]), samples, path)
    notes = [f"GEO DataSet {title!r}", f"labels to choose from: {listed(annotations) or 'none'}"]
    X, names = np.ascontiguousarray(grid.values[:, 1:].T), _distinct(genes, grid.columns[0])
    words = "subsets of type {}"
    return AnnotatedSamples(
        path, X, names, samples, True, annotations, options.inner_label, notes, annotation_words=words
    )


def _table_bounds(lines: list[str], path: str) -> tuple[int, int]:
    """Positions of the header of the table, and of the line behind it."""
    begin = next((i for i, line in enumerate(lines) if line.startswith(_BEGIN)), None)
    if begin is None:
        entities = {line.partition("=")[0].strip() for line in lines if line.startswith("^")}
        if entities & {"^SERIES", "^PLATFORM", "^SAMPLE"}:
            family = f"a SOFT family file ({listed(sorted(entities), 3)}), not a GEO DataSet"
            raise wrong(f"{path} is {family}: download the GDS file, or the series matrix as a text table.")
        raise wrong(f"{path} has no line {_BEGIN!r}: it is no GEO DataSet (GDS) or cut off; download it again.")
    end = next((i for i in range(begin + 1, len(lines)) if lines[i].startswith(_END)), None)
    if end is None:
        raise wrong(f"{path} ends before the line {_END!r}: it is cut off; download it again.")
    return begin + 1, end


def _annotations(preamble: str, samples: list[str], path: str) -> tuple[str, dict[str, list[str | None]]]:
    """Title of the data set, and the subset of each sample by type of subset."""
    title = re.search(r"^!dataset_title *= *(.*)$", preamble, re.MULTILINE)
    by_type: dict[str, dict[str, str]] = {}
    for block in re.split(r"^\^SUBSET.*$", preamble, flags=re.MULTILINE)[1:]:
        block = block.partition("\n^")[0]
        fields = re.findall(r"^!subset_(\w+) *= *(.*?) *$", block, re.MULTILINE)
        values = dict(fields)
        description, kind = values.get("description", ""), values.get("type", "")
        members = by_type.setdefault(kind, {})
        # A long list of samples can extend over several lines.
        names = ",".join(value for key, value in fields if key == "sample_id").split(",")
        for sample in filter(None, map(str.strip, names)):
            if members.setdefault(sample, description) != description:
                subsets = f"the subsets {members[sample]!r} and {description!r} of type {kind!r}"
                remedy = f"correct the file, or give a label file with {argument('labels', ...)}"
                raise wrong(f"{path}: sample {sample!r} is in {subsets}: {remedy}.")
    annotations: dict[str, list[str | None]] = {
        kind: [as_label(members[sample]) if sample in members else None for sample in samples]
        for kind, members in by_type.items()
    }
    return title[1].strip() if title else "", annotations


def _distinct(genes: list[str], probes: list[str]) -> list[str]:
    """Gene symbols; those of several probes, and missing ones, with the probe id."""
    n_probes, symbols = Counter(genes), NumberFormat()
    return [
        probe if symbols.is_missing(gene) else gene if n_probes[gene] == 1 else f"{gene}|{probe}"
        for gene, probe in zip(genes, probes, strict=True)
    ]
