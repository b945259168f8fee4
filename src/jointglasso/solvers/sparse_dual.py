"""Duality gap, rounding errors and certified edges at a point in sparse storage.

The dual point is D = W + R with R sparse: non-zero on the diagonal, at entries of the working set, and at pairs that
violate the conditions. With M = R Theta, s^2 = tr(M M) and any bound rho < 1 on the spectral radius of M, the gap of a
class is at most ``w s^2 c(rho)`` (`duality.gap_of_squares`; theorem C9 of docs/theory/certificate.md): no second
determinant is needed, which no sparse method could give, D being dense. rho is the least of s and
``max_i (|M| x)_i / x_i`` for some x > 0 (Collatz and Wielandt); s grows with the number of variables, rho does not.

Rounding. The computed W on the sparsity of the factor differs from the exact one by at most ``eps sqrt(W_ii W_jj)``,
eps of `ClassInverse.error` (theorem C11), and at pairs outside the sparsity by the bounds of `sparse_check`. With N
such a bound on the error of each entry of R, s and rho grow by no more than the same numbers for |N| |Theta|.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

from jointglasso._cached_property import cached_property
from jointglasso._typing import BoolArray, FloatArray, IntArray
from jointglasso.blocks.big_group import BigGroup, GroupSupport, SomePairs
from jointglasso.blocks.sparse_group import SparsePoint
from jointglasso.blocks.system import find_keys
from jointglasso.duality import ROUNDING, dual_radius, gap_of_squares, precision_radius
from jointglasso.penalties import PairPenalty, SafeRegion
from jointglasso.rounding import error_of_sums, sum_error
from jointglasso.solvers.sparse_check import ClassInverse, Examined, PairCheck
from jointglasso.solvers.unstored import UnstoredDual

_UNIT = np.finfo(np.float64).eps / 2.0

#: Power steps on |M| that sharpen the bound on its spectral radius.
_RADIUS_STEPS = 10


def spectral_bounds(M: Any, start: FloatArray) -> tuple[float, float]:
    """``s = sqrt(tr(M M))`` and a bound on the spectral radius of M = R Theta, both raised for rounding."""
    products = sparse.csr_array(M.multiply(M.T))
    rounding = sum_error(80.0 + float(np.diff(products.indptr).max(initial=0))) * float(abs(products).sum())
    s = float(np.sqrt(max(0.0, float(products.sum()) + rounding)))
    size, x, radius = abs(M), start, np.inf
    for _ in range(_RADIUS_STEPS):
        y = size @ x
        radius = min(radius, float((y / x).max(initial=0.0)))
        x = np.maximum(y, 1e-3 * float(y.max(initial=0.0)) * start / start.max()) if y.any() else start
    return s * (1.0 + 1e-9), min(s, radius) * (1.0 + 1e-9)


@dataclass(frozen=True)
class SparseDual(UnstoredDual):
    """A point with its dual point: the objective, the gap and their rounding errors."""

    point: SparsePoint
    candidates: Examined
    listed: Examined
    """Listed pairs with R != 0."""
    margins: FloatArray
    """Margins of the other listed pairs: they are certified zeros for gap radii r below it."""
    margin_entries: IntArray
    inverses: dict[int, ClassInverse]

    @property
    def group(self) -> BigGroup:  # type: ignore[override]
        return self.point.group.layout

    @property
    def penalty(self) -> PairPenalty:  # type: ignore[override]
        return self.point.group.penalty

    @property
    def theta_support(self) -> GroupSupport:  # type: ignore[override]
        """Theta at the candidates."""
        return GroupSupport(self.candidates.i, self.candidates.j, self.candidates.theta, self.point.diagonal)

    @classmethod
    def of(cls, point: SparsePoint, to_recheck: BoolArray) -> SparseDual:
        """Check of all pairs at a point with inverses; `to_recheck` (P,) marks candidates to be rechecked."""
        check = PairCheck(point)
        return cls(point, check.candidates(to_recheck), *check.listed(), check.inverses)

    @property
    def proved(self) -> bool:
        """Whether a lower bound on the eigenvalues of each class is proved; otherwise the gap is infinite."""
        return all(inverse.mu > 0.0 for inverse in self.inverses.values())

    @property
    def n_violations(self) -> int:
        """Number of pairs outside the working set with R != 0."""
        weights, active = self.point.group.weights, self.point.working_set.active
        listed = (self.listed.u != self.listed.gradient(weights)).any(axis=1)
        outside = (self.candidates.u != self.candidates.gradient(weights)) & ~active
        return int(listed.sum() + outside.any(axis=1).sum())

    @cached_property
    def _gaps(self) -> dict[int, tuple[float, float, float]]:
        """Of each class: gap, part of it due to rounding, error of the log-determinant."""
        return self.point.group.map_classes(self._gap_of)

    def _gap_of(self, k: int) -> tuple[float, float, float]:
        group, inverse = self.point.group, self.inverses[k]
        eps, logdet_error = inverse.error
        if not np.isfinite(eps):
            return np.inf, 0.0, np.inf
        members, n = group.members_of[k], len(group.members_of[k])
        W = inverse.inverse.diagonal
        optimal = group.diagonal[members] + group.diagonal_penalty / group.weights[k]
        root = np.sqrt(np.maximum(W * (1.0 + 2.0 * eps), optimal))
        rows, columns, values, errors = [np.arange(n)], [np.arange(n)], [optimal - W], [np.zeros(n)]
        for part in (self.candidates, self.listed):
            on_set = np.zeros(len(part.i), dtype=bool)
            if part is self.candidates:
                on_set = self.point.working_set.active[:, k]
            index = np.flatnonzero((part.has_residual[:, k] | on_set) & part.in_block[:, k])
            i, j = (group.slot[group.layout.member_of[k, ends[index]]] for ends in (part.i, part.j))
            R = part.u[index, k] / group.weights[k] - (part.W[index, k] - part.S[index, k])
            for row, column in ((i, j), (j, i)):
                rows.append(row)
                columns.append(column)
                values.append(R)
                errors.append(part.error[index, k])
        row, column, R = (np.concatenate(part) for part in (rows, columns, values))
        Theta, start = inverse.theta, 1.0 / np.sqrt(inverse.matrix.diagonal)
        s, rho = spectral_bounds(sparse.csr_array((R, (row, column)), shape=(n, n)) @ Theta, start)
        chain = 8.0 + float(np.diff(inverse.matrix.start).max(initial=0))
        N = (eps + 32.0 * _UNIT) * root[row] * root[column] + np.concatenate(errors) + sum_error(chain) * np.abs(R)
        s_error, rho_error = spectral_bounds(sparse.csr_array((N, (row, column)), shape=(n, n)) @ abs(Theta), start)
        total, radius = s + s_error, rho + rho_error
        if not radius < 1.0:
            return np.inf, 0.0, logdet_error
        bounds = gap_of_squares(np.array([total**2, s**2]), np.array([radius, rho]))
        return float(bounds[0]), float(bounds[0] - bounds[1]), logdet_error

    @cached_property
    def gap(self) -> float:
        """Duality gap, rounding included; infinite if it cannot be bounded."""
        return float(sum(self.point.group.weights[k] * gap for k, (gap, _, _) in self._gaps.items()))

    @property
    def computed_gap(self) -> float:
        """Duality gap without rounding errors."""
        return self.gap - float(sum(self.point.group.weights[k] * part for k, (_, part, _) in self._gaps.items()))

    def with_rounding(self) -> tuple[float, float, float]:
        """Objective, its rounding error, and the gap including rounding; infinite where there is no bound."""
        objective, error = self.objective
        proved = np.isfinite(error) and np.isfinite(self.gap)
        return (objective, error, self.gap) if proved else (objective, 0.0, np.inf)

    @cached_property
    def objective(self) -> tuple[float, float]:
        """Objective and the bound on its rounding error."""
        terms, penalties = self.point.terms()
        logs = sum(
            self.point.group.weights[k]
            * float(np.abs(np.log(f.pivot)).sum() + np.abs(np.log(np.diagonal(f.tail))).sum())
            for k, f in self.point.factors.items()
        )
        largest = float(np.abs(terms).sum()) + 2.0 * logs + penalties
        error = sum(self.point.group.weights[k] * error for k, (_, _, error) in self._gaps.items())
        return float(terms.sum()) + penalties, float(error) + error_of_sums(64.0, largest)

    def _radii(self, gap: float) -> tuple[FloatArray, FloatArray]:
        """(K,), (K,): radii of W and Theta from a gap of the full problem, in units of the roots of their diagonals."""
        group = self.point.group
        weights, radii = group.weights[group.classes], np.zeros((2, len(group.weights)))
        gaps = np.full(len(weights), gap)
        radii[:, group.classes] = dual_radius(gaps, weights), precision_radius(gaps, weights)
        return radii[0], radii[1]

    def certified(self, gap: float) -> tuple[BoolArray, BoolArray, FloatArray]:
        """Candidates: (E,) certified zeros, (P, T) certified equalities, (E,) radii of Theta, E entries in blocks."""
        group, part = self.point.group, self.candidates
        penalty, mask = group.penalty, part.in_block
        pair, k = np.nonzero(mask)
        row, column = (group.layout.member_of[k, ends[pair]] for ends in (part.i, part.j))
        weight, theta, u, S = group.weights[k], part.theta[mask], part.u[mask], part.S[mask]
        (of_W, of_theta), variance = self._radii(gap), group.layout.optimal_variance(group.diagonal_penalty)
        radius = of_theta[k] * np.sqrt(self.point.diagonal)[row] * np.sqrt(self.point.diagonal)[column]
        W_radius = np.minimum(of_W, 1e50)[k] * np.sqrt(variance)[row] * np.sqrt(variance)[column]
        u_radius = weight * (W_radius + part.error[mask] + ROUNDING * (np.abs(S + u / weight) + np.abs(S)))
        entries = group.layout.entries(penalty, part.i, part.j, mask)
        absent, equal = penalty.certified_zeros_and_equal(SafeRegion(theta, u, u_radius, radius), entries)
        return np.asarray(absent & (theta == 0.0)), equal, radius

    def n_absent(self, gap: float, *, screening_proved: bool = True) -> int:
        """Number of entries inside the blocks that a gap of the full problem proves zero."""
        group, part = self.point.group, self.candidates
        if not np.isfinite(gap):
            return 0
        full = part.in_block.sum(axis=1) == group.layout.n_classes
        pair = np.nonzero(part.in_block)[0]
        absent = self.certified(gap)[0]
        n = int((absent & (screening_proved | full[pair])).sum())
        r = float(self._radii(gap)[0].max()) * (1.0 + ROUNDING)
        countable = screening_proved | (self.margin_entries == group.layout.n_classes)
        n += int(self.margin_entries[(self.margins > r) & countable].sum())
        if screening_proved and group.slack_exceeds(r):
            examined = int(part.in_block.sum() + self.margin_entries.sum() + self.listed.in_block.sum())
            n += group.layout.n_entries - examined
        return n

    def at_pairs(self, i: IntArray, j: IntArray) -> tuple[SomePairs, FloatArray, FloatArray, FloatArray]:
        """System of deferred pairs (i, j) and all others to be rechecked, with Theta, W and the dual point there."""
        group = self.point.group
        parts = [self.candidates.take(group.to_recheck(i, j))]
        if group.penalty.class_dependent:
            parts.append(self.listed.take(~self.listed.in_block.all(axis=1)))
        pairs = Examined.join(parts)
        variance, mask = self.group.optimal_variance(group.diagonal_penalty), pairs.in_block
        dual = pairs.S[mask] + pairs.u[mask] / group.weights[np.nonzero(mask)[1]]
        columns = (self.point.diagonal, pairs.theta[mask]), (variance, pairs.W[mask]), (variance, dual)
        theta, W, dual = (np.concatenate(column) for column in columns)
        return SomePairs.of(self.group, pairs.i, pairs.j), theta, W, dual

    def others_proved(self, gap: float) -> bool:
        """Whether pairs that are not examined have subgradients below the thresholds of all classes at the solution.

        Penalties that do not depend on the class need this for deferred pairs only, which are examined.
        """
        group = self.point.group
        return not group.penalty.class_dependent or group.slack_exceeds(float(self._radii(gap)[0].max()))

    def with_subgradients(self, row: IntArray, column: IntArray, u: FloatArray) -> SparseDual:
        """The dual point with other subgradients at some entries, given by the members of their row and column."""
        group, parts = self.point.group, []
        i, j = group.layout.local[row], group.layout.local[column]
        i, j, k = np.minimum(i, j), np.maximum(i, j), group.member_class[row]
        n = len(group.layout.variables)
        for part in (self.candidates, self.listed):
            place = find_keys(part.i * n + part.j, i * n + j)
            matches = np.flatnonzero(place >= 0)
            subgradient, has_residual = part.u.copy(), part.has_residual.copy()
            subgradient[place[matches], k[matches]], has_residual[place[matches], k[matches]] = u[matches], True
            parts.append(replace(part, u=subgradient, has_residual=has_residual))
        return replace(self, candidates=parts[0], listed=parts[1])
