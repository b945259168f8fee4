"""Maximum likelihood on the face of a fused solution: zeros and equalities between classes are kept as constraints.

The free parameters are the diagonals and one value for each cluster of classes with equal entries; the objective is
``sum_k n_k [-log det Theta_k + <S_k, Theta_k>]``. As in `support_fit` it is self-concordant, so that a Newton decrement
below 1 proves that the minimum exists.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse
from scipy.linalg import cho_factor

from jointglasso._typing import FloatArray, IntArray
from jointglasso.data import CovarianceSource
from jointglasso.selection.support_fit import Fit, Limits, inverse, maximise
from jointglasso.solution import EdgeClusters
from jointglasso.solvers.face import Face, Pattern

#: Diagonal precision, on the scale of correlations, above which an unconverged estimate counts as diverging.
_DIVERGED = 1e6


@dataclass(frozen=True)
class Block:
    """Connected component of one class: class index `k` and variable indices `members`."""

    k: int
    members: IntArray


def coupled_blocks(precision: Sequence[Any], edge_clusters: EdgeClusters) -> list[list[Block]]:
    """Connected components of all classes, grouped where they share the value of an edge (are fused)."""
    p = precision[0].shape[0]
    blocks, owner = list[Block](), np.full((len(precision), p), -1, dtype=np.int64)
    for k, Theta in enumerate(precision):
        count, label = sparse.csgraph.connected_components(sparse.csr_array(Theta), directed=False)
        order = np.argsort(label, kind="stable")
        owner[k] = label + len(blocks)
        blocks += [Block(k, part) for part in np.split(order, np.cumsum(np.bincount(label, minlength=count))[:-1])]
    present = edge_clusters.present(precision)
    ends: list[tuple[IntArray, IntArray]] = []
    for class_pair, (one, two) in enumerate(edge_clusters.neighbours):
        shared = np.flatnonzero(edge_clusters.equal[:, class_pair] & present[:, one] & present[:, two])
        ends.append((owner[one, edge_clusters.rows[shared]], owner[two, edge_clusters.rows[shared]]))
    i, j = (np.concatenate([pair[side] for pair in ends] or [np.empty(0, np.int64)]) for side in (0, 1))
    graph = sparse.coo_array((np.ones(len(i)), (i, j)), shape=(len(blocks), len(blocks)))
    groups: dict[int, list[Block]] = {}
    for block, number in zip(blocks, sparse.csgraph.connected_components(graph, directed=False)[1], strict=True):
        groups.setdefault(int(number), []).append(block)
    return list(groups.values())


def fit_face(
    source: CovarianceSource,
    blocks: list[Block],
    precision: Sequence[Any],
    edge_clusters: EdgeClusters,
    ridge: float,
    limits: Limits | None,
) -> Fit:
    """Newton's method from the best multiple of the penalised matrices; with `limits` None, that multiple itself."""
    start = [given_block(precision, block) for block in blocks]
    face = _Face(source, blocks, start, edge_clusters, ridge)
    z = face.multiple(start)
    if limits is None:
        return Fit(face.matrices(z), 0.0)
    limits = replace(limits, diverged=min(limits.diverged, _DIVERGED))
    z, residual, failure = maximise(face, (z, *face.evaluate(z)), limits)
    return Fit(face.matrices(z), residual, failure)


def given_block(precision: Sequence[Any], block: Block) -> FloatArray:
    """Dense diagonal block of ``precision[block.k]``."""
    return sparse.csr_array(precision[block.k])[block.members][:, block.members].toarray()


class _Face(Face):
    """Face spanned by the free parameters of coupled blocks, with the weighted likelihood on it."""

    def __init__(
        self,
        source: CovarianceSource,
        blocks: list[Block],
        start: list[FloatArray],
        edge_clusters: EdgeClusters,
        ridge: float,
    ) -> None:
        sizes = source.sample_sizes
        n = np.ones(source.n_classes) if sizes is None else np.asarray(sizes, dtype=float)
        # At least 1, so that the sum of self-concordant functions is one.
        weight = n[[b.k for b in blocks]] / n[[b.k for b in blocks]].min()
        self.S = [source.block(b.k, b.members) for b in blocks]
        for S in self.S:
            S[np.diag_indices(len(S))] *= 1.0 + ridge
        self.deviation = [np.sqrt(S.diagonal()) for S in self.S]
        patterns = [Pattern(Theta != 0) for Theta in start]
        super().__init__(weight, patterns, *_number_parameters(blocks, patterns, edge_clusters))
        self.size = self.sum([self._scale(b) for b in range(len(patterns))])

    def _scale(self, b: int) -> FloatArray:
        """``d_i d_j`` of each entry (i, j) of block b, d being standard deviations."""
        pattern, deviation = self.patterns[b], self.deviation[b]
        product: FloatArray = deviation[pattern.rows] * deviation[pattern.columns]
        return product

    def multiple(self, start: list[FloatArray]) -> FloatArray:
        """Parameters of ``c * start`` with the c that maximises the likelihood."""
        trace = sum(w * float((S * T).sum()) for w, S, T in zip(self.weight, self.S, start, strict=True))
        size = sum(w * len(T) for w, T in zip(self.weight, start, strict=True))
        z = np.zeros(self.n_variables)
        for variable, pattern, Theta in zip(self.variable, self.patterns, start, strict=True):
            z[variable] = pattern.take(Theta)
        return z * (size / trace)

    def largest(self, point: FloatArray) -> float:
        """Largest diagonal entry on the scale of correlations."""
        pairs = zip(self.matrices(point), self.deviation, strict=True)
        return max(float((Theta.diagonal() * deviation**2).max()) for Theta, deviation in pairs)

    def evaluate(self, point: FloatArray) -> tuple[list[Any], float]:
        """Cholesky factors and objective."""
        factors, total = [], 0.0
        for weight, S, Theta in zip(self.weight, self.S, self.matrices(point), strict=True):
            factors.append(cho_factor(Theta, lower=True))
            total += weight * float((S * Theta).sum() - 2.0 * np.log(np.diagonal(factors[-1][0])).sum())
        return factors, total

    def gradient(self, factors: list[Any]) -> tuple[list[FloatArray], FloatArray, float]:
        """Inverses W_k, gradient, and its largest entry on the scale of correlations."""
        W = [inverse(factor) for factor in factors]
        gradient = self.sum([p.take(S - w) for p, S, w in zip(self.patterns, self.S, W, strict=True)])
        return W, gradient, float(np.max(np.abs(gradient / self.size)))

    def direction(self, point: FloatArray, W: Any, gradient: FloatArray, enough: float) -> tuple[FloatArray, float]:
        """Newton's direction and its decrement."""
        direction = self.newton_direction(W, gradient, Theta=self.matrices(point))
        return direction, max(-float(gradient @ direction), 0.0) ** 0.5


def _number_parameters(
    blocks: list[Block], patterns: list[Pattern], edge_clusters: EdgeClusters
) -> tuple[list[IntArray], int]:
    """Parameter index of each entry (fused entries share one), and the number of parameters."""
    keys = []
    for block, pattern in zip(blocks, patterns, strict=True):
        i, j = block.members[pattern.rows], block.members[pattern.columns]
        index, is_listed = edge_clusters.find(np.minimum(i, j), np.maximum(i, j))
        label = np.where(
            is_listed, edge_clusters.clusters[index, block.k] if len(edge_clusters.rows) else block.k, block.k
        )
        keys.append(np.stack([np.minimum(i, j), np.maximum(i, j), label]))
    unique, variable = np.unique(np.concatenate(keys, axis=1), axis=1, return_inverse=True)
    return np.split(variable.ravel(), np.cumsum([key.shape[1] for key in keys])[:-1]), unique.shape[1]
