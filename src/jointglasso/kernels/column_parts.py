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
    reals, integers = np.empty(n_room), np.empty(n_room, np.int64)
    a, b, new, cls = np.empty(n_classes), np.empty(n_classes), np.empty(n_classes), np.empty(n_classes, np.int64)
    return Room(a, b, new, cls, Work(reals, integers))


@leaf
def descend_once(penalty: Penalty, n_active: int, column: Column, workspace: Room) -> float:
    """Minimise over the active pairs of a column one after another, tau being fixed; the largest change of w_12."""
    x, product, diagonal = column.x, column.product, column.own
    W, S = column.W, column.S
    slots, variance = column.at, column.variance
    base, side, row = column.base, column.side, column.row
    max_change = 0.0
    for a in range(n_active):
        m = 0
        for k in range(slots.shape[1]):
            slot = slots[a, k]
            if slot >= 0:
                workspace.a[m] = diagonal.weight[k] * variance[a, k] / diagonal.tau[k]
                slope = S[row[k] + slot] + product[k, slot] / diagonal.tau[k]
                workspace.b[m] = workspace.a[m] * x[k, slot] - diagonal.weight[k] * slope
                workspace.new[m] = x[k, slot]
                workspace.cls[m] = k
                m += 1
        pair_update(
            penalty, workspace.a, workspace.b, Held(workspace.cls, m, column.factor[a]), workspace.new, workspace.work
        )
        for e in range(m):
            k = workspace.cls[e]
            slot = slots[a, k]
            step = workspace.new[e] - x[k, slot]
            if step != 0.0:
                x[k, slot] = workspace.new[e]
                add_multiple(step, W[base[k] + slot * side[k] : base[k] + (slot + 1) * side[k]], product[k])
                max_change = max(max_change, abs(step) * variance[a, k] / diagonal.tau[k])
    return max_change


@leaf
def move_own(penalty: Penalty, n_active: int, converged: bool, column: Column) -> float:
    """Bring tau of each class to where it belongs; the largest change of w_12 on the active pairs.

    If x has settled for the tau that there was, the best multiple of both is taken first.
    """
    x, product, diagonal = column.x, column.product, column.own
    slots, square, ray = column.at, column.square, column.ray
    for k in range(slots.shape[1]):
        square[k] = 0.0
        ray[k] = 1.0
        for a in range(n_active):
            if slots[a, k] >= 0:
                square[k] += x[k, slots[a, k]] * product[k, slots[a, k]]
    if converged:
        rescale(penalty, column.here, diagonal, square, ray)
    max_change = 0.0
    for k in range(slots.shape[1]):
        if column.here[k] < 0:
            continue
        if ray[k] != 1.0:
            for t in range(column.side[k]):
                x[k, t] *= ray[k]
                product[k, t] *= ray[k]
        largest = 0.0
        for a in range(n_active):
            if slots[a, k] >= 0:
                largest = max(largest, abs(product[k, slots[a, k]]))
        diagonal.tau[k] *= ray[k]
        tau = own_step(diagonal.variance[k], ray[k] * ray[k] * square[k])
        max_change = max(max_change, largest * abs(1.0 / tau - 1.0 / diagonal.tau[k]))
        diagonal.tau[k] = tau
    return max_change


@leaf
def own_step(variance: float, square: float) -> float:
    """The diagonal entry tau that goes with ``square = t' W_11 t``."""
    return (1.0 + np.sqrt(1.0 + 4.0 * variance * square)) / (2.0 * variance)


@leaf
def rescale(penalty: Penalty, blocks: IntArray, diagonal: Own, square: FloatArray, scale: FloatArray) -> None:
    """Numbers by which t and tau of each class are to be multiplied, t being solved for this tau.

    At such a t the derivative of the objective along the ray through (t, tau) is known without the penalty, so that the
    best point of the ray is: in each class by itself where the penalty hardly sees it, else in all classes together.
    """
    weight = 0.0
    total = 0.0
    for k in range(blocks.shape[0]):
        scale[k] = 1.0
        if blocks[k] >= 0:
            ratio = diagonal.variance[k] * diagonal.tau[k] - square[k] / diagonal.tau[k]
            weight += diagonal.weight[k]
            total += diagonal.weight[k] * ratio
            if pair_apart(penalty) and ratio > 0.0:
                scale[k] = 1.0 / max(ratio, _LEAST_REST)
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
