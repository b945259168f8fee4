"""Estimates of the memory and time of a solve, from its partition; `check_memory`, the memory check before a round.

The partition is known before the solve, the number of iterations is not. Memory is close to proportional to the number
of entries inside the blocks; seconds are accurate to a factor of a few.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

from jointglasso import config
from jointglasso._cached_property import cached_property
from jointglasso._display import SHOWN, ReprMixin, readable_bytes, readable_seconds
from jointglasso._lapack import factor_in_place, invert_factor_in_place
from jointglasso._memory import MemoryShareExceeded, available_memory, memory_share
from jointglasso._threads import available_cores, single_threaded_blas
from jointglasso._typing import BoolArray, FloatArray, IntArray
from jointglasso.data.checks import check_choice, check_count
from jointglasso.engine.executors import machines_of, memory_of
from jointglasso.engine.options import RunnerOptions, choose_method
from jointglasso.engine.screening import SCREENING, Screen
from jointglasso.engine.solve_big_task import may_be_big
from jointglasso.engine.solve_sparse_task import SparseCosts, sparse_costs
from jointglasso.engine.tasks import MemoryPlan, task_groups
from jointglasso.errors import argument
from jointglasso.problem import JointProblem, ProblemOptions
from jointglasso.screening import Partition
from jointglasso.screening.groups import ClassBlocks, block_index
from jointglasso.screening.pairs import PairTable
from jointglasso.solvers import ADMM, GroupSolver

#: Time to solve a group other than by column sweeps, in factorizations with inversion of its blocks; and that of a
#: densely correlated group on one core, in factorizations of its blocks over their sizes: the columns of its solution
#: have fifty to a hundred non-zeros independently of its size. They enter the estimate only.
_FACTORIZATIONS, _DENSE_FACTORIZATIONS = 60.0, 8e4

#: Bytes below which the memory check is skipped; it costs as much as a small solve.
_CHECKED_BYTES = 2.0**26

#: Typical sweeps and gap checks of a group solved by column sweeps (docs/performance.md).
_SWEEPS, _GAP_CHECKS = 10.0, 3.0

#: Peak bytes per entry of a group without stored blocks (W and S in single precision, one matrix in double precision),
#: and bytes per entry of a solved task whose blocks are kept: properties of the storage.
_BIG_BYTES, _BYTES_PER_CACHED_ENTRY = 16.0, 50.0


@dataclass(frozen=True, repr=False)
class Plan(ReprMixin):
    """Estimated memory and time of a solve; groups are in the order of ``partition.groups()``, largest first.

    Examples
    --------
    >>> import jointglasso as jgl
    >>> print(str(jgl.plan([[[1.0, 0.5], [0.5, 1.0]]], 0.1, 0.1)).split(";")[0])
    1 independent group, largest block 2 of 2 variables
    """

    partition: Partition
    group_largest: IntArray
    """Size of the largest block of each group."""
    group_memory: FloatArray
    """Bytes needed while the group is solved."""
    group_seconds: FloatArray
    """Estimated seconds."""
    memory: float
    """Peak bytes beyond the input, with one task at a time."""
    n_cores: int
    """Cores of this machine, which `group_seconds` assumes."""
    n_workers: int | None = None
    """Workers of one core each, if the plan is for a cluster."""

    @property
    def n_groups(self) -> int:
        """Number of independent groups."""
        return len(self.group_memory)

    @property
    def seconds(self) -> float:
        """Estimated seconds of all groups: one after another on this machine, or on the workers of a cluster."""
        if self.n_workers is None:
            return float(self.group_seconds.sum())
        longest = self.n_cores * float(self.group_seconds.max(initial=0.0))
        return max(self.core_seconds / self.n_workers, longest)

    @property
    def core_seconds(self) -> float:
        """Estimated seconds of all groups on one core."""
        return self.n_cores * float(self.group_seconds.sum())

    def __str__(self) -> str:
        return str(self._parts()[0])

    def _parts(self) -> list[Any]:
        groups = "1 independent group" if self.n_groups == 1 else f"{self.n_groups} independent groups"
        text = (
            f"{groups}, largest block {self.partition.largest} of "
            f"{self.partition.n_variables} variables; about {readable_bytes(self.memory)} and "
            f"{readable_seconds(self.seconds)}"
            f"{'' if self.n_workers is None else f' on {self.n_workers} workers'}"
        )
        table = {
            "largest block": self.group_largest[:SHOWN],
            "memory": [readable_bytes(size) for size in self.group_memory[:SHOWN]],
            "time": [readable_seconds(seconds) for seconds in self.group_seconds[:SHOWN]],
        }
        return [text, table]


class NotEnoughMemory(MemoryError):
    """The solve would not fit into memory; the message gives penalties that would.

    Examples
    --------
    >>> import numpy as np
    >>> import jointglasso as jgl
    >>> S = np.full((1, 50, 50), 0.5) + 0.5 * np.eye(50)
    >>> try:
    ...     jgl.solve(S, 0.1, 0.1, max_memory=1000)
    ... except jgl.NotEnoughMemory as error:
    ...     print(str(error).split(":")[0].split(",")[0])
    Solving blocks of up to 50 variables needs about 677 KiB
    """


def plan(
    S: Any,
    lambda1: float,
    lambda2: float,
    *,
    penalty: str = "group",
    class_graph: Any = None,
    weights: Any = None,
    penalize_diagonal: bool = True,
    fuse_diagonal: bool = False,
    pair_weights: Any = None,
    coupling_weights: Any = None,
    screening: str = "dynamic",
    solver: str | GroupSolver = "auto",
    workers: int | None = None,
) -> Plan:
    """Screen, and estimate the memory and time of the solve.

    Parameters
    ----------
    S, lambda1, lambda2, penalty, class_graph, weights, penalize_diagonal, fuse_diagonal, pair_weights,
    coupling_weights, screening
        As in `jointglasso.solve`. Dynamic screening may merge blocks later; the plan is that of its first round.
    solver
        As in `jointglasso.solve`.
    workers : int, optional
        Number of workers, each with one core like those of this machine: `Plan.seconds` is then the core-seconds of
        all groups divided by the workers, and at least those of the longest group.

    Returns
    -------
    Plan

    Examples
    --------
    >>> import jointglasso as jgl
    >>> planned = jgl.plan([[[1.0, 0.5, 0.0], [0.5, 1.0, 0.0], [0.0, 0.0, 1.0]]], 0.1, 0.1)
    >>> planned.n_groups, planned.partition.largest
    (1, 2)
    """
    settings = ProblemOptions(
        penalty, class_graph, weights, penalize_diagonal, fuse_diagonal, pair_weights, coupling_weights
    )
    check_choice("screening", screening, SCREENING)
    n_workers = None if workers is None else check_count("workers", workers, 1)
    planned = plan_problem(settings.problem(S, lambda1, lambda2), screening, choose_method(solver))
    return replace(planned, n_workers=n_workers)


def plan_problem(problem: JointProblem, screening: str, method: GroupSolver) -> Plan:
    """Screen a problem, and estimate the memory and time of its solve."""
    screen = Screen(problem, screening)
    sparse = sparse_costs(problem, method.name, screen.partition.class_blocks, screen.scanned)
    return plan_of(screen.partition, screen.pairs, method, may_be_big(problem, method.name), sparse)


def plan_of(
    partition: Partition,
    pairs: PairTable | None,
    method: GroupSolver,
    may_be_big: bool = False,
    sparse: SparseCosts | None = None,
) -> Plan:
    """Plan of a partition; with `may_be_big` large groups are solved without stored blocks, or as `sparse` says."""
    blocks = partition.class_blocks
    costs, order = _GroupCosts(blocks, pairs, method, may_be_big, sparse), blocks.by_cost
    memory = costs.memory(costs.faster_if_sparse, largest_stored=config.HUGE - 1)
    seconds = costs.seconds if sparse is None else np.minimum(costs.seconds, sparse.seconds)
    return Plan(
        partition=partition,
        group_largest=blocks.group_largest[order],
        group_memory=memory[order],
        group_seconds=seconds[order],
        memory=float(work_memory(blocks, method, memory)[0]) + _overhead(partition, pairs),
        n_cores=available_cores(),
    )


@dataclass(frozen=True)
class _GroupCosts:
    """Bytes and seconds of each group by its storage: blocks, out of core if `may_be_big`, or sparse."""

    blocks: ClassBlocks
    pairs: PairTable | None
    method: GroupSolver
    may_be_big: bool
    sparse: SparseCosts | None

    @cached_property
    def dense(self) -> BoolArray:
        """(G,): groups that may be solved by ADMM."""
        return dense_groups(self.blocks, self.pairs)

    @cached_property
    def seconds(self) -> FloatArray:
        """(G,): expected seconds of each group with dense blocks.

        With column sweeps, a few factorizations for the gap and sweeps, each reading as many rows of W as Theta has
        non-zeros; there are at most as many as pairs outside the dual ball, and few columns have more than a hundred.
        """
        blocks, work = self.blocks, _FACTORIZATIONS * self.blocks.group_cost
        if self.pairs is None or self.method.name != "auto":
            return work / factorization_rate()
        if self.may_be_big:
            per_column = 2.0 * strong_per_group(blocks, self.pairs) / np.maximum(blocks.group_largest, 1)
            multiplications = _SWEEPS * blocks.group_area * (np.minimum(per_column, 100.0) + config.SWEEP_WORK)
            work = _GAP_CHECKS * blocks.group_cost + config.FACTOR_WORK * multiplications
        one_core = _DENSE_FACTORIZATIONS * blocks.group_area * available_cores()
        return np.where(self.dense, np.maximum(work, one_core), work) / factorization_rate()

    @cached_property
    def faster_if_sparse(self) -> BoolArray:
        """(G,): groups expected to take less time in sparse storage than with dense blocks."""
        return self.possibly_sparse if self.sparse is None else self.sparse.seconds < self.seconds

    @property
    def possibly_sparse(self) -> BoolArray:
        """(G,): groups that can be solved in sparse storage."""
        return np.zeros(self.blocks.n_groups, dtype=bool) if self.sparse is None else np.isfinite(self.sparse.seconds)

    def attempts(self) -> Iterator[tuple[BoolArray, FloatArray]]:
        """Groups in sparse storage and bytes (G,): ADMM for all groups; for dense ones; out of core; in less memory."""
        yield self.faster_if_sparse, self.memory(self.faster_if_sparse, with_admm=True)
        yield self.faster_if_sparse, self.memory(self.faster_if_sparse)
        for sparse in (self.faster_if_sparse, self.possibly_sparse):
            yield sparse, self.memory(sparse, largest_stored=config.BATCHED_BLOCK)

    def memory(self, sparse: BoolArray, *, with_admm: bool = False, largest_stored: float = np.inf) -> FloatArray:
        """(G,): bytes of each group, in sparse storage where marked; every group may be solved by ADMM `with_admm`."""
        big = self.may_be_big & (self.blocks.group_largest > largest_stored)
        memory = group_memory(self.blocks, self.method, with_admm or self.dense, big)
        return memory if self.sparse is None else np.where(sparse, self.sparse.memory, memory)


def group_memory(
    blocks: ClassBlocks, method: GroupSolver, dense: BoolArray | bool, big: BoolArray | bool = False
) -> FloatArray:
    """(G,): bytes needed to solve each group.

    `dense` groups are solved by ADMM if the method is "auto", `big` groups without stored blocks.
    """
    bytes_per_entry = getattr(method, "bytes_per_entry", ADMM.bytes_per_entry)  # absent in user-defined solvers
    per_entry = np.where(dense if method.name == "auto" else False, ADMM.bytes_per_entry, bytes_per_entry)
    return np.asarray(np.where(big, _BIG_BYTES, per_entry) * blocks.group_area)


def work_memory(blocks: ClassBlocks, method: GroupSolver, memory: FloatArray) -> FloatArray:
    """Bytes needed by each task, in decreasing order, from the `memory` (G,) of its groups."""
    if blocks.n_groups == 0:
        return np.zeros(1)
    pieces = task_groups(blocks, together=method.lockstep)
    return np.sort([float(memory[groups].sum()) for groups in pieces])[::-1]


def n_concurrent(pieces: FloatArray, n_jobs: int, available: float) -> tuple[int, float]:
    """Number of tasks, at least one, that fit into memory concurrently, and the remaining bytes."""
    needed = np.cumsum(pieces)[: max(1, n_jobs)]
    jobs = max(1, int((needed <= available).sum()))
    return jobs, available - float(needed[jobs - 1])


def kept_in_memory(area: FloatArray, big: BoolArray, free_bytes: float) -> BoolArray:
    """(T,): tasks whose blocks stay in memory after their solve, from their numbers of entries, largest task first.

    Blocks are kept up to `CACHED_BYTES` in all. W of a large group (`big`), which the next round continues from, is
    kept wherever it fits: it is a quarter of what the solve of the group needs, which is free again by then.
    """
    if not big.any():
        return np.asarray(np.cumsum(_BYTES_PER_CACHED_ENTRY * area) <= min(free_bytes, config.CACHED_BYTES))
    blocks = np.cumsum(np.where(big, 0.0, _BYTES_PER_CACHED_ENTRY * area))
    W = np.cumsum(np.where(big, float(np.dtype(np.float32).itemsize) * area, 0.0))
    next_area = np.append(area[1:], 0.0)
    released = _BIG_BYTES * np.maximum(area[:1] - next_area, 0.0)  # by the largest task, less the next one's need
    return np.where(big, free_bytes + released >= W, blocks + W <= min(free_bytes, config.CACHED_BYTES))


def dense_groups(blocks: ClassBlocks, pairs: PairTable | None) -> BoolArray:
    """(G,): groups with most pairs outside the dual ball, which may be solved by ADMM; all groups without a scan."""
    if pairs is None:
        return np.ones(blocks.n_groups, dtype=bool)
    largest = blocks.group_largest
    n_pairs = np.maximum(largest * (largest - 1) // 2, 1)  # a lower bound if blocks differ between classes
    n_strong = strong_per_group(blocks, pairs)
    return np.asarray((n_strong > config.DENSE_FRACTION * n_pairs) & (largest >= config.SMALL))


def strong_per_group(blocks: ClassBlocks, pairs: PairTable) -> IntArray:
    """(G,): number of pairs outside the dual ball."""
    shape = int(blocks.block_class.max(initial=0)) + 1, pairs.n_variables
    block_of, _ = block_index(blocks.block_class, blocks.sizes, blocks.members, shape)
    i, j = pairs.rows[pairs.violates_global_condition], pairs.columns[pairs.violates_global_condition]
    group = np.full(len(i), -1, dtype=np.int64)
    for of_class in block_of:
        together = (of_class[i] == of_class[j]) & (of_class[i] >= 0)
        group[together] = blocks.group[of_class[i[together]]]
    return np.bincount(group[group >= 0], minlength=blocks.n_groups)


@cache
def factorization_rate() -> float:
    """Speed of Cholesky factorization and inversion on this machine, in b^3 per second; measured once."""
    b, best = 400, np.inf
    matrix = np.eye(b) + 0.5 / b
    with single_threaded_blas():
        for _ in range(5):
            work = matrix.copy()
            began = time.perf_counter()
            factor_in_place(work)
            invert_factor_in_place(work)
            best = min(best, time.perf_counter() - began)
    return available_cores() * float(b) ** 3 / best


def _overhead(partition: Partition, pairs: PairTable | None) -> float:
    """Bytes beyond the blocks: per-variable arrays and the table of pairs."""
    arrays = (
        ()
        if pairs is None
        else (pairs.rows, pairs.columns, pairs.weighted, pairs.exceeds_lambda1, pairs.violates_global_condition)
    )
    return 100.0 * partition.labels.size + sum(2.0 * array.nbytes for array in arrays)


def check_memory(problem: JointProblem, screen: Screen, blocks: ClassBlocks, options: RunnerOptions) -> MemoryPlan:
    """Concurrency and storage that fit into memory; an error with feasible penalties if not even one task does."""
    method = options.method
    n_jobs = options.n_jobs if options.executor is None else None
    overhead = _overhead(screen.partition, screen.scanned)
    sparse = sparse_costs(problem, method.name, blocks, screen.scanned)
    costs = _GroupCosts(blocks, screen.pairs, method, may_be_big(problem, method.name), sparse)
    chosen = costs.faster_if_sparse
    memory = costs.memory(chosen, with_admm=True)
    small = memory.sum() + overhead < _CHECKED_BYTES and not chosen.any()
    budget = available_memory() if options.max_memory is None and not small else options.max_memory
    if budget is None:
        return MemoryPlan(n_jobs, sparse=chosen)
    available, n_workers = budget - overhead, 1
    if memory_of(options.executor, options.max_memory) is not None:
        n_tasks = len(work_memory(blocks, method, memory))
        n_workers = int(min(max(machines_of(options.executor, n_jobs).values()), n_tasks))
    for number, (chosen, memory) in enumerate(costs.attempts()):  # noqa: B007
        pieces = work_memory(blocks, method, memory)
        jobs, free = n_concurrent(pieces, n_workers, available)
        if free >= 0.0:
            break
    else:
        raise _memory_error(problem, screen, method, float(pieces[0]) + overhead, budget)
    share, needed = memory_share(), budget - free
    if needed > share:
        raise MemoryShareExceeded(needed)
    for_blocks = for_dense = True
    if chosen.any():  # whether these groups fit as blocks, and out of core
        none = np.zeros_like(chosen)
        for_blocks = bool((costs.memory(none)[chosen] <= available).all())
        for_dense = bool((costs.memory(none, largest_stored=config.BATCHED_BLOCK)[chosen] <= available).all())
    return MemoryPlan(
        n_jobs=jobs if jobs < n_workers else n_jobs,
        free_bytes=max(0.0, min(free, share - needed)),
        for_admm=number == 0,
        for_blocks=number <= 1 and for_blocks,
        sparse=chosen,
        for_dense=for_dense,
    )


def out_of_memory(
    problem: JointProblem, screen: Screen | None, method: GroupSolver, error: MemoryError
) -> NotEnoughMemory:
    """The error for an allocation that failed in spite of the plan."""
    if isinstance(error, NotEnoughMemory):
        return error
    budget = available_memory() or 0.0
    if screen is None:
        return NotEnoughMemory(
            f"The scan of the covariances found more pairs than fit into memory, of which {readable_bytes(budget)} are "
            "left: raise lambda1, or use a machine with more memory."
        )
    needed = _memory_of(screen.partition, screen.pairs, method, may_be_big(problem, method.name))
    return _memory_error(problem, screen, method, max(needed, budget), budget)


def _memory_error(
    problem: JointProblem, screen: Screen, method: GroupSolver, needed: float, budget: float
) -> NotEnoughMemory:
    return NotEnoughMemory(
        f"Solving blocks of up to {screen.partition.largest} variables needs about {readable_bytes(needed)}, and "
        f"{readable_bytes(budget)} are available: {_fitting_penalties(problem, screen, method, budget)}use a machine "
        f"with more memory, or raise {argument('max_memory')} if you know better."
    )


def _memory_of(partition: Partition, pairs: PairTable | None, method: GroupSolver, may_be_big: bool) -> float:
    """Lower estimate of the peak bytes: large groups are solved without stored blocks if `may_be_big`."""
    costs = _GroupCosts(partition.class_blocks, pairs, method, may_be_big, None)
    memory = costs.memory(costs.possibly_sparse, largest_stored=config.BATCHED_BLOCK)
    return float(work_memory(costs.blocks, method, memory)[0]) + _overhead(partition, pairs)


def _fitting_penalties(problem: JointProblem, screen: Screen, method: GroupSolver, budget: float) -> str:
    """Sentence with the smallest multiple of the penalties whose first partition fits; empty if there is none."""
    pairs, penalty, big = screen.pairs, problem.penalty, may_be_big(problem, method.name)
    if pairs is None or penalty.scale == 0:
        return ""

    def fitting(factor: float) -> Partition | None:
        scaled = penalty.scaled(factor)
        partition = screen.first_partition_at(scaled)
        table = pairs.for_penalty(scaled)
        fits = partition is not None and _memory_of(partition, table, method, big) <= budget
        return partition if fits else None

    low, high = 1.0, 2.0
    while (best := fitting(high)) is None and high < 1e6:
        low, high = high, 2.0 * high
    if best is None:
        return ""
    for _ in range(12):
        middle = 0.5 * (low + high)
        partition_at_middle = fitting(middle)
        low, high, best = (middle, high, best) if partition_at_middle is None else (low, middle, partition_at_middle)
    would_fit = penalty.scaled(high).parameters()
    raised = ", ".join(f"{name}={would_fit[name]:.4g}" for name in ("lambda1", "lambda2"))
    return f"raise the penalties to {raised} (blocks of up to {best.largest} variables), "
