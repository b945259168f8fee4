"""Dynamic screening: screened-out entries that violate the optimality conditions are merged, for each condition."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from types import SimpleNamespace

import numpy as np
import pytest

import jointglasso as jgl
from jointglasso.blocks import build_system
from jointglasso.data import as_source
from jointglasso.duality import DualityGap, theta_radius
from jointglasso.engine.certify import _with_infeasibility
from jointglasso.engine.nonzeros import flat_from_precisions
from jointglasso.engine.recheck import DualInfeasibility, KKTViolations, ScreeningCheck
from jointglasso.screening.groups import class_blocks
from jointglasso.solvers import SolverResult

LAMBDA1, LAMBDA2 = 0.1, 0.1


def shadow(direct: float, over: float) -> np.ndarray:
    """Class 1 is a chain 0 - 1 - 2 and class 2 knows the pair (0, 2) alone, by `over` more than lambda1.

    The pair is weak, so the screen cuts it in class 2. In class 1 the chain alone gives it W = 0.25: its dual variable
    is 0.25 - `direct`, and how much of the budget that leaves to class 2 decides.
    """
    S = np.tile(np.eye(3), (2, 1, 1))
    for k, i, j, value in [(0, 0, 1, 0.7), (0, 1, 2, 0.7), (0, 0, 2, direct), (1, 0, 2, LAMBDA1 + over)]:
        S[k, i, j] = S[k, j, i] = value
    return S


def solve(S: np.ndarray, screening: str, tol: float) -> jgl.Solution:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", jgl.ConvergenceWarning)
        return jgl.solve(S, LAMBDA1, LAMBDA2, screening=screening, penalize_diagonal=False, tol=tol)


def pair(solution: jgl.Solution) -> tuple[float, float]:
    """(0, 2) in both classes."""
    return solution.precision[0][0, 2], solution.precision[1][0, 2]


@pytest.mark.parametrize("over", [1e-7, 1e-6, 1e-5, 1e-3, 0.02])
@pytest.mark.parametrize("tol", [1e-6, 1e-10])
def test_a_pair_that_is_not_zero_where_it_is_held_is_merged_where_it_was_cut(over, tol):
    S = shadow(0.0, over)
    solution, exact = solve(S, "dynamic", tol), solve(S, "none", 1e-12)
    assert pair(exact)[0] != 0 and pair(exact)[1] != 0
    assert solution.status.converged
    assert solution.objective == pytest.approx(exact.objective, rel=2 * tol)
    assert solution.partition.labels[1, 0] == solution.partition.labels[1, 2], "the pair was not merged"
    assert pair(solution)[1] != 0


@pytest.mark.parametrize("share", [0.5, 0.9, 0.98, 1.02, 1.1, 1.5])
@pytest.mark.parametrize("direct", [0.06, 0.1])
def test_a_pair_that_is_zero_where_it_is_held_is_merged_if_the_classes_together_leave_the_dual_ball(direct, share):
    # In class 1, W of the chain is what soft-thresholding leaves of 0.7 squared.
    used = 0.5**2 - direct - LAMBDA1
    assert 0 < used < LAMBDA2
    over = share * np.sqrt(LAMBDA2**2 - used**2)
    S = shadow(direct, over)
    solution, exact = solve(S, "dynamic", 1e-10), solve(S, "none", 1e-12)
    assert (pair(exact)[1] != 0) == (share > 1)
    assert solution.status.converged
    assert solution.objective == pytest.approx(exact.objective, rel=2e-10)
    merged = solution.partition.labels[1, 0] == solution.partition.labels[1, 2]
    assert merged == (share > 1)
    assert (pair(solution)[1] != 0) == (share > 1)


@pytest.mark.parametrize("weight", [0.25, 4.0])
def test_what_is_cut_counts_with_the_weight_of_its_class(weight):
    S = shadow(0.0, 0.02)
    S[1, 0, 2] = S[1, 2, 0] = (LAMBDA1 + 0.02) / weight  # the weighted covariance is the same
    options = {"weights": [1.0, weight], "penalize_diagonal": False}
    solution = jgl.solve(S, LAMBDA1, LAMBDA2, tol=1e-9, **options)
    exact = jgl.solve(S, LAMBDA1, LAMBDA2, tol=1e-11, screening="none", **options)
    assert pair(exact)[1] != 0 and pair(solution)[1] != 0
    assert solution.objective == pytest.approx(exact.objective, rel=2e-9)


@pytest.mark.parametrize("seed", range(8))
def test_random_shadows_are_solved_exactly(seed):
    rng = np.random.default_rng(seed)
    for _ in range(10):
        S = shadow(rng.uniform(0.0, 0.15), 10.0 ** rng.uniform(-6, -1.1))
        solution, exact = solve(S, "dynamic", 1e-9), solve(S, "none", 1e-11)
        assert solution.status.converged
        assert solution.certificate.edges_present <= sum(exact.n_edges)
        assert solution.certificate.edges_absent <= 6 - sum(exact.n_edges)
        assert solution.objective == pytest.approx(exact.objective, rel=2e-9)


# --- what a gap leaves open ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("excess", [1e-6, 1e-3, 0.1])
def test_the_solution_lies_within_the_reach_of_the_gap(excess):
    exact, reached = lazy(0.0, 1.0).precision[0].toarray(), lazy(excess, 1.0)
    system = build_system(as_source(DENSE), class_blocks(np.zeros((1, 3), dtype=np.int64), smallest=2), np.ones(1))
    theta = flat_from_precisions(system, [reached.precision[0].toarray()], 3)
    entries = np.arange(3)
    radius = theta_radius(system, theta, np.array([reached.certificate.gap]), entries)
    off = np.abs(theta - flat_from_precisions(system, [exact], 3))[system.upper[entries]]
    assert (off > 0.0).all() and (off <= radius).all() and (radius < 1e3 * off).all()


@pytest.mark.parametrize("penalty", ["fused", "chain"])
def test_pairs_that_are_not_looked_at_are_proved(penalty, monkeypatch):
    """Whatever the gap, groups are proved as if every pair that a class has cut were looked at."""
    seen: list[tuple[ScreeningCheck, np.ndarray, DualityGap]] = []
    original = ScreeningCheck.kkt_check

    def watched(self: ScreeningCheck, theta: np.ndarray, bounds: DualityGap) -> tuple[KKTViolations, np.ndarray]:
        seen.append((self, theta, bounds))
        return original(self, theta, bounds)

    monkeypatch.setattr(ScreeningCheck, "kkt_check", watched)
    rng = np.random.default_rng(3)
    for _ in range(12):
        X = rng.standard_normal((3, 30, 12))
        X[:2, :, 1::3] += X[:2, :, ::3]
        X[0, :, 2::3] += 0.7 * X[0, :, 1::3]
        jgl.solve(np.stack([np.corrcoef(x.T) for x in X]), 0.2, 0.06, penalty=penalty, screening="dynamic", tol=1e-4)
    outcomes = []
    for screening_check, theta, bounds in seen:
        for gap in 10.0 ** np.linspace(-8, -1, 15):
            wider = replace(bounds, gap=bounds.gap + gap)
            found = set(original(screening_check, theta, wider)[1].tolist())
            with monkeypatch.context() as every:
                every.setattr(
                    ScreeningCheck, "_rows", lambda self, theta, _: self._as_rows(self._partly_screened, theta)
                )
                assert set(original(screening_check, theta, wider)[1].tolist()) == found
            outcomes.append(bool(found))
    assert 10 < sum(outcomes) < len(outcomes) - 10


@pytest.mark.parametrize("weight", [0.25, 1.0, 4.0])
def test_what_leaks_is_what_the_dual_point_lacks_where_a_pair_was_cut(weight, monkeypatch):
    """Where class 1 has the pair, that of class 2 may be at most lambda1; the rest of its covariance leaks."""
    seen: list[DualInfeasibility] = []
    original = ScreeningCheck.kkt_check

    def watched(self: ScreeningCheck, theta: np.ndarray, bounds: DualityGap) -> tuple[KKTViolations, np.ndarray]:
        seen.append(self.subgradient(theta, bounds)[2])
        return original(self, theta, bounds)

    monkeypatch.setattr(ScreeningCheck, "kkt_check", watched)
    S = shadow(0.0, 0.02)
    S[1, 0, 2] = S[1, 2, 0] = (LAMBDA1 + 0.02) / weight
    jgl.solve(S, LAMBDA1, LAMBDA2, tol=1e-9, weights=[1.0, weight], penalize_diagonal=False)
    assert (seen[0].cls.tolist(), seen[0].i.tolist(), seen[0].j.tolist()) == ([1], [0], [2])
    assert weight * (seen[0].value - S[1, 0, 2]) == pytest.approx([-LAMBDA1])
    assert not len(seen[-1].value), "nothing leaks where the pair was merged"


@pytest.mark.parametrize("seed", range(20))
def test_leaks_between_blocks_are_in_the_gap(seed):
    """The gap of a class is w (tr M - log det(I + M)), M = Theta^(1/2) R Theta^(1/2); R leaks between two blocks."""
    rng = np.random.default_rng(seed)
    root, weight = np.zeros((4, 4)), rng.uniform(0.2, 5.0)
    for block in (slice(0, 2), slice(2, 4)):
        root[block, block] = np.eye(2) * rng.uniform(0.5, 2.0) + 0.2 * np.ones((2, 2))
    Theta, R = root @ root, np.zeros((4, 4))
    R[:2, :2], R[2:, 2:] = (0.1 * (E + E.T) for E in rng.uniform(-0.3, 0.3, (2, 2, 2)))
    i, j, value = np.array([0, 1]), np.array([2, 2]), 10.0 ** rng.uniform(-5, -1) * rng.uniform(-1, 1, 2)

    def gap(block: slice) -> float:
        M = (root @ R @ root)[block, block]
        return weight * float(np.trace(M) - np.linalg.slogdet(np.eye(len(M)) + M)[1])

    gaps = np.array([gap(slice(0, 2)), gap(slice(2, 4))])
    R[i, j] = R[j, i] = value
    there = SimpleNamespace(row=np.arange(4), column=np.arange(4), value=np.diag(Theta), cls=np.zeros(4, int))
    problem = SimpleNamespace(
        optimal_variances=np.ones((1, 4)), source=SimpleNamespace(n_classes=1), weights=np.array([weight])
    )
    infeasible = DualInfeasibility(np.zeros(2, int), np.zeros(2, int), i, j, value)
    (bound,) = _with_infeasibility(problem, [SimpleNamespace(nonzeros=there)], [gaps], [infeasible])
    assert gaps.sum() < gap(slice(0, 4)) <= bound.sum()


# --- what "converged" and "present" mean -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Lazy:
    """A solver that returns a point stretched away from the solution and says that it is done."""

    precision: np.ndarray
    excess: float

    name = "lazy"
    default_max_iter = 10
    include_isolated = True
    lockstep = True

    def solve(self, task):
        theta = (1.0 + self.excess) * self.precision.ravel()
        return SolverResult(
            theta, task.bounds(theta, scale_to_feasible=True), 1, "tolerance", ["lazy"] * task.system.n_groups
        )


DENSE = np.array([[[1.0, 0.5, 0.3], [0.5, 1.0, 0.4], [0.3, 0.4, 1.0]]])


#: One pair, (0, 2), is explained by the other two.
CHAIN = np.array([[[1.0, 0.5, 0.18], [0.5, 1.0, 0.4], [0.18, 0.4, 1.0]]])


def lazy(excess: float, tol: float, S: np.ndarray = DENSE) -> jgl.Solution:
    exact = jgl.solve(S, 0.05, 0.0, tol=1e-13, screening="none").precision[0].toarray()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", jgl.ConvergenceWarning)
        return jgl.solve(S, 0.05, 0.0, tol=tol, screening="none", solver=Lazy(exact, excess))


@pytest.mark.parametrize("factor", [0.5, 0.97, 1.03, 2.0, 29.0])
def test_converged_is_decided_by_the_gap_and_by_nothing_else(factor):
    """F((1 + t) Theta*) - F* = p (t - log(1 + t)), exactly, and on this face the gap is no more."""
    t = 1e-3
    suboptimality = 3 * (t - np.log1p(t))
    reached = lazy(t, 1.0)
    assert reached.certificate.gap == pytest.approx(suboptimality, rel=0.02)
    tol = suboptimality / abs(reached.objective) / factor
    assert lazy(t, tol).status.converged == (factor < 1)


@pytest.mark.parametrize("solver", ["auto", "newton", "admm", "proximal_gradient"])
@pytest.mark.parametrize("tol", [1e-3, 1e-5, 1e-7, 1e-9])
def test_a_solver_does_not_stop_before_the_gap_is_what_was_asked_for(solver, tol):
    rng = np.random.default_rng(5)
    X = rng.standard_normal((2, 12, 8)) + rng.standard_normal((2, 12, 1))
    solution = jgl.solve(np.stack([np.cov(x.T) for x in X]), 0.05, 0.05, screening="none", solver=solver, tol=tol)
    assert solution.status.converged and solution.certificate.relative_gap <= tol


def reach_over_smallest_entry(excess: float) -> float:
    """s / (1 - s) sqrt(theta_ii theta_jj) / |theta_ij| of the smallest entry, s found by bisection."""
    solution = lazy(excess, 1.0)
    Theta, gap = solution.precision[0].toarray(), solution.certificate.gap
    s = _root(lambda s: -s - np.log1p(-s) - gap, 1.0 - 1e-15)
    i, j = np.unravel_index(np.abs(Theta).argmin(), Theta.shape)
    return s / (1.0 - s) * np.sqrt(Theta[i, i] * Theta[j, j]) / abs(Theta[i, j])


@pytest.mark.parametrize("factor", [0.8, 0.98, 1.02])
def test_an_entry_is_proved_present_only_beyond_the_reach_of_the_gap(factor):
    """An entry within what the radius allows must stay undetermined: the same gap would allow it to be zero."""
    excess = _root(lambda t: reach_over_smallest_entry(t) - 1.0, 0.5, steps=30)
    assert lazy(factor * excess, 1.0).certificate.edges_present == (3 if factor < 1 else 2)


def largest_dual_over_lambda(excess: float) -> float:
    """(|W - S| + r sqrt(W_ii W_jj)) / lambda1 of the pair that is zero: what the gap allows of its dual variable."""
    solution = lazy(excess, 1.0, CHAIN)
    W, gap = np.linalg.inv(solution.precision[0].toarray()), solution.certificate.gap
    r = _root(lambda r: r - np.log1p(r) - gap, 10.0)
    return (min(abs(W[0, 2] - CHAIN[0, 0, 2]), 0.05) + r * 1.05) / 0.05


@pytest.mark.parametrize("factor", [0.8, 0.97, 1.03])
def test_an_entry_is_proved_absent_only_if_the_reach_of_the_gap_stays_inside_the_dual_ball(factor):
    excess = _root(lambda t: largest_dual_over_lambda(t) - 1.0, 0.5, steps=30)
    assert lazy(factor * excess, 1.0, CHAIN).certificate.edges_absent == (factor < 1)


def _root(function, high: float, steps: int = 200) -> float:
    """Where an increasing function, negative at zero, is zero."""
    low = 0.0
    for _ in range(steps):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if function(middle) < 0 else (low, middle)
    return high
