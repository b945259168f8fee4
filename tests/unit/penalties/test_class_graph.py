"""Graphs of classes: every form a user may give, a sentence for every wrong one, and the objective of each penalty."""

import itertools

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from jointglasso import DenseCovariance, config
from jointglasso.kernels.pair_types import Entries
from jointglasso.penalties.base import on_cores
from jointglasso.penalties.class_graph import masses_of, read_class_graph
from jointglasso.problem import make_problem

NAMES = ("control", "mild", "severe")
STAR = np.array([[0, 1, 0.5], [1, 0, 0], [0.5, 0, 0]])


@pytest.mark.parametrize(
    "given",
    [
        STAR,
        STAR.tolist(),
        sparse.csr_array(STAR),
        pd.DataFrame(STAR[::-1, ::-1], index=NAMES[::-1], columns=NAMES[::-1]),
        [("control", "mild"), ("severe", "control", 0.5)],
        [(0, 1), (0, 2, 0.5)],
        {("control", "mild"): 1.0, ("control", "severe"): 0.5},
        {"control": {"mild": 1, "severe": 0.5}},
        {"control": {"mild": 1, "severe": 0.5}, "mild": {"control": 1}},
    ],
    ids=lambda given: type(given).__name__,
)
def test_every_form_gives_the_same_graph(given):
    assert read_class_graph(given, NAMES).tolist() == STAR.tolist()


def test_neighbours_without_weights_and_networkx():
    networkx = pytest.importorskip("networkx")
    expected = (STAR > 0).astype(float).tolist()
    assert read_class_graph({"control": ["mild", "severe"]}, NAMES).tolist() == expected
    graph = networkx.Graph([("control", "mild"), ("control", "severe", {"weight": 0.5})])
    assert read_class_graph(graph, NAMES).tolist() == STAR.tolist()


def test_words_and_orders():
    assert read_class_graph("chain", NAMES).tolist() == [[0, 1, 0], [1, 0, 1], [0, 1, 0]]
    assert read_class_graph("complete", NAMES).tolist() == [[0, 1, 1], [1, 0, 1], [1, 1, 0]]
    assert read_class_graph(["mild", "control", "severe"], NAMES).tolist() == [[0, 1, 1], [1, 0, 0], [1, 0, 0]]
    sized = read_class_graph("sample_size", NAMES, np.array([10, 20, 30]))
    assert sized == pytest.approx(np.array([[0, 0.5, 0.75], [0.5, 0, 1.5], [0.75, 1.5, 0]]))


def test_numbers_are_names_where_classes_are_named_so():
    assert read_class_graph([(2, 1)], ("2", "1", "0"))[0, 1] == 1.0
    # Names count from 1 where nothing else is given: a 0 shows that the numbers are none of these.
    assert read_class_graph([(1, 2)], ("1", "2", "3"))[0, 1] == 1.0
    assert read_class_graph([(0, 1), (1, 2)], ("1", "2", "3")).tolist() == [[0, 1, 0], [1, 0, 1], [0, 1, 0]]


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ([("control", "wild")], "names the class 'wild', which the data does not have"),
        ([("control", 7)], "names the class 7"),
        ([("mild", "mild")], "ties the class 'mild' to itself"),
        ([("control", "mild", -1.0)], "weight of 'control', 'mild' is -1"),
        ([("control", "mild", np.inf)], "weight of 'control', 'mild' is inf"),
        ([("control", "mild", "x")], "weight of 'control', 'mild' must be a number"),
        ([("control", "mild", 1.0), ("mild", "control", 2.0)], "two weights to the classes"),
        ([("control",)], "is no edge"),
        (np.ones((2, 2)), "shape .2, 2., but there are 3 classes"),
        (np.triu(np.ones((3, 3))), "not symmetric"),
        (np.full((3, 3), np.nan), "must be a finite number"),
        (["control", "mild"], "leaves out 'severe'"),
        (["control", "mild", "severe", "mild"], "names 'mild' twice"),
        ("ring", "class_graph='ring' is not known"),
        ("sample_size", "needs the sample sizes"),
        (3, "must be an array"),
        (pd.DataFrame(np.ones((3, 3))), "must be named by the classes"),
    ],
)
def test_wrong_graphs_are_named(given, sentence):
    with pytest.raises((ValueError, TypeError), match=sentence):
        read_class_graph(given, NAMES)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"penalty": "graph"}, 'penalty="graph" needs class_graph='),
        ({"penalty": "fused", "class_graph": STAR}, 'use penalty="graph"'),
        ({"penalty": "chain", "class_graph": "complete"}, "takes the classes in order"),
        ({"penalty": "group", "class_graph": "chain"}, 'not with "group"'),
        ({"class_graph": STAR}, 'not with "group"'),
        ({"penalty": "lasso"}, "penalty='lasso' is not known"),
    ],
)
def test_penalty_and_graph_must_fit(options, sentence):
    with pytest.raises(ValueError, match=sentence):
        make_problem(np.tile(np.eye(2), (3, 1, 1)), 0.1, 0.1, **options)


# The objective


def two_variables(s):
    return np.array([[[1.0, x], [x, 1.0]] for x in s])


def precision_of(theta):
    """Theta of two variables with unit W_ii and the given off-diagonal entries."""
    return [np.array([[a := (1 + np.sqrt(1 + 4 * t * t)) / 2, t], [t, a]]) for t in theta]


@pytest.mark.parametrize(
    ("penalty", "s", "lambdas", "weights", "theta", "value"),
    [
        ("fused", (0.9, 0.0), (0.1, 0.3), None, (-0.666667, -0.208333), 3.671495933),
        ("fused", (0.8, 0.5, -0.3), (0.2, 0.1), None, (-0.476190, -0.329670, 0.0), 5.731335933),
        ("chain", (0.8, 0.5, -0.3), (0.2, 0.1), None, (-0.666667, -0.329670, 0.0), 5.618007248),
        ("chain", (0.6, 0.5, 0.1, 0.55), (0.15, 0.1), None, (-0.398860, -0.398860, -0.153453, -0.329670), 7.621575686),
        ("fused", (0.6, -0.5), (0.1, 0.1), (2, 0.5), (-0.666667, 0.101010), 4.419610687),
        ("laplacian", (0.8, 0.5, -0.3), (0.2, 0.1), None, (-0.720084, -0.335428, 0.027446), 5.526456154),
        ("group", (0.8, 0.5, -0.3), (0.2, 0.1), None, (-0.685077, -0.281618, 0.088787), 5.622232851),
    ],
)
def test_objective_at_known_solutions(penalty, s, lambdas, weights, theta, value):
    problem = make_problem(two_variables(s), *lambdas, penalty=penalty, weights=weights, penalize_diagonal=False)
    # The entries are given to six digits; near its minimum the objective is second order in their errors.
    assert problem.objective(precision_of(theta)) == pytest.approx(value, abs=1e-9)


@pytest.mark.parametrize("penalty", ["fused", "chain", "graph", "laplacian"])
@pytest.mark.parametrize("penalize_diagonal", [True, False])
def test_objective_term_by_term(penalty, penalize_diagonal):
    rng = np.random.default_rng(0)
    S = np.array([np.cov(rng.normal(size=(30, 4)).T) for _ in range(3)])
    Theta = [np.linalg.inv(s) * rng.choice([0.0, 1.0], size=(4, 4)) for s in S]
    Theta = [np.tril(t, -1) + np.tril(t, -1).T + 6 * np.eye(4) for t in Theta]
    v = {(0, 1): 2.0, (1, 3): 0.5}
    graph = {"graph": STAR}.get(penalty)
    problem = make_problem(
        DenseCovariance(S, class_names=NAMES), 0.1, 0.3, penalty=penalty, class_graph=graph, weights=(1, 2, 0.5),
        penalize_diagonal=penalize_diagonal, pair_weights=v,
    )  # fmt: skip
    b = {"fused": 1 - np.eye(3), "graph": STAR}.get(penalty, np.eye(3, k=1) + np.eye(3, k=-1))
    expected = 0.0
    for s, t, w in zip(S, Theta, (1, 2, 0.5), strict=True):
        expected += w * (np.trace(s @ t) - np.linalg.slogdet(t)[1]) + 0.1 * penalize_diagonal * np.diagonal(t).sum()
    for i, j in itertools.combinations(range(4), 2):
        t = np.array([matrix[i, j] for matrix in Theta])
        difference = np.abs(t[:, None] - t[None, :])
        coupling = (b * (difference**2 if penalty == "laplacian" else difference)).sum() / 2
        expected += 2 * v.get((i, j), 1.0) * (0.1 * np.abs(t).sum() + 0.3 * coupling)
    assert problem.objective(Theta) == pytest.approx(expected, rel=1e-13)


def test_one_class_and_no_ties_are_the_separate_lassos():
    S = two_variables((0.6, -0.5))
    Theta = precision_of((-0.4, 0.3))
    separate = make_problem(S, 0.1, 0.0).objective(Theta)
    for penalty in ("fused", "chain", "laplacian"):
        assert make_problem(S, 0.1, 0.0, penalty=penalty).objective(Theta) == pytest.approx(separate)
        alone = make_problem(S[:1], 0.1, 0.7, penalty=penalty).objective(Theta[:1])
        assert alone == pytest.approx(make_problem(S[:1], 0.1, 0.0).objective(Theta[:1]))


def test_a_solution_remembers_its_graph():
    penalty = make_problem(two_variables((0.1, 0.2, 0.3)), 0.1, 0.2, penalty="graph", class_graph=STAR).penalty
    assert penalty.parameters() == {
        "lambda1": 0.1, "lambda2": 0.2, "penalty": "graph", "class_graph": [[0, 1, 1.0], [0, 2, 0.5]],
    }  # fmt: skip
    assert penalty.scaled(2.0).parameters()["lambda2"] == 0.4


@pytest.mark.parametrize("n_classes", [3, 4, 6])
def test_masses_are_found_where_a_graph_is_their_product(n_classes):
    masses = np.random.default_rng(n_classes).uniform(0.5, 2.0, n_classes)
    product = np.outer(masses, masses)
    np.testing.assert_allclose(masses_of(product), masses, rtol=1e-13)
    product[0, 1] = product[1, 0] = 3.0 * product[0, 1]
    assert n_classes == 3 or masses_of(product) is None  # any three weights are products
    product[0, 1] = product[1, 0] = 0.0
    assert masses_of(product) is None
    assert masses_of(np.ones((2, 2))) is None


@pytest.mark.parametrize("threads", [True, False])
def test_parts_of_the_pairs_are_those_of_all(threads, monkeypatch):
    monkeypatch.setattr(config, "MIN_ENTRIES_FOR_THREADS", 1 if threads else 10**9)
    size = np.random.default_rng(0).integers(1, 4, 50)
    start = np.concatenate([[0], np.cumsum(size)])
    cls, factor, l1 = np.arange(start[-1]) % 3, np.arange(50.0), np.arange(float(start[-1]))
    parts = on_cores(lambda span, part: (span, part), Entries(start, cls, factor, 3, l1))
    assert (len(parts) > 1) == threads
    for name, values in (("cls", cls), ("factor", factor), ("l1", l1)):
        np.testing.assert_array_equal(np.concatenate([getattr(part, name) for _, part in parts]), values)
    np.testing.assert_array_equal(np.concatenate([np.diff(part.start) for _, part in parts]), size)
    assert all(part.start[0] == 0 and part.start[-1] == span.stop - span.start for span, part in parts)
