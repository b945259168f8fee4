"""Certified choice: the points whose score could still be the best are solved on until their edges are proved.

The score of a point is that of the edges found, and a duality gap leaves some of them undecided. Undecided edges that
are not there raise a score by their price, often by more than the points differ. After the search, the point with the
smallest score that its undecided entries allow is solved again, to a smaller gap, and so on until the smallest score
is that of proved edges. The other points keep the gap of the search, since they cannot be chosen.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from jointglasso.selection.evaluation import SETTLED, Evaluation, Information, solve_point
from jointglasso.solution import Status

#: Factors of the tolerance with which a point is solved again, one after the other, until its edges are proved.
TOLERANCES = (1.0, 1e-2, 1e-5)

#: Largest number of such solves, as a fraction of those of the search.
_EFFORT = 0.5

#: A point of the search: (lambda1, lambda2).
_Point = tuple[float, float]


def certify_choice(evaluate: Information, done: Mapping[_Point, Evaluation]) -> dict[_Point, Evaluation]:
    """The evaluations of a search, with those that could be the best one at proved edges, as far as the effort goes."""
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
