"""Statements of the theory pages (docs/theory) that a small computation can contradict."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import linalg

import jointglasso as jgl
from jointglasso.certificate import gap_radii, precision_radius

# --- certificate: radii (Theorem C3) ---------------------------------------------------------------------------------


@pytest.mark.parametrize("gap", [1e-8, 1e-4, 0.01, 0.3, 2.0])
@pytest.mark.parametrize("weight", [0.2, 1.0, 5.0])
def test_radius_of_the_precision_matrix_is_the_extreme_of_its_interval(gap, weight):
    r, s = (float(radius[0]) for radius in gap_radii(np.array([gap]), np.array([weight])))
    radius = float(precision_radius(np.array([gap]), np.array([weight]))[0])
    assert radius == pytest.approx(max(r / (1 + r), s / (1 - s)), rel=1e-12)
    assert radius < max(r, s) / (1 - s)


def divergence(Theta, other):
    """Sum of ``nu - 1 - log nu`` over the eigenvalues nu of other^-1 Theta."""
    nu = linalg.eigvalsh(Theta, other)
    return float((nu - 1.0 - np.log(nu)).sum())


def test_radius_holds_and_is_attained():
    rng = np.random.default_rng(0)
    largest = 0.0
    for _ in range(300):
        p = int(rng.integers(2, 6))
        Theta = np.cov(rng.normal(size=(p, 3 * p)))
        optimal = np.cov(rng.normal(size=(p, 3 * p))) if rng.random() < 0.5 else Theta * rng.uniform(0.2, 5.0)
        gap = divergence(Theta, optimal)
        scale = np.sqrt(np.outer(np.diag(Theta), np.diag(Theta)))
        ratio = float((np.abs(Theta - optimal) / scale).max() / precision_radius(np.array([gap]), np.ones(1))[0])
        largest = max(largest, ratio)
    # One eigenvalue away from 1 attains the radius on the diagonal.
    Theta, optimal = np.eye(2), np.diag([3.0, 1.0])
    gap = divergence(Theta, optimal)
    assert float(precision_radius(np.array([gap]), np.ones(1))[0]) == pytest.approx(2.0, rel=1e-5)
    assert largest <= 1.0


# --- certificate: rounding (Theorem C8) ------------------------------------------------------------------------------


def test_a_tenth_covers_the_higher_orders_of_rounding():
    from jointglasso.rounding import _FIRST_ORDER, _HIGHER_ORDERS

    t = _FIRST_ORDER / _HIGHER_ORDERS / np.sqrt(2.0)  # blocks of two variables
    share = np.linspace(0.0, 1.0, 10001)
    x, z = t * share**2, t * (1.0 - share) ** 2
    y = np.sqrt(x * z)
    a_inexact = (1.0 + z) / (1.0 - y) ** 2  # a of (Theta + D)^-1 over a of X
    a_exact = a_inexact / (1.0 - x * a_inexact)
    kappa, Z = a_exact * x, y * np.sqrt(a_inexact * (1.0 + y))
    error = (kappa + 2.0 * Z + Z**2) / (1.0 - kappa) + z
    assert (error <= 1.07 * t).all()
    assert (a_exact * error <= _HIGHER_ORDERS**2 * t).all()


# --- screening: the paper's partitions -------------------------------------------------------------------------------


def pairs_matrix(p, **values):
    """Unit diagonal, entries given as s12=..."""
    S = np.eye(p)
    for name, value in values.items():
        i, j = (int(number) - 1 for number in name[1:].split("_")) if "_" in name else (int(c) - 1 for c in name[1:])
        S[i, j] = S[j, i] = value
    return S


def random_problem(seed, n_classes=3, p=6):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_classes, 25, p)) + 0.7 * rng.normal(size=(n_classes, 25, 1))
    return np.stack([np.corrcoef(x.T) for x in X]), *rng.uniform(0.1, 0.35, 2)


def test_components_are_those_of_the_estimated_graphs():
    S = [pairs_matrix(4, s12=0.5, s34=0.5), pairs_matrix(4, s23=0.5)]
    found = jgl.solve(S, 0.1, 0.1).components()
    assert found.labels.tolist() == [[0, 0, 1, 1], [0, 1, 1, 2]]
    for seed in range(10):
        S, lambda1, lambda2 = random_problem(seed)
        for screening in ("none", "hybrid", "dynamic"):
            solution = jgl.solve(S, lambda1, lambda2, screening=screening, tol=1e-9)
            assert solution.components().refines(solution.partition)
