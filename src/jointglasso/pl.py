"""Figures of AnnData objects, named as in scanpy: ``jgl.pl.networks``, ``jgl.pl.differences``."""

from __future__ import annotations

from typing import Any

from jointglasso import plots
from jointglasso.anndata import networks as stored_networks

__all__ = ["differences", "networks"]


def networks(adata: Any, *, key: str = "jgl", **options: Any) -> Any:
    """Draw the networks that `jointglasso.tl.networks` stored; options of `jointglasso.plots.plot_networks`.

    Examples
    --------
    >>> import anndata, numpy as np, pandas as pd
    >>> import jointglasso as jgl
    >>> rng = np.random.default_rng(0)
    >>> cells = pd.DataFrame({"state": ["ill", "well"] * 30}, index=[f"cell{i}" for i in range(60)])
    >>> adata = anndata.AnnData(rng.normal(size=(60, 3)), obs=cells)
    >>> solution = jgl.tl.networks(adata, "state", lambda1=0.1, lambda2=0.1)
    >>> len(jgl.pl.networks(adata).axes)
    2
    """
    return plots.plot_networks(stored_networks(adata, key), **options)


def differences(
    adata: Any, class1: str | None = None, class2: str | None = None, *, key: str = "jgl", **options: Any
) -> Any:
    """Draw the differences between two classes, tested if `jointglasso.tl.differences` was called.

    Options are those of `jointglasso.plots.plot_differences`.

    Examples
    --------
    >>> import anndata, numpy as np, pandas as pd
    >>> import jointglasso as jgl
    >>> rng = np.random.default_rng(0)
    >>> cells = pd.DataFrame({"state": ["ill", "well"] * 30}, index=[f"cell{i}" for i in range(60)])
    >>> adata = anndata.AnnData(rng.normal(size=(60, 3)), obs=cells)
    >>> solution = jgl.tl.networks(adata, "state", lambda1=0.1, lambda2=0.1)
    >>> figure = jgl.pl.differences(adata, "ill", "well")
    """
    tested = adata.uns.get(f"{key}_differences")
    return plots.plot_differences(stored_networks(adata, key), class1, class2, **({"tested": tested} | options))
