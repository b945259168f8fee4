"""The pieces of the compiled Newton method against the certificate, LAPACK and plain NumPy."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

import jointglasso as jgl
from jointglasso.blocks import build_system
from jointglasso.certificate import bound_groups
from jointglasso.engine.assemble import flat_from_precisions
from jointglasso.kernels import face, group_state, newton
from jointglasso.problem import make_problem
from jointglasso.screening.rules import partition_by
from jointglasso.solvers.newton import _entry_slots


@pytest.fixture(scope="module", params=[(0.1, 0.05, 1e-2), (0.1, 0.05, 1e-6), (0.0, 0.2, 1e-3), (0.15, 0.0, 1e-3)])
def state(request):
    """One coupled group of three classes near its optimum, with everything the kernels take."""
    lambda1, lambda2, tol = request.param
    rng = np.random.default_rng(5)
    samples = [rng.standard_normal((40, 7)) + 0.6 * rng.standard_normal((40, 1)) for _ in range(3)]
    problem = make_problem(jgl.SampleCovariance(samples), lambda1, lambda2, weights=[1.0, 0.5, 2.0])
    partition = partition_by("none", problem.source, problem.penalty, problem.weights)
    system = build_system(problem.source, partition.class_blocks, problem.weights)
    rough = jgl.solve(problem.source, lambda1, lambda2, weights=[1.0, 0.5, 2.0], solver="proximal_gradient", tol=tol)
    theta = flat_from_precisions(system, rough.precision, 7)
    row, column = _entry_slots(system)
    inverse = np.concatenate([np.linalg.inv(T.toarray()).ravel() for T in rough.precision])
    return SimpleNamespace(
        problem=problem, system=system, theta=theta, row=row, column=column, W=inverse,
        blocks=np.arange(system.n_blocks), pairs=np.arange(system.n_pairs),
        penalties=(lambda1, lambda2, problem.diagonal_penalty),
    )  # fmt: skip


def test_cholesky_and_inverse_agree_with_lapack():
    A = np.cov(np.random.default_rng(0).standard_normal((6, 30)))
    L, W = np.zeros((6, 6)), np.zeros((6, 6))
    assert group_state.cholesky(A, L) == pytest.approx(np.linalg.slogdet(A)[1], rel=1e-13)
    np.testing.assert_allclose(L, np.linalg.cholesky(A), atol=1e-14)
    group_state.invert(L, W, np.zeros((6, 6)))
    np.testing.assert_allclose(W, np.linalg.inv(A), rtol=1e-11)


def test_cholesky_of_an_indefinite_matrix_is_infinite():
    assert group_state.cholesky(np.array([[1.0, 2.0], [2.0, 1.0]]), np.zeros((2, 2))) == np.inf


def objective(state, theta):
    s = state.system
    L = np.zeros_like(theta)
    value = group_state.group_objective(
        state.blocks, state.pairs, s.pair_start, s.upper, s.offset, s.size, s.block_weight, s.S, theta, L,
        *state.penalties,
    )  # fmt: skip
    return value, L


def test_objective_and_gap_agree_with_the_certificate(state):
    s = state.system
    bounds = bound_groups(s, state.theta, state.problem.penalty, state.problem.diagonal_penalty)
    value, L = objective(state, state.theta)
    assert value == pytest.approx(bounds.total_objective, rel=1e-13)
    gap = group_state.group_gap(
        state.blocks, state.pairs, s.pair_start, s.upper, s.entry_block, state.row, state.column, s.offset, s.size,
        s.block_weight, s.S, state.W, state.theta, L, np.zeros_like(L), np.zeros((7, 7)), *state.penalties,
    )  # fmt: skip
    assert gap >= bounds.total_gap * (1 - 1e-6)  # a bound, tight near the optimum
    assert gap <= bounds.total_gap * 1.5 + 1e-12


def small_direction(state, size):
    """A symmetric direction that keeps the zeros of theta."""
    s = state.system
    rng = np.random.default_rng(1)
    nonzero = s.gather(state.theta) != 0
    D = s.scatter(np.where(nonzero, rng.standard_normal(len(s.upper)), 0.0), rng.standard_normal(len(s.members)))
    return size * D


def test_expected_change_is_the_slope_of_the_objective(state):
    s = state.system
    D = small_direction(state, 1e-6)
    change = group_state.expected_change(
        state.blocks, state.pairs, s.pair_start, s.upper, s.offset, s.size, s.block_weight, s.S, state.W, state.theta,
        D, *state.penalties,
    )  # fmt: skip
    forward, backward = objective(state, state.theta + D)[0], objective(state, state.theta - D)[0]
    assert change == pytest.approx(
        (forward - backward) / 2, rel=1e-3, abs=1e-12
    )  # the penalty is taken at the full step


def model_gradient(state, D):
    """Gradient of the Newton model plus penalty at theta + D, dense, on the non-zeros; computed class by class."""
    s, (lambda1, lambda2, lambda_d) = state.system, state.penalties
    smooth = np.empty_like(D)
    for block in range(s.n_blocks):
        piece = slice(s.offset[block], s.offset[block + 1])
        S, W, change = (flat[piece].reshape(7, 7) for flat in (s.S, state.W, D))
        smooth[piece] = (s.block_weight[block] * (S - W + W @ change @ W)).ravel()
    z = s.gather(state.theta + D)
    norm = np.sqrt(np.bincount(s.pair_of_entry, z**2))[s.pair_of_entry]
    group = np.divide(z, norm, out=np.zeros_like(z), where=norm > 0)
    off_diagonal = np.where(z != 0, s.gather(smooth) + lambda1 * np.sign(z) + lambda2 * group, 0.0)
    return off_diagonal, smooth[s.diagonal] + lambda_d


def test_solving_on_the_face_removes_the_gradient_there(state):
    s = state.system
    D, DW = np.zeros_like(state.theta), np.zeros_like(state.theta)
    for _ in range(6):  # the model is not quadratic in the group norm: each call is one Newton step on the face
        face.solve_on_face(
            state.blocks, state.pairs, s.pair_start, s.upper, s.entry_block, state.row, state.column, s.offset, s.size,
            s.block_weight, s.S, state.W, state.theta, D, DW, np.zeros((5, len(D))), 1e-20, *state.penalties,
        )  # fmt: skip
    before = np.abs(np.concatenate(model_gradient(state, np.zeros_like(D)))).max()
    after = np.abs(np.concatenate(model_gradient(state, D))).max()
    assert after <= max(1e-6 * before, 1e-10)
    for block in range(s.n_blocks):
        piece = slice(s.offset[block], s.offset[block + 1])
        change, W, product = (flat[piece].reshape(7, 7) for flat in (D, state.W, DW))
        np.testing.assert_allclose(product, change @ W, atol=1e-9)


def test_minimise_pair_with_one_class_is_soft_thresholding():
    x = np.zeros(1)
    newton.minimise_pair(np.array([2.0]), np.array([4.0]), 1.0, 3.0, x, 1)
    assert x[0] == pytest.approx((8.0 - 1.0 - 3.0) / 4.0)
