"""Opening a file: existence, kind, compression and character set."""

from __future__ import annotations

import bz2
import codecs
import gzip
import io
import lzma
import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from jointglasso._memory import available_memory
from jointglasso._wording import listed, nearest
from jointglasso.data.checks import InputError, InputTypeError
from jointglasso.errors import argument

wrong = partial(InputError, parameter="path")

#: Kind of a file by the ending of its name.
KINDS = {
    **dict.fromkeys((".csv", ".tsv", ".tab", ".txt", ".dat"), "text"),
    **dict.fromkeys((".xlsx", ".xlsm"), "excel"),
    **dict.fromkeys((".parquet", ".pq"), "parquet"),
    **{".soft": "soft", ".npz": "npz", ".h5ad": "h5ad"},
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
