"""Checkpoints: results of finished tasks in a folder, each file written atomically.

``manifest.json`` identifies the problem. A task is identified by a digest of its blocks, so that a resumed run finds
its file independently of order and number of threads. The file holds the non-zero entries of Theta; the gap is
recomputed from them, so that the content need not be trusted. Truncated or damaged files are ignored.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import time
import warnings
import zipfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from jointglasso._files import atomic_text, atomic_write
from jointglasso.data import fingerprint
from jointglasso.data.checks import InputError
from jointglasso.engine.nonzeros import Nonzeros
from jointglasso.engine.task_result import TaskResult
from jointglasso.errors import argument
from jointglasso.problem import JointProblem
from jointglasso.screening.groups import ClassBlocks

#: Errors of this module are about one argument.
wrong = partial(InputError, parameter="checkpoint")

Theta = TypeVar("Theta")

FORMAT = "jointglasso checkpoint"
FORMAT_VERSION = 3

#: Seconds between two snapshots of a long task: the most that an interrupt loses.
SNAPSHOT_SECONDS = 30.0

#: Arrays of a file; and the size limit of a manifest in bytes (a real one has a few hundred).
_MEMBERS = ("class", "row", "column", "value", "n_iter", "methods")
_LONGEST_MANIFEST = 2**20


@dataclass(frozen=True)
class Saved:
    """Theta of a task, as read from a checkpoint."""

    nonzeros: Nonzeros
    n_iter: int
    methods: list[str]

    def fits(self, blocks: ClassBlocks) -> bool:
        """Whether it may be a result of the task with these blocks."""
        return len(self.methods) == blocks.n_groups and self.nonzeros.fits(blocks)


class Checkpoint:
    """The checkpoint folder of one problem."""

    def __init__(self, folder: str | os.PathLike[str], problem: JointProblem) -> None:
        self.folder = Path(folder)
        self._warned = False
        """Whether a warning about a failed write was issued."""
        wanted = _manifest(problem)
        path = self.folder / "manifest.json"
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise type(error)(
                error.errno, f"{argument('checkpoint', str(folder))} cannot be used as a folder: {error}."
            ) from None
        if path.exists():
            _require_same_problem(self.folder, path, wanted)
        elif any(entry.suffix != ".tmp" for entry in self.folder.iterdir()):
            raise wrong(
                f"The folder {self.folder} holds other files and no manifest.json: give {argument('checkpoint', ...)} "
                "an empty or new folder."
            )
        else:
            atomic_text(path, json.dumps(wanted, indent=1))

    def find(self, blocks: ClassBlocks) -> Saved | None:
        """Saved state of the task with these blocks: the finished result, else the last snapshot, else None."""
        candidates = map(_read, (self._finished(blocks), self._unfinished(blocks)))
        fitting = (saved for saved in candidates if saved is not None and saved.fits(blocks))
        return next(fitting, None)

    def keep(self, blocks: ClassBlocks, outcome: TaskResult) -> None:
        """Write the result of a task; that of an interrupted task is written as a snapshot."""
        if outcome.stopped_by in ("interrupt", "callback", "max_iter"):
            self._write(self._unfinished(blocks), outcome.nonzeros, outcome.n_iter, outcome.methods)
            return
        self._write(self._finished(blocks), outcome.nonzeros, outcome.n_iter, outcome.methods)
        with suppress(OSError):
            self._unfinished(blocks).unlink(missing_ok=True)

    def _write(self, path: Path, nonzeros: Nonzeros, n_iter: int, methods: Sequence[str]) -> None:
        """Write a file; a failed write gives a warning and does not abort the solve."""
        try:
            _write(path, nonzeros, n_iter, methods)
        except OSError as error:
            if not self._warned:
                warnings.warn(f"{error.strerror or error} The solve goes on without it.", RuntimeWarning, stacklevel=2)
            self._warned = True

    def _finished(self, blocks: ClassBlocks) -> Path:
        return self.folder / f"{_key(blocks)}.npz"

    def _unfinished(self, blocks: ClassBlocks) -> Path:
        return self.folder / f"{_key(blocks)}.unfinished.npz"

    def snapshots(
        self, blocks: ClassBlocks, nonzeros: Callable[[Theta], Nonzeros]
    ) -> Callable[[Callable[[], Theta]], None]:
        """Function that writes the current Theta of a running task every `SNAPSHOT_SECONDS`."""
        path, last, writing = self._unfinished(blocks), time.monotonic(), Lock()

        def keep(theta: Callable[[], Theta]) -> None:
            nonlocal last
            recent = time.monotonic() - last < SNAPSHOT_SECONDS
            if recent or not self.folder.is_dir():  # the folder may not exist on a remote worker
                return
            with writing:
                last = time.monotonic()
                self._write(path, nonzeros(theta()), 0, ["snapshot"] * blocks.n_groups)
                last = time.monotonic()

        return keep


def _manifest(problem: JointProblem) -> dict[str, Any]:
    source, absent = problem.source, problem.source.absent
    penalty = getattr(problem.penalty, "full", problem.penalty)  # missing variables are under "absent"
    return {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "data": fingerprint(source),
        "n_classes": source.n_classes,
        "n_variables": source.n_variables,
        "penalty": type(penalty).__name__,
        **{field.name: _plain(getattr(penalty, field.name)) for field in fields(cast(Any, penalty))},
        "absent": None if absent is None else _digest(absent),
        "weights": problem.weights.tolist(),
        "penalize_diagonal": problem.penalize_diagonal,
        "pair_weights": None if problem.pair_weights is None else _digest(*problem.pair_weights.exceptions),
    }


def _plain(value: Any) -> Any:
    """A number or string unchanged, an array as its digest."""
    return value if value is None or isinstance(value, int | float | str) else _digest(np.asarray(value))


def _require_same_problem(folder: Path, path: Path, wanted: dict[str, Any]) -> None:
    try:
        with path.open("rb") as file:
            manifest = json.loads(file.read(_LONGEST_MANIFEST).decode("utf-8"))
    except (ValueError, RecursionError):
        manifest = None
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise wrong(
            f"{path} is no manifest of a checkpoint: give {argument('checkpoint', ...)} an empty or new folder."
        )
    different = [name for name in wanted if manifest.get(name) != wanted[name]]
    if different:
        diff = ", ".join(
            "the data differ"
            if name == "data"
            else f"{name} is {manifest.get(name)!r:.60} there and {wanted[name]!r:.60} here"
            for name in different
        )
        raise wrong(
            f"The checkpoint in {folder} belongs to another problem ({diff}): give another folder, or the same problem."
        )


def _key(blocks: ClassBlocks) -> str:
    """Identifier of a task: a digest of its class blocks."""
    return _digest(blocks.block_class, blocks.start, blocks.members)


def _digest(*arrays: NDArray[Any]) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for array in arrays:
        digest.update(np.ascontiguousarray(array, dtype=np.float64).tobytes())
    return digest.hexdigest()


def _write(path: Path, nonzeros: Nonzeros, n_iter: int, methods: Sequence[str]) -> None:
    numbers = nonzeros.cls, nonzeros.row, nonzeros.column, nonzeros.value
    members: Any = *numbers, np.int64(n_iter), np.array(list(methods), dtype=np.str_)
    buffer = io.BytesIO()
    np.savez(buffer, **dict(zip(_MEMBERS, members, strict=True)))
    with atomic_write(path) as file:
        file.write(buffer.getvalue())


def _read(path: Path) -> Saved | None:
    """Read a file; None if it is missing or damaged. The archive has a checksum for each member."""
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            if any(entry.compress_type != zipfile.ZIP_STORED for entry in archive.zip.infolist()):
                return None  # it would be unpacked
            *indices, value, n_iter, methods = (archive[name] for name in _MEMBERS)
        one_list = value.ndim == 1 and {array.shape for array in indices} == {value.shape}
        if not one_list or value.dtype != np.float64 or any(array.dtype != np.int64 for array in indices):
            return None
        k, row, column = indices
        nonzeros = Nonzeros(k, row, column, value, np.zeros(len(value), dtype=bool))
        return Saved(nonzeros, int(n_iter), [str(word) for word in methods.tolist()])
    except Exception:  # a checkpoint is optional: ignore any damage
        return None
