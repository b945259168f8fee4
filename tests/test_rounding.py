"""What a certificate says holds in exact arithmetic: edges at the boundary, ties, sixty digits, hard conditioning."""

from __future__ import annotations

import warnings
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given, settings, strategies as st

import jointglasso as jgl

SCREENS = ("dynamic", "hybrid", "global", "class", "none")


def solve(*arguments, **options) -> jgl.Solution:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", jgl.ConvergenceWarning)
        return jgl.solve(*arguments, **options)


# --- edges on the boundary -------------------------------------------------------------------------------------------


def test_an_edge_that_exists_is_not_proved_absent():
    S = [[[359.4438389942678, 42.778701235912166], [42.778701235912166, 359.4438389942678]]]
    solution = solve(S, 11.936019445524773, 11.8393621348673)
    assert solution.precision[0][0, 1] != 0
    certificate = solution.certificate
    assert (certificate.edges_present, certificate.edges_absent, certificate.edges_undetermined) == (1, 0, 0)


def random_tree(rng: np.random.Generator, p: int, n_classes: int, scale: float) -> np.ndarray:
    """Covariances with an entry on each edge of a random tree, and products along the paths elsewhere."""
    parent = [0, *(int(rng.integers(0, j)) for j in range(1, p))]
    S = np.tile(np.eye(p), (n_classes, 1, 1))
    for k in range(n_classes):
        for j in range(1, p):
            S[k, j, :j] = S[k, :j, j] = S[k, parent[j], :j] * rng.uniform(0.3, 0.8) * rng.choice([-1.0, 1.0])
    return scale * S


@pytest.mark.parametrize("seed", range(60))
def test_edges_of_random_trees_are_never_proved_absent(seed):
    rng = np.random.default_rng(seed)
    p, n_classes = int(rng.integers(2, 9)), int(rng.integers(1, 4))
    scale = 10.0 ** rng.uniform(-3, 3)
    S = random_tree(rng, p, n_classes, scale)
    lambda1, lambda2 = scale * rng.uniform(0.02, 0.15, 2) * rng.choice([0.0, 1.0, 1.0], 2)
    weights = rng.uniform(0.3, 3.0, n_classes) if seed % 2 else None
    for screening in ("dynamic", "none"):
        solution = solve(S, lambda1, lambda2, weights=weights, screening=screening, tol=1e-11)
        assert solution.status.converged
        existing = sum(int(np.triu(Theta.toarray() != 0, 1).sum()) for Theta in solution.precision)
        certificate = solution.certificate
        assert certificate.edges_absent <= n_classes * p * (p - 1) // 2 - existing
        assert certificate.edges_present >= 0.9 * existing, "the allowance for rounding costs proofs"


def exactly_strong(S: np.ndarray, lambda1: float, lambda2: float) -> bool:
    """Whether a pair with covariances S (K,) is outside the dual ball, in rational arithmetic."""
    over = (max(abs(Fraction(float(s))) - Fraction(lambda1), Fraction(0)) for s in S)
    return sum(x * x for x in over) > Fraction(lambda2) ** 2


@settings(max_examples=150, deadline=None)
@given(
    lambda1=st.floats(0.01, 1.0),
    lambda2=st.floats(0.01, 1.0),
    angle=st.floats(0.1, 1.4),
    ulps=st.integers(-3, 3),
    screening=st.sampled_from(SCREENS),
)
@example(lambda1=0.1, lambda2=0.2, angle=0.0, ulps=1, screening="dynamic")
def test_a_tie_is_decided_as_in_rational_arithmetic_or_not_at_all(lambda1, lambda2, angle, ulps, screening):
    """Two classes, two variables, the pair on the boundary of the dual ball up to a few units of the last place."""
    pair = lambda1 + lambda2 * np.array([np.cos(angle), np.sin(angle)])
    for _ in range(abs(ulps)):
        pair[0] = np.nextafter(pair[0], np.inf if ulps > 0 else 0.0)
    S = np.tile(4.0 * np.eye(2), (2, 1, 1))
    S[:, 0, 1] = S[:, 1, 0] = pair
    certificate = solve(S, lambda1, lambda2, screening=screening, tol=1e-9).certificate
    if exactly_strong(pair, lambda1, lambda2):
        # The entries of classes that exceed lambda1 are then non-zero.
        assert certificate.edges_absent <= (pair <= lambda1).sum()
    else:
        assert certificate.edges_present == 0


@settings(max_examples=100, deadline=None)
@given(
    lambda1=st.floats(0.01, 1.0),
    lambda2=st.floats(0.0, 1.0),
    ulps=st.integers(-2, 2),
    screening=st.sampled_from(SCREENS),
)
@example(lambda1=0.3, lambda2=0.0, ulps=1, screening="class")
def test_a_tie_in_one_class(lambda1, lambda2, ulps, screening):
    covariance = lambda1 + lambda2
    for _ in range(abs(ulps)):
        covariance = np.nextafter(covariance, np.inf if ulps > 0 else 0.0)
    S = np.array([[[4.0, covariance], [covariance, 4.0]]])
    certificate = solve(S, lambda1, lambda2, screening=screening, tol=1e-9).certificate
    if exactly_strong(S[:, 0, 1], lambda1, lambda2):
        assert certificate.edges_absent == 0
    else:
        assert certificate.edges_present == 0


@pytest.mark.parametrize("seed", range(25))
def test_what_is_proved_about_random_groups_agrees_with_a_sharp_solution(seed):
    rng = np.random.default_rng(1000 + seed)
    n_classes, p = int(rng.integers(1, 4)), int(rng.integers(3, 12))
    X = rng.standard_normal((n_classes, p + 3, p)) + rng.standard_normal((n_classes, p + 3, 1))
    S = np.stack([np.cov(x.T, bias=True) for x in X])
    lambda1, lambda2 = rng.uniform(0.05, 0.3, 2)
    sharp = solve(S, lambda1, lambda2, screening="none", solver="newton", tol=1e-13)
    truth = np.stack([Theta.toarray() for Theta in sharp.precision])[:, *np.triu_indices(p, 1)] != 0
    for tol in (1e-4, 1e-8, 1e-12):
        for screening in ("dynamic", "hybrid", "none"):
            solution = solve(S, lambda1, lambda2, screening=screening, tol=tol)
            certificate = solution.certificate
            assert certificate.edges_present <= truth.sum()
            assert certificate.edges_absent <= (~truth).sum()
            for k, proved in enumerate(solution.certified):
                assert truth[k][proved.toarray()[np.triu_indices(p, 1)]].all(), "an edge is proved that does not exist"
