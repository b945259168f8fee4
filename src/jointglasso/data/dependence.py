"""Dependent samples: autocorrelation of consecutive rows, and the block length that accounts for it."""

from __future__ import annotations

import warnings

import numpy as np
from scipy import stats

from jointglasso._typing import FloatArray
from jointglasso.data.ranks import ranks
from jointglasso.data.samples import Samples

#: Rows and variables of a class that the statistic uses: it is certain with fewer.
MAX_ROWS, MAX_VARIABLES = 5000, 200

#: Level of the test over all classes, and the smallest autocorrelation r that is reported: with 0.2 the variance of a
#: correlation is ``(1 + r^2) / (1 - r^2) = 1.08`` times that of independent samples.
LEVEL, SMALLEST = 1e-4, 0.2

#: Limits of a block of consecutive samples, and the number of blocks that a class should have at least.
MIN_BLOCK, MAX_BLOCK, MIN_BLOCKS = 10, 40, 10


class DependentSamplesWarning(UserWarning):
    """Warns that consecutive samples are more alike than samples in random order would be."""


def warn_if_dependent(samples: Samples) -> None:
    """Warn where the samples of a class have autocorrelation in the order of their rows."""
    results = [lag_one(X) for X in samples.matrices]
    limit = stats.norm.isf(LEVEL / samples.n_classes)
    dependent = [k for k, (r, deviate) in enumerate(results) if deviate > limit and r > SMALLEST]
    if not dependent:
        return
    k = max(dependent, key=lambda k: results[k][0])
    r, deviate = results[k]
    length = block_length(r, int(samples.sizes[k]))
    warnings.warn(
        f"Consecutive samples of class {samples.class_names[k]!r} are alike: their mean lag-1 autocorrelation is "
        f"{r:.2f}, {deviate:.0f} standard errors above that of samples in random order ({len(dependent)} of "
        f"{samples.n_classes} classes). Criteria, intervals and tests take samples as independent and find too many "
        f"edges and differences. `infer` accounts for blocks of about {length} consecutive samples: "
        f"groups=np.arange(len(X)) // {length}.",
        DependentSamplesWarning,
        stacklevel=4,
    )


def lag_one(X: FloatArray) -> tuple[float, float]:
    """Mean lag-1 autocorrelation of the ranks of the variables, and its deviation from random order in standard errors.

    With rows z_t of standardised ranks and ``G_st = <z_s, z_t> / p``, the statistic is ``sum_t G_{t,t+1} / n``. In
    random order an off-diagonal entry of G has mean ``-trace(G) / (n (n - 1))``, since the rows of G sum to zero, and
    the sum has about n - 1 times its variance: dependence between variables is accounted for.
    """
    Z = X[:MAX_ROWS, :: max(1, -(-X.shape[1] // MAX_VARIABLES))]
    n = len(Z)
    Z = Z[:, (~np.isnan(Z)).sum(axis=0) > n // 2]
    if n < 2 * MIN_BLOCK or not Z.size:
        return 0.0, 0.0
    Z = ranks(Z)
    Z = Z - np.nanmean(Z, axis=0)
    deviation = np.nanstd(Z, axis=0)
    Z = np.nan_to_num(Z[:, deviation > 0] / deviation[deviation > 0])
    p = max(1, Z.shape[1])
    products = np.einsum("ij,ij->i", Z[:-1], Z[1:]) / p
    squares = np.einsum("ij,ij->i", Z, Z) / p
    mean = -float(squares.sum()) / (n * (n - 1))
    off_diagonal = float(((Z.T @ Z) ** 2).sum()) / p**2 - float((squares**2).sum())
    variance = max(off_diagonal / (n * (n - 1)) - mean**2, 1e-300)
    return float(products.sum() / n), float((products.sum() - (n - 1) * mean) / np.sqrt((n - 1) * variance))


def block_length(autocorrelation: float, n: int) -> int:
    """Number of consecutive samples in a block such that blocks keep nine tenths of the variance of a correlation.

    The products of two variables with autocorrelations ``r^h`` have ``phi^h``, ``phi = r^2``. Blocks of length b lose
    ``2 phi / (b (1 - phi)^2)`` of the long-run variance ``(1 + phi) / (1 - phi)``, a tenth for
    ``b = 20 phi / (1 - phi^2)``.
    """
    phi = min(autocorrelation, 0.99) ** 2
    length = int(np.clip(np.ceil(20.0 * phi / (1.0 - phi**2)), MIN_BLOCK, MAX_BLOCK))
    return max(2, min(length, n // MIN_BLOCKS))
