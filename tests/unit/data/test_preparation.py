"""From samples to covariances: ranks, missing values, constant variables, and back to positive semidefinite."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy import stats

import jointglasso as jgl
from jointglasso.data.missing import pairwise_correlation, semidefinite_correlation
from jointglasso.data.prepare import Preparation
from jointglasso.data.ranks import NormalScores, latent_from_spearman, ranks, winsorisation
from jointglasso.data.samples import Samples, rows_by_class


def samples_of(*matrices):
    p = matrices[0].shape[1]
    names = tuple(f"c{k}" for k in range(len(matrices)))
    return Samples([np.asarray(X, dtype=float) for X in matrices], names, tuple(f"x{i}" for i in range(p)))


def whole(source, k):
    return source.tile(k, slice(0, source.n_variables), slice(0, source.n_variables))


@pytest.fixture
def table():
    rng = np.random.default_rng(0)
    return rng.normal(size=(40, 5)) @ rng.normal(size=(5, 5))


# Classes


def test_rows_by_class_are_in_order_of_appearance_and_cover_the_table():
    rows = rows_by_class(5, ["b", "a", "b", "a", "b"])
    assert list(rows) == ["b", "a"]
    assert [list(members) for members in rows.values()] == [[0, 2, 4], [1, 3]]
    assert list(rows_by_class(3, None)) == ["all"]


def test_take_keeps_samples_by_their_position_in_the_class(table):
    samples = Samples.from_labels(table, np.repeat([0, 1], 20))
    part = samples.take([np.array([0, 2]), np.array([5])])
    np.testing.assert_array_equal(part.matrices[0], table[[0, 2]])
    np.testing.assert_array_equal(part.matrices[1], table[[25]])
    assert list(part.sizes) == [2, 1]


# Pearson


@pytest.mark.parametrize("scale", ["correlation", "covariance"])
def test_pearson_is_the_plain_sample_covariance(table, scale):
    prepared = Preparation(scale=scale)(samples_of(table, 2 * table[:10]))
    expected = np.corrcoef(table.T) if scale == "correlation" else np.cov(table.T, bias=True)
    np.testing.assert_allclose(whole(prepared.source, 0), expected, atol=1e-12)
    np.testing.assert_allclose(prepared.location[0], table.mean(axis=0))
    np.testing.assert_allclose(prepared.deviation[1], 2 * table[:10].std(axis=0))


def test_scores_of_the_training_samples_have_the_covariance_of_the_source(table):
    for scale in ("correlation", "covariance"):
        prepared = Preparation(scale=scale)(samples_of(table))
        Z = prepared.scores(0, table)
        np.testing.assert_allclose(Z.T @ Z / len(Z), whole(prepared.source, 0), atol=1e-12)


def test_assume_centered_leaves_the_mean_in(table):
    source = jgl.SampleCovariance([table + 3.0], assume_centered=True)
    np.testing.assert_allclose(whole(source, 0), (table + 3).T @ (table + 3) / 40)
    source = jgl.SampleCovariance([table + 3.0], assume_centered=True, scale="correlation")
    np.testing.assert_allclose(source.diagonal(0), 1.0)


# Ranks


def test_ranks_average_ties_and_skip_missing_values():
    X = np.array([[3.0, 1.0], [1.0, np.nan], [1.0, 2.0]])
    np.testing.assert_array_equal(ranks(X), [[3.0, 1.0], [1.5, np.nan], [1.5, 2.0]])


def test_spearman_is_the_sine_of_scipys(table):
    prepared = Preparation(association="spearman")(samples_of(table))
    expected = 2 * np.sin(np.pi / 6 * stats.spearmanr(table).statistic)
    np.fill_diagonal(expected, 1.0)
    assert prepared.largest_change[0] == 0.0
    np.testing.assert_allclose(whole(prepared.source, 0), expected, atol=1e-12)


def test_the_sine_turns_spearman_into_pearson_for_gaussians():
    rng = np.random.default_rng(1)
    X = rng.multivariate_normal([0, 0], [[1, 0.7], [0.7, 1]], size=40_000)
    R = latent_from_spearman(np.corrcoef(ranks(X).T))
    assert R[0, 1] == pytest.approx(0.7, abs=0.01)


@pytest.mark.parametrize("association", ["spearman", "nonparanormal"])
def test_rank_associations_do_not_see_increasing_functions(table, association):
    transformed = np.column_stack([np.exp(table[:, 0]), table[:, 1] ** 3, *table[:, 2:].T])
    plain = Preparation(association=association)(samples_of(table))
    other = Preparation(association=association)(samples_of(transformed))
    np.testing.assert_allclose(whole(plain.source, 0), whole(other.source, 0), atol=1e-12)


@pytest.mark.parametrize("association", ["spearman", "nonparanormal"])
def test_on_the_covariance_scale_rank_associations_keep_the_variances(table, association):
    prepared = Preparation(association=association, scale="covariance")(samples_of(table))
    R = Preparation(association=association)(samples_of(table))
    np.testing.assert_allclose(prepared.source.diagonal(0), table.var(axis=0))
    deviation = table.std(axis=0)
    np.testing.assert_allclose(
        whole(prepared.source, 0), whole(R.source, 0) * np.outer(deviation, deviation), atol=1e-10
    )


def test_normal_scores_are_standardised_and_winsorised():
    X = np.random.default_rng(0).exponential(size=(200, 3))
    scores = NormalScores(X)
    Z = scores(X)
    np.testing.assert_allclose(Z.mean(axis=0), 0.0, atol=1e-12)
    np.testing.assert_allclose(Z.std(axis=0), 1.0)
    assert stats.kstest(Z[:, 0], "norm").pvalue > 0.5
    far = scores(np.array([[1e9, -1e9, X[:, 2].max()]]))[0]
    assert far[0] == pytest.approx(Z[:, 0].max(), rel=0.2)  # cut where the sample ends
    assert far[1] == pytest.approx(Z[:, 1].min(), rel=0.2)
    assert far[2] == Z[:, 2].max()
    assert 0 < winsorisation(200) < winsorisation(20) < 0.5


def test_scores_of_new_samples_use_the_margins_of_the_training_samples(table):
    prepared = Preparation(association="nonparanormal")(samples_of(table))
    new = table[:7] + 0.01
    np.testing.assert_array_equal(prepared.scores(0, new), NormalScores(table)(new))


# Missing values


def test_pairwise_correlations_equal_the_plain_ones_without_missing_values(table):
    R = pairwise_correlation(table - table.mean(axis=0), "c", ("a",) * 5)
    np.testing.assert_allclose(R, np.corrcoef(table.T), atol=1e-12)


def test_pairwise_covariance_is_the_mean_over_the_samples_that_have_both(table):
    table[3, 0] = table[4, 1] = table[5, 1] = np.nan
    prepared = Preparation(missing="pairwise", scale="covariance")(samples_of(table))
    centred = table - np.nanmean(table, axis=0)
    assert prepared.largest_change[0] == 0.0
    assert prepared.source.entries(0, np.array([0]), np.array([1]))[0] == pytest.approx(
        np.nanmean(centred[:, 0] * centred[:, 1])
    )
    np.testing.assert_allclose(prepared.source.diagonal(0), np.nanvar(table, axis=0))


def test_pairwise_matrices_are_made_semidefinite_and_say_so():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(12, 8)) + rng.normal(size=(12, 1)) * 2
    X[rng.random(X.shape) < 0.35] = np.nan
    prepared = Preparation(missing="pairwise")(samples_of(X))
    R = whole(prepared.source, 0)
    assert prepared.largest_change[0] > 0.01
    assert np.linalg.eigvalsh(R)[0] > 0
    np.testing.assert_allclose(np.diagonal(R), 1.0)
    assert jgl.solve(prepared.source, 0.1, 0.0).status.converged


def test_a_pair_never_seen_together_is_named():
    X = np.random.default_rng(0).normal(size=(10, 3))
    X[:5, 0] = np.nan
    X[5:, 1] = np.nan
    with pytest.raises(ValueError, match="'x0' and 'x1' are never present together in class 'c0'"):
        Preparation(missing="pairwise")(samples_of(X))


def test_too_few_values_or_complete_samples_are_named(table):
    empty = table.copy()
    empty[:, 2] = np.nan
    with pytest.raises(ValueError, match="Variable 'x2' has 0 values in class 'c0'"):
        Preparation(missing="pairwise")(samples_of(empty))
    holes = table.copy()
    holes[1:, 0] = np.nan
    with pytest.raises(ValueError, match="Class 'c0' has 1 complete sample of 40"):
        Preparation(missing="complete")(samples_of(holes))


def test_infinite_values_are_never_accepted(table):
    table[3, 2] = np.inf
    for missing in ("refuse", "complete", "pairwise"):
        with pytest.raises(ValueError, match=r"1 infinite value \(inf\), the first in variable 'x2' of class 'c0'"):
            Preparation(missing=missing)(samples_of(table))


# Constant variables


@pytest.mark.parametrize("association", ["pearson", "spearman", "nonparanormal"])
@pytest.mark.parametrize("scale", ["correlation", "covariance"])
def test_isolated_variables_have_the_stated_variance_and_no_covariance(table, association, scale):
    flat = table.copy()
    flat[:, 1] = 0.1
    options = {"association": association, "scale": scale}
    prepared = Preparation(constant="isolate", **options)(samples_of(table, flat[:20]))
    S = whole(prepared.source, 1)
    stated = 1.0 if scale == "correlation" else table[:, 1].var()
    np.testing.assert_allclose(S[1], np.where(np.arange(5) == 1, stated, 0.0), atol=1e-12)
    np.testing.assert_allclose(prepared.source.block(1, np.arange(5)), S, atol=1e-12)
    np.testing.assert_allclose(prepared.source.diagonal(1), np.diagonal(S))
    with pytest.raises(ValueError, match=r"constant in class 'c1' \('x1'\)"):
        Preparation(**options)(samples_of(table, flat))


def test_a_variable_constant_in_all_classes_has_variance_one(table):
    table[:, 0] = 5.0
    prepared = Preparation(constant="isolate", scale="covariance")(samples_of(table, table))
    assert prepared.source.diagonal(0)[0] == 1.0


def test_resamples_may_hold_constant_variables(table):
    table[1:, 0] = 0.0
    preparation = Preparation()
    preparation(samples_of(table))
    prepared = preparation.for_resamples()(samples_of(table[1:]))
    assert prepared.source.diagonal(0)[0] == 1.0


# Projection and rescaling


@settings(max_examples=40)
@given(st.integers(2, 7), st.integers(0, 10_000))
def test_projection_gives_correlations_and_keeps_those_that_are(p, seed):
    rng = np.random.default_rng(seed)
    R = np.clip(rng.uniform(-1.2, 1.2, (p, p)), -1, 1)
    R = np.triu(R, 1) + np.triu(R, 1).T + np.eye(p)
    projected, change = semidefinite_correlation(R)
    assert np.linalg.eigvalsh(projected)[0] > -1e-6 * p
    np.testing.assert_allclose(np.diagonal(projected), 1.0)
    assert np.abs(projected - R).max() == pytest.approx(change)
    again, none = semidefinite_correlation(projected)
    assert none == 0.0
    np.testing.assert_array_equal(again, projected)


# Once for all


@pytest.fixture
def computed(monkeypatch):
    """The samples of every computation of covariances, in their order."""
    seen = []
    compute = Preparation._compute
    monkeypatch.setattr(Preparation, "_compute", lambda self, samples: seen.append(samples) or compute(self, samples))
    return seen


def test_the_same_samples_are_prepared_once(table, computed):
    samples = samples_of(table[:20], table[20:])
    first, second = Preparation()(samples), Preparation()(samples)
    assert len(computed) == 1 and first.source is second.source and second.samples is samples
    Preparation(association="spearman")(samples)
    assert len(computed) == 2


def test_samples_left_after_dropping_incomplete_ones_are_prepared_already(table, computed):
    table = table.copy()
    table[3, 1] = np.nan
    samples = samples_of(table[:20], table[20:])
    first = Preparation(missing="complete")(samples)
    again = Preparation(missing="complete")(first.samples)
    assert len(computed) == 1 and again.source is first.source and list(again.samples.sizes) == [19, 20]


def test_what_was_computed_goes_with_the_samples(table):
    samples = samples_of(table[:20], table[20:])
    source = weakref.ref(Preparation()(samples).source)
    assert source() is not None
    gc.disable()
    try:
        del samples
        assert source() is None, "no circle keeps big arrays alive"
    finally:
        gc.enable()


def test_a_command_prepares_its_samples_once(table, tmp_path, computed):
    from click.testing import CliRunner

    from jointglasso.cli import main

    file = tmp_path / "a.csv"
    lines = [["kind", *"abcd"], *([kind, *map(str, row[:4])] for kind, row in zip("uv" * 20, table, strict=True))]
    file.write_text("\n".join(map(",".join, lines)) + "\n")
    options = ["--label", "kind", "--n-lambdas", "3", "--ratios", "0.3", "--no-figures", "--stability", "2"]
    done = CliRunner().invoke(main, ["fit", str(file), *options, "--out", str(tmp_path / "out")])
    assert done.exit_code == 0, done.output
    whole = [samples for samples in computed if list(samples.sizes) == [20, 20]]
    assert len(whole) == 2, "once for the networks, and once as normal scores for the tests of differences"


@pytest.mark.filterwarnings("error")
def test_a_held_out_value_whose_loss_overflows_is_named():
    X, y = np.random.default_rng(0).normal(size=(60, 4)), np.repeat(["a", "b"], 30)
    X[3, 1] = 1e150
    with pytest.raises(
        jgl.InputError, match=r"Class 'a' has 1e\+150 in variable '\w+', .* standard deviations"
    ) as said:
        jgl.select(X, y, criterion="cv")
    assert said.value.class_name == "a" and said.value.variable is not None
