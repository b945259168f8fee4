"""Big groups with a device: on NumPy in its place everywhere, and on a CUDA device where there is one."""

import numpy as np
import pytest

import jointglasso as jgl
from jointglasso import tuning
from jointglasso.backends import arrays, gpu
from jointglasso.backends.group_arrays import GroupArrays
from jointglasso.engine import big_work
from jointglasso.kernels.pair_types import Entries
from jointglasso.penalties import ANY_CLASS, UNIFORM, GroupPenalty
from jointglasso.solvers import big_sweeps


def factors(p=110, seed=3):
    """Classes of correlated variables, the last of which has few strong pairs: blocks of different sizes."""
    draw = np.random.default_rng(seed)
    X = []
    for k, strength in enumerate((1.0, 0.9, 0.6)):
        common = draw.standard_normal((40 + 5 * k, 12))
        load = draw.standard_normal((12, p)) * (draw.random((12, p)) < 0.15)
        X.append((strength * common @ load + 0.5 * draw.standard_normal((len(common), p))) * draw.uniform(0.5, 3.0, p))
    return X


@pytest.fixture
def stand_in(monkeypatch):
    """NumPy in the place of a device; groups count as big from 50 variables on."""
    monkeypatch.setattr(tuning, "BIG_BLOCK", 50)
    monkeypatch.setattr(big_sweeps, "arrays_on", lambda device: arrays.HostArrays())
    monkeypatch.setattr(gpu, "require_device", lambda: None)


def solve(X, device, **options):
    source = jgl.SampleCovariance(X, device="cpu")
    source.device_wanted = device
    return jgl.solve(source, 0.6, 0.2, **({"tol": 1e-6} | options))


@pytest.mark.parametrize("options", [{}, {"weights": [1.0, 2.0, 0.5]}, {"penalize_diagonal": False, "tol": 1e-4}])
def test_same_answer_with_a_device(stand_in, options):
    X = factors()
    here, there = (solve(X, device, **options) for device in ("cpu", "cuda"))
    assert there.status and "columns, newton" in there.methods
    assert there.certificate.relative_gap <= options.get("tol", 1e-6)
    tol = options.get("tol", 1e-6) * abs(here.objective)
    assert abs(here.objective - there.objective) <= 2.0 * tol
    for A, B in zip(here.precision, there.precision, strict=True):
        assert abs(A - B).max() < 0.05 * abs(A).max()


def test_the_group_penalty_on_arrays_is_that_of_the_kernels():
    draw = np.random.default_rng(0)
    K, P = 3, 400
    theta = draw.standard_normal((K, P)) * (draw.random((K, P)) < 0.5)
    u, a = 1.5 * draw.standard_normal((K, P)), draw.uniform(0.2, 5.0, (K, P))
    for l1, l2 in ((0.4, 0.3), (0.5, 0.0), (0.0, 0.7)):
        penalty, over = GroupPenalty(l1, l2), GroupArrays(np, l1, l2)
        entries = Entries(np.arange(0, K * P + 1, K), ANY_CLASS, UNIFORM, K)

        def flat(x):
            return np.ascontiguousarray(x.T).ravel()

        def whole(x):
            return x.reshape(P, K).T

        np.testing.assert_allclose(over.value(theta), penalty.value(flat(theta), entries).sum())
        np.testing.assert_array_equal(over.outside(u), ~penalty.inside(flat(u), entries))
        nearest = penalty.nearest_subgradient(flat(theta), flat(u), entries)
        np.testing.assert_allclose(over.nearest_subgradient(theta, u), whole(nearest), atol=1e-12)
        updated = penalty.update(flat(a), flat(u), entries)
        np.testing.assert_allclose(over.update(a, u), whole(updated), atol=1e-7)


def test_the_objective_that_is_heard_is_that_of_the_problem(stand_in):
    heard = []
    found = solve(factors(), "cuda", callback=lambda iteration: heard.append(iteration.objective))
    assert len(heard) > 3 and found.status
    assert min(heard) >= found.objective - 1e-5 * abs(found.objective)
    assert abs(heard[-1] - found.objective) <= 1e-5 * abs(found.objective)


def test_what_the_device_leaves_is_done_here(stand_in, monkeypatch):
    monkeypatch.setattr(tuning, "DEVICE_MAX_ITER", 1)
    found = solve(factors(), "cuda")
    assert found.status and found.certificate.relative_gap <= 1e-6


@pytest.mark.parametrize("trouble", ["memory", "factor", "missing"])
def test_a_device_that_fails_is_left_with_a_warning(stand_in, monkeypatch, trouble):
    class OutOfMemory(Exception):
        pass

    class Failing(arrays.HostArrays):
        errors = (OutOfMemory,)

        def factor(self, matrix):
            if trouble == "memory":
                raise OutOfMemory
            L = super().factor(matrix)
            return None if L is None else L * (1.0 + 1e-9)

    def on(device):
        if trouble == "missing":
            raise gpu.DeviceFailed("the device cannot be used: no driver")
        return Failing()

    monkeypatch.setattr(big_sweeps, "arrays_on", on)
    sentence = {"memory": "too little memory", "factor": "less exact", "missing": "no driver"}[trouble]
    with pytest.warns(RuntimeWarning, match=f"on the processor: .*{sentence}"):
        found = solve(factors(), "cuda")
    assert found.status and set(found.methods) == {"columns"}


def test_auto_leaves_groups_to_the_processor(monkeypatch):
    monkeypatch.setattr(gpu, "available", lambda: True)
    source = jgl.SampleCovariance(factors(p=20), device="auto")
    assert big_work._device(source) == "cpu"
    source.device_wanted = "cuda"
    assert big_work._device(source) == "cuda"


@pytest.mark.skipif(not gpu.available(), reason="no CUDA device")
def test_the_device_does_what_numpy_does():
    draw, here, there = np.random.default_rng(1), arrays.HostArrays(), arrays.arrays_on("cuda")
    n = 700
    A = draw.standard_normal((n, 2 * n))
    A = A @ A.T / n
    mine, its = (a.inverse(a.factor(a.array(A.copy()))) for a in (here, there))
    np.testing.assert_allclose(there.numpy(its), mine, atol=1e-11)
    assert there.factor(there.array(-A)) is None
    i, j = draw.integers(0, n, (2, 5000))
    key = np.unique(i * n + j)
    i, j, value, W = key // n, key % n, draw.standard_normal(len(key)), A.astype(np.float32)
    results = []
    for a in (here, there):
        ends = a.array(i), a.array(j)
        T = a.rows_times(a.pattern(*ends, n), a.array(value), a.array(W))
        results.append((a.numpy(T), a.numpy(a.dots(T, a.array(W), *ends))))
    for mine, its in zip(*results, strict=True):
        np.testing.assert_allclose(its, mine, atol=1e-5 * np.abs(mine).max())


@pytest.mark.skipif(not gpu.available(), reason="no CUDA device")
def test_same_answer_on_the_device(monkeypatch):
    monkeypatch.setattr(tuning, "BIG_BLOCK", 50)
    X = factors()
    here, there = (solve(X, device) for device in ("cpu", "cuda"))
    assert there.status and "columns, newton" in there.methods
    assert abs(here.objective - there.objective) <= 2e-6 * abs(here.objective)
