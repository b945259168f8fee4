"""What a criterion says of one point (lambda1, lambda2)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

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


@dataclass(frozen=True)
class Solved:
    """One part of the samples, solved at a point."""

    solution: Solution
    score: float = 0.0
    """What the criterion makes of this part alone."""


class Evaluator(ABC):
    """A criterion at work: solves the parts of a point, wherever that is done, and then scores the point.

    Parameters
    ----------
    name : str
        The criterion in words.
    parts : list of (CovarianceSource, Any)
        What is solved at each point, and what the criterion needs to judge it.
    options : dict
        Options of the solves.
    """

    tie = 0.0
    """Difference of two scores that means nothing."""

    def __init__(self, name: str, parts: Sequence[tuple[CovarianceSource, Any]], options: dict[str, Any]) -> None:
        self.name, self.options = name, options
        self.parts: list[Any] = list(parts)

    @property
    def solves(self) -> int:
        """Solves for each point."""
        return len(self.parts)

    def with_parts(self, numbers: range) -> Evaluator:
        """Itself without the other parts, for a journey."""
        light = copy(self)
        light.parts = [part if n in numbers else (None, None) for n, part in enumerate(self.parts)]
        return light

    def solve_part(self, number: int, lambda1: float, lambda2: float, before: Solution | None) -> Solved:
        """Solve one part, from its solution at another point."""
        source, known = self.parts[number]
        part = "all" if self.solves == 1 else f"part-{number + 1}"
        solution = solve_point(source, lambda1, lambda2, before, self.options, part)
        return Solved(solution, self.score_part(source, known, solution))

    def evaluate(self, lambda1: float, lambda2: float, solved: Sequence[Solved]) -> Evaluation:
        """Score a point whose parts are solved."""
        score, details = self.score(solved)
        return Evaluation.of((lambda1, lambda2), score, [part.solution for part in solved], **details)

    def score_part(self, source: CovarianceSource, known: Any, solution: Solution) -> float:
        """What can be said of a part where it was solved."""
        return 0.0

    @abstractmethod
    def score(self, solved: Sequence[Solved]) -> tuple[float, dict[str, float]]:
        """Score of a point, and further columns of the table."""


def solve_point(
    source: CovarianceSource,
    lambda1: float,
    lambda2: float,
    before: Solution | None,
    options: dict[str, Any],
    part: str = "all",
) -> Solution:
    """Solve from another solution, with a checkpoint of its own."""
    folder = options.get("checkpoint")
    if folder is not None:
        options = {**options, "checkpoint": Path(folder) / f"{lambda1:.9g}-{lambda2:.9g}-{part}"}
    return solve(source, lambda1, lambda2, warm_start=before, **options)


class Information(Evaluator):
    """An information criterion, at the maximum likelihood on the edges or (not `relaxed`) at the penalised matrices."""

    tie = TIE

    def __init__(
        self, source: CovarianceSource, criterion: str, gamma: float, relaxed: bool, options: dict[str, Any]
    ) -> None:
        extended = {"ebic": "extended BIC", "jbic": "joint extended BIC"}
        name = f"{extended[criterion]} (gamma={gamma:g})" if criterion in extended else criterion.upper()
        super().__init__(name + ("" if relaxed else " of the penalised matrices"), [(source, None)], options)
        self._criterion, self._gamma, self._relaxed = criterion, gamma, relaxed
        self._sizes = sample_sizes(source)

    def score(self, solved: Sequence[Solved]) -> tuple[float, dict[str, float]]:
        """That of the only part."""
        return solved[0].score, {}

    def score_part(self, source: CovarianceSource, known: Any, solution: Solution) -> float:
        """The criterion of a solution; infinite where the likelihood has no maximum."""
        if self._relaxed:
            lost = relaxed_deviances(source, solution, self._sizes)
        else:
            lost = deviances(source, solution.precision)
        if lost is None:
            return np.inf
        size = GraphSize.of(solution.precision, self._sizes, solution.sameness)
        added = charge(self._criterion, size, len(self._sizes), source.n_variables, self._gamma)
        return float((self._sizes * lost).sum()) + added
