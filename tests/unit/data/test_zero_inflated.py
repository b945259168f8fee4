"""Correlations of data with many zeros: against normal probabilities, against a known truth, and through the doors."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from numpy.polynomial import legendre
from scipy import stats

import jointglasso as jgl
from jointglasso.cli import main
from jointglasso.data.ordinal import INFINITY, LARGEST, Answers
from jointglasso.data.prepare import Preparation
from jointglasso.data.samples import Samples
from jointglasso.data.zero_inflated import (
    Margins,
    bridge,
    information_lost,
    kendall,
    latent_from_kendall,
    zero_inflated_correlation,
)

H = np.sqrt(0.5)


def tau_of(r: float, threshold: float, others: Margins) -> float:
    """F(r) of the only variable of `others`."""
    return float(legendre.legval(np.arcsin(r) / np.arcsin(LARGEST), bridge(threshold, others)[1])[0])


def below(x: list[float], S: list[list[float]]) -> float:
    options = {"maxpts": 200_000, "abseps": 1e-6, "releps": 1e-6}
    return float(stats.multivariate_normal.cdf(x, np.zeros(len(x)), S, allow_singular=True, **options))


def with_continuous(r: float, a: float) -> float:
    """Yoon, Carroll and Gaynanova (2020), theorem 3: a truncated and a continuous variable."""
    three = [[1, H, r * H], [H, 1, r], [r * H, r, 1]]
    return -2 * below([-a, 0], [[1, H], [H, 1]]) + 4 * below([-a, 0, 0], three)


def with_truncated(r: float, a: float, b: float) -> float:
    """The same for two truncated variables."""
    apart = [[1, 0, H, -r * H], [0, 1, -r * H, H], [H, -r * H, 1, -r], [-r * H, H, -r, 1]]
    together = [[1, r, H, r * H], [r, 1, r * H, H], [H, r * H, 1, r], [r * H, H, r, 1]]
    return 2 * below([-a, -b, 0, 0], together) - 2 * below([-a, -b, 0, 0], apart)


def with_binary(r: float, a: float, b: float) -> float:
    """The same for a truncated and a binary variable."""
    one, two = [[1, -r, H], [-r, 1, -r * H], [H, -r * H, 1]], [[1, 0, -H], [0, 1, -r * H], [-H, -r * H, 1]]
    return 2 * stats.norm.sf(a) * stats.norm.cdf(b) - 2 * below([-a, b, 0], one) - 2 * below([-a, b, 0], two)


@pytest.mark.parametrize("r", [-0.9, -0.3, 0.4, 0.9])
def test_the_bridge_is_that_of_normal_probabilities_of_two_to_four_variables(r):
    for a, b in [(-0.5, 0.3), (0.25, 0.25), (1.3, -0.2)]:
        truncated, complete = (Margins.truncated(np.array([x])) for x in (b, -INFINITY))
        assert tau_of(r, a, truncated) == pytest.approx(with_truncated(r, a, b), abs=5e-5)
        assert tau_of(r, a, complete) == pytest.approx(with_continuous(r, a), abs=5e-5)
        binary = Margins.ordinal([Answers((stats.norm.ppf((np.arange(5000) + 0.5) / 5000) > b).astype(float))])
        assert tau_of(r, a, binary) == pytest.approx(with_binary(r, a, b), abs=3e-4)  # shares in units of 1/5000
    assert tau_of(r, -INFINITY, Margins.truncated(np.array([-INFINITY]))) == pytest.approx(2 / np.pi * np.arcsin(r))


def pair(r: float, n: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((n, 2)) @ np.linalg.cholesky([[1.0, r], [r, 1.0]]).T


def test_the_bridge_with_ordinal_variables_is_the_mean_of_simulated_taus():
    Z = pair(0.6, 400_000, 0)
    answers = 1.0 + (Z[:, 1, None] > np.array([-0.8, 0.1, 1.1])).sum(axis=1)
    values = np.maximum(Z[:, 0] - 0.4, 0.0)
    signs = [np.sign(x[::2] - x[1::2]) for x in (values, answers)]
    error = 1.0 / np.sqrt(len(signs[0]))
    assert tau_of(0.6, 0.4, Margins.ordinal([Answers(answers)])) == pytest.approx(
        np.mean(signs[0] * signs[1]), abs=3 * error
    )


def test_correlations_are_the_roots_of_the_bridge():
    a, others = 0.3, Margins.truncated(np.array([-1.0, 0.3, 1.2, -INFINITY]))
    r = np.array([-0.7, 0.95, 0.2, -0.4])
    tau = np.array([tau_of(x, a, others.take(slice(j, j + 1))) for j, x in enumerate(r)])
    assert np.allclose(latent_from_kendall(tau, a, others), r, atol=1e-6)
    assert np.abs(latent_from_kendall(np.array([1.0, -1.0, 1.0, -1.0]), a, others)) == pytest.approx(LARGEST, abs=1e-3)


def test_kendall_counts_ties_as_zero_and_pairs_that_are_observed():
    rng = np.random.default_rng(2)
    X = rng.integers(0, 4, (30, 3)).astype(float)
    X[:5, 1] = np.nan
    found = kendall(X, np.array([1]))
    for j in range(3):
        x, y = X[5:, 1], X[5:, j]
        signs = np.sign(x[:, None] - x) * np.sign(y[:, None] - y)
        assert found[0, j] == pytest.approx(signs.sum() / (25 * 24), abs=1e-12)


def chain(p: int) -> np.ndarray:
    S = np.linalg.inv(np.eye(p) - 0.45 * (np.eye(p, k=1) + np.eye(p, k=-1)))
    return S / np.sqrt(np.outer(np.diagonal(S), np.diagonal(S)))


def counts(n: int, seed: int) -> np.ndarray:
    """Six variables with 30 to 80 % zeros, two skewed ones without, two of questionnaires, in a chain."""
    Z = np.random.default_rng(seed).standard_normal((n, 10)) @ np.linalg.cholesky(chain(10)).T
    X = np.expm1(np.maximum(Z - np.linspace(-0.5, 0.8, 10), 0.0))
    X[:, 6:8] = np.exp(Z[:, 6:8])
    X[:, 8:] = 1.0 + (Z[:, 8:, None] > np.array([-0.8, 0.0, 0.9])).sum(axis=-1)
    return X


def correlations(X: np.ndarray, **options: str) -> np.ndarray:
    source = Preparation(association="zero_inflated", **options)(Samples.from_labels(X, None)).source
    return source.block(0, np.arange(X.shape[1]))


def test_the_truth_is_met_where_other_correlations_are_too_small():
    X, strong = counts(3000, 5), np.triu(chain(10) > 0.3, 1)
    R = correlations(X)
    assert np.abs(R - chain(10)).max() < 0.08 and abs((R - chain(10))[strong].mean()) < 0.01
    assert (np.corrcoef(X.T) - chain(10))[strong].mean() < -0.1
    assert (Preparation(association="mixed")(Samples.from_labels(X, None)).source.block(0, np.arange(10)) - chain(10))[
        strong
    ].mean() < -0.02


def test_only_ranks_matter_and_missing_values_leave_their_pairs():
    X = counts(400, 6)
    stretched = X.copy()
    stretched[:, :8] = 7.0 * X[:, :8] ** 3
    assert np.allclose(correlations(stretched), correlations(X), atol=1e-8)
    holes = X.copy()
    holes[:100, 0] = np.nan
    found, rest = correlations(holes, missing="pairwise"), correlations(X[100:])
    assert found[1, 2] == pytest.approx(correlations(X)[1, 2], abs=1e-6)
    assert found[0, 1] == pytest.approx(rest[0, 1], abs=0.03)  # zeros of 1 from all samples


def test_effective_sizes_are_those_of_simulated_variances():
    rng, found = np.random.default_rng(3), []
    for _ in range(300):
        X = np.maximum(rng.standard_normal((150, 3)) - np.array([0.25, 0.25, -30.0]), 0.0)
        found.append(zero_inflated_correlation(X, np.eye(3), np.array([True, True, False]), np.zeros(3, dtype=bool)))
    lost = 150 * np.var(found, axis=0)
    both = information_lost(X[:, :2], np.array([True, True]))
    one = information_lost(X[:, 1:], np.array([True, False]))
    assert lost[0, 1] == pytest.approx(both, rel=0.25) and lost[0, 2] == pytest.approx(one, rel=0.25)
    prepared = Preparation(association="zero_inflated")(Samples.from_labels(X[:, :2], None))
    assert prepared.source.sample_sizes[0] == round(150 / both) < 100


def test_variables_that_are_never_positive_together_have_a_finite_correlation():
    X = np.zeros((40, 2))
    X[:8, 0], X[8:16, 1] = np.arange(1.0, 9.0), np.arange(1.0, 9.0)
    R = zero_inflated_correlation(X, np.eye(2), np.ones(2, dtype=bool), np.zeros(2, dtype=bool))
    assert -0.95 < R[0, 1] < -0.3


@pytest.fixture(scope="module")
def cells() -> tuple[pd.DataFrame, np.ndarray]:
    X = np.vstack([counts(300, seed) for seed in (1, 2)])
    return pd.DataFrame(X, columns=[f"g{i}" for i in range(10)]), np.repeat(["ill", "well"], 300)


def test_select_the_estimators_and_the_tests_take_it_and_say_so(cells):
    X, y = cells
    chosen = jgl.select(X, y, association="zero_inflated")
    assert "6 of 10 variables are taken as zero-inflated" in chosen.explain()
    assert "2 of 10 variables are taken as ordinal" in chosen.explain()
    assert all(float(chosen.solution.estimate[0][i, i + 1]) < -0.2 for i in range(9))
    model = jgl.JointGraphicalLasso(0.1, 0.05, association="zero_inflated").fit(X, y)
    assert any("zero-inflated" in note for note in model.notes_)
    tested = jgl.infer(X, y, association="zero_inflated")
    assert len(tested.edges(fdr=0.1)) >= 16 and "zero-inflated" in tested.method()
    for refused, options in (
        ("likelihood", {"criterion": "cv"}),
        ("leave scale out", {"scale": "covariance"}),
        ("zeros have no residuals", {"covariates": np.arange(600.0)}),
    ):
        with pytest.raises(jgl.InputError, match=refused):
            jgl.select(X, y, association="zero_inflated", **options)
    with pytest.raises(jgl.InputError, match="samples have no score"):
        model.score(X, y)


def test_annotated_data_take_it_and_sources_of_values_say_who_does(cells):
    X, y = cells
    adata = pytest.importorskip("anndata").AnnData(X.to_numpy())
    adata.obs["condition"] = y
    given = jgl.anndata.fit(adata, lambda1=0.2, lambda2=0.1, association="zero_inflated")
    source = Preparation(association="zero_inflated")(Samples.from_labels(X.to_numpy(), y)).source
    expected = jgl.solve(source, 0.2, 0.1, weights="sqrt_sample_size")
    assert np.allclose(given.precision[1].toarray(), expected.precision[1].toarray(), atol=1e-5)
    assert adata.uns["jgl"]["params"]["association"] == "zero_inflated"
    with pytest.raises(TypeError, match="`select`, the estimators"):
        jgl.SampleCovariance.from_labels(X, y, association="zero_inflated")


def test_permutations_between_classes_keep_zeros_together(cells):
    X, y = cells
    some = X[["g0", "g1", "g2", "g3", "g6"]]
    result = jgl.network_test(some, y, association="zero_inflated", n_permutations=19, random_state=0)
    assert result.p_values["maximum"] > 0.05


def test_the_command_line_has_it(cells, tmp_path):
    X, y = cells
    X.assign(state=y).to_csv(tmp_path / "cells.csv", index=False)
    call = ["select", str(tmp_path / "cells.csv"), "--label", "state", "--association", "zero_inflated"]
    done = CliRunner().invoke(main, call)
    assert done.exit_code == 0, done.output
    assert "6 of 10 variables are taken as zero-inflated" in " ".join(done.output.split())
