"""Sweeps over the columns of a big group: near the solution for the price of a few iterations of Newton's method.

Block coordinate ascent on the dual problem (the graphical lasso's own method, for K classes): one sweep reads as many
rows of W as Theta has non-zeros, where one iteration of Newton's method factors and inverts it, and its progress hardly
suffers from badly conditioned data, which make Newton's first steps short. See `kernels.columns`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from jointglasso._typing import FloatArray
from jointglasso.blocks import BlockSystem
from jointglasso.blocks.linalg import log_determinants
from jointglasso.kernels.pair_types import Columns, Places
from jointglasso.solvers.base import SolverTask

#: Change of x within a column, relative to the penalties, at which it is left: at most, and by the change of the last
#: sweep.
_ROUGHEST, _PRECISION = 1e-2, 0.1

#: Change that the first sweep is expected to make from a start that carries knowledge.
_WARM_CHANGE = 0.03


def suits_columns(task: SolverTask) -> bool:
    """Whether sweeps can be made over the columns of a group: every pair is penalised.

    Where Newton's method can be used instead, weighted and forbidden pairs are left to it.
    """
    system = task.system
    if task.penalty.scale == 0.0 or "columns" not in task.penalty.offers:
        return False
    if "newton" in task.penalty.offers:
        return not (len(system.pair_factor) or len(system.forbidden))
    return bool((system.pair_factor > 0.0).all())


@dataclass
class ColumnAscent:
    """W, positive definite and dual feasible, with the columns that it gives Theta."""

    task: SolverTask
    places: Places
    columns: Columns
    """W is in single precision: a sweep waits for memory, and the certificate looks at Theta alone."""
    change: float = 1.0
    """Relative change of W in the last sweep; infinite if W is no longer definite."""
    rough_gap: float = np.inf
    """Gap that goes with this change, up to a factor that differs from problem to problem."""

    @classmethod
    def begin(cls, task: SolverTask, start: FloatArray, inverse: FloatArray | None = None) -> ColumnAscent:
        """Columns as in `start`; W as in its inverse if that is given, else from S."""
        from jointglasso.kernels.columns import columns_of

        system = task.system
        W = _point_near_covariance(task) if inverse is None else _point_near_inverse(task, inverse)
        columns = Columns(W, np.zeros_like(start), np.empty(len(system.members)))
        columns_of(system.compiled, np.arange(system.n_blocks), start, columns)
        return cls(task, _places(system), columns, change=1.0 if inverse is None else _WARM_CHANGE)

    @property
    def W(self) -> NDArray[np.float32]:
        """The dual point in flat storage."""
        W: NDArray[np.float32] = self.columns.W
        return W

    def sweep(self) -> float:
        """Visit every column once; the relative change of W."""
        from jointglasso.kernels.columns import ascend_columns

        system, penalty = self.task.system, self.task.penalty
        unit = penalty.scale / float(system.block_weight.max())
        tolerance = min(_ROUGHEST, _PRECISION * self.change) * unit
        self.change, self.rough_gap = ascend_columns(
            penalty.pair, self.places, system.compiled, tolerance, penalty.room(system.n_classes), self.columns
        )
        return self.change

    def theta(self) -> FloatArray:
        """Theta in flat storage, the mean of what its two columns say of an entry; it need not be definite yet."""
        from jointglasso.kernels.columns import theta_of

        theta = np.zeros_like(self.columns.theta)
        theta_of(self.task.system.compiled, self.columns, theta)
        return theta


def _places(system: BlockSystem) -> Places:
    """Where the variables of a group are in each class."""
    variables, local = np.unique(system.members, return_inverse=True)
    block_of = np.full((system.n_classes, len(variables)), -1, dtype=np.int64)
    slot_of = np.full_like(block_of, -1)
    block = system.diagonal_block
    block_of[system.block_class[block], local] = block
    slot_of[system.block_class[block], local] = np.arange(len(block)) - system.member_start[block]
    return Places(block_of, slot_of, np.ascontiguousarray(local, dtype=np.int64))


def _point_near_covariance(task: SolverTask) -> NDArray[np.float32]:
    """S with its optimal diagonal; if that adds little, shrunk so far towards the diagonal as the penalty allows."""
    from jointglasso.kernels.small_columns import NEGLIGIBLE

    system, penalty = task.system, task.penalty
    W = system.S.astype(np.float32)
    reach = penalty.reach(system.n_classes)
    if task.diagonal_penalty < NEGLIGIBLE * reach:
        W[system.diagonal] = 0.0
        largest = float(system.block_weight.max() * max(W.max(initial=0.0), -W.min(initial=0.0))) * (1.0 + 1e-6)
        W *= 1.0 - min(1.0, reach / largest) if largest > 0.0 else 1.0
    W[system.diagonal] = system.optimal_variance(task.diagonal_penalty)
    return W


def _point_near_inverse(task: SolverTask, inverse: FloatArray) -> NDArray[np.float32]:
    """The inverse with its optimal diagonal, and with each pair moved into its dual ball if it stays definite so.

    Otherwise all of it is moved towards S until it is feasible: S is semidefinite, and a mixture with it is definite.
    """
    system, penalty = task.system, task.penalty
    variance = system.optimal_variance(task.diagonal_penalty)
    scale = np.sqrt(variance / inverse[system.diagonal])
    covariance, weight = system.gather(system.S), system.block_weight[system.entry_block]
    apart = system.gather(inverse) * system.products_of_members(scale, np.ones(system.n_blocks)) - covariance
    pairs = np.flatnonzero(~penalty.inside(weight * apart, system.entries(penalty)))
    (chosen, _), entries = system.entries_of(pairs), system.entries(penalty, pairs)
    outside = (weight * apart)[chosen]
    inside = apart.copy()
    inside[chosen] = penalty.nearest_subgradient(np.zeros(len(chosen)), outside, entries) / weight[chosen]
    W = system.scatter(covariance + inside, variance)
    if np.isnan(log_determinants(system, W, np.ones(system.n_blocks, dtype=bool))).any():
        furthest = penalty.gauge(outside, entries).max(initial=1.0)
        W = system.scatter(covariance + apart / furthest, variance)
    return W.astype(np.float32)
