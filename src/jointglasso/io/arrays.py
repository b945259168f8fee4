"""NumPy files: `.npz` with X, y, features and samples, and `.npy` with X alone."""

from __future__ import annotations

import io
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jointglasso._typing import FloatArray
from jointglasso._wording import count, listed
from jointglasso.errors import argument
from jointglasso.io.grid import AnnotatedSamples, numbered
from jointglasso.io.label_file import as_label
from jointglasso.io.opening import foreign_reader, read_bytes, require_memory
from jointglasso.io.reading_options import ReadOptions
from jointglasso.validation import InputError

wrong = partial(InputError, parameter="path")


def read_npy(file: Path, options: ReadOptions) -> AnnotatedSamples:
    """Read one array; it has no names, and its labels come from a label file."""
    path, content = str(file), read_bytes(file)
    if content.startswith(b"PK"):
        raise wrong(f"{path} holds several arrays, as .npz files do: rename it, or say {argument('format', 'npz')}.")
    with _numpy_reader(path):
        array = np.lib.format.read_array(io.BytesIO(content), allow_pickle=False)
    X = _matrix(array, "the array", path, options)
    notes = ["NumPy array", f"samples in {options.samples_in or 'rows'}", "samples and variables numbered"]
    names = numbered("x", X.shape[1]), numbered("", X.shape[0])
    return AnnotatedSamples(path, X, *names, False, label=options.inner_label, notes=notes)


def read_npz(file: Path, options: ReadOptions) -> AnnotatedSamples:
    """Read the arrays X, y, features and samples; only X is required, others can be labels.

    An array that no option names is not read.
    """
    path, content = str(file), read_bytes(file)
    if content.startswith(b"\x93NUMPY"):
        raise wrong(f"{path} holds one array, as .npy files do: rename it, or say {argument('format', 'npy')}.")
    with _numpy_reader(path):
        archive = np.load(io.BytesIO(content), allow_pickle=False)
        sizes = {entry.filename.removesuffix(".npy"): entry.file_size for entry in archive.zip.infolist()}
    read = partial(_member, archive, sizes, path)
    if "X" not in sizes:
        raise wrong(f"{path} has no array 'X' (it has {listed(sizes)}): store the samples x variables under that name.")
    X = _matrix(read("X"), "the array 'X'", path, options)
    n, p = X.shape
    names = {}
    for key, length, what in (("features", p, "variables"), ("samples", n, "samples")):
        if key in sizes:
            names[key] = read(key)
            if names[key].shape != (length,):
                raise wrong(
                    f"{path}: {key!r} has shape {names[key].shape}, but X has {length} {what}: give one name each, or "
                    f"say {argument('samples_in', ...)} if X is the other way round."
                )
    others = [key for key in sizes if key not in ("X", "features", "samples")]
    wanted = {*options.annotations, "y"}
    annotations: dict[str, list[str | None]] = {key: [] for key in others}
    for key in wanted & set(others):
        array = read(key)
        if array.shape != (n,):
            raise wrong(f"{path}: {key!r} has shape {array.shape}, but there are {n} samples: give one label each.")
        annotations[key] = [as_label(str(word)) for word in array.tolist()]
    label = options.label or ("y" if "y" in others else None)
    return AnnotatedSamples(
        path,
        X,
        list(map(str, names["features"].tolist())) if "features" in names else numbered("x", p),
        list(map(str, names["samples"].tolist())) if "samples" in names else numbered("", n),
        "samples" in names,
        annotations,
        label if options.labels is None else None,
        ["NumPy archive", f"samples in {options.samples_in or 'rows'}"],
    )


def _numpy_reader(path: str) -> Any:
    return foreign_reader(f"{path} is not a NumPy file or is damaged: write it again with numpy.savez or save.")


def _member(archive: Any, sizes: dict[str, int], path: str, key: str) -> NDArray[Any]:
    """One array, if it fits into memory; Python objects, which could run code when loaded, are refused."""
    require_memory(sizes[key], f"{path}: the array {key!r}")
    with _numpy_reader(path):
        try:
            array: NDArray[Any] = archive[key]
        except ValueError as error:
            if "Object arrays" not in str(error):
                raise
            raise wrong(
                f"{path}: {key!r} holds Python objects, which are not loaded for safety: store names as arrays of "
                "strings."
            ) from error
    return array


def _matrix(array: Any, what: str, path: str, options: ReadOptions) -> FloatArray:
    """Samples x variables as float64, without infinite values."""
    if array.ndim != 2 or 0 in array.shape or array.dtype.kind not in "fiub":
        raise wrong(
            f"{path}: {what} has shape {array.shape} and type {array.dtype}: it must be a table of numbers, samples x "
            "variables."
        )
    X = np.ascontiguousarray(array.T if options.samples_in == "columns" else array, dtype=np.float64)
    return require_no_infinity(X, path)


def require_no_infinity(X: FloatArray, path: str) -> FloatArray:
    """X, when none of its values is infinite."""
    infinite = np.isinf(X)
    if infinite.any():
        row, column = np.argwhere(infinite)[0]
        raise wrong(
            f"{path}: sample {row + 1}, variable {column + 1} is {X[row, column]} "
            f"({count(int(infinite.sum()), 'such value')}): correct it, or make it NaN if it is missing."
        )
    return X
