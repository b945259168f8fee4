"""A step on the face of a column goes to the minimum there, for every penalty, and never makes the column worse."""

import numpy as np
import pytest

from jointglasso.kernels.column_face import step_on_face
from jointglasso.kernels.column_parts import COVARIANCE, L1, PRODUCT, TAU, VARIANCE, WEIGHT, Column, X
from jointglasso.kernels.jit import njit
from jointglasso.problem import make_problem

K, N = 3, 12
PENALTIES = {
    "group": {},
    "fused": {},
    "chain": {},
    "laplacian": {"class_graph": [(0, 1), (1, 2, 2.0)]},
}


def draw_column(seed, workspace_size):
    """A column whose variables share a factor, with room for more of them; class 2 lacks a pair. And W_11."""
    draw = np.random.default_rng(seed)
    gram = np.zeros((K, N, N))
    for k in range(K):
        samples = draw.standard_normal((60, N)) * 0.5 + draw.standard_normal((60, 1))
        gram[k] = samples.T @ samples / 60
    present = np.ones((K, N), dtype=bool)
    present[2, 3] = False
    gram[2, 3, :] = gram[2, :, 3] = 0.0
    column = Column.allocate(K, N + 5, N + 5, workspace_size, N + 5, gram)
    column.gram[: gram.size] = gram.ravel()
    column.t[COVARIANCE, :, :N] = np.where(present, -draw.uniform(0.2, 1.0, (K, N)), 0.0)
    column.diagonal[WEIGHT], column.diagonal[VARIANCE] = np.array([1.0, 2.0, 0.5]), 2.0
    column.diagonal[TAU] = draw.uniform(1.0, 3.0, K)
    column.slot[:, :N] = np.where(present, np.arange(N), -1)
    column.coupling[:N] = draw.uniform(0.5, 2.0, N)
    column.t[L1, :, :N] = 0.02 * column.coupling[:N]
    return column, gram


def objective(penalty, column, gram, x):
    total = 0.0
    for k in range(K):
        weight, tau, covariance = column.diagonal[WEIGHT, k], column.diagonal[TAU, k], column.t[COVARIANCE, k, :N]
        total += weight * (0.5 * x[k] @ gram[k] @ x[k] / tau + covariance @ x[k])
    rows, entries = penalty.as_entries(x.T.copy(), column.coupling[:N].copy())
    return total + penalty.value(rows, entries).sum()


@njit
def step(penalty, column):
    return step_on_face(penalty, N, 1e-12, column)


@pytest.mark.parametrize("name", PENALTIES)
@pytest.mark.parametrize("seed", range(3))
def test_steps_reach_the_minimum_on_the_face(name, seed):
    penalty = make_problem(np.stack([np.eye(2)] * K), 0.02, 0.01, penalty=name, **PENALTIES[name]).penalty
    column, gram = draw_column(seed, penalty.workspace_size(K))
    draw = np.random.default_rng(100 + seed)
    # One sign a pair, values of two classes equal and tied, some zeros: a face of each kind.
    x, product = column.t[X, :, :N], column.t[PRODUCT, :, :N]
    x[:] = draw.uniform(0.5, 1.5, (K, N))
    x[1, ::2] = x[0, ::2]
    x[:, 5], x[1, 7] = 0.0, 0.0
    x[column.slot[:, :N] < 0] = 0.0
    product[:] = np.einsum("kab,kb->ka", gram, x)
    face, value = x != 0.0, objective(penalty, column, gram, x)
    for _ in range(12):
        moved = step(penalty.pair, column)
        assert not (x[~face]).any()
        after = objective(penalty, column, gram, x)
        assert after <= value + 1e-12
        assert product == pytest.approx(np.einsum("kab,kb->ka", gram, x), abs=1e-10)
        value = after
        if not moved:
            break
    if name in ("fused", "chain"):  # what was equal stays so
        equal = (face[0] & face[1])[::2]
        assert x[0, ::2][equal] == pytest.approx(x[1, ::2][equal], abs=1e-13)
    # No direction that keeps zeros, signs and equal values goes down.
    for _ in range(20):
        d = draw.standard_normal((K, N)) * (x != 0.0)
        if name in ("fused", "chain"):
            equal = x[0] == x[1]
            d[1, equal] = d[0, equal]
            equal = x[1] == x[2]
            d[2, equal] = d[1, equal]
            both = (x[0] == x[2]) & (x[0] == x[1])
            d[1, both] = d[2, both] = d[0, both]
        h = 1e-5
        slope = (objective(penalty, column, gram, x + h * d) - objective(penalty, column, gram, x - h * d)) / (2 * h)
        assert abs(slope) < 1e-5 * np.abs(d).sum()
