"""Choices are made by the scores of exact solutions: undecided edges are decided where they matter."""

import numpy as np
import pytest

import jointglasso as jgl
from jointglasso.selection import ebic
from jointglasso.selection.evaluation import TIE, Evaluation
from jointglasso.selection.likelihood import deviance_error
from jointglasso.selection.search import TOLERANCES, certify_choice

P, N = 15, 2000


@pytest.fixture(scope="module")
def questionnaire():
    """Answers of one class that depend on three correlated factors, so that nearly all pairs are edges, most weak."""
    rng = np.random.default_rng(1)
    loadings = np.repeat(np.eye(3), P // 3, axis=0) * rng.uniform(0.4, 0.8, (P, 1)) + 0.1 * rng.normal(size=(P, 3))
    factors = rng.multivariate_normal(np.zeros(3), 0.8 * np.eye(3) + 0.2, size=N)
    X = np.round(factors @ loadings.T + 0.8 * rng.normal(size=(N, P)))
    return jgl.SampleCovariance({"all": X}, scale="correlation")


def grid_of(source):
    """The grid of qgraph: 100 points from the largest correlation down to a hundredth of it, here the weaker half."""
    S = source.block(0, np.arange(P))
    top = np.abs(S - np.eye(P)).max()
    return [(float(value), 0.0) for value in np.geomspace(top, 0.01 * top, 100)[40:]]


@pytest.fixture(scope="module")
def exact(questionnaire):
    options = {"penalize_diagonal": False, "tol": 1e-11, "prove": True}
    return {point: jgl.solve(questionnaire, *point, **options) for point in grid_of(questionnaire)}


@pytest.mark.parametrize(("relaxed", "first"), [(False, 0), (True, 30)])
@pytest.mark.filterwarnings("ignore::jointglasso.selection.SelectionWarning")
def test_the_points_that_matter_have_the_edges_of_the_exact_solution(questionnaire, exact, relaxed, first, monkeypatch):
    options = {"criterion": "ebic", "gamma": 0.0, "patience": None, "relaxed": relaxed}
    options["grid"] = grid_of(questionnaire)[first:]
    found = jgl.select(questionnaire, **options)
    edges = np.array([exact[found.grid[n]].n_edges[0] for n in range(len(found.grid))])
    proved = found.records["undecided"] == 0
    assert found.contenders == [] and proved[found.best]
    assert "Its edges are certified" in found.explain()
    np.testing.assert_array_equal(found.records["edges"][proved], edges[proved])
    monkeypatch.setattr("jointglasso.selection.select_penalty.certify_choice", lambda evaluate, done: done)
    loose = jgl.select(questionnaire, **options, tol=1e-2)
    assert (loose.records["edges"] != edges).any(), "the data have no point whose edges the loose solves miss"
    text = loose.explain()
    assert loose.contenders and ("may lower its score by up to" in text or "that could score up to" in text)
    assert "Its edges are certified" not in text
    # What could still win is certified; what is not certified cannot win.
    assert (found.records["score"] - found.records["score_error"])[~proved].min() > found.score


def test_the_gap_bounds_how_much_smaller_the_exact_score_of_penalised_matrices_is(questionnaire, exact):
    sizes = np.array([float(N)])
    for point in grid_of(questionnaire)[::8]:
        best = exact[point]
        for tol in (1e-2, 1e-3, 1e-5):
            loose = jgl.solve(questionnaire, *point, penalize_diagonal=False, tol=tol, solver="admm")
            price = np.log(N) * abs(loose.n_edges[0] - best.n_edges[0])
            change = ebic(questionnaire, best.precision) - ebic(questionnaire, loose.precision)
            change -= (np.log(N) + 2.0 * np.log(P)) * (best.n_edges[0] - loose.n_edges[0])  # of the deviance alone
            bound = deviance_error(questionnaire, loose, sizes)
            assert change >= -bound - 1e-6
            assert bound <= 1e-6 + 400.0 * np.sqrt(loose.certificate.gap * N), price


def test_the_effort_is_bounded_and_goes_to_the_points_that_could_win(monkeypatch):
    """Solves that prove nothing end after the attempts of each contender, or after half of the points of the search."""
    asked = []

    def solved_on(evaluate, loose, best, attempt):
        asked.append((loose.lambda1, attempt))
        return loose

    monkeypatch.setattr("jointglasso.selection.search._solved_on", solved_on)

    def evaluation(lambda1, score, error):
        return Evaluation(lambda1, 0.0, score, np.array([1.0]), 0.0, 0, details={"score_error": error})

    scores = {1.0: (10.0, 0.0), 0.9: (5.0, 4.0), 0.8: (5.5, 0.2), 0.7: (9.0, 4.5), 0.6: (20.0, 14.0), 0.5: (5.1, 0.01)}
    done = {(first, 0.0): evaluation(first, *score) for first, score in scores.items()}
    assert certify_choice(None, done) == done
    assert len(asked) == max(3, len(done) // 2) and {first for first, _ in asked} == {0.9}
    asked.clear()
    many = done | {(first, 0.0): evaluation(first, 100.0, 1.0) for first in np.linspace(2.0, 3.0, 30)}
    certify_choice(None, many)
    contenders = {0.9, 0.7}  # 0.8 and 0.6 stay above the best score and its ties, 0.5 has a negligible error
    assert {first for first, _ in asked} == contenders and len(asked) == len(contenders) * len(TOLERANCES)
    assert done[0.8, 0.0].score - 0.2 > 5.0 + TIE
