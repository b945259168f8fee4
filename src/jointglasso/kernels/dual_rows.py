"""Certified zeros of a large group: pairs inside their dual ball, in one pass over some rows of all classes."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from jointglasso._typing import BoolArray, FloatArray, IntArray
from jointglasso.kernels.column_parts import allocate_workspace
from jointglasso.kernels.jit import njit
from jointglasso.kernels.pair import Penalty, pair_is_dual_feasible, pair_threshold
from jointglasso.kernels.pair_types import PairClasses, PermutedBlocks


class RowBlock(NamedTuple):
    """Rows of S in flat storage: covariances of the variables from `first` on with those after them."""

    first: int
    row_start: IntArray
    """(K, m): position of column 0 of the block in each row; that element itself may not be stored."""


class GapRadius(NamedTuple):
    """Bound on the distance of W from the optimal one, entry by entry: ``radius_k root_ki root_kj``, plus rounding."""

    radius: FloatArray
    """(K,): radius from the duality gap."""
    root: FloatArray
    """(K, U): scale of each variable."""
    rounding: float
    """Relative rounding error of W and S."""
    everywhere: bool
    """Whether to count pairs that are screened out in some classes."""


@njit
def count_certified_zeros(
    penalty: Penalty,
    rows: RowBlock,
    stack: PermutedBlocks,
    W: Any,
    gap_radius: GapRadius,
    workspace_size: int,
    mark: BoolArray,
) -> int:
    """Number of entries certified to be zero: their pair is inside the dual ball for all dual points within the bound.

    Entries below the threshold of their class count too. Pairs in `mark` (m, U) are skipped, and those not certified
    are added to it. Bounds on |u_k| suffice since the ball of the group penalty is monotone in each |u_k|.
    """
    n_classes = stack.block_of.shape[0]
    workspace = allocate_workspace(n_classes, workspace_size)
    u, cls = workspace.a, workspace.cls
    padded = 1.0 + (1.0 + n_classes) * gap_radius.rounding
    base = np.zeros(n_classes, np.int64)
    count = 0
    for r in range(mark.shape[0]):
        i = rows.first + r
        for k in range(n_classes):
            block = stack.block_of[k, i]
            if block >= 0:
                base[k] = stack.offset[block] + stack.slot_of[k, i] * stack.size[block]
        for j in range(i + 1, mark.shape[1]):
            if mark[r, j]:
                continue
            n_present = 0
            n_below = 0
            for k in range(n_classes):
                block = stack.block_of[k, i]
                if block >= 0 and stack.block_of[k, j] == block:
                    w, s = W[base[k] + stack.slot_of[k, j]], stack.S[rows.row_start[k, r] + stack.slot_of[k, j]]
                    entry_radius = gap_radius.radius[k] * gap_radius.root[k, i] * gap_radius.root[
                        k, j
                    ] + gap_radius.rounding * (abs(w) + abs(s))
                    u[n_present] = padded * stack.weight[block] * (abs(w - s) + entry_radius)
                    cls[n_present] = k
                    workspace.l1[n_present] = pair_threshold(penalty, k)
                    n_below += u[n_present] <= workspace.l1[n_present]
                    n_present += 1
            counted = gap_radius.everywhere or n_present == n_classes
            if n_below == n_present or pair_is_dual_feasible(
                penalty, u, PairClasses(cls, n_present, 1.0, workspace.l1, workspace.work)
            ):
                count += n_present if counted else 0
            else:
                mark[r, j] = True
                count += n_below if counted else 0
    return count
