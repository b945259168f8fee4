"""One pass over the covariance tiles keeps the few pairs that some rule could keep."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import local

import numpy as np

from jointglasso._typing import BoolArray, FloatArray, IntArray
from jointglasso.covariance import CovarianceSource
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
    above: BoolArray
    """(m, K): the pair may not be cut in this class while another class keeps it (condition 8b)."""
    strong: BoolArray
    """(m,): the pair may not be cut in all classes at once (condition 8a)."""


def scan_pairs(
    source: CovarianceSource, penalty: PairPenalty, weights: FloatArray, *, strong_only: bool = False
) -> PairTable:
    """Read every tile of S once and keep the pairs that are above lambda1 in some class.

    With `strong_only` the weak ones among them, which only Algorithm 1's merge step and the class rule ask
    for, are dropped at once.
    """
    p = source.n_variables
    scan = _TileScan(source, penalty, weights, strong_only)
    tiles = list(_tiles(p))
    if len(tiles) == 1:
        parts = [scan(tiles[0])]
    else:
        with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
            parts = list(pool.map(scan, tiles))
    rows, columns, above, strong = (np.concatenate(column) for column in zip(*parts, strict=True))
    return PairTable(p, rows, columns, above, strong)


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
        self.scratch = local()

    def __call__(self, tile: tuple[slice, slice]) -> tuple[IntArray, IntArray, BoolArray, BoolArray]:
        from jointglasso.kernels.scan import mark_above

        rows, columns = tile
        if not hasattr(self.scratch, "seen"):
            self.scratch.seen = np.zeros(TILE * TILE, dtype=bool)
            self.scratch.hits = np.empty(TILE * TILE, dtype=np.int64)
        seen, hits = self.scratch.seen, self.scratch.hits
        pieces = [self.source.tile(k, rows, columns) for k in range(self.source.n_classes)]
        n_hits = 0
        for k, piece in enumerate(pieces):
            n_hits = mark_above(piece, self.weights[k], self.penalty.lambda1, rows == columns, seen, hits, n_hits)
        found = np.sort(hits[:n_hits])
        seen[found] = False
        i, j = np.divmod(found, columns.stop - columns.start)
        values = np.column_stack([piece[i, j] for piece in pieces])
        i, j = i + rows.start, j + columns.start
        self._require_possible(i, j, values)
        weighted = values * self.weights
        strong = self.penalty.strong(weighted)
        if self.strong_only:
            i, j, weighted, strong = i[strong], j[strong], weighted[strong], strong[strong]
        return i, j, self.penalty.above(weighted), strong

    def _require_possible(self, i: IntArray, j: IntArray, values: FloatArray) -> None:
        """Refuse covariances larger than the variances allow; those below lambda1 play no part in the problem."""
        bound = self.deviations[i] * self.deviations[j] * (1.0 + 1e-8)
        bad = np.argwhere(np.abs(values) > bound)
        if len(bad):
            pair, k = bad[0]
            names = self.source.variable_names
            raise impossible_pair(self.source.class_names[k], names[i[pair]], names[j[pair]])
