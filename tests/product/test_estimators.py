"""The scikit-learn estimators."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy import sparse, stats
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.utils.estimator_checks import parametrize_with_checks

import jointglasso as jgl

#: Small grids have their best point on the edge more often than not.
pytestmark = pytest.mark.filterwarnings("ignore::jointglasso.selection.SelectionWarning")

#: The conventions of `solve`.
PLAIN = {"weights": "equal", "penalize_diagonal": True}

#: A small grid keeps the checks quick.
SMALL = {"n_lambdas": 3, "ratios": (0.5,), "cv": 3}


@pytest.mark.filterwarnings("ignore::jointglasso.solution.RefitWarning")  # the checks fit a handful of samples
@parametrize_with_checks(
    [
        jgl.JointGraphicalLasso(),
        jgl.JointGraphicalLasso(scale="covariance", association="spearman", missing="pairwise", constant="isolate"),
        jgl.JointGraphicalLassoCV(**SMALL),
        jgl.JointGraphicalLassoCV(criterion="ebic", **SMALL),
    ]
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def chain_data(p=6, sizes=(60, 80), strength=0.4, seed=0, scales=None):
    """Samples of chains, each class with other means."""
    rng = np.random.default_rng(seed)
    Theta = np.eye(p) + strength * (np.eye(p, k=1) + np.eye(p, k=-1))
    root = np.linalg.cholesky(np.linalg.inv(Theta))
    X = np.vstack([k + rng.normal(size=(n, p)) @ root.T for k, n in enumerate(sizes)])
    y = np.repeat([f"c{k}" for k in range(len(sizes))], sizes)
    shuffled = np.concatenate([[0], 1 + rng.permutation(len(y) - 1)])  # "c0" comes first
    return (X if scales is None else X * scales)[shuffled], y[shuffled]


# What is fitted


def test_fit_is_solve_on_the_correlations_of_each_class():
    X, y = chain_data()
    model = jgl.JointGraphicalLasso(0.15, 0.05, tol=1e-9, **PLAIN).fit(X, y)
    R = [np.corrcoef(X[y == label].T) for label in ("c0", "c1")]
    expected = jgl.solve(R, 0.15, 0.05, tol=1e-9)
    assert list(model.classes_) == ["c0", "c1"]
    for found, wanted in zip(model.solution_.precision, expected.precision, strict=True):
        np.testing.assert_allclose(found.toarray(), wanted.toarray(), atol=1e-8)
    likeliest = jgl.refit(R, expected, relaxation=[n / (n + 10 * np.log(6)) for n in (60, 80)])
    for found, wanted in zip(model.precision_correlation_, likeliest.precision, strict=True):
        np.testing.assert_allclose(found.toarray(), wanted.toarray(), atol=1e-6)


def test_fit_on_the_covariance_scale_is_solve_on_the_covariances():
    X, y = chain_data(scales=np.array([1.0, 2.0, 1.0, 0.5, 1.0, 1.0]))
    options = {"scale": "covariance", "weights": "sample_size", "penalize_diagonal": True, "tol": 1e-9}
    model = jgl.JointGraphicalLasso(0.1, 0.1, **options).fit(X, y)
    S = [np.cov(X[y == label].T, bias=True) for label in ("c0", "c1")]
    expected = jgl.solve(S, 0.1, 0.1, weights=[60 / 140, 80 / 140], tol=1e-9)
    for found, wanted in zip(model.penalized_precision_, expected.precision, strict=True):
        np.testing.assert_allclose(found.toarray(), wanted.toarray(), atol=1e-7)


@pytest.mark.parametrize("scale", ["correlation", "covariance"])
def test_values_are_between_the_penalised_ones_and_the_maximum_likelihood_on_the_edges(scale):
    X, y = chain_data(scales=np.array([1.0, 2.0, 1.0, 0.5, 1.0, 1.0]))
    model = jgl.JointGraphicalLasso(0.1, 0.05, scale=scale).fit(X, y)
    for k, label in enumerate(model.classes_):
        n = int((y == label).sum())
        phi = n / (n + 10 * np.log(6))
        assert model.refit_.relaxation[k] == pytest.approx(phi)
        S = np.cov(X[y == label].T, bias=True)
        Theta, penalized = model.precision_[k].toarray(), model.penalized_precision_[k].toarray()
        np.testing.assert_array_equal(Theta != 0, penalized != 0)
        assert ((Theta != 0) & ~np.eye(6, dtype=bool)).any()
        target = phi * S + (1 - phi) * np.linalg.inv(penalized)
        np.testing.assert_allclose(np.linalg.inv(Theta)[Theta != 0], target[Theta != 0], atol=1e-6)
        shown = model.networks_.precision[k].toarray()
        np.testing.assert_allclose(shown, (model.precision_correlation_ if scale == "correlation" else
                                           model.precision_)[k].toarray())  # fmt: skip


def test_few_samples_need_no_ridge():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(6, 5)), np.repeat([0, 1], 3)
    model = jgl.JointGraphicalLasso(0.05, 0.01).fit(X, y)
    assert not model.refit_.failures and model.refit_.ridge == 0.0
    assert "between the penalised estimate" in model.refit_.describe()


@pytest.mark.parametrize("scale", ["correlation", "covariance"])
def test_the_two_scales_differ_by_the_sample_deviations_and_share_their_zeros(scale):
    X, y = chain_data(scales=np.array([1.0, 10.0, 1.0, 0.1, 1.0, 1.0]))
    model = jgl.JointGraphicalLasso(0.05, 0.02, scale=scale).fit(X, y)
    for k, label in enumerate(model.classes_):
        deviation = X[y == label].std(axis=0)
        np.testing.assert_allclose(model.deviation_[k], deviation)
        np.testing.assert_allclose(model.location_[k], X[y == label].mean(axis=0))
        rescaled = model.precision_[k].toarray() * np.outer(deviation, deviation)
        np.testing.assert_allclose(rescaled, model.precision_correlation_[k].toarray(), rtol=1e-10)
        assert (model.precision_[k] != 0).nnz == (model.precision_correlation_[k] != 0).nnz
        np.testing.assert_allclose(model.covariance_[k] @ model.precision_[k].toarray(), np.eye(6), atol=1e-10)


def test_the_correlation_estimate_ignores_the_units():
    X, y = chain_data()
    units = np.array([1e-3, 1.0, 1e4, 1.0, 50.0, 1.0])
    plain = jgl.JointGraphicalLasso().fit(X, y)
    scaled = jgl.JointGraphicalLasso().fit(X * units, y)
    for one, other in zip(plain.partial_correlations_, scaled.partial_correlations_, strict=True):
        np.testing.assert_allclose(one.toarray(), other.toarray(), atol=1e-9)


def test_partial_correlations_are_those_of_the_precision():
    X, y = chain_data()
    model = jgl.JointGraphicalLasso(0.1, 0.05).fit(X, y)
    for Theta, R in zip(model.precision_, model.partial_correlations_, strict=True):
        dense = Theta.toarray()
        expected = -dense / np.sqrt(np.outer(dense.diagonal(), dense.diagonal()))
        np.fill_diagonal(expected, 1.0)
        assert sparse.issparse(R)
        np.testing.assert_allclose(R.toarray(), expected, atol=1e-12)


def test_assume_centered_takes_second_moments():
    X, y = chain_data()
    model = jgl.JointGraphicalLasso(0.1, 0.1, scale="covariance", assume_centered=True, tol=1e-9, **PLAIN).fit(X, y)
    moments = [X[y == label].T @ X[y == label] / (y == label).sum() for label in model.classes_]
    expected = jgl.solve(moments, 0.1, 0.1, tol=1e-9)
    np.testing.assert_array_equal(model.location_, 0.0)
    np.testing.assert_allclose(model.penalized_precision_[1].toarray(), expected.precision[1].toarray(), atol=1e-7)


def test_without_labels_there_is_one_class():
    X, _ = chain_data()
    model = jgl.JointGraphicalLasso().fit(X)
    assert len(model.classes_) == len(model.precision_) == 1
    assert np.isfinite(model.score(X))


@pytest.mark.filterwarnings("ignore::jointglasso.solution.RefitWarning")
@pytest.mark.parametrize("size", [2, 3])
def test_classes_of_two_or_three_samples_work(size):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(2 * size, 5)), np.repeat([0, 1], size)
    model = jgl.JointGraphicalLasso(0.3, 0.2).fit(X, y)
    assert model.solution_.status.converged
    assert all(np.linalg.eigvalsh(Theta.toarray())[0] > 0 for Theta in model.precision_)


def test_certificate_and_partition_are_those_of_the_solution():
    X, y = chain_data()
    model = jgl.JointGraphicalLasso().fit(X, y)
    assert model.certificate_ is model.solution_.certificate
    assert model.certificate_.relative_gap <= 1e-6
    assert model.partition_ is model.solution_.partition
    assert model.n_iter_ >= 1


def test_networks_are_those_of_the_solution():
    pytest.importorskip("pandas")
    X, y = chain_data()
    model = jgl.JointGraphicalLasso(0.1, 0.05).fit(X, y)
    edges = model.networks_.edges()
    assert len(edges) == sum(model.solution_.n_edges)
    first = edges.iloc[0]
    k = list(model.classes_).index(first["class"])
    i, j = int(first.variable1[1:]), int(first.variable2[1:])
    assert first.partial_correlation == pytest.approx(model.partial_correlations_[k][i, j])


@pytest.mark.filterwarnings("ignore::jointglasso.solution.RefitWarning")
def test_a_solve_that_stops_early_warns():
    X, y = chain_data(p=30, sizes=(20, 20))
    with pytest.warns(jgl.ConvergenceWarning, match="max_iter"):
        jgl.JointGraphicalLasso(0.02, 0.02, solver="admm", max_iter=1, tol=1e-12).fit(X, y)


def test_pair_weights_forbid_an_edge():
    X, y = chain_data()
    forbidden = np.ones((6, 6))
    forbidden[0, 1] = forbidden[1, 0] = np.inf
    free = jgl.JointGraphicalLasso(0.1, 0.05).fit(X, y)
    bound = jgl.JointGraphicalLasso(0.1, 0.05, pair_weights=forbidden).fit(X, y)
    assert all(Theta[0, 1] != 0 for Theta in free.precision_)
    assert all(Theta[0, 1] == 0 for Theta in bound.precision_)
    chosen = jgl.JointGraphicalLassoCV(criterion="bic", pair_weights=forbidden, **SMALL).fit(X, y)
    assert all(Theta[0, 1] == 0 for Theta in chosen.precision_)


# Tables


def test_pandas_polars_and_pyarrow_tables_give_what_arrays_give():
    pandas, polars, pyarrow = (pytest.importorskip(name) for name in ("pandas", "polars", "pyarrow"))
    X, y = chain_data()
    names = [f"gene{i}" for i in range(6)]
    frame = pandas.DataFrame(X, columns=names)
    plain = jgl.JointGraphicalLasso().fit(X, y)
    expected, score = plain.precision_[0].toarray(), plain.score(X, y)
    tables = {
        "pandas": (frame, pandas.Series(y)),
        "polars": (polars.DataFrame(X, schema=names), polars.Series(y.tolist())),
        "pyarrow": (pyarrow.table({name: X[:, i] for i, name in enumerate(names)}), pyarrow.array(y.tolist())),
        "categories": (frame, pandas.Series(y, dtype="category")),
    }
    for kind, (table, labels) in tables.items():
        model = jgl.JointGraphicalLasso().fit(table, labels)
        assert list(model.feature_names_in_) == names, kind
        assert model.solution_.variable_names == tuple(names)
        np.testing.assert_array_equal(model.precision_[0].toarray(), expected, err_msg=kind)
        assert model.score(table, labels) == pytest.approx(score, rel=1e-12), kind


def test_columns_in_another_order_are_refused_by_score():
    pandas = pytest.importorskip("pandas")
    X, y = chain_data()
    frame = pandas.DataFrame(X, columns=list("abcdef"))
    model = jgl.JointGraphicalLasso().fit(frame, y)
    with pytest.raises(ValueError, match="feature names"):
        model.score(frame[list("bacdef")], y)


# Score


def test_score_is_the_mean_gaussian_log_density():
    X, y = chain_data()
    model = jgl.JointGraphicalLasso().fit(X, y)
    new, labels = chain_data(seed=1)
    expected = [
        stats.multivariate_normal(model.location_[k], model.covariance_[k]).logpdf(row)
        for row, label in zip(new, labels, strict=True)
        for k in [list(model.classes_).index(label)]
    ]
    assert model.score(new, labels) == pytest.approx(np.mean(expected), rel=1e-10)
    only = labels == "c1"
    assert model.score(new[only], labels[only]) == pytest.approx(np.mean(np.array(expected)[only]), rel=1e-10)


def test_score_integrates_missing_values_out():
    X, y = chain_data()
    model = jgl.JointGraphicalLasso(missing="pairwise").fit(X, y)
    row = X[:1].copy()
    row[0, [1, 4]] = np.nan
    k = list(model.classes_).index(y[0])
    seen = [0, 2, 3, 5]
    marginal = stats.multivariate_normal(model.location_[k][seen], model.covariance_[k][np.ix_(seen, seen)])
    assert model.score(row, y[:1]) == pytest.approx(marginal.logpdf(row[0, seen]), rel=1e-10)


def test_score_names_unknown_labels_and_asks_for_missing_ones():
    X, y = chain_data()
    model = jgl.JointGraphicalLasso().fit(X, y)
    with pytest.raises(ValueError, match=r"'other'.*c0, c1"):
        model.score(X[:2], ["c0", "other"])
    with pytest.raises(ValueError, match="y is needed: there are 2 classes"):
        model.score(X)


def test_grid_search_finds_penalties_by_the_score():
    X, y = chain_data()
    search = GridSearchCV(jgl.JointGraphicalLasso(), {"lambda1": [0.02, 0.9]}, cv=3).fit(X, y)
    assert search.best_params_ == {"lambda1": 0.02}


# What is refused


def test_missing_values_are_counted_and_named():
    X, y = chain_data()
    X[5, 1] = X[1, 1] = X[2, 4] = np.nan
    words = r"3 missing values \(NaN\) in 3 of 140 samples and 2 of 6 variables \('x1': 2, 'x4': 1\)"
    with pytest.raises(ValueError, match=words):
        jgl.JointGraphicalLasso().fit(X, y)
    complete = jgl.JointGraphicalLasso(missing="complete").fit(X, y)
    expected = jgl.JointGraphicalLasso().fit(np.delete(X, [1, 2, 5], 0), np.delete(y, [1, 2, 5]))
    np.testing.assert_array_equal(complete.precision_[0].toarray(), expected.precision_[0].toarray())
    assert jgl.JointGraphicalLasso(missing="pairwise").fit(X, y).solution_.status.converged


def test_a_variable_constant_in_one_class_is_named_or_isolated():
    X, y = chain_data()
    X[y == "c1", 2] = 7.0
    with pytest.raises(ValueError, match=r"1 variable is constant in class 'c1' \('x2'\).*constant='isolate'"):
        jgl.JointGraphicalLasso().fit(X, y)
    for scale in ("correlation", "covariance"):
        model = jgl.JointGraphicalLasso(0.05, 0.02, scale=scale, constant="isolate").fit(X, y)
        assert model.precision_[1][[2], :].nnz == 1
        assert model.precision_[0][[2], :].nnz > 1
        assert model.deviation_[1, 2] == pytest.approx(X[y == "c0", 2].std())


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"scale": "log"}, "scale='log'"),
        ({"association": "kendall"}, "association='kendall'"),
        ({"missing": "impute"}, "missing='impute'"),
        ({"constant": "drop"}, "constant='drop'"),
        ({"lambda1": -1.0}, "lambda1=-1"),
        ({"weights": {"c0": 1.0}}, "weights names the classes"),
        ({"screening": "magic"}, "screening='magic'"),
    ],
)
def test_wrong_parameters_are_named_by_fit(parameters, message):
    X, y = chain_data()
    with pytest.raises(ValueError, match=message):
        jgl.JointGraphicalLasso(**parameters).fit(X, y)


def test_a_class_with_one_sample_is_named():
    X, y = chain_data()
    with pytest.raises(ValueError, match="Class 'c9' has 1 sample"):
        jgl.JointGraphicalLasso().fit(np.vstack([X, X[:1]]), [*y, "c9"])


# Chosen penalties


@pytest.mark.parametrize("criterion", ["cv", "ebic", "bic", "aic", "stars"])
def test_the_chosen_model_is_the_plain_one_at_the_chosen_penalties(criterion):
    X, y = chain_data()
    chooser = jgl.JointGraphicalLassoCV(
        criterion=criterion, n_lambdas=4, ratios=(0.2, 1.0), n_subsamples=5, random_state=0, tol=1e-9
    ).fit(X, y)
    plain = jgl.JointGraphicalLasso(chooser.lambda1_, chooser.lambda2_, tol=1e-9).fit(X, y)
    assert chooser.selection_.criterion == criterion
    for one, other in zip(chooser.penalized_precision_, plain.penalized_precision_, strict=True):
        np.testing.assert_allclose(one.toarray(), other.toarray(), atol=1e-4)


def test_given_points_are_the_only_ones_tried():
    X, y = chain_data()
    model = jgl.JointGraphicalLassoCV(criterion="cv", grid=[(0.3, 0.1), (0.1, 0.1)], cv=3, random_state=0).fit(X, y)
    assert (model.lambda1_, model.lambda2_) in [(0.3, 0.1), (0.1, 0.1)]
    assert len(model.selection_.grid) == 2


def test_unknown_criterion_is_named():
    with pytest.raises(ValueError, match="criterion='dic'"):
        jgl.JointGraphicalLassoCV(criterion="dic").fit(*chain_data())


def test_estimators_are_cloned_shown_and_silent():
    X, y = chain_data()
    model = clone(jgl.JointGraphicalLasso(0.3, scale="covariance"))
    assert "lambda1=0.3" in repr(model)
    assert "JointGraphicalLasso" in model._repr_html_()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.fit(X, y)
