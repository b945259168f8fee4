"""AnnData files (`.h5ad`)."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from jointglasso._optional import require
from jointglasso._wording import listed, nearest
from jointglasso.errors import argument
from jointglasso.io.arrays import require_no_infinity
from jointglasso.io.grid import AnnotatedSamples
from jointglasso.io.label_file import as_label
from jointglasso.io.opening import foreign_reader, require_memory
from jointglasso.io.reading_options import ReadOptions
from jointglasso.validation import InputError


def read_h5ad(file: Path, options: ReadOptions) -> AnnotatedSamples:
    """Read observations as samples; the columns of `obs` are the labels to choose from."""
    path = str(file)
    anndata = require("anndata", "anndata")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about older versions of the format
        with foreign_reader(f"{path} is not an AnnData file or is damaged: write it again with write_h5ad."):
            require_memory(_declared_bytes(file), path)
            stored = anndata.read_h5ad(file)
        names, values = _layer(stored, options.layer, path)
        require_memory(8.0 * values.shape[0] * values.shape[1], path)
        dense = values.toarray() if sparse.issparse(values) else values
        X = require_no_infinity(np.asarray(dense, dtype=np.float64), path)
        annotations = {name: _words(stored.obs[name]) for name in options.annotations if name in stored.obs}
    for name in options.annotations:
        if name not in annotations:
            known, option = nearest(name, [str(column) for column in stored.obs.columns]), options.option_of(name)
            raise InputError(f"{path} has no column {name!r} in obs ({known}): correct {argument(option)}.", option)
    return AnnotatedSamples(
        path=path,
        X=X,
        variables=names,
        samples=[str(name) for name in stored.obs_names],
        samples_named=True,
        annotations=annotations,
        label=options.inner_label,
        notes=["AnnData", "X" if options.layer is None else f"layer {options.layer!r}", *_choices(stored, options)],
    )


def _choices(stored: Any, options: ReadOptions) -> list[str]:
    """Annotations that could be the label, where none was chosen."""
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


def _words(column: Any) -> list[str | None]:
    pairs = zip(column.tolist(), column.isna().tolist(), strict=True)
    return [None if missing else as_label(str(value)) for value, missing in pairs]
