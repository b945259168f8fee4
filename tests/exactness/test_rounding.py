"""What a certificate says holds in exact arithmetic: edges at the boundary, ties, sixty digits, hard conditioning."""

from __future__ import annotations

import warnings
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import example, given, settings, strategies as st

import jointglasso as jgl
from jointglasso.blocks import build_system
from jointglasso.blocks.linalg import factorize
from jointglasso.data import as_source
from jointglasso.duality import bound_groups
from jointglasso.engine.nonzeros import flat_from_precisions
from jointglasso.penalties import GroupPenalty
from jointglasso.problem import make_problem
from jointglasso.rounding import Conditioning, logdet_errors, with_rounding
from jointglasso.screening.groups import class_blocks

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


@settings(max_examples=150)
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


@settings(max_examples=100)
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


# --- sixty digits ----------------------------------------------------------------------------------------------------


def exact(matrix: np.ndarray) -> mpmath.matrix:
    return mpmath.matrix([[mpmath.mpf(float(x)) for x in row] for row in matrix])


def exact_logdet(matrix: mpmath.matrix) -> mpmath.mpf:
    """Of a positive definite matrix; an error if it is not."""
    factor = mpmath.cholesky(matrix)
    return 2 * sum(mpmath.log(factor[i, i]) for i in range(matrix.rows))


def exact_objective(S: np.ndarray, Theta: np.ndarray, lambda1: float, lambda2: float) -> mpmath.mpf:
    """Objective with penalised diagonal and weights 1."""
    p = S.shape[1]
    total = mpmath.mpf(0)
    for k in range(len(S)):
        total -= exact_logdet(exact(Theta[k]))
        total += sum(mpmath.mpf(float(S[k, i, j])) * float(Theta[k, i, j]) for i in range(p) for j in range(p))
        total += lambda1 * mpmath.fsum(abs(mpmath.mpf(float(x))) for x in Theta[k].ravel())
    for i in range(p):
        for j in range(i):
            total += 2 * lambda2 * mpmath.sqrt(sum(mpmath.mpf(float(x)) ** 2 for x in Theta[:, i, j]))
    return total


def exact_dual_value(S: np.ndarray, Theta: np.ndarray, lambda1: float, lambda2: float) -> mpmath.mpf:
    """Value of the dual point that the certificate speaks of: S plus the nearest subgradient at Theta."""
    n_classes, p = S.shape[:2]
    l1, l2 = mpmath.mpf(lambda1), mpmath.mpf(lambda2)
    W = [exact(S[k]) for k in range(n_classes)]
    inverse = [mpmath.inverse(exact(Theta[k])) for k in range(n_classes)]
    for i in range(p):
        for k in range(n_classes):
            W[k][i, i] += l1
        for j in range(i):
            theta = [mpmath.mpf(float(Theta[k, i, j])) for k in range(n_classes)]
            wanted = [inverse[k][i, j] - W[k][i, j] for k in range(n_classes)]
            norm = mpmath.sqrt(sum(x * x for x in theta))
            over = [mpmath.sign(x) * max(abs(x) - l1, mpmath.mpf(0)) for x in wanted]
            out = mpmath.sqrt(sum(x * x for x in over))
            for k in range(n_classes):
                if norm > 0 and theta[k] != 0:
                    u = l1 * mpmath.sign(theta[k]) + l2 * theta[k] / norm
                elif norm > 0:
                    u = min(max(wanted[k], -l1), l1)
                else:
                    u = wanted[k] - over[k] * (1 - l2 / out) if out > l2 else wanted[k]
                W[k][i, j] += u
                W[k][j, i] = W[k][i, j]
    return sum(exact_logdet(matrix) for matrix in W) + n_classes * p


def badly_conditioned(rng: np.random.Generator, n_classes: int, p: int, exponent: float) -> np.ndarray:
    """Covariances in mixed units with eigenvalues between 1 and 10^-exponent."""
    S = np.empty((n_classes, p, p))
    for k in range(n_classes):
        vectors = np.linalg.qr(rng.standard_normal((p, p)))[0]
        S[k] = vectors * 10.0 ** -np.linspace(0.0, exponent, p) @ vectors.T
        units = 10.0 ** rng.uniform(-2, 2, p)
        S[k] = np.tril(S[k] * units * units[:, None])
        S[k] += np.tril(S[k], -1).T
    return S


@pytest.mark.parametrize("seed", range(40))
def test_objective_and_gap_hold_in_sixty_digits(seed):
    rng = np.random.default_rng(seed)
    n_classes, p = int(rng.integers(1, 3)), int(rng.integers(2, 6))
    S = badly_conditioned(rng, n_classes, p, rng.uniform(0, 13))
    lambda1, lambda2 = 10.0 ** rng.uniform(-14, -1, 2) * np.abs(S).max()
    solution = solve(S, lambda1, lambda2, screening="none", solver=("auto", "newton", "admm")[seed % 3])
    certificate = solution.certificate
    with mpmath.workdps(60):
        value = exact_objective(S, np.stack([T.toarray() for T in solution.precision]), lambda1, lambda2)
        assert value <= certificate.objective
        assert value >= certificate.objective - certificate.gap
        if np.isfinite(certificate.gap) and certificate.gap < 1e-5:  # farther off another dual point may be at work
            dual = exact_dual_value(S, np.stack([T.toarray() for T in solution.precision]), lambda1, lambda2)
            assert certificate.dual_objective <= dual <= value


def test_the_error_of_the_inverse_is_in_the_gap():
    """Without it the gap of some badly conditioned solution is smaller than in sixty digits."""
    too_small = 0
    for seed in range(12):
        rng = np.random.default_rng(seed)
        S = badly_conditioned(rng, 1, 3, rng.uniform(8, 11))
        lambda1 = 1e-13 * np.abs(S).max()
        Theta = solve(S, lambda1, 0.0, screening="none").precision[0].toarray()
        system = build_system(as_source(S), class_blocks(np.zeros((1, 3), dtype=np.int64), smallest=2), np.ones(1))
        theta, penalty = flat_from_precisions(system, [Theta], 3), GroupPenalty(lambda1, 0.0)
        computed = bound_groups(system, theta, penalty, lambda1)
        with mpmath.workdps(60):
            gap = exact_objective(S, Theta[None], lambda1, 0.0) - exact_dual_value(S, Theta[None], lambda1, 0.0)
            assert gap <= with_rounding(system, theta, penalty, lambda1, computed).gap[0]
            too_small += gap > computed.gap[0]
    assert too_small > 0


@pytest.mark.parametrize("seed", range(8))
def test_the_computed_inverse_is_as_near_as_its_bound_says(seed):
    """|Theta^(1/2) E Theta^(1/2)|_F of its error E = X - W, the root of tr(E Theta E Theta), is at most eta."""
    rng = np.random.default_rng(seed)
    Theta = badly_conditioned(rng, 1, 4, rng.uniform(2, 9))
    system = build_system(as_source(Theta), class_blocks(np.zeros((1, 4), dtype=np.int64), smallest=2), np.ones(1))
    factor = factorize(system, system.S)
    eta = Conditioning.of(system, system.S, factor, factor.inverse[system.diagonal]).eta[0]
    members = system.members.tolist()
    with mpmath.workdps(60):
        matrix = exact(Theta[0][np.ix_(members, members)])
        error = (exact(factor.inverse.reshape(4, 4)) - mpmath.inverse(matrix)) * matrix
        square = error * error
        assert 0 < sum(square[i, i] for i in range(4)) <= mpmath.mpf(float(eta)) ** 2 < mpmath.inf


def test_an_answer_that_rounding_spoils_is_not_called_converged():
    S = [[[1.7e8, 1.3e8], [1.3e8, 1.69e8 / 1.7]]]
    solution = solve(S, 1e-6, 0.0)
    assert not solution.status.converged and "Stopped by rounding" in str(solution.status)
    with mpmath.workdps(60):
        (a, b), (_, c) = [[mpmath.mpf(x) for x in row] for row in S[0]]
        a, b, c = a + mpmath.mpf(1e-6), b - mpmath.mpf(1e-6), c + mpmath.mpf(1e-6)
        optimum = mpmath.log(a * c - b * b) + 2
        assert solution.certificate.dual_objective <= optimum <= solution.certificate.objective


@pytest.mark.parametrize("seed", range(60))
def test_two_variables_against_their_closed_form(seed):
    """W_12 is S_12 moved towards zero by lambda1, the optimum log det W + 2: whatever the condition."""
    rng = np.random.default_rng(seed)
    a, c = 10.0 ** rng.uniform(-4, 8, 2)
    b = np.sqrt(a * c) * (1.0 - 10.0 ** -rng.uniform(0, 15))
    penalty = np.sqrt(a * c) * 10.0 ** -rng.uniform(2, 15)
    certificate = solve([[[a, b], [b, c]]], penalty, 0.0).certificate
    with mpmath.workdps(60):
        A, B, C = mpmath.mpf(a) + mpmath.mpf(penalty), mpmath.mpf(b) - mpmath.mpf(penalty), mpmath.mpf(c)
        optimum = mpmath.log(A * (C + mpmath.mpf(penalty)) - max(B, 0) ** 2) + 2
        assert certificate.dual_objective <= optimum <= certificate.objective


@pytest.mark.parametrize("p", [10, 60, 200])
@pytest.mark.parametrize("tol", [1e-6, 1e-10])
def test_well_conditioned_problems_are_not_touched(p, tol):
    rng = np.random.default_rng(p)
    X = rng.standard_normal((2, 3 * p, p)) + 0.5 * rng.standard_normal((2, 3 * p, 1))
    S = np.stack([np.corrcoef(x.T) for x in X])
    solution = solve(S, 0.1, 0.05, tol=tol)
    assert solution.status.converged
    assert solution.certificate.rounding <= 0.2 * tol * abs(solution.objective)


def test_the_bound_is_not_wider_than_a_thousand_times_what_happens():
    """A bound that is always infinite would pass every other test."""
    rng = np.random.default_rng(0)
    ratios = []
    for exponent in np.linspace(2.0, 9.0, 12):
        S = badly_conditioned(rng, 1, 4, exponent)
        system = build_system(as_source(S), class_blocks(np.zeros((1, 4), dtype=np.int64), smallest=2), np.ones(1))
        Theta = np.linalg.inv(S[0] + 1e-12 * np.diag(np.diagonal(S[0])))
        Theta = np.tril(Theta) + np.tril(Theta, -1).T
        theta = flat_from_precisions(system, [Theta], 4)
        bounds = with_rounding(
            system, theta, GroupPenalty(0.0, 0.0), 0.0, bound_groups(system, theta, GroupPenalty(0.0, 0.0), 0.0)
        )
        with mpmath.workdps(60):
            off = abs(float(exact_objective(S, Theta[None], 0.0, 0.0) - mpmath.mpf(float(bounds.objective[0]))))
        assert off <= bounds.rounding[0]
        ratios.append(bounds.rounding[0] / max(off, 1e-16))
    assert np.median(ratios) < 1000


@pytest.mark.parametrize("size", [1e-4, 0.02, 0.3, 3.0])
@pytest.mark.parametrize("seed", range(4))
def test_sums_of_inverses_are_bounded_without_them(seed, size):
    """The bound of big groups holds at pairs of matrices as far apart as `size`, and is not much wider than needed."""
    draw = np.random.default_rng(seed)
    p = 40
    root = draw.standard_normal((p, p)) / np.sqrt(p) * (seed % 2) + np.eye(p) * np.exp(draw.standard_normal(p))
    D = root @ root.T
    signs = np.triu(draw.choice([-1.0, 1.0], (p, p)))
    apart = (signs + signs.T) * size / p  # all small and alike: what makes sums of absolute values largest
    W = root @ (np.eye(p) + apart @ apart.T * (size > 1) + apart * (size < 1)) @ root.T
    Theta = np.linalg.inv(W)
    h = np.trace(D @ Theta) - p - np.linalg.slogdet(D)[1] - np.linalg.slogdet(Theta)[1]
    d, v, g = np.sqrt(np.diagonal(Theta)), np.sqrt(np.diagonal(D)), 1e-12
    b, c = (np.abs(Theta) * np.outer(v, v)).sum(), (np.abs(D) * np.outer(d, d)).sum()
    theta, dual = logdet_errors(np.array([h]), np.array([g]), np.array([b]), np.array([c]))
    needed = (np.abs(W) * np.outer(d, d)).sum() * g, (np.abs(np.linalg.inv(D)) * np.outer(v, v)).sum() * g
    assert needed[0] <= theta[0] / 1.21 <= (1.01 if size < 1e-3 else np.inf) * needed[0]
    assert needed[1] <= dual[0] / 1.21
    assert np.isinf(logdet_errors(np.array([40.0]), np.array([g]), np.array([b]), np.array([c]))).all()


def test_the_error_of_an_inverse_is_the_sum_of_its_four_terms():
    """The bound as it is derived in `rounding.py`, with a tenth for higher orders."""
    p, a, b = 7.0, 30.0, 4.0
    u = np.finfo(np.float64).eps / 2.0
    g = (p + 1.0) * u / (1.0 - (p + 1.0) * u)
    factor, square_root, product, residual = g * p * a, 2.0 * g * p * np.sqrt(a * b), g * p * b, 16.0 * u * p * b
    measures = (np.array([a]), np.array([p * a])), (np.array([b]), np.array([p * b]))
    conditioning = Conditioning(*measures, np.array([p]))
    assert conditioning.eta[0] == pytest.approx(1.1 * (factor + square_root + product + residual), rel=1e-12, abs=0.0)
    assert conditioning.logdet_error[0] == pytest.approx(
        1.1 * g * (p * a + p * a * conditioning.eta[0]), rel=1e-12, abs=0.0
    )
    hopeless = (np.array([1e13]), np.array([1e13])), measures[1]
    assert np.isinf(Conditioning(*hopeless, np.array([p])).eta[0])


@pytest.mark.parametrize("seed", range(10))
def test_a_gap_far_from_the_optimum_is_raised_by_its_rounding(seed):
    """Logarithms of a thousand are rounded: the gap in fifty digits is at most the raised one, for 10 Theta each."""
    rng = np.random.default_rng(seed)
    problem = make_problem(np.corrcoef(rng.standard_normal((6, 5)).T)[None], 0.3, 0.0)
    system = build_system(problem.source, class_blocks(np.zeros((1, 5), dtype=int)), problem.weights)
    for _ in range(10):
        A = rng.standard_normal((5, 8))
        theta = (10.0 ** rng.uniform(-250, -100) * (A @ A.T)).ravel()
        bounds = bound_groups(system, theta, problem.penalty, problem.diagonal_penalty, scale_to_feasible=True)
        raised = with_rounding(system, theta, problem.penalty, problem.diagonal_penalty, bounds)
        with mpmath.workdps(50):
            Theta, D = (mpmath.matrix(matrix.reshape(5, 5).tolist()) for matrix in (theta, bounds.dual))
            trace = mpmath.fsum(Theta[i, j] * D[i, j] for i in range(5) for j in range(5))
            assert trace - 5 - mpmath.log(mpmath.det(Theta)) - mpmath.log(mpmath.det(D)) <= float(raised.gap[0])
