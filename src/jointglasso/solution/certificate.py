"""The proof that comes with a solution, and how the solve ended."""

from __future__ import annotations

import math
from dataclasses import dataclass

from jointglasso._typing import FloatArray


class ConvergenceWarning(UserWarning):
    """The tolerance was not reached; the solution's gap still bounds how far it is from the optimum."""


@dataclass(frozen=True)
class Certificate:
    """Proof of optimality: a dual feasible point of the whole problem, screened pairs included.

    The true optimum F* satisfies ``dual_objective <= F* <= objective``; `gap` is their difference. Both hold in exact
    arithmetic: what rounding may have done to them is included.
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

    def relative(self, gap: float) -> float:
        """A gap in units of the objective."""
        return gap / max(self.unit, abs(self.objective)) if math.isfinite(gap) else math.inf


@dataclass(frozen=True)
class Status:
    """How a solve ended."""

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
