"""Choice of the penalty on latent variables: likelihood and degrees of freedom against independent computations."""

import warnings

import numpy as np
import pytest
from scipy.optimize import minimize

import jointglasso as jgl
from jointglasso.selection.evaluation import Information
from jointglasso.selection.likelihood import _fit, degrees_of_freedom, low_rank_deviances

P = 12
NETWORK = np.eye(P) + 0.4 * (np.eye(P, k=1) + np.eye(P, k=-1))


def samples(seed, n=400, factor=1.0):
    rng = np.random.default_rng(seed)
    return {
        name: rng.multivariate_normal(np.zeros(P), np.linalg.inv(NETWORK), size=n) + factor * rng.normal(size=(n, 1))
        for name in ("calm", "stress")
    }


@pytest.mark.parametrize("r", [1, 2])
def test_the_fit_reaches_the_maximum_likelihood(r):
    """Against BFGS with numerical derivatives, from the same start."""
    rng = np.random.default_rng(r)
    A, F = NETWORK * 1.5, 0.15 * rng.normal(size=(P, r))
    S = np.cov(rng.multivariate_normal(np.zeros(P), np.linalg.inv(A - F @ F.T), size=300), rowvar=False)
    S /= np.sqrt(np.outer(np.diagonal(S), np.diagonal(S)))
    i, j = np.nonzero(np.triu(A))

    def deviance(z):
        own = np.zeros((P, P))
        own[i, j] = own[j, i] = z[: len(i)]
        Theta = own - z[len(i) :].reshape(P, r) @ z[len(i) :].reshape(P, r).T
        sign, logdet = np.linalg.slogdet(Theta)
        return (S * Theta).sum() - logdet if sign > 0 and np.linalg.eigvalsh(Theta)[0] > 0 else 1e6

    best = minimize(deviance, np.concatenate([A[i, j], F.ravel()]), method="BFGS", options={"maxiter": 2000}).fun
    n = 300.0
    assert best - 1e-6 <= _fit(S, A, F, n) <= best + 0.3 / n  # the score is then off by at most 0.3
    scale = np.linspace(0.5, 3.0, P)
    assert _fit(S * np.outer(scale, scale), A / np.outer(scale, scale), F / scale[:, None], n) == pytest.approx(
        _fit(S, A, F, n) + 2.0 * np.log(scale).sum(), abs=1e-3
    )


@pytest.mark.parametrize("r", [0, 1, 2, 3])
def test_degrees_of_freedom_are_the_dimension_of_matrices_of_that_rank(r):
    F = np.random.default_rng(r).normal(size=(P, r))
    columns = []
    for k in range(F.size):
        step = np.zeros(F.size)
        step[k] = 1.0
        D = step.reshape(F.shape)
        columns.append((F @ D.T + D @ F.T).ravel())
    rank = np.linalg.matrix_rank(np.array(columns)) if columns else 0
    assert degrees_of_freedom(P, np.array([float(r)]))[0] == rank


def test_the_score_is_likelihood_edges_and_rank():
    source = jgl.SampleCovariance(samples(0), scale="correlation")
    options = {"penalize_diagonal": False, "weights": "sqrt_sample_size"}
    found = jgl.select(source, criterion="bic", latent=0.6, grid=[(0.1, 0.05)], relaxed=False)
    solution = jgl.solve(source, 0.1, 0.05, latent=0.6, **options)
    ranks = np.array(solution.low_rank.ranks, dtype=float)
    assert ranks.min() > 0
    Theta = [A.toarray() - L for A, L in zip(solution.precision, solution.low_rank.matrices, strict=True)]
    deviance = [(source.block(k, np.arange(P)) * T).sum() - np.linalg.slogdet(T)[1] for k, T in enumerate(Theta)]
    parameters = np.array(solution.n_edges) + degrees_of_freedom(P, ranks)
    assert found.score == pytest.approx(400 * sum(deviance) + np.log(400) * parameters.sum(), rel=1e-6)
    sizes = np.array([400.0, 400.0])
    evaluate = Information(source, "ebic", 0.5, True, None)
    refitted = low_rank_deviances(source, solution, sizes)
    expected = 400 * refitted.sum() + np.log(400) * parameters.sum() + 2 * np.log(P) * sum(solution.n_edges)
    assert evaluate.score_part(source, None, solution) == pytest.approx(expected)
    assert (refitted < deviance).all()


def test_a_common_factor_is_found_and_none_where_there_is_none():
    grid = [(0.1, 0.05), (0.14, 0.07), (0.2, 0.1)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", jgl.SelectionWarning)  # of the short grid
        with_factor, without = (jgl.select(samples(1, factor=factor), latent=[0.4], grid=grid) for factor in (1.0, 0.0))
    assert min(with_factor.solution.low_rank.ranks) > 0 and with_factor.notes[0].startswith("Latent variables: mu")
    chain = np.eye(P, k=1) > 0
    assert min(np.count_nonzero(Theta.toarray()[chain]) for Theta in with_factor.penalized_precision) >= 9
    assert max(with_factor.solution.n_edges) < 40  # of 66; without latent variables nearly every pair is an edge
    assert without.solution.low_rank is None and without.notes[0].startswith("Latent variables: none.")


def test_what_cannot_be_chosen_is_refused():
    X = samples(2, n=20)
    for options, message in (
        ({"latent": "yes"}, "latent"),
        ({"latent": [-1.0]}, "latent"),
        ({"latent": [0.5], "penalty": "auto"}, "given penalty"),
        ({"latent": [0.5], "criterion": "stars"}, "criterion"),
    ):
        with pytest.raises(ValueError, match=message):
            jgl.select(X, **options)


def test_a_given_rank_is_found_by_bisection_and_impossible_ones_are_refused():
    source = jgl.SampleCovariance(samples(0), scale="correlation")
    options = {"penalize_diagonal": False}
    for rank in (1, 2, 3, 4, [1, 1], [1, 2]):
        found = jgl.solve(source, 0.1, 0.05, latent_rank=rank, **options)
        ranks = found.low_rank.ranks
        assert ranks == rank if isinstance(rank, list) else sum(ranks) == rank
        again = jgl.solve(source, 0.1, 0.05, latent=found.low_rank.mu, **options)  # without the warm starts
        assert (
            again.low_rank.ranks == ranks and found.status and again.objective == pytest.approx(found.objective, 1e-5)
        )
    for rank, message in (
        ([2, 1], r"no penalty mu gives .* nearest ranks by class are \[1, 2\]"),
        (21, r"\[10, 10\]"),  # every variable but two is needed for the diagonal of A
        (0, "from 1 on"),
        ([1], "2 whole numbers"),
        ([0, 0], "from 1 on"),
        (1.5, "whole number"),
        ([1, 12], "below 12"),
    ):
        with pytest.raises(ValueError, match=message):
            jgl.solve(source, 0.1, 0.05, latent_rank=rank, **options)
    with pytest.raises(ValueError, match="leave one of them out"):
        jgl.solve(source, 0.1, 0.05, latent_rank=1, latent=0.5)


def test_a_choice_at_a_given_rank_finds_the_network_behind_one_factor():
    found = jgl.select(samples(1), latent_rank=[1, 1])
    assert found.solution.low_rank.ranks == [1, 1]
    assert found.notes[0].startswith("Latent variables: rank [1, 1] at mu = ")
    chain = np.eye(P, k=1) > 0
    assert min(np.count_nonzero(Theta.toarray()[chain]) for Theta in found.penalized_precision) == P - 1
    for factor in found.solution.low_rank.factors:  # all variables have the factor alike
        direction = factor[:, 0] / np.linalg.norm(factor[:, 0])
        assert abs(direction.sum()) / np.sqrt(P) > 0.9
    with pytest.raises(ValueError, match="latent_rank"):
        jgl.select(samples(1), latent_rank=1, criterion="stars")
    with pytest.raises(ValueError, match="leave one of them out"):
        jgl.select(samples(1), latent_rank=1, latent="auto")
