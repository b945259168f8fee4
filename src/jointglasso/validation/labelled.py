"""Tables that carry their labels: a column named by `y`, or an annotation of an AnnData object."""

from __future__ import annotations

from typing import Any

from jointglasso._wording import nearest
from jointglasso.errors import InputError, InputTypeError
from jointglasso.validation.naming import column_names


def labelled(X: Any, y: Any) -> tuple[Any, Any]:
    """Return a table that can be read as numbers, and its labels.

    `y` may be the name of a column of a data frame, or of an annotation of the cells of an AnnData object; the column
    is then no variable. AnnData objects become data frames.
    """
    if hasattr(X, "obs") and callable(getattr(X, "to_df", None)):
        labels = X.obs[_known(y, list(X.obs.columns), "obs of the AnnData object")] if isinstance(y, str) else y
        return X.to_df(), labels
    if isinstance(y, str):
        X, y = _taken_apart(X, y)
    return X, y


def _taken_apart(X: Any, name: str) -> tuple[Any, Any]:
    columns = column_names(X)
    if columns is None:
        raise InputTypeError(
            f"y={name!r} would be a column of X, but X has no columns with names: give the labels.", "y"
        )
    _known(name, columns, "X")
    if hasattr(X, "drop_columns"):  # pyarrow
        return X.drop_columns([name]), X[name].to_pylist()
    return (X.drop(columns=[name]) if hasattr(X, "loc") else X.drop(name)), X[name]


def _known(name: str, columns: list[str], where: str) -> str:
    if name not in columns:
        hint = nearest(name, columns)
        raise InputError(f"y={name!r} is no column of {where} ({hint}): give the name of one, or the labels.", "y")
    return name
