"""`select`: choice of lambda1 and lambda2 by a criterion."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from jointglasso._typing import FloatArray
from jointglasso._wording import listed
from jointglasso.data import CovarianceSource
from jointglasso.data.checks import (
    InputError,
    check_choice,
    check_count,
    check_positive,
    check_switch,
    check_weights,
    known_arguments,
)
from jointglasso.data.prepare import Preparation
from jointglasso.engine import SolveOptions, solve
from jointglasso.errors import argument, warn_caller
from jointglasso.penalties.choice import make_penalty
from jointglasso.screening.curve import largest_penalties, single_class_thresholds
from jointglasso.selection.auto_penalty import model_choice
from jointglasso.selection.budget import SCANNED_ONCE, Budget, describe_left_out, scanned_once
from jointglasso.selection.criteria import ANTI_CONSERVATIVE, CRITERIA, GAMMA, check_gamma, single_edge_rate
from jointglasso.selection.em import prepared
from jointglasso.selection.evaluation import (
    CrossValidated,
    Evaluation,
    Evaluator,
    Information,
    Instability,
    choose,
    choose_relaxation,
    monotone,
    refuse_duplicates,
    solve_point,
)
from jointglasso.selection.grids import OMEGAS, LambdaGrid, as_grid, grid_for, noise_level
from jointglasso.selection.relaxed import with_refit
from jointglasso.selection.resampling import SelectionData, complement, draw, make_folds, read_data
from jointglasso.selection.result import SelectionResult
from jointglasso.selection.search import (
    CoarseToFineSearch,
    GridSearch,
    SearchResult,
    certify_choice,
    columns_of,
    without_improvement,
)
from jointglasso.selection.solves import (
    ProgressCallback,
    Tracker,
    WorkerPool,
    quiet_solves,
    warn_not_converged,
)

#: Default class weights where samples are given: the sampling noise is then equal in all classes.
WEIGHTS = "sqrt_sample_size"

#: Typical number of points of a search over all columns, for the progress.
N_POINTS = 40

CHOSEN = "select chooses the penalties; to try certain ones give grid=[(lambda1, lambda2)], or call solve"


class SelectionWarning(UserWarning):
    """Warns about a choice that needs a check: on the border of the grid, or by a criterion prone to false edges."""


@known_arguments(solve, lambda1=CHOSEN, lambda2=CHOSEN)
def select(
    X: Any,
    y: Any = None,
    *,
    covariates: Any = None,
    sample_weight: Any = None,
    scale: str = "correlation",
    assume_centered: bool = False,
    association: str = "pearson",
    missing: str = "refuse",
    constant: str = "refuse",
    variables: str = "same",
    weights: Any = WEIGHTS,
    penalize_diagonal: bool = False,
    criterion: str = "jbic",
    grid: Any = None,
    gamma: float | None = None,
    relaxed: bool = True,
    patience: int | None = 2,
    cv: Any = 5,
    beta: float = 0.05,
    n_subsamples: int = 20,
    random_state: Any = None,
    halves: bool = False,
    n_jobs: int | None = None,
    executor: Any = None,
    max_seconds: float | None = 120.0,
    callback: ProgressCallback | None = None,
    on_interrupt: str = "raise",
    **options: Any,
) -> SelectionResult:
    """Choose lambda1 and lambda2 by a criterion, and estimate the networks there.

    Without a grid a coarse-to-fine search is used: columns of equal ``lambda2 / lambda1`` from the smallest penalty
    without edges down to the noise level, then bisection between the best point and its neighbours until these have
    about as many edges.

    The arguments come in groups: *data* (X, y, covariates, sample_weight), *preparation* (scale, assume_centered,
    association, missing, constant, variables), *penalties* (weights, penalize_diagonal, and those of `solve`),
    *search* (criterion, grid, gamma, relaxed, patience, cv, beta, n_subsamples, random_state, halves) and *computing*
    (n_jobs, executor, max_seconds, callback, on_interrupt).

    Parameters
    ----------
    X : table (n, p), dict of tables by class, Samples or CovarianceSource
        Samples in rows, as a NumPy array or a pandas, polars or pyarrow table. For the information criteria,
        covariances with their sample sizes are enough.
    y : sequence of n labels, optional
        Class of each row of a table; one class without it.
    covariates : table with n rows, or dict of tables by class, optional
        Age, batch and the like, regressed out of the samples within each class (of their normal scores for rank
        associations). Text and categorical columns are coded by indicators. The sample sizes n_k that enter criteria
        and weights are less the rank of the covariates.
    sample_weight : sequence of n numbers, or dict by class, optional
        Weight of each sample in the means and covariances of its class, such as ``0.97 ** age`` of daily returns. The
        sample sizes n_k are ``(sum w)^2 / sum w^2``. For Pearson's correlations of complete samples.
    scale, assume_centered, association, missing, constant, variables
        How covariances are computed from samples, as in `JointGraphicalLasso`; ``variables="intersection"`` takes those
        that all classes have. In folds and subsamples, variables that are constant by chance are isolated, regardless
        of `constant`.
    weights : "sqrt_sample_size", "equal", "sample_size", array (K,) or dict
        Class weights of the solves. By default ``sqrt(n_k / mean n)``, since the sampling noise of a class is
        proportional to ``n_k^-1/2``.
    penalize_diagonal : bool, default False
        Whether lambda1 applies to the diagonal too (the default of `jointglasso.solve`).
    criterion : {"jbic", "ebic", "bic", "aic", "cv", "stars"}
        Information criteria (`jointglasso.selection.criteria`; the joint extended BIC by default), cross-validated
        likelihood of the penalised estimate with the one-standard-error rule, or StARS. "aic" and "bic" choose noise,
        with a warning.
    grid : LambdaGrid or list of pairs (lambda1, lambda2), optional
        Points to try instead of the search; "stars" takes `lambda_grid` of the data by default.
    gamma : float, optional
        Parameter of the extended criteria, 0 to 1; 0.45 for "jbic" and 0.5 for "ebic" by default.
    relaxed : bool, default True
        Evaluate information criteria at the maximum likelihood on the support (`refit`), as they are defined; where no
        maximum exists the score is infinite. Components of more than 1,000 variables are scaled instead of refitted,
        which leaves their score too high. With False the criteria use the penalised matrices, as Danaher, Wang and
        Witten do: faster, but biased against edges by the shrinkage, strongly so with a penalised diagonal.
    patience : int or None, default 2
        Stop a column after this number of consecutive points without improvement; the remaining points of a given grid
        have NaN in the table. None evaluates the complete grid.
    cv : int, scikit-learn splitter or list of splits, default 5
        Folds of the cross-validation. Numbers and plain `KFold` are stratified by class.
    beta : float, default 0.05
        Largest instability that StARS accepts.
    n_subsamples : int, default 20
        Subsamples of StARS.
    random_state : int, RandomState or None
        Seed of folds and subsamples.
    halves : bool, default False
        Repeat the choice by an information criterion in two random halves of the samples, at the chosen ratio
        lambda2 / lambda1. `explain` calls the number of edges stable only if both are within 20 %.
    n_jobs : int, optional
        Columns, folds or subsamples worked on at the same time, on threads; -1 for as many as there are cores.
    executor : None, "threads" or object with ``submit``, optional
        Runs the columns and points: threads by default, or any executor of `concurrent.futures`, such as a
        ProcessPoolExecutor. The result does not depend on it.
    max_seconds : float or None, default 120
        With more than 1,000 variables, points whose solve would take longer than this (by `plan`), or would not fit
        into memory, are left out beforehand, and the choice is made among the others.
    callback : callable, optional
        Called with a `SelectionProgress` after each solve, and at the start of each stage.
    on_interrupt : {"raise", "return"}
        On Ctrl-C raise KeyboardInterrupt, or return the best of the points evaluated so far, marked as interrupted.
    **options
        Further options of `jointglasso.solve`, such as ``penalty_shape``, ``tol``, ``screening``, ``max_memory`` (a
        limit on all concurrent solves of a machine together) and ``checkpoint`` (a folder with one checkpoint per
        point: the same call after an interrupt reads the finished points from it). ``penalty="auto"`` selects with the
        group and with the fused penalty ("chain" for an ordered categorical `y`) and takes the one with the larger
        likelihood of held-out samples.
        ``latent=[0.4, 0.8]`` tries these penalties mu on latent variables, ``"auto"`` multiples of the noise, and none;
        with ``latent_rank=2`` the chosen networks have two latent variables in all, with ``[1, 1]`` one in each class.

    Returns
    -------
    SelectionResult
        The chosen penalties, the estimates there, the table of all points, and `explain`.

    Warns
    -----
    ConvergenceWarning
        Once, with their number, if solves stopped before their tolerance.
    SelectionWarning
        If the chosen point lies on the border of the evaluated points, or the criterion is anti-conservative.
    RefitWarning
        If the likelihood has no maximum on the chosen support, so that a ridge was needed.

    Examples
    --------
    >>> import numpy as np
    >>> import jointglasso as jgl
    >>> rng = np.random.default_rng(0)
    >>> X, y = rng.normal(size=(80, 4)), np.repeat(["ill", "well"], 40)
    >>> X[:, 1] += X[:, 0]
    >>> chosen = jgl.select(X, y)
    >>> chosen.solution.n_edges
    [1, 1]
    >>> chosen.precision[0].shape
    (4, 4)
    """
    preparation = Preparation(scale, assume_centered, association, missing, constant, variables).checked()
    solve = SolveOptions.of({**options, "weights": weights, "penalize_diagonal": penalize_diagonal})
    searching = criterion, grid, gamma, relaxed, patience, cv, beta, n_subsamples, random_state, halves
    settings = SelectionSettings(*searching, n_jobs, executor, max_seconds, callback, on_interrupt, solve)
    return select_from(read_data(X, y, preparation, covariates, sample_weight), settings.checked())


@dataclass(frozen=True)
class SelectionSettings:
    """Options of a selection, in the order of the arguments of `select`; `solve` holds those of the solves."""

    criterion: str = "jbic"
    grid: Any = None
    gamma: float | None = None
    relaxed: bool = True
    patience: int | None = 2
    cv: Any = 5
    beta: float = 0.05
    n_subsamples: int = 20
    random_state: Any = None
    halves: bool = False
    n_jobs: int | None = None
    executor: Any = None
    max_seconds: float | None = 120.0
    callback: ProgressCallback | None = None
    on_interrupt: str = "raise"
    solve: SolveOptions = field(default_factory=SolveOptions)

    def checked(self) -> SelectionSettings:
        """Return itself after validation of every option."""
        check_choice("criterion", self.criterion, (*CRITERIA, "cv", "stars"))
        check_choice("on_interrupt", self.on_interrupt, ("raise", "return"))
        if self.gamma is not None:
            check_gamma(self.gamma)
        check_switch("relaxed", self.relaxed)
        check_switch("halves", self.halves)
        check_positive("beta", self.beta)
        check_count("n_subsamples", self.n_subsamples, 2)
        if self.patience is not None:
            check_count("patience", self.patience)
        if self.max_seconds is not None:
            check_positive("max_seconds", self.max_seconds)
        return self


def select_from(data: SelectionData, settings: SelectionSettings) -> SelectionResult:
    """`select` for data that are already read and validated."""
    stages = Tracker(settings.callback, 0)
    if data.source.n_variables > SCANNED_ONCE:
        stages.advance("scanning the covariances", 0)
    choose_model = model_choice(settings.solve)
    if choose_model is not None:
        found = choose_model(data, settings, lambda options: _search(data, replace(settings, solve=options)))
        data, result = replace(data, notes=(*data.notes, found.sentence)), found.result
        settings = replace(settings, solve=found.options)
    else:
        result = _search(data, settings)
    blocked = result.strongest_without_maximum
    if blocked is not None and not any(result.solution.n_edges):
        with quiet_solves():
            refuse_duplicates(data.source, solve_point(data.source, *blocked, None, settings.solve))
    warn_not_converged(result.n_failed, result.n_solves, "selection")
    if settings.criterion in ANTI_CONSERVATIVE and settings.relaxed:
        warn_caller(
            f"{argument('criterion', settings.criterion)} at the maximum likelihood chooses hundreds of false edges "
            "on pure noise, because it does not pay for the search among all pairs: use 'jbic' or 'ebic'.",
            SelectionWarning,
        )
    if result.on_edge:
        warn_caller(result.edge_advice, SelectionWarning)
    notes = (*data.notes, *_remarks(data.source, result, settings))
    half_edges = _half_edges(data, result, settings) if settings.halves else ()
    stages.advance("held-out likelihood of the values", 0)
    with quiet_solves():
        relaxation, held_out = choose_relaxation(data, result.solution, settings.solve)
    stages.advance("estimating the values", 0)
    solution = with_refit(data.source, result.solution, relaxation)
    notes = (*notes, held_out) if held_out else notes
    return replace(result, solution=solution, notes=notes, half_edges=half_edges)


def _search(data: SelectionData, settings: SelectionSettings) -> SelectionResult:
    """The best point for a given penalty."""
    with quiet_solves(), scanned_once(data.source, settings.solve):
        return (_by_stars if settings.criterion == "stars" else _by_score)(data, settings)


def _half_edges(data: SelectionData, result: SelectionResult, settings: SelectionSettings) -> tuple[int, ...]:
    """Numbers of edges, over all classes, that two random halves of the samples choose; empty if they cannot."""
    if settings.criterion not in CRITERIA or data.samples is None or min(data.samples.sizes) < 8:
        return ()
    omega = result.lambda2 / (result.lambda1 + result.lambda2) if result.lambda1 + result.lambda2 > 0 else 0.0
    samples, rng = data.require_samples("halves=True"), check_random_state(settings.random_state)
    first = draw(samples.sizes, [n // 2 for n in samples.sizes], rng)
    counts = []
    for number, part in enumerate((first, complement(first, samples.sizes)), start=1):
        half_settings = replace(
            settings, grid=None, halves=False, callback=_renamed(settings.callback, f"half {number} of 2")
        )
        ready = prepared(data.preparation.for_resamples(), samples.take(part))
        half = SelectionData(ready.source, None, data.preparation)
        with quiet_solves():
            counts.append(sum(_by_score(half, half_settings, (omega,)).solution.n_edges))
    return tuple(counts)


def _renamed(callback: ProgressCallback | None, stage: str) -> ProgressCallback | None:
    """The callback with another name of the stage."""
    return None if callback is None else lambda progress: callback(replace(progress, stage=stage))


def _remarks(source: CovarianceSource, result: SelectionResult, settings: SelectionSettings) -> Iterator[str]:
    """Sentences about thresholds by class, classes without edges, and false edges on noise of this size."""
    w = check_weights(settings.solve.weights, source.class_names, source.sample_sizes)
    penalty = make_penalty(
        settings.solve.penalty, result.lambda1, result.lambda2, settings.solve.class_graph, source.class_names,
        source.sample_sizes,
    )  # fmt: skip
    thresholds = single_class_thresholds(penalty, len(w)) / w
    empty = [name for name, n in zip(source.class_names, result.solution.n_edges, strict=True) if n == 0]
    if np.ptp(thresholds) > 0.01 * thresholds.max() or (empty and len(empty) < len(w)):
        by_class = ", ".join(f"{t:.3g} in {name}" for t, name in zip(thresholds, source.class_names, strict=True))
        yield f"Class weights put the threshold of an edge in one class alone at {by_class}."
    if empty and len(empty) < len(w):
        yield f"No edge in {listed(empty, 5)}: its samples support none, which does not show that there are none."
    if settings.criterion == "jbic" and settings.relaxed and source.sample_sizes is not None:
        gamma = GAMMA["jbic"] if settings.gamma is None else settings.gamma
        sizes = np.asarray(source.sample_sizes, dtype=float)
        rate = single_edge_rate(source.n_variables, source.n_classes, sizes, gamma)
        yield f"On independent normal data of this size this criterion accepts {rate:.2g} single edges in expectation."


def _by_score(data: SelectionData, settings: SelectionSettings, omegas: Sequence[float] = OMEGAS) -> SelectionResult:
    """Minimise the score over a given grid, or by the coarse-to-fine search over columns ``omega = lambda2 / s``."""
    evaluate: Evaluator
    if settings.criterion == "cv":
        evaluate = CrossValidated(data, make_folds(data, settings.cv, settings.random_state), settings.solve)
    else:
        gamma = GAMMA.get(settings.criterion, 0.0) if settings.gamma is None else settings.gamma
        evaluate = Information(data.source, settings.criterion, gamma, settings.relaxed, settings.solve)
    budget, search_converged = Budget(data.source, settings.max_seconds, settings.solve), None
    if settings.grid is None:
        region = _region(data, settings, omegas)
        search = CoarseToFineSearch(evaluate, budget, *region, data.source.n_classes, settings.patience or 2)
        n_points = N_POINTS if len(omegas) > 1 and data.source.n_classes > 1 else N_POINTS // 3
        outcome = _outcome(search, settings, n_points * evaluate.solves, at_least_left=evaluate.solves)
        grid = LambdaGrid.from_points([*outcome.done, *outcome.left_out])
        search_converged = search.finished
    else:
        grid = as_grid(settings.grid)
        stop = without_improvement(settings.patience, evaluate.tie)
        outcome = _outcome(GridSearch(evaluate, columns_of(grid), budget, stop), settings, len(grid) * evaluate.solves)
    if isinstance(evaluate, Information) and data.source.n_variables <= SCANNED_ONCE and not outcome.interrupted:
        outcome = replace(outcome, done=certify_choice(evaluate, outcome.done))
    if not any(np.isfinite(evaluation.score) for evaluation in outcome.done.values()):
        raise InputError(
            "The likelihood has no maximum on any support of the grid: try stronger penalties, or set "
            f"{argument('relaxed', False)}.",
            "relaxed",
        )
    tried = [number for number, point in enumerate(grid) if point in outcome.done]
    best = tried[evaluate.choose([outcome.done[grid[number]] for number in tried])]
    return replace(_result(data, settings, evaluate, grid, outcome, best), finished=search_converged)


def _region(
    data: SelectionData, settings: SelectionSettings, omegas: Sequence[float]
) -> tuple[dict[float, float], float]:
    """Range of the search: largest s = lambda1 + lambda2 by omega = lambda2 / s, and the smallest s."""
    omegas = omegas if data.source.n_classes > 1 else (0.0,)
    if settings.solve.penalty != "group":
        omegas = tuple(omega for omega in omegas if omega < 1.0)  # without lambda1 edges never vanish
    directions = [(1.0 - omega, omega) for omega in omegas]
    largest = largest_penalties(data.source, directions, settings.solve)
    largest = np.where(largest > 0, largest, 1.0)
    noise = noise_level(data.source, settings.solve.weights)
    bottom = 0.05 * float(largest.max()) if noise is None else min(noise, 0.5 * float(largest.max()))
    return dict(zip(omegas, largest.tolist(), strict=True)), bottom


def _by_stars(data: SelectionData, settings: SelectionSettings) -> SelectionResult:
    grid = grid_for(data.source, settings.solve) if settings.grid is None else as_grid(settings.grid)
    evaluate = Instability(data, settings.n_subsamples, settings.random_state, settings.solve)
    budget = Budget(data.source, settings.max_seconds, settings.solve)
    # The running maximum of the instability along a column cannot fall below beta again.
    search = GridSearch(evaluate, columns_of(grid), budget, lambda done: done[-1].score > settings.beta)
    outcome = _outcome(search, settings, len(grid) * evaluate.solves)
    done = [outcome.done.get(point) for point in grid]
    measured, edges = (_column(done, value) for value in (lambda e: e.score, lambda e: e.edges.sum()))
    instability = monotone(grid, measured)
    best = choose(grid, instability, edges, settings.beta)
    result = _result(data, settings, evaluate, grid, outcome, best)
    return replace(
        result,
        limit=settings.beta,
        records={**result.records, "score": instability, "measured_instability": measured},
        criterion_name=f"{evaluate.name}, at most {settings.beta:g}",
    )


def _outcome(
    search: GridSearch | CoarseToFineSearch, settings: SelectionSettings, n_solves: int, at_least_left: int = 0
) -> SearchResult:
    """Outcome of a search; after an interrupt with ``on_interrupt="return"``, the points evaluated so far."""
    workers = WorkerPool.of(settings.n_jobs, settings.executor, settings.solve.max_memory)
    try:
        search.run(Tracker(settings.callback, n_solves, at_least_left), workers)
    except KeyboardInterrupt:
        if settings.on_interrupt == "raise" or not search.result().done:
            raise
        return replace(search.result(), interrupted=True)
    return search.result()


def _column(done: Sequence[Evaluation | None], value: Callable[[Evaluation], float]) -> FloatArray:
    """A value of the evaluations as an array over the grid, NaN at points not evaluated."""
    return np.array([np.nan if evaluation is None else value(evaluation) for evaluation in done], dtype=float)


def _result(
    data: SelectionData,
    settings: SelectionSettings,
    evaluate: Evaluator,
    grid: LambdaGrid,
    outcome: SearchResult,
    best: int,
) -> SelectionResult:
    """Result with the solution on all samples at the best point; information criteria have computed it already."""
    done, chosen = [outcome.done.get(point) for point in grid], outcome.done[grid[best]]
    solution = chosen.solutions[0] if settings.criterion in CRITERIA and chosen.solutions else None
    if solution is None:
        solution = solve_point(data.source, chosen.lambda1, chosen.lambda2, None, settings.solve)
    edges = np.array([np.zeros(data.source.n_classes) if e is None else e.edges for e in done]).round().astype(int)
    edges[best] = solution.n_edges
    details = dict.fromkeys(name for e in done if e is not None for name in e.details)
    return SelectionResult(
        criterion=settings.criterion,
        criterion_name=evaluate.name,
        grid=grid,
        best=best,
        solution=solution,
        records={
            "lambda1": grid.lambda1,
            "lambda2": grid.lambda2,
            "strength": grid.strength,
            "similarity": grid.similarity,
            "column": grid.column,
            "score": _column(done, lambda e: e.score),
            "edges": edges.sum(axis=1),
            "tried": np.array([e is not None for e in done]),
            "converged": np.array([e is None or e.n_failed == 0 for e in done]),
            "relative_gap": _column(done, lambda e: e.gap),
            **{f"edges[{name}]": edges[:, k] for k, name in enumerate(data.source.class_names)},
            **{name: np.array([np.nan if e is None else e.details[name] for e in done]) for name in details},
        },
        n_failed=sum(e.n_failed for e in done if e is not None),
        n_solves=sum(evaluate.solves for e in done if e is not None),
        left_out=describe_left_out(outcome.left_out),
        interrupted=outcome.interrupted,
    )
