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

#: Limits of the step length; number of objectives of which the largest must fall, and by which fraction of the model.
_STEPS, _MEMORY, _DECREASE = (0.05, 20.0), 5, 1e-4

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


class ProximalSteps:
    """Iterates of the proximal gradient on one working set, from a point with inverses."""

    def __init__(self, point: SparsePoint) -> None:
        self.point, self.alpha = point.inverted(), 1.0
        self.objectives = [point.objective]
        self.n_iter, self.n_trials, self.stuck = 0, 0, False
        self._update()

    @property
    def objective(self) -> float:
        return self.objectives[-1]

    def _update(self) -> None:
        """Gradient, metric and distance from optimality at the current point."""
        point, entries, group = self.point, self.point.working_set, self.point.group
        W, variance = entries.gather(point.inverses)
        row, column = entries.members
        weight = group.weights[group.member_class]
        self.h = entries.weight * (variance[row] * variance[column] + W * W)
        self.h_diagonal = weight * variance * variance
        self.g = entries.weight * (W - entries.S)
        self.g_diagonal = weight * (variance - group.diagonal) - group.diagonal_penalty
        u = group.penalty.nearest_subgradient(point.theta, self.g, entries.entries)
        #: Duality gap to second order in the metric of the diagonal.
        self.gap_estimate = float(
            ((u - self.g) ** 2 / self.h).sum() + 0.5 * (self.g_diagonal**2 / self.h_diagonal).sum()
        )

    def _trial(self, alpha: float) -> tuple[SparsePoint | None, float]:
        """The point of step length alpha, if definite, and the squared length of the step."""
        point, entries = self.point, self.point.working_set
        curvature = self.h / alpha
        theta = point.group.penalty.update(curvature, curvature * point.theta + self.g, entries.entries)
        diagonal = point.diagonal + alpha * self.g_diagonal / self.h_diagonal
        length = 2.0 * float((self.h * (theta - point.theta) ** 2).sum())
        length += float((self.h_diagonal * (diagonal - point.diagonal) ** 2).sum())
        self.n_trials += 1
        return SparsePoint.of(entries, theta, diagonal), length

    def move_to(self, point: SparsePoint) -> None:
        """Continue from another point of the working set."""
        self.n_iter += 1
        self.objectives.append(point.objective)
        self.point = point.inverted()
        self._update()

    def step(self) -> None:
        """One accepted step; `stuck` if none decreases the objective."""
        before, g, g_diagonal = self.point, self.g, self.g_diagonal
        reference = max(self.objectives[-_MEMORY:])
        reference += _ROUNDING * abs(reference)
        for _ in range(_HALVINGS):
            trial, length = self._trial(self.alpha)
            if trial is not None and trial.objective <= reference - _DECREASE * length / self.alpha:
                break
            self.alpha *= 0.5
        else:
            self.stuck = True
            return
        h, h_diagonal = self.h, self.h_diagonal
        self.move_to(trial)
        move, move_diagonal = trial.theta - before.theta, trial.diagonal - before.diagonal
        length = 2.0 * float((h * move * move).sum()) + float((h_diagonal * move_diagonal**2).sum())
        change = 2.0 * float((move * (g - self.g)).sum())
        change += float((move_diagonal * (g_diagonal - self.g_diagonal)).sum())
        self.alpha = float(np.clip(length / change if change > 0.0 else _STEPS[1], *_STEPS))
