"""Batches, age and the like: their effect taken out of the variables of a class."""

from __future__ import annotations

from typing import Any

import numpy as np

from jointglasso._optional import require
from jointglasso._typing import FloatArray
from jointglasso.validation import InputError


def without_effects(X: FloatArray, table: Any, class_name: str) -> tuple[FloatArray, float]:
    """What mean and covariates do not explain of the samples of a class, and how many directions these take.

    Of a data frame of covariates numbers enter as they are, text and categories as one indicator for each value. Where
    values are missing, a variable is explained in the samples that have it.
    """
    if table.isna().any().any():
        column = table.columns[table.isna().any()][0]
        raise InputError(
            f"Covariate {str(column)!r} has missing values in class {class_name!r}: fill them in.",
            "covariates",
            class_name=class_name,
        )
    design = require("pandas", "pandas").get_dummies(table.infer_objects()).to_numpy(dtype=float)
    if not np.isfinite(design).all():
        raise InputError(
            f"The covariates of class {class_name!r} hold infinite values: correct them.",
            "covariates",
            class_name=class_name,
        )
    basis, singular, _ = np.linalg.svd(design - design.mean(axis=0), full_matrices=False)
    basis = basis[:, singular > 1e-10 * max(singular.max(initial=0.0), 1e-300)]
    centred = X - X.mean(axis=0)
    rest: FloatArray = centred - basis @ (basis.T @ centred)
    for j in np.flatnonzero(np.isnan(X).any(axis=0)):
        there = ~np.isnan(X[:, j])
        own = np.column_stack([np.ones(there.sum()), basis[there]])
        rest[there, j] = X[there, j] - own @ np.linalg.lstsq(own, X[there, j])[0]
        rest[~there, j] = np.nan
    return rest, float(basis.shape[1])
