"""`prewhiten`: residuals of autoregressive models."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest

import jointglasso as jgl
from jointglasso.data.windows import DependentSamplesWarning


def series(rho, n=300, p=4, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p)) @ (np.eye(p) + 0.4)
    for t in range(1, n):
        X[t] += rho * X[t - 1]
    return X


@pytest.mark.parametrize("model", ["ar", "var"])
def test_residuals_have_no_autocorrelation(model):
    X, y = np.vstack([series(0.7), series(0.7, seed=1)]), np.repeat(["b", "a"], 300)
    with pytest.warns(DependentSamplesWarning, match="prewhiten"):
        jgl.infer(X, y)
    residuals = jgl.prewhiten(pd.DataFrame(X, columns=list("wxyz")), y, model=model)
    assert list(residuals) == ["b", "a"] and list(residuals["a"].columns) == list("wxyz")
    for table in residuals.values():
        assert table.shape == (299, 4)
        lagged = [np.corrcoef(column[1:], column[:-1])[0, 1] for column in table.to_numpy().T]
        assert np.abs(lagged).max() < 0.2
    with warnings.catch_warnings():
        warnings.simplefilter("error", DependentSamplesWarning)
        assert jgl.infer(residuals).differences().shape[0] == 6


def test_residuals_are_those_of_least_squares():
    X = series(0.5, n=40, p=2)
    residual = jgl.prewhiten(X, order=2)["all"].to_numpy()[:, 0]
    design = np.column_stack([np.ones(38), X[1:-1, 0], X[:-2, 0]])
    expected = X[2:, 0] - design @ np.linalg.lstsq(design, X[2:, 0], rcond=None)[0]
    np.testing.assert_allclose(residual, expected, atol=1e-10)


def test_errors_name_the_class():
    X = series(0.5, n=60, p=12)
    with pytest.raises(jgl.InputError, match=r"Class 'b' has 10 samples.*model=\"ar\""):
        jgl.prewhiten(X, np.repeat(["a", "b"], [50, 10]), model="var")
    X[3, 2] = np.nan
    with pytest.raises(ValueError, match="nan in variable 'x2'"):
        jgl.prewhiten(X)
