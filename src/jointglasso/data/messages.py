"""Errors about the data that are detected while a problem is set up or solved."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from jointglasso._typing import BoolArray, FloatArray
from jointglasso._wording import count, listed
from jointglasso.errors import InputError, argument

#: Variances must lie between the inverse of this and this, or be zero.
LARGEST_VARIANCE = 1e60

#: Variances below this lose precision, because squares underflow to subnormal numbers.
_SMALLEST_VARIANCE = float(np.finfo(float).tiny / np.finfo(float).eps)


def require_sound_variance(
    variance: FloatArray, constant: BoolArray, class_name: str, variable_names: Sequence[str]
) -> None:
    """Refuse samples whose squares overflow, or underflow although they vary."""
    for bad, fate in (
        (~np.isfinite(variance), "overflows"),
        (~constant & (variance < _SMALLEST_VARIANCE), "is too small to be computed"),
    ):
        if bad.any():
            variable = variable_names[int(np.flatnonzero(bad)[0])]
            raise InputError(
                f"The variance of variable {variable!r} in class {class_name!r} {fate}: rescale the data, for instance "
                "by dividing each variable by its largest value.",
                class_name=class_name,
                variable=variable,
            )


def require_ordinary_variance(variance: FloatArray, class_name: str, variable_names: Sequence[str]) -> None:
    """Refuse variances so large or small that products of a few of them overflow or underflow."""
    ordinary = (variance <= LARGEST_VARIANCE) & ((variance >= 1.0 / LARGEST_VARIANCE) | (variance == 0))
    if not ordinary.all():
        first = int(np.flatnonzero(~ordinary)[0])
        raise InputError(
            f"The variance of variable {variable_names[first]!r} in class {class_name!r} is {variance[first]:.3g}, out "
            f"of the range from {1.0 / LARGEST_VARIANCE:g} to {LARGEST_VARIANCE:g}: rescale the data and the "
            "penalties.",
            class_name=class_name,
            variable=variable_names[first],
        )


def require_moderate_scores(Z: FloatArray, X: FloatArray, class_name: str, variable_names: Sequence[str]) -> None:
    """Refuse a held-out value so far from the training samples that the square of its loss overflows."""
    far = np.argwhere(np.abs(Z) > LARGEST_VARIANCE)
    if len(far):
        row, column = far[0]
        variable = variable_names[column]
        raise InputError(
            f"Class {class_name!r} has {X[row, column]:g} in variable {variable!r}, {abs(Z[row, column]):.1e} standard "
            "deviations from the mean of the other folds, too far for a held-out loss: correct or remove the sample.",
            "X",
            class_name=class_name,
            variable=variable,
        )


def require_varying(constant: BoolArray, class_name: str, variable_names: Sequence[str]) -> None:
    """Refuse variables that are constant in a class, since they have no correlation."""
    if constant.any():
        names = [variable_names[i] for i in np.flatnonzero(constant).tolist()]
        raise InputError(
            f"{count(len(names), 'variable')} {'is' if len(names) == 1 else 'are'} constant in class {class_name!r} "
            f"({listed(names, 5)}), without a correlation there: drop them, or set {argument('constant', 'isolate')} "
            "to keep them without edges in that class.",
            class_name=class_name,
            variable=names[0],
            parameter="constant",
        )


def require_bounded(
    diagonal: FloatArray, diagonal_penalty: float, class_name: str, variable_names: Sequence[str]
) -> None:
    """Refuse zero variances with an unpenalised diagonal: the precision would be infinite."""
    if diagonal_penalty > 0:
        return
    flat = np.flatnonzero(diagonal <= 0)
    if len(flat):
        raise InputError(
            f"Variable {variable_names[int(flat[0])]!r} has zero variance in class {class_name!r}, so its precision "
            "would be infinite: drop it, or penalise the diagonal with lambda1 > 0.",
            class_name=class_name,
            variable=variable_names[int(flat[0])],
        )


def not_semidefinite(class_name: str, detail: str) -> InputError:
    """Build the error for a covariance matrix with a negative eigenvalue."""
    return InputError(
        f"The covariance matrix of class {class_name!r} is not positive semidefinite ({detail}): it is no covariance "
        "matrix of complete samples; recompute it without missing values, or project it onto its positive part.",
        class_name=class_name,
    )


def no_minimum(class_name: str) -> InputError:
    """Build the error for a singular covariance matrix of variables that are not penalised."""
    return InputError(
        f"The covariance matrix of class {class_name!r} is singular where nothing is penalised, so the likelihood has "
        "no maximum: set lambda1 or lambda2 above 0, and no pair weight to 0.",
        class_name=class_name,
    )


def no_common_minimum(class_names: Sequence[str], reason: str) -> InputError:
    """Build the error for directions that cost nothing if only differences between classes are penalised."""
    return InputError(
        f"With lambda1 = 0 only differences between the classes {', '.join(class_names)} are penalised, and {reason}, "
        "so the objective has no minimum: set lambda1 above 0, or take fewer variables.",
        "lambda1",
    )


def indefinite_start(class_name: str, fault: str) -> InputError:
    """Build the error for a warm start outside the domain of the objective."""
    return InputError(
        f"The warm_start matrix of class {class_name!r} is not {fault}: give precision matrices, such as "
        "those of an earlier solution, or leave warm_start out.",
        class_name=class_name,
    )


def impossible_pair(class_name: str, first: str, second: str) -> InputError:
    """Build the error for a covariance larger than the two standard deviations allow."""
    return not_semidefinite(class_name, f"|S_ij| > sqrt(S_ii S_jj) for variables {first!r} and {second!r}")
