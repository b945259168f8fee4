"""The examples run as they are, and say what they should."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"

SAID = {
    "class_weights.py": ["largest difference: ", "convex: [12, 18] edges", "adaptive by class: [12, 16] edges"],
    "first_fit.py": ["Converged after", "that is proved", "variable1", "jaccard"],
    "choosing_lambda.py": ["Chosen: lambda1", "edges by class", "selection.png"],
    "two_conditions.py": ["KIRC", "maximum", "AMPK_alpha     B-Raf"],
    "prior_knowledge.py": ["without prior knowledge: TP53-CDKN1A, TP53-MDM2", "with prior knowledge: TP53-MDM2"],
    "same_or_different.py": ["edges of one value in all six: 710, 70", "'LGG': 5"],
    "twenty_thousand_variables.py": ["blocks of at most 300 variables", "Converged after"],
}


TUTORIALS = sorted((EXAMPLES.parent / "docs" / "tutorials").glob("tutorial_*.py"))

#: Runs a script in its folder and looks for the figure among its variables.
LOOK = """
import runpy, sys
from matplotlib.figure import Figure
assert any(isinstance(value, Figure) for value in runpy.run_path(sys.argv[1]).values())
"""


@pytest.mark.parametrize("path", TUTORIALS, ids=lambda path: path.stem)
def test_every_tutorial_ends_in_a_figure(path):
    pytest.importorskip("anndata")
    command = [sys.executable, "-W", "ignore", "-c", LOOK, path.name]
    environment = os.environ | {"MPLBACKEND": "Agg"}
    done = subprocess.run(command, cwd=path.parent, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_every_example_is_known():
    assert sorted(SAID) == sorted(path.name for path in EXAMPLES.glob("*.py"))


def run(name, folder):
    done = subprocess.run([sys.executable, EXAMPLES / name], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for words in SAID[name]:
        assert words in done.stdout, done.stdout


@pytest.mark.parametrize("name", [name for name in SAID if not name.startswith("twenty")])
def test_example(name, tmp_path):
    run(name, tmp_path)


@pytest.mark.slow
def test_twenty_thousand_variables(tmp_path):
    run("twenty_thousand_variables.py", tmp_path)
