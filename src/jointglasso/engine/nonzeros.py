"""Theta of class blocks as a list of entries: start and result of a task, content of a checkpoint."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import sparse

from jointglasso._typing import BoolArray, FloatArray, IntArray
from jointglasso.blocks import BlockSystem
from jointglasso.blocks.big_group import BigGroup, GroupSupport
from jointglasso.blocks.linalg import factorize
from jointglasso.problem import JointProblem
from jointglasso.screening.groups import ClassBlocks, block_index


@dataclass(frozen=True)
class Nonzeros:
    """Non-zero entries of class blocks at variables row < column, and their diagonals, row = column."""

    cls: IntArray
    row: IntArray
    column: IntArray
    value: FloatArray
    proved: BoolArray
    """Whether certified to be non-zero; False on the diagonal."""

    @classmethod
    def of(cls, system: BlockSystem, theta: FloatArray, present: BoolArray | None = None) -> Nonzeros:
        """From Theta in flat storage, off-diagonal entries first; `present` marks those certified to be non-zero."""
        entries, members = system.gather(theta), system.members
        nonzero = np.flatnonzero(entries)
        row, column = system.entry_members(nonzero)
        proved = np.zeros(len(nonzero) + len(members), dtype=bool)
        if present is not None:
            proved[: len(nonzero)] = present[nonzero]
        return cls(
            system.block_class[np.concatenate([system.entry_block[nonzero], system.diagonal_block])],
            np.concatenate([members[row], members]),
            np.concatenate([members[column], members]),
            np.concatenate([entries[nonzero], theta[system.diagonal]]),
            proved,
        )

    @classmethod
    def of_support(cls, group: BigGroup, theta: GroupSupport, present: BoolArray | None = None) -> Nonzeros:
        """From Theta by pairs of a group; `present` (P, K) marks the entries certified to be non-zero."""
        pair, k = np.nonzero(theta.value)
        members, proved = group.members, np.zeros(len(pair) + len(group.members), dtype=bool)
        if present is not None:
            proved[: len(pair)] = present[pair, k]
        return cls(
            np.concatenate([k, group.block_class[group.member_block]]),
            np.concatenate([group.variables[theta.i[pair]], members]),
            np.concatenate([group.variables[theta.j[pair]], members]),
            np.concatenate([theta.value[pair, k], theta.diagonal]),
            proved,
        )

    @classmethod
    def inside(cls, precision: Sequence[Any], block_of: IntArray) -> Nonzeros:
        """From the upper triangles of K matrices: entries inside the blocks `block_of` (K, p), -1 where in none."""
        parts = []
        for number, matrix in enumerate(precision):
            Theta, block = sparse.coo_array(matrix), block_of[number]
            inside = (Theta.row <= Theta.col) & (block[Theta.row] >= 0) & (block[Theta.row] == block[Theta.col])
            row, column = (ends[inside].astype(np.int64) for ends in (Theta.row, Theta.col))
            parts.append((np.full(len(row), number), row, column, Theta.data[inside].astype(float)))
        k, row, column, value = (np.concatenate(part) for part in zip(*parts, strict=True))
        return cls(k, row, column, value, np.zeros(len(value), dtype=bool))

    def take(self, index: IntArray) -> Nonzeros:
        """The entries with these indices."""
        return Nonzeros(self.cls[index], self.row[index], self.column[index], self.value[index], self.proved[index])

    def flat(self, system: BlockSystem) -> FloatArray:
        """Theta in flat storage; all entries must lie inside the blocks."""
        theta, shape = np.zeros(system.S.shape), (system.n_classes, int(system.members.max(initial=-1)) + 1)
        block_of, slot_of = block_index(system.block_class, system.size, system.members, shape)
        block, i, j = block_of[self.cls, self.row], slot_of[self.cls, self.row], slot_of[self.cls, self.column]
        for row, column in ((i, j), (j, i)):
            theta[system.offset[block] + row * system.size[block] + column] = self.value
        return theta

    def support(self, group: BigGroup) -> GroupSupport:
        """Theta by pairs of a group."""
        off, n = self.row != self.column, len(group.variables)
        i, j = (np.searchsorted(group.variables, ends) for ends in (self.row, self.column))
        key, pair = np.unique(i[off] * n + j[off], return_inverse=True)
        values, diagonal = np.zeros((len(key), group.n_classes)), np.zeros(len(group.members))
        values[pair, self.cls[off]] = self.value[off]
        diagonal[group.member_of[self.cls[~off], i[~off]]] = self.value[~off]
        return GroupSupport(key // n, key % n, values, diagonal)

    def fits(self, blocks: ClassBlocks) -> bool:
        """Whether finite entries lie inside the blocks, with a positive diagonal entry for each of their variables."""
        p = int(blocks.members.max(initial=-1)) + 1
        shape = int(blocks.block_class.max(initial=-1)) + 1, p
        if not (self.cls.min(initial=0) >= 0 and self.cls.max(initial=-1) < shape[0]):
            return False
        if not (self.row.min(initial=0) >= 0 and (self.row <= self.column).all() and self.column.max(initial=-1) < p):
            return False
        block_of, _ = block_index(blocks.block_class, blocks.sizes, blocks.members, shape)
        block, on_diagonal = block_of[self.cls, self.row], self.row == self.column
        inside = (block >= 0) & (block == block_of[self.cls, self.column])
        n_diagonal = len(np.unique(self.cls[on_diagonal] * p + self.row[on_diagonal]))
        valid = np.isfinite(self.value) & ((self.value > 0.0) | ~on_diagonal)
        return bool(inside.all() and valid.all() and n_diagonal == len(blocks.members))


def starts_of_tasks(precision: Sequence[Any], blocks: ClassBlocks, groups: Sequence[IntArray]) -> list[Nonzeros]:
    """Entries of K matrices inside the blocks of each task, given by its groups."""
    shape = len(precision), int(precision[0].shape[0])
    block_of, _ = block_index(blocks.block_class, blocks.sizes, blocks.members, shape)
    start, task_of_group = Nonzeros.inside(precision, block_of), np.empty(blocks.n_groups, dtype=np.int64)
    for number, of_task in enumerate(groups):
        task_of_group[of_task] = number
    task = task_of_group[blocks.group[block_of[start.cls, start.row]]]
    order = np.argsort(task, kind="stable")
    bounds = np.searchsorted(task[order], np.arange(len(groups) + 1))
    return [start.take(order[first:last]) for first, last in pairwise(bounds)]


def flat_from_precisions(system: BlockSystem, precision: Sequence[Any], n_variables: int) -> FloatArray:
    """Entries of K matrices inside the blocks, in flat storage; principal submatrices stay positive definite."""
    shape = system.n_classes, n_variables
    block_of, _ = block_index(system.block_class, system.size, system.members, shape)
    return Nonzeros.inside(precision, block_of).flat(system)


def without_forbidden(system: BlockSystem, flat: FloatArray) -> FloatArray:
    """Theta with zeros at forbidden entries; blocks that lose positive definiteness are replaced by their diagonal."""
    if not flat[system.forbidden].any():
        return flat
    allowed = system.scatter(system.gather(flat), flat[system.diagonal])
    lost = system.per_element(~factorize(system, allowed).definite)
    diagonal = system.scatter(np.zeros(len(system.upper)), flat[system.diagonal])
    return np.where(lost, diagonal, allowed)


def sparse_matrices(
    problem: JointProblem, pieces: Sequence[Nonzeros], isolated: BoolArray
) -> tuple[list[Any], list[Any]]:
    """The K precision matrices, and K masks of the entries certified to be non-zero; zeros are not stored.

    `isolated` (K, p) marks the singletons, whose variances have a closed form.
    """
    n_classes, p = isolated.shape
    singleton_class, singletons = np.nonzero(isolated)
    of_class = np.concatenate([singleton_class, *(piece.cls for piece in pieces)])
    row = np.concatenate([singletons, *(piece.row for piece in pieces)])
    column = np.concatenate([singletons, *(piece.column for piece in pieces)])
    value = np.concatenate([1.0 / problem.optimal_variances[isolated], *(piece.value for piece in pieces)])
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


@lru_cache(maxsize=1)
def _empty(p: int) -> Any:
    """Empty matrix (p, p) to be copied and filled: the checks of the constructor take longer than all the rest."""
    return sparse.csc_array((p, p))


def _split(rows: IntArray, start: IntArray, value: Any, p: int) -> list[Any]:
    """Sparse matrices (p, p) from stacked ones (p, K p), given by rows and values in the order of the columns."""
    index_type = np.int32 if max(p, len(rows)) < np.iinfo(np.int32).max else np.int64
    rows, start, matrices = rows.astype(index_type), start.astype(index_type), []
    for k, (begin, end) in enumerate(pairwise(start[::p].tolist())):
        matrix = copy(_empty(p))
        matrix.data, matrix.indices = value[begin:end].copy(), rows[begin:end].copy()
        matrix.indptr = start[k * p : (k + 1) * p + 1] - index_type(begin)
        matrices.append(matrix)
    return matrices
