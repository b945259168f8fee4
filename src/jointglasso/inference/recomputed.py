"""Resamples of the data: rows of the scores, or correlations recomputed where no scores have them.

Polychoric, polyserial and Spearman's correlations and those of pairs of observed values are not the correlations of
any scores of the samples. They are recomputed for every resample; p + 1 artificial scores with these correlations then
take the place of the samples.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.linalg import helmert

from jointglasso._typing import FloatArray, IntArray
from jointglasso.data import CovarianceSource
from jointglasso.data.ordinal import ordinal_variables
from jointglasso.data.prepare import Preparation
from jointglasso.data.ranks import NormalScores
from jointglasso.data.samples import Samples


@dataclass(frozen=True)
class Recomputed:
    """Samples of K classes, and how their correlations are computed."""

    samples: Samples
    preparation: Preparation

    @property
    def sizes(self) -> list[int]:
        """Samples of each class."""
        return self.samples.sizes.tolist()

    def take(self, rows: Sequence[IntArray]) -> list[FloatArray]:
        """Scores of a resample, given the rows of each class."""
        return self._scores(self.samples.take(rows))

    def permuted(self, order: IntArray) -> list[FloatArray]:
        """Scores of the classes after a permutation of the pooled rows."""
        pooled = np.vstack(self.samples.matrices)[order]
        return self._scores(self.samples.with_parts(np.split(pooled, np.cumsum(self.sizes)[:-1])))

    def with_margins_removed(self) -> Recomputed:
        """The same with normal scores within each class for the variables that are not ordinal.

        Rows can then be permuted between classes of different means, variances and margins.
        """
        if self.preparation.association == "pearson":
            parts = [(X - np.nanmean(X, axis=0)) / np.nanstd(X, axis=0) for X in self.samples.matrices]
            return Recomputed(self.samples.with_parts(parts), self.preparation)
        mixed = self.preparation.association == "mixed"
        ordinal = ordinal_variables(self.samples) if mixed else np.zeros(self.samples.n_variables, dtype=bool)
        parts = [np.where(ordinal, X, NormalScores(X).scores) for X in self.samples.matrices]
        return Recomputed(self.samples.with_parts(parts), self.preparation)

    def correlations(self, samples: Samples) -> list[FloatArray]:
        """Correlation matrices (p, p) of a resample."""
        return _matrices(self.preparation.for_resamples()(samples).source)

    def _scores(self, samples: Samples) -> list[FloatArray]:
        return [scores_with(R) for R in self.correlations(samples)]


@dataclass(frozen=True)
class Scores:
    """Scores (n_k, p) of K classes, whose rows are the resampled units."""

    parts: list[FloatArray]

    @property
    def sizes(self) -> list[int]:
        """Rows of each class."""
        return [len(Z) for Z in self.parts]

    def take(self, rows: Sequence[IntArray]) -> list[FloatArray]:
        """Rows of each class."""
        return [Z[drawn] for Z, drawn in zip(self.parts, rows, strict=True)]

    def permuted(self, order: IntArray) -> list[FloatArray]:
        """Classes after a permutation of the pooled rows."""
        return np.split(np.vstack(self.parts)[order], np.cumsum(self.sizes)[:-1])


def original_scores(source: CovarianceSource) -> list[FloatArray]:
    """Artificial scores with the correlations of every class of `source`."""
    return [scores_with(R) for R in _matrices(source)]


def _matrices(source: CovarianceSource) -> list[FloatArray]:
    every = slice(0, source.n_variables)
    return [source.tile(k, every, every) for k in range(len(source.class_names))]


def scores_with(R: FloatArray) -> FloatArray:
    """(p + 1, p): centred columns whose correlations are `R`."""
    values, vectors = np.linalg.eigh(R)
    root = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
    return np.asarray(np.sqrt(len(R) + 1.0) * helmert(len(R) + 1).T @ root)


def resampled_rows(subjects: list[IntArray] | None, sizes: Sequence[int], rng: np.random.Generator) -> list[IntArray]:
    """Bootstrap rows of each class, drawn with replacement; by subject where `subjects` are known."""
    if subjects is None:
        return [rng.integers(0, n, n) for n in sizes]
    return [_draw_subjects(class_subjects, rng) for class_subjects in subjects]


def _draw_subjects(subjects: IntArray, rng: np.random.Generator) -> IntArray:
    drawn = rng.integers(0, subjects.max() + 1, subjects.max() + 1)
    rows: IntArray = np.concatenate([np.flatnonzero(subjects == subject) for subject in drawn])
    return rows
