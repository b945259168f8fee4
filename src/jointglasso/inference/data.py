"""What inference is given: samples by class, without covariates, on the scale of correlations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from jointglasso._optional import require
from jointglasso._typing import FloatArray, IntArray
from jointglasso.covariance import CovarianceSource
from jointglasso.covariance.classes import ClassSamples
from jointglasso.covariance.missing import handle_missing
from jointglasso.covariance.prepare import Preparation
from jointglasso.selection.intake import read_samples
from jointglasso.validation import check_choice

#: Kinds of correlation that have standard errors here.
ASSOCIATIONS = ("pearson", "nonparanormal")

#: Fewest samples of a class, covariates taken off, and fewest subjects: below it a standard error means nothing.
FEWEST = 8


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
    X: Any, y: Any, *, association: str, missing: str, groups: Any, covariates: Any
) -> InferenceData:
    """Read samples, take the covariates out of every class, and standardise."""
    if association == "spearman":
        raise ValueError("association='spearman' has no standard errors: take 'nonparanormal', which sees ranks too.")
    check_choice("association", association, ASSOCIATIONS)
    if missing == "pairwise":
        raise ValueError(
            "missing='pairwise' has no standard errors (a test of level 0.05 rejects 10 to 19 % of true hypotheses): "
            "take 'complete', or fill the values in."
        )
    check_choice("missing", missing, ("refuse", "complete"))
    samples, rows = read_samples(X, y)
    beside = [_by_class("groups", groups, samples, rows), _by_class("covariates", covariates, samples, rows)]
    samples, beside = _complete(samples, beside, missing)
    sizes, given = samples.sizes.astype(float), samples
    if beside[1] is not None:
        samples, lost = _without(samples, beside[1])
        sizes = sizes - lost
    _require_varying(given, samples)
    _require_enough(sizes, samples.class_names, "samples" if covariates is None else "samples beyond its covariates")
    prepared = Preparation(association=association)(samples)
    scores = [prepared.scores(k, X) for k, X in enumerate(samples.matrices)]
    data = InferenceData(prepared.source, scores, sizes, beside[0])
    if data.subjects is not None:
        _require_enough(data.units, samples.class_names, "subjects (groups)")
    return data


def _by_class(name: str, given: Any, samples: ClassSamples, rows: Sequence[IntArray]) -> list[Any] | None:
    """What comes with the samples, a column or a table, split as they are."""
    if given is None:
        return None
    if isinstance(given, Mapping):
        parts = {str(label): part for label, part in given.items()}
        if set(parts) != set(samples.class_names):
            raise ValueError(f"{name} is a dict of {sorted(parts)}, the classes are {sorted(samples.class_names)}.")
        given = [_table(parts[label]) for label in samples.class_names]
        for label, part, size in zip(samples.class_names, given, samples.sizes, strict=True):
            if len(part) != size:
                raise ValueError(f"{name} has {len(part)} rows in class {label!r}, which has {size} samples.")
        return [_column(name, part) if name == "groups" else part for part in given]
    table = _table(given)
    n_rows = sum(map(len, rows))
    if len(table) != n_rows:
        raise ValueError(f"{name} has {len(table)} rows, but there are {n_rows} samples: give one row for each.")
    return [_column(name, table.iloc[part]) if name == "groups" else table.iloc[part] for part in rows]


def _table(given: Any) -> Any:
    if hasattr(given, "to_pandas"):  # polars, pyarrow
        given = given.to_pandas()
    return require("pandas", "pandas").DataFrame(given if hasattr(given, "columns") else np.asarray(given))


def _column(name: str, table: Any) -> Any:
    if table.shape[1] != 1:
        raise ValueError(f"{name} has {table.shape[1]} columns: give one label for each sample.")
    if table.isna().any().any():
        raise ValueError(f"{name} holds missing labels: name the subject of every sample.")
    return table.iloc[:, 0].astype(str).to_numpy()


def _complete(samples: ClassSamples, beside: list[Any], missing: str) -> tuple[ClassSamples, list[Any]]:
    """Refuse missing values, or drop the samples that have any together with what belongs to them."""
    if missing == "refuse" or not any(np.isnan(X).any() for X in samples.matrices):
        return handle_missing(samples, "refuse"), beside
    keep = [np.flatnonzero(~np.isnan(X).any(axis=1)) for X in samples.matrices]
    kept = [None if part is None else [_rows(p, k) for p, k in zip(part, keep, strict=True)] for part in beside]
    return handle_missing(samples, "complete"), kept


def _rows(part: Any, keep: IntArray) -> Any:
    return part.iloc[keep] if hasattr(part, "iloc") else part[keep]


def _without(samples: ClassSamples, covariates: list[Any]) -> tuple[ClassSamples, FloatArray]:
    """Residuals of the regression on the covariates within each class, and how many directions that took."""
    rest, lost = [], []
    for name, X, table in zip(samples.class_names, samples.matrices, covariates, strict=True):
        design = _design(table, name)
        basis, singular, _ = np.linalg.svd(design, full_matrices=False)
        basis = basis[:, singular > 1e-10 * max(singular.max(initial=0.0), 1e-300)]
        centred = X - X.mean(axis=0)
        rest.append(centred - basis @ (basis.T @ centred))
        lost.append(float(basis.shape[1]))
    return ClassSamples(rest, samples.class_names, samples.variable_names), np.array(lost)


def _design(table: Any, class_name: str) -> FloatArray:
    """Centred columns: numbers as they are, text and categories as one indicator for each value."""
    if table.isna().any().any():
        column = table.columns[table.isna().any()][0]
        raise ValueError(f"Covariate {str(column)!r} has missing values in class {class_name!r}: fill them in.")
    design = require("pandas", "pandas").get_dummies(table.infer_objects()).to_numpy(dtype=float)
    if not np.isfinite(design).all():
        raise ValueError(f"The covariates of class {class_name!r} hold infinite values: correct them.")
    centred: FloatArray = design - design.mean(axis=0)
    return centred


def _require_varying(given: ClassSamples, left: ClassSamples) -> None:
    """Refuse variables that do not vary in a class, or not beyond what the covariates explain."""
    for name, X, rest in zip(given.class_names, given.matrices, left.matrices, strict=True):
        variance, remaining = X.var(axis=0), rest.var(axis=0)
        still = np.flatnonzero((X[:1] == X).all(axis=0) | (remaining <= 1e-16 * variance))
        if len(still):
            named = ", ".join(repr(given.variable_names[i]) for i in still[:5]) + (", ..." if len(still) > 5 else "")
            beyond = "" if given is left else " beyond the covariates"
            number = f"{len(still)} variable{'' if len(still) == 1 else 's'}"
            raise ValueError(
                f"{number} ({named}) do not vary in class {name!r}{beyond}, so they have no correlation there: leave "
                "them out."
            )


def _require_enough(sizes: FloatArray, class_names: Sequence[str], what: str) -> None:
    for name, size in zip(class_names, sizes, strict=True):
        if size < FEWEST:
            raise ValueError(
                f"Class {name!r} has {max(int(size), 0)} {what}; inference needs at least {FEWEST}: leave it out."
            )
