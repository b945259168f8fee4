"""Penalties that compare the classes along a graph: what the fused and the Laplacian penalty share."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Self, cast

import numpy as np

from jointglasso._typing import BoolArray, FloatArray, IntArray
from jointglasso.penalties.base import UNIFORM, Coupling, PairPenalty
from jointglasso.penalties.class_graph import edges_of


@dataclass(frozen=True, eq=False)
class TiedPenalty(PairPenalty):
    """``lambda1 |t|_1`` and lambda2 times a price for the differences between neighbours in a graph of the classes."""

    offers: ClassVar[frozenset[str]] = frozenset({"prox", "columns"})

    lambda1: float
    lambda2: float
    graph: FloatArray
    """(K, K) symmetric weights b >= 0 of the differences between classes; zero where classes are not neighbours."""
    word: str = ""
    """What the user called it, if not by its name: "chain", "graph"."""
    fuse_diagonal: bool = False
    """Whether the diagonals of neighbours are compared, too."""

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return len(self.graph)

    @cached_property
    def l1(self) -> FloatArray:
        """Weight of each class's absolute value."""
        return np.full(self.n_classes, float(self.lambda1))

    @cached_property
    def ties(self) -> BoolArray:
        tied: BoolArray = self.lambda2 * self.graph > 0
        return tied

    @cached_property
    def coupling(self) -> Coupling:
        return cast(Coupling, super().coupling)

    @cached_property
    def of_diagonal(self) -> Self | None:
        compared = self.fuse_diagonal and bool(self.ties.any())
        return replace(self, lambda1=0.0, fuse_diagonal=False) if compared else None

    @property
    def scale(self) -> float:
        return self.lambda1 + self.lambda2 * float(self.graph.sum(axis=1).max(initial=0.0))

    def threshold(self, k: int) -> float:
        return self.lambda1

    def reach(self, n_classes: int) -> float:
        return self.lambda1

    def times(self, factor: float) -> Self:
        return replace(self, lambda1=factor * self.lambda1, lambda2=factor * self.lambda2)

    def among(self, classes: IntArray) -> Self:
        """The penalty of pairs that only these classes have."""
        return replace(self, graph=self.graph[np.ix_(classes, classes)])

    def parameters(self) -> dict[str, Any]:
        graph = [list(edge) for edge in edges_of(self.graph)]
        fused = {"fuse_diagonal": True} if self.fuse_diagonal else {}
        return {**super().parameters(), "penalty": self.word or self.name, "class_graph": graph, **fused}

    def cuts_hold(
        self,
        theta: FloatArray,
        u: FloatArray,
        u_reach: FloatArray,
        theta_reach: FloatArray,
        held: BoolArray,
        factor: FloatArray = UNIFORM,
    ) -> BoolArray:
        # What a certain zero of the whole problem is, a class that was cut has to be.
        (t, entries), (dual, _), (near, _), (far, _) = (
            self.as_entries(part, factor) for part in (theta, u, u_reach, theta_reach)
        )
        zero = self.certain_zeros(t, dual, near, far, entries).reshape(theta.shape)
        return np.asarray((zero | held).all(axis=1))
