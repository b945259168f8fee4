"""The table that `read_table` returns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import compress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jointglasso._typing import BoolArray, FloatArray, IntArray
from jointglasso._wording import count, nearest
from jointglasso.data import CovarianceSource
from jointglasso.data.checks import InputError, InputTypeError, check_choice, known_arguments
from jointglasso.data.samples import Samples


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
