"""A result folder appears complete or not at all."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

#: The file by which a folder is known to be a result of ours, and which may therefore be replaced.
MARK = "parameters.json"


class ResultFolder:
    """A folder to be written in one step; refuses at once what it may not replace."""

    def __init__(self, path: Path, *, overwrite: bool = False) -> None:
        self.given = path
        self.path = path.resolve()
        if self.path.exists() and not self.path.is_dir():
            raise ValueError(f"{path} is a file: give --out the name of a folder.")
        if self.path.is_dir() and any(self.path.iterdir()):
            if not overwrite:
                raise ValueError(f"{path} exists and is not empty: choose another --out, or add --overwrite.")
            if not _is_ours(self.path):
                raise ValueError(
                    f"{path} holds other things than a result of jointglasso (no {MARK} of it): choose another --out, "
                    "it will not be overwritten."
                )

    @contextmanager
    def building(self) -> Iterator[Path]:
        """Give a new folder beside the target; it takes the name of the target when the block ends well.

        A folder that was there before is removed only then. If anything fails, it stays as it was.
        """
        self.path.parent.mkdir(parents=True, exist_ok=True)
        new = Path(tempfile.mkdtemp(prefix=f".{self.path.name}.", suffix=".tmp", dir=self.path.parent))
        try:
            yield new
            _give_usual_rights(new)
            _sync(new)
            self._take_place(new)
        except BaseException:
            shutil.rmtree(new, ignore_errors=True)
            raise

    def _take_place(self, new: Path) -> None:
        """Swap: folders cannot replace each other in one step unless the old one is empty."""
        old = new.with_suffix(".old")
        if self.path.is_dir():
            os.rename(self.path, old)
        try:
            os.rename(new, self.path)
        except BaseException:
            if old.is_dir():
                os.rename(old, self.path)
            raise
        shutil.rmtree(old, ignore_errors=True)
        _sync_one(self.path.parent)


def _is_ours(folder: Path) -> bool:
    try:
        return "jointglasso" in json.loads((folder / MARK).read_text(encoding="utf-8"))["versions"]
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _give_usual_rights(folder: Path) -> None:
    """Temporary folders are private; give it the rights of any new folder."""
    mask = os.umask(0)
    os.umask(mask)
    folder.chmod(0o777 & ~mask)


def _sync(folder: Path) -> None:
    """Force everything below a folder to the disk."""
    for root, _, files in os.walk(folder):
        for name in files:
            _sync_one(Path(root, name))
        _sync_one(Path(root))


def _sync_one(path: Path) -> None:
    if os.name != "posix" and path.is_dir():
        return  # folders cannot be opened there
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
