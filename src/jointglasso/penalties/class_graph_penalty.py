"""Base class of penalties over a class graph: the common part of the fused and the Laplacian penalty."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self, cast

import numpy as np

from jointglasso._cached_property import cached_property
from jointglasso._typing import BoolArray, FloatArray, IntArray
from jointglasso.penalties.base import UNIFORM, Coupling, PairPenalty
from jointglasso.penalties.class_graph import edges_of


@dataclass(frozen=True, eq=False)
class ClassGraphPenalty(PairPenalty):
    """``lambda1 |t|_1 + lambda2 sum_{k<l} b_kl psi(t_k - t_l)`` over a class graph b, for a convex function psi."""

    supports: ClassVar[frozenset[str]] = frozenset({"prox", "columns", "newton"})

    lambda1: float
    lambda2: float
    graph: FloatArray
    """(K, K) symmetric weights b >= 0 of the class graph; zero where classes are not neighbours."""
    alias: str = ""
    """Value of the `penalty` argument if it differs from `name`: "chain", "graph"."""
    fuse_diagonal: bool = False
    """Whether diagonal entries of neighbours are coupled as well."""

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return len(self.graph)

    @cached_property
    def l1(self) -> FloatArray:
        """(K,): weight of the absolute value in each class."""
        return np.full(self.n_classes, float(self.lambda1))

    @cached_property
    def class_graph(self) -> BoolArray:
        compared: BoolArray = self.lambda2 * self.graph > 0
        return compared

    @cached_property
    def coupling(self) -> Coupling:
        return cast(Coupling, super().coupling)

    @cached_property
    def fused_diagonal_penalty(self) -> Self | None:
        compared = self.fuse_diagonal and bool(self.class_graph.any())
        return replace(self, lambda1=0.0, fuse_diagonal=False) if compared else None

    @property
    def scale(self) -> float:
        return self.lambda1 + self.lambda2 * float(self.graph.sum(axis=1).max(initial=0.0))

    def threshold(self, k: int) -> float:
        return self.lambda1

    def box_radius(self, n_classes: int) -> float:
        return self.lambda1

    def scaled(self, factor: float) -> Self:
        return replace(self, lambda1=factor * self.lambda1, lambda2=factor * self.lambda2)

    def restricted_to(self, classes: IntArray) -> Self:
        """The penalty on the subgraph induced by `classes`, for pairs that are missing in all others."""
        return replace(self, graph=self.graph[np.ix_(classes, classes)])

    def parameters(self) -> dict[str, Any]:
        graph = [list(edge) for edge in edges_of(self.graph)]
        fused = {"fuse_diagonal": True} if self.fuse_diagonal else {}
        return {**super().parameters(), "penalty": self.alias or self.name, "class_graph": graph, **fused}

    def screening_certified(
        self,
        theta: FloatArray,
        u: FloatArray,
        u_radius: FloatArray,
        theta_radius: FloatArray,
        in_block: BoolArray,
        factor: FloatArray = UNIFORM,
    ) -> BoolArray:
        # A screened-out entry must be a certified zero of the full problem.
        (t, entries), (dual, _), (u_bound, _), (theta_bound, _) = (
            self.as_entries(part, factor) for part in (theta, u, u_radius, theta_radius)
        )
        zero = self.certified_zeros(t, dual, u_bound, theta_bound, entries).reshape(theta.shape)
        return np.asarray((zero | in_block).all(axis=1))
