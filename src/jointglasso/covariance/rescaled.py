"""The correlations of a covariance source."""

from __future__ import annotations

import numpy as np

from jointglasso._typing import FloatArray, IntArray
from jointglasso.covariance.source import CovarianceSource, absent_of


class CorrelationOf:
    """Source of the correlations that belong to the covariances of another source.

    Parameters
    ----------
    source : CovarianceSource
        Covariances, read piece by piece and divided by the standard deviations. A variable without variance is left
        alone: unit variance, no correlation.
    """

    def __init__(self, source: CovarianceSource) -> None:
        self._source, self.absent = source, absent_of(source)
        self.class_names, self.variable_names = source.class_names, source.variable_names
        self.n_classes, self.n_variables = source.n_classes, source.n_variables
        self.sample_sizes = source.sample_sizes
        roots = np.sqrt([source.diagonal(k) for k in range(source.n_classes)])
        self._inverse = np.divide(1.0, roots, out=np.zeros_like(roots), where=roots > 0)

    def tile(self, k: int, rows: slice, columns: slice) -> FloatArray:
        inverse = self._inverse[k]
        piece = self._source.tile(k, rows, columns) * np.outer(inverse[rows], inverse[columns])
        variables = np.arange(self.n_variables)
        _, i, j = np.intersect1d(variables[rows], variables[columns], return_indices=True)
        piece[i, j] = 1.0
        return piece

    def block(self, k: int, variables: IntArray) -> FloatArray:
        inverse = self._inverse[k][variables]
        R = self._source.block(k, variables) * np.outer(inverse, inverse)
        np.fill_diagonal(R, 1.0)
        return R

    def entries(self, k: int, rows: IntArray, columns: IntArray) -> FloatArray:
        inverse = self._inverse[k]
        values = self._source.entries(k, rows, columns) * inverse[rows] * inverse[columns]
        return np.where(rows == columns, 1.0, values)

    def diagonal(self, k: int) -> FloatArray:
        return np.ones(self.n_variables)
