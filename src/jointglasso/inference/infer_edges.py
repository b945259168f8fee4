"""`infer`: intervals, tests and false discovery rates for every pair of variables and every class."""

from __future__ import annotations

from typing import Any

import numpy as np

from jointglasso.data.checks import InputError, check_choice, check_positive, known_arguments
from jointglasso.engine import solve
from jointglasso.errors import argument
from jointglasso.inference.data import COPIES, InferenceData, read_inference_data
from jointglasso.inference.desparsified import Residuals
from jointglasso.inference.estimates import choose_limit, estimate, mean_factor
from jointglasso.inference.result import Inference
from jointglasso.inference.support import Support, find_support, refitted
from jointglasso.selection.solves import solve_options

#: Excess kurtosis above which a note warns about Pearson's correlations; that of Student's t with 5 degrees is 6.
HEAVY = 5.0

#: Effective sample size below which ordinal data get a note.
ENOUGH = 100

STANDARD_ERRORS = ("moderated", "gaussian")

_MISSING = (
    f"Missing values were drawn {COPIES} times from what the other values of their sample say under the network (EM); "
    "this holds if they are missing at random."
)


@known_arguments(solve)
def infer(
    X: Any,
    y: Any = None,
    *,
    association: str = "nonparanormal",
    se: str = "moderated",
    groups: Any = None,
    covariates: Any = None,
    missing: str = "refuse",
    weights: Any = None,
    support: Any = None,
    penalty_multiplier: float | None = None,
    keep: str | float = "auto",
    **options: Any,
) -> Inference:
    """Estimate and test the partial correlation of every pair of variables in every class.

    A weakly penalised joint model gives the support, maximum likelihood refits it, and one Newton step
    ``T = 2 Theta - Theta S Theta`` (desparsification) removes the bias of the selection. Intervals, tests and false
    discovery rates are based on T.

    Parameters
    ----------
    X : table (n, p) or dict of tables by class
        Samples in rows, as a NumPy array or a pandas, polars or pyarrow table.
    y : sequence of n labels, optional
        Class of each row; one class without it.
    association : {"nonparanormal", "pearson", "mixed"}
        Correlations of normal scores, valid for skewed and heavy-tailed margins at a cost of 4 % of the power on
        Gaussian data, or Pearson's, which are sensitive to outliers (reported in the notes). "mixed" is for ordinal
        data such as questionnaires: polychoric and polyserial correlations of the latent Gaussian variables, with
        standard errors from resamples.
    se : {"moderated", "gaussian"}
        Standard errors estimated from the data, or those of Gaussian data, which are too small for heavy tails.
    groups : sequence of n labels, or dict by class, optional
        Subject of each sample for repeated measurements: samples of one subject may be dependent.
    covariates : table with n rows, or dict of tables by class, optional
        Batches, age and the like, regressed out within every class. Text and categorical columns are coded by
        indicators.
    missing : {"refuse", "complete", "em"}
        Refuse missing values, drop incomplete samples, or use EM with multiple imputation (20 draws per incomplete
        sample); standard errors include the missing information. Values must be missing at random.
    weights : None, "equal", "sample_size", array (K,) or dict, optional
        Class weights of the support step; ``sqrt(n_k / mean n)`` by default.
    support : Solution or sequence of K matrices, optional
        Non-zero entries to use as the support instead of the support step. Intervals on a support that is too sparse
        lose coverage.
    penalty_multiplier : float, optional
        Factor c of the penalty ``c sqrt(max(log p, 2 log(p / 5)) / mean n)`` of the support step: 1, or larger
        where a component would exceed 1,000 variables.
    keep : {"auto", "all"} or float
        Pairs that the tables hold: all of them, those with a p-value up to a number in some test, or all up to two
        million pairs and beyond that those with small p-values.
    **options
        Further options of `jointglasso.solve` for the support step, such as ``max_memory``.

    Returns
    -------
    Inference
        Tables of edges, differences, heterogeneity and common effects, and graphs at a false discovery rate.

    Notes
    -----
    Assumptions: independent samples (or subjects), a sparse precision matrix, and n large relative to the number of
    neighbours. Intervals are pointwise, not simultaneous.

    Examples
    --------
    >>> import numpy as np
    >>> import jointglasso as jgl
    >>> rng = np.random.default_rng(0)
    >>> X, y = rng.normal(size=(80, 4)), np.repeat(["ill", "well"], 40)
    >>> X[:, 1] += X[:, 0]
    >>> found = jgl.infer(X, y)
    >>> found.edges(fdr=0.1)[["class", "variable1", "variable2"]]
      class variable1 variable2
    0  well        x0        x1
    1   ill        x0        x1
    >>> len(found.differences(fdr=0.1))
    0
    """
    check_choice("se", se, STANDARD_ERRORS)
    if groups is not None and se == "gaussian":
        raise InputError("se='gaussian' holds for independent samples only: leave it out where groups are given.", "se")
    if association == "mixed" and se == "gaussian":
        raise InputError("se='gaussian' does not hold for answers in categories: leave it out.", "se")
    limit = _check_keep(keep)
    data = read_inference_data(
        X, y, association=association, missing=missing, groups=groups, covariates=covariates, em=True
    )
    if (data.dilution is not None or data.bootstrap_deviations is not None) and isinstance(limit, float):
        why = argument("missing", "em") if data.bootstrap_deviations is None else argument("association", "mixed")
        raise InputError(f"keep: with {why} the tables hold all pairs; leave it out.", "keep")
    if data.n_variables < 2:
        raise InputError("X has one variable, and an edge needs two: give more variables.", "X")
    if support is None:
        c = None if penalty_multiplier is None else check_positive("penalty_multiplier", penalty_multiplier)
        support_fit = _find_support(data, c, weights, solve_options(options))
    else:
        support_fit = refitted(data.source, support)
    residuals = _residuals(data, support_fit)
    if limit == "auto":
        limit = choose_limit(data, residuals)
    estimates = estimate(data, residuals, se, None if limit == "all" else limit)
    return Inference(
        class_names=data.class_names,
        variable_names=data.source.variable_names,
        sizes=data.sizes,
        se=se if groups is None else "by subject",
        association=association,
        support_edges=tuple(len(part.rows) for part in residuals),
        diagonals=[part.diagonal for part in residuals],
        estimates=estimates,
        solution=support_fit.solution,
        notes=(
            *data.notes,
            *support_fit.notes,
            *_floored(data, residuals),
            *(_heavy_tails(data) if association == "pearson" else ()),
            *([] if data.dilution is None else [_MISSING]),
            *(() if data.bootstrap_deviations is None else _low_information(data)),
        ),
        covariates=data.covariates,
    )


def _find_support(
    data: InferenceData, penalty_multiplier: float | None, weights: Any, options: dict[str, Any]
) -> Support:
    """Support step; with subjects it is repeated with the effective sample sizes of the dependent samples."""
    first_fit = find_support(
        data.source, data.effective_sample_size, penalty_multiplier=penalty_multiplier, weights=weights, options=options
    )
    if data.subjects is None or data.bootstrap_deviations is not None:
        return first_fit
    inflation = [
        mean_factor(part, subjects) for part, subjects in zip(_residuals(data, first_fit), data.subjects, strict=True)
    ]
    effective_sizes = data.effective_sample_size / np.maximum(1.0, inflation)
    return find_support(
        data.source, effective_sizes, penalty_multiplier=penalty_multiplier, weights=weights, options=options
    )


def _residuals(data: InferenceData, support: Support) -> list[Residuals]:
    if data.dilution is None:
        return [Residuals(Z, Theta) for Z, Theta in zip(data.scores, support.precision, strict=True)]
    parts = zip(data.scores, support.precision, data.dilution, strict=True)
    return [Residuals(Z, Theta, gain, COPIES) for Z, Theta, gain in parts]


def _check_keep(keep: Any) -> Any:
    if isinstance(keep, str):
        return check_choice("keep", keep, ("auto", "all"))
    if check_positive("keep", keep) > 1.0:
        raise InputError(f"keep={keep:g} is no p-value: give 'auto', 'all' or a number up to 1.", "keep")
    return float(keep)


def _heavy_tails(data: InferenceData) -> list[str]:
    """Notes about classes with outliers or heavy tails, where Pearson's correlations are unreliable."""
    out = []
    for name, Z in zip(data.class_names, data.scores, strict=True):
        excess = np.einsum("ij,ij->j", Z**2, Z**2) / len(Z) - 3.0
        heavy = np.flatnonzero(excess > HEAVY)
        if len(heavy):
            worst = data.source.variable_names[int(excess.argmax())]
            out.append(
                f"Class {name!r} has outliers or heavy tails in {len(heavy)} of {len(excess)} variables (most in "
                f"{worst!r}): {argument('association', 'nonparanormal')} is safer."
            )
    return out


def _low_information(data: InferenceData) -> list[str]:
    """Notes about classes whose ordinal data have a small effective sample size."""
    return [
        f"Class {name!r}: {size:g} samples of answers in so few categories are worth {n_eff:.0f} of numbers: intervals "
        f"hold, but tests find little below {ENOUGH} (two categories, worth 75: an eighth of the edges)."
        for name, size, n_eff in zip(data.class_names, data.sizes, data.effective_sample_size, strict=True)
        if n_eff < min(ENOUGH, 0.5 * size)
    ]


def _floored(data: InferenceData, residuals: list[Residuals]) -> list[str]:
    """Notes about classes with variables whose T_ii was raised to its lower bound."""
    out = []
    for name, part in zip(data.class_names, residuals, strict=True):
        if len(part.floored):
            first = data.source.variable_names[int(part.floored[0])]
            out.append(
                f"Class {name!r}: the support is too dense for its samples at {len(part.floored)} variables (the first "
                f"is {first!r}); do not believe their intervals."
            )
    return out
