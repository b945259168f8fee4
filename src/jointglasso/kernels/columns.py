"""Block coordinate ascent on the dual problem, columns of all classes: the graphical lasso for K classes.

With W_11 of every class fixed and c = W_jj known, the column that maximises the dual objective is given by the
minimiser (t, tau) of the jointly convex problem::

   sum_k w_k [ (c_k tau_k - log tau_k + t_k' W_11 t_k / tau_k) / 2 + s_k' t_k ] + penalty of all pairs (t_1i, ..., t_Ki)

where t is the column of Theta off the diagonal, tau the diagonal entry and s the column of S: w_12 = -W_11 t / tau. The
pairs are minimised one after another, all classes of a pair together, and tau = (1 + sqrt(1 + 4 c h)) / (2 c) with
h = t' W_11 t. What then is left of the variance, c - h / tau^2, is 1 / tau > 0: W stays definite however roughly t was
solved. Only the active pairs are solved for, on their own small matrix; one product with the whole of W_11 then gives
the column and shows which other pairs must join.

The columns of a batch, consecutive variables without a pair of non-zero entries among them, are visited from the same
W, by as many threads as there are: each writes its own row and reads none of the others'. `kernels.column_batches`
makes one matrix of them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from jointglasso._typing import BoolArray, FloatArray, IntArray
from jointglasso.kernels.cache import helper, leaf, njit
from jointglasso.kernels.column_face import ActivePairs, Gram, step_on_face
from jointglasso.kernels.column_parts import (
    Column,
    Own,
    Room,
    add_multiple,
    descend_once,
    make_room,
    move_own,
    own_step,
    rescale,
)
from jointglasso.kernels.group_state import copy_row
from jointglasso.kernels.pair import Penalty, pair_apart, pair_inside, pair_threshold
from jointglasso.kernels.pair_types import Ascent, Held, Stack

#: Most passes over the active pairs of a column, and most times that pairs may join them, in one visit.
_PASSES, _JOINS = 300, 20

#: Pairs that may join the active ones of a column at a time, however few these are; else as many as there are.
_FEWEST = 32

#: Passes after which a column that has not settled takes a step on its face after each.
_PLAIN_PASSES = 2


class Batch(NamedTuple):
    """Variables begin..end-1, and the places lo..hi-1 that they have in each block."""

    begin: int
    end: int
    lo: IntArray
    hi: IntArray


class Visited(NamedTuple):
    """What a visit found for each column of a batch."""

    n_pairs: IntArray
    """Non-zero pairs; -1 where the column is left as it was."""
    other: IntArray
    value: FloatArray
    """(m, U) and (m, U, K): the pairs."""
    tau: FloatArray
    """(m, K): diagonal entry of Theta."""
    sums: FloatArray
    """(m, 3): change of W, size of W, and the gap that goes with the change."""
    shift: FloatArray
    """(K, m, m): how far a pair inside the batch, its later column first, was drawn into the dual ball."""
    shifted: BoolArray
    """(m,): whether a pair of a column with one before it was."""


class Sweep(NamedTuple):
    """What a sweep is over, and what it finds."""

    stack: Stack
    ascent: Ascent
    tolerance: float
    """Change of x within a column at which it is left."""
    visited: Visited
    sums: FloatArray
    """(3,): of `Visited.sums`, over the batches that are done."""


class Hands(NamedTuple):
    """Room in which one thread visits columns."""

    y: FloatArray
    """(K, b): W_11 t."""
    is_active: BoolArray
    found: IntArray
    excess: FloatArray
    own: Own
    room: Room
    here: IntArray
    base: IntArray
    """(K,): block of the column, and where its row begins."""
    scale: FloatArray
    square: FloatArray


@njit
def make_hands(n_classes: int, n_variables: int, widest: int, n_room: int) -> Hands:
    """Room for columns of `n_variables` pairs in blocks of at most `widest` variables."""
    own = Own(np.ones(n_classes), np.ones(n_classes), np.ones(n_classes))
    whole = np.empty((2, n_classes), np.int64)
    real = np.ones((2, n_classes))
    y, is_active = np.zeros((n_classes, widest)), np.zeros(n_variables, np.bool_)
    found, excess = np.empty(n_variables, np.int64), np.empty(n_variables)
    return Hands(y, is_active, found, excess, own, make_room(n_classes, n_room), whole[0], whole[1], real[0], real[1])


@helper
def visit_column(penalty: Penalty, c: int, batch: Batch, hands: Hands, sweep: Sweep) -> None:
    """Solve a column of a batch, and write it into its own row outside the batch.

    No pair inside the batch may join: it would tie two columns that do not see each other.
    """
    stack, ascent, visited = sweep.stack, sweep.ascent, sweep.visited
    hands.is_active[batch.begin : batch.end] = True
    _enter(batch.begin + c, stack, ascent, hands)
    active, slot, x = _solve(penalty, batch.begin + c, stack, ascent, sweep.tolerance, hands)
    _leave(penalty, c, active, slot, x, hands, visited)
    if visited.n_pairs[c] >= 0:
        _store(c, stack, batch, ascent, hands, visited)
    hands.is_active[batch.begin : batch.end] = False


@leaf
def _enter(j: int, stack: Stack, ascent: Ascent, hands: Hands) -> None:
    """Look up what column j has of its own."""
    own, here = hands.own, hands.here
    for k in range(here.shape[0]):
        here[k] = stack.block_of[k, j]
        if here[k] >= 0:
            at = stack.slot_of[k, j]
            hands.base[k] = stack.offset[here[k]] + at * stack.size[here[k]]
            own.weight[k] = stack.weight[here[k]]
            own.variance[k] = ascent.W[hands.base[k] + at]
            own.tau[k] = ascent.precision[stack.member_start[here[k]] + at]
            hands.y[k, : stack.size[here[k]]] = 0.0


@helper
def _solve(
    penalty: Penalty, j: int, stack: Stack, ascent: Ascent, tolerance: float, hands: Hands
) -> tuple[IntArray, IntArray, FloatArray]:
    """The active pairs of column j, their places in each class, and the column on them; W_11 times it is in y."""
    here, y = hands.here, hands.y
    scale, W = hands.scale, ascent.W
    first, last = ascent.columns.start[j], ascent.columns.start[j + 1]
    active = ascent.columns.other[first:last].copy()
    x = np.empty((here.shape[0], last - first))
    for a in range(last - first):
        for k in range(here.shape[0]):
            x[k, a] = ascent.columns.value[first + a, k]
    for i in active:
        hands.is_active[i] = True
    gram = np.zeros((here.shape[0], 0, 0), np.float32)  # as W is: that of a hub has a hundred million numbers
    slot = np.zeros((here.shape[0], 0), np.int64)
    done = 0
    for _ in range(_JOINS):
        slot = _slots(active, here, stack)
        x = _widened(x, slot.shape[1])
        before = _widened(x[:, :done], slot.shape[1])
        gram = _grown_gram(gram, slot, stack, hands, W)
        _descend(penalty, gram, slot, stack, tolerance, x, hands)
        for k in range(here.shape[0]):
            if here[k] >= 0:
                if scale[k] != 1.0:
                    _multiply(scale[k], before[k])
                    _multiply(scale[k], y[k])
                block = W[stack.offset[here[k]] : stack.offset[here[k] + 1]]
                _add_rows(slot[k], x[k], before[k], stack.size[here[k]], block, y[k])
        done = slot.shape[1]
        n_joined = _violators(penalty, max(_FEWEST, done), stack, hands)
        if n_joined == 0:
            break
        more = np.empty(active.shape[0] + n_joined, np.int64)
        copy_row(active, more)
        sort(hands.found[:n_joined])
        copy_row(hands.found[:n_joined], more[active.shape[0] :])
        active = more
    for i in active:
        hands.is_active[i] = False
    return active, slot, x


@leaf
def _leave(
    penalty: Penalty, c: int, active: IntArray, slot: IntArray, x: FloatArray, hands: Hands, visited: Visited
) -> None:
    """Give the column its diagonal entry, and note its non-zero pairs."""
    here, own = hands.here, hands.own
    scale, square = hands.scale, hands.square
    n_classes, n = slot.shape
    for k in range(n_classes):
        square[k] = 0.0
        for a in range(n):
            if slot[k, a] >= 0:
                square[k] += x[k, a] * hands.y[k, slot[k, a]]
    scale[:] = 1.0
    if pair_apart(penalty):  # otherwise the descent has seen to it
        rescale(penalty, here, own, square, scale)
    visited.n_pairs[c] = 0
    for k in range(n_classes):
        if here[k] >= 0:
            visited.tau[c, k] = own_step(own.variance[k], scale[k] * scale[k] * square[k])
            if not visited.tau[c, k] > 0.0:
                visited.n_pairs[c] = -1
                return
    m = 0
    for a in range(n):
        nonzero = False
        for k in range(n_classes):
            visited.value[c, m, k] = scale[k] * x[k, a]
            nonzero = nonzero or x[k, a] != 0.0
        if nonzero:
            visited.other[c, m] = active[a]
            m += 1
    visited.n_pairs[c] = m


@leaf
def _store(c: int, stack: Stack, batch: Batch, ascent: Ascent, hands: Hands, visited: Visited) -> None:
    """Write a column into its row, and sum up the change."""
    visited.sums[c, :] = 0.0
    for k in range(hands.here.shape[0]):
        block = hands.here[k]
        if block >= 0:
            members = ascent.precision[stack.member_start[block] : stack.member_start[block + 1]]
            row = ascent.W[hands.base[k] : hands.base[k] + stack.size[block]]
            tau = visited.tau[c, k]
            for side in range(2):
                first, last = (0, batch.lo[block]) if side == 0 else (batch.hi[block], stack.size[block])
                changed, total, squares = _store_part(
                    -hands.scale[k] / tau, hands.y[k, first:last], members[first:last], row[first:last]
                )
                visited.sums[c, 0] += changed
                visited.sums[c, 1] += total
                visited.sums[c, 2] += 0.5 * hands.own.weight[k] * squares * tau


@leaf(fastmath={"contract", "reassoc"})
def _store_part(factor: float, y: FloatArray, precision: FloatArray, row: FloatArray) -> tuple[float, float, float]:
    """Write ``factor * y``; the sums of the changes, of the sizes, and of the squared changes times `precision`."""
    changed = 0.0
    total = 0.0
    square = 0.0
    for i in range(y.shape[0]):
        new = factor * y[i]
        step = new - row[i]
        changed += abs(step)
        total += abs(new)
        square += precision[i] * step * step
        row[i] = new
    return changed, total, square


@leaf
def _violators(penalty: Penalty, most: int, stack: Stack, hands: Hands) -> int:
    """List the variables whose pair with the column lies outside the dual ball although it is zero, and mark them.

    Of more than `most` those that lie farthest outside: of many that seem to violate when a column is begun few do when
    the strongest are in it.
    """
    own, here, y = hands.own, hands.here, hands.y
    found, excess, room = hands.found, hands.excess, hands.room
    weighted = stack.factor.shape[0] > 0
    touched = 0
    for k in range(here.shape[0]):
        if here[k] >= 0:
            b = stack.size[here[k]]
            members = stack.variable[stack.member_start[here[k]] : stack.member_start[here[k]] + b]
            covariance = stack.S[hands.base[k] : hands.base[k] + b]
            product = y[k, :b]
            inverse = 1.0 / own.tau[k]
            least = pair_threshold(penalty, k)
            for i in range(b):
                excess[i] = own.weight[k] * abs(covariance[i] + inverse * product[i]) - least
            if weighted:
                for i in range(b):
                    excess[i] += least - stack.factor[hands.base[k] + i] * least
            for i in range(b):
                if excess[i] > 0.0 and not hands.is_active[members[i]]:
                    hands.is_active[members[i]] = True
                    found[touched] = members[i]
                    touched += 1
    n = 0
    for m in range(touched):
        i = found[m]
        held = 0
        v = 1.0
        for k in range(here.shape[0]):
            if here[k] >= 0 and stack.block_of[k, i] == here[k]:
                at = stack.slot_of[k, i]
                room.a[held] = own.weight[k] * (stack.S[hands.base[k] + at] + y[k, at] / own.tau[k])
                room.cls[held] = k
                if weighted:
                    v = stack.factor[hands.base[k] + at]
                held += 1
        if v < np.inf and not pair_inside(penalty, room.a, Held(room.cls, held, v), room.work):
            found[n] = i
            excess[n] = 0.0
            for e in range(held):
                excess[n] = max(excess[n], abs(room.a[e]) - v * pair_threshold(penalty, room.cls[e]))
            n += 1
        else:
            hands.is_active[i] = False
    if n > most:
        _put_largest_first(most, excess[:n], found)
        for m in range(most, n):
            hands.is_active[found[m]] = False
    return min(n, most)


@helper
def _slots(active: IntArray, here: IntArray, stack: Stack) -> IntArray:
    """Place of each active variable in the block that the column has in each class; -1 where it is not there."""
    slot = np.full((here.shape[0], active.shape[0]), -1)
    for k in range(here.shape[0]):
        if here[k] >= 0:
            for a in range(active.shape[0]):
                if stack.block_of[k, active[a]] == here[k]:
                    slot[k, a] = stack.slot_of[k, active[a]]
    return slot


@leaf
def sort(numbers: IntArray) -> None:
    """Sort in place, by insertion at ever smaller distances: NumPy's sort would take a second to compile."""
    distance = numbers.shape[0] // 2
    while distance > 0:
        for place in range(distance, numbers.shape[0]):
            number = numbers[place]
            at = place
            while at >= distance and numbers[at - distance] > number:
                numbers[at] = numbers[at - distance]
                at -= distance
            numbers[at] = number
        distance = 1 if distance == 2 else distance * 5 // 11


@leaf
def _put_largest_first(count: int, numbers: FloatArray, items: IntArray) -> None:
    """Put so many of the largest numbers first, in any order, and what goes with them (Hoare's partition)."""
    first, last = 0, numbers.shape[0] - 1
    while first < last:
        pivot = numbers[count - 1]
        i, j = first, last
        while i <= j:
            while numbers[i] > pivot:
                i += 1
            while numbers[j] < pivot:
                j -= 1
            if i <= j:
                numbers[i], numbers[j] = numbers[j], numbers[i]
                items[i], items[j] = items[j], items[i]
                i += 1
                j -= 1
        if j < count - 1:
            first = i
        if i > count - 1:
            last = j


@leaf
def _multiply(factor: float, row: FloatArray) -> None:
    for i in range(row.shape[0]):
        row[i] *= factor


@helper
def _widened(x: FloatArray, width: int) -> FloatArray:
    """With zeros for the pairs that are new."""
    out = np.zeros((x.shape[0], width))
    for k in range(x.shape[0]):
        for a in range(x.shape[1]):
            out[k, a] = x[k, a]
    return out


@helper
def _grown_gram(known: Gram, slot: IntArray, stack: Stack, hands: Hands, W: FloatArray) -> Gram:
    """The active part of W in each class, given its first rows and columns; zero where a class lacks a variable."""
    n_classes, n = slot.shape
    first = known.shape[1]
    gram = np.zeros((n_classes, n, n), np.float32)
    for k in range(n_classes):
        for a in range(first):
            copy_row(known[k, a], gram[k, a])
        block = hands.here[k]
        for a in range(first, n):
            if slot[k, a] >= 0:
                base = stack.offset[block] + slot[k, a] * stack.size[block]
                row = W[base : base + stack.size[block]]
                for e in range(a + 1):
                    if slot[k, e] >= 0:
                        gram[k, a, e] = row[slot[k, e]]
                        gram[k, e, a] = gram[k, a, e]
    return gram


@helper(fastmath={"contract"})
def _add_rows(slot: IntArray, x: FloatArray, before: FloatArray, size: int, block: FloatArray, y: FloatArray) -> None:
    """Make ``y = sum of x[a] block[slot[a]]`` of what was that sum for x as it was before."""
    factor = np.zeros(slot.shape[0] + 3)
    base = np.zeros(slot.shape[0] + 3, np.int64)  # with factor zero, to make their number a multiple of four
    n = 0
    for a in range(slot.shape[0]):
        if slot[a] >= 0 and x[a] != before[a]:
            factor[n] = x[a] - before[a]
            base[n] = slot[a] * size
            n += 1
    y = y[:size]
    # Four rows at a time, as slices: that is what the compiler turns into vector instructions, ten times as fast. The
    # sum of four is made in single precision, as W is, with twice the numbers to an instruction.
    for m in range(0, n, 4):
        row0, row1 = block[base[m] : base[m] + size], block[base[m + 1] : base[m + 1] + size]
        row2, row3 = block[base[m + 2] : base[m + 2] + size], block[base[m + 3] : base[m + 3] + size]
        factor0, factor1 = np.float32(factor[m]), np.float32(factor[m + 1])
        factor2, factor3 = np.float32(factor[m + 2]), np.float32(factor[m + 3])
        for i in range(size):
            y[i] += factor0 * row0[i] + factor1 * row1[i] + factor2 * row2[i] + factor3 * row3[i]


@helper
def _descend(
    penalty: Penalty, gram: Gram, slot: IntArray, stack: Stack, tolerance: float, x: FloatArray, hands: Hands
) -> None:
    """Coordinate descent on the active pairs of a column, on their own part of W, until x settles.

    After a few passes, steps on the face help. Where the penalty compares the classes, tau goes along from pass to
    pass, and what x was multiplied by on the way goes into `scale`; elsewhere tau is left to the end.
    """
    n_classes, n = slot.shape
    own, room = hands.own, hands.room
    product, covariance = np.zeros((n_classes, n)), np.zeros((n_classes, n))
    at, variance = np.full((n, n_classes), -1), np.zeros((n, n_classes))
    v, place = np.ones(n), np.full((3, n_classes), n)
    hands.scale[:] = 1.0
    for k in range(n_classes):
        place[0, k], place[1, k] = k * n * n, k * n
        for a in range(n):
            if slot[k, a] >= 0:
                at[a, k] = a
                add_multiple(x[k, a], gram[k, a], product[k])
                variance[a, k] = gram[k, a, a]
                covariance[k, a] = stack.S[hands.base[k] + slot[k, a]]
                if stack.factor.shape[0] > 0:
                    v[a] = stack.factor[hands.base[k] + slot[k, a]]
    pairs = ActivePairs(gram, covariance, at, v)
    column = Column(
        x, product, own, hands.here, hands.square, np.ones(n_classes), gram.reshape(n_classes * n * n),
        covariance.reshape(n_classes * n), place[0], place[2], place[1], at, variance, v,
    )  # fmt: skip
    for number in range(1, _PASSES + 1):
        biggest = descend_once(penalty, n, column, room)
        if not pair_apart(penalty):
            biggest = max(biggest, move_own(penalty, n, biggest <= 10.0 * tolerance, column))
            for k in range(n_classes):
                hands.scale[k] *= column.ray[k]
        if biggest <= tolerance:
            break
        if number >= _PLAIN_PASSES:
            step_on_face(penalty, pairs, own, tolerance, x, product, room)
