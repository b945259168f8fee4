"""Log-likelihood of samples under Gaussians with sparse precision matrices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jointglasso._typing import FloatArray
from jointglasso.selection.likelihood import logdet
from jointglasso.validation import InputError


def mean_log_likelihood(
    matrices: Sequence[FloatArray], locations: Sequence[FloatArray], precision: Sequence[Any]
) -> float:
    """Mean over all samples of their log-density; missing values (NaN) are integrated out."""
    total, count = 0.0, 0
    for X, location, Theta in zip(matrices, locations, precision, strict=True):
        centred = X - location
        complete = ~np.isnan(centred).any(axis=1)
        total += _complete(centred[complete], Theta)
        if not complete.all():
            total += _incomplete(centred[~complete], np.linalg.inv(Theta.toarray()))
        count += len(X)
    if count == 0:
        raise InputError("X holds no complete sample, so there is no likelihood: fill the missing values in.", "X")
    return total / count


def _complete(centred: FloatArray, Theta: Any) -> float:
    n, p = centred.shape
    squares = float(np.einsum("ij,ij->", centred @ Theta, centred))
    return 0.5 * (n * (logdet(Theta) - p * np.log(2.0 * np.pi)) - squares)


def _incomplete(centred: FloatArray, Sigma: FloatArray) -> float:
    """Each sample under the marginal distribution of the variables it has."""
    total = 0.0
    for row in centred:
        seen = np.flatnonzero(~np.isnan(row))
        factor = np.linalg.cholesky(Sigma[np.ix_(seen, seen)])
        z = np.linalg.solve(factor, row[seen])
        total -= 0.5 * (len(seen) * np.log(2.0 * np.pi) + float(z @ z)) + float(np.log(np.diagonal(factor)).sum())
    return total
