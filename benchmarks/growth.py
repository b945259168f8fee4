"""How the cost of the default solve grows with variables, classes and edges; fitted exponents.

python benchmarks/growth.py
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

import jointglasso as jgl
from common import best_of, describe_machine, matched_lambdas, paper_covariances, print_header, print_row
from synthetic import make_joint_ggm


def exponent(sizes: list[float], seconds: list[float]) -> float:
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])


def table(what: str, cases: Iterable[tuple[str, np.ndarray, float, float]]) -> None:
    """One row per case; the growth is fitted against p, K or the edges found, as `what` says."""
    print_header("case", "p", "K", "edges per variable and class", "seconds", "biggest block", "gap")
    sizes, times = [], []
    for case, S, lambda1, lambda2 in cases:
        seconds, solution = best_of(2, lambda: jgl.solve(S, lambda1, lambda2))  # noqa: B023
        edges = float(np.mean(solution.n_edges)) / S.shape[1]
        print_row(case, S.shape[1], len(S), f"{edges:.2f}", f"{seconds:.4f}", solution.partition.largest,
                  f"{solution.certificate.relative_gap:.0e}")  # fmt: skip
        sizes.append({"p": S.shape[1], "K": len(S), "edges": edges}[what])
        times.append(seconds)
    print(f"# fitted exponent of the time in {what}: {exponent(sizes, times):.2f}\n")


def thirty_each(p: int) -> np.ndarray:
    """Type A with as many edges per variable as at p=1000: with 3 % of the pairs all rules percolate at large p."""
    return make_joint_ggm("A", p, 3, density=30 / p, output="covariances", random_state=0).covariances


def main() -> None:
    describe_machine()
    jgl.warm_kernels()
    sizes = (500, 1000, 2000, 5000, 10_000)
    table("p", (("type A, 30 edges each", thirty_each(p), *matched_lambdas("P3", p)) for p in sizes))
    table("K", (("type A", paper_covariances("A", 1000, k), *matched_lambdas("P3", 1000)) for k in (2, 5, 10, 20)))
    modules = make_joint_ggm("modules", 1000, 3, n_samples=100, n_blocks=20, random_state=0).covariances
    lambdas = (0.5, 0.45, 0.4, 0.35, 0.3, 0.25, 0.2)
    table("edges", ((f"modules, {lam:g}", modules, lam, 0.1) for lam in lambdas))


if __name__ == "__main__":
    main()
