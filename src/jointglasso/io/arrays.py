"""NumPy files: `.npz` with X, y, features and samples, and `.npy` with X alone."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np

from jointglasso._typing import FloatArray
from jointglasso.io.draft import Draft, numbered
from jointglasso.io.labels import as_label
from jointglasso.io.opening import foreign_reader, read_bytes
from jointglasso.io.options import Options
from jointglasso.io.wording import count, listed


def read_npy(file: Path, options: Options) -> Draft:
    """Read one array; it has no names, and its labels come from a label file."""
    path = str(file)
    X = _matrix(_load(file), "The array", path, options)
    notes = ["NumPy array", f"samples in {options.samples_in or 'rows'}", "samples and variables numbered"]
    draft = Draft(path, X, numbered("x", X.shape[1]), numbered("", X.shape[0]), False, notes=notes)
    return _ask_for_label(draft, options)


def read_npz(file: Path, options: Options) -> Draft:
    """Read the arrays X, y, features and samples; all but X may be absent, and others of length n are labels too."""
    path = str(file)
    stored = _load(file)
    if not isinstance(stored, dict):
        raise ValueError(f"{path} holds one array, as .npy files do: rename it, or say format='npy'.")
    objects = [key for key, array in stored.items() if array is None]
    if objects:
        raise ValueError(
            f"{path}: {objects[0]!r} holds Python objects, which are not loaded for safety: store names as arrays of "
            "strings."
        )
    if "X" not in stored:
        raise ValueError(
            f"{path} has no array 'X' (it has {listed(stored)}): store the samples x variables under that name."
        )
    X = _matrix(stored["X"], "The array 'X'", path, options)
    n, p = X.shape
    variables = _names(stored, "features", p, path)
    samples = _names(stored, "samples", n, path)
    annotations = {
        key: [as_label(str(word)) for word in array.tolist()]
        for key, array in stored.items()
        if key not in ("X", "features", "samples") and array.shape == (n,)
    }
    if "y" in stored and "y" not in annotations:
        raise ValueError(f"{path}: 'y' has shape {stored['y'].shape}, but there are {n} samples: give one label each.")
    draft = Draft(
        path=path,
        X=X,
        variables=variables or numbered("x", p),
        samples=samples or numbered("", n),
        samples_named=samples is not None,
        annotations=annotations,
        label="y" if "y" in annotations and options.labels is None else None,
        notes=["NumPy archive", f"samples in {options.samples_in or 'rows'}"],
    )
    return _ask_for_label(draft, options)


def _ask_for_label(draft: Draft, options: Options) -> Draft:
    if options.label is not None and options.labels is None:
        draft.label = options.label
    return draft


def _load(file: Path) -> Any:
    """Content of a NumPy file, read at once so that a damaged part shows here; pickled objects are refused."""
    content = io.BytesIO(read_bytes(file))
    with foreign_reader(f"{file} is not a NumPy file or is damaged: write it again with numpy.savez or save."):
        loaded = np.load(content, allow_pickle=False)
        if isinstance(loaded, np.ndarray):
            return loaded
        with loaded:
            return {key: _stored(loaded, key) for key in loaded.files}


def _stored(archive: Any, key: str) -> Any:
    """One array of an archive; None where it holds Python objects, which could run code when loaded."""
    try:
        return archive[key]
    except ValueError as error:
        if "Object arrays" not in str(error):
            raise
        return None


def _matrix(array: Any, what: str, path: str, options: Options) -> FloatArray:
    if isinstance(array, dict):
        raise ValueError(f"{path} holds several arrays, as .npz files do: rename it, or say format='npz'.")
    if array.ndim != 2 or 0 in array.shape or array.dtype.kind not in "fiub":
        raise ValueError(
            f"{path}: {what[0].lower()}{what[1:]} has shape {array.shape} and type {array.dtype}: it must be a table "
            "of numbers, samples x variables."
        )
    X = np.ascontiguousarray(array.T if options.samples_in == "columns" else array, dtype=np.float64)
    return require_no_infinity(X, path)


def require_no_infinity(X: FloatArray, path: str) -> FloatArray:
    """Return X when none of its values is infinite."""
    infinite = np.isinf(X)
    if infinite.any():
        row, column = np.argwhere(infinite)[0]
        raise ValueError(
            f"{path}: sample {row + 1}, variable {column + 1} is {X[row, column]} "
            f"({count(int(infinite.sum()), 'such value')}): correct it, or make it NaN if it is missing."
        )
    return X


def _names(stored: dict[str, Any], key: str, length: int, path: str) -> list[str] | None:
    if key not in stored:
        return None
    array = stored[key]
    if array.shape != (length,):
        what = "variables" if key == "features" else "samples"
        raise ValueError(
            f"{path}: {key!r} has shape {array.shape}, but X has {length} {what}: give one name each, or say "
            "samples_in= if X is the other way round."
        )
    return [str(name) for name in array.tolist()]
