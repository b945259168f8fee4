"""What a selection is given: tables, samples by class, or covariances alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from sklearn.utils import check_array

from jointglasso._typing import FloatArray, IntArray
from jointglasso.covariance import CovarianceSource, is_source
from jointglasso.covariance.classes import ClassSamples, rows_by_class
from jointglasso.covariance.prepare import Preparation
from jointglasso.selection.em import prepared
from jointglasso.validation import InputError, column_names, joined_variables, labelled, readable_table


@dataclass(frozen=True)
class SelectionData:
    """Covariances of all samples, and the samples where they are known."""

    source: CovarianceSource
    samples: ClassSamples | None
    rows: list[IntArray]
    """Rows of the given table that belong to each class; empty where only covariances are known."""
    preparation: Preparation
    notes: tuple[str, ...] = ()
    """What a reader of the results must know of the covariances, in sentences."""

    def require_samples(self, what: str) -> ClassSamples:
        """Samples by class, or an error that says why they are needed."""
        if self.samples is None:
            raise InputError(f"{what} needs the samples, not their covariances alone: give X and y.", "X")
        if self.samples.share < 1.0:
            raise InputError(
                f"{what} takes the samples apart, but windows that overlap share theirs: use an information criterion, "
                "or windows without overlap.",
                "windows",
            )
        return self.samples

    @property
    def class_of_row(self) -> IntArray:
        """Class index of each row of the given table."""
        labels = np.empty(sum(map(len, self.rows)), dtype=np.int64)
        for k, members in enumerate(self.rows):
            labels[members] = k
        return labels


def read_data(X: Any, y: Any, preparation: Preparation) -> SelectionData:
    """Read a table with labels, a dict of tables by class, samples by class, or a covariance source."""
    if is_source(X):
        if y is not None:
            raise InputError("y is given although X is a covariance source, which knows its classes: leave y out.", "y")
        return SelectionData(X, None, [], preparation)
    samples, rows = read_samples(X, y, preparation.variables)
    ready = prepared(preparation, samples)
    return SelectionData(ready.source, samples, rows, preparation, ready.notes)


def read_samples(X: Any, y: Any, variables: str = "same") -> tuple[ClassSamples, list[IntArray]]:
    """Samples by class of a table with labels or a dict of tables, and the rows of the table in each class.

    The rows of a dict count through its tables, one after another. `variables`: as in `Preparation`.
    """
    if isinstance(X, Mapping):
        if y is not None:
            raise InputError("y is given although the tables in X are already by class: leave y out.", "y")
        X, y, names = _stack(X) if variables == "same" else _stack_by_name(X, variables)
    elif not isinstance(X, ClassSamples):
        X, y = labelled(X, y)
        X, names = read_table(X)
    if isinstance(X, ClassSamples):
        ends = np.cumsum([0, *X.sizes])
        return X.with_variables(variables), [np.arange(first, last) for first, last in pairwise(ends)]
    samples = ClassSamples.from_labels(X, y, names).with_variables(variables)
    return samples, list(rows_by_class(len(X), y).values())


def read_table(X: Any) -> tuple[FloatArray, tuple[str, ...] | None]:
    """Numbers of a NumPy array or a pandas, polars or pyarrow table, and the names of its columns if it has any."""
    X, names = readable_table(X), column_names(X)
    if names is None and (np.ndim(X) == 3 or (isinstance(X, list | tuple) and len(X) and np.ndim(X[0]) == 2)):
        raise InputError(
            "X is a stack of matrices: give samples as a table with labels y or as a dict of tables by class, and "
            "covariances as DenseCovariance(matrices, sample_sizes=[...]).",
            "X",
        )
    # Infinite values pass here, to be refused together with missing ones, by name.
    array = check_array(X, dtype=np.float64, ensure_all_finite=False, ensure_min_samples=1)
    return array, None if names is None else tuple(names)


def _stack(tables: Mapping[Any, Any]) -> tuple[FloatArray, list[str], tuple[str, ...] | None]:
    """One table and its labels from tables by class; columns are matched by name where they have names."""
    if not tables:
        raise InputError("X holds no class: give at least one table of samples.", "X")
    parts, labels = [], []
    reference: tuple[str, ...] | None = None
    for position, (label, table) in enumerate(tables.items()):
        array, names = read_table(table)
        reference = names if position == 0 else reference
        if names is not None and reference is not None and names != reference:
            if sorted(names) != sorted(reference):
                odd = sorted(set(names) ^ set(reference))
                raise InputError(
                    f"Class {str(label)!r} has other variables than the first class ({odd[:3]}): keep only those that "
                    "every class has; select, edge_stability and SampleCovariance also take variables='union', where "
                    "classes may lack some.",
                    "X",
                    class_name=str(label),
                )
            array = array[:, [names.index(name) for name in reference]]
        parts.append(array)
        labels += [str(label)] * len(array)
    if len({part.shape[1] for part in parts}) > 1:
        raise InputError(
            f"The classes have {[part.shape[1] for part in parts]} variables: give all the same ones.", "X"
        )
    return np.vstack(parts), labels, reference


def _stack_by_name(tables: Mapping[Any, Any], variables: str) -> tuple[FloatArray, list[str], tuple[str, ...]]:
    """The same for tables with different columns; what a table does not have is missing."""
    read = {str(label): read_table(table) for label, table in tables.items()}
    names, places = joined_variables({label: columns for label, (_, columns) in read.items()}, variables)
    parts = []
    for (array, _), place in zip(read.values(), places, strict=True):
        part = np.full((len(array), len(names)), np.nan)
        part[:, place >= 0] = array[:, place[place >= 0]]
        parts.append(part)
    return np.vstack(parts), [label for label, (array, _) in read.items() for _ in range(len(array))], tuple(names)
