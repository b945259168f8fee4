"""Writing files so that a reader sees the old content or the new, never a part of it; tables that no spreadsheet runs.

A spreadsheet takes a cell that begins with =, +, - or @ for a formula, which can call programs. Names come from other
people's files, so such a word gets an apostrophe in front, as spreadsheets do to say "this is text". A word that begins
with apostrophes and one of these signs gets one more, so that `original` takes back exactly what `harmless` did.
Numbers stay numbers.
"""

from __future__ import annotations

import csv
import errno
import os
import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, TextIO


@contextmanager
def atomic_write(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Give a binary file whose content replaces that of `path` when the block ends without an exception.

    The content goes to a temporary file beside `path`, is forced to the disk, and takes the name in one step; if
    anything fails before, what was there stays as it was and the temporary file is removed.
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
    """Say which file could not be written, and what to do where that is known; the type and number are kept."""
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
    """Temporary files and folders are private; give one the rights that any new one has."""
    mask = os.umask(0)
    os.umask(mask)
    os.chmod(path, rights & ~mask)


def sync(path: Path) -> None:
    """Force a file, or the names in a folder, to the disk."""
    if os.name != "posix" and path.is_dir():
        return  # folders cannot be opened there
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


#: Beginnings of cells that spreadsheets take for formulas, with apostrophes before them or not.
_FORMULA = re.compile(r"'*[=+\-@\t\r\n]")


def harmless(cell: Any) -> Any:
    """Return a word that could be a formula with an apostrophe in front; anything else as it is."""
    return f"'{cell}" if isinstance(cell, str) and _FORMULA.match(cell) else cell


def original(cell: str) -> str:
    """Return the word that `harmless` changed."""
    return cell[1:] if cell.startswith("'") and _FORMULA.match(cell) else cell


def write_columns(stream: TextIO, columns: Mapping[str, Iterable[Any]]) -> None:
    """Write columns of equal length as CSV, with their names in the first line."""
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(map(harmless, columns))
    writer.writerows(map(harmless, row) for row in zip(*columns.values(), strict=True))
