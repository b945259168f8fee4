"""Sample weights: weighted means, covariances and effective sample sizes, against NumPy and repeated samples."""

import numpy as np
import pytest

import jointglasso as jgl
from jointglasso.data.effects import with_sample_weights
from jointglasso.data.samples import read_samples

rng = np.random.default_rng(0)
X, y = rng.normal(size=(90, 5)) @ rng.normal(size=(5, 5)) + 3.0, np.repeat(["a", "b"], [40, 50])
WEIGHT = rng.exponential(size=90) * (np.arange(90) % 7 > 0)  # every seventh sample does not count


def test_covariances_are_the_weighted_ones():
    source = jgl.SampleCovariance.from_labels(X, y, sample_weight=WEIGHT)
    for k, name in enumerate("ab"):
        own, w = X[y == name], WEIGHT[y == name]
        np.testing.assert_allclose(
            source.block(k, np.arange(5)), np.cov(own.T, aweights=w, ddof=0), rtol=1e-12, atol=1e-12
        )
        assert source.sample_sizes[k] == round(w.sum() ** 2 / (w**2).sum())
    equal = jgl.SampleCovariance.from_labels(X, y, sample_weight=np.full(90, 0.3))
    np.testing.assert_allclose(equal.block(0, np.arange(5)), np.cov(X[:40].T, ddof=0), rtol=1e-12)
    assert equal.sample_sizes.tolist() == [40, 50]


def test_whole_weights_are_repeated_samples():
    counts = rng.integers(1, 4, 90)
    weighted = jgl.SampleCovariance.from_labels(X, y, sample_weight=counts, scale="correlation")
    repeated = jgl.SampleCovariance.from_labels(np.repeat(X, counts, axis=0), np.repeat(y, counts), scale="correlation")
    for one, two in zip(jgl.solve(weighted, 0.1, 0.1).precision, jgl.solve(repeated, 0.1, 0.1).precision, strict=True):
        np.testing.assert_allclose(one.toarray(), two.toarray(), rtol=1e-6, atol=1e-9)


def test_select_follows_the_recent_samples():
    old, new = rng.normal(size=(400, 4)), rng.normal(size=(200, 4))
    new[:, 1] += new[:, 0]
    table = np.vstack([old, new])
    chosen = jgl.select(table, sample_weight=0.97 ** np.arange(600)[::-1], grid=[(0.3, 0.0)])
    assert chosen.solution.n_edges == [1]
    assert jgl.select(table, grid=[(0.3, 0.0)]).solution.n_edges == [0]
    by_class = {"a": table, "b": table[::-1].copy()}
    weights = {"a": 0.97 ** np.arange(600)[::-1], "b": 0.97 ** np.arange(600)}
    assert jgl.select(by_class, sample_weight=weights, grid=[(0.3, 0.1)]).solution.n_edges == [1, 1]


def test_a_subset_has_the_weights_of_its_own_samples():
    """Rows of all samples, weighted together, each contained a part of every other: of those held out as well."""
    samples = with_sample_weights(read_samples(X, y), WEIGHT)
    kept = [np.arange(40) % 3 > 0, np.arange(50) % 3 > 0]
    part = samples.take([np.flatnonzero(mask) for mask in kept])
    for k, (name, mask) in enumerate(zip("ab", kept, strict=True)):
        own, w = X[y == name][mask], WEIGHT[y == name][mask]
        np.testing.assert_allclose(part.matrices[k].mean(axis=0), np.average(own, axis=0, weights=w), atol=1e-12)
        np.testing.assert_allclose(np.cov(part.matrices[k].T, ddof=0), np.cov(own.T, aweights=w, ddof=0), atol=1e-12)
        assert part.reduced_sizes(part.sizes)[k] == round(w.sum() ** 2 / (w**2).sum())
    weightless = samples.take([np.arange(0, 40, 7)] * 2)  # every seventh row of "a" has no weight
    assert weightless.sizes.tolist() == [0, 6]
    options = {"sample_weight": WEIGHT, "criterion": "cv", "cv": 4, "grid": [(0.3, 0.1)], "random_state": 0}
    assert np.isfinite(jgl.select(X, y, **options).table.select_dtypes("number")).all(axis=None)


@pytest.mark.parametrize(
    ("weight", "options", "message"),
    [
        (WEIGHT[:-1], {}, "89 rows"),
        (-WEIGHT, {}, "class 'a'"),
        (np.where(y == "b", 0.0, WEIGHT), {}, "class 'b'"),
        (WEIGHT, {"association": "nonparanormal"}, "Pearson"),
        (WEIGHT, {"covariates": np.arange(90.0)[:, None]}, "covariates"),
    ],
)
def test_bad_weights_are_refused(weight, options, message):
    with pytest.raises(jgl.InputError, match=message):
        jgl.select(X, y, sample_weight=weight, **options)
