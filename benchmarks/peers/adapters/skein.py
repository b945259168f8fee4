"""skein-glm: its joint graphical lasso has the group penalty alone; block coordinate descent for one class.

``JointGraphicalLasso`` weights the likelihood by sample sizes, for which it takes p where it is given a covariance;
penalty and step times p make up for that.
"""

from __future__ import annotations

import numpy as np

from peers.adapters import Peer, fitting_rho
from peers.problems import Problem


class Skein(Peer):
    name = "skein-glm"
    package = "skein-glm"
    module = "skein_glm"
    ladder = (1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8, 1e-9)

    def takes(self, problem: Problem) -> str:
        return "" if 0 in (problem.lambda1, problem.lambda2) else "its joint penalty has no lambda1"

    def solve(self, problem: Problem, tolerance: float) -> list[np.ndarray]:
        from skein_glm import GraphicalLasso, JointGraphicalLasso

        if problem.lambda2 == 0:
            single = GraphicalLasso(
                problem.lambda1, diag_offset=0.0, max_iter=1000, tol=tolerance, inner_max_iter=1000, inner_tol=tolerance
            )
            return [single.fit(S).precision_ for S in problem.S]
        p = problem.S.shape[1]
        joint = JointGraphicalLasso(
            problem.lambda2 * p, rho=fitting_rho(problem) * p, max_iter=10_000, primal_tol=tolerance, dual_tol=tolerance
        )
        return joint.fit(list(problem.S)).precisions_
