"""What a criterion says of one point (lambda1, lambda2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from jointglasso._typing import FloatArray
from jointglasso.covariance import CovarianceSource
from jointglasso.engine import solve
from jointglasso.selection.criteria import GraphSize, charge, sample_sizes
from jointglasso.selection.likelihood import deviances
from jointglasso.selection.relaxed import relaxed_deviances
from jointglasso.solution import Solution

#: Difference of two information criteria that means nothing: they are computed to about half of it.
TIE = 0.2


@dataclass(frozen=True)
class Evaluation:
    """Score of a point, smaller being better, and what else is worth telling of it."""

    lambda1: float
    lambda2: float
    score: float
    edges: FloatArray
    """(K,): edges of each class on all samples; where only parts of them were solved, the mean over the parts."""
    gap: float
    """Largest relative gap of the solves."""
    n_failed: int
    """Solves that stopped before their tolerance."""
    solutions: tuple[Solution, ...] = ()
    """Warm starts for points nearby; let go where a better point is at hand."""
    details: dict[str, float] = field(default_factory=dict)
    """Further columns of the table."""

    @classmethod
    def of(cls, point: tuple[float, float], score: float, solutions: Sequence[Solution], **more: float) -> Evaluation:
        """With what all solutions of a point tell of it."""
        edges = np.mean([found.n_edges for found in solutions], axis=0)
        gap = max(found.certificate.relative_gap for found in solutions)
        failed = sum(not found.status.converged for found in solutions)
        return cls(*point, score, edges, gap, failed, tuple(solutions), more)


class Evaluator(Protocol):
    """A criterion at work: solves a point and scores it."""

    name: str
    """The criterion in words."""
    solves: int
    """Solves for each point."""
    tie: float
    """Difference of two scores that means nothing."""

    def __call__(self, lambda1: float, lambda2: float, start: Evaluation | None) -> Evaluation:
        """Solve and score a point, from the solutions of another one."""
        ...


def solve_parts(
    sources: Sequence[CovarianceSource],
    lambda1: float,
    lambda2: float,
    start: Evaluation | None,
    options: dict[str, Any],
) -> list[Solution]:
    """One solve for each source, each from the solution that `start` has for it and with a checkpoint of its own."""
    warm = start.solutions if start is not None and start.solutions else (None,) * len(sources)
    folder = options.get("checkpoint")
    solutions = []
    for number, (source, before) in enumerate(zip(sources, warm, strict=True)):
        if folder is not None:
            part = "all" if len(sources) == 1 else f"part-{number + 1}"
            options = {**options, "checkpoint": Path(folder) / f"{lambda1:.9g}-{lambda2:.9g}-{part}"}
        solutions.append(solve(source, lambda1, lambda2, warm_start=before, **options))
    return solutions


class Information:
    """An information criterion, at the maximum likelihood on the edges or (not `relaxed`) at the penalised matrices."""

    solves = 1
    tie = TIE

    def __init__(
        self, source: CovarianceSource, criterion: str, gamma: float, relaxed: bool, options: dict[str, Any]
    ) -> None:
        extended = {"ebic": "extended BIC", "jbic": "joint extended BIC"}
        self.name = f"{extended[criterion]} (gamma={gamma:g})" if criterion in extended else criterion.upper()
        self.name += "" if relaxed else " of the penalised matrices"
        self._source, self._criterion, self._gamma, self._relaxed = source, criterion, gamma, relaxed
        self._sizes = sample_sizes(source)
        self._options = options

    def __call__(self, lambda1: float, lambda2: float, start: Evaluation | None) -> Evaluation:
        (solution,) = solve_parts([self._source], lambda1, lambda2, start, self._options)
        return Evaluation.of((lambda1, lambda2), self.score(solution), [solution])

    def score(self, solution: Solution) -> float:
        """The criterion of a solution; infinite where the likelihood has no maximum."""
        if self._relaxed:
            lost = relaxed_deviances(self._source, solution, self._sizes)
        else:
            lost = deviances(self._source, solution.precision)
        if lost is None:
            return np.inf
        size = GraphSize.of(solution.precision, self._sizes, solution.sameness)
        added = charge(self._criterion, size, len(self._sizes), self._source.n_variables, self._gamma)
        return float((self._sizes * lost).sum()) + added
