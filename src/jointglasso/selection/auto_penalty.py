"""``penalty="auto"``: choice between penalties by the likelihood of held-out samples.

Information criteria do not compare penalties that couple the classes in different ways: the fused penalty searches
among the partitions of the classes at every edge, which the joint extended BIC does not price. The likelihood of
held-out samples needs no such price. Each penalty is selected by the criterion on all samples; then the edges are
estimated again on the training part of each fold, and the losses on its held-out part are compared.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from jointglasso.engine import SolveOptions
from jointglasso.selection.relaxed import default_relaxation
from jointglasso.selection.resampled import MIN_SAMPLES, N_FOLDS, can_hold_out, held_out_losses
from jointglasso.selection.resampling import SelectionData
from jointglasso.selection.result import SelectionResult

#: Value of the `penalty` argument of `select` that asks for the choice.
AUTO = "auto"


@dataclass(frozen=True)
class ChosenPenalty:
    """Result of a selection with the penalty chosen."""

    result: SelectionResult
    options: SolveOptions
    """Options of `solve` with the penalty by name."""
    sentence: str
    """Reason for the choice."""


def choose_penalty(
    data: SelectionData, settings: Any, search: Callable[[SelectionData, Any], SelectionResult]
) -> ChosenPenalty:
    """The group penalty, or the fused one ("graph" with a `class_graph`) if its held-out loss is smaller.

    Smaller by more than one standard error of the paired difference over the folds, since the group penalty finds fewer
    false edges where the two predict equally well.
    """
    names = ["group", "fused" if settings.solve.class_graph is None else "graph"]
    if data.source.n_classes == 1 or not can_hold_out(data):
        options = _with(settings.solve, names[0])
        why = f"the comparison takes two classes or more of at least {MIN_SAMPLES} samples, not of mixed kinds"
        sentence = f'Penalty "group": {why}.'
        return ChosenPenalty(search(data, replace(settings, solve=options)), options, sentence)
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
    return ChosenPenalty(results[chosen], _with(settings.solve, chosen), sentence)


def _with(options: SolveOptions, penalty: str) -> SolveOptions:
    """Options with a penalty by name; the group penalty takes no class graph."""
    return replace(options, penalty=penalty, class_graph=None if penalty == "group" else options.class_graph)
