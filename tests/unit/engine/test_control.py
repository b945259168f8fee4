"""Callbacks, interrupts, threads, progress: what a user holds in hand during a long solve."""

from __future__ import annotations

import io
import warnings
from itertools import pairwise

import numpy as np
import pytest
from rich.console import Console

import jointglasso as jgl
import jointglasso.problem
from jointglasso.engine.options import SOLVERS
from synthetic import make_joint_ggm


@pytest.fixture(scope="module")
def S():
    data = make_joint_ggm("modules", 120, 3, n_samples=60, n_blocks=6, random_state=1)
    return data.covariances


def interrupt_after(calls):
    seen = []

    def callback(iteration):
        seen.append(iteration)
        if len(seen) > calls:
            raise KeyboardInterrupt

    return callback


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("n_jobs", [None, 2])
def test_interrupt_raises_cleanly_by_default(S, solver, n_jobs):
    with pytest.raises(KeyboardInterrupt):
        jgl.solve(S, 0.3, 0.1, solver=solver, n_jobs=n_jobs, callback=interrupt_after(0))


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("n_jobs", [None, 2])
def test_interrupt_returns_what_there_is_with_an_honest_gap_when_asked_to(S, solver, n_jobs):
    best = jgl.solve(S, 0.3, 0.1, tol=1e-9).objective
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", jgl.ConvergenceWarning)
        partial = jgl.solve(
            S, 0.3, 0.1, solver=solver, n_jobs=n_jobs, callback=interrupt_after(0), on_interrupt="return"
        )
    if solver in ("admm", "proximal_gradient"):  # the others are done before they report for the first time
        assert not partial.status
        assert partial.status.code == "interrupt" and "warm_start" in partial.status.remedy
    assert np.isfinite(partial.certificate.gap)
    assert partial.certificate.gap >= partial.objective - best - 1e-9
    for Theta in partial.precision:
        assert np.linalg.eigvalsh(Theta.toarray())[0] > 0
    again = jgl.solve(S, 0.3, 0.1, warm_start=partial)
    assert again.status and abs(again.objective - best) <= 2e-6 * abs(best)


def test_results_do_not_depend_on_the_number_of_jobs(S):
    one = jgl.solve(S, 0.3, 0.1, n_jobs=1, tol=1e-8)
    two = jgl.solve(S, 0.3, 0.1, n_jobs=2, tol=1e-8)
    assert one.partition == two.partition
    assert one.objective == pytest.approx(two.objective, rel=1e-12)
    for a, b in zip(one.precision, two.precision, strict=True):
        assert abs(a - b).max() <= 1e-9


def test_same_call_gives_the_same_bits(S):
    first, second = (jgl.solve(S, 0.3, 0.1) for _ in range(2))
    for a, b in zip(first.precision, second.precision, strict=True):
        assert np.array_equal(a.data, b.data) and np.array_equal(a.indices, b.indices)


def test_blas_threads_are_restored(S):
    from threadpoolctl import threadpool_info

    def allowed():
        return [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]

    before = allowed()
    jgl.solve(S, 0.3, 0.1, n_jobs=2)
    assert allowed() == before


def test_callback_sees_groups_and_work_done(S):
    seen = []
    jgl.solve(S, 0.45, 0.1, callback=lambda iteration: seen.append(iteration) and None)
    assert seen[-1].groups_done == seen[-1].n_groups > 0
    assert seen[-1].share_done == pytest.approx(1.0)
    assert all(a.groups_done <= b.groups_done for a, b in pairwise(seen))
    assert seen[-1].gap is not None


def test_progress_bar_shows_groups_and_gap(S):
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=120)
    with jgl.RichProgress(console=console) as progress:
        solution = jgl.solve(S, 0.45, 0.1, callback=progress)
    assert "groups" in screen.getvalue() and "gap" in screen.getvalue()
    assert solution.status


def test_methods_tell_how_the_groups_were_solved(S):
    solution = jgl.solve(S, 0.45, 0.1)
    assert sum(solution.methods.values()) == solution.partition.class_blocks.n_groups
    assert set(solution.methods) <= {"closed form", "columns, newton"}
    assert jgl.solve(S, 0.45, 0.1, solver="admm").methods == {"admm": solution.partition.class_blocks.n_groups}


def test_avalanche_of_algorithm_1_does_not_happen_in_dynamic_screening():
    data = make_joint_ggm("C", 1000, 10, n_blocks=10, output="covariances", random_state=0)
    S = data.covariances
    hybrid = jgl.screen(S, 0.0082, 0.0015)
    solution = jgl.solve(S, 0.0082, 0.0015)
    assert hybrid.largest > 900  # one merge sets off the next
    assert solution.partition.largest < 150
    assert solution.partition.refines(hybrid)
    assert solution.status and solution.certificate.edges_undetermined < 100


def waiting_pair():
    """A pair that is zero in the round that a callback stops, but not in the solution."""
    S = np.tile(np.eye(3), (2, 1, 1))
    for i, j, value in ((0, 1, 0.5), (1, 2, 0.5), (0, 2, -0.05)):
        S[0, i, j] = S[0, j, i] = value
    S[1, 0, 2] = S[1, 2, 0] = -0.195
    return S


def test_edges_proved_absent_are_absent_even_when_stopped_before_a_merge():
    S = waiting_pair()
    options = {"penalize_diagonal": False}
    truth = jgl.solve(S, 0.1, 0.1, screening="none", tol=1e-10, **options)
    with pytest.warns(jgl.ConvergenceWarning, match="callback"):
        stopped = jgl.solve(S, 0.1, 0.1, callback=lambda iteration: True, **options)
    assert stopped.certificate.edges_absent <= 6 - sum(truth.n_edges)
    assert stopped.certificate.gap >= stopped.objective - truth.objective - 1e-12


def test_iterations_are_numbered_through_all_rounds_of_dynamic_screening():
    solution = jgl.solve(waiting_pair(), 0.1, 0.1, penalize_diagonal=False, solver="admm")
    assert [step.number for step in solution.history] == list(range(1, len(solution.history) + 1))
    assert all(a.seconds <= b.seconds for a, b in pairwise(solution.history))
    assert solution.n_iter == len(solution.history)


def test_max_iter_bounds_all_rounds_together():
    with pytest.warns(jgl.ConvergenceWarning, match="max_iter"):
        solution = jgl.solve(waiting_pair(), 0.1, 0.1, penalize_diagonal=False, solver="admm", max_iter=3, tol=1e-12)
    assert solution.n_iter == 3


@pytest.mark.parametrize("solver", ["admm", "proximal_gradient"])
def test_interrupt_keeps_what_was_reached(S, solver):
    seen = []

    def callback(iteration):
        seen.append(iteration)
        if len(seen) == 4:
            raise KeyboardInterrupt

    with pytest.warns(jgl.ConvergenceWarning, match="interrupt"):
        partial = jgl.solve(
            S, 0.2, 0.1, solver=solver, screening="none", callback=callback, on_interrupt="return", tol=1e-12
        )
    start = jgl.problem.make_problem(S, 0.2, 0.1).objective([np.diag(1 / (np.diag(s) + 0.2)) for s in S])
    assert partial.objective < start
    assert sum(partial.n_edges) > 0


def test_ctrl_c_is_a_wish_to_stop_when_asked_for(S):
    import os
    import signal

    def press_ctrl_c(iteration):
        if iteration.number == 3:
            os.kill(os.getpid(), signal.SIGINT)

    handler = signal.getsignal(signal.SIGINT)
    with pytest.warns(jgl.ConvergenceWarning, match="interrupt"):
        partial = jgl.solve(S, 0.2, 0.1, solver="admm", callback=press_ctrl_c, on_interrupt="return", tol=1e-12)
    assert 3 <= partial.n_iter <= 5
    assert signal.getsignal(signal.SIGINT) is handler
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # as in the background jobs of a script
    try:
        whole = jgl.solve(S, 0.2, 0.1, solver="admm", callback=press_ctrl_c, on_interrupt="return")
    finally:
        signal.signal(signal.SIGINT, handler)
    assert whole.status.converged


@pytest.mark.parametrize("lambda1", [1e-3, 1e-5])
def test_few_samples_and_small_penalties_are_solved_by_default(lambda1):
    X = np.random.default_rng(0).standard_normal((4, 8))
    solution = jgl.solve(jgl.SampleCovariance([X]), lambda1, 0.0)
    assert solution.status.converged, solution.status


@pytest.mark.parametrize("solver", ["auto", "newton"])
def test_a_tolerance_beyond_double_precision_ends_with_the_right_reason(S, solver):
    with pytest.warns(jgl.ConvergenceWarning, match="limit of the arithmetic"):
        solution = jgl.solve(S[:, :20, :20], 0.2, 0.1, solver=solver, tol=1e-60)
    assert solution.n_iter < 100


def test_all_cores_may_be_asked_for_as_minus_one(S):
    assert jgl.solve(S, 0.45, 0.1, n_jobs=-1).status


def test_group_gaps_follow_the_order_of_the_groups(S):
    one, two = (jgl.solve(S, 0.45, 0.1, n_jobs=n) for n in (1, 2))
    assert len(one.certificate.group_gaps) == len(one.partition.groups())
    np.testing.assert_allclose(one.certificate.group_gaps, two.certificate.group_gaps, rtol=1e-6, atol=1e-20)


def test_warm_start_may_be_asymmetric_by_rounding(S):
    solution = jgl.solve(S, 0.45, 0.1)
    noisy = [np.linalg.inv(np.linalg.inv(Theta.toarray())) for Theta in solution.precision]
    assert jgl.solve(S, 0.45, 0.1, warm_start=noisy).status


def test_proximal_gradient_moves_again_when_the_limits_shrink():
    rng = np.random.default_rng(0)
    p, blocks = 25, (8, 6, 6, 5)
    S = np.zeros((1, p, p))
    first = 0
    for b in blocks:
        X = rng.standard_normal((40, b)) + rng.standard_normal((40, 1))
        S[0, first : first + b, first : first + b] = np.cov(X.T, bias=True)
        first += b
    scale = np.exp(-jgl.solve(S, 0.1, 0.0).objective / p)  # brings the optimum to about zero
    assert jgl.solve(S * scale, 0.1 * scale, 0.0, solver="proximal_gradient").status


def test_asymmetry_is_judged_on_the_scale_of_the_two_variables():
    T = np.diag([1e8, 1.0, 1.0])
    T[1, 2], T[2, 1] = 0.5, -0.5
    with pytest.raises(ValueError, match="not symmetric"):
        jgl.solve(T, 0.1, 0.1)


@pytest.mark.parametrize(
    ("solved", "ended", "stop", "max_iter", "why"),
    [
        (True, "rounding", True, 0, "tolerance"),
        (False, "rounding", True, 0, "rounding"),
        (False, "", True, 0, "callback"),
        (False, "", False, 0, "max_iter"),
        (False, "", False, 3, "max_iter"),
    ],
)
def test_the_first_reason_to_end_is_told(solved, ended, stop, max_iter, why):
    from jointglasso.solvers.base import IterativeMethod, State, run

    class Method(IterativeMethod):
        def init(self, best):
            return State(ended=ended)

        def step(self, state):
            state.n_iter += 1
            return state

        def theta(self, state):
            return state.n_iter

    class Point:
        objective = gap = limit = 1.0

        def __init__(self):
            self.solved = solved

        def update(self, candidate):
            assert candidate <= max_iter

        def report(self, objective, gap):
            return stop

        def keep(self, candidate):
            assert not ended

    assert run(Method(), Point(), max_iter) == (max_iter, why)


@pytest.mark.parametrize("solver", ["admm", "proximal_gradient", "newton"])
def test_a_wish_to_stop_that_comes_with_the_solution_is_no_reason(solver):
    S = np.array([[[1.0, 0.4, 0.2], [0.4, 1.0, 0.3], [0.2, 0.3, 1.0]]] * 2)
    allowed = jgl.solve(S, 0.1, 0.1, solver=solver, tol=1e-6).certificate.gap

    def stop(iteration):
        return iteration.gap is not None and iteration.gap <= allowed

    assert jgl.solve(S, 0.1, 0.1, solver=solver, tol=1e-6, callback=stop).status.code == "converged"
