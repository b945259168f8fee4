"""Validation of the input: errors state in one sentence what is wrong and what to do."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import wraps
from inspect import signature
from numbers import Integral, Real
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import numpy as np
from scipy import sparse

from jointglasso._threads import available_cores
from jointglasso._typing import BoolArray, FloatArray, IntArray
from jointglasso._wording import count, listed, nearest
from jointglasso.errors import InputError as InputError, InputTypeError as InputTypeError, argument

#: Upper bounds of penalties and of class weights (and of the inverse weights): products with variances must not
#: overflow.
LARGEST_PENALTY, LARGEST_WEIGHT = 1e75, 1e15

P = ParamSpec("P")
R = TypeVar("R")


def known_arguments(*passed_on_to: Callable[..., Any], **advice: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Refuse unknown keyword arguments with the most similar names, and those in `advice` with a sentence.

    The keyword arguments that a function collects are those of the functions `passed_on_to`.
    """

    def wrap(function: Callable[P, R]) -> Callable[P, R]:
        named = [name for name, kind in signature(function).parameters.items() if kind.kind != kind.VAR_KEYWORD]
        parameters = signature(function).parameters.values()
        n_positional = sum(kind.kind in (kind.POSITIONAL_ONLY, kind.POSITIONAL_OR_KEYWORD) for kind in parameters)
        known = [*named, *(name for target in passed_on_to for name in signature(target).parameters)]
        where = function.__qualname__.removesuffix(".__init__")

        @wraps(function)
        def refusing(*args: P.args, **kwargs: P.kwargs) -> R:
            if len(args) > n_positional:
                first = ", ".join(word for word in named[:n_positional] if word != "self")
                extra = named[min(n_positional, len(named) - 1)]
                raise InputTypeError(f"{where} takes {first} in this order; other arguments need their names.", extra)
            for name in kwargs:
                if name in named[: len(args)]:
                    first = ", ".join(word for word in named[: len(args)] if word != "self")
                    raise InputTypeError(f"{name}= is given twice: {where} takes {first} in this order.", name)
                if name in advice:
                    raise InputTypeError(f"{name}= is not an argument of {where}: {advice[name]}.", name)
                if name not in known:
                    similar = nearest(name, [word for word in known if word != "self"])
                    raise InputTypeError(f"{name}= is not an argument of {where} ({similar}).", name)
            return function(*args, **kwargs)

        return refusing

    return wrap


def check_choice(name: str, value: Any, choices: Iterable[str]) -> str:
    """Return `value` if it is one of `choices`; else raise InputError with the list."""
    valid = list(choices)
    if isinstance(value, str) and value in valid:
        return value
    listed = ", ".join(repr(choice) for choice in valid)
    raise InputError(f"{argument(name, value)} is not known; choose one of {listed}.", parameter=name)


def check_nonnegative(name: str, value: Any) -> float:
    """Return `value` as a float when it is a finite number >= 0."""
    number = _finite(name, value, ">= 0")
    if number > LARGEST_PENALTY:
        raise InputError(
            f"{argument(name, number)} is above {LARGEST_PENALTY:g}: rescale the data, or give a smaller number.",
            parameter=name,
        )
    return number


def check_positive(name: str, value: Any) -> float:
    """Return `value` as a float when it is a finite number > 0."""
    return _finite(name, value, "> 0")


def _finite(name: str, value: Any, bound: str) -> float:
    """Return `value` as a float when it is a finite number within the `bound`, "> 0" or ">= 0"."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise InputTypeError(f"{name} must be a number {bound}, not {type(value).__name__} {value!r}.", parameter=name)
    number = float(value)
    if not np.isfinite(number) or number < 0 or (number == 0 and bound == "> 0"):
        raise InputError(f"{argument(name, number)} must be a finite number {bound}.", parameter=name)
    return number


def check_jobs(n_jobs: Any) -> int | None:
    """Return the number of jobs: None, a whole number >= 1, or all cores for -1."""
    if isinstance(n_jobs, Integral) and n_jobs == -1:
        return available_cores()
    return None if n_jobs is None else check_count("n_jobs", n_jobs)


def check_path(name: str, value: Any) -> Path | None:
    """Return `value` as a path when it is one, or None."""
    if value is not None and not isinstance(value, str | os.PathLike):
        raise InputTypeError(
            f"{name} must be the path of a folder, not {type(value).__name__} {value!r}.", parameter=name
        )
    return None if value is None else Path(value)


def check_mapping(name: str, value: Any, content: str) -> None:
    """Refuse what is not a dict; `content` says what it would hold."""
    if not isinstance(value, Mapping):
        raise InputTypeError(f"{name} must be a dict {content}, not {type(value).__name__} {value!r}.", parameter=name)


def check_switch(name: str, value: Any) -> bool:
    """Return a boolean `value`; other types are refused, since a string such as "no" is truthy."""
    if not isinstance(value, bool | np.bool_):
        raise InputTypeError(f"{name} must be True or False, not {value!r}.", parameter=name)
    return bool(value)


def check_callback(value: Any) -> Any:
    """Return `value` when it is None or can be called."""
    if value is not None and not callable(value):
        text = f"callback must be callable with one Iteration, not {type(value).__name__} {value!r}."
        raise InputTypeError(text, parameter="callback")
    return value


def check_warm_start(matrices: Any, class_names: Sequence[str], n_variables: int) -> list[Any]:
    """Return the K matrices of a warm start in sparse form if they are finite and symmetric, of the right shape."""
    shape, n_classes = (n_variables, n_variables), len(class_names)
    wanted = f"warm_start must be a Solution or hold {n_classes} matrices of shape {shape}, one per class"
    if not isinstance(matrices, Sequence | np.ndarray) or isinstance(matrices, str):
        raise InputTypeError(f"{wanted}, not {type(matrices).__name__} {matrices!r}.", "warm_start")
    if [np.shape(matrix) for matrix in matrices] != [shape] * n_classes:
        raise InputError(f"{wanted}.", "warm_start")
    checked = [sparse.csr_array(matrix) for matrix in matrices]
    for name, Theta in zip(class_names, checked, strict=True):
        if not np.isfinite(Theta.data).all():
            raise indefinite_start(name, "finite")
        asymmetry, root = sparse.coo_array(abs(Theta - Theta.T)), np.sqrt(np.abs(Theta.diagonal()))
        if (asymmetry.data > 1e-6 * root[asymmetry.row] * root[asymmetry.col]).any():
            raise indefinite_start(name, "symmetric")
    return checked


def check_count(name: str, value: Any, minimum: int = 1) -> int:
    """Return `value` as an int when it is a whole number of at least `minimum`."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise InputTypeError(
            f"{name} must be a whole number >= {minimum}, not {type(value).__name__} {value!r}.", parameter=name
        )
    if value < minimum:
        raise InputError(f"{argument(name, int(value))} must be at least {minimum}.", parameter=name)
    return int(value)


def check_weights(weights: Any, class_names: Sequence[str], sample_sizes: IntArray | None) -> FloatArray:
    """Class weights w_k as an array (K,).

    None or "equal" (ones), "sample_size" (n_k / sum n), "sqrt_sample_size" (sqrt(n_k / mean n), for equal
    sampling noise in all classes), numbers, or a dict.
    """
    n_classes = len(class_names)
    if weights is None or (isinstance(weights, str) and weights == "equal"):
        return np.ones(n_classes)
    if isinstance(weights, str):
        check_choice("weights", weights, ("equal", "sample_size", "sqrt_sample_size"))
        if sample_sizes is None:
            raise InputError(
                f'weights="{weights}" needs the sample sizes: give samples (SampleCovariance) or '
                "DenseCovariance(..., sample_sizes=[...]).",
                "weights",
            )
        sizes = np.asarray(sample_sizes, dtype=float)
        return np.sqrt(sizes / sizes.mean()) if weights == "sqrt_sample_size" else sizes / sizes.sum()
    if isinstance(weights, Mapping):
        by_name = {str(name): value for name, value in weights.items()}
        if set(by_name) != set(class_names):
            raise InputError(
                f"weights names the classes {sorted(by_name)}, the data {sorted(class_names)}: give one weight for "
                "each class.",
                "weights",
            )
        weights = [by_name[name] for name in class_names]
    try:
        values = np.array(weights, dtype=float)
    except (TypeError, ValueError):
        text = f"weights must be {n_classes} numbers, one per class, not {weights!r}."
        raise InputTypeError(text, "weights") from None
    if values.shape != (n_classes,):
        raise InputError(
            f"weights has shape {values.shape}, but there are {n_classes} classes: give one weight each.", "weights"
        )
    for name, value in zip(class_names, values, strict=True):
        if not np.isfinite(value) or value <= 0:
            text = f"The weight of class {name!r} is {value:g}; it must be a finite number > 0."
            raise InputError(text, "weights", class_name=name)
        if not 1.0 / LARGEST_WEIGHT <= value <= LARGEST_WEIGHT:
            raise InputError(
                f"The weight of class {name!r} is {value:g}, out of the range {1.0 / LARGEST_WEIGHT:g} to "
                f"{LARGEST_WEIGHT:g}: multiply all weights and penalties by the same number.",
                "weights",
                class_name=name,
            )
    return values


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
