"""The result of a task: non-zero entries, gap and certified edges, small enough to keep for all tasks.

Blocks take about a hundred bytes per entry and are freed after each task; they are rebuilt from the source in the rare
case that they are needed again.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from jointglasso._cached_property import cached_property
from jointglasso._typing import BoolArray, FloatArray, IntArray
from jointglasso.blocks import BlockSystem
from jointglasso.blocks.big_group import SomePairs
from jointglasso.blocks.linalg import Factorization
from jointglasso.duality import CertifiedEdges, DualityGap, certified_edges
from jointglasso.engine.nonzeros import Nonzeros
from jointglasso.engine.recheck import (
    NO_INFEASIBILITY,
    NO_PAIRS,
    DualInfeasibility,
    KKTViolations,
    ScreeningCheck,
    no_violations,
)
from jointglasso.penalties import PairPenalty
from jointglasso.problem import JointProblem
from jointglasso.rounding import rounded_bounds
from jointglasso.solution import EdgeClusters
from jointglasso.solvers.dual_point import DualPoint
from jointglasso.solvers.sparse_dual import SparseDual


@dataclass(frozen=True)
class EqualityProofs:
    """Pairs i < j of variables, and (m, T) which comparisons of neighbouring classes are certified."""

    rows: IntArray
    columns: IntArray
    proved: BoolArray


NO_PROOFS = EqualityProofs(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64), np.empty((0, 0), dtype=bool))


def certified_equalities(
    system: BlockSystem,
    theta: FloatArray,
    edges: CertifiedEdges,
    penalty: PairPenalty,
    *,
    screening_proved: bool = True,
) -> EqualityProofs:
    """Comparisons of neighbouring classes that the gap of their group certifies, for the non-zero pairs.

    Equalities are certified in `edges`; two values are certified to differ if their distance exceeds the sum of their
    radii. Unless the screening is certified, only pairs inside blocks in all classes are considered.
    """
    class_pairs = penalty.fused_class_pairs
    if not len(class_pairs):
        return NO_PROOFS
    nonzero = system.gather(theta) != 0.0
    pairs = np.flatnonzero(np.logical_or.reduceat(nonzero, system.pair_start[:-1])) if len(nonzero) else NO_PROOFS.rows
    if not screening_proved:
        pairs = pairs[np.diff(system.pair_start)[pairs] == system.n_classes]
    if not len(pairs):
        return NO_PROOFS
    entries, start = system.entries_of(pairs)
    row, cls = np.repeat(np.arange(len(pairs)), np.diff(start)), system.entry_class[entries]
    values, radius, equal = theta[system.upper[entries]], edges.gap_radius[entries], edges.equal[pairs]
    # A screened-out entry is a certified zero, unless the class has the pair in a block of another group.
    by_class, radii, in_block = (np.zeros((len(pairs), system.n_classes)) for _ in range(3))
    by_class[row, cls], radii[row, cls], in_block[row, cls] = values, radius, 1.0
    one, two = class_pairs.T
    distance, limit = np.abs(by_class[:, one] - by_class[:, two]), radii[:, one] + radii[:, two]
    proved = np.where(distance == 0.0, equal, distance > (1.0 + 1e-12) * limit)
    if (coupling := penalty.coupling) is not None:
        # Classes that are not connected to those of this group may have the pair in a group of another task.
        connected = in_block @ coupling.parts > 0.0
        proved &= connected[:, one]
    if system.same_variables is not None:
        others = np.zeros((system.same_variables[-1] + 1, system.n_classes))
        every = np.repeat(system.same_variables, np.diff(system.pair_start))
        others[every, system.entry_class] = 1.0
        in_other_group = others[system.same_variables[pairs]] > in_block
        proved &= ~(in_other_group[:, one] | in_other_group[:, two])
    i, j = (ends[pairs] for ends in system.pair_variables)
    return EqualityProofs(np.minimum(i, j), np.maximum(i, j), proved)


def edge_clusters_of(
    problem: JointProblem, precision: Sequence[Any], proofs: Sequence[EqualityProofs]
) -> EdgeClusters | None:
    """Clusters of classes with equal values of each edge, with certified comparisons; None without a fused penalty."""
    class_pairs = problem.penalty.fused_class_pairs
    if not len(class_pairs):
        return None
    result = EdgeClusters.of(precision, class_pairs, problem.source.absent)
    for piece in proofs:
        if len(piece.rows):
            result = result.with_proofs(piece.rows, piece.columns, piece.proved)
    return result


@dataclass
class SolvedBlocks(ABC):
    """A solved task in memory, for the bounds of the full problem."""

    theta: FloatArray
    bounds: DualityGap
    """Bounds that include the rounding error; without stored blocks at the pairs to check, as a `SomePairs` system."""
    screening_check: ScreeningCheck | None
    """Check of the entries that dynamic screening removed; None for static screening."""

    @property
    def point(self) -> DualPoint | None:
        """Dual point with W that a later round continues from."""
        return None

    @cached_property
    def full_bounds(self) -> tuple[DualityGap, DualInfeasibility]:
        """Bounds from a dual point over all classes, and its infeasibility at screened-out entries."""
        if self.screening_check is None:
            return self.bounds, NO_INFEASIBILITY
        entries, values, infeasible = self.screening_check.subgradient(self.theta, self.bounds)
        if len(infeasible.value) or not self.screening_check.holds_already(self.bounds, entries, values):
            self.bounds = self._bounds_with(entries, values)
        return self.bounds, infeasible

    @abstractmethod
    def _bounds_with(self, entries: IntArray, values: FloatArray) -> DualityGap:
        """Bounds at a dual point with given subgradients at some entries."""

    @abstractmethod
    def with_radius(self, outcome: TaskResult, gap: FloatArray, radius: float) -> TaskResult:
        """An outcome with the gap of each of its groups, and the edges certified by `radius`, the total gap."""


@dataclass
class CachedBlocks(SolvedBlocks):
    """A solved task with its blocks in memory."""

    problem: JointProblem
    system: BlockSystem

    def _bounds_with(self, entries: IntArray, values: FloatArray) -> DualityGap:
        penalty, diagonal_penalty = self.problem.penalty, self.problem.diagonal_penalty
        override, factor = (entries, values), self.bounds.factor
        return rounded_bounds(
            self.system, self.theta, penalty, diagonal_penalty, factor=factor, subgradient_override=override
        )

    def with_radius(self, outcome: TaskResult, gap: FloatArray, radius: float) -> TaskResult:
        system, theta, penalty = self.system, self.theta, self.problem.penalty
        dual, radii = self.full_bounds[0].dual, np.full_like(gap, radius)
        edges = certified_edges(system, theta, dual, radii, penalty, screening_proved=False)
        entries = np.flatnonzero(system.gather(theta))
        proved = np.concatenate([edges.present[entries], np.zeros(len(system.members), dtype=bool)])
        return replace(
            outcome,
            gap=gap,
            nonzeros=replace(outcome.nonzeros, proved=proved),
            n_present=int(edges.present.sum()),
            n_absent=int(edges.absent.sum()),
            certified_equal=certified_equalities(system, theta, edges, penalty, screening_proved=False),
        )


@dataclass
class UnstoredBlocks(SolvedBlocks):
    """A solved group without stored blocks, in memory: its dual point, out of core or in sparse storage."""

    dual: DualPoint | SparseDual

    @classmethod
    def of(
        cls, dual: DualPoint | SparseDual, problem: JointProblem, deferred: tuple[IntArray, IntArray] | None
    ) -> UnstoredBlocks:
        """From a dual point, with its deferred pairs of dynamic screening, indices within the group."""
        system, theta, inverse, values = dual.at_pairs(*deferred or NO_PAIRS)
        objective, rounding, gap = dual.with_rounding()
        n_blocks = system.n_blocks
        factor = Factorization(inverse, np.zeros(n_blocks), np.ones(n_blocks, dtype=bool))
        bounds = DualityGap(np.array([objective]), np.array([gap]), values, factor, np.array([rounding]))
        check = None if deferred is None else ScreeningCheck(problem, system, np.arange(system.n_pairs))
        return cls(theta, bounds, check, dual)

    @property
    def point(self) -> DualPoint | None:
        return self.dual if isinstance(self.dual, DualPoint) else None

    def result(self, number: int, n_iter: int, stopped_by: str, began: float, *, keep: bool) -> TaskResult:
        """The result of a task that began at the time `began`; `keep` keeps the blocks in memory."""
        group, (violated, proved) = self.dual.group, self._checked()
        gap, computed = float(self.bounds.gap[0]), self.dual.computed_gap
        is_sparse = isinstance(self.dual, SparseDual)
        result = TaskResult(
            number=number,
            objective=self.bounds.objective,
            gap=self.bounds.gap,
            rounding=self.bounds.rounding,
            raised=np.array([gap - computed if np.isfinite(computed) else 0.0]),
            n_iter=n_iter,
            stopped_by=stopped_by,
            methods=[("sparse" if is_sparse else "columns") if n_iter else "warm start"],
            nonzeros=Nonzeros.of_support(group, self.dual.theta_support),
            n_entries=group.n_entries,
            n_present=0,
            n_absent=0,
            edge_gap=self.dual.edge_gap,
            certified_equal=NO_PROOFS,
            violated=violated,
            proved=proved,
            cached_blocks=self if keep else None,
            is_big=True,
            is_sparse=is_sparse,
            build_seconds=0.0,
            seconds=0.0,
        )
        if proved:
            result = self._with_edges(result, gap, screening_proved=True)
        return replace(result, seconds=time.perf_counter() - began)

    def _checked(self) -> tuple[KKTViolations, bool]:
        """KKT violations at screened-out entries, and whether the gap certifies that there are none."""
        if self.screening_check is None:
            return no_violations(self.dual.group.n_classes), True
        violated, unproved = self.screening_check.kkt_check(self.theta, self.bounds)
        return violated, not len(unproved) and self.dual.others_proved(float(self.bounds.gap[0]))

    def _bounds_with(self, entries: IntArray, values: FloatArray) -> DualityGap:
        system = cast(ScreeningCheck, self.screening_check).system
        self.dual = self.dual.with_subgradients(*system.entry_members(entries), values)
        objective, error, gap = (np.array([number]) for number in self.dual.with_rounding())
        return replace(self.bounds, objective=objective, gap=gap, rounding=error)

    def with_radius(self, outcome: TaskResult, gap: FloatArray, radius: float) -> TaskResult:
        return self._with_edges(replace(outcome, gap=gap), radius, screening_proved=False)

    def _with_edges(self, outcome: TaskResult, radius: float, *, screening_proved: bool) -> TaskResult:
        present = self.dual.present(radius)
        return replace(
            outcome,
            nonzeros=Nonzeros.of_support(self.dual.group, self.dual.theta_support, present),
            n_present=int(present.sum()),
            n_absent=self.dual.n_absent(radius, screening_proved=screening_proved),
            certified_equal=self._equalities(radius, screening_proved),
        )

    def _equalities(self, radius: float, screening_proved: bool) -> EqualityProofs:
        if isinstance(self.dual, DualPoint) or not len(self.dual.penalty.fused_class_pairs) or not np.isfinite(radius):
            return NO_PROOFS
        part, (absent, equal, radii) = self.dual.candidates, self.dual.certified(radius)
        theta = part.theta[part.in_block]
        edges = CertifiedEdges(np.abs(theta) > radii, absent, equal, radii)
        flat, system = np.concatenate([self.dual.point.diagonal, theta]), SomePairs.of(self.dual.group, part.i, part.j)
        return certified_equalities(system, flat, edges, self.dual.penalty, screening_proved=screening_proved)


@dataclass(frozen=True)
class TaskResult:
    """Result of one task, converged or not."""

    number: int
    objective: FloatArray
    """(G,): objective of each of its groups."""
    gap: FloatArray
    """(G,): duality gap of each group as an independent problem."""
    rounding: FloatArray
    """(G,): bound on the rounding error of the objective of each group."""
    raised: FloatArray
    """(G,): part of the gap that is due to rounding."""
    n_iter: int
    stopped_by: str
    methods: list[str]
    nonzeros: Nonzeros
    n_entries: int
    """Entries i < j inside the blocks."""
    n_present: int
    n_absent: int
    """Entries certified to be non-zero, and zero, provided that the screening of all tasks is certified."""
    edge_gap: float
    """Gap below which every edge of the task is certified."""
    certified_equal: EqualityProofs
    """Certified equalities and differences between the values of an edge in two classes."""
    violated: KKTViolations
    """KKT violations at screened-out entries: pairs to merge, and in which classes."""
    proved: bool
    """Whether the gap certifies that no screened-out entry of the task is non-zero."""
    build_seconds: float
    """Part of `seconds` for reading the covariances and building the blocks."""
    seconds: float
    cached_blocks: SolvedBlocks | None = None
    """The solved blocks, if they are kept in memory."""
    is_big: bool = False
    """Whether it was solved without stored blocks."""
    is_sparse: bool = False
    """Whether it was solved in sparse storage."""


def isolated_objective(problem: JointProblem, isolated: BoolArray) -> float:
    """Objective of the singletons, a mask (K, p)."""
    counted = isolated if problem.source.absent is None else isolated & ~problem.source.absent
    of_class = zip(problem.weights, problem.log_variances, counted, strict=True)
    return sum(weight * float((1.0 + logs[variables]).sum()) for weight, logs, variables in of_class)
