"""Which side of a grid holds the samples, where their names and labels are, and which cells are data."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, replace

import numpy as np

from jointglasso._wording import count, listed, nearest
from jointglasso.errors import argument
from jointglasso.io.delimited import explain_word
from jointglasso.io.grid import Grid, TableDraft, numbered
from jointglasso.io.labels import LabelFile, as_label
from jointglasso.io.options import Options
from jointglasso.validation import InputError

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
class _Layout:
    grid: Grid
    options: Options
    names_column: int | None

    @property
    def row_names(self) -> list[str]:
        """Names of the rows, none if the rows have no names."""
        return [] if self.names_column is None else self.grid.columns[self.names_column]

    @property
    def column_names(self) -> list[str]:
        """Names of the columns, that of the row names left out."""
        return [name for i, name in enumerate(self.grid.header) if i != self.names_column]


def arrange(grid: Grid, options: Options, labels: LabelFile | None) -> TableDraft:
    """Turn a grid into a draft with samples in rows."""
    _refuse_title(grid)
    layout = _Layout(_without_empty_columns(grid), options, _names_column(grid, options))
    side = options.samples_in or _detect_side(layout, labels)
    return _samples_in_rows(layout) if side == "rows" else _samples_in_columns(layout)


def _refuse_title(grid: Grid) -> None:
    """A line of one cell above the header, as spreadsheets have it."""
    title = grid.header[0]
    if len(grid.header) > 2 and title and not any(grid.header[1:]) and title.casefold() not in NAME_HEADERS:
        raise InputError(
            f"{grid.path}: the first line has one cell only, {title!r}, as a title has: remove what stands above the "
            "names of the columns.",
            "path",
        )


def _without_empty_columns(grid: Grid) -> Grid:
    """Leave out columns at the right end without a name or any value, as a delimiter too many makes them."""
    width = len(grid.header)
    while width > 1 and not grid.header[width - 1] and not any(place[1] == width - 1 for place in grid.words):
        if not np.isnan(grid.values[:, width - 1]).all():
            break
        width -= 1
    if width == len(grid.header):
        return grid
    note = f"{count(len(grid.header) - width, 'empty column')} left out"
    return replace(grid, header=grid.header[:width], values=grid.values[:, :width], notes=[*grid.notes, note])


def _names_column(grid: Grid, options: Options) -> int | None:
    """Position of the column that names the rows: the one told, or a first column without numbers to offer."""
    if options.names is False:
        return None
    if isinstance(options.names, str):
        if options.names not in grid.header:
            hint = nearest(options.names, grid.header)
            raise InputError(
                f"{grid.path} has no column {options.names!r} ({hint}): correct {argument('names')}.", "names"
            )
        return grid.header.index(options.names)
    first = grid.header[0]
    if first in options.annotations or first in options.drop or len(grid.header) == 1:
        return None
    if grid.named and first.casefold() in NAME_HEADERS:
        return 0
    # Words that come again are classes rather than names, and a few words among numbers are mistakes: the check of the
    # cells will ask what they are.
    return 0 if _begins_with_words(grid) and len(set(grid.columns[0])) == len(grid.lines) else None


def _begins_with_words(grid: Grid) -> bool:
    return sum((row, 0) in grid.words for row in range(len(grid.lines))) > len(grid.lines) / 2


def _require_variable_names(grid: Grid) -> int:
    """With samples in columns words in the first column are names even if they come again; numbers may be data."""
    if _begins_with_words(grid):
        return 0
    name = grid.header[0]
    raise InputError(
        f"{grid.path}: the samples are in columns, but the first column {name!r} holds numbers instead of names of "
        f"variables: say {argument('names', False)} if it is a sample, {argument('names', name)} if these are names.",
        "names",
    )


def _detect_side(layout: _Layout, labels: LabelFile | None) -> str:
    """The side of the samples by what is certain: labels, names in the label file, titles, one side without names."""
    if layout.options.annotations:
        return _side_of_annotations(layout)
    if labels is not None and labels.width > 1:
        return _side_of_names(layout, labels)
    title = "" if layout.names_column is None else layout.grid.header[layout.names_column].casefold()
    if title in SAMPLE_HEADERS or title in VARIABLE_HEADERS:
        return "rows" if title in SAMPLE_HEADERS else "columns"
    if layout.grid.named and layout.names_column is None:
        return "rows"  # the columns have names and the rows have none: variables have names
    if labels is None and (side := _side_with_classes(layout)) is not None:
        return side  # the check of the cells will ask what the words are
    n_rows, n_columns = len(layout.grid.lines), len(layout.column_names)
    if labels is not None:
        fits = [side for side, n in (("rows", n_rows), ("columns", n_columns)) if len(labels.rows) in (n, n + 1)]
        if len(fits) == 1:
            return fits[0]
    both = "its rows and its columns have names" if layout.grid.named else "its columns have no names"
    raise InputError(
        f"{layout.grid.path}: {both} ({count(n_rows, 'row')}, {count(n_columns, 'column')}), so either can be the "
        f"samples: say {argument('samples_in', 'rows')} or {argument('samples_in', 'columns')}.",
        "samples_in",
    )


def _side_with_classes(layout: _Layout) -> str | None:
    """The side of the samples by a column or a row full of words that come again, as names of classes do."""
    grid, dropped = layout.grid, layout.options.drop
    lines: dict[str, dict[int, list[str]]] = {"rows": defaultdict(list), "columns": defaultdict(list)}
    for (row, column), word in grid.words.items():
        if column != layout.names_column:
            lines["rows"][column].append(word)
            lines["columns"][row].append(word)
    length = {"rows": len(grid.lines), "columns": len(layout.column_names)}
    names = {"rows": grid.header, "columns": layout.row_names}
    found = {
        side
        for side, some in lines.items()
        for place, words in some.items()
        if len(words) == length[side] and 2 * len(set(words)) <= len(words)
        if not names[side] or names[side][place] not in dropped
    }
    return found.pop() if len(found) == 1 else None


def _side_of_annotations(layout: _Layout) -> str:
    sides = set()
    for name in layout.options.annotations:
        found = {"rows"} if name in layout.column_names else set()
        # A first column of repeated words is no column of names, but a row can still be called by it.
        found |= {"columns"} if name in (layout.row_names or layout.grid.columns[0]) else set()
        if not found:
            hint, option = nearest(name, layout.column_names + layout.row_names), _option_of(layout, name)
            raise InputError(
                f"{layout.grid.path} has no column or row {name!r} ({hint}): correct {argument(option)}.",
                option,
            )
        if len(found) == 2:
            raise InputError(
                f"{layout.grid.path} has a column and a row {name!r}: say {argument('samples_in', 'rows')} if the "
                f"column is meant, {argument('samples_in', 'columns')} if the row.",
                "samples_in",
            )
        sides |= found
    if len(sides) == 2:
        names = listed(layout.options.annotations)
        raise InputError(
            f"{layout.grid.path}: some of {names} are columns and some rows: say {argument('samples_in', ...)}.",
            "samples_in",
        )
    return sides.pop()


def _side_of_names(layout: _Layout, labels: LabelFile) -> str:
    known = set(labels.first_column)
    fits = [
        side for side, names in (("rows", layout.row_names), ("columns", layout.column_names)) if known & set(names)
    ]
    if len(fits) == 1:
        return fits[0]
    if not fits and layout.names_column is None:
        return "rows"  # the match of labels and samples will say that there are no names
    found = "both the rows and the columns" if fits else "neither the rows nor the columns"
    raise InputError(
        f"{labels.path} names {found} of {layout.grid.path}: give the label file of this table, or say "
        f"{argument('samples_in', ...)} if it is.",
        "labels",
    )


def _option_of(layout: _Layout, name: str) -> str:
    return "label" if name == layout.options.label else "subset"


def _samples_in_rows(layout: _Layout) -> TableDraft:
    grid, options = layout.grid, layout.options
    for name in options.annotations:
        _require_in(name, layout.column_names, layout.row_names, _option_of(layout, name), "column", layout)
    for name in options.drop:
        _require_in(name, layout.column_names, [], "drop", "column", layout)
    aside = {*options.annotations, *options.drop}
    chosen = [i for i, name in enumerate(grid.header) if name not in aside and i != layout.names_column]
    rows = list(range(len(grid.lines)))
    _require_numbers(layout, rows, chosen, "rows")
    annotations = {name: [as_label(c) for c in grid.columns[grid.header.index(name)]] for name in options.annotations}
    named = layout.names_column is not None
    return TableDraft(
        path=grid.path,
        X=grid.values[:, chosen],
        variables=[grid.header[i] for i in chosen],
        samples=list(layout.row_names) if named else numbered("", len(rows)),
        samples_named=named,
        annotations=annotations,
        label=options.label if options.labels is None else None,
        notes=[*grid.notes, "samples in rows", *_names_note(layout, "sample")],
    )


def _samples_in_columns(layout: _Layout) -> TableDraft:
    if layout.names_column is None and layout.options.names is not False:
        layout = _Layout(layout.grid, layout.options, _require_variable_names(layout.grid))
    grid, options, names = layout.grid, layout.options, layout.row_names
    for name in options.annotations:
        _require_in(name, names, layout.column_names, _option_of(layout, name), "row", layout)
    for name in options.drop:
        _require_in(name, [*names, *layout.column_names], [], "drop", "row or column", layout)
    aside = {*options.annotations, *options.drop}
    rows = [i for i in range(len(grid.lines)) if not names or names[i] not in aside]
    chosen = [j for j, name in enumerate(grid.header) if j != layout.names_column and name not in options.drop]
    _require_numbers(layout, rows, chosen, "columns")
    annotations = {name: [as_label(grid.rows[names.index(name)][j]) for j in chosen] for name in options.annotations}
    return TableDraft(
        path=grid.path,
        X=np.ascontiguousarray(grid.values[np.ix_(rows, chosen)].T),
        variables=[names[i] for i in rows] if names else numbered("x", len(rows)),
        samples=[grid.header[j] for j in chosen] if grid.named else numbered("", len(chosen)),
        samples_named=grid.named,
        annotations=annotations,
        label=options.label if options.labels is None else None,
        notes=[*grid.notes, "samples in columns", *_names_note(layout, "variable")],
    )


def _names_note(layout: _Layout, what: str) -> list[str]:
    if layout.names_column is None:
        return [f"{what}s numbered"]
    name = layout.grid.header[layout.names_column]
    return [f"{what} names from the {'first column' if not name else f'column {name!r}'}"]


def _require_in(name: str, here: list[str], there: list[str], option: str, what: str, layout: _Layout) -> None:
    if here.count(name) == 1:
        return
    if name in here:
        raise InputError(
            f"{layout.grid.path} has {here.count(name)} {what}s {name!r}: rename or remove all but one.", option
        )
    hint = f"but the other side has: check {argument('samples_in')}" if name in there else nearest(name, here)
    raise InputError(f"{layout.grid.path} has no {what} {name!r} ({hint}): correct {argument(option)}.", option)


def _require_numbers(layout: _Layout, rows: list[int], columns: list[int], side: str) -> None:
    """Refuse words among the data, whole columns or rows of them first since one option explains them all."""
    grid = layout.grid
    if not rows or not columns:
        raise InputError(
            f"{grid.path}: no variables are left beside names and labels: check {argument('label')}, "
            f"{argument('names')} and {argument('drop')}.",
            "path",
        )
    in_rows, in_columns = set(rows), set(columns)
    words = {place: word for place, word in grid.words.items() if place[0] in in_rows and place[1] in in_columns}
    if not words:
        return
    (row, column), word = min(words.items())
    name = grid.header[column]
    present = np.isfinite(grid.values[rows][:, column]).sum()
    if Counter(place[1] for place in words)[column] > present:
        told = (
            f"{argument('names', name)}, "
            if side == "columns"
            else f"{argument('label', name)} or {argument('names', name)}, "
        )
        raise InputError(
            f"{grid.at(row)}: column {name!r} holds words (here {word!r}): say {told}or leave it out with "
            f"{argument('drop', [name])}.",
            "path",
            variable=name,
        )
    if side == "columns" and Counter(place[0] for place in words)[row] > np.isfinite(grid.values[row, columns]).sum():
        name = layout.row_names[row] if layout.row_names else str(row + 1)
        raise InputError(
            f"{grid.at(row)}: row {name!r} holds words (here {word!r}): say {argument('label', name)}, or leave it "
            f"out with {argument('drop', [name])}.",
            "path",
            variable=name,
        )
    remedy = explain_word(word, grid.format)
    raise InputError(
        f"{grid.at(row)}, column {name!r}: {word!r} is not a finite number: {remedy}.", "path", variable=name
    )
