"""Orientation of a grid: which side holds the samples, where their names and labels are, and which cells are data."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from jointglasso._wording import count, listed, nearest
from jointglasso.errors import argument
from jointglasso.io.grid import AnnotatedSamples, Grid, numbered
from jointglasso.io.label_file import LabelFile, as_label
from jointglasso.io.reading_options import ReadOptions
from jointglasso.validation import InputError

wrong = partial(InputError, parameter="path")

#: Headers of a first column that names samples, or variables, even if the names are numbers; case ignored.
SAMPLE_HEADERS = frozenset(
    {"sample", "samples", "sample_id", "sampleid", "sample_name", "patient", "patient_id", "cell"}
)
VARIABLE_HEADERS = frozenset({
    "variable", "feature", "gene", "gene_id", "gene_name", "gene_symbol", "symbol", "probe", "probe_id", "id_ref",
    "protein",
})  # fmt: skip
NAME_HEADERS = SAMPLE_HEADERS | VARIABLE_HEADERS | {"", "id", "index", "name", "unnamed: 0"}


@dataclass(frozen=True)
class _Orientation:
    """A grid with the column that holds the names of its rows, None if the rows have no names."""

    grid: Grid
    options: ReadOptions
    names_column: int | None

    @property
    def row_names(self) -> list[str]:
        """Names of the rows, empty if the rows have no names."""
        return [] if self.names_column is None else self.grid.columns[self.names_column]

    @property
    def column_names(self) -> list[str]:
        """Names of the columns without that of the row names."""
        return [name for j, name in enumerate(self.grid.header) if j != self.names_column]


def orient(grid: Grid, options: ReadOptions, labels: LabelFile | None) -> AnnotatedSamples:
    """The samples of a grid, in rows."""
    title = grid.header[0]
    if len(grid.header) > 2 and title and not any(grid.header[1:]) and title.casefold() not in NAME_HEADERS:
        raise wrong(
            f"{grid.path}: the first line has one cell only, {title!r}, as a title has: remove what stands above the "
            "names of the columns."
        )
    _drop_empty_columns(grid)
    orientation = _Orientation(grid, options, _names_column(grid, options))
    side = options.samples_in or _detect_side(orientation, labels)
    if side == "columns" and orientation.names_column is None and options.names is not False:
        orientation = _Orientation(grid, options, _require_variable_names(grid))
    return _samples(orientation, side)


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
    if first in options.annotations or first in options.drop or len(grid.header) == 1:
        return None
    if grid.named and first.casefold() in NAME_HEADERS:
        return 0
    # Repeated words are classes rather than names, and a few words among numbers are mistakes, refused later.
    return 0 if _begins_with_words(grid) and len(set(grid.columns[0])) == len(grid.lines) else None


def _begins_with_words(grid: Grid) -> bool:
    return bool(grid.is_word[:, 0].mean() > 0.5)


def _require_variable_names(grid: Grid) -> int:
    """With samples in columns, words in the first column are names even if repeated; numbers can be data."""
    if _begins_with_words(grid):
        return 0
    name = grid.header[0]
    raise InputError(
        f"{grid.path}: the samples are in columns, but the first column {name!r} holds numbers instead of names of "
        f"variables: say {argument('names', False)} if it is a sample, {argument('names', name)} if these are names.",
        "names",
    )


def _detect_side(orientation: _Orientation, labels: LabelFile | None) -> str:
    """Side of the samples: by labels, names in the label file, the header of the names, one side without names."""
    grid, names_column = orientation.grid, orientation.names_column
    if orientation.options.annotations:
        return _side_of_annotations(orientation)
    if labels is not None and labels.width > 1:
        return _side_of_names(orientation, labels)
    title = "" if names_column is None else grid.header[names_column].casefold()
    if title in SAMPLE_HEADERS or (grid.named and names_column is None):
        return "rows"
    if title in VARIABLE_HEADERS:
        return "columns"
    sides = {"rows": len(grid.lines), "columns": len(orientation.column_names)}
    if labels is None:
        fits = _sides_with_classes(orientation)  # the check of the cells then asks for the label
    else:
        fits = {side for side, length in sides.items() if len(labels.rows) in (length, length + 1)}
    if len(fits) == 1:
        return fits.pop()
    both = "its rows and its columns have names" if grid.named else "its columns have no names"
    raise InputError(
        f"{grid.path}: {both} ({count(sides['rows'], 'row')}, {count(sides['columns'], 'column')}), so either can be "
        f"the samples: say {argument('samples_in', 'rows')} or {argument('samples_in', 'columns')}.",
        "samples_in",
    )


def _sides_with_classes(orientation: _Orientation) -> set[str]:
    """Sides of the samples for which a column or a row consists of repeated words, as class names do."""
    grid, drop = orientation.grid, orientation.options.drop
    columns = [j for j in range(len(grid.header)) if j != orientation.names_column]
    lines = {
        "rows": [[(i, j) for i in range(len(grid.lines))] for j in columns if grid.header[j] not in drop],
        "columns": [
            [(i, j) for j in columns]
            for i in np.flatnonzero(grid.is_word.any(axis=1)).tolist()
            if not orientation.row_names or orientation.row_names[i] not in drop
        ],
    }
    words = grid.words
    return {
        side
        for side, cells in lines.items()
        for line in cells
        if line[0] in words and all(cell in words for cell in line)
        if 2 * len({words[cell] for cell in line}) <= len(line)
    }


def _side_of_annotations(orientation: _Orientation) -> str:
    grid, sides = orientation.grid, set()
    # A first column of repeated words does not name the rows, but an annotation can be one of them.
    row_names = orientation.row_names or grid.columns[0]
    for name in orientation.options.annotations:
        in_header, in_rows = name in orientation.column_names, name in row_names
        if not in_header and not in_rows:
            option = orientation.options.option_of(name)
            known = orientation.column_names + orientation.row_names
            raise InputError(
                f"{grid.path} has no column or row {name!r} ({nearest(name, known)}): correct {argument(option)}.",
                option,
            )
        if in_header and in_rows:
            raise InputError(
                f"{grid.path} has a column and a row {name!r}: say {argument('samples_in', 'rows')} if the column is "
                f"meant, {argument('samples_in', 'columns')} if the row.",
                "samples_in",
            )
        sides.add("rows" if in_header else "columns")
    if len(sides) == 2:
        raise InputError(
            f"{grid.path}: some of {listed(orientation.options.annotations)} are columns and some rows: say "
            f"{argument('samples_in', ...)}.",
            "samples_in",
        )
    return sides.pop()


def _side_of_names(orientation: _Orientation, labels: LabelFile) -> str:
    names = {"rows": orientation.row_names, "columns": orientation.column_names}
    fits = [side for side in names if not set(labels.first_column).isdisjoint(names[side])]
    if len(fits) == 1:
        return fits[0]
    if not fits and orientation.names_column is None:
        return "rows"  # matching the labels then reports that there are no names
    matches = "both the rows and the columns" if fits else "neither the rows nor the columns"
    raise InputError(
        f"{labels.path} names {matches} of {orientation.grid.path}: give the label file of this table, or say "
        f"{argument('samples_in', ...)} if it is.",
        "labels",
    )


def _samples(orientation: _Orientation, side: str) -> AnnotatedSamples:
    """Samples with their annotations; the other rows and columns are checked to hold numbers."""
    grid, options, row_names = orientation.grid, orientation.options, orientation.row_names
    in_rows = side == "rows"
    names, other = (orientation.column_names, row_names) if in_rows else (row_names, orientation.column_names)
    for name in options.annotations:
        _require_name(grid.path, name, names, options.option_of(name), "column" if in_rows else "row", other)
    for name in options.drop:
        droppable = names if in_rows else [*names, *other]
        _require_name(grid.path, name, droppable, "drop", "column" if in_rows else "row or column")
    excluded = {*options.annotations, *options.drop}
    not_columns = excluded if in_rows else set(options.drop)
    columns = [j for j, name in enumerate(grid.header) if j != orientation.names_column and name not in not_columns]
    rows = [i for i in range(len(grid.lines)) if in_rows or not row_names or row_names[i] not in excluded]
    _require_numbers(orientation, rows, columns, side)
    values = grid.values[:, columns] if in_rows else np.ascontiguousarray(grid.values[np.ix_(rows, columns)].T)
    header = [grid.header[j] for j in columns]
    named_rows = [row_names[i] for i in rows] if row_names else numbered("" if in_rows else "x", len(rows))
    named_columns = header if in_rows or grid.named else numbered("", len(header))
    texts = {
        name: grid.columns[grid.header.index(name)]
        if in_rows
        else [grid.rows[row_names.index(name)][j] for j in columns]
        for name in options.annotations
    }
    what, title = "sample" if in_rows else "variable", grid.header[orientation.names_column or 0]
    note = (
        f"{what} names from the {f'column {title!r}' if title else 'first column'}"
        if row_names
        else f"{what}s numbered"
    )
    return AnnotatedSamples(
        path=grid.path,
        X=values,
        variables=named_columns if in_rows else named_rows,
        samples=named_rows if in_rows else named_columns,
        samples_named=bool(row_names) if in_rows else grid.named,
        annotations={name: [as_label(cell) for cell in cells] for name, cells in texts.items()},
        label=options.inner_label,
        notes=[*grid.notes, f"samples in {side}", note if row_names else f"{what}s numbered"],
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


def _require_numbers(orientation: _Orientation, rows: list[int], columns: list[int], side: str) -> None:
    """Refuse words among the data; a column or row of words first, since one option explains all of them."""
    grid = orientation.grid
    if not rows or not columns:
        raise wrong(
            f"{grid.path}: no variables are left beside names and labels: check {argument('label')}, "
            f"{argument('names')} and {argument('drop')}."
        )
    if not grid.words:
        return
    is_word = grid.is_word[np.ix_(rows, columns)]
    if not is_word.any():
        return
    first_row, first_column = np.argwhere(is_word)[0].tolist()
    row, column = rows[first_row], columns[first_column]
    word, name = grid.words[row, column], grid.header[column]
    is_number = np.isfinite(grid.values[np.ix_(rows, columns)])
    remedy = f"{argument('names', name)}, "
    if is_word[:, first_column].sum() > is_number[:, first_column].sum():
        if side == "rows":
            remedy = f"{argument('label', name)} or {remedy}"
        message = f"column {name!r} holds words (here {word!r}): say {remedy}or leave it out with "
        raise wrong(f"{grid.where(row)}: {message}{argument('drop', [name])}.", variable=name)
    if side == "columns" and is_word[first_row].sum() > is_number[first_row].sum():
        name = orientation.row_names[row] if orientation.row_names else str(row + 1)
        message = f"row {name!r} holds words (here {word!r}): say {argument('label', name)}, or leave it out with "
        raise wrong(f"{grid.where(row)}: {message}{argument('drop', [name])}.", variable=name)
    message = f"{word!r} is not a finite number: {grid.format.explain(word)}."
    raise wrong(f"{grid.where(row)}, column {name!r}: {message}", variable=name)
