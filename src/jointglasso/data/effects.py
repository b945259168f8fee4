"""Covariates (batches, age), regressed out of the variables of a class, and sample weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from jointglasso._typing import FloatArray, IntArray
from jointglasso._wording import count
from jointglasso.data.checks import InputError
from jointglasso.data.kinds import LATENT
from jointglasso.data.missing import handle_missing
from jointglasso.data.ranks import NormalScores
from jointglasso.data.samples import Samples
from jointglasso.errors import argument

#: Residual degrees of freedom that a class needs.
FEWEST = 2


def without_covariates(
    samples: Samples, covariates: Any, association: str = "pearson", missing: str = "pairwise"
) -> Samples:
    """Samples with the effects of covariates regressed out of every class, and sizes less the ranks of the covariates.

    `covariates` is a table with a row for each sample, or a dict of tables by class; None returns the samples. With
    ``missing="complete"`` incomplete samples are dropped first.
    """
    if covariates is None:
        return samples
    if samples.sample_fraction < 1.0:
        raise InputError(f"{argument('covariates')} does not go with windows that overlap.", "covariates")
    tables = by_class("covariates", covariates, samples)
    samples, (tables,) = complete_rows(samples, [tables], missing if missing == "complete" else "pairwise", ())
    return regressed_out(samples, tables or [], association)


def regressed_out(samples: Samples, tables: Sequence[Any], association: str) -> Samples:
    """`without_covariates` for tables of covariates by class, with a row for each sample."""
    parts = zip(samples.matrices, tables, samples.class_names, strict=True)
    residuals, ranks = zip(*(adjusted(*part, association) for part in parts), strict=True)
    fraction = 1.0 - np.array(ranks) / samples.sizes
    return replace(samples, parts=list(residuals), size_fraction=fraction, computed={})


def with_sample_weights(samples: Samples, sample_weight: Any, association: str = "pearson") -> Samples:
    """Samples whose plain means and covariances are the weighted ones, with effective sample sizes.

    `sample_weight` has a number >= 0 for each sample, or is a dict of such lists by class; None returns the samples.
    With weights omega_i a class has the effective sample size ``(sum omega)^2 / sum omega^2`` (Kish).
    """
    if sample_weight is None:
        return samples
    if association != "pearson" or samples.size_fraction is not None or samples.sample_fraction < 1.0:
        raise InputError(
            f"{argument('sample_weight')} goes with Pearson's correlations, and neither with covariates nor with "
            "windows that overlap: leave one of them out.",
            "sample_weight",
        )
    if any(np.isnan(X).any() for X in samples.matrices):
        raise InputError(f"{argument('sample_weight')} takes complete samples: fill in missing values.", "X")
    weights = []
    for X, table, name in zip(
        samples.matrices, by_class("sample_weight", sample_weight, samples) or (), samples.class_names, strict=True
    ):
        weight = np.asarray(table, dtype=float).ravel()
        if len(weight) != len(X) or not (np.isfinite(weight) & (weight >= 0.0)).all() or not weight.any():
            raise InputError(
                f"{argument('sample_weight')} of class {name!r} must be one finite number >= 0 for each sample, not "
                "all 0.",
                "sample_weight",
                class_name=name,
            )
        weights.append(weight)
    return WeightedSamples.of(samples, weights)


@dataclass(frozen=True)
class WeightedSamples(Samples):
    """Samples with weights, as `with_sample_weights` returns them; each row of `parts` depends on all samples.

    A subset is weighted anew, so that folds and subsamples share nothing. A class without any weight in it is empty.
    """

    unweighted: Samples | None = None
    sample_weight: Sequence[FloatArray] = ()

    @classmethod
    def of(cls, samples: Samples, weights: Sequence[FloatArray]) -> WeightedSamples:
        """The samples with these weights (n_k,) of each class."""
        parts, fraction = [], []
        for X, weight in zip(samples.matrices, weights, strict=True):
            share = weight / weight.sum() if weight.any() else weight[:0]
            parts.append(_weighted(X, share) if len(share) else X[:0])
            fraction.append(1.0 / (len(X) * float(share @ share)) if len(share) else 1.0)
        known = {f.name: getattr(samples, f.name) for f in fields(Samples)}
        known |= {"parts": parts, "size_fraction": np.array(fraction), "computed": {}}
        return cls(**known, unweighted=samples, sample_weight=weights)

    def take(self, rows: Sequence[IntArray]) -> Samples:
        """Subset of the samples by indices within each class."""
        if self.unweighted is None:
            raise RuntimeError("samples with weights are made by `of`")
        weights = [weight[members] for weight, members in zip(self.sample_weight, rows, strict=True)]
        return self.of(self.unweighted.take(rows), weights)


def _weighted(X: FloatArray, share: FloatArray) -> FloatArray:
    """Samples (n, p) with the mean m and the covariance of X under weights `share` that add up to 1.

    With ``d = share^(1/2)`` the rows of ``Y = n^(1/2) diag(d) (X - 1 m')`` have this covariance, and ``d' Y = 0``. The
    reflection that takes d to ``n^(-1/2) 1`` keeps Y'Y and makes the columns add up to zero.
    """
    mean, d = share @ X, np.sqrt(share)
    Y = np.sqrt(len(X)) * d[:, None] * (X - mean)
    v = d - len(X) ** -0.5
    if v @ v > 1e-30:
        Y -= np.outer(v * (2.0 / (v @ v)), v @ Y)
    Y[:, (X[0] == X).all(axis=0)] = 0.0
    return mean + Y


def adjusted(X: FloatArray, table: Any, class_name: str, association: str) -> tuple[FloatArray, float]:
    """Samples (n, p) of a class at the mean of its covariates, and the rank of the covariates.

    For rank associations the normal scores are adjusted, in units of the data: a regression of skewed values is
    sensitive to outliers. Variables that are constant, or that the covariates determine, become constant.
    """
    if association in LATENT:
        raise InputError(
            f"{argument('covariates')} does not go with {argument('association', association)}, since categories and "
            "zeros have no residuals: leave one out.",
            "association",
        )
    location, variance = _moments(X)
    deviation = np.sqrt(variance)
    values = X if association == "pearson" else location + deviation * NormalScores(X).scores
    residual, rank = without_effects(values, table, class_name)
    if len(X) - rank < FEWEST:
        raise InputError(
            f"Class {class_name!r} has {count(len(X), 'sample')}, too few for covariates of rank {rank:g}: leave "
            "covariates out, or the class.",
            "covariates",
            class_name=class_name,
        )
    is_constant = _moments(residual)[1] <= 1e-16 * variance
    residual[:, is_constant] = np.where(np.isnan(residual[:, is_constant]), np.nan, 0.0)
    return location + residual, rank


def _moments(X: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Means and variances (p,) of the observed values; 0 where there are none."""
    n = np.maximum((~np.isnan(X)).sum(axis=0), 1)
    mean = np.nansum(X, axis=0) / n
    return mean, np.nansum((X - mean) ** 2, axis=0) / n


def without_effects(X: FloatArray, table: Any, class_name: str) -> tuple[FloatArray, float]:
    """Residuals (n, p) of the regression on an intercept and the covariates, and the rank of the covariates.

    Text and categorical columns are coded by indicators. A variable with missing values is regressed on the samples in
    which it is observed.
    """
    import pandas as pd

    if table.isna().any().any():
        column = table.columns[table.isna().any()][0]
        raise InputError(
            f"Covariate {str(column)!r} has missing values in class {class_name!r}: fill them in.",
            "covariates",
            class_name=class_name,
        )
    design = pd.get_dummies(table.infer_objects()).to_numpy(dtype=float)
    if not np.isfinite(design).all():
        raise InputError(
            f"The covariates of class {class_name!r} hold infinite values: correct them.",
            "covariates",
            class_name=class_name,
        )
    basis, singular, _ = np.linalg.svd(design - design.mean(axis=0), full_matrices=False)
    basis = basis[:, singular > 1e-10 * max(singular.max(initial=0.0), 1e-300)]
    centred = X - X.mean(axis=0)
    residual: FloatArray = centred - basis @ (basis.T @ centred)
    for j in np.flatnonzero(np.isnan(X).any(axis=0)):
        observed = ~np.isnan(X[:, j])
        local_design = np.column_stack([np.ones(observed.sum()), basis[observed]])
        residual[observed, j] = (
            X[observed, j] - local_design @ np.linalg.lstsq(local_design, X[observed, j], rcond=None)[0]
        )
        residual[~observed, j] = np.nan
    return residual, float(basis.shape[1])


def by_class(name: str, values: Any, samples: Samples) -> list[Any] | None:
    """Labels or covariates (column, table or dict by class), split by class like the samples."""
    if values is None:
        return None
    if isinstance(values, Mapping):
        parts = {str(label): part for label, part in values.items()}
        if set(parts) != set(samples.class_names):
            raise InputError(
                f"{name} is a dict of {sorted(parts)}, the classes are {sorted(samples.class_names)}.", name
            )
        tables = [_table(parts[label]) for label in samples.class_names]
        for label, part, size in zip(samples.class_names, tables, samples.sizes, strict=True):
            if len(part) != size:
                raise InputError(
                    f"{name} has {len(part)} rows in class {label!r}, which has {size} samples.", name, class_name=label
                )
    else:
        table, n_rows = _table(values), int(samples.sizes.sum())
        if len(table) != n_rows:
            problem = f"{name} has {len(table)} rows, but there are {n_rows} samples"
            raise InputError(f"{problem}: give one row for each.", name)
        tables = [table.iloc[part] for part in samples.rows]
    return [_column(name, part) for part in tables] if name == "groups" else tables


def _table(values: Any) -> Any:
    if hasattr(values, "to_pandas"):  # polars, pyarrow
        values = values.to_pandas()
    import pandas as pd

    return pd.DataFrame(values if hasattr(values, "columns") else np.asarray(values))


def _column(name: str, table: Any) -> Any:
    if table.shape[1] != 1:
        raise InputError(f"{name} has {table.shape[1]} columns: give one label for each sample.", name)
    if table.isna().any().any():
        raise InputError(f"{name} holds missing labels: name the subject of every sample.", name)
    return table.iloc[:, 0].astype(str).to_numpy()


def complete_rows(
    samples: Samples, beside: list[Any], missing: str, offered: Sequence[str]
) -> tuple[Samples, list[Any]]:
    """Refuse missing values, or drop incomplete samples with their labels and covariates."""
    if missing != "complete" or not any(np.isnan(X).any() for X in samples.matrices):
        return handle_missing(samples, missing, offered=offered), beside
    keep = [np.flatnonzero(~np.isnan(X).any(axis=1)) for X in samples.matrices]
    selected = [None if part is None else [_rows(p, k) for p, k in zip(part, keep, strict=True)] for part in beside]
    return handle_missing(samples, "complete"), selected


def _rows(part: Any, keep: IntArray) -> Any:
    return part.iloc[keep] if hasattr(part, "iloc") else part[keep]
