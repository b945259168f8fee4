"""Samples of several classes: the common representation of all input data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np

from jointglasso._typing import BoolArray, FloatArray, IntArray
from jointglasso._wording import count
from jointglasso.data.checks import InputError, check_choice
from jointglasso.data.naming import VARIABLES, align_variables, column_names, final_names, split_classes
from jointglasso.data.table_checks import (
    SampleRows,
    deferred,
    is_ordered,
    label_rows,
    labelled,
    read_matrix,
    require_finite,
    with_rows,
)

#: Name of the only class where no labels are given.
ONE_CLASS = "all"

BY_CLASS = "y is given although the tables in X are already by class: leave y out."


@dataclass(frozen=True)
class Samples:
    """Samples of K classes, with the names of classes and variables.

    Classes are in order of appearance, in the labels or in a dict; those of an ordered categorical in its order.
    """

    parts: Sequence[SampleRows | FloatArray]
    """Array (n_k, p) of each class with NaN at missing values, or lazy rows of a stored table."""
    class_names: tuple[str, ...]
    variable_names: tuple[str, ...]
    absent: BoolArray | None = None
    """(K, p): variables not measured in a class, with columns of zeros there; None if all are measured."""
    sample_fraction: float = 1.0
    """Weight of a sample in each class: below 1 where it belongs to several, as in overlapping windows."""
    size_fraction: FloatArray | None = None
    """(K,): effective by actual sample size where covariates were regressed out or samples have weights; else None."""
    is_ordered: bool = False
    """Whether the classes have an order: those of an ordered categorical, or windows in time."""
    given_rows: list[IntArray] | None = None
    """Row numbers of each class in the input table; None where each class was a separate table."""
    computed: dict[Any, Any] = field(default_factory=dict, repr=False, compare=False)
    """Cache of covariances by their `Preparation`."""

    @classmethod
    def by_class(
        cls, tables: Any, class_names: Any = None, variable_names: Any = None, variables: str = "same"
    ) -> Samples:
        """Samples from one table for each class: a dict, or a list with or without names.

        Columns are matched by name where they have names; `variables` as in `select`.
        """
        named = split_classes(tables, class_names, "sample matrix", SampleRows.can_read(tables))
        parts = {name: deferred(X, matrix_of(name)) for name, X in named.items()}
        names, parts, _ = align_variables(named, parts, variable_names, variables)
        return cls(list(parts.values()), tuple(parts), names).with_variables(variables)

    @classmethod
    def from_labels(cls, X: Any, y: Any = None, variable_names: Any = None) -> Samples:
        """Samples from one table and its labels (or the name of their column); one class if `y` is None."""
        X, y = labelled(X, y)
        samples = deferred(X, "X")
        rows = rows_by_class(samples.shape[0], y)
        if isinstance(samples, SampleRows):
            table = with_rows(X)
            parts: list[Any] = [SampleRows(table, members) for members in rows.values()]
        else:
            parts = [samples[members] for members in rows.values()]
        names = final_names(variable_names, column_names(X), samples.shape[1])
        return cls(parts, tuple(rows), names, is_ordered=is_ordered(y), given_rows=list(rows.values()))

    @property
    def matrices(self) -> list[FloatArray]:
        """Arrays (n_k, p) of the classes, read on each access; `loaded` keeps them in memory."""
        return [read_matrix(part, matrix_of(name)) for name, part in zip(self.class_names, self.parts, strict=True)]

    def loaded(self) -> Samples:
        """Copy with all arrays in memory."""
        return replace(self, parts=self.matrices)

    def one_by_one(self) -> Iterator[FloatArray]:
        """Iterate over the arrays of the classes, one in memory at a time; missing values raise InputError."""
        for name, part in zip(self.class_names, self.parts, strict=True):
            X = read_matrix(part, matrix_of(name))
            require_finite(X, name, self.variable_names)
            yield X

    @property
    def are_stored(self) -> bool:
        """Whether all parts are stored in files that other processes can read."""
        return all(isinstance(part, SampleRows) and part.is_stored for part in self.parts)

    @property
    def rows(self) -> list[IntArray]:
        """Row numbers of each class in the input; separate tables are numbered consecutively."""
        if self.given_rows is not None:
            return self.given_rows
        return [np.arange(first, last) for first, last in pairwise(np.cumsum([0, *self.sizes]).tolist())]

    @property
    def n_classes(self) -> int:
        """Number of classes K."""
        return len(self.parts)

    @property
    def n_variables(self) -> int:
        """Number of variables p."""
        return int(self.parts[0].shape[1])

    @property
    def sizes(self) -> IntArray:
        """Number of samples of each class."""
        return np.array([part.shape[0] for part in self.parts], dtype=np.int64)

    def reduced_sizes(self, sizes: IntArray) -> IntArray:
        """Effective sample sizes (K,): less the covariates' degrees of freedom, of weighted or shared samples."""
        if self.size_fraction is None and self.sample_fraction == 1.0:
            return sizes
        fraction = self.sample_fraction * (1.0 if self.size_fraction is None else self.size_fraction)
        return np.maximum(2, np.rint(fraction * sizes)).astype(np.int64)

    def with_parts(self, parts: Sequence[FloatArray]) -> Samples:
        """Copy with other arrays for the same classes and variables."""
        return replace(self, parts=parts, given_rows=None, computed={})

    def take(self, rows: Sequence[IntArray]) -> Samples:
        """Subset of the samples by indices within each class."""
        return self.with_parts([X[members] for X, members in zip(self.matrices, rows, strict=True)])

    def in_order(self, class_names: Sequence[str]) -> Samples:
        """The same classes in another order."""
        order = [self.class_names.index(name) for name in class_names]
        rows, absent = self.rows, self.absent
        return replace(
            self,
            parts=[self.parts[k] for k in order],
            class_names=tuple(class_names),
            absent=None if absent is None else absent[order],
            size_fraction=None if self.size_fraction is None else self.size_fraction[order],
            given_rows=[rows[k] for k in order],
            computed={},
        )

    def with_variables(self, variables: str) -> Samples:
        """Treat variables without any value in a class: "union" marks them as absent, "intersection" drops them.

        "same" leaves them, to be reported as missing values.
        """
        if check_choice("variables", variables, VARIABLES) == "same":
            return self
        matrices = self.matrices
        empty = np.array([np.isnan(X).all(axis=0) for X in matrices])
        if not empty.any():
            return self
        if variables == "union":
            filled = [np.where(mask, 0.0, X) for X, mask in zip(matrices, empty, strict=True)]
            return replace(self, parts=filled, absent=empty, computed={})
        shared = np.flatnonzero(~empty.any(axis=0))
        if len(shared) < 2:
            raise InputError(
                f"variables='intersection' leaves {len(shared)} variables that all classes have.", "variables"
            )
        return self.restricted_to(shared)

    def restricted_to(self, variables: IntArray) -> Samples:
        """The variables with these indices."""
        return replace(
            self,
            parts=[
                part.restricted(variables) if isinstance(part, SampleRows) else part[:, variables]
                for part in self.parts
            ],
            variable_names=tuple(self.variable_names[i] for i in variables.tolist()),
            absent=None if self.absent is None else self.absent[:, variables],
            computed={},
        )

    @property
    def varying(self) -> BoolArray:
        """(p,): mask of the variables that vary within every class."""
        spread = [np.nanmax(X, axis=0) > np.nanmin(X, axis=0) for X in self.matrices]
        return np.asarray(np.logical_and.reduce(spread))

    def require_two(self) -> None:
        """Refuse classes with fewer than two samples."""
        for name, size in zip(self.class_names, self.sizes.tolist(), strict=True):
            if size < 2:
                raise InputError(
                    f"Class {name!r} has {count(size, 'sample')}; a covariance needs at least 2: add "
                    "samples or leave the class out.",
                    class_name=name,
                )


def read_samples(X: Any, y: Any = None, variables: str = "same") -> Samples:
    """Samples of a table with labels, or of a dict or list of tables by class; `variables` as in `select`."""
    if isinstance(X, Mapping) or is_list_of_tables(X):
        if y is not None:
            raise InputError(BY_CLASS, "y")
        return Samples.by_class(X, variables=variables).loaded()
    if isinstance(X, Samples):
        return X.with_variables(variables)
    if (isinstance(X, np.ndarray) and X.ndim == 3) or _has_tables(X):
        raise InputError(
            "X is a stack of square matrices: give samples as a table with labels y or as tables by class (a dict or a "
            "list), and covariances as DenseCovariance(matrices, sample_sizes=[...]).",
            "X",
        )
    return Samples.from_labels(X, y).loaded().with_variables(variables)


def _has_tables(X: Any) -> bool:
    return isinstance(X, list | tuple) and len(X) > 0 and all(len(np.shape(part)) == 2 for part in X)


def is_list_of_tables(X: Any) -> bool:
    """Whether `X` is a list with one table of samples per class; square symmetric matrices are covariances."""
    return _has_tables(X) and not all(_is_symmetric(part) for part in X)


def _is_symmetric(part: Any) -> bool:
    n, p = np.shape(part)
    return n == p and np.array_equal(np.asarray(part), np.asarray(part).T)


def stacked(tables: Any, y: Any) -> tuple[Any, IntArray]:
    """One table and its labels 1 to K from a list of tables, one per class."""
    if y is not None:
        raise InputError(BY_CLASS, "y")
    samples = Samples.by_class(tables).loaded()
    X: Any = np.concatenate(samples.matrices)
    if column_names(tables[0]) is not None:
        import pandas as pd

        X = pd.DataFrame(X, columns=list(samples.variable_names))
    return X, np.repeat(np.arange(1, samples.n_classes + 1), samples.sizes)


def rows_by_class(n_samples: int, y: Any) -> dict[str, IntArray]:
    """Row numbers of each class, classes in order of appearance; without labels all rows are one class."""
    if y is None:
        return {ONE_CLASS: np.arange(n_samples)}
    return label_rows(n_samples, y)


def matrix_of(class_name: str) -> str:
    """Name of the samples of a class in messages."""
    return f"The sample matrix of class {class_name!r}"
