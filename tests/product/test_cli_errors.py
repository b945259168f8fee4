"""What the command line says when something is wrong, and that nothing is left half written."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import jointglasso as jgl
from jointglasso.cli import main
from jointglasso.cli.session import in_options, plain
from jointglasso.errors import argument
from jointglasso.selection.solves import Tracker

FIT = ("--lambda1", "0.3", "--lambda2", "0.1", "--no-figures")


def invoke(*arguments):
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def rows(state, n, seed):
    values = np.random.default_rng(seed).standard_normal((n, 3)).round(4)
    return "".join(f"{state},{','.join(map(str, row))}\n" for row in values)


HEADER = "state,a,b,c\n"
GOOD = HEADER + rows("ill", 9, 0) + rows("well", 8, 1)


@pytest.fixture
def good(tmp_path):
    path = tmp_path / "good.csv"
    path.write_text(GOOD)
    return path


#: Content of the file, options, and what the sentence must hold: the place of the mistake and the remedy.
BAD = {
    "no such label": (GOOD, ["--label", "stat"], ["'stat'", "similar: 'state'", "correct --label"]),
    "labels for label": (GOOD, ["--labels", "state"], ["state does not exist", "--label state if it is a column"]),
    "label forgotten": (GOOD, [], ["column 'state' holds words", "--label state"]),
    "batch as words": (
        GOOD.replace("state,a", "state,batch,a").replace("ill,", "ill,lab 1,").replace("well,", "well,lab 2,"),
        ["--label", "state"], ["column 'batch' holds words", "--drop batch", "--covariates batch if"],
    ),
    "class of one sample": (
        GOOD + rows("rare", 1, 2), ["--label", "state"], ["'rare' has 1 sample", "--classes ill,well"],
    ),
    "one class": (
        HEADER + rows("ill", 9, 0), ["--label", "state"], ["all samples have the label 'ill'", "--classes ill"],
    ),
    "no number": (
        GOOD.replace("well,", "well,oops", 1), ["--label", "state"],
        ["line 11", "column 'a'", "'oops", "--read missing_markers=oops"],
    ),
    "unknown class": (GOOD, ["--label", "state", "--classes", "ill,sick"], ["'sick'", "correct --classes"]),
    "unknown variable": (GOOD, ["--label", "state", "--variables", "a,bb"], ["'bb'", "'b'"]),
    "missing values": (GOOD + "ill,NA,1,2\n", ["--label", "state"], ["1 missing value (NaN)", "--missing complete"]),
    "constant variable": (
        HEADER + "".join(f"{s},1,{i * i},{i}\n" for s in "xy" for i in range(5)), ["--label", "state"],
        ["constant in class 'x'", "'a'", "--constant isolate"],
    ),
    "no condition": (GOOD, ["--label", "state", "--subset", "a"], ["--subset 'a'", "NAME=VALUE"]),
    "negative penalty": (GOOD, ["--label", "state", "--lambda1", "-1", "--lambda2", "0.1"], ["--lambda1 -1", ">= 0"]),
    "bad tolerance": (GOOD, ["--label", "state", *FIT, "--tol", "0"], ["--tol 0"]),
    "bad grid": (GOOD, ["--label", "state", "--ratios", "a,b"], ["--ratios 'a,b'", "such as 0.1,0.3,1"]),
    "no checkpoint folder": (GOOD, ["--label", "state", *FIT, "--checkpoint", "/dev/null/x"], ["/dev/null/x"]),
    "empty file": ("", ["--label", "state"], ["empty"]),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_a_bad_file_or_option_gets_one_sentence_with_its_remedy(case, tmp_path):
    content, options, words = BAD[case]
    file = tmp_path / "data.csv"
    file.write_text(content)
    result = invoke("fit", file, *options, "--out", tmp_path / "out")
    assert result.exit_code == 2, result.output
    (line,) = result.stderr.splitlines()
    assert line.startswith("Error: ") and "Traceback" not in result.output
    for word in words:
        assert word in line
    assert {path.name for path in tmp_path.iterdir()} == {"data.csv"}


#: Arguments after the file that make no sense together.
MISUSED = {
    "one penalty": (["fit", "--lambda1", "0.3", "--out", "o"], "--lambda1 is given without --lambda2"),
    "penalties and criterion": (["fit", *FIT, "--select", "bic", "--out", "o"], "leave one out"),
    "no folder": (["fit", *FIT], "Missing option '--out'"),
    "unknown criterion": (["select", "--criterion", "gut"], "'gut' is not one of"),
    "lambda2 alone": (["screen", "--lambda2", "1"], "--lambda2 is given without --lambda1"),
    "no number": (["fit", "--lambda1", "much", "--out", "o"], "'much' is not a valid float"),
}


@pytest.mark.parametrize("case", MISUSED)
def test_options_that_do_not_fit_together_are_refused(case, good, monkeypatch):
    monkeypatch.chdir(good.parent)
    (command, *options), words = MISUSED[case]
    result = invoke(command, good, "--label", "state", *options)
    assert result.exit_code == 2 and words in result.stderr and result.stdout.count("\n") <= 2
    in_json = invoke(command, good, "--label", "state", *options, "--json")
    assert in_json.exit_code == 2 and words in json.loads(in_json.stdout)["error"]


def test_files_that_are_not_there_or_no_solutions(good, tmp_path):
    for arguments, word in [
        (("screen", tmp_path / "none.csv"), "none.csv does not exist"),
        (("report", tmp_path / "none.jgl"), "no file"),
        (("report", good), "no solution of jointglasso"),
        (("fit", good, "--label", "state", *FIT, "--pair-weights", "none.csv", "--out", tmp_path / "o"), "none.csv"),
    ]:
        result = invoke(*arguments, "--json")
        assert result.exit_code == 2 and word in result.stderr
        assert json.loads(result.stdout)["exit_code"] == 2


@pytest.mark.parametrize(
    "content, word",
    [
        ("a,b,c\na,b,half\n", "line 2"),
        ("a,b\n", "line 1"),
        ("a,b,1\na,b,2\n", "has two weights"),
        ("\n", "holds no pair weights"),
        ("a,zz,1\n", "'zz'"),
        ("a,b,-1\n", "-1"),
    ],
)
def test_bad_pair_weights(good, tmp_path, content, word):
    weights = tmp_path / "weights.csv"
    weights.write_text(content)
    result = invoke("fit", good, "--label", "state", *FIT, "--pair-weights", weights, "--out", tmp_path / "o")
    assert result.exit_code == 2 and word in result.stderr and not (tmp_path / "o").exists()


def test_debug_shows_the_error_itself(tmp_path):
    result = invoke("report", tmp_path / "none.jgl", "--debug")
    assert isinstance(result.exception, FileNotFoundError)


def test_a_defect_is_not_blamed_on_the_user(good, monkeypatch):
    def broken(*arguments, **options):
        raise ZeroDivisionError("no")

    monkeypatch.setattr("jointglasso.component_curve", broken, raising=False)
    result = invoke("screen", good, "--label", "state")
    assert result.exit_code == 4 and "ZeroDivisionError" in result.stderr and "--debug" in result.stderr


# Interrupts


def test_an_interrupt_writes_nothing_and_exits_with_3(good, tmp_path, monkeypatch):
    def interrupted(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr("jointglasso.solve", interrupted, raising=False)
    options = ("--label", "state", *FIT, "--checkpoint", tmp_path / "work", "--out", tmp_path / "o")
    result = invoke("fit", good, *options, "--json")
    assert result.exit_code == 3 and json.loads(result.stdout)["exit_code"] == 3
    assert "no result was written" in result.stderr and "resumes from" in result.stderr
    assert not (tmp_path / "o").exists()


@pytest.mark.parametrize("command", ["select", "fit"])
def test_an_interrupted_choice_is_made_among_the_points_that_are_done(good, tmp_path, monkeypatch, command):
    def interrupt(self, *news):
        advance(self, *news)
        if self._done == 4:
            raise KeyboardInterrupt

    advance = Tracker.advance
    monkeypatch.setattr(Tracker, "advance", interrupt)
    options = ("--label", "state", "--checkpoint", tmp_path / "work", "--out", tmp_path / "o", "--json")
    result = invoke(command, good, *options)
    assert result.exit_code == 3
    assert "among the grid points solved so far" in result.stderr
    assert "Interrupted after 4 points" in json.loads(result.stdout)["explanation"]
    assert (tmp_path / "o" / "parameters.json").exists()
    monkeypatch.setattr(Tracker, "advance", advance)
    assert invoke(command, good, *options, "--overwrite").exit_code == 0


@pytest.mark.parametrize("keep", [True, False])
def test_what_there_is_at_an_interrupt_is_written_when_wanted(tmp_path, monkeypatch, keep):
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "wide.npz", X=rng.standard_normal((60, 150)), y=np.repeat(["p", "q"], 30))

    def interrupt(self, iteration):
        raise KeyboardInterrupt

    monkeypatch.setattr("jointglasso.progress_bar.RichProgress.__call__", interrupt)
    tight = ("--lambda1", "0.02", "--lambda2", "0.02", "--tol", "1e-12", "--no-figures")
    options = [*tight, "--out", tmp_path / "o", *(["--keep-partial"] if keep else [])]
    result = invoke("fit", tmp_path / "wide.npz", *options)
    assert result.exit_code == 3
    assert (tmp_path / "o").exists() == keep
    if keep:
        solution = jgl.load(tmp_path / "o" / "solution.jgl")
        assert not solution.status and solution.certificate.gap > 0 and "status" in result.stdout


# Folders appear complete or not at all


def contents(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def result_folder(good, tmp_path):
    out = tmp_path / "networks"
    assert invoke("fit", good, "--label", "state", *FIT, "--out", out).exit_code == 0
    return out


def test_a_folder_with_something_in_it_is_kept_unless_told(good, result_folder):
    before = contents(result_folder)
    options = (good, "--label", "state", "--lambda1", "0.1", "--lambda2", "0.1", "--no-figures", "--out", result_folder)
    refused = invoke("fit", *options)
    assert refused.exit_code == 2 and "--overwrite" in refused.stderr and contents(result_folder) == before
    assert invoke("fit", *options, "--overwrite").exit_code == 0
    assert jgl.load(result_folder / "solution.jgl").parameters["lambda1"] == 0.1
    assert {path.name for path in result_folder.parent.iterdir()} == {"good.csv", "networks"}


def test_overwrite_never_removes_what_is_not_ours(good, tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    (home / "thesis.tex").write_text("precious")
    (home / "parameters.json").write_text('{"alpha": 1}')
    result = invoke("fit", good, "--label", "state", *FIT, "--out", home, "--overwrite")
    assert result.exit_code == 2 and "will not be overwritten" in result.stderr
    assert (home / "thesis.tex").read_text() == "precious"


@pytest.mark.parametrize(
    "failing",
    ["jointglasso.write_report", "jointglasso.cli.folder._list_files", "jointglasso.cli.folder.ResultFolder._replace"],
)
def test_a_failure_midway_leaves_the_old_folder_and_nothing_else(good, result_folder, monkeypatch, failing):
    def full(*arguments, **options):
        raise OSError(28, "the disk is full: free some space")

    before = contents(result_folder)
    monkeypatch.setattr(failing, full)
    result = invoke("fit", good, "--label", "state", *FIT, "--out", result_folder, "--overwrite")
    assert result.exit_code == 2 and "disk is full" in result.stderr
    assert contents(result_folder) == before
    assert {path.name for path in result_folder.parent.iterdir()} == {"good.csv", "networks"}


def test_a_file_is_no_folder(good, tmp_path):
    result = invoke("fit", good, "--label", "state", *FIT, "--out", good, "--overwrite")
    assert result.exit_code == 2 and "is a file" in result.stderr and good.read_text() == GOOD


# Small parts


@pytest.mark.parametrize(
    "named, said",
    [
        (("samples_in", "rows"), "--read samples_in=rows"),
        (("subset", ["a b", "c"]), "--classes 'a b,c'"),
        (("subset",), "--classes or --subset"),
        (("names", False), "--read names=false"),
        (("names", "x y"), "--read 'names=x y'"),
        (("missing_markers", ["?x"]), "--read 'missing_markers=?x'"),
        (("label", ...), "--label"),
        (("max_iter",), "--max-iter"),
        (("lambda2", -1.0), "--lambda2 -1"),
        (("criterion", "ebic"), "--select ebic"),
        (("ridge", 0.5), "ridge=0.5"),
    ],
)
def test_arguments_are_spelt_as_options(named, said):
    assert in_options(f"correct {argument(*named)}.", main.commands["fit"]) == f"correct {said}."


def test_options_of_other_commands_keep_the_python_name():
    text = f"raise {argument('max_iter')}, or set {argument('constant', 'isolate')}."
    assert in_options(text, main.commands["doctor"]) == "raise max_iter, or set constant='isolate'."


def test_json_holds_only_what_json_knows():
    found = plain({"a": np.arange(2), "b": np.float64("nan"), "c": (Path("x"), np.bool_(True)), 3: float("inf")})
    assert json.loads(json.dumps(found, allow_nan=False)) == {"a": [0, 1], "b": None, "c": ["x", True], "3": None}


def test_help_needs_neither_numba_nor_pandas():
    code = (
        "import sys; from jointglasso.cli import main; main(['fit', '--help'], standalone_mode=False); "
        "print([m for m in ('numba', 'sklearn', 'pandas', 'matplotlib') if m in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=300)
    assert done.stderr.strip() == "[]"


def test_figures_are_left_out_with_a_word_where_matplotlib_is_missing(good, tmp_path, monkeypatch):
    monkeypatch.setattr("jointglasso.cli.results.find_spec", lambda package: None)
    options = ("--label", "state", "--lambda1", "0.3", "--lambda2", "0.1", "--out", tmp_path / "o")
    result = invoke("fit", good, *options)
    assert result.exit_code == 0 and "jointglasso[plots" in result.stderr
    assert not (tmp_path / "o" / "figures").exists() and (tmp_path / "o" / "report.html").exists()


def test_a_refusal_for_memory_names_the_option(good, tmp_path):
    result = invoke("fit", good, "--label", "state", *FIT, "--max-memory", "1e-9", "--out", tmp_path / "o")
    assert result.exit_code == 2 and "--max-memory" in result.stderr and "max_memory" not in result.stderr
