"""scikit-learn: coordinate descent, class by class."""

from __future__ import annotations

import numpy as np

from peers.adapters import NO_GROUP, Peer, quietly
from peers.problems import Problem


class ScikitLearn(Peer):
    name = package = "scikit-learn"
    module = "sklearn"
    ladder = (1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7)

    def takes(self, problem: Problem) -> str:
        return NO_GROUP if problem.lambda2 else ""

    def solve(self, problem: Problem, tolerance: float) -> list[np.ndarray]:
        from sklearn.covariance import graphical_lasso

        # Its tolerance is an absolute duality gap; that of its inner solver must keep up.
        options = {"tol": tolerance, "enet_tol": min(tolerance, 1e-4), "max_iter": 1000}
        with quietly():
            return [graphical_lasso(S, problem.lambda1, **options)[1] for S in problem.S]
