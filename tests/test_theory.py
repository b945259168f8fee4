"""Statements of the theory pages (docs/theory) that a small computation can contradict."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import linalg

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
