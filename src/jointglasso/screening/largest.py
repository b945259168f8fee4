"""lambda_max: the smallest penalties without an edge, exact, from one pass over the covariances."""

from __future__ import annotations

from typing import Any

import numpy as np

from jointglasso._threads import map_on_threads
from jointglasso._typing import FloatArray, IntArray
from jointglasso.data import CovarianceSource, as_source
from jointglasso.data.checks import InputError, check_weights
from jointglasso.penalties import PairPenalty, PairWeights, as_pair_weights, make_penalty
from jointglasso.screening.pairs import tiles


def lambda_max(
    S: Any,
    directions: Any,
    *,
    weights: Any = None,
    pair_weights: Any = None,
    penalty: str = "group",
    class_graph: Any = None,
) -> FloatArray:
    """Smallest multiple of each direction (lambda1, lambda2) at which the solution has no edge, exact.

    Parameters
    ----------
    S : CovarianceSource, or what `jointglasso.solve` takes
        Covariances; one pass over their tiles serves all directions, and no p x p matrix is built.
    directions : array (m, 2)
        Pairs (lambda1, lambda2), not both zero.
    weights, pair_weights, penalty, class_graph
        As in `jointglasso.solve`; unpenalised pairs are ignored.

    Returns
    -------
    array (m,)
        ``lambda_max[d] * directions[d]`` are the smallest penalties without an edge along direction d; 0 if all
        covariances are 0.
    """
    source = as_source(S)
    if penalty != "group" and (np.atleast_2d(directions)[:, 0] <= 0).any():
        raise InputError(
            f'With penalty="{penalty}" edges never vanish if lambda1 is 0: give finite ratios lambda2 / lambda1.',
            "directions",
        )
    named = source.class_names, source.sample_sizes, source.absent
    penalties = [
        make_penalty(penalty, float(first), float(second), class_graph, *named)
        for first, second in np.atleast_2d(directions)
    ]
    w = check_weights(weights, source.class_names, source.sample_sizes)
    v = as_pair_weights(pair_weights, source.variable_names)

    def largest_of(tile: tuple[slice, slice]) -> FloatArray:
        weighted = _weighted_pairs(source, w, v, *tile)
        peak, norm = _row_norms(weighted)
        if source.absent is not None:  # NaN in a class without the pair
            weighted = penalties[0].mask_missing(weighted, *_pairs_of(*tile))
            peak, norm = _row_norms(np.nan_to_num(weighted))
        return np.array([_largest_gauge(penalty, weighted, peak, norm) for penalty in penalties])

    result: FloatArray = np.max(map_on_threads(largest_of, list(tiles(source.n_variables))), axis=0)
    return result


def _weighted_pairs(
    source: CovarianceSource, weights: FloatArray, pair_weights: PairWeights | None, rows: slice, columns: slice
) -> FloatArray:
    """``w_k S_k,ij / v_ij`` of the pairs i < j of a tile, one row per pair; 0 for unpenalised pairs."""
    pieces = [weights[k] * source.tile(k, rows, columns) for k in range(source.n_classes)]
    if pair_weights is not None:
        i, j, factor = pair_weights.exceptions_in(rows, columns)
        inverse = np.divide(1.0, factor, out=np.zeros_like(factor), where=factor > 0)
        for piece in pieces:
            piece[i, j] *= inverse
    if rows != columns:
        return np.column_stack([piece.ravel() for piece in pieces])
    i, j = np.triu_indices(rows.stop - rows.start, 1)
    return np.column_stack([piece[i, j] for piece in pieces])


def _pairs_of(rows: slice, columns: slice) -> tuple[IntArray, IntArray]:
    """The pairs i < j of a tile."""
    if rows == columns:
        i, j = np.triu_indices(rows.stop - rows.start, 1)
        return i + rows.start, j + rows.start
    i, j = np.divmod(np.arange((rows.stop - rows.start) * (columns.stop - columns.start)), columns.stop - columns.start)
    return i + rows.start, j + columns.start


def _row_norms(weighted: FloatArray) -> tuple[FloatArray, FloatArray]:
    """(m,): maximum norm and Euclidean norm of the rows; by columns, since they are short."""
    peak, squares = np.zeros(len(weighted)), np.zeros(len(weighted))
    for column in weighted.T:
        np.maximum(peak, np.abs(column), out=peak)
        squares += column * column
    return peak, np.sqrt(squares)


def _largest_gauge(penalty: PairPenalty, weighted: FloatArray, peak: FloatArray, norm: FloatArray) -> float:
    """Largest gauge of the pairs, computed only for pairs whose upper bound exceeds the current maximum.

    Splitting s into a part in the l_inf ball and a part in the l_2 ball of the group penalty gives the cheap and tight
    bound ``gauge(s) <= 1 / (lambda1 / max|s| + lambda2 / |s|_2)``. For penalties over a class graph the l_inf part
    alone is the bound.
    """
    if not len(weighted):
        return 0.0
    l2 = norm if penalty.name == "group" else np.inf
    with np.errstate(divide="ignore", invalid="ignore"):
        bound = np.where(peak > 0, 1.0 / (penalty.lambda1 / peak + penalty.lambda2 / l2), 0.0)
    first = int(bound.argmax())
    reached = penalty.lambda_max(weighted[first : first + 1])
    return max(reached, penalty.lambda_max(weighted[bound > reached]))
