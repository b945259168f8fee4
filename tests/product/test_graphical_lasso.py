"""The drop-ins for scikit-learn's graphical lasso: the numbers of its own tests, and its classes as oracles."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn import covariance, datasets
from sklearn.base import clone
from sklearn.covariance import empirical_covariance
from sklearn.covariance.tests import test_graphical_lasso as sklearn_tests
from sklearn.datasets import make_sparse_spd_matrix
from sklearn.model_selection import GridSearchCV, GroupKFold
from sklearn.utils.estimator_checks import parametrize_with_checks

import jointglasso as jgl

IRIS = datasets.load_iris().data


@parametrize_with_checks([jgl.GraphicalLasso(), jgl.GraphicalLassoCV(cv=3), jgl.GraphicalLassoIC(alphas=5)])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def sparse_samples(seed=0, p=10, n=100):
    rng = np.random.RandomState(seed)
    precision = make_sparse_spd_matrix(p, alpha=0.95, random_state=rng)
    return rng.multivariate_normal(np.zeros(p), np.linalg.inv(precision), size=n)


@pytest.mark.parametrize("alpha", [0.1, 0.25])
def test_scikit_learn_has_the_same_matrices(alpha):
    X = sparse_samples()
    ours = jgl.GraphicalLasso(alpha, tol=1e-10).fit(X)
    theirs = covariance.GraphicalLasso(alpha, tol=1e-7, enet_tol=1e-11, max_iter=200).fit(X)
    assert_allclose(ours.precision_, theirs.precision_, atol=1e-5)
    assert_allclose(ours.covariance_, theirs.covariance_, atol=1e-5)
    assert_allclose(ours.location_, theirs.location_)
    assert_allclose(ours.score(X), theirs.score(X), atol=1e-6)
    assert_allclose(ours.mahalanobis(X), theirs.mahalanobis(X), rtol=1e-4)
    assert_allclose(ours.costs_[-1][0] + 20 * np.log(2 * np.pi), theirs.costs_[-1][0], rtol=1e-6)
    assert np.abs(theirs.precision_).min() == 0.0  # there is something to select


def test_matrices_are_inverses_of_each_other_and_the_gap_is_certified():
    model = jgl.GraphicalLasso(0.1).fit(sparse_samples())
    assert_allclose(model.precision_ @ model.covariance_, np.eye(10), atol=1e-12)
    assert_allclose(np.diag(model.covariance_), np.diag(empirical_covariance(sparse_samples())), rtol=1e-3)
    assert model.certificate_.relative_gap <= 1e-6
    assert model.get_precision() is model.precision_
    assert model.n_iter_ >= 1


@pytest.mark.filterwarnings("ignore")  # folds of a single sample
@pytest.mark.parametrize(
    ("name", "arguments"),
    [("when_alpha_equals_0", (42,)), ("cv", (42,)), ("cv_alphas_iterable", ("list",)), ("cv_scores", (42,))],
)
def test_tests_of_scikit_learn(name, arguments, monkeypatch):
    for estimator in ("GraphicalLasso", "GraphicalLassoCV"):
        monkeypatch.setattr(sklearn_tests, estimator, getattr(jgl, estimator))
    getattr(sklearn_tests, f"test_graphical_lasso_{name}")(*arguments)


#: From the R package glasso and from skggm, as in scikit-learn's tests: samples, alpha, precision, covariance.
HARD_CODED = {
    "iris": (
        IRIS, 1.0,
        [[1.5190747, 0, -0.1304475, 0], [0, 5.299055, 0, 0], [-0.1304475, 0, 0.3498624, -0.1683946],
         [0, 0, -0.1683946, 1.8164353]],
        [[0.68112222, 0, 0.265820, 0.02464314], [0, 0.1887129, 0, 0], [0.26582, 0, 3.095503, 0.286972],
         [0.02464314, 0, 0.286972, 0.57713289]],
    ),
    "two variables": (
        IRIS[:, 2:], 0.1, [[1.52836773, -3.14334831], [-3.14334831, 8.19753385]],
        [[3.09550269, 1.186972], [1.186972, 0.57713289]],
    ),
    "singular": (
        IRIS[10:13], 0.01,
        [[24.42244057, -16.831679593, 0, 0], [-16.83168201, 24.351841681, -6.206896552, -12.5],
         [0, -6.206896171, 153.103448276, 0], [0, -12.499999143, 0, 462.5]],
        [[0.08, 0.056666662595, 0.00229729713223, 0.00153153142149],
         [0.056666662595, 0.082222222222, 0.00333333333333, 0.00222222222222],
         [0.002297297132, 0.003333333333, 0.00666666666667, 0.00009009009009],
         [0.001531531421, 0.002222222222, 0.00009009009009, 0.00222222222222]],
    ),
}  # fmt: skip


@pytest.mark.parametrize("precomputed", [False, True])
@pytest.mark.parametrize("name", HARD_CODED)
def test_hard_coded_answers_of_scikit_learns_tests(name, precomputed):
    X, alpha, precision, matrix = HARD_CODED[name]
    model = jgl.GraphicalLasso(alpha, covariance="precomputed" if precomputed else None)
    model.fit(empirical_covariance(X) if precomputed else X)
    assert_allclose(model.precision_, precision, atol=1e-5)
    assert_allclose(model.covariance_, matrix, atol=1e-6)
    assert np.array_equal(model.precision_ == 0, np.array(precision) == 0)


def test_centred_samples_may_be_called_so():
    X = sparse_samples() + 3.0
    Z = X - X.mean(axis=0)
    one, two = (jgl.GraphicalLasso(assume_centered=flag).fit(Z).precision_ for flag in (False, True))
    assert_allclose(one, two, atol=1e-6)
    assert np.abs(jgl.GraphicalLasso(assume_centered=True).fit(X).precision_ - one).max() > 0.01


TRUE = np.array([[0.8, 0.0, 0.2, 0.0], [0.0, 0.4, 0.0, 0.0], [0.2, 0.0, 0.3, 0.1], [0.0, 0.0, 0.1, 0.7]])


def four_variables(n=200):
    return np.random.RandomState(0).multivariate_normal(np.zeros(4), TRUE, size=n)


def test_cross_validation_finds_what_scikit_learn_finds():
    X = four_variables()
    ours = jgl.GraphicalLassoCV(cv=4, alphas=5, n_refinements=3).fit(X)
    theirs = covariance.GraphicalLassoCV(cv=4, alphas=5, n_refinements=3, tol=1e-8, enet_tol=1e-8).fit(X)
    assert_allclose(ours.cv_results_["alphas"], theirs.cv_results_["alphas"])
    for key in ("split0_test_score", "split3_test_score", "mean_test_score", "std_test_score"):
        # The last row, without penalty, is scored there around the means of the training samples, the others are not.
        assert_allclose(ours.cv_results_[key][:-1], theirs.cv_results_[key][:-1], rtol=1e-5, atol=1e-5)
    assert_allclose(ours.alpha_, theirs.alpha_)
    assert_allclose(ours.covariance_, theirs.covariance_, atol=1e-5)
    assert len(ours.cv_results_["alphas"]) == 3 * 5 + 1


@pytest.mark.parametrize("kind", [list, tuple, np.array])
def test_alphas_may_be_given(kind):
    model = jgl.GraphicalLassoCV(alphas=kind([0.02, 0.03])).fit(four_variables())
    assert model.cv_results_["alphas"].tolist() == [0.03, 0.02, 0.0]
    assert model.alpha_ in (0.02, 0.03)


@pytest.mark.parametrize("alphas", [[-0.02, 0.03], [0, 0.03], []])
def test_alphas_are_checked(alphas):
    with pytest.raises(jgl.InputError, match="alphas"):
        jgl.GraphicalLassoCV(alphas=alphas).fit(four_variables())


def test_groups_stay_together_in_folds():
    X, groups = four_variables(), np.repeat(np.arange(10), 20)
    model = jgl.GraphicalLassoCV(cv=GroupKFold(5), alphas=[0.1, 0.05], n_jobs=2).fit(X, groups=groups)
    train, test = next(GroupKFold(5).split(X, groups=groups))
    fold = jgl.GraphicalLasso(0.1).fit(X[train])
    expected = covariance.log_likelihood(empirical_covariance(X[test]), fold.precision_)
    assert_allclose(model.cv_results_["split0_test_score"][0], expected, rtol=1e-6)


@pytest.mark.parametrize("criterion", ["ebic", "bic", "aic"])
def test_criterion_is_the_formula_and_its_minimum_is_chosen(criterion):
    X = four_variables()
    model = jgl.GraphicalLassoIC(criterion, alphas=[0.3, 0.1, 0.03, 0.01]).fit(X)
    S, n, values = empirical_covariance(X), len(X), []
    for alpha in model.alphas_:
        Theta = covariance.GraphicalLasso(alpha, tol=1e-8, enet_tol=1e-8).fit(X).precision_
        edges = (np.triu(Theta, 1) != 0).sum()
        price = {"aic": 2.0, "bic": np.log(n), "ebic": np.log(n) + 2.0 * np.log(4)}[criterion]
        values.append(n * ((S * Theta).sum() - np.linalg.slogdet(Theta)[1]) + price * edges)
    assert_allclose(model.criterion_, values, rtol=1e-5)
    assert model.alpha_ == model.alphas_[np.argmin(values)]


def test_information_criterion_finds_edges_and_few_on_noise():
    X = np.random.default_rng(0).normal(size=(300, 12))
    assert np.count_nonzero(np.triu(jgl.GraphicalLassoIC().fit(X).precision_, 1)) <= 1
    for j in range(1, 12):
        X[:, j] += 0.7 * X[:, j - 1]
    chosen = jgl.GraphicalLassoIC().fit(X)
    assert np.all(np.diag(chosen.precision_, 1) < 0)
    assert np.count_nonzero(chosen.precision_) < np.count_nonzero(jgl.GraphicalLassoCV(cv=3).fit(X).precision_)
    assert len(chosen.alphas_) == 100


def test_they_work_inside_scikit_learn():
    search = GridSearchCV(jgl.GraphicalLasso(), {"alpha": [0.01, 0.1, 1.0]}, cv=3).fit(four_variables())
    assert search.best_params_["alpha"] in (0.01, 0.1)
    assert clone(jgl.GraphicalLasso(0.3)).get_params()["alpha"] == 0.3
    assert isinstance(search.best_estimator_, covariance.EmpiricalCovariance)
