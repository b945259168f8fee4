"""Classes that lack variables: a pair exists in the classes that have both, and an absent class pulls at nobody."""

import cvxpy as cp
import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import jointglasso as jgl
from jointglasso.cli import main
from jointglasso.screening.curve import lambda_max

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
    for name, measured in HELD.items():
        X = rng.normal(size=(30, len(measured))) + strength * rng.normal(size=(30, 1))
        words = [f"v{i}" for i in measured]
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
            have = [k for k, measured in enumerate(HELD.values()) if i in measured and j in measured]
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
    problem.solve(solver="CLARABEL", tol_gap_abs=1e-9, tol_gap_rel=1e-9, tol_feas=1e-9)
    return problem.value, {name: Theta[name].value for name in frames}


def place(variable_names, measured):
    return [variable_names.index(f"v{i}") for i in measured]


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
        for k, (name, measured) in enumerate(HELD.items()):
            at = place(solution.variable_names, measured)
            mine = solution.precision[k].toarray()
            assert np.abs(mine[np.ix_(at, at)] - Theta[name]).max() < 5e-4
            rest = np.setdiff1d(np.arange(P), at)
            assert np.array_equal(mine[rest], np.eye(P)[rest])  # nothing joins what is not there
        places = sum(len(measured) * (len(measured) - 1) // 2 for measured in HELD.values())
        found = solution.certificate
        assert found.edges_present + found.edges_absent + found.edges_undetermined == places


@pytest.mark.parametrize("penalty", ["fused", "laplacian"])
def test_an_absent_class_does_not_pull_as_one_that_is_cut_does(penalty):
    """One pair, two classes: with the second class absent it is a pair of the first alone."""
    one = pd.DataFrame([[1.0, 0.5], [0.5, 1.0]], index=["a", "b"], columns=["a", "b"])
    two = pd.DataFrame([[1.0, 0.0], [0.0, 1.0]], index=["a", "c"], columns=["a", "c"])
    lacking = jgl.solve(
        jgl.DenseCovariance({"A": one, "B": two}, variables="union"), 0.1, 0.2, penalty=penalty, tol=1e-10
    )
    alone = jgl.solve({"A": one}, 0.1, 0.0)
    assert lacking.precision[0].toarray()[0, 1] == pytest.approx(alone.precision[0].toarray()[0, 1], abs=1e-4)
    there = two.set_axis(["a", "b"]).set_axis(["a", "b"], axis=1)
    pulled = jgl.solve({"A": one, "B": there}, 0.1, 0.2, penalty=penalty)
    assert abs(pulled.precision[0].toarray()[0, 1]) < 0.9 * abs(alone.precision[0].toarray()[0, 1])


def test_what_two_classes_cannot_be_compared_in_is_neither_the_same_nor_different(tmp_path):
    solution = jgl.solve(jgl.DenseCovariance(covariances(4), variables="union"), 0.15, 0.1, penalty="fused", tol=1e-9)
    same, absent = solution.edge_clusters, solution.absent
    lacks = (absent[:, same.rows] | absent[:, same.columns]).T
    apart = lacks[:, same.neighbours[:, 0]] | lacks[:, same.neighbours[:, 1]]
    assert apart.any() and not (same.equal | same.different | same.proved)[apart].any()
    assert same.proved[~apart].mean() > 0.9
    back = jgl.load(solution.save(tmp_path / "solution.jgl"))
    assert np.array_equal(back.absent, absent)
    assert np.array_equal(back.edge_clusters.compared, same.compared) and back.edge_clusters.count() == same.count()


def test_samples_and_their_covariances_give_the_same(tmp_path):
    rng = np.random.default_rng(0)
    frames = {
        name: pd.DataFrame(
            rng.normal(size=(40, len(measured))) + rng.normal(size=(40, 1)), columns=[f"v{i}" for i in measured]
        )
        for name, measured in HELD.items()
    }
    by_class = {name: frame.corr() for name, frame in frames.items()}
    for penalty in ("group", "chain"):
        source = jgl.SampleCovariance(frames, scale="correlation", variables="union")
        streamed = jgl.solve(source, 0.2, 0.1, penalty=penalty)
        dense = jgl.solve(jgl.DenseCovariance(by_class, variables="union"), 0.2, 0.1, penalty=penalty)
        assert streamed.objective == pytest.approx(dense.objective, rel=1e-7)
        assert np.array_equal(streamed.absent, dense.absent)
    common = jgl.SampleCovariance(frames, scale="correlation", variables="intersection")
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


# Shown


@pytest.fixture(scope="module")
def networks():
    """Chain A - B - C - D with an edge v0 - v1 everywhere and v2 - v0 in A and B only; C lacks v2."""
    names = [f"v{i}" for i in range(P)]
    absent = np.array([[i not in measured for i in range(P)] for measured in HELD.values()])
    precision = [2.0 * np.eye(P) for _ in HELD]
    for k, Theta in enumerate(precision):
        Theta[absent[k]] = np.eye(P)[absent[k]]
        Theta[0, 1] = Theta[1, 0] = -0.5
        if k < 2:
            Theta[0, 2] = Theta[2, 0] = 0.4
    chain = np.array([[0, 1], [1, 2], [2, 3]])
    from jointglasso.solution import EdgeClusters

    return jgl.JointNetworks(
        precision, list(HELD), names, absent=absent, edge_clusters=EdgeClusters.of(precision, chain, absent)
    )


def test_an_edge_is_in_all_classes_that_have_it(networks):
    edges = networks.edges().set_index(["variable1", "variable2", "class"])
    assert edges.loc[("v0", "v1", "A"), "kind"] == "shared"
    # D has both v0 and v2, but no edge; C lacks v2.
    assert edges.loc[("v0", "v2", "A"), "kind"] == "partly shared"
    patterns = networks.patterns()["pattern"].tolist()
    assert patterns == ["all classes", "A, B | no edge: D | not measured: C"]
    alone = jgl.JointNetworks(
        [networks.precision[0], networks.precision[2]], ["A", "C"], networks.variable_names,
        absent=networks.absent[[0, 2]],
    )  # fmt: skip
    table = alone.edges().set_index(["variable1", "variable2", "class"])
    assert table.loc[("v0", "v2", "A"), "kind"] == "specific"


def test_absent_is_an_empty_cell_and_no_difference(networks):
    degrees = networks.degrees()
    assert degrees.loc["v2", "C"] is pd.NA and degrees.loc["v3", "A"] == 0
    partial = networks.partial_correlations("C")
    assert partial.loc["v2"].isna().all() and partial.loc["v0", "v3"] == 0.0
    differences = networks.differences("A", "C")
    assert len(differences) == 0 and len(networks.differences("A", "D")) == 1
    compared = networks.compare().set_index(["class1", "class2"])
    assert compared.loc[("A", "C"), "only_first"] == 0 and compared.loc[("A", "D"), "only_first"] == 1
    assert compared.loc[("A", "C"), "jaccard"] == 1.0
    assert compared.loc[("A", "C"), "different"] == 0 and compared.loc[("A", "D"), "different"] == 1
    central = networks.centrality()
    assert len(central) == sum(map(len, HELD.values()))
    assert np.array_equal(networks.subnetwork(["v2", "v0"]).absent, networks.absent[:, [2, 0]])


def test_pictures_leave_out_what_is_not_measured(networks):
    figure = jgl.plots.plot_networks(networks, isolated=True)
    counts = [
        sum(len(part.get_offsets()) for part in ax.collections if part.get_zorder() in (0.5, 3.0)) for ax in figure.axes
    ]
    assert counts == [len(measured) for measured in HELD.values()]
    jgl.plots.plot_differences(networks, "A", "D")


# From samples to networks


def tables(n=60, seed=1):
    rng = np.random.default_rng(seed)
    out = {}
    for name, measured in HELD.items():
        X = rng.normal(size=(n, len(measured)))
        X[:, 1] += 0.8 * X[:, 0]
        out[name] = pd.DataFrame(X, columns=[f"v{i}" for i in measured])
    return out


@pytest.mark.filterwarnings("ignore::jointglasso.SelectionWarning")
@pytest.mark.parametrize(("penalty", "criterion"), [("group", "jbic"), ("fused", "ebic"), ("chain", "cv")])
def test_penalties_are_chosen_and_edges_refitted_among_what_there_is(penalty, criterion):
    grid = [(0.3, 0.1), (0.15, 0.05)]
    found = jgl.select(
        tables(), variables="union", penalty=penalty, criterion=criterion, grid=grid, relaxed=True, random_state=0
    )
    networks = jgl.JointNetworks.from_solution(found.solution)
    assert networks.absent.sum() == sum(P - len(measured) for measured in HELD.values())
    assert sum(found.solution.n_edges) > 0
    # The refit of a class is a maximum likelihood on its own variables.
    Theta = found.solution.refit.precision[3].toarray()
    at = place(found.solution.variable_names, HELD["D"])
    W, S = np.linalg.inv(Theta[np.ix_(at, at)]), tables()["D"].corr().to_numpy()
    if penalty == "group":
        phi = found.solution.refit.relaxation[3]
        target = phi * S + (1 - phi) * np.linalg.inv(found.solution.precision[3].toarray()[np.ix_(at, at)])
        assert np.abs((W - target)[Theta[np.ix_(at, at)] != 0]).max() < 1e-6
    common = jgl.select(tables(), variables="intersection", grid=grid, penalty=penalty)
    assert common.solution.variable_names == ("v0", "v1")
    with pytest.raises(ValueError, match="variables='union'"):
        jgl.select(tables(), grid=grid)


def test_a_table_with_empty_columns_in_a_class_is_such_a_table():
    stacked = pd.concat(tables(), names=["class", "sample"]).reset_index("class").reset_index(drop=True)
    y = stacked.pop("class")
    model = jgl.JointGraphicalLasso(0.2, 0.1, penalty="chain", variables="union").fit(stacked, y)
    other = jgl.JointGraphicalLasso(0.2, 0.1, penalty="chain")
    with pytest.raises(ValueError, match="missing"):
        other.fit(stacked, y)
    assert model.networks_.absent.sum() == model.solution_.absent.sum() > 0
    assert np.isfinite(model.score(stacked, y))
    stable = jgl.edge_stability(stacked, y, lambda1=0.2, lambda2=0.1, n_subsamples=4, variables="union", random_state=0)
    absent = model.solution_.absent
    for k, share in enumerate(stable.frequencies):
        assert not share.toarray()[absent[k]].any()


def test_several_files_with_different_columns(tmp_path):
    files = []
    for name, table in tables().items():
        files.append(str(tmp_path / f"{name}.csv"))
        table.to_csv(files[-1], index=False)
    out = tmp_path / "out"
    arguments = ["fit", *files, "--lambda1", "0.2", "--lambda2", "0.1", "--penalty", "fused", "--no-figures"]
    said = CliRunner().invoke(main, [*arguments, "--variables", "union", "--out", str(out)]).output
    assert "240 samples of 6 variables in 4 classes" in said and "lacking: A 2, B 2, C 2, D 2" in said
    assert "joined pairs have one value in all classes" in said
    solution = jgl.load(out / "solution.jgl")
    assert solution.absent.sum() == 8 and (out / "patterns.csv").is_file()
    CliRunner().invoke(main, [*arguments, "--variables", "intersection", "--out", str(tmp_path / "common")])
    assert jgl.load(tmp_path / "common" / "solution.jgl").variable_names == ("v0", "v1")


@pytest.mark.slow  # it compiles whenever it is loaded
def test_gglasso_finds_the_same_with_its_conventions():
    """It multiplies lambda2 by the root of the number of classes that have a pair, and by 0 if that is one."""
    solver = pytest.importorskip("gglasso.solver.ext_admm_solver")
    rng = np.random.default_rng(3)
    names = {"A": list("abcd"), "B": list("cabe")}
    frames = {}
    for name, words in names.items():
        X = rng.normal(size=(40, 4)) + 0.8 * rng.normal(size=(40, 1))
        frames[name] = pd.DataFrame(np.corrcoef(X.T), index=words, columns=words)
    lambda1, lambda2 = 0.1, 0.08
    pairs = [("a", "b"), ("a", "c"), ("b", "c")]
    G = np.sort([[[names[k].index(word) for k in names] for word in pair] for pair in pairs], axis=1).swapaxes(0, 1)
    S = {k: frame.to_numpy() for k, frame in enumerate(frames.values())}
    found, _ = solver.ext_ADMM_MGL(
        S, lambda1, lambda2, "GGL", {k: np.eye(4) for k in S}, G, tol=1e-10, rtol=1e-10, max_iter=20000
    )
    alone = lambda1 / (lambda1 + np.sqrt(2) * lambda2)
    weights = {(one, two): alone for one in "de" for two in "abc"}
    source = jgl.DenseCovariance(frames, variables="union")
    solution = jgl.solve(
        source, lambda1, np.sqrt(2) * lambda2, penalize_diagonal=False, pair_weights=weights, tol=1e-10
    )  # fmt: skip
    for k, words in enumerate(names.values()):
        at = [solution.variable_names.index(word) for word in words]
        assert np.abs(solution.precision[k].toarray()[np.ix_(at, at)] - found["Theta"][k]).max() < 1e-5


def test_checkpoints_know_what_is_absent(tmp_path):
    frames = covariances(6)
    options = {"penalty": "fused", "checkpoint": tmp_path / "folder", "tol": 1e-9}
    first = jgl.solve(jgl.DenseCovariance(frames, variables="union"), 0.2, 0.1, **options)
    again = jgl.solve(jgl.DenseCovariance(frames, variables="union"), 0.2, 0.1, **options)
    assert again.objective == first.objective and again.n_iter <= first.n_iter
    whole = jgl.DenseCovariance(frames, variables="union")
    whole.absent = None  # the same numbers, but every class has all variables
    with pytest.raises(ValueError, match="another problem"):
        jgl.solve(whole, 0.2, 0.1, **options)


def test_the_tolerance_holds_where_the_objective_shrinks_on_the_way():
    """ADMM's limit is set by the objective at its start, which may be much larger in size than the optimum."""
    rng = np.random.default_rng(7)
    for _ in range(6):
        frames = {}
        for name, measured in HELD.items():
            X = rng.normal(size=(25, len(measured))) * rng.uniform(0.5, 2, len(measured)) + rng.normal(size=(25, 1))
            words = [f"v{i}" for i in measured]
            frames[name] = pd.DataFrame(np.cov(X.T), index=words, columns=words)
        source = jgl.DenseCovariance(frames, variables="union")
        assert jgl.solve(source, 0.1, 0.1, penalty="fused", tol=1e-3, weights=[1, 3, 0.5, 2]).status.converged
