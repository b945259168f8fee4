"""regain: ADMM, class by class. Its joint penalties run along time and have no group lasso."""

from __future__ import annotations

import numpy as np

from peers.adapters import NO_GROUP, Peer, fitting_rho, quietly
from peers.problems import Problem


class Regain(Peer):
    name = package = module = "regain"
    ladder = (1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8)

    def takes(self, problem: Problem) -> str:
        return NO_GROUP if problem.lambda2 else ""

    def solve(self, problem: Problem, tolerance: float) -> list[np.ndarray]:
        from regain.covariance.graphical_lasso_ import graphical_lasso

        options = {"tol": tolerance, "rtol": tolerance, "max_iter": 10_000, "compute_objective": False}
        with quietly():
            return [graphical_lasso(S, problem.lambda1, rho=fitting_rho(problem), **options)[0] for S in problem.S]
