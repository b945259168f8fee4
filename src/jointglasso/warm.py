"""Compiling every kernel once, so that the first real solve need not wait."""

from __future__ import annotations

import time

import numpy as np


def warm_kernels() -> float:
    """Run small problems through every solver and rule, filling numba's cache on disk; return the seconds it took."""
    from jointglasso.covariance import SampleCovariance
    from jointglasso.engine.execute import SOLVERS, solve
    from jointglasso.engine.screen import SCREENING
    from jointglasso.problem import make_problem
    from jointglasso.screening import RULES, screen

    began = time.perf_counter()
    rng = np.random.default_rng(0)
    samples = [rng.standard_normal((30, 8)) + rng.standard_normal((30, 1)) for _ in range(2)]
    source = SampleCovariance(samples, correlation=True)
    S = np.stack([source.block(k, np.arange(8)) for k in range(2)])
    for rule in RULES:
        screen(S, 0.2, 0.1, rule=rule)
    for solver in SOLVERS:
        for screening in SCREENING:
            solution = solve(S, 0.2, 0.1, screening=screening, solver=solver)
    make_problem(source, 0.2, 0.1).objective(solution.precision)
    return time.perf_counter() - began
