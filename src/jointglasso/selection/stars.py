"""StARS: the weakest penalty whose graph hardly changes from subsample to subsample.

The method is that of Liu, Roeder and Wasserman (2010), with one network for each class.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from jointglasso._typing import FloatArray
from jointglasso.covariance.classes import ClassSamples
from jointglasso.covariance.prepare import Preparation
from jointglasso.engine.executors import Tell
from jointglasso.selection.grids import LambdaGrid
from jointglasso.selection.intake import SelectionData
from jointglasso.selection.paths import Crew, path
from jointglasso.selection.progress import Tracker
from jointglasso.selection.resampling import EdgeCounter, Part, Sizes, draw, edges_of


@dataclass(frozen=True)
class Stars:
    """Instability of every point of a grid.

    With pi the share of subsamples in which a pair is an edge, the instability of a point is the mean of
    ``2 pi (1 - pi)`` over all pairs and classes. It is made monotone along each column, from strong penalties to weak.
    """

    instability: FloatArray
    """(m,): as measured."""
    monotone: FloatArray
    """(m,): largest instability at this point of the column or before it."""
    mean_edges: FloatArray
    """(m,): edges over all classes, mean over the subsamples."""
    n_failed: int

    def choose(self, grid: LambdaGrid, beta: float) -> int:
        """Point with the most edges among the last stable points of the columns.

        A column's last stable point is its weakest penalty with monotone instability at most `beta`. If even the
        first points are unstable, the first point of the most stable column is taken.
        """
        columns = [grid.points_of(column) for column in range(grid.n_columns)]
        last = [points[self.monotone[points] <= beta][-1] for points in columns if self.monotone[points[0]] <= beta]
        if not last:
            return int(min((points[0] for points in columns), key=lambda point: self.monotone[point]))
        return int(max(last, key=lambda point: (self.mean_edges[point], -point)))


def subsample_sizes(sizes: Sizes) -> list[int]:
    """``10 sqrt(n)`` samples of a class of n, or 80 % of them if that is n < 144, but two at least."""
    return [max(2, int(10 * np.sqrt(n) if n >= 144 else 0.8 * n)) for n in sizes]


@dataclass(frozen=True)
class _Subsamples:
    """What all subsamples have in common."""

    samples: ClassSamples
    preparation: Preparation
    grid: LambdaGrid
    parts: list[Part]
    options: dict[str, Any]


def measure_instability(
    data: SelectionData,
    grid: LambdaGrid,
    tracker: Tracker,
    *,
    n_subsamples: int,
    random_state: Any,
    crew: Crew,
    options: dict[str, Any],
) -> Stars:
    """Instability of every point of the grid over random subsamples of each class."""
    samples = data.require_samples("StARS")
    rng = check_random_state(random_state)
    parts = [draw(samples.sizes, subsample_sizes(samples.sizes), rng) for _ in range(n_subsamples)]
    counters = [EdgeCounter(samples.n_classes, samples.n_variables) for _ in range(len(grid))]
    items = [(number, column) for number in range(n_subsamples) for column in range(grid.n_columns)]

    def count(number: int, found: tuple[list[list[Any]], int]) -> int:
        edges, n_failed = found
        for point, of_point in zip(grid.points_of(items[number][1]), edges, strict=True):
            counters[point].add(of_point)
        return n_failed

    shared = _Subsamples(samples, data.preparation, grid, parts, options)
    n_failed = sum(crew.map(_edges_of_column, items, shared, tracker, count))
    n_pairs = max(1, samples.n_variables * (samples.n_variables - 1) // 2) * samples.n_classes
    measured = np.array([_instability(counter, n_subsamples) / n_pairs for counter in counters])
    monotone = np.empty_like(measured)
    for column in range(grid.n_columns):
        points = grid.points_of(column)
        monotone[points] = np.maximum.accumulate(measured[points])
    edges = np.array([sum(int(c.sum()) for c in counter.counts) / n_subsamples for counter in counters])
    return Stars(measured, monotone, edges, n_failed)


def _edges_of_column(item: tuple[int, int], shared: _Subsamples, tell: Tell) -> tuple[list[list[Any]], int]:
    """Edges of one subsample at every point of one column, and the number of solves that failed."""
    number, column = item
    source = shared.preparation.for_resamples()(shared.samples.take(shared.parts[number])).source
    lambdas = [shared.grid[point] for point in shared.grid.points_of(column)]
    edges, n_failed = [], 0
    for solution in path(source, lambdas, **shared.options):
        edges.append([edges_of(Theta) for Theta in solution.precision])
        n_failed += not solution.status.converged
        tell(f"subsample {number + 1} of {len(shared.parts)}")
    return edges, n_failed


def _instability(counter: EdgeCounter, n_subsamples: int) -> float:
    """Sum of ``2 pi (1 - pi)``; pairs that were never an edge add nothing."""
    shares = [counts.data / n_subsamples for counts in counter.counts]
    return float(sum((2.0 * share * (1.0 - share)).sum() for share in shares))
