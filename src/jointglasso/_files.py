"""Atomic file writes, and CSV cells that a spreadsheet does not evaluate as formulas.

A spreadsheet evaluates a cell that begins with =, +, - or @ as a formula, which can start programs. Names come from
untrusted files, so such a string gets a leading apostrophe, the spreadsheet convention for text. A string that begins
with apostrophes followed by one of these signs gets one more, so that `original` inverts `harmless` exactly. Numbers
are written unchanged.
"""

from __future__ import annotations

import csv
import errno
import os
import re
import struct
import tempfile
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, TextIO

#: Exceptions that reading a damaged zip archive of arrays can raise, depending on the position of the damage.
DAMAGE = (
    ValueError,
    TypeError,
    KeyError,
    IndexError,
    AttributeError,
    EOFError,
    RuntimeError,
    OverflowError,
    MemoryError,
    struct.error,
    zlib.error,
    zipfile.BadZipFile,
)


@contextmanager
def atomic_write(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Context manager: a binary file whose content replaces `path` when the block ends without an exception.

    The content is written to a temporary file in the same folder, synced to disk and renamed atomically. On failure
    the previous content remains and the temporary file is removed.
    """
    target = Path(path)
    handle: IO[bytes] | None = None
    try:
        with tempfile.NamedTemporaryFile(
            dir=target.parent, prefix=f".{target.name}.", suffix=".tmp", delete=False
        ) as handle:
            yield handle
            handle.flush()
            os.fsync(handle.fileno())
        with suppress(OSError):
            give_usual_rights(handle.name, 0o666)
        os.replace(handle.name, target)
    except OSError as error:
        _discard(handle)
        raise could_not_write(error, target) from error
    except BaseException:
        _discard(handle)
        raise
    with suppress(OSError):
        sync(target.parent)


def could_not_write(error: OSError, target: Path) -> OSError:
    """Error of the same type and errno that names the file and, where one is known, the remedy."""
    remedies = {
        errno.ENOSPC: "the disk is full: free some space or choose another folder. What was written before is intact",
        errno.EDQUOT: "your disk quota is used up: free some space or choose another folder",
        errno.ENOENT: f"there is no folder {target.parent}: make it or choose another one",
        errno.EACCES: "you may not write there: choose another folder or change its permissions",
        errno.EROFS: "that disk is read-only: choose another folder",
    }
    reason = remedies.get(error.errno or 0, error.strerror or str(error))
    return type(error)(error.errno, f"Could not write {target}: {reason}.")


def atomic_text(path: str | os.PathLike[str], text: str) -> None:
    """Write `text` as UTF-8 in one step."""
    with atomic_write(path) as file:
        file.write(text.encode("utf-8"))


def _discard(handle: Any) -> None:
    if handle is not None:
        with suppress(OSError):
            os.unlink(handle.name)


def give_usual_rights(path: str | os.PathLike[str], rights: int) -> None:
    """Set the permissions of a new file or folder (umask applied); temporary ones are private by default."""
    mask = os.umask(0)
    os.umask(mask)
    os.chmod(path, rights & ~mask)


def sync(path: Path) -> None:
    """Call ``fsync`` on a file or a folder."""
    if os.name != "posix" and path.is_dir():
        return  # folders cannot be opened on Windows
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


#: Prefixes of cells that spreadsheets evaluate as formulas, with or without leading apostrophes.
_FORMULA = re.compile(r"'*[=+\-@\t\r\n]")


def harmless(cell: Any) -> Any:
    """Prefix a string that could be a formula with an apostrophe; return anything else unchanged."""
    return f"'{cell}" if isinstance(cell, str) and _FORMULA.match(cell) else cell


def original(cell: str) -> str:
    """Inverse of `harmless`."""
    return cell[1:] if cell.startswith("'") and _FORMULA.match(cell) else cell


def write_columns(stream: TextIO, columns: Mapping[str, Iterable[Any]]) -> None:
    """Write columns of equal length as CSV, with their names in the first line."""
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(map(harmless, columns))
    writer.writerows(map(harmless, row) for row in zip(*columns.values(), strict=True))
