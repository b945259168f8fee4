"""Diagonals of classes that are compared like the pairs: against an interior point method, and through every door."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest

import jointglasso as jgl
from jointglasso.blocks import build_system
from jointglasso.duality import gap_radii, subgradient_within
from jointglasso.problem import make_problem
from test_fused import ROUTES, assert_claims_are_true_however_rough_the_solve, oracle, random_problem


def problem_of(seed):
    """A problem of the fused family, the Laplacian apart, with diagonals of scales that differ."""
    number = next(n for n in range(4 * seed, 4 * seed + 4) if n % 4 == seed % 3)
    S, lambdas, options, graph = random_problem(number, hard=seed % 5 == 4)
    units = np.random.default_rng(seed).uniform(0.5, 1.5, (len(S), S.shape[1]))
    S = S * units[:, :, None] * units[:, None, :]
    return S, (lambdas[0], max(lambdas[1], 0.03)), options | {"fuse_diagonal": True}, graph


@pytest.mark.parametrize("seed", [*range(9), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(9, 120))])
def test_every_route_agrees_with_an_interior_point_method(seed):
    S, lambdas, options, graph = problem_of(seed)
    expected, matrices = oracle(S, lambdas, options, graph)
    for screening, solver in ROUTES:
        with warnings.catch_warnings():
            if solver == "proximal_gradient":
                warnings.simplefilter("ignore", jgl.ConvergenceWarning)
            solution = jgl.solve(S, *lambdas, screening=screening, solver=solver, tol=1e-7, **options)
        excess = solution.objective - expected
        assert -1e-5 * (1.0 + abs(expected)) <= excess <= solution.certificate.gap + 1e-6 * (1.0 + abs(expected))
        assert make_problem(S, *lambdas, **options).objective(solution.precision) == pytest.approx(solution.objective)
        if solver == "auto":
            assert solution.status.converged
        certified = np.array([matrix.toarray() for matrix in solution.certified])
        assert not (certified & (np.abs(matrices) < 1e-6)).any()


@pytest.mark.parametrize("seed", range(20, 26))
def test_claims_are_true_however_rough_the_solve(seed):
    assert_claims_are_true_however_rough_the_solve(*problem_of(seed)[:3])


@pytest.mark.parametrize("gap", [1e-4, 0.1, 1.0])
def test_the_radius_of_a_dual_point_allows_for_larger_variances_at_the_optimum(gap):
    """W, less than W* by s times its largest direction, is as far from W* as a gap permits."""
    S = np.array([[[1.0, 0.999], [0.999, 1.0]]] * 2)
    options = {"penalty": "fused", "fuse_diagonal": True}
    problem, blocks = make_problem(S, 0.1, 0.1, **options), jgl.solve(S, 0.1, 0.1, **options).partition.class_blocks
    system = build_system(problem.source, blocks, problem.weights)
    _, s = gap_radii(np.array([gap]), np.ones(1))
    values, vectors = np.linalg.eigh(S[0])
    W = S[0] - s * values[-1] * np.outer(vectors[:, -1], vectors[:, -1])
    _, radius = subgradient_within(system, np.tile(W.ravel(), 2), np.array([gap]), problem.penalty)
    assert (np.abs(W - S[0])[0, 1] <= radius).all()


def test_variables_without_edges_have_fused_variances():
    """Weights 1 and 2, variances 1 and 4, tied by 0.3: the variances move towards one another by 0.3 / w."""
    S = np.stack([np.eye(3), 4.0 * np.eye(3)])
    solution = jgl.solve(
        S, 0.1, 0.3, penalty="fused", weights=[1.0, 2.0], penalize_diagonal=False, fuse_diagonal=True, tol=1e-10
    )
    np.testing.assert_allclose(solution.precision[0].toarray(), np.eye(3) / 1.3, rtol=1e-12)
    np.testing.assert_allclose(solution.precision[1].toarray(), np.eye(3) / 3.85, rtol=1e-12)


@pytest.mark.parametrize("screening", ["dynamic", "none"])
@pytest.mark.parametrize("lambda1", [0.0, 0.05])
def test_a_variance_of_zero_in_one_class_is_bounded_by_that_of_another(lambda1, screening):
    """-log a - log b + a + 0.3 |a - b| is smallest at a = 1 / 0.7, b = 1 / 0.3."""
    options = {"penalty": "chain", "penalize_diagonal": False, "fuse_diagonal": True, "screening": screening}
    S = np.stack([np.eye(3), np.diag([1.0, 0.0, 0.0])])
    solution = jgl.solve(S, lambda1, 0.3, tol=1e-10, **options)
    expected = [[1.0, 1 / 0.7, 1 / 0.7], [1.0, 1 / 0.3, 1 / 0.3]]
    np.testing.assert_allclose([T.diagonal() for T in solution.precision], expected, rtol=1e-6)
    S[1, 0, 0] = 0.0
    assert jgl.solve(S, lambda1, 0.3, **options).status.converged
    S[0, 2, 2] = 0.0
    with pytest.raises(jgl.InputError, match="zero variance in class '1'"):
        jgl.solve(S, lambda1, 0.3, **options)


@pytest.mark.parametrize(("lambda1", "constant"), [(0.02, [2]), (0.0, [2]), (0.0, range(6))])
def test_samples_that_are_constant_in_a_class_are_solved_where_diagonals_are_compared(lambda1, constant):
    draw = np.random.default_rng(46)
    S = np.array([np.cov(np.round(draw.standard_normal((n, 6))).T, bias=True) for n in (9, 3, 7)])
    S[1, constant] = S[1, :, constant] = 0.0
    options = {"penalty": "fused", "penalize_diagonal": False, "fuse_diagonal": True}
    expected, _ = oracle(S, (lambda1, 1.4), options, np.triu(np.ones((3, 3)), 1))
    solution = jgl.solve(S, lambda1, 1.4, tol=1e-8, **options)
    assert solution.status.converged and solution.objective == pytest.approx(expected, rel=1e-6, abs=1e-6)


def test_diagonals_become_equal_and_the_penalty_decides():
    draw = np.random.default_rng(3)
    S = np.stack([np.cov(draw.standard_normal((40, 5)).T) for _ in range(3)])
    diagonals = {
        fused: np.array([T.diagonal() for T in jgl.solve(S, 0.1, 0.8, penalty="chain", fuse_diagonal=fused).precision])
        for fused in (False, True)
    }
    assert (diagonals[True] == diagonals[True][0]).all()
    assert (np.ptp(diagonals[False], axis=0) > 0.05).all()


def test_a_class_that_lacks_a_variable_is_not_compared_there():
    draw, mix = np.random.default_rng(1), np.eye(4) + np.eye(4, k=1) * 0.6
    tables = {name: (1 + k) * draw.standard_normal((50, 4)) @ mix for k, name in enumerate("abc")}
    frames = {name: pd.DataFrame(table, columns=list("uvwx")) for name, table in tables.items()}
    frames["b"] = frames["b"][["u", "v", "w"]]
    samples = jgl.SampleCovariance(frames, scale="covariance", variables="union")
    solution = jgl.solve(samples, 0.1, 0.3, penalty="chain", fuse_diagonal=True, tol=1e-9)
    assert solution.status.converged
    # Without class b nothing ties a and c at the last variable: its variances in a and c are those of the data.
    for k, name in ((0, "a"), (2, "c")):
        W = np.linalg.inv(solution.precision[k].toarray())
        assert W[3, 3] == pytest.approx(np.var(tables[name][:, 3]) + 0.1, rel=1e-4)
        assert W[0, 0] != pytest.approx(np.var(tables[name][:, 0]) + 0.1, rel=1e-3)


def test_groups_are_tied_at_every_variable():
    """Class blocks that share one variable are one group, and the variables alone in a class belong to it."""
    S = np.tile(np.eye(5), (2, 1, 1))
    S[0, 0, 1] = S[0, 1, 0] = S[1, 1, 2] = S[1, 2, 1] = 0.7
    plain, fused = (
        jgl.solve(S, 0.2, 0.1, penalty="fused", fuse_diagonal=given).partition.groups() for given in (False, True)
    )
    assert [len(group.blocks) for group in plain] == [1, 1]
    assert sorted(len(group.blocks) for group in fused) == [2, 2, 4]


@pytest.mark.parametrize("penalty", ["group", "laplacian"])
def test_other_penalties_refuse(penalty):
    with pytest.raises(ValueError, match=f'goes with penalty="fused", "chain" or "graph", not with "{penalty}"'):
        jgl.solve(np.eye(2)[None], 0.1, 0.1, penalty=penalty, fuse_diagonal=True)


def test_latent_variables_are_refused():
    S = np.tile(np.eye(3), (2, 1, 1))
    with pytest.raises(ValueError, match="latent= does not go with fuse_diagonal=True"):
        jgl.solve(S, 0.1, 0.1, penalty="fused", fuse_diagonal=True, latent=1.0)


X = np.random.default_rng(0).standard_normal((90, 5)) @ (np.eye(5) + 0.7 * np.eye(5, k=1))
X[30:60] *= 1.4
Y = np.repeat(["a", "b", "c"], 30)
S = np.stack([np.cov(X[name == Y].T, bias=True) for name in "abc"])
OPTIONS = {"penalty": "chain", "fuse_diagonal": True, "tol": 1e-9}


@pytest.fixture(scope="module")
def expected():
    return jgl.solve(S, 0.2, 0.1, **OPTIONS)


class TestDoors:
    """Paths, plans, selection, estimators, checkpoints, files and the command line solve the same problem."""

    def test_path_and_plan(self, expected):
        path = list(jgl.solve_path(S, [(0.4, 0.2), (0.2, 0.1)], **OPTIONS))
        assert path[1].objective == pytest.approx(expected.objective, rel=1e-8)
        planned = jgl.plan(S, 0.2, 0.1, penalty="chain", fuse_diagonal=True)
        assert planned.n_groups == len(expected.partition.groups())

    def test_checkpoint_and_file(self, expected, tmp_path):
        first = jgl.solve(S, 0.2, 0.1, checkpoint=tmp_path / "c", **OPTIONS)
        again = jgl.solve(S, 0.2, 0.1, checkpoint=tmp_path / "c", **OPTIONS)
        assert again.objective == pytest.approx(first.objective, rel=1e-9) and first.objective == expected.objective
        with pytest.raises(ValueError, match="fuse_diagonal"):
            jgl.solve(S, 0.2, 0.1, checkpoint=tmp_path / "c", penalty="chain")
        expected.save(tmp_path / "s.npz")
        assert jgl.load(tmp_path / "s.npz").parameters["fuse_diagonal"] is True

    @pytest.mark.filterwarnings("ignore::jointglasso.SelectionWarning")
    def test_selection(self):
        found = jgl.select(X, Y, grid=[(0.3, 0.1), (0.2, 0.1)], penalty="chain", fuse_diagonal=True)
        assert found.solution.parameters["fuse_diagonal"] is True

    def test_estimators(self):
        settings = {"scale": "covariance", "weights": "equal", "penalize_diagonal": True}
        model = jgl.JointGraphicalLasso(0.2, 0.1, **OPTIONS, **settings).fit(X, Y)
        expected = jgl.solve(S, 0.2, 0.1, **OPTIONS)
        assert model.solution_.objective == pytest.approx(expected.objective, rel=1e-6)


@pytest.mark.parametrize("seed", range(3))
def test_a_chain_with_compared_diagonals_is_regains_time_varying_problem(seed):
    theirs = pytest.importorskip("regain.covariance.time_graphical_lasso_")
    draw = np.random.default_rng(seed)
    S = np.array([np.cov(draw.normal(size=(40, 5)).T) for _ in range(4)])
    options = {"psi": "l1", "n_samples": np.ones(4), "tol": 1e-10, "rtol": 1e-9, "max_iter": 20_000}
    found = theirs.time_graphical_lasso(S, alpha=0.1, beta=0.05, **options)[0]
    ours = jgl.solve(S, 0.1, 0.05, penalty="chain", fuse_diagonal=True, tol=1e-11)
    assert np.array([Theta.toarray() for Theta in ours.precision]) == pytest.approx(np.asarray(found), abs=1e-4)
