"""Edges and differences with intervals in the report: the numbers on the page are those of the tables."""

from __future__ import annotations

import numpy as np
import pytest

import jointglasso as jgl
from browser import start_browser
from jointglasso.report.inference_cards import bootstrap_cards, inference_cards, pair_tests
from jointglasso.report.write import make_payload


def samples_of():
    rng = np.random.default_rng(0)
    samples = {name: rng.normal(size=(90, 6)) for name in ("a", "b", "c")}
    samples["a"][:, 1] += samples["a"][:, 0]
    samples["b"][:, 1] -= samples["b"][:, 0]
    return samples


@pytest.fixture(scope="module")
def found():
    return jgl.infer(samples_of())


def test_centralities_come_with_their_bootstrap_intervals():
    drawn = jgl.bootstrap_network(samples_of(), n_resamples=20, random_state=0)
    (card,) = bootstrap_cards(drawn)
    first = card["charts"][0]["pairs"][0]
    table = drawn.centrality()
    for values, name in zip(first["values"], drawn.class_names, strict=True):
        row = table[(table["class"] == name) & (table.variable == first["name"])].iloc[0]
        np.testing.assert_allclose(values[:3], row[["strength", "low", "high"]].astype(float), atol=1e-4)
    assert first["name"] in ("x0", "x1")
    assert bootstrap_cards(None) == []


def test_cards_hold_the_tables_and_their_charts(found):
    edges, differences = inference_cards(found)
    assert len(edges["table"]["rows"]) == len(found.edges(fdr=0.1))
    assert len(differences["table"]["rows"]) == len(found.differences(fdr=0.1))
    forest, *matrices = edges["charts"]
    for chart in matrices:
        mine = found.edges(fdr=0.1)
        mine = mine[mine["class"] == chart["label"]]
        drawn = {(chart["names"][i], chart["names"][j]): (q, positive) for i, j, q, positive in chart["cells"]}
        assert set(drawn) == set(zip(mine.variable1, mine.variable2, strict=True))
        for row in mine.itertuples():
            value = pytest.approx(row.q_value, rel=0.05), row.partial_correlation > 0
            assert drawn[row.variable1, row.variable2] == value
    assert {chart["label"] for chart in matrices} == set(found.edges(fdr=0.1)["class"])
    first = found.edges().iloc[0]
    assert forest["pairs"][0]["name"] == f"{first.variable1} – {first.variable2}"
    values = forest["pairs"][0]["values"][found.class_names.index(first["class"])]
    np.testing.assert_allclose(values[:3], first[["partial_correlation", "low", "high"]].astype(float), atol=1e-4)
    assert values[3] is True
    for volcano in differences["charts"]:
        assert len(volcano["points"]) == 15
    assert any("x0 – x1" in [point[2] for point in chart["points"]] for chart in differences["charts"])
    assert inference_cards(None) == []


def test_pairs_of_the_networks_get_their_tests(found):
    networks = found.graph(0.1)
    tests = pair_tests(found, networks)
    table = found.heterogeneity().set_index(["variable1", "variable2"])
    edges = networks.edge_list
    for p, q, i, j in zip(tests["p"], tests["q"], edges.first[edges.starts], edges.second[edges.starts], strict=True):
        row = table.loc[(f"x{i}", f"x{j}")]
        assert (p, q) == (pytest.approx(row.p_value), pytest.approx(row.q_value))
    counts = np.array(tests["significant"]["counts"])
    for (one, two), part in found.differences().groupby(["class1", "class2"], sort=False):
        k, m = found.class_names.index(one), found.class_names.index(two)
        assert counts[k, m] == counts[m, k] == (part["q_value"] <= tests["significant"]["rate"]).sum()
    assert counts.any()
    assert pair_tests(None, networks) is None
    assert pair_tests(found, networks.subnetwork([0, 1])) is None


@pytest.mark.browser
def test_the_page_draws_the_charts(found, tmp_path):
    drawn = jgl.bootstrap_network(samples_of(), n_resamples=20, random_state=0)
    path = jgl.write_report(
        tmp_path / "report.html", found.solution, networks=found.graph(0.1), inference=found, bootstrap=drawn
    )
    driver = start_browser(tmp_path / "profile")
    try:
        driver.get(path.as_uri())
        assert driver.find_elements("css selector", "#inference svg rect title")
        assert driver.find_elements("css selector", "#bootstrap svg circle title")
        forest = driver.find_elements("css selector", "#inference svg circle title")
        assert len(forest) == 3 * len(found.leading(0.1, 25))
        assert driver.find_elements("css selector", "#tests svg")
        assert [entry for entry in driver.get_log("browser") if entry["level"] == "SEVERE"] == []
    finally:
        driver.quit()


def test_the_report_of_tests_is_about_significant_edges(found):
    payload = make_payload(found.solution, found.graph(0.2), inference=found, fdr=0.2)
    n_edges = sum(found.graph(0.2).n_edges)
    assert payload["verdict"]["text"] == f"{n_edges} edges significant at a false discovery rate of 0.2"
    assert payload["edges"]["certified"] is None and payload["significant"] == 0.2
    cards = {card["id"]: card for card in payload["facts"]}
    rows = {row["term"]: row["value"] for row in cards["parameters"]["rows"]}
    assert rows["Values"] == "desparsified estimates" and rows["Samples used"] == "a: 90, b: 90, c: 90"
    assert sum(int(rows[f"Edges in {name}"]) for name in "abc") == n_edges
    assert cards["proof"]["title"].endswith("of the support step")
    assert len(cards["tests"]["table"]["rows"]) == len(found.differences(fdr=0.2))


def test_fdr_needs_the_tests(found, tmp_path):
    with pytest.raises(ValueError, match="give inference"):
        jgl.write_report(tmp_path / "report.html", found.solution, fdr=0.1)


def test_strengths_of_parts_of_one_class_do_not_differ():
    rng = np.random.default_rng(4)
    X = rng.normal(size=(450, 8))
    X[:, 1:] += 0.5 * X[:, :-1]
    drawn = jgl.bootstrap_network({"third": X[:150], "rest": X[150:]}, n_resamples=60, random_state=0)
    table = drawn.centrality().set_index(["class", "variable"])
    third, rest = table.loc["third"], table.loc["rest"].loc[table.loc["third"].index]
    assert ((third.low <= rest.high) & (rest.low <= third.high)).mean() >= 0.85
    assert (drawn.centrality_differences().q_value > 0.05).all()
    # The same pairs count in both classes, also where one of them lacks the edge.
    assert drawn.common.any() and drawn.edge[drawn.common].all(axis=1).mean() < 1.0
