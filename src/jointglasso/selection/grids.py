"""Grids of penalties: logarithmic from `lambda_max` down to the noise level, for several ratios of lambda2 to lambda1.

A grid has one *column* for each ratio ``lambda2 / lambda1``. A column starts at its `lambda_max`, the smallest penalty
without an edge in any class (exact), and decreases on a logarithmic scale. s = lambda1 + lambda2 is the threshold of an
edge present in a single class; omega = lambda2 / s measures the coupling of the classes. Alternative coordinates, of
Danaher, Wang and Witten: *strength* ``lambda1 + lambda2 / sqrt(2)`` and *similarity*, the fraction of
``lambda2 / sqrt(2)`` in it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from jointglasso._display import ReprMixin
from jointglasso._typing import FloatArray, IntArray
from jointglasso.data import CovarianceSource, as_source
from jointglasso.data.checks import (
    InputError,
    InputTypeError,
    check_count,
    check_nonnegative,
    check_positive,
    check_weights,
)
from jointglasso.errors import argument
from jointglasso.problem import ProblemOptions
from jointglasso.screening.curve import largest_penalties

#: omega = lambda2 / (lambda1 + lambda2) of the columns: 0 decouples the classes, 1 gives them one common support.
OMEGAS = (0.0, 0.1, 0.25, 0.5, 0.75, 1.0)

#: The same as ratios lambda2 / lambda1.
RATIOS = (0.0, 1.0 / 9.0, 1.0 / 3.0, 1.0, 3.0, np.inf)

#: The default grid ends at this multiple of sqrt(log p / n), a value that a large fraction of the sample correlations
#: of independent variables exceeds.
_NOISE_MULTIPLE = 0.3

#: Smallest penalty as a fraction of the largest where sample sizes are unknown.
_MIN_RATIO = 0.05

#: The largest penalties are raised by this factor, so that rounding cannot leave an edge at them.
_ROUNDING = 1.0 + 1e-9


def strength(lambda1: Any, lambda2: Any) -> Any:
    """``lambda1 + lambda2 / sqrt(2)``: of points with tied scores that of smallest strength is taken."""
    return lambda1 + lambda2 / np.sqrt(2.0)


@dataclass(frozen=True, repr=False)
class LambdaGrid(ReprMixin):
    """Pairs (lambda1, lambda2) in columns of decreasing penalties.

    Attributes
    ----------
    lambda1, lambda2 : array (m,)
        Penalties of the points.
    column : array (m,)
        Column of each point; within a column penalties decrease, so that each point is a warm start for the next.

    Examples
    --------
    >>> import jointglasso as jgl
    >>> grid = jgl.lambda_grid([[[1.0, 0.5], [0.5, 1.0]]], n_lambdas=3, ratios=[0.0], min_ratio=0.1)
    >>> grid.lambda1.round(3).tolist(), grid.n_columns
    ([0.5, 0.158, 0.05], 1)
    """

    lambda1: FloatArray
    lambda2: FloatArray
    column: IntArray

    @property
    def strength(self) -> FloatArray:
        """``lambda1 + lambda2 / sqrt(2)``."""
        return strength(self.lambda1, self.lambda2)

    @property
    def similarity(self) -> FloatArray:
        """``lambda2 / sqrt(2)`` as a fraction of the strength: 0 for separate classes, 1 for lambda1 = 0."""
        part = self.lambda2 / np.sqrt(2.0)
        total = self.strength
        return np.divide(part, total, out=np.zeros_like(part), where=total > 0)

    @property
    def n_columns(self) -> int:
        """Number of columns."""
        return int(self.column.max()) + 1

    def points_of(self, column: int) -> IntArray:
        """Indices of the points of a column, from strong to weak penalties."""
        return np.flatnonzero(self.column == column)

    def _parts(self) -> list[Any]:
        columns = [self.points_of(column) for column in range(self.n_columns)]
        first, last = [points[0] for points in columns], [points[-1] for points in columns]
        table = {
            "points": [len(points) for points in columns],
            "similarity": self.similarity[first],
            "from lambda1": self.lambda1[first],
            "lambda2": self.lambda2[first],
            "to lambda1": self.lambda1[last],
            "lambda2 ": self.lambda2[last],
        }
        return [f"{len(self)} points in {self.n_columns} columns of equal lambda2 / lambda1", table]

    def __len__(self) -> int:
        return len(self.lambda1)

    def __iter__(self) -> Iterator[tuple[float, float]]:
        return zip(self.lambda1.tolist(), self.lambda2.tolist(), strict=True)

    def __getitem__(self, index: int) -> tuple[float, float]:
        return float(self.lambda1[index]), float(self.lambda2[index])

    @classmethod
    def from_points(cls, points: Any) -> LambdaGrid:
        """Arrange pairs (lambda1, lambda2) into columns of equal ratio, each from strong to weak.

        Points whose ratio no other point has make up columns of one point each.
        """
        try:
            pairs = [(first, second) for first, second in points]
        except (TypeError, ValueError):
            raise InputTypeError("grid must be a LambdaGrid or a list of pairs (lambda1, lambda2).", "grid") from None
        if not pairs:
            raise InputError("grid holds no point: give at least one pair (lambda1, lambda2).", "grid")
        lambda1 = np.array([check_nonnegative("lambda1", first) for first, _ in pairs])
        lambda2 = np.array([check_nonnegative("lambda2", second) for _, second in pairs])
        # Angles identify ratios without division by lambda1 = 0; rounded, since grids are often computed.
        _, column = np.unique(np.arctan2(lambda2, lambda1).round(9), return_inverse=True)
        order = np.lexsort((-(lambda1 + lambda2), column))
        return cls(lambda1[order], lambda2[order], column[order])


def as_grid(grid: Any) -> LambdaGrid:
    """Return a LambdaGrid unchanged, or convert a list of points."""
    return grid if isinstance(grid, LambdaGrid) else LambdaGrid.from_points(grid)


def lambda_grid(
    S: Any,
    *,
    n_lambdas: int = 10,
    ratios: Sequence[float] | None = None,
    min_ratio: float | None = None,
    weights: Any = None,
    pair_weights: Any = None,
    coupling_weights: Any = None,
    penalty: str = "group",
    class_graph: Any = None,
) -> LambdaGrid:
    """Grid of penalties fitted to the data.

    Parameters
    ----------
    S : CovarianceSource, or what `jointglasso.solve` takes
        Covariances; read in one pass, tile by tile.
    n_lambdas : int, default 10
        Points in each column.
    ratios : sequence of float, optional
        ``lambda2 / lambda1`` of each column, 0 for separate graphical lassos, ``inf`` for lambda1 = 0, which only the
        group penalty can do without. With a single class the two penalties are one and only the first ratio is used.
    min_ratio : float, optional
        Smallest penalty of a column as a fraction of its largest. By default columns end at the noise level,
        ``lambda1 + lambda2 = 0.3 sqrt(log p / n)``, or at 0.05 where sample sizes are unknown.
    weights, pair_weights, coupling_weights, penalty, class_graph
        Of the solve, as in `jointglasso.solve`. Unpenalised pairs are ignored.

    Returns
    -------
    LambdaGrid
        Columns in the order of `ratios`. The first point of each is the weakest penalty without any edge (up to a
        factor of 1 + 1e-9 against rounding).

    Examples
    --------
    >>> import jointglasso as jgl
    >>> grid = jgl.lambda_grid([[[1.0, 0.5], [0.5, 1.0]]], n_lambdas=3, ratios=[0.0, 1.0], min_ratio=0.1)
    >>> [(round(lambda1, 3), lambda2) for lambda1, lambda2 in grid]
    [(0.5, 0.0), (0.158, 0.0), (0.05, 0.0)]
    """
    problem = ProblemOptions(
        penalty, class_graph, weights, pair_weights=pair_weights, coupling_weights=coupling_weights
    )
    return grid_for(as_source(S), problem, n_lambdas, ratios, min_ratio)


def grid_for(
    source: CovarianceSource,
    problem: ProblemOptions,
    n_lambdas: int | None = None,
    ratios: Sequence[float] | None = None,
    min_ratio: float | None = None,
) -> LambdaGrid:
    """`lambda_grid` with the options of the problem as one object."""
    n_lambdas = check_count("n_lambdas", 10 if n_lambdas is None else n_lambdas)
    if min_ratio is not None and not check_positive("min_ratio", min_ratio) < 1.0:
        raise InputError(f"{argument('min_ratio', min_ratio)} must be below 1.", "min_ratio")
    if ratios is None:  # only the group penalty makes zeros without lambda1
        ratios = RATIOS if problem.penalty == "group" else RATIOS[:-1]
    directions = _directions(ratios if source.n_classes > 1 else list(ratios)[:1])
    largest = largest_penalties(source, directions, problem) * _ROUNDING
    # With all covariances zero, graphs are empty at every penalty and any positive value serves.
    largest = np.where(largest > 0, largest, 1.0)
    if min_ratio is None:
        noise = noise_level(source, problem.weights)
        smallest = _MIN_RATIO * largest if noise is None else np.minimum(noise, 0.5 * largest)
    else:
        smallest = min_ratio * largest
    scaled = np.geomspace(largest, smallest, n_lambdas, axis=1) if n_lambdas > 1 else largest[:, None]
    return LambdaGrid(
        (scaled * directions[:, :1]).ravel(),
        (scaled * directions[:, 1:]).ravel(),
        np.repeat(np.arange(len(directions)), n_lambdas),
    )


def noise_level(source: CovarianceSource, weights: Any) -> float | None:
    """Smallest lambda1 + lambda2 of the default grid, on the scale of the source; None without sample sizes."""
    if source.sample_sizes is None:
        return None
    w = check_weights(weights, source.class_names, source.sample_sizes)
    spread = [np.median(source.diagonal(k)) for k in range(source.n_classes)]
    deviation = w * np.array(spread) / np.sqrt(np.asarray(source.sample_sizes, dtype=float))
    return float(_NOISE_MULTIPLE * np.sqrt(np.log(max(source.n_variables, 2))) * deviation.min())


def _directions(ratios: Sequence[float]) -> FloatArray:
    """(len(ratios), 2): (lambda1, lambda2) with sum 1 for each ratio."""
    values = np.array([float(ratio) for ratio in ratios])
    if not len(values) or np.isnan(values).any() or (values < 0).any():
        raise InputError(
            f"{argument('ratios', list(ratios))} must be at least one number lambda2 / lambda1 >= 0.", "ratios"
        )
    finite = np.where(np.isinf(values), 0.0, values)
    first = np.where(np.isinf(values), 0.0, 1.0 / (1.0 + finite))
    return np.column_stack([first, 1.0 - first])
