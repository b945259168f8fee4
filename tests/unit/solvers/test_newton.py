"""The pieces of Newton's method against LAPACK and plain NumPy, and the choice of the method."""

from __future__ import annotations

from functools import cache
from types import SimpleNamespace

import numpy as np
import pytest

import jointglasso as jgl
from bank import BANK
from jointglasso import config
from jointglasso._threads import Workers, balanced_bounds
from jointglasso.blocks import build_system
from jointglasso.engine.task_result import flat_from_precisions
from jointglasso.kernels import faces, group_pair, group_state
from jointglasso.kernels.jit import njit
from jointglasso.kernels.newton_set import mark_active
from jointglasso.kernels.pair_types import GroupPair, PairClasses, PenaltyWorkspace
from jointglasso.penalties import UNIFORM
from jointglasso.problem import make_problem
from jointglasso.screening.rules import partition_by
from jointglasso.solvers.working_set import HessianProduct, build_working_set, point_of

#: Weights of some pairs: unpenalised, likelier, less likely, and forbidden.
PAIR_WEIGHTS = {(0, 1): 0.0, (1, 2): 0.3, (2, 5): 4.0, (3, 4): np.inf, (0, 6): np.inf}


@pytest.fixture(
    scope="module",
    params=[
        (0.1, 0.05, 1e-2, None),
        (0.1, 0.05, 1e-6, None),
        (0.0, 0.2, 1e-3, None),
        (0.15, 0.0, 1e-3, None),
        (0.1, 0.05, 1e-2, PAIR_WEIGHTS),
        (0.1, 0.05, 1e-3, PAIR_WEIGHTS),
    ],
)
def state(request):
    """One coupled group of three classes near its optimum, with everything the kernels take."""
    lambda1, lambda2, tol, pair_weights = request.param
    rng = np.random.default_rng(5)
    samples = [rng.standard_normal((40, 7)) + 0.6 * rng.standard_normal((40, 1)) for _ in range(3)]
    options = {"weights": [1.0, 0.5, 2.0], "pair_weights": pair_weights}
    problem = make_problem(jgl.SampleCovariance(samples), lambda1, lambda2, **options)
    partition = partition_by("none", problem.source, problem.penalty, problem.weights)
    system = build_system(problem.source, partition.class_blocks, problem.weights, problem.pair_weights)
    rough = jgl.solve(problem.source, lambda1, lambda2, solver="proximal_gradient", tol=tol, **options)
    theta = flat_from_precisions(system, rough.precision, 7)
    inverse = np.concatenate([np.linalg.inv(T.toarray()).ravel() for T in rough.precision])
    return SimpleNamespace(
        system=system, theta=theta, W=inverse, penalties=(problem.penalty.pair, problem.diagonal_penalty)
    )


@njit
def cholesky(A, L):
    return group_state.cholesky(A, L)


@njit
def invert(L, W, scratch):
    group_state.invert(L, W, scratch)


@njit
def update(penalty, a, b, pair, out, work):
    group_pair.update(penalty, a, b, pair, out, work)


def test_cholesky_and_inverse_agree_with_lapack():
    A = np.cov(np.random.default_rng(0).standard_normal((6, 30)))
    L, W = np.zeros((6, 6)), np.zeros((6, 6))
    assert cholesky(A, L) == pytest.approx(np.linalg.slogdet(A)[1], rel=1e-13)
    np.testing.assert_allclose(L, np.linalg.cholesky(A), atol=1e-14)
    invert(L, W, np.zeros((6, 6)))
    np.testing.assert_allclose(W, np.linalg.inv(A), rtol=1e-11)


def test_cholesky_of_an_indefinite_matrix_is_infinite():
    assert cholesky(np.array([[1.0, 2.0], [2.0, 1.0]]), np.zeros((2, 2))) == np.inf


def test_update_of_a_pair_with_one_class_is_soft_thresholding():
    x = np.zeros(1)
    none = np.empty(0, dtype=np.int64)
    update(
        GroupPair(1.0, 3.0), np.array([4.0]), np.array([8.0]), PairClasses(none, 1, 1.0), x, PenaltyWorkspace(x, none)
    )
    assert x[0] == pytest.approx((8.0 - 1.0 - 3.0) / 4.0)


# Big groups


@pytest.fixture(params=[1, 400], ids=["one by one", "in a batch"])
def every_group_is_big(monkeypatch, request):
    """Send even the smallest groups through the methods made for big ones."""

    monkeypatch.setattr(config, "BATCHED_BLOCK", request.param)
    monkeypatch.setattr(config, "LARGE", 1)
    monkeypatch.setattr(config, "LARGE", 1)


@cache
def solved_as_usual(name, screening):
    """Once for each problem and rule, whatever it is compared with."""
    problem = next(problem for problem in BANK if problem.name == name)
    options = {"weights": problem.weights, "penalize_diagonal": problem.penalize_diagonal, "screening": screening}
    return jgl.solve(problem.S, problem.lambda1, problem.lambda2, solver="auto", tol=1e-8, **options)


@pytest.mark.parametrize("screening", ["dynamic", "hybrid", "none"])
@pytest.mark.parametrize("solver", ["auto", "newton"])
@pytest.mark.parametrize("problem", BANK, ids=lambda problem: problem.name)
def test_big_group_solver_agrees_with_the_small_one(problem, solver, screening, every_group_is_big, request):
    options = {"weights": problem.weights, "penalize_diagonal": problem.penalize_diagonal, "screening": screening}
    big = jgl.solve(problem.S, problem.lambda1, problem.lambda2, solver=solver, tol=1e-8, **options)
    request.getfixturevalue("monkeypatch").undo()
    small = solved_as_usual(problem.name, screening)
    assert big.status.converged
    assert abs(big.objective - small.objective) <= big.certificate.gap + small.certificate.gap + 1e-12
    for one, other in zip(big.precision, small.precision, strict=True):
        assert abs(one - one.T).max() == 0
        assert abs(one - other).max() <= 1e-2 * abs(other).max()


def working_set(state):
    s = state.system
    mark = np.empty(s.n_pairs, dtype=bool)
    point = point_of(s, state.W, state.theta)
    mark_active(0, s.n_pairs, point, state.penalties[0], mark)
    return build_working_set(s, mark, point, state.penalties[0])


@pytest.mark.parametrize("n_threads", [1, 2])
def test_hessian_product_is_weighted_w_d_w_on_the_unknowns(state, n_threads):
    s, working = state.system, working_set(state)
    rng = np.random.default_rng(2)
    d = 1e5 * rng.standard_normal(len(working.position))
    D = np.zeros_like(state.theta)
    D[working.position] = d
    D[working.mirror] = d[: working.n_entries]
    product = HessianProduct(working, state.W, Workers(n_threads))(d)
    expected = np.empty_like(D)
    for block in range(s.n_blocks):
        piece = slice(s.offset[block], s.offset[block + 1])
        change, W = (flat[piece].reshape(7, 7) for flat in (D, state.W))
        expected[piece] = (s.block_weight[block] * (W @ change @ W)).ravel()
    np.testing.assert_allclose(product, expected[working.position], atol=2e-6 * np.abs(expected).max())


def test_working_set_factors_and_inverts_theta(state):
    s, working = state.system, working_set(state)
    W = np.zeros_like(state.W)
    workers = Workers(2)
    dense, logdet = working.cholesky(state.theta[working.position], workers)
    working.invert_into(dense, W, workers)
    variance = s.S[s.diagonal] + state.penalties[1] / s.block_weight[s.diagonal_block]
    W[s.diagonal[working.isolated]] = variance[working.isolated]
    np.testing.assert_allclose(W, state.W, rtol=1e-9, atol=1e-9)
    for block in range(s.n_blocks):
        piece = slice(s.offset[block], s.offset[block + 1])
        assert logdet[block] <= np.linalg.slogdet(state.theta[piece].reshape(7, 7))[1] + 1e-9 or len(working.isolated)


def test_balanced_bounds_cover_all_tasks_in_order():
    cost = np.array([5.0, 1.0, 1.0, 1.0, 1.0, 1.0])
    assert balanced_bounds(cost, 2).tolist() == [0, 1, 6]
    assert balanced_bounds(cost, 1).tolist() == [0, 6]


@pytest.mark.parametrize("factor", [UNIFORM, np.array([0.5, 1.5])], ids=["uniform", "weights"])
def test_faces_agree_with_plain_formulas(factor):
    start, base1, base2 = np.array([0, 2, 3]), 0.3, 0.4
    penalty, v = GroupPair(base1, base2), factor if len(factor) else np.ones(2)
    lambda1, lambda2 = np.append(base1 * v[[0, 0, 1]], 0.0), np.append(base2 * v[[0, 0, 1]], 0.0)
    x = np.array([0.5, -1.0, 0.0, 2.0])  # two pairs, one diagonal entry
    gradient, curvature = np.array([0.1, 0.2, -2.0, 0.3]), np.array([1.0, 2.0, 4.0, 1.0])
    face = faces.enter_face(start, factor, x, gradient, curvature, penalty)
    norm = np.hypot(0.5, 1.0)
    np.testing.assert_allclose(face[1, :3], [1.0, -1.0, 1.0])
    np.testing.assert_allclose(face[2, :3], [0.5 / norm, -1.0 / norm, 1.0])
    entering = (2.0 - lambda1[2] - lambda2[2]) / 4.0  # the zero pair enters at its own minimiser
    np.testing.assert_allclose(face[3, :3], lambda2[:3] / [norm, norm, entering])
    slope = gradient + lambda1 * face[1] + lambda2 * face[2] + np.array([0, 0, 0, 0.7])
    np.testing.assert_allclose(faces.face_residual(start, factor, gradient, penalty, 0.7, face), -slope)
    assert faces.inner(3, x, x) == pytest.approx(2 * (0.25 + 1.0) + 4.0)
    expected = 2 * v[0] * (0.3 * 1.5 + 0.4 * norm) + 1.4
    assert faces.penalty_of(start, factor, x, penalty, 0.7) == pytest.approx(expected)
    curve = lambda2[0] / norm
    along = (0.5 - 1.0) / norm
    expected = [curve * (1 - 0.5 / norm * along), curve * (1 + 1.0 / norm * along), 0.0, 0.0]
    np.testing.assert_allclose(faces.add_group_curvature(start, face, np.ones(4), np.zeros(4)), expected, atol=1e-15)
    moved, crossed = faces.step_on_face(3, x, np.array([-0.7, -1.0, 0.2, -0.5]), face)
    assert crossed == 1 and moved.tolist() == [0.0, -2.0, 0.2, 1.5] and face[0, 0] == 0.0
    faces.update_face(start, factor, moved, penalty, face)
    np.testing.assert_allclose(face[2, :3], [0.0, -1.0, 1.0])
    end = np.array([0, 0, 0])
    w = np.array([0.1, 0.2, 0.3, 2.0])
    np.testing.assert_allclose(faces.curvature_of(np.ones(4), end, end, w), [0.01 + 4.0, 0.04 + 4.0, 0.09 + 4.0, 4.0])


def test_unpenalised_entries_cross_zero_on_a_face():
    start, x = np.array([0, 1, 2]), np.array([0.5, 0.5])
    face = faces.enter_face(start, np.array([0.0, 1.0]), x, np.zeros(2), np.ones(2), GroupPair(0.1, 0.1))
    assert face[1].tolist() == [0.0, 1.0] and face[3, 0] == 0.0
    moved, crossed = faces.step_on_face(2, x, np.array([-1.0, -1.0]), face)
    assert moved.tolist() == [-0.5, 0.0] and crossed == 1


@pytest.mark.parametrize("seed", range(12))
def test_limits_that_shrink_with_the_objective_are_met(seed):
    """The gap allowed is relative to the objective, which falls on the way from the start to the optimum."""
    rng = np.random.default_rng(seed)
    X = 0.6 * rng.standard_normal((30, 6)) + 1.2 * rng.standard_normal((30, 1))
    assert jgl.solve(np.cov(X.T)[None], 0.03, 0.0, solver="newton", screening="none", tol=1e-7).status.converged


# Dense groups, which Newton finds hard


def one_factor(p, strength, n=60, n_classes=2, seed=0):
    draw = np.random.default_rng(seed)
    samples = [draw.standard_normal((n, p)) + strength * draw.standard_normal((n, 1)) for _ in range(n_classes)]
    return jgl.SampleCovariance(samples, scale="correlation")


@pytest.mark.parametrize("p", [30, 80])
@pytest.mark.parametrize("tol", [1e-6, 1e-9])
def test_dense_groups_are_left_to_sweeps(p, tol):
    source = one_factor(p, 1.5)
    solution = jgl.solve(source, 0.2, 0.05, tol=tol)
    assert solution.status.converged
    assert solution.methods == {"columns, newton": 1}
    assert solution.objective == pytest.approx(
        jgl.solve(source, 0.2, 0.05, solver="admm", tol=tol).objective, rel=2 * tol
    )


def test_several_dense_groups_in_one_piece_of_work_are_swept_over_one_by_one():
    one, other = one_factor(60, 1.5), one_factor(55, 2.0)
    S = np.zeros((2, 115, 115))
    S[:, :60, :60] = [one.block(k, np.arange(60)) for k in range(2)]
    S[:, 60:, 60:] = [other.block(k, np.arange(55)) for k in range(2)]
    solution = jgl.solve(S, 0.2, 0.05, tol=1e-8)
    assert solution.status.converged
    assert solution.methods == {"columns, newton": 2}
    assert solution.objective == pytest.approx(jgl.solve(S, 0.2, 0.05, solver="admm", tol=1e-8).objective, rel=2e-8)


def test_sparse_groups_of_the_same_size_are_not():
    source = one_factor(80, 0.7, n=200)
    solution = jgl.solve(source, 0.36, 0.05)
    assert solution.partition.largest > 48
    assert set(solution.methods) <= {"columns, newton", "newton", "closed form"}


def test_newton_hands_over_what_costs_it_too_much(monkeypatch):
    from jointglasso.solvers import auto

    monkeypatch.setattr(config, "DENSE_FRACTION", 2.0)  # nothing counts as dense beforehand
    monkeypatch.setattr(config, "ADMM_WORK", 1.0)
    monkeypatch.setattr(auto, "suits_columns", lambda task: False)
    source = one_factor(100, 2.0)
    solution = jgl.solve(source, 0.2, 0.05, tol=1e-8)
    assert solution.status.converged
    assert solution.methods == {"admm": 1}


def test_a_limit_on_the_iterations_holds_for_dense_groups_too():
    with pytest.warns(jgl.ConvergenceWarning, match="max_iter after 4 iterations"):
        jgl.solve(one_factor(80, 1.5), 0.2, 0.05, tol=1e-12, max_iter=4)


def test_admm_goes_on_from_a_warm_start():
    source = one_factor(60, 1.5)
    exact = jgl.solve(source, 0.2, 0.05, solver="admm", tol=1e-10)
    near = jgl.solve(source, 0.201, 0.0502, solver="admm", tol=1e-6, warm_start=exact)
    assert near.n_iter < jgl.solve(source, 0.201, 0.0502, solver="admm", tol=1e-6).n_iter


def test_many_small_groups_on_threads_give_the_same_as_on_one(monkeypatch):
    draw = np.random.default_rng(0)
    factor = draw.standard_normal((2, 50, 60)).repeat(10, axis=2)
    source = jgl.SampleCovariance(list(1.2 * factor + draw.standard_normal((2, 50, 600))), scale="correlation")
    serial = jgl.solve(source, 0.5, 0.1)
    monkeypatch.setattr(config, "MIN_COST_FOR_THREADS", 0.0)
    threaded = jgl.solve(source, 0.5, 0.1)
    assert serial.methods["columns, newton"] > 10
    for a, b in zip(serial.precision, threaded.precision, strict=True):
        assert (a != b).nnz == 0


def test_groups_that_newton_does_not_solve_together_are_solved_one_by_one(monkeypatch):
    from jointglasso.solvers import newton

    real, sizes = newton.solve_big_group, []

    def stuck_at_first(task, start, **options):
        sizes.append(len(task.system.members))
        if len(sizes) == 1:
            return start, task.bounds(start), 1, "rounding"
        return real(task, start, **options)

    monkeypatch.setattr(newton, "solve_big_group", stuck_at_first)
    S = np.kron(np.eye(3), np.array([[1.0, 0.6], [0.6, 1.0]]))[None]
    solution = jgl.solve(S, 0.1, 0.0, solver="newton")
    assert solution.status.converged
    assert sizes == [6, 2, 2, 2]
