"""Block coordinate ascent on the dual problem of groups of up to some hundred variables, compiled from end to end.

As in `kernels.columns`, but one column after another, with all of a matrix at hand. Two or three sweeps bring
most groups within their gap; Newton's method looks after the rest.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from jointglasso._typing import BoolArray, FloatArray, IntArray
from jointglasso.kernels.cache import helper, leaf, njit
from jointglasso.kernels.column_parts import (
    Column,
    Own,
    Room,
    add_multiple,
    columns_of,
    descend_once,
    make_room,
    move_own,
)
from jointglasso.kernels.group_state import block_of, copy_row
from jointglasso.kernels.pair import Penalty, pair_apart, pair_inside, pair_threshold
from jointglasso.kernels.pair_types import Blocks, Columns, Held, Places

#: Most passes over the pairs of a column, and most times that pairs may join them, in one visit.
_MAX_PASSES, _MAX_JOINS = 100, 5

#: Penalty of the diagonal, relative to the others, that does little to make W definite.
NEGLIGIBLE = 1e-3

#: Change of W that is hardly more than rounding; the gap that goes with the change in a sweep, over the gap wanted, at
#: which the latter is usually reached: the sweep has brought most of it.
_NO_CHANGE, _GAP_FACTOR = 1e-14, 2.0


class Groups(NamedTuple):
    """The groups of a system: blocks of group g are ``blocks[start[g]:start[g + 1]]``."""

    start: IntArray
    blocks: IntArray
    block_class: IntArray
    members: IntArray
    n_variables: int
    """More than any number among the members."""
    n_classes: int


class Limits(NamedTuple):
    """When to stop, and the scale of the penalty."""

    gap: FloatArray
    """(G,) allowed to each group."""
    max_sweeps: int
    scale: float
    """Size of the subgradients of the penalty."""
    reach: float
    """A pair with no entry larger than this lies in its dual ball."""
    diagonal_penalty: float
    n_room: int
    """Numbers that the penalty needs as room to work in."""
    roughest: float
    precision: float
    """Change of x within a column, relative to the penalties, at which it is left: at most, and by the change of W in
    the last sweep."""


class ColumnState(NamedTuple):
    """What the visit of a column works on; made once for all columns, since groups of two variables are many."""

    column: Column
    mark: IntArray
    """Of the variables; zero between the visits."""
    active: IntArray
    """The variables of the active pairs."""


@njit
def ascend_small_groups(
    penalty: Penalty,
    groups: Groups,
    blocks: Blocks,
    limits: Limits,
    theta: FloatArray,
    inverse: FloatArray,
    selected: BoolArray,
) -> IntArray:
    """Sweep over the columns of the groups in `selected`, theta in place, until the gap seems small; the sweeps of each.

    W starts from the `inverse` of theta if theta is near the solution, and from S if `inverse` is empty. A theta that
    is not definite in the end is not taken over.
    """
    columns = Columns(np.zeros_like(theta), np.zeros_like(theta), np.zeros(groups.members.shape[0]))
    local = np.full(groups.n_variables, -1)
    column_of = np.empty(groups.members.shape[0], np.int64)
    state = _allocate_column(groups, blocks, columns.W)
    workspace = make_room(groups.n_classes, limits.n_room)
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
            _start_from_covariance(chosen, blocks, limits.reach, limits.diagonal_penalty, columns.W)
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


@helper
def _allocate_column(groups: Groups, blocks: Blocks, W: FloatArray) -> ColumnState:
    n_classes, n_variables, side = groups.n_classes, groups.n_variables, blocks.size[-1]  # they come sorted by size
    rows, numbers, indices = np.empty((2, n_classes, side)), np.ones((5, n_classes)), np.empty((4, n_classes), np.int64)
    diagonal, slots = Own(numbers[0], numbers[1], numbers[2]), np.empty((n_variables, n_classes), np.int64)
    column = Column(
        rows[0], rows[1], diagonal, indices[0], numbers[3], numbers[4], W, blocks.S, indices[1], indices[2], indices[3], slots,
        np.empty((n_variables, n_classes)), np.ones(n_variables),
    )  # fmt: skip
    return ColumnState(column, np.zeros(n_variables, np.int64), np.empty(n_variables, np.int64))


@helper
def _locate_variables(chosen: IntArray, groups: Groups, blocks: Blocks, local: IntArray, column_of: IntArray) -> Places:
    """Where a group's variables, counted within the group, are in each class.

    `column_of` gets those of its members. `local` is -1 before and after.
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


@helper
def _start_from_inverse(
    chosen: IntArray, blocks: Blocks, inverse: FloatArray, diagonal_penalty: float, W: FloatArray
) -> None:
    """W from the inverse, rescaled to its optimal diagonal."""
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


@helper
def _start_from_covariance(
    chosen: IntArray, blocks: Blocks, box_radius: float, diagonal_penalty: float, W: FloatArray
) -> None:
    """W from S with its optimal diagonal, shrunk towards it where that adds little to S."""
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


@helper
def _sweep(
    penalty: Penalty,
    places: Places,
    blocks: Blocks,
    tolerance: float,
    columns: Columns,
    state: ColumnState,
    workspace: Room,
) -> tuple[float, float]:
    """Visit every column once; the change of W, or infinity if W is lost, and the gap that goes with it."""
    n_classes, n_variables = places.block_of.shape
    column, diagonal, column_block = state.column, state.column.own, state.column.here
    changed = 0.0
    total = 0.0
    gap = 0.0
    for j in range(n_variables):
        for k in range(n_classes):
            column_block[k] = block = places.block_of[k, j]
            if block >= 0:
                slot_j, b = places.slot_of[k, j], blocks.size[block]
                W = block_of(columns.W, blocks.offset, blocks.size, block)
                copy_row(block_of(columns.theta, blocks.offset, blocks.size, block)[slot_j], column.x[k])
                column.product[k, :b] = 0.0
                for t in range(b):
                    add_multiple(column.x[k, t], W[t], column.product[k])
                diagonal.weight[k] = blocks.weight[block]
                diagonal.variance[k] = W[slot_j, slot_j]
                diagonal.tau[k] = columns.precision[blocks.member_start[block] + slot_j]
                column.base[k], column.side[k] = blocks.offset[block], b
                column.row[k] = blocks.offset[block] + slot_j * b
        n_active = _solve_column(penalty, j, places, blocks, tolerance, state, workspace)
        move_own(penalty, n_active, True, column)
        for k in range(n_classes):
            block = column_block[k]
            if block >= 0:
                slot_j, b = places.slot_of[k, j], blocks.size[block]
                if not diagonal.tau[k] > 0.0:
                    return np.inf, np.inf
                first = blocks.member_start[block]
                columns.precision[first + slot_j] = diagonal.tau[k]
                copy_row(column.x[k, :b], block_of(columns.theta, blocks.offset, blocks.size, block)[slot_j])
                step, length, square = _store(
                    slot_j, diagonal.tau[k], column.product[k], columns.precision[first : first + b],
                    block_of(columns.W, blocks.offset, blocks.size, block),
                )  # fmt: skip
                changed += step
                total += length
                gap += 0.5 * diagonal.weight[k] * square * diagonal.tau[k]
    return changed / total if total > 0.0 else 0.0, gap


@leaf
def _solve_column(
    penalty: Penalty, j: int, places: Places, blocks: Blocks, tolerance: float, state: ColumnState, workspace: Room
) -> int:
    """Coordinate descent on the pairs of column j until x settles, and tau if the penalty compares classes.

    The number of active pairs.
    """
    n_active, _ = _active_pairs(penalty, j, places, blocks, state, workspace)
    moved = False
    joins = 0
    for _ in range(_MAX_PASSES):
        max_change = descend_once(penalty, n_active, state.column, workspace)
        if not pair_apart(penalty):
            max_change = max(max_change, move_own(penalty, n_active, max_change <= 10.0 * tolerance, state.column))
        moved = moved or max_change > tolerance
        if max_change <= tolerance:
            if not moved or joins == _MAX_JOINS:
                break
            # Other pairs may have been drawn in.
            n_active, n_new = _active_pairs(penalty, j, places, blocks, state, workspace)
            if n_new == 0:
                break
            moved = False
            joins += 1
    return n_active


@leaf
def _active_pairs(
    penalty: Penalty, j: int, places: Places, blocks: Blocks, state: ColumnState, workspace: Room
) -> tuple[int, int]:
    """List the variables whose pairs with j are not zero, or may not stay so; their number, and that of the latter.

    Each class looks at its own block alone: a group of many small blocks has far more variables than a column has
    pairs. `mark` is zero before and after.
    """
    n_candidates = 0
    column, diagonal, column_block = state.column, state.column.own, state.column.here
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
        v = 1.0
        for k in range(column_block.shape[0]):
            slot = places.slot_of[k, i] if column_block[k] >= 0 and column_block[k] == places.block_of[k, i] else -1
            column.at[n_active, k] = slot
            if slot >= 0:
                column.variance[n_active, k] = column.W[column.base[k] + slot * (column.side[k] + 1)]
                workspace.a[n_present] = diagonal.weight[k] * (
                    blocks.S[row[k] + slot] + column.product[k, slot] / diagonal.tau[k]
                )
                workspace.cls[n_present] = k
                if blocks.factor.shape[0] > 0:
                    v = blocks.factor[row[k] + slot]
                n_present += 1
        if not keep:
            keep = v < np.inf and not pair_inside(
                penalty, workspace.a, Held(workspace.cls, n_present, v), workspace.work
            )
            n_new += keep
        if keep:
            active[n_active] = i
            column.factor[n_active] = v
            n_active += 1
    return n_active, n_new


@leaf
def _store(
    slot_j: int, tau: float, product: FloatArray, precision: FloatArray, W: FloatArray
) -> tuple[float, float, float]:
    """Write the column ``-product / tau`` into W.

    The sums of its changes and of its size, and that of its squared changes times `precision`.
    """
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


@helper
def _symmetrise(chosen: IntArray, blocks: Blocks, columns: Columns, theta: FloatArray) -> None:
    """Make theta of its columns, the mean of what two of them say of an entry, if that is definite."""
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
        copy_row(columns.theta[offset[block] : offset[block + 1]], theta[offset[block] :])


@leaf
def _definite(A: FloatArray, eliminated: FloatArray) -> bool:
    """Whether A is positive definite: elimination row by row, in which zeros cost nothing, in the room of `eliminated`."""
    for i in range(A.shape[0]):
        copy_row(A[i], eliminated[i])
    for t in range(A.shape[0]):
        pivot = eliminated[t]
        if not pivot[t] > 0.0:
            return False
        for i in range(t + 1, A.shape[0]):
            add_multiple(-pivot[i] / pivot[t], pivot[i:], eliminated[i, i:])
    return True
