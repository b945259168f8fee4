"""Evaluation of a selection criterion at one point (lambda1, lambda2)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from jointglasso._typing import FloatArray
from jointglasso.data import CovarianceSource
from jointglasso.engine import SolveOptions, solve_with
from jointglasso.selection.criteria import GraphSize, model_complexity, price_of_edge, sample_sizes
from jointglasso.selection.grids import strength
from jointglasso.selection.likelihood import deviance_error, deviances
from jointglasso.selection.low_rank_fit import degrees_of_freedom, low_rank_deviances, measured_precision
from jointglasso.selection.relaxed import relaxed_deviances
from jointglasso.solution import Solution

#: Scores of information criteria closer than this are ties: each is computed to about half of it.
TIE = 0.2

#: Error of a score from undecided edges up to which it is taken as exact.
SETTLED = 0.5 * TIE


@dataclass(frozen=True)
class Evaluation:
    """Score of a point (smaller is better), with the edges and the convergence of its solves."""

    lambda1: float
    lambda2: float
    score: float
    edges: FloatArray
    """(K,): edges of each class; with folds or subsamples, the mean over them."""
    gap: float
    """Largest relative duality gap of the solves."""
    n_failed: int
    """Solves that stopped before their tolerance."""
    solutions: tuple[Solution, ...] = ()
    """Warm starts for neighbouring points; dropped for all but the best point of a column to save memory."""
    details: dict[str, float] = field(default_factory=dict)
    """Further columns of the table."""

    @property
    def score_error(self) -> float:
        """How much smaller the score of the exact solution may be; 0 where its edges are proved, or unknown."""
        return self.details.get("score_error", 0.0)


#: Solution of one part of the samples (all, a training fold or a subsample) at a point, and its part of the criterion.
Solved = tuple[Solution, float]


class Evaluator(ABC):
    """Base class of criteria: solves the parts of a point, possibly in other processes, and scores the point.

    Parameters
    ----------
    name : str
        Name of the criterion in messages.
    parts : list of (CovarianceSource, Any)
        Covariances solved at each point, with the data that scoring needs (held-out samples, or None).
    options : SolveOptions
        Options of the solves.
    """

    tie = 0.0
    """Scores that differ by at most this are ties."""

    def __init__(self, name: str, parts: Sequence[tuple[CovarianceSource, Any]], options: SolveOptions) -> None:
        self.name, self.options = name, options
        self.parts: list[Any] = list(parts)

    @property
    def solves(self) -> int:
        """Number of solves per point."""
        return len(self.parts)

    def with_part(self, number: int) -> Evaluator:
        """Copy with the data of this part only, to be sent to a worker."""
        restricted = copy(self)
        restricted.parts = [part if n == number else (None, None) for n, part in enumerate(self.parts)]
        return restricted

    def solve_part(self, number: int, lambda1: float, lambda2: float, before: Solution | None) -> Solved:
        """Solve one part, warm-started from its solution `before` at another point."""
        source, known = self.parts[number]
        part = "all" if self.solves == 1 else f"part-{number + 1}"
        solution = solve_point(source, lambda1, lambda2, before, self.options, part)
        return solution, self.score_part(source, known, solution)

    def evaluate(self, lambda1: float, lambda2: float, solved: Sequence[Solved]) -> Evaluation:
        """Score a point from the solutions of all its parts."""
        score, details = self.score(solved)
        solutions = tuple(solution for solution, _ in solved)
        edges = np.mean([solution.n_edges for solution in solutions], axis=0)
        gap = max(solution.certificate.relative_gap for solution in solutions)
        n_failed = sum(not solution.status.converged for solution in solutions)
        return Evaluation(lambda1, lambda2, score, edges, gap, n_failed, solutions, details)

    def choose(self, points: Sequence[Evaluation]) -> int:
        """Position of the chosen point: the smallest score, and of ties the least shrunken estimate.

        Columns often lead to the same graph and hence to tied scores.
        """
        least = min(point.score for point in points) + self.tie
        tied_points = [n for n, point in enumerate(points) if point.score <= least]
        return min(tied_points, key=lambda n: (strength(points[n].lambda1, points[n].lambda2), n))

    def score_part(self, source: CovarianceSource, known: Any, solution: Solution) -> float:
        """Score of one part, computed by the worker that solved it."""
        return 0.0

    @abstractmethod
    def score(self, solved: Sequence[Solved]) -> tuple[float, dict[str, float]]:
        """Score of a point, and further columns of the table."""


def solve_point(
    source: CovarianceSource,
    lambda1: float,
    lambda2: float,
    before: Solution | None,
    options: SolveOptions,
    part: str = "all",
) -> Solution:
    """Solve from a warm start; with the option ``checkpoint``, in a subfolder per point and part."""
    folder = options.checkpoint
    if folder is not None:
        folder = Path(folder) / f"{lambda1:.9g}-{lambda2:.9g}-{part}"
    return solve_with(source, lambda1, lambda2, replace(options, warm_start=before, checkpoint=folder))


class Information(Evaluator):
    """Information criterion at the maximum likelihood on the support, or (not `relaxed`) at the penalised estimate."""

    tie = TIE

    def __init__(
        self, source: CovarianceSource, criterion: str, gamma: float, relaxed: bool, options: SolveOptions
    ) -> None:
        extended = {"ebic": "extended BIC", "jbic": "joint extended BIC"}
        name = f"{extended[criterion]} (gamma={gamma:g})" if criterion in extended else criterion.upper()
        super().__init__(name + ("" if relaxed else " of the penalised matrices"), [(source, None)], options)
        self._criterion, self._gamma, self._relaxed = criterion, gamma, relaxed
        self._sizes = sample_sizes(source)

    def score(self, solved: Sequence[Solved]) -> tuple[float, dict[str, float]]:
        """Score of the single part (all samples), its undecided entries and how much they may lower it."""
        ((solution, score),), (source, _) = solved, self.parts[0]
        if self.options.latent is not None:  # the gap proves no edge of A
            return score, {}
        return score, self._undecided(source, solution)

    def _undecided(self, source: CovarianceSource, solution: Solution) -> dict[str, float]:
        """Number of undecided entries, and how much smaller the score of the exact solution may be.

        Each undecided entry counts the price of an edge. Where the penalised matrices are scored, the gap bounds their
        deviance, and only entries that may not be edges can lower the score further.
        """
        certificate = solution.certificate
        not_proved = sum(solution.n_edges) - certificate.edges_present + _undecided_values(solution)
        undecided = certificate.edges_undetermined + _undecided_values(solution)
        counted, error = undecided, 0.0
        if not self._relaxed:
            counted, error = not_proved, deviance_error(source, solution, self._sizes)
        if counted:
            size = GraphSize.of(solution.precision, self._sizes, solution.edge_clusters)
            error += counted * price_of_edge(self._criterion, size, self._sizes, source.n_variables, self._gamma)
        return {"undecided": float(undecided), "score_error": error}

    def score_part(self, source: CovarianceSource, known: Any, solution: Solution) -> float:
        """The criterion of a solution; infinite where its degrees are too large for n_k, or without a maximum."""
        latent = solution.low_rank if solution.has_latent else None  # classes are then refitted separately
        size = GraphSize.of(solution.precision, self._sizes, None if latent else solution.edge_clusters)
        complexity = model_complexity(self._criterion, size, len(self._sizes), source.n_variables, self._gamma)
        if not np.isfinite(complexity):  # before the refit, which takes long where there is no maximum
            return np.inf
        if latent is not None:
            cost = 2.0 if self._criterion == "aic" else np.log(self._sizes)
            complexity += float((cost * degrees_of_freedom(source.n_variables, np.array(latent.ranks))).sum())
        if self._relaxed:
            refitted = relaxed_deviances if latent is None else low_rank_deviances
            deviance = refitted(source, solution, self._sizes)
        else:
            deviance = deviances(source, measured_precision(solution))
        return np.inf if deviance is None else float((self._sizes * deviance).sum()) + complexity


def _undecided_values(solution: Solution) -> int:
    """Number of values of which it is undecided whether classes share them (fused penalties)."""
    clusters = solution.edge_clusters
    if clusters is None or not len(clusters.rows):
        return 0
    present = clusters.present(solution.precision)
    one, two = clusters.neighbours.T
    open_comparisons = (~clusters.proved & present[:, one] & present[:, two]).sum(axis=1)
    return int(np.minimum(open_comparisons, np.maximum(present.sum(axis=1) - 1, 0)).sum())
