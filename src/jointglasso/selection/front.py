"""`select`: penalties chosen by a criterion, with everything needed to judge the choice."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from jointglasso._typing import BoolArray, FloatArray
from jointglasso.covariance import CovarianceSource
from jointglasso.covariance.prepare import Preparation
from jointglasso.engine.executors import Tell
from jointglasso.selection.criteria import CRITERIA, check_gamma, price_of_solution, sample_sizes
from jointglasso.selection.cross_validation import cross_validate
from jointglasso.selection.grids import LambdaGrid, as_grid
from jointglasso.selection.intake import SelectionData, read_data
from jointglasso.selection.likelihood import deviances
from jointglasso.selection.paths import Crew, path, quiet_solves, solve_options, warn_not_converged
from jointglasso.selection.progress import ProgressCallback, Tracker
from jointglasso.selection.relaxed import relaxed_deviances, with_refit
from jointglasso.selection.resampling import make_folds
from jointglasso.selection.result import TIE, SelectionResult
from jointglasso.selection.stars import measure_instability
from jointglasso.solution import Solution
from jointglasso.validation import check_choice, check_count, check_positive, check_switch


def select(
    X: Any,
    y: Any = None,
    *,
    criterion: str = "ebic",
    grid: Any = None,
    gamma: float = 0.5,
    relaxed: bool = True,
    patience: int | None = 2,
    cv: Any = 5,
    beta: float = 0.05,
    n_subsamples: int = 20,
    random_state: Any = None,
    n_jobs: int | None = None,
    callback: ProgressCallback | None = None,
    executor: Any = None,
    scale: str = "correlation",
    assume_centered: bool = False,
    association: str = "pearson",
    missing: str = "refuse",
    constant: str = "refuse",
    weights: Any = None,
    **options: Any,
) -> SelectionResult:
    """Choose lambda1 and lambda2 by a criterion, on warm-started paths over a grid.

    Parameters
    ----------
    X : table (n, p), dict of tables by class, ClassSamples or CovarianceSource
        Samples in rows, as a NumPy array or a pandas, polars or pyarrow table. Covariances alone will do for "aic",
        "bic" and "ebic" if they know their sample sizes.
    y : sequence of n labels, optional
        Class of each row of a table; one class without it.
    criterion : {"ebic", "bic", "aic", "cv", "stars"}
        Information criteria (`jointglasso.selection.criteria`), cross-validated likelihood, or StARS.
    grid : LambdaGrid or list of pairs (lambda1, lambda2), optional
        Points to try; `lambda_grid` of the data by default.
    gamma : float, default 0.5
        Parameter of the extended BIC, 0 to 1.
    relaxed : bool, default True
        Information criteria take the likelihood at its maximum on the support (`refit`), as they are defined; where it
        has none the score is infinite. Components of more than 500 variables are not refitted but only scaled, which
        leaves their score too high. With False the criteria take the penalised matrices, as Danaher, Wang and Witten
        do: quicker, but the shrinkage counts against the edges, with a penalised diagonal often against all of them.
    patience : int or None, default 2
        Information criteria leave a column after so many points in a row without improvement on its best; the weaker
        penalties not tried have NaN in the table. None tries all.
    cv : int, scikit-learn splitter or list of splits, default 5
        Folds of the cross-validation. Numbers and plain `KFold` are dealt out within each class.
    beta : float, default 0.05
        Largest instability that StARS accepts.
    n_subsamples : int, default 20
        Subsamples of StARS.
    random_state : int, RandomState or None
        Seed of folds and subsamples.
    n_jobs : int, optional
        Columns, folds or subsamples worked on at the same time, on threads; -1 for as many as there are cores.
    callback : callable, optional
        Called with a `SelectionProgress` after each solve.
    executor : None, "threads" or object with ``submit``, optional
        Who works on the columns, and on the columns of every fold or subsample: threads by default; else any executor
        of `concurrent.futures`, such as a ProcessPoolExecutor. The result is the same.
    scale, assume_centered, association, missing, constant
        How covariances are computed from samples, see `jointglasso.covariance.prepare.Preparation`. In folds and
        subsamples, variables that happen to be constant are isolated, whatever `constant` says.
    weights : None, "equal", "sample_size", array (K,) or dict, optional
        Class weights of the solves.
    **options
        Further options of `jointglasso.solve`, such as ``tol``, ``penalize_diagonal``, ``screening``.

    Returns
    -------
    SelectionResult
        The chosen penalties, the solution there, the table of all points, and `explain`.

    Warns
    -----
    ConvergenceWarning
        Once, with their number, if solves stopped before their tolerance.
    """
    check_criterion(criterion)
    preparation = Preparation(scale, assume_centered, association, missing, constant).checked()
    return select_from(
        read_data(X, y, preparation),
        criterion=criterion,
        grid=grid,
        gamma=gamma,
        relaxed=relaxed,
        patience=patience,
        cv=cv,
        beta=beta,
        n_subsamples=n_subsamples,
        random_state=random_state,
        n_jobs=n_jobs,
        callback=callback,
        executor=executor,
        weights=weights,
        **options,
    )


def check_criterion(criterion: Any) -> str:
    """Return the name of a criterion if it is known."""
    return check_choice("criterion", criterion, (*CRITERIA, "cv", "stars"))


def select_from(
    data: SelectionData,
    *,
    criterion: str,
    grid: Any,
    gamma: float,
    relaxed: bool,
    patience: int | None,
    cv: Any,
    beta: float,
    n_subsamples: int,
    random_state: Any,
    n_jobs: int | None,
    callback: ProgressCallback | None,
    weights: Any,
    executor: Any = None,
    **options: Any,
) -> SelectionResult:
    """`select` from data that were read before."""
    points = as_grid(grid, data.source, weights, options.get("pair_weights"))
    settings = {**solve_options(options), "weights": weights}
    crew = Crew.of(n_jobs, executor)
    if check_criterion(criterion) in CRITERIA:
        score = _Information(data, criterion, check_gamma(gamma), check_switch("relaxed", relaxed))
        patience = None if patience is None else check_count("patience", patience)
        with quiet_solves():
            result = _by_information(data, points, score, patience, crew, callback, settings)
    elif criterion == "cv":
        with quiet_solves():
            result = _by_cross_validation(data, points, cv, random_state, crew, callback, settings)
    else:
        plan = check_positive("beta", beta), check_count("n_subsamples", n_subsamples, 2)
        with quiet_solves():
            result = _by_stars(data, points, *plan, random_state, crew, callback, settings)
    warn_not_converged(result.n_failed, result.n_solves, "selection")
    return replace(result, solution=with_refit(data.source, result.solution))


class _Information:
    """An information criterion as a score of solutions."""

    def __init__(self, data: SelectionData, criterion: str, gamma: float, relaxed: bool) -> None:
        self.criterion = criterion
        self.name = f"extended BIC (gamma={gamma:g})" if criterion == "ebic" else criterion.upper()
        self.name += "" if relaxed else " of the penalised matrices"
        self._source = data.source
        self._relaxed = relaxed
        self._sizes = sample_sizes(data.source)
        self._gamma = gamma

    def __call__(self, _: int, solution: Solution) -> float:
        if self._relaxed:
            lost = relaxed_deviances(self._source, solution, self._sizes)
        else:
            lost = deviances(self._source, solution.precision)
        if lost is None:
            return np.inf
        price = price_of_solution(self.criterion, solution, self._sizes, self._source.n_variables, self._gamma)
        return float(self._sizes @ lost) + price


def _by_information(
    data: SelectionData,
    grid: LambdaGrid,
    score: _Information,
    patience: int | None,
    crew: Crew,
    callback: ProgressCallback | None,
    options: dict[str, Any],
) -> SelectionResult:
    whole = _whole_grid(data, grid, score, Tracker(callback, len(grid)), crew, options, patience)
    if not np.isfinite(whole.scores).any():
        raise ValueError(
            "The likelihood has no maximum on any support of the grid: try stronger penalties, or set relaxed=False."
        )
    # Columns often find the same graph, and a criterion of graphs cannot tell those apart: take the least shrunken one.
    tied = [point for point in whole.kept if whole.scores[point] <= np.nanmin(whole.scores) + TIE]
    best = min(tied, key=lambda point: (grid.strength[point], point))
    return _result(data, grid, whole, best, score.criterion, score.name, whole.scores, {})


def _by_cross_validation(
    data: SelectionData,
    grid: LambdaGrid,
    cv: Any,
    random_state: Any,
    crew: Crew,
    callback: ProgressCallback | None,
    options: dict[str, Any],
) -> SelectionResult:
    folds = make_folds(data, cv, random_state)
    tracker = Tracker(callback, len(grid) * (len(folds) + 1))
    found = cross_validate(data, grid, folds, tracker, crew=crew, options=options)
    best = int(np.argmin(found.score))
    whole = _whole_grid(data, grid, _Only(best), tracker, crew, options)
    extra = {"standard_error": found.standard_error}
    extra |= {f"fold{n + 1}": found.losses[:, n] / max(found.held_out[n], 1.0) for n in range(len(folds))}
    name = f"held-out loss per sample, {len(folds)} folds"
    return _result(data, grid, whole, best, "cv", name, found.score, extra, found.n_failed, found.losses.size)


def _by_stars(
    data: SelectionData,
    grid: LambdaGrid,
    beta: float,
    n_subsamples: int,
    random_state: Any,
    crew: Crew,
    callback: ProgressCallback | None,
    options: dict[str, Any],
) -> SelectionResult:
    tracker = Tracker(callback, len(grid) * (n_subsamples + 1))
    found = measure_instability(
        data, grid, tracker, n_subsamples=n_subsamples, random_state=random_state, crew=crew, options=options
    )
    best = found.choose(grid, beta)
    whole = _whole_grid(data, grid, _Only(best), tracker, crew, options)
    extra = {"measured_instability": found.instability, "subsample_edges": found.mean_edges}
    name = f"instability over {n_subsamples} subsamples, at most {beta:g}"
    n_solves = n_subsamples * len(grid)
    result = _result(data, grid, whole, best, "stars", name, found.monotone, extra, found.n_failed, n_solves)
    return replace(result, limit=beta)


@dataclass(frozen=True)
class _Whole:
    """The grid solved on all samples."""

    scores: FloatArray
    edges: FloatArray
    converged: BoolArray
    gaps: FloatArray
    kept: dict[int, Solution]
    """Solution with the best score of each column, by its point."""

    @property
    def tried(self) -> BoolArray:
        """Points that were solved."""
        return ~np.isnan(self.gaps)


@dataclass(frozen=True)
class _Only:
    """Score by which the solution of one point is kept."""

    best: int

    def __call__(self, point: int, _: Solution) -> float:
        return 0.0 if point == self.best else 1.0


@dataclass(frozen=True)
class _Columns:
    """What the columns of a grid have in common."""

    source: CovarianceSource
    grid: LambdaGrid
    score: Callable[[int, Solution], float]
    options: dict[str, Any]
    patience: int | None


@dataclass(frozen=True)
class _Point:
    """What is remembered of a solved point."""

    point: int
    score: float
    edges: tuple[int, ...]
    converged: bool
    gap: float


def _solve_column(column: int, shared: _Columns, tell: Tell) -> tuple[list[_Point], int, Solution]:
    """Solve the points of a column until its score gets worse; the best one, with its solution."""
    points, waited, solved = shared.grid.points_of(column), 0, list[_Point]()
    best, kept = np.inf, list[tuple[int, Solution]]()
    for point, solution in zip(
        points, path(shared.source, [shared.grid[i] for i in points], **shared.options), strict=True
    ):
        value = shared.score(int(point), solution)
        gap = solution.certificate.relative_gap
        solved.append(_Point(int(point), value, tuple(solution.n_edges), solution.status.converged, gap))
        if len(solved) == 1 or value <= best + TIE:  # the same graph again is less shrunken
            best, waited, kept = min(value, best), 0, [(int(point), solution)]
        else:
            waited += 1
        enough = shared.patience is not None and waited >= shared.patience
        left = int((points > point).sum()) if enough else 0
        tell(f"all samples, column {column + 1} of {shared.grid.n_columns}", left)
        if enough:
            break
    return solved, *kept[0]


def _whole_grid(
    data: SelectionData,
    grid: LambdaGrid,
    score: Callable[[int, Solution], float],
    tracker: Tracker,
    crew: Crew,
    options: dict[str, Any],
    patience: int | None = None,
) -> _Whole:
    """Solve every column on all samples; of each column only the best solution stays in memory."""
    m, n_classes = len(grid), data.source.n_classes
    whole = _Whole(np.full(m, np.nan), np.zeros((m, n_classes)), np.ones(m, dtype=bool), np.full(m, np.nan), {})
    shared = _Columns(data.source, grid, score, options, patience)
    for solved, best, solution in crew.map(_solve_column, range(grid.n_columns), shared, tracker):
        whole.kept[best] = solution
        for found in solved:
            whole.scores[found.point], whole.edges[found.point] = found.score, found.edges
            whole.converged[found.point], whole.gaps[found.point] = found.converged, found.gap
    return whole


def _result(
    data: SelectionData,
    grid: LambdaGrid,
    whole: _Whole,
    best: int,
    criterion: str,
    name: str,
    scores: FloatArray,
    extra: dict[str, FloatArray],
    n_failed: int = 0,
    n_solves: int = 0,
) -> SelectionResult:
    by_class = {f"edges[{c}]": whole.edges[:, k] for k, c in enumerate(data.source.class_names)}
    return SelectionResult(
        criterion=criterion,
        criterion_name=name,
        grid=grid,
        best=best,
        solution=whole.kept[best],
        records={
            "lambda1": grid.lambda1,
            "lambda2": grid.lambda2,
            "strength": grid.strength,
            "similarity": grid.similarity,
            "column": grid.column,
            "score": scores,
            "edges": whole.edges.sum(axis=1).astype(int),
            "tried": whole.tried,
            "converged": whole.converged,
            "relative_gap": whole.gaps,
            **{label: values.astype(int) for label, values in by_class.items()},
            **extra,
        },
        n_failed=n_failed + int((~whole.converged).sum()),
        n_solves=n_solves + int(whole.tried.sum()),
    )
