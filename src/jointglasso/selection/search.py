"""Search over the penalties: along the columns of a given grid, or coarse to fine around the best score.

The solve of one part of a point is a picklable function of its arguments, so that threads, processes or a cluster can
run it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from jointglasso.engine.executors import TaskBatch, TaskProgress
from jointglasso.selection.budget import Budget
from jointglasso.selection.evaluation import Evaluation, Evaluator, Solved
from jointglasso.selection.grids import LambdaGrid, strength
from jointglasso.selection.solves import Tracker, WorkerPool
from jointglasso.solution import Solution

#: Stopping rule of a column, a function of its evaluations so far.
Stop = Callable[[Sequence[Evaluation]], bool]


@dataclass(frozen=True)
class Patience:
    """Stop a column after `patience` consecutive points without improvement; never if None."""

    patience: int | None
    tie: float

    def __call__(self, done: Sequence[Evaluation]) -> bool:
        if self.patience is None:
            return False
        return len(done) - 1 - _last_best(done, self.tie) >= self.patience


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


class EvaluatedPoints:
    """Collects evaluations as they finish, for a choice after an interrupt; keeps the solutions of the best only."""

    def __init__(self) -> None:
        self.done: dict[tuple[float, float], Evaluation] = {}
        self._best: tuple[float, float] | None = None

    def __call__(self, evaluation: Evaluation) -> None:
        point = evaluation.lambda1, evaluation.lambda2
        if self._best is not None and evaluation.score > self.done[self._best].score:
            evaluation = replace(evaluation, solutions=())
        elif self._best is not None:
            self.done[self._best] = replace(self.done[self._best], solutions=())
        self.done[point] = evaluation
        self._best = point if self._best is None or evaluation.solutions else self._best


@dataclass
class _Column:
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

    @property
    def weakest(self) -> float:
        """Smallest lambda1 of the column, where groups are largest."""
        return min(lambda1 for lambda1, _ in self.points)


@dataclass(frozen=True)
class _Item:
    """Task: a range of the parts of one point, with their warm starts."""

    column: int
    parts: range
    point: tuple[float, float]
    starts: Sequence[Solution | None]


class _Walk:
    """Evaluates columns concurrently: the parts of a point are tasks, and the last of them submits the next point.

    The parts are grouped into as few tasks as keep all workers busy; with many columns a point is one task. The result
    does not depend on the grouping.
    """

    def __init__(
        self, evaluate: Evaluator, columns: Sequence[_Column], stop: Stop, budget: Budget, tracker: Tracker
    ) -> None:
        self.evaluate, self.stop, self.budget, self.tracker = evaluate, stop, budget, tracker
        self.columns = sorted(columns, key=lambda column: column.weakest)
        self.items: list[_Item] = []
        self.n_open, self.n_workers = len(columns), 1.0

    def run(self, workers: WorkerPool) -> None:
        """Evaluate all columns, the most expensive (smallest lambda1) first, to balance the load."""
        self.n_workers = workers.size
        for number in range(len(self.columns)):
            self._submit_point(number)
        workers.do(
            TaskBatch(
                _solve_parts,
                self.items,
                self.evaluate,
                subset_for=lambda item, evaluate: evaluate.with_parts(item.parts),
                rank=lambda item: item.column,
                finish=self._finish,
            )
        )

    def _submit_point(self, number: int) -> None:
        """Add the tasks of the next point of a column, if the point is feasible."""
        column = self.columns[number]
        point = column.points[len(column.done)]
        column.why_infeasible = self.budget.why_infeasible(*point)
        if column.why_infeasible:
            self.n_open -= 1
            return
        before, n = column.done[-1] if column.done else column.start, self.evaluate.solves
        starts = before.solutions if before is not None and before.solutions else (None,) * n
        step = max(1, int(n * self.n_open / (2.0 * self.n_workers)))
        for first in range(0, n, step):
            parts = range(first, min(first + step, n))
            self.items.append(_Item(number, parts, point, starts[first : first + step]))

    def _finish(self, item_number: int, solved: list[Solved]) -> None:
        """Store finished parts; after the last part of a point, score it and submit the next point."""
        item = self.items[item_number]
        self.items[item_number] = replace(item, starts=())  # free the warm starts
        column, point = self.columns[item.column], item.point
        column.solved.update(zip(item.parts, solved, strict=True))
        if len(column.solved) < self.evaluate.solves:
            return
        evaluation = self.evaluate.evaluate(*point, [column.solved[n] for n in range(self.evaluate.solves)])
        column.done, column.solved = [*self._keep_best_solutions(column.done), evaluation], {}
        n_remaining = len(column.points) - len(column.done)
        stopped = n_remaining > 0 and self.stop(column.done)
        self.tracker.advance(
            column.stage, self.evaluate.solves, n_remaining * self.evaluate.solves if stopped else 0, evaluation
        )
        if n_remaining and not stopped:
            self._submit_point(item.column)
        else:
            column.done = self._keep_best_solutions(column.done)
            self.n_open -= 1

    def _keep_best_solutions(self, done: list[Evaluation]) -> list[Evaluation]:
        """Drop the solutions of all evaluations but the best, to save memory."""
        best = _last_best(done, self.evaluate.tie) if done else None
        return [e if n == best else replace(e, solutions=()) for n, e in enumerate(done)]


def _solve_parts(item: _Item, evaluate: Evaluator, progress: TaskProgress) -> list[Solved]:
    return [evaluate.solve_part(part, *item.point, start) for part, start in zip(item.parts, item.starts, strict=True)]


def walk_grid(
    evaluate: Evaluator, grid: LambdaGrid, stop: Stop, budget: Budget, tracker: Tracker, workers: WorkerPool
) -> SearchResult:
    """Evaluate every column from strong to weak penalties with warm starts, until its stopping rule holds."""
    columns = [
        _Column([grid[point] for point in grid.points_of(column)], f"column {column + 1} of {grid.n_columns}")
        for column in range(grid.n_columns)
    ]
    _Walk(evaluate, columns, stop, budget, tracker).run(workers)
    done = {(evaluation.lambda1, evaluation.lambda2): evaluation for column in columns for evaluation in column.done}
    left_out = {
        point: column.why_infeasible
        for column in columns
        if column.why_infeasible
        for point in column.points[len(column.done) :]
    }
    return SearchResult(done, left_out)


#: A point of the search: omega and level.
_Place = tuple[float, float]


class CoarseToFineSearch:
    """Search for the smallest score in s = lambda1 + lambda2 and omega = lambda2 / s.

    The first column (equal omega) is evaluated from its largest s down to the noise level. The other columns start at
    the best level of the first one and extend both ways while the score improves. Then the intervals between the best
    point and its neighbours in s and in omega are bisected, or extended where it is the last point of its column,
    until the neighbours have about as many edges as the best point.

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

    def __init__(
        self, evaluate: Evaluator, budget: Budget, top: dict[float, float], bottom: float, n_classes: int
    ) -> None:
        self._evaluate, self._budget = evaluate, budget
        self._tilt = 0.5 * (1.0 - n_classes**-0.5)
        self._top = {omega: float(np.log(s * (1.0 - omega * self._tilt))) + 1e-6 for omega, s in top.items()}
        self._bottom = float(np.log(bottom))
        self._columns: dict[float, dict[float, Evaluation]] = {omega: {} for omega in top}
        self._infeasible_level: dict[float, float] = {}
        self._left_out: dict[tuple[float, float], str] = {}
        self._stage = "first column"
        self.finished = False
        """Whether the neighbours of the best point have about as many edges as it has."""

    def run(self, tracker: Tracker, workers: WorkerPool, patience: int) -> SearchResult:
        """Run the search; `patience` consecutive points without improvement end the first column."""

        def try_points(places: Sequence[_Place]) -> None:
            self._try_points([place for place in places if self._is_untried(place)], tracker, workers)

        first = min(self._columns, key=lambda omega: abs(omega - self.FIRST))
        self._descend(first, patience, try_points)
        self._stage = "other columns"
        self._explore_columns([omega for omega in self._columns if omega != first], self._best_of(first), try_points)
        self._stage = "refining"
        for _ in range(self.ROUNDS):
            self._extend_weaker(try_points)
            candidates = self._candidates()
            if not candidates:
                omega, level = self._best_place()
                self.finished = level > min(self._columns[omega])
                break
            try_points(candidates)
        self._extend_stronger(try_points)
        done = {(e.lambda1, e.lambda2): e for column in self._columns.values() for e in column.values()}
        return SearchResult(done, self._left_out)

    def _try_points(self, places: Sequence[_Place], tracker: Tracker, workers: WorkerPool) -> None:
        tried = [_Column([self._penalties(*place)], self._stage, self._start(place[0])) for place in places]
        _Walk(self._evaluate, tried, Patience(None, 0.0), self._budget, tracker).run(workers)
        for (omega, level), point in zip(places, tried, strict=True):
            column = self._columns.setdefault(omega, {})
            if point.why_infeasible:
                self._infeasible_level[omega] = max(level, self._infeasible_level.get(omega, -np.inf))
                self._left_out[point.points[0]] = point.why_infeasible
                continue
            (column[level],) = point.done
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
        """Level of the best point of a column; among ties the least shrunken."""
        column = self._columns[omega]
        least = min(e.score for e in column.values()) + self._evaluate.tie
        return min(level for level, e in column.items() if e.score <= least)

    def _best_place(self) -> _Place:
        """Best point (omega, level); among ties the least shrunken, in the order of the final choice in `select`."""
        places = [(omega, self._best_of(omega)) for omega, column in self._columns.items() if column]
        least = min(self._columns[omega][level].score for omega, level in places) + self._evaluate.tie
        tied_places = [(omega, level) for omega, level in places if self._columns[omega][level].score <= least]
        return min(tied_places, key=lambda place: (strength(*self._penalties(*place)), place[0]))

    def _descend(self, omega: float, patience: int, try_points: Callable[[Sequence[_Place]], None]) -> None:
        """Evaluate the first column downwards until the score stops improving, or to the noise level."""
        level: float | None = self._top[omega]
        column = self._columns[omega]
        while level is not None and level > self._bottom - self.STEP:
            try_points([(omega, level)])
            if not column or sum(tried < self._best_of(omega) for tried in column) >= patience:
                break
            level = self._weaker(omega, min(column))

    def _weaker(self, omega: float, level: float) -> float | None:
        """Next weaker level: one step, or half way to the infeasible level; None within `NEAR` of it."""
        closed = self._infeasible_level.get(omega, -np.inf)
        below = max(level - (self.STEP if omega in self._top else self._spacing), 0.5 * (level + closed))
        return below if self._is_untried((omega, below)) and below - closed > self.NEAR else None

    def _explore_columns(
        self, omegas: Sequence[float], level: float, try_points: Callable[[Sequence[_Place]], None]
    ) -> None:
        """Evaluate other columns in both directions from a level, each while the score improves."""
        starts = {omega: min(level, self._top[omega]) for omega in omegas}
        try_points(list(starts.items()))
        moves = [(omega, start, step) for omega, start in starts.items() for step in (self.STEP, -self.STEP)]
        while moves := [
            (omega, min(current + step, self._top[omega]), step)
            for omega, current, step in moves
            if current in self._columns[omega]
            and self._best_of(omega) * np.sign(step) >= current * np.sign(step)
            and (current < self._top[omega] if step > 0 else current > self._bottom)
        ]:
            try_points([(omega, current) for omega, current, _ in moves])

    def _extend_weaker(self, try_points: Callable[[Sequence[_Place]], None]) -> None:
        """Evaluate weaker penalties while the best point is the weakest of its column."""
        while True:
            omega, level = self._best_place()
            if level > min(self._columns[omega]) or level < self._bottom - 10.0 * self.STEP:
                break
            below = self._weaker(omega, level)
            if below is None:
                break
            try_points([(omega, below)])

    def _extend_stronger(self, try_points: Callable[[Sequence[_Place]], None]) -> None:
        """Evaluate stronger penalties while the chosen point (by cross-validation not the best) is the strongest."""
        for _ in range(self.ROUNDS):
            places = [(omega, level) for omega, column in self._columns.items() for level in column]
            omega, level = places[self._evaluate.choose([self._columns[one][other] for one, other in places])]
            above = min(level + self.STEP, self._top.get(omega, np.inf))
            has_edges = self._columns[omega][level].edges.sum() > 0
            if not has_edges or level < max(self._columns[omega]) or not self._is_untried((omega, above)):
                break
            try_points([(omega, above)])

    def _candidates(self) -> list[_Place]:
        """Midpoints towards those neighbours of the best point whose number of edges differs, or a point beyond."""
        omega, level = self._best_place()
        column = self._columns[omega]
        best = column[level]
        levels = sorted(column)
        position = levels.index(level)
        beyond = self.STEP if omega in self._top else self._spacing
        candidates = []
        if position > 0 and self._edges_differ(best, column[levels[position - 1]]):
            candidates.append((omega, 0.5 * (level + levels[position - 1])))
        if position < len(levels) - 1 and self._edges_differ(best, column[levels[position + 1]]):
            candidates.append((omega, 0.5 * (level + levels[position + 1])))
        elif position == len(levels) - 1 and best.edges.sum() and level < self._top.get(omega, np.inf):
            candidates.append((omega, min(level + beyond, self._top.get(omega, np.inf))))
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
