"""Progress of a solve over all its groups: history, callback, and the wish to stop."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Sequence

from jointglasso.solution import Callback, Iteration


class Progress:
    """Adds up what the work items report into the state of the whole problem.

    Items not started yet count with the objective of their diagonal start; the gap of the whole is known once every
    item has reported one. Items may report from several threads.
    """

    def __init__(
        self, settled: float, starts: Sequence[float], groups: Sequence[int], callback: Callback | None
    ) -> None:
        self._settled = settled
        self._objective = list(starts)
        self._gap: list[float] = [math.inf] * len(starts)
        self._groups = list(groups)
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
        """Count the groups of a finished item as done."""
        with self._lock:
            self._done[item] = True

    def request_stop(self) -> None:
        """Ask all running solvers to stop after their current iteration."""
        self.stop = True

    def _append(self, gap: float | None) -> None:
        iteration = Iteration(
            number=len(self.history) + 1,
            objective=self._settled + math.fsum(self._objective),
            gap=gap,
            seconds=time.perf_counter() - self._began,
            groups_done=sum(n for n, done in zip(self._groups, self._done, strict=True) if done),
            n_groups=sum(self._groups),
        )
        self.history.append(iteration)
        if self._callback is not None and self._callback(iteration):
            self.stop = True
