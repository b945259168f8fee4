"""Block coordinate ascent on the dual for groups of up to some hundred variables, compiled as one kernel.

The column problem is that of `kernels.columns`; columns are updated sequentially on dense blocks. Two or three sweeps
bring most groups below their gap limit; Newton's method solves the rest.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from jointglasso._typing import BoolArray, FloatArray, IntArray
from jointglasso.kernels.column_parts import (
    Column,
    ColumnDiagonal,
    PairWorkspace,
    allocate_workspace,
    axpy,
    columns_of,
    descend_once,
    read_weights,
    update_diagonal,
)
from jointglasso.kernels.group_state import block_of, copy
from jointglasso.kernels.jit import njit, njit_internal, njit_no_refcount
from jointglasso.kernels.pair import Penalty, pair_is_dual_feasible, pair_separable, pair_threshold
from jointglasso.kernels.pair_types import Blocks, Columns, PairClasses, Places

#: In one column update: most passes over the active pairs, and most extensions of the active set.
_MAX_PASSES, _MAX_JOINS = 100, 5

#: Penalty of the diagonal, relative to the others, below which it hardly contributes to the definiteness of W.
NEGLIGIBLE = 1e-3

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
    box_radius: float
    """Radius of the box inside the dual ball: a pair with all |u_k| below it is dual feasible."""
    diagonal_penalty: float
    workspace_size: int
    """Length of the workspace arrays of the penalty."""
    roughest: float
    precision: float
    """Tolerance of a column update over the penalty: `roughest` at most, and `precision` times the relative change
    of W in the last sweep."""


class ColumnState(NamedTuple):
    """Arrays of a column update; allocated once for all columns, since groups of two variables are frequent."""

    column: Column
    mark: IntArray
    """(U,): marks of the variables; zero between column updates."""
    active: IntArray
    """(U,): variables of the active pairs."""


@njit
def ascend_small_groups(
    penalty: Penalty,
    groups: GroupIndex,
    blocks: Blocks,
    limits: SweepLimits,
    theta: FloatArray,
    inverse: FloatArray,
    selected: BoolArray,
) -> IntArray:
    """Sweep over the columns of the `selected` groups until the gap seems small; number of sweeps (G,). Updates theta.

    W starts from the `inverse` of theta if theta is near the solution, and from S if `inverse` is empty. A result that
    is not positive definite is discarded.
    """
    columns = Columns(np.zeros_like(theta), np.zeros_like(theta), np.zeros(groups.members.shape[0]))
    local = np.full(groups.n_variables, -1)
    column_of = np.empty(groups.members.shape[0], np.int64)
    state = _allocate_column(groups, blocks, columns.W)
    workspace = allocate_workspace(groups.n_classes, limits.workspace_size)
    sweeps = np.zeros(selected.shape[0], np.int64)
    for group in range(selected.shape[0]):
        if not selected[group]:
            continue
        chosen = groups.blocks[groups.start[group] : groups.start[group + 1]]
        places = _locate_variables(chosen, groups, blocks, local, column_of)
        columns_of(blocks, chosen, theta, columns)
        if inverse.shape[0] > 0:
            _start_from_inverse(chosen, blocks, inverse, limits.diagonal_penalty, columns.W)
        else:
            _start_from_covariance(chosen, blocks, limits.box_radius, limits.diagonal_penalty, columns.W)
        max_weight = 0.0
        for block in chosen:
            max_weight = max(max_weight, blocks.weight[block])
        unit = limits.scale / max_weight
        change = 1.0
        while sweeps[group] < limits.max_sweeps and _NO_CHANGE < change < np.inf:
            sweeps[group] += 1
            tolerance = unit * min(limits.roughest, limits.precision * change)
            change, gap = _sweep(penalty, places, blocks, tolerance, columns, state, workspace)
            if gap <= _GAP_FACTOR * limits.gap[group]:
                break
        if change < np.inf:
            _symmetrise(chosen, blocks, columns, theta)
    return sweeps


@njit_internal
def _allocate_column(groups: GroupIndex, blocks: Blocks, W: FloatArray) -> ColumnState:
    """Allocate the arrays of a column update."""
    n_classes, n_variables, side = groups.n_classes, groups.n_variables, blocks.size[-1]  # blocks are sorted by size
    rows, numbers, indices = np.empty((2, n_classes, side)), np.ones((5, n_classes)), np.empty((4, n_classes), np.int64)
    diagonal, slots = ColumnDiagonal(numbers[0], numbers[1], numbers[2]), np.empty((n_variables, n_classes), np.int64)
    column = Column(
        rows[0], rows[1], diagonal, indices[0], numbers[3], numbers[4], W, blocks.S, indices[1], indices[2], indices[3],
        slots, np.empty((n_variables, n_classes)), np.ones(n_variables), np.empty((n_classes, n_variables)),
    )  # fmt: skip
    return ColumnState(column, np.zeros(n_variables, np.int64), np.empty(n_variables, np.int64))


@njit_internal
def _locate_variables(
    chosen: IntArray, groups: GroupIndex, blocks: Blocks, local: IntArray, column_of: IntArray
) -> Places:
    """Block and row (K, U) of the variables of a group, numbered within the group.

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
    return Places(block_at, slot_at, column_of)


@njit_internal
def _start_from_inverse(
    chosen: IntArray, blocks: Blocks, inverse: FloatArray, diagonal_penalty: float, W: FloatArray
) -> None:
    """Start W from the inverse of theta, scaled to the optimal diagonal ``S_ii + diagonal_penalty / weight``."""
    for block in chosen:
        b = blocks.size[block]
        start = block_of(inverse, blocks.offset, blocks.size, block)
        A = block_of(blocks.S, blocks.offset, blocks.size, block)
        B = block_of(W, blocks.offset, blocks.size, block)
        scale = np.empty(b)
        for i in range(b):
            scale[i] = np.sqrt((A[i, i] + diagonal_penalty / blocks.weight[block]) / start[i, i])
        for i in range(b):
            for j in range(b):
                B[i, j] = start[i, j] * scale[i] * scale[j]


@njit_internal
def _start_from_covariance(
    chosen: IntArray, blocks: Blocks, box_radius: float, diagonal_penalty: float, W: FloatArray
) -> None:
    """Start W from S with the optimal diagonal; shrink S towards its diagonal if the diagonal penalty is negligible."""
    shrink = 1.0
    if diagonal_penalty < NEGLIGIBLE * box_radius:
        largest = 0.0
        for block in chosen:
            A = block_of(blocks.S, blocks.offset, blocks.size, block)
            for i in range(blocks.size[block]):
                for j in range(i):
                    largest = max(largest, blocks.weight[block] * abs(A[i, j]))
        shrink = 1.0 - min(1.0, box_radius / largest) if largest > 0.0 else 1.0
    for block in chosen:
        A = block_of(blocks.S, blocks.offset, blocks.size, block)
        B = block_of(W, blocks.offset, blocks.size, block)
        for i in range(blocks.size[block]):
            for j in range(blocks.size[block]):
                B[i, j] = shrink * A[i, j]
            B[i, i] = A[i, i] + diagonal_penalty / blocks.weight[block]


@njit_internal
def _sweep(
    penalty: Penalty,
    places: Places,
    blocks: Blocks,
    tolerance: float,
    columns: Columns,
    state: ColumnState,
    workspace: PairWorkspace,
) -> tuple[float, float]:
    """Update every column once; relative change of W, infinite if W lost definiteness, and the gap that it closed."""
    n_classes, n_variables = places.block_of.shape
    column, diagonal, column_block = state.column, state.column.diagonal, state.column.block
    changed = 0.0
    total = 0.0
    gap = 0.0
    for j in range(n_variables):
        for k in range(n_classes):
            column_block[k] = block = places.block_of[k, j]
            if block >= 0:
                slot_j, b = places.slot_of[k, j], blocks.size[block]
                W = block_of(columns.W, blocks.offset, blocks.size, block)
                copy(block_of(columns.theta, blocks.offset, blocks.size, block)[slot_j], column.x[k])
                column.product[k, :b] = 0.0
                for t in range(b):
                    axpy(column.x[k, t], W[t], column.product[k])
                diagonal.weight[k] = blocks.weight[block]
                diagonal.variance[k] = W[slot_j, slot_j]
                diagonal.tau[k] = columns.precision[blocks.member_start[block] + slot_j]
                column.base[k], column.side[k] = blocks.offset[block], b
                column.row[k] = blocks.offset[block] + slot_j * b
        n_active = _solve_column(penalty, j, places, blocks, tolerance, state, workspace)
        update_diagonal(penalty, n_active, True, column)
        for k in range(n_classes):
            block = column_block[k]
            if block >= 0:
                slot_j, b = places.slot_of[k, j], blocks.size[block]
                if not diagonal.tau[k] > 0.0:
                    return np.inf, np.inf
                first = blocks.member_start[block]
                columns.precision[first + slot_j] = diagonal.tau[k]
                copy(column.x[k, :b], block_of(columns.theta, blocks.offset, blocks.size, block)[slot_j])
                step, length, square = _store(
                    slot_j, diagonal.tau[k], column.product[k], columns.precision[first : first + b],
                    block_of(columns.W, blocks.offset, blocks.size, block),
                )  # fmt: skip
                changed += step
                total += length
                gap += 0.5 * diagonal.weight[k] * square * diagonal.tau[k]
    return changed / total if total > 0.0 else 0.0, gap


@njit_no_refcount
def _solve_column(
    penalty: Penalty,
    j: int,
    places: Places,
    blocks: Blocks,
    tolerance: float,
    state: ColumnState,
    workspace: PairWorkspace,
) -> int:
    """Coordinate descent on the pairs of column j until x converges (and tau, if classes are coupled strongly).

    Returns the number of active pairs.
    """
    n_active, _ = _active_pairs(penalty, j, places, blocks, state, workspace)
    moved = False
    joins = 0
    for _ in range(_MAX_PASSES):
        max_change = descend_once(penalty, n_active, state.column, workspace)
        if not pair_separable(penalty):
            max_change = max(
                max_change, update_diagonal(penalty, n_active, max_change <= 10.0 * tolerance, state.column)
            )
        moved = moved or max_change > tolerance
        if max_change <= tolerance:
            if not moved or joins == _MAX_JOINS:
                break
            # Other pairs may now violate the KKT conditions.
            n_active, n_new = _active_pairs(penalty, j, places, blocks, state, workspace)
            if n_new == 0:
                break
            moved = False
            joins += 1
    return n_active


@njit_no_refcount
def _active_pairs(
    penalty: Penalty, j: int, places: Places, blocks: Blocks, state: ColumnState, workspace: PairWorkspace
) -> tuple[int, int]:
    """List the active variables of column j: non-zero pairs and KKT violations; number of all, and of the latter.

    Each class scans only the block of the column: a group of many small blocks has far more variables than a column has
    pairs. `mark` is zero before and after.
    """
    n_candidates = 0
    column, diagonal, column_block = state.column, state.column.diagonal, state.column.block
    mark, active, row = state.mark, state.active, state.column.row
    for k in range(column_block.shape[0]):
        if column_block[k] < 0:
            continue
        first = blocks.member_start[column_block[k]]
        threshold = pair_threshold(penalty, k)
        for slot in range(column.side[k]):
            bound = threshold if blocks.factor.shape[0] == 0 else threshold * blocks.factor[row[k] + slot]
            slope = diagonal.weight[k] * abs(blocks.S[row[k] + slot] + column.product[k, slot] / diagonal.tau[k])
            nonzero = column.x[k, slot] != 0.0
            i = places.variable[first + slot]
            if (nonzero or slope > bound) and i != j:
                if mark[i] == 0:
                    active[n_candidates] = i
                    n_candidates += 1
                mark[i] = max(mark[i], 2 if nonzero else 1)
    n_active = 0
    n_new = 0
    for n in range(n_candidates):
        i = active[n]
        keep = mark[i] == 2
        mark[i] = 0
        n_present = 0
        v = np.inf  # forbidden, unless a class allows the pair
        for k in range(column_block.shape[0]):
            slot = places.slot_of[k, i] if column_block[k] >= 0 and column_block[k] == places.block_of[k, i] else -1
            column.slot[n_active, k] = slot
            if slot >= 0:
                column.variance[n_active, k] = column.W[column.base[k] + slot * (column.side[k] + 1)]
                workspace.a[n_present] = diagonal.weight[k] * (
                    blocks.S[row[k] + slot] + column.product[k, slot] / diagonal.tau[k]
                )
                workspace.cls[n_present] = k
                v = min(v, read_weights(penalty, k, blocks, row[k] + slot, workspace.l1, n_present))
                column.l1[k, n_active] = workspace.l1[n_present]
                n_present += 1
        if not keep:
            keep = v < np.inf and not pair_is_dual_feasible(
                penalty, workspace.a, PairClasses(workspace.cls, n_present, v, workspace.l1), workspace.work
            )
            n_new += keep
        if keep:
            active[n_active] = i
            column.factor[n_active] = v
            n_active += 1
    return n_active, n_new


@njit_no_refcount
def _store(
    slot_j: int, tau: float, product: FloatArray, precision: FloatArray, W: FloatArray
) -> tuple[float, float, float]:
    """Write the column ``-product / tau`` into W; sums of |change|, |value| and squared changes times `precision`."""
    changed = 0.0
    total = 0.0
    square = 0.0
    for t in range(precision.shape[0]):
        if t != slot_j:
            new = -product[t] / tau
            step = new - W[slot_j, t]
            changed += abs(step)
            total += abs(new)
            square += precision[t] * step * step
            W[slot_j, t] = new
            W[t, slot_j] = new
    return changed, total, square


@njit_internal
def _symmetrise(chosen: IntArray, blocks: Blocks, columns: Columns, theta: FloatArray) -> None:
    """Write theta from its columns, averaging the two values of each entry, if all blocks are positive definite."""
    offset, size = blocks.offset, blocks.size
    for block in chosen:
        theta_block = block_of(columns.theta, offset, size, block)
        diagonal = columns.precision[blocks.member_start[block] : blocks.member_start[block] + size[block]]
        for i in range(size[block]):
            for j in range(i):
                theta_block[i, j] = 0.5 * (theta_block[i, j] + theta_block[j, i])
                theta_block[j, i] = theta_block[i, j]
            theta_block[i, i] = diagonal[i]
        if not _definite(theta_block, block_of(columns.W, offset, size, block)):
            return
    for block in chosen:
        copy(columns.theta[offset[block] : offset[block + 1]], theta[offset[block] :])


@njit_no_refcount
def _definite(A: FloatArray, eliminated: FloatArray) -> bool:
    """Whether A is positive definite, by Gaussian elimination that skips zeros; `eliminated` is scratch."""
    for i in range(A.shape[0]):
        copy(A[i], eliminated[i])
    for t in range(A.shape[0]):
        pivot = eliminated[t]
        if not pivot[t] > 0.0:
            return False
        for i in range(t + 1, A.shape[0]):
            axpy(-pivot[i] / pivot[t], pivot[i:], eliminated[i, i:])
    return True
