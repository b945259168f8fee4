"""Predictability of each variable by all others, with intervals and differences between classes.

With Theta fitted on the support, ``e_j = (Z Theta)_j / theta_jj`` is the error of variable j predicted by its
neighbours. Its mean square v is too small on the samples that chose the neighbours, and about as much too large on
others: false neighbours with coefficients b lower the first and raise the second by |b|^2. The mean of both logarithms,
with held-out errors from cross-fitting, is nearly unbiased for ``eta = -log(1 - R^2)``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from jointglasso._display import ReprMixin
from jointglasso._typing import FloatArray, IntArray
from jointglasso.data.checks import InputError, check_choice, known_arguments
from jointglasso.inference import tests
from jointglasso.inference.batch import LARGEST
from jointglasso.inference.data import InferenceData, read_inference_data
from jointglasso.inference.result import by_class_and_variable, check_level, check_rate, differences_by_variable
from jointglasso.inference.standard_errors import variance_by_unit

#: Folds of the cross-fitting.
FOLDS = 10

#: Variance of eta that the choice of neighbours adds, as a multiple of the mean optimism; chosen by simulation.
_OF_CHOICE = 1.5


@dataclass(frozen=True, repr=False)
class Predictability(ReprMixin):
    """Result of `predictability`.

    Attributes
    ----------
    eta, error : array (p, K)
        ``-log(1 - R^2)`` of each variable in each class, with its standard error.
    degrees : array (K,)
        Degrees of freedom of the standard errors.
    class_names, variable_names : tuple of str
        As in the data.

    Examples
    --------
    >>> jgl.predictability(X, y).table.round(1)
              ill  well
    variable
    x0        0.4   0.7
    x1        0.4   0.6
    x2        0.0   0.1
    x3        0.0   0.0
    """

    eta: FloatArray
    error: FloatArray
    degrees: FloatArray
    class_names: tuple[str, ...]
    variable_names: tuple[str, ...]

    @property
    def table(self) -> pd.DataFrame:
        """Data frame of R^2 with one row for each variable and one column for each class, as `plot_networks` takes."""
        index = pd.Index(self.variable_names, name="variable")
        return pd.DataFrame(_explained(self.eta), index=index, columns=list(self.class_names))

    def variables(self, *, level: float = 0.95) -> pd.DataFrame:
        """Table with the columns `class`, `variable`, `predictability` (R^2), `low` and `high`, largest R^2 first."""
        values = dict(zip(("predictability", "low", "high"), self._intervals(level), strict=True))
        frame = by_class_and_variable(self.class_names, self.variable_names, values)
        return frame.sort_values("predictability", ascending=False, kind="stable", ignore_index=True)

    def differences(self, *, fdr: float | None = None, level: float = 0.95) -> pd.DataFrame:
        """Table of the differences of R^2 between each two classes, smallest p-value first.

        Parameters
        ----------
        fdr : float, optional
            Only rows with q up to this; all by default.
        level : float, default 0.95
            Level of the intervals, which are those of Zou (2007).

        Returns
        -------
        pandas.DataFrame
            Columns `class1`, `class2`, `variable`, `difference`, `low`, `high`, `p_value` (Welch's test of eta),
            `q_value` (over the variables of a comparison). The classes must be independent samples.
        """
        intervals = self._intervals(level)

        def columns(a: int, b: int) -> dict[str, FloatArray]:
            both = [a, b]
            change, low, high = tests.difference_interval(*(part[:, both] for part in intervals))
            p = tests.difference_p_values(self.eta[:, both], self.error[:, both], self.degrees[both])
            return {"difference": change, "low": low, "high": high, "p_value": p}

        frame = differences_by_variable(self.class_names, self.variable_names, columns)
        return frame if fdr is None else frame[frame["q_value"] <= check_rate(fdr)].reset_index(drop=True)

    def _intervals(self, level: float) -> tuple[FloatArray, FloatArray, FloatArray]:
        """R^2 (p, K) and both ends of its intervals."""
        half = tests.half_width(check_level(level), self.degrees) * self.error
        return _explained(self.eta), _explained(self.eta - half), _explained(self.eta + half)

    def _parts(self) -> list[Any]:
        return ["Share of the variance of each variable that the others explain", self.variables()]


@known_arguments()
def predictability(
    X: Any,
    y: Any = None,
    *,
    groups: Any = None,
    association: str = "nonparanormal",
    covariates: Any = None,
    missing: str = "refuse",
    weights: Any = None,
) -> Predictability:
    """Share R^2 of the variance of each variable that the others explain, by class, with intervals and tests.

    Neighbours are chosen as in `infer`, and again in each of ten folds, whose held-out errors remove the optimism of
    `JointNetworks.predictability`.

    Parameters
    ----------
    X, y, groups, covariates, weights
        As in `infer`. With `groups`, subjects stay together in the folds.
    association : {"nonparanormal", "pearson"}
        Normal scores, or the values themselves.
    missing : {"refuse", "complete"}
        Refuse missing values, or drop incomplete samples.

    Returns
    -------
    Predictability
        `variables` with intervals, and `differences` between classes.

    Examples
    --------
    >>> import numpy as np
    >>> import jointglasso as jgl
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 4))
    >>> X[:, 1] += X[:, 0]
    >>> jgl.predictability(X).variables().round(2)
      class variable  predictability   low  high
    0   all       x0            0.52  0.41  0.60
    1   all       x1            0.51  0.40  0.60
    2   all       x2            0.00  0.00  0.01
    3   all       x3            0.00  0.00  0.01
    """
    check_choice("association", association, ("nonparanormal", "pearson"))
    check_choice("missing", missing, ("refuse", "complete"))
    data = read_inference_data(X, y, association=association, missing=missing, groups=groups, covariates=covariates)
    if not 2 <= data.n_variables <= LARGEST:
        raise InputError(f"X has {data.n_variables:,} variables: give from 2 to {LARGEST:,} of them.", "X")
    fitted = data.estimator(weights, 1.0).fit([data.scores])[0]
    held_out = _held_out_errors(data, weights)
    values = [
        _of_class(Z, _errors(Z, Theta), errors, None if data.subjects is None else data.subjects[k])
        for k, (Z, Theta, errors) in enumerate(zip(data.scores, fitted, held_out, strict=True))
    ]
    eta, variance = (np.column_stack(part) for part in zip(*values, strict=True))
    degrees = data.sizes / 2.0 if data.subjects is None else data.units - 1.0
    return Predictability(eta, np.sqrt(variance / data.sizes), degrees, data.class_names, data.source.variable_names)


def _explained(eta: FloatArray) -> FloatArray:
    explained: FloatArray = -np.expm1(-np.maximum(eta, 0.0))
    return explained


def _errors(Z: FloatArray, Theta: FloatArray) -> FloatArray:
    """Squared errors (n, p) of each variable predicted by its neighbours."""
    errors: FloatArray = (Z @ Theta / np.diagonal(Theta)) ** 2
    return errors


def _held_out_errors(data: InferenceData, weights: Any) -> list[FloatArray]:
    """Squared errors (n_k, p) of each class from fits without the fold of the sample."""
    n_folds = min(FOLDS, int(data.units.min()))
    rng = np.random.default_rng(0)
    units: Sequence[IntArray] = data.subjects or [np.arange(len(Z)) for Z in data.scores]
    folds = [(rng.permutation(unit.max() + 1) % n_folds)[unit] for unit in units]
    estimator = data.estimator(weights, 1.0, 1.0 - 1.0 / n_folds)
    out = [np.empty_like(Z) for Z in data.scores]
    for fold in range(n_folds):
        fitted = estimator.fit([[Z[f != fold] for Z, f in zip(data.scores, folds, strict=True)]])[0]
        for Z, f, Theta, errors in zip(data.scores, folds, fitted, out, strict=True):
            errors[f == fold] = _errors(Z[f == fold], Theta)
    return out


def _of_class(
    Z: FloatArray, inside: FloatArray, outside: FloatArray, subjects: IntArray | None
) -> tuple[FloatArray, FloatArray]:
    """Estimate of eta (p,) in a class, and n times its variance.

    The influence of a sample on eta is ``z_j^2 - e_j^2 / v_j``, whose variance is ``4 R^2`` for Gaussian data.
    """
    v_inside, v_outside = inside.mean(axis=0), outside.mean(axis=0)
    eta = -0.5 * (np.log(v_inside) + np.log(v_outside))
    influence = Z**2 - 0.5 * (inside / v_inside + outside / v_outside)
    variance = np.maximum(variance_by_unit(subjects)(influence.T), 4.0 * _explained(eta))
    optimism = max(0.0, float(np.log(v_outside / v_inside).mean()))
    return eta, variance + _OF_CHOICE * optimism
