"""Edges that are the same in several classes: how they are found, proved, listed and compared."""

from dataclasses import replace

import numpy as np
import pytest

from jointglasso import JointNetworks, load, solve
from jointglasso.solution import Sameness

CHAIN = np.array([[0, 1], [1, 2]])
NAMES = ("t0", "t1", "t2")


def matrices(values):
    """Three 4 x 4 precision matrices with the given entries ``{(i, j): (t0, t1, t2)}``."""
    out = [4.0 * np.eye(4) for _ in range(3)]
    for (i, j), entries in values.items():
        for Theta, value in zip(out, entries, strict=True):
            Theta[i, j] = Theta[j, i] = value
    return out


PRECISION = matrices({(0, 1): (0.5, 0.5, 0.5), (0, 2): (0.3, 0.3, 0.0), (1, 3): (0.2, 0.1, 0.2)})


@pytest.fixture
def same():
    return Sameness.of(PRECISION, CHAIN)


def test_values_are_compared_between_neighbours(same):
    assert list(zip(same.rows, same.columns, strict=True)) == [(0, 1), (0, 2), (1, 3)]
    assert same.same.tolist() == [[True, True], [True, False], [False, False]]
    assert not same.proved.any()


def test_clusters_are_joined_through_neighbours_only(same):
    assert same.clusters.tolist() == [[0, 0, 0], [0, 0, 2], [0, 1, 2]]
    complete = Sameness.of(PRECISION, np.array([[0, 1], [0, 2], [1, 2]]))
    assert complete.clusters.tolist() == [[0, 0, 0], [0, 0, 2], [0, 1, 0]]


def test_a_cluster_is_proved_when_proved_ties_hold_it_together(same):
    proved = np.array([[True, False], [True, True], [True, True]])
    some = same.with_proofs(np.array([0, 0, 2]), np.array([1, 2, 3]), proved)  # the last pair is no edge
    assert some.proved.tolist() == [[True, False], [True, True], [False, False]]
    assert some.proved_clusters.tolist() == [[False] * 3, [True] * 3, [True] * 3]
    # Around a triangle two proved equalities suffice.
    triangle = Sameness.of(PRECISION, np.array([[0, 1], [0, 2], [1, 2]]))
    around = triangle.with_proofs(np.array([0]), np.array([1]), np.array([[True, False, True]]))
    assert around.proved_clusters[0].tolist() == [True] * 3
    assert some.count() == {"same": 3, "same_proved": 2, "different": 3, "different_proved": 1}


def test_the_edge_table_tells_where_an_edge_is_the_same(same):
    proved = same.with_proofs(np.array([0]), np.array([1]), np.array([[True, True]]))
    networks = JointNetworks(PRECISION, NAMES, list("abcd"), sameness=proved)
    table = networks.edges()
    assert table["same_in"].tolist() == ["t0, t1, t2"] * 3 + ["t0, t1"] * 2 + ["t0", "t1", "t2"]
    assert table["same_certified"].tolist() == [True] * 3 + [False] * 2 + [True] * 3
    compared = networks.compare()
    assert compared["same"].tolist() == [2, 1, 1]
    assert compared["same_certified"].tolist() == [1, 1, 1]
    assert "same_in" not in JointNetworks(PRECISION, NAMES, list("abcd")).edges()


def test_subnetworks_keep_what_is_the_same(same):
    networks = JointNetworks(PRECISION, NAMES, list("abcd"), sameness=same).subnetwork(["c", "a"])
    assert networks.edges()["same_in"].tolist() == ["t0, t1", "t0, t1"]


def test_no_edges():
    networks = JointNetworks([np.eye(2)] * 3, NAMES, list("ab"), sameness=Sameness.of([np.eye(2)] * 3, CHAIN))
    assert len(networks.edges()) == 0 and networks.compare()["same"].tolist() == [0, 0, 0]


def solution_with(same):
    solution = solve([np.array(Theta) for Theta in np.linalg.inv(PRECISION)], 1e-3, 0.0, tol=1e-3)
    return replace(solution, sameness=same)


def test_files_keep_it(same, tmp_path):
    proved = same.with_proofs(np.array([0]), np.array([1]), np.array([[True, False]]))
    found = load(solution_with(proved).save(tmp_path / "solution.jgl")).sameness
    for name in ("rows", "columns", "neighbours", "same", "proved", "n_classes"):
        assert np.array_equal(getattr(found, name), getattr(proved, name)), name
    assert load(solution_with(None).save(tmp_path / "without.jgl")).sameness is None


@pytest.mark.parametrize("wrong", [{"neighbours": np.array([[0, 1], [0, 3]])}, {"rows": np.array([3, 0, 1])}])
def test_a_file_that_does_not_fit_is_refused(same, tmp_path, wrong):
    path = solution_with(replace(same, **wrong)).save(tmp_path / "x.jgl")
    with pytest.raises(ValueError, match="the comparison of the classes does not fit"):
        load(path)


def test_tables_in_files_have_the_columns(same, tmp_path):
    networks = JointNetworks(PRECISION, NAMES, list("abcd"), sameness=same)
    text = networks.export(tmp_path / "edges.csv").read_text()
    assert "same_in,same_certified" in text and '"t0, t1, t2"' in text
    assert "same_in" in networks.export(tmp_path / "edges.graphml").read_text()
    assert "same_in" in networks.export(tmp_path / "edges.cx2").read_text()
