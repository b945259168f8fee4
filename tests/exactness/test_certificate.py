"""The certificate is a proof: the gap bounds the suboptimality, the dual point is feasible, certified edges exist."""

from __future__ import annotations

import math
import re
import warnings
from decimal import Decimal, localcontext

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import jointglasso as jgl
from bank import BANK, Problem, from_samples
from jointglasso.blocks import build_system
from jointglasso.duality import DualityGap, bound_groups, certified_edges, gap_of_squares, gap_radii
from jointglasso.engine.nonzeros import flat_from_precisions
from jointglasso.engine.options import SOLVERS
from jointglasso.engine.screening import SCREENING
from jointglasso.kernels.pair_types import Entries
from jointglasso.penalties import ANY_CLASS, UNIFORM, SafeRegion, make_penalty
from jointglasso.problem import make_problem
from oracles import accurate_optimum, class_weights, dense, dual_objective, dual_violation, objective

every_solver = pytest.mark.parametrize("solver", list(SOLVERS))
every_screening = pytest.mark.parametrize("screening", list(SCREENING))

CORRELATED = Problem("strongly correlated", from_samples(2, 10, 15, seed=3, common=5.0), 0.15, 0.08)
NEARLY_FREE = Problem("small penalties", from_samples(3, 9, 4, seed=1, common=1.0), 0.02, 0.01, (0.3, 1.0, 3.0), False)


def named(name: str) -> Problem:
    return next(problem for problem in BANK if problem.name == name)


HIDDEN_PAIR = named("hidden pair")
CHOSEN = ("toy, diagonal penalised", "random weights", "two samples", "lambda1 = 0", "lambda2 = 0", "modules", "forest")
PROBLEMS = [*(problem for problem in BANK if problem.name in CHOSEN), HIDDEN_PAIR]
HARD = [CORRELATED, NEARLY_FREE]
every_problem = pytest.mark.parametrize("problem", PROBLEMS, ids=repr)


def solve(problem: Problem, **options) -> jgl.Solution:
    """Solve, not minding an early stop: what is looked at is the certificate."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", jgl.ConvergenceWarning)
        return jgl.solve(problem.S, problem.lambda1, problem.lambda2, **problem.keywords, **options)


def rounding(problem: Problem) -> float:
    return 1e-12 * max(1.0, abs(problem.optimum.objective))


def true_edges(problem: Problem) -> np.ndarray:
    """(K, pairs): which entries i < j are non-zero in the exact solution."""
    return problem.optimum.precision[:, *np.triu_indices(problem.S.shape[1], 1)] != 0


def assert_sound(solution: jgl.Solution, problem: Problem) -> None:
    """Everything a certificate promises, whatever the accuracy."""
    certificate = solution.certificate
    assert not math.isnan(certificate.gap) and certificate.gap >= 0
    assert certificate.gap >= solution.objective - problem.optimum.objective - rounding(problem)
    assert certificate.dual_objective <= problem.optimum.objective + rounding(problem)
    edges = true_edges(problem)
    assert certificate.edges_present <= edges.sum(), "an edge is certified that does not exist"
    assert certificate.edges_absent <= (~edges).sum(), "an edge is certified absent that exists"
    counts = (certificate.edges_present, certificate.edges_absent, certificate.edges_undetermined)
    assert sum(counts) == edges.size and min(counts) >= 0


def assert_usable(solution: jgl.Solution, problem: Problem) -> None:
    """However early a solve is stopped, it returns a point of the feasible set with its objective."""
    assert all(np.linalg.eigvalsh(Theta.toarray())[0] > 0 for Theta in solution.precision), "not positive definite"
    value = objective(solution.precision, *problem.arguments)
    assert solution.objective == pytest.approx(value, rel=1e-11, abs=solution.certificate.rounding)
    assert math.isfinite(solution.certificate.gap)


# --- stopped early, loosely, or in odd units -------------------------------------------------------------------------


@every_solver
@every_screening
@pytest.mark.parametrize("problem", PROBLEMS + HARD, ids=repr)
@pytest.mark.parametrize("max_iter", [1, 2, 5])
def test_certificate_is_sound_when_stopped_early(problem, screening, solver, max_iter):
    solution = solve(problem, screening=screening, solver=solver, max_iter=max_iter, tol=1e-10)
    assert_sound(solution, problem)
    assert_usable(solution, problem)


@every_solver
@every_screening
@every_problem
@pytest.mark.parametrize("tol", [0.3, 1e-2, 1e-4])
def test_certificate_is_sound_at_loose_tolerances(problem, screening, solver, tol):
    solution = solve(problem, screening=screening, solver=solver, tol=tol)
    assert_sound(solution, problem)
    assert_usable(solution, problem)
    assert solution.status.converged and solution.certificate.relative_gap <= tol
    assert_sums_agree(solution, problem)


def assert_sums_agree(solution: jgl.Solution, problem: Problem) -> None:
    """Objective and gap are the sums over the groups, and the objective is that of the problem."""
    certificate = solution.certificate
    model = make_problem(problem.S, problem.lambda1, problem.lambda2, **problem.keywords)
    assert solution.objective == certificate.objective
    assert certificate.objective == pytest.approx(model.objective(solution.precision), rel=1e-12)
    assert certificate.objective == pytest.approx(objective(solution.precision, *problem.arguments), rel=1e-12)
    assert math.fsum(certificate.group_gaps) == pytest.approx(certificate.gap, rel=1e-14, abs=certificate.rounding)
    assert len(certificate.group_gaps) == len(solution.partition.groups())
    assert (certificate.group_gaps >= 0).all()
    assert certificate.dual_objective == certificate.objective - certificate.gap
    assert certificate.relative_gap == certificate.gap / max(1.0, abs(certificate.objective))


@pytest.mark.parametrize("solver", [name for name in SOLVERS if name != "proximal_gradient"])
@pytest.mark.parametrize("problem", HARD, ids=repr)
def test_default_iterations_suffice_for_ill_conditioned_data(problem, solver):
    # Ten variables, two or three classes; ADMM needs a hundred iterations. First-order descent may need more.
    solution = solve(problem, screening="hybrid", solver=solver, tol=1e-6)
    assert_sound(solution, problem)
    assert solution.status.converged


@every_solver
@every_screening
@pytest.mark.parametrize("problem", [HIDDEN_PAIR, CORRELATED, named("modules")], ids=repr)
@pytest.mark.parametrize("stop_at", [1, 3])
def test_certificate_is_sound_when_a_callback_stops_the_solve(problem, screening, solver, stop_at):
    solution = solve(
        problem, screening=screening, solver=solver, tol=1e-10, callback=lambda iteration: iteration.number >= stop_at
    )
    assert_sound(solution, problem)
    assert_usable(solution, problem)


@every_solver
@every_screening
@pytest.mark.parametrize("factor", [1e-6, 1e6])
@pytest.mark.parametrize("problem", [named("two samples"), named("random weights")], ids=repr)
def test_gap_does_not_depend_on_the_units(problem, screening, solver, factor):
    scaled = Problem("", problem.S * factor, problem.lambda1 * factor, problem.lambda2 * factor, **problem.keywords)
    for max_iter in (1, 3, 1000):
        solution = solve(scaled, screening=screening, solver=solver, max_iter=max_iter, tol=1e-9)
        certificate = solution.certificate
        back = Problem("", problem.S, problem.lambda1, problem.lambda2, **problem.keywords)
        suboptimality = objective(dense(solution.precision) * factor, *back.arguments) - problem.optimum.objective
        # Rounding of the objective, which the change of units shifts by p K log(factor).
        assert certificate.gap >= suboptimality - 1e-12 * max(1.0, abs(solution.objective))
        assert not math.isnan(certificate.gap)
    assert solution.status.converged


@every_solver
@every_screening
@pytest.mark.parametrize("factor", [1e-6, 1e6])
def test_penalties_out_of_all_proportion_are_survived(screening, solver, factor):
    # Without a change of lambda: nothing but the diagonal is left, or hardly any penalty is felt.
    problem = Problem("", factor * from_samples(2, 5, 20, seed=2), 0.1, 0.1)
    solution = solve(problem, screening=screening, solver=solver, max_iter=500)
    assert not math.isnan(solution.certificate.gap) and solution.certificate.gap >= 0
    assert all(np.linalg.eigvalsh(Theta.toarray())[0] > 0 for Theta in solution.precision)
    if factor < 1:
        assert solution.n_edges == [0, 0] and solution.certificate.gap <= 1e-11


# --- the parts of a certificate --------------------------------------------------------------------------------------


@every_solver
def test_warning_names_the_gap_and_the_remedy(solver):
    problem = named("connected")
    options = {"screening": "none", "solver": solver, "max_iter": 1, "tol": 1e-12}
    with pytest.warns(jgl.ConvergenceWarning) as caught:
        solution = jgl.solve(problem.S, problem.lambda1, problem.lambda2, **problem.keywords, **options)
    assert len(caught) == 1
    message = str(caught[0].message)
    stated = float(re.search(r"gap ([0-9.]+e[+-]\d+|inf)", message).group(1))
    assert stated == pytest.approx(solution.certificate.relative_gap, rel=0.06)
    assert "1.0e-12" in message and "max_iter" in message and "tol" in message
    assert solution.status.remedy and solution.status.remedy in message
    assert not solution.status and not solution.status.converged


def test_warning_points_at_the_caller():
    problem = named("connected")
    with pytest.warns(jgl.ConvergenceWarning) as caught:
        jgl.solve(problem.S, 0.1, 0.1, screening="none", solver="admm", max_iter=1, tol=1e-12)
    assert caught[0].filename == __file__


@every_solver
@every_screening
@pytest.mark.parametrize("name", ["random weights", "connected", "modules"])
def test_an_accurate_solution_decides_nearly_every_edge(name, screening, solver):
    problem = named(name)
    certificate = solve(problem, screening=screening, solver=solver, tol=1e-10).certificate
    # r = sqrt(2 gap / w) is about 1e-4 here: a few entries in a hundred lie as close as that to their threshold.
    assert certificate.edges_undetermined <= 0.03 * true_edges(problem).size


# --- points that no solver chose -------------------------------------------------------------------------------------


class Laid:
    """A problem in flat block storage, on the blocks of one screening rule."""

    def __init__(self, problem: Problem, rule: str) -> None:
        self.problem = problem
        self.model = make_problem(problem.S, problem.lambda1, problem.lambda2, **problem.keywords)
        self.partition = jgl.screen(problem.S, problem.lambda1, problem.lambda2, rule=rule, weights=problem.weights)
        self.system = build_system(self.model.source, self.partition.class_blocks, self.model.weights)
        self.variance = self.model.optimal_variances
        same = self.partition.labels[:, :, None] == self.partition.labels[:, None, :]
        self.alone = same.sum(axis=2) == 1
        self.allowed = same

    def complete(self, Theta: np.ndarray) -> np.ndarray:
        """Drop what lies between blocks and give isolated variables their known precision."""
        Theta = np.where(self.allowed, Theta, 0.0)
        for k in range(len(Theta)):
            np.fill_diagonal(Theta[k], np.where(self.alone[k], 1.0 / self.variance[k], np.diagonal(Theta[k])))
        return Theta

    def bounds(self, Theta: np.ndarray, scale_to_feasible: bool):
        flat = flat_from_precisions(self.system, list(Theta), Theta.shape[1])
        return bound_groups(
            self.system, flat, self.model.penalty, self.model.diagonal_penalty, scale_to_feasible=scale_to_feasible
        )

    def whole_dual(self, bounds) -> np.ndarray:
        """W of the whole problem: the blocks' dual points, zero between them."""
        W = np.stack([np.diag(v) for v in self.variance])
        system = self.system
        for b in range(system.n_blocks):
            members = system.members[system.member_start[b] : system.member_start[b + 1]]
            block = bounds.dual[system.offset[b] : system.offset[b + 1]].reshape(len(members), len(members))
            W[system.block_class[b]][np.ix_(members, members)] = block
        return W

    def true_entries(self, matrices: np.ndarray) -> np.ndarray:
        """Entries of K matrices in the order of the system's off-diagonal entries."""
        row, column = self.system.entry_members()
        k = self.system.block_class[self.system.entry_block]
        return matrices[k, self.system.members[row], self.system.members[column]]


def arbitrary_point(laid: Laid, seed: int, spread: float) -> np.ndarray:
    """A positive definite point with zeros: the further from the solution, the larger the spread."""
    rng = np.random.default_rng(seed)
    exact = laid.problem.optimum.precision
    deviation = np.sqrt(np.einsum("kii->ki", exact))
    noise = rng.standard_normal(exact.shape) * (rng.random(exact.shape) < 0.5)
    noise = spread * (noise + noise.transpose(0, 2, 1)) * deviation[:, :, None] * deviation[:, None, :]
    Theta = laid.complete(exact * rng.choice([0.5, 1.0, 2.0]) + noise)
    for k in range(len(Theta)):
        lowest = np.linalg.eigvalsh(Theta[k] / np.outer(deviation[k], deviation[k]))[0]
        if lowest <= 0.05:
            Theta[k] += (0.05 - lowest) * np.diag(deviation[k] ** 2)
    return laid.complete(Theta)


POINTS = [*PROBLEMS, CORRELATED]
LAID = {(problem.name, rule): Laid(problem, rule) for problem in POINTS for rule in ("none", "hybrid")}


@pytest.mark.parametrize("rule", ["none", "hybrid"])
@pytest.mark.parametrize("problem", POINTS, ids=repr)
@given(seed=st.integers(0, 10**6), spread=st.sampled_from([0.0, 1e-6, 1e-3, 0.03, 0.3, 3.0]))
@settings(max_examples=25)
def test_gap_bounds_the_suboptimality_of_any_point(problem, rule, seed, spread):
    laid = LAID[problem.name, rule]
    Theta = arbitrary_point(laid, seed, spread)
    bounds = laid.bounds(Theta, scale_to_feasible=True)
    value = objective(Theta, *problem.arguments)
    isolated_objective = float((laid.model.weights[:, None] * (1.0 + np.log(laid.variance)) * laid.alone).sum())
    assert isolated_objective + bounds.total_objective == pytest.approx(value, rel=1e-10)
    assert (bounds.gap >= 0).all() and np.isfinite(bounds.gap).all()
    slack = 1e-12 * max(1.0, abs(value))
    assert bounds.total_gap >= value - problem.optimum.objective - slack
    # The dual point is feasible for the whole problem, and the gap is what it says.
    W = laid.whole_dual(bounds)
    assert dual_violation(W, *problem.arguments) <= 1e-12 * np.abs(problem.S).max()
    lower = dual_objective(W, problem.weights)
    assert value - bounds.total_gap <= lower + slack
    assert bounds.total_gap <= 1.02 * (value - lower) + slack, "the gap is wider than its dual point makes it"


@pytest.mark.parametrize("rule", ["none", "hybrid"])
@pytest.mark.parametrize("problem", POINTS, ids=repr)
@given(seed=st.integers(0, 10**6), spread=st.sampled_from([0.0, 1e-7, 1e-5, 1e-4, 1e-3, 1e-2]))
@settings(max_examples=25)
def test_certified_entries_and_radii_hold_at_any_point(problem, rule, seed, spread):
    laid = LAID[problem.name, rule]
    if not laid.system.n_blocks:
        return
    Theta = arbitrary_point(laid, seed, spread)
    bounds = laid.bounds(Theta, scale_to_feasible=True)
    flat = flat_from_precisions(laid.system, list(Theta), Theta.shape[1])
    edges = certified_edges(laid.system, flat, bounds.dual, bounds.gap, laid.model.penalty)
    present, absent = edges.present, edges.absent
    exact = laid.true_entries(problem.optimum.precision)
    assert not (present & absent).any()
    assert (exact[present] != 0).all()
    assert (exact[absent] == 0).all()
    # Distance to the solution, entry by entry.
    r, s = (radius[:, None, None] for radius in gap_radii(np.full(len(Theta), bounds.total_gap), laid.model.weights))
    deviation = np.sqrt(np.einsum("kii->ki", Theta))
    radius_factor = np.divide(s, 1.0 - s, out=np.full_like(s, np.inf), where=s < 1.0)
    bound = radius_factor * deviation[:, :, None] * deviation[:, None, :]
    assert (np.abs(Theta - problem.optimum.precision) <= bound * (1 + 1e-9) + 1e-9 * np.abs(Theta).max()).all()
    known = np.sqrt(laid.variance)
    distance = np.abs(laid.whole_dual(bounds) - np.linalg.inv(problem.optimum.precision))
    assert (distance <= r * known[:, :, None] * known[:, None, :] + 1e-9 * laid.variance.max()).all()


STRETCHES = [-0.5, -0.1, -1e-3, 1e-3, 1e-2, 0.1, 1.0, 10.0]


@pytest.mark.parametrize("t", STRETCHES)
@pytest.mark.parametrize("problem", POINTS, ids=repr)
def test_gap_of_a_stretched_solution_is_not_below_its_suboptimality(problem, t):
    # F((1 + t) Theta*) - F* = sum_k w_k p (t - log(1 + t)), exactly.
    bounds = LAID[problem.name, "none"].bounds((1.0 + t) * problem.optimum.precision, scale_to_feasible=True)
    weight = class_weights(problem.weights, len(problem.S)).sum()
    assert bounds.total_gap >= weight * problem.S.shape[1] * (t - np.log1p(t)) * (1 - 1e-6)


@pytest.mark.parametrize("t", STRETCHES)
def test_gap_of_a_stretched_solution_without_zeros_is_its_suboptimality(t):
    # Without zeros the subgradient at (1 + t) Theta* is the optimal one, so the dual point is the optimal W*.
    problem = Problem("dense", from_samples(2, 5, 30, seed=2, common=0.5), 0.002, 0.001, (0.5, 2.0))
    assert true_edges(problem).all()
    bounds = Laid(problem, "none").bounds((1.0 + t) * problem.optimum.precision, scale_to_feasible=False)
    expected = 2.5 * 5 * (t - np.log1p(t))
    # Below a norm of 0.01 the gap is bounded by m^2 / (2 (1 - |m|)), up to two percent above.
    assert expected * (1 - 1e-6) <= bounds.total_gap <= expected * 1.02


def test_gap_falls_with_the_square_of_the_distance():
    problem = named("random weights")
    laid = LAID[problem.name, "none"]
    rng = np.random.default_rng(0)
    direction = rng.standard_normal(problem.S.shape)
    # On the support only: zeros stay zeros, as along the path of a solver.
    direction = (direction + direction.transpose(0, 2, 1)) * problem.optimum.precision
    gaps = [
        laid.bounds(problem.optimum.precision + t * direction, scale_to_feasible=False).total_gap
        for t in (1e-3, 1e-4, 1e-5)
    ]
    assert gaps[0] / gaps[1] == pytest.approx(100.0, rel=0.1)
    assert gaps[1] / gaps[2] == pytest.approx(100.0, rel=0.1)


def test_gap_is_infinite_where_theta_is_not_definite():
    laid = LAID["toy, diagonal penalised", "none"]
    bounds = laid.bounds(np.ones((2, 3, 3)), scale_to_feasible=True)
    assert np.isinf(bounds.gap).all() and np.isinf(bounds.objective).all()


# --- the radius equations --------------------------------------------------------------------------------------------


def radius_equations(r: float, s: float) -> tuple[Decimal, Decimal]:
    """``r - log(1 + r)`` and ``-s - log(1 - s)`` to sixty digits."""
    with localcontext() as context:
        context.prec = 60
        left, right = Decimal(r), Decimal(s)
        return left - (1 + left).ln(), -right - (1 - right).ln() if right < 1 else Decimal("Infinity")


@pytest.mark.parametrize("exponent", range(-30, 4, 3))
@pytest.mark.parametrize("weight", [0.1, 7.0])
def test_gap_radii_solve_their_equations_and_round_upwards(exponent, weight):
    gap = 3.0 * 10.0**exponent
    x = Decimal(gap / weight)
    r, s = (float(radius[0]) for radius in gap_radii(np.array([gap]), np.array([weight])))
    at_r, at_s = radius_equations(r, s)
    assert at_r >= x, "r is too small: the radius is not safe"
    assert at_s >= x, "s is too small: the radius is not safe"
    slack = 1e-5 if exponent > -20 else 1e-2
    below_r, below_s = radius_equations(r * (1 - slack), s * (1 - slack))
    assert below_r <= x, "r is larger than it need be"
    assert below_s <= x, "s is larger than it need be"


def test_no_gap_leaves_no_radius():
    assert [radius.tolist() for radius in gap_radii(np.zeros(1), np.ones(1))] == [[0.0], [0.0]]


def test_an_infinite_gap_has_an_infinite_radius():
    assert [radius.tolist() for radius in gap_radii(np.array([np.inf]), np.ones(1))] == [[np.inf], [1.0]]


def test_an_infinite_gap_certifies_nothing():
    problem = named("random weights")
    laid = LAID[problem.name, "none"]
    flat = flat_from_precisions(laid.system, list(problem.optimum.precision), problem.S.shape[1])
    bounds = laid.bounds(problem.optimum.precision, scale_to_feasible=False)
    unknown = DualityGap(bounds.objective, np.full_like(bounds.gap, np.inf), bounds.dual, bounds.factor)
    edges = certified_edges(laid.system, flat, unknown.dual, unknown.gap, laid.model.penalty)
    present, absent = edges.present, edges.absent
    assert not present.any() and not absent.any()


@pytest.mark.parametrize("proved", [True, False])
def test_pairs_inside_the_blocks_of_one_class_are_zero_only_if_the_screening_is_proved(proved):
    """Nothing is known about the pair in the other class, so that its ball says nothing about this one."""
    S = np.tile(np.eye(3), (2, 1, 1))
    S[0, 0, 1] = S[0, 1, 0] = S[1, 1, 2] = S[1, 2, 1] = 0.07
    system = Laid(Problem("one class each", S, 0.04, 0.02), "hybrid").system
    assert np.diff(system.pair_start).tolist() == [1, 1]
    theta = system.scatter(np.zeros(2), np.ones(4))
    penalty = make_problem(S, 0.04, 0.02).penalty
    edges = certified_edges(system, theta, system.S, np.zeros(system.n_groups), penalty, screening_proved=proved)
    assert edges.absent.tolist() == [proved, proved]


def test_radii_grow_with_the_gap_and_fall_with_the_weight():
    gap = np.logspace(-12, 3, 50)
    r, s = gap_radii(gap, np.ones(50))
    assert (np.diff(r) > 0).all() and (np.diff(s) >= 0).all()
    assert (s <= r).all() and (s <= 1.0).all()
    heavier, _ = gap_radii(gap, np.full(50, 2.0))
    assert (heavier < r).all()


def test_oracle_of_this_file_is_exact():
    for problem in PROBLEMS + HARD:
        exact = problem.optimum
        lower = dual_objective(np.linalg.inv(exact.precision), problem.weights)
        assert lower == pytest.approx(exact.objective, rel=1e-9)
        assert accurate_optimum(*problem.arguments).objective == pytest.approx(exact.objective, rel=1e-10)


@settings(max_examples=200)
@given(st.lists(st.floats(-0.4, 0.4), min_size=1, max_size=5))
def test_the_gap_is_bounded_by_the_squares(eigenvalues):
    m = np.array(eigenvalues)
    squares = (m**2).sum(keepdims=True)
    if squares[0] >= 0.9:
        return
    bound = gap_of_squares(squares)[0]
    exact = (m - np.log1p(m)).sum()
    assert exact <= bound * (1.0 + 1e-9) + 1e-16
    assert bound <= 0.5 * squares[0] / (1.0 - np.sqrt(squares[0])) + 1e-16


def test_zeros_of_a_pair_of_the_group_penalty():
    """A pair is zero if its excesses over lambda1 stay inside the ball of radius lambda2, a class below lambda1."""
    penalty = make_penalty("group", 1.0, 1.0, None, ("a", "b"))
    entries = Entries(np.array([0, 2]), ANY_CLASS, UNIFORM, 2)
    for u, expected in (((1.6, 1.6), (True, True)), ((1.9, 1.9), (False, False)), ((0.5, 2.1), (True, False))):
        zeros = penalty.certified_zeros(SafeRegion(np.zeros(2), np.array(u), np.zeros(2), np.zeros(2)), entries)
        assert tuple(zeros) == expected
        closer = penalty.certified_zeros(
            SafeRegion(np.zeros(2), np.array(u) - 0.3, np.full(2, 0.3), np.zeros(2)), entries
        )
        assert tuple(closer) == expected


@pytest.mark.parametrize(("u", "expected"), [((3.0, 0.9), True), ((3.0, 1.5), False), ((0.5, 1.5), True)])
def test_a_class_is_screened_out_only_below_lambda1_or_with_the_pair(u, expected):
    """Class "b" is screened out; beside an edge of class "a" it needs ``|u| <= lambda1``, else the dual ball."""
    penalty = make_penalty("group", 1.0, 1.0, None, ("a", "b"))
    theta, nothing, in_block = np.array([[0.5, 0.0]]), np.zeros((1, 2)), np.array([[True, False]])
    assert penalty.screening_certified(SafeRegion(theta, np.array([u]), nothing, nothing), in_block)[0] == expected


def test_gaps_of_groups_contain_what_rounding_may_add():
    """The gaps of the groups add up to the gap but for the rounding of the sums over groups and isolated variables."""
    rng = np.random.default_rng(0)
    S = np.array([np.corrcoef(rng.standard_normal((40, 12)).T) for _ in range(2)])
    certificate = jgl.solve(S, 0.1, 0.05, tol=1e-11, screening="none").certificate
    assert len(certificate.group_gaps) == 1
    assert certificate.rounding > 0.0
    assert certificate.group_gaps[0] >= 0.5 * certificate.rounding
