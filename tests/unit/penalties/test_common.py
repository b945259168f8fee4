"""`penalty="common"`: common substructure, held to cvxpy and to the definition of dual ball and subdifferential."""

from __future__ import annotations

import itertools
import warnings

import numpy as np
import pytest

import jointglasso as jgl
from jointglasso.kernels.pair_types import Entries
from jointglasso.penalties import SafeRegion, make_penalty

cp = pytest.importorskip("cvxpy")


def penalty_of(lambda1, lambda2, n_classes):
    return make_penalty("common", lambda1, lambda2, None, [str(k) for k in range(n_classes)])


def problem_of(p, n_classes, seed):
    rng = np.random.default_rng(seed)
    common = rng.normal(size=(p, p))
    return np.stack(
        [np.cov(rng.normal(size=(2 * p, p)) @ (np.eye(p) + 0.3 * common), rowvar=False) for _ in range(n_classes)]
    )


def cost_of(pairs, penalty):
    """Penalty of K rows of pairs with a free shared value, in cvxpy."""
    shared = cp.Variable(pairs.shape[1])
    own = pairs - cp.vstack([shared] * pairs.shape[0])
    return penalty.rho * cp.norm1(shared) + penalty.gamma * cp.sum(cp.abs(own))


def clarabel(S, lambda1, lambda2, weights, penalize_diagonal, pair_weights=None):
    n_classes, p, _ = S.shape
    Theta = [cp.Variable((p, p), symmetric=True) for _ in range(n_classes)]
    upper = np.triu_indices(p, 1)
    pairs = cp.vstack([matrix[upper] for matrix in Theta])
    if pair_weights is not None:
        pairs = cp.multiply(pairs, np.tile(pair_weights[upper], (n_classes, 1)))
    cost = 2.0 * cost_of(pairs, penalty_of(lambda1, lambda2, n_classes))
    for k in range(n_classes):
        cost += weights[k] * (cp.trace(S[k] @ Theta[k]) - cp.log_det(Theta[k]))
        cost += lambda1 * cp.trace(Theta[k]) if penalize_diagonal else 0.0
    problem = cp.Problem(cp.Minimize(cost))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=UserWarning)
        problem.solve(solver=cp.CLARABEL, tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10)
    return problem.value, np.stack([matrix.value for matrix in Theta])


CASES = [(1, 4, 0.1, 0.2), (2, 3, 0.0, 0.3), (2, 8, 0.05, 0.2), (3, 6, 0.1, 0.1), (4, 10, 0.05, 0.2), (5, 5, 0.02, 0.4)]


@pytest.mark.parametrize(("n_classes", "p", "lambda1", "lambda2"), CASES)
def test_clarabel_has_the_same_solution(n_classes, p, lambda1, lambda2):
    S = problem_of(p, n_classes, seed=10 * n_classes + p)
    weights = np.linspace(0.7, 1.5, n_classes)
    scale = np.abs(S[:, ~np.eye(p, dtype=bool)]).max()
    lambdas = scale * lambda1, scale * lambda2
    options = {"penalty": "common", "weights": weights.tolist(), "penalize_diagonal": bool(p % 2)}
    solution = jgl.solve(S, *lambdas, tol=1e-9, **options)
    value, Theta = clarabel(S, *lambdas, weights, bool(p % 2))
    assert solution.status
    assert solution.objective == pytest.approx(value, rel=1e-7)
    ours = np.stack([matrix.toarray() for matrix in solution.precision])
    np.testing.assert_allclose(ours, Theta, atol=2e-4 * np.abs(Theta).max())
    for solver in ("admm", "newton"):
        plain = jgl.solve(S, *lambdas, tol=1e-9, screening="none", solver=solver, **options)
        assert plain.objective == pytest.approx(solution.objective, rel=1e-8)


def test_pair_weights_multiply_the_penalty_of_a_pair():
    S, rng = problem_of(6, 3, seed=11), np.random.default_rng(0)
    v = rng.uniform(0.3, 2.0, (6, 6))
    v = np.triu(v, 1) + np.triu(v, 1).T
    scale = np.abs(S[:, ~np.eye(6, dtype=bool)]).max()
    lambdas = 0.05 * scale, 0.15 * scale
    solution = jgl.solve(S, *lambdas, penalty="common", pair_weights=v + np.eye(6), tol=1e-9)
    assert solution.objective == pytest.approx(clarabel(S, *lambdas, np.ones(3), True, v)[0], rel=1e-7)


def test_without_coupling_the_classes_are_separate_and_one_class_is_the_lasso():
    S = problem_of(6, 3, seed=1)
    common, group = (jgl.solve(S, 0.2, 0.0, penalty=name, tol=1e-12) for name in ("common", "group"))
    for one, other in zip(common.precision, group.precision, strict=True):
        np.testing.assert_allclose(one.toarray(), other.toarray(), atol=1e-6)
    one, other = (jgl.solve(S[:1], 0.1, 0.2, penalty=name, penalize_diagonal=False) for name in ("common", "group"))
    assert one.objective == pytest.approx(other.objective, rel=1e-6)


def rows_with_ties(n_classes, seed=0, m=60):
    """Values, and points with zeros and equal values."""
    rng = np.random.default_rng(seed)
    target = rng.normal(size=(m, n_classes)) * rng.choice([0.3, 1.0, 3.0], (m, 1))
    theta = rng.choice([-1.0, 0.0, 0.4, 1.0], (m, n_classes))
    theta[::5] = 0.0
    return target, theta


@pytest.mark.parametrize("n_classes", [1, 2, 4, 5])
@pytest.mark.parametrize("factor", [np.empty(0), np.linspace(0.2, 2.0, 60)], ids=["equal", "weighted"])
def test_proximal_step_in_any_metric_is_the_minimum(n_classes, factor):
    penalty = penalty_of(0.1, 0.4, n_classes)
    target, theta = rows_with_ties(n_classes)
    curvature = np.random.default_rng(1).uniform(0.3, 3.0, target.shape)
    values, entries = penalty.as_entries(target, factor)
    ours = penalty.update(curvature.ravel(), values, entries).reshape(target.shape)
    for q in range(0, 60, 7):
        v = factor[q] if len(factor) else 1.0
        x = cp.Variable((n_classes, 1))
        cost = cp.sum(cp.multiply(curvature[q][:, None] / 2.0, cp.square(x))) - target[q] @ x[:, 0]
        cp.Problem(cp.Minimize(cost + v * cost_of(x, penalty))).solve(solver=cp.CLARABEL)
        np.testing.assert_allclose(ours[q], x.value[:, 0], atol=1e-4)
    shared = np.linspace(-3.0, 3.0, 6001)  # the minimum over a grid that holds all values of theta
    direct = penalty.rho * np.abs(shared) + penalty.gamma * np.abs(theta[:, :, None] - shared).sum(axis=1)
    weights = factor if len(factor) else 1.0
    values, entries = penalty.as_entries(theta, factor)
    np.testing.assert_allclose(penalty.value(values, entries), direct.min(axis=1) * weights, atol=1e-9)


@pytest.mark.parametrize("n_classes", [1, 2, 4, 5])
def test_subgradients_are_projections_onto_the_subdifferential(n_classes):
    penalty = penalty_of(0.1, 0.4, n_classes)
    target, theta = rows_with_ties(n_classes)
    values, entries = penalty.as_entries(theta)
    ours = penalty.nearest_subgradient(values, target.ravel(), entries).reshape(theta.shape)
    phi = penalty.value(values, entries)
    for q in range(60):  # u in the dual ball with u't = phi(t)
        u = cp.Variable(n_classes)
        limits = [cp.abs(u) <= penalty.gamma, cp.abs(cp.sum(u)) <= penalty.rho, u @ theta[q] >= phi[q] - 1e-9]
        cp.Problem(cp.Minimize(cp.sum_squares(u - target[q])), limits).solve(solver=cp.CLARABEL)
        np.testing.assert_allclose(ours[q], u.value, atol=1e-3)


@pytest.mark.parametrize("n_classes", [1, 3, 5])
def test_rules_for_rows_agree_with_ball_and_minimum(n_classes):
    penalty = penalty_of(0.1, 0.4, n_classes)
    target, _ = rows_with_ties(n_classes, seed=2)
    u, entries = penalty.as_entries(target)
    inside = (np.abs(target) <= penalty.gamma).all(axis=1) & (np.abs(target.sum(axis=1)) <= penalty.rho)
    np.testing.assert_array_equal(penalty.is_dual_feasible(u, entries), inside)
    np.testing.assert_array_equal(penalty.violates_global_condition(target), ~inside)
    for curvature in (np.ones_like(u), np.random.default_rng(3).uniform(0.2, 4.0, len(u))):  # signs need no metric
        minimiser = penalty.update(curvature, -u, entries).reshape(target.shape)
        np.testing.assert_array_equal(penalty.signs(target), np.sign(minimiser))
    box = penalty.box_radius(n_classes)
    corner, entries = penalty.as_entries(np.full((1, n_classes), box))
    assert penalty.gauge(corner, entries)[0] == pytest.approx(1.0)


def test_closure_holds_for_any_values_of_the_joined_classes():
    rng, penalty = np.random.default_rng(4), penalty_of(0.1, 0.3, 4)
    rows, joined = 0.6 * rng.normal(size=(400, 4)), rng.random((400, 4)) < 0.4
    closed = penalty.closure(rows, joined)
    assert (closed >= joined).all() and (closed & ~joined).sum() > 0 and (~closed).sum() > 50
    inside = np.flatnonzero((~closed).any(axis=1))
    for _ in range(50):  # a class outside is zero at the minimum whatever pulls the joined ones
        linear = np.where(closed[inside], 5.0 * rng.normal(size=(len(inside), 4)), -rows[inside])
        values, entries = penalty.as_entries(linear)
        minimiser = penalty.update(np.ones_like(values), values, entries).reshape(linear.shape)
        assert (minimiser[~closed[inside]] == 0.0).all()


@pytest.mark.parametrize("present", [[0, 1, 2, 3], [0, 2, 3]], ids=["all classes", "one screened out"])
def test_claims_from_an_inexact_subgradient_hold(present):
    """The solution is a proximal step, so that its subgradient is known; what is claimed near it must be true of it."""
    rng, penalty, m = np.random.default_rng(6), penalty_of(0.1, 0.4, 4), 500
    n = len(present)
    entries = Entries(np.arange(0, m * n + 1, n), np.tile(present, m), rng.uniform(0.5, 2.0, m), 4)
    values = (rng.normal(size=(m, n)) * rng.choice([0.2, 0.6, 2.0], (m, 1))).ravel()
    theta = penalty.prox(values, np.ones(m), entries)
    rows = np.zeros((m, 4))
    rows[:, present] = theta.reshape(m, n)
    for size in (1e-9, 0.02):
        radius = size * rng.random(m * n)
        u = values - theta + radius * rng.choice([-1.0, 1.0], m * n)
        zero, equal = penalty.certified_zeros_and_equal(SafeRegion(theta, u, radius, np.full(m * n, np.inf)), entries)
        one, two = penalty.fused_class_pairs.T
        assert not theta[zero].any() and 0.6 * (theta == 0).sum() < zero.sum()
        truly = rows[:, one] == rows[:, two]
        assert not (equal & ~truly).any() and 0.6 * truly.sum() < equal.sum() < equal.size


def test_a_shared_value_is_zero_only_if_the_radii_leave_the_sum_below_rho():
    """With gamma = 0.5 and rho = 0.7 in three classes, or 0.7 + 0.5 where one of them is screened out."""
    penalty = penalty_of(0.1, 0.4, 3)
    assert (penalty.gamma, penalty.rho) == (pytest.approx(0.5), pytest.approx(0.7))

    def zeros(u, radius, present=(0, 1, 2), v=1.0):
        n = len(u)
        entries = Entries(np.array([0, n]), np.array(present), np.array([v]), 3)
        region = SafeRegion(np.zeros(n), np.array(u), np.array(radius), np.full(n, np.inf))
        return penalty.certified_zeros(region, entries).tolist()

    assert zeros([0.2, 0.2, 0.2], [0.03] * 3) == [True] * 3
    assert zeros([0.2, 0.2, 0.2], [0.04] * 3) == [False] * 3
    assert zeros([-0.3, -0.3, -0.2], [0.0] * 3) == [False] * 3
    assert zeros([0.4, -0.4, 0.4], [0.05] * 3) == [True] * 3
    assert zeros([0.4, -0.4, 0.4], [0.15, 0.05, 0.05]) == [False, True, True]
    assert zeros([0.45, 0.45], [0.04] * 2, (0, 2)) == [True] * 2
    assert zeros([0.45, 0.45], [0.04] * 2, (0, 2), 0.8) == [False] * 2
    none = Entries(np.array([0]), np.empty(0, dtype=int), np.empty(0), 3)
    assert penalty.certified_zeros(SafeRegion(*[np.empty(0)] * 4), none).shape == (0,)


def test_certificate_is_right_about_zeros_edges_and_equalities():
    S = problem_of(12, 3, seed=7)
    scale = np.abs(S[:, ~np.eye(12, dtype=bool)]).max()
    lambdas = 0.05 * scale, 0.2 * scale
    loose, sharp = (jgl.solve(S, *lambdas, penalty="common", tol=tol) for tol in (1e-6, 1e-11))
    assert loose.certificate.edges_present > 0 and loose.certificate.edges_absent > 0
    for proved, Theta in zip(loose.certified, sharp.precision, strict=True):
        assert (Theta.toarray()[proved.toarray()] != 0).all()
    certain = loose.edge_clusters
    assert (certain.equal & certain.proved).sum() > 0
    Theta = np.stack([matrix.toarray() for matrix in sharp.precision])[:, certain.rows, certain.columns]
    for t, (one, two) in enumerate(certain.neighbours):
        same = certain.equal[:, t] & certain.proved[:, t]
        np.testing.assert_array_equal(Theta[one, same], Theta[two, same])


def test_screening_is_exact_and_screens():
    rng = np.random.default_rng(3)
    blocks = [np.kron(np.eye(4), np.ones((3, 3))) * 0.5 + 0.5 * np.eye(12) for _ in range(3)]
    S = np.stack([np.cov(rng.multivariate_normal(np.zeros(12), block, size=200), rowvar=False) for block in blocks])
    solutions = {
        screening: jgl.solve(S, 0.06, 0.12, penalty="common", screening=screening, tol=1e-10)
        for screening in ("hybrid", "dynamic", "none")
    }
    objectives = [solution.objective for solution in solutions.values()]
    np.testing.assert_allclose(objectives, objectives[0], rtol=1e-9)
    assert max(np.bincount(labels).max() for labels in solutions["hybrid"].partition.labels) < 12
    top = penalty_of(1.0, 1.0, 3).lambda_max(S[:, *np.triu_indices(12, 1)].T)
    assert sum(jgl.solve(S, 1.001 * top, 1.001 * top, penalty="common").n_edges) == 0
    assert sum(jgl.solve(S, 0.99 * top, 0.99 * top, penalty="common").n_edges) > 0


def test_without_edges_the_parts_have_none():
    solution = jgl.solve([np.eye(3) + 0.1] * 2, 0.9, 0.1, penalty="common")
    assert jgl.JointNetworks.shared_and_specific(solution).n_edges == [0, 0, 0]


def test_shared_and_specific_networks_add_up_to_those_of_the_classes():
    S = problem_of(8, 4, seed=5)
    scale = np.abs(S[:, ~np.eye(8, dtype=bool)]).max()
    solution = jgl.solve(S, 0.04 * scale, 0.1 * scale, penalty="common", tol=1e-9)
    parts = jgl.JointNetworks.shared_and_specific(solution)
    assert parts.class_names == ("shared", *solution.class_names) and min(parts.n_edges) > 0
    shared, *own = (matrix.toarray() for matrix in parts.precision)
    upper, penalty = np.triu_indices(8, 1), penalty_of(0.04 * scale, 0.1 * scale, 4)
    for Theta, part in zip(solution.precision, own, strict=True):
        np.testing.assert_allclose((shared + part)[upper], Theta.toarray()[upper], atol=1e-15)
        np.testing.assert_array_equal(np.diagonal(part), Theta.diagonal())
    cost = penalty.rho * np.abs(shared[upper]).sum() + penalty.gamma * sum(np.abs(part[upper]).sum() for part in own)
    values, entries = penalty.as_entries(np.stack([Theta.toarray()[upper] for Theta in solution.precision], axis=1))
    assert cost == pytest.approx(penalty.value(values, entries).sum(), rel=1e-12)
    with pytest.raises(jgl.InputError, match="common"):
        jgl.JointNetworks.shared_and_specific(jgl.solve(S, 0.1, 0.1))


def test_variables_missing_from_a_class():
    """A pair is penalised as if the classes that have it were all: rho = n lambda1 + lambda2 for n of them."""
    import pandas as pd

    S, names, out = problem_of(6, 3, seed=9), list("abcdef"), ([], ["a"], ["b", "c"])
    frames = {k: pd.DataFrame(S[k], names, names).drop(index=o, columns=o) for k, o in enumerate(out)}
    scale = np.abs(S[:, ~np.eye(6, dtype=bool)]).max()
    lambda1, lambda2 = 0.05 * scale, 0.15 * scale
    Theta = [cp.Variable((len(frame), len(frame)), PSD=True) for frame in frames.values()]
    total = sum(
        cp.trace((frame.to_numpy() + lambda1 * np.eye(len(frame))) @ T) - cp.log_det(T)
        for frame, T in zip(frames.values(), Theta, strict=True)
    )
    for i, j in itertools.combinations(names, 2):
        t = [
            T[frame.index.get_loc(i), frame.index.get_loc(j)]
            for frame, T in zip(frames.values(), Theta, strict=True)
            if i in frame and j in frame
        ]
        c, n = cp.Variable(), len(t)
        own = sum(cp.abs(x - c) for x in t)
        total += 2 * ((n * lambda1 + lambda2) * cp.abs(c) + (lambda1 + lambda2) * own)
    problem = cp.Problem(cp.Minimize(total))
    problem.solve(solver="CLARABEL", tol_gap_abs=1e-9, tol_gap_rel=1e-9)
    source = jgl.DenseCovariance(frames, variables="union")
    for solver in ("auto", "admm"):
        solution = jgl.solve(source, lambda1, lambda2, penalty="common", tol=1e-9, solver=solver)
        assert solution.status.converged
        assert solution.objective == pytest.approx(problem.value, rel=1e-6)


def test_other_arguments_of_fused_penalties_are_refused():
    S = problem_of(3, 2, seed=0)
    with pytest.raises(jgl.InputError, match='not with "common"'):
        jgl.solve(S, 0.1, 0.1, penalty="common", class_graph=[(0, 1)])
    with pytest.raises(jgl.InputError, match='not with "common"'):
        jgl.solve(S, 0.1, 0.1, penalty="common", fuse_diagonal=True)
