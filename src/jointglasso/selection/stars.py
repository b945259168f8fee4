"""StARS: the weakest penalty whose graph hardly changes from subsample to subsample.

The method is that of Liu, Roeder and Wasserman (2010), with one network for each class.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from jointglasso._typing import FloatArray
from jointglasso.selection.em import prepared
from jointglasso.selection.evaluation import Evaluation, solve_parts
from jointglasso.selection.grids import LambdaGrid
from jointglasso.selection.intake import SelectionData
from jointglasso.selection.resampling import EdgeCounter, Sizes, draw


class Instability:
    """Instability of a point: how much the edges differ between subsamples.

    With pi the share of subsamples in which a pair is an edge, it is the mean of ``2 pi (1 - pi)`` over all pairs and
    classes.
    """

    tie = 0.0

    def __init__(self, data: SelectionData, n_subsamples: int, random_state: Any, options: dict[str, Any]) -> None:
        samples = data.require_samples("StARS")
        rng = check_random_state(random_state)
        parts = [draw(samples.sizes, subsample_sizes(samples.sizes), rng) for _ in range(n_subsamples)]
        self.solves = n_subsamples
        self.name = f"instability over {n_subsamples} subsamples"
        self._shape = samples.n_classes, samples.n_variables
        how = data.preparation.for_resamples()
        self._sources = [prepared(how, samples.take(part)).source for part in parts]
        self._options = options

    def __call__(self, lambda1: float, lambda2: float, start: Evaluation | None) -> Evaluation:
        """Solve every subsample and count how often each pair is an edge."""
        solutions = solve_parts(self._sources, lambda1, lambda2, start, self._options)
        counter = EdgeCounter(*self._shape)
        for found in solutions:
            counter.add(found.precision)
        n_classes, p = self._shape
        shares = [counts.data / self.solves for counts in counter.counts]
        unstable = float(sum((2.0 * share * (1.0 - share)).sum() for share in shares))
        edges = np.mean([found.n_edges for found in solutions], axis=0)
        return Evaluation(
            lambda1=lambda1,
            lambda2=lambda2,
            score=unstable / (max(1, p * (p - 1) // 2) * n_classes),
            edges=edges,
            gap=max(found.certificate.relative_gap for found in solutions),
            n_failed=sum(not found.status.converged for found in solutions),
            solutions=tuple(solutions),
            details={"subsample_edges": float(edges.sum())},
        )


@dataclass(frozen=True)
class UnstableBeyond:
    """Leave a column once it is too unstable: made monotone, instability cannot fall again."""

    beta: float

    def __call__(self, done: Sequence[Evaluation]) -> bool:
        return done[-1].score > self.beta


def monotone(grid: LambdaGrid, instability: FloatArray) -> FloatArray:
    """Largest instability at each point of a column or before it; NaN where it was not measured."""
    out = instability.copy()
    for column in range(grid.n_columns):
        points = grid.points_of(column)
        out[points] = np.maximum.accumulate(instability[points])
    return out


def choose(grid: LambdaGrid, instability: FloatArray, mean_edges: FloatArray, beta: float) -> int:
    """Point with the most edges among the last stable points of the columns.

    A column's last stable point is its weakest penalty with monotone instability at most `beta`. If even the first
    points are unstable, the first point of the most stable column is taken.
    """
    columns = [grid.points_of(column) for column in range(grid.n_columns)]
    columns = [points for points in columns if not np.isnan(instability[points[0]])]
    last = [points[instability[points] <= beta][-1] for points in columns if instability[points[0]] <= beta]
    if not last:
        return int(min((points[0] for points in columns), key=lambda point: instability[point]))
    return int(max(last, key=lambda point: (mean_edges[point], -point)))


def subsample_sizes(sizes: Sizes) -> list[int]:
    """``10 sqrt(n)`` samples of a class of n, or 80 % of them if that is n < 144, but two at least."""
    return [max(2, int(10 * np.sqrt(n) if n >= 144 else 0.8 * n)) for n in sizes]
