"""Networks of several classes: what is shared, what differs, and how fast it is told."""

import time

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy import sparse

import jointglasso as jgl
from jointglasso.networks.edge_list import KINDS

COLUMNS = [
    "variable1",
    "variable2",
    "class",
    "precision",
    "partial_correlation",
    "kind",
    "stability",
    "certified",
]


def precision(p, entries):
    Theta = 2.0 * np.eye(p)
    for (i, j), value in entries.items():
        Theta[i, j] = Theta[j, i] = value
    return Theta


@pytest.fixture
def three():
    """Four variables, three classes: a-b shared with a sign flip, a-c in two, b-d in one, c-d in all alike."""
    return jgl.JointNetworks(
        [
            precision(4, {(0, 1): 0.5, (0, 2): 0.4, (2, 3): -1.0}),
            precision(4, {(0, 1): -0.5, (0, 2): 0.3, (2, 3): -0.5}),
            precision(4, {(0, 1): 0.1, (1, 3): 0.2, (2, 3): -0.1}),
        ],
        ["x", "y", "z"],
        ["a", "b", "c", "d"],
    )


def random_matrices(rng, p, K, density=0.3):
    out = []
    for _ in range(K):
        upper = np.triu(rng.normal(size=(p, p)) * (rng.random((p, p)) < density), 1)
        out.append(upper + upper.T + np.diag(1.0 + rng.random(p) * p))
    return out


def test_edges_are_told_by_kind_and_sign(three):
    table = three.edges()
    assert list(table.columns) == COLUMNS
    kinds = {(r.variable1 + r.variable2): r.kind for r in table.itertuples()}
    assert kinds == {"ab": "shared", "ac": "partly shared", "bd": "specific", "cd": "shared"}
    assert list(table["class"]) == ["x", "y", "z", "x", "y", "z", "x", "y", "z"]
    first = table.iloc[0]
    assert (first["precision"], first["partial_correlation"]) == (0.5, pytest.approx(-0.25))
    assert table["stability"].isna().all() and not table["certified"].any()


@settings(max_examples=40)
@given(st.integers(0, 10**6), st.integers(1, 9), st.integers(1, 4))
def test_edge_table_says_what_the_dense_matrices_say(seed, p, K):
    matrices = random_matrices(np.random.default_rng(seed), p, K)
    networks = jgl.JointNetworks(matrices, [f"c{k}" for k in range(K)], [f"v{i}" for i in range(p)])
    expected = []
    for i in range(p):
        for j in range(i + 1, p):
            values = [Theta[i, j] for Theta in matrices]
            present = [k for k in range(K) if values[k] != 0]
            kind = "shared" if len(present) == K else "specific" if len(present) == 1 else "partly shared"
            for k in present:
                partial = -values[k] / np.sqrt(matrices[k][i, i] * matrices[k][j, j])
                expected.append((f"v{i}", f"v{j}", f"c{k}", values[k], partial, kind))
    found = list(networks.edges().iloc[:, :6].itertuples(index=False, name=None))
    assert [row[:4] + row[5:] for row in found] == [row[:4] + row[5:] for row in expected]
    np.testing.assert_allclose([row[4] for row in found], [row[4] for row in expected])
    degrees = np.stack([(Theta != 0).sum(axis=1) - 1 for Theta in matrices], axis=1)
    np.testing.assert_array_equal(networks.degrees().to_numpy(), degrees)
    assert networks.n_edges == [int(column.sum()) // 2 for column in degrees.T]


@settings(max_examples=30)
@given(st.integers(0, 10**6), st.integers(2, 8), st.integers(2, 4))
def test_comparison_is_that_of_sets(seed, p, K):
    matrices = random_matrices(np.random.default_rng(seed), p, K)
    networks = jgl.JointNetworks(matrices, [str(k) for k in range(K)], [str(i) for i in range(p)])
    sets = [set(zip(*np.nonzero(np.triu(Theta, 1)), strict=True)) for Theta in matrices]
    table = networks.compare()
    assert len(table) == K * (K - 1) // 2
    for row in table.itertuples():
        i, j = int(row.class1), int(row.class2)
        one, two = sets[i], sets[j]
        flips = sum(matrices[i][pair] * matrices[j][pair] < 0 for pair in one & two)
        assert (row.common, row.only_first, row.only_second, row.sign_flips) == (
            len(one & two),
            len(one - two),
            len(two - one),
            flips,
        )
        expected = len(one & two) / len(one | two) if one | two else np.nan
        np.testing.assert_allclose(row.jaccard, expected)


def test_hubs_come_first_and_isolated_variables_never(three):
    assert list(three.hubs(2).index) == ["a", "c"]
    assert list(three.hubs(2, class_name="z").index) == ["b", "d"]
    lonely = jgl.JointNetworks([precision(4, {(1, 3): 1.0})], ["x"], list("abcd"))
    assert list(lonely.hubs().index) == ["b", "d"]
    assert len(three.hubs(0)) == 0


def test_neighbours_of_a_variable(three):
    table = three.neighbours("d")
    assert list(table.columns) == ["variable", *COLUMNS[2:]]
    assert list(zip(table["variable"], table["class"], strict=True)) == [("b", "z"), *[("c", name) for name in "xyz"]]
    assert list(three.neighbours(3, class_name="x")["variable"]) == ["c"]


def test_subnetwork_keeps_order_values_and_what_is_known_beside_them(three):
    certified = [sparse.csc_array(np.abs(Theta.toarray()) == 0.5) for Theta in three.precision]
    stability = [sparse.csc_array(np.abs(Theta.toarray()) / 2) for Theta in three.precision]
    whole = jgl.JointNetworks(
        three.precision, three.class_names, three.variable_names, certified=certified, stability=stability
    )
    part = whole.subnetwork(["d", 2])
    assert part.variable_names == ("d", "c")
    table = part.edges()
    np.testing.assert_allclose(table["precision"], [-1.0, -0.5, -0.1])
    np.testing.assert_allclose(table["stability"], [0.5, 0.25, 0.05])
    assert list(table["certified"]) == [False, True, False]
    expected = whole.edges().query("variable1 == 'c'")["partial_correlation"]
    np.testing.assert_allclose(table["partial_correlation"], expected)


@pytest.mark.parametrize("triangle", [np.triu, np.tril, lambda matrix: matrix])
def test_stability_is_found_in_either_triangle_and_zero_where_not_stored(three, triangle):
    frequency = precision(4, {(0, 1): 0.7, (2, 3): 0.2}) / 2
    stability = [sparse.coo_array(triangle(frequency))] * 3
    networks = jgl.JointNetworks(three.precision, three.class_names, three.variable_names, stability=stability)
    table = networks.edges()
    found = dict(zip(table["variable1"] + table["variable2"], table["stability"], strict=True))
    assert found == {"ab": 0.35, "ac": 0.0, "bd": 0.0, "cd": 0.1}


def test_one_class_shares_everything_with_itself():
    networks = jgl.JointNetworks([precision(3, {(0, 2): 0.1})], ["only"], list("abc"))
    assert list(networks.edges()["kind"]) == ["shared"]
    assert len(networks.compare()) == 0


def test_networks_without_any_edge():
    networks = jgl.JointNetworks([np.eye(3), sparse.eye_array(3)], ["x", "y"], list("abc"))
    assert list(networks.edges().columns) == COLUMNS and len(networks.edges()) == 0
    assert networks.n_edges == [0, 0]
    assert networks.degrees().to_numpy().sum() == 0 and len(networks.hubs()) == 0
    assert len(networks.neighbours("a")) == 0
    assert networks.compare()["jaccard"].isna().all()
    assert networks.subnetwork(["b"]).n_variables == 1
    assert "x: 0, y: 0" in repr(networks)


def test_stored_zeros_are_no_edges():
    Theta = sparse.csc_array(precision(3, {(0, 1): 1.0}))
    Theta.data[Theta.data == 1.0] = 0.0
    assert jgl.JointNetworks([Theta], ["x"], list("abc")).n_edges == [0]
    assert (Theta.data == 0).sum() == 2, "the caller's matrix is left alone"


def test_names_that_come_twice_are_addressed_by_position():
    networks = jgl.JointNetworks([precision(3, {(0, 2): 0.1})], ["x"], ["g", "h", "g"])
    assert list(networks.neighbours(2)["variable"]) == ["g"]
    assert networks.position(-1) == 2
    with pytest.raises(ValueError, match=r"2 variables named 'g', at positions \[0, 2\]"):
        networks.neighbours("g")
    assert networks.subnetwork([2, 0]).edges()["variable1"].tolist() == ["g"]


def test_from_solution_takes_names_and_zeros():
    rng = np.random.default_rng(3)
    X = {name: rng.normal(size=(60, 8)) @ np.linalg.qr(rng.normal(size=(8, 8)))[0] for name in ("t", "u")}
    solution = jgl.solve(jgl.SampleCovariance(X), 0.08, 0.04)
    networks = jgl.JointNetworks.from_solution(solution)
    assert networks.class_names == ("t", "u") and networks.n_edges == solution.n_edges
    assert sum(networks.n_edges) > 0


def test_repr_counts_edges_by_class_and_kind(three):
    assert repr(three) == (
        "JointNetworks(4 variables; edges by class {x: 3, y: 3, z: 3}; pairs 2 shared, 1 partly shared, 1 specific)"
    )
    assert KINDS == ("shared", "partly shared", "specific")


WRONG = {
    "no matrices": (([], [], []), ValueError, "precision is empty"),
    "not a list": ((sparse.eye_array(2), ["x"], list("ab")), TypeError, "one matrix per class"),
    "not square": (([np.ones((2, 3))], ["x"], list("ab")), ValueError, "must be square"),
    "sizes": (([np.eye(2), np.eye(3)], ["x", "y"], list("ab")), ValueError, "matrix 1 has shape"),
    "asymmetric": (([np.array([[1.0, 0.5], [0, 1]])], ["x"], list("ab")), ValueError, "not symmetric"),
    "diagonal": (([np.zeros((2, 2))], ["x"], list("ab")), ValueError, "on the diagonal at variable 0"),
    "nan": (([np.full((2, 2), np.nan)], ["x"], list("ab")), ValueError, "NaN"),
    "class twice": (([np.eye(2)] * 2, ["x", "x"], list("ab")), ValueError, "'x' twice"),
    "one word": (([np.eye(2)], ["x"], "ab"), TypeError, "variable_names must be a list"),
    "too few names": (([np.eye(2)], ["x"], ["a"]), ValueError, "1 names, but there are 2 variables"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_input_is_named(case):
    arguments, kind, message = WRONG[case]
    with pytest.raises(kind, match=message):
        jgl.JointNetworks(*arguments)


def test_wrong_questions_are_named(three):
    with pytest.raises(ValueError, match="no variable 'q'"):
        three.neighbours("q")
    with pytest.raises(ValueError, match="no variable number 4"):
        three.position(4)
    with pytest.raises(ValueError, match=r"no class 'q'; the classes are 'x', 'y', 'z'"):
        three.hubs(class_name="q")
    with pytest.raises(TypeError, match="n must be a whole number"):
        three.hubs(2.5)
    with pytest.raises(ValueError, match="twice"):
        three.subnetwork(["a", 0])
    with pytest.raises(ValueError, match="empty"):
        three.subnetwork([])
    with pytest.raises(TypeError, match="list of names"):
        three.subnetwork("abc")
    with pytest.raises(ValueError, match="stability must hold 3 matrices"):
        jgl.JointNetworks(three.precision, ["x", "y", "z"], list("abcd"), stability=[np.eye(4)])
    with pytest.raises(ValueError, match="stability of class 0 must lie between 0 and 1"):
        jgl.JointNetworks([np.eye(2)], ["x"], ["a", "b"], stability=[np.full((2, 2), 3.0)])


def test_twenty_thousand_variables_take_about_a_second():
    rng = np.random.default_rng(0)
    p, m = 20_000, 100_000
    matrices = []
    for _ in range(2):
        i, j = rng.integers(0, p, (2, m))
        upper = sparse.coo_array((rng.normal(size=m), (i, j)), shape=(p, p))
        matrices.append(sparse.csc_array(upper + upper.T + 50 * sparse.eye_array(p)))
    start = time.process_time()
    networks = jgl.JointNetworks(matrices, ["x", "y"], [f"g{i}" for i in range(p)])
    networks.edges(), networks.degrees(), networks.hubs(), networks.compare(), networks.neighbours("g7")
    networks.subnetwork(range(0, p, 2)).edges()
    assert time.process_time() - start < 3.0  # about half a second of one core
    assert sum(networks.n_edges) > 199_000


def test_predictability_is_the_r_squared_of_regressions_on_all_others():
    """On the inverse of a sample covariance, whose regressions are least squares on the samples."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 5))
    X[:, 1] += X[:, 0]
    X[:, 3] -= 0.5 * X[:, 1]
    Theta = np.zeros((6, 6))
    Theta[:5, :5], Theta[5, 5] = np.linalg.inv(np.cov(X.T)), 3.0
    indefinite = np.eye(6) + 2.0 * (np.eye(6, k=1) + np.eye(6, k=-1))
    table = jgl.JointNetworks([Theta, np.diag(np.arange(1.0, 7.0)), indefinite], ["a", "b", "c"], list("uvwxyz"))
    values = table.predictability()
    Z = X - X.mean(axis=0)
    for j, name in enumerate("uvwxy"):
        others = np.delete(Z, j, axis=1)
        residual = Z[:, j] - others @ np.linalg.lstsq(others, Z[:, j], rcond=None)[0]
        assert values.loc[name, "a"] == pytest.approx(1.0 - residual @ residual / (Z[:, j] @ Z[:, j]))
    assert values.loc["z", "a"] == 0.0
    assert (values["b"] == 0.0).all() and values["c"].isna().all()


def test_predictability_is_missing_where_a_class_lacks_a_variable():
    Theta, absent = precision(3, {(0, 1): 0.5}), np.array([[False, False, True]])
    values = jgl.JointNetworks([Theta], ["a"], list("xyz"), absent=absent).predictability()
    assert values["a"].isna().tolist() == [False, False, True]
    assert values.loc["x", "a"] == pytest.approx(0.0625)
