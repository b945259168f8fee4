"""A result folder appears complete or not at all, and nothing that somebody else put into it is lost."""

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

#: The file by which a folder is known to be a result of ours; it lists the files that may be replaced.
MARK = "parameters.json"

#: Endings of the names of folders that are not finished, and of those that make way for a new one.
_UNFINISHED, _REPLACED = ".tmp", ".old"


class FolderWarning(UserWarning):
    """Something beside or inside a result folder deserves a look."""


class ResultFolder:
    """A folder to be written in one step; refuses at once what it may not replace."""

    def __init__(self, path: Path, *, overwrite: bool = False) -> None:
        self.given = path
        self.path = path.resolve()
        self.overwrite = overwrite
        self._recover()
        self._check()

    @contextmanager
    def building(self) -> Iterator[Path]:
        """Give a new folder beside the target; it takes the name of the target when the block ends well.

        A folder that was there before is replaced only then, and what is not ours in it moves along. If anything fails,
        it stays as it was.
        """
        made = [folder for folder in self.path.parents if not folder.exists()]
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            new = Path(tempfile.mkdtemp(prefix=f".{self.path.name}.", suffix=_UNFINISHED, dir=self.path.parent))
        except OSError as error:
            raise could_not_write(error, self.given) from None
        try:
            yield new
            _list_files(new)
            give_usual_rights(new, 0o777)
            self._check()  # hours may have passed
            foreign = sorted(_files(self.path) - (_own_files(self.path) or set()))
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
        """Refuse what may not be replaced."""
        if self.path.exists() and not self.path.is_dir():
            raise wrong(f"{self.given} is a file: give --out the name of a folder.")
        if not self.path.is_dir() or not any(self.path.iterdir()):
            return
        if not self.overwrite:
            raise wrong(f"{self.given} exists and is not empty: choose another --out, or add --overwrite.")
        if _own_files(self.path) is None:
            raise wrong(
                f"{self.given} holds other things than a result of jointglasso (no {MARK} that lists its files): "
                "choose another --out, it will not be overwritten."
            )

    def _recover(self) -> None:
        """Put back what a killed run took away, and tell what it left."""
        ours = re.compile(rf"\.{re.escape(self.path.name)}\.\w{{8}}({re.escape(_UNFINISHED)}|{re.escape(_REPLACED)})")
        for left in sorted(self.path.parent.glob(".*")):
            if not ours.fullmatch(left.name) or not left.is_dir():
                continue
            if left.suffix == _REPLACED and not self.path.exists() and _own_files(left) is not None:
                os.rename(left, self.path)
                self._warn(f"it was hidden as {left.name} by a run that was killed, and has its name again")
            else:
                self._warn(f"{left} was left by a run that was killed, if none is going on: look into it and delete it")

    def _take_place(self, new: Path) -> Path | None:
        """Give `new` the name of the target, and return where that went, if it was there."""
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
        """Remove a replaced folder, but nothing that came into it meanwhile."""
        twins = {name for name, place in carried.items() if _same(old / name, self.path / place)}
        for name in twins | (_own_files(old) or set()):
            with suppress(OSError):
                (old / name).unlink()
        _remove_empty([Path(root) for root, _, _ in os.walk(old, topdown=False)])
        if old.exists():
            self._warn(f"files that came into it while it was being replaced are in {old}")

    def _warn(self, what: str) -> None:
        warnings.warn(f"{self.given}: {what}.", FolderWarning, stacklevel=4)


def _own_files(folder: Path) -> set[str] | None:
    """Names of the files that are ours, or None if the folder is no result."""
    try:
        kept = json.loads((folder / MARK).read_text(encoding="utf-8"))
        if "jointglasso" not in kept["versions"]:
            return None
        names = {str(Path(name)) for name in kept["files"]}
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return {name for name in names if not Path(name).is_absolute() and ".." not in Path(name).parts}


def _files(folder: Path) -> set[str]:
    """Everything below a folder that is no folder, links included."""
    return {
        os.path.relpath(os.path.join(root, name), folder)
        for root, folders, files in os.walk(folder)
        for name in [*files, *(name for name in folders if os.path.islink(os.path.join(root, name)))]
    }


def _list_files(folder: Path) -> None:
    """Note in the mark which files are ours."""
    mark = folder / MARK
    if mark.is_file():
        kept = json.loads(mark.read_text(encoding="utf-8"))
        kept["files"] = sorted(Path(name).as_posix() for name in _files(folder))
        mark.write_text(json.dumps(kept, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def _carry(source: Path, name: str, target: Path) -> str:
    """Put a foreign file of one folder into another too, beside one of its name, and return what it is called there."""
    place = target
    for part in Path(name).parts[:-1]:
        place = _free(place / part, folder=True)
        place.mkdir(exist_ok=True)
    place = _free(place / Path(name).name, folder=False)
    try:
        os.link(source / name, place, follow_symlinks=False)
    except OSError:  # some disks have no links
        shutil.copy2(source / name, place, follow_symlinks=False)
    return str(place.relative_to(target))


def _free(place: Path, *, folder: bool) -> Path:
    """Return the path itself, or with a word in its name if something else has it."""
    wanted, number = place, 1
    while os.path.lexists(place) and not (folder and place.is_dir() and not place.is_symlink()):
        more = "before" if number == 1 else f"before{number}"
        place, number = wanted.with_name(f"{wanted.stem}.{more}{wanted.suffix}"), number + 1
    return place


def _same(one: Path, other: Path) -> bool:
    """Whether two files are one, or a file and its copy."""
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
    """Let two folders swap their names in one step, where the system can."""
    try:
        renameat2 = ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError, TypeError):
        return False
    here, exchange = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
    return int(renameat2(here, os.fsencode(one), here, os.fsencode(other), exchange)) == 0


def _sync(folder: Path) -> None:
    """Force everything below a folder to the disk."""
    for root, _, files in os.walk(folder):
        for name in files:
            if not os.path.islink(os.path.join(root, name)):
                sync(Path(root, name))
        sync(Path(root))
