"""Relaxation of the values shown, by the likelihood of held-out samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy import sparse

from jointglasso._typing import FloatArray
from jointglasso.selection.evaluation import solve_point
from jointglasso.selection.likelihood import held_out_loss, logdet
from jointglasso.selection.relaxed import default_relaxation, refit
from jointglasso.selection.resampled import CrossValidated
from jointglasso.selection.resampling import SelectionData, stratified_folds
from jointglasso.solution import Solution

#: Folds, smallest class and largest number of variables for which the relaxation is cross-validated.
N_FOLDS, MIN_SAMPLES, MAX_VARIABLES = 5, 15, 1000

#: Relaxations phi that compete with `default_relaxation`, the same in all classes.
CANDIDATES = (0.0, 0.25, 0.5, 0.75, 1.0)


def choose_relaxation(data: SelectionData, solution: Solution, options: Mapping[str, Any]) -> tuple[FloatArray, str]:
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
        and data.preparation.association != "mixed"
        and min(samples.sizes) >= MIN_SAMPLES
        and samples.n_variables <= MAX_VARIABLES
    )


def held_out_losses(
    data: SelectionData, solution: Solution, options: Mapping[str, Any], phis: Sequence[FloatArray]
) -> FloatArray:
    """(N_FOLDS, len(phis) + 1): loss per held-out sample with each relaxation, and of the empty network."""
    samples = data.require_samples("Cross-validation")
    folds = CrossValidated(data, stratified_folds(samples.sizes, N_FOLDS, 0), dict(options)).parts
    factor = (N_FOLDS / (N_FOLDS - 1.0)) ** 0.5
    lambda1, lambda2 = (factor * float(solution.parameters[name]) for name in ("lambda1", "lambda2"))
    solves = {name: value for name, value in options.items() if name != "checkpoint"}
    losses = []
    for source, held_out in folds:
        fitted = solve_point(source, lambda1, lambda2, None, solves)
        estimates = [refit(source, fitted, relaxation=phi, on_failure="ridge", tol=1e-4).precision for phi in phis]
        empty = [sparse.diags_array(1.0 / np.maximum(source.diagonal(k), 1e-300)) for k in range(source.n_classes)]
        n = sum(map(len, held_out))
        losses.append([_loss(held_out, precision) / n for precision in [*estimates, empty]])
    return np.array(losses)


def _loss(held_out: list[FloatArray], precision: list[Any]) -> float:
    return sum(held_out_loss(Z, Theta, logdet(Theta)) for Z, Theta in zip(held_out, precision, strict=True))
