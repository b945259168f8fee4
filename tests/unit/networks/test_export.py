"""Networks leave the package with their names, numbers and isolated variables intact, or not at all."""

import csv
import json
import re
import sys
from xml.etree import ElementTree

import networkx
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings, strategies as st
from scipy import sparse

import jointglasso as jgl
from jointglasso._files import original
from jointglasso.networks.export import FORMATS
from reports import made_solution, ring

#: Names that break careless writers; two are equal, and the variable "" is isolated.
NAMES = ["a/b", "Ünï cödé 基因", 'say "hi", <b>&amp;</b>', "line\nbreak\ttab", "a/b", "", "=1+1; DROP", "'quote'"]
CLASSES = ["T/helper 1", 'naïve "B", <x>']


@pytest.fixture(scope="module")
def networks():
    rng = np.random.default_rng(0)
    matrices = []
    for _ in CLASSES:
        upper = np.triu(rng.normal(size=(8, 8)) * (rng.random((8, 8)) < 0.5), 1)
        upper[:, 5] = upper[5] = 0.0
        matrices.append(upper + upper.T + 9 * np.eye(8))
    stability = [np.abs(Theta) / 10 for Theta in matrices]
    return jgl.JointNetworks(matrices, CLASSES, NAMES, stability=stability)


def rows(networks, class_name=None):
    """What every format must say of the edges, as a set."""
    edges = networks.edge_list
    return {
        (int(i), int(j), networks.class_names[k], float(value), float(partial))
        for i, j, k, value, partial in zip(
            edges.first, edges.second, edges.class_index, edges.precision, edges.partial_correlation, strict=True
        )
        if class_name in (None, networks.class_names[k])
    }


def row(first, second, values):
    return (int(first), int(second), values["class"], float(values["precision"]), float(values["partial_correlation"]))


def read_graphml(path):
    graph = networkx.read_graphml(path, force_multigraph=True)
    # networkx makes None of an empty text
    names = [graph.nodes[str(i)]["name"] or "" for i in range(len(graph))]
    return names, {row(*sorted(map(int, ends)), values) for *ends, values in graph.edges(data=True)}


def read_csv(path):
    with path.open(encoding="utf-8", newline="") as stream:
        table = [{name: original(cell) for name, cell in line.items()} for line in csv.DictReader(stream)]
    return named(table), {row(line["position1"], line["position2"], line) for line in table}


def read_parquet(path):
    table = pd.read_parquet(path).to_dict("records")
    return named(table), {row(line["position1"], line["position2"], line) for line in table}


def named(table):
    """Names by position, None for the variables that an edge table cannot mention."""
    names = [None] * len(NAMES)
    for line in table:
        names[int(line["position1"])], names[int(line["position2"])] = line["variable1"], line["variable2"]
    return names


READERS = {
    "graphml": read_graphml,
    "csv": read_csv,
    "parquet": read_parquet,
}
LISTS_NODES = {"graphml"}


def test_every_format_is_tested():
    assert set(READERS) == set(FORMATS)


@pytest.mark.parametrize("class_name", [None, CLASSES[0]])
@pytest.mark.parametrize("format", READERS)
def test_names_and_numbers_survive(networks, tmp_path, format, class_name):
    path = networks.export(tmp_path / f"out.{format}", class_name=class_name)
    names, edges = READERS[format](path)
    assert edges == rows(networks, class_name)
    mentioned = [i for i, name in enumerate(names) if name is not None]
    assert format not in LISTS_NODES or len(mentioned) == len(NAMES), "isolated variables are kept"
    assert [names[i] for i in mentioned] == [NAMES[i] for i in mentioned]


@settings(max_examples=25)
@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=8), min_size=3, max_size=3))
def test_any_name_survives_csv(tmp_path_factory, names):
    folder = tmp_path_factory.mktemp("names")
    Theta = np.array([[2, 0.5, 0.3], [0.5, 2, 0.0], [0.3, 0, 2]])
    networks = jgl.JointNetworks([Theta], ["x"], names)
    if not any("\0" in name or "\r" in name for name in names):  # Python's reader of CSV takes neither as it is
        found = read_csv(networks.export(folder / "n.csv"))[0]
        assert found[:3] == names


def test_blanks_and_line_breaks_survive_graphml(tmp_path):
    networks = jgl.JointNetworks([np.eye(2)], ["x"], ["a\nb", " padded "])
    assert read_graphml(networks.export(tmp_path / "n.graphml"))[0] == ["a\nb", " padded "]


@pytest.mark.parametrize("name", ["bell\x07", "return\r"])
def test_a_character_unknown_to_xml_is_an_error_that_names_the_variable(tmp_path, name):
    networks = jgl.JointNetworks([np.eye(2)], ["x"], ["fine", name])
    with pytest.raises(ValueError, match=re.escape(f"Variable {name!r} holds a character that GraphML cannot")):
        networks.export(tmp_path / "n.graphml")
    assert list(tmp_path.iterdir()) == [], "nothing is left behind"


# Each format by its own rules


def test_graphml_declares_its_keys(networks, tmp_path):
    space = "{http://graphml.graphdrawing.org/xmlns}"
    root = ElementTree.parse(networks.export(tmp_path / "n.graphml")).getroot()
    declared = {key.get("id") for key in root.iter(f"{space}key")}
    used = {data.get("key") for data in root.iter(f"{space}data")}
    assert used <= declared
    assert root.find(f"{space}graph").get("edgedefault") == "undirected"


def test_unknown_stability_is_left_out_and_known_one_kept(networks, tmp_path):
    unknown = jgl.JointNetworks(networks.precision, CLASSES, NAMES)
    for known, stored in ((networks, True), (unknown, False)):
        graph = networkx.read_graphml(known.export(tmp_path / "n.graphml"), force_multigraph=True)
        assert all(("stability" in values) is stored for *_, values in graph.edges(data=True))
        assert pd.read_csv(known.export(tmp_path / "n.csv"))["stability"].notna().all() == stored
        assert pd.read_parquet(known.export(tmp_path / "n.parquet"))["stability"].notna().all() == stored


def test_parquet_remembers_isolated_variables(networks, tmp_path):
    from pyarrow import parquet

    schema = parquet.read_schema(networks.export(tmp_path / "n.pq"))
    assert json.loads(schema.metadata[b"jointglasso"]) == {"variable_names": NAMES, "class_names": CLASSES}


@pytest.mark.parametrize("format", FORMATS)
def test_networks_without_edges_can_be_written(tmp_path, format):
    networks = jgl.JointNetworks([sparse.eye_array(3)], ["x"], list("abc"))
    path = networks.export(tmp_path / "n", format=format)
    assert READERS[format](path)[1] == set()


# Choosing the format, and failing


def test_the_ending_tells_the_format_in_any_case(networks, tmp_path):
    assert read_graphml(networks.export(str(tmp_path / "n.GraphML")))[0] == NAMES
    assert read_graphml(networks.export(tmp_path / "n.txt", format="graphml"))[0] == NAMES


@pytest.mark.parametrize(
    ("name", "format", "message"),
    [
        ("n.xls", None, r"'n.xls' has the ending '.xls', which tells no format: .*'parquet'"),
        ("n", None, "has no ending"),
        ("n.graphml", "gml", "format 'gml' is not known; choose one of 'graphml'"),
    ],
)
def test_unknown_formats_are_refused_with_the_known_ones(networks, tmp_path, name, format, message):
    with pytest.raises(ValueError, match=message):
        networks.export(tmp_path / name, format)


def test_unknown_class_and_folder_are_named(networks, tmp_path):
    with pytest.raises(ValueError, match="no class 'q'"):
        networks.export(tmp_path / "n.graphml", class_name="q")
    with pytest.raises(OSError, match="no folder"):
        networks.export(tmp_path / "missing" / "n.graphml")


def test_a_failed_export_leaves_the_old_file(networks, tmp_path, monkeypatch):
    path = tmp_path / "n.parquet"
    path.write_bytes(b"old")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r"jointglasso\[tables\]"):
        networks.export(path)
    assert path.read_bytes() == b"old" and list(tmp_path.iterdir()) == [path]


# Graphs of other packages


def test_networkx_graphs_by_class(networks):
    graphs = networks.to_networkx()
    assert list(graphs) == CLASSES
    for name, graph in graphs.items():
        assert [graph.nodes[i]["name"] for i in range(len(NAMES))] == NAMES
        assert {row(*ends, values) for *ends, values in graph.edges(data=True)} == rows(networks, name)
        assert networkx.utils.graphs_equal(graph, networks.to_networkx(name))
        assert graph.number_of_edges() == networks.n_edges[networks.class_index(name)]
        assert [graph.nodes[i]["degree"] for i in graph] == [degree for _, degree in graph.degree()]
    assert {"precision", "partial_correlation", "kind", "stability", "certified"} <= set(
        next(iter(graphs[CLASSES[0]].edges(data=True)))[2]
    )


def test_igraph_graphs_by_class(networks):
    graphs = networks.to_igraph()
    assert list(graphs) == CLASSES and graphs[CLASSES[0]].vs["name"] == NAMES
    one = networks.to_igraph(CLASSES[1])
    assert {row(*edge.tuple, edge.attributes()) for edge in one.es} == rows(networks, CLASSES[1])


@pytest.mark.parametrize(
    ("package", "call"),
    [
        ("networkx", lambda networks: networks.to_networkx()),
        ("networkx", lambda networks: networks.export("never_written.graphml")),
        ("igraph", lambda networks: networks.to_igraph()),
    ],
)
def test_a_missing_package_is_named_with_its_extra(networks, monkeypatch, package, call):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ImportError, match=rf"package {package}: install it with pip install 'jointglasso\["):
        call(networks)


def test_graphml_has_distinct_coordinates(networks, tmp_path):
    nodes = networkx.read_graphml(networks.export(tmp_path / "out.graphml"), force_multigraph=True).nodes
    assert len({(node["x"], node["y"]) for node in nodes.values()}) == len(NAMES)


def test_networkx_nodes_are_names_where_they_can_be(networks):
    Theta = np.array([[2, -0.8, 0], [-0.8, 2, 0], [0, 0, 2.0]])
    graph = jgl.JointNetworks([Theta], ["x"], ["a", "b", "c"]).to_networkx("x")
    assert list(graph.nodes) == ["a", "b", "c"] and graph.nodes["b"]["position"] == 1
    assert graph["a"]["b"]["weight"] == pytest.approx(0.4)
    assert list(networks.to_networkx(CLASSES[0]).nodes) == list(range(8)), "names that come twice are no nodes"


def test_partial_correlations_are_tables_with_names():
    Theta = np.array([[2, -0.8, 0.4], [-0.8, 2, 0], [0.4, 0, 2.0]])
    networks = jgl.JointNetworks([Theta, np.eye(3)], ["x", "y"], ["a", "b", "c"])
    table = networks.partial_correlations("x")
    np.testing.assert_allclose(table.loc["a"], [1.0, 0.4, -0.2])
    assert set(networks.partial_correlations()) == {"x", "y"}
    huge = jgl.JointNetworks([sparse.eye_array(6000)], ["x"], [str(i) for i in range(6000)])
    with pytest.raises(ValueError, match="too much memory"):
        huge.partial_correlations()


def test_results_print_as_short_tables_and_show_themselves_in_notebooks():
    solution = made_solution([ring(7, -0.4), ring(7, 0.3, skip=(2,))], ["ill", "<b>well</b>"], "abcdefg")
    networks = jgl.JointNetworks.from_solution(solution)
    assert "ill              7" in str(networks) and "strongest edge" in str(networks)
    assert "edges        ill 7, <b>well</b> 6" in str(solution)
    for result in (solution, networks):
        shown = result._repr_html_()
        assert shown.count("<iframe") == 1 and "&lt;b&gt;well&lt;/b&gt;" in shown and "<b>well" not in shown
        assert "https:" not in shown.replace("http://www.w3.org/2000/svg", "")
    assert "No edges" in jgl.JointNetworks([np.eye(2)], ["x"], ["a", "b"])._repr_html_()
