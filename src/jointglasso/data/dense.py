"""Covariance matrices held in memory."""

from __future__ import annotations

from typing import Any

import numpy as np

from jointglasso._typing import FloatArray, IntArray
from jointglasso.data.checks import VARIABLES, check_choice, check_covariances, join_matrices
from jointglasso.data.source import CovarianceSource


class DenseCovariance(CovarianceSource):
    """K covariance matrices given as arrays.

    Parameters
    ----------
    matrices : array (K, p, p), or sequence or dict of K arrays (p, p)
        A single p x p matrix is one class. Data frames supply variable names; classes with another order of the
        variables are aligned by name. Float64 arrays are not copied; sparse matrices become dense.
    class_names, variable_names : sequence of str, optional
        Names used in messages and results.
    sample_sizes : sequence of int, optional
        Number of samples behind each matrix, needed for ``weights="sample_size"``.
    variables : {"same", "union", "intersection"}
        Treatment of data frames with different variables: refuse them; use all variables, where a pair exists
        in the classes that have both; or use those common to all classes.

    Examples
    --------
    >>> import jointglasso as jgl
    >>> S = {"ill": [[1.0, 0.5], [0.5, 1.0]], "well": [[1.0, 0.2], [0.2, 1.0]]}
    >>> source = jgl.DenseCovariance(S, sample_sizes=[40, 30])
    >>> source.class_names, source.n_variables, source.sample_sizes.tolist()
    (('ill', 'well'), 2, [40, 30])
    """

    def __init__(
        self,
        matrices: Any,
        *,
        class_names: Any = None,
        variable_names: Any = None,
        sample_sizes: Any = None,
        variables: str = "same",
    ) -> None:
        absent = None
        if check_choice("variables", variables, VARIABLES) != "same":
            matrices, variable_names, absent = join_matrices(matrices, class_names, variables)
            class_names = None
        checked = check_covariances(matrices, class_names, variable_names, sample_sizes)
        self._matrices, class_names, variable_names, sample_sizes = checked
        absent = absent if absent is not None and absent.any() else None
        super().__init__(class_names, variable_names, sample_sizes, absent)
        self._diagonals = [np.diagonal(S).copy() for S in self._matrices]

    def tile(self, k: int, rows: slice, columns: slice) -> FloatArray:
        return self._matrices[k][rows, columns]

    def block(self, k: int, variables: IntArray) -> FloatArray:
        return self._matrices[k][np.ix_(variables, variables)]

    def rows(self, k: int, rows: IntArray, columns: IntArray) -> FloatArray:
        """``S_k[rows][:, columns]`` from the upper triangle, since S_k may be asymmetric by rounding."""
        from jointglasso.kernels.scan import take_upper

        out = np.empty((len(rows), len(columns)))
        take_upper(self._matrices[k], rows, columns, out)
        return out

    def entries(self, k: int, rows: IntArray, columns: IntArray) -> FloatArray:
        return self._matrices[k][rows, columns]

    def diagonal(self, k: int) -> FloatArray:
        return self._diagonals[k]

    def content(self, k: int) -> list[FloatArray]:
        """Arrays that define class k, for the fingerprint of the data."""
        return [self._matrices[k]]
