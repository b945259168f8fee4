"""Choice between models: ``penalty="auto"``, and penalties mu on latent variables.

Information criteria do not compare penalties that couple the classes in different ways: the fused penalty searches
among the partitions of the classes at every edge, which the joint extended BIC does not price. The likelihood of
held-out samples needs no such price. Each penalty is selected by the criterion on all samples; then the edges are
estimated again on the training part of each fold, and the losses on its held-out part are compared.

Models with and without latent variables are compared by the criterion itself: each class is charged ``log n_k`` for
each of the ``p r - r (r - 1) / 2`` degrees of freedom of a matrix of rank r.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any

import numpy as np

from jointglasso.data import CovarianceSource
from jointglasso.data.checks import InputError, check_choice, check_positive, check_weights
from jointglasso.engine import SolveOptions
from jointglasso.errors import argument
from jointglasso.selection.criteria import sample_sizes
from jointglasso.selection.relaxed import default_relaxation
from jointglasso.selection.resampled import MIN_SAMPLES, N_FOLDS, can_hold_out, held_out_losses
from jointglasso.selection.resampling import SelectionData
from jointglasso.selection.result import SelectionResult

#: Penalties mu that ``latent="auto"`` tries, in multiples of the largest eigenvalue of noise.
_MULTIPLES = (0.5, 1.0, 2.0)

#: Value of the `penalty` argument of `select` that asks for the choice.
AUTO = "auto"


@dataclass(frozen=True)
class ChosenModel:
    """Result of a selection with the penalty or mu chosen."""

    result: SelectionResult
    options: SolveOptions
    """Options of `solve` with the penalty by name and mu."""
    sentence: str
    """Reason for the choice."""


def model_choice(options: SolveOptions) -> Callable[..., ChosenModel] | None:
    """Function that compares the penalties, or the values of mu; None if both are given."""
    if not (options.latent is None or isinstance(options.latent, Real)):
        return choose_latent
    return choose_penalty if options.penalty == AUTO else None


def choose_penalty(
    data: SelectionData, settings: Any, search: Callable[[SelectionData, Any], SelectionResult]
) -> ChosenModel:
    """The group penalty, or the fused one ("graph" with a `class_graph`) if its held-out loss is smaller.

    Smaller by more than one standard error of the paired difference over the folds, since the group penalty finds fewer
    false edges where the two predict equally well.
    """
    names = ["group", "fused" if settings.solve.class_graph is None else "graph"]
    if data.source.n_classes == 1 or not can_hold_out(data):
        options = _with(settings.solve, names[0])
        why = f"the comparison takes two classes or more of at least {MIN_SAMPLES} samples, not of mixed kinds"
        sentence = f'Penalty "group": {why}.'
        return ChosenModel(search(data, replace(settings, solve=options)), options, sentence)
    phi, results, losses = default_relaxation(data.source), {}, {}
    for name in names:
        options = _with(settings.solve, name)
        results[name] = search(data, replace(settings, solve=options))
        losses[name] = held_out_losses(data, results[name].solution, options, [phi])[:, 0]
    change = losses[names[1]] - losses[names[0]]
    mean, error = float(change.mean()), float(change.std(ddof=1) / np.sqrt(N_FOLDS))
    chosen, other = names[::-1] if mean < -error else names
    sentence = (
        f'Penalty "{chosen}" rather than "{other}": log-likelihood per held-out sample ({N_FOLDS} folds) '
        f"{-0.5 * losses[chosen].mean():.4g} against {-0.5 * losses[other].mean():.4g}, standard error of the "
        f"difference {0.5 * error:.2g}."
    )
    return ChosenModel(results[chosen], _with(settings.solve, chosen), sentence)


def _with(options: SolveOptions, penalty: str) -> SolveOptions:
    """Options with a penalty by name; the group penalty takes no class graph."""
    return replace(options, penalty=penalty, class_graph=None if penalty == "group" else options.class_graph)


def choose_latent(
    data: SelectionData, settings: Any, search: Callable[[SelectionData, Any], SelectionResult]
) -> ChosenModel:
    """The value of mu with the smallest score, or no latent variables."""
    given, options = settings.solve.latent, replace(settings.solve, latent=None)
    if settings.criterion == "stars" or options.penalty == AUTO:
        raise InputError(
            f"{argument('latent')} is chosen by an information criterion or by cross-validation, for a given penalty: "
            "give one number, or another criterion.",
            "latent",
        )
    if isinstance(given, str):
        check_choice("latent", given, (AUTO,))
        values = (_factor_noise(data.source, options.weights) * np.array(_MULTIPLES)).tolist()
    else:
        values = [check_positive("latent", mu) for mu in given]
    results = {None: search(data, replace(settings, solve=options))}
    for mu in values:
        results[mu] = search(data, replace(settings, solve=replace(options, latent=mu)))
    best = min(results, key=lambda mu: results[mu].score)
    tried = "; ".join(
        f"{'none' if mu is None else f'mu = {mu:.3g}'} {found.score:.6g}" for mu, found in results.items()
    )
    low_rank = results[best].solution.low_rank
    chosen = "none" if low_rank is None else f"mu = {best:.3g} ({low_rank.describe(data.source.class_names)})"
    return ChosenModel(results[best], replace(options, latent=best), f"Latent variables: {chosen}. Scores: {tried}.")


def _factor_noise(source: CovarianceSource, weights: Any) -> float:
    """Largest eigenvalue of ``w (S - I)`` of independent variables: ``w (2 a + a^2)`` with ``a^2 = p / n``."""
    w = check_weights(weights, source.class_names, source.sample_sizes)
    a = np.sqrt(source.n_variables / sample_sizes(source))
    return float((w * (2.0 * a + a**2)).max())
