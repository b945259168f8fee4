"""Tools for AnnData objects, named as in scanpy: ``jgl.tl.networks``, ``jgl.tl.differences``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from jointglasso.anndata import annotations_of_cells, fit as networks, masked, samples_of_cells

__all__ = ["differences", "networks"]


def differences(
    adata: Any,
    groupby: str,
    *,
    donor: str | None = None,
    mask_var: Any = None,
    layer: str | None = None,
    key: str = "jgl",
    classes: Any = None,
    covariates: Sequence[str] = (),
    **options: Any,
) -> pd.DataFrame:
    """Test the difference of every edge between groups of cells, and store the table in ``adata.uns``.

    Parameters
    ----------
    adata : AnnData
        Cells in rows, genes in columns.
    groupby : str
        Column of ``adata.obs`` with the class of each cell.
    donor : str, optional
        Column of ``adata.obs`` with the donor of each cell. Cells of one donor are not independent: without it
        p-values are too small.
    mask_var, layer, classes, covariates
        As in `jointglasso.anndata.fit`; by default the genes that were used there.
    key : str, default "jgl"
        The table is stored as ``adata.uns["<key>_differences"]``.
    **options
        Further arguments of `jointglasso.infer`.

    Returns
    -------
    pandas.DataFrame
        ``infer(...).differences()``: estimate, interval, p- and q-value of each pair of genes and of classes.

    Examples
    --------
    >>> import anndata, numpy as np, pandas as pd
    >>> import jointglasso as jgl
    >>> rng = np.random.default_rng(0)
    >>> cells = pd.DataFrame({"state": ["ill", "well"] * 30}, index=[f"cell{i}" for i in range(60)])
    >>> adata = anndata.AnnData(rng.normal(size=(60, 3)), obs=cells)
    >>> jgl.tl.differences(adata, "state").shape
    (3, 9)
    """
    from jointglasso.inference import infer

    stored = f"{key}_used"
    mask = masked(adata, stored if mask_var is None and stored in adata.var else mask_var)
    cells = samples_of_cells(adata, groupby, layer, classes).restricted_to(np.flatnonzero(mask))
    groups = None if donor is None else annotations_of_cells(adata, cells, [donor], "donor")
    confounders = annotations_of_cells(adata, cells, covariates, "covariates") if len(covariates) else None
    table = infer(cells, groups=groups, covariates=confounders, **options).differences()
    adata.uns[f"{key}_differences"] = table
    return table
