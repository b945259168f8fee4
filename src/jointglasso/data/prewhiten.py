"""Residuals of an autoregressive model, class by class, for samples that are series."""

from __future__ import annotations

from typing import Any

import numpy as np

from jointglasso._typing import FloatArray
from jointglasso.data.checks import InputError, check_choice, check_count
from jointglasso.data.samples import read_samples

#: Residual degrees of freedom of each regression that a class needs.
_FEWEST = 5


def prewhiten(X: Any, y: Any = None, *, model: str = "ar", order: int = 1) -> dict[str, Any]:
    """Remove the dependence between consecutive samples: residuals of an autoregressive model, by class.

    The rows of a class are in order of time. The networks of the residuals are those of the innovations
    (contemporaneous networks); if all variables have the same autocorrelation these are also the networks of the
    samples themselves.

    Parameters
    ----------
    X, y
        Table with labels, or tables by class, as in `jointglasso.select`; without missing values.
    model : {"ar", "var"}
        "ar" predicts each variable by its own past, "var" by the past of all variables, which takes more samples than
        ``order * p``.
    order : int, default 1
        Number of past samples.

    Returns
    -------
    dict of pandas.DataFrame
        Residuals (n_k - order, p) of each class, for `select`, `infer`, `network_test` and the estimators.

    Examples
    --------
    >>> import numpy as np
    >>> import jointglasso as jgl
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 3))
    >>> for t in range(1, 200):
    ...     X[t] += 0.6 * X[t - 1]
    >>> residuals = jgl.prewhiten(X, np.repeat(["a", "b"], 100))
    >>> {name: table.shape for name, table in residuals.items()}
    {'a': (99, 3), 'b': (99, 3)}
    """
    import pandas as pd

    check_choice("model", model, ("ar", "var"))
    check_count("order", order)
    samples = read_samples(X, y)
    if samples.absent is not None or samples.sample_fraction < 1.0:
        raise InputError("prewhiten takes classes with the same variables and without overlap.", "X")
    tables = {}
    for name, matrix in zip(samples.class_names, samples.one_by_one(), strict=True):
        n_regressors = order if model == "ar" else order * samples.n_variables
        if len(matrix) - order - n_regressors - 1 < _FEWEST:
            remedy = 'use model="ar", ' if model == "var" else ""
            raise InputError(
                f"Class {name!r} has {len(matrix)} samples, too few for {n_regressors} regressors: {remedy}lower "
                "order, or leave the class out.",
                "order",
                class_name=name,
            )
        tables[name] = pd.DataFrame(_residuals(matrix, model, order), columns=list(samples.variable_names))
    return tables


def _residuals(X: FloatArray, model: str, order: int) -> FloatArray:
    """Residuals (n - order, p) of the least-squares regression of each sample on the samples before it."""
    n = len(X)
    past = np.stack([X[order - lag : n - lag] for lag in range(1, order + 1)])  # (order, n - order, p)
    past, present = past - past.mean(axis=1, keepdims=True), X[order:] - X[order:].mean(axis=0)
    if model == "var":
        design = past.transpose(1, 0, 2).reshape(n - order, -1)
        return np.asarray(present - design @ np.linalg.lstsq(design, present, rcond=None)[0])
    residual = np.empty_like(present)
    for j in range(X.shape[1]):
        design = past[:, :, j].T
        residual[:, j] = present[:, j] - design @ np.linalg.lstsq(design, present[:, j], rcond=None)[0]
    return residual
