"""Every input error is raised here, in one sentence that names what is wrong and what to do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np

from jointglasso._threads import available_cores, map_on_threads
from jointglasso._typing import BoolArray, FloatArray, IntArray

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


def check_choice(name: str, value: Any, choices: Iterable[str]) -> str:
    """Return `value` when it is one of `choices`; else say which are valid."""
    valid = list(choices)
    if isinstance(value, str) and value in valid:
        return value
    listed = ", ".join(repr(choice) for choice in valid)
    raise ValueError(f"{name}={value!r} is not known; choose one of {listed}.")


def check_nonnegative(name: str, value: Any) -> float:
    """Return `value` as a float when it is a finite number >= 0."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{name} must be a number >= 0, not {type(value).__name__} {value!r}.")
    number = float(value)
    if not np.isfinite(number) or number < 0:
        raise ValueError(f"{name}={number:g} must be a finite number >= 0.")
    return number


def check_positive(name: str, value: Any) -> float:
    """Return `value` as a float when it is a finite number > 0."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{name} must be a number > 0, not {type(value).__name__} {value!r}.")
    number = float(value)
    if not np.isfinite(number) or number <= 0:
        raise ValueError(f"{name}={number:g} must be a finite number > 0.")
    return number


def check_jobs(n_jobs: Any) -> int | None:
    """Return the number of jobs: None, a whole number >= 1, or all cores for -1."""
    if isinstance(n_jobs, Integral) and n_jobs == -1:
        return available_cores()
    return None if n_jobs is None else check_count("n_jobs", n_jobs)


def check_switch(name: str, value: Any) -> bool:
    """Return `value` when it is True or False; a word such as "no" would count as true."""
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} must be True or False, not {value!r}.")
    return bool(value)


def check_callback(value: Any) -> Any:
    """Return `value` when it is None or can be called."""
    if value is not None and not callable(value):
        raise TypeError(f"callback must be callable with one Iteration, not {type(value).__name__} {value!r}.")
    return value


def check_warm_start(matrices: Any, n_classes: int, n_variables: int) -> list[Any]:
    """Return K matrices to start from as a list when they have the right shape."""
    shape = (n_variables, n_variables)
    wanted = f"warm_start must be a Solution or hold {n_classes} matrices of shape {shape}, one per class"
    if not isinstance(matrices, Sequence | np.ndarray) or isinstance(matrices, str):
        raise TypeError(f"{wanted}, not {type(matrices).__name__} {matrices!r}.")
    if [np.shape(matrix) for matrix in matrices] != [shape] * n_classes:
        raise ValueError(f"{wanted}.")
    return list(matrices)


def check_count(name: str, value: Any, minimum: int = 1) -> int:
    """Return `value` as an int when it is a whole number of at least `minimum`."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise TypeError(f"{name} must be a whole number >= {minimum}, not {type(value).__name__} {value!r}.")
    if value < minimum:
        raise ValueError(f"{name}={value} must be at least {minimum}.")
    return int(value)


def check_weights(weights: Any, class_names: Sequence[str], sample_sizes: IntArray | None) -> FloatArray:
    """Class weights w_k as an array (K,): None or "equal" (ones), "sample_size" (n_k / sum n), numbers, or a dict."""
    n_classes = len(class_names)
    if weights is None or (isinstance(weights, str) and weights == "equal"):
        return np.ones(n_classes)
    if isinstance(weights, str):
        check_choice("weights", weights, ("equal", "sample_size"))
        if sample_sizes is None:
            raise ValueError(
                'weights="sample_size" needs the sample sizes: give samples (SampleCovariance) or '
                "DenseCovariance(..., sample_sizes=[...])."
            )
        sizes = np.asarray(sample_sizes, dtype=float)
        return sizes / sizes.sum()
    if isinstance(weights, Mapping):
        if {str(name) for name in weights} != set(class_names):
            given, known = sorted(map(str, weights)), sorted(class_names)
            raise ValueError(f"weights names the classes {given}, the data {known}: give one weight for each class.")
        by_name = {str(name): value for name, value in weights.items()}
        weights = [by_name[name] for name in class_names]
    try:
        values = np.array(weights, dtype=float)
    except (TypeError, ValueError):
        raise TypeError(f"weights must be {n_classes} numbers, one per class, not {weights!r}.") from None
    if values.shape != (n_classes,):
        raise ValueError(f"weights has shape {values.shape}, but there are {n_classes} classes: give one weight each.")
    for name, value in zip(class_names, values, strict=True):
        if not np.isfinite(value) or value <= 0:
            raise ValueError(f"The weight of class {name!r} is {value:g}; it must be a finite number > 0.")
    return values


def check_covariances(
    matrices: Any, class_names: Any = None, variable_names: Any = None, sample_sizes: Any = None
) -> CheckedMatrices:
    """Check K covariance matrices: square, same size, finite, symmetric, positive semidefinite, names aligned."""
    named = _split_classes(matrices, class_names, "covariance matrix", single_ndim=2)
    arrays = {name: _as_float_matrix(S, f"The covariance matrix of class {name!r}") for name, S in named.items()}
    for name, S in arrays.items():
        if S.shape[0] != S.shape[1]:
            raise ValueError(
                f"The covariance matrix of class {name!r} has shape {S.shape}, which is not square; "
                "for a table of samples use SampleCovariance."
            )
    names, aligned = _align(named, arrays, variable_names, both_axes=True)
    map_on_threads(lambda item: _check_covariance(item[1], item[0], names), list(aligned.items()))
    sizes = _check_sample_sizes(sample_sizes, list(aligned))
    return CheckedMatrices(list(aligned.values()), tuple(aligned), names, sizes)


def check_samples(samples: Any, class_names: Any = None, variable_names: Any = None) -> CheckedMatrices:
    """Check K sample matrices: two-dimensional, finite, at least two samples each, names aligned."""
    named = _split_classes(samples, class_names, "sample matrix", single_ndim=2)
    arrays = {name: _as_float_matrix(X, f"The sample matrix of class {name!r}") for name, X in named.items()}
    for name, X in arrays.items():
        if X.shape[0] < 2:
            raise ValueError(
                f"Class {name!r} has {X.shape[0]} sample{'' if X.shape[0] == 1 else 's'}; a covariance needs at "
                "least 2: add samples or leave the class out."
            )
    names, aligned = _align(named, arrays, variable_names, both_axes=False)
    for name, X in aligned.items():
        _check_finite_samples(X, name, names)
    return CheckedMatrices(list(aligned.values()), tuple(aligned), names)


def check_labels(X: Any, y: Any) -> dict[str, Any]:
    """Split a table of samples by label, classes sorted; the pieces keep the table's column names."""
    n_samples = np.shape(X)[0] if np.ndim(X) else 0
    labels = np.asarray(y)
    if labels.ndim != 1 or len(labels) != n_samples:
        raise ValueError(f"y has shape {labels.shape}, but X has {n_samples} samples: give one label per sample.")
    # Looked at one by one and as given: NumPy would turn a NaN among words into the word 'nan'.
    given = y.tolist() if hasattr(y, "tolist") else list(y)
    missing = [i for i, label in enumerate(given) if _is_missing(label)]
    if missing:
        raise ValueError(f"The label of sample {missing[0]} is missing: name its class or leave the sample out.")
    kinds = sorted({"str" if isinstance(label, str) else type(label).__name__ for label in given})
    if "str" in kinds and len(kinds) > 1:
        raise TypeError(f"The labels mix {' and '.join(kinds)}: give all labels one type.")
    take = X.iloc if hasattr(X, "iloc") else np.asarray(X)
    try:
        classes = np.unique(labels)
    except TypeError:
        raise TypeError(f"The labels mix {' and '.join(kinds)}: give all labels one type.") from None
    return {str(label): take[np.flatnonzero(labels == label)] for label in classes}


def _is_missing(label: Any) -> bool:
    try:
        return label is None or bool(label != label)
    except TypeError:  # pandas' NA refuses to be compared
        return True


def require_finite_variance(variance: FloatArray, class_name: str, variable_names: Sequence[str]) -> None:
    """Refuse samples so large that their squares overflow."""
    bad = np.flatnonzero(~np.isfinite(variance))
    if len(bad):
        raise ValueError(
            f"The variance of variable {variable_names[int(bad[0])]!r} in class {class_name!r} overflows: rescale the "
            "data, for instance by dividing each variable by its largest value."
        )


def require_varying(constant: BoolArray, class_name: str, variable_names: Sequence[str]) -> None:
    """Refuse variables that are constant in a class where a correlation is wanted."""
    if constant.any():
        variable = variable_names[int(np.flatnonzero(constant)[0])]
        raise ValueError(
            f"Variable {variable!r} is constant in class {class_name!r} ({int(constant.sum())} such variables), so it "
            "has no correlation: drop it, or use correlation=False with a penalised diagonal."
        )


def require_bounded(
    diagonal: FloatArray, diagonal_penalty: float, class_name: str, variable_names: Sequence[str]
) -> None:
    """Refuse a variable without variance where nothing keeps its precision finite."""
    if diagonal_penalty > 0:
        return
    flat = np.flatnonzero(diagonal <= 0)
    if len(flat):
        raise ValueError(
            f"Variable {variable_names[int(flat[0])]!r} has zero variance in class {class_name!r}, so its precision "
            "would be infinite: drop it, or penalise the diagonal with lambda1 > 0."
        )


def not_semidefinite(class_name: str, detail: str) -> ValueError:
    """Build the error for a covariance matrix with a negative eigenvalue."""
    return ValueError(
        f"The covariance matrix of class {class_name!r} is not positive semidefinite ({detail}): it is no covariance "
        "matrix of complete samples; recompute it without missing values, or project it onto its positive part."
    )


def no_minimum(class_name: str) -> ValueError:
    """Build the error for a singular covariance matrix of variables that are not penalised."""
    return ValueError(
        f"The covariance matrix of class {class_name!r} is singular where nothing is penalised, so the likelihood has "
        "no maximum: set lambda1 or lambda2 above 0, and no pair weight to 0."
    )


def indefinite_start(class_name: str, fault: str) -> ValueError:
    """Build the error for a warm start outside the domain of the objective."""
    return ValueError(
        f"The warm_start matrix of class {class_name!r} is not {fault}: give precision matrices, such as "
        "those of an earlier solution, or leave warm_start out."
    )


def impossible_pair(class_name: str, first: str, second: str) -> ValueError:
    """Build the error for a covariance larger than the two standard deviations allow."""
    return not_semidefinite(class_name, f"|S_ij| > sqrt(S_ii S_jj) for variables {first!r} and {second!r}")


def semidefinite(stack: FloatArray) -> BoolArray:
    """Which of a stack (m, b, b) of symmetric matrices have no eigenvalue below zero beyond rounding.

    Judged on the scale of correlations, so that the units of the variables do not matter. The shift forgives the
    rounding of covariances computed in single precision.
    """
    from jointglasso.kernels.small_blocks import factor_and_invert

    b = stack.shape[1]
    deviation = np.sqrt(np.einsum("mii->mi", stack))
    deviation[deviation == 0] = 1.0
    scaled = stack / (deviation[:, :, None] * deviation[:, None, :]) + (1e-8 + 1e-7 * b) * np.eye(b)
    if b <= 32:
        return factor_and_invert(scaled)[2]
    return np.array([_has_cholesky(matrix) for matrix in scaled], dtype=bool)


def _has_cholesky(matrix: FloatArray) -> bool:
    try:
        np.linalg.cholesky(matrix)
    except np.linalg.LinAlgError:
        return False
    return True


def _split_classes(data: Any, class_names: Any, what: str, single_ndim: int) -> dict[str, Any]:
    """Name the classes of a dict, a sequence, an array (K, ., .) or a single matrix."""
    if isinstance(data, Mapping):
        if class_names is not None:
            raise ValueError("class_names is given twice: the keys of the dict already name the classes.")
        names, parts = [str(name) for name in data], list(data.values())
    else:
        single = hasattr(data, "columns") or (isinstance(data, np.ndarray) and data.ndim == single_ndim)
        if not single and not isinstance(data, np.ndarray | Sequence):
            raise TypeError(
                f"Expected an array, a sequence or a dict with one {what} per class, not {type(data).__name__}."
            )
        if isinstance(data, np.ndarray) and data.ndim not in (2, 3):
            raise ValueError(f"Expected an array (K, ., .) with one {what} per class, not one of shape {data.shape}.")
        parts = [data] if single else list(data)
        names = [str(k + 1) for k in range(len(parts))] if class_names is None else _names("class_names", class_names)
    if not parts:
        raise ValueError(f"There are no classes (K=0): give at least one {what}.")
    if len(names) != len(parts):
        raise ValueError(f"class_names has {len(names)} names, but there are {len(parts)} classes: give one name each.")
    if len(set(names)) < len(names):
        raise ValueError(f"class_names holds {_first_duplicate(names)!r} twice: name every class differently.")
    return dict(zip(names, parts, strict=True))


def _first_duplicate(names: Sequence[str]) -> str:
    seen: set[str] = set()
    return next(name for name in names if name in seen or seen.add(name))  # type: ignore[func-returns-value]


def _as_float_matrix(data: Any, what: str) -> FloatArray:
    if np.iscomplexobj(data):
        raise TypeError(f"{what} holds complex numbers: it must be a table of real numbers.")
    try:
        if hasattr(data, "columns"):
            array = np.asarray(data.to_numpy(dtype=np.float64, na_value=np.nan))
        else:
            array = np.asarray(data)
            array = array if array.dtype == np.float64 else array.astype(np.float64)
    except (TypeError, ValueError):
        column = _first_wordy_column(data)
        where = what if column is None else f"Variable {column!r} of {what[0].lower()}{what[1:]}"
        raise TypeError(f"{where} is not numeric: it must be a table of numbers.") from None
    if array.ndim != 2 or 0 in array.shape[1:]:
        raise ValueError(f"{what} has shape {array.shape}: it must be two-dimensional with at least one variable.")
    return array


def _first_wordy_column(data: Any) -> str | None:
    """Name of the first column of a data frame that does not hold numbers."""
    for name in getattr(data, "columns", ()):
        try:
            data[name].to_numpy(dtype=np.float64, na_value=np.nan)
        except (TypeError, ValueError):
            return str(name)
    return None


def _names(parameter: str, given: Any) -> list[str]:
    """Names as a list of words; a single word is not a list of its letters."""
    if isinstance(given, str) or not hasattr(given, "__iter__"):
        raise TypeError(f"{parameter} must be a list of names, not {type(given).__name__} {given!r}.")
    return [str(name) for name in given]


def _columns(data: Any) -> list[str] | None:
    return [str(name) for name in data.columns] if hasattr(data, "columns") else None


def _align(
    named: dict[str, Any], arrays: dict[str, FloatArray], variable_names: Any, both_axes: bool
) -> tuple[tuple[str, ...], dict[str, FloatArray]]:
    """Bring the variables of all classes into the order of the first class, by name where names exist."""
    first_class = next(iter(arrays))
    p = arrays[first_class].shape[1]
    for name, array in arrays.items():
        if array.shape[1] != p:
            raise ValueError(
                f"Class {name!r} has {array.shape[1]} variables, class {first_class!r} has {p}: all classes must have "
                "the same variables."
            )
    reference: list[str] | None = None
    aligned: dict[str, FloatArray] = {}
    for name, array in arrays.items():
        columns = _columns(named[name])
        if columns is not None:
            if both_axes:
                array = _reorder_rows(array, [str(label) for label in named[name].index], columns, name)
            if reference is None:
                reference = _require_unique(columns, f"class {name!r}")
            elif columns != reference:
                order = _order_of(columns, reference, name)
                array = array[np.ix_(order, order)] if both_axes else array[:, order]
        aligned[name] = array
    return _final_names(variable_names, reference, p), aligned


def _require_unique(names: list[str], where: str) -> list[str]:
    if len(set(names)) < len(names):
        raise ValueError(
            f"Variable {_first_duplicate(names)!r} occurs twice in {where}: variable names must be unique."
        )
    return names


def _order_of(columns: list[str], reference: list[str], class_name: str) -> IntArray:
    _require_unique(columns, f"class {class_name!r}")
    different = set(columns) ^ set(reference)
    if different:
        variable = sorted(different)[0]
        raise ValueError(
            f"Variable {variable!r} is not in all classes (class {class_name!r} differs): keep only the variables that "
            "every class has."
        )
    position = {name: i for i, name in enumerate(columns)}
    return np.array([position[name] for name in reference])


def _reorder_rows(array: FloatArray, index: list[str], columns: list[str], class_name: str) -> FloatArray:
    if index == columns:
        return array
    if set(index) != set(columns):
        if index == [str(i) for i in range(len(index))]:  # rows without names of their own
            return array
        raise ValueError(
            f"The rows and columns of the covariance matrix of class {class_name!r} name different variables: "
            "give both the same names."
        )
    position = {name: i for i, name in enumerate(index)}
    return array[[position[name] for name in columns]]


def _final_names(variable_names: Any, reference: list[str] | None, p: int) -> tuple[str, ...]:
    if variable_names is None:
        return tuple(reference) if reference is not None else tuple(f"x{i}" for i in range(p))
    names = _names("variable_names", variable_names)
    if len(names) != p:
        raise ValueError(f"variable_names has {len(names)} names, but there are {p} variables: give one name each.")
    if reference is not None and names != reference:
        raise ValueError(
            "variable_names disagrees with the column names of the data: leave it out or rename the columns."
        )
    return tuple(_require_unique(names, "variable_names"))


def _check_covariance(S: FloatArray, class_name: str, variable_names: Sequence[str]) -> None:
    _check_symmetric(S, class_name, variable_names)
    _check_semidefinite(S, class_name, variable_names)


def _check_symmetric(S: FloatArray, class_name: str, variable_names: Sequence[str]) -> None:
    from jointglasso.kernels.scan import first_asymmetry

    with np.errstate(invalid="ignore"):
        scale = 1e-4 * np.sqrt(np.abs(np.diagonal(S)))
    code, i, j = first_asymmetry(S, np.where(np.isfinite(scale), scale, 0.0))
    if code == 1:
        raise ValueError(
            f"The covariance matrix of class {class_name!r} holds {S[i, j]} at variables {variable_names[i]!r}, "
            f"{variable_names[j]!r}: remove or fill the missing values before computing it."
        )
    if code == 2:
        raise ValueError(
            f"The covariance matrix of class {class_name!r} is not symmetric at variables {variable_names[i]!r}, "
            f"{variable_names[j]!r} ({S[i, j]:.6g} and {S[j, i]:.6g}): use (S + S.T) / 2 if only rounding is to blame."
        )


def _check_semidefinite(S: FloatArray, class_name: str, variable_names: Sequence[str]) -> None:
    negative = np.flatnonzero(np.diagonal(S) < 0)
    if len(negative):
        raise not_semidefinite(class_name, f"the variance of variable {variable_names[int(negative[0])]!r} is negative")
    if len(S) <= FULL_CHECK_SIZE and not semidefinite(S[None])[0]:
        smallest = float(np.linalg.eigvalsh(S)[0])
        raise not_semidefinite(class_name, f"smallest eigenvalue {smallest:.3g}")


def _check_finite_samples(X: FloatArray, class_name: str, variable_names: Sequence[str]) -> None:
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(X.sum()):  # one cheap pass; only a bad or overflowing table is looked at entry by entry
            return
    bad = np.argwhere(~np.isfinite(X))
    if len(bad):
        row, column = bad[0]
        raise ValueError(
            f"Class {class_name!r} has {X[row, column]} in variable {variable_names[column]!r} (sample {row}; "
            f"{len(bad)} such values): remove those samples or variables, or fill the values in."
        )


def _check_sample_sizes(sample_sizes: Any, class_names: list[str]) -> IntArray | None:
    if sample_sizes is None:
        return None
    if not hasattr(sample_sizes, "__iter__"):
        kind = type(sample_sizes).__name__
        raise TypeError(f"sample_sizes must be a list of whole numbers, one per class, not {kind} {sample_sizes!r}.")
    sizes = np.array([check_count("sample_sizes", n, 2) for n in sample_sizes], dtype=np.int64)
    if len(sizes) != len(class_names):
        raise ValueError(
            f"sample_sizes has {len(sizes)} numbers, but there are {len(class_names)} classes: give one number each."
        )
    return sizes
