"""Weights by class and of the coupling term, against interior-point solutions and brute force."""

from __future__ import annotations

import itertools
import warnings
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import jointglasso as jgl
from bank import from_samples
from jointglasso import config
from jointglasso.penalties import as_pair_weights, make_penalty
from jointglasso.problem import make_problem
from jointglasso.screening.curve import lambda_max
from oracles import dense

cp = pytest.importorskip("cvxpy")

EXAMPLES = settings(max_examples=40)
PENALTIES = ("group", "maximum", "fused", "chain", "laplacian")
SOLVERS = ("auto", "newton", "proximal_gradient", "admm", "large columns")


def random_table(rng, p: int, zeros: float, forbidden: float) -> np.ndarray:
    """Symmetric weights from 0.3 to 3, some of them 1, some 0, some infinite."""
    V, draw = np.exp(rng.uniform(np.log(0.3), np.log(3.0), (p, p))), rng.random((p, p))
    V[draw < 0.2] = 1.0
    V[(draw >= 0.2) & (draw < 0.2 + zeros)] = 0.0
    V[draw > 1.0 - forbidden] = np.inf
    V = np.triu(V, 1)
    return V + V.T


def class_pairs(penalty: str, n_classes: int) -> list[tuple[int, int]]:
    if penalty == "fused":
        return list(itertools.combinations(range(n_classes), 2))
    return list(itertools.pairwise(range(n_classes)))


@dataclass(frozen=True)
class Problem:
    """Covariances S (K, p, p), L1 weights a (K, p, p) and coupling weights b (p, p)."""

    penalty: str
    S: np.ndarray
    lambda1: float
    lambda2: float
    a: np.ndarray
    b: np.ndarray
    weights: np.ndarray
    penalize_diagonal: bool

    @classmethod
    def draw(cls, penalty: str, seed: int, zeros: float = 0.1) -> Problem:
        rng = np.random.default_rng([seed, PENALTIES.index(penalty)])
        n_classes, p = 1 + seed % 5, int(rng.integers(3, 11))
        S = from_samples(n_classes, p, 3 * p + 2, seed, common=float(rng.choice([0.0, 0.7])))
        lambda1, lambda2 = rng.uniform(0.03, 0.3, 2)
        a = np.stack([random_table(rng, p, zeros, 0.15) for _ in range(n_classes)])
        b = random_table(rng, p, zeros, 0.0)
        return cls(penalty, S, lambda1, lambda2, a, b, rng.uniform(0.3, 3.0, n_classes), bool(seed % 3))

    def solve(self, **options) -> jgl.Solution:
        names = {"penalty": self.penalty, "weights": self.weights, "penalize_diagonal": self.penalize_diagonal}
        tables = {"pair_weights": list(self.a), "coupling_weights": self.b}
        return jgl.solve(self.S, self.lambda1, self.lambda2, **(names | tables | options))

    def coupling(self, x):
        """The coupling term of the pairs, x (K, P), as an expression of cvxpy."""
        if self.penalty == "group":
            return cp.norm2(x, axis=0)
        if self.penalty == "maximum":
            return cp.max(cp.abs(x), axis=0)
        size = cp.square if self.penalty == "laplacian" else cp.abs
        return sum((size(x[k] - x[m]) for k, m in class_pairs(self.penalty, len(self.S))), np.zeros(x.shape[1]))

    @cached_property
    def optimum(self) -> float:
        """Optimal objective by Clarabel."""
        n_classes, p, _ = self.S.shape
        Theta = [cp.Variable((p, p), symmetric=True) for _ in range(n_classes)]
        i, j = np.triu_indices(p, 1)
        x = cp.vstack([matrix[i, j] for matrix in Theta])
        a, b = self.a[:, i, j], self.b[i, j]
        allowed = np.where(np.isinf(a), 0.0, a)
        cost = sum(
            w * (cp.trace(S @ matrix) - cp.log_det(matrix))
            for w, S, matrix in zip(self.weights, self.S, Theta, strict=True)
        )
        cost += self.lambda1 * self.penalize_diagonal * sum(cp.trace(matrix) for matrix in Theta)
        cost += 2.0 * self.lambda1 * cp.sum(cp.multiply(allowed, cp.abs(x)))
        cost += 2.0 * self.lambda2 * (b @ self.coupling(x))
        problem = cp.Problem(cp.Minimize(cost), [cp.multiply(np.isinf(a).astype(float), x) == 0])
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", category=UserWarning)
            problem.solve(solver=cp.CLARABEL, tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10)
        return float(problem.value)

    def objective(self, Theta) -> float:
        total = 0.0
        for w, S, matrix in zip(self.weights, self.S, Theta, strict=True):
            total += w * (np.trace(S @ matrix) - np.linalg.slogdet(matrix)[1])
            total += self.lambda1 * self.penalize_diagonal * np.trace(matrix)
        for i, j in itertools.combinations(range(self.S.shape[1]), 2):
            t, a = Theta[:, i, j], self.a[:, i, j]
            total += 2.0 * self.lambda1 * a[t != 0.0] @ np.abs(t[t != 0.0])
            if self.penalty in ("group", "maximum"):
                size = np.linalg.norm(t) if self.penalty == "group" else np.abs(t).max()
            else:
                power = 2 if self.penalty == "laplacian" else 1
                size = sum(abs(t[k] - t[m]) ** power for k, m in class_pairs(self.penalty, len(t)))
            total += 2.0 * self.lambda2 * self.b[i, j] * size
        return total


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("penalty", PENALTIES)
def test_solvers_and_rules_find_the_optimum(penalty, seed, monkeypatch):
    problem = Problem.draw(penalty, seed, zeros=0.1 * (seed % 2))
    ways = [("auto", "dynamic"), (SOLVERS[seed % 5], ("hybrid", "global", "none")[seed % 3])]
    for solver, screening in ways:
        monkeypatch.setattr(config, "LARGE", 1 if solver == "large columns" else 256)
        monkeypatch.setattr(config, "SMALL", 1 if solver == "large columns" else 48)
        solver = "auto" if solver == "large columns" else solver
        solution = problem.solve(solver=solver, screening=screening, tol=1e-8)
        Theta = dense(solution.precision)
        assert solution.status.converged
        assert problem.objective(Theta) == pytest.approx(solution.objective, rel=1e-9)
        assert solution.objective == pytest.approx(problem.optimum, rel=3e-7, abs=3e-7)
        assert solution.objective - solution.certificate.gap <= problem.optimum + 1e-6
        assert not Theta[np.isinf(problem.a)].any()


def test_an_edge_forbidden_in_one_class_remains_in_the_others():
    S = np.tile(0.6 * np.ones((5, 5)) + 0.4 * np.eye(5), (3, 1, 1)) * np.array([1.0, 1.1, 1.2])[:, None, None]
    for penalty in PENALTIES:
        plain = jgl.solve(S, 0.05, 0.05, penalty=penalty)
        solution = jgl.solve(S, 0.05, 0.05, penalty=penalty, pair_weights=[None, {(0, 1): np.inf}, None])
        Theta = dense(solution.precision)
        assert dense(plain.precision)[:, 0, 1].all()
        assert (Theta[:, 0, 1] != 0.0).tolist() == [True, False, True]


def test_equal_weights_by_class_are_the_weights_of_pairs():
    rng = np.random.default_rng(3)
    V, S = random_table(rng, 7, 0.1, 0.2), from_samples(3, 7, 30, 2, common=0.5)
    coupling = np.where(np.isinf(V), 1.0, V)
    for penalty in PENALTIES:
        one = jgl.solve(S, 0.1, 0.05, penalty=penalty, pair_weights=V)
        same = jgl.solve(S, 0.1, 0.05, penalty=penalty, pair_weights=[V] * 3, coupling_weights=coupling)
        np.testing.assert_array_equal(dense(one.precision), dense(same.precision))


def test_without_coupling_weights_those_of_all_classes_weigh_both_parts():
    names, classes, V = ("x", "y", "z"), ("a", "b"), {("x", "y"): 0.5}
    assert as_pair_weights(V, names, classes).exceptions[2].tolist() == [0.5]
    both = as_pair_weights({"b": V}, names, classes)
    assert both.by_class and both.exceptions[2].tolist() == [[1.0, 1.0, 0.5]]
    assert as_pair_weights([V, {("z", "x"): np.inf}], names, classes).exceptions[2].tolist() == [
        [1.0, 0.5, 1.0],
        [1.0, 1.0, np.inf],
    ]
    forbidden = as_pair_weights([{("x", "y"): np.inf}] * 2, names, classes)
    assert forbidden.exceptions[2].tolist() == [np.inf]


@pytest.mark.parametrize(
    ("arguments", "parameter", "message"),
    [
        ({"pair_weights": [np.ones((3, 3))] * 3}, "pair_weights", "list of 3 tables"),
        ({"pair_weights": {"c": {(0, 1): 2.0}}}, "pair_weights", "names the class 'c'"),
        ({"coupling_weights": {(0, 1): np.inf}}, "coupling_weights", "must be finite"),
        ({"coupling_weights": {(0, 9): 1.0}}, "coupling_weights", "coupling_weights names variable number 9"),
        ({"coupling_weights": {(0, 1): 2.0}, "penalty": "common"}, "pair_weights", "one weight for a pair"),
        ({"pair_weights": jgl.PairWeights([0], [1], [[1.0, 2.0]], 3)}, "pair_weights", "is of 1 classes"),
    ],
)
def test_errors_name_the_argument(arguments, parameter, message):
    with pytest.raises(jgl.InputError, match=message) as error:
        jgl.solve(np.tile(np.eye(3), (2, 1, 1)), 0.1, 0.1, **arguments)
    assert error.value.parameter == parameter


# --- one pair ---------------------------------------------------------------------------------------------------------


def pair_problem(seed: int):
    """A penalty, one pair's weights (1, K + 1), of which an L1 weight may be infinite, and a point u (1, K)."""
    rng = np.random.default_rng(seed)
    penalty, n_classes = PENALTIES[seed % 5], 1 + int(rng.integers(0, 4))
    lambda1, lambda2 = rng.choice([0.0, 0.3, 1.0]), rng.choice([0.0, 0.4, 1.0])
    factor = rng.choice([0.0, 0.5, 1.0, 2.0, np.inf], (1, n_classes + 1))
    factor[0, 0] = rng.choice([0.0, 0.5, 2.0])
    graph = "complete" if penalty == "fused" else None
    chosen = make_penalty(penalty, lambda1, lambda2, graph, [str(k) for k in range(n_classes)])
    return chosen, factor, rng.normal(size=(1, n_classes)) * rng.choice([0.2, 1.0])


def value_of(penalty, factor, x) -> float:
    """The penalty of one pair by its definition."""
    a, b = factor[0, 1:], factor[0, 0]
    if x[np.isinf(a)].any():
        return np.inf
    l1 = penalty.lambda1 * np.where(x != 0.0, np.where(np.isinf(a), 0.0, a) * np.abs(x), 0.0).sum()
    if penalty.name == "group":
        return l1 + penalty.lambda2 * b * np.linalg.norm(x)
    if penalty.name == "maximum":
        return l1 + penalty.lambda2 * b * np.abs(x).max()
    power = 2 if penalty.name == "laplacian" else 1
    pairs = np.argwhere(np.triu(penalty.graph))
    return l1 + penalty.lambda2 * b * sum(abs(x[k] - x[m]) ** power for k, m in pairs)


def group_gauge(penalty, factor, u) -> float:
    """Smallest g with ``sum_k (|u_k| - g lambda1 a_k)_+^2 <= (g lambda2 b)^2``, by bisection."""
    a = penalty.lambda1 * np.where(np.isinf(factor[0, 1:]), 0.0, factor[0, 1:])
    u = np.where(np.isinf(factor[0, 1:]), 0.0, u)

    def excess(g):
        return (np.maximum(np.abs(u) - g * a, 0.0) ** 2).sum() - (g * penalty.lambda2 * factor[0, 0]) ** 2

    low, high = 0.0, 1e9
    for _ in range(120):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if excess(middle) <= 0.0 else (middle, high)
    return high


def directions(rng, penalty, n_classes: int) -> np.ndarray:
    """Points that include the extreme ones of the penalties."""
    corners = np.array(list(itertools.product([-1.0, 0.0, 1.0], repeat=n_classes)))
    return np.concatenate([corners, rng.normal(size=(4000, n_classes))])


@given(seed=st.integers(0, 10**6))
@EXAMPLES
def test_dual_ball_gauge_and_screening_of_one_pair_follow_from_the_definition(seed):
    """u is in the ball if ``<u, x> <= phi(x)`` for all x; the gauge is the largest ``<u, x> / phi(x)``."""
    penalty, factor, u = pair_problem(seed)
    if penalty.name == "laplacian":
        penalty = make_penalty("laplacian", penalty.lambda1, 0.0, None, [str(k) for k in range(u.shape[1])])
    x = directions(np.random.default_rng(seed), penalty, u.shape[1])
    x[:, np.isinf(factor[0, 1:])] = 0.0
    phi = np.array([value_of(penalty, factor, row) for row in x])
    along = x @ u[0]
    values, entries = penalty.as_entries(u, factor)
    gauge = penalty.gauge(values, entries)[0]
    if ((phi <= 1e-12) & (along > 1e-9)).any():
        assert gauge == np.inf or gauge > 1e6
    else:
        ratio = np.max(along[phi > 1e-12] / phi[phi > 1e-12], initial=0.0)
        assert ratio <= gauge * (1.0 + 1e-9) + 1e-12
        expected = ratio if penalty.name != "group" else group_gauge(penalty, factor, u[0])
        assert gauge == pytest.approx(expected, rel=1e-6, abs=1e-9)
    if abs(gauge - 1.0) > 1e-3:
        assert penalty.is_dual_feasible(values, entries)[0] == (gauge <= 1.0)
        assert penalty.violates_global_condition(u, factor)[0] == (gauge > 1.0)
        assert penalty.closure(u, np.zeros(u.shape, dtype=bool), factor).any() == (gauge > 1.0) or (
            penalty.name == "laplacian"
        )
    zero = np.zeros(u.shape[1])
    projected = penalty.nearest_subgradient(zero, values, entries)
    inside = penalty.gauge(projected, entries)[0]
    assert inside <= 1.0 + 1e-9 or (projected == 0.0).all() or inside == np.inf
    assert np.isinf(factor[0, 1:]).sum() == 0 or (projected == u[0])[np.isinf(factor[0, 1:])].all()


@given(seed=st.integers(0, 10**6))
@EXAMPLES
def test_update_value_gradient_and_subgradient_of_one_pair(seed):
    """The minimiser beats its neighbours, and the subgradients at it satisfy the inequality of subgradients."""
    penalty, factor, u = pair_problem(seed)
    rng, n_classes = np.random.default_rng(seed), u.shape[1]
    values, entries = penalty.as_entries(u, factor)
    curvature = rng.uniform(0.3, 3.0, n_classes)
    x = penalty.update(curvature, values, entries)
    assert not x[np.isinf(factor[0, 1:])].any()
    assert penalty.value(x, entries)[0] == pytest.approx(value_of(penalty, factor, x), rel=1e-12, abs=1e-15)

    def cost(t):
        return float(0.5 * curvature @ t**2 - u[0] @ t) + value_of(penalty, factor, t)

    least = cost(x)
    for size in 10.0 ** rng.uniform(-5, 0, 300):
        other = x + size * rng.normal(size=n_classes) * (rng.random(n_classes) < 0.6)
        other = np.where(rng.random(n_classes) < 0.2, 0.0, other)
        other[np.isinf(factor[0, 1:])] = 0.0
        assert cost(other) >= least - 1e-9
    target = rng.normal(size=n_classes)
    g = penalty.nearest_subgradient(x, target, entries)
    for _ in range(200):
        y = x + rng.normal(size=n_classes) * 10.0 ** rng.uniform(-3, 1)
        y[np.isinf(factor[0, 1:])] = 0.0
        allowed = ~np.isinf(factor[0, 1:])
        assert value_of(penalty, factor, y) >= value_of(penalty, factor, x) + g[allowed] @ (y - x)[allowed] - 1e-8


# --- screening, certificate and files ---------------------------------------------------------------------------------


@pytest.mark.parametrize("penalty", PENALTIES)
def test_samples_and_matrices_are_screened_alike(penalty):
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(40, 60)) for _ in range(3)]
    for matrix in X:
        matrix[:, 1:] += 0.7 * matrix[:, :-1]
    source = jgl.SampleCovariance(X)
    tables = [random_table(rng, 60, 0.02, 0.1) for _ in X]
    options = {"penalty": penalty, "pair_weights": tables, "coupling_weights": random_table(rng, 60, 0.1, 0.0)}
    S = np.stack([source.block(k, np.arange(60)) for k in range(3)])
    for rule in ("hybrid", "dynamic", "global"):
        assert jgl.screen(source, 0.3, 0.1, rule=rule, **options) == jgl.screen(S, 0.3, 0.1, rule=rule, **options)
    solution = jgl.solve(source, 0.3, 0.1, **options)
    reference = jgl.solve(S, 0.3, 0.1, screening="none", tol=1e-8, **options)
    assert solution.status.converged
    assert solution.objective == pytest.approx(reference.objective, rel=2e-6)
    problem = make_problem(S, 0.3, 0.1, penalty=penalty, pair_weights=tables)
    assert problem.objective([np.diag(1.0 / np.diagonal(matrix)) for matrix in S]) < np.inf


def test_condition_8_holds_for_the_hybrid_partition_and_7_at_the_solution():
    for seed in range(6):
        problem = Problem.draw("group", 5 * seed + 2)
        weights = as_pair_weights(list(problem.a), [str(i) for i in range(problem.S.shape[1])], ["a", "b", "c"])
        for scale in (1.0, 3.0):
            l1, l2 = scale * problem.lambda1, scale * problem.lambda2
            partition = jgl.screen(problem.S, l1, l2, pair_weights=weights)
            solution = jgl.solve(problem.S, l1, l2, pair_weights=weights, tol=1e-10)
            assert partition.satisfies_sufficient(problem.S, l1, l2, pair_weights=weights)
            assert partition.satisfies_necessary(problem.S, l1, l2, solution.precision, pair_weights=weights)
            finest = jgl.Partition(np.tile(np.arange(problem.S.shape[1]), (3, 1)))
            if solution.n_edges != [0, 0, 0]:
                assert not finest.satisfies_sufficient(problem.S, l1, l2, pair_weights=weights)


@pytest.mark.parametrize("penalty", ["group", "maximum", "fused"])
def test_there_is_no_edge_from_lambda_max_on(penalty):
    problem = Problem.draw(penalty, 7, zeros=0.0)
    options = {"penalty": penalty, "weights": problem.weights, "pair_weights": list(problem.a)}
    options["coupling_weights"] = problem.b
    top = float(lambda_max(problem.S, [(1.0, 0.5)], **options)[0])
    assert sum(jgl.solve(problem.S, 1.001 * top, 0.5005 * top, **options).n_edges) == 0
    assert sum(jgl.solve(problem.S, 0.99 * top, 0.495 * top, tol=1e-9, **options).n_edges) > 0


@pytest.mark.parametrize("penalty", PENALTIES)
def test_certified_entries_are_those_of_an_accurate_solution(penalty):
    for seed in range(4):
        problem = Problem.draw(penalty, seed, zeros=0.0)
        accurate = dense(problem.solve(tol=1e-11, screening="none").precision)
        for screening in ("dynamic", "none"):
            solution = problem.solve(tol=1e-4, screening=screening, prove=True)
            certificate = solution.certificate
            n_zero = int((accurate[:, *np.triu_indices(accurate.shape[1], 1)] == 0.0).sum())
            assert certificate.edges_absent <= n_zero
            assert certificate.edges_present <= accurate[:, *np.triu_indices(accurate.shape[1], 1)].size - n_zero
            i, j = np.nonzero(np.triu(np.isinf(problem.a).all(axis=0), 1))
            assert not dense(solution.precision)[:, i, j].any()
