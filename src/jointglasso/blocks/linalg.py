"""Cholesky factors, inverses and eigendecompositions of all blocks of a system."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigh, lapack

from jointglasso._typing import BoolArray, FloatArray
from jointglasso.blocks.system import BlockSystem

#: Up to this size a compiled loop over a stack beats one LAPACK call per block.
SMALL = 32


@dataclass(frozen=True)
class Factorization:
    """Lower Cholesky factors and inverses in flat storage, log-determinants, and which blocks are definite."""

    lower: FloatArray
    inverse: FloatArray
    logdet: FloatArray
    definite: BoolArray


def factorize(system: BlockSystem, flat: FloatArray) -> Factorization:
    """Factor and invert every block."""
    from jointglasso.kernels.small_blocks import factor_and_invert

    lower, inverse = np.empty_like(flat), np.empty_like(flat)
    logdet, definite = np.zeros(system.n_blocks), np.zeros(system.n_blocks, dtype=bool)
    for blocks, (stack, lower_stack, inverse_stack) in system.stacks(flat, lower, inverse):
        if stack.shape[1] <= SMALL:
            lower_stack[:], inverse_stack[:], logdet[blocks], definite[blocks] = factor_and_invert(stack)
        else:
            for m, block in enumerate(range(blocks.start, blocks.stop)):
                logdet[block], definite[block] = _factor_one(stack[m], lower_stack[m], inverse_stack[m])
    return Factorization(lower, inverse, logdet, definite)


def _factor_one(matrix: FloatArray, lower: FloatArray, inverse: FloatArray) -> tuple[float, bool]:
    from jointglasso.kernels.pair_index import mirror_upper

    # LAPACK reads columns: the transpose of a row-major symmetric matrix is the same matrix, without a copy.
    factor, failed = lapack.dpotrf(matrix.T, lower=1, clean=1)
    if failed:
        return 0.0, False
    lower[:] = factor
    logdet = 2.0 * float(np.log(np.diagonal(factor)).sum())
    inverted, failed = lapack.dpotri(factor, lower=1, overwrite_c=1)
    inverse[:] = inverted.T
    mirror_upper(inverse)
    return logdet, not failed


def eigh_stack(stack: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Eigenvalues (m, b) and eigenvectors (m, b, b) of a stack of symmetric matrices."""
    if stack.shape[0] == 1 and stack.shape[1] > SMALL:
        values, vectors = eigh(stack[0], driver="evd", check_finite=False)
        return values[None], vectors[None]
    values, vectors = np.linalg.eigh(stack)
    return values, vectors
