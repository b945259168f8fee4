"""Result folders: written beside the target and renamed when complete, without loss of a user's files."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

from jointglasso._files import atomic_text, could_not_write, give_usual_rights
from jointglasso._wording import listed
from jointglasso.errors import InputError

wrong = partial(InputError, parameter="out")

#: The file by which a result of this package is recognised; it lists the files that may be replaced.
MARK = "parameters.json"


class FolderWarning(UserWarning):
    """An earlier result could not be removed, because files were added to it meanwhile."""


class ResultFolder:
    """A folder that appears complete or not at all; refuses at once what it may not replace."""

    def __init__(self, path: Path, *, overwrite: bool = False) -> None:
        self.requested, self.path, self.overwrite = path, path.resolve(), overwrite
        foreign = self._check()
        if foreign:
            raise wrong(f"{path} holds {listed(foreign, 3)} beside its result: move that, or choose another --out.")

    @contextmanager
    def building(self) -> Iterator[Path]:
        """A new folder beside the target; it takes the name of the target when the block ends without an exception.

        An old result is replaced only then. If anything fails, it remains as it was.
        """
        missing = [folder for folder in self.path.parents if not folder.exists()]
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            new = Path(tempfile.mkdtemp(prefix=f".{self.path.name}.", suffix=".tmp", dir=self.path.parent))
        except OSError as error:
            raise could_not_write(error, self.requested) from None
        try:
            yield new
            _list_files(new)
            give_usual_rights(new, 0o777)
            self._check()  # hours may have passed
            self._replace(new)
        except BaseException:
            shutil.rmtree(new, ignore_errors=True)
            for folder in missing:
                with suppress(OSError):
                    folder.rmdir()
            raise

    def _check(self) -> list[str]:
        """Refuse what may not be replaced; return the files beside the old result."""
        if self.path.exists() and not self.path.is_dir():
            raise wrong(f"{self.requested} is a file: give --out the name of a folder.")
        if not self.path.is_dir() or not any(self.path.iterdir()):
            return []
        if not self.overwrite:
            raise wrong(f"{self.requested} exists and is not empty: choose another --out, or add --overwrite.")
        listed_files = _result_files(self.path)
        if listed_files is None:
            raise wrong(
                f"{self.requested} holds other things than a result of jointglasso (no {MARK} that lists its files): "
                "choose another --out, it will not be overwritten."
            )
        return sorted(_all_files(self.path) - listed_files)

    def _replace(self, new: Path) -> None:
        """Give `new` the name of the target and remove an old result, unless files were added to it."""
        if not self.path.exists():
            os.rename(new, self.path)
            return
        old = self.path.with_name(f"{new.name.removeprefix('.').removesuffix('.tmp')}.old")
        os.rename(self.path, old)
        try:
            os.rename(new, self.path)
        except BaseException:
            os.rename(old, self.path)
            raise
        if _all_files(old) - (_result_files(old) or set()):
            text = f"Files were added to {self.requested} meanwhile: the earlier result and these are in {old}."
            warnings.warn(text, FolderWarning, 3)
        else:
            shutil.rmtree(old)


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
        atomic_text(mark, json.dumps(facts, indent=2, ensure_ascii=False) + "\n")
