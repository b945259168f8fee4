"""Progress of a solve over all groups and rounds: history, callback, stop requests, and seconds by stage."""

from __future__ import annotations

import math
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from types import FrameType
from typing import Any

from jointglasso.solution import Callback, Iteration


class Control:
    """State of one solve over all rounds: its history, the user's callback, and whether a stop was requested."""

    def __init__(self, callback: Callback | None, *, return_on_interrupt: bool) -> None:
        self._callback = callback
        self._return_on_interrupt = return_on_interrupt
        self.began = time.perf_counter()
        self.history: list[Iteration] = []
        self.stopped_by: str | None = None
        """None, "callback" or "interrupt"."""

    @property
    def has_callback(self) -> bool:
        """Whether iterations are reported to the user."""
        return self._callback is not None

    def record(self, objective: float, gap: float | None, **done: Any) -> bool:
        """Append an iteration to the history and call the callback; returns whether the solver should stop."""
        seconds = time.perf_counter() - self.began
        self.history.append(Iteration(len(self.history) + 1, objective, gap, seconds, **done))
        self.notify(self.history[-1])
        return self.stopped_by is not None

    def notify(self, iteration: Iteration) -> None:
        """Call the callback; a true return value, or an interrupt with ``on_interrupt="return"``, stops the solve."""
        if self._callback is None:
            return
        try:
            if self._callback(iteration):
                self.stop("callback")
        except KeyboardInterrupt:
            self.stop("interrupt")
            if not self._return_on_interrupt:
                raise

    def stop(self, cause: str) -> None:
        """Request all running solvers to stop after their current iteration."""
        self.stopped_by = self.stopped_by or cause

    @contextmanager
    def interruptible(self) -> Iterator[None]:
        """Context in which Ctrl-C requests a stop, so that solvers return their iterate after the current iteration.

        Active only with ``on_interrupt="return"`` and in the main thread, which receives the signals. A second Ctrl-C
        raises KeyboardInterrupt. If SIGINT was ignored before, as in background jobs of a script, it stays ignored, but
        other signals that are forwarded to this handler still request a stop.
        """
        if not self._return_on_interrupt or threading.current_thread() is not threading.main_thread():
            yield
            return

        def on_interrupt(number: int, frame: FrameType | None) -> None:
            if number == signal.SIGINT and before is signal.SIG_IGN:
                return
            if self.stopped_by is not None:
                raise KeyboardInterrupt
            self.stop("interrupt")

        before = signal.signal(signal.SIGINT, on_interrupt)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)


class Progress:
    """Objective and gap of the full problem, summed over the reports of the tasks of one round.

    Tasks that have not started count with the objective of their diagonal start; the total gap is known once every task
    has reported one. Thread-safe.
    """

    def __init__(
        self,
        control: Control,
        isolated_objective: float,
        starts: Sequence[float],
        groups: Sequence[int],
        costs: Sequence[float],
    ) -> None:
        self._control = control
        self._isolated_objective = isolated_objective
        self._objective = list(starts)
        self._gap: list[float] = [math.inf] * len(starts)
        self._groups = list(groups)
        self._costs = list(costs)
        self._done = [False] * len(starts)
        self._lock = threading.Lock()

    def report(self, item: int, objective: float, gap: float | None) -> bool:
        """Record one iteration of a task; returns whether the solver should stop."""
        with self._lock:
            if math.isfinite(objective):
                self._objective[item] = objective
            if gap is not None:
                self._gap[item] = gap
            total = math.fsum(self._gap) if gap is not None else math.inf
            objective = self._isolated_objective + math.fsum(self._objective)
            return self._control.record(objective, total if math.isfinite(total) else None, **self._done_so_far())

    def finish(self, item: int) -> None:
        """Count the groups of a finished task as done, and call the callback."""
        with self._lock:
            self._done[item] = True
            if self._control.history and self._control.has_callback:
                self._control.notify(replace(self._control.history[-1], **self._done_so_far()))

    def _done_so_far(self) -> dict[str, Any]:
        done = [n for n, finished in enumerate(self._done) if finished]
        return {
            "groups_done": sum(self._groups[n] for n in done),
            "n_groups": sum(self._groups),
            "share_done": sum(self._costs[n] for n in done) / max(sum(self._costs), 1e-300),
        }


class Clock:
    """Seconds spent in each stage."""

    def __init__(self) -> None:
        self.began = time.perf_counter()
        self.seconds = {"covariance": 0.0, "screening": 0.0, "solve": 0.0, "certificate": 0.0}

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        began = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] += time.perf_counter() - began

    def move(self, source: str, target: str, seconds: float) -> None:
        """Reassign seconds from one stage to another."""
        moved = min(seconds, self.seconds[source])
        self.seconds[source] -= moved
        self.seconds[target] += moved

    def read(self) -> dict[str, float]:
        return {**self.seconds, "total": time.perf_counter() - self.began}
