"""The judge: how far an answer is from the optimum, whoever gives it.

The objective is evaluated by us; the lower bound is a dual feasible point put together here in plain numpy from our
solution, so that it holds whether or not that solution is any good: a poor one only makes every gap look bigger.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy import sparse

import jointglasso as jgl
from jointglasso.problem import make_problem
from peers.problems import Problem

TARGET, CURVE = 1e-6, 1e-8


def lower_bound(problem: Problem, precision: Sequence[np.ndarray]) -> float:
    """Dual objective, sum of log det W_k + p, at a feasible W = S + U near the inverses of `precision`.

    Feasible: U is zero on the diagonal; off it its K entries, soft-thresholded by lambda1, have a norm of at most
    lambda2. Where Theta is not zero U is the penalty's gradient, which makes the bound exact to second order.
    """
    Theta = np.stack(precision)
    distance = np.stack([np.linalg.inv(matrix) for matrix in precision]) - problem.S
    U = np.clip(distance, -problem.lambda1, problem.lambda1)
    beyond, norm = distance - U, np.sqrt((Theta**2).sum(axis=0))
    with np.errstate(divide="ignore", invalid="ignore"):
        shrunk = beyond * np.minimum(1.0, np.nan_to_num(problem.lambda2 / np.sqrt((beyond**2).sum(axis=0))))
        gradient = problem.lambda1 * np.sign(Theta) + problem.lambda2 * Theta / norm
    U = np.where(Theta != 0, gradient, np.where(norm == 0, U + shrunk, U))
    U[:, *np.diag_indices_from(norm)] = 0.0
    signs, logdets = np.linalg.slogdet(problem.S + (U + U.transpose(0, 2, 1)) / 2)
    return float((logdets + len(norm)).sum()) if (signs > 0).all() else -np.inf


class Judge:
    """Knows the optimum of one problem to within a certified bound."""

    def __init__(self, problem: Problem) -> None:
        S, lambda1, lambda2 = problem.S, problem.lambda1, problem.lambda2
        self._shapes = [matrix.shape for matrix in S]
        self._problem = make_problem(S, lambda1, lambda2, penalize_diagonal=False)
        self.reference = jgl.solve(S, lambda1, lambda2, penalize_diagonal=False, tol=1e-9)
        self.bound = lower_bound(problem, [Theta.toarray() for Theta in self.reference.precision])

    def gap(self, precision: Sequence[np.ndarray | sparse.sparray]) -> float:
        """Relative gap of the symmetric part of an answer; infinite if it is no answer at all."""
        matrices = [sparse.csr_array(Theta) for Theta in precision]
        if [Theta.shape for Theta in matrices] != self._shapes or not all(np.isfinite(T.data).all() for T in matrices):
            return np.inf
        objective = self._problem.objective([(Theta + Theta.T) / 2 for Theta in matrices])
        return (objective - self.bound) / abs(objective) if np.isfinite(objective) else np.inf
