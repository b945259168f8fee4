"""Desparsified estimates of many resamples of one data set: permutations, bootstrap samples.

Resamples are rows of the scores. Polychoric, polyserial and Spearman's correlations and those of pairs of observed
values are not the correlations of any scores: they are recomputed for every resample; p + 1 artificial scores with
these correlations then take the place of the samples.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import helmert

from jointglasso import config
from jointglasso._typing import FloatArray, IntArray
from jointglasso.data import CovarianceSource, DenseCovariance
from jointglasso.data.checks import InputError
from jointglasso.data.kinds import VariableKinds
from jointglasso.data.prepare import Preparation
from jointglasso.data.ranks import NormalScores
from jointglasso.data.samples import Samples
from jointglasso.engine.executors import TaskBatch, TaskProgress
from jointglasso.inference.standard_errors import Residuals, moderated_factors, variance_of_sum
from jointglasso.inference.support import find_support, penalty_of
from jointglasso.penalties import GroupPenalty
from jointglasso.selection.solves import WorkerPool
from jointglasso.selection.support_fit import sweep


@dataclass(frozen=True)
class Scores:
    """Samples (n_k, p) of K classes, whose rows are resampled, those of a subject together where `subjects` are known.

    Subjects are numbered from 0 within their class.
    """

    parts: Sequence[FloatArray]
    subjects: list[IntArray] | None

    @property
    def sizes(self) -> list[int]:
        """Rows of each class."""
        return [len(part) for part in self.parts]

    def bootstrap(self, rng: np.random.Generator) -> list[FloatArray]:
        """Scores of a bootstrap sample of every class."""
        return self.scores(self.bootstrap_rows(rng))

    def bootstrap_rows(self, rng: np.random.Generator) -> list[FloatArray]:
        """Samples of every class drawn with replacement."""
        if self.subjects is None:
            return [part[rng.integers(0, len(part), len(part))] for part in self.parts]
        out = []
        for part, subjects in zip(self.parts, self.subjects, strict=True):
            drawn = rng.integers(0, subjects.max() + 1, subjects.max() + 1)
            out.append(part[np.concatenate([np.flatnonzero(subjects == subject) for subject in drawn])])
        return out

    def subsample(self, fraction: float, rng: np.random.Generator) -> list[FloatArray]:
        """Scores of the samples of every class without a fraction of its subjects."""
        rows = []
        for subjects in self.subjects or [np.arange(n) for n in self.sizes]:
            n = int(subjects.max()) + 1
            rows.append(np.isin(subjects, rng.permutation(n)[: round((1.0 - fraction) * n)]))
        return self.scores([part[remaining] for part, remaining in zip(self.parts, rows, strict=True)])

    def permuted(self, order: IntArray) -> list[FloatArray]:
        """Scores of the classes after a permutation of the pooled rows."""
        return self.scores(np.split(np.vstack(self.parts)[order], np.cumsum(self.sizes)[:-1]))

    def scores(self, parts: list[FloatArray]) -> list[FloatArray]:
        """Scores of a resample of the rows: the rows themselves."""
        return parts


@dataclass(frozen=True)
class Recomputed(Scores):
    """Samples whose correlations are computed again for every resample, and how they are computed."""

    samples: Samples
    preparation: Preparation

    @classmethod
    def of(cls, samples: Samples, preparation: Preparation) -> Recomputed:
        """Rows of the samples of each class, without subjects."""
        return cls(samples.matrices, None, samples, preparation)

    def with_margins_removed(self) -> Recomputed:
        """The same with normal scores within each class for the variables that are not ordinal.

        Those of zero-inflated variables are moved to (0, 1), beside zeros that remain. Rows can then be permuted
        between classes of different means, variances and margins.
        """
        if self.preparation.association == "pearson":
            parts = [(X - np.nanmean(X, axis=0)) / np.nanstd(X, axis=0) for X in self.parts]
        else:
            kinds = VariableKinds.of(self.samples, self.preparation.association)
            parts = [kinds.without_margins(X, NormalScores(X).scores) for X in self.parts]
        return Recomputed.of(self.samples.with_parts(parts), self.preparation)

    def correlations(self, parts: list[FloatArray]) -> list[FloatArray]:
        """Correlation matrices (p, p) of a resample."""
        return matrices_of(self.preparation.for_resamples()(self.samples.with_parts(parts)).source)

    def scores(self, parts: list[FloatArray]) -> list[FloatArray]:
        """Artificial scores with the correlations of a resample."""
        return [scores_with(R) for R in self.correlations(parts)]


def matrices_of(source: CovarianceSource) -> list[FloatArray]:
    """Matrices (p, p) of every class."""
    every = slice(0, source.n_variables)
    return [source.tile(k, every, every) for k in range(len(source.class_names))]


def scores_with(R: FloatArray) -> FloatArray:
    """(p + 1, p): centred columns whose correlations are `R`."""
    values, vectors = np.linalg.eigh(R)
    root = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
    return np.asarray(np.sqrt(len(R) + 1.0) * helmert(len(R) + 1).T @ root)


#: Entries of the correlation matrices (K p^2 each) in one batch of resamples.
_PIECE = 1_000_000

#: Change of a covariance in a sweep at which a fit on a support has converged; gap of a penalised fit per variable.
_TOL, _GAP = 1e-6, 1e-10

#: Most sweeps over the columns for the support, and for the fit on it.
_MAX_SWEEPS, _MAX_REFIT_SWEEPS = 100, 400

#: Diagonal entry of Theta, on the scale of correlations, above which an estimate counts as diverging.
_DIVERGED = 1e6

#: Maximum number of variables: the time of a resample grows with its cube.
LARGEST = 1_000


#: Samples (n_k, p) of the K classes in the resample of a random generator; None, for a seed None, gives the data.
Draw = Callable[[Any], list[FloatArray]]


@dataclass(frozen=True)
class Estimator:
    """Estimates z and standard errors of every pair from samples of K classes, as in `infer`.

    Parameters
    ----------
    sizes : array (K,)
        Effective sample size of each class.
    weights : array (K,)
        Class weights of the support step.
    penalty_multiplier : float, default 1.0
        Factor c of the penalty of the support step.
    dilution : list of arrays (p, p), optional
        As in `Residuals`, for missing values that were drawn.
    """

    sizes: FloatArray
    weights: FloatArray
    penalty_multiplier: float = 1.0
    dilution: list[FloatArray] | None = None

    def summaries(
        self,
        draw: Draw,
        seeds: Sequence[Any],
        summary: Callable[..., Any],
        workers: WorkerPool,
        progress: Callable[[int], object],
        *,
        with_se: bool = False,
    ) -> list[Any]:
        """``summary(z)`` of the resample of every seed, z an array (P, K) over the pairs of the upper triangle.

        `with_se`: ``summary(z, error, variance)``, with moderated standard errors, and Var(w'z) (K,) by weights w.
        ``progress(n)`` is called after each n resamples.
        """
        p = _drawn(draw, seeds[0])[0].shape[1]
        if p > LARGEST:
            raise InputError(f"Resampling takes too long for {p:,} variables: choose at most {LARGEST:,} of them.", "X")
        step = max(1, min(16, _PIECE // (len(self.sizes) * p * p)))
        batches = [seeds[start : start + step] for start in range(0, len(seeds), step)]

        def finish(number: int, values: list[Any]) -> list[Any]:
            progress(len(values))
            return values

        work = TaskBatch(_summaries, batches, (self, draw, summary, with_se), finish=finish)
        return [value for values in workers.do(work) for value in values]

    def estimate_batch(self, draws: Sequence[list[FloatArray]], with_se: bool) -> list[tuple[Any, ...]]:
        """Estimates z (P, K) of each draw, alone or as `summaries` passes them on `with_se`."""
        problems = [[_standardised(X) for X in samples] for samples in draws]
        return [self._estimate(*fitted, with_se) for fitted in zip(problems, self.fit(problems), strict=True)]

    def fit(self, problems: Sequence[list[FloatArray]]) -> list[list[FloatArray]]:
        """Maximum likelihood estimates on the supports; by the general solver where the sweeps do not converge."""
        S = np.array([[Z.T @ Z / len(Z) for Z in scores] for scores in problems])
        penalty = GroupPenalty(*penalty_of(S.shape[-1], self.sizes, self.penalty_multiplier))
        fits = map(fit_on_support, S, sweep_resamples(S, self.weights, penalty))
        return [self._fit_by_solver(S[n]) if fit is None else fit for n, fit in enumerate(fits)]

    def _fit_by_solver(self, S: FloatArray) -> list[FloatArray]:
        c, w = self.penalty_multiplier, self.weights
        support = find_support(DenseCovariance(list(S)), self.sizes, penalty_multiplier=c, weights=w)
        return [Theta.toarray() for Theta in support.precision]

    def _estimate(self, scores: list[FloatArray], precision: list[FloatArray], with_se: bool) -> tuple[Any, ...]:
        upper = np.triu_indices(scores[0].shape[1], 1)
        dilution: Sequence[FloatArray | None] = self.dilution or [None] * len(scores)
        residuals = [*map(Residuals, scores, precision, dilution)]
        rho = [part.all_pairs() for part in residuals]
        z = np.column_stack([np.arctanh(matrix[upper]) for matrix in rho])
        if not with_se:
            return (z,)
        factors = [moderated_factors(part, R)[upper] for part, R in zip(residuals, rho, strict=True)]

        def variance(weight: FloatArray) -> FloatArray:
            used = np.flatnonzero(weight)
            i, j = upper[0][used], upper[1][used]
            of_class = [
                variance_of_sum(part, i, j, R[i, j], weight[used]) for part, R in zip(residuals, rho, strict=True)
            ]
            return np.array(of_class) / (self.sizes - 3.0)

        return z, np.sqrt(np.column_stack(factors) / (self.sizes - 3.0)), variance


def _summaries(seeds: Sequence[Any], shared: tuple[Estimator, Draw, Any, bool], progress: TaskProgress) -> list[Any]:
    """Summaries of the resamples with these seeds."""
    estimator, draw, summary, with_se = shared
    draws = [_drawn(draw, seed) for seed in seeds]
    return [summary(*estimates) for estimates in estimator.estimate_batch(draws, with_se)]


def _drawn(draw: Draw, seed: Any) -> list[FloatArray]:
    return draw(None if seed is None else np.random.default_rng(seed))


def _standardised(X: FloatArray) -> FloatArray:
    """Centred columns of variance 1; columns that are constant in a resample are zero."""
    centred = X - X.mean(axis=0)
    deviation = np.sqrt(np.einsum("ij,ij->j", centred, centred) / len(X))
    return centred / np.where(deviation > 1e-12, deviation, 1.0)


def sweep_resamples(S: FloatArray, weights: FloatArray, penalty: GroupPenalty) -> list[FloatArray | None]:
    """Joint graphical lasso with unpenalised diagonal of each resample, theta (K, p, p); None where it failed.

    The resamples S (B, K, p, p) are groups of one system: no screening, no certificate, one call of the sweeps.
    """
    from jointglasso.kernels.pair_types import Blocks
    from jointglasso.kernels.small_columns import GroupIndex, SweepLimits, SweepWorkspace, ascend_small_groups

    n_problems, n_classes, p, _ = S.shape
    block = np.arange(n_problems * n_classes + 1)
    members, size = np.tile(np.arange(p), n_problems * n_classes), np.full(len(block) - 1, p)
    groups = GroupIndex(block[::n_classes].copy(), block[:-1], block[:-1] % n_classes, members, p, n_classes)
    blocks = Blocks(block * p * p, size, block * p, np.tile(weights, n_problems), S.ravel(), np.empty(0))
    limits = SweepLimits(np.full(n_problems, _GAP * p), _MAX_SWEEPS, penalty.scale, *config.COLUMN_TOLERANCE)
    theta, W = np.zeros_like(S), S.copy()
    diagonal, variance, of_W = (np.einsum("...ii->...i", matrices) for matrices in (theta, S, W))
    diagonal[:] = start = (1.0 - 1e-3) / variance  # kept where a group fails, and no solution
    of_W[:] = 0.0  # shrink the off-diagonal of W within the dual ball
    largest = (weights * np.abs(W).max(axis=(2, 3))).max(axis=1)
    W *= (1.0 - np.minimum(1.0, penalty.box_radius(n_classes) / np.maximum(largest, 1e-300)))[:, None, None, None]
    of_W[:] = variance
    flat, selected = theta.reshape(-1), np.ones(n_problems, dtype=bool)
    workspace = SweepWorkspace.allocate(groups, blocks, 0, penalty.workspace_size(n_classes))
    sweeps = ascend_small_groups(penalty.pair, groups, blocks, limits, flat, W.reshape(-1), selected, workspace)
    failed = (sweeps >= _MAX_SWEEPS) | (diagonal == start).any(axis=(1, 2))
    return [None if failed[n] else theta[n] for n in range(n_problems)]


def fit_on_support(S: FloatArray, theta: FloatArray | None) -> list[FloatArray] | None:
    """Maximum likelihood on the support of theta (K, p, p), class by class; None where it did not converge.

    From the penalised W it takes few sweeps, but may lose definiteness; from a positive definite S it cannot.
    """
    fits: list[FloatArray] = []
    for R, Theta in zip(S, () if theta is None else theta, strict=False):
        rows, neighbours = np.nonzero(Theta - np.diag(np.diagonal(Theta)))
        first = np.searchsorted(rows, np.arange(len(R) + 1))
        start = np.linalg.inv(Theta)
        scale = np.sqrt(np.diagonal(R) / np.diagonal(start))
        for W in (start * np.outer(scale, scale), R.copy()):
            fit = sweep(R, first, neighbours, 0.01 * _TOL, _MAX_REFIT_SWEEPS, _DIVERGED, W)
            if fit is not None:
                fits.append(fit)
                break
    return fits if len(fits) == len(S) else None
