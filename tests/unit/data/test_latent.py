"""Polychoric and polyserial correlations: against an independent likelihood, a known truth, and through the doors."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from scipy import optimize, stats

import jointglasso as jgl
from jointglasso.cli import main
from jointglasso.data.ordinal import Answers, bivariate, ordinal_variables, polychoric, polyserial
from jointglasso.data.prepare import Preparation
from jointglasso.data.samples import Samples

CUTS = np.array([-1.2, -0.3, 0.4, 1.5])


def cut(Z: np.ndarray, thresholds: np.ndarray = CUTS) -> np.ndarray:
    """Answers 1, 2, ... of a questionnaire."""
    return 1.0 + (Z[..., None] > thresholds).sum(axis=-1)


def chain(p: int, rho: float = 0.45) -> np.ndarray:
    """Correlations of a chain with this partial correlation between neighbours (in the middle)."""
    Theta = np.eye(p) - rho * (np.eye(p, k=1) + np.eye(p, k=-1))
    S = np.linalg.inv(Theta)
    return S / np.sqrt(np.outer(np.diagonal(S), np.diagonal(S)))


def sample(S: np.ndarray, n: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((n, len(S))) @ np.linalg.cholesky(S).T


@pytest.mark.parametrize("r", [-0.97, -0.6, 0.0, 0.3, 0.9, 0.98])
def test_bivariate_probability_is_that_of_scipy(r):
    for a, b in [(0.3, -1.1), (-2.0, 2.0), (1.4, 1.4), (30.0, 0.5)]:
        density, below = (float(x) for x in bivariate(np.array(a), np.array(b), np.array(r)))
        other = stats.multivariate_normal([0, 0], [[1, r], [r, 1]])
        assert below == pytest.approx(other.cdf([min(a, 8.0), b]), abs=1e-7)
        assert density == pytest.approx(other.pdf([a, b]), abs=1e-12)


@pytest.mark.parametrize("r", [-0.8, 0.1, 0.6])
def test_polychoric_has_the_largest_likelihood(r):
    Z = sample(np.array([[1.0, r], [r, 1.0]]), 400, 3)
    a, b = cut(Z[:, 0]), cut(Z[:, 1], np.array([-0.5, 0.8]))
    table = pd.crosstab(a, b).to_numpy()
    ends = [
        np.concatenate([[-9.0], stats.norm.ppf(np.cumsum(table.sum(axis=1 - axis))[:-1] / table.sum()), [9.0]])
        for axis in (0, 1)
    ]

    def loss(rho: float) -> float:
        normal = stats.multivariate_normal([0, 0], [[1, rho], [rho, 1]])
        below = np.array([[normal.cdf([x, y]) for y in ends[1]] for x in ends[0]])
        share = np.diff(np.diff(below, axis=0), axis=1)
        return -float((table * np.log(np.maximum(share, 1e-12))).sum())

    best = optimize.minimize_scalar(loss, bounds=(-0.99, 0.99), method="bounded", options={"xatol": 1e-7}).x
    found = polychoric(Answers(a), [Answers(b)], 5, np.zeros(1))[0]
    assert found == pytest.approx(best, abs=1e-4)


@pytest.mark.parametrize("r", [-0.7, 0.2, 0.85])
def test_polyserial_has_the_largest_likelihood(r):
    Z = sample(np.array([[1.0, r], [r, 1.0]]), 300, 4)
    a, z = cut(Z[:, 0]), Z[:, 1]
    z = (z - z.mean()) / z.std()
    shares = np.cumsum(np.unique(a, return_counts=True)[1]) / len(a)
    ends = np.concatenate([[-np.inf], stats.norm.ppf(shares[:-1]), [np.inf]])
    place = np.unique(a, return_inverse=True)[1]

    def loss(rho: float) -> float:
        rest = stats.norm(rho * z, np.sqrt(1 - rho**2))
        return -float(np.log(rest.cdf(ends[place + 1]) - rest.cdf(ends[place])).sum())

    best = optimize.minimize_scalar(loss, bounds=(-0.99, 0.99), method="bounded", options={"xatol": 1e-9}).x
    assert polyserial(Answers(a), z[:, None], np.zeros(1))[0] == pytest.approx(best, abs=1e-6)


def test_the_truth_is_met_where_correlations_of_codes_are_too_small():
    S = chain(12)
    Z = sample(S, 20_000, 5)
    X = cut(Z)
    X[:, 8:] = np.exp(Z[:, 8:])  # continuous, with any margin
    found = Preparation(association="mixed")(Samples.from_labels(X, None)).source.block(0, np.arange(12))
    true = S[np.triu_indices(12, 1)]
    mixed, codes = (R[np.triu_indices(12, 1)] for R in (found, np.corrcoef(X.T)))
    strong = np.abs(true) > 0.3
    assert np.abs((mixed - true)[strong].mean()) < 0.01
    assert (np.abs(codes - true)[strong]).mean() > 0.05
    assert np.abs(mixed - true).max() < 0.03


def test_two_answers_that_never_disagree_stay_below_one():
    a = np.array([0.0] * 30 + [1.0] * 30)
    assert 0.99 < polychoric(Answers(a), [Answers(a)], 2, np.ones(1))[0] < 0.9987  # half a sample disagrees
    five = np.repeat(np.arange(5.0), 20)
    assert polychoric(Answers(five), [Answers(five)], 5, np.ones(1))[0] == pytest.approx(0.999, abs=1e-6)


def correlations(X: np.ndarray, **options: str) -> np.ndarray:
    source = Preparation(association="mixed", **options)(Samples.from_labels(X, None)).source
    return source.block(0, np.arange(X.shape[1]))


def test_only_the_order_of_the_answers_matters_and_missing_ones_leave_their_pairs():
    X = cut(sample(chain(3), 2000, 6))
    spread = np.select([X == 4, X == 5], [70.0, 900.0], X)
    assert np.allclose(correlations(spread), correlations(X), atol=1e-8)
    assert not np.allclose(correlations(np.where(X == 1, 6.0, X)), correlations(X), atol=0.1)
    hidden = X.copy()
    hidden[:200, 0] = np.nan
    found, rest = correlations(hidden, missing="pairwise"), correlations(X[200:])
    assert found[1, 2] == pytest.approx(correlations(X)[1, 2], abs=1e-8)
    assert found[0, 1] == pytest.approx(rest[0, 1], abs=0.01)


def test_few_whole_numbers_are_ordinal():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.integers(0, 2, 50), rng.integers(1, 12, 50), rng.normal(size=50), rng.integers(1, 6, 50)])
    X[0, 1] = 20.0
    X[3, 3] = np.nan
    samples = Samples.from_labels(X, ["a"] * 25 + ["b"] * 25)
    assert ordinal_variables(samples).tolist() == [True, False, False, True]


@pytest.fixture(scope="module")
def questionnaire() -> tuple[pd.DataFrame, np.ndarray]:
    X = np.vstack([cut(sample(chain(8), 400, seed)) for seed in (1, 2)])
    X[:, 7] = np.vstack([sample(chain(8), 400, seed) for seed in (1, 2)])[:, 7]
    return pd.DataFrame(X, columns=[*(f"item{i}" for i in range(7)), "age"]), np.repeat(["f", "m"], 400)


def test_select_and_the_estimators_take_answers_and_say_so(questionnaire):
    X, y = questionnaire
    chosen = jgl.select(X, y, association="mixed")
    assert "7 of 8 variables are taken as ordinal" in chosen.explain()
    strong = [abs(float(chosen.solution.estimate[0][i, i + 1])) for i in range(7)]
    assert min(strong) > 0.3 and max(chosen.solution.n_edges) <= 9  # all true edges, few others
    model = jgl.JointGraphicalLasso(0.1, 0.05, association="mixed").fit(X, y)
    assert set(model.notes_) <= set(chosen.notes) and (model.deviation_[:, :7] == 1.0).all()
    with pytest.raises(ValueError, match="latent"):
        model.score(X, y)
    with pytest.raises(ValueError, match="jbic"):
        jgl.select(X, y, association="mixed", criterion="cv")
    with pytest.raises(ValueError, match="leave scale out"):
        jgl.select(X, y, association="mixed", scale="covariance")
    with pytest.raises(ValueError, match="pairwise"):
        jgl.select(X.mask(X == 5), y, association="mixed", missing="em")


def test_projection_is_said():
    X = np.repeat(np.array([[0, 0, 1], [0, 1, 0], [1, 0, 0], [1, 1, 1.0]]), [9, 9, 9, 1], axis=0)
    ready = Preparation(association="mixed")(Samples.from_labels(X, None))
    assert ready.largest_change[0] > 0
    assert "negative eigenvalues" in ready.notes[1] and f"{ready.largest_change[0]:.2g}" in ready.notes[1]
    assert np.linalg.eigvalsh(ready.source.block(0, np.arange(3)))[0] > -1e-9


def test_the_command_line_says_which_variables_are_ordinal(questionnaire, tmp_path):
    X, y = questionnaire
    file = tmp_path / "answers.csv"
    X.assign(sex=y).to_csv(file, index=False)
    done = CliRunner().invoke(main, ["select", str(file), "--label", "sex", "--association", "mixed"])
    assert done.exit_code == 0, done.output
    assert "7 of 8 variables are taken as ordinal" in " ".join(done.output.split())
