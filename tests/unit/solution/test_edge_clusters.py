"""Edges that are the same in several classes: how they are found, proved, listed and compared."""

from dataclasses import replace

import numpy as np
import pytest

from jointglasso import JointNetworks, load, plots, solve
from jointglasso.anndata import fit, networks as stored
from jointglasso.networks.comparisons import summary_of_edge_clusters
from jointglasso.report.write import make_payload
from jointglasso.solution import EdgeClusters

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
    return EdgeClusters.of(PRECISION, CHAIN)


def test_values_are_compared_between_neighbours(same):
    assert list(zip(same.rows, same.columns, strict=True)) == [(0, 1), (0, 2), (1, 3)]
    assert same.equal.tolist() == [[True, True], [True, False], [False, False]]
    assert not same.proved.any()


def test_clusters_are_joined_through_neighbours_only(same):
    assert same.clusters.tolist() == [[0, 0, 0], [0, 0, 2], [0, 1, 2]]
    complete = EdgeClusters.of(PRECISION, np.array([[0, 1], [0, 2], [1, 2]]))
    assert complete.clusters.tolist() == [[0, 0, 0], [0, 0, 2], [0, 1, 0]]


def test_a_cluster_is_proved_when_proved_ties_hold_it_together(same):
    proved = np.array([[True, False], [True, True], [True, True]])
    some = same.with_proofs(np.array([0, 0, 2]), np.array([1, 2, 3]), proved)  # the last pair is no edge
    assert some.proved.tolist() == [[True, False], [True, True], [False, False]]
    assert some.proved_clusters.tolist() == [[False] * 3, [True] * 3, [True] * 3]
    # Around a triangle two proved equalities suffice.
    triangle = EdgeClusters.of(PRECISION, np.array([[0, 1], [0, 2], [1, 2]]))
    around = triangle.with_proofs(np.array([0]), np.array([1]), np.array([[True, False, True]]))
    assert around.proved_clusters[0].tolist() == [True] * 3
    assert some.count() == {"same": 3, "same_proved": 2, "different": 3, "different_proved": 1}


def test_the_edge_table_tells_where_an_edge_is_the_same(same):
    proved = same.with_proofs(np.array([0]), np.array([1]), np.array([[True, True]]))
    networks = JointNetworks(PRECISION, NAMES, list("abcd"), edge_clusters=proved)
    table = networks.edges()
    assert table["same_in"].tolist() == ["t0, t1, t2"] * 3 + ["t0, t1"] * 2 + ["t0", "t1", "t2"]
    assert table["same_certified"].tolist() == [True] * 3 + [False] * 2 + [True] * 3
    compared = networks.compare()
    assert compared["same"].tolist() == [2, 1, 1]
    assert compared["same_certified"].tolist() == [1, 1, 1]
    assert "same_in" not in JointNetworks(PRECISION, NAMES, list("abcd")).edges()


def test_subnetworks_keep_what_is_the_same(same):
    networks = JointNetworks(PRECISION, NAMES, list("abcd"), edge_clusters=same).subnetwork(["c", "a"])
    assert networks.edges()["same_in"].tolist() == ["t0, t1", "t0, t1"]


def test_no_edges():
    networks = JointNetworks([np.eye(2)] * 3, NAMES, list("ab"), edge_clusters=EdgeClusters.of([np.eye(2)] * 3, CHAIN))
    assert len(networks.edges()) == 0 and networks.compare()["same"].tolist() == [0, 0, 0]


def solution_with(same):
    solution = solve([np.array(Theta) for Theta in np.linalg.inv(PRECISION)], 1e-3, 0.0, tol=1e-3)
    return replace(solution, edge_clusters=same)


def test_files_keep_it(same, tmp_path):
    proved = same.with_proofs(np.array([0]), np.array([1]), np.array([[True, False]]))
    found = load(solution_with(proved).save(tmp_path / "solution.jgl")).edge_clusters
    for name in ("rows", "columns", "neighbours", "equal", "proved", "n_classes"):
        assert np.array_equal(getattr(found, name), getattr(proved, name)), name
    assert load(solution_with(None).save(tmp_path / "without.jgl")).edge_clusters is None


@pytest.mark.parametrize("wrong", [{"neighbours": np.array([[0, 1], [0, 3]])}, {"rows": np.array([3, 0, 1])}])
def test_a_file_that_does_not_fit_is_refused(same, tmp_path, wrong):
    path = solution_with(replace(same, **wrong)).save(tmp_path / "x.jgl")
    with pytest.raises(ValueError, match="the comparison of the classes does not fit"):
        load(path)


def test_tables_in_files_have_the_columns(same, tmp_path):
    networks = JointNetworks(PRECISION, NAMES, list("abcd"), edge_clusters=same)
    text = networks.export(tmp_path / "edges.csv").read_text()
    assert "same_in,same_certified" in text and '"t0, t1, t2"' in text
    assert "same_in" in networks.export(tmp_path / "edges.graphml").read_text()
    assert "same_in" in networks.export(tmp_path / "edges.graphml").read_text()


# Shown: patterns, comparison, pictures, report, AnnData


@pytest.fixture
def shown(same):
    """Pair (0, 1) stays, proved; (0, 2) changes, proved; (1, 3) changes, not proved."""
    proved = same.with_proofs(np.array([0, 0]), np.array([1, 2]), np.array([[True, True], [True, True]]))
    return JointNetworks(PRECISION, NAMES, list("abcd"), edge_clusters=proved)


def test_patterns_tell_what_stays_and_what_changes(shown):
    table = shown.patterns()
    assert table["pattern"].tolist() == ["all classes", "t0, t1 | no edge: t2", "t0 | t1 | t2"]
    assert table["changes"].tolist() == [False, True, True]
    assert table["certified"].tolist() == [True, True, False]
    assert summary_of_edge_clusters(shown).startswith(
        "1 of 3 joined pairs have one value in all classes (1 certified for the optimum), "
        "2 change (1 certified for the optimum); most often:"
    )


def test_a_pair_stays_for_certain_only_if_all_of_it_is_proved(same):
    half = same.with_proofs(np.array([0]), np.array([1]), np.array([[True, False]]))
    assert half.changes_proved.tolist() == [False, False, False]


def test_the_comparison_counts_what_differs_and_what_is_proved(shown):
    table = shown.compare()
    assert table["same"].tolist() == [2, 1, 1]
    assert table["different"].tolist() == [1, 2, 2]
    # That t0 and t2 differ at (0, 2) follows from t0 = t1 and t1 != t2, both proved.
    assert table["different_certified"].tolist() == [0, 1, 1]


def test_the_strongest_pairs_keep_what_is_the_same(shown):
    assert shown.strongest(1).patterns()["pattern"].tolist() == ["all classes"]


def test_many_classes_in_a_row_are_named_by_the_first_and_the_last():
    values = [0.5] * 4 + [0.2] * 5 + [0.0]
    precision = [np.array([[2.0, v], [v, 2.0]]) for v in values]
    chain = np.column_stack([np.arange(9), np.arange(1, 10)])
    networks = JointNetworks(
        precision, [f"t{k}" for k in range(10)], ["a", "b"], edge_clusters=EdgeClusters.of(precision, chain)
    )
    assert networks.patterns()["pattern"].tolist() == ["t0 … t3 | t4 … t8 | no edge: t9"]


def test_without_a_fused_penalty_there_are_no_patterns():
    with pytest.raises(ValueError, match="penalty='fused'"):
        JointNetworks(PRECISION, NAMES, list("abcd")).patterns()


def test_networks_are_coloured_by_what_changes(shown):
    figure = plots.plot_networks(shown, colour="same")
    words = {text.get_text() for legend in figure.legends for text in legend.get_texts()}
    assert {"one value in all classes", "value changes", "value changes, not certified"} <= words


def test_the_report_tells_clusters_and_patterns(shown):
    named = {"class_names": NAMES, "variable_names": tuple("abcd")}
    payload = make_payload(replace(solution_with(shown.edge_clusters), **named), shown)
    assert payload["same"]["changes"] == [0, 1, 1] and payload["same"]["changes_proved"] == [1, 1, 0]
    assert payload["same"]["cluster"] == [0, 0, 0, 0, 0, 0, 1, 2]
    card = next(card for card in payload["facts"] if card["id"] == "edge_clusters")
    assert ["all classes", "1", "1"] in card["table"]["rows"]
    plain = JointNetworks(PRECISION, NAMES, list("abcd"))
    assert make_payload(replace(solution_with(None), **named), plain)["same"] is None


def test_anndata_keeps_what_is_the_same_when_genes_go(tmp_path):
    anndata = pytest.importorskip("anndata")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(240, 5)) @ (np.eye(5) + np.eye(5, k=1))
    cells = anndata.AnnData(X, obs={"condition": np.repeat(["c", "a", "b"], 80)})
    cells.var_names = list("vwxyz")
    fit(cells, lambda1=0.2, lambda2=0.1, penalty="chain", class_graph=["a", "b", "c"], tol=1e-9)
    cells.write_h5ad(tmp_path / "cells.h5ad")
    back = anndata.read_h5ad(tmp_path / "cells.h5ad")
    table, again = stored(cells).patterns(), stored(back).patterns()
    assert len(table) and table.equals(again)
    fewer = stored(back[:, ["z", "y", "x", "w"]].copy()).patterns()
    kept = table[(table["variable1"] != "v") & (table["variable2"] != "v")]

    def told(patterns):
        columns = ["variable1", "variable2", "pattern", "certified"]
        return {frozenset((a, b)): (words, proved) for a, b, words, proved in patterns[columns].values}

    assert told(kept) == told(fewer)
    fit(cells, lambda1=0.2, lambda2=0.1)  # a group penalty leaves nothing of it behind
    assert stored(cells).edge_clusters is None and "jgl_comparison" not in cells.varp
