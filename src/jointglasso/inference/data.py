"""Input of the inference: standardised samples by class, with covariates regressed out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np

from jointglasso._cached_property import cached_property
from jointglasso._typing import FloatArray, IntArray
from jointglasso._wording import count, listed
from jointglasso.data import CovarianceSource, SampleCovariance
from jointglasso.data.checks import InputError, check_choice
from jointglasso.data.effects import by_class, complete_rows, regressed_out
from jointglasso.data.kinds import LATENT
from jointglasso.data.missing import MISSING, pair_counts
from jointglasso.data.prepare import Preparation
from jointglasso.data.samples import Samples, read_samples
from jointglasso.data.windows import warn_if_dependent
from jointglasso.errors import argument
from jointglasso.inference.batch import Estimator, Recomputed, Scores, matrices_of, scores_with
from jointglasso.inference.support import class_weights
from jointglasso.selection.em import imputed

ASSOCIATIONS = ("nonparanormal", "pearson", "spearman", *LATENT)


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
    """
    check_choice("association", association, ASSOCIATIONS)
    check_choice("missing", missing, MISSING)
    named = argument("association", association)
    em, covariate_option = argument("missing", "em"), argument("covariates")
    scores = argument("association", "nonparanormal")
    if covariates is not None and association in LATENT:
        raise InputError(
            f"{covariate_option} does not go with {named}, since categories and zeros have no residuals: take "
            f"{scores}.",
            "association",
        )
    if missing == "em" and association in ("spearman", *LATENT) and not permutations:
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
    if se == "gaussian" and (groups is not None or association in ("spearman", *LATENT) or missing == "pairwise"):
        pairwise = argument("missing", missing) if missing == "pairwise" else named
        reason = pairwise if groups is None else argument("groups")
        raise InputError(
            f"{argument('se', 'gaussian')} holds for independent complete samples, and not with {reason}: take "
            f"{argument('se', 'moderated')}.",
            "se",
        )


#: Minimum number of samples of a class (less covariates) and of subjects: standard errors are unusable below it.
FEWEST = 8

#: Resamples for the standard errors of correlations that are recomputed, and the maximum number of variables: of
#: polychoric correlations, whose time grows with the number of pairs, and of others.
RESAMPLES, MOST_ORDINAL, MOST_RECOMPUTED = 60, 150, 600

#: Imputations of each sample with missing values.
COPIES = 20


@dataclass(frozen=True)
class InferenceData:
    """Scores Z_k of K classes with ``S_k = Z_k' Z_k / n_k``, and their effective sample sizes."""

    source: CovarianceSource
    """Correlations of the scores."""
    scores: list[FloatArray]
    """(n_k, p): centred columns of variance 1."""
    sizes: FloatArray
    """(K,): samples of each class less the covariates that were regressed out."""
    subject_names: list[Any] | None
    """Subject of each sample; None where all samples are independent."""
    dilution: list[FloatArray] | None = None
    """(p, p) of each class: n_k over the number of samples with both values of a pair; None without missing values."""
    bootstrap_deviations: list[FloatArray] | None = None
    """(B, p, p) of each class: bootstrap correlations less their mean; None where the scores give standard errors."""
    recomputed: Recomputed | None = None
    """How to recompute the correlations of resamples; None where the scores have them."""
    notes: tuple[str, ...] = ()
    """Remarks about the correlations for the report."""
    association: str = "nonparanormal"
    missing: str = "refuse"
    grouped: bool = False
    """Arguments of `infer`, and whether the samples belong to subjects that were named."""
    covariates: tuple[str, ...] = ()
    """Names of the covariates that were regressed out."""

    @cached_property
    def effective_sample_size(self) -> FloatArray:
        """(K,): effective sample size, of complete Gaussian data with the same mean variance of the correlations."""
        if self.dilution is not None:
            return np.asarray(self.sizes / [factor.mean() for factor in self.dilution])
        if self.bootstrap_deviations is None:
            return self.sizes
        i, j = np.triu_indices(self.n_variables, 1)
        inflation = []
        for k, change in enumerate(self.bootstrap_deviations):
            gaussian = (1.0 - self.source.entries(k, i, j) ** 2) ** 2 / self.sizes[k]
            inflation.append(float(np.mean((change[:, i, j] ** 2).mean(axis=0) / gaussian)))
        return np.asarray(self.sizes / np.maximum(1.0, inflation))

    @cached_property
    def subjects(self) -> list[IntArray] | None:
        """Subject of each sample, numbered from 0 within its class."""
        if self.subject_names is None:
            return None
        return [np.unique(labels, return_inverse=True)[1] for labels in self.subject_names]

    @property
    def class_names(self) -> tuple[str, ...]:
        """Names of the classes."""
        return self.source.class_names

    @property
    def units_drawn(self) -> Scores:
        """Samples from which bootstrap samples and permutations are drawn."""
        if self.recomputed is None:
            return Scores(self.scores, self.subjects)
        return replace(self.recomputed, subjects=self.subjects)

    @property
    def n_variables(self) -> int:
        """Number of variables p."""
        return self.source.n_variables

    def estimator(self, weights: Any, penalty_multiplier: float, fraction: float = 1.0) -> Estimator:
        """Estimator of resamples that hold a fraction of the samples."""
        sizes = fraction * (self.sizes if self.recomputed is None else self.effective_sample_size)
        return Estimator(sizes, class_weights(self.source, sizes, weights), penalty_multiplier, self.dilution)

    @property
    def units(self) -> FloatArray:
        """(K,): number of independent units of each class: subjects where known, else samples."""
        if self.subjects is None:
            return self.sizes
        return np.array([float(subject.max() + 1) for subject in self.subjects])


def read_inference_data(
    X: Any, y: Any, *, association: str, missing: str, groups: Any, covariates: Any, permutations: bool = False
) -> InferenceData:
    """Read samples, regress out covariates within every class, and standardise.

    Refuses combinations without standard errors first (`check_combination`).
    """
    check_combination(association, missing, groups=groups, covariates=covariates, permutations=permutations)
    samples = read_samples(X, y)
    without_em = permutations or association in ("spearman", *LATENT)
    offered = [word for word in MISSING if word != "em" or not without_em]
    beside = [by_class("groups", groups, samples), by_class("covariates", covariates, samples)]
    samples, beside = complete_rows(samples, beside, missing, offered)
    tables = beside[1]
    adjusted = samples if tables is None else regressed_out(samples, tables, "pearson")
    sizes = adjusted.reduced_sizes(samples.sizes).astype(float)
    _require_enough(sizes, samples.class_names, "samples" if tables is None else "samples beyond its covariates")
    _require_varying(samples, adjusted)
    if tables is not None:
        samples = adjusted if association == "pearson" else regressed_out(samples, tables, association)
    covariate_names = () if tables is None else _covariate_names(tables[0])
    if groups is None:
        warn_if_dependent(samples)
    incomplete = any(np.isnan(X).any() for X in samples.matrices)
    if association in ("spearman", *LATENT) or (incomplete and missing == "pairwise"):
        recomputed = Recomputed.of(samples, Preparation(association=association, missing=missing))
        data = _resampled(recomputed, sizes, beside[0])
    elif incomplete:
        data = _imputed(samples, sizes, beside[0], association)
    else:
        source: Any = Preparation(association=association)(samples).source
        # `SampleCovariance.content` holds the scores: variables in rows, scaled to unit norm.
        scores = [source.content(k)[0].T * np.sqrt(n) for k, n in enumerate(samples.sizes.tolist())]
        data = InferenceData(source, scores, sizes, beside[0])
    if data.subjects is not None:
        _require_enough(data.units, samples.class_names, "subjects (groups)")
    grouped = groups is not None
    shared = [] if permutations else _shared_subjects(samples.class_names, beside[0] or [])
    return replace(
        data,
        association=association,
        missing=missing,
        grouped=grouped,
        covariates=covariate_names,
        notes=(*data.notes, *shared),
    )


def _shared_subjects(class_names: Sequence[str], subjects: Sequence[Any]) -> list[str]:
    """A note where two classes name the same subjects, whose dependence no test between classes takes into account."""
    names = [np.unique(labels) for labels in subjects]
    shared = {(a, b): len(np.intersect1d(names[a], names[b])) for a, b in combinations(range(len(names)), 2)}
    pair, most = max(shared.items(), key=lambda item: item[1], default=((0, 0), 0))
    if not most:
        return []
    one, two = (class_names[k] for k in pair)
    others = sum(number > 0 for number in shared.values()) - 1
    more = f" (and {count(others, 'more pair')} of classes)" if others else ""
    return [
        f"Classes {one!r} and {two!r}{more} have {count(most, 'label')} of {argument('groups')} in common: if they "
        "name the same subjects, the classes are not independent samples, as tests and intervals between them assume; "
        f"compare them by network_test({argument('paired', ...)}...)."
    ]


def _resampled(recomputed: Recomputed, sizes: FloatArray, subjects: list[Any] | None) -> InferenceData:
    """Correlations that no scores have, artificial scores that reproduce them, and their bootstrap deviations."""
    samples, preparation = recomputed.samples, recomputed.preparation
    p, most = samples.n_variables, MOST_ORDINAL if preparation.association in LATENT else MOST_RECOMPUTED
    if p > most:
        raise InputError(
            f"Standard errors from resamples, as with {argument('association', preparation.association)} and "
            f"{argument('missing', preparation.missing)}, take too long for {p} variables: choose at most {most} of "
            f"them, or take {argument('association', 'nonparanormal')} with {argument('missing', 'complete')}.",
            "association",
        )
    fewest = [pair_counts(X).min() for X in samples.matrices]
    _require_enough(fewest, samples.class_names, "samples that have both values of some pair")
    prepared = preparation(samples)
    _require_distinct(prepared.source)
    data = InferenceData(prepared.source, [], sizes, subjects, recomputed=recomputed, notes=prepared.notes)
    if subjects is not None:
        _require_enough(data.units, samples.class_names, "subjects (groups)")
    rngs = map(np.random.default_rng, range(RESAMPLES))
    draws = [recomputed.correlations(data.units_drawn.bootstrap_rows(rng)) for rng in rngs]
    changes = [np.array(matrices) - np.mean(matrices, axis=0) for matrices in zip(*draws, strict=True)]
    return replace(data, scores=[scores_with(R) for R in matrices_of(prepared.source)], bootstrap_deviations=changes)


def _require_distinct(source: CovarianceSource) -> None:
    """Refuse two variables with correlation 1 or -1, whose standard error is zero."""
    i, j = np.triu_indices(source.n_variables, 1)
    for k, name in enumerate(source.class_names):
        r = source.entries(k, i, j)
        equal = np.flatnonzero(np.abs(r) > 1.0 - 1e-9)
        if len(equal):
            pair = [source.variable_names[ends[equal[0]]] for ends in (i, j)]
            raise InputError(
                f"Variables {pair[0]!r} and {pair[1]!r} have the same ranks{'' if r[equal[0]] > 0 else ', reversed,'} "
                f"in class {name!r} (correlation {r[equal[0]]:.0f}): drop one of them.",
                "X",
                class_name=name,
                variable=pair[1],
            )


def _imputed(samples: Samples, sizes: FloatArray, subjects: list[Any] | None, association: str) -> InferenceData:
    """Multiple imputation: `COPIES` draws per sample, treated as repeated samples of one subject.

    Samples with a missing value of a pair carry no information about it off the support and dilute its estimate;
    `dilution` corrects for the dilution.
    """
    scores = imputed(Preparation(association=association, missing="em"), samples, COPIES)
    source = SampleCovariance(
        scores, scale="correlation", class_names=samples.class_names, variable_names=samples.variable_names
    )
    labels_by_class = [np.arange(len(X)) for X in samples.matrices] if subjects is None else subjects
    gain = [len(X) / np.maximum(pair_counts(X), 1.0) for X in samples.matrices]
    data = InferenceData(source, scores, sizes, [np.repeat(labels, COPIES) for labels in labels_by_class], gain)
    _require_enough(data.units, samples.class_names, "subjects (groups)")
    smallest = [len(X) / factor.max() for X, factor in zip(samples.matrices, gain, strict=True)]
    _require_enough(smallest, samples.class_names, "samples that have both values of some pair")
    return data


def _covariate_names(table: Any) -> tuple[str, ...]:
    """Column names, or the number of columns in words where these are not strings."""
    columns = list(table.columns)
    return tuple(columns) if all(isinstance(name, str) for name in columns) else (count(len(columns), "covariate"),)


def _require_varying(samples: Samples, residuals: Samples) -> None:
    """Refuse variables that are constant in a class, or after regression on the covariates."""
    for name, X, residual in zip(samples.class_names, samples.matrices, residuals.matrices, strict=True):
        constant = np.nanmax(X, axis=0) == np.nanmin(X, axis=0)
        if samples is not residuals:
            constant |= np.nanvar(residual, axis=0) <= 1e-16 * np.nanvar(X, axis=0)
        indices = np.flatnonzero(constant)
        if len(indices):
            beyond = "" if samples is residuals else " beyond the covariates"
            raise InputError(
                f"{count(len(indices), 'variable')} ({listed((samples.variable_names[i] for i in indices), 5)}) "
                f"{'does' if len(indices) == 1 else 'do'} not vary in class {name!r}{beyond}, without a correlation "
                "there: leave them out.",
                "X",
                class_name=name,
            )


def _require_enough(sizes: Any, class_names: Sequence[str], what: str) -> None:
    for name, size in zip(class_names, sizes, strict=True):
        if size < FEWEST:
            raise InputError(
                f"Class {name!r} has {max(int(size), 0)} {what}; inference needs at least {FEWEST}: leave it out.",
                "X",
                class_name=name,
            )
