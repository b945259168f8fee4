"""Between flat block storage and K sparse matrices."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from scipy import sparse

from jointglasso._typing import FloatArray, IntArray
from jointglasso.blocks import BlockSystem
from jointglasso.blocks.linalg import factorize
from jointglasso.problem import JointProblem


def isolated_objective(problem: JointProblem, isolated: list[IntArray]) -> float:
    """Objective of the variables that are alone in their class: ``Theta_ii = 1 / (S_ii + penalty / w)``."""
    total = 0.0
    for k, variables in enumerate(isolated):
        total += problem.weights[k] * float((1.0 + np.log(problem.optimal_variance(k)[variables])).sum())
    return total


def sparse_precisions(
    problem: JointProblem, solved: Sequence[tuple[BlockSystem, FloatArray]], isolated: list[IntArray]
) -> list[Any]:
    """Build the K sparse precision matrices; entries that are zero are not stored."""
    n_classes, p = problem.source.n_classes, problem.source.n_variables
    pieces: list[list[tuple[IntArray, IntArray, FloatArray]]] = []
    for k in range(n_classes):
        alone = isolated[k]
        pieces.append([(alone, alone, 1.0 / problem.optimal_variance(k)[alone])])
    for system, theta in solved:
        for k, triples in enumerate(_nonzeros(system, theta)):
            pieces[k].append(triples)
    matrices = []
    for parts in pieces:
        rows, columns, data = (np.concatenate(column) for column in zip(*parts, strict=True))
        matrices.append(sparse.csc_array((data, (rows, columns)), shape=(p, p)))
    return matrices


def _nonzeros(system: BlockSystem, theta: FloatArray) -> Iterator[tuple[IntArray, IntArray, FloatArray]]:
    """Rows, columns and values of the non-zero entries of each class, both triangles and the diagonal."""
    entries = system.gather(theta)
    kept = np.flatnonzero(entries)
    row_member, column_member = system.entry_members(kept)
    row, column, value = system.members[row_member], system.members[column_member], entries[kept]
    entry_class = system.block_class[system.entry_block[kept]]
    diagonal_class = system.block_class[system.diagonal_block]
    for k in range(system.n_classes):
        e, d = entry_class == k, diagonal_class == k
        yield (
            np.concatenate([row[e], column[e], system.members[d]]),
            np.concatenate([column[e], row[e], system.members[d]]),
            np.concatenate([value[e], value[e], theta[system.diagonal[d]]]),
        )


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
