"""`penalty="maximum"`: l1/l-infinity groups, held to cvxpy and to the definition of dual ball and subdifferential."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import jointglasso as jgl
from jointglasso.penalties import make_penalty

cp = pytest.importorskip("cvxpy")


def penalty_of(lambda1, lambda2, n_classes):
    return make_penalty("maximum", lambda1, lambda2, None, [str(k) for k in range(n_classes)])


def problem_of(p, n_classes, seed):
    rng = np.random.default_rng(seed)
    common = rng.normal(size=(p, p))
    return np.stack(
        [np.cov(rng.normal(size=(2 * p, p)) @ (np.eye(p) + 0.3 * common), rowvar=False) for _ in range(n_classes)]
    )


def clarabel_objective(S, lambda1, lambda2, weights, penalize_diagonal):
    n_classes, p, _ = S.shape
    Theta = [cp.Variable((p, p), symmetric=True) for _ in range(n_classes)]
    upper = np.triu_indices(p, 1)
    pairs = cp.vstack([matrix[upper] for matrix in Theta])
    cost = 2.0 * lambda1 * cp.sum(cp.abs(pairs)) + 2.0 * lambda2 * cp.sum(cp.max(cp.abs(pairs), axis=0))
    for k in range(n_classes):
        cost += weights[k] * (cp.trace(S[k] @ Theta[k]) - cp.log_det(Theta[k]))
        cost += lambda1 * cp.trace(Theta[k]) if penalize_diagonal else 0.0
    problem = cp.Problem(cp.Minimize(cost))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=UserWarning)
        problem.solve(solver=cp.CLARABEL, tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10)
    return problem.value, np.stack([matrix.value for matrix in Theta])


CASES = [(1, 4, 0.1, 0.2), (2, 3, 0.0, 0.3), (2, 8, 0.1, 0.2), (3, 6, 0.2, 0.1), (4, 10, 0.05, 0.3), (5, 5, 0.02, 0.6)]


@pytest.mark.parametrize(("n_classes", "p", "lambda1", "lambda2"), CASES)
def test_clarabel_has_the_same_solution(n_classes, p, lambda1, lambda2):
    S = problem_of(p, n_classes, seed=10 * n_classes + p)
    weights = np.linspace(0.7, 1.5, n_classes)
    scale = np.abs(S[:, ~np.eye(p, dtype=bool)]).max()
    lambdas = scale * lambda1, scale * lambda2
    options = {"penalty": "maximum", "weights": weights.tolist(), "penalize_diagonal": bool(p % 2)}
    solution = jgl.solve(S, *lambdas, tol=1e-9, **options)
    value, Theta = clarabel_objective(S, *lambdas, weights, bool(p % 2))
    assert solution.status
    assert solution.objective == pytest.approx(value, rel=1e-7)
    ours = np.stack([matrix.toarray() for matrix in solution.precision])
    np.testing.assert_allclose(ours, Theta, atol=2e-4 * np.abs(Theta).max())
    plain = jgl.solve(S, *lambdas, tol=1e-9, screening="none", solver="admm", **options)
    assert plain.objective == pytest.approx(solution.objective, rel=1e-8)
    if n_classes > 1:  # the largest entry is at most the norm
        assert jgl.solve(S, *lambdas, **(options | {"penalty": "group"})).objective > solution.objective + 1e-6


def test_of_one_class_it_is_the_group_penalty():
    S = problem_of(7, 1, seed=0)
    maximum, group = (jgl.solve(S, 0.1, 0.3, penalty=name, tol=1e-10).precision[0] for name in ("maximum", "group"))
    np.testing.assert_allclose(maximum.toarray(), group.toarray(), atol=1e-6)
    assert np.array_equal(maximum.toarray() != 0, group.toarray() != 0)


def test_largest_entries_are_exactly_equal_in_size():
    S = problem_of(6, 3, seed=4)
    scale = np.abs(S[:, ~np.eye(6, dtype=bool)]).max()
    Theta = np.abs(
        np.stack([m.toarray() for m in jgl.solve(S, 0.0, 0.4 * scale, penalty="maximum", tol=1e-8).precision])
    )
    upper = np.triu_indices(6, 1)
    sizes = np.sort(Theta[:, upper[0], upper[1]], axis=0)
    has_equal_largest = (sizes[-1] > 0) & (np.abs(sizes[-1] - sizes[-2]) <= 1e-9 * sizes[-1])
    assert has_equal_largest.sum() >= 3


def rows_with_ties(n_classes, seed=0, m=60):
    """Values, and points with zeros and equal sizes of either sign."""
    rng = np.random.default_rng(seed)
    target = rng.normal(size=(m, n_classes)) * rng.choice([0.3, 1.0, 3.0], (m, 1))
    theta = rng.choice([-1.0, 0.0, 0.4, 1.0], (m, n_classes))
    theta[::5] = 0.0
    return target, theta


@pytest.mark.parametrize("n_classes", [1, 2, 4])
@pytest.mark.parametrize("factor", [np.empty(0), np.linspace(0.2, 2.0, 60)], ids=["equal", "weighted"])
def test_proximal_step_in_any_metric_is_the_minimum(n_classes, factor):
    penalty = penalty_of(0.3, 0.5, n_classes)
    target, _ = rows_with_ties(n_classes)
    curvature = np.random.default_rng(1).uniform(0.3, 3.0, target.shape)
    values, entries = penalty.as_entries(target, factor)
    ours = penalty.update(curvature.ravel(), values, entries).reshape(target.shape)
    for q in range(0, 60, 7):
        v = factor[q] if len(factor) else 1.0
        x = cp.Variable(n_classes)
        cost = cp.sum(cp.multiply(curvature[q] / 2.0, cp.square(x))) - target[q] @ x
        cp.Problem(cp.Minimize(cost + v * (0.3 * cp.norm1(x) + 0.5 * cp.norm_inf(x)))).solve(solver=cp.CLARABEL)
        np.testing.assert_allclose(ours[q], x.value, atol=1e-4)
    direct = 0.3 * np.abs(target).sum(axis=1) + 0.5 * np.abs(target).max(axis=1)
    np.testing.assert_allclose(penalty.value(values, entries), direct * (factor if len(factor) else 1.0))


@pytest.mark.parametrize("n_classes", [1, 2, 4])
def test_subgradients_are_projections_onto_the_subdifferential(n_classes):
    penalty = penalty_of(0.3, 0.5, n_classes)
    target, theta = rows_with_ties(n_classes)
    values, entries = penalty.as_entries(theta)
    ours = penalty.nearest_subgradient(values, target.ravel(), entries).reshape(theta.shape)
    for q in range(60):
        u, share = cp.Variable(n_classes), cp.Variable(n_classes, nonneg=True)
        top = np.abs(theta[q]).max()
        limits = [cp.sum(share) == 0.5] if top > 0 else [cp.sum(share) <= 0.5]
        for k, t in enumerate(theta[q]):
            if t == 0:
                limits.append(cp.abs(u[k]) <= 0.3 + (share[k] if top == 0 else 0.0))
            else:
                limits.append(u[k] == np.sign(t) * (0.3 + share[k]))
            if top > 0 and abs(t) < top:
                limits.append(share[k] == 0)
        cp.Problem(cp.Minimize(cp.sum_squares(u - target[q])), limits).solve(solver=cp.CLARABEL)
        np.testing.assert_allclose(ours[q], u.value, atol=1e-4)


@pytest.mark.parametrize("n_classes", [1, 3, 5])
def test_gauge_ball_and_box_agree_with_their_definitions(n_classes):
    penalty = penalty_of(0.3, 0.5, n_classes)
    target, _ = rows_with_ties(n_classes, seed=2)
    u, entries = penalty.as_entries(target)
    gauge = penalty.gauge(u, entries)
    excess = np.maximum(np.abs(target) - 0.3 * gauge[:, None], 0.0).sum(axis=1)
    np.testing.assert_allclose(excess, 0.5 * gauge, atol=1e-12)
    inside = np.maximum(np.abs(target) - 0.3, 0.0).sum(axis=1) <= 0.5
    np.testing.assert_array_equal(penalty.is_dual_feasible(u, entries), inside)
    np.testing.assert_array_equal(penalty.violates_global_condition(target), ~inside)
    assert 0 < inside.sum() < 60
    box = penalty.box_radius(n_classes)
    corner, entries = penalty.as_entries(np.full((1, n_classes), box))
    assert penalty.gauge(corner, entries)[0] == pytest.approx(1.0)


def test_certificate_is_right_about_zeros_and_edges():
    """Entries that are certified to be absent or present are so in a solution of far higher accuracy."""
    S = problem_of(12, 3, seed=7)
    scale = np.abs(S[:, ~np.eye(12, dtype=bool)]).max()
    loose = jgl.solve(S, 0.15 * scale, 0.2 * scale, penalty="maximum", tol=1e-5)
    sharp = jgl.solve(S, 0.15 * scale, 0.2 * scale, penalty="maximum", tol=1e-11)
    assert loose.certificate.edges_present > 0 and loose.certificate.edges_absent > 0
    for proved, Theta in zip(loose.certified, sharp.precision, strict=True):
        assert (Theta.toarray()[proved.toarray()] != 0).all()
    lower = loose.objective - loose.certificate.gap
    assert lower <= sharp.objective + 1e-9 * abs(sharp.objective) <= loose.objective + 1e-8 * abs(loose.objective)


def test_screening_is_exact_and_screens():
    rng = np.random.default_rng(3)
    blocks = [np.kron(np.eye(4), np.ones((3, 3))) * 0.5 + 0.5 * np.eye(12) for _ in range(3)]
    S = np.stack([np.cov(rng.multivariate_normal(np.zeros(12), block, size=200), rowvar=False) for block in blocks])
    solutions = {
        screening: jgl.solve(S, 0.1, 0.1, penalty="maximum", screening=screening, tol=1e-10)
        for screening in ("hybrid", "dynamic", "none")
    }
    objectives = [solution.objective for solution in solutions.values()]
    np.testing.assert_allclose(objectives, objectives[0], rtol=1e-9)
    assert max(np.bincount(labels).max() for labels in solutions["hybrid"].partition.labels) < 12
    top = make_penalty("maximum", 1.0, 1.0, None, list("abc")).lambda_max(S[:, *np.triu_indices(12, 1)].T)
    assert sum(jgl.solve(S, 1.001 * top, 1.001 * top, penalty="maximum").n_edges) == 0
    assert sum(jgl.solve(S, 0.99 * top, 0.99 * top, penalty="maximum").n_edges) > 0


def test_other_arguments_of_fused_penalties_are_refused():
    S = problem_of(3, 2, seed=0)
    with pytest.raises(jgl.InputError, match='not with "maximum"'):
        jgl.solve(S, 0.1, 0.1, penalty="maximum", class_graph=[(0, 1)])
    with pytest.raises(jgl.InputError, match='not with "maximum"'):
        jgl.solve(S, 0.1, 0.1, penalty="maximum", fuse_diagonal=True)
