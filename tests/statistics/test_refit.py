"""Maximum likelihood on a support: optimality conditions, closed forms, and estimates that do not exist."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy import optimize, sparse

import jointglasso as jgl
from jointglasso.selection import support_fit
from jointglasso.selection.support_fit import Likelihood, Limits, fit_support


@pytest.fixture(params=["sweeps", "newton"], autouse=True)
def way(request):
    """Sweeps over the columns as far as they go, or Newton's method from the start."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "newton":
            patch.setattr(support_fit, "_SWEEPS", 0)
        yield request.param


def random_support(p, density, rng):
    upper = np.triu(rng.random((p, p)) < density, 1)
    return upper | upper.T | np.eye(p, dtype=bool)


def covariance(n, p, rng):
    return np.cov((rng.normal(size=(n, p)) @ (np.eye(p) + 0.3 * rng.normal(size=(p, p)))).T, bias=True)


@settings(max_examples=40)
@given(st.integers(2, 12), st.floats(0.05, 0.9), st.integers(0, 10_000))
def test_the_inverse_agrees_with_s_on_the_support_and_theta_is_zero_off_it(p, density, seed):
    rng = np.random.default_rng(seed)
    S = [covariance(60, p, rng) for _ in range(2)]
    support = [random_support(p, density, rng) for _ in range(2)]
    found = jgl.refit(S, support)
    assert found.failures == ()
    for k, Theta in enumerate(found.precision):
        dense = Theta.toarray()
        assert np.linalg.eigvalsh(dense)[0] > 0
        assert not dense[~support[k]].any()
        np.testing.assert_array_equal(dense, dense.T)
        W = np.linalg.inv(dense)
        deviation = np.sqrt(np.diagonal(S[k]))
        residual = np.abs(W - S[k]) / np.outer(deviation, deviation)
        assert residual[support[k]].max() <= 2e-8
        assert found.residual[k] <= 1e-8


def test_a_big_sparse_component_is_fitted_by_the_sparse_products():
    """More than 64 variables and a sparse support take another way through the Hessian."""
    rng = np.random.default_rng(0)
    p = 90
    support = np.eye(p, dtype=bool) | np.eye(p, k=1, dtype=bool) | np.eye(p, k=-1, dtype=bool)
    support[0, p - 1] = support[p - 1, 0] = True  # a ring is no tree and not chordal
    S = covariance(300, p, rng)
    Theta = jgl.refit([S], [support]).precision[0].toarray()
    deviation = np.sqrt(np.diagonal(S))
    residual = np.abs(np.linalg.inv(Theta) - S) / np.outer(deviation, deviation)
    assert residual[support].max() <= 2e-8


def test_sweeps_need_no_newton_where_the_maximum_exists(way):
    """Nor where samples are fewer than variables; what they leave is judged like any other point."""
    rng = np.random.default_rng(3)
    S, support = covariance(20, 40, rng), random_support(40, 0.1, rng)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(support_fit, "conjugate_gradients", None)
        if way == "newton":
            with pytest.raises(TypeError):
                jgl.refit([S], [support])
        else:
            assert jgl.refit([S], [support]).residual[0] <= 1e-8


def test_no_other_matrix_on_the_support_has_a_higher_likelihood():
    rng = np.random.default_rng(1)
    S = covariance(30, 5, rng)
    support = random_support(5, 0.6, rng)
    Theta = jgl.refit([S], [support]).precision[0].toarray()
    rows, columns = np.nonzero(np.triu(support))

    def deviance(entries):
        trial = np.zeros((5, 5))
        trial[rows, columns] = trial[columns, rows] = entries
        sign, logdet = np.linalg.slogdet(trial)
        return (S * trial).sum() - logdet if sign > 0 and np.linalg.eigvalsh(trial)[0] > 0 else 1e9

    best = optimize.minimize(deviance, Theta[rows, columns] * 1.01, method="Nelder-Mead", options={"maxiter": 4000})
    assert deviance(Theta[rows, columns]) <= best.fun + 1e-9


def test_a_full_support_gives_the_inverse_and_an_empty_one_the_variances():
    S = covariance(50, 6, np.random.default_rng(2))
    full = jgl.refit([S], [np.ones((6, 6))])
    np.testing.assert_allclose(full.precision[0].toarray(), np.linalg.inv(S), rtol=1e-6, atol=1e-8)
    empty = jgl.refit([S], [np.eye(6)])
    np.testing.assert_allclose(empty.precision[0].toarray(), np.diag(1 / np.diagonal(S)))


def test_trees_have_the_closed_form_that_newton_finds():
    S = covariance(20, 7, np.random.default_rng(3))
    star = np.eye(7, dtype=bool)
    star[0] = star[:, 0] = True
    closed = jgl.refit([S], [star]).precision[0].toarray()
    deviation = np.sqrt(np.diagonal(S))
    R = S / np.outer(deviation, deviation)
    newton = fit_support(Likelihood([R], np.ones(1), [star]), [], Limits(1e-12, 100))
    np.testing.assert_allclose(closed, newton.Theta[0] / np.outer(deviation, deviation), rtol=1e-8, atol=1e-10)


def test_the_refit_of_a_solution_undoes_the_shrinkage():
    rng = np.random.default_rng(4)
    Theta = np.eye(8) + 0.4 * (np.eye(8, k=1) + np.eye(8, k=-1))
    X = rng.normal(size=(4000, 8)) @ np.linalg.cholesky(np.linalg.inv(Theta)).T
    source = jgl.SampleCovariance([X])
    solution = jgl.solve(source, 0.3, 0.0)
    found = jgl.refit(source, solution)
    assert np.abs(found.precision[0].toarray() - Theta).max() < 0.1
    assert np.abs(solution.precision[0].toarray() - Theta).max() > 0.3
    np.testing.assert_array_equal(found.precision[0].toarray() != 0, solution.precision[0].toarray() != 0)


def test_too_few_samples_for_the_support_are_reported_by_class_and_variables():
    """Three samples cannot carry a clique of four variables, but they do carry a tree."""
    rng = np.random.default_rng(5)
    S = [covariance(50, 6, rng), covariance(3, 6, rng)]
    support = np.eye(6, dtype=bool)
    support[:4, :4] = True
    support[4, 5] = support[5, 4] = True
    with pytest.raises(ValueError, match=r"class '2' failed on a component of 4 variables \('x0', 'x1', 'x2', 'x3'\)"):
        jgl.refit(S, [support, support])
    given_matrix = sparse.csc_array(np.where(support, 0.1, 0.0) + np.eye(6))
    kept = jgl.refit(S, [given_matrix, given_matrix], on_failure="keep")
    (failure,) = kept.failures
    assert failure.class_name == "2"
    assert failure.variables == ("x0", "x1", "x2", "x3")
    assert "no maximum" in failure.reason
    np.testing.assert_allclose(kept.precision[1].toarray()[:4, :4], given_matrix.toarray()[:4, :4], rtol=1e-12)
    block = np.linalg.inv(kept.precision[1].toarray()[4:, 4:])
    np.testing.assert_allclose(block, S[1][4:, 4:], rtol=1e-6)


def test_a_ring_needs_more_samples_than_a_tree_but_fewer_than_a_clique():
    """Existence is decided by the data, not by counting: a ring of five may or may not be carried by two samples."""
    rng = np.random.default_rng(0)
    ring = np.eye(5, dtype=bool) | np.eye(5, k=1, dtype=bool) | np.eye(5, k=-1, dtype=bool)
    ring[0, 4] = ring[4, 0] = True
    outcomes = [len(jgl.refit([covariance(3, 5, rng)], [ring], on_failure="keep").failures) for _ in range(60)]
    assert 0 < sum(outcomes) < 60


def test_a_ridge_always_has_an_estimate():
    rng = np.random.default_rng(6)
    S = covariance(3, 6, rng)
    found = jgl.refit([S], [np.ones((6, 6))], ridge=0.1)
    expected = np.linalg.inv(S + 0.1 * np.diag(np.diagonal(S)))
    np.testing.assert_allclose(found.precision[0].toarray(), expected, rtol=1e-5, atol=1e-7)


def test_perfect_correlation_and_zero_variance_are_named():
    x = np.random.default_rng(7).normal(size=20)
    S = np.cov(np.array([x, 2 * x, x**2]), bias=True)
    with pytest.raises(ValueError, match="perfectly correlated"):
        jgl.refit([S], [np.ones((3, 3))])
    with pytest.raises(ValueError, match=r"class '1' .* 'x1' has zero variance"):
        jgl.refit([np.diag([1.0, 0.0])], [np.eye(2)])
    with pytest.raises(ValueError, match="support has 1 matrices"):
        jgl.refit([S, S], [np.eye(3)])
    with pytest.raises(ValueError, match="on_failure='hope'"):
        jgl.refit([S], [np.eye(3)], on_failure="hope")


def test_too_few_iterations_are_told_apart_from_no_maximum():
    S = covariance(50, 6, np.random.default_rng(8))
    with pytest.raises(ValueError, match="raise `max_iter`"):
        jgl.refit([S], [np.ones((6, 6))], tol=1e-15, max_iter=12)
