"""Inference: the formulas, by other ways to compute them; tables; and what bad input is told."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from unittest import mock

import numpy as np
import pandas as pd
import pytest
from scipy import sparse, stats

import jointglasso as jgl
from jointglasso.inference import estimates, support, tests as across
from jointglasso.inference.data import read_inference_data
from jointglasso.inference.estimates import estimate, sampled_pairs
from jointglasso.inference.standard_errors import (
    Residuals,
    all_factors,
    at_least_of_its_variables,
    factors,
    influence,
    resampled_factors,
)
from jointglasso.inference.support import OMEGA, find_support, refitted
from jointglasso.inference.tests import q_values


def chain(strength, n, p=12, seed=0):
    """Samples of a chain of variables."""
    Theta = np.eye(p) + strength * (np.eye(p, k=1) + np.eye(p, k=-1))
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, p)) @ np.linalg.cholesky(np.linalg.inv(Theta)).T


@pytest.fixture(scope="module")
def data():
    samples = {"a": chain(0.4, 80), "b": chain(-0.3, 120, seed=1)}
    return read_inference_data(samples, None, association="pearson", missing="refuse", groups=None, covariates=None)


@pytest.fixture(scope="module")
def residuals(data):
    found = find_support(data.source, data.sizes, penalty_multiplier=1.0, weights=None)
    assert found.notes == ()
    return [Residuals(Z, Theta) for Z, Theta in zip(data.scores, found.precision, strict=True)]


def upper(matrix):
    return matrix[np.triu_indices(len(matrix), 1)]


# Formulas


def test_the_support_step_is_the_stated_problem(data, residuals):
    s = np.sqrt(max(np.log(12), 2 * np.log(12 / 5)) / 100)
    weights = np.sqrt(np.array([80, 120]) / 100)
    plain = jgl.solve(
        data.source, (1 - OMEGA) * s, OMEGA * s, weights=weights, penalize_diagonal=False, screening="none", tol=1e-8
    )
    for Theta, part in zip(plain.precision, residuals, strict=True):
        np.testing.assert_array_equal((abs(Theta) > 1e-9).toarray(), part.Theta.toarray() != 0)


def test_the_refit_agrees_with_the_correlations_on_the_support(data, residuals):
    for k, part in enumerate(residuals):
        W = np.linalg.inv(part.Theta.toarray())
        on = part.Theta.toarray() != 0
        S = data.source.block(k, np.arange(12))
        np.testing.assert_allclose(W[on], S[on], atol=1e-7)


def test_streamed_and_dense_estimates_are_the_formula(data, residuals):
    for k, part in enumerate(residuals):
        S, Theta = data.source.block(k, np.arange(12)), part.Theta.toarray()
        T = 2 * Theta - Theta @ S @ Theta
        scale = 1 / np.sqrt(np.diagonal(T))
        rho = upper(-T * np.outer(scale, scale))
        np.testing.assert_allclose(part.diagonal, np.diagonal(T), atol=1e-12)
        np.testing.assert_allclose(upper(part.all_pairs()), rho, atol=1e-12)
        np.testing.assert_allclose(part.pairs(*np.triu_indices(12, 1)), rho, atol=1e-12)


def test_the_exact_inverse_is_left_as_it_is():
    X = chain(0.4, 200)
    S = np.cov(X.T, bias=True)
    part = Residuals(X - X.mean(axis=0), sparse.csc_array(np.linalg.inv(S)))
    scale = 1 / np.sqrt(np.diagonal(np.linalg.inv(S)))
    rho = upper(-np.linalg.inv(S) * np.outer(scale, scale))
    np.testing.assert_allclose(part.pairs(*np.triu_indices(12, 1)), rho, atol=1e-10)


def test_factors_by_moments_are_those_of_single_samples(residuals):
    i, j = np.triu_indices(12, 1)
    subjects = np.arange(80) // 4
    part = residuals[0]
    rho = part.all_pairs()
    np.fill_diagonal(rho, 0.0)
    for given in (None, subjects):
        np.testing.assert_allclose(
            all_factors(part, rho, given)[i, j], factors(part, i, j, rho[i, j], given), rtol=1e-10
        )


def test_the_influence_is_that_of_moving_a_little_weight_to_one_sample():
    """Derivative of the partial correlation of two variables given a third, by finite differences."""
    X = chain(0.4, 300, p=3)
    X -= X.mean(axis=0)

    def estimate_with(weights):
        S = (X * weights[:, None]).T @ X
        Theta = np.linalg.inv(S)
        return -Theta[0, 1] / np.sqrt(Theta[0, 0] * Theta[1, 1])

    even = np.full(300, 1 / 300)
    rho = estimate_with(even)
    slopes = []
    for sample in range(20):
        moved = even * (1 - 1e-6)
        moved[sample] += 1e-6
        slopes.append((estimate_with(moved) - rho) / 1e-6)
    part = Residuals(X, sparse.csc_array(np.linalg.inv(X.T @ X / 300)))
    V = part.standard
    found = influence(V[:1], V[1:2], np.array([rho]), np.array([rho]))[0, :20]
    np.testing.assert_allclose(found, slopes, atol=1e-4)


def test_factors_of_many_gaussian_samples_are_one_and_of_heavy_tails_more():
    rng = np.random.default_rng(0)
    X = chain(0.4, 100_000, p=5)
    options = {"association": "pearson", "missing": "refuse", "groups": None, "covariates": None}
    for samples, low, high in ((X, 0.95, 1.05), (X / np.sqrt(rng.chisquare(6, (len(X), 1)) / 6), 1.5, 3.0)):
        given = read_inference_data(samples, None, **options)
        part = Residuals(given.scores[0], refitted(given.source, [np.linalg.inv(np.corrcoef(samples.T))]).precision[0])
        g = factors(part, *np.triu_indices(5, 1), part.pairs(*np.triu_indices(5, 1)))
        assert low < g.min() <= g.max() < high


def test_standard_errors_are_moderated_towards_the_mean_and_at_least_gaussian(data, residuals):
    i, j = np.triu_indices(12, 1)
    found = estimate(data, residuals, "moderated", None)
    for k, part in enumerate(residuals):
        g = factors(part, i, j, np.tanh(found.z[:, k]))
        expected = np.maximum(max(1, g.mean()), (g + g.mean()) / 2) / (data.sizes[k] - 3)
        np.testing.assert_allclose(found.error[:, k] ** 2, expected, rtol=1e-10)
    plain = estimate(data, residuals, "gaussian", None)
    np.testing.assert_allclose(plain.error, np.broadcast_to(1 / np.sqrt(data.sizes - 3), plain.error.shape))
    assert (found.error >= plain.error * (1 - 1e-12)).all()
    np.testing.assert_array_equal(found.degrees, [40, 60])
    np.testing.assert_array_equal(plain.degrees, [78, 118])


def test_gaussian_p_values_are_those_of_a_correlation_test():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2, 30))
    r, p = stats.pearsonr(x, y)
    found = across.edge_p_values(np.arctanh([[r]]), np.ones((1, 1)), np.array([28.0]), gaussian=True)
    np.testing.assert_allclose(found, [[p]], rtol=1e-10)


KNOWN = np.full(3, np.inf)


def test_tests_across_classes_agree_with_plain_sums():
    rng = np.random.default_rng(0)
    z, error = rng.normal(size=(7, 3)), rng.uniform(0.1, 0.4, (7, 3))
    Q, p = across.heterogeneity(z, error, KNOWN)
    for row in range(7):
        weights = 1 / error[row] ** 2
        mean = np.average(z[row], weights=weights)
        np.testing.assert_allclose(Q[row], sum(weights * (z[row] - mean) ** 2))
        np.testing.assert_allclose(p[row], stats.chi2.sf(Q[row], 2))
    total, _ = across.omnibus(z, error, KNOWN)
    effect, p = across.pooled_effect(z, error, KNOWN)
    np.testing.assert_allclose(total, Q + effect**2)  # Pythagoras
    np.testing.assert_allclose(p, 2 * stats.norm.sf(np.abs(effect)))


def test_a_pooled_effect_has_the_degrees_of_satterthwaite():
    z, error, degrees = np.array([[0.4, 0.1]]), np.array([[0.1, 0.3]]), np.array([5.0, 40.0])
    weight = 1 / error[0] ** 2
    freedom = weight.sum() ** 2 / (weight**2 / degrees).sum()
    statistic, p = across.pooled_effect(z, error, degrees)
    assert statistic[0] == pytest.approx((weight @ z[0]) / np.sqrt(weight.sum()))
    assert p[0] == pytest.approx(2 * stats.t.sf(statistic[0], freedom)) and 5.0 < freedom < 8.0


def test_the_interval_of_a_difference_is_that_of_zou():
    """Each limit by the near limits of the two intervals, which are not symmetric far from zero."""
    z, half = np.arctanh([[0.9, -0.2]]), np.array([[0.4, 0.6]])
    ends = (np.tanh(part) for part in (z, z - half, z + half))
    difference, low, high = (float(part[0]) for part in across.difference_interval(*ends))
    (r1, r2), (l1, l2), (u1, u2) = np.tanh(z[0]), np.tanh(z[0] - half[0]), np.tanh(z[0] + half[0])
    assert difference == pytest.approx(1.1)
    assert low == pytest.approx(1.1 - np.sqrt((r1 - l1) ** 2 + (u2 - r2) ** 2))
    assert high == pytest.approx(1.1 + np.sqrt((u1 - r1) ** 2 + (r2 - l2) ** 2))


def test_the_diagonal_of_the_desparsified_estimate_has_a_lower_bound():
    """Residuals of the wrong Theta: 2 theta - u'u / n is negative, and partial correlations would not exist."""
    scores = 5.0 * np.random.default_rng(0).standard_normal((30, 3))
    residuals = Residuals(scores, sparse.eye_array(3))
    assert (residuals.diagonal == 0.1).all() and residuals.floored.tolist() == [0, 1, 2]
    assert np.isfinite(residuals.all_pairs()).all()


def test_estimated_errors_are_paid_for_as_welch_does():
    """Means of groups by their standard errors: the tests are those of scipy for groups of unequal variance."""
    rng = np.random.default_rng(1)
    groups = [rng.normal(0.3 * k, 1 + k, size=6 + 3 * k) for k in range(4)]
    z = np.array([[group.mean() for group in groups]])
    error = np.array([[group.std(ddof=1) / np.sqrt(len(group)) for group in groups]])
    degrees = np.array([len(group) - 1.0 for group in groups])
    two = stats.ttest_ind(groups[0], groups[1], equal_var=False).pvalue
    assert across.difference_p_values(z[:, :2], error[:, :2], degrees[:2])[0] == pytest.approx(two)
    assert across.heterogeneity(z[:, :2], error[:, :2], degrees[:2])[1][0] == pytest.approx(two)
    four = stats.f_oneway(*groups, equal_var=False).pvalue
    assert across.heterogeneity(z, error, degrees)[1][0] == pytest.approx(four)
    alone = stats.ttest_1samp(groups[0], 0.0).pvalue
    for test in (across.pooled_effect, across.omnibus):
        assert test(z[:, :1], error[:, :1], degrees[:1])[1][0] == pytest.approx(alone)


def test_contrasts_add_variances_as_welch_does():
    """Coefficients 1 and -1 are Welch's test with its interval; others are the textbook formula row by row."""
    rng = np.random.default_rng(2)
    groups = [rng.normal(0.3 * k, 1 + k, size=6 + 3 * k) for k in range(4)]
    z = np.array([[group.mean() for group in groups]])
    error = np.array([[group.std(ddof=1) / np.sqrt(len(group)) for group in groups]])
    degrees = np.array([len(group) - 1.0 for group in groups])
    welch = stats.ttest_ind(groups[0], groups[1], equal_var=False)
    value, half, p = across.contrast(z[:, :2], error[:, :2], degrees[:2], np.array([1.0, -1.0]), 0.9)
    low, high = welch.confidence_interval(0.9)
    assert (value[0] - half[0], value[0] + half[0], p[0]) == pytest.approx((low, high, welch.pvalue))
    c = np.array([1.0, -1.0, -0.5, 2.0])
    value, half, p = across.contrast(z, error, degrees, c)
    variances = [c[k] ** 2 * groups[k].var(ddof=1) / len(groups[k]) for k in range(4)]
    freedom = sum(variances) ** 2 / sum(v**2 / d for v, d in zip(variances, degrees, strict=True))
    assert value[0] == pytest.approx(sum(c[k] * groups[k].mean() for k in range(4)))
    assert half[0] == pytest.approx(stats.t.ppf(0.975, freedom) * sum(variances) ** 0.5)
    assert p[0] == pytest.approx(2 * stats.t.sf(abs(value[0]) / sum(variances) ** 0.5, freedom))


def test_q_values_are_those_of_scipy_and_small_ones_need_no_others():
    p = np.random.default_rng(0).uniform(size=200) ** 3
    np.testing.assert_allclose(q_values(p, 200), stats.false_discovery_control(p))
    small = np.sort(p)[:80]
    assert (q_values(small, 200) >= stats.false_discovery_control(p)[np.argsort(p)[:80]] - 1e-12).all()


# The result


@pytest.fixture(scope="module")
def table():
    X = pd.DataFrame(np.vstack([chain(0.45, 150), chain(0.0, 100, seed=1)]), columns=[f"g{i}" for i in range(12)])
    return X, ["case"] * 150 + ["control"] * 100


NAMES = ["class", "variable1", "variable2", "partial_correlation", "low", "high", "p_value", "q_value"]


@pytest.fixture(scope="module")
def found(table):
    return jgl.infer(*table)


def test_tables_have_the_stated_columns_and_every_pair(found):
    assert list(found.edges()) == NAMES
    assert list(found.differences()) == ["class1", "class2", "variable1", "variable2", "difference", *NAMES[4:]]
    assert list(found.heterogeneity()) == list(found.pooled_effect()) == [*NAMES[1:3], "statistic", *NAMES[6:]]
    assert len(found.edges()) == 2 * 66
    assert len(found.differences()) == len(found.pooled_effect()) == 66
    for frame in (found.edges(), found.differences(), found.pooled_effect()):
        assert frame.p_value.is_monotonic_increasing
    assert (found.edges().q_value <= 0.1).sum() == len(found.edges(fdr=0.1))


def test_true_edges_and_differences_are_found_by_name(found):
    chained = {(f"g{i}", f"g{i + 1}") for i in range(11)}
    edges = found.edges(fdr=0.05)
    assert set(zip(edges.variable1, edges.variable2, strict=True)) >= chained
    assert set(edges["class"]) == {"case"}
    assert (edges.partial_correlation.abs() > 0.2).all()
    assert ((edges.low < edges.partial_correlation) & (edges.partial_correlation < edges.high)).all()
    different = found.differences(fdr=0.1)
    assert set(zip(different.variable1, different.variable2, strict=True)) <= chained
    assert len(different) >= 5
    reverse = found.differences(*reversed(found.class_names), fdr=0.1)
    assert list(reverse.class1.unique()) == [found.class_names[1]]
    np.testing.assert_allclose(reverse[["difference", "low"]], -different[["difference", "high"]])
    np.testing.assert_array_equal(reverse.q_value, different.q_value)
    for wrong, message in ((("case", "z"), "class2='z' is not known"), (("control",) * 2, "both 'control'")):
        with pytest.raises(ValueError, match=message):
            found.differences(*wrong)


def test_intervals_and_p_values_agree(found):
    edges = found.edges()
    outside = (edges.low > 0) | (edges.high < 0)
    np.testing.assert_array_equal(outside, edges.p_value < 0.05)
    wide = found.edges(level=0.99)
    np.testing.assert_array_equal((wide.low > 0) | (wide.high < 0), wide.p_value < 0.01)


def test_changes_are_the_differences_of_consecutive_classes_with_one_false_discovery_rate():
    samples = {
        name: chain(strength, 90, seed=k) for k, (name, strength) in enumerate([("t0", 0.4), ("t1", 0.4), ("t2", -0.3)])
    }
    tested = jgl.infer(samples)
    changes, differences = tested.changes(), tested.differences()
    keys = ["class1", "class2", "variable1", "variable2"]
    assert set(zip(changes.class1, changes.class2, strict=True)) == {("t0", "t1"), ("t1", "t2")}
    both = changes.merge(differences, on=keys, suffixes=("", "_own"))
    assert len(both) == len(changes) == 2 * tested.n_pairs
    for column in ("difference", "low", "high", "p_value"):
        np.testing.assert_allclose(both[column], both[column + "_own"])
    np.testing.assert_allclose(changes.q_value, q_values(changes.p_value.to_numpy(), len(changes)))
    significant = tested.changes(fdr=0.1)
    assert len(significant) > 4 and set(significant.class1) == {"t1"}
    two = jgl.infer({name: samples[name] for name in ("t0", "t2")})
    pd.testing.assert_frame_equal(two.changes(), two.differences())
    with pytest.raises(jgl.InputError, match="only one"):
        jgl.infer(samples["t0"]).changes()


def test_a_contrast_of_two_classes_is_their_difference(found):
    order = ["variable1", "variable2"]
    contrast = found.contrast({"case": 1, "control": -1}).sort_values(order)
    differences = found.differences().sort_values(order)
    np.testing.assert_allclose(contrast.p_value, differences.p_value)
    np.testing.assert_allclose(contrast.q_value, differences.q_value)
    np.testing.assert_array_equal((contrast.low > 0) | (contrast.high < 0), contrast.p_value < 0.05)
    edges = found.edges().query("`class` == 'case'").sort_values(order)
    single = found.contrast({"case": 2.0}).sort_values(order)
    np.testing.assert_allclose(np.tanh(single[["contrast", "low", "high"]] / 2.0), edges[NAMES[3:6]])
    assert (found.contrast({"case": 1, "control": -1}, fdr=0.1).q_value <= 0.1).all()


@pytest.mark.parametrize(
    ("coefficients", "words"),
    [({"cases": 1}, "'cases'"), ({"case": 0.0}, "other than zero"), ({"case": np.nan}, "finite")],
)
def test_bad_coefficients_are_refused(found, coefficients, words):
    with pytest.raises(jgl.InputError, match=words):
        found.contrast(coefficients)


def test_the_graph_holds_the_discoveries_with_their_values(found):
    networks = found.graph(fdr=0.05)
    edges = found.edges(fdr=0.05)
    drawn = networks.edges().sort_values(["variable1", "variable2"])
    merged = drawn.merge(edges, on=["class", "variable1", "variable2"])
    assert len(merged) == len(edges) == len(drawn)
    np.testing.assert_allclose(merged.partial_correlation_x, merged.partial_correlation_y, atol=1e-12)


def test_order_of_classes_and_scale_of_variables_do_not_matter(table, found):
    X, y = table
    scaled = X * np.linspace(0.01, 100, 12) + 7
    order = np.argsort(np.asarray(y) != "control", kind="stable")
    order = order if y[0] == "case" else order[::-1]
    turned = jgl.infer(scaled.iloc[order], np.asarray(y)[order])
    assert turned.class_names == found.class_names[::-1]
    first, second = found.edges(), turned.edges()
    merged = first.merge(second, on=["class", "variable1", "variable2"])
    assert len(merged) == 132
    np.testing.assert_allclose(merged.partial_correlation_x, merged.partial_correlation_y, atol=1e-5)
    np.testing.assert_allclose(merged.p_value_x, merged.p_value_y, rtol=1e-2)


def test_few_pairs_are_the_small_p_values_of_all(table, found):
    few = jgl.infer(*table, keep=0.02)
    assert len(few.estimates.rows) < 66
    for name in ("edges", "differences", "heterogeneity", "pooled_effect", "omnibus"):
        whole, part = getattr(found, name)(), getattr(few, name)()
        keys = [column for column in whole if column in ("class", "class1", "class2", "variable1", "variable2")]
        merged = whole[whole.p_value <= 0.02].merge(part, on=keys, how="left")
        assert len(merged)
        # The mean factor comes from a sample of the pairs, so p-values agree up to that.
        np.testing.assert_allclose(merged.p_value_x, merged.p_value_y, rtol=0.02)
    np.testing.assert_allclose(found.edges(fdr=0.05).q_value, few.edges(fdr=0.05).q_value, rtol=0.02)


def test_components_of_the_support_are_kept_affordable_and_it_is_said():
    rng = np.random.default_rng(0)
    samples = {name: rng.normal(size=(40, 60)) for name in "ab"}
    with mock.patch.object(support, "LARGEST", 10):
        found = jgl.infer(samples)
        assert any("times as strong" in note for note in found.notes)
        assert jgl.infer(samples, penalty_multiplier=1.0).notes == ()
        lambda1, lambda2 = support.penalty_of(60, np.array([40.0, 40.0]), 1.0)
    used = found.solution.parameters
    assert used["lambda1"] > lambda1 and used["lambda2"] / used["lambda1"] == pytest.approx(lambda2 / lambda1)
    for Theta in found.solution.precision:
        sizes = np.bincount(sparse.csgraph.connected_components(Theta)[1])
        assert 1 < sizes.max() <= 10


def test_two_variables_have_one_pair():
    assert len(jgl.infer(np.random.default_rng(0).normal(size=(60, 2))).edges()) == 1


def test_differences_are_of_two_classes_or_of_all():
    rng = np.random.default_rng(0)
    found = jgl.infer({name: rng.normal(size=(60, 3)) for name in "abc"})
    assert len(found.differences()) == 9
    assert set(found.differences("c", "a").class1) == {"c"}
    for given in ({"class1": "a"}, {"class2": "a"}):
        with pytest.raises(jgl.InputError, match="None"):
            found.differences(**given)


def test_the_p_value_up_to_which_pairs_are_kept_follows_from_the_support():
    """On noise it is that of the null pairs expected by chance; strong edges raise it to the threshold of a rate."""
    noise = np.random.default_rng(3).normal(size=(100, 30))
    with mock.patch.multiple(estimates, ALL_PAIRS=10, BY_CHANCE=2.0):
        assert jgl.infer(noise).estimates.limit == pytest.approx(2.0 / 435)
    with mock.patch.multiple(estimates, ALL_PAIRS=10, BY_CHANCE=1e-9):
        found = jgl.infer(chain(0.2, 300))
    # At a limit t, 66 t false discoveries are at most a fifth of themselves and the 11 edges of the chain.
    assert 2e-9 / 66 < found.estimates.limit < 0.2 * 11 / (0.8 * 66)


def test_outliers_are_named_unless_scores_take_them_away(table):
    X, y = table
    X = X.copy()
    X.iloc[7, 3] = 40.0
    notes = jgl.infer(X, y, association="pearson").notes
    assert notes == (
        "Class 'case' has outliers or heavy tails in 1 of 12 variables (most in 'g3'): "
        "association='nonparanormal' is safer.",
    )
    assert jgl.infer(X, y).notes == ()


def test_print_is_a_short_table(found):
    text = str(found)
    assert "Edges at FDR 0.1: case" in text
    assert len(text.splitlines()) < 25
    assert "12 variables" in repr(found)


def test_one_class_has_edges_but_no_differences():
    found = jgl.infer(chain(0.4, 60))
    assert set(found.edges()["class"]) == {"all"}
    with pytest.raises(ValueError, match="only one"):
        found.differences()


def test_normal_scores_do_not_see_the_margins(table):
    X, y = table
    plain, transformed = (jgl.infer(values, y).edges() for values in (X, np.exp(X)))
    pd.testing.assert_frame_equal(plain, transformed)


# Subjects, batches, missing values


def test_covariates_are_taken_out_of_scores_whatever_the_margins(table):
    """A line through skewed values follows the outliers: edges would be lost, and a batch would leave its trace."""
    X, y = table
    batch = pd.DataFrame({"batch": np.random.default_rng(0).integers(0, 2, len(X))})
    shifted = X + 1.5 * batch.to_numpy()
    plain, transformed = (jgl.infer(values, y, covariates=batch) for values in (shifted, np.exp(shifted)))
    pd.testing.assert_frame_equal(plain.edges(), transformed.edges())
    assert "adjusted for batch within classes" in plain.method()
    assert "adjusted for 1 covariate within" in jgl.infer(shifted, y, covariates=batch.to_numpy()).method()
    found = plain.edges(fdr=0.05)
    counts = " in case, ".join(str((found["class"] == name).sum()) for name in ("case", "control"))
    assert f"edges ({counts} in control) and {len(plain.differences(fdr=0.05))} differences" in plain.method(0.05)


def test_resampled_factors_are_those_of_the_influence_of_samples(data, residuals):
    """Both are the variance of the same estimate, one from resamples and one from single samples."""
    rng = np.random.default_rng(0)
    for Z, part in zip(data.scores, residuals, strict=True):
        R = np.array([np.corrcoef(Z[rng.integers(0, len(Z), len(Z))].T) for _ in range(400)])
        rho = part.all_pairs()
        np.fill_diagonal(rho, 0.0)
        found = resampled_factors(part, rho, R - R.mean(axis=0), float(len(Z)))
        off = ~np.eye(len(rho), dtype=bool)
        ratio = found[off] / all_factors(part, rho)[off]
        assert ratio.mean() == pytest.approx(1.0, abs=0.06)
        assert np.abs(ratio - 1.0).max() < 0.4


def test_factors_are_at_least_what_their_variables_say():
    share = np.random.default_rng(0).uniform(1, 2, 8)
    g = np.outer(share, share)
    np.testing.assert_allclose(at_least_of_its_variables(g)[~np.eye(8, dtype=bool)], g[~np.eye(8, dtype=bool)])
    low, high = g.copy(), g.copy()
    low[0, 1] = low[1, 0] = 0.6 * g[0, 1]
    high[0, 1] = high[1, 0] = 3.0 * g[0, 1]
    assert at_least_of_its_variables(low)[0, 1] > 0.7 * g[0, 1]
    assert at_least_of_its_variables(high)[0, 1] == high[0, 1]
    assert (at_least_of_its_variables(np.full((2, 2), 0.5)) == 1.0).all()


def test_answers_in_categories_are_traced_back_to_what_lies_behind_them():
    """Codes of two categories have partial correlations of half the size; the latent ones are found, less surely."""
    rng = np.random.default_rng(1)
    Theta = np.eye(6) + 0.45 * (np.eye(6, k=1) + np.eye(6, k=-1))
    latent = {name: rng.normal(size=(700, 6)) @ np.linalg.cholesky(np.linalg.inv(Theta)).T for name in "ab"}
    answers = {name: (X > 0.3).astype(float) for name, X in latent.items()}
    found, codes = jgl.infer(answers, association="mixed"), jgl.infer(answers)
    on = found.estimates.columns - found.estimates.rows == 1
    assert np.tanh(found.estimates.z)[on].mean() == pytest.approx(-0.45, abs=0.06)
    assert np.tanh(codes.estimates.z)[on].mean() > -0.35
    assert (found.estimates.error > 1.3 * codes.estimates.error).all()
    assert (found.estimates.degrees < 0.6 * codes.estimates.degrees).all()
    low, high = found.intervals()[1:]
    assert ((low[on] <= -0.45) & (high[on] >= -0.45)).mean() >= 0.8
    assert "6 of 6 variables are taken as ordinal" in found.notes[0]
    assert "resamples" in found.method() and "polychoric" in str(found)
    again = jgl.infer(answers, association="mixed", groups={"a": np.arange(700) // 2, "b": 350 + np.arange(700) // 2})
    np.testing.assert_array_equal(again.estimates.degrees, 349.0)
    few = jgl.infer({name: X[:90] for name, X in answers.items()}, association="mixed")
    assert any("effective sample size" in note for note in few.notes)


@pytest.mark.filterwarnings("ignore::jointglasso.data.windows.DependentSamplesWarning")  # which it is about
def test_a_batch_that_shifts_some_variables_is_taken_out():
    X = chain(0.0, 120, seed=5)
    batch = np.repeat(["m", "t", "w"], 40)
    shifted = X.copy()
    shifted[:, :4] += (3.0 * (batch == "m") - 2.0 * (batch == "w"))[:, None]
    assert len(jgl.infer(shifted).edges(fdr=0.1)) >= 4
    found = jgl.infer(shifted, covariates=batch)
    assert len(found.edges(fdr=0.05)) == 0
    np.testing.assert_array_equal(found.sizes, [118])
    age = pd.DataFrame({"age": np.arange(120.0), "batch": batch})
    np.testing.assert_array_equal(jgl.infer(shifted, covariates=age).sizes, [117])


@pytest.mark.filterwarnings("ignore::jointglasso.data.windows.DependentSamplesWarning")  # which it is about
def test_repeated_measures_widen_the_intervals():
    rng = np.random.default_rng(0)
    subject = np.repeat(np.arange(40), 4)
    X = chain(0.4, 160) + 1.0 * rng.normal(size=(40, 12))[subject]
    plain, honest = (jgl.infer(X, association="pearson", groups=groups) for groups in (None, subject))
    assert honest.se == "by subject"
    assert (honest.estimates.degrees == 39).all()
    assert honest.estimates.error.mean() > 1.1 * plain.estimates.error.mean()
    np.testing.assert_allclose(honest.estimates.z, plain.estimates.z)


def test_classes_that_share_subjects_are_named():
    """Tests between classes take them as independent samples; those that share nobody have no note."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(120, 4)), np.repeat(["before", "after", "others"], 40)
    person = np.concatenate([np.arange(40), np.arange(40), np.arange(40, 80)])
    (note,) = jgl.infer(X, y, groups=person).notes
    assert (
        note.startswith("Classes 'before' and 'after' have 40 labels of `groups` in common: if") and "paired=" in note
    )
    (note,) = jgl.infer(X, y, groups=np.tile(np.arange(40), 3)).notes
    assert note.startswith("Classes 'before' and 'after' (and 2 more pairs of classes) have 40")
    assert jgl.infer(X, y, groups=np.arange(120)).notes == ()


def test_incomplete_samples_go_with_their_subjects_and_covariates(table):
    X, y = table
    holes = X.copy()
    holes.iloc[3, 2] = holes.iloc[200, 5] = np.nan
    subject, batch = np.arange(250), np.arange(250.0) % 7
    kept = np.delete(np.arange(250), [3, 200])
    given = jgl.infer(holes, y, missing="complete", groups=subject, covariates=batch)
    cut = jgl.infer(X.iloc[kept], np.array(y)[kept], groups=subject[kept], covariates=batch[kept])
    pd.testing.assert_frame_equal(given.edges(), cut.edges())


@pytest.mark.parametrize(("sign", "words"), [(1.0, "the same ranks in"), (-1.0, "the same ranks, reversed, in")])
@pytest.mark.filterwarnings("error")
def test_columns_that_repeat_another_are_named(sign, words):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 4))
    table = pd.DataFrame(np.column_stack([X, rng.integers(0, 4, (60, 2)), sign * X[:, 0]]), columns=list("abcdefg"))
    with pytest.raises(jgl.InputError, match=f"Variables 'a' and 'g' have {words} class") as said:
        jgl.infer(table, np.repeat(["one", "two"], 30), association="mixed")
    assert said.value.variable == "g"


def test_a_support_that_is_too_dense_for_the_samples_gets_a_ridge_and_a_word():
    rng = np.random.default_rng(0)
    samples = {"a": rng.normal(size=(15, 30)), "b": rng.normal(size=(60, 30))}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", jgl.InferenceWarning)
        found = jgl.infer(samples, penalty_multiplier=0.05)
    assert any("ridge" in note and "'a'" in note for note in found.notes)
    assert np.isfinite(found.estimates.z).all()
    assert "ridge" in str(found)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"association": "kendall"}, "choose one of 'nonparanormal', 'pearson', 'spearman', 'mixed'"),
        ({"association": "mixed", "covariates": np.zeros(250)}, "does not go with association='mixed'"),
        ({"association": "mixed", "missing": "em"}, "does not go with association='mixed'"),
        ({"association": "mixed", "se": "gaussian"}, "and not with association='mixed': take se='moderated'"),
        ({"missing": "pairwise", "se": "gaussian"}, "and not with missing='pairwise'"),
        ({"se": "robust"}, "choose one of 'moderated', 'gaussian'"),
        ({"groups": [1, 2]}, "groups has 2 rows, but there are 250 samples"),
        ({"groups": np.zeros((250, 2))}, "give one label for each sample"),
        ({"groups": ["s"] * 250}, "'case' has 1 subjects"),
        ({"covariates": np.full(250, np.nan)}, "missing values in class 'case'"),
        ({"covariates": {"case": np.zeros(150)}}, "the classes are"),
        ({"groups": np.arange(250), "se": "gaussian"}, "and not with `groups`"),
        ({"keep": 2.0}, "no p-value"),
        ({"penalty_multiplier": 0.0}, "penalty_multiplier=0 must be"),
    ],
)
def test_bad_options_are_told_in_one_sentence(table, options, words):
    with pytest.raises(ValueError, match=words):
        jgl.infer(*table, **options)


def test_bad_data_are_told_in_one_sentence(table):
    X, y = table
    with pytest.raises(ValueError, match="'tiny' has 5 samples; inference needs at least 8"):
        jgl.infer(X.iloc[:155], ["case"] * 150 + ["tiny"] * 5)
    with pytest.raises(ValueError, match="'single' has 1 samples; inference needs at least 8"):
        jgl.infer(X.iloc[:151], ["case"] * 150 + ["single"])
    with pytest.raises(ValueError, match="one variable"):
        jgl.infer(X[["g1"]], y)
    with pytest.raises(ValueError, match=r"\('g1'\) does not vary in class 'case', without"):
        jgl.infer(X.assign(g1=1.0), y)
    with pytest.raises(ValueError, match=r"\('g2'\) does not vary in class 'case' beyond the covariates"):
        jgl.infer(X, y, covariates=3.0 * X["g2"])
    holes = X.copy()
    holes.iloc[3, 2] = np.nan
    with pytest.raises(ValueError, match=r"1 missing value \(NaN\)"):
        jgl.infer(holes, y)


def test_bad_rates_and_levels_are_told(found):
    with pytest.raises(ValueError, match="fdr=2 is a share"):
        found.edges(fdr=2.0)
    with pytest.raises(ValueError, match=r"level=95 must be between 0 and 1"):
        found.edges(level=95)


def test_the_penalty_of_the_support_step_keeps_pace_with_the_variables():
    sizes = np.array([100.0, 300.0])
    for p, L, omega in ((20, np.log(20), 0.5), (500, 2 * np.log(100), 0.5), (2000, 2 * np.log(400), 0.25)):
        s = np.sqrt(L / 200)
        np.testing.assert_allclose(support.penalty_of(p, sizes, 1.5), (1.5 * (1 - omega) * s, 1.5 * omega * s))


def test_the_example_of_the_page_has_these_numbers():
    """docs/inference.md, "From a table to a paragraph"; the support step stops at a gap, so that a pair may differ."""
    page = (Path(__file__).resolve().parents[2] / "docs" / "inference.md").read_text("utf-8")
    table = jgl.datasets.load_rppa().select(classes=["OV", "UCEC"])
    found = jgl.infer(table.to_frame(), table.y)
    differences = found.differences(fdr=0.05)
    rows = re.findall(r"^\| OV \| UCEC \| (\S+) \| (\S+) \| (\S+) \| (\S+) \| (\S+) \|", page, flags=re.M)
    assert len(rows) == 5
    for (first, second, *numbers), row in zip(rows, differences.itertuples(), strict=False):
        assert (first, second) == (row.variable1, row.variable2)
        assert [float(number) for number in numbers] == pytest.approx([row.difference, row.low, row.high], abs=0.01)
    counts = [*found.edges(fdr=0.05).groupby("class").size()[["OV", "UCEC"]], len(differences)]
    named = re.search(r"We found (\d+) edges in OV and (\d+) in UCEC, and (\d+) pairs", page)
    assert [int(number) for number in named.groups()] == pytest.approx(counts, abs=2)


@pytest.mark.parametrize(("n_variables", "number"), [(5, 10), (5, 9), (300, 2000)])
def test_sampled_pairs_are_pairs_of_two_variables(n_variables, number):
    i, j = sampled_pairs(n_variables, number)
    assert len(i) == len(j) == number and (i < j).all() and i.min() >= 0 and j.max() < n_variables
    if number == 10:
        assert len(set(zip(i.tolist(), j.tolist(), strict=True))) == 10
    if number == 2000:  # every variable takes part about as often
        assert np.bincount(np.concatenate([i, j]), minlength=n_variables).max() < 40


def test_limits_of_what_is_recomputed(monkeypatch):
    """They depend on what one correlation takes."""
    monkeypatch.setattr("jointglasso.inference.data.MOST_ORDINAL", 3)
    monkeypatch.setattr("jointglasso.inference.data.MOST_RECOMPUTED", 4)
    X = np.random.default_rng(0).normal(size=(40, 5))
    with pytest.raises(ValueError, match="too long for 4 variables: choose at most 3"):
        jgl.infer(X[:, :4], association="mixed")
    X[0, 0] = np.nan
    with pytest.raises(ValueError, match="too long for 5 variables: choose at most 4"):
        jgl.infer(X, missing="pairwise")
    jgl.infer(X[:, :4], missing="pairwise")


def test_no_rate_is_above_one():
    np.testing.assert_allclose(q_values(np.array([0.001, 0.5, 0.9]), 10), [0.01, 1.0, 1.0], rtol=1e-12)
