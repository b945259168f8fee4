"""Block coordinate ascent on the dual problem of groups of up to some hundred variables, compiled from end to end.

As in `kernels.columns`, but with all of a matrix at hand: no rows that are written later. Two or three sweeps bring
most groups within their gap; Newton's method looks after the rest.
"""

from __future__ import annotations

import numpy as np

from jointglasso._typing import BoolArray, FloatArray, IntArray
from jointglasso.kernels.cache import njit
from jointglasso.kernels.columns import _add_multiple, columns_of
from jointglasso.kernels.group_state import block_of, cholesky
from jointglasso.kernels.newton import minimise_pair

#: Most passes over the pairs of a column, and most times that pairs may join them, in one visit.
_PASSES, _JOINS = 100, 5

#: Change of x within a column, relative to the penalties, at which it is left: at most, and by the change of W in the
#: last sweep.
_ROUGHEST, _PRECISION = 1e-2, 0.1

#: Penalty of the diagonal, relative to the others, that does little to make W definite.
NEGLIGIBLE = 1e-3

#: Change of W that is hardly more than rounding; the gap that goes with the change in a sweep, over the gap wanted, at
#: which the latter is usually reached: the sweep has brought most of it.
_SETTLED, _CLOSE = 1e-14, 2.0


@njit(cache=True, nogil=True)
def ascend_small_groups(
    block_start: IntArray,
    group_blocks: IntArray,
    block_class: IntArray,
    members: IntArray,
    member_start: IntArray,
    offset: IntArray,
    size: IntArray,
    weight: FloatArray,
    S: FloatArray,
    theta: FloatArray,
    inverse: FloatArray,
    todo: BoolArray,
    gap_limit: FloatArray,
    max_sweeps: int,
    lambda1: float,
    lambda2: float,
    lambda_d: float,
) -> IntArray:
    """Sweep over the columns of the groups in `todo`, theta in place, until the gap seems small; the sweeps of each.

    Blocks of group g are ``group_blocks[block_start[g]:block_start[g + 1]]``. W starts from the `inverse` of theta if
    theta is near the solution, and from S if `inverse` is empty. A theta that is not definite in the end is not taken
    over.
    """
    n_classes = block_class.max() + 1
    W = np.zeros_like(theta)
    beta = np.zeros_like(theta)
    precision = np.zeros(members.shape[0])
    local = np.full(members.max() + 1, -1)
    column_of = np.empty(members.shape[0], np.int64)
    room = np.empty((5, n_classes, size.max()))
    sweeps = np.zeros(todo.shape[0], np.int64)
    for group in range(todo.shape[0]):
        if not todo[group]:
            continue
        blocks = group_blocks[block_start[group] : block_start[group + 1]]
        block_at, slot_at = _places(blocks, block_class, members, member_start, size, n_classes, local, column_of)
        columns_of(blocks, theta, offset, size, member_start, beta, precision)
        if inverse.shape[0] > 0:
            _begin_near_inverse(blocks, offset, size, weight, S, inverse, lambda_d, W)
        else:
            _begin_near_covariance(blocks, offset, size, weight, S, lambda1, lambda2, lambda_d, W)
        unit = (lambda1 + lambda2) / weight[blocks].max()
        change = 1.0
        while sweeps[group] < max_sweeps and _SETTLED < change < np.inf:
            sweeps[group] += 1
            change, gap = _sweep(
                block_at, slot_at, column_of, member_start, offset, size, weight, S, lambda1, lambda2,
                unit * min(_ROUGHEST, _PRECISION * change), W, beta, precision, room,
            )  # fmt: skip
            if gap <= _CLOSE * gap_limit[group]:
                break
        if change < np.inf:
            _take_over(blocks, member_start, offset, size, beta, precision, W, theta)
    return sweeps


@njit(cache=True, nogil=True)
def _places(
    blocks: IntArray,
    block_class: IntArray,
    members: IntArray,
    member_start: IntArray,
    size: IntArray,
    n_classes: int,
    local: IntArray,
    column_of: IntArray,
) -> tuple[IntArray, IntArray]:
    """Block and place there, (K, U), of a group's variables in each class, -1: none.

    Variables are counted within the group; `column_of` gets those of its members. `local` is -1 before and after.
    """
    n = 0
    for block in blocks:
        for variable in members[member_start[block] : member_start[block] + size[block]]:
            if local[variable] < 0:
                local[variable] = n
                n += 1
    block_at = np.full((n_classes, n), -1)
    slot_at = np.full((n_classes, n), -1)
    for block in blocks:
        for slot in range(size[block]):
            column = local[members[member_start[block] + slot]]
            block_at[block_class[block], column] = block
            slot_at[block_class[block], column] = slot
            column_of[member_start[block] + slot] = column
    for block in blocks:
        for variable in members[member_start[block] : member_start[block] + size[block]]:
            local[variable] = -1
    return block_at, slot_at


@njit(cache=True, nogil=True, error_model="numpy")
def _begin_near_inverse(
    blocks: IntArray,
    offset: IntArray,
    size: IntArray,
    weight: FloatArray,
    S: FloatArray,
    inverse: FloatArray,
    lambda_d: float,
    W: FloatArray,
) -> None:
    """W from the inverse, rescaled to its optimal diagonal."""
    for block in blocks:
        b = size[block]
        given = block_of(inverse, offset, size, block)
        A = block_of(S, offset, size, block)
        B = block_of(W, offset, size, block)
        scale = np.empty(b)
        for i in range(b):
            scale[i] = np.sqrt((A[i, i] + lambda_d / weight[block]) / given[i, i])
        for i in range(b):
            for j in range(b):
                B[i, j] = given[i, j] * scale[i] * scale[j]


@njit(cache=True, nogil=True)
def _begin_near_covariance(
    blocks: IntArray,
    offset: IntArray,
    size: IntArray,
    weight: FloatArray,
    S: FloatArray,
    lambda1: float,
    lambda2: float,
    lambda_d: float,
    W: FloatArray,
) -> None:
    """W from S with its optimal diagonal, shrunk towards it where that adds little to S."""
    shrink = 1.0
    # Within lambda1 + lambda2 / sqrt(n) each, the n entries of a pair lie in the dual ball, n no more than the blocks.
    reach = lambda1 + lambda2 / np.sqrt(blocks.shape[0])
    if lambda_d < NEGLIGIBLE * reach:
        largest = 0.0
        for block in blocks:
            A = block_of(S, offset, size, block)
            for i in range(size[block]):
                for j in range(i):
                    largest = max(largest, weight[block] * abs(A[i, j]))
        shrink = 1.0 - min(1.0, reach / largest) if largest > 0.0 else 1.0
    for block in blocks:
        A = block_of(S, offset, size, block)
        B = block_of(W, offset, size, block)
        for i in range(size[block]):
            for j in range(size[block]):
                B[i, j] = shrink * A[i, j]
            B[i, i] = A[i, i] + lambda_d / weight[block]


@njit(cache=True, nogil=True, error_model="numpy")
def _sweep(
    block_at: IntArray,
    slot_at: IntArray,
    column_of: IntArray,
    member_start: IntArray,
    offset: IntArray,
    size: IntArray,
    weight: FloatArray,
    S: FloatArray,
    lambda1: float,
    lambda2: float,
    tolerance: float,
    W: FloatArray,
    beta: FloatArray,
    precision: FloatArray,
    room: FloatArray,
) -> tuple[float, float]:
    """Visit every column once; the change of W, or infinity if W is lost, and the gap that goes with it."""
    n_classes, n_variables = block_at.shape
    x, slope = room[0], room[1]
    used, active = np.zeros(n_variables), np.empty(n_variables, np.int64)
    changed = 0.0
    total = 0.0
    gap = 0.0
    for j in range(n_variables):
        for k in range(n_classes):
            block = block_at[k, j]
            if block >= 0:
                own = slot_at[k, j]
                x[k, : size[block]] = block_of(beta, offset, size, block)[own]
                _slope_of(x[k], block_of(S, offset, size, block)[own], block_of(W, offset, size, block), slope[k])
        _solve_column(
            j, block_at, slot_at, column_of, member_start, offset, size, weight, lambda1, lambda2, tolerance, W,
            precision, room, used, active,
        )  # fmt: skip
        for k in range(n_classes):
            block = block_at[k, j]
            if block >= 0:
                own = slot_at[k, j]
                members = precision[member_start[block] : member_start[block] + size[block]]
                block_of(beta, offset, size, block)[own] = x[k, : size[block]]
                rest, step, length, square = _store(
                    own, x[k], slope[k], block_of(S, offset, size, block)[own], members,
                    block_of(W, offset, size, block),
                )  # fmt: skip
                if not rest > 0.0:
                    return np.inf, np.inf
                members[own] = 1.0 / rest
                changed += step
                total += length
                gap += 0.5 * weight[block] * square / rest
    return changed / total if total > 0.0 else 0.0, gap


@njit(cache=True, nogil=True)
def _slope_of(x: FloatArray, covariance: FloatArray, W: FloatArray, slope: FloatArray) -> None:
    """``covariance + W x``."""
    b = covariance.shape[0]
    slope[:b] = covariance
    for t in range(b):
        _add_multiple(x[t], W[t], slope)


@njit(cache=True, nogil=True, error_model="numpy")
def _solve_column(
    j: int,
    block_at: IntArray,
    slot_at: IntArray,
    column_of: IntArray,
    member_start: IntArray,
    offset: IntArray,
    size: IntArray,
    weight: FloatArray,
    lambda1: float,
    lambda2: float,
    tolerance: float,
    W: FloatArray,
    precision: FloatArray,
    room: FloatArray,
    used: FloatArray,
    active: IntArray,
) -> None:
    """Coordinate descent on the pairs of column j until x settles; x and its slope are the first of `room`."""
    n_classes = block_at.shape[0]
    x, slope = room[0], room[1]
    target, curvature, new = room[2, :, 0], room[3, :, 0], room[4, :, 0]
    which, base, side = np.empty(n_classes, np.int64), np.empty(n_classes, np.int64), np.empty(n_classes, np.int64)
    w, theta_jj = np.empty(n_classes), np.empty(n_classes)
    for k in range(n_classes):
        block = block_at[k, j]
        if block >= 0:
            base[k] = offset[block]
            side[k] = size[block]
            w[k] = weight[block]
            theta_jj[k] = precision[member_start[block] + slot_at[k, j]]
    n_active, _ = _find_active(j, block_at, column_of, member_start, size, w, x, slope, lambda1, lambda2, used, active)
    moved = False
    joins = 0
    for _ in range(_PASSES):
        biggest = 0.0
        for i in active[:n_active]:
            m = 0
            for k in range(n_classes):
                if block_at[k, j] >= 0 and block_at[k, j] == block_at[k, i]:
                    slot = slot_at[k, i]
                    curvature[m] = w[k] * W[base[k] + slot * (side[k] + 1)] / theta_jj[k]
                    target[m] = theta_jj[k] * x[k, slot] - w[k] * slope[k, slot] / curvature[m]
                    which[m] = k
                    m += 1
            minimise_pair(target, curvature, lambda1, lambda2, new, m)
            for e in range(m):
                k = which[e]
                slot = slot_at[k, i]
                step = new[e] / theta_jj[k] - x[k, slot]
                if step != 0.0:
                    x[k, slot] += step
                    row = W[base[k] + slot * side[k] : base[k] + (slot + 1) * side[k]]
                    _add_multiple(step, row, slope[k])
                    biggest = max(biggest, abs(step) * row[slot])
        moved = moved or biggest > tolerance
        if biggest <= tolerance:
            if not moved or joins == _JOINS:
                break
            # Other pairs may have been drawn in.
            n_active, n_new = _find_active(
                j, block_at, column_of, member_start, size, w, x, slope, lambda1, lambda2, used, active
            )
            if n_new == 0:
                break
            moved = False
            joins += 1


@njit(cache=True, nogil=True)
def _find_active(
    j: int,
    block_at: IntArray,
    column_of: IntArray,
    member_start: IntArray,
    size: IntArray,
    weight: FloatArray,
    x: FloatArray,
    slope: FloatArray,
    lambda1: float,
    lambda2: float,
    used: FloatArray,
    active: IntArray,
) -> tuple[int, int]:
    """List the variables whose pairs with j are not zero, or may not stay so; their number, and that of the latter.

    Each class looks at its own block alone: a group of many small blocks has far more variables than a column has
    pairs. `used` is zero before and after.
    """
    n_beside = 0
    for k in range(block_at.shape[0]):
        block = block_at[k, j]
        if block < 0:
            continue
        columns = column_of[member_start[block] : member_start[block] + size[block]]
        for slot in range(size[block]):
            excess = max(weight[k] * abs(slope[k, slot]) - lambda1, 0.0)
            more = np.inf if x[k, slot] != 0.0 else excess * excess
            if more > 0.0:
                i = columns[slot]
                if used[i] == 0.0 and i != j:
                    active[n_beside] = i
                    n_beside += 1
                used[i] += more
    n_active = 0
    n_new = 0
    for n in range(n_beside):
        i = active[n]
        if used[i] > lambda2 * lambda2:
            active[n_active] = i
            n_active += 1
            n_new += used[i] < np.inf
        used[i] = 0.0
    used[j] = 0.0
    return n_active, n_new


@njit(cache=True, nogil=True)
def _store(
    own: int, x: FloatArray, slope: FloatArray, covariance: FloatArray, precision: FloatArray, W: FloatArray
) -> tuple[float, float, float, float]:
    """Write the column ``covariance - slope`` into W.

    What is left of the variance, the sums of the column's changes and of its size, and that of its squared changes
    times `precision`.
    """
    rest = W[own, own]
    changed = 0.0
    total = 0.0
    square = 0.0
    for t in range(covariance.shape[0]):
        if t != own:
            new = covariance[t] - slope[t]
            rest += x[t] * new
            step = new - W[own, t]
            changed += abs(step)
            total += abs(new)
            square += precision[t] * step * step
            W[own, t] = new
            W[t, own] = new
    return rest, changed, total, square


@njit(cache=True, nogil=True)
def _take_over(
    blocks: IntArray,
    member_start: IntArray,
    offset: IntArray,
    size: IntArray,
    beta: FloatArray,
    precision: FloatArray,
    scratch: FloatArray,
    theta: FloatArray,
) -> None:
    """Make theta of its columns, the mean of what two of them say of an entry, if that is definite."""
    for block in blocks:
        columns = block_of(beta, offset, size, block)
        diagonal = precision[member_start[block] : member_start[block] + size[block]]
        for i in range(size[block]):
            for j in range(i):
                columns[i, j] = 0.5 * (columns[i, j] * diagonal[i] + columns[j, i] * diagonal[j])
                columns[j, i] = columns[i, j]
            columns[i, i] = diagonal[i]
        if cholesky(columns, block_of(scratch, offset, size, block)) == np.inf:
            return
    for block in blocks:
        theta[offset[block] : offset[block + 1]] = beta[offset[block] : offset[block + 1]]
