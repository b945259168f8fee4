"""Names of classes and variables: given, found in data frames, or made up; and variables aligned or joined by them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from jointglasso._typing import FloatArray, IntArray
from jointglasso.errors import InputError, InputTypeError
from jointglasso.validation.options import check_choice


def data_argument(what: str) -> str:
    """What the public functions call their data: covariances S, samples X."""
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
        single = single or hasattr(data, "columns")
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


def distinct_class_names(given: Any, n_classes: int) -> list[str]:
    """One different name for each class."""
    names = names_of_all("class_names", given, n_classes, "classes")
    require_whole_characters(names, "class")
    if len(set(names)) < len(names):
        raise InputError(
            f"class_names holds {_first_duplicate(names)!r} twice: name every class differently.", "class_names"
        )
    return names


def names_of_all(parameter: str, given: Any, expected: int, what: str) -> list[str]:
    """As many names as there are things to be named."""
    names = word_list(parameter, given)
    if len(names) != expected:
        raise InputError(
            f"{parameter} has {len(names)} names, but there are {expected} {what}: give one name each.", parameter
        )
    return names


def _first_duplicate(names: Sequence[str]) -> str:
    seen: set[str] = set()
    return next(name for name in names if name in seen or seen.add(name))  # type: ignore[func-returns-value]


def require_whole_characters(names: Sequence[str], what: str) -> None:
    """Refuse names with half a character (a lone surrogate), which no file and no screen can show."""
    try:
        "".join(names).encode("utf-8")
    except UnicodeEncodeError:
        bad = next(name for name in names if any("\ud800" <= letter <= "\udfff" for letter in name))
        raise InputError(
            f"The {what} name {bad!r} holds half a character (a lone surrogate), which cannot be written to any file: "
            "rename it.",
            f"{what}_names",
        ) from None


def word_list(parameter: str, given: Any) -> list[str]:
    """Names as a list of words; a single word is not a list of its letters."""
    if isinstance(given, str) or not hasattr(given, "__iter__"):
        raise InputTypeError(f"{parameter} must be a list of names, not {type(given).__name__} {given!r}.", parameter)
    return [str(name) for name in given]


def column_names(data: Any) -> list[str] | None:
    """Names of the columns of a pandas, polars or pyarrow table, None of anything else."""
    columns = data.column_names if hasattr(data, "column_names") else getattr(data, "columns", None)
    return None if columns is None else [str(name) for name in columns]


def align_variables(
    named: dict[str, Any], arrays: dict[str, Any], variable_names: Any, both_axes: bool
) -> tuple[tuple[str, ...], dict[str, Any]]:
    """Bring the variables of all classes into the order of the first class, by name where names exist."""
    first_class = next(iter(arrays))
    p = arrays[first_class].shape[1]
    for name, array in arrays.items():
        if array.shape[1] != p:
            raise InputError(
                f"Class {name!r} has {array.shape[1]} variables, class {first_class!r} has {p}: give the same "
                "variables, or data frames, which name them, with variables='union' or 'intersection'.",
                class_name=name,
            )
    reference: list[str] | None = None
    aligned: dict[str, Any] = {}
    for name, array in arrays.items():
        columns = column_names(named[name])
        if columns is not None:
            if both_axes:
                array = reorder_rows(array, [str(label) for label in named[name].index], columns, name)
            if reference is None:
                reference = require_unique(columns, f"class {name!r}")
            elif columns != reference:
                order = _order_of(columns, reference, name)
                array = array[np.ix_(order, order)] if both_axes else array[:, order]
        aligned[name] = array
    return final_names(variable_names, reference, p), aligned


def require_unique(names: list[str], where: str) -> list[str]:
    """Return names of variables that are all different and can be written."""
    require_whole_characters(names, "variable")
    if len(set(names)) < len(names):
        raise InputError(
            f"Variable {_first_duplicate(names)!r} occurs twice in {where}: variable names must be unique.",
            variable=_first_duplicate(names),
        )
    return names


def _order_of(columns: list[str], reference: list[str], class_name: str) -> IntArray:
    require_unique(columns, f"class {class_name!r}")
    different = set(columns) ^ set(reference)
    if different:
        variable = sorted(different)[0]
        raise InputError(
            f"Variable {variable!r} is not in all classes (class {class_name!r} differs): keep only the variables that "
            "every class has, or set variables='intersection'; variables='union' keeps them all.",
            class_name=class_name,
            variable=variable,
        )
    position = {name: i for i, name in enumerate(columns)}
    return np.array([position[name] for name in reference])


def reorder_rows(array: FloatArray, index: list[str], columns: list[str], class_name: str) -> FloatArray:
    """Rows of a matrix in the order of its columns."""
    if index == columns:
        return array
    if set(index) != set(columns):
        if index == [str(i) for i in range(len(index))]:  # rows without names of their own
            return array
        raise InputError(
            f"The rows and columns of the covariance matrix of class {class_name!r} name different variables: "
            "give both the same names.",
            class_name=class_name,
        )
    position = {name: i for i, name in enumerate(index)}
    return array[[position[name] for name in columns]]


def final_names(variable_names: Any, reference: list[str] | None, p: int) -> tuple[str, ...]:
    """Names of the variables: those given, of the columns, or made up."""
    if variable_names is None:
        return tuple(require_unique(reference, "X")) if reference is not None else _made_up(p)
    names = names_of_all("variable_names", variable_names, p, "variables")
    if reference is not None and names != reference:
        raise InputError(
            "variable_names disagrees with the column names of the data: leave it out or rename the columns.",
            "variable_names",
        )
    return tuple(require_unique(names, "variable_names"))


@lru_cache(maxsize=8)
def _made_up(p: int) -> tuple[str, ...]:
    """Names of p variables without any; kept, since they take as long as a small solve."""
    return tuple(f"x{i}" for i in range(p))


#: What to do with variables that not all classes have: there are none; all; those of all classes.
VARIABLES = ("same", "union", "intersection")


def joined_variables(columns: Mapping[str, Sequence[str] | None], variables: str) -> tuple[list[str], list[IntArray]]:
    """Names of the variables of all classes, and for each class the column of each; -1 where it lacks one.

    "union": those of any class, in order of appearance; "intersection": those that all classes have.
    """
    check_choice("variables", variables, VARIABLES[1:])
    given = []
    for name, words in columns.items():
        if words is None:
            raise InputError(
                f"variables={variables!r} matches variables by name, but those of class {name!r} have no names: give "
                "data frames.",
                "variables",
                class_name=name,
            )
        given.append(require_unique([str(word) for word in words], f"class {name!r}"))
    names = list(dict.fromkeys(word for words in given for word in words))
    if variables == "intersection":
        everywhere = set(names).intersection(*map(set, given))
        names = [word for word in names if word in everywhere]
    if len(names) < 2:
        raise InputError(
            f"variables={variables!r} leaves {len(names)} of the variables: give classes that share some.", "variables"
        )
    positions = [{word: at for at, word in enumerate(words)} for words in given]
    return names, [np.array([position.get(word, -1) for word in names], dtype=np.int64) for position in positions]
