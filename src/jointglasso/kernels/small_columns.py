"""Block coordinate ascent on the dual for groups of up to some hundred variables, compiled as one kernel.

Columns are updated one after another by `columns.update_column`, in double precision and without steps on their faces.
Two or three sweeps bring most groups below their gap limit; Newton's method solves the rest.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from jointglasso._typing import BoolArray, FloatArray, IntArray
from jointglasso.kernels.column_batches import append_column, with_capacity
from jointglasso.kernels.column_parts import Column, axpy
from jointglasso.kernels.columns import Batch, ColumnUpdates, Sweep, update_column
from jointglasso.kernels.jit import njit, njit_internal, njit_no_refcount
from jointglasso.kernels.pair import Penalty
from jointglasso.kernels.pair_types import Blocks, DualState, PermutedBlocks, SparseColumns

#: Relative change of W at the level of rounding; ratio of the gap closed by a sweep to the gap limit below which the
#: limit is usually reached.
_NO_CHANGE, _GAP_FACTOR = 1e-14, 2.0


class GroupIndex(NamedTuple):
    """Groups of a system: the blocks of group g are ``blocks[start[g]:start[g + 1]]``."""

    start: IntArray
    blocks: IntArray
    block_class: IntArray
    """Class of each block."""
    members: IntArray
    """Variable of each member of the blocks."""
    n_variables: int
    """Upper bound (exclusive) of the variable numbers."""
    n_classes: int


class SweepLimits(NamedTuple):
    """Stopping criteria and the scale of the penalty."""

    gap: FloatArray
    """(G,): limit of the duality gap of each group."""
    max_sweeps: int
    scale: float
    """Magnitude of the subgradients of the penalty."""
    max_tolerance: float
    tolerance_factor: float
    """Tolerance of a column update over `scale`: `tolerance_factor` times the relative change of W in the last sweep,
    at most `max_tolerance`."""


class SweepWorkspace(NamedTuple):
    """Arrays of one thread for the sweeps over all groups."""

    tau: FloatArray
    """(M,): diagonal of Theta, in the order of the members."""
    local: IntArray
    position: IntArray
    """(U,) both: number of each variable within the group, and position of a pair among the columns."""
    column_of: IntArray
    """Variable of each member, numbered within its group."""
    lo: IntArray
    hi: IntArray
    """Row of the column in each block, and the next one."""
    sums: FloatArray
    """(3,): see `Sweep`."""
    columns: SparseColumns
    next_columns: SparseColumns
    """Columns of Theta of a group, and those of the next sweep."""
    updates: ColumnUpdates
    column: Column

    @classmethod
    def allocate(cls, groups: GroupIndex, blocks: Blocks, n_nonzeros: int, workspace_size: int) -> SweepWorkspace:
        """Allocate the arrays of one thread, given the non-zeros of the start; not compiled, as `Column.allocate`."""
        n_classes, n_variables, widest = groups.n_classes, groups.n_variables, int(blocks.size.max(initial=0))
        capacity = min(n_variables, n_classes * widest)

        def columns() -> SparseColumns:  # they grow where a variable has more pairs
            n = 8 * n_variables + n_nonzeros
            return SparseColumns(np.zeros(n_variables + 1, np.int64), np.empty(n, np.int64), np.empty((n, n_classes)))

        local, position = np.full((2, n_variables), -1)
        lo, hi = np.zeros((2, len(blocks.size)), np.int64)
        column = Column.allocate(n_classes, n_variables, widest, workspace_size, capacity, blocks.S)
        return cls(
            np.zeros(len(groups.members)), local, position, np.zeros(len(groups.members), np.int64), lo, hi,
            np.zeros(3), columns(), columns(), ColumnUpdates.allocate(n_classes, capacity, 1), column,
        )  # fmt: skip


@njit
def ascend_small_groups(
    penalty: Penalty,
    groups: GroupIndex,
    blocks: Blocks,
    limits: SweepLimits,
    theta: FloatArray,
    W: FloatArray,
    selected: BoolArray,
    workspace: SweepWorkspace,
) -> IntArray:
    """Sweep over the columns of the `selected` groups from theta and W, and write theta; number of sweeps (G,).

    A group ends when the estimate of its gap is within the limit. A result that is not positive definite is discarded.
    """
    tau, sums, columns, following = workspace.tau, workspace.sums, workspace.columns, workspace.next_columns
    sweeps = np.zeros(selected.shape[0], np.int64)
    for group in range(selected.shape[0]):
        if not selected[group]:
            continue
        chosen = groups.blocks[groups.start[group] : groups.start[group + 1]]
        located = _locate_variables(chosen, groups, blocks, workspace.local, workspace.column_of)
        _read_columns(located, theta, tau, workspace.position, columns)
        max_weight = 0.0
        for block in chosen:
            max_weight = max(max_weight, blocks.weight[block])
        change = 1.0
        while sweeps[group] < limits.max_sweeps and _NO_CHANGE < change < np.inf:
            sweeps[group] += 1
            tolerance = limits.scale / max_weight * min(limits.max_tolerance, limits.tolerance_factor * change)
            sums[0] = sums[1] = sums[2] = 0.0
            sweep = Sweep(located, DualState(W, tau, columns), tolerance, workspace.updates, sums)
            j = 0
            while j < located.block_of.shape[1]:
                j = _sweep(penalty, j, sweep, workspace, following)
                n = following.start[j]
                following = with_capacity(n + workspace.updates.n_pairs[0], n, following)
            columns, following = following, columns
            change = sums[0] / sums[1] if sums[1] > 0.0 else 0.0
            if sums[2] <= _GAP_FACTOR * limits.gap[group]:
                break
        if change < np.inf:
            _symmetrise(chosen, located, DualState(W, tau, columns), theta)
    return sweeps


@njit_internal
def _locate_variables(
    chosen: IntArray, groups: GroupIndex, blocks: Blocks, local: IntArray, column_of: IntArray
) -> PermutedBlocks:
    """The blocks of a group, its variables numbered from zero.

    Writes `column_of`, the number of each member. `local` is -1 before and after.
    """
    n = 0
    member_start, size, members = blocks.member_start, blocks.size, groups.members
    for block in chosen:
        for variable in members[member_start[block] : member_start[block] + size[block]]:
            if local[variable] < 0:
                local[variable] = n
                n += 1
    block_at = np.full((groups.n_classes, n), -1)
    slot_at = np.full((groups.n_classes, n), -1)
    for block in chosen:
        for slot in range(size[block]):
            column = local[members[member_start[block] + slot]]
            block_at[groups.block_class[block], column] = block
            slot_at[groups.block_class[block], column] = slot
            column_of[member_start[block] + slot] = column
    for block in chosen:
        for variable in members[member_start[block] : member_start[block] + size[block]]:
            local[variable] = -1
    return PermutedBlocks(
        block_at,
        slot_at,
        column_of,
        blocks.offset,
        size,
        member_start,
        blocks.weight,
        blocks.S,
        blocks.l1_weight,
        blocks.coupling,
    )


@njit_no_refcount
def _read_columns(
    blocks: PermutedBlocks, theta: FloatArray, tau: FloatArray, position: IntArray, columns: SparseColumns
) -> None:
    """Write the columns of theta off the diagonal, and the diagonal to `tau`; `position` is scratch."""
    n_classes, n_variables = blocks.block_of.shape
    for i in range(n_variables):
        position[i] = -1
    n = 0
    for j in range(n_variables):
        columns.start[j] = n
        for k in range(n_classes):
            block = blocks.block_of[k, j]
            if block < 0:
                continue
            first, row = blocks.member_start[block], blocks.offset[block] + blocks.slot_of[k, j] * blocks.size[block]
            tau[first + blocks.slot_of[k, j]] = theta[row + blocks.slot_of[k, j]]
            for slot in range(blocks.size[block]):
                i = blocks.variable[first + slot]
                if theta[row + slot] != 0.0 and i != j:
                    if position[i] < columns.start[j]:
                        position[i] = n
                        columns.other[n] = i
                        for other in range(n_classes):
                            columns.value[n, other] = 0.0
                        n += 1
                    columns.value[position[i], k] = theta[row + slot]
    columns.start[n_variables] = n


@njit_no_refcount
def _sweep(penalty: Penalty, first: int, sweep: Sweep, workspace: SweepWorkspace, new: SparseColumns) -> int:
    """Update the columns from `first` on, until all are updated or the capacity of `new` is too small for the next one.

    Returns the number of updated columns; where W lost definiteness that of all, and the sum of changes is infinite.
    """
    blocks, state, updates, sums = sweep.blocks, sweep.state, sweep.updates, sweep.sums
    n_classes, n_variables = blocks.block_of.shape
    batch = Batch(0, 0, workspace.lo, workspace.hi)
    for j in range(first, n_variables):
        for k in range(n_classes):
            block = blocks.block_of[k, j]
            if block >= 0:
                batch.lo[block], batch.hi[block] = blocks.slot_of[k, j], blocks.slot_of[k, j] + 1
        n = new.start[j]
        if n + workspace.column.variable.shape[0] > new.other.shape[0]:
            updates.n_pairs[0] = workspace.column.variable.shape[0]
            return j
        update_column(penalty, None, 0, Batch(j, j + 1, batch.lo, batch.hi), workspace.column, sweep)
        if updates.n_pairs[0] < 0:
            sums[0], sums[1], sums[2], new.start[n_variables] = np.inf, 1.0, np.inf, 0
            updates.n_pairs[0] = 0
            return n_variables
        axpy(1.0, updates.sums[0], sums)
        for k in range(n_classes):
            block = blocks.block_of[k, j]
            if block >= 0:
                b, slot_j = blocks.size[block], blocks.slot_of[k, j]
                state.tau[blocks.member_start[block] + slot_j] = updates.tau[0, k]
                row, column = blocks.offset[block] + slot_j * b, blocks.offset[block] + slot_j
                for i in range(b):
                    state.W[column + i * b] = state.W[row + i]
        append_column(updates.other[0, : updates.n_pairs[0]], updates.value[0], n, new)
        new.start[j + 1] = n + updates.n_pairs[0]
    updates.n_pairs[0] = 0
    return n_variables


@njit_no_refcount
def _symmetrise(chosen: IntArray, blocks: PermutedBlocks, state: DualState, theta: FloatArray) -> None:
    """Write theta from its columns, averaging the two values of each entry, if all blocks are positive definite.

    W is overwritten: by theta below the diagonal, and above it by its elimination.
    """
    columns, offset, size, W = state.columns, blocks.offset, blocks.size, state.W
    for block in chosen:
        for t in range(offset[block], offset[block] + size[block] * size[block]):
            W[t] = 0.0
    for j in range(blocks.block_of.shape[1]):
        for k in range(blocks.block_of.shape[0]):
            block = blocks.block_of[k, j]
            if block < 0:
                continue
            b, slot_j = size[block], blocks.slot_of[k, j]
            W[offset[block] + slot_j * (b + 1)] = state.tau[blocks.member_start[block] + slot_j]
            for e in range(columns.start[j], columns.start[j + 1]):
                if columns.value[e, k] != 0.0:
                    slot = blocks.slot_of[k, columns.other[e]]
                    W[offset[block] + slot * b + slot_j] += 0.5 * columns.value[e, k]
                    W[offset[block] + slot_j * b + slot] += 0.5 * columns.value[e, k]
    for block in chosen:
        if not _eliminate(size[block], W[offset[block] : offset[block] + size[block] * size[block]]):
            return
    for block in chosen:
        b = size[block]
        for i in range(b):
            theta[offset[block] + i * (b + 1)] = state.tau[blocks.member_start[block] + i]
            for j in range(i):
                value = W[offset[block] + i * b + j]
                theta[offset[block] + i * b + j] = value
                theta[offset[block] + j * b + i] = value


@njit_no_refcount
def _eliminate(b: int, A: FloatArray) -> bool:
    """Whether A (b b,) is positive definite, by Gaussian elimination above the diagonal that skips zeros."""
    for t in range(b):
        pivot = A[t * b + t : (t + 1) * b]
        if not pivot[0] > 0.0:
            return False
        for i in range(t + 1, b):
            axpy(-pivot[i - t] / pivot[0], pivot[i - t :], A[i * b + i : (i + 1) * b])
    return True
