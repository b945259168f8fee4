"""Parts that the sweeps over the columns of big and of small groups share."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from jointglasso._typing import FloatArray, IntArray
from jointglasso.kernels.cache import helper, leaf
from jointglasso.kernels.group_state import block_of
from jointglasso.kernels.pair import Penalty, pair_apart, pair_homogeneous, pair_update
from jointglasso.kernels.pair_types import Blocks, Columns, Held, Work

#: One over the most by which a visit multiplies a column. Hubs begin at a twentieth of what they become, and less: left
#: to `own_step` they would creep there, and Theta would not be definite before.
_LEAST_REST = 0.05


class Room(NamedTuple):
    """Room for the numbers of one pair."""

    a: FloatArray
    b: FloatArray
    new: FloatArray
    cls: IntArray
    work: Work


class Own(NamedTuple):
    """What a column has of its own in each class: (K,) weight, variance and the diagonal entry of Theta."""

    weight: FloatArray
    variance: FloatArray
    tau: FloatArray


class Column(NamedTuple):
    """A column on its way to its solution, in all classes, on what it is given of W and S: whole blocks or a part."""

    x: FloatArray
    """(K, b): the column in each class."""
    product: FloatArray
    """(K, b): W_11 x."""
    own: Own
    here: IntArray
    """(K,): block of the column; -1: none."""
    square: FloatArray
    """(K,): x' W_11 x."""
    ray: FloatArray
    """(K,): what x and tau were multiplied by last."""
    W: Any
    S: Any
    base: IntArray
    """(K,): where the matrix of each class begins in W, its side, where the covariances of the column begin in S."""
    side: IntArray
    row: IntArray
    at: IntArray
    """(n, K): place of each active pair in each class, -1: not held."""
    variance: FloatArray
    """(n, K): the entry of W on the diagonal there."""
    factor: FloatArray
    """(n,): weight of each active pair in the penalty."""


@helper
def make_room(n_classes: int, n_room: int) -> Room:
    """Room for the pairs of `n_classes` classes, with as much for the penalty as it asks for."""
    real, whole = np.empty(n_room), np.empty(n_room, np.int64)
    a, b, new, cls = np.empty(n_classes), np.empty(n_classes), np.empty(n_classes), np.empty(n_classes, np.int64)
    return Room(a, b, new, cls, Work(real, whole))


@leaf
def descend_once(penalty: Penalty, n_active: int, column: Column, room: Room) -> float:
    """Minimise over the active pairs of a column one after another, tau being fixed; the largest change of w_12."""
    x, product, own = column.x, column.product, column.own
    W, S = column.W, column.S
    at, variance = column.at, column.variance
    base, side, row = column.base, column.side, column.row
    biggest = 0.0
    for a in range(n_active):
        m = 0
        for k in range(at.shape[1]):
            slot = at[a, k]
            if slot >= 0:
                room.a[m] = own.weight[k] * variance[a, k] / own.tau[k]
                slope = S[row[k] + slot] + product[k, slot] / own.tau[k]
                room.b[m] = room.a[m] * x[k, slot] - own.weight[k] * slope
                room.new[m] = x[k, slot]
                room.cls[m] = k
                m += 1
        pair_update(penalty, room.a, room.b, Held(room.cls, m, column.factor[a]), room.new, room.work)
        for e in range(m):
            k = room.cls[e]
            slot = at[a, k]
            step = room.new[e] - x[k, slot]
            if step != 0.0:
                x[k, slot] = room.new[e]
                add_multiple(step, W[base[k] + slot * side[k] : base[k] + (slot + 1) * side[k]], product[k])
                biggest = max(biggest, abs(step) * variance[a, k] / own.tau[k])
    return biggest


@leaf
def move_own(penalty: Penalty, n_active: int, settled: bool, column: Column) -> float:
    """Bring tau of each class to where it belongs; the largest change of w_12 on the active pairs.

    If x has settled for the tau that there was, the best multiple of both is taken first.
    """
    x, product, own = column.x, column.product, column.own
    at, square, ray = column.at, column.square, column.ray
    for k in range(at.shape[1]):
        square[k] = 0.0
        ray[k] = 1.0
        for a in range(n_active):
            if at[a, k] >= 0:
                square[k] += x[k, at[a, k]] * product[k, at[a, k]]
    if settled:
        rescale(penalty, column.here, own, square, ray)
    biggest = 0.0
    for k in range(at.shape[1]):
        if column.here[k] < 0:
            continue
        if ray[k] != 1.0:
            for t in range(column.side[k]):
                x[k, t] *= ray[k]
                product[k, t] *= ray[k]
        largest = 0.0
        for a in range(n_active):
            if at[a, k] >= 0:
                largest = max(largest, abs(product[k, at[a, k]]))
        own.tau[k] *= ray[k]
        tau = own_step(own.variance[k], ray[k] * ray[k] * square[k])
        biggest = max(biggest, largest * abs(1.0 / tau - 1.0 / own.tau[k]))
        own.tau[k] = tau
    return biggest


@leaf
def own_step(variance: float, square: float) -> float:
    """The diagonal entry tau that goes with ``square = t' W_11 t``."""
    return (1.0 + np.sqrt(1.0 + 4.0 * variance * square)) / (2.0 * variance)


@leaf
def rescale(penalty: Penalty, blocks: IntArray, own: Own, square: FloatArray, scale: FloatArray) -> None:
    """Numbers by which t and tau of each class are to be multiplied, t being solved for this tau.

    At such a t the derivative of the objective along the ray through (t, tau) is known without the penalty, so that the
    best point of the ray is: in each class by itself where the penalty hardly sees it, else in all classes together.
    """
    weight = 0.0
    total = 0.0
    for k in range(blocks.shape[0]):
        scale[k] = 1.0
        if blocks[k] >= 0:
            rest = own.variance[k] * own.tau[k] - square[k] / own.tau[k]
            weight += own.weight[k]
            total += own.weight[k] * rest
            if pair_apart(penalty) and rest > 0.0:
                scale[k] = 1.0 / max(rest, _LEAST_REST)
    if pair_homogeneous(penalty) and not pair_apart(penalty) and total > 0.0:
        scale[:] = weight / max(total, _LEAST_REST * weight)


@leaf
def add_multiple(factor: float, row: FloatArray, out: FloatArray) -> None:
    """Add a multiple of a row."""
    if factor != 0.0:
        for c in range(row.shape[0]):
            out[c] += factor * row[c]


@helper
def columns_of(blocks: Blocks, chosen: IntArray, theta: FloatArray, columns: Columns) -> None:
    """Write the columns of theta of the chosen blocks, zero before, and its diagonal."""
    for block in chosen:
        Theta = block_of(theta, blocks.offset, blocks.size, block)
        out = block_of(columns.theta, blocks.offset, blocks.size, block)
        for i in range(blocks.size[block]):
            columns.precision[blocks.member_start[block] + i] = Theta[i, i]
            for j in range(blocks.size[block]):
                if Theta[i, j] != 0.0 and j != i:
                    out[i, j] = Theta[i, j]
