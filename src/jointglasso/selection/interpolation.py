"""Covariances between the samples and a penalised estimate, the target of a partly relaxed refit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import sparse

from jointglasso._typing import FloatArray, IntArray
from jointglasso.data import CovarianceSource
from jointglasso.selection.likelihood import diagonal_blocks


class InterpolatedCovariance(CovarianceSource):
    """``phi_k S_k + (1 - phi_k) W_k`` with W_k the inverses of K sparse matrices, as far as a refit reads it.

    `block` takes the variables of whole connected components, `entries` positions on the support.
    """

    def __init__(self, source: CovarianceSource, precision: Sequence[Any], phi: FloatArray) -> None:
        self._source, self._phi = source, phi
        super().__init__(source.class_names, source.variable_names, source.sample_sizes)
        self._precision = [sparse.csr_array(Theta) for Theta in precision]
        self._W = [_inverse_on_support(Theta) for Theta in self._precision]

    def block(self, k: int, variables: IntArray) -> FloatArray:
        Theta = self._precision[k][variables][:, variables].toarray()
        return self._phi[k] * self._source.block(k, variables) + (1.0 - self._phi[k]) * np.linalg.inv(Theta)

    def entries(self, k: int, rows: IntArray, columns: IntArray) -> FloatArray:
        W = np.asarray(self._W[k][rows, columns]).ravel() if len(rows) else np.zeros(0)
        return self._phi[k] * self._source.entries(k, rows, columns) + (1.0 - self._phi[k]) * W

    def diagonal(self, k: int) -> FloatArray:
        return self._phi[k] * self._source.diagonal(k) + (1.0 - self._phi[k]) * self._W[k].diagonal()


def _inverse_on_support(Theta: Any) -> Any:
    """Entries of the inverse of a sparse matrix at its non-zeros, as a CSR matrix."""
    p = Theta.shape[0]
    isolated = np.ones(p, dtype=bool)
    pieces: list[tuple[Any, IntArray, IntArray]] = []
    for members, block in diagonal_blocks(Theta):
        isolated[members] = False
        rows, columns = np.nonzero(block)
        pieces.append((np.linalg.inv(block)[rows, columns], members[rows], members[columns]))
    single = np.flatnonzero(isolated)
    pieces.append((1.0 / Theta.diagonal()[single], single, single))
    values, rows, columns = (np.concatenate(part) for part in zip(*pieces, strict=True))
    return sparse.csr_array((values, (rows, columns)), shape=(p, p))
