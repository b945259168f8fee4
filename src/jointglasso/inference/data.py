"""Input of the inference: standardised samples by class, with covariates regressed out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy.linalg import helmert

from jointglasso._typing import FloatArray, IntArray
from jointglasso._wording import count, listed
from jointglasso.data import CovarianceSource, SampleCovariance
from jointglasso.data.checks import InputError, check_choice
from jointglasso.data.dependence import warn_if_dependent
from jointglasso.data.effects import by_class, complete_rows, without_effects
from jointglasso.data.prepare import Preparation
from jointglasso.data.ranks import NormalScores
from jointglasso.data.samples import Samples, read_samples
from jointglasso.errors import argument
from jointglasso.selection.em import imputed

#: Associations with standard errors; those of "mixed" come from resamples and are available in `infer` only.
ASSOCIATIONS = ("pearson", "nonparanormal", "mixed")

#: Minimum number of samples of a class (less covariates) and of subjects: standard errors are unusable below it.
FEWEST = 8

#: Resamples for the standard errors of polychoric and polyserial correlations, and the maximum number of variables:
#: the time grows with the number of pairs.
RESAMPLES, MOST_ORDINAL = 60, 150

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
    notes: tuple[str, ...] = ()
    """Remarks about the correlations for the report."""
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
    def n_variables(self) -> int:
        """Number of variables p."""
        return self.source.n_variables

    @property
    def units(self) -> FloatArray:
        """(K,): number of independent units of each class: subjects where known, else samples."""
        if self.subjects is None:
            return self.sizes
        return np.array([float(subject.max() + 1) for subject in self.subjects])


def read_inference_data(
    X: Any, y: Any, *, association: str, missing: str, groups: Any, covariates: Any, em: bool = False
) -> InferenceData:
    """Read samples, regress out covariates within every class, and standardise.

    `em` allows ``missing="em"`` and ``association="mixed"`` (standard errors from resamples), as in `infer`.
    """
    if association == "spearman" or (association == "mixed" and not em):
        where = "" if association == "spearman" else " here (infer has them)"
        raise InputError(
            f"{argument('association', association)} has no standard errors{where}: take 'nonparanormal', which sees "
            "ranks.",
            "association",
        )
    check_choice("association", association, ASSOCIATIONS)
    if association == "mixed" and (covariates is not None or missing == "em"):
        what = argument("covariates") if covariates is not None else argument("missing", "em")
        raise InputError(
            f"{what} does not go with {argument('association', 'mixed')}, whose answers are categories: leave one out.",
            "association",
        )
    if missing == "pairwise":
        other = "'complete' or 'em'" if em else "'complete'"
        raise InputError(
            f"{argument('missing', 'pairwise')} has no standard errors (a test of level 0.05 rejects 10 to 19 % of "
            f"true hypotheses): take {other}, or fill the values in.",
            "missing",
        )
    offered = ("refuse", "complete", "em") if em and association != "mixed" else ("refuse", "complete")
    check_choice("missing", missing, offered)
    samples = read_samples(X, y)
    beside = [by_class("groups", groups, samples), by_class("covariates", covariates, samples)]
    samples, beside = complete_rows(samples, beside, missing, offered)
    sizes, residuals, covariate_tables = samples.sizes.astype(float), samples, beside[1]
    if covariate_tables is not None:
        residuals, n_directions = _regress_out(samples, covariate_tables)
        sizes = sizes - n_directions
    covariate_names = () if covariate_tables is None else _covariate_names(covariate_tables[0])
    _require_varying(samples, residuals)
    if (
        covariate_tables is not None and association == "nonparanormal"
    ):  # regression of skewed values is sensitive to outliers
        residuals, _ = _regress_out(
            samples.with_parts([NormalScores(X).scores for X in samples.matrices]), covariate_tables
        )
    samples = residuals
    if groups is None:
        warn_if_dependent(samples)
    _require_enough(sizes, samples.class_names, "samples" if covariates is None else "samples beyond its covariates")
    if association == "mixed":
        return _resampled(samples, sizes, beside[0])
    if any(np.isnan(X).any() for X in samples.matrices):
        return replace(_imputed(samples, sizes, beside[0], association), covariates=covariate_names)
    source: Any = Preparation(association=association)(samples).source
    # `SampleCovariance.content` holds the scores: variables in rows, scaled to unit norm.
    scores = [source.content(k)[0].T * np.sqrt(n) for k, n in enumerate(samples.sizes.tolist())]
    data = InferenceData(source, scores, sizes, beside[0], covariates=covariate_names)
    if data.subjects is not None:
        _require_enough(data.units, samples.class_names, "subjects (groups)")
    return data


def _resampled(samples: Samples, sizes: FloatArray, subjects: list[Any] | None) -> InferenceData:
    """Polychoric and polyserial correlations, scores that reproduce them, and their bootstrap deviations."""
    p = samples.n_variables
    if p > MOST_ORDINAL:
        raise InputError(
            f"{argument('association', 'mixed')} takes too long for {p} variables, since standard errors come from "
            f"resamples: choose at most {MOST_ORDINAL} of them.",
            "association",
        )
    preparation = Preparation(association="mixed")
    prepared = preparation(samples)
    data = InferenceData(prepared.source, [], sizes, subjects, notes=prepared.notes)
    if subjects is not None:
        _require_enough(data.units, samples.class_names, "subjects (groups)")
    drawn: list[list[FloatArray]] = [[] for _ in sizes]
    for number in range(RESAMPLES):
        rng = np.random.default_rng(number)
        rows = resample(data.subjects, samples.sizes.tolist(), rng)
        source = preparation.for_resamples()(samples.take(rows)).source
        for k, matrices in enumerate(drawn):
            matrices.append(source.tile(k, slice(0, p), slice(0, p)))
    scores = [_scores_with(prepared.source.tile(k, slice(0, p), slice(0, p))) for k in range(len(sizes))]
    changes = [np.array(matrices) - np.mean(matrices, axis=0) for matrices in drawn]
    return replace(data, scores=scores, bootstrap_deviations=changes)


def _scores_with(R: FloatArray) -> FloatArray:
    """(p + 1, p): centred columns whose correlations are `R`."""
    values, vectors = np.linalg.eigh(R)
    root = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
    return np.asarray(np.sqrt(len(R) + 1.0) * helmert(len(R) + 1).T @ root)


def resample(subjects: list[IntArray] | None, sizes: list[int], rng: np.random.Generator) -> list[IntArray]:
    """Bootstrap rows of each class, drawn with replacement; by subject where `subjects` are known."""
    if subjects is None:
        return [rng.integers(0, n, n) for n in sizes]
    return [_draw_subjects(class_subjects, rng) for class_subjects in subjects]


def _draw_subjects(subjects: IntArray, rng: np.random.Generator) -> IntArray:
    drawn = rng.integers(0, subjects.max() + 1, subjects.max() + 1)
    rows: IntArray = np.concatenate([np.flatnonzero(subjects == subject) for subject in drawn])
    return rows


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
    present = [(~np.isnan(X)).astype(float) for X in samples.matrices]
    gain = [len(mask) / np.maximum(mask.T @ mask, 1.0) for mask in present]
    data = InferenceData(source, scores, sizes, [np.repeat(labels, COPIES) for labels in labels_by_class], gain)
    _require_enough(data.units, samples.class_names, "subjects (groups)")
    smallest = np.array([len(mask) / factor.max() for mask, factor in zip(present, gain, strict=True)])
    _require_enough(smallest, samples.class_names, "samples that have both values of some pair")
    return data


def _regress_out(samples: Samples, covariates: list[Any]) -> tuple[Samples, FloatArray]:
    """Residuals of the regression on the covariates within each class, and the ranks of the designs (K,)."""
    parts = zip(samples.matrices, covariates, samples.class_names, strict=True)
    residuals, n_directions = zip(*(without_effects(*part) for part in parts), strict=True)
    return samples.with_parts(list(residuals)), np.array(n_directions)


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
            dropped = argument("constant", "drop", words="leave them out")
            raise InputError(
                f"{count(len(indices), 'variable')} ({listed((samples.variable_names[i] for i in indices), 5)}) "
                f"{'does' if len(indices) == 1 else 'do'} not vary in class {name!r}{beyond}, without a correlation "
                f"there: {dropped}.",
                "X",
                class_name=name,
            )


def _require_enough(sizes: FloatArray, class_names: Sequence[str], what: str) -> None:
    for name, size in zip(class_names, sizes, strict=True):
        if size < FEWEST:
            raise InputError(
                f"Class {name!r} has {max(int(size), 0)} {what}; inference needs at least {FEWEST}: leave it out.",
                "X",
                class_name=name,
            )
