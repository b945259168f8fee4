"""The fused family from end to end: known numbers, Clarabel, every screen and solver, proofs against tight solves."""

import numpy as np
import pytest

import jointglasso as jgl
from jointglasso.problem import make_problem

GRAPH = {0: [1, 2], 2: [3]}


def matrices(rows):
    """Unit-variance matrices with the given entries above the diagonal, row by row."""
    out = []
    for row in rows:
        p = {1: 2, 3: 3}[len(row)]
        S = np.eye(p)
        S[np.triu_indices(p, 1)] = row
        out.append(S + np.triu(S, 1).T)
    return np.array(out)


B2 = matrices([(0.5, 0.1, 0.4), (0.45, -0.1, 0.1), (0.1, 0.3, 0.42)])
A2 = matrices([(0.8,), (0.5,), (-0.3,)])

KNOWN = {
    "A1": ("fused", matrices([(0.9,), (0.0,)]), (0.1, 0.3), {}, [(-0.666667,), (-0.208333,)], 3.671495933),
    "A2": ("fused", A2, (0.2, 0.1), {}, [(-0.476190,), (-0.329670,), (0.0,)], 5.731335933),
    "A3": ("chain", A2, (0.2, 0.1), {}, [(-0.666667,), (-0.329670,), (0.0,)], 5.618007248),
    "A4": (
        "chain", matrices([(0.6,), (0.5,), (0.1,), (0.55,)]), (0.15, 0.1), {},
        [(-0.398860,), (-0.398860,), (-0.153453,), (-0.329670,)], 7.621575686,
    ),
    "A5": (
        "fused", matrices([(0.6,), (-0.5,)]), (0.1, 0.1), {"weights": [2, 0.5]}, [(-0.666667,), (0.101010,)],
        4.419610687,
    ),
    "A6": ("laplacian", A2, (0.2, 0.1), {}, [(-0.720084,), (-0.335428,), (0.027446,)], 5.526456154),
    "B1": (
        "fused", matrices([(0.6, -0.4, -0.8), (-0.5, -0.1, -0.7)]), (0.1, 0.3), {"penalize_diagonal": True},
        [(-0.079752, 0.157642, 0.834115), (0.176924, 0.157642, 0.834115)], 5.633293760,
    ),
    "B2": (
        "chain", B2, (0.2, 0.05), {},
        [(-0.266667, 0, -0.153453), (-0.266667, 0, 0), (0, -0.050125, -0.175059)], 8.816337011,
    ),
    "B3": (
        "fused", B2, (0.2, 0.05), {}, [(-0.236998, 0, -0.164204), (-0.236998, 0, 0), (0, 0, -0.164204)], 8.844230425
    ),
    "B4": (
        "laplacian", B2, (0.2, 0.05), {},
        [(-0.320010, 0, -0.187416), (-0.246114, 0, 0), (0, -0.091596, -0.207489)], 8.757317877,
    ),
    "B5": (
        "chain", B2, (0.2, 0.05), {"weights": [1, 2, 0.5], "penalize_diagonal": True},
        [(-0.265655, 0, -0.105820), (-0.267857, 0, -0.017655), (0, 0, -0.017655)], 11.863236228,
    ),
}  # fmt: skip


@pytest.mark.parametrize("screening", ["dynamic", "hybrid", "global", "none"])
@pytest.mark.parametrize("name", KNOWN)
def test_known_solutions(name, screening):
    penalty, S, lambdas, options, theta, objective = KNOWN[name]
    options = {"penalize_diagonal": False, **options}
    for solver in ("auto", "proximal_gradient", "admm"):
        found = jgl.solve(S, *lambdas, penalty=penalty, screening=screening, solver=solver, tol=1e-10, **options)
        assert found.status.converged
        assert found.objective == pytest.approx(objective, abs=2e-9)
        upper = np.triu_indices(S.shape[1], 1)
        for Theta, expected in zip(found.precision, theta, strict=True):
            assert Theta.toarray()[upper] == pytest.approx(expected, abs=3e-5)
            assert ((Theta.toarray()[upper] == 0) == (np.array(expected) == 0)).all()


def random_problem(seed, n_classes=4, p=6):
    """Covariances of networks that share most edges, and a penalty with its options."""
    rng = np.random.default_rng(seed)
    base = np.eye(p) + np.diag(rng.uniform(-0.5, 0.5, p - 1), 1)
    S = []
    for _ in range(n_classes):
        other = base + 0.2 * rng.normal(size=(p, p)) * (rng.random((p, p)) < 0.2)
        X = rng.normal(size=(40, p)) @ other
        S.append(np.corrcoef(X.T))
    kind = ["fused", "chain", "graph", "laplacian"][seed % 4]
    options = {
        "penalty": kind,
        "class_graph": {"graph": GRAPH}.get(kind),
        "weights": None if seed % 3 else rng.uniform(0.5, 2.0, n_classes),
        "penalize_diagonal": bool(seed % 2),
        "pair_weights": None if seed % 5 else {(0, 1): 0.5, (2, 3): 2.0, (0, 4): np.inf},
    }
    return np.array(S), (float(rng.uniform(0.05, 0.3)), float(rng.uniform(0.02, 0.2))), options


def clarabel(problem, S):
    """Objective of the same problem by cvxpy; written from the definition of the penalties."""
    import cvxpy as cp

    n_classes, p = len(S), S.shape[1]
    penalty = problem.penalty
    X = [cp.Variable((p, p), symmetric=True) for _ in range(n_classes)]
    cost = sum(w * (cp.trace(s @ x) - cp.log_det(x)) for w, s, x in zip(problem.weights, S, X, strict=True))
    cost += problem.diagonal_penalty * sum(cp.trace(x) for x in X)
    where = []
    squared = penalty.name == "laplacian"
    for i in range(p):
        for j in range(i):
            v = 1.0 if problem.pair_weights is None else problem.pair_weights.factors(np.array([j]), np.array([i]))[0]
            if np.isinf(v):
                where += [x[i, j] == 0 for x in X]
                continue
            phi = penalty.lambda1 * sum(cp.abs(x[i, j]) for x in X)
            for k, one in enumerate(X):
                for other in range(k):
                    apart = one[i, j] - X[other][i, j]
                    b = penalty.lambda2 * penalty.graph[k, other]
                    phi += b * (cp.square(apart) if squared else cp.abs(apart))
            cost += 2 * v * phi
    cp.Problem(cp.Minimize(cost), where).solve(solver=cp.CLARABEL)
    return [x.value for x in X]


@pytest.mark.parametrize("seed", range(8))
def test_random_problems_against_clarabel(seed):
    S, lambdas, options = random_problem(seed)
    problem = make_problem(S, *lambdas, **options)
    expected = clarabel(problem, S)
    found = jgl.solve(S, *lambdas, tol=1e-8, **options)
    assert found.status.converged
    for mine, theirs in zip(found.precision, expected, strict=True):
        assert mine.toarray() == pytest.approx(theirs, abs=1e-3)
    # What is not forbidden may be a little off zero in theirs: compare at our own zeros.
    pairs = zip(found.precision, expected, strict=True)
    rounded = [np.where(mine.toarray() == 0, 0.0, theirs) for mine, theirs in pairs]
    assert found.objective <= problem.objective(rounded) + 1e-6
    assert found.objective == pytest.approx(problem.objective(found.precision), abs=1e-9)


@pytest.mark.parametrize("seed", range(8))
def test_proofs_agree_with_a_tight_solution(seed):
    S, lambdas, options = random_problem(seed + 100)
    tight = jgl.solve(S, *lambdas, tol=1e-11, screening="none", **options)
    assert tight.status.converged
    exact = np.array([Theta.toarray() for Theta in tight.precision])
    scale = np.abs(exact).max()
    n_proved = 0
    for tol, screening in ((1e-3, "dynamic"), (1e-5, "hybrid"), (1e-7, "dynamic")):
        loose = jgl.solve(S, *lambdas, tol=tol, screening=screening, **options)
        assert loose.objective - tight.objective <= loose.certificate.gap + 1e-9
        for k, certified in enumerate(loose.certified):
            assert (np.abs(exact[k][certified.toarray()]) > 1e-9 * scale).all()
        if options["penalty"] == "laplacian":
            assert loose.sameness is None
            continue
        same = loose.sameness
        for at, t in np.argwhere(same.proved):
            (one, two), i, j = same.neighbours[t], same.rows[at], same.columns[at]
            assert (abs(exact[one, i, j] - exact[two, i, j]) < 1e-5 * scale) == same.same[at, t]
            n_proved += 1
    assert n_proved > 0 or options["penalty"] == "laplacian"


def test_certified_zeros_are_zero():
    for seed in range(4):
        S, lambdas, options = random_problem(seed + 200)
        tight = jgl.solve(S, *lambdas, tol=1e-11, screening="none", **options)
        loose = jgl.solve(S, *lambdas, tol=1e-5, **options)
        zeros = sum(int((np.triu(Theta.toarray(), 1) == 0).sum()) for Theta in tight.precision)
        zeros -= sum(S.shape[1] * (S.shape[1] + 1) // 2 for _ in S)
        assert loose.certificate.edges_absent <= zeros
        present = sum(tight.n_edges)
        assert loose.certificate.edges_present <= present


def test_a_path_is_the_single_solves():
    S, (lambda1, lambda2), _ = random_problem(3)
    points = [(lambda1 * t, lambda2 * t) for t in (2.0, 1.0, 0.5)]
    for penalty in ("chain", "laplacian"):
        for point, found in zip(points, jgl.solve_path(S, points, penalty=penalty, tol=1e-9), strict=True):
            assert found.objective == pytest.approx(jgl.solve(S, *point, penalty=penalty, tol=1e-9).objective, abs=1e-7)


def test_one_class_and_no_ties_are_graphical_lassos():
    S, (lambda1, _), _ = random_problem(1)
    separate = jgl.solve(S, lambda1, 0.0, tol=1e-9).objective
    for penalty in ("fused", "chain", "laplacian"):
        assert jgl.solve(S, lambda1, 0.0, penalty=penalty, tol=1e-9).objective == pytest.approx(separate, abs=1e-7)
        alone = jgl.solve(S[:1], lambda1, 0.3, penalty=penalty, tol=1e-9).objective
        assert alone == pytest.approx(jgl.solve(S[:1], lambda1, 0.0, tol=1e-9).objective, abs=1e-7)


def test_screens_are_nested_and_plans_know_the_penalty():
    S, lambdas, _ = random_problem(5, n_classes=3, p=8)
    for penalty in ("fused", "chain"):
        solution = jgl.solve(S, *lambdas, penalty=penalty, tol=1e-9)
        hybrid, united = (jgl.screen(S, *lambdas, rule=rule, penalty=penalty) for rule in ("hybrid", "global"))
        for k, Theta in enumerate(solution.precision):
            i, j = np.nonzero(np.triu(Theta.toarray(), 1))
            assert (hybrid.labels[k, i] == hybrid.labels[k, j]).all()
            assert (united.labels[k, i] == united.labels[k, j]).all()
        assert jgl.plan(S, *lambdas, penalty=penalty).partition.labels.shape == hybrid.labels.shape


def test_fifty_time_points():
    rng = np.random.default_rng(0)
    S = np.array([np.corrcoef(rng.normal(size=(30, 5)).T) for _ in range(50)])
    S[:, 0, 1] = S[:, 1, 0] = np.where(np.arange(50) < 25, 0.6, 0.0)
    found = jgl.solve(S, 0.15, 0.3, penalty="chain", tol=1e-5)
    assert found.status.converged
    edge = np.array([Theta[0, 1] for Theta in found.precision])
    assert (edge[:20] < -0.1).all() and (np.abs(edge[30:]) < 0.1).all()
    assert len(np.unique(edge)) < 10


def test_files_and_checkpoints_know_the_penalty(tmp_path):
    S, lambdas, _ = random_problem(2)
    solution = jgl.solve(S, *lambdas, penalty="graph", class_graph=GRAPH, checkpoint=tmp_path / "work")
    kept = jgl.load(solution.save(tmp_path / "solution.jgl"))
    assert kept.parameters["penalty"] == "graph"
    assert kept.parameters["class_graph"] == [[0, 1, 1.0], [0, 2, 1.0], [2, 3, 1.0]]
    assert kept.sameness.same.tolist() == solution.sameness.same.tolist()
    for other in ({"penalty": "chain"}, {"penalty": "laplacian", "class_graph": GRAPH}, {}):
        with pytest.raises(ValueError, match="belongs to another problem"):
            jgl.solve(S, *lambdas, checkpoint=tmp_path / "work", **other)


def test_newton_is_for_the_group_penalty():
    with pytest.raises(ValueError, match='with "chain" use "auto"'):
        jgl.solve(B2, 0.2, 0.1, penalty="chain", solver="newton")
