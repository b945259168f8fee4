"""Proximal gradient on a working set in sparse storage, in the metric of the diagonal of the Hessian.

At Theta with inverse W the Hessian of ``-w log det Theta`` has the diagonal entries ``h_ij = w (W_ii W_jj + W_ij^2)``
for a pair and ``h_ii = w W_ii^2``. A step minimises ``h / (2 alpha) (x - theta)^2 - g x + phi(x)`` for each pair, g = w
(W - S) being the negative gradient; alpha is Barzilai and Borwein's step length in that metric, and the largest of the
last objectives must fall (Grippo, Lampariello and Lucidi). A trial costs one sparse factorisation, an accepted step the
entries of the inverse on the sparsity of the factor as well.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from jointglasso._typing import FloatArray
from jointglasso.blocks.big_group import GroupSupport
from jointglasso.blocks.sparse_factor import SparseFactor, SparseInverse
from jointglasso.blocks.sparse_group import ActiveEntries, SparseGroup
from jointglasso.solvers.base import State

#: Limits of the step length; number of objectives of which the largest must fall, and by which fraction of the model.
_STEPS, _MEMORY, _DECREASE = (1e-4, 20.0), 5, 1e-4

#: Maximal halvings of a step; beyond, rounding prevents progress.
_HALVINGS = 60

#: Relative rounding error of an objective, by which it may rise.
_ROUNDING = 1e-14


@dataclass(frozen=True)
class SparsePoint:
    """Theta on a working set, with the factors and inverses of its classes."""

    working_set: ActiveEntries
    theta: FloatArray
    """(E,): entries of the working set."""
    diagonal: FloatArray
    """(M,): diagonal entries."""
    factors: dict[int, SparseFactor]
    inverses: dict[int, SparseInverse] = field(default_factory=dict)

    @classmethod
    def of(cls, working_set: ActiveEntries, theta: FloatArray, diagonal: FloatArray) -> SparsePoint | None:
        """The point with its factors; None if a class is not positive definite."""
        factors = working_set.factor(theta, diagonal)
        return None if factors is None else cls(working_set, theta, diagonal, factors)

    @property
    def group(self) -> SparseGroup:
        return self.working_set.group

    @property
    def support(self) -> GroupSupport:
        """Theta as a list of pairs."""
        return self.working_set.support(self.theta, self.diagonal)

    def inverted(self) -> SparsePoint:
        """The point with its inverses."""
        inverses = self.working_set.invert(self.factors)
        return SparsePoint(self.working_set, self.theta, self.diagonal, self.factors, inverses)

    def terms(self) -> tuple[FloatArray, float]:
        """Terms of the objective: traces by entry and member, log-determinants; and the sum of the penalties."""
        group, entries = self.group, self.working_set
        weight = group.weights[group.member_class]
        logdets = [-group.weights[k] * factor.logdet for k, factor in self.factors.items()]
        traces = 2.0 * entries.weight * entries.S * self.theta, weight * group.diagonal * self.diagonal
        penalties = 2.0 * float(group.penalty.value(self.theta, entries.entries).sum())
        penalties += group.diagonal_penalty * float(self.diagonal.sum())
        return np.concatenate([*traces, logdets]), penalties

    @property
    def objective(self) -> float:
        terms, penalties = self.terms()
        return float(terms.sum()) + penalties


class ProximalState(State):
    """Iterate on a working set: a point with inverses, its negative gradient g, the metric h, and the step length."""

    def __init__(self, point: SparsePoint, target: float) -> None:
        super().__init__()
        self.restart(point, target)

    def restart(self, point: SparsePoint, target: float) -> None:
        """Start at a point on any working set; all pairs are checked once the estimated gap is at most `target`."""
        self.target, self.alpha, self.objectives = target, 1.0, list[float]()
        self.n_steps, self.n_trials = 0, 0
        self._enter(point)

    def _enter(self, point: SparsePoint) -> None:
        """Continue from another point of the working set."""
        self.point = point = point.inverted()
        self.objective = point.objective
        self.objectives.append(self.objective)
        entries, group = point.working_set, point.group
        W, variance = entries.gather(point.inverses)
        row, column = entries.members
        weight = group.weights[group.member_class]
        self.h = entries.weight * (variance[row] * variance[column] + W * W)
        self.h_diagonal = weight * variance * variance
        self.g = entries.weight * (W - entries.S)
        self.g_diagonal = weight * (variance - group.diagonal) - group.diagonal_penalty
        u = group.penalty.nearest_subgradient(point.theta, self.g, entries.entries)
        #: Duality gap to second order in the metric.
        self.gap_estimate = float(
            ((u - self.g) ** 2 / self.h).sum() + 0.5 * (self.g_diagonal**2 / self.h_diagonal).sum()
        )

    def _trial(self) -> tuple[SparsePoint | None, float]:
        """The point after a step, if definite, and the squared length of the step in the metric."""
        point, curvature = self.point, self.h / self.alpha
        entries = point.working_set
        theta = point.group.penalty.update(curvature, curvature * point.theta + self.g, entries.entries)
        diagonal = point.diagonal + self.alpha * self.g_diagonal / self.h_diagonal
        self.n_trials += 1
        trial = SparsePoint.of(entries, theta, diagonal)
        return trial, _sums(self.h * (theta - point.theta) ** 2, self.h_diagonal * (diagonal - point.diagonal) ** 2)

    def step(self) -> None:
        """One accepted step; ends with "rounding" if none decreases the objective."""
        reference = max(self.objectives[-_MEMORY:])
        reference += _ROUNDING * abs(reference)
        for _ in range(_HALVINGS):
            trial, length = self._trial()
            if trial is not None and trial.objective <= reference - _DECREASE * length / self.alpha:
                break
            self.alpha *= 0.5
        else:
            self.ended = "rounding"
            return
        before, g, g_diagonal = self.point, self.g, self.g_diagonal
        self._enter(trial)
        self.n_iter, self.n_steps = self.n_iter + 1, self.n_steps + 1
        moved, moved_diagonal = trial.theta - before.theta, trial.diagonal - before.diagonal
        change = _sums(moved * (g - self.g), moved_diagonal * (g_diagonal - self.g_diagonal))
        self.alpha = float(np.clip(length / change if change > 0.0 else _STEPS[1], *_STEPS))


def _sums(of_entries: FloatArray, of_diagonal: FloatArray) -> float:
    """Sum over a symmetric matrix, given by its entries above the diagonal and its diagonal."""
    return 2.0 * float(of_entries.sum()) + float(of_diagonal.sum())
