"""Classes that lack variables: a pair exists in the classes that have both, and an absent class pulls at nobody."""

import cvxpy as cp
import numpy as np
import pandas as pd
import pytest

import jointglasso as jgl
from jointglasso.screening.largest import lambda_max

PENALTIES = {
    "group": {},
    "fused": {},
    "chain": {},
    "graph": {"class_graph": [("A", "B"), ("A", "C", 0.5), ("C", "D", 2.0)]},
    "laplacian": {},
}
TIES = {
    "fused": np.ones((4, 4)) - np.eye(4),
    "chain": np.eye(4, k=1) + np.eye(4, k=-1),
    "graph": np.array([[0, 1, 0.5, 0], [1, 0, 0, 0], [0.5, 0, 0, 2], [0, 0, 2, 0]]),
    "laplacian": np.eye(4, k=1) + np.eye(4, k=-1),
}
#: Variables of each class; v0 and v1 are everywhere, v5 is in one class alone.
HELD = {"A": [0, 1, 2, 3], "B": [0, 1, 2, 4], "C": [4, 3, 1, 0], "D": [0, 5, 2, 1]}
P = 6


def covariances(seed, strength=0.7):
    """A correlation matrix of the variables of each class as a data frame."""
    rng = np.random.default_rng(seed)
    frames = {}
    for name, held in HELD.items():
        X = rng.normal(size=(30, len(held))) + strength * rng.normal(size=(30, 1))
        words = [f"v{i}" for i in held]
        frames[name] = pd.DataFrame(np.corrcoef(X.T), index=words, columns=words)
    return frames


def oracle(frames, lambda1, lambda2, penalty, weights, diagonal, factor=None):
    """Optimal objective and precisions by class, over the variables that each class has, by Clarabel."""
    Theta = {name: cp.Variable((len(S), len(S)), PSD=True) for name, S in frames.items()}
    total = 0
    for (name, S), w in zip(frames.items(), weights, strict=True):
        total += w * (cp.trace(S.to_numpy() @ Theta[name]) - cp.log_det(Theta[name]))
        total += diagonal * lambda1 * cp.trace(Theta[name])
    for i in range(P):
        for j in range(i + 1, P):
            have = [k for k, held in enumerate(HELD.values()) if i in held and j in held]
            if not have:
                continue
            names = list(HELD)
            t = [Theta[names[k]][HELD[names[k]].index(i), HELD[names[k]].index(j)] for k in have]
            v = 1.0 if factor is None else factor[i, j]
            value = lambda1 * sum(cp.abs(x) for x in t)
            if penalty == "group":
                value += lambda2 * cp.norm(cp.hstack(t))
            else:
                for a in range(len(have)):
                    for b in range(a):
                        apart = t[a] - t[b]
                        cost = cp.square(apart) if penalty == "laplacian" else cp.abs(apart)
                        value += lambda2 * TIES[penalty][have[a], have[b]] * cost
            total += 2 * v * value
    problem = cp.Problem(cp.Minimize(total))
    problem.solve(solver="CLARABEL", tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10)
    return problem.value, {name: Theta[name].value for name in frames}


def place(variable_names, held):
    return [variable_names.index(f"v{i}") for i in held]


@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("seed", [0, 2])
def test_the_solution_is_that_of_the_problem_without_the_absent(penalty, seed):
    frames = covariances(seed)
    lambda1, lambda2 = (0.2, 0.1) if seed else (0.1, 0.25)
    weights, diagonal = ([1.0, 2.0, 0.5, 1.0], False) if seed else ([1, 1, 1, 1], True)
    best, Theta = oracle(frames, lambda1, lambda2, penalty, weights, diagonal)
    source = jgl.DenseCovariance(frames, variables="union")
    options = {"weights": weights, "penalize_diagonal": diagonal, "tol": 1e-9, "penalty": penalty, **PENALTIES[penalty]}
    for screening in ("dynamic", "hybrid", "global", "none"):
        solution = jgl.solve(source, lambda1, lambda2, screening=screening, **options)
        assert solution.status.converged
        assert solution.objective == pytest.approx(best, abs=2e-7)
        problem = jgl.problem.make_problem(
            source, lambda1, lambda2, penalty=penalty, weights=weights, penalize_diagonal=diagonal, **PENALTIES[penalty]
        )
        assert problem.objective(solution.precision) == pytest.approx(solution.objective, rel=1e-9)
        for k, (name, held) in enumerate(HELD.items()):
            at = place(solution.variable_names, held)
            mine = solution.precision[k].toarray()
            assert np.abs(mine[np.ix_(at, at)] - Theta[name]).max() < 5e-4
            rest = np.setdiff1d(np.arange(P), at)
            assert np.array_equal(mine[rest], np.eye(P)[rest])  # nothing joins what is not there
        places = sum(len(held) * (len(held) - 1) // 2 for held in HELD.values())
        found = solution.certificate
        assert found.edges_present + found.edges_absent + found.edges_undetermined == places


@pytest.mark.parametrize("penalty", ["fused", "laplacian"])
def test_an_absent_class_does_not_pull_as_one_that_is_cut_does(penalty):
    """One pair, two classes: with the second class absent it is a pair of the first alone."""
    one = pd.DataFrame([[1.0, 0.5], [0.5, 1.0]], index=["a", "b"], columns=["a", "b"])
    two = pd.DataFrame([[1.0, 0.0], [0.0, 1.0]], index=["a", "c"], columns=["a", "c"])
    lacking = jgl.solve(jgl.DenseCovariance({"A": one, "B": two}, variables="union"), 0.1, 0.2, penalty=penalty)
    alone = jgl.solve({"A": one}, 0.1, 0.0)
    assert lacking.precision[0].toarray()[0, 1] == pytest.approx(alone.precision[0].toarray()[0, 1], abs=1e-4)
    there = two.set_axis(["a", "b"]).set_axis(["a", "b"], axis=1)
    pulled = jgl.solve({"A": one, "B": there}, 0.1, 0.2, penalty=penalty)
    assert abs(pulled.precision[0].toarray()[0, 1]) < 0.9 * abs(alone.precision[0].toarray()[0, 1])


def test_what_two_classes_cannot_be_compared_in_is_neither_the_same_nor_different(tmp_path):
    solution = jgl.solve(jgl.DenseCovariance(covariances(4), variables="union"), 0.15, 0.1, penalty="fused", tol=1e-9)
    same, absent = solution.sameness, solution.absent
    lacks = (absent[:, same.rows] | absent[:, same.columns]).T
    apart = lacks[:, same.neighbours[:, 0]] | lacks[:, same.neighbours[:, 1]]
    assert apart.any() and not (same.same | same.different | same.proved)[apart].any()
    assert same.proved[~apart].mean() > 0.9
    back = jgl.load(solution.save(tmp_path / "solution.jgl"))
    assert np.array_equal(back.absent, absent)
    assert np.array_equal(back.sameness.compared, same.compared) and back.sameness.count() == same.count()


def test_samples_and_their_covariances_give_the_same(tmp_path):
    rng = np.random.default_rng(0)
    frames = {
        name: pd.DataFrame(rng.normal(size=(40, len(held))) + rng.normal(size=(40, 1)), columns=[f"v{i}" for i in held])
        for name, held in HELD.items()
    }
    by_class = {name: frame.corr() for name, frame in frames.items()}
    for penalty in ("group", "chain"):
        source = jgl.SampleCovariance(frames, correlation=True, variables="union")
        streamed = jgl.solve(source, 0.2, 0.1, penalty=penalty)
        dense = jgl.solve(jgl.DenseCovariance(by_class, variables="union"), 0.2, 0.1, penalty=penalty)
        assert streamed.objective == pytest.approx(dense.objective, rel=1e-7)
        assert np.array_equal(streamed.absent, dense.absent)
    common = jgl.SampleCovariance(frames, correlation=True, variables="intersection")
    assert common.variable_names == ("v0", "v1") and common.absent is None
    with pytest.raises(ValueError, match="variables='union'"):
        jgl.SampleCovariance(frames)
    with pytest.raises(ValueError, match="class '2' have no names"):
        jgl.SampleCovariance([frames["A"], frames["B"].to_numpy()], variables="union")
    with pytest.raises(ValueError, match="leaves 1"):
        jgl.SampleCovariance([frames["A"][["v0", "v2"]], frames["C"][["v0", "v3"]]], variables="intersection")


def test_the_first_edge_and_paths_know_what_is_absent():
    source = jgl.DenseCovariance(covariances(5), variables="union")
    largest = float(lambda_max(source, [(1.0, 0.5)], penalty="fused")[0])
    edges = [
        sum(jgl.solve(source, factor * largest, factor * 0.5 * largest, penalty="fused", tol=1e-9).n_edges)
        for factor in (1.0001, 0.98)
    ]
    assert edges[0] == 0 and edges[1] > 0
    points = [(0.4, 0.2), (0.2, 0.1)]
    path = list(jgl.solve_path(source, points, penalty="fused", tol=1e-8))
    for point, solution in zip(points, path, strict=True):
        again = jgl.solve(source, *point, penalty="fused", tol=1e-8)
        assert solution.objective == pytest.approx(again.objective, rel=1e-7)
