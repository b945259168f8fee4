"""NumPy files: `.npz` with X, y, features and samples, and `.npy` with X alone."""

from __future__ import annotations

import io
import math
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from jointglasso._typing import FloatArray
from jointglasso._wording import count, listed
from jointglasso.errors import argument
from jointglasso.io.grid import TableDraft, numbered
from jointglasso.io.labels import as_label
from jointglasso.io.opening import foreign_reader, read_bytes, require_memory
from jointglasso.io.options import Options
from jointglasso.validation import InputError

#: Errors of this module are about one argument.
wrong = partial(InputError, parameter="path")

#: How a file of one array, and an archive of several, begin.
_ARRAY, _ARCHIVE = b"\x93NUMPY", b"PK"

#: Bytes that describe the type and shape of an array, at most.
_LONGEST_HEADER = 2**16


def read_npy(file: Path, options: Options) -> TableDraft:
    """Read one array; it has no names, and its labels come from a label file."""
    path = str(file)
    content = read_bytes(file)
    if content.startswith(_ARCHIVE):
        raise wrong(f"{path} holds several arrays, as .npz files do: rename it, or say {argument('format', 'npz')}.")
    X = _Stored(path, {"": lambda: io.BytesIO(content)}).matrix("", options)
    notes = ["NumPy array", f"samples in {options.samples_in or 'rows'}", "samples and variables numbered"]
    label = options.label if options.labels is None else None
    return TableDraft(path, X, numbered("x", X.shape[1]), numbered("", X.shape[0]), False, label=label, notes=notes)


def read_npz(file: Path, options: Options) -> TableDraft:
    """Read the arrays X, y, features and samples; all but X may be absent, and others of length n are labels too.

    Only what is asked for is read: any other array is known by its type and shape alone.
    """
    path = str(file)
    content = read_bytes(file)
    if content.startswith(_ARRAY):
        raise wrong(f"{path} holds one array, as .npy files do: rename it, or say {argument('format', 'npy')}.")
    with foreign_reader(_damaged(path)):
        archive = zipfile.ZipFile(io.BytesIO(content))
    names = archive.namelist()
    stored = _Stored(path, {name.removesuffix(".npy"): partial(archive.open, name) for name in names})
    if "X" not in stored.shapes:
        raise wrong(
            f"{path} has no array 'X' (it has {listed(stored.shapes)}): store the samples x variables under that name."
        )
    X = stored.matrix("X", options)
    n, p = X.shape
    variables, samples = stored.names("features", p), stored.names("samples", n)
    known = [key for key, shape in stored.shapes.items() if key not in ("X", "features", "samples") and shape == (n,)]
    if "y" in stored.shapes and "y" not in known:
        raise wrong(f"{path}: 'y' has shape {stored.shapes['y']}, but there are {n} samples: give one label each.")
    asked = {*options.annotations, "y"}
    label = options.label or ("y" if "y" in known else None)
    return TableDraft(
        path=path,
        X=X,
        variables=variables or numbered("x", p),
        samples=samples or numbered("", n),
        samples_named=samples is not None,
        annotations={key: [as_label(word) for word in stored.words(key)] if key in asked else [] for key in known},
        label=label if options.labels is None else None,
        notes=["NumPy archive", f"samples in {options.samples_in or 'rows'}"],
    )


def _damaged(path: str) -> str:
    return f"{path} is not a NumPy file or is damaged: write it again with numpy.savez or save."


class _Stored:
    """Arrays of a file: types and shapes at once, values when they are asked for."""

    def __init__(self, path: str, openers: dict[str, Callable[[], IO[bytes]]]) -> None:
        self.path, self._openers = path, openers
        with foreign_reader(_damaged(path)):
            headers = {key: _header(opener) for key, opener in openers.items()}
        self.shapes = {key: shape for key, (shape, _) in headers.items()}
        self.types = {key: dtype for key, (_, dtype) in headers.items()}

    def read(self, key: str) -> NDArray[Any]:
        """One array, if it fits into memory; Python objects, which could run code when loaded, are refused."""
        dtype = self.types[key]
        if dtype.hasobject:
            raise wrong(
                f"{self.path}: {repr(key) if key else 'the array'} holds Python objects, which are not loaded for "
                "safety: store names as arrays of strings."
            )
        require_memory(math.prod(self.shapes[key]) * dtype.itemsize, f"{self.path}: the array{key and f' {key!r}'}")
        with foreign_reader(_damaged(self.path)), self._openers[key]() as stream:
            found: NDArray[Any] = np.lib.format.read_array(stream, allow_pickle=False)
        return found

    def matrix(self, key: str, options: Options) -> FloatArray:
        """Samples x variables."""
        shape, dtype = self.shapes[key], self.types[key]
        if len(shape) != 2 or 0 in shape or dtype.kind not in "fiubO":
            raise wrong(
                f"{self.path}: the array{key and f' {key!r}'} has shape {shape} and type {dtype}: it must be a table "
                "of numbers, samples x variables."
            )
        array = self.read(key)
        X = np.ascontiguousarray(array.T if options.samples_in == "columns" else array, dtype=np.float64)
        return require_no_infinity(X, self.path)

    def words(self, key: str) -> list[str]:
        """An array as words."""
        return [str(word) for word in self.read(key).tolist()]

    def names(self, key: str, length: int) -> list[str] | None:
        """Names of variables or samples, where they are stored."""
        if key not in self.shapes:
            return None
        if self.shapes[key] != (length,):
            what = "variables" if key == "features" else "samples"
            raise wrong(
                f"{self.path}: {key!r} has shape {self.shapes[key]}, but X has {length} {what}: give one name each, "
                f"or say {argument('samples_in', ...)} if X is the other way round."
            )
        return self.words(key)


def _header(opener: Callable[[], IO[bytes]]) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Shape and type of a stored array."""
    readers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    with opener() as stream:
        head = stream.read(12)
        content = io.BytesIO(
            head + stream.read(_LONGEST_HEADER)
        )  # one that claims to be longer is cut off, and damaged
    shape, _, dtype = readers[np.lib.format.read_magic(content)](content)
    return shape, dtype


def require_no_infinity(X: FloatArray, path: str) -> FloatArray:
    """Return X when none of its values is infinite."""
    infinite = np.isinf(X)
    if infinite.any():
        row, column = np.argwhere(infinite)[0]
        raise wrong(
            f"{path}: sample {row + 1}, variable {column + 1} is {X[row, column]} "
            f"({count(int(infinite.sum()), 'such value')}): correct it, or make it NaN if it is missing."
        )
    return X
