"""Orientation of a grid: which side holds the samples, where their names and labels are, and which cells are data."""

from __future__ import annotations

import numpy as np

from jointglasso._wording import count, listed, nearest
from jointglasso.data.checks import InputError
from jointglasso.errors import argument
from jointglasso.io.grid import AnnotatedSamples, Grid, as_label, numbered
from jointglasso.io.labelled_table import LabelFile
from jointglasso.io.opening import ReadOptions, wrong

#: Headers of a first column that names samples, or variables, even if the names are numbers; case ignored.
SAMPLE_HEADERS = frozenset(
    {"sample", "samples", "sample_id", "sampleid", "sample_name", "patient", "patient_id", "cell"}
)
VARIABLE_HEADERS = frozenset({
    "variable", "feature", "gene", "gene_id", "gene_name", "gene_symbol", "symbol", "probe", "probe_id", "id_ref",
    "protein",
})  # fmt: skip
NAME_HEADERS = SAMPLE_HEADERS | VARIABLE_HEADERS | {"", "id", "index", "name", "unnamed: 0"}


def orient(grid: Grid, options: ReadOptions, labels: LabelFile | None) -> AnnotatedSamples:
    """The samples of a grid, in rows."""
    title = grid.header[0]
    if len(grid.header) > 2 and title and not any(grid.header[1:]) and title.casefold() not in NAME_HEADERS:
        remedy = "remove what stands above the names of the columns"
        raise wrong(f"{grid.path}: the first line has one cell only, {title!r}, as a title has: {remedy}.")
    _drop_empty_columns(grid)
    grid.names_column = _names_column(grid, options)
    side = options.samples_in or _detect_side(grid, options, labels)
    if side == "columns" and grid.names_column is None and options.names is not False:
        # Words in the first column are names of variables even if repeated; numbers can be data.
        if not _begins_with_words(grid):
            remedy = f"{argument('names', False)} if it is a sample, {argument('names', title)} if these are names"
            problem = f"the first column {title!r} holds numbers instead of names of variables"
            message = f"{grid.path}: the samples are in columns, but {problem}: say {remedy}."
            raise InputError(message, "names")
        grid.names_column = 0
    return _samples(grid, options, side)


def _drop_empty_columns(grid: Grid) -> None:
    """Remove columns at the right end without a name or any value, as a delimiter at the line end makes them."""
    width = len(grid.header)
    while width > 1 and not grid.header[width - 1] and np.isnan(grid.values[:, width - 1]).all():
        if grid.is_word[:, width - 1].any():
            break
        width -= 1
    if width < len(grid.header):
        grid.notes.append(f"{count(len(grid.header) - width, 'empty column')} left out")
        grid.header, grid.values, grid.is_word = grid.header[:width], grid.values[:, :width], grid.is_word[:, :width]


def _names_column(grid: Grid, options: ReadOptions) -> int | None:
    """Position of the column that names the rows: that of the option, or a first column that suits."""
    if options.names is False:
        return None
    if isinstance(options.names, str):
        _require_name(grid.path, options.names, grid.header, "names", "column")
        return grid.header.index(options.names)
    first = grid.header[0]
    if first in options.annotation_names or first in options.drop or len(grid.header) == 1:
        return None
    if grid.named and first.casefold() in NAME_HEADERS:
        return 0
    # Repeated words are classes rather than names, and a few words among numbers are mistakes, refused later.
    return 0 if _begins_with_words(grid) and len(set(grid.columns[0])) == len(grid.lines) else None


def _begins_with_words(grid: Grid) -> bool:
    return bool(grid.is_word[:, 0].mean() > 0.5)


def _detect_side(grid: Grid, options: ReadOptions, labels: LabelFile | None) -> str:
    """Side of the samples: by labels, names in the label file, the header of the names, one side without names."""
    if options.annotation_names:
        return _side_of_annotations(grid, options)
    if labels is not None and labels.width > 1:
        return _side_of_names(grid, labels)
    title = "" if grid.names_column is None else grid.header[grid.names_column].casefold()
    if title in SAMPLE_HEADERS or (grid.named and grid.names_column is None):
        return "rows"
    if title in VARIABLE_HEADERS:
        return "columns"
    sides = {"rows": len(grid.lines), "columns": len(grid.column_names)}
    if labels is None:
        fits = _sides_with_words(grid, options)  # the check of the cells then asks for the label
    else:
        fits = [side for side, length in sides.items() if len(labels.rows) in (length, length + 1)]
    if len(fits) == 1:
        return fits[0]
    both = "its rows and its columns have names" if grid.named else "its columns have no names"
    size = f"({count(sides['rows'], 'row')}, {count(sides['columns'], 'column')})"
    remedy = f"say {argument('samples_in', 'rows')} or {argument('samples_in', 'columns')}"
    message = f"{grid.path}: {both} {size}, so either can be the samples: {remedy}."
    raise InputError(message, "samples_in")


def _sides_with_words(grid: Grid, options: ReadOptions) -> list[str]:
    """Sides of the samples for which a column or a row consists of words, as class names do."""
    columns = [j for j, name in enumerate(grid.header) if j != grid.names_column and name not in options.drop]
    names = grid.row_names or numbered("", len(grid.lines))
    is_word = grid.is_word[np.ix_([i for i, name in enumerate(names) if name not in options.drop], columns)]
    return [side for axis, side in enumerate(("rows", "columns")) if is_word.all(axis=axis).any()]


def _side_of_annotations(grid: Grid, options: ReadOptions) -> str:
    # A first column of repeated words does not name the rows, but an annotation can be one of them.
    names = {"rows": grid.column_names, "columns": grid.row_names or grid.columns[0]}
    sides = set()
    for name in options.annotation_names:
        fits = [side for side in names if name in names[side]]
        if not fits:
            hint = nearest(name, grid.column_names + grid.row_names)
            option = options.option_of(name)
            raise InputError(f"{grid.path} has no column or row {name!r} ({hint}): correct {argument(option)}.", option)
        if len(fits) == 2:
            rows, columns = argument("samples_in", "rows"), argument("samples_in", "columns")
            message = f"a column and a row {name!r}: say {rows} if the column is meant, {columns} if the row"
            raise InputError(f"{grid.path} has {message}.", "samples_in")
        sides.add(fits[0])
    if len(sides) == 2:
        both = f"some of {listed(options.annotation_names)} are columns and some rows"
        raise InputError(f"{grid.path}: {both}: say {argument('samples_in', ...)}.", "samples_in")
    return sides.pop()


def _side_of_names(grid: Grid, labels: LabelFile) -> str:
    names = {"rows": grid.row_names, "columns": grid.column_names}
    fits = [side for side in names if not set(labels.first_column).isdisjoint(names[side])]
    if len(fits) == 1:
        return fits[0]
    if not fits and grid.names_column is None:
        return "rows"  # matching the labels then reports that there are no names
    matches = "both the rows and the columns" if fits else "neither the rows nor the columns"
    remedy = f"give the label file of this table, or say {argument('samples_in', ...)} if it is"
    raise InputError(f"{labels.path} names {matches} of {grid.path}: {remedy}.", "labels")


def _samples(grid: Grid, options: ReadOptions, side: str) -> AnnotatedSamples:
    """Samples with their annotations; the other rows and columns are checked to hold numbers."""
    row_names, in_rows = grid.row_names, side == "rows"
    names, other = (grid.column_names, row_names) if in_rows else (row_names, grid.column_names)
    for name in options.annotation_names:
        _require_name(grid.path, name, names, options.option_of(name), "column" if in_rows else "row", other)
    for name in options.drop:
        droppable = names if in_rows else [*names, *other]
        _require_name(grid.path, name, droppable, "drop", "column" if in_rows else "row or column")
    excluded = {*options.annotation_names, *options.drop}
    not_columns = excluded if in_rows else set(options.drop)
    columns = [j for j, name in enumerate(grid.header) if j != grid.names_column and name not in not_columns]
    rows = [i for i in range(len(grid.lines)) if in_rows or not row_names or row_names[i] not in excluded]
    _require_numbers(grid, rows, columns, side)
    values = grid.values[:, columns] if in_rows else np.ascontiguousarray(grid.values[np.ix_(rows, columns)].T)
    header = [grid.header[j] for j in columns]
    named_rows = [row_names[i] for i in rows] if row_names else numbered("" if in_rows else "x", len(rows))
    named_columns = header if in_rows or grid.named else numbered("", len(header))
    annotations = {}
    for name in options.annotation_names:
        if in_rows:
            cells = grid.columns[grid.header.index(name)]
        else:
            cells = [grid.rows[row_names.index(name)][j] for j in columns]
        annotations[name] = [as_label(cell) for cell in cells]
    what, title = "sample" if in_rows else "variable", grid.header[grid.names_column or 0]
    origin = f"column {title!r}" if title else "first column"
    note = f"{what} names from the {origin}" if row_names else f"{what}s numbered"
    return AnnotatedSamples(
        path=grid.path,
        X=values,
        variables=named_columns if in_rows else named_rows,
        samples=named_rows if in_rows else named_columns,
        samples_named=bool(row_names) if in_rows else grid.named,
        annotations=annotations,
        label=options.inner_label,
        notes=[*grid.notes, f"samples in {side}", note],
        format=grid.format,
    )


def _require_name(
    path: str, name: str, names: list[str], option: str, what: str, other_side: list[str] | None = None
) -> None:
    """Refuse a name that is not among the names, or is so more than once."""
    if name not in names:
        hint = nearest(name, names)
        if other_side is not None and name in other_side:
            hint = f"but the other side has: check {argument('samples_in')}"
        raise InputError(f"{path} has no {what} {name!r} ({hint}): correct {argument(option)}.", option)
    if names.count(name) > 1 and option != "names":
        raise InputError(f"{path} has {names.count(name)} {what}s {name!r}: rename or remove all but one.", option)


def _require_numbers(grid: Grid, rows: list[int], columns: list[int], side: str) -> None:
    """Refuse words among the data; a column or row of words first, since one option explains all of them."""
    if not rows or not columns:
        options = f"{argument('label')}, {argument('names')} and {argument('drop')}"
        raise wrong(f"{grid.path}: no variables are left beside names and labels: check {options}.")
    is_word = grid.is_word[np.ix_(rows, columns)]
    if not is_word.any():
        return
    first_row, first_column = np.argwhere(is_word)[0].tolist()
    row, column = rows[first_row], columns[first_column]
    is_number = np.isfinite(grid.values[np.ix_(rows, columns)])
    name, remedy = grid.header[column], ""
    if is_word[:, first_column].sum() > is_number[:, first_column].sum():
        what, label = "column", argument("label", name) if side == "rows" else ""
        remedy = f"{label} or {argument('names', name)}" if label else argument("names", name)
    elif side == "columns" and is_word[first_row].sum() > is_number[first_row].sum():
        name = grid.row_names[row] if grid.row_names else str(row + 1)
        what, label = "row", argument("label", name)
        remedy = label
    if remedy:
        message = f"{what} {name!r} holds words (here {grid.words[row, column]!r}): say {remedy}, or leave it out with "
        message += argument("drop", [name])
        message += "." if label == "" else f" ({argument('annotations', [name])} if it is a covariate)."
        raise wrong(f"{grid.where(row)}: {message}", variable=name)
    grid.require_number(row, column)
