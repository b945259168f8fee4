"""Compare the results of two checkouts bit for bit: objective, relative gap, support and the choice of `select`.

    python benchmarks/same_results.py OLD NEW        two folders with a checkout each; exit status 1 on any difference
    python benchmarks/same_results.py OLD NEW --only fused

A change that only renames, moves or documents must leave every number as it is. Each checkout solves the same bank of
small problems in a process of its own (its ``src`` first on the path), and only documented names are used, so that the
two may differ in everything else.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd


def covariances(n_classes: int, p: int, n: int = 30, seed: int = 0, factor: float = 0.4) -> np.ndarray:
    """(K, p, p) sample covariances with one factor that all variables share; class k has n + 5 k samples."""
    draw = np.random.default_rng(seed)
    shared = draw.standard_normal(p)
    out = []
    for k in range(n_classes):
        X = draw.standard_normal((n + 5 * k, p)) + factor * draw.standard_normal((n + 5 * k, 1)) * shared
        X -= X.mean(axis=0)
        out.append(X.T @ X / len(X))
    return np.stack(out)


def samples(n_classes: int, p: int, n: int = 40, seed: int = 0) -> dict[str, np.ndarray]:
    """Samples by class from chains of variables."""
    draw = np.random.default_rng(seed)
    out = {}
    for k in range(n_classes):
        X = draw.standard_normal((n + 10 * k, p))
        X[:, 1:] += 0.6 * X[:, :-1]
        out[f"class{k}"] = X
    return out


def bank() -> dict[str, Callable[[Any], Any]]:
    """Name of each problem, and a function of the package that solves it."""
    S2, S3, S6 = covariances(2, 15), covariances(3, 20, seed=1), covariances(6, 12, seed=2)
    cases: dict[str, Callable[[Any], Any]] = {}

    def solve(name: str, S: Any, *lambdas: float, **options: Any) -> None:
        cases[name] = lambda jgl: jgl.solve(S, *lambdas, **options)

    for rule in ("dynamic", "hybrid", "class", "global", "none"):
        solve(f"group, screening {rule}", S3, 0.25, 0.1, screening=rule)
    for rule in ("dynamic", "global", "none"):
        solve(f"fused, screening {rule}", S3, 0.2, 0.1, penalty="fused", screening=rule)
    solve("fused diagonal", S3, 0.2, 0.1, penalty="fused", fuse_diagonal=True)
    solve("chain of six classes", S6, 0.2, 0.1, penalty="chain")
    solve("graph", S3, 0.2, 0.1, penalty="graph", class_graph=[(0, 1), (1, 2, 0.5)])
    solve("laplacian", S3, 0.2, 0.3, penalty="laplacian")
    solve("one class", S2[:1], 0.2, 0.0)
    solve("six classes", S6, 0.25, 0.1)
    solve("separate classes", S2, 0.2, 0.0)
    for solver in ("admm", "newton", "proximal_gradient"):
        solve(f"group, solver {solver}", S2, 0.15, 0.1, solver=solver)
    solve("fused, solver admm", S2, 0.15, 0.1, penalty="fused", solver="admm")
    solve("small gap", S3, 0.15, 0.05, tol=1e-10)
    solve("small gap, fused", S3, 0.15, 0.05, penalty="fused", tol=1e-10)
    solve("diagonal without a penalty", S3, 0.25, 0.1, penalize_diagonal=False)
    solve("weights of classes", S3, 0.3, 0.1, weights=[1.0, 2.0, 0.5])
    factor = np.ones((15, 15))
    factor[:3, 5:9] = factor[5:9, :3] = 0.3
    factor[1, 12] = factor[12, 1] = np.inf
    solve("weights of pairs", S2, 0.2, 0.1, pair_weights=factor)
    solve("weights of pairs, fused", S2, 0.2, 0.1, penalty="fused", pair_weights=factor)
    solve("latent variables", S2, 0.15, 0.05, latent=0.5)
    solve("large group", covariances(2, 300, n=60, seed=3), 0.2, 0.1)
    solve("large group, fused", covariances(2, 300, n=60, seed=3), 0.25, 0.1, penalty="fused")
    solve("two threads", covariances(3, 150, n=40, seed=4, factor=0.0), 0.4, 0.1, n_jobs=2)

    def missing(jgl: Any, penalty: str) -> Any:
        names = np.array([f"v{i}" for i in range(12)])
        frames = {}
        for k, matrix in enumerate(covariances(3, 12, seed=5)):
            present = np.setdiff1d(np.arange(12), [[], [3, 7], [0, 3]][k]).astype(int)
            frames[f"class{k}"] = pd.DataFrame(matrix[np.ix_(present, present)], names[present], names[present])
        return jgl.solve(jgl.DenseCovariance(frames, variables="union"), 0.2, 0.1, penalty=penalty)

    cases["missing variables, group"] = lambda jgl: missing(jgl, "group")
    cases["missing variables, chain"] = lambda jgl: missing(jgl, "chain")
    cases["path"] = lambda jgl: list(jgl.solve_path(S3, [(0.5, 0.1), (0.3, 0.1), (0.2, 0.05)]))
    cases["select jbic"] = lambda jgl: jgl.select(samples(2, 10))
    cases["select ebic, fused"] = lambda jgl: jgl.select(samples(2, 8), criterion="ebic", penalty="fused")
    cases["select cv"] = lambda jgl: jgl.select(samples(2, 8), criterion="cv", cv=3, random_state=0)
    return cases


def facts(result: Any) -> Any:
    """What must not change of a solution, a path or a selection; floating point numbers in hexadecimal."""
    if isinstance(result, list):
        return [facts(one) for one in result]
    if hasattr(result, "solution") and hasattr(result, "grid"):
        return {"lambda1": result.lambda1.hex(), "lambda2": result.lambda2.hex(), **facts(result.solution)}
    certificate = result.certificate
    matrices = [np.asarray(Theta.toarray() if hasattr(Theta, "toarray") else Theta) for Theta in result.precision]
    digest = hashlib.sha256()
    for Theta in matrices:
        digest.update(np.ascontiguousarray(Theta).tobytes())
    return {
        "objective": float(result.objective).hex(),
        "relative gap": float(certificate.relative_gap).hex(),
        "edges": [int(np.count_nonzero(np.triu(Theta, 1))) for Theta in matrices],
        "support": hashlib.sha256(b"".join((Theta != 0).tobytes() for Theta in matrices)).hexdigest()[:16],
        "precision": digest.hexdigest()[:16],
        "iterations": int(result.n_iter),
    }


def results(only: str) -> dict[str, Any]:
    """Facts of all problems, from the package that this process imports; an error is a result, too."""
    import jointglasso as jgl

    out: dict[str, Any] = {"package": str(Path(jgl.__file__).parent)}
    for name, function in bank().items():
        if only in name:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    out[name] = facts(function(jgl))
                except Exception as error:
                    out[name] = f"{type(error).__name__}: {error}"
    return out


def run(checkout: Path, only: str) -> dict[str, Any]:
    """The results of one checkout, in a process of its own."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(checkout / "src"),
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
    }
    command = [sys.executable, str(Path(__file__).resolve()), "--print", "--only", only]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=checkout, check=False)
    if done.returncode:
        sys.exit(f"{checkout}: {done.stderr}")
    found: dict[str, Any] = json.loads(done.stdout)
    if Path(found.pop("package")) != checkout / "src" / "jointglasso":
        sys.exit(f"{checkout} was not imported from its own src.")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", type=Path, nargs="?")
    parser.add_argument("new", type=Path, nargs="?")
    parser.add_argument("--only", default="", help="Problems whose names contain this.")
    parser.add_argument("--print", action="store_true", help="Print the results of the package on the path.")
    arguments = parser.parse_args()
    if arguments.print:
        print(json.dumps(results(arguments.only)))
        return 0
    if arguments.old is None or arguments.new is None:
        parser.error("two checkouts are needed")
    old, new = (run(checkout.resolve(), arguments.only) for checkout in (arguments.old, arguments.new))
    different = [name for name in old if old[name] != new.get(name)]
    failed = [name for name in old if isinstance(old[name], str)]
    for name in old:
        print(f"{'DIFFERENT' if name in different else 'error' if name in failed else 'equal':10} {name}")
    for name in different:
        print(f"\n{name}\n  old {old[name]}\n  new {new.get(name)}")
    for name in set(failed) - set(different):
        print(f"\n{name}: {old[name]}")
    print(f"{len(old) - len(different)} of {len(old)} problems equal")
    return int(bool(different or failed or not old))


if __name__ == "__main__":
    sys.exit(main())
