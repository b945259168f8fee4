"""Component curves: exact along lambda, and the lambda at which noise percolates."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import jointglasso as jgl
from jointglasso.screening.curve import critical_correlation, lambda_max, noise_percolation


def module_samples(p=60, n=40, K=3, seed=0):
    draw = np.random.default_rng(seed)
    factor = draw.standard_normal((K, n, p // 6)).repeat(6, axis=2)
    return jgl.SampleCovariance(list(0.7 * factor + draw.standard_normal((K, n, p))), scale="correlation")


@pytest.mark.parametrize("rule", ["dynamic", "hybrid", "class", "global"])
@pytest.mark.parametrize("ratio", [0.0, 0.3, 2.0])
def test_every_point_equals_a_screen_of_its_own(rule, ratio):
    source = module_samples()
    curve = jgl.component_curve(source, ratio, rule=rule, n_lambdas=9)
    for at, lambda1 in enumerate(curve.lambda1):
        own = jgl.screen(source, lambda1, ratio * lambda1, rule=rule)
        assert curve.partition(lambda1) == own
        assert (curve.largest[at], curve.n_blocks[at], curve.cost[at]) == (own.largest, own.n_blocks, own.cost)
    assert np.all(np.diff(curve.largest) >= 0)
    assert np.all(np.diff(curve.n_edges) >= 0)


@pytest.mark.parametrize("rule", ["dynamic", "hybrid", "class", "global"])
def test_smallest_lambda_is_the_smallest(rule):
    source = module_samples(seed=1)
    curve = jgl.component_curve(source, 0.3, rule=rule, n_lambdas=12)
    for limit in (1, 3, 7, 20, 45):
        lambda1, lambda2 = curve.smallest_lambda(limit)
        assert lambda2 == pytest.approx(0.3 * lambda1)
        assert jgl.screen(source, lambda1, lambda2, rule=rule).largest <= limit
        below = lambda1 * (1 - 1e-7)
        assert jgl.screen(source, below, 0.3 * below, rule=rule).largest > limit


def test_no_limit_gives_the_floor():
    source = module_samples(p=12)
    curve = jgl.component_curve(source, 0.3, lambda_min=0.2)
    assert curve.floor == 0.2
    assert curve.smallest_lambda(12) == (0.2, pytest.approx(0.06))
    with pytest.raises(ValueError, match="smaller lambda_min"):
        curve.partition(0.1)


@given(ratio=st.floats(0, 3), seed=st.integers(0, 1000))
@settings(max_examples=20)
def test_lambda_max_is_where_edges_begin(ratio, seed):
    source = module_samples(p=12, n=15, K=2, seed=seed)
    top = jgl.component_curve(source, ratio, n_lambdas=2).lambda_max
    above, below = 1.0001 * top, 0.999 * top
    assert sum(jgl.solve(source, above, ratio * above).n_edges) == 0
    assert sum(jgl.solve(source, below, ratio * below).n_edges) > 0


def test_limited_memory_raises_the_floor_and_keeps_the_rest_exact():
    source = module_samples(p=120)
    everything = jgl.component_curve(source, 0.3)
    limited = jgl.component_curve(source, 0.3, max_pairs=1000)
    assert everything.floor == 0
    assert 0 < limited.floor < limited.lambda_max
    assert len(limited._pairs.rows) <= 1000
    assert limited.lambda_max == everything.lambda_max
    for lambda1 in limited.lambda1[::10]:
        assert limited.partition(lambda1) == everything.partition(lambda1)
    assert limited.smallest_lambda(6) == pytest.approx(everything.smallest_lambda(6))


def test_weights_and_dense_matrices():
    source = module_samples(p=30)
    S = {name: source.tile(k, slice(None), slice(None)) for k, name in enumerate(source.class_names)}
    weights = [0.5, 1.0, 2.0]
    curve = jgl.component_curve(S, 0.5, weights=weights, n_lambdas=5)
    assert curve.percolation is None
    for lambda1 in curve.lambda1:
        assert curve.partition(lambda1) == jgl.screen(S, lambda1, 0.5 * lambda1, rule="dynamic", weights=weights)


def test_nothing_but_zeros():
    curve = jgl.component_curve([np.eye(4), np.eye(4)], 0.3)
    assert curve.lambda_max == 0
    assert list(curve.largest) == [1]
    assert "falls from 0," in repr(curve)


# The table of critical values: n samples, p variables.
@pytest.mark.parametrize(
    ("n", "p", "value"),
    [(100, 1000, 0.324), (100, 10**6, 0.466), (200, 10**4, 0.272), (200, 10**5, 0.307), (500, 10**6, 0.217)],
)
def test_critical_correlation(n, p, value):
    assert critical_correlation(n, p) == pytest.approx(value, abs=6e-4)


def test_critical_correlation_at_the_limits():
    assert critical_correlation(2, 10) == 1
    assert critical_correlation(50, 1) == 0


def test_noise_does_percolate_there():
    n, p = 60, 1500
    X = np.random.default_rng(3).standard_normal((n, p))
    curve = jgl.component_curve(jgl.SampleCovariance([X], scale="correlation"), 0.0, lambda_min=0.3)
    assert curve.percolation == pytest.approx(critical_correlation(n, p), rel=1e-3)
    assert curve.partition(1.1 * curve.percolation).largest < 0.05 * p
    assert curve.partition(0.9 * curve.percolation).largest > 0.5 * p


def test_noise_of_variables_of_different_scale():
    draw = np.random.default_rng(4)
    n, p = 60, 1500
    X = draw.standard_normal((n, p)) * np.exp(0.5 * draw.standard_normal(p))
    source = jgl.SampleCovariance([X])
    critical = noise_percolation(source, np.ones(1), 0.0, "dynamic")
    assert jgl.screen(source, 1.3 * critical, 0.0).largest < 0.02 * p
    assert jgl.screen(source, 0.5 * critical, 0.0).largest > 0.1 * p


def test_percolation_by_rule():
    source = module_samples(p=96)
    w = np.ones(3)
    strong, by_class, united = (noise_percolation(source, w, 0.5, rule) for rule in ("dynamic", "class", "global"))
    assert by_class == pytest.approx(1.5 * strong)
    assert united > strong
    assert noise_percolation(jgl.SampleCovariance([np.eye(2)]), np.ones(1), 0.0, "dynamic") > 0


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"ratio": -1.0}, "ratio=-1 must be a finite number >= 0"),
        ({"ratio": 0.3, "rule": "none"}, "rule='none' is not known"),
        ({"ratio": 0.3, "n_lambdas": 1}, "n_lambdas=1 must be at least 2"),
        ({"ratio": 0.3, "max_pairs": 0}, "max_pairs=0 must be at least 1"),
    ],
)
def test_bad_options(options, sentence):
    with pytest.raises(ValueError, match=sentence):
        jgl.component_curve(np.eye(3), **options)


def test_few_samples_leave_room_below_the_first_edge_and_no_bound_is_stated_that_was_not_computed():
    """Noise of a few samples is above lambda1 in some class almost everywhere; strong pairs tell how far one can go."""
    rng = np.random.default_rng(0)
    source = jgl.SampleCovariance([rng.normal(size=(9, 900)), rng.normal(size=(8, 900))], scale="correlation")
    curve = jgl.component_curve(source, 0.3, n_lambdas=12, max_pairs=10_000)
    weak = jgl.component_curve(source, 0.3, n_lambdas=12, max_pairs=10_000, rule="hybrid")
    assert curve.floor < 0.97 * curve.lambda_max
    assert curve.floor < weak.floor
    assert curve.lambda_max == weak.lambda_max == pytest.approx(lambda_max(source, [(1.0, 0.3)])[0])
    assert len(np.unique(curve.n_edges)) > 4 and curve.n_edges[-1] > 10
    for value in curve.lambda1[[0, 5, 11]] * (1 + 1e-9):
        assert curve.partition(value) == jgl.screen(source, value, 0.3 * value, rule="dynamic")
    assert curve.reaches(1) and not curve.reaches(900)
    assert curve.smallest_lambda(900) == (curve.floor, 0.3 * curve.floor)
    nowhere = jgl.component_curve(source, 0.3, lambda_min=0.99, n_lambdas=12)
    assert len(nowhere.lambda1) == 1 and nowhere.n_edges.tolist() == [0], "one line, not twelve equal ones"
    assert nowhere.lambda_max == pytest.approx(curve.lambda_max)
