"""Errors about input name the class, the variable and the parameter in fields, which travel to other processes."""

from __future__ import annotations

import ast
import json
import pickle
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import jointglasso as jgl
from jointglasso.errors import argument

S = np.array([[[1.0, 0.5], [0.5, 1.0]]] * 2)
X = np.random.default_rng(0).normal(size=(20, 3))
Y = np.repeat(["ill", "well"], 10)


def changed(row, column, value):
    table = X.copy()
    table[row, column] = value
    return table


CASES = {
    "constant": (lambda: jgl.select(changed(slice(0, 10), 1, 1.0), Y), "ill", "x1", "constant"),
    "constant source": (
        lambda: jgl.SampleCovariance.from_labels(changed(slice(10, 20), 2, 1.0), Y, scale="correlation"),
        "well", "x2", "constant",
    ),
    "missing": (lambda: jgl.select(changed(3, 1, np.nan), Y), None, "x1", "missing"),
    "infinite": (lambda: jgl.select(changed(13, 2, np.inf), Y), "well", "x2", None),
    "complete": (
        lambda: jgl.select(changed(slice(0, 10), 1, np.nan), Y, missing="complete"), "ill", None, "missing",
    ),
    "penalty": (lambda: jgl.solve([np.eye(2)], -1, 0.1), None, None, "lambda1"),
    "kind": (lambda: jgl.solve([np.eye(2)], 0.1, "much"), None, None, "lambda2"),
    "weight": (lambda: jgl.solve(S, 0.1, 0.1, weights=[1, -1]), "2", None, "weights"),
    "pair": (lambda: jgl.solve(S, 0.1, 0.1, pair_weights={("x0", "z"): 1.0}), None, "z", "pair_weights"),
    "graph": (lambda: jgl.solve(S, 0.1, 0.1, penalty="graph", class_graph=[("1", "3")]), "3", None, "class_graph"),
    "labels": (lambda: jgl.select(X, Y[1:]), None, None, "y"),
    "file": (lambda: jgl.io.read_table(3), None, None, "path"),
    "choice": (lambda: jgl.select(X, Y, scale="big"), None, None, "scale"),
    "unknown": (lambda: jgl.select(X, Y, tolerance=1e-3), None, None, "tolerance"),
    "one sample": (lambda: jgl.SampleCovariance({"ill": X, "rare": X[:1]}), "rare", None, None),
    "indefinite": (lambda: jgl.solve({"odd": [[1.0, 2.0], [2.0, 1.0]]}, 0.1, 0.1), "odd", None, None),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_errors_name_what_they_are_about(case):
    act, class_name, variable, parameter = CASES[case]
    with pytest.raises((ValueError, TypeError)) as caught:
        act()
    for error in (caught.value, pickle.loads(pickle.dumps(caught.value))):
        assert (error.class_name, error.variable, error.parameter) == (class_name, variable, parameter)
        assert str(error) == str(caught.value)
        for word in (class_name, variable):
            assert word is None or word in str(error)


def test_the_command_line_gives_the_fields_to_programs(tmp_path):
    from jointglasso.cli import main

    rows = [",".join([label, *map(repr, row)]) for label, row in zip(Y, changed(3, 1, np.nan).tolist(), strict=True)]
    file = tmp_path / "data.csv"
    file.write_text("\n".join(["state,a,b,c", *rows]) + "\n")
    shown = CliRunner().invoke(main, ["screen", str(file), "--label", "state", "--json"])
    answer = json.loads(shown.stdout)
    assert answer["variable"] == "b" and answer["parameter"] == "missing" and answer["exit_code"] == 2
    assert "class" not in answer


PACKAGE = Path(jgl.__file__).parent
FIELDS = {"parameter", "class_name", "variable"}

#: Errors that are no refusals of input: arrays of our own making, and files that whoever catches them reads again.
INSIDE = {("_lapack.py", "_call"), ("engine/checkpoint.py", "_member")}


def calls_of_errors():
    for path in sorted(PACKAGE.rglob("*.py")):
        place = str(path.relative_to(PACKAGE))
        if place.startswith(("kernels/", "backends/")):  # below the checks: they never see what a user gave
            continue
        todo = [(ast.parse(path.read_text()), "")]
        while todo:
            node, function = todo.pop()
            function = getattr(node, "name", function) if isinstance(node, ast.FunctionDef) else function
            todo += [(child, function) for child in ast.iter_child_nodes(node)]
            if isinstance(node, ast.Call) and (place, function) not in INSIDE:
                yield f"{place}:{node.lineno}", node


def unnamed(node):
    """Whether a call makes an error about input that does not say what it is about."""
    called = getattr(node.func, "id", "")
    if called in ("ValueError", "TypeError"):
        return True
    about = {keyword.arg for keyword in node.keywords} & FIELDS
    if called == "partial" and getattr(node.args[0], "id", "") in ("InputError", "InputTypeError"):
        return "parameter" not in about
    return called in ("InputError", "InputTypeError") and len(node.args) < 2 and not about


def test_every_refusal_says_in_a_field_what_it_is_about():
    places = list(calls_of_errors())
    assert sum(getattr(node.func, "id", "") in ("InputError", "InputTypeError", "wrong") for _, node in places) > 300
    assert [place for place, node in places if unnamed(node)] == []


@pytest.mark.parametrize(
    "source, found",
    [
        ("ValueError('no')", True),
        ("InputError('no')", True),
        ("InputError('no', 'tol')", False),
        ("InputTypeError('no', class_name=name)", False),
        ("partial(InputError)", True),
        ("partial(InputError, parameter='out')", False),
        ("sorted([2, 1])", False),
    ],
)
def test_the_walk_finds_what_it_looks_for(source, found):
    assert unnamed(ast.parse(source, mode="eval").body) is found


def test_arguments_are_written_as_in_python():
    assert argument("label") == "`label`" and argument("label", ...) == "label="
    assert argument("constant", "isolate") == "constant='isolate'" and argument("tol", 1e-6) == "tol=1e-06"
    assert argument("drop", ["a b"]) == "drop=['a b']"


def test_only_what_would_work_is_proposed_about_missing_values():
    table = changed(3, 1, np.nan)
    with pytest.raises(ValueError, match=r"set missing='pairwise' .*, missing='complete' .* or missing='em'"):
        jgl.select(table, Y)
    with pytest.raises(ValueError, match=r"missing='complete' \(keeps the 19 .* or missing='em'"):
        jgl.infer(table, Y)
    with pytest.raises(ValueError, match=r"missing='complete' \(keeps the 19 complete samples\)\.") as caught:
        jgl.network_test(table, Y)
    assert "missing='em'" not in str(caught.value)
