"""What the caller of `read_table` decided, checked once."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from jointglasso.validation import InputError, InputTypeError, check_choice

#: Options that only some formats understand, and how those formats are called in messages.
FORMATS_OF_OPTION = {
    "sheet": ("excel",),
    "layer": ("h5ad",),
    "delimiter": ("text",),
    "encoding": ("text",),
    "comment": ("text",),
    "header": ("text", "excel"),
    "decimal": ("text", "excel", "parquet"),
    "thousands": ("text", "excel", "parquet"),
    "missing_markers": ("text", "excel", "parquet", "soft"),
    "names": ("text", "excel", "parquet"),
    "drop": ("text", "excel", "parquet"),
    "samples_in": ("text", "excel", "parquet", "npz", "npy"),
}


@dataclass(frozen=True)
class Options:
    """The keyword arguments of `read_table`; see there."""

    label: str | None = None
    stamped: bool = False
    """Whether the label is a time stamp: then it makes no classes."""
    labels: str | os.PathLike[str] | None = None
    samples_in: str | None = None
    sheet: str | int | None = None
    delimiter: str | None = None
    layer: str | None = None
    classes: tuple[str, ...] | None = None
    where: dict[str, tuple[str, ...]] = field(default_factory=dict)
    names: str | bool | None = None
    drop: tuple[str, ...] = ()
    decimal: str | None = None
    thousands: str | None = None
    missing_markers: tuple[str, ...] = ()
    encoding: str | None = None
    header: bool | None = None
    comment: str | bool | None = None
    unmatched: str = "error"

    @property
    def annotations(self) -> tuple[str, ...]:
        """Names inside the table that describe samples and are no variables."""
        own_label = () if self.label is None or self.labels is not None else (self.label,)
        return tuple(dict.fromkeys((*own_label, *self.where)))

    def require_fit(self, kind: str, path: str) -> None:
        """Refuse options that a file of this kind cannot use, since ignoring them would hide a mistake."""
        unset = Options()
        for name, kinds in FORMATS_OF_OPTION.items():
            value = getattr(self, name)
            if value != getattr(unset, name) and kind not in kinds:
                raise InputError(
                    f"{path} is read as {kind}, where {name}={value!r} means nothing ({name} is for "
                    f"{' and '.join(kinds)}): leave it out.",
                    name,
                )


def check_options(given: dict[str, Any]) -> Options:
    """Check the keyword arguments of `read_table` and sort `subset` into classes and other columns."""
    given = {name: value for name, value in given.items() if value is not None}
    if "time" in given:
        if "label" in given or "labels" in given:
            raise InputError("time and label both say what goes with the samples: give one of them.", "time")
        given["label"], given["stamped"] = given.pop("time"), True
    for name in ("label", "layer"):
        if name in given and not isinstance(given[name], str):
            raise InputTypeError(
                f"{name} must be the name of a column, not {type(given[name]).__name__} {given[name]!r}.", name
            )
    if "samples_in" in given:
        check_choice("samples_in", given["samples_in"], ("rows", "columns"))
    check_choice("unmatched", given["unmatched"], ("error", "drop"))
    if "decimal" in given:
        check_choice("decimal", given["decimal"], (".", ","))
    if "thousands" in given:
        check_choice("thousands", given["thousands"], (",", ".", " ", "'"))
    if given.get("decimal", ".") == given.get("thousands"):
        raise InputError(f"decimal and thousands are both {given['thousands']!r}: they must differ.", "thousands")
    if given.get("names") is True:
        raise InputTypeError("names must be the name of a column, or False if none holds names, not True.", "names")
    delimiter = given.get("delimiter", ",")
    if not isinstance(delimiter, str) or len(delimiter) != 1 or delimiter in '"\r\n':
        raise InputError(f"delimiter={delimiter!r} must be one character, such as ',' or '\\t'.", "delimiter")
    for name in ("drop", "missing_markers"):
        if name in given:
            given[name] = _words(name, given[name])
    subset = given.pop("subset", None)
    if isinstance(subset, Mapping):
        given["where"] = {str(key): _words(f"subset[{key!r}]", value) for key, value in subset.items()}
    elif subset is not None:
        given["classes"] = _words("subset", subset)
    return Options(**given)


def _words(name: str, value: Any) -> tuple[str, ...]:
    if isinstance(value, str):
        return (value,)
    if not isinstance(value, Iterable):
        raise InputTypeError(f"{name} must be a word or a list of words, not {type(value).__name__} {value!r}.", name)
    return tuple(str(word) for word in value)
