"""Newton's method on a face of a fusion penalty.

On a face, zeros remain zero and values that are equal in several classes (clusters) remain equal. The unknowns are the
diagonal entries and one value per cluster; with a fused diagonal, one value per cluster of diagonal entries. The
objective is smooth on the face, so that Newton's method converges quadratically, column sweeps only linearly.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jointglasso._typing import BoolArray, FloatArray, IntArray
from jointglasso.blocks.diagonal import FusedDiagonal
from jointglasso.blocks.system import bincount
from jointglasso.duality import DualityGap
from jointglasso.solvers.base import SolverTask

#: Maximal conjugate gradient steps per direction, which well-conditioned faces do not reach; a step must reduce the gap
#: to this fraction, else the face is not that of the solution.
_FACE_STEPS, _FACE_GAIN = 200, 0.3


class Pattern:
    """Symmetric matrices with a fixed support (b, b), as vectors of their entries i <= j."""

    def __init__(self, support: BoolArray) -> None:
        b = len(support)
        full = support | support.T | np.eye(b, dtype=bool)
        self.rows, self.columns = (ends.copy() for ends in np.nonzero(np.triu(full)))  # contiguous for kernels
        off = self.rows != self.columns
        self.edges = self.rows[off], self.columns[off]
        self.twice = 1.0 + off
        self._shape = (b, b)

    @property
    def neighbours(self) -> tuple[IntArray, IntArray]:
        """Adjacency lists in CSR form: start (b + 1,) and neighbours."""
        i, j = self.edges
        ends, others = np.concatenate([i, j]), np.concatenate([j, i])
        order = np.lexsort((others, ends))
        return np.searchsorted(ends[order], np.arange(self._shape[0] + 1)), others[order]

    def take(self, matrix: FloatArray) -> FloatArray:
        """Entries of a symmetric matrix on the support."""
        return matrix[self.rows, self.columns]

    def dot(self, first: FloatArray, second: FloatArray) -> float:
        """Frobenius inner product of two matrices given by their entries."""
        return float((self.twice * first * second).sum())

    def matrix(self, entries: FloatArray) -> FloatArray:
        """(b, b): dense symmetric matrix with these entries."""
        out = np.zeros(self._shape)
        out[self.rows, self.columns] = entries
        out[self.columns, self.rows] = entries
        return out

    def curved(self, W: FloatArray, entries: FloatArray) -> FloatArray:
        """Hessian-vector product: entries of ``W D W`` on the support, D given by `entries`."""
        from jointglasso.kernels.support_newton import sandwiched

        return sandwiched(self.rows, self.columns, W, entries)

    def curvature(self, W: FloatArray) -> FloatArray:
        """Diagonal of the Hessian at W."""
        variance = W.diagonal()
        return variance[self.rows] * variance[self.columns] + (self.rows != self.columns) * self.take(W) ** 2


class Face:
    """Matrices of several classes on their supports, parametrised by z (n_variables,), one value per cluster."""

    def __init__(
        self, weight: Sequence[float] | FloatArray, patterns: list[Pattern], variable: list[IntArray], n_variables: int
    ) -> None:
        self.weight, self.patterns, self.variable, self.n_variables = weight, patterns, variable, n_variables
        self._all = np.concatenate(variable)
        self._factor = np.concatenate([w * pattern.twice for w, pattern in zip(weight, patterns, strict=True)])

    def sum(self, entries: list[FloatArray]) -> FloatArray:
        """(n_variables,): weighted sum of the entries of each cluster, off-diagonal entries counted twice."""
        return bincount(self._all, self._factor * np.concatenate(entries), self.n_variables)

    def matrices(self, z: FloatArray) -> list[FloatArray]:
        """Dense blocks with the cluster values z."""
        return [pattern.matrix(z[variable]) for pattern, variable in zip(self.patterns, self.variable, strict=True)]

    def curved(self, W: list[FloatArray], z: FloatArray) -> FloatArray:
        """Hessian-vector product of the negative log-likelihood at Theta = W^{-1}."""
        parts = zip(self.patterns, self.variable, W, strict=True)
        return self.sum([pattern.curved(w, z[variable]) for pattern, variable, w in parts])

    def newton_direction(
        self,
        W: list[FloatArray],
        gradient: FloatArray,
        tolerance: float = 0.0,
        penalty_hvp: Callable[[FloatArray], FloatArray] | None = None,
        Theta: list[FloatArray] | None = None,
    ) -> FloatArray:
        """Newton direction by preconditioned conjugate gradients.

        The preconditioner is the diagonal of the Hessian or, given Theta, the mean over the classes of a cluster of
        ``Theta_k G Theta_k``, the inverse Hessian on a full support: fewer steps of twice the cost. They end
        when the squared preconditioned norm of the residual is at most `tolerance`. `penalty_hvp` is the Hessian-vector
        product of a penalty with curvature.
        """
        curvature = self.sum([p.curvature(w) for p, w in zip(self.patterns, W, strict=True)])
        count = self.sum([np.ones(len(variable)) for variable in self.variable])

        def precondition(residual: FloatArray) -> FloatArray:
            return residual / curvature if Theta is None else self.curved(Theta, residual / count) / count

        z, residual = np.zeros_like(gradient), -gradient
        search = scaled = precondition(residual)
        with np.errstate(over="ignore"):
            decrement = initial = float(residual @ scaled)
        if not np.isfinite(initial):  # far from the solution of a badly conditioned group: no step
            return z
        for _ in range(_FACE_STEPS):
            if decrement <= max(tolerance, initial * min(1e-2, initial)):
                break
            product = self.curved(W, search)
            if penalty_hvp is not None:
                product += penalty_hvp(search)
            length = decrement / float(search @ product)
            z = z + length * search
            residual = residual - length * product
            scaled = precondition(residual)
            before, decrement = decrement, float(residual @ scaled)
            search = scaled + (decrement / before) * search
        return z


def newton_on_face(
    task: SolverTask, theta: FloatArray, bounds: DualityGap, max_steps: int
) -> tuple[FloatArray, DualityGap, int]:
    """Newton steps on the face of `theta` (a single group with its bounds) while they reduce the duality gap.

    Returns the last point, its bounds and the number of steps.
    """
    taken = 0
    while taken < max_steps and task.unsolved(bounds)[0] and np.isfinite(bounds.gap[0]):
        before, taken = bounds.gap[0], taken + 1
        for length in (1.0, 0.3):
            moved = _step(task, theta, bounds, length)
            moved_bounds = task.bounds(moved)
            if np.isfinite(moved_bounds.gap[0]) and task.unsolved(moved_bounds)[0]:
                # A proximal step can leave the face if the solution is not on it.
                snapped = prox_step(task, moved, moved_bounds.inverse)
                snapped_bounds = task.bounds(snapped)
                if snapped_bounds.gap[0] < moved_bounds.gap[0]:
                    moved, moved_bounds = snapped, snapped_bounds
            if moved_bounds.gap[0] < bounds.gap[0]:
                theta, bounds = moved, moved_bounds
                break
        if not bounds.gap[0] <= _FACE_GAIN * before:
            break
    return theta, bounds, taken


def prox_step(task: SolverTask, theta: FloatArray, W: FloatArray) -> FloatArray:
    """One proximal step from `theta`, W being close to its inverse; gives exact zeros and exactly equal values."""
    system = task.system
    upper = system.upper
    products = system.products_of_members(W[system.diagonal], np.ones(system.n_blocks))
    curvature = system.weigh(products + W[upper] ** 2)
    linear = curvature * theta[upper] + system.weigh(W[upper] - system.S[upper])
    entries = task.penalty.update(curvature, linear, system.entries(task.penalty))
    diagonal, fused = theta[system.diagonal], FusedDiagonal.of(system, task.penalty)
    if fused is not None:
        variance, weight = W[system.diagonal], system.block_weight[system.diagonal_block]
        slope = weight * (variance - system.optimal_variance(task.diagonal_penalty))
        diagonal = fused.update(weight * variance**2, weight * variance**2 * diagonal + slope)
    return system.scatter(entries, diagonal)


def _step(task: SolverTask, theta: FloatArray, bounds: DualityGap, length: float) -> FloatArray:
    """Newton step of relative `length` from `theta` on its face; entries that would change sign are set to zero."""
    system, penalty = task.system, task.penalty
    entries, values, diagonal = system.entries(penalty), system.gather(theta), theta[system.diagonal]
    cluster, slope = penalty.face(values, entries)
    fused = FusedDiagonal.of(system, penalty)
    diagonal_cluster, diagonal_slope = (
        (np.arange(len(diagonal)), 0.0 * diagonal) if fused is None else fused.face(diagonal)
    )
    n_diagonal = int(diagonal_cluster.max()) + 1
    number = np.full(len(theta), -1, dtype=np.int64)
    number[system.upper] = np.where(cluster >= 0, cluster + n_diagonal, -1)
    number[system.diagonal] = diagonal_cluster
    free = cluster >= 0
    variable = cluster[free] + n_diagonal
    n_variables = n_diagonal + int(cluster.max(initial=-1)) + 1
    face, W = _face_of(task, number, n_variables), _blocks(task, bounds.inverse)
    S = _blocks(task, system.S)
    gradient = face.sum([p.take(s - w) for p, s, w in zip(face.patterns, S, W, strict=True)])
    gradient += bincount(diagonal_cluster, diagonal_slope + task.diagonal_penalty, n_variables)
    gradient += bincount(variable, 2.0 * slope[free], n_variables)

    def penalty_hvp(z: FloatArray) -> FloatArray:
        along = np.zeros_like(values)
        along[free] = z[variable]
        return bincount(variable, 2.0 * penalty.hvp(along, entries)[free], n_variables)

    enough = 0.1 * float(task.limits(bounds)[0])
    z = length * face.newton_direction(W, gradient, enough, None if penalty.homogeneous else penalty_hvp)
    updated = np.zeros_like(values)
    updated[free] = values[free] + z[variable]
    updated[updated * values <= 0.0] = 0.0
    return system.scatter(updated, diagonal + z[diagonal_cluster])


def _face_of(task: SolverTask, number: IntArray, n_variables: int) -> Face:
    patterns, variable = list[Pattern](), list[IntArray]()
    for numbers in _blocks(task, number):
        pattern = Pattern(numbers >= 0)
        patterns.append(pattern)
        variable.append(np.asarray(numbers[pattern.rows, pattern.columns]))
    return Face(task.system.block_weight, patterns, variable, n_variables)


def _blocks(task: SolverTask, flat: Any) -> list[Any]:
    """Views (b, b) of the blocks of a flat array."""
    offset, size = task.system.offset, task.system.size
    return [flat[start : start + b * b].reshape(b, b) for start, b in zip(offset[:-1], size, strict=True)]
