"""How far edges can be trusted: selection frequencies and the permutation test of differences."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse, stats

import jointglasso as jgl
from jointglasso.selection.differences import _ranges


def classes(strengths, n, p=6, seed=0):
    """Samples of chains with one strength for each class, and their labels."""
    rng = np.random.default_rng(seed)
    parts = []
    for strength in strengths:
        Theta = np.eye(p) + strength * (np.eye(p, k=1) + np.eye(p, k=-1))
        parts.append(rng.normal(size=(n, p)) @ np.linalg.cholesky(np.linalg.inv(Theta)).T)
    return np.vstack(parts), np.repeat([f"c{k}" for k in range(len(strengths))], n)


# Selection frequencies


def three_pairs():
    """Six variables, tied in three pairs in the first class and independent in the second."""
    X, y = classes((0.0, 0.0), 80)
    X[y == "c0", 1::2] += X[y == "c0", ::2]
    return X, y


@pytest.fixture(scope="module")
def stability():
    X, y = three_pairs()
    return jgl.edge_stability(X, y, lambda1=0.33, lambda2=0.05, n_subsamples=20, random_state=0)


def test_true_edges_are_found_again_and_absent_ones_are_not(stability):
    true = np.kron(np.eye(3), [[0, 1], [1, 0]]).astype(bool)
    first, second = (matrix.toarray() for matrix in stability.frequencies)
    assert first[true].min() >= 0.9
    assert first[~true].max() < 0.5
    assert second.max() < 0.5
    assert stability.class_names == ("c0", "c1")
    assert (stability.stable(0.75)[0].toarray() == true).all()


def test_frequencies_are_symmetric_shares_of_the_subsamples(stability):
    for matrix in stability.frequencies:
        assert isinstance(matrix, sparse.csc_array)
        dense = matrix.toarray()
        np.testing.assert_array_equal(dense, dense.T)
        np.testing.assert_allclose(dense * 20, np.round(dense * 20), atol=1e-12)
        assert dense.max() <= 1.0
        assert not dense.diagonal().any()


def test_the_error_bound_is_the_formula(stability):
    edges = np.array([np.triu(matrix.toarray(), 1).sum() for matrix in stability.frequencies])
    np.testing.assert_allclose(stability.mean_edges, edges)
    np.testing.assert_allclose(stability.error_bound(0.8), edges**2 / (0.6 * 15))
    with pytest.raises(ValueError, match=r"above 0\.5"):
        stability.error_bound(0.5)


def test_one_subsample_of_all_but_a_few_is_a_plain_solve():
    X, y = classes((0.45, 0.3), 30)
    found = jgl.edge_stability(
        X, y, lambda1=0.2, lambda2=0.1, n_subsamples=1, fraction=0.99, complementary_pairs=False, random_state=0
    )
    assert all(set(np.unique(matrix.data)) <= {1.0} for matrix in found.frequencies)
    with pytest.raises(ValueError, match="half the samples"):
        found.error_bound()


def test_complementary_pairs_have_no_common_sample():
    from jointglasso.data.prepare import Preparation
    from jointglasso.selection.resampling import read_data
    from jointglasso.selection.stability import _parts

    data = read_data(*classes((0.4, 0.4), 9), Preparation())
    parts = _parts(data, 5, 0.5, True, 0)
    assert len(parts) == 6
    for first, second in zip(parts[::2], parts[1::2], strict=True):
        for one, other in zip(first, second, strict=True):
            assert len(one) == len(other) == 4
            assert not set(one) & set(other)


def test_jobs_do_not_change_the_frequencies(stability):
    X, y = three_pairs()
    again = jgl.edge_stability(X, y, lambda1=0.33, lambda2=0.05, n_subsamples=20, random_state=0, n_jobs=2)
    for one, other in zip(stability.frequencies, again.frequencies, strict=True):
        np.testing.assert_array_equal(one.toarray(), other.toarray())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"fraction": 1.0}, "fraction=1 must be below 1"),
        ({"fraction": 0.8}, r"fraction=0\.8 leaves no complementary pairs"),
        ({"n_subsamples": 0}, "n_subsamples=0"),
    ],
)
def test_wrong_subsamples_are_refused(options, message):
    X, y = classes((0.4, 0.4), 10)
    with pytest.raises(ValueError, match=message):
        jgl.edge_stability(X, y, lambda1=0.2, lambda2=0.1, **options)


def test_small_classes_have_no_complementary_pairs():
    X, y = classes((0.4, 0.4), 3)
    with pytest.raises(ValueError, match="'c0' has fewer than 4 samples"):
        jgl.edge_stability(X, y, lambda1=0.2, lambda2=0.1)
    found = jgl.edge_stability(X, y, lambda1=0.2, lambda2=0.1, n_subsamples=3, complementary_pairs=False)
    assert found.n_subsamples == 3


# Differences


def test_the_statistic_is_the_range_of_the_partial_correlations():
    first, second, third = np.eye(3), np.eye(3) * 4, np.eye(3)
    first[0, 1] = first[1, 0] = -0.5
    second[0, 1] = second[1, 0] = 1.0
    third[1, 2] = third[2, 1] = 0.25
    keys, spread = _ranges([sparse.csc_array(Theta) for Theta in (first, second, third)])
    assert keys.tolist() == [1, 5]
    np.testing.assert_allclose(spread, [0.75, 0.25])


def test_classes_that_differ_are_told_apart_pair_by_pair():
    rng = np.random.default_rng(0)
    X, y = classes((0.0, 0.0), 100, seed=1)
    X[y == "c0", 1] = X[y == "c0", 0] + 0.6 * rng.normal(size=100)
    found = jgl.difference_test(X, y, lambda1=0.1, lambda2=0.05, n_permutations=60, random_state=0)
    assert found.global_p_value == pytest.approx(1 / 61)
    top = found.table.iloc[0]
    assert (top.variable1, top.variable2) == ("x0", "x1")
    assert top.p_familywise == pytest.approx(1 / 61)
    assert (found.table.p_familywise >= found.table.p_value).all()
    with pytest.raises(AttributeError, match=r"jointglasso.infer\(X, y\).differences"):
        found.q_value  # noqa: B018
    assert (found.table.p_familywise.iloc[1:] > 0.05).all()


def test_the_test_has_its_size_when_the_classes_are_alike():
    """Means, variances and class sizes differ; the p-values of 40 null data sets are uniform on 0.1, ..., 1."""
    p_values = []
    for seed in range(40):
        X, _ = classes((0.4,), 45, p=4, seed=seed)
        y = np.repeat(["a", "b"], (15, 30))
        X[y == "a"] = X[y == "a"] * 3 + 5
        found = jgl.difference_test(X, y, lambda1=0.05, lambda2=0.02, n_permutations=9, random_state=seed, tol=1e-4)
        p_values.append(found.global_p_value)
    rejected = np.mean(np.array(p_values) <= 0.1)
    assert stats.binom.sf(rejected * 40 - 1, 40, 0.1) > 0.005
    assert stats.kstest(np.array(p_values) - np.random.default_rng(0).uniform(0, 0.1, 40), "uniform").pvalue > 0.005


def test_missing_values_and_ranks_go_through_the_permutations():
    X, y = classes((0.4, 0.4), 30)
    X[0, 0] = X[40, 3] = np.nan
    for missing in ("complete", "pairwise"):
        found = jgl.difference_test(
            X, y, lambda1=0.1, lambda2=0.05, n_permutations=4, missing=missing, association="nonparanormal"
        )
        assert 0.2 <= found.global_p_value <= 1.0


def test_one_class_cannot_differ():
    X, _ = classes((0.4,), 20)
    with pytest.raises(ValueError, match="there is only one"):
        jgl.difference_test(X, lambda1=0.1, lambda2=0.1)
    source = jgl.SampleCovariance([X, X])
    with pytest.raises(ValueError, match="needs the samples"):
        jgl.difference_test(source, lambda1=0.1, lambda2=0.1)
