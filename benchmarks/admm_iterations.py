"""Seconds per iteration of the paper's four methods: ADMM, GADMM, LADMM and HADMM.

python benchmarks/admm_iterations.py
"""

from __future__ import annotations

import warnings

import numpy as np

import jointglasso as jgl
from common import PAPER_LAMBDAS, describe_machine, paper_covariances, print_header, print_row

METHODS = {"ADMM": "none", "GADMM": "global", "LADMM": "class", "HADMM": "hybrid"}


def seconds_per_iteration(S: np.ndarray, lambda1: float, lambda2: float, screening: str) -> float:
    """Median time between two iterations, gap checks left out; every variable is iterated, alone or not."""
    stamps: list[float] = []
    solver = jgl.ADMM(check_every=1000, include_isolated=True, accelerate=False)
    n_iter = 4 if screening != "hybrid" else 12
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", jgl.ConvergenceWarning)
        jgl.solve(
            S,
            lambda1,
            lambda2,
            screening=screening,
            solver=solver,
            max_iter=n_iter,
            callback=lambda step: stamps.append(step.seconds) and None,
        )
    return float(np.median(np.diff(stamps[:-1])))


def main() -> None:
    describe_machine()
    print_header(
        "design", "K", "lambdas", *(f"{m} s/iteration" for m in METHODS), "ADMM / HADMM", "HADMM biggest block"
    )
    for design in ("A", "C40", "C10"):
        for n_classes in (2, 3, 6, 10):
            S = paper_covariances(design, 1000, n_classes)
            name = "P3"
            lambda1, lambda2 = PAPER_LAMBDAS[name]
            seconds = {m: seconds_per_iteration(S, lambda1, lambda2, rule) for m, rule in METHODS.items()}
            biggest = jgl.screen(S, lambda1, lambda2).largest
            print_row(
                design,
                n_classes,
                name,
                *(f"{s:.4f}" for s in seconds.values()),
                f"{seconds['ADMM'] / seconds['HADMM']:.0f}",
                biggest,
            )


if __name__ == "__main__":
    main()
