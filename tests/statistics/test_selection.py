"""Choosing penalties: grids, criteria, cross-validation, StARS, and the explanation of the choice."""

from __future__ import annotations

import math
import re
import threading
from dataclasses import replace
from inspect import signature
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy import integrate, stats
from sklearn.model_selection import GroupKFold, KFold, LeaveOneGroupOut, StratifiedKFold
from sklearn.utils import check_random_state

import jointglasso as jgl
from jointglasso.engine import SolveOptions
from jointglasso.selection import aic, bic, ebic, jbic, lambda_max
from jointglasso.selection.budget import Budget
from jointglasso.selection.criteria import noise_gain
from jointglasso.selection.evaluation import Evaluation, Evaluator, choose, subsample_sizes
from jointglasso.selection.grids import OMEGAS
from jointglasso.selection.resampling import stratified_folds
from jointglasso.selection.search import CoarseToFineSearch
from jointglasso.selection.solves import Tracker, WorkerPool

GRID = {"n_lambdas": 6, "ratios": (0.2, 1.0)}

#: Small grids have their best point on the edge, and plain BIC has its warning, more often than not.
pytestmark = pytest.mark.filterwarnings("ignore::jointglasso.selection.SelectionWarning")


def chain(p=12, strength=0.45):
    return np.eye(p) + strength * (np.eye(p, k=1) + np.eye(p, k=-1))


def draw(Theta, sizes, seed=0):
    """Samples of classes with one precision matrix, and their labels."""
    rng = np.random.default_rng(seed)
    root = np.linalg.cholesky(np.linalg.inv(Theta))
    X = rng.normal(size=(sum(sizes), len(Theta))) @ root.T
    return X, np.repeat([f"c{k}" for k in range(len(sizes))], sizes)


@pytest.fixture(scope="module")
def data():
    return draw(chain(), (150, 200))


@pytest.fixture(scope="module")
def source(data):
    return jgl.SampleCovariance.from_labels(*data, scale="correlation")


# Grids


@settings(max_examples=30)
@given(st.integers(1, 4), st.integers(2, 9), st.integers(0, 1000), st.sampled_from([0.0, 0.1, 1.0, 3.0, np.inf]))
def test_the_largest_penalty_is_exact(n_classes, p, seed, ratio):
    rng = np.random.default_rng(seed)
    S = [np.cov(rng.normal(size=(12, p)).T) for _ in range(n_classes)]
    weights = rng.uniform(0.5, 2.0, n_classes)
    grid = jgl.lambda_grid(S, n_lambdas=2, min_ratio=0.99, ratios=(ratio,), weights=weights)
    first, second = (jgl.solve(S, *point, weights=weights, penalize_diagonal=False) for point in grid)
    assert sum(first.n_edges) == 0
    assert sum(second.n_edges) > 0


def test_the_largest_penalty_over_many_tiles_is_that_of_all_pairs():
    rng = np.random.default_rng(0)
    samples = [rng.normal(size=(15, 1100)) for _ in range(2)]
    source = jgl.SampleCovariance(samples, scale="correlation")
    found = lambda_max(source, [(1.0, 0.0), (0.5, 0.5)])
    R = np.abs([np.corrcoef(X.T) for X in samples])[:, *np.triu_indices(1100, 1)]
    assert found[0] == pytest.approx(R.max(), rel=1e-12)
    assert jgl.screen(source, found[1] * 0.5000001, found[1] * 0.5000001, rule="global").largest == 1
    assert jgl.screen(source, found[1] * 0.499999, found[1] * 0.499999, rule="global").largest == 2


def test_pair_weights_move_the_largest_penalty_exactly(source):
    plain = jgl.solve(source, *jgl.lambda_grid(source, n_lambdas=2, min_ratio=0.99, ratios=(0.5,))[1])
    (i,), (j,) = np.nonzero(np.triu(plain.precision[0].toarray() != 0, 1))
    pair_weights = np.ones((12, 12))
    pair_weights[i, j] = pair_weights[j, i] = np.inf
    pair_weights[0, 11] = pair_weights[11, 0] = 5.0
    options = {"pair_weights": pair_weights}
    grid = jgl.lambda_grid(source, n_lambdas=2, min_ratio=0.99, ratios=(0.5,), **options)
    assert grid.strength[0] < jgl.lambda_grid(source, ratios=(0.5,)).strength[0]
    assert [sum(jgl.solve(source, *point, **options).n_edges) > 0 for point in grid] == [False, True]
    chosen = jgl.select(source, **options).solution
    assert all(Theta[i, j] == 0 for Theta in chosen.precision)


def test_columns_decrease_and_keep_their_ratio(source):
    grid = jgl.lambda_grid(source, n_lambdas=5, ratios=(0.0, 0.5, np.inf), min_ratio=0.1)
    assert len(grid) == 15
    for column, ratio in enumerate((0.0, 0.5, np.inf)):
        points = grid.points_of(column)
        assert (np.diff(grid.strength[points]) < 0).all()
        assert grid.strength[points[-1]] / grid.strength[points[0]] == pytest.approx(0.1)
        if np.isinf(ratio):
            assert not grid.lambda1[points].any()
        else:
            np.testing.assert_allclose(grid.lambda2[points], ratio * grid.lambda1[points], atol=1e-15)
    assert grid.similarity[grid.points_of(0)].max() == 0.0
    np.testing.assert_allclose(grid.similarity[grid.points_of(2)], 1.0)
    np.testing.assert_allclose(grid.strength, grid.lambda1 + grid.lambda2 / np.sqrt(2))


def test_one_class_needs_one_column():
    S = np.cov(np.random.default_rng(0).normal(size=(20, 5)).T)
    assert jgl.lambda_grid([S]).n_columns == 1


def test_given_points_are_arranged_into_columns():
    grid = jgl.LambdaGrid.from_points([(0.1, 0.05), (0.3, 0.3), (0.4, 0.2), (0.2, 0.1), (0.1, 0.1)])
    assert grid.n_columns == 2
    assert list(grid) == [(0.4, 0.2), (0.2, 0.1), (0.1, 0.05), (0.3, 0.3), (0.1, 0.1)]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda S: jgl.lambda_grid(S, min_ratio=1.0), "min_ratio=1 must be below 1"),
        (lambda S: jgl.lambda_grid(S, ratios=(-1.0,)), "ratios"),
        (lambda S: jgl.lambda_grid(S, n_lambdas=0), "n_lambdas=0"),
        (lambda S: jgl.LambdaGrid.from_points([]), "holds no point"),
        (lambda S: jgl.LambdaGrid.from_points([(-0.1, 0.2)]), "lambda1=-0.1"),
        (lambda S: jgl.LambdaGrid.from_points([0.1, 0.2]), "list of pairs"),
    ],
)
def test_wrong_grids_are_refused(call, message):
    with pytest.raises((ValueError, TypeError), match=message):
        call(np.stack([np.eye(3)] * 2))


# Criteria


def test_criteria_are_their_formulas(source):
    solution = jgl.solve(source, 0.15, 0.1)
    n, p = np.array([150, 200]), 12
    deviance = np.empty(2)
    edges = np.empty(2)
    for k, Theta in enumerate(solution.precision):
        dense, S = Theta.toarray(), source.block(k, np.arange(p))
        deviance[k] = np.trace(S @ dense) - np.linalg.slogdet(dense)[1]
        edges[k] = np.count_nonzero(np.triu(dense, 1))
    assert aic(source, solution.precision) == pytest.approx((n * deviance + 2 * edges).sum())
    assert bic(source, solution.precision) == pytest.approx((n * deviance + np.log(n) * edges).sum())
    for gamma in (0.0, 0.5, 1.0):
        expected = (n * deviance + np.log(n) * edges + 4 * gamma * np.log(p) * edges).sum()
        assert ebic(source, solution.precision, gamma=gamma) == pytest.approx(expected)
    assert aic(source, solution.precision, [1, 1]) == pytest.approx((deviance + 2 * edges).sum())


@settings(max_examples=25)
@given(st.integers(1, 4), st.integers(3, 8), st.integers(0, 1000), st.floats(0.0, 1.0))
def test_the_joint_criterion_counts_places_once_and_classes_by_pair(n_classes, p, seed, gamma):
    """Compared with binomial coefficients in whole numbers; the order of classes and the units do not matter."""
    rng = np.random.default_rng(seed)
    S = [np.cov(rng.normal(size=(30, p)).T) for _ in range(n_classes)]
    n = rng.integers(20, 60, n_classes)
    precision = []
    for _ in range(n_classes):
        upper = np.triu((rng.random((p, p)) < 0.4) * rng.uniform(-0.1, 0.1, (p, p)), 1)
        precision.append(np.eye(p) + upper + upper.T)
    union = np.count_nonzero(np.triu(np.sum([np.abs(Theta) for Theta in precision], axis=0), 1))
    edges = [(k, i, j) for k, Theta in enumerate(precision) for i, j in np.argwhere(np.triu(Theta, 1))]
    deviance = [np.trace(a @ b) - np.linalg.slogdet(b)[1] for a, b in zip(S, precision, strict=True)]
    expected = (n * deviance).sum()
    if edges:
        n_edges, pairs = len(edges), p * (p - 1) // 2
        places = math.comb(pairs, union) * math.comb(n_classes * union, n_edges)
        degree = [(Theta != 0).sum(axis=0) - 1 for Theta in precision]
        price = np.array([math.log(n[k]) + 2 * gamma * math.log(places) / n_edges for k, _, _ in edges])
        price *= max(1.0, (1.1 * best_on_noise(pairs, n_classes, union, n_edges) + 3.0) / price.sum())
        expected += sum(
            c * n[k] / (n[k] - 1.5 - min(degree[k][i], degree[k][j])) for c, (k, i, j) in zip(price, edges, strict=True)
        )
    assert jbic(S, precision, n, gamma=gamma) == pytest.approx(expected)
    assert jbic(S[::-1], precision[::-1], n[::-1], gamma=gamma) == pytest.approx(expected)


def best_on_noise(pairs, n_classes, union, n_edges):
    """Mean of the largest fraction t of chi-squared variables with m degrees of freedom, by integrating quantiles."""
    m = n_edges / union
    log_choose = sum(math.lgamma(a + 1) * sign for a, sign in ((n_classes, 1), (m, -1), (n_classes - m, -1)))
    t = union / pairs / math.exp(log_choose)
    if t >= 1:
        return n_edges
    mean, _ = integrate.quad(lambda v: stats.chi2.isf(t * np.exp(-v), m) * np.exp(-v), 0, 60, limit=200)
    return union * mean


@pytest.mark.parametrize(("sizes", "p"), [((6, 6), 40), ((10, 10), 50), ((9, 8), 120), ((20, 20), 60)])
def test_few_samples_of_noise_give_no_network(sizes, p):
    """The former criterion chose 10 to 245 false edges a class on such data."""
    edges = []
    for seed in range(5):
        X = np.random.default_rng([seed, p, *sizes]).normal(size=(sum(sizes), p))
        edges.append(np.mean(jgl.select(X, np.repeat(["a", "b"], sizes)).solution.n_edges))
    assert np.mean(edges) <= 1.0


def test_likelihood_ratios_of_few_samples_are_chi_squared_after_the_correction():
    """n = 8: Bartlett's factor brings the tail of ``-n log(1 - r^2)`` from 7 times its nominal level to about it."""
    n = 8
    X = np.random.default_rng(0).normal(size=(200_000, n, 2))
    X -= X.mean(axis=1, keepdims=True)
    r = (X[..., 0] * X[..., 1]).sum(axis=1) / np.sqrt((X[..., 0] ** 2).sum(axis=1) * (X[..., 1] ** 2).sum(axis=1))
    ratio = -n * np.log1p(-(r**2))
    threshold = stats.chi2.isf(1e-3, 1)
    assert (ratio > threshold).mean() > 5e-3
    assert (ratio * (n - 2.5) / n > threshold).mean() == pytest.approx(1e-3, rel=0.35)


def test_noise_gain_is_what_the_best_graphs_gain():
    """Simulated: the sum of the U largest sums over K classes of chi-squared statistics."""
    rng, pairs = np.random.default_rng(0), 1000
    draws = rng.chisquare(1, size=(400, pairs, 2))
    for union in (1, 10, 100):
        both = np.sort(draws.sum(axis=2), axis=1)[:, -union:].sum(axis=1).mean()
        assert noise_gain(pairs, 2, union, 2 * union) == pytest.approx(both, rel=0.06)
        first = np.sort(draws[..., 0], axis=1)[:, -union:].sum(axis=1).mean()
        assert noise_gain(pairs, 1, union, union) == pytest.approx(first, rel=0.1)


def test_classes_without_edges_and_their_thresholds_are_named():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(130, 12)), np.repeat(["many", "few"], [120, 10])
    X[:120, 1] += 0.6 * X[:120, 0]
    text = jgl.select(X, y).explain()
    assert "threshold of an edge in one class alone at" in text
    assert "No edge in 'few'" in text
    assert "this criterion accepts" in text


@pytest.mark.parametrize(
    ("penalty", "expected"),
    [
        ("group", lambda l1, l2: l1 + l2),
        ("fused", lambda l1, l2: min(l1 + 2 * l2, 2 * (l1 + l2), 3 * l1)),
        ("common", lambda l1, l2: l1 + l2),
        ("laplacian", lambda l1, l2: l1),
    ],
)
def test_the_threshold_of_one_class_is_that_of_the_penalty(penalty, expected):
    rng = np.random.default_rng(0)
    tables = {name: rng.normal(size=(n, 4)) for name, n in (("a", 30), ("b", 60), ("c", 90))}
    text = jgl.select(tables, penalty=penalty, grid=[(0.3, 0.2)]).explain()
    weight = np.sqrt(np.array([30, 60, 90]) / 60)
    by_class = ", ".join(f"{t:.3g} in {name}" for t, name in zip(expected(0.3, 0.2) / weight, "abc", strict=True))
    assert f"in one class alone at {by_class}." in text


def test_values_are_relaxed_as_held_out_samples_ask_for(data, source):
    X, y = data
    result = jgl.select(X, y)
    assert "Log-likelihood per held-out sample (5 folds" in result.explain()
    from_covariances = jgl.select(source)
    n = np.asarray(source.sample_sizes)
    np.testing.assert_allclose(from_covariances.solution.refit.relaxation, n / (n + 10 * np.log(12)))
    assert "held-out" not in from_covariances.explain()
    # Values that depend on the sample through outliers predict nothing: the penalised ones are taken.
    rng = np.random.default_rng(0)
    heavy = rng.standard_t(1.5, size=(80, 12))
    heavy[:, 1] += heavy[:, 0] * rng.choice([-1, 1], 80)
    chosen = jgl.select(heavy, grid=[(0.15, 0.0)])
    n_edges = sum(chosen.solution.n_edges)
    assert n_edges > 0 and max(chosen.solution.refit.relaxation) <= 80 / (80 + 10 * np.log(12))


def test_halves_of_the_samples_choose_again(data):
    result = jgl.select(*data, halves=True, random_state=0)
    assert len(result.half_edges) == 2 and min(result.half_edges) > 0
    assert f"choose {result.half_edges[0]} and {result.half_edges[1]} edges" in result.explain()
    assert jgl.select(*data, halves=True, random_state=0).half_edges == result.half_edges
    few = np.random.default_rng(0).normal(size=(12, 4))
    assert jgl.select(few, np.repeat([0, 1], 6), halves=True).half_edges == ()


def test_of_an_empty_graph_every_criterion_is_its_likelihood():
    S = np.stack([np.eye(4)] * 3)
    assert {criterion(S, S, [9, 9, 9]) for criterion in (aic, bic, ebic, jbic)} == {27 * 4.0}


def test_criteria_take_dense_matrices_and_ask_for_sample_sizes():
    S = np.stack([np.eye(3)] * 2)
    assert aic(S, S, n_samples=[10, 20]) == pytest.approx(30 * 3)
    with pytest.raises(ValueError, match="number of samples"):
        bic(S, S)
    with pytest.raises(ValueError, match="gamma=2"):
        ebic(S, S, [5, 5], gamma=2.0)


@pytest.mark.parametrize("criterion", ["jbic", "ebic"])
def test_extended_criteria_find_the_true_graph_on_easy_data(data, criterion):
    result = jgl.select(*data, criterion=criterion)
    truth = np.triu(chain() != 0, 1)
    for Theta in result.solution.precision:
        np.testing.assert_array_equal(np.triu(Theta.toarray() != 0, 1), truth)


def test_scores_are_the_criterion_of_each_solution(data, source):
    grid = jgl.lambda_grid(source, n_lambdas=4, ratios=(0.5,))
    options = {"weights": "equal", "penalize_diagonal": True, "patience": None, "tol": 1e-10}
    plain = jgl.select(*data, criterion="bic", grid=grid, relaxed=False, **options)
    relaxed = jgl.select(*data, criterion="bic", grid=grid, **options)
    for point, penalties in enumerate(grid):
        solution = jgl.solve(source, *penalties, tol=1e-10)
        refitted = jgl.refit(source, solution)
        assert plain.records["score"][point] == pytest.approx(bic(source, solution.precision), rel=1e-5)
        assert relaxed.records["score"][point] == pytest.approx(bic(source, refitted.precision), abs=0.2)
        assert plain.records["edges"][point] == sum(solution.n_edges)
    assert plain.score == plain.records["score"].min()


def test_covariances_with_sample_sizes_are_enough_for_information_criteria(data, source):
    from_samples = jgl.select(*data, grid=jgl.lambda_grid(source, **GRID))
    from_source = jgl.select(source, grid=jgl.lambda_grid(source, **GRID))
    assert (from_samples.lambda1, from_samples.lambda2) == (from_source.lambda1, from_source.lambda2)
    for criterion in ("cv", "stars"):
        with pytest.raises(ValueError, match="needs the samples"):
            jgl.select(source, criterion=criterion)


def test_patience_leaves_out_only_points_after_the_minimum_of_a_column(data, source):
    grid = jgl.lambda_grid(source, n_lambdas=8, ratios=(0.5,))
    every = jgl.select(*data, grid=grid, patience=None)
    some = jgl.select(*data, grid=grid, patience=2)
    assert every.records["tried"].all()
    tried = some.records["tried"]
    assert tried.sum() == some.best + 3 < 8
    np.testing.assert_allclose(some.records["score"][tried], every.records["score"][tried])
    assert np.isnan(some.records["score"][~tried]).all()
    assert "left out after the score had stopped falling" in some.explain()


def test_points_without_a_maximum_of_the_likelihood_are_never_chosen():
    X, y = draw(chain(8), (5, 5))
    result = jgl.select(X, y, criterion="aic", grid=jgl.LambdaGrid.from_points([(0.3, 0.3), (0.01, 0.01)]))
    assert np.isinf(result.records["score"][1])
    assert result.best == 0
    with pytest.raises(ValueError, match="no maximum on any support"):
        jgl.select(X, y, criterion="aic", grid=[(0.01, 0.01)])


# Cross-validation


def test_held_out_losses_are_those_computed_by_hand(data):
    X, y = data
    splits = list(StratifiedKFold(3, shuffle=True, random_state=0).split(X, y))
    grid = [(0.3, 0.1), (0.15, 0.05)]
    result = jgl.select(X, y, criterion="cv", cv=splits, grid=grid, tol=1e-9)
    train, test = splits[1]
    by_hand = []
    for penalties in grid:
        R, losses = [], []
        for label in ("c0", "c1"):
            R.append(np.corrcoef(X[train][y[train] == label].T))
        weights = "sqrt_sample_size"
        sizes = [int((y[train] == label).sum()) for label in ("c0", "c1")]
        training = jgl.DenseCovariance(R, sample_sizes=sizes)
        solution = jgl.solve(training, *penalties, tol=1e-9, weights=weights, penalize_diagonal=False)
        for k, label in enumerate(("c0", "c1")):
            part = X[train][y[train] == label]
            Z = (X[test][y[test] == label] - part.mean(axis=0)) / part.std(axis=0)
            Theta = solution.precision[k].toarray()
            losses.append(len(Z) * (np.trace(Z.T @ Z / len(Z) @ Theta) - np.linalg.slogdet(Theta)[1]))
        by_hand.append(sum(losses) / len(test))
    np.testing.assert_allclose(result.records["fold2"], by_hand, rtol=1e-5)
    folds = np.column_stack([result.records[f"fold{n}"] for n in (1, 2, 3)])
    sizes = [len(test) for _, test in splits]
    np.testing.assert_allclose(result.records["score"], folds @ sizes / sum(sizes))
    assert result.best == np.argmin(result.records["score"])


@settings(max_examples=50)
@given(st.lists(st.integers(2, 15), min_size=1, max_size=4), st.integers(2, 6), st.integers(0, 99))
def test_folds_hold_every_sample_out_once_and_leave_two_to_train_on(sizes, n_folds, seed):
    folds = stratified_folds(sizes, n_folds, seed)
    for k, size in enumerate(sizes):
        held_out = np.concatenate([fold[k] for fold in folds])
        counts = [len(fold[k]) for fold in folds]
        assert len(np.unique(held_out)) == len(held_out) == min(size, max(0, size - 2) * n_folds)
        assert max(counts) - min(counts) <= 1
        assert size - max(counts) >= 2


def test_a_plain_kfold_on_sorted_labels_is_stratified(data):
    """As it stands it would leave a class out of the training samples."""
    X, y = data
    result = jgl.select(X, y, criterion="cv", cv=KFold(2), grid=[(0.2, 0.1)])
    assert np.isfinite(result.score)
    assert {"fold1", "fold2"} <= set(result.records)


def test_splits_that_leave_a_class_out_are_refused(data):
    X, y = data
    splits = list(LeaveOneGroupOut().split(X, y, groups=y))
    with pytest.raises(ValueError, match=r"Fold 1 leaves 0 of the 150 samples of class 'c0'"):
        jgl.select(X, y, criterion="cv", cv=splits, grid=[(0.2, 0.1)])
    with pytest.raises(ValueError, match="outside 0 to 349"):
        jgl.select(X, y, criterion="cv", cv=[([0], [350])], grid=[(0.2, 0.1)])
    with pytest.raises(ValueError, match="no split"):
        jgl.select(X, y, criterion="cv", cv=[], grid=[(0.2, 0.1)])


def test_splits_by_groups_are_taken_as_they_are(data):
    X, y = data
    groups = np.arange(len(y)) % 7
    splits = list(GroupKFold(3).split(X, y, groups))
    shuffled = np.random.default_rng(0).permutation(len(y))
    straight = jgl.select(X, y, criterion="cv", cv=splits, grid=[(0.2, 0.1)])
    place = np.argsort(shuffled)
    moved = [(place[train], place[test]) for train, test in splits]
    permuted = jgl.select(X[shuffled], y[shuffled], criterion="cv", cv=moved, grid=[(0.2, 0.1)])
    assert straight.score == pytest.approx(permuted.score, rel=1e-6)


@pytest.mark.filterwarnings("ignore::jointglasso.solution.RefitWarning")
def test_cross_validation_of_tiny_classes():
    X, y = draw(chain(4), (3, 2, 9))
    assert np.isfinite(jgl.select(X, y, criterion="cv", **{"grid": [(0.4, 0.2)]}).score)
    with pytest.raises(ValueError, match="no sample to hold out"):
        jgl.select(X[:2], criterion="cv", grid=[(0.4, 0.2)])


@pytest.mark.parametrize("association", ["spearman", "nonparanormal"])
def test_cross_validation_of_ranks_does_not_see_increasing_functions(association):
    X, y = draw(chain(5), (40, 40))
    options = {"criterion": "cv", "association": association, "grid": [(0.2, 0.1), (0.1, 0.1)], "random_state": 0}
    plain = jgl.select(X, y, **options)
    transformed = jgl.select(np.exp(X), y, **options)
    np.testing.assert_allclose(plain.records["score"], transformed.records["score"], rtol=1e-6)


@pytest.mark.parametrize("missing", ["complete", "pairwise"])
def test_cross_validation_with_missing_values(missing):
    X, y = draw(chain(5), (60, 60))
    X[np.random.default_rng(0).random(X.shape) < 0.03] = np.nan
    result = jgl.select(X, y, criterion="cv", missing=missing, cv=3, grid=[(0.9, 0.1), (0.1, 0.05)], random_state=0)
    assert result.lambda1 == 0.1


# StARS


def test_subsamples_have_the_size_of_the_paper():
    assert subsample_sizes([400, 144, 100, 3, 2]) == [200, 120, 80, 2, 2]


def test_instability_grows_along_each_column_and_is_at_most_beta_where_chosen(data, source):
    grid = jgl.lambda_grid(source, **GRID)
    result = jgl.select(*data, criterion="stars", grid=grid, n_subsamples=6, random_state=0, n_jobs=2)
    for column in range(result.grid.n_columns):
        points = result.grid.points_of(column)
        tried = points[result.records["tried"][points]]
        assert (np.diff(result.records["score"][tried]) >= 0).all()
        beyond = result.records["score"][tried] > 0.05
        assert not beyond[:-1].any(), "a column is left where it gets unstable"
    tried = result.records["tried"]
    assert (result.records["score"] >= result.records["measured_instability"])[tried].all()
    assert result.score <= 0.05
    assert 0.0 < result.records["score"][tried].max() <= 0.5


def test_instability_is_two_pi_one_minus_pi(data):
    """Counted by hand over the subsamples that the seed draws."""
    X, y = data
    result = jgl.select(X, y, criterion="stars", n_subsamples=4, random_state=5, grid=[(0.2, 0.1)])
    rng = check_random_state(5)
    rows = [np.flatnonzero(y == label) for label in ("c0", "c1")]
    counts = np.zeros((2, 12, 12))
    for _ in range(4):
        part = [mine[np.sort(rng.permutation(len(mine))[:n])] for mine, n in zip(rows, (122, 141), strict=True)]
        R = jgl.DenseCovariance([np.corrcoef(X[mine].T) for mine in part], sample_sizes=[122, 141])
        solution = jgl.solve(R, 0.2, 0.1, weights="sqrt_sample_size", penalize_diagonal=False)
        counts += [np.triu(Theta.toarray() != 0, 1) for Theta in solution.precision]
    share = counts / 4
    assert result.score == pytest.approx((2 * share * (1 - share)).sum() / (2 * 66))


def test_stars_takes_the_densest_of_the_last_stable_points():
    grid = jgl.LambdaGrid.from_points([(0.3, 0.1), (0.2, 0.2 / 3), (0.3, 0.3), (0.2, 0.2)])
    monotone = np.array([0.01, 0.2, 0.0, 0.04])
    edges = np.array([2.0, 9.0, 1.0, 5.0])
    assert grid[choose(grid, monotone, edges, 0.05)] == (0.2, 0.2)
    assert grid[choose(grid, monotone, edges, 0.3)] == pytest.approx((0.2, 0.2 / 3))
    assert grid[choose(grid, monotone + 0.5, edges, 0.05)] == (0.3, 0.3)
    assert grid[choose(grid, np.array([0.01, np.nan, np.nan, np.nan]), edges, 0.05)] == (0.3, 0.1)


# The search


class Valley(Evaluator):
    """A score with its minimum at given penalties, and edges that grow as they fall."""

    def __init__(self, s, omega):
        super().__init__("valley", [(None, None)], {})
        self.s, self.omega, self.asked = s, omega, []

    def solve_part(self, number, lambda1, lambda2, before):
        self.asked.append((lambda1, lambda2))

    def score(self, solved):
        raise AssertionError("it has no solutions")

    def evaluate(self, lambda1, lambda2, solved):
        s = lambda1 + lambda2
        score = np.log(s / self.s) ** 2 + 0.3 * (lambda2 / s - self.omega) ** 2
        edges = np.array([100.0 / s])
        return Evaluation(lambda1, lambda2, score, edges, 0.0, 0)


def search(valley, bottom=0.05, affordable=lambda lambda1, lambda2: "", omegas=OMEGAS):
    budget = SimpleNamespace(why_infeasible=affordable)
    coarse_to_fine = CoarseToFineSearch(valley, budget, dict.fromkeys(omegas, 1.0), bottom, n_classes=2)
    coarse_to_fine.run(Tracker(None, 1), WorkerPool())
    found = coarse_to_fine.result()
    return coarse_to_fine, found, min(found.done, key=lambda point: found.done[point].score)


@pytest.mark.parametrize(("s", "omega"), [(0.31, 0.0), (0.31, 0.6), (0.31, 1.0), (0.9, 0.2), (0.06, 0.3)])
def test_the_search_ends_near_the_minimum_of_a_smooth_score(s, omega):
    coarse_to_fine, found, best = search(Valley(s, omega))
    assert coarse_to_fine.finished
    assert sum(best) == pytest.approx(s, rel=0.1)
    assert best[1] / sum(best) == pytest.approx(omega, abs=0.3)
    assert len(found.done) < 60


def test_the_search_goes_out_where_the_best_point_is_the_last():
    coarse_to_fine, _, best = search(Valley(0.02, 0.3), bottom=0.2)
    assert coarse_to_fine.finished
    assert sum(best) == pytest.approx(0.02, rel=0.1)


def test_the_search_leaves_graphs_that_the_samples_cannot_estimate_upwards():
    class Steep(Valley):
        def evaluate(self, lambda1, lambda2, solved):
            found = super().evaluate(lambda1, lambda2, solved)
            return replace(found, score=np.inf) if lambda1 == 0.0 and lambda2 < 0.8 else found

    _, found, _ = search(Steep(0.31, 0.3))
    tried = sorted(lambda2 for lambda1, lambda2 in found.done if lambda1 == 0.0)
    assert max(tried) >= 0.8, "a finite score is reached"
    assert sum(lambda2 < 0.31 / 1.2 for lambda2 in tried) <= 1, "weaker ones have more edges"


def test_the_search_goes_beyond_the_most_similar_column_of_fused_penalties():
    for omega, most in ((0.85, 0.875), (0.97, 1.0 - 0.25 / 8), (0.4, 0.75)):
        _, found, best = search(Valley(0.3, omega), omegas=OMEGAS[:-1])
        similarity = [lambda2 / (lambda1 + lambda2) for lambda1, lambda2 in found.done]
        assert best[1] / sum(best) == pytest.approx(omega, abs=0.15)
        assert max(similarity) >= most - 1e-6 and max(similarity) < 1.0, "the columns added are bounded"
    best = search(Valley(0.3, 0.6), omegas=(0.75,))[2]
    assert best[1] / sum(best) == pytest.approx(0.75)


@pytest.mark.parametrize("sign", [1, -1])
def test_the_search_goes_beyond_the_choice_where_that_is_not_the_best_point(sign):
    """As the one-standard-error rule, which takes the fewest edges among many points (or, here, the most)."""

    class Sparse(Valley):
        def evaluate(self, lambda1, lambda2, solved):
            found = super().evaluate(lambda1, lambda2, solved)
            away = lambda2 / (lambda1 + lambda2) - self.omega
            return replace(found, score=found.score + 10.0 * away**2)

        def choose(self, points):
            least = min(point.score for point in points)
            close = [n for n, point in enumerate(points) if point.score <= least + 0.5]
            return min(close, key=lambda n: sign * points[n].edges.sum())

    sparse = Sparse(0.2, 0.6)
    _, found, _ = search(sparse)
    points = list(found.done)
    chosen = points[sparse.choose(list(found.done.values()))]
    column = [sum(one) for one in points if one[1] / sum(one) == pytest.approx(chosen[1] / sum(chosen), abs=1e-9)]
    assert sign * sum(chosen) < max(sign * s for s in column), "a penalty beyond it was tried in its column"


def test_the_first_column_ends_at_a_graph_that_cannot_be_estimated():
    class Saturated(Valley):
        def evaluate(self, lambda1, lambda2, solved):
            found = super().evaluate(lambda1, lambda2, solved)
            return replace(found, score=np.inf) if lambda1 + lambda2 < 0.8 else found

    saturated = Saturated(0.9, 0.25)
    _, _, best = search(saturated)
    first = [sum(point) for point in saturated.asked if point[1] == pytest.approx(0.25 * sum(point))]
    assert sum(best) == pytest.approx(0.9, rel=0.1) and min(first) > 0.6, "one step beyond, not two"


def test_what_cannot_be_afforded_is_asked_once_and_the_choice_is_among_the_rest():
    valley = Valley(0.1, 0.3)
    coarse_to_fine, found, best = search(
        valley, affordable=lambda lambda1, lambda2: "memory" * (lambda1 + lambda2 < 0.4)
    )
    assert min(map(sum, valley.asked)) >= 0.4
    assert found.left_out and set(found.left_out.values()) == {"memory"}
    assert 0.4 <= sum(best) < 0.55
    assert not coarse_to_fine.finished, "the best point is the last that can be afforded"
    assert len(found.left_out) <= 12


def test_the_search_goes_as_near_as_it_can_to_what_cannot_be_afforded():
    """Strongly correlated data: one step below the last penalty without edges is too dear, half a step is not."""
    valley = Valley(0.1, 0.3)
    coarse_to_fine, found, best = search(
        valley, affordable=lambda lambda1, lambda2: "time" * (lambda1 + lambda2 < 0.83)
    )
    assert 0.83 <= sum(best) < 0.87
    assert not coarse_to_fine.finished
    assert len(found.left_out) <= 20


def test_no_edge_is_not_a_finding_where_weaker_penalties_could_not_be_afforded(monkeypatch):
    X, y = draw(chain(40), (60, 60))
    monkeypatch.setattr(
        "jointglasso.selection.budget.Budget.why_infeasible", lambda self, lambda1, lambda2: "time" * (lambda1 < 0.9)
    )
    with pytest.warns(jgl.SelectionWarning, match="that can be afforded"):
        result = jgl.select(X, y, grid=[(0.99, 0.0), (0.95, 0.0), (0.7, 0.0), (0.6, 0.0)])
    assert result.solution.n_edges == [0, 0] and result.on_edge == ("weakest",)
    assert "no edge at all" not in result.explain() and "stopped falling" not in result.explain()


def test_the_default_search_beats_a_fixed_grid_and_says_so(data, source):
    searched = jgl.select(*data)
    fixed = jgl.select(*data, grid=jgl.lambda_grid(source, weights="sqrt_sample_size"))
    assert searched.score <= fixed.score + 0.2
    assert searched.finished
    assert searched.on_edge == ()
    assert searched.solution.parameters["penalize_diagonal"] is False
    np.testing.assert_allclose(searched.solution.parameters["weights"], np.sqrt(np.array([150, 200]) / 175))


def interrupting(after):
    """A callback that does what Ctrl-C does once so many solves are done."""

    def callback(progress):
        if progress.done >= after:
            raise KeyboardInterrupt

    return callback


@pytest.mark.parametrize(
    ("criterion", "given", "n_jobs"),
    [("jbic", False, None), ("jbic", True, 2), ("cv", False, 2), ("stars", True, None)],
)
def test_an_interrupt_leaves_the_choice_among_the_points_that_are_done(data, source, criterion, given, n_jobs):
    solves = {"jbic": 1, "cv": 2, "stars": 3}[criterion]
    grid = jgl.lambda_grid(source, weights="sqrt_sample_size", **GRID) if given else None
    options = {"criterion": criterion, "grid": grid, "n_jobs": n_jobs, "cv": 2, "n_subsamples": 3, "random_state": 0}
    found = jgl.select(*data, on_interrupt="return", callback=interrupting(4 * solves), **options)
    done = np.flatnonzero(found.records["tried"])
    assert found.interrupted and 4 <= len(done) <= 5
    assert f"Interrupted after {len(done)} points" in found.explain() and "edges is stable" not in found.explain()
    if criterion != "stars":
        assert found.score == np.nanmin(found.records["score"])
    assert found.solution.status and found.precision[0].shape == (12, 12)
    whole = jgl.select(*data, **options)
    assert not whole.interrupted and "Interrupted" not in whole.explain()
    with pytest.raises(KeyboardInterrupt):
        jgl.select(*data, callback=interrupting(4 * solves), **options)


@pytest.mark.parametrize("criterion", ["jbic", "cv"])
def test_a_choice_goes_on_from_its_checkpoint(data, tmp_path, criterion, monkeypatch):
    options = {"criterion": criterion, "cv": 2, "random_state": 0}
    whole = jgl.select(*data, **options)
    with pytest.raises(KeyboardInterrupt):
        jgl.select(*data, checkpoint=tmp_path / "work", callback=interrupting(8), **options)
    assert len(list((tmp_path / "work").iterdir())) == 8
    resumed = jgl.select(*data, checkpoint=tmp_path / "work", **options)
    assert (resumed.lambda1, resumed.lambda2) == (whole.lambda1, whole.lambda2)
    assert resumed.score == pytest.approx(whole.score, abs=0.05)
    point = {"grid": [(whole.lambda1, whole.lambda2)], "checkpoint": tmp_path / "work"}
    with pytest.raises(ValueError, match="checkpoint"):  # of other data
        jgl.select(data[0][:-5], data[1][:-5], **point, **options)


def test_many_variables_are_planned_before_they_are_solved(monkeypatch):
    """The third of the points in memory, the rest left out, and the choice still made."""
    X, y = draw(chain(40), (60, 60))
    monkeypatch.setattr("jointglasso.selection.budget.SCANNED_ONCE", 10)
    free = jgl.select(X, y)
    tight = jgl.select(X, y, max_memory=200_000.0)
    assert not free.left_out
    assert "cannot be afforded (memory)" in tight.explain()
    assert sum(tight.solution.n_edges) < sum(free.solution.n_edges)
    assert tight.solution.refit is not None


# The front


def test_the_solution_is_that_of_the_chosen_point_and_the_table_has_every_point(data, source):
    pandas = pytest.importorskip("pandas")
    grid = jgl.lambda_grid(source, **GRID)
    result = jgl.select(*data, grid=grid)
    table = result.table
    assert isinstance(table, pandas.DataFrame)
    assert len(table) == 12
    assert {"lambda1", "lambda2", "score", "edges", "converged", "edges[c0]"} <= set(table.columns)
    assert (result.lambda1, result.lambda2) == grid[result.best]
    assert sum(result.solution.n_edges) == table.edges[result.best]
    assert result.score == pytest.approx(table.score.min(), abs=0.2)


@pytest.mark.parametrize("criterion", ["ebic", "cv", "stars"])
def test_jobs_and_seeds_do_not_change_the_choice(data, source, criterion):
    options = {"criterion": criterion, "grid": jgl.lambda_grid(source, n_lambdas=4, ratios=(0.2, 1.0)), "cv": 3}
    runs = [
        jgl.select(*data, n_subsamples=4, random_state=3, n_jobs=n_jobs, **options).records["score"]
        for n_jobs in (None, 2)
    ]
    np.testing.assert_array_equal(runs[0], runs[1])


def test_tables_by_class_are_aligned_by_name(data):
    pandas = pytest.importorskip("pandas")
    X, y = data
    names = [f"g{i}" for i in range(12)]
    frame = pandas.DataFrame(X, columns=names)
    by_class = {"c0": frame[y == "c0"], "c1": frame.loc[y == "c1", names[::-1]]}
    result = jgl.select(by_class, grid=[(0.2, 0.1)])
    expected = jgl.select(frame, y, grid=[(0.2, 0.1)])
    assert result.solution.variable_names == tuple(names)
    assert result.score == pytest.approx(expected.score)
    with pytest.raises(ValueError, match="is not in all classes"):
        jgl.select({"a": frame, "b": frame.rename(columns={"g0": "other"})})
    with pytest.raises(ValueError, match="leave y out"):
        jgl.select(by_class, y)
    with pytest.raises(ValueError, match="Class 'b' has 11 variables, class 'a' has 12"):
        jgl.select({"a": X, "b": X[:, 1:]})
    with pytest.raises(ValueError, match="stack of square matrices"):
        jgl.select(np.stack([np.eye(3)] * 2))
    as_list = jgl.select([X[y == "c0"], X[y == "c1"]], grid=[(0.2, 0.1)])
    assert as_list.solution.class_names == ("1", "2") and as_list.score == pytest.approx(expected.score)


def test_components_too_large_to_refit_are_scaled(data, source, monkeypatch):
    """Their score lies between that of the refit and that of the penalised matrices."""
    options = {"grid": [(0.15, 0.05)], "criterion": "bic"}
    refitted = jgl.select(*data, **options).score
    penalised = jgl.select(*data, relaxed=False, **options).score
    monkeypatch.setattr("jointglasso.selection.relaxed.LARGEST", 3)
    assert refitted < jgl.select(*data, **options).score < penalised


@pytest.mark.parametrize("penalty", ["group", "fused"])
def test_near_duplicates_hide_no_other_edge_and_duplicates_are_named(penalty):
    """Diagonal entries of 1e5 are no sign of an unbounded likelihood where two variables are that similar."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 6))
    X[:, 1] += X[:, 0]
    X[:, 3] += X[:, 2]
    X[:, 4] += X[:, 0] - X[:, 1]
    y = np.repeat(["a", "b"], 150)
    near = np.column_stack([X, X[:, 0] + 0.002 * rng.normal(size=300)])
    found = jgl.select(near, y, penalty=penalty).solution
    assert all(Theta[2, 3] != 0 and Theta[1, 4] != 0 for Theta in found.precision)
    twice = np.column_stack([X, -X[:, 0]])
    with pytest.raises(ValueError, match=r"'x0' and 'x6' have correlation -1 in class 'a' \(1 such pair\)"):
        jgl.select(twice, y, penalty=penalty)


def test_the_callback_hears_of_every_solve_and_can_stop(data, source):
    heard = []
    grid = jgl.lambda_grid(source, n_lambdas=3, ratios=(0.5,))
    jgl.select(*data, criterion="cv", cv=2, grid=grid, callback=heard.append)
    solves, stages = heard[:3], heard[3:]
    assert [state.done for state in solves] == [2, 4, 6]
    assert {state.total for state in solves} == {6}
    assert solves[-1].seconds_left == 0.0
    assert solves[0].seconds_left == pytest.approx(2 * solves[0].seconds)
    assert {state.stage for state in solves} == {"column 1 of 1"}
    assert [(state.stage, state.total) for state in stages] == [
        ("held-out likelihood of the values", 0),
        ("estimating the values", 0),
    ]

    def stop(state):
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        jgl.select(*data, grid=grid, callback=stop)
    with pytest.raises(TypeError, match="callback"):
        jgl.select(*data, grid=grid, callback="no")
    assert threading.active_count() < 50


def test_solves_that_stop_early_are_counted_in_one_warning(data):
    options = {"solver": "admm", "max_iter": 1, "tol": 1e-12}
    with pytest.warns(jgl.ConvergenceWarning, match="2 of 2 solves") as caught:
        result = jgl.select(*data, grid=[(0.1, 0.05), (0.05, 0.025)], relaxed=False, **options)
    assert len([warning for warning in caught if warning.category is jgl.ConvergenceWarning]) == 1
    assert result.n_failed == 2
    assert "2 of 2 solves stopped before their tolerance" in result.explain()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"criterion": "dic"}, "criterion='dic'"),
        ({"gamma": 3.0}, "gamma=3"),
        ({"patience": 0}, "patience=0"),
        ({"criterion": "cv", "cv": 1}, "cv=1"),
        ({"criterion": "stars", "n_subsamples": 1}, "n_subsamples=1"),
        ({"criterion": "stars", "beta": 0.0}, "beta=0"),
        ({"scale": "log"}, "scale='log'"),
    ],
)
def test_wrong_options_are_named(data, options, message):
    with pytest.raises(ValueError, match=message):
        jgl.select(*data, **options)


# The explanation


def test_the_explanation_says_what_why_and_how_clear(data):
    result = jgl.select(*data)
    text = result.explain()
    assert f"lambda1 = {result.lambda1:.4g}" in text
    assert "smallest joint extended BIC (gamma=0.45)" in text
    assert "Its neighbours: one step stronger +" in text
    assert "within 10 of its score" in text
    assert "Values are between the penalised estimate (0) and the maximum likelihood on its edges (1), at 0.8" in text
    assert repr(result).startswith("SelectionResult(criterion='jbic'")
    assert "edges is stable" not in text, "two halves of the samples were not compared"
    n_edges = sum(result.solution.n_edges)
    for halves, verdict in (((21, 22), "stable"), ((10, 22), "uncertain"), ((n_edges // 2 - 1,) * 2, "uncertain")):
        words = f"choose {halves[0]} and {halves[1]} edges, all samples {n_edges}: the number of edges is {verdict}"
        assert words in replace(result, half_edges=halves).explain()
    assert "the number of edges is uncertain" in replace(result, half_edges=(0, 0)).explain()
    score = np.where(np.arange(len(result.grid)) == result.best, result.score, np.inf)
    unbounded = replace(result, half_edges=(21, 22), records={**result.records, "score": score})
    assert "without a maximum of the likelihood" in unbounded.explain()
    assert "edges is stable" not in unbounded.explain() and "better ones may lie" in unbounded.explain()


def test_arguments_are_documented_in_groups():
    """The docstring names every argument in one group, in the order of the signature."""
    names = [name for name in signature(jgl.select).parameters if name != "options"]
    text = " ".join(jgl.select.__doc__.split("come in groups:")[1].split("Parameters")[0].split())
    groups = dict(re.findall(r"\*(\w+)\* \(([^)]*)\)", text))
    assert list(groups) == ["data", "preparation", "penalties", "search", "computing"]
    listed = [name for group in groups.values() for name in group.split(", ") if not name.startswith("and ")]
    assert listed == names


def test_a_search_reports_its_stages_and_what_is_left(data):
    heard = []
    jgl.select(*data, halves=True, random_state=0, callback=heard.append)
    stages = list(dict.fromkeys(state.stage for state in heard))
    search = ["first column", "other columns", "refining"]
    after = ["half 1 of 2", "half 2 of 2", "held-out likelihood of the values", "estimating the values"]
    assert stages == [*search, *after]
    solves = [state for state in heard if state.stage in search]
    assert [state.done for state in solves] == list(range(1, len(solves) + 1))
    assert all(state.total > state.done and state.seconds_left > 0 for state in solves), "a search may always go on"


def test_penalties_with_more_neighbours_than_samples_can_support_are_not_solved(monkeypatch):
    monkeypatch.setattr("jointglasso.selection.budget.SCANNED_ONCE", 1)
    X, y = np.random.default_rng(0).normal(size=(40, 90)), np.repeat([0, 1], 20)
    few = jgl.SampleCovariance.from_labels(X[[*range(8), *range(20, 28)]], [0] * 8 + [1] * 8, scale="correlation")
    many = jgl.SampleCovariance.from_labels(X, y, scale="correlation")
    point = (0.05, 0.05)
    assert "than the samples can support" in Budget(few, None, SolveOptions()).why_infeasible(*point)
    assert not Budget(many, None, SolveOptions()).why_infeasible(*point)
    assert not Budget(few, None, SolveOptions()).why_infeasible(0.5, 0.2)
    near = {(f"x{i}", f"x{i + 1}"): 0.5 for i in range(89)}
    assert not Budget(few, None, SolveOptions(pair_weights=near)).why_infeasible(*point), "weights may forbid pairs"


def test_points_weaker_than_an_infeasible_one_are_not_planned(source, monkeypatch):
    """A dual ball inside that of an infeasible point leaves more pairs outside."""
    monkeypatch.setattr("jointglasso.selection.budget.SCANNED_ONCE", 1)
    planned = []
    monkeypatch.setattr(Budget, "_planned", lambda self, *point: planned.append(point) or "memory")
    budget = Budget(source, None, SolveOptions())
    assert budget.why_infeasible(0.2, 0.2) == "memory"
    assert budget.why_infeasible(0.25, 0.1) == "memory" and len(planned) == 2, "fewer pairs are above lambda1"
    assert budget.why_infeasible(0.15, 0.24) == "memory" and len(planned) == 2
    assert budget.why_infeasible(0.15, 0.3) == "memory" and len(planned) == 3, "fewer pairs are outside the ball"
    fused = Budget(source, None, SolveOptions(penalty="fused"))
    fused.why_infeasible(0.2, 0.2)
    planned.clear()
    assert fused.why_infeasible(0.1, 0.2) == "memory" and not planned
    assert fused.why_infeasible(0.15, 0.24) == "memory" and planned


def test_the_explanation_warns_of_the_edge_of_the_grid(data, source):
    strong = jgl.lambda_grid(source, n_lambdas=3, min_ratio=0.9, ratios=(0.1, 0.2))
    with pytest.warns(jgl.SelectionWarning, match="lower `min_ratio`"):
        result = jgl.select(*data, grid=strong)
    assert result.on_edge[0] == "weakest"
    assert "lower `min_ratio`" in result.explain()
    assert "edges is stable" not in result.explain()
    noise = np.random.default_rng(0).normal(size=(200, 5))
    result = jgl.select(noise, np.repeat(["a", "b"], 100))
    assert result.on_edge == ()
    assert "The data support no network" in result.explain()
    single = jgl.select(*data, grid=[(0.2, 0.1)])
    assert single.on_edge == ()
    assert "no neighbours" in single.explain()


def test_of_points_with_one_graph_the_least_shrunken_is_taken():
    """All points find the one edge there is, and so have one score."""
    X = np.random.default_rng(0).normal(size=(200, 4))
    X[:, 1] += 2 * X[:, 0]
    result = jgl.select(X, np.repeat(["a", "b"], 100), grid=[(0.5, 0.0), (0.4, 0.1), (0.36, 0.24), (0.3, 0.2)])
    np.testing.assert_allclose(result.records["score"], result.score, atol=0.2)
    assert result.best == np.argmin(result.grid.strength)
    assert result.on_edge == ("weakest",)
    assert "3 of them score the same" in result.explain()


def test_lenient_criteria_come_with_a_warning(data):
    for criterion in ("aic", "bic"):
        with pytest.warns(jgl.SelectionWarning, match="false edges on pure noise"):
            jgl.select(*data, criterion=criterion, grid=[(0.2, 0.1)])


def test_the_explanation_knows_its_criterion(data):
    grid = [(0.3, 0.1), (0.2, 0.2 / 3), (0.2, 0.2), (0.1, 0.1)]
    by_cv = jgl.select(*data, criterion="cv", cv=3, grid=grid, random_state=0).explain()
    assert "held-out loss per sample, 3 folds" in by_cv
    assert "within one standard error" in by_cv
    by_stars = jgl.select(*data, criterion="stars", n_subsamples=4, grid=grid, random_state=0).explain()
    assert "By StARS" in by_stars
    noisy = np.random.default_rng(0).normal(size=(12, 6))
    hopeless = jgl.select(noisy, criterion="stars", n_subsamples=5, grid=[(0.1, 0.0)], random_state=0)
    assert "No point" in hopeless.explain()
