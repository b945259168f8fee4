"""nilearn: block coordinate descent for the group penalty alone, subjects as classes."""

from __future__ import annotations

import numpy as np

from peers.adapters import NO_GROUP, Peer, quietly
from peers.problems import Problem


class Nilearn(Peer):
    name = package = module = "nilearn"
    ladder = (1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8)

    def takes(self, problem: Problem) -> str:
        if problem.lambda1:
            return "it has the group penalty alone"
        return "" if problem.lambda2 else NO_GROUP

    def solve(self, problem: Problem, tolerance: float) -> list[np.ndarray]:
        from nilearn.connectome.group_sparse_cov import _group_sparse_covariance

        # It weighs the classes by their shares of the samples, equal here: objective and penalty are ours divided by K.
        n_classes = len(problem.S)
        S = np.asfortranarray(np.moveaxis(problem.S, 0, -1))
        with quietly():
            found = _group_sparse_covariance(
                S, np.ones(n_classes), problem.lambda2 / n_classes, max_iter=10_000, tol=tolerance
            )
        return list(np.moveaxis(found[0] if isinstance(found, tuple) else found, -1, 0))
