"""Column sweeps over a large group: block coordinate ascent on the dual problem.

The iterate is W, flat blocks (p, p) of every class: the dual variable, at the optimum the inverse of Theta. This is the
algorithm of the graphical lasso for K classes. A sweep reads as many rows of W as Theta has non-zeros,
whereas an iteration of Newton's method factors and inverts Theta, and it is hardly affected by bad conditioning, which
makes the first Newton steps short. See `kernels.columns`.

Columns without a non-zero pair between them form a batch that is updated in parallel from the same W
(`kernels.column_batches`). A graph colouring permutes the variables so that batches are contiguous: of the graph of
strong pairs at first, of the non-zero pairs later. The batches, and hence the results, do not depend on the number of
threads.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from jointglasso import config
from jointglasso._threads import Workers
from jointglasso._typing import BoolArray, FloatArray, IntArray
from jointglasso.blocks import BlockSystem
from jointglasso.blocks.big_group import BigGroup
from jointglasso.blocks.linalg import log_determinants
from jointglasso.blocks.system import bincount
from jointglasso.kernels.pair_types import DualState, PermutedBlocks, SparseColumns
from jointglasso.penalties import UNIFORM, PairPenalty
from jointglasso.screening.groups import block_index
from jointglasso.solvers.base import SolverTask

#: Layout of the class blocks of one group in flat storage.
ClassBlocksInStorage = BlockSystem | BigGroup

#: Ratio of all columns to the columns of a batch; ratio of the number of batches to that of the last colouring above
#: which the variables are coloured again.
_BATCH_PART, _RECOLOUR = 40, 1.5

#: Active pairs that may join a column in one sweep at least; further violations wait for the next sweep.
_MIN_FREE = 2048

#: Penalty of the diagonal, relative to the others, below which it hardly contributes to the definiteness of W.
_NEGLIGIBLE = 1e-3

#: Expected relative change of W in the first sweep from a warm start.
WARM_CHANGE = 0.03

#: Sweeps in batches have stalled if the estimated gap exceeds this fraction of the previous one while the change of W
#: is below the second value (conflicting pairs inside a batch).
_STALLED, NEAR_CHANGE = 0.5, 1e-3


def next_gap_check(gap_estimate: float, limit: float, gap: float) -> float:
    """Gap estimate at which to make the next gap check, from estimate and gap of the last check."""
    return config.NEXT_GAP_CHECK * gap_estimate * (limit / max(gap, limit) if np.isfinite(gap) else 1.0)


def suits_columns(task: SolverTask) -> bool:
    """Whether column sweeps apply to the groups of a task: every pair must be penalised or forbidden."""
    if task.penalty.scale == 0.0 or "columns" not in task.penalty.supports:
        return False
    return bool((task.system.entry_factor > 0.0).all())


@dataclass(frozen=True)
class Permutation:
    """Members (rows of the class blocks) sorted by a permutation of the variables."""

    blocks: ClassBlocksInStorage
    variable: IntArray
    """(M,): rank of each member's variable in the permutation, ascending within a block."""
    member: IntArray
    """(M,): index of each member in the original storage."""

    @classmethod
    def by(cls, blocks: ClassBlocksInStorage, rank: IntArray) -> Permutation:
        """Sort the members of each block by `rank` (M,), the rank of their variables."""
        block = np.repeat(np.arange(len(blocks.size)), blocks.size)
        member = np.lexsort((rank, block))
        return cls(blocks, rank[member], member)

    @property
    def slots(self) -> list[IntArray]:
        """For each block, the original rows in permuted order."""
        return [self.member[a:b] - a for a, b in pairwise(self.blocks.member_start)]

    def places(self) -> tuple[IntArray, IntArray]:
        """(K, U), (K, U): block of each variable in each class and its row there; -1 if it is in none."""
        shape = self.blocks.n_classes, int(self.variable.max(initial=-1)) + 1
        return block_index(self.blocks.block_class, self.blocks.size, self.variable, shape)

    def apply(self, S: Any, l1_weight: Any, coupling: Any = UNIFORM) -> PermutedBlocks:
        """The permuted blocks with their covariances and weights, in flat storage."""
        b = self.blocks
        return PermutedBlocks(
            *self.places(), self.variable, b.offset, b.size, b.member_start, b.block_weight, S, l1_weight, coupling
        )


def as_columns(n_variables: int, row: IntArray, other: IntArray, value: FloatArray) -> SparseColumns:
    """Sparse columns with values (n, K) at the distinct positions (row, other), sorted."""
    order = sparse.coo_array((np.arange(len(row)), (row, other)), shape=(n_variables, n_variables)).tocsr()
    order.sort_indices()
    return SparseColumns(order.indptr.astype(np.int64), order.indices.astype(np.int64), value[order.data])


@dataclass
class ColumnAscent:
    """State of the sweeps: a positive definite, dual feasible W, and the columns of Theta computed from it.

    W and S are in single precision, because sweeps are limited by memory bandwidth; the certificate of stored blocks
    uses Theta only, that of a large group projects W in double precision (`dual_point.py`).
    """

    blocks: ClassBlocksInStorage
    penalty: PairPenalty
    workers: Workers
    order: IntArray
    """(U,): variable (index within the group) at each position of the sweep order."""
    permuted: Permutation
    permuted_blocks: PermutedBlocks
    state: DualState
    batch_bounds: IntArray
    """Boundaries of the batches of the next sweep if the variables have just been coloured, else empty."""
    change: float = 1.0
    """Relative change of W in the last sweep; not finite after a breakdown."""
    gap_estimate: float = np.inf
    """Estimate of the gap from this change, up to a problem-dependent factor."""
    n_batches: int = 0
    """Number of batches after the last colouring by non-zero pairs."""
    stalled: bool = False
    """Whether the last batched sweep improved little, because the columns of a batch are updated from the same W; the
    next sweep is then sequential."""
    _columns: list[Any] = field(default_factory=list)

    @classmethod
    def begin(
        cls,
        task: SolverTask,
        start: FloatArray,
        inverse: FloatArray | None = None,
        violates_global: BoolArray | None = None,
    ) -> ColumnAscent:
        """Columns of `start`, and W near `inverse` if given, else near S.

        `violates_global` (P,) marks the pairs outside the dual ball, if known.
        """
        system = task.system
        _, local = np.unique(system.members, return_inverse=True)
        entries = np.flatnonzero(system.gather(start))
        pair = np.repeat(np.arange(system.n_pairs), np.diff(system.pair_start))[entries]
        pairs, inverse_index = np.unique(pair, return_inverse=True)
        value = np.zeros((len(pairs), system.n_classes))
        value[inverse_index, system.entry_class[entries]] = start[system.upper[entries]]
        conflicts = pairs
        if inverse is None:
            if violates_global is None:
                violates_global = ~task.penalty.is_dual_feasible(
                    system.weigh(system.gather(system.S)), system.entries(task.penalty)
                )
            in_conflict = violates_global.copy()
            in_conflict[pairs] = True
            conflicts = np.flatnonzero(in_conflict)
        (i, j), (r, s) = (
            [local[m] for m in system.entry_members(system.pair_start[chosen])] for chosen in (pairs, conflicts)
        )
        if inverse is None:
            S = system.S.astype(np.float32)
            W = point_near_covariance(system, task.penalty, task.diagonal_penalty, S, system.diagonal)
        else:
            W = _feasible_near_inverse(task, inverse).astype(np.float32)
        columns = as_columns(
            int(local.max()) + 1, np.concatenate([i, j]), np.concatenate([j, i]), np.concatenate([value, value])
        )
        state = DualState(W, start[system.diagonal], columns)
        blocks = system.compiled
        return cls.over(
            system, task.penalty, local, state,
            (blocks.S.astype(np.float32), blocks.l1_weight.copy(), blocks.coupling.copy()),  # permuted in place
            (r, s),
            1.0 if inverse is None else WARM_CHANGE,
            task.n_threads if len(system.S) >= config.MIN_ENTRIES_FOR_THREADS else 1,
        )  # fmt: skip

    @classmethod
    def over(
        cls,
        blocks: ClassBlocksInStorage,
        penalty: PairPenalty,
        local: IntArray,
        state: DualState,
        covariances_and_weights: tuple[Any, ...],
        conflicts: tuple[IntArray, IntArray],
        change: float,
        n_threads: int,
    ) -> ColumnAscent:
        """State from W, the diagonal of Theta and its columns (`state`), all in the order of the blocks.

        `covariances_and_weights` are S and the weights in flat storage, `local` (M,) the index within the group of
        each member's variable, and `conflicts` pairs of such indices that must not share a batch of the first sweep.
        """
        n_variables = int(local.max()) + 1
        permuted = Permutation.by(blocks, local)
        permuted_blocks = permuted.apply(*covariances_and_weights)
        empty = np.empty(0, dtype=np.int64)
        ascent_state = cls(
            blocks, penalty, Workers(n_threads), np.arange(n_variables), permuted, permuted_blocks, state, empty, change
        )
        ascent_state._reorder(
            sparse.coo_array((np.ones(len(conflicts[0]), dtype=bool), conflicts), shape=(n_variables, n_variables))
        )
        return ascent_state

    @property
    def n_variables(self) -> int:
        return len(self.order)

    @property
    def _max_batch(self) -> int:
        """Maximal number of columns of a batch."""
        return min(max(self.n_variables // _BATCH_PART, config.MIN_BATCH_COLUMNS), config.MAX_BATCH_COLUMNS)

    @property
    def W(self) -> NDArray[np.float32]:
        """W in the storage order of the blocks."""
        W = self.state.W.copy()
        self._permute([W], [np.argsort(slots) for slots in self.permuted.slots])
        return W

    @property
    def theta_diagonal(self) -> FloatArray:
        """(M,): diagonal of Theta in the order of the members of the blocks."""
        diagonal = np.empty_like(self.state.tau)
        diagonal[self.permuted.member] = self.state.tau
        return diagonal

    def sweep(self) -> float:
        """Update every column once; return the relative change of W."""
        from jointglasso.kernels.column_batches import sweep_columns
        from jointglasso.kernels.columns import ColumnUpdates, Sweep
        from jointglasso.kernels.team import ENDED, Team

        self._arrange_batches()
        unit = self.penalty.scale / float(self.blocks.block_weight.max())
        max_tolerance, factor = config.COLUMN_TOLERANCE
        tolerance = min(max_tolerance, factor * self.change) * unit
        n_blocks, sums = len(self.blocks.size), np.zeros(3)
        team = Team(*(np.zeros(n, dtype=np.int64) for n in (64, 4, n_blocks, n_blocks)))
        updates = ColumnUpdates.allocate(self.blocks.n_classes, self.n_variables, self._max_batch)
        sweep = Sweep(self.permuted_blocks, self.state, tolerance, updates, sums)
        # Longest columns of a batch first; the result of a column does not depend on the thread.
        m = np.diff(self.batch_bounds)
        schedule = np.lexsort((-np.diff(self.state.columns.start), np.repeat(np.arange(len(m)), m)))
        schedule -= np.repeat(self.batch_bounds[:-1], m)
        n_threads = 1 if self.stalled else self.workers.n_threads
        columns = [self._column(number) for number in range(n_threads)]

        def run_thread(number: int) -> SparseColumns:
            try:
                new_columns: SparseColumns = sweep_columns(
                    self.penalty.pair, number == 0, self.batch_bounds, schedule, columns[number], sweep, team
                )
                return new_columns
            finally:
                team.counters[ENDED] = 1  # releases the other threads after a failure

        new, *_ = self.workers.map(run_thread, range(n_threads))
        n = new.start[-1]
        new = SparseColumns(new.start, new.other[:n].copy(), new.value[:n].copy())
        self.state = DualState(self.state.W, self.state.tau, new)
        before = self.gap_estimate
        self.change, self.gap_estimate = float(sums[0] / sums[1]) if sums[1] != 0.0 else 0.0, float(sums[2])
        little_gain = self.change < NEAR_CHANGE and self.gap_estimate > _STALLED * before
        self.stalled = not self.stalled and little_gain
        return self.change

    def theta(self) -> FloatArray:
        """Theta in flat storage: mean of the two column estimates of each entry; not necessarily definite."""
        blocks = self.blocks
        theta = np.zeros(int(blocks.offset[-1]))
        slot = np.arange(len(blocks.members)) - np.repeat(blocks.member_start[:-1], blocks.size)
        size = np.repeat(blocks.size, blocks.size)
        base = np.repeat(blocks.offset[:-1], blocks.size)
        theta[base + slot * (size + 1)] = self.theta_diagonal
        i, j, value = self.pairs()
        pair, k = np.nonzero(value)
        block = np.repeat(np.arange(len(blocks.size)), blocks.size)
        member = np.full((blocks.n_classes, self.n_variables), -1, dtype=np.int64)
        member[blocks.block_class[block], self.order[self.permuted.variable]] = self.permuted.member
        row, column = member[k, i[pair]], member[k, j[pair]]
        theta[base[row] + slot[row] * size[row] + slot[column]] = value[pair, k]
        theta[base[row] + slot[column] * size[row] + slot[row]] = value[pair, k]
        return theta

    def pairs(self) -> tuple[IntArray, IntArray, FloatArray]:
        """Pairs i < j (indices within the group) in any column, and the mean (P, K) of their two column estimates."""
        start, other, value = self.state.columns
        n, row, column = self.n_variables, np.repeat(self.order, np.diff(start)), self.order[other]
        key, inverse_index = np.unique(np.minimum(row, column) * n + np.maximum(row, column), return_inverse=True)
        mean = np.stack([bincount(inverse_index, 0.5 * x, len(key)) for x in value.T], axis=1)
        return key // n, key % n, mean

    @property
    def cost(self) -> float:
        """Approximate number of multiplications of a sweep."""
        size = self.blocks.size.astype(float)
        return float(np.count_nonzero(self.state.columns.value) * size.max() + config.SWEEP_WORK * (size**2).sum())

    @property
    def gap_check_cost(self) -> float:
        """Approximate cost of a gap check, in multiplications of a sweep."""
        return float((self.blocks.size.astype(float) ** 3).sum() / config.FACTOR_WORK)

    def _arrange_batches(self) -> None:
        """Split the columns into batches; colour again if their number has grown."""
        from jointglasso.kernels.column_batches import cut_batches

        if self.stalled:
            self.batch_bounds = np.arange(self.n_variables + 1)
            return
        if len(self.batch_bounds) and self.n_batches == 0:  # just coloured by strong pairs, many of which will be zero
            self.n_batches = 1
            return
        start, other, _ = self.state.columns
        self.batch_bounds = cut_batches(start, other, self._max_batch)
        if len(self.batch_bounds) > _RECOLOUR * self.n_batches + 1:
            shape = self.n_variables, self.n_variables
            self._reorder(sparse.csr_array((np.ones(len(other), dtype=bool), other, start), shape=shape))
            self.n_batches = len(self.batch_bounds)

    def _reorder(self, conflicts: Any) -> None:
        """Colour the graph of `conflicts`, permute the variables by colour, and make a batch of each colour."""
        from jointglasso.kernels.column_batches import colours

        graph = (conflicts + conflicts.T).tocsr()
        order = np.argsort(-np.diff(graph.indptr), kind="stable")
        colour = colours(graph.indptr.astype(np.int64), graph.indices.astype(np.int64), order, self._max_batch)
        # Hubs, which are coloured first, are updated last: their columns then agree with W at the end of the sweep, and
        # Theta is definite a sweep or two earlier.
        colour = colour.max(initial=0) - colour
        self.batch_bounds = np.concatenate([[0], np.cumsum(np.bincount(colour))])
        order = np.argsort(colour, kind="stable")
        rank = np.empty_like(order)
        rank[order] = np.arange(len(order))
        permutation, blocks = Permutation.by(self.blocks, rank[self.permuted.variable]), self.permuted_blocks
        self._permute([self.state.W, blocks.S, blocks.l1_weight, blocks.coupling], permutation.slots)
        start, other, value = self.state.columns
        columns = as_columns(len(rank), rank[np.repeat(np.arange(len(rank)), np.diff(start))], rank[other], value)
        self.state = DualState(self.state.W, self.state.tau[permutation.member], columns)
        self.order = self.order[order]
        self.permuted = Permutation(self.blocks, permutation.variable, self.permuted.member[permutation.member])
        block_of, slot_of = self.permuted.places()
        self.permuted_blocks = blocks._replace(block_of=block_of, slot_of=slot_of, variable=self.permuted.variable)

    def _permute(self, flats: list[Any], slots: list[IntArray]) -> None:
        """Permute rows and columns of each block of several flat arrays, in place."""
        for flat in (flat for flat in flats if len(flat)):
            for block, order in enumerate(slots):
                block_slice = slice(self.blocks.offset[block], self.blocks.offset[block + 1])
                self._permute_matrix(flat[block_slice].reshape(len(order), -1), order)

    def _permute_matrix(self, matrix: Any, order: IntArray) -> None:
        def reorder(rows: slice) -> None:
            np.take(old[order[rows]], order, axis=1, out=matrix[rows], mode="clip")

        old = np.empty_like(matrix)
        row_slices = [slice(first, first + config.ROWS_AT_ONCE) for first in range(0, len(order), config.ROWS_AT_ONCE)]
        self.workers.map(lambda rows: np.copyto(old[rows], matrix[rows]), row_slices)
        self.workers.map(reorder, row_slices)

    def _column(self, number: int) -> Any:
        """Workspace of a thread, reallocated where a column may have more active pairs than it can hold."""
        from jointglasso.kernels.column_parts import Column

        n_classes, longest = self.blocks.n_classes, int(np.diff(self.state.columns.start).max(initial=0))
        if number >= len(self._columns) or self._columns[number].variable.size < min(
            longest + _MIN_FREE, self.n_variables
        ):
            widest, workspace_size = int(self.blocks.size.max()), self.penalty.workspace_size(n_classes)
            capacity = min(longest + 2 * _MIN_FREE, self.n_variables)
            column = Column.allocate(n_classes, self.n_variables, widest, workspace_size, capacity, self.state.W)
            self._columns[number : number + 1] = [column]
        return self._columns[number]


def point_near_covariance(
    blocks: ClassBlocksInStorage, penalty: PairPenalty, diagonal_penalty: float, S: Any, diagonal: IntArray
) -> Any:
    """S with the optimal diagonal; each block is shrunk within the dual ball if the diagonal penalty is small.

    In place; `diagonal` holds the positions of the diagonal entries.
    """
    W, box_radius = S, penalty.box_radius(blocks.n_classes)
    if diagonal_penalty < _NEGLIGIBLE * box_radius:
        W[diagonal] = 0.0
        for weight, (first, last) in zip(blocks.block_weight, pairwise(blocks.offset), strict=True):
            largest = weight * max(W[first:last].max(), -W[first:last].min()) * (1.0 + 1e-6)
            W[first:last] *= 1.0 - min(1.0, box_radius / largest) if largest > 0.0 else 1.0
    W[diagonal] = blocks.optimal_variance(diagonal_penalty)
    return W


def point_near_inverse(task: SolverTask, inverse: FloatArray) -> FloatArray:
    """The inverse of Theta, scaled to the optimal diagonal of W.

    Not finite where a variance underflows; sweeps from there end without a definite matrix, and are discarded.
    """
    system, W = task.system, np.empty_like(inverse)
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        scale = np.sqrt(system.optimal_variance(task.diagonal_penalty) / inverse[system.diagonal])
        for blocks, (old, new) in system.stacks(inverse, W):
            factor = scale[system.member_start[blocks.start] : system.member_start[blocks.stop]].reshape(old.shape[:2])
            np.multiply(old * factor[:, :, None], factor[:, None, :], out=new)
    return W


def _feasible_near_inverse(task: SolverTask, inverse: FloatArray) -> FloatArray:
    """`point_near_inverse` with each pair projected onto its dual ball, if that is definite.

    Otherwise it is shrunk towards S until it is feasible: S is semidefinite, so a convex combination is definite.
    Forbidden pairs are not constrained.
    """
    system, penalty, W = task.system, task.penalty, point_near_inverse(task, inverse)
    S, weight = system.gather(system.S), system.block_weight[system.entry_block]
    u = weight * (system.gather(W) - S)
    pairs = np.flatnonzero(~penalty.is_dual_feasible(u, system.entries(penalty)))
    (outside, _), entries, projected = system.entries_of(pairs), system.entries(penalty, pairs), W.copy()
    nearest = penalty.nearest_subgradient(np.zeros(len(outside)), u[outside], entries)
    projected[system.upper[outside]] = projected[system.lower[outside]] = S[outside] + nearest / weight[outside]
    if np.isfinite(log_determinants(system, projected, np.ones(system.n_blocks, dtype=bool))).all():
        return projected
    shrunk = system.S + (W - system.S) / penalty.gauge(u[outside], entries).max(initial=1.0)
    shrunk[system.diagonal] = W[system.diagonal]
    return np.asarray(shrunk)
