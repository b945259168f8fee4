"""The Laplacian penalty: ``phi(t) = lambda1 |t|_1 + lambda2 sum_{k<l} b_kl (t_k - t_l)^2`` over a class graph b.

Values of neighbouring classes become similar, but not equal: networks that change gradually.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy import sparse

from jointglasso._cached_property import cached_property
from jointglasso._typing import BoolArray, FloatArray, IntArray
from jointglasso.kernels.pair_types import Entries, LaplacianPair
from jointglasso.penalties.base import UNIFORM, SafeRegion, l1_weights, times
from jointglasso.penalties.class_graph import ClassGraphPenalty


@dataclass(frozen=True, eq=False)
class LaplacianPenalty(ClassGraphPenalty):
    """Laplacian penalty on the entries of a pair over the classes.

    Its subdifferential at zero is ``{u : |u_k| <= lambda1}``. Where theta_l is not zero, the gradient of the coupling
    term in a neighbour k is unbounded a priori, so that screening out a single class needs bounds on the solution.
    """

    name: ClassVar[str] = "laplacian"

    @cached_property
    def pair(self) -> LaplacianPair:
        """The penalty of one pair, for compiled code."""
        return LaplacianPair(self.l1, np.ascontiguousarray(self.lambda2 * self.graph, dtype=np.float64))

    def signs(self, rows: FloatArray, factor: FloatArray = UNIFORM) -> IntArray:
        """Signs for unit variances and weights; for others the support may differ, which the recheck detects."""
        linear, entries = self.as_entries(-rows, factor)
        minimiser = self.update(np.ones_like(linear), linear, entries)
        # Badly scaled coefficients overflow to NaN; joining a class is always valid.
        signs = np.where(np.isnan(minimiser), 1.0, np.sign(minimiser)).astype(np.int64)
        return np.asarray(signs.reshape(rows.shape))

    def closure(self, rows: FloatArray, joined: BoolArray, factor: FloatArray = UNIFORM) -> BoolArray:
        out: BoolArray = joined | (np.abs(rows) >= times(self.l1, l1_weights(factor)) * (1.0 - 1e-12)) & (rows != 0)
        _, component = sparse.csgraph.connected_components(sparse.csr_array(self.class_graph), directed=False)
        for number in range(component.max() + 1):
            members = component == number
            out[:, members] = out[:, members].any(axis=1, keepdims=True)
        return out

    def certified_zeros(self, region: SafeRegion, entries: Entries) -> BoolArray:
        pair = np.repeat(np.arange(len(entries.start) - 1), np.diff(entries.start))
        scale = 1.0 if len(entries.factor) == 0 else entries.factor[pair]
        pull = 2.0 * self.lambda2 * self.graph
        rows, radii = (_spread(part, pair, entries.cls, self.n_classes) for part in (region.theta, region.theta_radius))
        index = pair, entries.cls
        # An unbounded neighbour makes the entry unbounded; infinity times a zero coefficient counts as zero.
        unbounded = ~np.isfinite(radii)
        neighbour_radius = np.where(unbounded @ (pull > 0.0), np.inf, np.where(unbounded, 0.0, radii) @ pull)
        coupling_radius = scale * np.where(scale == 0.0, 0.0, neighbour_radius[index])
        largest = np.abs(region.u + scale * (rows @ pull)[index]) + region.u_radius + coupling_radius
        zero: BoolArray = largest < (entries.l1 if len(entries.l1) else scale) * self.lambda1 * (1.0 - 1e-12)
        return zero


def _spread(values: FloatArray, pair: IntArray, cls: IntArray, n_classes: int) -> FloatArray:
    """Entries as rows (P, K), zero where a pair has no entry in a class."""
    rows = np.zeros((int(pair.max(initial=-1)) + 1, n_classes))
    rows[pair, cls] = values
    return rows
