"""Names of classes and variables (arguments, columns of data frames, or defaults), and alignment by name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from jointglasso._typing import BoolArray, FloatArray, IntArray
from jointglasso.data.checks import check_choice
from jointglasso.errors import InputError, InputTypeError


def data_argument(what: str) -> str:
    """Argument name of the data in the public functions: S for covariances, X for samples."""
    return "S" if "covariance" in what else "X"


def split_classes(data: Any, class_names: Any, what: str, single: bool) -> dict[str, Any]:
    """Name the classes of a dict, a sequence, an array (K, ., .) or, where `data` is one, a single matrix."""
    if isinstance(data, Mapping):
        if class_names is not None:
            raise InputError(
                "class_names is given twice: the keys of the dict already name the classes.", "class_names"
            )
        names, parts = list(data), list(data.values())
    else:
        single = single or column_names(data) is not None
        if not single and not isinstance(data, np.ndarray | Sequence):
            raise InputTypeError(
                f"Expected an array, a sequence or a dict with one {what} per class, not {type(data).__name__}.",
                data_argument(what),
            )
        if isinstance(data, np.ndarray) and data.ndim not in (2, 3):
            raise InputError(
                f"Expected an array (K, ., .) with one {what} per class, not one of shape {data.shape}.",
                data_argument(what),
            )
        parts = [data] if single else list(data)
        names = list(range(1, len(parts) + 1)) if class_names is None else class_names
    if not parts:
        raise InputError(f"There are no classes (K=0): give at least one {what}.", data_argument(what))
    return dict(zip(distinct_class_names(names, len(parts)), parts, strict=True))


def distinct_class_names(class_names: Any, n_classes: int) -> list[str]:
    """Unique names of the classes."""
    names = names_of_all("class_names", class_names, n_classes, "classes")
    require_whole_characters(names, "class")
    if len(set(names)) < len(names):
        raise InputError(
            f"class_names holds {_first_duplicate(names)!r} twice: name every class differently.", "class_names"
        )
    return names


def names_of_all(parameter: str, values: Any, expected: int, what: str) -> list[str]:
    """List of names of the `expected` length; a single string is refused."""
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise InputTypeError(f"{parameter} must be a list of names, not {type(values).__name__} {values!r}.", parameter)
    names = [str(name) for name in values]
    if len(names) != expected:
        raise InputError(
            f"{parameter} has {len(names)} names, but there are {expected} {what}: give one name each.", parameter
        )
    return names


def _first_duplicate(names: Sequence[str]) -> str:
    seen: set[str] = set()
    return next(name for name in names if name in seen or seen.add(name))  # type: ignore[func-returns-value]


def require_whole_characters(names: Sequence[str], what: str) -> None:
    """Refuse names with a lone surrogate, which cannot be encoded in UTF-8."""
    try:
        "".join(names).encode("utf-8")
    except UnicodeEncodeError:
        bad = next(name for name in names if any("\ud800" <= letter <= "\udfff" for letter in name))
        raise InputError(
            f"The {what} name {bad!r} holds half a character (a lone surrogate), which cannot be written to any file: "
            "rename it.",
            f"{what}_names",
        ) from None


def column_names(data: Any) -> list[str] | None:
    """Column names of a pandas, polars or pyarrow table; None for other types."""
    columns = data.column_names if hasattr(data, "column_names") else getattr(data, "columns", None)
    return None if columns is None else [str(name) for name in columns]


#: Treatment of variables that differ between classes: refuse, use all, use the common ones.
VARIABLES = ("same", "union", "intersection")


def align_variables(
    named: dict[str, Any],
    arrays: dict[str, Any],
    variable_names: Any,
    variables: str = "same",
    *,
    both_axes: bool = False,
) -> tuple[tuple[str, ...], dict[str, Any], BoolArray | None]:
    """Names of the variables, arrays by class in their order, and the mask (K, p) of variables that a class lacks.

    Variables are matched by name where they have names. "same": those of the first class; "union": those of any class,
    in order of appearance; "intersection": those common to all. Missing columns are NaN; in matrices, if `both_axes`,
    variances are then 1 and covariances 0. The mask is None if no class lacks a variable.
    """
    columns = {name: column_names(table) for name, table in named.items()}
    if both_axes:
        arrays = {name: _order_rows(array, named[name], columns[name], name) for name, array in arrays.items()}
    reference: list[str] | None
    indices: Sequence[IntArray | None]
    if check_choice("variables", variables, VARIABLES) == "same":
        reference, indices = _same_variables(columns, {name: array.shape[1] for name, array in arrays.items()})
    else:
        reference, indices = _joined_variables(columns, variables)
    p = next(iter(arrays.values())).shape[1] if reference is None else len(reference)
    aligned = {}
    for (name, array), index in zip(arrays.items(), indices, strict=True):
        aligned[name] = array if index is None else _take_variables(array, index, both_axes)
    absent = None if variables == "same" else np.array([index < 0 for index in indices if index is not None])
    names = final_names(variable_names, reference, p)
    return names, aligned, absent if absent is not None and absent.any() else None


def _same_variables(
    columns: Mapping[str, list[str] | None], sizes: Mapping[str, int]
) -> tuple[list[str] | None, Sequence[IntArray | None]]:
    """Names of the variables, if any class has names, and their column indices by class (None: as they are)."""
    first_class, p = next(iter(sizes.items()))
    for name, size in sizes.items():
        if size != p:
            raise InputError(
                f"Class {name!r} has {size} variables, class {first_class!r} has {p}: give the same "
                "variables, or data frames, which name them, with variables='union' or 'intersection'.",
                class_name=name,
            )
    reference: list[str] | None = None
    indices: list[IntArray | None] = []
    for name, words in columns.items():
        if words is not None and reference is None:
            reference = require_unique(words, f"class {name!r}")
        if words is None or words == reference:
            indices.append(None)
            continue
        if different := sorted(set(require_unique(words, f"class {name!r}")) ^ set(reference or ())):
            raise InputError(
                f"Variable {different[0]!r} is not in all classes (class {name!r} differs): keep only the variables "
                "that every class has, or set variables='intersection'; variables='union' keeps them all.",
                class_name=name,
                variable=different[0],
            )
        indices.append(_positions(words, reference or []))
    return reference, indices


def _joined_variables(columns: Mapping[str, list[str] | None], variables: str) -> tuple[list[str], list[IntArray]]:
    """Joined names of the variables ("union" or "intersection"), and their column indices by class (-1: absent)."""
    by_class = []
    for name, words in columns.items():
        if words is None:
            raise InputError(
                f"variables={variables!r} matches variables by name, but those of class {name!r} have no names: give "
                "data frames.",
                "variables",
                class_name=name,
            )
        by_class.append(require_unique(words, f"class {name!r}"))
    names = list(dict.fromkeys(word for words in by_class for word in words))
    if variables == "intersection":
        everywhere = set(names).intersection(*by_class)
        names = [word for word in names if word in everywhere]
    if len(names) < 2:
        raise InputError(
            f"variables={variables!r} leaves {len(names)} of the variables: give classes that share some.", "variables"
        )
    return names, [_positions(words, names) for words in by_class]


def _positions(words: list[str], names: list[str]) -> IntArray:
    """Index of each of the `names` among the unique words, -1 where it is missing."""
    from pandas import Index

    positions: IntArray = Index(words).get_indexer(names)
    return positions


def _take_variables(array: FloatArray, index: IntArray, both_axes: bool) -> FloatArray:
    known = index >= 0
    if both_axes:
        full = np.eye(len(index))
        full[np.ix_(known, known)] = array[np.ix_(index[known], index[known])]
    else:
        full = np.full((len(array), len(index)), np.nan)
        full[:, known] = array[:, index[known]]
    return full


def _order_rows(array: FloatArray, table: Any, columns: list[str] | None, class_name: str) -> FloatArray:
    """Rows of a covariance matrix in the order of its columns, where both have names."""
    if columns is None:
        return array
    index = [str(name) for name in table.index]
    if index == columns or (set(index) != set(columns) and index == [str(i) for i in range(len(index))]):
        return array  # the same order, or the default index
    if set(index) != set(columns):
        raise InputError(
            f"The rows and columns of the covariance matrix of class {class_name!r} name different variables: "
            "give both the same names.",
            class_name=class_name,
        )
    return array[_positions(index, columns)]


def matrix_by_name(frame: Any, names: Sequence[str]) -> Any:
    """Values of a data frame with rows and columns in the order of `names`; None unless these name both, each once."""
    frame = frame.rename(index=str, columns=str)
    if any(sorted(labels) != sorted(names) for labels in (frame.index, frame.columns)):
        return None
    return frame.loc[list(names), list(names)].to_numpy()


def require_unique(names: list[str], where: str) -> list[str]:
    """Return the names of the variables after checking that they are unique and encodable."""
    require_whole_characters(names, "variable")
    if len(set(names)) < len(names):
        raise InputError(
            f"Variable {_first_duplicate(names)!r} occurs twice in {where}: variable names must be unique.",
            variable=_first_duplicate(names),
        )
    return names


def final_names(variable_names: Any, reference: list[str] | None, p: int) -> tuple[str, ...]:
    """Names of the variables: the argument, the column names, or defaults."""
    if variable_names is None:
        return tuple(require_unique(reference, "X")) if reference is not None else _default_names(p)
    names = names_of_all("variable_names", variable_names, p, "variables")
    if reference is not None and names != reference:
        raise InputError(
            "variable_names disagrees with the column names of the data: leave it out or rename the columns.",
            "variable_names",
        )
    return tuple(require_unique(names, "variable_names"))


@lru_cache(maxsize=8)
def _default_names(p: int) -> tuple[str, ...]:
    """Default names of p variables; cached, since making them takes as long as a small solve."""
    return tuple(f"x{i}" for i in range(p))
