"""The table that `read_table` returns, made of annotated samples: labels, selection, unique names, classes."""

from __future__ import annotations

import os
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import compress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jointglasso._typing import BoolArray, FloatArray, IntArray
from jointglasso._wording import count, listed, nearest
from jointglasso.data import CovarianceSource
from jointglasso.data.checks import InputError, InputTypeError, check_choice, known_arguments
from jointglasso.data.naming import require_whole_characters
from jointglasso.data.samples import Samples
from jointglasso.errors import argument
from jointglasso.io.delimited import DelimitedRows, detect_delimiter, first_row
from jointglasso.io.grid import AnnotatedSamples, as_label
from jointglasso.io.opening import ReadOptions, kind_of, read_text, require_file

wrong = partial(InputError, parameter="labels")


@dataclass(frozen=True, eq=False)
class LabelledTable:
    """Samples in rows, variables in columns, and the class of each sample.

    Attributes
    ----------
    X : array (n, p)
        Values; missing = NaN.
    y : array of n str, or None
        Class of each sample; None if the file was read without a label.
    variable_names : tuple of p str
        Unique names.
    sample_names : tuple of n str
        Names from the file, or running numbers.
    source : str
        The file and how it was understood, in words.
    annotations : dict of arrays (n,)
        Further annotations of the samples: numbers (missing = NaN) or words (missing = None).

    Examples
    --------
    >>> import jointglasso as jgl
    >>> table = jgl.datasets.load_rppa().select(classes=["OV", "LGG"])
    >>> table.classes, len(table.variable_names)
    ({'LGG': 435, 'OV': 436}, 174)
    """

    X: FloatArray
    y: NDArray[np.str_] | None
    variable_names: tuple[str, ...]
    sample_names: tuple[str, ...]
    source: str
    annotations: Mapping[str, NDArray[Any]] = field(default_factory=dict)

    def __repr__(self) -> str:
        n, p = self.X.shape
        classes = "" if self.y is None else f", {count(len(self.classes), 'class')}"
        return f"<LabelledTable: {count(n, 'sample')}, {count(p, 'variable')}{classes}, from {self.source}>"

    @property
    def classes(self) -> dict[str, int]:
        """Number of samples of each class, in order of appearance; empty without labels."""
        return {} if self.y is None else dict(Counter(self.y.tolist()))

    def select(self, variables: Sequence[str] | None = None, classes: Sequence[str] | None = None) -> LabelledTable:
        """Restrict to variables, in the order of the argument, and to the samples of classes.

        Parameters
        ----------
        variables, classes : sequence of str, optional
            Names; all by default.

        Returns
        -------
        LabelledTable
        """
        table = self
        if classes is not None:
            if self.y is None:
                raise InputError(f"{self.source} was read without labels: there are no classes to select.", "classes")
            table = table.take(np.flatnonzero(np.isin(self.y, _known("classes", classes, list(self.classes)))))
        if variables is not None:
            names = _known("variables", variables, list(self.variable_names))
            position = {name: i for i, name in enumerate(self.variable_names)}
            X = table.X[:, [position[name] for name in names]]
            table = replace(table, X=X, variable_names=tuple(names))
        return table

    def drop_missing(self, what: str) -> LabelledTable:
        """Leave out the variables, or the samples, that have a missing value.

        Parameters
        ----------
        what : {"variables", "samples"}
            Which to leave out.

        Returns
        -------
        LabelledTable
        """
        check_choice("what", what, ("variables", "samples"))
        missing = np.isnan(self.X)
        keep: BoolArray = np.logical_not(missing.any(axis=0 if what == "variables" else 1))
        if not keep.any():
            other = "samples" if what == "variables" else "variables"
            raise InputError(f"All {what} of {self.source} have missing values: drop {other}, or fill them in.", "what")
        if what == "samples":
            return self.take(np.flatnonzero(keep))
        return replace(self, X=self.X[:, keep], variable_names=tuple(compress(self.variable_names, keep)))

    @known_arguments()
    def to_source(
        self,
        *,
        scale: str = "correlation",
        association: str = "pearson",
        missing: str = "refuse",
        constant: str = "refuse",
    ) -> CovarianceSource:
        """Covariances of the classes, in order of appearance, for `solve` and `screen`.

        Parameters
        ----------
        scale : {"correlation", "covariance"}
            Scale of the matrices.
        association, missing, constant
            As in `jointglasso.select`; missing values are refused with a count of them.

        Returns
        -------
        CovarianceSource
            One class for each label; a table without labels is one class called "all".
        """
        from jointglasso.data.prepare import Preparation

        how = Preparation(scale=scale, association=association, missing=missing, constant=constant)
        return how(Samples.from_labels(self.X, self.y, self.variable_names)).source

    def to_frame(self) -> Any:
        """The values as a pandas data frame, variables in columns and samples in rows."""
        import pandas as pd

        frame = pd.DataFrame
        return frame(self.X, index=list(self.sample_names), columns=list(self.variable_names))

    def take(self, rows: IntArray) -> LabelledTable:
        """Samples by their indices, in that order."""
        return replace(
            self,
            X=self.X[rows],
            y=None if self.y is None else self.y[rows],
            sample_names=tuple(self.sample_names[i] for i in rows),
            annotations={name: values[rows] for name, values in self.annotations.items()},
        )


def _known(option: str, names: Sequence[str], known: list[str]) -> list[str]:
    """Names that are all known and given once."""
    if isinstance(names, str):
        raise InputTypeError(f"{option} must be a list of names, not the word {names!r}: put it in brackets.", option)
    chosen, valid = [str(name) for name in names], set(known)
    for name in chosen:
        if name not in valid:
            raise InputError(f"{name!r} is not among the {option} of the table ({nearest(name, known)}).", option)
    if not chosen or len(set(chosen)) < len(chosen):
        problem = "a name twice" if chosen else "no names"
        raise InputError(f"{option} holds {problem}: give every name to keep once.", option)
    return chosen


class TableWarning(UserWarning):
    """Something in a file was changed while reading it, such as a name that occurred twice."""


@dataclass(frozen=True)
class LabelFile:
    """Rows of a label file, the header possibly among them: sample and label, or labels in the order of the samples."""

    path: str
    rows: list[list[str]]

    @property
    def width(self) -> int:
        """Number of columns."""
        return len(self.rows[0])

    @property
    def first_column(self) -> list[str]:
        """Sample names, where there are two columns or more; a header may be the first of them."""
        return [row[0] for row in self.rows]

    def labels_of(self, data: AnnotatedSamples, label: str | None, unmatched: str) -> list[str | None]:
        """Label of each sample, in the order of the samples."""
        samples = data.samples
        if self.width == 1:
            return self._in_order(len(samples), label)
        if not data.samples_named:
            raise wrong(
                f"{self.path} gives labels by sample name, but the table has no sample names: name them in its first "
                "column, or give a label file of one column in the order of the samples."
            )
        by_sample = self._by_sample(set(samples), label)
        repeated = [name for name, number in Counter(samples).items() if number > 1]
        if repeated:
            raise wrong(f"Sample {repeated[0]!r} occurs twice in the table, so labels cannot be matched: rename it.")
        known = set(samples)
        if known.isdisjoint(by_sample):
            names = f"None of the samples ({listed(samples, 2)}) is in {self.path} ({listed(by_sample, 2)})"
            other = f"say {argument('samples_in', ...)} if the other side of the table holds the samples"
            raise wrong(f"{names}: give the label file of this table, or {other}.")
        unknown = [sample for sample in by_sample if sample not in known]
        if unknown and unmatched != "drop":
            names = f"{count(len(unknown), 'sample')} that the table does not have ({listed(unknown, 3)})"
            remedy = f"check that the files belong together, or leave them out with {argument('unmatched', 'drop')}"
            raise wrong(f"{self.path} labels {names}: {remedy}.")
        return [by_sample.get(sample) for sample in samples]

    def _in_order(self, n_samples: int, label: str | None) -> list[str | None]:
        cells = self.first_column
        if len(cells) not in (n_samples, n_samples + 1):
            numbers = f"{count(len(cells), 'label')} for {count(n_samples, 'sample')}"
            remedy = "give one label per sample, or two columns with the sample names first"
            raise wrong(f"{self.path} has {numbers}: {remedy}.")
        header = cells[0] if len(cells) > n_samples else None
        if label is not None and label != header:
            actual = "no header" if header is None else f"the header {header!r}"
            raise wrong(f"{self.path} has {actual}, not {label!r}: correct {argument('label')}, or leave it out.")
        return [as_label(cell) for cell in cells[len(cells) - n_samples :]]

    def _by_sample(self, samples: set[str], label: str | None) -> dict[str, str | None]:
        header, body, column = self.rows[0], self.rows[1:], 1
        if label is not None:
            if label not in header[1:]:
                hint = nearest(label, header[1:])
                raise InputError(f"{self.path} has no column {label!r} ({hint}): correct {argument('label')}.", "label")
            column = header.index(label, 1)
        elif self.width > 2:
            columns = f"{self.width} columns: say which with {argument('label', ...)} ({listed(header[1:])})"
            raise InputError(f"{self.path} has {columns}.", "label")
        elif header[0] in samples or header[1] in {row[1] for row in body}:
            body = self.rows  # the first row is a sample like the others: no header
        by_sample: dict[str, str | None] = {}
        for row in body:
            if row[0] in by_sample:
                raise wrong(f"{self.path} has sample {row[0]!r} twice: leave one of them out.")
            by_sample[row[0]] = as_label(row[column])
        return by_sample


def read_label_file(path: str | os.PathLike[str], options: ReadOptions) -> LabelFile:
    """Read a label file; it must be a text table."""
    try:
        file = require_file(path)
    except FileNotFoundError as error:
        column = argument("label", str(path))
        raise FileNotFoundError(f"{str(error)[:-1]}; or say {column} if it is a column of the table.") from None
    if kind_of(file) != "text":
        raise wrong(f"{file}: labels are read from text tables only: save them as .csv or .tsv.")
    text = read_text(file, options.encoding)
    delimiter = detect_delimiter(text, str(file), options.comment, wordy=True)
    rows = list(DelimitedRows(text, delimiter, str(file), options.comment))
    width = len(first_row(rows, str(file)))
    for line, cells in rows:
        if len(cells) != width:
            length = count(width, "cell")
            raise wrong(f"{file}, line {line} has {count(len(cells), 'cell')}, the first line {length}: correct it.")
    return LabelFile(str(file), [[cell.strip() for cell in cells] for _, cells in rows])


def label_and_select(data: AnnotatedSamples, options: ReadOptions, labels: LabelFile | None) -> LabelledTable:
    """Attach labels, select samples and check the result."""
    for name in options.annotation_names:
        data.require_annotation(name, options.option_of(name))
    label: list[str | None] | None = None
    notes: list[str] = []
    if labels is not None:
        label, notes = labels.labels_of(data, options.label, options.unmatched), [f"labels from {labels.path}"]
    elif data.label is not None:
        label, notes = data.annotations[data.label], [f"label {data.label!r}"]
    keep = np.ones(len(data.samples), dtype=bool)
    for name, values in options.where.items():
        keep &= _one_of(values, data.annotations[name], f"{name!r} in {data.path}")
    if label is not None:
        keep &= _labelled(data, options, label, keep)
        if options.classes is not None:
            keep &= _one_of(options.classes, label, f"the classes of {data.path}")
        if not options.is_time:
            _require_classes(data.path, options, Counter(label[i] for i in np.flatnonzero(keep)))
    elif options.classes is not None:
        problem = f"{argument('subset', list(options.classes))} names classes, but no label is given"
        raise InputError(f"{problem}: say {argument('label', ...)} or {argument('labels', ...)}.", "subset")
    if not keep.any():
        raise InputError(f"{data.path}: no sample is left: check {argument('subset')}.", "subset")
    rows = np.flatnonzero(keep).tolist()
    repeated = [name for name, number in Counter(data.samples[i] for i in rows).items() if number > 1]
    if repeated:
        copies = f"{count(len(repeated), 'sample name')} came more than once ({listed(repeated, 3)})"
        remedy = "remove copies of a sample; several samples of one subject are not independent of each other"
        warnings.warn(f"{data.path}: {copies}: {remedy}.", TableWarning, stacklevel=3)
    for names, what in ((data.variables, "variable"), (data.samples, "sample"), (label or [], "class")):
        require_whole_characters([name for name in names if name is not None], what)
    return LabelledTable(
        X=data.X if keep.all() else data.X[rows],
        y=None if label is None else np.array([label[i] for i in rows], dtype=np.str_),
        variable_names=unique_names(data.variables, data.path),
        sample_names=tuple(data.samples[i] for i in rows),
        source=f"{data.path} ({'; '.join([*data.notes, *notes])})",
        annotations={name: data.annotation_values(name, rows) for name in options.annotations},
    )


def unique_names(names: list[str], path: str) -> tuple[str, ...]:
    """Names with a number behind every later copy, with a warning; empty ones become x1, x2, ... by position."""
    taken, used = set(names), set()
    number: Counter[str] = Counter()
    unique, repeated = [], []
    for position, original in enumerate(names):
        name = original or f"x{position + 1}"
        if name in used or (not original and name in taken):
            repeated.append(name)
            number[name] = max(number[name] + 1, 2)
            while f"{name}.{number[name]}" in taken:
                number[name] += 1
            name = f"{name}.{number[name]}"
        taken.add(name)
        used.add(name)
        unique.append(name)
    if repeated:
        example = next(new for new, old in zip(unique, names, strict=True) if new != old)
        number_of, names_of = count(len(set(repeated)), "variable name"), listed(dict.fromkeys(repeated), 3)
        copies = f"{number_of} occurred more than once ({names_of})"
        warnings.warn(f"{path}: {copies}; later copies got a number, such as {example!r}.", TableWarning, stacklevel=4)
    return tuple(unique)


def _one_of(values: tuple[str, ...], words: list[str | None], where: str) -> BoolArray:
    """Which words are among the values, all of which must occur."""
    known = list(dict.fromkeys(word for word in words if word is not None))
    for value in values:
        if value not in known:
            hint = nearest(value, known)
            raise InputError(f"{value!r} is not among {where} ({hint}): correct {argument('subset')}.", "subset")
    return np.array([word in values for word in words], dtype=bool)


def _labelled(data: AnnotatedSamples, options: ReadOptions, label: list[str | None], keep: BoolArray) -> BoolArray:
    """Which samples have a label; `unmatched` decides whether others are dropped or refused."""
    unlabelled = [data.samples[i] for i in np.flatnonzero(keep).tolist() if label[i] is None]
    if unlabelled and options.unmatched == "error":
        names = f"{count(len(unlabelled), 'sample')} without a label ({listed(unlabelled, 3)})"
        remedy = f"add the labels, or leave the samples out with {argument('unmatched', 'drop')}"
        raise InputError(f"{data.path}: {names}: {remedy}.", "unmatched")
    return np.array([word is not None for word in label], dtype=bool)


def _require_classes(path: str, options: ReadOptions, sizes: Counter[str | None]) -> None:
    """Refuse labels that cannot be classes; a single class is accepted when `subset` names it."""
    names = [str(name) for name in sizes]
    if len(names) == 1 and options.classes is None:
        remedy = f"choose another label, or say {argument('subset', names)} to go on with one class"
        message = f"{path}: all samples have the label {names[0]!r}: {remedy}."
        raise InputError(message, "label", class_name=names[0])
    small, enough = [name for name in names if sizes[name] < 2], [name for name in names if sizes[name] >= 2]
    if small and not enough:
        raise InputError(f"{path}: every class has 1 sample ({listed(small, 3)}): choose another label.", "label")
    if small:
        number = f"1 sample ({len(small)} such of {len(sizes)}), a covariance needs 2"
        remedy = f"add samples, or keep other classes with {argument('subset', enough[:3])}"
        raise InputError(f"{path}: class {small[0]!r} has {number}: {remedy}.", "subset", class_name=small[0])
