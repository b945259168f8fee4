"""The Laplacian penalty: ``phi(t) = lambda1 |t|_1 + lambda2 sum_{k<l} b_kl (t_k - t_l)^2``, b a graph of the classes.

Neighbours in the graph are drawn towards one another, but stay different: networks that drift.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from scipy import sparse

from jointglasso._typing import BoolArray, FloatArray, IntArray
from jointglasso.kernels.pair_types import LAPLACIAN, Entries, FusedPair
from jointglasso.penalties.base import UNIFORM
from jointglasso.penalties.tied import TiedPenalty


@dataclass(frozen=True, eq=False)
class LaplacianPenalty(TiedPenalty):
    """Laplacian penalty on the entries of a pair over the classes.

    Its subdifferential at zero is ``{u : |u_k| <= lambda1}``. Where one class holds a pair its pull on a neighbour has
    no bound, so that only what is known of the solution lets a class be cut alone.
    """

    name: ClassVar[str] = "laplacian"

    @cached_property
    def pair(self) -> FusedPair:
        """The penalty of one pair, for compiled code."""
        ties, nothing = np.ascontiguousarray(self.lambda2 * self.graph, dtype=np.float64), np.empty(0, dtype=np.int64)
        return FusedPair(self.l1, ties, LAPLACIAN, np.empty(0), nothing, nothing)

    def pattern(self, rows: FloatArray, factor: FloatArray = UNIFORM) -> IntArray:
        """Signs for unit variances and weights; others may have another support, which the recheck finds."""
        linear, entries = self.as_entries(-rows, factor)
        found = self.update(np.ones_like(linear), linear, entries)
        # Ties in units far from these leave no number, and to join a class is always right.
        signs = np.where(np.isnan(found), 1.0, np.sign(found)).astype(np.int64)
        return np.asarray(signs.reshape(rows.shape))

    def closure(self, rows: FloatArray, joined: BoolArray, factor: FloatArray = UNIFORM) -> BoolArray:
        out: BoolArray = joined | (np.abs(rows) >= _per_row(self.l1, factor) * (1.0 - 1e-12)) & (rows != 0)
        _, part = sparse.csgraph.connected_components(sparse.csr_array(self.ties), directed=False)
        for number in range(part.max() + 1):
            members = part == number
            out[:, members] = out[:, members].any(axis=1, keepdims=True)
        return out

    def bend(self, step: FloatArray, entries: Entries) -> FloatArray:
        at, out = np.flatnonzero(step), np.zeros_like(step)
        pairs, row = np.unique(np.searchsorted(entries.start, at, side="right") - 1, return_inverse=True)
        laplacian = 2.0 * self.lambda2 * (np.diag(self.graph.sum(axis=1)) - self.graph)
        bent = (_spread(step[at], row, entries.cls[at], self.n_classes) @ laplacian)[row, entries.cls[at]]
        out[at] = bent if len(entries.factor) == 0 else bent * entries.factor[pairs][row]
        return out

    def certain_zeros(
        self, theta: FloatArray, u: FloatArray, u_reach: FloatArray, theta_reach: FloatArray, entries: Entries
    ) -> BoolArray:
        pair = np.repeat(np.arange(len(entries.start) - 1), np.diff(entries.start))
        scale = 1.0 if len(entries.factor) == 0 else entries.factor[pair]
        pull = 2.0 * self.lambda2 * self.graph
        rows, reaches = (_spread(part, pair, entries.cls, self.n_classes) for part in (theta, theta_reach))
        at = pair, entries.cls
        # No bound on a neighbour is no bound here; infinity times no tie is nothing.
        boundless = ~np.isfinite(reaches)
        far = np.where(boundless @ (pull > 0.0), np.inf, np.where(boundless, 0.0, reaches) @ pull)
        pulled = scale * np.where(scale == 0.0, 0.0, far[at])
        largest = np.abs(u + scale * (rows @ pull)[at]) + u_reach + pulled
        zero: BoolArray = largest < scale * self.lambda1 * (1.0 - 1e-12)
        return zero


def _per_row(l1: FloatArray, factor: FloatArray) -> FloatArray:
    return l1 if len(factor) == 0 else factor[:, None] * l1


def _spread(values: FloatArray, pair: IntArray, cls: IntArray, n_classes: int) -> FloatArray:
    """Rows (P, K) of entries, zero where a class does not hold the pair."""
    rows = np.zeros((int(pair.max(initial=-1)) + 1, n_classes))
    rows[pair, cls] = values
    return rows
