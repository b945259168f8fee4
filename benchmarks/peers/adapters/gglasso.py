"""GGLasso: ADMM for K classes, for one class with screening by connected components."""

from __future__ import annotations

import numpy as np

from peers.adapters import Peer, quietly
from peers.problems import Problem

#: Its penalties must be positive; this one is too small for the judge to see.
NOTHING = 1e-13


class GGLasso(Peer):
    name = "GGLasso"
    package = module = "gglasso"
    # The absolute tolerance is multiplied by the number of entries where the usual rule has its square root.
    ladder = (1e-4, 1e-5, 1e-6, 1e-7, 1e-8, 1e-9, 1e-10, 1e-11)

    def solve(self, problem: Problem, tolerance: float) -> list[np.ndarray]:
        from gglasso.solver.admm_solver import ADMM_MGL
        from gglasso.solver.single_admm_solver import block_SGL

        options = {"tol": tolerance, "rtol": tolerance, "max_iter": 10_000}
        start = np.stack([np.eye(problem.S.shape[1])] * len(problem.S))
        with quietly():
            if problem.lambda2 == 0:
                return [_definite(block_SGL(S, problem.lambda1, start[0], **options)) for S in problem.S]
            lambda1 = max(problem.lambda1, NOTHING)
            found, _ = ADMM_MGL(problem.S, lambda1, problem.lambda2, "GGL", start, verbose=False, **options)
        return list(_definite(found))


def _definite(found: dict[str, np.ndarray]) -> np.ndarray:
    """The sparse one of its two iterates if it is positive definite, else the other."""
    return found["Theta"] if np.linalg.eigvalsh(found["Theta"]).min() > 0 else found["Omega"]
