"""ADMM written straight from the paper's Eq. (9) and (10), on full matrices, to see how its numbers come about."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from jointglasso._typing import FloatArray
from jointglasso.screening import Partition


def literal_admm(
    S: FloatArray, lambda1: float, lambda2: float, partition: Partition, rho: float = 1.0
) -> Iterator[tuple[float, float]]:
    """Iterate from zero; yield the objective with the penalty taken at Theta, and with the penalty taken at Y.

    Theta is positive definite but dense inside the blocks, Y is sparse; in the limit they are equal.
    """
    inside = partition.labels[:, :, None] == partition.labels[:, None, :]
    covariances = np.where(inside, S, 0.0)
    Y, U = np.zeros_like(covariances), np.zeros_like(covariances)
    while True:
        values, vectors = np.linalg.eigh(rho * (Y - U) - covariances)
        roots = (values + np.sqrt(values**2 + 4.0 * rho)) / (2.0 * rho)
        Theta = (vectors * roots[:, None, :]) @ np.swapaxes(vectors, 1, 2)
        Y = _shrunk(Theta + U, lambda1 / rho, lambda2 / rho)
        U += Theta - Y
        likelihood = float((covariances * Theta).sum() - np.log(roots).sum())
        yield likelihood + _penalty(Theta, lambda1, lambda2), likelihood + _penalty(Y, lambda1, lambda2)


def _shrunk(point: FloatArray, lambda1: float, lambda2: float) -> FloatArray:
    """Proximal operator of Eq. (3)-(4): soft thresholding, then shrinkage of each pair over the classes."""
    soft = np.sign(point) * np.maximum(np.abs(point) - lambda1, 0.0)
    norm = np.sqrt((soft**2).sum(axis=0))
    factor = np.maximum(1.0 - lambda2 / np.maximum(norm, 1e-300), 0.0)
    np.fill_diagonal(factor, 1.0)
    return soft * factor


def _penalty(Theta: FloatArray, lambda1: float, lambda2: float) -> float:
    norm = np.sqrt((Theta**2).sum(axis=0))
    np.fill_diagonal(norm, 0.0)
    return float(lambda1 * np.abs(Theta).sum() + lambda2 * norm.sum())
