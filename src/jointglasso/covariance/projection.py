"""Matrices that are almost correlation matrices, brought back to positive semidefinite ones."""

from __future__ import annotations

import numpy as np

from jointglasso._typing import FloatArray

#: Smallest eigenvalue after projection: above rounding, far below what a sample correlation can resolve.
FLOOR = 1e-6


def semidefinite_correlation(R: FloatArray) -> tuple[FloatArray, float]:
    """Correlation matrix with no negative eigenvalue near a symmetric one with unit diagonal.

    Parameters
    ----------
    R : array (p, p)
        Symmetric, unit diagonal; entries computed pair by pair, so that eigenvalues may be negative.

    Returns
    -------
    projected : array (p, p)
        `R` itself if it is positive semidefinite. Else its eigenvalues are raised to a small positive number and the
        result is scaled back to unit diagonal. This is not the nearest correlation matrix, but within a factor of it
        and of the cost of one eigendecomposition.
    change : float
        Largest change of an entry, 0.0 if none was needed.
    """
    try:
        np.linalg.cholesky(R + FLOOR * np.eye(len(R)))
        return R, 0.0
    except np.linalg.LinAlgError:
        values, vectors = np.linalg.eigh(R)
    raised = (vectors * np.maximum(values, FLOOR)) @ vectors.T
    deviation = np.sqrt(np.diagonal(raised))
    projected = raised / np.outer(deviation, deviation)
    projected = (projected + projected.T) / 2.0
    np.fill_diagonal(projected, 1.0)
    return projected, float(np.abs(projected - R).max())
