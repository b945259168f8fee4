"""Result of a selection, with its explanation in words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from jointglasso._display import html_of
from jointglasso._typing import BoolArray, FloatArray, IntArray
from jointglasso._wording import count
from jointglasso.errors import argument
from jointglasso.selection.criteria import CRITERIA
from jointglasso.selection.evaluation import SETTLED, TIE
from jointglasso.selection.grids import LambdaGrid
from jointglasso.solution import Solution


@dataclass(frozen=True)
class SelectionResult:
    """Penalties chosen by a criterion.

    Attributes
    ----------
    criterion : str
        Criterion; `criterion_name` is its full name.
    grid : LambdaGrid
        Points tried.
    best : int
        Index of the chosen point in the grid and in `records`.
    solution : Solution
        Penalised solution with its certificate, on all samples at the chosen point; ``solution.refit`` is the
        relaxed estimate on its support.
    records : dict of arrays (m,)
        One entry per point: lambda1, lambda2, strength, similarity, column, score (smaller is better), edges (over all
        classes), tried, converged, relative_gap, ``edges[class]``, and more depending on the criterion: for information
        criteria `undecided`, the entries that the gap proves neither zero nor non-zero, and `score_error`, how much
        smaller they may make the score. `table` is the same as a data frame.
    n_failed, n_solves : int
        Solves that stopped before their tolerance, and solves in all, folds and subsamples included.
    limit : float or None
        Threshold of the instability for StARS.
    finished : bool or None
        Whether the search ended because the neighbours of the chosen point have about as many edges; None for a given
        grid.
    left_out : str
        Sentence about points left out beforehand for their memory or time; empty if there are none.
    interrupted : bool
        Whether the search was stopped before its end (``on_interrupt="return"``): the choice is among the points done.
    notes : tuple of str
        Remarks about the correlations: variables treated as ordinal, matrices projected to be positive semidefinite.
    half_edges : tuple of int
        Edges, over all classes, that two random halves of the samples choose (``halves=True``); empty if not computed.

    Examples
    --------
    >>> chosen = jgl.select(X, y)
    >>> chosen.criterion, chosen.solution.n_edges
    ('jbic', [1, 1])
    >>> print(chosen.explain().splitlines()[2])
    It lies inside what was tried, not on its edge.
    """

    criterion: str
    criterion_name: str
    grid: LambdaGrid
    best: int
    solution: Solution
    records: dict[str, Any]
    n_failed: int
    n_solves: int
    limit: float | None = None
    finished: bool | None = None
    left_out: str = ""
    interrupted: bool = False
    notes: tuple[str, ...] = ()
    half_edges: tuple[int, ...] = ()

    @property
    def lambda1(self) -> float:
        """Chosen lambda1."""
        return float(self.grid.lambda1[self.best])

    @property
    def lambda2(self) -> float:
        """Chosen lambda2."""
        return float(self.grid.lambda2[self.best])

    @property
    def precision(self) -> list[Any]:
        """Relaxed estimate on the chosen support (K sparse matrices); `penalized_precision` defines the support."""
        return self.solution.estimate

    @property
    def penalized_precision(self) -> list[Any]:
        """Penalised matrices at the chosen point, which the certificate of `solution` is about."""
        return self.solution.precision

    @property
    def score(self) -> float:
        """Score of the chosen point."""
        return float(self.records["score"][self.best])

    @property
    def contenders(self) -> list[int]:
        """Points whose undecided entries could make them the best, the chosen one included.

        Empty if the edges are proved to be those of the exact solution wherever the score could be the smallest: the
        choice is then certified.
        """
        if "score_error" not in self.records:
            return []
        errors = np.asarray(self.records["score_error"], dtype=float)
        return np.flatnonzero((errors > SETTLED) & (self._scores - errors <= self.score + TIE)).tolist()

    @property
    def strongest_without_maximum(self) -> tuple[float, float] | None:
        """Strongest penalties with an infinite score, of a graph without a maximum of the likelihood; None without."""
        blocked = np.flatnonzero(np.isinf(self._scores))
        return self.grid[int(blocked[np.argmax(self.grid.strength[blocked])])] if len(blocked) else None

    @property
    def table(self) -> Any:
        """The records as a pandas data frame, one row per point."""
        import pandas as pd

        return pd.DataFrame(self.records)

    @property
    def on_edge(self) -> tuple[str, ...]:
        """Borders of the evaluated region that the chosen point lies on, where the region could be extended.

        "strongest", "weakest", "least similar", "most similar"; an empty graph, lambda2 = 0 and lambda1 = 0 are natural
        limits and do not count.
        """
        points, position = self._chosen_column
        similarity = self.grid.similarity
        tied_similarity = similarity[self._tied]
        several = self.grid.n_columns > 1
        sides = {
            "strongest": len(points) > 1 and position == 0 and sum(self.solution.n_edges) > 0,
            "weakest": len(points) > 1 and not np.any(self.records["tried"][points[position + 1 :]]),
            "least similar": several and 0.0 < tied_similarity.max() <= similarity.min() + 1e-12,
            "most similar": several and 1.0 > tied_similarity.min() >= similarity.max() - 1e-12,
        }
        return tuple(side for side, holds in sides.items() if holds)

    def explain(self) -> str:
        """Explain which point was chosen, why, and by which margin."""
        inside = "It lies inside what was tried, not on its edge."
        if not sum(self.solution.n_edges):
            inside = (
                "The data support no network: by this criterion no graph is better than the empty one. More samples or "
                "fewer variables are needed."
            )
        lines = [self._what(), self._why(), self.edge_advice or inside]
        if self.lambda1 == 0 and len(self.solution.class_names) > 1 and any(self.solution.n_edges):
            lines.append("lambda1 = 0 makes the networks differ in values only: an edge is in all classes or in none.")
        lines += [
            self._neighbours(),
            self._flatness(),
            *self._proofs(),
            *self._halves(),
            *([self.left_out] if self.left_out else []),
            *self.notes,
        ]
        if self.interrupted:
            tried = count(int(np.sum(self.records["tried"])), "point")
            lines.insert(0, f"Interrupted after {tried}: the choice is among these, and a better one may be missing.")
        if self.solution.refit is not None and any(self.solution.n_edges):
            lines.append(self.solution.refit.describe())
        if self.n_failed:
            lines.append(
                f"{self.n_failed} of {self.n_solves} solves stopped before their tolerance: scores may be off."
            )
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.explain()

    def _repr_html_(self) -> str:
        return html_of(self)

    def __repr__(self) -> str:
        return (
            f"SelectionResult(criterion={self.criterion!r}, lambda1={self.lambda1:.4g}, lambda2={self.lambda2:.4g}, "
            f"score={self.score:.6g}, edges={self.solution.n_edges}, points={len(self.grid)})"
        )

    @property
    def _tied(self) -> BoolArray:
        """Mask (m,) of the points whose score ties with that of the chosen one."""
        if self.criterion not in CRITERIA:
            return np.arange(len(self.grid)) == self.best
        is_tied: BoolArray = self._scores <= self.score + TIE
        return is_tied

    @property
    def _scores(self) -> FloatArray:
        return np.asarray(self.records["score"], dtype=float)

    @property
    def _chosen_column(self) -> tuple[IntArray, int]:
        """Points of the column of the chosen one, and its position in them."""
        points = self.grid.points_of(int(self.grid.column[self.best]))
        return points, int(np.flatnonzero(points == self.best)[0])

    def _what(self) -> str:
        names, counts = self.solution.class_names, self.solution.n_edges
        edges = ", ".join(f"{number} in {name}" for name, number in zip(names, counts, strict=True))
        if len(names) > 8:
            edges = f"{min(counts)} to {max(counts)} in {len(names)} classes"
        return f"Chosen: lambda1 = {self.lambda1:.4g}, lambda2 = {self.lambda2:.4g}; edges: {edges}."

    def _why(self) -> str:
        tried = f"{count(len(self.grid), 'point')} in {count(self.grid.n_columns, 'column')} of equal lambda2 / lambda1"
        n_untried = len(self.grid) - int(np.sum(self.records["tried"]))
        why = "not tried" if self.left_out or self.interrupted else "left out after the score had stopped falling"
        tried += f" ({n_untried} weaker ones {why})" if n_untried else ""
        if self.limit is not None and self.score > self.limit:
            return (
                f"No point of the {tried} is stable enough (StARS, {self.criterion_name}); this is the least "
                f"unstable of the strongest penalties, with instability {self.score:.3g}."
            )
        if self.limit is not None:
            return (
                f"By StARS ({self.criterion_name}): of the weakest penalty of each column that is stable enough, this "
                f"one, with instability {self.score:.3g}, gives the most edges ({tried})."
            )
        if self.criterion == "cv":
            smallest = float(np.nanmin(self.records["score"]))
            return (
                f"Of {tried} it has the fewest edges within one standard error of the smallest {self.criterion_name}: "
                f"{self.score:.6g}, the smallest is {smallest:.6g}."
            )
        return f"It has the smallest {self.criterion_name}: {self.score:.6g}, of {tried}."

    @property
    def edge_advice(self) -> str:
        """Advice for a chosen point on the border of the evaluated region; empty inside it."""
        lower, ratios = argument("min_ratio"), argument("ratios")
        advice = {
            "strongest": "It is the strongest penalty of its column: a better point may lie beyond, so start higher.",
            "weakest": f"It is the weakest penalty of its column: a better point may lie beyond, so lower {lower}.",
            "least similar": f"It is the least similar column: try smaller {ratios} lambda2 / lambda1.",
            "most similar": f"It is the most similar column: try larger {ratios} lambda2 / lambda1.",
        }
        if self.left_out and self.on_edge == ("weakest",):
            return "It is the weakest penalty of its column that can be afforded: a better point may lie beyond."
        return " ".join(advice[side] for side in self.on_edge)

    def _neighbours(self) -> str:
        points, position = self._chosen_column
        words = []
        for step, kind in ((-1, "stronger"), (1, "weaker")):
            if 0 <= position + step < len(points):
                words.append(f"one step {kind} {self._point(int(points[position + step]))}")
        for other in self._adjacent_points():
            kind = "more" if self.grid.similarity[other] > self.grid.similarity[self.best] else "less"
            words.append(f"with {kind} similarity {self._point(other)}")
        return f"Its neighbours: {'; '.join(words)}." if words else "It has no neighbours: the grid is a single point."

    def _adjacent_points(self) -> list[int]:
        """Points of the closest strength in the two columns adjacent by similarity."""
        similarity, strength = self.grid.similarity, self.grid.strength
        levels = np.unique(similarity.round(9))
        current = int(np.argmin(np.abs(levels - similarity[self.best])))
        adjacent = []
        for level in (current - 1, current + 1):
            if 0 <= level < len(levels):
                points = np.flatnonzero(similarity.round(9) == levels[level])
                adjacent.append(int(points[np.argmin(np.abs(strength[points] - strength[self.best]))]))
        return adjacent

    @property
    def _is_bounded(self) -> bool:
        """Whether the score is finite at all neighbours that were tried."""
        points, position = self._chosen_column
        around = [*points[max(position - 1, 0) : position + 2], *self._adjacent_points()]
        return not np.isinf(self._scores[around]).any()

    def _point(self, point: int) -> str:
        if not self.records["tried"][point]:
            return "not tried"
        difference = float(self.records["score"][point]) - self.score
        worse = f"{difference:+.4g}" if np.isfinite(difference) else "without a maximum of the likelihood,"
        return f"{worse} with {count(int(self.records['edges'][point]), 'edge')}"

    def _proofs(self) -> list[str]:
        """Whether the scores that matter are those of the exact solutions."""
        if "score_error" not in self.records or not np.isfinite(self.score):
            return []
        others = [point for point in self.contenders if point != self.best]
        undecided = int(self.records["undecided"][self.best])
        if not undecided and not others:
            return [
                "Its edges are certified, and so are those of every point whose undecided edges could make it better."
            ]
        lines = []
        if undecided:
            error = float(self.records["score_error"][self.best])
            lines.append(
                f"Undecided entries at this point: {undecided}, which may lower its score by up to {error:.3g}."
            )
        if others:
            errors = np.asarray(self.records["score_error"], dtype=float)[others]
            gain = self.score - float((self._scores[others] - errors).min())
            lines.append(
                f"With their undecided edges {count(len(others), 'other point')} could score up to {gain:.3g} better; "
                f"a smaller {argument('tol')} decides them."
            )
        return [" ".join(lines)]

    def _halves(self) -> list[str]:
        """Whether two halves of the samples choose about as many edges as each other, and half as many as all."""
        if not self.half_edges:
            return []
        fewer, more = sorted(self.half_edges)
        n_edges = sum(self.solution.n_edges)
        agree = more > 0 and more - fewer <= 0.2 * more and more >= 0.5 * n_edges
        clear = agree and not self.interrupted and not self.on_edge and self._is_bounded
        verdict = "the number of edges is stable" if clear else "the number of edges is uncertain"
        return [
            f"Two random halves of the samples choose {self.half_edges[0]} and {self.half_edges[1]} edges, all samples "
            f"{n_edges}: {verdict}."
        ]

    def _flatness(self) -> str:
        scores = self._scores
        if self.criterion == "cv":
            error = float(self.records["standard_error"][self.best])
            n_close = int((scores <= self.score + error).sum()) - 1
            return f"{_others(n_close)} within one standard error ({error:.3g}) of its score."
        if self.limit is not None:
            stable = int((scores <= self.limit).sum())
            return f"{count(stable, 'point')} of the grid {'is' if stable == 1 else 'are'} stable enough."
        n_tied = int(self._tied.sum()) - 1
        n_close = int((scores <= self.score + 10.0).sum()) - 1
        sure = self.finished is not False and not self.interrupted and not self.on_edge and self._is_bounded
        clear = "" if sure else ", but better ones may lie between or beyond those tried"
        hardly = ", so it is hardly worse" if n_close == 1 else ", so they are hardly worse"
        text = f"{_others(n_close)} within 10 of its score{hardly if n_close else clear}."
        return f"{text} {n_tied} of them score the same; of those the weakest penalties were taken." if n_tied else text


def _others(number: int) -> str:
    if number == 0:
        return "No other point is"
    return f"{count(number, 'other point')} {'is' if number == 1 else 'are'}"
