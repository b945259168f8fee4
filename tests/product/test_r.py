"""The blocks of the page about R run as they are, and say the same as Python; skipped without R or its packages."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import jointglasso as jgl

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "r.md"

#: Printed after the blocks, for comparison with Python.
BESIDE = """
write.table(setosa, "setosa.txt")
write.table(as.matrix(X), "X.txt", row.names = FALSE, col.names = FALSE)
stopifnot(isSymmetric(setosa), all(diag(setosa) == 0), is.numeric(frame(tested$differences())$q_value))
cat("\\nall blocks ran\\n")
"""


def has_packages() -> bool:
    if shutil.which("Rscript") is None:
        return False
    need = "quit(status = !all(sapply(c('reticulate', 'qgraph'), requireNamespace, quietly = TRUE)))"
    return subprocess.run(["Rscript", "--vanilla", "-e", need], capture_output=True, check=False).returncode == 0


@pytest.mark.skipif(not has_packages(), reason="needs R with reticulate and qgraph")
def test_every_block_runs_and_gives_the_matrices_of_python(tmp_path):
    blocks = re.findall(r"```r\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)
    assert len(blocks) == 5
    (tmp_path / "page.R").write_text("\n".join(blocks) + BESIDE, encoding="utf-8")
    paths = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    environment = os.environ | {"RETICULATE_PYTHON": sys.executable, "PYTHONPATH": paths}
    done = subprocess.run(
        ["Rscript", "--vanilla", "page.R"], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "all blocks ran" in done.stdout and "converged=True" in done.stdout
    assert "4 in virginica" in done.stdout and "adaptive" in done.stdout
    assert (tmp_path / "networks.pdf").stat().st_size > 1000
    X = np.loadtxt(tmp_path / "X.txt")
    chosen = jgl.select(X, np.repeat(["setosa", "versicolor", "virginica"], 50))
    networks = jgl.JointNetworks.from_solution(chosen.solution)
    found = np.loadtxt(tmp_path / "setosa.txt", skiprows=1, usecols=range(1, 5))
    assert np.allclose(found + np.eye(4), networks.partial_correlations("setosa").to_numpy(), atol=1e-9)
