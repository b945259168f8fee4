"""What a solve returns: fields, names, timings, and small objects that behave as they look."""

import dataclasses

import numpy as np
import pytest
from scipy import sparse

import jointglasso as jgl
from jointglasso.engine.screening import SCREENING
from jointglasso.problem import make_problem
from jointglasso.solution import History, Iteration

RNG = np.random.default_rng(3)
P = 8
MATRICES = [np.cov((RNG.normal(size=(30, P)) @ (np.eye(P) + 0.25 * RNG.normal(size=(P, P)))).T) for _ in range(3)]
NAMED = dict(zip(("early", "mid", "late"), MATRICES, strict=True))
GENES = tuple(f"g{i}" for i in range(P))
LAMBDAS = (0.25, 0.1)


def solve(screening="hybrid", **options):
    source = jgl.DenseCovariance(NAMED, variable_names=GENES)
    return jgl.solve(source, *LAMBDAS, **{"screening": screening, "solver": "admm", **options})


@pytest.fixture(scope="module", params=SCREENING)
def solution(request):
    return solve(request.param)


def objective(precision):
    """Eq. (1)-(4) written out once more, densely."""
    dense = np.stack([Theta.toarray() for Theta in precision])
    fit = sum(np.trace(S @ T) - np.linalg.slogdet(T)[1] for S, T in zip(MATRICES, dense, strict=True))
    off = dense * (1 - np.eye(P))
    return fit + LAMBDAS[0] * np.abs(dense).sum() + LAMBDAS[1] * np.sqrt((off**2).sum(axis=0)).sum()


# Precision matrices


def test_precisions_are_sparse_columns_without_stored_zeros(solution):
    assert isinstance(solution.precision, list) and len(solution.precision) == 3
    for Theta in solution.precision:
        assert isinstance(Theta, sparse.csc_array)
        assert Theta.shape == (P, P) and Theta.dtype == np.float64
        assert (Theta.data != 0).all()
        assert Theta.has_canonical_format


def test_precisions_are_exactly_symmetric_and_definite(solution):
    for Theta in solution.precision:
        assert (Theta != Theta.T).nnz == 0
        assert np.linalg.eigvalsh(Theta.toarray())[0] > 0


def test_problem_is_not_trivial(solution):
    """Some edges and some zeros, or the tests here would say little."""
    assert all(0 < edges < P * (P - 1) // 2 for edges in solution.n_edges)


def test_edges_are_counted_once_per_pair(solution):
    assert solution.n_edges == [np.count_nonzero(np.triu(Theta.toarray(), 1)) for Theta in solution.precision]


def test_entries_outside_the_partition_are_not_stored(solution):
    for Theta, labels in zip(solution.precision, solution.partition.labels, strict=True):
        rows, columns = Theta.nonzero()
        assert (labels[rows] == labels[columns]).all()


# Numbers


def test_objective_is_that_of_the_returned_matrices(solution):
    assert solution.objective == pytest.approx(objective(solution.precision), rel=1e-12)
    assert make_problem(NAMED, *LAMBDAS).objective(solution.precision) == pytest.approx(solution.objective, rel=1e-12)


def test_names_are_carried(solution):
    assert solution.class_names == ("early", "mid", "late")
    assert solution.variable_names == GENES


def test_methods_are_named(solution):
    assert solution.screening in SCREENING and solution.solver == "admm"


def test_timings_have_every_stage_and_add_up(solution):
    assert set(solution.timings) == {"covariance", "screening", "solve", "certificate", "total"}
    assert all(seconds >= 0 for seconds in solution.timings.values())
    stages = sum(seconds for stage, seconds in solution.timings.items() if stage != "total")
    assert stages <= solution.timings["total"] * 1.001
    assert solution.timings["solve"] > 0


def test_the_record_has_one_entry_per_iteration(solution):
    assert len(solution.history) >= 1
    assert solution.screening == "dynamic" or solution.n_iter == len(solution.history)  # dynamic solves in rounds
    assert [step.number for step in solution.history] == list(range(1, len(solution.history) + 1))
    seconds = [step.seconds for step in solution.history]
    assert seconds == sorted(seconds) and seconds[0] >= 0


def test_solution_is_frozen(solution):
    for target, field in ((solution, "objective"), (solution.certificate, "gap"), (solution.status, "converged")):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(target, field, 0)


def test_repr_is_one_line_that_says_what_matters(solution):
    text = repr(solution)
    assert "\n" not in text
    for part in ("n_classes=3", f"n_variables={P}", f"edges={solution.n_edges}", "relative_gap=", "converged=True"):
        assert part in text
    assert f"objective={solution.objective:.6g}" in text


def test_everything_screened_out_leaves_diagonal_matrices():
    solution = jgl.solve(MATRICES, 50.0, 1.0, screening="hybrid", solver="admm")
    for Theta, S in zip(solution.precision, MATRICES, strict=True):
        np.testing.assert_allclose(Theta.toarray(), np.diag(1 / (np.diagonal(S) + 50.0)), rtol=1e-12)
    assert solution.n_edges == [0, 0, 0] and solution.status
    assert solution.certificate.gap <= solution.certificate.rounding + 1e-12
    assert solution.certificate.edges_absent == 3 * P * (P - 1) // 2


def test_one_variable_is_solved():
    solution = jgl.solve(np.array([[[2.0]], [[0.5]]]), 0.5, 0.1, screening="none", solver="admm", tol=1e-10)
    assert [Theta.toarray().item() for Theta in solution.precision] == pytest.approx([1 / 2.5, 1.0], rel=1e-4)


# Certificate


def test_certificate_bounds_are_consistent(solution):
    certificate = solution.certificate
    assert certificate.objective == solution.objective
    assert 0 <= certificate.gap == pytest.approx(certificate.group_gaps.sum())
    assert certificate.dual_objective == certificate.objective - certificate.gap
    assert certificate.relative_gap == certificate.gap / max(1.0, abs(certificate.objective))
    assert certificate.relative_gap <= 1e-6


def test_dual_objective_is_below_the_optimum(solution):
    best = min(solve(screening, tol=1e-10).objective for screening in ("hybrid", "none"))
    loose = solve(solution.screening, tol=1e-2)
    assert loose.certificate.dual_objective <= best + 1e-9
    assert best <= loose.objective + 1e-9
    assert loose.objective - best <= loose.certificate.gap + 1e-9


def test_edges_of_the_certificate_add_up(solution):
    certificate = solution.certificate
    counted = certificate.edges_present + certificate.edges_absent + certificate.edges_undetermined
    assert counted == 3 * P * (P - 1) // 2
    assert certificate.edges_present <= sum(solution.n_edges)
    assert certificate.edges_absent <= counted - certificate.edges_present


@pytest.mark.parametrize(("value", "scale"), [(-500.0, 500.0), (0.25, 1.0), (0.0, 1.0), (30.0, 30.0)])
def test_relative_gap_is_relative_to_the_objective_but_at_least_to_one(value, scale):
    certificate = jgl.Certificate(value, 0.5, np.array([0.5]), 0, 0, 0)
    assert certificate.relative_gap == 0.5 / scale
    assert certificate.dual_objective == value - 0.5


# Status


def test_converged_status_is_true_and_says_so():
    status = solve().status
    assert status and status.converged and bool(status) is True
    assert "onverged" in str(status) and "1.0e-06" in str(status)


def test_status_that_is_not_converged_is_false_and_joins_reason_and_remedy():
    status = jgl.Status(False, "Stopped early.", "Let it run on.")
    assert not status
    assert str(status) == "Stopped early. Let it run on."
    assert str(jgl.Status(True, "Done.")) == "Done."


# History


ITERATIONS = [Iteration(n, 10.0 / n, None if n % 2 else 1.0 / n, 0.1 * n) for n in range(1, 6)]


def test_history_behaves_like_a_sequence():
    history = History(ITERATIONS)
    assert len(history) == 5 and list(history) == ITERATIONS
    assert history[0] is ITERATIONS[0] and history[-1] is ITERATIONS[-1]
    assert isinstance(history[1:3], History) and list(history[1:3]) == ITERATIONS[1:3]
    assert ITERATIONS[2] in history
    assert "5 iterations" in repr(history)
    with pytest.raises(IndexError):
        history[5]


def test_history_gives_objective_and_gap_by_column():
    history = History(ITERATIONS)
    np.testing.assert_allclose(history.objective, [10.0, 5.0, 10 / 3, 2.5, 2.0])
    assert history.gap == [None, 0.5, None, 0.25, None]


def test_empty_history():
    history = History()
    assert len(history) == 0 and history.objective.shape == (0,) and history.gap == []
    assert not list(history)


def test_history_is_not_changed_through_the_list_it_came_from():
    given = list(ITERATIONS)
    history = History(given)
    given.clear()
    assert len(history) == 5
