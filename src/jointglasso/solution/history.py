"""The iterations of a solve."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import overload

import numpy as np

from jointglasso._typing import FloatArray


@dataclass(frozen=True)
class Iteration:
    """State after one iteration.

    `gap` is that of the problem as cut by the current screen, None where it was not computed; only the certificate of
    the solution bounds the whole problem, the checks after a dynamic screen included.

    Examples
    --------
    >>> import numpy as np
    >>> import jointglasso as jgl
    >>> rng = np.random.default_rng(0)
    >>> X, y = rng.normal(size=(80, 4)), np.repeat(["ill", "well"], 40)
    >>> X[:, 1] += X[:, 0]
    >>> source = jgl.SampleCovariance.from_labels(X, y)
    >>> solution = jgl.solve(source, 0.01, 0.01, solver="admm", screening="none")
    >>> solution.history[0].number, solution.history[-1].n_groups
    (1, 1)
    """

    number: int
    objective: float
    gap: float | None
    seconds: float
    groups_done: int = 0
    n_groups: int = 0
    share_done: float = 0.0
    """Estimated share of the work that is in finished groups, 0 to 1."""


#: Called after each iteration; a true return value asks the solve to stop.
Callback = Callable[[Iteration], object]


class History(Sequence[Iteration]):
    """Iterations of a solve, in order."""

    def __init__(self, iterations: Sequence[Iteration] = ()) -> None:
        self._iterations = tuple(iterations)

    @property
    def objective(self) -> FloatArray:
        """Objective of each iteration."""
        return np.array([step.objective for step in self._iterations])

    @property
    def gap(self) -> list[float | None]:
        """Duality gap of each iteration, None where it was not computed."""
        return [step.gap for step in self._iterations]

    @overload
    def __getitem__(self, index: int) -> Iteration: ...
    @overload
    def __getitem__(self, index: slice) -> History: ...
    def __getitem__(self, index: int | slice) -> Iteration | History:
        if isinstance(index, slice):
            return History(self._iterations[index])
        return self._iterations[index]

    def __len__(self) -> int:
        return len(self._iterations)

    def __iter__(self) -> Iterator[Iteration]:
        return iter(self._iterations)

    def __repr__(self) -> str:
        return f"History({len(self)} iterations)"
