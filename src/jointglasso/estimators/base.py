"""Base class of the estimators: input, fitted attributes, and the likelihood of new samples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Self, TypeVar

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, validate_data

from jointglasso._typing import FloatArray
from jointglasso.data import CovarianceSource
from jointglasso.data.checks import InputError, check_choice, known_arguments
from jointglasso.data.effects import without_covariates
from jointglasso.data.kinds import LATENT
from jointglasso.data.missing import handle_missing
from jointglasso.data.prepare import Preparation, PreparedSamples
from jointglasso.data.samples import ONE_CLASS, Samples, is_list_of_tables, stacked
from jointglasso.data.table_checks import labelled, readable_table
from jointglasso.data.windows import warn_if_dependent
from jointglasso.engine import SolveOptions, solve_with
from jointglasso.errors import argument
from jointglasso.selection.em import prepared
from jointglasso.selection.grids import grid_for
from jointglasso.selection.likelihood import mean_log_likelihood
from jointglasso.selection.relaxed import with_refit
from jointglasso.selection.resampling import SelectionData
from jointglasso.selection.result import SelectionResult
from jointglasso.selection.select_penalty import WEIGHTS, SelectionSettings, select_from
from jointglasso.solution import Solution

Model = TypeVar("Model", bound="JointModel")


def estimator(cls: type[Model]) -> type[Model]:
    """Refuse unknown arguments of the constructor with the most similar names."""
    constructor: Any = known_arguments()(cls.__init__)
    cls.__init__ = constructor  # type: ignore[method-assign]
    return cls


@dataclass(eq=False, repr=False, kw_only=True)
class JointModel(BaseEstimator):  # type: ignore[misc]
    """Base of the estimators with their common parameters; see `JointGraphicalLasso` for these and the attributes."""

    scale: str = "correlation"
    assume_centered: bool = False
    weights: Any = WEIGHTS
    penalize_diagonal: bool = False
    fuse_diagonal: bool = False
    screening: str = "dynamic"
    solver: Any = "auto"
    tol: float = 1e-6
    max_iter: int | None = None
    n_jobs: int | None = None
    missing: str = "refuse"
    association: str = "pearson"
    constant: str = "refuse"
    pair_weights: Any = None
    coupling_weights: Any = None
    penalty_shape: str | None = None

    _has_covariates = False

    def fit(self, X: Any, y: Any = None, covariates: Any = None) -> Self:
        """Estimate the precision matrices, at the penalties of the estimator or at those that the criterion chooses.

        Parameters
        ----------
        X : table (n, p)
            Samples in rows: a NumPy array, a sparse matrix, a pandas, polars or pyarrow table, or an AnnData object.
        y : sequence of n labels or str, optional
            Class of each sample, or the name of the column with the labels; one class without it. Every class
            needs at least two samples.
        covariates : table with n rows, optional
            Age, batch and the like, regressed out within each class as in `jointglasso.select`; `location_` holds the
            means of the classes, and there is no `score`.

        Returns
        -------
        Self
            The estimator itself.
        """
        return self._fit_samples(self._read(X, y, covariates))

    def _fit_samples(self, samples: Samples) -> Self:
        ready = prepared(self._preparation(), samples)
        parameters = self.get_params(deep=False)
        lambda1, lambda2 = parameters.get("lambda1"), parameters.get("lambda2")
        if lambda1 is None or lambda2 is None:
            solution = self._choose(samples, ready)
        else:
            self.selection_: SelectionResult | None = None
            self.lambda1_, self.lambda2_ = lambda1, lambda2
            solution = with_refit(ready.source, solve_with(ready.source, lambda1, lambda2, self._solve_options()))
        self._keep(solution, ready.location, ready.deviation, ready.notes)
        return self

    def _preparation(self) -> Preparation:
        return Preparation(
            self.scale, self.assume_centered, self.association, self.missing, self.constant, self.variables
        ).checked()

    def _values(self, options: type[Any]) -> dict[str, Any]:
        """Parameters of the estimator that are fields of a class of options, by name."""
        parameters = self.get_params(deep=False)
        return {field.name: parameters[field.name] for field in fields(options) if field.name in parameters}

    def _solve_options(self) -> SolveOptions:
        return SolveOptions.of(self._values(SolveOptions))

    def _choose(self, samples: Samples, ready: PreparedSamples) -> Solution:
        """Solution at the penalties chosen by the criterion."""
        solve = replace(self._solve_options(), n_jobs=None)
        chosen = {**self._values(SelectionSettings), "grid": self._grid(ready.source), "solve": solve}
        data = SelectionData(ready.source, samples, self._preparation(), ready.notes)
        result = select_from(data, SelectionSettings(**chosen).checked())
        self.selection_ = result
        self.lambda1_, self.lambda2_ = result.lambda1, result.lambda2
        return result.solution

    def _grid(self, source: CovarianceSource) -> Any:
        """Grid from the parameters; None for a search."""
        described = self.n_lambdas, self.ratios, self.min_ratio
        if self.grid is not None or all(value is None for value in described):
            return self.grid
        return grid_for(source, self._solve_options(), *described)

    def _validated(self, X: Any, y: Any, reset: bool = True) -> tuple[FloatArray, Any]:
        """Table and labels after scikit-learn's validation."""
        # Missing and infinite values are checked later, where the error can name their class and variable.
        X, y = stacked(X, y) if is_list_of_tables(X) else labelled(X, y)
        X = readable_table(X.toarray() if sparse.issparse(X) else X)
        return validate_data(self, X, dtype=np.float64, ensure_all_finite=False, reset=reset), y

    def _read(self, X: Any, y: Any, covariates: Any = None) -> Samples:
        """Samples by class, without the effects of covariates."""
        X, y = self._validated(X, y)
        samples = Samples.from_labels(X, y, self._variable_names()).loaded()
        labels = np.full(len(X), ONE_CLASS) if y is None else np.asarray(y)
        self.classes_ = labels[[members[0] for members in samples.rows]]
        samples = samples.with_variables(check_choice("variables", self.variables, ("same", "union")))
        return self._adjusted(samples, covariates)

    def _adjusted(self, samples: Samples, covariates: Any) -> Samples:
        """Samples without the effects of covariates; warns where consecutive ones are alike."""
        self._has_covariates = covariates is not None
        samples = without_covariates(samples, covariates, self.association, self.missing)
        warn_if_dependent(samples)
        return samples

    def _variable_names(self) -> tuple[str, ...]:
        default = (f"x{i}" for i in range(self.n_features_in_))
        return tuple(str(name) for name in vars(self).get("feature_names_in_", default))

    def _keep(
        self, solution: Solution, location: FloatArray, deviation: FloatArray, notes: tuple[str, ...] = ()
    ) -> None:
        """Set the fitted attributes from a solution with its refit."""
        self.solution_, self.refit_ = solution, solution.refit
        self.certificate_, self.partition_ = solution.certificate, solution.partition
        self.location_, self.deviation_, self.notes_ = location, deviation, notes
        self.n_iter_ = max(1, solution.n_iter)
        self.precision_ = self.precision_correlation_ = solution.estimate
        self.penalized_precision_, factors, low_rank = solution.precision, np.ones_like(deviation), solution.low_rank
        if self.scale == "correlation":
            factors = 1.0 / deviation
            self.precision_ = _scaled(solution.estimate, factors)
            self.penalized_precision_ = _scaled(solution.precision, factors)
        else:
            self.precision_correlation_ = _scaled(solution.estimate, deviation)
        self.low_rank_ = None if low_rank is None else factors[:, :, None] * low_rank.matrices * factors[:, None, :]

    @property
    def covariance_(self) -> FloatArray:
        """Covariances (K, p, p) of the measured variables, inverses of ``precision_ - low_rank_``, on access."""
        check_is_fitted(self)
        return np.stack([np.linalg.inv(Theta.toarray()) for Theta in self._marginal_precision()])

    def _marginal_precision(self) -> list[Any]:
        """Marginal precision matrices of the measured variables: latent ones are integrated out."""
        if not self.solution_.has_latent or self.low_rank_ is None:
            return list(self.precision_)
        return [sparse.csc_array(A.toarray() - L) for A, L in zip(self.precision_, self.low_rank_, strict=True)]

    @property
    def partial_correlations_(self) -> list[Any]:
        """Partial correlations ``-theta_ij / sqrt(theta_ii theta_jj)``: K sparse csc_array with unit diagonal."""
        check_is_fitted(self)
        out = _scaled(self.precision_, [Theta.diagonal() ** -0.5 for Theta in self.precision_])
        for R in out:
            R.data *= -1.0
            R.setdiag(1.0)
        return out

    @property
    def networks_(self) -> Any:
        """The networks of the classes, a `jointglasso.networks.JointNetworks`."""
        check_is_fitted(self)
        from jointglasso.networks import JointNetworks

        return JointNetworks.from_solution(self.solution_)

    def score(self, X: Any, y: Any = None) -> float:
        """Mean log-likelihood per sample, each under the Gaussian of its class (`location_`, `precision_`).

        Parameters
        ----------
        X : table (n, p)
            Samples in rows.
        y : sequence of n labels
            Classes of the samples, all of them known from `fit`; may be left out if there is one class only.

        Returns
        -------
        float
            Larger is better. By `missing`, incomplete samples are refused, dropped, or evaluated by the marginal
            density of their observed variables.
        """
        check_is_fitted(self)
        if self.association in LATENT:
            raise InputError(
                f"{argument('association', self.association)} is about latent variables: samples have no score.",
                "association",
            )
        if self._has_covariates:
            raise InputError(
                "The model was fitted with covariates, whose effects on new samples it does not know: adjust the "
                "samples beforehand and fit without covariates to compare likelihoods.",
                "covariates",
            )
        X, y = self._validated(X, y, reset=False)
        names = [str(label) for label in self.classes_]
        if y is None and len(names) > 1:
            raise InputError(f"y is needed: there are {len(names)} classes, and each has its own likelihood.", "y")
        samples = Samples.from_labels(X, [names[0]] * len(X) if y is None else y, self._variable_names())
        unknown = [name for name in samples.class_names if name not in names]
        if unknown:
            raise InputError(
                f"y holds the label {unknown[0]!r}, which is not among the classes of fit ({', '.join(names)}): leave "
                "those samples out, or fit with that class.",
                "y",
                class_name=str(unknown[0]),
            )
        order = [names.index(name) for name in samples.class_names]
        if self.solution_.absent is not None:  # absent variables do not contribute to the likelihood
            absent = self.solution_.absent[order]
            filled = [np.where(mask, 0.0, part) for part, mask in zip(samples.matrices, absent, strict=True)]
            samples = samples.with_parts(filled)
        samples = handle_missing(samples, self.missing, smallest=0)
        precision = self._marginal_precision()
        return mean_log_likelihood(samples.matrices, [self.location_[k] for k in order], [precision[k] for k in order])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = self.missing in ("complete", "pairwise", "em") or self.variables != "same"
        return tags


def _scaled(precision: list[Any], factors: Sequence[FloatArray] | FloatArray) -> list[Any]:
    """``D Theta D`` for each class."""
    scaled = []
    for Theta, factor in zip(precision, factors, strict=True):
        D = sparse.diags_array(factor)
        scaled.append(sparse.csc_array(D @ Theta @ D))
    return scaled
