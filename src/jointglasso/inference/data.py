"""What inference is given: samples by class, without covariates, on the scale of correlations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy.linalg import helmert

from jointglasso._optional import require
from jointglasso._typing import FloatArray, IntArray
from jointglasso._wording import count, listed
from jointglasso.covariance import CovarianceSource, SampleCovariance
from jointglasso.covariance.classes import Samples, read_samples
from jointglasso.covariance.effects import without_effects
from jointglasso.covariance.missing import handle_missing
from jointglasso.covariance.prepare import Preparation
from jointglasso.covariance.ranks import NormalScores
from jointglasso.errors import argument
from jointglasso.selection.em import imputed
from jointglasso.validation import InputError, check_choice

#: Kinds of correlation that have standard errors here; the last one by resamples, and in `infer` alone.
ASSOCIATIONS = ("pearson", "nonparanormal", "mixed")

#: Fewest samples of a class, covariates taken off, and fewest subjects: below it a standard error means nothing.
FEWEST = 8

#: Resamples behind the standard errors of polychoric and polyserial correlations, and variables that they are
#: affordable for: their time grows with the number of pairs.
RESAMPLES, MOST_ORDINAL = 60, 150

#: Draws of the missing values of each sample.
COPIES = 20


@dataclass(frozen=True)
class InferenceData:
    """Scores of K classes with ``S_k = Z_k' Z_k / n_k``, and how many independent samples they are worth."""

    source: CovarianceSource
    """Correlations of the scores."""
    scores: list[FloatArray]
    """(n_k, p): centred columns of variance 1."""
    sizes: FloatArray
    """(K,): samples of each class less the covariates that were regressed out."""
    subject_names: list[Any] | None
    """Subject of each sample; None where all samples are independent."""
    gain: list[FloatArray] | None = None
    """(p, p) of each class: samples for each that has both values of a pair; None where none is missing."""
    changes: list[FloatArray] | None = None
    """(B, p, p) of each class: correlations of resamples, less their mean; None where scores tell standard errors."""
    notes: tuple[str, ...] = ()
    """What a reader must know of the correlations."""
    covariates: tuple[str, ...] = ()
    """Names of what was regressed out."""

    @cached_property
    def worth(self) -> FloatArray:
        """(K,): samples of complete Gaussian data that say as much about the correlations."""
        if self.gain is not None:
            return np.asarray(self.sizes / [factor.mean() for factor in self.gain])
        if self.changes is None:
            return self.sizes
        i, j = np.triu_indices(self.n_variables, 1)
        inflation = []
        for k, change in enumerate(self.changes):
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
        """(K,): independent units of each class, subjects where they are known and samples elsewhere."""
        if self.subjects is None:
            return self.sizes
        return np.array([float(subject.max() + 1) for subject in self.subjects])


def read_inference_data(
    X: Any, y: Any, *, association: str, missing: str, groups: Any, covariates: Any, em: bool = False
) -> InferenceData:
    """Read samples, take the covariates out of every class, and standardise.

    `em` says that EM will do, and standard errors from resamples: that is so in `infer`.
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
    beside = [_by_class("groups", groups, samples), _by_class("covariates", covariates, samples)]
    samples, beside = _complete(samples, beside, missing, offered)
    sizes, rest, explained = samples.sizes.astype(float), samples, beside[1]
    if explained is not None:
        rest, lost = _without(samples, explained)
        sizes = sizes - lost
    names = () if explained is None else _names(explained[0])
    _require_varying(samples, rest)
    if explained is not None and association == "nonparanormal":  # a line through skewed values would follow outliers
        rest, _ = _without(samples.with_parts([NormalScores(X).own for X in samples.matrices]), explained)
    samples = rest
    _require_enough(sizes, samples.class_names, "samples" if covariates is None else "samples beyond its covariates")
    if association == "mixed":
        return _resampled(samples, sizes, beside[0])
    if any(np.isnan(X).any() for X in samples.matrices):
        return replace(_imputed(samples, sizes, beside[0], association), covariates=names)
    source: Any = Preparation(association=association)(samples).source
    # A `SampleCovariance` holds the scores already, variables in rows and of length 1.
    scores = [source.content(k)[0].T * np.sqrt(n) for k, n in enumerate(samples.sizes.tolist())]
    data = InferenceData(source, scores, sizes, beside[0], covariates=names)
    if data.subjects is not None:
        _require_enough(data.units, samples.class_names, "subjects (groups)")
    return data


def _resampled(samples: Samples, sizes: FloatArray, subjects: list[Any] | None) -> InferenceData:
    """Correlations of latent variables, as scores that have them, with those of resamples beside."""
    p = samples.n_variables
    if p > MOST_ORDINAL:
        raise InputError(
            f"{argument('association', 'mixed')} takes too long for {p} variables, since standard errors come from "
            f"resamples: choose at most {MOST_ORDINAL} of them.",
            "association",
        )
    how = Preparation(association="mixed")
    prepared = how(samples)
    data = InferenceData(prepared.source, [], sizes, subjects, notes=prepared.notes)
    if subjects is not None:
        _require_enough(data.units, samples.class_names, "subjects (groups)")
    drawn: list[list[FloatArray]] = [[] for _ in sizes]
    for number in range(RESAMPLES):
        rng = np.random.default_rng(number)
        rows = resample(data.subjects, samples.sizes.tolist(), rng)
        source = how.for_resamples()(samples.take(rows)).source
        for k, matrices in enumerate(drawn):
            matrices.append(source.tile(k, slice(0, p), slice(0, p)))
    scores = [_scores_with(prepared.source.tile(k, slice(0, p), slice(0, p))) for k in range(len(sizes))]
    changes = [np.array(matrices) - np.mean(matrices, axis=0) for matrices in drawn]
    return replace(data, scores=scores, changes=changes)


def _scores_with(R: FloatArray) -> FloatArray:
    """(p + 1, p): centred columns whose correlations are `R`."""
    values, vectors = np.linalg.eigh(R)
    root = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
    return np.asarray(np.sqrt(len(R) + 1.0) * helmert(len(R) + 1).T @ root)


def resample(subjects: list[IntArray] | None, sizes: list[int], rng: np.random.Generator) -> list[IntArray]:
    """Rows of each class drawn with replacement, whole subjects where they are known."""
    if subjects is None:
        return [rng.integers(0, n, n) for n in sizes]
    return [_rows_of_some(own, rng) for own in subjects]


def _rows_of_some(subjects: IntArray, rng: np.random.Generator) -> IntArray:
    drawn = rng.integers(0, subjects.max() + 1, subjects.max() + 1)
    rows: IntArray = np.concatenate([np.flatnonzero(subjects == subject) for subject in drawn])
    return rows


def _imputed(samples: Samples, sizes: FloatArray, subjects: list[Any] | None, association: str) -> InferenceData:
    """Every sample `COPIES` times with its missing values drawn: the copies are what a subject's samples are.

    Samples that lack a value of a pair say nothing about a pair off the support: its estimate is that of the others,
    diluted, which `gain` undoes.
    """
    scores = imputed(Preparation(association=association, missing="em"), samples, COPIES)
    source = SampleCovariance(
        scores, scale="correlation", class_names=samples.class_names, variable_names=samples.variable_names
    )
    own = [np.arange(len(X)) for X in samples.matrices] if subjects is None else subjects
    present = [(~np.isnan(X)).astype(float) for X in samples.matrices]
    gain = [len(there) / np.maximum(there.T @ there, 1.0) for there in present]
    data = InferenceData(source, scores, sizes, [np.repeat(labels, COPIES) for labels in own], gain)
    _require_enough(data.units, samples.class_names, "subjects (groups)")
    fewest = np.array([len(there) / factor.max() for there, factor in zip(present, gain, strict=True)])
    _require_enough(fewest, samples.class_names, "samples that have both values of some pair")
    return data


def _by_class(name: str, given: Any, samples: Samples) -> list[Any] | None:
    """What comes with the samples, a column or a table, split as they are."""
    if given is None:
        return None
    if isinstance(given, Mapping):
        parts = {str(label): part for label, part in given.items()}
        if set(parts) != set(samples.class_names):
            raise InputError(
                f"{name} is a dict of {sorted(parts)}, the classes are {sorted(samples.class_names)}.", name
            )
        given = [_table(parts[label]) for label in samples.class_names]
        for label, part, size in zip(samples.class_names, given, samples.sizes, strict=True):
            if len(part) != size:
                raise InputError(
                    f"{name} has {len(part)} rows in class {label!r}, which has {size} samples.", name, class_name=label
                )
        return [_column(name, part) if name == "groups" else part for part in given]
    table = _table(given)
    n_rows = int(samples.sizes.sum())
    if len(table) != n_rows:
        raise InputError(f"{name} has {len(table)} rows, but there are {n_rows} samples: give one row for each.", name)
    return [_column(name, table.iloc[part]) if name == "groups" else table.iloc[part] for part in samples.rows]


def _table(given: Any) -> Any:
    if hasattr(given, "to_pandas"):  # polars, pyarrow
        given = given.to_pandas()
    return require("pandas", "pandas").DataFrame(given if hasattr(given, "columns") else np.asarray(given))


def _column(name: str, table: Any) -> Any:
    if table.shape[1] != 1:
        raise InputError(f"{name} has {table.shape[1]} columns: give one label for each sample.", name)
    if table.isna().any().any():
        raise InputError(f"{name} holds missing labels: name the subject of every sample.", name)
    return table.iloc[:, 0].astype(str).to_numpy()


def _complete(samples: Samples, beside: list[Any], missing: str, offered: Sequence[str]) -> tuple[Samples, list[Any]]:
    """Refuse missing values, or drop the samples that have any together with what belongs to them."""
    if missing != "complete" or not any(np.isnan(X).any() for X in samples.matrices):
        return handle_missing(samples, missing, offered=offered), beside
    keep = [np.flatnonzero(~np.isnan(X).any(axis=1)) for X in samples.matrices]
    kept = [None if part is None else [_rows(p, k) for p, k in zip(part, keep, strict=True)] for part in beside]
    return handle_missing(samples, "complete"), kept


def _rows(part: Any, keep: IntArray) -> Any:
    return part.iloc[keep] if hasattr(part, "iloc") else part[keep]


def _without(samples: Samples, covariates: list[Any]) -> tuple[Samples, FloatArray]:
    """Residuals of the regression on the covariates within each class, and how many directions that took."""
    parts = zip(samples.matrices, covariates, samples.class_names, strict=True)
    rest, lost = zip(*(without_effects(*part) for part in parts), strict=True)
    return samples.with_parts(list(rest)), np.array(lost)


def _names(table: Any) -> tuple[str, ...]:
    """Names of the columns, or how many there are where they have none."""
    columns = list(table.columns)
    return tuple(columns) if all(isinstance(name, str) for name in columns) else (count(len(columns), "covariate"),)


def _require_varying(given: Samples, left: Samples) -> None:
    """Refuse variables that do not vary in a class, or not beyond what the covariates explain."""
    for name, X, rest in zip(given.class_names, given.matrices, left.matrices, strict=True):
        constant = np.nanmax(X, axis=0) == np.nanmin(X, axis=0)
        if given is not left:
            constant |= np.nanvar(rest, axis=0) <= 1e-16 * np.nanvar(X, axis=0)
        still = np.flatnonzero(constant)
        if len(still):
            beyond = "" if given is left else " beyond the covariates"
            dropped = argument("constant", "drop", words="leave them out")
            raise InputError(
                f"{count(len(still), 'variable')} ({listed((given.variable_names[i] for i in still), 5)}) "
                f"{'does' if len(still) == 1 else 'do'} not vary in class {name!r}{beyond}, without a correlation "
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
