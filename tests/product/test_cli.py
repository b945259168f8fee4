"""The command line: every command on a small file, what it prints and writes, and its exit codes."""

from __future__ import annotations

import csv
import json
import re
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import jointglasso as jgl
from jointglasso.cli import main
from jointglasso.cli.options import SECTIONS
from jointglasso.cli.solving import progress_in_words
from jointglasso.selection import SelectionProgress

#: Enough to solve in a moment, small enough a grid to choose from.
PENALTIES = ("--lambda1", "0.2", "--lambda2", "0.1")
SMALL_GRID = ("--n-lambdas", "4", "--ratios", "0.3,1", "--min-ratio", "0.2")


def invoke(*arguments, code=0):
    result = CliRunner().invoke(main, [str(argument) for argument in arguments])
    assert result.exit_code == code, result.output
    return result


def answer(*arguments, code=0):
    """The JSON object; the standard output holds nothing else."""
    found = json.loads(invoke(*arguments, "--json", code=code).stdout)
    assert found["exit_code"] == code
    return found


@pytest.fixture(scope="session")
def table(tmp_path_factory):
    """A CSV file of two classes that share a chain of variables; one more link in the class ill."""
    rng = np.random.default_rng(3)
    path = tmp_path_factory.mktemp("data") / "cells.csv"
    names = [f"g{i}" for i in range(7)]
    with path.open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["state", *names])
        for state in ("ill", "well"):
            X = rng.standard_normal((60, 7))
            X[:, 1] += X[:, 0]
            X[:, 2] += X[:, 1]
            if state == "ill":
                X[:, 5] += X[:, 4]
            writer.writerows([state, *(f"{x:.5f}" for x in row)] for row in X)
    return path


@pytest.fixture(scope="session")
def fitted(table, tmp_path_factory):
    """A result folder with everything in it."""
    out = tmp_path_factory.mktemp("results") / "networks"
    invoke(
        "fit", table, "--label", "state", "--select", "ebic", "--out", out, "--stability", 4, "--title", "Two states",
    )  # fmt: skip
    return out


# What all commands have in common


def test_every_command_has_help_with_an_example_and_the_exit_codes():
    for name in main.commands:
        shown = invoke(name, "--help").output
        for words in ("Example:", "Exit codes:", "--json", "--debug"):
            assert words in shown


def test_commands_are_listed_in_the_order_of_use_and_the_version_is_told():
    shown = invoke("--help").output
    places = [shown.index(f"\n  {name} ") for name in ("demo", "screen", "select", "fit", "infer", "report", "export")]
    assert places == sorted(places)
    assert jgl.__version__ in invoke("--version").output


# fit


def test_fit_writes_everything_it_promises(fitted):
    written = {str(path.relative_to(fitted)) for path in fitted.rglob("*") if path.is_file()}
    drawn = ("networks", "degrees", "centrality", "adjacency", "selection", "stability")
    pictures = {f"figures/{name}.png" for name in drawn}
    assert written == pictures | {
        "parameters.json", "report.html", "solution.jgl", "edges.csv", "selection.csv", "selection.txt",
    }  # fmt: skip


def test_fit_finds_the_chain_and_the_difference(fitted):
    with (fitted / "edges.csv").open() as stream:
        edges = {(row["variable1"], row["variable2"], row["class"]): row for row in csv.DictReader(stream)}
    for state in ("ill", "well"):
        assert edges["g0", "g1", state]["kind"] == "shared"
        assert 0 <= float(edges["g0", "g1", state]["stability"]) <= 1
    assert edges["g4", "g5", "ill"]["kind"] == "specific" and ("g4", "g5", "well") not in edges


def test_parameters_are_enough_to_get_the_same_solution_again(fitted, table):
    kept = json.loads((fitted / "parameters.json").read_text())
    assert kept["data"]["file"] == str(table) and len(kept["data"]["sha256"]) == 64
    assert kept["versions"]["jointglasso"] == jgl.__version__ and kept["arguments"]["seed"] == 0
    assert kept["command_line"].startswith("jointglasso fit ") and "--stability 4" in kept["command_line"]
    solution = jgl.load(fitted / "solution.jgl")
    source = jgl.io.read_table(table, label="state").to_source()
    asked = {name: kept["solution"][name] for name in ("lambda1", "lambda2", "weights", "penalize_diagonal")}
    again = jgl.solve(source, **asked)
    for first, second in zip(solution.precision, again.precision, strict=True):
        np.testing.assert_allclose(first.toarray(), second.toarray(), atol=5e-3)  # both within their gap
        np.testing.assert_array_equal(first.toarray() != 0, second.toarray() != 0)


def test_fit_at_given_penalties_answers_in_json(table, tmp_path):
    found = answer("fit", table, "--label", "state", *PENALTIES, "--no-figures", "--out", tmp_path / "new" / "r")
    solution = jgl.load(tmp_path / "new" / "r" / "solution.jgl")
    assert found["edges"] == dict(zip(solution.class_names, solution.n_edges, strict=True))
    assert found["converged"] and found["relative_gap"] <= 1e-6 and found["lambda1"] == 0.2
    assert found["out"] == str(tmp_path / "new" / "r") and not (tmp_path / "new" / "r" / "figures").exists()


def test_a_fit_that_does_not_converge_is_written_and_exits_with_1(table, tmp_path):
    options = ("--no-figures", "--lambda1", "0.01", "--lambda2", "0.01", "--max-iter", "1", "--tol", "1e-14")
    result = invoke("fit", table, "--label", "state", *options, "--out", tmp_path / "r", code=1)
    assert "status       Stopped" in result.stdout and "Warning: " in result.stderr and "--max-iter" in result.stderr
    solution = jgl.load(tmp_path / "r" / "solution.jgl")
    assert not solution.status and solution.certificate.relative_gap > 1e-14


def test_the_options_of_the_data_reach_the_solve(table, tmp_path):
    options = ("--classes", "ill", "--variables", "g2,g0,g1", "--scale", "covariance", "--association", "spearman")
    common = ("--label", "state", *options, "--no-figures", *PENALTIES)
    answer("fit", table, *common, "--weights", "sample_size", "--out", tmp_path / "r")
    solution = jgl.load(tmp_path / "r" / "solution.jgl")
    assert solution.class_names == ("ill",) and solution.variable_names == ("g2", "g0", "g1")
    kept = jgl.io.read_table(table, label="state", subset=["ill"]).select(["g2", "g0", "g1"])
    estimator = jgl.JointGraphicalLasso(0.2, 0.1, scale="covariance", association="spearman").fit(kept.X, kept.y)
    np.testing.assert_array_equal(estimator.precision_[0].toarray() != 0, solution.precision[0].toarray() != 0)


def test_a_file_of_variables_may_name_them(table, tmp_path):
    names = tmp_path / "names.txt"
    names.write_text("g1\n\ng0\n")
    answer("fit", table, "--label", "state", "--variables", names, "--no-figures", *PENALTIES, "--out", tmp_path / "r")
    assert jgl.load(tmp_path / "r" / "solution.jgl").variable_names == ("g1", "g0")


def test_pair_weights_forbid_an_edge(table, tmp_path):
    weights = tmp_path / "weights.csv"
    weights.write_text("first,second,weight\ng1,g0,inf\n")
    common = ("--label", "state", "--no-figures", *PENALTIES, "--pair-weights", weights)
    answer("fit", table, *common, "--out", tmp_path / "r")
    solution = jgl.load(tmp_path / "r" / "solution.jgl")
    assert all(Theta[0, 1] == 0 for Theta in solution.precision) and all(
        Theta[1, 2] != 0 for Theta in solution.precision
    )


@pytest.mark.parametrize("missing, left", [("drop-variables", 6), ("complete", 7), ("pairwise", 7)])
def test_missing_values_by_option(table, tmp_path, missing, left):
    lines = table.read_text().splitlines()
    cells = lines[1].split(",")
    cells[4] = "NA"
    holes = tmp_path / "holes.csv"
    holes.write_text("\n".join([lines[0], ",".join(cells), *lines[2:]]))
    assert "--missing drop-variables" in invoke("screen", holes, "--label", "state", code=2).stderr
    found = answer("screen", holes, "--label", "state", "--missing", missing)
    assert found["data"]["n_variables"] == left
    assert found["data"]["classes"]["ill"] == (59 if missing == "complete" else 60)


# select, screen and path


def test_select_shows_the_grid_and_explains(table, tmp_path):
    shown = invoke("select", table, "--label", "state", *SMALL_GRID, "--out", tmp_path / "choice").stdout
    assert "Chosen: lambda1" in shown and "* " in shown and "fit ... --lambda1" in shown
    assert {path.name for path in (tmp_path / "choice").iterdir()} == {
        "selection.csv", "selection.txt", "selection.png", "parameters.json",
    }  # fmt: skip


@pytest.mark.filterwarnings("ignore::jointglasso.selection.SelectionWarning")
@pytest.mark.parametrize("criterion", ["bic", "cv", "stars"])
def test_select_by_every_criterion(table, criterion):
    options = ("--folds", 3, "--subsamples", 3, "--seed", 1)
    found = answer("select", table, "--label", "state", *SMALL_GRID, "--criterion", criterion, *options)
    data = jgl.io.read_table(table, label="state")
    source = jgl.SampleCovariance.from_labels(data.X, data.y, scale="correlation")
    grid = jgl.lambda_grid(source, n_lambdas=4, ratios=(0.3, 1), min_ratio=0.2, weights="sqrt_sample_size")
    same = jgl.select(data.X, data.y, grid=grid, criterion=criterion, cv=3, n_subsamples=3, random_state=1)
    assert (found["best"], found["lambda1"]) == (same.best, pytest.approx(same.lambda1))
    assert len(found["grid"]["score"]) == 8


def test_screen_tells_blocks_curve_and_plan(table, tmp_path):
    shown = invoke("screen", table, "--label", "state", *PENALTIES, "--plot", tmp_path / "curve.png").stdout
    for words in ("hybrid", "Blocks as lambda1 falls", "the last edge", "noise alone", "One solve there"):
        assert words in shown
    assert (tmp_path / "curve.png").stat().st_size > 1000
    found = answer("screen", table, "--label", "state", *PENALTIES)
    source = jgl.io.read_table(table, label="state").to_source()
    assert found["rules"]["hybrid"]["n_blocks"] == jgl.screen(source, 0.2, 0.1).n_blocks
    assert found["plan"]["seconds"] > 0 and found["percolation"] > 0 and found["suggested"]["lambda1"] > 0
    assert found["curve"]["ratio"] == 0.5


def test_lines_on_the_progress_where_there_is_no_terminal(table, monkeypatch):
    monkeypatch.setattr("jointglasso.cli.solving.LINE_EVERY", 0.005)
    command = ("select", table, "--label", "state", *SMALL_GRID)
    assert "choosing penalties by jbic: " in invoke(*command).stderr
    assert "choosing penalties" not in invoke(*command, "--quiet").stderr


def test_time_is_predicted_only_while_solves_are_reported():
    progress = SelectionProgress("other columns", 20, 40, 100.0)
    done = "other columns, 20 of about 40 solves, "
    assert progress_in_words(progress, "solves", 2.0) == done + "about 100 s for the others"
    assert progress_in_words(progress, "solves", 90.0) == done + "the next one for 90 s"
    assert progress_in_words(SelectionProgress("refining", 0, 0, 5.0), "solves", 9.0) == "refining"


def test_tests_and_files_are_announced_too_and_lambda1_of_zero_is_explained(table, tmp_path, monkeypatch):
    fit = sys.modules["jointglasso.cli.fit"]

    def slow(data, test=fit.tested_differences):
        time.sleep(0.5)  # else the thread that writes the lines may come too late
        return test(data)

    monkeypatch.setattr(fit, "tested_differences", slow)
    monkeypatch.setattr("jointglasso.cli.solving.LINE_EVERY", 0.002)
    grid = ("--n-lambdas", "3", "--ratios", "inf", "--min-ratio", "0.2")
    result = invoke("fit", table, "--label", "state", *grid, "--out", tmp_path / "out")
    for words in ("testing the differences (", "writing tables, figures and report ("):
        assert words in result.stderr
    assert "lambda1 = 0 makes the networks differ in values only" in result.stdout
    edges = pd.read_csv(tmp_path / "out" / "edges.csv")
    assert len(edges) and set(edges["kind"]) == {"shared"}


# report, export, demo and doctor


def test_report_and_export_from_a_saved_solution(fitted, tmp_path):
    invoke("report", fitted / "solution.jgl", "-o", tmp_path / "page.html", "--title", "A & B")
    assert "A &amp; B" in (tmp_path / "page.html").read_text()
    names = [tmp_path / f"n.{ending}" for ending in ("graphml", "csv", "parquet")]
    assert answer("export", fitted / "solution.jgl", *names)["out"] == list(map(str, names))
    invoke("export", fitted / "solution.jgl", tmp_path / "one", "--format", "csv", "--class", "ill")
    assert len(pd.read_csv(tmp_path / "one")) == (pd.read_csv(fitted / "edges.csv")["class"] == "ill").sum()


def test_demo_ends_in_a_clear_choice_with_readable_networks(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for figures in (True, False):  # a second demo replaces the first
        if not figures:
            monkeypatch.setattr("jointglasso.cli.results.find_spec", lambda package: None)
        result = invoke("demo")
        shown = result.stdout
        assert "Warning" not in result.output and "It lies inside what was tried" in shown
        for words in ("195 samples", "KIRC", "them in all classes", "Significant differences", "certified "):
            assert words in shown
        page = (Path(__file__).parents[2] / "docs" / "first_look.md").read_text("utf-8")
        for line in re.findall(r"^(?:Chosen:|Networks of|Significant differences).*$", page, flags=re.M):
            assert line in shown, "the page shows another result of the demo"
        assert (tmp_path / "jointglasso-demo" / "figures").exists() == figures
    assert "cell cycle" in (tmp_path / "jointglasso-demo" / "report.html").read_text()
    edges = pd.read_csv(tmp_path / "jointglasso-demo" / "edges.csv")
    assert (edges.groupby("class").size() < 3 * 61).all()  # fewer than six neighbours in the mean


def test_doctor_lists_versions_and_warms_the_kernels():
    found = answer("doctor", "--warm")
    assert found["jointglasso"] == jgl.__version__ and found["cores"] >= 1 and found["seconds_to_warm"] > 0
    assert 0 < found["kernels"]["ready"] <= found["kernels"]["all"]
    shown = invoke("doctor").stdout
    assert shown.split()[:2] == ["jointglasso", jgl.__version__] and "numba" in shown and "Compiled kernels" in shown


# The data inside the package


def test_embedded_proteins_are_complete_and_labelled():
    table = jgl.datasets.load_rppa()
    assert table.X.shape == (2498, 174) and np.isfinite(table.X).all()
    names, counts = np.unique(table.y, return_counts=True)
    assert dict(zip(names.tolist(), counts.tolist(), strict=True)) == {
        "BLCA": 344, "KIRC": 478, "LGG": 435, "LUAD": 365, "OV": 436, "UCEC": 440,
    }  # fmt: skip
    assert len(set(table.variable_names)) == 174


def test_embedded_expression_is_complete_and_labelled():
    table, processes = jgl.datasets.load_expression()
    assert table.X.shape == (195, 61) and np.isfinite(table.X).all() and np.abs(table.X).max() < 10
    assert table.classes == {"KIRC": 72, "READ": 69, "UCEC": 54}
    assert list(processes) == list(table.variable_names) and len(set(processes.values())) == 10


def test_embedded_proteins_are_a_table_like_those_read_from_files():
    table = jgl.datasets.load_rppa()
    assert isinstance(table, jgl.io.LabelledTable)
    assert len(table.sample_names) == len(set(table.sample_names)) == 2498
    source = table.select(table.variable_names[:5], ["OV", "LGG"]).to_source(scale="correlation")
    assert source.class_names == ("LGG", "OV") and source.variable_names == table.variable_names[:5]
    same = jgl.SampleCovariance.from_labels(table.X, table.y, scale="correlation").block(2, np.arange(5))
    np.testing.assert_array_equal(source.block(0, np.arange(5)), same)


# Differences


def test_fit_lists_and_draws_differences(table, tmp_path):
    shown = invoke("fit", table, "--label", "state", *PENALTIES, "--out", tmp_path / "out", "--differences").output
    with (tmp_path / "out" / "differences.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    assert (rows[0]["class1"], rows[0]["variable1"], rows[0]["variable2"]) == ("ill", "g4", "g5")
    assert float(rows[0]["difference"]) > 0.3
    p_values = [float(row["p_value"]) for row in rows]
    assert p_values == sorted(p_values) and {row["tested"] for row in rows} == {"True"}
    assert 0 < float(rows[0]["low"]) < float(rows[0]["estimated_difference"]) < float(rows[0]["high"])
    assert (tmp_path / "out" / "figures" / "difference_1_ill_minus_well.png").exists()
    assert "Significant differences between two classes at a false discovery rate of 0.1:" in shown
    assert f"Those of {len(rows)} differences between the estimates with the smallest p-values" in shown
    assert "estimated_difference" in shown and "q_value" in shown


def test_differences_of_every_two_classes_in_json(table, tmp_path):
    found = answer(
        "fit", table, "--label", "state", *PENALTIES, "--out", tmp_path / "out", "--no-figures", "--differences"
    )
    assert found["differences"][0]["variable1"] == "g4" and found["differences"][0]["class1"] == "ill"


def test_differences_of_one_class(table, tmp_path):
    arguments = ("fit", table, "--drop", "state", *PENALTIES, "--out", tmp_path / "out", "--differences")
    assert "--differences needs two classes" in invoke(*arguments, code=2).output
    assert not (tmp_path / "out").exists()


# Reports of saved results, and proofs


def test_a_report_of_a_saved_solution_keeps_title_and_notes(fitted, tmp_path):
    invoke("report", fitted / "solution.jgl", "-o", tmp_path / "again.html")
    first, again = (payload_of(path) for path in (fitted / "report.html", tmp_path / "again.html"))
    before, after = ({card["id"]: card for card in page["facts"]} for page in (first, again))
    assert again["title"] == first["title"] == "Two states" and after["notes"] == before["notes"]
    assert before["selection"]["paragraphs"] == (fitted / "selection.txt").read_text().splitlines()
    assert before["selection"]["table"]["best"] is not None and first["edges"]["stability"] is not None
    moved = tmp_path / "moved.jgl"
    moved.write_bytes((fitted / "solution.jgl").read_bytes())
    invoke("report", moved, "-o", tmp_path / "alone.html")
    assert "notes" not in {card["id"] for card in payload_of(tmp_path / "alone.html")["facts"]}


def payload_of(path):
    text = path.read_text("utf-8")
    return json.loads(text.split('id="data">', 1)[1].split("</script>", 1)[0])


def test_prove_decides_every_edge(table, tmp_path):
    weak = ("--lambda1", "0.06", "--lambda2", "0.02", "--tol", "0.1")
    loose = ("fit", table, "--label", "state", *weak, "--no-figures", "--out")
    before = answer(*loose, tmp_path / "loose")
    after = answer(*loose, tmp_path / "proved", "--prove")
    assert before["edges_undecided"] > 0 == after["edges_undecided"]
    assert payload_of(tmp_path / "proved" / "report.html")["verdict"]["text"].startswith(
        "Certified (optimisation): exactly"
    )
    assert "edges certified" in payload_of(tmp_path / "loose" / "report.html")["verdict"]["text"]


def test_prove_continues_for_weaker_edges_of_the_refined_solution(table, tmp_path):
    options = ("--lambda1", "0.08", "--lambda2", "0.03", "--tol", "0.1", "--no-figures", "--out")
    loose, proved = (
        answer("fit", table, "--label", "state", *options, tmp_path / name, *prove)
        for name, prove in (("loose", ()), ("proved", ("--prove",)))
    )
    assert sum(proved["edges"].values()) > sum(loose["edges"].values())
    assert proved["edges_proved_present"] == sum(proved["edges"].values())


# From a file to a table


def screened(*arguments):
    """Names of the classes and of the variables as `screen` reads them."""
    from jointglasso.cli.input_data import read_data
    from jointglasso.cli.screen import screen
    from jointglasso.cli.session import Session

    with screen.make_context("screen", [str(argument) for argument in arguments]) as context:
        session = Session(as_json=False, command_line="", arguments={}, quiet=True)
        return read_data(session, context.params).samples


def test_classes_have_the_order_and_the_names_that_are_asked_for(table):
    assert screened(table, "--label", "state").class_names == ("ill", "well")
    assert screened(table, "--label", "state", "--classes", "well,ill").class_names == ("well", "ill")
    renamed = screened(table, "--label", "state", "--rename", "well=healthy,ill=sick")
    assert renamed.class_names == ("healthy", "sick")
    np.testing.assert_array_equal(renamed.matrices[1], screened(table, "--label", "state").matrices[0])
    with pytest.raises(ValueError, match="there is no class 'wel'"):
        screened(table, "--label", "state", "--rename", "wel=healthy")


def test_several_files_are_a_class_each(tmp_path):
    for name, columns in (("young", "a,b,c"), ("old", "c,b,d")):
        lines = [columns, *(f"{i}.5,{i * i},{-i}" for i in range(6))]
        (tmp_path / f"{name}.csv").write_text("\n".join(lines) + "\n")
    with pytest.warns(UserWarning, match="which not all files have"):
        found = screened(tmp_path / "young.csv", tmp_path / "old.csv")
    assert found.class_names == ("young", "old") and found.variable_names == ("b", "c")
    np.testing.assert_array_equal(found.matrices[0][:, 1], [-i for i in range(6)])
    with pytest.warns(UserWarning), pytest.raises(ValueError, match="not among the classes"):
        screened(tmp_path / "young.csv", tmp_path / "old.csv", "--classes", "middle")


@pytest.fixture
def counts(tmp_path):
    """Counts of one class: a hub, a constant gene and a batch."""
    rng = np.random.default_rng(0)
    batch = np.repeat([0, 1], 20)
    genes = rng.negative_binomial(1, 0.01, size=(40, 3))
    table = np.column_stack([batch, genes + 50 * batch[:, None], np.full(40, 7)])
    path = tmp_path / "counts.csv"
    rows = ["batch,g1,g2,g3,flat", *(",".join(map(str, row)) for row in table.tolist())]
    path.write_text("\n".join(rows) + "\n")
    return path, table


def test_log_constant_variance_and_covariates(counts):
    path, table = counts
    found = screened(path, "--log", "--constant", "drop", "--covariates", "batch", "--top-variance", "2")
    assert found.n_variables == 2 and set(found.variable_names) < {"g1", "g2", "g3"}
    for j, name in enumerate(found.variable_names):
        gene = np.log1p(table[:, int(name[1])])
        for batch in (0, 1):
            rows = table[:, 0] == batch
            expected = gene.mean() + gene[rows] - gene[rows].mean()
            np.testing.assert_allclose(found.matrices[0][rows, j], expected, atol=1e-12)


def test_words_are_covariates_too(tmp_path):
    rng = np.random.default_rng(1)
    batch = rng.choice(["one", "two", "three"], 30)
    shift = np.array([{"one": 0.0, "two": 4.0, "three": -2.0}[name] for name in batch])
    values = rng.standard_normal((30, 2)) + shift[:, None]
    numbered = enumerate(zip(batch, values.tolist(), strict=True))
    lines = ["batch,a,b,age", *(f"{name},{a!r},{b!r},{i}" for i, (name, (a, b)) in numbered)]
    path = tmp_path / "batches.csv"
    path.write_text("\n".join(lines) + "\n")
    found = screened(path, "--covariates", "batch", "--drop", "age")
    assert found.variable_names == ("a", "b")
    for name in set(batch.tolist()):
        rows = batch == name
        expected = values.mean(axis=0) + values[rows] - values[rows].mean(axis=0)
        np.testing.assert_allclose(found.matrices[0][rows], expected, atol=1e-12)
    assert screened(path, "--covariates", "batch,age").variable_names == ("a", "b")
    with pytest.raises(ValueError, match=r"no column or row 'bach' \(similar: 'batch'\): correct `annotations`"):
        screened(path, "--covariates", "bach")


def test_answers_to_questions_are_told_from_counts(tmp_path):
    rng = np.random.default_rng(2)
    answers = rng.integers(1, 6, size=(40, 3))
    path = tmp_path / "items.csv"
    lines = ["q1,q2,q3,age", *(",".join(map(str, [*row, 20 + 2 * i])) for i, row in enumerate(answers.tolist()))]
    path.write_text("\n".join(lines) + "\n")
    with pytest.warns(UserWarning, match="as ordinal answers do: --association mixed"):
        screened(path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        screened(path, "--association", "mixed")


def test_most_varying_variables_may_have_missing_values(tmp_path):
    rng = np.random.default_rng(3)
    values = rng.standard_normal((30, 3)) * [1.0, 9.0, 2.0]
    rows = [",".join(map(repr, row)) for row in values.tolist()]
    rows[4] = rows[4].replace(repr(float(values[4, 1])), "")
    path = tmp_path / "gaps.csv"
    path.write_text("\n".join(["low,high,middle", *rows]) + "\n")
    kept = screened(path, "--top-variance", "2", "--missing", "pairwise").variable_names
    assert kept == ("high", "middle")


def test_raw_counts_are_warned_of(counts):
    path, _ = counts
    with pytest.warns(UserWarning, match="look like raw counts"):
        screened(path, "--constant", "drop")
    with pytest.raises(ValueError, match="no column or row 'age'"):
        screened(path, "--log", "--covariates", "age")


def test_quiet_says_nothing_and_help_has_headings(table, tmp_path):
    shown = invoke("fit", table, "--label", "state", *PENALTIES, "--no-figures", "--quiet", "--out", tmp_path / "out")
    assert shown.stdout == "" and (tmp_path / "out" / "report.html").exists()
    text = invoke("fit", "--help").output
    headings = [line for line in text.splitlines() if line.endswith(":") and not line.startswith(" ")]
    assert headings[:2] == ["Classes:", "Table:"] and headings[-1] == "Other options:" and len(headings) == 7
    listed = [line.split()[0].rstrip(",") for line in text.splitlines() if line.startswith("  --")]
    assert listed[0] == "--label" and listed.index("--out") < listed.index("--title") < listed.index("--figures")
    assert {"--subset", "--drop", "--covariates"} <= set(listed[listed.index("--subset") : listed.index("--scale")])
    grouped = [name for names in SECTIONS.values() for name in names]
    offered = {param.name for command in main.commands.values() for param in command.params}
    assert len(set(grouped)) == len(grouped) and set(grouped) <= offered


def test_a_limit_on_memory_is_kept(table, tmp_path):
    arguments = ("fit", table, "--label", "state", "--out", tmp_path / "out")
    assert "memory" in invoke(*arguments, *PENALTIES, "--max-memory", "1e-9", code=2).output
    assert not (tmp_path / "out").exists()
