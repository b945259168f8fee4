"""The proof that comes with a solution, its iterations, and how the solve ended."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, overload

import numpy as np

from jointglasso._display import Shown
from jointglasso._typing import FloatArray


class ConvergenceWarning(UserWarning):
    """The tolerance was not reached; the solution's gap still bounds how far it is from the optimum.

    Examples
    --------
    >>> import warnings
    >>> import numpy as np
    >>> import jointglasso as jgl
    >>> rng = np.random.default_rng(0)
    >>> X, y = rng.normal(size=(80, 4)), np.repeat(["ill", "well"], 40)
    >>> X[:, 1] += X[:, 0]
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     solution = jgl.solve(jgl.SampleCovariance.from_labels(X, y), 0.01, 0.01, solver="admm", max_iter=1)
    >>> [warning.category.__name__ for warning in caught], solution.status.converged
    (['ConvergenceWarning'], False)
    """


@dataclass(frozen=True, repr=False)
class Certificate(Shown):
    """Proof of optimality: a dual feasible point of the whole problem, screened pairs included.

    The true optimum F* satisfies ``dual_objective <= F* <= objective``; `gap` is their difference. Both hold in exact
    arithmetic: what rounding may have done to them is included.

    Examples
    --------
    >>> import jointglasso as jgl
    >>> S = [[[1.0, 0.5], [0.5, 1.0]], [[1.0, 0.4], [0.4, 1.0]]]
    >>> certificate = jgl.solve(S, 0.1, 0.1).certificate
    >>> certificate.edges_present, certificate.edges_absent, bool(certificate.gap < 1e-6)
    (2, 0, True)
    """

    objective: float
    gap: float
    group_gaps: FloatArray
    """Gap of each independent group, in the order of ``partition.groups()``; they add up to `gap`, but for the
    rounding of the sum."""
    edges_present: int
    """Entries i < j, over all classes, proved to be non-zero in the exact solution."""
    edges_absent: int
    """Entries proved to be zero in the exact solution, those cut by the screen included."""
    edges_undetermined: int
    """Entries that this gap is too wide to decide."""
    rounding: float = 0.0
    """Part of `gap` that is there because objective and dual value are computed in double precision."""
    unit: float = 1.0
    """Mean weight of the classes; an objective smaller in size counts as this in the relative gap."""

    @property
    def dual_objective(self) -> float:
        """Lower bound on the optimum."""
        return self.objective - self.gap if math.isfinite(self.gap) else -math.inf

    @property
    def relative_gap(self) -> float:
        """``gap / max(unit, |objective|)``: what `tol` bounds."""
        return self.relative(self.gap)

    def _parts(self) -> list[Any]:
        bounds = {"objective": [self.objective], "optimum, at least": [self.dual_objective], "gap": [self.gap]}
        numbers = (self.edges_present, self.edges_absent, self.edges_undetermined)
        edges = dict(zip(("present", "absent", "undecided"), ([f"{number:,}"] for number in numbers), strict=True))
        within = f"Proved to be within {self.relative_gap:.1e} (relative) of the optimum"
        return [within, {name: [f"{value[0]:.8g}"] for name, value in bounds.items()} | edges]

    def relative(self, gap: float) -> float:
        """A gap in units of the objective."""
        return gap / max(self.unit, abs(self.objective)) if math.isfinite(gap) else math.inf


@dataclass(frozen=True)
class Status:
    """How a solve ended.

    Examples
    --------
    >>> import jointglasso as jgl
    >>> S = [[[1.0, 0.5], [0.5, 1.0]], [[1.0, 0.4], [0.4, 1.0]]]
    >>> status = jgl.solve(S, 0.1, 0.1).status
    >>> status.converged, status.code, bool(status)
    (True, 'converged', True)
    """

    converged: bool
    reason: str
    """In words."""
    remedy: str = ""
    """What to do about it, in words."""
    code: str = ""
    """The reason for programs: "converged", "max_iter", "callback", "interrupt", "rounding", "tolerance" or
    "paper_rule"."""

    def __bool__(self) -> bool:
        return self.converged

    def __str__(self) -> str:
        return f"{self.reason} {self.remedy}".strip()


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
