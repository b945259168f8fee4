"""Execution of many solves: workers, progress, and one warning for all that did not converge."""

from __future__ import annotations

import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from jointglasso.data.checks import InputTypeError, check_jobs, check_positive
from jointglasso.engine.executors import (
    Executor,
    TaskBatch,
    check_executor,
    memory_of,
    run_tasks,
)
from jointglasso.errors import argument, warn_caller
from jointglasso.solution import ConvergenceWarning


@dataclass(frozen=True)
class WorkerPool:
    """Workers of a selection: a number of threads, or an executor."""

    n_jobs: int | None = None
    executor: Executor | None = None
    memory: float | None = None
    """Memory limit (bytes) of all concurrent solves on one machine."""

    @classmethod
    def of(cls, n_jobs: Any, executor: Any, max_memory: Any = None) -> WorkerPool:
        """Validate the arguments; `max_memory` (bytes) limits all concurrent solves on one machine."""
        checked = check_executor(executor)
        memory = memory_of(checked, None if max_memory is None else check_positive("max_memory", max_memory))
        return cls(check_jobs(n_jobs) if checked is None else None, checked, memory)

    def do(self, work: TaskBatch) -> list[Any]:
        """Run all items of `work`."""
        return run_tasks(work, self.executor, self.n_jobs, self.memory)


@contextmanager
def quiet_solves() -> Iterator[None]:
    """Suppress ConvergenceWarning of single solves; `warn_not_converged` then warns once with their number.

    Warning filters are global to the process: enter this in the thread that starts the others.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        yield


def warn_not_converged(n_failed: int, n_solves: int, what: str) -> None:
    """Warn once about all solves that stopped before their tolerance."""
    if n_failed:
        warn_caller(
            f"{n_failed} of {n_solves} solves of the {what} stopped before their tolerance: raise "
            f"{argument('max_iter')} or {argument('tol')}, or leave out the weakest penalties.",
            ConvergenceWarning,
        )


@dataclass(frozen=True)
class SelectionProgress:
    """State after one solved point, or at the start of a stage without a count of solves (`total` is 0).

    Examples
    --------
    >>> stages = set()
    >>> chosen = jgl.select(X, y, callback=lambda progress: stages.add(progress.stage))
    >>> sorted(stages)
    ['estimating the values', 'first column', 'held-out likelihood of the values', 'other columns']
    """

    stage: str
    """Description of the current stage."""
    done: int
    """Solves finished."""
    total: int
    """Solves in all."""
    seconds: float
    """Time since the start."""

    @property
    def seconds_left(self) -> float:
        """Estimated time left, if the solves to come take as long as those before."""
        return self.seconds / max(self.done, 1) * (self.total - self.done)


#: Called after each solve; an exception it raises stops the selection.
ProgressCallback = Callable[[SelectionProgress], object]


class Tracker:
    """Thread-safe counter of solves, which passes the progress to the callback."""

    def __init__(self, callback: ProgressCallback | None, total: int, at_least_left: int = 0) -> None:
        if callback is not None and not callable(callback):
            raise InputTypeError(
                f"callback must be callable with one SelectionProgress, not {type(callback).__name__}.", "callback"
            )
        self._callback = callback
        self._total = total
        self._at_least_left = at_least_left  # of a search, whose number of solves is not known
        self._done = 0
        self._began = time.perf_counter()
        self._lock = threading.Lock()

    def advance(self, stage: str, n_solves: int = 1, n_skipped: int = 0) -> None:
        """Count `n_solves` finished solves (0 at the start of a stage); the total falls by `n_skipped`."""
        with self._lock:
            self._done += n_solves
            self._total = max(self._total - n_skipped, self._done + self._at_least_left)
            if self._callback is not None:
                elapsed = time.perf_counter() - self._began
                self._callback(SelectionProgress(stage, self._done, self._total, elapsed))
