"""Execution of tasks: on threads of this process, or through the `submit` of an executor.

The work is a top-level function ``function(item, shared, progress)``, so that it can be pickled by name. It reports
through the callback `progress`, which returns whether to stop; without arguments `progress` only returns that. Threads
report immediately. Reports of remote workers are returned with the result and then replayed in order.
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

from jointglasso import config
from jointglasso._memory import MemoryShareExceeded, available_memory, keep_freed_memory, sharing_memory
from jointglasso._threads import Workers, available_cores, single_threaded_blas, use_single_thread
from jointglasso.data.checks import InputTypeError
from jointglasso.engine.cluster import Cluster, is_client

_IMPORTED = uuid4().hex  # the same in forked processes
_SHUT = "The executor was shut down: make another one, and keep it open until all is done."

#: Progress callback; returns whether to stop.
TaskProgress = Callable[..., bool]


def no_progress(*facts: Any) -> bool:
    """No-op progress callback."""
    return False


def _all_of_shared(item: Any, shared: Any) -> Any:
    """Send all of the shared data."""
    return shared


class Executor(Protocol):
    """Anything whose `submit` returns a future, as in `concurrent.futures`."""

    def submit(self, function: Callable[..., Any], /, *arguments: Any) -> Any:
        """Schedule ``function(*arguments)`` and return its future."""


@dataclass(frozen=True)
class TaskBatch:
    """Items to map a function over, and callbacks in the calling process."""

    function: Callable[[Any, Any, TaskProgress], Any]
    items: Sequence[Any]
    """May grow while the work runs: items appended by `finish` are processed as well."""
    shared: Any
    subset_for: Callable[[Any, Any], Any] = _all_of_shared
    """The part of the shared data that one item needs."""
    broadcast: bool = True
    """Whether to broadcast all of the shared data once, where the executor supports that."""
    rank: Callable[[Any], float] = lambda item: 0.0
    """Priority of an item: lowest rank first, then in order of arrival."""
    cost: Callable[[Any], float] = lambda item: 1.0
    """Relative cost of an item."""
    progress: Callable[..., bool] = no_progress
    """Called with the index of an item and its report; with the index alone it returns whether to stop."""
    finish: Callable[[int, Any], Any] = lambda number, result: result
    """Called with each result on completion, one at a time; its return value replaces the result."""
    give_up: Callable[[], None] = lambda: None
    """Called after a failure, to stop the other items."""
    _finishing: Lock = field(default_factory=Lock, init=False)

    def do(self, number: int, memory_share: float | None = None) -> Any:
        """Process one item in the calling thread, within `memory_share` bytes of memory."""
        try:
            with sharing_memory(memory_share):
                result = self.function(self.items[number], self.shared, partial(self.progress, number))
            with self._finishing:
                return self.finish(number, result)
        except MemoryShareExceeded:
            raise
        except BaseException:
            self.give_up()
            raise


def check_executor(executor: Any) -> Executor | None:
    """Validate the `executor` argument; None stands for threads."""
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


def n_workers_of(executor: Executor | None, n_jobs: int | None = None) -> float:
    """Number of tasks that run concurrently on one machine; infinite if unknown."""
    if executor is None:
        return n_jobs or 1
    machines: dict[str, int] = getattr(executor, "machines", dict)()
    return float(max(machines.values(), default=0) or getattr(executor, "_max_workers", math.inf))


def memory_of(executor: Executor | None, max_memory: float | None) -> float | None:
    """Memory budget in bytes of the concurrent tasks of one machine; None if unknown."""
    if max_memory is not None or hasattr(executor, "machines") or math.isinf(n_workers_of(executor)):
        return max_memory  # the free memory of this machine does not apply to others
    return available_memory()


def run_tasks(
    work: TaskBatch, executor: Executor | None = None, n_jobs: int | None = None, memory: float | None = None
) -> list[Any]:
    """Process all items on threads or through an executor; returns the results in the order of the items.

    At most `n_jobs` items run concurrently on one machine, and fewer if together they exceed `memory` bytes.
    """
    if executor is not None:
        try:
            return _RemoteRun(work, executor, _Limits(n_workers_of(executor), n_jobs, memory)).run()
        except Exception:
            getattr(executor, "require_scheduler", no_progress)()  # a lost scheduler causes errors of many types
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
    """Priority queue of the indices of unprocessed items."""

    def __init__(self, work: TaskBatch) -> None:
        self._work, self._heap, self._known = work, list[tuple[float, int]](), 0

    def next(self) -> int | None:
        """Index of the next item; None if the queue is empty."""
        for number in range(self._known, len(self._work.items)):
            heappush(self._heap, (self._work.rank(self._work.items[number]), number))
        self._known = len(self._work.items)
        return heappop(self._heap)[1] if self._heap else None

    def requeue(self, number: int) -> None:
        """Put an item back into the queue."""
        heappush(self._heap, (self._work.rank(self._work.items[number]), number))

    def __len__(self) -> int:
        return len(self._heap) + len(self._work.items) - self._known

    def drop(self) -> list[int]:
        """Remove and return all remaining indices."""
        return list(iter(self.next, None))


class _Limits:
    """Number of items that run concurrently on one machine, reduced so that together they fit into its memory.

    The memory of an item is known only after its blocks are. Each item starts with an equal share; one that needs more
    raises `MemoryShareExceeded` before allocating, and is repeated with lower concurrency, which then holds for all
    later items. Results do not depend on this: methods are chosen by the total memory.
    """

    def __init__(self, n_workers: float, n_concurrent: int | None, memory: float | None) -> None:
        self._memory = memory
        if math.isinf(n_workers) and memory is not None:
            n_concurrent = n_concurrent or available_cores()
        self.n_concurrent: float = min(n_workers, n_concurrent or n_workers)
        self.limited = self.n_concurrent < n_workers
        """Whether the limit is below the concurrency of the executor itself."""

    @property
    def memory_share(self) -> float | None:
        """Memory share of one item in bytes; None if it has the total, or if that is unknown."""
        return None if self._memory is None or self.n_concurrent == 1 else self._memory / self.n_concurrent

    def reduce_to_fit(self, needed: float) -> None:
        """Reduce the concurrency so that each item may use `needed` bytes."""
        if self._memory is not None and self.memory_share is not None and needed > self.memory_share:
            self.n_concurrent, self.limited = max(1, min(self.n_concurrent - 1, self._memory // needed)), True


def _on_threads(work: TaskBatch, n_threads: int, limits: _Limits) -> list[Any]:
    """Process items on threads until the queue is empty and no running item can append more."""
    queue, changed = _Queue(work), Condition()
    results: dict[int, Any] = {}
    busy, failed = 0, False

    def next_item() -> tuple[int, float | None] | None:
        nonlocal busy
        with changed:
            while not failed:
                if busy < limits.n_concurrent and (number := queue.next()) is not None:
                    busy += 1
                    return number, limits.memory_share
                if not busy:
                    break
                changed.wait()
            return None

    def run_items(_: int) -> None:
        nonlocal busy, failed
        try:
            for number, memory_share in iter(next_item, None):
                try:
                    results[number], needed = work.do(number, memory_share), 0.0
                except MemoryShareExceeded as more:
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
        Workers(n_threads).map(run_items, range(n_threads))
    return [results[number] for number in range(len(results))]


@dataclass(frozen=True)
class _Report:
    """Result of an item from a remote worker, with its progress reports and warnings."""

    result: Any
    messages: list[tuple[Any, ...]]
    warned: list[tuple[str, type[Warning]]]
    seconds: float


def _run_batch(
    function: Callable[[Any, Any, TaskProgress], Any],
    items: Any,
    shared: Any,
    memory_share: float | None,
    packed: bool,
    sender: str,
) -> Any:
    """Process a batch of items in a worker, on one core and within `memory_share` bytes of memory."""
    use_single_thread()
    keep_freed_memory()
    other_process = sender != _this_process()
    with single_threaded_blas(), sharing_memory(memory_share):
        reports = [
            _report(function, item, item_shared if shared is None else shared, other_process)
            for item, item_shared in (pickle.loads(items) if packed else items)
        ]
    return _packed(reports)[::2]


def _this_process() -> str:
    """Identifier of this process, unique across machines."""
    return f"{_IMPORTED}-{os.getpid()}"


def _report(
    function: Callable[[Any, Any, TaskProgress], Any], item: Any, shared: Any, other_process: bool
) -> _Report | MemoryShareExceeded:
    """Process an item and record its progress reports and, in another process, its warnings.

    Warning filters are global to a process: concurrent threads of the calling process would overwrite them.
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
        except MemoryShareExceeded as more:
            return more
    warned = [(str(warning.message), warning.category) for warning in caught or ()]
    return _Report(result, messages, warned, time.perf_counter() - began)


@dataclass(frozen=True)
class _Sent:
    """A submitted batch of items."""

    numbers: list[int]
    size: int
    """Bytes."""
    machine: str
    """Machine it was submitted to; empty if any."""


class _RemoteRun:
    """Run of items through an executor, with cheap items batched into one submission."""

    def __init__(self, work: TaskBatch, executor: Executor, limits: _Limits) -> None:
        self.work, self.executor, self.limits = work, executor, limits
        self.queue = _Queue(work)
        self.results: dict[int, Any] = {}
        self.ended: SimpleQueue[Any] = SimpleQueue()
        self.running: dict[Any, _Sent] = {}
        """Submitted batches by their futures."""
        self.n_workers = float(getattr(executor, "_max_workers", math.inf))
        self.pace: dict[Any, float] = getattr(executor, "pace", {})
        """Seconds per unit of cost, by function."""
        self.broadcast = self._broadcast()

    def _broadcast(self) -> Any:
        """Handle of the broadcast shared data; None if it is sent with each item."""
        scatter = getattr(self.executor, "broadcast", None)
        return scatter(self.work.shared) if scatter is not None and self.work.broadcast else None

    def run(self) -> list[Any]:
        """Submit items and collect results until all are done or a stop is requested."""
        try:
            while self._send() or self.running:
                if self._take() or self.work.progress(0):
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
        """Submit batches while the bytes in transit are below the limit; returns whether any was submitted."""
        sent = False
        while len(self.running) < 2 or sum(task.size for task in self.running.values()) < config.MAX_BYTES_IN_FLIGHT:
            machine = self._machine()
            if machine is None or not (numbers := self._batch()):
                break
            items = [self.work.items[number] for number in numbers]
            subsets = [
                self.work.subset_for(item, self.work.shared) if self.broadcast is None else None for item in items
            ]
            payload, size, packed = _packed(list(zip(items, subsets, strict=True)))
            task = (
                _run_batch,
                self.work.function,
                payload,
                self.broadcast,
                self.limits.memory_share,
                packed,
                _this_process(),
            )
            try:
                future = self.executor.submit(*task, **({"workers": machine} if machine else {}))
            except RuntimeError as error:
                raise RuntimeError(_SHUT) if "shutdown" in str(error) else error from None
            self.running[future] = _Sent(numbers, size, machine)
            future.add_done_callback(self.ended.put)
            sent = True
        return sent

    def _machine(self) -> str | None:
        """Machine for the next batch, "" for any; None while all are at their concurrency limit."""
        if not self.limits.limited:
            return ""
        n_running = Counter(task.machine for task in self.running.values())
        least_loaded = min(getattr(self.executor, "machines", dict)() or [""], key=n_running.__getitem__)
        anywhere = n_running[""] if least_loaded else 0  # submitted before the limit applied
        return least_loaded if n_running[least_loaded] + anywhere < self.limits.n_concurrent else None

    def _batch(self) -> list[int]:
        """Items of the next batch: about `TASK_SECONDS` of work, at most an equal share of the open items.

        The pace is known after the first results; until then only two items per worker are submitted.
        """
        pace, fair = self.pace.get(self.work.function), 1.0
        if math.isfinite(self.n_workers) and not self.limits.limited:
            if pace is None and len(self.running) >= 2 * self.n_workers:
                return []
            open_items = len(self.queue) + sum(len(task.numbers) for task in self.running.values())
            fair = open_items / (2.0 * self.n_workers)
        numbers, seconds = list[int](), 0.0
        while seconds < config.TASK_SECONDS and len(numbers) < max(1.0, fair):
            if (number := self.queue.next()) is None:
                break
            numbers.append(number)
            seconds += math.inf if pace is None else pace * self.work.cost(self.work.items[number])
        return numbers

    def _take(self) -> bool:
        """Collect the next batch of results, if one arrives soon; returns whether a stop was requested."""
        try:
            future = self.ended.get(timeout=config.POLL_SECONDS)
        except Empty:
            getattr(self.executor, "check_workers", no_progress)()
            return False
        if future not in self.running:  # it was cancelled
            return False
        task = self.running.pop(future)
        reports, packed = future.result()
        stop = False
        for number, report in zip(task.numbers, pickle.loads(reports) if packed else reports, strict=True):
            if isinstance(report, MemoryShareExceeded):
                self.limits.reduce_to_fit(report.needed)
                self.queue.requeue(number)
                continue
            for message, category in report.warned:
                warnings.warn(message, category, stacklevel=2)
            stop = any([self.work.progress(number, *facts) for facts in report.messages]) or stop
            pace = report.seconds / self.work.cost(self.work.items[number])
            self.pace[self.work.function] = max(pace, 0.5 * self.pace.get(self.work.function, 0.0))
            self.results[number] = self.work.finish(number, report.result)
        return stop

    def _stop(self) -> None:
        """Submit nothing more; unstarted items run in this thread, where `progress` returns the stop request."""
        remaining = self.queue.drop()
        for future, task in list(self.running.items()):
            if future.cancel():
                del self.running[future]
                remaining += task.numbers
        for number in sorted(remaining):
            self.results[number] = self.work.do(number)


def _packed(thing: Any) -> tuple[Any, int, bool]:
    """Payload, its size in bytes, and whether it was pickled: many small arrays are faster as one byte string.

    Large payloads are not pickled here, and their arrays are not copied to determine the size.
    """
    buffers: list[pickle.PickleBuffer] = []
    try:
        head = len(pickle.dumps(thing, protocol=5, buffer_callback=buffers.append))
        size = head + sum(buffer.raw().nbytes for buffer in buffers)
        small = size <= config.PACKED_BYTES
        return pickle.dumps(thing, protocol=5) if small else thing, size, small
    except (pickle.PicklingError, TypeError, AttributeError) as error:
        raise InputTypeError(
            f"This work cannot be sent to a worker ({error}): use threads (executor=None).", "executor"
        ) from None
