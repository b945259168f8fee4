"""One pass over the covariance tiles keeps the few pairs that some rule could keep."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import local
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jointglasso import tuning
from jointglasso._threads import cores_here, map_on_cores
from jointglasso._typing import BoolArray, FloatArray, IntArray
from jointglasso.backends import SCANNERS, DeviceFailed, scanner
from jointglasso.covariance import CovarianceSource, StreamedSource
from jointglasso.penalties import UNIFORM, PairPenalty, PairWeights
from jointglasso.validation import impossible_pair

#: Columns of a part of a `PairTable`.
_Columns = tuple[IntArray, IntArray, FloatArray, BoolArray, BoolArray, FloatArray]

#: Does ``function(item, shared, tell)`` for every item on workers that are given what is shared once.
Share = Callable[[Callable[..., Any], Sequence[Any], Any], list[Any]]


@dataclass(frozen=True)
class PairTable:
    """Pairs i < j with some class above lambda1, times the weight of the pair, in the order of the tiles."""

    n_variables: int
    rows: IntArray
    columns: IntArray
    weighted: FloatArray
    """(m, K): covariance of the pair in each class, times the weight of the class."""
    above: BoolArray
    """(m, K): the pair may not be cut in this class while another class keeps it (condition 8b)."""
    strong: BoolArray
    """(m,): the pair may not be cut in all classes at once (condition 8a)."""
    factor: FloatArray = field(default_factory=lambda: UNIFORM)
    """(m,): weight of the pair in the penalty; empty where all are 1."""

    def at(self, penalty: PairPenalty) -> PairTable:
        """Table of a larger penalty, without another look at the covariances.

        Partitions are nested along lambda: a pair that matters at a larger lambda1 matters at a smaller one.
        """
        above = penalty.above(self.weighted, self.factor)
        kept = np.flatnonzero(above.any(axis=1))
        weighted = self.weighted[kept]
        factor = self.factor[kept] if len(self.factor) else self.factor
        strong = penalty.strong(weighted, factor)
        return PairTable(self.n_variables, self.rows[kept], self.columns[kept], weighted, above[kept], strong, factor)

    def take(self, which: Any) -> PairTable:
        """Some of the pairs."""
        return PairTable(
            self.n_variables,
            self.rows[which],
            self.columns[which],
            self.weighted[which],
            self.above[which],
            self.strong[which],
            self.factor[which] if len(self.factor) else self.factor,
        )


def scan_pairs(
    source: CovarianceSource,
    penalty: PairPenalty,
    weights: FloatArray,
    pair_weights: PairWeights | None = None,
    *,
    strong_only: bool = False,
    share: Share | None = None,
) -> PairTable:
    """Read every tile of S once and keep the pairs that are above lambda1 in some class; forbidden ones never are.

    With `strong_only` the weak ones among them, which only Algorithm 1's merge step and the class rule ask
    for, are dropped at once. `share` has workers elsewhere do a long scan of samples: of it only the pairs come back.
    """
    p = source.n_variables
    known = _known.get(id(source))
    if known is not None and pair_weights is None and known.covers(penalty, weights):
        table = known.table.at(penalty)
        return table.take(_maybe_strong(penalty, table.weighted, table.factor)) if strong_only else table
    scan = TileScan(source, penalty, weights, pair_weights, strong_only)
    if isinstance(source, StreamedSource) and share is not None and (pieces := stretches(source)):
        parts = share(scan_stretch, pieces, scan)
    elif isinstance(source, StreamedSource):
        i, j = scan.candidates(source)
        parts = map_on_cores(lambda piece: scan.judge(i[piece], j[piece]), _pieces(len(i), cores_here()))
    else:
        parts = map_on_cores(scan.exact, list(_bands(p)))
    return PairTable(p, *(np.concatenate(column) for column in zip(*parts, strict=True)))


@dataclass(frozen=True)
class _Known:
    """What a scan found, and what it asked for."""

    penalty: PairPenalty
    weights: FloatArray
    table: PairTable

    def covers(self, penalty: PairPenalty, weights: FloatArray) -> bool:
        """Whether the pairs of another scan are among those of this one."""
        alike = type(penalty) is type(self.penalty) and np.array_equal(weights, self.weights)
        return alike and all(self.penalty.threshold(k) <= penalty.threshold(k) for k in range(len(weights)))


#: Scans that need not be repeated, by the identity of their source, while `known_pairs` holds them.
_known: dict[int, _Known] = {}


@contextmanager
def known_pairs(source: CovarianceSource, penalty: PairPenalty, weights: FloatArray) -> Iterator[None]:
    """Scan a source once: inside, scans with the same weights and a lambda1 no smaller are answered from that one."""
    _known[id(source)] = _Known(penalty, weights, scan_pairs(source, penalty, weights))
    try:
        yield
    finally:
        del _known[id(source)]


def _maybe_strong(penalty: PairPenalty, weighted: FloatArray, factor: FloatArray) -> BoolArray:
    """Pairs that may not be cut in all classes at once, and those that rounding alone may have kept from that."""
    return penalty.strong(weighted * (1.0 + 1e-14), factor)


def tiles(p: int, first: int = 0, last: int | None = None) -> Iterator[tuple[slice, slice]]:
    """Tiles covering the upper triangle row by row, or a stretch of them."""
    edges = np.append(np.arange(0, p, tuning.TILE), p).tolist()
    n = len(edges) - 1
    number = 0
    for row in range(n):
        for column in range(max(row, row + first - number), n if last is None else min(n, row + last - number)):
            yield slice(edges[row], edges[row + 1]), slice(edges[column], edges[column + 1])
        number += n - row


def stretches(source: Any) -> list[tuple[int, int]]:
    """Stretches of tiles that are worth a journey; none where the scan is short or a device does it."""
    n_rows = -(-source.n_variables // tuning.TILE)
    n_tiles = n_rows * (n_rows + 1) // 2
    each = float(tuning.TILE) ** 2 * sum(source.unit_vectors(k).shape[1] for k in range(source.n_classes))
    if source.device != "cpu" or each * n_tiles < tuning.WORTH_SENDING:
        return []
    step = max(1, int(tuning.PIECE_ELSEWHERE / each))
    return [(first, min(first + step, n_tiles)) for first in range(0, n_tiles, step)]


def scan_stretch(stretch: tuple[int, int], scan: TileScan, tell: Any = None) -> _Columns:
    """Pairs that matter in a stretch of tiles; done by a worker elsewhere."""
    source: Any = scan.source
    found = [scan.possible(source, *tile) for tile in tiles(source.n_variables, *stretch)]
    i, j = (np.concatenate(ends) for ends in zip(*found, strict=True))
    parts = [scan.judge(i[piece], j[piece]) for piece in _pieces(len(i))]
    columns: Any = tuple(np.concatenate(column) for column in zip(*parts, strict=True))
    return columns


def _pieces(n_candidates: int, n_threads: int = 1) -> list[slice]:
    """Candidates that are judged together: at least one piece, and one for each thread where they are many."""
    step = min(tuning.CANDIDATES, max(tuning.CANDIDATES // 20, -(-n_candidates // n_threads)))
    return [slice(first, first + step) for first in range(0, max(1, n_candidates), step)]


def _bands(p: int) -> Iterator[tuple[slice, slice]]:
    """Rows of the upper triangle, as many at a time as a tile has room for.

    A stored matrix is read three times as fast along its rows as in squares.
    """
    top = 0
    while top < p:
        below = min(p, top + max(1, tuning.TILE * tuning.TILE // (p - top)))
        for left in range(top, p, tuning.TILE * tuning.TILE):
            yield slice(top, below), slice(left, min(left + tuning.TILE * tuning.TILE, p))
        top = below


class TileScan:
    """Scan of one tile in all classes; each thread owns its scratch arrays."""

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
        self.deviation = [np.sqrt(source.diagonal(k)) for k in range(source.n_classes)]
        self.weighted_deviation = [w * deviation for w, deviation in zip(weights, self.deviation, strict=True)]
        self.errors: list[float] = []
        if isinstance(source, StreamedSource):
            self.errors = [source.correlation_error(k) for k in range(len(weights))]
        self._local = local()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_local"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._local = local()

    def candidates(self, source: StreamedSource) -> tuple[IntArray, IntArray]:
        """Pairs that rough covariances cannot rule out, in the order of the tiles, wherever they are computed."""
        if source.device in SCANNERS:
            try:
                return self._candidates_on_device(source)
            except DeviceFailed as error:
                warnings.warn(f"Screening runs on the processor: {error}.", RuntimeWarning, stacklevel=2)
        found = map_on_cores(lambda tile: self.possible(source, *tile), list(tiles(self.source.n_variables)))
        i, j = (np.concatenate(ends) for ends in zip(*found, strict=True))
        return i, j

    def _candidates_on_device(self, source: StreamedSource) -> tuple[IntArray, IntArray]:
        units = [source.unit_vectors(k) for k in range(self.source.n_classes)]
        with np.errstate(divide="ignore"):
            rows = [1.0 / (scale * (1.0 + 1e-12)) for scale in self.weighted_deviation]
            columns = [self.penalty.lambda1 / scale for scale in self.deviation]
        i, j = scanner(source.device).possible_pairs(units, rows, columns, self.errors)
        if self.pair_weights is not None:  # few enough to be judged without a look at their rough values
            everything = slice(0, self.source.n_variables)
            (easier_i, easier_j), _ = self._easier_pairs(everything, everything)
            i, j = np.unique(np.stack([np.append(i, easier_i), np.append(j, easier_j)]), axis=1)
        order = np.lexsort((j, i, j // tuning.TILE, i // tuning.TILE))
        return i[order], j[order]

    def exact(self, tile: tuple[slice, slice]) -> _Columns:
        """Pairs of a tile that matter, its covariances being exact."""
        i, j, values = self._read(*tile)
        self._require_possible(i, j, values)
        return self._keep(i, j, values)

    def judge(self, i: IntArray, j: IntArray) -> _Columns:
        """Those of the given pairs that matter, by their exact covariances."""
        return self._keep(i, j, np.column_stack([self.source.entries(k, i, j) for k in range(self.source.n_classes)]))

    def _keep(self, i: IntArray, j: IntArray, values: FloatArray) -> _Columns:
        factor = UNIFORM
        if self.pair_weights is not None:
            factor = self.pair_weights.factors(i, j)
            allowed = np.isfinite(factor)
            i, j, values, factor = i[allowed], j[allowed], values[allowed], factor[allowed]
        weighted = self.penalty.marked(values * self.weights, i, j)
        above, strong = self.penalty.above(weighted, factor), self.penalty.strong(weighted, factor)
        keep = _maybe_strong(self.penalty, weighted, factor) if self.strong_only else above.any(axis=1)
        factor = factor[keep] if len(factor) else factor
        return i[keep], j[keep], weighted[keep], above[keep], strong[keep], factor

    def _read(self, rows: slice, columns: slice) -> tuple[IntArray, IntArray, FloatArray]:
        """Pairs above lambda1 in some class, and their covariances (m, K), read off the tiles."""
        from jointglasso.kernels.scan import mark_above

        seen, hits = self._scratch()
        pieces = [self.source.tile(k, rows, columns) for k in range(self.source.n_classes)]
        n_hits = 0
        easier, threshold = self._easier_pairs(rows, columns)
        for k, piece in enumerate(pieces):
            upper_only = rows.start == columns.start
            n_hits = mark_above(piece, self.weights[k], self.penalty.threshold(k), upper_only, seen, hits, n_hits)
            above = self.weights[k] * np.abs(piece[easier]) > threshold
            n_hits = self._mark(easier, above, columns, n_hits)
        i, j = self._collect(n_hits, columns)
        return i + rows.start, j + columns.start, np.column_stack([piece[i, j] for piece in pieces])

    def possible(self, source: StreamedSource, rows: slice, columns: slice) -> tuple[IntArray, IntArray]:
        """Pairs of a tile that its rough covariances cannot rule out."""
        from jointglasso.kernels.scan import mark_possibly_above

        seen, hits = self._scratch()
        scratch = self._tile_scratch(rows, columns)
        n_hits = 0
        for k in range(self.source.n_classes):
            piece = source.rough_correlations(k, rows, columns, out=scratch)
            scale = self.weighted_deviation[k][rows], self.deviation[k][columns]
            n_hits = mark_possibly_above(
                piece, scale, self.errors[k], self.penalty.threshold(k), rows == columns, seen, hits, n_hits
            )
            if self.pair_weights is not None:
                n_hits = self._mark_easier(piece, scale, self.errors[k], rows, columns, n_hits)
        i, j = self._collect(n_hits, columns)
        return i + rows.start, j + columns.start

    def _mark_easier(
        self,
        piece: NDArray[np.float32],
        scale: tuple[FloatArray, FloatArray],
        error: float,
        rows: slice,
        columns: slice,
        n_hits: int,
    ) -> int:
        """Mark the pairs with a weight below 1 that may be above their own lambda1."""
        easier, threshold = self._easier_pairs(rows, columns)
        deviation = scale[0][easier[0]] * (1.0 + 1e-12) * scale[1][easier[1]]
        possible = deviation * (np.abs(piece[easier].astype(np.float64)) + error) > threshold
        return self._mark(easier, possible, columns, n_hits)

    def _easier_pairs(self, rows: slice, columns: slice) -> tuple[tuple[IntArray, IntArray], FloatArray]:
        """Pairs of the tile with a weight below 1, counted from its corner, and the lambda1 of each.

        The kernels compare with lambda1 itself, which finds all other pairs; weights above 1 only take some away again.
        """
        if self.pair_weights is None:
            nothing = np.empty(0, dtype=np.int64)
            return (nothing, nothing), UNIFORM
        i, j, factor = self.pair_weights.exceptions_in(rows, columns)
        easier = factor < 1.0
        return (i[easier], j[easier]), self.penalty.lambda1 * factor[easier]

    def _mark(self, places: tuple[IntArray, IntArray], chosen: BoolArray, columns: slice, n_hits: int) -> int:
        """Add the chosen places of a tile to its hits unless they are there already."""
        if not chosen.any():
            return n_hits
        seen, hits = self._scratch()
        position = (places[0] * (columns.stop - columns.start) + places[1])[chosen]
        new = position[~seen[position]]
        seen[new] = True
        hits[n_hits : n_hits + len(new)] = new
        return n_hits + len(new)

    def _scratch(self) -> tuple[BoolArray, IntArray]:
        if not hasattr(self._local, "seen"):
            self._local.seen = np.zeros(tuning.TILE * tuning.TILE, dtype=bool)
            self._local.hits = np.empty(tuning.TILE * tuning.TILE, dtype=np.int64)
        return self._local.seen, self._local.hits

    def _tile_scratch(self, rows: slice, columns: slice) -> NDArray[np.float32]:
        if not hasattr(self._local, "tile"):
            self._local.tile = np.empty(tuning.TILE * tuning.TILE, dtype=np.float32)
        shape = rows.stop - rows.start, columns.stop - columns.start
        scratch: NDArray[np.float32] = self._local.tile[: shape[0] * shape[1]].reshape(shape)
        return scratch

    def _collect(self, n_hits: int, columns: slice) -> tuple[IntArray, IntArray]:
        """Rows and columns of the marked entries, in order; the scratch is left clean."""
        seen, hits = self._scratch()
        found = np.sort(hits[:n_hits])
        seen[found] = False
        i, j = np.divmod(found, columns.stop - columns.start)
        return i, j

    def _require_possible(self, i: IntArray, j: IntArray, values: FloatArray) -> None:
        """Refuse covariances larger than the variances allow; those below lambda1 play no part in the problem."""
        bound = np.column_stack([deviation[i] * deviation[j] for deviation in self.deviation]) * (1.0 + 1e-8)
        bad = np.argwhere(np.abs(values) > bound)
        if len(bad):
            pair, k = bad[0]
            names = self.source.variable_names
            raise impossible_pair(self.source.class_names[k], names[i[pair]], names[j[pair]])
