"""One table of samples split by class: what resampling, missing values and rank correlations work on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from jointglasso._typing import BoolArray, FloatArray, IntArray
from jointglasso.validation import VARIABLES, InputError, check_choice, label_rows

#: Name of the only class where no labels are given.
ONE_CLASS = "all"


@dataclass(frozen=True)
class ClassSamples:
    """Samples of K classes, NaN where a value is missing."""

    matrices: list[FloatArray]
    class_names: tuple[str, ...]
    variable_names: tuple[str, ...]
    absent: BoolArray | None = None
    """(K, p): variables that a class lacks, whose columns are zero there; None where every class has them all."""
    share: float = 1.0
    """What a sample counts for in each class: less than 1 where it is in several, as in windows that overlap."""
    computed: dict[Any, Any] = field(default_factory=dict, repr=False, compare=False)
    """Covariances by their `Preparation`, so that whoever is handed the same samples need not compute them again."""

    @property
    def n_classes(self) -> int:
        """Number of classes K."""
        return len(self.matrices)

    @property
    def n_variables(self) -> int:
        """Number of variables p."""
        return int(self.matrices[0].shape[1])

    @property
    def sizes(self) -> IntArray:
        """Number of samples of each class."""
        return np.array([X.shape[0] for X in self.matrices], dtype=np.int64)

    @classmethod
    def from_labels(cls, X: FloatArray, y: Any, variable_names: Sequence[str] | None = None) -> ClassSamples:
        """Split the rows of `X` by the labels `y`; None is one class."""
        rows = rows_by_class(len(X), y)
        names = tuple(f"x{i}" for i in range(X.shape[1])) if variable_names is None else tuple(variable_names)
        return cls([X[members] for members in rows.values()], tuple(rows), names)

    def take(self, rows: Sequence[IntArray]) -> ClassSamples:
        """Keep some samples of each class, by their position in the class."""
        kept = [X[members] for X, members in zip(self.matrices, rows, strict=True)]
        return ClassSamples(kept, self.class_names, self.variable_names, self.absent, self.share)

    def with_variables(self, variables: str) -> ClassSamples:
        """Deal with variables that have no value in a class: "union" takes them as absent, "intersection" drops them.

        "same" leaves them as they are, to be told of as missing values.
        """
        empty = np.array([np.isnan(X).all(axis=0) for X in self.matrices])
        if check_choice("variables", variables, VARIABLES) == "same" or not empty.any():
            return self
        if variables == "intersection":
            kept = np.flatnonzero(~empty.any(axis=0))
            names = tuple(self.variable_names[i] for i in kept)
            if len(names) < 2:
                raise InputError(
                    f"variables='intersection' leaves {len(names)} variables that all classes have.", "variables"
                )
            return ClassSamples([X[:, kept] for X in self.matrices], self.class_names, names, share=self.share)
        filled = [np.where(lacks, 0.0, X) for X, lacks in zip(self.matrices, empty, strict=True)]
        return ClassSamples(filled, self.class_names, self.variable_names, empty, self.share)

    def as_dict(self) -> Mapping[str, FloatArray]:
        """Samples by class name."""
        return dict(zip(self.class_names, self.matrices, strict=True))


def rows_by_class(n_samples: int, y: Any) -> dict[str, IntArray]:
    """Row numbers of each class, classes in order of appearance; without labels all rows are one class."""
    if y is None:
        return {ONE_CLASS: np.arange(n_samples)}
    return label_rows(n_samples, y)
