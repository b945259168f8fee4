"""Cholesky factors, inverses and eigendecompositions of all blocks of a system."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from jointglasso._lapack import factor_in_place, invert_factor_in_place, log_determinant, mirror_upper
from jointglasso._threads import map_on_cores
from jointglasso._typing import BoolArray, FloatArray, IntArray
from jointglasso.blocks.system import BlockSystem


@dataclass(frozen=True)
class Factorization:
    """Inverses in flat storage, log-determinants (B,), and whether blocks are positive definite (B,)."""

    inverse: FloatArray
    logdet: FloatArray
    definite: BoolArray

    def replaced(self, system: BlockSystem, groups: BoolArray, other: Factorization) -> Factorization:
        """The factorization with the blocks of the marked groups (G,) from another one."""
        blocks = groups[system.block_group]
        return Factorization(
            system.where(groups, other.inverse, self.inverse),
            np.where(blocks, other.logdet, self.logdet),
            np.where(blocks, other.definite, self.definite),
        )


def factorize(system: BlockSystem, flat: FloatArray, *, only: BoolArray | None = None) -> Factorization:
    """Factor and invert every block, or `only` the marked ones; the others are reported as not definite."""
    from jointglasso.kernels.dense import SMALL, factor_and_invert

    inverse = np.empty_like(flat)
    logdet, definite = np.zeros(system.n_blocks), np.zeros(system.n_blocks, dtype=bool)
    selected = np.ones(system.n_blocks, dtype=bool) if only is None else only
    n_small = int(np.searchsorted(system.size, SMALL, side="right"))
    factor_and_invert(flat, system.offset, system.size, selected[:n_small], inverse, logdet, definite)

    def factor_one(block: int) -> None:
        positions, b = slice(system.offset[block], system.offset[block + 1]), system.size[block]
        inverse[positions] = flat[positions]
        matrix = inverse[positions].reshape(b, b)
        if factor_in_place(matrix):
            logdet[block] = log_determinant(matrix)
            definite[block] = invert_factor_in_place(matrix)
            mirror_upper(matrix)

    big = n_small + np.flatnonzero(selected[n_small:])
    map_on_cores(factor_one, big.tolist(), work=_area(system, big))
    indefinite = selected & ~definite
    if indefinite.any():  # overwrites uninitialised memory
        inverse[system.per_element(indefinite)] = 0.0
    return Factorization(inverse, logdet, definite)


def log_determinants(system: BlockSystem, flat: FloatArray, selected: BoolArray) -> FloatArray:
    """(B,): log-determinants of the blocks in `selected`; NaN where a block is not definite or not marked."""
    from jointglasso.kernels.dense import SMALL

    logdet = np.full(system.n_blocks, np.nan)

    def one(block: int) -> float:
        factor = flat[system.offset[block] : system.offset[block + 1]].reshape(system.size[block], -1).copy()
        return log_determinant(factor) if factor_in_place(factor) else np.nan

    big = np.flatnonzero(selected & (system.size > SMALL))
    logdet[big] = map_on_cores(one, big.tolist(), work=_area(system, big))
    small = selected & (system.size <= SMALL)
    if small.any():
        factor = factorize(system, flat, only=small)
        logdet[factor.definite] = factor.logdet[factor.definite]
    return logdet


def _area(system: BlockSystem, blocks: IntArray) -> float:
    """Number of elements of some blocks."""
    return float((system.size[blocks].astype(float) ** 2).sum())


def eigh_stack(stack: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Eigenvalues (m, b) and eigenvectors (m, b, b) of a stack of symmetric matrices."""
    # NumPy's routine releases the interpreter lock, SciPy's does not.
    values, vectors = np.linalg.eigh(stack)
    return values, vectors
