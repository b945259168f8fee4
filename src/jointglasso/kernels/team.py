"""Thread team: the tasks of one job after another are shared between threads without returning to Python.

The leader posts a job with its number of tasks, executes tasks until none remains, and waits for those that other
threads have taken. Other threads may join late or never; the leader does not wait for a thread that has not taken a
task. Waking threads from Python for each job took longer than most jobs.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, NamedTuple

from numba import types
from numba.extending import intrinsic

from jointglasso._typing import IntArray
from jointglasso.kernels.jit import njit_internal

#: Indices of the counters, each in a separate cache line: next task to be taken; end of the tasks of the current job;
#: finished tasks; whether all jobs are finished, or a thread has failed.
NEXT, LIMIT, DONE, ENDED = 0, 16, 32, 48

#: Polls before the thread yields its core, and before it sleeps between polls; sleep in microseconds.
_PATIENCE, _WAIT, _NAP = 2000, 6000, 50


class Team(NamedTuple):
    """State that the threads share."""

    counters: IntArray
    """(64,), zero before the first job."""
    job: IntArray
    """(4,): kind of the current job, its two arguments, and its first task."""
    lo: IntArray
    hi: IntArray
    """Rows lo..hi-1 of the current batch in each block."""


def _atomic(build: Callable[..., Any], *operands: Any) -> Any:
    """Sequentially consistent atomic operation on one element of an array: signature and code generator."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, arguments[0])  # contiguous
        return build(builder, builder.gep(array.data, [arguments[1]]), *arguments[2:])

    return types.int64(operands[0], types.intp, *([types.int64] * (len(operands) - 2))), generate


@intrinsic
def _load(context: Any, array: Any, index: Any) -> Any:
    return _atomic(lambda builder, place: builder.load_atomic(place, "seq_cst", 8), array, index)


@intrinsic
def add(context: Any, array: Any, index: Any, number: Any) -> Any:
    """Atomic addition: 1 to DONE reports a finished task, 1 to ENDED ends the team."""
    return _atomic(lambda builder, place, n: builder.atomic_rmw("add", place, n, "seq_cst"), array, index, number)


@intrinsic
def _exchange(context: Any, array: Any, index: Any, old: Any, new: Any) -> Any:
    """Atomic compare-and-swap: replace `old` by `new`; returns the previous value."""

    def build(builder: Any, place: Any, old: Any, new: Any) -> Any:
        return builder.extract_value(builder.cmpxchg(place, old, new, "seq_cst", "seq_cst"), 0)

    return _atomic(build, array, index, old, new)


if hasattr(os, "sched_yield"):
    _yield_core = types.ExternalFunction("sched_yield", types.int32())
    _sleep = types.ExternalFunction("usleep", types.int32(types.uint32))

    @njit_internal
    def _wait(n_polls: int) -> None:
        if n_polls > _WAIT:
            _sleep(_NAP)
        elif n_polls > _PATIENCE:
            _yield_core()

else:

    @njit_internal
    def _wait(n_polls: int) -> None:
        pass


@njit_internal
def post(team: Team, kind: int, first: int, last: int, pieces: int) -> None:
    """Post a job with its number of tasks; only by the leader, after all earlier jobs have finished."""
    team.job[0], team.job[1], team.job[2], team.job[3] = kind, first, last, _load(team.counters, LIMIT)
    add(team.counters, LIMIT, pieces)


@njit_internal
def take(team: Team) -> int:
    """Number of a task of the current job, which the caller must execute; -1 if none remains."""
    while True:
        piece = _load(team.counters, NEXT)
        if piece >= _load(team.counters, LIMIT):
            return -1
        if _exchange(team.counters, NEXT, piece, piece + 1) == piece:  # the job is current until this task is finished
            return piece - team.job[3]


@njit_internal
def wait_until(team: Team, counter: int, below: bool) -> bool:
    """Wait until a counter is below the limit, or no longer is; False if the team has ended.

    ``NEXT, True`` waits for a task, ``DONE, False`` until the tasks taken by other threads are finished.
    """
    n_polls = 0
    while (_load(team.counters, counter) < _load(team.counters, LIMIT)) != below:
        if _load(team.counters, ENDED) != 0:
            return False
        n_polls += 1
        _wait(n_polls)
    return True
