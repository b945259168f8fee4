"""Big groups with a device: on NumPy in its place everywhere, and on a CUDA device where there is one."""

import numpy as np
import pytest
from scipy import linalg

import jointglasso as jgl
from jointglasso import config
from jointglasso.backends import gpu, matrices
from jointglasso.engine import solve_big_task


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
    monkeypatch.setattr(config, "BIG_BLOCK", 50)
    there = matrices.DeviceMatrices(np, linalg.solve_triangular)
    monkeypatch.setattr(solve_big_task, "matrices_on", lambda device: there if device == "cuda" else None)


def solve(X, device, **options):
    source = jgl.SampleCovariance(X, device="cpu")
    source.device_wanted = device
    return jgl.solve(source, 0.6, 0.2, **({"tol": 1e-6} | options))


@pytest.mark.parametrize("options", [{}, {"weights": [1.0, 2.0, 0.5]}, {"penalize_diagonal": False, "tol": 1e-4}])
def test_same_answer_with_a_device(stand_in, options):
    X = factors()
    here, there = (solve(X, device, **options) for device in ("cpu", "cuda"))
    assert there.status and there.certificate.relative_gap <= options.get("tol", 1e-6)
    tol = options.get("tol", 1e-6) * abs(here.objective)
    assert abs(here.objective - there.objective) <= 2.0 * tol
    for A, B in zip(here.precision, there.precision, strict=True):
        assert abs(A - B).max() < 0.05 * abs(A).max()


def test_factors_made_elsewhere_count_double(stand_in):
    X = factors()
    here, there = (solve(X, device).certificate for device in ("cpu", "cuda"))
    assert there.gap > here.gap > 0.0
    assert there.gap - here.gap < 1e-6


@pytest.mark.parametrize("trouble", ["memory", "factor"])
def test_a_device_that_fails_is_left_with_a_warning(stand_in, monkeypatch, trouble):
    class OutOfMemory(Exception):
        pass

    class Failing(matrices.DeviceMatrices):
        def _factor(self, lower):
            if trouble == "memory":
                raise OutOfMemory
            L = super()._factor(lower)
            return None if L is None else L * (1.0 + 1e-9)

    monkeypatch.setattr(
        solve_big_task, "matrices_on", lambda device: Failing(np, linalg.solve_triangular, (OutOfMemory,))
    )
    sentence = {"memory": "too little memory", "factor": "less exact"}[trouble]
    with pytest.warns(RuntimeWarning, match=f"on the processor: .*{sentence}") as heard:
        found = solve(factors(), "cuda")
    assert found.status and len(heard) == len(found.certificate.group_gaps) == 1


@pytest.mark.skipif(gpu.available(), reason="a CUDA device")
def test_a_device_that_is_not_there_is_left_with_a_warning(monkeypatch):
    monkeypatch.setattr(config, "BIG_BLOCK", 50)
    with pytest.warns(RuntimeWarning, match="on the processor: the device cannot be used"):
        assert solve(factors(), "cuda").status


def test_auto_leaves_groups_to_the_processor(monkeypatch):
    monkeypatch.setattr(gpu, "available", lambda: True)
    source = jgl.SampleCovariance(factors(p=20), device="auto")
    assert solve_big_task._device(source) == "cpu"
    source.device_wanted = "cuda"
    assert solve_big_task._device(source) == "cuda"


@pytest.mark.parametrize("device", ["numpy", "cuda"])
def test_matrices_elsewhere_are_those_here(device):
    if device == "cuda" and not gpu.available():
        pytest.skip("no CUDA device")
    there = matrices.matrices_on("cuda") if device == "cuda" else matrices.DeviceMatrices(np, linalg.solve_triangular)
    A = np.random.default_rng(1).standard_normal((700, 1400))
    A = A @ A.T / 700
    np.testing.assert_allclose(there.inverse(np.triu(A)), np.linalg.inv(A), atol=1e-11)
    assert abs(there.log_determinant(np.triu(A), 1e-12) - np.linalg.slogdet(A)[1]) < 1e-9
    assert there.inverse(-A) is None and np.isnan(there.log_determinant(A - 2.0 * np.eye(700), 1e-12))


@pytest.mark.skipif(not gpu.available(), reason="no CUDA device")
def test_same_answer_on_the_device(monkeypatch):
    monkeypatch.setattr(config, "BIG_BLOCK", 50)
    X = factors()
    here, there = (solve(X, device) for device in ("cpu", "cuda"))
    assert there.status and abs(here.objective - there.objective) <= 2e-6 * abs(here.objective)
