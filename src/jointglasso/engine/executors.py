"""Execution of independent tasks by `concurrent.futures`: in the calling thread, on threads, in processes, on Dask.

A task is a top-level function ``function(item, shared, progress)``, so that it can be pickled by name. It reports
through the callback `progress`, which returns whether to stop; without arguments `progress` only returns that. Threads
report immediately. Reports of other processes are returned with the result and then replayed in order.
"""

from __future__ import annotations

import math
import os
import pickle
import time
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import BrokenExecutor, CancelledError, Future, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from heapq import heappop, heappush
from queue import Empty, SimpleQueue
from typing import Any, Protocol
from uuid import uuid4

from jointglasso._memory import MemoryShareExceeded, available_memory, sharing_memory
from jointglasso._threads import available_cores, single_core, single_threaded_blas
from jointglasso.data.checks import InputTypeError
from jointglasso.engine.dask import DaskExecutor, is_client

_IMPORTED = uuid4().hex  # identifies this process; the same in forked processes
_SHUT = "The executor was shut down: make another one, and keep it open until all is done."

#: Progress callback; returns whether to stop.
TaskProgress = Callable[..., bool]


def no_progress(*facts: Any) -> bool:
    """No-op progress callback."""
    return False


class Executor(Protocol):
    """Anything whose `submit` returns a future, as in `concurrent.futures`."""

    def submit(self, function: Callable[..., Any], /, *arguments: Any) -> Any:
        """Schedule ``function(*arguments)`` and return its future."""


#: Tasks submitted at a time to an executor with an unknown number of workers; seconds between two checks for a stop
#: request, and between two counts of the workers of a cluster. They bound delays that a user notices, not run time.
_MAX_TASKS_IN_FLIGHT, _POLL_SECONDS, _RECOUNT_SECONDS = 64, 0.2, 5.0


class _CallingThread:
    """Executor that runs a task immediately in the calling thread; errors are raised by `submit`."""

    def submit(self, function: Callable[..., Any], /, *arguments: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(function(*arguments))
        return future


@dataclass(frozen=True)
class TaskBatch:
    """Items to map a function over, and callbacks in the calling process."""

    function: Callable[[Any, Any, TaskProgress], Any]
    items: Sequence[Any]
    """May grow while the batch runs: items appended by `finish` are processed as well."""
    shared: Any
    subset_for: Callable[[Any, Any], Any] = lambda item, shared: shared
    """The part of the shared data that one item needs."""
    broadcast: bool = True
    """Whether Dask sends all of the shared data to every worker once."""
    rank: Callable[[Any], float] = lambda item: 0.0
    """Priority of an item: lowest rank first, then in order of arrival."""
    progress: Callable[..., bool] = no_progress
    """Called with the index of an item and its report; with the index alone it returns whether to stop."""
    finish: Callable[[int, Any], Any] = lambda number, result: result
    """Called with each result in the calling thread; its return value replaces the result."""
    give_up: Callable[[], None] = lambda: None
    """Called after a failure, to stop the other items."""


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
    checked: Executor = DaskExecutor(executor) if is_client(executor) else executor
    return checked


def machines_of(executor: Executor | None, n_jobs: int | None = None) -> dict[str, float]:
    """Number of concurrent tasks of each machine by its name, "" for one machine; infinite if unknown."""
    if executor is None:
        return {"": n_jobs or 1}
    if isinstance(executor, DaskExecutor):
        return executor.machines() or {"": 1.0}
    on_this_machine = isinstance(executor, ThreadPoolExecutor | ProcessPoolExecutor)  # without a public worker count
    return {"": float(available_cores()) if on_this_machine else math.inf}


def memory_of(executor: Executor | None, max_memory: float | None) -> float | None:
    """Memory budget in bytes of the concurrent tasks of one machine; None if unknown."""
    on_cluster = isinstance(executor, DaskExecutor) or math.isinf(max(machines_of(executor).values()))
    return max_memory if max_memory is not None or on_cluster else available_memory()


def run_tasks(
    batch: TaskBatch, executor: Executor | None = None, n_jobs: int | None = None, memory: float | None = None
) -> list[Any]:
    """Process all items on threads or through an executor; returns the results in the order of the items.

    At most `n_jobs` items run concurrently on one machine, each within an equal share of `memory` bytes.
    """
    if isinstance(executor, DaskExecutor):
        try:
            return _Run(batch, executor, n_jobs, memory).results()
        except Exception:
            executor.require_scheduler()  # a lost scheduler causes errors of many types
            raise
    n_threads = min(n_jobs or 1, len(batch.items), available_cores())
    if executor is None and n_threads <= 1:
        return _run_in_turn(batch)
    if executor is not None:
        return _Run(batch, executor, n_jobs, memory).results()
    with ThreadPoolExecutor(n_threads) as pool:
        return _Run(batch, pool, n_threads, memory).results()


def _run_in_turn(batch: TaskBatch) -> list[Any]:
    """Process the items one after another in the calling thread, by rank; few calls lie above each item."""
    results: dict[int, Any] = {}
    queue, known = list[tuple[float, int]](), 0
    try:
        while known < len(batch.items) or queue:
            for number in range(known, len(batch.items)):
                heappush(queue, (batch.rank(batch.items[number]), number))
            known, number = len(batch.items), heappop(queue)[1]
            result = batch.function(batch.items[number], batch.shared, partial(batch.progress, number))
            results[number] = batch.finish(number, result)
    except BaseException:
        batch.give_up()
        raise
    return [results[number] for number in range(len(results))]


@dataclass(frozen=True)
class _Submitted:
    """A submitted task."""

    number: int
    machine: str
    """Machine it was submitted to; empty if any."""
    share: float | None
    """Memory share in bytes; None without a limit."""
    pickled: bool


class _Run:
    """One run of a batch; the number of concurrent tasks is fixed before any is submitted.

    The memory of a task may be known only after its screening. Each task therefore has an equal share; one that needs
    more raises `MemoryShareExceeded` before allocating, and these are repeated at the end with the concurrency that the
    largest of them permits. Results do not depend on this: methods are chosen by the total memory.
    """

    def __init__(self, batch: TaskBatch, executor: Executor, n_jobs: int | None, memory: float | None) -> None:
        self.batch, self.executor, self.memory = batch, executor, memory
        self._first_executor = executor  # tasks of it may end after the run has moved to the calling thread
        self.in_process = isinstance(executor, ThreadPoolExecutor | _CallingThread)
        dask = executor if isinstance(executor, DaskExecutor) and batch.broadcast else None
        self.broadcast = None if dask is None else dask.scatter(batch.shared)
        self.machines, self._counted_at = machines_of(executor), time.monotonic()
        n_workers = max(self.machines.values())
        if math.isinf(n_workers) and memory is not None:
            n_workers = n_jobs or available_cores()
        self.n_concurrent: float = min(n_workers, n_jobs or n_workers)
        self._queue, self._known = list[tuple[float, int]](), 0
        self._results: dict[int, Any] = {}
        self._running: dict[Future[Any], _Submitted] = {}
        self._ended: SimpleQueue[Future[Any]] = SimpleQueue()
        self._exceeded: dict[int, float] = {}
        """Bytes needed by the items that exceeded their share."""

    @property
    def memory_share(self) -> float | None:
        """Memory share of one task in bytes; None if it has the total, or if that is unknown."""
        return None if self.memory is None or self.n_concurrent == 1 else self.memory / self.n_concurrent

    def results(self) -> list[Any]:
        """Results of all items, in their order."""
        threads = isinstance(self.executor, ThreadPoolExecutor)
        try:
            with single_threaded_blas() if threads else nullcontext():  # the threads themselves keep the cores busy
                self._run_all()
                while self._exceeded and self.memory is not None:
                    needed = max(self._exceeded.values())
                    self.n_concurrent = max(1, min(self.n_concurrent - 1, self.memory // needed))
                    self._enqueue(self._exceeded)
                    self._exceeded = {}
                    self._run_all()
        except BaseException:
            self.batch.give_up()
            for future in self._running:
                future.cancel()
            raise
        return [self._results[number] for number in range(len(self._results))]

    def _run_all(self) -> None:
        """Submit items and collect results until the queue is empty."""
        while True:
            self._enqueue(range(self._known, len(self.batch.items)))
            self._known = len(self.batch.items)
            while self._queue and (machine := self._free_machine()) is not None:
                self._submit(heappop(self._queue)[1], machine)
            if not self._running and not self._queue:
                return
            try:
                self._collect(self._ended.get(timeout=_POLL_SECONDS))
            except Empty:
                if isinstance(self.executor, DaskExecutor):
                    self.executor.require_scheduler()
            if not self.in_process and self.batch.progress(0):
                self._continue_here()

    def _enqueue(self, numbers: Any) -> None:
        for number in numbers:
            heappush(self._queue, (self.batch.rank(self.batch.items[number]), number))

    def _free_machine(self) -> str | None:
        """Machine for the next task, "" for any; None while each has as many tasks as it may."""
        if isinstance(self.executor, DaskExecutor) and time.monotonic() - self._counted_at > _RECOUNT_SECONDS:
            self.machines, self._counted_at = machines_of(self.executor), time.monotonic()
        if self.n_concurrent >= max(self.machines.values()):
            total = sum(self.machines.values())
            limit = total if self.in_process else 2.0 * total if math.isfinite(total) else _MAX_TASKS_IN_FLIGHT
            return "" if len(self._running) < limit else None
        n_running = Counter(task.machine for task in self._running.values())
        machine = min(self.machines, key=n_running.__getitem__)
        return machine if n_running[machine] < self.n_concurrent else None

    def _submit(self, number: int, machine: str) -> None:
        try:
            future = self._run_here(number) if self.in_process else self._send(number, machine)
        except BrokenExecutor as error:
            if isinstance(self.executor, _CallingThread):
                raise
            self._lost(number, error)
            return
        except RuntimeError as error:
            raise RuntimeError(_SHUT) if "shutdown" in str(error) else error from None
        self._running[future] = _Submitted(number, machine, self.memory_share, not self.in_process)
        future.add_done_callback(self._ended.put)

    def _run_here(self, number: int) -> Future[Any]:
        """Submit an item to threads of this process; its data is neither pickled nor copied."""
        one_core = isinstance(self.executor, ThreadPoolExecutor)
        item, progress = self.batch.items[number], partial(self.batch.progress, number)
        arguments = self.batch.function, item, self.batch.shared, progress, self.memory_share, one_core
        future: Future[Any] = self.executor.submit(_run_in_thread, *arguments)
        return future

    def _send(self, number: int, machine: str) -> Future[Any]:
        """Submit an item with the shared data it needs to another process."""
        batch, item = self.batch, self.batch.items[number]
        try:
            subset = batch.subset_for(item, batch.shared) if self.broadcast is None else None
            payload = pickle.dumps((item, subset), protocol=5)  # Dask sends each array of an object by itself
        except (pickle.PicklingError, TypeError, AttributeError) as error:
            raise InputTypeError(
                f"This work cannot be sent to a worker ({error}): use threads (executor=None).", "executor"
            ) from None
        arguments = batch.function, payload, self.broadcast, self.memory_share, _this_process()
        options = {"machine": machine} if isinstance(self.executor, DaskExecutor) else {}
        future: Future[Any] = self.executor.submit(_run_in_worker, *arguments, **options)
        return future

    def _collect(self, future: Future[Any]) -> None:
        """Store the result of a task, and replay its reports and warnings."""
        task = self._running.pop(future, None)
        if task is None:  # it was cancelled
            return
        number = task.number
        try:
            result = pickle.loads(future.result()) if task.pickled else future.result()
            if isinstance(result, MemoryShareExceeded):
                raise result
        except MemoryShareExceeded as error:
            if task.share is None:
                raise
            self._exceeded[number] = error.needed
            return
        except Exception as error:
            dask = isinstance(self._first_executor, DaskExecutor) and self._first_executor.has_lost(error)
            if dask or isinstance(error, BrokenExecutor):
                self._lost(number, error)
                return
            raise RuntimeError(_SHUT) if isinstance(error, CancelledError) else error from None
        if task.pickled:
            for message, category in result.warned:
                warnings.warn(message, category, stacklevel=2)
            for facts in result.messages:
                self.batch.progress(number, *facts)
            result = result.result
        self._results[number] = self.batch.finish(number, result)

    def _lost(self, number: int, error: Exception) -> None:
        """Continue in the calling process after the death of a worker."""
        self._enqueue([number])
        if not isinstance(self.executor, _CallingThread):
            warnings.warn(
                f"A worker process died, of too little memory or by a signal ({type(error).__name__}): the remaining "
                "tasks run in the calling process.",
                RuntimeWarning,
                stacklevel=2,
            )
            # A broken pool sets an exception on each of its futures itself, which fails if one is cancelled meanwhile.
            self._continue_here(cancel=not isinstance(error, BrokenExecutor))

    def _continue_here(self, cancel: bool = True) -> None:
        """Run what the executor has not started in the calling thread, where `progress` returns a stop request."""
        for future, task in list(self._running.items()):
            if cancel and future.cancel():
                del self._running[future]
                self._enqueue([task.number])
        self.executor, self.in_process, self.machines, self.n_concurrent = _CallingThread(), True, {"": 1.0}, 1


def _run_in_thread(
    function: Callable[..., Any], item: Any, shared: Any, progress: TaskProgress, share: float | None, one_core: bool
) -> Any:
    """Process an item within `share` bytes of memory and, beside other threads, on one core."""
    with sharing_memory(share), single_core() if one_core else nullcontext():
        return function(item, shared, progress)


@dataclass(frozen=True)
class _Report:
    """Result of an item in another process, with its progress reports and warnings."""

    result: Any
    messages: list[tuple[Any, ...]]
    warned: list[tuple[str, type[Warning]]]


def _this_process() -> str:
    """Identifier of this process, unique across machines."""
    return f"{_IMPORTED}-{os.getpid()}"


def _run_in_worker(
    function: Callable[[Any, Any, TaskProgress], Any], payload: bytes, shared: Any, share: float | None, sender: str
) -> bytes:
    """Process an item in a worker, on one core and within `share` bytes of memory; returns a pickled `_Report`.

    Warning filters are global to a process: they are left alone in workers that are threads of the calling process.
    """
    messages: list[tuple[Any, ...]] = []

    def progress(*facts: Any) -> bool:
        if facts:
            messages.append(facts)
        return False

    item, subset = pickle.loads(payload)
    other_process = sender != _this_process()
    with (
        single_core(),
        single_threaded_blas(),
        sharing_memory(share),
        warnings.catch_warnings(record=True) if other_process else nullcontext([]) as caught,
    ):
        if other_process:
            warnings.simplefilter("always")
        try:
            result = function(item, subset if shared is None else shared, progress)
        except MemoryShareExceeded as error:
            return pickle.dumps(error)
    warned = [(str(warning.message), warning.category) for warning in caught or ()]
    return pickle.dumps(_Report(result, messages, warned), protocol=5)
