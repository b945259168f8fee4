"""Result folders: written beside the target and renamed when complete, without loss of a user's files."""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

from jointglasso._files import could_not_write, give_usual_rights, sync
from jointglasso.errors import InputError

wrong = partial(InputError, parameter="out")

#: The file by which a result of this package is recognised; it lists the files that may be replaced.
MARK = "parameters.json"

#: Endings of the names of unfinished folders, and of replaced ones.
_UNFINISHED, _REPLACED = ".tmp", ".old"


class FolderWarning(UserWarning):
    """Files beside or inside a result folder that need attention."""


class ResultFolder:
    """A folder that appears complete or not at all; refuses at once what it may not replace."""

    def __init__(self, path: Path, *, overwrite: bool = False) -> None:
        self.requested, self.path, self.overwrite = path, path.resolve(), overwrite
        self._recover()
        self._check()

    @contextmanager
    def building(self) -> Iterator[Path]:
        """A new folder beside the target; it takes the name of the target when the block ends without an exception.

        An old result is replaced only then, and files in it that are not part of the result move to the new folder. If
        anything fails, it remains as it was.
        """
        missing = [folder for folder in self.path.parents if not folder.exists()]
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            new = Path(tempfile.mkdtemp(prefix=f".{self.path.name}.", suffix=_UNFINISHED, dir=self.path.parent))
        except OSError as error:
            raise could_not_write(error, self.requested) from None
        try:
            yield new
            _list_files(new)
            give_usual_rights(new, 0o777)
            _sync_all(new)
            self._check()  # hours may have passed
            old = self._replace(new)
        except BaseException:
            shutil.rmtree(new, ignore_errors=True)
            for folder in missing:
                with suppress(OSError):
                    folder.rmdir()
            raise
        if old is not None:
            self._move_foreign_files(old)
            self._remove(old)
        sync(self.path.parent)

    def _check(self) -> None:
        """Refuse what may not be replaced."""
        if self.path.exists() and not self.path.is_dir():
            raise wrong(f"{self.requested} is a file: give --out the name of a folder.")
        if not self.path.is_dir() or not any(self.path.iterdir()):
            return
        if not self.overwrite:
            raise wrong(f"{self.requested} exists and is not empty: choose another --out, or add --overwrite.")
        if _result_files(self.path) is None:
            raise wrong(
                f"{self.requested} holds other things than a result of jointglasso (no {MARK} that lists its files): "
                "choose another --out, it will not be overwritten."
            )

    def _recover(self) -> None:
        """Restore a result that a killed run had renamed, and report other folders that it created."""
        name = re.compile(rf"\.{re.escape(self.path.name)}\.\w{{8}}({re.escape(_UNFINISHED)}|{re.escape(_REPLACED)})")
        for folder in sorted(self.path.parent.glob(".*")):
            if not name.fullmatch(folder.name) or not folder.is_dir():
                continue
            if folder.suffix == _REPLACED and not self.path.exists() and _result_files(folder) is not None:
                os.rename(folder, self.path)
                self._warn(f"it was hidden as {folder.name} by a run that was killed, and has its name again")
            else:
                self._warn(f"{folder} was left by a run that was killed, if none is going on: look into it, delete it")

    def _replace(self, new: Path) -> Path | None:
        """Give `new` the name of the target; return the new name of an old result."""
        if not self.path.exists():
            os.rename(new, self.path)
            return None
        old = new.with_suffix(_REPLACED)
        os.rename(self.path, old)
        try:
            os.rename(new, self.path)
        except BaseException:
            os.rename(old, self.path)
            raise
        return old

    def _move_foreign_files(self, old: Path) -> None:
        """Move the files that are not part of the old result to the new one, beside a file of their name."""
        for name in sorted(_all_files(old) - (_result_files(old) or set())):
            target = self.path
            for part in Path(name).parts:
                # A folder of that name is shared; a file gives the later one another name.
                target = _free_name(target / part, shared=(old / name).name != part)
                if (old / name).name != part:
                    target.mkdir(exist_ok=True)
            os.rename(old / name, target)
            moved = target.relative_to(self.path)
            if str(moved) != name:
                self._warn(f"{name} was not written by jointglasso and is now called {moved}")

    def _remove(self, old: Path) -> None:
        """Remove the files of an old result and the folders that are empty then."""
        for name in _all_files(old) & (_result_files(old) or set()):
            (old / name).unlink()
        for folder in sorted((path for path in old.rglob("*") if path.is_dir()), reverse=True):
            with suppress(OSError):
                folder.rmdir()
        try:
            old.rmdir()
        except OSError:
            self._warn(f"files that came into it while it was being replaced are in {old}")

    def _warn(self, what: str) -> None:
        warnings.warn(f"{self.requested}: {what}.", FolderWarning, stacklevel=4)


def _free_name(path: Path, *, shared: bool) -> Path:
    """The path, or one with a word in its name where another file has it; a `shared` folder may exist."""
    name, number = path, 1
    while os.path.lexists(path) and not (shared and path.is_dir() and not path.is_symlink()):
        path = name.with_name(f"{name.stem}.before{number if number > 1 else ''}{name.suffix}")
        number += 1
    return path


def _result_files(folder: Path) -> set[str] | None:
    """Names of the files that belong to a result, or None if the folder is not a result."""
    try:
        facts = json.loads((folder / MARK).read_text(encoding="utf-8"))
        if "jointglasso" not in facts["versions"]:
            return None
        return {str(Path(name)) for name in facts["files"]}
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _all_files(folder: Path) -> set[str]:
    """Files and links below a folder."""
    paths = (path for path in folder.rglob("*") if path.is_symlink() or not path.is_dir())
    return {str(path.relative_to(folder)) for path in paths}


def _list_files(folder: Path) -> None:
    """Write the files of a result into its mark."""
    mark = folder / MARK
    if mark.is_file():
        facts = json.loads(mark.read_text(encoding="utf-8"))
        facts["files"] = sorted(Path(name).as_posix() for name in _all_files(folder))
        mark.write_text(json.dumps(facts, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def _sync_all(folder: Path) -> None:
    """Force everything below a folder to the disk."""
    for path in (folder, *folder.rglob("*")):
        if not path.is_symlink():
            sync(path)
