"""The same estimates for many resamples of one data set: permutations, bootstrap samples."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from scipy import sparse

from jointglasso._typing import FloatArray
from jointglasso.covariance import DenseCovariance
from jointglasso.engine.executors import Tell
from jointglasso.inference.desparsified import Residuals
from jointglasso.inference.standard_errors import all_factors, moderated
from jointglasso.inference.support import find_support, penalty_of
from jointglasso.selection.solves import Crew, Tracker
from jointglasso.validation import InputError

#: Numbers of the correlation matrices that one thread holds at a time.
_PIECE = 1_000_000

#: Change of a covariance in a sweep at which a problem has settled.
_SETTLED = 1e-6


#: Variables up to which a resample is affordable: its time grows with their cube.
LARGEST = 1_000


class Draws(Protocol):
    """Samples (n_k, p) of the K classes in each resample, by its number; they travel to whoever estimates."""

    stage: str
    """What they are called while they are counted."""

    def __len__(self) -> int: ...

    def __call__(self, number: int, /) -> list[FloatArray]: ...


@dataclass(frozen=True)
class Estimator:
    """From samples of K classes to z and its standard error for every pair, as `infer` does it.

    Parameters
    ----------
    sizes : array (K,)
        Samples that each class is worth.
    weights : array (K,)
        Class weights of the support step.
    strength : float, default 1.0
        Factor c of its penalty.
    """

    sizes: FloatArray
    weights: FloatArray
    strength: float = 1.0

    def estimate(self, draws: Draws, summary: Callable[[FloatArray], Any], tracker: Tracker, crew: Crew) -> list[Any]:
        """``summary(z)`` of every draw, z an array (P, K) over the pairs of the upper triangle."""
        return _Repeats(self, draws, summary, judged=False).all(tracker, crew)

    def judge(
        self, draws: Draws, summary: Callable[[FloatArray, FloatArray], Any], tracker: Tracker, crew: Crew
    ) -> list[Any]:
        """``summary(z, error)`` of every draw, with moderated standard errors."""
        return _Repeats(self, draws, summary, judged=True).all(tracker, crew)

    def of_some(self, draws: Sequence[list[FloatArray]], judged: bool) -> list[tuple[FloatArray, ...]]:
        """z, and its error where it is judged, of some draws."""
        problems = [[_standardised(X) for X in samples] for samples in draws]
        of_one = self._judge if judged else lambda scores, precision: _z_of(scores, precision)[:1]
        return [of_one(*fitted) for fitted in zip(problems, self._fit(problems), strict=True)]

    def _fit(self, problems: Sequence[list[FloatArray]]) -> list[list[FloatArray]]:
        """Maximum likelihood estimates on the supports; what does not settle in the kernel goes the usual way."""
        from jointglasso.kernels.small_support import fit_supports

        S = np.array([[Z.T @ Z / len(Z) for Z in scores] for scores in problems])
        lambda1, lambda2 = penalty_of(S.shape[-1], self.sizes, self.strength)
        theta, settled = np.empty_like(S), np.zeros(len(S), dtype=bool)
        fit_supports(S, self.weights, lambda1, lambda2, _SETTLED, theta, settled)
        return [list(theta[n]) if settled[n] else self._usual_way(S[n]) for n in range(len(S))]

    def _usual_way(self, S: FloatArray) -> list[FloatArray]:
        found = find_support(
            DenseCovariance(list(S)), self.sizes, strength=self.strength, weights=self.weights, options={}
        )
        return [Theta.toarray() for Theta in found.precision]

    def _judge(self, scores: list[FloatArray], precision: list[FloatArray]) -> tuple[FloatArray, FloatArray]:
        z, rho, residuals = _z_of(scores, precision)
        error = np.empty_like(z)
        upper = np.triu_indices(scores[0].shape[1], 1)
        for k, part in enumerate(residuals):
            g = all_factors(part, rho[k])[upper]
            error[:, k] = np.sqrt(moderated(g, float(g.mean())) / (self.sizes[k] - 3.0))
        return z, error


@dataclass(frozen=True)
class _Repeats:
    """The same for every draw; threads share it, and workers are given it."""

    estimator: Estimator
    draws: Draws
    summary: Callable[..., Any]
    judged: bool

    def all(self, tracker: Tracker, crew: Crew) -> list[Any]:
        first = self.draws(0)
        p = first[0].shape[1]
        if p > LARGEST:
            raise InputError(f"Resampling takes too long for {p:,} variables: choose at most {LARGEST:,} of them.", "X")
        n, step = len(self.draws), max(1, min(16, _PIECE // (len(first) * p * p)))
        pieces = [range(start, min(start + step, n)) for start in range(0, n, step)]
        return [value for values in crew.map(_summaries, pieces, self, tracker) for value in values]


def _summaries(numbers: range, shared: _Repeats, tell: Tell) -> list[Any]:
    """Summaries of some of the draws."""
    draws = [shared.draws(number) for number in numbers]
    found = [shared.summary(*estimates) for estimates in shared.estimator.of_some(draws, shared.judged)]
    tell(shared.draws.stage, len(numbers))
    return found


def _z_of(
    scores: list[FloatArray], precision: list[FloatArray]
) -> tuple[FloatArray, list[FloatArray], list[Residuals]]:
    """Estimates (P, K), the matrices of partial correlations they are from, and the residuals of each class."""
    upper = np.triu_indices(scores[0].shape[1], 1)
    residuals = [Residuals(Z, sparse.csr_array(Theta)) for Z, Theta in zip(scores, precision, strict=True)]
    rho = [part.all_pairs() for part in residuals]
    for matrix in rho:
        np.fill_diagonal(matrix, 0.0)
    return np.column_stack([np.arctanh(matrix[upper]) for matrix in rho]), rho, residuals


def _standardised(X: FloatArray) -> FloatArray:
    """Centred columns of variance 1; a column that a resample made constant stays zero."""
    centred = X - X.mean(axis=0)
    deviation = np.sqrt(np.einsum("ij,ij->j", centred, centred) / len(X))
    return centred / np.where(deviation > 1e-12, deviation, 1.0)
