"""Groups of variables: communities that are found, groups that are given, and the edges a picture begins with."""

from itertools import pairwise

import networkx
import numpy as np
import pytest
from scipy import sparse

import jointglasso as jgl
from jointglasso.networks import communities, layout
from jointglasso.networks.communities import node_groups
from jointglasso.networks.edge_list import READABLE
from jointglasso.networks.tables import betweenness
from jointglasso.report.write import make_payload
from reports import big_solution, made_solution, ring


def cliques(sizes, between=0.02, inside=0.2, lonely=1):
    """Precision matrix of cliques, neighbours tied by one weak edge, and variables without an edge."""
    blocks = sparse.block_diag([sparse.coo_array(np.full((n, n), -inside)) for n in sizes], format="lil")
    starts = np.cumsum([0, *sizes[:-1]])
    for one, two in pairwise(starts):
        blocks[one, two] = blocks[two, one] = -between
    p = sum(sizes) + lonely
    Theta = sparse.lil_array((p, p))
    Theta[: sum(sizes), : sum(sizes)] = blocks
    Theta.setdiag(3.0)
    return sparse.csc_array(Theta)


def networks_of(*precision):
    p = precision[0].shape[0]
    return jgl.JointNetworks(precision, [f"class {k}" for k in range(len(precision))], [f"v{i}" for i in range(p)])


@pytest.mark.parametrize("package", ["igraph", "networkx"])
def test_communities_are_the_cliques_the_biggest_first(package, monkeypatch):
    monkeypatch.setattr(communities, "find_spec", lambda name: name == package or None)
    found = networks_of(cliques([4, 7, 5]), cliques([4, 7, 5], between=0.01)).communities()
    assert found.tolist() == [3] * 4 + [1] * 7 + [2] * 5 + [0]
    assert found.index[0] == "v0"


def test_a_network_without_edges_has_no_communities():
    networks = networks_of(sparse.csc_array(sparse.eye_array(3)))
    assert networks.communities().tolist() == [0, 0, 0]
    assert node_groups(networks, "communities") is None


def test_igraph_keeps_its_own_random_numbers():
    import random

    networks = networks_of(cliques([4, 4]))
    random.seed(3)
    expected = random.random()
    random.seed(3)
    networks.communities()
    assert random.random() == expected


def test_groups_are_given_by_name_or_in_order():
    networks = networks_of(ring(4, 0.4))
    by_name = node_groups(networks, {"v2": "mood", "v0": "sleep"})
    assert (by_name.names, by_name.of.tolist()) == (("sleep", "mood"), [0, -1, 1, -1])
    in_order = node_groups(networks, ["a", None, "b", float("nan")])
    assert (in_order.names, in_order.of.tolist()) == (("a", "b"), [0, -1, 1, -1])


@pytest.mark.parametrize(
    "given, words",
    [
        (["a"], "1 entries, but there are 4 variables"),
        ({"nobody": "a"}, "no variable 'nobody'"),
        ("colour", "groups='colour' is not known"),
        ({}, "no variable into a group"),
    ],
)
def test_groups_that_make_no_sense_are_refused(given, words):
    with pytest.raises(ValueError, match=words):
        node_groups(networks_of(ring(4, 0.4)), given)


def test_texts_and_groups_reach_the_page():
    solution = made_solution([ring(4, 0.4)], ["only"], "abcd")
    networks = jgl.JointNetworks.from_solution(solution)
    payload = make_payload(solution, networks, groups={"b": "G"}, texts={"c": "I sleep well"})
    assert payload["groups"] == {"title": "Group", "names": ["G"], "of": [-1, 0, -1, -1]}
    assert payload["texts"] == ["", "", "I sleep well", ""]


def test_the_page_begins_with_as_many_edges_as_can_be_read():
    networks = jgl.JointNetworks.from_solution(big_solution())
    strength = networks.edge_list.readable_strength(READABLE)
    assert (networks.edge_list.strength_of_pair >= strength).sum() == READABLE
    assert networks_of(ring(30, 0.4)).edge_list.readable_strength(READABLE) == 0


def test_weak_edges_do_not_shape_the_picture():
    """Two rings tied by many weak edges look like the two rings alone, and a loose variable stands near its friend."""
    one = sparse.block_diag([ring(8, 0.4), ring(8, 0.4), sparse.eye_array(1) * 2], format="lil")
    rng = np.random.default_rng(0)
    weak = one.copy()
    for i, j in rng.integers(0, 8, (20, 2)):
        weak[i, 8 + j] = weak[8 + j, i] = 0.01
    place = layout.common_layout([sparse.csc_array(weak)], strength=0.1)
    np.testing.assert_allclose(place, layout.common_layout([sparse.csc_array(one)]))
    weak[16, 3] = weak[3, 16] = 0.01
    place = layout.common_layout([sparse.csc_array(weak)], strength=0.1)
    assert np.hypot(*(place[:16] - place[16]).T).argmin() == 3


@pytest.mark.parametrize("lengths", ["random", "equal"])
def test_betweenness_is_that_of_networkx(lengths):
    """Equal lengths have many shortest paths between two variables; some variables have no path at all."""
    rng = np.random.default_rng(5)
    pairs = np.unique(np.sort(rng.integers(0, 25, (45, 2)), axis=1), axis=0)
    first, second = pairs[pairs[:, 0] != pairs[:, 1]].T
    length = rng.uniform(1.0, 5.0, len(first)) if lengths == "random" else np.full(len(first), 0.1)
    graph = networkx.Graph()
    graph.add_nodes_from(range(30))
    graph.add_weighted_edges_from(
        zip(first.tolist(), second.tolist(), np.rint(10 * length * 2**20).tolist(), strict=True)
    )
    expected = networkx.betweenness_centrality(graph, weight="weight")
    np.testing.assert_allclose(betweenness(30, first, second, length), [expected[i] for i in range(30)], atol=1e-12)


def test_bridge_centrality_sums_over_other_groups():
    rng = np.random.default_rng(0)
    Theta = np.eye(5) * 3 + np.triu(rng.uniform(-0.5, 0.5, (5, 5)), 1)
    Theta = np.triu(Theta) + np.triu(Theta, 1).T
    networks = jgl.JointNetworks([Theta], ["all"], list("abcde"))
    groups = {"a": "x", "b": "x", "c": "y", "d": "y"}  # e has none
    partial = -Theta / 3.0
    table = networks.centrality(groups=groups).set_index("variable")
    assert table.bridge_strength["a"] == pytest.approx(abs(partial[0, 2]) + abs(partial[0, 3]))
    assert table.bridge_expected_influence["c"] == pytest.approx(partial[2, 0] + partial[2, 1])
    assert np.isnan(table.bridge_strength["e"]) and "bridge_strength" not in networks.centrality()
