"""Units do not matter: data, penalties and weights in any of them give the same answer or one clear sentence."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import jointglasso as jgl
from bank import from_samples
from jointglasso.engine.minimum import is_unbounded
from jointglasso.engine.options import SOLVERS

S = from_samples(2, 6, 30, seed=4, common=1.0)
BASE = jgl.solve(S, 0.2, 0.1, tol=1e-10)


@pytest.mark.parametrize("factor", [1e160, 1e-162, 1e-155, 1e70, 1e-70])
def test_data_out_of_all_range_are_refused(factor):
    with pytest.raises(ValueError, match=r"out of the range from 1e-60 to 1e\+60: rescale|above 1e\+75: rescale"):
        jgl.solve(factor * S, 0.2 * factor, 0.1 * factor)
    with pytest.raises(ValueError, match=r"variable 'x0' in class '1' is .* out of the range"):
        jgl.screen(factor * S, 0.2, 0.1)


@pytest.mark.parametrize("exponent", [-190, -60, 60, 190])
def test_data_within_the_range_give_the_same_answer(exponent):
    factor = 2.0**exponent
    solution = jgl.solve(factor * S, 0.2 * factor, 0.1 * factor, tol=1e-11)
    assert solution.status.converged and solution.n_edges == BASE.n_edges
    for Theta, expected in zip(solution.precision, BASE.precision, strict=True):
        np.testing.assert_allclose(factor * Theta.toarray(), expected.toarray(), atol=1e-4)
    counts = solution.certificate
    assert (counts.edges_present, counts.edges_absent) == (
        BASE.certificate.edges_present,
        BASE.certificate.edges_absent,
    )


@pytest.mark.parametrize("solver", list(SOLVERS))
@pytest.mark.parametrize("factor", [1e-12, 1e-6, 1e6])
def test_weights_and_penalties_in_other_units_are_the_same_problem(solver, factor):
    base = jgl.solve(S, 0.2, 0.1, solver=solver, weights=[1.0, 2.0])
    scaled = jgl.solve(S, 0.2 * factor, 0.1 * factor, solver=solver, weights=[factor, 2.0 * factor])
    assert scaled.status.converged
    assert scaled.certificate.relative_gap == pytest.approx(base.certificate.relative_gap, rel=1e-3)
    for Theta, expected in zip(scaled.precision, base.precision, strict=True):
        np.testing.assert_allclose(Theta.toarray(), expected.toarray(), atol=1e-5)


@pytest.mark.parametrize("weight", [1e-20, 1e20])
def test_weights_out_of_all_range_are_refused(weight):
    with pytest.raises(ValueError, match=r"weight of class '1' is .* out of the range 1e-15 to 1e\+15"):
        jgl.solve(S, 0.2, 0.1, weights=[weight, 1.0])


@pytest.mark.parametrize("penalties", [(1e-200, 1e-200), (0.2, 1e-200), (1e-300, 0.1)])
def test_a_penalty_next_to_nothing_is_none(penalties):
    solution = jgl.solve(S, *penalties, penalize_diagonal=False)
    expected = jgl.solve(S, *(0.0 if value < 1e-100 else value for value in penalties), penalize_diagonal=False)
    assert solution.objective == pytest.approx(expected.objective, rel=1e-5)


@pytest.mark.parametrize("solver", list(SOLVERS))
@pytest.mark.parametrize(("value", "penalty"), [(1e10, 1e-4), (1.0, 1e-13), (1e-10, 1e-24), (3.7e20, 1e6)])
def test_perfectly_correlated_variables_end_without_an_error(solver, value, penalty):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", jgl.ConvergenceWarning)
        solution = jgl.solve(np.full((1, 2, 2), value), penalty, 0.0, solver=solver, max_iter=200)
    assert not np.isnan(solution.certificate.gap)
    assert not solution.status.converged or solution.certificate.relative_gap <= 1e-6


def test_units_of_variables_do_not_make_a_matrix_singular():
    R = np.array([[1, 0.3, 0.2], [0.3, 1, 0.1], [0.2, 0.1, 1]])
    units = 10.0 ** np.array([4, 0, -4])
    solution = jgl.solve([R * units * units[:, None]], 0.0, 0.0, tol=1e-10)
    assert solution.status.converged
    np.testing.assert_allclose(solution.precision[0].toarray() * units * units[:, None], np.linalg.inv(R), rtol=1e-3)


def test_a_singular_matrix_is_refused_in_any_units():
    X = np.random.default_rng(0).standard_normal((3, 5))
    units = 10.0 ** np.array([4.0, 0, -4, 2, -2])
    with pytest.raises(ValueError, match="singular where nothing is penalised"):
        jgl.solve([np.cov((X * units).T)], 0.0, 0.0)


@pytest.mark.parametrize(("penalty", "fuse_diagonal"), [("fused", True), ("chain", False), ("laplacian", False)])
def test_a_null_vector_of_all_classes_is_named_where_only_differences_are_penalised(penalty, fuse_diagonal):
    rng = np.random.default_rng(0)
    few, enough = ([np.cov(rng.normal(size=(n, 5)).T, bias=True) for _ in range(3)] for n in (2, 3))
    options = {"penalty": penalty} | ({"fuse_diagonal": True} if fuse_diagonal else {})
    for screening in ("dynamic", "none"):
        with pytest.raises(
            jgl.InputError, match="rank 3 together, so the objective has no minimum: set lambda1"
        ) as said:
            jgl.solve(few, 0.0, 0.3, screening=screening, **options)
        assert said.value.parameter == "lambda1"
    # Each class is singular here as well, but not along one direction: a minimum exists and is reached.
    assert jgl.solve(enough, 0.0, 0.3, **options).status


@pytest.mark.filterwarnings("error")
def test_two_variables_that_are_proportional_in_every_class_have_no_minimum_without_lambda1():
    """The factors differ, so that no null vector is common; compared diagonals make the minimum exist."""
    S = [np.outer(x, x) for x in ([1.0, 1.0], [1.0, 2.0])]
    with pytest.raises(jgl.InputError, match="singular in directions that share them, so the objective has no minimum"):
        jgl.solve(S, 0.0, 0.3, penalty="fused")
    assert jgl.solve(S, 0.0, 0.3, penalty="fused", fuse_diagonal=True).status


def directions_that_differ_on_the_diagonal_only(seed):
    """Two semidefinite matrices (4, 4) of rank two with equal entries off the diagonal, and different null spaces."""
    rng = np.random.default_rng(seed)
    V, above = rng.standard_normal((4, 2)), np.triu_indices(4, 1)
    target = (V @ V.T)[above]
    turned = V + 0.5 * rng.standard_normal((4, 2))
    for _ in range(100):  # Gauss-Newton: eight unknowns, six equations
        residual = (turned @ turned.T)[above] - target
        slope = np.zeros((6, 4, 2))
        for e, (i, j) in enumerate(zip(*above, strict=True)):
            slope[e, i], slope[e, j] = turned[j], turned[i]
        turned = turned - (np.linalg.pinv(slope.reshape(6, 8)) @ residual).reshape(4, 2)
    return V @ V.T, turned @ turned.T


@pytest.mark.parametrize("seed", [0, 1, 3])
@pytest.mark.parametrize("screening", ["dynamic", "none"])
def test_directions_over_four_variables_without_a_common_null_vector_have_no_minimum(seed, screening):
    directions = directions_that_differ_on_the_diagonal_only(seed)
    assert np.allclose(*(D - np.diag(np.diag(D)) for D in directions), atol=1e-12)
    S = [np.eye(4) - D @ np.linalg.pinv(D, rcond=1e-9) for D in directions]
    assert np.linalg.matrix_rank(sum(S)) == 4
    S = [0.5 * (matrix + matrix.T) for matrix in S]
    with pytest.raises(jgl.InputError, match="singular in directions that share them"):
        jgl.solve(S, 0.0, 0.3, penalty="fused", screening=screening)
    graph = [(0, 1)]  # of which the third class is no part
    with pytest.raises(jgl.InputError, match="singular in directions that share them"):
        jgl.solve([*S, np.eye(4)], 0.0, 0.3, penalty="graph", class_graph=graph, screening=screening)
    # Compared diagonals, a forbidden pair and a class of full rank each end the decrease.
    off_diagonal, nothing = ~np.eye(4, dtype=bool), np.zeros((4, 4), dtype=bool)
    forbidden = nothing.copy()
    forbidden[0, 1] = forbidden[1, 0] = True
    assert is_unbounded(np.stack(S), off_diagonal, nothing) is True
    assert is_unbounded(np.stack(S), np.ones((4, 4), dtype=bool), nothing) is False
    assert is_unbounded(np.stack(S), off_diagonal & ~forbidden, forbidden) is False
    assert is_unbounded(np.stack([*S, np.eye(4)]), off_diagonal, nothing) is False


def problem_of_weights(a: int, b: int):
    """Covariances, penalties of the size of a middle class weight, and class weights from 1e-6 to 1e5."""
    rng = np.random.default_rng([a, b])
    n_classes, p = int(rng.integers(2, 5)), int(rng.integers(3, 9))
    n = int(rng.integers(p + 1, 4 * p))
    X = rng.standard_normal((n_classes, n, p)) + rng.uniform(0, 1.5) * rng.standard_normal((n_classes, n, 1))
    weights = 10.0 ** rng.uniform(-6, 5, n_classes)
    scale = np.exp(np.log(weights).mean()) if rng.random() < 0.5 else np.median(weights)
    lambdas = scale * 10 ** rng.uniform(-2, 0), scale * 10 ** rng.uniform(-2, 1)
    return np.einsum("kni,knj->kij", X, X) / n, np.array(lambdas), weights


def test_weights_that_spread_over_decades():
    """One step parameter of ADMM for all classes ended at a gap of 6e-2."""
    S, lambdas, weights = problem_of_weights(32, 9)
    assert jgl.solve(S, *lambdas, penalty="laplacian", weights=weights).status


@pytest.mark.parametrize(
    ("penalty", "design", "large"),
    [
        ("laplacian", (24, 1), False), ("laplacian", (34, 1), False), ("laplacian", (68, 2), False),
        ("laplacian", (6, 2), True), ("laplacian", (43, 1), True), ("laplacian", (72, 1), True),
        ("fused", (28, 1), True), ("fused", (39, 1), True), ("chain", (39, 1), True), ("chain", (58, 1), True),
    ],
)  # fmt: skip
def test_penalties_far_above_the_smallest_weight(penalty, design, large):
    """ADMM and Newton's method from the diagonal start ended at relative gaps from 2e-5 to 0.8."""
    S, lambdas, weights = problem_of_weights(*design)
    lambdas *= weights.max() / np.median(weights) / 10.0 if large else 1.0
    solution = jgl.solve(S, *lambdas, penalty=penalty, weights=weights)
    assert solution.status
    Theta = np.stack([matrix.toarray() for matrix in solution.precision])
    assert (np.linalg.eigvalsh(Theta) > 0.0).all()


def singular_problem(number):
    """The problem of this number in a series: classes of fewer samples than variables, which are few."""
    rng = np.random.default_rng(1)
    for _ in range(number + 1):
        n_classes, p, fused = int(rng.integers(2, 4)), int(rng.integers(2, 9)), bool(rng.random() < 0.4)
        penalty = ["fused", "chain"][rng.integers(2)]
        X = [rng.standard_normal((int(rng.integers(1, p + 1)), p)) for _ in range(n_classes)]
        X = [x.round() for x in X] if rng.random() < 0.2 else X
        S = np.stack([x.T @ x / len(x) for x in X])
        lambda2 = 10.0 ** rng.uniform(-1, 1) if (np.einsum("kii->ki", S) > 0.0).all() else 0.0
    return S, lambda2, {"penalty": penalty, "fuse_diagonal": fused}


@pytest.mark.parametrize("number", [56, 235, 270, 353, 379])
def test_a_minimum_without_lambda1_far_from_the_start_is_reached(number):
    """Entries of Theta of a hundred to ten thousand at variances of one: plain ADMM ends at gaps up to infinity."""
    S, lambda2, options = singular_problem(number)
    assert jgl.solve(S, 0.0, lambda2, **options).status


def test_weights_that_limit_the_accuracy_are_named():
    x = np.random.default_rng(0).standard_normal((2, 3, 6))
    S, weights = np.einsum("kni,knj->kij", x, x) / 3, [1e-6, 1e4]
    with pytest.warns(jgl.ConvergenceWarning, match=r"class weights differ by a factor of 1e\+10"):
        assert not jgl.solve(S, 1e-3, 1e-3, penalty="fused", weights=weights, max_iter=2).status
    with pytest.warns(jgl.ConvergenceWarning) as caught:
        assert not jgl.solve(S, 1e-3, 1e-3, penalty="fused", max_iter=2).status
    assert "weights" not in str(caught[0].message)
