"""Samples of several classes: what every door of the package makes of the data it is given."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np

from jointglasso._typing import BoolArray, FloatArray, IntArray
from jointglasso._wording import count
from jointglasso.validation import (
    VARIABLES,
    InputError,
    SampleRows,
    align_variables,
    check_choice,
    column_names,
    deferred,
    final_names,
    joined_variables,
    label_rows,
    labelled,
    read_matrix,
    require_finite,
    split_classes,
    with_rows,
)

#: Name of the only class where no labels are given.
ONE_CLASS = "all"


@dataclass(frozen=True)
class Samples:
    """Samples of K classes, with their names and whatever else goes with them.

    Classes are in order of appearance, in the labels or in a dict; those of an ordered categorical in its order.
    """

    parts: Sequence[SampleRows | FloatArray]
    """Numbers of each class (n_k, p), NaN where a value is missing; or where to read them."""
    class_names: tuple[str, ...]
    variable_names: tuple[str, ...]
    absent: BoolArray | None = None
    """(K, p): variables that a class lacks, whose columns are zero there; None where every class has them all."""
    share: float = 1.0
    """What a sample counts for in each class: less than 1 where it is in several, as in windows that overlap."""
    given_rows: list[IntArray] | None = None
    """Rows of the table they were given in that are in each class; None where the classes were tables of their own."""
    computed: dict[Any, Any] = field(default_factory=dict, repr=False, compare=False)
    """Covariances by their `Preparation`, so that whoever is handed the same samples need not compute them again."""

    @classmethod
    def by_class(
        cls, tables: Any, class_names: Any = None, variable_names: Any = None, variables: str = "same"
    ) -> Samples:
        """Samples from one table for each class: a dict, or a list with or without names.

        Columns are matched by name where they have names; `variables` as in `Preparation`.
        """
        named = split_classes(tables, class_names, "sample matrix", SampleRows.can_read(tables))
        parts = {name: deferred(X, _matrix_of(name)) for name, X in named.items()}
        if check_choice("variables", variables, VARIABLES) == "same":
            names, parts = align_variables(named, parts, variable_names, both_axes=False)
            return cls(list(parts.values()), tuple(parts), names)
        columns, places = joined_variables({name: column_names(X) for name, X in named.items()}, variables)
        joined = [_on(read_matrix(part, name), at) for (name, part), at in zip(parts.items(), places, strict=True)]
        return cls(joined, tuple(parts), tuple(columns)).with_variables(variables)

    @classmethod
    def from_labels(cls, X: Any, y: Any = None, variable_names: Any = None) -> Samples:
        """Samples from one table and their labels, or the name of the column that holds them; None is one class."""
        X, y = labelled(X, y)
        whole = deferred(X, "X")
        rows = rows_by_class(whole.shape[0], y)
        if isinstance(whole, SampleRows):
            table = with_rows(X)
            parts: list[Any] = [SampleRows(table, members) for members in rows.values()]
        else:
            parts = [whole[members] for members in rows.values()]
        names = final_names(variable_names, column_names(X), whole.shape[1])
        return cls(parts, tuple(rows), names, given_rows=list(rows.values()))

    @property
    def matrices(self) -> list[FloatArray]:
        """The samples of each class; see `loaded` for those that are asked for more than once."""
        return [read_matrix(part, _matrix_of(name)) for name, part in zip(self.class_names, self.parts, strict=True)]

    def loaded(self) -> Samples:
        """The same with all numbers in memory."""
        return replace(self, parts=self.matrices)

    def one_by_one(self) -> Iterator[FloatArray]:
        """The samples of one class after the other, so that only one need be in memory; each value must be there."""
        for name, part in zip(self.class_names, self.parts, strict=True):
            X = read_matrix(part, _matrix_of(name))
            require_finite(X, name, self.variable_names)
            yield X

    @property
    def are_stored(self) -> bool:
        """Whether they lie in files, where workers elsewhere can read them."""
        return all(isinstance(part, SampleRows) and part.is_stored for part in self.parts)

    @property
    def rows(self) -> list[IntArray]:
        """Rows of the table they were given in; tables of single classes count one after another."""
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

    def with_parts(self, parts: Sequence[FloatArray]) -> Samples:
        """Other numbers in place of these, of the same classes and variables."""
        return replace(self, parts=parts, given_rows=None, computed={})

    def take(self, rows: Sequence[IntArray]) -> Samples:
        """Keep some samples of each class, by their position in the class."""
        return self.with_parts([X[members] for X, members in zip(self.matrices, rows, strict=True)])

    def in_order(self, class_names: Sequence[str]) -> Samples:
        """The same classes in another order."""
        at = [self.class_names.index(name) for name in class_names]
        rows, absent = self.rows, self.absent
        return replace(
            self,
            parts=[self.parts[k] for k in at],
            class_names=tuple(class_names),
            absent=None if absent is None else absent[at],
            given_rows=[rows[k] for k in at],
            computed={},
        )

    def with_variables(self, variables: str) -> Samples:
        """Deal with variables that have no value in a class: "union" takes them as absent, "intersection" drops them.

        "same" leaves them as they are, to be told of as missing values.
        """
        if check_choice("variables", variables, VARIABLES) == "same":
            return self
        matrices = self.matrices
        empty = np.array([np.isnan(X).all(axis=0) for X in matrices])
        if not empty.any():
            return self
        if variables == "union":
            filled = [np.where(lacks, 0.0, X) for X, lacks in zip(matrices, empty, strict=True)]
            return replace(self, parts=filled, absent=empty, computed={})
        kept = np.flatnonzero(~empty.any(axis=0))
        names = tuple(self.variable_names[i] for i in kept)
        if len(names) < 2:
            raise InputError(
                f"variables='intersection' leaves {len(names)} variables that all classes have.", "variables"
            )
        return replace(self, parts=[X[:, kept] for X in matrices], variable_names=names, computed={})

    def require_two(self) -> None:
        """Refuse classes without a covariance."""
        for name, size in zip(self.class_names, self.sizes.tolist(), strict=True):
            if size < 2:
                raise InputError(
                    f"Class {name!r} has {count(size, 'sample')}; a covariance needs at least 2: add "
                    "samples or leave the class out.",
                    class_name=name,
                )


def read_samples(X: Any, y: Any = None, variables: str = "same") -> Samples:
    """Samples of a table with labels or of a dict of tables by class; `variables` as in `Preparation`."""
    if isinstance(X, Mapping):
        if y is not None:
            raise InputError("y is given although the tables in X are already by class: leave y out.", "y")
        return Samples.by_class(X, variables=variables).loaded()
    if isinstance(X, Samples):
        return X.with_variables(variables)
    if getattr(X, "ndim", 2) == 3 or (isinstance(X, list | tuple) and len(X) and np.ndim(X[0]) == 2):
        raise InputError(
            "X is a stack of matrices: give samples as a table with labels y or as a dict of tables by class, and "
            "covariances as DenseCovariance(matrices, sample_sizes=[...]).",
            "X",
        )
    return Samples.from_labels(X, y).loaded().with_variables(variables)


def rows_by_class(n_samples: int, y: Any) -> dict[str, IntArray]:
    """Row numbers of each class, classes in order of appearance; without labels all rows are one class."""
    if y is None:
        return {ONE_CLASS: np.arange(n_samples)}
    return label_rows(n_samples, y)


def _matrix_of(class_name: str) -> str:
    return f"The sample matrix of class {class_name!r}"


def _on(X: FloatArray, columns: IntArray) -> FloatArray:
    """Some columns of a table; those numbered -1, which it does not have, are missing."""
    full = np.full((len(X), len(columns)), np.nan)
    full[:, columns >= 0] = X[:, columns[columns >= 0]]
    return full
