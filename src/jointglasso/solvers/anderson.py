"""Anderson acceleration of a fixed-point iteration, group by group.

A linear combination of the last images of ``z -> image(z)`` whose residuals ``image - z`` nearly cancel replaces the
last image. Unless its residual is smaller, the iteration takes the image itself and discards the earlier ones, so
that the method converges where the plain one does (theorem M7 of docs/theory/methods.md).
"""

from __future__ import annotations

import numpy as np

from jointglasso._typing import BoolArray, FloatArray
from jointglasso.blocks.system import BlockSystem

#: Number of differences of images that are kept, and of iterations from one extrapolation to the next.
MEMORY, _PERIOD = 10, 5

#: Regularisation relative to the sum of squared differences of residuals; largest coefficient of an extrapolation.
_RIDGE, _MAX_COEFFICIENT = 1e-12, 1e6

#: Decrease of the residual for which an extrapolated point is kept.
_DECREASE = 0.999


class Anderson:
    """Differences between successive images and residuals, (MEMORY, E) each, in the flat storage of the blocks."""

    def __init__(self, system: BlockSystem) -> None:
        self.system, self.number = system, 0
        self.images, self.residuals = np.zeros((MEMORY, system.S.size)), np.zeros((MEMORY, system.S.size))
        self.image, self.residual = np.zeros(system.S.size), np.zeros(system.S.size)
        self.metric = np.zeros(system.n_blocks)
        self.norm = np.full(system.n_groups, np.inf)
        """(G,): norm of the residual before an extrapolation; infinite after a plain iteration."""
        self.fresh = np.ones(system.n_groups, dtype=bool)
        """(G,): groups without a former image."""

    @np.errstate(over="ignore", invalid="ignore")
    def next_point(self, z: FloatArray, image: FloatArray, metric: FloatArray) -> FloatArray:
        """Point of the next iteration; `metric` (B,) weighs the squares of each block, and a new one starts anew."""
        system = self.system
        residual = np.sqrt(system.per_element(metric)) * (image - z)
        norm = np.sqrt(system.sum_per_group(system.sum_per_block(residual * residual)))
        changed = system.sum_per_group((metric != self.metric).astype(float)) > 0.0
        worse = ~(norm <= _DECREASE * self.norm) & ~changed
        self.metric, self.norm = metric, np.full(system.n_groups, np.inf)
        self._restart(changed | worse)
        if worse.any():
            image = np.where(self.system.per_element_of_groups(worse), self.image, image)
        self._append(image, residual)
        self.fresh = worse
        self.number += 1
        return image if self.number % _PERIOD else self._extrapolate(norm)

    def _append(self, image: FloatArray, residual: FloatArray) -> None:
        """Replace the oldest differences; those of groups without a former image are zero."""
        slot, known = self.number % MEMORY, self.system.per_element_of_groups(~self.fresh)
        np.multiply(known, image - self.image, out=self.images[slot])
        np.multiply(known, residual - self.residual, out=self.residuals[slot])
        self.image, self.residual = image, residual

    def _restart(self, groups: BoolArray) -> None:
        """Discard the differences of these groups."""
        if groups.any():
            kept = ~self.system.per_element_of_groups(groups)
            self.images *= kept
            self.residuals *= kept
            self.fresh = self.fresh | groups

    def _extrapolate(self, norm: FloatArray) -> FloatArray:
        """Image less the combination of differences that minimises the residual of each group."""
        system, offset = self.system, self.system.offset[:-1]
        gram, linear = np.zeros((system.n_groups, MEMORY, MEMORY)), np.zeros((system.n_groups, MEMORY))
        for m, residual in enumerate(self.residuals):
            np.add.at(gram[:, m], system.block_group, np.add.reduceat(residual * self.residuals, offset, axis=1).T)
            linear[:, m] = system.sum_per_group(system.sum_per_block(residual * self.residual))
        trace = np.trace(gram, axis1=1, axis2=2)
        gram[:, range(MEMORY), range(MEMORY)] += np.where(trace > 1e-200, _RIDGE * trace, 1.0)[:, None]
        gamma = np.linalg.solve(gram, linear[:, :, None])[:, :, 0]
        good = (np.abs(gamma).max(axis=1) < _MAX_COEFFICIENT) & gamma.any(axis=1) & ~self.fresh
        gamma = np.where(good[:, None], gamma, 0.0)
        self.norm = np.where(good, norm, np.inf)
        point = self.image.copy()
        for coefficient, image in zip(gamma.T, self.images, strict=True):
            point -= self.system.per_element_of_groups(coefficient) * image
        return point
