"""The paper's conditions (7) and (8), evaluated for every pair, in tiles.

The code follows the formulas and shares with the screening rules only the test of a single pair, so that it can serve
as an independent check of the partitions that they build.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse

from jointglasso._typing import BoolArray, FloatArray, IntArray
from jointglasso.data import CovarianceSource, as_source
from jointglasso.data.checks import InputError, check_nonnegative, check_weights
from jointglasso.penalties import GroupPenalty, PairWeights, as_pair_weights

_SIDE = 256

#: Rows and columns of a tile, ``w S`` (K, r, c), the pairs' weights (r, c), and which pairs are joined in which class.
PairCheck = Callable[[slice, slice, FloatArray, FloatArray, BoolArray], bool]


def sufficient_condition_holds(
    labels: IntArray, S: Any, lambda1: float, lambda2: float, weights: Any, pair_weights: Any = None
) -> bool:
    """Condition (8) for every pair: Theorem 3."""
    penalty = _penalty(lambda1, lambda2)

    def holds(rows: slice, columns: slice, weighted: FloatArray, factor: FloatArray, joined: BoolArray) -> bool:
        cut_everywhere = ~joined.any(axis=0)
        cut_in_class = ~joined & joined.any(axis=0)
        return (
            _ball_holds(penalty, weighted, factor, cut_everywhere)
            and not (np.abs(weighted) > factor * penalty.lambda1)[cut_in_class].any()
        )

    return _every_tile(labels, as_source(S), weights, pair_weights, holds)


def necessary_condition_holds(
    labels: IntArray, S: Any, lambda1: float, lambda2: float, precision: Any, weights: Any, pair_weights: Any = None
) -> bool:
    """Condition (7) for every pair, given the optimal precision matrices: Theorem 2."""
    penalty = _penalty(lambda1, lambda2)
    matrices = [sparse.csr_array(Theta) for Theta in precision]

    def holds(rows: slice, columns: slice, weighted: FloatArray, factor: FloatArray, joined: BoolArray) -> bool:
        nonzero = np.stack([Theta[rows, columns].toarray() != 0 for Theta in matrices])
        nonzero_in_others = (nonzero.sum(axis=0) - nonzero) > 0
        Z = factor * (penalty.lambda1 + penalty.lambda2 * ~nonzero_in_others)
        cut_everywhere = ~joined.any(axis=0)
        cut_in_class = ~joined & joined.any(axis=0)
        return _ball_holds(penalty, weighted, factor, cut_everywhere) and not (np.abs(weighted) > Z)[cut_in_class].any()

    return _every_tile(labels, as_source(S), weights, pair_weights, holds)


def _penalty(lambda1: float, lambda2: float) -> GroupPenalty:
    return GroupPenalty(check_nonnegative("lambda1", lambda1), check_nonnegative("lambda2", lambda2))


def _ball_holds(penalty: GroupPenalty, weighted: FloatArray, factor: FloatArray, where: Any) -> bool:
    return not penalty.violates_global_condition(weighted[:, where].T, factor[where]).any()


def _every_tile(labels: IntArray, source: CovarianceSource, weights: Any, pair_weights: Any, holds: PairCheck) -> bool:
    n_classes, p = labels.shape
    if (source.n_classes, source.n_variables) != (n_classes, p):
        raise InputError(
            f"The partition is of {n_classes} classes and {p} variables, "
            f"S of {source.n_classes} and {source.n_variables}.",
            "partition",
        )
    w = check_weights(weights, source.class_names, source.sample_sizes)
    factors = as_pair_weights(pair_weights, source.variable_names)
    for top_edge in range(0, p, _SIDE):
        for left_edge in range(top_edge, p, _SIDE):
            rows, columns = slice(top_edge, min(top_edge + _SIDE, p)), slice(left_edge, min(left_edge + _SIDE, p))
            i, j = np.mgrid[rows, columns]
            # Entry by entry, because a source may round its tiles; the rules too decide by entries.
            exact = [source.entries(k, i.ravel(), j.ravel()).reshape(i.shape) for k in range(n_classes)]
            weighted = w[:, None, None] * np.stack(exact)
            joined = labels[:, rows, None] == labels[:, None, columns]
            if top_edge == left_edge:  # exclude the diagonal
                np.einsum("kii->ki", weighted)[:] = 0.0
            factor = _tile_factors(factors, i, j, weighted)
            if not holds(rows, columns, weighted, factor, joined):
                return False
    return True


def _tile_factors(factors: PairWeights | None, i: IntArray, j: IntArray, weighted: FloatArray) -> FloatArray:
    """Pair weights of a tile; forbidden pairs always satisfy the conditions: their covariances are set to zero."""
    if factors is None:
        return np.ones(i.shape)
    factor = factors.factors(np.minimum(i, j).ravel(), np.maximum(i, j).ravel()).reshape(i.shape)
    forbidden = np.isinf(factor)
    weighted[:, forbidden] = 0.0
    factor[forbidden] = 1.0
    return factor
