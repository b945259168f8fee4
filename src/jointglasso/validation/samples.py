"""Samples as they are given, in one table for each class or in one with labels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from jointglasso._typing import FloatArray, IntArray
from jointglasso.errors import InputError, InputTypeError
from jointglasso.validation.naming import align_variables, require_whole_characters, split_classes
from jointglasso.validation.tables import SampleRows, deferred, read_matrix, require_real, with_rows


@dataclass(frozen=True)
class CheckedSamples:
    """Sample matrices whose shapes and names passed the checks; their numbers are checked when they are read."""

    class_names: tuple[str, ...]
    variable_names: tuple[str, ...]
    sample_sizes: IntArray
    parts: list[SampleRows | FloatArray]

    def matrices(self) -> Iterator[FloatArray]:
        """Yield the dense matrix of one class after the other, so that only one need be in memory."""
        for name, part in zip(self.class_names, self.parts, strict=True):
            X = read_matrix(part, _matrix_of(name))
            _check_finite_samples(X, name, self.variable_names)
            yield X


def check_samples(samples: Any, class_names: Any = None, variable_names: Any = None) -> CheckedSamples:
    """Check K sample matrices: two-dimensional, finite, at least two samples each, names aligned."""
    named = split_classes(samples, class_names, "sample matrix", SampleRows.can_read(samples))
    parts = {name: deferred(X, _matrix_of(name)) for name, X in named.items()}
    sizes = {name: part.shape[0] for name, part in parts.items()}
    for name, size in sizes.items():
        if size < 2:
            raise InputError(
                f"Class {name!r} has {size} sample{'' if size == 1 else 's'}; a covariance needs at "
                "least 2: add samples or leave the class out.",
                class_name=name,
            )
    names, aligned = align_variables(named, parts, variable_names, both_axes=False)
    return CheckedSamples(tuple(aligned), names, np.array(list(sizes.values()), dtype=np.int64), list(aligned.values()))


def _matrix_of(class_name: str) -> str:
    return f"The sample matrix of class {class_name!r}"


def check_labels(X: Any, y: Any) -> dict[str, Any]:
    """Split a table of samples by label, classes in order of appearance; the pieces keep the table's column names.

    Of tables that need not be in memory the pieces are places to read from.
    """
    deferrable = SampleRows.can_read(X)
    shape = X.shape if deferrable else np.shape(X)
    rows = label_rows(int(shape[0]) if shape else 0, y)
    if deferrable:
        return parts_by_class(X, rows)
    require_real(X, "X")
    table = X.iloc if hasattr(X, "iloc") else np.asarray(X)
    return {name: table[mine] for name, mine in rows.items()}


def label_rows(n_samples: int, y: Any) -> dict[str, IntArray]:
    """Positions of the samples of each class, in order of appearance; of an ordered categorical, in its order."""
    labels = np.asarray(y)
    if labels.ndim != 1 or len(labels) != n_samples:
        raise InputError(f"y has shape {labels.shape}, but X has {n_samples} samples: give one label per sample.", "y")
    # Looked at one by one and as given: NumPy would turn a NaN among words into the word 'nan'.
    given = y.tolist() if hasattr(y, "tolist") else list(y)
    missing = [i for i, label in enumerate(given) if _is_missing(label)]
    if missing:
        raise InputError(f"The label of sample {missing[0]} is missing: name its class or leave the sample out.", "y")
    kinds = sorted({"str" if isinstance(label, str) else type(label).__name__ for label in given})
    if "str" in kinds and len(kinds) > 1:
        raise InputTypeError(f"The labels mix {' and '.join(kinds)}: give all labels one type.", "y")
    try:
        classes, first = np.unique(labels, return_index=True)
    except TypeError:
        raise InputTypeError(f"The labels mix {' and '.join(kinds)}: give all labels one type.", "y") from None
    rows: dict[str, IntArray] = {
        str(label): np.flatnonzero(labels == label) for label in _ranked(y, classes[np.argsort(first)])
    }
    require_whole_characters(list(rows), "class")
    return rows


def _ranked(y: Any, classes: Any) -> Any:
    """The classes as they are, or in the order of the categories where `y` is an ordered categorical."""
    kind = getattr(y, "dtype", None)
    if kind is None or not getattr(kind, "ordered", False):
        return classes
    there = set(classes.tolist())
    return [label for label in kind.categories.tolist() if label in there]


def parts_by_class(table: Any, rows: Mapping[str, IntArray]) -> dict[str, SampleRows]:
    """Where to read each class of a table; a form that gives no rows is turned into one that does, once for all."""
    readable = with_rows(table)
    return {name: SampleRows(readable, mine) for name, mine in rows.items()}


def _is_missing(label: Any) -> bool:
    try:
        return label is None or bool(label != label)
    except TypeError:  # pandas' NA refuses to be compared
        return True


def _check_finite_samples(X: FloatArray, class_name: str, variable_names: Sequence[str]) -> None:
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(X.sum()):  # one cheap pass; only a bad or overflowing table is looked at entry by entry
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
