"""Cross-validated likelihood: how well the network of some samples describes the others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from jointglasso._typing import FloatArray
from jointglasso.covariance.missing import handle_missing
from jointglasso.selection.grids import LambdaGrid
from jointglasso.selection.intake import SelectionData
from jointglasso.selection.likelihood import held_out_loss, logdet
from jointglasso.selection.paths import map_jobs, path
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


def cross_validate(
    data: SelectionData,
    grid: LambdaGrid,
    folds: list[Part],
    tracker: Tracker,
    *,
    n_jobs: int | None,
    options: dict[str, Any],
) -> CrossValidation:
    """Held-out loss of every point of the grid, each fold along warm-started paths.

    Held-out samples are centred, and on the correlation scale standardised, by the training samples of their class.
    For rank associations they are turned into normal scores by the training distribution. Missing values are
    treated as in training: incomplete samples dropped, or S computed pair by pair.
    """
    samples = data.require_samples("Cross-validation")

    def losses_of(number: int) -> tuple[FloatArray, int, int]:
        held_out = folds[number]
        training = samples.take(complement(held_out, samples.sizes))
        prepared = data.preparation.for_resamples()(training)
        test = handle_missing(samples.take(held_out), data.preparation.missing, smallest=0)
        scores = [prepared.scores(k, X) for k, X in enumerate(test.matrices)]
        losses = np.empty(len(grid))
        n_failed = 0
        for column in range(grid.n_columns):
            points = grid.points_of(column)
            lambdas = [grid[point] for point in points]
            for point, solution in zip(points, path(prepared.source, lambdas, **options), strict=True):
                losses[point] = sum(
                    held_out_loss(Z, Theta, logdet(Theta)) for Z, Theta in zip(scores, solution.precision, strict=True)
                )
                n_failed += not solution.status.converged
                tracker.advance(f"fold {number + 1} of {len(folds)}")
        return losses, int(test.sizes.sum()), n_failed

    found = map_jobs(losses_of, range(len(folds)), n_jobs)
    return CrossValidation(
        losses=np.column_stack([losses for losses, _, _ in found]),
        held_out=np.array([size for _, size, _ in found], dtype=float),
        n_failed=sum(failed for _, _, failed in found),
    )
