"""Whether an objective that penalises only differences between classes is bounded below.

With lambda1 = 0 and no penalty of the diagonal, the objective has a minimum unless there are positive semidefinite D_k,
not all zero, with ``S_k D_k = 0`` whose penalised entries are equal in all classes (zero where a pair is forbidden):
along these nothing is paid and the log-determinants grow. The alternative is a dual point: symmetric Z_k, zero at
unpenalised entries, with ``sum_k Z_k = 0`` at penalised ones, and Z_k positive definite on the null space of S_k.
"""

from __future__ import annotations

import numpy as np

from jointglasso._typing import BoolArray, FloatArray

#: Norm of the differences between the D_k, of total trace 1, that counts as zero; eigenvalue of Z that is not rounding;
#: relative eigenvalue of S that is.
_ZERO, _POSITIVE, _SINGULAR = 1e-7, 1e-13, 1e-12


def is_unbounded(S: FloatArray, penalised: BoolArray, forbidden: BoolArray) -> bool | None:
    """Whether (K, b, b) covariances S have such a direction D; None if undecided.

    `penalised` (b, b) marks entries whose differences are penalised. The squared norm of the differences between the
    ``D_k = N_k A_k N_k'``, N_k spanning the null space of S_k, is minimised over A_k of total trace 1 by accelerated
    projected gradients. Its gradient is Z: definite Z prove a minimum, a norm of zero gives D.
    """
    null_spaces = [_null_space(matrix) for matrix in S]
    if not any(N.size for N in null_spaces):
        return False
    A = _project([np.eye(N.shape[1]) for N in null_spaces])
    point, momentum = A, 1.0
    for _ in range(int(min(2000.0, 1e10 / S.size / S.shape[1]))):
        D = np.stack([N @ a @ N.T for N, a in zip(null_spaces, point, strict=True)])
        Z = penalised * (D - D.mean(axis=0)) + forbidden * D
        gradient = [N.T @ z @ N for N, z in zip(null_spaces, Z, strict=True)]
        norm = float(np.linalg.norm(Z))
        if norm < _ZERO:
            return True
        # At the minimiser the smallest eigenvalue is the squared norm.
        if min(float(np.linalg.eigvalsh(g).min(initial=np.inf)) for g in gradient) > max(0.01 * norm**2, _POSITIVE):
            return False
        before, A = A, _project([a - g for a, g in zip(point, gradient, strict=True)])
        uphill = sum(float(((y - a) * (a - b)).sum()) for y, a, b in zip(point, A, before, strict=True)) > 0.0
        following = 1.0 if uphill else 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * momentum**2))
        factor = 0.0 if uphill else (momentum - 1.0) / following
        point, momentum = [a + factor * (a - b) for a, b in zip(A, before, strict=True)], following
    return None


def _null_space(S: FloatArray) -> FloatArray:
    """(b, r): orthonormal basis of the null space, with eigenvalues of zero up to rounding."""
    values, vectors = np.linalg.eigh(S)
    return vectors[:, values <= _SINGULAR * np.abs(values).max()]


def _project(matrices: list[FloatArray]) -> list[FloatArray]:
    """Nearest positive semidefinite matrices of total trace 1: their eigenvalues are projected on the simplex."""
    factors = [np.linalg.eigh(matrix) for matrix in matrices]
    values = np.concatenate([eigenvalues for eigenvalues, _ in factors])
    ordered = np.sort(values)[::-1]
    level = (np.cumsum(ordered) - 1.0) / np.arange(1, len(values) + 1)
    threshold = level[np.flatnonzero(ordered > level)[-1]]
    return [(vectors * np.maximum(eigenvalues - threshold, 0.0)) @ vectors.T for eigenvalues, vectors in factors]
