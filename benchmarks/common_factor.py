"""Groups correlated throughout: the default beside ADMM alone, in seconds of processor time, and what `plan` foretold.

    python benchmarks/common_factor.py [--sizes 300 700] [--returns PRICES.csv.gz]

One factor as in `peers/problems.py`, and daily returns in two halves where a table of prices is given. GGLasso is
compared by ``python benchmarks/peers/run.py --only "one factor"``.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator

import numpy as np

import jointglasso as jgl
from common import describe_machine, print_header, print_row
from peers.problems import one_factor


def returns(file: str) -> np.ndarray:
    """Correlations of daily returns in two halves of the time."""
    import pandas as pd

    prices = pd.read_csv(file).select_dtypes("number").to_numpy()
    moves = np.diff(np.log(prices), axis=0)
    moves = moves[:, np.isfinite(moves).all(axis=0) & (moves.std(axis=0) > 0)]
    return np.stack([np.corrcoef(half.T) for half in np.array_split(moves, 2)])


def problems(sizes: list[int], file: str | None) -> Iterator[tuple[str, np.ndarray, float, float]]:
    for p in sizes:
        for lambda1 in (0.1, 0.3):
            yield f"one factor, p={p}", *one_factor(p, lambda1)
    if file is not None:
        S = returns(file)
        for lambda1 in (0.1, 0.2):
            yield f"returns, p={S.shape[1]}", S, lambda1, 0.3 * lambda1


def seconds(S: np.ndarray, lambda1: float, lambda2: float, solver: str) -> tuple[float, jgl.Solution]:
    began = time.process_time()
    solution = jgl.solve(S, lambda1, lambda2, solver=solver, penalize_diagonal=False)
    return time.process_time() - began, solution


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", nargs="*", type=int, default=[300])
    parser.add_argument("--returns", metavar="FILE", help="daily prices, a column for each share")
    options = parser.parse_args()
    describe_machine()
    seconds(*one_factor(100, 0.1), "auto")  # compiles
    print_header("data", "lambda1", "edges, share", "plan s", "default s", "gap", "ADMM s", "gap", "ratio")
    for name, S, lambda1, lambda2 in problems(options.sizes, options.returns):
        foretold = jgl.plan(S, lambda1, lambda2, penalize_diagonal=False).seconds
        (quick, ours), (slow, admm) = (seconds(S, lambda1, lambda2, solver) for solver in ("auto", "admm"))
        p = S.shape[1]
        share = np.mean(ours.n_edges) / (p * (p - 1) / 2)
        gaps = [f"{found.certificate.relative_gap:.0e}" for found in (ours, admm)]
        times = f"{foretold:.2f}", f"{quick:.2f}", gaps[0], f"{slow:.1f}", gaps[1], f"{slow / quick:.1f}"
        print_row(name, lambda1, f"{share:.2f}", *times)


if __name__ == "__main__":
    main()
