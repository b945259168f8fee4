"""Ways over the penalties: down the columns of a given grid, or a search that zooms in where the score is best.

What is done for one column or one point is a function of values, so that threads, processes or a cluster can do it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from jointglasso.engine.executors import Tell
from jointglasso.selection.budget import Budget
from jointglasso.selection.evaluation import Evaluation, Evaluator
from jointglasso.selection.grids import LambdaGrid
from jointglasso.selection.paths import Crew, Tracker

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


@dataclass(frozen=True)
class _Walk:
    """What the columns of a grid have in common."""

    evaluate: Evaluator
    grid: LambdaGrid
    stop: Stop
    budget: Budget


def walk_grid(evaluate: Evaluator, grid: LambdaGrid, stop: Stop, budget: Budget, tracker: Tracker, crew: Crew) -> Found:
    """Evaluate every column from strong to weak, each point from the one before, until it is to be left.

    The column with the smallest lambda1, and so the biggest groups, is begun first: none is to be waited for alone.
    """
    order = sorted(range(grid.n_columns), key=lambda column: min(grid[at][0] for at in grid.points_of(column)))
    columns = crew.map(_walk_column, order, _Walk(evaluate, grid, stop, budget), tracker)
    done = {(found.lambda1, found.lambda2): found for column, _ in columns for found in column}
    return Found(done, {point: why for _, left_out in columns for point, why in left_out.items()})


def _walk_column(column: int, shared: _Walk, tell: Tell) -> tuple[list[Evaluation], dict[tuple[float, float], str]]:
    points = [shared.grid[point] for point in shared.grid.points_of(column)]
    tie, solves = shared.evaluate.tie, shared.evaluate.solves
    done: list[Evaluation] = []
    for lambda1, lambda2 in points:
        objection = shared.budget.objection(lambda1, lambda2)
        if objection:
            return done, dict.fromkeys(points[len(done) :], objection)
        found = shared.evaluate(lambda1, lambda2, done[-1] if done else None)
        done = [e if n == _last_best(done, tie) else replace(e, solutions=()) for n, e in enumerate(done)] + [found]
        enough = shared.stop(done)
        left = (len(points) - len(done)) * solves if enough else 0
        tell(f"column {column + 1} of {shared.grid.n_columns}", solves, left, found)
        if enough:
            break
    best = _last_best(done, tie)
    return [e if n == best else replace(e, solutions=()) for n, e in enumerate(done)], {}


@dataclass(frozen=True)
class _Shared:
    """What the points of a search have in common."""

    evaluate: Evaluator
    budget: Budget


def _try_point(
    item: tuple[float, float, Evaluation | None], shared: _Shared, tell: Tell
) -> tuple[Evaluation | None, str]:
    """Evaluate a point, or say why it cannot be afforded."""
    lambda1, lambda2, start = item
    objection = shared.budget.objection(lambda1, lambda2)
    if objection:
        return None, objection
    found = shared.evaluate(lambda1, lambda2, start)
    tell("searching", shared.evaluate.solves, 0, found)
    return found, ""


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
        self._shared = _Shared(evaluate, budget)
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
        items = [(*self._penalties(omega, level), self._start(omega)) for omega, level in places]
        results = crew.map(_try_point, items, self._shared, tracker)
        for (omega, level), (lambda1, lambda2, _), (found, objection) in zip(places, items, results, strict=True):
            column = self._columns.setdefault(omega, {})
            if found is None:
                self._closed[omega] = max(level, self._closed.get(omega, -np.inf))
                self._left_out[lambda1, lambda2] = objection
                continue
            column[level] = found
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
        least = min(e.score for e in column.values()) + self._shared.evaluate.tie
        return min(level for level, e in column.items() if e.score <= least)

    def _where(self) -> _Place:
        """The best point; of equal ones the least shrunken."""
        places = [(omega, self._best_of(omega)) for omega, column in self._columns.items() if column]
        least = min(self._columns[omega][level].score for omega, level in places) + self._shared.evaluate.tie
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
