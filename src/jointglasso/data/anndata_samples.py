"""Samples by class in an AnnData object."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jointglasso._optional import require
from jointglasso._wording import listed
from jointglasso.data.checks import InputError, InputTypeError, SampleRows, label_rows, with_rows


def require_anndata(adata: Any) -> None:
    """Refuse anything but an AnnData object."""
    if not isinstance(adata, require("anndata", "anndata").AnnData):
        raise InputTypeError(f"adata must be an AnnData object, not {type(adata).__name__}.", "adata")


def samples_by_class(adata: Any, groupby: str, layer: str | None, classes: Any) -> dict[str, SampleRows]:
    """Lazy rows of each class, classes in order of appearance; only the labels are read."""
    require_anndata(adata)
    if groupby not in adata.obs:
        raise InputError(f"obs has no column {groupby!r}; its columns are {listed(adata.obs.columns)}.", "groupby")
    if layer is not None and layer not in adata.layers:
        names = [name for name in adata.layers if name is not None]  # None is X, from anndata 0.13 on
        raise InputError(f"There is no layer {layer!r}; the layers are {listed(names) or 'none'}.", "layer")
    column = adata.obs[groupby]
    if classes is None and column.isna().any():
        raise InputError(
            f"{int(column.isna().sum())} cells have no label in obs[{groupby!r}]: label them, leave them out, or name "
            "the classes to use.",
            "groupby",
        )
    known = np.flatnonzero(~column.isna().to_numpy())
    rows = {name: known[members] for name, members in label_rows(len(known), column.iloc[known]).items()}
    chosen = list(rows) if classes is None else _chosen(classes, list(rows), groupby)
    values = adata.X if layer is None else adata.layers[layer]
    if values is None:
        raise InputError("adata.X is empty: name a layer.", "layer")
    table = with_rows(values)
    return {name: SampleRows(table, rows[name]) for name in chosen}


def covariates_by_class(adata: Any, samples: dict[str, SampleRows], names: Sequence[str]) -> dict[str, Any]:
    """Columns `names` of ``adata.obs`` for the cells of each class."""
    unknown = [name for name in names if name not in adata.obs]
    if unknown:
        raise InputError(
            f"obs has no column {unknown[0]!r}; its columns are {listed(adata.obs.columns)}.", "covariates"
        )
    return {name: adata.obs[list(names)].iloc[part.row_numbers] for name, part in samples.items()}


def _chosen(classes: Any, present: list[str], groupby: str) -> list[str]:
    requested = [classes] if isinstance(classes, str) else list(classes)
    chosen = {str(name) for name in requested}
    unknown = sorted(chosen.difference(present))
    if unknown:
        raise InputError(f"obs[{groupby!r}] has no class {unknown[0]!r}; its classes are {listed(present)}.", "classes")
    return [name for name in present if name in chosen]


def distinct_names(names: Any) -> list[str]:
    """Variable names as strings; duplicates get their position appended to be unique."""
    words = [str(name) for name in names]
    counts: dict[str, int] = {}
    for word in words:
        counts[word] = counts.get(word, 0) + 1
    return [word if counts[word] == 1 else f"{word} (variable {i})" for i, word in enumerate(words)]
