"""Cross-validated likelihood: how well the network of some samples describes the others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from jointglasso._typing import FloatArray
from jointglasso.covariance import CovarianceSource
from jointglasso.covariance.missing import handle_missing
from jointglasso.errors import argument
from jointglasso.selection.em import prepared
from jointglasso.selection.evaluation import Evaluation, solve_parts
from jointglasso.selection.intake import SelectionData
from jointglasso.selection.likelihood import held_out_loss, logdet
from jointglasso.selection.resampling import Part, complement
from jointglasso.validation import InputError


@dataclass(frozen=True)
class _Fold:
    """Covariances of the training samples, and the held-out samples on their scale."""

    training: CovarianceSource
    held_out: list[FloatArray]

    @property
    def size(self) -> int:
        return sum(len(Z) for Z in self.held_out)


class CrossValidated:
    """Loss per held-out sample: the mean of ``<S, Theta> - log det Theta`` with S of the held-out samples.

    Held-out samples are centred, and on the correlation scale standardised, by the training samples of their class.
    For rank associations they are turned into normal scores by the training distribution. Missing values are
    treated as in training: incomplete samples dropped, or S computed pair by pair.
    """

    tie = 0.0

    def __init__(self, data: SelectionData, folds: list[Part], options: dict[str, Any]) -> None:
        samples = data.require_samples("Cross-validation")
        if data.preparation.association == "mixed":
            raise InputError(
                f"{argument('criterion', 'cv')} has no likelihood of ordinal samples "
                f"({argument('association', 'mixed')}): use 'jbic'.",
                "criterion",
            )

        def prepare(held_out: Part) -> _Fold:
            training = prepared(data.preparation.for_resamples(), samples.take(complement(held_out, samples.sizes)))
            test = handle_missing(samples.take(held_out), data.preparation.missing, smallest=0)
            return _Fold(training.source, [training.scores(k, X) for k, X in enumerate(test.matrices)])

        self.name = f"held-out loss per sample, {len(folds)} folds"
        self.solves = len(folds)
        self._folds = [prepare(held_out) for held_out in folds]
        self._options = options

    def __call__(self, lambda1: float, lambda2: float, start: Evaluation | None) -> Evaluation:
        solutions = solve_parts([fold.training for fold in self._folds], lambda1, lambda2, start, self._options)
        losses = np.array([_loss(fold, found) for fold, found in zip(self._folds, solutions, strict=True)])
        sizes = np.array([fold.size for fold in self._folds], dtype=float)
        per_sample = losses / np.maximum(sizes, 1.0)
        error = per_sample.std(ddof=1) / np.sqrt(len(losses)) if len(losses) > 1 else 0.0
        return Evaluation(
            lambda1=lambda1,
            lambda2=lambda2,
            score=float(losses.sum() / max(sizes.sum(), 1.0)),
            edges=np.mean([found.n_edges for found in solutions], axis=0),
            gap=max(found.certificate.relative_gap for found in solutions),
            n_failed=sum(not found.status.converged for found in solutions),
            solutions=tuple(solutions),
            details={"standard_error": float(error)} | {f"fold{n + 1}": float(v) for n, v in enumerate(per_sample)},
        )


def _loss(fold: _Fold, solution: Any) -> float:
    return sum(
        held_out_loss(Z, Theta, logdet(Theta)) for Z, Theta in zip(fold.held_out, solution.precision, strict=True)
    )
