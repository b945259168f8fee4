"""Cross-validated likelihood: how well the network of some samples describes the others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from jointglasso._typing import FloatArray
from jointglasso.covariance.classes import ClassSamples
from jointglasso.covariance.missing import handle_missing
from jointglasso.covariance.prepare import Preparation
from jointglasso.engine.executors import Tell
from jointglasso.selection.grids import LambdaGrid
from jointglasso.selection.intake import SelectionData
from jointglasso.selection.likelihood import held_out_loss, logdet
from jointglasso.selection.paths import Crew, path
from jointglasso.selection.progress import Tracker
from jointglasso.selection.resampling import Part, complement


@dataclass(frozen=True)
class CrossValidation:
    """Held-out losses of every point of a grid."""

    losses: FloatArray
    """(m, folds): ``sum_k n_k (<S_k, Theta_k> - log det Theta_k)`` over the held-out samples of a fold."""
    held_out: FloatArray
    """(folds,): number of held-out samples."""
    n_failed: int
    """Solves that did not reach their tolerance."""

    @property
    def score(self) -> FloatArray:
        """Loss per held-out sample, over all folds."""
        score: FloatArray = self.losses.sum(axis=1) / max(self.held_out.sum(), 1.0)
        return score

    @property
    def standard_error(self) -> FloatArray:
        """Standard error of the score, from how much the folds differ."""
        per_sample = self.losses / np.maximum(self.held_out, 1.0)
        n_folds = per_sample.shape[1]
        error: FloatArray = per_sample.std(axis=1, ddof=1) / np.sqrt(n_folds) if n_folds > 1 else per_sample[:, 0] * 0
        return error


@dataclass(frozen=True)
class _Folds:
    """What all folds have in common."""

    samples: ClassSamples
    preparation: Preparation
    grid: LambdaGrid
    folds: list[Part]
    options: dict[str, Any]


def cross_validate(
    data: SelectionData,
    grid: LambdaGrid,
    folds: list[Part],
    tracker: Tracker,
    *,
    crew: Crew,
    options: dict[str, Any],
) -> CrossValidation:
    """Held-out loss of every point of the grid, each fold along warm-started paths.

    Held-out samples are centred, and on the correlation scale standardised, by the training samples of their class.
    For rank associations they are turned into normal scores by the training distribution. Missing values are
    treated as in training: incomplete samples dropped, or S computed pair by pair.
    """
    samples = data.require_samples("Cross-validation")
    shared = _Folds(samples, data.preparation, grid, folds, options)
    items = [(fold, column) for fold in range(len(folds)) for column in range(grid.n_columns)]
    found = crew.map(_losses_of, items, shared, tracker)
    losses, held_out = np.empty((len(grid), len(folds))), np.empty(len(folds))
    for (fold, column), (lost, size, _) in zip(items, found, strict=True):
        losses[grid.points_of(column), fold], held_out[fold] = lost, size
    return CrossValidation(losses, held_out, sum(n_failed for _, _, n_failed in found))


def _losses_of(item: tuple[int, int], shared: _Folds, tell: Tell) -> tuple[FloatArray, int, int]:
    """Losses of one fold along one column, the number of held-out samples, and of solves that failed."""
    (fold, column), samples = item, shared.samples
    held_out = shared.folds[fold]
    prepared = shared.preparation.for_resamples()(samples.take(complement(held_out, samples.sizes)))
    test = handle_missing(samples.take(held_out), shared.preparation.missing, smallest=0)
    scores = [prepared.scores(k, X) for k, X in enumerate(test.matrices)]
    lambdas = [shared.grid[point] for point in shared.grid.points_of(column)]
    losses, n_failed = np.empty(len(lambdas)), 0
    for n, solution in enumerate(path(prepared.source, lambdas, **shared.options)):
        losses[n] = sum(
            held_out_loss(Z, Theta, logdet(Theta)) for Z, Theta in zip(scores, solution.precision, strict=True)
        )
        n_failed += not solution.status.converged
        tell(f"fold {fold + 1} of {len(shared.folds)}")
    return losses, int(test.sizes.sum()), n_failed
