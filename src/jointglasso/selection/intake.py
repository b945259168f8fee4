"""What a selection is given: tables, samples by class, or covariances alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from jointglasso._typing import IntArray
from jointglasso.covariance import CovarianceSource, is_source
from jointglasso.covariance.classes import Samples, read_samples
from jointglasso.covariance.prepare import Preparation
from jointglasso.selection.em import prepared
from jointglasso.validation import InputError


@dataclass(frozen=True)
class SelectionData:
    """Covariances of all samples, and the samples where they are known."""

    source: CovarianceSource
    samples: Samples | None
    preparation: Preparation
    notes: tuple[str, ...] = ()
    """What a reader of the results must know of the covariances, in sentences."""

    def require_samples(self, what: str) -> Samples:
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
    def rows(self) -> list[IntArray]:
        """Rows of the given table that belong to each class; empty where only covariances are known."""
        return [] if self.samples is None else self.samples.rows

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
        return SelectionData(X, None, preparation)
    samples = read_samples(X, y, preparation.variables)
    ready = prepared(preparation, samples)
    return SelectionData(ready.source, samples, preparation, ready.notes)
