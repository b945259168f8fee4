"""The check after a dynamic screen: whether the pairs that were cut satisfy the optimality conditions.

A pair that some classes hold and others have cut must have ``u`` in the subdifferential of the penalty at ``theta``
over all K classes: theta is zero and u minus the weighted covariance where it is cut. That is so if and only if
``theta = prox(theta + u)``, and the classes of which the right-hand side is not zero although they cut the pair are
those that must be merged. This is all that is asked, whatever the penalty. That the cuts hold is proved by the gap, if
need be that of a sharper solution.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from jointglasso import tuning
from jointglasso._typing import BoolArray, FloatArray, IntArray
from jointglasso.blocks import BlockSystem
from jointglasso.certificate import Bounds, precision_radius, subgradient_within
from jointglasso.engine.executors import Tell
from jointglasso.penalties import UNIFORM
from jointglasso.problem import JointProblem
from jointglasso.rounding import with_rounding
from jointglasso.solvers import GroupSolver, SolverResult, SolverTask

#: Variables i < j of pairs, and the classes (m, K) that must be merged there.
Violated = tuple[IntArray, IntArray, BoolArray]


@dataclass(frozen=True)
class Rows:
    """Some pairs of a system with the numbers of all classes, (m, K); zero reach where a class has cut the pair."""

    i: IntArray
    j: IntArray
    """The two variables of each row."""
    entries: IntArray
    row: IntArray
    """Row of each entry."""
    cls: IntArray
    """Class of each entry."""
    held: BoolArray
    theta: FloatArray
    cut: FloatArray
    """Minus the weighted covariance where a class has cut the pair, no number where it lacks it, else zero."""
    factor: FloatArray

    def with_entries(self, values: FloatArray, cut: FloatArray | None = None) -> FloatArray:
        """Numbers of the entries as rows; what belongs to the cut classes is `cut`, or zero."""
        rows = np.zeros_like(self.theta) if cut is None else cut.copy()
        rows[self.row, self.cls] = values
        return rows


@dataclass(frozen=True)
class Cuts:
    """What a dynamic screen has cut of the pairs of a system."""

    problem: JointProblem
    system: BlockSystem
    waiting: IntArray
    """Pairs that are above the threshold of a class which has cut them."""
    _seen: list[Any] = field(default_factory=list)
    """Theta and bounds that were looked at last, and their rows."""

    @cached_property
    def _partly_held(self) -> IntArray:
        """Pairs that may matter to a class which has cut them."""
        if not self.problem.penalty.by_class:
            return self.waiting
        return np.flatnonzero(np.diff(self.system.pair_start) < self.system.n_classes)

    def check(self, theta: FloatArray, bounds: Bounds) -> tuple[Violated, IntArray]:
        """Pairs that fail the check at `theta`, with the classes to merge there, and the groups left unproved."""
        rows = self._rows(theta, bounds)
        return self._violated(rows, bounds), self._groups_unproved(rows, theta, bounds)

    def _violated(self, rows: Rows, bounds: Bounds) -> Violated:
        """Pairs that fail the check, and the classes that must be merged there."""
        if not len(rows.i):
            return rows.i, rows.j, rows.held
        u = rows.with_entries(self._subgradient(bounds.inverse, rows.entries), rows.cut)
        wanted = self.problem.penalty.wants(rows.theta, u, rows.factor) & ~rows.held
        failed = wanted.any(axis=1)
        return rows.i[failed], rows.j[failed], wanted[failed]

    def _groups_unproved(self, rows: Rows, theta: FloatArray, bounds: Bounds) -> IntArray:
        """Groups with a pair of which the gap does not prove that it passes the check at the exact solution.

        If there are none, the exact solution of the restricted problem is that of the whole problem, and the bounds of
        the restricted problem are bounds of it.
        """
        system = self.system
        if not len(rows.i):
            return np.empty(0, dtype=np.int64)
        u, u_reach = subgradient_within(system, bounds.dual, bounds.gap, self.problem.penalty, rows.entries)
        hold = self.problem.penalty.cuts_hold(
            rows.theta,
            rows.with_entries(u, rows.cut),
            rows.with_entries(u_reach),
            rows.with_entries(theta_reach(system, theta, bounds.gap, rows.entries)),
            rows.held,
            rows.factor,
        )
        return np.unique(self._group(rows.entries[~hold[rows.row]]))

    def subgradient(self, theta: FloatArray, bounds: Bounds) -> tuple[IntArray, FloatArray, Leaks]:
        """Subgradients over all classes of the pairs in question: on their entries, and what leaks where they are cut.

        Where a class has cut a pair the dual point should be zero; what it is instead is a leak.
        """
        rows, penalty = self._rows(theta, bounds), self.problem.penalty
        wanted = rows.with_entries(self._subgradient(bounds.inverse, rows.entries), rows.cut)
        m, n_classes = rows.theta.shape
        flat, entries = penalty.as_entries(wanted, rows.factor)
        u = penalty.nearest_subgradient(rows.theta.ravel(), flat, entries).reshape(m, n_classes)
        # A class that lacks the pair wants no number there.
        leak = np.where(rows.held | np.isnan(wanted), 0.0, (u - wanted) / self.problem.weights)
        at, cls = np.nonzero(leak)
        group = np.empty(m, dtype=np.int64)
        group[rows.row] = self._group(rows.entries)  # any of those that hold the pair
        leaks = Leaks(group[at], cls, rows.i[at], rows.j[at], leak[at, cls])
        return rows.entries, u[rows.row, rows.cls], leaks

    def holds_already(self, bounds: Bounds, entries: IntArray, values: FloatArray) -> bool:
        """Whether the dual point has these subgradients, but for the rounding of a difference."""
        at = self.system.upper[entries]
        rounding = 8.0 * np.finfo(np.float64).eps * (np.abs(bounds.dual[at]) + np.abs(self.system.S[at]))
        apart = np.abs(self._subgradient(bounds.dual, entries) - values)
        return bool((apart <= self.system.weigh(rounding, entries)).all())

    def _rows(self, theta: FloatArray, bounds: Bounds) -> Rows:
        """The pairs in question, which are asked for twice at the same point."""
        if not (self._seen and self._seen[0] is theta and self._seen[1] is bounds):
            self._seen[:] = theta, bounds, self._look(theta, bounds)
        rows: Rows = self._seen[2]
        return rows

    def _look(self, theta: FloatArray, bounds: Bounds) -> Rows:
        """Pairs that are waiting, not zero, or not surely below the thresholds of their classes."""
        system, penalty = self.system, self.problem.penalty
        pairs = self._partly_held
        if penalty.by_class and len(pairs):
            entries, start = system.entries_of(pairs)
            factor = np.repeat(system.pair_factor[pairs], np.diff(start)) if len(system.pair_factor) else 1.0
            threshold = np.array([penalty.threshold(k) for k in range(system.n_classes)])
            u, reach = subgradient_within(system, bounds.dual, bounds.gap, penalty, entries)
            largest = np.maximum(np.abs(u), np.abs(self._subgradient(bounds.inverse, entries))) + reach
            matters = ~(largest < factor * threshold[system.entry_class[entries]])
            matters |= theta[system.upper[entries]] != 0.0
            looked_at = np.zeros(system.n_pairs, dtype=bool)
            looked_at[self.waiting] = True
            looked_at[pairs] |= np.logical_or.reduceat(matters, start[:-1])
            pairs = np.flatnonzero(looked_at)
        return self._as_rows(pairs, theta)

    def _as_rows(self, pairs: IntArray, theta: FloatArray) -> Rows:
        """A row for the variables of each pair, with what all groups that hold it say of it."""
        system, problem = self.system, self.problem
        of_pair = first = np.arange(len(pairs))
        if problem.penalty.by_class and system.same_variables is not None:
            wanted = np.zeros(int(system.same_variables[-1]) + 1, dtype=bool)
            wanted[system.same_variables[pairs]] = True
            pairs = np.flatnonzero(wanted[system.same_variables])
            of_pair = (np.cumsum(wanted) - 1)[system.same_variables[pairs]]
            first = np.flatnonzero(np.diff(of_pair, prepend=-1))
        entries, start = system.entries_of(pairs)
        row, cls = np.repeat(of_pair, np.diff(start)), system.block_class[system.entry_block[entries]]
        held = np.zeros((len(first), system.n_classes), dtype=bool)
        held[row, cls] = True
        values, cut = np.zeros(held.shape), np.zeros(held.shape)
        values[row, cls] = theta[system.upper[entries]]
        i, j = self._variables(pairs[first])
        coupled = problem.penalty.coupling
        concerned = ~held if coupled is None else ~held & (held @ coupled.parts)  # no tie leads to the other classes
        for k in range(system.n_classes):
            there = np.flatnonzero(concerned[:, k])
            if len(there):
                cut[there, k] = -problem.weights[k] * problem.source.entries(k, i[there], j[there])
        factor = system.pair_factor[pairs[first]] if len(system.pair_factor) else UNIFORM
        cut = problem.penalty.marked(cut, i, j)
        return Rows(i, j, entries, row, cls, held, values, cut, factor)

    def _group(self, entries: IntArray) -> IntArray:
        return self.system.block_group[self.system.entry_block[entries]]

    def _subgradient(self, W: FloatArray, entries: IntArray) -> FloatArray:
        at = self.system.upper[entries]
        return self.system.weigh(W[at] - self.system.S[at], entries)

    def _variables(self, pairs: IntArray) -> tuple[IntArray, IntArray]:
        row, column = self.system.entry_members(self.system.pair_start[pairs])
        return self.system.members[row], self.system.members[column]


@dataclass(frozen=True)
class Leaks:
    """Entries of the dual point between blocks that should be zero."""

    group: IntArray
    """Group, within its piece of work, of the classes that hold the pair."""
    cls: IntArray
    """Class that has cut the pair."""
    i: IntArray
    j: IntArray
    value: FloatArray


_NOBODY = np.empty(0, dtype=np.int64)
NO_LEAKS = Leaks(_NOBODY, _NOBODY, _NOBODY, _NOBODY, np.empty(0))


def theta_reach(system: BlockSystem, theta: FloatArray, gap: FloatArray, entries: IntArray) -> FloatArray:
    """How far some entries of the optimal Theta may be, given the gap (G,) of each group."""
    radius = precision_radius(gap[system.block_group], system.block_weight)
    with np.errstate(invalid="ignore"):
        return system.products_of_members(np.sqrt(theta[system.diagonal]), radius, entries)


def prove_cuts(
    task: SolverTask, method: GroupSolver, result: SolverResult, cuts: Cuts | None, tell: Tell
) -> tuple[SolverResult, Bounds, Violated, bool]:
    """Which waiting pairs fail the optimality conditions, and whether the gap proves that none does.

    Also the bounds of the result with what rounding may add to them: they are what the proof stands on. Where nothing
    fails but the gap is too wide to prove it, the groups in question are solved more sharply. Big groups are not: there
    it would cost as much again as the solve itself, for a proof about single entries; the gap of the whole problem is
    certified without.
    """
    system, bounds = task.system, _rounded(task, result)
    if cuts is None:
        nothing = np.empty(0, dtype=np.int64)
        return result, bounds, (nothing, nothing, np.empty((0, system.n_classes), dtype=bool)), True
    violated, blurred = cuts.check(result.theta, bounds)
    worth_it = system.size.max(initial=0) <= tuning.BATCHED_BLOCK and not method.lockstep
    for most, share in tuning.SHARPENINGS:
        left = task.max_iter - result.n_iter
        if not len(blurred) or len(violated[0]) or not worth_it or left <= 0 or tell():
            break
        sharper = _sharpened(task, method, result, blurred, share, min(most, left), tell)
        if sharper is result:
            continue
        result, bounds = sharper, _rounded(task, sharper)
        violated, blurred = cuts.check(result.theta, bounds)
    return result, bounds, violated, not len(blurred)


def _rounded(task: SolverTask, result: SolverResult) -> Bounds:
    return with_rounding(task.system, result.theta, task.penalty, task.diagonal_penalty, result.bounds)


def _sharpened(
    task: SolverTask,
    method: GroupSolver,
    result: SolverResult,
    groups: IntArray,
    share: float,
    max_iter: int,
    tell: Tell,
) -> SolverResult:
    """Solve some groups again, from where they are, to a share of their gaps."""
    limits = np.full(task.system.n_groups, np.inf)
    limits[groups] = share * result.bounds.gap[groups]
    sharp = replace(
        task, start=result.theta, known=result.bounds, warm=True, share=limits, tol=1.0, absolute=True,
        max_iter=max_iter, keep=lambda theta: None, report=lambda objective, gap: tell(),
    )  # fmt: skip
    area = task.system.sum_per_group(task.system.size.astype(float) ** 2)
    if len(groups) <= tuning.FEW_GROUPS and area[groups].sum() < tuning.SMALL_SHARE * area.sum():
        return _sharpened_one_by_one(sharp, method, result, groups, tell)
    again = method.solve(sharp)
    if not (again.bounds.gap <= result.bounds.gap).all():
        return result
    return replace(again, n_iter=result.n_iter, stopped_by=result.stopped_by, methods=result.methods)


def _sharpened_one_by_one(
    sharp: SolverTask, method: GroupSolver, result: SolverResult, groups: IntArray, tell: Tell
) -> SolverResult:
    """As `_sharpened`, without another look at all the other groups."""
    theta, bounds = result.theta.copy(), result.bounds
    for group in groups.tolist():
        if tell():
            break
        system, inside = sharp.system.only_group(group)
        blocks = sharp.system.block_group == group
        known = bounds.of_group(group, blocks, inside)
        alone = replace(sharp, system=system, start=theta[inside], known=known, share=sharp.share[[group]])
        again = method.solve(alone)
        if again.bounds.gap[0] < bounds.gap[group]:
            theta[inside] = again.theta
            bounds = bounds.with_group(group, blocks, inside, again.bounds)
    return result if bounds is result.bounds else replace(result, theta=theta, bounds=bounds)
