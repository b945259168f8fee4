"""Real genes with big coupled blocks: time to a relative gap of 1e-6 against one Cholesky factor and inverse.

    python benchmarks/real_genes.py FILE.npz --p 1000 --lambdas 0.6,0.1 0.5,0.1 0.4,0.1 [--profile]

FILE holds X (samples x genes) and y (labels): TCGA Agilent expression of KIRC, READ and UCEC, tumours only. The p genes
of largest variance, correlations by class. The yardstick is dpotrf + dpotri of the solution's own class blocks on the
same threads, timed in the same run.
"""

from __future__ import annotations

import argparse
import cProfile
import pstats

import numpy as np
from scipy.linalg import lapack
from scipy.sparse.csgraph import connected_components

import jointglasso as jgl
from common import best_of, describe_machine, peak_mebibytes, print_header, print_row


def load(path: str, p: int) -> np.ndarray:
    with np.load(path) as stored:
        X, y, samples = stored["X"], stored["y"], stored["samples"]
    tumour = np.array([name[13:15] == "01" for name in samples])
    complete = np.isfinite(X).all(axis=0)
    X, y = X[tumour][:, complete], y[tumour]
    chosen = np.sort(np.argsort(-X.var(axis=0))[:p])
    # In NumPy, so that older versions of the package can be measured on the same matrices.
    labels = list(dict.fromkeys(y.tolist()))
    return np.stack([np.corrcoef(X[y == label][:, chosen], rowvar=False) for label in labels])


def blocks_of(solution: jgl.Solution) -> list[np.ndarray]:
    found = []
    for Theta in solution.precision:
        _, label = connected_components(Theta, directed=False)
        for component in np.flatnonzero(np.bincount(label) > 1):
            members = np.flatnonzero(label == component)
            found.append(np.asfortranarray(Theta[members][:, members].toarray()))
    return found


def factor_and_invert(blocks: list[np.ndarray]) -> None:
    for block in blocks:
        factor, _ = lapack.dpotrf(block, lower=1)
        lapack.dpotri(factor, lower=1, overwrite_c=1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file")
    parser.add_argument("--p", type=int, default=1000)
    parser.add_argument("--lambdas", nargs="+", default=["0.6,0.1", "0.5,0.1", "0.4,0.1"])
    parser.add_argument("--solvers", nargs="+", default=["auto"])
    parser.add_argument("--repeats", type=int, default=3, help="the best of so many solves, and of as many yardsticks")
    parser.add_argument("--profile", action="store_true")
    arguments = parser.parse_args()
    describe_machine()
    jgl.warm_kernels()
    S = load(arguments.file, arguments.p)
    print_header("p", "K", "lambdas", "solver", "seconds", "yardstick s", "ratio", "iterations", "gap",
                 "biggest blocks", "edges per variable", "MiB")  # fmt: skip
    for pair in arguments.lambdas:
        lambda1, lambda2 = map(float, pair.split(","))
        for solver in arguments.solvers:
            seconds, solution = best_of(
                arguments.repeats,
                lambda: jgl.solve(S, lambda1, lambda2, solver=solver, tol=1e-6),  # noqa: B023
            )
            blocks = blocks_of(solution)
            yardstick, _ = best_of(max(3, arguments.repeats), lambda: factor_and_invert(blocks))  # noqa: B023
            labels = [connected_components(Theta, directed=False)[1] for Theta in solution.precision]
            biggest = [max(np.bincount(label)) for label in labels]
            edges = "/".join(f"{n / arguments.p:.1f}" for n in solution.n_edges)
            cells = (f"{seconds:.2f}", f"{yardstick:.3f}", f"{seconds / yardstick:.1f}", solution.n_iter)
            gap = f"{solution.certificate.relative_gap:.0e}"
            memory = f"{peak_mebibytes():.0f}"
            print_row(arguments.p, len(S), pair, solver, *cells, gap, "/".join(map(str, biggest)), edges, memory)
            if arguments.profile:
                profile = cProfile.Profile()
                profile.runcall(jgl.solve, S, lambda1, lambda2, solver=solver, tol=1e-6)
                pstats.Stats(profile).sort_stats("tottime").print_stats(15)


if __name__ == "__main__":
    main()
