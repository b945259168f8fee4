"""Validation of single options: choices, numbers, booleans, class weights and warm starts."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import wraps
from inspect import signature
from numbers import Integral, Real
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import numpy as np

from jointglasso._threads import available_cores
from jointglasso._typing import FloatArray, IntArray
from jointglasso._wording import nearest
from jointglasso.errors import InputError, InputTypeError, argument

#: Upper bounds of penalties and of class weights (and of the inverse weights): products with variances must not
#: overflow.
LARGEST_PENALTY, LARGEST_WEIGHT = 1e75, 1e15

P = ParamSpec("P")
R = TypeVar("R")


def known_arguments(
    passed_on_to: Callable[..., Any] | None = None, **advice: str
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Refuse unknown keyword arguments with the most similar names, and those in `advice` with a sentence.

    The keyword arguments that a function collects are those of the function `passed_on_to`.
    """

    def wrap(function: Callable[P, R]) -> Callable[P, R]:
        named = [name for name, kind in signature(function).parameters.items() if kind.kind != kind.VAR_KEYWORD]
        known = [*named, *(() if passed_on_to is None else signature(passed_on_to).parameters)]
        where = function.__qualname__.removesuffix(".__init__")

        @wraps(function)
        def refusing(*args: P.args, **kwargs: P.kwargs) -> R:
            for name in kwargs:
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
    if isinstance(value, bool) or not isinstance(value, Real):
        raise InputTypeError(f"{name} must be a number >= 0, not {type(value).__name__} {value!r}.", parameter=name)
    number = float(value)
    if not np.isfinite(number) or number < 0:
        raise InputError(f"{argument(name, number)} must be a finite number >= 0.", parameter=name)
    if number > LARGEST_PENALTY:
        raise InputError(
            f"{argument(name, number)} is above {LARGEST_PENALTY:g}: rescale the data, or give a smaller number.",
            parameter=name,
        )
    return number


def check_positive(name: str, value: Any) -> float:
    """Return `value` as a float when it is a finite number > 0."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise InputTypeError(f"{name} must be a number > 0, not {type(value).__name__} {value!r}.", parameter=name)
    number = float(value)
    if not np.isfinite(number) or number <= 0:
        raise InputError(f"{argument(name, number)} must be a finite number > 0.", parameter=name)
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


def check_warm_start(matrices: Any, n_classes: int, n_variables: int) -> list[Any]:
    """Return the K matrices of a warm start as a list, after a check of their shapes."""
    shape = (n_variables, n_variables)
    wanted = f"warm_start must be a Solution or hold {n_classes} matrices of shape {shape}, one per class"
    if not isinstance(matrices, Sequence | np.ndarray) or isinstance(matrices, str):
        raise InputTypeError(f"{wanted}, not {type(matrices).__name__} {matrices!r}.", "warm_start")
    if [np.shape(matrix) for matrix in matrices] != [shape] * n_classes:
        raise InputError(f"{wanted}.", "warm_start")
    return list(matrices)


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
        if {str(name) for name in weights} != set(class_names):
            requested, known = sorted(map(str, weights)), sorted(class_names)
            raise InputError(
                f"weights names the classes {requested}, the data {known}: give one weight for each class.", "weights"
            )
        by_name = {str(name): value for name, value in weights.items()}
        weights = [by_name[name] for name in class_names]
    try:
        values = np.array(weights, dtype=float)
    except (TypeError, ValueError):
        raise InputTypeError(
            f"weights must be {n_classes} numbers, one per class, not {weights!r}.", "weights"
        ) from None
    if values.shape != (n_classes,):
        raise InputError(
            f"weights has shape {values.shape}, but there are {n_classes} classes: give one weight each.", "weights"
        )
    for name, value in zip(class_names, values, strict=True):
        if not np.isfinite(value) or value <= 0:
            raise InputError(
                f"The weight of class {name!r} is {value:g}; it must be a finite number > 0.",
                "weights",
                class_name=name,
            )
        if not 1.0 / LARGEST_WEIGHT <= value <= LARGEST_WEIGHT:
            raise InputError(
                f"The weight of class {name!r} is {value:g}, out of the range {1.0 / LARGEST_WEIGHT:g} to "
                f"{LARGEST_WEIGHT:g}: multiply all weights and penalties by the same number.",
                "weights",
                class_name=name,
            )
    return values
