"""Classes with different variables: brought onto one list of names, with a note of which class lacks which."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from jointglasso._typing import BoolArray, FloatArray, IntArray
from jointglasso.errors import InputError
from jointglasso.validation.naming import column_names, reorder_rows, require_unique, split_classes
from jointglasso.validation.options import check_choice
from jointglasso.validation.tables import as_float_matrix

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


def join_matrices(data: Any, class_names: Any, variables: str) -> tuple[dict[str, FloatArray], list[str], BoolArray]:
    """Covariance matrices on the variables of all classes: the arrays, the names, and what (K, p) each class lacks.

    There the diagonal is 1 and the rest zero.
    """
    named = split_classes(data, class_names, "covariance matrix", False)
    names, places = joined_variables({name: column_names(table) for name, table in named.items()}, variables)
    arrays = {}
    for (name, table), place in zip(named.items(), places, strict=True):
        array = as_float_matrix(table, f"The table of class {name!r}")
        array = reorder_rows(array, [str(word) for word in table.index], column_names(table) or [], name)
        there, full = place >= 0, np.eye(len(names))
        full[np.ix_(there, there)] = array[np.ix_(place[there], place[there])]
        arrays[name] = full
    return arrays, names, np.array([place < 0 for place in places])
