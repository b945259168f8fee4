"""One pass over the covariance tiles keeps the few pairs that some rule could keep."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from threading import local

import numpy as np

from jointglasso._threads import map_on_threads
from jointglasso._typing import BoolArray, FloatArray, IntArray
from jointglasso.covariance import CovarianceSource, StreamedSource
from jointglasso.penalties import PairPenalty
from jointglasso.validation import impossible_pair

#: Rows and columns of a tile: small enough that the scratch arrays stay in cache.
TILE = 512


@dataclass(frozen=True)
class PairTable:
    """Pairs i < j with some class above lambda1, in the order of the tiles."""

    n_variables: int
    rows: IntArray
    columns: IntArray
    weighted: FloatArray
    """(m, K): covariance of the pair in each class, times the weight of the class."""
    above: BoolArray
    """(m, K): the pair may not be cut in this class while another class keeps it (condition 8b)."""
    strong: BoolArray
    """(m,): the pair may not be cut in all classes at once (condition 8a)."""

    def at(self, penalty: PairPenalty) -> PairTable:
        """Table of a larger penalty, without another look at the covariances.

        Partitions are nested along lambda: a pair that matters at a larger lambda1 matters at a smaller one.
        """
        above = penalty.above(self.weighted)
        kept = np.flatnonzero(above.any(axis=1))
        weighted = self.weighted[kept]
        return PairTable(
            self.n_variables, self.rows[kept], self.columns[kept], weighted, above[kept], penalty.strong(weighted)
        )


def scan_pairs(
    source: CovarianceSource, penalty: PairPenalty, weights: FloatArray, *, strong_only: bool = False
) -> PairTable:
    """Read every tile of S once and keep the pairs that are above lambda1 in some class.

    With `strong_only` the weak ones among them, which only Algorithm 1's merge step and the class rule ask
    for, are dropped at once.
    """
    p = source.n_variables
    scan = _TileScan(source, penalty, weights, strong_only)
    parts = map_on_threads(scan, list(_tiles(p)))
    return PairTable(p, *(np.concatenate(column) for column in zip(*parts, strict=True)))


def _tiles(p: int) -> Iterator[tuple[slice, slice]]:
    """Tiles covering the upper triangle."""
    for top in range(0, p, TILE):
        for left in range(top, p, TILE):
            yield slice(top, min(top + TILE, p)), slice(left, min(left + TILE, p))


class _TileScan:
    """Scan of one tile in all classes; each thread owns its scratch arrays."""

    def __init__(self, source: CovarianceSource, penalty: PairPenalty, weights: FloatArray, strong_only: bool) -> None:
        self.source, self.penalty, self.weights, self.strong_only = source, penalty, weights, strong_only
        self.deviations = np.sqrt(np.column_stack([source.diagonal(k) for k in range(source.n_classes)]))
        self._local = local()

    def __call__(self, tile: tuple[slice, slice]) -> tuple[IntArray, IntArray, FloatArray, BoolArray, BoolArray]:
        if isinstance(self.source, StreamedSource):
            i, j, values = self._streamed(self.source, *tile)
        else:
            i, j, values = self._exact(*tile)
            self._require_possible(i, j, values)
        weighted = values * self.weights
        above, strong = self.penalty.above(weighted), self.penalty.strong(weighted)
        keep = strong if self.strong_only else above.any(axis=1)
        return i[keep], j[keep], weighted[keep], above[keep], strong[keep]

    def _exact(self, rows: slice, columns: slice) -> tuple[IntArray, IntArray, FloatArray]:
        """Pairs above lambda1 in some class, and their covariances (m, K), read off the tiles."""
        from jointglasso.kernels.scan import mark_above

        seen, hits = self._scratch()
        pieces = [self.source.tile(k, rows, columns) for k in range(self.source.n_classes)]
        n_hits = 0
        for k, piece in enumerate(pieces):
            n_hits = mark_above(piece, self.weights[k], self.penalty.lambda1, rows == columns, seen, hits, n_hits)
        i, j = self._collect(n_hits, columns)
        return i + rows.start, j + columns.start, np.column_stack([piece[i, j] for piece in pieces])

    def _streamed(self, source: StreamedSource, rows: slice, columns: slice) -> tuple[IntArray, IntArray, FloatArray]:
        """Pairs that rough tiles cannot rule out, and their exact covariances (m, K)."""
        from jointglasso.kernels.scan import mark_possibly_above

        seen, hits = self._scratch()
        n_hits = 0
        for k in range(self.source.n_classes):
            piece = source.rough_correlations(k, rows, columns)
            scale = self.weights[k] * self.deviations[rows, k], self.deviations[columns, k]
            error = source.correlation_error(k)
            n_hits = mark_possibly_above(
                piece, *scale, error, self.penalty.lambda1, rows == columns, seen, hits, n_hits
            )
        i, j = self._collect(n_hits, columns)
        i, j = i + rows.start, j + columns.start
        exact = [self.source.entries(k, i, j) for k in range(self.source.n_classes)]
        return i, j, np.column_stack(exact)

    def _scratch(self) -> tuple[BoolArray, IntArray]:
        if not hasattr(self._local, "seen"):
            self._local.seen = np.zeros(TILE * TILE, dtype=bool)
            self._local.hits = np.empty(TILE * TILE, dtype=np.int64)
        return self._local.seen, self._local.hits

    def _collect(self, n_hits: int, columns: slice) -> tuple[IntArray, IntArray]:
        """Rows and columns of the marked entries, in order; the scratch is left clean."""
        seen, hits = self._scratch()
        found = np.sort(hits[:n_hits])
        seen[found] = False
        i, j = np.divmod(found, columns.stop - columns.start)
        return i, j

    def _require_possible(self, i: IntArray, j: IntArray, values: FloatArray) -> None:
        """Refuse covariances larger than the variances allow; those below lambda1 play no part in the problem."""
        bound = self.deviations[i] * self.deviations[j] * (1.0 + 1e-8)
        bad = np.argwhere(np.abs(values) > bound)
        if len(bad):
            pair, k = bad[0]
            names = self.source.variable_names
            raise impossible_pair(self.source.class_names[k], names[i[pair]], names[j[pair]])
