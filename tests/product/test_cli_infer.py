"""`jointglasso infer`: what it prints and writes, and what it refuses."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest
from click.testing import CliRunner

from jointglasso.cli import main


def invoke(*arguments, code=0):
    result = CliRunner().invoke(main, [str(argument) for argument in arguments])
    assert result.exit_code == code, result.output
    return result


def answer(*arguments):
    return json.loads(invoke(*arguments, "--json").stdout)


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """A CSV file of two classes that share a chain of three variables; one more link in the class ill."""
    rng = np.random.default_rng(3)
    path = tmp_path_factory.mktemp("data") / "cells.csv"
    with path.open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["state", *(f"g{i}" for i in range(7))])
        for state in ("ill", "well"):
            X = rng.standard_normal((60, 7))
            X[:, 1] += X[:, 0]
            X[:, 2] += X[:, 1]
            if state == "ill":
                X[:, 5] += X[:, 4]
            writer.writerows([state, *(f"{x:.5f}" for x in row)] for row in X)
    return path


def test_infer_writes_tables_figures_and_a_report(table, tmp_path):
    out = tmp_path / "tests"
    found = answer("infer", table, "--label", "state", "--bootstrap", 20, "--out", out)
    assert found["edges"]["ill"] >= 3
    assert found["n_pairs"] == 21
    names = {
        "edges.csv",
        "differences.csv",
        "heterogeneity.csv",
        "common.csv",
        "method.txt",
        "centrality.csv",
        "bootstrap_edges.csv",
        "report.html",
    }
    assert names <= {path.name for path in out.iterdir()}
    assert {path.name for path in (out / "figures").iterdir()} == {
        "intervals.png", "volcano.png", "centrality.png",
    }  # fmt: skip
    with (out / "edges.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    assert list(rows[0])[:4] == ["class", "variable1", "variable2", "partial_correlation"]
    assert list(rows[0])[4:] == ["low", "high", "p_value", "q_value"]
    assert len(rows) == 42
    shown = invoke("infer", table, "--label", "state", "--bootstrap", 20, "--out", tmp_path / "again").stdout
    assert "Differences of strength between classes significant at that rate: " in shown
    assert shown.endswith("report.html in a browser.\n")
    page = (out / "report.html").read_text()
    assert "Differences with intervals" in page and "Centrality with intervals" in page
    assert "Benjamini and Hochberg" in (out / "method.txt").read_text()


def test_infer_takes_subjects_and_batches_from_other_columns(table, tmp_path):
    path = tmp_path / "cells.csv"
    lines = table.read_text().splitlines()
    more = [f"{line},b{n % 2},{n % 9}.5,s{n // 3}" for n, line in enumerate(lines[1:])]
    path.write_text("\n".join([f"{lines[0]},batch,age,subject", *more]))
    result = invoke("infer", path, "--label", "state", "--groups", "subject", "--covariates", "batch,age")
    assert "120 samples of 7 variables in 2 classes" in result.stdout
    assert "Edges significant at a false discovery rate of 0.1" in result.stdout
    part = answer("infer", path, "--label", "state", "--groups", "subject", "--covariates", "batch", "--classes", "ill")
    assert set(part["edges"]) == {"ill"}


def test_infer_proposes_what_works_where_a_variable_is_constant(table, tmp_path):
    first, *lines = table.read_text().splitlines()
    path = tmp_path / "constant.csv"
    cells = [line.split(",") for line in lines]
    constant = [",".join([state, "1" if state == "ill" else value, *rest]) for state, value, *rest in cells]
    path.write_text("\n".join([first, *constant]))
    said = invoke("infer", path, "--label", "state", code=2).stderr
    assert "does not vary in class 'ill'" in said and "leave them out with --constant drop." in said
    assert "6 variables" in invoke("infer", path, "--label", "state", "--constant", "drop").stdout


def test_infer_says_what_it_cannot_do(table):
    assert "leave it out" in invoke("infer", table, "--label", "state", "--scale", "covariance", code=2).stderr
    assert "take drop" in invoke("infer", table, "--label", "state", "--constant", "isolate", code=2).stderr
    refused = ("--association", "mixed", "--missing", "em", "--bootstrap", 9)
    said = invoke("infer", table, "--label", "state", *refused, code=2).stderr
    assert "take --missing pairwise, or --association nonparanormal with --missing em" in said
    for option, remedy in {"covariates": "groups or --covariates", "drop": "drop", "groups": "groups or --cov"}.items():
        said = invoke("infer", table, "--label", "state", f"--{option}", "nothing", code=2).stderr
        assert "no column" in said and "'nothing'" in said and f"correct --{remedy}" in said
