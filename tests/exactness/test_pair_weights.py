"""Weights of single pairs: every solver and rule against oracles that know nothing of the package."""

from __future__ import annotations

import tracemalloc
import warnings
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings, strategies as st
from scipy import sparse

import jointglasso as jgl
import pair_oracles as oracle
from bank import from_entries, from_samples
from jointglasso import config
from jointglasso.blocks import build_system
from jointglasso.duality import bound_groups, certified_edges
from jointglasso.engine.nonzeros import flat_from_precisions
from jointglasso.penalties import GroupPenalty, as_pair_weights
from jointglasso.problem import make_problem
from jointglasso.screening import Partition
from oracles import Optimum, dense

EXAMPLES = settings(max_examples=40)
SCREENING = ("dynamic", "hybrid", "global", "class", "none")
RULES = ("class", "global", "dynamic", "hybrid")
SOLVERS = ("auto", "newton", "proximal_gradient", "admm", "newton for big groups")


def random_weights(rng, p: int, zeros: float = 0.1, forbidden: float = 0.2) -> np.ndarray:
    """Symmetric weights from 0.2 to 5, some of them 1, some 0, some infinite."""
    V = np.exp(rng.uniform(np.log(0.2), np.log(5.0), size=(p, p)))
    draw = rng.random((p, p))
    V[draw < 0.3] = 1.0
    V[(draw >= 0.3) & (draw < 0.3 + zeros)] = 0.0
    V[draw > 1.0 - forbidden] = np.inf
    upper = np.triu_indices(p, 1)
    V[upper[1], upper[0]] = V[upper]
    np.fill_diagonal(V, 1.0)
    return V


@dataclass(frozen=True)
class Problem:
    """A problem with weights, and the arguments in the forms that the oracles and the package take."""

    S: np.ndarray
    lambda1: float
    lambda2: float
    V: np.ndarray
    weights: tuple[float, ...] | None = None
    penalize_diagonal: bool = True
    name: str = field(default="", compare=False)

    @property
    def arguments(self) -> tuple:
        return self.S, self.lambda1, self.lambda2, self.V, self.weights, self.penalize_diagonal

    @cached_property
    def optimum(self) -> Optimum:
        return oracle.clarabel_optimum(*self.arguments)

    def solve(self, **options) -> jgl.Solution:
        options = {
            "pair_weights": self.V,
            "weights": self.weights,
            "penalize_diagonal": self.penalize_diagonal,
        } | options
        return jgl.solve(self.S, self.lambda1, self.lambda2, **options)

    def __repr__(self) -> str:
        return self.name


def random_problem(seed: int) -> Problem:
    """K = 1 to 4 classes, equal or unequal weights, both diagonal conventions."""
    rng = np.random.default_rng(seed)
    n_classes, p = 1 + seed % 4, int(rng.integers(4, 8))
    S = from_samples(n_classes, p, 3 * p + 2, seed, common=float(rng.choice([0.0, 0.7])))
    weights = None if seed % 2 else tuple(rng.uniform(0.3, 3.0, n_classes))
    lambda1, lambda2 = rng.uniform(0.02, 0.3, size=2)
    V = random_weights(rng, p)
    return Problem(S, lambda1, lambda2, V, weights, bool(seed % 3), f"{n_classes} classes, {p} variables, seed {seed}")


PROBLEMS = [random_problem(seed) for seed in range(12)]


@pytest.fixture
def run(monkeypatch):
    """Solve by the name of a solver, the one made for big groups included."""

    def solve(problem: Problem, solver: str, **options) -> jgl.Solution:
        big = solver == "newton for big groups"
        monkeypatch.setattr(config, "LARGE", 1 if big else 256)
        return problem.solve(solver="newton" if big else solver, **options)

    return solve


# --- the right answer ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("screening", SCREENING)
@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("problem", PROBLEMS, ids=repr)
def test_every_solver_and_rule_finds_the_optimum(problem, solver, screening, run):
    solution = run(problem, solver, screening=screening, tol=1e-9)
    Theta = dense(solution.precision)
    value = oracle.objective(Theta, *problem.arguments)
    assert solution.status.converged
    assert value == pytest.approx(solution.objective, rel=1e-10, abs=1e-10)
    assert value == pytest.approx(problem.optimum.objective, rel=2e-7, abs=2e-7)
    assert value <= problem.optimum.objective + solution.certificate.gap + 1e-7
    assert oracle.kkt_residual(Theta, *problem.arguments) <= 1e-3
    assert not Theta[:, np.isinf(problem.V)].any()
    for matrix in solution.precision:
        i, j = matrix.nonzero()
        assert not np.isinf(problem.V[i, j]).any()  # not even stored


@pytest.mark.parametrize("solver", ["auto", "newton", "proximal_gradient", "admm"])
def test_solvers_agree_on_a_group_of_sixty_variables(solver):
    rng = np.random.default_rng(0)
    problem = Problem(from_samples(2, 60, 90, 3, common=0.5), 0.12, 0.06, random_weights(rng, 60))
    solution = problem.solve(solver=solver, tol=1e-7)
    assert solution.partition.largest == 60 and solution.status.converged
    assert solution.objective == pytest.approx(problem.solve(tol=1e-8).objective, abs=1e-7 * solution.objective)
    assert oracle.kkt_residual(dense(solution.precision), *problem.arguments) <= 0.01
    assert not dense(solution.precision)[:, np.isinf(problem.V)].any()


def test_objective_of_the_problem_counts_weights_and_refuses_forbidden_entries():
    problem = PROBLEMS[3]
    model = make_problem(
        problem.S, problem.lambda1, problem.lambda2, weights=problem.weights,
        penalize_diagonal=problem.penalize_diagonal, pair_weights=problem.V,
    )  # fmt: skip
    Theta = dense(problem.solve().precision)
    assert model.objective(Theta) == pytest.approx(oracle.objective(Theta, *problem.arguments), rel=1e-12)
    i, j = np.argwhere(np.isinf(problem.V))[0]
    Theta[0, i, j] = Theta[0, j, i] = 1e-9
    assert model.objective(Theta) == np.inf


@pytest.mark.parametrize("solver", SOLVERS)
def test_weights_of_one_change_nothing(solver, run):
    plain = Problem(from_samples(3, 7, 20, 1, common=0.5), 0.1, 0.05, np.ones((7, 7)))
    for ones in (plain.V, {(0, 1): 1.0}, sparse.csr_array((7, 7))):
        solution = run(plain, solver, pair_weights=ones)
        reference = run(plain, solver, pair_weights=None)
        np.testing.assert_array_equal(dense(solution.precision), dense(reference.precision))
        assert solution.certificate.gap == reference.certificate.gap


@pytest.mark.parametrize("screening", SCREENING)
@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("c", [0.25, 4.0])
def test_equal_weights_are_a_factor_on_both_penalties(c, solver, screening, run):
    S = from_samples(3, 6, 20, 2, common=0.5)
    options = {"screening": screening, "tol": 1e-9, "penalize_diagonal": False}
    weighted = run(Problem(S, 0.1 / c, 0.05 / c, np.full((6, 6), c)), solver, **options)
    scaled = run(Problem(S, 0.1, 0.05, np.ones((6, 6))), solver, **options)
    # The default goes another way where pairs have weights: the two agree as far as the tolerance says.
    atol = 1e-4 if solver == "auto" else 1e-12
    np.testing.assert_allclose(dense(weighted.precision), dense(scaled.precision), rtol=1e-4 * atol, atol=atol)
    assert weighted.partition == scaled.partition
    assert weighted.objective == pytest.approx(scaled.objective, rel=2e-9)


@pytest.mark.parametrize("solver", SOLVERS)
def test_unpenalised_pairs_get_their_covariances(solver, run):
    """The optimality condition of a pair of weight zero is W = S."""
    V = np.ones((5, 5))
    V[0, 1] = V[1, 0] = V[2, 4] = V[4, 2] = 0.0
    problem = Problem(from_samples(2, 5, 30, 4), 5.0, 5.0, V)
    Theta = dense(run(problem, solver, tol=1e-12).precision)
    W = np.linalg.inv(Theta)
    for i, j in ((0, 1), (2, 4)):
        np.testing.assert_allclose(W[:, i, j], problem.S[:, i, j], atol=1e-5)
    assert np.count_nonzero(np.triu(Theta[0], 1)) == 2


@pytest.mark.parametrize("solver", ["auto", "newton"])
def test_forbidding_all_but_a_chain_without_penalties_is_the_likelihood_of_a_graph(solver):
    """With fewer samples than variables: S is singular, the maximum likelihood estimate on a tree is not."""
    p, S = 6, from_samples(2, 6, 4, 5)
    chain = [(i, i + 1) for i in range(p - 1)]
    V = np.full((p, p), np.inf)
    for i, j in chain:
        V[i, j] = V[j, i] = 1.0
    problem = Problem(S, 0.0, 0.0, V)
    solution = problem.solve(solver=solver, tol=1e-9)
    W = np.linalg.inv(dense(solution.precision))
    assert solution.status.converged
    for i, j in chain:
        np.testing.assert_allclose(W[:, i, j], S[:, i, j], atol=1e-4)


def test_everything_forbidden_leaves_the_diagonal():
    S = from_samples(2, 60, 70, 6, common=1.0)
    for solver in ("auto", "newton", "proximal_gradient", "admm"):
        solution = Problem(S, 0.1, 0.1, np.full((60, 60), np.inf)).solve(solver=solver, screening="none")
        expected = np.stack([np.diag(1.0 / (np.diagonal(s) + 0.1)) for s in S])
        np.testing.assert_allclose(dense(solution.precision), expected, rtol=1e-12)
        assert solution.certificate.edges_absent == 2 * 60 * 59 // 2


def test_singular_covariances_of_unpenalised_variables_are_refused():
    S = from_samples(1, 4, 3, 7)  # rank 2
    options = {"penalize_diagonal": False, "screening": "none"}
    with pytest.raises(ValueError, match="singular where nothing is penalised"):
        Problem(S, 0.1, 0.1, np.zeros((4, 4))).solve(**options)
    perfect = from_entries(3, {(0, 1): 1.0, (1, 2): 0.3, (0, 2): 0.3})
    V = np.ones((3, 3))
    V[0, 1] = V[1, 0] = 0.0
    with pytest.raises(ValueError, match="singular where nothing is penalised"):
        Problem(perfect, 0.1, 0.1, V).solve(**options)
    assert Problem(perfect, 0.1, 0.1, V).solve(screening="none").status.converged  # the diagonal is penalised


# --- warm starts --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_warm_start_with_forbidden_entries_is_used_without_them(solver, run):
    problem = PROBLEMS[7]
    free = problem.solve(pair_weights=None)
    assert dense(free.precision)[:, np.isinf(problem.V)].any()
    solution = run(problem, solver, warm_start=free, tol=1e-9)
    assert solution.status.converged
    assert solution.objective == pytest.approx(problem.optimum.objective, rel=2e-7, abs=2e-7)


def test_a_warm_start_that_is_not_definite_without_its_forbidden_entries_keeps_its_diagonal():
    start = np.full((1, 3, 3), 0.9) + 0.1 * np.eye(3)
    V = np.ones((3, 3))
    V[0, 1] = V[1, 0] = np.inf
    cut = np.where(np.isinf(V), 0.0, start[0])
    assert np.linalg.eigvalsh(start[0])[0] > 0 > np.linalg.eigvalsh(cut)[0]
    problem = Problem(from_samples(1, 3, 20, 8, common=2.0), 0.05, 0.0, V)
    for solver in ("newton", "admm", "proximal_gradient"):
        solution = problem.solve(solver=solver, warm_start=start, tol=1e-9, screening="none")
        assert solution.objective == pytest.approx(problem.optimum.objective, abs=1e-6)


# --- the certificate ----------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::jointglasso.ConvergenceWarning")
@pytest.mark.parametrize("max_iter", [1, 2, 4])
@pytest.mark.parametrize("solver", SOLVERS)
def test_the_gap_bounds_the_suboptimality_however_early_one_stops(solver, max_iter, run):
    for problem in PROBLEMS:
        for screening in ("dynamic", "none"):
            solution = run(problem, solver, screening=screening, max_iter=max_iter, tol=1e-12)
            suboptimality = oracle.objective(solution.precision, *problem.arguments) - problem.optimum.objective
            assert np.isfinite(solution.certificate.gap)
            assert solution.certificate.gap >= suboptimality - 1e-6


def system_of(problem: Problem, labels=None):
    model = make_problem(
        problem.S, problem.lambda1, problem.lambda2, weights=problem.weights,
        penalize_diagonal=problem.penalize_diagonal, pair_weights=problem.V,
    )  # fmt: skip
    n_classes, p = model.source.n_classes, model.source.n_variables
    partition = Partition.single_block(n_classes, p) if labels is None else Partition(labels)
    return model, build_system(model.source, partition.class_blocks, model.weights, model.pair_weights)


@pytest.mark.parametrize("scale_to_feasible", [False, True])
@pytest.mark.parametrize("problem", PROBLEMS, ids=repr)
def test_dual_points_are_feasible_and_free_where_forbidden(problem, scale_to_feasible):
    """The ball of every pair scaled by its weight; at the start, far from the optimum, and at the solution."""
    model, system = system_of(problem)
    rng = np.random.default_rng(0)
    near = dense(problem.solve(tol=1e-9).precision)
    for Theta in (near, near + 0.3 * np.eye(near.shape[1]) * rng.random(near.shape[1])):
        bounds = bound_groups(
            system,
            flat_from_precisions(system, Theta, near.shape[1]),
            model.penalty,
            model.diagonal_penalty,
            scale_to_feasible=scale_to_feasible,
        )
        if not np.isfinite(bounds.total_gap):
            assert not scale_to_feasible
            continue
        p = near.shape[1]
        W = np.stack([bounds.dual[system.offset[b] : system.offset[b + 1]].reshape(p, p) for b in range(len(near))])
        np.testing.assert_array_equal(W, W.transpose(0, 2, 1))
        w = model.weights[:, None, None]
        free = np.isinf(problem.V) | np.eye(p, dtype=bool)
        v = np.where(free, 0.0, problem.V)
        excess = np.maximum(np.abs(w * (W - problem.S)) - v * problem.lambda1, 0.0)
        outside = np.where(free, 0.0, np.linalg.norm(excess, axis=0) - v * problem.lambda2)
        assert outside.max() <= 1e-12
        dual_objective = sum(model.weights[k] * (np.linalg.slogdet(W[k])[1] + p) for k in range(len(W)))
        assert bounds.total_objective - dual_objective <= bounds.total_gap + 1e-9
        assert dual_objective <= problem.optimum.objective + 1e-6


@pytest.mark.parametrize("problem", PROBLEMS, ids=repr)
def test_what_the_gap_proves_about_edges_is_true(problem):
    model, system = system_of(problem)
    p = problem.S.shape[1]
    with warnings.catch_warnings():  # some end by rounding there, as exact as can be
        warnings.simplefilter("ignore", jgl.ConvergenceWarning)
        exact = flat_from_precisions(system, problem.solve(solver="newton", tol=1e-13).precision, p)
    for tol in (1e-2, 1e-5, 1e-9):
        rough = problem.solve(solver="proximal_gradient", screening="none", tol=tol)
        theta = flat_from_precisions(system, rough.precision, p)
        bounds = bound_groups(system, theta, model.penalty, model.diagonal_penalty)
        edges = certified_edges(system, theta, bounds.dual, bounds.gap, model.penalty)
        present, absent = edges.present, edges.absent
        assert not (present & (system.gather(exact) == 0)).any()
        assert not (absent & (system.gather(exact) != 0)).any()
        assert not absent[system.entry_factor == 0].any()
    assert present.any() or absent.any()
    counts = rough.certificate
    assert counts.edges_absent >= len(problem.S) * np.isinf(problem.V[np.triu_indices(p, 1)]).sum()
    assert counts.edges_present + counts.edges_absent + counts.edges_undetermined == len(problem.S) * p * (p - 1) // 2


# --- block systems ------------------------------------------------------------------------------------------------


def test_a_group_taken_out_of_a_system_keeps_its_weights_and_forbidden_places():
    rng = np.random.default_rng(2)
    V = random_weights(rng, 8)
    V[0, 2] = V[2, 0] = V[5, 7] = V[7, 5] = np.inf
    problem = Problem(from_samples(2, 8, 30, 9), 0.1, 0.05, V)
    _, system = system_of(problem, labels=[[0, 0, 0, 0, 1, 1, 1, 1], [0, 0, 0, 0, 1, 1, 1, 1]])
    assert system.n_groups == 2 and len(system.forbidden)
    i, j = system.pair_variables
    np.testing.assert_array_equal(system.pair_factor, V[i, j])
    for group in range(2):
        alone, inside = system.only_groups(np.array([group]))
        np.testing.assert_array_equal(alone.pair_factor, system.pair_factor[system.pair_group == group])
        row, column = alone.forbidden_members()
        assert np.isinf(V[alone.members[row], alone.members[column]]).all()
        np.testing.assert_array_equal(
            np.sort(inside[alone.forbidden]), np.sort(system.forbidden[np.isin(system.forbidden, inside)])
        )
        flat = alone.scatter(np.ones(len(alone.upper)), np.ones(len(alone.members)))
        assert flat.sum() == len(flat) - len(alone.forbidden)


# --- screening ----------------------------------------------------------------------------------------------------


@st.composite
def screening_problems(draw) -> Problem:
    """Covariances and weights on coarse grids, so that ties are common."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n_classes, p = draw(st.integers(1, 3)), draw(st.integers(2, 7))
    S = np.tile(np.eye(p), (n_classes, 1, 1))
    upper = np.triu_indices(p, 1)
    for k in range(n_classes):
        S[k][upper] = rng.integers(-4, 5, size=len(upper[0])) / (4.5 * p)
        S[k].T[upper] = S[k][upper]
    V = np.ones((p, p))
    V[upper] = rng.choice([0.0, 0.25, 0.5, 1.0, 2.0, np.inf], size=len(upper[0]))
    V.T[upper] = V[upper]
    weights = tuple(rng.choice([0.5, 1.0, 2.0], size=n_classes))
    return Problem(S, draw(st.sampled_from([0.0, 0.05, 0.1, 0.2])), draw(st.sampled_from([0.0, 0.05, 0.1])), V, weights)


@EXAMPLES
@given(screening_problems())
def test_rules_are_those_of_the_definitions(problem):
    expected = oracle.literal_partitions(*problem.arguments[:5])
    found = {}
    for rule in RULES:
        found[rule] = jgl.screen(
            problem.S, problem.lambda1, problem.lambda2, rule=rule, weights=problem.weights, pair_weights=problem.V
        )
        np.testing.assert_array_equal(found[rule].labels, expected[rule])
    options = {"weights": problem.weights, "pair_weights": problem.V}
    for rule in ("class", "global", "hybrid"):
        assert found[rule].satisfies_sufficient(problem.S, problem.lambda1, problem.lambda2, **options)
        assert found["hybrid"].refines(found[rule]) and found["dynamic"].refines(found["hybrid"])


@EXAMPLES
@given(screening_problems().filter(lambda problem: problem.lambda1 > 0))
def test_screened_zeros_are_zeros_of_the_unscreened_solution(problem):
    whole = dense(problem.solve(screening="none", solver="newton", tol=1e-12).precision)
    options = {"weights": problem.weights, "pair_weights": problem.V}
    for screening in ("class", "global", "hybrid", "dynamic"):
        solution = problem.solve(screening=screening, tol=1e-12)
        joined = solution.partition.labels[:, :, None] == solution.partition.labels[:, None, :]
        assert np.abs(whole[~joined]).max(initial=0.0) <= 1e-6
        np.testing.assert_allclose(dense(solution.precision), whole, atol=1e-5)
        assert solution.partition.satisfies_necessary(
            problem.S, problem.lambda1, problem.lambda2, solution.precision, **options
        )


def test_dynamic_screening_merges_where_a_weighted_budget_is_exceeded():
    """The counterexample of condition (8), and a pair whose small weight makes the cut wrong."""
    S = from_entries(3, {(0, 1): 0.65, (1, 2): 0.65}, {(0, 2): 0.05})
    heavy = Problem(S, 0.01, 0.005, np.ones((3, 3)) + 3.0 * (1 - np.eye(3)), None, False)
    light = np.ones((3, 3))
    light[0, 2] = light[2, 0] = 0.2
    for problem in (heavy, Problem(S, 0.04, 0.02, light, None, False)):
        dynamic, whole = problem.solve(tol=1e-12), problem.solve(screening="none", tol=1e-12)
        np.testing.assert_allclose(dense(dynamic.precision), dense(whole.precision), atol=1e-5)
    assert dynamic.partition.labels[1].tolist() == [0, 1, 0]


@pytest.mark.parametrize("correlation", [False, True])
def test_streamed_screen_over_several_tiles_equals_the_exact_one(correlation):
    rng = np.random.default_rng(3)
    p = 1100
    samples = [rng.standard_normal((25, p)) * rng.uniform(0.5, 2.0, p) for _ in range(2)]
    source = jgl.SampleCovariance(samples, scale="correlation" if correlation else "covariance")
    S = np.stack([source.block(k, np.arange(p)) for k in range(2)])
    i, j = rng.integers(0, p, size=(2, 4000))
    i, j = i[i != j], j[i != j]
    keys = np.unique(np.minimum(i, j) * p + np.maximum(i, j))
    values = rng.choice([0.0, 0.3, 0.7, 1.5, np.inf], size=len(keys), p=[0.02, 0.3, 0.38, 0.2, 0.1])
    pairs = jgl.PairWeights(*np.divmod(keys, p), values, p)
    V = np.ones((p, p))
    V[np.divmod(keys, p)] = values
    V[np.divmod(keys, p)[::-1]] = values
    lambda1 = 0.62 if correlation else 1.4
    above = np.abs(S) > np.where(np.isinf(V), 0.0, V) * lambda1
    above[:, np.isinf(V)] = False
    labels = [sparse.csgraph.connected_components(sparse.csr_array(one & ~np.eye(p, dtype=bool)))[1] for one in above]
    expected = Partition(np.stack(labels))
    for covariances in (source, S):
        for weights in (pairs, V):
            found = jgl.screen(covariances, lambda1, 0.1, rule="class", pair_weights=weights)
            assert found == expected
    assert 10 < expected.largest < p
    assert expected != jgl.screen(source, lambda1, 0.1, rule="class")


def test_lambda_max_is_that_of_the_weighted_pairs():
    weighted = np.array([[0.4, 0.1], [0.2, 0.3]])
    penalty = GroupPenalty(1.0, 0.5)
    factor = np.array([2.0, 0.5])
    top = penalty.lambda_max(weighted, factor)
    assert not GroupPenalty(top * 1.0001, 0.5 * top * 1.0001).violates_global_condition(weighted, factor).any()
    assert GroupPenalty(top * 0.9999, 0.5 * top * 0.9999).violates_global_condition(weighted, factor).any()
    assert penalty.lambda_max(weighted, np.array([1.0, 0.0])) == np.inf


@pytest.mark.parametrize("screening", SCREENING)
def test_one_pass_over_the_covariances_serves_a_path(screening):
    """Tables of larger penalties, derived from the smallest, know the weights as well."""
    problem = PROBLEMS[2]
    lambdas = [(scale * problem.lambda1, scale * problem.lambda2) for scale in (6.0, 3.0, 1.5, 1.0)]
    options = {"weights": problem.weights, "penalize_diagonal": problem.penalize_diagonal, "pair_weights": problem.V}
    path = jgl.solve_path(problem.S, lambdas, screening=screening, tol=1e-9, **options)
    for (lambda1, lambda2), found in zip(lambdas, path, strict=True):
        alone = jgl.solve(problem.S, lambda1, lambda2, screening=screening, tol=1e-9, **options)
        assert found.status.converged and found.objective == pytest.approx(alone.objective, rel=1e-8)
        assert found.partition == alone.partition
        assert not dense(found.precision)[:, np.isinf(problem.V)].any()
        for certified, matrix in zip(found.certified, found.precision, strict=True):
            assert not (certified.toarray() & (matrix.toarray() == 0)).any()


# --- sizes --------------------------------------------------------------------------------------------------------


def test_sparse_weights_of_many_variables_need_no_square_array():
    p, m = 20_000, 50_000
    rng = np.random.default_rng(4)
    i, j = np.sort(rng.integers(0, p, size=(2, m)), axis=0)
    i, j = np.divmod(np.unique((i * p + j)[i < j]), p)
    names = tuple(f"x{n}" for n in range(p))
    values = rng.choice([0.5, 2.0, np.inf], size=len(i))
    matrix = sparse.csr_array(sparse.coo_array((values, (i, j)), shape=(p, p)))
    as_dict = {(names[a], names[b]): w for a, b, w in zip(i, j, values, strict=True)}
    tracemalloc.start()
    from_sparse, from_dict = as_pair_weights(matrix, names), as_pair_weights(as_dict, names)
    blocks = Partition(np.repeat(np.arange(p // 4), 4)[None]).class_blocks
    everywhere = from_sparse.factors(np.arange(p - 1), np.arange(1, p))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 64e6 < 8 * p * p / 10
    assert len(from_sparse) == len(i) and len(everywhere) == p - 1 and blocks.n_blocks == p // 4
    for one, other in zip(from_sparse.exceptions, from_dict.exceptions, strict=True):
        np.testing.assert_array_equal(one, other)


def test_solving_with_sparse_weights_of_many_variables_builds_no_square_array():
    """Single precision tiles and a block system, but nothing of the size of p x p numbers."""
    p, rng = 3000, np.random.default_rng(5)
    X = [rng.standard_normal((12, p)) for _ in range(2)]
    source = jgl.SampleCovariance(X, scale="correlation")
    i, j = np.arange(0, p - 1, 2), np.arange(1, p, 2)
    weights = jgl.PairWeights(i, j, np.where(i % 4 == 0, 0.2, np.inf), p)
    jgl.solve(source, 0.95, 0.1, pair_weights=weights)
    tracemalloc.start()
    solution = jgl.solve(source, 0.95, 0.1, pair_weights=weights)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 0.5 * 8 * p * p
    for matrix in solution.precision:
        values = sparse.csr_array(matrix)[i, j]
        values = values.toarray().ravel() if sparse.issparse(values) else values
        assert not values[i % 4 != 0].any() and values[i % 4 == 0].any()


# --- forms and errors ---------------------------------------------------------------------------------------------

NAMES = ("a", "b", "c", "d")


def test_all_forms_of_input_mean_the_same():
    V = np.ones((4, 4))
    for (i, j), w in {(0, 1): 0.5, (1, 3): 0.0, (2, 3): np.inf}.items():
        V[i, j] = V[j, i] = w
    rows, columns, values = np.array([1, 3, 2]), np.array([0, 1, 3]), np.array([0.5, 0.0, np.inf])
    frame = pd.DataFrame(V, index=NAMES, columns=NAMES).loc[["c", "a", "d", "b"], ["b", "a", "c", "d"]]
    one_triangle = sparse.coo_array((values, (rows, columns)), shape=(4, 4))
    both = sparse.coo_array(
        (np.tile(values, 2), (np.concatenate([rows, columns]), np.concatenate([columns, rows]))), shape=(4, 4)
    )
    forms = [
        V, V.tolist(), frame, one_triangle, both.tocsr(), sparse.csc_matrix(one_triangle),
        {("a", "b"): 0.5, ("d", "b"): 0.0, (2, 3): np.inf}, {(0, 1): 0.5, (1, "d"): 0, ("c", "d"): np.inf},
        {("a", "b"): 0.5, ("b", "a"): 0.5, (1, 3): 0.0, (2, 3): np.inf},
        jgl.PairWeights(rows, columns, values, 4), jgl.PairWeights(list(rows), list(columns), list(values), 4),
    ]  # fmt: skip
    i, j = np.triu_indices(4, 1)
    for form in forms:
        weights = as_pair_weights(form, NAMES)
        np.testing.assert_array_equal(weights.factors(i, j), V[i, j])
        assert [part.tolist() for part in weights.exceptions] == [[0, 1, 2], [1, 3, 3], [0.5, 0.0, np.inf]]
        assert [part.tolist() for part in weights.forbidden] == [[2], [3]]
        assert len(weights) == 3 and "exceptions=3, forbidden=1" in repr(weights)
        tile = weights.exceptions_in(slice(1, 3), slice(2, 4))
        assert [part.tolist() for part in tile] == [[0, 1], [1, 1], [0.0, np.inf]]


def test_the_diagonal_of_an_array_is_not_looked_at():
    V = np.ones((4, 4))
    np.fill_diagonal(V, [np.nan, -1.0, np.inf, 0.0])
    assert as_pair_weights(V, NAMES) is None
    assert as_pair_weights(sparse.eye_array(4) * 7.0, NAMES) is None
    assert as_pair_weights({}, NAMES) is None


def entry(i, j, value, other=None):
    V = np.ones((4, 4))
    V[i, j] = value
    V[j, i] = value if other is None else other
    return V


def stored(*triples):
    rows, columns, values = zip(*triples, strict=True)
    return sparse.coo_array((values, (rows, columns)), shape=(4, 4))


@pytest.mark.parametrize(
    ("wrong", "error", "message"),
    [
        (entry(0, 2, -1.0), ValueError, "pair weight of 'a', 'c' is -1; it must be a number >= 0"),
        (entry(1, 2, np.nan), ValueError, "pair weight of 'b', 'c' is nan"),
        (entry(1, 2, 2.0, np.nan), ValueError, "pair weight of 'b', 'c' is nan"),
        (entry(1, 3, 2.0, 3.0), ValueError, "not symmetric at 'b', 'd' .2 and 3.: give one weight"),
        (entry(1, 3, 1.0, 3.0), ValueError, "not symmetric at 'b', 'd' .1 and 3."),
        (entry(1, 3, np.inf, 3.0), ValueError, "not symmetric at 'b', 'd' .inf and 3."),
        (np.ones((3, 3)), ValueError, r"shape \(3, 3\), but there are 4 variables"),
        (np.ones(4), ValueError, r"shape \(4,\), but there are 4 variables"),
        (2.0, ValueError, r"shape \(\), but there are 4 variables"),
        (np.ones((4, 4)) + 0j, TypeError, "complex"),
        ("heavy", TypeError, "must be an array .* not str 'heavy'"),
        (sparse.eye_array(5), ValueError, r"shape \(5, 5\)"),
        (stored((0, 1, 2.0), (1, 0, 3.0)), ValueError, "two weights to the pair 'a', 'b' .2 and 3."),
        (stored((0, 1, 2.0), (0, 1, 2.0)), ValueError, "'a', 'b' twice at the same place"),
        (stored((3, 1, -2.0)), ValueError, "pair weight of 'd', 'b' is -2"),
        ({("a", "e"): 1.0}, ValueError, "names the variable 'e', which the data does not have"),
        ({("a", 4): 1.0}, ValueError, "variable number 4, but the 4 variables are numbered 0 to 3"),
        ({(-1, 2): 1.0}, ValueError, "variable number -1"),
        ({("a", "b"): 2.0, (1, 0): 3.0}, ValueError, "two weights to the pair 'a', 'b'"),
        ({("a", 0): 2.0}, ValueError, "pair of 'a' with itself"),
        ({("a", "b", "c"): 2.0}, TypeError, "must be pairs of variables"),
        ({"ab": 2.0}, TypeError, "must be pairs of variables"),
        ({("a", "b"): "2"}, TypeError, "must be a number >= 0, not '2'"),
        ({("a", "b"): True}, TypeError, "must be a number >= 0, not True"),
        ({("a", "b"): np.nan}, ValueError, "pair weight of 'a', 'b' is nan"),
        (pd.DataFrame(np.ones((4, 4)), index=list("abce"), columns=NAMES), ValueError, "named by the variables"),
        (pd.DataFrame(np.ones((4, 4)), index=NAMES, columns=list("abbd")), ValueError, "named by the variables"),
        (jgl.PairWeights([0], [1], [2.0], 5), ValueError, "is of 5 variables, the data of 4"),
    ],
)
def test_wrong_weights_are_named(wrong, error, message):
    S = jgl.DenseCovariance(np.eye(4), variable_names=NAMES)
    with pytest.raises(error, match=message):
        jgl.solve(S, 0.1, 0.1, pair_weights=wrong)
    with pytest.raises(error, match=message):
        jgl.screen(S, 0.1, 0.1, pair_weights=wrong)
    with pytest.raises(error, match=message):
        Partition([[0, 0, 0, 0]]).satisfies_sufficient(S, 0.1, 0.1, pair_weights=wrong)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (([0], [4], [1.0], 4), ValueError, "variable number 4"),
        (([-1], [2], [1.0], 4), ValueError, "variable number -1"),
        (([1], [1], [2.0], 4), ValueError, "pair of 1 with itself"),
        (([0, 1], [2], [1.0], 4), ValueError, r"shapes \(2,\), \(1,\) and \(1,\)"),
        (([0.5], [2], [1.0], 4), TypeError, "rows must hold the numbers of variables"),
        (([0], [2], [-1.0], 4), ValueError, "pair weight of 0, 2 is -1"),
        (([0, 2], [2, 0], [1.0, 2.0], 4), ValueError, "two weights to the pair 0, 2"),
        (([0], [2], [1.0], 0), ValueError, "n_variables=0"),
    ],
)
def test_wrong_lists_of_exceptions_are_named(arguments, error, message):
    with pytest.raises(error, match=message):
        jgl.PairWeights(*arguments)
