"""JGL in R: ADMM with screening by connected components, the same in all classes.

It takes data, not covariances, centres them and divides by n: plus and minus a square root of S, times the root of p,
are 2p rows of mean zero whose covariance is S. R measures its own time and memory, reading and writing excluded.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

import numpy as np

from peers.adapters import Peer, fitting_rho
from peers.problems import Problem

SCRIPT = Path(__file__).with_name("jgl.R")


class JGL(Peer):
    name = package = "JGL"
    ladder = (1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8)

    def available(self) -> str:
        if not shutil.which("Rscript"):
            return "Rscript not found"
        return "" if self.versions() else "install.packages('JGL') in R"

    def versions(self) -> str:
        """Empty where the package is not there."""
        told = _rscript("-e", "cat('JGL', format(packageVersion('JGL')), 'on', R.version.string)", check=False)
        return told.stdout if told.returncode == 0 else ""

    def solve(self, problem: Problem, tolerance: float) -> list[np.ndarray]:
        n_classes, p, _ = problem.S.shape
        with tempfile.TemporaryDirectory() as folder:
            rows, found = Path(folder, "rows"), Path(folder, "found")
            np.stack([data_with_covariance(S).T for S in problem.S]).tofile(rows)  # R stores by columns
            numbers = (n_classes, p, problem.lambda1, problem.lambda2, fitting_rho(problem), tolerance)
            told = _rscript(SCRIPT, rows, found, *(repr(number) for number in numbers))
            seconds, mebibytes = map(float, told.stdout.split()[-2:])
            self.measured = seconds, mebibytes
            return list(np.fromfile(found).reshape(n_classes, p, p))


def data_with_covariance(S: np.ndarray) -> np.ndarray:
    """2p rows of mean zero with covariance S, dividing by their number."""
    values, vectors = np.linalg.eigh(S)
    root = np.sqrt(len(S) * np.maximum(values, 0.0))[:, None] * vectors.T
    return np.concatenate([root, -root])


def _rscript(*arguments: object, check: bool = True) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(["Rscript", "--vanilla", *map(str, arguments)], capture_output=True, text=True, check=False)
    if check and done.returncode:
        raise RuntimeError(f"R: {' '.join(done.stderr.split())[-200:]}")
    return done
