"""Newton step on a face in sparse storage, by conjugate gradients with differences of gradients as Hessian products.

On the face of the penalty at Theta (zeros stay zero, equal values of fused classes stay equal) the objective is smooth.
A product of its Hessian with a direction needs ``(W Delta W)_ij`` on the working set: the derivative of the entries of
the inverse, which is computed as a central difference of two selected inversions.
"""

from __future__ import annotations

import numpy as np

from jointglasso._typing import FloatArray
from jointglasso.solvers.sparse_gradient import ProximalSteps, SparsePoint

#: Maximal conjugate gradient steps; relative residual at which they end; relative length of a difference.
_CG_STEPS, _CG_RESIDUAL, _DIFFERENCE = 40, 0.05, 1e-5

#: Maximal halvings of a step.
_HALVINGS = 8


class SparseFace:
    """Free variables of the face at the point of `steps`: clusters of entries, then the diagonal."""

    def __init__(self, steps: ProximalSteps) -> None:
        self.point = steps.point
        group, entries = self.point.group, self.point.working_set
        cluster = group.penalty.face(self.point.theta, entries.entries)[0]
        self.free = np.flatnonzero(cluster >= 0)
        #: Cluster of each free entry, numbered without gaps, and its first entry.
        numbers, first, self.variable = np.unique(cluster[self.free], return_index=True, return_inverse=True)
        self.n = len(numbers)
        #: Sign relative to the first entry of the cluster: the maximum penalty has clusters of both signs.
        sign = np.sign(self.point.theta[self.free])
        self.sign = sign * sign[first][self.variable]
        #: Diagonal of the Hessian of the likelihood, as a preconditioner.
        self.metric = np.concatenate([2.0 * self._sums(self.sign * steps.h[self.free]), steps.h_diagonal])

    def _sums(self, of_free: FloatArray) -> FloatArray:
        """Derivative by the clusters from that by the free entries."""
        return np.bincount(self.variable, self.sign * of_free, self.n).astype(float)

    def moved(self, step: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Entries and diagonal after a step; entries whose sign would change become zero."""
        theta = self.point.theta.copy()
        theta[self.free] += self.sign * step[: self.n][self.variable]
        theta[theta * self.point.theta < 0.0] = 0.0
        return theta, self.point.diagonal + step[self.n :]

    def gradient(self, step: FloatArray) -> FloatArray | None:
        """Gradient of the objective after a step; None if Theta is then not positive definite."""
        group, entries = self.point.group, self.point.working_set
        theta = self.point.theta.copy()
        theta[self.free] += self.sign * step[: self.n][self.variable]
        moved = SparsePoint.of(entries, theta, self.point.diagonal + step[self.n :])
        if moved is None:
            return None
        W, variance = entries.gather(moved.inverted().inverses)
        slope = group.penalty.face(theta, entries.entries)[1]
        weight = group.weights[group.member_class]
        diagonal = group.diagonal_penalty - weight * (variance - group.diagonal)
        slope = slope - entries.weight * (W - entries.S)
        return np.concatenate([2.0 * self._sums(slope[self.free]), diagonal])

    def product(self, direction: FloatArray) -> FloatArray | None:
        """Hessian times a direction."""
        values = np.concatenate([np.abs(self.point.theta[self.free]), self.point.diagonal])
        sizes = np.concatenate([np.abs(direction[: self.n][self.variable]), np.abs(direction[self.n :])])
        length = _DIFFERENCE / max(float((sizes / values).max()), 1e-300)
        ahead, behind = self.gradient(length * direction), self.gradient(-length * direction)
        return None if ahead is None or behind is None else (ahead - behind) / (2.0 * length)

    def direction(self) -> FloatArray | None:
        """Newton direction by preconditioned conjugate gradients."""
        gradient = self.gradient(np.zeros(self.n + len(self.point.diagonal)))
        if gradient is None:
            return None
        x, r = np.zeros_like(gradient), -gradient
        z = r / self.metric
        d, rz = z, float(r @ z)
        limit = _CG_RESIDUAL**2 * rz
        for _ in range(_CG_STEPS):
            q = self.product(d)
            curvature = 0.0 if q is None else float(d @ q)
            if q is None or not curvature > 0.0:
                break
            x = x + rz / curvature * d
            r = r - rz / curvature * q
            z = r / self.metric
            before, rz = rz, float(r @ z)
            if rz <= limit:
                break
            d = z + rz / before * d
        return x if x.any() else None


def newton_step(steps: ProximalSteps) -> bool:
    """Move to a point of smaller objective along the Newton direction of the face; False if there is none."""
    face = SparseFace(steps)
    direction = face.direction()
    if direction is None:
        return False
    for halving in range(_HALVINGS):
        trial = SparsePoint.of(steps.point.working_set, *face.moved(0.5**halving * direction))
        if trial is not None and trial.objective < steps.objective:
            steps.move_to(trial)
            return True
    return False
