"""Desparsified estimates of many resamples of one data set: permutations, bootstrap samples."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from scipy import sparse

from jointglasso._typing import FloatArray
from jointglasso.data import DenseCovariance
from jointglasso.data.checks import InputError
from jointglasso.engine.executors import TaskProgress
from jointglasso.inference.desparsified import Residuals
from jointglasso.inference.standard_errors import all_factors, mean_of_factors, moderated
from jointglasso.inference.support import find_support, penalty_of
from jointglasso.selection.solves import Tracker, WorkerPool

#: Entries of the correlation matrices (K p^2 each) in one batch of resamples.
_PIECE = 1_000_000

#: Change of a covariance in a sweep at which a fit has converged.
_TOL = 1e-6

#: Maximum number of variables: the time of a resample grows with its cube.
LARGEST = 1_000


class ResampledData(Protocol):
    """Resamples by number: ``draws(number)`` gives the samples (n_k, p) of the K classes. Sent to the workers."""

    stage: str
    """Name of the stage in the progress."""

    def __len__(self) -> int: ...

    def __call__(self, number: int, /) -> list[FloatArray]: ...


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

    def estimate(
        self, draws: ResampledData, summary: Callable[[FloatArray], Any], tracker: Tracker, workers: WorkerPool
    ) -> list[Any]:
        """``summary(z)`` of every draw, z an array (P, K) over the pairs of the upper triangle."""
        return _Repeats(self, draws, summary, judged=False).all(tracker, workers)

    def estimate_with_se(
        self,
        draws: ResampledData,
        summary: Callable[[FloatArray, FloatArray], Any],
        tracker: Tracker,
        workers: WorkerPool,
    ) -> list[Any]:
        """``summary(z, error)`` of every draw, with moderated standard errors."""
        return _Repeats(self, draws, summary, judged=True).all(tracker, workers)

    def estimate_batch(self, draws: Sequence[list[FloatArray]], judged: bool) -> list[tuple[FloatArray, ...]]:
        """Estimates z (P, K) of each draw, and their standard error if `judged`."""
        problems = [[_standardised(X) for X in samples] for samples in draws]
        of_one = self._estimate_with_se if judged else self._estimate_alone
        return [of_one(*fitted) for fitted in zip(problems, self._fit(problems), strict=True)]

    def _estimate_alone(self, scores: list[FloatArray], precision: list[FloatArray]) -> tuple[FloatArray, ...]:
        return _z_of(scores, precision, self.dilution)[:1]

    def _fit(self, problems: Sequence[list[FloatArray]]) -> list[list[FloatArray]]:
        """Maximum likelihood estimates on the supports; by the general solver where the kernel does not converge."""
        from jointglasso.kernels.small_support import fit_supports

        S = np.array([[Z.T @ Z / len(Z) for Z in scores] for scores in problems])
        lambda1, lambda2 = penalty_of(S.shape[-1], self.sizes, self.penalty_multiplier)
        theta, converged = np.empty_like(S), np.zeros(len(S), dtype=bool)
        fit_supports(S, self.weights, lambda1, lambda2, _TOL, theta, converged)
        return [list(theta[n]) if converged[n] else self._fit_by_solver(S[n]) for n in range(len(S))]

    def _fit_by_solver(self, S: FloatArray) -> list[FloatArray]:
        support = find_support(
            DenseCovariance(list(S)),
            self.sizes,
            penalty_multiplier=self.penalty_multiplier,
            weights=self.weights,
            options={},
        )
        return [Theta.toarray() for Theta in support.precision]

    def _estimate_with_se(self, scores: list[FloatArray], precision: list[FloatArray]) -> tuple[FloatArray, FloatArray]:
        z, rho, residuals = _z_of(scores, precision, None)
        error = np.empty_like(z)
        upper = np.triu_indices(scores[0].shape[1], 1)
        for k, part in enumerate(residuals):
            g = all_factors(part, rho[k])[upper]
            mean = mean_of_factors(g, rho[k][upper])
            error[:, k] = np.sqrt(moderated(g, mean) / (self.sizes[k] - 3.0))
        return z, error


@dataclass(frozen=True)
class _Repeats:
    """Estimation and summary common to all draws; sent once to the workers."""

    estimator: Estimator
    draws: ResampledData
    summary: Callable[..., Any]
    judged: bool

    def all(self, tracker: Tracker, workers: WorkerPool) -> list[Any]:
        first = self.draws(0)
        p = first[0].shape[1]
        if p > LARGEST:
            raise InputError(f"Resampling takes too long for {p:,} variables: choose at most {LARGEST:,} of them.", "X")
        n, step = len(self.draws), max(1, min(16, _PIECE // (len(first) * p * p)))
        batches = [range(start, min(start + step, n)) for start in range(0, n, step)]
        return [value for values in workers.map(_summaries, batches, self, tracker) for value in values]


def _summaries(numbers: range, repeats: _Repeats, progress: TaskProgress) -> list[Any]:
    """Summaries of the draws in `numbers`."""
    draws = [repeats.draws(number) for number in numbers]
    summaries = [repeats.summary(*estimates) for estimates in repeats.estimator.estimate_batch(draws, repeats.judged)]
    progress(repeats.draws.stage, len(numbers))
    return summaries


def _z_of(
    scores: list[FloatArray], precision: list[FloatArray], dilution: list[FloatArray] | None
) -> tuple[FloatArray, list[FloatArray], list[Residuals]]:
    """Estimates z (P, K), partial correlation matrices (K arrays (p, p)), and the residuals of each class."""
    upper = np.triu_indices(scores[0].shape[1], 1)
    gains: Sequence[FloatArray | None] = dilution or [None] * len(scores)
    parts = zip(scores, precision, gains, strict=True)
    residuals = [Residuals(Z, sparse.csr_array(Theta), gain) for Z, Theta, gain in parts]
    rho = [part.all_pairs() for part in residuals]
    for matrix in rho:
        np.fill_diagonal(matrix, 0.0)
    return np.column_stack([np.arctanh(matrix[upper]) for matrix in rho]), rho, residuals


def _standardised(X: FloatArray) -> FloatArray:
    """Centred columns of variance 1; columns that are constant in a resample are zero."""
    centred = X - X.mean(axis=0)
    deviation = np.sqrt(np.einsum("ij,ij->j", centred, centred) / len(X))
    return centred / np.where(deviation > 1e-12, deviation, 1.0)
