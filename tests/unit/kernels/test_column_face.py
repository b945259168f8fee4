"""A step on the face of a column goes to the minimum there, for every penalty, and never makes the column worse."""

import numpy as np
import pytest

from jointglasso.kernels.column_face import ActivePairs, step_on_face
from jointglasso.kernels.column_parts import ColumnDiagonal, allocate_workspace
from jointglasso.kernels.jit import njit
from jointglasso.problem import make_problem

K, N = 3, 12
PENALTIES = {
    "group": {},
    "fused": {},
    "chain": {},
    "laplacian": {"class_graph": [(0, 1), (1, 2, 2.0)]},
}


def column(seed):
    """A column whose variables share a factor; class 2 lacks a pair."""
    draw = np.random.default_rng(seed)
    gram = np.zeros((K, N, N))
    for k in range(K):
        samples = draw.standard_normal((60, N)) * 0.5 + draw.standard_normal((60, 1))
        gram[k] = samples.T @ samples / 60
    held = np.ones((K, N), dtype=bool)
    held[2, 3] = False
    gram[2, 3, :] = gram[2, :, 3] = 0.0
    covariance = np.where(held, -draw.uniform(0.2, 1.0, (K, N)), 0.0)
    own = ColumnDiagonal(np.array([1.0, 2.0, 0.5]), np.full(K, 2.0), draw.uniform(1.0, 3.0, K))
    at = np.where(held.T, np.arange(N)[:, None], -1)
    factor = draw.uniform(0.5, 2.0, N)
    return ActivePairs(gram, covariance, at, factor, np.tile(0.02 * factor, (K, 1))), own


def objective(penalty, pairs, own, x):
    total = 0.0
    for k in range(K):
        total += own.weight[k] * (0.5 * x[k] @ pairs.gram[k] @ x[k] / own.tau[k] + pairs.covariance[k] @ x[k])
    rows, entries = penalty.as_entries(x.T.copy(), pairs.factor)
    return total + penalty.value(rows, entries).sum()


@njit
def step(penalty, pairs, own, x, product, workspace_size):
    return step_on_face(penalty, pairs, own, 1e-12, x, product, allocate_workspace(x.shape[0], workspace_size))


@pytest.mark.parametrize("name", PENALTIES)
@pytest.mark.parametrize("seed", range(3))
def test_steps_reach_the_minimum_on_the_face(name, seed):
    penalty = make_problem(np.stack([np.eye(2)] * K), 0.02, 0.01, penalty=name, **PENALTIES[name]).penalty
    pairs, own = column(seed)
    draw = np.random.default_rng(100 + seed)
    # One sign a pair, values of two classes equal and tied, some zeros: a face of each kind.
    x = draw.uniform(0.5, 1.5, (K, N))
    x[1, ::2] = x[0, ::2]
    x[:, 5], x[1, 7] = 0.0, 0.0
    x[pairs.slot.T < 0] = 0.0
    product = np.einsum("kab,kb->ka", pairs.gram, x)
    face, value = x != 0.0, objective(penalty, pairs, own, x)
    for _ in range(12):
        moved = step(penalty.pair, pairs, own, x, product, penalty.workspace_size(K))
        assert not (x[~face]).any()
        after = objective(penalty, pairs, own, x)
        assert after <= value + 1e-12
        assert product == pytest.approx(np.einsum("kab,kb->ka", pairs.gram, x), abs=1e-10)
        value = after
        if not moved:
            break
    if name in ("fused", "chain"):  # what was equal stays so
        tied = (face[0] & face[1])[::2]
        assert x[0, ::2][tied] == pytest.approx(x[1, ::2][tied], abs=1e-13)
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
        slope = (objective(penalty, pairs, own, x + h * d) - objective(penalty, pairs, own, x - h * d)) / (2 * h)
        assert abs(slope) < 1e-5 * np.abs(d).sum()
