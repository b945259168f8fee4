"""The fused family from end to end: known answers, an independent solver, every screen and every method."""

from __future__ import annotations

import warnings

import cvxpy as cp
import numpy as np
import pytest

import jointglasso as jgl
from jointglasso import config
from jointglasso.blocks import build_system
from jointglasso.duality import bound_groups, certified_edges
from jointglasso.engine.recheck import ScreeningCheck
from jointglasso.engine.task_result import certified_equalities
from jointglasso.kernels.pair_types import Entries
from jointglasso.penalties import UNIFORM, SafeRegion, make_penalty
from jointglasso.problem import make_problem
from jointglasso.screening import Partition
from jointglasso.screening.hybrid import weighted_covariances

ROUTES = [
    ("dynamic", "auto"),
    ("hybrid", "auto"),
    ("global", "auto"),
    ("none", "auto"),
    ("dynamic", "admm"),
    ("dynamic", "proximal_gradient"),
]


def two(*s):
    """Two variables of unit variance, one correlation for each class."""
    return np.array([[[1.0, x], [x, 1.0]] for x in s])


def three(*rows):
    """Three variables of unit variance, three correlations for each class."""
    return np.array([[[1.0, a, b], [a, 1.0, c], [b, c, 1.0]] for a, b, c in rows])


CHAINED = three((0.5, 0.1, 0.4), (0.45, -0.1, 0.1), (0.1, 0.3, 0.42))

#: Penalty, data, lambdas, whether the diagonal is penalised, weights; the entries i < j of each class, the objective.
KNOWN = {
    "A1": ("fused", two(0.9, 0), (0.1, 0.3), False, None, [[-0.666667], [-0.208333]], 3.671495933),
    "A2": (
        "fused", two(0.8, 0.5, -0.3), (0.2, 0.1), False, None, [[-0.476190], [-0.329670], [0]], 5.731335933,
    ),
    "A3": (
        "chain", two(0.8, 0.5, -0.3), (0.2, 0.1), False, None, [[-0.666667], [-0.329670], [0]], 5.618007248,
    ),
    "A4": (
        "chain", two(0.6, 0.5, 0.1, 0.55), (0.15, 0.1), False, None,
        [[-0.398860], [-0.398860], [-0.153453], [-0.329670]], 7.621575686,
    ),
    "A5": ("fused", two(0.6, -0.5), (0.1, 0.1), False, [2, 0.5], [[-0.666667], [0.101010]], 4.419610687),
    "A6": (
        "laplacian", two(0.8, 0.5, -0.3), (0.2, 0.1), False, None, [[-0.720084], [-0.335428], [0.027446]], 5.526456154,
    ),
    "A7": (
        "group", two(0.8, 0.5, -0.3), (0.2, 0.1), False, None, [[-0.685077], [-0.281618], [0.088787]], 5.622232851,
    ),
    "B1": (
        "fused", three((0.6, -0.4, -0.8), (-0.5, -0.1, -0.7)), (0.1, 0.3), True, None,
        [[-0.079752, 0.157642, 0.834115], [0.176924, 0.157642, 0.834115]], 5.633293760,
    ),
    "B2": (
        "chain", CHAINED, (0.2, 0.05), False, None,
        [[-0.266667, 0, -0.153453], [-0.266667, 0, 0], [0, -0.050125, -0.175059]], 8.816337011,
    ),
    "B3": (
        "fused", CHAINED, (0.2, 0.05), False, None,
        [[-0.236998, 0, -0.164204], [-0.236998, 0, 0], [0, 0, -0.164204]], 8.844230425,
    ),
    "B4": (
        "laplacian", CHAINED, (0.2, 0.05), False, None,
        [[-0.320010, 0, -0.187416], [-0.246114, 0, 0], [0, -0.091596, -0.207489]], 8.757317877,
    ),
    "B5": (
        "chain", CHAINED, (0.2, 0.05), True, [1, 2, 0.5],
        [[-0.265655, 0, -0.105820], [-0.267857, 0, -0.017655], [0, 0, -0.017655]], 11.863236228,
    ),
    "C1": ("fused", two(0.9, 0.25), (0.3, 0.1), False, None, [[-0.666667], [-0.050125]], None),
    "C7": ("chain", two(0.6, -0.05, 0.6), (0.2, 0.05), False, None, [[-0.398860], [0], [-0.398860]], None),
}  # fmt: skip


@pytest.mark.parametrize("route", ROUTES, ids=" ".join)
@pytest.mark.parametrize("name", KNOWN)
def test_known_answers(name, route):
    penalty, S, lambdas, on_diagonal, weights, entries, objective = KNOWN[name]
    solution = jgl.solve(
        S, *lambdas, penalty=penalty, penalize_diagonal=on_diagonal, weights=weights, screening=route[0],
        solver=route[1], tol=1e-9,
    )  # fmt: skip
    above = np.triu_indices(S.shape[1], 1)
    found = np.array([Theta.toarray()[above] for Theta in solution.precision])
    np.testing.assert_allclose(found, np.reshape(entries, found.shape), atol=1e-4)
    if route[1] == "auto":
        assert np.array_equal(found == 0, np.reshape(entries, found.shape) == 0)
    if objective is not None:
        assert solution.objective == pytest.approx(objective, rel=3e-9)


def random_problem(seed, hard=False):
    """One to five classes of three to seven variables, related or not, on scales of their own."""
    draw = np.random.default_rng(seed)
    K, p = int(draw.integers(1, 6 + hard)), int(draw.integers(3, 8 + 3 * hard))
    n = int(draw.integers(p // 2 + 2, 40))

    def mixing():
        return np.eye(p) + (draw.random((p, p)) < 0.3) * draw.normal(0, 0.65, (p, p))

    common = draw.standard_normal((n, p)) @ mixing()
    samples = [common * draw.choice([0.0, 1.0]) + draw.standard_normal((n, p)) @ mixing() for _ in range(K)]
    S = np.stack([np.corrcoef(X.T) * (draw.uniform(0.3, 3) if draw.random() < 0.4 else 1.0) for X in samples])
    penalty = ("fused", "chain", "graph", "laplacian")[seed % 4]
    lambdas = float(draw.choice([0.05, 0.1, 0.2, 0.3, 0.45])), float(draw.choice([0.0, 0.02, 0.05, 0.1, 0.3]))
    options = {"penalty": penalty, "penalize_diagonal": bool(draw.integers(2)) or n <= p or lambdas[0] < 0.1}
    if draw.random() < 0.5:
        options["weights"] = draw.uniform(0.3, 3, K)
    graph = np.diag(np.ones(K - 1), 1) if penalty in ("chain", "laplacian") else np.triu(np.ones((K, K)), 1)
    if penalty == "graph":
        graph = np.triu((draw.random((K, K)) < 0.5) * draw.uniform(0.2, 2, (K, K)), 1)
        options["class_graph"] = graph + graph.T
    if hard:
        factor = np.triu(draw.choice([0.3, 1.0, 1.0, 4.0, np.inf], (p, p)), 1)
        options["pair_weights"] = factor + factor.T + np.eye(p)
    return S, lambdas, options, graph


def oracle(S, lambdas, options, graph):
    """Objective and matrices by an interior point method."""
    K, p, _ = S.shape
    weights, factor = options.get("weights", np.ones(K)), options.get("pair_weights", np.ones((p, p)))
    off = np.where(np.isfinite(factor), factor, 0.0) * (1.0 - np.eye(p))
    Theta = [cp.Variable((p, p), symmetric=True) for _ in range(K)]
    charged = lambdas[0] * (off + options["penalize_diagonal"] * np.eye(p))
    total = sum(
        weights[k] * (cp.trace(S[k] @ Theta[k]) - cp.log_det(Theta[k])) + cp.sum(cp.multiply(charged, cp.abs(Theta[k])))
        for k in range(K)
    )
    for k, other in np.argwhere(graph > 0):
        apart = Theta[k] - Theta[other]
        size = cp.square(apart) if options["penalty"] == "laplacian" else cp.abs(apart)
        compared = off + options.get("fuse_diagonal", False) * np.eye(p)
        total += lambdas[1] * graph[k, other] * cp.sum(cp.multiply(compared, size))
    forbidden = np.isinf(factor).astype(float)
    problem = cp.Problem(cp.Minimize(total), [cp.multiply(forbidden, variable) == 0 for variable in Theta])
    problem.solve(solver=cp.CLARABEL)
    return problem.value, np.array([variable.value for variable in Theta])


@pytest.mark.parametrize(
    "seed", [*range(12), *range(100, 104), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(104, 300))]
)
def test_every_route_agrees_with_an_interior_point_method(seed):
    S, lambdas, options, graph = random_problem(seed, hard=seed >= 100)
    expected, matrices = oracle(S, lambdas, options, graph)
    partitions = {}
    for screening, solver in ROUTES:
        with warnings.catch_warnings():
            if solver == "proximal_gradient":  # which may be slow; its gap must hold all the same
                warnings.simplefilter("ignore", jgl.ConvergenceWarning)
            solution = jgl.solve(S, *lambdas, screening=screening, solver=solver, tol=1e-7, **options)
        excess = solution.objective - expected
        assert -1e-5 * (1.0 + abs(expected)) <= excess <= solution.certificate.gap + 1e-6 * (1.0 + abs(expected))
        partitions[screening] = solution.partition
        if solution.status:
            certified = np.array([matrix.toarray() for matrix in solution.certified])
            assert not (certified & (np.abs(matrices) < 1e-6)).any()
    assert partitions["dynamic"].refines(partitions["hybrid"])
    assert partitions["hybrid"].refines(partitions["global"])


@pytest.mark.parametrize("name", ["fused", "chain"])
def test_the_hybrid_partition_is_that_of_merging_pair_by_pair(name):
    """Whoever may not be cut beside the classes that are joined is merged, pair after pair, until none is left."""
    rng, rounds = np.random.default_rng(7), []
    for _ in range(40):
        n_classes, p = int(rng.integers(2, 5)), 7
        S = np.stack([np.corrcoef(rng.standard_normal((9, p)), rowvar=False) for _ in range(n_classes)])
        lambda1, lambda2 = float(rng.uniform(0.35, 0.6)), float(rng.uniform(0.02, 0.2))
        penalty = make_penalty(name, lambda1, lambda2, None, [str(k) for k in range(n_classes)])
        labels, merged = np.tile(np.arange(p), (n_classes, 1)), [True]
        while merged[-1]:
            merged.append(False)
            for i, j in zip(*np.triu_indices(p, 1), strict=True):
                joined = labels[:, i] == labels[:, j]
                for k in np.flatnonzero(penalty.closure(S[:, i, j][None], joined[None])[0] & ~joined):
                    labels[k][labels[k] == labels[k, i]] = labels[k, j]
                    merged[-1] = True
        rounds.append(len(merged))
        found = jgl.solve(S, lambda1, lambda2, penalty=name, screening="hybrid", tol=0.1).partition
        assert found == Partition(labels)
    assert max(rounds) > 3


def test_a_chain_is_gglassos_fused_problem():
    problems = pytest.importorskip("gglasso.problem")
    rng = np.random.default_rng(5)
    S = np.array([np.corrcoef(rng.normal(size=(30, 8)).T) for _ in range(4)])
    theirs = problems.glasso_problem(S.copy(), 30, reg="FGL", reg_params={"lambda1": 0.1, "lambda2": 0.05})
    theirs.solve(tol=1e-10, rtol=1e-8, verbose=False)
    ours = jgl.solve(S, 0.1, 0.05, penalty="chain", penalize_diagonal=False, tol=1e-11)
    assert np.array([Theta.toarray() for Theta in ours.precision]) == pytest.approx(
        np.array(theirs.solution.precision_), abs=1e-5
    )


def assert_claims_are_true_however_rough_the_solve(S, lambdas, options):
    """Gaps bound what is missing, and no entry is certified that is not so, at loose tolerances and stopped early."""
    exact = jgl.solve(S, *lambdas, screening="none", tol=1e-11, **options)
    nonzero = np.abs([Theta.toarray()[np.triu_indices(S.shape[1], 1)] for Theta in exact.precision]) > 1e-7
    for tol, max_iter in ((0.1, None), (1e-3, None), (1e-6, None), (1e-9, 1)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", jgl.ConvergenceWarning)
            rough = jgl.solve(S, *lambdas, tol=tol, max_iter=max_iter, **options)
        certificate = rough.certificate
        assert rough.objective - exact.objective - 1e-8 <= certificate.gap < np.inf
        assert certificate.edges_present <= nonzero.sum() and certificate.edges_absent <= (~nonzero).sum()
        for proved, Theta in zip(rough.certified, exact.precision, strict=True):
            assert not (proved.toarray() & (np.abs(Theta.toarray()) < 1e-7)).any()


@pytest.mark.parametrize("seed", range(20, 28))
def test_claims_are_true_however_rough_the_solve(seed):
    assert_claims_are_true_however_rough_the_solve(*random_problem(seed)[:3])


def test_methods_say_what_they_require():
    class OnForests(jgl.Newton):
        requires = frozenset({"forest"})

    with pytest.raises(ValueError, match='solver="newton" does not go with penalty="fused": use "auto"'):
        jgl.solve(two(0.5, 0.4), 0.1, 0.1, penalty="fused", solver=OnForests())
    with pytest.raises(ValueError, match='"class" does not hold for penalty="chain"'):
        jgl.solve(two(0.5, 0.4), 0.1, 0.1, penalty="chain", screening="class")


def test_classes_without_a_tie_are_solved_apart():
    """No tie leads from the first to the third class: three problems that share their pairs."""
    S = np.stack([np.corrcoef(np.random.default_rng(k).standard_normal((12, 6)).T) for k in range(3)])
    uncoupled = jgl.solve(S, 0.2, 0.3, penalty="graph", class_graph=np.zeros((3, 3)), tol=1e-9)
    alone = [jgl.solve(S[[k]], 0.2, 0.0, tol=1e-9) for k in range(3)]
    assert uncoupled.objective == pytest.approx(sum(one.objective for one in alone), rel=1e-8)
    for Theta, one in zip(uncoupled.precision, alone, strict=True):
        np.testing.assert_allclose(Theta.toarray(), one.precision[0].toarray(), atol=1e-4)


def test_a_big_group_is_solved_by_sweeps():
    draw = np.random.default_rng(0)
    common = draw.standard_normal((60, 1)) * draw.uniform(0.2, 0.7, 300)
    S = np.stack([np.corrcoef((draw.standard_normal((60, 300)) + common).T) for _ in range(3)])
    solution = jgl.solve(S, 0.35, 0.05, penalty="chain", tol=1e-5)
    assert solution.status and "columns" in solution.methods
    entries = [Theta.toarray()[np.triu_indices(300, 1)] for Theta in solution.precision]
    same = (entries[0] == entries[1]) & (entries[0] != 0)
    assert same.sum() > 0.2 * (entries[0] != 0).sum()


@pytest.mark.parametrize("penalty", ["fused", "chain", "laplacian"])
def test_an_unpenalised_pair_has_the_covariance_of_the_data(penalty):
    draw = np.random.default_rng(0)
    S = np.stack([np.corrcoef(draw.standard_normal((20, 4)), rowvar=False) for _ in range(3)])
    solution = jgl.solve(S, 0.1, 0.1, penalty=penalty, pair_weights={(0, 1): 0.0}, penalize_diagonal=False, tol=1e-10)
    for k, Theta in enumerate(solution.precision):
        assert np.linalg.inv(Theta.toarray())[0, 1] == pytest.approx(S[k, 0, 1], abs=1e-4)


def test_a_rescued_gap_of_the_laplacian_is_a_bound():
    """A mixture of dual points has no smaller conjugate than its parts allow: the gap may not profit from it."""
    draw, rescued = np.random.default_rng(0), 0
    for _ in range(40):
        S = np.array([np.corrcoef(draw.standard_normal((6, 4)).T) for _ in range(3)])
        problem = make_problem(S, 0.05, draw.uniform(0.3, 3.0), penalty="laplacian")
        exact = jgl.solve(S, 0.05, problem.penalty.lambda2, penalty="laplacian", tol=1e-9)
        blocks = Partition(np.zeros((3, 4), dtype=int), problem.penalty.coupling).class_blocks
        system = build_system(problem.source, blocks, problem.weights)
        far = draw.uniform(1.0, 4.0) * np.array([exact.precision[k].toarray() for k in system.block_class])
        given = system, far.ravel(), problem.penalty, problem.diagonal_penalty
        if np.isinf(bound_groups(*given).gap[0]):
            rescued += 1
            bounds = bound_groups(*given, scale_to_feasible=True)
            assert bounds.gap[0] >= bounds.objective[0] - exact.objective
    assert rescued > 10


@pytest.mark.parametrize("penalty", ["group", "fused", "chain", "laplacian"])
@pytest.mark.parametrize("gap", [np.inf, 1e300, 1e3])
def test_a_gap_that_says_nothing_proves_nothing(penalty, gap):
    S = np.array([np.corrcoef(np.random.default_rng(k).standard_normal((8, 4)).T) for k in range(3)])
    problem = make_problem(S, 0.1, 0.1, penalty=penalty)
    blocks = Partition(np.zeros((3, 4), dtype=int), problem.penalty.coupling).class_blocks
    system = build_system(problem.source, blocks, problem.weights)
    theta = np.tile(np.eye(4).ravel(), 3)
    dual = bound_groups(system, theta, problem.penalty, problem.diagonal_penalty).dual
    edges = certified_edges(system, theta, dual, np.array([gap]), problem.penalty)
    assert not edges.absent.any() and not edges.present.any()


@pytest.mark.parametrize("batched", [400, 1])
def test_a_group_makes_no_claim_about_classes_of_another_task(monkeypatch, batched):
    """Class 3 is not compared with classes 1 and 2: its task must not take their entries for certified zeros."""
    rng = np.random.default_rng(3)
    S = np.stack([np.corrcoef(rng.normal(size=(4, 12))) for _ in range(3)])
    options = {"penalty": "graph", "class_graph": [("1", "2")], "penalize_diagonal": False, "fuse_diagonal": True}
    exact = [Theta.toarray() for Theta in jgl.solve(S, 0.15, 0.05, tol=1e-11, **options).precision]
    monkeypatch.setattr(config, "BATCHED_BLOCK", batched)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", jgl.ConvergenceWarning)
        rough = jgl.solve(S, 0.15, 0.05, solver="proximal_gradient", max_iter=1, screening="hybrid", **options)
    found = rough.edge_clusters
    claimed = (found.proved & found.equal)[:, 0]
    pairs = found.rows[claimed], found.columns[claimed]
    np.testing.assert_allclose(exact[0][pairs], exact[1][pairs], atol=1e-6)
    solved = jgl.solve(S, 0.15, 0.05, tol=1e-9, **options)
    assert solved.edge_clusters.proved.any()


def test_a_zero_of_the_laplacian_is_proved_where_neighbours_cannot_make_it_another():
    """Class 0 is zero if |u_0 + 2 lambda2 sum_l g_0l theta_l| is below lambda1, whatever theta_l within its radius."""
    rng = np.random.default_rng(0)
    for _ in range(50):
        lambda1, lambda2 = rng.uniform(0.1, 2.0, 2)
        graph = np.triu(rng.uniform(0.2, 2.0, (3, 3)), 1)
        penalty = make_penalty("laplacian", lambda1, lambda2, graph + graph.T, ("a", "b", "c"))
        theta, radius = np.array([0.0, *rng.normal(size=2)]), np.array([0.0, *rng.uniform(0.0, 0.3, 2)])
        pull, slack = 2.0 * lambda2 * (graph + graph.T)[0], rng.uniform(0.0, 0.3)
        for share, expected in ((0.999, True), (1.001, False)):
            sign = rng.choice([-1.0, 1.0])
            at_zero = sign * max(0.0, share * lambda1 - slack - pull @ radius)
            if share * lambda1 < slack + pull @ radius:
                continue
            u = np.array([at_zero - pull @ theta, 0.0, 0.0])
            u_radius = np.array([slack, 0.0, 0.0])
            entries = Entries(np.array([0, 3]), np.arange(3), UNIFORM, 3)
            assert penalty.certified_zeros(SafeRegion(theta, u, u_radius, radius), entries)[0] == expected
            unbounded = np.array([0.0, np.inf, 0.0])
            assert not penalty.certified_zeros(SafeRegion(theta, u, u_radius, unbounded), entries)[0]


def test_a_screened_out_entry_is_no_certified_zero_unless_the_screening_is_certified():
    """Two variables are joined in one class only: the values of the pair are then not compared."""
    S = two(0.6, 0.1)
    problem = make_problem(S, 0.1, 0.05, penalty="fused")
    blocks = Partition(np.array([[0, 0], [0, 1]]), problem.penalty.coupling).class_blocks
    system = build_system(problem.source, blocks, problem.weights)
    theta = np.linalg.inv(S[0] + 0.1 * np.eye(2)).ravel()
    bounds = bound_groups(system, theta, problem.penalty, problem.diagonal_penalty)
    for proved in (True, False):
        edges = certified_edges(system, theta, bounds.dual, np.array([1e-9]), problem.penalty, screening_proved=proved)
        found = certified_equalities(system, theta, edges, problem.penalty, screening_proved=proved)
        assert bool(found.proved.any()) == proved


def test_a_dual_point_has_subgradients_up_to_rounding_only():
    """A dual point is kept if it has the subgradients over all classes already, and replaced otherwise."""
    problem = make_problem(two(0.6, 0.1), 0.1, 0.05, penalty="fused")
    blocks = Partition(np.zeros((2, 2), dtype=int), problem.penalty.coupling).class_blocks
    system = build_system(problem.source, blocks, problem.weights)
    bounds = bound_groups(system, np.tile(np.eye(2).ravel(), 2), problem.penalty, problem.diagonal_penalty)
    check, entries = ScreeningCheck(problem, system, np.array([0])), np.arange(2)
    u = system.weigh(bounds.dual[system.upper] - system.S[system.upper], entries)
    assert check.holds_already(bounds, entries, u)
    assert not check.holds_already(bounds, entries, u + np.array([1e-9, 0.0]))


def test_covariances_that_the_hybrid_rule_reads_are_weighted():
    S, weights = two(0.6, 0.1), np.array([0.5, 3.0])
    problem = make_problem(S, 0.1, 0.05, penalty="fused", weights=weights)
    read = weighted_covariances(problem.source, weights, None, problem.penalty)
    np.testing.assert_allclose(read(np.array([0]), np.array([1]))[0], [[0.3, 0.3]])
