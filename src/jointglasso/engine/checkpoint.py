"""Interrupt and resume: finished pieces of work in a folder, each file written in one step.

``manifest.json`` says which problem the folder belongs to. A piece of work is known by its blocks, so that a resumed
run finds it whatever the order or the number of threads; its file holds the non-zero entries of Theta and nothing that
has to be believed: the gap is computed anew from what is read. A file that is cut short or damaged counts as not there.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
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

from jointglasso import tuning
from jointglasso._files import atomic_text, atomic_write
from jointglasso._typing import FloatArray, IntArray
from jointglasso.blocks import BlockSystem
from jointglasso.covariance import absent_of, fingerprint
from jointglasso.engine.outcome import Nonzeros, Outcome
from jointglasso.errors import argument
from jointglasso.problem import JointProblem
from jointglasso.screening.groups import ClassBlocks
from jointglasso.validation import InputError

#: Errors of this module are about one argument.
wrong = partial(InputError, parameter="checkpoint")

Theta = TypeVar("Theta")

FORMAT = "jointglasso checkpoint"
FORMAT_VERSION = 2

#: Arrays of a file; and bytes of a manifest, which are some hundred in truth.
_MEMBERS = ("position", "value", "diagonal", "n_iter", "methods")
_LONGEST_MANIFEST = 2**20


@dataclass(frozen=True)
class Saved:
    """What an earlier run left of a piece of work."""

    position: IntArray
    """Of the non-zero entries, upper triangle, in the flat storage of its blocks."""
    value: FloatArray
    diagonal: FloatArray
    n_iter: int
    methods: list[str]

    def theta(self, system: BlockSystem) -> FloatArray | None:
        """Theta in flat storage; None if it is not one of these blocks."""
        flat = np.zeros(len(system.S))
        fits = len(self.position) == len(self.value) and len(self.diagonal) == len(system.members)
        inside = (self.position >= 0) & (self.position < len(flat))
        if not fits or not inside.all() or len(self.methods) != system.n_groups:
            return None
        flat[self.position] = self.value
        theta = system.scatter(system.gather(flat), self.diagonal)
        return theta if np.isfinite(theta).all() else None


class Checkpoint:
    """A folder that belongs to one problem."""

    def __init__(self, folder: str | os.PathLike[str], problem: JointProblem) -> None:
        self.folder = Path(folder)
        self._warned = False
        """Whether there was a warning about a file that could not be written."""
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
        """What was saved of these blocks: the finished result, else the last snapshot, else None."""
        saved = _read(self._finished(blocks))
        return _read(self._unfinished(blocks)) if saved is None else saved

    def keep(self, blocks: ClassBlocks, outcome: Outcome) -> None:
        """Write the result of a finished piece of work; one that was stopped is kept as a snapshot."""
        if outcome.stopped_by in ("interrupt", "callback", "max_iter"):
            self._write(self._unfinished(blocks), outcome.nonzeros, outcome.n_iter, outcome.methods)
            return
        self._write(self._finished(blocks), outcome.nonzeros, outcome.n_iter, outcome.methods)
        with suppress(OSError):
            self._unfinished(blocks).unlink(missing_ok=True)

    def _write(self, path: Path, nonzeros: Nonzeros, n_iter: int, methods: Sequence[str]) -> None:
        """Write a file; what cannot be written is no reason to lose the solve."""
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
        """A function that writes, now and then, where the solve of these blocks has got to."""
        path, last, writing = self._unfinished(blocks), time.monotonic(), Lock()

        def keep(theta: Callable[[], Theta]) -> None:
            nonlocal last
            recent = time.monotonic() - last < tuning.SNAPSHOT_SECONDS
            if recent or not self.folder.is_dir():  # on another machine, perhaps
                return
            with writing:
                last = time.monotonic()
                self._write(path, nonzeros(theta()), 0, ["snapshot"] * blocks.n_groups)
                last = time.monotonic()

        return keep


def _manifest(problem: JointProblem) -> dict[str, Any]:
    source, absent = problem.source, absent_of(problem.source)
    penalty = getattr(problem.penalty, "full", problem.penalty)  # what classes lack stands beside it
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
    """A number or a word as it is, anything with many numbers as a digest."""
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
        changes = ", ".join(
            "the data differ"
            if name == "data"
            else f"{name} is {manifest.get(name)!r:.60} there and {wanted[name]!r:.60} here"
            for name in different
        )
        raise wrong(
            f"The checkpoint in {folder} belongs to another problem ({changes}): give another folder, or the same problem."
        )


def _key(blocks: ClassBlocks) -> str:
    """Name of a piece of work: a digest of its class blocks."""
    return _digest(blocks.block_class, blocks.start, blocks.members)


def _digest(*arrays: NDArray[Any]) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for array in arrays:
        digest.update(np.ascontiguousarray(array, dtype=np.float64).tobytes())
    return digest.hexdigest()


def _write(path: Path, nonzeros: Nonzeros, n_iter: int, methods: Sequence[str]) -> None:
    upper = nonzeros.position != nonzeros.mirror
    buffer = io.BytesIO()
    np.savez(
        buffer,
        position=nonzeros.position[upper],
        value=nonzeros.value[upper],
        diagonal=nonzeros.value[~upper],
        n_iter=np.int64(n_iter),
        methods=np.array(list(methods), dtype=np.str_),
    )
    with atomic_write(path) as file:
        file.write(buffer.getvalue())


def _read(path: Path) -> Saved | None:
    """Read a file, or None if there is none or it is damaged; the archive carries check sums of its members."""
    try:
        size = path.stat().st_size
        with path.open("rb") as file, zipfile.ZipFile(file) as archive:
            position, value, diagonal, n_iter, methods = (_member(archive, name, size) for name in _MEMBERS)
        names = [str(word) for word in methods.tolist()]
        positions = np.atleast_1d(position).astype(np.int64)
        entries, variances = (np.atleast_1d(array).astype(float) for array in (value, diagonal))
        return Saved(positions, entries, variances, int(n_iter), names)
    except Exception:  # whatever is wrong with it, it was only a hint
        return None


def _member(archive: zipfile.ZipFile, name: str, size: int) -> NDArray[Any]:
    """An array of an archive of `size` bytes; a header that promises more than there is gets no memory for it."""
    entry = archive.getinfo(f"{name}.npy")
    if entry.compress_type != zipfile.ZIP_STORED or entry.file_size > size:
        raise ValueError(f"{name} is not stored as it was written.")
    content = io.BytesIO(archive.read(entry))
    if np.lib.format.read_magic(content) != (1, 0):
        raise ValueError(f"{name} is not stored as it was written.")
    shape, _, dtype = np.lib.format.read_array_header_1_0(content)
    numbers = content.read()
    if dtype.kind not in "ifU" or len(shape) > 1 or math.prod(shape) * dtype.itemsize != len(numbers):
        raise ValueError(f"{name} has not the numbers that it promises.")
    return np.frombuffer(numbers, dtype).reshape(shape)
