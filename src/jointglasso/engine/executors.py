"""Where work is done: on threads of this process, or wherever somebody's `submit` takes it.

Work is a function ``function(item, shared, tell)`` of the top level of a module, so that it can be named in another
process. What it has to say on the way goes through `tell`; called with nothing, `tell` only asks whether to stop.
Threads are heard at once. What is said elsewhere comes back with the result and is then heard in its order.
"""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import BrokenExecutor
from dataclasses import dataclass, field
from functools import partial
from heapq import heappop, heappush
from queue import Empty, SimpleQueue
from threading import Condition, Lock
from typing import Any, Protocol

from jointglasso import tuning
from jointglasso._memory import keep_freed_memory
from jointglasso._threads import Workers, single_threaded_blas, work_alone
from jointglasso.engine.cluster import Cluster, is_client
from jointglasso.validation import InputTypeError

#: Says something, and hears whether to stop.
Tell = Callable[..., bool]


def unheard(*facts: Any) -> bool:
    """Nobody listens, and nobody wants to stop."""
    return False


def _nothing_to_narrow(item: Any, shared: Any) -> Any:
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
    narrow: Callable[[Any, Any], Any] = _nothing_to_narrow
    """What has to travel of what is shared, for one item."""
    hold: bool = True
    """Whether those who can keep what is shared are given all of it, once."""
    rank: Callable[[Any], float] = lambda item: 0.0
    """Of items that wait, those of lower rank are done first; of the same rank, those that came first."""
    tell: Callable[..., bool] = unheard
    """Called with the number of an item and what it says; or with the number only."""
    finish: Callable[[int, Any], Any] = lambda number, result: result
    """Called with each result as soon as it is there, one at a time; what it returns is kept."""
    give_up: Callable[[], None] = lambda: None
    """Called when something has failed, so that all may be told to stop."""
    _finishing: Lock = field(default_factory=Lock, init=False)

    def do(self, number: int) -> Any:
        """Do one item here and now."""
        try:
            result = self.function(self.items[number], self.shared, partial(self.tell, number))
            with self._finishing:
                return self.finish(number, result)
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
    found: Executor = Cluster(executor) if is_client(executor) else executor
    return found


def map_work(work: Work, executor: Executor | None = None, n_jobs: int | None = None) -> list[Any]:
    """Do all items, `n_jobs` at a time on threads, or by an executor; the results in the order of the items."""
    if executor is not None:
        return _Elsewhere(work, executor).run()
    n_threads = min(n_jobs or 1, len(work.items))
    if n_threads > 1:
        return _on_threads(work, n_threads)
    results: dict[int, Any] = {}
    waiting = _Waiting(work)
    while (number := waiting.next()) is not None:
        results[number] = work.do(number)
    return [results[number] for number in range(len(results))]


class _Waiting:
    """Numbers of the items that are still to be done."""

    def __init__(self, work: Work) -> None:
        self._work, self._heap, self._known = work, list[tuple[float, int]](), 0

    def next(self) -> int | None:
        """The next item; None while there is none."""
        for number in range(self._known, len(self._work.items)):
            heappush(self._heap, (self._work.rank(self._work.items[number]), number))
        self._known = len(self._work.items)
        return heappop(self._heap)[1] if self._heap else None

    def drop(self) -> list[int]:
        """Take all that are left."""
        return list(iter(self.next, None))


def _on_threads(work: Work, n_threads: int) -> list[Any]:
    """Threads take items until none is left and nobody is at work who could add some."""
    waiting, changed = _Waiting(work), Condition()
    results: dict[int, Any] = {}
    busy, failed = 0, False

    def take() -> int | None:
        nonlocal busy
        with changed:
            while (number := None if failed else waiting.next()) is None and busy and not failed:
                changed.wait()
            busy += number is not None
            return number

    def take_turns(_: int) -> None:
        nonlocal busy, failed
        try:
            for number in iter(take, None):
                results[number] = work.do(number)
                with changed:
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
    said: list[tuple[Any, ...]]
    warned: list[tuple[str, type[Warning]]]


def _do_elsewhere(function: Callable[[Any, Any, Tell], Any], item: Any, shared: Any) -> _Report:
    """Run in a worker, which has the core that it runs on and no other."""
    work_alone()
    keep_freed_memory()
    said: list[tuple[Any, ...]] = []

    def tell(*facts: Any) -> bool:
        if facts:
            said.append(facts)
        return False

    with single_threaded_blas(), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = function(item, shared, tell)
    return _Report(result, said, [(str(warning.message), warning.category) for warning in caught])


class _Elsewhere:
    """Items on their way through an executor."""

    def __init__(self, work: Work, executor: Executor) -> None:
        self.work, self.executor = work, executor
        self.waiting = _Waiting(work)
        self.results: dict[int, Any] = {}
        self.ended: SimpleQueue[Any] = SimpleQueue()
        self.running: dict[Any, tuple[int, int]] = {}
        """Number and bytes of the items on their way, by their futures."""
        self.held = self._hold()

    def _hold(self) -> Any:
        """What is shared, for those who keep it once for all items; else None."""
        hold = getattr(self.executor, "hold", None)
        return hold(self.work.shared) if hold is not None and self.work.hold else None

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
            raise
        return [self.results[number] for number in range(len(self.results))]

    def _send(self) -> bool:
        """Send off items while there is room for them on the way; whether any was sent."""
        sent = False
        while len(self.running) < 2 or sum(size for _, size in self.running.values()) < tuning.ON_THE_WAY:
            number = self.waiting.next()
            if number is None:
                break
            item = self.work.items[number]
            shared = self.work.narrow(item, self.work.shared) if self.held is None else self.held
            size = _size((self.work.function, item) if self.held is not None else (self.work.function, item, shared))
            future = self.executor.submit(_do_elsewhere, self.work.function, item, shared)
            self.running[future] = number, size
            future.add_done_callback(self.ended.put)
            sent = True
        return sent

    def _take(self) -> bool:
        """Take the next result, if there is one soon; whether what it says makes somebody want to stop."""
        try:
            future = self.ended.get(timeout=tuning.LOOK_SECONDS)
        except Empty:
            getattr(self.executor, "look", unheard)()
            return False
        if future not in self.running:  # it was taken back
            return False
        number, _ = self.running.pop(future)
        report: _Report = future.result()
        for message, category in report.warned:
            warnings.warn(message, category, stacklevel=2)
        stop = any([self.work.tell(number, *facts) for facts in report.said])
        self.results[number] = self.work.finish(number, report.result)
        return stop

    def _stop(self) -> None:
        """Begin nothing more elsewhere; what was not begun is done here, where it hears the wish to stop."""
        left = self.waiting.drop()
        for future, (number, _) in list(self.running.items()):
            if future.cancel():
                del self.running[future]
                left.append(number)
        for number in sorted(left):
            self.results[number] = self.work.do(number)


def _size(thing: Any) -> int:
    """Bytes of something that is to be sent; arrays are not copied for it."""
    buffers: list[pickle.PickleBuffer] = []
    try:
        head = len(pickle.dumps(thing, protocol=5, buffer_callback=buffers.append))
    except (pickle.PicklingError, TypeError, AttributeError) as error:
        raise InputTypeError(
            f"This work cannot be sent to a worker ({error}): use threads (executor=None).", "executor"
        ) from None
    return head + sum(buffer.raw().nbytes for buffer in buffers)
