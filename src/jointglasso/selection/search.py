"""Search over the penalties: along the columns of a given grid, or coarse to fine around the best score.

The solve of one part of a point is a picklable function of its arguments, so that threads, processes or a cluster can
run it. A search ends with a certified choice (`certify_choice`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from jointglasso.engine.executors import TaskBatch, TaskProgress
from jointglasso.selection.budget import Budget
from jointglasso.selection.evaluation import SETTLED, Evaluation, Evaluator, Information, Solved, solve_point
from jointglasso.selection.grids import LambdaGrid, strength
from jointglasso.selection.solves import Tracker, WorkerPool
from jointglasso.solution import Solution, Status

#: Stopping rule of a column, a function of its evaluations so far.
Stop = Callable[[Sequence[Evaluation]], bool]


def without_improvement(patience: int | None, tie: float) -> Stop:
    """Stop a column after `patience` consecutive points without improvement; never if None."""
    return lambda done: patience is not None and len(done) - 1 - _last_best(done, tie) >= patience


def _last_best(done: Sequence[Evaluation], tie: float) -> int:
    """Index of the smallest score; among ties the last, which is the least shrunken."""
    least = min(evaluation.score for evaluation in done)
    return max(n for n, evaluation in enumerate(done) if evaluation.score <= least + tie)


@dataclass(frozen=True)
class SearchResult:
    """Outcome of a search: evaluated points, and points left out for memory or time with the reason."""

    done: dict[tuple[float, float], Evaluation]
    left_out: dict[tuple[float, float], str]
    interrupted: bool = False


@dataclass
class GridColumn:
    """Points evaluated in sequence, each warm-started from the previous one."""

    points: Sequence[tuple[float, float]]
    stage: str
    start: Evaluation | None = None
    """Warm start of the first point."""
    done: list[Evaluation] = field(default_factory=list)
    solved: dict[int, Solved] = field(default_factory=dict)
    """Finished parts of the current point."""
    why_infeasible: str = ""
    """Reason why the remaining points are infeasible (memory or time); empty if they are not."""


@dataclass(frozen=True)
class _Item:
    """Task: one part of a point, with its warm start."""

    column: int
    part: int
    point: tuple[float, float]
    start: Solution | None


class GridSearch:
    """Evaluates columns concurrently, each from strong to weak penalties with warm starts until `stop` holds.

    The parts of a point are tasks, and the last of them submits the next point. The most expensive columns, those of
    the smallest lambda1, begin, to balance the load.
    """

    def __init__(self, evaluate: Evaluator, columns: Sequence[GridColumn], budget: Budget, stop: Stop) -> None:
        self.evaluate, self.budget, self.stop, self.columns = evaluate, budget, stop, columns
        self.by_cost = sorted(columns, key=lambda column: min(lambda1 for lambda1, _ in column.points))
        self.items: list[_Item] = []

    def run(self, tracker: Tracker, workers: WorkerPool) -> None:
        """Evaluate all columns."""
        self.tracker = tracker
        for number in range(len(self.by_cost)):
            self._submit_point(number)
        workers.do(
            TaskBatch(
                _solve_part,
                self.items,
                self.evaluate,
                subset_for=lambda item, evaluate: evaluate.with_part(item.part),
                rank=lambda item: item.column,
                finish=self._finish,
            )
        )

    def _submit_point(self, number: int) -> None:
        """Add the tasks of the next point of a column, if the point is feasible."""
        column = self.by_cost[number]
        point = column.points[len(column.done)]
        column.why_infeasible = self.budget.why_infeasible(*point)
        if not column.why_infeasible:
            before = column.done[-1] if column.done else column.start
            starts = before.solutions if before is not None and before.solutions else (None,) * self.evaluate.solves
            self.items += [_Item(number, part, point, start) for part, start in enumerate(starts)]

    def _finish(self, item_number: int, solved: Solved) -> None:
        """Store a finished part; after the last part of a point, score it and submit the next point."""
        item, n_parts = self.items[item_number], self.evaluate.solves
        self.items[item_number] = replace(item, start=None)  # free the warm start
        column = self.by_cost[item.column]
        column.solved[item.part] = solved
        if len(column.solved) < n_parts:
            return
        evaluation = self.evaluate.evaluate(*item.point, [column.solved[part] for part in range(n_parts)])
        column.done, column.solved = [*self._keep_best_solutions(column.done), evaluation], {}
        n_remaining = len(column.points) - len(column.done)
        stopped = n_remaining > 0 and self.stop(column.done)
        self.tracker.advance(column.stage, n_parts, n_remaining * n_parts if stopped else 0)
        if n_remaining and not stopped:
            self._submit_point(item.column)
        else:
            column.done = self._keep_best_solutions(column.done)

    def _keep_best_solutions(self, done: list[Evaluation]) -> list[Evaluation]:
        """Drop the solutions of all evaluations but the best, to save memory."""
        best = _last_best(done, self.evaluate.tie) if done else None
        return [e if n == best else replace(e, solutions=()) for n, e in enumerate(done)]

    def result(self) -> SearchResult:
        """What has been found so far."""
        done = {(e.lambda1, e.lambda2): e for column in self.columns for e in column.done}
        left_out = {
            point: column.why_infeasible
            for column in self.columns
            if column.why_infeasible
            for point in column.points[len(column.done) :]
        }
        return SearchResult(done, left_out)


def _solve_part(item: _Item, evaluate: Evaluator, progress: TaskProgress) -> Solved:
    return evaluate.solve_part(item.part, *item.point, item.start)


def columns_of(grid: LambdaGrid) -> list[GridColumn]:
    """Columns of a grid, not evaluated."""
    every = range(grid.n_columns)
    return [GridColumn([grid[n] for n in grid.points_of(k)], f"column {k + 1} of {grid.n_columns}") for k in every]


#: A point of the search: omega and level.
_Place = tuple[float, float]


class CoarseToFineSearch:
    """Search for the smallest score in s = lambda1 + lambda2 and omega = lambda2 / s.

    The first column (equal omega) is evaluated from its largest s down to the noise level, and ends after `patience`
    consecutive points without improvement. The other columns start at the best level of the first one and extend both
    ways while the score improves. Then the intervals between the best point and its neighbours in s and in omega are
    bisected, or extended where it is the last point of its column, until the neighbours have about as many edges as the
    best point.

    Columns are aligned by the *level*, the logarithm of ``s (1 - omega (1 - K^-1/2) / 2)``: the threshold of an edge in
    a single class is s in each column, that of an edge of equal size in all K classes is
    ``s (1 - omega (1 - K^-1/2))``; the level is halfway. `top` is the largest s by omega, `bottom` the smallest s; the
    search continues below `bottom` while the score improves.
    """

    #: Logarithm of the ratio of consecutive penalties in the coarse pass.
    STEP = float(np.log(1.4))
    #: The search ends when neighbours differ by at most this fraction of the edges, or by two edges.
    CLOSE = 0.05
    #: Smallest distance, in levels, to the first infeasible point.
    NEAR = STEP / 8.0
    #: Maximum number of rounds of bisection.
    ROUNDS = 10
    #: Columns are added up to this omega where the best point is in the most similar one; those of the group penalty
    #: go to 1.
    MOST_SIMILAR = 0.95
    #: omega of the first column.
    FIRST = 0.25

    finished = False
    """Whether the neighbours of the best point have about as many edges as it has."""

    def __init__(
        self,
        evaluate: Evaluator,
        budget: Budget,
        top: dict[float, float],
        bottom: float,
        n_classes: int,
        patience: int = 2,
    ) -> None:
        self._evaluate, self._budget, self._patience = evaluate, budget, patience
        self._tilt = 0.5 * (1.0 - n_classes**-0.5)
        self._top = {omega: float(np.log(s * (1.0 - omega * self._tilt))) + 1e-6 for omega, s in top.items()}
        self._bottom = float(np.log(bottom))
        self._columns: dict[float, dict[float, Evaluation]] = {omega: {} for omega in top}
        self._infeasible_level: dict[float, float] = {}
        self._left_out: dict[tuple[float, float], str] = {}

    def run(self, tracker: Tracker, workers: WorkerPool) -> None:
        """Run the search."""
        self._tracker, self._workers, self._stage = tracker, workers, "first column"
        first = min(self._columns, key=lambda omega: abs(omega - self.FIRST))
        self._descend(first)
        self._stage = "other columns"
        self._explore_columns([omega for omega in self._columns if omega != first], self._best_of(first))
        self._stage = "refining"
        for _ in range(self.ROUNDS):
            self._extend_weaker()
            candidates = self._candidates()
            if not candidates:
                omega, level = self._best_place()
                self.finished = level > min(self._columns[omega])
                break
            self._try(candidates)
        self._extend_choice()

    def result(self) -> SearchResult:
        """What has been found so far."""
        done = {(e.lambda1, e.lambda2): e for column in self._columns.values() for e in column.values()}
        return SearchResult(done, self._left_out)

    def _try(self, places: Sequence[_Place]) -> None:
        """Evaluate those of the places that were not tried before."""
        places = [place for place in places if self._is_untried(place)]
        tried = [GridColumn([self._penalties(*place)], self._stage, self._start(place[0])) for place in places]
        try:
            GridSearch(self._evaluate, tried, self._budget, lambda done: True).run(self._tracker, self._workers)
        finally:  # after an interrupt what is done is kept
            for place, column in zip(places, tried, strict=True):
                self._keep(place, column)

    def _keep(self, place: _Place, tried: GridColumn) -> None:
        """Store the outcome of a place, and the solutions of the best place of its column alone."""
        omega, level = place
        column = self._columns.setdefault(omega, {})
        if tried.why_infeasible:
            self._infeasible_level[omega] = max(level, self._infeasible_level.get(omega, -np.inf))
            self._left_out[tried.points[0]] = tried.why_infeasible
        for evaluation in tried.done:
            column[level] = evaluation
            best = self._best_of(omega)
            column.update(
                {other: replace(e, solutions=()) for other, e in column.items() if other != best and e.solutions}
            )

    def _penalties(self, omega: float, level: float) -> tuple[float, float]:
        s = float(np.exp(level)) / (1.0 - omega * self._tilt)
        return (1.0 - omega) * s, omega * s

    def _is_untried(self, place: _Place) -> bool:
        """Whether a point is not evaluated yet and not weaker than an infeasible one of its column."""
        omega, level = place
        return level not in self._columns.get(omega, {}) and level > self._infeasible_level.get(omega, -np.inf) + 1e-3

    def _start(self, omega: float) -> Evaluation | None:
        """Warm start: best evaluation of the column, or of all columns; None at the first point."""
        if self._columns.get(omega):
            return self._columns[omega][self._best_of(omega)]
        if not any(self._columns.values()):
            return None
        best, level = self._best_place()
        return self._columns[best][level]

    def _best_of(self, omega: float) -> float:
        """Level of the best point of a column; among ties the least shrunken, of infinite scores the most shrunken."""
        column = self._columns[omega]
        least = min(e.score for e in column.values()) + self._evaluate.tie
        if np.isinf(least):
            return max(column)
        return min(level for level, e in column.items() if e.score <= least)

    def _best_place(self) -> _Place:
        """Best point (omega, level); among ties the least shrunken, in the order of the final choice in `select`."""
        places = [(omega, self._best_of(omega)) for omega, column in self._columns.items() if column]
        least = min(self._columns[omega][level].score for omega, level in places) + self._evaluate.tie
        tied_places = [(omega, level) for omega, level in places if self._columns[omega][level].score <= least]
        return min(tied_places, key=lambda place: (strength(*self._penalties(*place)), place[0]))

    def _descend(self, omega: float) -> None:
        """Evaluate the first column downwards until the score stops improving, or to the noise level.

        It also ends at an infinite score, of a graph that the samples cannot estimate, since weaker penalties have more
        edges.
        """
        level: float | None = self._top[omega]
        column = self._columns[omega]
        while level is not None and level > self._bottom - self.STEP:
            self._try([(omega, level)])
            if not column or sum(tried < self._best_of(omega) for tried in column) >= self._patience:
                break
            if np.isinf(column[min(column)].score):
                break
            level = self._weaker(omega, min(column))

    def _weaker(self, omega: float, level: float) -> float | None:
        """Next weaker level: one step, or half way to the infeasible level; None within `NEAR` of it."""
        closed = self._infeasible_level.get(omega, -np.inf)
        below = max(level - (self.STEP if omega in self._top else self._spacing), 0.5 * (level + closed))
        return below if self._is_untried((omega, below)) and below - closed > self.NEAR else None

    def _explore_columns(self, omegas: Sequence[float], level: float) -> None:
        """Evaluate other columns in both directions from a level, each while the score improves.

        Weaker penalties than one with an infinite score have more edges, which the samples cannot estimate either.
        """
        starts = {omega: min(level, self._top[omega]) for omega in omegas}
        self._try(list(starts.items()))
        moves = [(omega, start, step) for omega, start in starts.items() for step in (self.STEP, -self.STEP)]
        while moves := [
            (omega, min(current + step, self._top[omega]), step)
            for omega, current, step in moves
            if current in self._columns[omega]
            and (step > 0 or np.isfinite(self._columns[omega][current].score))
            and self._best_of(omega) * np.sign(step) >= current * np.sign(step)
            and (current < self._top[omega] if step > 0 else current > self._bottom)
        ]:
            self._try([(omega, current) for omega, current, _ in moves])

    def _extend_weaker(self) -> None:
        """Evaluate weaker penalties while the best point is the weakest of its column."""
        while below := self._below_the_last(self._best_place()):
            self._try(below)

    def _below_the_last(self, place: _Place) -> list[_Place]:
        """The next weaker point where `place` is the weakest of its column and not far below the noise level."""
        omega, level = place
        if level > min(self._columns[omega]) or level < self._bottom - 10.0 * self.STEP:
            return []
        below = self._weaker(omega, level)
        return [] if below is None else [(omega, below)]

    def _extend_choice(self) -> None:
        """Evaluate penalties beyond the chosen point (by cross-validation not the best) while it is the last."""
        for _ in range(self.ROUNDS):
            places = [(omega, level) for omega, column in self._columns.items() for level in column]
            omega, level = places[self._evaluate.choose([self._columns[one][other] for one, other in places])]
            column, top = self._columns[omega], self._top.get(omega, np.inf)
            beyond = self._below_the_last((omega, level))
            if level == max(column) and column[level].edges.sum() > 0 and level < top:
                beyond = [(omega, min(level + self.STEP, top))]
            if not beyond:
                break
            self._try(beyond)

    def _candidates(self) -> list[_Place]:
        """Midpoints towards those neighbours of the best point whose number of edges differs, or a point beyond."""
        omega, level = self._best_place()
        column = self._columns[omega]
        best = column[level]
        levels = sorted(column)
        position = levels.index(level)
        candidates = []
        if position > 0 and self._edges_differ(best, column[levels[position - 1]]):
            candidates.append((omega, 0.5 * (level + levels[position - 1])))
        if position < len(levels) - 1 and self._edges_differ(best, column[levels[position + 1]]):
            candidates.append((omega, 0.5 * (level + levels[position + 1])))
        elif position == len(levels) - 1 and best.edges.sum() and level < self._top.get(omega, np.inf):
            beyond = level + (self.STEP if omega in self._top else self._spacing)
            candidates.append((omega, min(beyond, self._top.get(omega, np.inf))))
        for other in self._adjacent_columns(omega):
            nearest = min(self._columns[other], key=lambda tried: abs(tried - level))
            if abs(other - omega) > 0.02 and self._edges_differ(best, self._columns[other][nearest]):
                candidates.append((round(0.5 * (omega + other), 6), level))
        if omega == max(self._columns) and 0.5 < omega < self.MOST_SIMILAR and best.edges.sum():
            scores = [e.score for other, column in self._columns.items() if other < omega for e in column.values()]
            if min(scores, default=-np.inf) > best.score + self._evaluate.tie:
                candidates.append((0.5 * (1.0 + omega), level))
        return [place for place in candidates if self._is_untried(place)]

    def _adjacent_columns(self, omega: float) -> list[float]:
        """Adjacent columns, on both sides, with an evaluated point."""
        omegas = sorted(other for other, column in self._columns.items() if column)
        position = omegas.index(omega)
        return omegas[max(position - 1, 0) : position] + omegas[position + 1 : position + 2]

    @property
    def _spacing(self) -> float:
        """Smallest distance between evaluated levels of a column."""
        return min(float(np.diff(sorted(column)).min()) for column in self._columns.values() if len(column) > 1)

    def _edges_differ(self, one: Evaluation, other: Evaluation) -> bool:
        edges = float(one.edges.sum())
        return abs(float(other.edges.sum()) - edges) > max(2.0, self.CLOSE * edges)


#: Factors of the tolerance with which a point is solved again, one after the other, until its edges are proved.
TOLERANCES = (1.0, 1e-2, 1e-5)

#: Largest number of such solves, as a fraction of those of the search.
_EFFORT = 0.5

#: A point of the search: (lambda1, lambda2).
_Point = tuple[float, float]


def certify_choice(evaluate: Information, done: Mapping[_Point, Evaluation]) -> dict[_Point, Evaluation]:
    """The evaluations of a search, with those that could be the best one at proved edges, as far as the effort goes.

    The score of a point is that of the edges found, and a duality gap leaves some of them undecided. Undecided edges
    that are not there raise a score by their price, often by more than the points differ. The point with the smallest
    score that its undecided entries allow is solved again, to a smaller gap, and so on until the smallest score is
    that of proved edges. The other points keep the gap of the search, since they cannot be chosen.
    """
    out, attempts = dict(done), dict.fromkeys(done, 0)
    for _ in range(max(3, int(_EFFORT * len(done)))):
        best = min(out, key=lambda point: out[point].score)
        contenders = [point for point in out if attempts[point] < len(TOLERANCES) and _may_win(out, point, best)]
        if not contenders:
            break
        point = min(contenders, key=lambda point: (out[point].score - out[point].score_error, sum(point)))
        out[point] = _solved_on(evaluate, out[point], out[best], attempts[point])
        attempts[point] += 1
    return out


def _may_win(done: Mapping[_Point, Evaluation], point: _Point, best: _Point) -> bool:
    """Whether a point with undecided entries is the best one, or could be it, or tie with it."""
    evaluation = done[point]
    lowest = evaluation.score - evaluation.score_error
    return evaluation.score_error > SETTLED and lowest <= done[best].score + Information.tie


def _solved_on(evaluate: Information, loose: Evaluation, best: Evaluation, attempt: int) -> Evaluation:
    """A point solved to a smaller gap, or unchanged where that proves no more."""
    (source, known), part = evaluate.parts[0], f"certified-{attempt + 1}"
    start = (loose.solutions or best.solutions or (None,))[0]
    options = evaluate.options
    tight = replace(options, tol=TOLERANCES[attempt] * options.tol, prove=True)
    solution = solve_point(source, loose.lambda1, loose.lambda2, start, tight, part)
    gap = solution.certificate.relative_gap
    if gap <= options.tol:  # the tolerance of the selection, whether or not the arithmetic permits the smaller one
        reached = f"relative duality gap {gap:.1e}, tolerance {options.tol:.1e}"
        reason = f"Converged after {solution.n_iter} iterations: {reached}."
        parameters = solution.parameters | {"tol": options.tol}
        solution = replace(solution, status=Status(True, reason, code="converged"), parameters=parameters)
    score = evaluate.score_part(source, known, solution)
    found = evaluate.evaluate(loose.lambda1, loose.lambda2, [(solution, score)])
    found = replace(found, n_failed=min(found.n_failed, loose.n_failed))
    return found if found.score_error < loose.score_error else loose
