"""The result of a task: non-zero entries, gap and certified edges, small enough to keep for all tasks.

Blocks take about a hundred bytes per entry and are freed after each task; they are rebuilt from the source in the rare
case that they are needed again. The K sparse precision matrices are assembled from the results.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from jointglasso._typing import BoolArray, FloatArray, IntArray
from jointglasso.blocks import BlockSystem
from jointglasso.blocks.linalg import factorize
from jointglasso.duality import DualityGap
from jointglasso.engine.equalities import EqualityProofs
from jointglasso.engine.recheck import KKTViolations, ScreeningCheck
from jointglasso.problem import JointProblem
from jointglasso.screening.groups import block_index


@dataclass(frozen=True)
class Nonzeros:
    """Diagonal and non-zero entries i < j of the blocks of a system."""

    position: IntArray
    """Positions in flat storage: the entries first, then the diagonal."""
    mirror: IntArray
    """Positions of the entries below the diagonal; equal to `position` on the diagonal."""
    block_class: IntArray
    row: IntArray
    column: IntArray
    value: FloatArray
    proved: BoolArray
    """Whether certified to be non-zero; False on the diagonal."""

    @classmethod
    def of(cls, system: BlockSystem, theta: FloatArray, present: BoolArray) -> Nonzeros:
        """From Theta in flat storage; `present` marks the entries certified to be non-zero."""
        entries = system.gather(theta)
        nonzero = np.flatnonzero(entries)
        row, column = system.entry_members(nonzero)
        block = np.concatenate([system.entry_block[nonzero], system.diagonal_block])
        diagonal = system.diagonal
        return cls(
            position=np.concatenate([system.upper[nonzero], diagonal]),
            mirror=np.concatenate([system.lower[nonzero], diagonal]),
            block_class=system.block_class[block],
            row=np.concatenate([system.members[row], system.members]),
            column=np.concatenate([system.members[column], system.members]),
            value=np.concatenate([entries[nonzero], theta[diagonal]]),
            proved=np.concatenate([present[nonzero], np.zeros(len(diagonal), dtype=bool)]),
        )

    def flat(self, size: int) -> FloatArray:
        """Theta in flat storage."""
        theta = np.zeros(size)
        theta[self.position] = self.value
        theta[self.mirror] = self.value
        return theta


@dataclass(frozen=True)
class CachedBlocks:
    """A solved task with its blocks in memory."""

    system: BlockSystem
    theta: FloatArray
    bounds: DualityGap
    """Bounds that include the rounding error."""
    screening_check: ScreeningCheck | None
    """Check of the entries that dynamic screening removed; None for static screening."""


@dataclass(frozen=True)
class TaskResult:
    """Result of one task, converged or not."""

    number: int
    objective: FloatArray
    """(G,): objective of each of its groups."""
    gap: FloatArray
    """(G,): duality gap of each group as an independent problem."""
    rounding: FloatArray
    """(G,): bound on the rounding error of the objective of each group."""
    raised: FloatArray
    """(G,): part of the gap that is due to rounding."""
    n_iter: int
    stopped_by: str
    methods: list[str]
    nonzeros: Nonzeros
    n_entries: int
    """Entries i < j inside the blocks."""
    n_present: int
    n_absent: int
    """Entries certified to be non-zero, and zero, provided that the screening of all tasks is certified."""
    certified_equal: EqualityProofs
    """Certified equalities and differences between the values of an edge in two classes."""
    violated: KKTViolations
    """KKT violations at screened-out entries: pairs to merge, and in which classes."""
    proved: bool
    """Whether the gap certifies that no screened-out entry of the task is non-zero."""
    build_seconds: float
    """Part of `seconds` for reading the covariances and building the blocks."""
    seconds: float
    cached_blocks: Any = None
    """The blocks, `CachedBlocks` or `CachedBigBlocks`, if they are kept in memory."""
    is_big: bool = False
    """Whether it was solved without stored blocks."""
    is_sparse: bool = False
    """Whether it was solved in sparse storage."""


def isolated_objective(problem: JointProblem, isolated: list[IntArray]) -> float:
    """Objective of the singletons of each class: ``Theta_ii = 1 / (S_ii + penalty / w)``."""
    total, absent = 0.0, problem.source.absent
    for k, singletons in enumerate(isolated):
        variables = singletons if absent is None else singletons[~absent[k, singletons]]
        total += problem.weights[k] * float((1.0 + np.log(problem.optimal_variance(k)[variables])).sum())
    return total


def sparse_matrices(
    problem: JointProblem, pieces: Sequence[Nonzeros], isolated: list[IntArray]
) -> tuple[list[Any], list[Any]]:
    """The K precision matrices, and K masks of the entries certified to be non-zero; zeros are not stored."""
    n_classes, p = len(isolated), problem.source.n_variables
    singletons = np.concatenate(isolated)
    variance = np.concatenate([problem.optimal_variance(k)[variables] for k, variables in enumerate(isolated)])
    singleton_class = np.repeat(np.arange(n_classes), [len(variables) for variables in isolated])
    of_class = np.concatenate([singleton_class, *(piece.block_class for piece in pieces)])
    row = np.concatenate([singletons, *(piece.row for piece in pieces)])
    column = np.concatenate([singletons, *(piece.column for piece in pieces)])
    value = np.concatenate([1.0 / variance, *(piece.value for piece in pieces)])
    proved = np.concatenate([np.zeros(len(singletons), dtype=bool), *(piece.proved for piece in pieces)])
    present = np.ones(int(proved.sum()), dtype=bool)
    precision = _symmetric(of_class, row, column, value, n_classes, p)
    return precision, _symmetric(of_class[proved], row[proved], column[proved], present, n_classes, p)


def _symmetric(of_class: IntArray, row: IntArray, column: IntArray, value: Any, n_classes: int, p: int) -> list[Any]:
    """K symmetric matrices from one triangle of each, converted as one matrix (p, K p) and split."""
    off = row != column
    first = of_class * p
    rows = np.concatenate([row, column[off]])
    columns = np.concatenate([first + column, first[off] + row[off]])
    stacked = sparse.csc_array((np.concatenate([value, value[off]]), (rows, columns)), shape=(p, n_classes * p))
    matrices = []
    for k in range(n_classes):
        start = stacked.indptr[k * p : (k + 1) * p + 1]
        inside = slice(start[0], start[-1])
        parts = stacked.data[inside].copy(), stacked.indices[inside].copy(), start - start[0]
        matrices.append(sparse.csc_array(parts, shape=(p, p)))
    return matrices


def flat_from_precisions(system: BlockSystem, precision: Sequence[Any], n_variables: int) -> FloatArray:
    """Entries of K matrices inside the blocks, in flat storage; principal submatrices stay positive definite."""
    flat = np.zeros(system.S.shape)
    shape = system.n_classes, n_variables
    block_of, slot_of = block_index(system.block_class, system.size, system.members, shape)
    for k, matrix in enumerate(precision):
        Theta = sparse.coo_array(matrix)
        block = block_of[k, Theta.row]
        inside = (block >= 0) & (block == block_of[k, Theta.col])
        block, i, j = block[inside], slot_of[k, Theta.row[inside]], slot_of[k, Theta.col[inside]]
        flat[system.offset[block] + i * system.size[block] + j] = Theta.data[inside]
    return flat


def without_forbidden(system: BlockSystem, flat: FloatArray) -> FloatArray:
    """Theta with zeros at forbidden entries; blocks that lose positive definiteness are replaced by their diagonal."""
    if not flat[system.forbidden].any():
        return flat
    allowed = system.scatter(system.gather(flat), flat[system.diagonal])
    lost = np.repeat(~factorize(system, allowed).definite, system.size**2)
    diagonal = system.scatter(np.zeros(len(system.upper)), flat[system.diagonal])
    return np.where(lost, diagonal, allowed)
