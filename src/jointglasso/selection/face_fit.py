"""Maximum likelihood on the face of a fused solution: zeros and equalities between classes are kept as constraints.

The free parameters are the diagonals and one value for each cluster of classes with equal entries; the weights of the
classes are their sample sizes. The method is that of `support_fit`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

from jointglasso._typing import FloatArray, IntArray
from jointglasso.data import CovarianceSource
from jointglasso.selection.support_fit import Fit, Likelihood, Limits, maximise
from jointglasso.solution import EdgeClusters

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
    face = _likelihood(source, blocks, start, edge_clusters, ridge)
    z = face.best_multiple(start)
    if limits is None:
        return Fit(face.matrices(z), 0.0)
    limits = replace(limits, diverged=min(limits.diverged, _DIVERGED))
    z, residual, failure = maximise(face, (z, *face.evaluate(z)), limits)
    return Fit(face.matrices(z), residual, failure)


def given_block(precision: Sequence[Any], block: Block) -> FloatArray:
    """Dense diagonal block of ``precision[block.k]``."""
    return sparse.csr_array(precision[block.k])[block.members][:, block.members].toarray()


def _likelihood(
    source: CovarianceSource,
    blocks: list[Block],
    start: list[FloatArray],
    edge_clusters: EdgeClusters,
    ridge: float,
) -> Likelihood:
    """Likelihood on the face of coupled blocks: fused entries share a parameter."""
    sizes = source.sample_sizes
    n = np.ones(source.n_classes) if sizes is None else np.asarray(sizes, dtype=float)
    # At least 1, so that the sum of self-concordant functions is one.
    weight = n[[b.k for b in blocks]] / n[[b.k for b in blocks]].min()
    covariances = [source.block(b.k, b.members) for b in blocks]
    for S in covariances:
        S[np.diag_indices(len(S))] *= 1.0 + ridge
    likelihood = Likelihood(covariances, weight, [Theta != 0 for Theta in start])
    keys = []
    for block, ends in zip(blocks, likelihood.ends, strict=True):
        i, j = (block.members[end] for end in ends)
        index, is_listed = edge_clusters.find(np.minimum(i, j), np.maximum(i, j))
        label = np.where(
            is_listed, edge_clusters.clusters[index, block.k] if len(edge_clusters.rows) else block.k, block.k
        )
        keys.append(np.stack([np.minimum(i, j), np.maximum(i, j), label]))
    unique, variable = np.unique(np.concatenate(keys, axis=1), axis=1, return_inverse=True)
    likelihood.share_parameters(variable.ravel(), unique.shape[1])
    return likelihood
