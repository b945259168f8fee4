"""Numeric tables of any type, dense after reading, and their labels; tables in files are pickled by reference."""

from __future__ import annotations

import mmap
import os
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import numpy as np
from scipy import sparse

from jointglasso._optional import is_from
from jointglasso._typing import FloatArray, IntArray
from jointglasso._wording import nearest
from jointglasso.data.naming import column_names, data_argument, require_unique, require_whole_characters
from jointglasso.errors import InputError, InputTypeError

#: Entries of a file that are read at a time.
_NUMBERS_AT_ONCE = 2_000_000

REMEDY = "leave it out, or code its values as numbers"


class SampleRows:
    """Lazy selection of rows and columns of a table of samples; dense after `read`.

    The table is an array (also memory-mapped), a SciPy sparse matrix, or any object with `shape`, `dtype` and row
    slicing: datasets of h5py and zarr, a backed AnnData object, arrays of Dask. Tables in files are pickled by
    reference. `rows` are in increasing order; None selects all.
    """

    def __init__(self, table: Any, rows: IntArray | None = None, columns: IntArray | None = None) -> None:
        self._table, self._rows, self._columns = table, rows, columns

    def __getstate__(self) -> tuple[Any, ...]:
        place = place_of(self._table)
        return self._table if place is None else None, place, self._rows, self._columns

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        table, place, self._rows, self._columns = state
        self._table = table if place is None else open_place(place)

    @property
    def row_numbers(self) -> IntArray:
        """Selected rows of the table."""
        return np.arange(self._table.shape[0]) if self._rows is None else self._rows

    @property
    def is_stored(self) -> bool:
        """Whether other processes can read the table from its file."""
        return place_of(self._table) is not None or is_from(self._table, "zarr")

    @staticmethod
    def can_read(data: Any) -> bool:
        """Whether `data` is a supported table; data frames are not."""
        try:
            return isinstance(data.dtype, np.dtype) and len(data.shape) == 2 and column_names(data) is None
        except AttributeError:
            return False

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and of columns."""
        n, p = (int(size) for size in self._table.shape)
        return n if self._rows is None else len(self._rows), p if self._columns is None else len(self._columns)

    @property
    def dtype(self) -> Any:
        """Data type of the underlying table."""
        return self._table.dtype

    def restricted(self, columns: IntArray) -> SampleRows:
        """Return the same rows with only these columns of the table."""
        return SampleRows(self._table, self._rows, columns)

    def read(self) -> FloatArray:
        """Return a dense float64 array, NaN where masked."""
        if isinstance(self._table, np.ndarray):
            part = self._table if self._rows is None else self._table[self._rows]
            return _unmasked(part if self._columns is None else part[:, self._columns])
        table = with_rows(self._table)
        if sparse.issparse(table):
            return self._dense(table if self._rows is None else table[self._rows])
        return self._read_in_pieces()

    def _read_in_pieces(self) -> FloatArray:
        """Read contiguous slices and select the rows: reading single rows from a file is far slower."""
        n, p = (int(size) for size in self._table.shape)
        rows = np.arange(n) if self._rows is None else self._rows
        result = np.empty(self.shape)
        step = max(1, _NUMBERS_AT_ONCE // max(1, p))
        position = 0
        while position < len(rows):
            first = int(rows[position])
            end = int(np.searchsorted(rows, first + step))
            piece = self._table[first : int(rows[end - 1]) + 1]
            result[position:end] = self._dense(piece[rows[position:end] - first])
            position = end
        return result

    def _dense(self, part: Any) -> FloatArray:
        if self._columns is not None:
            part = part[:, self._columns]
        if sparse.issparse(part):
            # C order, as for other tables, so that sums are bit-identical.
            return np.asarray(part.astype(np.float64).toarray(order="C"))
        return np.asarray(part, dtype=np.float64)


def with_rows(table: Any) -> Any:
    """Return a table with row indexing: other sparse formats, such as COO, are converted to CSR.

    A backed CSC dataset has no efficient row access and is read into memory, still sparse.
    """
    if sparse.issparse(table):
        return table if table.format in ("csr", "csc") else table.tocsr()
    if is_from(table, "anndata") and table.format == "csc":
        return table.to_memory()
    return table


def deferred(data: Any, what: str) -> SampleRows | FloatArray:
    """Validate type and shape without reading; data frames and lists are converted to arrays."""
    if not SampleRows.can_read(data) and not isinstance(data, SampleRows):
        return as_float_matrix(data, what)
    rows = data if isinstance(data, SampleRows) else SampleRows(data)
    require_real(rows, what)
    _require_variables(rows.shape, what)
    return rows


def read_matrix(data: SampleRows | FloatArray, what: str) -> FloatArray:
    """Return the array of a deferred table."""
    if isinstance(data, np.ndarray):
        return data
    if data.dtype.kind in "biuf":
        return data.read()
    try:
        return data.read()
    except (TypeError, ValueError):
        raise _not_numeric(data._table if data._columns is None else None, what) from None


def as_float_matrix(data: Any, what: str) -> FloatArray:
    """Return a dense matrix of real numbers, NaN where they are missing or masked."""
    require_real(data, what)
    if is_from(data, "dask", "dask_expr"):
        data = data.compute()
    try:
        if is_from(data, "pandas"):
            array = np.asarray(data.to_numpy(dtype=np.float64, na_value=np.nan))
        else:
            array = _unmasked(data.toarray() if sparse.issparse(data) else data)
    except (TypeError, ValueError):
        raise _not_numeric(data, what) from None
    _require_variables(array.shape, what)
    return array


def _not_numeric(data: Any, what: str) -> InputTypeError:
    column = _first_text_column(data)
    remedy = "it must be a table of numbers" if column is None else REMEDY
    if isinstance(data, str | os.PathLike):
        remedy = "it must be a table of numbers; read a file with pandas or jointglasso.io.read_table"
    where = what if column is None else _in_column(column, what)
    return InputTypeError(f"{where} is not numeric: {remedy}.", data_argument(what))


def readable_table(data: Any) -> Any:
    """Return a table for scikit-learn: without dates and text, with unique columns, NaN where masked.

    Complex numbers are refused by scikit-learn.
    """
    _refuse_types(data, "X", ("date", "time", "duration", "period"))
    columns = column_names(data)
    if columns is not None:
        require_unique(columns, "X")
    if _first_text_column(data) is not None:
        raise _not_numeric(data, "X")
    return _unmasked(data) if isinstance(data, np.ma.MaskedArray) else data


def require_real(data: Any, what: str) -> None:
    """Refuse complex numbers, dates and durations, which would be converted silently."""
    _refuse_types(data, what, ("complex", "date", "time", "duration", "period"))


def _refuse_types(data: Any, what: str, beginnings: tuple[str, ...]) -> None:
    """Refuse columns whose type name (NumPy, pandas, polars or pyarrow) starts with one of `beginnings`."""
    columns = column_names(data)
    if columns is None:
        types = [data.dtype if hasattr(data, "dtype") else np.asarray(data).dtype]
    else:
        types = list(data.schema.types if is_from(data, "pyarrow") else data.dtypes)
    for number, dtype in enumerate(types):
        if isinstance(dtype, np.dtype) and dtype.kind in "biuf":
            continue
        kind = str(dtype).lower()
        if kind.startswith(beginnings):
            where = what if columns is None else _in_column(columns[number], what)
            content = "complex numbers" if kind.startswith("complex") else "dates or times"
            raise InputTypeError(
                f"{where} holds {content}: it must be a table of real numbers, leave out what is none.",
                data_argument(what),
            )


def _in_column(column: str, what: str) -> str:
    return f"Variable {column!r} of {what if what == 'X' else what[0].lower() + what[1:]}"


def _unmasked(data: Any) -> FloatArray:
    if isinstance(data, np.ma.MaskedArray):
        return np.asarray(np.ma.filled(data.astype(np.float64), np.nan))
    return np.asarray(data, dtype=np.float64)


def _require_variables(shape: tuple[int, ...], what: str) -> None:
    if len(shape) != 2 or 0 in shape[1:]:
        raise InputError(
            f"{what} has shape {shape}: it must be two-dimensional with at least one variable.", data_argument(what)
        )


def _first_text_column(data: Any) -> str | None:
    """Name of the first column of a data frame or array that cannot be converted to numbers."""
    if is_from(data, "polars", "pyarrow"):
        data = data.to_pandas()
    if isinstance(data, np.ndarray) and data.ndim == 2 and data.dtype.kind in "OSU":
        for number, column in enumerate(data.T):
            try:
                column.astype(np.float64)
            except ValueError:
                return f"x{number}"
    if not is_from(data, "pandas") or data.ndim != 2:
        return None
    for name in data.select_dtypes(exclude=["number", "bool"]).columns:
        try:
            data[name].to_numpy(dtype=np.float64, na_value=np.nan)
        except (TypeError, ValueError):
            return str(name)
    return None


def place_of(table: Any) -> tuple[Any, ...] | None:
    """File reference of a complete memory-mapped array or an h5py dataset; None for tables pickled by value.

    Arrays of zarr implement pickling by reference themselves.
    """
    mapped: Any = table.base if isinstance(table, np.memmap) else None
    if isinstance(mapped, mmap.mmap) and table.filename is not None:
        order = "C" if table.flags.c_contiguous else "F"
        path = os.path.abspath(table.filename)
        return "mapped", path, os.path.getsize(path), (table.dtype, table.offset, table.shape, order)
    if is_from(table, "h5py"):
        path = os.path.abspath(table.file.filename)
        return "h5py", path, os.path.getsize(path), (table.name,)
    return None


def open_place(place: tuple[Any, ...]) -> Any:
    """Open the table of a file reference in the receiving process."""
    kind, path, size, where = place
    try:
        actual_size = os.path.getsize(path)
    except OSError as error:
        raise FileNotFoundError(
            f"A worker cannot read the samples at {path} ({error.strerror}): put them on storage that every worker "
            "sees under the same path, or read them into memory before."
        ) from None
    if actual_size != size:
        raise InputError(
            f"A worker finds another file of samples at {path}: {actual_size} bytes instead of {size}.", "samples"
        )
    if kind == "mapped":
        dtype, offset, shape, order = where
        return np.memmap(path, dtype=dtype, mode="r", offset=offset, shape=shape, order=order)
    return import_module("h5py").File(path, "r")[where[0]]


def label_rows(n_samples: int, y: Any) -> dict[str, IntArray]:
    """Row indices by class, classes in order of appearance (of the categories for an ordered categorical)."""
    labels = np.asarray(y)
    if labels.ndim != 1 or len(labels) != n_samples:
        raise InputError(f"y has shape {labels.shape}, but X has {n_samples} samples: give one label per sample.", "y")
    # Test the original values: NumPy would convert a NaN among strings to the string 'nan'.
    values = np.asarray(y, dtype=object).tolist()
    missing = [i for i, label in enumerate(values) if _is_missing(label)]
    if missing:
        raise InputError(f"The label of sample {missing[0]} is missing: name its class or leave the sample out.", "y")
    kinds = sorted({"str" if isinstance(label, str) else type(label).__name__ for label in values})
    if "str" in kinds and len(kinds) > 1:
        raise InputTypeError(f"The labels mix {' and '.join(kinds)}: give all labels one type.", "y")
    try:
        classes, first = np.unique(labels, return_index=True)
    except TypeError:
        raise InputTypeError(f"The labels mix {' and '.join(kinds)}: give all labels one type.", "y") from None
    rows: dict[str, IntArray] = {
        str(label): np.flatnonzero(labels == label) for label in _class_order(y, classes[np.argsort(first)])
    }
    require_whole_characters(list(rows), "class")
    return rows


def is_ordered(y: Any) -> bool:
    """Whether `y` is an ordered categorical."""
    return is_from(y, "pandas") and y.dtype.name == "category" and bool(y.dtype.ordered)


def _class_order(y: Any, classes: Any) -> Any:
    """Classes in the order of the categories if `y` is an ordered categorical, else unchanged."""
    if not is_ordered(y):
        return classes
    present = set(classes.tolist())
    return [label for label in y.dtype.categories.tolist() if label in present]


def _is_missing(label: Any) -> bool:
    try:
        return label is None or bool(label != label)
    except TypeError:  # pandas' NA refuses to be compared
        return True


def require_finite(X: FloatArray, class_name: str, variable_names: Sequence[str]) -> None:
    """Refuse missing and infinite values; the error names the first one."""
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(X.sum()):  # one cheap pass; entries are tested only if the sum is not finite
            return
    bad = np.argwhere(~np.isfinite(X))
    if len(bad):
        row, column = bad[0]
        raise InputError(
            f"Class {class_name!r} has {X[row, column]} in variable {variable_names[column]!r} (sample {row}; "
            f"{len(bad)} such values): remove those samples or variables, or fill the values in.",
            class_name=class_name,
            variable=variable_names[column],
        )


def labelled(X: Any, y: Any) -> tuple[Any, Any]:
    """Return a numeric table and its labels.

    `y` can be the name of a column of a data frame, which is then removed from the variables, or of an annotation of
    the cells of an AnnData object. AnnData objects become data frames.
    """
    if is_from(X, "anndata") and not SampleRows.can_read(X):
        labels = X.obs[_known(y, list(X.obs.columns), "obs of the AnnData object")] if isinstance(y, str) else y
        return X.to_df(), labels
    if isinstance(y, str):
        X, y = _split_label_column(X, y)
    return X, y


def _split_label_column(X: Any, name: str) -> tuple[Any, Any]:
    columns = column_names(X)
    if columns is None:
        raise InputTypeError(
            f"y={name!r} would be a column of X, but X has no columns with names: give the labels.", "y"
        )
    _known(name, columns, "X")
    if is_from(X, "pyarrow"):
        return X.drop_columns([name]), X[name].to_pylist()
    return (X.drop(name) if is_from(X, "polars") else X.drop(columns=[name])), X[name]


def _known(name: str, columns: list[str], where: str) -> str:
    if name not in columns:
        hint = nearest(name, columns)
        raise InputError(f"y={name!r} is no column of {where} ({hint}): give the name of one, or the labels.", "y")
    return name
