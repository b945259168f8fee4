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
    paper_covariances,
    peak_mebibytes,
    plain_pass,
    print_header,
    print_row,
)

RULES = ("global", "class", "hybrid", "strong")


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
    source = jgl.datasets.make_joint_ggm("A", p, n_classes, output="covariances", random_state=0)
    S = np.empty((n_classes, p, p))
    for k, matrix in enumerate(source.iter_covariances()):
        S[k] = matrix
        del matrix
    print_header("p", "K", "lambdas", "what", "seconds", "one pass s", "ratio", "biggest", "cost", "MiB beyond input")
    jgl.warm_kernels()
    for name in PAPER_LAMBDAS:
        lambda1, lambda2 = matched_lambdas(name, p)
        yardstick = plain_pass(S)
        for rule in RULES:
            seconds, part = best_of(1, lambda: jgl.screen(S, lambda1, lambda2, rule=rule))  # noqa: B023
            print_row(
                p,
                n_classes,
                name,
                rule,
                f"{seconds:.2f}",
                f"{yardstick:.2f}",
                f"{seconds / yardstick:.2f}",
                part.largest,
                f"{part.cost:.2e}",
                f"{peak_mebibytes() - S.nbytes / 2**20:.0f}",
            )
        seconds, solution = best_of(1, lambda: jgl.solve(S, lambda1, lambda2, tol=1e-8))  # noqa: B023
        part, memory = solution.partition, peak_mebibytes() - S.nbytes / 2**20
        ratio = f"{seconds / yardstick:.2f}"
        print_row(p, n_classes, name, "whole solve, gap 1e-8", f"{seconds:.2f}", f"{yardstick:.2f}", ratio,
                  part.largest, f"{part.cost:.2e}", f"{memory:.0f}")  # fmt: skip
    print("# MiB beyond input: peak of the whole process, making the data included, so an upper bound")


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
