"""`read_table`, one function for every kind of file, and `read_gene_sets`.

To add a file format, see "A file format" in CONTRIBUTING.md: a reader goes into `SAMPLE_READERS` or `GRID_READERS`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from jointglasso.data.checks import InputError, check_choice
from jointglasso.io.delimited import read_delimited
from jointglasso.io.formats import read_excel, read_h5ad, read_npz, read_parquet, read_soft
from jointglasso.io.grid import AnnotatedSamples, Grid
from jointglasso.io.labelled_table import LabelledTable, label_and_select, read_label_file
from jointglasso.io.opening import COMPRESSIONS, KINDS, ReadOptions, check_options, kind_of, read_text, require_file
from jointglasso.io.orientation import orient

#: Readers of files whose rows are known to be samples, and of those whose orientation has to be determined.
SAMPLE_READERS: dict[str, Callable[[Path, ReadOptions], AnnotatedSamples]] = {
    "npz": read_npz,
    "h5ad": read_h5ad,
    "soft": read_soft,
}
GRID_READERS: dict[str, Callable[[Path, ReadOptions], Grid]] = {
    "text": read_delimited,
    "excel": read_excel,
    "parquet": read_parquet,
}

#: Kinds that may be compressed by gzip, bzip2 or xz.
COMPRESSIBLE = ("text", "soft", "npz")


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
    annotations: Sequence[str] | None = None,
    decimal: str | None = None,
    thousands: str | None = None,
    missing_markers: Sequence[str] | None = None,
    header: bool | None = None,
    comment: str | bool | None = None,
    encoding: str | None = None,
    unmatched: str = "error",
    format: str | None = None,
) -> LabelledTable:
    """Read a file of samples and their classes.

    Where two readings of a file are possible, the error names both and the option that decides.

    Parameters
    ----------
    path : path
        A text table (.csv, .tsv, .txt, ...), an Excel sheet (.xlsx), a Parquet file, a NumPy archive (.npz with the
        arrays X, y, features, samples), AnnData (.h5ad) or a GEO DataSet (.soft). Text, SOFT and NumPy files may be
        compressed (.gz, .bz2, .xz).
    label : str, optional
        Annotation that holds the classes: the name of a column (samples in rows) or of a row (samples in columns), of a
        column of `obs` (.h5ad), of a type of subsets (.soft), of an array (.npz; "y" by default), or of a column of the
        label file. Without a label the table has no classes.
    time : str, optional
        Annotation that holds the time of each sample, in place of `label`: time stamps, as words, replace the classes
        (`jointglasso.data.windows` makes classes of them).
    labels : path, optional
        Text table with the labels: sample names and labels in two columns, or labels only, in the order of the samples.
        One of several label columns is chosen by `label`.
    samples_in : {"rows", "columns"}, optional
        Side of the samples; by default it follows from labels, names and headers (`docs/reading.md`).
    sheet : str or int, optional
        Sheet of an Excel file that has several.
    delimiter : str, optional
        Character between cells; detected among comma, tab, semicolon and vertical bar.
    layer : str, optional
        Layer of an AnnData file, "raw" for its raw values; X by default.
    subset : list of str, or dict, optional
        Classes to keep; or, as ``{name: value or values}``, conditions on annotations, which are not variables then.
    names : str or False, optional
        Column that names the rows; False for none. By default the first column if its header or words suit.
    drop : list of str, optional
        Columns or rows to leave out.
    annotations : list of str, optional
        Columns or rows that describe the samples, such as batch or subject: they are not variables and become
        `LabelledTable.annotations`.
    decimal : {".", ","}, optional
        Decimal sign. A comma is detected where it does not separate cells.
    thousands : {",", ".", " ", "'"}, optional
        Sign between thousands; none by default.
    missing_markers : list of str, optional
        Cells that are missing values, besides `MISSING_MARKERS` in upper or lower case.
    header : bool, optional
        Whether the first line names the columns; required if that line is mostly numbers.
    comment : str or False, optional
        Beginning of comment lines, "#" by default. False: there are none.
    encoding : str, optional
        Character set of a text table: by default UTF-8, or that of the byte order mark.
    unmatched : {"error", "drop"}
        What to do with samples without a label, and with labels of samples that the table does not have.
    format : {"text", "excel", "parquet", "npz", "h5ad", "soft"}, optional
        Kind of file; by default the ending of the name.

    Returns
    -------
    LabelledTable
        Samples in rows. Repeated variable names get a number (``TP53``, ``TP53.2``) with a `TableWarning`; in GEO
        DataSets they get the probe id (``Tp53|100001_at``).

    Raises
    ------
    ValueError
        The message names the file, the line, column or class, and what to do. A label with one class, or a class of one
        sample, is refused unless `subset` selects it or leaves it out.

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
    table = {"samples_in": samples_in, "names": names, "drop": drop, "subset": subset, "annotations": annotations}
    text = {"delimiter": delimiter, "header": header, "comment": comment, "encoding": encoding}
    numbers = {"decimal": decimal, "thousands": thousands, "missing_markers": missing_markers}
    labelling = {"label": label, "time": time, "labels": labels, "sheet": sheet, "layer": layer}
    labelling |= {"unmatched": unmatched}
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


def read_gene_sets(path: str | os.PathLike[str]) -> dict[str, list[str]]:
    """Genes of each set of a .gmt file (MSigDB: name, description and genes of a set by tabs), by the name of the set.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> import jointglasso as jgl
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "hallmarks.gmt"
    >>> _ = file.write_text(chr(9).join(["HYPOXIA", "MSigDB", "VEGFA", "CA9"]))
    >>> jgl.io.read_gene_sets(file)
    {'HYPOXIA': ['VEGFA', 'CA9']}
    """
    file = require_file(path)
    lines = [line.split("\t") for line in read_text(file, None).splitlines() if line.strip()]
    short = next((number for number, cells in enumerate(lines, 1) if len(cells) < 3), None)
    if short is not None:
        message = f"Set {short} of {file.name!r} has no genes: a line of a .gmt file is name, description, genes."
        raise InputError(message, "path")
    return {name: [gene for gene in genes if gene] for name, _, *genes in lines}
