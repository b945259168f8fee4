"""Working set of a Newton iteration on a large group: active entries, their components, Hessian products."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from jointglasso import config
from jointglasso._lapack import factor_in_place, invert_factor_in_place, log_determinant
from jointglasso._threads import Workers, balanced_bounds
from jointglasso._typing import BoolArray, FloatArray, IntArray
from jointglasso.blocks import BlockSystem
from jointglasso.blocks.system import bincount
from jointglasso.kernels.pair_types import GroupPair
from jointglasso.penalties import UNIFORM

if TYPE_CHECKING:
    from jointglasso.kernels.newton_set import Point

CsrStructure = tuple[IntArray, IntArray, IntArray]


@dataclass(frozen=True)
class WorkingSet:
    """Unknowns: the active entries 0..E-1, pair by pair, then the diagonal entries of their endpoints ("nodes").

    Nodes are numbered by connected component. A block whose active entries form several components is treated as
    several smaller blocks: Theta and W are zero between them.
    """

    system: BlockSystem
    start: IntArray
    """CSR start of the entries of each active pair."""
    factor: FloatArray
    """Weight of each active pair in the penalty; empty where all are 1."""
    end_i: IntArray
    end_j: IntArray
    """(E,), (E,): nodes of the row and the column of each active entry."""
    position: IntArray
    """Flat position of each unknown, upper triangle."""
    mirror: IntArray
    """Flat position of each off-diagonal unknown in the lower triangle."""
    weight: FloatArray
    members: IntArray
    """Member of the system at each node."""
    component_start: IntArray
    isolated: IntArray
    """Members without an active entry."""

    @property
    def n_entries(self) -> int:
        return len(self.end_i)

    @cached_property
    def component(self) -> IntArray:
        """Component of each node."""
        return np.repeat(np.arange(len(self.component_start) - 1), np.diff(self.component_start))

    @cached_property
    def component_block(self) -> IntArray:
        return self.system.diagonal_block[self.members[self.component_start[:-1]]]

    @cached_property
    def slot(self) -> IntArray:
        """Row of each node within its block."""
        return self.members - self.system.member_start[self.system.diagonal_block[self.members]]

    @cached_property
    def area(self) -> IntArray:
        """Offset of the dense matrix of each component."""
        return np.concatenate([[0], np.cumsum(np.diff(self.component_start) ** 2)])

    @cached_property
    def sparsity(self) -> CsrStructure:
        """CSR structure of the unknowns, both triangles: start, column within the component, index of the unknown."""
        from jointglasso.kernels.newton_set import symmetric_pattern

        return symmetric_pattern(len(self.members), self.end_i, self.end_j, self._local)

    @cached_property
    def _local(self) -> IntArray:
        return np.arange(len(self.members)) - self.component_start[self.component]

    @cached_property
    def upper_sparsity(self) -> CsrStructure:
        """The upper triangle j >= i of the CSR structure."""
        from jointglasso.kernels.newton_set import restrict_sparsity

        start, column, _ = self.sparsity
        return restrict_sparsity(*self.sparsity, column >= np.repeat(self._local, np.diff(start)))

    def cholesky(self, x: FloatArray, workers: Workers) -> tuple[FloatArray, FloatArray] | None:
        """Cholesky factors of all components, concatenated, and log-determinants (B,); None if not definite."""
        from jointglasso.kernels.newton_set import factor_components, fill_components

        dense = np.empty(self.area[-1])
        fill_components(self.component_start, self.area, *self.sparsity, x, dense)

        def factor(c: int) -> float:
            matrix = self._matrix(dense, c)
            return log_determinant(matrix) if factor_in_place(matrix) else np.nan

        few, many = self._by_size
        small = factor_components(many, self.component_start, self.area, dense)
        if np.isinf(small).any():
            return None
        logdet = np.concatenate([workers.map(factor, few), small])
        if np.isnan(logdet).any():
            return None
        return dense, bincount(self.component_block[np.concatenate([few, many])], logdet, self.system.n_blocks)

    def invert_into(self, dense: FloatArray, W: FloatArray, workers: Workers) -> None:
        """Write the inverse to the flat W, zero between components; the factors are overwritten."""
        from jointglasso.kernels.newton_set import invert_components, scatter_component

        system = self.system
        few, many = self._by_size
        W[:] = 0.0

        def invert(c: int) -> None:
            matrix = self._matrix(dense, c)
            invert_factor_in_place(matrix)
            block = self.component_block[c]
            slots = self.slot[self.component_start[c] : self.component_start[c + 1]]
            scatter_component(matrix, slots, system.offset[block], system.size[block], W)

        workers.map(invert, few)
        block = self.component_block
        invert_components(
            many, self.component_start, self.area, dense, self.slot, system.offset[block], system.size[block], W
        )

    @cached_property
    def _by_size(self) -> tuple[IntArray, IntArray]:
        """Components large enough for a separate thread, in decreasing size, and the remaining small ones."""
        size = np.diff(self.component_start)
        order = np.argsort(-size, kind="stable")
        n_big = int((size >= config.MIN_COMPONENT_FOR_THREAD).sum())
        return order[:n_big], order[n_big:]

    def sparse(self, unknowns: FloatArray) -> Any:
        """The unknowns as one sparse symmetric matrix over the nodes."""
        start, column, unknown = self.sparsity
        nodes = column + np.repeat(self.component_start[self.component], np.diff(start))
        return sparse.csr_array((unknowns[unknown], nodes, start), shape=(len(self.members), len(self.members)))

    def _matrix(self, dense: FloatArray, c: int) -> FloatArray:
        size = int(self.component_start[c + 1] - self.component_start[c])
        return dense[self.area[c] : self.area[c + 1]].reshape(size, size)


def point_of(system: BlockSystem, W: FloatArray, theta: FloatArray) -> Point:
    """Theta and its inverse W with the pair index, as arguments of compiled code."""
    from jointglasso.kernels.newton_set import Point

    return Point(
        system.pair_start, system.pair_factor, system.upper, system.entry_block, system.block_weight, system.S, W, theta
    )


def build_working_set(system: BlockSystem, mark: BoolArray, point: Point, penalty: GroupPair) -> WorkingSet:
    """Working set of the marked pairs."""
    from jointglasso.kernels.newton_set import active_entries, number_nodes

    start, entries = active_entries(mark, point, penalty)
    row, column = system.entry_members(entries)
    members, component_start, node = number_nodes(len(system.members), row, column)
    blocks = np.concatenate([system.entry_block[entries], system.diagonal_block[members]])
    return WorkingSet(
        system=system,
        start=start,
        factor=system.pair_factor[mark] if len(system.pair_factor) else UNIFORM,
        end_i=node[row],
        end_j=node[column],
        position=np.concatenate([system.upper[entries], system.diagonal[members]]),
        mirror=system.lower[entries],
        weight=system.block_weight[blocks],
        members=members,
        component_start=component_start,
        isolated=np.flatnonzero(node < 0),
    )


class HessianProduct:
    """Hessian-vector product ``d -> w (W D W)`` on the unknowns of a working set; W is packed into tiles once.

    `restrict` limits D and the result to a subset of the unknowns, which reduces the work accordingly.
    """

    def __init__(self, working: WorkingSet, W: FloatArray, workers: Workers) -> None:
        from jointglasso.kernels.hessian import TILE, Tiles, pack_tiles

        self.working, self.workers = working, workers
        self.work = 0.0
        """Floating point operations of all products so far."""
        size = np.diff(working.component_start)
        self._tiles = -(-size // TILE)
        n_padded = self._tiles + self._tiles % 2  # `sample_tiles` takes them two at a time
        offset = np.concatenate([[0], np.cumsum(n_padded * size * TILE)])
        component = np.repeat(np.arange(len(size)), self._tiles)
        number = np.arange(self._tiles.sum()) - np.repeat(np.cumsum(self._tiles) - self._tiles, self._tiles)
        rows = _aligned_rows(offset[-1]), _aligned_rows(offset[-1])
        self._packed = Tiles(component, number, working.component_start, offset, *rows)
        block = working.component_block
        # Scaled to order one for any units of the data: single precision has a small range.
        self._scale = float(W[working.system.diagonal].max())
        workers.run(
            pack_tiles, balanced_bounds(size[component].astype(float), workers.n_threads), self._packed, working.slot,
            working.system.offset[block], working.system.size[block], self._scale, W,
        )  # fmt: skip
        self._use(working.sparsity, working.upper_sparsity)

    def restrict(self, free: BoolArray) -> None:
        """Restrict the product to the unknowns marked in `free`, until the next call."""
        from jointglasso.kernels.newton_set import restrict_sparsity

        full, upper = self.working.sparsity, self.working.upper_sparsity
        self._use(restrict_sparsity(*full, free[full[2]]), restrict_sparsity(*upper, free[upper[2]]))

    def _use(self, pattern: CsrStructure, upper: CsrStructure) -> None:
        self._pattern, self._upper = pattern, upper
        per_node = np.diff(pattern[0]).astype(float)
        cost = np.add.reduceat(per_node, self.working.component_start[:-1]) + 1.0
        self._task_bounds = balanced_bounds(cost[self._packed.component], self.workers.n_threads)
        sampled = np.diff(upper[0]).astype(float) * self._tiles[self.working.component]
        self._row_bounds = balanced_bounds(sampled, self.workers.n_threads)
        size = np.diff(self.working.component_start)[self.working.component]
        self._work = 2.0 * float(size @ (per_node + np.diff(upper[0])))

    def __call__(self, d: FloatArray) -> FloatArray:
        from jointglasso.kernels.hessian import multiply_tiles, sample_tiles

        self.work += self._work
        working = self.working
        start, column, unknown = self._pattern
        scale = float(np.abs(d).max()) or 1.0
        values = (d / scale)[unknown].astype(np.float32)
        self.workers.run(multiply_tiles, self._task_bounds, self._packed, start, column, values)
        out = np.zeros_like(d)
        self.workers.run(
            sample_tiles, self._row_bounds, self._packed, working.component, self._upper, working.weight, out
        )
        out *= scale * self._scale**2
        return out


def _aligned_rows(n: int) -> NDArray[np.float32]:
    """(n,): single-precision zeros, aligned to 64 bytes."""
    buffer = np.zeros(n + 16, dtype=np.float32)
    first = -buffer.ctypes.data % 64 // buffer.itemsize
    return buffer[first : first + n]
