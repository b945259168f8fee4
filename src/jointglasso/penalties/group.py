"""The group penalty of the paper's Eq. (3)-(4): ``phi(theta) = lambda1 |theta|_1 + lambda2 |theta|_2``."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from jointglasso._typing import BoolArray, FloatArray, IntArray
from jointglasso.penalties.base import UNIFORM


@dataclass(frozen=True)
class GroupPenalty:
    """Sparse-group penalty on the entries of a pair over the classes.

    Its subdifferential at zero, the dual ball, is ``{u : sum_k (|u_k| - lambda1)_+^2 <= lambda2^2}``: the
    global rule (8a). A class may be cut alone where ``|u_k| <= lambda1``: the class rule (8b).
    """

    lambda1: float
    lambda2: float

    def value(self, theta: FloatArray, start: IntArray, factor: FloatArray = UNIFORM) -> FloatArray:
        from jointglasso.kernels import group_penalty

        return group_penalty.value(theta, start, factor, self.lambda1, self.lambda2)

    def prox(self, values: FloatArray, start: IntArray, step: FloatArray, factor: FloatArray = UNIFORM) -> FloatArray:
        from jointglasso.kernels import group_penalty

        return group_penalty.prox(values, start, factor, step, self.lambda1, self.lambda2)

    def nearest_subgradient(
        self,
        theta: FloatArray,
        wanted: FloatArray,
        start: IntArray,
        spent: FloatArray,
        factor: FloatArray = UNIFORM,
    ) -> FloatArray:
        from jointglasso.kernels import group_penalty

        return group_penalty.nearest_subgradient(theta, wanted, start, factor, self.lambda1, self.lambda2, spent)

    def gauge(self, values: FloatArray, start: IntArray, factor: FloatArray = UNIFORM) -> FloatArray:
        from jointglasso.kernels import group_penalty

        return group_penalty.gauge(values, start, factor, self.lambda1, self.lambda2)

    def above(self, weighted: FloatArray, factor: FloatArray = UNIFORM) -> BoolArray:
        above: BoolArray = np.abs(weighted) > _per_entry(self.lambda1, weighted, factor)
        return above

    def below(self, values: FloatArray, factor: FloatArray = UNIFORM) -> BoolArray:
        below: BoolArray = np.abs(values) < _per_entry(self.lambda1, values, factor)
        return below

    def excess(self, weighted: FloatArray, factor: FloatArray = UNIFORM) -> FloatArray:
        over: FloatArray = np.maximum(np.abs(weighted) - _per_entry(self.lambda1, weighted, factor), 0.0)
        return over * over

    def used(self, values: FloatArray, start: IntArray, factor: FloatArray = UNIFORM) -> FloatArray:
        from jointglasso.kernels import group_penalty

        out = np.empty(len(start) - 1)
        group_penalty.used(values, start, factor, self.lambda1, self.lambda2, out)
        return out

    def budget(self, factor: FloatArray = UNIFORM) -> FloatArray | float:
        if len(factor) == 0:
            return self.lambda2 * self.lambda2
        scaled: FloatArray = factor * self.lambda2
        return scaled * scaled

    def strong(self, weighted: FloatArray, factor: FloatArray = UNIFORM) -> BoolArray:
        # One canonical expression, summed in class order, so that ties fall the same way everywhere.
        used = np.zeros(weighted.shape[0])
        for k in range(weighted.shape[1]):
            used += self.excess(weighted[:, k], factor)
        return used > self.budget(factor)

    def lambda_max(self, weighted: FloatArray, factor: FloatArray = UNIFORM) -> float:
        m, n_classes = weighted.shape
        if m == 0:
            return 0.0
        start = np.arange(0, m * n_classes + 1, n_classes)
        return float(self.gauge(np.ascontiguousarray(weighted).ravel(), start, factor).max())


def _per_entry(penalty: float, weighted: FloatArray, factor: FloatArray) -> FloatArray | float:
    """Penalty of each entry, in a shape that goes with rows (m, K) or a list of entries."""
    if len(factor) == 0:
        return penalty
    scaled: FloatArray = penalty * factor
    return scaled[:, None] if weighted.ndim == 2 else scaled
