"""Ways over the penalties: down the columns of a given grid, or a search that zooms in where the score is best.

What is done for one part of a point is a function of values, so that threads, processes or a cluster can do it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from jointglasso.engine.executors import Tell, Work
from jointglasso.selection.budget import Budget
from jointglasso.selection.evaluation import Evaluation, Evaluator, Solved
from jointglasso.selection.grids import LambdaGrid
from jointglasso.selection.solves import Crew, Tracker
from jointglasso.solution import Solution

#: Says, from the evaluations of a column so far, whether to leave it.
Stop = Callable[[Sequence[Evaluation]], bool]


@dataclass(frozen=True)
class Patience:
    """Leave a column after so many points in a row without improvement on its best; never if None."""

    patience: int | None
    tie: float

    def __call__(self, done: Sequence[Evaluation]) -> bool:
        if self.patience is None:
            return False
        return len(done) - 1 - _last_best(done, self.tie) >= self.patience


def _last_best(done: Sequence[Evaluation], tie: float) -> int:
    """Place of the smallest score; of those that are the same for all one can say the last, which is less shrunken."""
    least = min(found.score for found in done)
    return max(n for n, found in enumerate(done) if found.score <= least + tie)


@dataclass(frozen=True)
class Found:
    """Points that were evaluated, and those that were left out because they cannot be afforded, with the reason."""

    done: dict[tuple[float, float], Evaluation]
    left_out: dict[tuple[float, float], str]
    interrupted: bool = False


class Kept:
    """Points as they are done, so that an interrupt leaves a choice among them; solutions of the best one only."""

    def __init__(self) -> None:
        self.done: dict[tuple[float, float], Evaluation] = {}
        self._best: tuple[float, float] | None = None

    def __call__(self, found: Evaluation) -> None:
        point = found.lambda1, found.lambda2
        if self._best is not None and found.score > self.done[self._best].score:
            found = replace(found, solutions=())
        elif self._best is not None:
            self.done[self._best] = replace(self.done[self._best], solutions=())
        self.done[point] = found
        self._best = point if self._best is None or found.solutions else self._best


@dataclass
class _Column:
    """Points that are evaluated one after another, each from the one before."""

    points: Sequence[tuple[float, float]]
    stage: str
    start: Evaluation | None = None
    """Where the first point starts from."""
    done: list[Evaluation] = field(default_factory=list)
    solved: dict[int, Solved] = field(default_factory=dict)
    """Parts of the next point."""
    objection: str = ""
    """Why the points that are left cannot be afforded."""

    @property
    def weakest(self) -> float:
        """The smallest lambda1: groups are biggest there."""
        return min(lambda1 for lambda1, _ in self.points)


@dataclass(frozen=True)
class _Item:
    """Some parts of a point."""

    column: int
    parts: range
    point: tuple[float, float]
    starts: Sequence[Solution | None]


class _Walk:
    """Columns on their way: parts of a point are pieces of work, and the last of them leads on to the next point.

    The pieces are as few as keep everybody busy: with many columns a point is one piece. What is computed is the same.
    """

    def __init__(
        self, evaluate: Evaluator, columns: Sequence[_Column], stop: Stop, budget: Budget, tracker: Tracker
    ) -> None:
        self.evaluate, self.stop, self.budget, self.tracker = evaluate, stop, budget, tracker
        self.columns = sorted(columns, key=lambda column: column.weakest)
        self.items: list[_Item] = []
        self.n_open, self.hands = len(columns), 1.0

    def run(self, crew: Crew) -> None:
        """Walk down all columns, those that take longest first: none is to be waited for alone in the end."""
        self.hands = crew.size
        for number in range(len(self.columns)):
            self._begin(number)
        crew.do(
            Work(
                _solve_parts,
                self.items,
                self.evaluate,
                narrow=lambda item, evaluate: evaluate.with_parts(item.parts),
                rank=lambda item: item.column,
                finish=self._finish,
            )
        )

    def _begin(self, number: int) -> None:
        """Make the next point of a column work to be done, if it can be afforded."""
        column = self.columns[number]
        point = column.points[len(column.done)]
        column.objection = self.budget.objection(*point)
        if column.objection:
            self.n_open -= 1
            return
        before, n = column.done[-1] if column.done else column.start, self.evaluate.solves
        starts = before.solutions if before is not None and before.solutions else (None,) * n
        step = max(1, int(n * self.n_open / (2.0 * self.hands)))
        for first in range(0, n, step):
            parts = range(first, min(first + step, n))
            self.items.append(_Item(number, parts, point, starts[first : first + step]))

    def _finish(self, item_number: int, solved: list[Solved]) -> None:
        """Take in some parts; when they are the last of their point, score that and go on."""
        item = self.items[item_number]
        self.items[item_number] = replace(item, starts=())  # nobody needs them any more
        column, point = self.columns[item.column], item.point
        column.solved.update(zip(item.parts, solved, strict=True))
        if len(column.solved) < self.evaluate.solves:
            return
        found = self.evaluate.evaluate(*point, [column.solved[n] for n in range(self.evaluate.solves)])
        column.done, column.solved = [*self._lightened(column.done), found], {}
        left = len(column.points) - len(column.done)
        enough = left > 0 and self.stop(column.done)
        self.tracker.advance(column.stage, self.evaluate.solves, left * self.evaluate.solves if enough else 0, found)
        if left and not enough:
            self._begin(item.column)
        else:
            column.done = self._lightened(column.done)
            self.n_open -= 1

    def _lightened(self, done: list[Evaluation]) -> list[Evaluation]:
        """Evaluations with the solutions of the best one only."""
        best = _last_best(done, self.evaluate.tie) if done else None
        return [e if n == best else replace(e, solutions=()) for n, e in enumerate(done)]


def _solve_parts(item: _Item, evaluate: Evaluator, tell: Tell) -> list[Solved]:
    return [evaluate.solve_part(part, *item.point, start) for part, start in zip(item.parts, item.starts, strict=True)]


def walk_grid(evaluate: Evaluator, grid: LambdaGrid, stop: Stop, budget: Budget, tracker: Tracker, crew: Crew) -> Found:
    """Evaluate every column from strong to weak, each point from the one before, until it is to be left."""
    columns = [
        _Column([grid[point] for point in grid.points_of(column)], f"column {column + 1} of {grid.n_columns}")
        for column in range(grid.n_columns)
    ]
    _Walk(evaluate, columns, stop, budget, tracker).run(crew)
    done = {(found.lambda1, found.lambda2): found for column in columns for found in column.done}
    left_out = {
        point: column.objection for column in columns if column.objection for point in column.points[len(column.done) :]
    }
    return Found(done, left_out)


#: A point of the search: omega and level.
_Place = tuple[float, float]


class Zoom:
    """Search for the smallest score in s = lambda1 + lambda2 and omega = lambda2 / s.

    One column of equal omega is walked from its top down to the noise. The others are entered where that one was
    best and left on both sides where they get worse. Then points are put half way between the best one and its
    neighbours in s and in omega, or beyond it where it is the last of its column, until the neighbours have about as
    many edges as the best point.

    Columns are aligned by the *level*, the logarithm of ``s (1 - omega (1 - K^-1/2) / 2)``: an edge of one class alone
    pays s in each column, one of equal size in all K classes pays ``s (1 - omega (1 - K^-1/2))``. `top` is the largest
    s of each omega to begin with, `bottom` the smallest that is worth trying; the search goes lower if that is best.
    """

    #: Ratio of neighbouring penalties on the way down, as a logarithm.
    STEP = float(np.log(1.4))
    #: Neighbours differ by so small a share of the edges, or by two edges, when the search ends.
    CLOSE = 0.05
    #: How near to the first point that cannot be afforded the search goes, as a logarithm.
    NEAR = STEP / 8.0
    #: Rounds of the finer pass.
    ROUNDS = 10
    #: Where the first column is.
    FIRST = 0.25

    def __init__(
        self, evaluate: Evaluator, budget: Budget, top: dict[float, float], bottom: float, n_classes: int
    ) -> None:
        self._evaluate, self._budget = evaluate, budget
        self._tilt = 0.5 * (1.0 - n_classes**-0.5)
        self._top = {omega: float(np.log(s * (1.0 - omega * self._tilt))) + 1e-6 for omega, s in top.items()}
        self._bottom = float(np.log(bottom))
        self._columns: dict[float, dict[float, Evaluation]] = {omega: {} for omega in top}
        self._closed: dict[float, float] = {}
        self._left_out: dict[tuple[float, float], str] = {}
        self.settled = False
        """Whether the neighbours of the best point have about as many edges as it has."""

    def run(self, tracker: Tracker, crew: Crew, patience: int) -> Found:
        """Search; `patience` points in a row without improvement end the first column."""

        def try_points(places: Sequence[_Place]) -> None:
            self._try_points([place for place in places if self._open(place)], tracker, crew)

        first = min(self._columns, key=lambda omega: abs(omega - self.FIRST))
        self._descend(first, patience, try_points)
        self._enter([omega for omega in self._columns if omega != first], self._best_of(first), try_points)
        for _ in range(self.ROUNDS):
            self._go_out(try_points)
            candidates = self._candidates()
            if not candidates:
                omega, level = self._where()
                self.settled = level > min(self._columns[omega])
                break
            try_points(candidates)
        done = {(e.lambda1, e.lambda2): e for column in self._columns.values() for e in column.values()}
        return Found(done, self._left_out)

    def _try_points(self, places: Sequence[_Place], tracker: Tracker, crew: Crew) -> None:
        tried = [_Column([self._penalties(*place)], "searching", self._start(place[0])) for place in places]
        _Walk(self._evaluate, tried, Patience(None, 0.0), self._budget, tracker).run(crew)
        for (omega, level), point in zip(places, tried, strict=True):
            column = self._columns.setdefault(omega, {})
            if point.objection:
                self._closed[omega] = max(level, self._closed.get(omega, -np.inf))
                self._left_out[point.points[0]] = point.objection
                continue
            (column[level],) = point.done
            best = self._best_of(omega)
            column.update({at: replace(e, solutions=()) for at, e in column.items() if at != best and e.solutions})

    def _penalties(self, omega: float, level: float) -> tuple[float, float]:
        s = float(np.exp(level)) / (1.0 - omega * self._tilt)
        return (1.0 - omega) * s, omega * s

    def _open(self, place: _Place) -> bool:
        """Whether a point is still to be tried and not weaker than one that cannot be afforded."""
        omega, level = place
        return level not in self._columns.get(omega, {}) and level > self._closed.get(omega, -np.inf) + 1e-3

    def _start(self, omega: float) -> Evaluation | None:
        """Best point of the column, or of all columns."""
        if self._columns.get(omega):
            return self._columns[omega][self._best_of(omega)]
        if not any(self._columns.values()):
            return None
        best, level = self._where()
        return self._columns[best][level]

    def _best_of(self, omega: float) -> float:
        """Level of the best point of a column; of equal ones the least shrunken."""
        column = self._columns[omega]
        least = min(e.score for e in column.values()) + self._evaluate.tie
        return min(level for level, e in column.items() if e.score <= least)

    def _where(self) -> _Place:
        """The best point; of equal ones the least shrunken."""
        places = [(omega, self._best_of(omega)) for omega, column in self._columns.items() if column]
        least = min(self._columns[omega][level].score for omega, level in places) + self._evaluate.tie
        tied = [(omega, level) for omega, level in places if self._columns[omega][level].score <= least]
        return min(tied, key=lambda place: (place[1], place[0]))

    def _descend(self, omega: float, patience: int, try_points: Callable[[Sequence[_Place]], None]) -> None:
        """Walk the first column from its top until it has stopped getting better, or to the noise."""
        level: float | None = self._top[omega]
        column = self._columns[omega]
        while level is not None and level > self._bottom - self.STEP:
            try_points([(omega, level)])
            if not column or sum(at < self._best_of(omega) for at in column) >= patience:
                break
            level = self._weaker(omega, min(column))

    def _weaker(self, omega: float, level: float) -> float | None:
        """The next level down: a step, or half way to what cannot be afforded; None where that is near."""
        closed = self._closed.get(omega, -np.inf)
        below = max(level - (self.STEP if omega in self._top else self._spacing), 0.5 * (level + closed))
        return below if self._open((omega, below)) and below - closed > self.NEAR else None

    def _enter(self, omegas: Sequence[float], level: float, try_points: Callable[[Sequence[_Place]], None]) -> None:
        """Walk other columns both ways from a level, each way until it gets worse."""
        entrances = {omega: min(level, self._top[omega]) for omega in omegas}
        try_points(list(entrances.items()))
        ways = [(omega, entrance, way) for omega, entrance in entrances.items() for way in (self.STEP, -self.STEP)]
        while ways := [
            (omega, min(at + way, self._top[omega]), way)
            for omega, at, way in ways
            if at in self._columns[omega]
            and self._best_of(omega) * np.sign(way) >= at * np.sign(way)
            and (at < self._top[omega] if way > 0 else at > self._bottom)
        ]:
            try_points([(omega, at) for omega, at, _ in ways])

    def _go_out(self, try_points: Callable[[Sequence[_Place]], None]) -> None:
        """Try weaker penalties as long as the best point is the weakest of its column."""
        while True:
            omega, level = self._where()
            if level > min(self._columns[omega]) or level < self._bottom - 10.0 * self.STEP:
                break
            below = self._weaker(omega, level)
            if below is None:
                break
            try_points([(omega, below)])

    def _candidates(self) -> list[_Place]:
        """Points half way to the neighbours of the best one that differ from it, or above it."""
        omega, level = self._where()
        column = self._columns[omega]
        best = column[level]
        levels = sorted(column)
        place = levels.index(level)
        beyond = self.STEP if omega in self._top else self._spacing
        found = []
        if place > 0 and self._differ(best, column[levels[place - 1]]):
            found.append((omega, 0.5 * (level + levels[place - 1])))
        if place < len(levels) - 1 and self._differ(best, column[levels[place + 1]]):
            found.append((omega, 0.5 * (level + levels[place + 1])))
        elif place == len(levels) - 1 and best.edges.sum() and level < self._top.get(omega, np.inf):
            found.append((omega, min(level + beyond, self._top.get(omega, np.inf))))
        for other in self._beside(omega):
            nearest = min(self._columns[other], key=lambda there: abs(there - level))
            if abs(other - omega) > 0.02 and self._differ(best, self._columns[other][nearest]):
                found.append((round(0.5 * (omega + other), 6), level))
        return [place for place in found if self._open(place)]

    def _beside(self, omega: float) -> list[float]:
        """The next columns to both sides that hold a point."""
        omegas = sorted(other for other, column in self._columns.items() if column)
        place = omegas.index(omega)
        return omegas[max(place - 1, 0) : place] + omegas[place + 1 : place + 2]

    @property
    def _spacing(self) -> float:
        """Smallest distance of two levels so far."""
        return min(float(np.diff(sorted(column)).min()) for column in self._columns.values() if len(column) > 1)

    def _differ(self, one: Evaluation, other: Evaluation) -> bool:
        edges = float(one.edges.sum())
        return abs(float(other.edges.sum()) - edges) > max(2.0, self.CLOSE * edges)
