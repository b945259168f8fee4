"""Validation of samples and labels; labels can be a column of the table or an annotation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jointglasso._optional import is_from
from jointglasso._typing import FloatArray, IntArray
from jointglasso._wording import nearest
from jointglasso.data.naming import column_names, require_whole_characters
from jointglasso.data.table_checks import SampleRows
from jointglasso.errors import InputError, InputTypeError


def label_rows(n_samples: int, y: Any) -> dict[str, IntArray]:
    """Row indices by class, classes in order of appearance (of the categories for an ordered categorical)."""
    labels = np.asarray(y)
    if labels.ndim != 1 or len(labels) != n_samples:
        raise InputError(f"y has shape {labels.shape}, but X has {n_samples} samples: give one label per sample.", "y")
    # Test the original values: NumPy would convert a NaN among strings to the string 'nan'.
    values = np.asarray(y, dtype=object).tolist()
    missing = [i for i, label in enumerate(values) if _is_missing(label)]
    if missing:
        raise InputError(f"The label of sample {missing[0]} is missing: name its class or leave the sample out.", "y")
    kinds = sorted({"str" if isinstance(label, str) else type(label).__name__ for label in values})
    if "str" in kinds and len(kinds) > 1:
        raise InputTypeError(f"The labels mix {' and '.join(kinds)}: give all labels one type.", "y")
    try:
        classes, first = np.unique(labels, return_index=True)
    except TypeError:
        raise InputTypeError(f"The labels mix {' and '.join(kinds)}: give all labels one type.", "y") from None
    rows: dict[str, IntArray] = {
        str(label): np.flatnonzero(labels == label) for label in _class_order(y, classes[np.argsort(first)])
    }
    require_whole_characters(list(rows), "class")
    return rows


def _class_order(y: Any, classes: Any) -> Any:
    """Classes in the order of the categories if `y` is an ordered categorical, else unchanged."""
    if not is_from(y, "pandas") or y.dtype.name != "category" or not y.dtype.ordered:
        return classes
    present = set(classes.tolist())
    return [label for label in y.dtype.categories.tolist() if label in present]


def _is_missing(label: Any) -> bool:
    try:
        return label is None or bool(label != label)
    except TypeError:  # pandas' NA refuses to be compared
        return True


def require_finite(X: FloatArray, class_name: str, variable_names: Sequence[str]) -> None:
    """Refuse missing and infinite values; the error names the first one."""
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(X.sum()):  # one cheap pass; entries are tested only if the sum is not finite
            return
    bad = np.argwhere(~np.isfinite(X))
    if len(bad):
        row, column = bad[0]
        raise InputError(
            f"Class {class_name!r} has {X[row, column]} in variable {variable_names[column]!r} (sample {row}; "
            f"{len(bad)} such values): remove those samples or variables, or fill the values in.",
            class_name=class_name,
            variable=variable_names[column],
        )


def labelled(X: Any, y: Any) -> tuple[Any, Any]:
    """Return a numeric table and its labels.

    `y` can be the name of a column of a data frame, which is then removed from the variables, or of an annotation of
    the cells of an AnnData object. AnnData objects become data frames.
    """
    if is_from(X, "anndata") and not SampleRows.can_read(X):
        labels = X.obs[_known(y, list(X.obs.columns), "obs of the AnnData object")] if isinstance(y, str) else y
        return X.to_df(), labels
    if isinstance(y, str):
        X, y = _split_label_column(X, y)
    return X, y


def _split_label_column(X: Any, name: str) -> tuple[Any, Any]:
    columns = column_names(X)
    if columns is None:
        raise InputTypeError(
            f"y={name!r} would be a column of X, but X has no columns with names: give the labels.", "y"
        )
    _known(name, columns, "X")
    if is_from(X, "pyarrow"):
        return X.drop_columns([name]), X[name].to_pylist()
    return (X.drop(name) if is_from(X, "polars") else X.drop(columns=[name])), X[name]


def _known(name: str, columns: list[str], where: str) -> str:
    if name not in columns:
        hint = nearest(name, columns)
        raise InputError(f"y={name!r} is no column of {where} ({hint}): give the name of one, or the labels.", "y")
    return name
