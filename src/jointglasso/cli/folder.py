"""Atomic replacement of result folders: complete or not at all, and files of other origin are preserved."""

from __future__ import annotations

import ctypes
import json
import os
import re
import shutil
import tempfile
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

from jointglasso._files import could_not_write, give_usual_rights, sync
from jointglasso.errors import InputError

#: Errors of this module are about one argument.
wrong = partial(InputError, parameter="out")

#: File that marks a folder as a result of this package; it lists the files that may be replaced.
MARK = "parameters.json"

#: Suffixes of folders under construction, and of folders being replaced.
_UNFINISHED, _REPLACED = ".tmp", ".old"


class FolderWarning(UserWarning):
    """Unexpected files or folders beside or inside a result folder."""


class ResultFolder:
    """Result folder that is written atomically; raises at once where a target must not be replaced."""

    def __init__(self, path: Path, *, overwrite: bool = False) -> None:
        self.requested = path
        self.path = path.resolve()
        self.overwrite = overwrite
        self._recover()
        self._check()

    @contextmanager
    def building(self) -> Iterator[Path]:
        """Yield a new folder beside the target, renamed to the target when the block ends without an error.

        An earlier target is replaced only then, and its files of other origin are carried over. After an error the
        earlier target is unchanged.
        """
        made = [folder for folder in self.path.parents if not folder.exists()]
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            new = Path(tempfile.mkdtemp(prefix=f".{self.path.name}.", suffix=_UNFINISHED, dir=self.path.parent))
        except OSError as error:
            raise could_not_write(error, self.requested) from None
        try:
            yield new
            _list_files(new)
            give_usual_rights(new, 0o777)
            self._check()  # again: the target may have changed during the solve
            foreign = sorted(_files(self.path) - (_listed_files(self.path) or set()))
            carried = {name: _carry(self.path, name, new) for name in foreign}
            _sync(new)
            old = self._take_place(new)
        except BaseException:
            shutil.rmtree(new, ignore_errors=True)
            _remove_empty(made)
            raise
        sync(self.path.parent)
        for name, place in carried.items():
            if name != place:
                self._warn(f"{name} was not written by jointglasso and is now called {place}")
        if old is not None:
            self._remove(old, carried)

    def _check(self) -> None:
        """Raise where the target must not be replaced."""
        if self.path.exists() and not self.path.is_dir():
            raise wrong(f"{self.requested} is a file: give --out the name of a folder.")
        if not self.path.is_dir() or not any(self.path.iterdir()):
            return
        if not self.overwrite:
            raise wrong(f"{self.requested} exists and is not empty: choose another --out, or add --overwrite.")
        if _listed_files(self.path) is None:
            raise wrong(
                f"{self.requested} holds other things than a result of jointglasso (no {MARK} that lists its files): "
                "choose another --out, it will not be overwritten."
            )

    def _recover(self) -> None:
        """Restore a target that a killed run had renamed, and warn about its leftover folders."""
        leftover_name = re.compile(
            rf"\.{re.escape(self.path.name)}\.\w{{8}}({re.escape(_UNFINISHED)}|{re.escape(_REPLACED)})"
        )
        for leftover in sorted(self.path.parent.glob(".*")):
            if not leftover_name.fullmatch(leftover.name) or not leftover.is_dir():
                continue
            if leftover.suffix == _REPLACED and not self.path.exists() and _listed_files(leftover) is not None:
                os.rename(leftover, self.path)
                self._warn(f"it was hidden as {leftover.name} by a run that was killed, and has its name again")
            else:
                self._warn(
                    f"{leftover} was left by a run that was killed, if none is going on: look into it and delete it"
                )

    def _take_place(self, new: Path) -> Path | None:
        """Rename `new` to the target; return the path of the earlier target, if there was one."""
        if not self.path.is_dir() or not any(self.path.iterdir()):
            os.rename(new, self.path)  # in one step, over an empty folder too
            old = None
        elif _exchange(new, self.path):
            old = new
        else:
            old = new.with_suffix(_REPLACED)
            os.rename(self.path, old)
            try:
                os.rename(new, self.path)
            except BaseException:
                os.rename(old, self.path)
                raise
        return old

    def _remove(self, old: Path, carried: dict[str, str]) -> None:
        """Remove a replaced folder, except files that were added to it in the meantime."""
        twins = {name for name, place in carried.items() if _is_same_file(old / name, self.path / place)}
        for name in twins | (_listed_files(old) or set()):
            with suppress(OSError):
                (old / name).unlink()
        _remove_empty([Path(root) for root, _, _ in os.walk(old, topdown=False)])
        if old.exists():
            self._warn(f"files that came into it while it was being replaced are in {old}")

    def _warn(self, what: str) -> None:
        warnings.warn(f"{self.requested}: {what}.", FolderWarning, stacklevel=4)


def _listed_files(folder: Path) -> set[str] | None:
    """Files that a result folder lists in its mark, or None if the folder is not a result."""
    try:
        record = json.loads((folder / MARK).read_text(encoding="utf-8"))
        if "jointglasso" not in record["versions"]:
            return None
        names = {str(Path(name)) for name in record["files"]}
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return {name for name in names if not Path(name).is_absolute() and ".." not in Path(name).parts}


def _files(folder: Path) -> set[str]:
    """Relative paths of all files and symbolic links below a folder."""
    return {
        os.path.relpath(os.path.join(root, name), folder)
        for root, folders, files in os.walk(folder)
        for name in [*files, *(name for name in folders if os.path.islink(os.path.join(root, name)))]
    }


def _list_files(folder: Path) -> None:
    """List the files of the folder in its mark."""
    mark = folder / MARK
    if mark.is_file():
        record = json.loads(mark.read_text(encoding="utf-8"))
        record["files"] = sorted(Path(name).as_posix() for name in _files(folder))
        mark.write_text(json.dumps(record, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def _carry(source: Path, name: str, target: Path) -> str:
    """Link or copy a file of other origin into the new folder; return its name there, changed where taken."""
    place = target
    for part in Path(name).parts[:-1]:
        place = _free(place / part, folder=True)
        place.mkdir(exist_ok=True)
    place = _free(place / Path(name).name, folder=False)
    try:
        os.link(source / name, place, follow_symlinks=False)
    except OSError:  # file systems without hard links
        shutil.copy2(source / name, place, follow_symlinks=False)
    return str(place.relative_to(target))


def _free(place: Path, *, folder: bool) -> Path:
    """The path itself, or with "before" in its name if it is taken."""
    wanted, number = place, 1
    while os.path.lexists(place) and not (folder and place.is_dir() and not place.is_symlink()):
        more = "before" if number == 1 else f"before{number}"
        place, number = wanted.with_name(f"{wanted.stem}.{more}{wanted.suffix}"), number + 1
    return place


def _is_same_file(one: Path, other: Path) -> bool:
    """Whether two paths are one file, or a file and its copy (same size and time)."""
    try:
        first, second = one.lstat(), other.lstat()
    except OSError:
        return False
    if os.path.samestat(first, second):
        return True
    return (first.st_size, first.st_mtime_ns) == (second.st_size, second.st_mtime_ns)


def _remove_empty(folders: Iterable[Path]) -> None:
    for folder in folders:
        with suppress(OSError):
            folder.rmdir()


def _exchange(one: Path, other: Path) -> bool:
    """Exchange the names of two folders atomically where the system supports it; False elsewhere."""
    try:
        renameat2 = ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError, TypeError):
        return False
    at_fdcwd, rename_exchange = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
    return int(renameat2(at_fdcwd, os.fsencode(one), at_fdcwd, os.fsencode(other), rename_exchange)) == 0


def _sync(folder: Path) -> None:
    """Flush everything below a folder to the disk (fsync)."""
    for root, _, files in os.walk(folder):
        for name in files:
            if not os.path.islink(os.path.join(root, name)):
                sync(Path(root, name))
        sync(Path(root))
