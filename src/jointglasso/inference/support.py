"""Support step: a weakly penalised joint graphical lasso, then maximum likelihood on its support.

The penalty is ``s = c sqrt(L / mean n)`` with ``L = max(log p, 2 log(p / 5))``, with
``omega = lambda2 / s`` of 1/2 (1/4 with very many variables, so that the scan lists fewer pairs), an unpenalised
diagonal, and class weights ``sqrt(n_k / mean n)``, since the noise of S_k is of order ``1 / sqrt(n_k)``. The support is
larger than a graph chosen by a criterion: such a graph is too sparse, and intervals based on it lose coverage. A weaker
penalty loses coverage too: with ``L = log p`` the number of false neighbours grows with p, to ten per variable at
p = 500, and the coverage of strong edges falls to 0.92 instead of 0.95.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from jointglasso._typing import FloatArray
from jointglasso.data import CovarianceSource
from jointglasso.data.checks import check_weights
from jointglasso.engine import SolveOptions, solve_with
from jointglasso.penalties import GroupPenalty
from jointglasso.screening import component_curve
from jointglasso.screening.curve import reachable_floor
from jointglasso.screening.pairs import known_pairs
from jointglasso.selection.relaxed import refit
from jointglasso.solution import ConvergenceWarning, Solution

#: omega = lambda2 / (lambda1 + lambda2), and its value with more than `LARGEST` variables.
OMEGA, OMEGA_OF_MANY = 0.5, 0.25

#: Maximum size of a component of the support, unless a strength is given: 1,000 up to 5,000 variables, a quarter of
#: that from 20,000 on. (20,000 variables in modules, two classes of 200: c = 1.04 with 1,000, c = 1.06 with 250;
#: coverage 0.950 of 24,704 edges and 0.953 of the other pairs with either.)
LARGEST = 1_000

#: Maximum number of pairs above lambda1 that the scan lists with very many variables.
PAIRS = 5_000_000

#: Relative duality gap of the support step, and largest difference between W and S on the support that the refit
#: leaves. The effect on T is this residual times the noise of S: far below any standard error.
TOLERANCE, RESIDUAL = 1e-5, 1e-6

#: Both with more than `LARGEST` variables: one entry in a thousand of the support changes.
TOLERANCE_OF_MANY = 1e-4


@dataclass(frozen=True)
class Support:
    """Maximum likelihood estimates on the support."""

    precision: list[Any]
    """Sparse matrices, on the scale of correlations."""
    notes: tuple[str, ...]
    """Remarks for the report, in sentences."""
    solution: Solution | None
    """Penalised model of the support step; None if the support was an argument."""


def find_support(
    source: CovarianceSource,
    sizes: FloatArray,
    *,
    penalty_multiplier: float | None,
    weights: Any,
    options: SolveOptions | None = None,
) -> Support:
    """Support step and refit; `penalty_multiplier` is the factor c, `sizes` (K,) the effective sample sizes.

    With `penalty_multiplier` None, c is 1, or the smallest value with components of at most `LARGEST` variables (fewer
    with very many variables): the time of the refit grows with the cube of their size.
    """
    p = source.n_variables
    lambda1, lambda2 = penalty_of(p, sizes, 1.0 if penalty_multiplier is None else penalty_multiplier)
    w = class_weights(source, sizes, weights)
    settings = replace(options or support_options(p, {}), weights=w)
    notes = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        if penalty_multiplier is not None or p <= LARGEST:
            solution = solve_with(source, lambda1, lambda2, settings)
        else:
            floor = max(lambda1, reachable_floor(source, w, None, PAIRS))
            with known_pairs(source, GroupPenalty(floor, 0.0), w):
                ratio = lambda2 / lambda1
                curve = component_curve(source, ratio, weights=w, lambda_min=floor, n_lambdas=10)
                largest = int(np.clip(5e6 / p, LARGEST / 4, LARGEST))
                least, _ = curve.smallest_lambda(largest)
                solution = solve_with(source, least, least * ratio, settings)
            if least > lambda1:
                notes.append(
                    "So many variables hang together that the support step was made "
                    f"{least / lambda1:.2f} times as strong (components of at most {largest:,} variables): edges that "
                    "are weak by themselves may be missed in it."
                )
    if not solution.status:
        notes.append(f"The support step stopped early: {solution.status.reason}")
    return refitted(source, solution, notes)


def support_options(n_variables: int, options: Mapping[str, Any]) -> SolveOptions:
    """Options of the solve of the support step; those of the user take precedence."""
    tol = TOLERANCE if n_variables <= LARGEST else TOLERANCE_OF_MANY
    return SolveOptions.of({"penalize_diagonal": False, "tol": tol, **options})


def penalty_of(n_variables: int, sizes: FloatArray, penalty_multiplier: float) -> tuple[float, float]:
    """Penalties lambda1 and lambda2 of the support step."""
    p = max(n_variables, 2)
    s = penalty_multiplier * float(np.sqrt(max(np.log(p), 2.0 * np.log(p / 5.0)) / sizes.mean()))
    omega = OMEGA if n_variables <= LARGEST else OMEGA_OF_MANY
    return (1.0 - omega) * s, omega * s


def class_weights(source: CovarianceSource, sizes: FloatArray, weights: Any) -> FloatArray:
    """Class weights of the support step, ``sqrt(n_k / mean n)`` if `weights` is None."""
    if weights is None:
        return np.sqrt(sizes / sizes.mean())
    return check_weights(weights, source.class_names, source.sample_sizes)


def refitted(source: CovarianceSource, support: Solution | Sequence[Any], notes: Sequence[str] = ()) -> Support:
    """Maximum likelihood on a support, with a ridge on the components where no maximum exists."""
    residual = RESIDUAL if source.n_variables <= LARGEST else TOLERANCE_OF_MANY
    fitted = refit(source, support, on_failure="ridge", tol=residual)
    solution = support if isinstance(support, Solution) else None
    failure_notes = [
        f"Class {failure.class_name!r} has too few samples for the support of {len(failure.variables)} variables that "
        f"hang together: a ridge of {fitted.ridge:g} was added there, and its intervals are too narrow or off centre."
        for failure in fitted.failures
    ]
    return Support(fitted.precision, (*notes, *failure_notes), solution)
