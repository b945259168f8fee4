"""The paper's Algorithm 1, hybrid covariance thresholding, and its counterpart for penalties over a class graph.

`hybrid_partition` calls the compiled loop, `hybrid_closure` of `kernels/components.py`.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from jointglasso._typing import BoolArray, FloatArray, IntArray
from jointglasso.data import CovarianceSource
from jointglasso.penalties import UNIFORM, PairPenalty, PairWeights
from jointglasso.penalties.base import coupling_weights
from jointglasso.screening.pairs import PairTable
from jointglasso.screening.partition import Partition, class_components

#: Function that returns the weighted covariances (m, K) of pairs i < j and their pair weights, infinite if forbidden.
Covariances = Callable[[IntArray, IntArray], tuple[FloatArray, FloatArray]]


def hybrid_partition(pairs: PairTable) -> Partition:
    """Finest partition satisfying condition (8) (Theorem 4).

    1. In class x, join i and j if the pair violates the global condition, ``sum_k (|S_k,ij| - lambda1)_+^2 >
       lambda2^2``, and ``|S_x,ij| > lambda1``.
    2. Search for a triple (x, i, j): ``|S_x,ij| > lambda1``, i and j not joined in class x, but joined in another class
       s. Merge the two blocks of class x that contain i and j.
    3. Repeat step 2 while such a triple exists.

    Each merge is forced and the result does not depend on their order. The kernel therefore processes merges as they
    arise: a pair inside the dual ball is deferred, and handled when a union joins its two variables in some class. This
    avoids a search over all K p^2 triples after each merge. `tests/helpers/reference.py` has the same in eight lines.
    """
    from jointglasso.kernels.components import hybrid_closure

    edges, exceeds = (pairs.n_variables, pairs.rows, pairs.columns), pairs.exceeds_lambda1
    activated = hybrid_closure(*edges, exceeds, pairs.violates_global_condition)
    return Partition(class_components(*edges, exceeds & activated[:, None]))


def hybrid_by_class(pairs: PairTable, penalty: PairPenalty, covariances: Covariances) -> Partition:
    """Finest partition whose screened-out entries are zero for any values in the joined classes.

    A non-zero entry changes the subgradients of neighbouring classes, however small their covariances. Every pair
    inside a block is therefore tested, not only those that the scan kept: `closure` returns the classes in which a pair
    must not be screened out, given those in which it is joined. It is monotone in them, so that the result does not
    depend on the order.
    """
    nothing = np.zeros(pairs.exceeds_lambda1.shape, dtype=bool)
    rows, columns, edges = pairs.rows, pairs.columns, penalty.closure(pairs.weighted, nothing, pairs.factor)
    while True:
        labels = class_components(pairs.n_variables, rows, columns, edges)
        i, j, joined = _partly_joined(labels)
        weighted, factor = covariances(i, j)
        allowed = np.isfinite(coupling_weights(factor)) if len(factor) else np.ones(len(i), dtype=bool)
        i, j, joined, weighted = i[allowed], j[allowed], joined[allowed], weighted[allowed]
        more = penalty.closure(weighted, joined, factor[allowed] if len(factor) else factor) & ~joined
        chosen = np.flatnonzero(more.any(axis=1))
        if not len(chosen):
            return Partition(labels, penalty.coupling)
        rows, columns = np.concatenate([rows, i[chosen]]), np.concatenate([columns, j[chosen]])
        edges = np.concatenate([edges, more[chosen]])


def _partly_joined(labels: IntArray) -> tuple[IntArray, IntArray, BoolArray]:
    """Pairs i < j joined in some classes but not in all, and the mask (m, K) of classes that join them."""
    i, j = Partition(labels).class_blocks.pairs(labels.shape[1])
    joined = (labels[:, i] == labels[:, j]).T
    partly = ~joined.all(axis=1)
    return i[partly], j[partly], joined[partly]


def weighted_covariances(
    source: CovarianceSource, weights: FloatArray, pair_weights: PairWeights | None, penalty: PairPenalty
) -> Covariances:
    """Function that reads the weighted covariances and the pair weights of given pairs from a source."""

    def read(i: IntArray, j: IntArray) -> tuple[FloatArray, FloatArray]:
        rows = np.column_stack([weights[k] * source.entries(k, i, j) for k in range(source.n_classes)])
        return penalty.mask_missing(rows, i, j), UNIFORM if pair_weights is None else pair_weights.factors(i, j)

    return read
