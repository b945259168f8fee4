"""Dependent samples: what is reported, what is not, and that blocks restore the level."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest

import jointglasso as jgl
from jointglasso.data.windows import DependentSamplesWarning, block_length, lag_one

pytestmark = pytest.mark.filterwarnings("ignore::jointglasso.selection.SelectionWarning")


def series(rng, n, p, r):
    """Independent variables with autocorrelation r."""
    X, noise = np.zeros((n + 50, p)), rng.normal(size=(n + 50, p))
    for t in range(1, n + 50):
        X[t] = r * X[t - 1] + np.sqrt(1 - r * r) * noise[t]
    return X[50:]


def test_the_statistic_is_the_mean_autocorrelation_against_random_order():
    rng = np.random.default_rng(0)
    X = series(rng, 80, 3, 0.6) @ np.array([[1.0, 0.8, 0.0], [0.0, 0.6, 0.0], [0.0, 0.0, 1.0]])
    value, deviate = lag_one(X)
    plain = [pd.Series(column).rank().autocorr() for column in X.T]
    assert value == pytest.approx(np.mean(plain), abs=0.02)
    shuffled = np.array([lag_one(X[rng.permutation(80)]) for _ in range(2000)])
    assert deviate == pytest.approx((value - shuffled[:, 0].mean()) / shuffled[:, 0].std(), rel=0.08)
    assert abs(shuffled[:, 1].mean()) < 0.1 and abs(shuffled[:, 1].std() - 1.0) < 0.06


EXCHANGEABLE = {
    "few variables": lambda rng: rng.normal(size=(40, 2)),
    "one factor": lambda rng: rng.normal(size=(60, 1)) + 0.1 * rng.normal(size=(60, 20)),
    "heavy tails": lambda rng: rng.standard_t(1, size=(50, 5)),
    "rare events": lambda rng: (rng.uniform(size=(60, 4)) < 0.1).astype(float),
    "more variables than samples": lambda rng: rng.normal(size=(30, 60)),
}


@pytest.mark.parametrize("name", EXCHANGEABLE)
def test_exchangeable_samples_are_not_reported(name):
    rng = np.random.default_rng(1)
    fired = [
        value > 0.2 and deviate > 3.719 for value, deviate in (lag_one(EXCHANGEABLE[name](rng)) for _ in range(500))
    ]
    assert np.mean(fired) <= 0.01


@pytest.mark.parametrize("call", [jgl.select, jgl.infer, jgl.JointGraphicalLasso().fit], ids=["select", "infer", "fit"])
def test_series_are_reported_with_numbers(call):
    rng = np.random.default_rng(2)
    X, y = np.vstack([rng.normal(size=(100, 6)), series(rng, 150, 6, 0.5)]), np.repeat(["noise", "series"], [100, 150])
    with pytest.warns(DependentSamplesWarning, match=r"'series' are alike: .* is 0\.4\d, .*1 of 2 classes.*// 10"):
        call(X, y)
    order = rng.permutation(250)
    with warnings.catch_warnings():
        warnings.simplefilter("error", DependentSamplesWarning)
        call(X[order], y[order])


def test_groups_and_short_classes_are_not_reported():
    rng = np.random.default_rng(3)
    X = series(rng, 200, 5, 0.6)
    with warnings.catch_warnings():
        warnings.simplefilter("error", DependentSamplesWarning)
        jgl.infer(X, groups=np.arange(200) // 10)
        jgl.select(X[:15])
    holes = np.where(rng.uniform(size=X.shape) < 0.05, np.nan, X)
    holes[:, 0] = np.nan
    assert lag_one(holes)[0] == pytest.approx(lag_one(X[:, 1:])[0], abs=0.1)
    assert lag_one(np.ones((50, 2)))[0] == 0.0


@pytest.mark.parametrize(
    ("r", "n", "length"), [(0.1, 1000, 10), (0.5, 1000, 10), (0.8, 1000, 22), (0.99, 1000, 40), (0.8, 60, 6)]
)
def test_block_lengths_grow_with_the_autocorrelation(r, n, length):
    assert block_length(r, n) == length


@pytest.mark.filterwarnings("ignore::jointglasso.data.windows.DependentSamplesWarning")
def test_blocks_restore_coverage():
    rng, plain, blocked = np.random.default_rng(4), [], []
    for _ in range(15):
        X = {name: series(rng, 200, 10, 0.5) for name in "ab"}
        groups = {name: np.arange(200) // 10 for name in "ab"}
        for covered, table in ((plain, jgl.infer(X).edges()), (blocked, jgl.infer(X, groups=groups).edges())):
            covered += ((table.low < 0) & (table.high > 0)).tolist()
    assert np.mean(plain) < 0.91
    assert 0.93 <= np.mean(blocked) <= 0.975


def test_what_covariates_explain_is_not_reported():
    rng = np.random.default_rng(5)
    age = np.arange(120.0)
    X = rng.normal(size=(120, 4)) + 0.1 * age[:, None]
    with warnings.catch_warnings():
        warnings.simplefilter("error", DependentSamplesWarning)
        jgl.infer(X, covariates=age)
        jgl.select(X, covariates=age)
    with pytest.warns(DependentSamplesWarning):
        jgl.infer(X)


def walk():
    return np.random.default_rng(0).standard_normal((90, 5)).cumsum(axis=0)


def fitted_by_select():
    return jgl.select(walk(), grid=[(0.9, 0.0)], criterion="bic")


CALLS = {
    "infer": lambda: jgl.infer([walk(), walk()]),
    "select": fitted_by_select,
    "an estimator": lambda: jgl.JointGraphicalLasso(lambda1=0.9, lambda2=0.1).fit([walk(), walk()]),
    "windows": lambda: jgl.TimeVaryingGraphicalLasso(lambda1=0.9, lambda2=0.1, windows=3).fit(walk()),
    "a solve": lambda: jgl.solve(np.cov(walk().T)[None], 0.01, 0.0, max_iter=1, tol=1e-12),
    "a path": lambda: list(jgl.solve_path(np.cov(walk().T)[None], [(0.01, 0.0)], max_iter=1, tol=1e-12)),
}


@pytest.mark.filterwarnings("ignore::jointglasso.selection.SelectionWarning")
@pytest.mark.parametrize("call", CALLS)
def test_warnings_point_at_the_call(call):
    """At a line of this file, not of the package, through decorators and helper functions."""
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        CALLS[call]()
    assert warned
    assert {warning.filename for warning in warned} == {__file__}, [str(w.message) for w in warned]
