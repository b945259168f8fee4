"""Covariance matrices as they are given."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from jointglasso._threads import map_on_threads
from jointglasso._typing import FloatArray, IntArray
from jointglasso.errors import InputError, InputTypeError
from jointglasso.validation.definiteness import is_semidefinite
from jointglasso.validation.errors import not_semidefinite
from jointglasso.validation.naming import align_variables, split_classes
from jointglasso.validation.options import check_count
from jointglasso.validation.tables import as_float_matrix

#: Up to this size the definiteness of a covariance matrix is checked in full when it is given; beyond it every
#: pair of variables is checked by the screening pass and every block before it is solved.
FULL_CHECK_SIZE = 512


@dataclass(frozen=True)
class CheckedMatrices:
    """Matrices that passed the checks, variables in the same order in all classes."""

    matrices: list[FloatArray]
    class_names: tuple[str, ...]
    variable_names: tuple[str, ...]
    sample_sizes: IntArray | None = None


def check_covariances(
    matrices: Any, class_names: Any = None, variable_names: Any = None, sample_sizes: Any = None
) -> CheckedMatrices:
    """Check K covariance matrices: square, same size, finite, symmetric, positive semidefinite, names aligned."""
    single = hasattr(matrices, "toarray") or (isinstance(matrices, np.ndarray) and matrices.ndim == 2)
    named = split_classes(matrices, class_names, "covariance matrix", single)
    arrays = {name: as_float_matrix(S, f"The covariance matrix of class {name!r}") for name, S in named.items()}
    for name, S in arrays.items():
        if S.shape[0] != S.shape[1]:
            raise InputError(
                f"The covariance matrix of class {name!r} has shape {S.shape}, which is not square; "
                "for a table of samples use SampleCovariance.",
                class_name=name,
            )
    names, aligned = align_variables(named, arrays, variable_names, both_axes=True)
    work = sum(S.size for S in aligned.values())
    map_on_threads(lambda item: _check_covariance(item[1], item[0], names), list(aligned.items()), work=work)
    sizes = _check_sample_sizes(sample_sizes, list(aligned))
    return CheckedMatrices(list(aligned.values()), tuple(aligned), names, sizes)


def _check_covariance(S: FloatArray, class_name: str, variable_names: Sequence[str]) -> None:
    _check_symmetric(S, class_name, variable_names)
    _check_semidefinite(S, class_name, variable_names)


def _check_symmetric(S: FloatArray, class_name: str, variable_names: Sequence[str]) -> None:
    from jointglasso.kernels.scan import first_asymmetry

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


def _check_semidefinite(S: FloatArray, class_name: str, variable_names: Sequence[str]) -> None:
    negative = np.flatnonzero(np.diagonal(S) < 0)
    if len(negative):
        raise not_semidefinite(class_name, f"the variance of variable {variable_names[int(negative[0])]!r} is negative")
    if len(S) <= FULL_CHECK_SIZE and not is_semidefinite(S):
        smallest = float(np.linalg.eigvalsh(S)[0])
        raise not_semidefinite(class_name, f"smallest eigenvalue {smallest:.3g}")


def _check_sample_sizes(sample_sizes: Any, class_names: list[str]) -> IntArray | None:
    if sample_sizes is None:
        return None
    if not hasattr(sample_sizes, "__iter__"):
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
