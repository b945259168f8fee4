"""Parts that the sweeps over the columns of big and of small groups share."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from jointglasso._typing import FloatArray, IntArray
from jointglasso.kernels.cache import helper
from jointglasso.kernels.group_state import block_of
from jointglasso.kernels.pair import Penalty, pair_apart, pair_homogeneous
from jointglasso.kernels.pair_types import Blocks, Columns, Work

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


@helper
def make_room(n_classes: int, n_room: int) -> Room:
    """Room for the pairs of `n_classes` classes, with as much for the penalty as it asks for."""
    real, whole = np.empty(n_room), np.empty(n_room, np.int64)
    a, b, new, cls = np.empty(n_classes), np.empty(n_classes), np.empty(n_classes), np.empty(n_classes, np.int64)
    return Room(a, b, new, cls, Work(real, whole))


@helper
def own_step(variance: float, square: float) -> float:
    """The diagonal entry tau that goes with ``square = t' W_11 t``."""
    return (1.0 + np.sqrt(1.0 + 4.0 * variance * square)) / (2.0 * variance)


@helper
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


@helper
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
