"""Validation of covariance matrices: shape, symmetry, positive semidefiniteness."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from scipy import sparse

from jointglasso._lapack import factor_in_place
from jointglasso._threads import map_on_cores
from jointglasso._typing import BoolArray, FloatArray, IntArray
from jointglasso.data.checks import check_count, not_semidefinite
from jointglasso.data.naming import align_variables, split_classes
from jointglasso.data.table_checks import as_float_matrix
from jointglasso.errors import InputError, InputTypeError

#: Up to this size the definiteness of a covariance matrix is checked in full when it is given; beyond it every
#: pair of variables is checked by the screening pass and every block before it is solved.
FULL_CHECK_SIZE = 512


def check_covariances(
    matrices: Any, class_names: Any, variable_names: Any, sample_sizes: Any, variables: str
) -> tuple[list[FloatArray], tuple[str, ...], tuple[str, ...], IntArray | None, BoolArray | None]:
    """Check the shapes and names of K covariance matrices; `check_covariance` checks the numbers of each.

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
    sizes = _check_sample_sizes(sample_sizes, list(aligned))
    return list(aligned.values()), tuple(aligned), names, sizes, absent


def check_covariance(named: tuple[str, FloatArray], variable_names: Sequence[str]) -> None:
    """Refuse a matrix that is not finite, symmetric and (up to `FULL_CHECK_SIZE`) positive semidefinite."""
    from jointglasso.kernels.scan import first_asymmetry

    class_name, S = named
    with np.errstate(invalid="ignore"):
        scale = 1e-4 * np.sqrt(np.abs(np.diagonal(S)))
    code, i, j = first_asymmetry(S, np.where(np.isfinite(scale), scale, 0.0))
    if code == 1:
        raise InputError(
            f"The covariance matrix of class {class_name!r} holds {S[i, j]} at variables {variable_names[i]!r}, "
            f"{variable_names[j]!r}: remove or fill the missing values before computing it.",
            class_name=class_name,
            variable=variable_names[i],
        )
    if code == 2:
        raise InputError(
            f"The covariance matrix of class {class_name!r} is not symmetric at variables {variable_names[i]!r}, "
            f"{variable_names[j]!r} ({S[i, j]:.6g} and {S[j, i]:.6g}): use (S + S.T) / 2 if only rounding is to blame.",
            class_name=class_name,
            variable=variable_names[i],
        )
    negative = np.flatnonzero(np.diagonal(S) < 0)
    if len(negative):
        raise not_semidefinite(class_name, f"the variance of variable {variable_names[int(negative[0])]!r} is negative")
    if len(S) <= FULL_CHECK_SIZE and not is_semidefinite(S):
        smallest = float(np.linalg.eigvalsh(S)[0])
        raise not_semidefinite(class_name, f"smallest eigenvalue {smallest:.3g}")


def _check_sample_sizes(sample_sizes: Any, class_names: list[str]) -> IntArray | None:
    if sample_sizes is None:
        return None
    if not isinstance(sample_sizes, Iterable):
        kind = type(sample_sizes).__name__
        raise InputTypeError(
            f"sample_sizes must be a list of whole numbers, one per class, not {kind} {sample_sizes!r}.", "sample_sizes"
        )
    sizes = np.array([check_count("sample_sizes", n, 2) for n in sample_sizes], dtype=np.int64)
    if len(sizes) != len(class_names):
        raise InputError(
            f"sample_sizes has {len(sizes)} numbers, but there are {len(class_names)} classes: give one number each.",
            "sample_sizes",
        )
    return sizes


def semidefinite(flat: FloatArray, offset: IntArray, size: IntArray) -> BoolArray:
    """Mask of the positive semidefinite ones among symmetric matrices in flat storage, sorted by size.

    Scale invariant: variances are raised by a small fraction of themselves, as a tolerance for rounding.
    """
    from jointglasso.kernels.small_blocks import SMALL, semidefinite_blocks

    n_small = int(np.searchsorted(size, SMALL, side="right"))
    large_matrices = [
        flat[first : first + b * b].reshape(b, b) for first, b in zip(offset[n_small:], size[n_small:], strict=False)
    ]
    small = semidefinite_blocks(flat, offset, size, n_small)
    large = map_on_cores(is_semidefinite, large_matrices, work=sum(matrix.size for matrix in large_matrices))
    return np.concatenate([small, np.array(large, dtype=bool)])


def is_semidefinite(matrix: FloatArray) -> bool:
    """Whether a symmetric matrix has no eigenvalue below zero beyond rounding: Cholesky, in single precision first."""
    from jointglasso.kernels.small_blocks import FORGIVEN, FORGIVEN_EACH

    variance, b = np.diagonal(matrix), len(matrix)
    raised_variance = variance + (FORGIVEN + FORGIVEN_EACH * b) * np.where(variance == 0.0, 1.0, variance)
    for kind in (np.float32, np.float64):
        with np.errstate(over="ignore", under="ignore"):
            raised: Any = matrix.astype(kind, order="C")
            raised.flat[:: b + 1] = raised_variance
        if factor_in_place(raised) and np.isfinite(np.diagonal(raised)).all():  # LAPACK does not report infinities
            return True
        del raised
    return False
