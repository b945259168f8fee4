"""Concave penalties by local linear approximation, and the choice between penalties by held-out likelihood."""

from __future__ import annotations

import numpy as np
import pytest

import jointglasso as jgl
from jointglasso.penalties import make_penalty
from jointglasso.penalties.shapes import FLOOR, SHAPES, as_shape, penalty_terms
from jointglasso.problem import make_problem


@pytest.mark.parametrize("name", SHAPES)
def test_shape_is_the_integral_of_its_slope(name):
    shape = as_shape(name)
    s = np.linspace(0.0, 400.0, 400_001)
    slope = shape.slope(s)
    assert slope[0] == 1.0 and shape.value(np.zeros(1))[0] == 0.0
    assert (np.diff(slope) <= 0.0).all() and slope[-1] >= FLOOR
    integral = np.concatenate([[0.0], np.cumsum(0.5 * (slope[1:] + slope[:-1]) * np.diff(s))])
    np.testing.assert_allclose(shape.value(s), integral, rtol=1e-6, atol=1e-6)


def covariances(K=2, p=6, n=60, seed=0):
    rng = np.random.default_rng(seed)
    mixing = rng.normal(size=(p, p)) * 0.4 + np.eye(p)
    return [np.corrcoef((rng.normal(size=(n, p)) @ mixing).T) for _ in range(K)]


def concave_objective(S, matrices, lambda1, lambda2, shape, penalty="group"):
    """F written out from its definition, with a free diagonal; "sqrt" acts on whole pairs, others term by term."""
    total = sum(np.trace(S_k @ T) - np.linalg.slogdet(T)[1] for S_k, T in zip(S, matrices, strict=True))
    unit = lambda1 + lambda2
    for i, j in zip(*np.triu_indices(len(S[0]), 1), strict=True):
        t = np.array([T[i, j] for T in matrices])
        coupling = {"group": np.linalg.norm(t), "maximum": abs(t).max(), "fused": abs(t[0] - t[1])}[penalty]
        terms = [(lambda2, coupling), *[(lambda1, size) for size in abs(t)]]
        if shape.name == "sqrt":
            terms = [(unit, sum(weight * size for weight, size in terms) / unit)]
        total += sum(2.0 * weight * unit * shape.value(np.array([size / unit]))[0] for weight, size in terms)
    return total


@pytest.mark.parametrize("penalty", ["group", "maximum", "fused"])
@pytest.mark.parametrize("name", ["log", "scad", "mcp", "sqrt", "atan"])
def test_the_concave_objective_falls_to_a_stationary_point(name, penalty):
    S = covariances()
    solution = jgl.solve(S, 0.1, 0.05, penalty=penalty, penalty_shape=name, penalize_diagonal=False, tol=1e-9)
    objectives = solution.parameters["concave_objectives"]
    assert len(objectives) > 2 and (np.diff(objectives) <= 1e-7).all() and objectives[-1] < objectives[0] - 1e-4
    matrices = [Theta.toarray() for Theta in solution.precision]
    shape = as_shape(name)
    value = concave_objective(S, matrices, 0.1, 0.05, shape, penalty)
    assert value == pytest.approx(objectives[-1], abs=1e-7)
    # Small steps in any direction do not decrease F by more than a few times the certified stationarity gap.
    rng, allowed = np.random.default_rng(1), 3.0 * solution.parameters["stationarity_gap"] + 1e-6
    for _ in range(200):
        step = [rng.normal(size=T.shape) * (rng.random(T.shape) < 0.3) for T in matrices]
        moved = [T + 1e-3 * (D + D.T) for T, D in zip(matrices, step, strict=True)]
        assert concave_objective(S, moved, 0.1, 0.05, shape, penalty) >= value - allowed


def test_strong_edges_are_less_biased():
    S = [np.array([[1.0, 0.6, 0.0], [0.6, 1.0, 0.1], [0.0, 0.1, 1.0]])]
    convex, concave = (
        jgl.solve(S, 0.2, 0.0, penalty_shape=shape, penalize_diagonal=False).precision[0].toarray()
        for shape in (None, "mcp")
    )
    likeliest = np.linalg.inv(S[0][:2, :2])[0, 1]
    assert abs(concave[0, 1] - likeliest) < 0.1 * abs(convex[0, 1] - likeliest)
    assert concave[1, 2] == convex[1, 2] == 0.0


def test_an_edge_of_one_class_is_not_freed_in_the_others():
    """The second class has a weak edge where the first has a strong one: one weight of the pair would free both."""
    S = [np.array([[1.0, r], [r, 1.0]]) for r in (0.8, 0.22)]
    solution = jgl.solve(S, 0.2, 0.05, penalty_shape="mcp", penalize_diagonal=False, tol=1e-9)
    convex = jgl.solve(S, 0.2, 0.05, penalize_diagonal=False, tol=1e-9)
    (strong, weak), (strong_before, weak_before) = (
        [abs(Theta[0, 1]) for Theta in one.precision] for one in (solution, convex)
    )
    assert strong > 1.3 * strong_before
    assert weak < 0.5 * abs(np.linalg.inv(S[1])[0, 1]) and weak_before < 0.1


def test_weights_by_class_are_those_of_the_convex_problem_that_is_reweighted():
    S = covariances(K=3, seed=2)
    tables = [{(0, 1): 0.5}, None, {(0, 1): np.inf, (2, 3): 2.0}]
    solution = jgl.solve(S, 0.1, 0.05, penalty_shape="scad", pair_weights=tables, coupling_weights={(4, 5): 0.0})
    assert (np.diff(solution.parameters["concave_objectives"]) <= 1e-6).all()
    assert solution.precision[2][0, 1] == 0.0 and solution.precision[0][0, 1] != 0.0
    with pytest.raises(jgl.InputError, match="one weight for a pair"):
        jgl.solve(S, 0.1, 0.05, penalty_shape="sqrt", pair_weights=tables)


def test_sqrt_is_the_penalty_of_guo_et_al():
    """Guo et al. (2011): minimise with weights (sum_k |theta_k|)^(-1/2); here with a in place of 0 under the root."""
    S = covariances(K=3, seed=3)
    solution = jgl.solve(S, 0.15, 0.0, penalty_shape="sqrt", penalize_diagonal=False, tol=1e-10)
    weights = None
    for _ in solution.parameters["concave_objectives"]:
        step = jgl.solve(S, 0.15, 0.0, pair_weights=weights, penalize_diagonal=False, tol=1e-10)
        weights = (1.0 + sum(abs(Theta.toarray()) for Theta in step.precision) / 0.15) ** -0.5
    for one, other in zip(solution.precision, step.precision, strict=True):
        np.testing.assert_allclose(one.toarray(), other.toarray(), atol=1e-4)


def test_pair_weights_are_kept():
    S = covariances(seed=5)
    weights = np.ones((6, 6))
    weights[0, 1] = weights[1, 0] = np.inf
    weights[2, 3] = weights[3, 2] = 0.0
    solution = jgl.solve(S, 0.1, 0.05, penalty_shape="mcp", pair_weights=weights, penalize_diagonal=False)
    assert all(Theta[0, 1] == 0.0 and Theta[2, 3] != 0.0 for Theta in solution.precision)
    problem = make_problem(S, 0.1, 0.05, pair_weights=weights, penalize_diagonal=False)
    assert np.isfinite(problem.objective(solution.precision))


def test_path_and_estimators_take_a_shape(tmp_path):
    S = covariances()
    path = list(jgl.solve_path(S, [(0.2, 0.05), (0.1, 0.05)], penalty_shape="log", penalize_diagonal=False))
    alone = jgl.solve(S, 0.1, 0.05, penalty_shape="log", penalize_diagonal=False)
    assert path[1].objective == pytest.approx(alone.objective, rel=1e-3)
    saved = jgl.load(alone.save(tmp_path / "shape.npz"))
    assert saved.parameters["concave_objectives"] == alone.parameters["concave_objectives"]
    X = np.random.default_rng(0).normal(size=(40, 4)) @ np.array(np.eye(4) + 0.4)
    model = jgl.JointGraphicalLasso(0.1, 0.0, penalty_shape="mcp").fit(X)
    assert model.solution_.parameters["penalty_shape"] == "mcp"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"penalty_shape": "l0"}, "penalty_shape"),
        ({"shape_parameter": 2.0}, "goes with penalty_shape"),
        ({"penalty_shape": "scad", "shape_parameter": 2.0}, "above 2"),
        ({"penalty_shape": "mcp", "latent": 0.5}, "latent"),
    ],
)
def test_wrong_shapes_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        jgl.solve(covariances(), 0.1, 0.05, **options)


@pytest.mark.parametrize("penalty", ["group", "laplacian"])
def test_terms_of_a_concave_penalty_are_those_of_its_definition(penalty):
    """The penalty of a pair as one term, or the coupling and lambda1 |t_k| by class; c is that of a unit size."""
    chosen, rows = make_penalty(penalty, 0.3, 0.2, None, list("abc")), np.array([[0.0, 0.0, 0.0], [1.0, -2.0, 2.0]])
    coupling = 0.2 * np.array([0.0, 3.0 if penalty == "group" else 9.0 + 16.0])
    phi, c = penalty_terms(chosen, rows, 2.0, False)
    np.testing.assert_allclose(phi[:, 0], [0.0, 0.3 * 5.0 + coupling[1]])
    np.testing.assert_allclose(c, [0.5 * 0.25])
    phi, c = penalty_terms(chosen, rows, 2.0, True)
    np.testing.assert_allclose(phi, np.column_stack([coupling, 0.3 * np.abs(rows)]))
    np.testing.assert_allclose(c, 0.25 * np.array([0.2 if penalty == "group" else 0.0, 0.3, 0.3, 0.3]))
    for by_class, n_terms in ((False, 1), (True, 4)):
        assert penalty_terms(chosen, np.empty((0, 3)), 2.0, by_class)[0].shape == (0, n_terms)
