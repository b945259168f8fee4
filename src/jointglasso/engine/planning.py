"""Plan before solve: how much memory and time each group will take, and whether it fits.

The estimates are rough on purpose: a partition is known before anything is solved, the number of iterations is not.
Memory follows the number of entries inside the blocks closely; seconds are right to within a factor of a few.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from jointglasso._lapack import factor_in_place, invert_factor_in_place
from jointglasso._memory import available_memory
from jointglasso._threads import available_cores, single_threaded_blas
from jointglasso._typing import FloatArray, IntArray
from jointglasso.engine.items import BATCH_ENTRIES, BATCHED_BLOCK, group_sums
from jointglasso.engine.screen import SCREENING, Screen
from jointglasso.penalties import GroupPenalty
from jointglasso.problem import JointProblem, make_problem
from jointglasso.screening import Partition
from jointglasso.solvers import GroupSolver
from jointglasso.validation import check_choice

#: Peak bytes for each entry b^2 of the blocks that are worked on together: matrices, their pair index, scratch.
BYTES_PER_ENTRY = 120.0

#: Time to solve a group, in factorizations with inversion of its blocks (docs/performance.md).
FACTORIZATIONS = 60.0


@dataclass(frozen=True)
class Plan:
    """What a solve will take; the groups come in the order of ``partition.groups()``, largest first."""

    partition: Partition
    group_largest: IntArray
    """Size of the biggest block of each group."""
    group_memory: FloatArray
    """Bytes needed while the group is solved."""
    group_seconds: FloatArray
    """Estimated seconds."""

    @property
    def n_groups(self) -> int:
        """Number of independent groups."""
        return len(self.group_memory)

    @property
    def memory(self) -> float:
        """Bytes needed at the peak, beyond the input."""
        return memory_of(self.partition)

    @property
    def seconds(self) -> float:
        """Estimated seconds of all groups, one after another."""
        return float(self.group_seconds.sum())

    def __str__(self) -> str:
        groups = "1 independent group" if self.n_groups == 1 else f"{self.n_groups} independent groups"
        return (
            f"{groups}, largest block {self.partition.largest} of "
            f"{self.partition.n_variables} variables; about {_readable_bytes(self.memory)} and "
            f"{_readable_seconds(self.seconds)}"
        )


class NotEnoughMemory(MemoryError):
    """The solve would not fit into memory; the message tells what would."""


def plan(
    S: Any,
    lambda1: float,
    lambda2: float,
    *,
    penalty: str = "group",
    weights: Any = None,
    penalize_diagonal: bool = True,
    pair_weights: Any = None,
    screening: str = "dynamic",
) -> Plan:
    """Screen only, and estimate what the solve would take.

    Parameters
    ----------
    S, lambda1, lambda2, penalty, weights, penalize_diagonal, pair_weights, screening
        As in `jointglasso.solve`. Dynamic screening may merge blocks later; the plan is that of its first round.

    Returns
    -------
    Plan
    """
    check_choice("screening", screening, SCREENING)
    problem = make_problem(
        S, lambda1, lambda2, penalty=penalty, weights=weights, penalize_diagonal=penalize_diagonal,
        pair_weights=pair_weights,
    )  # fmt: skip
    return plan_of(Screen(problem, screening).partition)


def plan_of(partition: Partition) -> Plan:
    """Estimate what the groups of a partition will take."""
    blocks = partition.class_blocks
    order = blocks.by_cost
    return Plan(
        partition=partition,
        group_largest=blocks.group_largest[order],
        group_memory=BYTES_PER_ENTRY * group_sums(blocks, 2)[order],
        group_seconds=FACTORIZATIONS * group_sums(blocks, 3)[order] / _factorization_rate(),
    )


def memory_of(partition: Partition) -> float:
    """Bytes needed at the peak: of the biggest group, which is solved alone, or of a batch of small ones."""
    blocks = partition.class_blocks
    needed, big = BYTES_PER_ENTRY * group_sums(blocks, 2), blocks.group_largest > BATCHED_BLOCK
    batch = min(float(needed[~big].sum()), BYTES_PER_ENTRY * BATCH_ENTRIES)
    return max(float(needed[big].max(initial=0.0)), batch) + 100.0 * partition.labels.size


def require_room(problem: JointProblem, screen: Screen, method: GroupSolver, max_memory: float | None) -> None:
    """Refuse a solve that cannot fit, with the penalties or the memory that would."""
    needed = _memory_of(screen.partition, method)
    room = available_memory() if max_memory is None else max_memory
    if room is None or needed <= room:
        return
    raise NotEnoughMemory(
        f"Solving blocks of up to {screen.partition.largest} variables needs about {_readable_bytes(needed)}, and "
        f"{_readable_bytes(room)} are available: {_what_would_fit(problem, screen, method, room)}use a machine with "
        "more memory, or raise max_memory if you know better."
    )


def _memory_of(partition: Partition, method: GroupSolver) -> float:
    if method.lockstep:  # all blocks at once
        return BYTES_PER_ENTRY * float(group_sums(partition.class_blocks, 2).sum())
    return memory_of(partition)


def _what_would_fit(problem: JointProblem, screen: Screen, method: GroupSolver, room: float) -> str:
    """Smallest multiple of the penalties whose first partition fits, in words; empty where there is none."""
    lambda1, lambda2 = problem.penalty.lambda1, problem.penalty.lambda2

    def partition_at(factor: float) -> Partition | None:
        return screen.first_partition_at(GroupPenalty(factor * lambda1, factor * lambda2))

    low, high = 1.0, 2.0
    while (found := partition_at(high)) is not None and _memory_of(found, method) > room and high < 1e6:
        low, high = high, 2.0 * high
    if found is None or lambda1 + lambda2 == 0 or _memory_of(found, method) > room:
        return ""
    for _ in range(12):
        middle = 0.5 * (low + high)
        at_middle = partition_at(middle)
        if at_middle is not None and _memory_of(at_middle, method) <= room:
            high, found = middle, at_middle
        else:
            low = middle
    return (
        f"raise the penalties to lambda1={high * lambda1:.4g}, lambda2={high * lambda2:.4g} (blocks of up to "
        f"{found.largest} variables), "
    )


@cache
def _factorization_rate() -> float:
    """b^3 of Cholesky factorization with inversion per second on this machine, measured once."""
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


def _readable_bytes(amount: float) -> str:
    for unit in ("bytes", "KiB", "MiB"):
        if amount < 1024:
            return f"{amount:.0f} {unit}"
        amount /= 1024
    return f"{amount:.1f} GiB"


def _readable_seconds(amount: float) -> str:
    if amount < 120:
        return f"{amount:.1g} s" if amount < 10 else f"{amount:.0f} s"
    return f"{amount / 60:.0f} min" if amount < 7200 else f"{amount / 3600:.1f} h"
