"""Protocol of a covariance source: tiles, blocks and entries of S_k on demand, without a dense p x p matrix.

Also functions of any source: its correlations, and a fingerprint that identifies the data of a run.
"""

from __future__ import annotations

import hashlib
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from jointglasso._threads import map_on_threads
from jointglasso._typing import BoolArray, FloatArray, IntArray
from jointglasso.data.checks import require_ordinary_variance


@runtime_checkable
class CovarianceSource(Protocol):
    """K covariance matrices S_k of the same p variables, read in parts.

    Examples
    --------
    >>> import jointglasso as jgl
    >>> source = jgl.DenseCovariance([[[1.0, 0.5], [0.5, 1.0]]])
    >>> isinstance(source, jgl.CovarianceSource), source.n_variables, source.class_names
    (True, 2, ('1',))
    """

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


@runtime_checkable
class StreamedSource(Protocol):
    """Source with fast float32 tiles and a rigorous bound on their rounding error.

    Screening reads the rounded tiles, and `entries` for the exact value of every undecided pair.
    """

    @property
    def device(self) -> str:
        """Device of the screening pass: "cpu", or one of `backends.SCANNERS`."""

    def unit_vectors(self, k: int) -> NDArray[np.float32]:
        """Array (p, n_k) whose row inner products are the rough correlations of class k."""

    def rough_correlations(
        self, k: int, rows: slice, columns: slice, out: NDArray[np.float32] | None = None
    ) -> NDArray[np.float32]:
        """``S_ij / sqrt(S_ii S_jj)`` of class k, with error at most `correlation_error(k)`; 0 where a variance is 0.

        Written into `out` if given: allocating memory for every tile takes as long as testing it.
        """

    def correlation_error(self, k: int) -> float:
        """Bound on the error of every rough correlation of class k."""


def absent_of(source: CovarianceSource) -> BoolArray | None:
    """(K, p): variables not measured in a class; None if all are measured.

    The covariances of an absent variable are zero and its variance is arbitrary: both are ignored.
    """
    absent: BoolArray | None = getattr(source, "absent", None)
    return absent


def is_source(S: Any) -> bool:
    """Whether S implements the protocol of a source, also by delegation, which `isinstance` does not detect."""
    return all(hasattr(S, name) for name in ("tile", "block", "entries", "diagonal"))


def as_source(S: Any) -> CovarianceSource:
    """Return a source unchanged; wrap an array (K, p, p), or a sequence or dict of p x p matrices."""
    from jointglasso.data.dense import DenseCovariance

    source: CovarianceSource = S if is_source(S) else DenseCovariance(S)
    for k, name in enumerate(source.class_names):
        require_ordinary_variance(source.diagonal(k), name, source.variable_names)
    return source


#: Entries sampled for the fingerprint of a source without ``content()``.
_SAMPLED = 100_000


def fingerprint(source: CovarianceSource) -> str:
    """Digest of the names and numbers of a source.

    A source with a method ``content()``, giving the arrays of each class that define it, is read in full. Of any other,
    the diagonals and a fixed random sample of entries are read.
    """
    digest = hashlib.blake2b(digest_size=16)
    for name in (*source.class_names, *source.variable_names):
        digest.update(name.encode("utf-8") + b"\0")
    read = getattr(source, "content", None)
    by_class = map_on_threads(
        (lambda k: _digest(read(k))) if read is not None else (lambda k: _digest(_sampled(source, k))),
        range(source.n_classes),
    )
    for part in by_class:
        digest.update(part)
    return digest.hexdigest()


def _digest(arrays: Any) -> bytes:
    digest = hashlib.blake2b(digest_size=16)
    for array in arrays:
        digest.update(str((array.shape, array.dtype.str)).encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.digest()


def _sampled(source: CovarianceSource, k: int) -> list[Any]:
    draw = np.random.default_rng(0)
    i, j = draw.integers(0, source.n_variables, (2, _SAMPLED))
    return [source.diagonal(k), source.entries(k, i, j)]


class CorrelationOf:
    """Correlations of another source, computed on demand; variables of variance 0 are uncorrelated, with variance 1."""

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
