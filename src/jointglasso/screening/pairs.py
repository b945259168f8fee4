"""The scan: one pass over the covariance tiles that collects the pairs above the threshold of some class."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from threading import local
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jointglasso import config
from jointglasso._threads import cores_here, map_on_cores
from jointglasso._typing import BoolArray, FloatArray, IntArray
from jointglasso.backends import SCANNERS, DeviceFailed, scanner
from jointglasso.data import CovarianceSource, SampleCovariance
from jointglasso.data.checks import impossible_pair
from jointglasso.penalties import UNIFORM, PairPenalty, PairWeights
from jointglasso.penalties.base import coupling_weights, l1_weights

#: Columns of a `PairTable`, for some of its pairs.
_Columns = tuple[IntArray, IntArray, FloatArray, BoolArray, BoolArray, FloatArray]

#: Pairs drawn at random to estimate how many exceed lambda1.
_DRAWN_PAIRS = 20_000

#: Maps ``function(item, shared, progress)`` over items on remote workers; `shared` is sent once to each.
TileMap = Callable[[Callable[..., Any], Sequence[Any], Any], list[Any]]


@dataclass(frozen=True)
class PairTable:
    """Pairs i < j with ``w_k |S_k,ij| > v_ij lambda1`` in some class k, in the order of the tiles."""

    n_variables: int
    rows: IntArray
    columns: IntArray
    weighted: FloatArray
    """(m, K): covariance of the pair in each class, times the weight of the class."""
    exceeds_lambda1: BoolArray
    """(m, K): the pair exceeds lambda1 in the class: it violates condition (8b) if it is joined in another class."""
    violates_global_condition: BoolArray
    """(m,): the pair is outside the dual ball: it violates condition (8a) if it is screened out in all classes."""
    factor: FloatArray = field(default_factory=lambda: UNIFORM)
    """(m,) or (m, K + 1): weights of the pairs (`penalties/base.py`); empty if all are 1."""
    thresholds: tuple[float, ...] = ()
    """Thresholds of the classes, times the weight of a pair, above which the table has all pairs; empty if unknown."""

    def for_penalty(self, penalty: PairPenalty) -> PairTable:
        """The table at a larger penalty, without another scan of the covariances.

        The tables are nested: a pair that exceeds a larger lambda1 exceeds the smaller one.
        """
        above = penalty.exceeds_lambda1(self.weighted, self.factor)
        index = np.flatnonzero(above.any(axis=1))
        table = self.take(index)
        return replace(
            table,
            exceeds_lambda1=above[index],
            violates_global_condition=penalty.violates_global_condition(table.weighted, table.factor),
            thresholds=tuple(max(limit, penalty.threshold(k)) for k, limit in enumerate(self.thresholds)),
        )

    def take(self, which: Any) -> PairTable:
        """The pairs selected by an index array, mask or slice."""
        return PairTable(
            self.n_variables,
            self.rows[which],
            self.columns[which],
            self.weighted[which],
            self.exceeds_lambda1[which],
            self.violates_global_condition[which],
            self.factor[which] if len(self.factor) else self.factor,
            self.thresholds,
        )


def scan_pairs(
    source: CovarianceSource,
    penalty: PairPenalty,
    weights: FloatArray,
    pair_weights: PairWeights | None = None,
    *,
    strong_only: bool = False,
    map_tiles: TileMap | None = None,
) -> PairTable:
    """Read every tile of S once and keep the pairs above lambda1 in some class; forbidden pairs are excluded.

    With `strong_only`, pairs inside the dual ball are dropped during the scan; only Algorithm 1's merge step and the
    class rule need them. `map_tiles` runs a long scan of samples on remote workers, which return the pairs.
    """
    p = source.n_variables
    cached = _cached_scans.get(id(source), []) if pair_weights is None else []
    for known in cached:
        if known.covers(penalty, weights):
            table = known.table.for_penalty(penalty)
            if not strong_only:
                return table
            return replace(table, thresholds=()).take(_possibly_outside_ball(penalty, table.weighted, table.factor))
    scan = TileScan(source, penalty, weights, pair_weights, strong_only)
    if isinstance(source, SampleCovariance) and map_tiles is not None and (pieces := tile_ranges(source)):
        parts = map_tiles(scan_tile_range, pieces, scan)
    elif isinstance(source, SampleCovariance):
        i, j = scan.candidates(source)
        parts = map_on_cores(lambda piece: scan.evaluate_exactly(i[piece], j[piece]), _pieces(len(i), cores_here()))
    else:
        bands = list(_bands(p))
        parts = map_on_cores(scan.exact, bands) if len(bands) > 1 else [scan.exact(bands[0])]
    columns: Any = parts[0] if len(parts) == 1 else map(np.concatenate, zip(*parts, strict=True))
    thresholds = () if strong_only else tuple(penalty.threshold(k) for k in range(source.n_classes))
    table = PairTable(p, *(*columns, thresholds))
    if cached and not strong_only:  # a plan is followed by the solve at the same point
        cached[1:] = [_CachedScan(penalty, weights, table)]
    return table


def scan_slack(penalty: PairPenalty, thresholds: Sequence[float]) -> tuple[float, float]:
    """Slack in the dual ball of pairs with ``w_k |S_k,ij| <= threshold_k`` in each class, and radius of a box in it.

    Such pairs are inside the dual ball for any W with ``w_k |W_k,ij| <= slack`` in each class. For penalties that
    depend on the class, ``w_k |W_k - S_k|`` is then at most the threshold of its class as well.
    """
    n_classes = len(thresholds)
    box = penalty.box_radius(n_classes)
    if penalty.class_dependent:
        box = min(box, *(penalty.threshold(k) for k in range(n_classes)))
    return box - max(thresholds), box


def few_lighter(pair_weights: PairWeights | None, n_variables: int) -> bool:
    """Whether pairs of weights below 1, each of which sparse storage examines by itself, are few for a variable."""
    return pair_weights is None or len(pair_weights.lighter[0]) <= config.SPARSE_PAIRS * n_variables


def wider_penalty(
    source: CovarianceSource, penalty: PairPenalty, weights: FloatArray, pair_weights: PairWeights | None
) -> PairPenalty:
    """Penalty at which to scan: smaller where large groups may be stored sparsely, which needs pairs with slack.

    Where a sample of the pairs shows that too many exceed lambda1 for that, the slack would only take memory.
    """
    p = source.n_variables
    if p < config.SPARSE_BLOCK or not few_lighter(pair_weights, p) or not penalty.scale > 0.0:
        return penalty
    thresholds = [penalty.threshold(k) for k in range(len(weights))]
    slack, box = scan_slack(penalty, thresholds)
    if slack >= config.SCAN_SLACK * box or not box > 0.0:
        return penalty
    i, j = np.random.default_rng(0).integers(0, p, (2, _DRAWN_PAIRS))
    i, j = np.minimum(i, j)[i != j], np.maximum(i, j)[i != j]
    drawn = np.column_stack([w * source.entries(k, i, j) for k, w in enumerate(weights)])
    above = float(penalty.exceeds_lambda1(drawn).any(axis=1).mean())
    if above * p > 2.0 * config.SPARSE_PAIRS:
        return penalty
    wider = penalty.scaled((1.0 - config.SCAN_SLACK) * box / max(thresholds))
    cached = _cached_scans.get(id(source), [])
    is_cached, wider_is_cached = (any(known.covers(at, weights) for known in cached) for at in (penalty, wider))
    return penalty if is_cached and not wider_is_cached else wider


@dataclass(frozen=True)
class _CachedScan:
    """The result of a scan, with the penalty and class weights that it used."""

    penalty: PairPenalty
    weights: FloatArray
    table: PairTable

    def covers(self, penalty: PairPenalty, weights: FloatArray) -> bool:
        """Whether the pairs of a scan with these arguments are a subset of the pairs of this one."""
        alike = type(penalty) is type(self.penalty) and np.array_equal(weights, self.weights)
        return alike and all(self.penalty.threshold(k) <= penalty.threshold(k) for k in range(len(weights)))


#: Cached scans by the identity of their source, inside `known_pairs`: that of the context, and the last one beyond it.
_cached_scans: dict[int, list[_CachedScan]] = {}


@contextmanager
def known_pairs(source: CovarianceSource, penalty: PairPenalty, weights: FloatArray) -> Iterator[None]:
    """Cache one scan of `source`, for scans with the same class weights and a lambda1 that is not smaller.

    The last scan with a smaller lambda1 is cached, too.
    """
    _cached_scans[id(source)] = [_CachedScan(penalty, weights, scan_pairs(source, penalty, weights))]
    try:
        yield
    finally:
        del _cached_scans[id(source)]


def _possibly_outside_ball(penalty: PairPenalty, weighted: FloatArray, factor: FloatArray) -> BoolArray:
    """Pairs outside the dual ball, and pairs within a rounding error of its boundary."""
    return penalty.violates_global_condition(weighted * (1.0 + 1e-14), factor)


def tiles(p: int, first: int = 0, last: int | None = None) -> Iterator[tuple[slice, slice]]:
    """Tiles that cover the upper triangle, row by row, or those numbered `first` to `last` - 1."""
    edges = np.append(np.arange(0, p, config.TILE), p).tolist()
    n = len(edges) - 1
    number = 0
    for row in range(n):
        for column in range(max(row, row + first - number), n if last is None else min(n, row + last - number)):
            yield slice(edges[row], edges[row + 1]), slice(edges[column], edges[column + 1])
        number += n - row


def tile_ranges(source: Any) -> list[tuple[int, int]]:
    """Ranges of tiles for remote workers; empty if the scan is short or runs on a GPU."""
    n_rows = -(-source.n_variables // config.TILE)
    n_tiles = n_rows * (n_rows + 1) // 2
    each = float(config.TILE) ** 2 * sum(source.unit_vectors(k).shape[1] for k in range(source.n_classes))
    if source.device != "cpu" or each * n_tiles < 5.0 * config.REMOTE_SCAN_COST:
        return []
    step = max(1, int(config.REMOTE_SCAN_COST / each))
    return [(first, min(first + step, n_tiles)) for first in range(0, n_tiles, step)]


def scan_tile_range(tile_range: tuple[int, int], scan: TileScan, progress: Any = None) -> _Columns:
    """Pairs to keep from a range of tiles; the task of a remote worker."""
    source: Any = scan.source
    candidates = [scan.possible(source, *tile) for tile in tiles(source.n_variables, *tile_range)]
    i, j = (np.concatenate(ends) for ends in zip(*candidates, strict=True))
    parts = [scan.evaluate_exactly(i[piece], j[piece]) for piece in _pieces(len(i))]
    columns: Any = tuple(np.concatenate(column) for column in zip(*parts, strict=True))
    return columns


def _pieces(n_candidates: int, n_threads: int = 1) -> list[slice]:
    """Slices of the candidates that are evaluated together: at least one, and one per thread for long lists."""
    step = min(config.PAIR_BATCH, max(config.PAIR_BATCH // 20, -(-n_candidates // n_threads)))
    return [slice(first, first + step) for first in range(0, max(1, n_candidates), step)]


def _bands(p: int) -> Iterator[tuple[slice, slice]]:
    """Bands of rows of the upper triangle with as many entries as a tile.

    A stored matrix is read three times as fast along its rows as in square tiles.
    """
    first_row = 0
    while first_row < p:
        end_row = min(p, first_row + max(1, config.TILE * config.TILE // (p - first_row)))
        for first_column in range(first_row, p, config.TILE * config.TILE):
            yield slice(first_row, end_row), slice(first_column, min(first_column + config.TILE * config.TILE, p))
        first_row = end_row


class _Scratch(local):
    """Arrays of one thread for one tile, allocated on its first use."""

    def __init__(self) -> None:
        self.seen: BoolArray = np.zeros(config.TILE * config.TILE, dtype=bool)
        self.hits: IntArray = np.empty(config.TILE * config.TILE, dtype=np.int64)
        self.tile: NDArray[np.float32] = np.empty(config.TILE * config.TILE, dtype=np.float32)


class TileScan:
    """Scan of one tile in all classes, with scratch arrays per thread."""

    def __init__(
        self,
        source: CovarianceSource,
        penalty: PairPenalty,
        weights: FloatArray,
        pair_weights: PairWeights | None,
        strong_only: bool,
    ) -> None:
        self.source, self.penalty, self.weights, self.strong_only = source, penalty, weights, strong_only
        self.pair_weights = pair_weights
        self.deviation = np.sqrt(np.stack([source.diagonal(k) for k in range(source.n_classes)]))
        self.weighted_deviation = weights[:, None] * self.deviation
        self.errors: list[float] = []
        self.limits: list[tuple[NDArray[np.float32], NDArray[np.float32]]] = []
        if isinstance(source, SampleCovariance):
            self.errors = [source.correlation_error(k) for k in range(len(weights))]
            self.limits = [self._correlation_limits(k) for k in range(len(weights))]
        self._local = _Scratch()

    def _correlation_limits(self, k: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Factors of the rows and the columns whose product bounds the correlations of pairs below the threshold.

        A relative margin of 1e-6 covers the rounding errors of single precision. Pairs of constant variables are below.
        With variances from 1e-60 to 1e60 a factor overflows only where no pair of its variable is above.
        """
        root, limits = np.sqrt(self.penalty.threshold(k)), []
        for scale, margin in ((self.weighted_deviation[k], 1.0 - 1e-6), (self.deviation[k], 1.0)):
            with np.errstate(divide="ignore", invalid="ignore", over="ignore", under="ignore"):
                limits.append(np.where(scale > 0.0, margin * root / scale, np.inf).astype(np.float32))
        return limits[0], limits[1]

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_local"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._local = _Scratch()

    def candidates(self, source: SampleCovariance) -> tuple[IntArray, IntArray]:
        """Pairs that single-precision covariances cannot rule out, in the order of the tiles, from CPU or GPU."""
        if source.device in SCANNERS:
            try:
                return self._candidates_on_device(source)
            except DeviceFailed as error:
                warnings.warn(f"Screening runs on the processor: {error}.", RuntimeWarning, stacklevel=2)
        per_tile = map_on_cores(lambda tile: self.possible(source, *tile), list(tiles(self.source.n_variables)))
        i, j = (np.concatenate(ends) for ends in zip(*per_tile, strict=True))
        return i, j

    def _candidates_on_device(self, source: SampleCovariance) -> tuple[IntArray, IntArray]:
        units = [source.unit_vectors(k) for k in range(self.source.n_classes)]
        with np.errstate(divide="ignore"):
            rows = [1.0 / (scale * (1.0 + 1e-12)) for scale in self.weighted_deviation]
            columns = [self.penalty.lambda1 / scale for scale in self.deviation]
        i, j = scanner(source.device).possible_pairs(units, rows, columns, self.errors)
        everything = slice(0, self.source.n_variables)
        i, j = self._with_downweighted(i, j, everything, everything)
        order = np.lexsort((j, i, j // config.TILE, i // config.TILE))
        return i[order], j[order]

    def exact(self, tile: tuple[slice, slice]) -> _Columns:
        """Pairs to keep from a tile of double-precision covariances: those above lambda1 in some class."""
        from jointglasso.kernels.scan import mark_above

        rows, columns = tile
        seen, hits, n_hits = self._local.seen, self._local.hits, 0
        tiles_by_class = [self.source.tile(k, rows, columns) for k in range(self.source.n_classes)]
        one = np.ones(columns.stop - columns.start)
        for k, S in enumerate(tiles_by_class):
            # `_keep` compares exactly; ``weight * |x|`` is rounded.
            limit = np.full(len(S), self.penalty.threshold(k) / self.weights[k] * (1.0 - 1e-15))
            n_hits = mark_above(S, limit, one, 0.0, rows.start == columns.start, seen, hits, n_hits)
        i, j = self._with_downweighted(*self._collect(n_hits, columns), rows, columns)
        values = np.column_stack([S[i, j] for S in tiles_by_class])
        i, j = i + rows.start, j + columns.start
        self._require_possible(i, j, values)
        return self._keep(i, j, values)

    def evaluate_exactly(self, i: IntArray, j: IntArray) -> _Columns:
        """Pairs to keep among the candidates (i, j), by their double-precision covariances."""
        return self._keep(i, j, np.column_stack([self.source.entries(k, i, j) for k in range(self.source.n_classes)]))

    def _keep(self, i: IntArray, j: IntArray, values: FloatArray) -> _Columns:
        factor = UNIFORM
        if self.pair_weights is not None:
            factor = self.pair_weights.factors(i, j)
            allowed = np.isfinite(coupling_weights(factor))
            i, j, values, factor = i[allowed], j[allowed], values[allowed], factor[allowed]
        weighted = self.penalty.mask_missing(values * self.weights, i, j)
        above, strong = (
            self.penalty.exceeds_lambda1(weighted, factor),
            self.penalty.violates_global_condition(weighted, factor),
        )
        keep = _possibly_outside_ball(self.penalty, weighted, factor) if self.strong_only else above.any(axis=1)
        factor = factor[keep] if len(factor) else factor
        return i[keep], j[keep], weighted[keep], above[keep], strong[keep], factor

    def possible(self, source: SampleCovariance, rows: slice, columns: slice) -> tuple[IntArray, IntArray]:
        """Pairs of a tile that its single-precision correlations cannot rule out."""
        from jointglasso.kernels.scan import mark_above

        seen, hits = self._local.seen, self._local.hits
        shape, n_hits = (rows.stop - rows.start, columns.stop - columns.start), 0
        scratch = self._local.tile[: shape[0] * shape[1]].reshape(shape)
        for k in range(self.source.n_classes):
            piece = source.rough_correlations(k, rows, columns, out=scratch)
            row_limit, column_limit = self.limits[k]
            slack = np.float32(self.errors[k] * (1.0 + 1e-6))
            n_hits = mark_above(
                piece, row_limit[rows], column_limit[columns], slack, rows == columns, seen, hits, n_hits
            )
        i, j = self._with_downweighted(*self._collect(n_hits, columns), rows, columns)
        return i + rows.start, j + columns.start

    def _with_downweighted(self, i: IntArray, j: IntArray, rows: slice, columns: slice) -> tuple[IntArray, IntArray]:
        """Marked pairs of a tile, relative to its corner, and those with an L1 weight below 1: smaller thresholds.

        The kernels compare with lambda1, which finds all other pairs; weights above 1 remove some of them later.
        """
        if self.pair_weights is None:
            return i, j
        row, column, factor = self.pair_weights.exceptions_in(rows, columns)
        weights = np.broadcast_to(l1_weights(factor), (len(row), self.source.n_classes))
        n, downweighted = columns.stop - columns.start, (weights < 1.0).any(axis=1)
        return np.divmod(np.union1d(i * n + j, (row * n + column)[downweighted]), n)

    def _collect(self, n_hits: int, columns: slice) -> tuple[IntArray, IntArray]:
        """Rows and columns of the marked entries, sorted; resets the scratch arrays."""
        seen, hits = self._local.seen, self._local.hits
        mask_missing = np.sort(hits[:n_hits])
        seen[mask_missing] = False
        i, j = np.divmod(mask_missing, columns.stop - columns.start)
        return i, j

    def _require_possible(self, i: IntArray, j: IntArray, values: FloatArray) -> None:
        """Refuse covariances with ``|S_ij| > sqrt(S_ii S_jj)``; entries below lambda1 do not enter the problem."""
        bound = (self.deviation[:, i] * self.deviation[:, j]).T * (1.0 + 1e-8)
        bad = np.abs(values) > bound
        if bad.any():
            pair, k = np.argwhere(bad)[0]
            names = self.source.variable_names
            raise impossible_pair(self.source.class_names[k], names[i[pair]], names[j[pair]])
