"""One module for each peer, and what they have in common."""

from __future__ import annotations

import importlib
import warnings
from importlib import metadata, util
from typing import Any, ClassVar

import numpy as np

from peers.problems import Problem

#: Every peer, by the place of its class. The first is the one the others are compared with.
PEERS = (
    "peers.adapters.ours:Default",
    "peers.adapters.ours:PlainADMM",
    "peers.adapters.gglasso:GGLasso",
    "peers.adapters.skein:Skein",
    "peers.adapters.jgl:JGL",
    "peers.adapters.sklearn:ScikitLearn",
    "peers.adapters.regain:Regain",
    "peers.adapters.nilearn:Nilearn",
)

NO_GROUP = "it has no group penalty"


class Peer:
    """What the benchmark asks of a solver."""

    name: ClassVar[str]
    package: ClassVar[str]
    """Name on the package index."""
    module: ClassVar[str]
    ladder: ClassVar[tuple[float, ...]]
    """Tolerances to try, in the peer's own sense, loosest first."""

    #: Seconds and MiB of the last solve, where the peer itself runs in yet another process.
    measured: tuple[float, float] | None = None

    def available(self) -> str:
        """Empty, or why the peer cannot be run here."""
        return "" if util.find_spec(self.module) else f"pip install {self.package}"

    def versions(self) -> str:
        return f"{self.package} {metadata.version(self.package)}"

    def takes(self, problem: Problem) -> str:
        """Empty, or why the problem is not one the peer solves."""
        return ""

    def prepare(self) -> None:
        """Import and compile, by solving something small."""
        S = np.stack([np.eye(4) + 0.3, np.eye(4) + 0.2])
        for lambda1, lambda2, n_classes in ((0.1, 0.1, 2), (0.1, 0.0, 1), (0.0, 0.1, 2)):
            small = Problem("small", S[:n_classes], lambda1, lambda2)
            if not self.takes(small):
                self.solve(small, self.ladder[0])

    def solve(self, problem: Problem, tolerance: float) -> list[Any]:
        """K precision matrices, dense or sparse."""
        raise NotImplementedError


def peer_at(place: str) -> Peer:
    """The peer at ``module:class``."""
    module, _, name = place.partition(":")
    return getattr(importlib.import_module(module), name)()


def fitting_rho(problem: Problem) -> float:
    """A good ADMM step for peers that start at 1: two to ten times fewer iterations where variances are small."""
    return float(np.mean(np.diagonal(problem.S, axis1=1, axis2=2)) ** 2)


def quietly() -> warnings.catch_warnings:
    """A peer's warnings are not needed: the judge sees for itself whether it has converged."""
    return warnings.catch_warnings(action="ignore")
