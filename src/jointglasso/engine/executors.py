"""Where work is done: on threads of this process, or wherever somebody's `submit` takes it.

Work is a function ``function(item, shared, tell)`` of the top level of a module, so that it can be named in another
process. What it has to say on the way goes through `tell`; called with nothing, `tell` only asks whether to stop.
Threads are heard at once. What is said elsewhere comes back with the result and is then heard in its order.
"""

from __future__ import annotations

import math
import os
import pickle
import time
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import BrokenExecutor, CancelledError
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from heapq import heappop, heappush
from queue import Empty, SimpleQueue
from threading import Condition, Lock
from typing import Any, Protocol
from uuid import uuid4

from jointglasso import tuning
from jointglasso._memory import NeedsMore, available_memory, keep_freed_memory, sharing_memory
from jointglasso._threads import Workers, available_cores, single_threaded_blas, work_alone
from jointglasso.engine.cluster import Cluster, is_client
from jointglasso.validation import InputTypeError

_IMPORTED = uuid4().hex  # here and in what is forked from here
_SHUT = "The executor was shut down: make another one, and keep it open until all is done."

#: Says something, and hears whether to stop.
Tell = Callable[..., bool]


def unheard(*facts: Any) -> bool:
    """Nobody listens, and nobody wants to stop."""
    return False


def _all_of_shared(item: Any, shared: Any) -> Any:
    """All of what is shared travels."""
    return shared


class Executor(Protocol):
    """Whatever takes a function and its arguments and gives back a future, as in `concurrent.futures`."""

    def submit(self, function: Callable[..., Any], /, *arguments: Any) -> Any:
        """Begin ``function(*arguments)`` somewhere."""


@dataclass(frozen=True)
class Work:
    """Items for one function, and who hears of them in the calling process."""

    function: Callable[[Any, Any, Tell], Any]
    items: Sequence[Any]
    """They may become more while others are done: what `finish` adds is done as well."""
    shared: Any
    narrow: Callable[[Any, Any], Any] = _all_of_shared
    """What has to travel of what is shared, for one item."""
    hold: bool = True
    """Whether those who can keep what is shared are given all of it, once."""
    rank: Callable[[Any], float] = lambda item: 0.0
    """Of items that wait, those of lower rank are done first; of the same rank, those that came first."""
    cost: Callable[[Any], float] = lambda item: 1.0
    """How long items take, compared with each other."""
    tell: Callable[..., bool] = unheard
    """Called with the number of an item and what it says; or with the number only."""
    finish: Callable[[int, Any], Any] = lambda number, result: result
    """Called with each result as soon as it is there, one at a time; what it returns is kept."""
    give_up: Callable[[], None] = lambda: None
    """Called when something has failed, so that all may be told to stop."""
    _finishing: Lock = field(default_factory=Lock, init=False)

    def do(self, number: int, share: float | None = None) -> Any:
        """Do one item here and now, with a share of the memory."""
        try:
            with sharing_memory(share):
                result = self.function(self.items[number], self.shared, partial(self.tell, number))
            with self._finishing:
                return self.finish(number, result)
        except NeedsMore:
            raise
        except BaseException:
            self.give_up()
            raise


def check_executor(executor: Any) -> Executor | None:
    """Return an executor, or None for threads."""
    if executor is None or (isinstance(executor, str) and executor == "threads"):
        return None
    if isinstance(executor, type) or not callable(getattr(executor, "submit", None)):
        raise InputTypeError(
            f"executor={executor!r} has no submit(): give None or 'threads', a concurrent.futures executor, or a "
            "distributed.Client.",
            "executor",
        )
    checked: Executor = Cluster(executor) if is_client(executor) else executor
    return checked


def hands_of(executor: Executor | None, n_jobs: int | None = None) -> float:
    """How many pieces are worked on at a time on one machine; infinite where that is not known."""
    if executor is None:
        return n_jobs or 1
    machines: dict[str, int] = getattr(executor, "machines", dict)()
    return float(max(machines.values(), default=0) or getattr(executor, "_max_workers", math.inf))


def memory_of(executor: Executor | None, max_memory: float | None) -> float | None:
    """Bytes that those who work at the same time on a machine have between them; None where nobody knows."""
    if max_memory is not None or hasattr(executor, "machines") or math.isinf(hands_of(executor)):
        return max_memory  # what this machine has left says nothing of others
    return available_memory()


def map_work(
    work: Work, executor: Executor | None = None, n_jobs: int | None = None, memory: float | None = None
) -> list[Any]:
    """Do all items on threads, or by an executor; the results in the order of the items.

    At most `n_jobs` are worked on at a time on one machine, and fewer where they do not fit into `memory` together.
    """
    if executor is not None:
        try:
            return _RemoteRun(work, executor, _Limits(hands_of(executor), n_jobs, memory)).run()
        except Exception:
            getattr(executor, "require_scheduler", unheard)()  # without one, errors are of all kinds
            raise
    n_threads = min(n_jobs or 1, len(work.items))
    if n_threads > 1:
        return _on_threads(work, n_threads, _Limits(min(n_threads, available_cores()), None, memory))
    results: dict[int, Any] = {}
    queue = _Queue(work)
    while (number := queue.next()) is not None:
        results[number] = work.do(number)
    return [results[number] for number in range(len(results))]


class _Queue:
    """Numbers of the items that are still to be done."""

    def __init__(self, work: Work) -> None:
        self._work, self._heap, self._known = work, list[tuple[float, int]](), 0

    def next(self) -> int | None:
        """The next item; None while there is none."""
        for number in range(self._known, len(self._work.items)):
            heappush(self._heap, (self._work.rank(self._work.items[number]), number))
        self._known = len(self._work.items)
        return heappop(self._heap)[1] if self._heap else None

    def requeue(self, number: int) -> None:
        """An item is to be done once more."""
        heappush(self._heap, (self._work.rank(self._work.items[number]), number))

    def __len__(self) -> int:
        return len(self._heap) + len(self._work.items) - self._known

    def drop(self) -> list[int]:
        """Take all that are left."""
        return list(iter(self.next, None))


class _Limits:
    """How many items are worked on at a time on one machine, so that they fit into its memory together.

    What a solve takes is known when its blocks are. So each has an equal share to begin with; one that needs more says
    so, before it takes it, and is done again when there are fewer beside it, as are all that come after it. What is
    computed is the same: methods are chosen by the memory that there is in all.
    """

    def __init__(self, n_workers: float, n_concurrent: int | None, memory: float | None) -> None:
        self._memory = memory
        if math.isinf(n_workers) and memory is not None:
            n_concurrent = n_concurrent or available_cores()
        self.n_concurrent: float = min(n_workers, n_concurrent or n_workers)
        self.limited = self.n_concurrent < n_workers
        """Whether there are to be fewer than whoever does them would begin by itself."""

    @property
    def share(self) -> float | None:
        """Bytes of one item; None where it has all of them, or nobody knows."""
        return None if self._memory is None or self.n_concurrent == 1 else self._memory / self.n_concurrent

    def reduce_to_fit(self, needed: float) -> None:
        """Let fewer items be worked on at a time, so that each may take so many bytes."""
        if self._memory is not None and self.share is not None and needed > self.share:
            self.n_concurrent, self.limited = max(1, min(self.n_concurrent - 1, self._memory // needed)), True


def _on_threads(work: Work, n_threads: int, limits: _Limits) -> list[Any]:
    """Threads take items until none is left and nobody is at work who could add some."""
    queue, changed = _Queue(work), Condition()
    results: dict[int, Any] = {}
    busy, failed = 0, False

    def take() -> tuple[int, float | None] | None:
        nonlocal busy
        with changed:
            while not failed:
                if busy < limits.n_concurrent and (number := queue.next()) is not None:
                    busy += 1
                    return number, limits.share
                if not busy:
                    break
                changed.wait()
            return None

    def take_turns(_: int) -> None:
        nonlocal busy, failed
        try:
            for number, share in iter(take, None):
                try:
                    results[number], needed = work.do(number, share), 0.0
                except NeedsMore as more:
                    needed = more.needed
                with changed:
                    if needed:
                        limits.reduce_to_fit(needed)
                        queue.requeue(number)
                    busy -= 1
                    changed.notify_all()
        except BaseException:
            with changed:
                failed = True
                changed.notify_all()
            raise

    with single_threaded_blas():  # the threads themselves keep the cores busy
        Workers(n_threads).map(take_turns, range(n_threads))
    return [results[number] for number in range(len(results))]


@dataclass(frozen=True)
class _Report:
    """What comes back of an item that was done elsewhere."""

    result: Any
    messages: list[tuple[Any, ...]]
    warned: list[tuple[str, type[Warning]]]
    seconds: float


def _run_batch(
    function: Callable[[Any, Any, Tell], Any], items: Any, shared: Any, share: float | None, packed: bool, sender: str
) -> Any:
    """Do a few items in a worker, which has the core that it runs on and no other, and a share of the memory."""
    work_alone()
    keep_freed_memory()
    other_process = sender != _this_process()
    with single_threaded_blas(), sharing_memory(share):
        reports = [
            _report(function, item, item_shared if shared is None else shared, other_process)
            for item, item_shared in (pickle.loads(items) if packed else items)
        ]
    return _packed(reports)[::2]


def _this_process() -> str:
    """A name that no other process has, on whatever machine."""
    return f"{_IMPORTED}-{os.getpid()}"


def _report(
    function: Callable[[Any, Any, Tell], Any], item: Any, shared: Any, other_process: bool
) -> _Report | NeedsMore:
    """Do an item, and keep what it says and, in a process apart, its warnings.

    The filters of warnings belong to the whole process: threads of the caller's that set them would undo one another's.
    """
    messages: list[tuple[Any, ...]] = []

    def progress(*facts: Any) -> bool:
        if facts:
            messages.append(facts)
        return False

    began = time.perf_counter()
    with warnings.catch_warnings(record=True) if other_process else nullcontext([]) as caught:
        if other_process:
            warnings.simplefilter("always")
        try:
            result = function(item, shared, progress)
        except NeedsMore as more:
            return more
    warned = [(str(warning.message), warning.category) for warning in caught or ()]
    return _Report(result, messages, warned, time.perf_counter() - began)


@dataclass(frozen=True)
class _Sent:
    """A task on its way."""

    numbers: list[int]
    size: int
    """Bytes."""
    machine: str
    """Where it was sent; empty where it may be anywhere."""


class _RemoteRun:
    """Items on their way through an executor, those that take next to no time a few in a task."""

    def __init__(self, work: Work, executor: Executor, limits: _Limits) -> None:
        self.work, self.executor, self.limits = work, executor, limits
        self.queue = _Queue(work)
        self.results: dict[int, Any] = {}
        self.ended: SimpleQueue[Any] = SimpleQueue()
        self.running: dict[Any, _Sent] = {}
        """By their futures."""
        self.n_workers = float(getattr(executor, "_max_workers", math.inf))
        self.pace: dict[Any, float] = getattr(executor, "pace", {})
        """Seconds for each unit of cost, by what was done."""
        self.broadcast = self._broadcast()

    def _broadcast(self) -> Any:
        """What is shared, for those who keep it once for all items; else None."""
        scatter = getattr(self.executor, "hold", None)
        return scatter(self.work.shared) if scatter is not None and self.work.hold else None

    def run(self) -> list[Any]:
        """Keep items on their way until all are done, or until somebody wants to stop."""
        try:
            while self._send() or self.running:
                if self._take() or self.work.tell(0):
                    self._stop()
        except BaseException as error:
            self.work.give_up()
            for future in self.running:
                future.cancel()
            if isinstance(error, BrokenExecutor):
                raise RuntimeError(
                    "A worker process died, of too little memory or by a signal: start the executor anew and solve "
                    "again, with fewer workers or a checkpoint."
                ) from error
            if isinstance(error, CancelledError):
                raise RuntimeError(_SHUT) from error
            raise
        return [self.results[number] for number in range(len(self.results))]

    def _send(self) -> bool:
        """Send off tasks while there is room for them on the way; whether any was sent."""
        sent = False
        while len(self.running) < 2 or sum(task.size for task in self.running.values()) < tuning.ON_THE_WAY:
            machine = self._machine()
            if machine is None or not (numbers := self._batch()):
                break
            items = [self.work.items[number] for number in numbers]
            subsets = [self.work.narrow(item, self.work.shared) if self.broadcast is None else None for item in items]
            payload, size, packed = _packed(list(zip(items, subsets, strict=True)))
            task = _run_batch, self.work.function, payload, self.broadcast, self.limits.share, packed, _this_process()
            try:
                future = self.executor.submit(*task, **({"workers": machine} if machine else {}))
            except RuntimeError as error:
                raise RuntimeError(_SHUT) if "shutdown" in str(error) else error from None
            self.running[future] = _Sent(numbers, size, machine)
            future.add_done_callback(self.ended.put)
            sent = True
        return sent

    def _machine(self) -> str | None:
        """Name of the machine for the next task, "" for any; None while there is no place for it."""
        if not self.limits.limited:
            return ""
        taken = Counter(task.machine for task in self.running.values())
        emptiest = min(getattr(self.executor, "machines", dict)() or [""], key=taken.__getitem__)
        anywhere = taken[""] if emptiest else 0  # sent before there was a limit
        return emptiest if taken[emptiest] + anywhere < self.limits.n_concurrent else None

    def _batch(self) -> list[int]:
        """Items of the next task: one, or as many as are worth a task, but no more than a fair share of all.

        How long they take shows when the first are done; before that no more are sent than keep everybody busy.
        """
        pace, fair = self.pace.get(self.work.function), 1.0
        if math.isfinite(self.n_workers) and not self.limits.limited:
            if pace is None and len(self.running) >= 2 * self.n_workers:
                return []
            open_items = len(self.queue) + sum(len(task.numbers) for task in self.running.values())
            fair = open_items / (2.0 * self.n_workers)
        numbers, seconds = list[int](), 0.0
        while seconds < tuning.TASK_SECONDS and len(numbers) < max(1.0, fair):
            if (number := self.queue.next()) is None:
                break
            numbers.append(number)
            seconds += math.inf if pace is None else pace * self.work.cost(self.work.items[number])
        return numbers

    def _take(self) -> bool:
        """Take the next results, if there are any soon; whether what they say makes somebody want to stop."""
        try:
            future = self.ended.get(timeout=tuning.LOOK_SECONDS)
        except Empty:
            getattr(self.executor, "look", unheard)()
            return False
        if future not in self.running:  # it was taken back
            return False
        task = self.running.pop(future)
        reports, packed = future.result()
        stop = False
        for number, report in zip(task.numbers, pickle.loads(reports) if packed else reports, strict=True):
            if isinstance(report, NeedsMore):
                self.limits.reduce_to_fit(report.needed)
                self.queue.requeue(number)
                continue
            for message, category in report.warned:
                warnings.warn(message, category, stacklevel=2)
            stop = any([self.work.tell(number, *facts) for facts in report.messages]) or stop
            pace = report.seconds / self.work.cost(self.work.items[number])
            self.pace[self.work.function] = max(pace, 0.5 * self.pace.get(self.work.function, 0.0))
            self.results[number] = self.work.finish(number, report.result)
        return stop

    def _stop(self) -> None:
        """Begin nothing more elsewhere; what was not begun is done here, where it hears the wish to stop."""
        remaining = self.queue.drop()
        for future, task in list(self.running.items()):
            if future.cancel():
                del self.running[future]
                remaining += task.numbers
        for number in sorted(remaining):
            self.results[number] = self.work.do(number)


def _packed(thing: Any) -> tuple[Any, int, bool]:
    """Something that is to travel, its bytes, and whether it was pickled: many small arrays are quicker in one piece.

    Big arrays stay as they are, and are not copied to see how big they are.
    """
    buffers: list[pickle.PickleBuffer] = []
    try:
        head = len(pickle.dumps(thing, protocol=5, buffer_callback=buffers.append))
        size = head + sum(buffer.raw().nbytes for buffer in buffers)
        small = size <= tuning.PACKED_BYTES
        return pickle.dumps(thing, protocol=5) if small else thing, size, small
    except (pickle.PicklingError, TypeError, AttributeError) as error:
        raise InputTypeError(
            f"This work cannot be sent to a worker ({error}): use threads (executor=None).", "executor"
        ) from None
