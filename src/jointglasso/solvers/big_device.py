"""A big group on a device: Newton's method and the factors of the certificate there, sweeps over the columns here.

Over there all classes have all variables of the group. What a class does not hold is written as what changes nothing:
covariances of zero between its blocks, and variables of variance 1 that it lacks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from jointglasso import tuning
from jointglasso.backends.arrays import HostArrays
from jointglasso.backends.group_arrays import GroupArrays
from jointglasso.blocks.big_group import Support
from jointglasso.solvers.column_order import Order
from jointglasso.solvers.dense_newton import DenseTask, solve_dense
from jointglasso.solvers.dual_point import DualPoint

if TYPE_CHECKING:
    from jointglasso.solvers.big_sweeps import BigTask


class GroupOnDevice:
    """Covariances of a big group on a device, and what goes back and forth."""

    def __init__(self, task: BigTask, arrays: HostArrays) -> None:
        self.task, self.arrays = task, arrays
        group, n, xp = task.group, len(task.group.variables), arrays.xp
        weight = np.ones(group.n_classes)
        weight[group.block_class] = group.block_weight
        held = np.zeros((group.n_classes, n), dtype=bool)
        held[group.block_class[group.member_block], group.local] = True
        S = []
        for k in range(group.n_classes):
            matrix = xp.zeros((n, n))
            for block in np.flatnonzero(group.block_class == k):
                inside = slice(group.member_start[block], group.member_start[block + 1])
                local, variables = arrays.array(group.local[inside]), group.members[inside]
                for first in range(0, len(variables), tuning.ROWS_AT_ONCE):
                    rows = variables[first : first + tuning.ROWS_AT_ONCE]
                    piece = arrays.array(group.covariances(int(block), rows, variables))
                    matrix[local[first : first + tuning.ROWS_AT_ONCE, None], local] = piece
            lacking = arrays.array(np.flatnonzero(~held[k]))
            matrix[lacking, lacking] = 1.0 - task.diagonal_penalty / weight[k]
            S.append(matrix)
        self.dense = DenseTask(
            arrays=arrays,
            penalty=GroupArrays(xp, *task.penalty.pair),
            S=S,
            weight=weight,
            diagonal_penalty=task.diagonal_penalty,
            limit=task.limit,
            max_iter=min(tuning.DEVICE_MAX_ITER, task.max_iter),
            report=task.report,
            beyond=float(weight @ (~held).sum(axis=1)),
        )

    def finish(self, theta: Support) -> tuple[DualPoint, int, str] | None:
        """The point that Newton's method reaches from Theta, its iterations and what ended them; None if it is far."""
        group, n = self.task.group, len(self.task.group.variables)
        of_member = group.block_class[group.member_block], group.local
        diagonal = np.ones((group.n_classes, n))
        diagonal[of_member] = theta.diagonal
        found = solve_dense(self.dense, theta.i, theta.j, np.concatenate([theta.value.T, diagonal], axis=1))
        if found is None:
            return None
        W = np.empty(int(group.offset[-1]), dtype=np.float32)
        for block, (k, b) in enumerate(zip(group.block_class, group.size, strict=True)):
            local = self.arrays.array(group.local[group.member_start[block] : group.member_start[block + 1]])
            inside = found.W[k][local[:, None], local].astype(np.float32)
            W[group.offset[block] : group.offset[block + 1]] = self.arrays.numpy(inside).reshape(b * b)
        reached = Support(found.i, found.j, found.value, found.diagonal[of_member])
        order = np.arange(n), Order.by(group, group.local)
        point = DualPoint(
            group, self.task.penalty, self.task.diagonal_penalty, *order, reached, W, self.task.n_threads,
            arrays=self.arrays,
        )  # fmt: skip
        why = "rounding" if found.why == "tolerance" and point.gap > self.task.limit(point.objective) else found.why
        self.task.report(point.objective, point.gap)
        return point, found.n_iter, why
