"""Evaluation of a selection criterion at one point (lambda1, lambda2): information, held-out likelihood, stability.

StARS (Liu, Roeder and Wasserman, 2010) chooses the weakest penalty whose instability over subsamples is below a
threshold, here with one network per class.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils import check_random_state

from jointglasso._typing import FloatArray
from jointglasso._wording import count
from jointglasso.data import CovarianceSource
from jointglasso.data.checks import InputError
from jointglasso.data.kinds import LATENT
from jointglasso.data.missing import handle_missing
from jointglasso.engine import SolveOptions, solve_with
from jointglasso.errors import argument
from jointglasso.selection.criteria import GraphSize, model_complexity, price_of_edge, sample_sizes
from jointglasso.selection.em import prepared
from jointglasso.selection.grids import LambdaGrid, strength
from jointglasso.selection.likelihood import (
    degrees_of_freedom,
    deviance_error,
    deviances,
    held_out_loss,
    low_rank_deviances,
    measured_precision,
)
from jointglasso.selection.relaxed import default_relaxation, refit, relaxed_deviances
from jointglasso.selection.resampling import Part, SelectionData, Sizes, complement, draw, edges_of, stratified_folds
from jointglasso.selection.support_fit import PERFECT
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


def refuse_duplicates(source: CovarianceSource, solution: Solution) -> None:
    """Refuse variables with an edge and correlation 1 or -1: no graph with their edge has a likelihood.

    In classes of two or three samples such correlations are chance.
    """
    for k, (name, Theta) in enumerate(zip(source.class_names, solution.precision, strict=True)):
        i, j = sparse.triu(Theta, 1).nonzero()
        variance, covariance = source.diagonal(k), source.entries(k, i, j)
        equal = np.flatnonzero(covariance**2 >= PERFECT * variance[i] * variance[j])
        if len(equal) and (source.sample_sizes is None or source.sample_sizes[k] > 3):
            pair = [source.variable_names[ends[equal[0]]] for ends in (i, j)]
            raise InputError(
                f"Variables {pair[0]!r} and {pair[1]!r} have correlation {np.sign(covariance[equal[0]]):.0f} in class "
                f"{name!r} ({count(len(equal), 'such pair')}), and no network with an edge between them has a "
                "likelihood: drop one of them.",
                "X",
                class_name=name,
                variable=pair[1],
            )


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


class Instability(Evaluator):
    """Instability of the edges over subsamples (StARS).

    With pi the fraction of subsamples in which a pair is an edge, it is the mean of ``2 pi (1 - pi)`` over all pairs
    and classes.
    """

    def __init__(self, data: SelectionData, n_subsamples: int, random_state: Any, options: SolveOptions) -> None:
        samples = data.require_samples("StARS")
        rng = check_random_state(random_state)
        parts = [draw(samples.sizes, subsample_sizes(samples.sizes), rng) for _ in range(n_subsamples)]
        preparation = data.preparation.for_resamples()
        sources = [prepared(preparation, samples.take(part)).source for part in parts]
        super().__init__(f"instability over {n_subsamples} subsamples", [(source, None) for source in sources], options)

    def score(self, solved: Sequence[Solved]) -> tuple[float, dict[str, float]]:
        """Instability from the selection frequency of each pair."""
        by_class = zip(*(solution.precision for solution, _ in solved), strict=True)
        frequencies = [sum(map(edges_of, matrices)).data / self.solves for matrices in by_class]
        n_classes, p = len(frequencies), solved[0][0].precision[0].shape[0]
        unstable = float(sum((2.0 * frequency * (1.0 - frequency)).sum() for frequency in frequencies))
        edges = float(np.mean([solution.n_edges for solution, _ in solved], axis=0).sum())
        return unstable / (max(1, p * (p - 1) // 2) * n_classes), {"subsample_edges": edges}


def monotone(grid: LambdaGrid, instability: FloatArray) -> FloatArray:
    """Running maximum of the instability along each column; NaN where it was not computed."""
    out = instability.copy()
    for column in range(grid.n_columns):
        points = grid.points_of(column)
        out[points] = np.maximum.accumulate(instability[points])
    return out


def choose(grid: LambdaGrid, instability: FloatArray, mean_edges: FloatArray, beta: float) -> int:
    """Point with the most edges among the last stable points of the columns.

    A column's last stable point is its weakest penalty with monotone instability at most `beta`. If even the first
    points are unstable, the first point of the most stable column is taken.
    """
    columns = [grid.points_of(column) for column in range(grid.n_columns)]
    columns = [points for points in columns if not np.isnan(instability[points[0]])]
    last = [points[instability[points] <= beta][-1] for points in columns if instability[points[0]] <= beta]
    if not last:
        return int(min((points[0] for points in columns), key=lambda point: instability[point]))
    return int(max(last, key=lambda point: (mean_edges[point], -point)))


def subsample_sizes(sizes: Sizes) -> list[int]:
    """Subsample size of each class: ``10 sqrt(n)`` for n >= 144, else 0.8 n, and at least 2."""
    return [max(2, int(10 * np.sqrt(n) if n >= 144 else 0.8 * n)) for n in sizes]


class CrossValidated(Evaluator):
    """Loss per held-out sample: the mean of ``<S, Theta> - log det Theta`` with S of the held-out samples.

    Held-out samples are centred, and on the correlation scale standardised, by the training samples of their class.
    For rank associations they are turned into normal scores by the training distribution. Missing values are
    treated as in training: incomplete samples dropped, or S computed pair by pair.
    """

    def __init__(self, data: SelectionData, folds: list[Part], options: SolveOptions) -> None:
        samples = data.require_samples("Cross-validation")
        association = data.preparation.association
        if association in LATENT:
            raise InputError(
                f"{argument('criterion', 'cv')} has no likelihood of samples of latent variables "
                f"({argument('association', association)}): use 'jbic'.",
                "criterion",
            )

        def prepare(held_out: Part) -> tuple[CovarianceSource, list[FloatArray]]:
            """Covariances of the training samples, and the held-out samples standardised by the training moments."""
            training = prepared(data.preparation.for_resamples(), samples.take(complement(held_out, samples.sizes)))
            test = handle_missing(samples.take(held_out), data.preparation.missing, smallest=0)
            return training.source, [training.scores(k, X) for k, X in enumerate(test.matrices)]

        name = f"held-out loss per sample, {len(folds)} folds"
        super().__init__(name, [prepare(held_out) for held_out in folds], options)

    def score_part(self, source: CovarianceSource, known: list[FloatArray], solution: Solution) -> float:
        """Total loss of the held-out samples of a fold."""
        return _loss(known, measured_precision(solution))

    def score(self, solved: Sequence[Solved]) -> tuple[float, dict[str, float]]:
        """Mean loss per held-out sample over all folds, with its standard error and the mean of each fold."""
        losses = np.array([score for _, score in solved])
        sizes = np.array([sum(map(len, held_out)) for _, held_out in self.parts], dtype=float)
        per_sample = losses / np.maximum(sizes, 1.0)
        error = per_sample.std(ddof=1) / np.sqrt(len(losses)) if len(losses) > 1 else 0.0
        details = {"standard_error": float(error)} | {f"fold{n + 1}": float(v) for n, v in enumerate(per_sample)}
        return float(losses.sum() / max(sizes.sum(), 1.0)), details

    def choose(self, points: Sequence[Evaluation]) -> int:
        """One-standard-error rule: the point with the fewest edges whose loss is within one standard error of the best.

        The standard error is that of the differences of the fold losses, since the folds are the same for all points.
        The point of smallest loss tends to select too many edges.
        """
        losses = np.array([[point.details[f"fold{n + 1}"] for n in range(self.solves)] for point in points])
        difference = losses - losses[int(np.argmin([point.score for point in points]))]
        error = difference.std(axis=1, ddof=1) / np.sqrt(self.solves) if self.solves > 1 else np.zeros(len(points))
        candidates = np.flatnonzero(difference.mean(axis=1) <= error).tolist()
        return int(min(candidates, key=lambda n: (points[n].edges.sum(), points[n].score)))


#: Folds, smallest class and largest number of variables for which the relaxation is cross-validated.
N_FOLDS, MIN_SAMPLES, MAX_VARIABLES = 5, 15, 1000

#: Relaxations phi that compete with `default_relaxation`, the same in all classes.
CANDIDATES = (0.0, 0.25, 0.5, 0.75, 1.0)


def choose_relaxation(data: SelectionData, solution: Solution, options: SolveOptions) -> tuple[FloatArray, str]:
    """phi_k (K,) for the refit of a chosen solution, and a sentence about the held-out likelihood, empty without one.

    `default_relaxation`, unless another candidate has a smaller held-out loss by more than one standard error of the
    difference over the folds. In each fold the support is estimated again, with the penalties raised by the root of the
    ratio of sample sizes: on a support that the held-out samples helped to choose, the maximum likelihood looks better
    than it is.
    """
    default = default_relaxation(data.source)
    phis = [default, *(np.full(len(default), phi) for phi in CANDIDATES)]
    if not can_hold_out(data) or solution.has_latent or not any(solution.n_edges):
        return default, ""
    loss = held_out_losses(data, solution, options, phis)
    change = loss[:, :-1] - loss[:, :1]
    error = change.std(axis=0, ddof=1) / np.sqrt(len(loss))
    mean = change.mean(axis=0)
    best = int(np.argmin(np.where(mean < -error, mean, 0.0)))
    shown, empty_loss = -0.5 * loss.mean(axis=0)[[best, -1]]
    sentence = (
        f"Log-likelihood per held-out sample ({N_FOLDS} folds, constants left out): {shown:.4g} with these values, "
        f"{empty_loss:.4g} without edges."
    )
    return phis[best], sentence


def can_hold_out(data: SelectionData) -> bool:
    """Whether the samples are known and suffice for a cross-validated likelihood."""
    samples = data.samples
    return (
        samples is not None
        and samples.sample_fraction == 1.0
        and data.preparation.association not in LATENT
        and min(samples.sizes) >= MIN_SAMPLES
        and samples.n_variables <= MAX_VARIABLES
    )


def held_out_losses(
    data: SelectionData, solution: Solution, options: SolveOptions, phis: Sequence[FloatArray]
) -> FloatArray:
    """(N_FOLDS, len(phis) + 1): loss per held-out sample with each relaxation, and of the empty network."""
    samples = data.require_samples("Cross-validation")
    folds = CrossValidated(data, stratified_folds(samples.sizes, N_FOLDS, 0), options).parts
    factor = (N_FOLDS / (N_FOLDS - 1.0)) ** 0.5
    lambda1, lambda2 = (factor * float(solution.parameters[name]) for name in ("lambda1", "lambda2"))
    losses = []
    for source, held_out in folds:
        fitted = solve_point(source, lambda1, lambda2, None, replace(options, checkpoint=None))
        estimates = [refit(source, fitted, relaxation=phi, on_failure="ridge", tol=1e-4).precision for phi in phis]
        empty = [sparse.diags_array(1.0 / np.maximum(source.diagonal(k), 1e-300)) for k in range(source.n_classes)]
        n = sum(map(len, held_out))
        losses.append([_loss(held_out, precision) / n for precision in [*estimates, empty]])
    return np.array(losses)


def _loss(held_out: list[FloatArray], precision: list[Any]) -> float:
    return sum(held_out_loss(Z, Theta) for Z, Theta in zip(held_out, precision, strict=True))
