"""Threads that share out the pieces of one job after another without coming back to Python in between.

One of them leads: it says what is to be done and how many pieces that has, takes pieces itself until none is left, and
waits for those that others have taken. Whoever helps may come late, or never; nobody waits for a thread that has not
begun. Waking threads from Python for each job took longer than most jobs.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, NamedTuple

from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from jointglasso._typing import IntArray
from jointglasso.kernels.cache import helper

#: Places of the counters, each in a cache line of its own: the next piece to be taken; where the pieces of the present
#: job end; the pieces that are done; whether all jobs are done, or a helper has failed.
NEXT, LIMIT, DONE, ENDED = 0, 16, 32, 48

#: Looks for work before the core is offered to others, and before it is left to them for a while; microseconds.
_PATIENCE, _WAIT, _NAP = 2000, 6000, 50


class Team(NamedTuple):
    """What the threads have in common."""

    counters: IntArray
    """(64,), zero before the first job."""
    job: IntArray
    """(4,): kind of the present job, its two numbers, and its first piece."""
    lo: IntArray
    hi: IntArray
    """Places of the present batch in each block."""


def _atomic(build: Callable[..., Any], *operands: Any) -> Any:
    """An operation on one number of an array that other threads see at once, and in order."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array_type = signature.args[0]
        array = context.make_array(array_type)(context, builder, arguments[0])
        place = cgutils.get_item_pointer(context, builder, array_type, array, [arguments[1]])
        return build(builder, place, *arguments[2:])

    return types.int64(operands[0], types.intp, *([types.int64] * (len(operands) - 2))), generate


@intrinsic
def _load(context: Any, array: Any, index: Any) -> Any:
    return _atomic(lambda builder, place: builder.load_atomic(place, "seq_cst", 8), array, index)


@intrinsic
def _add(context: Any, array: Any, index: Any, number: Any) -> Any:
    return _atomic(lambda builder, place, n: builder.atomic_rmw("add", place, n, "seq_cst"), array, index, number)


@intrinsic
def _exchange(context: Any, array: Any, index: Any, old: Any, new: Any) -> Any:
    """Replace `old`, if it is there, by `new`; what was there."""

    def build(builder: Any, place: Any, old: Any, new: Any) -> Any:
        return builder.extract_value(builder.cmpxchg(place, old, new, "seq_cst", "seq_cst"), 0)

    return _atomic(build, array, index, old, new)


if hasattr(os, "sched_yield"):
    _yield_core = types.ExternalFunction("sched_yield", types.int32())
    _sleep = types.ExternalFunction("usleep", types.int32(types.uint32))

    @helper
    def _wait(n_polls: int) -> None:
        if n_polls > _WAIT:
            _sleep(_NAP)
        elif n_polls > _PATIENCE:
            _yield_core()

else:

    @helper
    def _wait(n_polls: int) -> None:
        pass


@helper
def post(team: Team, kind: int, first: int, last: int, pieces: int) -> None:
    """Give out the pieces of a job; only the leader does, when all others are done."""
    team.job[0], team.job[1], team.job[2], team.job[3] = kind, first, last, _load(team.counters, LIMIT)
    _add(team.counters, LIMIT, pieces)


@helper
def take(team: Team) -> int:
    """A piece of the present job, by its number; -1 if none is left."""
    while True:
        piece = _load(team.counters, NEXT)
        if piece >= _load(team.counters, LIMIT):
            return -1
        if _exchange(team.counters, NEXT, piece, piece + 1) == piece:  # the job stays until this piece is done
            return piece - team.job[3]


@helper
def done(team: Team) -> None:
    """A piece that was taken is done."""
    _add(team.counters, DONE, 1)


@helper
def all_done(team: Team) -> bool:
    """Wait until the pieces that others have taken are done; False if that will never be."""
    return _wait_until(team, DONE, False)


@helper
def await_job(team: Team) -> bool:
    """Wait for a piece to take; False when there will be none."""
    return _wait_until(team, NEXT, True)


@helper
def _wait_until(team: Team, counter: int, below: bool) -> bool:
    """Wait until a counter is below the limit, or no longer is; False if that will never be."""
    n_polls = 0
    while (_load(team.counters, counter) < _load(team.counters, LIMIT)) != below:
        if _load(team.counters, ENDED) != 0:
            return False
        n_polls += 1
        _wait(n_polls)
    return True


@helper
def end(team: Team) -> None:
    """Send the helpers home."""
    _add(team.counters, ENDED, 1)
