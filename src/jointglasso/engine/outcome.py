"""What is left of a piece of work when it is solved: light enough that all of them can be kept.

The blocks themselves, a hundred bytes an entry, are given back as soon as their piece of work is done. They are built
again from the source in the rare case that they are needed once more. From what is left K sparse matrices are made.
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
from jointglasso.certificate import Bounds
from jointglasso.covariance import absent_of
from jointglasso.engine.recheck import Cuts, Violated
from jointglasso.engine.sameness import TieProofs
from jointglasso.problem import JointProblem
from jointglasso.screening.groups import places_in_blocks


@dataclass(frozen=True)
class Nonzeros:
    """Diagonal and non-zero entries i < j of the blocks of a system."""

    position: IntArray
    """In flat storage: the entries first, then the diagonal."""
    mirror: IntArray
    """Position of the lower copy; for the diagonal, the same."""
    block_class: IntArray
    row: IntArray
    column: IntArray
    value: FloatArray
    proved: BoolArray
    """Proved to be non-zero; false on the diagonal."""

    @classmethod
    def of(cls, system: BlockSystem, theta: FloatArray, present: BoolArray) -> Nonzeros:
        """Pick them from flat storage."""
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
class Opened:
    """A piece of work with its blocks at hand."""

    system: BlockSystem
    theta: FloatArray
    bounds: Bounds
    """With what rounding adds to them."""
    cuts: Cuts | None
    """What a dynamic screen has cut of the pairs."""


@dataclass(frozen=True)
class Outcome:
    """One piece of work, solved as far as it was."""

    number: int
    objective: FloatArray
    """(G,): objective of each of its groups."""
    gap: FloatArray
    """(G,): gap of each group as a problem of its own."""
    rounding: FloatArray
    """(G,): how far the objective of each group may be off."""
    raised: FloatArray
    """(G,): part of the gap that is there because of rounding."""
    n_iter: int
    stopped_by: str
    methods: list[str]
    nonzeros: Nonzeros
    n_entries: int
    """Entries i < j inside the blocks."""
    n_present: int
    n_absent: int
    """Entries proved to be non-zero, and zero, provided that all cuts are proved right."""
    ties: TieProofs
    """What is proved about the same edge in two classes, where the penalty compares them."""
    violated: Violated
    """Pairs that a dynamic screen must merge, and in which classes."""
    proved: bool
    """Whether the gap proves that no pair cut by a dynamic screen has to be merged."""
    build_seconds: float
    """Of `seconds`, for reading the covariances and laying out the blocks."""
    seconds: float
    opened: Any = None
    """Its blocks, `Opened` or `OpenedBig`, kept while there is room for them."""
    is_big: bool = False
    """Whether it was solved without its blocks in double precision."""


def isolated_objective(problem: JointProblem, isolated: list[IntArray]) -> float:
    """Objective of the variables that are alone in their class: ``Theta_ii = 1 / (S_ii + penalty / w)``."""
    total, absent = 0.0, absent_of(problem.source)
    for k, singletons in enumerate(isolated):
        variables = singletons if absent is None else singletons[~absent[k, singletons]]
        total += problem.weights[k] * float((1.0 + np.log(problem.optimal_variance(k)[variables])).sum())
    return total


def sparse_matrices(
    problem: JointProblem, pieces: Sequence[Nonzeros], isolated: list[IntArray]
) -> tuple[list[Any], list[Any]]:
    """Build the K precision matrices, and those of the entries proved non-zero; zeros are not stored."""
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
    shape = system.n_classes, n_variables
    block_of, slot_of = places_in_blocks(system.block_class, system.size, system.members, shape)
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
