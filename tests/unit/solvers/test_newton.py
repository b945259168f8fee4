"""The pieces of Newton's method against LAPACK and plain NumPy, and the choice of the method."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

import jointglasso as jgl
from bank import BANK
from jointglasso import config
from jointglasso._threads import balanced_bounds
from jointglasso.blocks import build_system
from jointglasso.blocks.support import SymmetricSupport, conjugate_gradients
from jointglasso.engine.nonzeros import flat_from_precisions
from jointglasso.kernels import dense, group_pair
from jointglasso.kernels.jit import njit
from jointglasso.kernels.pair_types import Entries, GroupPair, PairClasses, PenaltyWorkspace
from jointglasso.problem import make_problem
from jointglasso.screening import Partition
from jointglasso.solvers.base import BestSoFar, SolverTask, run
from jointglasso.solvers.newton import NewtonOnFaces


@njit
def cholesky(A, L):
    return dense.cholesky(A, L)


@njit
def invert(L, W, scratch):
    dense.invert(L, W, scratch)


@njit
def update(penalty, a, b, pair, out):
    group_pair.update(penalty, a, b, pair, out)


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
    pair = PairClasses(none, 1, 1.0, np.array([1.0]), PenaltyWorkspace(x[None], none[None]))
    update(GroupPair(1.0, 3.0), np.array([4.0]), np.array([8.0]), pair, x)
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


def test_balanced_bounds_cover_all_tasks_in_order():
    cost = np.array([5.0, 1.0, 1.0, 1.0, 1.0, 1.0])
    assert balanced_bounds(cost, 2).tolist() == [0, 1, 6]
    assert balanced_bounds(cost, 1).tolist() == [0, 6]


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


# Products and linear systems on a support


def blocks_and_support(density, rng, sizes=(3, 7, 40)):
    """Covariance-like blocks in flat storage, and a random support with all diagonal entries."""
    W, row, column, first = [], [], [], 0
    for b in sizes:
        W.append(np.cov(rng.standard_normal((b, 3 * b)) + rng.standard_normal(3 * b)).ravel())
        i, j = np.nonzero(np.triu(rng.random((b, b)) < density, 1))
        row += [first + np.append(i, np.arange(b))]
        column += [first + np.append(j, np.arange(b))]
        first += b
    size = np.array(sizes)
    offset = np.concatenate([[0], np.cumsum(size**2)])
    return np.concatenate(W), offset, size, np.concatenate(row), np.concatenate(column)


@pytest.mark.parametrize("n_threads", [1, 2])
@pytest.mark.parametrize("density", [0.02, 0.9])
@pytest.mark.parametrize("precision", [np.float64, np.float32])
def test_product_is_w_d_w_on_the_support(precision, density, n_threads):
    rng = np.random.default_rng(1)
    W, offset, size, row, column = blocks_and_support(density, rng)
    support = SymmetricSupport(offset, size, row, column, n_threads)
    d, wanted = 1e5 * rng.standard_normal(len(row)), rng.random(len(row)) < 0.8
    product = support.product(W.astype(precision), d, wanted)
    first = np.concatenate([[0], np.cumsum(size)])
    for block, b in enumerate(size):
        mask = (row >= first[block]) & (row < first[block + 1])
        i, j = row[mask] - first[block], column[mask] - first[block]
        D, matrix = np.zeros((b, b)), W[offset[block] : offset[block + 1]].reshape(b, b)
        D[i, j] = D[j, i] = d[mask]
        expected = np.where(wanted[mask], (matrix @ D @ matrix)[i, j], 0.0)
        tolerance = 1e-5 if precision == np.float32 else 1e-12
        np.testing.assert_allclose(product[mask], expected, atol=tolerance * np.abs(expected).max())


def test_dense_supports_use_dense_products():
    rng = np.random.default_rng(1)
    assert not SymmetricSupport(*blocks_and_support(0.02, rng)[1:]).is_dense
    assert SymmetricSupport(*blocks_and_support(0.9, rng)[1:]).is_dense


def test_conjugate_gradients_solve_independent_groups_at_a_time():
    rng = np.random.default_rng(2)
    A = [np.cov(rng.standard_normal((b, 4 * b))) for b in (1, 5, 9)]
    group = np.repeat(np.arange(3), (1, 5, 9))
    matrix = np.zeros((15, 15))
    for number, block in enumerate(A):
        matrix[np.ix_(group == number, group == number)] = block
    target = rng.standard_normal(15) * np.array([1e-9, 1e-8, 1e-7])[group]  # the forcing term ends larger ones early
    x, steps = conjugate_gradients(
        lambda v: matrix @ v, lambda r: r / np.diagonal(matrix), target,
        lambda v: np.bincount(group, v, minlength=3), lambda length: length[group], np.zeros(3), 40,
    )  # fmt: skip
    assert steps < 40
    np.testing.assert_allclose(x, np.linalg.solve(matrix, target), rtol=1e-6)


# Faces of every penalty

PENALTIES = ("group", "maximum", "fused", "chain", "graph", "laplacian")
RING = {(0, 1): 1.0, (1, 2): 2.0, (2, 3): 1.0, (0, 3): 0.5}


def penalty_of(name, lambda1=0.3, lambda2=0.2):
    options = {"class_graph": RING} if name == "graph" else {}
    S = np.stack([np.eye(2)] * 4)
    return make_problem(S, lambda1, lambda2, penalty=name, **options).penalty


def random_faces(penalty, rng, n_pairs=200):
    """Values on a coarse grid, with zeros, equal values, and values of equal size and opposite sign."""
    values = 0.5 * rng.integers(-2, 3, (n_pairs, 4)).astype(float)
    flat, entries = penalty.as_entries(values, rng.choice([0.5, 1.0, 2.0], n_pairs))
    return flat, entries


@pytest.mark.parametrize("name", PENALTIES)
def test_gradient_and_hessian_on_a_face_are_derivatives_of_the_value(name):
    rng, penalty = np.random.default_rng(3), penalty_of(name)
    theta, entries = random_faces(penalty, rng)
    cluster, gradient = penalty.face(theta, entries)
    z = rng.standard_normal(cluster.max() + 1)
    signs = np.zeros(cluster.max() + 1)
    signs[cluster[::-1]] = np.sign(theta[::-1])
    # Only the maximum penalty has clusters of both signs.
    step = np.where(cluster >= 0, np.sign(theta) * signs[cluster] * z[cluster], 0.0)
    h = 1e-6
    upper, lower = (penalty.value(theta + s * step, entries) for s in (h, -h))
    per_pair = np.add.reduceat(gradient * step, entries.start[:-1])
    np.testing.assert_allclose((upper - lower) / (2 * h), per_pair, atol=1e-7)
    hvp = penalty.hvp(theta, step, entries)
    above, below = (penalty.face(theta + s * step, entries)[1] for s in (h, -h))
    difference = np.where(theta != 0.0, (above - below) / (2 * h), 0.0)
    np.testing.assert_allclose(hvp, difference, atol=1e-6 * max(1.0, np.abs(hvp).max()))


@pytest.mark.parametrize("name", ["group", "laplacian"])
def test_diagonal_of_the_hessian(name):
    rng, penalty = np.random.default_rng(4), penalty_of(name)
    theta, entries = random_faces(penalty, rng, 20)
    diagonal = penalty.hessian_diagonal(theta, entries)
    for e in range(len(theta)):
        unit = np.zeros(len(theta))
        unit[e] = 1.0
        assert diagonal[e] == pytest.approx(penalty.hvp(theta, unit, entries)[e])


@pytest.mark.parametrize("name", PENALTIES)
def test_retracted_points_have_the_signs_and_the_order_of_the_face(name):
    rng, penalty = np.random.default_rng(5), penalty_of(name)
    theta, entries = random_faces(penalty, rng)
    cluster, _ = penalty.face(theta, entries)
    signs = np.zeros(cluster.max() + 1)
    signs[cluster[::-1]] = np.sign(theta[::-1])
    z = 1.5 * rng.standard_normal(cluster.max() + 1)
    trial = np.where(cluster >= 0, theta + np.sign(theta) * signs[cluster] * z[cluster], 0.0)
    new = penalty.retract(theta, trial, entries).reshape(-1, 4)
    old, trial = theta.reshape(-1, 4), trial.reshape(-1, 4)
    assert (new * old >= 0.0).all()
    assert not new[old == 0.0].any()
    for k, m in penalty.fused_class_pairs:
        assert ((old[:, k] - old[:, m]) * (new[:, k] - new[:, m]) >= 0.0).all()
        assert (new[:, k] == new[:, m])[(old[:, k] == old[:, m])].all() or name == "graph"
    if name == "maximum":
        top = np.abs(old) == np.abs(old).max(axis=1, keepdims=True)
        largest = np.broadcast_to(np.abs(new).max(axis=1, keepdims=True), new.shape)
        np.testing.assert_array_equal(np.abs(new)[top], largest[top])
    inside = (trial * old >= 0.0).all(axis=1)
    for k, m in penalty.fused_class_pairs:
        inside &= (old[:, k] - old[:, m]) * (trial[:, k] - trial[:, m]) >= 0.0
    if name == "maximum":
        inside &= np.where(top, np.abs(trial), np.inf).min(axis=1) >= np.where(top, 0.0, np.abs(trial)).max(axis=1)
    assert inside.any()
    np.testing.assert_array_equal(new[inside], trial[inside])


def test_unpenalised_entries_may_change_their_sign():
    penalty = penalty_of("group")
    entries = Entries(np.array([0, 1, 2]), np.empty(0, dtype=np.int64), np.array([0.0, 1.0]), 1)
    moved = penalty.retract(np.array([0.5, 0.5]), np.array([-0.5, -0.5]), entries)
    assert moved.tolist() == [-0.5, 0.0]


# The method


def correlations(p, n_classes, n_samples=60, factor=0.0):
    """Sparsely mixed variables, with a common factor of the given strength."""
    rng = np.random.default_rng(1)
    mixing = np.eye(p) + 0.5 * (rng.random((p, p)) < 1.5 / p)
    samples = rng.standard_normal((n_classes, n_samples, p)) @ mixing
    samples += factor * rng.standard_normal((n_classes, n_samples, 1))
    return np.array([np.corrcoef(X.T) for X in samples])


CASES = {
    "plain": {},
    "free diagonal": {"penalize_diagonal": False},
    "weights": {"weights": [0.5, 2.0, 1.0, 1.0]},
    "pair weights": {"pair_weights": {(0, 1): 0.0, (1, 2): 0.3, (2, 5): 4.0, (3, 4): np.inf, (0, 6): np.inf}},
}


@pytest.mark.parametrize("factor", [0.0, 1.0], ids=["sparse", "common factor"])
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("penalty", PENALTIES)
def test_newton_agrees_with_admm_for_every_penalty(penalty, case, factor):
    S = correlations(16, 4, 40, factor)
    options = {"penalty": penalty, "tol": 1e-9, "screening": "none", **CASES[case]}
    if penalty == "graph":
        options["class_graph"] = RING
    newton = jgl.solve(S, 0.12, 0.06, solver="newton", **options)
    admm = jgl.solve(S, 0.12, 0.06, solver="admm", **options)
    assert newton.status.converged and newton.methods == {"newton": 1}
    assert abs(newton.objective - admm.objective) <= newton.certificate.gap + admm.certificate.gap + 1e-12
    assert newton.n_iter <= 30
    for one, other in zip(newton.precision, admm.precision, strict=True):
        assert abs(one - other).max() <= 2e-3 * abs(other).max()


@pytest.mark.parametrize("penalty", ["fused", "chain"])
def test_newton_takes_a_fused_diagonal(penalty):
    S = correlations(12, 3, 40, 1.0) * np.linspace(0.5, 2.0, 12)[:, None] * np.linspace(0.5, 2.0, 12)
    options = {"penalty": penalty, "fuse_diagonal": True, "tol": 1e-9}
    newton = jgl.solve(S, 0.1, 0.1, solver="newton", **options)
    assert newton.status.converged
    assert newton.objective == pytest.approx(jgl.solve(S, 0.1, 0.1, solver="admm", **options).objective, rel=2e-9)
    diagonals = np.array([Theta.diagonal() for Theta in newton.precision])
    assert (diagonals[0] == diagonals[1]).any()


@pytest.mark.parametrize("penalty", PENALTIES)
def test_newton_finds_ties_of_equal_classes_and_equal_variables(penalty):
    """Classes with the same covariances have the same solution; exchangeable variables have equal entries."""
    S = np.full((6, 6), 0.5) + 0.5 * np.eye(6)
    options = {"class_graph": {(0, 1): 1.0, (1, 2): 1.0}} if penalty == "graph" else {}
    solution = jgl.solve(np.stack([S] * 3), 0.1, 0.05, penalty=penalty, solver="newton", tol=1e-11, **options)
    assert solution.status.converged
    for Theta in solution.precision:
        off = Theta.toarray()[np.triu_indices(6, 1)]
        np.testing.assert_allclose(off, off[0], rtol=1e-4)
        np.testing.assert_allclose(Theta.toarray(), solution.precision[0].toarray(), rtol=1e-4, atol=1e-8)


@pytest.mark.parametrize("penalty", PENALTIES)
def test_a_few_steps_square_the_gap_away(penalty):
    S = correlations(40, 4)
    options = {"penalty": penalty, "penalize_diagonal": False}
    if penalty == "graph":
        options["class_graph"] = RING
    problem = make_problem(S, 0.15, 0.05, **options)
    rough = jgl.solve(S, 0.15, 0.05, tol=1e-1, max_iter=1, screening="none", **options)
    system = build_system(problem.source, Partition.single_block(4, 40).class_blocks, problem.weights)
    theta = flat_from_precisions(system, rough.precision, 40)
    task = SolverTask(system, problem.penalty, 0.0, np.ones(1), 1e-11, 0.0, 100, theta, warm=True)
    best = BestSoFar(task)
    assert best.gap > 1e-5
    taken, reason = run(NewtonOnFaces(task, np.array([""], dtype=object)), best, 8)
    assert reason == "tolerance" and best.gap < 1e-9 and taken <= 7
    tight = jgl.solve(S, 0.15, 0.05, tol=1e-12, **options)
    expected = flat_from_precisions(system, tight.precision, 40)
    assert best.theta == pytest.approx(expected, abs=1e-4)
    assert ((best.theta == 0.0) == (expected == 0.0)).all()


def test_big_groups_of_a_fused_penalty_need_no_other_method():
    S = correlations(270, 2, 100)
    solution = jgl.solve(S, 0.14, 0.05, penalty="fused", penalize_diagonal=False)
    assert solution.partition.largest > 256
    assert "admm" not in solution.methods
    assert solution.status.converged


@pytest.mark.parametrize("penalty", ["group", "fused"])
def test_many_groups_are_iterated_together(penalty):
    blocks = [correlations(p, 2, 30)[:, :p, :p] for p in (4, 8, 12)]
    S = np.zeros((2, 24, 24))
    for block, first in zip(blocks, (0, 4, 12), strict=True):
        S[:, first : first + block.shape[1], first : first + block.shape[1]] = block
    together = jgl.solve(S, 0.1, 0.05, penalty=penalty, solver="newton", tol=1e-9)
    alone = sum(jgl.solve(b, 0.1, 0.05, penalty=penalty, solver="newton", tol=1e-9).objective for b in blocks)
    assert together.status.converged and together.objective == pytest.approx(alone, rel=2e-9)


def test_a_start_that_is_not_definite_is_replaced():
    S = correlations(10, 2)
    problem = make_problem(S, 0.1, 0.05)
    system = build_system(problem.source, Partition.single_block(2, 10).class_blocks, problem.weights)
    theta = np.tile(np.full((10, 10), 1.0).ravel(), 2)
    task = SolverTask(system, problem.penalty, problem.diagonal_penalty, np.ones(1), 1e-8, 0.0, 100, theta)
    best = BestSoFar(task)
    _, reason = run(NewtonOnFaces(task, np.array([""], dtype=object)), best, 50)
    assert reason == "tolerance" and best.gap <= 1e-8 * best.objective


def test_newton_stops_at_its_work_limit():
    source = one_factor(60, 1.5)
    problem = make_problem(source, 0.2, 0.05)
    system = build_system(problem.source, Partition.single_block(2, 60).class_blocks, problem.weights)
    start = np.zeros(len(system.S))
    start[system.diagonal] = 1.0
    task = SolverTask(system, problem.penalty, problem.diagonal_penalty, np.ones(1), 1e-9, 0.0, 100, start)
    method = NewtonOnFaces(task, np.array([""], dtype=object), work_limit=1.0)
    taken, reason = run(method, BestSoFar(task), 50)
    assert reason == "work" and taken < 10
