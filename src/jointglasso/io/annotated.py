"""AnnData files (`.h5ad`)."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np

from jointglasso._optional import require
from jointglasso._typing import FloatArray
from jointglasso._wording import listed, nearest
from jointglasso.errors import argument
from jointglasso.io.arrays import require_no_infinity
from jointglasso.io.grid import TableDraft
from jointglasso.io.labels import as_label
from jointglasso.io.opening import foreign_reader, require_memory
from jointglasso.io.options import Options
from jointglasso.validation import InputError


def read_h5ad(file: Path, options: Options) -> TableDraft:
    """Read observations as samples; the columns of `obs` are the labels to choose from."""
    path = str(file)
    anndata = require("anndata", "anndata")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # remarks about the layout of older files, which are read all the same
        with foreign_reader(f"{path} is not an AnnData file or is damaged: write it again with write_h5ad."):
            require_memory(_declared_bytes(file), path)
            stored = anndata.read_h5ad(file)
        names, values = _layer(stored, options.layer, path)
        require_memory(8.0 * values.shape[0] * values.shape[1], path)
        X = require_no_infinity(_dense(values), path)
        annotations = {name: _words(stored.obs[name]) for name in options.annotations if name in stored.obs}
    for name in options.annotations:
        if name not in annotations:
            known = [str(column) for column in stored.obs.columns]
            option = "label" if name == options.label else "subset"
            raise InputError(
                f"{path} has no column {name!r} in obs ({nearest(name, known)}): correct {argument(option)}.", option
            )
    return TableDraft(
        path=path,
        X=X,
        variables=names,
        samples=[str(name) for name in stored.obs_names],
        samples_named=True,
        annotations=annotations,
        label=options.label if options.labels is None else None,
        notes=["AnnData", "X" if options.layer is None else f"layer {options.layer!r}", *_choices(stored, options)],
    )


def _choices(stored: Any, options: Options) -> list[str]:
    """What could tell the classes, where nothing was said of them."""
    named = [str(name) for name, column in stored.obs.items() if column.dtype.name in ("category", "object", "string")]
    return [] if options.label or options.labels or not named else [f"labels to choose from: {listed(named)}"]


def _declared_bytes(file: Path) -> int:
    """Size of all arrays in an HDF5 file once they are read."""
    sizes = [0]
    with require("h5py", "anndata").File(file, "r") as stored:
        stored.visititems(lambda _, item: sizes.append(getattr(item, "nbytes", 0)))
    return sum(sizes)


def _layer(stored: Any, layer: str | None, path: str) -> tuple[list[str], Any]:
    """Names of the variables and the values: X, one of the layers, or the raw counts."""
    if layer == "raw" and stored.raw is not None:
        return [str(name) for name in stored.raw.var_names], stored.raw.X
    names = [str(name) for name in stored.var_names]
    if layer is None:
        if stored.X is None:
            raise InputError(
                f"{path} has no X: choose a layer ({nearest('', list(stored.layers))}) with {argument('layer', ...)}.",
                "layer",
            )
        return names, stored.X
    known = [*stored.layers, *(["raw"] if stored.raw is not None else [])]
    if layer not in known:
        raise InputError(
            f"{path} has no layer {layer!r} ({nearest(layer, known)}): correct {argument('layer')}, or leave it out "
            "for X.",
            "layer",
        )
    return names, stored.layers[layer]


def _dense(values: Any) -> FloatArray:
    return np.asarray(values.toarray() if hasattr(values, "toarray") else values, dtype=np.float64)


def _words(column: Any) -> list[str | None]:
    missing = column.isna().to_numpy()
    texts = [str(value) for value in column.tolist()]
    return [None if gone else as_label(text) for text, gone in zip(texts, missing, strict=True)]
