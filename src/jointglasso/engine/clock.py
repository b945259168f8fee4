"""Seconds spent in each stage of a solve."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager


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
        """Count time measured inside one stage towards another."""
        moved = min(seconds, self.seconds[source])
        self.seconds[source] -= moved
        self.seconds[target] += moved

    def read(self) -> dict[str, float]:
        return {**self.seconds, "total": time.perf_counter() - self.began}
