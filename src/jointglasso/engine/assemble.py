"""Between the blocks and K sparse matrices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import sparse

from jointglasso._typing import FloatArray, IntArray
from jointglasso.blocks import BlockSystem
from jointglasso.blocks.linalg import factorize
from jointglasso.engine.outcome import Nonzeros
from jointglasso.problem import JointProblem


def isolated_objective(problem: JointProblem, isolated: list[IntArray]) -> float:
    """Objective of the variables that are alone in their class: ``Theta_ii = 1 / (S_ii + penalty / w)``."""
    total = 0.0
    for k, variables in enumerate(isolated):
        total += problem.weights[k] * float((1.0 + np.log(problem.optimal_variance(k)[variables])).sum())
    return total


def sparse_matrices(
    problem: JointProblem, pieces: Sequence[Nonzeros], isolated: list[IntArray]
) -> tuple[list[Any], list[Any]]:
    """Build the K precision matrices, and those of the entries proved non-zero; zeros are not stored."""
    p = problem.source.n_variables
    precision, certified = [], []
    for k, alone in enumerate(isolated):
        mine = [piece.block_class == k for piece in pieces]
        row = np.concatenate([alone, *(piece.row[here] for piece, here in zip(pieces, mine, strict=True))])
        column = np.concatenate([alone, *(piece.column[here] for piece, here in zip(pieces, mine, strict=True))])
        variance = problem.optimal_variance(k)[alone]
        value = np.concatenate([1.0 / variance, *(piece.value[here] for piece, here in zip(pieces, mine, strict=True))])
        proved = np.concatenate(
            [np.zeros(len(alone), dtype=bool), *(piece.proved[here] for piece, here in zip(pieces, mine, strict=True))]
        )
        precision.append(_symmetric(row, column, value, p))
        certified.append(_symmetric(row[proved], column[proved], np.ones(int(proved.sum()), dtype=bool), p))
    return precision, certified


def _symmetric(row: IntArray, column: IntArray, value: Any, p: int) -> Any:
    off = row != column
    ends = np.concatenate([row, column[off]]), np.concatenate([column, row[off]])
    return sparse.csc_array((np.concatenate([value, value[off]]), ends), shape=(p, p))


def flat_from_precisions(system: BlockSystem, precision: Sequence[Any], n_variables: int) -> FloatArray:
    """Entries of K given matrices that lie inside the blocks, in flat storage; principal blocks stay definite."""
    flat = np.zeros(system.S.shape)
    block_of = np.full((system.n_classes, n_variables), -1, dtype=np.int64)
    slot_of = np.zeros_like(block_of)
    member_class = system.block_class[system.diagonal_block]
    block_of[member_class, system.members] = system.diagonal_block
    slot_of[member_class, system.members] = np.arange(len(system.members)) - system.member_start[system.diagonal_block]
    for k, matrix in enumerate(precision):
        Theta = sparse.coo_array(matrix)
        block = block_of[k, Theta.row]
        inside = (block >= 0) & (block == block_of[k, Theta.col])
        block, i, j = block[inside], slot_of[k, Theta.row[inside]], slot_of[k, Theta.col[inside]]
        flat[system.offset[block] + i * system.size[block] + j] = Theta.data[inside]
    return flat


def without_forbidden(system: BlockSystem, flat: FloatArray) -> FloatArray:
    """Definite blocks with zeros at forbidden places; blocks that are not definite without them keep their diagonal."""
    if not flat[system.forbidden].any():
        return flat
    allowed = system.scatter(system.gather(flat), flat[system.diagonal])
    lost = np.repeat(~factorize(system, allowed).definite, system.size**2)
    diagonal = system.scatter(np.zeros(len(system.upper)), flat[system.diagonal])
    return np.where(lost, diagonal, allowed)
