"""How the cost of the default solve grows with variables, classes and edges; fitted exponents.

python benchmarks/growth.py
"""

from __future__ import annotations

import numpy as np

import jointglasso as jgl
from common import best_of, describe_machine, matched_lambdas, paper_covariances, print_header, print_row


def exponent(sizes: list[float], seconds: list[float]) -> float:
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])


def table(what: str, rows: list[tuple[float, np.ndarray, float, float]]) -> None:
    print_header(what, "seconds", "biggest block", "edges per variable and class", "gap")
    sizes, times = [], []
    for size, S, lambda1, lambda2 in rows:
        seconds, solution = best_of(2, lambda: jgl.solve(S, lambda1, lambda2))  # noqa: B023
        edges = np.mean(solution.n_edges) / S.shape[1]
        print_row(f"{size:g}", f"{seconds:.4f}", solution.partition.largest, f"{edges:.2f}",
                  f"{solution.certificate.relative_gap:.0e}")  # fmt: skip
        sizes.append(size if what != "edges" else edges)
        times.append(seconds)
    print(f"# fitted exponent of the time in {what}: {exponent(sizes, times):.2f}\n")


def main() -> None:
    describe_machine()
    jgl.warm_kernels()
    table("p", [(p, paper_covariances("A", p, 3), *matched_lambdas("P3", p)) for p in (500, 1000, 2000, 4000)])
    table("K", [(k, paper_covariances("A", 1000, k), *matched_lambdas("P3", 1000)) for k in (2, 5, 10, 20)])
    modules = jgl.datasets.make_joint_ggm("modules", 1000, 3, n_samples=100, n_blocks=20, random_state=0).covariances
    table("edges", [(0, modules, lam, 0.1) for lam in (0.5, 0.45, 0.4, 0.37, 0.35)])


if __name__ == "__main__":
    main()
