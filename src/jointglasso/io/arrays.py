"""NumPy archives (`.npz`) with X, y, features and samples, and AnnData files (`.h5ad`)."""

from __future__ import annotations

import io
import warnings
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from jointglasso._optional import require
from jointglasso._typing import FloatArray
from jointglasso._wording import count, listed, nearest
from jointglasso.data.checks import InputError
from jointglasso.errors import argument
from jointglasso.io.grid import AnnotatedSamples, as_label, numbered
from jointglasso.io.opening import foreign_reader, read_bytes, require_memory
from jointglasso.io.reading_options import ReadOptions

wrong = partial(InputError, parameter="path")


def read_npz(file: Path, options: ReadOptions) -> AnnotatedSamples:
    """Read the arrays X, y, features and samples; only X is required, others can be labels.

    An array that no option names is not read.
    """
    path, content = str(file), read_bytes(file)
    with foreign_reader(_DAMAGED.format(path)):
        archive = np.load(io.BytesIO(content), allow_pickle=False)
        sizes = {entry.filename.removesuffix(".npy"): entry.file_size for entry in archive.zip.infolist()}
    read = partial(_member, archive, sizes, path)
    if "X" not in sizes:
        raise wrong(f"{path} has no array 'X' (it has {listed(sizes)}): store the samples x variables under that name.")
    X = read("X")
    if X.ndim != 2 or 0 in X.shape or X.dtype.kind not in "fiub":
        problem = f"the array 'X' has shape {X.shape} and type {X.dtype}"
        raise wrong(f"{path}: {problem}: it must be a table of numbers, samples x variables.")
    X = np.ascontiguousarray(X.T if options.samples_in == "columns" else X, dtype=np.float64)
    names = {"samples": numbered("", X.shape[0]), "features": numbered("x", X.shape[1])}
    for key in set(names) & set(sizes):
        array = read(key)
        if array.shape != (len(names[key]),):
            what = f"{len(names[key])} {'variables' if key == 'features' else 'samples'}"
            remedy = f"give one name each, or say {argument('samples_in', ...)} if X is the other way round"
            raise wrong(f"{path}: {key!r} has shape {array.shape}, but X has {what}: {remedy}.")
        names[key] = [str(name) for name in array.tolist()]
    annotations: dict[str, list[str | None]] = {key: [] for key in sizes if key not in ("X", *names)}
    for key in {*options.annotation_names, "y"} & set(annotations):
        array = read(key)
        if array.shape != X.shape[:1]:
            problem = f"{key!r} has shape {array.shape}, but there are {len(X)} samples"
            raise wrong(f"{path}: {problem}: give one label each.")
        annotations[key] = [as_label(str(word)) for word in array.tolist()]
    label = options.inner_label or ("y" if "y" in annotations and options.labels is None else None)
    notes = ["NumPy archive", f"samples in {options.samples_in or 'rows'}"]
    finite = require_no_infinity(X, path)
    return AnnotatedSamples(
        path, finite, names["features"], names["samples"], "samples" in sizes, annotations, label, notes
    )


_DAMAGED = "{} is not a NumPy archive or is damaged: write it again with numpy.savez."


def _member(archive: Any, sizes: dict[str, int], path: str, key: str) -> NDArray[Any]:
    """One array, if it fits into memory; Python objects, which could run code when loaded, are refused."""
    require_memory(sizes[key], f"{path}: the array {key!r}")
    with foreign_reader(_DAMAGED.format(path)):
        try:
            array: NDArray[Any] = archive[key]
        except ValueError as error:
            if "Object arrays" not in str(error):
                raise
            problem = f"{key!r} holds Python objects, which are not loaded for safety"
            raise wrong(f"{path}: {problem}: store names as arrays of strings.") from error
    return array


def require_no_infinity(X: FloatArray, path: str) -> FloatArray:
    """X, when none of its values is infinite."""
    infinite = np.isinf(X)
    if infinite.any():
        row, column = np.argwhere(infinite)[0]
        cell, number = f"sample {row + 1}, variable {column + 1}", count(int(infinite.sum()), "such value")
        remedy = "correct it, or make it NaN if it is missing"
        raise wrong(f"{path}: {cell} is {X[row, column]} ({number}): {remedy}.")
    return X


def read_h5ad(file: Path, options: ReadOptions) -> AnnotatedSamples:
    """Read observations as samples; the columns of `obs` are the annotations."""
    path = str(file)
    anndata, h5py = require("anndata", "anndata"), require("h5py", "anndata")
    sizes = [0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about older versions of the format
        with foreign_reader(f"{path} is not an AnnData file or is damaged: write it again with write_h5ad."):
            with h5py.File(file, "r") as stored:
                stored.visititems(lambda _, item: sizes.append(item.nbytes if isinstance(item, h5py.Dataset) else 0))
            require_memory(sum(sizes), path)
            data = anndata.read_h5ad(file)
        names, values = _layer(data, options.layer, path)
        require_memory(8.0 * values.shape[0] * values.shape[1], path)
        dense = values.toarray() if sparse.issparse(values) else values
        X = require_no_infinity(np.asarray(dense, dtype=np.float64), path)
    annotations: dict[str, list[str | None]] = {}
    for name in options.annotation_names:
        if name not in data.obs:
            hint, option = nearest(name, [str(column) for column in data.obs.columns]), options.option_of(name)
            raise InputError(f"{path} has no column {name!r} in obs ({hint}): correct {argument(option)}.", option)
        cells = zip(data.obs[name].tolist(), data.obs[name].isna().tolist(), strict=True)
        annotations[name] = [None if missing else as_label(str(value)) for value, missing in cells]
    samples = [str(name) for name in data.obs_names]
    notes = ["AnnData", "X" if options.layer is None else f"layer {options.layer!r}"]
    return AnnotatedSamples(path, X, [str(n) for n in names], samples, True, annotations, options.inner_label, notes)


def _layer(data: Any, layer: str | None, path: str) -> tuple[Any, Any]:
    """Names of the variables and the values: X, one of the layers, or the raw counts."""
    if layer == "raw" and data.raw is not None:
        return data.raw.var_names, data.raw.X
    values = data.X if layer is None else data.layers.get(layer)
    if values is None:
        layers = [name for name in data.layers if name is not None]  # None is X, from anndata 0.13 on
        known = nearest(layer or "", [*layers, *(["raw"] if data.raw is not None else [])])
        missing = "X" if layer is None else f"layer {layer!r}"
        raise InputError(f"{path} has no {missing} ({known}): choose with {argument('layer', ...)}.", "layer")
    return data.var_names, values
