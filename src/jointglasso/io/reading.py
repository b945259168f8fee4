"""`read_table`: one function for every kind of file."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from jointglasso.errors import argument
from jointglasso.io.arrays import read_npy, read_npz
from jointglasso.io.delimited import read_delimited
from jointglasso.io.frames import read_excel, read_parquet
from jointglasso.io.grid import AnnotatedSamples, Grid
from jointglasso.io.h5ad import read_h5ad
from jointglasso.io.label_file import read_label_file
from jointglasso.io.labelled_table import LabelledTable
from jointglasso.io.opening import COMPRESSIONS, KINDS, kind_of, require_file
from jointglasso.io.orientation import orient
from jointglasso.io.reading_options import ReadOptions, check_options
from jointglasso.io.selecting import label_and_select
from jointglasso.io.soft import read_soft
from jointglasso.validation import InputError, InputTypeError, check_choice

#: Readers of files whose rows are known to be samples, and of those whose orientation has to be determined.
SAMPLE_READERS: dict[str, Callable[[Path, ReadOptions], AnnotatedSamples]] = {
    "npz": read_npz,
    "npy": read_npy,
    "h5ad": read_h5ad,
    "soft": read_soft,
}
GRID_READERS: dict[str, Callable[[Path, ReadOptions], Grid]] = {
    "text": read_delimited,
    "excel": read_excel,
    "parquet": read_parquet,
}

#: Kinds that may be compressed by gzip, bzip2 or xz.
COMPRESSIBLE = ("text", "soft", "npz", "npy")


def read_table(
    path: str | os.PathLike[str],
    *,
    label: str | None = None,
    time: str | None = None,
    labels: str | os.PathLike[str] | None = None,
    samples_in: str | None = None,
    sheet: str | int | None = None,
    delimiter: str | None = None,
    layer: str | None = None,
    subset: Sequence[str] | Mapping[str, str | Sequence[str]] | None = None,
    names: str | bool | None = None,
    drop: Sequence[str] | None = None,
    decimal: str | None = None,
    thousands: str | None = None,
    missing_markers: Sequence[str] | None = None,
    header: bool | None = None,
    comment: str | bool | None = None,
    encoding: str | None = None,
    unmatched: str = "error",
    format: str | None = None,
    missing: Any = None,
) -> LabelledTable:
    """Read a file of samples and their classes.

    What the file does not tell is never guessed: where two readings are possible, the error says what was found and
    which option decides.

    Parameters
    ----------
    path : path
        A text table (.csv, .tsv, .txt, ...), an Excel sheet (.xlsx), a Parquet file, a NumPy file (.npz with the arrays
        X, y, features, samples; or .npy), AnnData (.h5ad) or a GEO DataSet (.soft). Text, SOFT and NumPy files may be
        compressed (.gz, .bz2, .xz).
    label : str, optional
        What tells the classes: the name of a column (samples in rows) or of a row (samples in columns), of a column of
        `obs` (.h5ad), of a type of subsets (.soft), or of an array (.npz; "y" unless told). Together with `labels`, a
        column of the label file. Without any label the table has no classes.
    time : str, optional
        What tells the time of each sample, found like `label` and instead of it: the table then has time stamps, as
        words, where it would have classes (`jointglasso.covariance.windows` makes classes of them).
    labels : path, optional
        A text table of its own with the labels: sample names and labels in two columns, or labels alone in the order
        of the samples. A label column of more than two is chosen by `label`.
    samples_in : {"rows", "columns"}, optional
        Where the samples are. Detected from where `label` is, or which side the label file names; without
        labels the samples are in rows if only the columns have names; if both have names, the header of the first
        column decides where it is "sample", "gene" or alike. NumPy arrays have samples in rows unless told.
    sheet : str or int, optional
        Sheet of an Excel file that has several.
    delimiter : str, optional
        Character between cells; detected among comma, tab, semicolon and vertical bar.
    layer : str, optional
        Layer of an AnnData file, "raw" for its raw values; X if left out.
    subset : list of str, or dict, optional
        Classes to keep; or, as ``{name: value or values}``, conditions on other annotations of the samples, found like
        `label`. Conditions keep the annotation out of the variables.
    names : str or False, optional
        Column that names the rows. If left out it is the first column when this has no header, is called "sample",
        "gene", "id" or alike, or holds words that are all different. False: no column does. With samples in columns
        words in the first column name the variables even if they come again.
    drop : list of str, optional
        Columns or rows to leave out.
    decimal : {".", ","}, optional
        Decimal sign. A comma is detected where it does not separate cells.
    thousands : {",", ".", " ", "'"}, optional
        Sign between thousands; none if left out.
    missing_markers : list of str, optional
        Cells that are missing values, besides `MISSING_MARKERS`: empty cells and NA, N/A, #N/A, NaN, null, None, -, ?
        and . in upper or lower case.
    header : bool, optional
        Whether the first line names the columns. It must be told if that line is mostly numbers.
    comment : str or False, optional
        Beginning of comment lines, which are left out: "#" unless told. False: there are none.
    encoding : str, optional
        Character set of a text table: UTF-8, or what the byte order mark says, unless told.
    unmatched : {"error", "drop"}
        What to do with samples without a label, and with labels of samples that the table does not have.
    format : {"text", "excel", "parquet", "npz", "npy", "h5ad", "soft"}, optional
        Kind of file where the name does not tell.
    missing
        Refused: the markers are `missing_markers`; elsewhere `missing` says what to do about missing values.

    Returns
    -------
    LabelledTable
        Samples in rows. Variable names that occur more than once get a number (``TP53``, ``TP53.2``) with a
        `TableWarning`; in GEO DataSets they get the probe id (``Tp53|100001_at``) without one.

    Raises
    ------
    ValueError
        If the file cannot be understood; the message names the file, the line, column or class, and what to do. A label
        that leaves one class, or a class of one sample, is refused unless `subset` asks for it or leaves it out.
    FileNotFoundError, IsADirectoryError, PermissionError
        If there is no such file, or it may not be read.
    ImportError
        If a package for this kind of file is not installed; Excel and Parquet need ``jointglasso[tables]``, AnnData
        files ``jointglasso[anndata]``.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> import jointglasso as jgl
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "cells.csv"
    >>> rows = ["condition,a,b", "control,1.0,2.5", "control,2.0,1.5", "treated,0.5,NA", "treated,1.5,0.0"]
    >>> _ = file.write_text(chr(10).join(rows))
    >>> table = jgl.io.read_table(file, label="condition")
    >>> table.classes
    {'control': 2, 'treated': 2}
    >>> table.drop_missing("variables").variable_names
    ('a',)
    """
    if missing is not None:
        raise InputTypeError(
            f"{argument('missing', missing)} is called missing_markers here: say "
            f"{argument('missing_markers', missing)}.",
            "missing",
        )
    table = {"samples_in": samples_in, "names": names, "drop": drop, "subset": subset, "unmatched": unmatched}
    text = {"delimiter": delimiter, "header": header, "comment": comment, "encoding": encoding}
    numbers = {"decimal": decimal, "thousands": thousands, "missing_markers": missing_markers}
    labelling = {"label": label, "time": time, "labels": labels, "sheet": sheet, "layer": layer}
    options = check_options(table | text | numbers | labelling)
    file = require_file(path)
    kind = kind_of(file) if format is None else check_choice("format", format, sorted(set(KINDS.values())))
    if file.suffix.lower() in COMPRESSIONS and kind not in COMPRESSIBLE:
        raise InputError(f"{file}: compressed {kind} files are not read: decompress it first.", "path")
    options.require_fit(kind, str(file))
    label_file = None if labels is None else read_label_file(labels, options)
    if kind in SAMPLE_READERS:
        samples = SAMPLE_READERS[kind](file, options)
    else:
        samples = orient(GRID_READERS[kind](file, options), options, label_file)
    return label_and_select(samples, options, label_file)
