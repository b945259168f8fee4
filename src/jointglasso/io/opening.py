"""Opening a file: is it there, what is it, how is it compressed, what are its characters."""

from __future__ import annotations

import bz2
import codecs
import gzip
import io
import lzma
import math
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from jointglasso._memory import available_memory
from jointglasso._wording import listed, nearest
from jointglasso.errors import argument
from jointglasso.validation import InputError, InputTypeError

#: Errors of this module are about one argument.
wrong = partial(InputError, parameter="path")

#: Kind of a file by the end of its name.
KINDS = {
    ".csv": "text",
    ".tsv": "text",
    ".tab": "text",
    ".txt": "text",
    ".dat": "text",
    ".soft": "soft",
    ".npz": "npz",
    ".npy": "npy",
    ".h5ad": "h5ad",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".xlsx": "excel",
    ".xlsm": "excel",
}

#: Compressions by the end of the name: what they are called, how their files begin, how they are opened.
COMPRESSIONS: dict[str, tuple[str, bytes, Any]] = {
    ".gz": ("gzip", b"\x1f\x8b", gzip.open),
    ".bz2": ("bzip2", b"BZh", bz2.open),
    ".xz": ("xz", b"\xfd7zXZ\x00", lzma.open),
}

#: Copies of a text that are in memory while it is read: bytes, characters, cells.
_COPIES = 3

#: Bytes that are decompressed at a time.
_PIECE = 2**22

#: Beginnings of files that are no text, for a better message than "not text".
_BEGINNINGS = {b"PK\x03\x04": "a zip archive or a spreadsheet", b"\x89HDF": "an HDF5 file", b"PAR1": "a Parquet file"}

_BYTE_ORDER_MARKS = {codecs.BOM_UTF8: "utf-8-sig", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}


def require_file(path: str | os.PathLike[str]) -> Path:
    """Return the path when it is a file that is not empty; else say what is there."""
    if not isinstance(path, str | os.PathLike):
        raise InputTypeError(f"A path is needed, not {type(path).__name__} {path!r}.", "path")
    file = Path(path)
    if file.is_dir():
        inside = [entry.name for entry in sorted(file.iterdir()) if entry.is_file()]
        raise IsADirectoryError(f"{path} is a folder: give the path of one file in it ({nearest('', inside)}).")
    if not file.exists():
        beside = sorted(entry.name for entry in file.parent.glob("[!.]*")) if file.parent.is_dir() else None
        hint = f"there is no folder {file.parent}" if beside is None else nearest(file.name, beside)
        raise FileNotFoundError(f"{path} does not exist: check the path ({hint}).")
    if file.stat().st_size == 0:
        raise wrong(f"{path} is empty (0 bytes): copy or download it again.")
    return file


def kind_of(file: Path) -> str:
    """Tell the kind of a file from its name, the end that names a compression aside."""
    name = file.name.lower()
    inner = name.removesuffix(_compression_suffix(file))
    suffix = Path(inner).suffix
    if suffix in KINDS:
        return KINDS[suffix]
    raise InputError(
        f"{file}: the kind of file cannot be told from its name: rename it, or say {argument('format', 'text')} (or "
        f"another of {listed(sorted(set(KINDS.values())), most=9)}).",
        "format",
    )


@contextmanager
def foreign_reader(message: str) -> Iterator[None]:
    """Say `message` when the reader of another package fails, which may let any exception through."""
    try:
        yield
    except (MemoryError, ImportError):
        raise
    except Exception as error:
        raise wrong(message) from error


def require_memory(n_bytes: float, what: str) -> None:
    """Refuse what would not fit into memory, before it is read."""
    free = available_memory()
    if free is not None and n_bytes > free:
        raise MemoryError(
            f"{what} takes {n_bytes / 2**30:,.1f} GiB of memory, and {free / 2**30:,.1f} GiB are free: check that the "
            "file is what it should be, or read it on a bigger machine."
        )


def read_bytes(file: Path) -> bytes:
    """Content of a file, decompressed as its name says, as far as memory goes."""
    require_memory(file.stat().st_size, str(file))
    try:
        with file.open("rb") as stream:
            beginning = stream.read(8)
    except PermissionError as error:
        raise PermissionError(f"{file} may not be read: change its permissions.") from error
    suffix = _compression_suffix(file)
    actual = next((end for end, (_, magic, _) in COMPRESSIONS.items() if beginning.startswith(magic)), "")
    if actual != suffix:
        raise _wrong_compression(file, suffix, actual)
    return _decompressed(file, suffix) if suffix else file.read_bytes()


def _decompressed(file: Path, suffix: str) -> bytes:
    """Decompress little by little: a small file can hold more than any memory."""
    name, _, opener = COMPRESSIONS[suffix]
    free = available_memory()
    most = math.inf if free is None else free / _COPIES
    content = io.BytesIO()
    try:
        with opener(file) as stream:
            while piece := stream.read(_PIECE):
                content.write(piece)
                if content.tell() > most:
                    raise MemoryError(
                        f"{file} holds more than {most / 2**30:,.1f} GiB once decompressed, too much for the "
                        f"{most * _COPIES / 2**30:,.1f} GiB of memory that are free: check that it is what it should "
                        "be, or read it on a bigger machine."
                    )
    except (OSError, EOFError, ValueError, zlib.error, lzma.LZMAError) as error:
        raise wrong(f"{file}: the {name} data are damaged or cut off: copy or download it again.") from error
    if not content.tell():
        raise wrong(f"{file} is empty once decompressed: copy or download it again.")
    return content.getvalue()


def read_text(file: Path, encoding: str | None) -> str:
    """Content of a text file; UTF-8 unless the file begins with another byte order mark or `encoding` is given."""
    content = read_bytes(file)
    if encoding is None:
        marks = (codec for mark, codec in _BYTE_ORDER_MARKS.items() if content.startswith(mark))
        encoding = next(marks, "utf-8")
    try:
        text = content.decode(encoding)
    except LookupError as error:
        raise InputError(
            f"{argument('encoding', encoding)} is not known: say for instance 'utf-8' or 'latin-1'.", "encoding"
        ) from error
    except UnicodeDecodeError as error:
        if _is_binary(content):
            raise _not_text(file, content) from error
        line = content[: error.start].count(b"\n") + 1
        raise InputError(
            f"{file}, line {line}: the characters are not {encoding.upper()}: say {argument('encoding', 'latin-1')} "
            "or what it is.",
            "encoding",
        ) from error
    if "\x00" in text:
        raise _not_text(file, content)
    return text


def _compression_suffix(file: Path) -> str:
    suffix = file.suffix.lower()
    return suffix if suffix in COMPRESSIONS else ""


def _wrong_compression(file: Path, suffix: str, actual: str) -> ValueError:
    truth = f"it is {COMPRESSIONS[actual][0]}-compressed" if actual else "it is not compressed that way"
    stem = file.name[: len(file.name) - len(suffix)]
    rename = f"rename it to {stem + actual!r}"
    if not suffix:
        return wrong(f"{file}: {truth} although its name does not say so: {rename}.")
    return wrong(f"{file} is named as {COMPRESSIONS[suffix][0]}, but {truth}: {rename} if that is what it is.")


def _is_binary(content: bytes) -> bool:
    """Whether there are bytes that no text in a one-byte character set has."""
    return bool(set(content[:4096]) & (set(range(32)) - set(b"\t\n\r\f\x1a\x1b")))


def _not_text(file: Path, content: bytes) -> ValueError:
    begins = next((what for magic, what in _BEGINNINGS.items() if content.startswith(magic)), "binary data")
    return InputError(
        f"{file} holds {begins}, not text: save it as a text table, or say {argument('format', ...)} with its real "
        "kind.",
        "format",
    )
