"""Regularization paths: many pairs of penalties, one scan of the covariances, warm starts."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from jointglasso.data import as_source
from jointglasso.data.checks import InputError, check_path
from jointglasso.engine.checkpoint import Checkpoint
from jointglasso.engine.execute import solve_shaped
from jointglasso.engine.executors import Executor
from jointglasso.engine.options import RunnerOptions, SolveOptions
from jointglasso.engine.progress import Clock
from jointglasso.engine.screening import scan_on
from jointglasso.engine.tasks import WarmStart
from jointglasso.errors import warn_caller
from jointglasso.penalties.shapes import as_shape
from jointglasso.problem import JointProblem
from jointglasso.screening.pairs import PairTable, wider_penalty
from jointglasso.solution import Callback, ConvergenceWarning, Solution
from jointglasso.solvers import GroupSolver


def solve_path(
    S: Any,
    lambdas: Sequence[tuple[float, float]],
    *,
    penalty: str = "group",
    class_graph: Any = None,
    weights: Any = None,
    penalize_diagonal: bool = True,
    fuse_diagonal: bool = False,
    pair_weights: Any = None,
    coupling_weights: Any = None,
    penalty_shape: str | None = None,
    screening: str = "dynamic",
    solver: str | GroupSolver = "auto",
    tol: float = 1e-6,
    max_iter: int | None = None,
    n_jobs: int | None = None,
    callback: Callback | None = None,
    on_interrupt: str = "raise",
    checkpoint: str | os.PathLike[str] | None = None,
    max_memory: float | None = None,
    executor: Any = None,
) -> Iterator[Solution]:
    """Solve for many pairs of penalties, yielding each solution on completion.

    The covariances are read once, at the smallest lambda1, and the partition of every point is derived from that pass.
    Each solve starts from the nearest of the previous solutions, so order the penalties from large to small; a grid is
    a sequence of such columns, one for each ratio.

    Parameters
    ----------
    lambdas : sequence of (lambda1, lambda2)
        Penalties, in the order in which they are solved.
    checkpoint : path, optional
        Folder with one checkpoint per point.
    S, penalty, class_graph, weights, penalize_diagonal, fuse_diagonal, pair_weights, coupling_weights, penalty_shape,
    screening, solver, tol, max_iter, n_jobs, callback, on_interrupt, max_memory, executor
        As in `jointglasso.solve`.

    Yields
    ------
    Solution
        One for each pair, with its certificate.

    Warns
    -----
    ConvergenceWarning
        A point did not reach `tol`; the path goes on.

    Examples
    --------
    >>> import jointglasso as jgl
    >>> S = [[[1.0, 0.5], [0.5, 1.0]], [[1.0, 0.4], [0.4, 1.0]]]
    >>> path = jgl.solve_path(S, [(0.5, 0.1), (0.2, 0.1), (0.1, 0.1)])
    >>> [solution.n_edges for solution in path]
    [[0, 0], [1, 1], [1, 1]]
    """
    points = [tuple(point) for point in lambdas]
    if not points or any(len(point) != 2 for point in points):
        raise InputError(
            "lambdas must hold at least one pair (lambda1, lambda2): give a list such as [(0.3, 0.1)].", "lambdas"
        )
    options = SolveOptions(
        penalty, class_graph, weights, penalize_diagonal, fuse_diagonal, pair_weights, coupling_weights,
        penalty_shape, screening=screening, solver=solver, tol=tol, max_iter=max_iter, n_jobs=n_jobs, callback=callback,
        on_interrupt=on_interrupt, max_memory=max_memory, executor=executor,
    )  # fmt: skip
    runner = options.runner()
    source = as_source(S)
    problems = [options.problem(source, *point) for point in points]
    return _solve_all(problems, options, runner, check_path("checkpoint", checkpoint))


def _solve_all(
    problems: list[JointProblem], options: SolveOptions, runner: RunnerOptions, folder: Path | None
) -> Iterator[Solution]:
    pairs = _scan_once(problems, options.screening, runner.executor)
    warm_starts, shape = _WarmStarts(), as_shape(options.penalty_shape)
    for number, problem in enumerate(problems):
        clock = Clock()
        runner = replace(runner, control=options.control())
        if folder is not None:
            runner = replace(runner, checkpoint=Checkpoint(folder / f"point-{number:04d}", problem))
        start = warm_starts.nearest(problem)
        table = pairs
        if pairs is not None:
            weights = problem.weights, problem.pair_weights
            table = pairs.for_penalty(wider_penalty(problem.source, problem.penalty, *weights))
        solution = solve_shaped(problem, shape, runner, start, clock, table)
        warm_starts.add(problem, solution)
        if not solution.status:
            warn_caller(str(solution.status), ConvergenceWarning)
        yield solution
        if runner.control.stopped_by == "interrupt":
            return


def _scan_once(problems: list[JointProblem], screening: str, executor: Executor | None) -> PairTable | None:
    """Scan the covariances at the smallest lambda1 of all points."""
    if screening == "none":
        return None
    weakest = min((problem.penalty for problem in problems), key=lambda penalty: penalty.threshold(0))
    weights = problems[0].weights, problems[0].pair_weights
    return scan_on(executor, problems[0], wider_penalty(problems[0].source, weakest, *weights))


class _WarmStarts:
    """Candidates for warm starts: the last solution, and the first, sparsest one of every column of a grid."""

    def __init__(self) -> None:
        self._tops: list[tuple[float, float, list[Any]]] = []
        self._last: tuple[float, float, list[Any]] | None = None

    def add(self, problem: JointProblem, solution: Solution) -> None:
        point = (problem.penalty.threshold(0), problem.penalty.scale, solution.precision)
        if self._last is None or point[0] > self._last[0]:
            self._tops.append(point)
        self._last = point

    def nearest(self, problem: JointProblem) -> WarmStart | None:
        """Precision matrices of the point with the nearest total penalty on a log scale; None at the first point."""
        if self._last is None:
            return None
        wanted = math.log(max(problem.penalty.scale, 1e-300))

        def distance(point: tuple[float, float, list[Any]]) -> float:
            return abs(math.log(max(point[1], 1e-300)) - wanted)

        return WarmStart(min((self._last, *self._tops), key=distance)[2], trusted=True)
