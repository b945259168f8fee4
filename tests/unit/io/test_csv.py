"""Names that a spreadsheet would take for formulas: harmless where CSV is written, themselves where it is read."""

import csv
import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, strategies as st

import jointglasso as jgl
from jointglasso import _files
from jointglasso._files import harmless, original
from jointglasso.cli.results import write_table
from jointglasso.cli.solving import read_pair_weights

FORMULAS = ["=cmd|' /C calc'!A0", "+1+1", "-2+3", "@SUM(A1)", "\t=1", "'=1", "''-x", "\r=2"]
HONEST = ["TP53", "'quoted'", "5'-nt", "", "a=b", "1-2", "é", "'"]

words = st.text("=+-@'\t\r\nab1 ", max_size=6)


@given(words)
def test_what_is_made_harmless_comes_back(word):
    assert original(harmless(word)) == word
    assert not harmless(word).startswith(("=", "+", "-", "@", "\t", "\r", "\n"))


@given(words, words)
def test_different_words_stay_different(one, two):
    assert (harmless(one) == harmless(two)) == (one == two)


@pytest.mark.parametrize("cell", [*HONEST, -1.5, 3, None, True])
def test_everything_else_stays_as_it_is(cell):
    assert harmless(cell) is cell
    assert not isinstance(cell, str) or original(cell) == cell


def cells_of(path):
    with path.open(encoding="utf-8", newline="") as stream:
        return [cell for row in csv.reader(stream) for cell in row]


def networks_of(names, classes):
    Theta = np.eye(len(names)) * 2
    Theta[0] = Theta[:, 0] = -0.1
    Theta[0, 0] = 2
    return jgl.JointNetworks([Theta] * len(classes), classes, names)


def dangerous(cells):
    """Words, not numbers, that a spreadsheet would run."""
    return [cell for cell in cells if cell[:1] in tuple("=+-@\t\r") and cell and not is_number(cell)]


def is_number(cell):
    try:
        float(cell)
    except ValueError:
        return False
    return True


def test_edge_tables_hold_no_formula(tmp_path):
    names = [name for name in FORMULAS if "\r" not in name]
    networks = networks_of(names, ["=a", "b"])
    cells = cells_of(networks.export(tmp_path / "edges.csv"))
    assert dangerous(cells) == [] and "'=a" in cells
    assert {original(cell) for cell in cells} >= {*names, "=a"}
    assert any(is_number(cell) and float(cell) < 0 for cell in cells), "negative numbers stay numbers"


def test_tables_of_the_command_line_hold_no_formula(tmp_path):
    write_table(tmp_path / "a.csv", {"edges[=a]": [1, 2], "=b": ["=c", "-0.5x"], "x": [-1.5, 2.0]})
    cells = cells_of(tmp_path / "a.csv")
    assert dangerous(cells) == [] and "-1.5" in cells


def test_data_whose_names_were_made_harmless_get_them_back(tmp_path):
    path = tmp_path / "data.csv"
    path.write_text("'=kind,'-log10,5'-nt\n'+a,1,2\n'+a,'-2,1\nb,3,3\nb,5,4\n")
    table = jgl.io.read_table(path, label="=kind")
    assert table.variable_names == ("-log10", "5'-nt") and table.classes == {"+a": 2, "b": 2}
    assert table.X[1, 0] == -2


def test_pair_weights_name_variables_as_they_are(tmp_path):
    (tmp_path / "w.csv").write_text("variable1,variable2,weight\n'=x,y,0.5\n")
    assert read_pair_weights(tmp_path / "w.csv") == {("=x", "y"): 0.5}


MODEL = Path(jgl.__file__).parent / "report" / "page" / "model.js"


def test_the_report_knows_the_same_formulas():
    assert f"/^{_files._FORMULA.pattern}/" in MODEL.read_text("utf-8")


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node")
def test_what_the_report_saves_holds_no_formula(tmp_path):
    rows = [["name", -1.5, None, *FORMULAS, *HONEST]]
    script = f"{MODEL.read_text('utf-8')}\nprocess.stdout.write(csvText({json.dumps(rows)}));"
    (tmp_path / "script.js").write_text(script)
    done = subprocess.run(["node", tmp_path / "script.js"], capture_output=True, check=True, timeout=300)
    (tmp_path / "out.csv").write_bytes(done.stdout)
    found = cells_of(tmp_path / "out.csv")
    assert found == ["name", "-1.5", "", *map(harmless, FORMULAS), *HONEST]
