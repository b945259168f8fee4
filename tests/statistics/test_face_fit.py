"""Maximum likelihood with equal values kept equal, and criteria that count them once."""

from dataclasses import replace

import numpy as np
import pytest

from jointglasso import DenseCovariance, refit, solve
from jointglasso.selection.criteria import GraphSize, model_complexity
from jointglasso.solution import EdgeClusters

COMPLETE = np.array([[0, 1], [0, 2], [1, 2]])
SIZES = [40, 60, 100]


def problem(seed=0, p=6, n_edges=7, sizes=SIZES):
    """Covariances of three classes, and matrices with edges that are the same in some of them."""
    rng = np.random.default_rng(seed)
    S = [np.cov(rng.normal(size=(n, p)).T) for n in sizes]
    Theta = [2.0 * p * np.eye(p) for _ in range(3)]
    pairs = [(i, j) for i in range(p) for j in range(i)]
    for i, j in rng.permutation(pairs)[:n_edges]:
        pattern = rng.choice([(1, 1, 1), (1, 1, 2), (1, 0, 0), (0, 2, 2), (1, 2, 3)])
        for k, value in enumerate(pattern):
            Theta[k][i, j] = Theta[k][j, i] = 0.3 * value
    return DenseCovariance(S, sample_sizes=sizes), Theta


def solution_of(source, Theta, neighbours=COMPLETE):
    found = solve(source, 1.0, 0.0, tol=1e-2)
    sparse = [type(found.precision[0])(matrix) for matrix in Theta]
    return replace(found, precision=sparse, edge_clusters=EdgeClusters.of(sparse, neighbours))


def clarabel(source, solution):
    """The same likelihood with the same zeros and equalities, by cvxpy."""
    import cvxpy as cp

    p, same = source.n_variables, solution.edge_clusters
    X = [cp.Variable((p, p), symmetric=True) for _ in range(3)]
    cost = sum(n * (cp.trace(source.block(k, np.arange(p)) @ X[k]) - cp.log_det(X[k])) for k, n in enumerate(SIZES))
    support = [Theta.toarray() != 0 for Theta in solution.precision]
    where = [X[k][i, j] == 0 for k in range(3) for i in range(p) for j in range(i) if not support[k][i, j]]
    for (i, j), equal in zip(zip(same.rows, same.columns, strict=True), same.equal, strict=True):
        where += [X[k][i, j] == X[l_][i, j] for (k, l_), alike in zip(same.neighbours, equal, strict=True) if alike]
    cp.Problem(cp.Minimize(cost / 100), where).solve(solver=cp.CLARABEL)
    return [x.value for x in X]


@pytest.mark.parametrize("seed", range(4))
def test_against_clarabel(seed):
    source, Theta = problem(seed)
    solution = solution_of(source, Theta)
    found = refit(source, solution)
    assert not found.failures and found.residual.max() < 1e-8
    for mine, theirs in zip(found.precision, clarabel(source, solution), strict=True):
        assert mine.toarray() == pytest.approx(theirs, abs=2e-4)


def test_equal_values_stay_equal_and_zeros_zero():
    source, Theta = problem(5)
    solution = solution_of(source, Theta)
    after = EdgeClusters.of(refit(source, solution).precision, COMPLETE)
    assert after.equal.tolist() == solution.edge_clusters.equal.tolist()
    assert list(after.rows) == list(solution.edge_clusters.rows)


def test_without_equal_values_it_is_the_fit_of_each_class():
    source, Theta = problem(3)
    alone = solution_of(source, Theta, np.empty((0, 2), dtype=np.int64))
    expected = refit(source, replace(alone, edge_clusters=None)).precision
    for mine, theirs in zip(refit(source, alone).precision, expected, strict=True):
        assert mine.toarray() == pytest.approx(theirs.toarray(), abs=1e-10)


def test_variances_may_differ_between_classes():
    """Equality is on the scale of the data that were solved."""
    source, Theta = problem(1)
    scaled = DenseCovariance([source.block(k, np.arange(6)) * (10.0**k) for k in range(3)], sample_sizes=SIZES)
    found = refit(scaled, solution_of(scaled, Theta))
    assert EdgeClusters.of(found.precision, COMPLETE).equal.tolist() == EdgeClusters.of(Theta, COMPLETE).equal.tolist()


def test_no_maximum_is_told_and_a_ridge_helps():
    source, Theta = problem(0, p=6, n_edges=15, sizes=[3, 3, 3])
    solution = solution_of(source, Theta)
    with pytest.raises(ValueError, match="no maximum"):
        refit(source, solution)
    found = refit(source, solution, on_failure="ridge")
    assert found.failures and all(np.linalg.eigvalsh(Theta.toarray())[0] > 0 for Theta in found.precision)
    kept = refit(source, solution, on_failure="keep")
    assert kept.precision[0].toarray() == pytest.approx(Theta[0])


def price(criterion, solution, n, p):
    return model_complexity(criterion, GraphSize.of(solution.precision, n, solution.edge_clusters), len(n), p)


def test_a_shared_value_is_paid_for_once():
    Theta = [np.array([[2.0, a, 0.0], [a, 2.0, b], [0.0, b, 2.0]]) for a, b in ((0.5, 0.1), (0.5, 0.0), (0.4, 0.1))]
    source = DenseCovariance([np.eye(3)] * 3, sample_sizes=SIZES)
    complete, chain = (solution_of(source, Theta, equal) for equal in (COMPLETE, np.array([[0, 1], [1, 2]])))
    n = np.array(SIZES, dtype=float)
    assert price("aic", complete, n, 3) == 2 * 3
    assert price("aic", chain, n, 3) == 2 * 4  # times 0 and 2 are no neighbours
    assert price("bic", complete, n, 3) == pytest.approx(np.log(100) + np.log(100) + np.log(140))
    assert price("bic", replace(complete, edge_clusters=None), n, 3) == pytest.approx(
        2 * np.log(40) + np.log(60) + 2 * np.log(100)
    )
