"""The certificate of a solution (dual bound and certified edges), its iterations, and its status."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, overload

import numpy as np

from jointglasso._display import ReprMixin
from jointglasso._typing import FloatArray


class ConvergenceWarning(UserWarning):
    """The tolerance was not reached; the solution's gap still bounds how far it is from the optimum."""


@dataclass(frozen=True, repr=False)
class Certificate(ReprMixin):
    """Bound on the suboptimality, from a dual feasible point of the full problem, screened pairs included.

    The optimum F* satisfies ``dual_objective <= F* <= objective``; `gap` is their difference. Both bounds hold in exact
    arithmetic: they include the rounding errors.

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
    """Gap of each independent group, in the order of ``partition.groups()``; their sum is `gap`, up to rounding."""
    edges_present: int
    """Number of entries i < j, over all classes, certified to be non-zero in the exact solution."""
    edges_absent: int
    """Number of entries certified to be zero in the exact solution, screened-out entries included."""
    edges_undetermined: int
    """Number of entries for which the gap is too large to certify either."""
    rounding: float = 0.0
    """Part of `gap` that bounds the rounding errors of the objective and of the dual value."""
    unit: float = 1.0
    """Mean weight of the classes; lower limit of the denominator of the relative gap."""
    edge_gap: float = math.inf
    """Gap below which the weakest edge, and with it every edge, is certified: the gap of its group, or `gap` where
    dynamic screening is not certified; infinite without edges or if unknown."""

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
        within = f"Certified to be within {self.relative_gap:.1e} (relative) of the optimum"
        return [within, {name: [f"{value[0]:.8g}"] for name, value in bounds.items()} | edges]

    def relative(self, gap: float) -> float:
        """A gap relative to ``max(unit, |objective|)``."""
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
    """Explanation in one sentence."""
    remedy: str = ""
    """Suggested action in one sentence."""
    code: str = ""
    """Machine-readable reason: "converged", "max_iter", "callback", "interrupt", "rounding", "tolerance" or
    "paper_rule"."""

    def __bool__(self) -> bool:
        return self.converged

    def __str__(self) -> str:
        return f"{self.reason} {self.remedy}".strip()


@dataclass(frozen=True)
class Iteration:
    """State after one iteration.

    `gap` is that of the problem restricted to the current partition, None if it was not computed. Only the certificate
    of the solution bounds the full problem, which includes the recheck after dynamic screening.

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
    """Estimated fraction of the work in finished groups, 0 to 1."""


#: Called after each iteration; a true return value stops the solve.
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
