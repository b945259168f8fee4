"""Covariance sources: S_k by tiles, blocks and entries, without a dense p x p matrix; matrices in memory, checked.

Also functions of any source: its correlations, and a fingerprint that identifies the data of a run.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np
from scipy import sparse

from jointglasso._display import SHOWN
from jointglasso._lapack import factor_in_place
from jointglasso._threads import map_on_cores, map_on_threads
from jointglasso._typing import BoolArray, FloatArray, IntArray
from jointglasso._wording import count
from jointglasso.data.checks import check_count, not_semidefinite, require_ordinary_variance
from jointglasso.data.naming import align_variables, split_classes
from jointglasso.data.table_checks import as_float_matrix
from jointglasso.errors import InputError, InputTypeError

#: Up to this size the definiteness of a covariance matrix is checked in full when it is given; beyond it every
#: pair of variables is checked by the screening pass and every block before it is solved.
FULL_CHECK_SIZE = 512

#: Tolerance of the test for semidefiniteness relative to a variance, and its increase per variable: the rounding errors
#: of covariances computed in single precision.
FORGIVEN, FORGIVEN_EACH = 1e-8, 1e-7

#: Side of the tiles in which a matrix is compared with its transpose.
TILE = 256

#: Entries that `CovarianceSource.content` samples.
_SAMPLED = 100_000


class CovarianceSource(ABC):
    """K covariance matrices S_k (p, p) of the same variables, read in parts; base class of all sources.

    A subclass calls this constructor and implements `entries`. The other methods have defaults that read single
    entries; override `tile`, `block` and `rows` where parts of S_k can be computed faster.

    Parameters
    ----------
    class_names, variable_names : tuple of str
        One name per class (K) and per variable (p).
    sample_sizes : array (K,), optional
        Number of samples of each class, where known.
    absent : boolean array (K, p), optional
        Variables not measured in a class; None if all are measured. The covariances of an absent variable are zero
        and its variance is arbitrary: both are ignored.

    Examples
    --------
    >>> import numpy as np
    >>> import jointglasso as jgl
    >>> class Decaying(jgl.CovarianceSource):
    ...     def entries(self, k, rows, columns):
    ...         return 0.5 ** np.abs(rows - columns)
    >>> jgl.solve(Decaying(("1",), ("a", "b", "c")), 0.3, 0.0).n_edges
    [2]
    """

    #: Whether every S_k is positive semidefinite, by construction or checked in full: blocks need not be checked.
    is_semidefinite = False

    sample_sizes: IntArray | None = None
    absent: BoolArray | None = None

    def __init__(
        self,
        class_names: tuple[str, ...],
        variable_names: tuple[str, ...],
        sample_sizes: IntArray | None = None,
        absent: BoolArray | None = None,
    ) -> None:
        self.class_names, self.variable_names = class_names, variable_names
        self.n_classes, self.n_variables = len(class_names), len(variable_names)
        self.sample_sizes, self.absent = sample_sizes, absent

    def __repr__(self) -> str:
        sizes = [""] * self.n_classes if self.sample_sizes is None else [f" ({n:,})" for n in self.sample_sizes]
        classes = ", ".join(f"{name}{size}" for name, size in zip(self.class_names[:SHOWN], sizes, strict=False))
        more = "" if self.n_classes <= SHOWN else f" and {self.n_classes - SHOWN} more"
        matrices = f"{getattr(self, 'scale', 'covariance')}s of {count(self.n_variables, 'variable')}"
        return f"<{type(self).__name__}: {matrices} in {count(self.n_classes, 'class')}: {classes}{more}>"

    @abstractmethod
    def entries(self, k: int, rows: IntArray, columns: IntArray) -> FloatArray:
        """``S_k[rows[e], columns[e]]`` for every e."""

    def rows(self, k: int, rows: IntArray, columns: IntArray) -> FloatArray:
        """``S_k[rows][:, columns]``, exactly symmetric: from the upper triangle."""
        first, second = np.repeat(rows, len(columns)), np.tile(columns, len(rows))
        upper = self.entries(k, np.minimum(first, second), np.maximum(first, second))
        return upper.reshape(len(rows), len(columns))

    def block(self, k: int, variables: IntArray) -> FloatArray:
        """``S_k[variables, variables]``, a fresh symmetric array."""
        return self.rows(k, variables, variables)

    def tile(self, k: int, rows: slice, columns: slice) -> FloatArray:
        """``S_k[rows, columns]``."""
        variables = np.arange(self.n_variables)
        return self.rows(k, variables[rows], variables[columns])

    def diagonal(self, k: int) -> FloatArray:
        """Diagonal of ``S_k``."""
        variables = np.arange(self.n_variables)
        return self.entries(k, variables, variables)

    def content(self, k: int) -> list[FloatArray]:
        """Arrays that identify class k, for the fingerprint: by default the diagonal and a random sample of entries."""
        i, j = np.random.default_rng(0).integers(0, self.n_variables, (2, _SAMPLED))
        return [self.diagonal(k), self.entries(k, i, j)]


def as_source(S: Any) -> CovarianceSource:
    """Return a `CovarianceSource` unchanged; wrap an array (K, p, p), or a sequence or dict of p x p matrices."""
    source: CovarianceSource = S if isinstance(S, CovarianceSource) else DenseCovariance(S)
    for k, name in enumerate(source.class_names):
        require_ordinary_variance(source.diagonal(k), name, source.variable_names)
    return source


def fingerprint(source: CovarianceSource) -> str:
    """Digest of the names and numbers of a source.

    Sources that override `CovarianceSource.content` are read in full.
    """
    digest = hashlib.blake2b(digest_size=16)
    for name in (*source.class_names, *source.variable_names):
        digest.update(name.encode("utf-8") + b"\0")
    for part in map_on_threads(lambda k: _digest(source.content(k)), range(source.n_classes)):
        digest.update(part)
    return digest.hexdigest()


def _digest(arrays: Any) -> bytes:
    digest = hashlib.blake2b(digest_size=16)
    for array in arrays:
        digest.update(str((array.shape, array.dtype.str)).encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.digest()


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
        checked = _check_covariances(matrices, class_names, variable_names, sample_sizes, variables)
        self._matrices, class_names, variable_names, sample_sizes, absent = checked
        named = list(zip(class_names, self._matrices, strict=True))
        check = partial(_check_covariance, variable_names=variable_names)
        map_on_threads(check, named, work=sum(S.size for S in self._matrices))
        super().__init__(class_names, variable_names, sample_sizes, absent)
        self.is_semidefinite = self.n_variables <= FULL_CHECK_SIZE
        self._diagonals = [S.diagonal().copy() for S in self._matrices]

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


def _check_covariances(
    matrices: Any, class_names: Any, variable_names: Any, sample_sizes: Any, variables: str
) -> tuple[list[FloatArray], tuple[str, ...], tuple[str, ...], IntArray | None, BoolArray | None]:
    """Check the shapes and names of K covariance matrices; `_check_covariance` checks the numbers of each.

    Returns the matrices with aligned variables, the names of classes and variables, the sample sizes, and the mask
    (K, p) of absent variables.
    """
    single = sparse.issparse(matrices) or (isinstance(matrices, np.ndarray) and matrices.ndim == 2)
    named = split_classes(matrices, class_names, "covariance matrix", single)
    arrays = {name: as_float_matrix(S, f"The covariance matrix of class {name!r}") for name, S in named.items()}
    for name, S in arrays.items():
        if S.shape[0] != S.shape[1]:
            raise InputError(
                f"The covariance matrix of class {name!r} has shape {S.shape}, which is not square; "
                "for a table of samples use SampleCovariance.",
                class_name=name,
            )
    names, aligned, absent = align_variables(named, arrays, variable_names, variables, both_axes=True)
    sizes = _check_sample_sizes(sample_sizes, len(aligned))
    return list(aligned.values()), tuple(aligned), names, sizes, absent


def first_asymmetry(matrix: FloatArray, scale: FloatArray) -> tuple[int, int] | None:
    """First entry that is not finite, or differs from its mirror image by more than ``scale[i] * scale[j]``."""
    for row in range(0, len(matrix), TILE):
        rows = slice(row, row + TILE)
        for column in range(row, len(matrix), TILE):  # tiles of both triangles stay in cache
            columns = slice(column, column + TILE)
            # A NaN fails every comparison, so that the negation of one test detects both faults.
            with np.errstate(all="ignore"):
                error = np.abs(matrix[rows, columns] - matrix[columns, rows].T)
                wrong = ~(error <= np.outer(scale[rows], scale[columns]))
            if wrong.any():
                i, j = np.argwhere(np.triu(wrong) if row == column else wrong)[0].tolist()
                i, j = row + i, column + j
                return (i, j) if np.isfinite(matrix[j, i]) or not np.isfinite(matrix[i, j]) else (j, i)
    return None


def _check_covariance(named: tuple[str, FloatArray], variable_names: Sequence[str]) -> None:
    """Refuse a matrix that is not finite, symmetric and (up to `FULL_CHECK_SIZE`) positive semidefinite."""
    class_name, S = named
    variance = S.diagonal()
    scale = 1e-4 * np.sqrt(np.abs(variance))
    fault = first_asymmetry(S, np.where(np.isfinite(scale), scale, 0.0))
    i, j = (0, 0) if fault is None else fault
    if fault is not None and not np.isfinite(S[i, j]):
        raise InputError(
            f"The covariance matrix of class {class_name!r} holds {S[i, j]} at variables {variable_names[i]!r}, "
            f"{variable_names[j]!r}: remove or fill the missing values before computing it.",
            class_name=class_name,
            variable=variable_names[i],
        )
    if fault is not None:
        raise InputError(
            f"The covariance matrix of class {class_name!r} is not symmetric at variables {variable_names[i]!r}, "
            f"{variable_names[j]!r} ({S[i, j]:.6g} and {S[j, i]:.6g}): use (S + S.T) / 2 if only rounding is to blame.",
            class_name=class_name,
            variable=variable_names[i],
        )
    negative = np.flatnonzero(variance < 0)
    if len(negative):
        raise not_semidefinite(class_name, f"the variance of variable {variable_names[int(negative[0])]!r} is negative")
    if len(S) <= FULL_CHECK_SIZE and not is_semidefinite(S):
        smallest = float(np.linalg.eigvalsh(S)[0])
        raise not_semidefinite(class_name, f"smallest eigenvalue {smallest:.3g}")


def _check_sample_sizes(sample_sizes: Any, n_classes: int) -> IntArray | None:
    if sample_sizes is None:
        return None
    if not isinstance(sample_sizes, Iterable):
        wanted = "a list of whole numbers, one per class"
        actual = f"{type(sample_sizes).__name__} {sample_sizes!r}"
        raise InputTypeError(f"sample_sizes must be {wanted}, not {actual}.", "sample_sizes")
    sizes = np.array([check_count("sample_sizes", n, 2) for n in sample_sizes], dtype=np.int64)
    if len(sizes) != n_classes:
        problem = f"sample_sizes has {len(sizes)} numbers, but there are {n_classes} classes"
        raise InputError(f"{problem}: give one number each.", "sample_sizes")
    return sizes


def semidefinite(flat: FloatArray, offset: IntArray, size: IntArray) -> BoolArray:
    """Mask of the positive semidefinite ones among symmetric matrices in flat storage, sorted by size.

    Scale invariant: variances are raised by a small fraction of themselves, as a tolerance for rounding.
    """
    from jointglasso.kernels.dense import SMALL, factor_and_invert

    n_small = int(np.searchsorted(size, SMALL, side="right"))
    b = size[:n_small]
    raised, width = flat[: int((b * b).sum())].copy(), np.repeat(b, b)
    slot = np.arange(len(width)) - np.repeat(np.cumsum(b) - b, b)
    diagonal = np.repeat(offset[:n_small], b) + slot * (width + 1)
    raised[diagonal] = _raised(raised[diagonal], width)
    small = np.ones(n_small, dtype=bool)
    factor_and_invert(raised, offset, size, small.copy(), np.empty_like(raised), np.empty(n_small), small)
    large_matrices = [
        flat[first : first + b * b].reshape(b, b) for first, b in zip(offset[n_small:], size[n_small:], strict=False)
    ]
    large = map_on_cores(is_semidefinite, large_matrices, work=sum(matrix.size for matrix in large_matrices))
    return np.concatenate([small, np.array(large, dtype=bool)])


def _raised(variance: FloatArray, size: Any) -> FloatArray:
    """Diagonal of a block of a given size, raised by the tolerance of the test for semidefiniteness."""
    raised: FloatArray = variance + (FORGIVEN + FORGIVEN_EACH * size) * np.where(variance == 0.0, 1.0, variance)
    return raised


def is_semidefinite(matrix: FloatArray) -> bool:
    """Whether a symmetric matrix has no eigenvalue below zero beyond rounding: Cholesky, in single precision first."""
    b = len(matrix)
    raised_variance = _raised(matrix.diagonal(), b)
    for kind in (np.float32, np.float64):
        with np.errstate(over="ignore", under="ignore"):
            raised: Any = matrix.astype(kind, order="C")
            raised.flat[:: b + 1] = raised_variance
        if factor_in_place(raised) and np.isfinite(raised.diagonal()).all():  # LAPACK does not report infinities
            return True
        del raised
    return False
