"""Screening: seconds, biggest block and cost of the rules, against one plain pass over the matrices.

python benchmarks/screening.py            # p=1000, K=2..10, all designs
python benchmarks/screening.py --large    # p=10,000, K=10 (needs about 12 GiB)
"""

from __future__ import annotations

import argparse

import numpy as np

import jointglasso as jgl
from common import (
    DESIGNS,
    PAPER_LAMBDAS,
    best_of,
    describe_machine,
    matched_lambdas,
    memory_of,
    paper_covariances,
    plain_pass,
    print_header,
    print_row,
)
from synthetic import make_joint_ggm

RULES = ("global", "class", "hybrid", "dynamic")


def paper_sizes() -> None:
    print_header(
        "design",
        "K",
        "lambdas",
        "hybrid s",
        "one pass s",
        "ratio",
        *(f"{rule} biggest / cost" for rule in RULES),
        "hybrid / best other cost",
    )
    for design in DESIGNS:
        for n_classes in (2, 3, 6, 10):
            S = paper_covariances(design, 1000, n_classes)
            for name, (lambda1, lambda2) in PAPER_LAMBDAS.items():
                yardstick = plain_pass(S)
                seconds, _ = best_of(3, lambda: jgl.screen(S, lambda1, lambda2))  # noqa: B023
                found = {rule: jgl.screen(S, lambda1, lambda2, rule=rule) for rule in RULES}
                other = min(found["global"].cost, found["class"].cost)
                print_row(
                    design,
                    n_classes,
                    name,
                    f"{seconds:.3f}",
                    f"{yardstick:.3f}",
                    f"{seconds / yardstick:.1f}",
                    *(f"{part.largest} / {part.cost:.1e}" for part in found.values()),
                    f"{found['hybrid'].cost / other:.1e}",
                )


def large(p: int, n_classes: int) -> None:
    # As many edges per variable as at p=1000. With the paper's 97 % zeros there would be 300, whose covariances stand
    # 1.3 standard errors above the noise at n=5p: then every rule percolates at these lambdas, and rightly so.
    data = make_joint_ggm("A", p, n_classes, density=30 / p, output="covariances", random_state=0)
    S = np.empty((n_classes, p, p))
    for k, matrix in enumerate(data.iter_covariances()):
        S[k] = matrix
        del matrix
    print_header("p", "K", "lambdas", "what", "seconds", "one pass s", "ratio", "biggest", "cost", "MiB beyond input")
    jgl.warm_kernels()
    for name in ("P1", "P3"):
        lambda1, lambda2 = matched_lambdas(name, p)
        yardstick = plain_pass(S)
        work = {rule: lambda rule=rule: jgl.screen(S, lambda1, lambda2, rule=rule) for rule in RULES}  # noqa: B023
        work["whole solve, gap 1e-8"] = lambda: jgl.solve(S, lambda1, lambda2, tol=1e-8)  # noqa: B023
        for what, function in work.items():
            seconds, memory, result = memory_of(function)
            part = result if isinstance(result, jgl.Partition) else result.partition
            ratio = f"{seconds / yardstick:.2f}"
            print_row(p, n_classes, name, what, f"{seconds:.2f}", f"{yardstick:.2f}", ratio, part.largest,
                      f"{part.cost:.2e}", f"{memory:.0f}")  # fmt: skip


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--large", action="store_true")
    parser.add_argument("--p", type=int, default=10_000)
    parser.add_argument("--classes", type=int, default=10)
    arguments = parser.parse_args()
    describe_machine()
    if arguments.large:
        large(arguments.p, arguments.classes)
    else:
        paper_sizes()
