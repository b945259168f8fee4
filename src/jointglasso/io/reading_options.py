"""Keyword arguments of `read_table`, checked once."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from jointglasso.data.checks import InputError, InputTypeError, check_choice

_TABLES = ("text", "excel", "parquet")

#: Kinds of files that have a use for an option; options that are not listed suit every kind.
FORMATS_OF_OPTION: dict[str, tuple[str, ...]] = {
    "sheet": ("excel",),
    "layer": ("h5ad",),
    "header": ("text", "excel"),
    **dict.fromkeys(("delimiter", "encoding", "comment"), ("text",)),
    **dict.fromkeys(("decimal", "thousands", "names", "drop"), _TABLES),
    "missing_markers": (*_TABLES, "soft"),
    "samples_in": (*_TABLES, "npz"),
}

#: Values of options that have few.
_CHOICES = {
    "samples_in": ("rows", "columns"),
    "unmatched": ("error", "drop"),
    "decimal": (".", ","),
    "thousands": (",", ".", " ", "'"),
}


@dataclass(frozen=True)
class ReadOptions:
    """The keyword arguments of `read_table`; `subset` is split into `classes` and `where`."""

    label: str | None = None
    is_time: bool = False  # whether the label is a time stamp, which makes no classes
    labels: str | os.PathLike[str] | None = None
    samples_in: str | None = None
    sheet: str | int | None = None
    delimiter: str | None = None
    layer: str | None = None
    classes: tuple[str, ...] | None = None
    where: dict[str, tuple[str, ...]] = field(default_factory=dict)
    names: str | bool | None = None
    drop: tuple[str, ...] = ()
    annotations: tuple[str, ...] = ()
    decimal: str | None = None
    thousands: str | None = None
    missing_markers: tuple[str, ...] = ()
    encoding: str | None = None
    header: bool | None = None
    comment: str | bool | None = None
    unmatched: str = "error"

    @property
    def annotation_names(self) -> tuple[str, ...]:
        """Names inside the table that describe samples and are not variables."""
        label = () if self.inner_label is None else (self.inner_label,)
        return tuple(dict.fromkeys((*label, *self.where, *self.annotations)))

    @property
    def inner_label(self) -> str | None:
        """The label, where it is inside the table rather than in a label file."""
        return self.label if self.labels is None else None

    @property
    def named_cells(self) -> tuple[str, ...]:
        """Names of columns and rows that an option refers to."""
        return (*self.annotation_names, *((self.names,) if isinstance(self.names, str) else ()), *self.drop)

    def option_of(self, annotation: str) -> str:
        """The option that refers to an annotation, for messages."""
        if annotation in self.annotations:
            return "annotations"
        return "label" if annotation == self.label else "subset"

    def require_fit(self, kind: str, path: str) -> None:
        """Refuse options that a file of this kind cannot use, since ignoring them would hide a mistake."""
        for entry in fields(self):
            value, kinds = vars(self)[entry.name], FORMATS_OF_OPTION.get(entry.name, (kind,))
            if kind not in kinds and value != entry.default:
                suits = f"{entry.name}={value!r} means nothing ({entry.name} is for {' and '.join(kinds)})"
                raise InputError(f"{path} is read as {kind}, where {suits}: leave it out.", entry.name)


def check_options(arguments: dict[str, Any]) -> ReadOptions:
    """Check the keyword arguments of `read_table`; those that are None count as absent."""
    options = {name: value for name, value in arguments.items() if value is not None}
    if "time" in options:
        if "label" in options or "labels" in options:
            raise InputError("time and label both say what goes with the samples: give one of them.", "time")
        options["label"], options["is_time"] = options.pop("time"), True
    for name in {"label", "layer"} & set(options):
        if not isinstance(options[name], str):
            actual = f"{type(options[name]).__name__} {options[name]!r}"
            raise InputTypeError(f"{name} must be the name of a column, not {actual}.", name)
    for name in set(_CHOICES) & set(options):
        check_choice(name, options[name], _CHOICES[name])
    if options.get("decimal", ".") == options.get("thousands"):
        raise InputError(f"decimal and thousands are both {options['thousands']!r}: they must differ.", "thousands")
    if options.get("names") is True:
        raise InputTypeError("names must be the name of a column, or False if none holds names, not True.", "names")
    delimiter = options.get("delimiter", ",")
    if not isinstance(delimiter, str) or len(delimiter) != 1 or delimiter in '"\r\n':
        raise InputError(f"delimiter={delimiter!r} must be one character, such as ',' or '\\t'.", "delimiter")
    for name in {"drop", "missing_markers", "annotations"} & set(options):
        options[name] = _words(name, options[name])
    subset = options.pop("subset", None)
    if isinstance(subset, Mapping):
        options["where"] = {str(key): _words(f"subset[{key!r}]", value) for key, value in subset.items()}
    elif subset is not None:
        options["classes"] = _words("subset", subset)
    return ReadOptions(**options)


def _words(name: str, value: Any) -> tuple[str, ...]:
    if isinstance(value, str):
        return (value,)
    if not isinstance(value, Iterable):
        raise InputTypeError(f"{name} must be a word or a list of words, not {type(value).__name__} {value!r}.", name)
    return tuple(str(word) for word in value)
