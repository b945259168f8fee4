"""Opening a file: the keyword arguments of `read_table`, kind of file, compression and character set."""

from __future__ import annotations

import bz2
import codecs
import gzip
import io
import lzma
import math
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from functools import partial
from pathlib import Path
from typing import Any

from jointglasso._memory import available_memory
from jointglasso._wording import listed, nearest
from jointglasso.data.checks import InputError, InputTypeError, check_choice
from jointglasso.errors import argument
from jointglasso.io.grid import NumberFormat

wrong = partial(InputError, parameter="path")

#: Kind of a file by the ending of its name.
KINDS = {
    **dict.fromkeys((".csv", ".tsv", ".tab", ".txt", ".dat"), "text"),
    **dict.fromkeys((".xlsx", ".xlsm"), "excel"),
    **dict.fromkeys((".parquet", ".pq"), "parquet"),
    **{".soft": "soft", ".npz": "npz", ".h5ad": "h5ad"},
}

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

#: Compressions by the ending of the name: name, first bytes of a file, function that opens one.
COMPRESSIONS: dict[str, tuple[str, bytes, Any]] = {
    ".gz": ("gzip", b"\x1f\x8b", gzip.open),
    ".bz2": ("bzip2", b"BZh", bz2.open),
    ".xz": ("xz", b"\xfd7zXZ\x00", lzma.open),
}

#: Copies of a text that are in memory while it is read: bytes, characters, cells.
_COPIES = 3

_TOO_LARGE = "check that the file is what it should be, or read it on a bigger machine"

#: Bytes that are decompressed at a time.
_CHUNK = 2**22

#: First bytes of files that are not text.
_BEGINNINGS = {b"PK\x03\x04": "a zip archive or a spreadsheet", b"\x89HDF": "an HDF5 file", b"PAR1": "a Parquet file"}

_BYTE_ORDER_MARKS = {codecs.BOM_UTF8: "utf-8-sig", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}

#: Bytes that a text in a one-byte character set does not contain.
_CONTROL = set(range(32)) - set(b"\t\n\r\f\x1a\x1b")


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

    @property
    def number_format(self) -> NumberFormat:
        """Format of the numbers, a decimal point unless another sign is said."""
        return NumberFormat(self.decimal or ".", self.thousands, self.missing_markers)

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


def require_file(path: str | os.PathLike[str]) -> Path:
    """The path, when it is a file that is not empty."""
    if not isinstance(path, str | os.PathLike):
        raise InputTypeError(f"A path is needed, not {type(path).__name__} {path!r}.", "path")
    file = Path(path)
    if file.is_dir():
        inside = [entry.name for entry in sorted(file.iterdir()) if entry.is_file()]
        raise IsADirectoryError(f"{path} is a folder: give the path of one file in it ({nearest('', inside)}).")
    if not file.exists():
        hint = f"there is no folder {file.parent}"
        if file.parent.is_dir():
            hint = nearest(file.name, sorted(entry.name for entry in file.parent.glob("[!.]*")))
        raise FileNotFoundError(f"{path} does not exist: check the path ({hint}).")
    if file.stat().st_size == 0:
        raise wrong(f"{path} is empty (0 bytes): copy or download it again.")
    return file


def kind_of(file: Path) -> str:
    """Kind of a file by its name, without the ending of a compression."""
    endings = [ending for ending in file.suffixes if ending.lower() not in COMPRESSIONS]
    if endings and endings[-1].lower() in KINDS:
        return KINDS[endings[-1].lower()]
    remedy = f"rename it, or say {argument('format', 'text')} (or another of {listed(sorted(set(KINDS.values())), 9)})"
    raise InputError(f"{file}: the kind of file cannot be told from its name: {remedy}.", "format")


@contextmanager
def foreign_reader(message: str) -> Iterator[None]:
    """Replace exceptions of another package's reader, which can be of any type, by an error with `message`."""
    try:
        yield
    except (MemoryError, ImportError, InputError):
        raise
    except Exception as error:
        raise wrong(message) from error


def require_memory(n_bytes: float, what: str) -> None:
    """Refuse what does not fit into memory, before it is read."""
    free = available_memory()
    if free is not None and n_bytes > free:
        sizes = f"{n_bytes / 2**30:,.1f} GiB of memory, and {free / 2**30:,.1f} GiB are free"
        raise MemoryError(f"{what} takes {sizes}: {_TOO_LARGE}.")


def read_bytes(file: Path) -> bytes:
    """Content of a file, decompressed if its first bytes are those of a compression, as far as memory suffices."""
    require_memory(file.stat().st_size, str(file))
    try:
        content = file.read_bytes()
    except PermissionError as error:
        raise PermissionError(f"{file} may not be read: change its permissions.") from error
    for name, first_bytes, opener in COMPRESSIONS.values():
        if content.startswith(first_bytes):
            return _decompressed(file, content, name, opener)
    return content


def _decompressed(file: Path, content: bytes, name: str, opener: Any) -> bytes:
    """Decompress in chunks: a small file can hold more than any memory."""
    free = available_memory()
    max_bytes = math.inf if free is None else free / _COPIES
    output, n_bytes = io.BytesIO(), 0
    with (
        foreign_reader(f"{file}: the {name} data are damaged or cut off: copy or download it again."),
        opener(io.BytesIO(content)) as stream,
    ):
        while chunk := stream.read(_CHUNK):
            n_bytes += output.write(chunk)
            if n_bytes > max_bytes:
                size, free_size = f"{max_bytes / 2**30:,.1f} GiB", f"{max_bytes * _COPIES / 2**30:,.1f} GiB"
                problem = f"holds more than {size} once decompressed, too much for the {free_size} that are free"
                raise MemoryError(f"{file} {problem}: {_TOO_LARGE}.")
    if not n_bytes:
        raise wrong(f"{file} is empty once decompressed: copy or download it again.")
    return output.getvalue()


def read_text(file: Path, encoding: str | None) -> str:
    """Content of a text file: in `encoding`, else as its byte order mark says, else in UTF-8."""
    content = read_bytes(file)
    if encoding is None:
        encoding = next((codec for mark, codec in _BYTE_ORDER_MARKS.items() if content.startswith(mark)), "utf-8")
    try:
        text = content.decode(encoding)
    except LookupError as error:
        remedy = "say for instance 'utf-8' or 'latin-1'"
        raise InputError(f"{argument('encoding', encoding)} is not known: {remedy}.", "encoding") from error
    except UnicodeDecodeError as error:
        if set(content[:4096]) & _CONTROL:
            raise _not_text(file, content) from error
        line, remedy = content[: error.start].count(b"\n") + 1, f"say {argument('encoding', 'latin-1')} or what it is"
        problem = f"{file}, line {line}: the characters are not {encoding.upper()}"
        raise InputError(f"{problem}: {remedy}.", "encoding") from error
    if "\x00" in text:
        raise _not_text(file, content)
    return text


def _not_text(file: Path, content: bytes) -> InputError:
    kind = next((kind for magic, kind in _BEGINNINGS.items() if content.startswith(magic)), "binary data")
    remedy = f"save it as a text table, or say {argument('format', ...)} with its real kind"
    return InputError(f"{file} holds {kind}, not text: {remedy}.", "format")
