"""Progress of a solve over all its groups: history, callback, and the wish to stop."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from jointglasso.solution import Callback, Iteration


class Progress:
    """Adds up what the work items report into the state of the whole problem.

    Items not started yet count with the objective of their diagonal start; the gap of the whole is known once every
    item has reported one. Items may report from several threads.
    """

    def __init__(
        self,
        settled: float,
        starts: Sequence[float],
        groups: Sequence[int],
        costs: Sequence[float],
        callback: Callback | None,
    ) -> None:
        self._settled = settled
        self._objective = list(starts)
        self._gap: list[float] = [math.inf] * len(starts)
        self._groups = list(groups)
        self._costs = list(costs)
        self._done = [False] * len(starts)
        self._callback = callback
        self._began = time.perf_counter()
        self._lock = threading.Lock()
        self.history: list[Iteration] = []
        self.stop = False

    def report(self, item: int, objective: float, gap: float | None) -> bool:
        """Record one iteration of an item; true asks the solver to stop."""
        with self._lock:
            if math.isfinite(objective):
                self._objective[item] = objective
            if gap is not None:
                self._gap[item] = gap
            total = math.fsum(self._gap) if gap is not None else math.inf
            self._append(total if math.isfinite(total) else None)
        return self.stop

    def finish(self, item: int) -> None:
        """Count the groups of a finished item as done, and tell the callback."""
        with self._lock:
            self._done[item] = True
            if self._callback is not None and self.history:
                last = replace(self.history[-1], **self._done_so_far())
                self.stop = bool(self._callback(last)) or self.stop

    def request_stop(self) -> None:
        """Ask all running solvers to stop after their current iteration."""
        self.stop = True

    def _append(self, gap: float | None) -> None:
        iteration = Iteration(
            number=len(self.history) + 1,
            objective=self._settled + math.fsum(self._objective),
            gap=gap,
            seconds=time.perf_counter() - self._began,
            **self._done_so_far(),
        )
        self.history.append(iteration)
        if self._callback is not None and self._callback(iteration):
            self.stop = True

    def _done_so_far(self) -> dict[str, Any]:
        done = [n for n, finished in enumerate(self._done) if finished]
        return {
            "groups_done": sum(self._groups[n] for n in done),
            "n_groups": sum(self._groups),
            "share_done": sum(self._costs[n] for n in done) / max(sum(self._costs), 1e-300),
        }
