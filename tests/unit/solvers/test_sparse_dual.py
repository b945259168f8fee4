"""The certificate in sparse storage: eigenvalue bounds, listed pairs, gaps at every stage, the streamed fallback."""

from fractions import Fraction

import numpy as np
import pytest

import jointglasso as jgl
from jointglasso.blocks.big_group import BigGroup
from jointglasso.blocks.sparse_group import LISTED_SLACK, ActiveEntries, SparseGroup, SparsePoint
from jointglasso.problem import make_problem
from jointglasso.screening.groups import ClassBlocks
from jointglasso.screening.pairs import scan_pairs, scan_slack
from jointglasso.solvers.sparse import ProximalState, SparseTask, solve_sparse
from jointglasso.solvers.sparse_check import PairCheck
from jointglasso.solvers.sparse_dual import SparseDual, spectral_bounds
from tests.helpers.sparse_designs import grid_edges, markov_field


def grid_group(side=20, lambdas=(0.3, 0.0), n_classes=1, n=300, **options):
    rng = np.random.default_rng(0)
    source = jgl.SampleCovariance([markov_field(side * side, grid_edges(side), n, 0.97, rng) for _ in range(n_classes)])
    problem = make_problem(source, *lambdas, **options)
    scanned = scan_pairs(source, problem.penalty.scaled(0.85), problem.weights)
    p = side * side
    blocks = ClassBlocks(
        block_class=np.arange(n_classes),
        start=p * np.arange(n_classes + 1),
        members=np.tile(np.arange(p), n_classes),
        group=np.zeros(n_classes, dtype=np.int64),
    )
    layout = BigGroup.build(source, blocks, problem.weights)
    order = np.lexsort((scanned.columns, scanned.rows))
    slack = scan_slack(problem.penalty, scanned.thresholds)[0]
    group = SparseGroup(
        layout, problem.penalty, problem.diagonal_penalty, scanned.rows[order], scanned.columns[order], slack
    )
    return problem, source, group


def start(group, active=None):
    active = group.activated(np.zeros(group.in_block.shape), -group.weights * group.S) if active is None else active
    working_set = ActiveEntries(group, active)
    diagonal = 1.0 / group.layout.optimal_variance(group.diagonal_penalty)
    return SparsePoint.of(working_set, np.zeros(int(active.sum())), diagonal)


def descend(point, target):
    """Proximal steps until the estimated gap is at most `target`."""
    state = ProximalState(point, target)
    while state.gap_estimate > target:
        state.step()
        assert not state.ended and state.n_iter < 500
    return state.point


def nothing(group):
    return np.zeros(len(group.i), dtype=bool)


@pytest.fixture(scope="module")
def grid():
    _, source, group = grid_group()
    exact = jgl.solve(source, 0.3, 0.0, tol=1e-11)
    return group, exact.objective


@pytest.mark.parametrize("stage", [1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7])
@pytest.mark.parametrize("without_a_pair", [False, True])
def test_the_gap_covers_the_distance_to_the_optimum(grid, stage, without_a_pair):
    group, optimum = grid
    point = start(group)
    if without_a_pair:
        point = descend(point, 1e-6 * optimum)
        strongest = point.working_set.pair[np.argmax(np.abs(point.theta))]
        active = point.working_set.active.copy()
        active[strongest] = False
        point = start(group, active)
    point = descend(point, stage * optimum)
    dual = SparseDual.of(point, nothing(group))
    excess = point.objective - optimum
    assert excess <= dual.gap
    if stage <= 1e-4 and not without_a_pair:
        assert dual.gap <= 3.0 * excess + 1e-9 * optimum
    if without_a_pair:
        violated = (dual.candidates.u != group.weights * (dual.candidates.W - dual.candidates.S)).any(axis=1)
        assert violated[strongest] and dual.n_violations >= 1


def test_bounds_on_single_numbers(grid):
    group, optimum = grid
    point = descend(start(group), 1e-5 * optimum)
    check = PairCheck(point)
    Theta = check.inverses[0].theta.toarray()
    W, least = np.linalg.inv(Theta), float(np.linalg.eigvalsh(Theta)[0])
    assert 0.5 * least <= check.inverses[0].mu <= least
    examined = check.candidates(nothing(group))
    assert (np.abs(examined.W[:, 0] - W[examined.i, examined.j]) <= examined.error[:, 0] + 1e-13).all()
    i, j = check._large(0, len(W))
    unlisted = np.triu(np.ones(W.shape, dtype=bool), 1)
    unlisted[i, j] = False
    limit = LISTED_SLACK * group.slack
    assert 0.5 * limit < np.abs(W[unlisted]).max() <= limit
    eps, logdet_error = check.inverses[0].error
    root = np.sqrt(np.diagonal(W))
    on_sparsity = check.inverses[0].inverse.at(*np.nonzero(np.triu(Theta, 1)))[0]
    exact = W[np.nonzero(np.triu(Theta, 1))]
    scale = np.outer(root, root)[np.nonzero(np.triu(Theta, 1))]
    assert np.abs(on_sparsity - exact).max() <= (eps + 1e-13) * scale.min()
    assert 0.0 < eps < 1e-6 and abs(point.factors[0].logdet - np.linalg.slogdet(Theta)[1]) <= logdet_error + 1e-11


def test_the_spectral_radius_is_bounded():
    from scipy import sparse

    rng = np.random.default_rng(0)
    for _ in range(20):
        R = rng.normal(size=(30, 30)) * (rng.random((30, 30)) < 0.1)
        Theta = np.eye(30) + 0.02 * np.ones((30, 30))
        M = (R + R.T) @ Theta
        s, radius = spectral_bounds(sparse.csr_array(M), np.ones(30))
        eigenvalues = np.linalg.eigvals(M)
        assert np.abs(eigenvalues).max() <= radius <= s
        assert s == pytest.approx(np.sqrt((eigenvalues**2).sum().real), rel=1e-8)


def test_products_that_cancel_do_not_lower_the_bound():
    """M = R Theta, R = diag(a, -a), has eigenvalues of squares a^2 - b^2, b near a, lost to rounding in tr(M M)."""
    from scipy import sparse

    rng = np.random.default_rng(0)
    for a, t in zip(rng.uniform(1.0, 2.0, 20), 1.0 - rng.uniform(1e-14, 1e-13, 20), strict=True):
        b = a * t
        s, radius = spectral_bounds(sparse.csr_array([[a, b], [-b, -a]]), np.ones(2))
        exact = 2 * (Fraction(a) ** 2 - Fraction(b) ** 2)
        assert Fraction(radius) ** 2 >= exact / 2 and exact <= Fraction(s) ** 2 <= 2 * exact + Fraction(1, 10**12)


@pytest.mark.parametrize("max_work", [0, 60])
def test_columns_by_the_factor_give_the_same_certificate(grid, monkeypatch, max_work):
    group, optimum = grid
    require_the_same_certificate(monkeypatch, descend(start(group), 1e-6 * optimum), max_work)


@pytest.mark.slow
def test_columns_by_the_factor_at_ten_thousand_variables(monkeypatch):
    group = grid_group(100)[2]
    point = start(group)
    require_the_same_certificate(monkeypatch, descend(point, 1e-5 * abs(point.objective)), 0)


def require_the_same_certificate(monkeypatch, point, max_work):
    """Columns that do not converge locally within some work are solved for: all of them in the streamed check."""
    from jointglasso.solvers import sparse_check

    local, solved = SparseDual.of(point, nothing(point.group)), []

    class Impatient(sparse_check.ClassInverse):
        def __init__(self, *arguments):
            super().__init__(*arguments)
            self.limits = self.limits._replace(max_work=max_work)

        def columns(self, variables):
            solved.append(len(variables))
            return super().columns(variables)

    monkeypatch.setattr(sparse_check, "ClassInverse", Impatient)
    exact = SparseDual.of(point, nothing(point.group))
    n = len(point.group.layout.variables)
    assert sum(solved) >= n - 1 if max_work == 0 else sum(solved) > 0
    assert np.isfinite(local.gap) and exact.gap == pytest.approx(local.gap, rel=1e-6)
    assert exact.n_violations == local.n_violations
    assert exact.n_absent(exact.gap) == pytest.approx(local.n_absent(local.gap), abs=n / 20)


def test_a_point_far_from_the_optimum_has_no_finite_gap_but_is_improved(grid):
    group, optimum = grid
    assert SparseDual.of(start(group).inverted(), nothing(group)).gap == np.inf
    task = SparseTask(group=group, limit=lambda objective: 1e-8 * abs(objective), max_iter=1000)
    dual, point, _, reason = solve_sparse(task)
    assert reason == "tolerance" and dual.gap <= 1e-8 * optimum
    assert -1e-9 * optimum <= point.objective - optimum <= dual.gap


@pytest.mark.parametrize("options", [{"penalize_diagonal": False}, {"penalty": "fused"}, {"penalty": "maximum"}])
def test_two_classes(options):
    problem, source, group = grid_group(12, (0.25, 0.05), n_classes=2, **options)
    exact = jgl.solve(source, 0.25, 0.05, tol=1e-10, **options)
    task = SparseTask(group=group, limit=lambda objective: 1e-7 * abs(objective), max_iter=1000)
    dual, point, _, reason = solve_sparse(task)
    assert reason == "tolerance"
    assert exact.objective - exact.certificate.gap <= point.objective <= exact.objective + dual.gap
    rows = [problem.objective([_matrix(point, k) for k in range(2)])]
    assert rows[0] == pytest.approx(dual.objective[0], abs=10 * dual.objective[1] + 1e-9)


def _matrix(point, k):
    p = len(point.group.layout.variables)
    support = point.support
    Theta = np.zeros((p, p))
    Theta[support.i, support.j] = Theta[support.j, support.i] = support.value[:, k]
    members = point.group.layout.member_of[k]
    np.fill_diagonal(Theta, point.diagonal[members])
    return Theta
