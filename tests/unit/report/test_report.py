"""The report as a file: complete, closed to the outside, and with the numbers of the solution."""

import base64
import hashlib
import json
import re
import zipfile
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy import sparse

import jointglasso as jgl
from jointglasso.networks import JointNetworks
from jointglasso.report.cards import substructure_card
from jointglasso.report.write import embed_json, fill_page, make_payload
from reports import (
    HOSTILE_NAMES,
    edgeless_solution,
    hostile_solution,
    made_solution,
    made_stability,
    protein_solution,
    ring,
)

PAGE_FILES = sorted((Path(jgl.__file__).parent / "report" / "page").iterdir())


class Elements(HTMLParser):
    """Tags with their attributes, and the text of scripts, styles and the title."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.inside, self.texts = [], None, {}
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        self.inside = (tag, dict(attributes).get("id")) if tag in ("script", "style", "title") else None

    def handle_endtag(self, tag):
        self.inside = None

    def handle_data(self, data):
        if self.inside:
            self.texts[self.inside] = self.texts.get(self.inside, "") + data

    @property
    def data(self):
        return json.loads(self.texts["script", "data"])


def read_report(path):
    return Elements(path.read_text("utf-8"))


@pytest.fixture(scope="module")
def proteins(tmp_path_factory):
    solution = protein_solution()
    path = jgl.write_report(
        tmp_path_factory.mktemp("report") / "proteins.html",
        solution,
        title="Proteins & <cancers>",
        parameters={"lambda1": 0.25, "lambda2": 0.05, "penalize_diagonal": True},
        notes=["First remark.", "Second remark."],
    )
    return SimpleNamespace(solution=solution, path=path, page=read_report(path))


def facts_of(page, card):
    return {row["term"]: row for row in next(fact for fact in page.data["facts"] if fact["id"] == card)["rows"]}


# The file


def test_returns_the_path_and_replaces_the_file_in_one_step(tmp_path):
    target = tmp_path / "report.html"
    target.write_text("old")
    assert jgl.write_report(str(target), edgeless_solution()) == target
    assert target.read_text("utf-8").startswith("<!doctype html>")
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


def test_a_failure_leaves_the_older_file_alone(tmp_path):
    target = tmp_path / "report.html"
    target.write_text("old")
    with pytest.raises(TypeError, match="selection must be"):
        jgl.write_report(target, edgeless_solution(), selection=3)
    assert target.read_text() == "old"
    with pytest.raises(OSError, match="there is no folder"):
        jgl.write_report(tmp_path / "missing" / "report.html", edgeless_solution())


def test_nothing_in_the_page_points_outside(proteins):
    for _, attributes in proteins.page.tags:
        assert not {"src", "srcset", "action", "formaction", "poster", "ping", "background"} & set(attributes)
        assert attributes.get("href", "#").startswith("#")
        assert not [name for name in attributes if name.startswith("on") or name == "style"]
    assert {tag for tag, _ in proteins.page.tags}.isdisjoint(
        {"link", "iframe", "img", "object", "embed", "base", "form"}
    )
    assert not re.search(r"url\(|@import|@font-face", proteins.page.texts["style", None])


def test_the_script_calls_nothing_that_loads_or_parses_markup(proteins):
    # The name of SVG looks like an address, but nobody goes there.
    script = proteins.page.texts["script", None].replace("http://www.w3.org/2000/svg", "")
    forbidden = (
        r"https?:|fetch\(|XMLHttpRequest|WebSocket|EventSource|sendBeacon|import\b|eval\(|new Function|"
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|localStorage"
    )
    assert re.findall(forbidden, script) == []


def test_the_policy_allows_this_script_and_this_style_only(proteins):
    policies = [a["content"] for _, a in proteins.page.tags if a.get("http-equiv") == "Content-Security-Policy"]
    rules = dict(rule.split(" ", 1) for rule in policies[0].split("; "))
    digest = {
        name: base64.b64encode(hashlib.sha256(proteins.page.texts[name, None].encode()).digest()).decode()
        for name in ("script", "style")
    }
    assert rules["default-src"] == "'none'"
    assert rules["script-src"] == f"'sha256-{digest['script']}'"
    assert rules["style-src"] == f"'sha256-{digest['style']}'"
    assert "connect-src" not in rules and "img-src" not in rules


def test_every_control_is_labelled(proteins):
    tags = proteins.page.tags
    labelled = {attributes.get("for") for tag, attributes in tags if tag == "label"}
    inside = re.findall(r"<label[^>]*>(.*?)</label>", proteins.path.read_text("utf-8"), flags=re.S)
    for tag, attributes in tags:
        if tag in ("input", "select"):
            name = attributes.get("id") or attributes.get("value")
            assert name in labelled or any(f'"{name}"' in text for text in inside), name


def test_ids_are_unique_and_those_the_script_asks_for_exist(proteins):
    ids = [attributes["id"] for _, attributes in proteins.page.tags if "id" in attributes]
    asked = set(re.findall(r'byId\("([\w-]+)"\)', proteins.page.texts["script", None]))
    assert len(ids) == len(set(ids))
    assert asked and asked <= set(ids)


def test_page_files_are_in_the_wheel(tmp_path):
    build = pytest.importorskip("hatchling.build")
    root = Path(__file__).resolve().parents[3]
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        wheel = build.build_wheel(str(tmp_path))
    names = zipfile.ZipFile(tmp_path / wheel).namelist()
    assert {f"jointglasso/report/page/{path.name}" for path in PAGE_FILES} <= set(names)


@pytest.mark.parametrize("path", PAGE_FILES, ids=lambda path: path.name)
def test_page_files_are_small(path):
    assert len(path.read_text("utf-8").splitlines()) < 500


# The numbers


def test_edges_in_the_page_are_those_of_the_solution(proteins):
    data, solution = proteins.page.data, proteins.solution
    p = len(solution.variable_names)
    found = [np.diag(row) for row in np.array(data["diagonal"])]
    at = 0
    for first, second, count in zip(*(data["pairs"][name] for name in ("first", "second", "count")), strict=True):
        for edge in range(at, at + count):
            k = data["edges"]["class"][edge]
            found[k][first, second] = found[k][second, first] = data["edges"]["precision"][edge]
        at += count
    assert at == sum(solution.n_edges) > 100
    for mine, Theta in zip(found, solution.precision, strict=True):
        assert mine.shape == (p, p)
        np.testing.assert_array_equal(mine, Theta.toarray())
    assert (data["classes"], data["variables"]) == (list(solution.class_names), list(solution.variable_names))


def test_kinds_are_those_of_the_networks(proteins):
    pairs = proteins.page.data["pairs"]
    table = JointNetworks.from_solution(proteins.solution).edges().groupby(["variable1", "variable2"], sort=False)
    kinds = ("shared", "partly shared", "specific")
    assert [kinds[code] for code in pairs["kind"]] == table["kind"].first().tolist()


def test_certificate_is_told_in_numbers_and_words(proteins):
    certificate, facts = proteins.solution.certificate, facts_of(proteins.page, "proof")
    assert facts["Converged"]["value"] == "yes"
    assert f"{certificate.gap:.2g}" in facts["Duality gap"]["value"]
    assert facts["Objective"]["value"] == f"{certificate.objective:.10g}"
    assert facts["Edges certified"]["value"] == f"{certificate.edges_present:,} of {sum(proteins.solution.n_edges):,}"
    assert facts["Undecided"]["value"] == f"{certificate.edges_undetermined:,}"
    assert proteins.page.data["verdict"]["good"]


def test_a_solve_that_did_not_converge_says_so_and_what_to_do(tmp_path):
    solution = made_solution([ring(5, 0.3)], ("only",), "abcde", converged=False)
    page = read_report(jgl.write_report(tmp_path / "r.html", solution))
    assert facts_of(page, "proof")["Converged"] == {
        "term": "Converged",
        "value": "no",
        "note": "Stopped after 3 iterations. Raise max_iter.",
    }
    assert page.data["verdict"] == {"good": False, "text": "Not converged: see the certificate"}
    assert page.data["title"] == "Network of only"


def test_parameters_notes_title_and_versions_are_listed(proteins):
    facts, data = facts_of(proteins.page, "parameters"), proteins.page.data
    assert [facts[name]["value"] for name in ("lambda1", "lambda2", "penalize_diagonal")] == ["0.25", "0.05", "yes"]
    assert next(f for f in data["facts"] if f["id"] == "notes")["paragraphs"] == ["First remark.", "Second remark."]
    assert data["title"] == proteins.page.texts["title", None] == "Proteins & <cancers>"
    assert f"jointglasso {jgl.__version__}" in data["footer"] and f"numpy {np.__version__}" in data["footer"]


# Options


def test_stability_comes_from_the_argument_a_result_or_the_networks():
    solution = protein_solution()
    plain = JointNetworks.from_solution(solution)
    matrices = made_stability(plain)
    told = JointNetworks.from_solution(solution, stability=matrices)
    expected = told.edge_stability.tolist()
    assert make_payload(solution, told)["edges"]["stability"] == expected
    assert make_payload(solution, plain, stability=matrices)["edges"]["stability"] == expected
    names = plain.class_names, plain.variable_names
    result = jgl.EdgeStability(matrices, *names, 10, np.zeros(6), 0, 0.5, True)
    assert make_payload(solution, plain, stability=result)["edges"]["stability"] == expected
    assert make_payload(solution, plain)["edges"]["stability"] is None


@pytest.mark.parametrize(
    ("change", "message"),
    [(lambda m: m[:-1], "stability must hold 6 matrices"), (lambda m: [2.0 * x for x in m], "between 0 and 1")],
)
def test_bad_stability_is_refused(change, message):
    networks = JointNetworks.from_solution(protein_solution())
    with pytest.raises(ValueError, match=message):
        make_payload(protein_solution(), networks, stability=change(made_stability(networks)))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"solution": "nothing"}, "solution must be what solve returned, not str"),
        ({"networks": [1]}, "networks must be a JointNetworks, not list"),
        ({"parameters": 0.3}, "parameters must be a mapping of names to values, not float"),
    ],
)
def test_wrong_types_are_named(tmp_path, arguments, message):
    with pytest.raises(TypeError, match=message):
        jgl.write_report(tmp_path / "r.html", **{"solution": edgeless_solution(), **arguments})


def test_networks_of_other_classes_are_refused(tmp_path):
    other = JointNetworks([ring(4, 0.2)], ["other"], list("abcd"))
    with pytest.raises(ValueError, match=r"networks has the classes \('other',\)"):
        jgl.write_report(tmp_path / "r.html", edgeless_solution(), networks=other)


def test_part_of_the_networks_can_be_shown(tmp_path):
    networks = JointNetworks.from_solution(protein_solution())
    part = networks.subnetwork(networks.variable_names[:12])
    page = read_report(jgl.write_report(tmp_path / "r.html", protein_solution(), networks=part))
    assert page.data["variables"] == list(part.variable_names)
    assert len(page.data["edges"]["class"]) == sum(part.n_edges)


def test_proved_edges_are_marked_where_known():
    solution = protein_solution()
    proved = [sparse.csc_array(abs(Theta) > 0.05) for Theta in solution.precision]
    networks = JointNetworks(solution.precision, solution.class_names, solution.variable_names, certified=proved)
    marks = np.array(make_payload(solution, networks)["edges"]["certified"], dtype=bool)
    np.testing.assert_array_equal(marks, np.abs(networks.edge_list.precision) > 0.05)
    assert 0 < marks.sum() < len(marks)


def test_proved_edges_come_from_the_solution():
    solution = protein_solution()
    expected = JointNetworks.from_solution(solution).edge_certified
    assert expected.any()
    bare = JointNetworks(solution.precision, solution.class_names, solution.variable_names)
    for networks in (JointNetworks.from_solution(solution), bare):
        assert make_payload(solution, networks)["edges"]["certified"] == expected.astype(int).tolist()
    part = bare.subnetwork(bare.variable_names[:12])
    assert make_payload(solution, part)["edges"]["certified"] is None, "other variables: the proof cannot be told"
    nothing_proved = hostile_solution()
    marks = make_payload(nothing_proved, JointNetworks.from_solution(nothing_proved))["edges"]["certified"]
    assert set(marks) == {0}


def test_without_parameters_those_of_the_solution_are_listed(tmp_path):
    page = read_report(jgl.write_report(tmp_path / "r.html", protein_solution()))
    facts = facts_of(page, "parameters")
    values = {name: row["value"] for name, row in facts.items()}
    sizes = protein_solution().parameters["sample_sizes"]
    assert (values["lambda1"], values["lambda2"], values["penalize_diagonal"]) == ("0.25", "0.05", "yes")
    assert values["weights"] == "1 for every class"
    assert float(values["tol"]) == protein_solution().parameters["tol"]
    assert values["sample_sizes"].startswith(f"BLCA: {sizes[0]}, KIRC: {sizes[1]}, ")
    assert "pair_weights" not in values, "none were used"
    assert facts["lambda1"]["note"] and facts["tol"]["note"]


def test_parameters_that_are_not_known_are_left_out_and_weights_listed_by_class():
    parameters = {"lambda1": 0.3, "weights": [0.25, 0.75], "sample_sizes": None, "pair_weights": 4}
    solution = made_solution([ring(5, 0.3)] * 2, "AB", "abcde", parameters=parameters)
    rows = make_payload(solution, JointNetworks.from_solution(solution))["facts"][1]["rows"]
    values = {row["term"]: row["value"] for row in rows}
    assert values["weights"] == "A: 0.25, B: 0.75"
    assert values["pair_weights"] == "4"
    assert "sample_sizes" not in values


def test_given_parameters_replace_those_of_the_solution():
    solution = made_solution([ring(5, 0.3)], "A", "abcde", parameters={"lambda1": 0.3, "tol": 1e-6})
    networks = JointNetworks.from_solution(solution)
    rows = make_payload(solution, networks, parameters={"alpha": 2})["facts"][1]["rows"]
    assert rows[0] == {"term": "alpha", "value": "2", "note": ""}
    assert {"lambda1", "tol"}.isdisjoint(row["term"] for row in rows)


def test_selection_becomes_a_table():
    X = np.random.default_rng(0).normal(size=(40, 3))
    chosen = jgl.select(X, np.repeat(["ill", "well"], 20), grid=[(0.5, 0.1), (0.3, 0.1)])
    payload = make_payload(chosen.solution, JointNetworks.from_solution(chosen.solution), selection=chosen)
    card = next(fact for fact in payload["facts"] if fact["id"] == "selection")
    assert card["table"]["columns"] == list(chosen.table.drop(columns=["column", "strength", "similarity"]))
    row = dict(zip(card["table"]["columns"], card["table"]["rows"][1], strict=True))
    assert (row["lambda1"], row["converged"], card["table"]["best"]) == ("0.3", "yes", chosen.best)
    assert card["paragraphs"] == chosen.explain().splitlines()
    parameters = next(fact for fact in payload["facts"] if fact["id"] == "parameters")["rows"]
    assert (parameters[0]["term"], parameters[0]["value"]) == ("lambda1", f"{chosen.lambda1:.6g}")


# Hostile input


def test_hostile_names_stay_data(tmp_path):
    evil = HOSTILE_NAMES[0]
    path = jgl.write_report(tmp_path / "r.html", hostile_solution(), title=evil, notes=evil, parameters={evil: evil})
    page = read_report(path)
    assert page.data["variables"] == list(HOSTILE_NAMES)
    assert page.data["title"] == page.texts["title", None] == evil
    plain = read_report(jgl.write_report(tmp_path / "plain.html", edgeless_solution()))
    assert [tag for tag, _ in page.tags] == [tag for tag, _ in plain.tags]


@settings(max_examples=200)
@given(st.lists(st.text(st.characters(exclude_categories=())), max_size=6))
def test_embedded_json_is_read_back_and_cannot_leave_its_element(words):
    text = embed_json(words)
    assert json.loads(text) == words
    assert not set("<>&\u2028\u2029") & set(text)
    text.encode("utf-8")


def test_filling_the_page_does_not_fill_twice():
    payload = make_payload(hostile_solution(), JointNetworks.from_solution(hostile_solution()), title="{{data}}")
    page = fill_page(payload)
    assert page.count("<title>{{data}}</title>") == 1
    assert page.count('"use strict";') == 1


def test_infinite_gap_is_told_in_words(tmp_path):
    solution = made_solution([ring(4, 0.2)], "A", "abcd", converged=False)
    object.__setattr__(solution.certificate, "gap", float("inf"))
    page = read_report(jgl.write_report(tmp_path / "r.html", solution))
    assert "inf" in facts_of(page, "proof")["Duality gap"]["value"]


def test_the_common_penalty_has_a_section_with_both_kinds_of_networks(tmp_path):
    S = {
        "a": [[1.0, 0.6, 0.1], [0.6, 1.0, 0.1], [0.1, 0.1, 1.0]],
        "b": [[1.0, 0.6, 0.6], [0.6, 1.0, 0.1], [0.6, 0.1, 1.0]],
    }
    solution = jgl.solve(S, 0.1, 0.05, penalty="common")
    parts = jgl.JointNetworks.shared_and_specific(solution)
    card = substructure_card(solution)
    assert {row[0] for row in card["table"]["rows"]} == {"shared", "b"} and parts.n_edges == [1, 0, 1]
    for number, chart in enumerate(card["charts"]):
        assert len(chart["cells"]) == [n for n in parts.n_edges if n][number]
    assert card["paragraphs"][0].startswith(f"The shared network has {parts.n_edges[0]} edge")
    page = jgl.write_report(tmp_path / "common.html", solution).read_text()
    assert "Shared and class-specific networks" in page
    assert substructure_card(jgl.solve(S, 0.1, 0.05)) is None
