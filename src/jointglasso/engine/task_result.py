"""The result of a task: non-zero entries, gap and certified edges, small enough to keep for all tasks.

Blocks take about a hundred bytes per entry and are freed after each task; they are rebuilt from the source in the rare
case that they are needed again. The K sparse precision matrices are assembled from the results.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from scipy import sparse

from jointglasso._cached_property import cached_property
from jointglasso._typing import BoolArray, FloatArray, IntArray
from jointglasso.blocks import BlockSystem
from jointglasso.blocks.linalg import factorize
from jointglasso.duality import DualityGap, bound_groups, certified_edges
from jointglasso.engine.equalities import EqualityProofs, certified_equalities
from jointglasso.engine.recheck import NO_INFEASIBILITY, DualInfeasibility, KKTViolations, ScreeningCheck
from jointglasso.problem import JointProblem
from jointglasso.rounding import with_rounding
from jointglasso.screening.groups import block_index
from jointglasso.solvers.dual_point import DualPoint


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


class SolvedBlocks(Protocol):
    """A solved task in memory, with stored blocks or out of core, as the certificate needs it."""

    @property
    def point(self) -> DualPoint | None:
        """Dual point with W that a later round continues from; None for stored blocks, which Theta determines."""

    def with_cuts(self) -> tuple[DualityGap, DualInfeasibility]:
        """Bounds from a dual point over all classes, and its infeasibility at screened-out entries."""

    def with_radius(self, outcome: TaskResult, gap: FloatArray, radius: float) -> TaskResult:
        """An outcome with the gap of each of its groups, and the edges certified by `radius`, the total gap."""


@dataclass(frozen=True)
class CachedBlocks:
    """A solved task with its blocks in memory."""

    problem: JointProblem
    system: BlockSystem
    theta: FloatArray
    bounds: DualityGap
    """Bounds that include the rounding error."""
    screening_check: ScreeningCheck | None
    """Check of the entries that dynamic screening removed; None for static screening."""
    point = None

    def with_cuts(self) -> tuple[DualityGap, DualInfeasibility]:
        """Bounds from a dual point over all classes, and its infeasibility at screened-out entries."""
        return self._with_cuts

    @cached_property
    def _with_cuts(self) -> tuple[DualityGap, DualInfeasibility]:
        system, theta, bounds, problem = self.system, self.theta, self.bounds, self.problem
        if self.screening_check is None:
            return bounds, NO_INFEASIBILITY
        entries, values, infeasible = self.screening_check.subgradient(theta, bounds)
        if not len(infeasible.value) and self.screening_check.holds_already(bounds, entries, values):
            return bounds, infeasible
        bounds = bound_groups(
            system,
            theta,
            problem.penalty,
            problem.diagonal_penalty,
            factor=bounds.factor,
            subgradient_override=(entries, values),
        )
        return with_rounding(system, theta, problem.penalty, problem.diagonal_penalty, bounds), infeasible

    def with_radius(self, outcome: TaskResult, gap: FloatArray, radius: float) -> TaskResult:
        """An outcome with the gap of each of its groups, and the edges certified by `radius`, the total gap."""
        system, theta, penalty = self.system, self.theta, self.problem.penalty
        dual, radii = self.with_cuts()[0].dual, np.full_like(gap, radius)
        edges = certified_edges(system, theta, dual, radii, penalty, screening_proved=False)
        entries = np.flatnonzero(system.gather(theta))
        proved = np.concatenate([edges.present[entries], np.zeros(len(system.members), dtype=bool)])
        return replace(
            outcome,
            gap=gap,
            nonzeros=replace(outcome.nonzeros, proved=proved),
            n_present=int(edges.present.sum()),
            n_absent=int(edges.absent.sum()),
            certified_equal=certified_equalities(system, theta, edges, penalty, screening_proved=False),
        )


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
    edge_gap: float
    """Gap below which every edge of the task is certified."""
    certified_equal: EqualityProofs
    """Certified equalities and differences between the values of an edge in two classes."""
    violated: KKTViolations
    """KKT violations at screened-out entries: pairs to merge, and in which classes."""
    proved: bool
    """Whether the gap certifies that no screened-out entry of the task is non-zero."""
    build_seconds: float
    """Part of `seconds` for reading the covariances and building the blocks."""
    seconds: float
    cached_blocks: SolvedBlocks | None = None
    """The solved blocks, if they are kept in memory."""
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
    off = row != column
    first = of_class * p
    rows = np.concatenate([row, column[off]])
    columns = np.concatenate([first + column, first[off] + row[off]])
    order = np.argsort(columns * p + rows)  # by column of the stacked matrices (p, K p), then by row
    start = np.searchsorted(columns[order], np.arange(n_classes * p + 1))
    precision = _split(rows[order], start, np.concatenate([value, value[off]])[order], p)
    proved = np.concatenate([proved, proved[off]])[order]
    start = np.concatenate([[0], np.cumsum(proved)])[start]
    return precision, _split(rows[order][proved], start, np.ones(start[-1], dtype=bool), p)


def _split(rows: IntArray, start: IntArray, value: Any, p: int) -> list[Any]:
    """Sparse matrices (p, p) from stacked ones (p, K p), given by rows and values in the order of the columns."""
    index_type = np.int32 if max(p, len(rows)) < np.iinfo(np.int32).max else np.int64
    rows, start, matrices = rows.astype(index_type), start.astype(index_type), []
    empty = sparse.csc_array((p, p), dtype=value.dtype)
    for first in range(0, len(start) - 1, p):
        begin, end = start[first], start[first + p]
        matrix = copy(empty)  # the checks of the constructor take longer than the rest
        matrix.data, matrix.indices = value[begin:end].copy(), rows[begin:end].copy()
        matrix.indptr = start[first : first + p + 1] - begin
        matrices.append(matrix)
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
