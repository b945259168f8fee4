"""From annotated samples to a table: labels attached, samples selected, names made unique, classes checked."""

from __future__ import annotations

import warnings
from collections import Counter

import numpy as np

from jointglasso._typing import BoolArray
from jointglasso._wording import count, listed, nearest
from jointglasso.errors import argument
from jointglasso.io.grid import AnnotatedSamples
from jointglasso.io.label_file import LabelFile
from jointglasso.io.labelled_table import LabelledTable
from jointglasso.io.reading_options import ReadOptions
from jointglasso.validation import InputError, require_whole_characters


class TableWarning(UserWarning):
    """Something in a file was changed while reading it, such as a name that occurred twice.

    Examples
    --------
    >>> import jointglasso as jgl
    >>> issubclass(jgl.io.TableWarning, UserWarning)
    True
    """


def label_and_select(data: AnnotatedSamples, options: ReadOptions, labels: LabelFile | None) -> LabelledTable:
    """Attach labels, select samples and check the result."""
    label, notes = _labels(data, options, labels)
    keep = np.ones(len(data.samples), dtype=bool)
    for name, values in options.where.items():
        keep &= _one_of(values, data.annotation(name, "subset"), f"{name!r} in {data.path}")
    if label is not None:
        keep &= _labelled(data, options, label, keep)
        if options.classes is not None:
            keep &= _one_of(options.classes, label, f"the classes of {data.path}")
        if not options.is_time:
            _require_classes(data.path, options, Counter(label[i] for i in np.flatnonzero(keep)))
    elif options.classes is not None:
        raise InputError(
            f"{argument('subset', list(options.classes))} names classes, but no label is given: say "
            f"{argument('label', ...)} or {argument('labels', ...)}.",
            "subset",
        )
    if not keep.any():
        raise InputError(f"{data.path}: no sample is left: check {argument('subset')}.", "subset")
    rows = np.flatnonzero(keep).tolist()
    repeated = [name for name, number in Counter(data.samples[i] for i in rows).items() if number > 1]
    if repeated:
        warnings.warn(
            f"{data.path}: {count(len(repeated), 'sample name')} came more than once ({listed(repeated, 3)}): remove "
            "copies of a sample; several samples of one subject are not independent of each other.",
            TableWarning,
            stacklevel=3,
        )
    for names, what in ((data.variables, "variable"), (data.samples, "sample"), (label or [], "class")):
        require_whole_characters([name for name in names if name is not None], what)
    return LabelledTable(
        X=data.X if keep.all() else data.X[rows],
        y=None if label is None else np.array([label[i] for i in rows], dtype=np.str_),
        variable_names=unique_names(data.variables, data.path),
        sample_names=tuple(data.samples[i] for i in rows),
        source=f"{data.path} ({'; '.join([*data.notes, *notes])})",
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
        warnings.warn(
            f"{path}: {count(len(set(repeated)), 'variable name')} occurred more than once "
            f"({listed(dict.fromkeys(repeated), 3)}); later copies got a number, such as {example!r}.",
            TableWarning,
            stacklevel=4,
        )
    return tuple(unique)


def _labels(
    data: AnnotatedSamples, options: ReadOptions, labels: LabelFile | None
) -> tuple[list[str | None] | None, list[str]]:
    """Label of each sample, or None without labels, and a note."""
    if labels is not None:
        by_file = labels.labels_of(data.samples, data.samples_named, options.label, options.unmatched)
        return by_file, [f"labels from {labels.path}"]
    if data.label is None:
        return None, []
    return data.annotation(data.label, "label"), [f"label {data.label!r}"]


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
        raise InputError(
            f"{data.path}: {count(len(unlabelled), 'sample')} without a label ({listed(unlabelled, 3)}): add the "
            f"labels, or leave the samples out with {argument('unmatched', 'drop')}.",
            "unmatched",
        )
    return np.array([word is not None for word in label], dtype=bool)


def _require_classes(path: str, options: ReadOptions, sizes: Counter[str | None]) -> None:
    """Refuse labels that cannot be classes; a single class is accepted when `subset` names it."""
    names = [str(name) for name in sizes]
    if len(names) == 1 and options.classes is None:
        raise InputError(
            f"{path}: all samples have the label {names[0]!r}: choose another label, or say "
            f"{argument('subset', names)} to go on with one class.",
            "label",
            class_name=names[0],
        )
    small = [name for name in names if sizes[name] < 2]
    enough = [name for name in names if sizes[name] >= 2]
    if small and not enough:
        raise InputError(f"{path}: every class has 1 sample ({listed(small, 3)}): choose another label.", "label")
    if small:
        raise InputError(
            f"{path}: class {small[0]!r} has 1 sample ({len(small)} such of {len(sizes)}), a covariance needs 2: add "
            f"samples, or keep other classes with {argument('subset', enough[:3])}.",
            "subset",
            class_name=small[0],
        )
