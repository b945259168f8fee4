"""Batches of columns that are visited from the same W, and how they become one matrix again.

Let C be the variables of a batch and R the others. No two columns of C have a non-zero entry between them, so that the
new columns are w_j = -W_RR b_j with b_j = t_j / tau_j on R, and the new W is definite if and only if the Schur
complement of W_RR is. Its diagonal is 1 / tau_j. A pair i, j of C gets the value b_i' W_RR b_j that a visit one after
the other would give it: then nothing is off the diagonal, and W is definite. Only where that value lies outside the
dual ball it is drawn towards the nearest point inside, as far as the diagonal still outweighs what that puts beside it.
Such a pair wants to be non-zero, and becomes an active pair of one of its columns: so the two are in one batch no more.
"""

from __future__ import annotations

import numpy as np

from jointglasso._typing import FloatArray, IntArray
from jointglasso.kernels.cache import helper, njit
from jointglasso.kernels.column_parts import add_multiple
from jointglasso.kernels.columns import Batch, Hands, Sweep, Visited, visit_column
from jointglasso.kernels.group_state import copy_row
from jointglasso.kernels.pair import Penalty, pair_inside, pair_subgradient, pair_threshold
from jointglasso.kernels.pair_types import Held, SparseColumns, Stack
from jointglasso.kernels.team import Team, all_done, await_job, done, end, post, take

#: Most that the scaled sum of a row off the diagonal of the Schur complement may be, its diagonal being 1.
_DOMINATED = 0.9

#: The steps of a batch that are shared out; the pieces of the second.
_VISIT, _MIRROR, _SETTLE = range(3)
_MIRRORS = 64


@njit
def colours(start: IntArray, other: IntArray, order: IntArray, most: int) -> IntArray:
    """Colours of the variables of a symmetric graph, no two neighbours alike, at most `most` of each: first fit."""
    n = start.shape[0] - 1
    colour = np.full(n, -1)
    filled = np.zeros(n + 1, np.int64)
    barred = np.full(n + 1, -1)
    lowest = 0
    for j in order:
        for e in range(start[j], start[j + 1]):
            if colour[other[e]] >= 0:
                barred[colour[other[e]]] = j
        c = lowest
        while barred[c] == j or filled[c] >= most:
            c += 1
        colour[j] = c
        filled[c] += 1
        while filled[lowest] >= most:
            lowest += 1
    return colour


@njit
def cut_batches(start: IntArray, other: IntArray, most: int) -> IntArray:
    """Where batches begin, and the end: at most `most` consecutive variables, no two of them tied."""
    n = start.shape[0] - 1
    cuts = np.empty(n + 1, np.int64)
    cuts[0] = 0
    count = 1
    begin = 0
    tied_in = np.full(n, -1)
    for j in range(n):
        tied = tied_in[j] == begin or j - begin >= most
        for e in range(start[j], start[j + 1]):
            tied = tied or begin <= other[e] < j
        if tied:
            begin = j
            cuts[count] = j
            count += 1
        for e in range(start[j], start[j + 1]):
            tied_in[other[e]] = begin
    cuts[count] = n
    return cuts[: count + 1].copy()


@helper
def _find_places(stack: Stack, batch: Batch) -> None:
    """Places lo..hi-1 of the variables of a batch in each block."""
    lo, hi = batch.lo, batch.hi
    lo[:] = 0
    hi[:] = 0
    for j in range(batch.begin, batch.end):
        for k in range(stack.block_of.shape[0]):
            block = stack.block_of[k, j]
            if block >= 0:
                if lo[block] == hi[block]:
                    lo[block] = stack.slot_of[k, j]
                hi[block] = stack.slot_of[k, j] + 1


@helper
def _settle_column(penalty: Penalty, d: int, batch: Batch, hands: Hands, sweep: Sweep) -> None:
    """Give the pairs of column d of a batch with those before it their values, in both rows.

    The columns of the batch must be in all other rows.
    """
    stack, visited, W = sweep.stack, sweep.visited, sweep.ascent.W
    n_classes = stack.block_of.shape[0]
    zero, one = np.zeros(n_classes), np.ones(n_classes)
    visited.shifted[d] = False
    visited.shift[:, d, :d] = 0.0  # what an earlier batch left there is not of these pairs
    if visited.n_pairs[d] < 0:
        return
    for k in range(n_classes):
        block = stack.block_of[k, batch.begin + d]
        if block >= 0:
            implied = hands.y[k, : batch.hi[block] - batch.lo[block]]
            implied[:] = 0.0
            for a in range(visited.n_pairs[d]):
                x = visited.value[d, a, k]
                if x != 0.0:
                    base = stack.offset[block] + stack.slot_of[k, visited.other[d, a]] * stack.size[block]
                    _subtract(x / visited.tau[d, k], W[base + batch.lo[block] : base + batch.hi[block]], implied)
    for c in range(d):
        if visited.n_pairs[c] >= 0:
            _settle_pair(penalty, c, d, batch, (hands, zero, one), sweep)


@helper
def _subtract(factor: float, row: FloatArray, out: FloatArray) -> None:
    for i in range(out.shape[0]):
        out[i] -= factor * row[i]


@helper
def _settle_pair(
    penalty: Penalty, c: int, d: int, batch: Batch, room: tuple[Hands, FloatArray, FloatArray], sweep: Sweep
) -> None:
    """Write a pair inside the batch into both of its rows, and note how far it was drawn."""
    i, j, (hands, zero, one) = batch.begin + c, batch.begin + d, room
    stack, visited, W = sweep.stack, sweep.visited, sweep.ascent.W
    u, new, cls = hands.room.a, hands.room.new, hands.room.cls
    held = 0
    v = 1.0
    outside = False
    for k in range(stack.block_of.shape[0]):
        block = stack.block_of[k, i]
        if block >= 0 and block == stack.block_of[k, j]:
            at = stack.offset[block] + stack.slot_of[k, j] * stack.size[block] + stack.slot_of[k, i]
            u[held] = stack.weight[block] * (hands.y[k, stack.slot_of[k, i] - batch.lo[block]] - stack.S[at])
            cls[held] = k
            if stack.factor.shape[0] > 0:
                v = stack.factor[at]
            outside = outside or abs(u[held]) > v * pair_threshold(penalty, k)
            held += 1
    outside = outside and not pair_inside(penalty, u, Held(cls, held, v), hands.room.work)
    if outside:
        pair_subgradient(penalty, zero, u, one, Held(cls, held, v), new, hands.room.work)
        visited.shifted[d] = True
        visited.other[d, visited.n_pairs[d]] = i  # a zero that the next sweep is to look at: it ties the columns
        visited.value[d, visited.n_pairs[d]] = 0.0
        visited.n_pairs[d] += 1
    for e in range(held):
        k = cls[e]
        block = stack.block_of[k, i]
        visited.shift[k, d, c] = (new[e] - u[e]) / stack.weight[block] if outside else 0.0
        value = hands.y[k, stack.slot_of[k, i] - batch.lo[block]] + visited.shift[k, d, c]
        base, b = stack.offset[block], stack.size[block]
        W[base + stack.slot_of[k, i] * b + stack.slot_of[k, j]] = value
        W[base + stack.slot_of[k, j] * b + stack.slot_of[k, i]] = value


@helper
def _outweigh(stack: Stack, batch: Batch, W: FloatArray, visited: Visited) -> None:
    """Take back a part of what pairs were drawn where it could outweigh the diagonal of the Schur complement."""
    n_classes, m = stack.block_of.shape[0], batch.end - batch.begin
    apart = np.zeros((n_classes, m))
    for k in range(n_classes):
        for d in range(m):
            for c in range(d if visited.shifted[d] else 0):
                size = abs(visited.shift[k, d, c]) * np.sqrt(visited.tau[c, k] * visited.tau[d, k])
                apart[k, c] += size
                apart[k, d] += size
    for k in range(n_classes):
        for d in range(m):
            for c in range(d if visited.shifted[d] else 0):
                most = max(apart[k, c], apart[k, d])
                if visited.shift[k, d, c] != 0.0 and most > _DOMINATED:
                    i, j = batch.begin + c, batch.begin + d
                    base, b = stack.offset[stack.block_of[k, i]], stack.size[stack.block_of[k, i]]
                    back = (1.0 - _DOMINATED / most) * visited.shift[k, d, c]
                    W[base + stack.slot_of[k, i] * b + stack.slot_of[k, j]] -= back
                    W[base + stack.slot_of[k, j] * b + stack.slot_of[k, i]] -= back


@helper
def _mirror_rows(first: int, last: int, stack: Stack, batch: Batch, W: FloatArray) -> None:
    """Copy the rows of a batch into its columns, for the members first..last-1 of all blocks."""
    for block in range(stack.size.shape[0]):
        lo, hi, b = batch.lo[block], batch.hi[block], stack.size[block]
        if lo < hi:
            rows = W[stack.offset[block] : stack.offset[block + 1]].reshape((b, b))
            for i in range(max(0, first - stack.member_start[block]), min(b, last - stack.member_start[block])):
                if i < lo or i >= hi:
                    copy_row(rows[lo:hi, i], rows[i, lo:hi])


@helper
def _close_batch(batch: Batch, sweep: Sweep, new: SparseColumns) -> SparseColumns:
    """Make sure of W, give Theta its new diagonal, add up the changes; the columns with those of the batch."""
    stack, ascent, visited = sweep.stack, sweep.ascent, sweep.visited
    old = ascent.columns
    n = new.start[batch.begin]
    new = _with_room(n + _batch_pairs(batch, sweep), n, new)
    m = batch.end - batch.begin
    for c in range(m):
        if visited.shifted[c]:
            _outweigh(stack, batch, ascent.W, visited)
            break
    for c in range(m):
        j = batch.begin + c
        count = visited.n_pairs[c]
        if count >= 0:
            add_multiple(1.0, visited.sums[c], sweep.sums)
            _append(visited.other[c, :count], visited.value[c], n, new)
            for k in range(stack.block_of.shape[0]):
                block = stack.block_of[k, j]
                if block >= 0:
                    ascent.precision[stack.member_start[block] + stack.slot_of[k, j]] = visited.tau[c, k]
        else:
            count = old.start[j + 1] - old.start[j]
            _append(old.other[old.start[j] : old.start[j + 1]], old.value[old.start[j] :], n, new)
        n += count
        new.start[j + 1] = n
    return new


@helper
def _with_room(wanted: int, n: int, columns: SparseColumns) -> SparseColumns:
    """The first n pairs of the columns, with room for more than those wanted if there was too little."""
    if wanted <= columns.other.shape[0]:
        return columns
    other, value = np.empty(2 * wanted, np.int64), np.empty((2 * wanted, columns.value.shape[1]))
    more = SparseColumns(columns.start, other, value)
    _append(columns.other[:n], columns.value, 0, more)
    return more


@helper
def _append(other: IntArray, value: FloatArray, n: int, columns: SparseColumns) -> None:
    """Write the pairs of a column after the first n."""
    copy_row(other, columns.other[n:])
    for a in range(other.shape[0]):
        copy_row(value[a], columns.value[n + a])


@helper
def _batch_pairs(batch: Batch, sweep: Sweep) -> int:
    """Pairs of the columns of a batch."""
    old, n_pairs = sweep.ascent.columns, sweep.visited.n_pairs
    n = 0
    for c in range(batch.end - batch.begin):
        j = batch.begin + c
        n += n_pairs[c] if n_pairs[c] >= 0 else old.start[j + 1] - old.start[j]
    return n


@njit
def sweep_columns(
    penalty: Penalty, leads: bool, cuts: IntArray, dealt: IntArray, hands: Hands, sweep: Sweep, team: Team
) -> SparseColumns:
    """Visit the batches between the `cuts`, as the leader of a team or as one who helps; the new columns.

    `dealt` are the columns of each batch, by their numbers in it, in the order in which they are taken.
    """
    stack, new = sweep.stack, sweep.ascent.columns
    if not leads:
        while await_job(team):
            _take_pieces(penalty, dealt, hands, sweep, team)
        return new
    room = 2 * new.other.shape[0] + 16 * stack.block_of.shape[1]
    new = SparseColumns(np.zeros_like(new.start), np.empty(room, np.int64), np.empty((room, new.value.shape[1])))
    for n in range(cuts.shape[0] - 1):
        batch = Batch(cuts[n], cuts[n + 1], team.lo, team.hi)
        m = batch.end - batch.begin
        _find_places(stack, batch)
        for step in (_VISIT, _MIRROR, _SETTLE):
            post(team, step, batch.begin, batch.end, _MIRRORS if step == _MIRROR else m)
            _take_pieces(penalty, dealt, hands, sweep, team)
            if not all_done(team):
                return new
        new = _close_batch(batch, sweep, new)
    end(team)
    return new


@helper
def _take_pieces(penalty: Penalty, dealt: IntArray, hands: Hands, sweep: Sweep, team: Team) -> None:
    """Do what can be taken of the present step of a batch."""
    n_members = sweep.stack.variable.shape[0]
    while True:
        piece = take(team)
        if piece < 0:
            return
        batch = Batch(team.job[1], team.job[2], team.lo, team.hi)
        if team.job[0] == _VISIT:
            visit_column(penalty, dealt[batch.begin + piece], batch, hands, sweep)
        elif team.job[0] == _MIRROR:
            first, last = piece * n_members // _MIRRORS, (piece + 1) * n_members // _MIRRORS
            _mirror_rows(first, last, sweep.stack, batch, sweep.ascent.W)
        else:
            _settle_column(penalty, batch.end - batch.begin - 1 - piece, batch, hands, sweep)
        done(team)


@njit
def reorder_rows(block: FloatArray, rows: IntArray, order: IntArray, out: FloatArray) -> None:
    """``out = block[rows][:, order]``."""
    for i in range(rows.shape[0]):
        row = block[rows[i]]
        for j in range(order.shape[0]):
            out[i, j] = row[order[j]]
