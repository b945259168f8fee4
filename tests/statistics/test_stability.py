"""How far edges can be trusted: selection frequencies."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

import jointglasso as jgl


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
