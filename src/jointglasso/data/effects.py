"""Covariates (batches, age): regressed out of the variables of a class."""

from __future__ import annotations

from typing import Any

import numpy as np

from jointglasso._typing import FloatArray
from jointglasso.data.checks import InputError


def without_effects(X: FloatArray, table: Any, class_name: str) -> tuple[FloatArray, float]:
    """Residuals (n, p) of the regression on an intercept and the covariates, and the rank of the covariates.

    Text and categorical columns are coded by indicators. A variable with missing values is regressed on the samples in
    which it is observed.
    """
    import pandas as pd

    if table.isna().any().any():
        column = table.columns[table.isna().any()][0]
        raise InputError(
            f"Covariate {str(column)!r} has missing values in class {class_name!r}: fill them in.",
            "covariates",
            class_name=class_name,
        )
    design = pd.get_dummies(table.infer_objects()).to_numpy(dtype=float)
    if not np.isfinite(design).all():
        raise InputError(
            f"The covariates of class {class_name!r} hold infinite values: correct them.",
            "covariates",
            class_name=class_name,
        )
    basis, singular, _ = np.linalg.svd(design - design.mean(axis=0), full_matrices=False)
    basis = basis[:, singular > 1e-10 * max(singular.max(initial=0.0), 1e-300)]
    centred = X - X.mean(axis=0)
    residual: FloatArray = centred - basis @ (basis.T @ centred)
    for j in np.flatnonzero(np.isnan(X).any(axis=0)):
        observed = ~np.isnan(X[:, j])
        local_design = np.column_stack([np.ones(observed.sum()), basis[observed]])
        residual[observed, j] = X[observed, j] - local_design @ np.linalg.lstsq(local_design, X[observed, j])[0]
        residual[~observed, j] = np.nan
    return residual, float(basis.shape[1])
