"""Missing values by expectation and maximisation, and what a class with missing values counts for."""

from __future__ import annotations

import numpy as np
import pytest

import jointglasso as jgl
from jointglasso.data.missing import effective_sizes
from jointglasso.data.prepare import Preparation
from jointglasso.data.samples import Samples
from jointglasso.selection.em import _expected, imputed, prepared


def incomplete(share=0.15, p=15, sizes=(120, 200), seed=0):
    """A chain in every class, and a table of which a share is missing."""
    rng = np.random.default_rng(seed)
    Theta = np.eye(p) + 0.45 * (np.eye(p, k=1) + np.eye(p, k=-1))
    root = np.linalg.cholesky(np.linalg.inv(Theta))
    X = 3.0 + 2.0 * rng.normal(size=(sum(sizes), p)) @ root.T
    y = np.repeat([f"c{k}" for k in range(len(sizes))], sizes)
    whole = X.copy()
    X[rng.random(X.shape) < share] = np.nan
    return X, y, whole, np.linalg.inv(Theta)


def test_expected_moments_are_those_of_the_conditional_distribution():
    """One sample, three variables, the last missing: the regression on the others and its residual variance."""
    Sigma = np.array([[1.0, 0.5, 0.3], [0.5, 2.0, 0.4], [0.3, 0.4, 1.5]])
    mean = np.array([0.1, -0.2, 0.3])
    x = np.array([[1.0, 2.0, np.nan]])
    slope = Sigma[2, :2] @ np.linalg.inv(Sigma[:2, :2])
    found, S = _expected(x, mean, np.linalg.inv(Sigma))
    assert found[2] == pytest.approx(mean[2] + slope @ (x[0, :2] - mean[:2]))
    assert S[2, 2] == pytest.approx(Sigma[2, 2] - slope @ Sigma[:2, 2])
    assert S[0, 0] == S[0, 1] == 0.0


def test_complete_samples_are_left_as_they_are():
    _, y, whole, _ = incomplete()
    by_em, plain = (jgl.select(whole, y, missing=missing, grid=[(0.2, 0.1)]) for missing in ("em", "refuse"))
    assert by_em.score == plain.score


def test_correlations_come_nearer_to_the_truth_than_pair_by_pair():
    errors = {"em": 0.0, "pairwise": 0.0}
    for seed in range(2):
        X, y, _, Sigma = incomplete(0.3, seed=seed)
        deviation = np.sqrt(np.diagonal(Sigma))
        truth = Sigma / np.outer(deviation, deviation)
        samples = Samples.from_labels(X, y)
        for missing in errors:
            source = prepared(Preparation(missing=missing), samples).source
            for k in range(2):
                R = source.block(k, np.arange(15))
                assert np.linalg.eigvalsh(R)[0] > 0
                np.testing.assert_allclose(np.diagonal(R), 1.0)
                errors[missing] += np.linalg.norm(R - truth)
    assert errors["em"] < 0.95 * errors["pairwise"]


def test_the_graph_is_found_although_no_sample_is_complete():
    X, y, whole, Sigma = incomplete(0.2)
    assert np.isnan(X).any(axis=1).mean() > 0.9
    model = jgl.JointGraphicalLassoCV(criterion="jbic", missing="em").fit(X, y)
    chain = np.abs(np.linalg.inv(Sigma)) > 1e-9
    for Theta in model.precision_:
        found = Theta.toarray() != 0
        assert (found & chain).sum() >= 0.95 * chain.sum()
        assert (found & ~chain).sum() <= 6
    np.testing.assert_allclose(model.location_[1], whole[y == "c1"].mean(axis=0), atol=0.5)


def test_a_class_counts_for_the_samples_that_pairs_have():
    X, y, _, _ = incomplete(0.2)
    sizes = effective_sizes(Samples.from_labels(X, y))
    np.testing.assert_allclose(sizes, [0.64 * 120, 0.64 * 200], rtol=0.1)
    for missing in ("pairwise", "em"):
        source = prepared(Preparation(missing=missing), Samples.from_labels(X, y)).source
        assert list(source.sample_sizes) == list(sizes)


def test_no_more_false_edges_with_missing_values_than_without():
    """Criteria that took all samples for granted would find several times as many."""
    false = 0.0
    for seed in range(3):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(160, 25))
        X[rng.random(X.shape) < 0.2] = np.nan
        found = jgl.select(X, np.repeat(["a", "b"], 80), missing="em")
        false += sum(found.solution.n_edges) / 6
    assert false <= 3.0


def test_what_em_cannot_do_is_said():
    X, y, _, _ = incomplete()
    with pytest.raises(ValueError, match="association='nonparanormal'"):
        jgl.select(X, y, missing="em", association="spearman")
    with pytest.raises(ValueError, match="needs the solver"):
        Preparation(missing="em")(Samples.from_labels(X, y))


# Inference


def test_draws_of_missing_values_have_their_conditional_moments():
    X, y, _, Sigma = incomplete(0.2)
    samples = Samples.from_labels(X, y)
    drawn = imputed(Preparation(association="pearson", missing="em"), samples, 20)
    deviation = np.sqrt(np.diagonal(Sigma))
    for Z, given in zip(drawn, samples.matrices, strict=True):
        assert Z.shape == (20 * len(given), 15)
        there = np.repeat(~np.isnan(given), 20, axis=0)
        assert not np.ptp(Z.reshape(len(given), 20, 15)[~np.isnan(given[:, 0]), :, 0], axis=1).any()
        assert np.abs(np.corrcoef(Z.T) - Sigma / np.outer(deviation, deviation)).max() < 0.35
        assert 0.8 < Z[~there].var() < 1.2  # with conditional means alone it would be well below


def test_inference_pays_for_what_is_missing():
    """A share of 0.15: as many wrong rejections as without, wider intervals, and names to the values."""
    rejected, covered, wider = [], [], []
    for seed in range(3):
        X, y, whole, Sigma = incomplete(0.15, p=12, seed=seed)
        Theta = np.linalg.inv(Sigma)
        rho = (-Theta / np.sqrt(np.outer(np.diagonal(Theta), np.diagonal(Theta))))[np.triu_indices(12, 1)]
        found, full = jgl.infer(X, y, missing="em"), jgl.infer(whole, y)
        _, low, high = found.intervals()
        rejected.append((found.p_values[np.abs(rho) < 1e-9] <= 0.05).mean())
        covered.append(((low <= rho[:, None]) & (rho[:, None] <= high)).mean())
        wider.append(found.estimates.error.mean() / full.estimates.error.mean())
    assert 0.03 < np.mean(rejected) < 0.075
    assert 0.92 < np.mean(covered) < 0.975
    assert 1.1 < np.mean(wider) < 1.5  # 0.85 is the root of the share of samples that have both values
    assert any("missing at random" in note for note in found.notes)


@pytest.mark.filterwarnings("ignore::jointglasso.data.windows.DependentSamplesWarning")  # age has the order of rows
@pytest.mark.filterwarnings("ignore::jointglasso.InferenceWarning")
def test_a_pair_that_is_hardly_ever_seen_has_a_wide_interval():
    X, y, _, _ = incomplete(0.0, p=6, sizes=(200,))
    X[30:, 0] = np.nan
    found = jgl.infer(X, y, missing="em")
    seen = (found.estimates.rows > 0) & (found.estimates.columns == 4)
    unseen = (found.estimates.rows == 0) & (found.estimates.columns == 4)
    assert found.estimates.error[unseen].min() > 2.0 * found.estimates.error[seen].max()
    age = np.arange(200.0)
    assert jgl.infer(X + age[:, None], y, missing="em", covariates=age).sizes == [199]


def test_inference_says_what_em_cannot_do():
    X, y, _, _ = incomplete(0.1, p=5, sizes=(40, 40))
    with pytest.raises(ValueError, match="leave it out"):
        jgl.infer(X, y, missing="em", keep=0.1)
    with pytest.raises(ValueError, match="does not go with permutations"):
        jgl.network_test(X, y, missing="em")
    X[5:40, 0] = np.nan
    with pytest.raises(ValueError, match="both values of some pair"):
        jgl.infer(X, y, missing="em")
