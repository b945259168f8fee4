"""Latent variables: Theta = A - L against cvxpy, proofs that there are none, and what the gap says."""

import itertools
import warnings

import numpy as np
import pytest

import jointglasso as jgl


def confounded(seed, p=8, n_classes=2, n=60, strength=1.5):
    """Classes in which one unseen variable moves all others."""
    draw = np.random.default_rng(seed)
    samples = [
        draw.standard_normal((n, p)) + strength * draw.standard_normal((n, 1)) * draw.uniform(0.5, 1.0, p)
        for _ in range(n_classes)
    ]
    return np.array([np.corrcoef(X.T) for X in samples])


def tied_value(name, A, i, j):
    import cvxpy as cp

    values = [matrix[i, j] for matrix in A]
    steps = [one - two for one, two in itertools.pairwise(values)]
    if name == "group":
        return cp.norm(cp.hstack(values), 2)
    if name == "chain":
        return sum(cp.abs(step) for step in steps)
    if name == "laplacian":
        return sum(cp.square(step) for step in steps)
    return sum(cp.abs(one - two) for one, two in itertools.combinations(values, 2))


def by_cvxpy(S, lambda1, lambda2, mu, name, weights, diagonal):
    import cvxpy as cp

    n_classes, p = S.shape[:2]
    A = [cp.Variable((p, p), symmetric=True) for _ in S]
    L = [cp.Variable((p, p), PSD=True) for _ in S]
    total = 0
    for k in range(n_classes):
        Theta = A[k] - L[k]
        total += weights[k] * (cp.trace(S[k] @ Theta) - cp.log_det(Theta)) + mu * cp.trace(L[k])
        off = lambda1 * cp.sum(cp.abs(cp.multiply(1.0 - np.eye(p), A[k])))
        total += off + (lambda1 * cp.trace(A[k]) if diagonal else 0)
    for i in range(p):
        for j in range(i):
            total += 2 * lambda2 * tied_value(name, A, i, j)
    problem = cp.Problem(cp.Minimize(total))
    problem.solve(solver="CLARABEL")
    return problem.value, [a.value for a in A], [part.value for part in L]


@pytest.mark.parametrize("name", ["group", "fused", "chain", "laplacian"])
@pytest.mark.parametrize("diagonal", [True, False])
def test_the_solution_is_that_of_cvxpy(name, diagonal):
    S, weights = confounded(1, p=5), [1.0, 1.5]
    value, A, L = by_cvxpy(S, 0.3, 0.05, 0.5, name, weights, diagonal)
    assert max(np.linalg.eigvalsh(part)[-1] for part in L) > 0.05
    found = jgl.solve(S, 0.3, 0.05, latent=0.5, penalty=name, weights=weights, penalize_diagonal=diagonal, tol=1e-7)
    assert found.status.converged
    assert found.objective == pytest.approx(value, rel=1e-6)
    assert found.certificate.dual_objective <= value + 1e-6 * abs(value)
    for k in range(2):
        assert found.precision[k].toarray() - found.low_rank.matrices[k] == pytest.approx(A[k] - L[k], abs=2e-3)
        assert found.low_rank.matrices[k] == pytest.approx(L[k], abs=2e-2)


def test_where_the_penalty_is_large_there_are_none_and_that_is_proved():
    S = confounded(2)
    plain = jgl.solve(S, 0.2, 0.1, tol=1e-8)
    found = jgl.solve(S, 0.2, 0.1, latent=20.0, tol=1e-8)
    assert found.low_rank.proved_zero and found.low_rank.ranks == [0, 0]
    assert found.objective == plain.objective
    assert "none, proved" in str(found)


def test_the_threshold_between_none_and_some():
    """All covariances below lambda1, and yet a latent variable: thresholds alone would miss it."""
    S = np.full((1, 6, 6), 0.28) + 0.72 * np.eye(6)
    few = jgl.solve(S, 0.3, 0.0, penalize_diagonal=False, latent=1.0, tol=1e-8)
    assert few.status.converged and few.low_rank.ranks == [1] and not few.low_rank.proved_zero
    theta = few.precision[0].toarray() - few.low_rank.matrices[0]
    assert theta[0, 1] == pytest.approx(-0.062, abs=1e-3)
    none = jgl.solve(S, 0.3, 0.0, penalize_diagonal=False, latent=2.0)
    assert none.low_rank.proved_zero
    # The largest eigenvalue of S - diag S is 1.4: just above it nothing is found, just below something is.
    assert jgl.solve(S, 0.3, 0.0, penalize_diagonal=False, latent=1.401).low_rank.proved_zero
    assert not jgl.solve(S, 0.3, 0.0, penalize_diagonal=False, latent=1.399, tol=1e-9).low_rank.proved_zero


def test_entries_proved_absent_are_absent():
    S = confounded(3, p=10, n=40)
    sharp = jgl.solve(S, 0.25, 0.1, latent=0.6, tol=1e-9)
    rough = jgl.solve(S, 0.25, 0.1, latent=0.6, tol=1e-3)
    assert sharp.status.converged and rough.status.converged
    zero = sum(int((matrix.toarray() == 0).sum()) // 2 for matrix in sharp.precision)
    assert 0 < rough.certificate.edges_absent <= sharp.certificate.edges_absent <= zero
    assert sharp.certificate.edges_present == 0
    assert rough.certificate.dual_objective <= sharp.objective
    assert rough.objective >= sharp.certificate.dual_objective


def test_forbidden_pairs_and_pair_weights():
    S = confounded(4, p=6)
    factor = np.ones((6, 6))
    factor[0, 1] = factor[1, 0] = np.inf
    factor[2, 3] = factor[3, 2] = 0.5
    found = jgl.solve(S, 0.3, 0.05, latent=0.5, pair_weights=factor, tol=1e-7)
    assert found.status.converged
    assert all(matrix[0, 1] == 0 for matrix in found.precision) and min(found.low_rank.ranks) > 0


def test_a_file_keeps_the_latent_part(tmp_path):
    found = jgl.solve(confounded(5), 0.3, 0.05, latent=0.8)
    again = jgl.load(found.save(tmp_path / "a.jgl"))
    assert again.low_rank.ranks == found.low_rank.ranks != [0, 0] and again.low_rank.mu == 0.8
    assert np.array_equal(again.low_rank.matrices, found.low_rank.matrices)
    assert jgl.load(jgl.solve(confounded(5), 0.15, 0.05).save(tmp_path / "b.jgl")).low_rank is None


def test_a_limit_on_the_iterations_is_honest():
    with pytest.warns(jgl.ConvergenceWarning, match="max_iter"):
        found = jgl.solve(confounded(6), 0.3, 0.05, latent=0.5, max_iter=12, tol=1e-9)
    sharp = jgl.solve(confounded(6), 0.3, 0.05, latent=0.5, tol=1e-8)
    assert found.certificate.dual_objective <= sharp.objective


def test_bad_values():
    S = confounded(0)
    with pytest.raises(ValueError, match="latent=-1 must be a finite number > 0"):
        jgl.solve(S, 0.1, 0.1, latent=-1.0)


@pytest.mark.slow
def test_gglasso_finds_the_same():
    solver = pytest.importorskip("gglasso.solver.admm_solver")
    S = confounded(7, p=6)
    start = np.stack([np.eye(6)] * 2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs, _ = solver.ADMM_MGL(
            S, 0.3, 0.05, "GGL", start, latent=True, mu1=np.full(2, 0.5), tol=1e-9, rtol=1e-9, max_iter=5000
        )
    ours = jgl.solve(S, 0.3, 0.05, latent=0.5, penalize_diagonal=False, tol=1e-8)
    assert ours.low_rank.matrices == pytest.approx(theirs["L"], abs=2e-3)


def test_the_estimator_scores_by_what_was_measured():
    draw = np.random.default_rng(0)
    X = draw.standard_normal((120, 6)) + 1.5 * draw.standard_normal((120, 1))
    X *= [1.0, 2.0, 0.5, 1.0, 3.0, 1.0]
    y = np.repeat(["a", "b"], 60)
    model = jgl.JointGraphicalLasso(0.3, 0.05, latent=0.5).fit(X, y)
    assert model.solution_.has_latent and model.refit_ is None
    for k in range(2):
        measured = model.precision_[k].toarray() - model.low_rank_[k]
        assert model.covariance_[k] == pytest.approx(np.linalg.inv(measured))
    by_hand = 0.0
    for k, name in enumerate("ab"):
        centred = X[y == name] - model.location_[k]
        quadratic = np.einsum("ni,ij,nj->n", centred, np.linalg.inv(model.covariance_[k]), centred)
        by_hand += (-0.5 * (quadratic + np.linalg.slogdet(2 * np.pi * model.covariance_[k])[1])).sum()
    assert model.score(X, y) == pytest.approx(by_hand / 120)
    assert jgl.JointGraphicalLasso(0.3, 0.05).fit(X, y).low_rank_ is None


def test_edges_beside_latent_variables_are_not_refitted():
    S = confounded(5)
    found = jgl.solve(S, 0.3, 0.05, latent=0.8)
    with pytest.raises(ValueError, match="The solution has latent variables"):
        jgl.refit(S, found)


def test_the_command_line(tmp_path):
    from click.testing import CliRunner

    from jointglasso.cli import main

    draw = np.random.default_rng(0)
    X = draw.standard_normal((80, 5)) + 1.5 * draw.standard_normal((80, 1))
    rows = "\n".join(",".join(map(str, row)) + f",{'ab'[n % 2]}" for n, row in enumerate(X))
    (tmp_path / "data.csv").write_text("v,w,x,y,z,group\n" + rows)
    command = ["fit", str(tmp_path / "data.csv"), "--label", "group", "--no-figures", "--lambda1", "0.3", "--lambda2"]
    command += ["0.05", "--out", str(tmp_path / "out")]
    done = CliRunner().invoke(main, [*command, "--latent-rank", "1,1"])
    assert done.exit_code == 0 and "Latent variables: a 1, b 1" in done.output, done.output
    command[-1] = str(tmp_path / "no")
    proving = CliRunner().invoke(main, [*command, "--latent-rank", "1", "--prove"])
    assert proving.exit_code == 2 and "--prove does not go with --latent-rank" in proving.output
    wrong = CliRunner().invoke(main, [*command, "--latent-rank", "one"])
    assert wrong.exit_code == 2 and "--latent-rank one is not a whole number" in wrong.output


def test_a_wide_gap_proves_nothing_about_latent_variables():
    from jointglasso.blocks import build_system
    from jointglasso.problem import make_problem
    from jointglasso.screening.groups import class_blocks
    from jointglasso.solvers.latent import LatentProblem, low_rank_is_zero

    S = np.full((1, 6, 6), 0.28) + 0.72 * np.eye(6)
    problem = make_problem(S, 0.3, 0.0, penalize_diagonal=False)
    blocks = class_blocks(np.zeros((1, 6), dtype=np.int64), smallest=1)
    latent = LatentProblem(build_system(problem.source, blocks, problem.weights), problem.penalty, 0.0, 1.41)
    optimum = np.eye(6).ravel()  # of the dual problem without latent variables
    assert low_rank_is_zero(latent, optimum, 0.0)
    assert not low_rank_is_zero(latent, optimum, 0.01)
    assert not low_rank_is_zero(latent, optimum, np.inf)


@pytest.mark.parametrize("penalty", ["group", "laplacian"])
def test_whatever_stops_a_solve_what_it_leaves_is_definite(penalty):
    """The first steps may leave A - L without a determinant: then the solution without L is the better one."""
    for seed in range(20):
        rng = np.random.default_rng(seed)
        S = np.stack([np.cov(rng.standard_normal((7, 3))) for _ in range(4)])  # of rank two
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", jgl.ConvergenceWarning)
            found = jgl.solve(
                S, 0.34, 0.1, penalty=penalty, latent=2.7, weights=[270.0, 1.0, 0.01, 0.003], penalize_diagonal=False,
                solver="admm", max_iter=1, tol=1e-9,
            )  # fmt: skip
        assert np.isfinite(found.objective) and found.status.code != "tolerance"
        for A, L in zip(found.precision, found.low_rank.matrices, strict=True):
            assert np.linalg.eigvalsh(A.toarray() - L)[0] > 0.0


def test_variances_over_decades_take_no_more_iterations():
    """Units of variables change the problem (the trace of L), but not how hard it is to solve."""
    rng = np.random.default_rng(1)
    units = np.logspace(-1, 2, 12)
    X = [rng.normal(size=(60, 2)) @ rng.normal(size=(2, 12)) + rng.normal(size=(60, 12)) for _ in range(2)]
    S = [np.cov((one * units).T) for one in X]
    for lambda1, mu in ((0.1, 0.5), (10.0, 40.0)):
        solution = jgl.solve(S, lambda1, lambda1 / 2, latent=mu, max_iter=300)
        assert solution.status, solution.status.reason
        assert solution.low_rank.ranks != (0, 0)
