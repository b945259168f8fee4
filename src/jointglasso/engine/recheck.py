"""The recheck after dynamic screening: whether screened-out entries satisfy the optimality (KKT) conditions.

A pair with entries inside blocks in some classes and screened out in others needs ``u`` in the subdifferential of the
penalty at ``theta``, over all K classes. At screened-out entries theta is zero and u is minus the weighted covariance.
The condition is equivalent to ``theta = prox(theta + u)``; screened-out classes with a non-zero right-hand side violate
it and must be merged. This holds for every penalty. The duality gap certifies the conditions at the exact solution, if
necessary after the groups are solved to a smaller gap.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from jointglasso import config
from jointglasso._cached_property import cached_property
from jointglasso._typing import BoolArray, FloatArray, IntArray
from jointglasso.blocks import BlockSystem
from jointglasso.duality import EDGE_GAP, DualityGap, gap_to_certify, subgradient_within, theta_radius
from jointglasso.engine.executors import TaskProgress
from jointglasso.penalties import UNIFORM, SafeRegion
from jointglasso.problem import JointProblem
from jointglasso.rounding import with_rounding
from jointglasso.solvers import GroupSolver, SolverResult, SolverTask
from jointglasso.solvers.base import BestSoFar, Evaluated, remaining_iterations

#: Variables i < j of pairs, and the classes (m, K) that must be merged there.
KKTViolations = tuple[IntArray, IntArray, BoolArray]


#: Attempts to certify dynamic screening with a more accurate solution, as (iterations, factor of the gap); one nearly
#: always suffices.
_REFINEMENTS = (1, 1e-4), (100, 1e-7), (100, 1e-7)


@dataclass(frozen=True)
class PairRows:
    """Selected pairs of a system with values of all classes, (m, K); radii are zero at screened-out entries."""

    i: IntArray
    j: IntArray
    """The two variables of each row."""
    entries: IntArray
    row: IntArray
    """Row of each entry."""
    cls: IntArray
    """Class of each entry."""
    class_mask: BoolArray
    theta: FloatArray
    screened_out: FloatArray
    """Minus the weighted covariance at screened-out entries, NaN in classes without the pair, else zero."""
    factor: FloatArray

    def with_entries(self, values: FloatArray, screened_out: FloatArray | None = None) -> FloatArray:
        """Values of the entries as rows (m, K); screened-out entries have those of `screened_out`, or zero."""
        rows = np.zeros_like(self.theta) if screened_out is None else screened_out.copy()
        rows[self.row, self.cls] = values
        return rows


@dataclass(frozen=True)
class ScreeningCheck:
    """Check of the screened-out entries of the pairs of a system."""

    problem: JointProblem
    system: BlockSystem
    deferred: IntArray
    """Deferred pairs: above the threshold of a class in which they are screened out."""
    _seen: list[Any] = field(default_factory=list)
    """Theta and bounds of the last call, and their rows."""

    @cached_property
    def _partly_screened(self) -> IntArray:
        """Pairs whose screened-out entries may violate the optimality conditions."""
        if not self.problem.penalty.class_dependent:
            return self.deferred
        return np.flatnonzero(np.diff(self.system.pair_start) < self.system.n_classes)

    def kkt_check(self, theta: FloatArray, bounds: DualityGap) -> tuple[KKTViolations, IntArray]:
        """KKT violations at `theta` (pairs, and the classes to merge), and the groups that are not certified."""
        if not len(self._partly_screened):
            return no_violations(self.system.n_classes), _EMPTY
        rows = self._rows(theta, bounds)
        return self._violated(rows, bounds), self._groups_unproved(rows, theta, bounds)

    def _violated(self, rows: PairRows, bounds: DualityGap) -> KKTViolations:
        """Pairs that violate the optimality conditions, and the classes that must be merged."""
        if not len(rows.i):
            return rows.i, rows.j, rows.class_mask
        u = rows.with_entries(self._subgradient(bounds.inverse, rows.entries), rows.screened_out)
        wanted = self.problem.penalty.kkt_violated(rows.theta, u, rows.factor) & ~rows.class_mask
        failed = wanted.any(axis=1)
        return rows.i[failed], rows.j[failed], wanted[failed]

    def _groups_unproved(self, rows: PairRows, theta: FloatArray, bounds: DualityGap) -> IntArray:
        """Groups with a pair for which the gap does not certify the optimality conditions at the exact solution.

        If there are none, the exact solutions of the restricted and of the full problem coincide, and the bounds of the
        restricted problem hold for the full one.
        """
        system = self.system
        if not len(rows.i):
            return np.empty(0, dtype=np.int64)
        u, u_radius = subgradient_within(system, bounds.dual, bounds.gap, self.problem.penalty, rows.entries)
        radius = theta_radius(system, theta, bounds.gap, rows.entries)
        region = SafeRegion(
            rows.theta, rows.with_entries(u, rows.screened_out), rows.with_entries(u_radius), rows.with_entries(radius)
        )
        certified = self.problem.penalty.screening_certified(region, rows.class_mask, rows.factor)
        return np.unique(self._group(rows.entries[~certified[rows.row]]))

    def subgradient(self, theta: FloatArray, bounds: DualityGap) -> tuple[IntArray, FloatArray, DualInfeasibility]:
        """Subgradients of the selected pairs over all classes, and the dual infeasibility at screened-out entries.

        A feasible dual point is zero at screened-out entries.
        """
        rows, penalty = self._rows(theta, bounds), self.problem.penalty
        wanted = rows.with_entries(self._subgradient(bounds.inverse, rows.entries), rows.screened_out)
        m, n_classes = rows.theta.shape
        flat, entries = penalty.as_entries(wanted, rows.factor)
        u = penalty.nearest_subgradient(rows.theta.ravel(), flat, entries).reshape(m, n_classes)
        # NaN: the class does not have the pair.
        infeasibility = np.where(rows.class_mask | np.isnan(wanted), 0.0, (u - wanted) / self.problem.weights)
        row, cls = np.nonzero(infeasibility)
        group = np.empty(m, dtype=np.int64)
        group[rows.row] = self._group(rows.entries)  # any group that has the pair
        infeasible = DualInfeasibility(group[row], cls, rows.i[row], rows.j[row], infeasibility[row, cls])
        return rows.entries, u[rows.row, rows.cls], infeasible

    def holds_already(self, bounds: DualityGap, entries: IntArray, values: FloatArray) -> bool:
        """Whether the dual point has these subgradients already, up to the rounding error of a difference."""
        position = self.system.upper[entries]
        rounding = 8.0 * np.finfo(np.float64).eps * (np.abs(bounds.dual[position]) + np.abs(self.system.S[position]))
        difference = np.abs(self._subgradient(bounds.dual, entries) - values)
        return bool((difference <= self.system.weigh(rounding, entries)).all())

    def _rows(self, theta: FloatArray, bounds: DualityGap) -> PairRows:
        """The pairs to check, cached for the second call at the same point."""
        if not (self._seen and self._seen[0] is theta and self._seen[1] is bounds):
            self._seen[:] = theta, bounds, self._select_rows(theta, bounds)
        rows: PairRows = self._seen[2]
        return rows

    def _select_rows(self, theta: FloatArray, bounds: DualityGap) -> PairRows:
        """Pairs that are deferred, non-zero, or not certified to be below the thresholds of their classes."""
        system, penalty = self.system, self.problem.penalty
        pairs = self._partly_screened
        if penalty.class_dependent and len(pairs):
            entries, start = system.entries_of(pairs)
            factor = system.entry_factor[entries] if len(system.pair_factor) else 1.0
            threshold = np.array([penalty.threshold(k) for k in range(system.n_classes)])
            u, radius = subgradient_within(system, bounds.dual, bounds.gap, penalty, entries)
            largest = np.maximum(np.abs(u), np.abs(self._subgradient(bounds.inverse, entries))) + radius
            matters = ~(largest < factor * threshold[system.entry_class[entries]])
            matters |= theta[system.upper[entries]] != 0.0
            selected = np.zeros(system.n_pairs, dtype=bool)
            selected[self.deferred] = True
            selected[pairs] |= np.logical_or.reduceat(matters, start[:-1])
            pairs = np.flatnonzero(selected)
        return self._as_rows(pairs, theta)

    def _as_rows(self, pairs: IntArray, theta: FloatArray) -> PairRows:
        """One row per pair of variables, with the entries of all groups that have it."""
        system, problem = self.system, self.problem
        of_pair = first = np.arange(len(pairs))
        if problem.penalty.class_dependent and system.same_variables is not None:
            selected = np.zeros(int(system.same_variables[-1]) + 1, dtype=bool)
            selected[system.same_variables[pairs]] = True
            pairs = np.flatnonzero(selected[system.same_variables])
            of_pair = (np.cumsum(selected) - 1)[system.same_variables[pairs]]
            first = np.flatnonzero(np.diff(of_pair, prepend=-1))
        entries, start = system.entries_of(pairs)
        row, cls = np.repeat(of_pair, np.diff(start)), system.block_class[system.entry_block[entries]]
        inside = np.zeros((len(first), system.n_classes), dtype=bool)
        inside[row, cls] = True
        values, screened_out = np.zeros(inside.shape), np.zeros(inside.shape)
        values[row, cls] = theta[system.upper[entries]]
        i, j = self._variables(pairs[first])
        coupled = problem.penalty.coupling
        concerned = ~inside if coupled is None else ~inside & (inside @ coupled.parts)  # connected classes only
        for k in range(system.n_classes):
            index = np.flatnonzero(concerned[:, k])
            if len(index):
                screened_out[index, k] = -problem.weights[k] * problem.source.entries(k, i[index], j[index])
        factor = system.pair_factor[pairs[first]] if len(system.pair_factor) else UNIFORM
        screened_out = problem.penalty.mask_missing(screened_out, i, j)
        return PairRows(i, j, entries, row, cls, inside, values, screened_out, factor)

    def _group(self, entries: IntArray) -> IntArray:
        return self.system.block_group[self.system.entry_block[entries]]

    def _subgradient(self, W: FloatArray, entries: IntArray) -> FloatArray:
        position = self.system.upper[entries]
        return self.system.weigh(W[position] - self.system.S[position], entries)

    def _variables(self, pairs: IntArray) -> tuple[IntArray, IntArray]:
        row, column = self.system.entry_members(self.system.pair_start[pairs])
        return self.system.members[row], self.system.members[column]


@dataclass(frozen=True)
class DualInfeasibility:
    """Dual infeasibility: non-zero entries of the dual point at screened-out positions."""

    group: IntArray
    """Group, within its task, of the classes that have the pair inside a block."""
    cls: IntArray
    """Class in which the pair is screened out."""
    i: IntArray
    j: IntArray
    value: FloatArray


_EMPTY = np.empty(0, dtype=np.int64)
NO_PAIRS = _EMPTY, _EMPTY
NO_INFEASIBILITY = DualInfeasibility(_EMPTY, _EMPTY, _EMPTY, _EMPTY, np.empty(0))


def no_violations(n_classes: int) -> KKTViolations:
    """Violations of a task without any."""
    return _EMPTY, _EMPTY, np.empty((0, n_classes), dtype=bool)


def certify_screening(
    task: SolverTask, method: GroupSolver, result: SolverResult, check: ScreeningCheck | None, progress: TaskProgress
) -> tuple[SolverResult, DualityGap, KKTViolations, bool]:
    """Result, its bounds with rounding errors, KKT violations, and whether the gap certifies that there are none.

    Groups without violations whose gap is too large for the proof are solved to a smaller gap. Large groups are not:
    it would cost as much as the solve and serves only statements about single entries; the gap of the full problem is
    certified without it.
    """
    system, bounds = task.system, _rounded(task, result)
    if check is None:
        return result, bounds, no_violations(system.n_classes), True
    violated, unresolved = check.kkt_check(result.theta, bounds)
    can_refine = system.size.max(initial=0) <= config.BATCHED_BLOCK and not method.lockstep
    for max_refine_iter, gap_factor in _REFINEMENTS:
        remaining = remaining_iterations(method, task.max_iter, result.n_iter)
        if not len(unresolved) or len(violated[0]) or not can_refine or remaining <= 0 or progress():
            break
        wanted = gap_factor * result.bounds.gap[unresolved]
        refined = _refined(task, method, result, unresolved, wanted, min(max_refine_iter, remaining), progress)
        if refined is result:
            continue
        result, bounds = refined, _rounded(task, refined)
        violated, unresolved = check.kkt_check(result.theta, bounds)
    return result, bounds, violated, not len(unresolved)


def prove_edges(
    task: SolverTask, method: GroupSolver, result: SolverResult, bounds: DualityGap, progress: TaskProgress
) -> tuple[SolverResult, DualityGap]:
    """Continue the solve of the groups whose gap does not certify all edges; the result, and its bounds.

    A smaller gap can bring weaker edges, which need a smaller gap in their turn.
    """
    n_remaining = remaining_iterations(method, task.max_iter, result.n_iter)
    if not n_remaining or method.lockstep:
        return result, bounds
    for _ in range(len(config.REFINE_FACTORS)):
        wanted = EDGE_GAP * edge_gaps(task.system, result.theta)
        groups = np.flatnonzero(bounds.gap > wanted)
        if not len(groups) or progress():
            break
        refined = _refined(task, method, result, groups, wanted[groups], n_remaining, progress)
        if refined is result:
            break
        result, bounds = refined, _rounded(task, refined)
    return result, bounds


def edge_gaps(system: BlockSystem, theta: FloatArray) -> FloatArray:
    """(G,): gap below which every edge of a group is certified; infinite without edges."""
    values = system.gather(theta)
    entries = np.flatnonzero(values)
    root = system.products_of_members(np.sqrt(theta[system.diagonal]), np.ones(system.n_blocks), entries)
    block = system.entry_block[entries]
    gaps = np.full(system.n_groups, np.inf)
    np.minimum.at(gaps, system.block_group[block], gap_to_certify(values[entries], root, system.block_weight[block]))
    return gaps


def _rounded(task: SolverTask, result: SolverResult) -> DualityGap:
    return with_rounding(task.system, result.theta, task.penalty, task.diagonal_penalty, result.bounds)


def _refined(
    task: SolverTask,
    method: GroupSolver,
    result: SolverResult,
    groups: IntArray,
    wanted: FloatArray,
    max_iter: int,
    progress: TaskProgress,
) -> SolverResult:
    """Continue the solve of `groups` down to the gaps `wanted`."""
    system, positions = task.system.only_groups(groups)
    blocks = np.isin(task.system.block_group, groups)
    known = result.bounds.of_groups(groups, blocks, positions)
    subtask = replace(
        task, system=system, start=result.theta[positions], known=known, warm=True, gap_budget=wanted, tol=1.0,
        absolute=True, max_iter=max_iter, keep=lambda theta: None, report=lambda objective, gap: progress(),
    )  # fmt: skip
    refined = method.solve(subtask)
    if not (refined.bounds.gap < known.gap).any():
        return result
    best, theta = BestSoFar(task, result.theta, result.bounds), result.theta.copy()
    theta[positions] = refined.theta
    best.update(Evaluated(theta, result.bounds.with_groups(groups, blocks, positions, refined.bounds)))
    return replace(result, theta=best.theta, bounds=best.bounds)
