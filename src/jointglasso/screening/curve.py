"""The component curve: block sizes and cost of a solve as functions of lambda1, from one pass over the covariances."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import betainc, betaincinv

from jointglasso._display import SHOWN, ReprMixin
from jointglasso._threads import map_on_threads
from jointglasso._typing import FloatArray, IntArray
from jointglasso.data import CovarianceSource, as_source
from jointglasso.data.checks import InputError, check_choice, check_count, check_nonnegative
from jointglasso.errors import argument
from jointglasso.penalties import PairPenalty, PairWeights
from jointglasso.penalties.base import coupling_weights
from jointglasso.problem import ProblemOptions
from jointglasso.screening.pairs import PairTable, scan_pairs, tiles
from jointglasso.screening.partition import Partition
from jointglasso.screening.rules import RULES, partition_of_pairs


def lambda_max(
    S: Any,
    directions: Any,
    *,
    weights: Any = None,
    pair_weights: Any = None,
    coupling_weights: Any = None,
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
    weights, pair_weights, coupling_weights, penalty, class_graph
        As in `jointglasso.solve`; unpenalised pairs are ignored.

    Returns
    -------
    array (m,)
        ``lambda_max[d] * directions[d]`` are the smallest penalties without an edge along direction d; 0 if all
        covariances are 0.
    """
    options = ProblemOptions(
        penalty, class_graph, weights, pair_weights=pair_weights, coupling_weights=coupling_weights
    )
    return largest_penalties(as_source(S), directions, options)


def largest_penalties(source: CovarianceSource, directions: Any, options: ProblemOptions) -> FloatArray:
    """`lambda_max` of a source with the options of the problem as one object."""
    penalty = options.penalty
    if penalty != "group" and (np.atleast_2d(directions)[:, 0] <= 0).any():
        raise InputError(
            f'With penalty="{penalty}" edges never vanish if lambda1 is 0: give finite ratios lambda2 / lambda1.',
            "directions",
        )
    penalties = [options.penalty_of(source, float(one), float(two)) for one, two in np.atleast_2d(directions)]
    w, v = options.weights_of(source), options.weights_of_pairs(source)

    def largest_of(tile: tuple[slice, slice]) -> FloatArray:
        weighted, exceptional, factor = _weighted_pairs(source, w, v, penalties[0], tile)
        peak, norm = _row_norms(weighted)
        if source.absent is not None:  # NaN in a class without the pair
            weighted = penalties[0].mask_missing(weighted, *_pairs_of(*tile))
            peak, norm = _row_norms(np.nan_to_num(weighted))
        plain = np.array([_largest_gauge(penalty, weighted, peak, norm) for penalty in penalties])
        if not len(factor):
            return plain
        gauges = [penalty.gauge(*penalty.as_entries(exceptional, factor)) for penalty in penalties]
        return np.maximum(plain, [gauge[np.isfinite(gauge)].max(initial=0.0) for gauge in gauges])

    result: FloatArray = np.max(map_on_threads(largest_of, list(tiles(source.n_variables))), axis=0)
    return result


def _weighted_pairs(
    source: CovarianceSource,
    weights: FloatArray,
    pair_weights: PairWeights | None,
    penalty: PairPenalty,
    tile: tuple[slice, slice],
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """``w_k S_k,ij`` of the pairs i < j of a tile, one row per pair: all, 0 for those with weights; those; weights."""
    rows, columns = tile
    pieces = [weights[k] * source.tile(k, rows, columns) for k in range(source.n_classes)]
    exceptional, factor = np.empty((0, len(pieces))), np.empty(0)
    if pair_weights is not None:
        i, j, factor = pair_weights.exceptions_in(rows, columns)
        exceptional = penalty.mask_missing(
            np.column_stack([piece[i, j] for piece in pieces]), i + rows.start, j + columns.start
        )
        for piece in pieces:
            piece[i, j] = 0.0
        allowed = np.isfinite(coupling_weights(factor))
        exceptional, factor = exceptional[allowed], factor[allowed]
    if rows != columns:
        return np.column_stack([piece.ravel() for piece in pieces]), exceptional, factor
    i, j = np.triu_indices(rows.stop - rows.start, 1)
    return np.column_stack([piece[i, j] for piece in pieces]), exceptional, factor


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


#: Relative resolution of lambda1, far above the rounding errors of the pair tests.
_RESOLUTION = 1e-9

#: Expected number of randomly drawn pairs above the smallest lambda1.
_DRAWN_ABOVE = 400

#: Pairs above lambda1 in some class that a scan may list per pair kept: with few samples most are in the dual ball.
_LISTED = 4

#: Rules that use only pairs outside the dual ball.
_STRONG_ONLY = ("dynamic", "global")


@dataclass(frozen=True, repr=False)
class ComponentCurve(ReprMixin):
    """How the partition coarsens along ``(lambda1, ratio * lambda1)``; the arrays run from large lambda1 to small.

    Examples
    --------
    >>> import jointglasso as jgl
    >>> curve = jgl.component_curve([[[1.0, 0.5, 0.1], [0.5, 1.0, 0.2], [0.1, 0.2, 1.0]]], 0.0)
    >>> curve.lambda_max, [round(value, 3) for value in curve.smallest_lambda(largest_block=2)]
    (0.5, [0.2, 0.0])
    """

    rule: str
    ratio: float
    lambda1: FloatArray
    largest: IntArray
    """Size of the largest block."""
    n_blocks: IntArray
    """Number of blocks, summed over the classes."""
    n_edges: IntArray
    """Number of entries i < j above their thresholds, summed over the classes; close to the edges of the solution."""
    cost: FloatArray
    """Sum of cubed block sizes, the paper's measure of work."""
    lambda_max: float
    """Smallest lambda1 at which the solution has no edge."""
    percolation: float | None
    """Lambda1 below which pure noise has a giant component; None if the sample sizes are unknown."""
    floor: float
    """Smallest lambda1 that the curve covers."""
    penalty: str
    """Penalty that couples the classes, as in `jointglasso.solve`."""
    _unit: PairPenalty
    """The penalty at lambda1 = 1."""
    _pairs: PairTable
    _peak: FloatArray
    """Largest weighted covariance of each pair of `_pairs`, in decreasing order."""

    @property
    def lambda2(self) -> FloatArray:
        """``ratio * lambda1``."""
        return self.ratio * self.lambda1

    def partition(self, lambda1: float) -> Partition:
        """Partition of the rule at (lambda1, ratio * lambda1)."""
        wanted = check_nonnegative("lambda1", lambda1)
        if wanted < self.floor:
            raise InputError(
                f"{argument('lambda1', wanted)} lies below the {self.floor:g} that this curve reaches: make it with a "
                "smaller lambda_min or a larger max_pairs.",
                "lambda1",
            )
        return partition_of_pairs(self.rule, self._table(wanted), self._unit.scaled(wanted))

    def smallest_lambda(self, largest_block: int) -> tuple[float, float]:
        """Smallest (lambda1, lambda2) of the curve whose largest block has at most that many variables.

        Exact to nine digits: partitions are nested along lambda and change only where a pair crosses its threshold.
        Where even the end of the curve satisfies the limit that end is returned, and smaller ones may too: see
        `reaches`.
        """
        limit = check_count("largest_block", largest_block)
        if self._unit.class_dependent and self.rule != "global":
            raise InputError(
                f'With penalty="{self.penalty}" the blocks of a class need not grow as lambda falls, only those of all '
                'classes together: ask a curve made with rule="global".',
                "rule",
            )
        inside = np.flatnonzero(self.largest <= limit)
        if len(inside) == len(self.lambda1):
            return self.floor, self.ratio * self.floor
        # At the first point pairs are joined through rounding only.
        last_inside = inside[-1] if len(inside) else 0
        levels = self._levels(self.lambda1[last_inside + 1], self.lambda1[last_inside])
        first, last = 0, len(levels) - 1  # invariant: the limit holds at levels[last]
        while first < last:
            middle = (first + last) // 2
            if self.partition(levels[middle]).largest <= limit:
                last = middle
            else:
                first = middle + 1
        return float(levels[last]), float(self.ratio * levels[last])

    def reaches(self, largest_block: int) -> bool:
        """Whether blocks get larger than that on the curve, so that `smallest_lambda` is the smallest of all."""
        return bool(self.largest[-1] > check_count("largest_block", largest_block)) or self.floor == 0.0

    def _levels(self, lower: float, upper: float) -> FloatArray:
        """Sorted lambda1 in [lower, upper) at which the partition may change, and upper, raised by the resolution."""
        table = self._table(lower)
        levels = np.concatenate([np.abs(table.weighted).ravel(), _gauges(table.weighted, self._unit)])
        levels = levels[(levels >= lower) & (levels < upper)]
        return np.append(np.unique(levels) * (1.0 + _RESOLUTION), upper * (1.0 + _RESOLUTION))

    def _table(self, lambda1: float) -> PairTable:
        return _thresholded(self._pairs, self._peak, lambda1, self._unit)

    def _parts(self) -> list[Any]:
        import pandas as pd

        few = np.unique(np.linspace(0, len(self.lambda1) - 1, SHOWN).round().astype(int))
        columns = {"lambda1": self.lambda1, "lambda2": self.lambda2, "blocks": self.n_blocks, "largest": self.largest}
        columns |= {"pairs": self.n_edges, "cost": self.cost}
        noise = f" Below {self.percolation:.4g} noise alone connects most variables." if self.percolation else ""
        return [
            f"Blocks as lambda1 falls from {self.lambda_max:.4g}, where the last edge goes, to {self.lambda1[-1]:.4g}, "
            f"lambda2 = {self.ratio:g} lambda1, by the rule {self.rule!r}.{noise}",
            pd.DataFrame({name: values[few] for name, values in columns.items()}),
        ]


def component_curve(
    S: Any,
    ratio: float,
    *,
    rule: str = "dynamic",
    penalty: str = "group",
    class_graph: Any = None,
    weights: Any = None,
    n_lambdas: int = 50,
    lambda_min: float | None = None,
    max_pairs: int = 5_000_000,
) -> ComponentCurve:
    """Block sizes and cost of a solve along a path of decreasing lambda1, from one pass over the covariances.

    Parameters
    ----------
    S : array (K, p, p), sequence or dict of (p, p) arrays, or CovarianceSource
        Sample covariance matrices.
    ratio : float
        ``lambda2 / lambda1``, held fixed.
    rule : {"dynamic", "hybrid", "class", "global"}
        Screening rule; "dynamic" is the partition from which the default solve starts, and it ends there or between it
        and "hybrid". Penalties that compare values have "dynamic" and "global".
    penalty, class_graph
        Penalty that couples the classes, as in `jointglasso.solve`.
    weights : None, "equal", "sample_size", array (K,) or dict, optional
        Weight of each class in the likelihood.
    n_lambdas : int, default 50
        Points of the curve, evenly spaced on a log scale.
    lambda_min : float, optional
        Where the curve ends. By default as low as `max_pairs` allows, and at 2 % of lambda_max at the lowest.
    max_pairs : int, default 5,000,000
        Limit, in expectation, on the pairs kept in memory, at about ``40 + 8 K`` bytes each; it sets the smallest
        lambda that the curve can reach. With at most that many pairs in total, all are kept.

    Returns
    -------
    ComponentCurve
        With `smallest_lambda(largest_block)`, for the smallest penalties that can be afforded.

    Examples
    --------
    >>> import jointglasso as jgl
    >>> curve = jgl.component_curve([[[1.0, 0.5, 0.1], [0.5, 1.0, 0.2], [0.1, 0.2, 1.0]]], 0.0)
    >>> curve.partition(0.3).largest, curve.partition(0.15).largest
    (2, 3)
    """
    check_choice("rule", rule, [name for name in RULES if name != "none"])
    ratio = check_nonnegative("ratio", ratio)
    check_count("n_lambdas", n_lambdas, 2)
    source = as_source(S)
    options = ProblemOptions(penalty, class_graph, weights)
    w, unit = options.weights_of(source), options.penalty_of(source, 1.0, ratio)
    if unit.class_dependent and rule not in _STRONG_ONLY:
        raise InputError(f'rule="{rule}" has no curve with penalty="{penalty}": use "dynamic" or "global".', "rule")
    strong_only = rule in _STRONG_ONLY
    reachable = reachable_floor(source, w, unit if strong_only else None, check_count("max_pairs", max_pairs))
    floor = max(reachable, 0.0 if lambda_min is None else check_nonnegative("lambda_min", lambda_min))
    lowest = unit.scaled(floor) if strong_only else options.penalty_of(source, floor, 0.0)
    pairs = scan_pairs(source, lowest, w, strong_only=strong_only)
    pairs, peak = _by_peak(pairs)
    no_edge_from = float(_gauges(pairs.weighted, unit).max(initial=0.0))
    # Bound on the gauge of the pairs that the scan dropped: the floor itself, or the floor in each class.
    unknown = floor if strong_only else floor / (1.0 + ratio / np.sqrt(source.n_classes))
    if no_edge_from < unknown:
        no_edge_from = float(largest_penalties(source, [(1.0, ratio)], options)[0])
    top = float(peak.max(initial=0.0)) if rule == "class" else no_edge_from
    end = max(floor, 0.02 * top if lambda_min is None else 0.0)
    grid = _log_grid(top, end, n_lambdas) if end < top else np.array([max(top, floor)])
    tables = (_thresholded(pairs, peak, value, unit) for value in grid)
    points = [_measure(rule, table, unit.scaled(value)) for table, value in zip(tables, grid, strict=True)]
    largest, n_blocks, n_edges, cost = zip(*points, strict=True)
    single = single_class_thresholds(unit, source.n_classes)
    return ComponentCurve(
        rule=rule, ratio=ratio, lambda1=grid,
        largest=np.array(largest), n_blocks=np.array(n_blocks), n_edges=np.array(n_edges), cost=np.array(cost),
        lambda_max=no_edge_from,
        percolation=noise_percolation(source, w, float(single.min()) - 1.0, rule),
        floor=floor, penalty=penalty, _unit=unit, _pairs=pairs, _peak=peak,
    )  # fmt: skip


def single_class_thresholds(penalty: PairPenalty, n_classes: int) -> FloatArray:
    """(K,): weighted covariance above which a pair that is correlated in this class only is non-zero when isolated."""
    return np.asarray(1.0 / penalty.gauge(*penalty.as_entries(np.eye(n_classes))))


def _measure(rule: str, table: PairTable, penalty: PairPenalty) -> tuple[int, int, int, float]:
    partition = partition_of_pairs(rule, table, penalty)
    edges = (
        table.exceeds_lambda1 if rule == "class" else table.exceeds_lambda1 & table.violates_global_condition[:, None]
    )
    return partition.largest, partition.n_blocks, int(edges.sum()), float(partition.cost)


def reachable_floor(source: CovarianceSource, weights: FloatArray, unit: PairPenalty | None, max_pairs: int) -> float:
    """Lambda1 above which about half of `max_pairs` pairs lie, estimated from a random sample of pairs.

    With `unit`, the penalty at lambda1 = 1, only pairs outside the dual ball count, unless the pairs above lambda1 in
    some class, which a scan has to list, outnumber them many times.
    """
    p = source.n_variables
    n_pairs = p * (p - 1) // 2
    if n_pairs <= max_pairs:
        return 0.0
    weighted = drawn_covariances(source, weights, int(_DRAWN_ABOVE * n_pairs / (0.5 * max_pairs)))
    peak = np.abs(weighted).max(axis=1)
    if unit is None:
        return _exceeded_by(peak, _DRAWN_ABOVE)
    return max(_exceeded_by(_gauges(weighted, unit), _DRAWN_ABOVE), _exceeded_by(peak, _LISTED * _DRAWN_ABOVE))


def drawn_covariances(source: CovarianceSource, weights: FloatArray, number: int) -> FloatArray:
    """Weighted covariances (number, K) of randomly drawn pairs; the seed is fixed."""
    draw, p = np.random.default_rng(0), source.n_variables
    i, j = draw.integers(0, p, number), draw.integers(0, p - 1, number)
    j += j >= i
    return np.column_stack([weights[k] * source.entries(k, i, j) for k in range(source.n_classes)])


def _exceeded_by(values: FloatArray, count: int) -> float:
    """The `count`-th largest value."""
    place = max(len(values) - count, 0)
    return float(np.partition(values, place)[place])


def _by_peak(pairs: PairTable) -> tuple[PairTable, FloatArray]:
    """Pairs sorted by decreasing largest covariance, so that those above a given lambda1 are a prefix."""
    peak = np.abs(pairs.weighted).max(axis=1, initial=0.0)
    order = np.argsort(-peak, kind="stable")
    return pairs.take(order), peak[order]


def _thresholded(pairs: PairTable, peak: FloatArray, lambda1: float, unit: PairPenalty) -> PairTable:
    """Pair table at (lambda1, ratio * lambda1), from pairs sorted by `_by_peak`."""
    first_below = int(np.searchsorted(-peak, -lambda1))
    return pairs.take(slice(first_below)).for_penalty(unit.scaled(lambda1))


def _gauges(weighted: FloatArray, unit: PairPenalty) -> FloatArray:
    """Smallest lambda1 at which each pair lies in the dual ball."""
    return unit.gauge(*unit.as_entries(weighted))


def _log_grid(top: float, bottom: float, n: int) -> FloatArray:
    if top <= 0:
        return np.zeros(1)
    return np.geomspace(top, min(max(bottom, 1e-6 * top), top), n)


#: Scales of the variables are represented by this many quantiles.
_QUANTILES = 200


def critical_correlation(n_samples: int, n_variables: int) -> float:
    """Threshold on |r| at which independent variables have one neighbour each on average."""
    if n_samples <= 2:
        return 1.0  # two samples are always perfectly correlated
    if n_variables <= 1:
        return 0.0
    return float(np.sqrt(1.0 - betaincinv((n_samples - 2) / 2, 0.5, 1.0 / n_variables)))


def noise_percolation(source: CovarianceSource, weights: FloatArray, ratio: float, rule: str) -> float | None:
    """Lambda1 below which noise of this many samples and these variances percolates; None without sample sizes.

    With n samples the correlation r of two independent normal variables satisfies ``r^2 ~ Beta(1/2, (n - 2)/2)``. A
    graph with an edge wherever |r| is above a threshold has a giant component once a variable has one neighbour on
    average, ``p P(|r| > threshold) = 1``; where variables differ in scale, once the largest eigenvalue of the matrix of
    edge probabilities is one. Divide and conquer works above that penalty.

    A pair that is non-zero in one class only is joined above ``w |S| = lambda1 + lambda2`` by the rules that use all
    classes, and above lambda1 by the class rule. The global rule joins two variables if any class does.
    """
    sizes = source.sample_sizes
    if sizes is None:
        return None
    scales = [weights[k] ** 0.5 * _scale_quantiles(source, k) for k in range(source.n_classes)]
    if rule == "global":
        return _critical_threshold(scales, sizes, source.n_variables) / (1.0 + ratio)
    single = max(_critical_threshold([scale], sizes[k : k + 1], source.n_variables) for k, scale in enumerate(scales))
    return single if rule == "class" else single / (1.0 + ratio)


def _scale_quantiles(source: CovarianceSource, k: int) -> FloatArray:
    deviation = np.sqrt(source.diagonal(k))
    levels = (np.arange(_QUANTILES) + 0.5) / _QUANTILES
    return np.asarray(np.quantile(deviation, levels))


def _critical_threshold(scales: list[FloatArray], sizes: IntArray, n_variables: int) -> float:
    """Threshold at which the largest eigenvalue of the expected graph, all its classes united, is one."""
    largest = max(float(scale[-1]) ** 2 for scale in scales)
    if largest == 0 or n_variables <= 1:
        return 0.0
    if len(scales) == 1 and scales[0][0] ** 2 >= (1.0 - 1e-12) * largest:
        return largest * critical_correlation(int(sizes[0]), n_variables)

    def excess(threshold: float) -> float:
        expected = sum(_edge_probability(threshold, s, int(n)) for s, n in zip(scales, sizes, strict=True))
        return float(np.linalg.eigvalsh(expected)[-1]) * n_variables / _QUANTILES - 1.0

    if excess(largest) >= 0:  # too few samples: noise attains even the largest possible covariance
        return largest
    return float(brentq(excess, 0.0, largest, xtol=1e-9 * largest))


def _edge_probability(threshold: float, scale: FloatArray, n_samples: int) -> FloatArray:
    """Probability that the covariance of two independent variables is above the threshold, for all pairs of scales."""
    product = np.outer(scale, scale)
    with np.errstate(divide="ignore"):
        squared = np.minimum(np.where(product > 0, threshold / product, np.inf) ** 2, 1.0)
    if n_samples <= 2:
        return (product >= threshold).astype(float)
    return np.asarray(betainc((n_samples - 2) / 2, 0.5, 1.0 - squared))
