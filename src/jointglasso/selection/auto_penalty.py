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
from jointglasso.selection.evaluation import MIN_SAMPLES, N_FOLDS, can_hold_out, held_out_losses, solve_point
from jointglasso.selection.relaxed import default_relaxation
from jointglasso.selection.resampling import SelectionData
from jointglasso.selection.result import SelectionResult

#: Penalties mu that ``latent="auto"`` tries, in multiples of the largest eigenvalue of noise.
_MULTIPLES = (0.5, 1.0, 2.0)

#: Turns in which mu is found for a rank, and lambda1 and lambda2 chosen at this mu.
_TURNS = 4

#: Value of the `penalty` argument of `select` that asks for the choice.
AUTO = "auto"


#: Selection with options of `solve`.
Search = Callable[[SolveOptions], SelectionResult]


@dataclass(frozen=True)
class ChosenModel:
    """Result of a selection with the penalty or mu chosen."""

    result: SelectionResult
    options: SolveOptions
    """Options of `solve` with the penalty by name and mu."""
    sentence: str
    """Reason for the choice."""


def model_choice(options: SolveOptions) -> Callable[..., ChosenModel] | None:
    """Function that compares the penalties or the values of mu, or finds mu for a rank; None if both are given."""
    if options.latent_rank is not None:
        return find_rank
    if not (options.latent is None or isinstance(options.latent, Real)):
        return choose_latent
    return choose_penalty if options.penalty == AUTO else None


def choose_penalty(data: SelectionData, settings: Any, search: Search) -> ChosenModel:
    """The group penalty, or the fused one if its held-out loss is smaller.

    The fused penalty is "graph" with a `class_graph`, "chain" for ordered classes.
    A margin of one standard error of the paired difference over the folds, in favour of either penalty, recovers known
    graphs less well (docs/selection.md).
    """
    in_order = "chain" if data.samples is not None and data.samples.is_ordered else "fused"
    names = ["group", in_order if settings.solve.class_graph is None else "graph"]
    if data.source.n_classes == 1 or not can_hold_out(data):
        options = _with(settings.solve, names[0])
        why = f"the comparison takes two classes or more of at least {MIN_SAMPLES} samples, not of mixed kinds"
        sentence = f'Penalty "group": {why}.'
        return ChosenModel(search(options), options, sentence)
    phi, results, losses = default_relaxation(data.source), {}, {}
    for name in names:
        options = _with(settings.solve, name)
        results[name] = search(options)
        losses[name] = held_out_losses(data, results[name].solution, options, [phi])[:, 0]
    change = losses[names[1]] - losses[names[0]]
    mean, error = float(change.mean()), float(change.std(ddof=1) / np.sqrt(N_FOLDS))
    chosen, other = names[::-1] if mean < 0.0 else names
    sentence = (
        f'Penalty "{chosen}" rather than "{other}": log-likelihood per held-out sample ({N_FOLDS} folds) '
        f"{-0.5 * losses[chosen].mean():.4g} against {-0.5 * losses[other].mean():.4g}, standard error of the "
        f"difference {0.5 * error:.2g}."
    )
    return ChosenModel(results[chosen], _with(settings.solve, chosen), sentence)


def _with(options: SolveOptions, penalty: str) -> SolveOptions:
    """Options with a penalty by name; the group penalty takes no class graph."""
    return replace(options, penalty=penalty, class_graph=None if penalty == "group" else options.class_graph)


def choose_latent(data: SelectionData, settings: Any, search: Search) -> ChosenModel:
    """The value of mu with the smallest score, or no latent variables."""
    given, options = settings.solve.latent, replace(settings.solve, latent=None)
    _refuse_stars_and_auto(settings, "latent")
    if isinstance(given, str):
        check_choice("latent", given, (AUTO,))
        values = (_factor_noise(data.source, options.weights) * np.array(_MULTIPLES)).tolist()
    else:
        values = [check_positive("latent", mu) for mu in given]
    results = {None: search(options)}
    for mu in values:
        results[mu] = search(replace(options, latent=mu))
    best = min(results, key=lambda mu: results[mu].score)
    tried = "; ".join(
        f"{'none' if mu is None else f'mu = {mu:.3g}'} {found.score:.6g}" for mu, found in results.items()
    )
    low_rank = results[best].solution.low_rank
    chosen = "none" if low_rank is None else f"mu = {best:.3g} ({low_rank.describe(data.source.class_names)})"
    return ChosenModel(results[best], replace(options, latent=best), f"Latent variables: {chosen}. Scores: {tried}.")


def find_rank(data: SelectionData, settings: Any, search: Search) -> ChosenModel:
    """The penalties chosen at the mu that gives low-rank parts of the rank asked for.

    mu depends on lambda1 and lambda2, and these on mu: both are chosen in turns, from the choice without latent
    variables, and the last solution has the rank.
    """
    _refuse_stars_and_auto(settings, "latent_rank")
    rank = settings.solve.latent_rank
    if settings.solve.latent is not None:
        raise InputError("latent_rank= finds the mu that latent= gives: leave one of them out.", "latent_rank")
    plain = replace(settings.solve, latent=None, latent_rank=None)
    result, options = search(plain), plain
    for _ in range(_TURNS):
        at_rank = solve_point(data.source, result.lambda1, result.lambda2, None, replace(plain, latent_rank=rank))
        options = replace(plain, latent=at_rank.parameters["latent"])
        result = search(options)
        ranks = [] if result.solution.low_rank is None else result.solution.low_rank.ranks
        if ranks == rank or sum(ranks) == rank:
            break
    else:
        at_rank = solve_point(data.source, result.lambda1, result.lambda2, None, replace(plain, latent_rank=rank))
        result = replace(result, solution=at_rank)
    mu, low_rank = result.solution.parameters["latent"], result.solution.low_rank
    described = "" if low_rank is None else f" ({low_rank.describe(data.source.class_names)})"
    sentence = f"Latent variables: rank {rank} at mu = {mu:.3g}{described}."
    return ChosenModel(result, replace(plain, latent=mu), sentence)


def _refuse_stars_and_auto(settings: Any, name: str) -> None:
    if settings.criterion == "stars" or settings.solve.penalty == AUTO:
        raise InputError(
            f"{argument(name)} goes with an information criterion or cross-validation, and a given penalty: "
            "give one number, or another criterion.",
            name,
        )


def _factor_noise(source: CovarianceSource, weights: Any) -> float:
    """Largest eigenvalue of ``w (S - I)`` of independent variables: ``w (2 a + a^2)`` with ``a^2 = p / n``."""
    w = check_weights(weights, source.class_names, source.sample_sizes)
    a = np.sqrt(source.n_variables / sample_sizes(source))
    return float((w * (2.0 * a + a**2)).max())
