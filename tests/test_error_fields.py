"""Errors about input name the class, the variable and the parameter in fields, which travel to other processes."""

from __future__ import annotations

import json
import pickle

import numpy as np
import pytest
from click.testing import CliRunner

import jointglasso as jgl

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
        for word in (class_name, variable, parameter):
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
