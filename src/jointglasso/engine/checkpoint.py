"""Interrupt and resume: finished pieces of work in a folder, each file written in one step.

``manifest.json`` says which problem the folder belongs to. A piece of work is known by its blocks, so that a resumed
run finds it whatever the order or the number of threads; its file holds the non-zero entries of Theta and nothing that
has to be believed: the gap is computed anew from what is read. A file that is cut short or damaged counts as not there.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jointglasso._files import DAMAGE, atomic_text, atomic_write
from jointglasso._typing import FloatArray
from jointglasso.blocks import BlockSystem
from jointglasso.covariance import fingerprint
from jointglasso.problem import JointProblem
from jointglasso.solvers import SolverResult

FORMAT = "jointglasso checkpoint"
FORMAT_VERSION = 1

#: Seconds between two snapshots of a group that is being solved.
SNAPSHOT_SECONDS = 60.0


@dataclass(frozen=True)
class Saved:
    """What an earlier run left of a piece of work."""

    theta: FloatArray
    n_iter: int
    methods: list[str]


class Checkpoint:
    """A folder that belongs to one problem."""

    def __init__(self, folder: str | os.PathLike[str], problem: JointProblem) -> None:
        self.folder = Path(folder)
        self._last_snapshot = time.monotonic()
        wanted = _manifest(problem)
        path = self.folder / "manifest.json"
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise type(error)(error.errno, f"checkpoint={str(folder)!r} cannot be used as a folder: {error}.") from None
        if path.exists():
            _require_same(self.folder, path, wanted)
        elif any(entry.suffix != ".tmp" for entry in self.folder.iterdir()):
            raise ValueError(
                f"The folder {self.folder} holds other files and no manifest.json: give checkpoint= an empty or new "
                "folder."
            )
        else:
            atomic_text(path, json.dumps(wanted, indent=1))

    def find(self, system: BlockSystem) -> Saved | None:
        """What was saved of these blocks: the finished result, else the last snapshot, else None."""
        key = _key(system)
        for name in (f"{key}.npz", f"{key}.unfinished.npz"):
            saved = _read(self.folder / name, system)
            if saved is not None:
                return saved
        return None

    def keep(self, system: BlockSystem, result: SolverResult) -> None:
        """Write the result of a finished piece of work; one that was stopped is kept as a snapshot."""
        key = _key(system)
        snapshot = self.folder / f"{key}.unfinished.npz"
        if result.stopped_by in ("interrupt", "callback", "max_iter"):
            _write(snapshot, system, result.theta, result.n_iter, result.methods)
            return
        _write(self.folder / f"{key}.npz", system, result.theta, result.n_iter, result.methods)
        snapshot.unlink(missing_ok=True)

    def keep_unfinished(self, system: BlockSystem, theta: Callable[[], FloatArray]) -> None:
        """Write where a long solve has got to, now and then."""
        if time.monotonic() - self._last_snapshot < SNAPSHOT_SECONDS:
            return
        _write(self.folder / f"{_key(system)}.unfinished.npz", system, theta(), 0, ["newton"] * system.n_groups)
        self._last_snapshot = time.monotonic()


def _manifest(problem: JointProblem) -> dict[str, Any]:
    source, penalty = problem.source, problem.penalty
    return {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "data": fingerprint(source),
        "n_classes": source.n_classes,
        "n_variables": source.n_variables,
        "penalty": type(penalty).__name__,
        "lambda1": penalty.lambda1,
        "lambda2": penalty.lambda2,
        "weights": problem.weights.tolist(),
        "penalize_diagonal": problem.penalize_diagonal,
        "pair_weights": None if problem.pair_weights is None else _digest(*problem.pair_weights.exceptions),
    }


def _require_same(folder: Path, path: Path, wanted: dict[str, Any]) -> None:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        found = None
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise ValueError(f"{path} is no manifest of a checkpoint: give checkpoint= an empty or new folder.")
    different = [name for name in wanted if found.get(name) != wanted[name]]
    if different:
        told = ", ".join(
            "the data differ" if name == "data" else f"{name} is {found.get(name)!r} there and {wanted[name]!r} here"
            for name in different
        )
        raise ValueError(
            f"The checkpoint in {folder} belongs to another problem ({told}): give another folder, or the same problem."
        )


def _key(system: BlockSystem) -> str:
    """Name of a piece of work: a digest of its class blocks."""
    return _digest(system.block_class, system.size, system.members)


def _digest(*arrays: NDArray[Any]) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for array in arrays:
        digest.update(np.ascontiguousarray(array, dtype=np.float64).tobytes())
    return digest.hexdigest()


def _write(path: Path, system: BlockSystem, theta: FloatArray, n_iter: int, methods: Sequence[str]) -> None:
    upper = np.flatnonzero(system.gather(theta))
    buffer = io.BytesIO()
    np.savez(
        buffer,
        entry=upper.astype(np.int64),
        value=theta[system.upper[upper]],
        diagonal=theta[system.diagonal],
        n_iter=np.int64(n_iter),
        methods=np.array(list(methods), dtype=np.str_),
    )
    with atomic_write(path) as file:
        file.write(buffer.getvalue())


def _read(path: Path, system: BlockSystem) -> Saved | None:
    """Read a file, or None if there is none or it is damaged; the archive carries check sums of its members."""
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            entry, value, diagonal = (archive[name] for name in ("entry", "value", "diagonal"))
            n_iter, methods = int(archive["n_iter"]), [str(name) for name in archive["methods"]]
        entries = np.zeros(len(system.upper))
        entries[entry] = value
        theta = system.scatter(entries, diagonal)
    except (OSError, *DAMAGE):
        return None
    if not np.isfinite(theta).all() or len(methods) != system.n_groups:
        return None
    return Saved(theta, n_iter, methods)
