"""jointglasso: its default, and its own plain ADMM without screening."""

from __future__ import annotations

from typing import Any

import jointglasso as jgl
from peers.adapters import Peer, quietly
from peers.problems import Problem


class Default(Peer):
    name = "jointglasso"
    package = module = "jointglasso"
    ladder = (1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8)

    def versions(self) -> str:
        return f"jointglasso {jgl.__version__}"

    def prepare(self) -> None:
        jgl.warm_kernels()
        super().prepare()

    def solve(self, problem: Problem, tolerance: float, **options: Any) -> list[Any]:
        with quietly():
            return jgl.solve(
                problem.S, problem.lambda1, problem.lambda2, penalize_diagonal=False, tol=tolerance, **options
            ).precision


class PlainADMM(Default):
    name = "our ADMM, no screening"

    def solve(self, problem: Problem, tolerance: float, **options: Any) -> list[Any]:
        return super().solve(problem, tolerance, screening="none", solver=jgl.ADMM(accelerate=False), **options)
