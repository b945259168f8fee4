"""The group penalty on arrays (K, P) of pairs that all classes have: the functions of `kernels/group_pair.py`.

A class that does not hold a pair has a covariance and a value of zero there, which changes nothing: a zero pulls at
nobody.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

#: Steps of Newton's method for the size of a pair; it climbs from below and ends long before.
_STEPS = 12


class Face(NamedTuple):
    """Support and signs that are kept: there the penalty is smooth. See `kernels/faces.py`."""

    free: Any
    sign: Any
    unit: Any
    """Of the vector of the pair."""
    curve: Any


@dataclass(frozen=True)
class GroupArrays:
    """``l1 |t|_1 + l2 |t|_2`` of each column t, in the functions of `xp`."""

    xp: Any
    l1: float
    l2: float

    def times(self, factor: float) -> GroupArrays:
        """All coefficients multiplied."""
        return GroupArrays(self.xp, factor * self.l1, factor * self.l2)

    def value(self, t: Any) -> float:
        """Sum over the pairs."""
        return float(self.l1 * self.xp.abs(t).sum() + self.l2 * self.xp.sqrt((t * t).sum(axis=0)).sum())

    def outside(self, u: Any) -> Any:
        """Pairs outside the dual ball."""
        return (self.xp.maximum(self.xp.abs(u) - self.l1, 0.0) ** 2).sum(axis=0) > self.l2 * self.l2

    def _soft(self, u: Any) -> Any:
        return self.xp.sign(u) * self.xp.maximum(self.xp.abs(u) - self.l1, 0.0)

    def nearest_subgradient(self, t: Any, wanted: Any) -> Any:
        """Subgradient at t nearest to `wanted`."""
        xp = self.xp
        norm, soft = xp.sqrt((t * t).sum(axis=0)), self._soft(wanted)
        some = norm > 0.0
        excess = xp.sqrt((soft * soft).sum(axis=0))
        beyond = xp.where(excess > self.l2, 1.0 - self.l2 / xp.where(excess > 0.0, excess, 1.0), 0.0)
        at_edge = self.l1 * xp.sign(t) + self.l2 * t / xp.where(some, norm, 1.0)
        inside = xp.clip(wanted, -self.l1, self.l1)
        return xp.where(some, xp.where(t != 0.0, at_edge, inside), wanted - beyond * soft)

    def update(self, a: Any, b: Any) -> Any:
        """Minimiser of ``sum a x^2 / 2 - b x`` plus the penalty for each pair."""
        xp, soft = self.xp, self._soft(b)
        size = xp.sqrt((soft * soft).sum(axis=0))
        some = size > self.l2
        if self.l2 == 0.0:
            return soft / a
        steepest = xp.where(some, xp.where(soft != 0.0, a, 0.0).max(axis=0), 1.0)
        r = xp.where(some, (size - self.l2) / steepest, 0.0)
        for _ in range(_STEPS):
            scale = a * r + self.l2
            part = (soft / scale) ** 2
            total, slope = part.sum(axis=0), (part * a / scale).sum(axis=0)
            r = xp.where(some, r + total * (xp.sqrt(total) - 1.0) / xp.where(some, slope, 1.0), 0.0)
        return soft * r / (a * r + self.l2)

    def enter_face(self, x: Any, gradient: Any, curvature: Any) -> Face:
        """Face at x. A zero pair enters with the direction and size of its own one-pair minimiser."""
        xp = self.xp
        y = xp.where((x != 0.0).any(axis=0), x, self.update(curvature, -gradient))
        norm = xp.sqrt((y * y).sum(axis=0))
        free = (norm > 0.0) & ((y != 0.0) | (xp.abs(gradient) > self.l1))
        sign = xp.where((y > 0.0) | ((y == 0.0) & (gradient < 0.0)), 1.0, -1.0)
        norm = xp.where(norm > 0.0, norm, 1.0)
        return Face(free, sign, xp.where(free, y / norm, 0.0), xp.where(free, self.l2 / norm, 0.0))

    def update_face(self, z: Any, face: Face) -> Face:
        """Unit vectors and curvatures at z; pairs still at zero keep those they entered with."""
        xp = self.xp
        norm = xp.sqrt((z * z).sum(axis=0))
        some = norm > 0.0
        norm = xp.where(some, norm, 1.0)
        unit, curve = xp.where(some, z / norm, face.unit), xp.where(some, self.l2 / norm, face.curve)
        return face._replace(unit=xp.where(face.free, unit, 0.0), curve=xp.where(face.free, curve, 0.0))

    def slope(self, face: Face) -> Any:
        """Slope of the penalty on a face."""
        return self.l1 * face.sign + self.l2 * face.unit

    def bend(self, face: Face, v: Any) -> Any:
        """Change of the slope along v."""
        return face.curve * (v - face.unit * (face.unit * v).sum(axis=0))
