"""The paper's solver: the iterates themselves against a dense transcription, its options, and how it ends."""

import re

import numpy as np
import pytest

import jointglasso as jgl
from jointglasso.solution import Iteration

METHODS = {"ADMM": "none", "GADMM": "global", "LADMM": "class", "HADMM": "hybrid"}
LAMBDAS = (0.25, 0.05)


def make_covariances(seed=0, p=14, n_classes=3, n=60):
    """Correlated modules that differ by class, with blocks of several sizes and isolated variables."""
    rng = np.random.default_rng(seed)
    mixed = np.zeros((p, p))
    mixed[: p // 2, : p // 2] = 0.5 * rng.normal(size=(p // 2, p // 2))
    matrices = []
    for _ in range(n_classes):
        own = mixed * (rng.random((p, p)) < 0.7)
        X = rng.normal(size=(n, p)) @ (np.eye(p) + own)
        matrices.append(np.cov(X.T, bias=True))
    return np.stack(matrices)


S = make_covariances(seed=1)


def solve(matrices=S, lambdas=LAMBDAS, screening="hybrid", tol=1e-6, **options):
    names = ("rho", "adapt_rho", "relaxation", "stopping", "check_every", "include_isolated", "accelerate")
    solver = jgl.ADMM(**{name: options.pop(name) for name in names if name in options})
    return jgl.solve(matrices, *lambdas, screening=screening, solver=solver, tol=tol, **options)


def objective(Theta, matrices=S, lambdas=LAMBDAS):
    off = Theta * (1 - np.eye(Theta.shape[1]))
    fit = np.einsum("kij,kij->", matrices, Theta) - np.linalg.slogdet(Theta)[1].sum()
    return fit + lambdas[0] * np.abs(Theta).sum() + lambdas[1] * np.sqrt((off**2).sum(axis=0)).sum()


def prox(A, t, lambda1, lambda2):
    """Eq. (10) ff. of the paper, all pairs at once; the diagonal has no group term."""
    shrunk = np.sign(A) * np.maximum(np.abs(A) - t * lambda1, 0)
    norm = np.sqrt((shrunk**2).sum(axis=0))
    factor = np.maximum(1 - t * lambda2 / np.maximum(norm, 1e-300), 0)
    np.fill_diagonal(factor, 1.0)
    return shrunk * factor


def dense_admm(matrices, lambdas, rho, relaxation, max_iter=3000):
    """The paper's section "Hybrid ADMM" on full matrices: Y at the end and the objective at every Theta."""
    Y = np.stack([np.diag(1 / (np.diagonal(M) + lambdas[0])) for M in matrices])
    U = np.zeros_like(Y)
    objectives, residuals = [], []
    for _ in range(max_iter):
        d, V = np.linalg.eigh(rho * (Y - U) - matrices)
        x = (d + np.sqrt(d**2 + 4 * rho)) / (2 * rho)
        Theta = (V * x[:, None, :]) @ np.swapaxes(V, 1, 2)
        relaxed = relaxation * Theta + (1 - relaxation) * Y
        Y_before, Y = Y, prox(relaxed + U, 1 / rho, *lambdas)
        U = U + relaxed - Y
        objectives.append(objective(Theta, matrices, lambdas))
        norms = [np.sqrt((D**2).sum(axis=(1, 2))).sum() for D in (Theta - Y, Y - Y_before)]
        residuals.append(max(norms))
        if max(norms) < 1e-6:
            break
    return Y, np.array(objectives), residuals


def dense(solution):
    return np.stack([Theta.toarray() for Theta in solution.precision])


@pytest.fixture(scope="module")
def optimum():
    return solve(screening="none", tol=1e-11, max_iter=20000).objective


# The four methods


def test_the_problem_separates_the_four_methods():
    parts = {name: jgl.screen(S, *LAMBDAS, rule=rule) for name, rule in METHODS.items()}
    assert parts["HADMM"].cost < min(parts["GADMM"].cost, parts["LADMM"].cost) < parts["ADMM"].cost
    assert parts["HADMM"].largest > 2


@pytest.mark.parametrize("screening", METHODS.values(), ids=METHODS)
def test_the_four_methods_of_the_paper_reach_the_same_optimum(screening, optimum):
    solution = solve(screening=screening, tol=1e-9)
    assert solution.status and solution.solver == "admm" and solution.screening == screening
    assert optimum - 1e-10 * abs(optimum) <= solution.objective <= optimum + 1e-9 * max(1, abs(optimum))
    assert solution.objective == pytest.approx(objective(dense(solution)), rel=1e-12)


@pytest.mark.parametrize("relaxation", [1.0, 1.6])
@pytest.mark.parametrize("rho", [0.3, 1.5])
def test_iterates_are_those_of_a_dense_transcription(rho, relaxation):
    """Same number of iterations by the paper's rule, same history, same end."""
    Y, objectives, residuals = dense_admm(S, LAMBDAS, rho, relaxation)
    assert residuals[-1] < 1e-6 <= residuals[-2]
    solution = solve(screening="none", rho=rho, adapt_rho=False, relaxation=relaxation, stopping="paper")
    assert solution.n_iter == len(objectives)
    np.testing.assert_allclose(solution.history.objective, objectives, rtol=1e-10)
    np.testing.assert_allclose(dense(solution), Y, atol=1e-9)
    assert all(gap is None for gap in solution.history.gap[:-1])


# Options


@pytest.mark.parametrize("adapt_rho", [True, False])
@pytest.mark.parametrize("relaxation", [1.0, 1.6])
@pytest.mark.parametrize("rho", [None, 0.5])
def test_every_step_rule_reaches_the_tolerance(rho, relaxation, adapt_rho, optimum):
    solution = solve(rho=rho, relaxation=relaxation, adapt_rho=adapt_rho, tol=1e-8)
    assert solution.status
    assert solution.objective - optimum <= 1e-8 * max(1, abs(optimum))


@pytest.mark.parametrize("rho", [0.02, 50.0])
def test_adapting_rho_mends_a_bad_choice(rho):
    adapted = solve(rho=rho, max_iter=5000).n_iter
    fixed = solve(rho=rho, adapt_rho=False, max_iter=100_000).n_iter
    assert adapted < fixed / 2


def test_relaxation_helps():
    n_iter = [solve(relaxation=relaxation, tol=1e-8, accelerate=False).n_iter for relaxation in (1.6, 1.0)]
    assert n_iter[0] < n_iter[1]


@pytest.mark.parametrize(("screening", "n_groups"), [("none", 1), ("hybrid", 3)])
def test_acceleration_takes_fewer_iterations_where_the_solution_is_badly_conditioned(screening, n_groups):
    """Three unrelated groups of six variables and three samples with a common factor, together and apart."""
    rng = np.random.default_rng(0)
    matrices = np.zeros((2, 18, 18))
    for first in (0, 6, 12):
        X = rng.normal(size=(2, 3, 6)) + 3.0 * rng.normal(size=(2, 3, 1))
        matrices[:, first : first + 6, first : first + 6] = np.einsum("kni,knj->kij", X, X) / 3
    plain, fast = (
        solve(matrices, (0.002, 0.001), screening, max_iter=20000, accelerate=accelerate)
        for accelerate in (False, True)
    )
    assert len(fast.partition.class_blocks.group_area) == n_groups
    assert plain.status and fast.status and fast.n_iter < 0.75 * plain.n_iter
    assert fast.objective == pytest.approx(plain.objective, rel=2e-6)


def test_paper_rule_says_when_it_stops_short_of_the_tolerance():
    with pytest.warns(jgl.ConvergenceWarning, match="paper"):
        solution = solve(stopping="paper", tol=1e-15)
    assert not solution.status
    assert "gap" in solution.status.remedy
    assert solution.certificate.relative_gap < 1e-6


def test_paper_rule_that_meets_the_tolerance_is_converged():
    solution = solve(stopping="paper", tol=1e-6)
    assert solution.status and len(solution.history) == solution.n_iter > 1


@pytest.mark.parametrize("check_every", [1, 3, 10])
def test_gap_is_computed_every_so_many_iterations(check_every):
    solution = solve(check_every=check_every, tol=1e-8)
    for step in solution.history:
        assert step.number % check_every == 0 or step.gap is None
    assert solution.n_iter % check_every == 0
    assert solution.history[-1].gap == pytest.approx(solution.certificate.gap, rel=1e-6, abs=1e-10)  # and rounding


def test_gap_is_computed_at_the_last_iteration_allowed():
    with pytest.warns(jgl.ConvergenceWarning):
        solution = solve(check_every=100, max_iter=7, tol=1e-12)
    assert solution.n_iter == 7 and np.isfinite(solution.certificate.gap)


def test_isolated_variables_may_be_iterated_as_in_the_paper(optimum):
    """Both count the whole objective at every iteration, so that the curves of the paper's figures compare."""
    full = solve(screening="none", include_isolated=True, tol=1e-9, accelerate=False)
    for include in (True, False):
        hybrid = solve(include_isolated=include, tol=1e-9, accelerate=False)
        assert hybrid.objective == pytest.approx(optimum, rel=1e-8)
        assert hybrid.history.objective[0] == pytest.approx(full.history.objective[0], rel=0.1)
        assert hybrid.history.objective[-1] == pytest.approx(full.history.objective[-1], rel=1e-5)


def test_iterated_isolated_variables_end_at_their_closed_form():
    found, expected = solve(include_isolated=True, tol=1e-11), solve(tol=1e-11)
    np.testing.assert_allclose(dense(found), dense(expected), atol=1e-4)
    np.testing.assert_array_equal(dense(found) != 0, dense(expected) != 0)


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"rho": 0}, ValueError, ("rho", "> 0")),
        ({"rho": -1.0}, ValueError, ("rho", "-1")),
        ({"rho": np.nan}, ValueError, ("rho", "nan")),
        ({"rho": "auto"}, TypeError, ("rho", "'auto'", "number")),
        ({"relaxation": 2}, ValueError, ("relaxation", "2", "between 0 and 2")),
        ({"relaxation": 0.0}, ValueError, ("relaxation", "0")),
        ({"relaxation": -0.5}, ValueError, ("relaxation", "-0.5")),
        ({"relaxation": None}, TypeError, ("relaxation", "None")),
        ({"stopping": "soon"}, ValueError, ("stopping", "'soon'", "'gap'", "'paper'")),
        ({"check_every": 0}, ValueError, ("check_every", "0", "at least 1")),
        ({"check_every": 2.5}, TypeError, ("check_every", "2.5", "whole number")),
    ],
    ids=str,
)
def test_invalid_options_are_refused_when_the_solver_is_made(options, error, words):
    with pytest.raises(error) as caught:
        jgl.ADMM(**options)
    assert [word for word in words if word not in str(caught.value)] == []


@pytest.mark.parametrize("options", [{"adapt_rho": "no"}, {"include_isolated": "no"}, {"accelerate": 1}], ids=str)
def test_switches_of_the_solver_are_not_words(options):
    with pytest.raises(TypeError, match=next(iter(options))):
        jgl.ADMM(**options)


# Not converged


@pytest.mark.parametrize("max_iter", [1, 3])
def test_stopping_at_max_iter_warns_with_gap_reason_and_remedy(max_iter, optimum):
    with pytest.warns(jgl.ConvergenceWarning) as caught:
        solution = solve(max_iter=max_iter, tol=1e-12)
    message = str(caught[0].message)
    assert len(caught) == 1 and message == str(solution.status)
    assert "max_iter" in solution.status.reason and "1.0e-12" in message and "Raise `max_iter`" in message
    assert float(re.search(r"gap (\S+),", message)[1]) == pytest.approx(solution.certificate.relative_gap, rel=0.1)
    assert not solution.status and solution.n_iter == max_iter
    assert 0 <= solution.objective - optimum <= solution.certificate.gap < np.inf


def test_the_warning_points_at_the_caller():
    with pytest.warns(jgl.ConvergenceWarning) as caught:
        jgl.solve(S, *LAMBDAS, screening="hybrid", solver="admm", max_iter=1, tol=1e-12)
    assert caught[0].filename == __file__


def test_matrices_are_definite_even_after_one_iteration():
    for lambdas in (LAMBDAS, (0.01, 0.01), (0.0, 0.05)):
        with pytest.warns(jgl.ConvergenceWarning):
            solution = solve(lambdas=lambdas, max_iter=1, tol=1e-12)
        assert np.linalg.eigvalsh(dense(solution)).min() > 0


# Callback and history


def test_callback_sees_every_iteration():
    """In order; the last one may come again when its work is done."""
    seen = []
    solution = solve(callback=seen.append)
    assert all(type(step) is Iteration for step in seen)
    numbers = [step.number for step in seen]
    assert numbers == sorted(numbers) and sorted(set(numbers)) == list(range(1, solution.n_iter + 1))
    by_number = {step.number: step for step in reversed(seen)}
    assert [(by_number[step.number].objective, by_number[step.number].gap) for step in solution.history] == [
        (step.objective, step.gap) for step in solution.history
    ]


def test_callback_can_stop():
    with pytest.warns(jgl.ConvergenceWarning, match="callback"):
        solution = solve(callback=lambda step: step.number == 4, tol=1e-12)
    assert solution.n_iter == 4 and not solution.status
    assert np.isfinite(solution.certificate.gap)


def test_callback_that_returns_nothing_does_not_stop():
    assert solve(callback=lambda step: None).status


def test_an_error_in_the_callback_comes_out():
    def fail(step):
        raise RuntimeError("mine")

    with pytest.raises(RuntimeError, match="mine"):
        solve(callback=fail)


@pytest.mark.parametrize("screening", METHODS.values(), ids=METHODS)
def test_history_goes_down_to_the_objective(screening, optimum):
    """Theta of ADMM is not feasible for the constraint Theta = Y, so small rises are in its nature."""
    solution = solve(screening=screening, tol=1e-9)
    values = solution.history.objective
    assert values[-1] == pytest.approx(solution.objective, rel=1e-4)
    assert np.abs(values[len(values) // 2 :] - optimum).max() < 0.1 * np.abs(values[0] - optimum) + 1e-6
    assert np.diff(values).max() <= 0.05 * (values.max() - optimum) + 1e-9


# Warm start


def test_warm_start_needs_fewer_iterations():
    cold = solve(tol=1e-8)
    warm = solve(tol=1e-8, warm_start=cold)
    nearby = solve(tol=1e-8, lambdas=(LAMBDAS[0] * 0.98, LAMBDAS[1]), warm_start=cold)
    assert warm.n_iter < cold.n_iter
    assert nearby.n_iter <= solve(tol=1e-8, lambdas=(LAMBDAS[0] * 0.98, LAMBDAS[1])).n_iter
    assert warm.objective == pytest.approx(cold.objective, rel=1e-8)


def test_warm_start_from_another_partition_is_cut_to_the_blocks():
    start = solve(lambdas=(0.01, 0.01), max_iter=5000)
    solution = solve(lambdas=(0.3, 0.1), warm_start=start)
    assert solution.objective == pytest.approx(solve(lambdas=(0.3, 0.1), tol=1e-9).objective, rel=1e-6)


# Units


@pytest.mark.parametrize("screening", ["none", "hybrid"])
@pytest.mark.parametrize("factor", [1e-3, 1e3])
def test_units_of_the_data_do_not_change_the_work(factor, screening):
    """A peer's fixed rho makes the run time depend tenfold on the units."""
    plain = solve(screening=screening, tol=1e-8)
    scaled = solve(S * factor**2, tuple(factor**2 * x for x in LAMBDAS), screening=screening, tol=1e-8, max_iter=20000)
    assert scaled.status
    assert plain.n_iter / 2 <= scaled.n_iter <= 2 * plain.n_iter
    np.testing.assert_allclose(dense(scaled) * factor**2, dense(plain), atol=0.01)


@pytest.mark.parametrize("weight", [1e-3, 1e3])
def test_scale_of_weights_and_penalties_does_not_change_the_work(weight):
    """The objective times a constant has the same solution."""
    plain = solve(tol=1e-8)
    lambdas = tuple(weight * x for x in LAMBDAS)
    scaled = solve(lambdas=lambdas, weights=[weight] * 3, tol=1e-8 * min(weight, 1.0), max_iter=20000)
    assert scaled.n_iter <= 3 * plain.n_iter
    np.testing.assert_allclose(dense(scaled), dense(plain), atol=0.01)


@pytest.fixture(scope="module")
def objective_near_zero():
    """Units in which the optimum is 0: what the tolerance allows there is far less than at the start."""
    strong = np.stack([0.95 + 0.05 * np.eye(12)] * 2)
    unit = np.exp(-solve(strong, (0.01, 0.005), tol=1e-9).objective / 24)
    return {"matrices": unit * strong, "lambdas": (unit * 0.01, unit * 0.005)}


def test_iterations_are_counted_in_full(objective_near_zero):
    solution = solve(**objective_near_zero, tol=1e-4, check_every=1)
    assert abs(solution.objective) < 1e-3 and solution.history.objective[0] > 2.0
    assert solution.status and solution.certificate.gap <= 1e-4
    assert solution.n_iter == len(solution.history)


def test_max_iter_bounds_all_iterations_together(objective_near_zero):
    needed = len(solve(**objective_near_zero, tol=1e-4, check_every=1).history)
    with pytest.warns(jgl.ConvergenceWarning):
        solution = solve(**objective_near_zero, tol=1e-4, check_every=1, max_iter=needed - 1)
    assert len(solution.history) <= needed - 1


# Storage


class Recording(jgl.ADMM):
    """ADMM that keeps the systems it was given."""

    systems: list = []  # noqa: RUF012

    def solve(self, task, *rest, **named):
        self.systems.append(task.system)
        return super().solve(task, *rest, **named)


@pytest.mark.parametrize("screening", METHODS.values(), ids=METHODS)
@pytest.mark.parametrize("isolated", [False, True])
def test_storage_is_the_sum_of_squared_block_sizes(screening, isolated):
    Recording.systems.clear()
    solution = jgl.solve(S, *LAMBDAS, screening=screening, solver=Recording(include_isolated=isolated))
    sizes = np.concatenate([solution.partition.block_sizes(k) for k in range(3)])
    sizes = sizes if isolated else sizes[sizes > 1]
    assert sum(system.S.size for system in Recording.systems) == (sizes**2).sum()
    assert sum(len(system.upper) for system in Recording.systems) == (sizes * (sizes - 1) // 2).sum()


def test_nothing_is_dense_over_a_coupled_component():
    """A ring of pairs: one group of 20 variables, but only blocks of three and two in each class."""
    p = 20
    chain = np.eye(p)
    for first in range(0, p - 1, 2):
        chain[first, first + 1] = chain[first + 1, first] = 0.6
    shifted = np.roll(np.roll(chain, 1, axis=0), 1, axis=1)
    Recording.systems.clear()
    solution = jgl.solve([chain, shifted], 0.1, 0.05, screening="hybrid", solver=Recording())
    assert jgl.screen([chain, shifted], 0.1, 0.05, rule="global").largest == p
    assert sum(system.S.size for system in Recording.systems) == 2 * (p // 2) * 2**2
    assert solution.n_edges == [p // 2, p // 2]


# Edge cases


def test_one_class_has_the_threshold_lambda1_plus_lambda2():
    """The toy of Figure 3: each block of two is a graphical lasso with penalty lambda1 + lambda2."""
    first = [[1, 0.07, 0.05], [0.07, 1, 0.03], [0.05, 0.03, 1]]
    second = [[1, 0.03, 0.05], [0.03, 1, 0.07], [0.05, 0.07, 1]]
    solution = jgl.solve(
        [np.array(first), np.array(second)],
        0.04,
        0.02,
        screening="hybrid",
        solver=jgl.ADMM(),
        penalize_diagonal=False,
        tol=1e-12,
        max_iter=10000,
    )
    assert solution.partition.labels.tolist() == [[0, 0, 1], [0, 1, 1]]
    W = np.array([[1, 0.01], [0.01, 1]])
    np.testing.assert_allclose(dense(solution)[0][:2, :2], np.linalg.inv(W), atol=1e-6)
    np.testing.assert_allclose(dense(solution)[1][1:, 1:], np.linalg.inv(W), atol=1e-6)


@pytest.mark.parametrize("lambdas", [(0.2, 0.0), (0.0, 0.2)])
def test_one_penalty_may_be_zero(lambdas):
    solution = solve(lambdas=lambdas, max_iter=20000)
    assert solution.status
    assert solution.objective == pytest.approx(objective(dense(solution), lambdas=lambdas), rel=1e-10)


@pytest.mark.parametrize("solver", ["auto", "admm"])
def test_ties_in_units_far_from_the_data_end_with_a_status(solver):
    """Nothing is left of the data in double precision: that is told, with an honest gap, and nothing is raised."""
    X = np.random.default_rng(0).standard_normal((3, 40, 5))
    X[:, :, 1] += X[:, :, 0]
    S = np.stack([np.cov(x.T) for x in X]) * 1e-15
    with pytest.warns(jgl.ConvergenceWarning, match="relative duality gap"):
        found = jgl.solve(S, 1e-16, 1e12, penalty="laplacian", solver=solver, max_iter=30)
    assert not found.status and 0.0 < found.certificate.relative_gap < np.inf


def test_a_block_without_eigenvalues_ends_admm_at_the_best_point(monkeypatch):
    from jointglasso.solvers import admm

    calls, original = [], admm.eigh_stack

    def lost(stack):
        calls.append(stack)
        if len(calls) > 12:
            raise np.linalg.LinAlgError("Eigenvalues did not converge")
        return original(stack)

    monkeypatch.setattr(admm, "eigh_stack", lost)
    S = np.array([[[1.0, 0.5, 0.2], [0.5, 1.0, 0.4], [0.2, 0.4, 1.0]]] * 2)
    with pytest.warns(jgl.ConvergenceWarning, match="limit of the arithmetic"):
        found = jgl.solve(S, 0.01, 0.01, solver="admm", tol=1e-14)
    assert found.n_iter == 12 and "rounding" in found.status.reason
    assert found.certificate.relative_gap < jgl.solve(S, 0.01, 0.01, solver="admm", tol=10.0).certificate.relative_gap
