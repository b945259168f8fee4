"""The contract of a covariance source: pieces of S_k on demand, so that a p x p matrix need never exist."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

from jointglasso._typing import FloatArray, IntArray


@runtime_checkable
class CovarianceSource(Protocol):
    """K covariance matrices of the same p variables, read piece by piece."""

    @property
    def n_classes(self) -> int:
        """Number of classes K."""

    @property
    def n_variables(self) -> int:
        """Number of variables p."""

    @property
    def class_names(self) -> tuple[str, ...]:
        """One name per class."""

    @property
    def variable_names(self) -> tuple[str, ...]:
        """One name per variable."""

    @property
    def sample_sizes(self) -> IntArray | None:
        """Number of samples of each class, where known."""

    def tile(self, k: int, rows: slice, columns: slice) -> FloatArray:
        """``S_k[rows, columns]``."""

    def block(self, k: int, variables: IntArray) -> FloatArray:
        """``S_k[variables, variables]``, a fresh symmetric array."""

    def entries(self, k: int, rows: IntArray, columns: IntArray) -> FloatArray:
        """``S_k[rows[e], columns[e]]`` for every e."""

    def diagonal(self, k: int) -> FloatArray:
        """Diagonal of ``S_k``."""


def as_source(S: Any) -> CovarianceSource:
    """Take a source as it is; wrap an array (K, p, p), or a sequence or dict of p x p matrices."""
    from jointglasso.covariance.dense import DenseCovariance

    if isinstance(S, CovarianceSource):
        return S
    return DenseCovariance(S)
