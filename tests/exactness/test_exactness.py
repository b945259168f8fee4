"""The answers are the optimum: against Clarabel, closed forms, scikit-learn, GGLasso, and against themselves."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy import sparse

import jointglasso as jgl
from bank import BANK, CLOSED_FORM, Problem, from_entries, from_samples
from jointglasso.engine.options import SOLVERS
from jointglasso.engine.screening import SCREENING
from jointglasso.problem import make_problem
from oracles import accurate_optimum, clarabel_optimum, dense, kkt_residual, objective, support_partition

SOLVER_NAMES = list(SOLVERS)
SCREENING_NAMES = list(SCREENING)

every_solver = pytest.mark.parametrize("solver", SOLVER_NAMES)
every_screening = pytest.mark.parametrize("screening", SCREENING_NAMES)


_solved: dict[tuple, jgl.Solution] = {}


def solve(problem: Problem, *, screening: str, solver: str, tol: float = 1e-8, **options) -> jgl.Solution:
    """Solve, once for each named problem: several tests look at different sides of one solution."""
    key = (problem.name, screening, solver, tol)
    if key in _solved and not options:
        return _solved[key]
    options.update(problem.keywords, screening=screening, solver=solver, tol=tol)
    solution = jgl.solve(problem.S, problem.lambda1, problem.lambda2, **options)
    if problem.name and "warm_start" not in options:
        _solved[key] = solution
    return solution


def entry_difference(precision, reference) -> float:
    """Largest |Theta - Theta*|_ij in units of sqrt(Theta*_ii Theta*_jj), which no choice of units changes.

    A relative gap of tol allows about sqrt(2 tol |F| / w): 1e-4 times the root of |F| / w at tol = 1e-8.
    """
    reference = dense(reference)
    deviation = np.sqrt(np.einsum("kii->ki", reference))
    return float((np.abs(dense(precision) - reference) / (deviation[:, :, None] * deviation[:, None, :])).max())


def random_problem(seed: int) -> Problem:
    """K in 1..5, p in 3..12, n above or below p, every convention in turn."""
    rng = np.random.default_rng(seed)
    n_classes, p = 1 + seed % 5, int(rng.integers(3, 13))
    weights = tuple(rng.uniform(0.2, 2.0, n_classes)) if seed % 3 == 0 else None
    lambda1, lambda2 = rng.uniform(0.05, 0.4, 2)
    kind = ("n < p", "n > p", "lambda1 = 0", "lambda2 = 0", "ties", "small lambda")[seed % 6]
    if kind == "ties":
        # Binary fractions: sums of squares of small integers over a power of two, lambdas on the same grid.
        X = rng.integers(-2, 3, size=(n_classes, 16, p)).astype(float)
        S = np.einsum("kni,knj->kij", X, X) / 16.0
        S[:, range(p), range(p)] += 0.5
        lambda1, lambda2 = 0.5, 0.25
    else:
        n = max(3, p // 2) if kind == "n < p" else 3 * p
        S = from_samples(n_classes, p, n, seed, common=rng.choice([0.0, 0.7]))
    lambda1 = {"lambda1 = 0": 0.0, "small lambda": 0.02}.get(kind, lambda1)
    lambda2 = {"lambda2 = 0": 0.0, "small lambda": 0.01}.get(kind, lambda2)
    diagonal = bool(rng.integers(2))
    name = f"{seed}: K={n_classes} p={p} {kind}{' weighted' if weights else ''}{'' if diagonal else ' free diagonal'}"
    return Problem(name, S, float(lambda1), float(lambda2), weights, diagonal)


RANDOM = [random_problem(seed) for seed in range(30)]
every_random = pytest.mark.parametrize("problem", RANDOM, ids=repr)
every_bank = pytest.mark.parametrize("problem", BANK, ids=repr)


# --- the oracles are checked before they are believed ---------------------------------------------------------------


@every_random
def test_the_two_oracles_agree(problem):
    clarabel, accurate = clarabel_optimum(*problem.arguments), accurate_optimum(*problem.arguments)
    scale = max(1.0, abs(accurate.objective))
    # Clarabel's point is feasible, so its objective is not below the optimum but for rounding.
    assert -1e-10 * scale <= objective(clarabel.precision, *problem.arguments) - accurate.objective <= 1e-7 * scale
    assert abs(clarabel.objective - accurate.objective) <= 1e-7 * scale


@pytest.mark.parametrize("problem", CLOSED_FORM, ids=repr)
def test_closed_forms_of_the_bank_satisfy_the_optimality_conditions(problem):
    assert kkt_residual(problem.precision, *problem.arguments) <= 1e-14
    if problem.truth is not None:
        np.testing.assert_array_equal(support_partition(problem.precision), problem.truth)


def test_the_toy_has_the_values_worked_out_by_hand():
    toy = next(problem for problem in BANK if problem.name == "toy, diagonal not penalised")
    assert toy.precision[0, 0, 1] == pytest.approx(-0.010001, abs=1e-8)
    assert toy.precision[0, 0, 0] == pytest.approx(1.0001, abs=1e-7)


# --- against other solvers ------------------------------------------------------------------------------------------


@every_solver
@every_random
def test_random_problem_against_clarabel(problem, solver):
    screening = SCREENING_NAMES[RANDOM.index(problem) // 5 % len(SCREENING_NAMES)]
    solution = solve(problem, screening=screening, solver=solver, tol=1e-9)
    clarabel = clarabel_optimum(*problem.arguments)
    scale = max(1.0, abs(clarabel.objective))
    assert abs(solution.objective - clarabel.objective) <= 1e-6 * scale
    assert solution.certificate.gap >= solution.objective - clarabel.objective - 1e-7 * scale
    assert solution.certificate.dual_objective <= clarabel.objective + 1e-7 * scale
    assert entry_difference(solution.precision, clarabel.precision) <= 1e-3


@every_solver
@every_random
def test_random_problem_against_the_accurate_oracle(problem, solver):
    solution = solve(problem, screening="none", solver=solver, tol=1e-9)
    exact = accurate_optimum(*problem.arguments)
    rounding = 1e-12 * max(1.0, abs(exact.objective))
    assert -rounding <= solution.objective - exact.objective <= solution.certificate.gap + rounding
    assert solution.certificate.relative_gap <= 1e-9
    assert entry_difference(solution.precision, exact.precision) <= 5e-4


@every_solver
@pytest.mark.parametrize("share", [0.0, 0.25, 1.0])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_single_class_against_scikit_learn(seed, share, solver):
    from sklearn.covariance import graphical_lasso

    S, alpha = from_samples(1, 10, 30, seed, common=0.5), 0.15
    _, reference = graphical_lasso(S[0], alpha=alpha, tol=1e-10, enet_tol=1e-12, max_iter=2000)
    solution = jgl.solve(
        S, share * alpha, (1 - share) * alpha, penalize_diagonal=False, screening="hybrid", solver=solver, tol=1e-10
    )
    # scikit-learn stops at a gap of 1e-10; entries then agree to its square root.
    assert entry_difference(solution.precision, [reference]) <= 1e-4
    assert solution.objective <= objective([reference], S, alpha, 0.0, None, False) + 1e-9


@pytest.fixture(scope="module")
def gglasso_solver():
    """GGLasso's ADMM without its 15 s of compilation: its kernels run as plain Python."""
    import numba

    jgl.solve(np.eye(2)[None], 0.1, 0.1, screening="hybrid", solver=SOLVER_NAMES[0])  # our kernels are compiled first
    numba.config.DISABLE_JIT = 1
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", category=DeprecationWarning)
            warnings.filterwarnings("ignore", category=SyntaxWarning)
            from gglasso.solver.admm_solver import ADMM_MGL
    finally:
        numba.config.DISABLE_JIT = 0
    return ADMM_MGL


@every_solver
@pytest.mark.parametrize("n_classes", [2, 3])
def test_several_classes_against_gglasso(gglasso_solver, n_classes, solver):
    S, lambda1, lambda2 = from_samples(n_classes, 6, 30, seed=n_classes, common=0.5), 0.1, 0.08
    start = np.tile(np.eye(6), (n_classes, 1, 1))
    found, info = gglasso_solver(S, lambda1, lambda2, "GGL", start, tol=1e-11, rtol=1e-11, max_iter=3000)
    solution = jgl.solve(S, lambda1, lambda2, penalize_diagonal=False, screening="hybrid", solver=solver, tol=1e-11)
    # Both run to about 1e-10: what is left is the square root of our gap.
    assert info["status"] == "optimal"
    assert entry_difference(solution.precision, found["Theta"]) <= 1e-4
    assert solution.objective <= objective(found["Omega"], S, lambda1, lambda2, None, False) + 1e-9


# --- the bank through everything ------------------------------------------------------------------------------------


@every_solver
@every_screening
@every_bank
def test_bank_problem_reaches_the_known_optimum_and_its_zeros(problem, screening, solver):
    solution = solve(problem, screening=screening, solver=solver)
    optimum = problem.optimum
    scale = max(1.0, abs(optimum.objective))
    assert solution.status.converged
    assert abs(solution.objective - optimum.objective) <= 1e-8 * scale + 1e-12 * scale
    assert solution.certificate.gap >= solution.objective - optimum.objective - 1e-12 * scale
    assert solution.objective == pytest.approx(objective(solution.precision, *problem.arguments), rel=1e-11)
    weight = min(problem.weights or (1.0,))
    assert entry_difference(solution.precision, optimum.precision) <= 2.0 * np.sqrt(2e-8 * scale / weight)
    assert_symmetric_definite_and_truly_sparse(solution, problem)
    label = solution.partition.labels
    screened_out = label[:, :, None] != label[:, None, :]
    # The oracles know nothing of screening, and their zeros are exact.
    assert not optimum.precision[screened_out].any()


def assert_symmetric_definite_and_truly_sparse(solution, problem):
    n_classes, p, _ = problem.S.shape
    assert len(solution.precision) == n_classes
    for k, Theta in enumerate(solution.precision):
        assert isinstance(Theta, sparse.csc_array) and Theta.shape == (p, p)
        assert (Theta != Theta.T).nnz == 0
        assert np.linalg.eigvalsh(Theta.toarray())[0] > 0
        assert (Theta.data != 0).all(), "a zero is stored"
        assert Theta.has_canonical_format, "an entry is stored twice"
        label = solution.partition.labels[k]
        entries = Theta.tocoo()
        assert (label[entries.row] == label[entries.col]).all(), "an entry lies outside the partition"


@every_solver
@pytest.mark.parametrize("problem", CLOSED_FORM, ids=repr)
def test_tight_tolerance_is_reached_and_gives_the_closed_form(problem, solver):
    solution = solve(problem, screening="hybrid", solver=solver, tol=1e-11)
    # r = sqrt(2 gap / w) with gap <= 1e-11 |F|, |F| <= 100, w >= 0.1: 1.5e-4.
    assert entry_difference(solution.precision, problem.precision) <= 1.5e-4


@every_solver
@every_screening
def test_nothing_left_to_iterate_gives_a_proof_without_a_gap(screening, solver):
    problem = next(problem for problem in BANK if problem.name == "just above lambda_max")
    solution = solve(problem, screening=screening, solver=solver, tol=1e-12)
    assert solution.n_edges == [0, 0, 0]
    assert solution.certificate.gap <= solution.certificate.rounding + 1e-12
    assert solution.certificate.edges_present == 0


# --- warm starts ----------------------------------------------------------------------------------------------------

WARM = [problem for problem in BANK if problem.name in ("random weights", "two samples", "modules", "lambda1 = 0")]


@every_solver
@pytest.mark.parametrize("problem", WARM, ids=repr)
@pytest.mark.parametrize("origin", ["itself", "other lambdas", "dense", "unscreened"])
def test_warm_start_gives_the_same_answer(problem, origin, solver):
    p = problem.S.shape[1]
    if origin == "itself":
        start = solve(problem, screening="hybrid", solver=solver)
    elif origin == "unscreened":
        start = solve(problem, screening="none", solver=solver)
    elif origin == "other lambdas":
        options = {**problem.keywords, "screening": "hybrid", "solver": solver, "tol": 1e-4}
        start = jgl.solve(problem.S, 2.0 * problem.lambda1, 2.0 * problem.lambda2, **options)
    else:
        half = 0.5 * np.ones((p, p)) + 0.5 * np.eye(p)
        start = [half / variance for variance in np.einsum("kii->ki", problem.S).mean(axis=1)]
    solution = solve(problem, screening="hybrid", solver=solver, warm_start=start)
    scale = max(1.0, abs(problem.optimum.objective))
    assert abs(solution.objective - problem.optimum.objective) <= 1.01e-8 * scale


@every_solver
def test_warm_start_at_the_solution_is_no_slower(solver):
    problem = next(problem for problem in BANK if problem.name == "connected")
    cold = solve(problem, screening="hybrid", solver=solver)
    warm = solve(problem, screening="hybrid", solver=solver, warm_start=cold)
    assert warm.n_iter <= cold.n_iter


# --- symmetries of the problem --------------------------------------------------------------------------------------

SYMMETRIC = [
    problem
    for problem in BANK
    if problem.name in ("random weights", "single class", "two samples", "forest", "modules")
]
every_symmetric = pytest.mark.parametrize("problem", SYMMETRIC, ids=repr)


def two_radii(problem: Problem) -> float:
    """Bound on the difference of two solutions with a relative gap of 1e-8, see `entry_difference`."""
    weight = min(problem.weights or (1.0,))
    return 4.0 * np.sqrt(2e-8 * max(1.0, abs(problem.optimum.objective)) / weight)


@every_solver
@every_symmetric
def test_permuting_the_variables_permutes_the_answer(problem, solver):
    order = np.random.default_rng(0).permutation(problem.S.shape[1])
    moved = Problem("", problem.S[:, order][:, :, order], problem.lambda1, problem.lambda2, **problem.keywords)
    first, second = (solve(one, screening="hybrid", solver=solver) for one in (problem, moved))
    assert jgl.Partition(first.partition.labels[:, order]) == second.partition
    assert second.objective == pytest.approx(first.objective, rel=2e-8)
    assert entry_difference(second.precision, dense(first.precision)[:, order][:, :, order]) <= two_radii(problem)


@every_solver
@every_symmetric
def test_permuting_the_classes_permutes_the_answer(problem, solver):
    order = np.random.default_rng(1).permutation(len(problem.S))
    weights = None if problem.weights is None else tuple(np.asarray(problem.weights)[order])
    moved = Problem("", problem.S[order], problem.lambda1, problem.lambda2, weights, problem.penalize_diagonal)
    first, second = (solve(one, screening="hybrid", solver=solver) for one in (problem, moved))
    assert jgl.Partition(first.partition.labels[order]) == second.partition
    assert second.objective == pytest.approx(first.objective, rel=2e-8)
    assert entry_difference(second.precision, dense(first.precision)[order]) <= two_radii(problem)


@every_solver
@every_symmetric
@pytest.mark.parametrize("factor", [2.0**-20, 2.0**20])
def test_scaling_covariances_and_penalties_scales_the_answer(problem, factor, solver):
    # Units of the data: S c, lambda c gives Theta / c. A power of two makes the scaled problem exactly the same.
    scaled = Problem("", problem.S * factor, problem.lambda1 * factor, problem.lambda2 * factor, **problem.keywords)
    first, second = (solve(one, screening="hybrid", solver=solver) for one in (problem, scaled))
    n_terms = (np.ones(len(problem.S)) if problem.weights is None else np.asarray(problem.weights)).sum()
    shift = n_terms * problem.S.shape[1] * np.log(factor)
    assert first.partition == second.partition
    # The tolerance is relative to the objective, which the shift makes up to 40 times larger here.
    tolerance = 1e-8 * (abs(first.objective) + abs(second.objective))
    assert abs(second.objective - first.objective - shift) <= tolerance
    spread = 4.0 * np.sqrt(2.0 * tolerance / min(problem.weights or (1.0,)))
    assert entry_difference(dense(second.precision) * factor, first.precision) <= spread


@every_solver
@every_symmetric
def test_scaling_weights_and_penalties_changes_nothing(problem, solver):
    weights = tuple(8.0 * w for w in problem.weights or (1.0,) * len(problem.S))
    scaled = Problem("", problem.S, 8 * problem.lambda1, 8 * problem.lambda2, weights, problem.penalize_diagonal)
    first, second = (solve(one, screening="hybrid", solver=solver) for one in (problem, scaled))
    assert first.partition == second.partition
    assert second.objective == pytest.approx(8.0 * first.objective, rel=2e-8)
    assert entry_difference(second.precision, first.precision) <= two_radii(problem)


@every_solver
@every_symmetric
def test_flipping_the_sign_of_variables_flips_their_entries(problem, solver):
    sign = np.random.default_rng(2).choice([-1.0, 1.0], problem.S.shape[1])
    flip = np.outer(sign, sign)
    flipped = Problem("", problem.S * flip, problem.lambda1, problem.lambda2, **problem.keywords)
    first, second = (solve(one, screening="hybrid", solver=solver) for one in (problem, flipped))
    assert first.partition == second.partition
    assert entry_difference(dense(second.precision) * flip, first.precision) <= two_radii(problem)


@every_solver
@pytest.mark.parametrize("share", [0.0, 0.3, 0.7])
def test_one_class_sees_only_the_sum_of_the_penalties(share, solver):
    S, total = from_samples(1, 9, 20, seed=9, common=0.4), 0.2
    options = {"penalize_diagonal": False, "screening": "hybrid", "solver": solver, "tol": 1e-9}
    reference = jgl.solve(S, total, 0.0, **options)
    other = jgl.solve(S, share * total, total - share * total, **options)
    assert other.objective == pytest.approx(reference.objective, rel=2e-9)
    assert entry_difference(other.precision, reference.precision) <= 1e-3


@every_solver
def test_without_lambda2_the_classes_are_solved_apart(solver):
    problem = next(problem for problem in BANK if problem.name == "lambda2 = 0")
    options = {"screening": "hybrid", "solver": solver, "tol": 1e-9}
    together = jgl.solve(problem.S, problem.lambda1, 0.0, **problem.keywords, **options)
    apart = [
        jgl.solve(S[None], problem.lambda1, 0.0, weights=[w], **options)
        for S, w in zip(problem.S, problem.weights, strict=True)
    ]
    assert together.objective == pytest.approx(sum(one.objective for one in apart), rel=4e-9)
    assert entry_difference(together.precision, [one.precision[0] for one in apart]) <= 2e-3


@every_solver
@every_screening
def test_an_unrelated_variable_changes_nothing(screening, solver):
    problem = next(problem for problem in BANK if problem.name == "random weights")
    n_classes, p, _ = problem.S.shape
    wider = np.zeros((n_classes, p + 1, p + 1))
    wider[:, :p, :p], wider[:, p, p] = problem.S, 3.0
    larger = Problem("", wider, problem.lambda1, problem.lambda2, **problem.keywords)
    solution = solve(larger, screening=screening, solver=solver)
    assert entry_difference(dense(solution.precision)[:, :p, :p], problem.optimum.precision) <= two_radii(problem)
    alone = dense(solution.precision)[:, p]
    np.testing.assert_allclose(alone[:, p], 1.0 / 3.0, rtol=1e-3)
    assert not alone[:, :p].any()


@every_solver
@every_screening
def test_samples_and_their_covariances_give_the_same_answer(screening, solver):
    rng = np.random.default_rng(4)
    samples = [rng.standard_normal((n, 9)) + 0.6 * rng.standard_normal((n, 1)) for n in (12, 25, 7)]
    matrices = [np.cov(X, rowvar=False, bias=True) for X in samples]
    options = {"weights": (12.0, 25.0, 7.0), "screening": screening, "solver": solver, "tol": 1e-9}
    from_samples_ = jgl.solve(jgl.SampleCovariance(samples), 3.0, 2.0, **options)
    from_matrices = jgl.solve(matrices, 3.0, 2.0, **options)
    assert from_samples_.partition == from_matrices.partition
    assert from_samples_.objective == pytest.approx(from_matrices.objective, rel=2e-9)


@every_solver
def test_inputs_are_not_changed(solver):
    S = from_samples(2, 5, 10, seed=3)
    start = [np.eye(5), np.eye(5)]
    before = S.copy()
    jgl.solve(S, 0.2, 0.1, screening="hybrid", solver=solver, warm_start=start)
    np.testing.assert_array_equal(S, before)
    np.testing.assert_array_equal(start, np.stack([np.eye(5)] * 2))


# --- the objective function -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("penalize_diagonal", [True, False])
def test_objective_is_eq_1_to_4_at_arbitrary_points(penalize_diagonal):
    rng = np.random.default_rng(0)
    S, weights = from_samples(3, 7, 5, seed=0), (0.5, 1.0, 2.0)
    problem = make_problem(S, 0.3, 0.7, weights=weights, penalize_diagonal=penalize_diagonal)
    for _ in range(20):
        root = rng.standard_normal((3, 7, 7)) * (rng.random((3, 7, 7)) < 0.3) + 2 * np.eye(7)
        Theta = root @ root.transpose(0, 2, 1)
        expected = objective(Theta, S, 0.3, 0.7, weights, penalize_diagonal)
        assert problem.objective(list(Theta)) == pytest.approx(expected, rel=1e-12)
        assert problem.objective([sparse.csc_array(one) for one in Theta]) == pytest.approx(expected, rel=1e-12)


def test_objective_is_infinite_outside_the_cone():
    S = from_entries(3, {(0, 1): 0.5})
    assert make_problem(S, 0.1, 0.1).objective([np.diag([1.0, -1.0, 1.0])]) == np.inf
    assert make_problem(S, 0.1, 0.1).objective([np.ones((3, 3))]) == np.inf


def test_objective_keeps_the_pairs_apart_when_p_squared_exceeds_32_bits(monkeypatch):
    p = 70_000  # 61356 * p + 67296 = 0 * p + 20000 modulo 2**32
    monkeypatch.setattr("jointglasso.problem.logdet", lambda Theta: 0.0)
    problem = make_problem(_IdentitySource(p), 0.0, 1.0, penalize_diagonal=False)
    rows, columns = np.array([0, 61356], dtype=np.int32), np.array([20000, 67296], dtype=np.int32)
    upper = sparse.coo_array((np.array([0.3, 0.4]), (rows, columns)), shape=(p, p))
    Theta = sparse.csc_array(sparse.csc_array(sparse.eye_array(p), dtype=float) + upper + upper.T)
    Theta.indices, Theta.indptr = Theta.indices.astype(np.int32), Theta.indptr.astype(np.int32)
    # trace p, no logdet, lambda2 * 2 * (0.3 + 0.4): two pairs, not one pair of norm 0.5
    assert problem.objective([Theta]) - p == pytest.approx(1.4)


class _IdentitySource(jgl.CovarianceSource):
    """One class, identity covariance, nothing stored."""

    def __init__(self, p: int) -> None:
        super().__init__(("1",), tuple(f"x{i}" for i in range(p)))

    def entries(self, k, rows, columns):
        return (rows == columns).astype(float)
