"""Chains of classes beside GGLasso's FGL, on the same covariances and at an equal gap, which is ours for both.

    python benchmarks/fused.py

Both gaps are relative to a solve to 1e-9, by one objective. Compiling is not counted: every solver runs once before.
"""

from __future__ import annotations

import io
import time
from contextlib import redirect_stdout

import numpy as np

import jointglasso as jgl
from common import describe_machine
from jointglasso.datasets import make_joint_ggm
from jointglasso.problem import make_problem

CASES = [(100, 3, 0.25), (100, 6, 0.25), (300, 3, 0.22), (100, 3, 0.12)]


def gglasso(S: np.ndarray, lambda1: float, lambda2: float) -> list[np.ndarray]:
    """Precision matrices of GGLasso's fused problem over consecutive classes."""
    from gglasso.problem import glasso_problem

    penalties = {"lambda1": lambda1, "lambda2": lambda2}
    problem = glasso_problem(S.copy(), 100, reg="FGL", reg_params=penalties, do_scaling=False)
    with redirect_stdout(io.StringIO()):
        problem.solve(tol=1e-9, rtol=1e-5)
    return list(problem.solution.precision_)


def timed(function, *arguments):
    """The answer and the seconds of the second call."""
    function(*arguments)
    began = time.perf_counter()
    return function(*arguments), time.perf_counter() - began


def main() -> None:
    """Print a line for each case."""
    describe_machine()
    print("p, K, lambda1 | edges | GGLasso s, gap | ours s, gap | ratio")
    for p, n_classes, lambda1 in CASES:
        data = make_joint_ggm("modules", p, n_classes, n_samples=100, random_state=0)
        S = np.array([np.corrcoef(X.T) for X in data.samples])
        lambda2 = 0.3 * lambda1
        problem = make_problem(S, lambda1, lambda2, penalty="chain", penalize_diagonal=False)

        def ours(matrices, l1, l2):
            return jgl.solve(matrices, l1, l2, penalty="chain", penalize_diagonal=False, tol=1e-6)

        best = jgl.solve(S, lambda1, lambda2, penalty="chain", penalize_diagonal=False, tol=1e-9).objective
        theirs, slow = timed(gglasso, S, lambda1, lambda2)
        mine, quick = timed(ours, S, lambda1, lambda2)
        gaps = [(value - best) / abs(best) for value in (problem.objective(theirs), mine.objective)]
        case = f"{p}, {n_classes}, {lambda1} | {sum(mine.n_edges)}"
        times = f"{slow:.3f} s, {gaps[0]:.0e} | {quick:.4f} s, {gaps[1]:.0e} | {slow / quick:.0f}"
        print(f"{case} | {times}", flush=True)


if __name__ == "__main__":
    main()
