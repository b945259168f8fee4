"""Stability selection: frequency of each edge over random subsamples."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils import check_random_state

from jointglasso._display import ReprMixin
from jointglasso._typing import FloatArray
from jointglasso.data.checks import InputError, check_count, check_positive, check_switch, known_arguments
from jointglasso.data.prepare import Preparation
from jointglasso.data.samples import Samples
from jointglasso.engine import SolveOptions, solve, solve_with
from jointglasso.engine.executors import TaskBatch, TaskProgress
from jointglasso.errors import argument
from jointglasso.selection.em import prepared
from jointglasso.selection.resampling import (
    Part,
    SelectionData,
    complement,
    draw,
    edges_of,
    read_data,
)
from jointglasso.selection.solves import (
    ProgressCallback,
    Tracker,
    WorkerPool,
    quiet_solves,
    warn_not_converged,
)


@dataclass(frozen=True, repr=False)
class EdgeStability(ReprMixin):
    """Selection frequencies of the edges over subsamples.

    Attributes
    ----------
    frequencies : list of K scipy.sparse.csc_array
        Symmetric (p, p): fraction of the subsamples in which the pair is an edge of the class.
    class_names, variable_names : tuple of str
        As in the data.
    n_subsamples : int
        Subsamples solved.
    mean_edges : array (K,)
        Mean number of edges of a subsample's network, the q of the error bound.
    n_failed : int
        Solves that stopped before their tolerance.
    fraction : float
        Fraction of the samples of a class in a subsample.
    complementary_pairs : bool
        Whether subsamples come in pairs without a common sample.

    Examples
    --------
    >>> stability = jgl.edge_stability(X, y, lambda1=0.3, lambda2=0.1, n_subsamples=4, random_state=0)
    >>> print(stability)
    Selection frequencies of the edges in 4 subsamples of 50 % of the samples, by class:
    <BLANKLINE>
    class  mean edges  >= 50 %  >= 75 %  >= 90 %
      ill        1.25        1        1        1
     well        1.75        2        1        1
    """

    frequencies: list[Any]
    class_names: tuple[str, ...]
    variable_names: tuple[str, ...]
    n_subsamples: int
    mean_edges: FloatArray
    n_failed: int
    fraction: float
    complementary_pairs: bool

    def stable(self, threshold: float = 0.75) -> list[Any]:
        """Edges with a selection frequency of at least `threshold`: K boolean csc_array."""
        return [sparse.csc_array(matrix >= check_positive("threshold", threshold)) for matrix in self.frequencies]

    def _parts(self) -> list[Any]:
        import pandas as pd

        upper = [sparse.triu(matrix, 1).data for matrix in self.frequencies]
        table: dict[str, Any] = {"class": list(self.class_names), "mean edges": self.mean_edges}
        for share in (50, 75, 90):
            table[f">= {share} %"] = [int((frequency >= share / 100.0).sum()) for frequency in upper]
        return [
            f"Selection frequencies of the edges in {self.n_subsamples} subsamples of {100.0 * self.fraction:g} % of "
            "the samples, by class:",
            pd.DataFrame(table),
        ]

    def error_bound(self, threshold: float = 0.75) -> FloatArray:
        """Bound (K,) on the expected number of false edges among those with a frequency of at least `threshold`.

        It is ``q^2 / ((2 threshold - 1) p (p - 1) / 2)`` of Meinshausen and Bühlmann (2010), for subsamples of half the
        samples. It holds if the selection of false edges is exchangeable and not worse than random guessing. With
        complementary pairs (Shah and Samworth, 2013) the same number bounds, without these assumptions, the selected
        edges of low selection probability (below the average q / P).
        """
        if not 0.5 < check_positive("threshold", threshold) <= 1.0:
            raise InputError(
                f"threshold={threshold:g} must be above 0.5 and at most 1 for the bound to exist.", "threshold"
            )
        if self.fraction > 0.5:
            raise InputError(
                f"The bound holds for subsamples of half the samples, not of a share {self.fraction:g}.", "fraction"
            )
        p = len(self.variable_names)
        bound: FloatArray = self.mean_edges**2 / ((2.0 * threshold - 1.0) * max(1, p * (p - 1) // 2))
        return bound


@known_arguments(solve)
def edge_stability(
    X: Any,
    y: Any = None,
    *,
    lambda1: float,
    lambda2: float,
    n_subsamples: int = 100,
    fraction: float = 0.5,
    complementary_pairs: bool = True,
    random_state: Any = None,
    n_jobs: int | None = None,
    callback: ProgressCallback | None = None,
    executor: Any = None,
    scale: str = "correlation",
    assume_centered: bool = False,
    association: str = "pearson",
    missing: str = "refuse",
    constant: str = "refuse",
    variables: str = "same",
    covariates: Any = None,
    weights: Any = "sqrt_sample_size",
    penalize_diagonal: bool = False,
    **options: Any,
) -> EdgeStability:
    """Fraction of random subsamples in which each edge is selected.

    Parameters
    ----------
    X, y
        Samples and labels, as in `select`.
    lambda1, lambda2 : float
        Penalties of every solve.
    n_subsamples : int, default 100
        Number of subsamples; rounded up to an even number for complementary pairs.
    fraction : float, default 0.5
        Fraction of the samples of each class in a subsample, two samples at least.
    complementary_pairs : bool, default True
        Draw subsamples in pairs without a common sample; needs ``fraction <= 0.5``, and four samples in every class.
    random_state, n_jobs, callback, executor, scale, assume_centered, association, missing, constant, variables
        As in `select`.
    covariates : table with n rows, or dict of tables by class, optional
        Regressed out of all samples within each class before they are divided, as in `select`.
    weights, penalize_diagonal, **options
        As in `select`.

    Returns
    -------
    EdgeStability
        Frequencies aligned with the classes, and the error bound of stability selection.

    Examples
    --------
    >>> stability = jgl.edge_stability(X, y, lambda1=0.3, lambda2=0.1, n_subsamples=4, random_state=0)
    >>> float(stability.frequencies[0][0, 1])  # found in every subsample of the first class
    1.0
    """
    preparation = Preparation(scale, assume_centered, association, missing, constant, variables).checked()
    data = read_data(X, y, preparation, covariates)
    parts = _parts(data, check_count("n_subsamples", n_subsamples), fraction, complementary_pairs, random_state)
    samples = data.require_samples("Edge stability")
    counts: list[Any] = [0] * samples.n_classes
    settings = SolveOptions.of({**options, "weights": weights, "penalize_diagonal": penalize_diagonal})
    context = samples, data.preparation.for_resamples(), (lambda1, lambda2), settings
    workers, tracker = WorkerPool.of(n_jobs, executor, settings.max_memory), Tracker(callback, len(parts))

    def add(_: int, result: tuple[list[Any], bool]) -> bool:
        edges, is_converged = result
        counts[:] = [total + matrix for total, matrix in zip(counts, edges, strict=True)]
        tracker.advance("subsamples")
        return is_converged

    with quiet_solves():
        converged = workers.do(TaskBatch(_edges_of_part, parts, context, finish=add))
    warn_not_converged(converged.count(False), len(parts), "edge stability")
    upper = [count / len(parts) for count in counts]
    return EdgeStability(
        frequencies=[sparse.csc_array(frequency + frequency.T) for frequency in upper],
        class_names=samples.class_names,
        variable_names=samples.variable_names,
        n_subsamples=len(parts),
        mean_edges=np.array([float(frequency.sum()) for frequency in upper]),
        n_failed=converged.count(False),
        fraction=float(fraction),
        complementary_pairs=complementary_pairs,
    )


def _edges_of_part(
    part: Part, context: tuple[Samples, Preparation, tuple[float, float], SolveOptions], progress: TaskProgress
) -> tuple[list[Any], bool]:
    """Adjacency matrices (K) of one subsample, and whether its solve converged."""
    samples, preparation, lambdas, options = context
    solution = solve_with(prepared(preparation, samples.take(part)).source, *lambdas, options)
    return [edges_of(Theta) for Theta in solution.precision], solution.status.converged


def _parts(
    data: SelectionData, n_subsamples: int, fraction: float, complementary_pairs: bool, random_state: Any
) -> list[Part]:
    samples = data.require_samples("Edge stability")
    if not check_positive("fraction", fraction) < 1.0:
        raise InputError(f"fraction={fraction:g} must be below 1: subsamples would all be alike.", "fraction")
    rng = check_random_state(random_state)
    take = [max(2, int(fraction * size)) for size in samples.sizes]
    if not check_switch("complementary_pairs", complementary_pairs):
        return [draw(samples.sizes, take, rng) for _ in range(n_subsamples)]
    if fraction > 0.5:
        raise InputError(
            f"fraction={fraction:g} leaves no complementary pairs: take at most 0.5, or switch them off.", "fraction"
        )
    small = [name for name, size in zip(samples.class_names, samples.sizes, strict=True) if size < 4]
    if small:
        raise InputError(
            f"Class {small[0]!r} has fewer than 4 samples, too few for two subsamples without a common one: set "
            f"{argument('complementary_pairs', False)}.",
            "complementary_pairs",
            class_name=small[0],
        )
    parts = []
    for _ in range((n_subsamples + 1) // 2):
        first = draw(samples.sizes, take, rng)
        rest = complement(first, samples.sizes)
        second = [members[part] for members, part in zip(rest, draw([len(r) for r in rest], take, rng), strict=True)]
        parts += [first, second]
    return parts
