"""How far a selection has come."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from jointglasso.validation import InputTypeError


@dataclass(frozen=True)
class SelectionProgress:
    """State after one solved point.

    Examples
    --------
    >>> import numpy as np
    >>> import jointglasso as jgl
    >>> rng = np.random.default_rng(0)
    >>> X, y = rng.normal(size=(80, 4)), np.repeat(["ill", "well"], 40)
    >>> X[:, 1] += X[:, 0]
    >>> stages = set()
    >>> chosen = jgl.select(X, y, callback=lambda progress: stages.add(progress.stage))
    >>> stages
    {'searching'}
    """

    stage: str
    """What is being computed, in words."""
    done: int
    """Solves finished."""
    total: int
    """Solves in all."""
    seconds: float
    """Time since the start."""

    @property
    def seconds_left(self) -> float:
        """Estimated time left, if the solves to come take as long as those before."""
        return self.seconds / self.done * (self.total - self.done)


#: Called after each solve; an exception it raises stops the selection.
ProgressCallback = Callable[[SelectionProgress], object]


class Tracker:
    """Counts solves, from any thread, keeps what they gave as `keep` says, and tells the callback."""

    def __init__(
        self, callback: ProgressCallback | None, total: int, keep: Callable[[Any], None] = lambda found: None
    ) -> None:
        if callback is not None and not callable(callback):
            raise InputTypeError(
                f"callback must be callable with one SelectionProgress, not {type(callback).__name__}.", "callback"
            )
        self._callback = callback
        self._total = total
        self._keep = keep
        self._done = 0
        self._began = time.perf_counter()
        self._lock = threading.Lock()

    def advance(self, stage: str, n_solves: int = 1, n_skipped: int = 0, found: Any = None) -> None:
        """Count solves, after which so many others turned out not to be needed, or more of them than expected."""
        with self._lock:
            if found is not None:
                self._keep(found)
            self._done += n_solves
            self._total = max(self._total - n_skipped, self._done)
            if self._callback is not None:
                elapsed = time.perf_counter() - self._began
                self._callback(SelectionProgress(stage, self._done, self._total, elapsed))
