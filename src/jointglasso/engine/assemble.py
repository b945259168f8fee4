"""Between the blocks and K sparse matrices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import sparse

from jointglasso._typing import FloatArray, IntArray
from jointglasso.blocks import BlockSystem
from jointglasso.blocks.linalg import factorize
from jointglasso.covariance import absent_of
from jointglasso.engine.outcome import Nonzeros
from jointglasso.problem import JointProblem


def isolated_objective(problem: JointProblem, isolated: list[IntArray]) -> float:
    """Objective of the variables that are alone in their class: ``Theta_ii = 1 / (S_ii + penalty / w)``."""
    total, absent = 0.0, absent_of(problem.source)
    for k, alone in enumerate(isolated):
        variables = alone if absent is None else alone[~absent[k, alone]]
        total += problem.weights[k] * float((1.0 + np.log(problem.optimal_variance(k)[variables])).sum())
    return total


def sparse_matrices(
    problem: JointProblem, pieces: Sequence[Nonzeros], isolated: list[IntArray]
) -> tuple[list[Any], list[Any]]:
    """Build the K precision matrices, and those of the entries proved non-zero; zeros are not stored."""
    n_classes, p = len(isolated), problem.source.n_variables
    alone = np.concatenate(isolated)
    variance = np.concatenate([problem.optimal_variance(k)[variables] for k, variables in enumerate(isolated)])
    own_class = np.repeat(np.arange(n_classes), [len(variables) for variables in isolated])
    of_class = np.concatenate([own_class, *(piece.block_class for piece in pieces)])
    row = np.concatenate([alone, *(piece.row for piece in pieces)])
    column = np.concatenate([alone, *(piece.column for piece in pieces)])
    value = np.concatenate([1.0 / variance, *(piece.value for piece in pieces)])
    proved = np.concatenate([np.zeros(len(alone), dtype=bool), *(piece.proved for piece in pieces)])
    present = np.ones(int(proved.sum()), dtype=bool)
    precision = _symmetric(of_class, row, column, value, n_classes, p)
    return precision, _symmetric(of_class[proved], row[proved], column[proved], present, n_classes, p)


def _symmetric(of_class: IntArray, row: IntArray, column: IntArray, value: Any, n_classes: int, p: int) -> list[Any]:
    """K symmetric matrices from one triangle of each: sorted side by side, as one, and cut apart."""
    off = row != column
    first = of_class * p
    rows = np.concatenate([row, column[off]])
    columns = np.concatenate([first + column, first[off] + row[off]])
    beside = sparse.csc_array((np.concatenate([value, value[off]]), (rows, columns)), shape=(p, n_classes * p))
    matrices = []
    for k in range(n_classes):
        start = beside.indptr[k * p : (k + 1) * p + 1]
        inside = slice(start[0], start[-1])
        parts = beside.data[inside].copy(), beside.indices[inside].copy(), start - start[0]
        matrices.append(sparse.csc_array(parts, shape=(p, p)))
    return matrices


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
