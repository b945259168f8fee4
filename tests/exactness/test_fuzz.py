"""The fuzz script finds nothing wrong, and finds what is wrong."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import fuzz
import jointglasso as jgl


def run(n_problems, first=0):
    """Problems of the families in turn."""
    return fuzz.run(7, ["group"], n_problems=n_problems, first=first, seconds=np.inf)


def violations(tallies) -> list[str]:
    return [text for tally in tallies.values() for text in tally.violations]


def test_hard_problems_solved_in_many_ways_agree():
    tallies = run(len(fuzz.FAMILIES))
    assert violations(tallies) == []
    assert sum(tally.solves for tally in tallies.values()) > 0


def test_variances_that_underflow_cause_no_warning():
    """The start of W of a warm solve is then not finite."""
    tallies = fuzz.run(23122026, fuzz.solvable_penalties(), n_problems=1, first=382, seconds=np.inf)
    assert violations(tallies) == [] and sum(tally.solves for tally in tallies.values()) > 0


LIES = {
    "a gap that is too small": lambda proof: replace(proof, gap=1e-3 * proof.gap),
    "an objective that is too small": lambda proof: replace(
        proof, objective=proof.objective - 1e-3 * abs(proof.objective)
    ),
    "an entry proved absent too many": lambda proof: replace(proof, edges_absent=proof.edges_absent + 1),
    "entries proved present too many": lambda proof: replace(proof, edges_present=proof.edges_present + 1),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_certificate_that_lies_is_found_out(lie, monkeypatch):
    honest = jgl.solve

    def solve(*arguments, **options):
        # Stopped early, so that the gap is wide; what follows the first, plain way lies.
        options |= {} if options["tol"] == 1e-9 and options["screening"] == "none" else {"tol": 0.05}
        solution = honest(*arguments, **options)
        proof = solution.certificate if options["tol"] == 1e-9 else LIES[lie](solution.certificate)
        return replace(solution, certificate=proof, objective=proof.objective)

    monkeypatch.setattr(fuzz.jgl, "solve", solve)
    assert any(violations(run(1, first=number)) for number in range(3 * len(fuzz.FAMILIES)))


def test_an_error_is_a_violation_and_a_refusal_is_not(monkeypatch):
    def fail(*arguments, **options):
        raise ZeroDivisionError

    monkeypatch.setattr(fuzz.jgl, "solve", fail)
    assert len(violations(run(2))) == 8

    def refuse(*arguments, **options):
        raise ValueError("S is not symmetric: give a symmetric matrix.")

    monkeypatch.setattr(fuzz.jgl, "solve", refuse)
    assert violations(run(2)) == []


@pytest.mark.parametrize("penalty", ["group", "maximum", "common", "fused", "chain"])
def test_proximal_operators_of_the_script_minimise(penalty):
    rng = np.random.default_rng(0)
    problem = fuzz.Problem(np.tile(np.eye(2), (3, 1, 1)), 0.3, 0.4, penalty, np.ones(3), np.ones((2, 2)), True)
    value, prox = fuzz.penalty_functions(problem)
    for _ in range(20):
        x = rng.standard_normal((3, 1, 1))
        l1, l2 = np.full((1, 1), 0.3), np.full((1, 1), 0.4)
        found = prox(x, l1, l2)
        best = 0.5 * ((found - x) ** 2).sum() + value(found, l1, l2).sum()
        for _ in range(200):
            other = found + 10.0 ** rng.uniform(-4, 0) * rng.standard_normal(x.shape)
            assert 0.5 * ((other - x) ** 2).sum() + value(other, l1, l2).sum() >= best - 1e-12


def test_a_default_solve_that_does_not_converge_is_a_violation_outside_ill_conditioned_families(monkeypatch):
    honest = jgl.solve

    def stop(*arguments, **options):
        solution = honest(*arguments, **options)
        return replace(solution, status=replace(solution.status, converged=False))

    monkeypatch.setattr(fuzz.jgl, "solve", stop)
    families = dict.fromkeys(fuzz.FAMILIES, 0)
    for number, family in enumerate(fuzz.FAMILIES):
        rng = np.random.default_rng([7, number])
        tally = fuzz.check(replace(fuzz.draw(family, "group", rng), latent=None), rng, 6)
        families[family] = sum("Stopped" in text or "Converged" in text for text in tally.violations)
        assert tally.not_converged > 0
    assert families["plain"] > 0 == families["near singular"] == families["wild scales"]


def test_a_warning_of_numpy_is_a_violation(monkeypatch):
    def warn(*arguments, **options):
        return np.log(np.zeros(1))

    monkeypatch.setattr(fuzz.jgl, "solve", warn)
    found = violations(run(1))
    assert found and all("divide by zero" in text for text in found)


@pytest.mark.parametrize("storage", fuzz.STORAGES)
def test_storages_hold_the_covariances_that_are_checked(storage):
    problem = replace(fuzz.draw("plain", "group", np.random.default_rng(1)), storage=storage)
    with problem.source() as S:
        source = jgl.DenseCovariance(S) if storage == "dense" else S
        p = problem.S.shape[1]
        for k, matrix in enumerate(problem.S):
            assert np.allclose(source.block(k, np.arange(p)), matrix, rtol=0, atol=1e-12)


@pytest.mark.parametrize("penalty", ["common", "group", "maximum", "fused"])
def test_weights_by_class_and_the_common_penalty_agree_with_bounds_of_our_own(penalty):
    families = ("weights by class",) if penalty != "common" else ("plain", "ties", "weights by class")
    for number, family in enumerate(families * 2):
        rng = np.random.default_rng([11, number])
        problem = replace(fuzz.draw(family, penalty, rng), latent=None)
        tally = fuzz.check(problem, rng, 3)
        assert tally.violations == [] and tally.solves > 0
        assert (problem.by_class is None) == (penalty == "common")


@pytest.mark.parametrize("penalty", ["common", "group", "maximum", "fused", "chain", "laplacian"])
def test_objectives_with_absent_variables_are_those_of_the_package(penalty):
    rng = np.random.default_rng(3)
    problems = (fuzz.draw("absent variables", penalty, rng) for _ in range(100))
    problem = next(problem for problem in problems if (~problem.present).sum() > 2)
    assert fuzz.check(problem, rng, 2).violations == []


@pytest.mark.parametrize(("seed", "number", "penalty"), [(1794973454, 695, "laplacian"), (2026, 4124, "fused")])
def test_problems_that_once_failed(seed, number, penalty):
    """ADMM took more iterations than the limit of the other methods, so that no round followed; spread weights."""
    rng = np.random.default_rng([seed, number])
    assert fuzz.check(fuzz.draw("class weights", penalty, rng), rng, 4).violations == []


@pytest.mark.parametrize("screening", ["none", "hybrid"], ids=["dense", "sparse"])
def test_weights_that_differ_by_a_factor_of_3e9(screening):
    """ADMM takes as many iterations as the caller permits; groups left by sparse storage go on with dense blocks."""
    problem = fuzz.draw("class weights", "laplacian", np.random.default_rng([1794973454, 617]))
    with fuzz.tuned([] if screening == "none" else fuzz.SPARSE):
        solution = jgl.solve(
            problem.S, problem.lambda1, problem.lambda2, screening=screening, max_iter=4000, **problem.keywords
        )
    assert solution.status
