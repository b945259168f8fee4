"""From a draft to a table: labels attached, samples selected, names made unique, classes checked."""

from __future__ import annotations

import warnings
from collections import Counter

import numpy as np

from jointglasso._typing import BoolArray
from jointglasso._wording import count, listed, nearest
from jointglasso.errors import argument
from jointglasso.io.grid import TableDraft
from jointglasso.io.labels import LabelFile
from jointglasso.io.options import Options
from jointglasso.io.table import LabelledTable
from jointglasso.validation import InputError, require_whole_characters


class TableWarning(UserWarning):
    """Something in a file was changed while reading it, such as a name that occurred twice.

    Examples
    --------
    >>> import jointglasso as jgl
    >>> issubclass(jgl.io.TableWarning, UserWarning)
    True
    """


def finish(draft: TableDraft, options: Options, labels: LabelFile | None) -> LabelledTable:
    """Attach labels, select samples and check the result."""
    label, notes = _labels(draft, options, labels)
    keep = _where(draft, options)
    if label is not None:
        keep = _labelled(draft, options, label, keep)
        keep = _of_classes(draft, options, label, keep)
        if not options.stamped:
            sizes = Counter(word for word, kept in zip(label, keep, strict=True) if kept and word)
            _require_classes(draft, options, sizes)
    elif options.classes is not None:
        raise InputError(
            f"{argument('subset', list(options.classes))} names classes, but no label is given: say "
            f"{argument('label', ...)} or {argument('labels', ...)}.",
            "subset",
        )
    if not keep.any():
        raise InputError(f"{draft.path}: no sample is left: check {argument('subset')}.", "subset")
    chosen = np.flatnonzero(keep).tolist()
    again = [name for name, number in Counter(draft.samples[i] for i in chosen).items() if number > 1]
    if again:
        warnings.warn(
            f"{draft.path}: {count(len(again), 'sample name')} came more than once ({listed(again, 3)}): remove copies "
            "of a sample; several samples of one subject are not independent of each other.",
            TableWarning,
            stacklevel=3,
        )
    for names, what in ((draft.variables, "variable"), (draft.samples, "sample"), (label or [], "class")):
        require_whole_characters([name for name in names if name is not None], what)
    return LabelledTable(
        X=draft.X if keep.all() else draft.X[chosen],
        y=None if label is None else np.array([label[i] for i in chosen], dtype=np.str_),
        variable_names=unique_names(draft.variables, draft.path),
        sample_names=tuple(draft.samples[i] for i in chosen),
        source=f"{draft.path} ({'; '.join([*draft.notes, *notes])})",
    )


def unique_names(names: list[str], path: str) -> tuple[str, ...]:
    """Make names unique by a number behind every later copy, with a warning; nameless ones are called by position."""
    taken, used = set(names), set()
    number: Counter[str] = Counter()
    result, renamed = [], []
    for position, given in enumerate(names):
        name = given or f"x{position + 1}"
        if name in used or (not given and name in taken):
            renamed.append(name)
            number[name] = max(number[name] + 1, 2)
            while f"{name}.{number[name]}" in taken:
                number[name] += 1
            name = f"{name}.{number[name]}"
        taken.add(name)
        used.add(name)
        result.append(name)
    if renamed:
        warnings.warn(
            f"{path}: {count(len(set(renamed)), 'variable name')} occurred more than once "
            f"({listed(dict.fromkeys(renamed), 3)}); later copies got a number, such as "
            f"{next(new for new, old in zip(result, names, strict=True) if new != old)!r}.",
            TableWarning,
            stacklevel=4,
        )
    return tuple(result)


def _labels(draft: TableDraft, options: Options, labels: LabelFile | None) -> tuple[list[str | None] | None, list[str]]:
    if labels is not None:
        found = labels.labels_of(draft.samples, draft.samples_named, options.label, options.unmatched)
        return found, [f"labels from {labels.path}"]
    if draft.label is not None:
        return draft.annotation(draft.label, "label"), [f"label {draft.label!r}"]
    return None, []


def _where(draft: TableDraft, options: Options) -> BoolArray:
    keep = np.ones(len(draft.samples), dtype=bool)
    for name, wanted in options.where.items():
        words = draft.annotation(name, "subset")
        _require_known(wanted, [word for word in words if word is not None], f"{name!r} in {draft.path}")
        keep &= np.array([word in wanted for word in words], dtype=bool)
    return keep


def _labelled(draft: TableDraft, options: Options, label: list[str | None], keep: BoolArray) -> BoolArray:
    bare = [i for i in np.flatnonzero(keep).tolist() if label[i] is None]
    if bare and options.unmatched == "error":
        names = listed((draft.samples[i] for i in bare), 3)
        raise InputError(
            f"{draft.path}: {count(len(bare), 'sample')} without a label ({names}): add the labels, or leave the "
            f"samples out with {argument('unmatched', 'drop')}.",
            "unmatched",
        )
    return keep & np.array([word is not None for word in label], dtype=bool)


def _of_classes(draft: TableDraft, options: Options, label: list[str | None], keep: BoolArray) -> BoolArray:
    if options.classes is None:
        return keep
    _require_known(options.classes, [word for word in label if word is not None], f"the classes of {draft.path}")
    return keep & np.array([word in options.classes for word in label], dtype=bool)


def _require_known(wanted: tuple[str, ...], words: list[str], where: str) -> None:
    known = list(dict.fromkeys(words))
    for word in wanted:
        if word not in known:
            raise InputError(
                f"{word!r} is not among {where} ({nearest(word, known)}): correct {argument('subset')}.", "subset"
            )


def _require_classes(draft: TableDraft, options: Options, sizes: Counter[str]) -> None:
    """Refuse labels that cannot be classes; a single class is fine when it was asked for by name."""
    if len(sizes) == 1 and options.classes is None:
        only = next(iter(sizes))
        raise InputError(
            f"{draft.path}: all samples have the label {only!r}: choose another label, or say "
            f"{argument('subset', [only])} to go on with one class.",
            "label",
            class_name=only,
        )
    small = [name for name, size in sizes.items() if size < 2]
    if small:
        enough = [name for name, size in sizes.items() if size >= 2]
        if not enough:
            raise InputError(
                f"{draft.path}: every class has 1 sample ({listed(small, 3)}): choose another label.", "label"
            )
        raise InputError(
            f"{draft.path}: class {small[0]!r} has 1 sample ({len(small)} such of {len(sizes)}), a covariance needs "
            f"2: add samples, or keep other classes with {argument('subset', enough[:3])}.",
            "subset",
            class_name=small[0],
        )
