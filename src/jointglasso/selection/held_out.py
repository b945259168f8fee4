"""Relaxation of the values shown, by the likelihood of held-out samples."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from scipy import sparse

from jointglasso._typing import FloatArray
from jointglasso.engine import SolveOptions
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


def choose_relaxation(data: SelectionData, solution: Solution, options: SolveOptions) -> tuple[FloatArray, str]:
    """phi_k (K,) for the refit of a chosen solution, and a sentence about the held-out likelihood, empty without one.

    `default_relaxation`, unless another candidate has a smaller held-out loss by more than one standard error of the
    difference over the folds. In each fold the support is estimated again, with the penalties raised by the root of the
    ratio of sample sizes: on a support that the held-out samples helped to choose, the maximum likelihood looks better
    than it is.
    """
    default, samples = default_relaxation(data.source), data.samples
    if (
        samples is None
        or samples.sample_fraction < 1.0
        or data.preparation.association == "mixed"
        or min(samples.sizes) < MIN_SAMPLES
        or samples.n_variables > MAX_VARIABLES
        or solution.has_latent
        or not any(solution.n_edges)
    ):
        return default, ""
    folds = CrossValidated(data, stratified_folds(samples.sizes, N_FOLDS, 0), options).parts
    phis = [default, *(np.full(len(default), phi) for phi in CANDIDATES)]
    factor = (N_FOLDS / (N_FOLDS - 1.0)) ** 0.5
    lambda1, lambda2 = (factor * float(solution.parameters[name]) for name in ("lambda1", "lambda2"))
    losses = []
    for source, held_out in folds:
        fitted = solve_point(source, lambda1, lambda2, None, replace(options, checkpoint=None))
        estimates = [refit(source, fitted, relaxation=phi, on_failure="ridge", tol=1e-4).precision for phi in phis]
        empty = [sparse.diags_array(1.0 / np.maximum(source.diagonal(k), 1e-300)) for k in range(source.n_classes)]
        n = sum(map(len, held_out))
        losses.append([_loss(held_out, precision) / n for precision in [*estimates, empty]])
    loss = np.array(losses)
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


def _loss(held_out: list[FloatArray], precision: list[Any]) -> float:
    return sum(held_out_loss(Z, Theta, logdet(Theta)) for Z, Theta in zip(held_out, precision, strict=True))
