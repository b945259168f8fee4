"""`infer`: intervals, tests and false discovery rates for every pair of variables and every class."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from scipy import stats

from jointglasso._wording import count
from jointglasso.data.checks import InputError, check_choice, check_positive, known_arguments
from jointglasso.data.kinds import LATENT
from jointglasso.engine import SolveOptions, solve
from jointglasso.errors import argument, warn_caller
from jointglasso.inference.data import COPIES, InferenceData, check_combination, read_inference_data
from jointglasso.inference.estimates import Estimates, choose_limit, estimate, mean_factor
from jointglasso.inference.result import Inference
from jointglasso.inference.standard_errors import Residuals
from jointglasso.inference.support import Support, find_support, refitted, support_options
from jointglasso.inference.tests import UNKNOWN

#: Excess kurtosis above which a note warns about Pearson's correlations; that of Student's t with 5 degrees is 6.
HEAVY = 5.0

#: Effective sample size below which ordinal data get a note.
ENOUGH = 100

STANDARD_ERRORS = ("moderated", "gaussian")

#: Partial correlation that must be detectable on its own at a false discovery rate of `RATE`; else there is a warning.
DETECTABLE, RATE = 0.75, 0.1

#: Smallest sample size at which Gaussian standard errors keep the level (`benchmarks/simulations.py few`).
GAUSSIAN_FROM = 40

#: Partial correlation for which the warning names a number of variables.
STRONG = 0.6


class InferenceWarning(UserWarning):
    """Too few samples of a class for its number of variables: the message says what can still be found."""


_MISSING = (
    f"Missing values were drawn {COPIES} times from what the other values of their sample say under the network (EM); "
    "this holds if they are missing at random."
)


@known_arguments(solve, fdr="give it to the tables, such as infer(X, y).differences(fdr=0.1)")
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
    association : {"nonparanormal", "pearson", "spearman", "mixed", "zero_inflated"}
        Correlations of normal scores, valid for skewed and heavy-tailed margins at a cost of 4 % of the power on
        Gaussian data, or Pearson's, which are sensitive to outliers (reported in the notes). "mixed" is for ordinal
        data such as questionnaires: polychoric and polyserial correlations of the latent Gaussian variables,
        "zero_inflated" for data with many zeros as well. Standard errors of the last three come from resamples.
    se : {"moderated", "gaussian"}
        Standard errors estimated from the data, or those of Gaussian data, which are too small for heavy tails.
    groups : sequence of n labels, or dict by class, optional
        Subject of each sample for repeated measurements: samples of one subject may be dependent.
    covariates : table with n rows, or dict of tables by class, optional
        Batches, age and the like, regressed out within every class. Text and categorical columns are coded by
        indicators.
    missing : {"refuse", "complete", "pairwise", "em"}
        Refuse missing values, drop incomplete samples, use for each pair the samples that have both values (standard
        errors from resamples), or use EM with multiple imputation (20 draws per incomplete sample). Standard errors
        include the missing information. Values must be missing at random, for "pairwise" completely at random.
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
    check_combination(association, missing, groups=groups, covariates=covariates, se=se)
    limit = _check_keep(keep)
    data = read_inference_data(X, y, association=association, missing=missing, groups=groups, covariates=covariates)
    if (data.dilution is not None or data.recomputed is not None) and isinstance(limit, float):
        raise InputError(
            f"keep={limit:g}: with {argument('association', association)} and {argument('missing', missing)} the "
            "tables hold all pairs; leave it out.",
            "keep",
        )
    return infer_from(data, se, support, penalty_multiplier, weights, limit, support_options(data.n_variables, options))


def infer_from(
    data: InferenceData,
    se: str = "moderated",
    support: Any = None,
    penalty_multiplier: float | None = None,
    weights: Any = None,
    limit: Any = "all",
    options: SolveOptions | None = None,
) -> Inference:
    """`infer` with data that are read; `limit` is its `keep`."""
    if data.n_variables < 2:
        raise InputError("X has one variable, and an edge needs two: give more variables.", "X")
    if support is None:
        c = None if penalty_multiplier is None else check_positive("penalty_multiplier", penalty_multiplier)
        support_fit = support_of(data, c, weights, options)
    else:
        support_fit = refitted(data.source, support)
    residuals = residuals_of(data, support_fit)
    if limit == "auto":
        limit = choose_limit(data, residuals)
    estimates = estimate(data, residuals, se, None if limit == "all" else limit)
    few = _few_samples(data, residuals, estimates, se)
    for note in few:
        warn_caller(note, InferenceWarning)
    return Inference(
        class_names=data.class_names,
        variable_names=data.source.variable_names,
        sizes=data.sizes,
        se="by subject" if data.grouped else "resampled" if data.recomputed is not None else se,
        association=data.association,
        missing=data.missing,
        support_edges=tuple(len(part.rows) for part in residuals),
        diagonals=[part.diagonal for part in residuals],
        estimates=estimates,
        solution=support_fit.solution,
        notes=(*data.notes, *support_fit.notes, *few, *_notes(data)),
        covariates=data.covariates,
    )


def support_of(
    data: InferenceData, penalty_multiplier: float | None, weights: Any, options: SolveOptions | None = None
) -> Support:
    """Support step; with subjects it is repeated with the effective sample sizes of the dependent samples."""
    fit = partial(find_support, data.source, penalty_multiplier=penalty_multiplier, weights=weights, options=options)
    first_fit = fit(data.effective_sample_size)
    if data.subjects is None or data.bootstrap_deviations is not None:
        return first_fit
    inflation = [
        mean_factor(part, subjects) for part, subjects in zip(residuals_of(data, first_fit), data.subjects, strict=True)
    ]
    return fit(data.effective_sample_size / np.maximum(1.0, inflation))


def residuals_of(data: InferenceData, support: Support) -> list[Residuals]:
    """Residuals of every class, from the maximum likelihood on the support."""
    if data.dilution is None:
        return [Residuals(Z, Theta) for Z, Theta in zip(data.scores, support.precision, strict=True)]
    parts = zip(data.scores, support.precision, data.dilution, strict=True)
    return [Residuals(Z, Theta, dilution, COPIES) for Z, Theta, dilution in parts]


def _check_keep(keep: Any) -> Any:
    if isinstance(keep, str):
        return check_choice("keep", keep, ("auto", "all"))
    if check_positive("keep", keep) > 1.0:
        raise InputError(f"keep={keep:g} is no p-value: give 'auto', 'all' or a number up to 1.", "keep")
    return float(keep)


def _notes(data: InferenceData) -> list[str]:
    """Notes about tails, missing values and ordinal data."""
    return [
        *(_heavy_tails(data) if data.association == "pearson" and data.recomputed is None else ()),
        *(() if data.dilution is None else (_MISSING,)),
        *(_low_information(data) if data.association in LATENT else ()),
    ]


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
        f"Class {name!r}: {size:g} samples with so few categories, or so many zeros, have an effective sample size of "
        f"{n_eff:.0f}: intervals hold, but tests have little power below {ENOUGH} (two categories, 75: an eighth of "
        "the edges)."
        for name, size, n_eff in zip(data.class_names, data.sizes, data.effective_sample_size, strict=True)
        if n_eff < min(ENOUGH, 0.5 * size)
    ]


def _few_samples(data: InferenceData, residuals: list[Residuals], estimates: Estimates, se: str) -> list[str]:
    """Notes about classes with too few samples: what can be found, and estimates that are not usable."""
    n_pairs = data.n_variables * (data.n_variables - 1) // 2
    out = []
    for k, (name, part) in enumerate(zip(data.class_names, residuals, strict=True)):
        error, freedom = float(np.median(estimates.error[:, k])), float(estimates.degrees[k])
        smallest = float(np.tanh(stats.t.isf(0.5 * RATE / n_pairs, freedom) * error))
        text = []
        if smallest > DETECTABLE:
            tests = RATE / (2.0 * stats.t.sf(np.arctanh(STRONG) / error, freedom))
            text.append(
                f"for a partial correlation to be significant by itself at a false discovery rate of {RATE:g} it must "
                f"exceed {smallest:.2f} among {n_pairs:,} pairs ({STRONG:g} with "
                f"{max(2, int(np.sqrt(2.0 * tests)))} variables)"
            )
        outside = int((estimates.error[:, k] == UNKNOWN).sum())
        if outside:
            text.append(f"the estimates of {count(outside, 'pair')} leave (-1, 1) and have no usable interval")
        if se == "gaussian" and data.sizes[k] < GAUSSIAN_FROM:
            text.append(f"Gaussian standard errors are too small: take {argument('se', 'moderated')}")
        if len(part.floored):
            first = data.source.variable_names[int(part.floored[0])]
            text.append(
                f"the support is too dense at {count(len(part.floored), 'variable')}, the first {first!r}, whose "
                "intervals are not valid"
            )
        if text:
            out.append(
                f"Class {name!r} has {data.sizes[k]:g} samples for {data.n_variables:,} variables: {'; '.join(text)}. "
                "Choose fewer variables (without use of the class labels), or leave the class out."
            )
    return out
