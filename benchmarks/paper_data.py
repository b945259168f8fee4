"""The default solve on the paper's data against one plain pass over the matrices, to a relative gap of 1e-8.

python benchmarks/paper_data.py            # p=1000, K=2..10, designs A, B, C, the paper's three lambda pairs
python benchmarks/paper_data.py --large    # p=10,000, K=10, lambdas matched by noise degree (about 12 GiB)
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

TOL = 1e-8


def row(label: tuple[object, ...], S: np.ndarray, lambda1: float, lambda2: float, repeats: int) -> None:
    yardstick = plain_pass(S)
    seconds, solution = best_of(repeats, lambda: jgl.solve(S, lambda1, lambda2, tol=TOL))
    hybrid = jgl.screen(S, lambda1, lambda2).largest
    methods = ", ".join(f"{count} {name}" for name, count in solution.methods.items())
    print_row(
        *label,
        f"{seconds:.4f}",
        f"{yardstick:.4f}",
        f"{seconds / yardstick:.1f}",
        f"{solution.certificate.relative_gap:.0e}",
        hybrid,
        solution.partition.largest,
        methods,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--large", action="store_true")
    arguments = parser.parse_args()
    describe_machine()
    print_header(
        "design",
        "p",
        "K",
        "lambdas",
        "solve s",
        "one pass s",
        "ratio",
        "gap",
        "Algorithm 1 biggest",
        "dynamic biggest",
        "groups by method",
    )
    if arguments.large:
        p, n_classes = 10_000, 10
        data = jgl.datasets.make_joint_ggm("A", p, n_classes, output="covariances", random_state=0)
        S = np.empty((n_classes, p, p))
        for k, matrix in enumerate(data.iter_covariances()):
            S[k] = matrix
            del matrix
        jgl.solve(S[:, :50, :50], 0.1, 0.1)
        for name in PAPER_LAMBDAS:
            row(("A", p, n_classes, name), S, *matched_lambdas(name, p), repeats=1)
        print(
            f"# peak memory beyond the input, making the data included: {peak_mebibytes() - S.nbytes / 2**20:.0f} MiB"
        )
        return
    for design in DESIGNS:
        for n_classes in range(2, 11):
            S = paper_covariances(design, 1000, n_classes)
            for name, (lambda1, lambda2) in PAPER_LAMBDAS.items():
                row((design, 1000, n_classes, name), S, lambda1, lambda2, repeats=3)


if __name__ == "__main__":
    main()
