"""Combinations of association, missing values, groups and covariates that have standard errors."""

from __future__ import annotations

from typing import Any

from jointglasso.data.checks import InputError, check_choice
from jointglasso.errors import argument

ASSOCIATIONS = ("nonparanormal", "pearson", "spearman", "mixed")

MISSING = ("refuse", "complete", "pairwise", "em")


def check_combination(
    association: str,
    missing: str,
    *,
    groups: Any = None,
    covariates: Any = None,
    se: str = "moderated",
    permutations: bool = False,
) -> None:
    """Refuse combinations without valid standard errors, before any computation; messages name one that works.

    `permutations`: for `network_test`, where `groups` are the subjects of pairs.
    """  # fmt: skip
    check_choice("association", association, ASSOCIATIONS)
    check_choice("missing", missing, MISSING)
    named = argument("association", association)
    em, covariate_option = argument("missing", "em"), argument("covariates")
    scores = argument("association", "nonparanormal")
    if covariates is not None and association == "mixed":
        raise InputError(
            f"{covariate_option} does not go with {named}, since categories have no residuals: take {scores}.",
            "association",
        )
    if missing == "em" and association in ("mixed", "spearman") and not permutations:
        raise InputError(
            f"{em} draws Gaussian values and does not go with {named}: take {argument('missing', 'pairwise')}, or "
            f"{scores} with {em}.",
            "missing",
        )
    if missing == "em" and permutations:
        raise InputError(
            f"{em} does not go with permutations of the samples: take {argument('missing', 'pairwise')} or "
            f"{argument('missing', 'complete')}.",
            "missing",
        )
    if se == "gaussian" and (groups is not None or association in ("mixed", "spearman") or missing == "pairwise"):
        pairwise = argument("missing", missing) if missing == "pairwise" else named
        reason = pairwise if groups is None else argument("groups")
        raise InputError(
            f"{argument('se', 'gaussian')} holds for independent complete samples, and not with {reason}: take "
            f"{argument('se', 'moderated')}.",
            "se",
        )
